"""The results of `devfix.check` and `devfix.fix` as HTML for a notebook: a card for each finding, or changed file.

Only elements with styles of their own: a notebook may keep scripts and style sheets from working.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from devfix.review.patch import hunk_lines
from devfix.review.text import printable

if TYPE_CHECKING:
    from devfix.results import Checked, Finding, Fixed, FixedFile, Problem

_MOST = 50  # cards
_COLOURS = {"safe": "#2e7d32", "unsafe": "#b26a00", "manual": "#c62828", "+": "#2e7d32", "-": "#c62828"}


def checked(result: Checked) -> str:
    """The findings of a check."""
    return _page(repr(result), [*map(_finding, result.findings), *map(_problem, result.problems)])


def fixed(result: Fixed) -> str:
    """The differences of what was fixed, and the findings that are left."""
    changes = (_card(file.path, ", ".join(file.codemods), _diff(file)) for file in result.files)
    return _page(repr(result), [*changes, *map(_finding, result.remaining), *map(_problem, result.problems)])


def _page(title: str, cards: list[str]) -> str:
    more = f"<p>and {len(cards) - _MOST} more</p>" if len(cards) > _MOST else ""
    return f"<div><p><b>{escape(title.strip('<>'))}</b></p>{''.join(cards[:_MOST])}{more}</div>"


def _finding(finding: Finding) -> str:
    line = f"cell {finding.cell}:{finding.cell_line}" if finding.cell else str(finding.line)
    body = f"<p>{escape(printable(finding.message))}</p><pre>{_shown(finding.code)}</pre>"
    if finding.safety is not None:
        label = finding.safety.label
        body += (
            f'<p><b style="color:{_COLOURS[label]}">fix ({label})</b>: {escape(printable(finding.fix))}</p>'
        )
    return _card(f"{finding.path}:{line}:{finding.column}", finding.codemod, body)


def _problem(problem: Problem) -> str:
    return _card(problem.path, "could not be done", f"<p>{escape(printable(problem.message))}</p>")


def _card(where: str, what: str, body: str) -> str:
    head = f"<code>{escape(printable(where))}</code> <b>{escape(what)}</b>"
    return (
        f'<div style="border:1px solid #8888;border-radius:4px;margin:8px 0;padding:8px">{head}{body}</div>'
    )


def _diff(file: FixedFile) -> str:
    lines = hunk_lines(*(data.decode("utf-8", "replace") for data in (file.before, file.after)))
    coloured = (
        f'<span style="color:{_COLOURS.get(line[:1], "inherit")}">{_shown(line)}</span>' for line in lines
    )
    return f"<pre>{chr(10).join(coloured)}</pre>"


def _shown(line: str) -> str:
    return escape("".join(c if c.isprintable() else " " for c in line))
