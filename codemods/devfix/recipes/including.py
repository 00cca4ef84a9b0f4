"""Files that a recipe includes (`models: !include:models.yaml`), as if their entries stood where they are named."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from devfix.documents.yaml import Node, YamlError, compose
from devfix.recipes.files import Files

INCLUDE = "!include:"
_MOST = 20  # files that one recipe includes, all counted
_ROOT = re.compile(r"<([^<>\[\].\s]+)")


def included(files: Files, path: str, name: str, node: Node, taken: list[str]) -> Node | None:
    """What `name: !include:file` stands for, or None where that is not in view.

    HyperPyYAML resolves an included file by itself, with what is below the tag in the place of its own
    entries. So a reference to its entry `x` becomes one to `name[x]`. All of it stands, as far as positions
    go, where the file is named. `taken` are the files that were included so far.
    """
    file = os.path.join(os.path.dirname(os.path.abspath(path)), *node.tag[len(INCLUDE) :].strip().split("/"))
    document = files.document(os.path.normpath(file)) if len(taken) < _MOST else None
    if document is None:
        return None
    taken.append(document.path)
    try:
        root = compose(document.text)
    except YamlError:
        return None
    if root.kind != "mapping" or root.tag:
        return None
    instead = {key.value: value for key, value in node.pairs}
    moved = _Moved(name, frozenset(key.value for key, _ in root.pairs), node)
    pairs = []
    for key, value in root.pairs:
        new = instead.get(key.value)
        if new is None and value.tag.startswith(INCLUDE):
            new = included(files, document.path, f"{name}[{key.value}]", moved.node(value), taken)
        pairs.append((moved.node(key), new if new is not None else moved.node(value)))
    return Node("mapping", "", node.start, node.end, pairs=tuple(pairs))


class _Moved:
    """Copies the nodes of a file into another one; what was one node stays one."""

    def __init__(self, name: str, own: frozenset[str], place: Node) -> None:
        self.name, self.own, self.place = name, own, place
        self.known: dict[int, Node] = {}

    def node(self, node: Node) -> Node:
        if id(node) not in self.known:
            self.known[id(node)] = replace(
                node,
                start=self.place.start,
                end=self.place.end,
                value=_ROOT.sub(self._reference, node.value) if node.tag in ("!ref", "!copy") else node.value,
                items=tuple(map(self.node, node.items)),
                pairs=tuple((self.node(key), self.node(value)) for key, value in node.pairs),
            )
        return self.known[id(node)]

    def _reference(self, match: re.Match[str]) -> str:
        return f"<{self.name}[{match[1]}]" if match[1] in self.own else match[0]
