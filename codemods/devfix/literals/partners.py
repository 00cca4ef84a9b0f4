"""What a hard-coded value comes together with, and so the device that it ought to be on.

Operands of one operation must be on one device. So a value that is put on CUDA by name, and then
meets a tensor that came from outside, belongs on that tensor's device: anywhere else it raises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import function_around
from devfix.flow import Flow, torch_api
from devfix.flow.events import What
from devfix.flow.frame import path_of
from devfix.flow.lattice import CARRIERS, UNKNOWN, Kind, Place, Value, Where
from devfix.flow.methods import MOVES
from devfix.literals.chains import is_local, parameters, parsed, resolves, root_of, typed
from devfix.literals.sites import Site
from devfix.names import Names
from devfix.placing import around, bound_before, rebound
from devfix.source import children, walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Methods that take a tensor from any device, or only look at its shape.
_LENIENT = frozenset(
    {
        "copy_", "set_", "expand_as", "view_as", "reshape_as", "resize_as_", "share_memory_", "split",
        "append", "extend", "update", "setdefault", "type_as", "index", "insert", "remove", "put",
        "add_scalar", "register",
    }
)  # fmt: skip
# Take CPU scalars next to CUDA tensors, as the operators do; everything else is strict.
_ARITHMETIC = frozenset(
    {
        "add", "sub", "mul", "div", "true_divide", "floor_divide", "pow", "remainder", "fmod", "eq",
        "ne", "lt", "gt", "le", "ge", "maximum", "minimum", "max", "min", "clamp", "logical_and",
        "logical_or", "where", "masked_fill", "add_", "mul_", "fill", "lerp", "addcmul", "addcdiv",
        "rsub", "atan2",
    }
)  # fmt: skip
_WITNESSES = torch_api.TENSOR_ONLY | {
    "device",
    "is_cuda",
    "shape",
    "dtype",
    "ndim",
    "view",
    "reshape",
    "to",
    "mean",
}
_SHAPED = frozenset(
    {"shape", "size", "view", "reshape", "dim", "ndim", "numel", "unsqueeze", "transpose", "permute"}
)
_NOT_COMBINED = (
    "torch.cuda.",
    "torch.distributed.",
    "torch.utils.",
    "torch.backends.",
    "torch.jit.",
    "torch.amp.",
)


@dataclass(frozen=True, eq=False)
class Meet:
    """Operands of one operation. `strict`: raises wherever they differ, scalars included."""

    node: ast.AST
    operands: tuple[ast.expr, ...]
    strict: bool
    runs: ast.expr | None = None  # the module that is run on them


@dataclass(frozen=True, eq=False)
class Partner:
    """The device that a site belongs on, why, and whether that is beyond doubt."""

    device: str
    node: ast.AST
    sure: bool
    what: str


class Partners:
    """The meetings of one function."""

    def __init__(self, flow: Flow, function: FunctionNode | ast.Module, sites: set[ast.expr]) -> None:
        self.flow = flow
        self.source = flow.source
        self.function = function
        self.sites = sites
        self.names = Names(flow.source, function)
        # The modules that are run here, by the call that runs them.
        self.run: dict[ast.expr, Value] = {
            event.node: event.value
            for scope in flow.scopes
            if scope.node is function
            for event in scope.events
            if event.what is What.USE and event.inner is None and event.detail == "called"
        }
        self.meets = list(self._meetings())
        self.parameters = parameters(function)
        self.typed = typed(function)
        self._uses: dict[str, set[str]] = {}
        for node in flow.source.walk(function):
            if isinstance(node, ast.Attribute):
                path = path_of(node.value)
                if path:
                    self._uses.setdefault(path, set()).add(node.attr)

    def of(self, site: Site) -> Partner | None:
        """Where the value of a site belongs by what it meets; None where nothing tells."""
        best: Partner | None = None
        for meet in self.meets:
            mine = [node for node in meet.operands if self._is_of(node, site)]
            if not mine:
                continue
            if meet.runs is not None:
                found = self._module(site, meet)
                if found is not None and best is None:
                    best = found
                continue
            for operand in meet.operands:
                if operand in mine:
                    continue
                found = self._tensor(site, meet, operand)
                if found is not None and (best is None or (found.sure and not best.sure)):
                    best = found
            if best is not None and best.sure:
                break
        return best or self._run_later(site)

    def _run_later(self, site: Site) -> Partner | None:
        """The module that is run on what a statement makes of a site: `x = pad(x.cuda()); net(x)`."""
        at = self.source.statement(site.node)
        if not isinstance(at, ast.Assign):
            return None
        names = {n.id for t in at.targets for n in walk(t) if isinstance(n, ast.Name)}
        for meet in self.meets:
            given = any(isinstance(o, ast.Name) and o.id in names for o in meet.operands)
            if (
                meet.runs is not None
                and given
                and self.source.span(meet.node).start > self.source.span(at).end
            ):
                return self._module(site, meet)
        return None

    def _is_of(self, node: ast.expr, site: Site) -> bool:
        if node is site.node:
            return True
        place = self.flow.value(node).place
        return place.node is site.node and (place.where is Where.ACCELERATOR or site.form == "default")

    def is_tensor(self, path: str) -> bool:
        """Does this very function use a path as only a tensor can be used?"""
        return not _WITNESSES.isdisjoint(self._uses.get(path, ()))

    def shaped(self, path: str) -> bool:
        """Does this very function use a path as something with a size?"""
        return not _SHAPED.isdisjoint(self._uses.get(path, ()))

    def _tensor(self, site: Site, meet: Meet, operand: ast.expr) -> Partner | None:
        value = self.flow.value(operand)
        place = value.place
        if place.node in self.sites or place.where is Where.DEFAULT or place.where is Where.CPU:
            return None
        indexed = isinstance(meet.node, ast.Subscript)
        if value.kind not in CARRIERS and value.kind is not Kind.ANY and not indexed:
            return None
        if place.where is Where.ACCELERATOR and not place.guarded:
            return None
        at = self.source.statement(site.node)
        device = self._device(place, at)
        if device:
            sure = value.sure and meet.strict and self._follows(at, meet.node)
            return Partner(device, operand, sure, self.source.code(operand))
        root = root_of(self.flow, operand)
        path = path_of(root) if root is not None else ""
        if not path or path == "self" or "[" in path:
            path = ""
        rebinds = False
        if path and root is not None:
            name = path.partition(".")[0]
            if not self._writable(root, at) or self._born_later(name, at):
                path = ""
            else:
                rebinds = rebound(self.source, [root], at, meet.node)
        if rebinds or not path:
            # What came of a parameter: the parameter itself, if it still is what it was.
            name = place.text.removesuffix(".device") if place.where is Where.OF else ""
            if name not in self.parameters or self._changed(name, at):
                return None
            path, rebinds = name, True
        if path.partition(".")[0] in self.typed:
            return None  # declared to be something else: a `Booster` is no tensor, whatever it can do
        declared = value.sure and value.kind is Kind.TENSOR
        if not declared and not self.is_tensor(path):
            return None
        shaped = self.shaped(path)
        sure = (
            not rebinds
            and (declared or ((value.kind is Kind.TENSOR or indexed) and self.is_tensor(path)))
            and (meet.strict or shaped)
            and not isinstance(meet.node, ast.Assign)
            and self._follows(at, meet.node)
        )
        return Partner(f"{path}.device", operand, sure, path)

    def _module(self, site: Site, meet: Meet) -> Partner | None:
        assert meet.runs is not None
        path = path_of(meet.runs)
        value = self.run[meet.node] if isinstance(meet.node, ast.Call) else UNKNOWN
        at = self.source.statement(site.node)
        place = value.place
        if value.kind is not Kind.MODULE or not path or value.bare or path == "self":
            return None
        device = self._device(place, at)
        if device:
            return Partner(device, meet.runs, value.sure and self._follows(at, meet.node), path)
        if place.where not in (Where.OF, Where.UNKNOWN) or not self._writable(meet.runs, at):
            return None
        if self._born_later(path.partition(".")[0], at):
            return None
        return Partner(f"next({path}.parameters()).device", meet.runs, False, path)

    def sized_by(self, site: Site) -> Partner | None:
        """A tensor parameter that the value takes its size from: `torch.zeros(x.size(0)).cuda()`."""
        made = site.receiver if site.receiver is not None else site.node
        at = self.source.statement(site.node)
        for node in walk(made):
            if isinstance(node, ast.Attribute) and node.attr in ("size", "shape"):
                path = path_of(node.value)
                if path in self.parameters and not self._changed(path, at):
                    value = self.flow.value(node.value)
                    if value.kind is Kind.TENSOR or self.is_tensor(path):
                        if value.place.where in (Where.OF, Where.UNKNOWN, Where.SYMBOL):
                            return Partner(f"{path}.device", node.value, False, path)
        return None

    # --- the operations ---

    def _meetings(self) -> Iterator[Meet]:
        """Every operation of a function over two or more operands, nested functions left out."""
        todo: list[ast.AST] = list(reversed(self.function.body))
        while todo:
            node = todo.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            found = self._meet(node)
            if found is not None:
                yield found
            todo.extend(reversed(list(children(node))))

    def _meet(self, node: ast.AST) -> Meet | None:
        if isinstance(node, ast.BinOp):
            if isinstance(self.flow.source.parents[node], ast.BinOp):
                return None
            return Meet(node, tuple(_leaves(node)), isinstance(node.op, ast.MatMult))
        if isinstance(node, ast.AugAssign):
            return Meet(node, (node.target, *_leaves(node.value)), False)
        if isinstance(node, ast.Compare):
            if all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
                return None
            return Meet(node, (node.left, *node.comparators), False)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            index = node.slice
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            # Only the index is bound to the other: a CPU index into a CUDA tensor is right.
            known = self.flow.value(node.value).kind is Kind.TENSOR
            hard = tuple(
                part
                for part in parts
                if part in self.sites or (known and self.flow.value(part).place.where is Where.ACCELERATOR)
            )
            return Meet(node, (node.value, *hard), True) if hard else None
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Subscript)
        ):
            target = node.targets[0].value
            return (
                Meet(node, (target, node.value), False)
                if self.flow.value(target).kind is Kind.TENSOR
                else None
            )
        if isinstance(node, ast.Call):
            return self._call(node)
        return None

    def _call(self, node: ast.Call) -> Meet | None:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        flat: list[ast.expr] = []
        for argument in arguments:
            listed = isinstance(argument, (ast.List, ast.Tuple))
            flat.extend(
                argument.elts if isinstance(argument, (ast.List, ast.Tuple)) and listed else [argument]
            )
        name = self.flow.source.qualified(node.func)
        if name.startswith("torch."):
            if name in torch_api.FACTORIES or name in torch_api.LEGACY or name in torch_api.LEGACY_CUDA:
                return None
            if name.startswith(_NOT_COMBINED) or name in torch_api.NOT_TENSOR_CALLS or name.endswith("_like"):
                return None
            functional = name.count(".") == 1 or name.startswith(("torch.nn.functional.", "torch.linalg."))
            strict = name.rpartition(".")[2] not in _ARITHMETIC
            return Meet(node, tuple(flat), strict) if functional and len(flat) > 1 else None
        if isinstance(node.func, ast.Attribute):
            value, method = self.flow.value(node.func.value), node.func.attr
            if value.kind in (Kind.TENSOR, Kind.ANY) and not name:
                if method in MOVES or method in _LENIENT or method.startswith("new_") or not flat:
                    return None
                if value.kind is Kind.TENSOR or method in torch_api.TENSOR_ONLY:
                    return Meet(node, (node.func.value, *flat), method.rstrip("_") not in _ARITHMETIC)
        if flat and node in self.run:
            return Meet(node, tuple(flat), True, node.func)
        return None

    # --- the text --------------------------------------------------------------------------

    def _writable(self, expression: ast.AST, at: ast.stmt) -> bool:
        return resolves(self.source, self.function, expression) and bound_before(self.source, expression, at)

    def _device(self, place: Place, at: ast.stmt) -> str:
        """The device that a value was moved to, where it can be written here; else an empty string."""
        if place.where is not Where.SYMBOL or not place.text or place.guarded:
            return ""
        expression = parsed(place.text)
        if expression is None or not self._writable(expression, at):
            return ""
        moved = place.node if isinstance(place.node, ast.expr) else None
        there = function_around(self.source, moved) if moved is not None else None
        if there is not None and there is not self.function:
            # Another function's own name: the same word may stand for something else here.
            names = {part.id for part in walk(expression) if isinstance(part, ast.Name)} - {"self"}
            if any(is_local(self.source, there, name) for name in names):
                return ""
        return place.text

    def _born_later(self, name: str, at: ast.stmt) -> bool:
        """Is a name bound here, but not before a statement?"""
        first = self.names.first_binding(name)
        return first is not None and first > self.source.span(at).start

    def _changed(self, name: str, at: ast.stmt) -> bool:
        """Is a parameter bound to something that may be elsewhere before a statement?"""
        start = self.source.span(at).start
        for binding in self.names.bindings.get(name, ()):
            if binding.statement is None or self.source.span(binding.target).start >= start:
                continue
            value = self.flow.value(binding.value) if binding.value is not None else None
            if value is None or value.place.where is not Where.OF:
                return True
        return False

    def _follows(self, at: ast.stmt, node: ast.AST) -> bool:
        """Is the meeting reached whenever the site is? Then the two raise on different devices."""
        meeting = self.source.statement(node)
        if meeting is at:
            return not isinstance(at, (ast.If, ast.While, ast.For)) and not self._conditional(node)
        chain = [meeting]
        for one in around(self.source, meeting)[1:]:
            if not isinstance(one, (ast.With, ast.AsyncWith)):
                break
            chain.append(one)
        block = self.source.block(at)
        return any(one in block for one in chain) and not self._conditional(node)

    def _conditional(self, node: ast.AST) -> bool:
        up = self.source.parents.get(node)
        while up is not None and not isinstance(up, ast.stmt):
            if isinstance(up, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.ListComp)):
                return True
            up = self.source.parents.get(up)
        return False


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.BinOp):
            todo.extend((part.right, part.left))
        elif isinstance(part, ast.UnaryOp):
            todo.append(part.operand)
        else:
            yield part
