"""Recipes: lists of codemods with their options and levels, under a name.

A recipe is a TOML or YAML file:

```toml
name = "portable"
title = "The same code on CPU, CUDA, MPS and XPU"
level = "safe"

[[codemods]]
id = "hard-coded-cuda"
level = "unsafe"
options = { declare = "accelerator" }
```

`level` is from which safety fixes are applied, of all codemods or of one; an entry may be an id alone, and
`recipe = "NAME"` instead of `id` stands for the entries of another recipe. What is wrong is said with its line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import getattr_static

from devfix.codemod import Codemod
from devfix.config import Config, ConfigError, Option, find, make, suggest, user_file
from devfix.documents import DocumentError, read_bytes
from devfix.findings import Safety
from devfix.own.known import Known, is_code, load
from devfix.own.tree import Tree, TreeError, of_toml, of_yaml

SUFFIXES = (".toml", ".yaml", ".yml")
_LISTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lists")
_LEVELS = {"safe": Safety.SAFE, "unsafe": Safety.UNSAFE}
_KEYS = ("name", "title", "level", "codemods")
_ENTRY = ("id", "recipe", "level", "options")
_DEEPEST = 10  # recipes in each other


@dataclass(frozen=True)
class Entry:
    """One configured codemod. `level` is None where the recipe's own counts."""

    codemod: str
    options: tuple[Option, ...] = ()
    level: Safety | None = None


@dataclass(frozen=True)
class CodemodRecipe:
    name: str
    title: str
    entries: tuple[Entry, ...]
    level: Safety | None = None
    path: str = ""

    def over(self, base: Config) -> Config:
        """Settings that run this recipe."""
        options = (*base.options, *(option for entry in self.entries for option in entry.options))
        ids = tuple(entry.codemod for entry in self.entries)
        unsafe = base.unsafe if self.level is None else self.level is Safety.UNSAFE
        return replace(base, codemods=ids, options=options, unsafe=unsafe)

    def levelled(self, codemods: Sequence[Codemod]) -> tuple[Codemod, ...]:
        """The codemods, each told its level where the recipe gives it one."""
        levels = {entry.codemod: entry.level for entry in self.entries}
        for codemod in codemods:
            if (level := levels.get(codemod.id)) is not None:
                object.__setattr__(codemod, "level", level)
        return tuple(codemods)


def recipe_of(text: str) -> CodemodRecipe:
    """The recipe of a name or path; raises ConfigError. Code that a file of the user's names is loaded."""
    if text.endswith(SUFFIXES) or os.sep in text or "/" in text:
        return read(os.path.expanduser(text))
    known = _known()
    if text not in known:
        raise ConfigError(f"unknown recipe {text!r}{suggest(text, known)}; or name a .toml or .yaml file")
    return read(known[text])


def every() -> Iterator[CodemodRecipe]:
    """The recipes that have names: devfix's own, and those in the user's folder. Raises ConfigError."""
    for _, path in sorted(_known().items()):
        yield read(path)


def listing(recipes: Sequence[CodemodRecipe]) -> Iterator[str]:
    """One line for each recipe."""
    width = max((len(recipe.name) for recipe in recipes), default=0)
    for recipe in recipes:
        yield f"{recipe.name:{width}}  {len(recipe.entries):2} codemods  {recipe.title}".rstrip()


def explanation(recipe: CodemodRecipe) -> Iterator[str]:
    """What a recipe runs, as lines."""
    yield f"{recipe.name}: {recipe.title}" if recipe.title else recipe.name
    yield recipe.path
    level = "as the run says" if recipe.level is None else f"{recipe.level.label} and safer"
    yield f"applied: {level}"
    for entry in recipe.entries:
        options = " ".join(f"{option.name}={option.value}" for option in entry.options)
        own = f"[{entry.level.label} and safer]" if entry.level is not None else ""
        yield "  ".join(filter(None, (f"  {entry.codemod}", options, own)))


def _known() -> dict[str, str]:
    """Name -> path of the recipes that have names; the user's own come first."""
    return {**names(_LISTS), **names(os.path.join(os.path.dirname(user_file()), "recipes"))}


def names(folder: str) -> dict[str, str]:
    """Name -> path of the recipes in a folder."""
    try:
        found = sorted(os.listdir(folder))
    except OSError:
        return {}
    return {os.path.splitext(n)[0]: os.path.join(folder, n) for n in found if n.endswith(SUFFIXES)}


def read(path: str) -> CodemodRecipe:
    """The recipe in a file; raises ConfigError, with the line of what is wrong."""
    return _Reader(path).recipe()


class _Reader:
    def __init__(self, path: str, depth: int = 0) -> None:
        self.path, self.depth = path, depth
        self.known = Known()

    def recipe(self) -> CodemodRecipe:
        try:
            text = read_bytes(self.path).decode("utf-8")
            tree = of_toml(text) if self.path.endswith(".toml") else of_yaml(text)
        except (DocumentError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {self.path}: {error}") from error
        except TreeError as error:
            raise self.wrong(str(error), error.line) from error
        top = self.mapping(tree, _KEYS, "a recipe")
        name = self.text(top.get("name"), "name") or os.path.splitext(os.path.basename(self.path))[0]
        title = self.text(top.get("title"), "title")
        level = self.level(top.get("level"))
        if "codemods" not in top:
            raise self.wrong("a recipe lists its `codemods`", tree.line)
        listed = top["codemods"]
        if not isinstance(listed.value, tuple):
            raise self.wrong("`codemods` must be a list", listed.line)
        entries: dict[str, Entry] = {}
        for item in listed.value:
            for entry in self.entry(item):
                if entry.codemod in entries:
                    raise self.wrong(f"codemod {entry.codemod!r} is listed twice", item.line)
                entries[entry.codemod] = entry
        return CodemodRecipe(name, title, tuple(entries.values()), level, self.path)

    def entry(self, tree: Tree) -> list[Entry]:
        if isinstance(tree.value, str):
            nothing = Tree({}, tree.line)
            return [Entry(id, self.options(id, nothing)) for id in self.ids(tree.value, tree.line)]
        table = self.mapping(tree, _ENTRY, "a codemod of a recipe")
        if "recipe" in table:
            for key in table:
                if key != "recipe":
                    raise self.wrong(f"`{key}` cannot stand beside `recipe`", tree.line_of(key))
            return list(self.other(table["recipe"]).entries)
        if "id" not in table:
            raise self.wrong("an entry has an `id` or a `recipe`", tree.line)
        line = table["id"].line
        ids = self.ids(self.text(table["id"], "id"), line)
        level = self.level(table.get("level"))
        given = table.get("options", Tree({}, line))
        if not isinstance(given.value, dict):
            raise self.wrong("`options` must be a table of names and values", given.line)
        if given.value and len(ids) > 1:
            raise self.wrong(f"options for {', '.join(ids)} at once; name one class", given.line)
        return [Entry(id, self.options(id, given), level) for id in ids]

    def options(self, id: str, tree: Tree) -> tuple[Option, ...]:
        assert isinstance(tree.value, dict)
        values = {name: item.plain() for name, item in tree.value.items()}
        kind = find(id, self.known)
        for name in values:  # one after the other, so that the line of a wrong one is known
            try:
                if getattr_static(kind, "from_options") is getattr_static(Codemod, "from_options"):
                    make(kind, {name: values[name]})
            except ConfigError as error:
                raise self.wrong(str(error), tree.line_of(name)) from error
        try:
            make(kind, values)
        except ConfigError as error:
            named = next(
                (name for name in values if repr(name) in str(error) or f".{name} " in str(error)), ""
            )
            raise self.wrong(str(error), tree.line_of(named)) from error
        return tuple(Option(id, name, value) for name, value in values.items())

    def ids(self, text: str, line: int) -> tuple[str, ...]:
        try:
            if is_code(text):
                return load(text, os.path.dirname(os.path.abspath(self.path)))
            return (find(text, self.known).id,)
        except ConfigError as error:
            raise self.wrong(str(error), line) from error

    def other(self, tree: Tree) -> CodemodRecipe:
        if self.depth >= _DEEPEST:
            raise self.wrong("recipes stand in each other without end", tree.line)
        text = self.text(tree, "recipe")
        known = _known()
        path = known.get(text, "")
        if text.endswith(SUFFIXES):
            path = os.path.join(os.path.dirname(os.path.abspath(self.path)), text)
        if not path:
            raise self.wrong(f"unknown recipe {text!r}{suggest(text, known)}", tree.line)
        return _Reader(path, self.depth + 1).recipe()

    # --- values ---------------------------------------------------------------------------------

    def mapping(self, tree: Tree, keys: Sequence[str], what: str) -> dict[str, Tree]:
        if not isinstance(tree.value, dict):
            raise self.wrong(f"{what} must be a table with the keys {', '.join(keys)}", tree.line)
        for key in tree.value:
            if key not in keys:
                raise self.wrong(f"unknown key {key!r}{suggest(key, keys)}", tree.line_of(key))
        return tree.value

    def text(self, tree: Tree | None, key: str) -> str:
        if tree is None:
            return ""
        if not isinstance(tree.value, str):
            raise self.wrong(f"`{key}` must be a text", tree.line)
        return tree.value

    def level(self, tree: Tree | None) -> Safety | None:
        if tree is None:
            return None
        if tree.value not in _LEVELS:
            raise self.wrong(f"`level` must be safe or unsafe, not {tree.plain()!r}", tree.line)
        return _LEVELS[str(tree.value)]

    def wrong(self, message: str, line: int) -> ConfigError:
        return ConfigError(f"recipe {self.path}{f':{line}' if line else ''}: {message}")
