"""The data of a review page: every finding, and the hunks of every file, as plain values for JSON.

Paths are keys as decisions name them, and names as they are shown. Findings count from 0 in the page's order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from devfix.documents import DocumentError
from devfix.findings import Safety, TextEdit
from devfix.pipeline.selection import in_tree, prints
from devfix.reports.report import SEEN, FileResult, PlacedFinding, PlacedRelated, Report
from devfix.review.html.colours import Colours
from devfix.review.html.hunks import Mark, Wanted, blocks, composed, conflicts, empty, hunks, made
from devfix.review.html.texts import Read, Text, shown
from devfix.review.text import printable

_FEW = 400  # findings up to which lines around the hunks can be unfolded
_MORE = 20
_CHANGED = "This file is not what devfix read any more, so nothing in it can be decided: make the page again."


@dataclass
class Item:
    """A finding on its way into the page."""

    number: int
    print: str
    path: str  # as a key
    finding: PlacedFinding
    verdict: str
    edits: dict[str, list[TextEdit]] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)  # files that the fix makes
    why: str = ""  # it cannot be decided on
    unsure: bool = False  # its lines cannot be shown


class Page:
    """The data of one report; `read` gives the bytes of a file that the report does not have."""

    def __init__(self, report: Report, read: Read) -> None:
        self.report, self.read = report, read
        self.results = {in_tree(result.path): result for result in report.results}
        self.texts: dict[str, Text] = {}
        self.items = list(self._items())
        # A file without findings, which a fix changes or makes, stands behind the one with the finding.
        homes = dict.fromkeys(item.path for item in self.items)
        self.by_path: dict[str, list[Item]] = {}
        for item in self.items:
            for path in (item.path, *(one for one in (*item.edits, *item.new) if one not in homes)):
                self.by_path.setdefault(path, [])
        for item in self.items:
            for path in dict.fromkeys([item.path, *item.edits, *item.new]):
                self.by_path[path].append(item)
        self.paths = list(self.by_path)
        self.numbers = {path: number for number, path in enumerate(self.paths)}
        self.rows: dict[str, int] = {}
        self.after: dict[int, list[int]] = {}
        self.more = _MORE if len(self.items) <= _FEW else 0

    # --- findings ----------------------------------------------------------------------------

    def _items(self) -> Iterator[Item]:
        number = 0
        for result in self.report.results:
            verdicts = {
                (one.codemod, one.message, one.title): one.verdict for one in result.changes if one.verdict
            }
            for finding, name in zip(result.findings, prints(result.path, result.findings), strict=True):
                title = finding.fix.title if finding.fix is not None else ""
                verdict = verdicts.get((finding.codemod, finding.message, title), "")
                item = Item(number, name, in_tree(result.path), finding, verdict)
                self._settle(item, result)
                yield item
                number += 1

    def _settle(self, item: Item, result: FileResult) -> None:
        """Where the edits of a finding's fix are, and whether it can be decided on."""
        text, fix = self.text(result.path), item.finding.fix
        item.why = _undecidable(item.finding, result)
        if text.problem or not text.fits(item.finding):
            item.why, item.unsure = text.problem or _CHANGED, True
            return
        item.unsure = text.index(item.finding.place) is None
        for edit in fix.edits if fix is not None else ():
            path = edit.path or result.path
            other = self.text(path)
            if other.made:
                item.new[other.key] = edit.text
                continue
            span = other.span(edit.place) if not other.problem else None
            if span is None:
                item.unsure = True
                item.edits.setdefault(other.key, [])
            else:
                item.edits.setdefault(other.key, []).append(TextEdit(span, edit.text))

    def text(self, path: str) -> Text:
        """The text of a file, from the report or as it is now."""
        key = in_tree(path)
        if key not in self.texts:
            result = self.results.get(key)
            if result is not None and result.made:
                self.texts[key] = Text(path, made=True)
            elif result is not None and result.changed:
                self.texts[key] = Text.of(path, result.before)
            else:
                try:
                    self.texts[key] = Text.of(path, self.read(path))
                except DocumentError as error:
                    self.texts[key] = Text(
                        path, made=result is None, problem="" if result is None else str(error)
                    )
        return self.texts[key]

    # --- the page's data ---------------------------------------------------------------------

    def bodies(self) -> Iterator[dict[str, Any]]:
        """The hunks of each file, in the order of `paths`."""
        for path in self.paths:
            body = self._body(path, self.by_path[path])
            self.rows[path] = sum(_height(hunk) for hunk in body["hunks"])
            yield body

    def _body(self, path: str, items: list[Item]) -> dict[str, Any]:
        text = self.texts[path]
        colours = Colours(path, text.text)
        notes = [text.problem] if text.problem else []
        new = [item for item in items if path in item.new]
        if new:
            text_of = dict.fromkeys(item.new[path] for item in new)
            out = [made(one, new[0].number, colours) for one in list(text_of)[:1]]
            out[0]["blocks"][0]["owners"] = [[item.number for item in new]]
            return _shown_cards(out, {}, notes)
        if text.made or text.problem:
            return _shown_cards([], {item.number: None for item in items if item.path == path}, notes)
        wanted = [
            Wanted(item.number, tuple(item.edits[path]))
            for item in sorted(items, key=lambda item: bool(item.why))  # proposals wait for fixes
            if item.edits.get(path) and not item.unsure
        ]
        for owner, others in conflicts(wanted).items():
            self.after.setdefault(owner, []).extend(others)
        marks = [mark for item in items if item.path == path for mark in _marks(text, item)]
        out = hunks(text, blocks(text, wanted), marks, colours, self.more)
        homes: dict[int, int | None] = {}
        for item in items:
            line = text.index(item.finding.place) if item.path == path else None
            if item.path == path:
                homes[item.number] = None if item.unsure else _hunk_of(out, line)
        notes += self._further(path, text, wanted)
        return _shown_cards(out, homes, notes)

    def _further(self, path: str, text: Text, wanted: list[Wanted]) -> list[str]:
        """What is to be said where the repairs of a file are more than its fixes."""
        result = self.results.get(path)
        if result is None or not result.changed:
            return []
        allowed = [one for one in wanted if self.allowed(self.items[one.owner])]
        after = Text.of(result.path, result.after)
        if text.same(composed(text, allowed), after):
            return []
        return [
            "Once these fixes are made, devfix finds more to fix in this file. `devfix diff` has it already; "
            "this page has it when it is made again after the fixes were applied."
        ]

    def allowed(self, item: Item) -> bool:
        """Whether the report's own level takes the fix."""
        fix = item.finding.fix
        return fix is not None and fix.safety >= self.report.level_of(item.finding.codemod) and not item.why

    def finding(self, item: Item) -> dict[str, Any]:
        """One finding as the page has it."""
        finding, fix = item.finding, item.finding.fix
        place = finding.place
        others = [path for path in (*item.edits, *item.new) if path != item.path]
        return {
            "id": item.print,
            "codemod": finding.codemod,
            "safety": fix.safety.label if fix is not None else "none",
            "message": printable(finding.message),
            "title": printable(fix.title) if fix is not None else "",
            "file": self.numbers[item.path],
            "where": _where(place.line, place.cell, place.cell_line),
            "scope": printable(finding.scope),
            "code": shown(finding.code.strip()),
            "verdict": printable(item.verdict),
            "why": item.why,
            "also": [[self.numbers[path], self._first(item, path)] for path in others],
            "after": self.after.get(item.number, []),
            "related": [self._related(item.path, one) for one in finding.related],
            "bare": item.unsure,
            "edits": [_lines(edit.text) for edit in fix.edits] if fix is not None and item.unsure else [],
        }

    def _first(self, item: Item, path: str) -> int:
        """The first line that a fix touches in a file; -1 if that is not known, or the file is new."""
        edits = item.edits.get(path)
        text = self.texts[path]
        line = text.line_of(min(edit.span.start for edit in edits)) if edits else -1
        return line if line < text.count else -1

    def _related(self, path: str, one: PlacedRelated) -> dict[str, Any]:
        key = in_tree(one.path) if one.path else path
        text = self.texts.get(key)
        line = text.at(one.line, one.cell, one.cell_line) if text is not None and one.line else None
        name = printable(key) if key != path else ""
        code = text.line(line).strip() if text is not None and line is not None and line < text.count else ""
        return {
            "message": printable(one.message),
            "file": self.numbers.get(key, -1),
            "line": -1 if line is None or one.path else line,
            "where": ", ".join(part for part in (name, _where(one.line, one.cell, one.cell_line)) if part),
            "code": code[:160],
        }

    def file(self, path: str) -> dict[str, Any]:
        """A file as the page's index has it."""
        text = self.texts[path]
        numbers: dict[str, list[int]] = {"findings": [], "parts": []}
        for item in self.by_path[path]:
            numbers["findings" if item.path == path else "parts"].append(item.number)
        return {"name": printable(path), "made": text.made, "rows": self.rows[path], **numbers}

    def digests(self) -> dict[str, str]:
        """By path the SHA-256 of every file that has something to decide."""
        found = {
            path: self.texts[path].digest
            for item in self.items
            if not item.why
            for path in (item.path, *item.edits)
        }
        return dict(sorted(found.items()))

    def id(self) -> str:
        """Names the report: other findings or other files have another one."""
        digest = hashlib.sha256()
        for key, value in self.digests().items():
            digest.update(f"{key}\0{value}\0".encode("utf-8", "surrogatepass"))
        for item in self.items:
            digest.update(item.print.encode())
        return digest.hexdigest()[:16]


def _undecidable(finding: PlacedFinding, result: FileResult) -> str:
    if result.error is not None:
        return f"Nothing in this file can be changed: {printable(result.error.message)}"
    if finding.refusal:
        return f"devfix has a fix, but cannot write it here: {printable(finding.refusal)}"
    if finding.fix is None:
        return "No fix: devfix knows no edit that is certain to be right here."
    if finding.codemod == SEEN:
        return "Only the run knew of this: `devfix repair` makes such fixes, and tries them."
    if finding.fix.safety is Safety.MANUAL:
        return "Only a proposal: devfix never makes this edit by itself, since it needs your judgement."
    return ""


def _lines(text: str) -> str:
    return "\n".join(map(shown, text.strip("\n").split("\n")))


def _marks(text: Text, item: Item) -> Iterator[Mark]:
    place, line = item.finding.place, text.index(item.finding.place)
    if line is not None and not item.unsure and line < text.count:
        end = place.end_column - 1 if place.end_line == place.line else len(text.raw(line))
        yield Mark(item.number, line, place.column - 1, end)
    for one in item.finding.related:
        line = text.at(one.line, one.cell, one.cell_line) if not one.path and one.line else None
        if line is not None and line < text.count:
            yield Mark(item.number, line, 0, 0, related=True)


def _hunk_of(found: list[dict[str, Any]], line: int | None) -> int | None:
    """The hunk that a line is in; None: the finding stands beside no code."""
    for at, hunk in enumerate(found):
        low, high = (hunk["at"] + edge for edge in hunk["see"])
        if line is not None and low <= line < max(high, low + 1):
            return at
    return None


def _shown_cards(
    found: list[dict[str, Any]], homes: dict[int, int | None], notes: list[str]
) -> dict[str, Any]:
    """A file's hunks with the findings that stand beside each, and those that have a part in it."""
    if None in homes.values():
        found = [*found, {**empty(0), "last": True}]
    for at, hunk in enumerate(found):
        wanted = None if hunk.pop("last", False) else at
        hunk["cards"] = [number for number, home in homes.items() if home == wanted]
        owners = {number for block in hunk["blocks"] for edit in block["owners"] for number in edit}
        owners |= {mark[3] for mark in hunk["marks"]}
        hunk["parts"] = sorted(owners - set(hunk["cards"]))
    return {"hunks": found, "notes": [printable(note) for note in notes]}


def _height(hunk: dict[str, Any]) -> int:
    """About how many lines high a hunk is; in a wide window its findings stand beside it."""
    if not hunk["cards"] and not hunk["blocks"]:
        return 2  # folded
    low, high = hunk["see"]
    added: int = sum(
        len(max(block["rows"].values(), key=len, default=())) - block["n"] for block in hunk["blocks"]
    )
    return max(int(high) - int(low) + added, 12 * len(hunk["cards"])) + 3


def _where(line: int, cell: int, cell_line: int) -> str:
    if cell:
        return f"cell {cell}, line {cell_line}"
    return f"line {line}" if line else ""
