"""Device errors of torch's own Python, which no function mode sees: each is noted and made good."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.optim.optimizer as optimizer
from torch.utils._pytree import tree_map

from devfix.errors.messages import kind_of
from devfix.simulate.keeping_going import histories, recording
from devfix.simulate.keeping_going.carrying_out import CPU, KeepGoing, is_of_devices
from devfix.simulate.machine import current_device, machine

_COLLECTIVES = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv"),
)
_UNANSWERED = ("synchronize", "set_device", "init", "ipc_collect", "reset_peak_memory_stats")
_NUMBERED = (
    *(
        "set_device",
        "synchronize",
        "get_device_properties",
        "current_stream",
        "default_stream",
        "_exchange_device",
    ),
    *("mem_get_info", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("reset_peak_memory_stats", "get_device_name", "get_device_capability"),
)
_Again = Callable[[Any, tuple[Any, ...], dict[str, Any], Exception], Any]


def install() -> None:
    _instead(torch.amp.autocast_mode.autocast, "__init__", "autocast", _with_a_type)
    _instead(torch.amp.GradScaler, "__init__", "autocast", _with_a_type)
    _instead(torch, "load", "loading", _to_the_cpu)
    torch.serialization.load = torch.load
    for name in _UNANSWERED:
        _instead(torch.cuda, name, "no-cuda", _nothing)
    for name in _NUMBERED:
        _instead(torch.cuda, name, "ordinal", _of_the_first)
    if "__init__" in vars(torch.cuda.Stream):  # the simulated one
        _instead(torch.cuda.Stream, "__init__", "ordinal", _of_the_first)
    for name in _COLLECTIVES if torch.distributed.is_available() else ():
        _instead(torch.distributed, name, "collective", _over_the_device)
    group = optimizer._group_tensors_by_device_and_dtype

    def grouped(lists: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return group(lists, *arguments, **named)
        except RuntimeError as error:
            if not is_of_devices(str(error)):
                raise
            _beside_the_parameters(lists, error)
            return group(lists, *arguments, **named)

    optimizer._group_tensors_by_device_and_dtype = grouped
    _in_threads()


def _instead(owner: Any, name: str, kind: str, again: _Again) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        try:
            return original(*arguments, **named)
        except (RuntimeError, ValueError, TypeError, AssertionError, AttributeError) as error:
            found = kind_of(str(error))
            if found is None or found.id != kind:
                raise
            return again(original, arguments, named, error)

    setattr(owner, name, wrapper)


def _with_a_type(original: Any, arguments: tuple[Any, ...], named: dict[str, Any], error: Exception) -> Any:
    def type_of(value: Any) -> Any:
        return torch.device(value).type if isinstance(value, (torch.device, str)) else value

    recording.note("autocast", error, [], machine.device(0) if machine.devices else CPU)
    place = [*arguments[:1], *map(type_of, arguments[1:2]), *arguments[2:]]
    for name in ("device_type", "device"):
        if name in named:
            named = {**named, name: type_of(named[name])}
    return original(*place, **named)


def _to_the_cpu(original: Any, arguments: tuple[Any, ...], named: dict[str, Any], error: Exception) -> Any:
    recording.note("load", error, [], CPU)
    if arguments and hasattr(arguments[0], "seek"):
        arguments[0].seek(0)
    return original(
        *arguments[:1], *((CPU,) if len(arguments) > 1 else ()), *arguments[2:], **_mapped(named, arguments)
    )


def _nothing(original: Any, arguments: tuple[Any, ...], named: dict[str, Any], error: Exception) -> None:
    recording.note(original.__name__, error, [], CPU)


def _of_the_first(original: Any, arguments: tuple[Any, ...], named: dict[str, Any], error: Exception) -> Any:
    """What a function of torch.cuda answers, or does, for the first device instead of one that is not there."""
    if not machine.devices:
        raise error
    recording.note(original.__name__.strip("_"), error, [], machine.device(0))
    own = arguments[: original.__name__ == "__init__"]
    place = (*own, *((0,) if len(arguments) > len(own) else ()), *arguments[len(own) + 1 :])
    return original(*place, **{**named, "device": 0} if "device" in named else named)


def _mapped(named: dict[str, Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    return named if len(arguments) > 1 else {**named, "map_location": CPU}


def _over_the_device(
    original: Any, arguments: tuple[Any, ...], named: dict[str, Any], error: Exception
) -> Any:
    """A collective of NCCL is done with copies on the device; what it has written comes back."""
    found = list(histories.tensors((arguments, named)))
    device = machine.device(current_device())
    recording.note(original.__name__, error, found, device)
    copies = {id(one): one.detach().to(device) for one in found}
    arguments, named = tree_map(lambda one: copies.get(id(one), one), (arguments, named))
    result = original(*arguments, **named)
    if named.get("async_op"):
        result.wait()
    with torch.no_grad():
        for one in found:
            if one.is_cpu:
                one.copy_(copies[id(one)])
    return result


def _beside_the_parameters(lists: Any, error: Exception) -> None:
    """An optimizer's state is put where its parameters are: it is written to, so a copy would not do."""
    first = lists[0]
    strays = [
        (one, parameter.device)
        for group in lists[1:]
        for one, parameter in zip(group, first, strict=False)
        if isinstance(one, torch.Tensor) and one.device != parameter.device and one.dim()
    ]
    if strays:
        recording.note("step", error, [first[0], *(one for one, _ in strays)], strays[0][1])
    for one, device in strays:
        one.data = one.data.to(device)


def _in_threads() -> None:
    """A function mode is an affair of its thread."""
    original = threading.Thread.run

    def run(self: threading.Thread) -> None:
        with KeepGoing():
            original(self)

    threading.Thread.run = run  # type: ignore[method-assign]
