"""Fixes over several files: worked out beside one finding, and made in all of them or in none.

A worker sees one file. What a fix wants elsewhere comes back from it as a `Joint`, relative to the files as
they are, and `settle` puts those together in one process: it chooses the ones that do not contradict each
other, makes their texts in memory, and has the files concerned processed again from there, until nothing is
left to do. Nothing is written here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from devfix.documents import Document, DocumentError, document_of, overlaid, read_bytes
from devfix.findings import Elsewhere, Finding, Fix, ReplaceText, Safety, TextEdit
from devfix.reports.place import back, git_lines, line_feeds, place_by
from devfix.reports.report import Change, FileError, FileResult, Joint, Part, Place, PlacedEdit, PlacedFinding
from devfix.text.lines import line_starts
from devfix.text.parsed import parsed

ROUNDS = 10


# --- beside one finding -----------------------------------------------------------------------


def joint_of(finding: Finding, path: str, digest: str, edits: tuple[TextEdit, ...]) -> Joint | str:
    """The whole fix of a finding in the file `path`, or why there is none.

    `edits` are what the fix does to that file, whose bytes have the SHA-256 `digest`.
    """
    assert finding.fix is not None
    parts = [Part(path, digest, edits)]
    for other in finding.fix.elsewhere:
        part = _part(other)
        if isinstance(part, str):
            return part
        parts.append(part)
    return Joint(finding.codemod, finding.message, finding.fix.title, finding.fix.safety, tuple(parts))


def placed_joint(
    placed: PlacedFinding,
    finding: Finding,
    path: str,
    digest: str,
    edits: tuple[TextEdit, ...] | str,
    joints: list[Joint],
) -> PlacedFinding:
    """A placed finding with what its fix does in other files; the fix is added to `joints`.

    One that cannot be made in one of its files is refused whole.
    """
    if finding.fix is None or not finding.fix.elsewhere or isinstance(edits, str) or placed.fix is None:
        return placed
    joint = joint_of(finding, path, digest, edits)
    if isinstance(joint, str):
        return replace(placed, fix=None, refusal=joint)
    joints.append(joint)
    everything = (*placed.fix.edits, *_elsewhere(joint))
    return replace(placed, fix=replace(placed.fix, edits=everything))


def _elsewhere(joint: Joint) -> tuple[PlacedEdit, ...]:
    """The edits of all parts but the first, for a reader."""
    placed: list[PlacedEdit] = []
    for part in joint.parts[1:]:
        if not part.digest:
            placed.append(PlacedEdit(Place(1, 1, 1, 1), part.new, part.path))
            continue
        starts = _line_starts(_document(part.path, read_bytes(part.path)).text)
        placed.extend(PlacedEdit(place_by(starts, edit.span), edit.text, part.path) for edit in part.edits)
    return tuple(placed)


# The findings of one file mostly have the same few others.
_document = lru_cache(maxsize=4)(document_of)
_line_starts = lru_cache(maxsize=4)(line_starts)


def _part(other: Elsewhere) -> Part | str:
    from devfix.rewrite import CannotRewrite, text_edits

    name = os.path.basename(other.path)
    if not other.digest:
        if os.path.lexists(other.path):
            return f"{name} is there already and is not what the fix would make of it"
        return Part(other.path, "", new=other.new)
    try:
        document = _document(other.path, read_bytes(other.path))
        if document.digest != other.digest:
            return f"{name} changed since it was read; run devfix again"
        if other.path.endswith(".ipynb"):
            return f"{name}: a notebook is not changed together with other files"
        if not other.path.endswith(".py"):
            plain = [TextEdit(edit.span, edit.text) for edit in other.edits if isinstance(edit, ReplaceText)]
            return Part(other.path, other.digest, tuple(plain))
        return Part(other.path, other.digest, text_edits(parsed(document.text), Fix("", other.edits)))
    except CannotRewrite as error:
        return f"{name}: {error or 'the code around it cannot be rewritten'}"
    except (DocumentError, SyntaxError, ValueError) as error:
        return f"{name}: {error}"


# --- all of them --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begin:
    """From where a file is processed again: the text that joint fixes made of it, and how."""

    text: str
    history: tuple[tuple[TextEdit, ...], ...]
    changes: tuple[Change, ...]


Again = Callable[[Document, Begin], FileResult]
Allowed = Callable[[str], bool]
Applies = Callable[[str, Safety], bool]


def settle(
    results: Sequence[FileResult], applies: Applies, again: Again, allowed: Allowed = lambda path: True
) -> tuple[FileResult, ...]:
    """The results with the fixes made that span files, sorted by path.

    `applies` says of a codemod and a safety if such a fix is wanted.
    `again` processes a document once more from the text that it is given. A fix is left out, and its
    finding remains, where it wants a file that is not `allowed`, contradicts another fix, or makes of
    one of its files something that cannot be processed; that file then has an error that says so.
    """
    banned: set[Joint] = set()
    errors: dict[str, FileError] = {}
    while True:
        work = _Settling(results, applies, allowed, banned)
        failed = _settled(work, again)
        if failed is None:
            return work.results(errors)
        errors[failed.path] = failed
        guilty = {joint for joint, keys in work.chosen if os.path.abspath(failed.path) in keys}
        if not guilty - banned:
            return tuple(results)
        banned |= guilty


def _settled(work: _Settling, again: Again) -> FileError | None:
    """Make rounds until nothing is left to do, or a file fails."""
    for _ in range(ROUNDS):
        try:
            touched = work.round()
        except _Failed as failed:
            return failed.error
        if not touched:
            break
        with overlaid(work.overlay):
            for key in touched:
                error = work.process(key, again)
                if error is not None:
                    return error
    return None


class _Failed(Exception):
    def __init__(self, error: FileError) -> None:
        super().__init__(error)
        self.error = error


class _Settling:
    def __init__(
        self, results: Sequence[FileResult], applies: Applies, allowed: Allowed, banned: set[Joint]
    ) -> None:
        self.found = {os.path.abspath(result.path): result for result in results}
        self.first = dict(self.found)
        self.applies, self.allowed, self.banned = applies, allowed, banned
        self.chosen: list[tuple[Joint, list[str]]] = []
        self.documents: dict[str, Document] = {}
        self.begins: dict[str, Begin] = {}
        self.made: dict[str, tuple[str, list[Change]]] = {}  # new files: text and changes
        self.overlay: dict[str, bytes] = {}

    def round(self) -> list[str]:
        """Make what can be made at once; the files to look at again, sorted."""
        chosen: list[tuple[Joint, list[str]]] = []
        taken: dict[str, list[tuple[TextEdit, ...]]] = {}
        for joint in self._wanted():
            keys = [os.path.abspath(part.path) for part in joint.parts]
            if self._fits(joint, keys, taken):
                chosen.append((joint, keys))
                for key, part in zip(keys, joint.parts, strict=True):
                    taken.setdefault(key, []).append(part.edits)
        self.chosen += chosen
        return [key for key in sorted(taken) if self._make(key, taken[key], chosen)]

    def _wanted(self) -> Iterable[Joint]:
        for _, result in sorted(self.found.items()):
            if result.error is None:
                for joint in result.joint:
                    if self.applies(joint.codemod, joint.safety) and joint not in self.banned:
                        yield joint

    def _fits(self, joint: Joint, keys: list[str], taken: dict[str, list[tuple[TextEdit, ...]]]) -> bool:
        from devfix import rewrite

        for key, part in zip(keys, joint.parts, strict=True):
            if not self.allowed(part.path):
                return False
            if not part.digest:
                if key in self.made and self.made[key][0] != part.new:
                    return False
                if key not in self.made and os.path.lexists(key):
                    return False
            elif hashlib.sha256(self._now(key)).hexdigest() != part.digest:
                return False
            others = taken.get(key, [])
            if len(rewrite.select([*others, part.edits])) != len(others) + 1:
                return False
        return True

    def _now(self, key: str) -> bytes:
        return self.overlay[key] if key in self.overlay else self._document(key).data

    def _document(self, key: str) -> Document:
        if key not in self.documents:
            known = self.found.get(key)
            path = known.path if known is not None else os.path.relpath(key)
            self.documents[key] = replace(document_of(key, read_bytes(key)), path=path)
        return self.documents[key]

    def _make(
        self, key: str, taken: list[tuple[TextEdit, ...]], chosen: list[tuple[Joint, list[str]]]
    ) -> bool:
        """Put this round's edits of one file in place; True if it is to be processed again."""
        from devfix import rewrite

        mine = [joint for joint, keys in chosen if key in keys]
        part = _part_of(mine[0], key)
        if not part.digest:
            _, changes = self.made.setdefault(key, (part.new, []))
            self.overlay[key] = part.new.encode()
            lines = (0, part.new.count("\n"))
            changes.extend(_change(joints, key, (lines,)) for joints in _same(mine))
            return False
        document = self._document(key)
        begin = self.begins.get(key) or Begin(document.text, (), ())
        merged = rewrite.merge(taken)
        text = rewrite.apply(begin.text, merged)
        if document.path.endswith(".py"):
            try:
                rewrite.verify(begin.text, merged, text)
            except rewrite.CannotRewrite as error:
                raise _Failed(_not_made(document.path, mine[0], str(error))) from None
        feeds = line_feeds(document.text)
        changes = [
            _change(joints, key, tuple(git_lines(feeds, back(edit.span, begin.history)) for edit in edits))
            for joints in _same(mine)
            if (edits := _part_of(joints[0], key).edits)
        ]
        self.begins[key] = Begin(text, (*begin.history, merged), (*begin.changes, *changes))
        self.overlay[key] = document.encode(text)
        return True

    def process(self, key: str, again: Again) -> FileError | None:
        """Look at a file again; an error if that cannot be done any more."""
        result = again(self._document(key), self.begins[key])
        if result.error is not None:
            joint = next(joint for joint, keys in reversed(self.chosen) if key in keys)
            return _not_made(result.path, joint, result.error.message)
        before = self.first.get(key)
        self.found[key] = replace(result, findings=before.findings if before is not None else ())
        return None

    def results(self, errors: dict[str, FileError]) -> tuple[FileResult, ...]:
        new = [
            FileResult(os.path.relpath(key), after=text.encode(), changes=tuple(changes))
            for key, (text, changes) in self.made.items()
        ]
        known = [
            replace(result, error=result.error or errors.get(result.path)) for result in self.found.values()
        ]
        return tuple(sorted((*known, *new), key=lambda result: result.path))


def _not_made(path: str, joint: Joint, why: str) -> FileError:
    return FileError(path, "rewrite", f"the fix of {joint.codemod} over several files was not applied: {why}")


def _same(joints: Iterable[Joint]) -> list[list[Joint]]:
    """The fixes in groups that do the very same: of several findings, repaired by one edit elsewhere."""
    groups: dict[object, list[Joint]] = {}
    for joint in joints:
        groups.setdefault((joint.codemod, joint.title, joint.safety, _touched(joint)), []).append(joint)
    return list(groups.values())


def _touched(joint: Joint) -> tuple[Part, ...]:
    return tuple(part for part in joint.parts if part.edits or part.new)


def _part_of(joint: Joint, key: str) -> Part:
    return next(part for part in joint.parts if os.path.abspath(part.path) == key)


def _change(joints: Sequence[Joint], key: str, lines: tuple[tuple[int, int], ...]) -> Change:
    """What fixes that do the same are to one of their files."""
    first = joints[0]
    # The finding's own file is the home of its fix, unless the fix changes other files only.
    touched = _touched(first)
    others = tuple(part.path for part in touched if os.path.abspath(part.path) != key)
    homes = {joint.parts[0].path: None for joint in joints if joint.parts[0] not in touched}
    return Change(
        first.codemod,
        first.message,
        first.title,
        first.safety,
        lines,
        others,
        home=os.path.abspath(touched[0].path) == key,
        found_in=tuple(homes),
    )
