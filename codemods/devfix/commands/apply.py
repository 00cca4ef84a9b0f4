"""`devfix apply`: make the repairs."""

from __future__ import annotations

import os
from typing import Any

import click

from devfix.commands.running import Run, arguments, code, complain, write_out


@click.command()
@arguments
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--smoke/--no-smoke", default=False, help="First run the smoke tests of the codemods used.")
@click.option("--smoke-cmd", metavar="COMMAND", help="First run this in copies, before and after the repair.")
@click.option("--smoke-seconds", type=click.FloatRange(1), default=300.0, metavar="S", help="Its time limit.")
def apply(form: str, smoke: bool, smoke_cmd: str | None, smoke_seconds: float, **options: Any) -> int:
    """Make the repairs: rewrite the files, or stdin to stdout."""
    run = Run(**options)
    if smoke or smoke_cmd:
        from devfix.commands.smoke import need_torch, prove

        need_torch("--smoke")
    report = run.analyse(repair=True)
    if (smoke or smoke_cmd) and report.changed:
        proved = prove(report, run_examples=smoke, command=smoke_cmd, seconds=smoke_seconds)
        if proved is None:
            run.errors(report)
            return 2
        report = proved
    if run.stdin is not None:
        # What cannot be repaired comes out as it went in: a pipe must not lose it.
        write_out(report.changed[0].after if report.changed else run.stdin)
        run.errors(report)
        return code(report, len(report.changed))
    from devfix.documents.cache import cache_folder
    from devfix.writing import write

    report = write(report, cache_folder(os.getcwd()))
    run.errors(report)
    if form == "json":
        run.json(report)
    else:
        from devfix.review import text

        written = set(report.written)
        if not run.quiet:
            run.lines(text.repaired(result) for result in report.changed if result.path in written)
        for result in report.results:
            if not result.changed or result.path in written:
                run.lines(text.findings(result.path, result.remaining, level=report.level))
        run.summary(report, text.change_summary(report, "written"))
    if report.interrupted:
        files = ", ".join(report.written) or "nothing"
        complain(f"interrupted; {len(report.written)} of {len(report.changed)} files were written: {files}")
        return 130
    return code(report, len(report.written))
