"""`hand-on-device`: a function that knows the device passes it to those that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Related, Safety, SetArgument
from devfix.flow import Flow
from devfix.handing.examples import EXAMPLES
from devfix.handing.missing import Missed, Missing


@dataclass(frozen=True)
class HandOnDevice(Codemod):
    """Pass the device on to functions that take one.

    ## What it does
    Finds calls that leave out the `device` that the callee takes:

    - the callee is in the file, its device defaults to "cuda" or "cpu" (or to None, which torch takes for
      the CPU), and the caller has a device of its own: a parameter, a variable, `self.device`;
    - a function with a device calls itself, or a method with its own name, without it;
    - `self.__class__(..)` leaves out the device that `__init__` keeps.

    It also finds a chosen device that is overwritten before anything reads it: a parameter by
    `device = "cuda" if ... else "cpu"`, an option of the command line by `device = "cpu"`.

    It leaves alone callees that take the device from another argument, results that are moved, functions
    whose name says that they work on the CPU (load, save, convert, export), data sets, tests, and what is
    tried after an error.

    ## Why is this bad?
    The callee works on another device than its caller, and the first operation on both results raises
    "Expected all tensors to be on the same device". Without a GPU, a default of "cuda" raises at once.
    Where nothing raises, work that was meant for the GPU is done on the CPU.

    ## Fix safety
    Unsafe: only the surrounding code suggests it, and what used to be on the default device is now on
    another one.
    """

    id: ClassVar[str] = "hand-on-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("torch",),
        ("device=", "device =", "device:", "device,", "device)", "dev=", "dev =", "dev:", "dev,", "dev)"),
    )
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        for missing in Missed(flow).find():
            yield self._left_out(flow, missing)

    def _left_out(self, flow: Flow, missing: Missing) -> Finding:
        source = flow.source
        span = source.span(missing.call)
        name = source.code(missing.call.func)
        return self.finding(
            span,
            f"`{name}` is called without `{missing.parameter}={missing.device}`, {missing.why}",
            title=f"hand on `{missing.parameter}={missing.device}`",
            edits=(SetArgument(span, missing.keyword or missing.parameter, missing.device),),
            safety=Safety.UNSAFE,
            related=(Related(source.span(missing.related), missing.note),),
        )
