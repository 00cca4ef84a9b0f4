"""What torch refuses because of devices is carried out: the operands together, on the device that is wanted."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from devfix.errors.messages import kind_of
from devfix.simulate.keeping_going import copies, histories, placing, recording
from devfix.simulate.machine import current_device, machine

Tensor = torch.Tensor
CPU = torch.device("cpu")
_MIX = re.compile(
    r"(?:on|at) the same device|assign a gradient with device type|too many CPU scalars"
    r"|\bcuda(?::\d+)? [!=]= (?:cuda|cpu)|\bcpu [!=]= cuda|invalid gradient at index \d+ - expected device"
)
_FORKED = re.compile(r"Cannot re-initialize CUDA in forked subprocess|CUDA error: initialization error")
_WANTED = re.compile(r"Expected an? '(\w+)' (?:device type for )?generator")
_CAUGHT = (RuntimeError, TypeError, AssertionError, ValueError)
_inside = threading.local()


class KeepGoing(TorchFunctionMode):  # type: ignore[misc]  # torch is Any to mypy
    """Every function of torch goes through here, but for those that other functions of torch call."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if placing.wanted:
            placing.settle(self)
            named = placing.placed(func, named)
        if func is Tensor.backward:
            with self:  # hooks and checkpoints run the program's own operations
                gradient = {"grad_tensors": named["gradient"]} if "gradient" in named else {}
                others = {key: value for key, value in named.items() if key != "gradient"}
                return torch.autograd.backward(*args, **gradient, **others)
        result = _call(func, args, named)
        if isinstance(result, (Tensor, tuple, list)):
            histories.note_result(_name(func), args, result, named)
        if copies.wanted:
            copies.note(_name(func), args, result)
        return result


def _name(func: Any) -> str:
    name: str = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__"):
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return name


def _call(func: Any, args: Any, named: Any) -> Any:
    before = getattr(_inside, "depth", 0)
    _inside.depth = before + 1
    try:
        try:
            return func(*args, **named)
        except _CAUGHT as error:
            again = _again(func, _name(func), args, named, error)
            if again is None:
                if not _makes_strays(func, str(error)):
                    raise
                _inside.depth = 0
                again = partial(func, *args, **named)
        try:
            return again()
        except _CAUGHT as error:  # what the function itself has made was in the way, too
            if not is_of_devices(str(error)):
                raise
            _inside.depth = 0  # the kernels go on by themselves
            return again()
    finally:
        _inside.depth = before


def _makes_strays(func: Any, text: str) -> bool:
    """Has an operation of the program's own, which may be written in Python, mixed devices that it was not given?"""
    return (
        isinstance(func, torch._ops.OpOverload) and func.namespace != "aten" and _MIX.search(text) is not None
    )


def is_of_devices(text: str) -> bool:
    return kind_of(text) is not None or _MIX.search(text) is not None or _FORKED.search(text) is not None


def _again(func: Any, name: str, args: Any, named: Any, error: Exception) -> Callable[[], Any] | None:
    """The call that does what was meant, once the error is noted; None for an error of another kind."""
    text = str(error)
    found = list(histories.tensors((args, named)))
    kind = kind_of(text)
    what = kind.id if kind is not None else ""
    if what == "numpy":
        recording.note(name, error, found, CPU, args)
        return lambda: func(*_on(CPU, args), **_on(CPU, named))
    if what == "lengths" and len(args) > 1:
        recording.note(name, error, [args[1]], CPU)
        return lambda: func(args[0], args[1].cpu(), *args[2:], **named)
    if what == "generator":
        wanted = _WANTED.search(text)
        device = torch.device(wanted[1] if wanted else "cpu")
        recording.note(name, error, found, device)
        return lambda: func(*_drawing(device, args), **_drawing(device, named))
    if what == "pinned":
        recording.note(name, error, found, CPU, args)
        return lambda: args[0]
    if what == "half-loss":
        recording.note(name, error, [], machine.device(current_device()), args)
        return lambda: _in_full(func, args, named)
    if what in ("no-cuda", "ordinal") or _FORKED.search(text):
        there = _instead_of(what)
        recording.note(name, error, found, there)
        if name == "cuda":
            return lambda: _moved(args[0], there)
        return lambda: func(*_named(there, _on(there, args)), **_named(there, _on(there, named)))
    if not (kind is not None or _MIX.search(text)) or len({one.device for one in found}) < 2:
        return None
    target = _target(found)
    recording.note(name, error, found, target, args, named)
    place = _place_written(name, args, named)
    if isinstance(place, (list, tuple)):
        return lambda: func(*_beside(place, args), **named)
    device = place.device if place is not None else target
    return lambda: func(*_on(device, args), **_on(device, named))


def _instead_of(what: str) -> Any:
    """The device that is meant, where one is named that is not there."""
    another = machine.devices and (what == "ordinal" or machine.kind != "cuda")
    return machine.device(0) if another else CPU


def _in_full(func: Any, args: Any, named: Any) -> Any:
    """A call without autocast; what it is given in half precision becomes float32."""

    def full(one: Any) -> Any:
        half = isinstance(one, Tensor) and one.dtype in (torch.float16, torch.bfloat16)
        return one.float() if half else one

    with torch.autocast(machine.kind, enabled=False):
        return func(*tree_map(full, args), **tree_map(full, named))


def _target(found: Sequence[Any]) -> Any:
    """Where an operation is carried out: on the accelerator, and of two of them on that of the parameters."""
    there = [one for one in found if not one.is_cpu]
    return next((one.device for one in there if isinstance(one, torch.nn.Parameter)), there[0].device)


def _place_written(name: str, args: Any, named: Any) -> Any:
    """The tensor, or for `_foreach_` the tensors, that an operation writes to: it stays where it is."""
    if isinstance(named.get("out"), Tensor):
        return named["out"]
    inner = name.strip("_")
    in_place = (name.endswith("_") and not name.endswith("__")) or (
        name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    )
    if not args or not (in_place or name in ("__setitem__", "grad", "data")):
        return None
    if isinstance(args[0], (list, tuple)):
        return args[0] if inner.startswith("foreach") else None
    return args[0] if isinstance(args[0], Tensor) else None


def _moved(tensor: Any, device: Any) -> Any:
    if tensor.device == device:
        return tensor
    forked, machine.bad_fork = machine.bad_fork, False
    try:
        return tensor.to(device)
    finally:
        machine.bad_fork = forked


def _on(device: Any, value: Any) -> Any:
    return tree_map(lambda one: _moved(one, device) if isinstance(one, Tensor) else one, value)


def _beside(written: Sequence[Any], args: Any) -> list[Any]:
    """Of lists of tensors that belong together: each where the one is that is written to."""
    return [
        [
            _moved(one, to.device) if isinstance(one, Tensor) else one
            for one, to in zip(value, written, strict=True)
        ]
        if isinstance(value, (list, tuple)) and len(value) == len(written)
        else value
        for value in args
    ]


def _named(device: Any, value: Any) -> Any:
    """Arguments that name CUDA devices, naming another one."""

    def other(one: Any) -> Any:
        if isinstance(one, torch.device) and one.type == "cuda":
            return device
        return str(device) if isinstance(one, str) and re.fullmatch(r"cuda(:\d+)?", one) else one

    return tree_map(other, value)


# --- generators ------------------------------------------------------------------------------

_twins: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _twin(generator: Any, device: Any) -> Any:
    """A generator on another device, with the seed of this one; always the same, so that it goes on."""
    twins = _twins.setdefault(generator, {})
    if device.type not in twins:
        twins[device.type] = torch.Generator(device).manual_seed(generator.initial_seed())
    return twins[device.type]


def _drawing(device: Any, value: Any) -> Any:
    def other(one: Any) -> Any:
        wrong = isinstance(one, torch._C.Generator) and one.device.type != device.type
        return _twin(one, device) if wrong else one

    return tree_map(other, value)


def other_generator(name: str, error: Exception, generator: Any, device: Any) -> Any:
    """What a CPU operation is to draw from that was given a generator of a device."""
    recording.note(name, error, [], device)
    return _twin(generator, device)


# --- the kernels -----------------------------------------------------------------------------


def carry_on(name: str, error: Exception, arguments: Sequence[Any]) -> bool:
    """May a kernel go on whose device check has raised? Not where a function above it tries again."""
    if getattr(_inside, "depth", 0) or not is_of_devices(str(error)):
        return False
    found = list(histories.tensors(list(arguments)))
    there = [one.device for one in found if machine.here(one)]
    recording.note(name, error, found, there[0] if there else machine.device(current_device()))
    return True
