"""Modules left behind where another one of their kind is moved, or where they are made per call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.findings import AppendCall, Edit, Safety
from devfix.flow import Flow, torch_api
from devfix.flow.events import Event, What
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Where
from devfix.flow.methods import MOVES
from devfix.placing import about_devices, bound_before, rebound, stores
from devfix.source import walk
from devfix.unmoved.insertion import changes, own_move
from devfix.unmoved.plan import made_at
from devfix.unmoved.uses import Use, reads, use_of
from devfix.unmoved.weights import maker, weighted

_MOVED_MAKER = re.compile(r"\)\s*\.(?:to|cuda)\(")
LAYERS = (
    "Linear", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "LSTM", "GRU", "Embedding", "MultiheadAttention",
    "Bilinear", "PReLU", "InstanceNorm2d",
)  # fmt: skip
_MADE = re.compile(r"\b[A-Z]\w+\(")
_LAYER_MADE = re.compile(rf"\b(?:{'|'.join(LAYERS)})\w*\(")
# Words without which a file has no module of a library.
_LIBRARIES = ({name.partition(".")[0] for name in torch_api.LIBRARY_MODULES} - {"torch"}) | {"quantization"}
_TRAINS = ("train", "fit", "finetune", "fine_tune")


@dataclass(frozen=True)
class Left:
    """A module that is left behind: the expression that makes it, why, and the edits that move it."""

    made: ast.expr
    name: str
    why: str
    other: ast.AST
    device: str
    edits: tuple[Edit, ...]
    safety: Safety = Safety.UNSAFE


# --- one arm moves, the other does not -------------------------------------------------------


def one_armed(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """`if resume: model = Net() else: model = Net().to(device)`, and no move further down."""
    if "else:" not in flow.source.text or _MOVED_MAKER.search(flow.source.text) is None:
        return
    for node in _branches(flow.source.tree):
        body, other = _made_in(node.body), _made_in(node.orelse)
        for name in body.keys() & other.keys():
            for left, moved in ((body[name], other[name]), (other[name], body[name])):
                if move_of(moved) is None or move_of(left) is not None or about_devices(node.test):
                    continue
                left_arm = node.body if left is body[name] else node.orelse
                found = _arm(flow, bindings(), name, left, moved, left_arm)
                if found is not None:
                    yield found


def _branches(tree: ast.Module) -> Iterator[ast.If]:
    """The `if` statements of a file that have an `else`; no expression is looked at, to save time."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and node.orelse:
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, field, None)
            if block.__class__ is list:
                todo.extend(block)


def _made_in(block: list[ast.stmt]) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for statement in block:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and isinstance(statement.value, ast.Call):
                found[target.id] = statement.value
    return found


def _arm(
    flow: Flow, bindings: Bindings, name: str, left: ast.expr, moved: ast.expr, arm: list[ast.stmt]
) -> Left | None:
    source = flow.source
    move = move_of(moved)
    if move is None or not isinstance(move.func, ast.Attribute):
        return None
    made, other = maker(flow, left), maker(flow, move.func.value)
    if made is None or other is None or ast.unparse(made.func) != ast.unparse(other.func):
        return None
    if not path_of(made.func).rpartition(".")[2][:1].isupper():
        return None
    if any(k.arg in ("device", "device_map") for k in made.keywords):
        return None
    scope = function_around(source, left) or source.tree
    start, end = source.span(left).end, source.span(arm[-1]).end
    for read in reads(flow, bindings, name, scope):
        at = source.span(read).start
        if at < start:
            continue
        use = use_of(flow, bindings, read, len(source.text))
        if use is Use.MOVED or (use is Use.ESCAPES and at < end) or _handed_on(flow, read):
            return None
    value = flow.value(left)
    known = value.kind is Kind.MODULE and value.place.where is Where.DEFAULT and not value.bare
    if not known and not (value.kind is Kind.UNKNOWN and looks_like_module(name)):
        return None
    for argument in (*move.args, *[k.value for k in move.keywords]):
        if not bound_before(source, argument, source.statement(left)):
            return None
    suffix = source.text[source.span(move.func.value).end : source.span(move).end]
    why = f"`{name}` is moved in the other branch, but not here, and nothing moves it further down"
    return Left(left, name, why, moved, suffix, (AppendCall(source.span(left), suffix),))


def _handed_on(flow: Flow, read: ast.expr) -> bool:
    """Is the module given to a framework that places it?"""
    parent = flow.source.parents[read]
    return isinstance(parent, ast.Call) and "prepare" in ast.unparse(parent.func)


def move_of(node: ast.expr) -> ast.Call | None:
    """The move that ends a chain: `Net(...).eval().to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in MOVES and node.func.attr != "cpu":
            return node
        node = node.func.value
    return None


# --- handed over together with a device ------------------------------------------------------


def handed_over(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """`calc_loss(batch, model, device)` of a module never moved, where others of its class are moved."""
    moved: dict[str, Event] = {}
    placed: set[int] = set()
    for event in flow.events(What.MOVE):
        placed.update((event.value.identity, *event.value.arms))
        if event.detail == "module" and event.value.name and event.place and event.place.on_device:
            moved.setdefault(event.value.name, event)
    source = flow.source
    seen: set[ast.expr] = set()
    for event in flow.events(What.USE):
        if not event.detail.startswith("passed to") or event.value.bare or event.via:
            continue
        if not placed.isdisjoint((event.value.identity, *event.value.arms)):
            continue
        name, place = event.value.name, flow.value(event.node).place
        if place.where is not Where.DEFAULT or event.scope.host or event.scope.owned:
            continue
        call = source.parents.get(event.node)
        call = source.parents.get(call) if isinstance(call, ast.keyword) else call
        if not isinstance(call, ast.Call) or not _computes(path_of(call.func)):
            continue
        if name not in moved and path_of(call.func).rpartition(".")[2].startswith(_TRAINS):
            continue  # these often move the model first
        given = [*call.args, *[keyword.value for keyword in call.keywords]]
        devices = [a for a in given if flow.value(a).kind is Kind.DEVICE and path_of(a)]
        if any(flow.value(device).place.where is Where.CPU for device in devices):
            continue
        made = made_at(flow, bindings(), replace(event, node=call)) if len(devices) == 1 else None
        if made is None or len(made.values) != 1 or made.values[0] in seen:
            continue
        if made.scope is not event.scope.node or not weighted(flow, made.values[0], made.path):
            continue
        value, device = made.values[0], devices[0]
        seen.add(value)
        text = source.code(device)
        fits = bound_before(source, device, source.statement(value)) and not rebound(
            source, [device], value, call
        )
        edits: tuple[Edit, ...] = (AppendCall(source.span(value), f".to({text})"),)
        if changes(replace(event, node=call)) or not fits:
            own = own_move(source, made.path, text, made.values, event)
            edits = (own,) if own is not None else ()
        why = (
            f"`{made.path}` is handed to `{path_of(call.func)}` together with `{text}`, but nothing moves it "
            "there"
        )
        why += f", as another `{name.rpartition('.')[2]}` is" if name in moved else ""
        other = moved[name].node if name in moved else call
        yield Left(value, made.path, why, other, f".to({text})", edits)


def _computes(path: str) -> bool:
    """Does a function's name say that it runs the model: a loss, a step, an evaluation?"""
    last = path.rpartition(".")[2].lower()
    return last.startswith(
        ("train", "fit", "calc", "compute", "eval", "validate", "test", "predict", "infer", "generate")
    ) or ("loss" in last or last.endswith("_step"))


# --- made where it is run --------------------------------------------------------------------


def made_per_call(flow: Flow) -> Iterator[Left]:
    """`obs = Observer(); obs(w)` in a function that runs on a device: the module goes where `w` is."""
    source = flow.source
    if "def forward" not in source.text and ".cuda()" not in source.text:
        return
    library = any(word in source.text for word in _LIBRARIES)
    made = _MADE if library else _LAYER_MADE
    if not any(
        made.search(code)
        for one in source.definitions
        if not isinstance(one, ast.ClassDef)
        for code in [source.code(one)]
        if one.name == "forward" or ".cuda()" in code
    ):
        return
    for call in source.calls:
        func = call.func
        last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if not (last[:1].isupper() if library else last.startswith(LAYERS)):
            continue
        name = source.qualified(func)
        if not _has_weights(name, last) or any(k.arg in ("device", "factory_kwargs") for k in call.keywords):
            continue
        function = function_around(source, call)
        if function is None or not _runs_on_device(flow, function):
            continue
        run = _run_of(flow, call, function)
        tensor = _parameter_of(source.parents, run.args[0], function) if run is not None and run.args else ""
        if run is None or not tensor:
            continue
        met = source.code(run.args[0])
        why = f"`{source.code(func)}` is made on the CPU in each call, but is run on `{met}`"
        safe = Safety.SAFE if not stores(source, function, tensor) else Safety.UNSAFE
        edits = (AppendCall(source.span(call), f".to({tensor}.device)"),)
        yield Left(call, last, why, run, f".to({tensor}.device)", edits, safe)


def _has_weights(name: str, last: str) -> bool:
    if name.startswith(torch_api.LIBRARY_MODULES):
        return not last.startswith("AmplitudeToDB")
    return (
        name.startswith("torch.nn.")
        and name.count(".") == 2
        and name not in torch_api.BARE_MODULES
        and name not in torch_api.CONTAINERS
        and last.startswith(LAYERS)
    )


def _runs_on_device(flow: Flow, function: FunctionNode) -> bool:
    """Is a function run on a device: the forward of a module, or next to a `.cuda()`?"""
    owner = flow.source.parents[function]
    if function.name == "forward" and isinstance(owner, ast.ClassDef):
        return any(path_of(base).rpartition(".")[2] in ("Module", "Function") for base in owner.bases)
    return ".cuda()" in flow.source.code(function) and not isinstance(owner, ast.ClassDef)


def _run_of(flow: Flow, made: ast.Call, function: FunctionNode) -> ast.Call | None:
    """The call that runs a module made in a function, if that is all that happens to it."""
    source = flow.source
    parent = source.parents[made]
    if isinstance(parent, ast.Call) and parent.func is made:
        return parent
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    if not isinstance(target, ast.Name) or len(stores(source, function, target.id)) > 4:
        return None
    block = source.block(parent)
    runs: list[ast.Call] = []
    for statement in block[block.index(parent) + 1 :]:
        for node in walk(statement):
            if not isinstance(node, ast.Name) or node.id != target.id:
                continue
            if not isinstance(node.ctx, ast.Load):
                return runs[0] if runs else None
            if use_of(flow, None, node, 0) is Use.MOVED:
                return None
            up = source.parents[node]
            if isinstance(up, ast.Call) and up.func is node:
                runs.append(up)
    return min(runs, key=lambda run: (run.lineno, run.col_offset), default=None)


def _parameter_of(parents: dict[ast.AST, ast.AST], node: ast.expr, function: FunctionNode) -> str:
    """`w` of `w.float()`: the parameter of the function that an argument is, kept where it is."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in (*MOVES, "numpy", "size", "dim"):
            return ""
        node = node.func.value
    given = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    return node.id if isinstance(node, ast.Name) and node.id in given and node.id != "self" else ""
