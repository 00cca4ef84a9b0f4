"""The review page: one file that opens from disk, with every finding, every fix and its diff, to decide on.

`page.html` is the template; `page.css` and the scripts are put into it, so the page loads nothing. Its
Content-Security-Policy allows these and nothing else, by their hashes. All that comes from the analysed files
is data: JSON that the scripts make text nodes of, never markup.
"""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

from devfix.documents import read_bytes
from devfix.reports.report import Report
from devfix.review.html.frame import MissingLibraries, asset, made, need_libraries

if TYPE_CHECKING:
    from devfix.review.html.texts import Read

__all__ = ["MissingLibraries", "need_libraries", "render"]

_SCRIPTS = ("state.js", "filters.js", "diff.js", "cards.js", "list.js", "decide.js", "start.js")


def render(
    report: Report,
    *,
    read: Read = read_bytes,
    command: str = "devfix apply",
    paths: str = ".",
    name: str = "",
) -> bytes:
    """The page of a report, UTF-8.

    `read` gives the bytes of files that the report itself has not. `command` and `paths` are what a shell
    takes, for the command at the end that makes the accepted fixes; `name` tells pages apart, such as that
    of the repository's folder. Raises MissingLibraries.
    """
    need_libraries()
    from markupsafe import Markup

    from devfix.review.html import charts
    from devfix.review.html.model import Page
    from devfix.review.text import printable

    page = Page(report, read)
    bodies = [_json(body) for body in page.bodies()]
    found = [page.finding(item) for item in page.items]
    index = {
        "id": page.id(),
        "command": command,
        "paths": paths,
        "files": [page.file(path) for path in page.paths],
        "digests": page.digests(),
        "findings": found,
        "codemods": _codemods(sorted({one["codemod"] for one in found})),
    }
    script = "'use strict';\n(() => {\n" + "\n".join(map(asset, _SCRIPTS)) + "\n})();\n"
    folders = []
    for item, one in zip(page.items, found, strict=True):
        folder = item.path.rpartition("/")[0]
        folders.append(
            (f"{printable(folder)}/" if folder else "", printable(folder) or "(top)", one["safety"])
        )
    return made(
        "page.html",
        ["page.css"],
        script,
        index=Markup(_json(index)),
        bodies=[Markup(body) for body in bodies],
        report=report,
        errors=[(printable(error.path), error.stage, printable(error.message)) for error in report.errors],
        skipped=[(printable(one.path), printable(one.reason)) for one in report.skipped],
        kinds=charts.KINDS,
        charts=[
            (
                "codemod",
                "By codemod",
                charts.rows((one["codemod"], one["codemod"], one["safety"]) for one in found),
            ),
            ("folder", "By folder", charts.rows(folders)),
        ],
        total=len(found),
        decidable=sum(1 for item in page.items if not item.why),
        paths=printable(paths),
        name=printable(name),
    )


def _json(value: Any) -> str:
    """JSON that can stand in a script element: ASCII, and nothing that ends the element."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _codemods(ids: list[str]) -> dict[str, dict[str, str]]:
    """What each codemod says of itself, for someone who has never heard of it."""
    from devfix.own.known import Known

    known = Known()
    found = {}
    for id in ids:
        text = inspect.getdoc(known[id]) or "" if id in known else ""
        title, _, rest = text.partition("\n")
        parts = dict.fromkeys(("What it does", "Why is this bad?", "Fix safety"), "")
        for section in rest.split("\n## ")[1:] if rest.startswith("\n## ") else rest.split("## ")[1:]:
            heading, _, words = section.partition("\n")
            if heading.strip() in parts:
                parts[heading.strip()] = words.strip()
        found[id] = {
            "title": title.strip(),
            "what": parts["What it does"],
            "bad": parts["Why is this bad?"],
            "safety": parts["Fix safety"],
        }
    return found
