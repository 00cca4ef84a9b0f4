"""`devfix repair`: run a program, fix its device errors, and run it again until there are none."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from devfix.commands.helping import command as command_
from devfix.commands.helping import option, write_into
from devfix.commands.running import complain

if TYPE_CHECKING:
    from devfix.repair.rounds import Outcome, Repaired
    from devfix.reports.observed import Seen
    from devfix.reports.report import PlacedFinding, Report
    from devfix.simulate.supervise import Ended

_CUDA = re.compile(r"((?:[\w.-]+=)?)cuda(?::\d+)?")


@command_(
    context_settings={"allow_interspersed_args": False},
    examples={
        "devfix repair -- python train.py --epochs 1": "print the patch",
        "devfix repair --write -- pytest tests/": "write the fixes",
    },
    codes={
        0: "the program runs, or nothing to do",
        1: "device errors are left",
        2: "the program could not be run",
    },
)
@option("--write", "Write the fixes to your files; `devfix undo` takes them back.")
@option("--patch FILE", "Write the patch to FILE instead of stdout.", type=click.Path())
@option(
    "--devices N",
    "The number of CUDA devices (default: 1); 0 is a machine without CUDA.",
    type=click.IntRange(0, 64),
    default=1,
)
@option(
    "--compare FILE...",
    "Also compare the numbers in this file, which the program writes; may be repeated.",
    "files",
)
@option("--seconds S", "The time limit of each run (default: 600).", type=click.FloatRange(1), default=600.0)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def repair(
    write: bool,
    patch: str | None,
    devices: int,
    files: tuple[str, ...],
    seconds: float,
    command: tuple[str, ...],
) -> int:
    """Fix a program by running it: `devfix repair -- python train.py`.

    Run COMMAND in copies of the repository: first on the CPU, for its numbers, then on simulated CUDA, fixing the
    device errors of each run, until it runs without any and prints the same numbers as on the CPU. Print these fixes as
    a patch. Fixes that come from a run are unsafe: they hold for what that run did. If COMMAND fails on the CPU and
    names a CUDA device (--device cuda:0), it is run there with cpu instead.

    With --devices 0, CUDA and the CPU change places: the program is made to run without CUDA, with the numbers that it
    prints on CUDA, where it must run as before.
    """
    if write and patch is not None:
        raise click.UsageError("--write changes the files and --patch writes a patch; give one of them")
    for name in files:
        if os.path.isabs(name) or os.path.normpath(name).startswith(os.pardir):
            raise click.UsageError(f"--compare {name}: not a path below the working directory")
    from devfix.repair import outputs, rounds
    from devfix.repair.comparing import Reference
    from devfix.review.device_errors import findings_in
    from devfix.review.text import plural
    from devfix.simulate.copies import TooLarge, top
    from devfix.simulate.forks import Forks
    from devfix.simulate.trial import Copies
    from devfix.simulate.trial import command as words_of

    here = os.path.realpath(os.curdir)
    root = top(here)
    try:
        words = words_of(command)
        with (
            tempfile.TemporaryDirectory(prefix="devfix-repair-", ignore_cleanup_errors=True) as folder,
            Forks() as forks,
        ):
            inside = os.path.relpath(here, root)
            copies = Copies(root, inside, os.path.realpath(folder), seconds, seed="0", forks=forks)

            on_cpu = list(words)
            there = os.path.join(copies.at, copies.inside)

            def once(changed: Mapping[str, bytes], cpu: bool, keep_going: bool = False) -> Outcome:
                command = on_cpu if cpu else words
                ended = copies.run(command, changed, max(devices, 1), cpu=cpu, keep_going=keep_going)
                outcome = outcome_of(ended, copies.at, root)
                written = [outputs.told(os.path.join(there, one), one) for one in files]
                return replace(outcome, output="\n".join([outcome.output, *written]))

            place = "the CPU" if devices else "CUDA"
            reference = once({}, bool(devices))
            named = {word: match[1] for word in words if (match := _CUDA.fullmatch(word))}
            if devices and reference.code and named:
                on_cpu = [f"{named[word]}cpu" if word in named else word for word in words]
                reference = once({}, True)
                place = f"the CPU, with cpu instead of {[*named][-1]}"
            compared = Reference(reference.output, lambda: once({}, bool(devices)).output)
            complain(f"on {place}: {_ending(reference, files)}")
            for name in files:
                if not reference.code and not os.path.isfile(os.path.join(there, name)):
                    raise ValueError(f"{name}: the program does not write this file")

            def run(changed: Mapping[str, bytes], keep_going: bool) -> Outcome:
                outcome = once(changed, not devices, keep_going)
                if (
                    devices
                    or keep_going
                    or reference.code
                    or outcome.code
                    or outcome.unchecked
                    or same(outcome)
                ):
                    return outcome
                return once(changed, False)  # what runs without CUDA has to run with it, too

            def same(outcome: Outcome) -> str:
                if reference.code or compared.agrees(outcome.output):
                    return ""
                if compared.left_out == len(compared.numbers):
                    return f"its numbers differ in each run on {place}, so there is nothing to compare"
                return f"it prints {'or writes ' if files else ''}other numbers than on {place}"

            recipes = recipes_in(command)
            found: list[tuple[str, PlacedFinding]] = []

            def analyse(files: Sequence[str]) -> tuple[tuple[str, PlacedFinding], ...]:
                findings = findings_in([*recipes, *files])
                found[:] = found or [one for one in findings if one[0] in recipes]
                return findings

            done = rounds.repair(run, analyse, same, complain)
            if compared.left_out:
                complain(
                    f"not compared, since two runs on {place} differ in them: {plural(compared.left_out, 'number')}"
                )
    except (OSError, TooLarge, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _tell_of_recipes(found, done)
    return _end(done, write, patch)


def recipes_in(command: tuple[str, ...]) -> list[str]:
    """The HyperPyYAML recipes that a command names."""
    from devfix.repair.explained import is_recipe

    return [os.path.realpath(word) for word in command if is_recipe(word) and os.path.isfile(word)]


def _tell_of_recipes(found: Sequence[tuple[str, PlacedFinding]], done: Repaired) -> None:
    """The fixes of recipes that were not made, since nothing proves them."""
    from devfix.findings import Safety
    from devfix.review.device_errors import shown

    for path, finding in found:
        fix = finding.fix
        if fix is not None and fix.safety is Safety.UNSAFE and all(one.path != path for one in done.fixes):
            at = f"{shown(path)}:{finding.place.line}"
            complain(f"{at}: not made, since it is not certain: {fix.title}; `devfix diff --unsafe` shows it")


def outcome_of(ended: Ended, copy: str, root: str) -> Outcome:
    """What a run in a copy says of the files of the repository."""
    from devfix.commands.advice import device_error
    from devfix.repair.rounds import Outcome

    raised = device_error(tuple(ended.errors())) or next(ended.errors(), None)
    lines = ended.output.strip().splitlines()
    error = (
        raised.error.splitlines()[0] if raised is not None else (lines[-1] if lines and ended.code else "")
    )
    files = [_at_home(path, copy, root) for told in ended.told for path in told.files]
    passed = [one.at.path for seen in ended.seen for one in seen.passed]
    known = dict.fromkeys([*(_at_home(path, copy, root) for path in passed), *files])
    return Outcome(
        ended.code,
        ended.output,
        tuple(_moved(seen, copy, root) for seen in ended.seen),
        ended.unchecked,
        error if ended.code else "",
        tuple(path for path in known if path.startswith(root + os.sep)),
    )


def _at_home(path: str, copy: str, root: str) -> str:
    from devfix.simulate.trial import of_notebook

    return of_notebook(root + path[len(copy) :]) if path.startswith(copy + os.sep) else path


def _moved(seen: Seen, copy: str, root: str) -> Seen:
    """An error with the lines of the repository, not of the copy that was run."""
    from devfix.reports.observed import as_json, of_json

    def change(value: object) -> object:
        if isinstance(value, dict):
            return {key: change(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [change(one) for one in value]
        return _at_home(value, copy, root) if isinstance(value, str) else value

    made = change(as_json(seen))
    assert isinstance(made, dict)
    return of_json(made)


def _ending(outcome: Outcome, files: tuple[str, ...]) -> str:
    from devfix.repair.comparing import printed
    from devfix.review.text import plural

    if outcome.code:
        return f"it fails ({outcome.error or f'exit code {outcome.code}'}), so there are no numbers to compare with"
    verb = "prints and writes" if files else "prints"
    return f"it runs and {verb} {plural(len(printed(outcome.output)), 'number')}"


def _end(done: Repaired, write: bool, patch: str | None) -> int:
    from devfix.review.device_errors import shown
    from devfix.review.patch import patch as patch_of

    for one in done.fixes:
        kind = one.codemod or "from this run"
        complain(f"{shown(one.path)}:{one.line}: {one.title} ({kind})")
    if done.why_not:
        complain(f"not fixed, and nothing is written: {done.why_not}")
        return 1
    if not done.fixes:
        complain("there is nothing to fix")
        return 0
    report = _report(done)
    if write:
        from devfix.pipeline.writing import write as write_files

        report = write_files(report, os.getcwd())
        for error in report.errors:
            complain(f"{error.path}: {error.message}")
        return 2 if report.errors else 0
    write_into("-" if patch is None else patch, patch_of(report))
    return 0


def _report(done: Repaired) -> Report:
    """The changed files as a report, for the writer and the patch."""
    from devfix.repair.rounds import Texts
    from devfix.reports.report import FileResult, Report
    from devfix.review.device_errors import shown

    texts = Texts()
    for one in done.fixes:
        for path, _ in one.parts:
            texts.document(path)
    results = []
    for path, data in sorted(texts.changed(done.fixes).items()):
        document = texts.before[path]
        results.append(FileResult(shown(path), before=document.data, after=data, digest=document.digest))
    return Report(tuple(results))
