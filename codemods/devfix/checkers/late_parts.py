"""Parts that a module gets after it was moved, and that stay on the CPU: layers and parameters."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devfix.engine.analysis import Analysis
from devfix.engine.changes import MOVED, arms, owners
from devfix.engine.facts import ModuleEvent, Running, Surgery
from devfix.engine.places import alternatives
from devfix.engine.values import MAKE
from devfix.flow.frame import path_of
from devfix.placing import follows
from devfix.source import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# The uses of a module in a function: their numbers, and the statements.
Known = dict[tuple[object, ast.AST | None], list[tuple[int, ast.stmt]]]
_REGISTERS = frozenset({"add_module", "register_module", "register_parameter"})


@dataclass(frozen=True, eq=False)
class Step:
    """A move of a module, or a change, in one function: `via` is the function of the file that does it, if one does."""

    node: ast.AST
    statement: ast.stmt
    path: str
    via: str
    is_moved: bool = False


@dataclass(frozen=True, eq=False)
class Late:
    """Parts of one module that one move would take along.

    `moves` are the moves before them, in order; `used` those that something made use of before the parts came, so
    that they must stay. `use` is the first use after them.
    """

    surgeries: tuple[Surgery, ...]
    parts: tuple[Step, ...]
    moves: tuple[Step, ...]
    used: tuple[Step, ...]
    use: ast.stmt | None


def late_parts(analysis: Analysis) -> Iterator[Late]:
    """Every group of parts that stays on the CPU while its module is somewhere else."""
    groups: dict[object, list[Late]] = {}
    strays = analysis.strays
    called = {one.node for one in analysis.lives.surgeries if len(one.scopes) > 1}
    known: Known = {}
    told, moves = set[ast.AST](), dict[object, list[ModuleEvent]]()
    for surgery in analysis.lives.surgeries:
        made = surgery.part.links[0].node
        is_met = surgery.is_met or (made in strays and not surgery.is_settled)
        if not (is_met or surgery.is_left) or surgery.node in told or _takes_weights(made):
            continue
        if not is_met and len(surgery.scopes) == 1 and surgery.node in called:
            continue  # what those who call the function do with the module is known
        found = _reader(surgery, analysis, known, moves)
        late = found.late() if found is not None else None
        if found is None or late is None or (not is_met and found.is_harmless(late)):
            continue
        told.add(surgery.node)
        groups.setdefault((found.home, found.root, late.use), []).append(late)
    for group in groups.values():
        parts = sorted({one.parts[0]: None for one in group}, key=lambda one: _start(analysis, one.node))
        surgeries = tuple(one.surgeries[0] for one in group)
        yield replace(group[0], parts=tuple(parts), surgeries=surgeries)


def _start(analysis: Analysis, node: ast.AST) -> int:
    return analysis.file.source.span(node).start


def _takes_weights(made: ast.AST) -> bool:
    """Is a part made of parameters that are there? They stay where they are."""
    return any(
        isinstance(one, ast.Attribute) and one.attr in ("weight", "bias", "data") for one in ast.walk(made)
    )


def _reader(
    surgery: Surgery, analysis: Analysis, known: Known, moves: dict[object, list[ModuleEvent]]
) -> _Reader | None:
    cell = surgery.module.ref
    if cell not in moves:
        moves[cell] = [one for one in events_of(cell, analysis, above=True) if one.kind == MOVED]
    moved = sorted((one for one in moves[cell] if one.at < surgery.at), key=lambda one: one.at)
    return _Reader(surgery, moved, analysis, known) if any(map(is_to_device, moved)) else None


def is_to_device(move: ModuleEvent) -> bool:
    """Is it a move to a device that the program, or a caller, has chosen, on some path?"""
    return move.kind == MOVED and any(one.on_device for one, _ in alternatives(move.place))


def events_of(cell: object, analysis: Analysis, *, above: bool = False) -> Iterator[ModuleEvent]:
    """The events of a module, of the two that it may be, and of those that it is a part of; or of all parts, too."""
    cells = arms(cell)
    for one in cells:  # grows on the way
        found = (other for owner in owners(one, analysis) for other in arms(owner))
        cells += [other for other in dict.fromkeys(found) if other not in cells]
    for other, events in analysis.lives.events.items():
        inside = not above and not set(cells).isdisjoint(owners(other, analysis))
        if other in cells or inside:
            yield from events.values()


class _Reader:
    """What happens around a change, in the function that has moved the module."""

    def __init__(self, surgery: Surgery, moved: list[ModuleEvent], analysis: Analysis, known: Known) -> None:
        self.known = known
        self.surgery, self.analysis, self.source = surgery, analysis, analysis.file.source
        self.moved = moved
        self.root = next(one for one in reversed(moved) if is_to_device(one)).module.ref
        homes = [self._home(statement) for file, statement in surgery.running if file is analysis.file]
        with_moves = (home for home in homes if any(self._at(one.running, home) is not None for one in moved))
        self.home = next(with_moves, homes[0] if homes else None)

    def _home(self, node: ast.AST) -> ast.AST:
        return self.source.enclosing(node, *_FUNCTIONS) or self.source.tree

    def _at(self, running: Running, home: ast.AST | None) -> int | None:
        """The number of the statement that was being run in a function."""
        file = self.analysis.file
        numbered = enumerate(running)
        return next((at for at, (of, one) in numbered if of is file and self._home(one) is home), None)

    def late(self) -> Late | None:
        surgery, source = self.surgery, self.source
        at = self._at(surgery.running, self.home)
        if at is None:
            return None
        part = self._step(surgery.node, surgery.running, at, "")
        part = replace(part, path=_part_path(part) if not part.via else "")
        steps = [(one, self._move(one, part)) for one in self.moved]
        foreign = not any(follows(source, step.node, part.node) for _, step in steps if step is not None)
        if foreign and any(self._at(one.running, self.home) is not None for one in self.moved):
            return None
        moves = [(one, step) for one, step in steps if step is not None]
        if not moves:
            return None
        moves = sorted([*self._twins(moves), *moves], key=lambda one: one[0].at)
        uses = self._uses()
        first = bisect_right(uses, surgery.at, key=lambda one: one[0])
        later = (use for _, use in uses[first:] if follows(source, part.node, use))
        use = next(later, None)
        used = [
            step
            for move, step in moves
            if foreign or any(at > move.at and follows(source, step.node, one) for at, one in uses[:first])
        ]
        return Late((surgery,), (part,), tuple(step for _, step in moves), tuple(used), use)

    def _twins(self, moves: list[tuple[ModuleEvent, Step]]) -> list[tuple[ModuleEvent, Step]]:
        """Moves of the same name in other arms: the engine lets one of two equal modules stand for both."""
        move, step = moves[-1]
        found: list[tuple[ModuleEvent, Step]] = []
        for known in self.analysis.lives.events.values():
            for one in known.values() if step.path and not step.via else ():
                func = one.node.func if one.kind == MOVED and isinstance(one.node, ast.Call) else None
                other = path_of(func.value) if isinstance(func, ast.Attribute) else ""
                if other != step.path or one.node not in self.source.parents or one.at > self.surgery.at:
                    continue
                apart = not follows(self.source, one.node, move.node) and not follows(
                    self.source, move.node, one.node
                )
                if apart and self._home(one.node) is self.home and one.node is not step.node:
                    moved = Step(one.node, self.source.statement(one.node), other, "", is_to_device(one))
                    found += (
                        [(one, moved)]
                        if all(moved.node is not each.node for _, each in [*moves, *found])
                        else []
                    )
        return found

    def _uses(self) -> list[tuple[int, ast.stmt]]:
        """The statements of the function that use the module, with their numbers, in order."""
        key = self.root, self.home
        if key not in self.known:
            every = sorted(events_of(self.root, self.analysis), key=lambda one: one.at)
            uses = [(one.at, self._use(one)) for one in every if one.kind != MOVED]
            self.known[key] = [(at, use) for at, use in uses if use is not None]
        return self.known[key]

    def _use(self, event: ModuleEvent) -> ast.stmt | None:
        at = self._at(event.running, self.home)
        if at is None:
            return None
        return self.source.statement(event.node) if at == 0 else event.running[at][1]

    def _step(self, node: ast.AST, running: Running, at: int, path: str) -> Step:
        """A change or a move, as it stands in the function of which a statement was being run."""
        if at == 0:
            return Step(node, self.source.statement(node), path, "")
        statement, (file, inner) = running[at][1], running[at - 1]
        function = file.source.enclosing(inner, *_FUNCTIONS)
        name = function.name if isinstance(function, _FUNCTIONS) else "a call"
        calls = [one for one in walk(statement) if isinstance(one, ast.Call)]
        call = next((one for one in calls if path_of(one.func).rpartition(".")[2] == name), None)
        return Step(call or statement, statement, path, name)

    def _move(self, event: ModuleEvent, part: Step) -> Step | None:
        at = self._at(event.running, self.home)
        foreign = at is None
        if at is None:
            at = 0
        if event.running[at][0] is not self.analysis.file or (
            foreign and event.node not in self.source.parents
        ):
            return None
        step = replace(self._step(event.node, event.running, at, ""), is_moved=is_to_device(event))
        if not step.via:
            func = event.node.func if isinstance(event.node, ast.Call) else None
            return replace(step, path=path_of(func.value) if isinstance(func, ast.Attribute) else "")
        given = _paths_given(part.node) if part.via else [part.path]
        paths = (one for one in _paths_given(step.node) if any(_is_below(other, one) for other in given))
        return replace(step, path=next(paths, ""))

    def is_harmless(self, late: Late) -> bool:
        """Is a module, which nothing in view runs, moved by others afterwards, or made here and forgotten?"""
        moves = [one for one in events_of(self.root, self.analysis, above=True) if one.kind == MOVED]
        if any(one.at > self.surgery.at and self._at(one.running, self.home) is None for one in moves):
            return True
        module = self.analysis.made.get(self.root) or self.surgery.module
        links = module.links[:1]
        name = next((one.path for one in reversed(late.moves) if one.path), "")
        if not isinstance(self.home, _FUNCTIONS) or not name.isidentifier() or not links:
            return False
        if links[0].kind != MAKE or self._home(links[0].node) is not self.home:
            return False
        shared: tuple[ast.Global | ast.Nonlocal, ...] = self.source.of_kind(ast.Global, self.home)
        shared += self.source.of_kind(ast.Nonlocal, self.home)
        return not any(name in one.names for one in shared) and not any(
            self._is_handed_on(node, late) for node in self.source.names(self.home).get(name, ())
        )

    def _is_handed_on(self, node: ast.Name, late: Late) -> bool:
        """Is a name of the module read for more than an attribute, or is something of it called after the change?"""
        if isinstance(node.ctx, ast.Store):
            return False
        parent = self.source.parents[node]
        if (
            not isinstance(parent, ast.Attribute)
            or self.source.enclosing(node, *_FUNCTIONS, ast.Lambda) is not self.home
        ):
            return True
        up = self.source.parents[parent]
        called = isinstance(up, ast.Call) and up.func is parent
        after = _start(self.analysis, node) > self.source.span(late.parts[-1].node).end
        return after and (called or not isinstance(parent.ctx, ast.Load))


def _paths_given(node: ast.AST) -> list[str]:
    """The paths that a call is given, and the one that its method is of."""
    if not isinstance(node, ast.Call):
        return []
    given = [path_of(one) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
    return [one for one in (*given, path_of(node.func).rpartition(".")[0]) if one]


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith((f"{root}.", f"{root}["))


def _part_path(part: Step) -> str:
    """Where a part comes, as one would write it: `model.fc`, `model.layers[0]`."""
    node = part.node
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return ast.unparse(node)
    if not isinstance(node, ast.Call):
        return ""
    base, name = node.func, ""
    if isinstance(node.func, ast.Name) and len(node.args) == 3:
        base, name = node.args[0], _constant(node.args[1])
    elif isinstance(node.func, ast.Attribute):
        base = node.func.value
        name = _constant(node.args[0]) if node.func.attr in _REGISTERS and node.args else ""
    return f"{ast.unparse(base)}.{name}" if name else ast.unparse(base)


def _constant(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_proven(surgery: Surgery) -> bool:
    """Is it certain that what is attached is a module or a parameter?"""
    return not surgery.part.assumed
