"""What a program does to one thing and leaves out for its like: in loops over batches, in methods that run a model."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers import made_together
from devfix.checkers.signs import MOVES, is_other_framework, moves_itself, quoted
from devfix.engine.analysis import Analysis
from devfix.engine.events import moved_by
from devfix.engine.files import Class, Function
from devfix.findings import AppendCall, Edit, Finding, InsertStatement, Related, told
from devfix.models.loader import models
from devfix.text.source import Source

INPUTS, MODULES, FACTORIES = "move-inputs", "module-never-moved", "place-factory"
CODEMODS = frozenset({INPUTS, MODULES, FACTORIES})


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    if is_other_framework(source):
        return
    told = [*_loops(source), *_carried(analysis), *made_together.findings(source)]
    for owner in analysis.file.all_classes:
        told += _methods(source, owner)
    for finding in told:
        if finding.codemod in wanted:
            yield finding, {source.position(finding.span.start)[0]}


# --- loops -------------------------------------------------------------------------------------


def _loops(source: Source) -> Iterator[Finding]:
    """`for g, x in test: x = x.to(device); model(g, x)`, where the loop over `train` moves `g`, too."""
    loops = [(loop, moved) for loop in source.of_kind(ast.For) if (moved := _moves(source, loop))]
    likes: dict[frozenset[str], tuple[ast.For, dict[str, ast.Assign]]] = {}  # one for each set that is moved
    for one in loops:
        likes.setdefault(frozenset(one[1]), one)
    for loop, moved in loops:
        names, bound = {*_names(loop.target)}, _names(loop, ast.Store)
        for all_moved, (other, others) in likes.items():
            left = {one for one in all_moved - moved.keys() if bound.count(one) == 1}  # and not again
            if not left or not names & {*_names(other.target)} >= left | moved.keys():
                continue
            call = _together(source, loop, other, left, set(moved))
            if call is not None and not moves_itself(source, call):
                yield from (_left_out(source, loop, call, others[name], name) for name in sorted(left))
                break


def _names(node: ast.AST, kind: type[ast.expr_context] = ast.expr_context) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)]


def _moves(source: Source, loop: ast.For) -> dict[str, ast.Assign]:
    """The names of a batch that a loop moves, each with the statement that does."""
    names = _names(loop.target)
    found: dict[str, ast.Assign] = {}
    for one in loop.body:
        target = one.targets[0] if isinstance(one, ast.Assign) else None
        if isinstance(one, ast.Assign) and isinstance(target, ast.Name) and target.id in names:
            if any(moved_by(call, MOVES) for call in source.of_kind(ast.Call, one.value)):
                found.setdefault(target.id, one)
    return found


def _together(
    source: Source, loop: ast.For, other: ast.For, left: set[str], moved: set[str]
) -> ast.Call | None:
    """The call, the same in both loops, that gets what is left out together with what is moved."""
    theirs = {source.code(call) for call in source.of_kind(ast.Call, other)}
    for call in source.of_kind(ast.Call, loop):
        given = {
            one.id for one in (*call.args, *(k.value for k in call.keywords)) if isinstance(one, ast.Name)
        }
        if left <= given and given & moved and source.code(call) in theirs:
            return call
    return None


def _left_out(source: Source, loop: ast.For, call: ast.Call, move: ast.Assign, name: str) -> Finding:
    line = source.position(source.span(move).start)[0]
    message = f"`{name}` is not moved, unlike the rest of the batch, which line {line} moves"
    text, edits = source.code(move), tuple[Edit, ...]()
    if "\n" not in text and "#" not in text and source.statement(call) in loop.body:
        edits = (InsertStatement(source.span(source.statement(call)), text, before=True),)
    title, related = f"move `{name}` as well", (Related(source.span(move), "it is moved here"),)
    return told(INPUTS, source.span(call), message, title, edits, related, "it arrives on the CPU")


# --- what a round of a loop leaves for the next ---------------------------------------------------


def _carried(analysis: Analysis) -> Iterator[Finding]:
    """`mask = torch.ones(n, device=d)`, and in the loop that uses it `mask = torch.tensor(done)`."""
    source = analysis.file.source
    placed: dict[tuple[ast.AST, str], tuple[ast.Assign, str]] = {}
    plain: list[tuple[ast.AST, str, ast.Assign, ast.Call]] = []
    for one in source.of_kind(ast.Assign):
        name = one.targets[0].id if isinstance(one.targets[0], ast.Name) else ""
        made = _factory(analysis, one.value)
        if not name or made is None or len(one.targets) > 1:
            continue
        scope = source.enclosing(one, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree
        told = next((source.code(key.value) for key in made.keywords if key.arg == "device"), "")
        if told:
            placed.setdefault((scope, name), (one, told))
        elif not any(key.arg is None for key in made.keywords):
            plain.append((scope, name, one, made))
    for scope, name, one, made in plain:
        finding = _next_round(source, one, made, *placed[scope, name]) if (scope, name) in placed else None
        if finding is not None:
            yield finding


def _factory(analysis: Analysis, value: ast.expr) -> ast.Call | None:
    if isinstance(value, ast.Call) and models().makes(analysis.file.dotted(value.func)):
        return value
    return None


def _next_round(
    source: Source, again: ast.Assign, made: ast.Call, first: ast.Assign, device: str
) -> Finding | None:
    """The finding, if what a loop makes without a device is what the next round uses."""
    loop = source.enclosing(again, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)
    if not isinstance(loop, (ast.For, ast.While)) or source.span(first).start > source.span(loop).start:
        return None
    assert isinstance(again.targets[0], ast.Name)
    name, start = again.targets[0].id, source.span(again).start
    uses = [one for one in source.of_kind(ast.Name, loop) if one.id == name and one is not again.targets[0]]
    if not uses or any(not isinstance(one.ctx, ast.Load) for one in uses):
        return None
    if any(isinstance(source.parents.get(one), ast.Attribute) for one in uses):
        return None  # it may be moved, or read on the CPU
    if not any(source.span(one).start < start for one in uses):
        return None
    line = source.position(source.span(first).start)[0]
    message = (
        f"{quoted(source, made)} is on the CPU, and the next iteration uses it as `{name}`, "
        f"which line {line} makes on `{device}`"
    )
    title, edit = f"move it to `{device}`", AppendCall(source.span(made), f".to({device})")
    related = (Related(source.span(first), "the device is given here"),)
    assumes = "it belongs there in each iteration"
    return told(FACTORIES, source.span(made), message, title, (edit,), related, assumes)


# --- methods -----------------------------------------------------------------------------------


def _methods(source: Source, owner: Class) -> Iterator[Finding]:
    """A method that moves inputs to `self.device` and runs `self.model`, which only other methods move there."""
    moving: dict[tuple[str, str], list[tuple[str, ast.Call]]] = {}
    for method in owner.methods.values():
        for attribute, device, call in _moved_attributes(source, method):
            moving.setdefault((attribute, device), []).append((method.name, call))
    bases = (one for base in owner.lineage if base is not owner for one in base.methods.values())
    first = {"__init__"}.union(*(one.called for one in bases))  # which the program of a base runs
    for (attribute, device), movers in moving.items():
        names = {name for name, _ in movers}
        before = first | owner.stores.get(attribute[5:], set())  # and what makes it
        if names & before or not device or sum(one == attribute for one, _ in moving) > 1:
            continue
        for method in owner.methods.values():
            at = None if method.name in names | {"__init__"} else _runs(source, method, attribute, device)
            others = (owner.methods[name] for name in names)
            if at is None or names & method.called or any(method.name in one.called for one in others):
                continue
            (mover, move), text = movers[0], f"{attribute}.to({device})"
            message = f"`{attribute}` is run on a value on `{device}`, to which only `{mover}` moves it"
            edit = InsertStatement(source.span(source.statement(at)), text, before=isinstance(at, ast.Call))
            related = (Related(source.span(move), "it is moved here"),)
            title, assumes = f"move `{attribute}` here, too", f"`{method.name}` can run before `{mover}`"
            yield told(MODULES, source.span(at), message, title, (edit,), related, assumes)


def _moved_attributes(source: Source, method: Function) -> Iterator[tuple[str, str, ast.Call]]:
    """`self.model.to(self.device)`, or `self.model = model.to(self.device)`: the attribute, the device, the call."""
    aliases = _aliases(source, method)
    statements: list[ast.Expr | ast.Assign] = [*source.of_kind(ast.Expr, method.node)]
    for statement in [*statements, *source.of_kind(ast.Assign, method.node)]:
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MOVES:
            moved = statement.targets[0] if isinstance(statement, ast.Assign) else call.func.value
            base = source.code(moved)
            attribute = aliases.get(base, base)
            given = source.code(call.args[0]) if len(call.args) == 1 else ""
            if _is_own(attribute):
                yield attribute, aliases.get(given, given) if call.func.attr == "to" else "", call


def _is_own(code: str) -> bool:
    """Is it `self.x`?"""
    return code.startswith("self.") and code[5:].isidentifier()


def _aliases(source: Source, method: Function) -> dict[str, str]:
    """Name -> the attribute of `self` that it stands for."""
    found: dict[str, str] = {}
    for one in source.of_kind(ast.Assign, method.node):
        if len(one.targets) == 1 and isinstance(one.targets[0], ast.Name) and _is_own(source.code(one.value)):
            found[one.targets[0].id] = source.code(one.value)
    return found


def _runs(source: Source, method: Function, attribute: str, device: str) -> ast.AST | None:
    """Where a method that moves inputs to the device takes the attribute, which it calls on them."""
    aliases = _aliases(source, method)
    moves, runs, code = False, None, source.code
    for call in source.of_kind(ast.Call, method.node):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "to" and len(call.args) == 1:
            given = code(call.args[0])
            moves = moves or aliases.get(given, given) == device
            if aliases.get(code(call.func.value), code(call.func.value)) == attribute:
                return None
        called = code(call.func)
        if aliases.get(called, called) == attribute and (call.args or call.keywords):
            runs = runs or call
    if not moves or runs is None:
        return None
    taken = [
        one
        for one in source.of_kind(ast.Assign, method.node)
        if code(one.value) == attribute and one in method.node.body
    ]
    return taken[-1] if taken else runs
