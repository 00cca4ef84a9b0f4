"""`devfix stats`: where devices come from in a repository, and how portable it is."""

from __future__ import annotations

import os

import click

from devfix.commands.helping import command, need_html, option, write_into
from devfix.commands.options import all_of, files_options, format_option, jobs_option, paths_argument


@command(
    examples={
        "devfix stats": "count in this folder",
        "devfix stats --html devices.html src/": "also write a page",
    },
    codes={0: "done", 2: "a file could not be read"},
)
@paths_argument
@format_option
@option("--html FILE", "Also write a page; needs devfix[html].")
@option(
    "--depth N", "Count folders apart down to this depth (default: 2).", type=click.IntRange(1), default=2
)
@all_of([*files_options(), jobs_option()])
def stats(
    paths: tuple[str, ...],
    form: str,
    html: str | None,
    depth: int,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
) -> int:
    """Count where a program gets its devices from: arguments, configuration, other values, literals.

    A placement is code that chooses a device: a factory, .to, .cuda, map_location. It is device-agnostic if the
    device is a value that can change, not a literal such as "cuda:0". Nothing is changed.
    """
    from devfix import stats as counting
    from devfix.commands.running import complain
    from devfix.pipeline.discover import discover
    from devfix.review import devices
    from devfix.stats.tables import tables
    from devfix.text.globs import Globs

    if html is not None:
        need_html()
    here = os.getcwd()
    found = discover(paths, Globs(here, include), Globs(here, exclude))
    repository = counting.repository(found, jobs=jobs or 0)
    made = tables(repository, depth, _base(paths))
    if html is not None:
        from devfix.review.html.devices import render

        write_into(html, render(repository, made, os.path.basename(os.path.abspath(paths[0]))))
    if form == "json":
        import json

        click.echo(json.dumps(devices.document(repository, made), indent=2))
    else:
        for line in devices.lines(repository, made):
            click.echo(line)
    for error in repository.errors:
        complain(f"{error.path}: {error.error}")
    return 2 if repository.errors else 0


def _base(paths: tuple[str, ...]) -> str:
    """The folder that all files are in, as `discover` writes it; empty where there are several, or it is here."""
    from devfix.pipeline.selection import posix

    if len(paths) > 1 or not os.path.isdir(paths[0]):
        return ""
    shown = posix(os.path.relpath(os.path.realpath(paths[0])))
    return "" if shown == "." else shown
