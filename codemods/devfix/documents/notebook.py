"""Notebooks: the code cells of an `.ipynb` as one Python text, and edits back into their cells.

Each cell begins with a marker comment, so the new text can be taken apart again. Magics and shell
lines are masked by comments of the same length. In the JSON text only the `source` of a changed
cell is replaced, and in it only the lines that changed: every other byte stays.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from devfix.documents.magics import masked
from devfix.documents.python import Document, DocumentError
from devfix.documents.spans import first, items, member

SUFFIX = ".ipynb"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass(frozen=True)
class Element:
    """One string of a `source`: where its literal stands in the JSON text, and on which line (from 1)."""

    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Cell:
    """A code cell: its number in the notebook (from 1) and the literal of its `source`."""

    number: int
    start: int
    end: int
    elements: tuple[Element, ...]
    is_list: bool
    source: str
    # Masked lines, in order: what stands in the text, and what it stands for.
    masked: tuple[tuple[str, str], ...] = ()
    first: int = 0  # line of the text (from 1) that the cell's first line is


@dataclass(frozen=True)
class Notebook(Document):
    """A notebook as it was read; `text` is the Python of its code cells."""

    json_text: str = ""
    cells: tuple[Cell, ...] = ()
    problems: tuple[str, ...] = ()
    _marks: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, path: str, data: bytes) -> Notebook:
        """The notebook that `data` is. Raises DocumentError where it is none."""
        plain = Document.of(path, data)
        try:
            cells = _cells(plain.text)
        except (ValueError, RecursionError, IndexError) as error:
            raise DocumentError("read", f"is not a notebook: {error}; save it again with Jupyter") from error
        kept: list[Cell] = []
        problems: list[str] = []
        marks: list[str] = []
        parts: list[str] = []
        line = 1
        for cell in cells:
            as_python = masked(cell.source)
            if as_python is None:
                continue
            body, hidden = as_python
            problem = _problem(body)
            if problem:
                problems.append(f"cell {cell.number}: {problem}")
                continue
            mark = f"# %% [cell {cell.number}] {plain.digest[:8]}\n"
            end = "" if body.endswith("\n") or not body else "\n"
            parts.append(f"{mark}{body}{end}")
            marks.append(mark)
            kept.append(replace(cell, masked=hidden, first=line + 1))
            line += parts[-1].count("\n")
        return cls(
            path,
            data,
            "".join(parts),
            plain.encoding,
            plain.bom,
            plain.text,
            tuple(kept),
            tuple(problems),
            tuple(marks),
        )

    @property
    def everything(self) -> tuple[Cell, ...]:
        """The cells as they stand, those of text included."""
        return tuple(_cells(self.json_text, ("code", "markdown", "raw")))

    def where(self, line: int) -> tuple[int, int, int]:
        """Line of the text -> line of the file, number of the cell and line in it, all from 1."""
        index = max(0, bisect_right(self.cells, line, key=lambda cell: cell.first) - 1)
        cell = self.cells[index]
        inside = max(1, line - cell.first + 1)
        if cell.is_list and cell.elements:
            return cell.elements[min(inside, len(cell.elements)) - 1].line, cell.number, inside
        return (cell.elements[0].line if cell.elements else 1), cell.number, inside

    def encode(self, text: str) -> bytes:
        """The notebook with the code of `text`; raises DocumentError where the cells cannot be told."""
        bodies = self._taken_apart(text)
        old = self._taken_apart(self.text)
        out = self.json_text
        for cell, body, before in reversed(list(zip(self.cells, bodies, old, strict=True))):
            if body != before:
                source = _unmasked(cell, body)
                if not cell.source.endswith("\n"):
                    source = source.removesuffix("\n")
                out = out[: cell.start] + _literal(self.json_text, cell, source) + out[cell.end :]
        try:
            json.loads(out)
            return self.bom + out.encode(self.encoding)
        except ValueError as error:
            raise DocumentError("write", f"the notebook would not be valid any more: {error}") from error

    def with_source(self, number: int, source: str) -> bytes:
        """The notebook with another source in the cell of that number, whatever kind it is."""
        cell = next(cell for cell in self.everything if cell.number == number)
        out = (
            self.json_text[: cell.start] + _literal(self.json_text, cell, source) + self.json_text[cell.end :]
        )
        return self.bom + out.encode(self.encoding)

    def _taken_apart(self, text: str) -> list[str]:
        bodies: list[str] = []
        at = 0
        for index, mark in enumerate(self._marks):
            start = text.find(mark, at)
            if start != at:
                raise DocumentError("write", f"an edit crosses the border of cell {self.cells[index].number}")
            at = start + len(mark)
            following = self._marks[index + 1] if index + 1 < len(self._marks) else None
            end = len(text) if following is None else text.find(following, at)
            if end < 0:
                raise DocumentError("write", f"an edit crosses the border of cell {self.cells[index].number}")
            bodies.append(text[at:end])
            at = end
        return bodies


def _cells(text: str, kinds: tuple[str, ...] = ("code",)) -> list[Cell]:
    """The cells of some kinds of a notebook's JSON text. Raises ValueError where it is not a notebook."""
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no list of cells (nbformat 4)")
    if _language(notebook.get("metadata")) not in ("python", "python3", "ipython"):
        return []
    spans = _source_spans(text)
    found: list[Cell] = []
    for number, cell in enumerate(notebook["cells"], 1):
        if number - 1 not in spans or cell.get("cell_type") not in kinds:
            continue
        start, end, elements = spans[number - 1]
        source = cell["source"]
        is_list = isinstance(source, list)
        if is_list and not all(isinstance(part, str) for part in source):
            raise ValueError(f"the source of cell {number} is not text")
        joined = "".join(source) if is_list else str(source)
        if is_list and any("\n" in part[:-1] for part in source):
            is_list = False  # several lines in one string: taken as one literal
        found.append(Cell(number, start, end, elements, is_list, joined))
    return found


def _language(metadata: object) -> str:
    """What the cells are written in: a kernel need not say so, but its name for it is noted when it has run."""
    for part, key in (("kernelspec", "language"), ("language_info", "name")):
        found = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(found, dict) and found.get(key):
            return str(found[key]).lower()
    return "python"


def _source_spans(text: str) -> dict[int, tuple[int, int, tuple[Element, ...]]]:
    """Index of a cell -> where the value of its `source` stands, and the strings in it.

    The text is walked as JSON: an output may have a key `source` as well, with the same text in it.
    """
    spans: dict[int, tuple[int, int, tuple[Element, ...]]] = {}
    cells = member(text, first(text), "cells")
    line, counted = 1, 0
    for index, (at, _) in enumerate(items(text, cells[0]) if cells is not None else ()):
        found = member(text, at, "source") if text[at] == "{" else None
        if found is None or text[found[0]] not in '["':
            continue
        start, end = found
        elements: list[Element] = []
        for string in _STRING.finditer(text, start, end):
            line += text.count("\n", counted, string.start())
            counted = string.start()
            elements.append(Element(string.start(), string.end(), line))
        spans[index] = (start, end, tuple(elements))
    return spans


def _unmasked(cell: Cell, body: str) -> str:
    out: list[str] = []
    waiting = list(cell.masked)
    for line in body.splitlines(keepends=True):
        if waiting and line.rstrip("\r\n") == waiting[0][0].rstrip("\r\n"):
            original = waiting.pop(0)[1]
            out.append(original if original.endswith("\n") or not line.endswith("\n") else original + "\n")
        else:
            out.append(line)
    if waiting:
        raise DocumentError("write", f"an edit touches a magic or shell line of cell {cell.number}")
    return "".join(out)


def _problem(body: str) -> str:
    try:
        ast.parse(body)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "too deeply nested"
    return ""


def _literal(text: str, cell: Cell, source: str) -> str:
    """The JSON literal of a new source, in the form of the old one; lines that stay keep their bytes."""
    escape = text.isascii() and "\\u" in text
    if not cell.is_list and text[cell.start] == '"':
        return json.dumps(source, ensure_ascii=escape)
    literals = [text[element.start : element.end] for element in cell.elements] if cell.is_list else []
    old = [json.loads(literal) for literal in literals]
    if not cell.is_list:
        lines = [source]
    elif old == cell.source.splitlines(keepends=True):  # as Jupyter: form feeds and the like end lines, too
        lines = source.splitlines(keepends=True)
    else:
        lines = _LINE.findall(source)
    new = [json.dumps(line, ensure_ascii=escape) for line in lines]
    for block in difflib.SequenceMatcher(None, old, lines, autojunk=False).get_matching_blocks():
        new[block.b : block.b + block.size] = literals[block.a : block.a + block.size]
    if not cell.elements:
        return "[" + ", ".join(new) + "]"
    first, last = cell.elements[0], cell.elements[-1]
    head, tail = text[cell.start : first.start], text[last.end : cell.end]
    if len(cell.elements) > 1:
        separator = text[first.end : cell.elements[1].start]
    else:
        separator = "," + (head[1:] or " ")
    return head + separator.join(new) + tail if new else "[]"
