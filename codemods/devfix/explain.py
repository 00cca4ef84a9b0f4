"""What `devfix list` and `devfix explain` say about codemods, from their classes."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from devfix.codemod import Codemod, Example
from devfix.config import option_types
from devfix.findings import Safety
from devfix.review.patch import hunk_lines

REPOSITORY = "https://github.com/devfix/devfix"


def title(kind: type[Codemod]) -> str:
    """The first line of a codemod's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0].strip()


def page(kind: type[Codemod]) -> str:
    """Where a codemod of devfix itself is described, for people: the address of its file; "" for any other."""
    if not kind.__module__.startswith("devfix.rules."):
        return ""
    return f"{REPOSITORY}/blob/main/codemods/{kind.__module__.replace('.', '/')}.py"


def safeties(kind: type[Codemod]) -> tuple[str, ...]:
    """The safety levels that the codemod's fixes may have, the safest first.

    Those that its examples show, and those that its documentation has under *Fix safety*.
    """
    shown = {example.safety for example in kind.examples if example.after is not None}
    about = (inspect.getdoc(kind) or "").partition("## Fix safety")[2].partition("\n## ")[0]
    shown |= {one for one in (Safety.SAFE, Safety.UNSAFE) if re.search(rf"\b{one.label}\b", about, re.I)}
    return tuple(safety.label for safety in sorted(shown, reverse=True))


def listing(known: Mapping[str, type[Codemod]]) -> Iterator[str]:
    """One line for each codemod: id, on or off by default, safety, title."""
    width = max(map(len, known), default=0)
    for id, kind in known.items():
        default = "on " if kind.default else "off"
        yield f"{id:{width}}  {default}  {'/'.join(safeties(kind)):15}  {title(kind)}".rstrip()


def explanation(kind: type[Codemod]) -> Iterator[str]:
    """Everything there is to know about one codemod, as lines."""
    yield f"{kind.id} ({'on' if kind.default else 'off'} by default)"
    yield ""
    yield from (inspect.getdoc(kind) or "").split("\n")
    types = option_types(kind)
    if types:
        yield ""
        yield "Settings (--option, or [tool.devfix.options] in pyproject.toml):"
        for field in dataclasses.fields(kind):
            name = field.name.rstrip("_")
            if name in types:
                yield f"  {kind.id}.{name}={_value(field.default)}  ({_type(types[name])})"
    for example in kind.examples:
        yield ""
        yield from _example(example)


def _example(example: Example) -> Iterator[str]:
    options = "".join(f", {name}={value}" for name, value in example.options)
    if example.after is None:
        yield f"Example: {example.title} (devfix says nothing{options})"
        yield ""
        for text in (example.recipe, example.before):
            if text:
                yield from (f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))
        return
    yield f"Example: {example.title} ({example.safety.label}{options})"
    yield ""
    for before, after in ((example.recipe, example.recipe_after), (example.before, example.after)):
        if before != after:
            yield from (f"    {line}".rstrip() for line in hunk_lines(before, after))


def _type(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " | ".join(str(choice) for choice in typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(choice.name.lower() for choice in kind)
    return getattr(kind, "__name__", None) or str(kind)


def _value(default: object) -> str:
    if default is dataclasses.MISSING:
        return "..."
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Enum):
        return default.name.lower()
    if isinstance(default, tuple):
        return ",".join(str(item) for item in default)
    return str(default)
