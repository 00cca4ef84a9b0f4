"""The contract of a codemod, and the registry of those in `rules/`."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from devfix.findings import Edit, Finding, Related, Safety, Span, told

if TYPE_CHECKING:
    from devfix.flow import Flow
    from devfix.recipes.recipe import Recipe


@dataclass(frozen=True)
class Example:
    """A complete small program, before and after the fixes.

    Both print numbers, the same ones on the CPU. `after=None` says that the codemod has no finding
    in `before`. `raises` (on CUDA) and `raises_on_cpu` are regular expressions for the error that
    `before` raises; empty if it raises none.
    """

    title: str
    """What it shows."""
    before: str
    after: str | None = None
    """The program with the fixes; None: there is no finding."""
    raises: str = ""
    safety: Safety = Safety.SAFE
    """The lowest safety of the fixes to make."""
    options: tuple[tuple[str, str], ...] = ()
    """Names and values of the options of the codemod."""
    # A HyperPyYAML file beside the program, `hyperparams.yaml`, before and after.
    recipe: str = ""
    """A HyperPyYAML file next to the program, `hyperparams.yaml`."""
    recipe_after: str = ""
    """The same with the fixes."""
    raises_on_cpu: str = ""
    """What `before` raises on the CPU: a bug that needs no accelerator, such as a device that torch does not know."""

    @classmethod
    def changed(cls, title: str, before: str, *changes: tuple[str, str], **others: Any) -> Example:
        """An example whose fixes replace texts that stand once in `before`: each of `changes` is an old and a new one.

        `others` are the remaining fields. Raises ValueError where an old text does not stand there just once.
        """
        after = before
        for old, new in changes:
            if after.count(old) != 1:
                raise ValueError(f"{title}: {old!r} stands there {after.count(old)} times")
            after = after.replace(old, new)
        return cls(title, before, after, **others)

    def program(self, after: bool = False) -> str:
        """What is to be run; it writes its recipe first."""
        text, recipe = (self.after or "", self.recipe_after) if after else (self.before, self.recipe)
        return f"open('hyperparams.yaml', 'w').write({recipe!r})\n{text}" if recipe else text


@dataclass(frozen=True)
class Codemod(ABC):
    """One kind of device bug and its fix. The fields of a subclass are its options.

    The docstring of a subclass has a title line and the headings *What it does*,
    *Why is this bad?*, *Fix safety* and, where it has any, *Options*; `devfix explain` prints it.
    """

    id: ClassVar[str]
    # Pre-filter: of each group at least one word must occur in the text.
    words: ClassVar[tuple[tuple[str, ...], ...]]
    examples: ClassVar[tuple[Example, ...]]
    default: ClassVar[bool] = True
    recipes: ClassVar[bool] = False  # does it look at HyperPyYAML recipes (as well)?
    # It rewrites a file once, all or nothing, and may drop comments: a codemod of another tool.
    once: ClassVar[bool] = False
    # Where the class was loaded from, a `devfix.own.loading.Origin`; None: it is devfix's own.
    origin: ClassVar[Any] = None
    # From which safety its fixes are applied; None: as the run says. Set on an object, not a class.
    level: ClassVar[Safety | None] = None

    @abstractmethod
    def check(self, flow: Flow) -> Iterator[Finding]:
        """Yield the findings in one file; never print, write or change anything."""

    def check_recipe(self, recipe: Recipe) -> Iterator[Finding]:
        """Yield the findings in one recipe, together with the files around it."""
        return iter(())

    def wants(self, text: str) -> bool:
        """Whether a file with this text has to be analysed."""
        return bool(wanting((self,), text))

    def finding(
        self,
        span: Span,
        message: str,
        *,
        title: str = "",
        edits: tuple[Edit, ...] = (),
        safety: Safety = Safety.SAFE,
        related: tuple[Related, ...] = (),
        assumes: str = "",
    ) -> Finding:
        """A finding of this codemod; without `edits` it has no fix.

        If the fix is unsafe, the message ends with what it `assumes`: "the batch is a tensor".
        """
        made = told(self.id, span, message, title, edits, related, assumes if safety is Safety.UNSAFE else "")
        return made if made.fix is None else replace(made, fix=replace(made.fix, safety=safety))

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Codemod | None:
        """The codemod with its options; None: they are its fields, as `devfix.config.make` sets them."""
        return None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A class that was loaded from a file is loaded once more where the object is sent to."""
        if self.origin is None:
            return super().__reduce_ex__(protocol)
        from devfix.own.loading import restored

        return restored, (self.origin, self.id, dict(vars(self)))


@dataclass(frozen=True)
class RecipeCodemod(Codemod):
    """A codemod for HyperPyYAML recipes instead of Python files."""

    recipes: ClassVar[bool] = True

    def check(self, flow: Flow) -> Iterator[Finding]:
        return iter(())

    @abstractmethod
    def check_recipe(self, recipe: Recipe) -> Iterator[Finding]:
        """Yield the findings in one recipe, together with the files around it."""


def wanting(codemods: Sequence[Codemod], text: str) -> tuple[Codemod, ...]:
    """Those of the codemods that want the text; each word is looked for once, whoever asks for it."""
    known: dict[str, bool] = {}
    found = []
    for codemod in codemods:
        for group in _least(codemod.words):
            for word in group:
                here = known.get(word)
                if here is None:
                    here = known[word] = word in text
                if here:
                    break
            else:
                break  # none of this group
        else:
            found.append(codemod)
    return tuple(found)


@cache
def _least(words: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """The same groups with as little to look for as possible; most files lack `torch`, long lists come last.

    Who has a word has those that are in it, so of `arange(` and `range(` only the second is looked for.
    """
    least = (
        tuple(word for word in group if not any(other != word and other in word for other in group))
        for group in words
    )
    return tuple(sorted((tuple(sorted(group, key=len)) for group in least), key=len))


class Together:
    """What the codemods of a run say of themselves, taken together."""

    codemods: tuple[Codemod, ...]
    level: Safety

    def applies(self, codemod: str, safety: Safety) -> bool:
        """Whether fixes of a codemod and a safety are applied."""
        return safety >= self.levels.get(codemod, self.level)

    @cached_property
    def levels(self) -> dict[str, Safety]:
        """The codemods that a recipe gives a level of their own."""
        return {codemod.id: codemod.level for codemod in self.codemods if codemod.level is not None}

    @cached_property
    def once(self) -> frozenset[str]:
        """The codemods whose fixes in a file belong together, and are made once."""
        return frozenset(codemod.id for codemod in self.codemods if codemod.once)

    @cached_property
    def own(self) -> frozenset[str]:
        """The codemods that are somebody's own."""
        return frozenset(codemod.id for codemod in self.codemods if codemod.origin is not None)


class Registry(Mapping[str, type[Codemod]]):
    """The codemods of `devfix.rules` by id, in the order of their ids; imported when asked for.

    The codemod `reorder-to` is in the module `reorder_to`, so the ids are known without an import.
    """

    def __init__(self) -> None:
        import pkgutil

        from devfix import rules

        names = (info.name for info in pkgutil.iter_modules(rules.__path__))
        self._modules = {name.replace("_", "-"): f"{rules.__name__}.{name}" for name in sorted(names)}
        self._found: dict[str, type[Codemod]] = {}

    def __getitem__(self, id: str) -> type[Codemod]:
        found = self._found.get(id)
        if found is None:
            module = self._modules[id]
            for item in vars(importlib.import_module(module)).values():
                if isinstance(item, type) and issubclass(item, Codemod) and item.__module__ == module:
                    found = self._found[id] = item
            if found is None or found.id != id:
                raise TypeError(f"{module} must define the codemod {id!r}")
        return found

    def __contains__(self, id: object) -> bool:
        return id in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def registry() -> Registry:
    """Every codemod by id."""
    return Registry()
