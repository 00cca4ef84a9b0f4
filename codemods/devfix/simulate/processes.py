"""How the processes of a program get their simulated devices: through their environment.

`environment` is what a process and all that it starts need. Python then imports
`child/sitecustomize.py` first, which calls `arm`, and with that `import torch` ends with `enable`:
a process that never imports torch pays nothing. Nothing here imports torch by itself.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

from devfix.documents.state import user_folder
from devfix.simulate.errors import CannotSimulate

DEVICES = "DEVFIX_SIMULATE"  # how many devices
REPORTS = "DEVFIX_SIMULATE_REPORTS"  # a folder where every process leaves word of how it ended
DEVICE = "DEVFIX_SIMULATE_ON"  # "cuda", "mps", or "cpu": the program sees no devices at all
MOVED = "DEVFIX_SIMULATE_MOVED"  # "old:new": what sys.path has below `old` is taken from `new`
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
CANNOT = 2  # exit code

KEEP_GOING = "DEVFIX_SIMULATE_KEEP_GOING"  # "1": device errors are noted, and carried out
COPIES = "DEVFIX_SIMULATE_COPIES"  # "1": copies between devices are counted, with KEEP_GOING
PLACE = "DEVFIX_SIMULATE_PLACE"  # patterns of names of test files: what they make is put on a device
BUILT = "DEVFIX_SIMULATE_BUILT"  # the folder of compiled extensions (native.py)
SEED = "DEVFIX_SIMULATE_SEED"  # what random numbers begin with, where runs are to be compared
FORKS = "DEVFIX_SIMULATE_FORKS"  # a descriptor: this process is to be forked for what is asked for there (forks.py)

MACHINE = {"place": ""}  # what `torch.cuda` is in this process, once torch has been imported


def environment(
    devices: int,
    reports: str = "",
    *,
    device: str = "cuda",
    base: Mapping[str, str] | None = None,
    keep_going: bool = False,
    place: Sequence[str] = (),
    copies: bool = False,
) -> dict[str, str]:
    """The environment of a process with simulated devices; `base` is that of this process by default.

    `place`: how the files are called whose tensors and modules are put on a device, and `copies` says that
    copies between devices are counted, both with `keep_going`.

    `device` is "cuda", "mps", or "cpu": then the process sees no CUDA, real or simulated, and only its reports are
    written.
    """
    made = dict(os.environ if base is None else base)
    others = [path for path in made.get("PYTHONPATH", "").split(os.pathsep) if path and path != CHILD]
    made["PYTHONPATH"] = os.pathsep.join([CHILD, *others])
    made[DEVICES] = str(devices)
    made[DEVICE] = device
    made[REPORTS] = reports
    made[KEEP_GOING] = "1" if keep_going else ""
    made[COPIES] = "1" if copies else ""
    made[BUILT] = made.get(BUILT) or user_folder("cache")  # before the program gets another home
    made[PLACE] = os.pathsep.join(place)
    if device == "cpu":
        made["CUDA_VISIBLE_DEVICES"] = ""
    return made


def arm(fail: Callable[[CannotSimulate], object] | None = None) -> None:
    """Make `import torch` in this process end with simulated devices, as the environment says.

    `fail` is called where they cannot be had; by default the process says why and ends with 2.
    """
    if not os.environ.get(DEVICES, "").isdigit():
        return
    move_path()
    from devfix.simulate.children import watch

    watch(DEVICES)
    if "torch" in sys.modules:
        _begin(fail or _end)
    elif not any(isinstance(finder, _AfterTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTorch(fail or _end))


def move_path() -> None:
    """A repository that is installed from its own folder is to be imported from its copy."""
    old, _, new = os.environ.get(MOVED, "").partition(os.pathsep)
    if old and new:
        for number, path in enumerate(sys.path):
            if path == old or path.startswith(old + os.sep):
                if "site-packages" not in path and not new.startswith(path):
                    sys.path[number] = new + path[len(old) :]


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Finds torch where the others find it, and has its loader call `_begin` afterwards."""

    def __init__(self, fail: Callable[[CannotSimulate], object]) -> None:
        self.fail = fail
        self.busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch" or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self.busy = False
        if spec is None or spec.loader is None or spec.origin is None:
            return spec  # a folder that happens to have that name
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if self not in sys.meta_path:  # libraries ask for the spec of torch without importing it
                execute(module)
                return
            collects = gc.isenabled()
            gc.disable()  # torch's objects stay: to visit each of them, again and again, takes a third of the time
            try:
                execute(module)
                sys.meta_path.remove(self)
                _begin(self.fail)
                gc.freeze()
            finally:
                if collects:
                    gc.enable()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _begin(fail: Callable[[CannotSimulate], object]) -> None:
    from devfix.simulate import ending

    ending.install(os.environ.get(REPORTS, ""))
    if os.environ.get(DEVICE) == "cpu":
        MACHINE["place"] = "cpu"
    else:
        try:
            MACHINE["place"] = start(int(os.environ[DEVICES]), os.environ.get(DEVICE) or "cuda")
        except CannotSimulate as error:
            fail(error)
            return
    if os.environ.get(SEED):
        _seed(int(os.environ[SEED]))
    if os.environ.get(KEEP_GOING):
        from devfix.simulate import keeping_going

        keeping_going.install(os.environ.get(REPORTS, ""))


def _seed(number: int) -> None:
    """Programs get the same numbers in each run, on the CPU and on simulated devices: there is one generator.

    torch has loaded numpy if there is one.
    """
    import random

    from devfix.simulate.machine import machine

    machine.comparable = True

    random.seed(number)
    sys.modules["torch"].manual_seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


def start(devices: int, kind: str = "cuda") -> str:
    """Give this process its devices: real CUDA where there is some, simulated ones elsewhere.

    Returns "cuda (simulated)", "mps (simulated)" or "cuda"; raises CannotSimulate. torch is imported already.
    """
    import torch

    from devfix.simulate import enable, enabled

    if (torch.version.cuda or torch.version.hip) and not enabled():
        # Asked of the driver's management library: CUDA itself would be spoiled for forks.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        if kind == "cuda" and torch.cuda.is_available():
            found = torch.cuda.device_count()
            if found < devices:
                raise CannotSimulate(
                    f"{devices} devices were asked for, and this machine has {found} real ones"
                )
            return "cuda"
    enable(devices, kind)
    return f"{kind} (simulated)"


def _end(error: CannotSimulate) -> NoReturn:
    from devfix.simulate import ending

    ending.write(cannot=str(error))
    sys.stderr.write(f"devfix: cannot simulate devices: {error}\n")
    sys.stderr.flush()
    os._exit(CANNOT)
