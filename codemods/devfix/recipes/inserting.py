"""A new entry under `modules:` as an insertion of text, and the doubts about what came out."""

from __future__ import annotations

import re

from devfix.documents.yaml import Node, YamlError
from devfix.findings import ReplaceText, Span
from devfix.recipes.recipe import Recipe
from devfix.text.lines import NEWLINE

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_ENTRY = re.compile(r"[A-Za-z_][\w.-]*(?:\[[\w.-]+\])*")
_REFERENCE = re.compile(r"<([^<>\[\]]+)(?:[\[\]][^<>]*)?>")


def listing(recipe: Recipe, name: str, entry: str) -> ReplaceText | None:
    """The edit that lists an entry under a name, or None where the block has an unusual form."""
    block, text = recipe.modules, recipe.text
    if block is None or not (_NAME.fullmatch(name) and _ENTRY.fullmatch(entry)):
        return None
    if not recipe.is_own(block) or (block.flow and "[" in entry):
        return None
    line = f"{name}: !ref <{entry}>"
    if block.kind == "scalar":  # `modules:` with nothing under it
        return after_line(text, recipe.keys["modules"].end, _indent(recipe) + line, ":")
    if block.flow:
        at = block.pairs[-1][1].end if block.pairs else block.start + 1
        return ReplaceText(Span(at, at), f", {line}" if block.pairs else line)
    first = block.pairs[0][0].start
    indent = text[line_start(text, first) : first]
    if indent.strip(" "):
        return None
    end = block.start + len(text[block.start : block.end].rstrip())
    return after_line(text, end, indent + line)


def after_line(text: str, at: int, line: str, rest: str = "") -> ReplaceText | None:
    """A new line behind the one that an offset is on, if only `rest` and a comment follow there."""
    newline = NEWLINE.search(text, at)
    end = newline.start() if newline else len(text)
    tail = text[at:end].strip().removeprefix(rest).strip()
    if tail and not tail.startswith("#"):
        return None
    used = newline[0] if newline else (NEWLINE.search(text) or ["\n"])[0]
    return ReplaceText(Span(end, end), used + line)


def line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _indent(recipe: Recipe) -> str:
    """As deep as the first block of the file."""
    for node in recipe.entries.values():
        if node.kind == "mapping" and not node.flow and node.pairs:
            key = node.pairs[0][0].start
            indent = recipe.text[line_start(recipe.text, key) : key]
            if indent and not indent.strip(" "):
                return indent
    return "    "


def doubt(before: str, after: str) -> str:
    """What is wrong with a changed recipe: it may have new references under `modules:` and at the end of lists."""
    try:
        old, new = Recipe("", before), Recipe("", after)
    except YamlError as error:
        return f"the result is not a recipe: {error}"
    if list(old.entries) != list(new.entries):
        return "entries came or went"
    block = old.modules
    for name, node in old.entries.items():
        if node is block:
            continue
        if _differs(node, new.entries[name], new):
            if block is None or name != "modules":
                return f"`{name}` changed"
    if block is None or new.modules is None:
        return "" if block is new.modules else "`modules:` changed"
    count = len(block.pairs)
    for (key, value), (other, now) in zip(block.pairs, new.modules.pairs, strict=False):
        if key.value != other.value or _differs(value, now, new):
            return f"`modules:` changed at `{key.value}`"
    if len(new.modules.pairs) < count:
        return "`modules:` lost an entry"
    for key, value in new.modules.pairs[count:]:
        if not _is_reference(value, new):
            return f"`{key.value}` does not refer to an entry"
    return ""


def _is_reference(node: Node, recipe: Recipe) -> bool:
    match = _REFERENCE.fullmatch(node.value) if node.tag == "!ref" else None
    return match is not None and match[1] in recipe.entries


def _differs(before: Node, after: Node, recipe: Recipe) -> bool:
    """Do two nodes differ by more than references at the end of a list?"""
    todo = [(before, after)]
    seen: set[int] = set()
    while todo:
        old, new = todo.pop()
        if id(old) in seen:
            continue
        seen.add(id(old))
        if (old.kind, old.tag, old.value) != (new.kind, new.tag, new.value):
            return True
        count = len(old.children)
        if count != len(new.children):
            longer = old.kind == "sequence" and not old.tag and 0 < count < len(new.items)
            if not longer or not all(_is_reference(item, recipe) for item in new.items[count:]):
                return True
        todo.extend(zip(old.children, new.children, strict=False))
    return False
