"""Findings from values that meet in two places.

The histories say which codemod a mismatch belongs to: what a plain attribute of a module keeps is
`register-buffer`'s, a module that nothing moves `module-never-moved`'s, and so on.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers import collectives, outruns, plain_containers
from devfix.checkers.certainty import why_silent
from devfix.checkers.earlier import fails_before
from devfix.checkers.moved_back import moved_back, restored
from devfix.checkers.reach import is_safe
from devfix.checkers.signs import is_kept_otherwise
from devfix.checkers.surgeries import late_parts
from devfix.checkers.wording import assumptions, message_of
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class, File
from devfix.engine.places import APART, CPU, FIXED, LITERAL, OF, VAR
from devfix.engine.values import (
    DISTRIBUTION,
    LOAD,
    MODULE,
    NAME,
    RETURN,
    STORE,
    TENSOR,
    History,
    Link,
)
from devfix.findings import AppendCall, Edit, EnsureImport, Finding, InsertStatement, Related, Span, told
from devfix.models.loader import models
from devfix.repair.buffers import as_buffer, is_safe_buffer
from devfix.repair.candidates import (
    at_its_making,
    at_the_meeting,
    beside_others,
    has_to,
    of_a_literal,
)
from devfix.repair.modules import is_safe_move, moved
from devfix.text.source import Source

FACTORIES = "place-factory"
CODEMODS = (
    FACTORIES,
    "register-buffer",
    "register-modules",
    "module-never-moved",
    "hard-coded-cuda",
    "restore-after-move",
)


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    best: dict[ast.AST, tuple[int, str, Mismatch]] = {}
    every: dict[ast.AST, list[Mismatch]] = {}
    attached = late_parts(analysis)
    for mismatch in analysis.mismatches:
        made = mismatch.stray.links[0].node
        if made in attached or (mismatch.stray.kind == TENSOR and made in analysis.parts.registered):
            continue
        codemod = codemod_of(mismatch, analysis)
        at = _place_to_show(mismatch, analysis, codemod)
        if codemod not in wanted or codemod not in CODEMODS or at is None or why_silent(mismatch, analysis):
            continue
        stored = _stored_in_module(mismatch, analysis) if codemod == "register-buffer" else None
        if stored is not None and (is_kept_otherwise(stored, analysis) or _is_trained(mismatch)):
            continue
        every.setdefault(at, []).append(mismatch)
        rank = len(mismatch.assumed)
        if at not in best or rank < best[at][0]:
            best[at] = rank, codemod, mismatch
    spoken = set[tuple[Edit, ...]]()
    for at, (rank, codemod, mismatch) in best.items():
        mismatch = (
            _with_fix(codemod, [one for one in every[at] if len(one.assumed) == rank], analysis) or mismatch
        )
        nodes = [at, *_nodes(mismatch.stray.links, analysis)]
        if codemod not in ("module-never-moved", "register-buffer"):  # what else strays there is another bug
            nodes += [statement for file, statement in mismatch.running if file is analysis.file]
            nodes += [mismatch.node] if mismatch.file is analysis.file else []
        finding = _finding(codemod, at, mismatch, every[at], analysis)
        if (
            finding.fix is None or finding.fix.edits not in spoken
        ):  # one fix is for all that a function is given
            yield finding, _lines(nodes, analysis)
        spoken |= {finding.fix.edits} if finding.fix is not None else set()
    for checker in (collectives, plain_containers, outruns):
        for finding, about in checker.findings(analysis) if checker.CODEMOD in wanted else ():
            yield finding, _lines(about, analysis)


def _with_fix(codemod: str, every: list[Mismatch], analysis: Analysis) -> Mismatch | None:
    """The first mismatch of a stray, of those that are equally certain, that can be repaired."""
    alike = [one for one in every if codemod_of(one, analysis) == codemod]
    if codemod == FACTORIES:  # what a function has itself is written before what its callers have
        alike.sort(key=lambda one: len(one.scopes))
    return next((one for one in alike if _fix(codemod, one, analysis)[1]), None)


def _nodes(links: History, analysis: Analysis) -> list[ast.AST]:
    return [link.node for link in links if link.file is analysis.file]


def _lines(nodes: list[ast.AST], analysis: Analysis) -> set[int]:
    """The lines on which nodes begin."""
    source = analysis.file.source
    return {source.position(source.span(node).start)[0] for node in nodes}


def codemod_of(mismatch: Mismatch, analysis: Analysis) -> str:
    """The codemod that a mismatch belongs to."""
    if mismatch.relation == APART:
        return "one-device"
    stored = _stored_in_module(mismatch, analysis)
    if mismatch.relation == FIXED or mismatch.stray_place.kind == LITERAL:
        return "hard-coded-cuda"
    if mismatch.stray.kind == MODULE:
        return "" if stored is not None and stored.name.endswith("[]") else "module-never-moved"
    if stored is not None:
        return "register-buffer"
    return "move-inputs" if _is_input(mismatch, analysis) else FACTORIES


def _is_input(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Was it loaded, or made of memory of the host; or made by whoever runs a module, to be given to that?"""
    made = mismatch.stray.links[0]
    row = models().function(made.file.dotted(made.node.func)) if isinstance(made.node, ast.Call) else None
    if made.kind == LOAD or mismatch.anchor.role == "taken":
        return True
    if mismatch.stray.role == "host" or (row is not None and row.form == "array"):
        return mismatch.anchor.kind == MODULE or mismatch.anchor_place.kind != OF
    if mismatch.anchor_place.kind not in (VAR, LITERAL) or _is_of_module(made.file, made.node, analysis):
        return False
    met = mismatch.node
    return mismatch.anchor.kind == MODULE or _is_of_module(mismatch.file, met, analysis)


def _is_of_module(file: File, node: ast.AST, analysis: Analysis) -> bool:
    """Is a node in a method of a module?"""
    owner = file.of_node.get(file.source.enclosing(node, ast.ClassDef) or node)
    return isinstance(owner, Class) and analysis.class_kind(owner) == "module"


def _stored_in_module(mismatch: Mismatch, analysis: Analysis) -> Link | None:
    """The link by which a module keeps the stray in a plain attribute."""
    if mismatch.stray.role == "parameter":
        return None  # in the place of a buffer
    for link in reversed(mismatch.stray.links):  # whoever uses it has to move its own
        if link.kind != STORE or link.file is not analysis.file:
            continue
        owner = analysis.file.source.enclosing(link.node, ast.ClassDef)
        made = analysis.file.of_node.get(owner) if owner is not None else None
        if isinstance(made, Class) and analysis.classes.is_module(made):
            return link
    return None


def _is_trained(mismatch: Mismatch) -> bool:
    """Was it made to be trained? Then it is a parameter, and no buffer."""
    made = mismatch.stray.links[0].node
    return isinstance(made, ast.Call) and any(one.arg == "requires_grad" for one in made.keywords)


def _place_to_show(mismatch: Mismatch, analysis: Analysis, codemod: str) -> ast.AST | None:
    """The node of a finding: in the analysed file, or there is none."""
    stored = _stored_in_module(mismatch, analysis)
    if codemod == "register-buffer" and stored is not None:
        return analysis.file.source.statement(stored.node)
    if mismatch.operation == "the result" and mismatch.stray.kind == MODULE:
        return mismatch.node if mismatch.file is analysis.file else None
    if mismatch.stray_place.kind == CPU and (back := moved_back(mismatch, analysis)) is not None:
        return back.node
    links = mismatch.stray.links
    if (
        codemod == FACTORIES
        and links[-1].kind == RETURN
        and any(one.kind == NAME for one in mismatch.assumed)
    ):
        links = links[-1:]  # what a helper makes is right for others; here it is an input
    for link in links:
        if link.file is analysis.file:
            if isinstance(link.node, (ast.For, ast.AsyncFor)):
                return link.node.target
            return link.node
    # What strays is made in another file: shown where it is used.
    at = mismatch.stray_node or mismatch.node
    return at if mismatch.file is analysis.file and hasattr(at, "lineno") else None


def _finding(
    codemod: str, at: ast.AST, mismatch: Mismatch, every: list[Mismatch], analysis: Analysis
) -> Finding:
    source = analysis.file.source
    title, edits, beside = _fix(codemod, mismatch, analysis)
    if not any(link.file is analysis.file for link in mismatch.stray.links):
        edits = ()  # it is repaired in the other file
    link = _stored_in_module(mismatch, analysis) if codemod == "register-buffer" else None
    moved_at = _moved_elsewhere(at, edits, source)
    stored = link.name.removesuffix("[]") if link is not None else ""
    message = message_of(codemod, at, stored, mismatch, analysis, is_elsewhere=moved_at is not None)
    made = codemod == FACTORIES and title.startswith("make")
    safe = bool(edits) and made and any(is_safe(one, edits, analysis) for one in every)
    registers = link is not None and title.startswith("register")
    if edits and link is not None and registers:
        safe = is_safe_buffer(link, every, analysis)
    if codemod == "module-never-moved" and mismatch.stray_place.kind != CPU:
        safe = is_safe_move(mismatch, analysis)
    before = fails_before(mismatch, analysis) if safe else ""
    unless = ""
    if not safe or before:
        unless = assumptions(mismatch, before or ("it should move with the module" if registers else ""))
    here = mismatch.file is analysis.file
    word = "run" if codemod == "module-never-moved" else "used"
    word = "returned" if mismatch.operation == "the result" else word
    used = (Related(source.span(mismatch.node), f"it is {word} here"),) if here else ()
    made_here = (Related(source.span(at), "it is made here"),)
    if beside is not None:
        return told(codemod, source.span(beside), message, title, edits, made_here, unless)
    if moved_at is not None:
        related = used if at is mismatch.node else made_here
        return told(codemod, moved_at, message, title, edits, related, unless)
    return told(codemod, source.span(at), message, title, edits, used, unless)


def _moved_elsewhere(at: ast.AST, edits: tuple[Edit, ...], source: Source) -> Span | None:
    """Where the one edit of a fix moves something, if it is on other lines than `at`: there the finding is shown."""
    changes = [edit for edit in edits if not isinstance(edit, EnsureImport)]
    if len(changes) != 1 or not isinstance(changes[0], AppendCall | InsertStatement):
        return None
    edit = changes[0]
    made, moved_at = source.span(at), edit.expression if isinstance(edit, AppendCall) else edit.anchor
    first, last = sorted((made, moved_at))
    apart = source.position(first.end)[0] < source.position(last.start)[0]
    return moved_at if apart else None


def _fix(
    codemod: str, mismatch: Mismatch, analysis: Analysis
) -> tuple[str, tuple[Edit, ...], ast.stmt | None]:
    """The title of a fix, its edits, and the statement that it stands beside, if that is where to show it."""
    if codemod == "hard-coded-cuda":
        device, edits = of_a_literal(mismatch, analysis)
        return f"use `{device}`", edits, None
    if codemod == "register-buffer" and mismatch.stray.role == DISTRIBUTION:
        return "", (), None
    if codemod == "register-buffer":
        link = _stored_in_module(mismatch, analysis)
        if link is None or not link.name.endswith("[]"):  # a list of tensors is no buffer
            title = f"register `self.{link.name}` as a buffer" if link is not None else ""
            return title, as_buffer(link, analysis) if link is not None else (), None
    elif codemod == "module-never-moved":
        if mismatch.stray_place.kind == CPU:  # where it was put on purpose
            device, edits = restored(mismatch, analysis)
            return f"move it to `{device}` again", edits, None
        device, edits = moved(mismatch, analysis)
        return f"move it to `{device}`", edits, None
    elif mismatch.stray.links[0].kind != LOAD:
        device, edits = at_its_making(mismatch, analysis)
        guessed = codemod == FACTORIES and any(one.kind == NAME for one in mismatch.assumed)
        if edits and not guessed:
            return f"make it on `{device}`", edits, None
        other, also, beside = beside_others(mismatch, analysis)
        if also:
            return f"move it to `{other}` as well", also, beside
        if edits:
            return f"make it on `{device}`", edits, None
    device, edits = at_the_meeting(mismatch, analysis)
    if not edits and has_to(mismatch.stray.links[0]):
        device, edits = at_its_making(mismatch, analysis)
    return f"move it to `{device}`", edits, None
