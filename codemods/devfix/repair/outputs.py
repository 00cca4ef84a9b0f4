"""Files that a program writes, as text whose numbers can be compared with those of another run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

from devfix.documents import DocumentError, read_bytes

_SECONDS = 120
_numbers: dict[tuple[str, bytes], str] = {}  # by kind and content: torch takes seconds to be loaded
# Of each tensor its shape, and two sizes that no order of its numbers and no sign of a sum hides in.
_DESCRIBE = """
import sys
import numpy

def told(value):
    if "torch" in sys.modules and isinstance(value, torch.Tensor):
        value = value.detach()
        value = (value.abs() if value.is_complex() else value).double().numpy()
    if isinstance(value, numpy.ndarray):
        sizes = abs(value).astype(float)
        print(*value.shape, *([float(sizes.mean()), float(sizes.max())] if value.size else []))
    elif isinstance(value, dict):
        for key in value:
            told(value[key])
    elif isinstance(value, (list, tuple)):
        for one in value:
            told(one)
    elif isinstance(value, (int, float)):
        print(value)

path = sys.argv[1]
if path.endswith((".npy", ".npz")):
    found = numpy.load(path)
    told(dict(found) if path.endswith(".npz") else found)
else:
    import torch

    told(torch.load(path, map_location="cpu", weights_only=True))
"""


def told(path: str, name: str) -> str:
    """The text of a file, or the numbers in what torch or numpy has saved; raises ValueError if it is neither."""
    if not os.path.isfile(path):
        return ""
    try:
        data = read_bytes(path)
    except DocumentError as error:
        raise ValueError(f"{name}: {error}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        known = os.path.splitext(path)[1], hashlib.sha256(data).digest()
    if known not in _numbers:
        _numbers[known] = _read(path, name)
    return _numbers[known]


def _read(path: str, name: str) -> str:
    command = [sys.executable, "-c", _DESCRIBE, path]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{name}: it took too long to read") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it cannot be read"])[-1]
        raise ValueError(f"{name}: neither a text nor a file of tensors: {last}")
    return done.stdout
