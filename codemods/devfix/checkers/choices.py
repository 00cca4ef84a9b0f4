"""Devices that are chosen and then lost, and names that torch knows no device by."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from devfix.checkers.signs import is_other_framework
from devfix.engine.analysis import Analysis
from devfix.engine.files import File, Function
from devfix.engine.forms import WRONG_TYPES
from devfix.engine.places import literal
from devfix.findings import DeleteStatement, Edit, Finding, ReplaceExpression, told
from devfix.text.source import Source

LOST, NAMES, COMPARED, NUMBERS = (
    "hand-on-device",
    "normalize-device-type",
    "device-comparison",
    "hard-coded-cuda",
)
CODEMODS = frozenset({LOST, NAMES, COMPARED, NUMBERS})
# Codemod, where, message, title of the fix, its edits, and what it assumes.
_Told = tuple[str, ast.AST, str, str, tuple[Edit, ...], str]
_CHOOSING = (ast.IfExp, ast.Attribute, ast.Subscript, ast.JoinedStr)


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    file = analysis.file
    packages = {one.partition(".")[0] for one in file.source.imports.values()}
    if "torch" not in packages or is_other_framework(file.source):
        return  # `.to("gpu")` and `.cuda()` are of something else
    for codemod, node, message, title, edits, assumes in (*_lost(file), *_names(file), *_numbers(file)):
        if codemod in wanted:
            span = file.source.span(node)
            finding = told(codemod, span, message, title, edits, assumes=assumes)
            yield finding, {file.source.position(span.start)[0]}


def is_device(node: ast.expr, file: File) -> bool:
    """Is it an expression that can be nothing but a device: `torch.device(...)`, `"cuda" if ... else "cpu"`?"""
    if isinstance(node, ast.IfExp):
        return is_device(node.body, file) and is_device(node.orelse, file)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and literal(node.value) is not None
    if isinstance(node, ast.JoinedStr):
        return literal(_beginning(node)) is not None
    return isinstance(node, ast.Call) and file.dotted(node.func) == "torch.device"


# --- choices that are lost ---------------------------------------------------------------------


def _lost(file: File) -> Iterator[_Told]:
    for function in file.all_functions:
        yield from _parameters(file, function)
    for scope in (file.source.tree, *(one.node for one in file.all_functions)):
        yield from _bound_twice(file, scope.body, whole=scope is file.source.tree)


def _parameters(file: File, function: Function) -> Iterator[_Told]:
    """`def f(x, device): device = torch.device("cuda")`, of a parameter that was not read before."""
    names = {one.arg for one in function.parameters}
    for i, statement in enumerate(function.node.body):
        name = _bound(statement)
        if name not in names or not isinstance(statement, ast.Assign) or not is_device(statement.value, file):
            continue
        if _reads(file.source, [*function.node.body[:i], statement.value], name):
            continue
        default = function.defaults.get(name)
        message = f"`{name}` is overwritten before it is read, so what a caller asks for has no effect"
        title, edits = _kept_if_given(file.source, statement, name, default)
        yield LOST, statement, message, title, edits, "callers should choose it"


def _kept_if_given(
    source: Source, statement: ast.Assign, name: str, default: ast.expr | None
) -> tuple[str, tuple[Edit, ...]]:
    """The title of the fix, and its edits."""
    if isinstance(default, ast.Constant) and default.value is None:
        text = source.code(statement.value)
        if "\n" in text:
            return "", ()
        edit = ReplaceExpression(source.span(statement.value), f"({text}) if {name} is None else {name}")
        return f"overwrite `{name}` only where it is None", (edit,)
    return f"keep `{name}`", (DeleteStatement(source.span(statement)),)


def _bound_twice(file: File, body: Sequence[ast.stmt], *, whole: bool) -> Iterator[_Told]:
    """`device = torch.device(args.device)`, and below `device = "cpu"`, with nothing that reads it in between."""
    last: dict[str, int] = {}
    for i, statement in enumerate(body):
        name = _bound(statement)
        if not name or not isinstance(statement, ast.Assign) or not is_device(statement.value, file):
            continue
        before = last.get(name)
        last[name] = i
        if before is None or not _is_plain(statement.value):
            continue
        first = body[before]
        assert isinstance(first, ast.Assign)
        between: Sequence[ast.AST] = body[:i] if whole else body[before + 1 : i]
        if _is_plain(first.value) or _reads(file.source, [*between, statement.value], name):
            continue
        line = file.source.position(file.source.span(first).start)[0]
        message = f"`{name}` is chosen on line {line} and overwritten here before it is read"
        title, edit = f"keep the `{name}` of line {line}", DeleteStatement(file.source.span(statement))
        yield LOST, statement, message, title, (edit,), "the first choice is meant"


def _bound(statement: ast.stmt) -> str:
    """The name that an assignment of one name binds; empty for any other statement."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def _reads(source: Source, nodes: Sequence[ast.AST], name: str) -> bool:
    names = (one for node in nodes for one in source.of_kind(ast.Name, node))
    return any(one.id == name and isinstance(one.ctx, ast.Load) for one in names)


def _is_plain(value: ast.expr) -> bool:
    """Does an expression name its device, with nothing to choose?"""
    given = value.args if isinstance(value, ast.Call) else [value]
    return not any(isinstance(inner, _CHOOSING) for one in given for inner in ast.walk(one))


# --- names and numbers -------------------------------------------------------------------------


def _names(file: File) -> Iterator[_Told]:
    """`torch.device("gpu:0")`, `.to("GPU")`: torch raises."""
    source = file.source
    for call in source.calls:
        for given in _devices(call, file):
            for constant, written in _first_texts(given):
                kind = written.partition(":")[0]
                right = WRONG_TYPES.get(kind)
                if right is None:
                    continue
                span = source.span(constant)
                text = source.code(constant)
                message = f'torch knows no device "{kind}": this raises RuntimeError'
                edits: tuple[Edit, ...] = ()
                if text[:1] in "'\"":
                    edits = (ReplaceExpression(span, text[:1] + right + text[1 + len(kind) :]),)
                yield NAMES, constant, message, f'name it "{right}"', edits, f'"{right}" is meant'
    for node in source.of_kind(ast.Compare):
        yield from _compared(node, file)


def _compared(node: ast.Compare, file: File) -> Iterator[_Told]:
    """`device == "gpu"`, where a name was bound to names of devices only, and never to that one."""
    if (
        len(node.ops) != 1
        or not isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        or not isinstance(node.left, ast.Name)
    ):
        return
    other = node.comparators[0]
    if not isinstance(other, ast.Constant) or other.value not in WRONG_TYPES:
        return
    name, source = node.left.id, file.source
    bound = [one.value for one in source.of_kind(ast.Assign) if _bound(one) == name]
    stored = [one for one in source.of_kind(ast.Name) if one.id == name and not isinstance(one.ctx, ast.Load)]
    if not bound or len(stored) != len(bound) or any(one.arg == name for one in source.of_kind(ast.arg)):
        return
    if all(is_device(one, file) for one in bound):
        right = WRONG_TYPES[str(other.value)]
        edit = ReplaceExpression(source.span(other), f'"{right}"')
        message = f'`{name}` is never "{other.value}": torch has no device of that name'
        yield COMPARED, node, message, f'compare it with "{right}"', (edit,), f'"{right}" is meant'


def _devices(call: ast.Call, file: File) -> list[ast.expr]:
    """The arguments of a call that torch takes for devices."""
    called = file.dotted(call.func)
    given = [one.value for one in call.keywords if one.arg == "device" and called.startswith("torch.")]
    if called == "torch.device" or (isinstance(call.func, ast.Attribute) and call.func.attr == "to"):
        given += call.args[:1]
    return given


def _first_texts(node: ast.expr) -> Iterator[tuple[ast.Constant, str]]:
    """The constants that a text may begin with: of both arms, of `"cuda:%d" % i`, of `"cuda:" + i`."""
    if isinstance(node, ast.IfExp):
        yield from _first_texts(node.body)
        yield from _first_texts(node.orelse)
    elif isinstance(node, ast.BinOp):
        yield from _first_texts(node.left)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        yield from _first_texts(node.func.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node, node.value


def _beginning(node: ast.JoinedStr) -> str:
    first = node.values[0] if node.values else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


def _numbers(file: File) -> Iterator[_Told]:
    """`torch.device("cuda:1")` as the only accelerator of a program: most machines have one."""
    source = file.source
    named = [
        (one, one.value)
        for one in source.of_kind(ast.Constant)
        if isinstance(one.value, str) and (place := literal(one.value)) is not None and not place.on_host
    ]
    kind, _, number = named[0][1].partition(":") if named else ("", "", "")
    if number in ("", "0") or any(text != named[0][1] for _, text in named) or _asks(source):
        return
    for node, written in named:
        call = source.parents.get(node)
        while isinstance(call, ast.IfExp):
            call = source.parents.get(call)
        if isinstance(call, ast.Call) and file.dotted(call.func) == "torch.device":
            message = f'this file uses "{written}" only, which a machine with one GPU does not have'
            edit = ReplaceExpression(source.span(node), source.code(node).replace(written, kind))
            yield NUMBERS, node, message, f'use "{kind}"', (edit,), "any GPU will do"


def _asks(source: Source) -> bool:
    """Does a file ask how many devices there are, or choose which are visible?"""
    return source.has("device_count") or source.has("CUDA_VISIBLE_DEVICES")
