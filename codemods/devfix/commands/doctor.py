"""`devfix doctor`: is everything in order here?"""

from __future__ import annotations

import click

from devfix.commands.helping import command, option
from devfix.commands.options import format_option
from devfix.commands.running import tell


@command(
    examples={
        "devfix doctor": "check everything",
        "devfix doctor --no-torch": "check without starting torch",
    },
    codes={
        0: "everything works; something optional may be missing",
        1: "devfix works, but not all of it",
        2: "devfix cannot be relied on here",
    },
)
@click.argument("path", default=".", type=click.Path(exists=True), metavar="[PATH]")
@format_option
@option(
    "--torch/--no-torch", "Whether to start torch and run programs (default: yes).", "torch", default=True
)
def doctor(path: str, form: str, torch: bool) -> int:
    """Check devfix, its libraries, torch, the simulator and the settings for PATH.

    At the end a known bug is found, fixed and, with torch, run before and after. Nothing is written.
    """
    from devfix.doctor import examine
    from devfix.doctor.health import document, text

    health = examine(path, torch=torch)
    if form == "json":
        import json

        click.echo(json.dumps(document(health), indent=2))
    else:
        for line in text(health):
            tell(line)
    return health.exit_code
