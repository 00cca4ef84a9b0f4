"""Which device a tensor is to be made on, and the edits that say so."""

from __future__ import annotations

import ast

from devfix.factories.meetings import Meeting
from devfix.factories.operations import FROM_HOST, LEGACY_DTYPES
from devfix.factories.owners import FUNCTIONS
from devfix.factories.proof import of_other_class
from devfix.factories.values import OTHER, Anchor, Form, Origin
from devfix.findings import AppendCall, Edit, ReplaceExpression, SetArgument
from devfix.flow import torch_api
from devfix.placing import may_be_none, stores
from devfix.source import Source

_SIZES = frozenset({"len", "int", "size", "dim", "numel"})


def device_for(source: Source, origin: Origin, meeting: Meeting) -> tuple[str, bool]:
    """The device expression that can be written at the origin, and whether it is sure to be right."""
    wanted = meeting.anchor
    if origin.terms is not None:
        found = origin.terms.get(wanted.text)
        if found is None:  # the others that it is given are there as well
            found = next((term for term in origin.terms.values() if _writable(source, origin, term)), None)
        return (found.text, False) if found is not None else ("", False)
    names = {name: fact for name, fact in origin.names.items() if not _comes_later(source, origin.call, name)}
    for name, fact in names.items():
        if fact.form is Form.DEVICE and fact.anchor is not None and fact.anchor.text == wanted.text:
            if wanted.text and name != wanted.text and "." not in name:
                return name, wanted.sure
    tensors = [item for f in names.values() for item in (f.items or (f,))]
    placed = [f.anchor for f in tensors if f.form is Form.TENSOR and f.anchor is not None]
    if wanted.text.endswith(".weight.device"):
        # A layer runs on what the function is given: that is what people write.
        for anchor in placed:
            if anchor.sure and anchor.root != "self" and _writable(source, origin, anchor):
                return anchor.text, True
    if wanted.text and _writable(source, origin, wanted):
        return wanted.text, wanted.sure
    for anchor in sorted(placed, key=lambda anchor: not anchor.sure):
        if anchor.text and _writable(source, origin, anchor):
            return anchor.text, False
    for name, fact in names.items():
        if fact.form is Form.DEVICE and fact.anchor is not None:
            return name, False
    return "", False


def _writable(source: Source, origin: Origin, anchor: Anchor) -> bool:
    """Is the root of a device expression what it was, where the origin stands?"""
    text, root = anchor.text, anchor.root
    if _comes_later(source, origin.call, root):
        return False
    if text == f"{root}.device" and may_be_none(
        source, root, origin.call, source.enclosing(origin.call, *FUNCTIONS)
    ):
        return False
    if text.startswith(('"', "'")) or text.isdigit():
        return True
    if root == "self" or root in source.imports:
        return True
    function = source.enclosing(origin.call, *FUNCTIONS)
    if isinstance(function, FUNCTIONS) and text == f"{root}.device" and of_other_class(function, root):
        # It may have no `device`, unless it is bound again or asked for that already.
        return bool(stores(source, function, root)) or text in source.code(function)
    fact = origin.names.get(text) or origin.names.get(root)
    if fact is None or fact == OTHER:  # it may be None there
        return False
    # A name that is no tensor of its own there, `x[0].device` or `batch.x.device`, is taken as it is.
    return fact.anchor is None or fact.form is not Form.TENSOR or _same(fact.anchor.text, text)


def _comes_later(source: Source, node: ast.AST, name: str) -> bool:
    """Does the body of the module, in which a node stands, bind a name below it only?"""
    bound = [] if source.enclosing(node, *FUNCTIONS) else stores(source, source.tree, name)
    return bool(bound) and all(source.span(one).start > source.span(node).start for one in bound)


def _same(one: str, other: str) -> bool:
    return one == other or other.startswith(one.removesuffix("device"))


def edit_for(source: Source, origin: Origin, device: str) -> Edit:
    """`device=` where the call takes it, another constructor for the old ones, else `.to(...)`."""
    call, span = origin.call, source.span(origin.call)
    move = AppendCall(span, f".to({device})")
    if origin.name in FROM_HOST or origin.inner:
        return move
    if origin.name not in torch_api.LEGACY:
        return SetArgument(span, "device", device)
    modern = None if call.keywords else of_device(source, call, origin.name, device)
    return ReplaceExpression(span, modern) if modern is not None else move


def of_device(source: Source, call: ast.Call, name: str, device: str) -> str | None:
    """What makes the tensor of an old constructor on a device, where its arguments tell which that is."""
    last, func = name.rpartition(".")[2], call.func
    if not isinstance(func, ast.Attribute) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    torch = source.code(func.value)
    dtype = f"{torch}.{LEGACY_DTYPES[last]}"
    if last == "Tensor" and "set_default_dtype" in source.text:
        dtype = f"{torch}.get_default_dtype()"
    arguments = ", ".join(source.code(argument) for argument in call.args)
    if len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.ListComp, ast.Tuple)):
        if last == "Tensor" or not isinstance(call.args[0], ast.Tuple):
            return f"{torch}.tensor({arguments}, dtype={dtype}, device={device})"
    if call.args and all(_size(argument) for argument in call.args):
        return f"{torch}.empty({arguments}, dtype={dtype}, device={device})"
    return None


def _size(node: ast.expr) -> bool:
    """Is an argument of a legacy constructor surely a number?"""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.Call):
        func = node.func
        return (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) in _SIZES and bool(
            node.args or not isinstance(func, ast.Attribute)
        )
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.BinOp):
        return _size(node.left) and _size(node.right)
    return False
