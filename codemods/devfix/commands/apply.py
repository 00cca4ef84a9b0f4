"""`devfix apply`: make the fixes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from devfix.commands.helping import CANNOT, command, output, under, write_out
from devfix.commands.options import arguments, seconds_option
from devfix.commands.recovering import recovered
from devfix.commands.running import Run, code, complain
from devfix.documents.state import tree_of
from devfix.pipeline.selection import Selection, fingerprints, in_tree
from devfix.pipeline.signals import exit_code

if TYPE_CHECKING:
    from devfix.pipeline.decisions import Decisions
    from devfix.reports.report import Report


_which, _smoke = under("Which fixes"), under("Run the program first")


@command(
    examples={
        "devfix apply": "make the safe fixes in this folder",
        "devfix apply --unsafe -i train.py": "ask before each fix, unsafe ones too",
        'devfix apply --smoke-cmd "python train.py --steps 2"': "write only if the program then runs",
        "devfix undo": "undo the last apply",
    },
    codes={0: "done, or nothing to do", 1: "with --exit-code: files were changed", 2: CANNOT},
)
@arguments
@output("--format", "The format of the output.", "form", type=click.Choice(["text", "json"]), default="text")
@output("--exit-code", "Exit with 1 if files were changed, as diff does.", "tells")
@_which("--interactive -i", "Ask about every fix, like `git add -p`.")
@_which("--decisions FILE", "Make the fixes that you accepted on the review page.", type=click.Path())
@_smoke(
    "--smoke/--no-smoke",
    "Whether to run the codemods' examples and the changed code first (default: no).",
    default=False,
)
@_smoke("--smoke-cmd COMMAND", "Run this command in copies of the repository, before and after the fixes.")
@seconds_option(_smoke)
def apply(
    form: str,
    tells: bool,
    interactive: bool,
    decisions: str | None,
    smoke: bool,
    smoke_cmd: str | None,
    smoke_seconds: float,
    **options: Any,
) -> int:
    """Make the fixes: rewrite the files, or stdin to stdout."""
    run = Run(**options)
    if interactive and run.from_stdin:
        raise click.UsageError(
            "--interactive reads answers from stdin, so the program cannot come from stdin"
        )
    if interactive and decisions is not None:
        raise click.UsageError("--interactive and --decisions cannot be combined")
    if form == "json" and (interactive or run.from_stdin):
        raise click.UsageError("--format json is about files, without --interactive: other text is on stdout")
    if options["observed"] is not None and decisions is not None:
        raise click.UsageError("--decisions and --observed cannot be combined")
    if options["safe"] and decisions is not None:
        raise click.UsageError("--decisions makes what you accepted, unsafe fixes too, so leave out --safe")
    given = None
    if decisions is not None:
        given, run.options["safe"] = _decisions(decisions), False
    if smoke or smoke_cmd:
        from devfix.commands.smoke import need_torch, prove

        need_torch("--smoke")
    if not run.from_stdin:
        recovered(run.paths, writes=True)
    report = run.analyse(repair=True, selection=Selection(only=given.accepted) if given else None)
    if given is not None:
        report = _unchanged(report, given, str(decisions))
    if interactive:
        from devfix.commands.review import Review

        assert run.task is not None
        review = Review(report, run.task, tree_of(os.getcwd()), run.color, run.may_change)
        report = review.decide() or report
    if (smoke or smoke_cmd) and report.changed:
        proved = prove(report, run_examples=smoke, command=smoke_cmd, seconds=smoke_seconds)
        if proved is None:
            if run.stdin is not None:
                write_out(run.stdin)
            run.errors(report)
            return 2
        report = proved
    if run.stdin is not None:
        # What cannot be repaired comes out as it went in: a pipe must not lose it.
        write_out(report.changed[0].after if report.changed else run.stdin)
        run.errors(report)
        return code(report, len(report.changed) if tells else 0)
    from devfix.pipeline.writing import write

    report = write(report, os.getcwd())
    run.errors(report)
    if form == "json":
        from devfix.review.json import render

        click.echo(render(report))
    else:
        from devfix.review import text

        written = set(report.written)
        if not run.quiet:
            run.lines(text.repaired(result) for result in report.changed if result.path in written)
        for result in report.results if not interactive else ():  # who was asked has seen them
            if not result.changed or result.path in written:
                run.lines(
                    text.findings(result.path, result.remaining, level=report.level_of, width=run.width)
                )
        run.summary(report, text.change_summary(report, "written"))
    if report.interrupted:
        left = [one.path for one in report.changed if one.path not in set(report.written)]
        files = ", ".join(report.written) or "nothing"
        complain(f"interrupted; {len(report.written)} of {len(report.changed)} files were written: {files}")
        complain(f"not written: {', '.join(left) or 'nothing'}")
        return exit_code()
    return code(report, len(report.written) if tells else 0)


def _decisions(path: str) -> Decisions:
    from devfix.documents import DocumentError, read_bytes
    from devfix.pipeline.decisions import DecisionsError, read

    try:
        return read(read_bytes(path).decode("utf-8", "replace"))
    except (DecisionsError, DocumentError) as error:
        raise click.ClickException(f"{path}: {error}") from error


def _unchanged(report: Report, given: Decisions, name: str) -> Report:
    """The report without the changes of files that are not as they were when they were decided on.

    Decisions on what is not there are an error of their file, `name`.
    """
    from devfix.reports.report import FileError
    from devfix.review.text import plural

    why = "changed since it was reviewed, so nothing in it was written; review it again"
    results, errors = [], list(report.errors)
    refused = {
        in_tree(result.path)
        for result in report.changed
        if not result.made and given.files.get(in_tree(result.path)) != result.digest
    }
    for result in report.results:
        others = {in_tree(path) for change in result.changes for path in change.also}
        if result.changed and (in_tree(result.path) in refused or others & refused):
            errors.append(FileError(result.path, "write", why))
            result = replace(result, after=result.before, changes=())
        results.append(result)
    if gone := len(given.accepted - {known for _, _, known in fingerprints(report)}):
        why = f"{plural(gone, 'accepted fix', 'es')} not found: the code has changed, or the page is of another folder"
        errors.append(FileError(name, "read", why))
    return replace(report, results=tuple(results), errors=tuple(sorted(errors, key=lambda one: one.path)))
