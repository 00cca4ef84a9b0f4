"""How the simulator says no. Neither says anything about the program that was to run."""

from __future__ import annotations

import re

# torch 2.4, which takes no fallback. It says where kernels are registered; `lacks` does not.
_NO_KERNEL = re.compile(
    r"Could not run '\S{1,200}' with arguments from the '\w{0,99}CUDA' backend.{0,4000} registered at ",
    re.DOTALL,
)

# What is said of parts that only a build for CUDA has: kernels within a C++ function, the library, fused attention.
_NO_PART = re.compile(
    r"DispatchStub: |without ATen_cuda library|_attention: If inputs are nested tensors they must be contiguous"
)
# What CUDA itself says, to which a function of a CUDA build has come by a way of its own.
REAL_CUDA = re.compile(r"CUDA driver version is insufficient|no CUDA-capable device|Found no NVIDIA driver")


def is_refusal(error: str) -> bool:
    """Is the text of an error the simulator's own no? A worker process passes it on as text."""
    return SimulationUnsupported.TAIL in error or any(
        told.search(error) for told in (_NO_KERNEL, _NO_PART, REAL_CUDA)
    )


def lacks(operation: str, backend: str) -> NotImplementedError:
    """What torch says of an operation that a backend does not have: a bug of the program."""
    return NotImplementedError(
        f"Could not run '{operation}' with arguments from the '{backend}' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process "
        "(if using custom build)."
    )


class CannotSimulate(RuntimeError):
    """No CUDA devices can be simulated here: there is real CUDA, or a torch that is laid out otherwise."""


class SimulationUnsupported(NotImplementedError):
    """A program asked the simulated devices for something that they cannot do.

    To be read as *not checked*, never as pass or fail. Every one that is made is counted in
    `stats.refusals`, since programs and libraries may catch it.
    """

    TAIL = "This is a limit of the simulator, not a bug found in your program"

    def __init__(self, what: str) -> None:
        from devfix.simulate.machine import stats

        if self.TAIL not in what:  # DataLoader makes a second one from the first one's text
            what = f"devfix: {what}. {self.TAIL}; run this program on a real GPU to check it."
        super().__init__(what)
        stats.refusals += 1
        stats.last_refusal = what
