"""The device that belongs in the place of CUDA by name: of what the value meets, or the one that is in scope."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class, Function
from devfix.engine.named import Named, is_choice
from devfix.engine.places import AT, LITERAL, OF, UNKNOWN, VAR, Place, of_process
from devfix.engine.values import BATCH, CALLER, LOCAL, MODULE, TENSOR
from devfix.engine.visible import is_gpu_list
from devfix.models import frameworks
from devfix.repair.candidates import exact_at
from devfix.repair.expressible import devices_at, expressible
from devfix.text.bindings import bound, function_around
from devfix.text.names import is_local, path_of, stores
from devfix.text.placing import around, bound_before
from devfix.text.source import FunctionNode, Source

_OPTIONS = re.compile(
    r"^(?:self\.)?(?:args|opts?|cfg|config|params|hparams|options|training_args|flags)\.device$", re.I
)
# Methods that make or move a module: there a device may be chosen.
_MAKES = ("init", "new__", "to_", "cuda", "load", "from_", "build", "create", "save", "setup", "export")
_SHAPED = frozenset(
    ["shape", "ndim"]
    + [
        f"{name}()"
        for name in ("size", "view", "reshape", "dim", "numel", "unsqueeze", "transpose", "permute")
    ]
)
# Bases whose objects say by `self.device` where they are.
OWN_DEVICE = ("Brain", "LightningModule", "PreTrainedModel", "ModelMixin", "Pretrained")
_SURE = frozenset({CALLER})
_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.ListComp)


@dataclass(frozen=True, eq=False)
class Known:
    """A device that can be written in the place of a name: `sure` is beyond doubt, `node` where it comes from.

    `what` it is of; `given`: a caller says where that is; `machine`: it is CUDA where there is CUDA.
    """

    text: str
    what: str
    sure: bool = False
    node: ast.AST | None = None
    given: bool = False

    @property
    def is_module(self) -> bool:
        return self.text.startswith("next(")


# --- what it meets -----------------------------------------------------------------------------


def met_by(one: Named, analysis: Analysis) -> Known | None:
    """Where a value belongs by what it meets; None where nothing tells."""
    best: Known | None = None
    for met in (*one.meets, *(met for peer in analysis.named.peers.get(one, ()) for met in peer.meets)):
        found = _of(met, one, analysis)
        if found is not None and (
            best is None or (found.sure and not best.sure) or (best.is_module and not found.is_module)
        ):
            best = found
    return best


def sized_by(one: Named, analysis: Analysis) -> Known | None:
    """A tensor of the caller that the value takes its size from: `torch.zeros(x.size(0)).cuda()`."""
    size = one.value.like
    if size is None or size.like is None or size.like.place.kind not in (OF, AT):
        return None
    text = expressible(analysis.file.source, size.like.place, one.scopes, one.node)
    name = text.removesuffix(".device")
    return Known(text, name, given=True) if text and name.isidentifier() else None


def _of(met: Mismatch, one: Named, analysis: Analysis) -> Known | None:
    source, place, node = analysis.file.source, met.anchor_place, met.anchor_node
    unknown = (UNKNOWN,) if met.anchor.kind == MODULE else ()
    if place.kind not in (VAR, OF, AT, *unknown) or not isinstance(node, ast.expr):
        return None
    if met.anchor.kind not in (TENSOR, BATCH, MODULE) or met.stray.kind == MODULE:
        return None
    text = exact_at(met, analysis, one.node)
    own = met.function is not None and met.function.node is function_around(source, one.node)
    if met.anchor.kind == MODULE and place.kind != VAR:
        path = _module(met, source) if own else ""
        if path and bound_before(source, ast.parse(path, mode="eval").body, source.statement(one.node)):
            text = f"next({path}.parameters()).device"
        elif not text.startswith("next("):
            return None  # of one of its parameters, say
    if not text or text.startswith('"') or (source.code(one.node) in text):
        return None
    what = text.removeprefix("next(").removesuffix(".parameters()).device").removesuffix(".device")
    path = path_of(node)
    uses = analysis.uses(met.function).attributes if met.function is not None else {}
    shaped = met.strict or met.anchor.rank == 1 or not _SHAPED.isdisjoint(uses.get(path or what, ()))
    proven = {one.kind for one in met.assumed} <= _SURE and shaped
    sure = proven and (met.anchor.kind != MODULE or place.kind == VAR) and _is_always(met, one, source)
    here = node if met.file is analysis.file else None
    what = source.code(here) if place.kind == VAR and here is not None else what
    return Known(text, what, sure, here, _is_given(place))


def _is_given(place: Place) -> bool:
    key = place.key
    return isinstance(key, tuple) and key[0] in ("parameter", "self", "attribute", "item", "element")


def _module(met: Mismatch, source: Source) -> str:
    """The module that is run: `net` of `net(x)`, of `net.generate(x)` and of `torch.onnx.export(net, x)`."""
    node, call = met.anchor_node, met.node
    if isinstance(call, ast.Call) and node is call.func and source.qualified(call.func) and call.args:
        node = call.args[0]
    return path_of(node) if node is not None else ""


def _is_always(met: Mismatch, one: Named, source: Source) -> bool:
    """Is the meeting reached whenever the place is? Then the two raise on different devices."""
    here, meeting = source.statement(one.node), met.running[0][1]
    between = takewhile(lambda up: not isinstance(up, ast.stmt), source.ancestors(met.node))
    if met.file.source is not source or any(isinstance(up, _SOMETIMES) for up in between):
        return False
    if meeting is here:
        return not isinstance(here, (ast.If, ast.While, ast.For))
    opened = takewhile(lambda up: isinstance(up, (ast.With, ast.AsyncWith)), around(source, meeting)[1:])
    return any(up in source.block(here) for up in (meeting, *opened))


# --- what is in scope --------------------------------------------------------------------------


def in_scope(one: Named, analysis: Analysis) -> Known | None:
    """The device that is in scope where a value is put on CUDA: the nearest one, or None."""
    source = analysis.file.source
    terms = [
        term
        for term in devices_at(source, one.scopes, one.node)
        if not term.place.on_host
        and term.place.kind != LITERAL
        and (term.place != of_process(LOCAL) or analysis.is_device_name(term.text.rpartition(".")[2]))
    ]
    function = function_around(source, one.node)
    while function is not None:
        for term in terms:
            if is_local(source, function, term.text) and not _is_result(source, function, term.text):
                return _term(term.text, term.place, analysis, one.node)
        options = _owner(source, function, source.statement(one.node))
        options = options or _option(source, function, source.statement(one.node))
        if options:
            return Known(options, f"`{options}`")
        found = _of_self(function, [term.text for term in terms], analysis)
        if found:
            place = next((term.place for term in terms if term.text == found), Place(AT))
            return _term(found, place, analysis, one.node)
        function = function_around(source, function)
    inside = function_around(source, one.node) is not None
    for term in terms:
        found_at = [] if "." in term.text else stores(source, source.tree, term.text)
        # A script's own variable is no variable of the functions above `if __name__ ...`.
        if "." not in term.text and not (inside and any(_is_of_script(source, at) for at in found_at)):
            return _term(term.text, term.place, analysis, one.node)
    at = source.statement(one.node)
    options = _owner(source, source.tree, at) or ("" if inside else _option(source, source.tree, at))
    return Known(options, f"`{options}`") if options else None


def _term(text: str, place: Place, analysis: Analysis, at: ast.AST) -> Known:
    found = bound(analysis.file.source, text, at)
    node = found[0].node if found else None
    return Known(text, f"`{text}`", len(found) == 1 and is_of_machine(place, analysis), node)


def is_of_machine(place: Place, analysis: Analysis) -> bool:
    """Is a device `"cuda" if torch.cuda.is_available() else ..`, and nothing else?"""
    if place.kind != VAR or place.key not in analysis.asked:
        return False
    chosen = next((one for one in analysis.file.source.of_kind(ast.IfExp) if id(one) == place.key), None)
    return chosen is not None and is_choice(analysis.file, chosen)


def _is_of_script(source: Source, node: ast.AST) -> bool:
    outer = source.enclosing(node, ast.If)
    return isinstance(outer, ast.If) and "available" not in source.code(outer.test)


def _is_result(source: Source, function: FunctionNode, name: str) -> bool:
    """Is a parameter only where the result goes, or a place to offload to?"""
    uses = [
        one for one in source.of_kind(ast.Name, function) if one.id == name and isinstance(one.ctx, ast.Load)
    ]
    given = not stores(source, function, name)
    return given and bool(uses) and all(isinstance(source.statement(use), ast.Return) for use in uses)


def _option(source: Source, scope: ast.AST, at: ast.stmt) -> str:
    """`args.device`, `accelerator.device` or `config["device"]`, where the same function uses it already."""
    home = None if isinstance(scope, ast.Module) else scope
    for node in source.of_kind(ast.Attribute, scope):
        path = path_of(node) if node.attr == "device" and isinstance(node.ctx, ast.Load) else ""
        path = path if function_around(source, node) is home and not is_gpu_list(source, node) else ""
        if path and _OPTIONS.match(path) and bound_before(source, node, at):
            return path
    for entry in source.of_kind(ast.Subscript, scope):
        key = entry.slice
        if isinstance(key, ast.Constant) and key.value == "device" and path_of(entry.value):
            if (
                isinstance(entry.ctx, ast.Load)
                and function_around(source, entry) is home
                and _is_taken(source, entry)
                and bound_before(source, entry, at)
            ):
                return source.code(entry)
    for statement in source.of_kind(
        ast.Assign, scope
    ):  # SpeechBrain's: `_, run_opts, _ = sb.parse_arguments(..)`
        target, value = statement.targets[0], statement.value
        if isinstance(value, ast.Call) and isinstance(target, ast.Tuple) and len(target.elts) == 3:
            name = target.elts[1]
            if isinstance(name, ast.Name) and path_of(value.func).rpartition(".")[2] == "parse_arguments":
                if (
                    function_around(source, statement) is home
                    and source.span(statement).end <= source.span(at).start
                ):
                    return f'{name.id}["device"]'
    return ""


def _owner(source: Source, scope: FunctionNode | ast.Module, at: ast.stmt) -> str:
    """`accelerator.device` of a framework's object that places modules: made here, or given under that name."""
    if not isinstance(scope, ast.Module):
        arguments = scope.args
        given = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        name = next((name for name in given if name in ("accelerator", "fabric")), "")
        if name:
            return f"{name}.device"
    for statement in source.of_kind(ast.Assign, scope):
        path, value = path_of(statement.targets[0]), statement.value
        if (
            isinstance(value, ast.Call)
            and function_around(source, statement) is (None if isinstance(scope, ast.Module) else scope)
            and source.qualified(value.func) in frameworks.OWNERS
            and path.isidentifier()
        ):
            if bound_before(source, ast.parse(path, mode="eval").body, at):
                return f"{path}.device"
    return ""


def _is_taken(source: Source, node: ast.expr) -> bool:
    """Is an expression used as a device: `x.to(it)`, `f(device=it)`, `it == "cpu"`?"""
    up = source.parents[node]
    if isinstance(up, ast.keyword):
        return up.arg == "device"
    if isinstance(up, ast.Compare):
        return any(isinstance(one, ast.Constant) and one.value == "cpu" for one in up.comparators)
    if not isinstance(up, ast.Call) or node not in up.args:
        return False
    return (isinstance(up.func, ast.Attribute) and up.func.attr == "to") or source.qualified(
        up.func
    ) == "torch.device"


def _of_self(function: FunctionNode, texts: list[str], analysis: Analysis) -> str:
    """What the object of a method says: `self.device`."""
    made = analysis.file.of_node.get(function)
    owner = made.owner if isinstance(made, Function) else None
    if (
        owner is None
        or made is None
        or function.name in ("__init__", "__new__")
        or not isinstance(made, Function)
    ):
        return ""
    me = made.positional[0] if made.positional and not made.static and not made.of_class else ""
    if me != "self":
        return ""
    bases = [base.rpartition(".")[2] for base in owner.outside]
    if any(base.endswith("DiffusionPipeline") for base in bases):
        return "self._execution_device"  # offloaded pipelines are on the CPU, and run elsewhere
    if any(base.endswith(OWN_DEVICE) for base in bases):
        return "self.device"
    for name in ("device", "_device"):
        known = owner.method(name)
        if known is not None and known.is_property:
            return f"self.{name}" if known.node is not function else ""
    return next((text for text in texts if text.startswith("self.")), "")


# --- what is chosen by the machine -------------------------------------------------------------

# Decorators that leave it open where a module is.
_HARMLESS = ("no_grad", "inference_mode", "eval_decorator", "torch_no_grad")


def chosen(analysis: Analysis) -> Iterator[tuple[ast.expr, Known]]:
    """`"cuda" if torch.cuda.is_available() else "cpu"` in a method of a module, with where its input, or itself, is."""
    source = analysis.file.source
    for node in source.of_kind(ast.IfExp):
        if id(node) not in analysis.asked or not is_choice(analysis.file, node):
            continue
        around_it = function_around(source, node)
        function = analysis.file.of_node.get(around_it) if around_it is not None else None
        owner = function.owner if isinstance(function, Function) else None
        if owner is None or not isinstance(function, Function) or not _is_module(owner, analysis):
            continue
        if function.name.lstrip("_").startswith(_MAKES) or not set(function.decorators) <= set(_HARMLESS):
            continue
        outer = source.parents[node]
        is_whole = isinstance(outer, ast.Call) and source.qualified(outer.func) == "torch.device"
        whole = outer if is_whole and isinstance(outer, ast.expr) else node
        if _places(source, function.node, whole):
            found = _home(function, owner, analysis)
            if found is not None:
                yield whole, found


def _is_module(owner: Class, analysis: Analysis) -> bool:
    return analysis.class_kind(owner) in ("module", "owned") or analysis.classes.is_module(owner)


def _places(source: Source, function: FunctionNode, node: ast.expr) -> bool:
    """Does a device go to what is made or moved in this function, and not to the module itself?"""
    up = source.parents[node]
    if isinstance(up, ast.Assign) and len(up.targets) == 1 and isinstance(up.targets[0], ast.Name):
        name = up.targets[0].id
        uses = [
            one for one in source.of_kind(ast.Name, function) if one.id == name and one is not up.targets[0]
        ]
        return bool(uses) and all(isinstance(one.ctx, ast.Load) and _takes(source, one) for one in uses)
    return _takes(source, node)


def _takes(source: Source, node: ast.expr) -> bool:
    up = source.parents[node]
    if isinstance(up, ast.keyword):
        return up.arg == "device"
    if (
        isinstance(up, ast.Call)
        and node in up.args
        and isinstance(up.func, ast.Attribute)
        and up.func.attr == "to"
    ):
        return not path_of(up.func.value).startswith("self")
    return False


def _home(function: Function, owner: Class, analysis: Analysis) -> Known | None:
    """The device of a tensor that a method is given, else of the module."""
    known, source = analysis.known(function), analysis.file.source
    tensors = [name for name in function.positional if known.get(name, ("",))[0] == TENSOR]
    # One that is still what the caller gave tells it best.
    tensors.sort(key=lambda name: bool(stores(source, function.node, name)))
    if tensors:
        return Known(f"{tensors[0]}.device", f"`{tensors[0]}` is")
    if any(base.rpartition(".")[2].endswith(OWN_DEVICE) for base in owner.outside):
        return Known("self.device", "the module is")
    has = analysis.classes.has_state(analysis.classes.state(owner), analysis.classes.cell(owner), owner)
    return Known("next(self.parameters()).device", "the module is") if has else None
