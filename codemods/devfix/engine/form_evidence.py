"""What the code around tells about the form of a device: tests of its class, and its other uses."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.engine import evidence, forms
from devfix.engine.files import File, Function
from devfix.engine.forms import NO_FORMS, Forms
from devfix.engine.values import Value
from devfix.text.source import Source, remembered

Answer = Callable[[forms.Form], bool | None]


OF_DEVICES = frozenset({"type", "index"})  # the attributes of a torch.device


def asked(source: File, node: ast.expr) -> tuple[str, Answer | None]:
    """The name whose form a test asks for, and what it says of a form, if that is known; an empty name if none."""
    if isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(node.args[0], ast.Name):
        name, other = node.args[0].id, node.args[1]
        asked = node.func.id if isinstance(node.func, ast.Name) else ""
        if asked == "isinstance":
            classes = other.elts if isinstance(other, ast.Tuple) else [other]
            kinds = [_KINDS.get(source.dotted(one)) for one in classes]
            if None in kinds:
                return name, None
            return name, lambda form: None if form.kind == forms.ANY else form.kind in kinds
        if asked == "hasattr" and isinstance(other, ast.Constant) and other.value in OF_DEVICES:
            return name, lambda form: None if form.kind == forms.ANY else form.kind == forms.OBJECT
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, op, right = node.left, node.ops[0], node.comparators[0]
        positive = not isinstance(op, (ast.NotEq, ast.IsNot, ast.NotIn))
        if isinstance(left, ast.Call) and source.dotted(left.func) == "type" and len(left.args) == 1:
            kind = _KINDS.get(source.dotted(right))
            if isinstance(left.args[0], ast.Name) and kind is not None:
                return left.args[
                    0
                ].id, lambda form: None if form.kind == forms.ANY else (form.kind == kind) is positive
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(left, ast.Constant) and left.value == ":":
            if isinstance(right, ast.Name):
                return (
                    right.id,
                    lambda form: (
                        None
                        if form.kind != forms.TEXT or form.numbered is None
                        else form.numbered is positive
                    ),
                )
    return "", None


_KINDS = {"str": forms.TEXT, "torch.device": forms.OBJECT, "int": forms.NUMBER}


def compared(node: ast.Compare, other: Value, function: Function, moved_to: set[str]) -> Forms:
    """The forms of the left side of a comparison by its other uses; `moved_to`: elements that something is moved to.

    Either one: such an element beside a device, and what is compared with a device's name elsewhere and with -1 here.
    A torch.device: an attribute whose `type` is read elsewhere, and what torch is given beside "gpu", unless the
    function binds it to something else for that.
    """
    if not isinstance(node.left, (ast.Name, ast.Attribute)):
        return NO_FORMS
    source = function.file.source
    code = source.code(node.left)
    if code in _typed(source) or (
        other.const in forms.WRONG_TYPES and code in _given(source) and not _is_bound(code, function)
    ):
        return forms.AN_OBJECT
    is_text = isinstance(other.const, str) and other.forms and code in moved_to
    return forms.EITHER if is_text or (other.const == -1 and _is_named(node, code, function)) else NO_FORMS


def _is_bound(code: str, function: Function) -> bool:
    """Does a function assign to a name or attribute?"""
    return any(
        isinstance(one, (ast.Name, ast.Attribute))
        and isinstance(one.ctx, ast.Store)
        and function.file.source.code(one) == code
        for one in function.nodes
    )


def _is_named(node: ast.Compare, code: str, function: Function) -> bool:
    """Is something compared with the name of a device, in another condition of the function?"""
    source = function.file.source
    for one in function.nodes:
        if isinstance(one, ast.Compare) and source.code(one.left) == code:
            other = one.comparators[0]
            text = other.value if isinstance(other, ast.Constant) else None
            if (
                isinstance(text, str)
                and forms.of_text(text)
                and source.parents[one] is not source.parents[node]
            ):
                return True
    return False


def cut_from(node: ast.expr) -> ast.expr:
    """The device that is cut down to a string, or a part of it: x of `str(x)`, `str(x)[:4]`, `x.replace(":0", "")`."""
    if isinstance(node, ast.JoinedStr) and len(node.values) == 1:
        part = node.values[0]
        return part.value if isinstance(part, ast.FormattedValue) else node
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
            return cut_from(node.args[0])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            return cut_from(node.func.value)
    if isinstance(node, ast.Subscript):
        index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
        number = isinstance(index, ast.Constant) and isinstance(index.value, int)
        if number or isinstance(index, ast.Slice):
            inner = cut_from(node.value)
            path = ast.unparse(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else ""
            if inner is not node.value or (evidence.may_name_device(path) and not path.endswith("s")):
                return inner
    return node


@remembered
def _typed(source: Source) -> frozenset[str]:
    """The attributes of `self`, as `self.device`, that a file reads the `type` of, and never asks for their class."""
    found: set[str] = set()
    for node in source.of_kind(ast.Attribute):
        inner = node.value
        if node.attr == "type" and isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            called = source.parents.get(node)
            if inner.value.id == "self" and not (isinstance(called, ast.Call) and called.func is node):
                found.add(f"self.{inner.attr}")
    asked = ("isinstance({}", "hasattr({}", "getattr({}", "type({}")
    return frozenset(one for one in found if not any(word.format(one) in source.text for word in asked))


@remembered
def _given(source: Source) -> frozenset[str]:
    """What a file moves things to: `x.to(d)`, `x.to(device=d)`."""
    moves = [
        one
        for one in source.of_kind(ast.Call)
        if isinstance(one.func, ast.Attribute) and one.func.attr == "to"
    ]
    given = [[*one.args[:1], *(k.value for k in one.keywords if k.arg == "device")] for one in moves]
    return frozenset(
        source.code(one) for part in given for one in part if isinstance(one, (ast.Name, ast.Attribute))
    )
