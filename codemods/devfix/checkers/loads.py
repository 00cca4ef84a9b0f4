"""What is loaded from files: what becomes of it, and which place suits it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Flag, auto

from devfix.checkers.left_out import reads, settles_none
from devfix.engine.analysis import Analysis
from devfix.engine.evidence_of_loads import is_of_states, says
from devfix.engine.facts import Load
from devfix.engine.files import File, Function
from devfix.engine.transfer.loading import ARGUMENT
from devfix.engine.values import MODULE, OBJECT, OPTIMIZER, UNKNOWN
from devfix.models import torch_api
from devfix.repair.expressible import may_be_none
from devfix.text.placing import dotted
from devfix.text.source import FUNCTIONS, Source

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# A file that moves something, or names CUDA, may use what it loads on an accelerator.
_DEVICES = re.compile(r"\.cuda\(|[\"']cuda|\.to\(")


class Use(Flag):
    NONE = 0
    STATE = auto()  # goes into `load_state_dict`, which copies
    MODULE = auto()  # is run, or asked for what only a module has
    TENSOR = auto()  # is computed with
    PARAMETER = auto()  # becomes a parameter or buffer
    HOST = auto()  # goes to numpy, into a file, a converter or a data set: the CPU is where it is wanted
    OUT = auto()  # leaves the view: returned, stored, or passed to something else
    STORED = auto()  # among these: it is kept as it is, in an attribute
    READ = auto()  # is only looked at


# Names of functions and methods -> what they do with what they get, or are called on.
_BY_NAME = {
    Use.READ: "len print isinstance type str repr bool int float hasattr set sorted info debug warning warn error id "
    "min max sum any all iter keys update shape size dtype ndim dim numel move_to_end clear startswith endswith format "
    "__len__ replace split get pop append extend insert setdefault to cuda half double bfloat16 requires_grad_",
    Use.HOST: "numpy tolist item cpu",
    Use.PARAMETER: "Parameter register_buffer copy_ Buffer",
    Use.MODULE: "generate fuse module config",
}
_USES = {name: use for use, names in _BY_NAME.items() for name in names.split()}
_USES.update(dict.fromkeys(torch_api.MODULE_ONLY, Use.MODULE))
_OUTSIDE = (ast.Return, ast.Yield, ast.YieldFrom, ast.withitem, ast.Lambda)


@dataclass
class Uses:
    """All uses of what a call loads.

    `receivers` are what it is loaded into, `names` what it is bound to, in the order of the text; `moved`: it is moved,
    `has_states`: it is asked for an entry that only checkpoints have; `is_global`: a function binds it for others,
    which may call it once more when all is moved.
    """

    load: Load
    analysis: Analysis
    kinds: Use = Use.NONE
    receivers: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    moved: bool = False
    has_states: bool = False
    is_global: bool = False

    def __post_init__(self) -> None:
        here = self.analysis.file
        reached = [
            (node, file)
            for node, (file, held) in self.analysis.loaded.reached.items()
            if self.load.node in held
        ]
        for node, file in sorted(
            reached, key=lambda one: (one[1] is not here, one[0].lineno, one[0].col_offset)
        ):
            parent = file.source.parents.get(node)
            if parent is None:
                continue
            kinds = self._kinds(node, parent, file)
            for target in _targets(parent, node):
                kinds |= self._bound(target, file.source)
            function = file.source.enclosing(node, *FUNCTIONS)
            if (
                isinstance(function, FUNCTIONS)
                and says("restores", function.name)
                and not self._loads_in(function)
            ):
                kept = kinds & (Use.STATE | Use.HOST)
                kinds = kept if kinds is kept else kept | Use.OUT
            self.kinds |= kinds & ~Use.READ

    def has(self, kind: Use) -> bool:
        return bool(self.kinds & kind)

    def _loads_in(self, function: ast.AST | None) -> bool:
        return self.load.function is None or self.load.function.node is function

    def _kinds(self, node: ast.expr, parent: ast.AST, file: File) -> Use:
        up = file.source.parents.get(parent)
        if isinstance(parent, ast.Attribute):
            return self._attribute(parent, up)
        if isinstance(parent, ast.Call) or (isinstance(parent, ast.keyword) and isinstance(up, ast.Call)):
            call = parent if isinstance(parent, ast.Call) else up
            assert isinstance(call, ast.Call)
            return Use.MODULE if node is call.func else self._argument(call, file)
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            self.has_states |= says("entry", parent.slice.value)
        elif isinstance(parent, ast.Compare) and isinstance(parent.left, ast.Constant):
            self.has_states |= says("entry", parent.left.value)
        elif isinstance(parent, ast.Compare) and isinstance(parent.ops[0], _ORDERS):
            return Use.OUT  # it may be a tensor, compared with one of the device
        elif isinstance(parent, (ast.BinOp, ast.AugAssign)) or isinstance(
            getattr(parent, "op", None), ast.USub
        ):
            return Use.TENSOR
        elif isinstance(parent, _OUTSIDE) and self._loads_in(file.source.enclosing(node, *FUNCTIONS)):
            return Use.OUT
        return Use.NONE

    def _bound(self, target: ast.expr, source: Source) -> Use:
        if isinstance(target, ast.Attribute):
            self.names.append(target.attr)
            return Use.PARAMETER if target.attr in ("data", "weight", "bias") else Use.OUT | Use.STORED
        if isinstance(target, ast.Name):
            self.names.append(target.id)
            around = source.enclosing(target, *FUNCTIONS)
            known = around is not None and any(
                target.id in one.names for one in source.of_kind(ast.Global, around)
            )
            self.is_global |= known
            return Use.OUT if known else Use.NONE
        return (
            Use.OUT
            if isinstance(target, ast.Subscript) and not isinstance(target.value, ast.Name)
            else Use.NONE
        )

    def _attribute(self, node: ast.Attribute, call: ast.AST | None) -> Use:
        name, loaded = node.attr, self.analysis.loaded
        tensor = Use.TENSOR if name in torch_api.TENSOR_ONLY else Use.NONE
        if not isinstance(call, ast.Call) or call.func is not node:
            return Use.MODULE if _USES.get(name) is Use.MODULE else tensor
        if name in ("get", "pop") and call.args and isinstance(call.args[0], ast.Constant):
            self.has_states |= says("entry", call.args[0].value)
        if says("restores", name) or call in loaded.computing:
            return Use.MODULE
        self.moved |= name in ("to", "cuda")
        return _USES.get(name) or (Use.READ if self._goes_on(call) else tensor or Use.OUT)

    def _argument(self, call: ast.Call, file: File) -> Use:
        name = file.dotted(call.func) or dotted(call.func) or getattr(call.func, "attr", "")
        last = name.rpartition(".")[2]
        if says("restores", last):
            return self._restored(call, name, file)
        if name in ("max", "min"):
            return Use.OUT
        if last in _USES and _USES[last] is not Use.MODULE:
            return _USES[last]
        if says("writes", name) or name.startswith(("numpy.", "torch.utils.data.")):
            return Use.HOST
        if self._goes_on(call):
            return (
                Use.HOST if says("adapts", last) and call not in self.analysis.loaded.followed else Use.READ
            )
        if name.startswith("torch.") and not name.startswith("torch.distributed"):
            return Use.TENSOR
        return Use.OUT

    def _goes_on(self, call: ast.Call) -> bool:
        """Has what a call gives something of it, or does the function that is called come into view?"""
        held = self.analysis.loaded.reached.get(call)
        return (held is not None and self.load.node in held[1]) or call in self.analysis.loaded.followed

    def _restored(self, call: ast.Call, name: str, file: File) -> Use:
        """`model.load_state_dict(value)`, and functions that are called as if they did that."""
        kinds, source, loaded = Use.STATE, file.source, self.analysis.loaded
        if any(one.arg == "assign" and source.code(one.value) != "False" for one in call.keywords):
            kinds |= Use.PARAMETER  # not copied: what is loaded becomes the parameters
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        self.receivers.append(source.code(receiver) if receiver is not None else name)
        if (
            receiver is not None
            and call in loaded.receivers
            and self._may_keep(call, self.receivers[-1], source)
        ):
            kinds |= Use.OUT
        if call not in loaded.followed and "state_dict" not in name and not name.startswith("torch."):
            kinds |= Use.OUT  # it may keep what it is given
        return kinds

    def _may_keep(self, call: ast.Call, path: str, source: Source) -> bool:
        """May an object keep the tensors of a state where they were loaded to? torch's own copy them."""
        value = self.analysis.loaded.receivers[call]
        if says("keeps", path) or "set_extra_state" in source.text or "_load_from_state_dict" in source.text:
            return True
        made = value.links[0].name if value.links else ""
        if value.kind in (MODULE, OPTIMIZER, OBJECT) or made.startswith(self.analysis.models.like_torch):
            return False
        if says("optimizer", path):  # made by something out of sight
            return value.kind != UNKNOWN or value.place.kind != "of"
        return not (says("copies", path) or value.role == "instance" or path in ("self", "super()"))


def _targets(parent: ast.AST, node: ast.expr) -> Iterator[ast.expr]:
    """What a value is bound to by the node around it."""
    found: list[ast.expr] = list(parent.targets) if isinstance(parent, ast.Assign) else []
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
        found = [parent.target] if node is parent.iter else []
    elif isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
        found = [parent.target]
    while found:
        one = found.pop(0)
        if isinstance(one, (ast.Tuple, ast.List)):
            found[:0] = one.elts
        else:
            yield one.value if isinstance(one, ast.Starred) else one


# --- is it a checkpoint, and where is it wanted ----------------------------------------------------


def is_checkpoint(load: Load, uses: Uses, device: str, source: Source) -> bool:
    """Is it certain enough that there are tensors in it which may have been on a GPU?"""
    if any(says("about", name) for name in uses.names[:1]) and not uses.kinds & ~(Use.OUT | Use.STORED):
        return False
    if uses.kinds is Use.STATE and uses.receivers and all(says("counts", one) for one in uses.receivers):
        return False
    if load.is_wrapped or load.into or load.name == "torch.jit.load" or _is_told(load.function):
        return True
    if uses.has_states or uses.has(Use.STATE | Use.MODULE | Use.PARAMETER):
        return True
    names = " ".join(uses.names)
    if is_of_states(names) is False:
        return False
    if is_fetched(load):
        return True
    argument = source.code(load.path) if load.path is not None else ""
    told = is_of_states(f"{argument} {names}", load.function.name if load.function is not None else "")
    return bool(told) or (told is None and uses.has(Use.TENSOR) and bool(device))


def is_fetched(load: Load) -> bool:
    """Does a load fetch a file by its address? What is published mostly loads anywhere."""
    return load.name.endswith(("_from_url", "load_url"))


def _is_told(function: Function | None) -> bool:
    """Does the function around a load take a device, and nothing ever reads it?"""
    if function is None or all(one.arg != "device" for one in function.parameters):
        return False
    return not reads(function.file.source, function.node, "device")


def place_for(load: Load, uses: Uses, device: str, source: Source) -> tuple[str, bool]:
    """What to pass, and whether that is surely right where the load may fail."""
    if load.is_wrapped:
        default = load.function.defaults.get(ARGUMENT) if load.function is not None else None
        # asked for by a caller, or the CPU's, and no default such as "cuda"
        return ARGUMENT, default is None or getattr(default, "value", "") in (None, "cpu")
    if load.into:
        return '"cpu"', True
    itself = uses.has(Use.MODULE | Use.TENSOR)
    if uses.kinds is Use.NONE and any(says("state", one) for one in uses.names):
        return '"cpu"', False
    if uses.has(Use.STATE) and not itself:
        if uses.has(Use.STORED) and device:
            return device, False  # what is kept as it is may be a tensor, too: `self.alpha = state["alpha"]`
        return '"cpu"', not uses.has(Use.OUT | Use.PARAMETER)
    if uses.has(Use.HOST) and not itself and not uses.has(Use.OUT):
        return '"cpu"', False
    if device:
        return device, False
    given_on = uses.has(Use.MODULE) and uses.has(Use.OUT)  # a network, which others run as it is
    if uses.kinds and (uses.is_global or not uses.moved) and (given_on or _DEVICES.search(source.text)):
        # where it is wanted is out of sight, but what works with CUDA goes on as it does
        torch = source.local_name("torch") or "torch"
        return f'None if {torch}.cuda.is_available() else "cpu"', False
    return '"cpu"', False


def without_place(call: ast.Call) -> str:
    """A call as it would be without a device: where the one fails, the other is what is left to try."""
    return ast.dump(ast.Call(call.func, call.args, [one for one in call.keywords if one.arg != ARGUMENT]))


# --- where it is said ------------------------------------------------------------------------------


def fixed(source: Source) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """`map_location="cpu"` in a function that hands its parameter `map_location` to its other calls."""
    for function in source.of_kind(ast.FunctionDef) if f"{ARGUMENT}={ARGUMENT}" in source.text else ():
        if all(one.arg != ARGUMENT for one in ast.walk(function.args) if isinstance(one, ast.arg)):
            continue
        every = [(call, one) for call in source.of_kind(ast.Call, function) for one in call.keywords]
        told = [(call, one) for call, one in every if one.arg == ARGUMENT]
        if any(dotted(one.value) == ARGUMENT for _, one in told):
            for call, one in told:
                if isinstance(one.value, ast.Constant) and one.value.value is not None:
                    if not may_be_none(source, ARGUMENT, call, function):
                        yield call, one


def default_is_none(analysis: Analysis) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """`model.load_state_dict(torch.load(p, map_location=device))` where `device` is None unless a caller names one."""
    source = analysis.file.source
    for call in sorted(analysis.loaded.placed, key=lambda one: (one.lineno, one.col_offset)):
        around, parent = source.enclosing(call, *FUNCTIONS), source.parents.get(call)
        function = analysis.file.of_node.get(around) if around is not None else None
        into = isinstance(parent, ast.Call) and dotted(parent.func).endswith(".load_state_dict")
        if not isinstance(function, Function) or function.name == "__init__" or not into:
            continue
        for one in call.keywords:
            name = one.value.id if one.arg == ARGUMENT and isinstance(one.value, ast.Name) else ""
            if getattr(function.defaults.get(name), "value", "") is None:
                if not settles_none(source, function.node, name):
                    yield call, one
