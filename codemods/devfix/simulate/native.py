"""An extension that is compiled against the headers of the installed torch.

Its guard and hooks (native.cpp) stand in for guard.py and hooks.py, its kernels (kernels.cpp) for most of kernels.py.

The files in Python know the layouts of torch's C++ objects from its headers and check what they know; here the
compiler does. So it serves where they refuse: on other systems than Linux, on GPU builds, and on a torch that is laid
out otherwise. Its kernels take a fraction of the time of those in Python. The user asks for it
(`devfix simulate --build`): nothing is compiled by the way.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from devfix.documents.state import user_folder
from devfix.simulate import native_kernels
from devfix.simulate.errors import CannotSimulate
from devfix.simulate.hooks import is_pinned, pinning
from devfix.simulate.machine import current_device, machine, set_device
from devfix.simulate.processes import BUILT
from devfix.simulate.vtable import keep

SOURCES = tuple(Path(__file__).with_name(name) for name in ("native.cpp", "kernels.cpp", "memory.h"))
_LIBRARIES = ("c10", "torch_cpu")
_SECONDS = 600
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

_COUNT = ctypes.CFUNCTYPE(ctypes.c_int)
_PUT = ctypes.CFUNCTYPE(None, ctypes.c_int)
_NOTHING = ctypes.CFUNCTYPE(None)
_PINNED = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
_CAPTURING = ctypes.CFUNCTYPE(ctypes.c_bool)


class _Answers(ctypes.Structure):
    """As in native.cpp."""

    _fields_ = (
        ("count", _COUNT),
        ("current", _COUNT),
        ("put", _PUT),
        ("pinned", _PINNED),
        ("pinning", _NOTHING),
        ("capturing", _CAPTURING),
    )


def library() -> Path | None:
    """The file for this torch and this source, which need not be there; None if this user has no folder for it."""
    place = os.environ.get(BUILT) or user_folder("cache")
    if not os.path.isabs(place):  # it would be loaded from the tree at hand
        return None
    what = "\0".join((torch.__version__, str(torch.version.git_version), torch.__path__[0]))
    text = b"\0".join((what.encode(), *(one.read_bytes() for one in SOURCES)))
    digest = hashlib.sha256(text).hexdigest()[:16]
    return Path(place) / "simulate" / f"torch-{torch.__version__}-{digest}{_SUFFIX}"


def build() -> Path:
    """Compile the library, with the compiler of $CXX if there is one; raises CannotSimulate with what it says."""
    if torch.version.hip:
        raise CannotSimulate("builds of torch for ROCm are not simulated")
    target = library()
    if target is None:
        raise CannotSimulate("the extension needs a folder: set XDG_CACHE_HOME")
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_suffix(f".{os.getpid()}{_SUFFIX}")
    command = _command(half)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, cwd=target.parent)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotSimulate(f"{command[0]} could not be run: {error}") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise CannotSimulate(f"{command[0]} could not compile it: {' | '.join(said[:5])}")
    half.replace(target)
    return target


def _command(target: Path) -> Sequence[str]:
    root = Path(torch.__path__[0])
    include, libraries = str(root / "include"), str(root / "lib")
    gpu = ["-DGPU_BUILD"] if torch.version.cuda else []
    sources = [str(one) for one in SOURCES if one.suffix == ".cpp"]
    if sys.platform == "win32":
        names = [f"{name}.lib" for name in _LIBRARIES]
        compiler = ["cl", "/nologo", "/LD", "/MD", "/EHsc", "/std:c++20", *gpu, f"/I{include}", *sources]
        return [*compiler, "/link", f"/LIBPATH:{libraries}", *names, f"/OUT:{target}"]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    options = ["-std=c++20", "-O2", "-w", "-shared", "-fPIC", abi, *gpu, f"-I{include}", f"-L{libraries}"]
    return [*compiler, *options, "-o", str(target), *sources, *(f"-l{name}" for name in _LIBRARIES)]


def built() -> bool:
    """Is there one for this torch, and for the devices of this machine?"""
    found = library() if machine.kind == "cuda" else None
    return found is not None and found.exists()


def install() -> None:
    """Register the guard and the hooks, and share what kernels know; raises CannotSimulate if it cannot be loaded."""
    try:
        loaded = ctypes.CDLL(str(library()))
    except OSError as error:
        raise CannotSimulate(f"the compiled extension cannot be loaded: {error}") from error
    answers = _Answers(
        _COUNT(lambda: machine.devices),
        _COUNT(current_device),
        _PUT(set_device),
        _PINNED(is_pinned),
        _NOTHING(pinning),
        _CAPTURING(lambda: machine.capture is not None),
    )
    keep(loaded, answers)
    loaded.devfix_install(ctypes.byref(answers))
    native_kernels.share(loaded)
