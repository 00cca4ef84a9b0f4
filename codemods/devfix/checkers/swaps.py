"""Code that puts a new layer in the place of an old one, and forgets where the old one was."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.checkers.surgeries import CODEMOD
from devfix.engine.analysis import Analysis
from devfix.engine.events import ATTACHED, MOVED
from devfix.engine.evidence_of_modules import is_size_name
from devfix.engine.places import LITERAL, VAR
from devfix.findings import AppendCall, Edit, Finding, InsertStatement, SetArgument, Span, told
from devfix.models import torch_api
from devfix.text.names import path_of
from devfix.text.placing import around, covers, dotted
from devfix.text.source import FUNCTIONS, Source, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
Places = list[tuple[ast.stmt, ast.expr]]
_LEAF_SIZES = frozenset(
    {"in_features", "out_features", "in_channels", "out_channels", "weight", "embedding_dim"}
)


def findings(analysis: Analysis) -> Iterator[Finding]:
    """New layers that share or copy an old one's shape, and parameters that a wrapper adds to its base."""
    source = analysis.file.source
    if "setattr(" not in source.text and "._modules[" not in source.text and "Parameter(" not in source.text:
        return
    for node in sorted(source.definitions, key=lambda node: node.lineno):
        if isinstance(node, FUNCTIONS):
            text = source.code(node)
            places = _places(node) if "setattr(" in text or "._modules[" in text else []
            if places and not _is_moved_elsewhere(analysis, node):
                yield from _shared(source, node, places)
                yield from _replaced(source, node, places)
        else:
            yield from _wrapper(analysis, node)


# --- functions that swap -----------------------------------------------------------------------


def _is_moved_elsewhere(analysis: Analysis, function: Function) -> bool:
    """Is the function called in this file? Then the engine knows what becomes of the model."""
    source = analysis.file.source
    whole = source.span(function)
    for call in source.calls_by_name.get(function.name, ()):
        if isinstance(call.func, ast.Name) and not whole.start <= source.span(call).start < whole.end:
            return True
    every = (one for log in analysis.histories.values() for one in log.values())
    return any(
        one.what == ATTACHED
        and one.via == function.name
        and (one.place.on_host or one.place.kind in (VAR, LITERAL))
        for one in every
    )


def _places(function: Function) -> Places:
    """Statements that put a module into another one under a name that is computed, with that module."""
    found: Places = []
    for node in walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3:
                if not isinstance(call.args[1], ast.Constant):
                    found.append((node, call.args[2]))
        elif (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Subscript)
        ):
            base = node.targets[0].value
            if isinstance(base, ast.Attribute) and base.attr == "_modules":
                found.append((node, node.value))
    return found


def _moves(source: Source, function: ast.AST, name: str) -> set[ast.stmt]:
    """Statements that move `name`, or modules in it."""
    names = {name}
    for node in walk(function):
        if isinstance(node, ast.For) and any(dotted(part) == name for part in walk(node.iter)):
            names |= {part.id for part in walk(node.target) if isinstance(part, ast.Name)}
    return {
        source.statement(node)
        for node in walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda", "to_empty")
        and dotted(node.func.value) in names
    }


def _settles(source: Source, function: ast.AST, name: str, since: ast.stmt) -> bool:
    """Is `name` moved on every way, before or after it is put into place, or in a loop, as somebody has decided?"""
    moves = _moves(source, function, name)
    return any(source.enclosing(move, ast.For) for move in moves) or any(
        covers(other, moves) for one in around(source, since) for other in source.block(one)
    )


def _shared(source: Source, function: Function, places: Places) -> Iterator[Finding]:
    """`new.weight = old.weight`: the weight is where it was, what else is in `new` is not."""
    for place, child in places:
        name = dotted(child)
        shares = [
            (node, dotted(node.value.value))
            for node in walk(function)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.targets[0].attr == node.value.attr == "weight"
            and dotted(node.targets[0].value) == name
        ]
        if (
            not name
            or not shares
            or _known_layer(source, function, name)
            or _settles(source, function, name, place)
        ):
            continue
        share, old = shares[-1]
        if not old:
            continue
        anchor = _last(source, name, old, share)
        line = source.position(source.span(place).start)[0]
        yield told(
            CODEMOD,
            Span(source.span(share).start, source.span(anchor).end),
            f"`{name}` replaces `{old}` on line {line} and shares its weight, but its other parameters "
            f"stay on the CPU, even if `{old}` is elsewhere",
            f"move `{name}` to where `{old}` is",
            (InsertStatement(source.span(anchor), f"{name}.to({old}.weight.device)"),),
            assumes=f"it is run where `{old}` was",
        )


def _last(source: Source, name: str, old: str, share: ast.stmt) -> ast.stmt:
    """The last statement of the block that takes something over from the old layer."""
    block = source.block(share)
    return [
        one
        for one in block[block.index(share) :]
        if any(
            isinstance(node, ast.Assign)
            and dotted(node.targets[0]).startswith(f"{name}.")
            and old in ast.unparse(node)
            for node in walk(one)
        )
    ][-1]


def _known_layer(source: Source, function: ast.AST, name: str) -> bool:
    """Is `name` a layer of torch, which has no other parameters than those that are shared?"""
    made = [
        node.value
        for node in walk(function)
        if isinstance(node, ast.Assign)
        and dotted(node.targets[0]) == name
        and isinstance(node.value, ast.Call)
    ]
    return bool(made) and all(source.qualified(call.func).startswith("torch.nn.") for call in made)


def _replaced(source: Source, function: Function, places: Places) -> Iterator[Finding]:
    """`new = Cls(old.in_features, old.out_features); setattr(parent, name, new)`."""
    if "device" in source.code(function) or "meta" in source.code(function):
        return
    for place, child in places:
        name = dotted(child)
        made = _made(function, name) if name else child
        if not isinstance(made, ast.Call) or source.qualified(made.func) in torch_api.BARE_MODULES:
            continue
        if any(isinstance(one, ast.With) for one in around(source, made)):
            continue  # `with torch.device(...)`, `with init_empty_weights()`
        old = _shaped_after(made)
        if (
            not old
            or (name and _moves(source, function, name))
            or not path_of(made.func).rpartition(".")[2][:1].isupper()
        ):
            continue
        if name and re.search(rf"\b{re.escape(name)}\.weight(?:\.data)? = ", source.code(function)):
            continue
        edits: tuple[Edit, ...]
        move = f".to({old}.weight.device)"
        if name:
            edits = (InsertStatement(source.span(place), f"{name}{move}", before=True),)
        else:
            edits = (AppendCall(source.span(made), move),)
        yield told(
            CODEMOD,
            source.span(made),
            f"a new layer replaces `{old}`, but is not moved to its device: in a model that was moved before, "
            "it stays on the CPU",
            f"move it to where `{old}` is",
            edits,
            assumes=f"it is run where `{old}` was",
        )


def _made(function: ast.AST, name: str) -> ast.expr | None:
    made = [
        node.value
        for node in walk(function)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and dotted(node.targets[0]) == name
    ]
    return made[0] if len(made) == 1 else None


def _shaped_after(call: ast.Call) -> str:
    """The layer whose sizes a constructor is given."""
    found: dict[str, set[str]] = {}
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Attribute) and is_size_name(argument.attr) and dotted(argument.value):
            found.setdefault(dotted(argument.value), set()).add(argument.attr)
    return next((old for old, sizes in found.items() if len(sizes & _LEAF_SIZES) >= 2), "")


# --- wrappers --------------------------------------------------------------------------------


def _wrapper(analysis: Analysis, owner: ast.ClassDef) -> Iterator[Finding]:
    """Parameters that a wrapper adds to a base that may be on a device already."""
    source = analysis.file.source
    init = next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None or "device" in source.code(init) or "Parameter(" not in source.code(init):
        return
    bases = _taken(init)
    if any(source.enclosing(call, *FUNCTIONS) for call in source.calls_by_name.get(owner.name, ())):
        bases = []  # whoever makes it knows more
    if not bases:
        bases = _held(init)
        if not bases or not _is_swapped_in(analysis, owner):
            return
    parameter, attribute = bases[0]
    made = analysis.file.of_node.get(owner)
    for one in (one for log in analysis.histories.values() for one in log.values() if one.what == MOVED):
        if one.module.bound is not None and one.module.bound.ref is made:
            return
    factories = list(_factories(source, init))
    if not factories:
        return
    leaf = any(
        isinstance(node, ast.Attribute) and node.attr in _LEAF_SIZES and dotted(node.value) == parameter
        for node in walk(init)
    )
    device = f"{parameter}.weight.device" if leaf else f"next({parameter}.parameters()).device"
    edits: list[Edit] = []
    if len(factories) > 1 and not leaf:
        edits.append(InsertStatement(source.span(attribute), f"device = {device}"))
        device = "device"
    edits += [SetArgument(source.span(call), "device", device) for call in factories]
    yield told(
        CODEMOD,
        source.span(factories[0]),
        f"`{owner.name}` makes parameters on the CPU and combines them with `{parameter}`, "
        "which may have been moved before",
        f"make them where `{parameter}` is",
        tuple(edits),
        assumes=f"they are used where `{parameter}` is",
    )


def _held(init: ast.FunctionDef) -> list[tuple[str, ast.stmt]]:
    """Parameters of `__init__` that are kept as `self.x = parameter`, with that statement."""
    names = {argument.arg for argument in (*init.args.args, *init.args.kwonlyargs)}
    return [
        (node.value.id, node)
        for node in init.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and isinstance(node.targets[0], ast.Attribute)
        and _is_module(init, node.value.id, node.targets[0].attr)
    ]


def _is_module(init: ast.FunctionDef, parameter: str, attribute: str) -> bool:
    """Is something read from the parameter, as one reads from a layer?"""
    return any(
        isinstance(node, ast.Attribute)
        and (is_size_name(node.attr) or node.attr == "weight")
        and dotted(node.value) in (parameter, f"self.{attribute}")
        for node in walk(init)
    ) and parameter not in ("config", "cfg", "args")


def _taken(init: ast.FunctionDef) -> list[tuple[str, ast.stmt]]:
    """Layers that `__init__` is given, asks for their sizes, and takes a weight of: `self.w = layer.weight`."""
    names = {argument.arg for argument in (*init.args.args, *init.args.kwonlyargs)}
    sized = {
        dotted(node.value)
        for node in walk(init)
        if isinstance(node, ast.Attribute) and node.attr in _LEAF_SIZES - {"weight"}
    }
    return [
        (node.value.value.id, node)
        for node in init.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "weight"
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id in names & sized
        and isinstance(node.targets[0], ast.Attribute)
        and dotted(node.targets[0]).startswith("self.")
    ]


def _is_swapped_in(analysis: Analysis, owner: ast.ClassDef) -> bool:
    """Does a function of this file put the class in the place of a layer that it wraps?"""
    source = analysis.file.source
    for node in source.walk():
        if not isinstance(node, ast.Call) or path_of(node.func) != owner.name:
            continue
        function = source.enclosing(node, *FUNCTIONS)
        if not isinstance(function, FUNCTIONS) or _is_moved_elsewhere(analysis, function):
            continue
        for _, child in _places(function):
            if child is node or (dotted(child) and _made(function, dotted(child)) is node):
                return True
    return False


def _factories(source: Source, init: ast.FunctionDef) -> Iterator[ast.Call]:
    """Calls like `torch.empty(...)` inside `nn.Parameter(...)`."""
    for node in walk(init):
        if (
            not isinstance(node, ast.Call)
            or source.qualified(node.func) not in torch_api.PARAMETERS
            or not node.args
        ):
            continue
        inner: ast.expr = node.args[0]
        while isinstance(inner, ast.Call):
            if source.qualified(inner.func) in torch_api.FACTORIES:
                yield inner
                break
            if not isinstance(inner.func, ast.Attribute):
                break
            inner = inner.func.value
