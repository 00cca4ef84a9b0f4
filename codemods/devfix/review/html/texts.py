"""The files that a review page shows: their text, where a place is in it, and lines that are safe to show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from devfix.documents import DocumentError, digest_of, document_of
from devfix.findings import Span
from devfix.pipeline.selection import in_tree
from devfix.reports.report import Place, PlacedFinding
from devfix.review.text import printable
from devfix.text.lines import line_starts

if TYPE_CHECKING:
    from devfix.documents.notebook import Notebook

Read = Callable[[str], bytes]
_LONGEST = 1000  # characters of a line that are shown


@dataclass(frozen=True)
class Text:
    """One file's text, by lines that count from 0; of a notebook, the Python of its cells.

    `made` is a file that a fix makes, `problem` says why a file cannot be shown; both have no lines.
    """

    path: str
    text: str = ""
    digest: str = ""
    notebook: Notebook | None = None
    made: bool = False
    problem: str = ""

    @classmethod
    def of(cls, path: str, data: bytes) -> Text:
        """The text of a file's bytes; what cannot be decoded is a `problem`."""
        try:
            document = document_of(path, data)
        except DocumentError as error:
            return cls(path, digest=digest_of(data), problem=str(error))
        if not path.endswith(".ipynb"):
            return cls(path, document.text, document.digest)
        from devfix.documents.notebook import Notebook

        assert isinstance(document, Notebook)
        return cls(path, document.text, document.digest, document)

    @property
    def key(self) -> str:
        """The path as decisions name it."""
        return in_tree(self.path)

    @property
    def name(self) -> str:
        """The path as it is shown."""
        return printable(self.key)

    @cached_property
    def starts(self) -> list[int]:
        return line_starts(self.text)

    @cached_property
    def count(self) -> int:
        """How many lines there are; what follows the last newline is one if there is anything."""
        return len(self.starts) - (self.starts[-1] == len(self.text))

    @cached_property
    def masked(self) -> dict[str, str]:
        """Magics of a notebook by the comments that stand for them in its text."""
        if self.notebook is None:
            return {}
        pairs = (pair for cell in self.notebook.cells for pair in cell.masked)
        return {hidden.rstrip("\n"): real.rstrip("\n") for hidden, real in pairs}

    def raw(self, line: int) -> str:
        """A line without its end."""
        end = self.starts[line + 1] if line + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[line] : end].rstrip("\r\n")

    def line(self, line: int) -> str:
        """A line as it is shown."""
        raw = self.raw(line)
        return shown(self.masked.get(raw, raw))

    def line_of(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def index(self, place: Place) -> int | None:
        """The line that a place begins on."""
        return self.at(place.line, place.cell, place.cell_line)

    def at(self, line: int, cell: int = 0, cell_line: int = 0) -> int | None:
        """A line, counted from 1, of the file or of a notebook's cell; None if there is no such line."""
        if self.notebook is not None:
            found = next((one.first for one in self.notebook.cells if one.number == cell), None)
            line = found + cell_line - 1 if found is not None else 0
        return line - 1 if 0 < line <= max(self.count, 1) else None

    def span(self, place: Place) -> Span | None:
        """The characters that a place means; None if the text has no such place, or it is not certain."""
        first = self.index(place)
        last = place.end_line - place.line + first if first is not None else None
        if self.notebook is not None and first is not None and place.end_line != place.line:
            # The end is known by its line in the JSON text only, where several lines may be one.
            here = self.notebook.where(first + 1)[1]
            wanted = (place.end_line, here)
            fitting = [i for i in range(first, self.count) if self.notebook.where(i + 1)[:2] == wanted]
            last = fitting[0] if len(fitting) == 1 else None
        if first is None or last is None or last >= len(self.starts):
            return None
        start = self.starts[first] + place.column - 1
        end = self.starts[last] + place.end_column - 1
        return Span(start, end) if start <= end <= len(self.text) else None

    def cell_of(self, line: int) -> tuple[int, int, int]:
        """Number, first line and line behind the last of the part that a line is in.

        A part is a notebook's cell; in other files number 0, everything.
        """
        if self.notebook is None:
            return 0, 0, self.count
        cells = self.notebook.cells
        at = max(0, bisect_right([cell.first for cell in cells], line + 1) - 1)
        end = cells[at + 1].first - 2 if at + 1 < len(cells) else self.count
        return cells[at].number, cells[at].first - 1, end

    def same(self, text: str | None, other: Text) -> bool:
        """Whether a new text of this file is that of another one; of notebooks, cell by cell."""
        if text is None or self.notebook is None or other.notebook is None:
            return text == other.text
        try:
            return self.notebook.encode(text) == other.notebook.data
        except DocumentError:
            return False

    def fits(self, finding: PlacedFinding) -> bool:
        """Whether the line of a finding is still the one that it was found on."""
        if self.notebook is not None:
            return True
        line = self.index(finding.place)
        return line is not None and self.raw(line).startswith(finding.code)


def shown(line: str) -> str:
    """A line without characters that could steer, hide or reorder what is shown; tabs stay."""
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]} … {len(line) - _LONGEST} more characters"
    return "\t".join(map(printable, line.split("\t")))
