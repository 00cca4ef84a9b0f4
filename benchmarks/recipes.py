"""Drop each entry of `modules:` of each recipe, one at a time: is it found, and does the fix bring it back?

    python benchmarks/recipes.py FOLDER [-v]

FOLDER is a clone of speechbrain, or any project with HyperPyYAML recipes and their scripts. Nothing is written.
First each recipe is checked as it is (findings there are false alarms or real bugs: read them). An entry is
brought back if the fixed recipe refers to the same modules under `modules:` as before, in any order, and is
otherwise equal. An entry is "used" if a script of the recipe takes it from `self.modules`.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import sys
import time
from collections.abc import Iterator

from devfix.documents.yaml import Node, YamlError
from devfix.findings import Finding, ReplaceText, TextEdit
from devfix.recipes.files import Files
from devfix.recipes.pairing import paired
from devfix.recipes.recipe import Recipe
from devfix.rewrite import apply
from devfix.rules.list_in_modules import ListInModules


def recipes(folder: pathlib.Path) -> Iterator[Recipe]:
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
        text = path.read_bytes().decode("utf-8", "replace")
        if "!new:" not in text or "modules" not in text:
            continue
        try:
            recipe = Recipe(str(path), text)
        except YamlError:
            continue
        if recipe.modules is not None and recipe.modules.pairs and not recipe.modules.flow:
            yield recipe


def without(recipe: Recipe, key: Node, value: Node) -> str:
    """The text without the lines of one entry."""
    text = recipe.text
    start = text.rfind("\n", 0, key.start) + 1
    end = text.find("\n", max(key.end, value.end))
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def check(path: str, text: str) -> list[Finding]:
    return list(ListInModules().check_recipe(Recipe(path, text)))


def meaning(recipe: Recipe) -> tuple[object, ...]:
    listed = sorted({shape(value) for _, value in recipe.modules.pairs}) if recipe.modules else []
    rest = [(name, shape(node)) for name, node in recipe.entries.items() if node is not recipe.modules]
    return listed, rest


def shape(node: Node) -> tuple[tuple[str, str, int], ...]:
    return tuple((inner.tag, inner.value, len(inner.children)) for inner in node.walk())


def fixed(text: str, findings: list[Finding]) -> str:
    edits = [
        TextEdit(edit.span, edit.text)
        for finding in findings
        if finding.fix is not None
        for edit in finding.fix.edits
        if isinstance(edit, ReplaceText)
    ]
    return apply(text, edits)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-v", action="store_true", help="every entry that is not found or not brought back")
    options = parser.parse_args()
    count: collections.Counter[str] = collections.Counter()
    start = time.perf_counter()
    for recipe in recipes(options.folder):
        shown = os.path.relpath(recipe.path, options.folder)
        count["recipes"] += 1
        before = check(recipe.path, recipe.text)
        known = {finding.message for finding in before}
        for finding in before:
            count["findings before"] += 1
            print(f"{shown}: {finding.message}")
        usages = paired(recipe, Files(recipe.path))
        count["recipes with a script"] += bool(usages)
        taken = {use.name for usage in usages for use in usage.listed_uses}
        assert recipe.modules is not None
        for key, value in recipe.modules.pairs:
            count["entries"] += 1
            count["used"] += key.value in taken
            text = without(recipe, key, value)
            found = [finding for finding in check(recipe.path, text) if finding.message not in known]
            back = bool(found) and meaning(Recipe(recipe.path, fixed(text, found))) == meaning(recipe)
            count["found"] += bool(found)
            count["found, of those used"] += bool(found) and key.value in taken
            count["brought back"] += back
            moved = any(finding.fix is not None and finding.fix.elsewhere for finding in found)
            count["moved in the script instead"] += moved and not back
            if options.v and not back:
                word = "not brought back" if found else "not found"
                print(f"    {word}: {shown} {key.value}{'' if key.value in taken else ' (not used)'}")
    for name, number in count.items():
        print(f"{number:6} {name}")
    print(f"{time.perf_counter() - start:6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
