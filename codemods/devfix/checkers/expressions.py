"""Findings from device expressions that raise wherever they are run, or that lose the index of a device."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices
from devfix.engine.facts import Missing
from devfix.engine.forms import TYPES
from devfix.findings import Edit, Finding, ReplaceExpression, SetArgument, told
from devfix.text.placing import expects_error
from devfix.text.source import FUNCTIONS, Source

# What the expression is for says whose finding it is.
_CODEMODS = {
    "compare": "device-comparison",
    "move": "move-inputs",
    "make": "place-factory",
    "type": "normalize-device-type",
}
CODEMODS = frozenset(_CODEMODS.values())


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    seen: set[ast.AST] = set()
    plain = {one.node for one in analysis.missing if one.kind == "module"}
    for one in analysis.missing:
        if one.kind == "index" and isinstance(one.node, ast.Attribute) and one.node.value in plain:
            continue
        codemod = _CODEMODS[one.user]
        if codemod not in wanted or one.node in seen or _is_expected(one, analysis):
            continue
        seen.add(one.node)
        message, edits, assumes = _MESSAGES[one.kind](one, analysis)
        span = source.span(one.node)
        title = _title(edits) if edits else ""
        finding = told(codemod, span, message, title, edits, assumes=assumes)
        yield finding, {source.position(span.start)[0]}


def _is_expected(one: Missing, analysis: Analysis) -> bool:
    """Is the error caught, or asked for before?"""
    source, node = analysis.file.source, one.node
    if expects_error(source, node):
        return True
    up: ast.AST | None = node
    while up is not None and not isinstance(up, FUNCTIONS):
        parent = source.parents.get(up)
        if isinstance(parent, ast.Try) and parent.handlers:
            return True
        tests = [parent.test] if isinstance(parent, (ast.If, ast.IfExp)) and up is not parent.test else []
        tests += parent.values if isinstance(parent, ast.BoolOp) else []
        if one.kind == "module" and any(_asks(test, one.name, source) for test in tests):
            return True
        up = parent
    return False


def _asks(test: ast.expr, name: str, source: Source) -> bool:
    """`hasattr(m, "device")`, `isinstance(m, C)`, though not for a class of torch.nn, which has none."""
    for call in source.of_kind(ast.Call, test):
        if len(call.args) == 2 and source.code(call.args[0]) == name:
            if not source.qualified(call.args[1]).startswith("torch.nn."):
                return True
    return False


def _title(edits: tuple[Edit, ...]) -> str:
    first = edits[0]
    if isinstance(first, SetArgument):
        return f"make it on `{first.value}`"
    return f"write `{first.text}`" if isinstance(first, ReplaceExpression) else "move the result"


Told = tuple[str, tuple[Edit, ...], str]  # message, edits, what the fix assumes


def _name(one: Missing, analysis: Analysis) -> Told:
    source = analysis.file.source
    edits: tuple[Edit, ...] = ()
    parent = source.parents.get(one.node)
    sides = [parent.left, *parent.comparators] if isinstance(parent, ast.Compare) else []
    beside = next((side.attr for side in sides if isinstance(side, ast.Attribute)), "")
    if one.name in TYPES and beside == "type":
        edits = (ReplaceExpression(source.span(one.node), f'"{one.name}"'),)
    elif one.name in TYPES and beside == "device" and isinstance(parent, ast.Compare):
        left, sign = source.code(parent.left), "!=" if isinstance(parent.ops[0], ast.NotEq) else "=="
        if parent.comparators == [one.node] and isinstance(parent.ops[0], (ast.Eq, ast.NotEq)):
            edits = (ReplaceExpression(source.span(parent), f'{left}.type {sign} "{one.name}"'),)
    return f"`{one.name}` is a name that nothing binds: this raises NameError", edits, ""


def _attribute(one: Missing, analysis: Analysis) -> Told:
    code = analysis.file.source.code(one.node)
    return f"`{code}` raises AttributeError: nothing in its class assigns it", (), ""


def _module(one: Missing, analysis: Analysis) -> Told:
    source = analysis.file.source
    node: ast.AST = one.node
    parent = source.parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr == "type":
        grand = source.parents.get(parent)
        node = parent if isinstance(grand, ast.Call) and parent in grand.args else node
    text = f"next({one.name}.parameters()).device"
    message = f"`{one.name}` is a torch.nn.Module, which has no `device`: this raises AttributeError"
    return message, (ReplaceExpression(source.span(node), text),), "it has parameters"


def _keyword(one: Missing, analysis: Analysis) -> Told:
    source, node = analysis.file.source, one.node
    assert isinstance(node, ast.Call)
    message = f"`{one.name}` takes no `device`: this raises TypeError"
    return message, _moved(one, source, node), "its result belongs there"


def _keyword_of_cuda(one: Missing, analysis: Analysis) -> Told:
    source, node = analysis.file.source, one.node
    assert isinstance(node, ast.Call)
    message = f"`.cuda()` has no parameter `{one.name}`: this raises TypeError"
    if len(node.keywords) > 1 or node.args or not about_devices(one.name):
        return message, (), ""
    text = f"{source.code(node.func)}(device={source.code(node.keywords[0].value)})"
    edits = (ReplaceExpression(source.span(node), text),)
    return message, edits, "`device` is meant"


def _generator(one: Missing, analysis: Analysis) -> Told:
    source, node = analysis.file.source, one.node
    assert isinstance(node, ast.Call)
    told = {given.arg: source.code(given.value) for given in node.keywords}
    where = f"with `device={told['device']}`" if "device" in told else "of a tensor on a device"
    message = f"`{told['generator']}` is a CPU generator: `{one.name}` {where} raises RuntimeError on an accelerator"
    plain = "device" in told and not {"requires_grad", "out", "pin_memory", None} & told.keys()
    return message, _moved(one, source, node) if plain else (), ""


def _elsewhere(one: Missing, analysis: Analysis) -> Told:
    source, node = analysis.file.source, one.node
    assert isinstance(node, ast.Call)
    told = {given.arg: given.value for given in node.keywords}
    generator = source.code(told["generator"])
    message = (
        f"`{generator}` is a generator of another device: `{one.name}` makes a tensor on the CPU, "
        "and raises RuntimeError on an accelerator"
    )
    plain = isinstance(told["generator"], (ast.Name, ast.Attribute)) and not {"out", None} & told.keys()
    edit = SetArgument(source.span(node), "device", f"{generator}.device")
    return message, (edit,) if plain else (), ""


def _host(one: Missing, analysis: Analysis) -> Told:
    source, node = analysis.file.source, one.node
    assert isinstance(node, ast.Call)
    message = f"`{one.name}` draws numbers on the CPU with this generator, and raises RuntimeError on an accelerator"
    edit = ReplaceExpression(source.span(node), f"{source.code(node.func)}()")
    return message, (edit,), "nothing else draws with it"


def _moved(one: Missing, source: Source, node: ast.Call) -> tuple[Edit, ...]:
    """`f(x, device=d)` -> `f(x).to(d)`; from_numpy takes nothing but the array."""
    keyword = next(given for given in node.keywords if given.arg == "device")
    device = source.code(keyword.value)
    others = [one for one in node.keywords if one is not keyword]
    if "\n" in source.code(node) or not (node.args or others):
        return ()
    told = [_argument(one, source) for one in others]
    moved = told if one.name.endswith("from_numpy") else []
    given = ", ".join([*(source.code(part) for part in node.args), *(told if not moved else [])])
    text = f"{source.code(node.func)}({given}).to({', '.join([device, *moved])})"
    return (ReplaceExpression(source.span(node), text),)


def _argument(keyword: ast.keyword, source: Source) -> str:
    value = source.code(keyword.value)
    return f"**{value}" if keyword.arg is None else f"{keyword.arg}={value}"


def _index(one: Missing, analysis: Analysis) -> Told:
    source = analysis.file.source
    message = (
        f"the type of a device has no index: what is moved here goes to the current GPU, "
        f"which may not be `{one.name}`"
    )
    return message, (ReplaceExpression(source.span(one.node), one.name),), f"it belongs on `{one.name}`"


_MESSAGES = {
    "name": _name,
    "attribute": _attribute,
    "module": _module,
    "keyword": _keyword,
    "cuda": _keyword_of_cuda,
    "generator": _generator,
    "elsewhere": _elsewhere,
    "host": _host,
    "index": _index,
}
