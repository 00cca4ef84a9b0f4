"""Is it shown that a tensor may be on an accelerator at all, or are its callers those of the CPU?

A tensor parameter alone shows nothing: data preparation, plots and tables of lengths take tensors, too.
What shows it: the method is one that a module runs, the function itself asks for devices, or a call in
the file gives it something that is on one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.engine.evidence import trains_on_cpu
from devfix.factories.follow import Follow
from devfix.factories.owners import FUNCTIONS
from devfix.factories.placeholders import spare
from devfix.factories.values import Anchor, Fact, Form
from devfix.flow import Flow
from devfix.inputs.arms import never_read, on_cpu, on_host, opposed
from devfix.source import Source, remembered, walk

_DEPTH = 3  # of functions that call each other
# What asks for the device of something, or goes to one.
_ASKS = frozenset({"device", "is_cuda", "get_device", "type_as", "cuda", "get_device_of"})
# Wanted on the CPU by packed sequences and loops, and mostly made from lists there.
_COUNTS = re.compile(r"(?:^|_)\w{0,80}(?:len|lens|lengths?)$|^n_\w+s$|^num_|(?:^|_)(?:sz|sizes?|shapes?)$")
# A file that has to do with devices at all.
_SIGN = re.compile(r"\bdevice\b|cuda|\.to\(")
# Tensors that are promises: their device is "meta" until somebody asks for the numbers.
_LAZY = re.compile(r"[Ll]azy(?!_?load)|[\"']meta[\"']|FakeTensor|is_meta\b")
# What tests define for themselves runs where they say, mostly on the CPU.
_EXPORTING = re.compile(r"tracing\(|is_in_onnx_export\(|is_exporting\(|onnx_(?:export|trace)|exporting")
_TESTS = re.compile(r"^def test_", re.MULTILINE)

# In an annotation: what stands around a type, and what is, or may be, a tensor.
_AROUND_TYPES = frozenset({"torch", "typing", "Optional", "Union", "None", "t"})
_TENSORS = re.compile(
    r"(?:Float|Long|Int|Bool|Half|Double|Byte|Short|cuda)?Tensor|TensorType|Parameter|Any|[A-Z]|List|Tuple|Sequence|list|tuple|Float|Int"
)


class Proof:
    """What the functions of one file show; `follows` are those that were followed."""

    def __init__(self, follows: list[Follow]) -> None:
        self._given: dict[tuple[ast.AST, str], list[tuple[Follow, Anchor]]] = {}
        self._aware: dict[ast.AST, set[str]] = {}
        source = follows[0].source if follows else None
        self._host = source is not None and (
            trains_on_cpu(source) or _TESTS.search(source.text) is not None or "onnx.export(" in source.text
        )
        for follow in follows:
            for one in follow.passed:
                for name, fact in one.given.items():
                    for anchor in _anchors(fact):
                        self._given.setdefault((one.callee, name), []).append((follow, anchor))

    def holds(self, follow: Follow, anchor: Anchor, depth: int = 0) -> bool:
        """May what an anchor names be on an accelerator, as the text shows?"""
        scope = follow.scope
        base, dot, last = anchor.text.rpartition(".")
        if last != "device" or not dot:
            return bool(anchor.text)  # the device that it was moved to
        root = anchor.root
        known = follow.names.get(base) or follow.names.get(root)
        if root == "self":
            return base == "self" or (
                follow.module and not self._host and not _reads_host(follow.source, scope)
            )
        if known is None or known.form not in (Form.TENSOR, Form.MAYBE, Form.LIST, Form.UNKNOWN):
            return _gone_to(follow.source, anchor.text)  # `args.device`, `model.device`
        if not isinstance(scope, FUNCTIONS) or self._lazy(follow) or self._host:
            return False
        if base == root and of_other_class(scope, root):
            return False
        if _reads_host(follow.source, scope):
            return False
        if self._asks(follow, anchor):
            return True
        counts = bool(_COUNTS.search(base))
        if not counts and (self._run(follow) or (scope.args.args[:1] and scope.args.args[0].arg == "ctx")):
            return True
        return depth < _DEPTH and any(
            self.holds(caller, given, depth + 1)
            for caller, given in self._given.get((scope, root), ())
            if caller.scope is not scope
        )

    def _run(self, follow: Follow) -> bool:
        """Is a method a part of what a module does with its inputs?"""
        owner, name = follow.owner, getattr(follow.scope, "name", "")
        if not follow.module or owner is None or name in owner.started:
            return False
        return name in _reached(follow.source, owner.node)

    def _asks(self, follow: Follow, anchor: Anchor) -> bool:
        """Does a function ask where that very tensor is, or what it was made from or of it, or move it?"""
        scope = follow.scope
        found = self._aware.get(scope)
        if found is None:
            found = self._aware[scope] = {root for node in walk(scope) for root in _asked(node)}
        known = {root for root in found if root == anchor.root}
        known |= {
            root
            for root in found
            if (fact := follow.names.get(root)) is not None
            and fact.anchor is not None
            and fact.anchor.text == anchor.text
        }
        return bool(known)

    def _lazy(self, follow: Follow) -> bool:
        return _lazy(follow.source, follow.owner.node if follow.owner is not None else follow.scope)


def reached(flow: Flow, scope: ast.AST) -> bool:
    """May a program of the project get to a function, with anything that was moved?"""
    top = ""
    up: ast.AST | None = scope
    while up is not None and not isinstance(up, ast.Module):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)):
            top = up.name
        up = flow.source.parents.get(up)
    if _SIGN.search(flow.source.text) or (top and flow.used(top) is False):
        return True  # nobody knows the programs of what nothing here uses
    moved = flow.runs_moved(top)
    return (flow.chooses() if moved is None else moved) is not False


def of_other_class(scope: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Is a parameter annotated with a class that is no tensor, so that it need not have a `device`?"""
    arguments = scope.args
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if one.arg == name and one.annotation is not None:
            words = set(re.findall(r"\w+", ast.unparse(one.annotation))) - _AROUND_TYPES
            return bool(words) and not any(_TENSORS.fullmatch(word) for word in words)
    return False


def one_number(source: Source, scope: ast.AST, factory: ast.AST, meeting: ast.AST) -> bool:
    """May what a factory makes be a number at last, which meets anything: one element, and squeezed?

    Or does it have one element where a sum may have no dimension, so that adding in place always raises?
    """
    return (
        isinstance(factory, ast.Call)
        and len(factory.args) == 1
        and ast.unparse(factory.args[0]) in ("1", "(1,)", "[1]")
        and (
            _squeezes(source, scope)
            or (
                isinstance(source.parents.get(factory), ast.IfExp)
                and isinstance(source.statement(meeting), ast.AugAssign)
            )
        )
    )


@remembered
def _squeezes(source: Source, scope: ast.AST) -> bool:
    return ".squeeze(" in source.code(scope)


def _asked(node: ast.AST) -> Iterator[str]:
    """The names of what is asked where it is, or moved: `x.device`, `y.type_as(x)`, `x.to(device)`."""
    if isinstance(node, ast.Attribute) and node.attr in _ASKS:
        yield _root(node.value)
    elif isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name) and func.id == "get_device_of":
            yield from (_root(argument) for argument in node.args)
        if isinstance(func, ast.Attribute) and func.attr in ("type_as", "to"):
            yield from (_root(argument) for argument in node.args if not isinstance(argument, ast.Constant))
            if any("device" in ast.unparse(one) for one in (*node.args, *(k.value for k in node.keywords))):
                yield _root(func.value)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


@remembered
def _gone_to(source: Source, device: str) -> bool:
    """Does the file move something to a device expression, or make something there?"""
    return (
        re.search(rf"(?:\.to\(|\bdevice[ \t]*=)[ \t]*{re.escape(device)}(?![\w.])", source.text) is not None
    )


def exported(source: Source, node: ast.AST) -> bool:
    """Does a node run only while a model is exported, which is done on the CPU?"""
    up = source.parents.get(node)
    while up is not None and not isinstance(up, FUNCTIONS):
        if isinstance(up, (ast.If, ast.IfExp)) and _EXPORTING.search(ast.unparse(up.test)):
            return True
        up = source.parents.get(up)
    return False


def apart(source: Source, made: ast.expr, meeting: ast.expr, anchor: Anchor) -> bool:
    """Does a condition keep a new tensor from its meeting, or both of them on the CPU?

    `y = f(x) if self.extra else torch.zeros(1)`, and `total += y` under `if self.extra:`; and the `else`
    of `if use_gpu:`, which moves things.
    """
    if on_cpu(source, meeting, anchor.text.removesuffix(".device")):
        return True
    unread = never_read(source, made) or spare(source, made)
    return unread or opposed(source, made, meeting) or on_host(source, made)


@remembered
def _lazy(source: Source, node: ast.AST) -> bool:
    return _LAZY.search(source.code(node)) is not None


@remembered
def _reads_host(source: Source, scope: ast.AST) -> bool:
    """Does a function read tensors as arrays without copying them from anywhere? Then it works on the CPU only."""
    for node in walk(scope):
        if isinstance(node, ast.Attribute) and node.attr == "numpy":
            inner: ast.expr = node.value
            while isinstance(inner, (ast.Attribute, ast.Call, ast.Subscript)):
                if isinstance(inner, ast.Attribute) and inner.attr in ("cpu", "to"):
                    break
                inner = inner.func if isinstance(inner, ast.Call) else inner.value
            else:
                if node.value is not inner:  # `x.detach().numpy()`; a plain name may have been copied above
                    return True
    return False


def _anchors(fact: Fact) -> list[Anchor]:
    items = fact.items or (fact,)
    return [item.anchor for item in items if item.placed and item.anchor is not None]


@remembered
def _reached(source: Source, owner: ast.ClassDef) -> set[str]:
    """The methods that `forward` calls, and those that these call."""
    calls = {
        item.name: set(re.findall(r"self\.(\w+)\(", source.code(item)))
        for item in owner.body
        if isinstance(item, FUNCTIONS)
    }
    found: set[str] = set()
    todo = ["forward"]
    while todo:
        name = todo.pop()
        if name in calls and name not in found:
            found.add(name)
            todo.extend(calls[name])
    return found
