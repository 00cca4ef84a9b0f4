"""`devfix run`: a program on simulated CUDA devices, or on the real ones that are there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import command, say

if TYPE_CHECKING:
    from devfix.simulate.supervise import Ended

CANNOT = 2


@command(
    examples={
        "devfix run train.py --epochs 1": "does it run on a GPU?",
        "devfix run --keep-going train.py": "all device errors of one run",
        "devfix run --devices 2 -m package.train": "two devices; a module",
    },
    codes={
        0: "the program's own exit code",
        1: "with --keep-going: there were device errors",
        2: "it could not be run",
    },
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--devices",
    type=click.IntRange(0, 64),
    default=1,
    metavar="N",
    help="cuda:0 to N-1 (default: 1); 0 with --keep-going only: a machine without CUDA.",
)
@click.option(
    "--keep-going", is_flag=True, help="Note every device error, carry it out, and report at the end."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Of the report of --keep-going.",
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as in python -m.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(
    devices: int, keep_going: bool, form: str, module: bool, program: str, arguments: tuple[str, ...]
) -> int:
    """Run a program with CUDA simulated on the CPU.

    PROGRAM and what it imports are run: it can do whatever you can. Its processes see cuda:0 to
    cuda:N-1 on a CPU build of torch, and mixing devices raises CUDA's own errors. Where there is a
    real GPU, it runs on that.

    With --keep-going, the program goes on after each device error as if the stray tensor had been moved.
    """
    if not keep_going and (form != "text" or not devices):
        raise click.UsageError("--format and --devices 0 are for --keep-going")
    if not module and not os.path.exists(program):
        raise click.ClickException(f"{program}: no such file")
    from devfix.simulate import supervise

    command = supervise.python([*(["-m"] if module else []), program, *arguments])
    try:
        ended = supervise.run(command, max(devices, 1), cpu=not devices, keep_going=keep_going)
    except OSError as error:
        raise click.ClickException(f"{program} could not be started: {error}") from error
    code = _tell(ended)
    return _report(ended, code, form) if keep_going and code != CANNOT else code


def _report(ended: Ended, code: int, form: str) -> int:
    """What the run has gone on after; on stderr, or as JSON on stdout, where the program's output is, too."""
    from devfix.review import device_errors

    rows = list(device_errors.rows(ended.seen, ended.main.files))
    if form == "json":
        click.echo(device_errors.as_json_text(rows, code))
        return 1 if ended.seen else code
    if not ended.seen:
        say("no device errors")
        return code
    total = sum(seen.count for seen in ended.seen)
    errors = f"{len(ended.seen)} distinct device error{'s' * (len(ended.seen) > 1)} ({total} in all)"
    causes = sum(len(seen.each()) for seen in ended.seen)
    say(
        f"{errors}, of {causes} stray{'s' * (causes > 1)}; the program went on and ended with exit code {code}"
    )
    for line in device_errors.text(ended.seen, rows):
        click.echo(f"  {line}", err=True)
    return 1


def _tell(ended: Ended) -> int:
    from devfix.commands import advice

    assert ended.code is not None
    main, code = ended.main, ended.code
    if main.place.startswith("cuda") and "simulated" not in main.place:
        say(f"nothing was simulated: this was {main.place}")
    if any(told.cannot for told in ended.told) and code == CANNOT:
        return CANNOT  # the process itself has said why
    unchecked = ended.unchecked
    if code and unchecked:
        say(f"not checked: {unchecked}")
        return CANNOT
    if unchecked:
        say(f"not everything was checked: {unchecked}")
    raised = advice.device_error(tuple(ended.errors())) if code else None
    if raised is not None:
        for told in ended.told:
            if raised in told.errors:
                main = told
        say(f"this is a device error, raised on {main.place or 'the CPU'}")
        for line in advice.advice(raised, main.files):
            click.echo(f"  {line}", err=True)
    return code if code >= 0 else 128 - code
