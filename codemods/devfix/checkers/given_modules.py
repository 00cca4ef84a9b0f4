"""Modules that a caller passes and nobody moves, though they are run on what was moved."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.events import MOVED, OWNED, WRAPPED, Event, moved_by
from devfix.engine.facts import GivenRun
from devfix.engine.files import Function
from devfix.engine.places import Place, is_parameter
from devfix.engine.uses import MODULE_USES
from devfix.engine.values import DEVICE, MODULE
from devfix.findings import Finding, InsertStatement, Related, told
from devfix.text.names import path_of
from devfix.text.source import Source

CODEMOD = "module-never-moved"
_PLACED = (MOVED, OWNED, WRAPPED)


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    if CODEMOD not in wanted or not analysis.given_runs:
        return
    source = analysis.file.source
    events = [one for log in analysis.histories.values() for one in log.values() if one.what in _PLACED]
    placed = {cell for one in events for cell in one.cells}
    done: set[object] = set()
    for run in analysis.given_runs:
        key = run.parameter.key
        function = _receiver(run, analysis)
        if key in placed | done or function is None or _has_callers(function, source):
            continue
        if run.module.kind != MODULE and not _is_module(run, source):
            continue
        done.add(key)
        like = next((one for one in events if _is_like(one, run, function)), None)
        finding = None
        if like is not None:
            finding = _beside(source, run, like)
        elif function is not run.function and run.place.key in analysis.asked:
            finding = _chosen(analysis, run, function)
        if finding is not None:
            yield finding, {source.position(finding.span.start)[0], run.node.lineno}


def _receiver(run: GivenRun, analysis: Analysis) -> Function | None:
    """The function that is given the module: the one that runs it, or the constructor of its class."""
    owner = run.function.owner
    init = owner.method("__init__") if owner is not None else None
    for one in (run.function, init):
        if one is not None and one.file is analysis.file and _gets(one, run.parameter):
            return one
    return None


def _is_module(run: GivenRun, source: Source) -> bool:
    """Do methods of the class use the attribute that is called as one uses a module?"""
    path, owner = path_of(run.node.func), source.enclosing(run.node, ast.ClassDef)
    return path.startswith("self.") and any(
        path_of(one.value) == path for one in source.of_kind(ast.Attribute, owner) if one.attr in MODULE_USES
    )


def _gets(function: Function, place: Place) -> bool:
    key = place.key
    return is_parameter(place) and isinstance(key, tuple) and key[1] == id(function.node)


def _has_callers(function: Function, source: Source) -> bool:
    """Is it called in the file? Then what it is given is known."""
    named = (
        function.owner.name if function.owner is not None and function.name == "__init__" else function.name
    )
    return bool(source.calls_by_name.get(named))


def _is_like(move: Event, run: GivenRun, function: Function) -> bool:
    """Does the function move another module that it is given to the same place, whatever happens?"""
    return (
        move.what == MOVED
        and not move.via
        and move.function is function
        and move.place == run.place
        and _gets(function, Place(run.parameter.kind, move.cells[0]))
        and move.statement in function.node.body
        and moved_by(move.node) is not None
        and (move.module.kind == MODULE or _is_run(move, function))
    )


def _is_run(move: Event, function: Function) -> bool:
    """Is what is moved a module by what is done with it: it is moved in place, or kept by an object that calls it?"""
    statement = move.statement
    if isinstance(statement, ast.Expr):
        return statement.value is move.node
    kept = {path_of(one) for one in statement.targets} if isinstance(statement, ast.Assign) else set()
    methods = function.owner.methods.values() if function.owner is not None else ()
    called = {path_of(node.func) for one in methods for node in one.nodes if isinstance(node, ast.Call)}
    return any(one.startswith("self.") for one in kept & called)


def _beside(source: Source, run: GivenRun, like: Event) -> Finding | None:
    """It is moved by a statement below that which moves the other one."""
    assert isinstance(like.node, ast.Call) and isinstance(like.node.func, ast.Attribute)
    path, span = _written(run), source.span(like.node)
    suffix = source.text[source.span(like.node.func.value).end : span.end]
    message = (
        f"`{like.path}` is moved here and `{path}` is not, though line {run.node.lineno} runs it on a value "
        "of that device"
    )
    edit, related = (
        InsertStatement(source.span(like.statement), path + suffix),
        (Related(source.span(run.node), "it is run here"),),
    )
    assumes = f"the caller has not moved `{path}`"
    return told(CODEMOD, span, message, f"move `{path}` as well", (edit,), related, assumes)


def _chosen(analysis: Analysis, run: GivenRun, init: Function) -> Finding | None:
    """It is moved in the constructor that keeps it and chooses the device."""
    source, owner = analysis.file.source, init.owner
    assert owner is not None
    kept = _kept(init)
    state, cell = analysis.classes.state(owner), analysis.classes.cell(owner)
    held = next((path for path, (value, _) in kept.items() if value == _written(run)), "")
    devices = [
        f"self.{name}"
        for name, value in state.attributes(cell)
        if value.kind == DEVICE and state.resolve(value.place) == run.place and f"self.{name}" in kept
    ]
    if not held or not devices:
        return None
    _, last = sorted((kept[held][1], kept[devices[0]][1]), key=lambda one: one.lineno)
    message = f"`{held}` is never moved to `{devices[0]}`, where line {run.node.lineno} runs it on its input"
    edit, span = InsertStatement(source.span(last), f"{held}.to({devices[0]})"), source.span(kept[held][1])
    related = (Related(source.span(run.node), "it is run here"),)
    assumes = "the caller has not moved it"
    return told(CODEMOD, span, message, f"move `{held}`", (edit,), related, assumes)


def _kept(init: Function) -> dict[str, tuple[str, ast.stmt]]:
    """The attributes that a constructor sets whatever happens: what is written for each, and the statement."""
    found: dict[str, tuple[str, ast.stmt]] = {}
    for one in init.node.body:
        if not isinstance(one, ast.Assign):
            continue
        for target in one.targets:
            pairs = [(target, one.value)]
            if isinstance(target, ast.Tuple) and isinstance(one.value, ast.Tuple):
                pairs = list(zip(target.elts, one.value.elts, strict=False))
            found |= {path_of(at): (path_of(value), one) for at, value in pairs}
    return found


def _written(run: GivenRun) -> str:
    """How the function that gets the module writes it."""
    key = run.parameter.key
    return str(key[2]) if isinstance(key, tuple) else ""
