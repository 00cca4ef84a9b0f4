"""What a call does to devices, by what is called."""

from __future__ import annotations

import ast

from devfix.flow import torch_api
from devfix.flow.events import What
from devfix.flow.evidence import (
    looks_like_loss,
    looks_like_processor,
    makes_token_ids,
)
from devfix.flow.frame import Arguments, path_of
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    UNKNOWN,
    Kind,
    Value,
    fresh_identity,
    replace,
)
from devfix.flow.meetings import may_be_module
from devfix.flow.methods import Methods

# Calls that look at a module without running it.
_READERS = frozenset(
    [
        "print",
        "len",
        "isinstance",
        "id",
        "type",
        "sum",
        "list",
        "tuple",
        "str",
        "repr",
        "getattr",
        "hasattr",
        "setattr",
        "delattr",
        "iter",
        "next",
        "vars",
        "dir",
        "enumerate",
        "zip",
        "sorted",
        "map",
        "filter",
        "callable",
        "summary",
        "count_parameters",
        "info",
        "debug",
        "warning",
        "append",
    ]
)
# Functions out of sight that run a model on what else they are given.
_RUNNERS = frozenset(
    {"generate", "generate_text_simple", "predict", "infer", "inference", "sample", "translate"}
)
_PICTURES = frozenset({"an image", "loaded audio"})
_ITERATION = frozenset(
    {"enumerate", "zip", "iter", "next", "reversed", "list", "tuple", "sorted", "islice", "cycle"}
)


class Calls(Methods):
    """Finds out what is called, and lets the part that knows it answer."""

    def call(self, node: ast.Call) -> Value:
        func = node.func
        name = self.callee_name(func) if isinstance(func, (ast.Name, ast.Attribute)) else ""
        imported = bool(name) and not name.startswith(".") and self._imported(func)
        if isinstance(func, ast.Attribute) and not imported:
            return self._method(node, func, self.ev(func.value))
        arguments = self._arguments(node)
        if looks_like_processor(name) and not imported and name not in self.state.names:
            return self._tokenize(node, UNKNOWN)
        if name and (imported or isinstance(func, ast.Name)):
            known = self.state.names.get(func.id) if isinstance(func, ast.Name) else None
            if known is not None:
                return self._call_value(node, known, arguments, name)
            return self._call_named(node, name, arguments)
        return self._call_value(node, self.ev(func), arguments, "")

    def _call_value(self, node: ast.Call, callee: Value, arguments: Arguments, name: str) -> Value:
        """Call something that is known: a module, a function or class of the file, a tokenizer."""
        kind = callee.kind
        if kind in (Kind.ANY, Kind.UNKNOWN) and looks_like_loss(name or path_of(node.func)):
            return self.combine(node, arguments, name or "the loss")
        if kind is Kind.ANY and looks_like_processor(path_of(node.func)):
            return self._tokenize(node, callee)
        if kind is Kind.MODULE or kind is Kind.PART or kind is Kind.ANY:
            return self.run_module(node, callee, arguments, path_of(node.func) or self.source.code(node.func))
        if kind is Kind.FUNCTION:
            return self._call_function(node, callee, arguments)
        if kind is Kind.CLASS:
            return self._construct(node, callee, arguments)
        if kind is Kind.TOKENIZER:
            return self._tokenize(node, callee)
        return self._call_unknown(node, arguments, name)

    def _call_named(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """Call something imported or built in, by its qualified name."""
        last = name.rpartition(".")[2]
        owned = self._owning_call(node, name, arguments)
        if owned is not None:
            return owned
        if name.startswith(("torch.", "torchvision.", "torchaudio.")):
            found = self._call_torch(node, name, last, arguments)
            if found is not None:
                return found
        if name.startswith(torch_api.LIBRARY_MODULES) and (
            last[:1].isupper() or name in torch_api.LIBRARY_MODULES
        ):
            place = self.device_argument(node) or self.program.default_place(node)
            return Value(Kind.MODULE, place, fresh_identity(), node, name)
        if name in torch_api.AUTOCAST or "autocast" in last.lower():
            return UNKNOWN
        if last in _ITERATION or last in torch_api.PROGRESS or name.startswith(("tqdm.", "rich.progress.")):
            return self._iterate(last, arguments)
        if name in torch_api.WRAPS or last in torch_api.WRAP_NAMES:
            return self._wrap(node, name, arguments)
        if name in torch_api.ARRAY_CALLS or name.startswith(torch_api.ARRAY_ROOTS):
            for argument, value, _ in arguments:
                if value.kind in CARRIERS and name.startswith("numpy."):
                    self.emit(
                        What.MEET, argument, value, path_of(argument), place=value.place, detail="numpy"
                    )
            array = Value(Kind.ARRAY, node=node, source=torch_api.ARRAY_CALLS.get(name, "a numpy array"))
            if name in ("librosa.load", "soundfile.read"):
                return Value(Kind.ARRAY, node=node, items=(array, NUMBER))
            return array
        if name in torch_api.LOADERS:
            return self._loader(node)
        if last in ("from_pretrained", "from_config"):
            return self._pretrained(node, name.rpartition(".")[0], arguments)
        if last == "setattr" and len(arguments) == 3:
            self.attach(node, arguments[0][1], arguments[2][1], arguments[2][0], "setattr")
            return UNKNOWN
        if last == "getattr" and arguments and arguments[0][1].kind in (Kind.MODULE, Kind.PART):
            base = arguments[0][1]
            return Value(Kind.PART, base.place, base.identity, node, sure=base.sure)
        if last in ("super", "len", "int", "float", "bool", "range", "isinstance", "print", "max", "min"):
            return UNKNOWN
        if last == "str" and arguments and arguments[0][1].kind is Kind.DEVICE:
            device = arguments[0][1]
            return replace(device, form="string", node=node)
        return self._call_unknown(node, arguments, name)

    def _call_unknown(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        """Something out of sight: modules handed to it may be run."""
        last = name.rpartition(".")[2]
        for argument, value, _ in arguments:
            if last not in _READERS and (value.kind in (Kind.MODULE, Kind.PART) or may_be_module(value)):
                self.emit(
                    What.USE, argument, value, path_of(argument), detail=f"passed to `{last or 'a call'}`"
                )
        if looks_like_loss(last) and any(value.kind in CARRIERS for _, value, _ in arguments):
            return self.combine(node, arguments, last)
        if last == "Variable" and arguments:
            return arguments[0][1]
        if makes_token_ids(last):
            return Value(
                Kind.TENSOR, self.program.default_place(node), node=node, source=f"`{last}`", sure=False
            )
        if last in _RUNNERS:
            self._passed_together(node, arguments, last)
        array = next((v for _, v, _ in arguments if v.kind is Kind.ARRAY and v.source in _PICTURES), None)
        if array is not None:
            return replace(array, node=node)
        if last in ("deepcopy", "copy") and arguments:
            copied = arguments[0][1]
            if copied.kind is Kind.MODULE:
                return replace(copied, place=self.state.place(copied), identity=fresh_identity())
            return copied
        return UNKNOWN

    def _call_function(
        self,
        node: ast.Call,
        callee: Value,
        arguments: Arguments,
        receiver: Value | None = None,
    ) -> Value:
        if not isinstance(callee.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            array = next((value for _, value, _ in arguments if value.kind is Kind.ARRAY), None)
            source = array.source if array is not None else callee.source
            if callee.name == "transform" and source:
                place = self.program.default_place(node)
                return Value(Kind.TENSOR, place, node=node, source=source, sure=False)
            return UNKNOWN
        return self.program.call_function(self, node, callee.node, arguments, receiver)

    def _construct(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        return self.program.construct(self, node, callee, arguments)
