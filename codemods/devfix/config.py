"""Settings: `[tool.devfix]` in pyproject.toml, overridden by the command line.

```toml
[tool.devfix]
codemods = ["reorder-to"]          # default: all that are on by default
exclude-codemods = ["move-inputs"]
include = ["src/**"]               # as in .gitignore, relative to this file
exclude = ["third_party/"]
unsafe = true
jobs = 4
project-root = "."                 # whose files see each other, relative to this file
cache = false                      # keep no results for the next run

[tool.devfix.options.assert-device]
check = "all"
```

Nothing in a repository's settings can name code to load: it may be anybody's. The user's own settings
(`config.toml` in the folder `devfix` of $XDG_CONFIG_HOME, or of ~/.config) and a file that is named by
`--config` can, as `own-codemods`; they have the same keys, without the `[tool.devfix]` above them.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from devfix.codemod import Codemod
from devfix.documents import DocumentError, read_bytes
from devfix.findings import Safety
from devfix.pipeline.around import Around
from devfix.pipeline.listing import upward

FILE = "pyproject.toml"
_MOST = 2_000_000  # bytes of a file of settings


class ConfigError(Exception):
    """A setting that is unknown or ill-typed; the message names it, and its file if it has one."""


@dataclass(frozen=True)
class Option:
    """`--option ID.NAME=VALUE`; the value may still be text that has to be read as the right type."""

    codemod: str
    name: str
    value: object


@dataclass(frozen=True)
class Config:
    """The settings of a run. An empty `codemods` stands for all that are on by default."""

    codemods: tuple[str, ...] = ()
    exclude_codemods: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool = False
    jobs: int = 0  # 0: one per core
    project: bool = True  # does a file see those that it imports?
    project_root: str = ""  # empty: found for each file
    options: tuple[Option, ...] = ()
    base: str = ""  # folder that `include` and `exclude` are relative to
    file: str = ""  # where the settings come from, if from a file
    own_codemods: tuple[str, ...] = ()  # code to load; never from a repository's settings
    cache: bool = True  # are results kept, and those of earlier runs used?

    @property
    def level(self) -> Safety:
        return Safety.UNSAFE if self.unsafe else Safety.SAFE

    @property
    def around(self) -> Around | None:
        return Around(self.project_root) if self.project else None


def user_file() -> str:
    """Where the user's own settings are, if there are any."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(base, "devfix", "config.toml")


def load(start: str, file: str = "") -> Config:
    """The settings of the nearest pyproject.toml at or above `start` (a file or a folder).

    What it does not say, the user's own settings say, and then the defaults. With `file`, the settings
    of that file alone. Raises ConfigError. What the user's own settings name as codemods is loaded.
    """
    if file:
        return _read(file, trusted=True)
    mine = user_file()
    base = _read(mine, trusted=True) if os.path.isfile(mine) else None
    found = _nearest(start)
    return found if base is None else _over(base, found)


def _over(base: Config, found: Config) -> Config:
    """The settings of a repository over those of the user."""
    changes: dict[str, Any] = {"options": (*base.options, *found.options)}
    for name in ("codemods", "exclude_codemods", "unsafe", "jobs", "project", "cache"):
        if getattr(found, name) == getattr(Config, name):
            changes[name] = getattr(base, name)
    return replace(found, **changes, own_codemods=base.own_codemods)


def _nearest(start: str) -> Config:
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    paths = (os.path.join(one, FILE) for one in upward(folder))
    path = next(filter(os.path.isfile, paths), "")
    return _read(path, trusted=False) if path else Config()


def _read(path: str, trusted: bool) -> Config:
    try:
        data = read_bytes(path, most=_MOST)
    except DocumentError as error:
        raise ConfigError(f"{shown(path)}: {error}") from error
    whole = trusted and os.path.basename(path) != FILE  # all of it is devfix's
    if not whole and b"devfix" not in data:
        return Config()  # somebody else's file: whether it is good TOML is not our business
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table = toml.loads(data.decode("utf-8"))
    except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{shown(path)}: is not valid TOML: {error}") from error
    if whole:
        return parse(table, path, trusted=True)
    tool = table.get("tool", {})
    if not isinstance(tool, dict) or "devfix" not in tool:
        return Config()
    return parse(tool["devfix"], path, trusted)


def parse(table: object, path: str, trusted: bool = False) -> Config:
    """`[tool.devfix]` of the file `path` as Config; raises ConfigError.

    Only with `trusted` may it name code, which is loaded then.
    """
    where = f"{shown(path)}: tool.devfix"
    if not isinstance(table, dict):
        raise ConfigError(f"{where} must be a table")
    keys = [name.replace("_", "-") for name in Config.__dataclass_fields__ if name not in ("base", "file")]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in keys:
            raise ConfigError(f"{where}.{key}: unknown setting{suggest(key, keys)}")
        if key in ("unsafe", "project", "cache"):
            if not isinstance(value, bool):
                raise ConfigError(f"{where}.{key}: must be true or false, not {value!r}")
            values[key] = value
        elif key == "jobs":
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigError(f"{where}.{key}: must be a whole number from 0, not {value!r}")
            values[key] = value
        elif key == "project-root":
            if not isinstance(value, str):
                raise ConfigError(f"{where}.{key}: must be the path of a folder, not {value!r}")
            values[key] = _inside(os.path.join(os.path.dirname(path), value), path, f"{where}.{key}")
        elif key == "options":
            values[key] = tuple(_options(value, f"{where}.options"))
        else:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{where}.{key}: must be a list of texts, not {value!r}")
            values[key] = tuple(value)
            if "codemods" in key:
                values[key] = _named(values[key], key, path, where, trusted)
    config = Config(
        **{key.replace("-", "_"): value for key, value in values.items()},
        base=os.path.dirname(path),
        file=path,
    )
    try:
        choose(config, defaults=False)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return config


def _named(specs: tuple[str, ...], key: str, path: str, where: str, trusted: bool) -> tuple[str, ...]:
    """The ids of codemods; code is loaded where it may be."""
    from devfix.own.known import is_code, named

    code = [spec for spec in specs if is_code(spec) or key == "own-codemods"]
    if code and not trusted:
        raise ConfigError(
            f"{where}.{key}: {code[0]!r} would run code, and the settings of a repository may not do that; "
            f"name it on the command line (--codemod) or in your own settings ({user_file()})"
        )
    try:
        return named(specs, os.path.dirname(os.path.abspath(path))) if code else specs
    except ConfigError as error:
        raise ConfigError(f"{where}.{key}: {error}") from error


def _inside(folder: str, path: str, where: str) -> str:
    """A folder that a file of settings names: it may come from anybody, so only one of its own repository."""
    from devfix.documents.state import is_below, tree_of

    top, real = tree_of(os.path.dirname(path)), os.path.realpath(folder)
    if real != top and not is_below(real, top):
        raise ConfigError(f"{where}: leads out of the repository; use --project-root for that")
    return folder


def _options(value: object, where: str) -> Iterable[Option]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be a table of codemods")
    for codemod, options in value.items():
        if not isinstance(options, dict):
            raise ConfigError(f"{where}.{codemod}: must be a table of options")
        for name, option in options.items():
            yield Option(codemod, name, option)


def parse_option(text: str) -> Option:
    """`ID.NAME=VALUE` as Option; raises ConfigError."""
    head, equals, value = text.partition("=")
    codemod, dot, name = head.strip().partition(".")
    if not (equals and dot and codemod and name):
        raise ConfigError(f"option {text!r} must be ID.NAME=VALUE, such as assert-device.check=all")
    return Option(codemod, name, value.strip())


# --- codemods ------------------------------------------------------------------------------


def choose(
    config: Config, known: Mapping[str, type[Codemod]] | None = None, *, defaults: bool = True
) -> tuple[Codemod, ...]:
    """The codemods of a run, with their options set; raises ConfigError.

    Without the `defaults` only those that are named: whoever looks for mistakes need not import all of them.
    """
    if known is None:
        from devfix.own.known import Known

        known = Known()
    for codemod in (*config.codemods, *config.exclude_codemods, *(o.codemod for o in config.options)):
        if codemod not in known:
            find(codemod, known)  # says what is near
    wanted = set(config.codemods)
    if not wanted and defaults:
        wanted = set(by_default(known, config.exclude_codemods))
    wanted -= set(config.exclude_codemods)
    chosen = []
    for id in known:
        options = {option.name: option.value for option in config.options if option.codemod == id}
        if id in wanted or options:  # even if not wanted: a wrong option is an error all the same
            made = make(known[id], options)
            if id in wanted:
                chosen.append(made)
    if defaults and config.codemods and not chosen:
        raise ConfigError("the codemods that are named are all excluded, so nothing would run")
    return tuple(chosen)


def by_default(known: Mapping[str, type[Codemod]], but: Collection[str] = ()) -> Iterable[str]:
    """The ids of the codemods that are on by default, less some."""
    from devfix.own.known import Known

    if isinstance(known, Known):
        return known.by_default(but)  # some may be broken
    return [id for id, kind in known.items() if kind.default and id not in but]


def find(codemod: str, known: Mapping[str, type[Codemod]]) -> type[Codemod]:
    """The codemod of that id; raises ConfigError with a suggestion."""
    if codemod not in known:
        raise ConfigError(f"unknown codemod {codemod!r}{suggest(codemod, known)}")
    return known[codemod]


def make(kind: type[Codemod], options: Mapping[str, object]) -> Codemod:
    """A codemod with options given as values or as text; raises ConfigError.

    A hyphen in an option's name stands for the underscore of the field.
    """
    made = kind.from_options(options)
    if made is not None:
        return made
    if not options:
        return kind()
    fields = option_types(kind)
    attributes = {_option_name(field.name): field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        field = name.replace("-", "_")
        if field not in fields:
            hint = suggest(field, fields) if fields else "; it has no options"
            raise ConfigError(f"codemod {kind.id} has no option {name!r}{hint}")
        values[attributes[field]] = convert(value, fields[field], f"option {kind.id}.{name}")
    return kind(**values)


def option_types(kind: type[Codemod]) -> dict[str, Any]:
    """Option name -> type, from the fields of a codemod's class."""
    hints = typing.get_type_hints(kind)
    return {_option_name(field.name): hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _option_name(field: str) -> str:
    """`check_` is the option `check`: some names are methods of every codemod."""
    return field.rstrip("_")


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def convert(value: object, kind: Any, where: str) -> object:
    """`value` as `kind`: bool, int, str, a Literal, an optional or a tuple of them."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        for choice in arguments:
            if value == choice or (isinstance(value, str) and value == str(choice)):
                return choice
        choices = ", ".join(str(choice) for choice in arguments)
        raise ConfigError(f"{where} must be one of {choices}, not {_quoted(value)}")
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        return convert(value, inner[0], where)
    if origin is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, Sequence):
            raise ConfigError(f"{where} must be a list, not {_quoted(value)}")
        return tuple(
            convert(item.strip() if isinstance(item, str) else item, arguments[0], where)
            for item in items
            if item
        )
    if kind is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise ConfigError(f"{where} must be true or false, not {_quoted(value)}")
    if kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        try:
            return int(value) if isinstance(value, str) else int("")
        except ValueError:
            raise ConfigError(f"{where} must be a whole number, not {_quoted(value)}") from None
    if isinstance(kind, type) and issubclass(kind, Enum):
        named = {choice.name.lower(): choice for choice in kind}
        if isinstance(value, kind) or (isinstance(value, str) and value.lower() in named):
            return value if isinstance(value, kind) else named[str(value).lower()]
        raise ConfigError(f"{where} must be one of {', '.join(named)}, not {_quoted(value)}")
    if isinstance(value, str):
        return value
    raise ConfigError(f"{where} must be text, not {_quoted(value)}")


def _quoted(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` where something is near, else the whole choice."""
    import difflib  # only where something is wrong

    names = sorted(known)
    near = difflib.get_close_matches(word, names, 1, 0.5)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(names)}" if names else ""


def shown(path: str) -> str:
    """A path of the user's, relative to the working directory where it is below it."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith(os.pardir) else relative
