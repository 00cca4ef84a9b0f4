"""Syntax colours as runs: which kind of token how many characters of a line are."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from pygments.lexers import PythonLexer, YamlLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from devfix.documents import RECIPES

_STRINGS = re.compile(
    r'#[^\n]*|"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    r"|'''(?:[^\\]|\\.)*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
# The most special first; the page has a colour for each letter.
_LETTERS = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Name.Decorator, "d"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Tag, "f"),
    (Name.Builtin, "b"),
    (Name.Exception, "b"),
    (Keyword, "k"),
    (Operator.Word, "k"),
)


class Colours:
    """The colours of one file's lines."""

    def __init__(self, path: str, text: str) -> None:
        self.yaml = path.endswith(RECIPES)
        self.long = [] if self.yaml else _long_strings(text)

    def runs(self, lines: list[str], begun: str = "") -> list[str]:
        """For each line such as `p4k6`: four plain characters and a keyword of six.

        `begun` is the text in front of the first line that has to be read to know what it is.
        """
        text = begun + "\n".join(lines)
        found = _runs(text, True) if self.yaml else [run for part in _parts(text) for run in _cached(part)]
        return list(found[begun.count("\n") :][: len(lines)])

    def begun(self, text: str, offset: int) -> str:
        """What of a text comes before `offset` in the same string, which has several lines."""
        at = bisect_right(self.long, (offset, -1)) - 1
        if at < 0 or not self.long[at][0] < offset < self.long[at][1]:
            return ""
        return text[self.long[at][0] : offset]


def _parts(text: str) -> Iterator[str]:
    """A text's lines, those together that one string goes on over."""
    start = 0
    inside = iter([*_long_strings(text), (len(text) + 1, 0)])
    first, last = next(inside)
    at = text.find("\n")
    while at >= 0:
        while at >= last and first <= len(text):
            first, last = next(inside)
        if at < first:
            yield text[start:at]
            start = at + 1
        at = text.find("\n", at + 1)
    yield text[start:]


@lru_cache(100_000)  # lines come again, in the files of one program above all
def _cached(lines: str) -> tuple[str, ...]:
    return _runs(lines, False)


def _runs(text: str, yaml: bool) -> tuple[str, ...]:
    """The runs of each line of a text."""
    lexer = _yaml() if yaml else _python()
    out: list[list[tuple[str, int]]] = [[]]
    for _, kind, value in lexer.get_tokens_unprocessed(text + "\n"):
        letter = _letter(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                out.append([])
            line = out[-1]
            if part and line and line[-1][0] == letter:
                line[-1] = (letter, line[-1][1] + len(part))
            elif part:
                line.append((letter, len(part)))
    return tuple("".join(f"{letter}{length}" for letter, length in line) for line in out[:-1])


@cache
def _python() -> Any:
    return PythonLexer()


@cache
def _yaml() -> Any:
    return YamlLexer()


@cache
def _letter(kind: _TokenType) -> str:
    return next((letter for parent, letter in _LETTERS if kind in parent), "p")


def _long_strings(text: str) -> list[tuple[int, int]]:
    """Start and end of every string with several lines."""
    if '"""' not in text and "'''" not in text:
        return []
    return [found.span() for found in _STRINGS.finditer(text) if "\n" in found[0]]
