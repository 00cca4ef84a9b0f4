"""Python's own functions."""

from __future__ import annotations

import ast

from devfix.engine.collections import mapping
from devfix.engine.forms import OPEN, as_text
from devfix.engine.frame import Arguments
from devfix.engine.joins import element
from devfix.engine.transfer.methods import Methods
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANY_MEMBER,
    ANYTHING,
    BATCH,
    CLASS,
    DEVICE,
    LIBRARY,
    MODULE,
    NUMBER,
    OBJECT,
    SEQUENCE,
    TENSOR,
    TEXT,
    Value,
)
from devfix.models.frameworks import PROGRESS_BARS

_NUMBERS = frozenset(
    [
        "range",
        "len",
        "int",
        "float",
        "bool",
        "round",
        "isinstance",
        "issubclass",
        "hasattr",
        "ord",
        "hash",
        "id",
        "any",
        "all",
        "callable",
        "divmod",
        "pow",
    ]
)


class Builtins(Methods):
    def builtin(self, node: ast.Call, name: str, callee: Value, arguments: Arguments) -> Value:
        values = [value for value, _ in arguments[0]]
        first = values[0] if values else ANYTHING
        if name == "int" and first.forms:
            self.device_use("int", node, first, node.args[0])
        if name in _NUMBERS:
            return A_NUMBER if name != "range" else Value(SEQUENCE, rest=A_NUMBER)
        if name == "enumerate":
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_NUMBER, self.iterate(first, node))))
        if name == "zip":
            rows = [self.iterate(one, node) for one in values]
            if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
                inner = self.eval(node.args[0].value)
                columns = _columns(inner)
                if columns is not None:
                    return Value(SEQUENCE, items=columns)
                row = element(inner) if inner.kind == SEQUENCE else None
                if row is not None and row.items is not None:  # columns of rows
                    return Value(SEQUENCE, items=tuple(Value(SEQUENCE, rest=one) for one in row.items))
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=tuple(rows)))
        if name == "reversed" and first.kind == SEQUENCE and first.items is not None and first.rest is None:
            return first.but(items=first.items[::-1])
        if name in ("list", "tuple", "sorted", "reversed", "iter", "set", "frozenset"):
            if first.kind == SEQUENCE or not values or (first.kind == BATCH and name in ("reversed", "iter")):
                return first if values else Value(SEQUENCE, items=())
            return Value(SEQUENCE, rest=self.iterate(first, node))
        if name in PROGRESS_BARS:
            return first
        if name == "next":
            return self.iterate(first, node)
        if name == "map" and len(values) > 1:
            inner = self.iterate(values[1], node)
            return Value(SEQUENCE, rest=self.call_value(node, first, ([(inner, node.args[1])], {})))
        if name == "filter" and len(values) > 1:
            return values[1]
        if name == "dict":
            return mapping(arguments)
        if (
            name == "type"
            and len(values) == 1
            and isinstance(first.bound, Value)
            and first.bound.kind == CLASS
        ):
            return first.bound
        if name == "str":
            if first.kind != DEVICE and not first.forms:
                return A_TEXT
            return first.but(forms=as_text(first.forms or frozenset({OPEN})), role="str", bound=first)
        if name in ("sum", "max", "min", "abs"):
            return self._reduced(name, node, first, values)
        if name == "getattr" and len(values) > 1 and isinstance(values[1].const, str):
            made = ast.copy_location(ast.Attribute(node.args[0], values[1].const, ast.Load()), node)
            return self.attribute(made, first)
        if name == "getattr" and len(values) > 1 and values[1].kind == TEXT and first.kind == MODULE:
            return self.iterate(first, node).but(role="named", bound=None)  # it need not be a module
        if name == "getattr" and len(values) == 2 and first.kind == LIBRARY:
            return Value(LIBRARY, ref=f"{first.ref}.{ANY_MEMBER}")
        if name == "setattr" and len(values) == 3:
            self.arrives(node, first, node, values[2])
            if first.kind == OBJECT and first.ref is not None and isinstance(values[1].const, str):
                self.state.set_attribute(first.ref, values[1].const, values[2])
        if name == "setattr" and len(values) == 3 and first.kind == MODULE and values[2].kind == MODULE:
            self.attach(
                node,
                first,
                str(values[1].const) if isinstance(values[1].const, str) else f"#{id(node)}",
                values[2],
            )
            return ANYTHING
        if name in (
            "print",
            "super",
            "type",
            "vars",
            "repr",
            "format",
            "input",
            "open",
            "setattr",
            "delattr",
        ):
            return A_TEXT if name in ("repr", "format", "input") else ANYTHING
        return self.unknown_call(node, name, arguments)

    def is_progress_bar(self, node: ast.expr) -> bool:
        """Does an expression make a progress bar over something?"""
        name = self.file.dotted(node.func) if isinstance(node, ast.Call) else ""
        return name.rpartition(".")[2] in PROGRESS_BARS

    def _reduced(self, name: str, node: ast.Call, first: Value, values: list[Value]) -> Value:
        if name == "abs":
            return first
        one = element(first) if first.kind == SEQUENCE else first if len(values) == 1 else None
        if one is first and one.kind == TENSOR:
            one = one.but(rank=None)  # it has one dimension less than the tensor
        if one is None:
            if all(value.kind in (TENSOR, BATCH) for value in values):  # they are compared
                return self.together(node, list(zip(values, node.args, strict=True)), name)
            return A_NUMBER if all(value.kind == NUMBER for value in values) else ANYTHING
        if first.kind == SEQUENCE and one.kind == TENSOR and name == "sum":
            return self.together(node, self.tensors(first, node.args[0]), "sum")
        return one if one.kind in (TENSOR, NUMBER) else ANYTHING


def _columns(rows: Value) -> tuple[Value, ...] | None:
    """The columns of rows that are all known."""
    if rows.kind != SEQUENCE or rows.rest is not None or not rows.items:
        return None
    lines = [one.items for one in rows.items if one.items is not None and one.rest is None]
    if len(lines) != len(rows.items) or len({len(one) for one in lines}) != 1:
        return None
    return tuple([Value(SEQUENCE, items=tuple(column)) for column in zip(*lines, strict=True)])
