"""`devfix stats`: where devices come from in a repository, and how portable it is."""

from __future__ import annotations

import os

import click

from devfix.commands.helping import command, need_html, write_into
from devfix.commands.options import paths_argument


@command(
    examples={
        "devfix stats": "count in this folder",
        "devfix stats --html devices.html src/": "also write a page",
    },
    codes={0: "done", 2: "a file could not be read"},
)
@paths_argument
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The format of the output.",
)
@click.option("--html", metavar="FILE", help="Also write a page; needs devfix[html].")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=2,
    metavar="N",
    help="Count folders apart down to this depth (default: 2).",
)
@click.option(
    "--include", multiple=True, metavar="GLOB", help="In folders, read only files that match; repeatable."
)
@click.option(
    "--exclude", multiple=True, metavar="GLOB", help="In folders, skip files that match; repeatable."
)
@click.option(
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Number of processes; 0: one per core (default).",
)
def stats(
    paths: tuple[str, ...],
    format_: str,
    html: str | None,
    depth: int,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int,
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
    repository = counting.repository(found, jobs=jobs)
    made = tables(repository, depth, _base(paths))
    if html is not None:
        _page(repository, made, html, os.path.basename(os.path.abspath(paths[0])))
    if format_ == "json":
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


def _page(repository: object, tables: object, path: str, name: str) -> None:
    from devfix.review.html.devices import render
    from devfix.stats import Repository
    from devfix.stats.tables import Tables

    assert isinstance(repository, Repository) and isinstance(tables, Tables)
    write_into(path, render(repository, tables, name))
