"""Frames of a traceback -> files of this repository, whatever machine the traceback comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from devfix.documents import Document, readable
from devfix.documents.notebook import Notebook
from devfix.errors.tracebacks import Frame
from devfix.text.lines import lines_of

_LIBRARIES = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "<frozen ",
    "<string>",
    "/devfix/simulate/",
)
_NEAR = 200  # lines that a frame may have moved since


@dataclass(frozen=True)
class Located:
    """A frame in a file that is here. `line` counts from 1 in the text of the document.

    `certain` is False where the file has other code than the traceback shows at that line.
    """

    frame: Frame
    document: Document
    line: int
    certain: bool


def locate(frames: Sequence[Frame], files: Iterable[str]) -> tuple[Located, ...]:
    """The frames that are in one of the files, in the order of the traceback."""
    known = list(files)
    chosen: dict[str, str | None] = {}
    found = []
    for frame in frames:
        if any(part in frame.path.replace("\\", "/") for part in _LIBRARIES):
            continue
        if not frame.path:
            place = _in_cell(frame, known)
        else:
            if frame.path not in chosen:
                chosen[frame.path] = _file(frame.path, frames, known)
            path = chosen[frame.path]
            place = _at(frame, path) if path is not None else None
        if place is not None:
            found.append(place)
    return tuple(found)


def _file(path: str, frames: Sequence[Frame], files: Sequence[str]) -> str | None:
    """The file that a traceback calls `path`: the most alike by name that has the lines it shows."""
    wanted = _parts(path)
    candidates = [
        (_common_end(wanted, _parts(os.path.abspath(file))), file)
        for file in files
        if os.path.basename(file) == wanted[-1]
    ]
    best, most = None, -1
    for alike, file in sorted(candidates, key=lambda pair: (-pair[0], pair[1]))[:20]:
        places = [_at(frame, file) for frame in frames if frame.path == path]
        score = 2 * alike + 3 * sum(1 for place in places if place is not None and place.certain)
        if any(places) and score > most:
            best, most = file, score
    return best


def _at(frame: Frame, path: str) -> Located | None:
    document = readable(path)
    if document is None:
        return None
    lines = lines_of(document.text)
    at = _line_of(frame.code, frame.line, lines)
    if at:
        return Located(frame, document, at, True)
    return Located(frame, document, frame.line, False) if frame.line <= len(lines) else None


def _in_cell(frame: Frame, files: Sequence[str]) -> Located | None:
    """Cells are numbered by the order in which they ran, so only their code says which one it is."""
    for path in files:
        if path.endswith(".ipynb") and len(frame.code) > 3 and (document := readable(path)):
            if at := _line_of(frame.code, 0, lines_of(document.text)):
                return Located(frame, document, at, True)
    return None


def _line_of(code: str, line: int, lines: Sequence[str]) -> int:
    """The line, from 1, that has the code: the one named, else the nearest one; 0 if there is none."""
    if not code:
        return line if 0 < line <= len(lines) else 0
    first = code.splitlines()[0].strip()
    places = [at for at, text in enumerate(lines, 1) if _same(text.strip(), first)]
    near = [at for at in places if not line or abs(at - line) <= _NEAR]
    return min(near, key=lambda at: abs(at - line)) if near else 0


def _same(text: str, code: str) -> bool:
    # Tracebacks of rich cut long lines.
    return text == code or (len(code) > 30 and text.startswith(code.rstrip(". …")))


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def _common_end(a: Sequence[str], b: Sequence[str]) -> int:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def shown_line(document: Document, line: int) -> int:
    """The line as findings count it: of a notebook, that of its file."""
    return document.where(line)[0] if isinstance(document, Notebook) else line
