"""Random generators of simulated devices: CPU generators that are known to be CUDA's."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from devfix.simulate.devices import device_index
from devfix.simulate.machine import machine

_FACTORIES = ("randperm", "rand", "randn", "randint", "normal", "multinomial", "bernoulli", "poisson")
_METHODS = (
    "random_",
    "normal_",
    "uniform_",
    "bernoulli_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "cauchy_",
    "multinomial",
    "bernoulli",
)


class _AnyGenerator(type(torch._C.Generator)):  # type: ignore[misc]  # torch is Any to mypy
    def __instancecheck__(cls, item: object) -> bool:
        return isinstance(item, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_AnyGenerator):  # type: ignore[misc]
    """torch.Generator, of the CPU or of a simulated device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        device = torch.device(device)
        if device.type not in ("cpu", "cuda"):
            return torch._C.Generator(device)
        self = torch._C.Generator.__new__(cls)
        if device.type == "cuda":
            machine.generators[self._cdata] = device_index(device)
        return self

    def __init__(self, device: Any = "cpu") -> None:
        pass

    def __del__(self) -> None:
        machine.generators.pop(self._cdata, None)

    @property
    def device(self) -> Any:
        index = machine.generators.get(self._cdata)
        return torch.device("cpu") if index is None else torch.device("cuda", index)


def install() -> None:
    torch.Generator = Generator
    from torch.utils import _device

    _device._device_constructors()  # cached: it must hold the original functions
    for name in _FACTORIES:
        _refuse_cuda_generator(torch, name)
    for name in _METHODS:
        _refuse_cuda_generator(torch.Tensor, name)

    def get_state(device: Any = "cuda") -> Any:
        return machine.default_generators[device_index(device)].get_state()

    def set_state(new_state: Any, device: Any = "cuda") -> None:
        machine.default_generators[device_index(device)].set_state(new_state)

    torch.cuda.random.get_rng_state = torch.cuda.get_rng_state = get_state
    torch.cuda.random.set_rng_state = torch.cuda.set_rng_state = set_state


def _refuse_cuda_generator(owner: Any, name: str) -> None:
    """CPU kernels would take a simulated CUDA generator, since it is a CPU one."""
    original = getattr(owner, name)

    @wraps(original, assigned=("__name__", "__doc__"), updated=())
    def checked(*arguments: Any, **named: Any) -> Any:
        generator = named.get("generator")
        if generator is not None and generator._cdata in machine.generators:
            if _result_device(owner, arguments, named).type == "cpu":
                raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")
        return original(*arguments, **named)

    setattr(owner, name, checked)


def _result_device(owner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if owner is torch.Tensor:
        return arguments[0].device
    if named.get("device") is not None:
        return torch.device(named["device"])
    inputs = [value for value in arguments if isinstance(value, torch.Tensor)]
    return inputs[0].device if inputs else torch.get_default_device()
