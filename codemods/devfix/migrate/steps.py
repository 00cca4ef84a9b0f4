"""The work on one repository: functions of a job and a scratch folder that say what came of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.migrate import folders, trees
from devfix.migrate.git import BASE, Git, GitFailed
from devfix.migrate.model import Head, Job, MigrateError, Outcome, StepName
from devfix.review.text import plural

if TYPE_CHECKING:
    from devfix.reports.report import Report

Step = Callable[[Job, str, "Head | None"], Outcome]


def clone(job: Job, folder: str, head: Head | None = None) -> Outcome:
    """Fetch the head of the source, and write the files that will be analysed into `folder/tree`."""
    start, folder = time.monotonic(), os.path.realpath(folder)
    try:
        folders.fresh(folder)
        found = _shared(job, folder) if job.source.store else _fetched(job, folder)
    except (MigrateError, OSError) as error:
        folders.remove(folder)
        return _failed("clone", error, start)
    if found is None:
        folders.remove(folder)
        return Outcome("clone", "skipped", "has no commits", seconds=time.monotonic() - start)
    return Outcome("clone", "analysing", head=found, seconds=time.monotonic() - start)


def analyse(job: Job, folder: str, head: Head | None) -> Outcome:
    """Find, fix, verify and commit at the head; the scratch folder is gone afterwards."""
    from devfix.migrate.analysing import analysed

    assert head is not None
    start, folder = time.monotonic(), os.path.realpath(folder)
    try:
        outcome = analysed(job, folder, head)
    except (MigrateError, OSError) as error:
        outcome = replace(_failed("analyse", error, start), head=head)
    folders.remove(folder)
    return replace(outcome, seconds=time.monotonic() - start)


STEPS: dict[StepName, Step] = {"clone": clone, "analyse": analyse}
NEXT: dict[StepName, StepName] = {"clone": "analyse"}


def run_step(name: StepName, job: Job, folder: str, head: Head | None) -> Outcome:
    """One step by its name: what a pool sends to a worker."""
    return STEPS[name](job, folder, head)


def _failed(step: StepName, error: Exception, start: float) -> Outcome:
    if isinstance(error, OSError):
        reason = f"{error.filename or 'a file'}: {error.strerror or error}"
        reason = os.path.basename(reason) if os.path.isabs(reason) else reason
    else:
        reason = str(error)
    log = error.log if isinstance(error, GitFailed) else ""
    return Outcome(step, "failed", reason, log, seconds=time.monotonic() - start)


def git_of(job: Job, folder: str) -> Git:
    """Git in the scratch folder, and the time limit begins."""
    return Git(folder, job.settings.limits, mark_of(job))


def mark_of(job: Job) -> str:
    """What the children of a step carry, so that they can be found if their worker is lost."""
    return f"{job.settings.uid or job.settings.campaign}/{job.id}"


def _fetched(job: Job, folder: str) -> Head | None:
    git = git_of(job, folder)
    remote = git.remote(job.source.url, job.source.ref)
    if remote is None:
        return None
    git.make(remote.commit)
    git.fetch(job.source.url, remote.name)
    commit, date = commit_of(git)
    listing = trees.listed(git, commit, job.settings.limits)
    if listing.size > job.settings.limits.size:
        most = job.settings.limits.size >> 20
        raise MigrateError(
            f"its files have {listing.size >> 20} MiB, more than {most}; --max-size sets the limit"
        )
    wanted = trees.for_analysis(git, listing.entries)
    tree = os.path.join(folder, "tree")
    made_tree(tree)
    export = trees.export(git, wanted, tree, job.settings.limits)
    close_tree(tree)
    submodules = sum(1 for entry in listing.entries if entry.mode == "160000")
    notes = list(export.notes)
    if submodules:
        notes.append(f"{plural(submodules, 'submodule')}, not fetched")
    return Head(commit, date, remote.branch, len(listing.entries), listing.size, tuple(notes))


def _shared(job: Job, folder: str) -> Head:
    """The head of a shard: its repository is there already, and its files with all others."""
    store = job.source.store
    if not os.path.isdir(os.path.join(store, "repo.git")):
        raise MigrateError("the store of this monorepo is gone; make a new campaign")
    git = git_of(job, folder)
    git.borrow(store, job.source.base)
    commit, date = commit_of(git)
    return Head(commit, date, job.source.ref, files=len(job.source.files))


def commit_of(git: Git) -> tuple[str, int]:
    """The id and the committer's date of BASE."""
    commit = git("rev-parse", "--verify", "-q", f"{BASE}^{{commit}}").decode().strip()
    for line in git("cat-file", "commit", commit).split(b"\n\n")[0].split(b"\n"):
        if line.startswith(b"committer "):
            date = line.rsplit(b" ", 2)[-2]
            return commit, max(0, min(int(date), 1 << 32)) if date.isdigit() else 0
    return commit, 0


def made_tree(tree: str) -> None:
    """A folder for files that passes for the top of a repository, so that nobody looks above it."""
    folders.make_folders(os.fsencode(os.path.join(tree, ".git")))
    folders.write(os.path.join(tree, ".git", "HEAD"), b"ref: refs/heads/none\n")


def close_tree(tree: str) -> None:
    """Settings of its own, if it has none, so that those of folders above do not count."""
    with suppress(FileExistsError):
        folders.write_new(os.fsencode(os.path.join(tree, "pyproject.toml")), b"")


def tree_of(job: Job, folder: str) -> str:
    """Where the files are that are analysed."""
    return os.path.join(job.source.store or folder, "tree")


@contextmanager
def working_in(folder: str) -> Iterator[None]:
    """The working directory, for a while: results name files relative to it.

    Nothing is imported from there: entries of `sys.path` that mean the working directory are dropped.
    """
    sys.path[:] = [path for path in sys.path if os.path.isabs(path)]
    was = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(was)


def noteworthy(report: Report) -> tuple[str, ...]:
    """Files that could not be analysed, for people."""
    from devfix.review.text import printable

    lines = [f"{printable(error.path)}: {printable(error.message)}" for error in report.errors]
    return (*lines[:20], f"and {len(lines) - 20} more") if len(lines) > 20 else tuple(lines)
