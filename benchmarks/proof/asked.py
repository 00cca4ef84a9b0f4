"""What devfix says of a program: the engine alone, the old rules alone, and both together."""

from __future__ import annotations

import ast
import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from devfix.checkers import inputs, mismatches, surgeries
from devfix.codemod import registry
from devfix.engine import File, analyse
from devfix.engine.analysis import Analysis
from devfix.engine.files import Resolver
from devfix.findings import Finding
from devfix.pipeline.around import Around
from devfix.pipeline.work import Task
from devfix.reports.report import PlacedFinding
from devfix.text.source import Source

from proof.simulated import MAIN, Program

WAYS = ("engine", "old rules", "both")


@dataclass(frozen=True)
class Spoken:
    """A finding: whose it is, and the lines that it points to."""

    codemod: str
    lines: frozenset[int]
    message: str = ""


def resolver(modules: Mapping[str, Source]) -> Resolver:
    """For the engine: what imported names are in the modules beside a program."""
    files: dict[str, File] = {}

    def resolve(path: str, dotted: str) -> tuple[File, str] | None:
        module, _, name = dotted.lstrip(".").rpartition(".")
        if module not in modules:
            return None
        if module not in files:
            files[module] = File(f"{module}.py", modules[module], resolve)
        return files[module], name

    return resolve


def analysed(program: Program, name: str = MAIN) -> Analysis:
    """The engine's facts of one file of a program."""
    modules = {one: Source(text) for one, text in program.modules.items()}
    modules[MAIN.removesuffix(".py")] = Source(program.text)
    return analyse(name, modules[name.removesuffix(".py")], resolver(modules))


def by_engine(program: Program) -> list[Spoken]:
    """What the engine alone finds."""
    found: list[Spoken] = []
    for name in (MAIN, *(f"{one}.py" for one in program.modules)):
        analysis = analysed(program, name)
        source = analysis.file.source
        found += [_spoken(one, source) for one, _ in mismatches.found(analysis, mismatches.CODEMODS)]
        found += [_spoken(one, source) for one in inputs.findings(analysis)]
        for read in analysis.host_reads:
            found.append(Spoken("host read", _lines(read.node), read.operation))
        found += [_spoken(one, source) for one in surgeries.findings(analysis)]
    return found


def by_devfix(program: Program, *, engine: bool = True) -> list[Spoken]:
    """What `devfix check` finds; without the engine: the old rules alone. Raises RuntimeError if it fails."""
    codemods = [kind() for kind in registry().values() if kind.id != "assert-device"]
    texts = {MAIN: program.text, **{f"{name}.py": text for name, text in program.modules.items()}}
    found: list[PlacedFinding] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as changed:
        if not engine:
            changed.enter_context(mock.patch.object(mismatches, "besides", lambda *_: ()))
        Path(folder, "pyproject.toml").touch()
        for name, text in texts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        around = Around(folder).anew() if program.modules else None
        for name in texts:
            result = Task(tuple(codemods), repair=False, around=around).file(str(Path(folder, name)))
            if result.error is not None:
                raise RuntimeError(result.error.message)
            found += result.findings
    return [
        Spoken(
            one.codemod,
            frozenset(
                [*range(one.place.line, one.place.end_line + 1), *(r.line for r in one.related if not r.path)]
            ),
            one.message,
        )
        for one in found
    ]


def _lines(node: ast.AST) -> frozenset[int]:
    return frozenset({getattr(node, "lineno", 0)})


def by(way: str, program: Program) -> list[Spoken]:
    """What one of `WAYS` finds."""
    return by_engine(program) if way == "engine" else by_devfix(program, engine=way == "both")


def _spoken(finding: Finding, source: Source) -> Spoken:
    lines: set[int] = set()
    for span in (finding.span, *(one.span for one in finding.related if not one.path)):
        lines.update(
            range(source.position(span.start)[0], source.position(max(span.start, span.end - 1))[0] + 1)
        )
    return Spoken(finding.codemod, frozenset(lines), finding.message)
