"""The move of a module that nothing has moved: where it is made, where a call gives it, or below what changes it."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class
from devfix.engine.places import DEFAULT, LITERAL, OF, VAR, Place
from devfix.engine.values import JOIN, PASS, RETURN
from devfix.findings import AppendCall, Edit, InsertStatement
from devfix.models.loader import models
from devfix.repair.expressible import expressible
from devfix.text.names import stores
from devfix.text.placing import around, bound_before, siblings
from devfix.text.source import FUNCTIONS, Source, remembered


def moved(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """The device that a module is moved to, as it is written there, and the edits; no edits where none is certain."""
    file, links = analysis.file, mismatch.stray.links
    if mismatch.operation == "the result":
        return _where_returned(mismatch, analysis)
    makings = [links[0], *(one for one in links if one.kind == JOIN)]
    calls = [one.node for one in links if one.kind == RETURN and one.file is file]
    made = list({one.node: None for one in makings}) if all(one.file is file for one in makings) else []
    every = [[one for one in nodes if isinstance(one, ast.Call)] for nodes in (calls[-1:], made) if nodes]
    every = [values for values in every if values and (len(values) == len(made) or values[0] in calls)]
    for values in every:
        use = _use(mismatch, values[0], analysis)
        own = _own_move(mismatch, values, use, analysis) if use is not None else ("", ())
        if own[1] and use is not None and _changed(mismatch, values, use, analysis):
            return own
        device, edits = _where_made(mismatch, values, analysis)
        if edits or own[1]:
            return (device, edits) if edits else own
    received = _received(mismatch, analysis)
    if received[1] or not every or mismatch.anchor_place.kind != LITERAL or mismatch.guarded:
        return received
    device = f'"{mismatch.anchor_place.key}"'
    suffix = ".cuda()" if device == '"cuda"' else f".to({device})"
    return device, tuple(AppendCall(analysis.file.source.span(one), suffix) for one in every[0])


def _where_returned(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """At the end of a function that returns the module, or where it is wrapped for that."""
    source, node = analysis.file.source, mismatch.node
    for one in source.of_kind(ast.Assign, source.enclosing(node, *FUNCTIONS)):
        if (
            isinstance(node, ast.Name)
            and source.code(one.targets[0]) == node.id
            and isinstance(one.value, ast.Call)
        ):
            if models().layer(analysis.file.dotted(one.value.func)) in ("wrapper", "scatters"):
                node = one.value
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
    return device, (AppendCall(source.span(node), f".to({device})"),) if device else ()


def _received(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """`model.to(device)` in a function that is given the module and makes the device, below that."""
    source, file = analysis.file.source, analysis.file
    given = next((one for one in reversed(mismatch.stray.links) if one.kind == PASS), None)
    for where, use in mismatch.running if given is not None else ():
        function = source.enclosing(use, *FUNCTIONS) if where is file else None
        if given is None or not isinstance(function, FUNCTIONS) or stores(source, function, given.name):
            continue
        if not any(one.arg == given.name for one in ast.walk(function.args) if isinstance(one, ast.arg)):
            continue
        device = expressible(source, mismatch.anchor_place, mismatch.scopes, use)
        bound = stores(source, function, device) if device.isidentifier() else []
        at = source.statement(bound[0]) if len(bound) == 1 else None
        if at is not None and at in function.body and source.span(at).end <= source.span(use).start:
            return device, (InsertStatement(source.span(at), f"{given.name}.to({device})"),)
    return "", ()


def _use(mismatch: Mismatch, made: ast.AST, analysis: Analysis) -> ast.stmt | None:
    """The statement that runs the module, in the function that makes it."""
    source = analysis.file.source
    home = source.enclosing(made, *FUNCTIONS)
    running = (one for file, one in mismatch.running if file is analysis.file)
    return next((one for one in running if source.enclosing(one, *FUNCTIONS) is home), None)


def _where_made(
    mismatch: Mismatch, values: list[ast.Call], analysis: Analysis
) -> tuple[str, tuple[Edit, ...]]:
    source = analysis.file.source
    if any(_unpacked(source, one) for one in values):
        return "", ()
    devices = {
        expressible(source, mismatch.anchor_place, mismatch.scopes, one)
        or _as_written(mismatch, one, analysis)
        for one in values
    }
    device = devices.pop() if len(devices) == 1 else ""
    return device, tuple(AppendCall(source.span(one), f".to({device})") for one in values) if device else ()


def _as_written(mismatch: Mismatch, value: ast.Call, analysis: Analysis) -> str:
    """The device as the program itself writes it, where it moves the other value, if it can be written here."""
    source, place, node = analysis.file.source, mismatch.anchor_place, mismatch.anchor_node
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value  # `x.float()` is where `x` is
    home = source.enclosing(value, *FUNCTIONS)
    every = [
        source.code(at)
        for at, function, _, _ in (
            *analysis.targets_here(place),
            *analysis.targets_here(Place(OF, place.key)),
        )
        if (function.node if function is not None else None) is home
    ]
    if place.kind == OF and mismatch.file is analysis.file and isinstance(node, ast.Name):
        every += [f"{node.id}.device"] if source.enclosing(node, *FUNCTIONS) is home else []
    for text in sorted(every, key=len):
        if bound_before(source, ast.parse(text, mode="eval").body, source.statement(value)):
            return text
    return ""


def _changed(mismatch: Mismatch, values: list[ast.Call], use: ast.stmt, analysis: Analysis) -> bool:
    """Does the module get parts between its making and its use?"""
    source = analysis.file.source
    after = max(source.span(one).end for one in values)
    attached = analysis.parts.attached.get(mismatch.stray.ref, set())
    inside = _beside(source, attached, use)
    return any(after <= source.span(one).start < source.span(use).start for one in inside)


def _beside(source: Source, statements: set[ast.stmt], use: ast.stmt) -> list[ast.stmt]:
    """Of statements those in the function of another one."""
    home = source.enclosing(use, *FUNCTIONS)
    return [one for one in statements if one in source.parents and source.enclosing(one, *FUNCTIONS) is home]


def _own_move(
    mismatch: Mismatch, values: list[ast.Call], use: ast.stmt, analysis: Analysis
) -> tuple[str, tuple[Edit, ...]]:
    """`model.to(device)` in the block of its use, below all that makes or changes it."""
    source = analysis.file.source
    names = {_name(source, one) or _part(source, one, mismatch) for one in values}
    name = names.pop() if len(names) == 1 else ""
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, use)
    pairs = [siblings(source, one, use) for one in values]
    ends = {pair[1] for pair in pairs if pair is not None and pair[0] is not pair[1]}
    if not name or not device or None in pairs or len(ends) != 1:
        return "", ()
    below = ends.pop()
    block = source.block(below)
    expression = ast.parse(device, mode="eval").body
    scope = source.scope(use)
    before: list[ast.AST] = [
        *values,
        *_beside(source, analysis.parts.attached.get(mismatch.stray.ref, set()), use),
    ]
    for one in ast.walk(expression):
        if isinstance(one, ast.Name):
            before += [*stores(source, scope, one.id), *_moves(source, one.id)]
    anchor = -1
    for node in before:
        at = next((block.index(one) for one in around(source, node) if one in block), -1)
        anchor = max(anchor, at) if at < block.index(below) else anchor
    if anchor < 0 or not bound_before(source, expression, block[anchor + 1]):
        return "", ()
    return device, (InsertStatement(source.span(block[anchor]), f"{name}.to({device})"),)


def _moves(source: Source, name: str) -> list[ast.Call]:
    """Where what has a name, such as the module whose device is asked for, is moved itself."""
    every = (call for one in ("to", "cuda", "cpu") for call in source.calls_by_name.get(one, ()))
    return [
        one
        for one in every
        if isinstance(one.func, ast.Attribute)
        and isinstance(one.func.value, ast.Name)
        and one.func.value.id == name
    ]


def _name(source: Source, value: ast.expr) -> str:
    """The name that what an expression makes is bound to, alone."""
    statement = source.statement(value)
    if isinstance(statement, ast.Assign) and statement.value is value and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def _part(source: Source, value: ast.expr, mismatch: Mismatch) -> str:
    """The name by which the module runs, if what an expression makes is unpacked to it."""
    node = mismatch.stray_node
    return node.id if isinstance(node, ast.Name) and node.id in _unpacked(source, value) else ""


def _unpacked(source: Source, value: ast.expr) -> list[str]:
    """The names that the parts of what an expression makes are bound to: `encoder, head = build()`."""
    statement = source.statement(value)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is value else []
    parts = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
    return [one.id for one in parts if isinstance(one, ast.Name)]


def is_safe_move(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is it proven that a module is on the CPU and its input elsewhere: does the move only turn an error into a run?

    Its class and the bases are in view, no other object shares its weights, and it runs on nothing that stays behind.
    """
    stray, links = mismatch.stray, mismatch.stray.links
    if mismatch.assumed or mismatch.guarded or mismatch.anchor_place.kind not in (VAR, LITERAL):
        return False
    if mismatch.stray_place.kind != DEFAULT or any(one.kind == PASS for one in links):
        return False
    owner = stray.bound.ref if stray.bound is not None else None
    if not (_is_whole(owner) if isinstance(owner, Class) else links[0].name.startswith("torch.nn.")):
        return False
    source, value = analysis.file.source, links[0].node
    beside = analysis.company.get(value, set()) - analysis.strays
    if beside - {one.links[0].node for one in analysis.made.values() if one.links}:
        return False
    up = source.parents.get(value)
    alone = isinstance(up, (ast.Assign, ast.AnnAssign, ast.Return)) or (
        isinstance(up, ast.Call) and up.func is value
    )
    if not alone or not isinstance(value, ast.expr) or _name(source, value) in _shared(source):
        return False
    use, name = _use(mismatch, value, analysis), _name(source, value)
    return (
        not name or use is None or any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(use))
    )


def _is_whole(owner: Class) -> bool:
    """Are all bases of a class in view, or torch's own?"""
    return all(base.startswith("torch.nn.") or base in ("object", "abc.ABC") for base in owner.outside)


@remembered
def _shared(source: Source) -> frozenset[str]:
    """The names of what other objects get attributes of: `loss.weight = net.weight`. Who moves these, moves both."""
    return frozenset(
        source.code(one.value.value)
        for one in source.of_kind(ast.Assign)
        if isinstance(one.value, ast.Attribute)
        and any(isinstance(target, ast.Attribute) for target in one.targets)
    )
