"""What is known beyond doubt of a value that numpy reads: is it a tensor, and on a device?"""

from __future__ import annotations

import ast
import re

from devfix.flow import Flow
from devfix.flow.events import Scope, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import UNKNOWN, Kind, Value, Where
from devfix.inputs.classes import Written, named
from devfix.names import Names
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Methods of a model that may well bring their result to the CPU themselves.
_RETURNS_ANYTHING = re.compile(
    r"(?:^|[._])(?:predict|infer|inference|sample|transcribe|translate|get|to|evaluate|score|process|"
    r"extract|detect|generate|postprocess|post_process|step|act|select_action)(?:_\w+)?$"
)
# How a variable is called that says where the program computes.
_CHOSEN = re.compile(
    r"(?:^|[.\"'])_?(?:torch_|target_|compute_|cuda_|gpu_|model_)?(?:device|dev|gpu)s?(?:_\d|\d)?(?:\(\))?"
    r"(?:$|[\"'\])])|cuda|gpu|accelerator|fabric",
    re.IGNORECASE,
)
_OF_MODEL = re.compile(r"\.parameters\(\)\)\.device$|(?:^|[._])(?:model|net|network|module)\.device$")
_OUTPUT = re.compile(r"the output of `(.*)`")
# What brings a result to the CPU.
_HOSTS = re.compile(
    r"\.cpu\(|\.numpy\(|\.tolist\(|\.item\(|"
    r"\.to\((?:[^()]*\bdevice\s*=)?\s*(?:torch\.device\(\s*)?[\"']cpu"
)
# Methods that numpy arrays and images do not have.
_TORCH_ONLY = frozenset(
    {"detach", "unsqueeze", "contiguous", "permute", "softmax", "sigmoid", "cuda", "clone"}
)


class Known:
    """What is beyond doubt about the values of one file."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._callees = {event.node: event.value for event in flow.events(What.USE)}

    def on_device(self, value: Value, named: re.Pattern[str] = _RETURNS_ANYTHING) -> bool:
        """Certainly on a device, whichever path is taken; not the output of a method that is `named` so."""
        place = value.place
        if value.kind not in (Kind.TENSOR, Kind.ANY) or not place.on_device or place.guarded:
            return False
        if place.where is Where.SYMBOL and self._of_another(value):
            return False  # a parameter of the function that made it, which may have been left to its default
        if place.where is Where.SYMBOL and place.text and not _CHOSEN.search(place.text):
            return False  # `self.cpu_device`, `input_device`: may well be the CPU
        if self._of_a_copy(value):
            return False
        output = _OUTPUT.match(value.source)
        if output is None:
            return True
        if named.search(output[1]):
            return False
        written = self._written(value)
        if written is None:
            return True
        method = self._own_method(value)
        found = written.method(method) if method else None
        body = found[0].source.code(found[1]) if found is not None else ""
        return not _HOSTS.search(body or written.source.code(written.node))

    def _of_a_copy(self, value: Value) -> bool:
        """Is it where something is that has been brought to the CPU: `y = x.cpu(); t = t.to(y.device)`?"""
        base, _, last = value.place.text.rpartition(".")
        at = value.place.node or value.node
        if at is None or not base or last != "device":
            return False
        scope = self.flow.source.enclosing(at, *_FUNCTIONS)
        bound = rf"^\s*{re.escape(base)}\s*=[^=\n]*(?:\.cpu\(\)|\.to\(\s*[\"']cpu)"
        text = self.flow.source.text if scope is None else self.flow.source.code(scope)
        return re.search(bound, text, re.MULTILINE) is not None

    def with_a_model(self, value: Value, named: re.Pattern[str]) -> bool:
        """Brought to where a model is, as one does that has models on devices."""
        place, output = value.place, _OUTPUT.match(value.source)
        if value.kind is not Kind.TENSOR or place.where is not Where.OF or place.guarded:
            return False
        if output is not None and named.search(output[1]):
            return False
        return _OF_MODEL.search(place.text) is not None

    def certain(self, value: Value) -> bool:
        """Is it shown, whoever calls? Not where a caller names the device, or a method out of view has made it."""
        if _handed(self.flow.source, value):
            return False
        method, written = self._own_method(value), self._written(value)
        if written is None and value.source and self._called_parameter(value) is not None:
            return False  # whatever a caller passes may bring its result to the CPU
        return not method or (written is not None and written.method(method) is not None)

    def _written(self, value: Value) -> Written | None:
        """The class of the module whose output a value is, as it was made, or by its annotation."""
        callee = self._callee(value)
        if callee.name:
            return named(self.flow, callee.name)
        argument = self._called_parameter(value)
        name = path_of(argument.annotation) if argument is not None and argument.annotation else ""
        return named(self.flow, name) if name else None

    def _called_parameter(self, value: Value) -> ast.arg | None:
        """`net` of `net(x)`, a parameter of the function."""
        func = value.node.func if isinstance(value.node, ast.Call) else None
        scope = self.flow.source.enclosing(func, *_FUNCTIONS) if isinstance(func, ast.Name) else None
        if not isinstance(func, ast.Name) or not isinstance(scope, _FUNCTIONS):
            return None
        arguments = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        return next((one for one in arguments if one.arg == func.id), None)

    def _own_method(self, value: Value) -> str:
        """`generate` of `model.generate(x)`, nothing of `self.net(x)`, which calls a module."""
        func, callee = value.node.func if isinstance(value.node, ast.Call) else None, self._callee(value)
        if not isinstance(func, ast.Attribute) or callee is UNKNOWN:
            return ""
        return func.attr if self.flow.value(func.value).identity == callee.identity else ""

    def _of_another(self, value: Value) -> bool:
        """Is the device of a value a parameter, with a default, of a function that has returned it?"""
        source, moved = self.flow.source, value.place.node
        there = source.enclosing(moved, *_FUNCTIONS) if isinstance(moved, ast.expr) else None
        if not isinstance(there, _FUNCTIONS) or value.node is None:
            return False
        here = source.enclosing(value.node, *_FUNCTIONS)
        arguments = there.args
        plain = [*arguments.posonlyargs, *arguments.args]
        optional = {one.arg for one in plain[len(plain) - len(arguments.defaults) :]}
        optional |= {a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d}
        return here is not there and value.place.text in optional

    def tensor_on_device(self, node: ast.expr) -> bool:
        """Certainly a tensor as well: a model out of sight may return arrays, images or lists of them."""
        if isinstance(node, ast.BinOp):
            return self.tensor_on_device(node.left) or self.tensor_on_device(node.right)
        value = self.flow.value(node)
        if value.kind is not Kind.TENSOR or not self.on_device(value):
            return False
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _TORCH_ONLY
        ):
            return True
        # What a module gives may be several things, numbers among them.
        run = isinstance(value.node, ast.Call) and value.node in self._callees
        if value.sure and not run and not _OUTPUT.match(value.source):
            return True
        made = value.node
        if isinstance(made, ast.Call) and (self.flow.source.qualified(made.func) or "").startswith("torch."):
            return True
        if self._callee(value).name.startswith("torch.nn."):
            return True
        path = re.escape(path_of(node))
        return (
            bool(path)
            and re.search(rf"(?<![\w.]){path}\.(?:backward|detach)\(", self.flow.source.text) is not None
        )

    def _callee(self, value: Value) -> Value:
        """The module whose output a value is, if it is one."""
        return self._callees.get(value.node, UNKNOWN) if isinstance(value.node, ast.Call) else UNKNOWN


def lists_of(known: Known, scope: Scope, calls: list[ast.Call]) -> dict[str, Value]:
    """Names of lists that are filled with tensors on a device and nothing else; one of the tensors."""
    appended: dict[str, list[Value]] = {}
    for call in calls:
        func = call.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and len(call.args) == 1:
            if func.attr in ("append", "extend", "insert"):
                placed = func.attr == "append" and known.tensor_on_device(call.args[0])
                found_one = known.flow.value(call.args[0]) if placed else UNKNOWN
                appended.setdefault(func.value.id, []).append(found_one)
    found = {name: values[0] for name, values in appended.items() if UNKNOWN not in values}
    if not found:
        return {}
    bindings = Names(known.flow.source, scope.node).bindings
    return {
        name: value
        for name, value in found.items()
        if (made := bindings.get(name))
        and all(isinstance(b.value, ast.List) and not b.value.elts and b.form == "single" for b in made)
    }


def _handed(source: Source, value: Value) -> bool:
    """Was it moved in another function, to a device that its caller hands over? That may be the CPU."""
    moved = value.place.node
    there = source.enclosing(moved, *_FUNCTIONS) if isinstance(moved, ast.expr) else None
    if not isinstance(there, _FUNCTIONS) or value.node is None:
        return False
    names = {one.arg for one in (*there.args.posonlyargs, *there.args.args, *there.args.kwonlyargs)}
    return value.place.text in names and source.enclosing(value.node, *_FUNCTIONS) is not there
