"""The operations of a function over two or more operands, and what runs a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import FunctionNode
from devfix.flow import Flow, torch_api
from devfix.flow.events import What
from devfix.flow.lattice import Kind, Value, Where
from devfix.flow.methods import MOVES
from devfix.literals.modules import TRACERS, handed, ran_by
from devfix.source import children

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


class Meetings:
    """Those of one function; `run` has the modules that its calls run."""

    def __init__(self, flow: Flow, function: FunctionNode | ast.Module, sites: set[ast.expr]) -> None:
        self.flow = flow
        self.source = flow.source
        self.function = function
        self.sites = sites
        # The modules that are run here, themselves or by a method, by the call that runs them.
        self.run: dict[ast.expr, tuple[ast.expr, Value]] = {}
        for scope in flow.scopes:
            for event in scope.events if scope.node is function else ():
                if event.what is What.USE and event.inner is None and isinstance(event.node, ast.Call):
                    ran = ran_by(event.node, event.detail)
                    if ran is not None:
                        self.run[event.node] = ran, event.value

    def __iter__(self) -> Iterator[Meet]:
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
        if name in TRACERS:
            return self._handed(node, flat)
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
            return Meet(node, tuple(flat), True, self.run[node][0])
        return self._handed(node, flat) if flat else None

    def _handed(self, node: ast.Call, flat: list[ast.expr]) -> Meet | None:
        """`run(model, x)`, which runs the one on the other."""
        module = handed(self.flow, node)
        if module is None:
            return None
        self.run[node] = module, self.flow.value(module)
        return Meet(node, tuple(one for one in flat if one is not module), True, module)


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
