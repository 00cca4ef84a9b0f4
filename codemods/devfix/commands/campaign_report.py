"""`devfix migrate report`: a campaign as a page, as tables for other programs, and for a tracking issue."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devfix.commands.campaign import campaign_argument, code
from devfix.commands.helping import SOME_FAILED, command, need_html, option, write_into

if TYPE_CHECKING:
    from devfix.review.html.campaign import Look


@command(
    examples={"devfix migrate report spring --html report.html": "write a page with everything"},
    codes=SOME_FAILED,
)
@campaign_argument
@option("--html FILE", "Write a page with everything; needs devfix[html].")
@option("--csv FILE", "Write a table with a line for each repository.", "csv_")
@option("--json FILE", "Write all numbers and repositories.", "json_")
@option("--markdown FILE", "Write a summary for a tracking issue.")
def report(campaign: str, html: str | None, csv_: str | None, json_: str | None, markdown: str | None) -> int:
    """Report on the campaign, also while it runs. FILE may be -, for stdout. Default: --markdown -."""
    from devfix.migrate import campaigns, exports, summary

    if html is not None:
        need_html()
    if not (html or csv_ or json_ or markdown):
        markdown = "-"
    with campaigns.opened(campaign) as store, store.unchanging():
        found = summary.summary(store)
        if html is not None:
            from devfix.review.html.campaign import render

            here = os.path.dirname(os.path.abspath(html)) if html != "-" else os.getcwd()
            write_into(html, render(found, _way(campaign, here), _looker(campaign)))
        if csv_ is not None:
            write_into(csv_, exports.as_csv(store))
        if json_ is not None:
            write_into(json_, exports.as_json(store, found))
        if markdown is not None:
            write_into(markdown, exports.as_markdown(store, found))
        return code(store)


def _way(campaign: str, here: str) -> str:
    """From a page to the results, as a relative address."""
    from urllib.parse import quote

    from devfix.migrate import folders

    way = os.path.relpath(
        os.path.dirname(folders.results(os.path.realpath(campaign), "x")), os.path.realpath(here)
    )
    return quote(way.replace(os.sep, "/"), errors="surrogateescape")


def _looker(campaign: str) -> Look:
    from devfix.migrate import folders

    def look(id: str) -> tuple[frozenset[str], str]:
        folder = folders.results(campaign, id)
        names = frozenset(os.listdir(folder)) if os.path.isdir(folder) else frozenset()
        log = folders.read(os.path.join(folder, "log.txt")) if "log.txt" in names else b""
        return names, log[-20_000:].decode("utf-8", "replace")

    return look
