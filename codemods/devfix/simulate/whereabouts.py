"""Which of the values that a line of the program names are on which device, when it has raised.

Looked up in the frame's variables and the attributes that objects really hold: no property and no
`__getattr__` of the program is called.
"""

from __future__ import annotations

import linecache
import re
from types import TracebackType
from typing import Any

_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MOST = 12  # values
_ITEMS = 50  # of a list or dict that are looked at
MISSING = object()


def at_line(trace: TracebackType) -> list[list[str]]:
    """Pairs of a value as the line writes it, and where it is."""
    frame = trace.tb_frame
    lines = _lines(trace)
    variables = {**frame.f_globals, **frame.f_locals}
    found: dict[str, str] = {}
    for name in _NAME.findall(" ".join(lines)):
        parts = name.split(".")
        value = variables.get(parts[0], MISSING)
        for number in range(1, len(parts) + 1):
            where = _where(value)
            if where:
                found.setdefault(".".join(parts[:number]), where)
            if number < len(parts):
                value = stored_attribute(value, parts[number])
    # `self` says nothing where `self.head` is known.
    longest = {name for name in found if any(other.startswith(f"{name}.") for other in found)}
    return [[name, where] for name, where in found.items() if name not in longest][:_MOST]


def _lines(trace: TracebackType) -> list[str]:
    """The source of the expression that raised; without positions, the line."""
    first = last = trace.tb_lineno
    positions = getattr(trace.tb_frame.f_code, "co_positions", None)
    if positions is not None:
        for number, position in enumerate(positions()):
            if number == trace.tb_lasti // 2:
                first, last = position[0] or first, position[1] or last
    path = trace.tb_frame.f_code.co_filename
    return [linecache.getline(path, line) for line in range(first, min(last, first + 20) + 1)]


def stored_attribute(value: Any, name: str) -> Any:
    """An attribute that is stored in the object, or in a module's own tables."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return MISSING
    if name in own:
        return own[name]
    for table in ("_parameters", "_buffers", "_modules"):
        items = own.get(table)
        if isinstance(items, dict) and name in items:
            return items[name]
    return MISSING


def _where(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return str(value.device)
    if isinstance(value, torch.nn.Module):
        tensors = [*value.parameters(), *value.buffers()]
        return _several({str(tensor.device) for tensor in tensors})
    if isinstance(value, torch._C.Generator):
        return str(value.device)
    if isinstance(value, dict):
        value = list(value.values())[:_ITEMS]
    if isinstance(value, (list, tuple)):
        return _several({str(item.device) for item in value[:_ITEMS] if isinstance(item, torch.Tensor)})
    return ""


def _several(devices: set[str]) -> str:
    return " and ".join(sorted(devices))
