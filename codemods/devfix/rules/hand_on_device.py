"""`hand-on-device`: a function that knows the device tells it to those it calls."""

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
    """A function that knows the device tells it to those that it calls.

    ## What it does
    Finds calls that leave out the `device` that the callee takes:

    - the callee is in the file, its device is "cuda" or "cpu" where none is named (or None, which torch
      takes for the CPU), and the caller has a device of its own: a parameter, a variable, `self.device`;
    - a function with a device calls itself, or a method of its own name, without;
    - `self.__class__(..)` leaves out the device that `__init__` keeps;

    Found as well is a device that somebody has chosen, and that is overwritten before anything reads it: a
    parameter by `device = "cuda" if ... else "cpu"`, a choice from the options by `device = "cpu"`.

    Nothing is said where the callee takes the device of what else it is given, where the result is moved,
    of functions whose CPU is meant by their name (they load, save, convert, export), of data sets, of
    tests, and of what is tried after an error.

    ## Why is this bad?
    What the callee makes is on another device than the caller's: the first meeting raises "Expected all
    tensors to be on the same device". Without a GPU, a default of "cuda" raises at once. Where nothing
    raises, work is done on the CPU that was meant for the GPU.

    ## Fix safety
    Unsafe: only the text around speaks for it, and what used to be on the default device is now on another.
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
