"""The code blocks of the documentation, and the marks that stand before them.

A mark is a comment on a line of its own, right before the block:

- `<!-- not run: REASON -->`: the block is shown only;
- `<!-- exit: N -->`: the exit code of a shell block, if it is not 0;
- `<!-- setup: NAME -->`: what the page's folder holds before the block is run; a folder of the repository,
  or a name of `tests/test_docs.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)(?P<rest>[^`]*)$")
_MARK = re.compile(r"^ *<!-- (not run|exit|setup): (.+?) -->$")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    title: str
    text: str
    marks: tuple[tuple[str, str], ...]

    def mark(self, name: str) -> str:
        return dict(self.marks).get(name, "")

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Everything that people read as documentation."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "benchmarks" / "real_bugs" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    page = path.relative_to(ROOT).as_posix()
    found: list[Block] = []
    marks: list[tuple[str, str]] = []
    lines = path.read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        mark, fence = _MARK.match(line), _FENCE.match(line)
        if mark:
            marks.append((mark[1], mark[2]))
        elif fence:
            start, end = number + 1, number + 1
            while end < len(lines) and lines[end].strip() != fence["fence"]:
                end += 1
            indent = len(fence["indent"])
            text = "\n".join(line[indent:] for line in lines[start:end])
            title = _TITLE.search(fence["rest"])
            found.append(Block(page, start, fence["language"], title[1] if title else "", text, tuple(marks)))
            marks = []
            number = end
        elif line.strip():
            marks = []
        number += 1
    return found
