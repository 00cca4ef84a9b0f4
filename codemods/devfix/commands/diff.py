"""`devfix diff`: print the fixes as a patch, or as several."""

from __future__ import annotations

import os
import re
from glob import glob
from typing import TYPE_CHECKING, Any

import click

from devfix.commands import page
from devfix.commands.helping import CANNOT, command, output, under, write_into
from devfix.commands.options import arguments, seconds_option
from devfix.commands.recovering import recovered
from devfix.commands.running import Run, code
from devfix.documents.state import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devfix.pipeline.series import By, Step

_BY = click.Choice(["codemod", "file", "fix"])


_NUMBERED = "[0-9][0-9][0-9][0-9]*-*.patch"
_page = under("For --format html")


@command(
    examples={
        "devfix diff": "show what `devfix apply` would write",
        "devfix diff --explain --unsafe src/": "also give the reason for each hunk",
        "devfix diff --unsafe | git apply": "let git make the changes",
        "devfix diff --format html -o review.html": "decide on each fix in a browser",
    },
    codes={0: "nothing to change", 1: "changes", 2: CANNOT},
)
@arguments
@output("--explain", "Say above each hunk which codemod made it, and why.")
@output(
    "--format",
    "patch: for `git apply`; mbox: for `git am`; html: a page on which to accept fixes.",
    "form",
    type=click.Choice(["patch", "mbox", "html"]),
    default="patch",
)
@output(
    "--by", "Make one patch or commit for each codemod, file or fix (default for mbox: codemod).", type=_BY
)
@output("--output -o FILE", "Write to FILE instead of stdout.", type=click.Path())
@output("--split DIR", "Write the patches of --by to this folder.", type=click.Path())
@_page(
    "--smoke-cmd COMMAND",
    "Also run this command in copies of the repository, before and after, and show the result.",
)
@seconds_option(_page)
def diff(
    explain: bool,
    form: str,
    by: By | None,
    output: str | None,
    split: str | None,
    smoke_cmd: str | None,
    smoke_seconds: float,
    **options: Any,
) -> int:
    """Print the fixes as a patch for `git apply`; change nothing.

    With --split the patches are numbered: apply them in that order.
    """
    run = Run(**options)
    if split is not None and output is not None:
        raise click.UsageError(
            "--split names a folder for the patches and --output one file; give one of them"
        )
    output = None if output == "-" else output
    if form == "html":
        page.check(run, output, by or split or explain, smoke_cmd)
    elif smoke_cmd:
        raise click.UsageError("--smoke-cmd is for --format html; `devfix smoke` runs a command alone")
    if not run.from_stdin:
        recovered(run.paths, writes=False)
    report = run.analyse(repair=True)
    from devfix.review import patch, text

    if form == "html":
        return page.write(run, page.tried(report, smoke_cmd, smoke_seconds) if smoke_cmd else report, output)

    shown = report
    if by is None and split is None and form == "patch":
        run.patch(patch.patch(report, explain=explain), output)
    else:
        from devfix.pipeline.series import together

        steps = run.steps(report, by or "codemod")
        shown = together(report, steps)
        if split is not None:
            _split(run, steps, split, form, explain)
        elif form == "mbox":
            from devfix.review.mbox import render

            run.patch(render(steps), output)
        else:
            run.patch(b"".join(patch.patch(step.report, explain=explain) for step in steps), output)
    run.errors(report)
    here = tree_of(os.curdir)
    for result, made in zip(report.results, shown.results, strict=True):
        if not result.changed:
            continue
        name, tree = text.printable(result.path), tree_of(os.path.dirname(os.path.realpath(result.path)))
        if patch.outside(result.path):
            run.note(f"devfix: {name}: outside the working directory, where `git apply` writes nothing")
        elif form == "mbox" and tree != here and os.path.exists(os.path.join(tree, ".git")):
            run.note(
                f"devfix: {name}: in another repository, so `git am` refuses the commit; run devfix there"
            )
        if made.after != result.after:
            run.note(
                f"devfix: {name}: one by one, not all fixes are made, since some need others, or need not be "
                "made after them; apply these and run devfix again"
            )
    run.summary(shown, text.change_summary(shown))
    return code(report, len(report.changed))


def _split(run: Run, steps: Sequence[Step], folder: str, form: str, explain: bool) -> None:
    from devfix.review import patch
    from devfix.review.mbox import render

    made: dict[str, bytes] = {}
    for number, step in enumerate(steps, 1):
        data = render([step]) if form == "mbox" else patch.patch(step.report, explain=explain)
        name = re.sub(r"[^\w.-]+", "-", step.name).strip("-")[:60] or "fix"
        made[f"{number:04}-{name}.patch"] = data
    if earlier := sorted(set(glob(_NUMBERED, root_dir=folder)) - made.keys()):
        what = f"{earlier[0]} is there already, and would be applied with these patches"
        raise click.ClickException(f"{folder}: {what}; remove it, or name another folder")
    for name, data in made.items():
        path = os.path.join(folder, name)
        write_into(path, data, folder=True)
        run.note(path)
