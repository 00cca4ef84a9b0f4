"""The fixes of one pass put together, and which of them are to blame where that makes something wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from devfix.findings import TextEdit
from devfix.pipeline.trouble import BUG, Impossible, Where

if TYPE_CHECKING:
    from devfix.findings import Finding
    from devfix.rewrite.combine import Fixing
    from devfix.text.source import Source

Verify = Callable[[str, Sequence[TextEdit], str], None]


def together(
    source: Source, fixes: Sequence[tuple[TextEdit, ...]], verify: Verify
) -> tuple[tuple[TextEdit, ...], str]:
    """All edits of some fixes, and the text that they make. Raises CannotRewrite if that is wrong."""
    from devfix import rewrite

    merged = rewrite.merge(fixes)
    text = rewrite.apply(source.text, merged)
    verify(source.text, merged, text)
    return merged, text


def impossible(
    source: Source, chosen: Sequence[Fixing], verify: Verify, where: Callable[[Finding], Where]
) -> Impossible:
    """What is to be said of fixes that cannot be made together: without which of them the others can."""
    from devfix.rewrite import faulty

    bad = faulty([edits for _, edits in chosen], lambda some: together(source, some, verify))
    why = {where(chosen[at][0]): f"{reason}; {BUG}" for at, reason in bad.items()}
    ids = ", ".join(sorted({id for id, _ in why}))
    first = next(iter(bad.values()))
    message = f"{len(bad)} of {len(chosen)} fixes were not applied ({ids}): {first}; {BUG}"
    return Impossible(why, message)
