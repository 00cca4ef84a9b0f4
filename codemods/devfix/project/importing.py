"""Which names the files of a project import, and what else is looked up in all of their texts, unparsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from devfix.models import torch_api
from devfix.pipeline import depends
from devfix.project.files import SIZE
from devfix.project.marks import MOVES, ONLY, WRITES, marks_in, places, writes
from devfix.project.saving import saves_from_cpu

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+"
    rb"(\([^)]{0,9999}\)|[^\n\\]*(?:\\\r?\n[^\n\\]*)*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
SAVED = "!saved"  # no name: files that copy what they save to the CPU
DEFAULT = "!default"  # no name: files that set the default device
_DEFAULT_CALLS = tuple(call.encode() for call in torch_api.DEFAULT_DEVICE_CALLS)
_WORD = re.compile(rb"\w+|\*")
_TRY = re.compile(rb"^try[ \t]*:[^\n]*\n?", re.MULTILINE)
_RAISES = re.compile(rb"^[ \t]+raise\b", re.MULTILINE)
_EXTENSION = re.compile(rb"\w_cuda$|\._ext$")
TRIES = 20  # in one file


def names_in(data: bytes) -> set[str]:
    """The names in the import statements of a file, and perhaps some more; `*module` for all of a module."""
    found: set[str] = set()
    if len(data) > SIZE:
        return {MOVES}
    if places(data):
        found.add(MOVES)
    if b"set_default_" in data and any(call in data for call in _DEFAULT_CALLS):
        found.add(DEFAULT)
    if writes(data):
        found.add(WRITES)
        if saves_from_cpu(data):
            found.add(SAVED)
    statements = list(statements_in(data))
    found |= marks_in(data, statements)
    late = b" ".join(b" ".join(given[:3]) for given in statements if not given[3])
    if (b"_cuda" in late or b"._ext" in late) and any(
        _EXTENSION.search(module) for module in tried_anyway(data)
    ):
        found.add(ONLY)
    for module, names, modules, _ in statements:
        for word in _WORD.findall(names or modules):
            if word == b"*":
                found.add("*" + module.rpartition(b".")[2].decode())
            else:
                found.add(word.decode("utf-8", "replace"))
    return found


def statements_in(data: bytes) -> Iterator[tuple[bytes, bytes, bytes, bool]]:
    """The import statements of a file: module and names, or modules, and whether it stands at the left.

    Only lines with the word are looked at.
    """
    end = 0
    at = data.find(b"import")
    while at >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        match = _IMPORT.match(data, start) if start >= end else None
        if match is not None:
            module, names, modules = match.groups(b"")
            yield module, names, modules, data[start] not in b" \t"
            end = match.end()
        at = data.find(b"import", max(at + 6, end))


def tried_anyway(data: bytes) -> set[bytes]:
    """The modules that both a `try` at the left and all of its `except` import, as they are written there.

    `try: from a.ops import f` with `except: from .ops import f` finds one file, which is needed. So is what
    an `except` insists on by an error of its own.
    """
    found: set[bytes] = set()
    for match in islice(_TRY.finditer(data), TRIES):
        arms: list[list[bytes]] = [[]]
        at = match.end()
        while at < len(data):
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            line = data[at:end]
            if line.startswith(b"except"):
                arms.append([])
            elif line[:1].strip() and not line.startswith((b"#", b")")):
                break
            arms[-1].append(line)
            at = end + 1
        first, *others = [b"\n".join(arm) for arm in arms]
        left = [_modules_of(arm) for arm in others if not _RAISES.search(arm)]
        for module in _modules_of(first):
            same = [{other for other in arm if _may_be(module, other)} for arm in left]
            if others and all(same):
                found.add(module)
                found.update(*same)
    return found


def _modules_of(code: bytes) -> set[bytes]:
    """The modules that a piece of code imports; of `from . import a`, `.a`."""
    found: set[bytes] = set()
    for module, names, modules, _ in statements_in(code):
        if module.strip(b"."):
            found.add(module)
        elif module:
            found.update(module + name for name in _WORD.findall(names))
        else:
            found.update(word for part in modules.split(b",") for word in part.split()[:1])
    return found


def _may_be(one: bytes, other: bytes) -> bool:
    one, other = b"." + one.lstrip(b"."), b"." + other.lstrip(b".")
    return one.endswith(other) or other.endswith(one)


def without_imports(data: bytes) -> bytes:
    """A text without its import statements."""
    return _IMPORT.sub(b"", data)


def index_of(files: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Name -> the files that import it, in their order."""
    index: dict[str, list[str]] = {}
    for path, names in files:
        for name in names:
            index.setdefault(name, []).append(path)
    return index


def importers_state(paths: Iterable[str]) -> str:
    """The state of the need of the files that import a name."""
    return depends.digest("\0".join(paths).encode("utf-8", "surrogateescape"))
