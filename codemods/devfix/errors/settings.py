"""Calls that make an accelerator the default of a whole program, in whichever of its files they stand."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from devfix.documents import DocumentError, document_of, read_bytes
from devfix.errors.places import shown_line
from devfix.text.source import Source

_SETTERS = ("torch.set_default_device", "torch.set_default_tensor_type")
_MARKS = (b"set_default_device", b"set_default_tensor_type")


@dataclass(frozen=True)
class Setting:
    """Where such a call is, and its text."""

    path: str
    line: int
    code: str


def settings_in(files: Iterable[str]) -> tuple[Setting, ...]:
    """Every call that makes something else than the CPU the default; files that cannot be read have none."""
    found = []
    for path in files:
        try:
            data = read_bytes(path)
            if not any(mark in data for mark in _MARKS):
                continue
            document = document_of(path, data)
            source = Source(document.text)
        except (DocumentError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for call in source.calls:
            name = source.qualified(call.func)
            if name in _SETTERS and call.args and not _of_the_cpu(source, name, call.args[0]):
                code = " ".join(source.code(call).split())
                found.append(Setting(path, shown_line(document, call.lineno), code))
    return tuple(found)


def _of_the_cpu(source: Source, setter: str, node: ast.expr) -> bool:
    text = str(node.value) if isinstance(node, ast.Constant) else source.qualified(node) or ""
    if setter == _SETTERS[1]:
        return ".cuda." not in text
    return text in ("cpu", "None")
