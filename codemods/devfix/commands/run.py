"""`devfix run`: a program on simulated CUDA devices, or on the real ones that are there."""

from __future__ import annotations

import os

import click

CANNOT = 2


@click.command(
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--devices", type=click.IntRange(1, 64), default=1, metavar="N", help="cuda:0 to N-1 (default: 1)."
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as in python -m.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(devices: int, module: bool, program: str, arguments: tuple[str, ...]) -> int:
    """Run a program with CUDA simulated on the CPU.

    PROGRAM and what it imports are run: it can do whatever you can. Its processes see cuda:0 to
    cuda:N-1 on a CPU build of torch, and mixing devices raises CUDA's own errors. Where there is a
    real GPU, it runs on that. The exit code is the program's, or 2 where devfix could not run it.
    """
    if not module and not os.path.exists(program):
        raise click.ClickException(f"{program}: no such file")
    from devfix.simulate import supervise

    command = supervise.python([*(["-m"] if module else []), program, *arguments])
    try:
        ended = supervise.run(command, devices)
    except OSError as error:
        raise click.ClickException(f"{program} could not be started: {error}") from error
    return _tell(ended)


def _tell(ended: object) -> int:
    from devfix.commands import advice
    from devfix.simulate.supervise import Ended

    assert isinstance(ended, Ended) and ended.code is not None
    main, code = ended.main, ended.code
    if main.place.startswith("cuda") and "simulated" not in main.place:
        _say(f"nothing was simulated: this was {main.place}")
    if any(told.cannot for told in ended.told) and code == CANNOT:
        return CANNOT  # the process itself has said why
    unchecked = ended.unchecked
    if code and unchecked:
        _say(f"not checked: {unchecked}")
        return CANNOT
    if unchecked:
        _say(f"not everything was checked: {unchecked}")
    raised = advice.device_error(tuple(ended.errors())) if code else None
    if raised is not None:
        for told in ended.told:
            if raised in told.errors:
                main = told
        _say(f"this is a device error, raised on {main.place or 'the CPU'}")
        for line in advice.advice(raised, main.files):
            click.echo(f"  {line}", err=True)
    return code if code >= 0 else 128 - code


def _say(text: str) -> None:
    from devfix.review.text import printable

    click.echo(f"devfix: {printable(text)}", err=True)
