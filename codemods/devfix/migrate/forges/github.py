"""GitHub and GitHub Enterprise, with PyGithub.

Not githubkit: that is as well kept, but brings pydantic, httpx, hishel and 5,000 generated models; PyGithub shares
`requests` with python-gitlab. Its own retries are off: `patience.py` has one rule for all servers.
Shapes: https://docs.github.com/en/rest (pulls, reviews, issues, commits/statuses, checks/runs, search).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import github
import requests

from devfix.migrate.forges import (
    Checks,
    Forge,
    ForgeError,
    Proposal,
    PullRequest,
    Repository,
    reviewed,
    standing,
    verdict,
)

_CHECKS: dict[str, Checks] = {
    "success": "passed", "neutral": "passed", "skipped": "passed",
    "failure": "failed", "error": "failed", "timed_out": "failed", "action_required": "failed",
    "startup_failure": "failed", "cancelled": "failed",
    "pending": "pending", "queued": "pending", "in_progress": "pending", "waiting": "pending", "requested": "pending",
}  # fmt: skip


class GitHub(Forge):
    errors = (github.GithubException, requests.RequestException)

    def __init__(self, base: str, token: str, pause: float) -> None:
        api = "https://api.github.com" if base == "https://github.com" else f"{base}/api/v3"
        self._hub: Any = github.Github(
            auth=github.Auth.Token(token), base_url=api, retry=None, per_page=100, timeout=30,
            seconds_between_requests=min(pause, 0.25), seconds_between_writes=pause, lazy=True,
        )  # fmt: skip

    def failure(self, error: Exception) -> ForgeError:
        if not isinstance(error, github.GithubException):
            return ForgeError(f"{self._hub.requester.base_url}: {type(error).__name__}")
        data = error.data if isinstance(error.data, dict) else {}
        more = [one.get("message", "") for one in data.get("errors") or () if isinstance(one, dict)]
        said = "; ".join(filter(None, [str(data.get("message") or error.data or ""), *more]))
        return ForgeError(f"GitHub says: {said}", error.status, error.headers)

    def _at(self, path: str) -> Any:
        return self._hub.get_repo(path)

    def repository(self, path: str) -> Repository:
        return _repository(self._hub.get_repo(path))

    def fork(self, path: str) -> Repository:
        return _repository(self._at(path).create_fork())  # one that is there is answered in the same way

    def _owned(self, owner: str) -> Iterable[Repository]:
        try:
            found = list(self._hub.get_organization(owner).get_repos())
        except github.UnknownObjectException:
            found = list(self._hub.get_user(owner).get_repos())
        return map(_repository, found)

    def _containing(self, owner: str, text: str) -> Iterable[str]:
        return (one.repository.full_name for one in self._hub.search_code(f'"{text}" user:{owner}'))

    def latest(self, path: str, head: str, branch: str) -> PullRequest | None:
        owner = head.partition("/")[0]
        for pull in self._at(path).get_pulls("all", "created", "desc", head=f"{owner}:{branch}"):
            if pull.head.ref == branch and (pull.head.repo is None or pull.head.repo.full_name == head):
                return _short(pull)
        return None

    def _create(self, path: str, head: str, proposal: Proposal) -> PullRequest:
        name = f"{head.partition('/')[0]}:{proposal.branch}"
        made = self._at(path).create_pull(
            proposal.base, name, title=proposal.title, body=proposal.body, draft=proposal.draft
        )
        return _short(made)

    def _update(self, path: str, number: int, proposal: Proposal) -> None:
        self._at(path).get_pull(number).edit(title=proposal.title, body=proposal.body)

    def _assign(self, path: str, number: int, proposal: Proposal) -> None:
        pull = self._at(path).get_pull(number)
        if proposal.labels:
            pull.add_to_labels(*proposal.labels)
        if proposal.reviewers:
            pull.create_review_request(reviewers=list(proposal.reviewers))

    def request(self, path: str, number: int) -> PullRequest:
        pull = self._at(path).get_pull(number)
        short = _short(pull)
        if short.state not in ("open", "draft"):
            return short
        last: dict[str, str] = {}  # of each reviewer: a comment changes nothing
        for review in pull.get_reviews():
            if review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED") and review.user:
                last[review.user.login] = review.state
        words = last.values()
        state = reviewed(short.state, refused="CHANGES_REQUESTED" in words, approved="APPROVED" in words)
        commit = self._at(path).get_commit(short.commit)
        runs = [one.state for one in commit.get_combined_status().statuses]
        runs += [
            one.conclusion if one.status == "completed" else one.status for one in commit.get_check_runs()
        ]
        return PullRequest(
            number, short.url, state, short.commit, verdict(runs, _CHECKS), pull.mergeable is False
        )

    def _turn(self, path: str, number: int, *, open_: bool) -> None:
        self._at(path).get_pull(number).edit(state="open" if open_ else "closed")

    def comment(self, path: str, number: int, text: str) -> None:
        self._at(path).get_pull(number).create_issue_comment(text)


def _repository(found: Any) -> Repository:
    return Repository(
        found.full_name,
        found.clone_url,
        found.ssh_url,
        found.default_branch,
        found.language or "",
        tuple(found.topics or ()),
        found.archived,
        found.pushed_at.strftime("%Y-%m-%d") if found.pushed_at else "",
        found.size << 10,
        bool(found.permissions and found.permissions.push),
    )


def _short(pull: Any) -> PullRequest:
    closed = pull.state == "closed"
    state = standing(merged=pull.merged_at is not None, closed=closed, draft=pull.draft)
    return PullRequest(pull.number, pull.html_url, state, pull.head.sha)
