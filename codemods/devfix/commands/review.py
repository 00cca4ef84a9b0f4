"""The review at a terminal behind `devfix apply --interactive`: its fixes, its memory, its result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import click

from devfix.documents import Document, DocumentError, document_of, read_bytes, state, write_new
from devfix.documents.notebook import SUFFIX, Notebook
from devfix.findings import Span, TextEdit
from devfix.pipeline import joint
from devfix.pipeline.runner import again, alone
from devfix.pipeline.selection import fingerprints
from devfix.pipeline.work import Task
from devfix.reports.place import git_lines, line_feeds
from devfix.reports.report import Change, FileResult, PlacedFinding, Report
from devfix.review.interactive import Session, Unit
from devfix.review.patch import hunks, split
from devfix.review.text import coloured_patch, findings, printable
from devfix.text.source import Source

_MEMORY = "interactive.json"


class Review:
    """One interactive review of a report's fixes."""

    def __init__(
        self, report: Report, task: Task, tree: str, color: bool | None, may_change: Callable[[str], bool]
    ) -> None:
        self.report, self.task, self.color, self.may_change = report, task, color, may_change
        self.tree = tree
        self.edited: dict[str, tuple[Document, TextEdit, PlacedFinding]] = {}
        self.reports: dict[str, Report] = {}

    def decide(self) -> Report | None:
        """Ask for every fix; the report of what was accepted, or None if there was nothing to decide."""
        units = tuple(
            self._unit(path, finding, name)
            for path, finding, name in fingerprints(self.report)
            if finding.fix is not None
            and alone(self.task, frozenset([name])).applies(finding.codemod, finding.fix.safety)
        )
        if not units:
            return None
        before = self._remembered({unit.name for unit in units})
        if before:
            self._show(f"{len(before)} of {len(units)} decisions are kept from a review that was cut off")
        session = Session(units, self._show, self._ask, self._save, dict(before))
        try:
            done = session.run()
        except (KeyboardInterrupt, click.Abort):
            self._show("\ninterrupted; nothing was written, and the decisions are kept for the next review")
            raise
        if (done or session.accepted() or self.edited) and self._memory():
            self._save({})
        return self._made(session.accepted())

    # --- one fix ---------------------------------------------------------------------------

    def _unit(self, path: str, finding: PlacedFinding, name: str) -> Unit:
        def diff(context: int) -> tuple[str, ...]:
            return tuple(
                line for result in self._alone(name, path).changed for line in self._hunks(result, context)
            )

        def edit() -> str:
            return self._edit(name, path, finding)

        assert finding.fix is not None
        several = any(one.path for one in finding.fix.edits)
        lines = tuple(findings(path, (finding,), level=alone(self.task, frozenset([name])).level))
        return Unit(name, path, lines, diff, None if several or path.endswith(SUFFIX) else edit)

    def _alone(self, name: str, path: str) -> Report:
        """What a fix makes of its files if it is made alone."""
        if name not in self.reports:
            self.reports[name] = self._run((path,), frozenset([name]))
        return self.reports[name]

    def _run(self, paths: tuple[str, ...], accepted: frozenset[str]) -> Report:
        return again(alone(self.task, accepted), paths, self.may_change)

    def _hunks(self, result: FileResult, context: int) -> list[str]:
        out = [f"--- {printable(result.path)}"]
        for where, before, after in _parts(result):
            for hunk in hunks(split(before), split(after), context):
                out.append(f"@@ {where}line {hunk.first + 1} @@")
                out.extend(_shown(line) for line in hunk.lines)
        if self.color is not False:
            data = coloured_patch("\n".join(out).encode("utf-8", "replace"))
            return data.decode("utf-8", "replace").split("\n")
        return out

    def _edit(self, name: str, path: str, finding: PlacedFinding) -> str:
        """Let the user edit the lines that a fix makes; why it was not done, or nothing."""
        changed = self._alone(name, path).changed
        if len(changed) != 1:
            return "alone this fix changes nothing, so there is nothing to edit"
        result = changed[0]
        before, after = split(result.before), split(result.after)
        whole = list(hunks(before, after, 0))
        first, last = whole[0].first, whole[-1].last
        new_first, new_last = whole[0].new_first, whole[-1].new_last
        document = document_of(path, read_bytes(path))
        text = b"".join(after[new_first:new_last]).decode(document.encoding)
        try:
            given = click.edit(text=text, extension=".py", require_save=False)
        except click.ClickException as error:
            return error.format_message()
        if given is None:
            return "the editor gave nothing back; the fix is undecided"
        feeds = [0, *(at + 1 for at in line_feeds(document.text))]
        ends = [*feeds, len(document.text)]
        edit = TextEdit(Span(ends[first], ends[last]), given)
        try:
            Source(document.text[: edit.span.start] + given + document.text[edit.span.end :])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"as edited the file does not parse ({error}); the fix is undecided"
        self.edited[name] = (document, edit, finding)
        return ""

    # --- the result ------------------------------------------------------------------------

    def _made(self, accepted: frozenset[str]) -> Report:
        """The report of everything that was accepted, edited fixes included."""
        paths = tuple(result.path for result in self.report.results)
        by_path: dict[str, list[tuple[Document, TextEdit, PlacedFinding]]] = {}
        for document, edit, finding in self.edited.values():
            by_path.setdefault(document.path, []).append((document, edit, finding))
        report = self._run(tuple(path for path in paths if path not in by_path), accepted)
        task = alone(self.task, accepted)
        results = [*report.results]
        for found in by_path.values():
            document = found[0][0]
            results.append(task.document(document, _begin(document, found)))
        made = replace(report, results=tuple(sorted(results, key=lambda result: result.path)))
        errors = (*self.report.errors, *(one.error for one in results if one.error is not None))
        return replace(made, errors=tuple(dict.fromkeys(errors)), files=self.report.files)

    # --- memory ----------------------------------------------------------------------------

    def _memory(self) -> str:
        """The file with the decisions of a review that was cut off; empty if there is none."""
        folder = state.existing(self.tree)
        path = os.path.join(folder, _MEMORY)
        return path if folder and os.path.isfile(path) else ""

    def _remembered(self, known: set[str]) -> dict[str, str]:
        try:
            found = json.loads(read_bytes(self._memory()))
        except (DocumentError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: what for name, what in found.items() if name in known and what in ("y", "n")}

    def _save(self, decided: Mapping[str, str]) -> None:
        # What was edited by hand is not kept, so it is asked again.
        kept = {name: what for name, what in decided.items() if what != "e"}
        try:
            write_new(os.path.join(state.make(self.tree), _MEMORY), json.dumps(kept).encode())
        except (DocumentError, OSError):
            return  # decisions only do not outlive an interruption then

    # --- the terminal ----------------------------------------------------------------------

    def _show(self, line: str) -> None:
        click.echo(line, color=self.color)

    def _ask(self, question: str) -> str:
        click.echo(click.style(question, bold=True, fg="blue"), nl=False, color=self.color)
        line = sys.stdin.readline() if sys.stdin is not None else ""
        return line if line else "q"  # the end of the input is no consent


def _parts(result: FileResult) -> Iterator[tuple[str, bytes, bytes]]:
    """What can change: the whole file, or the code of each cell of a notebook; with its name before a line's."""
    if not result.path.endswith(SUFFIX):
        yield "", result.before, result.after
        return
    old, new = (Notebook.of(result.path, data).cells for data in (result.before, result.after))
    for before, after in zip(old, new, strict=True):
        yield f"cell {before.number}, ", _lines(before.source), _lines(after.source)


def _lines(source: str) -> bytes:
    return f"{source}\n".encode("utf-8", "surrogatepass") if source else b""


def _begin(document: Document, found: list[tuple[Document, TextEdit, PlacedFinding]]) -> joint.Begin:
    """The text with edited fixes in it; of two that overlap the second is left out."""
    from devfix.rewrite import apply, select

    edits = [(edit,) for _, edit, _ in found]
    chosen = [found[at] for at in select(edits)]
    merged = tuple(sorted(edit for _, edit, _ in chosen))
    feeds = line_feeds(document.text)
    changes = []
    for _, edit, finding in chosen:
        assert finding.fix is not None
        lines = (git_lines(feeds, edit.span),)
        title = f"{finding.fix.title} (edited by hand)"
        changes.append(Change(finding.codemod, finding.message, title, finding.fix.safety, lines))
    return joint.Begin(apply(document.text, merged), (merged,), tuple(changes))


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return "".join(character if character.isprintable() or character == "\t" else "?" for character in text)
