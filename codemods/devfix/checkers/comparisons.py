"""Findings from devices that are used in a form that they need not have: compared, looked up, cut like strings."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from devfix.checkers.writing import Writing
from devfix.comparisons.effects import moves
from devfix.engine import Analysis
from devfix.engine.facts import DeviceUse
from devfix.engine.forms import INDEXED, OBJECT, TEXT, Form
from devfix.findings import Edit, Finding, Fix, ReplaceExpression, Safety
from devfix.placing import expects_error

CODEMOD = "device-comparison"
_RAISING = frozenset({"method", "attribute", "inside", "int", "type"})
_NEGATIVE = (ast.NotEq, ast.NotIn)


class Judged(NamedTuple):
    """What is wrong with a use, and the form of the device for which it is."""

    use: DeviceUse
    form: Form
    against: Form | None
    device: ast.expr


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    if CODEMOD not in wanted:
        return
    inside = arguments(analysis)
    for one in judged(analysis):
        if one.use.sink == "type" or one.use.node in inside:
            continue
        source = analysis.file.source
        text, at = _replacement(one, analysis)
        edits: tuple[Edit, ...] = ()
        if text:
            edits = (ReplaceExpression(source.span(at), text), *Writing(analysis).imports(text))
        message = why(one, analysis)
        if edits:
            message += ". The fix makes code run that did not, or the other way round"
        fix = Fix(f"write `{text}`", edits, Safety.UNSAFE) if edits else None
        span = source.span(one.use.node)
        yield Finding(CODEMOD, span, message, fix), {source.position(span.start)[0]}


def arguments(analysis: Analysis) -> set[ast.AST]:
    """Every node in the arguments of autocast calls: what is wrong there is `normalize-device-type`'s."""
    calls = [one.node for one in analysis.autocasts.values()]
    given = (argument for call in calls for argument in (*call.args, *(k.value for k in call.keywords)))
    return {node for argument in given for node in ast.walk(argument)}


def judged(analysis: Analysis) -> list[Judged]:
    """The uses that fail, or that never hold, for a form that the device may have; one for each place."""
    best: dict[ast.AST, Judged] = {}
    for use in analysis.device_uses:
        if use.node in best:
            continue
        pair = next(_wrong(use), None)
        if pair is not None and not _is_told_apart(use, analysis):
            best[use.node] = Judged(use, *pair, _device(use))
    return list(best.values())


def _wrong(use: DeviceUse) -> Iterator[tuple[Form, Form | None]]:
    # On one path it is the very string that is asked for: the object of the other path is left out on purpose.
    is_asked = any(form.type and form in use.against for form in use.forms)
    for form in sorted(use.forms, key=lambda one: one.kind != OBJECT):
        if use.sink in ("method", "inside", "int"):
            if form.kind == OBJECT:
                yield form, None
        elif use.sink == "attribute":
            if form.kind == TEXT:
                yield form, None
        elif use.sink == "type":
            if form.kind == OBJECT or (form.kind == TEXT and form.numbered):
                yield form, None
        elif use.sink in ("among", "lookup"):
            if form.kind == OBJECT or (form.kind == TEXT and form.numbered and _all_bare(use)):
                yield form, min(use.against, key=str, default=None)
        else:
            for other in use.against:
                if never_equal(form, other) and not (is_asked and form.kind != other.kind):
                    yield form, other


def _all_bare(use: DeviceUse) -> bool:
    return all(other.numbered is False for other in use.against)


def never_equal(one: Form, other: Form) -> bool:
    """Are devices of two forms unequal though they name one device?"""
    if {one.kind, other.kind} == {OBJECT, TEXT}:
        return True
    if one.kind != other.kind or one.kind not in (OBJECT, TEXT):
        return False
    kind = one.type or other.type
    if kind not in INDEXED or (one.type and other.type and one.type != other.type):
        return False
    if one.numbered is not None and other.numbered is not None:
        return one.numbered is not other.numbered
    # `torch.device(name)` may have an index; of a string from elsewhere nobody knows.
    return one.kind == OBJECT and False in (one.numbered, other.numbered)


def _device(use: DeviceUse) -> ast.expr:
    """The side of a comparison that is the device, not what it is compared with."""
    if use.sink == "equal" and isinstance(use.node, ast.Compare) and _is_written(use.node.left):
        return use.node.comparators[0]
    return use.value_node


def _is_written(node: ast.expr) -> bool:
    """A device that is written down: `"cuda"`, `torch.device("cuda")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return isinstance(node.args[0], ast.Constant)
    return isinstance(node, ast.Constant)


def _is_told_apart(use: DeviceUse, analysis: Analysis) -> bool:
    """Does the code around ask for the form, expect the error, or do no harm when the answer is wrong?"""
    source, node = analysis.file.source, use.node
    if expects_error(source, node):
        return True
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], _NEGATIVE) and moves(source, node):
        return True
    around = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    text = source.code(use.value_node)
    asked = (f"isinstance({text},", f"type({text})", f"hasattr({text},", f"getattr({text},")
    told = (*asked, f"str({text})", f"torch.device({text})", f"{text}.type")
    up: ast.AST | None = node
    while up is not None and up is not around:
        parent = source.parents.get(up)
        if isinstance(parent, ast.Try) and parent.handlers and use.sink in _RAISING:
            return True
        if isinstance(parent, ast.BoolOp):  # `d == "cpu" or d == torch.device("cpu")`
            others = [source.code(one) for one in parent.values if one is not up]
            if any(word in other for word in told for other in others):
                return True
            if any(f"{text} == torch.device(" in other for other in others):
                return True
        up = parent
    if isinstance(use.value_node, ast.Name) or around is None:
        return False
    owner = source.enclosing(around, ast.ClassDef)
    if isinstance(owner, ast.ClassDef) and any(
        source.code(one).startswith("setattr(") for one in source.of_kind(ast.Call, owner)
    ):
        return True
    return any(source.code(one).startswith(asked) for one in source.of_kind(ast.Call, around))


# --- words -------------------------------------------------------------------------------------


def why(one: Judged, analysis: Analysis) -> str:
    """What is wrong with a use."""
    use, source = one.use, analysis.file.source
    shown = f"`{source.code(use.value_node)[:60]}`"
    what = _what(one.form, sure=len(use.forms) == 1)
    if use.sink == "method":
        return f"{shown} {what}, which has no `{use.name}`"
    if use.sink == "attribute":
        return f"{shown} {what}, which has no `{use.name}` of a device"
    if use.sink == "inside":
        return f"{shown} {what}, for which `in` raises TypeError"
    if use.sink == "int":
        return f"{shown} {what}, which is not a number"
    if use.sink == "type":
        called = use.name.rpartition(".")[2]
        return f'`{called}` expects a device type such as "cuda"; {shown} {what}'
    if use.sink in ("among", "lookup"):
        return f"{shown} {what}, which is none of the device types that are listed here"
    other = one.against
    assert other is not None
    if other.kind != one.form.kind:
        return f"{shown} {what}, which never equals {_what(other, sure=True).removeprefix('is ')}"
    numbered, plain = (one.form, other) if one.form.numbered is not False else (other, one.form)
    kind = numbered.type or plain.type
    may = "has" if numbered.numbered else "may have"
    return f'one side {may} an index, as in "{kind}:1", and the other has none'


def _what(form: Form, *, sure: bool) -> str:
    verb = "is" if sure else "may be"
    if form.kind == OBJECT:
        return f"{verb} a torch.device"
    if form.numbered:
        return f'{verb} a string with an index, as "{form.type or "cuda"}:1"'
    return f"{verb} a string"


# --- fixes -------------------------------------------------------------------------------------


def _replacement(one: Judged, analysis: Analysis) -> tuple[str, ast.expr]:
    """What to write, and in the place of what; an empty text if that is not known."""
    use, node, write = one.use, one.use.node, Writing(analysis)
    assert isinstance(node, ast.expr)
    if use.sink == "equal" and isinstance(node, ast.Compare):
        return _equal(one, node, write), node
    if use.sink == "lookup":
        return write.type_of(use, use.value_node), use.value_node
    if use.sink == "attribute":
        return write.device_of(use, use.value_node), use.value_node
    if use.sink == "among" and isinstance(node, ast.Compare) and _all_bare(use):
        sign = "not in" if isinstance(node.ops[0], ast.NotIn) else "in"
        listed = analysis.file.source.code(node.comparators[0])
        return f"{write.type_of(use, use.value_node)} {sign} {listed}", node
    if use.sink == "inside" and isinstance(node, ast.Compare):
        sign = "==" if isinstance(node.ops[0], ast.In) else "!="
        text = node.left.value if isinstance(node.left, ast.Constant) else ""
        if text in INDEXED or text == "cpu":
            quoted = analysis.file.source.code(node.left)
            return f"{write.type_of(use, use.value_node)} {sign} {quoted}", node
        return f"str({analysis.file.source.code(use.value_node)})", use.value_node
    if use.sink == "method":
        return cut(use, analysis)
    return "", node


def cut(use: DeviceUse, analysis: Analysis) -> tuple[str, ast.expr]:
    """`d.split(":")[0]` is the type of a device; any other method is that of its string."""
    source, node = analysis.file.source, use.node
    assert isinstance(node, ast.Call)
    parent = source.parents.get(node)
    first = node.args[0] if node.args else None
    if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
        if parent.slice.value == 0 and isinstance(first, ast.Constant) and first.value == ":":
            return Writing(analysis).type_of(use, use.value_node), parent
    return f"str({source.code(use.value_node)})", use.value_node


def _equal(one: Judged, node: ast.Compare, write: Writing) -> str:
    use, device = one.use, one.device
    other = node.comparators[0] if device is node.left else node.left
    forms, others = (use.forms, use.against) if device is node.left else (use.against, use.forms)
    sign = "!=" if isinstance(node.ops[0], ast.NotEq) else "=="
    told = next(iter(others)) if len(others) == 1 else None
    if told is not None and _is_written(other) and told.numbered is False:
        quote = "'" if "'" in write.source.code(other) else '"'
        return f"{write.type_of(use, device, forms)} {sign} {quote}{told.type}{quote}"
    if {form.kind for form in (*forms, *others)} <= {OBJECT} and not _is_written(other):
        return f"{write.type_of(use, device, forms)} {sign} {write.type_of(use, other, others)}"
    return f"{write.device_of(use, device, forms)} {sign} {write.device_of(use, other, others)}"
