"""Modules that an object keeps in a plain list or dict: what `.to(device)` and `parameters()` do not see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.checkers.signs import is_kept_otherwise
from devfix.engine.analysis import Analysis
from devfix.engine.evidence_of_modules import holds_layers, is_layer_name, makes_no_module
from devfix.engine.facts import Uses
from devfix.engine.files import Class, Function
from devfix.engine.stores import NOWHERE, Kept, Method, Store, kept_by, only_building, super_call
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.values import MAPPING, MODULE, SEQUENCE, STORE, UNKNOWN, Link, Value, elements
from devfix.findings import Finding, Related, told
from devfix.models.loader import models, module_attributes
from devfix.repair.plain_containers import PlainContainer, as_module_container
from devfix.text.names import of_self
from devfix.text.source import Source

CODEMOD = "register-modules"
# Done to each element by somebody who knows that the module does not do it.
_HANDLING = frozenset(
    {
        "to", "cuda", "cpu", "half", "float", "train", "eval", "parameters", "named_parameters",
        "state_dict", "load_state_dict", "zero_grad", "requires_grad_", "step",
    }
)  # fmt: skip
# Of what programs keep in lists, only modules have them.
_OF_MODULES = frozenset({"parameters", "named_parameters"})
_MOVES = frozenset({"to", "cuda", "cpu"})
_PARTS = frozenset({"children", "modules", "named_children", "named_modules"})
_RUNS = ("__call__", "forward")
_PLAIN = re.compile(r"(?:typing\.|Optional\[)*(?:list|tuple|sequence|iterable)\b", re.IGNORECASE)


def findings(analysis: Analysis) -> Iterator[tuple[Finding, list[ast.AST]]]:
    """Findings, each with the nodes that it is about."""
    source = analysis.file.source
    for found in _plain_containers(analysis):
        edits, name = as_module_container(found), f"self.{found.name}"
        kind, new = ("dict", "ModuleDict") if found.mapping else ("list", "ModuleList")
        message = (
            f"the modules in `{name}` of `{found.owner.node.name}` are in a plain {kind}: `.to(device)` leaves them "
            "on the CPU, and `parameters()` and `state_dict()` miss them"
        )
        assumes = f"they should be trained and saved with `{found.owner.node.name}`"
        assumes += f", and that callers pass modules in a plain {kind}" if found.guessed else ""
        title = f"register the modules of `{name}` in `nn.{new}`"
        related = (Related(source.span(found.use), f"`{found.method.name}` runs them here"),)
        at = found.stores[0].statement
        yield told(CODEMOD, source.span(at), message, title, edits, related, assumes), [at, found.use]


def _plain_containers(analysis: Analysis) -> Iterator[PlainContainer]:
    """The plain containers of modules that the methods of the file's module classes run."""
    if not (analysis.parts.uses or analysis.parts.given_uses):
        return
    for owner in analysis.file.all_classes:
        if not analysis.classes.is_module(owner) or super_call(owner) is None:
            continue
        cell = analysis.classes.cell(owner)
        for name, value in analysis.classes.state(owner).attributes(cell):
            if value.kind in (SEQUENCE, MAPPING) and name not in module_attributes():
                found = _judged(owner, name, value, analysis)
                if found is not None:
                    yield found
            elif value.kind == UNKNOWN and value.place.key in analysis.parts.given_uses:
                if ("element", value.place.key) in analysis.parts.registered:
                    continue
                found = _given(owner, name, analysis.parts.given_uses[value.place.key], analysis)
                if found is not None:
                    yield found


def _given(owner: Class, name: str, uses: Uses, analysis: Analysis) -> PlainContainer | None:
    """A list of modules that every caller in view passes to the constructor, which keeps it as it is."""
    stores, parts = tuple(_kept(owner, name).stores), analysis.parts
    if not _may_register(owner, stores) or not isinstance(stores[0].part, (ast.Name, ast.BoolOp)):
        return None
    link = Link(STORE, analysis.file, stores[0].target, f"{name}[]")
    cells = [cell for cell, kept in parts.kept_in.items() if kept == link]
    made = [analysis.made[cell] for cell in cells if cell in analysis.made]
    if len(stores) > 1 or link in parts.kept_else or any(_is_registered(one, analysis) for one in made):
        return None
    run = _run_by(owner, uses, analysis, sure=True)
    if run is None or is_kept_otherwise(link, analysis):
        return None
    guessed = not made and _are_modules(owner, stores[0], run[0], analysis)
    if not guessed and all(one.role in ANYWHERE for one in made):
        return None
    return PlainContainer(owner, name, stores, False, False, False, True, *run, guessed)


def _are_modules(owner: Class, store: Store, run: ast.AST, analysis: Analysis) -> bool:
    """Does a name say that callers pass modules; or is another argument registered as such, and do these run alike?"""
    source, kept = (
        analysis.file.source,
        store.part.values[0] if isinstance(store.part, ast.BoolOp) else store.part,
    )
    init = owner.methods.get("__init__")
    if source.calls_by_name.get(owner.name) or not isinstance(kept, ast.Name) or init is None:
        return False
    arguments = init.parameters
    annotation = next((one.annotation for one in arguments if one.arg == kept.id), None)
    if annotation is not None and not _PLAIN.match(ast.unparse(annotation)):
        return False
    if holds_layers(kept.id):
        return True
    given = {one.arg for one in arguments} - {kept.id}
    return _feeds_itself(source, run) and any(
        models().layer(analysis.file.dotted(call.func)) == "container"
        and any(isinstance(one, ast.Name) and one.id in given for one in ast.walk(call))
        for call in source.of_kind(ast.Call, init.node)
    )


def _feeds_itself(source: Source, run: ast.AST) -> bool:
    """`x = layer(x)`: layers are run in turn, while other functions of tensors make something else of them."""
    statement = source.statement(run)
    given = {one.id for one in ast.walk(run) if isinstance(one, ast.Name) and one.id != "self"}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(part, ast.Name) and part.id in given for one in targets for part in ast.walk(one))


def _may_register(owner: Class, stores: tuple[Store, ...]) -> bool:
    """Are these all stores of an attribute, in methods that make the object, once it is a module?"""
    if not stores:
        return False
    building, start = only_building(owner), super_call(owner)
    return start is not None and not any(
        one.part is None
        or one.method.name not in building
        or one.form not in ("single", "typed", "unpack")
        or (one.method.name == "__init__" and one.statement.lineno < start.lineno)
        for one in stores
    )


def _kept(owner: Class, name: str) -> Kept:
    return kept_by(owner.file.source, owner.node).get(name, NOWHERE)


def _judged(owner: Class, name: str, value: Value, analysis: Analysis) -> PlainContainer | None:
    parts = list(_modules(value))
    stores = tuple(one for one in _kept(owner, name).stores if one.form != "augmented")
    if not parts or any(one is None or _is_registered(one, analysis) for one in parts):
        return None
    if not _may_register(owner, stores) or _is_registered_as_well(owner, name, analysis):
        return None
    modules = [one for one in parts if one is not None]
    if all(one.role in ANYWHERE for one in modules):
        return None
    sure = all(
        one.kind == MODULE or one.role == "moved" or _is_like_a_layer(_made_by(one)) for one in modules
    ) or all(_is_made_of_modules(one, analysis) for one in stores)
    links = [Link(STORE, analysis.file, one.target, f"{name}[]") for one in stores]
    if any(is_kept_otherwise(one, analysis) for one in links) or _is_alone(owner, name, stores):
        return None
    if any(map(_is_of_parts, stores)) or any(
        _is_frozen(one, owner.file.source) for one in _added(owner, name)
    ):
        return None
    run = _run(owner, name, analysis, sure=sure)
    if run is None:
        return None
    mapping = value.kind == MAPPING
    nested = any(one.kind in (SEQUENCE, MAPPING) for one in elements(value))
    odd = mapping and (value.role != "" or not all(map(_is_good_key, value.fields or {})))
    if odd and all(analysis.classes.state(owner).resolve(one.place).on_device for one in modules):
        return None  # each is moved when it is made, and what would register them is out of reach
    return PlainContainer(owner, name, stores, mapping, nested, odd, sure, *run)


def _modules(value: Value, depth: int = 0) -> Iterator[Value | None]:
    """The modules in a container, and in those within; None stands for anything else."""
    for one in elements(value):
        if one.kind in (SEQUENCE, MAPPING) and depth < 3:
            yield from _modules(one, depth + 1)
        else:
            yield one if one.kind == MODULE or _may_be_module(one) else None


def _may_be_module(value: Value) -> bool:
    """May something out of sight make a module, if what it makes is run?"""
    if value.kind != UNKNOWN or not value.links or value.role not in ("", "instance", "moved"):
        return False
    return not makes_no_module(_made_by(value))


def _is_made_of_modules(store: Store, analysis: Analysis) -> bool:
    """`[resolve(one) for one in parts]`, of `parts` that are annotated as modules, or what stands for them?"""
    function = analysis.file.of_node.get(store.method)
    over = [one.iter for one in getattr(store.part, "generators", ()) if isinstance(one.iter, ast.Name)]
    return isinstance(function, Function) and any(
        analysis.holds_modules(function, one.id, others=True) for one in over
    )


def _is_registered(value: Value, analysis: Analysis) -> bool:
    registered = analysis.parts.registered
    if value.links:
        made = value.links[0].node
        owners = analysis.parts.made_of.get(made, ())
        if made in registered or any(one in analysis.part_of for one in owners):
            return True
    return value.place.key in registered or (value.ref is not None and value.ref in registered)


def _is_registered_as_well(owner: Class, name: str, analysis: Analysis) -> bool:
    """`nn.ModuleList([part for pair in self.pairs for part in pair])`: all that is in a list of lists?"""
    return any(
        models().layer(analysis.file.dotted(call.func)) == "container"
        and any(isinstance(one, ast.comprehension) and of_self(one.iter) == name for one in ast.walk(call))
        for call in owner.file.source.of_kind(ast.Call, owner.node)
    )


def _made_by(value: Value) -> str:
    return value.links[0].name.rpartition(".")[2] if value.links else ""


def _is_like_a_layer(name: str) -> bool:
    """Is what a call of this name makes a module, if it is run? What is copied and run is one."""
    return name == "deepcopy" or is_layer_name(name)


def _is_good_key(key: object) -> bool:
    """May a ModuleDict have it?"""
    return (
        isinstance(key, str)
        and bool(key)
        and "." not in key
        and key not in module_attributes() | set(dir(dict))
    )


def _is_alone(owner: Class, name: str, stores: tuple[Store, ...]) -> bool:
    """`self.teacher = [module]`: a list of one that is there already, and never added to, hides it on purpose."""
    part = stores[0].part
    kept, parents = _kept(owner, name), owner.file.source.parents
    if len(kept.stores) > 1 or not isinstance(part, (ast.List, ast.Tuple)) or len(part.elts) != 1:
        return False
    added = any(isinstance(parents[one], ast.Attribute) for one in kept.loads)
    return not added and not isinstance(part.elts[0], ast.Call)


def _is_of_parts(store: Store) -> bool:
    """`list(self.mlps.children())`: are they parts of what is registered already?"""
    return any(
        isinstance(one, ast.Attribute) and one.attr in _PARTS and of_self(one.value)
        for one in ast.walk(store.part or store.statement)
    )


def _added(owner: Class, name: str) -> Iterator[ast.Name]:
    """The names that methods append to a list that an attribute keeps, or store in a dict."""
    source = owner.file.source
    for load in _kept(owner, name).loads:
        parent = source.parents[load]
        call = source.parents.get(parent)
        if isinstance(parent, ast.Attribute) and parent.attr == "append" and isinstance(call, ast.Call):
            yield from (one for one in call.args if isinstance(one, ast.Name))
        if (
            isinstance(parent, ast.Subscript)
            and isinstance(call, ast.Assign)
            and isinstance(call.value, ast.Name)
        ):
            yield call.value


def _is_frozen(name: ast.Name, source: Source) -> bool:
    """Is a module put into evaluation, or are its parameters frozen, where it is made? It is kept apart on purpose."""
    method = source.enclosing(name, ast.FunctionDef)
    for node in source.of_kind(ast.Attribute, method) if method is not None else ():
        if not isinstance(node.value, ast.Name) or node.value.id != name.id:
            continue
        if node.attr in ("eval", "requires_grad_"):
            return True
        loop = source.parents.get(source.parents[node])
        if node.attr == "parameters" and isinstance(loop, ast.For):
            if any("requires_grad" in source.code(one) for one in loop.body):
                return True
    return False


def _run(owner: Class, name: str, analysis: Analysis, *, sure: bool) -> tuple[ast.AST, Method] | None:
    """Where a method other than those that make the object runs an element; none if elements are looked after."""
    done: Uses = {}
    for link, uses in analysis.parts.uses.items():
        if link.name == f"{name}[]" and link.file is analysis.file:
            if analysis.file.source.enclosing(link.node, ast.ClassDef) is owner.node:
                for what, nodes in uses.items():
                    done.setdefault(what, {}).update(nodes)
    return _run_by(owner, done, analysis, sure=sure)


def _run_by(owner: Class, done: Uses, analysis: Analysis, *, sure: bool) -> tuple[ast.AST, Method] | None:
    source, runs = analysis.file.source, list[tuple[ast.AST, Method]]()
    handling = _MOVES if _is_moved_by_a_framework(owner, analysis) else _HANDLING
    sure = sure or not _OF_MODULES.isdisjoint(done)
    for what, nodes in done.items():
        for node in nodes:
            method = source.enclosing(node, ast.FunctionDef)
            if not isinstance(method, ast.FunctionDef) or method.name in only_building(owner):
                continue
            if what in handling or _moves_inputs(node):
                return None
            ran = what in _RUNS or (sure and what not in module_attributes())
            if ran and (sure or method.name == "forward"):
                runs.append((node, method))
    return min(runs, key=lambda one: source.span(one[0]).start, default=None)


def _is_moved_by_a_framework(owner: Class, analysis: Analysis) -> bool:
    """Does a framework move what is registered, so that only a move of its own brings the rest along?

    Where the class counts its own parameters as well, it may have those of the container besides.
    """
    every = (node for one in owner.lineage for method in one.methods.values() for node in method.nodes)
    counts = any(of_self(one) in _OF_MODULES for one in every if isinstance(one, ast.Attribute))
    return analysis.class_kind(owner) == "owned" and not counts


def _moves_inputs(node: ast.AST) -> bool:
    """`layer(x.to(device))`: whoever writes this knows where the layer is."""
    return isinstance(node, ast.Call) and any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _MOVES
        for one in node.args
    )
