"""CUDA by name in a recipe: what the Brain runs on, or what a constructor is told, whatever the command line says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.documents.yaml import Node
from devfix.recipes.pairing import paired
from devfix.recipes.recipe import APPLY, NAME, NEW, Recipe
from devfix.recipes.script import Script
from devfix.text.callees import argument_of

_CUDA = re.compile(r"cuda(?::\d+)?")
_DEVICE = re.compile(r"(?:\w+_)?device(?:_map)?")
_MADE = (NEW, NAME, APPLY)


@dataclass(frozen=True, eq=False)
class NamedDevice:
    """A place that names CUDA: the key and the value, and why that matters."""

    key: Node
    value: Node
    why: str


def named_devices(recipe: Recipe) -> Iterator[NamedDevice]:
    """Every place of a recipe with a script where a CUDA device is named and used, in no order."""
    if "cuda" not in recipe.text or recipe.modules is None:
        return
    literals = [node for node in recipe.root.walk() if node.kind == "scalar" and names_cuda(node)]
    if not literals:
        return
    scripts = [usage.script for usage in paired(recipe, recipe.files)]
    if not scripts:
        return
    for name, node in recipe.entries.items():
        if node in literals:
            why = _used(recipe, name, scripts)
            if why:
                yield NamedDevice(recipe.keys[name], node, why)
        elif node.kind != "scalar":
            for key, value in _arguments(node):
                if value in literals:
                    yield NamedDevice(key, value, "goes to CUDA even if `--device` names another device")


def names_cuda(node: Node) -> bool:
    return not node.tag and _CUDA.fullmatch(node.value) is not None


def _used(recipe: Recipe, name: str, scripts: list[Script]) -> str:
    """What an entry at the top does; an empty string for one that nobody is seen to use."""
    if name == "device" and any(_takes_hparams(script) for script in scripts):
        return "is what the Brain runs on unless `--device` is given, even on a machine without CUDA"
    if not _DEVICE.fullmatch(name):
        return ""
    for node in recipe.root.walk():
        for key, value in node.pairs if node.tag.startswith(_MADE) else ():
            if _DEVICE.fullmatch(key.value) and value.tag == "!ref" and value.value == f"<{name}>":
                return "goes to CUDA even if `--device` names another device"
    if any(script.key_of(node) == name for script in scripts for node in script.file.source.walk()):
        return "goes to CUDA even if `--device` names another device"
    return ""


def _takes_hparams(script: Script) -> bool:
    """Is every Brain told the recipe's entries, from which it takes what the command line leaves open?"""
    made = [argument_of(call, "hparams", 2) for call in script.constructions]
    return bool(made) and all(node is not None and script.is_hparams(node) for node in made)


def _arguments(root: Node) -> Iterator[tuple[Node, Node]]:
    """The pairs `device: ...` below a constructor's arguments, in `run_opts: {...}` as well."""
    todo = [(root, False)]
    seen: set[int] = set()
    while todo:
        node, inside = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inside = inside or node.tag.startswith(_MADE)
        for key, value in node.pairs:
            if inside and _DEVICE.fullmatch(key.value):
                yield key, value
        todo.extend((child, inside) for child in node.children)
