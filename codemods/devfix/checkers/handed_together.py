"""Networks that are loaded alike and handed to one object, all but one of which are moved before."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.events import HANDED, MOVED, OWNED, WRAPPED, Event, moved_by
from devfix.engine.evidence_of_modules import class_of, is_class_name, makes_no_module
from devfix.findings import AppendCall, Edit, Finding, InsertStatement, Related, told
from devfix.models.loader import BUILDING, models
from devfix.text.names import path_of
from devfix.text.placing import bound_before

CODEMOD = "module-never-moved"


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    logs = [list(log.values()) for log in analysis.histories.values()] if CODEMOD in wanted else []
    placed = {one.cells[0] for log in logs for one in log if one.what in (MOVED, OWNED, WRAPPED)}
    for log in logs:
        moves = {one.cells[0]: one for one in log if one.what == MOVED and not one.via}
        calls: dict[ast.AST, list[Event]] = {}
        for one in log:
            if one.what == HANDED and not one.via and is_class_name(one.name.rpartition(".")[2]):
                calls.setdefault(analysis.file.source.enclosing(one.node, ast.Call) or one.node, []).append(
                    one
                )
        for call, given in calls.items():
            given = [one for one in given if _is_loaded(one)]
            moved = [moves[one.cells[0]] for one in given if one.cells[0] in moves]
            left = [one for one in given if one.cells[0] not in placed]
            if len(moved) > 1 and len(left) == 1 and len({one.device for one in moved}) == 1:
                if not _moves_result(given[0], {one.path for one in log if one.what == MOVED}):
                    like = moved[-1]
                    other = next(one.path for one in given if one.cells[0] == like.cells[0])
                    finding = _finding(analysis, call, left[0], like, other)
                    if finding is not None:
                        yield finding, {analysis.file.source.position(finding.span.start)[0]}


def _is_loaded(given: Event) -> bool:
    """Is it a network by the call that makes it: `Class.from_pretrained(...)`?"""
    name = given.module.links[0].name if given.module.links else ""
    built = name.endswith(BUILDING) and not makes_no_module(class_of(name.rpartition(".")[0]))
    return built and models().layer(name) in ("", "module")


def _moves_result(given: Event, moved: set[str]) -> bool:
    """Is the object moved that gets the networks?"""
    statement = given.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(path_of(one) in moved for one in targets)


def _finding(analysis: Analysis, call: ast.AST, left: Event, like: Event, other: str) -> Finding | None:
    source, node, made = analysis.file.source, like.node, left.module.links[0].node
    moved = moved_by(node)
    if moved is None or not isinstance(node, ast.Call):
        return None
    suffix = source.text[source.span(moved).end : source.span(node).end]
    name, given = left.path, left.name
    message = (
        f"`{name}` is handed to `{given}` with `{other}` and others, which are moved to `{like.device}`, but is not "
        f"moved itself"
    )
    edits: tuple[Edit, ...] = ()
    if isinstance(like.statement, ast.Expr):
        if bound_before(source, ast.parse(name, mode="eval").body, like.statement):
            edits = (InsertStatement(source.span(like.statement), name + suffix),)
    elif isinstance(made, ast.Call):
        device = [*node.args, *(one.value for one in node.keywords)]
        if all(bound_before(source, one, source.statement(made)) for one in device):
            edits = (AppendCall(source.span(made), suffix),)
    title, assumes = f"move `{name}` as well", f"`{given}` does not move it"
    related = (Related(source.span(call), "they are passed here"),)
    return told(CODEMOD, source.span(made), message, title, edits, related, assumes)
