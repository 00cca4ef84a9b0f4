"""The Python half of CUDA in torch: torch.cuda, generators, storages, backends, torch.compile."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch

from devfix.simulate import devices, generators, graphs, mps, others, parallel, sharing, streams, tensor_types
from devfix.simulate.ending import without_own
from devfix.simulate.machine import machine
from devfix.simulate.notes import note


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
    """Whatever would generate code for a GPU runs eagerly instead."""
    with contextlib.suppress(Exception):  # TorchScript's fusers: not in every torch
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch._C._jit_set_profiling_executor(False)

    def compile(model: Any = None, **named: Any) -> Any:
        note("torch.compile is replaced by eager execution (no GPU code generation)")
        return (lambda function: function) if model is None else model

    torch.compile = compile


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
