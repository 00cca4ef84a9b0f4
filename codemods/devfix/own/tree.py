"""A TOML or YAML text as plain values that know the line they are on."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devfix.documents.yaml import Node, YamlError, compose

_TABLE = re.compile(r"\s*\[\[?\s*([\w.\"'-]+)\s*\]\]?")
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
    """Where names stand in a text, found in the order in which the parser gives them."""

    def __init__(self, text: str) -> None:
        self._lines = [_without_comment(line) for line in text.split("\n")]

    def tree(self, value: object, first: int = 1, last: int = 0) -> Tree:
        """A value that stands on the lines `first` to `last`."""
        last = last or len(self._lines)
        if isinstance(value, Mapping):
            at = {name: self._name(name, first, last) for name in value}
            found = {}
            for name, item in value.items():
                above = self._tables(name, first, last)
                if above and isinstance(item, Sequence) and not isinstance(item, str):
                    found[name] = self._several(item, above, last)
                else:
                    later = [line for line in at.values() if line > at[name]]
                    found[name] = self.tree(item, at[name], max(at[name], min(later, default=last + 1) - 1))
            return Tree(found, first, tuple(at.items()))
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = []
            at_line = first
            for item in value:
                at_line = self._text(item, at_line, last)
                items.append(self.tree(item, at_line, last))
            return Tree(tuple(items), first)
        return Tree(value, first)

    def _several(self, items: Sequence[object], above: list[int], last: int) -> Tree:
        ends = [*(line - 1 for line in above[1:]), last]
        pairs = zip(items, above, ends, strict=False)
        return Tree(tuple(self.tree(item, start, end) for item, start, end in pairs), above[0])

    def _tables(self, name: str, first: int, last: int) -> list[int]:
        """The lines of `[[name]]`."""
        lines = [(number, self._lines[number - 1]) for number in range(first, last + 1)]
        matches = [(number, _TABLE.match(line)) for number, line in lines if "[[" in line]
        return [number for number, match in matches if match and match[1].strip("\"'") == name]

    def _name(self, name: str, first: int, last: int) -> int:
        """The line of a key or of the table that it names; `first` if it is not found."""
        key = re.compile(rf"(?:^|[{{,\s\[.])[\"']?{re.escape(name)}[\"']?\s*(?:=|\.|\])")
        lines = (number for number in range(first, last + 1) if key.search(self._lines[number - 1]))
        return next(lines, first)

    def _text(self, value: object, first: int, last: int) -> int:
        """The line of an item of a list."""
        word = next(iter(value.values()), "") if isinstance(value, dict) else value
        if not isinstance(word, str) or not word:
            return first
        return next((number for number in range(first, last + 1) if word in self._lines[number - 1]), first)


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
