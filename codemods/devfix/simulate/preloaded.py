"""Modules that a process has loaded before its program has asked for them, and gives when it does.

Until then they are not in `sys.modules`, so that the program sees what it would see in a process that has loaded
nothing. What was loaded is right only if the program would load the same: if it finds another module of that name
first, or has changed what is read of the environment then, it needs a process of its own.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Beginnings of the names of what torch, numpy and their libraries read when they are loaded.
_EARLY = (
    "ATEN_", "BLIS_", "DNNL_", "GOMP_", "GOTO_", "KMP_", "LD_", "MALLOC_", "MKL_", "NPY_", "NUMPY", "OMP_",
    "ONEDNN_", "OPENBLAS_", "PYTORCH_", "TORCH",
)  # fmt: skip


@dataclass(frozen=True)
class Before:
    """What a process has before it loads them."""

    modules: frozenset[str]
    filters: tuple[Any, ...]  # of warnings

    @classmethod
    def now(cls) -> Before:
        return cls(frozenset(sys.modules), tuple(warnings.filters))


def put_by(before: Before, stale: Callable[[str], object]) -> None:
    """Take the modules away that have been loaded since then, but devfix's own.

    `stale` is called with the reason where they are not what the program would load.
    """
    kept = {}
    for name in [*sys.modules]:  # Python takes them apart in this order when it ends
        if name not in before.modules and name.partition(".")[0] != "devfix":
            kept[name] = sys.modules.pop(name)
    filters = [one for one in warnings.filters if one not in before.filters]
    _set_filters(before.filters)
    sys.meta_path.insert(0, _Preloaded(kept, filters, stale))


def _set_filters(filters: Sequence[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    with warnings.catch_warnings():  # which tells Python of it
        pass


class _Preloaded(importlib.abc.MetaPathFinder):
    def __init__(
        self, kept: dict[str, ModuleType], filters: list[Any], stale: Callable[[str], object]
    ) -> None:
        self.kept = kept
        self.filters = filters
        self.stale = stale
        self.environment = early()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self.kept.get(fullname)
        if module is None or module.__spec__ is None:
            return None
        if fullname == "torch":
            if self.environment != early():
                self.stale("the program changes the environment before it imports torch")
            for name, one in self.kept.items():  # torch would load them
                parent, _, _ = name.rpartition(".")
                if parent not in self.kept and one.__spec__ is not None:
                    self.found(name, one.__spec__, getattr(sys.modules.get(parent), "__path__", None))
        found = self.found(fullname, module.__spec__, path)
        if found is not None:
            found.loader = _Giving(module, module.__spec__, lambda: self.give(fullname))
        return found

    def found(self, name: str, spec: ModuleSpec, path: Sequence[str] | None) -> ModuleSpec | None:
        """As the other finders find it."""
        if name in sys.modules:
            self.stale(f"the program has replaced the module {name}")
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path)
            if found is not None:
                if found.origin != spec.origin:
                    self.stale(f"the program has a module {name} of its own")
                return found
        return None

    def give(self, name: str) -> None:
        """What has come with it, too; from now on it is the program's affair."""
        if self.filters and name.partition(".")[0] not in sys.stdlib_module_names:
            _set_filters([*self.filters, *warnings.filters])
            self.filters = []
        for other in [*self.kept]:
            if name == "torch" or f"{other}.".startswith(f"{name}."):
                sys.modules.setdefault(other, self.kept.pop(other))
        if not self.kept:
            sys.meta_path.remove(self)


class _Giving(importlib.abc.Loader):
    def __init__(self, module: ModuleType, spec: ModuleSpec, give: Callable[[], None]) -> None:
        self.module, self.spec, self.give = module, spec, give

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        self.give()


def early() -> dict[str, str]:
    """What they read of the environment."""
    return {name: value for name, value in os.environ.items() if name.startswith(_EARLY)}
