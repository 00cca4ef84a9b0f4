"""Recipes that a notebook writes (`%%file hparams.yaml`) or shows: what is found in them, to be repaired by hand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from devfix.codemod import Codemod
from devfix.documents.notebook import Cell, Notebook
from devfix.documents.yaml import YamlError
from devfix.place import place_finding
from devfix.recipes.files import Files
from devfix.recipes.recipe import Recipe, may_be_recipe
from devfix.recipes.work import Lines, unsuppressed
from devfix.report import PlacedFinding

_FILE = re.compile(r"\s*%%(?:file|writefile)[ \t]+(?:-a[ \t]+)?(\S+)[^\n]*\n")
_FENCE = re.compile(r"^```ya?ml[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, eq=False)
class _Text:
    """A recipe in a cell: its name, and on which line of the cell (from 0) it starts."""

    cell: Cell
    name: str
    text: str
    first: int


def findings_in(notebook: Notebook, codemods: Sequence[Codemod]) -> tuple[PlacedFinding, ...]:
    """What the codemods say of the recipes in a notebook; none of it has a fix."""
    wanted = [codemod for codemod in codemods if codemod.recipes and codemod.wants(notebook.json_text)]
    if not wanted or not may_be_recipe(notebook.json_text):
        return ()
    cells = notebook.everything
    written = {
        os.path.basename(match[1]): cell.source[match.end() :]
        for cell in cells
        if (match := _FILE.match(cell.source))
    }
    own = f"{os.path.splitext(os.path.basename(notebook.path))[0]}.py"  # the code of all cells, as a script
    if notebook.text:
        written.setdefault(own, notebook.text)
    found: list[PlacedFinding] = []
    for text in (text for cell in cells for text in _texts(cell)):
        path = os.path.join(os.path.dirname(notebook.path), text.name)
        try:
            recipe = Recipe(path, text.text, Files(path, written))
        except YamlError:
            continue
        source = Lines(text.text)
        for codemod in wanted:
            said = dict.fromkeys(codemod.check_recipe(recipe))
            for finding in unsuppressed(source, said):
                here = tuple(other for other in finding.related if not other.path)
                message = _lines_as_cells(finding.message, own, notebook)
                finding = replace(finding, message=message, fix=None, related=here)
                found.append(_in_cell(place_finding(source, finding, ()), text))
    return tuple(found)


def _lines_as_cells(message: str, script: str, notebook: Notebook) -> str:
    """`notebook.py, line 38` as the cell and the line in it."""

    def cell(match: re.Match[str]) -> str:
        _, number, line = notebook.where(int(match[1]))
        return f"cell {number}, line {line}"

    return re.sub(rf"{re.escape(script)}, line (\d+)", cell, message) if notebook.text else message


def _texts(cell: Cell) -> Iterator[_Text]:
    match = _FILE.match(cell.source)
    if match is not None and match[1].endswith((".yaml", ".yml")):
        first = cell.source.count("\n", 0, match.end())
        yield _Text(cell, os.path.basename(match[1]), cell.source[match.end() :], first)
    for fence in _FENCE.finditer(cell.source):
        if may_be_recipe(fence[1]):
            yield _Text(
                cell, f"cell {cell.number}.yaml", fence[1], cell.source.count("\n", 0, fence.start(1))
            )


def _in_cell(placed: PlacedFinding, text: _Text) -> PlacedFinding:
    def line(inside: int) -> int:
        elements = text.cell.elements
        if not text.cell.is_list or not elements:
            return elements[0].line if elements else 1
        return elements[min(inside + text.first, len(elements)) - 1].line

    place = placed.place
    message = placed.message.partition("; the fix assumes")[0]
    return replace(
        placed,
        message=f"{message} (to be changed by hand: the recipe is inside a notebook)",
        place=replace(
            place,
            line=line(place.line),
            end_line=line(place.end_line),
            cell=text.cell.number,
            cell_line=place.line + text.first,
        ),
        related=tuple(
            replace(other, line=line(other.line), cell=text.cell.number, cell_line=other.line + text.first)
            for other in placed.related
        ),
    )
