"""What holds tensors beside those of a module, and from when on: the state of optimizers, and copies of weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.facts import Outrun
from devfix.engine.frame import Arguments
from devfix.engine.functions import Functions
from devfix.engine.places import IN, LITERAL, VAR, Place
from devfix.engine.state import MAX_NESTING
from devfix.engine.values import MAPPING, MODULE, OPTIMIZER, SEQUENCE, TENSOR, Value, elements

_HELD = "#held"  # of a module: what was made beside it while it was on the CPU


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
        cell = value.ref if value.kind == MODULE else value.place.key if value.place.kind == IN else None
        if value.kind in (MODULE, TENSOR) and cell in self.analysis.made:
            yield self.analysis.made[cell]
        elif value.kind in (SEQUENCE, MAPPING) and depth < 3:
            for one in elements(value):
                yield from self._modules_of(one, depth + 1)

    def copied_beside(self, node: ast.Call, arguments: Arguments) -> None:
        """A copy of the weights of a module is made."""
        if not any(one.arg in ("device", None) for one in node.keywords):
            self.holds(node, "copied", Value(OPTIMIZER, items=self._owners(arguments)), "")

    def holds(self, node: ast.Call, how: str, holder: Value, path: str) -> None:
        """Tensors are made beside those of modules, where these are now."""
        if holder.role == "bare" or self.quiet:
            return
        for module in holder.items or ():
            if self.state.place_of(module.ref).on_host:
                held = Outrun(how, node, self.file, path, module, self.running(), node, self.file)
                self.state.set_attribute(module.ref, _HELD, Value(OPTIMIZER, ref=held))

    def outrun(self, node: ast.AST, module: Value, place: Place) -> None:
        """A module is moved: what was made beside it, or its parts, before that stays where it is."""
        if place.kind not in (VAR, LITERAL) or self.quiet:
            return
        cells = [module.ref]
        for cell in cells:  # grows on the way
            held = self.state.attribute(cell, _HELD)
            if held is not None and isinstance(held.ref, Outrun):
                found = held.ref._replace(move=node, moved_in=self.file)
                if self.analysis.is_new((found.node, node, "outrun"), module.assumed):
                    self.analysis.outruns.append(found)
            inner = [
                one.ref
                for _, one in self.state.attributes(cell)
                if one.kind == MODULE and one.ref is not None
            ]
            cells += [one for one in inner if one not in cells] if len(cells) < MAX_NESTING else []
