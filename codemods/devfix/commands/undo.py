"""`devfix undo`: take the last apply back."""

from __future__ import annotations

import os

import click

from devfix.commands.helping import command
from devfix.commands.running import complain, tell
from devfix.pipeline.signals import exit_code


@command(
    examples={"devfix undo": "take back the last apply in this repository"},
    codes={0: "done, or nothing to undo", 2: "a file could not be restored"},
)
def undo() -> int:
    """Take back what the last `devfix apply` wrote here, byte for byte.

    Files that have changed since are left alone and named. Run it again to take back the apply before that.
    """
    from devfix.commands.recovering import recovered
    from devfix.documents import DocumentError
    from devfix.documents.journal import last
    from devfix.documents.journal import undo as take_back
    from devfix.documents.state import tree_of
    from devfix.review.text import plural

    recovered((), writes=True)
    try:
        journal = last(tree_of(os.getcwd()))
        if journal is None:
            click.echo("nothing to undo: no apply has written anything here", err=True)
            return 0
        done = take_back(journal)
    except DocumentError as error:
        raise click.ClickException(error.message) from error
    for path in done.restored:
        tell(f"{os.path.relpath(path)}: restored")
    for path, why in done.refused:
        tell(f"devfix: {os.path.relpath(path)}: {why}", err=True)
    if done.interrupted:
        complain(
            f"interrupted; {plural(len(done.restored), 'file')} restored; run `devfix undo` again for the others"
        )
        return exit_code()
    if not done.restored and not done.refused:
        click.echo(
            f"nothing to undo: the files of the apply of {journal.when} are as they were before it", err=True
        )
        return 0
    click.echo(f"{plural(len(done.restored), 'file')} of the apply of {journal.when} restored", err=True)
    return 2 if done.refused else 0
