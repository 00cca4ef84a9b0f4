"""What a file passes to the functions of other files, and what goes wrong there then."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from copy import copy
from typing import Any

from devfix.engine.analysis import Analysis
from devfix.engine.callers import Call, Given, Site
from devfix.engine.context import Bound
from devfix.engine.facts import Mismatch
from devfix.engine.files import File, Function
from devfix.engine.frame import Frame
from devfix.engine.places import Place, is_parameter, literal
from devfix.engine.values import DEVICE, LOADER, MODULE, MOVE, TENSOR, TEXT, UNKNOWN, Value

# Path and name of a function -> where it is called -> what each run of that call passes.
PassedOn = dict[tuple[str, str], dict[tuple[int, int], list[Call]]]


class Calling(Analysis):
    """An analysis that keeps the calls of functions of other files: `passed_on`."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.passed_on: PassedOn = {}

    def run_only(self, functions: Iterable[Function]) -> None:
        """Run the body of the file, and these functions."""
        body = self._body(self.file)
        body.block(self.file.source.tree.body)
        for one in functions:
            told: tuple[list[Any], ...] = (self.mismatches, self.host_reads) if self._runs.get(one) else ()
            before = [len(facts) for facts in told]
            if one.owner is not None and one.name == "__init__":
                self.classes.state(one.owner)
            else:
                self._generic(one, one.owner)
            for facts, count in zip(told, before, strict=True):  # the body shows with what it is called
                del facts[count:]

    def note_call(self, frame: Frame, node: ast.Call, function: Function, bound: Bound) -> None:
        super().note_call(frame, node, function, bound)
        if frame.caller is None and frame.file is self.file and function.file is not self.file:
            if function.outer is None:
                name, owner = function.name, function.owner
                if owner is not None:
                    name = owner.name if name == "__init__" else f"{owner.name}.{name}"
                calls = self.passed_on.setdefault((function.file.path, name), {})
                call = {name: self._argument(frame, value) for name, value in bound.items()}
                calls.setdefault((node.lineno, node.col_offset), []).append(call)

    def _argument(self, frame: Frame, value: Value) -> Given:
        place = frame.state.resolve(value.place) if value.kind == DEVICE else frame.where(value)
        kind, role = value.kind, value.role
        if kind == TEXT and isinstance(value.const, str):
            place = literal(value.const) or place
        if is_parameter(place):  # its own callers know
            kind = ""
        elif kind == UNKNOWN and role == "instance" and place.on_device:
            kind, role = MODULE, ""  # of a class out of sight: who moves it to a device means one
        elif kind == LOADER and value.rest is not None:
            role = "owned"  # its batches are not simply on the host
        elif kind == MODULE and value.ref in self.parts.wrapped and not self.parts.unwrapped.get(value.ref):
            role = "scatters"  # on each path on which it is moved
        # A copy on the CPU is there, whatever it is a copy of.
        copied = kind == TENSOR and place.on_host and any(one.kind == MOVE for one in value.links)
        return Given(kind, role, place, copied or not value.assumed, self._site(place))

    def seen_from(self, file: File) -> Analysis:
        """What strays of what another file makes, and what that reads on the host, as facts of that file.

        What came by this file is told here; what is told a device is where something else is that went wrong.
        """
        view = copy(self)
        view.file, view.is_run = file, lambda name: True
        view.mismatches = [one for one in self.mismatches if self._strays_in(file, one)]
        view.host_reads = [one for one in self.host_reads if one.file is file]
        return view

    def _strays_in(self, file: File, mismatch: Mismatch) -> bool:
        links = mismatch.stray.links
        made, ours = links[0].node, any(one.file is self.file for one in links)
        told = isinstance(made, ast.Call) and any(one.arg == "device" for one in made.keywords)
        return links[0].file is file and not ours and not told

    def _site(self, place: Place) -> Site | None:
        """Where something is moved there, in this file."""
        source = self.file.source
        for at, _, _, _ in self.targets_here(place):
            return Site(self.file.path, *source.position(source.span(source.parents[at]).start))
        return None
