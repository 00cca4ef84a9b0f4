"""The tables of `devfix.models.torch_api` against the torch that is installed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devfix.models import torch_api
from later import torch

# Factories by their shape alone, left out because hardly a program has them.
RARE_FACTORIES = {
    "empty_quantized", "from_file", "sparse_bsc_tensor", "sparse_bsr_tensor",
    "sparse_compressed_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
}  # fmt: skip
# `device=` is not what says where their result is, or there is a tensor to take it from.
NO_FACTORIES = {"normal"}
# Arrays have them as well, and a value that is known by its uses only is not `sure`.
SHARED_WITH_ARRAYS = {"argmax", "flatten", "item", "size", "squeeze", "transpose", "view"}
TABLES = [
    "FACTORIES", "KEEP_DATA", "LEGACY", "LEGACY_CUDA", "BARE_MODULES", "WEIGHTED_LOSSES", "CONTAINERS", "PARAMETERS",
    "MODULE_BASES", "AVAILABLE",
]  # fmt: skip
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "torch.nn.Unflatten": (1, (1, 1)),
    "torch.nn.PixelShuffle": (2,),
    "torch.nn.PixelUnshuffle": (2,),
    "torch.nn.FractionalMaxPool2d": (2, 1),
    "torch.nn.FractionalMaxPool3d": (2, 1),
}


def find(qualified: str) -> Any:
    """The object of that name; fails if there is none."""
    parts = qualified.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        assert found is not None, f"{qualified} is not in torch {torch.__version__}"
        return found
    raise AssertionError(f"cannot import any of {qualified}")


def in_torch(names: Any) -> list[str]:
    return sorted(name for name in names if name.startswith("torch."))


def make(qualified: str) -> torch.nn.Module:
    """A module with as few arguments as it takes."""
    kind = find(qualified)
    for arguments in (ARGUMENTS[qualified],) if qualified in ARGUMENTS else ((), (1,), (1, 1)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return kind(*arguments)
        except TypeError:
            continue
    raise AssertionError(f"{qualified} takes other arguments")


def state(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


@cache
def signatures() -> dict[str, set[str]]:
    """Parameters of each `torch.*` function, over all its overloads, as torch's own stubs have them."""
    stubs = Path(torch.__file__).parent / "_C" / "_VariableFunctions.pyi"
    found: dict[str, set[str]] = {}
    for node in ast.parse(stubs.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
            found.setdefault(node.name, set()).update(names)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_every_name_of_torch_exists(table: str) -> None:
    names = in_torch(getattr(torch_api, table))
    assert names
    for name in names:
        find(name)


def test_the_tables_of_names_are_all_checked() -> None:
    """A new table of qualified names must be added to `TABLES`."""
    tables = {name for name, table in vars(torch_api).items() if isinstance(table, (frozenset, dict))}
    assert {name for name in tables if in_torch(getattr(torch_api, name))} == set(TABLES)


# --- factories -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(torch_api.FACTORIES))
def test_factory_takes_a_device(name: str) -> None:
    if name.count(".") > 1:  # not in the stub that `signatures` reads
        assert find(name)(4, device="meta").device.type == "meta"  # type: ignore[operator]
    else:
        assert "device" in signatures()[name.removeprefix("torch.")]


def test_no_factory_is_missing() -> None:
    """What takes `device=` and no tensor to take it from is in the table, or left out on purpose."""
    for name, parameters in signatures().items():
        if name.startswith("_") or "device" not in parameters or {"input", "self"} & parameters:
            continue
        if name not in RARE_FACTORIES | NO_FACTORIES:
            assert f"torch.{name}" in torch_api.FACTORIES
    assert signatures().keys() >= RARE_FACTORIES | NO_FACTORIES


@pytest.mark.parametrize("name", sorted(torch_api.KEEP_DATA))
def test_keeps_the_device_of_its_data(name: str) -> None:
    assert name in torch_api.FACTORIES
    assert find(name)(torch.empty(1, device="meta")).device.type == "meta"
    assert find(name)([1.0]).device.type == "cpu"


def test_other_factories_make_their_result_where_the_default_is() -> None:
    with torch.device("meta"):
        for name in ("zeros", "ones", "empty", "rand", "randn", "arange", "eye", "hann_window", "randperm"):
            assert getattr(torch, name)(3).device.type == "meta"


@pytest.mark.parametrize("name", sorted(torch_api.LEGACY))
def test_legacy_constructors_are_on_the_cpu(name: str) -> None:
    assert find(name)(1).device.type == "cpu"


def test_data_of_the_host_is_on_the_cpu() -> None:
    assert torch.from_numpy(np.zeros(1)).device.type == "cpu"
    assert torch.frombuffer(bytearray(8), dtype=torch.int64).device.type == "cpu"


# --- attributes and methods ------------------------------------------------------------------


def test_methods_of_tensors_exist() -> None:
    for name in torch_api.TENSOR_ONLY:
        assert hasattr(torch.Tensor, name), name


def test_tensor_only_names_are_no_names_of_others() -> None:
    for name in torch_api.TENSOR_ONLY:
        for kind in (torch.nn.Module, str, bytes, list, tuple, dict, set, int, float):
            assert not hasattr(kind, name), f"{kind.__name__}.{name}"
        if hasattr(np.ndarray, name):
            assert name in SHARED_WITH_ARRAYS


def test_module_only_names_are_of_modules_only() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    for name in torch_api.MODULE_ONLY:
        assert hasattr(torch.nn.Module, name), name
        assert not hasattr(torch.Tensor, name), name
        assert not hasattr(optimizer, name), name


# --- modules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", in_torch(torch_api.BARE_MODULES))
def test_bare_module_has_no_tensors(name: str) -> None:
    assert not state(make(name))


@pytest.mark.parametrize("name", sorted(torch_api.WEIGHTED_LOSSES))
def test_weighted_loss_has_a_tensor_only_if_given_one(name: str) -> None:
    assert not state(make(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `NLLLoss2d` is deprecated
        assert state(find(name)(weight=torch.ones(2)))


def test_containers_are_modules() -> None:
    for name in torch_api.CONTAINERS:
        assert issubclass(find(name), torch.nn.Module)
    for name in torch_api.MODULE_BASES:
        assert find(name) is torch.nn.Module
    for name in torch_api.PARAMETERS:
        assert find(name) is torch.nn.Parameter


def test_calls_that_change_the_default_device_are_known() -> None:
    for call in torch_api.DEFAULT_DEVICE_CALLS:
        find(f"torch.{call.removesuffix('(')}")
