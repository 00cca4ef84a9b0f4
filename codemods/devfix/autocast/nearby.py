"""For an autocast that says "cuda" outright: the device that its data is on, if that is at hand."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from devfix.autocast.calls import AutocastCall
from devfix.bindings import function_around
from devfix.device_forms import DeviceForms, Form
from devfix.flow import Flow, frameworks, torch_api
from devfix.flow.events import Scope, What
from devfix.flow.evidence import annotated_kind
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Named, Value, Where
from devfix.placing import settled_binding
from devfix.source import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HARD = re.compile(
    r"\.cuda\(|cuda\.set_device\(|[\"']nccl[\"']|(?:\.to\(|device\s*=|torch\.device\()\s*[\"']cuda"
)
_SOFT = re.compile(r"\.device\b|\bdevice\s*=(?!\s*[\"']cuda)|\.to\((?:self\.)?\w*device")
_SKIP = re.compile(r"(?:skip|require|only|with|mark\.).{0,400}(?:cuda|gpu)", re.IGNORECASE | re.DOTALL)
_GOOD_NAME = re.compile(r"(?:^|\.)_?(?:torch_|target_)?(?:device|dev)$", re.IGNORECASE)
# Attributes that arrays have as well: they tell a tensor only in the forward of a module.
_ARRAY_USES = frozenset({"shape", "dtype", "size", "view", "reshape", "ndim", "mean", "sum", "flatten"})
_TENSOR_USES = torch_api.TENSOR_ONLY - _ARRAY_USES | {"device", "to", "permute"}
_NO_TENSOR_CALLS = frozenset(
    {"len", "isinstance", "int", "str", "range", "enumerate", "zip", "list", "dict", "from_numpy",
     "fromarray", "tensor", "as_tensor", "asarray", "array", "open", "ToTensor"}
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Nearby:
    """A device expression valid at the call; `text` is a torch.device if `form` says so."""

    text: str
    form: Form
    origin: ast.AST | None = None


class NearbyDevices:
    """Finds the device of the data that a call works on."""

    def __init__(self, forms: DeviceForms) -> None:
        self._forms = forms
        self._flow: Flow = forms.flow
        self._source = forms.source
        self._only: dict[ast.AST, float] = {}

    def at(self, call: AutocastCall) -> Nearby | None:
        """The device at hand; None where there is none, or where the code means CUDA and only CUDA."""
        function = call.decorated or function_around(self._source, call.node)
        if self.cuda_only(call, function):
            return None
        found = next(self._candidates(call, function or self._source.tree), None)
        return None if found is _CUDA_ONLY else found

    def tensor(self, call: AutocastCall) -> Nearby | None:
        """The device of a tensor parameter."""
        function = call.decorated or function_around(self._source, call.node)
        if not isinstance(function, _FUNCTIONS):
            return None
        return next(self._tensors(call, function), None)

    def lacks_device(self, node: ast.AST) -> bool:
        """Is `self.device` certainly missing here: in a plain nn.Module that nobody gives one?"""
        owner = self._source.enclosing(node, ast.ClassDef)
        if not isinstance(owner, ast.ClassDef) or not owner.bases:
            return False
        if any(self._source.qualified(base) not in torch_api.MODULE_BASES for base in owner.bases):
            return False
        for item in owner.body:
            names = [item.name] if isinstance(item, _FUNCTIONS) else []
            if isinstance(item, (ast.Assign, ast.AnnAssign)):
                targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                names = [path_of(target) for target in targets]
            if {"device", "__getattr__"} & set(names):
                return False
        return not self._sets_device

    @cached_property
    def _sets_device(self) -> bool:
        """Does anything in the file give any object a `device`, or attributes by name?"""
        for node in self._source.walk():
            if isinstance(node, ast.Attribute) and node.attr == "device" and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.Call) and path_of(node.func) in ("setattr", "self.__dict__.update"):
                return True
            if isinstance(node, ast.Constant) and node.value == "device":
                return True
        return False

    # --- CUDA only -----------------------------------------------------------------------

    @cached_property
    def _hard_file(self) -> bool:
        text = self._source.text
        if any(what.startswith(frameworks.CUDA_LIBRARIES) for what in self._source.imports.values()):
            return True
        hard = len(_HARD.findall(text))
        return hard > 0 and hard >= len(_SOFT.findall(text))

    def cuda_only(self, call: AutocastCall, function: ast.AST | None) -> bool:
        """Does the code around a call mean CUDA and only CUDA?"""
        if self._hard_file:
            return True
        enabled = call.enabled
        if enabled is not None and self._asks(enabled):
            return True
        node: ast.AST = call.node
        while node is not function and node in self._source.parents:
            child, node = node, self._source.parents[node]
            if isinstance(node, (ast.If, ast.IfExp, ast.While)) and child is not node.test:
                if self._asks(node.test):
                    return True
        if not isinstance(function, _FUNCTIONS):
            return False
        if function not in self._only:
            self._only[function] = self._only_from(function)
        return self._source.span(call.node).start > self._only[function]

    def _only_from(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> float:
        """The offset from which on a function runs on CUDA only: infinite where there is none."""
        owner = self._source.parents[function]
        decorators = [
            *function.decorator_list,
            *(owner.decorator_list if isinstance(owner, ast.ClassDef) else ()),
        ]
        if any(_SKIP.search(self._source.code(decorator)) for decorator in decorators):
            return -1
        if _HARD.search(self._source.code(function)):
            return -1
        leaving = (inner for inner in self._source.of_kind(ast.If, function) if _leaves(inner))
        asking = (self._source.span(inner).start for inner in leaving if self._asks(inner.test))
        return min(asking, default=math.inf)

    def _asks(self, test: ast.expr) -> bool:
        """Does a condition look at the kind of a device, by itself or through a variable?"""
        if _asks_for_cuda(test):
            return True
        for node in walk(test):
            path = path_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            for binding in self._forms.bindings.of(path, test) if path else ():
                if binding.value is not None and not binding.parameter and _asks_for_cuda(binding.value):
                    if any(isinstance(part, ast.Compare) for part in walk(binding.value)):
                        return True
        return False

    # --- candidates ----------------------------------------------------------------------

    def _candidates(self, call: AutocastCall, function: ast.AST) -> Iterator[Nearby]:
        in_module = False
        if isinstance(function, _FUNCTIONS):
            owner = self._source.parents.get(function)
            in_module = isinstance(owner, ast.ClassDef) and self._is_module(owner)
            if in_module:
                yield from self._tensors(call, function)
        if not call.decorated:
            yield from self._variables(call, function)
        if isinstance(function, _FUNCTIONS):
            yield from self._read(call, function)
            if not in_module:
                yield from self._tensors(call, function)

    def _is_module(self, owner: ast.ClassDef) -> bool:
        return any(path_of(base).rpartition(".")[2].endswith("Module") for base in owner.bases) or any(
            isinstance(item, _FUNCTIONS) and item.name == "forward" for item in owner.body
        )

    def _variables(self, call: AutocastCall, function: ast.AST) -> Iterator[Nearby]:
        """`device`, `self.device`, `args.device`, `accelerator.device`: whatever flow has bound here."""
        found: list[tuple[int, Nearby]] = []
        for text, value in self._named(call):
            name = f"{text}.device" if value.kind is Kind.OWNER else text
            root = text.partition(".")[0].partition("[")[0]
            if not _GOOD_NAME.search(name) or root in self._source.imports or "[" in name:
                continue
            if value.place.where is Where.ACCELERATOR:
                found.append((0, _CUDA_ONLY))
                continue
            if text == "self.device" and self.lacks_device(call.node):
                continue
            if value.place.where is Where.CPU or not self._reaches(text, call, function):
                continue
            form = Form.OBJECT if value.kind is Kind.OWNER or value.form == "object" else Form.OPEN
            rank = 1 if text.isidentifier() and self._local(text, function) else 2
            rank += 2 * (value.kind is Kind.OWNER) + (text.isupper())
            found.append((rank, Nearby(name, form, value.place.node or value.node)))
        found.sort(key=lambda pair: pair[0])
        yield from (nearby for _, nearby in found)

    def _named(self, call: AutocastCall) -> Iterator[tuple[str, Value]]:
        for named in self._events.get(call.node, ()):
            yield named.text, named.value

    @cached_property
    def _events(self) -> dict[ast.AST, tuple[Named, ...]]:
        return {event.node: event.devices for event in self._flow.events(What.AUTOCAST)}

    def _local(self, name: str, function: ast.AST) -> bool:
        return bool(self._forms.bindings.within(function, name))

    def _tensors(self, call: AutocastCall, function: ast.AST) -> Iterator[Nearby]:
        """Parameters that are tensors, those that the with block reads first."""
        assert isinstance(function, _FUNCTIONS)
        block = self._block(call, function)
        read = {node.id for node in self._source.walk(block) if isinstance(node, ast.Name)}
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        found = [
            argument
            for argument in arguments
            if argument.arg not in ("self", "cls", "ctx") and self._is_tensor(argument, function)
        ]
        found.sort(key=lambda argument: argument.arg not in read)
        for argument in found:
            yield Nearby(f"{argument.arg}.device", Form.OBJECT, argument)

    def _parameters(self, function: ast.AST) -> tuple[Value, ...]:
        scopes: list[Scope] = [scope for scope in self._flow.scopes if scope.node is function]
        return scopes[-1].parameters if scopes else ()

    def _is_tensor(self, argument: ast.arg, function: ast.AST) -> bool:
        """By annotation or by what the function does with it; a default of None counts against it."""
        bindings = self._forms.bindings.within(function, argument.arg)
        for binding in bindings:
            if binding.parameter and binding.value is not None:
                return False
            if not binding.parameter and not _mentions(binding.value, argument.arg):
                return False
        if argument.annotation is not None:
            text = ast.unparse(argument.annotation)
            return (
                annotated_kind(argument.annotation) == "tensor"
                and "Optional" not in text
                and "None" not in text
            )
        uses = _uses(self._source.walk(function), argument.arg)
        if uses.elsewise or not torch_api.MODULE_ONLY.isdisjoint(uses.attributes):
            return False
        if not _TENSOR_USES.isdisjoint(uses.attributes):
            return True
        if not isinstance(function, _FUNCTIONS) or function.name != "forward":
            return False
        return not _ARRAY_USES.isdisjoint(uses.attributes) or (uses.run and not uses.attributes)

    def _block(self, call: AutocastCall, function: ast.AST) -> ast.AST:
        """The with statement whose context the call is, else the whole function."""
        parent = self._source.parents.get(call.node)
        if isinstance(parent, ast.withitem):
            return self._source.parents[parent]
        return function

    def _read(self, call: AutocastCall, function: ast.AST) -> Iterator[Nearby]:
        """`x.device` that the function itself reads before the call, the nearest first."""
        start = self._source.span(call.node).start
        found: list[tuple[int, Nearby]] = []
        for node in self._source.walk(function):
            if (
                not isinstance(node, ast.Attribute)
                or node.attr != "device"
                or not isinstance(node.ctx, ast.Load)
            ):
                continue
            path = path_of(node.value)
            at = self._source.span(node).start
            if not path.isidentifier() or path in ("self", "torch", "args") or path in self._source.imports:
                continue
            if not call.decorated and (at > start or not self._reaches(path, call, function)):
                continue
            form = Form.OBJECT if self._flow.value(node.value).kind is Kind.TENSOR else Form.OPEN
            found.append((-at, Nearby(f"{path}.device", form, node)))
        found.sort(key=lambda pair: pair[0])
        yield from (nearby for _, nearby in found)

    # --- scopes --------------------------------------------------------------------------

    def _reaches(self, path: str, call: AutocastCall, function: ast.AST) -> bool:
        """Is a name certainly bound when the call is made?"""
        root = path.partition(".")[0]
        if root == "self":
            return True
        bindings = self._forms.bindings.within(function, root)
        if not bindings:
            return bool(self._forms.bindings.of(root, call.node)) or "." in path
        if any(binding.parameter for binding in bindings):
            return True
        at = self._source.statement(call.node)
        nodes = [b.node for b in bindings if self._source.statement(b.node) is not at]
        return bool(nodes) and settled_binding(self._source, nodes, at)


@dataclass
class _Uses:
    attributes: set[str]
    run: bool = False  # handed to a module or a torch function, or an operand
    elsewise: bool = False  # used as something that is no tensor


def _uses(nodes: Iterator[ast.AST], name: str) -> _Uses:
    found = _Uses(set())
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            found.attributes.add(node.attr)
            found.elsewise = found.elsewise or node.attr in (
                "items",
                "keys",
                "get",
                "append",
                "pop",
                "values",
            )
        elif isinstance(node, ast.Call):
            func = path_of(node.func)
            if any(isinstance(a, ast.Name) and a.id == name for a in node.args):
                if func.rpartition(".")[2] in _NO_TENSOR_CALLS:
                    found.elsewise = True
                found.run = found.run or func not in dir(builtins)
        elif isinstance(node, ast.BinOp):
            operands = [side for side in (node.left, node.right) if isinstance(side, ast.Name)]
            found.run = found.run or any(side.id == name for side in operands)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
            if isinstance(node.slice, ast.Constant):
                found.elsewise = True
        elif isinstance(node, (ast.For, ast.comprehension)):
            if isinstance(node.iter, ast.Name) and node.iter.id == name:
                found.elsewise = True
        elif (
            isinstance(node, (ast.If, ast.IfExp)) and isinstance(node.test, ast.Name) and node.test.id == name
        ):
            found.elsewise = True
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == name:
            if isinstance(node.comparators[0], ast.Constant):
                found.elsewise = True
    return found


def _asks_for_cuda(node: ast.expr) -> bool:
    """Does a condition look at the kind of a device: `x.is_cuda`, `device.type == "cuda"`?"""
    for inner in walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr in ("is_cuda", "type", "device_type"):
            return True
        if isinstance(inner, ast.Name) and inner.id in ("device_type", "use_cuda", "cuda"):
            return True
        if (
            isinstance(inner, ast.Attribute)
            and inner.attr in ("cuda", "use_cuda")
            and path_of(inner) != "torch.cuda"
        ):
            return True
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            if inner.value.partition(":")[0] in (*torch_api.ACCELERATORS, "cpu"):
                return True
    return False


def _mentions(value: ast.expr | None, name: str) -> bool:
    return value is not None and any(isinstance(node, ast.Name) and node.id == name for node in walk(value))


def _leaves(node: ast.If) -> bool:
    last = node.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return path_of(last.value.func).rpartition(".")[2] in ("skip", "exit", "skipTest")
    return isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break))


_CUDA_ONLY = Nearby("", Form.OPEN)
