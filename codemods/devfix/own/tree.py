"""A TOML or YAML text as plain values that know the line they are on."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devfix.documents.yaml import Node, YamlError, compose

_PLAIN: Mapping[str, object] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"[-+]?\d+\Z")


class TreeError(Exception):
    """What is wrong with a text, and on which line (0: not known)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Tree:
    """A value: a text, number or truth value, a sequence of trees, or a mapping from names to trees.

    `lines` has the lines that the names of a mapping are on.
    """

    value: object
    line: int
    lines: tuple[tuple[str, int], ...] = ()

    def line_of(self, name: str) -> int:
        return dict(self.lines).get(name, self.line)

    def plain(self) -> object:
        """The value with no lines in it."""
        if isinstance(self.value, tuple):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {name: item.plain() for name, item in self.value.items()}
        return self.value


# --- YAML ----------------------------------------------------------------------------------------


def of_yaml(text: str) -> Tree:
    """Raises TreeError."""
    try:
        node = compose(text)
    except YamlError as error:
        at = re.findall(r"line (\d+)", str(error))
        line = int(at[-1]) if at else 0
        raise TreeError(f"is not valid YAML: {' '.join(str(error).split())}", line) from error
    return _of_node(node, text)


def _of_node(node: Node, text: str) -> Tree:
    line = text.count("\n", 0, node.start) + 1
    if node.tag:
        raise TreeError(f"tags such as {node.tag} are not for recipes of codemods", line)
    if node.kind == "sequence":
        return Tree(tuple(_of_node(item, text) for item in node.items), line)
    if node.kind == "mapping":
        found: dict[str, Tree] = {}
        lines = []
        for key, value in node.pairs:
            at = text.count("\n", 0, key.start) + 1
            if key.kind != "scalar" or key.value in found:
                raise TreeError(f"{key.value!r} is there twice" if key.value else "a key must be a name", at)
            found[key.value] = _of_node(value, text)
            lines.append((key.value, at))
        return Tree(found, line, tuple(lines))
    if node.plain and node.value.lower() in _PLAIN:
        return Tree(_PLAIN[node.value.lower()], line)
    if node.plain and _NUMBER.match(node.value):
        return Tree(int(node.value), line)
    return Tree(node.value, line)


# --- TOML ----------------------------------------------------------------------------------------


def of_toml(text: str) -> Tree:
    """Raises TreeError. The parser of TOML knows no lines: they are looked up in the text."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table = toml.loads(text)
    except toml.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise TreeError(f"is not valid TOML: {error}", int(line[1]) if line else 0) from error
    return _Lines(text).tree(table)


class _Lines:
    """Where names and texts stand, looked for in the order in which the parser gives them, each behind the last."""

    def __init__(self, text: str) -> None:
        self._lines = [_without_comment(line) for line in text.split("\n")]
        self._at = 1

    def tree(self, value: object) -> Tree:
        line = self._at
        if isinstance(value, Mapping):
            lines, found = dict[str, int](), dict[str, Tree]()
            for name, item in value.items():
                lines[name] = self._go_to(rf"(?:^|[{{,\s\[.])[\"']?{re.escape(name)}[\"']?\s*(?:=|\.|\])")
                below = isinstance(item, list) and self._lines[self._at - 1].lstrip().startswith("[[")
                found[name] = self._tables(name, item) if below else self.tree(item)
            return Tree(found, line, tuple(lines.items()))
        if isinstance(value, list):
            return Tree(tuple(map(self._item, value)), line)
        return Tree(value, line)

    def _tables(self, name: str, items: Sequence[object]) -> Tree:
        """What stands below each `[[name]]`, the first of which has been found."""
        line, found = self._at, []
        for item in items:
            self._go_to(rf"^\s*\[\[\s*[\"']?{re.escape(name)}[\"']?\s*\]\]")
            found.append(self.tree(item))
            self._at = min(self._at + 1, len(self._lines))
        return Tree(tuple(found), line)

    def _item(self, item: object) -> Tree:
        """An item of a list that is written out."""
        text = next(iter(item.values()), "") if isinstance(item, dict) else item
        if isinstance(text, str) and text:
            self._go_to(re.escape(text))
        return self.tree(item)

    def _go_to(self, pattern: str) -> int:
        """The next line with something, which may be the last one again; the last one if none has it."""
        behind = range(self._at, len(self._lines) + 1)
        self._at = next((at for at in behind if re.search(pattern, self._lines[at - 1])), self._at)
        return self._at


def _without_comment(line: str) -> str:
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return line[:at]
    return line
