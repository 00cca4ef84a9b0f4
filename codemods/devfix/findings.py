"""What a codemod yields: findings, and the edits that fix them.

Everything here is frozen plain data, since it crosses process borders.
Positions are characters of `Document.text`, never bytes and never lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Union

_WORD = re.compile(r"\S+")
_LONGEST = 600  # characters of a word, which may be a path
_MOST = 4000  # characters of a message


def brief(message: str) -> str:
    """A message with the names in it cut that nobody can read: what is analysed may have any."""
    if len(message) <= _LONGEST:
        return message

    def cut(word: re.Match[str]) -> str:
        return word[0] if len(word[0]) <= _LONGEST else f"{word[0][:100]}...{word[0][-20:]}"

    message = _WORD.sub(cut, message)
    return message if len(message) <= _MOST else f"{message[:_MOST]}..."


class Safety(IntEnum):
    """How far a fix can be trusted; a property of the fix, not of its codemod."""

    MANUAL = 0
    """Shown, never applied."""
    UNSAFE = 1
    """Correct if an assumption holds, which the message states."""
    SAFE = 2
    """The same result on the CPU; on an accelerator it can only turn an error into a run."""

    @property
    def label(self) -> str:
        """Its name in lower case."""
        return self.name.lower()


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range of characters."""

    start: int
    """The offset of its first character."""
    end: int
    """The offset after its last one."""


@dataclass(frozen=True)
class MoveStatement:
    """Move a whole statement to directly after another one, indented like that one."""

    statement: Span
    """The whole statement."""
    after: Span
    """The statement that it comes after."""


@dataclass(frozen=True)
class InsertStatement:
    """Put a new statement on lines of its own next to `anchor`, indented like it.

    `text` has no indentation and no final newline; it may have several lines.
    With `before=False` it comes after the whole statement (after its body, where it has one).
    """

    anchor: Span
    text: str
    before: bool = False
    """Whether it comes before the anchor."""


@dataclass(frozen=True)
class WrapStatement:
    """Put a statement under a header, such as `with torch.no_grad():`, one indentation deeper."""

    statement: Span
    """The whole statement; it has its lines to itself."""
    header: str
    """One line that ends with a colon."""


@dataclass(frozen=True)
class InsertGuard:
    """Put `if condition:` with a body before a statement, indented like it."""

    anchor: Span
    """The statement that it comes before."""
    condition: str
    """An expression, such as `x.device != y.device`."""
    body: str
    """One or more statements, such as `raise ValueError(x.device)`, without indentation."""


@dataclass(frozen=True)
class DeleteStatement:
    """Remove a statement; comments above it stay, an emptied block gets `pass`."""

    statement: Span
    """The whole statement."""


@dataclass(frozen=True)
class AppendCall:
    """`x` -> `x.to(device)`: append `suffix` to an expression, with parentheses if needed."""

    expression: Span
    """The expression."""
    suffix: str


@dataclass(frozen=True)
class WrapExpression:
    """`x` -> `torch.device(x).type`: put text before and after an expression."""

    expression: Span
    """The expression."""
    before: str
    """What comes before it."""
    after: str
    """What comes after it."""


@dataclass(frozen=True)
class AssignResult:
    """`x.to(device)` as a statement -> `x = x.to(device)`: keep the result of an expression statement."""

    expression: Span
    """The expression, which is a statement of its own."""
    target: str
    """What it is assigned to."""


@dataclass(frozen=True)
class ReplaceExpression:
    """Replace an expression, statement header excluded, by other text."""

    expression: Span
    """The expression."""
    text: str
    """The new one."""


@dataclass(frozen=True)
class SetArgument:
    """Set the keyword argument `name=value` of a call: replace it if it is there, or add it last."""

    call: Span
    """The call."""
    name: str
    """The keyword."""
    value: str
    """The expression."""


@dataclass(frozen=True)
class ReplaceText:
    """Replace characters, where no other edit fits; newlines in `text` become those of the file."""

    span: Span
    """What is replaced."""
    text: str
    """The new text."""


@dataclass(frozen=True)
class EnsureImport:
    """Add `import module` or, with `name`, `from module import name`, unless it is already there."""

    module: str
    """The module, such as `torch.nn`."""
    name: str = ""


Edit = Union[
    MoveStatement,
    InsertStatement,
    WrapStatement,
    InsertGuard,
    DeleteStatement,
    AppendCall,
    WrapExpression,
    AssignResult,
    ReplaceExpression,
    SetArgument,
    ReplaceText,
    EnsureImport,
]


@dataclass(frozen=True, order=True)
class TextEdit:
    """What an edit comes down to: replace a range of characters by text."""

    span: Span
    text: str


@dataclass(frozen=True)
class Elsewhere:
    """The part of a fix that is in another file, or in a new one.

    `path` is as the file was discovered, or beside one that was. `digest` is the SHA-256 of the bytes that
    the spans of `edits` refer to. With `digest=""` the file does not exist yet and its text is `new`.
    """

    path: str
    edits: tuple[Edit, ...] = ()
    digest: str = ""
    new: str = ""


@dataclass(frozen=True)
class Fix:
    """Edits that belong together: applied completely or not at all. `title` is a verb phrase."""

    title: str
    edits: tuple[Edit, ...]
    """In the file of the finding."""
    safety: Safety = Safety.SAFE
    """How far it may be trusted."""
    elsewhere: tuple[Elsewhere, ...] = ()
    """In other files."""


@dataclass(frozen=True)
class Related:
    """Another place that belongs to a finding, such as where the other device comes from.

    `path` is empty for the finding's own file. In another file, whose text is not at hand when findings
    are placed, `line` and `column` (from 1) say where, as far as that is known.
    """

    span: Span
    """The place, in the file of the finding."""
    message: str
    """What is there."""
    path: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Finding:
    """One device bug at one place."""

    codemod: str
    """The id of the codemod."""
    span: Span
    """The place."""
    message: str
    """What is wrong, on one line."""
    fix: Fix | None = None
    """Its fix; None if there is none."""
    related: tuple[Related, ...] = ()
    """Other places that explain it."""


def told(
    codemod: str,
    span: Span,
    message: str,
    title: str = "",
    edits: tuple[Edit, ...] = (),
    related: tuple[Related, ...] = (),
    assumes: str = "",
) -> Finding:
    """A finding of devfix's own: without edits it has no fix; one that `assumes` something is unsafe, and says so."""
    if assumes and edits:
        message += f". The fix assumes that {assumes}"
    fix = Fix(brief(title), edits, Safety.UNSAFE if assumes else Safety.SAFE) if edits else None
    return Finding(codemod, span, brief(message), fix, related)
