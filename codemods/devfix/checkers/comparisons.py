"""Findings from devices that are used in a form that they need not have: compared, looked up, cut like strings."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import NamedTuple

from devfix.checkers.comparison_edits import replacement
from devfix.checkers.effects import asserted, moves
from devfix.checkers.writing import Writing, is_written
from devfix.engine.analysis import Analysis
from devfix.engine.facts import DeviceUse
from devfix.engine.forms import ANY, INDEXED, NUMBER, OBJECT, TEXT, WRONG_TYPES, Form, is_object
from devfix.findings import Edit, Finding, ReplaceExpression, Safety, told
from devfix.text.placing import expects_error
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "device-comparison"
_ASSUMED = "this should depend on the device: code may run that did not before, or the reverse"
_RAISING = frozenset({"method", "attribute", "inside", "int", "type"})
_NEGATIVE = (ast.NotEq, ast.NotIn, ast.IsNot)
_COMMON = frozenset({"cuda", "mps", "xpu"})


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
    inside = of_types(analysis)
    for one in judged(analysis):
        if one.use.sink == "type" or one.use.node in inside:
            continue
        source = analysis.file.source
        text, at = replacement(one.use, one.against, one.device, analysis)
        edits: tuple[Edit, ...] = ()
        if text:
            edits = (ReplaceExpression(source.span(at), text), *Writing(analysis).imports(text))
        span, assumes = source.span(one.use.node), "" if _safety(one, analysis) is Safety.SAFE else _ASSUMED
        finding = told(CODEMOD, span, why(one, analysis), f"write `{text}`", edits, assumes=assumes)
        yield finding, {source.position(span.start)[0]}


def of_types(analysis: Analysis) -> set[ast.AST]:
    """Every node of what is given for the type of a device, or that decides on it: `normalize-device-type`'s."""
    source = analysis.file.source
    calls = [one.node for one in analysis.autocasts.values()]
    given: list[ast.AST] = [use.node for use in analysis.device_uses if use.sink == "type"]
    paths = {source.code(one) for one in given if isinstance(one, (ast.Name, ast.Attribute))}
    given += [argument for call in calls for argument in (*call.args, *(k.value for k in call.keywords))]
    found = {node for argument in given for node in ast.walk(argument)}
    return found | {use.node for use in analysis.device_uses if _decides(use.node, paths, source)}


def _decides(node: ast.AST, paths: set[str], source: Source) -> bool:
    """Does a condition choose among the values of a name that is given for the type of a device?"""
    parent = source.parents.get(node)
    if isinstance(parent, ast.If) and parent.test is node:
        chosen = [one for one in parent.body if isinstance(one, ast.Assign)]
    elif isinstance(parent, ast.IfExp) and parent.test is node:
        statement = source.statement(parent)
        chosen = [statement] if isinstance(statement, ast.Assign) else []
    else:
        return False
    return any(source.code(target) in paths for one in chosen for target in one.targets)


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
    # On one path it is the very string, or number, that is asked for: the object of the other, or the device of
    # another number, is left out on purpose.
    is_asked = any((form.type and form in use.against) or _is_own_word(form, use) for form in use.forms)
    for form in sorted(use.forms, key=lambda one: (one.kind != OBJECT, str(one))):
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
            listed = all(other.kind != ANY for other in use.against) or is_object(use.forms)
            if (form.kind == OBJECT and listed) or (form.kind == TEXT and form.numbered and all_bare(use)):
                yield form, min(use.against, key=str, default=None)
        else:
            for other in sorted(use.against, key=str):
                if is_asked and (form.kind != other.kind or other.numbered):
                    continue
                if (use.sink == "same" and form.kind == other.kind == OBJECT) or _never(use, form, other):
                    yield form, other


def _is_own_word(form: Form, use: DeviceUse) -> bool:
    """May it be a number, or a word that the program has for a device, and be asked for as such?"""
    if use.value.role in ("type", "str"):
        return False
    words = any(other.type in WRONG_TYPES for other in use.against)
    return (form.kind == NUMBER and any(other.kind == NUMBER for other in use.against)) or (
        form.kind == TEXT and not form.type and words
    )


def _never(use: DeviceUse, form: Form, other: Form) -> bool:
    if never_equal(form, other):
        return True
    if form.kind != TEXT or other.kind != TEXT or other.numbered:
        return False
    if use.value.role == "type":
        return other.type in WRONG_TYPES
    # What somebody takes the string of may be a torch.device, which often has an index.
    return use.value.role == "str" and form.numbered is None and other.type in _COMMON


def all_bare(use: DeviceUse) -> bool:
    """Is what a device is looked for among a list of types, without any index?"""
    return all(other.numbered is False for other in use.against)


def never_equal(one: Form, other: Form) -> bool:
    """Are devices of two forms unequal though they name one device?"""
    kinds = {one.kind, other.kind}
    if OBJECT in kinds and len(kinds) == 2 and ANY not in kinds:
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
    if use.sink in ("equal", "same") and isinstance(use.node, ast.Compare) and is_written(use.node.left):
        return use.node.comparators[0]
    return use.value_node


def _safety(one: Judged, analysis: Analysis) -> Safety:
    """Safe: it raises as it is, an assertion can only fail, or all that begins to run moves to a device at hand."""
    use, node = one.use, one.use.node
    if use.sink in ("method", "inside"):
        return Safety.SAFE if is_object(use.forms) else Safety.UNSAFE
    if not isinstance(node, ast.Compare) or isinstance(node.ops[0], _NEGATIVE):
        return Safety.UNSAFE
    pairs = ((form, other) for form in use.forms for other in use.against)
    if not all("cpu" in (form.type, other.type) or never_equal(form, other) for form, other in pairs):
        return Safety.UNSAFE
    if not (is_object(use.forms) or is_object(use.against)) or any(form.kind == ANY for form in use.against):
        return Safety.UNSAFE
    source = analysis.file.source
    return Safety.SAFE if asserted(source, node) or moves(source, node) == "device" else Safety.UNSAFE


def _is_told_apart(use: DeviceUse, analysis: Analysis) -> bool:
    """Does the code around ask for the form, expect the error, or do no harm when the answer is wrong?"""
    source, node = analysis.file.source, use.node
    if expects_error(source, node):
        return True
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], _NEGATIVE):
        # What moves whatever the device is, does as it should: nothing fails, and on the CPU nothing moves.
        target = moves(source, node)
        if target == "device" or (target == "cpu" and Form(TEXT, "cpu", False) not in use.against):
            return True
    around = source.enclosing(node, *FUNCTIONS)
    text = source.code(use.value_node)
    asked = (f"isinstance({text},", f"type({text})", f"hasattr({text},", f"getattr({text},")
    told = [*asked, f"torch.device({text})", f"{text}.type", f"str({text})"]
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
        return f"{shown} {what}, which is none of the strings listed here"
    other = one.against
    assert other is not None
    if use.sink == "same" and one.form.kind == other.kind:
        return f"{shown} may be a new object each time: compare devices by value"
    if other.type in WRONG_TYPES:
        return f'{shown} is never "{other.type}": torch has no device of that name'
    if other.kind != one.form.kind:
        return f"{shown} {what}, which never equals {_what(other, sure=True).removeprefix('is ')}"
    numbered, plain = (one.form, other) if one.form.numbered is not False else (other, one.form)
    kind = numbered.type or plain.type
    index = f'such as "{kind}:1"'
    if numbered is not one.form:
        return f"{shown} has no index, and never equals a device that has one, {index}"
    if numbered.numbered:
        return f"{shown} has an index, {index}, and never equals a device that has none"
    return f"{shown} may have an index, {index}, and then never equals a device that has none"


def _what(form: Form, *, sure: bool) -> str:
    verb = "is" if sure else "may be"
    if form.kind == OBJECT:
        return f"{verb} a torch.device"
    if form.numbered:
        return f'{verb} a string with an index, such as "{form.type or "cuda"}:1"'
    return f"{verb} a string"
