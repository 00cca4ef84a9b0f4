"""A script and its Brain, read for one recipe: what is used as `self.hparams.x`, listed, and moved by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from devfix.engine.files import Class, File, Function
from devfix.recipes.library import Library
from devfix.text.callees import argument_of
from devfix.text.source import Source

if TYPE_CHECKING:
    from devfix.recipes.moving import Moves

LOADER = "load_hyperpyyaml"
_CHANGES = ("update", "setdefault", "add_module", "pop")
_BRAINS = ("speechbrain.Brain", "speechbrain.core.Brain")
# Methods of a Brain that run on the device; what they call on `self` does, too.
COMPUTE = ("compute_forward", "compute_objectives", "fit_batch", "evaluate_batch")


@dataclass(eq=False)
class Script:
    """One Python file that loads a recipe."""

    file: File
    loaded: frozenset[str] = frozenset()  # the names of what the loader gives
    files: tuple[str, ...] = ()  # YAML files that it names
    brains: tuple[Class, ...] = ()

    @property
    def path(self) -> str:
        return self.file.path

    @cached_property
    def methods(self) -> dict[Function, bool]:
        """The methods of its Brains, as far as they are the project's own, and whether they compute."""
        found: dict[Function, bool] = {}
        for brain in self.brains:
            own = [cls.methods for cls in reversed(brain.lineage) if not is_base(cls)]
            methods = {name: method for one in own for name, method in one.items()}
            computing = _closure(methods)
            for name, method in methods.items():
                found[method] = found.get(method, False) or name in computing
        return found

    @property
    def sources(self) -> Iterator[Source]:
        """The script, and the files beside it that have methods of its Brains."""
        yield self.file.source
        for method in self.methods:
            yield method.file.source

    @cached_property
    def constructions(self) -> tuple[ast.Call, ...]:
        """Where its Brains are made."""
        found = [call for call in self.file.source.calls if self.file.definition(call.func) in self.brains]
        return tuple(sorted(found, key=lambda call: call.lineno))

    @property
    def lists_modules(self) -> bool:
        """Do its Brains get what is under `modules:`, as it is?"""
        given = [argument_of(call, "modules", 0) for call in self.constructions]
        return (
            bool(given)
            and all(node is not None and self.key_of(node) == "modules" for node in given)
            and not self._changes_modules
        )

    @cached_property
    def options(self) -> frozenset[str]:
        """What it calls the options that speechbrain reads from the command line, if it completes none."""
        source = self.file.source
        given = [target for target in _bound(source, "parse_arguments") if isinstance(target, ast.Tuple)]
        found = {getattr(target.elts[1], "id", "") for target in given if len(target.elts) == 3} - {""}
        for node in source.of_kind(ast.Subscript) if found else ():
            if isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") in found:
                return frozenset()
        return frozenset(found)

    @cached_property
    def moves(self) -> Moves:
        from devfix.recipes.moving import Moves

        return Moves(self)

    @cached_property
    def _changes_modules(self) -> bool:
        """Does it add to `hparams["modules"]` or to `brain.modules` itself?"""
        source = self.file.source
        stored = [node for node in source.of_kind(ast.Subscript) if not isinstance(node.ctx, ast.Load)]
        calls = [call for name in _CHANGES for call in source.calls_by_name.get(name, ())]
        changed = [node.value for node in (*stored, *(call.func for call in calls)) if hasattr(node, "value")]
        return any(self.key_of(node) == "modules" for node in (*stored, *changed)) or any(
            _is_attribute(node, "modules") for node in changed
        )

    def key_of(self, node: ast.AST) -> str:
        """x, of `hparams["x"]`, `hparams.get("x")` and `self.hparams.x`; else an empty string."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str) and self.is_hparams(node.value):
                return node.slice.value
        if isinstance(node, ast.Attribute) and self.is_hparams(node.value):
            return node.attr
        if isinstance(node, ast.Call) and node.args:
            return self._called_key(node)
        return ""

    def _called_key(self, node: ast.Call) -> str:
        """x, of `hparams.get("x")` and `getattr(self.hparams, "x")`."""
        function, name = node.func, node.args[0]
        if isinstance(function, ast.Name) and function.id == "getattr" and len(node.args) > 1:
            if not self.is_hparams(name):
                return ""
            name = node.args[1]
        elif not (
            isinstance(function, ast.Attribute) and function.attr == "get" and self.is_hparams(function.value)
        ):
            return ""
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""

    def is_hparams(self, node: ast.AST) -> bool:
        """`hparams` as it was loaded, or `self.hparams`."""
        if isinstance(node, ast.Name):
            return node.id in self.loaded
        return _is_attribute(node, "hparams")


def module_key(node: ast.AST) -> str:
    """x, of `self.modules.x` and `self.modules["x"]`; else an empty string."""
    if isinstance(node, ast.Attribute) and _is_attribute(node.value, "modules"):
        return node.attr
    if isinstance(node, ast.Subscript) and _is_attribute(node.value, "modules"):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
    return ""


def _is_attribute(node: ast.AST, name: str) -> bool:
    """`self.NAME`, or that of another name, such as `brain.NAME`."""
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name)


def read_script(library: Library, path: str) -> Script | None:
    """A script, if that is what the file is: it loads a recipe and has a Brain."""
    if path not in library.scripts:
        library.scripts[path] = _read(library, path)
    return cast("Script | None", library.scripts[path])


def _read(library: Library, path: str) -> Script | None:
    file = library.of_file(path)
    loaded, files = _loading(file) if file is not None else (frozenset(), ())
    if file is None or not loaded:
        return None
    brains = tuple(_brains(file))
    return Script(file, loaded, files, brains) if brains else None


def _loading(file: File) -> tuple[frozenset[str], tuple[str, ...]]:
    names = {target.id for target in _bound(file.source, LOADER) if isinstance(target, ast.Name)}
    texts = {node.value for node in file.source.of_kind(ast.Constant) if isinstance(node.value, str)}
    files = [text for text in texts if text.endswith((".yaml", ".yml")) and "\n" not in text]
    return frozenset(names), tuple(sorted(files))


def _bound(source: Source, function: str) -> Iterator[ast.expr]:
    """What the results of a function are assigned to."""
    for call in source.calls_by_name.get(function, ()):
        statement = source.parents[call]
        if isinstance(statement, ast.Assign):
            yield from statement.targets


def _brains(file: File) -> Iterator[Class]:
    """The Brain classes of a script: its own, and those that it takes from files beside it."""
    for cls in [*file.classes.values(), *map(file.imported, file.source.imports.values())]:
        if isinstance(cls, Class) and not is_base(cls):
            if any(name in _BRAINS for name in cls.outside) or any(map(is_base, cls.lineage)):
                yield cls


def is_base(cls: Class) -> bool:
    """Is it the class that takes `modules` and moves them, as speechbrain's Brain does?"""
    init = cls.methods.get("__init__")
    if init is None or all(one.arg != "modules" for one in init.parameters):
        return False
    for node in init.nodes:
        if isinstance(node, ast.Assign) and any(_is_attribute(item, "modules") for item in node.targets):
            if any(isinstance(item, ast.Attribute) and item.attr == "to" for item in ast.walk(node.value)):
                return True
    return False


def _closure(methods: dict[str, Function]) -> set[str]:
    """The names of the methods that computing reaches."""
    found = {name for name in COMPUTE if name in methods}
    todo = list(found)
    for one in todo:  # grows on the way
        new = (methods[one].called & methods.keys()) - found
        found |= new
        todo += new
    return found
