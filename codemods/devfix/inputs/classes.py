"""The classes of a project as they are written: their methods, and what their attributes are made from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.source import Source, remembered

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BUFFERS = frozenset({"register_buffer", "register_parameter"})
_DEPTH = 6  # of classes that derive from each other


@dataclass(frozen=True, eq=False)
class Written:
    """A class, its file (empty: the analysed one) and the text of that."""

    flow: Flow
    path: str
    source: Source
    node: ast.ClassDef

    def method(self, name: str, depth: int = 0) -> Method | None:
        """A method and the class that has it, this one or one that it derives from."""
        for item in self.node.body:
            if isinstance(item, _FUNCTIONS) and item.name == name:
                return self, item
        for base in self.node.bases if depth < _DEPTH else ():
            parent = self.find(base)
            found = parent.method(name, depth + 1) if parent is not None else None
            if found is not None:
                return found
        return None

    def find(self, node: ast.expr) -> Written | None:
        """The class of the project that an expression of this file names."""
        return find(self.flow, self.path, self.source, node)

    @cached_property
    def made(self) -> dict[str, list[tuple[Written, ast.expr]]]:
        """Attribute -> the expressions that it is set to, in all methods, and in which class each stands."""
        found: dict[str, list[tuple[Written, ast.expr]]] = {}
        for owner in self._line():
            for name, value in _attributes(owner.node):
                found.setdefault(name, []).append((owner, value))
        return found

    @cached_property
    def complete(self) -> bool:
        """Are all classes that it derives from in sight, down to `nn.Module`?"""
        return all(
            owner.find(base) is not None
            or owner.source.qualified(base) in torch_api.MODULE_BASES | {"torch.jit.ScriptModule"}
            for owner in self._line()
            for base in owner.node.bases
        )

    @cached_property
    def buffers(self) -> frozenset[str]:
        """What the class registers by name as tensors of its own."""
        return frozenset(
            call.args[0].value
            for owner in self._line()
            for call in owner.source.walk(owner.node)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _BUFFERS
            and call.args
            and isinstance(call.args[0], ast.Constant)
            and isinstance(call.args[0].value, str)
        )

    def _line(self) -> list[Written]:
        found, todo, seen = list[Written](), [self], {self.node}
        while todo:
            owner = todo.pop(0)
            found.append(owner)
            for base in owner.node.bases:
                parent = owner.find(base)
                if parent is not None and parent.node not in seen:
                    seen.add(parent.node)
                    todo.append(parent)
        return found


Method = tuple[Written, Function]  # with the class that has it


def find(flow: Flow, path: str, source: Source, node: ast.expr) -> Written | None:
    """The class that an expression of a file names."""
    if isinstance(node, ast.Name):
        item = _top_level(source).get(node.id)
        if item is not None:
            return Written(flow, path, source, item)
    dotted = source.qualified(node)
    return named(flow, dotted, path) if dotted and not dotted.startswith("torch.") else None


@remembered
def _top_level(source: Source) -> dict[str, ast.ClassDef]:
    """The classes of a file by their names, of two the last."""
    return {item.name: item for item in source.tree.body if isinstance(item, ast.ClassDef)}


@remembered
def _anywhere(source: Source) -> dict[str, ast.ClassDef]:
    """All classes of a file by their names, of two the first."""
    return {item.name: item for item in reversed(source.definitions) if isinstance(item, ast.ClassDef)}


def named(flow: Flow, name: str, path: str = "") -> Written | None:
    """The class that a value of the flow is known by, or an import of the file `path`."""
    if not path and name.isidentifier():
        item = _anywhere(flow.source).get(name)
        if item is not None:
            return Written(flow, "", flow.source, item)
        name = flow.source.imports.get(name, name)
    found = flow.written(name, path)
    return Written(flow, *found) if found is not None else None


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for method in node.body:
        for part in ast.walk(method) if isinstance(method, _FUNCTIONS) else ():
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    yield from _set(target, part.value)
            elif isinstance(part, ast.AnnAssign) and part.value is not None:
                yield from _set(part.target, part.value)


def _set(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        several = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        if len(several) == len(target.elts):
            for one, item in zip(target.elts, several, strict=True):
                yield from _set(one, item)
        else:
            for one in target.elts:
                yield from _set(one, value)
    elif (path := path_of(target)).startswith("self.") and path.count(".") == 1:
        yield path[5:], value
