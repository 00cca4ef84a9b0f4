"""What becomes of a loaded object: does it feed a model's state, or is it used itself?"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from enum import Flag, auto

from devfix.bindings import FunctionNode, function_around
from devfix.callees import Callees
from devfix.flow import torch_api
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.loading.receivers import Receivers

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BUDGET = 400  # of expressions looked at for one load
_DEPTH = 3  # of functions of the file that it is passed through


class Use(Flag):
    NONE = 0
    STATE = auto()  # goes into `load_state_dict`, which copies
    MODULE = auto()  # is run, or asked for what only a module has
    TENSOR = auto()  # is computed with
    PARAMETER = auto()  # becomes a parameter or buffer
    HOST = auto()  # goes to numpy, into a file or a converter: the CPU is where it is wanted
    OUT = auto()  # leaves the view: returned, stored, or passed to something else
    STORED = auto()  # among these: it is kept as it is, in an attribute


_STATE = re.compile(
    r"load_(?:\w{1,80}_)?(?:state|weights|params|parameters)|set_\w{0,80}state|load_from_state|restore_state|load_ema"
)
_READ_CALLS = frozenset(
    {"len", "print", "isinstance", "type", "str", "repr", "bool", "int", "float", "hasattr", "set", "sorted",
     "info", "debug", "warning", "warn", "error", "id", "min", "max", "sum", "any", "all", "iter"}
)  # fmt: skip
_SAME_CALLS = frozenset(
    {"dict", "list", "tuple", "OrderedDict", "deepcopy", "copy", "getattr", "EasyDict", "reversed",
     "enumerate", "zip", "next"}
)  # fmt: skip
_SAME_METHODS = frozenset({"get", "pop", "copy", "setdefault", "values", "items", "state_dict", "popitem"})
_READ_METHODS = frozenset(
    {"keys", "update", "shape", "size", "dtype", "ndim", "dim", "numel", "move_to_end", "clear",
     "startswith", "endswith", "format", "__len__", "replace", "split"}
)  # fmt: skip
_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_", "type"})
_HOST_METHODS = frozenset({"numpy", "tolist", "item"})
_CONVERTER = re.compile(
    r"(?:convert|rename|remap|map_|strip|filter|clean|resize|interpolate|adapt|translate|fix|replace|remove)"
)
_HOST_CALLS = re.compile(r"(?:^|\.)(?:save|save_file|save_pretrained|dump|savez|asarray|export|write\w*)$")
# Entries of a checkpoint that are numbers, options or texts.
_PLAIN = re.compile(
    r"epoch|step|iter|best|loss|acc|score|metric|args|opts?$|config|cfg|hparam|hyper|seed|version|vocab|dict|"
    r"classes|labels?$|names?$|arch|lr$|date|time|info|meta|history|settings|kwargs|logger",
    re.IGNORECASE,
)
_MODULE_USES = torch_api.MODULE_ONLY | {"generate", "fuse", "named_modules", "module", "config"}


@dataclass
class Uses:
    """All uses of one loaded object; `receivers` are what it is loaded into, `moved` if it is moved."""

    kinds: Use = Use.NONE
    receivers: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    moved: bool = False

    def has(self, kind: Use) -> bool:
        return bool(self.kinds & kind)


class Follower:
    """Follows values through names, subscripts, loops and functions of one file."""

    def __init__(self, callees: Callees) -> None:
        self._callees = callees
        self._source = callees.source
        self._scopes: dict[ast.AST, dict[str, list[ast.expr]]] = {}
        self._receivers = Receivers(callees)

    def of_one_rank(self, call: ast.Call) -> bool:
        """Does a load read a file that its own process has written?"""
        return bool(call.args) and self._receivers.of_one_rank(call.args[0])

    def uses(self, node: ast.expr) -> Uses:
        """What the value of an expression is used for."""
        found = Uses()
        self._found = found
        self._seen: set[ast.AST] = set()
        self._budget = _BUDGET
        self._follow(node, 0)
        return found

    def _note(self, kind: Use) -> None:
        self._found.kinds |= kind

    def _follow(self, node: ast.AST, depth: int) -> None:
        if node in self._seen:
            return
        self._seen.add(node)
        self._budget -= 1
        parent = self._source.parents.get(node)
        if parent is None or self._budget < 0:
            self._note(Use.OUT)
            return
        if isinstance(parent, ast.Attribute):
            self._attribute(parent, depth)
        elif isinstance(parent, ast.Call):
            self._call(parent, node, depth)
        elif isinstance(parent, ast.keyword):
            call = self._source.parents.get(parent)
            if isinstance(call, ast.Call):
                self._call(call, parent, depth)
        elif isinstance(parent, ast.Subscript):
            if node is parent.value and isinstance(parent.ctx, ast.Load):
                self._entry(parent, parent.slice, depth)
        elif isinstance(parent, (ast.IfExp, ast.BoolOp, ast.Await, ast.Starred, ast.NamedExpr)):
            if isinstance(parent, ast.NamedExpr):
                self._bound(parent.target, parent, depth)
            if not isinstance(parent, ast.IfExp) or node is not parent.test:
                self._follow(parent, depth)
        elif isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp,
                                 ast.GeneratorExp)):  # fmt: skip
            if not (isinstance(parent, ast.DictComp) and node is parent.key):
                self._follow(parent, depth)
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            if node is parent.iter:
                self._bound(parent.target, parent, depth)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            for target in targets:
                self._bound(target, parent, depth)
        elif isinstance(parent, (ast.BinOp, ast.AugAssign, ast.UnaryOp)):
            if not isinstance(parent, ast.UnaryOp) or isinstance(parent.op, ast.USub):
                self._note(Use.TENSOR)
        elif isinstance(parent, (ast.Return, ast.Yield, ast.YieldFrom, ast.withitem, ast.Lambda)):
            self._note(Use.OUT)

    def _entry(self, node: ast.expr, key: ast.expr | None, depth: int) -> None:
        """Follow one entry of a checkpoint; where numbers and options go is of no interest."""
        plain = isinstance(key, ast.Constant) and isinstance(key.value, str) and _PLAIN.search(key.value)
        before = self._found.kinds
        self._follow(node, depth)
        if plain and not self._found.kinds & Use.STATE & ~before:
            self._found.kinds = before

    def _bound(self, target: ast.expr, at: ast.AST, depth: int) -> None:
        """A name, attribute or item takes the value."""
        source = self._source
        if isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._bound(one.value if isinstance(one, ast.Starred) else one, at, depth)
        elif isinstance(target, ast.Name):
            self._found.names.append(target.id)
            scope: ast.AST = function_around(source, target) or source.tree
            if any(target.id in one.names for one in source.of_kind(ast.Global, scope)):
                self._note(Use.OUT)
                return
            if isinstance(at, ast.comprehension):
                scope = source.parents[at]
            self._reads(scope, target.id, target, depth)
        elif isinstance(target, ast.Attribute):
            path = path_of(target)
            self._found.names.append(target.attr)
            if target.attr in ("data", "weight", "bias"):
                self._note(Use.PARAMETER)
            elif path.startswith("self.") and path.count(".") == 1:
                owner = source.enclosing(target, ast.ClassDef)
                if owner is not None and depth < _DEPTH:
                    self._reads(owner, path, target, depth + 1)
                self._note(Use.OUT | Use.STORED)
            else:
                self._note(Use.OUT | Use.STORED)
        elif isinstance(target, ast.Subscript):
            # `state[key] = value`: the value is used as the container is.
            base = path_of(target.value)
            if base.isidentifier():
                scope = function_around(source, target) or source.tree
                self._reads(scope, base, None, depth)
            else:
                self._note(Use.OUT)

    def _reads(self, scope: ast.AST, path: str, since: ast.AST | None, depth: int) -> None:
        """Follow every read of a name or `self.x` in a scope; of a name, those below its binding."""
        start, stop = (0, len(self._source.text))
        if since is not None and "." not in path:
            start = self._source.span(since).end
            stop = self._rebound(path, since, stop)
        for node in self._reads_in(scope).get(path, ()):
            if start <= self._source.span(node).start < stop:
                self._follow(node, depth)

    def _reads_in(self, scope: ast.AST) -> dict[str, list[ast.expr]]:
        """Every read of a name or attribute in a scope, by its path."""
        known = self._scopes.get(scope)
        if known is None:
            known = self._scopes[scope] = {}
            for node in self._source.walk(scope):
                if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                    path = path_of(node)
                    if path:
                        known.setdefault(path, []).append(node)
        return known

    def _rebound(self, name: str, since: ast.AST, stop: int) -> int:
        """Where a later statement of the same block gives the name something else."""
        source = self._source
        try:
            block = source.block(source.statement(since))
        except LookupError:
            return stop
        for later in block[block.index(source.statement(since)) + 1 :]:
            if isinstance(later, ast.Assign) and any(path_of(target) == name for target in later.targets):
                return source.span(later).end
        return stop

    def _attribute(self, node: ast.Attribute, depth: int) -> None:
        call = self._source.parents.get(node)
        called = isinstance(call, ast.Call) and call.func is node
        name = node.attr
        if _STATE.search(name) and called:
            self._note(Use.MODULE)  # something is loaded into the loaded object
        elif name in _MODULE_USES:
            self._note(Use.MODULE)
            if called and name in ("eval", "train", "fuse") and call is not None:
                self._follow(call, depth)
            elif not called:
                self._follow(node, depth)
        elif name in _MOVES and called and call is not None:
            self._found.moved = self._found.moved or name in ("to", "cuda")
            if name == "cpu":
                self._note(Use.HOST)
            self._follow(call, depth)
        elif name in _SAME_METHODS and called and isinstance(call, ast.Call):
            self._entry(call, call.args[0] if call.args else None, depth)
        elif name in _HOST_METHODS:
            self._note(Use.HOST)
        elif name in _READ_METHODS:
            pass
        elif name in torch_api.TENSOR_ONLY:
            self._note(Use.TENSOR)
        elif not called:
            self._follow(node, depth)
        elif isinstance(call, ast.Call) and self._computes(call):
            self._note(Use.MODULE)
        else:
            self._note(Use.OUT)

    def _computes(self, call: ast.Call) -> bool:
        """Does a method get a tensor, so that what it belongs to is a model: `policy.act(torch.zeros(1))`?"""
        flow = self._callees.flow
        values = (*call.args, *(keyword.value for keyword in call.keywords))
        return any((known := flow.value(value)).kind is Kind.TENSOR and known.sure for value in values)

    def _call(self, call: ast.Call, argument: ast.AST, depth: int) -> None:
        if argument is call.func:
            self._note(Use.MODULE)
            return
        name = self._source.qualified(call.func) or path_of(call.func)
        if not name and isinstance(call.func, ast.Attribute):
            name = f"?.{call.func.attr}"
        last = name.rpartition(".")[2]
        if _STATE.search(last):
            self._loaded(call, argument, name, depth)
        elif last in _READ_CALLS:
            return
        elif last in _SAME_CALLS:
            self._follow(call, depth)
        elif last in ("Parameter", "register_buffer", "copy_", "Buffer"):
            self._note(Use.PARAMETER)
        elif last in ("append", "extend", "insert", "update") and isinstance(call.func, ast.Attribute):
            base = path_of(call.func.value)
            if base.isidentifier():
                self._reads(function_around(self._source, call) or self._source.tree, base, None, depth)
            else:
                self._note(Use.OUT)
        elif _HOST_CALLS.search(name) or name.startswith("numpy."):
            self._note(Use.HOST)
        elif name.startswith("torch.") and not name.startswith("torch.distributed"):
            self._note(Use.TENSOR)
        elif not self._enter(call, argument, self._callees.function_of(call), depth):
            if _CONVERTER.search(last):
                self._note(Use.HOST)
                self._follow(call, depth)
            else:
                self._note(Use.OUT)

    def _loaded(self, call: ast.Call, argument: ast.AST, name: str, depth: int) -> None:
        """`model.load_state_dict(value)`, and functions that are called as if they did that."""
        self._note(Use.STATE)
        if any(k.arg == "assign" and ast.unparse(k.value) != "False" for k in call.keywords):
            self._note(Use.PARAMETER)  # not copied: what is loaded becomes the parameters
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        self._found.receivers.append(ast.unparse(receiver) if receiver is not None else name)
        if receiver is not None and self._receivers.doubtful(receiver):
            self._note(Use.OUT)
        before = self._found.kinds
        entered = self._enter(call, argument, self._receivers.method(call), depth)
        if entered and self._found.kinds & ~before & ~(Use.STATE | Use.HOST):
            self._found.kinds = before | Use.OUT
        elif not entered and "state_dict" not in name and not name.startswith("torch."):
            self._note(Use.OUT)  # it may keep what it is given

    def _enter(self, call: ast.Call, argument: ast.AST, function: FunctionNode | None, depth: int) -> bool:
        """Go on with the parameter of a function of this file."""
        if function is None or depth >= _DEPTH:
            return False
        plain = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if isinstance(argument, ast.keyword):
            name = argument.arg or ""
        else:
            method = plain[:1] in (["self"], ["cls"]) and (
                isinstance(call.func, ast.Attribute) or function.name == "__init__"
            )
            index = call.args.index(argument) + method if argument in call.args else -1
            name = plain[index] if 0 <= index < len(plain) else ""
        if not name:
            return False
        before = self._found.kinds
        self._found.kinds = Use.NONE
        self._reads(function, name, None, depth + 1)
        inside = self._found.kinds
        self._found.kinds = before | inside
        if function.name != "__init__":
            if any(isinstance(n, ast.Return) and n.value is not None for n in self._source.walk(function)):
                self._follow(call, depth)
                if inside == Use.OUT and not before & Use.OUT:
                    self._found.kinds &= ~Use.OUT
        return True
