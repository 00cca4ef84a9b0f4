"""What is put on CUDA by name: where that is written, under which conditions, and what it meets there."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from devfix.engine.facts import Mismatch, Scope
from devfix.engine.places import AT, CHOICE, FIXED, LITERAL, NO_PATH, VAR, Path, Place, alternatives, whole
from devfix.engine.values import ANYTHING, UNKNOWN, Value
from devfix.models.loader import models
from devfix.models.torch_api import CURRENT_ACCELERATOR

if TYPE_CHECKING:
    from devfix.engine.files import File, Function
    from devfix.engine.frame import Frame

MAX_MEETS = 20  # that are kept of one value
_LITERAL = re.compile(r"cuda(?::0)?$")
Operand = tuple[Value, ast.AST]
Placed = tuple[Value, ast.AST, Place]


@dataclass(eq=False)
class Named:
    """One expression that names the current CUDA device, and what the first run found there.

    - `node` makes the value that is there; `receiver` is what is moved, None for what is made there.
    - `literal` is the part that names the device: a string, `torch.device("cuda")`, or the call itself.
    - `form`: "cuda" (`x.cuda()`), "to" (`x.to("cuda")`), "device" (`device="cuda"` of what makes a tensor),
      "legacy" (`torch.cuda.FloatTensor(..)`), "options" (`{"device": "cuda"}` of a call), "default" (of a parameter).
    - `value`: what is moved; `meets`: the operations on it and on what is where somebody else says.
    """

    node: ast.expr
    literal: ast.expr
    form: str
    receiver: ast.expr | None = None
    is_run: bool = False
    value: Value = ANYTHING
    path: Path = NO_PATH
    scopes: tuple[Scope, ...] = ()
    meets: list[Mismatch] = field(default_factory=list)


class AllNamed:
    """All of one file, by the calls, and by the places, that they stand for."""

    def __init__(self, file: File) -> None:
        self.calls: dict[ast.AST, Named] = {}
        self.places: dict[Place, Named] = {}  # of a parameter with such a default
        self.came: dict[object, Named] = {}  # by the key of what a call out of sight has made of a value
        self.peers: dict[Named, list[Named]] = {}  # what else is named and meets it
        self.asked: dict[ast.AST, Value] = {}  # of which value it is asked where it is
        self._made: dict[ast.AST, Named] = {}  # by what made it on the CPU
        if "cuda" in file.source.text:
            found = (_of_call(file, node) for node in file.source.of_kind(ast.Call))
            self.calls = {one.node: one for one in found if one is not None}
            for function in file.all_functions:
                for name, default in function.defaults.items():
                    if names_cuda(file, default, text=True):
                        self.places[of_parameter(function, name)] = Named(default, default, "default")

    def of(self, value: Value, place: Place) -> Named | None:
        """By which name a value is where it is, on some path at least."""
        for link in value.links if place.kind in (LITERAL, CHOICE) else ():
            found = self.calls.get(link.node)
            if found is not None and link.kind == "move":
                return found
        if (
            place.kind == CHOICE
            and value.links
            and any(one.kind == LITERAL for one, _ in alternatives(place))
        ):
            return self._made.get(value.links[0].node)  # it was made on the CPU, and moved on one path
        return self.places.get(place) or (self.came.get(whole(place)) if place.kind == AT else None)

    def note(self, frame: Frame, node: ast.Call) -> None:
        """Something is put on CUDA by name now."""
        found = self.calls.get(node)
        if found is not None and not found.is_run and _is_first(frame):
            found.is_run, found.path, found.scopes = True, frame.state.path, frame.scopes()

    def ask(self, frame: Frame, node: ast.AST, value: Value) -> None:
        """It is asked where a value is."""
        if self.calls and _is_first(frame):
            self.asked.setdefault(node, value)

    def made(self, node: ast.AST, value: Value) -> Value:
        """A tensor is made on CUDA by name, or something else is moved there."""
        found = self.calls.get(node)
        if found is not None and found.value is ANYTHING:
            found.value = value
            if value.links:
                self._made.setdefault(value.links[0].node, found)
        return value

    def met(
        self, frame: Frame, node: ast.AST, one: Placed, other: Placed, operation: str, strict: bool
    ) -> None:
        """Two values come together."""
        for (value, at, place), (beside, beside_at, there) in ((one, other), (other, one)):
            found = self.of(value, place) if place.kind != VAR or place in self.places else None
            peer = self.of(beside, there) if found is not None else None
            if found is None or there.kind == LITERAL or peer is not None:
                if found is not None and peer is not None and peer is not found:
                    known = self.peers.setdefault(found, [])
                    known += [peer] if peer not in known else []
                continue
            if len(found.meets) >= MAX_MEETS or any(
                known.node is node and known.anchor_node is beside_at for known in found.meets
            ):
                continue
            found.meets.append(
                Mismatch(
                    operation=operation, node=node, file=frame.file, function=frame.function, relation=FIXED,
                    stray=value, stray_place=place, stray_node=at,
                    anchor=beside, anchor_place=there, anchor_node=beside_at,
                    assumed=value.assumed | beside.assumed, scopes=frame.scopes(), path=frame.state.path,
                    running=frame.running(), strict=strict,
                )
            )  # fmt: skip

    def ran(
        self, frame: Frame, node: ast.AST, module: Operand, given: Sequence[Operand], *, runs: bool = False
    ) -> None:
        """A module is run on values: on those of which it is not known whether they are tensors, or on all if it
        `runs` out of sight."""
        if frame.quiet or not (self.calls or self.places):
            return
        place = frame.where(module[0])
        for value, at in given:
            if runs or value.kind == UNKNOWN:
                home = frame.where(value) if self.of(value, value.place) is None else value.place
                self.met(frame, node, (value, at, home), (*module, place), "the module", True)
            for one in value.items or ():
                self.ran(frame, node, module, [(one, at)], runs=runs)

    def derived(self, frame: Frame, made: Value, given: list[Value]) -> Value:
        """What a call out of sight makes of a value may be where that is."""
        for value in given:
            found = self.of(value, frame.where(value))
            if found is not None and self.came.setdefault(made.place.key, found) is not found:
                self.peers.setdefault(found, []).append(self.came[made.place.key])
        return made


def of_parameter(function: Function, name: str) -> Place:
    """The device that a parameter is."""
    return Place(VAR, ("parameter", id(function.node), name))


def _is_first(frame: Frame) -> bool:
    """Is this the run of a function for itself, and not for a call of it?"""
    nested = frame.function is not None and frame.function.outer is not None
    return not frame.quiet and frame.file is frame.analysis.file and (frame.caller is None or nested)


def _of_call(file: File, node: ast.Call) -> Named | None:
    """What a call names; what other codemods own (autocast, map_location) is left out."""
    func, dotted = node.func, file.source.qualified(node.func)
    given = [one.value for one in node.keywords if one.arg == "device"]
    if isinstance(func, ast.Attribute) and func.attr == "cuda" and not dotted:
        plain = all(one.arg in ("non_blocking", "device") for one in node.keywords)
        told = [*node.args, *given]
        named = plain and len(told) <= 1 and all(names_cuda(file, one) for one in told)
        return Named(node, node, "cuda", func.value) if named else None
    if isinstance(func, ast.Attribute) and func.attr == "to":
        literal = next((one for one in (*node.args[:1], *given) if names_cuda(file, one, text=True)), None)
        return Named(node, literal, "to", func.value) if literal is not None else None
    row = models().rows.get(dotted)
    if row is not None and row.form == "cuda":
        return Named(node, node, "legacy")
    made = row is not None and row.form in ("make", "data", "like")
    if made or (isinstance(func, ast.Attribute) and func.attr.startswith("new_") and not dotted):
        return next((Named(node, one, "device") for one in given if names_cuda(file, one)), None)
    for keyword in node.keywords:
        if keyword.arg == "run_opts" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "device" and names_cuda(file, value):
                    return Named(node, value, "options")
    return None


def is_choice(file: File, chosen: ast.IfExp) -> bool:
    """Is what is chosen where the machine has an accelerator just that: CUDA, or `torch.accelerator`'s (torch 2.6)?"""
    body = chosen.body
    if isinstance(body, ast.Call) and file.source.qualified(body.func) == CURRENT_ACCELERATOR:
        return True
    return names_cuda(file, body)


def names_cuda(file: File, node: ast.expr, *, text: bool = False) -> bool:
    """`"cuda"`, `"cuda:0"`, `torch.device("cuda")`; without `text` the index 0 too."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _LITERAL.match(node.value) is not None
        return not text and node.value == 0 and not isinstance(node.value, bool)
    if isinstance(node, ast.Call) and file.source.qualified(node.func) == "torch.device":
        return len(node.args) == 1 and not node.keywords and names_cuda(file, node.args[0], text=True)
    return False
