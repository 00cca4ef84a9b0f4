"""Codemods that rewrite the whole text of a file; each hunk becomes a finding."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.config import ConfigError
from devfix.findings import Finding, ReplaceText, Safety, Span
from devfix.flow import Flow

_TRIED = 20  # hunks that are tried one by one; a file with more of them is verified as any other
SAFETY = "safety"


@dataclass(frozen=True)
class NewText:
    """What such a codemod returns: the new text of a file, and remarks for the user."""

    text: str
    """The whole new text."""
    remarks: tuple[str, ...] = ()
    """Messages of the other tool, which become findings without a fix."""


@dataclass(frozen=True)
class TextCodemod(Codemod):
    """A codemod that rewrites the whole text of a file.

    It gets each file once in a run, and never its own result; its hunks may drop comments. Its fixes are
    unsafe, unless `safety` says otherwise, since only its author knows what they preserve.
    """

    words: ClassVar[tuple[tuple[str, ...], ...]] = ()
    examples: ClassVar[tuple[Example, ...]] = ()
    default: ClassVar[bool] = False
    once: ClassVar[bool] = True

    safety: Safety = Safety.UNSAFE

    @abstractmethod
    def new_text(self, path: str, text: str) -> NewText:
        """The new text of the file `path` with this text; the same text if there is nothing to change."""

    def what(self) -> str:
        """What it does, in a few words: the message of its findings."""
        lines = (type(self).__doc__ or "").strip().splitlines()
        return lines[0].rstrip(".") if lines else self.id

    def check(self, flow: Flow) -> Iterator[Finding]:
        text = flow.source.text
        made = self.new_text(flow.path, text)
        for remark in made.remarks:
            yield self.finding(Span(0, 0), " ".join(remark.split()))
        found = hunks(text, made.text)
        if not all(_parses(text, hunk) for hunk in found[:_TRIED] if len(found) > 1):
            found = [tuple(edit for hunk in found for edit in hunk)]
        for hunk in found:
            start, end = _changed(text, hunk[0])
            yield self.finding(
                Span(start, end), self.what(), title=_title(text, hunk), edits=hunk, safety=self.safety
            )


def split_options(options: Mapping[str, object]) -> tuple[Safety, dict[str, str]]:
    """The safety of a codemod's fixes, and its arguments as text; raises ConfigError."""
    given = {name: _text(value) for name, value in options.items()}
    safety = given.pop(SAFETY, Safety.UNSAFE.label)
    if safety not in ("safe", "unsafe", "manual"):
        raise ConfigError(f"option {SAFETY} must be one of safe, unsafe, manual, not {safety!r}")
    return Safety[safety.upper()], given


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item) for item in value)
    return str(value)


def hunks(before: str, after: str) -> list[tuple[ReplaceText, ...]]:
    """The edits that make `after` of `before`; what is a few blank lines apart goes together."""
    if before == after:
        return []
    old, new = lines_of(before), lines_of(after)
    offsets = [0]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    blocks: list[list[int]] = []  # first and last line of either text, as in SequenceMatcher
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if blocks and not "".join(old[blocks[-1][1] : i1]).strip():
            blocks[-1][1], blocks[-1][3] = i2, j2
        else:
            blocks.append([i1, i2, j1, j2])
    return [(ReplaceText(Span(offsets[i1], offsets[i2]), "".join(new[j1:j2])),) for i1, i2, j1, j2 in blocks]


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, which are those of git; a lone CR ends one where there is no LF."""
    end = "\n" if "\n" in text else "\r"
    found = [f"{line}{end}" for line in text.split(end)]
    found[-1] = found[-1][:-1]
    return found if found[-1] else found[:-1]


def _parses(text: str, hunk: Sequence[ReplaceText]) -> bool:
    """Does a hunk alone leave a program? Else it needs the others."""
    made = text
    for edit in reversed(hunk):
        made = made[: edit.span.start] + edit.text + made[edit.span.end :]
    try:
        ast.parse(made)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _changed(text: str, edit: ReplaceText) -> tuple[int, int]:
    """What the hunk replaces, without blanks around it; of an insertion, the line it comes before."""
    old = text[edit.span.start : edit.span.end]
    if old.strip():
        start = edit.span.start + len(old) - len(old.lstrip())
        return start, edit.span.start + len(old.rstrip())
    start = min(edit.span.start, len(text))
    return start, start


def _title(text: str, hunk: Sequence[ReplaceText]) -> str:
    if len(hunk) > 1:
        return f"make its {len(hunk)} changes, which need each other"
    (edit,) = hunk
    old = len(lines_of(text[edit.span.start : edit.span.end]))
    new = len(lines_of(edit.text))
    if not old or not new:
        count, verb = old or new, "remove" if old else "insert"
        return f"{verb} {count} line{'' if count == 1 else 's'}"
    if old == new == 1:
        line = " ".join(edit.text.split())
        return f"write `{line[:57]}...`" if len(line) > 60 else f"write `{line}`"
    return f"replace {old} line{'' if old == 1 else 's'} by {new}"
