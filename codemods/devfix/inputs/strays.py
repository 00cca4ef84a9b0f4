"""Inputs that are on the CPU where they meet something that is not, and the device they belong on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from devfix.flow import Flow, torch_api
from devfix.flow.events import Event, Meeting, Scope, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import CARRIERS, Kind, Where
from devfix.flow.outside import Elsewhere
from devfix.inputs.arms import on_host, opposed
from devfix.inputs.proof import proven, settled
from devfix.inputs.wanted import Wanted, wanted
from devfix.names import Binding, Names
from devfix.placing import expects_error
from devfix.source import walk

# Methods that run a module on their arguments; others may take tensors of the host.
_RUNS = re.compile(
    r"(?:forward|encode|decode|generate|predict|infer|embed|reconstruct|classify|translate|denoise|extract|"
    r"compute|loss|__call__)(?:_\w+)?$|inference|get_(?:action|value)\w*$|(?:select_)?act(?:ion)?$|"
    r"get_\w*(?:features?|embeddings?|logits|latents?|indices|codes)$"
)
_ANYTHING = re.compile(
    r"(?:predict|infer|classify|translate|reconstruct|extract|embed|compute)(?:_\w+)?$|inference"
)
# Names of what is a tensor in about every program; a batch may hold lists of strings under others.
_TENSOR_NAME = re.compile(
    r"(?:x|xb|data|inputs?|images?|imgs?|(?:batch_|b_)?[xX]|input_ids|pixel_values|features?)$"
)
_MOVES = re.compile(r"\.to\(|\.cuda\(|\bdevice=|\btype_as\(")
# What only code says that has to do with devices.
_ASKS = re.compile(r"\bdevice\b|\bis_cuda\b|\.cuda\(|\btype_as\(|\.to\(")


@dataclass(eq=False)
class Stray:
    """An input that is on the CPU where it meets something that is not."""

    event: Event
    meeting: Meeting
    device: str
    safe: bool


@dataclass(eq=False)
class Group:
    """Inputs of one scope that one fix moves."""

    strays: list[Stray] = field(default_factory=list)
    binding: Binding | None = None


def groups_of(flow: Flow, names: Names, scope: Scope, handled: set[str]) -> Iterator[Group]:
    """The strays of a scope, those together that one statement can move; each value once.

    `handled` are paths that another fix moves already.
    """
    moved = {e.path for e in scope.events if e.what is What.MOVE and e.value.kind in CARRIERS}
    meetings = [event for event in scope.events if event.what is What.MEET and event.strays]
    groups: dict[object, Group] = {}
    seen: set[object] = set()
    for event in meetings:
        for meeting in event.strays:
            base = base_of(meeting.node)
            if not _is_input(event, meeting) or (base is not None and base.id in handled):
                continue
            if expects_error(flow.source, meeting.node) or _followed(event, meeting):
                continue
            if _elsewhere(flow, event, meeting) or settled(flow, event, meeting):
                continue
            need = wanted(flow, event, meeting)
            if need is Wanted.NEVER:
                continue
            binding = names.binding(base) if base is not None else None
            whole = isinstance(meeting.node, ast.Name)
            key = (
                binding.target if binding else base and base.id,
                ast.unparse(meeting.node) if not whole else "",
            )
            if base is not None and key in seen:
                continue
            seen.add(key)
            device, safe = _device(flow, event, meeting)
            stray = Stray(event, meeting, device, safe and proven(flow, event, meeting, need))
            run = event.value.kind in (Kind.MODULE, Kind.PART)
            doubtful = (
                run and not certain(flow, stray) and not _TENSOR_NAME.match(base.id if whole and base else "")
            )
            if not device or (doubtful and _left_on_purpose(binding, moved)):
                continue
            held = isinstance(meeting.node, ast.Attribute) and isinstance(meeting.node.value, ast.Name)
            one_loop = binding is not None and binding.form in ("loop", "unpack") and (whole or held)
            group_key = (binding.statement, device) if one_loop and binding else stray
            group = groups.setdefault(group_key, Group())
            group.strays.append(stray)
            group.binding = binding
    yield from groups.values()


def _followed(event: Event, meeting: Meeting) -> bool:
    """Was what it meets put where it is itself: `zeros.to(x.device).scatter_(1, x, 1)`?"""
    owner = event.place.text.removesuffix(".device") if event.place is not None else ""
    return bool(owner) and any(
        path_of(node) == owner for node in walk(meeting.node) if isinstance(node, ast.expr)
    )


def _elsewhere(flow: Flow, event: Event, meeting: Meeting) -> bool:
    """Does a condition keep it from the module that was moved: `else: out = model(x)` of `if use_gpu:`?"""
    source, moved = flow.source, event.place.node if event.place is not None else None
    path = path_of(meeting.node)
    inner: Event | None = event
    while inner is not None and not isinstance(inner.node, Elsewhere):
        if isinstance(moved, ast.expr) and not isinstance(moved, Elsewhere):
            if opposed(source, moved, inner.node):
                return True
        if inner is event and path and on_host(source, inner.node, path):
            return True
        inner = inner.inner
    return False


def _device(flow: Flow, event: Event, meeting: Meeting) -> tuple[str, bool]:
    """The device expression for an input, and whether it is sure to be the right one."""
    place = event.place
    if place is None:
        return "", False
    if place.key:
        matching = [
            named.text
            for named in event.devices
            if named.value.kind is Kind.DEVICE and named.value.place.key == place.key
        ]
        if matching:
            return min(matching, key=lambda text: (len(text), text)), place.on_device
    if not place.on_device and _given_device(event):
        return _given_device(event), False
    if event.value.kind in (Kind.MODULE, Kind.PART):
        owner = _module_path(flow, event)
        if owner:
            return f"next({owner}.parameters()).device", place.on_device
        return (place.text, False) if place.text.startswith('"') else ("", False)
    if event.path:
        return f"{event.path}.device", True
    return "", False


def certain(flow: Flow, stray: Stray) -> bool:
    """Is it a tensor, and the module's place known, beyond doubt?"""
    event, value = stray.event, stray.meeting.value
    if event.detail.startswith("passed to") or (not event.value.sure and event.value.kind is Kind.MODULE):
        return False
    if event.place is not None and event.place.where is Where.OF and not _aware(flow, event):
        return False  # what meets it may be on the CPU wherever the function is called
    method = event.detail if event.value.kind is Kind.MODULE else event.path.rpartition(".")[2]
    if event.value.kind is Kind.PART and not event.value.name:
        return False  # a part of some class: it may move what it needs
    if not _as_given(flow, event, method):
        return False
    if _ANYTHING.match(method):
        return False  # it may take arrays and images, and move what it makes of them
    if (value.sure and value.kind is Kind.TENSOR) or value.name == "BatchEncoding":
        return True
    path = path_of(stray.meeting.node)
    if path and flow.evidence.used_as_tensor(path) and _used_there(flow, stray, path):
        return True
    loader = value.node
    if isinstance(loader, ast.Call) and value.kind is Kind.TENSOR:
        return value.source.endswith("DataLoader") and all(k.arg != "collate_fn" for k in loader.keywords)
    return False


def _as_given(flow: Flow, event: Event, method: str) -> bool:
    """Does a method use its inputs where they are? One of its own, out of sight, may move them itself."""
    if event.value.kind is not Kind.MODULE or method in ("module", "called", "forward", "__call__"):
        return True
    for node in flow.source.definitions:
        if isinstance(node, ast.ClassDef) and node.name == event.value.name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == method:
                    return _MOVES.search(flow.source.code(item)) is None
    return event.value.name.startswith(("transformers.", "torch."))


def _aware(flow: Flow, event: Event) -> bool:
    """Does a function ask where things are, or belong to what is run on a device?"""
    source, scope = flow.source, event.scope.node
    owner = source.enclosing(scope, ast.ClassDef)
    if isinstance(owner, ast.ClassDef) and any(
        isinstance(item, ast.FunctionDef) and item.name == "forward" for item in owner.body
    ):
        return True
    return _ASKS.search(source.code(scope)) is not None


def _used_there(flow: Flow, stray: Stray, path: str) -> bool:
    """Is it used as a tensor in the same function, and not only something of its name elsewhere?"""
    for node in flow.source.walk(stray.event.scope.node):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in torch_api.TENSOR_ONLY
            and path_of(node.value) == path
        ):
            if flow.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) in (
                stray.event.scope.node,
                None,
            ):
                return True
    return False


def base_of(node: ast.expr) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_input(event: Event, meeting: Meeting) -> bool:
    """Is this an input, and not a tensor made next to the computation (`place-factory`'s business)?"""
    value = meeting.value
    if (
        meeting.place.where is not Where.DEFAULT
        or event.place is None
        or isinstance(meeting.node, ast.Starred)
    ):
        return False
    if event.value.kind is Kind.MODULE and event.value.form == "parallel":
        return False  # it scatters its inputs, wherever it is called
    made = value.name in ("torch.from_numpy", "torchaudio.load") or (
        value.name == "" and value.source and "`" not in value.source
    )
    loaded = made or value.name == "BatchEncoding" or value.kind is Kind.BATCH or "batch from" in value.source
    if event.value.kind in (Kind.MODULE, Kind.PART):
        method = event.detail if event.value.kind is Kind.MODULE else event.path.rpartition(".")[2]
        if (
            event.value.kind is Kind.MODULE
            and method not in ("module", "called")
            and "passed to" not in method
        ):
            if not _RUNS.match(method):
                return False
        if event.place.on_device:
            return True
        if loaded and event.place.where is Where.OF and _given_device(event):
            return True
        return (
            event.place.where in (Where.UNKNOWN, Where.OF)
            and "output" in value.source
            and "_processor" in value.source
        )
    if event.place.where is Where.OF:
        return value.name == "torch.from_numpy" and event.value.kind is Kind.TENSOR
    return loaded


def _given_device(event: Event) -> str:
    """The device parameter of the function, where it has one: it says where the model is meant to be."""
    return next((n.text for n in event.devices if n.value.kind is Kind.DEVICE and n.value.parameter >= 0), "")


def _module_path(flow: Flow, event: Event) -> str:
    """How to write the module of `model(x)`, `model.decode(z)` or `generate(model, x)`: `model`."""
    if event.value.kind is Kind.MODULE and not isinstance(event.node, ast.Call):
        return event.path
    node: ast.expr | None = event.node.func if isinstance(event.node, ast.Call) else None
    while node is not None:
        value = flow.value(node)
        path = path_of(node)
        if value.kind is Kind.MODULE and value.identity == event.value.identity and path:
            return path if not value.bare else ""
        node = node.value if isinstance(node, ast.Attribute) else None
    if event.value.kind is Kind.MODULE and event.path and "(" not in event.path:
        return event.path
    return ""


def _left_on_purpose(binding: Binding | None, moved: set[str]) -> bool:
    """Other elements of the same batch are moved, and this one may be a list of strings, say."""
    if binding is None or not isinstance(binding.statement, (ast.For, ast.AsyncFor)):
        return False
    return any(name in moved for name in targets_of(binding.statement))


def targets_of(loop: ast.For | ast.AsyncFor) -> Iterator[str]:
    for node in walk(loop.target):
        if isinstance(node, ast.Name):
            yield node.id
