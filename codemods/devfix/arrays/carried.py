"""Tensors that functions out of sight have made of tensors on a device: where they are, most likely."""

from __future__ import annotations

import ast
import re

from devfix.arrays.bound import bound, runs_over
from devfix.arrays.reading import Known
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Value, Where
from devfix.names import Binding, Names

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 12
# Methods that give a tensor where the tensor is.
_METHODS = """
abs add all any argmax argmin argsort bool byte clamp clone contiguous cumsum data detach div double eq exp expand
flatten flip float floor gather ge gt half index_select int le log log_softmax long lt max mean min mul narrow ne norm
permute pow prod relu repeat reshape round select sigmoid softmax sort split sqrt square squeeze std sub sum t tanh
tile topk transpose type unbind unsqueeze var view view_as where
"""
KEEP = frozenset(_METHODS.split())
# Of these the first argument, or what it holds, says where the result is.
OF_TORCH = frozenset((_METHODS + " cat stack hstack vstack concat concatenate sum mean").split())
# Functions that bring their result to the CPU, or make something else of it.
_ANYTHING = re.compile(
    r"numpy|array|cpu|host|list|pil|decode|predict|transcri|translat|metric|accura|plot|show|draw|render|visuali|"
    r"save|load|read|write|print|collate|item|format|json|remote|map|zip|sorted|dict|postprocess|post_process|nms|"
    r"(?:^|[._])(?:np|str|to|log|len|act|get|sample|generate|select_action|step|set|int|float|range|min|max|sum)$|"
    r"(?:^|[._])(?:images?|get)_",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"(?!)")
_FOR_TOKENS = frozenset(
    {"input_ids", "attention_mask", "max_new_tokens", "max_length", "num_beams", "do_sample", "pad_token_id"}
)
_SET_UP = r"\.(?:to|cuda|train|eval|parameters|named_parameters|load_state_dict|state_dict|half|zero_grad)\("


class Carried:
    """Follows one function backwards from what is read."""

    def __init__(self, known: Known, scope: ast.AST, lists: dict[str, Value]) -> None:
        self.known, self._flow, self._source = known, known.flow, known.flow.source
        self._scope = scope
        self._names: Names | None = None
        self._lists = lists

    def value(self, node: ast.expr, depth: int = 0) -> Value | None:
        """A value on the device on which a tensor is, if it is on one."""
        if depth > _DEPTH:
            return None
        depth += 1
        value = self._flow.value(node)
        if value.place.where is not Where.UNKNOWN:
            known, names = self.known, _NOTHING if _of_tokens(value.node) else _ANYTHING
            return value if known.on_device(value, names) or known.with_a_model(value, names) else None
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return self.value(node.value, depth) if node.attr in ("data", "T", "values", "logits") else None
        if isinstance(node, ast.Subscript):
            return self.value(node.value, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.BinOp):
            return self.value(node.left, depth) or self.value(node.right, depth)
        return None

    def _name(self, node: ast.Name, depth: int) -> Value | None:
        if not isinstance(self._scope, (ast.Module, *_FUNCTIONS)):
            return None
        if self._names is None:
            self._names = Names(self._source, self._scope)
        binding = bound(self._source, self._names.bindings, node)
        over = runs_over(self._source, node, binding)
        if over is not None:
            if isinstance(over, ast.Name) and over.id in self._lists:
                return self._lists[over.id]
            return self.value(over, depth)
        if binding is None or binding.value is None or binding.form not in ("single", "unpack"):
            return None
        if binding.form == "unpack" and not _whole(binding):
            return None
        return self.value(binding.value, depth)

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        func, name = node.func, self._source.qualified(node.func)
        if name.startswith("torch."):
            last = name.rpartition(".")[2]
            return self._first(node.args, depth) if last in OF_TORCH else None
        if isinstance(func, ast.Attribute) and func.attr in KEEP and not name:
            return self.value(func.value, depth)
        return self._outside(node, name, depth)

    def _first(self, arguments: list[ast.expr], depth: int) -> Value | None:
        first = arguments[0] if arguments else None
        if isinstance(first, ast.Name) and first.id in self._lists:
            return self._lists[first.id]
        if isinstance(first, (ast.List, ast.Tuple)):
            return self.value(first.elts[0], depth) if first.elts else None
        return self.value(first, depth) if first is not None else None

    def _outside(self, node: ast.Call, name: str, depth: int) -> Value | None:
        """What an imported function, or a module that is set up in this file, makes of tensors on a device."""
        path = path_of(node.func)
        last = path.rpartition(".")[2]
        if (
            not path
            or _ANYTHING.search(last)
            or self._flow.value(node.func).kind in (Kind.FUNCTION, Kind.CLASS)
        ):
            return None
        if not name and not self._is_module(path):
            return None
        if name and (
            name.partition(".")[0] in ("numpy", "np", "scipy", "sklearn", "math") or last[:1].isupper()
        ):
            return None
        found: Value | None = None
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if self._flow.value(argument).place.on_host:
                return None
            found = found or self.value(argument, depth)
        return found

    def _is_module(self, path: str) -> bool:
        """Does the file move, train or load what is called, or whose method is called?"""
        base = path.rpartition(".")[0]
        return any(
            one
            and one not in ("self", "cls")
            and re.search(rf"(?<![\w.]){re.escape(one)}{_SET_UP}", self._source.text)
            for one in (path, base)
        )


def _of_tokens(node: ast.AST | None) -> bool:
    """`model.generate(...)` as transformers has it: tokens, on the device of the model."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "generate"
        and any(keyword.arg in _FOR_TOKENS for keyword in node.keywords)
    )


def _whole(binding: Binding) -> bool:
    """`a, b = f(x)`: all that a call gives is in one place, which does not hold for a tuple written out."""
    return isinstance(binding.value, (ast.Call, ast.Name, ast.Subscript))
