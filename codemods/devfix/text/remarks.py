"""What is said of one place, by codemods that look for several things."""

from __future__ import annotations

from dataclasses import dataclass

from devfix.codemod import Codemod
from devfix.findings import Edit, Finding, Related, Safety, Span


@dataclass(frozen=True)
class Remark:
    """A place, what is wrong there, and the edits that mend it, if any; `title` is that of the fix.

    `assumes` is what an unsafe fix assumes, as it follows on "The fix assumes that".
    """

    span: Span
    message: str
    title: str = ""
    edits: tuple[Edit, ...] = ()
    safety: Safety = Safety.UNSAFE
    related: tuple[Related, ...] = ()
    assumes: str = ""

    def finding(self, codemod: Codemod) -> Finding:
        """It as a finding of a codemod."""
        return codemod.finding(
            self.span,
            self.message,
            title=self.title if self.edits else "",
            edits=self.edits,
            safety=self.safety,
            related=self.related,
            assumes=self.assumes,
        )
