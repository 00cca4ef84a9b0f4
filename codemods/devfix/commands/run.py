"""`devfix run`: a program on simulated devices, or on the real ones that are there."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import command, need_html, option, write_into
from devfix.commands.running import complain
from devfix.reports.observed import files_of

if TYPE_CHECKING:
    from devfix.simulate.supervise import Ended

CANNOT = 2


@command(
    examples={
        "devfix run train.py --epochs 1": "see whether it would run on a GPU",
        "devfix run --keep-going train.py": "list all device errors of a run",
        "devfix run --keep-going --html errors.html train.py": "show them in the source, in a browser",
        "devfix run --keep-going --format json -o run.json train.py": "save them for `devfix check --observed`",
        "devfix run --devices 2 -m package.train": "run a module, with two devices",
        "devfix run --device mps train.py": "see whether it would run on a Mac",
        "devfix run --device xpu train.py": "see whether it would run on an Intel GPU",
    },
    codes={
        0: "the program's own exit code",
        1: "with --keep-going: there were device errors",
        2: "it could not be run",
    },
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@option(
    "--devices N",
    "The number of devices (default: 1); 0, with --keep-going only, is a machine without CUDA.",
    type=click.IntRange(0, 64),
    default=1,
)
@option(
    "--device",
    "What is simulated: CUDA (the default), a Mac's GPU, Intel's, or an accelerator that torch does not know.",
    type=click.Choice(["cuda", "mps", "xpu", "privateuseone"]),
    default="cuda",
)
@option("--keep-going", "Go on after device errors, and list them all at the end.")
@option("--copies", "With --keep-going: also list repeated copies between devices.")
@option(
    "--format",
    "The format of what --keep-going reports.",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
)
@option("--output -o FILE", "Write the JSON or SARIF to FILE instead of stdout.", type=click.Path())
@option("--html FILE", "Also write a page that shows the errors in the source.", type=click.Path())
@option("-m", "PROGRAM is a module, as in python -m.", "module")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(
    devices: int,
    device: str,
    keep_going: bool,
    copies: bool,
    form: str,
    output: str | None,
    html: str | None,
    module: bool,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Run a program with CUDA, or another accelerator, simulated on the CPU.

    This runs PROGRAM, which can do whatever you can. If there is no GPU, its processes see cuda:0 to cuda:N-1, and
    mixing devices raises the same errors as on CUDA. If torch can use a real GPU, it runs on that.

    With --keep-going, the program goes on after each device error as if the stray tensor had been on the right device.
    """
    if not keep_going and (form != "text" or html or copies or not devices):
        raise click.UsageError("--copies, --format, --html and --devices 0 are for --keep-going")
    if device == "mps" and devices != 1:
        raise click.UsageError("a Mac has one device: --devices is for others")
    if output is not None and form == "text":
        raise click.UsageError("--output is for --format json and sarif; the text goes to stderr")
    if html is not None:
        need_html()
    if not module and not os.path.exists(program):
        raise click.ClickException(f"{program}: no such file")
    from devfix.simulate import supervise

    command = supervise.python([*(["-m"] if module else []), program, *arguments])
    try:
        kind = device if devices else "cpu"
        ended = supervise.run(command, max(devices, 1), device=kind, keep_going=keep_going, copies=copies)
    except OSError as error:
        raise click.ClickException(f"{program} could not be started: {error}") from error
    code = _tell(ended)
    return _report(ended, code, form, output, html) if keep_going and code != CANNOT else code


def _report(ended: Ended, code: int, form: str, output: str | None, html: str | None) -> int:
    """What the run has gone on after: text on stderr, JSON or SARIF on stdout, where the program's output is, too."""
    from devfix.review import device_errors
    from devfix.review.seen import with_seen

    report = device_errors.analysed(
        device_errors.files_of(ended.seen, ended.main.files) if ended.seen else ()
    )
    compared = tuple(one for one in ended.compared if device_errors.matters(one))
    if form == "json":
        rows = list(device_errors.rows(ended.seen, report))
        _write(device_errors.as_json_text(rows, code, files_of(ended.seen), ended.copies, compared), output)
    elif form == "sarif":
        from devfix.review.sarif import render

        _write(render(with_seen(report, ended.seen, only=True)), output)
    if html is not None:
        from devfix.review.html import render as page

        seen = with_seen(report, ended.seen, only=True)
        files = shlex.join(result.path for result in seen.results)
        write_into(html, page(seen, paths=files, name=os.path.basename(os.getcwd())))
    if form != "text":
        return 1 if ended.seen else code
    for line in (*device_errors.notes(ended.copies), *device_errors.comparisons(compared)):
        complain(line)
    if not ended.seen:
        complain("no device errors")
        return code
    total = sum(seen.count for seen in ended.seen)
    errors = f"{len(ended.seen)} distinct device error{'s' * (len(ended.seen) > 1)} ({total} in all)"
    causes = sum(len(seen.each()) for seen in ended.seen)
    complain(
        f"{errors}, of {causes} stray{'s' * (causes > 1)}; the program went on and ended with exit code {code}"
    )
    for line in device_errors.text(ended.seen, list(device_errors.rows(ended.seen, report))):
        click.echo(f"  {line}", err=True)
    return 1


def _write(text: str, path: str | None) -> None:
    write_into("-" if path is None else path, f"{text}\n".encode())


def _tell(ended: Ended) -> int:
    from devfix.commands import advice

    assert ended.code is not None
    main, code = ended.main, ended.code
    if code and find_spec("torch") is None:
        complain(f"{sys.executable}, which ran it, has no torch; pip install 'devfix[smoke]' there")
        return CANNOT
    if main.place.startswith("cuda") and "simulated" not in main.place:
        complain(f"nothing was simulated: this was {main.place}")
    if any(told.cannot for told in ended.told) and code == CANNOT:
        return CANNOT  # the process itself has said why
    unchecked = ended.unchecked
    if code and unchecked:
        complain(f"not checked: {unchecked}")
        return CANNOT
    if unchecked:
        complain(f"not everything was checked: {unchecked}")
    raised = advice.device_error(tuple(ended.errors())) if code else None
    if raised is not None:
        for told in ended.told:
            if raised in told.errors:
                main = told
        complain(f"this is a device error, raised on {main.place or 'the CPU'}")
        for line in advice.advice(raised, main.files):
            click.echo(f"  {line}", err=True)
    return code if code >= 0 else 128 - code
