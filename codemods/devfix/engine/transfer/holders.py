"""What holds tensors beside those of a module, and from when on: the state of optimizers, and copies of weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.evidence import about_devices, may_be_moved_to
from devfix.engine.facts import Outrun
from devfix.engine.frame import Arguments
from devfix.engine.places import AT, IN, NOWHERE, OF, Place, alternatives
from devfix.engine.state import MAX_NESTING
from devfix.engine.transfer.functions import Functions
from devfix.engine.values import (
    LIBRARY_CALL,
    MAPPING,
    MODULE,
    OPTIMIZER,
    SEQUENCE,
    TENSOR,
    USES,
    Assumption,
    Value,
    elements,
)

_HELD = "#held"  # and the making: of a module, what was made beside it while it was on the CPU


class Holders(Functions):
    def optimizer(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """An optimizer, which knows the modules whose parameters it has; without momentum, SGD keeps no state."""
        values, keywords = arguments
        momentum = keywords.get("momentum", (None, None))[0] or (values[2][0] if len(values) > 2 else None)
        bare = name == "SGD" and (momentum is None or momentum.const in (0, 0.0, None))
        bare = bare and all(one.arg is not None for one in node.keywords)
        owners = self._owners(arguments)
        made = Value(
            OPTIMIZER, items=owners, role="bare" if bare else "", links=(self.link("make", node, name),)
        )
        if name == "Adagrad":  # which makes its state at once
            self.holds(node, "made", made, "")
        return made

    def _owners(self, arguments: Arguments) -> tuple[Value, ...]:
        """The modules that arguments are, or whose parameters they hold."""
        values, keywords = arguments
        given = [
            *values[:1],
            *(keywords[one] for one in ("params", "parameters", "model") if one in keywords),
        ]
        found = {one.ref: one for value, _ in given for one in self._modules_of(value, 0)}
        return tuple(found.values())

    def _modules_of(self, value: Value, depth: int) -> Iterator[Value]:
        if value.kind == MODULE and value.ref is not None:
            yield self._module(value.ref)
        elif value.kind == TENSOR:
            for place, _ in alternatives(value.place):
                cell = place.key
                while isinstance(cell, tuple) and cell[0] == "attribute":
                    cell = cell[1]  # a part of a module whose class is out of sight
                if cell is not None and place.kind in (AT, IN, OF):
                    yield self._module(cell)
        if value.kind in (SEQUENCE, MAPPING, TENSOR) and depth < 3:
            for one in elements(value):
                yield from self._modules_of(one, depth + 1)

    def _module(self, cell: object) -> Value:
        made = self.analysis.made.get(cell) or Value(MODULE, Place(IN, cell), ref=cell)
        name = made.links[0].name if made.links else ""
        if made.bound is None and self.models.layer(name) != "module" and not name.startswith("torch."):
            made = made.but(assumed=made.assumed | {Assumption(USES)})
        return made

    def copied_beside(self, node: ast.Call, arguments: Arguments) -> None:
        """A copy of the weights of a module is made."""
        if not any(one.arg in ("device", None) for one in node.keywords):
            self.holds(node, "copied", Value(OPTIMIZER, items=self._owners(arguments)), "")

    def holds(self, node: ast.Call, how: str, holder: Value, path: str) -> None:
        """Tensors are made beside those of modules, where these are now."""
        if holder.role == "bare" or self.quiet:
            return
        for module in holder.items or ():
            place = self.state.place_of(module.ref)
            if place == NOWHERE and module.ref in self.analysis.made and not self.analysis.default_is_known:
                continue  # it was made where the program has said that things are made
            if place == NOWHERE and not self._is_told(module):  # who made it, or got it, may have moved it
                module = module.but(assumed=module.assumed | {Assumption(LIBRARY_CALL)})
            elif not place.on_host:
                continue
            held = Outrun(how, node, self.file, path, module, self.running(), node, self.file)
            self.state.set_attribute(module.ref, f"{_HELD}{id(node)}", Value(OPTIMIZER, ref=held))

    def _is_told(self, module: Value) -> bool:
        """Is whoever makes a module told a device?"""
        link = module.links[0] if module.links else None
        made = link.node if link is not None else None
        return link is not None and made is not None and about_devices(link.file.source.code(made))

    def outrun(self, node: ast.Call, module: Value, place: Place) -> None:
        """A module is moved: what was made beside it, or its parts, before that stays where it is."""
        given = [*node.args, *(one.value for one in node.keywords)]
        told = place == NOWHERE and any(
            about_devices(self.file.source.code(one)) or may_be_moved_to(self.file.source.code(one))
            for one in given
        )
        if self.quiet or not (told or any(one.on_device for one, _ in alternatives(place))):
            return
        cells = [module.ref]
        for cell in cells:  # grows on the way
            beside = [one for _, one in self.state.attributes(cell)]
            for held in (one.ref for one in beside if isinstance(one.ref, Outrun)):
                found = held._replace(move=node, moved_in=self.file)
                if self.analysis.is_new((found.node, node, "outrun"), module.assumed):
                    self.analysis.outruns.append(found)
            inner = [one.ref for one in beside if one.kind == MODULE and one.ref is not None]
            cells += [one for one in inner if one not in cells] if len(cells) < MAX_NESTING else []
