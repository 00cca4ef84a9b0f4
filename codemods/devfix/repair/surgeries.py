"""How what stayed behind gets to its device: one move after the last arrival, or a second one."""

from __future__ import annotations

import ast
import re

from devfix.engine.events import Event, Surgery, moved_by
from devfix.findings import (
    DeleteStatement,
    Edit,
    InsertStatement,
    MoveStatement,
    ReplaceExpression,
    Safety,
    Span,
)
from devfix.repair.ways import GIVES, alone, below, changed, handed_on, reads_groups, seen_by_call, wraps
from devfix.text.names import path_of
from devfix.text.placing import (
    always,
    around,
    bound_before,
    follows,
    guards_of,
    only,
    rebound,
    siblings,
    steady,
)
from devfix.text.source import Source, walk

# What reading of a module's tensors tells where they are.
_TELLING = frozenset({"device", "data", "weight", "bias", "state_dict", "is_cuda", "grad", "get_device"})
# Methods of what is made of a module, such as its parameters and optimizers, that do not run it.
_RUNS_NOTHING = frozenset(
    {
        "requires_grad_", "parameters", "named_parameters", "modules", "named_modules", "children",
        "named_children", "eval", "train", "append", "extend", "add", "add_param_group", "zero_grad", "items",
        "startswith", "endswith", "numel", "size", "dim",
    }
)  # fmt: skip
_MAY_SKIP = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match, ast.With, ast.AsyncWith)
_TELLS_NOTHING = frozenset({"shape", "size", "dtype", "ndim", "requires_grad", "numel", "requires_grad_"})


class Plan:
    """How the arrivals of one surgery get to the device.

    `early` are the moves before them that count, `anchor` is the statement after which a move
    helps: after the last arrival, before the first use, out of loops and arms without one.
    """

    def __init__(self, source: Source, surgery: Surgery) -> None:
        self.source = source
        self.surgery = surgery
        last = surgery.arrivals[-1]
        self.early = [m for m in surgery.moves if follows(source, m.node, last.node)] or surgery.moves
        self.anchor = self._anchor(last.statement)
        certain = not any(a.child is not None and a.child.assumed for a in surgery.arrivals)
        self.sure = certain and not any(_casts(move) for move in self.early)
        self.path = self._root_path()

    def _anchor(self, last: ast.stmt) -> ast.stmt | None:
        use = self.surgery.use
        if use is not None:
            pair = siblings(self.source, last, use.statement)
            return None if pair is None or pair[0] is pair[1] else pair[0]
        anchor: ast.stmt | None = None
        for move in self.early:
            pair = siblings(self.source, move.statement, last)
            if pair is not None and (anchor is None or pair[1] in around(self.source, anchor)):
                anchor = pair[1]
        if all(self.source.scope(move.node) is not self.source.scope(last) for move in self.early):
            return last
        return anchor

    def _root_path(self) -> str:
        """How the moved module is written where the move is to go."""
        if self.anchor is None:
            return ""
        arrival = self.surgery.arrivals[0]
        if all(move.cells[0] not in arrival.cells for move in self.early):  # another part was moved
            one = len(self.surgery.arrivals) == 1 and arrival.path.replace(".", "").isidentifier()
            return arrival.path if one else arrival.path.partition(".")[0]
        candidates = []
        for move in reversed(self.early):
            statement = move.statement
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                candidates.append((path_of(statement.targets[0]), move))
            candidates.append((move.path, move))
        candidates = [one for one in candidates if one[0] and "(" not in one[0]]  # a call makes another one
        for path, move in candidates:
            if not rebound(self.source, [ast.parse(path, mode="eval").body], move.node, self.anchor):
                return path
        for path, move in candidates:
            if self._wrapped_only(path, move.statement):
                self.sure = False  # what DistributedDataParallel was told of is not all of it now
                return path
        return ""

    def _wrapped_only(self, path: str, start: ast.stmt) -> bool:
        """Is `model = DataParallel(model)` all that binds a name anew on the way? That moves what it holds."""
        source, end = self.source, self.anchor
        body = source.block(start)
        if end is None or end not in body or not path.isidentifier():
            return False
        between = [one for one in body[body.index(start) + 1 :] if one.lineno <= end.lineno]
        binding = [
            one
            for one in between
            for node in walk(one)
            if isinstance(node, ast.Name) and node.id == path and not isinstance(node.ctx, ast.Load)
        ]
        return bool(binding) and all(wraps(source, one, path) for one in binding)

    def span(self) -> Span:
        """From the last arrival to the end of the loop or branch that it stands in."""
        start, end = self._span(self.surgery.arrivals[-1].node), self.anchor
        return start if end is None else Span(start.start, max(start.end, self._span(end).end))

    # --- the fix -----------------------------------------------------------------------------

    def fix(self) -> tuple[tuple[Edit, ...], str, Safety]:
        """Edits, title and safety; no edits where nothing can be placed."""
        nothing: tuple[tuple[Edit, ...], str, Safety] = ((), "", Safety.MANUAL)
        if self.anchor is None or not self.path:
            return nothing
        safety = Safety.SAFE if self.sure else Safety.UNSAFE
        loose = [m for m in self.early if m not in self.surgery.used]
        if loose and not self._touched(loose):
            whole = self._whole(loose)
            if whole is not None:
                return whole, f"move `{self.path}` after its last change", safety
        text, steadily = self._second()
        if not text:
            return nothing
        if loose and not self._touched(loose) and steadily:
            gone = self._deletions(loose)
            if gone is not None:
                edits = (*gone, InsertStatement(self._span(self.anchor), text))
                return edits, f"move `{self.path}` once, after its last change", safety
        if not steadily:
            safety = Safety.UNSAFE
        return (InsertStatement(self._span(self.anchor), text),), f"move `{self.path}` again", safety

    def _span(self, node: ast.AST) -> Span:
        return self.source.span(node)

    def _touched(self, loose: list[Event]) -> bool:
        """Does anything between the moves and the arrivals look where the module's tensors are?"""
        assert self.anchor is not None
        start = min(self._span(m.statement).end for m in loose)
        stop = self._span(self.anchor).end
        roots = {self.path}
        if seen_by_call(self.source, self.path, start, stop):
            return True
        whole = self._span(home) if (home := self.source.scope(self.anchor)) is not self.source.tree else None
        nodes = [
            node
            for node in self.source.between(start, stop)
            if isinstance(node, (ast.expr, ast.stmt))
            and (whole is None or whole.start <= self._span(node).start < whole.end)
        ]
        for node in sorted(nodes, key=lambda n: self._span(n).start):
            if isinstance(node, (ast.Assign, ast.For)):
                value = node.value if isinstance(node, ast.Assign) else node.iter
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(_mentions(value, root) for root in roots):
                    names = {n.id for t in targets for n in walk(t) if isinstance(n, ast.Name)}
                    roots |= names - {"self"}
        for node in nodes:
            if reads_groups(self.source, node) or alone(self.source, node, self.path):
                return True
            if isinstance(node, ast.Call) and self._hands_on(node):
                return True
            if not isinstance(node, ast.Attribute) or node.attr not in _TELLING:
                continue
            up = self.source.parents[node]
            if isinstance(up, ast.Attribute) and up.attr in _TELLS_NOTHING:
                continue
            if any(_mentions(node.value, root) for root in roots):
                return True
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        return any(self._runs(call, roots) for call in calls)

    def _hands_on(self, node: ast.Call) -> bool:
        func = node.func
        named = isinstance(func, ast.Attribute) and func.attr in GIVES and path_of(func.value) == self.path
        parts = isinstance(func, ast.Attribute) and func.attr.endswith(("parameters", "buffers"))
        return named and parts and handed_on(self.source, node)

    def _runs(self, call: ast.expr, roots: set[str]) -> bool:
        """Is something called that may run what was made of the module, or load an optimizer's state?"""
        if isinstance(call, ast.Attribute):
            if call.attr == "load_state_dict":
                return not _mentions(call.value, self.path)
            if call.attr in _RUNS_NOTHING:
                return False
        path = path_of(call)
        return any(path == root or path.startswith(f"{root}.") for root in roots - {self.path})

    def _whole(self, loose: list[Event]) -> tuple[Edit, ...] | None:
        """Move the one statement that holds all of the moves, if it can go as it is."""
        assert self.anchor is not None
        moves = {m.statement for m in loose}
        if not all(self._plain(m) for m in loose):
            return None
        statement = loose[-1].statement
        for outer in around(self.source, statement):
            if only(outer, moves):
                statement = outer
        inside = set(self.source.walk(statement))
        if not moves <= inside or self.anchor not in self.source.block(statement):
            return None
        if not below(self.source, statement, self.anchor, self.path) or self._changed([statement], statement):
            return None
        return (MoveStatement(self._span(statement), self._span(self.anchor)),)

    def _changed(self, parts: list[ast.AST], start: ast.stmt) -> bool:
        """Is a part something else after the anchor than after `start`?"""
        assert self.anchor is not None
        first, last = self._span(start).end, self._span(self.anchor)
        compound = hasattr(self.anchor, "body")  # in itself a plain statement may bind what is moved
        return changed(self.source, parts, first, last.end if compound else last.start, ())

    def _plain(self, move: Event) -> bool:
        """`model.to(device)` as a statement, or `model = model.to(device)`."""
        statement = move.statement
        if not _is_call(move):
            return False
        if isinstance(statement, ast.Expr):
            return statement.value is move.node
        if isinstance(statement, ast.Assign) and statement.value is move.node and len(statement.targets) == 1:
            return path_of(statement.targets[0]) == move.path == self.path
        return False

    def _deletions(self, loose: list[Event]) -> tuple[Edit, ...] | None:
        """Take the early moves away; None where one is more than a move, or not always made up for."""
        assert self.anchor is not None
        edits: list[Edit] = []
        for move in loose:
            node = move.node
            if not _is_call(move) or not below(self.source, move.statement, self.anchor, self.path):
                return None
            if self._plain(move):
                edits.append(DeleteStatement(self._span(move.statement)))
            elif (
                isinstance(move.statement, ast.Assign)
                and isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and len(move.statement.targets) == 1
                and path_of(move.statement.targets[0]) == self.path
            ):
                edits.append(ReplaceExpression(self._span(node), self.source.code(node.func.value)))
            else:
                return None
        return tuple(edits)

    def _second(self) -> tuple[str, bool]:
        """The text of a move at the anchor, and whether it does just what the early ones did."""
        assert self.anchor is not None
        moves, suffixes = self.early, {_suffix(m) for m in self.early}
        last = next(m for m in reversed(moves) if not m.place.on_host)
        suffix = _suffix(last)
        if suffix and self._valid(last, suffix):
            text = self.path + suffix
            if len(suffixes) == 1 and self._on_every_way(moves):
                return text, True
            guards = guards_of(self.source, last.statement, self.anchor)
            if len(moves) == 1 and len(guards) == 1 and self._copies(guards[0], last):
                return f"if {ast.unparse(guards[0].test)}:\n    {text}", True
            if not guards:
                between = set(around(self.source, last.statement)) - set(around(self.source, self.anchor))
                return text, len(suffixes) == 1 and not any(isinstance(one, _MAY_SKIP) for one in between)
        kept = self._kept(last)
        return f"{self.path}.to({kept or f'next({self.path}.parameters()).device'})", False

    def _kept(self, move: Event) -> str:
        """The attribute of `self` that keeps the device of a move in another method of the class."""
        assert self.anchor is not None
        home, here = self.source.scope(move.node), self.source.scope(self.anchor)
        owner = self.source.enclosing(home, ast.ClassDef)
        node = move.node
        if home is here or owner is None or owner is not self.source.enclosing(here, ast.ClassDef):
            return ""
        if not _is_call(move) or not isinstance(node, ast.Call) or len(node.args) != 1:
            return ""
        device = ast.dump(node.args[0])
        for one in self.source.of_kind(ast.Assign, home):
            path = path_of(one.targets[0])
            if ast.dump(one.value) == device and path.startswith("self.") and path.count(".") == 1:
                return path
        return ""

    def _valid(self, move: Event, suffix: str) -> bool:
        """Does the device expression mean the same at the anchor?"""
        assert self.anchor is not None
        if self.source.scope(move.node) is not self.source.scope(self.anchor):
            return re.fullmatch(r"\.cuda\(\)|\.\w+\((?:device=)?self(?:\.\w+)+\)", suffix) is not None
        expression = ast.parse("x" + suffix, mode="eval").body
        assert isinstance(expression, ast.Call)
        parts: list[ast.AST] = [*expression.args, *(k.value for k in expression.keywords)]
        return all(steady(self.source, p) for p in parts) and not self._changed(parts, move.statement)

    def _on_every_way(self, moves: list[Event]) -> bool:
        assert self.anchor is not None
        statements = {m.statement for m in moves}
        for one in around(self.source, self.anchor):
            block = self.source.block(one)
            if any(always(before, statements) for before in block[: block.index(one)]):
                return True
        return False

    def _copies(self, guard: ast.If, move: Event) -> bool:
        """Can the condition of a move be asked again at the anchor?"""
        assert self.anchor is not None
        return (
            move.statement in guard.body
            and steady(self.source, guard.test)
            and bound_before(self.source, guard.test, self.anchor)
            and not self._changed([guard.test], guard)
        )


def _is_call(move: Event) -> bool:
    """Is it a call of `.to` or `.cuda` that stands here, not in a function that is called?"""
    return not move.via and moved_by(move.node) is not None


def _casts(move: Event) -> bool:
    """Does a move do more than move, such as `.to(device, dtype)`?"""
    node = move.node
    if not isinstance(node, ast.Call) or move.via:
        return False
    return len(node.args) > 1 or any(k.arg not in ("device", "non_blocking") for k in node.keywords)


def _suffix(move: Event) -> str:
    """`.to(device)` as written; where the move is out of sight, in the terms of this place."""
    node = move.node
    if not _is_call(move) or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return f".to({move.device})" if move.device else ""
    call = ast.Call(ast.Name(""), node.args, node.keywords)
    return f".{node.func.attr}{ast.unparse(call)}"


def _mentions(node: ast.AST, path: str) -> bool:
    return any(isinstance(part, (ast.Name, ast.Attribute)) and path_of(part) == path for part in walk(node))
