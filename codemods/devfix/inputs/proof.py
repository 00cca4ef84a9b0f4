"""What a SAFE move of an input needs besides the meeting itself: evidence that is in view.

A judge who reads the fix asks where the module is, what it does with the input, and whether the program
does not run as it is. Where the answer stands in another file, a caller or a configuration, nobody knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.flow import Flow, torch_api
from devfix.flow.events import Event, Meeting
from devfix.flow.lattice import Kind, Where
from devfix.inputs.kinds import COUNTS
from devfix.inputs.parts import all_here, made, made_of_moved
from devfix.inputs.wanted import Wanted
from devfix.loaded import always_raises
from devfix.placing import dotted, stores
from devfix.source import Source, remembered, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Whose modules use their inputs where they get them.
_LIBRARIES = ("torch.nn.", "torchvision.models.", "torchaudio.models.", "torchaudio.pipelines.", "transformers.",
              "timm.create_model", *torch_api.LIBRARY_MODULES)  # fmt: skip
_RUN = frozenset({"module", "called", "run", "forward", "__call__"})
_ELEMENTWISE = frozenset({"operator", "comparison"})
# What is made of these has the type that networks compute with.
_DATA = frozenset(f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "FloatTensor"))
_WHOLE = frozenset({"long", "int", "short", "bool"})
_BATCH = re.compile(r"a batch from `(\w+)`")
_DEPTH = 4  # of what is made of what


def proven(flow: Flow, event: Event, meeting: Meeting, need: Wanted) -> bool:
    """Does what is in view show that the input has to be moved?"""
    if need is Wanted.DOUBTED or not _decided(flow, event, need) or unmet(flow, meeting.node):
        return False
    if not all_here(flow, event, meeting):
        return False
    if need is not Wanted.MEETS and _counts(meeting):
        return False
    if _of_tensors(flow.source, meeting):
        return False
    if event.detail in _ELEMENTWISE:
        return False  # numbers and indices meet anything, and what has no dimension is a number
    if event.value.kind in (Kind.MODULE, Kind.PART):
        return need is Wanted.MEETS or _known(flow, event) or _fed(flow, event, meeting)
    return _of_module(flow, event)


def _of_tensors(source: Source, meeting: Meeting) -> bool:
    """Is it of a loader that a caller passes, in a file whose data sets are tensors, which may be anywhere?"""
    loader = _BATCH.search(meeting.value.source)
    if loader is None or not source.has("TensorDataset("):
        return False
    home = source.enclosing(meeting.node, *_FUNCTIONS)
    arguments = home.args if isinstance(home, _FUNCTIONS) else None
    return arguments is not None and any(
        one.arg == loader[1] for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def unmet(flow: Flow, node: ast.AST) -> bool:
    """Does no run come to a place, since a call in its function always raises?"""
    return always_raises(flow.source, flow.source.enclosing(node, *_FUNCTIONS))


def settled(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """Does the text show that the program runs with the input on the CPU?"""
    return (
        _length_of_ctc(flow, event, meeting)
        or (event.detail in _ELEMENTWISE and _one_element(flow, event, meeting.node))
        or _made_on_cpu(flow, event)
        or made_of_moved(flow, event, meeting)
    )


# --- the place ---------------------------------------------------------------------------------


def _decided(flow: Flow, event: Event, need: Wanted) -> bool:
    """Is what it meets put where it is in this function, its class, or the body of the file?

    In another function of the file as well, if the code of the module is in sight and wants the input.
    """
    place, source = event.place, flow.source
    if place is None:
        return False
    if place.where is Where.OF and event.value.kind not in (Kind.MODULE, Kind.PART):
        return True  # the input goes to where that is
    if place.node is None or place.node not in source.parents:
        return False
    if need is Wanted.MEETS or _near(source, event, place.node):
        return True
    call = event.value.node
    given = [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []
    return any(
        one.place.on_device and one.place.node in source.parents and _near(source, event, one.place.node)
        for one in map(flow.value, given)
    )


def _near(source: Source, event: Event, node: ast.AST | None) -> bool:
    there = source.enclosing(node, *_FUNCTIONS) if node is not None else None
    if there is None or there is event.scope.node:
        return True
    owner = source.enclosing(there, ast.ClassDef)
    return owner is not None and owner is source.enclosing(event.scope.node, ast.ClassDef)


def _moved_here(flow: Flow, event: Event) -> bool:
    """As above, but not in the body of the file for what a function runs."""
    node = event.place.node if event.place is not None else None
    if node is None or node not in flow.source.parents or not _near(flow.source, event, node):
        return False
    return isinstance(event.scope.node, ast.Module) or flow.source.enclosing(node, *_FUNCTIONS) is not None


def _made_on_cpu(flow: Flow, event: Event) -> bool:
    """Is what it meets, or whose it is, made of a literal "cpu" in this function?

    Where the place was found in another function, `self.device` there is what this one chose.
    """
    place, source, scope = event.place, flow.source, event.scope.node
    node = place.node if place is not None else None
    if node is None or not _says_cpu(source, scope):
        return False
    if node in source.parents and source.enclosing(node, *_FUNCTIONS) in (None, scope):
        return False
    told = _told_cpu(source, scope)
    return any(
        isinstance(part, ast.Name) and part.id in told for one in _origins(flow, event) for part in walk(one)
    )


@remembered
def _says_cpu(source: Source, scope: ast.AST) -> bool:
    text = source.text if isinstance(scope, ast.Module) else source.code(scope)
    return '"cpu"' in text or "'cpu'" in text


def _origins(flow: Flow, event: Event) -> Iterator[ast.expr]:
    yield event.node
    path = event.path.partition(".")[0]
    if path.isidentifier():
        for store in stores(flow.source, event.scope.node, path):
            value = getattr(flow.source.statement(store), "value", None)
            if isinstance(value, ast.expr):
                yield value


def _told_cpu(source: Source, scope: ast.AST) -> set[str]:
    """The names of a function that a literal "cpu" goes into: as an argument, an item, or by what they hold."""
    found: set[str] = set()
    statements = [
        node
        for node in source.walk(scope)
        if isinstance(node, (ast.Assign, ast.Expr)) and isinstance(node.value, ast.expr)
    ]
    for _ in range(_DEPTH):
        before = len(found)
        for statement in statements:
            value = statement.value
            if not _holds(value, found):
                if isinstance(statement, ast.Assign) and found.intersection(_roots(statement.targets)):
                    found.update(_roots([value]))  # `config = params["config"]`: both have it
                continue
            if isinstance(statement, ast.Assign):
                found.update(_roots(statement.targets))
            elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                found.update(_roots([value.func.value]))
        if len(found) == before:
            break
    return found


def _holds(value: ast.expr, told: set[str]) -> bool:
    """Does a value have a literal "cpu" in it, other than as a place to load to or in a choice?"""
    if isinstance(value, (ast.IfExp, ast.Compare, ast.BoolOp)):
        return False
    if isinstance(value, ast.Constant):
        return value.value == "cpu"
    if isinstance(value, ast.Name):
        return value.id in told
    if isinstance(value, ast.Call):
        last = dotted(value.func).rpartition(".")[2] or getattr(value.func, "attr", "")
        if last in ("to", "load"):
            return False
        parts = [*value.args, *(k.value for k in value.keywords if k.arg != "map_location")]
        if isinstance(value.func, ast.Attribute):
            parts.append(value.func.value)
        return any(_holds(part, told) for part in parts)
    return any(_holds(part, told) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))


def _roots(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        if isinstance(node, ast.Name):
            yield node.id


# --- the module --------------------------------------------------------------------------------


def _known(flow: Flow, event: Event) -> bool:
    """Is it a module of a library, called as such?"""
    value = event.value
    if event.detail not in _RUN and not value.name.startswith("transformers."):
        func = value.node.func if isinstance(value.node, ast.Call) else None
        if func is None or not flow.source.qualified(func).startswith("transformers."):
            return False
    return value.kind is Kind.MODULE and _library(flow, value.node, value.name)


def _library(flow: Flow, call: ast.AST | None, name: str) -> bool:
    if isinstance(call, ast.Call):
        name = flow.source.qualified(call.func) or name
    if not name.startswith(_LIBRARIES) or name in torch_api.WRAPS or name in torch_api.MODULE_BASES:
        return False
    if name not in torch_api.CONTAINERS or not isinstance(call, ast.Call):
        return name not in torch_api.CONTAINERS
    first: list[ast.expr] = [
        part for one in call.args for part in (one.elts if isinstance(one, ast.List) else [one])
    ]
    return bool(first) and all(isinstance(part, ast.Call) and _library(flow, part, "") for part in first)


def _fed(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """Is a module out of sight, which is moved here, called on what is plainly data, made here as well?"""
    if event.detail not in _RUN or not _moved_here(flow, event):
        return False
    value = meeting.value
    if value.source.endswith("a DataLoader") and value.kind is Kind.TENSOR:
        return True
    return _plain(flow, event, meeting.node, 0)


def _plain(flow: Flow, event: Event, node: ast.expr, depth: int) -> bool:
    """Is it floating data that the function makes?"""
    for one in made(flow, event.scope.node, node):
        while isinstance(one, (ast.Call, ast.Subscript)):
            if isinstance(one, ast.Subscript):
                one = one.value
                continue
            name = flow.source.qualified(one.func)
            if name in _DATA or name in torch_api.FROM_HOST:
                return True
            if not isinstance(one.func, ast.Attribute):
                break
            if one.func.attr in _WHOLE:
                return False
            one = one.func.value
        if isinstance(one, ast.Call) and flow.value(one).source in torch_api.ARRAY_CALLS.values():
            return True  # an image through a transform
        if isinstance(one, ast.Name) and one is not node and depth < _DEPTH:
            return _plain(flow, event, one, depth + 1)
    return False


def _of_module(flow: Flow, event: Event) -> bool:
    """A tensor that is said to be on a device as a method of a module out of sight gave it may be anywhere."""
    value = event.value
    if not value.source.startswith("the output of `") or not isinstance(value.node, ast.Call):
        return True
    func = value.node.func
    if not isinstance(func, ast.Attribute) or func.attr in _RUN or dotted(func.value) == "self":
        return True
    owner = flow.value(func.value).kind
    return owner not in (Kind.MODULE, Kind.PART, Kind.INSTANCE) or flow.value(func).kind is Kind.MODULE


# --- the input ---------------------------------------------------------------------------------


def _counts(meeting: Meeting) -> bool:
    names = [meeting.name, *(dotted(part) for part in walk(meeting.node) if isinstance(part, ast.expr))]
    return any(name and COUNTS.search(name) for name in names)


def _length_of_ctc(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """`ctc_loss` takes the lengths of its inputs and targets wherever they are."""
    call = event.node
    if not isinstance(call, ast.Call):
        return False
    path = dotted(call.func)
    if not path.endswith("ctc_loss") and path not in _losses_of_ctc(flow.source):
        return False
    lengths = [*call.args[2:4], *(k.value for k in call.keywords if (k.arg or "").endswith("_lengths"))]
    return meeting.node in lengths


@remembered
def _losses_of_ctc(source: Source) -> frozenset[str]:
    """What a `CTCLoss` is bound to anywhere in the file."""
    return frozenset(
        path
        for node in source.of_kind(ast.Assign)
        if isinstance(node.value, ast.Call) and dotted(node.value.func).endswith("CTCLoss")
        for path in map(dotted, node.targets)
        if path
    )


def _element(flow: Flow, event: Event, node: ast.expr) -> ast.Subscript | None:
    """`y[0]` of `y[0].float()`, or of a name that is bound to it."""
    for one in made(flow, event.scope.node, node):
        while isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and not one.args:
            one = one.func.value
        if isinstance(one, ast.Subscript) and not isinstance(one.slice, (ast.Slice, ast.Tuple)):
            at = one.slice
            if not isinstance(at, ast.Constant) or isinstance(at.value, int):
                return one
    return None


def _one_element(flow: Flow, event: Event, node: ast.expr) -> bool:
    """Is it the element of what is made of a list of one number: `f(torch.tensor([x]))[0]`?"""
    found = _element(flow, event, node)
    if found is None:
        return False
    one: ast.expr = found.value
    while isinstance(one, ast.Call) and one.args:
        one = one.args[0]
    return (
        isinstance(one, ast.List)
        and len(one.elts) == 1
        and not isinstance(one.elts[0], (ast.List, ast.Starred))
    )
