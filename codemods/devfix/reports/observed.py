"""Device errors that a run has got past, as plain data: what the processes of the run tell of them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from devfix.reports.plain import made

REPORT = '{\n  "exit_code"'  # how the report of a run begins


@dataclass(frozen=True)
class At:
    """A line of the program. Lines from 1; columns of the running expression in bytes, -1 where not known."""

    path: str
    line: int
    end_line: int = 0
    column: int = -1
    end_column: int = -1
    function: str = ""

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.line


@dataclass(frozen=True)
class Operand:
    """A tensor of an operation that mixed devices, and what is known of its past.

    `stray` are those that were not where the operation was carried out. `name` is what the program calls it:
    `model.head.weight`; `owner` the class of the module that stores it as a plain attribute. Of what was `computed`
    from such an attribute they are those of the attribute. `given`: with --place all, the tests have handed it in.
    """

    device: str
    shape: tuple[int, ...]
    kind: str = "tensor"  # or "parameter", "buffer"
    stray: bool = False
    name: str = ""
    made: At | None = None
    moved: At | None = None
    stored: At | None = None
    owner: str = ""
    view: bool = False
    computed: bool = False
    given: bool = False


@dataclass(frozen=True)
class Copies:
    """Copies between a device and the CPU that a line makes again and again, `count` times in all.

    `same`: the same tensor is moved each time, unchanged in between; else a tensor of the device is read.
    """

    operation: str
    at: At
    device: str
    shape: tuple[int, ...]
    count: int
    same: bool


@dataclass(frozen=True)
class Compared:
    """A comparison of a device that can never hold: with a text (quoted), or with one that lacks an index."""

    at: At
    device: str
    other: str
    count: int


@dataclass(frozen=True)
class Found:
    """An expression of a line that is a stray (`operand` is its number), or that has it.

    `within`: "module", "items" and "values" for lists and dicts of nothing but tensors, or "source" for a tensor
    that the stray was computed from.
    """

    operand: int
    at: At
    within: str = ""


@dataclass(frozen=True)
class Passed:
    """A frame of the program's own. `devices`: how the target device can be written there."""

    at: At
    found: tuple[Found, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """A distinct error: `passed` are the frames, the innermost first, and `device` is where it was carried out."""

    operation: str
    error: str
    device: str
    operands: tuple[Operand, ...]
    passed: tuple[Passed, ...]
    count: int = 1

    @property
    def strays(self) -> tuple[Operand, ...]:
        return tuple(operand for operand in self.operands if operand.stray)

    @property
    def at(self) -> At | None:
        return self.passed[0].at if self.passed else None

    def each(self) -> tuple[Seen, ...]:
        """The error as that of one stray at a time; strays that come from the same lines are one."""
        made: dict[object, Seen] = {}
        for number, stray in enumerate(self.operands):
            if stray.stray:
                operands = tuple(replace(one, stray=one is stray) for one in self.operands)
                passed = tuple(
                    replace(one, found=tuple(found for found in one.found if found.operand == number))
                    for one in self.passed
                )
                lines = tuple(at and at.key for at in (stray.made, stray.stored))
                made.setdefault(lines, replace(self, operands=operands, passed=passed))
        return tuple(made.values()) or (self,)

    def places(self) -> Iterator[At]:
        """All lines that it names."""
        for one in self.operands:
            yield from (at for at in (one.made, one.moved, one.stored) if at is not None)
        for frame in self.passed:
            yield from (frame.at, *(found.at for found in frame.found))

    @property
    def key(self) -> tuple[object, ...]:
        """What makes an error distinct: operation, line, and the strays by where they come from."""
        strays = tuple((one.device, one.made and one.made.key, one.name) for one in self.strays)
        return self.operation, self.at and self.at.key, strays


def as_json(seen: Seen) -> dict[str, Any]:
    return asdict(seen)


def of_json(item: Mapping[str, Any]) -> Seen:
    """The inverse of `as_json`; raises Damaged, KeyError and TypeError for what is no such thing."""
    seen: Seen = made(Seen, {field.name: item[field.name] for field in fields(Seen)})
    return seen


class ObservedError(ValueError):
    """A text that is no report of a run; the message is for the user."""


def read(text: str) -> tuple[tuple[Seen, ...], dict[str, str]]:
    """The errors of a run, and the digests of the files that they name, as `devfix run --format json` prints them.

    The program's own output may come first. Raises ObservedError.
    """
    try:
        found = json.loads(text[max(text.rfind(REPORT), 0) :])
        seen = tuple(of_json(item) for item in found["errors"])
        files = {str(path): str(digest) for path, digest in found["files"].items()}
        for one in seen:
            _check(one)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError) as error:
        raise ObservedError(
            f"has no device errors of a run ({type(error).__name__}: {error}); "
            "`devfix run --keep-going --format json -o FILE` writes them"
        ) from error
    return seen, files


def _check(seen: Seen) -> None:
    """Raise ValueError or SyntaxError for what no run tells."""
    operands = range(len(seen.operands))
    for frame in seen.passed:
        for device in frame.devices:
            ast.parse(device, mode="eval")
        if any(found.operand not in operands for found in frame.found):
            raise ValueError("an operand that is not there")


def together(found: Sequence[Seen]) -> tuple[Seen, ...]:
    """Errors of several processes: equal ones once, with the sum of their counts."""
    made: dict[tuple[object, ...], Seen] = {}
    for seen in found:
        before = made.get(seen.key)
        made[seen.key] = seen if before is None else replace(before, count=before.count + seen.count)
    return tuple(made.values())


def files_of(found: Sequence[Seen]) -> list[str]:
    """The files that errors name."""
    return sorted({at.path for seen in found for at in seen.places()})
