"""What is made beside a module before the module is moved: the state of an optimizer, averaged weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.evidence_of_modules import is_average
from devfix.engine.facts import Outrun
from devfix.findings import Edit, Finding, MoveStatement, Related, told
from devfix.models.loader import models
from devfix.repair.needed import used_after
from devfix.repair.ways import changed, looked_at
from devfix.text.names import path_of
from devfix.text.placing import bound_before, follows, only, siblings
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "restore-after-move"


def findings(analysis: Analysis) -> Iterator[tuple[Finding, list[ast.AST]]]:
    """Findings, each with the nodes that it is about."""
    source, seen = analysis.file.source, set[ast.AST]()
    for one in analysis.outruns:
        node = _node(one, analysis)
        if (
            node is None
            or node in seen
            or not isinstance(one.move, ast.Call)
            or not follows(source, node, one.move)
        ):
            continue
        path = one.path or _target(source, node)
        if (
            not path
            or not _is_kept(one, node, path, analysis)
            or not used_after(source, source.scope(one.move), path, node, one.move)
        ):
            continue
        seen.add(node)
        moved = path_of(one.move.func.value) if isinstance(one.move.func, ast.Attribute) else ""
        edits, unnoticed = _first(one, node, moved, analysis)
        proven = not one.module.assumed and unnoticed and (one.how == "restored" or _is_known(node, analysis))
        what = (
            f"the copy in `{path}` is made" if one.how == "copied" else f"the state of `{path}` is {one.how}"
        )
        message = f"{what} before `{source.code(one.move)}`, so it stays on the CPU, and "
        message += "combining it with the weights" if one.how == "copied" else "the next step"
        message += " raises on an accelerator"
        title, assumes = f"move `{moved}` first", f"nothing in between needs `{moved}` on the CPU"
        related = (Related(source.span(one.move), f"`{moved}` is moved here" if moved else "the move"),)
        name = path_of(one.node.func) if isinstance(one.node, ast.Call) else ""
        if one.how == "restored" and not name.endswith(".load_state_dict"):
            assumes = f"`{name}()` restores that state, and {assumes}"
        unless = "" if proven else assumes
        yield told(CODEMOD, source.span(node), message, title, edits, related, unless), [node, one.move]


def _node(one: Outrun, analysis: Analysis) -> ast.AST | None:
    """What makes the tensors, in the function that moves the module."""
    source = analysis.file.source
    if one.moved_in is not analysis.file:
        return None
    home = source.enclosing(one.move, *FUNCTIONS)
    if one.file is analysis.file and source.enclosing(one.node, *FUNCTIONS) is home:
        return one.node
    running = (statement for file, statement in one.running if file is analysis.file)
    at = next((each for each in running if source.enclosing(each, *FUNCTIONS) is home), None)
    return at.value if isinstance(at, ast.Assign) else None


def _target(source: Source, node: ast.AST) -> str:
    """What the result of a call is bound to, if that is all that is done with it."""
    up = source.parents.get(node)
    if isinstance(up, ast.AnnAssign):
        return path_of(up.target)
    return path_of(up.targets[0]) if isinstance(up, ast.Assign) else ""


def _is_kept(one: Outrun, node: ast.AST, path: str, analysis: Analysis) -> bool:
    """Is it left where it is: no state that the program moves itself, and a copy that is kept up to date?"""
    source = analysis.file.source
    if one.how != "copied":
        return not analysis.parts.states
    name = path_of(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    if one.node in analysis.parts.moved or node in analysis.parts.moved:
        return False
    if is_average(name):
        return True
    zips = (call for call in source.calls if path_of(call.func) == "zip")
    parts = (part for call in zips for given in call.args for part in ast.walk(given))
    return any(isinstance(part, ast.Attribute) and path_of(part.value) == path for part in parts)


def _is_known(node: ast.AST, analysis: Analysis) -> bool:
    """Is it a copy for certain: by the model of a library, or a deep copy?"""
    name = analysis.file.dotted(node.func) if isinstance(node, ast.Call) else ""
    return models().layer(name) == "copies" or name == "copy.deepcopy"


def _first(one: Outrun, node: ast.AST, moved: str, analysis: Analysis) -> tuple[tuple[Edit, ...], bool]:
    """The move put above what it comes too late for, where it can stand there; and whether nobody notices."""
    source = analysis.file.source
    pair = siblings(source, node, one.move)
    if pair is None or pair[0] is pair[1]:
        return (), False
    early, late = pair
    statement, block = source.statement(one.move), source.block(early)
    if late is not statement and not (isinstance(late, ast.If) and only(late, {statement})):
        return (), False
    if (
        not _is_plain(statement, one.move, moved)
        or not bound_before(source, late, early)
        or block[0] is early
    ):
        return (), False
    start, end = source.span(early).start, source.span(late).start
    attached = analysis.parts.attached.get(one.module.ref, set())
    between = any(each in source.parents and start <= source.span(each).start < end for each in attached)
    if between or changed(source, [late], start, end, ()):
        return (), False
    edit = MoveStatement(source.span(late), source.span(block[block.index(early) - 1]))
    return (edit,), not looked_at(source, moved, start, end, (source.statement(node),))


def _is_plain(statement: ast.stmt, move: ast.AST, moved: str) -> bool:
    """`model.to(device)` or `model = model.to(device)`, and nothing else."""
    if isinstance(statement, ast.Expr):
        return statement.value is move
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    is_move = isinstance(statement, ast.Assign) and statement.value is move
    return is_move and [path_of(target) for target in targets] == [moved]
