"""Does a `map_location` cure anything in the program that a load is in, as far as the project shows?

Not where nobody calls the function, the checkpoints load anywhere, the program runs on CUDA only, or
another load that fails the same way stays as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.loading.calls import Load
from devfix.source import Source, remembered

_MODULE_USES = r"\.(?:eval|train|parameters|state_dict|load_state_dict|zero_grad|cuda|to)\("


def cures(flow: Flow, load: Load, stay: Sequence[Load]) -> bool:
    """Is it likely that a program works with the argument that fails without? `stay`: loads that stay as they are."""
    function = load.function
    if function is not None and flow.used(function.name) is False:
        return False
    if load.wrapper:
        return True
    if any(_with(flow.source, load, other) for other in stay) or _whole(flow.source, load):
        return False
    name = _file_name(load)
    if name and flow.saved_without_cuda(name):
        return False
    if flow.default_is_set() or flow.saves_from_cpu() or flow.writes() is False:
        return False
    if any(_called_before(flow, load, other) for other in stay):
        return False
    names = _names(flow.source, load)
    if _handed(load) and names and flow.called_after_download(names[-1]):
        return False  # what is published was mostly saved so that it loads anywhere
    return not needs_cuda(flow, load)


def needs_cuda(flow: Flow, load: Load) -> bool:
    """Does the program, or what it uses of other files, go to CUDA whatever there is?"""
    return flow.needs_cuda() is True or flow.goes_to_cuda(_names(flow.source, load)) is True


def _file_name(load: Load) -> str:
    """The name of the file, where that is written down: `"weights/a.pth"`, `join(folder, "a.pth")`."""
    path = load.call.args[0] if load.call.args else None
    while isinstance(path, ast.Call) and path.args:
        path = path.args[-1]
    if isinstance(path, ast.Constant) and isinstance(path.value, str):
        return re.split(r"[/\\\\]", path.value)[-1]
    return ""


def _handed(load: Load) -> bool:
    """Is the path a parameter of the function?"""
    path = load.call.args[0] if load.call.args else None
    if not isinstance(path, ast.Name) or load.function is None:
        return False
    arguments = load.function.args
    return path.id in {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _names(source: Source, load: Load) -> list[str]:
    """The names of the functions and classes that a load stands in."""
    found: list[str] = []
    up: ast.AST | None = load.call
    while up is not None:
        if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(up.name)
        up = source.parents.get(up)
    return found


def _with(source: Source, load: Load, other: Load) -> bool:
    """Does another load run wherever this one does, in the same block or one around it?"""
    if other.function is not load.function:
        return False
    there = source.statement(other.call)
    block = source.block(there)
    up: ast.AST | None = source.statement(load.call)
    while up is not None and up is not load.function:
        if any(up is one for one in block):
            return True
        up = source.parents.get(up)
    return False


def _called_before(flow: Flow, load: Load, other: Load) -> bool:
    """Does another load stand in a function that is always called before the one of this load?"""
    here, there = load.function, other.function
    if here is None or there is None or here is there:
        return False
    return flow.called_after(here.name, there.name)


def _whole(source: Source, load: Load) -> bool:
    """Is the very file written as a module, not as its state?"""
    path = load.call.args[0] if load.call.args else None
    if path is None or isinstance(path, ast.Constant):
        return False
    if path_of(path) and path_of(path) in _opened(source):
        return False  # an open file, by a name that many have
    return any(_used_as_module(source, saved) for saved in _saved(source).get(ast.unparse(path), ()))


@remembered
def _opened(source: Source) -> frozenset[str]:
    """What `with` binds."""
    items = source.of_kind(ast.withitem)
    return frozenset(path_of(item.optional_vars) for item in items if item.optional_vars is not None)


@remembered
def _saved(source: Source) -> dict[str, dict[str, None]]:
    """File -> the names that are saved to it."""
    found: dict[str, dict[str, None]] = {}
    for call in source.calls:
        if len(call.args) > 1 and source.qualified(call.func) == "torch.save":
            if saved := path_of(call.args[0]):
                found.setdefault(ast.unparse(call.args[1]), {})[saved] = None
    return found


@remembered
def _used_as_module(source: Source, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}{_MODULE_USES}", source.text) is not None
