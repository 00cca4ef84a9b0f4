"""What devfix knows about a device error that a run has ended in, as lines for people.

What is where is what the process has told. Where it comes from, and the fix, is the static
analysis of the files that the error has passed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from devfix.codemod import registry
from devfix.errors.messages import Kind, kind_of
from devfix.findings import Safety
from devfix.pipeline.discover import Discovered
from devfix.reports.report import PlacedFinding
from devfix.review.device_errors import shown
from devfix.review.text import printable
from devfix.simulate.supervise import Raised

_MOST = 3  # findings
_FILES = 200
# What the kinds of `errors/messages.py` do not have: devices disagree, but no codemod fixes it.
_OTHERS = re.compile(
    r"(?:on|at) the same device|device type for generator|assign a gradient with device type"
    r"|dense CPU tensors can be pinned|Cannot re-initialize CUDA in forked subprocess"
    r"|too many CPU scalars|\bcuda(?::\d+)? [!=]= (?:cuda|cpu)|\bcpu [!=]= cuda"
)


def device_error(errors: Sequence[Raised]) -> Raised | None:
    """The exception among these that is about devices; of several, the first cause (the last one)."""
    for raised in reversed(errors):
        if kind_of(raised.error) is not None or _OTHERS.search(raised.error):
            return raised
    return None


def advice(raised: Raised, loaded: Sequence[str]) -> Iterator[str]:
    """Lines: what is where, the findings that may explain the error, and how to fix it.

    `loaded` are the program's files; they are looked at where the frames' own show nothing.
    """
    kind = kind_of(raised.error)
    if kind is not None:
        yield kind.meaning
    if raised.frames and raised.values:
        at = raised.frames[-1]
        places = ", ".join(f"`{value}` is on {where}" for value, where in raised.values)
        yield printable(f"{shown(at.path)}:{at.line}: {places}")
    found = _causes(raised, loaded, kind) if kind is not None else []
    if not found:
        yield "no codemod of devfix explains this error"
    for path, finding in found:
        yield from _lines(path, finding)


def _causes(raised: Raised, loaded: Sequence[str], kind: Kind) -> list[tuple[str, PlacedFinding]]:
    from devfix.errors.causes import explain
    from devfix.pipeline import runner

    codemods = [made for id, made in registry().items() if id in kind.codemods]
    passed = tuple(dict.fromkeys([*(frame.path for frame in raised.frames), *loaded]))
    explanation = explain(_traceback(raised), passed, [made() for made in codemods])
    if explanation.causes:
        return [(cause.path, cause.finding) for cause in explanation.causes]
    near = [path for path in passed if path.startswith(os.path.realpath(os.curdir) + os.sep)]
    report = runner.run(
        Discovered(tuple(near[:_FILES])), [made() for made in codemods], Safety.UNSAFE, repair=False, jobs=1
    )
    found = [(result.path, finding) for result in report.results for finding in result.findings]
    return sorted(found, key=lambda item: kind.codemods.index(item[1].codemod))[:_MOST]


def _traceback(raised: Raised) -> str:
    """As Python prints it; the frames of another process are in the error's own text."""
    frames = [f'  File "{frame.path}", line {frame.line}, in {frame.function}' for frame in raised.frames]
    return "\n".join(["Traceback (most recent call last):", *frames, raised.error])


def _lines(path: str, finding: PlacedFinding) -> Iterator[str]:
    name = shown(path)
    yield printable(
        f"{name}:{finding.place.line}:{finding.place.column}: {finding.codemod}: {finding.message}"
    )
    for other in finding.related:
        where = f"{shown(other.path or path)}:{other.line}: " if other.line else ""
        yield printable(f"  {where}{other.message}")
    fix = finding.fix
    if fix is None or fix.safety is Safety.MANUAL:
        yield "  no automatic fix" + (printable(f": {fix.title}") if fix is not None else "")
        return
    unsafe = " --unsafe" if fix.safety is Safety.UNSAFE else ""
    yield printable(f"  fix ({fix.safety.label}): {fix.title}")
    yield printable(f"    devfix apply --codemod {finding.codemod}{unsafe} {shlex.quote(name)}")
