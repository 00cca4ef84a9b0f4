"""Rules for devfix that are not its own: classes that derive from `Codemod`, in a file or a package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType

from devfix.codemod import Codemod
from devfix.config import ConfigError, suggest
from devfix.own.loading import Origin, module_of

ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")


def kinds(origin: Origin) -> Mapping[str, type[Codemod]]:
    """The codemods of a module by id; raises ConfigError."""
    module, whole = module_of(origin)
    found = _named(module, origin) if origin.name else _all(module)
    if not found:
        raise ConfigError(
            f"codemod {origin.spec}: there is no class in it that derives from devfix.api.Codemod"
        )
    for kind in found:
        _checked(kind, origin)
        kind.origin = whole
    return {kind.id: kind for kind in found}


def _all(module: ModuleType) -> list[type[Codemod]]:
    return [
        item
        for item in vars(module).values()
        if isinstance(item, type)
        and issubclass(item, Codemod)
        and item.__module__ == module.__name__
        and not getattr(item, "__abstractmethods__", None)
    ]


def _named(module: ModuleType, origin: Origin) -> list[type[Codemod]]:
    item = getattr(module, origin.name, None)
    if isinstance(item, type) and issubclass(item, Codemod):
        return [item]
    by_id = [kind for kind in _all(module) if kind.id == origin.name]
    if by_id:
        return by_id
    if item is not None:
        raise ConfigError(
            f"codemod {origin.spec}: {origin.name} does not derive from devfix.api.Codemod; "
            "for a LibCST command write libcst:FILE_OR_MODULE"
        )
    names = [kind.__name__ for kind in _all(module)]
    raise ConfigError(
        f"codemod {origin.spec}: there is no {origin.name!r} in it{suggest(origin.name, names)}"
    )


def _checked(kind: type[Codemod], origin: Origin) -> None:
    """Raises ConfigError with what the class lacks."""
    where = f"codemod {origin.spec}: class {kind.__name__}"
    id = getattr(kind, "id", None)
    if not isinstance(id, str) or not ID.match(id):
        raise ConfigError(f"{where}: `id` must be a text such as 'my-rule', not {id!r}")
    words = getattr(kind, "words", None)
    if not isinstance(words, tuple) or not all(
        isinstance(group, tuple) and group and all(isinstance(word, str) and word for word in group)
        for group in words
    ):
        raise ConfigError(f"{where}: `words` must be a tuple of tuples of texts, such as (('torch',),)")
    if not isinstance(getattr(kind, "examples", None), tuple):
        raise ConfigError(f"{where}: `examples` must be a tuple of devfix.api.Example; it may be empty")
    if "__abstractmethods__" in vars(kind) and kind.__abstractmethods__:
        raise ConfigError(f"{where} must define {', '.join(sorted(kind.__abstractmethods__))}")
