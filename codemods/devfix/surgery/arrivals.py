"""Submodules and parameters that arrive in a module after it was moved, and stay behind.

Reads the events of device flow scope by scope; what is to be done about it is a codemod's affair.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.flow import Flow
from devfix.flow.events import Event, Scope, What
from devfix.flow.evidence import looks_like_size
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Value, Where
from devfix.flow.methods import MOVES
from devfix.placing import follows, guards_of, settled
from devfix.source import Source
from devfix.surgery.dropped import dropped

# Uses at which a module that is only partly on its device fails; other uses may not run it.
_RUNS = ("called", "forward", "generate", "module", "sample", "predict", "encode", "decode")
# What is handed a model and places it itself.
_PLACING = re.compile(
    r"(?:^|_)(?:prepare|prepare_model|fit|initialize|init_inference|setup|to_device|dispatch_model|learner|engine|"
    r"load_checkpoint_and_dispatch|cpu_offload|move_to\w*)$|trainer$",
    re.IGNORECASE,
)


@dataclass(eq=False)
class Surgery:
    """A group of arrivals in one module that one move would take along.

    `moves` are the moves of the module before them, in order; `used` those that something made
    use of before the arrivals, so that they must stay. `use` is the first use after them.
    """

    scope: Scope
    moves: list[Event]
    arrivals: list[Event]
    used: list[Event] = field(default_factory=list)
    use: Event | None = None


def surgeries(flow: Flow) -> Iterator[Surgery]:
    """Every group of arrivals that stays on the CPU while its module is somewhere else."""
    moved_classes = {
        event.value.name
        for event in flow.events(What.MOVE)
        if event.value.kind is Kind.MODULE and (event.scope.owner is None or event.path != "self")
    }
    moved_results: set[str] | None = None
    for scope in flow.scopes:
        if scope.owned or not any(event.what is What.ATTACH for event in scope.events):
            continue
        for surgery in _Reader(flow, scope).read():
            if surgery.use is None and scope.owner is not None and scope.owner.name in moved_classes:
                continue  # whoever makes it moves it
            if dropped(flow, surgery):
                continue
            if surgery.use is None or surgery.use.detail == "returned":
                moved_results = _moved_results(flow) if moved_results is None else moved_results
                if scope.name in moved_results:
                    continue
            yield surgery


def _moved_results(flow: Flow) -> set[str]:
    """Names of functions whose result is moved by their callers, in this file."""
    source = flow.source
    moved = {(event.scope.node, event.path) for event in flow.events(What.MOVE)}
    attributes = {path for _, path in moved if "." in path}  # they may be moved in another method
    found: set[str] = set()
    for node in source.walk():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            here = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree
            paths = [path_of(target) for target in node.targets]
            if any((here, path) in moved or path in attributes for path in paths):
                found.add(path_of(node.value.func).rpartition(".")[2])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MOVES:
            if isinstance(node.func.value, ast.Call):
                found.add(path_of(node.func.value.func).rpartition(".")[2])
    return found


@dataclass(eq=False)
class _Track:
    """One module object on its way through a scope."""

    moves: list[Event] = field(default_factory=list)
    pending: list[Event] = field(default_factory=list)
    used: list[Event] = field(default_factory=list)
    later: list[Event] = field(default_factory=list)
    first_use: Event | None = None
    foreign: bool = False  # moved in another method


class _Reader:
    def __init__(self, flow: Flow, scope: Scope) -> None:
        self.flow = flow
        self.source = flow.source
        self.scope = scope
        self.tracks: dict[int, _Track] = {}
        self.waiting: dict[int, dict[_Track, None]] = {}  # those in which an arrival was, by what arrived
        self.owned: set[int] = set()

    def read(self) -> Iterator[Surgery]:
        for event in self.scope.events:
            identity = event.value.identity
            if not identity or identity in self.owned:
                continue
            track = self.tracks.get(identity) or self._joined(event.value) or self._made_there(event)
            if event.what is What.MOVE and event.value.kind is Kind.MODULE:
                self._move(event)
            elif track is None:
                continue
            elif event.what is What.ATTACH:
                yield from self._attach(track, event)
            elif event.what is What.READ:
                self._read(track, event)
            elif event.value.kind is Kind.PART and looks_like_size(event.value.name):
                continue
            elif self._places(event):
                self.owned.add(identity)
                del self.tracks[identity]
            elif track.pending:
                yield from self._use(track, event)
            else:
                track.used = list(track.moves)
        for track in self.tracks.values():
            yield from self._close(track, None)

    def _joined(self, value: Value) -> _Track | None:
        """The track of an object that was made in either of two branches."""
        arms = [self.tracks[arm] for arm in value.arms if arm in self.tracks]
        if not arms:
            return None
        track = self.tracks[value.identity] = _Track()
        track.moves = sorted((move for arm in arms for move in arm.moves), key=lambda move: move.order)
        track.used = [move for arm in arms for move in arm.used]
        return track

    def _made_there(self, event: Event) -> _Track | None:
        """The track of an object that was on a device from its making: `Model().to(device)`."""
        move = _earlier_move(self.source, event)
        if move is None:
            return None
        foreign = _function(self.source, move.node) is not self.scope.node
        if foreign and not self._of_init(event, move):
            return None
        track = self.tracks[event.value.identity] = _Track([move])
        track.foreign = foreign
        track.used = [move] if foreign else []
        return track

    def _of_init(self, event: Event, move: Event) -> bool:
        """Was it moved in `__init__`, and in no other method?"""
        init = _function(self.source, move.node)
        if self.scope.owner is None or self.source.parents.get(init) is not self.scope.owner:
            return False
        path = next((e.path for e in self.scope.events if e.value.identity == event.value.identity), "")
        root = ".".join(path.split(".")[:2])
        move.path = root
        return root.startswith("self.") and not any(
            other.path == root
            for other in self.flow.events(What.MOVE)
            if other.scope.owner is self.scope.owner and other.scope.node is not init
        )

    def _move(self, event: Event) -> None:
        place = event.place
        self._forget(event.value.identity, event)
        track = self.tracks.setdefault(event.value.identity, _Track())
        if place is None or place.where in (Where.UNKNOWN, Where.OWNED) or place.where is Where.DEFAULT:
            # Out of sight: it may be anywhere, with all that is in it.
            track.moves, track.pending = [], []
        elif track.pending:
            track.later.append(event)
        else:
            track.moves.append(event)

    def _forget(self, identity: int, event: Event) -> None:
        """An arrival that is moved by itself is where it should be."""
        for track in self.waiting.pop(identity, ()):
            track.pending = [a for a in track.pending if a.child is None or a.child.identity != identity]

    def _attach(self, track: _Track, event: Event) -> Iterator[Surgery]:
        if not self._stays(event) or not self._moved_before(track, event):
            return
        if track.first_use is not None or track.later:
            yield from self._close(track, event.statement)
        track.pending.append(event)
        if event.child is not None:
            self.waiting.setdefault(event.child.identity, {})[track] = None

    def _moved_before(self, track: _Track, event: Event) -> bool:
        return any(
            move.place is not None
            and move.place.where is not Where.CPU
            and (track.foreign or follows(self.source, move.node, event.node))
            for move in (*track.moves, *track.later)
        )

    def _stays(self, event: Event) -> bool:
        """Is what arrives on the CPU, and does it have anything to move?"""
        child = event.child
        if child is None or event.place is None:
            return False
        return stays(self.flow, child, event.place.where)

    def _read(self, track: _Track, event: Event) -> None:
        if event.detail == "owned":
            track.moves, track.pending = [], []
        elif event.detail == "part moved" and event.path:
            track.pending = [a for a in track.pending if not surgery_path(a).startswith(event.path)]

    def _places(self, event: Event) -> bool:
        name = (
            event.detail.partition("`")[2].rstrip("`")
            if event.detail.startswith("passed to")
            else event.detail
        )
        return _PLACING.search(name) is not None

    def _use(self, track: _Track, event: Event) -> Iterator[Surgery]:
        if not any(follows(self.source, arrival.node, event.node) for arrival in track.pending):
            return
        if track.first_use is None:
            track.first_use = event
        if event.detail in _RUNS or event.what in (What.MEET, What.WRAP):
            left = self._left(track, event.statement)
            if left:
                yield self._surgery(track, left)
                track.pending = [arrival for arrival in track.pending if arrival not in left]
                track.used = [*track.moves, *track.later]

    def _close(self, track: _Track, end: ast.stmt | None) -> Iterator[Surgery]:
        """No more uses of these arrivals come: report those that were never moved, and begin anew."""
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
        return Surgery(self.scope, list(track.moves), left, track.used, track.first_use)


def made_on_device(source: Source, scope: Scope, event: Event) -> Event | None:
    """The move of a module that this function makes and moves in one go, if no event tells."""
    move = _earlier_move(source, event)
    return move if move is not None and _function(source, move.node) is scope.node else None


def _earlier_move(source: Source, event: Event) -> Event | None:
    value, place = event.value, event.value.place
    if event.what is What.MOVE or value.kind is not Kind.MODULE or not place.on_device or value.arms:
        return None
    made = place.node
    if not isinstance(made, ast.Call):
        return None
    statement = source.statement(made)
    return Event(What.MOVE, made, statement, event.scope, value, place=place, order=event.order - 1)


def _function(source: Source, node: ast.AST) -> ast.AST:
    return source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree


# --- what arrives ----------------------------------------------------------------------------


def stays(flow: Flow, child: Value, where: Where) -> bool:
    """Is a module or parameter, or part of it, on the CPU because nothing moved it?"""
    if child.bare:
        return False
    if where is Where.DEFAULT:
        return True
    if where is not Where.UNKNOWN or child.kind is not Kind.MODULE or not isinstance(child.node, ast.Call):
        return False
    if any(keyword.arg == "device" for keyword in child.node.keywords):
        return False
    if child.name in _classes(flow):
        return own_parts_stay(flow, child.name, frozenset())
    if child.name.startswith("torch.nn."):  # a container of old and new layers
        parts = [flow.value(argument) for argument in child.node.args]
        return any(p.kind is Kind.MODULE and p.place.where is Where.DEFAULT and not p.bare for p in parts)
    return False


def _classes(flow: Flow) -> set[str]:
    return {scope.owner.name for scope in flow.scopes if scope.owner is not None}


def own_parts_stay(flow: Flow, name: str, seen: frozenset[str]) -> bool:
    """Does a class of this file make parts of its own, beside those it is given?"""
    for scope in flow.scopes:
        if scope.owner is None or scope.owner.name != name or scope.name != "__init__" or name in seen:
            continue
        if any(event.what is What.MOVE for event in scope.events):
            return False
        for event in scope.events:
            if event.what is What.ATTACH and event.child is not None and event.place is not None:
                if event.place.where is Where.DEFAULT and not event.child.bare:
                    return True
                if event.child.name in _classes(flow) and own_parts_stay(
                    flow, event.child.name, seen | {name}
                ):
                    return True
    return False


def surgery_path(event: Event) -> str:
    """Where something arrives, as one would write it: `model.fc`, `model.layers[0]`; or ""."""
    node = event.node
    if event.via:
        return ""
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return event.path
    if not isinstance(node, ast.Call):
        return ""
    name = ""
    base: ast.expr = node.func
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
