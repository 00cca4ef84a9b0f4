"""What to write for a device that is compared, looked up or cut like a string."""

from __future__ import annotations

import ast

from devfix.checkers.writing import Writing, is_written
from devfix.engine.analysis import Analysis
from devfix.engine.facts import DeviceUse
from devfix.engine.forms import INDEXED, NUMBER, OBJECT, TYPES, WRONG_TYPES, Form, is_object
from devfix.text.source import Source


def replacement(
    use: DeviceUse, against: Form | None, device: ast.expr, analysis: Analysis
) -> tuple[str, ast.expr]:
    """What to write, and in the place of what; an empty text if that is not known.

    `device` is the side of a comparison that is the device, `against` the form of the other side that it fails for.
    """
    node, write = use.node, Writing(analysis)
    assert isinstance(node, ast.expr)
    if use.sink in ("equal", "same") and isinstance(node, ast.Compare) and against is not None:
        return _equal(use, against, device, node, write), node
    if use.sink == "lookup":
        return write.type_of(use, use.value_node), use.value_node
    if use.sink == "attribute":
        return write.device_of(use, use.value_node), use.value_node
    if use.sink == "among" and isinstance(node, ast.Compare):
        return _among(use, node, write), node
    if use.sink == "inside" and isinstance(node, ast.Compare):
        return _inside(use, node, write)
    if use.sink == "method":
        return cut(use, analysis)
    return "", node


def cut(use: DeviceUse, analysis: Analysis) -> tuple[str, ast.expr]:
    """`d.split(":")[0]` is the type of a device, `d.startswith("cuda")` asks for it; else the method of its string."""
    source, node = analysis.file.source, use.node
    assert isinstance(node, ast.Call)
    parent = source.parents.get(node)
    first = node.args[0] if node.args else None
    text = first.value if isinstance(first, ast.Constant) else None
    if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
        if parent.slice.value == 0 and text == ":":
            return Writing(analysis).type_of(use, use.value_node), parent
    if (
        use.name == "startswith"
        and isinstance(text, str)
        and text.rstrip(":") in TYPES
        and is_object(use.forms)
    ):
        asked = (
            f"{Writing(analysis).type_of(use, use.value_node)} == {_quoted(text.rstrip(':'), first, source)}"
        )
        inside = isinstance(parent, (ast.Compare, ast.BinOp, ast.Attribute, ast.Await))
        return (f"({asked})" if inside else asked), node
    return f"str({source.code(use.value_node)})", use.value_node


def _equal(use: DeviceUse, against: Form, device: ast.expr, node: ast.Compare, write: Writing) -> str:
    left = device is node.left
    other = node.comparators[0] if left else node.left
    first = device is use.value_node
    forms, others = (use.forms, use.against) if first else (use.against, use.forms)
    told = next(iter(others)) if len(others) == 1 else None
    sign = "!=" if isinstance(node.ops[0], (ast.NotEq, ast.IsNot)) else "=="
    source = write.source
    if use.value.role == "type":
        return _type(use, told, device, other, sign, write) if first else ""
    if use.sink == "same" and {form.kind for form in (*forms, *others)} == {OBJECT}:
        return f"{source.code(node.left)} {sign} {source.code(node.comparators[0])}"
    if against.kind == NUMBER:
        minus = ast.unparse(other) == "-1"
        return f'{write.type_of(use, device, forms)} {sign} "cpu"' if minus else ""
    if told is not None and is_written(other) and told.numbered is False:
        asked = _quoted(WRONG_TYPES.get(told.type, told.type), other, source)
        return f"{write.type_of(use, device, forms)} {sign} {asked}"
    if {form.kind for form in (*forms, *others)} <= {OBJECT} and not is_written(other):
        return f"{write.type_of(use, device, forms)} {sign} {write.type_of(use, other, others)}"
    return f"{write.device_of(use, device, forms)} {sign} {write.device_of(use, other, others)}"


def _type(
    use: DeviceUse, told: Form | None, device: ast.expr, other: ast.expr, sign: str, write: Writing
) -> str:
    """`x.device.type` beside a string with an index, a word that torch does not know, or a torch.device."""
    source, code = write.source, write.source.code(device)
    if told is None:
        return ""
    if told.kind == OBJECT:
        return f"{code} {sign} {write.type_of(use, other, use.against)}"
    if not isinstance(other, ast.Constant):
        return ""
    kind, _, index = str(other.value).partition(":")
    if index not in ("", "0") and isinstance(device, ast.Attribute):
        return f"{source.code(device.value)} {sign} {write.torch}.device({source.code(other)})"
    return f"{code} {sign} {_quoted(WRONG_TYPES.get(kind, kind), other, source)}"


def _among(use: DeviceUse, node: ast.Compare, write: Writing) -> str:
    sign = "not in" if isinstance(node.ops[0], ast.NotIn) else "in"
    listed = write.source.code(node.comparators[0])
    if all(other.numbered is False for other in use.against):
        return f"{write.type_of(use, use.value_node)} {sign} {listed}"
    if any(other.numbered for other in use.against) and {form.kind for form in use.forms} == {OBJECT}:
        return f"str({write.source.code(use.value_node)}) {sign} {listed}"
    return ""


def _inside(use: DeviceUse, node: ast.Compare, write: Writing) -> tuple[str, ast.expr]:
    sign = "==" if isinstance(node.ops[0], ast.In) else "!="
    text = node.left.value if isinstance(node.left, ast.Constant) else ""
    code = write.source.code(use.value_node)
    kind, _, index = str(text).partition(":")
    kind = WRONG_TYPES.get(kind, kind)
    if text == ":" and is_object(use.forms):
        return f"{code}.index is {'not ' if sign == '==' else ''}None", node
    if kind in TYPES and not index:
        return f"{write.type_of(use, use.value_node)} {sign} {_quoted(kind, node.left, write.source)}", node
    if kind in INDEXED and index.isdigit():
        return (
            f"{write.device_of(use, use.value_node)} {sign} {write.torch}.device({write.source.code(node.left)})",
            node,
        )
    return f"str({code})", use.value_node


def _quoted(text: str, like: ast.expr | None, source: Source) -> str:
    """A string with the quotes that an expression has."""
    quote = "'" if like is not None and "'" in source.code(like) else '"'
    return f"{quote}{text}{quote}"
