"""Recipes inside notebooks: written (`%%file hparams.yaml`), in a string, or shown in a cell of text."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from devfix.codemod import Codemod
from devfix.documents.notebook import Cell, Notebook
from devfix.documents.yaml import YamlError
from devfix.findings import Finding, ReplaceText, Span, TextEdit
from devfix.recipes.files import Files
from devfix.recipes.recipe import Recipe, may_be_recipe
from devfix.recipes.work import Lines, unsuppressed
from devfix.reports.place import place, place_finding, placed_in_notebook
from devfix.reports.report import Place, PlacedEdit, PlacedFinding, PlacedFix
from devfix.text.source import Source

_FILE = re.compile(r"\s*%%(?:file|writefile)[ \t]+(-a[ \t]+)?(\S+)(?:[^\S\n][^\n]*)?\n")
_FENCE = re.compile(r"^```ya?ml[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"[rR]?(\"{3}|'{3}|\"|')")
_SHOWN = "the recipe is shown in a cell of text"
_APPENDED = "the cell appends to a file"
_ELSEWHERE = "the change is in code that another cell writes"


@dataclass(frozen=True, eq=False)
class _Text:
    """A recipe in a cell: its name, where it starts in the cell, and why it is not to be changed."""

    cell: Cell
    name: str
    text: str
    start: int
    why_not: str = ""

    @property
    def first(self) -> int:
        """The line of the cell (from 0) that it starts on."""
        return self.cell.source.count("\n", 0, self.start)

    @property
    def column(self) -> int:
        return self.start - (self.cell.source.rfind("\n", 0, self.start) + 1)


@dataclass(frozen=True, eq=False)
class Said:
    """A finding, and the edits of its fix: in the recipe's cell, and in the notebook's own code."""

    text: _Text
    finding: Finding
    placed: PlacedFinding
    in_cell: tuple[TextEdit, ...] = ()  # offsets in the cell's source
    in_code: tuple[TextEdit, ...] = ()  # in the notebook's text


@dataclass(eq=False)
class Reader:
    """The recipes of one notebook."""

    notebook: Notebook
    cells: tuple[Cell, ...] = ()
    written: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cells = self.notebook.everything
        for cell in self.cells:
            if match := _FILE.match(cell.source):
                self.written[os.path.basename(match[2])] = cell.source[match.end() :]
        # The code of all cells is a script, too.
        self.own = f"{os.path.splitext(os.path.basename(self.notebook.path))[0]}.py"
        self.own_is_script = bool(self.notebook.text) and self.own not in self.written
        if self.own_is_script:
            self.written[self.own] = self.notebook.text

    def said(self, codemods: Sequence[Codemod]) -> tuple[Said, ...]:
        """What the codemods say, in the order of the cells."""
        text = self.notebook.json_text
        wanted = [codemod for codemod in codemods if codemod.recipes and codemod.wants(text)]
        if not wanted or not may_be_recipe(text):
            return ()
        return tuple(said for one in self._texts() for said in self._said(one, wanted))

    def _said(self, text: _Text, codemods: Sequence[Codemod]) -> Iterator[Said]:
        path = os.path.join(os.path.dirname(self.notebook.path), text.name)
        try:
            recipe = Recipe(path, text.text, Files(path, self.written))
        except YamlError:
            return
        source = Lines(text.text)
        for codemod in codemods:
            for finding in unsuppressed(source, dict.fromkeys(codemod.check_recipe(recipe))):
                yield self._one(text, source, finding)

    def _one(self, text: _Text, source: Lines, finding: Finding) -> Said:
        in_cell: tuple[TextEdit, ...] = ()
        in_code: tuple[TextEdit, ...] = ()
        why_not = ""
        if finding.fix is not None:
            plain = [edit for edit in finding.fix.edits if isinstance(edit, ReplaceText)]
            in_cell = tuple(
                TextEdit(Span(edit.span.start + text.start, edit.span.end + text.start), edit.text)
                for edit in plain
            )
            in_code = self._in_code(text, finding)
            why_not = text.why_not or ("" if in_cell or in_code else _ELSEWHERE)
        message = self._lines_as_cells(finding.message)
        fix = None
        if why_not:
            in_cell = in_code = ()
            message = f"{message.partition('. The fix assumes')[0]} (change it by hand: {why_not})"
        elif finding.fix is not None:
            title = finding.fix.title if in_code else finding.fix.title.partition(" and call it as")[0]
            edits = [PlacedEdit(self._place(text, place(source, edit.span)), edit.text) for edit in plain]
            code = Source(self.notebook.text if in_code else "")
            for edit in in_code:
                edits.append(PlacedEdit(placed_in_notebook(place(code, edit.span), self.notebook), edit.text))
            fix = PlacedFix(title, finding.fix.safety, tuple(edits))
        here = tuple(other for other in finding.related if not other.path)
        placed = place_finding(source, replace(finding, message=message, fix=None, related=here), ())
        related = tuple(
            replace(
                other,
                line=self._line(text, other.line),
                cell=text.cell.number,
                cell_line=other.line + text.first,
            )
            for other in placed.related
        )
        placed = replace(placed, place=self._place(text, placed.place), related=related, fix=fix)
        return Said(text, finding, placed, in_cell, in_code)

    def _in_code(self, text: _Text, finding: Finding) -> tuple[TextEdit, ...]:
        """The script's part, where the script is the notebook's own code and not in the recipe's cell."""
        from devfix.rewrite import CannotRewrite, text_edits

        assert finding.fix is not None
        parts = finding.fix.elsewhere
        if len(parts) != 1 or not self.own_is_script or os.path.basename(parts[0].path) != self.own:
            return ()
        source = Source(self.notebook.text)
        try:
            edits = text_edits(source, replace(finding.fix, edits=parts[0].edits, elsewhere=()))
        except CannotRewrite:
            return ()
        cells = {self.notebook.where(source.position(edit.span.start)[0])[1] for edit in edits}
        return () if text.cell.number in cells else edits

    # --- where it is -------------------------------------------------------------------------------

    def _texts(self) -> Iterator[_Text]:
        code = {cell.number: cell for cell in self.notebook.cells}
        for cell in self.cells:
            match = _FILE.match(cell.source)
            if match is not None:
                if match[2].endswith((".yaml", ".yml")):
                    name, text = os.path.basename(match[2]), cell.source[match.end() :]
                    yield _Text(cell, name, text, match.end(), _APPENDED if match[1] else "")
            elif cell.number in code:
                yield from _strings(cell)
            else:
                for fence in _FENCE.finditer(cell.source):
                    if may_be_recipe(fence[1]):
                        yield _Text(cell, f"cell {cell.number}.yaml", fence[1], fence.start(1), _SHOWN)

    def _place(self, text: _Text, place: Place) -> Place:
        """A place in the text as one in the cell and the file."""
        first, last = (text.column if line == 1 else 0 for line in (place.line, place.end_line))
        return Place(
            self._line(text, place.line),
            place.column + first,
            self._line(text, place.end_line),
            place.end_column + last,
            text.cell.number,
            place.line + text.first,
        )

    def _line(self, text: _Text, inside: int) -> int:
        elements = text.cell.elements
        if not text.cell.is_list or not elements:
            return elements[0].line if elements else 1
        return elements[min(inside + text.first, len(elements)) - 1].line

    def _lines_as_cells(self, message: str) -> str:
        """`notebook.py, line 38` as the cell and the line in it."""

        def cell(match: re.Match[str]) -> str:
            _, number, line = self.notebook.where(int(match[1]))
            return f"cell {number}, line {line}"

        return re.sub(rf"{re.escape(self.own)}, line (\d+)", cell, message) if self.own_is_script else message


def _strings(cell: Cell) -> Iterator[_Text]:
    """Strings of a cell of code that are recipes and stand there as they are: no escapes, and nothing filled in."""
    from devfix.documents.magics import masked

    if not may_be_recipe(cell.source):
        return
    as_python = masked(cell.source)
    assert as_python is not None
    source = Source(as_python[0])
    for node in source.walk():
        if (
            not isinstance(node, ast.Constant)
            or not isinstance(node.value, str)
            or not may_be_recipe(node.value)
        ):
            continue
        span, parent = source.span(node), source.parents.get(node)
        code = cell.source[span.start : span.end]
        quote = _QUOTED.match(code)
        if quote is None or not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Call, ast.keyword)):
            continue
        start, end = span.start + quote.end(), span.end - len(quote[1])
        if cell.source[start:end] == node.value:
            yield _Text(cell, f"cell {cell.number}.yaml", node.value, start)
