"""A campaign for other programs, as CSV and JSON, and for a tracking issue, as Markdown."""

from __future__ import annotations

import csv
import datetime
import io
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from devfix import __version__
from devfix.migrate.messages import _text as as_text
from devfix.migrate.model import STATES, State
from devfix.migrate.state import Row, Store
from devfix.migrate.summary import Summary
from devfix.review.text import plural, printable

# Columns of the CSV file, and keys of "repositories" in JSON; docs/migrate-report.md says what they are.
FIELDS = (
    "id", "name", "state", "stage", "reason", "head", "base_branch", "commit", "subject", "verified", "decision",
    "pushed", "pull_request", "request", "checks", "conflicts",
    "files_analysed", "files_changed", "bytes", "seconds", "found", "fixed", "left",
    "changed_at",
)  # fmt: skip
_MOST = 60_000  # characters of Markdown; issues take some more
_FORMULA = tuple("=+-@|%")
_TICKED: tuple[State, ...] = ("merged",)
_TRACKED: tuple[State, ...] = ("failed", "changed", "verified", "pushed", "superseded", "merged")


def moment(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _record(store: Store, row: Row) -> dict[str, Any]:
    values = asdict(row)
    counts = store.findings(row.id)
    for name in ("found", "fixed", "left"):
        values[name] = sum(getattr(one, name) for one in counts)
    values["changed_at"] = moment(row.changed_at)
    values["seconds"] = round(row.seconds, 3)
    return {name: values[name] for name in FIELDS}


def as_csv(store: Store) -> bytes:
    """A line for each repository. What a spreadsheet would take for a formula has a `'` in front.

    Texts are quoted: some spreadsheets begin a new cell at a `;`, too.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(FIELDS)
    for row in store.rows():
        writer.writerow(map(_cell, _record(store, row).values()))
    return out.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    begins = unicodedata.normalize("NFKC", value).lstrip()[:1]  # also a full-width one, and behind blanks
    return f"'{text}" if begins in _FORMULA or value.startswith(("\t", "\r", "\n")) else text


def as_json(store: Store, summary: Summary) -> bytes:
    head = {
        "devfix-campaign": 1,
        "version": __version__,
        "campaign": summary.settings.campaign,
        "made_at": moment(summary.made_at),
        "total": summary.total,
        "states": {state: dict(summary.counts).get(state, 0) for state in STATES},
        "done": summary.done,
        "findings": [asdict(one) for one in summary.findings],
        "verified": {
            "run": summary.verified.run,
            "analysis": summary.verified.analysed,
            "harm": summary.verified.harm,
        },
        "failures": [
            {
                "stage": one.stage,
                "reason": one.reason,
                "count": one.count,
                "first": [row.id for row in one.rows],
            }
            for one in summary.failures
        ],
        "history": [
            {
                "at": moment(point.at),
                **{state: count for state, count in zip(STATES, point.counts, strict=True) if count},
            }
            for point in summary.points
        ],
    }
    text = json.dumps(head, indent=1)
    rows = ",\n".join(
        f"  {json.dumps({**_record(store, row), 'notes': list(row.notes)})}" for row in store.rows()
    )
    return f'{text[:-2]},\n "repositories": [\n{rows}\n ]\n}}\n'.encode()


# --- Markdown ------------------------------------------------------------------------------------------


def as_markdown(store: Store, summary: Summary) -> bytes:
    """For a tracking issue: what is done, and a box for each repository with something to do."""
    lines = list(_head(summary))
    size = sum(map(len, lines))
    left = 0
    for row in (row for state in _TRACKED for row in store.rows((state,))):
        line = _item(row)
        size += len(line) + 1
        if size > _MOST:
            left += 1
        else:
            lines.append(line)
    if left:
        lines += ["", f"and {left} more, which are in the CSV file"]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _head(summary: Summary) -> Iterator[str]:
    yield f"## devfix: {as_text(summary.settings.campaign)}"
    yield ""
    share = f" ({100 * summary.done / summary.total:.0f} %)" if summary.total else ""
    yield (
        f"**{summary.done} of {summary.total}**{share} have nothing left to fix at the head that devfix"
        f" {__version__} has last seen. {moment(summary.made_at)}"
    )
    yield ""
    yield "| state | repositories |"
    yield "|---|---:|"
    for state, count in summary.counts:
        yield f"| {state} | {count} |"
    if summary.findings:
        yield ""
        yield "| codemod | found | fixed by a commit | left |"
        yield "|---|---:|---:|---:|"
        for one in summary.findings:
            yield f"| {as_text(one.codemod)} | {one.found} | {one.fixed} | {one.left} |"
    verified = summary.verified
    if verified.run or verified.analysed:
        yield ""
        yield (
            f"Of {plural(verified.run + verified.analysed, 'change')}, {verified.run} verified by running something"
            f" before and after, {verified.analysed} by analysis only."
        )
    if summary.failures:
        yield ""
        yield "Failed:"
        yield ""
        for group in summary.failures[:20]:
            yield f"- {group.count} × {group.stage}: {as_text(group.reason[:300])}"
        if len(summary.failures) > 20:
            yield f"- and {len(summary.failures) - 20} other reasons"
    yield ""
    yield "### Repositories"
    yield ""


def _item(row: Row) -> str:
    box = "x" if row.state in _TICKED else " "
    words = row.reason if row.state in ("failed", "superseded") else row.subject
    link = f" {row.pull_request}" if is_link(row.pull_request) else ""
    link += f" ({row.asked})" if row.asked else ""
    decision = f", {row.decision}" if row.decision else ""
    said = f": {as_text(words[:200])}" if words else ""
    return f"- [{box}] {as_text(row.name)} ({row.state}{decision}){said}{link}"


def is_link(url: str) -> bool:
    return url.startswith("https://") and url.isprintable() and not set(url) & set(" <>()[]\"'`")
