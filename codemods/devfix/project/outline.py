"""What a file defines and passes on, without interpreting it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from devfix.text.source import BLOCKS, FUNCTIONS, Source, walk


@dataclass(frozen=True)
class Definition:
    """Something at the top level of a file: "def", "class" or "value"."""

    path: str
    name: str
    what: str


@dataclass
class Outline:
    """Names of a file's top level.

    - `names`: "def", "class" or "value"; "?" where the file says different things; imports have theirs
      after a space, with leading dots where relative.
    - `stars`: the modules of `from x import *`, in order.
    """

    names: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def add(self, name: str, what: str) -> None:
        known = self.names.setdefault(name, what)
        if known != what:
            self.names[name] = "?"


def outline_of(source: Source) -> Outline:
    """The outline of a file; of functions and classes only their headers are looked at."""
    found = Outline()
    todo: list[ast.AST] = list(reversed(source.tree.body))
    while todo:
        node = todo.pop()
        if isinstance(node, FUNCTIONS):
            found.add(node.name, "def" if node.name not in found.names else "?")
        elif isinstance(node, ast.ClassDef):
            found.add(node.name, "class" if node.name not in found.names else "?")
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
            for block in BLOCKS:
                inner = getattr(node, block, None)
                if inner.__class__ is list:
                    todo.extend(reversed(inner))
    return found
