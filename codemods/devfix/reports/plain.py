"""Frozen dataclasses as plain data, and back: all that is read is looked at, and nothing in it is ever run."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


class Damaged(ValueError):
    """Not what `plain` makes."""


def plain(value: Any) -> Any:
    """A dataclass as the list of its values; what is in it, too."""
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return int(value) if isinstance(value, IntEnum) else value


def made(kind: Any, data: Any) -> Any:
    """What `plain` has made `data` of, or `dataclasses.asdict`, as a `kind`.

    Raises Damaged, and KeyError or TypeError for names that are no fields, or too few of them.
    """
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return None if data is None else made(arguments[0], data)
    if get_origin(kind) is tuple:
        items = list_(data, -1 if arguments[-1] is Ellipsis else len(arguments))
        kinds = arguments[:1] * len(items) if arguments[-1] is Ellipsis else arguments
        return tuple(map(made, kinds, items))
    if hasattr(kind, "__dataclass_fields__"):
        hints = _hints(kind)
        named = data if isinstance(data, dict) else dict(zip(hints, list_(data, len(hints)), strict=True))
        return kind(**{name: made(hints[name], value) for name, value in named.items()})
    if issubclass(kind, IntEnum):
        if made(int, data) not in tuple(kind):
            raise Damaged
        return kind(data)
    if type(data) is not kind:
        raise Damaged(f"{data!r} is no {kind.__name__}")
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def list_(data: Any, length: int = -1) -> list[Any]:
    """A list, of that length if one is given; raises Damaged."""
    if not isinstance(data, (list, tuple)) or (length >= 0 and len(data) != length):
        raise Damaged
    return list(data)
