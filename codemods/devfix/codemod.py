"""The contract of a codemod, and the registry of those in `rules/`."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from devfix.findings import Edit, Finding, Fix, Related, Safety, Span

if TYPE_CHECKING:
    from devfix.flow import Flow


@dataclass(frozen=True)
class Example:
    """A small program that runs as it stands, before and after the codemod.

    Both print numbers; on the CPU they print the same ones. `after=None` says that the
    codemod has nothing to say about `before`. `raises` is a regular expression found in
    what `before` raises on CUDA; empty where it raises nothing.
    """

    title: str
    before: str
    after: str | None = None
    raises: str = ""
    safety: Safety = Safety.SAFE
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Codemod(ABC):
    """One kind of device bug and its repair. The fields of a subclass are its options.

    The docstring of a subclass has a title line and the headings *What it does*,
    *Why is this bad?*, *Fix safety* and, where it has any, *Options*; `devfix explain` prints it.
    """

    id: ClassVar[str]
    # Pre-filter: of each group at least one word must occur in the text.
    words: ClassVar[tuple[tuple[str, ...], ...]]
    examples: ClassVar[tuple[Example, ...]]
    default: ClassVar[bool] = True

    @abstractmethod
    def check(self, flow: Flow) -> Iterator[Finding]:
        """Yield what is wrong in one file; never print, write or change anything."""

    def wants(self, text: str) -> bool:
        return all(any(word in text for word in group) for group in self.words)

    def finding(
        self,
        span: Span,
        message: str,
        *,
        title: str = "",
        edits: tuple[Edit, ...] = (),
        safety: Safety = Safety.SAFE,
        related: tuple[Related, ...] = (),
    ) -> Finding:
        fix = Fix(title, edits, safety) if edits else None
        return Finding(self.id, span, message, fix, related)


@cache
def registry() -> dict[str, type[Codemod]]:
    """Every codemod of `devfix.rules` by id, in the order of their ids."""
    from devfix import rules

    found: dict[str, type[Codemod]] = {}
    for info in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        for item in vars(importlib.import_module(info.name)).values():
            if isinstance(item, type) and issubclass(item, Codemod) and item.__module__ == info.name:
                found[item.id] = item
    return dict(sorted(found.items()))
