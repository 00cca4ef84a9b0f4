"""CUDA devices on a machine without a GPU, to see what device bugs do there.

After `enable()` this process has devices `cuda:0`, `cuda:1`, ...: plain tensors whose C++ device
is cuda and whose memory is the CPU's. Autograd, autocast, optimizers, DataLoader, saving and
loading are torch's own code, and mixing devices raises CUDA's own errors. Speed, memory figures,
streams, races and numerical differences of a GPU are not simulated.

It reaches into torch's C++ objects, so run what is to be checked in a process of its own, and
take a crash of that process as *not checked*. `python -m devfix.simulate SCRIPT` does that.
"""

from __future__ import annotations

from devfix.simulate.errors import CannotSimulate, SimulationUnsupported
from devfix.simulate.machine import Stats, machine, stats

__all__ = [
    "CannotSimulate",
    "SimulationUnsupported",
    "Stats",
    "enable",
    "enabled",
    "renew_after_fork",
    "stats",
]


def enabled() -> int:
    """How many devices are simulated in this process; 0 before `enable`."""
    return machine.devices


def enable(devices: int = 1, kind: str = "cuda") -> tuple[str, ...]:
    """Give this process simulated devices, of a kind in machine.KINDS (one of MPS), for as long as it lives.

    Must come before the first `backward()`, best before the program's own imports: libraries ask
    at import whether there is CUDA. Gives the CUDA operations that stay without a kernel; a program
    that calls one of them gets SimulationUnsupported.

    Raises CannotSimulate where there is real CUDA, on a ROCm build of torch, and, without the extension of native.py,
    on systems other than Linux and where torch is not laid out as its headers say. Do not use torch in this process
    then.
    """
    if not 1 <= devices <= 64:
        raise ValueError(f"devices must be 1 to 64, not {devices}")
    if kind == "mps" and devices != 1:
        raise ValueError(f"a Mac has 1 MPS device, not {devices}")
    if machine.devices:
        if (machine.devices, machine.kind) == (devices, kind):
            return ()
        raise CannotSimulate(f"this process already has {machine.devices} simulated devices ({machine.kind})")
    import torch

    if torch.version.hip or (torch.version.cuda and kind != "cuda"):
        raise CannotSimulate(f"torch {torch.__version__} is a GPU build, in which only CUDA can be simulated")
    if torch.cuda.is_available():
        raise CannotSimulate("real CUDA is available, so there is nothing to simulate")
    try:
        return _install(devices, kind)
    except CannotSimulate:
        raise
    except Exception as error:
        raise CannotSimulate(f"torch {torch.__version__}: {type(error).__name__}: {error}") from error


def _install(devices: int, kind: str) -> tuple[str, ...]:
    import torch

    from devfix.simulate import alias, python_api, register

    config = torch._C._show_config()
    torch._C._show_config = lambda: config  # the native one asks the CUDA hooks for a std::string
    machine.become(kind, devices)
    machine.gpu_build = bool(torch.version.cuda)
    try:
        _connect()
    except BaseException:
        machine.devices = 0
        raise
    if kind == "cuda":
        torch.cuda._lazy_init = lambda: None
    missing = register.install()
    python_api.install()
    placed = alias.to_cuda(torch.ones(1), devices - 1)
    if (placed.device, float(placed + placed)) != (machine.device(devices - 1), 2.0):
        raise CannotSimulate(f"a tensor on {kind} is not what it is on the CPU")
    machine.used = False
    return missing


def _connect() -> None:
    """Have libtorch ask this machine for its devices: by an extension, if there is one for this torch, or else by the
    layout of torch's objects, which is checked first."""
    import sys

    from devfix.simulate import guard, hooks, native

    if native.built():
        native.install()
        return
    try:
        if not sys.platform.startswith("linux"):
            raise CannotSimulate(
                f"the layout of torch's objects is known on Linux only, not on {sys.platform}"
            )
        hooks.install(guard.install())
    except CannotSimulate as error:
        advice = (
            "; `devfix simulate --build` compiles an extension that does without that"
            if machine.kind == "cuda"
            else ""
        )
        raise CannotSimulate(f"{error}{advice}") from error


def renew_after_fork() -> None:
    """Let a forked child use the devices, which CUDA forbids.

    For a parent that has only enabled them and run nothing else: the child is then as good as a
    process of its own that has just called `enable`.
    """
    machine.bad_fork = machine.used = False
