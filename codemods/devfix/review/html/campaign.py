"""`devfix migrate report --html`: one page for a campaign, with the look of the review page and no script.

All that comes from repositories goes through `printable` and the template's escaping; nothing of it becomes
markup, an address, or a name of a class. Links lead to files of the campaign, relative to the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from devfix.migrate.exports import is_link, moment
from devfix.migrate.model import STATES, State
from devfix.review.html.frame import made, need_libraries
from devfix.review.text import printable

if TYPE_CHECKING:
    from devfix.migrate.state import Row
    from devfix.migrate.summary import Group, Point, Summary

_WIDTH, _HEIGHT = 1000, 240
_TABLE = 12  # points of time in the table below the chart
_LOGS, _LINES, _LENGTH = 3, 15, 1600  # of a group of failures; of a log
# From the bottom of the chart: what is settled, what has a change, what is under way, what needs a person.
_ORDER: tuple[State, ...] = (
    "merged", "nothing-to-do", "pushed", "verified", "changed", "skipped", "failed", "superseded", "analysing",
    "cloning", "pending",
)  # fmt: skip
_MEANING: dict[State, str] = {
    "merged": "had a change, and needs none at its head now",
    "nothing-to-do": "nothing that devfix would fix",
    "pushed": "its branch is on the remote",
    "verified": "has a commit, verified by running",
    "changed": "has a commit, verified by analysis",
    "skipped": "left out, with a reason",
    "failed": "see below",
    "superseded": "has moved on; will be done again",
    "analysing": "being looked at now",
    "cloning": "being fetched now",
    "pending": "still to do",
}
_FILES = (
    ("review.html", "review page"),
    ("changes.patch", "patch"),
    ("body.md", "description"),
    ("log.txt", "log"),
)

Look = Callable[[str], "tuple[frozenset[str], str]"]  # id -> names of its files, and its log


@dataclass(frozen=True)
class _Line:
    """A row of a table: a label, bars in thousandths, and numbers."""

    label: str
    note: str
    bars: tuple[tuple[str, str, int, int], ...]  # class, words, at, width
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class _Listed:
    """A repository, as it is listed."""

    name: str
    words: str
    notes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    log: str = ""


def render(summary: Summary, results: str, look: Look) -> bytes:
    """The page, UTF-8; `results` is the way from it to the folder of the results. Raises MissingLibraries."""
    need_libraries()
    counts = dict(summary.counts)
    most = max([*counts.values(), 1])
    return made(
        "campaign.html",
        ["page.css", "campaign.css"],
        name=printable(summary.settings.campaign),
        summary=summary,
        at=_shown(summary.made_at),
        share=f"{100 * summary.done / summary.total:.0f} %" if summary.total else "",
        states=[
            _Line(state, _MEANING[state], ((_class(state), "repositories", 0, _part(counts[state], most)),), (
                f"{counts[state]}", f"{100 * counts[state] / summary.total:.1f} %"))
            for state in _ORDER
            if counts.get(state)
        ],
        areas=_areas(summary.points, summary.total),
        times=_times(summary.points),
        table=_table(summary.points),
        table_states=[state for state in _ORDER if any(p.counts[STATES.index(state)] for p in summary.points)],
        findings=_findings(summary),
        verified=_verified(summary),
        how=[(printable(words), count) for words, count in summary.verified.how],
        failures=[
            (one, printable(one.reason), [_failed(one, at, results, look) for at in range(len(one.rows))])
            for one in summary.failures
        ],
        listed=[
            (state, counts[state], [_listed(row, results, look, False) for row in rows])
            for state in reversed(_ORDER)
            for of, rows in summary.listed
            if of == state and state != "failed"
        ],
    )  # fmt: skip


def _shown(at: float) -> str:
    return moment(at)[:16].replace("T", " ") + " UTC"


def _times(points: Sequence[Point]) -> list[str]:
    """The first and the last; with seconds where they are close."""
    ends = [moment(points[at].at).replace("T", " ")[:-1] for at in (0, -1)] if points else []
    same = len({end[:16] for end in ends}) < 2
    return [f"{end if same else end[:16]} UTC" for end in ends]


def _class(state: str) -> str:
    return f"state-{state}"


def _part(count: int, most: int) -> int:
    return max(round(1000 * count / most), 4) if count else 0


def _areas(points: Sequence[Point], total: int) -> list[tuple[str, str, str]]:
    """(class, state, path) of each state's area, one on the other; counts change in steps."""
    if len(points) < 2 or not total:
        return []
    first, last = points[0].at, points[-1].at
    xs = [round(_WIDTH * (point.at - first) / ((last - first) or 1), 1) for point in points]
    below = [0] * len(points)
    found: list[tuple[str, str, str]] = []
    for state in _ORDER:
        index = STATES.index(state)
        above = [low + point.counts[index] for low, point in zip(below, points, strict=True)]
        if above != below:
            top = _steps(xs, above, total)
            bottom = _steps(xs, below, total)
            path = "M" + "L".join([*top, *reversed(bottom)]) + "Z"
            found.append((_class(state), state, path))
        below = above
    return found


def _steps(xs: Sequence[float], counts: Sequence[int], total: int) -> list[str]:
    found: list[str] = []
    for at, (x, count) in enumerate(zip(xs, counts, strict=True)):
        y = round(_HEIGHT * (1 - count / total), 1)
        if at:
            found.append(f"{x:g} {found[-1].partition(' ')[2]}")
        found.append(f"{x:g} {y:g}")
    return found


def _table(points: Sequence[Point]) -> list[tuple[str, dict[str, int]]]:
    step = max(1, -(-len(points) // _TABLE))
    chosen = [*points[:-1:step], *points[-1:]]
    return [(_shown(point.at), dict(zip(STATES, point.counts, strict=True))) for point in chosen]


def _findings(summary: Summary) -> list[_Line]:
    most = max([one.fixed + one.left for one in summary.findings] + [1])
    lines = []
    for one in summary.findings:
        fixed, left = _part(one.fixed, most), _part(one.left, most)
        bars = [("safe", f"{one.fixed} fixed", 0, fixed), ("none", f"{one.left} left", fixed, left)]
        numbers = (str(one.found), str(one.fixed), str(one.left))
        lines.append(_Line(one.codemod, "", tuple(bar for bar in bars if bar[3]), numbers))
    return lines


def _verified(summary: Summary) -> list[_Line]:
    one = summary.verified
    kinds = [
        ("by running", "something was run before and after the change", "state-verified", one.run),
        ("by analysis", "no program was run", "state-changed", one.analysed),
        (
            "refused",
            "what was run passed before the change and not after it: no commit",
            "state-failed",
            one.harm,
        ),
    ]
    total = sum(count for *_, count in kinds)
    return [
        _Line(
            label,
            note,
            ((name, "changes", 0, _part(count, total)),),
            (str(count), f"{100 * count / total:.0f} %"),
        )
        for label, note, name, count in kinds
        if count
    ]


def _listed(row: Row, results: str, look: Look, log: bool) -> _Listed:
    files, text = look(row.id)
    links = [(f"{results}/{quote(row.id)}/{name}", words) for name, words in _FILES if name in files]
    if is_link(row.pull_request):
        links.append((row.pull_request, f"pull request ({row.asked})" if row.asked else "pull request"))
    words = row.subject if row.commit and row.state not in ("failed", "superseded") else row.reason
    extra = [row.verified, row.decision, *row.notes[:3]]
    if len(row.notes) > 3:
        extra.append(f"and {len(row.notes) - 3} more notes")
    return _Listed(
        printable(row.name),
        printable(words),
        tuple(printable(one) for one in extra if one),
        tuple(links),
        "\n".join(map(printable, text.splitlines()[-_LINES:]))[-_LENGTH:] if log else "",
    )


def _failed(group: Group, at: int, results: str, look: Look) -> _Listed:
    """A member of a group, which says what the group does not."""
    one = _listed(group.rows[at], results, look, at < _LOGS)
    return replace(one, words="") if one.words == printable(group.reason) else one
