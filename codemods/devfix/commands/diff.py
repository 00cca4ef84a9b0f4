"""`devfix diff`: print the repairs as a patch."""

from __future__ import annotations

from typing import Any

import click

from devfix.commands.running import Run, arguments, code


@click.command()
@arguments
@click.option("--explain", is_flag=True, help="Say before each hunk which codemod made it, and why.")
def diff(explain: bool, **options: Any) -> int:
    """Print the repairs as a patch for `git apply`; write nothing."""
    run = Run(**options)
    report = run.analyse(repair=True)
    from devfix.review import patch, text

    run.patch(patch.patch(report, explain=explain))
    run.errors(report)
    for result in report.changed:
        if patch.outside(result.path):
            name = text.printable(result.path)
            run.note(f"devfix: {name}: outside the working directory, where `git apply` writes nothing")
    run.summary(report, text.change_summary(report))
    return code(report, len(report.changed))
