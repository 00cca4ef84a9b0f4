"""The plain tensor attributes of modules that could be buffers, and the edits that make them so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devfix.flow import torch_api
from devfix.registration import dims
from devfix.registration.classes import RESERVED, ModuleClass
from devfix.registration.made import Kind, Made
from devfix.registration.making import Maker
from devfix.registration.quick import may_hold_tensors
from devfix.registration.signatures import is_false
from devfix.registration.stores import Store
from devfix.source import Source, remembered

_ELSEWHERE = ("__dict__", "vars(self", "setattr(self", "add_state(", "__slots__")
_BY_NAME = frozenset(
    {"register_buffer", "register_parameter", "getattr", "setattr", "hasattr", "delattr", "add_state", "pop"}
)
_TENSOR_METHODS = frozenset(
    {"unsqueeze", "expand", "type_as", "masked_fill", "bool", "long", "float", "contiguous", "to", "permute"}
)
# Libraries whose programs run on the default device: torch.set_default_device(...).
_DEFAULT_DEVICE = frozenset({"pyro"})
# A placeholder, which the other arm of a choice replaces.
_EMPTY = re.compile(r"torch\.(?:tensor\(\[\]|empty\(0|Tensor\(|zeros\(0)\s*\)")
_CASTS = re.compile(r"\.half\(|\.double\(|\.bfloat16\(|float16|float64")


@dataclass(frozen=True)
class Candidate:
    """An attribute that is a plain CPU tensor whenever the constructor is done.

    `parts`: a list, tuple or dict of such tensors. `later`: what is stored in it after the constructor.
    """

    owner: ModuleClass
    name: str
    stores: tuple[Store, ...]
    made: Made
    later: tuple[Store, ...] = ()

    @property
    def parts(self) -> bool:
        return self.made.kind is Kind.OTHER

    @property
    def moves_itself(self) -> bool:
        """Does a later store move it: `self.x = self.x.to(device)`?"""
        return any(_moves(self.owner.source, store) for store in self.later)


def candidates(source: Source, classes: tuple[ModuleClass, ...], maker: Maker) -> list[Candidate]:
    """Every attribute of the file's module classes that `register_buffer` would suit."""
    if any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
        return []
    if any(name.partition(".")[0] in _DEFAULT_DEVICE for name in source.imports.values()):
        return []
    found: list[Candidate] = []
    for owner in classes:
        if owner.init is None:
            continue
        names = [name for name, stores in owner.stores.items() if may_hold_tensors(owner, stores)]
        if not names or any(word in owner.text for word in _ELSEWHERE):
            continue
        for name in names:
            candidate = _candidate(source, maker, owner, name)
            if candidate is not None:
                found.append(candidate)
    outside = _stored_elsewhere(source) if found else set()
    return [candidate for candidate in found if candidate.name not in outside]


def _candidate(source: Source, maker: Maker, owner: ModuleClass, name: str) -> Candidate | None:
    if (
        name in RESERVED
        or owner.handles(name)
        or not any(_promising(maker.store(owner, s)) for s in owner.stores[name])
    ):
        return None
    if not any(name in each.loads for each in (owner, *owner.descendants)):
        return None
    stores = tuple(s for s in owner.stores[name] if owner.builds(s.method))
    later = tuple(s for s in owner.stores[name] if not owner.builds(s.method))
    if not stores or any(store.form in ("other", "deleted") for store in (*stores, *later)):
        return None
    if stores[0].form == "augmented" or owner.class_level(name) or not _only_here(owner, name):
        return None
    stores = _without_parameters(source, maker, owner, stores)
    if not stores or _optimised(owner, name):
        return None
    made = maker.joined(owner, stores)
    if made.guess:
        if not _used_as_tensor(owner, name):
            return None
        made = replace(made, dim=dims.SOME)
    if any(store.form == "chained" for store in stores):
        made = replace(made, shared=True)
    if made.kind is Kind.OTHER:
        if not _promising(made) or later or len(stores) > 1 or any(_changes_parts(source, owner, name)):
            return None
    elif made.kind is not Kind.TENSOR or made.dim == 0:
        return None
    return Candidate(owner, name, stores, made, later)


def _promising(made: Made) -> bool:
    """A plain tensor, or a list or dict of some that all have dimensions."""
    if made.kind is Kind.OTHER:
        return bool(made.items) and all(m.kind is Kind.TENSOR and dims.solid(m.dim) for m in made.items)
    return made.kind is Kind.TENSOR


def _changes_parts(source: Source, owner: ModuleClass, name: str) -> Iterator[bool]:
    """Is an element of a list or dict put there, or taken out, after it was made?"""
    for load in owner.loads.get(name, ()):
        parent = source.parents[load]
        yield isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        yield isinstance(parent, ast.Attribute) and parent.attr not in ("items", "values", "keys")


def _without_parameters(
    source: Source, maker: Maker, owner: ModuleClass, stores: tuple[Store, ...]
) -> tuple[Store, ...]:
    """The stores less those that make a parameter, where each is made on a way of its own."""
    kinds = {store: maker.store(owner, store).kind for store in stores}
    if Kind.PARAMETER not in kinds.values():
        return stores
    for store in stores:
        if store.form == "augmented" or dominated(source, store, stores):
            return ()
    return tuple(store for store in stores if kinds[store] is not Kind.PARAMETER)


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
    for load in owner.loads.get(name, ()):
        parent = owner.source.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in ("requires_grad_", "grad", "backward"):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr == "requires_grad":
            statement = owner.source.statement(parent)
            if isinstance(statement, ast.Assign) and not is_false(statement.value):
                return True
    return False


def _used_as_tensor(owner: ModuleClass, name: str) -> bool:
    """Does some use of the attribute work with tensors only, numpy arrays excluded?"""
    for load in owner.loads.get(name, ()):
        parent = owner.source.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in _TENSOR_METHODS:
            return True
        if isinstance(parent, ast.Call) and owner.source.qualified(parent.func).startswith(
            "torch.nn.functional."
        ):
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


def safe(source: Source, candidate: Candidate) -> bool:
    """Does nothing change on the CPU? Buffers of floats follow `.half()`, shared tensors part ways."""
    owner = candidate.owner
    mine = {each.node.name for each in owner.lineage}
    bases = [base for each in owner.lineage for base in each.node.bases]
    direct = all(
        source.qualified(base) in torch_api.MODULE_BASES or (isinstance(base, ast.Name) and base.id in mine)
        for base in bases
    )
    if (
        candidate.later
        or any(_EMPTY.fullmatch(source.code(store.value)) for store in candidate.stores if store.value)
        or not (owner.certain and direct)
        or candidate.made.shared
        or candidate.made.guess
        or owner.descendants
    ):
        return False
    if not candidate.made.whole and _casts(source):
        return False
    hosts = ("numpy", "tolist", "item")
    for load in owner.loads.get(candidate.name, ()):
        parent = source.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in hosts:
            return False
    return dims.solid(candidate.made.dim)
