"""The rule: which entries of a recipe does its Brain run where nobody has moved them?"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from devfix.documents.yaml import Node
from devfix.models import torch_api
from devfix.recipes.constants import UNKNOWN
from devfix.recipes.files import Files
from devfix.recipes.holding import held_by, registered, ways
from devfix.recipes.library import around
from devfix.recipes.lists import Reached, belongs, list_for
from devfix.recipes.making import is_module, make, weighted
from devfix.recipes.pairing import paired
from devfix.recipes.recipe import APPLY, NEW, Recipe, class_of, last_key
from devfix.recipes.script import Script
from devfix.recipes.usage import Usage, Use, folded


@dataclass(frozen=True, eq=False)
class Case:
    """One entry that must be moved. `entry` is what is defined, `name` how it is to be listed."""

    name: str
    entry: str
    usage: Usage | None = None  # None: no script is needed to see it
    use: Use | None = None
    holder: str = ""  # the used or listed entry that runs it
    unlisted: bool = False  # the script takes it from `self.modules`, where it is not
    weighted: bool = True  # it has parameters, and not only buffers
    known: bool = True  # its class was read
    like: str = ""  # its class is not in view, but this entry of it is listed
    move: ast.Call | None = None  # moves nothing unless a device is given on the command line


class Judge:
    """One recipe with everything around it."""

    def __init__(self, recipe: Recipe, files: Files) -> None:
        self.recipe, self.files = recipe, files
        self.library = around(files)
        self._lists: dict[Script, Reached | None] = {}

    def list_for(self, entry: str, script: Script) -> Reached | None:
        """The list that an entry belongs into, or None where it is to be listed by itself."""
        if not belongs(self.recipe, entry):
            return None
        if script not in self._lists:
            self._lists[script] = list_for(self.recipe, script)
        return self._lists[script]

    def cases(self) -> Iterator[Case]:
        """What is wrong, in the order of the file."""
        if not self.recipe.clear:
            return
        usages = tuple(found for found in paired(self.recipe, self.files) if found.script.lists_modules)
        if usages:
            self.library = around(
                self.files, *dict.fromkeys(os.path.dirname(found.script.path) for found in usages)
            )
        cases = tuple(self._all(usages, registered(self.recipe, self.library)))
        below = {
            name: held_by(self.recipe, self.library, [self.recipe.nodes[name]])
            for name in {case.entry for case in cases}
        }
        holding: dict[str, set[str]] = {}
        for name, held in below.items():
            for one in held:
                holding.setdefault(one, set()).add(name)
        for case in cases:  # what is part of another one comes with it
            if case.unlisted or holding.get(case.entry, set()) <= {case.entry}:
                yield case

    def _all(self, usages: tuple[Usage, ...], reached: frozenset[str]) -> Iterator[Case]:
        found: set[str] = set()
        for name in self.recipe.nodes:
            case = self._held(name, usages, reached)
            if usages and case is None:
                at_top = name in self.recipe.entries
                case = self._unlisted(name, usages) if at_top else None
                case = case or self._unmoved(name, usages, reached)
            if case is not None:
                found.add(name)
                yield case
        yield from self._renamed(usages, reached, frozenset(found))

    # --- held by what is listed -------------------------------------------------------------------

    def _held(self, name: str, usages: tuple[Usage, ...], reached: frozenset[str]) -> Case | None:
        """What is listed runs it through objects that are no modules, so that it is not moved with that."""
        recipe = self.recipe
        if not recipe.made(name) or name in recipe.listed or name in reached:
            return None
        if name not in recipe.holders or not self._weighted(recipe.nodes[name]):
            return None
        if any(found.moves(name) or name in found.doubtful for found in usages):
            return None
        holders = ways(recipe, self.library, name, reached)
        if not holders or any(found.moves(holder) for found in usages for holder in holders):
            return None
        return Case(self._to_list(name), name, holder=holders[0])

    def _to_list(self, name: str) -> str:
        """How an entry is to be listed: by its last key, unless that means something else."""
        last = last_key(name)
        taken = last != name and (last in self.recipe.listed or last in self.recipe.entries)
        return name if taken else last

    # --- self.modules.x, and no x there ---------------------------------------------------------

    def _unlisted(self, name: str, usages: tuple[Usage, ...]) -> Case | None:
        recipe = self.recipe
        node = recipe.nodes[recipe.target(name)]
        if name in recipe.listed or not node.tag.startswith(("!new:", "!apply:")):
            return None
        cls = self.library.find(class_of(node))
        if cls is not None and is_module(cls) is False:
            return None
        for found in usages:
            uses = [use for use in found.listed_uses if use.name == name]
            if uses:
                sure = [use for use in uses if use.sure]
                return Case(name, name, found, (sure or uses)[0], unlisted=True, known=cls is not None)
        return None

    def _renamed(
        self, usages: tuple[Usage, ...], reached: frozenset[str], known: frozenset[str]
    ) -> Iterator[Case]:
        """A name that the script takes from `self.modules`, and that nothing in the recipe has."""
        recipe = self.recipe
        missing: dict[str, tuple[Usage, Use]] = {}
        for found in usages:
            for use in found.listed_uses:
                if use.name not in recipe.listed and use.name not in recipe.entries:
                    if use.name not in missing or use.sure or missing[use.name][1].idle:
                        missing[use.name] = found, use
        left = [
            entry
            for entry in recipe.nodes
            if missing and entry not in known and self._could_be(entry, usages, reached)
        ]
        for name, (usage, use) in missing.items():
            inside = [entry for entry in recipe.nodes if entry.endswith(f"[{name}]") and self._module(entry)]
            if inside and use.idle:  # a file that several recipes include has more than each of them needs
                continue
            alike = inside or [entry for entry in left if _alike(last_key(entry), name)]
            if not alike and use.sure and len(missing) == 1:
                alike = left
            if len(alike) == 1:
                yield Case(name, alike[0], usage, use, unlisted=True)

    def _module(self, entry: str) -> bool:
        """Is an entry made of a class that is a module, as far as anybody can see?"""
        recipe = self.recipe
        if entry.partition("[")[0] == "modules" or not recipe.made(recipe.target(entry)):
            return False
        cls = self.library.find(recipe.made(recipe.target(entry)))
        return cls is None or is_module(cls) is not False

    def _could_be(self, entry: str, usages: tuple[Usage, ...], reached: frozenset[str]) -> bool:
        """Is an entry a module that nobody lists, moves or holds?"""
        node = self.recipe.nodes[entry]
        if not self.recipe.made(entry) or entry in reached or any(found.moves(entry) for found in usages):
            return False
        return self._weighted(node)

    # --- self.hparams.x, moved by nobody ---------------------------------------------------------

    def _unmoved(self, name: str, usages: tuple[Usage, ...], reached: frozenset[str]) -> Case | None:
        recipe = self.recipe
        if name.startswith("modules["):
            return None
        by_hand = recipe.nodes[name].tag.startswith(APPLY) and any(name in f.doubtful for f in usages)
        if not (recipe.made(name) or by_hand) or name in recipe.listed or name in reached:
            return None
        case: Case | None = None
        for found in usages:
            if found.moves(name) or name in found.given:
                return None
            above = [name[:at] for at, character in enumerate(name) if character == "["]
            above = [one for one in above if one in recipe.nodes]
            if any(found.moves(one, name) or one in found.given or one in found.doubtful for one in above):
                return None
            mine = self._used(name, found)
            if mine is not None and case is None:
                case = mine
        return case

    def _used(self, name: str, found: Usage) -> Case | None:
        uses = found.of_entry.get(name, [])
        move = found.doubtful.get(name)
        if move is not None:
            # Who moves it by hand knows that it has something to move.
            if uses and self._device_may_be_none():
                return Case(self._to_list(name), name, found, uses[0], move=move)
            return None
        weighted, raw = self._matters(name, uses)
        if uses and (weighted or raw):
            return Case(self._to_list(name), name, found, uses[0], weighted=weighted)
        if uses and (like := self._listed_alike(name)):
            return Case(self._to_list(name), name, found, uses[0], known=False, like=like)
        if not weighted:
            return None
        used = found.last_used
        for holder in ways(self.recipe, self.library, name, used):
            if not found.moves(holder, name):
                return Case(self._to_list(name), name, found, used[holder], holder=holder)
        return None

    def _listed_alike(self, name: str) -> str:
        """A listed entry of the same class, where that class is not in view."""
        recipe, dotted = self.recipe, self.recipe.made(name)
        if dotted.startswith("torch.") or self.library.find(dotted) is not None or recipe.modules is None:
            return ""
        return self._listed_classes.get(dotted, "")

    @cached_property
    def _listed_classes(self) -> dict[str, str]:
        """Class -> the first entry under `modules:` that is made of it."""
        found: dict[str, str] = {}
        for _, value in self.recipe.modules.pairs if self.recipe.modules is not None else ():
            for other in self.recipe.referred(value):
                found.setdefault(self.recipe.made(other), other)
        return found

    def _device_may_be_none(self) -> bool:
        """Has speechbrain's own class of options no device unless one is given?"""
        module = self.library.module("speechbrain.utils.run_opts")
        for cls in module.classes.values() if module is not None else ():
            value = cls.values.get("device")
            if isinstance(value, ast.Constant):
                return value.value is None
        return False

    def _matters(self, name: str, uses: list[Use]) -> tuple[bool, bool]:
        """Has it parameters for sure, and does running it read what only `to` moves?"""
        node = self.recipe.nodes[name]
        dotted, arguments = class_of(node), self.recipe.arguments(node)
        if self._weighted(node):
            return True, True
        cls = self.library.find(dotted)
        if cls is None or is_module(cls) is not True or not uses:
            return False, False
        # A value that is `!ref` is a setting, which the command line may change.
        settings = {key.value for key, value in node.pairs if value.tag == "!ref"}
        arguments = {key: UNKNOWN if key in settings else value for key, value in arguments.items()}
        return False, make(self.library, cls, arguments).reads_raw

    def _weighted(self, node: Node) -> bool:
        """Does a `!new:` surely make parameters, itself or in a module that is made as its argument?"""
        dotted = class_of(node)
        if weighted(self.library, dotted, self.recipe.arguments(node)):
            return True
        cls = self.library.find(dotted)
        holds = dotted in torch_api.CONTAINERS or (cls is not None and is_module(cls) is True)
        if not holds:
            return False
        parts = [value for _, value in node.pairs] + list(node.items)
        return any(self._weighted(part) for part in parts if part.tag.startswith(NEW))


def _alike(one: str, other: str) -> bool:
    """Are two names one but for case and underscores, or is one a part of the other?"""
    first, second = folded(one), folded(other)
    return first in second or second in first
