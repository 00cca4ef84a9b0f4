"""Random generators of simulated devices: CPU generators that are known to be CUDA's."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
import torch.utils.data.dataset
import torch.utils.data.sampler

from devfix.simulate.devices import device_index
from devfix.simulate.machine import Numbers, machine
from devfix.simulate.tensor_types import known_to_torch

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


_Base: Any = torch._C.Generator


class _AnyGenerator(type(_Base)):  # type: ignore[misc]  # torch is Any to mypy
    def __instancecheck__(cls, item: object) -> bool:
        return isinstance(item, _Base)


class Generator(_Base, metaclass=_AnyGenerator):  # type: ignore[misc]
    """torch.Generator, of the CPU or of a simulated device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        device = torch.device(device)
        if device.type not in ("cpu", machine.kind):
            return _Base(device)
        self = _Base.__new__(cls)
        if device.type == machine.kind:
            machine.generators[self._cdata] = Numbers(0 if device.type == "mps" else device_index(device))
        self._device = device
        return self

    def __init__(self, device: Any = "cpu") -> None:
        pass

    def __del__(self) -> None:
        if machine is not None:  # at the end of the process it may be gone
            machine.generators.pop(self._cdata, None)

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    @property
    def device(self) -> Any:
        return self._device

    @property
    def _numbers(self) -> Numbers | None:
        return machine.generators.get(self._cdata)

    def _not_capturing(self, method: str) -> None:
        if self._numbers is not None and machine.capture is not None:
            raise RuntimeError(
                f"Cannot call CUDAGeneratorImpl::{method} during CUDA graph capture. If you need this call to be "
                "captured, please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
            )

    def manual_seed(self, seed: int) -> Any:
        if self._numbers is not None and machine.capture is not None:
            if seed % 2**64 != self._numbers.seed:
                raise RuntimeError(
                    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is "
                    "the same as the original seed."
                )
            return self
        super().manual_seed(seed)  # checks it
        if self._numbers is not None:
            self._numbers.seed, self._numbers.offset = seed % 2**64, 0
        return self

    def seed(self) -> int:
        self._not_capturing("seed")
        seed: int = super().seed()
        if self._numbers is not None:
            self._numbers.seed, self._numbers.offset = seed, 0
        return seed

    def initial_seed(self) -> int:
        if self._numbers is not None:
            return self._numbers.seed
        return int(super().initial_seed())

    def get_state(self) -> Any:
        if self._numbers is None:
            return super().get_state()
        return torch.frombuffer(
            bytearray(struct.pack("<QQ", self._numbers.seed, self._numbers.offset)), dtype=torch.uint8
        )

    def set_state(self, new_state: Any) -> Any:
        if self._numbers is None:
            return super().set_state(new_state)
        if (
            not isinstance(new_state, torch.Tensor)
            or new_state.dtype is not torch.uint8
            or not new_state.is_cpu
        ):
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.numel() != 16:
            raise RuntimeError("RNG state is wrong size")
        self._numbers.seed, self._numbers.offset = struct.unpack("<QQ", bytes(new_state.tolist()))
        return self

    def get_offset(self) -> int:
        self._not_capturing("get_offset")
        return self._numbers.offset if self._numbers is not None else int(super().get_offset())

    def set_offset(self, offset: int) -> Any:
        self._not_capturing("set_offset")
        if self._numbers is None:
            return super().set_offset(offset)
        self._numbers.offset = offset
        return self

    def clone_state(self) -> Any:
        if self._numbers is None:
            return super().clone_state()
        made = Generator(self._device)
        return made.set_state(self.get_state())

    def graphsafe_get_state(self) -> Any:
        return self.clone_state() if self._numbers is not None else super().graphsafe_get_state()

    def graphsafe_set_state(self, state: Any) -> Any:
        if self._numbers is None:
            return super().graphsafe_set_state(state)
        return self.set_state(state.get_state())


def install() -> None:
    torch.Generator = torch._C.Generator = Generator
    for name in _FACTORIES:
        _refuse_cuda_generator(torch, name)
    for name in _METHODS:
        _refuse_cuda_generator(torch.Tensor, name)

    torch.utils.data.dataset.randperm = torch.randperm  # imported there by its name
    if machine.kind == "mps":
        return

    def get_state(device: Any = None) -> Any:
        return machine.module.default_generators[device_index(device)].get_state()

    def set_state(new_state: Any, device: Any = None) -> None:
        machine.module.default_generators[device_index(device)].set_state(new_state)

    for home in filter(None, (machine.module, getattr(machine.module, "random", None))):
        home.get_rng_state, home.set_rng_state = get_state, set_state


def _refuse_cuda_generator(owner: Any, name: str) -> None:
    """CPU kernels would take a simulated CUDA generator, since it is a CPU one."""
    original = getattr(owner, name)

    @wraps(original, assigned=("__name__", "__doc__"), updated=())
    def checked(*arguments: Any, **named: Any) -> Any:
        generator = named.get("generator")
        if generator is not None and generator._cdata in machine.generators:
            if _result_device(owner, arguments, named).type == "cpu":
                error = RuntimeError(f"Expected a 'cpu' device type for generator but found '{machine.kind}'")
                if machine.other_generator is None:
                    raise error
                named["generator"] = machine.other_generator(name, error, generator, torch.device("cpu"))
        return original(*arguments, **named)

    setattr(owner, name, checked)
    if owner is torch:
        known_to_torch(checked, original, name)


def _result_device(owner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if owner is torch.Tensor:
        return arguments[0].device
    if named.get("device") is not None:
        return torch.device(named["device"])
    inputs = [value for value in arguments if isinstance(value, torch.Tensor)]
    return inputs[0].device if inputs else torch.get_default_device()


def bring_up(generator: Any) -> None:
    """Bring the CPU generator beneath a cuda one to where that stands."""
    if machine.comparable:
        return
    _Base.manual_seed(generator, machine.generators[generator._cdata].next())


@contextmanager
def numbers_of(index: int) -> Iterator[None]:
    """A CPU kernel that takes no generator draws from that of a device."""
    if machine.comparable:
        yield
        return
    default = torch.default_generator
    before = default.get_state()
    default.manual_seed(machine.generators[machine.default_generators[index]._cdata].next())
    try:
        yield
    finally:
        default.set_state(before)
