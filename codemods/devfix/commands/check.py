"""`devfix check`: list findings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from devfix.commands.helping import CANNOT, command, output, under, write_into
from devfix.commands.options import arguments
from devfix.commands.recovering import recovered
from devfix.commands.running import Run, code, complain
from devfix.documents.state import is_below, tree_of
from devfix.pipeline.signals import exit_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devfix.reports.report import FileResult, Report


_findings = under("Which findings")


@command(
    examples={
        "devfix check": "check the files in this folder",
        "devfix check --diff-only origin/main": "check only the lines that a branch has changed",
        "devfix check --format sarif src/ >devfix.sarif": "write a report for code scanning",
        "devfix check --write-baseline devfix.json": "record the current findings",
        "devfix check --baseline devfix.json": "show only new findings",
    },
    codes={0: "no findings", 1: "findings", 2: CANNOT},
)
@arguments
@output(
    "--format",
    "text and concise are for people, the others for other tools.",
    "form",
    type=click.Choice(
        ["text", "concise", "json", "sarif", "github", "github-suggestions", "gitlab", "junit"]
    ),
    default="text",
)
@_findings("--baseline FILE", "Leave out the findings that FILE lists.", type=click.Path())
@_findings("--write-baseline FILE", "Write all findings to FILE.", type=click.Path())
@_findings("--add-ignores", "Silence every finding with a comment; changes your files.")
@_findings("--diff-only REV", "Show only findings on lines changed since this git revision.")
@output("--statistics", "Count the findings instead of listing them.")
def check(
    form: str,
    statistics: bool,
    baseline: str | None,
    write_baseline: str | None,
    add_ignores: bool,
    diff_only: str | None,
    **options: Any,
) -> int:
    """List device bugs. PATH is a file, a folder (default: this one), or - for stdin."""
    run = Run(**options)
    _agree(
        ("--write-baseline", write_baseline is not None),
        ("--add-ignores", add_ignores),
        ("--statistics", statistics),
        ("--format", form not in ("text", "concise")),
    )
    if write_baseline is not None and diff_only is not None:
        raise click.UsageError("--write-baseline writes all findings, so leave out --diff-only")
    if form == "github-suggestions" and diff_only is None:
        raise click.UsageError("--format github-suggestions comments on changed lines; add --diff-only REV")
    if diff_only is not None and run.from_stdin:
        raise click.UsageError("--diff-only compares files, so the program cannot come from stdin")
    selection = run.selection(baseline, diff_only)
    if not run.from_stdin:
        recovered(run.paths, writes=add_ignores)
    from devfix.review import text

    shown = 0
    listed = form in ("text", "concise") and not statistics

    def show(result: FileResult) -> None:
        nonlocal shown
        if form == "concise":
            run.lines(text.concise(result.path, result.findings))
        else:
            run.lines(text.findings(result.path, result.findings, level=run.level_of, width=run.width))
        shown += 1

    early = (
        listed
        and selection is None
        and options["observed"] is None
        and write_baseline is None
        and not add_ignores
    )
    report = run.analyse(repair=False, each=show if early else None)
    run.errors(report)
    if write_baseline is not None:
        return _write_baseline(run, report, write_baseline)
    before = {result.path: len(result.findings) for result in report.results}
    if selection is not None:
        for keep, where in (
            (selection.of_baseline.keep, "in the baseline"),
            (_in_view if diff_only is not None else None, "not in the repository below this folder"),
            (selection.of_lines.keep, "not on changed lines"),
        ):
            left = report.findings
            report = report.only(keep) if keep is not None else report
            left -= report.findings
            if left and not run.quiet:
                run.note(f"{text.plural(left, 'finding')} left out: {where}")
    if add_ignores:
        return _add_ignores(run, report, before)
    if form == "github-suggestions":
        from devfix.review.suggestions import render

        assert selection is not None
        click.echo(render(report, selection.lines or {}))
    elif form not in ("text", "concise"):
        from importlib import import_module

        click.echo(import_module(f"devfix.review.{form}").render(report))
    else:
        from devfix.review import statistics as counts

        if not listed:
            run.lines(counts.lines(report))
        for result in report.results[shown:] if listed else ():
            show(result)
        if not run.quiet:
            for line in text.unused(report):
                run.note(line)
        run.summary(report, text.check_summary(report))
    return code(report, report.findings)


def _in_view(path: str, findings: Sequence[object]) -> Sequence[bool]:
    """Would git say what has changed in a file? Not in a submodule, nor outside of the working directory."""
    here, real = os.path.realpath(os.curdir), os.path.realpath(path)
    seen = is_below(real, here) and tree_of(os.path.dirname(real)) == tree_of(here)
    return [seen] * len(findings)


def _agree(*options: tuple[str, bool]) -> None:
    """Each of these says what comes out; raises click.UsageError where several are given."""
    given = [name for name, is_given in options if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} cannot be combined")


def _write_baseline(run: Run, report: Report, path: str) -> int:
    from devfix.pipeline.baseline import text_of
    from devfix.review.text import plural, printable

    write_into(path, text_of(report).encode("utf-8", "surrogatepass"))
    if not run.quiet:
        where = "; commit it, and check with --baseline" if path != "-" else ""
        run.note(f"{plural(report.findings, 'finding')} written into {printable(path)}{where}")
    return 2 if report.errors else 0


def _add_ignores(run: Run, report: Report, before: Mapping[str, int]) -> int:
    """Silence every finding by a comment; 2 if one could not be. `before` counts each file's before a selection."""
    from dataclasses import replace

    from devfix.documents import DocumentError, document_of, read_bytes
    from devfix.pipeline.ignores import ignored
    from devfix.pipeline.writing import write
    from devfix.review.text import plural, printable

    if run.task is None or run.from_stdin:
        raise click.UsageError("--add-ignores changes files, so the program cannot come from stdin")
    results, left = [], 0
    for result in report.results:
        if not result.findings:
            continue
        why = "comments cannot silence what was found there"
        try:
            document = document_of(result.path, read_bytes(result.path))
            others = before[result.path] - len(result.findings)
            done = ignored(document, result.findings, others, run.task)
        except DocumentError as error:
            done, why = None, error.message
        if done is None:
            left += 1
            run.note(f"devfix: {printable(result.path)}: {why}")
        else:
            results.append(done)
    written = write(replace(report, results=tuple(results)), os.getcwd())
    run.errors(replace(written, errors=tuple(set(written.errors) - set(report.errors)), skipped=()))
    back = "; `devfix undo` takes it back" if written.written else ""
    if not run.quiet:
        run.note(f"{plural(len(written.written), 'file')} written{back}")
    if written.interrupted:
        complain("interrupted; the others were left as they are")
        return exit_code()
    return 2 if left or written.errors else 0
