"""`devfix diff --format html`: the page on which every fix is decided."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import need_html, write_out
from devfix.commands.running import Run, code

if TYPE_CHECKING:
    from devfix.reports.report import Report


def check(run: Run, output: str | None, several: object, smoke: object) -> None:
    """Raise click.UsageError for what does not go together with a page, before the work begins."""
    if several:
        raise click.UsageError("--format html makes one page: leave out --by, --split and --explain")
    if run.from_stdin:
        raise click.UsageError("--format html is for files, so the program cannot come from stdin")
    if output is None and sys.stdout.isatty():
        raise click.UsageError("--format html writes a page: name a file for it, such as -o review.html")
    need_html("--format html")
    if smoke:
        from devfix.commands.smoke import need_torch

        need_torch("--smoke-cmd")


def tried(report: Report, command: str, seconds: float) -> Report:
    """The report with what came of running a command before and after its changes."""
    from devfix.commands.smoke import tried as run_both
    from devfix.review.text import printable

    if not report.changed:
        return report
    report, trial = run_both(report, command, seconds=seconds)
    if trial is not None:
        click.echo(f"devfix: {printable(trial.word)}", err=True)
    return report


def write(run: Run, report: Report, output: str | None) -> int:
    """Write the page of a report; the exit code is that of any diff."""
    from devfix.review import text
    from devfix.review.html import render

    data = render(
        report,
        command=_command(run),
        paths=shlex.join(run.paths),
        name=os.path.basename(os.getcwd()),
    )
    if output is None:
        write_out(data)
    else:
        run.patch(data, output)
    run.errors(report)
    if output is not None and not run.quiet:
        run.note(f"devfix: {text.printable(output)} is ready: open it in a browser")
    run.summary(report, text.change_summary(report))
    return code(report, len(report.changed))


def _command(run: Run) -> str:
    """The command that makes what was accepted, with the options that devfix needs to find the same."""
    words = ["devfix", "apply"]
    for name, option in _SAME.items():
        given = run.options[name] or ()
        for one in [given] if isinstance(given, str) else given:
            words += [option, one]
    if run.options["project"] is not None:
        words.append("--project" if run.options["project"] else "--no-project")
    return shlex.join(words)


_SAME = {
    "options": "--option",
    "config": "--config",
    "recipe": "--recipe",
    "project_root": "--project-root",
    "codemods": "--codemod",
    "arguments": "--codemod-arg",
    "exclude_codemods": "--exclude-codemod",
}
