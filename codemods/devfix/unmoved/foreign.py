"""Networks made by functions out of sight, `net = vgg16_bn()`: their uses say what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.findings import AppendCall, Edit
from devfix.flow import Flow
from devfix.flow.evidence import looks_like_device, looks_like_loader, looks_like_loss, looks_like_pipeline
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Place, Where
from devfix.placing import bound_before, dotted, expects_error, rebound
from devfix.source import Source
from devfix.unmoved.others import Left, move_of
from devfix.unmoved.plan import given_device, plain_owner, set_before, visible
from devfix.unmoved.uses import Use, handed, reads, use_of
from devfix.unmoved.weights import maker, weighted

# What only modules with weights have; a file without these words has no such network.
_PROOF = r"(?:parameters|named_parameters|train|eval|state_dict|load_state_dict)\("
_PROVES = re.compile(rf"(?<![\w.])((?:self\.)?\w+)\.{_PROOF}")
_METHODS = frozenset({"forward", "generate", "encode", "decode", "predict"})
# Functions that run the model that they are given on the other arguments.
_RUNS = re.compile(r"^(?:apply|run|infer|predict|generate|forward)(?:_|$)|_(?:apply|infer|predict|forward)$")
# Makers that may put what they make on a device, by their name or by what they are given.
_PLACES = re.compile(
    r"load(?!er)|init|restore|prepare|set_?up|wrap|cuda|gpu|device|dist|parallel|pipe|session|client|engine|"
    r"agent|trainer|runner|policy|predictor|detector|onnx|compile|jit|quant|deepcopy|copy$|clone",
    re.IGNORECASE,
)
# What leaves the module that it wraps where it is.
_WRAPS = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.compile",
    }
)
_GENERIC = re.compile(
    r"get|build|create|make|factory|fetch|model|construct|new_|instantiate|^net|network", re.I
)
_TOLD = re.compile(r"device|cuda|gpu|rank|accelerat|fabric|distrib|\bcpu\b", re.IGNORECASE)
_OPTIONS = re.compile(
    r"^(?:self|(?:self\.)?_?(?:\w+_)?(?:args|opts?|options|cfg|conf|config|hparams|flags|params|settings|kwargs|parser))$",
    re.IGNORECASE,
)


def made_elsewhere(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """A network whose maker is imported and told no device, run on what was moved, and never moved."""
    source = flow.source
    proved = set(_PROVES.findall(source.text))
    if not proved and "_model(model" not in source.text:
        return
    functions = {one.name: one for one in source.definitions if not isinstance(one, ast.ClassDef)}
    owned = {scope.node for scope in flow.scopes if scope.host or scope.owned}
    seen: set[ast.expr] = set()
    for call in sorted(source.calls, key=lambda one: (one.lineno, one.col_offset)):
        name, given = _run(call, proved)
        place: Place | None = None
        if not name and isinstance(call.func, ast.Name) and call.func.id in functions:
            name, place = _lent(flow, functions[call.func.id], call, proved)
        if not name or expects_error(source, call):
            continue
        function = function_around(source, call)
        if place is None:
            places = (_place(flow, bindings(), one) for one in given)
            place = next((one for one in places if _placed(one)), None)
        if place is None or function in owned:
            continue
        values = makers(flow, bindings(), name, call, place.where is not Where.ACCELERATOR)
        if not values or not seen.isdisjoint(values):
            continue
        seen.update(values)
        edits = _edits(flow, place, values, call)
        why = f"nothing moves `{name}`, which is made here, but it is run on what is on `{place.text}`"
        yield Left(values[-1], name, why, call, _suffix(place), edits)


def _run(call: ast.Call, proved: set[str]) -> tuple[str, list[ast.expr]]:
    """The name of the network that a call runs, and what it is given."""
    func, given = call.func, [*call.args, *(one.value for one in call.keywords)]
    path = path_of(func)
    if path in proved:
        return path, given
    owner, _, last = path.rpartition(".")
    if owner in proved and last in _METHODS:
        return owner, given
    if call.args and isinstance(call.args[0], ast.Name) and _RUNS.search(last):
        first = call.args[0].id
        if first in proved or (first == "model" and last.endswith("_model")):
            return first, given[1:]
    return "", []


def _place(flow: Flow, bindings: Bindings, node: ast.expr) -> Place:
    """Where an argument is; of a name of which nothing else is known, what its function moves it to."""
    known = flow.value(node)
    if known.kind is not Kind.UNKNOWN or not isinstance(node, ast.Name):
        return known.place
    function = function_around(flow.source, node)
    for binding in bindings.within(function, node.id) if function is not None else ():
        value = binding.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
            text = dotted(value.args[0]) if value.args else ""
            if looks_like_device(text):
                return Place(Where.SYMBOL, text)
    return known.place


def _placed(place: Place) -> bool:
    if place.guarded or not place.text:
        return False
    return given_device(place) or (place.on_device and place.where in (Where.ACCELERATOR, Where.SYMBOL))


def makers(
    flow: Flow, bindings: Bindings, name: str, run: ast.Call, told: bool, here: bool = False
) -> list[ast.expr]:
    """The calls that make the network, all out of sight; none if anything may have moved it.

    `told`: whoever builds the model would have to be told the device, as it has none of its own.
    `here`: it may be of a class in view as well.
    """
    source = flow.source
    if looks_like_loader(name) or looks_like_loss(name) or looks_like_pipeline(name):
        return []
    found = bindings.of(name, run)
    values: list[ast.expr] = []
    wraps: set[ast.AST] = set()
    for binding in found:
        value = binding.value
        if isinstance(value, ast.Constant) and value.value is None:
            continue
        if binding.parameter or value is None:
            return []
        if isinstance(value, ast.Call) and _wraps(flow, value, name):
            wraps.add(value)
            continue
        inner = _wrapped(source, value)
        if inner is not None:
            wraps.add(value)
        arms = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [inner or value]
        values += arms
    here = here or bool(wraps)  # flow does not follow what was wrapped
    if not all(_out_of_sight(flow, one, name) or (here and _fresh(flow, one, name)) for one in values):
        return []
    if not values:
        return []
    if not told and any(_GENERIC.search(_last(one)) and not _fresh(flow, one, name) for one in values):
        return []  # where all goes to CUDA, what builds the model may take it there
    homes = {function_around(source, value) or source.tree for value in values}
    scope = homes.pop()
    if name.startswith("self.") and not plain_owner(source, values[0]):
        return []
    if homes or any(isinstance(n, (ast.Global, ast.Nonlocal)) and name in n.names for n in source.walk()):
        return []
    same = scope is (function_around(source, run) or source.tree)
    before = source.span(run).start if same else len(source.text)
    for read in reads(flow, bindings, name, scope):
        up = source.parents[read]
        if _moved_inside(flow, bindings, read):
            return []
        if up is run or up in wraps or (isinstance(up, ast.Call) and _run(up, {name})[0]):
            continue
        if use_of(flow, bindings, read, before) is not Use.PLAIN:
            return []
    return values


def _moved_inside(flow: Flow, bindings: Bindings, read: ast.expr) -> bool:
    """Is the network handed to a function of the file that moves it, or may?"""
    call = flow.source.parents[read]
    call = flow.source.parents[call] if isinstance(call, ast.keyword) else call
    if not isinstance(call, ast.Call) or call.func is read or not isinstance(call.func, ast.Name):
        return False
    name, functions = call.func.id, (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = any(one.name == name and isinstance(one, functions) for one in flow.source.definitions)
    return inside and handed(flow, bindings, call, read, 0) is not Use.PLAIN


def _lent(flow: Flow, callee: FunctionNode, call: ast.Call, proved: set[str]) -> tuple[str, Place | None]:
    """`train(net, loader, device)`: a function of the file that runs the network on what it moves there."""
    source = flow.source
    if any(isinstance(one, ast.Starred) for one in call.args):
        return "", None
    names = [one.arg for one in (*callee.args.posonlyargs, *callee.args.args)]
    given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
    code = source.code(callee)
    net = next((p for p, a in given if path_of(a) in proved and re.search(rf"(?<![\w.]){p}\(", code)), "")
    for parameter, argument in given if net else ():
        device = dotted(argument)
        if looks_like_device(device) and re.search(rf"\.to\({parameter}\b", code):
            return next(path_of(a) for p, a in given if p == net), Place(Where.SYMBOL, device)
    return "", None


def _last(value: ast.expr) -> str:
    return path_of(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""


def _wrapped(source: Source, value: ast.expr) -> ast.Call | None:
    """What is made inside of `nn.DataParallel(Net())`."""
    if not isinstance(value, ast.Call) or not value.args or not isinstance(value.args[0], ast.Call):
        return None
    return value.args[0] if source.qualified(value.func) in _WRAPS else None


def _wraps(flow: Flow, value: ast.Call, name: str) -> bool:
    """`net = nn.DataParallel(net)`: what it wraps stays where it is."""
    wrap = flow.source.qualified(value.func) in _WRAPS
    return wrap and bool(value.args) and path_of(value.args[0]) == name


def _out_of_sight(flow: Flow, value: ast.expr, name: str) -> bool:
    """Is a network made by something imported that is told nothing of devices?"""
    source = flow.source
    call = maker(flow, value)
    if call is None or not isinstance(value, ast.Call) or move_of(value) is not None:
        return False
    known = flow.value(value)
    if known.kind not in (Kind.UNKNOWN, Kind.MODULE) or known.bare:
        return False
    if known.kind is Kind.MODULE and known.place.where not in (Where.UNKNOWN, Where.DEFAULT):
        return False
    made = source.qualified(call.func)
    if not made or made.startswith("torch.") or flow.imported(path_of(call.func)) is not None:
        return False
    last = made.rpartition(".")[2]
    if _PLACES.search(last):
        return made.startswith(".") and last == "load_model" and _plain(source, call)
    if (last[:1].isupper() or known.kind is Kind.MODULE) and not weighted(flow, value, name):
        return False
    return _plain(source, call) and not _TOLD.search(made)


def _fresh(flow: Flow, value: ast.expr, name: str) -> bool:
    """Is it a network in view, made on the CPU?"""
    known = flow.value(value)
    if known.kind is not Kind.MODULE or known.bare or known.place.where is not Where.DEFAULT:
        return False
    return move_of(value) is None and weighted(flow, value, name)


def _plain(source: Source, call: ast.Call) -> bool:
    """Is a maker given no device, and nothing that may hold one?"""
    for argument in (*call.args, *(one.value for one in call.keywords)):
        text = ast.unparse(argument)
        if _TOLD.search(text) or isinstance(argument, ast.Starred):
            return False
        if _OPTIONS.match(text) and (text == "self" or _holds_device(source, text)):
            return False
    return all(one.arg is not None and not _TOLD.search(one.arg) for one in call.keywords)


def _holds_device(source: Source, name: str) -> bool:
    """Does anything in the file read or set a device among these options?"""
    held = rf"{re.escape(name)}(?:\.|\[.)\w*(?:device|cuda|gpu|rank|dist)|--\w*-?(?:device|cuda|gpu)|[\"']device[\"']"
    return re.search(held, source.text, re.IGNORECASE) is not None


def _suffix(place: Place) -> str:
    if place.where is Where.ACCELERATOR and not place.key and place.text == '"cuda"':
        return ".cuda()"
    return f".to({place.text})"


def _edits(flow: Flow, place: Place, values: list[ast.expr], run: ast.Call) -> tuple[Edit, ...]:
    """The moves appended to the makers; none where the device has no name there."""
    source, suffix = flow.source, _suffix(place)
    expression = ast.parse(place.text, mode="eval").body
    for value in values:
        at = source.statement(value)
        if not visible(source, expression, value) or not bound_before(source, expression, at):
            return ()
        if "self." in place.text and not set_before(source, expression, at):
            return ()
        same = function_around(source, value) is function_around(source, run)
        if same and rebound(source, [expression], value, run):
            return ()
    return tuple(AppendCall(source.span(value), suffix) for value in values)
