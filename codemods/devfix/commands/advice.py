"""What devfix knows about a device error that a run has ended in, as lines for people.

What is where is what the process has told. Where it comes from, and the repair, is the static
analysis of the files that the error has passed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from devfix.codemod import Codemod, registry
from devfix.discover import Discovered
from devfix.findings import Safety
from devfix.report import PlacedFinding
from devfix.review.text import printable
from devfix.simulate.supervise import Frame, Raised

_MOST = 3  # findings
_FILES = 200
# What torch says where devices disagree, or where a device is not what an operation wants.
_DEVICE_ERROR = re.compile(
    r"(?:on|at) the same device|found at least two devices|device type for generator|be on same device"
    r"|Input type \(.*\) and (?:weight|bias) type|device type tensor to numpy"
    r"|indices should be either on|Attempting to deserialize object on"
    r"|to have its parameters and buffers on device|must have its parameters and buffers on device"
    r"|assign a gradient with device type|cannot pin '|Only dense CPU tensors can be pinned"
    r"|Cannot re-initialize CUDA in forked subprocess|invalid device ordinal|unsupported autocast device_type"
    r"|too many CPU scalars|cuda(?::\d+)? [!=]= (?:cuda|cpu)|cpu [!=]= cuda|not compiled with CUDA"
    r"|No backend type associated with device type"
)
_INSIDE = re.compile(r'^\s*File "([^"\n]+)", line (\d+), in (.+)$', re.MULTILINE)


def device_error(errors: Sequence[Raised]) -> Raised | None:
    """The exception among these that is about devices; a process passes on another one's as text."""
    kinds = tuple(registry().values())
    for raised in reversed(errors):  # the first cause is the last one
        if _DEVICE_ERROR.search(raised.error) or _explaining(raised.error, kinds):
            return raised
    return None


def _explaining(error: str, kinds: Sequence[type[Codemod]]) -> list[type[Codemod]]:
    """The codemods one of whose examples raises such an error."""
    return [
        kind
        for kind in kinds
        if any(example.raises and re.search(example.raises, error) for example in kind.examples)
    ]


def advice(raised: Raised, loaded: Sequence[str]) -> Iterator[str]:
    """Lines: what is where, the findings that may explain the error, and how to repair it.

    `loaded` are the program's files; they are looked at where the frames' own show nothing.
    """
    inner = [
        Frame(os.path.realpath(path), int(line), name) for path, line, name in _INSIDE.findall(raised.error)
    ]
    frames = [*raised.frames, *(frame for frame in inner if frame.path in {*loaded, *_paths(raised.frames)})]
    if raised.frames:
        at = raised.frames[-1]
        places = ", ".join(f"{value} is on {where}" for value, where in raised.values)
        yield printable(f"devices at {shown(at.path)}:{at.line}{f': {places}' if places else ''}")
    kinds = _explaining(raised.error, tuple(registry().values()))
    found = _ranked(_findings(_paths(frames), kinds), frames, raised)
    if not found:
        rest = [path for path in loaded if path not in _paths(frames) and _below(path)]
        found = _ranked(_findings(rest[:_FILES], kinds), frames, raised)
    if not found:
        yield "the analysis of its files finds nothing that explains this error"
    for path, finding in found[:_MOST]:
        yield from _lines(path, finding)


def _paths(frames: Sequence[Frame]) -> list[str]:
    return list(dict.fromkeys(frame.path for frame in reversed(frames)))


def _below(path: str) -> bool:
    return path.startswith(os.path.realpath(os.curdir) + os.sep)


def _findings(paths: Sequence[str], kinds: Sequence[type[Codemod]]) -> list[tuple[str, PlacedFinding]]:
    if not paths or not kinds:
        return []
    from devfix import engine

    report = engine.run(
        Discovered(tuple(paths)), tuple(kind() for kind in kinds), Safety.UNSAFE, repair=False, jobs=1
    )
    return [(result.path, finding) for result in report.results for finding in result.findings]


def _ranked(
    found: list[tuple[str, PlacedFinding]], frames: Sequence[Frame], raised: Raised
) -> list[tuple[str, PlacedFinding]]:
    """Those that name a value of the failing line first, then those nearest to a frame."""
    names = {name.rpartition(".")[2] for name, _ in raised.values} - {"self"}

    def key(item: tuple[str, PlacedFinding]) -> tuple[bool, int]:
        path, finding = item
        lines = [finding.place.line, *(other.line for other in finding.related if not other.path)]
        near = [abs(line - frame.line) for frame in frames if frame.path == path for line in lines]
        words = set(re.findall(r"\w+", " ".join([finding.message, *(r.message for r in finding.related)])))
        return not names & words, min(near, default=1 << 30)

    return sorted(found, key=key)


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
        yield "  no automatic repair" + (printable(f": {fix.title}") if fix is not None else "")
        return
    unsafe = " --unsafe" if fix.safety is Safety.UNSAFE else ""
    yield printable(f"  repair ({fix.safety.label}): {fix.title}")
    yield printable(f"    devfix apply --codemod {finding.codemod}{unsafe} {shlex.quote(name)}")


def shown(path: str) -> str:
    """A path as people write it from here."""
    here = os.path.realpath(os.curdir) + os.sep
    return path[len(here) :] if path.startswith(here) else path
