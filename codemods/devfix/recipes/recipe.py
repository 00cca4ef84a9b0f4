"""A HyperPyYAML file: what stands at its top, what refers to what, and what is under `modules:`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from devfix.documents.yaml import Node, YamlError, YamlTooLarge, compose
from devfix.pipeline.budget import ENTRIES, said
from devfix.recipes.constants import OBJECT, scalar
from devfix.recipes.files import Files
from devfix.recipes.including import INCLUDE, included

NEW, NAME, APPLY = "!new:", "!name:", "!apply:"
LIST = "!new:torch.nn.ModuleList"
_PATH = re.compile(r"<([^<>\[\].\s]+)((?:\[[^<>\[\]]*\])*)")
_WHOLE = re.compile(r"\s*<([^<>\[\].\s]+)((?:\[[^<>\[\]]*\])*)>\s*")
_ITEM = re.compile(r"\[([^\[\]]*)\]")
_KEY = re.compile(r"[\w.-]+")
_DEEPEST = 4  # mappings in each other whose entries have names
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
    """One recipe, composed, and the files around it. Raises YamlError for what is none.

    `path` and `text` are the file's, `root` is its mapping, `keys` and `entries` have what is at its top, by name.
    """

    def __init__(self, path: str, text: str, files: Files | None = None) -> None:
        self.path, self.text = path, text
        self._files = files
        self.root = compose(text)
        entries = sum(len(node.pairs) for node in self.root.walk())
        if entries > ENTRIES:
            raise YamlTooLarge(said(f"the recipe has {entries:,} entries", ENTRIES))
        if self.root.kind != "mapping" or self.root.tag:
            raise YamlError("not a mapping")
        self.keys = {key.value: key for key, _ in self.root.pairs}
        self.entries = {key.value: node for key, node in self.root.pairs}
        self._targets: dict[str, str] = {}
        self._below: dict[str, frozenset[str]] = {}
        if len(self.entries) != len(self.root.pairs):
            raise YamlError("a key stands twice")

    @property
    def files(self) -> Files:
        """What is read of the files around it."""
        if self._files is None:
            self._files = Files(self.path)
        return self._files

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The entries by their names, with those of included files, and what mappings hold: `models[generator]`."""
        found: dict[str, Node] = {}
        taken: list[str] = []
        todo = [(name, node, 0) for name, node in reversed(self.entries.items())]
        while todo:
            name, node, depth = todo.pop()
            if node.tag.startswith(INCLUDE) and depth == 0:
                node = included(self.files, self.path, name, node, taken) or node
            found[name] = node
            if node.kind == "mapping" and not node.tag and depth < _DEEPEST and len(found) < ENTRIES:
                for key, value in reversed(node.pairs):
                    if _KEY.fullmatch(key.value):
                        todo.append((f"{name}[{key.value}]", value, depth + 1))
        return found

    @cached_property
    def modules(self) -> Node | None:
        """What is under `modules:`, or what that refers to."""
        if "modules" not in self.entries:
            return None
        node = self.entries["modules"]
        return self.nodes[self.target("modules")] if node.tag else node

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
        if node is None or "<<" in self.entries:
            return False
        if node.kind == "mapping":
            return not node.tag and all(key.value != "<<" for key, _ in node.pairs)
        return node.kind == "scalar" and not node.tag and node.plain and node.value == ""

    def is_own(self, node: Node) -> bool:
        """Is an entry's node in this file, and not in one that it includes?"""
        return any(node is one for one in self.entries.values())

    def key(self, name: str) -> Node:
        """The key of an entry; of one in an included file, the key of what includes that."""
        return self.keys[name.partition("[")[0]]

    def target(self, name: str) -> str:
        """The name of the entry that an entry is only another name of."""
        if name not in self._targets:
            found = name
            for _ in range(8):
                node = self.nodes.get(found)
                found = (self._whole(node) if node is not None else "") or found
            self._targets[name] = found
        return self._targets[name]

    def _whole(self, node: Node) -> str:
        """The entry that a node is a reference to and nothing else, or an empty string."""
        match = _WHOLE.fullmatch(node.value) if node.tag == "!ref" else None
        name = match[1] + match[2] if match is not None else ""
        return name if name in self.nodes else ""

    def _named(self, name: str, items: str) -> str:
        """The entry that `<name[item][item]>` leads to, or the innermost one around it that has a name."""
        for item in _ITEM.findall(items):
            if f"{name}[{item}]" not in self.nodes:
                break
            name = f"{name}[{item}]"
        return name

    def constant(self, name: str) -> Any:
        """The value of an entry that is one, else OBJECT."""
        node = self.nodes.get(self.target(name))
        return OBJECT if node is None else scalar(node)

    def made(self, name: str) -> str:
        """The dotted name of the class that `!new:` makes an entry of, or an empty string."""
        return class_of(self.nodes[name]) if name in self.nodes else ""

    def arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of a `!new:` by name or number, as far as they are constants."""
        numbered = {str(index): self.value(item) for index, item in enumerate(node.items)}
        return numbered or {key.value: self.value(value) for key, value in node.pairs}

    def value(self, node: Node) -> Any:
        """What a scalar is, through references, else OBJECT."""
        whole = self._whole(node)
        return self.constant(whole) if whole else scalar(node)

    def references(self, node: Node) -> Iterator[str]:
        """The entries that a node refers to, anywhere below it."""
        for inner in node.walk():
            if inner is not node or node.tag:
                yield from (name for name in self.referred(inner) if self.nodes[name] is not node)

    def below(self, key: str) -> frozenset[str]:
        """The entries that something named so, such as a checkpointer's `recoverables`, refers to."""
        if key not in self._below:
            self._below[key] = frozenset(
                one for value in self._valued.get(key, ()) for one in self.references(value)
            )
        return self._below[key]

    @cached_property
    def in_lists(self) -> dict[str, set[str]]:
        """Entry -> the entries that are a `torch.nn.ModuleList` with it."""
        found: dict[str, set[str]] = {}
        for entry, node in self.nodes.items():
            for name in self.references(node) if node.tag == LIST else ():
                found.setdefault(name, set()).add(entry)
        return found

    @cached_property
    def _valued(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.root.walk():
            for name, value in node.pairs:
                found.setdefault(name.value, []).append(value)
        return found

    def referred(self, node: Node) -> Iterator[str]:
        """The entries that one scalar refers to; of an alias, and of what has a name itself, that entry."""
        if node.tag in ("!ref", "!copy"):
            for name, items in _PATH.findall(node.value):
                if name in self.nodes:
                    yield self.target(self._named(name, items))
        elif id(node) in self._identity:
            yield self._identity[id(node)]

    @cached_property
    def _identity(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, node in self.nodes.items():
            if id(node) not in found or "[" in found[id(node)]:
                found[id(node)] = name
        return found

    @cached_property
    def holders(self) -> dict[str, tuple[Held, ...]]:
        """Entry -> where it is handed to constructors."""
        found: dict[str, list[Held]] = {}
        for entry, node in self.nodes.items():
            for name, links in self._links(node) if entry.partition("[")[0] != "modules" else ():
                if name != entry and (links or not node.tag):
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
                if not first and id(node) in self._identity:
                    continue  # an entry of its own
            made = node.tag.startswith((NEW, NAME, APPLY))
            for key, value in node.pairs:
                todo.append((value, (*links, (node, key.value)) if made else links, False))
            for index, item in enumerate(node.items):
                todo.append((item, (*links, (node, str(index))) if made else links, False))


def class_of(node: Node) -> str:
    """The dotted name after `!new:`, or an empty string."""
    return node.tag[len(NEW) :].strip() if node.tag.startswith(NEW) else ""


def last_key(name: str) -> str:
    """`generator`, of `models[generator]`; of the name of an entry at the top, that name."""
    return name.rstrip("]").rpartition("[")[2]
