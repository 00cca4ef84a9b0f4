"""Signs that whoever wrote a program knows where a value is: it is moved below, or kept out on purpose."""

from __future__ import annotations

import ast
import builtins
import re
from itertools import islice

from devfix.engine.analysis import Analysis
from devfix.engine.classes import OTHER_FRAMEWORKS
from devfix.engine.events import moved_by
from devfix.engine.evidence import about_devices
from devfix.engine.evidence_of_modules import is_option
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class, Function
from devfix.engine.places import CHOICE
from devfix.engine.stores import buffers_of, has_own_way
from devfix.engine.values import LIBRARY_CALL, MODULE, STORE, Assumption, Link
from devfix.findings import AppendCall, Edit
from devfix.models.loader import module_attributes
from devfix.models.torch_api import turns_gradients_off
from devfix.text.placing import dotted, expects_error
from devfix.text.source import FUNCTIONS, Source, remembered

MOVES = frozenset({"to", "cuda"})
# What is only for CUDA, and what only runs what somebody has prepared: tests.
_ONE_WORLD = frozenset({"pytest", "unittest", "absl", "hypothesis", "parameterized", "triton"})
_DEFAULT_DEVICE = frozenset({"pyro"})  # its modules work on torch's default device
_MEASURES = re.compile(r"cuda\.(?:synchronize|Event|Stream)\b")
_ON_PURPOSE = re.compile(
    r"teacher|frozen|freeze|pretrain|\bema\b|_ema\b|ema_"
    r"|(?i:not? (?:be )?regist|without regist|unregist|hide|hidden from)"
)


def quoted(source: Source, node: ast.AST, longest: int = 60) -> str:
    """The code of a node for a message; what has more than `longest` characters is "this value"."""
    code = " ".join(source.code(node).split())
    return f"`{code}`" if len(code) <= longest and "`" not in code else "this value"


def repeats(edit: Edit, source: Source) -> bool:
    """Does an edit append what an expression ends with already: `x.to(device)` to `x.to(device).to(device)`?"""
    if not isinstance(edit, AppendCall):
        return False
    return source.text[edit.expression.start : edit.expression.end].endswith(edit.suffix)


def is_as_computed(node: ast.AST, device: str) -> bool:
    """Is what a call gives taken out of its graph before it is read? Then a network gives it as it was computed.

    Not where the `device` is an attribute of another object: who chooses that may be out of sight.
    """
    owner, _, _ = device.rpartition(".")
    if owner and not device.startswith("self.") and not is_option(owner):
        return False
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and node.attr == "detach":
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False


def lives_on_devices(function: Function, analysis: Analysis) -> bool:
    """Is a function called with what is on devices, as far as its class or its file tells?"""
    owner = function.owner
    if analysis.uses(function).asks_for_devices:
        return True
    if owner is None:
        return analysis.is_about_networks
    if analysis.class_kind(owner) in ("module", "owned"):
        return True
    return any(analysis.uses(one).asks_for_devices for one in owner.methods.values())


def is_composed(function: Function) -> bool:
    """Is it what an object does that is one of several steps: `steps.append(Flip())`, `Compose(steps)`?"""
    source, owner = function.file.source, function.owner
    made = (
        source.calls_by_name.get(owner.name, ()) if owner is not None and function.name == "__call__" else ()
    )
    up = [source.parents[one] for one in made]
    listed = all(
        isinstance(one, ast.List) or getattr(getattr(one, "func", None), "attr", "") == "append" for one in up
    )
    return bool(made) and listed and "Compose" in source.calls_by_name


def is_other_framework(source: Source) -> bool:
    """Does the file use tensors of another package, which have the same methods?"""
    return any(one.partition(".")[0] in OTHER_FRAMEWORKS for one in source.imports.values())


def is_of_one_world(function: Function | None, source: Source) -> bool:
    """Is it a test, a kernel for CUDA, or a measurement on it?"""
    for one in source.imports.values():
        if one.partition(".")[0] in _ONE_WORLD or "cuda" in one.lower():
            return True
    return function is not None and _measures(function.file.source, function.node)


@remembered
def _measures(source: Source, function: ast.AST) -> bool:
    return _MEASURES.search(source.code(function)) is not None


@remembered
def tells_the_cpu(source: Source, function: ast.AST) -> bool:
    """Is "cpu" an entry of a dict that a function writes?"""
    return any(
        isinstance(value, ast.Constant) and value.value == "cpu"
        for node in source.of_kind(ast.Dict, function)
        for value in node.values
    )


def is_caught(source: Source, node: ast.AST) -> bool:
    """Is an error expected here, or handled?"""
    if expects_error(source, node):
        return True
    up: ast.AST | None = node
    while up is not None and not isinstance(up, FUNCTIONS):
        parent = source.parents.get(up)
        if isinstance(parent, ast.Try) and up in parent.body:
            if any(_may_catch(one) and about_devices(source.code(one)) for one in parent.handlers):
                return True
        if isinstance(parent, ast.IfExp) and up is not parent.test:
            other = parent.orelse if up is parent.body else parent.body
            if about_devices(source.code(parent.test)) or about_devices(source.code(other)):
                return True  # the other arm is for the accelerator
        up = parent
    return False


def _may_catch(handler: ast.ExceptHandler) -> bool:
    """May a handler get what torch raises of devices, a RuntimeError or a TypeError?"""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [dotted(one).rpartition(".")[2] for one in caught if one is not None]
    known = [getattr(builtins, name, Exception) for name in names if name != "OutOfMemoryError"]
    raised = (RuntimeError, TypeError)
    return handler.type is None or any(
        isinstance(one, type) and issubclass(error, one) for one in known for error in raised
    )


def is_without_gradients(source: Source, node: ast.AST) -> bool:
    """Is gradient mode off where a node stands: by a `with` statement, or a decorator of the function?"""
    for up in source.ancestors(node):
        opened: list[ast.expr] = []
        if isinstance(up, (ast.With, ast.AsyncWith)):
            opened = [item.context_expr for item in up.items]
        elif isinstance(up, FUNCTIONS):
            opened = up.decorator_list
        if any(map(turns_gradients_off, opened)):
            return True
        if isinstance(up, FUNCTIONS):
            return False
    return False


@remembered
def copied(source: Source) -> tuple[tuple[ast.Call, ast.Name], ...]:
    """The calls that are given `x.cpu()`, each with the name of what is copied."""
    found = []
    for call in source.of_kind(ast.Call):
        for one in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "cpu":
                if isinstance(one.func.value, ast.Name):
                    found.append((call, one.func.value))
    return tuple(found)


def is_moved_beside(source: Source, function: ast.AST, name: str) -> bool:
    """Is what is unpacked together with a name moved in the function?"""
    for node in source.of_kind(ast.Assign, function):
        target = node.targets[0]
        names = (
            {one.id for one in target.elts if isinstance(one, ast.Name)}
            if isinstance(target, ast.Tuple)
            else set()
        )
        if name in names:
            for call in source.of_kind(ast.Call, function):
                moved = moved_by(call, MOVES)
                if isinstance(moved, ast.Name) and moved.id in names - {name}:
                    return True
    return False


def is_left_of_batch(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Does the loop that reads a batch, which a collate function makes, move two other parts of it at least?

    Or stack one: then the function gives lists, of which none moves as a whole.
    """
    source, load, function = analysis.file.source, mismatch.stray.links[0], mismatch.function
    named = {(id(function.node), one.subject) for one in mismatch.assumed} if function is not None else set()
    collated = Assumption(LIBRARY_CALL, "collate_fn") in mismatch.assumed or not named.isdisjoint(
        analysis.collated
    )
    if not collated or load.file is not analysis.file:
        return False
    loop = load.node if isinstance(load.node, ast.For) else source.enclosing(mismatch.node, ast.For)
    if not isinstance(loop, ast.For):
        return False
    names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    names.add(root_name(mismatch.stray_node))  # of `batch = next(batches)`
    calls = source.of_kind(ast.Call, loop)
    if any(
        dotted(one.func) == "torch.stack" and root_name(one.args[0]) in names for one in calls if one.args
    ):
        return True
    moves = (moved_by(call, MOVES) for call in calls)
    return len(names & {moved.id for moved in moves if isinstance(moved, ast.Name)}) > 1


def is_of_some_paths(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is a stray made in another file, and on the CPU on some paths only, as a module of it may be?"""
    stray = mismatch.stray
    some = mismatch.guarded and (stray.kind == MODULE or stray.place.kind == CHOICE)
    return some and stray.links[0].file is not analysis.file


def is_kept_beside(source: Source, node: ast.AST | None) -> bool:
    """Does an assignment that moves others bind a name to itself: `x, ids = x.to(device), ids`?"""
    if not isinstance(node, ast.Name):
        return False
    for one in source.of_kind(ast.Assign, source.enclosing(node, *FUNCTIONS)):
        target, value = one.targets[0], one.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = [(source.code(a), source.code(b)) for a, b in zip(target.elts, value.elts, strict=False)]
            calls = (part.func for part in value.elts if isinstance(part, ast.Call))
            moves = [func.attr for func in calls if isinstance(func, ast.Attribute)]
            if (node.id, node.id) in pairs and not MOVES.isdisjoint(moves):
                return True
    return False


def is_buffer(link: Link) -> bool:
    """Is something stored under the name of a buffer of its module? Then it moves with that."""
    owner = link.file.source.enclosing(link.node, ast.ClassDef) if link.kind == STORE else None
    return isinstance(owner, ast.ClassDef) and link.name in buffers_of(link.file.source, owner)


def root_name(node: ast.AST | None) -> str:
    """`x` of `x.y[0].f(z)`; an empty string if it begins with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_kept_otherwise(link: Link, analysis: Analysis) -> bool:
    """Is a plain attribute of a module moved, replaced or kept out in a way of the program's own?"""
    source, name = analysis.file.source, link.name.removesuffix("[]")
    node = source.enclosing(link.node, ast.ClassDef)
    owner = analysis.file.of_node.get(node) if node is not None else None
    if node is None or not isinstance(owner, Class) or name in module_attributes():
        return True
    if any(base.startswith("torch.nn.") and base != "torch.nn.Module" for base in owner.outside):
        return link.name.endswith("[]")  # a container of modules counts its own elements
    if any(one.partition(".")[0] in _DEFAULT_DEVICE for one in source.imports.values()):
        return True
    if has_own_way(owner, name):
        return True
    return _is_hidden(source, link) or _is_set_elsewhere(source, owner, name)


def is_renewed(mismatch: Mismatch) -> bool:
    """Does an `if` above replace the attribute that keeps the stray, and change what it asks for, so as to fit then?"""
    names = {link.name.removesuffix("[]") for link in mismatch.stray.links if link.kind == STORE}
    if mismatch.function is None or not names:
        return False
    source, line = mismatch.function.file.source, getattr(mismatch.node, "lineno", 0)
    for one in mismatch.function.nodes:
        if not isinstance(one, ast.If) or (one.end_lineno or 0) >= line:
            continue
        nodes = [part for statement in one.body for part in ast.walk(statement)]
        if any(link.node in nodes for link in mismatch.stray.links):
            continue
        stored = [part for part in nodes if not isinstance(getattr(part, "ctx", ast.Load()), ast.Load)]
        stored = [part.value if isinstance(part, ast.Subscript) else part for part in stored]
        asked = {
            source.code(part) for part in ast.walk(one.test) if isinstance(part, (ast.Name, ast.Attribute))
        }
        if any(getattr(part, "attr", "") in names for part in stored):
            if not asked.isdisjoint(map(source.code, stored)):
                return True
    return False


def is_kept_with_key(mismatch: Mismatch) -> bool:
    """Is it an entry of a dict, asked only if another entry fits, which nothing does at first? Both are written then.

    `if kept["n"] == n and kept["x"].equal(x): ... else: kept["n"], kept["x"] = n, x`, with `kept = {"n": 0, "x": ...}`.
    """
    source, node, stray = mismatch.file.source, mismatch.node, mismatch.stray_node
    test, first = source.parents.get(node), source.parents.get(mismatch.stray.links[0].node)
    statement = source.parents.get(test) if test is not None else None
    if not isinstance(test, ast.BoolOp) or not isinstance(statement, ast.If) or statement.test is not test:
        return False
    if (
        not isinstance(test.op, ast.And)
        or not isinstance(stray, ast.Subscript)
        or not isinstance(first, ast.Dict)
    ):
        return False
    asked = [
        one.left for one in test.values if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq)
    ]
    keys = [one for one in asked if isinstance(one, ast.Subscript) and root_name(one) == root_name(stray)]
    written = {source.code(one) for up in statement.orelse for one in ast.walk(up) if _is_stored(one)}
    empty = {ast.unparse(key) for key, one in zip(first.keys, first.values, strict=True)
             if key is not None and isinstance(one, ast.Constant) and not one.value}  # fmt: skip
    begins = any(ast.unparse(one.slice) in empty and one.lineno <= stray.lineno for one in keys)
    return begins and written >= {source.code(one) for one in (*keys, stray)}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _is_hidden(source: Source, link: Link) -> bool:
    """Do the lines of the assignment, and the comments above, say that it is on purpose?"""
    statement = source.statement(link.node)
    first = source.position(source.span(statement).start)[0]
    lines = _lines(source)
    above = first - 1
    while above > 0 and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    text = source.code(statement)
    if link.name.endswith("[]") and (".eval()" in text or "requires_grad" in text):
        return True
    return any(
        _ON_PURPOSE.search(line)
        for line in [*lines[above : first - 1], text if link.name.endswith("[]") else ""]
    )


def _is_set_elsewhere(source: Source, owner: Class, name: str) -> bool:
    """Does code outside of the class, or a subclass, give the attribute another value, or delete it?

    `self` of a class without kinship is not the class's own.
    """
    others, selves = _stored(source).get(name, (set(), set()))
    if any(one is not owner.node for one in islice(others, 2)):
        return True
    kin = owner.file.heirs.get(owner, set())
    return not kin.isdisjoint(selves) or any(
        one.node in selves for one in owner.lineage if one is not owner and one.file is owner.file
    )


@remembered
def _lines(source: Source) -> list[str]:
    return source.text.splitlines()


@remembered
def _stored(source: Source) -> dict[str, tuple[set[ast.AST | None], set[ast.AST | None]]]:
    """Attribute -> the classes in which it is given a value: of other objects, and of `self`.

    None stands for what is in no class, and for what is deleted.
    """
    found: dict[str, tuple[set[ast.AST | None], set[ast.AST | None]]] = {}
    for node in source.of_kind(ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            around = None if isinstance(node.ctx, ast.Del) else source.enclosing(node, ast.ClassDef)
            own = (
                around is not None
                and not isinstance(source.parents.get(around), ast.ClassDef)  # whose kinship is not known
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            )
            found.setdefault(node.attr, (set(), set()))[own].add(around)
    return found


def moves_itself(source: Source, call: ast.Call) -> bool:
    """Does a function or method of the file move what it is given?"""
    name = dotted(call.func).removeprefix("self.")
    return any(
        isinstance(one.func, ast.Attribute) and one.func.attr in ("to", "cuda")
        for function in source.definitions
        if not isinstance(function, ast.ClassDef) and function.name == name
        for one in source.of_kind(ast.Call, function)
    )
