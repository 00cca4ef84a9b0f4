"""Annotations of GitHub Actions: workflow commands that a job prints.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator

from devfix.pipeline.selection import in_tree
from devfix.reports.report import PlacedFinding, Report
from devfix.review.text import plain, printable


def render(report: Report) -> str:
    """One line for each finding and each error; without the last line's end."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    for result in report.results:
        for finding in result.findings:
            yield _command(
                "warning",
                _where(result.path, finding),
                printable(finding.message) + plain(result.path, finding),
            )
    for error in report.errors:
        yield _command(
            "error",
            {"file": printable(in_tree(error.path)), "title": f"devfix: {error.stage}"},
            printable(error.message),
        )


def _where(path: str, finding: PlacedFinding) -> dict[str, str]:
    place = finding.place
    where = {"file": printable(in_tree(path)), "line": str(place.line)}
    if not place.cell:
        where["col"] = str(place.column)
        where["endLine"] = str(place.end_line)
        if place.end_line == place.line:
            where["endColumn"] = str(place.end_column)
    where["title"] = f"devfix {finding.codemod}"
    return where


def _command(name: str, properties: dict[str, str], text: str) -> str:
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
