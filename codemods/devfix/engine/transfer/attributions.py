"""Attributions: objects that keep a network, and run it on what their `attribute()` is given."""

from __future__ import annotations

import ast

from devfix.engine.frame import Arguments
from devfix.engine.transfer.builtin import Builtins
from devfix.engine.transfer.requirements import Operand
from devfix.engine.values import BATCH, MAKE, OBJECT, SEQUENCE, TENSOR, Value
from devfix.models.loader import public

_EXPLAINS = "explains"  # the role of such an object, whose only item is the network
_FORMS = frozenset({_EXPLAINS, "compares"})
_NETWORK = ("forward_func", "model")
_MORE = "additional_forward_args"
_BASELINES = "baselines"


class Attributions(Builtins):
    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        values, keywords = arguments
        name = public(dotted)
        if self.models.layer(name) in _FORMS:
            given = values[:1] or [keywords[one] for one in _NETWORK if one in keywords]
            if given and given[0][0].kind != OBJECT:
                cell, links = (id(node), self.site, name), (self.link(MAKE, node, name),)
                return Value(OBJECT, items=(given[0][0],), links=links, ref=cell, role=_EXPLAINS)
        return super().library_call(node, dotted, arguments)

    def own_method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        if base.role == _EXPLAINS and base.items:
            if name == "attribute":
                self._explain(node, base, arguments)
            return self.like_given(node, name, arguments)
        return super().own_method(node, base, name, arguments)

    def _explain(self, node: ast.Call, base: Value, arguments: Arguments) -> None:
        """The network is run on the inputs, and on what is between them and the baselines."""
        values, keywords = arguments
        inputs = values[0] if values else keywords.get("inputs")
        if inputs is None or not base.items:
            return
        more = _parts(*keywords[_MORE]) if _MORE in keywords else []
        self.call_value(node, base.items[0], ([*_parts(*inputs), *more], {}))
        made = base.links[0].name if base.ref is not None else ""  # several classes have no order in common
        row = self.models.rows.get(made)
        at = row.beside[0] if row is not None and row.beside is not None else len(values)
        others = keywords.get(_BASELINES) or next(iter(values[at : at + 1]), None)
        if others is None:
            return
        for pair in zip(_parts(*inputs), _parts(*others), strict=False):
            held = [(self.as_tensor(value), where) for value, where in pair]
            operands: list[Operand] = [one for one in held if one[0].kind in (TENSOR, BATCH)]
            self.together(node, operands, self.file.source.code(node.func)[:40])


def _parts(value: Value, at: ast.expr) -> list[tuple[Value, ast.expr]]:
    """The elements of a tuple, each with its node, or else what is given itself."""
    if value.kind != SEQUENCE or value.items is None:
        return [(value, at)]
    nodes = getattr(at, "elts", None)
    told = nodes if nodes is not None and len(nodes) == len(value.items) else [at] * len(value.items)
    return list(zip(value.items, told, strict=True))
