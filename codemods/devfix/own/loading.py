"""Where somebody's codemod comes from, and the only place where its code is run to load it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from devfix.config import ConfigError
from devfix.documents import DocumentError, digest_of, read_bytes
from devfix.own.crashes import said

if TYPE_CHECKING:
    from devfix.codemod import Codemod

How = Literal["rule", "libcst", "bowler"]
_PREFIX = "devfix_own_"


@dataclass(frozen=True)
class Origin:
    """Where a class of codemod comes from: plain data, with which a worker process loads it once more.

    - `spec`: as it was named. `how`: what it is written for.
    - `path` and `code`: its file and the bytes of it, which are run as they were read first, whatever has
      become of the file; empty where `module` is imported by its name.
    - `name`: the class in the module; empty: all codemods of it, or a script.
    - `digest`: of its code and that of its neighbours that it imported.
    """

    spec: str
    how: How
    module: str
    path: str = ""
    code: bytes = b""
    name: str = ""
    digest: str = ""

    @property
    def folder(self) -> str:
        """Whose files are the author's own: for what is said of a crash."""
        return os.path.dirname(self.path)


def of_file(spec: str, how: How, path: str, name: str = "") -> Origin:
    """The origin that a file is; raises ConfigError where it cannot be read."""
    path = os.path.abspath(path)
    try:
        code = read_bytes(path)
    except DocumentError as error:
        raise ConfigError(f"codemod {spec}: {path}: {error}") from error
    digest = digest_of(code)
    stem = "".join(c if c.isalnum() else "_" for c in os.path.splitext(os.path.basename(path))[0])
    module = f"{_PREFIX}{stem}_{digest_of(path.encode('utf-8', 'surrogatepass'))[:8]}"
    return Origin(spec, how, f"{module}_{digest[:8]}", path, code, name, digest)


def module_of(origin: Origin) -> tuple[ModuleType, Origin]:
    """The module of an origin, run where it has not been yet, and the origin with all that it is made of.

    Raises ConfigError, with the file and the line, whatever its code raises.
    """
    known = sys.modules.get(origin.module)
    before = set(sys.modules)
    if known is None:
        run = _run_file if origin.path and origin.code else _import
        known = guarded(origin, lambda: run(origin))
    path = origin.path or os.path.abspath(getattr(known, "__file__", None) or "")
    origin = replace(origin, path=path)
    if not origin.code:
        package = origin.module.partition(".")[0]
        mine = {name for name in list(sys.modules) if name.partition(".")[0] == package}
        return known, replace(origin, digest=_digest(mine, b""))
    inside = origin.folder + os.sep
    helpers = {
        name
        for name in set(sys.modules) - before
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(inside)
    } - {origin.module}
    return known, replace(origin, digest=_digest(helpers, origin.code)) if helpers else origin


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
    module = ModuleType(name)
    module.__file__ = origin.path
    hidden = sys.modules.get(name)
    sys.modules[name] = module  # where dataclasses look for it
    try:
        with _importable(origin.folder):
            exec(compile(origin.code, origin.path, "exec"), module.__dict__)
    finally:
        sys.modules.pop(name)
        if hidden is not None:
            sys.modules[name] = hidden
    return module.__dict__


def _run_file(origin: Origin) -> ModuleType:
    module = ModuleType(origin.module)
    module.__file__ = origin.path
    sys.modules[origin.module] = module  # where dataclasses and annotations look for it
    try:
        with _importable(origin.folder):
            exec(compile(origin.code, origin.path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[origin.module]
        raise
    return module


def _import(origin: Origin) -> ModuleType:
    return importlib.import_module(origin.module)


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """What stands beside a codemod can be imported by it; last, so that it hides nothing."""
    if folder not in sys.path:
        sys.path.append(folder)  # and stays: a function may import when it is called
    yield


def _digest(modules: set[str], code: bytes) -> str:
    """Of the files of some modules, and more bytes."""
    import hashlib  # not for every run

    found = hashlib.sha256(code)
    for name in sorted(modules):
        path = getattr(sys.modules.get(name), "__file__", None)
        try:
            data = read_bytes(path) if path else b""
        except DocumentError:
            data = b""
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)
    return found.hexdigest()


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
