"""The plain tensor attributes of modules that could be buffers, and the edits that make them so."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from devfix.findings import DeleteStatement, Edit, InsertStatement, ReplaceExpression
from devfix.flow import torch_api
from devfix.registration import dims
from devfix.registration.classes import RESERVED, Method, ModuleClass, Store, self_name
from devfix.registration.made import Kind, Made
from devfix.registration.making import Maker
from devfix.registration.signatures import is_false
from devfix.source import Source

_ELSEWHERE = ("__dict__", "vars(self", "setattr(self", "add_state(", "__slots__")
_BY_NAME = frozenset(
    {"register_buffer", "register_parameter", "getattr", "setattr", "hasattr", "delattr", "add_state", "pop"}
)
_TENSOR_METHODS = frozenset(
    {"unsqueeze", "expand", "type_as", "masked_fill", "bool", "long", "float", "contiguous", "to", "permute"}
)
_CASTS = re.compile(r"\.half\(|\.double\(|\.bfloat16\(|float16|float64")


@dataclass(frozen=True)
class Candidate:
    """An attribute that is a plain CPU tensor whenever the constructor is done."""

    owner: ModuleClass
    name: str
    stores: tuple[Store, ...]
    made: Made


def candidates(
    source: Source, classes: tuple[ModuleClass, ...], maker: Maker, moved: bool = False
) -> list[Candidate]:
    """Every attribute of the file's module classes that `register_buffer` would suit.

    With `moved`, also those that a method moves by itself: `self.x = self.x.to(device)`.
    """
    if any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
        return []
    found: list[Candidate] = []
    outside = _stored_elsewhere(source)
    for owner in classes:
        if owner.own_ways or any(word in owner.text for word in _ELSEWHERE) or owner.init is None:
            continue
        building = owner.building
        for name, stores in owner.stores.items():
            if name not in owner.loads or all(isinstance(s.value, ast.Constant) for s in stores):
                continue
            if name in RESERVED or name in outside or owner.class_level(name) or not _only_here(owner, name):
                continue
            if moved:
                stores = tuple(s for s in stores if s.method.name in building or not _moves(source, s))
            if not stores or any(
                store.method.name not in building or store.form in ("other", "deleted") for store in stores
            ):
                continue
            if stores[0].form == "augmented" or _optimised(owner, name):
                continue
            stores = _without_parameters(source, maker, owner, stores)
            made = maker.joined(owner, stores)
            if made.guess:
                if not _used_as_tensor(owner, name):
                    continue
                made = replace(made, dim=dims.SOME)
            if made.kind is Kind.TENSOR and made.dim != 0:
                found.append(Candidate(owner, name, stores, made))
    return found


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


# --- edits ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registration:
    """The edits that register a group of attributes; empty where they cannot be written."""

    edits: tuple[Edit, ...]
    why_not: str = ""


def register(source: Source, group: list[Candidate]) -> Registration:
    """Replace the first assignments of each attribute by `register_buffer`."""
    owner = group[0].owner
    start = owner.super_call
    if start is None:
        return Registration((), "the call of `super().__init__()` is not in sight")
    edits: list[Edit] = []
    done: set[ast.stmt] = set()
    for candidate in group:
        for store in candidate.stores:
            if store.form == "augmented" or dominated(source, store, candidate.stores):
                continue
            if store.statement in done:
                continue
            done.add(store.statement)
            if store.method is owner.init and store.statement.lineno < start.lineno:
                return Registration((), "the assignment stands before `super().__init__()`")
            names = [c.name for c in group if any(s.statement is store.statement for s in c.stores)]
            made = _register_one(source, store, names)
            if not made:
                return Registration((), "no name is free for the new value")
            edits.extend(made)
    return Registration(tuple(edits))


def _register_one(source: Source, store: Store, names: list[str]) -> tuple[Edit, ...]:
    me = self_name(store.method)
    span = source.span(store.statement)
    value = store.value
    assert value is not None
    if store.form in ("single", "typed"):
        text = source.code(value)
        line = f'{me}.register_buffer("{store.name}", {text}, persistent=False)'
        indent = store.statement.col_offset
        short = "\n" not in text and "\r" not in text and "#" not in text and indent + len(line) <= 110
        if isinstance(value, (ast.Tuple, ast.NamedExpr, ast.Yield, ast.Lambda)):
            short = False
        if short:
            return (*_declared(source, store), InsertStatement(span, line), DeleteStatement(span))
    targets = {s.attr: s for s in _targets(store.statement)}
    edits: list[Edit] = []
    for name in names:
        local = _free(source, store.method, name)
        if not local or name not in targets or isinstance(store.statement, ast.AnnAssign):
            return ()
        edits.append(ReplaceExpression(source.span(targets[name]), local))
        edits.append(InsertStatement(span, f'{me}.register_buffer("{name}", {local}, persistent=False)'))
    return tuple(edits)


def _declared(source: Source, store: Store) -> tuple[Edit, ...]:
    """What is left of `self.x: Tensor = value`: the declaration."""
    if isinstance(store.statement, ast.AnnAssign):
        text = f"{source.code(store.target)}: {source.code(store.statement.annotation)}"
        if "\n" not in text:
            return (InsertStatement(source.span(store.statement), text),)
    return ()


def _targets(statement: ast.stmt) -> list[ast.Attribute]:
    if not isinstance(statement, ast.Assign):
        return []
    target = statement.targets[0]
    items = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return [item for item in items if isinstance(item, ast.Attribute)]


def _free(source: Source, method: Method, name: str) -> str:
    """A name that nothing in the method uses."""
    used = {node.id for node in source.walk(method) if isinstance(node, ast.Name)}
    used |= {node.arg for node in source.walk(method) if isinstance(node, ast.arg)}
    for option in (name, f"{name}_", f"{name}_buffer"):
        if option.isidentifier() and option not in used:
            return option
    return ""


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


def safe(source: Source, candidate: Candidate) -> bool:
    """Does nothing change on the CPU? Buffers of floats follow `.half()`, shared tensors part ways."""
    owner = candidate.owner
    mine = {each.node.name for each in owner.lineage}
    bases = [base for each in owner.lineage for base in each.node.bases]
    direct = all(
        source.qualified(base) in torch_api.MODULE_BASES or (isinstance(base, ast.Name) and base.id in mine)
        for base in bases
    )
    if not (owner.certain and direct) or candidate.made.shared or candidate.made.guess or owner.descendants:
        return False
    if not candidate.made.whole and _CASTS.search(source.text):
        return False
    hosts = ("numpy", "tolist", "item")
    for load in owner.loads.get(candidate.name, ()):
        parent = source.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in hosts:
            return False
    return dims.solid(candidate.made.dim)
