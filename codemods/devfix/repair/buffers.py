"""The edits that make buffers of tensors in attributes, and whether they change nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class
from devfix.engine.places import DIFFERENT, LITERAL, OWNED, VAR, alternatives
from devfix.engine.stores import NOWHERE, Method, Store, has_own_way, kept_by, only_building, super_call
from devfix.engine.values import CALLER, PASS, STORE, TENSOR, Link, Value
from devfix.findings import DeleteStatement, Edit, InsertStatement, ReplaceExpression
from devfix.models import torch_api
from devfix.models.loader import module_attributes
from devfix.repair.candidates import stays_on_host
from devfix.text.source import Source, remembered

_ELSEWHERE = ("vars(self", "setattr(self", "add_state(", "__slots__")
_LONGEST = 110  # characters of a line
# A placeholder, which the other arm of a choice replaces.
_EMPTY = re.compile(r"torch\.(?:tensor\(\[\]|empty\(0|Tensor\(|zeros\(0)\s*\)")
_CASTS = re.compile(r"\.half\(|\.double\(|\.bfloat16\(|float16|float64")
# Of integers or booleans, which casts of a module leave alone.
_WHOLE = re.compile(
    r"dtype=torch\.(?:u?int\d*|long|short|bool)\b|\.(?:bool|long|int|short|argsort|argmax|nonzero)\(\)"
    r"|torch\.(?:(?:Long|Int|Bool|Byte)Tensor|tri[lu]_indices)\("
)
# What a method makes on the CPU is where the plain tensors are, so the buffer may come to be alone.
_MADE = re.compile(r"\btorch\.(?:tensor|from_numpy|as_tensor)\((?![^\n]{0,400}device)")


def as_buffer(link: Link, analysis: Analysis) -> tuple[Edit, ...]:
    """`register_buffer` in the place of the first assignments of an attribute on each way, and of those beside it.

    None where that may fail, or where something else than a plain tensor may be meant.
    """
    source, owner = analysis.file.source, _owner(link, analysis)
    start = super_call(owner) if owner is not None else None
    if owner is None or start is None or any(one in source.code(owner.node) for one in _ELSEWHERE):
        return ()
    group = _together(owner, link.name, analysis)
    edits: list[Edit] = []
    done: set[ast.stmt] = set()
    for name, stores in group.items():
        if not stores or not _may_be_buffer(owner, name, source):
            return ()
        for store in stores:
            if store.statement in done:
                continue
            done.add(store.statement)
            in_init = store.method.name == "__init__"
            if (in_init and store.statement.lineno < start.lineno) or _may_be_else(source, store):
                return ()
            beside = [s for others in group.values() for s in others if s.statement is store.statement]
            beside.sort(key=lambda one: source.span(one.target).start)
            made = _register(source, store, [one.target.attr for one in beside])
            if not made:
                return ()
            edits += made
    return tuple(edits)


def _owner(link: Link, analysis: Analysis) -> Class | None:
    node = analysis.file.source.enclosing(link.node, ast.ClassDef) if link.file is analysis.file else None
    owner = analysis.file.of_node.get(node) if node is not None else None
    return owner if isinstance(owner, Class) else None


def _together(owner: Class, name: str, analysis: Analysis) -> dict[str, list[Store]]:
    """The attribute, and the tensors that are assigned in the same statements: the stores to be replaced of each."""
    source, known = analysis.file.source, kept_by(analysis.file.source, owner.node)
    state, cell = analysis.classes.state(owner), analysis.classes.cell(owner)
    found, todo = dict[str, list[Store]](), [name]
    for one in todo:  # grows on the way
        found[one] = _first(owner, known.get(one, NOWHERE).stores, source)
        statements = {store.statement for store in found[one]}
        for other, kept in known.items():
            if (
                other not in todo
                and kept.loads
                and any(store.statement in statements for store in kept.stores)
            ):
                if is_plain(state.attribute(cell, other)):
                    todo.append(other)
    return found


def is_plain(value: Value | None) -> bool:
    """Is it a tensor that was made on the CPU, and put nowhere else?"""
    if value is None or value.kind != TENSOR or value.role == "parameter":
        return False
    places = [place for place, _ in alternatives(value.place)]
    return any(one.on_host for one in places) and not any(one.kind in (VAR, LITERAL, OWNED) for one in places)


def _first(owner: Class, stores: list[Store], source: Source) -> list[Store]:
    """The first stores on each way through the constructor; none where one makes a parameter, and others follow."""
    building = only_building(owner)
    own = [one for one in stores if one.method.name in building]
    if not own or own[0].form == "augmented" or any(one.form == "other" for one in stores):
        return []
    first = [one for one in own if one.form != "augmented" and not _is_dominated(source, one, own)]
    made = [one for one in first if _is_parameter(source, one)]
    return [] if made and len(first) < len(own) else [one for one in first if one not in made]


def _is_dominated(source: Source, store: Store, stores: list[Store]) -> bool:
    """Has the attribute surely been assigned before, in the same method?"""
    around = {store.statement, *source.ancestors(store.statement)}
    return any(
        one.method is store.method
        and one.form != "augmented"
        and source.span(one.statement).start < source.span(store.statement).start
        and not around.isdisjoint(source.block(one.statement))
        for one in stores
    )


def _is_parameter(source: Source, store: Store) -> bool:
    made = store.value
    while (
        isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr.endswith("_")
    ):
        made = made.func.value  # which gives the same object
    return isinstance(made, ast.Call) and source.qualified(made.func) in torch_api.PARAMETERS


def _may_be_buffer(owner: Class, name: str, source: Source) -> bool:
    """Is the attribute neither trained, nor registered, reached by its name or stored by a related class?"""
    if name in module_attributes() or has_own_way(owner, name):
        return False
    kin = [one.node for one in owner.lineage if one.file is owner.file]
    kin += [one for one in owner.file.heirs.get(owner, ()) if isinstance(one, ast.ClassDef)]
    for one in kin:
        if one is not owner.node and kept_by(source, one).get(name, NOWHERE).stores:
            return False
        for node in source.of_kind(ast.Constant, one):
            if node.value == name and isinstance(source.parents[node], (ast.Call, ast.List, ast.Tuple)):
                return False
    return not any(_trains(source, load) for load in kept_by(source, owner.node)[name].loads)


def _trains(source: Source, load: ast.Attribute) -> bool:
    up = source.parents[load]
    if not isinstance(up, ast.Attribute) or up.attr not in (
        "requires_grad_",
        "requires_grad",
        "grad",
        "backward",
    ):
        return False
    value = getattr(source.statement(up), "value", None)
    return up.attr != "requires_grad" or not isinstance(value, ast.Constant) or bool(value.value)


def _may_be_else(source: Source, store: Store) -> bool:
    """May it be a parameter in one arm, or is it asked of what type it is: `isinstance(x, float)`?"""
    value = store.value
    if any(source.qualified(one.func) in torch_api.PARAMETERS for one in source.of_kind(ast.Call, value)):
        return True
    return isinstance(value, ast.Name) and any(
        source.code(one.func) == "isinstance" and one.args and source.code(one.args[0]) == value.id
        for one in source.of_kind(ast.Call, store.method)
    )


def _register(source: Source, store: Store, names: list[str]) -> list[Edit]:
    """The edits of one statement that assigns these attributes; none where no name is free for the value."""
    span, value, statement = source.span(store.statement), store.value, store.statement
    assert value is not None
    me, text = source.code(store.target.value), source.code(value)
    line = f'{me}.register_buffer("{store.target.attr}", {text}, persistent=False)'
    if store.form in ("single", "typed"):
        odd = isinstance(value, (ast.Tuple, ast.NamedExpr, ast.Yield, ast.Lambda)) or "#" in text
        if not odd and "\n" not in text and statement.col_offset + len(line) <= _LONGEST:
            declared = list[Edit]()  # what is left of `self.x: Tensor = value`
            if isinstance(statement, ast.AnnAssign) and "\n" not in source.code(statement.annotation):
                kept = f"{source.code(store.target)}: {source.code(statement.annotation)}"
                declared.append(InsertStatement(span, kept))
            return [*declared, InsertStatement(span, line), DeleteStatement(span)]
    targets = {
        one.attr: one for one in source.of_kind(ast.Attribute, statement) if isinstance(one.ctx, ast.Store)
    }
    edits: list[Edit] = []
    for one in names if isinstance(statement, ast.Assign) else ():
        local = _free(source, store.method, one)
        if not local or one not in targets:
            return []
        edits.append(ReplaceExpression(source.span(targets[one]), local))
        edits.append(InsertStatement(span, f'{me}.register_buffer("{one}", {local}, persistent=False)'))
    return edits


def _free(source: Source, method: Method, name: str) -> str:
    """A name that nothing in the method uses."""
    used = source.names(method).keys() | {one.arg for one in source.of_kind(ast.arg, method)}
    return next((one for one in (name, f"{name}_", f"{name}_buffer") if one not in used), "")


def is_safe_buffer(link: Link, every: Collection[Mismatch], analysis: Analysis) -> bool:
    """Are the mismatches of an attribute proven, and does registering it change nothing on the CPU?"""
    source, owner = analysis.file.source, _owner(link, analysis)
    if (
        owner is None
        or any(one not in torch_api.MODULE_BASES for one in owner.outside)
        or owner.file.heirs.get(owner)
    ):
        return False  # an heir, or a base, may have its own plans
    if _moves_parts(source, owner.node):
        return False  # the whole may never be moved, and its buffers then stay where they are
    state, cell = analysis.classes.state(owner), analysis.classes.cell(owner)
    for name, stores in _together(owner, link.name, analysis).items():
        kept, value = kept_by(source, owner.node)[name], state.attribute(cell, name)
        if any(one.method.name not in only_building(owner) for one in kept.stores):
            return False  # DistributedDataParallel synchronises buffers
        if (
            value is None
            or not is_plain(value)
            or any(one.kind == PASS for one in value.links)
            or value.assumed
        ):
            return False  # whoever gave the tensor keeps it, too
        for store in stores:
            text = source.code(store.value) if store.value is not None else ""
            if store.form == "chained" or _EMPTY.fullmatch(text) or stays_on_host(store.target, analysis):
                return False
            if (
                _CASTS.search(source.text)
                and not _WHOLE.search(text)
                and not isinstance(store.value, ast.Compare)
            ):
                return False  # the buffer would be cast, too
        if any(
            source.code(source.parents[one]).endswith((".numpy", ".tolist", ".item")) for one in kept.loads
        ):
            return False
    return any(_is_proven(one, analysis) for one in every)


def _is_proven(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is nothing assumed but that a module is given tensors of its device, and may all that it meets be there?"""
    if (
        mismatch.relation != DIFFERENT
        or not mismatch.stray_place.on_host
        or mismatch.file is not analysis.file
    ):
        return False
    method = mismatch.function.node if mismatch.function is not None else None
    stored = {one.node for one in mismatch.stray.links if one.kind == STORE}
    return (
        {one.kind for one in mismatch.assumed} <= {CALLER}
        and not any(stays_on_host(one, analysis) for one in stored)
        and (method is None or not _makes(analysis.file.source, method))
    )


@remembered
def _moves_parts(source: Source, owner: ast.AST) -> bool:
    """Does a class move parts of its objects one by one: `self.net.cuda()`?"""
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
        and source.code(call.func.value).startswith("self.")
        and isinstance(source.parents[call], ast.Expr)
        for call in source.of_kind(ast.Call, owner)
    )


@remembered
def _makes(source: Source, method: ast.AST) -> bool:
    return _MADE.search(source.code(method)) is not None
