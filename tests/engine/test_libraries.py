"""The model of other packages against those of them that are installed; the others are skipped."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import random
from types import ModuleType
from typing import Any

import pytest
from devfix.models.loader import models
from later import torch

_OTHERS = ("torch.", "Tensor.", "backend.", "os.", "multiprocessing.")
ROWS = {name: row for name, row in models().rows.items() if not name.startswith(_OTHERS)}
MODULES = [(prefix, names) for prefix, names, form in models().modules if form == "module"]
PACKAGES = sorted(
    {name.partition(".")[0] for name in (*ROWS, *(prefix for prefix, _ in MODULES))} - {"torch"}
)
SAMPLE = 60  # classes of a package that are looked at: each may import files of its own
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "einops.rearrange": ("a b -> b a",),
    "einops.repeat": ("a b -> a b 2",),
    "einops.reduce": ("a b -> a", "sum"),
    "torchvision.transforms.functional.hflip": (),
    "torchvision.transforms.functional.vflip": (),
    "torchvision.transforms.functional.pad": (1,),
}


def imported(package: str, dotted: str) -> Any:
    """What a dotted name of a package is."""
    found: Any = pytest.importorskip(package)
    for part in dotted.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_are_modules(package: str) -> None:
    for prefix, names in MODULES:
        if not prefix.startswith(f"{package}."):
            continue
        place = imported(package, prefix[:-1])
        assert isinstance(place, ModuleType)
        known = [
            name
            for name in dir(place)
            if fnmatch.fnmatchcase(name, names) and models().layer(prefix + name) == "module"
        ]
        assert known, f"{prefix}{names} is nothing in {package}"
        for name in random.Random(0).sample(known, min(SAMPLE, len(known))):
            one = getattr(place, name)
            if isinstance(one, type) and "Dummy" not in type(one).__name__:
                # `AutoModel` is none itself: its `from_pretrained` makes one.
                is_module = issubclass(one, torch.nn.Module) or name.startswith("AutoModel")
                assert is_module, f"{prefix}{name}"


@pytest.mark.parametrize("package", sorted({name.partition(".")[0] for name in ROWS}))
def test_functions_are_there_and_follow_their_tensors(package: str) -> None:
    for name in (name for name in ROWS if name.startswith(f"{package}.")):
        if "*" in name:  # a method of several classes
            pattern, _, method = name.removeprefix(f"{package}.").rpartition(".")
            place = importlib.import_module(package)
            classes = [getattr(place, one) for one in dir(place) if fnmatch.fnmatchcase(one, pattern)]
            assert any(callable(getattr(one, method, None)) for one in classes), name
            continue
        function = imported(package, name)
        assert callable(function), name
        beside = ROWS[name].beside
        if beside is not None:
            assert list(inspect.signature(function.attribute).parameters)[beside[0] + 1] == beside[1], name
        if name in ARGUMENTS:
            made = function(torch.ones(4, 4, device="meta"), *ARGUMENTS[name])
            assert made.device.type == "meta", name
