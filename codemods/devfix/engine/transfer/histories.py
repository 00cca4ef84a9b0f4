"""What happens to modules, in the order in which it happens: moves, parts that they get, runs, and who gets them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

from devfix.engine.events import ATTACHED, FILLED, OWNED, RETURNED, USED, Event
from devfix.engine.evidence_of_modules import makes_module
from devfix.engine.frame import Arguments, Frame
from devfix.engine.places import AT, IN, OF, Place
from devfix.engine.transfer.elements import ANYWHERE, MAX_NESTING, Elements
from devfix.engine.transfer.requirements import Operand
from devfix.engine.values import (
    ANYTHING,
    DEVICE,
    JOIN,
    MODULE,
    MOVE,
    NAME,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Assumption,
    Value,
    elements,
)
from devfix.text.names import path_of

MAX_CELLS = 24
_TAKES_PARTS = ("set_", "add_", "attach", "register", "append", "insert", "extend")
_READS = (*_TAKES_PARTS, "load_", "update", "remove", "named_", "state_dict")
_SETS_UP = frozenset(
    {
        "eval", "train", "requires_grad_", "half", "float", "bfloat16", "double", "type", "apply", "share_memory",
        "compile", "zero_grad", "modules", "children", "parameters", "buffers",
    }
)  # fmt: skip
_PARTS = frozenset({"attribute", "element", "item", "moved"})


class Histories(Elements):
    def note(
        self,
        what: str,
        node: ast.AST,
        module: Value,
        at: ast.AST,
        *,
        place: Place | None = None,
        child: Value | None = None,
        name: str = "",
        device: str = "",
    ) -> None:
        """Something happens to a module, `at` is its expression: here, and in the functions that are running."""
        if self.quiet or not self.analysis.has_histories:
            return
        cells = self.cells(module)
        if not cells and what == USED and (path := path_of(at)):
            cells = (path,)
        if not cells:
            return
        place = self.where(module) if place is None else place
        children = self.cells(child) if child is not None else ()
        stays = self._stays(child, 0) if child is not None else self.where(module).on_host
        via, frame, known = "", cast(Frame, self), {*cells}
        while True:
            source = frame.file.source
            if frame.file is frame.analysis.file and node in source.parents:
                key = what, node, name, *((cells[0], *children[:1]) if via else ())
                path = path_of(at) or (source.code(at) if at in source.parents else "")
                frame.log.setdefault(
                    key,
                    Event(
                        what, node, source.statement(node), frame.function, module, cells, path, place,
                        child, children, stays, via, name, device, len(frame.log),
                    ),
                )  # fmt: skip
            if frame.called is None or frame.caller is None or what == RETURNED or _makes(frame, cells[0]):
                return
            call, given = frame.called
            found = next((one for value, one in given if not known.isdisjoint(self.cells(value)[:1])), None)
            if found is None:
                return
            device = self._device(frame, given, place, device)
            via = frame.function.name if frame.function is not None else via
            node, at, frame = call, found, frame.caller

    def _device(self, frame: Frame, given: Sequence[Operand], place: Place, device: str) -> str:
        """How the device of a move is written by the caller of the function that moves."""
        told = (
            at for value, at in given if value.kind == DEVICE and self.state.resolve(value.place) == place
        )
        if (at := next(told, None)) is not None:
            return ast.unparse(at)
        is_global = device.partition(".")[0] not in frame.state.names and frame.file is frame.analysis.file
        return device if is_global else ""

    def arrives(self, node: ast.AST, base: Value, at: ast.AST, part: Value) -> None:
        """Something becomes a part of a module."""
        if part.kind == UNKNOWN and part.role == "instance" and makes_module(part.links[0].name):
            part = part.doubted(Assumption(NAME, part.links[0].name))
        elif part.kind != MODULE and part.role != "parameter":
            return
        self.note(ATTACHED, node, base, at, child=part)

    def filled(self, node: ast.Attribute, module: Value, parameter: Value) -> None:
        """A layer gets a parameter from somewhere else: `new.weight = old.weight`."""
        if not self.where(parameter).on_host:
            self.note(FILLED, node, module, node.value)

    def method_called(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> None:
        """A method out of sight of what may be a module: it gets parts, is run, or only set up or read."""
        assert isinstance(node.func, ast.Attribute)
        if name.startswith(_TAKES_PARTS):
            given = arguments[0][-1][0] if arguments[0] else ANYTHING
            for part in elements(given) if given.kind == SEQUENCE else [given]:
                self.arrives(node, base, node, part)
        if not name.startswith(_READS) and name not in _SETS_UP:
            self.note(USED, node, base, node.func.value, name=name)

    def owned(self, module: Value) -> None:
        """A framework places a module from now on."""
        if isinstance(self.statement, ast.stmt):
            node = self.statement
            self.note(OWNED, node, module, node)

    def cells(self, module: Value) -> tuple[object, ...]:
        """The cells of a module, or of several that it may be, and of those that it is part of, the nearest first."""
        if module.kind not in (MODULE, UNKNOWN):
            return ()
        found = [one.ref for one in module.items or () if one.kind == MODULE] if module.kind == MODULE else []
        if module.ref is not None:
            found.append(module.ref)
        elif module.place.kind in (OF, AT, IN):
            found.append(module.place.key)
        elif module.links and module.links[-1].kind == MOVE:
            found.append(("moved", id(module.links[-1].node)))
        joined = {id(one.node) for one in module.links if one.kind == JOIN}
        if joined and found:
            others = [one for one in self.analysis.made if isinstance(one, tuple) and one[0] in joined]
            found = [("either", *found[:1], *others[:1]), *found, *others] if others else found
        for cell in found:  # grows on the way
            if len(found) < MAX_CELLS:
                found += [one for one in self._around(cell) if one not in found]
        return tuple(found)

    def _around(self, cell: object) -> list[object]:
        found: list[object] = []
        if isinstance(cell, tuple) and len(cell) > 1:
            if cell[0] in _PARTS:
                found.append(cell[1])
            elif cell[0] == "either":
                found += cell[1:3]
        if cell in self.analysis.part_of:
            found.append(self.analysis.part_of[cell])
        return found

    def _stays(self, part: Value, depth: int) -> bool:
        """Has it anything that is on the CPU because nobody moved it?"""
        if part.kind == TENSOR:
            return self.where(part).on_host
        if part.kind == UNKNOWN:
            return self.state.place_of(part.ref).on_host
        if part.role in ANYWHERE or not self.is_weighted(part):
            return False
        held = [one for _, one in self.state.attributes(part.ref)] if part.ref is not None else []
        inner = [
            one for one in held if one.role == "parameter" or (one.kind == MODULE and one.ref != part.ref)
        ]
        if inner and depth < MAX_NESTING:
            return any(self._stays(one, depth + 1) for one in inner)
        return self.where(part).on_host


def _makes(frame: Frame, cell: object) -> bool:
    """Is a module just being made? Then nothing has happened to it before, though it may stand in a loop."""
    me, function = frame.me, frame.function
    return me is not None and me.ref == cell and function is not None and function.name == "__init__"
