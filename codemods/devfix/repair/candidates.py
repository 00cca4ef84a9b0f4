"""The edits that bring a stray value to where the others are, by the link of its history that is changed."""

from __future__ import annotations

import ast
from collections import Counter

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch, Surgery
from devfix.engine.values import BATCH, ELEMENT, LOAD, PART, PASS, TENSOR, Link
from devfix.findings import AppendCall, DeleteStatement, Edit, InsertStatement, ReplaceExpression, SetArgument
from devfix.models.loader import models
from devfix.placing import bound_before, dotted
from devfix.repair.expressible import expressible
from devfix.source import Source, remembered

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def at_its_making(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """`device=` where a tensor is made, or `.to(...)` behind a call that takes none: the device, and the edits."""
    source, link = analysis.file.source, made_at(mismatch)
    if (
        link.file is not analysis.file
        or not isinstance(link.node, (ast.Call, ast.Subscript))
        or (link.kind == LOAD and link.name == "loader")
        or stays_on_host(link.node, analysis)
    ):
        return "", ()
    device = written(mismatch, analysis, link.node) or _of_taken(mismatch)
    if not device:
        return "", ()
    span = source.span(link.node)
    row = models().function(analysis.file.dotted(link.node.func)) if isinstance(link.node, ast.Call) else None
    if row is not None and row.form in ("make", "data", "like"):
        return device, (SetArgument(span, "device", device),)
    return device, (AppendCall(span, f".to({device})"),)


def made_at(mismatch: Mismatch) -> Link:
    """The link by which a stray comes into being: of an item of a batch, where it is taken out."""
    links = mismatch.stray.links
    taken = [
        one
        for one in links
        if one.kind == ELEMENT and isinstance(one.node, ast.Subscript) and one.name != PART
    ]
    taken = [one for one in taken if not _is_store(one.node)]
    return taken[-1] if taken and links[0].kind == LOAD and links[0].name == "loader" else links[0]


def written(mismatch: Mismatch, analysis: Analysis, node: ast.AST) -> str:
    """The device of the others as it can be written at a node: as something visible, or as the function names it."""
    source = analysis.file.source
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
    if device and not device.startswith("next("):
        return device
    function = source.enclosing(node, *_FUNCTIONS)
    for at, _, _, _ in analysis.targets.get(mismatch.anchor_place, ()):
        if at in source.parents and dotted(at) and source.enclosing(at, *_FUNCTIONS) is function:
            if bound_before(source, at, source.statement(node)):
                return source.code(at)
    return device


def _of_taken(mismatch: Mismatch) -> str:
    """The device of a parameter that the function copies to the CPU under another name."""
    key, function = mismatch.anchor_place.key, mismatch.function
    if (
        mismatch.anchor.role != "taken"
        or function is None
        or not isinstance(key, tuple)
        or key[0] != "parameter"
    ):
        return ""
    stored = any(isinstance(one, ast.Name) and one.id == key[2] for one in function.nodes if _is_store(one))
    return "" if stored else f"{key[2]}.device"


def _is_store(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def at_the_meeting(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """`.to(...)` where a stray is handed on, in the function that has it, or where it meets the others."""
    source, stray = analysis.file.source, mismatch.stray
    for node in (
        *[link.node for link in stray.links if link.kind == PASS and link.file is analysis.file],
        mismatch.stray_node,
    ):
        if not isinstance(node, ast.expr) or not _is_one_tensor(mismatch) or isinstance(node, ast.Starred):
            continue
        if mismatch.file is not analysis.file and node is mismatch.stray_node:
            continue
        device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
        if device:
            return device, (AppendCall(source.span(node), f".to({device})"),)
    return "", ()


def has_to(link: Link) -> bool:
    """Is it the output of a tokenizer or a processor, which has a `.to` of its own?"""
    keywords = link.node.keywords if isinstance(link.node, ast.Call) else []
    given = [one.value for one in keywords if one.arg == "return_tensors"]
    return link.kind == LOAD and any(isinstance(one, ast.Constant) and one.value == "pt" for one in given)


def of_a_literal(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """The device of the others in the place of an accelerator by name."""
    source, link = analysis.file.source, mismatch.stray.links[0]
    node = link.node
    if link.file is not analysis.file or not isinstance(node, ast.Call) or _beside(node, mismatch, analysis):
        return "", ()
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
    if not device or device.startswith('"'):
        return "", ()
    for keyword in node.keywords:
        if keyword.arg == "device":
            return device, (ReplaceExpression(source.span(keyword.value), device),)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        if len(node.args) > 1 or node.keywords:
            return "", ()
        return device, (ReplaceExpression(source.span(node), f"{source.code(node.func.value)}.to({device})"),)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.args:
        return device, (ReplaceExpression(source.span(node.args[0]), device),)
    return "", ()


def moved_again(surgery: Surgery, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """A second move behind the statement by which a module got a part."""
    source, node = analysis.file.source, surgery.node
    if surgery.file is not analysis.file or not isinstance(node, (ast.Attribute, ast.Subscript)):
        return "", ()
    device = expressible(source, surgery.place, surgery.scopes, node)
    statement = source.statement(node)
    if not device or not isinstance(statement, ast.Assign):
        return "", ()
    text = source.code(node.value)
    return device, (InsertStatement(source.span(statement), f"{text}.to({device})"),)


def as_buffer(link: Link, analysis: Analysis) -> tuple[Edit, ...]:
    """`register_buffer` in the place of the assignment of an attribute."""
    source = analysis.file.source
    if link.file is not analysis.file or link.name.startswith("_"):
        return ()
    statement = source.statement(link.node)
    function = source.enclosing(statement, ast.FunctionDef)
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or statement.targets[0] is not link.node
    ):
        return ()
    if (
        not isinstance(function, ast.FunctionDef)
        or function.name != "__init__"
        or not isinstance(link.node, ast.Attribute)
    ):
        return ()
    if not _initialised(function, statement) or _stored_again(source, function, link.node):
        return ()
    text = source.code(statement.value)
    if "\n" in text or "#" in text or isinstance(statement.value, (ast.Tuple, ast.Yield)):
        return ()
    span = source.span(statement)
    line = f'{source.code(link.node.value)}.register_buffer("{link.name}", {text}, persistent=False)'
    return InsertStatement(span, line), DeleteStatement(span)


def _initialised(function: ast.FunctionDef, statement: ast.stmt) -> bool:
    """Does a statement of the constructor itself, above this one, call `super().__init__`?"""
    for one in function.body:
        if one is statement:
            return False
        if (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and isinstance(one.value.func, ast.Attribute)
        ):
            if one.value.func.attr == "__init__":
                return True
        if one.lineno >= statement.lineno:
            return False
    return False


def _stored_again(source: Source, function: ast.FunctionDef, target: ast.Attribute) -> bool:
    return _stores(source, source.enclosing(function, ast.ClassDef))[target.attr] > 1


@remembered
def _stores(source: Source, owner: ast.AST | None) -> Counter[str]:
    """How often attributes of each name are stored in a class."""
    attributes = source.of_kind(ast.Attribute, owner)
    return Counter(node.attr for node in attributes if not isinstance(node.ctx, ast.Load))


def _is_one_tensor(mismatch: Mismatch) -> bool:
    """A tensor, or what a loader gives after it was taken apart: not a batch of unknown form."""
    if mismatch.stray.kind == TENSOR:
        return True
    links = mismatch.stray.links
    return (
        mismatch.stray.kind == BATCH and links[0].kind == LOAD and any(one.kind == ELEMENT for one in links)
    )


def stays_on_host(node: ast.AST, analysis: Analysis) -> bool:
    """Is what is made, or stored, here needed on the CPU as well?"""
    if node in analysis.read_on_host:
        return True
    return any(other not in analysis.strays for other in analysis.company.get(node, ()))


def _beside(node: ast.AST, mismatch: Mismatch, analysis: Analysis) -> bool:
    """Does a literal meet another one, which would stay?"""
    return any(other not in analysis.strays for other in analysis.company.get(node, ()))
