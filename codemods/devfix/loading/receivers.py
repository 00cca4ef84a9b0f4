"""What a loaded state goes into: does it copy it to where it is itself, as torch's own objects do?"""

from __future__ import annotations

import ast
import re

from devfix.bindings import FunctionNode
from devfix.callees import Callees
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.source import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Objects with a `set_extra_state` of their own: torchrl's transforms take the loaded tensors as they are.
_KEEPING = re.compile(r"(?:^|[._])_?(?:transforms?|samplers?|storages?|writers?|replay_buffers?)$")
# Classes of the file that take what is loaded in a way of their own.
_OWN_STATE = re.compile(r"def (?:set_extra_state|_load_from_state_dict)\b")
_TORCH_LIKE = re.compile(
    r"model|net|module|encoder|decoder|generator|discriminator|critic|actor|policy|agent|head|backbone|embed|"
    r"layer|conv|classifier|vae|gan|unet|transformer|bert|lstm|vgg|resnet|sched|scaler|criterion|loss|q_func",
    re.IGNORECASE,
)
_OPTIMIZER = re.compile(r"optim|(?:^|[._])opt(?:$|_)", re.IGNORECASE)
# Libraries whose optimizers keep `torch.optim.Optimizer.load_state_dict`, or move what they load.
_LIKE_TORCH = ("torch.", "transformers.", "apex.", "timm.", "deepspeed.", "bitsandbytes.", "accelerate.")
_RANK = re.compile(r"(?:^|_)rank$|^process_index$|^get_(?:\w+_)?rank$")
_DEPTH = 3  # of names that stand for names


class Receivers:
    """Asks the bindings of one file about the objects that states are loaded into."""

    def __init__(self, callees: Callees) -> None:
        self._callees = callees
        self._source = callees.source

    def method(self, call: ast.Call) -> FunctionNode | None:
        """The function of this file that a call runs, also as a method of an object made in it."""
        found = self._callees.function_of(call)
        if found is not None or not isinstance(call.func, ast.Attribute):
            return found
        classes = {
            path_of(binding.value.func)
            for binding in self._callees.bindings.of(path_of(call.func.value), call)
            if isinstance(binding.value, ast.Call)
        }
        if len(classes) != 1:
            return None
        (name,) = classes
        for node in self._source.definitions:
            if isinstance(node, ast.ClassDef) and node.name == name:
                for item in node.body:
                    if isinstance(item, _FUNCTIONS) and item.name == call.func.attr:
                        return item
        return None

    def doubtful(self, receiver: ast.expr) -> bool:
        """Is it an object that may keep its state where it was loaded to?

        An optimizer of a class out of sight, or what is no network by its name: a transform, a sampler.
        """
        path = path_of(receiver)
        if _KEEPING.search(path) or _OWN_STATE.search(self._source.text):
            return True
        if not _OPTIMIZER.search(path):
            return not self._module(receiver, path)
        bindings = self._callees.bindings.of(path, receiver)
        values = [binding.value for binding in bindings if not binding.parameter]
        return any(isinstance(value, ast.Call) and not self._like_torch(value) for value in values)

    def _module(self, receiver: ast.expr, path: str) -> bool:
        """Is it a module, as its name, its uses or its making tell, or another object of torch's?"""
        last = path.rpartition(".")[2] or ast.unparse(receiver)
        if _TORCH_LIKE.search(last) or looks_like_module(path) or path in ("self", "super()"):
            return True
        flow = self._callees.flow
        if flow.value(receiver).kind in (Kind.MODULE, Kind.PART) or flow.evidence.used_as_module(path):
            return True
        values = [binding.value for binding in self._callees.bindings.of(path, receiver)]
        return any(
            isinstance(value, ast.Call) and path_of(value.func).rpartition(".")[2].lstrip("_")[:1].isupper()
            for value in values
        )

    def _like_torch(self, call: ast.Call, depth: int = 0) -> bool:
        name = self._source.qualified(call.func)
        if name:
            return name.startswith(_LIKE_TORCH)
        function = self._callees.function_of(call)
        if function is not None and function.name != "__init__" and depth < _DEPTH:
            results = [n.value for n in self._source.walk(function) if isinstance(n, ast.Return) and n.value]
            return bool(results) and all(self._made_by_torch(value, depth) for value in results)
        classes = [n for n in self._source.definitions if isinstance(n, ast.ClassDef)]
        for node in classes:
            if node.name == path_of(call.func):
                return not any(
                    isinstance(item, _FUNCTIONS) and "state" in item.name and item.name != "state_dict"
                    for item in node.body
                )
        # A table or a parameter of functions of torch, or a method of an object: who knows.
        return False

    def _made_by_torch(self, value: ast.expr, depth: int) -> bool:
        if isinstance(value, ast.Call):
            return self._like_torch(value, depth + 1)
        if isinstance(value, ast.Name):
            bindings = self._callees.bindings.of(value.id, value)
            return bool(bindings) and all(
                isinstance(b.value, ast.Call) and self._like_torch(b.value, depth + 1) for b in bindings
            )
        return False

    def of_one_rank(self, node: ast.expr, depth: int = 0) -> bool:
        """Does a path name the process that reads it? Then it wrote the file, from its own device."""
        for inner in walk(node):
            if not isinstance(inner, (ast.Name, ast.Attribute)):
                continue
            path = path_of(inner)
            if _RANK.search(path.rpartition(".")[2]):
                return True
            if isinstance(inner, ast.Name) and depth < _DEPTH:
                for binding in self._callees.bindings.of(path, inner):
                    if binding.value is not None and not binding.parameter:
                        if inner not in walk(binding.value) and self.of_one_rank(binding.value, depth + 1):
                            return True
        return False
