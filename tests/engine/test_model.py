"""The library model against the torch that is installed."""

from __future__ import annotations

import importlib
import inspect
import json
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devfix.models.loader import TENSOR_METHOD, Row, models, module_attributes
from later import torch

ROWS = models().rows
OF_TORCH = {name: row for name, row in ROWS.items() if name.startswith("torch.")}
METHODS = {
    name.removeprefix(TENSOR_METHOD): row for name, row in ROWS.items() if name.startswith(TENSOR_METHOD)
}
# What makes a tensor needs arguments of its own.
ARGUMENTS = {
    "full": ((2,), 0.0), "eye": (2,), "randint": (3, (2,)), "empty_strided": ((2,), (1,)), "linspace": (0, 1, 2),
    "empty_permuted": ((2,), (0,)), "logspace": (0, 1, 2), "normal": (0.0, 1.0, (2,)), "tril_indices": (2, 2),
    "triu_indices": (2, 2), "tensor": ([1.0],), "as_tensor": ([1.0],), "asarray": ([1.0],), "scalar_tensor": (1.0,),
    "sparse_coo_tensor": ([[0]], [1.0], (2,)), "range": (0, 1),
}  # fmt: skip


def found(name: str) -> object:
    value: object = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


# What the oldest torch that is supported does not have yet.
NEWER = (
    "torch.accelerator.",
    "torch.distributed.all_gather_single",
    "torch.distributed.reduce_scatter_single",
    "torch.distributed.gather_single",
    "torch.distributed.gather_into_tensor",
)


def test_the_names_are_torchs() -> None:
    for late in ("torch.distributed.fsdp", "torch.nn.utils.rnn", "torch.utils.model_zoo"):
        importlib.import_module(late)
    there = [name for name in sorted(OF_TORCH) if not name.startswith(NEWER) or _has(name)]
    assert [name for name in there if not callable(found(name))] == []


def _has(name: str) -> bool:
    try:
        found(name)
    except AttributeError:
        return False
    return True


def test_the_collectives_are_torchs() -> None:
    """What may run beside the program and takes tensors, or sends one; objects go over the current device."""
    public = {
        name: inspect.signature(getattr(torch.distributed, name)).parameters
        for name in torch.distributed.distributed_c10d.__all__
        if inspect.isfunction(getattr(torch.distributed, name, None))
    }
    tensors = {name for name, given in public.items() if {"group", "async_op"} <= set(given)} - {"barrier"}
    tensors |= {name for name in ("send", "recv", "isend", "irecv") if "tensor" in public[name]}
    objects = {name for name, given in public.items() if "group" in given and "object" in name}
    prefix = "torch.distributed."
    for form, names in (("collective", tensors), ("current", objects)):
        listed = {name.removeprefix(prefix) for name, row in ROWS.items() if row.form == form and _has(name)}
        assert listed == names


def test_devices_of_processes_are_torchs() -> None:
    joins = inspect.signature(torch.distributed.init_process_group).parameters
    assert [*joins][:5:4] == ["backend", "rank"] and "device_id" in joins
    accelerators = {
        backend
        for device, backend in torch.distributed.Backend.default_device_backend_map.items()
        if device != "cpu"
    }
    rows = {name.removeprefix("backend.") for name, row in ROWS.items() if row.form == "accelerator"}
    assert "nccl" in accelerators & rows and "gloo" not in rows


def test_what_takes_the_type_of_a_device_has_that_argument() -> None:
    for name, row in OF_TORCH.items():
        taken = found(name) if row.type is not None and _has(name) else None
        if inspect.isclass(taken) or inspect.isfunction(taken):  # those of C++ say nothing of their arguments
            position, argument = row.type or (-1, "")
            names = list(inspect.signature(taken).parameters)
            assert names.index(argument) == position if position >= 0 else argument in names


def test_what_loads_takes_a_place() -> None:
    for name, row in OF_TORCH.items():
        if row.form == "load":
            assert row.place is not None
            assert list(inspect.signature(found(name)).parameters).index(row.place[1]) == row.place[0]


def test_keywords_that_are_numbers_are_torchs() -> None:
    """Of what refuses tensors without dimensions: bounds and operands, which may be numbers, are none of them."""
    named: set[str] = set()
    for name in (name for name, row in ROWS.items() if row.strict):
        last = name.rpartition(".")[2]
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{last}"):
            if "Scalar" not in schema.overload_name:
                named |= {one.name for one in schema.arguments if re.search("number|float", str(one.type))}
        function = (
            getattr(torch.nn.functional, last, None) if name.startswith("torch.nn.functional.") else None
        )
        given = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
        named |= {one.name for one in given if "float" in str(one.annotation)}
    assert named - {"min", "max", "a", "b"} == models().scalars


def test_the_methods_are_those_of_tensors() -> None:
    assert [name for name in sorted(METHODS) if not hasattr(torch.Tensor, name)] == []


@pytest.mark.parametrize(
    "name", sorted(name for name, row in OF_TORCH.items() if row.form in ("make", "data"))
)
def test_what_makes_a_tensor_takes_a_device(name: str) -> None:
    make, last = found(name), name.rpartition(".")[2]
    assert callable(make)
    assert make(*ARGUMENTS.get(last, (2,)), device="meta").device.type == "meta"


def test_what_refuses_a_device_has_no_such_argument() -> None:
    """By the schemas of all overloads; functions that are written in Python have a signature."""
    import inspect

    taking = []
    for name in (name for name in OF_TORCH if models().refuses_device(name)):
        function, last = found(name), name.rpartition(".")[2]
        assert callable(function)
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{last}")
        arguments = {one.name for schema in schemas for one in schema.arguments}
        if inspect.isfunction(function):
            arguments = set(inspect.signature(function).parameters)
        if "device" in arguments:
            taking.append(name)
    assert taking == []


def test_the_attributes_are_those_of_modules() -> None:
    named = {name for name in dir(torch.nn.Module()) if not name.startswith("__")}
    assert named - module_attributes() == set()


@pytest.mark.parametrize("name", sorted(name for name, row in OF_TORCH.items() if row.form == "like"))
def test_what_makes_its_like_stays_there(name: str) -> None:
    make, last = found(name), name.rpartition(".")[2]
    assert callable(make)
    more = {"full_like": (0.0,), "randint_like": (3,)}.get(last, ())
    assert make(torch.zeros(2, device="meta"), *more).device.type == "meta"
    assert make(torch.zeros(2, device="meta"), *more, device="cpu").device.type == "cpu"


@pytest.mark.parametrize("name", sorted(name for name, row in OF_TORCH.items() if row.pairs))
def test_what_pairs_gives_two_that_have_no_device_together(name: str) -> None:
    reduce: Any = found(name)
    made = reduce(torch.zeros(2, 2), 1)
    assert isinstance(made, tuple) and len(made) == 2 and not hasattr(made, "device")


@pytest.mark.parametrize("name", sorted(name for name, row in OF_TORCH.items() if row.packs))
def test_what_packs_gives_what_has_no_device(name: str) -> None:
    rows = torch.zeros(2, 2)
    pack: Any = found(name)
    made = pack([rows]) if name.endswith("pack_sequence") else pack(rows, torch.tensor([2, 2]))
    assert isinstance(made, torch.nn.utils.rnn.PackedSequence) and not hasattr(made, "device")


@pytest.mark.parametrize(
    "name", sorted(name for name, row in OF_TORCH.items() if row.form in ("bare", "loss"))
)
def test_layers_without_a_place_have_nothing_to_move(name: str) -> None:
    """They hold neither parameters nor buffers, unless weights are given to them."""
    layer = found(name)
    assert isinstance(layer, type)
    needed = [
        one
        for one in inspect.signature(layer).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    if name.startswith("torch.nn.FractionalMaxPool"):
        needed.append(inspect.signature(layer).parameters["output_size"])
    values = {"dim": 1, "unflattened_size": (1,), "upscale_factor": 2, "downscale_factor": 2, "groups": 1}
    made = layer(*(values.get(one.name, 2) for one in needed))
    assert not list(made.parameters()) and not list(made.buffers())


def told(row: Row, kind: str) -> bool | None:
    """Does the model say that an operand on the CPU, beside others on a device, is refused? None: it says nothing."""
    if row.form in ("same", "elems", "loss"):
        return True if kind == "stray" else row.strict
    return False if row.form in ("follow", "number") else None


def test_strays_are_refused_where_the_model_says_so() -> None:
    """A row that says `same` where torch does not mind would be a false alarm everywhere; a real GPU was asked."""
    checked, wrong = 0, []
    for path in sorted((Path(__file__).parent.parent / "simulate" / "recorded").glob("*.json")):
        for name, words in json.loads(path.read_text()).get("operators", {}).items():
            for row in (OF_TORCH.get(f"torch.{name.removeprefix('module ')}"), METHODS.get(name)):
                for kind, refused in kinds(words).items() if row is not None else ():
                    expected = told(row, kind)
                    checked += expected is not None
                    if expected is None or refused == expected:
                        continue
                    if name == "nn.functional.multi_head_attention_forward":
                        continue  # its weights are given twice, and half of them are empty
                    if kind == "zero" and not expected:
                        continue  # the model is silent of these: nothing false is said
                    wrong.append((name, kind, row, words))
    assert checked > 150
    assert not wrong


def kinds(words: str) -> dict[str, bool]:
    """Is an operand on the CPU refused beside others on the device: one with dimensions, and one without?"""
    seen: dict[str, set[str]] = {}
    for place, _, what in (one.partition(" ") for one in words.split(", ")):
        if place[:1] in ("1", "2") and not place.endswith("!"):
            seen.setdefault("zero" if place.endswith("z") else "stray", set()).update(what.split("/"))
    return {kind: bool(what & {"same", "device"}) for kind, what in seen.items()}


@pytest.mark.parametrize("name", sorted(models().filled))
def test_arrays_of_numpy_that_have_dimensions_of_a_list(name: str) -> None:
    numpy = pytest.importorskip("numpy")
    assert getattr(numpy, name.removeprefix("numpy."))([2]).ndim > 0


@pytest.mark.parametrize("name", sorted(models().extents))
def test_arrays_of_numpy_that_have_the_dimensions_they_are_told(name: str) -> None:
    numpy = pytest.importorskip("numpy")
    function, at = operator.attrgetter(name.removeprefix("numpy."))(numpy), models().extents[name]
    more = (0.0,) if name == "numpy.full" else ()
    assert function(*range(1, at + 1), 2, *more).shape == (2,)


@pytest.mark.parametrize("name", sorted(models().keeps_shape))
def test_methods_of_arrays_that_keep_their_shape(name: str) -> None:
    arguments = {"astype": ("float32",), "clip": (0, 1)}
    assert getattr(np.ones((2, 3)), name)(*arguments.get(name, ())).shape == (2, 3)


@pytest.mark.parametrize("name", sorted(models().shaped))
def test_arrays_of_numpy_that_have_dimensions(name: str) -> None:
    numpy = pytest.importorskip("numpy")
    function = getattr(numpy, name.removeprefix("numpy."))
    made = 0
    for arguments in ((1,), (0, 1), (1.0, 2.0, 1), ([1.0],), ([[1.0]],)):
        try:
            array = function(*arguments)
        except (TypeError, ValueError):
            continue
        assert all(one.ndim > 0 for one in (array if isinstance(array, (list, tuple)) else [array]))
        made += 1
    assert made


@pytest.mark.parametrize("name", sorted(models().sized))
def test_the_first_arguments_of_a_layer_are_sizes(name: str) -> None:
    """Two numbers do, and no tensor with dimensions does in the place of one."""
    layer = getattr(torch.nn, name.removeprefix("torch.nn."))
    more = {"kernel_size": 1} if "Conv" in name else {}
    layer(2, 3, **more)
    for sizes in ((torch.ones(2), 3), (2, torch.ones(2))):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            layer(*sizes, **more)


@pytest.mark.parametrize("name", sorted(models().tensors))
def test_a_keyword_takes_a_tensor_or_nothing(name: str) -> None:
    """The keyword is one of the function; None does, a tensor with dimensions does, and nothing else."""
    function = getattr(torch.nn.functional, name.removeprefix("torch.nn.functional."))
    target = torch.zeros(2, 3) if "binary" in name else torch.zeros(2, dtype=torch.long)
    for keyword in models().tensors[name]:
        assert keyword in inspect.signature(function).parameters
        function(torch.zeros(2, 3), target, **{keyword: None})
        function(torch.zeros(2, 3), target, **{keyword: torch.ones(3)})
        for other in ([1.0, 1.0, 1.0], 1.0, np.ones(3)):
            with pytest.raises((TypeError, AttributeError)):
                function(torch.zeros(2, 3), target, **{keyword: other})


def test_methods_of_sklearn_give_rows() -> None:
    """What `rows` names has at least one dimension, and is among the methods that read arrays."""
    cluster = pytest.importorskip("sklearn.cluster")
    data = np.random.default_rng(0).random((6, 2))
    made = cluster.KMeans(2, n_init=1).fit(data)
    for name in models().readers.rows:
        assert name in models().readers.learns
        assert not hasattr(made, name) or getattr(made, name)(data).ndim > 0


def test_types_of_the_cpu_have_these_dtypes() -> None:
    names = {f"torch.{one}" for one in dir(torch) if one.endswith("Tensor") and one != "Tensor"}
    of_dtype = {one for one in names if hasattr(getattr(torch, one.rpartition(".")[2]), "dtype")}
    assert set(models().dtypes) == of_dtype
    for name, dtype in models().dtypes.items():
        kind = getattr(torch, name.rpartition(".")[2])
        made = kind(1)
        assert (
            str(made.dtype) == dtype and isinstance(made, kind) and not isinstance(made.to("meta"), kind)
        ), name
