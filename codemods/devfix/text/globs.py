"""Patterns in the syntax of .gitignore, decided as git decides them: entry by entry.

A pattern says something about the file or folder that it matches, and nothing about what is below:
that an ignored folder is not entered is up to the walk. (Libraries that also match what is below
differ from git where a later pattern with `!` re-includes a folder.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": r"!-~",
    "print": r" -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


_TOGETHER = 50  # patterns in one expression
_NAMED = re.compile(r"\[:([^\]]*):\]")


@dataclass(frozen=True)
class Globs:
    """Patterns, relative to the folder `base`; of those that match the last one decides."""

    base: str
    patterns: tuple[str, ...] = ()

    def decide(self, path: str, is_folder: bool) -> bool | None:
        """True: matched; False: matched by a pattern with `!`; None: not matched. `path` is absolute."""
        if not path.startswith(self._prefix):
            return None
        inside = _bytes(path[len(self._prefix) :]).replace(os.sep, "/") + ("/" if is_folder else "")
        for any_of, patterns in reversed(self._parts):
            if any_of.match(inside):
                return next(positive for positive, one in reversed(patterns) if _compiled(one).match(inside))
        return None

    def below(self, path: str) -> bool:
        """True if the file, or else one of the folders it is in, is matched."""
        decided = self.decide(path, False)
        while decided is None and len(path) > len(self._prefix) and path.startswith(self._prefix):
            path = os.path.dirname(path)
            decided = self.decide(path, True)
        return bool(decided)

    @cached_property
    def _prefix(self) -> str:
        return os.path.realpath(self.base).rstrip(os.sep) + os.sep

    @cached_property
    def _parts(self) -> list[tuple[re.Pattern[str], list[tuple[bool, str]]]]:
        """The patterns, some at a time, each time with an expression for any of them.

        Most paths match nothing, which one expression says faster than one after the other; one for thousands
        has thousands of groups, and takes quadratic time.
        """
        found = [(positive, source) for positive, source in map(translate, self.patterns) if source]
        parts = [found[at : at + _TOGETHER] for at in range(0, len(found), _TOGETHER)]
        return [(_compiled("|".join(f"(?:{source})" for _, source in part)), part) for part in parts]


@lru_cache(10_000)
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.DOTALL)


def of_file(text: str, base: str) -> Globs | None:
    """The patterns in the text of a .gitignore; None if there are none."""
    lines = tuple(line.rstrip("\r") for line in text.split("\n"))
    patterns = tuple(line for line in lines if line.strip() and not line.startswith("#"))
    return Globs(base, patterns) if patterns else None


def any_ignored(ignores: Sequence[Globs], path: str, is_folder: bool) -> bool:
    """As git decides: the innermost .gitignore that says anything wins."""
    for globs in reversed(ignores):
        decided = globs.decide(path, is_folder)
        if decided is not None:
            return decided
    return False


def translate(pattern: str) -> tuple[bool, str]:
    """A pattern -> whether it ignores (no `!`), and a regular expression, empty if it matches nothing.

    The expression is for relative paths with `/`, a `/` at the end of a folder, and a character for each byte.
    """
    pattern = _bytes(pattern)
    while pattern.endswith(" ") and not pattern.endswith("\\ "):
        pattern = pattern[:-1]
    positive = not pattern.startswith("!")
    if not positive:
        pattern = pattern[1:]
    only_folders = pattern.endswith("/")
    pattern = pattern[:-1] if only_folders else pattern
    anchored = "/" in pattern
    parts = _names(pattern[1:] if pattern.startswith("/") else pattern)
    if parts == [""]:
        return positive, ""
    sources: list[str] = []
    for part in parts:
        source = "**" if part == "**" and anchored else _part(part)
        if source is None:
            return positive, ""
        if source != "**" or sources[-1:] != ["**"]:
            sources.append(source)
    head = "" if anchored else "(?:.*/)?"
    return positive, head + _path(sources) + ("/" if only_folders else "/?") + r"\Z"


def _path(sources: list[str]) -> str:
    """Names with a `/` between them, where `**` stands for any number of them."""
    runs: list[list[str]] = [[]]
    for source in sources:
        if source == "**":
            runs.append([])
        else:
            runs[-1].append(source)
    first, *rest = ["/".join(run) for run in runs]
    if not rest:
        return first
    out = [first + "/" if first else ""]
    for run in rest[:-1]:
        out.append(_nearest(f"(?:[^/]+/)*?{run}/"))
    out.append(f"(?:[^/]+/)*{rest[-1]}" if rest[-1] else "[^/].*?")
    return "".join(out)


_number = count()


def _nearest(source: str) -> str:
    """What matches the first time that `source` does, and nothing else.

    Behind it stands something that takes whatever is left, so the first time is as good as any; without this,
    patterns such as `*a*a*a*b` take time without end. (An atomic group, which Python has from 3.11.)
    """
    name = f"_{next(_number)}"
    return f"(?=(?P<{name}>{source}))(?P={name})"


def _part(part: str) -> str | None:
    """One name of a pattern as a regular expression; None if it can match nothing."""
    pieces = [""]  # between the stars
    at = 0
    while at < len(part):
        character = part[at]
        at += 1
        if character == "*":
            pieces.append("")
            while part[at : at + 1] == "*":
                at += 1
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            end, source = _class(part, at)
            if not source:
                return None
            pieces[-1] += source
            at = end
        elif character == "\\":
            if at == len(part):
                return None
            pieces[-1] += re.escape(part[at])
            at += 1
        else:
            pieces[-1] += re.escape(character)
    first, *rest = pieces
    middle = "".join(_nearest(f"[^/]*?{piece}") for piece in rest[:-1])
    last = f"[^/]*{rest[-1]}" if rest else ""
    return "(?=[^/])" + first + middle + last if part else None  # `*` stands for a name, so not for nothing


def _class(part: str, at: int) -> tuple[int, str]:
    """`[...]` from behind its bracket: where it ends, and the expression (empty if it can match nothing)."""
    negated = part[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    before, first = "", True  # what a range may begin with
    while at < len(part) and (part[at] != "]" or first):
        first = False
        named = _NAMED.match(part, at)
        if named:
            if named[1] not in _CLASSES:
                return len(part), ""
            items.append(_CLASSES[named[1]])
            at, before = named.end(), ""
        elif part[at] == "-" and before and part[at + 1 : at + 2] not in ("", "]"):
            at += 1 + (part[at + 1] == "\\")
            if before <= part[at : at + 1]:
                items.append(f"{re.escape(before)}-{re.escape(part[at])}")
            at, before = at + 1, ""
        else:
            at += part[at] == "\\"
            before = part[at : at + 1]
            items.append(re.escape(before))
            at += 1
    if at >= len(part) or not (items or negated):
        return at + 1, ""
    return at + 1, f"(?!/)[{'^' if negated else ''}{''.join(items)}]" if items else "[^/]"


def _names(pattern: str) -> list[str]:
    """A pattern at its `/`; those in `[...]`, and behind a backslash, are of a name."""
    names, at = [""], 0
    while at < len(pattern):
        end = at + 1 + (pattern[at] == "\\")
        if pattern[at] == "[":
            end = _class(pattern, end)[0]
        if pattern[at] == "/":
            names.append("")
        else:
            names[-1] += pattern[at:end]
        at = end
    return names


def _bytes(text: str) -> str:
    """A text with a character for each byte: to git `?` is a byte, and so is what `[...]` chooses from."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")
