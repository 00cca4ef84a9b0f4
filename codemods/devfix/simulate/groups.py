"""Process groups: collectives on simulated devices are gloo's, on the same memory.

A group of NCCL becomes one that has gloo for cuda only, so that CPU tensors get torch's own "No
backend type associated with device type cpu". It has a shadow that has the same gloo for the CPU,
which the kernels below hand the tensors' CPU aliases to.
"""

from __future__ import annotations

import inspect
import sys
import warnings
import weakref
from functools import wraps
from typing import Any

import torch

from devfix.simulate.alias import cpu_alias
from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.kernels import Key
from devfix.simulate.notes import note
from devfix.simulate.vtable import keep

_NAMES = (
    "_allgather_base_",
    "_reduce_scatter_base_",
    "allgather_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "allreduce_",
    "allreduce_coalesced_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
    "broadcast_",
    "gather_",
    "recv_",
    "recv_any_source_",
    "reduce_",
    "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_",
    "scatter_",
    "send",
)
# NCCL asks only how many numbers these have, gloo for shapes as well.
_FLAT = frozenset({"c10d::_allgather_base_", "c10d::_reduce_scatter_base_"})
# What NCCL has a type for (ProcessGroupNCCL.hpp, ncclDataType).
_NCCL_TYPES = frozenset(
    getattr(torch, name)
    for name in (
        *("int8", "uint8", "bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
        *("complex64", "complex128"),
    )
)
_of_nccl: dict[str, bool] = {}  # names of groups that have NCCL for CUDA: do they have nothing else?
# What was given to a group, by its address: the group may give it back.
_sent: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_shadows: dict[str, Any] = {}  # name of a group -> its shadow, boxed


def install() -> None:
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return
    library = torch.library.Library("c10d", "IMPL", "CUDA")
    keep(library)
    override = {"allow_override": True}
    if "allow_override" not in inspect.signature(library.impl).parameters:
        override = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CPU build has kernels there, too; these are in their place
        for name in _NAMES:
            packet = getattr(torch.ops.c10d, name, None)
            if packet is not None:
                library.impl(name, _kernel(packet.default), **override)
    _install_backends(dist)
    _install_results()
    for name in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"):
        _as_nccl_reduces(dist, name)
    # DDP's statistics need a timer that only a CUDA build has.
    torch._C._distributed_c10d.Logger.set_runtime_stats_and_log = lambda self: None


def _kernel(operation: Any) -> Any:
    run = operation._op_dk
    flat = operation.name() in _FLAT

    def kernel(*arguments: Any, **named: Any) -> Any:
        group = next((a for a in (*arguments, *named.values()) if _is_group(a)), None)
        nccl = group is not None and _group_name(group) in _of_nccl
        if nccl and operation.name() == "c10d::allgather_" and not all(map(len, arguments[0])):
            raise RuntimeError("Received an empty list")
        originals: dict[int, Any] = {}
        aliases: list[Any] = []  # they must live, or their identities are given away again

        def lower(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if not value.is_cuda:
                    return value
                if nccl:
                    _check_for_nccl(value)
                alias = cpu_alias(value)
                _sent[alias.data_ptr()] = value
                if nccl and flat:
                    alias = alias.view(-1)
                aliases.append(alias)
                originals[id(alias)] = value
                return alias
            if isinstance(value, (list, tuple)):
                return [lower(item) for item in value]
            if _is_group(value):
                return _shadow(value)
            return value

        def lift(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return originals.get(id(value), value)
            if isinstance(value, (list, tuple)):
                return type(value)(lift(item) for item in value)
            return value

        with torch._C.DisableTorchFunction():
            lowered = {name: lower(value) for name, value in named.items()}
            return lift(run(Key.CPU, *map(lower, arguments), **lowered))

    return kernel


def _install_results() -> None:
    """What a collective that nobody waits for gives in the end is on the devices, too."""
    work = torch._C._distributed_c10d.Work
    result, get_future = work.result, work.get_future

    def lifted(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(lifted, value))
        sent = _sent.get(value.data_ptr()) if isinstance(value, torch.Tensor) and value.is_cpu else None
        return value if sent is None or sent.shape != value.shape else sent

    work.result = lambda self: lifted(result(self))
    work.get_future = lambda self: get_future(self).then(lambda future: lifted(future.value()))


class ProcessGroupNCCL:
    """For programs that choose options of NCCL, which gloo does not have."""

    class Options:
        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream


def _is_group(value: Any) -> bool:
    return isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type())


def _group_name(boxed: Any) -> str:
    import torch.distributed as dist

    return str(dist.ProcessGroup.unbox(boxed).group_name)


def _check_for_nccl(tensor: Any) -> None:
    """What ProcessGroupNCCL refuses, and gloo takes."""
    if tensor.layout is not torch.strided:
        return
    if not tensor.is_contiguous():
        raise ValueError("Tensors must be contiguous")
    if tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point:
        raise SimulationUnsupported("gloo, which stands for NCCL, has no float8")
    if tensor.dtype not in _NCCL_TYPES:
        kind = tensor.type().removeprefix("torch.cuda.").removesuffix("Tensor")
        raise TypeError(f"Input tensor data type is not supported for NCCL process group: {kind}")


def _replace(dist: Any, name: str, made: Any) -> None:
    """Put a function in the place of another one of torch.distributed, wherever its modules have imported that."""
    original = getattr(dist, name)
    for path, module in list(sys.modules.items()):
        if path.startswith("torch.distributed") and vars(module).get(name) is original:
            setattr(module, name, made)


def _as_nccl_reduces(dist: Any, name: str) -> None:
    """NCCL has no bitwise operations, and averages whole numbers, which gloo does not."""
    original = getattr(dist, name)
    signature = inspect.signature(original)

    @wraps(original)
    def reduce(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named).arguments
        op, group = bound.get("op", dist.ReduceOp.SUM), bound.get("group")
        group = group if group is not None else dist.distributed_c10d._get_default_group()
        result = bound.get("output", bound.get("tensor"))
        if group.group_name not in _of_nccl or not isinstance(result, torch.Tensor) or not result.is_cuda:
            return original(*arguments, **named)
        for wrong in ("BAND", "BOR", "BXOR"):
            if op == getattr(dist.ReduceOp, wrong):
                raise ValueError(f"Cannot use ReduceOp.{wrong} with NCCL")
        if result.layout is not torch.strided:
            raise RuntimeError(
                f"NCCL does not support {name} with sparse tensors. Please use dense tensors instead."
            )
        if op != dist.ReduceOp.AVG or result.is_floating_point() or result.is_complex():
            return original(*arguments, **named)
        if result.dtype == torch.bool:
            raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
        work = original(**{**bound, "op": dist.ReduceOp.SUM})
        if work is not None:
            work.wait()
        result.div_(group.size(), rounding_mode="trunc")
        return work

    _replace(dist, name, reduce)


def _shadow(boxed: Any) -> Any:
    """A group that has the CUDA backend of this one for the CPU."""
    import torch.distributed as dist

    group = dist.ProcessGroup.unbox(boxed)
    name = group.group_name
    if name not in _shadows:
        backend = group._get_backend(torch.device("cuda"))
        shadow = dist.ProcessGroup(group.rank(), group.size())
        shadow._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
        shadow._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        keep(shadow)
        _shadows[name] = shadow.boxed()
    return _shadows[name]


def _install_backends(dist: Any) -> None:
    c10d = dist.distributed_c10d

    def translated(backend: Any) -> Any:
        if backend is None:
            return "cpu:gloo,cuda:gloo"
        if str(backend) == "nccl":
            return "cuda:gloo"
        return str(backend).replace("nccl", "gloo")

    def translate(function: Any, place: int) -> Any:
        @wraps(function)
        def inner(*arguments: Any, **named: Any) -> Any:
            given = list(arguments)
            backend = given[place] if len(given) > place else named.get("backend")
            if (
                "pg_options" in named
                and "nccl" in f"{type(named['pg_options']).__qualname__} {backend}".lower()
            ):
                named["pg_options"] = None
            if backend is not None or function.__name__ == "init_process_group":
                if "nccl" in str(backend) or backend is None:
                    note("NCCL is replaced by gloo")
                if len(given) > place:
                    given[place] = translated(backend)
                else:
                    named["backend"] = translated(backend)
            if named.get("device_id") is not None:
                named["device_id"] = None  # connects at once, which gloo cannot
            group = function(*given, **named)
            made = group if isinstance(group, dist.ProcessGroup) else c10d._get_default_group()
            if backend is None and function.__name__ == "new_group":
                only = _of_nccl.get(c10d._get_default_group().group_name)
            else:
                only = str(backend) == "nccl" if backend is None or "nccl" in str(backend) else None
            if only is not None and (
                group is None or isinstance(group, dist.ProcessGroup)
            ):  # it is in the group
                _of_nccl[made.group_name] = only
            return group

        return inner

    _replace(dist, "init_process_group", translate(dist.init_process_group, 0))
    _replace(dist, "new_group", translate(dist.new_group, 2))
    torch._C._nccl_version = lambda: 2 << 32 | 27 << 16 | 3
    torch._C._nccl_version_suffix = lambda: b""
    if not hasattr(dist, "ProcessGroupNCCL"):
        dist.ProcessGroupNCCL = c10d.ProcessGroupNCCL = ProcessGroupNCCL
    dist.is_nccl_available = c10d.is_nccl_available = lambda: True
    original_backend, original_destroy = dist.get_backend, dist.destroy_process_group

    def get_backend(group: Any = None) -> Any:
        found = group if group is not None else c10d._get_default_group()
        return "nccl" if _of_nccl.get(getattr(found, "group_name", "")) else original_backend(group)

    def destroy_process_group(group: Any = None) -> None:
        _shadows.clear()
        _of_nccl.clear()
        original_destroy(group)

    # Inside of torch, groups are those that they are: only the program is told otherwise.
    dist.get_backend = get_backend
    _replace(dist, "destroy_process_group", destroy_process_group)
