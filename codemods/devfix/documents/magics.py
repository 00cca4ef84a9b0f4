"""What IPython takes in a cell and Python does not, masked by comments of the same length.

Only what stands at the start of a logical line is a magic, as in IPython: in a string, in brackets and after a
backslash, `%` and `!` are what they are in Python.
"""

from __future__ import annotations

import re

# Cell magics whose cell is Python all the same.
_PYTHON_MAGICS = frozenset(
    {"time", "timeit", "capture", "prun", "debug", "python", "python3", "memit", "wandb"}
)
_ASSIGNED = re.compile(r"^([\w.,\s]+=\s*)([!%].*)$", re.DOTALL)
_HELP = re.compile(r"\s*%{0,2}[\w.*]+(?:\[[^\[\]\n]*\])?\?{1,2}\s*")
# Without a `%`, as IPython's automagic allows where no variable has the name; none of it is Python.
_AUTOMAGIC = re.compile(r"(?:pip3?|conda|mamba)[ \t]+(?:install|uninstall|list|show|update|upgrade)\b[^=(]*")
_PIECE = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?P<triple>\"{3}|'{3}) | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<open>[(\[{]) | (?P<close>[)\]}]) | (?P<on>\\\r?\n)""",
    re.VERBOSE | re.DOTALL,
)


def masked(source: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """The source with magics as comments of the same length, and what they stand for; None: no Python."""
    lines = source.splitlines(keepends=True)
    out: list[str] = []
    hidden: list[tuple[str, str]] = []
    going_on = False
    state = _State()
    for line in lines:
        stripped = line.lstrip(" \t")
        new = line
        if not out or all(not o.strip() or o.lstrip().startswith("#") for o in out):
            if stripped.startswith("%%"):
                if re.split(r"\W+", stripped[2:])[0] not in _PYTHON_MAGICS:
                    return None
        if going_on:
            new = _commented(line, alone=False)
        elif state.inside:
            pass
        elif (
            stripped.startswith(("%", "!", "?"))
            or _HELP.fullmatch(line)
            or _AUTOMAGIC.fullmatch(line.rstrip())
        ):
            new = _commented(line, alone=True)
        elif (assigned := _ASSIGNED.match(line)) and len(assigned[2].rstrip("\n")) > 1:
            new = assigned[1] + "0#" + assigned[2][2:]
        going_on = new is not line and line.rstrip("\r\n").endswith("\\")
        if new is not line:
            hidden.append((new, line))
        state.read(new)
        out.append(new)
    masks = {new for new, _ in hidden}
    if masks:  # a real comment may read like a masked line: both are noted, in order
        hidden = [(new, old) for new, old in zip(out, lines, strict=True) if new in masks]
    return "".join(out), tuple(hidden)


class _State:
    """Are we, at the start of a line, inside of a logical line of Python?"""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""  # of a string over several lines
        self.on = False  # a backslash ended the line before

    @property
    def inside(self) -> bool:
        return bool(self.depth or self.quote or self.on)

    def read(self, line: str) -> None:
        self.on = False
        at = 0
        while at < len(line):
            if self.quote:
                end = re.compile(r"(?:[^\\]|\\.)*?" + self.quote, re.DOTALL).match(line, at)
                if end is None:
                    return
                self.quote, at = "", end.end()
                continue
            piece = _PIECE.search(line, at)
            if piece is None:
                return
            at = piece.end()
            if piece.lastgroup == "triple":
                self.quote = piece[0]
            elif piece.lastgroup == "open":
                self.depth += 1
            elif piece.lastgroup == "close":
                self.depth = max(0, self.depth - 1)
            elif piece.lastgroup == "on":
                self.on = True


def _commented(line: str, alone: bool) -> str:
    """A line as a comment; `alone` in an indented block it must be a statement as well."""
    body = line.lstrip(" \t")
    indent = line[: len(line) - len(body)]
    content = body.rstrip("\r\n")
    if not body.strip():
        return line
    end = body[len(content) :]
    if not indent or not alone or len(content) < 2:
        return indent + "#" + content[1:] + end
    if len(content) < 4:
        return indent + "0#" + content[2:] + end
    return indent + ("pass" if len(content) == 4 else "pass#" + content[5:]) + end
