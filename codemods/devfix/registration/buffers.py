"""The plain tensor attributes of modules that the engine finds beside what is on a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class
from devfix.engine.places import DIFFERENT, LITERAL, OWNED, VAR, alternatives
from devfix.engine.values import (
    CALLER,
    DISTRIBUTION,
    GIVEN,
    MAPPING,
    PASS,
    RANK,
    SEQUENCE,
    STORE,
    TENSOR,
    Value,
)
from devfix.flow import Flow
from devfix.models import torch_api
from devfix.registration.classes import RESERVED, ModuleClass, module_classes
from devfix.registration.signatures import is_false, only_dtype, whole_dtype
from devfix.registration.stores import Method, Store
from devfix.repair.candidates import stays_on_host
from devfix.text.source import Source, remembered

_ELSEWHERE = ("__dict__", "vars(self", "setattr(self", "add_state(", "__slots__")
_BY_NAME = frozenset(
    {"register_buffer", "register_parameter", "getattr", "setattr", "hasattr", "delattr", "add_state", "pop"}
)
# Libraries whose programs run on the default device: torch.set_default_device(...).
_DEFAULT_DEVICE = frozenset({"pyro"})
# A placeholder, which the other arm of a choice replaces.
_EMPTY = re.compile(r"torch\.(?:tensor\(\[\]|empty\(0|Tensor\(|zeros\(0)\s*\)")
_CASTS = re.compile(r"\.half\(|\.double\(|\.bfloat16\(|float16|float64")
_WHOLE_METHODS = frozenset({"bool", "long", "int", "short", "argsort", "argmax", "nonzero"})
_WHOLE_MAKERS = frozenset(
    {"LongTensor", "IntTensor", "BoolTensor", "ByteTensor", "tril_indices", "triu_indices"}
)


@dataclass(frozen=True)
class Meet:
    """One place where a plain attribute is used with what is on the device."""

    node: ast.AST
    method: Method


@dataclass(frozen=True)
class Candidate:
    """An attribute that is a plain CPU tensor when the constructor is done.

    `parts`: a list, tuple or dict of such tensors. `later`: what is stored in it after the constructor. `proven`: no
    assumption was needed to say so, and the tensor has no other owner. `met` is None where nothing is known to need it
    on a device.
    """

    owner: ModuleClass
    name: str
    stores: tuple[Store, ...]
    later: tuple[Store, ...]
    parts: bool
    proven: bool
    met: Meet | None

    @property
    def moves_itself(self) -> bool:
        """Does a later store move it: `self.x = self.x.to(device)`?"""
        return any(_moves(self.owner.source, store) for store in self.later)

    def moved_at_use(self) -> Meet | None:
        """The first use after the constructor that moves it."""
        source = self.owner.source
        for owner in (self.owner, *self.owner.descendants):
            for load in owner.loads.get(self.name, ()):
                called, method = source.parents[load], source.enclosing(load, ast.FunctionDef)
                if not isinstance(called, ast.Attribute) or called.attr not in ("to", "cuda", "type_as"):
                    continue
                call = source.parents[called]
                if isinstance(call, ast.Call) and isinstance(method, ast.FunctionDef):
                    if not only_dtype(source, call) and not owner.builds(method):
                        return Meet(call, method)
        return None


def candidates(flow: Flow) -> list[Candidate]:
    """Every attribute of the file's module classes that `register_buffer` would suit."""
    source = flow.source
    if any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
        return []
    if any(name.partition(".")[0] in _DEFAULT_DEVICE for name in source.imports.values()):
        return []
    analysis = flow.facts()
    met, guessed = _met(analysis)
    found: list[Candidate] = []
    for owner in module_classes(source):
        known = analysis.file.of_node.get(owner.node)
        if owner.init is None or not isinstance(known, Class):
            continue
        if any(word in owner.text for word in _ELSEWHERE):
            continue
        state = analysis.classes.state(known)
        for name, stores in owner.stores.items():
            building = [id(one.target) for one in stores if owner.builds(one.method)]
            meet = next((met[one] for one in building if one in met), None)
            value = state.attribute(analysis.classes.cell(known), name)
            if (value is not None and _is_placed(value)) or (meet is None and not _is_plain(value, building)):
                continue
            proven = value is not None and not _has_another(value)
            proven = proven and guessed.isdisjoint(building)
            parts = value is not None and value.kind in (SEQUENCE, MAPPING)
            candidate = _candidate(source, owner, name, parts=parts, proven=proven, met=meet)
            if candidate is not None:
                found.append(candidate)
    outside = _stored_elsewhere(source) if found else set()
    return [candidate for candidate in found if candidate.name not in outside]


def _met(analysis: Analysis) -> tuple[dict[int, Meet], set[int]]:
    """The first meeting of what is stored by each target, by its identity; and those that are not proven.

    Proven: nothing is assumed but that `forward` is given tensors of the module's device, and the CPU needs it nowhere.
    """
    found: dict[int, Meet] = {}
    proven: set[int] = set()
    for mismatch in analysis.mismatches:
        kinds = {one.kind for one in mismatch.assumed}
        meet = _meet(mismatch, analysis)
        if mismatch.stray.kind != TENSOR or mismatch.stray.role == DISTRIBUTION or meet is None:
            continue
        if mismatch.relation != DIFFERENT or not mismatch.stray_place.on_host:
            continue
        if RANK in kinds and GIVEN not in kinds:
            continue  # a tensor without dimensions mixes with any device
        for link in mismatch.stray.links:
            if link.kind == STORE:
                found.setdefault(id(link.node), meet)
                if kinds <= {CALLER} and not stays_on_host(link.node, analysis):
                    proven.add(id(link.node))
    return found, found.keys() - proven


def _meet(mismatch: Mismatch, analysis: Analysis) -> Meet | None:
    """Where values meet, in this file: what a function of another one asks first is not known."""
    source, node = analysis.file.source, mismatch.node
    if mismatch.file is not analysis.file:
        return None
    method = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    return Meet(node, method) if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _is_placed(value: Value) -> bool:
    """Does the constructor put it somewhere, on one path at least?"""
    return any(place.kind in (VAR, LITERAL, OWNED) for place, _ in alternatives(value.place))


def _is_plain(value: Value | None, targets: list[int]) -> bool:
    """Is it a tensor that was made on the CPU, and stored by one of these?"""
    if value is None or value.kind != TENSOR or value.role in ("parameter", DISTRIBUTION) or value.rank == 0:
        return False
    if not any(place.on_host for place, _ in alternatives(value.place)):
        return False
    return any(link.kind == STORE and id(link.node) in targets for link in value.links)


def _has_another(value: Value) -> bool:
    """Did the tensor come in as an argument? Then whoever gave it keeps it, too."""
    return any(link.kind == PASS for link in value.links) or any(one.kind == GIVEN for one in value.assumed)


def _candidate(
    source: Source, owner: ModuleClass, name: str, *, parts: bool, proven: bool, met: Meet | None
) -> Candidate | None:
    if name in RESERVED or owner.handles(name):
        return None
    if not any(name in each.loads for each in (owner, *owner.descendants)):
        return None
    stores = tuple(s for s in owner.stores[name] if owner.builds(s.method))
    later = tuple(s for s in owner.stores[name] if not owner.builds(s.method))
    if not stores or any(store.form in ("other", "deleted") for store in (*stores, *later)):
        return None
    if stores[0].form == "augmented" or owner.class_level(name) or not _only_here(owner, name):
        return None
    stores = _without_parameters(source, stores)
    if not stores or _optimised(owner, name):
        return None
    if parts and (later or len(stores) > 1 or any(_changes_parts(source, owner, name))):
        return None
    proven = proven and not any(store.form == "chained" for store in stores)
    return Candidate(owner, name, stores, later, parts, proven, met)


def _changes_parts(source: Source, owner: ModuleClass, name: str) -> Iterator[bool]:
    """Is an element of a list or dict put there, or taken out, after it was made?"""
    for load in owner.loads.get(name, ()):
        parent = source.parents[load]
        yield isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        yield isinstance(parent, ast.Attribute) and parent.attr not in ("items", "values", "keys")


def _without_parameters(source: Source, stores: tuple[Store, ...]) -> tuple[Store, ...]:
    """The stores less those that make a parameter, where each is made on a way of its own."""
    made = {store: _is_parameter(source, store) for store in stores}
    if not any(made.values()):
        return stores
    for store in stores:
        if store.form == "augmented" or dominated(source, store, stores):
            return ()
    return tuple(store for store in stores if not made[store])


def _is_parameter(source: Source, store: Store) -> bool:
    made = store.value
    while (
        isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr.endswith("_")
    ):
        made = made.func.value  # which gives the same object
    return isinstance(made, ast.Call) and source.qualified(made.func) in torch_api.PARAMETERS


def _moves(source: Source, store: Store) -> bool:
    """`self.x = self.x.to(...)`."""
    value = store.value
    return (
        store.form == "single"
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("to", "cuda", "type_as")
        and source.code(value.func.value) == source.code(store.target)
    )


def _only_here(owner: ModuleClass, name: str) -> bool:
    """Neither registered already nor reached by its name as a string, here or in a related class."""
    relatives = [*owner.lineage[1:], *owner.descendants]
    if any(name in other.stores for other in relatives):
        return False
    return not any(_named(other, name) for other in [owner, *relatives])


def _named(owner: ModuleClass, name: str) -> bool:
    """Is the attribute registered, got by `getattr`, or listed for TorchScript or for loading?"""
    if f'"{name}"' not in owner.text and f"'{name}'" not in owner.text:
        return False
    for node in owner.source.walk(owner.node):
        if isinstance(node, ast.Constant) and node.value == name:
            up = owner.source.parents[node]
            if isinstance(up, ast.Call) and owner.source.code(up.func).rpartition(".")[2] in _BY_NAME:
                return True
            if owner.source.parents[owner.source.statement(node)] is owner.node:
                return True
            if isinstance(up, (ast.Subscript, ast.List, ast.Tuple)) and "_buffers" in owner.text:
                return True
    return False


def _optimised(owner: ModuleClass, name: str) -> bool:
    """Is the attribute trained, or wrapped as a parameter?"""
    for store in owner.stores[name]:
        if isinstance(store.value, ast.Call):
            for keyword in store.value.keywords:
                if keyword.arg == "requires_grad" and not is_false(keyword.value):
                    return True
    for load in owner.loads.get(name, ()):
        parent = owner.source.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in ("requires_grad_", "grad", "backward"):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr == "requires_grad":
            statement = owner.source.statement(parent)
            if isinstance(statement, ast.Assign) and not is_false(statement.value):
                return True
    return False


def _stored_elsewhere(source: Source) -> set[str]:
    """Attributes that some code gives to objects from outside: `model.pe = model.pe.to(device)`."""
    found: set[str] = set()
    for node in source.walk():
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                found.add(node.attr)
    return found


def dominated(source: Source, store: Store, stores: tuple[Store, ...]) -> bool:
    """Has the attribute surely been assigned before, in the same method?"""
    around: set[ast.AST] = {store.statement}
    up: ast.AST | None = store.statement
    while up is not None and up is not store.method:
        up = source.parents.get(up)
        if up is not None:
            around.add(up)
    for other in stores:
        if other is store or other.method is not store.method or other.form == "augmented":
            continue
        if (other.target.lineno, other.target.col_offset) >= (store.target.lineno, store.target.col_offset):
            continue
        if other.statement is not store.statement and any(s in around for s in source.block(other.statement)):
            return True
    return False


@remembered
def _casts(source: Source) -> bool:
    return _CASTS.search(source.text) is not None


def _is_whole(source: Source, node: ast.AST | None) -> bool:
    """Is a tensor that an expression makes certainly of integers or booleans, which casts of a module leave alone?"""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Compare):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name = node.func.attr
    if whole_dtype(node) or name in _WHOLE_MAKERS or (name in _WHOLE_METHODS and not node.args):
        return True
    if source.qualified(node.func) or name in ("to", "type", "float", "double", "half", "type_as"):
        return False
    return _is_whole(source, node.func.value)


def safe(source: Source, candidate: Candidate) -> bool:
    """Does nothing change on the CPU? Buffers of floats follow `.half()`, shared tensors part ways."""
    owner = candidate.owner
    mine = {each.node.name for each in owner.lineage}
    bases = [base for each in owner.lineage for base in each.node.bases]
    direct = all(
        source.qualified(base) in torch_api.MODULE_BASES or (isinstance(base, ast.Name) and base.id in mine)
        for base in bases
    )
    values = [store.value for store in candidate.stores if store.value]
    if (
        candidate.later
        or any(_EMPTY.fullmatch(source.code(value)) for value in values)
        or not (owner.certain and direct)
        or not candidate.proven
        or owner.descendants
    ):
        return False
    if _casts(source) and not all(_is_whole(source, value) for value in values):
        return False
    hosts = ("numpy", "tolist", "item")
    parents = (source.parents[load] for load in owner.loads.get(candidate.name, ()))
    return not any(isinstance(parent, ast.Attribute) and parent.attr in hosts for parent in parents)
