"""The kernels of sparse and nested tensors, which are made of dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from devfix.simulate.device_checks import check_wrapper, tensors
from devfix.simulate.kernels import Kernel, lacks_a_part, natively
from devfix.simulate.machine import guard_of, machine
from devfix.simulate.native_functions import NativeFunction


def make_layout_kernel(operation: Any, function: NativeFunction, layout: str) -> Callable[..., Any]:
    """The kernel of an operation for SparseCUDA, SparseCsrCUDA or NestedTensorCUDA.

    It must have one for the CPU's key.
    """
    cpu = f"{layout}CPU"
    kernel = Kernel(operation, function, function.sparse_method(f"{layout}{machine.key}"))
    if function.dispatch.get(cpu) != function.dispatch[f"{layout}{machine.torch_kind.like}"]:
        return natively(lambda: kernel.run, operation)
    run, cpu_key = operation._op_dk, getattr(torch._C.DispatchKey, cpu)

    def shared(*arguments: Any, **named: Any) -> Any:
        """One C++ function for both; what it does to the parts comes to the kernels for these."""
        if function.device_check:
            check_wrapper(kernel.order, kernel.bind(arguments, named), kernel.method)
        first = next((one for value in (*arguments, *named.values()) for one in tensors(value)), None)
        at = named.get("device") if first is None else first.device
        with guard_of(-1 if at is None or at.index is None else at.index):
            try:
                return run(cpu_key, *arguments, **named)
            except RuntimeError as error:
                if not lacks_a_part(error):
                    raise
        return kernel.run(*arguments, **named)

    return natively(lambda: shared, operation)
