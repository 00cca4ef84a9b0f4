"""Operations that the devices lack, of kinds that have words of their own for it, and can leave them to the CPU."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import machine
from devfix.simulate.native_functions import NativeFunction

# Sources: aten/src/ATen/mps/MPSFallback.mm; src/ATen/native/xpu/XPUFallback.cpp of torch-xpu-ops.
WORDS = {
    "mps": (
        "The operator '{}' is not currently implemented for the MPS device. If you want this op to be considered for "
        "addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that "
        f"resulted in missing op as well as commit hash {torch.version.git_version}. As a temporary fix, you can set "
        "the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op. WARNING: "
        "this will be slower than running natively on MPS."
    ),
    "xpu": (
        "The operator '{}' is not currently implemented for the XPU device. Please open a feature on "
        "https://github.com/intel/torch-xpu-ops/issues. You can set the environment variable "
        "`PYTORCH_ENABLE_XPU_FALLBACK=1` to use the CPU implementation as a fallback for XPU unimplemented operators. "
        "WARNING: this will bring unexpected performance compared with running natively on XPU."
    ),
}
_warned: set[str] = set()


def fallback(functions: Mapping[str, NativeFunction]) -> Callable[..., Any]:
    """What is called for an operation without a kernel."""
    asked = os.environ.get(f"PYTORCH_ENABLE_{machine.key}_FALLBACK", "0")
    leave = asked.isdigit() and int(asked) != 0

    def fall_back(operation: Any, *arguments: Any, **named: Any) -> Any:
        schema = operation._schema
        full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        space, _, name = full.partition("::")
        known = functions.get(name)
        if space != "aten" or known is None or known.there:
            raise SimulationUnsupported(f"operator {full} has no simulated {machine.key} kernel")
        if leave:
            return on_the_cpu(operation, full, *arguments, **named)
        raise NotImplementedError(WORDS[machine.kind].format(full))

    return fall_back


def on_the_cpu(operation: Any, full: str, *arguments: Any, **named: Any) -> Any:
    """Run an operation there, and say so once; `full`: how it is called."""
    if full not in _warned:
        _warned.add(full)
        warnings.warn(
            f"The operator '{full}' is not currently supported on the {machine.key} backend and will fall back to run "
            "on the CPU. This may have performance implications.",
            stacklevel=2,
        )
    from devfix.simulate.kernels import make_kernel

    kernel = make_kernel(operation, NativeFunction(operation.__name__, "", "", device_check=False))
    if kernel is None:
        raise SimulationUnsupported(f"operator {full} has no kernel for the CPU")
    return kernel(*arguments, **named)
