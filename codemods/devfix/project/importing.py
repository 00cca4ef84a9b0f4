"""Which names the files of a project import, and what else is looked up in all of their texts, unparsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from devfix import depends
from devfix.flow import torch_api
from devfix.project.files import SIZE
from devfix.project.marks import WRITES, marks_in, writes
from devfix.project.saving import saves_from_cpu

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n\\]*(?:\\\r?\n[^\n\\]*)*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
SAVED = "!saved"  # no name: files that copy what they save to the CPU
DEFAULT = "!default"  # no name: files that set the default device
_DEFAULT_CALLS = tuple(call.encode() for call in torch_api.DEFAULT_DEVICE_CALLS)
_WORD = re.compile(rb"\w+|\*")


def names_in(data: bytes) -> set[str]:
    """The names in the import statements of a file, and perhaps some more; `*module` for all of a module."""
    found: set[str] = set()
    if len(data) > SIZE:
        return found
    if b"set_default_" in data and any(call in data for call in _DEFAULT_CALLS):
        found.add(DEFAULT)
    if writes(data):
        found.add(WRITES)
        if saves_from_cpu(data):
            found.add(SAVED)
    statements = list(statements_in(data))
    found |= marks_in(data, statements)
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
