"""Submodules and parameters that arrive in a module after it was moved, and stay behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.engine.analysis import Analysis
from devfix.engine.events import (
    ATTACHED,
    FILLED,
    HANDED,
    MOVED,
    OWNED,
    RETURNED,
    USED,
    WRAPPED,
    Event,
    Surgery,
)
from devfix.engine.evidence_of_modules import is_size_name, places_modules
from devfix.engine.files import Function
from devfix.engine.places import CHOICE, OF
from devfix.engine.values import PART, RETURN
from devfix.findings import Finding, Related, Safety, Span, told
from devfix.repair.surgeries import Plan
from devfix.text.names import path_of
from devfix.text.placing import follows, guards_of, settled
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "reorder-to"
# Uses at which a module that is only partly on its device fails; other uses may not run it.
_RUNS = ("called", "forward", "generate", "module", "sample", "predict", "encode", "decode")
_FUNCTIONS = (*FUNCTIONS, ast.Lambda)


def findings(analysis: Analysis) -> Iterator[Finding]:
    """The groups of arrivals that stay on the CPU, each with one move that takes them along."""
    source = analysis.file.source
    for surgery in surgeries(analysis):
        plan = Plan(source, surgery)
        edits, title, safety = plan.fix()
        if "deepcopy(" in source.text or _moves_parts(surgery, analysis):
            safety = min(safety, Safety.UNSAFE)  # a copy does not follow the original
        name = f"`{plan.path}`" if plan.path else "the module"
        related = [Related(source.span(move.node), f"{name} is moved here") for move in plan.early]
        for arrival in surgery.arrivals:
            made = arrival.child.links[0] if arrival.child is not None and arrival.child.links else None
            if made is not None and made.file is not analysis.file and arrival.via:
                line, column = made.file.source.position(made.file.source.span(made.node).start)
                what = f"what `{arrival.via}` attaches is made here"
                related.append(Related(Span(0, 0), what, made.file.path, line, column))
        message, assumes = _message(source, surgery, name, plan), f"nothing needs a part of {name} on the CPU"
        unless = "" if safety is Safety.SAFE else assumes
        yield told(CODEMOD, plan.span(), message, title, edits, tuple(related), unless)


def line_of(source: Source, node: ast.AST) -> int:
    return source.position(source.span(node).start)[0]


def _message(source: Source, surgery: Surgery, name: str, plan: Plan) -> str:
    move = plan.early[-1]
    to = f" to `{move.device}`" if move.device else ""
    head = f"{name} was moved{to} on line {line_of(source, move.node)}; "
    parts = []
    for arrival in surgery.arrivals:
        path, line = written(arrival), line_of(source, arrival.node)
        if arrival.via:
            parts.append(f"what `{arrival.via}` attaches to it on line {line}")
        else:
            parts.append(f"`{path}`, attached on line {line},")
    use, tail = surgery.use, ""
    if use is not None and use.what == USED and use.name in _RUNS:
        run = f"`{use.path}`" if use.path else name
        tail = f", so running {run} on line {line_of(source, use.node)} raises on an accelerator"
    if len(parts) == 1:
        return f"{head}{parts[0]} stays on the CPU{tail}"
    joined = ", ".join(part.rstrip(",") for part in parts[:-1])
    return f"{head}{joined} and {parts[-1]} stay on the CPU{tail}"


def surgeries(analysis: Analysis) -> Iterator[Surgery]:
    """Every group of arrivals that stays on the CPU while its module is somewhere else."""
    moves = [one for log in analysis.histories.values() for one in log.values() if one.what == MOVED]
    elsewhere = [one for one in moves if one.path != "self"]
    classes = {one.module.bound.ref for one in elsewhere if one.module.bound is not None}
    results = {link.name for one in moves for link in one.module.links if link.kind == RETURN}
    for function, log in analysis.histories.items():
        owner = function.owner if function is not None else None
        if owner is not None and analysis.class_kind(owner) == "owned":
            continue
        if not any(one.what == ATTACHED and one.stays for one in log.values()):
            continue
        for surgery in _Reader(analysis, function, list(log.values())).read():
            unused = surgery.use is None or surgery.use.what == RETURNED
            if surgery.use is None and owner is not None and owner in classes:
                continue  # whoever makes it moves it
            if unused and function is not None and function.name in results:
                continue
            if function is None or not _dropped(analysis.file.source, function, surgery):
                yield surgery


def _moves_parts(surgery: Surgery, analysis: Analysis) -> bool:
    """Does a method of the module's own class, other than the constructor, put its parts where it wants them?"""
    owners = {one.module.bound.ref for one in surgery.moves if one.module.bound is not None}
    return any(
        event.what == MOVED and not event.via
        for function, log in analysis.histories.items()
        if function is not None and function.owner in owners and function.name != "__init__"
        for event in log.values()
    )


def late_parts(analysis: Analysis) -> set[ast.AST]:
    """Where parts are made that arrive in a module of a device, and stay on the CPU then."""
    every = [one for log in analysis.histories.values() for one in log.values()]
    moved = {one.cells[0] for one in every if one.what == MOVED}
    placed = (
        one.child
        for one in every
        if one.what == ATTACHED and one.stays and one.place.on_device and one.place.kind != OF
        if not moved.isdisjoint(one.cells)  # else nobody in view of the log moves it
    )
    return {child.links[0].node for child in placed if child is not None and child.links}


@dataclass(eq=False)
class _Track:
    """One module on its way through a function; `foreign`: it was moved in the constructor."""

    moves: list[Event] = field(default_factory=list)
    pending: list[Event] = field(default_factory=list)
    used: list[Event] = field(default_factory=list)
    later: list[Event] = field(default_factory=list)
    first_use: Event | None = None
    foreign: bool = False


class _Reader:
    def __init__(self, analysis: Analysis, function: Function | None, log: list[Event]) -> None:
        self.analysis, self.function, self.log = analysis, function, log
        self.source = analysis.file.source
        self.tracks: dict[object, _Track] = {}
        self.owned: set[object] = set()

    def read(self) -> Iterator[Surgery]:
        for event in self.log:
            if not self.owned.isdisjoint(event.cells):
                continue
            if event.what == MOVED:
                self._move(event)
                continue
            if event.what == FILLED:
                for track in self.tracks.values():
                    track.pending = [one for one in track.pending if one.child_cells[0] != event.cells[0]]
                continue
            for track in self._of(event):
                if event.what == ATTACHED:
                    yield from self._attach(track, event)
                elif event.what == OWNED or places_modules(event.name):
                    self.owned.update(event.cells)
                    track.moves, track.pending = [], []
                elif event.what == HANDED and is_size_name(event.path.rpartition(".")[2]):
                    continue
                elif track.pending:
                    yield from self._use(track, event)
                else:
                    track.used = list(track.moves)
        for track in dict.fromkeys(self.tracks.values()):
            yield from self._close(track, None)

    def _of(self, event: Event) -> list[_Track]:
        """The tracks of the module that an event is about, of what it is part of, and of its parts if it is used."""
        found = [self.tracks[cell] for cell in event.cells if cell in self.tracks]
        if event.what != ATTACHED:
            found += [track for cell, track in self.tracks.items() if event.cells[0] in self._around(cell)]
        elif len(set(found)) > 1 and "either" in str(event.cells[0]):
            track = _Track()
            track.moves = sorted((move for one in found for move in one.moves), key=lambda move: move.order)
            track.used = [move for one in found for move in one.used]
            self.tracks[event.cells[0]] = track
            return [track]
        elif not found and (move := self._of_init(event)) is not None:
            found = [_Track([move], used=[move], foreign=True)]
            self.tracks[event.cells[0]] = found[0]
        return list(dict.fromkeys(found))[: 1 if event.what == ATTACHED else None]

    def _around(self, cell: object) -> Iterator[object]:
        for _ in range(8):
            cell = self.analysis.part_of.get(cell)
            if cell is None:
                return
            yield cell

    def _of_init(self, event: Event) -> Event | None:
        """The move in `__init__` of a module that no other method moves."""
        owner = self.function.owner if self.function is not None else None
        init = owner.method("__init__") if owner is not None else None
        if owner is None or init is None or self.function is None or self.function is init:
            return None
        if self.function.name in self.analysis.classes.builders(owner):
            return None  # it runs before the move
        logs = {one: list(self.analysis.histories.get(one, {}).values()) for one in owner.methods.values()}
        cells = {*event.cells}
        for one in logs.get(init, ()):  # a part that the constructor moves is where the others belong
            if one.what == ATTACHED and one.cells[0] == event.cells[0]:
                cells |= {*one.child_cells[:1]}
        moves = [
            (one, method)
            for method, log in logs.items()
            for one in log
            if one.what == MOVED and not cells.isdisjoint(one.cells) and _is_kept(one)
        ]
        return moves[0][0] if moves and all(method is init for _, method in moves) else None

    def _move(self, event: Event) -> None:
        cell = event.cells[0]
        part = [one for one in event.cells[1:] if one in self.tracks]
        for track in dict.fromkeys(self.tracks.values()):  # what is moved by itself is where it should be
            track.pending = [
                one
                for one in track.pending
                if one.child_cells[0] != cell and not (part and written(one).startswith(f"{event.path}"))
            ]
        if event.module.role == PART and event.via:
            return  # some part of it was moved elsewhere, and the whole stays where it is
        track = self.tracks.setdefault(cell, _Track())
        self.tracks["moved", id(event.node)] = track
        known = event.place.on_host or event.place.on_device or event.place.kind == CHOICE
        if not known or event.place.kind == "default":
            track.moves, track.pending = [], []  # it may be anywhere, with all that is in it
        elif track.pending:
            track.later.append(event)
        else:
            track.moves.append(event)

    def _attach(self, track: _Track, event: Event) -> Iterator[Surgery]:
        if not event.stays or _takes_weights(event) or not self._moved_before(track, event):
            return
        if track.first_use is not None or track.later:
            yield from self._close(track, event.statement)
        track.pending.append(event)

    def _moved_before(self, track: _Track, event: Event) -> bool:
        return any(
            not move.place.on_host
            and (track.foreign or follows(self.source, move.node, event.node))
            and event.node not in ast.walk(move.node)  # else what is made there is moved then
            for move in (*track.moves, *track.later)
        )

    def _use(self, track: _Track, event: Event) -> Iterator[Surgery]:
        if not any(follows(self.source, arrival.node, event.node) for arrival in track.pending):
            return
        if track.first_use is None:
            track.first_use = event
        if event.what == WRAPPED or (event.what == USED and event.name in _RUNS):
            left = self._left(track, event.statement)
            if left:
                yield self._surgery(track, left)
                track.pending = [arrival for arrival in track.pending if arrival not in left]
                track.used = [*track.moves, *track.later]

    def _close(self, track: _Track, end: ast.stmt | None) -> Iterator[Surgery]:
        """No more uses of these arrivals come: tell those that were never moved, and begin anew."""
        left = self._left(track, end)
        if left:
            yield self._surgery(track, left)
        if track.first_use is not None:
            track.used = [*track.moves, *track.later]
        track.moves += track.later
        track.pending, track.later, track.first_use = [], [], None

    def _left(self, track: _Track, end: ast.stmt | None) -> list[Event]:
        """The arrivals that are still on the CPU on some way to `end`."""
        moves = {move.statement for move in track.later}
        tests = [guards_of(self.source, move.statement) for move in track.moves]
        guards = {ast.unparse(guard.test) for around in tests for guard in around}
        return [a for a in track.pending if not settled(self.source, a.statement, end, moves, guards)]

    def _surgery(self, track: _Track, left: list[Event]) -> Surgery:
        return Surgery(list(track.moves), left, track.used, track.first_use)


def _is_kept(move: Event) -> bool:
    """Is what is moved `self`, one of its attributes, or becomes one where it is moved?"""
    statement = move.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(path.partition(".")[0] == "self" for path in (move.path, *map(path_of, targets)))


def _takes_weights(event: Event) -> bool:
    """Is a part made of parameters that are there? They stay where they are."""
    made = event.child.links[0].node if event.child is not None and event.child.links else event.node
    return isinstance(made, ast.Call) and any(
        isinstance(one, ast.Attribute) and one.attr in ("weight", "bias", "data") for one in ast.walk(made)
    )


def written(event: Event) -> str:
    """Where something arrives, as one would write it: `model.fc`, `model.layers[0]`; or ""."""
    node = event.node
    if event.via:
        return ""
    if not isinstance(node, ast.Call):
        return event.path
    name, base = "", node.func
    if isinstance(node.func, ast.Name) and len(node.args) == 3:
        base, name = node.args[0], _constant(node.args[1])
    elif isinstance(node.func, ast.Attribute):
        base = node.func.value
        if node.func.attr in ("add_module", "register_module", "register_parameter") and node.args:
            name = _constant(node.args[0])
    path = ast.unparse(base)
    return f"{path}.{name}" if name else path


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _dropped(source: Source, function: Function, surgery: Surgery) -> bool:
    """Is the module a local of its function, made there, that is only asked for attributes from then on?"""
    name = surgery.moves[-1].path
    arrived = max(source.span(arrival.node).end for arrival in surgery.arrivals)
    is_shared = any(name in one.names for one in source.of_kind(ast.Global, function.node))
    if surgery.use is not None or is_shared:
        return False
    made = False
    for node in source.names(function.node).get(name, ()):
        parent = source.parents[node]
        if isinstance(node.ctx, ast.Store):
            made = isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Call)
        elif (
            not isinstance(parent, ast.Attribute) or source.enclosing(node, *_FUNCTIONS) is not function.node
        ):
            return False  # it is handed on, kept or returned
        elif source.span(node).start > arrived:
            call = source.parents[parent]
            if not isinstance(parent.ctx, ast.Load) or (isinstance(call, ast.Call) and call.func is parent):
                return False
    return made
