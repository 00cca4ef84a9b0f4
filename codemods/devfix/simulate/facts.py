"""What torch is installed, which devices it has, and whether devices can be simulated: told line by line.

This runs in a process of its own, started by `devfix doctor`. Every line of output is a JSON object with all
that is known by then, so that a crash takes only what would have come after it.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

from devfix.simulate.landlock import version as landlock_version


def main() -> None:
    import torch

    known: dict[str, Any] = {"torch": torch.__version__, "build": _build(), "landlock": landlock_version()}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        known["gpus"] = _gpus()
        known["others"] = _others()
    if not known["gpus"] and torch.version.cuda and said:
        # A CUDA build that finds its GPU unusable warns; without any driver there is nothing to mend.
        message = str(said[0].message).splitlines()[0]
        if "Found no NVIDIA driver" not in message:
            known["gpu_trouble"] = message
    _tell(known)
    known["simulated"], known["simulator"] = _simulator()
    _tell(known)


def _tell(known: dict[str, Any]) -> None:
    print(json.dumps(known), flush=True)


def _build() -> str:
    import torch

    if torch.version.cuda:
        return f"CUDA {torch.version.cuda}"
    if torch.version.hip:
        return f"ROCm {torch.version.hip}"
    return "the CPU"


def _gpus() -> list[str]:
    import torch

    if not torch.cuda.is_available():
        return []
    return [f"cuda:{index} {torch.cuda.get_device_name(index)}" for index in range(torch.cuda.device_count())]


def _others() -> list[str]:
    import torch

    found = []
    mps, xpu = getattr(torch.backends, "mps", None), getattr(torch, "xpu", None)
    if mps is not None and mps.is_available():
        found.append("mps")
    if xpu is not None and xpu.is_available():
        found.extend(f"xpu:{index}" for index in range(xpu.device_count()))
    return found


def _simulator() -> tuple[bool, str]:
    """Enable it and try what all else stands on: a result that is the CPU's, and an error that is CUDA's."""
    import torch

    from devfix.simulate import CannotSimulate, enable, native

    try:
        missing = enable(2)
    except CannotSimulate as error:
        return False, str(error)
    ones = torch.ones(2, 3)
    placed = ones.to("cuda:1")
    if placed.device != torch.device("cuda:1") or float((placed @ placed.T).sum()) != 12.0:
        return False, "a product on cuda:1 is not what it is on the CPU"
    try:
        torch.nn.functional.linear(placed, ones)
    except RuntimeError as error:
        if "same device" not in str(error):
            return False, f"mixed devices raise {str(error).splitlines()[0]!r}"
    else:
        return False, "mixed devices raise nothing"
    left = f"; {len(missing)} operations have no kernel" if missing else ""
    how = "by the compiled extension" if native.built() else "layout of torch's objects checked"
    return True, f"{how}, two devices tried{left}"


if __name__ == "__main__":
    main()
