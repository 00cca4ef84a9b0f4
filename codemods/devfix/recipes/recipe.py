"""A HyperPyYAML file: what stands at its top, what refers to what, and what is under `modules:`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from devfix.documents.yaml import Node, YamlError, compose
from devfix.recipes.constants import OBJECT, scalar
from devfix.recipes.files import Files

NEW, NAME, APPLY = "!new:", "!name:", "!apply:"
_ROOT = re.compile(r"<([^<>\[\].\s]+)")
_WHOLE = re.compile(r"\s*<([^<>\[\].\s]+)>\s*")
WORDS = (("!new:",), ("modules",))


def may_be_recipe(text: str) -> bool:
    """A look at a YAML file that costs nearly nothing."""
    return "!new:" in text and "modules" in text


@dataclass(frozen=True, eq=False)
class Held:
    """A place where something is handed to constructors: the `!new:` around it, outermost first, each
    with the name of the argument that leads on (a number where it has none). Without any it is an element."""

    entry: str
    links: tuple[tuple[Node, str], ...]


class Recipe:
    """One recipe, composed, and the files around it. Raises YamlError for what is none."""

    def __init__(self, path: str, text: str, files: Files | None = None) -> None:
        self.path, self.text = path, text
        self._files = files
        self.root = compose(text)
        if self.root.kind != "mapping" or self.root.tag:
            raise YamlError("not a mapping")
        self.keys = {key.value: key for key, _ in self.root.pairs}
        self.entries = {key.value: node for key, node in self.root.pairs}
        if len(self.entries) != len(self.root.pairs):
            raise YamlError("a key stands twice")

    @property
    def files(self) -> Files:
        if self._files is None:
            self._files = Files(self.path)
        return self._files

    @cached_property
    def modules(self) -> Node | None:
        """What is under `modules:`, or what that refers to."""
        node = self.entries.get("modules")
        for _ in range(5):
            if node is None or node.kind != "scalar":
                break
            whole = _WHOLE.fullmatch(node.value) if node.tag == "!ref" else None
            if whole is None:
                break
            node = self.entries.get(whole[1])
        return node

    @cached_property
    def listed(self) -> frozenset[str]:
        """The names under `modules:`."""
        if self.modules is None:
            return frozenset()
        return frozenset(key.value for key, _ in self.modules.pairs)

    @property
    def clear(self) -> bool:
        """Is there a `modules:` whose entries are all in view?"""
        node = self.modules
        if node is None or (
            "!include:" in self.text and any(n.tag.startswith("!include:") for n in self.top)
        ):
            return False
        if node.kind == "mapping":
            return not node.tag and all(key.value != "<<" for key, _ in node.pairs)
        return node.kind == "scalar" and not node.tag and node.plain and node.value == ""

    @property
    def top(self) -> tuple[Node, ...]:
        return tuple(self.entries.values())

    def target(self, name: str) -> str:
        """The name of the entry that an entry is only another name of."""
        for _ in range(8):
            node = self.entries.get(name)
            whole = _WHOLE.fullmatch(node.value) if node is not None and node.tag == "!ref" else None
            if whole is None or whole[1] not in self.entries:
                return name
            name = whole[1]
        return name

    def constant(self, name: str) -> Any:
        """The value of an entry that is one, else OBJECT."""
        node = self.entries.get(self.target(name))
        return OBJECT if node is None else scalar(node)

    def made(self, name: str) -> str:
        """The dotted name of the class that `!new:` makes an entry of, or an empty string."""
        return class_of(self.entries[name]) if name in self.entries else ""

    def arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of a `!new:` by name or number, as far as they are constants."""
        numbered = {str(index): self.value(item) for index, item in enumerate(node.items)}
        return numbered or {key.value: self.value(value) for key, value in node.pairs}

    def value(self, node: Node) -> Any:
        whole = _WHOLE.fullmatch(node.value) if node.tag == "!ref" else None
        return self.constant(whole[1]) if whole is not None else scalar(node)

    def references(self, node: Node) -> Iterator[str]:
        """The entries that a node refers to, anywhere below it."""
        for inner in node.walk():
            if inner is not node or node.tag:
                yield from (name for name in self.referred(inner) if self.entries[name] is not node)

    def referred(self, node: Node) -> Iterator[str]:
        """The entries that one scalar refers to; of an alias, the entry that it stands for."""
        if node.tag in ("!ref", "!copy"):
            yield from (self.target(name) for name in _ROOT.findall(node.value) if name in self.entries)
        elif id(node) in self._identity:
            yield self._identity[id(node)]

    @cached_property
    def _identity(self) -> dict[int, str]:
        return {id(node): name for name, node in self.entries.items()}

    @cached_property
    def holders(self) -> dict[str, tuple[Held, ...]]:
        """Entry -> where it is handed to constructors."""
        found: dict[str, list[Held]] = {}
        for entry, node in self.entries.items():
            for name, links in self._links(node):
                if name != entry and (links or not node.tag) and entry != "modules":
                    found.setdefault(name, []).append(Held(entry, links))
        return {name: tuple(held) for name, held in found.items()}

    def _links(self, root: Node) -> Iterator[tuple[str, tuple[tuple[Node, str], ...]]]:
        todo: list[tuple[Node, tuple[tuple[Node, str], ...], bool]] = [(root, (), True)]
        seen: set[int] = set()
        while todo:
            node, links, first = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if not first or node.tag == "!ref":
                for name in self.referred(node):
                    yield name, links
            made = node.tag.startswith((NEW, NAME, APPLY))
            for key, value in node.pairs:
                todo.append((value, (*links, (node, key.value)) if made else links, False))
            for index, item in enumerate(node.items):
                todo.append((item, (*links, (node, str(index))) if made else links, False))


def class_of(node: Node) -> str:
    """The dotted name after `!new:`, or an empty string."""
    return node.tag[len(NEW) :].strip() if node.tag.startswith(NEW) else ""
