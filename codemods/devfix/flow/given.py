"""What the call sites of a function pass to it."""

from __future__ import annotations

from devfix.flow.lattice import Kind, Value, Where, join


def tells(value: Value) -> bool:
    """Is an argument worth a second look at the function?"""
    if value.kind is Kind.DEVICE:
        return value.parameter < 0
    if value.kind in (Kind.MODULE, Kind.LOADER):
        return value.parameter < 0 and value.place.where is not Where.UNKNOWN
    return value.kind in (Kind.TOKENIZER, Kind.OWNER)


def joined_arguments(calls: list[tuple[Value, ...]]) -> tuple[Value, ...] | None:
    """What all call sites of a function pass, position by position."""
    if not calls:
        return None
    joined = list(calls[0])
    for call in calls[1:]:
        for index, value in enumerate(call[: len(joined)]):
            joined[index] = join(joined[index], value)
    return tuple(joined)
