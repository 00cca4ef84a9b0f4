"""Mutants whose bug is a move: dropped, or in the wrong place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from devfix.text.placing import dotted
from devfix.text.source import Source

from mutations.edits import (
    Edit,
    Mutant,
    deleted,
    module_names,
    move_statement,
    moved,
    mutant,
    own_calls,
    unmoved,
)

_OWNED = re.compile(r"accelerat\w*\.prepare|fabric\.setup|setup_dataloaders|prepare_data_loader")
_NO_BATCHES = re.compile(r"parameters|state_dict|modules|children")
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP", "FSDP"})
_ATTACH = frozenset({"add_module", "register_module", "append", "insert", "register_parameter"})


def moved_before_surgery(program: str, source: Source) -> Iterator[Mutant | None]:
    """`model.to(device)` goes before the first statement that changes the model."""
    surgeons = _surgeons(source)
    for statement in _statements(source):
        path = move_statement(statement)
        if path is None:
            continue
        block = source.block(statement)
        index = block.index(statement)
        first = index
        # The names of the move must be bound by then: nothing that it uses may be bound on the way.
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for at in range(index - 1, -1, -1):
            if _binds(block[at]) & used:
                break
            if _changes(source, block[at], dotted(path), surgeons):
                first = at
        if first == index:
            continue
        anchor = source.span(block[first])
        indent = source.text[source.text.rfind("\n", 0, anchor.start) + 1 : anchor.start]
        if indent.strip():
            continue
        edits: list[Edit] = [*deleted(source, [statement])]
        edits.append((type(anchor)(anchor.start, anchor.start), f"{source.code(statement)}\n{indent}"))
        yield mutant("move .to before the surgery", program, source, statement, edits)


def _statements(source: Source) -> list[ast.stmt]:
    found = [node for node in source.walk() if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda node: source.span(node))


def _binds(statement: ast.stmt) -> set[str]:
    names = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {statement.name}
    return names


def _surgeons(source: Source) -> frozenset[str]:
    """Functions of the file that change the modules of their first parameter."""
    found = set()
    for function in source.definitions:
        if isinstance(function, ast.FunctionDef) and function.args.args:
            first = function.args.args[0].arg
            body = (
                node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function
            )
            if any(_changes(source, node, first, frozenset()) for node in body):
                found.add(function.name)
    return frozenset(found)


def _changes(source: Source, statement: ast.stmt, path: str, surgeons: frozenset[str]) -> bool:
    """Does a statement give the module at `path` new parameters?"""
    if isinstance(statement, (ast.For, ast.If, ast.With)):
        return any(_changes(source, inner, path, surgeons) for inner in statement.body)
    if isinstance(statement, ast.Assign):
        owner = statement.targets[0]
        if not isinstance(owner, (ast.Attribute, ast.Subscript)):
            return False
        while isinstance(owner, (ast.Attribute, ast.Subscript)):
            owner = owner.value
            if dotted(owner) == path:
                return _makes_module(statement.value)
        return False
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        name = dotted(call.func)
        if name in {"setattr", *surgeons} and call.args:
            return dotted(call.args[0]) == path
        if name.rpartition(".")[2] in _ATTACH:
            return name.startswith(f"{path}.") and any(map(_makes_module, call.args))
    return False


def _makes_module(value: ast.expr) -> bool:
    name = dotted(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return name[:1].isupper() and name not in _WRAPPERS


# --- loops ---------------------------------------------------------------------------------


def dropped_in_loops(program: str, source: Source) -> Iterator[Mutant | None]:
    """All moves of what a loop's header binds, and each of them where there are several."""
    if _OWNED.search(source.text):
        return  # somebody else moves the batches: without these moves nothing is wrong
    loops = [
        node
        for node in source.walk()
        if isinstance(node, ast.For) and not _NO_BATCHES.search(ast.unparse(node.iter))
    ]
    for loop in sorted(loops, key=lambda node: source.span(node)):
        names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        pieces = _loop_moves(source, loop, names)
        if not pieces:
            continue
        edits = [edit for piece in pieces for edit in piece]
        yield mutant("drop a loop's moves", program, source, loop, edits)
        if len(pieces) > 1:
            for piece in pieces:
                yield mutant("drop one of several moves", program, source, loop, piece)


def _loop_moves(source: Source, loop: ast.For, names: set[str]) -> list[list[Edit]]:
    """The edits that undo each move of the loop; statements that only move go as a whole."""
    gone: list[ast.stmt] = []
    pieces: list[list[Edit]] = []
    for statement in loop.body:
        if _only_moves(statement, names):
            gone.append(statement)
            continue
        for call in own_calls(source, statement):
            value = moved(call)
            if value is not None and _root(value) in names and not _inside(source, call, gone):
                pieces.append([unmoved(source, call)])
    # Together, so that `pass` is put into a block that they empty.
    return [*([edit] for edit in deleted(source, gone)), *pieces]


def _only_moves(statement: ast.stmt, names: set[str]) -> bool:
    """`x = x.to(d)`, `batch = [t.to(d) for t in batch]`, `x.to(d)` and the like, of one name."""
    path = move_statement(statement)
    if path is not None:
        return dotted(path) in names
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.ListComp, ast.DictComp))):
        return False
    value = statement.value
    item = value.elt if isinstance(value, ast.ListComp) else value.value
    target, over = dotted(statement.targets[0]), value.generators[0].iter
    return target in names and moved(item) is not None and _root(over) == target


def _root(node: ast.AST) -> str:
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _inside(source: Source, node: ast.AST, statements: list[ast.stmt]) -> bool:
    return any(source.span(one).start <= source.span(node).start < source.span(one).end for one in statements)


# --- one thing -----------------------------------------------------------------------------


def dropped_results(program: str, source: Source) -> Iterator[Mutant | None]:
    """`x = x.to(device)` -> `x.to(device)`, of tensors."""
    modules = module_names(source)
    for statement in _statements(source):
        path = move_statement(statement)
        if path is None or not isinstance(statement, ast.Assign) or dotted(path) in modules:
            continue
        guarded = isinstance(source.parents[statement], ast.If)
        if guarded or _moves_in_place(source, dotted(path)):
            continue
        edit = (source.span(statement), source.code(statement.value))
        yield mutant("drop the result of a tensor's .to", program, source, statement, [edit])


def _moves_in_place(source: Source, name: str) -> bool:
    """May it be a batch of a tokenizer, of a graph library and the like, whose `to` changes it?

    No tensor stands in `**x` or `x["..."]`, or has attributes such as `x.edge_index`.
    """
    for node in source.walk():
        if isinstance(node, ast.keyword) and node.arg is None and dotted(node.value) == name:
            return True
        if isinstance(node, ast.Attribute) and dotted(node.value) == name:
            if node.attr not in _tensor_attributes():
                return True
        if isinstance(node, ast.Subscript) and dotted(node.value) == name:
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return True
    return False


@cache
def _tensor_attributes() -> frozenset[str]:
    import torch

    return frozenset(dir(torch.Tensor))


def unmoved_modules(program: str, source: Source) -> Iterator[Mutant | None]:
    """The move of a module goes: the statement, or `.to(device)` where the module is made."""
    modules = module_names(source)
    for statement in _statements(source):
        path = move_statement(statement)
        if path is not None:
            if dotted(path) in modules:
                edits = deleted(source, [statement])
                yield mutant("drop a module's .to", program, source, statement, edits)
        elif isinstance(statement, ast.Assign) and dotted(statement.targets[0]) in modules:
            call = statement.value
            value = moved(call)
            if isinstance(call, ast.Call) and isinstance(value, ast.Call):
                yield mutant("drop a module's .to", program, source, statement, [unmoved(source, call)])
