"""The Python half of CUDA in torch: torch.cuda, generators, storages, backends, torch.compile."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import overrides

from devfix.simulate import devices, generators, graphs, mps, others, parallel, sharing, streams, tensor_types
from devfix.simulate.ending import without_own
from devfix.simulate.machine import machine
from devfix.simulate.notes import note

_PACKAGE, _FOLDER = "devfix.simulate", os.path.dirname(__file__)


def install() -> None:
    """For the machine's kind of devices."""
    if machine.kind == "mps":
        mps.install()
    else:
        if machine.kind != "cuda":
            others.prepare()
        devices.install()
        streams.install()
        if machine.kind == "cuda":
            _install_cuda()
    generators.install()
    tensor_types.install()
    _install_compilers()
    _install_tracebacks()
    _name_as_in_torch()
    skip_own_code()


def _name_as_in_torch() -> None:
    """What stands in the place of a function of torch has its name, by which pickle and torch.fx find it again."""
    homes = (torch, torch.Tensor, machine.module, *map(sys.modules.get, (f"torch.{machine.kind}.memory",)))
    for home in filter(None, homes):
        inside = "Tensor." if home is torch.Tensor else ""
        for name, function in list(vars(home).items()):
            if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(_FOLDER):
                function.__name__, function.__qualname__ = name, inside + name
                function.__module__ = "torch" if inside else home.__name__
    for known in (overrides.get_ignored_functions, overrides.get_testing_overrides):
        known.cache_clear()
    overrides._get_overridable_functions.cache_clear()


def _install_cuda() -> None:
    devices.install_nvidias()
    graphs.install()
    parallel.install()
    sharing.install()
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91002
    torch.backends.cuda.is_built = lambda: True
    torch.version.cuda = torch.version.cuda or "12.8"
    _install_profilers()


def _install_compilers() -> None:
    """What would generate code for a GPU runs the graphs that torch.compile has traced, or the program, eagerly."""
    with contextlib.suppress(Exception):  # TorchScript's fusers: not in every torch
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch._C._jit_set_profiling_executor(False)

    def run_eagerly(self: Any, model: Any, inputs: Any, **named: Any) -> Any:
        note("torch.compile traces the program and runs the graphs eagerly (no GPU code generation)")
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend("aot_eager")(model, inputs)

    inductor = torch._TorchCompileInductorWrapper
    inductor.__call__, inductor.get_compiler_config = run_eagerly, lambda self: self.config
    for name in ("_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled"):
        if not hasattr(torch._C, name):  # torch._dynamo.reset imports them
            setattr(torch._C, name, type(name, (), {}))


def skip_own_code() -> None:
    """torch.compile leaves the functions of the simulator alone, where code that it runs comes to them.

    It compiles every function of Python that is called while it is on, kernels as well.
    """
    frames: Any = torch._C._dynamo.eval_frame
    leave: Any = getattr(frames, "skip_code", None)  # before torch 2.7
    if leave is None:
        never = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)

        def leave(code: CodeType) -> None:
            frames.set_code_exec_strategy(code, never)

    def skip(code: CodeType) -> None:
        leave(code)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                skip(inner)

    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE):
            for value in [*vars(module).values()]:
                for one in vars(value).values() if isinstance(value, type) else (value,):
                    code = getattr(inspect.unwrap(one) if callable(one) else one, "__code__", None)
                    if isinstance(code, CodeType) and os.path.dirname(code.co_filename) == _FOLDER:
                        skip(code)


def _install_profilers() -> None:
    """There is nothing to time on simulated devices."""
    profiler = torch.autograd.profiler
    original = profiler.profile.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        if named.get("use_device") == "cuda" or named.get("use_cuda"):
            note("profilers record the CPU's times only")
            named["use_device"] = None
            named.pop("use_cuda", None)
        original(self, *arguments, **named)

    profiler.profile.__init__ = init
    kinds = torch.profiler.ProfilerActivity
    supported = lambda: {kinds.CPU, kinds.CUDA}  # noqa: E731
    torch.profiler.supported_activities = torch.profiler.profiler.supported_activities = supported
    profiler.emit_nvtx.__enter__ = lambda self: self
    profiler.emit_nvtx.__exit__ = lambda self, *error: False


def _install_tracebacks() -> None:
    """What a DataLoader worker or a thread of DataParallel passes on is a traceback as text."""
    wrapper = torch._utils.ExceptionWrapper
    original = wrapper.__init__

    def init(self: Any, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info or sys.exc_info()
        original(self, (kind, error, without_own(trace)), where)

    wrapper.__init__ = init
