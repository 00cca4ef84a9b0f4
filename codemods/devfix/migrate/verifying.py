"""Programs that the user asked to be run, before and after a change. They are the repository's own code."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.migrate import children, folders, trees
from devfix.migrate.children import MARK, Done, TooLong
from devfix.migrate.commits import contents
from devfix.migrate.git import Git
from devfix.migrate.model import Head, Job
from devfix.migrate.steps import made_tree, mark_of, tree_of, working_in
from devfix.review.text import plural, printable

if TYPE_CHECKING:
    from devfix.reports.report import Report

_TAIL = 64 << 10
_SHARE = 5  # of a step's time limit: each run gets this part, and there are up to four


@dataclass(frozen=True)
class Verification:
    """`ok`: True for verified, False for harm that was seen, None where nothing was learned.

    `words` is a sentence for people; `notes` are more of them, and `log` is what programs printed.
    """

    report: Report
    ok: bool | None = None
    words: str = ""
    notes: tuple[str, ...] = ()
    log: str = ""


def verified(job: Job, folder: str, git: Git, head: Head, report: Report) -> Verification:
    """Run what was asked for. Raises MigrateError and OSError."""
    if not job.runs_code:
        return Verification(report)
    entries = trees.listed(git, head.commit, job.settings.limits).entries
    places = _Places(job, folder, git, entries)
    found: list[Verification] = []
    if job.settings.smoke or job.smoke_cmd:
        found.append(_smoked(job, places, report))
        report = found[-1].report
    command = job.verify_cmd(os.fsdecode(entry.path) for entry in entries)
    if command and not any(one.ok is False for one in found):
        found.append(_commanded(job, places, report, command))
    oks = [one.ok for one in found]
    ok = False if False in oks else True if True in oks else None
    best = [one for one in found if one.ok is ok and one.words]
    words = "; ".join(one.words for one in best) if ok is not None else ""
    notes = [note for one in found for note in one.notes]
    notes += [one.words for one in found if one.words and one.words not in words]
    log = "\n".join(one.log for one in found if one.log)
    return Verification(report, ok, words, tuple(notes), log)


@dataclass(frozen=True)
class _Places:
    """Full copies of the repository, as the head has it and as it is after the change."""

    job: Job
    folder: str
    git: Git
    entries: Iterable[trees.Entry]

    def copy(self, name: str, report: Report | None = None) -> str:
        base = os.path.join(self.folder, name)
        top = os.path.join(base, "repository")
        folders.fresh(base)
        folders.make_folders(os.fsencode(os.path.join(base, "tmp")))
        made_tree(top)
        files = contents(report, tree_of(self.job, self.folder)) if report else {}
        changed = {path: result.after for path, result in files.items()}
        trees.export(self.git, self.entries, top, self.job.settings.limits, whole=True, instead=changed)
        return base


# --- a command ---------------------------------------------------------------------------------


def _commanded(job: Job, places: _Places, report: Report, command: str) -> Verification:
    name = f"`{printable(command)}`"
    before = _run(job, places.copy("before"), command)
    after = _run(job, places.copy("after", report), command)
    log = f"{_log('before', command, before)}\n{_log('after', command, after)}"
    if after is not None and after.code == 0:
        if before is not None and before.code == 0:
            return Verification(report, True, f"{name} passes before and after the change", log=log)
        was = f"fails (exit code {before.code})" if before is not None else "does not end in time"
        return Verification(report, True, f"{name} {was} before the change and passes after it", log=log)
    if before is not None and before.code == 0:
        how = f"fails (exit code {after.code}{_last(after)})" if after is not None else "does not end in time"
        return Verification(report, False, f"{name} passes before the change and {how} after it", log=log)
    words = f"{name} does not pass before the change either, so it says nothing about it"
    return Verification(report, None, words, log=log)


def _run(job: Job, base: str, command: str) -> Done | None:
    """None if it took too long."""
    from devfix.simulate import landlock
    from devfix.simulate.limits import Limits

    scratch = os.path.join(base, "tmp")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.update({"TMPDIR": scratch, MARK: mark_of(job), "PYTHONDONTWRITEBYTECODE": "1"})
    bounded = landlock.version() > 0
    if not bounded:  # at least it finds nothing to write on
        env["HOME"] = scratch

    limits = Limits(2 * job.settings.limits.memory, (base,) if bounded else ())
    seconds = job.settings.limits.seconds / _SHARE
    try:
        return children.run(
            ["/bin/sh", "-c", command],
            deadline=time.monotonic() + seconds,
            env=env,
            cwd=os.path.join(base, "repository"),
            most=_TAIL,
            tail=True,
            before=limits.apply,
        )
    except TooLong:
        return None


def _log(when: str, command: str, done: Done | None) -> str:
    if done is None:
        return f"--- {when} the change: {command}: did not end in time"
    out = (done.out + done.err).decode("utf-8", "replace").strip()
    return f"--- {when} the change: {command}: exit code {done.code}\n{out}"


def _last(done: Done) -> str:
    lines = (done.out + done.err).decode("utf-8", "replace").strip().splitlines()
    return f": {printable(lines[-1][:200])}" if lines else ""


# --- smoke -------------------------------------------------------------------------------------


def _smoked(job: Job, places: _Places, report: Report) -> Verification:
    from devfix.commands import smoke

    notes: list[str] = []
    harm: list[str] = []
    seconds = job.settings.limits.seconds / _SHARE
    base = places.copy("smoke")
    with working_in(os.path.join(base, "repository")):
        if job.settings.smoke:
            for result in smoke.examples(report):
                if result.ok:
                    notes.append(f"the examples of {result.codemod} pass on {result.checked_on}")
                else:
                    (notes if result.ok is None else harm).append(
                        f"the examples of {result.codemod} "
                        f"{'fail' if result.ok is False else 'could not be run'}: {printable(result.detail)}"
                    )
        if job.smoke_cmd:
            name = f"`{printable(shlex.join(shlex.split(job.smoke_cmd)))}`"
            report, trial = smoke.tried(report, job.smoke_cmd, seconds=seconds)
            words = f"{name}: {printable(trial.word)}"
            good = trial.ok
        else:
            report, bad = smoke.called(report, seconds=seconds)
            harm += map(printable, bad)
            verdicts = [change.verdict for result in report.changed for change in result.own_changes]
            yes = sum(1 for verdict in verdicts if verdict.startswith("verified"))
            good = True if yes else None
            of = f"{yes} of {plural(len(verdicts), 'change')}"
            words = f"{of} run with made-up inputs, before and after" if yes else ""
            if not yes:
                notes.append("no change could be run with made-up inputs; the log says why")
    log = "\n".join(
        f"{printable(result.path)}: {change.codemod}: {printable(change.verdict)}"
        for result in report.changed
        for change in result.own_changes
        if change.verdict
    )
    if harm or good is False:
        words = "; ".join([*harm, words] if good is False else harm)
        return Verification(report, False, words, tuple(notes), log)
    return Verification(report, good, words, tuple(notes), log)
