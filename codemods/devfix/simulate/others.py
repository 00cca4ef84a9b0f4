"""What torch has for XPU, and for the accelerators of packages (PrivateUse1), besides what torch.cuda has, too."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch

from devfix.simulate.devices import device_index
from devfix.simulate.machine import current_device, guard_of, machine
from devfix.simulate.notes import note
from devfix.simulate.vtable import keep


def prepare() -> None:
    """Before the functions come that all kinds of devices have."""
    if machine.kind == "xpu":
        torch._C._has_xpu = True
        return
    torch._register_device_module(machine.kind, _module())
    torch.utils.generate_methods_for_privateuse1_backend()
    autocast = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    autocast.fallback(torch.library.fallthrough_kernel)
    keep(autocast)


def install_attention() -> None:
    """A build for the CPU has no answer which attention the devices take; here it is the one of single operations."""
    for key in (machine.key, f"Autograd{machine.key}"):
        library = torch.library.Library("aten", "IMPL", key)
        library.impl("scaled_dot_product_attention", _whole_attention)
        keep(library)


def _whole_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *arguments: Any, **named: Any
) -> Any:
    """What comes before the choice is that of attention.cpp: a check, and masks of truth values become numbers."""
    if not query.device == key.device == value.device:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device} key.device: {key.device} and value.device: {value.device} instead."
        )
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -math.inf)
    operation = torch.ops.aten._scaled_dot_product_attention_math.default
    return operation(query, key, value, attn_mask, *arguments, **named)[0]


def _seed(seed: int) -> None:
    machine.default_generators[current_device()].manual_seed(seed)


def _seed_all(seed: int) -> None:
    for generator in machine.default_generators:
        generator.manual_seed(seed)


def _cast_types() -> list[Any]:
    note(f"autocast changes nothing on {machine.kind}: which operations are cast is for the package to say")
    return [torch.float16, torch.bfloat16, torch.float32]


def _module() -> ModuleType:
    """torch.privateuseone, as torch.accelerator, autocast and the generators ask it."""
    module: Any = ModuleType(f"torch.{machine.kind}")
    module.device = lambda device: guard_of(device_index(device))
    module.manual_seed, module.manual_seed_all = _seed, _seed_all
    module.initial_seed = lambda: machine.default_generators[current_device()].initial_seed()
    module.get_amp_supported_dtype = _cast_types
    made: ModuleType = module
    return made
