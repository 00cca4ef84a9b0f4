"""What a base class, of this file or another one of the project, says that `self.device` is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.device_forms import Form, Forms, leading_text
from devfix.flow import Flow
from devfix.flow.evidence import annotation_text
from devfix.flow.frame import path_of
from devfix.placing import dotted
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Class = tuple[str, Source, ast.ClassDef]


def inherited(flow: Flow, node: ast.expr) -> Forms:
    """The forms of `self.x` by the nearest base classes that give it a value; empty where none in view does."""
    path = path_of(node)
    owner = flow.source.enclosing(node, ast.ClassDef)
    if not path.startswith("self.") or path.count(".") != 1 or not isinstance(owner, ast.ClassDef):
        return frozenset()
    name = path.partition(".")[2]
    if _given(flow.source, owner, name):
        return frozenset()  # it sets the attribute itself
    seen, todo = {owner}, list(_bases(flow, ("", flow.source, owner)))
    while todo:
        one = todo.pop(0)
        if one[2] in seen:
            continue
        seen.add(one[2])
        found = _given(one[1], one[2], name)
        if found:
            return found
        todo.extend(_bases(flow, one))
    return frozenset()


def _bases(flow: Flow, of: Class) -> Iterator[Class]:
    path, source, owner = of
    for base in owner.bases:
        name = dotted(base.value if isinstance(base, ast.Subscript) else base)
        here = [one for one in source.tree.body if isinstance(one, ast.ClassDef) and one.name == name]
        found = (path, source, here[-1]) if here else flow.written(source.qualified(base) or name, path)
        if found is not None:
            yield found


def _given(source: Source, owner: ast.ClassDef, name: str) -> Forms:
    """What a class makes of an attribute: in its body, as a property, or in any method."""
    values: list[ast.expr | None] = []
    for node in source.walk(owner):
        if isinstance(node, _FUNCTIONS) and node.name == name and node in owner.body:
            if annotation_text(node.returns).rpartition(".")[2] == "device":
                return frozenset({Form.OBJECT})
            returns = [one for one in source.walk(node) if isinstance(one, ast.Return)]
            values += [one.value for one in returns if source.enclosing(one, *_FUNCTIONS) is node]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            in_body = node in owner.body
            if any(dotted(target) == (name if in_body else f"self.{name}") for target in targets):
                values += [node.value] if node.value is not None or isinstance(node, ast.Assign) else []
    found: Forms = frozenset()
    for value in values:
        found |= _form(source, value) if value is not None else frozenset({Form.OPEN})
    return found


def _form(source: Source, value: ast.expr) -> Forms:
    if isinstance(value, ast.IfExp):
        return _form(source, value.body) | _form(source, value.orelse)
    if isinstance(value, ast.BoolOp):
        return frozenset().union(*(_form(source, one) for one in value.values))
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return frozenset({Form.INDEXED if ":" in value.value else Form.TYPE})
    if ":" in leading_text(value):
        return frozenset({Form.INDEXED})
    if isinstance(value, ast.Attribute) and value.attr == "type":
        return frozenset({Form.TYPE})
    if isinstance(value, ast.Call) and source.qualified(value.func) == "torch.device":
        return frozenset({Form.OBJECT})
    return frozenset({Form.OPEN})
