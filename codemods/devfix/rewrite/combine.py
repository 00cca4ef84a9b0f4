"""Fixes put together: which ones go at once, the text they make, and the doubts about it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence

from devfix.findings import Finding, TextEdit
from devfix.rewrite.layout import CannotRewrite, comments, in_order, is_line, rank
from devfix.text.lines import NEWLINE
from devfix.text.parsing import parse
from devfix.text.source import Source

Fixing = tuple[Finding, tuple[TextEdit, ...]]


def select(edits_of_fixes: Sequence[tuple[TextEdit, ...]], source: Source | None = None) -> tuple[int, ...]:
    """Indices of the fixes that can be applied together, in order; the first one always can.

    A fix goes whole or waits for the next pass. Inserted lines stand beside each other at one
    point; inside a line, two fixes that touch wait for each other, since only a new parse can
    say which encloses which. Equal fixes go together, and `merge` makes one of them.
    With `source`, fixes that only together would empty a block wait, too.
    """
    chosen: list[int] = []
    cut = _deleted_statements(edits_of_fixes, source) if source else {}
    blocks = _blocks(source, cut) if source else []
    gone: set[ast.stmt] = set()
    for index, edits in enumerate(edits_of_fixes):
        if any(_conflict(edits, edits_of_fixes[other]) for other in chosen):
            continue
        mine = cut.get(index, set())
        if any(block & mine and block & gone and block <= gone | mine for block in blocks):
            continue
        gone |= mine
        chosen.append(index)
    return tuple(chosen)


def merge(edits_of_fixes: Sequence[tuple[TextEdit, ...]]) -> tuple[TextEdit, ...]:
    """One sequence for `apply`: what several fixes ask for (the same import) is done once.

    What one fix asks for twice is done twice. Raises CannotRewrite where fixes overlap.
    """
    merged: list[TextEdit] = []
    have: Counter[TextEdit] = Counter()
    for edits in edits_of_fixes:
        wanted: Counter[TextEdit] = Counter()
        for edit in edits:
            wanted[edit] += 1
            if wanted[edit] > have[edit]:
                have[edit] += 1
                merged.append(edit)
    return in_order(merged)


def whole(wanted: Sequence[Fixing], chosen: Sequence[Fixing], together: frozenset[str]) -> list[Fixing]:
    """Those of the chosen fixes that do not leave out other wanted ones of a codemod in `together`."""
    left = {finding.codemod for finding, edits in wanted if (finding, edits) not in chosen} & together
    kept = [fixing for fixing in chosen if fixing[0].codemod not in left]
    # Where they all are in each other's way, the first codemod goes first.
    return kept or [fixing for fixing in wanted if fixing[0].codemod == chosen[0][0].codemod]


def apply(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with all edits made; each is relative to `text`. Raises CannotRewrite on overlap."""
    parts, at = [], 0
    for edit in in_order(edits):
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join(parts) + text[at:]


def verify(before: str, edits: Sequence[TextEdit], after: str, *, comments_stay: bool = True) -> None:
    """Doubt a result: `after` parses, differs from `before` in the edits only, and has all its comments.

    Raises CannotRewrite, naming what failed; after `text_edits` that is devfix's own bug.
    """
    try:
        parse(after)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotRewrite(f"the result does not parse: {error}") from None
    at = done = 0
    for edit in [*in_order(edits), None]:
        start = edit.span.start if edit else len(before)
        kept = before[at:start]
        if after[done : done + len(kept)] != kept or (edit is None and done + len(kept) != len(after)):
            line = len(NEWLINE.findall(before, 0, at)) + 1
            raise CannotRewrite(f"text outside the edits changed, at or after line {line}")
        done += len(kept)
        if edit:
            if after[done : done + len(edit.text)] != edit.text:
                raise CannotRewrite("the result does not contain an edit")
            done += len(edit.text)
            at = edit.span.end
    lost = Counter(comments(before)) - Counter(comments(after)) if comments_stay else None
    if lost:
        raise CannotRewrite(f"a comment was lost: {next(iter(lost))}")


def faulty(
    fixes: Sequence[tuple[TextEdit, ...]], doubt: Callable[[list[tuple[TextEdit, ...]]], object]
) -> dict[int, str]:
    """Of fixes that cannot be made together: the indices of those without which the others can, and why.

    `doubt` makes some of them, and raises CannotRewrite where that goes wrong.
    """
    bad: dict[int, str] = {}

    def good(indices: Sequence[int]) -> list[int]:
        try:
            doubt([fixes[index] for index in indices])
            return list(indices)
        except CannotRewrite as error:
            if len(indices) == 1:
                bad[indices[0]] = str(error)
                return []
        half = len(indices) // 2
        kept, more = good(indices[:half]), good(indices[half:])
        try:
            doubt([fixes[index] for index in (*kept, *more)])
            return [*kept, *more]
        except CannotRewrite:  # rare: each half can be made, and not both
            pass
        for index in more:
            try:
                doubt([fixes[one] for one in (*kept, index)])
                kept.append(index)
            except CannotRewrite as error:
                bad[index] = str(error)
        return kept

    good(range(len(fixes)))
    return bad


# --- conflicts -----------------------------------------------------------------------------------


def _conflict(one: tuple[TextEdit, ...], other: tuple[TextEdit, ...]) -> bool:
    return Counter(one) != Counter(other) and any(_touch(a, b) for a in one for b in other)


def _touch(a: TextEdit, b: TextEdit) -> bool:
    """Whether two edits of different fixes cannot be made at once."""
    if a.span.start == a.span.end and b.span.start == b.span.end:
        return a.span == b.span and not (is_line(a) or is_line(b))
    if a.span.start == a.span.end:
        a, b = b, a
    if b.span.start != b.span.end:
        return a.span.start < b.span.end and b.span.start < a.span.end
    at = b.span.start
    if not is_line(b):
        return a.span.start <= at <= a.span.end
    if rank(b)[2] == 2:  # behind a statement, which may be the replaced one or be inside it
        return a.span.start <= at <= a.span.end
    return a.span.start < at < a.span.end


def _deleted_statements(
    edits_of_fixes: Sequence[tuple[TextEdit, ...]], source: Source
) -> dict[int, set[ast.stmt]]:
    """The statements that each fix takes away, for fixes that do so."""
    cuts = {
        index: [edit.span for edit in edits if not edit.text]
        for index, edits in enumerate(edits_of_fixes)
        if any(not edit.text for edit in edits)
    }
    if len(cuts) < 2:
        return {}
    found: dict[int, set[ast.stmt]] = {}
    for node in source.walk():
        if isinstance(node, ast.stmt):
            span = source.span(node)
            for index, spans in cuts.items():
                if any(cut.start <= span.start and span.end <= cut.end for cut in spans):
                    found.setdefault(index, set()).add(node)
    return found


def _blocks(source: Source, cut: dict[int, set[ast.stmt]]) -> list[set[ast.stmt]]:
    """The blocks, the module's own excluded, that lose a statement."""
    blocks: dict[int, set[ast.stmt]] = {}
    for statements in cut.values():
        for statement in statements:
            if not isinstance(source.parents[statement], ast.Module):
                block = source.block(statement)
                blocks[id(block)] = set(block)
    return list(blocks.values())
