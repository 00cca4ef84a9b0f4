"""A run that goes on after device errors: each is noted, and carried out as if the stray had been moved.

`carrying_out` sees torch's functions from above and tries again with the operands together. What no function
sees (autograd's own threads, kernels of optimizers) comes to the kernels' device checks, which go on by themselves
(`carry_on`): on simulated devices all memory is the CPU's. `elsewhere` has the errors of torch's Python: autocast,
checkpoints, optimizers. `histories` knows where tensors come from, `recording` what has been seen, `copies` what is
copied again and again, `comparisons` devices that are never equal; `placing` is for suites that never ask for CUDA.
"""

from __future__ import annotations

from typing import Any

from devfix.simulate.machine import machine
from devfix.simulate.notes import note


def install(folder: str) -> None:
    """Go on after device errors in this process, from now on; what is seen is written into `folder`.

    For a process that has its devices already, or none at all.
    """
    import torch

    from devfix.simulate.keeping_going import (
        carrying_out,
        comparisons,
        copies,
        elsewhere,
        histories,
        placing,
        recording,
    )

    recording.install(folder)
    copies.install(folder)
    comparisons.install(folder)
    histories.install()
    elsewhere.install()
    machine.carry_on = carrying_out.carry_on
    machine.other_generator = carrying_out.other_generator
    placing.install()
    torch.compile = _not_compiled
    carrying_out.KeepGoing().__enter__()  # never left: the process is the program's


def _not_compiled(model: Any = None, **named: Any) -> Any:
    """torch.compile, which would trace what is called after a device error."""
    note("torch.compile is replaced by eager execution, so that the program goes on after device errors")
    return (lambda function: function) if model is None else model
