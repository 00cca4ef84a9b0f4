"""Where somebody's codemod comes from, and the only place where its code is run to load it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from devfix.config import ConfigError
from devfix.documents import DocumentError, digest_of, read_bytes
from devfix.own.crashes import said

if TYPE_CHECKING:
    from devfix.codemod import Codemod

How = Literal["rule", "libcst", "bowler"]
_PREFIX = "devfix_own_"
# A file of codemods imports devfix, or what its author calls codemods; a comment that silences devfix is no import.
_IMPORTS = re.compile(rb"^[ \t]*(?:from|import)\b[^\n#]*(?:devfix|codemod)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Origin:
    """Where a class of codemod comes from: plain data, with which a worker process loads it once more.

    - `spec`: as it was named. `how`: what it is written for.
    - `path` and `code`: its file and the bytes of it, which are run as they were read first, whatever has
      become of the file; empty where `module` is imported by its name.
    - `name`: the class in the module; empty: all codemods of it, or a script.
    """

    spec: str
    how: How
    module: str
    path: str = ""
    code: bytes = b""
    name: str = ""

    @property
    def folder(self) -> str:
        """Whose files are the author's own: for what is said of a crash."""
        return os.path.dirname(self.path)


def of_file(spec: str, how: How, path: str, name: str = "") -> Origin:
    """The origin that a file is. Raises ConfigError where it cannot be read, or has nothing to do with codemods."""
    path = os.path.abspath(path)
    try:
        code = read_bytes(path)
    except DocumentError as error:
        raise ConfigError(f"codemod {spec}: {path}: {error}") from error
    if how == "rule" and not _IMPORTS.search(code):
        raise ConfigError(
            f"codemod {spec}: it imports nothing of devfix, so it was not run; a line of a program is FILE:LINE"
        )
    stem = "".join(c if c.isalnum() else "_" for c in os.path.splitext(os.path.basename(path))[0])
    module = f"{_PREFIX}{stem}_{digest_of(path.encode('utf-8', 'surrogatepass'))[:8]}"
    return Origin(spec, how, f"{module}_{digest_of(code)[:8]}", path, code, name)


def module_of(origin: Origin) -> tuple[ModuleType, Origin]:
    """The module of an origin, run where it has not been yet, and the origin with the path of its file.

    Raises ConfigError, with the file and the line, whatever its code raises.
    """
    known = sys.modules.get(origin.module)
    if known is None:
        known = guarded(origin, lambda: _run_file(origin) if origin.code else import_module(origin.module))
    path = origin.path or os.path.abspath(getattr(known, "__file__", None) or "")
    return known, replace(origin, path=path)


def guarded(origin: Origin, do: Callable[[], Any]) -> Any:
    """What `do` returns; whatever it raises is a ConfigError that names the codemod, file and line."""
    found, trouble = said(origin, do)
    if trouble:
        name = origin.module.partition(".")[0]
        if not origin.code and f"No module named {name!r}" in trouble:
            trouble += f"; install it, or name a file: {origin.how}:path/to/file.py:{origin.name}"
        raise ConfigError(f"codemod {origin.spec} cannot be loaded: {trouble}")
    return found


def run_as(origin: Origin, name: str) -> dict[str, Any]:
    """The names of a script after it has been run as the module `name`, which is not kept."""
    hidden = sys.modules.get(name)
    try:
        return vars(_run_file(replace(origin, module=name)))
    finally:
        sys.modules.pop(name, None)
        if hidden is not None:
            sys.modules[name] = hidden


def _run_file(origin: Origin) -> ModuleType:
    module = ModuleType(origin.module)
    module.__file__ = origin.path
    sys.modules[origin.module] = module  # where dataclasses and annotations look for it
    if origin.folder not in sys.path:  # last, so that it hides nothing
        sys.path.append(origin.folder)  # and stays: a function may import when it is called
    try:
        exec(compile(origin.code, origin.path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[origin.module]
        raise
    return module


_Loader = Callable[[Origin], Mapping[str, "type[Codemod]"]]
_found: dict[Origin, Mapping[str, type[Codemod]]] = {}


def classes(origin: Origin) -> Mapping[str, type[Codemod]]:
    """The codemods of an origin by id, loaded once in a process; raises ConfigError."""
    if origin not in _found:
        _found[origin] = _loader(origin)(origin)
    return _found[origin]


def _loader(origin: Origin) -> _Loader:
    if origin.how == "libcst":
        from devfix.own.libcst_commands import kinds
    elif origin.how == "bowler":
        from devfix.own.bowler_scripts import kinds
    else:
        from devfix.own.rules import kinds
    return kinds


def restored(origin: Origin, id: str, state: Mapping[str, object]) -> Codemod:
    """A codemod as it was sent to another process."""
    found = classes(origin)
    kind = found[id]
    made = object.__new__(kind)
    for name, value in state.items():
        object.__setattr__(made, name, value)
    return made
