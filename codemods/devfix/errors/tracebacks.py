"""Reading tracebacks: Python's own, pytest's, IPython's and rich's, as they are pasted from logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """One line of a traceback. `path` is as printed, and empty for a cell of a notebook."""

    path: str
    line: int
    function: str = ""
    code: str = ""
    cell: int = 0


@dataclass(frozen=True)
class Traceback:
    """The frames, outermost first, and the error's own text."""

    frames: tuple[Frame, ...]
    message: str


_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What launchers and loggers put before each line: "[rank0]: ", "(worker pid=12) ", "| ", "ERROR: ".
_PREFIX = re.compile(r"^(?:\[(?:rank|default)\d*\]:?\s?|\((?:\w+ )*pid=\d+(?:, ip=[\d.]+)?\)\s?|\d+: )")
_PYTHON = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?\s*$')
_IPYTHON = re.compile(
    r"^\s*File (?P<path>[^\s\"][^\"]*?\.pyx?):(?P<line>\d+)(?:, in (?P<function>[\w.<>]+))?"
)
_CELL = re.compile(
    r"^\s*Cell In\s?\[(?P<cell>\d+)\], line (?P<line>\d+)|^<ipython-input-(?P<old>\d+)-\w+> in "
)
_OLD_IPYTHON = re.compile(r"^(?P<path>\S+\.pyx?) in (?P<function>[\w<>]+)\(")
_ARROW = re.compile(r"^-+>\s?(?P<line>\d+)\s?(?P<code>.*)$")
_PYTEST = re.compile(
    r"^(?P<path>\S+\.py):(?P<line>\d+):(?: in (?P<function>\w+)| \w*Error| \w*Exception)?\s*$"
)
# A row of rich's box; a path that is too long for it goes on in the next rows.
_ROW = re.compile(r"^\s*[│|] (?P<text>\S.*)[│|]\s*$")
_RICH = re.compile(r"^(?P<path>\S.*?\.py):(?P<line>\d+) in (?P<function>[\w<>.]+)$")
_ERROR = re.compile(r"^(?:E\s+)?(?:[\w.]+\.)?\w*(?:Error|Exception|Warning|Refused|Exit)(?::\s|:?$)")


def read(text: str) -> Traceback:
    """What a pasted text says: its last error, and the frames that led there."""
    lines = [_PREFIX.sub("", _COLOUR.sub("", line).rstrip("\r\n")) for line in text.splitlines()]
    frames: list[Frame] = []
    for frame in _frames(lines):
        if not frames or frame != frames[-1]:
            frames.append(frame)
    message = _message(lines)
    if any("╭" in line for line in lines):  # rich has broken the lines, as it breaks those of its box
        message = " ".join(message.split())
    return Traceback(tuple(frames), message)


def _frames(lines: list[str]) -> Iterator[Frame]:
    row = -1  # the last one of a box that has been read
    for at, line in enumerate(lines):
        found = _PYTHON.match(line)
        if found:
            code = lines[at + 1].strip() if at + 1 < len(lines) else ""
            if _PYTHON.match(code) or _ERROR.match(code):
                code = ""
            yield _frame(found, code)
            continue
        if at > row:
            found, rows = _rich(lines[at : at + 4])
            if found:
                row = at + rows
                yield _frame(found, _rich_code(lines[row + 1 :]))
                continue
        found = _PYTEST.match(line)
        if found:
            yield _frame(found, _before(lines[:at]))
            continue
        found = _CELL.match(line)
        if found:
            number, code = _arrow(lines[at + 1 :])
            inside = int(found["line"] or 0) or number
            yield Frame("", inside, "", code, int(found["cell"] or found["old"]))
            continue
        found = _IPYTHON.match(line)
        if found:
            yield _frame(found, _arrow(lines[at + 1 :])[1])
            continue
        found = _OLD_IPYTHON.match(line)
        if found:
            number, code = _arrow(lines[at + 1 :])
            if number:
                yield Frame(found["path"], number, found["function"], code)


def _frame(found: re.Match[str], code: str) -> Frame:
    groups = found.groupdict()
    return Frame(groups["path"], int(groups["line"]), groups.get("function") or "", code)


def _arrow(lines: list[str]) -> tuple[int, str]:
    """The line that IPython points at: `---> 12 loss = ...`."""
    for line in lines[:40]:
        found = _ARROW.match(line)
        if found:
            return int(found["line"]), found["code"].strip()
    return 0, ""


_NO_FILE = re.compile(r"^in \S+:\d+$")


def _rich(lines: list[str]) -> tuple[re.Match[str] | None, int]:
    """The place that the rows of a box name, over several if it has been broken, and in which row it ends."""
    texts = [""]
    for number, line in enumerate(lines):
        row = _ROW.match(line)
        if row is None:
            break
        part = row["text"].rstrip()
        if part.startswith(("❱", "│", "╭", "╰")) or _NO_FILE.match(part):
            break
        texts = [
            before + glue + row["text"].rstrip()
            for before in texts
            for glue in (("", " ") if before else ("",))
        ]
        for text in texts:
            found = _RICH.match(text)
            if found:
                return found, number
    return None, 0


def _rich_code(lines: list[str]) -> str:
    for line in lines[:16]:
        found = re.match(r"^\s*[│|]\s*❱\s*\d+\s*(?P<code>.*)$", line)
        if found:
            return found["code"].rstrip().strip(" │|")
    return ""


def _before(lines: list[str]) -> str:
    """The line of code that pytest marks with `>` above the place."""
    for line in reversed(lines[-60:]):
        if line.startswith(">"):
            return line[1:].strip()
    return ""


def _message(lines: list[str]) -> str:
    """The last error with the lines that belong to it; all of the text where there is none."""
    last = -1
    for at, line in enumerate(lines):
        if _ERROR.match(line.strip("│| ")) and not line.startswith((" ", "\t")):
            last = at
    if last < 0:
        return "\n".join(line.strip() for line in lines if line.strip())
    found = [lines[last].removeprefix("E").strip("│| \t")]
    for line in lines[last + 1 :]:
        if not line.strip() or _PYTHON.match(line) or line.startswith("Traceback"):
            break
        found.append(line.removeprefix("E ").strip())
        if len(found) > 20:
            break
    return "\n".join(found)
