"""What a constructor makes, as far as the source tells for these arguments: parameters, buffers, parts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from devfix.engine.files import Class, Function
from devfix.models import torch_api
from devfix.recipes.constants import OBJECT, UNKNOWN, evaluate, truth
from devfix.recipes.library import Library
from devfix.text.names import of_self
from devfix.text.source import FUNCTIONS, children

# Modules of torch.nn that make parameters, or buffers that their forward reads, whatever they are given.
_WEIGHTED = frozenset(
    {
        "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "Embedding",
        "EmbeddingBag", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "PReLU",
        "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder",
        "TransformerEncoderLayer", "TransformerDecoderLayer", "AdaptiveLogSoftmaxWithLoss",
    }
)  # fmt: skip
# These do unless a flag says no.
_AFFINE = {"LayerNorm": "elementwise_affine", "GroupNorm": "affine", "RMSNorm": "elementwise_affine"}
_PARAMETER = (*torch_api.PARAMETERS, "torch.nn.parameter.UninitializedParameter")
_BUFFER = ("torch.nn.Buffer", "torch.nn.parameter.Buffer")
_APPENDS = ("append", "add_module", "register_module", "insert")
DEEPEST = 10
Constants = Mapping[str, Any]


@dataclass
class Made:
    """An instance. `parameter`: it surely makes one. What may or may not be made is left out."""

    cls: Class
    parameter: bool = False
    constants: dict[str, Any] = field(default_factory=dict)  # attributes
    parts: dict[str, Made] = field(default_factory=dict)
    buffers: set[str] = field(default_factory=set)
    raw: bool | None = None  # what `running` found out


def torch_weighted(dotted: str, constants: Constants) -> bool:
    """Does a class of torch.nn make parameters when it is given these keyword arguments?"""
    name = dotted.rpartition(".")[2]
    if not dotted.startswith("torch.nn."):
        return False
    if name in _AFFINE:
        return constants.get(_AFFINE[name], True) is True
    return name.removeprefix("Lazy") in _WEIGHTED


def is_module(cls: Class) -> bool | None:
    """Is a class a torch.nn.Module? None where bases are out of view."""
    if any(name in torch_api.MODULE_BASES or name.startswith("torch.nn.") for name in cls.outside):
        return True
    return False if torch_api.PLAIN_BASES.issuperset(cls.outside) else None


def make(library: Library, cls: Class, arguments: Constants, depth: int = 0) -> Made:
    """What `cls(**arguments)` makes."""
    if any(name.isdigit() for name in arguments):  # `!new:X [a, b]`
        numbers = {str(index): name for index, name in enumerate(_arguments_of(cls))}
        arguments = {numbers.get(name, name): value for name, value in arguments.items()}
    known, key = library.known(cls), ("made", repr(sorted(arguments.items(), key=lambda item: item[0])))
    if key not in known:
        made = known[key] = Made(cls)
        if depth <= DEEPEST:
            _Init(library, made, depth).run(cls, arguments)
    return cast(Made, known[key])


def weighted(library: Library, dotted: str, arguments: Constants) -> bool:
    """Does the class of a dotted name surely make a parameter?"""
    if dotted.startswith("torch."):
        return torch_weighted(dotted, arguments)
    cls = library.find(dotted)
    return cls is not None and is_module(cls) is True and make(library, cls, arguments).parameter


@dataclass
class _Scope:
    """One function that is being run: whose it is, and what its names are."""

    function: Function
    names: dict[str, Any]
    rest: dict[str, Any] = field(default_factory=dict)  # **kwargs
    rest_name: str = ""


class _Init:
    """One constructor, with those of its bases and the methods that it calls."""

    def __init__(self, library: Library, made: Made, depth: int) -> None:
        self.library, self.made, self.depth = library, made, depth
        self.running: list[Function] = []

    def run(self, cls: Class, arguments: Constants) -> None:
        self.made.parameter |= any(torch_weighted(name, arguments) for name in cls.outside)
        method = cls.method("__init__")
        if method is not None:
            self.made.parameter |= self._function(method, (), arguments)

    def _function(self, function: Function, positional: tuple[Any, ...], keywords: Constants) -> bool:
        """Run a method; True if it surely makes a parameter."""
        if function in self.running or len(self.running) > DEEPEST:
            return False
        self.running.append(function)
        node, names = function.node, [one.arg for one in function.parameters]
        scope = _Scope(function, dict.fromkeys(names, UNKNOWN))
        for name, default in function.defaults.items():
            cls = function.file.definition(default)
            scope.names[name] = cls if isinstance(cls, Class) else evaluate(default, lambda _: UNKNOWN)
        scope.names.update(zip(names[1:], positional, strict=False))
        for name, value in keywords.items():
            if name in scope.names:
                scope.names[name] = value
            else:
                scope.rest[name] = value
        scope.rest_name = node.args.kwarg.arg if node.args.kwarg else ""
        sure = self._block(node.body, scope)
        self.running.pop()
        return sure

    # --- statements ----------------------------------------------------------------------------

    def _block(self, body: Iterable[ast.stmt], scope: _Scope) -> bool:
        sure = False
        for statement in body:
            sure |= self._statement(statement, scope)
            if isinstance(statement, (ast.Return, ast.Raise)):
                break
        return sure

    def _statement(self, node: ast.stmt, scope: _Scope) -> bool:
        if isinstance(node, ast.If):
            return self._if(node, scope)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self._assign(node.target, UNKNOWN, scope)
            return self._expression(node.iter, scope) | self._block(node.body, scope)
        if isinstance(node, (ast.With, ast.AsyncWith, ast.Try)):
            return self._block(node.body, scope)
        if isinstance(node, ast.While):
            return False
        sure = True in [self._expression(child, scope) for child in _expressions(node)]
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self._assign(node.target, UNKNOWN, scope)
        return sure

    def _if(self, node: ast.If, scope: _Scope) -> bool:
        holds = truth(node.test, self._lookup(scope))
        if holds is not None:
            return self._block(node.body if holds else node.orelse, scope)
        before, parts = dict(scope.names), dict(self.made.parts)
        constants, buffers = dict(self.made.constants), set(self.made.buffers)
        first = self._block(node.body, scope)
        after, kept = dict(scope.names), dict(self.made.constants)
        scope.names, self.made.constants = before, constants
        second = self._block(node.orelse, scope)
        scope.names = _join(after, scope.names)
        self.made.constants = _join(kept, self.made.constants)
        self.made.buffers &= buffers | self.made.buffers if first and second else buffers
        self.made.parts = {**self.made.parts, **parts}
        return first and second

    def _assign(self, target: ast.expr, value: ast.expr | object, scope: _Scope) -> None:
        known = evaluate(value, self._lookup(scope)) if isinstance(value, ast.expr) else UNKNOWN
        if isinstance(target, ast.Name):
            scope.names[target.id] = known
        elif name := of_self(target):
            self.made.constants[name] = known
            self.made.parts.pop(name, None)
            if isinstance(value, ast.Call):
                if self._dotted(value.func, scope) in _BUFFER:
                    self.made.buffers.add(name)
                elif part := self._instance(value.func, *self._arguments(value, scope), scope):
                    self.made.parts[name] = part
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self._assign(item, UNKNOWN, scope)

    # --- expressions ---------------------------------------------------------------------------

    def _expression(self, node: ast.expr, scope: _Scope) -> bool:
        if isinstance(node, ast.Lambda):
            return False
        if isinstance(node, ast.IfExp):
            holds = truth(node.test, self._lookup(scope))
            if holds is not None:
                return self._expression(node.body if holds else node.orelse, scope)
            return self._expression(node.body, scope) and self._expression(node.orelse, scope)
        sure = True in [self._expression(child, scope) for child in _expressions(node)]
        return sure | (isinstance(node, ast.Call) and self._call(node, scope))

    def _call(self, node: ast.Call, scope: _Scope) -> bool:
        function = node.func
        dotted = self._dotted(function, scope)
        if dotted in _PARAMETER:
            return True
        positional, keywords = self._arguments(node, scope)
        if torch_weighted(dotted, keywords):
            return True
        if isinstance(function, ast.Attribute):
            if function.attr == "__init__":
                return self._base(function, positional, keywords, scope)
            if of_self(function) and (method := self.made.cls.method(function.attr)):
                if function.attr not in _APPENDS:
                    return self._function(method, positional, keywords)
            if function.attr == "register_parameter" and len(node.args) > 1:
                return False  # what it registers is made in its argument
            if function.attr == "register_buffer" and node.args:
                first = evaluate(node.args[0], self._lookup(scope))
                empty = len(node.args) > 1 and evaluate(node.args[1], self._lookup(scope)) is None
                if isinstance(first, str) and not empty:
                    self.made.buffers.add(first)
                return False
            if function.attr in _APPENDS:
                return True in [self._class(argument, keywords, scope) for argument in node.args]
        return self._class(function, keywords, scope, positional)

    def _base(
        self, function: ast.Attribute, positional: tuple[Any, ...], keywords: Constants, scope: _Scope
    ) -> bool:
        above: tuple[Class, ...] = ()
        if isinstance(function.value, ast.Call):
            order, owner = self.made.cls.lineage, scope.function.owner
            above = order[order.index(owner) + 1 :] if owner in order else ()
        elif isinstance(base := scope.function.file.definition(function.value), Class):
            above, positional = base.lineage, positional[1:]
        for owner in above:
            if "__init__" in owner.methods:
                return self._function(owner.methods["__init__"], positional, keywords)
        return False

    def _class(
        self, node: ast.expr, keywords: Constants, scope: _Scope, positional: tuple[Any, ...] = ()
    ) -> bool:
        """Does an expression name a class whose instances surely have a parameter?"""
        dotted = self._dotted(node, scope)
        if not dotted or torch_weighted(dotted, keywords):
            return bool(dotted)
        made = self._instance(node, positional, keywords, scope)
        return made is not None and made.parameter

    def _instance(
        self, node: ast.expr, positional: tuple[Any, ...], keywords: Constants, scope: _Scope
    ) -> Made | None:
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        known = scope.names.get(node.id) if isinstance(node, ast.Name) else None
        cls = known if isinstance(known, Class) else scope.function.file.definition(node)
        if not isinstance(cls, Class) or is_module(cls) is not True:
            return None
        arguments = {**dict(zip(_arguments_of(cls), positional, strict=False)), **keywords}
        return make(self.library, cls, arguments, self.depth + 1)

    def _arguments(self, node: ast.Call, scope: _Scope) -> tuple[tuple[Any, ...], dict[str, Any]]:
        lookup = self._lookup(scope)
        positional = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                break
            positional.append(evaluate(argument, lookup))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                keywords[keyword.arg] = evaluate(keyword.value, lookup)
            elif isinstance(keyword.value, ast.Name) and keyword.value.id == scope.rest_name:
                keywords.update(scope.rest)
        return tuple(positional), keywords

    def _dotted(self, node: ast.expr, scope: _Scope) -> str:
        return scope.function.file.dotted(node)

    def _lookup(self, scope: _Scope) -> Any:
        def look(node: ast.expr) -> Any:
            if isinstance(node, ast.Name):
                return scope.names.get(node.id, UNKNOWN)
            if name := of_self(node):
                return self.made.constants.get(name, UNKNOWN)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                return OBJECT if node.func.attr.startswith("register") else UNKNOWN
            return UNKNOWN

        return look


# --- small things --------------------------------------------------------------------------------


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions directly below; of a comprehension all, since it mostly has a round."""
    for child in children(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, (ast.keyword, ast.comprehension, ast.withitem)):
            yield from _expressions(child)


def _arguments_of(cls: Class) -> list[str]:
    """The names of what a constructor takes."""
    init = cls.method("__init__")
    return [one.arg for one in init.parameters[1:]] if init is not None else []


def _join(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if name in other and _same(other[name], value) else UNKNOWN
        for name, value in {**one, **other}.items()
        if name in one or name in other
    }


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
