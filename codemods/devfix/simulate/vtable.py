"""Virtual functions of C++ objects: which slot is which, read from the headers in torch's wheel.

For the Itanium ABI (Linux): one table of functions, a destructor takes two slots, and before
the first function stand two words (offset to the top, type information).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devfix.simulate.errors import CannotSimulate

WORD = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2  # words before the first function
_VIRTUAL = re.compile(r"\bvirtual\s+(?:[\w:*&<>\s]*?[\s*&])?(~?\w+)\s*\(")

# What C++ points at must outlive everything: it stays until the process ends.
_kept: list[object] = []


def keep(*things: object) -> None:
    _kept.extend(things)


def virtual_functions(header: Path, struct: str) -> list[str]:
    """The names that a struct declares `virtual`, in order; raises CannotSimulate."""
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        raise CannotSimulate(f"cannot read {header}: {error}") from error
    found = re.search(r"struct \w+_API " + struct + r"\b[^{;]*\{(.*?)\n\};", text, re.DOTALL)
    if found is None:
        raise CannotSimulate(f"{struct} is not declared in {header.name} as expected")
    body = re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.DOTALL)
    body = re.sub(r"//[^\n]*", "", body)
    body = re.sub(r"^\s*#ifdef USE_ROCM\n.*?^\s*#endif\b", "", body, flags=re.DOTALL | re.MULTILINE)
    body = re.sub(r"^\s*#.*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"C10_DIAGNOSTIC_\w+(\([^)]*\))?", "", body)
    return _VIRTUAL.findall(body)


def number(*classes: list[str]) -> tuple[dict[str, int], int]:
    """Slot of every function, and how many slots there are, of a base class and its derived one."""
    slots: dict[str, int] = {}
    size = 0
    for level, names in enumerate(classes):
        for name in names:
            destructor = name.startswith("~")
            if level and (destructor or name in slots):
                continue  # overridden: it has the slot of the base class
            slots[name] = size
            size += 2 if destructor else 1
    return slots, size


def _executable() -> list[tuple[int, int]]:
    """Where this process has code in memory."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, permissions = line.split(maxsplit=2)[:2]
            if "x" in permissions:
                start, end = addresses.split("-")
                found.append((int(start, 16), int(end, 16)))
    return found


class VTable:
    """The functions of the object at an address; raises CannotSimulate if they are not so many."""

    def __init__(self, address: int, slots: Mapping[str, int], size: int) -> None:
        self.address = address
        self.slots = slots
        self.size = size
        self._first = ctypes.c_void_p.from_address(address).value or 0
        self._functions = (ctypes.c_void_p * size).from_address(self._first)
        code = _executable()
        for slot, function in enumerate(self._functions):
            if not any(start <= (function or 0) < end for start, end in code):
                raise CannotSimulate(f"slot {slot} of {size} holds no function, so the headers do not fit")

    def call(self, name: str, prototype: Any) -> Any:
        """What the object's own function of that name returns; it must take no arguments."""
        return prototype(self._functions[self.slots[name]])(self.address)

    def function(self, name: str) -> int:
        """Address of the object's own function of that name."""
        return self._functions[self.slots[name]] or 0

    def clone(self, replaced: Mapping[str, Any]) -> int:
        """Address of the first function of a copy in which some functions are others.

        A replacement is a ctypes callback or an address; a name that this torch lacks is left out.
        """
        copy = (ctypes.c_void_p * (self.size + _BEFORE))()
        before = (ctypes.c_void_p * _BEFORE).from_address(self._first - _BEFORE * WORD)
        for index in range(_BEFORE):
            copy[index] = before[index]
        for index in range(self.size):
            copy[index + _BEFORE] = self._functions[index]
        for name, function in replaced.items():
            if name in self.slots:
                address = (
                    function if isinstance(function, int) else ctypes.cast(function, ctypes.c_void_p).value
                )
                copy[self.slots[name] + _BEFORE] = address
        keep(replaced, copy)
        return ctypes.addressof(copy) + _BEFORE * WORD

    def clone_object(self, replaced: Mapping[str, Any]) -> int:
        """Address of a new object without fields whose functions are such a copy."""
        made = (ctypes.c_void_p * 2)()
        made[0] = self.clone(replaced)
        keep(made)
        return ctypes.addressof(made)
