"""What `one-device` says of one place."""

from __future__ import annotations

from dataclasses import dataclass

from devfix.findings import Edit, Related, Safety, Span


@dataclass(frozen=True)
class Remark:
    """A place, what is wrong there, and the edits that mend it, if any; `title` is that of the fix."""

    span: Span
    message: str
    title: str = ""
    edits: tuple[Edit, ...] = ()
    safety: Safety = Safety.UNSAFE
    related: tuple[Related, ...] = ()
