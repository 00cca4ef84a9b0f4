"""Findings from what is given for the type of a device: a torch.device, a string with an index, a part of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from devfix.checkers.comparison_edits import cut
from devfix.checkers.comparisons import Judged, judged, of_types, why
from devfix.checkers.writing import Writing
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_type_name, may_name_device
from devfix.engine.facts import DeviceUse
from devfix.engine.forms import ANY, OBJECT, OPEN, TEXT, TYPES, Form, is_object, of_text
from devfix.engine.values import DEVICE, UNKNOWN
from devfix.engine.values import TEXT as A_TEXT
from devfix.findings import (
    AppendCall,
    Edit,
    Finding,
    Fix,
    Related,
    ReplaceExpression,
    Safety,
    WrapExpression,
    told,
)
from devfix.text.bindings import bound
from devfix.text.placing import expects_error, guards_of
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "normalize-device-type"
_NAMED = (ast.Name, ast.Attribute, ast.Subscript)
_CUTS = frozenset({"[", ".split(", ".startswith(", ".replace(", ".lower("})


def found(analysis: Analysis) -> Iterator[Finding]:
    """What is wrong with the expressions that are given for the type of a device, or that decide on it."""
    spoken: set[ast.AST] = set()
    for use in _wrong(analysis):
        spoken |= set(ast.walk(use.node))
        yield _written(use, analysis) or _normalized(use, analysis)
    inside = of_types(analysis) - spoken
    for one in judged(analysis):
        if one.use.node in inside and one.use.sink not in ("type", "inside"):
            yield _as_string(one, analysis)
    asked = {use.node: use for use in analysis.device_uses if use.sink == "inside" and use.node in inside}
    yield from (_asked_for(use, analysis) for use in asked.values() if _may_fail(use, analysis))


# --- which ones are wrong ----------------------------------------------------------------------


def _wrong(analysis: Analysis) -> Iterator[DeviceUse]:
    """For each expression one use that fails; what is known of one call tells more than the name of a parameter."""
    uses: dict[ast.AST, list[DeviceUse]] = {}
    for use in analysis.device_uses:
        if use.sink == "type":
            uses.setdefault(use.node, []).append(use)
    for same in uses.values():
        known = [use for use in same if use.forms or use.value.role == "type"] or same
        if analysis.file.path.endswith(".ipynb"):  # nobody else calls its functions
            known = [use for use in known if not _is_given(use)] or known
        wrong = next((use for use in known if _is_wrong(use, analysis)), None)
        if wrong is not None and not expects_error(analysis.file.source, wrong.node):
            every = frozenset().union(*[use.forms or {OPEN} for use in same])
            yield replace(wrong, forms=every if wrong.forms else wrong.forms)


def _is_wrong(use: DeviceUse, analysis: Analysis) -> bool:
    row, forms = analysis.models.rows.get(use.name), use.forms
    if row is not None and row.form != "context":
        return bool(forms) and all(one.kind == OBJECT for one in forms)  # "cuda:0" is read as "cuda"
    if use.value.role == "type" or _is_told(use, analysis):
        return False
    bare = use.node is use.value_node or isinstance(use.node, ast.Subscript)
    fails = (
        _is_numbered(one) or (one.kind == OBJECT and (bare or one.numbered is not False)) for one in forms
    )
    if any(fails):
        # Of names the engine knows what tests have told.
        source, device = analysis.file.source, use.value_node
        return isinstance(device, ast.Name) or not _asks(source, device, source.code(device))
    return not (forms and all(_is_type(one) for one in forms)) and _by_name(use, analysis)


def _is_given(use: DeviceUse) -> bool:
    """Is it a parameter, of which no call is in view?"""
    key = use.value.place.key
    return isinstance(key, tuple) and key[0] == "parameter"


def _is_numbered(form: Form) -> bool:
    return form.kind == TEXT and bool(form.numbered)


def _is_type(form: Form) -> bool:
    return form.kind == TEXT and form.numbered is False


def _by_name(use: DeviceUse, analysis: Analysis) -> bool:
    """May it be any device, by what it is called, and does nothing around it ask which one?"""
    if use.value.kind not in (UNKNOWN, DEVICE, A_TEXT):
        return False
    source = analysis.file.source
    parts = use.value_node.values if isinstance(use.value_node, ast.BoolOp) else [use.value_node]
    for part in parts:
        code = source.code(part) if isinstance(part, _NAMED) else ""
        if may_name_device(code) and not is_type_name(code.rpartition(".")[2]):
            if not _is_from_elsewhere(use, analysis) and not _asks(source, part, code):
                return True
    return False


def _is_from_elsewhere(use: DeviceUse, analysis: Analysis) -> bool:
    """Is it imported, or made by a call of what is, from a file that is not in view and may know what is wanted?"""
    source, key = analysis.file.source, use.value.place.key
    if not isinstance(key, tuple) or use.forms:
        return False
    if key[0] == "global":
        return len(key) == 2
    call = next((one for one in source.calls if id(one) == key[0]), None)
    return call is not None and source.code(call.func).partition(".")[0] in source.imports


def _is_told(use: DeviceUse, analysis: Analysis) -> bool:
    """Does it stand below `if str(d) == "cuda":`, and is that?"""
    source, text = analysis.file.source, analysis.file.source.code(use.node)
    for guard in guards_of(source, use.node):
        test = guard.test
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1:
            below = any(use.node in source.of_kind(type(use.node), one) for one in guard.body)
            if below and source.code(test.left) == text and _all_types(test.comparators[0]):
                return True
    return False


def _all_types(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    texts = [one.value for one in parts if isinstance(one, ast.Constant)]
    return len(texts) == len(parts) > 0 and all(isinstance(one, str) and ":" not in one for one in texts)


def _asks(source: Source, node: ast.AST, code: str) -> bool:
    """Does the function, or what assigns the attribute, ask for its class, an index, or whether it is a type?"""
    around = source.enclosing(node, *FUNCTIONS)
    if around is not None and _asks_in(source, around, code):
        return True
    for one in bound(source, code, node):
        scope = source.enclosing(one.node, *FUNCTIONS)
        if one.value is not None and scope is not None:
            if any(_asks_in(source, scope, name.id) for name in source.of_kind(ast.Name, one.value)):
                return True
    return False


def _asks_in(source: Source, scope: ast.AST, code: str) -> bool:
    if any(source.code(one).startswith(f"isinstance({code},") for one in source.of_kind(ast.Call, scope)):
        return True
    for one in source.of_kind(ast.Compare, scope):
        other = one.comparators[0]
        if isinstance(one.ops[0], (ast.In, ast.NotIn)):
            if source.code(other) == code and isinstance(one.left, ast.Constant) and one.left.value == ":":
                return True
            if source.code(one.left) == code and _all_types(other) and not isinstance(other, ast.Constant):
                return True
    return False


# --- what to write -----------------------------------------------------------------------------


def _written(use: DeviceUse, analysis: Analysis) -> Finding | None:
    """ "cuda:0" and f"cuda:{rank}" are "cuda"."""
    node, source = use.node, analysis.file.source
    types = {one.type for one in use.forms if one.kind == TEXT}
    if isinstance(node, _NAMED) or use.value_node is not node or len(types) != 1 or len(use.forms) > 1:
        return None
    (kind,) = types
    if not kind or not isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call)):
        return None
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
        return None
    quote = '"' if '"' in source.code(node) else "'"
    edit = ReplaceExpression(source.span(node), f"{quote}{kind}{quote}")
    message = f'`{_called(use)}` expects a device type such as "{kind}", without an index'
    return told(CODEMOD, source.span(node), message, f'say "{kind}"', (edit,))


def _code(use: DeviceUse, source: Source) -> str:
    """The text of the device; positions inside of f-strings cannot be relied on."""
    inside = isinstance(use.node, ast.JoinedStr)
    return ast.unparse(use.value_node) if inside else source.code(use.value_node)


def _called(use: DeviceUse) -> str:
    return use.name.rpartition(".")[2]


def _normalized(use: DeviceUse, analysis: Analysis) -> Finding:
    """`torch.device(d).type`, which is right for strings, torch.devices and numbers; `d.type` of a torch.device."""
    node, device, source, write = use.node, use.value_node, analysis.file.source, Writing(analysis)
    exact = bool(use.forms) and all(one.kind == OBJECT for one in use.forms)
    code, span = _code(use, source), source.span(node)
    edit: Edit
    if device is not node:
        short = exact and isinstance(device, (*_NAMED, ast.Call))
        edit = ReplaceExpression(span, f"{code}.type" if short else f"{write.torch}.device({code}).type")
    elif exact:
        edit = AppendCall(span, ".type")
    else:
        edit = WrapExpression(span, f"{write.torch}.device(", ").type")
    imports = () if exact else write.imports(f"{write.torch}.")
    # What a test is parametrized with is mostly a type.
    around = source.enclosing(node, *FUNCTIONS)
    tested = isinstance(around, ast.FunctionDef) and around.name.startswith("test")
    safe = any(one.kind == OBJECT or _is_numbered(one) for one in use.forms) or not tested
    related = _origin(device, source)
    shown = code if len(code) <= 40 else "the device"
    title, assumes = f"use the type of `{shown}`", "" if safe else "it need not be a plain type here"
    return told(CODEMOD, span, _why(use, related, source), title, (edit, *imports), related, assumes)


def _why(use: DeviceUse, related: tuple[Related, ...], source: Source) -> str:
    node, device, forms = use.node, use.value_node, use.forms
    wants = f'`{_called(use)}` expects a device type such as "cuda"'
    code = _code(use, source)
    shown = f"`{code}`" if len(code) <= 60 else "this device"
    if related:
        shown += f" (set on line {source.position(related[0].span.start)[0]})"
    if device is not node and isinstance(node, ast.Subscript):
        if any(one.kind == OBJECT for one in forms):
            return f"{wants}; {shown} is a torch.device, which cannot be sliced like a string"
        return f"{wants}; a part of {shown} is a device type for some devices only"
    if device is not node and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return f'{wants}; this is right for "cuda:0" only, and {shown} can be "cuda:1"'
    if device is not node:
        return f'{wants}; {shown} as a string can be "cuda:0"'
    if forms and all(one.kind == OBJECT for one in forms):
        return f"{wants}; {shown} is a torch.device"
    if forms and all(one.kind == TEXT for one in forms):
        return f'{wants}; {shown} can be "cuda:0"'
    return f'{wants}; {shown} can be "cuda:0" or a torch.device'


def _origin(device: ast.expr, source: Source) -> tuple[Related, ...]:
    """Where a device gets its value: where that is no plain type, if there are several."""
    code = source.code(device) if isinstance(device, (ast.Name, ast.Attribute)) else ""
    every = bound(source, code, device) if code else []
    best = sorted(
        every,
        key=lambda one: (one.value is None or _is_plain_type(one.value) or one.parameter, one.parameter),
    )
    if not best or isinstance(best[0].node, ast.withitem):
        return ()
    what = "is a parameter" if best[0].parameter else "is set here"
    return (Related(source.span(best[0].node), f"`{code}` {what}"),)


def _is_plain_type(node: ast.expr) -> bool:
    arms = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    return all(isinstance(one, ast.Constant) and one.value in TYPES for one in arms)


def _as_string(one: Judged, analysis: Analysis) -> Finding:
    """What is read of a string or an object that it need not be: `d.split(":")[0]`, `d.type`."""
    source, write, use = analysis.file.source, Writing(analysis), one.use
    edits: tuple[Edit, ...] = ()
    text, at = "", use.value_node
    safe = False
    if use.sink == "method":
        text, at = cut(use, analysis)
        safe = is_object(use.forms)  # it raises as it is
    elif use.sink == "attribute":
        text, safe = f"{write.torch}.device({source.code(at)})", True
    if text:
        edits = (ReplaceExpression(source.span(at), text), *write.imports(text))
    span, assumes = source.span(use.node), "" if safe else "any string here names a device"
    return told(CODEMOD, span, why(one, analysis), f"write `{text}`", edits, assumes=assumes)


# --- "cuda" in d -------------------------------------------------------------------------------


def _may_fail(use: DeviceUse, analysis: Analysis) -> bool:
    """Is `"cuda" in d` asked of what is, or may be, a torch.device?"""
    source, code = analysis.file.source, analysis.file.source.code(use.value_node)
    asked = (
        use.node.left.value
        if isinstance(use.node, ast.Compare) and isinstance(use.node.left, ast.Constant)
        else ""
    )
    if asked not in TYPES or not isinstance(use.node, ast.Compare) or not isinstance(use.node.ops[0], ast.In):
        return False
    if any(one.kind == OBJECT for one in use.forms):
        return True
    if use.forms and not any(one.kind == ANY or one == Form(TEXT) for one in use.forms):
        return False
    if any(f"{code}{used}" in source.text for used in _CUTS) or not _by_name(use, analysis):
        return False
    values = [one.value for one in bound(source, code, use.value_node)]
    displays = (ast.List, ast.Tuple, ast.Set, ast.Dict)
    texts = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return not any(isinstance(one, displays) for one in values) and all(of_text(one) for one in texts)


def _asked_for(use: DeviceUse, analysis: Analysis) -> Finding:
    source, write, node = analysis.file.source, Writing(analysis), use.node
    assert isinstance(node, ast.Compare)
    code, exact = (
        source.code(use.value_node),
        bool(use.forms) and all(one.kind == OBJECT for one in use.forms),
    )
    kind = f"{code}.type" if exact else f"{write.torch}.device({code}).type"
    text = f"{kind} == {source.code(node.left)}"
    what = "is" if exact else "can be"
    message = f"`{code}` {what} a torch.device, for which `{source.code(node)}` raises TypeError"
    edits = (ReplaceExpression(source.span(node), text), *write.imports(text))
    # What is no parameter, and no attribute that `self` got of one, is an option: mostly a string.
    given = code.removeprefix("self.").isidentifier() or any(one.kind == OBJECT for one in use.forms)
    fix = Fix(f"ask for the type of `{code}`", edits, Safety.SAFE if given else Safety.UNSAFE)
    return Finding(CODEMOD, source.span(node), message, fix, _origin(use.value_node, source))
