"""The Python half of CUDA in torch: torch.cuda, generators, storages, backends, torch.compile."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from devfix.simulate import devices, generators, parallel, streams, tensor_types
from devfix.simulate.notes import note


def install() -> None:
    devices.install()
    streams.install()
    generators.install()
    tensor_types.install()
    parallel.install()
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91002
    torch.backends.cuda.is_built = lambda: True
    torch.version.cuda = torch.version.cuda or "12.8"
    _install_compilers()


def _install_compilers() -> None:
    """Whatever would generate code for a GPU runs eagerly instead."""
    with contextlib.suppress(Exception):  # TorchScript's fusers: not in every torch
        torch._C._jit_set_texpr_fuser_enabled(False)
        torch._C._jit_set_profiling_executor(False)

    def compile(model: Any = None, **named: Any) -> Any:
        note("torch.compile is replaced by eager execution (no GPU code generation)")
        return (lambda function: function) if model is None else model

    torch.compile = compile
