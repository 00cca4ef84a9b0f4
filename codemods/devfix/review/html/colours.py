"""Syntax colours as runs: which kind of token how many characters of a line are."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import Any

from pygments.lexers import PythonLexer, YamlLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from devfix.documents import RECIPES

_STRINGS = re.compile(
    r'#[^\n]*|"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
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
        self.lexer: Any = _yaml() if path.endswith(RECIPES) else _python()
        self.long = [] if path.endswith(RECIPES) else _long_strings(text)

    def runs(self, lines: list[str], begun: str = "") -> list[str]:
        """For each line such as `p4k6`: four plain characters and a keyword of six.

        `begun` is the text in front of the first line that has to be read to know what it is.
        """
        lead = begun.count("\n")
        out: list[list[str]] = [[]]
        for _, kind, value in self.lexer.get_tokens_unprocessed(begun + "\n".join(lines) + "\n"):
            letter = _letter(kind)
            first, *rest = value.split("\n")
            if first:
                out[-1].append(f"{letter}{len(first)}")
            for part in rest:
                out.append([f"{letter}{len(part)}"] if part else [])
        return ["".join(line) for line in out[lead : lead + len(lines)]]

    def begun(self, text: str, offset: int) -> str:
        """What of a text comes before `offset` in the same string, which has several lines."""
        at = bisect_right(self.long, (offset, -1)) - 1
        if at < 0 or not self.long[at][0] < offset < self.long[at][1]:
            return ""
        return text[self.long[at][0] : offset]


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
