"""A new entry under `modules:` as an insertion of text, and the doubts about what came out."""

from __future__ import annotations

import re

from devfix.documents.yaml import Node, YamlError
from devfix.findings import ReplaceText, Span
from devfix.recipes.recipe import Recipe

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_ENTRY = re.compile(r"[A-Za-z_][\w.-]*(?:\[[\w.-]+\])*")
_REFERENCE = re.compile(r"<([^<>\[\]]+)[^<>]*>")
_NEWLINE = re.compile(r"\r\n|\r|\n")


def listing(recipe: Recipe, name: str, entry: str) -> ReplaceText | None:
    """The edit that lists an entry under a name, or None where the block has an unusual form."""
    block, text = recipe.modules, recipe.text
    if block is None or not (_NAME.fullmatch(name) and _ENTRY.fullmatch(entry)):
        return None
    if not recipe.is_own(block) or (block.flow and "[" in entry):
        return None
    line = f"{name}: !ref <{entry}>"
    if block.kind == "scalar":  # `modules:` with nothing under it
        return _after(text, recipe.keys["modules"].end, _indent(recipe) + line, ":")
    if block.flow:
        at = block.pairs[-1][1].end if block.pairs else block.start + 1
        return ReplaceText(Span(at, at), f", {line}" if block.pairs else line)
    first = block.pairs[0][0].start
    indent = text[_line_start(text, first) : first]
    if indent.strip(" "):
        return None
    end = block.start + len(text[block.start : block.end].rstrip())
    return _after(text, end, indent + line)


def _after(text: str, at: int, line: str, rest: str = "") -> ReplaceText | None:
    """A new line behind the one that an offset is on, if only `rest` and a comment follow there."""
    newline = _NEWLINE.search(text, at)
    end = newline.start() if newline else len(text)
    tail = text[at:end].strip().removeprefix(rest).strip()
    if tail and not tail.startswith("#"):
        return None
    used = newline[0] if newline else (_NEWLINE.search(text) or ["\n"])[0]
    return ReplaceText(Span(end, end), used + line)


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _indent(recipe: Recipe) -> str:
    """As deep as the first block of the file."""
    for node in recipe.entries.values():
        if node.kind == "mapping" and not node.flow and node.pairs:
            key = node.pairs[0][0].start
            indent = recipe.text[_line_start(recipe.text, key) : key]
            if indent and not indent.strip(" "):
                return indent
    return "    "


def doubt(before: str, after: str) -> str:
    """What is wrong with a changed recipe: it may differ by new references under `modules:` only."""
    try:
        old, new = Recipe("", before), Recipe("", after)
    except YamlError as error:
        return f"the result is no recipe: {error}"
    if list(old.entries) != list(new.entries):
        return "entries came or went"
    block = old.modules
    for name, node in old.entries.items():
        if node is block:
            continue
        if _shape(node) != _shape(new.entries[name]):
            if block is None or name != "modules":
                return f"`{name}` changed"
    if block is None or new.modules is None:
        return "" if block is new.modules else "`modules:` changed"
    count = len(block.pairs)
    for (key, value), (other, now) in zip(block.pairs, new.modules.pairs, strict=False):
        if key.value != other.value or _shape(value) != _shape(now):
            return f"`modules:` changed at `{key.value}`"
    if len(new.modules.pairs) < count:
        return "`modules:` lost an entry"
    for key, value in new.modules.pairs[count:]:
        reference = _REFERENCE.fullmatch(value.value) if value.tag == "!ref" else None
        if reference is None or reference[1] not in new.entries:
            return f"`{key.value}` is no reference to an entry"
    return ""


def _shape(root: Node) -> list[tuple[str, str, str, int]]:
    return [(node.kind, node.tag, node.value, len(node.children)) for node in root.walk()]
