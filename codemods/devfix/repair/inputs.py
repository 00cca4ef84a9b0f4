"""The edits that move inputs: at the top of the loop that binds them, where they are made, or where they are used."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.values import BATCH, EACH, ELEMENT, PART, PASS, WHOLE, Link
from devfix.findings import AppendCall, Edit, EnsureImport, InsertStatement, Span
from devfix.repair.candidates import has_to, stays_on_host
from devfix.text.names import Binding, first_binding, reads
from devfix.text.source import Source, walk

_MOVES = ("to", "cuda")
_DICT_METHODS = frozenset({"items", "keys", "values", "get", "pop", "update"})
Plan = tuple[tuple[Edit, ...], Span, bool]


@dataclass(frozen=True, eq=False)
class Input:
    """A value on the CPU that is handed on, or meets the others, at `node`; `device` is where they are.

    `also` are other uses of the same value, which are as certain: they are mended with it, if it is where it is used.
    """

    mismatch: Mismatch
    node: ast.expr
    device: str
    binding: Binding | None
    also: list[Input] = field(default_factory=list)

    @property
    def made(self) -> Link:
        return self.mismatch.stray.links[0]

    @property
    def is_whole(self) -> bool:
        """Is it a whole batch, which may be a dict or a list?"""
        return self.mismatch.stray.kind == BATCH and not self.is_element and not has_to(self.made)

    @property
    def is_element(self) -> bool:
        return any(one.kind == ELEMENT and one.name != WHOLE for one in self.mismatch.stray.links)

    @property
    def is_passed(self) -> bool:
        """Does a function get it, which may read it on the CPU as well?"""
        return any(one.kind == PASS for one in self.mismatch.stray.links)

    @property
    def is_part(self) -> bool:
        """Is it only an element of what stands at the node: of a list, or of `**fields`?"""
        return any(one.name in (PART, EACH) and one.node is self.node for one in self.mismatch.stray.links)


def base_of(node: ast.expr) -> ast.Name | None:
    """`x` of `x.data["a"]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


@dataclass(frozen=True)
class Mover:
    """Writes the moves of one scope; `suffix` is what follows the device, such as `, non_blocking=True`."""

    analysis: Analysis
    scope: ast.AST
    suffix: str = ""

    @property
    def source(self) -> Source:
        return self.analysis.file.source

    def reads(self, name: str) -> list[ast.Name]:
        return reads(self.source, self.scope, name)

    def plan(self, inputs: list[Input]) -> Plan:
        """The edits for inputs that are bound together, where they take effect, and whether they are surely right."""
        source, first = self.source, inputs[0]
        nowhere = (), source.span(first.node), False
        if not all(one.device for one in inputs) or any(map(self.is_taken_apart, inputs)):
            return nowhere
        if any(map(self._is_beside_a_list, inputs)):
            return nowhere
        apart = [one for one in inputs if self._stays(one)] if len(inputs) > 1 else []
        rest = [one for one in inputs if one not in apart]
        if apart and rest:
            edits, span, sure = self.plan(rest)
            return ((*edits, *map(self._inline, apart)), span, sure) if edits else nowhere
        binding = first.binding
        statement = binding.statement if binding is not None else None
        if binding is not None and statement is not None and not isinstance(first.node, ast.Subscript):
            if binding.form in ("loop", "unpack") and not apart and not self._is_inline(inputs, binding):
                edits, sure = self._statement(inputs, binding)
                if edits:
                    return edits, source.span(binding.target), sure
            elif (
                binding.form == "single"
                and binding.value is not None
                and not (first.is_part or self._is_spread(first))
            ):
                start = source.span(statement).start
                if not self._is_inline(inputs, binding) and self._bound_before(first.device, start):
                    span = source.span(binding.value)
                    return (AppendCall(span, self._to(first.device)),), span, True
        if any(one.is_part or self._is_spread(one) for one in inputs):
            return nowhere
        sure = not any(
            one.is_whole or self._goes_on(one) or (one.is_passed and self._stays(one)) for one in inputs
        )
        uses = [*inputs, *(other for one in inputs for other in one.also if self._is_alike(other))]
        return tuple(map(self._inline, uses)), source.span(first.node), sure

    def _is_alike(self, one: Input) -> bool:
        """Can another use of a value that is moved where it is used be mended in the same way?"""
        return bool(one.device) and not (one.is_part or self._is_spread(one) or self.is_taken_apart(one))

    def is_taken_apart(self, one: Input) -> bool:
        """Does whoever gets a whole batch take elements of it?"""
        return one.made.node in self.analysis.taken_apart and one.is_passed and not has_to(one.made)

    def _is_beside_a_list(self, one: Input) -> bool:
        """Is another part of the batch a list, of which each is moved? Then this may be one, of tensors or of dicts."""
        parents, binding = self.source.parents, one.binding
        bound = parents.get(binding.target) if binding is not None else None
        if not isinstance(bound, ast.Tuple) or one.mismatch.stray.kind != BATCH:
            return False
        others = (read for part in bound.elts for read in self.reads(getattr(part, "id", "")))
        loops = (up for read in others if isinstance(up := parents.get(read), ast.comprehension))
        return any(f".{move}(" in self.source.code(parents[one]) for one in loops for move in _MOVES)

    def _inline(self, one: Input) -> Edit:
        return AppendCall(self.source.span(one.node), self._to(one.device))

    def _to(self, device: str) -> str:
        return f".to({device}{self.suffix})"

    def _is_spread(self, one: Input) -> bool:
        """`model(**batch)`: nothing can be appended to the argument."""
        up = self.source.parents.get(one.node)
        return isinstance(up, ast.keyword) and up.arg is None and not has_to(one.made)

    def _is_inline(self, inputs: list[Input], binding: Binding) -> bool:
        """Is one input alone, and used once, or needed on the CPU as well?"""
        if len(inputs) > 1:
            return False
        item = isinstance(binding.value, ast.Subscript)
        once = binding.form != "loop" and not item and len(self.reads(binding.name)) == 1
        return once or self._stays(inputs[0]) or self._is_shared(binding) or self._is_asked(binding)

    def _is_asked(self, binding: Binding) -> bool:
        """Is the name moved somewhere in the scope as well?"""
        ups = map(self.source.parents.get, self.reads(binding.name))
        return any(isinstance(up, ast.Attribute) and up.attr in (*_MOVES, "cpu") for up in ups)

    def _goes_on(self, one: Input) -> bool:
        """Is it handed on below as it is, where only another branch moves it? Then this is half of what it takes."""
        if not isinstance(one.node, ast.Name) or one.binding is None or one.binding.form != "loop":
            return False
        source, statement = self.source, self.source.statement(one.node)
        below = source.block(statement)[source.index(statement) + 1 :]
        reads = self.reads(one.node.id)
        handed = [
            read
            for read in reads
            if isinstance(call := source.parents.get(read), ast.Call) and read in call.args
        ]
        return self._is_asked(one.binding) and any(source.statement(read) in below for read in handed)

    def _stays(self, one: Input) -> bool:
        """Is it read on the CPU as well, or kept beside what was copied there?"""
        if not isinstance(one.node, ast.Name):
            return False
        if any(stays_on_host(node, self.analysis) for node in one.mismatch.stray.moved_at()):
            return True
        parents = self.source.parents
        for read in self.reads(one.node.id):
            call = parents.get(read)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                if call.func.attr == "append" and self._keeps_copies:
                    return True
        return False

    @cached_property
    def _keeps_copies(self) -> bool:
        """Does the scope keep copies on the CPU in lists: `outs.append(y.cpu())`?"""
        return any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ("append", "extend")
            and any(isinstance(one, ast.Attribute) and one.attr == "cpu" for one in walk(call.args[0]))
            for call in self.source.of_kind(ast.Call, self.scope)
            if call.args
        )

    def _is_shared(self, binding: Binding) -> bool:
        """`x = torch.from_numpy(buffer)`, and `buffer[:] = frame` below: a copy made here would not see that."""
        source, value = self.source, binding.value
        if value is None:
            return False
        of, end = {one.id for one in walk(value) if isinstance(one, ast.Name)}, source.span(value).end
        for node in source.walk(self.scope):
            written: ast.expr | None = None
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                written = node
            elif isinstance(node, ast.AugAssign):
                written = node.target
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                last = node.func.attr
                if last in ("copyto", "readinto") and node.args:
                    written = node.args[0]
                elif last in ("fill", "sort", "put", "resize") or (last[-1] == "_" != last[-2:-1]):
                    written = node.func.value
            base = base_of(written) if written is not None else None
            if base is not None and base.id in of and source.span(node).start > end:
                return True
        return False

    def _bound_before(self, device: str, offset: int) -> bool:
        """Can the device expression be written at an offset?"""
        names = (one.id for one in walk(ast.parse(device, mode="eval")) if isinstance(one, ast.Name))
        return all((first_binding(self.source, self.scope, one) or 0) <= offset for one in names)

    def _statement(self, inputs: list[Input], binding: Binding) -> tuple[tuple[Edit, ...], bool]:
        """One statement after the binding that moves all of them, and if it is sure to be right."""
        source, statement = self.source, binding.statement
        assert statement is not None
        if not self._bound_before(inputs[0].device, source.span(statement).start):
            return (), False
        moved: dict[str, tuple[str, bool]] = {}
        for one in inputs:
            base = base_of(one.node)
            if base is not None and base.id not in moved:
                moved[base.id] = self._moved(base.id, one)
        if not all(text for text, _ in moved.values()):
            return (), False
        text = f"{', '.join(moved)} = {', '.join(text for text, _ in moved.values())}"
        imports: tuple[Edit, ...] = ()
        if "torch." in text and source.imports.get("torch") != "torch":
            imports = (EnsureImport("torch"),)
        anchor, before = statement, False
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            anchor, before = _top_of(statement)
        sure = all(sure for _, sure in moved.values())
        return (InsertStatement(source.span(anchor), text, before), *imports), sure

    def _moved(self, name: str, one: Input) -> tuple[str, bool]:
        """`x.to(device)`, or its like for a batch that is a dict or a list, and whether it is sure to be one."""
        to, parents = self._to(one.device), self.source.parents
        if (one.is_part or self._is_spread(one)) and one.mismatch.stray.kind != BATCH:
            return "", False
        if not one.is_whole and not one.is_part:
            return f"{name}{to}", True
        ups = [parents.get(read) for read in self.reads(name)]
        attributes = {up.attr for up in ups if isinstance(up, ast.Attribute)}
        keys = {
            type(up.slice.value)
            for up in ups
            if isinstance(up, ast.Subscript) and isinstance(up.slice, ast.Constant)
        }
        if self._is_spread(one) or str in keys or attributes & _DICT_METHODS:
            if attributes - _DICT_METHODS:
                return f"{name}{to}", False
            return f"{{k: v{to} if torch.is_tensor(v) else v for k, v in {name}.items()}}", True
        if int in keys:
            return f"[t{to} if torch.is_tensor(t) else t for t in {name}]", False
        return f"{name}{to}", False


def _top_of(loop: ast.For | ast.AsyncFor) -> tuple[ast.stmt, bool]:
    """The top of a loop's body, below statements that move its other elements."""
    targets = {one.id for one in walk(loop.target) if isinstance(one, ast.Name)}
    anchor, before = loop.body[0], True
    for statement in loop.body:
        value = statement.value if isinstance(statement, ast.Assign) else None
        calls = value.elts if isinstance(value, ast.Tuple) else [value]
        if not isinstance(statement, ast.Assign) or not all(
            isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _MOVES
            for one in calls
        ):
            break
        if not {one.id for t in statement.targets for one in walk(t) if isinstance(one, ast.Name)} <= targets:
            break
        anchor, before = statement, False
    return anchor, before
