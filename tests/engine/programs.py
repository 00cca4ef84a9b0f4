"""Small programs with marked lines, and what the engine makes of them.

In the tables of the tests `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import dedent

from devfix import flow
from devfix.checkers import inputs, mismatches
from devfix.checkers.besides import CODEMODS, besides
from devfix.engine import File, analyse
from devfix.engine.analysis import Analysis
from devfix.findings import Finding
from devfix.rules.lengths_on_cpu import LengthsOnCpu
from devfix.rules.numpy_of_device import NumpyOfDevice
from devfix.text.source import Source

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def marked(code: str) -> tuple[str, set[int]]:
    """A program without its marks, and the lines that had one, counted from its first."""
    lines = dedent(code).strip("\n").split("\n")
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith("  # <")}
    return "\n".join(line.removesuffix("  # <") for line in lines) + "\n", wanted


def analysed(code: str, others: dict[str, str] | None = None) -> Analysis:
    """The facts of a program below `HEAD`; `others` are the modules that it imports from."""
    files = {name: File(f"{name}.py", Source(HEAD + dedent(text))) for name, text in (others or {}).items()}

    def resolve(path: str, dotted: str) -> tuple[File, str] | None:
        module, _, name = dotted.rpartition(".")
        return (files[module], name) if module in files else None

    return analyse("main.py", Source(HEAD + code), resolve)


def lines_of(analysis: Analysis, found: Iterable[Finding]) -> set[int]:
    """The lines of findings, counted from the first one below `HEAD`."""
    position, start = analysis.file.source.position, HEAD.count("\n")
    return {position(one.span.start)[0] - start for one in found}


def spoken(head: str, code: str) -> set[int]:
    """The lines of a program that the engine has findings for, of any codemod, counted from its first below `head`."""
    source = Source(head + code)
    found = flow.analyse(source)
    every = [*besides(found, CODEMODS, ()), *LengthsOnCpu().check(found), *NumpyOfDevice().check(found)]
    every += inputs.findings(found.facts())
    return {source.position(one.span.start)[0] - head.count("\n") for one in every}


def strays(analysis: Analysis) -> list[Finding]:
    """The findings for values that stray."""
    return [finding for finding, _ in mismatches.found(analysis, mismatches.CODEMODS)]
