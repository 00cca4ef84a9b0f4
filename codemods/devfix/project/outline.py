"""What a file defines and passes on, without interpreting it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from devfix.flow import torch_api
from devfix.flow.evidence import moves_inputs
from devfix.source import Source, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_BINDS = re.compile(r"\s*(?:[,:)\]]|[-+*/|&^%@]?=(?!=)|in\b)")  # what follows a name that is bound, perhaps
_LEADS = ("as ", "def ", "class ")
# Without one of these words, nothing in a file is about devices.
_WORDS = ("torch", ".to(", ".cuda(", "device", "nn.")
_MOVING = ("device", ".to(", ".cuda(")
_CHANGING = (".to(", ".cuda(", ".cpu(", "setattr(", "_module(", "register_", "= nn.", ".append(")
# Bases that make a class neither a module nor anything else that flow should know of.
_PLAIN = frozenset({"object", "ABC", "abc.ABC", "Protocol", "typing.Protocol", "Generic", "typing.Generic"})
_HOLDING = (
    "register_buffer",
    "register_parameter",
    "Parameter(",
    "from_pretrained(",
    "create_model(",
    "hub.load(",
)
_HOLDS = re.compile(r"self\.\w+\s*=\s*(?!OrderedDict|Path|Counter)[A-Z]\w*\(|models\.\w+\(")


@dataclass(frozen=True)
class Method:
    plain: bool  # no static method, property and the like
    changes: bool  # may move its object, or attach something to it
    moves: bool  # moves what it is given


@dataclass(frozen=True)
class ClassOutline:
    bases: tuple[str, ...]  # qualified where they are imported
    methods: dict[str, Method]
    moving: bool  # `__init__` does something about devices
    making: bool  # `__init__` makes parameters, buffers or submodules, as far as its text shows
    holding: bool  # anything in the class does


@dataclass
class Outline:
    """Names of a file's top level.

    - `concerned`: may anything in the file be about devices?
    - `names`: "def", "class" or "value"; "?" where the file says different things; imports have theirs
      after a space, with leading dots where relative.
    - `stars`: the modules of `from x import *`, in order.
    """

    concerned: bool
    names: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    classes: dict[str, ClassOutline] = field(default_factory=dict)

    def add(self, name: str, what: str) -> None:
        known = self.names.setdefault(name, what)
        if known != what:
            self.names[name] = "?"


def outline_of(source: Source, classes: bool = True) -> Outline:
    """The outline of a file; of functions and classes only their headers are looked at, mostly.

    Without `classes` what is in them is left out, which costs most.
    """
    found = Outline(any(word in source.text for word in _WORDS))
    todo: list[ast.AST] = list(reversed(source.tree.body))
    while todo:
        node = todo.pop()
        if isinstance(node, _FUNCTIONS):
            found.add(node.name, "def" if node.name not in found.names else "?")
        elif isinstance(node, ast.ClassDef):
            found.add(node.name, "class" if node.name not in found.names else "?")
            if classes:
                found.classes[node.name] = _class(source, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found.add(alias.asname, f" {alias.name}")
                else:
                    root = alias.name.partition(".")[0]
                    found.add(root, f" {root}")
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            joint = "" if module.endswith(".") else "."
            for alias in node.names:
                if alias.name == "*":
                    found.stars.append(module)
                else:
                    found.add(alias.asname or alias.name, f" {module}{joint}{alias.name}")
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for part in walk(target):
                        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                            found.add(part.id, "value")
        else:
            for block in _BLOCKS:
                inner = getattr(node, block, None)
                if inner.__class__ is list:
                    todo.extend(reversed(inner))
    return found


def _class(source: Source, node: ast.ClassDef) -> ClassOutline:
    bases = tuple(
        source.qualified(base.value if isinstance(base, ast.Subscript) else base)
        or ast.unparse(base).partition("[")[0]
        for base in node.bases
    )
    methods: dict[str, Method] = {}
    moving = making = False
    for item in node.body:
        if isinstance(item, _FUNCTIONS):
            code = source.code(item)
            moves = moves_inputs(code, item)
            plain = not any(_special(decorator) for decorator in item.decorator_list)
            methods[item.name] = Method(plain, any(word in code for word in _CHANGING), moves)
            if item.name == "__init__":
                moving = any(word in code for word in _MOVING)
                making = _makes(code)
    holding = True
    if len(bases) == 1 and bases[0] in torch_api.MODULE_BASES:
        holding = _makes(source.code(node))
    return ClassOutline(bases, methods, moving, making, holding)


def _makes(code: str) -> bool:
    if "nn." in code.replace("nn.Module", "").replace("nn.functional", ""):
        return True
    return any(word in code for word in _HOLDING) or _HOLDS.search(code) is not None


def _special(decorator: ast.expr) -> bool:
    name = decorator.id if isinstance(decorator, ast.Name) else getattr(decorator, "attr", "")
    return name in ("staticmethod", "classmethod", "property", "cached_property", "setter", "contextmanager")


def is_plain(base: str) -> bool:
    return base in _PLAIN


_BINDS_NOTHING = frozenset(
    {ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass, ast.Import, ast.ImportFrom, ast.Delete}
    | {ast.Break, ast.Continue, ast.Global, ast.Nonlocal}
)


def may_be_rebound(text: str, name: str) -> bool:
    """Is there anything that looks like a binding of a name, other than an import of it?"""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before = text[at - 1 : at]
        if not (before.isalnum() or before in ("_", ".")) and not text[end : end + 1].isalnum():
            if _BINDS.match(text, end) or text[max(0, at - 6) : at].endswith(_LEADS):
                return True
        at = text.find(name, end)
    return False


def rebound(tree: ast.Module) -> frozenset[str]:
    """Names that statements anywhere in a file bind other than by importing them."""
    found: set[str] = set()
    methods: set[ast.AST] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if node.__class__ in _BINDS_NOTHING:
            continue
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                targets = node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
            targets = [node.target]
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
            methods.update(item for item in node.body if isinstance(item, _FUNCTIONS))
        elif isinstance(node, _FUNCTIONS):
            if node not in methods:
                found.add(node.name)
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if isinstance(one.annotation, ast.Name) and one.annotation.id == "str":
                    found.add(one.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        for target in targets:
            if isinstance(target, ast.Name):
                found.add(target.id)
            else:
                for part in walk(target):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        found.add(part.id)
        for block in _BLOCKS:
            inner = getattr(node, block, None)
            if inner.__class__ is list:
                todo.extend(inner)
    return frozenset(found)
