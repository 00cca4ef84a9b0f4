"""torch for tests that look at it: all workers collect them, and only those that run one import it, for seconds."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import pytest


class _Torch:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in (
            "_C",
            "__file__",
            "__version__",
        ):  # pytest asks all objects for these
            raise AttributeError(name)
        return getattr(importlib.import_module("torch"), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module("torch"))


torch: Any = _Torch()


def needs_torch() -> None:
    """Skip a test whose processes import torch where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


def is_built_for_cuda() -> bool:
    """Does the torch that is installed know CUDA?"""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))["cuda"] is not None
