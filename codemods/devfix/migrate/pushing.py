"""Branches on remotes, and pull requests where the GitHub command line is there."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass

from devfix.migrate import children, folders
from devfix.migrate.git import BASE, Git, chosen, is_local
from devfix.migrate.model import Job, MigrateError
from devfix.migrate.state import Row
from devfix.migrate.steps import mark_of
from devfix.review.text import printable

_GH_SECONDS = 120.0
_HUB = re.compile(r"(?:https?://|ssh://)?(?:[^@/]+@)?([\w.-]+)(?::\d+)?[/:]([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


class Moved(MigrateError):
    """The head is another one than the result is about."""


@dataclass(frozen=True)
class Pushed:
    """`was_there`: the branch had this commit before."""

    branch: str
    was_there: bool
    pull_request: str = ""
    note: str = ""


def push(campaign: str, job: Job, row: Row, *, pull_request: bool = True, draft: bool = False) -> Pushed:
    """Put the commit of a result on the campaign's branch of its source; raises MigrateError.

    The branch is made, or moved from where this campaign has left it, and never touched otherwise.
    """
    folder = folders.scratch(campaign, job.id)
    try:
        folders.fresh(folder)
        git = Git(folder, job.settings.limits, mark_of(job))
        was_there = _branch(campaign, git, job, row)
        url, note = row.pull_request, ""
        if pull_request and not url:
            url, note = _pull_request(campaign, folder, job, row, draft)
        return Pushed(job.branch, was_there, url, note)
    except OSError as error:
        raise MigrateError(str(error)) from error
    finally:
        folders.remove(folder)


def _branch(campaign: str, git: Git, job: Job, row: Row) -> bool:
    source = job.source
    refs, branch = git.refs(source.url)
    there = refs.get(f"refs/heads/{job.branch}", "")
    if there == row.commit:
        return True
    if there and there != row.pushed:
        raise MigrateError(
            f"has a branch {job.branch} at {there[:12]} already, which this campaign has not made"
        )
    git.make(row.head)
    if source.shard:
        objects = os.path.join(source.store, "repo.git", "objects")
        folders.write(os.path.join(git.bare, "objects", "info", "alternates"), os.fsencode(objects) + b"\n")
        git("update-ref", BASE, row.head)
    else:
        remote = chosen(refs, branch, source.ref)
        if remote.commit != row.head:
            raise Moved(f"its head has moved from {row.head[:12]} to {remote.commit[:12]}; run again")
        git.fetch(source.url, remote.name)
    try:
        pack = folders.read(os.path.join(folders.results(campaign, job.id), "commit.pack"))
    except FileNotFoundError:
        raise MigrateError("its commit is no longer in results/; retry it") from None
    git("unpack-objects", "-q", stdin=pack)
    git("cat-file", "-e", f"{row.commit}^{{tree}}")
    git.push(source.url, row.commit, job.branch, there)
    return False


def _pull_request(campaign: str, folder: str, job: Job, row: Row, draft: bool) -> tuple[str, str]:
    """The address of the pull request, or why there is none."""
    hub = hub_of(job.source.url)
    program = folders.program("gh")
    if hub is None or program is None:
        return "", ""
    host, owner, repository = hub
    where = f"{owner}/{repository}" if host == "github.com" else f"{host}/{owner}/{repository}"
    env = {**os.environ, "GH_PROMPT_DISABLED": "1", children.MARK: mark_of(job)}

    def gh(*arguments: str) -> str:
        deadline = time.monotonic() + _GH_SECONDS
        done = children.run([program, *arguments], deadline=deadline, env=env, cwd=folder)
        if done.code:
            lines = done.err.decode("utf-8", "replace").strip().splitlines()
            raise MigrateError(f"gh {arguments[1]}: {printable(lines[-1]) if lines else done.code}")
        return done.out.decode("utf-8", "replace")

    try:
        there = json.loads(
            gh("pr", "list", "--repo", where, "--head", job.branch, "--state", "open", "--json", "url")
            or "[]"
        )
        if there:
            return str(there[0]["url"]), ""
        body = os.path.join(folders.results(os.path.realpath(campaign), job.id), "body.md")
        more = ["--base", row.base_branch] if row.base_branch else []
        more += ["--draft"] if draft else []
        out = gh(
            "pr",
            "create",
            "--repo",
            where,
            "--head",
            job.branch,
            *more,
            "--title",
            row.subject,
            "--body-file",
            body,
        )
        return out.strip().splitlines()[-1] if out.strip() else "", ""
    except (MigrateError, ValueError, KeyError) as error:
        return "", f"the branch is there, but no pull request: {error}"


def hub_of(url: str) -> tuple[str, str, str] | None:
    """Host, owner and name of a repository on GitHub, or on the server that GH_HOST names."""
    if is_local(url):
        return None
    found = _HUB.fullmatch(url)
    if found is None or found[1] not in ("github.com", os.environ.get("GH_HOST")):
        return None
    return found[1], found[2], found[3]
