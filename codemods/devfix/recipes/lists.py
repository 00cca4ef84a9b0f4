"""A `torch.nn.ModuleList` that is listed and holds what the Brain runs: the other place for what is missing.

Only where it is surely reached from `modules:`, where nothing that it holds is listed by itself, and where its
order matters to nobody. What is added comes last, so the keys of what is there stay in its checkpoints.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.documents.yaml import Node
from devfix.findings import ReplaceText, Span
from devfix.recipes.holding import NEUTRAL
from devfix.recipes.inserting import after_line, line_start
from devfix.recipes.recipe import LIST, Recipe
from devfix.recipes.script import Script, module_key

_DASHES = re.compile(r"[ -]*- +")
_ENTRY = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True, eq=False)
class Reached:
    """A list that is moved with what is listed: how it is called, and the sequence of what it holds."""

    name: str
    items: Node


def list_for(recipe: Recipe, script: Script) -> Reached | None:
    """The only list that something may be added to, or None where there is none, or more than one."""
    found = [one for one in _reached(recipe) if _is_kept_together(recipe, one) and not _in_order(script, one)]
    return found[0] if len(found) == 1 else None


def belongs(recipe: Recipe, entry: str) -> bool:
    """May an entry be put into a list?"""
    return entry not in recipe.in_lists and _ENTRY.fullmatch(entry) is not None


def addition(recipe: Recipe, reached: Reached, entry: str) -> ReplaceText | None:
    """The edit that puts an entry at the end, or None where the list has an unusual form."""
    last, new = reached.items.items[-1], f"!ref <{entry}>"
    if reached.items.flow:
        return ReplaceText(Span(last.end, last.end), f", {new}")
    dashes = recipe.text[line_start(recipe.text, last.start) : last.start]
    if _DASHES.fullmatch(dashes) is None:
        return None
    at = dashes.rindex("-")
    return after_line(recipe.text, last.end, " " * at + dashes[at:] + new)


def _reached(recipe: Recipe) -> Iterator[Reached]:
    assert recipe.modules is not None
    for key, value in recipe.modules.pairs:
        name = next(recipe.referred(value), "") if value.tag == "!ref" else ""
        node = recipe.nodes[name] if name and value.value.strip() == f"<{name}>" else value
        items = _held(recipe, node) if node.tag == LIST else None
        if items is not None:
            yield Reached(name or key.value, items)


def _held(recipe: Recipe, made: Node) -> Node | None:
    """The sequence that a list is made of, in this file: references and nothing else."""
    node = made.get("modules") if made.kind == "mapping" else made.items[0] if len(made.items) == 1 else None
    if node is not None and node.tag == "!ref":
        name = next(recipe.referred(node), "")
        node = recipe.nodes[name] if name else None
    if node is None or node.kind != "sequence" or node.tag or not node.items:
        return None
    if not any(node is own for own in recipe.root.walk()) or recipe.text[node.start] not in "[-":
        return None
    return node if all(item.tag == "!ref" for item in node.items) else None


def _is_kept_together(recipe: Recipe, reached: Reached) -> bool:
    """Is nothing that it holds listed by itself, and the list itself used to be moved and saved only?"""
    assert recipe.modules is not None
    listed = {name for _, value in recipe.modules.pairs for name in recipe.referred(value)}
    if listed & {name for item in reached.items.items for name in recipe.referred(item)}:
        return False
    if reached.name not in recipe.nodes:
        return True
    allowed = {id(value) for _, value in recipe.modules.pairs}
    for node in recipe.root.walk():
        for key, value in node.pairs:
            if key.value == "recoverables":
                allowed.update(id(inner) for inner in value.walk())
    return all(
        id(node) in allowed
        for node in recipe.root.walk()
        if node.tag in ("!ref", "!copy") and reached.name in recipe.referred(node)
    )


def _in_order(script: Script, reached: Reached) -> bool:
    """Does the script run the list, or ask for one of its items by number?"""
    for source in {id(source): source for source in script.sources}.values():
        for node in source.walk():
            if reached.name not in (script.key_of(node), module_key(node)):
                continue
            parent = source.parents.get(node)
            if not (isinstance(parent, ast.Attribute) and parent.attr in NEUTRAL):
                return True
    return False
