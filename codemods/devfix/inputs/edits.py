"""The edits that move inputs: at the top of the loop, where they are made, or where they are used."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from devfix.findings import AppendCall, Edit, EnsureImport, InsertStatement, Span
from devfix.flow import Flow
from devfix.flow.lattice import Kind
from devfix.inputs.classes import named
from devfix.inputs.strays import Group, Stray, base_of, targets_of
from devfix.names import Binding, Names
from devfix.source import walk

# Uses of a name that need it on the host: then it is moved where it meets the model, not before.
_HOST_ROOTS = ("numpy", "matplotlib", "sklearn", "PIL", "cv2", "torchvision.utils", "torchvision.transforms")
_HOST_METHODS = frozenset({"numpy", "tolist", "__array__", "to", "cuda", "cpu"})
_DICT_METHODS = frozenset({"items", "keys", "values", "get", "pop", "update"})


@dataclass(frozen=True)
class Mover:
    """Writes moves; `suffix` is what follows the device, such as `, non_blocking=True`."""

    flow: Flow
    names: Names
    suffix: str = ""

    def plan(self, group: Group) -> tuple[tuple[Edit, ...], Span, bool]:
        """The edits for a group, where they take effect, and whether they are sure to be right."""
        apart = [stray for stray in group.strays if len(group.strays) > 1 and self._stays(stray)]
        if apart:
            rest = [stray for stray in group.strays if stray not in apart]
            moves = tuple(self._inline(stray) for stray in apart)
            if not rest:
                return moves, self.flow.source.span(apart[0].meeting.node), True
            base = base_of(rest[0].meeting.node)
            bound = self.names.binding(base) if base is not None else None
            edits, span, certain = self.plan(Group(rest, bound))
            if edits:
                return (*edits, *moves), span, certain
        source, first, binding = self.flow.source, group.strays[0], group.binding
        node = first.meeting.node
        if binding is not None and binding.statement is not None and not isinstance(node, ast.Subscript):
            alone = len(group.strays) == 1
            inline = alone and (
                binding.form == "other"
                or _single_use(self.names, binding)
                or _host_use(self.names, binding)
                or self._stays(first)
                or _shared(self.names, binding)
            )
            if binding.form in ("loop", "unpack") and not inline:
                edits, sure = self._statement(group, binding)
                if edits:
                    return edits, source.span(binding.target), sure
            elif binding.form == "single" and not inline and binding.value is not None:
                if self._bound_before(first.device, source.span(binding.statement).start):
                    span = source.span(binding.value)
                    return (AppendCall(span, self._to(first.device)),), span, True
        if any(_unpacked(stray) or _is_taken_apart(self.flow, stray) for stray in group.strays):
            return (), source.span(node), False
        edits = tuple(self._inline(stray) for stray in group.strays)
        return edits, source.span(node), True

    def _inline(self, stray: Stray) -> Edit:
        return AppendCall(self.flow.source.span(stray.meeting.node), self._to(stray.device))

    def _stays(self, stray: Stray) -> bool:
        """Is it needed on the CPU as well, so that only the module gets it moved?

        It is read as an array, here or in a function below that sees it; it is an index of a tensor of the CPU;
        it meets what was copied there, `pred.cpu() == y`, or is kept beside such results.
        """
        node = stray.meeting.node
        if not isinstance(node, ast.Name):
            return False
        source = self.names.source
        for read in source.names(self.names.scope).get(node.id, ()):
            if not isinstance(read.ctx, ast.Load):
                continue
            up = source.parents.get(read)
            if read is node or up is None:
                continue
            if isinstance(up, ast.Attribute) and up.attr in ("numpy", "__array__"):
                return True
            if isinstance(up, ast.Subscript) and up.slice is read and self._on_cpu(up.value):
                return True
            if isinstance(up, ast.Call) and source.qualified(up.func).startswith(_HOST_ROOTS):
                return True
            if isinstance(up, ast.Call) and isinstance(up.func, ast.Attribute):
                if up.func.attr == "append" and self._keeps_copies:
                    return True
            if self._meets_copy(read, stray.event.node):
                return True
        return False

    def _on_cpu(self, node: ast.expr) -> bool:
        value = self.flow.value(node)
        return value.kind is Kind.TENSOR and value.sure and value.place.on_host

    def _meets_copy(self, read: ast.Name, run: ast.expr) -> bool:
        """Is a name read in one expression with what was copied to the CPU?"""
        up = self.names.source.parents.get(read)
        while isinstance(up, (ast.BinOp, ast.Compare, ast.UnaryOp)) or (
            isinstance(up, ast.Call) and up is not run
        ):
            copied = [part for part in walk(up) if isinstance(part, ast.Call) and _keeps(part)]
            if any(read not in walk(part) for part in copied):
                return True
            up = self.names.source.parents.get(up)
        return False

    @cached_property
    def _keeps_copies(self) -> bool:
        """Does the scope keep copies on the CPU in lists?"""
        return any(
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ("append", "extend")
            and len(call.args) == 1
            and _keeps(call.args[0])
            for call in self.names.source.of_kind(ast.Call, self.names.scope)
        )

    def _to(self, device: str) -> str:
        return f".to({device}{self.suffix})"

    def _bound_before(self, device: str, offset: int) -> bool:
        """Can the device expression be written at an offset?"""
        expression = ast.parse(device, mode="eval").body
        for node in walk(expression):
            if isinstance(node, ast.Name):
                bound = self.names.first_binding(node.id)
                if bound is not None and bound > offset:
                    return False
        return True

    def _statement(self, group: Group, binding: Binding) -> tuple[tuple[Edit, ...], bool]:
        """One statement after the binding that moves every stray of the group, and if it is sure."""
        source, device = self.flow.source, group.strays[0].device
        assert binding.statement is not None
        moved: dict[str, Stray] = {}
        for stray in group.strays:
            base = base_of(stray.meeting.node)
            if base is not None:
                moved.setdefault(base.id, stray)
        offset = source.span(binding.statement).start
        if not self._bound_before(device, offset):
            return (), False
        values: list[str] = []
        sure = True
        imports: tuple[Edit, ...] = ()
        for name, stray in moved.items():
            text, certain = self._moved(name, stray)
            if not text:
                return (), False
            sure = sure and certain
            values.append(text)
            if "torch." in text and source.imports.get("torch") != "torch":
                imports = (EnsureImport("torch"),)
        statement = f"{', '.join(moved)} = {', '.join(values)}"
        if isinstance(binding.statement, (ast.For, ast.AsyncFor)):
            anchor, before = _loop_anchor(binding.statement, set(targets_of(binding.statement)))
        else:
            anchor, before = binding.statement, False
        return (InsertStatement(source.span(anchor), statement, before), *imports), sure

    def _moved(self, name: str, stray: Stray) -> tuple[str, bool]:
        """`x.to(device)`, or its like for a batch that is a dict or a sequence; empty where it may be either."""
        value = stray.meeting.value
        to = self._to(stray.device)
        if value.kind is not Kind.BATCH or value.name == "BatchEncoding":
            return f"{name}{to}", True
        attributes, keys = _uses(self.names, name)
        if (
            isinstance(self.flow.source.parents.get(stray.meeting.node), ast.keyword)
            and stray.meeting.name == "**"
        ) or ("str" in keys or attributes & _DICT_METHODS):
            if attributes - _DICT_METHODS:
                return f"{name}{to}", False
            return f"{{k: v{to} if torch.is_tensor(v) else v for k, v in {name}.items()}}", True
        if "int" in keys:
            return f"[t{to} if torch.is_tensor(t) else t for t in {name}]", False
        return ("" if _is_taken_apart(self.flow, stray) else f"{name}{to}"), False


def _is_taken_apart(flow: Flow, stray: Stray) -> bool:
    """Does the module that is run read `x[0]` of a batch, or bind `a, b = x`, so that it may be a list?"""
    call, value = stray.event.node, stray.event.value
    if value is None or not value.name or stray.meeting.value.kind is not Kind.BATCH:
        return False
    owner = named(flow, value.name)
    method = owner.method("forward") if owner is not None else None
    if method is None or not isinstance(call, ast.Call):
        return False
    names = [one.arg for one in (*method[1].args.posonlyargs, *method[1].args.args)][1:]
    given = {name for name, argument in zip(names, call.args, strict=False) if argument is stray.meeting.node}
    given |= {one.arg for one in call.keywords if one.value is stray.meeting.node and one.arg}
    for node in method[0].source.walk(method[1]):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            taken: ast.expr = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
            taken = node.value
        else:
            continue
        if isinstance(taken, ast.Name) and taken.id in given:
            return True
    return False


def _unpacked(stray: Stray) -> bool:
    """`model(**batch)`: nothing can be appended to the argument."""
    return stray.meeting.name == "**" and stray.meeting.value.name != "BatchEncoding"


def _single_use(names: Names, binding: Binding) -> bool:
    return binding.form != "loop" and len(names.reads.get(binding.name, ())) == 1


def _host_use(names: Names, binding: Binding) -> bool:
    """Is the name read somewhere that needs it on the host?"""
    parents = names.source.parents
    for read in names.reads.get(binding.name, ()):
        parent = parents.get(read)
        if isinstance(parent, ast.Attribute) and parent.attr in _HOST_METHODS:
            return True
        if isinstance(parent, ast.Call) and parent.func is not read:
            if names.source.qualified(parent.func).startswith(_HOST_ROOTS):
                return True
    return False


def _keeps(node: ast.expr) -> bool:
    """`x.cpu()`: it is copied to the CPU."""
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "cpu"
        for part in walk(node)
    )


def _shared(names: Names, binding: Binding) -> bool:
    """Is what it was made of written to below: `x = torch.from_numpy(buffer)`, and `buffer[:] = frame`?

    A copy made here would not see that.
    """
    source, value = names.source, binding.value
    if value is None:
        return False
    of = {part.id for part in walk(value) if isinstance(part, ast.Name)}
    for node in source.walk(names.scope):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            written = base_of(node)
        elif isinstance(node, ast.AugAssign):
            written = base_of(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            last = node.func.attr
            changes = (last.endswith("_") and not last.endswith("__")) or last in (
                "fill",
                "sort",
                "put",
                "resize",
            )
            written = base_of(node.func.value) if changes else None
            if last in ("copyto", "readinto") and node.args:
                written = base_of(node.args[0])
        else:
            continue
        if written is not None and written.id in of and source.span(node).start > source.span(value).end:
            return True
    return False


def _loop_anchor(loop: ast.For | ast.AsyncFor, targets: set[str]) -> tuple[ast.stmt, bool]:
    """The top of a loop's body, below statements that move its other elements."""
    anchor, before = loop.body[0], True
    for statement in loop.body:
        if not (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, (ast.Call, ast.Tuple))
            and {n.id for t in statement.targets for n in walk(t) if isinstance(n, ast.Name)} <= targets
        ):
            break
        calls = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        if not all(
            isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute) and c.func.attr in ("to", "cuda")
            for c in calls
        ):
            break
        anchor, before = statement, False
    return anchor, before


def _uses(names: Names, name: str) -> tuple[set[str], set[str]]:
    """Attributes used on a name, and the types of the constant keys that index it."""
    attributes: set[str] = set()
    keys: set[str] = set()
    for read in names.reads.get(name, ()):
        parent = names.source.parents.get(read)
        if isinstance(parent, ast.Attribute):
            attributes.add(parent.attr)
        elif isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            keys.add(type(parent.slice.value).__name__)
    return attributes, keys
