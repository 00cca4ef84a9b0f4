"""From the files of a head to an outcome: findings, fixes, verification, commit, and files to keep."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.migrate import commits, messages, verifying
from devfix.migrate.model import Artefact, Count, Head, Job, MigrateError, Outcome, State
from devfix.migrate.steps import git_of, noteworthy, tree_of, working_in

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.config import Config
    from devfix.reports.report import Report


def analysed(job: Job, folder: str, head: Head) -> Outcome:
    """Raises MigrateError and OSError."""
    from devfix.review.json import render
    from devfix.review.patch import patch as patch_of

    tree = tree_of(job, folder)
    with working_in(tree):
        report = _report(job, tree)
        page = _page(job, report) if job.settings.page and report.changed else ()
    counts = _counts(report)
    notes = (*head.notes, *noteworthy(report))
    found = Outcome("analyse", "nothing-to-do", head=head, counts=counts, notes=notes, files=report.files)
    artefacts = [Artefact("findings.json", render(report).encode()), *page]
    if not report.changed:
        reason = _why_nothing(report)
        return replace(found, reason=reason, artefacts=tuple(artefacts if report.results else ()))
    git = git_of(job, folder)
    git.env["GIT_DIR"] = git.bare
    verification = verifying.verified(job, folder, git, head, report)
    report = verification.report
    subject = messages.subject(report)
    text = messages.commit(job, head, report, verification)
    with working_in(tree):
        patch = patch_of(report)
    artefacts.append(Artefact("changes.patch", patch))
    artefacts.append(Artefact("commit.txt", text.encode("utf-8", "replace")))
    artefacts.append(
        Artefact("body.md", messages.body(job, head, report, verification, notes).encode("utf-8", "replace"))
    )
    found = replace(found, subject=subject, verified=verification.words, changed=len(report.changed))
    found = replace(found, log=verification.log, artefacts=tuple(artefacts))
    if verification.ok is False:
        return replace(found, state="failed", reason=verification.words, verified="")
    commit, pack = commits.made(git, job, head, commits.contents(report, tree), text)
    artefacts.append(Artefact("commit.pack", pack))
    state: State = "verified" if verification.ok else "changed"
    return replace(found, state=state, commit=commit, patch=patch_id(patch), artefacts=tuple(artefacts))


def patch_id(patch: bytes) -> str:
    """A digest of a patch that stays the same when lines around what it changes come or go.

    It is the one of a review's decision: paths, changed lines and their context, but no line numbers.
    """
    lines = (b"@@" if line.startswith(b"@@ ") else line for line in patch.split(b"\n"))
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _report(job: Job, tree: str) -> Report:
    """The fixes of a job, in memory, and what is left after them; the working directory is `tree`."""
    from devfix.pipeline import runner
    from devfix.pipeline.discover import Discovered, discover
    from devfix.text.globs import Globs

    config, codemods = _chosen(job, tree)
    include, exclude = Globs(config.base, config.include), Globs(config.base, config.exclude)
    ours = Globs(tree, (*job.settings.exclude, *job.source.exclude))
    if job.source.shard:
        found = Discovered(tuple(path for path in job.source.files if os.path.isfile(path)))
        kept = [path for path in found.files if not exclude.below(os.path.realpath(path))]
        mine = frozenset(kept)
    else:
        found = discover([job.source.subfolder or "."], include, exclude)
        kept = list(found.files)
        mine = None
    kept = [path for path in kept if not ours.below(os.path.realpath(path))]
    here = os.path.realpath(tree) + os.sep

    def may_change(path: str) -> bool:
        real = os.path.realpath(path)
        inside = real.startswith(here) and not exclude.below(real) and not ours.below(real)
        return inside and (mine is None or real[len(here) :] in mine)

    found, around = replace(found, files=tuple(kept)), config.around
    report = runner.run(found, codemods, config.level, jobs=1, may_change=may_change, around=around)
    return runner.as_it_will_be(report, codemods, around)


def _chosen(job: Job, tree: str) -> tuple[Config, tuple[Codemod, ...]]:
    """The repository's own settings, as far as they concern its files; the campaign decides on the rest."""
    from devfix import config
    from devfix.own.command_line import recipe_over
    from devfix.own.known import named

    start = os.path.join(tree, job.source.subfolder)
    if not os.path.isdir(start):
        raise MigrateError(f"has no folder {job.source.subfolder!r}")
    try:
        own = config.load(start)  # the tree has a pyproject.toml: nobody looks above it
        root = own.project_root and os.path.realpath(own.project_root)
        inside = root and (root + os.sep).startswith(os.path.realpath(tree) + os.sep)
        options = (*own.options, *(config.parse_option(text) for text in job.settings.options))
        merged = replace(
            own,
            codemods=named(job.settings.codemods, os.sep) or own.codemods,
            exclude_codemods=(*own.exclude_codemods, *job.settings.exclude_codemods),
            unsafe=job.settings.unsafe,
            project_root=root if inside else "",
            base=own.base or tree,
            options=options,
        )
        recipe, merged = recipe_over(merged, job.settings.recipe or None, ())
        codemods = config.choose(merged)
        return merged, recipe.levelled(codemods) if recipe is not None else codemods
    except config.ConfigError as error:
        raise MigrateError(f"settings: {error}") from error


def _counts(report: Report) -> tuple[Count, ...]:
    """By codemod. What is found no more in a file is repaired, wherever the edit is that has done it."""
    found: Counter[str] = Counter()
    fixed: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for result in report.results:
        before = Counter(finding.codemod for finding in result.findings)
        after = Counter(finding.codemod for finding in result.remaining)
        found, left, fixed = found + before, left + after, fixed + (before - after)
    return tuple(Count(id, found[id], fixed[id], left[id]) for id in sorted(found | left))


def _why_nothing(report: Report) -> str:
    from devfix.review.text import plural

    if report.findings:
        safe = "safe " if report.level.name == "SAFE" else ""
        return f"{plural(report.findings, 'finding')}, none with a {safe}fix"
    if report.errors and len(report.errors) >= report.files:
        return "no file could be analysed"
    return "no findings" if report.files else "no Python files, notebooks or recipes"


def _page(job: Job, report: Report) -> Sequence[Artefact]:
    from devfix.review.html import MissingLibraries, render

    try:
        return (Artefact("review.html", render(report, name=job.name)),)
    except MissingLibraries:
        return ()
