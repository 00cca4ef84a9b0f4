"""What torch's operators and modules do with one operand in another place than the rest, by torch's own samples.

`strays` gives words such as "1 same, 1! same, 2z ran": the second operand alone on the CPU, the second
alone on the device, the third one, without dimensions, alone on the CPU. An operand is a tensor, or a module with
parameters or buffers. `same` is torch's "same device" error, `device` another error that names devices, `other` any
other error; what differs between samples is joined by "/".
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_flatten, tree_unflatten

SAMPLES = 12
TIMES = 3  # as many samples tell of each place

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db


@cache
def samples() -> dict[str, Callable[[], Iterator[list[Any]]]]:
    """What makes samples (a callable, arguments, keywords), by operator and variant, or `module` and its name."""
    found = {op.full_name: lambda op=op: _calls(op) for op in op_db if op.dtypes}
    return found | {f"module {one.name}": lambda one=one: _modules(one) for one in module_db}


def strays(name: str) -> str:
    """What it does with strays, as the top of this file says; empty if no sample has two operands."""
    seen: dict[str, list[str]] = {}
    torch.manual_seed(0)
    for _, sample in zip(range(SAMPLES), samples()[name](), strict=False):
        leaves, shape = tree_flatten(sample)
        places = [place for place, one in enumerate(leaves) if _has_place(one)]
        if len(places) < 2 or _outcome([_there(one) for one in leaves], shape) != "ran":
            continue
        for number, place in enumerate(places):
            for key, given in _operands(str(number), leaves, place):
                for told, alone in (
                    (seen.setdefault(key, []), False),
                    (seen.setdefault(f"{key}!", []), True),
                ):
                    if len(told) < TIMES and (given is leaves or _runs(given, shape)):
                        moved = [
                            _there(one) if (at == place) == alone else _here(one)
                            for at, one in enumerate(given)
                        ]
                        told.append(_outcome(moved, shape))
    return ", ".join(f"{key} {'/'.join(sorted(set(told)))}" for key, told in sorted(seen.items()) if told)


def _operands(number: str, leaves: list[Any], place: int) -> Iterator[tuple[str, list[Any]]]:
    """Samples for one operand: as it is, and without dimensions."""
    operand = leaves[place]
    if isinstance(operand, Tensor) and not operand.dim():
        yield f"{number}z", leaves
        return
    yield number, leaves
    if isinstance(operand, Tensor) and operand.numel() and operand.layout is torch.strided:
        yield f"{number}z", [*leaves[:place], operand.flatten()[0].clone(), *leaves[place + 1 :]]


def _calls(op: Any) -> Iterator[list[Any]]:
    dtype = torch.float32 if torch.float32 in op.dtypes else min(op.dtypes, key=str)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        yield [op.op, [sample.input, *sample.args], sample.kwargs]


def _modules(info: Any) -> Iterator[list[Any]]:
    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    for one in made:
        if one.forward_input is not None:
            given, how = one.forward_input, one.constructor_input
            yield [info.module_cls(*how.args, **how.kwargs), list(given.args), given.kwargs]


def _has_place(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, Module) and bool(value.state_dict()))


def _there(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cuda()
    if isinstance(value, Module):
        return copy.deepcopy(value).cuda()
    return "cuda" if isinstance(value, str) and value == "cpu" else value


def _here(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def _runs(leaves: list[Any], shape: Any) -> bool:
    """Does it run where all is in one place? The CPU is asked first: an assert of CUDA spoils the process."""
    return all(_outcome([*map(place, leaves)], shape) == "ran" for place in (_here, _there))


def _outcome(leaves: list[Any], shape: Any) -> str:
    function, args, kwargs = tree_unflatten(leaves, shape)
    try:
        function(*args, **kwargs)
        torch.cuda.synchronize()
    except Exception as error:
        told = str(error).lower()
        if "cuda error" in told:
            raise  # it spoils the process
        if "all tensors to be on the same device" in told:
            return "same"
        return "device" if any(word in told for word in ("device", "cuda", "cpu")) else "other"
    return "ran"
