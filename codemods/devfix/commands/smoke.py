"""`devfix smoke`, and what `devfix apply --smoke` does before it writes: programs are run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import command as command_
from devfix.commands.helping import option
from devfix.commands.running import Run, complain

if TYPE_CHECKING:
    from devfix.reports.report import Change, Report
    from devfix.simulate.trial import Trial
    from devfix.smoke import SmokeResult

_CANNOT = 2


@command_(
    examples={
        "devfix smoke --all": "run the examples of every codemod",
        'devfix smoke --smoke-cmd "python train.py --steps 2" .': "run a program before and after its fixes",
    },
    codes={0: "passed", 1: "something failed", 2: "something could not be checked"},
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@option("--codemod ID...", "Only this codemod; repeatable.", "codemods")
@option("--all", "Run the examples of all codemods.", "everything")
@option("--smoke-cmd COMMAND", "Run this command in copies of the repository, before and after.", "command")
@option("--devices N", "The number of CUDA devices for that command.", type=click.IntRange(0, 64), default=0)
@option(
    "--seconds S", "The time limit of that command (default: 300).", type=click.FloatRange(1), default=300.0
)
@option("--safe/--unsafe", "Only safe fixes (default), or unsafe ones too.", "safe", default=None)
def smoke(
    paths: tuple[str, ...],
    codemods: tuple[str, ...],
    everything: bool,
    command: str | None,
    devices: int,
    seconds: float,
    safe: bool | None,
) -> int:
    """Run the codemods' examples, or your program, before and after the fixes; write nothing.

    Without PATH, run the examples of --codemod (or --all) on the CPU and on CUDA, simulated if there is
    no GPU. With PATH, run the examples of the codemods that would change something there; then run
    --smoke-cmd in copies of the repository, before and after the fixes, or without a command the
    functions and modules around the fixes, with made-up inputs.
    """
    if everything and (paths or codemods):
        raise click.UsageError("--all runs the examples of all codemods: leave out --codemod and PATH")
    need_torch("smoke")
    if not paths:
        return _codemods(codemods, everything, command)
    report = Run.plain(paths, codemods=codemods, safe=safe).analyse(repair=True)
    for error in report.errors:
        complain(f"{error.path}: {error.message}")
    if not report.changed:
        click.echo("nothing to change, so nothing to run", err=True)
        return _CANNOT if report.errors else 0
    results = examples(report)
    for result in results:
        click.echo(_line(result))
    found: list[bool | None] = [result.ok for result in results]
    if command is None:
        report, harmful = called(report, seconds=seconds)
        found += [False] * len(harmful)
        trial = None
    else:
        report, trial = tried(report, command, devices=devices, seconds=seconds)
    for changed in report.changed:
        for change in changed.changes:
            lines = ", ".join(str(first + 1) for first, _ in change.lines[:1])
            click.echo(f"{changed.path}:{lines}: {change.codemod}: {change.verdict}")
    if trial is not None:
        found.append(trial.ok)
    return 1 if False in found else _CANNOT if None in found or report.errors else 0


def _codemods(codemods: tuple[str, ...], everything: bool, command: str | None) -> int:
    from devfix.codemod import registry
    from devfix.config import ConfigError, find
    from devfix.own.known import Known, named
    from devfix.smoke import smoke_codemods

    if command or not (codemods or everything):
        raise click.UsageError("name a PATH, or --codemod ID, or --all")
    try:
        ids = [find(id, Known()).id for id in named(codemods)] or list(registry())
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    found = []
    for id in ids:
        (result,) = smoke_codemods([id])
        click.echo(_line(result))
        found.append(result.ok)
    return 1 if False in found else _CANNOT if None in found else 0


def _line(result: SmokeResult) -> str:
    where = result.checked_on + (f"; torch {result.torch}" if result.torch else "")
    if result.ok:
        return f"{result.codemod}: examples pass on {where}"
    what = "examples fail" if result.ok is False else "not checked"
    return f"{result.codemod}: {what}: {result.detail}"


# --- before something is written -----------------------------------------------------------------


def need_torch(what: str) -> None:
    """Raises click.ClickException where there is no torch, or no fork to run it in."""
    from importlib.util import find_spec

    if not hasattr(os, "fork"):
        raise click.ClickException(
            f"{what} runs programs in forked processes, which this system does not have"
        )
    if find_spec("torch") is None:
        raise click.ClickException(f"{what} runs torch, which is missing; pip install 'devfix[smoke]'")


def prove(report: Report, *, run_examples: bool, command: str | None, seconds: float) -> Report | None:
    """The report with a verdict on every change; None if it must not be written. Says why on stderr."""
    if run_examples:
        results = examples(report)
        for result in results:
            if result.ok:
                where = f"{result.checked_on}; torch {result.torch}" if result.torch else result.checked_on
                click.echo(f"devfix: smoke test of {result.codemod} passed on {where}", err=True)
            else:
                what = "failed" if result.ok is False else "could not be checked"
                complain(f"smoke test of {result.codemod} {what}: {result.detail}; nothing was written")
        if not all(result.ok for result in results):
            return None
    if command is None:
        report, harmful = called(report, seconds=seconds)
        for line in harmful:
            complain(f"{line}; nothing was written")
        return None if harmful else report
    report, trial = tried(report, command, seconds=seconds)
    if not trial.ok:
        complain(f"{trial.word}; nothing was written")
        return None
    complain(trial.word)
    return report


def examples(report: Report) -> tuple[SmokeResult, ...]:
    """Run the examples of the codemods that change something."""
    try:
        from devfix.smoke import smoke_codemods
    except ImportError as error:
        raise click.ClickException(f"--smoke cannot run: {error}; pip install 'devfix[smoke]'") from error
    from devfix.own.known import Known

    known = Known()
    ids = sorted({change.codemod for result in report.changed for change in result.changes})
    return smoke_codemods([id for id in ids if known[id].examples])  # those of other tools have none


def called(report: Report, *, seconds: float = 300.0) -> tuple[Report, tuple[str, ...]]:
    """Call what is around each change with synthetic inputs, and put the verdict on the change.

    Also gives a line for each change that does harm: with these, nothing should be written.
    """
    from devfix.commands.advice import device_error
    from devfix.simulate.synthetic import try_calls

    words = try_calls(report.changed, device_error, seconds=seconds)
    harmful = dict.fromkeys(f"{path}: {said.word}" for (path, _), said in words.items() if said.ok is False)
    return _judged(report, lambda path, change: words[path, change].word), tuple(harmful)


def tried(report: Report, command: str, *, devices: int = 0, seconds: float = 300.0) -> tuple[Report, Trial]:
    """Run a command before and after the report's changes, and put the verdict on each of them."""
    from devfix.commands.advice import device_error
    from devfix.simulate.trial import Attempt, try_out
    from devfix.smoke import devices_named

    texts = [result.before.decode("utf-8", "replace") for result in report.changed]
    attempt = Attempt(
        command,
        {os.path.realpath(result.path): result.after for result in report.changed},
        devices or max(map(devices_named, texts), default=1),
        seconds,
    )
    trial = try_out(attempt, device_error)
    return _judged(report, lambda path, change: trial.of(path)), trial


def _judged(report: Report, verdict: Callable[[str, Change], str]) -> Report:
    results = tuple(
        replace(
            result,
            changes=tuple(replace(change, verdict=verdict(result.path, change)) for change in result.changes),
        )
        if result.changed
        else result
        for result in report.results
    )
    return replace(report, results=results)
