"""Put the kernels on the CUDA dispatch key, and refusals where there is none."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import torch

from devfix.simulate import lacking, mps, native, native_functions, native_kernels, others, recurrent
from devfix.simulate.errors import SimulationUnsupported, lacks
from devfix.simulate.generators import Generator
from devfix.simulate.kernels import has_kernel, is_view, make_kernel, natively
from devfix.simulate.layouts import make_layout_kernel
from devfix.simulate.machine import machine
from devfix.simulate.native_functions import NativeFunction
from devfix.simulate.special_kernels import special_kernels
from devfix.simulate.vtable import keep


def install() -> tuple[str, ...]:
    """Register everything; gives the operations that CUDA has and the simulated devices lack."""
    for index in range(machine.devices):
        machine.default_generators.append(Generator(machine.device(index)))
    library = torch.library.Library("aten", "IMPL", machine.key)
    beneath = torch.library.Library("aten", "IMPL", native_kernels.KEY)
    keep(library, beneath)
    compiled: dict[str, int] = {}
    special = special_kernels()
    missing = []
    functions = native_functions.load(machine.torch_kind.like, machine.key)
    if machine.kind == "mps":
        special = {**special, **mps.special_kernels(), **mps.always_on_the_cpu(functions)}
    for full, function in functions.items():
        by_hand = special.get(full)
        if full in ("_pin_memory", "is_pinned") and not function.there:
            continue  # an affair of the hooks, since torch 2.5
        if by_hand is None and not function.there:
            continue
        packet = getattr(torch.ops.aten, function.name, None)
        operation = getattr(packet, function.overload or "default", None)
        kernel = None
        if operation is not None and by_hand is not None:
            kernel = natively(lambda by_hand=by_hand: by_hand, operation)  # type: ignore[misc]
        elif operation is not None and _runs_on_cpu(operation):
            kernel = make_kernel(operation, function)
        if kernel is None:
            missing.append(full)
            continue
        wants = None
        if machine.shared is not None:
            wants = native_kernels.wants(full, operation, by_hand is not None, is_view(operation))
        try:
            (library if wants is None else beneath).impl(full, kernel)
        except Exception as error:  # torch has no one type for "this cannot be registered"
            missing.append(f"{full}: {error}")
            continue
        if wants is not None:
            compiled[full] = wants
    if compiled:
        native_kernels.register(compiled)
    own = machine.key
    if machine.kind == "cuda":
        recurrent.install()
        if machine.gpu_build and not native.built():
            others.install_attention()
    if machine.kind in lacking.WORDS:
        others.install_attention()
        _fall_back(own, lacking.fallback(functions))
    else:
        no_cuda = frozenset(
            f"aten::{full}" for full, function in functions.items() if _cpu_only(function.dispatch)
        )
        _refuse(own, f"operator {{}} has no simulated {own} kernel", no_cuda)
    layouts = ("Sparse", "SparseCsr", "NestedTensor") if own == "CUDA" else ("Sparse", "SparseCsr")
    for layout in layouts:
        _install_layout(layout, functions)
        listed = f"{layout}{machine.torch_kind.like}"
        none = frozenset(f"aten::{full}" for full, one in functions.items() if listed not in one.dispatch)
        _refuse(
            f"{layout}{own}", f"operator {{}} on {layout}{own} tensors has no simulated {own} kernel", none
        )
    if own == "CUDA":
        _refuse("QuantizedCUDA", f"operator {{}} on QuantizedCUDA tensors has no simulated {own} kernel")
    if machine.gpu_build:
        for key in (own, *(f"{layout}{own}" for layout in layouts), "QuantizedCUDA"):
            _cover(key, {f"aten::{full}" for full in compiled} if key == own else set())
    return tuple(missing)


def _cover(key: str, compiled: Container[str]) -> None:
    """In a build for GPUs: a refusal in the place of each kernel of torch's own that none from here has taken.

    Collectives aside, whose kernels are the same for all devices, and what the compiled extension registers.
    """
    libraries: dict[str, Any] = {}
    for full in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        space, _, name = full.partition("::")
        if space in ("c10d", "devfix") or full in compiled or f"{space}/{name}/{key}" in torch.library._impls:
            continue
        if space not in libraries:
            libraries[space] = torch.library.Library(space, "IMPL", key)

        def refuse(*arguments: Any, full: str = full, **named: Any) -> Any:
            raise SimulationUnsupported(f"operator {full} has no simulated {key} kernel")

        libraries[space].impl(name, refuse)
    keep(*libraries.values())


def _install_layout(layout: str, functions: Mapping[str, NativeFunction]) -> None:
    library = torch.library.Library("aten", "IMPL", f"{layout}{machine.key}")
    keep(library)
    listed = f"{layout}{machine.torch_kind.like}"
    for full, function in functions.items():
        if listed not in function.dispatch:
            continue
        packet = getattr(torch.ops.aten, function.name, None)
        operation = getattr(packet, function.overload or "default", None)
        if operation is not None and has_kernel(operation, f"{layout}CPU"):
            library.impl(full, make_layout_kernel(operation, function, layout))


def _cpu_only(dispatch: Iterable[str]) -> bool:
    """Of the keys that native_functions.yaml names."""
    return "CPU" in dispatch and not any("CUDA" in key or "Composite" in key for key in dispatch)


def _runs_on_cpu(operation: Any) -> bool:
    computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return has_kernel(operation, "CPU") or bool(computed(operation.name(), "CPU"))


def _refuse(key: str, what: str, lacking: frozenset[str] = frozenset()) -> None:
    """For every operation without a kernel on that dispatch key; `lacking`: those CUDA has none for either."""

    def fallback(operation: Any, *arguments: Any, **named: Any) -> Any:
        schema = operation._schema
        full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if full in lacking or (schema.name.startswith("quantized::") and "_dynamic" in schema.name):
            raise lacks(full, key)
        raise SimulationUnsupported(what.format(operation))

    _fall_back(key, fallback)


def _fall_back(key: str, fallback: Callable[..., Any]) -> None:
    library = torch.library.Library("_", "IMPL", key)
    if not hasattr(library, "fallback"):  # torch 2.4: its own "Could not run" stands for it, see errors.py
        return
    library.fallback(fallback)
    keep(library)
