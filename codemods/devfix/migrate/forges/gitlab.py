"""GitLab, gitlab.com or self-hosted, with python-gitlab. Its own retries are off: see `patience.py`.

Shapes: https://docs.gitlab.com/api/ (projects, groups, merge_requests, merge_request_approvals, notes, search).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gitlab
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

_DEVELOPER = 30  # the least role that may push a branch
_DRAFT = "Draft: "
_CHECKS: dict[str, Checks] = {
    "success": "passed", "skipped": "passed", "failed": "failed", "canceled": "failed",
    "created": "pending", "waiting_for_resource": "pending", "waiting_for_callback": "pending", "preparing": "pending",
    "pending": "pending", "running": "pending", "canceling": "pending", "scheduled": "pending",
}  # fmt: skip


class GitLab(Forge):
    errors = (gitlab.GitlabError, requests.RequestException)

    def __init__(self, base: str, token: str, pause: float) -> None:
        session = requests.Session()
        self._headers: Mapping[str, str] = {}  # of the last answer: the library's errors do not have them
        session.hooks["response"].append(self._seen)
        # A personal token is taken as a bearer token, too; one of `glab`'s login is nothing else.
        self._lab: Any = gitlab.Gitlab(
            base, oauth_token=token, session=session, timeout=30, per_page=100, keep_base_url=True
        )
        self._off = {"obey_rate_limit": False, "max_retries": 0}

    def _seen(self, response: Any, *_: Any, **__: Any) -> None:
        self._headers = response.headers

    def failure(self, error: Exception) -> ForgeError:
        if isinstance(error, gitlab.GitlabError) and error.response_code:
            return ForgeError(f"GitLab says: {error.error_message}", error.response_code, self._headers)
        return ForgeError(f"{self._lab.url}: {type(error).__name__}")

    def _at(self, path: str) -> Any:
        return self._lab.projects.get(path, lazy=True)

    def _pull(self, path: str, number: int) -> Any:
        return self._at(path).mergerequests.get(number, **self._off)

    def repository(self, path: str) -> Repository:
        return _repository(self._lab.projects.get(path, **self._off))

    def fork(self, path: str) -> Repository:
        project = self._at(path)
        for one in project.forks.list(owned=True, iterator=True, **self._off):
            return _repository(self._lab.projects.get(one.id, **self._off))
        return _repository(self._lab.projects.get(project.forks.create({}, **self._off).id, **self._off))

    def _owned(self, owner: str) -> Iterable[Repository]:
        try:
            group = self._lab.groups.get(owner, with_projects=False, **self._off)
            found = group.projects.list(include_subgroups=True, iterator=True, **self._off)
        except gitlab.GitlabGetError as error:
            if error.response_code != 404:
                raise
            (user,) = self._lab.users.list(username=owner, **self._off) or (None,)
            if user is None:
                raise
            found = user.projects.list(iterator=True, **self._off)
        return map(_repository, found)

    def language(self, path: str) -> str:
        shares = self._at(path).languages(**self._off)
        return max(shares, key=shares.__getitem__, default="")

    def _containing(self, owner: str, text: str) -> Iterable[str]:
        group = self._lab.groups.get(owner, lazy=True)
        ids = {one["project_id"] for one in group.search("blobs", f'"{text}"', iterator=True, **self._off)}
        return [self._lab.projects.get(id, **self._off).path_with_namespace for id in sorted(ids)]

    def latest(self, path: str, head: str, branch: str) -> PullRequest | None:
        source = self._lab.projects.get(head, **self._off).id
        found = self._at(path).mergerequests.list(
            source_branch=branch, state="all", order_by="created_at", sort="desc", iterator=True, **self._off
        )
        return next((_short(one) for one in found if one.source_project_id == source), None)

    def _create(self, path: str, head: str, proposal: Proposal) -> PullRequest:
        made = self._at(head).mergerequests.create(
            {
                "source_branch": proposal.branch,
                "target_branch": proposal.base,
                "target_project_id": self._lab.projects.get(path, **self._off).id,
                "title": _DRAFT * proposal.draft + proposal.title,
                "description": proposal.body,
            },
            **self._off,
        )
        return _short(made)

    def _update(self, path: str, number: int, proposal: Proposal) -> None:
        pull = self._pull(path, number)
        draft = _DRAFT if pull.draft else ""  # whoever has made it ready, it stays so
        self._edit(path, number, {"title": draft + proposal.title, "description": proposal.body})

    def _edit(self, path: str, number: int, values: dict[str, Any]) -> None:
        self._at(path).mergerequests.update(number, values, **self._off)

    def _assign(self, path: str, number: int, proposal: Proposal) -> None:
        values: dict[str, Any] = {}
        if proposal.labels:
            values["add_labels"] = list(proposal.labels)
        if proposal.reviewers:
            ids = [one["id"] for one in self._pull(path, number).attributes.get("reviewers") or ()]
            for name in proposal.reviewers:
                users = self._lab.users.list(username=name, **self._off)
                if not users:
                    raise gitlab.GitlabGetError(f"there is no user {name}", 404)
                ids.append(users[0].id)
            values["reviewer_ids"] = sorted(set(ids))
        self._edit(path, number, values)

    def request(self, path: str, number: int) -> PullRequest:
        pull = self._pull(path, number)
        short = _short(pull)
        if short.state not in ("open", "draft"):
            return short
        refused = pull.attributes.get("detailed_merge_status") == "requested_changes"
        approved = bool(pull.approvals.get(**self._off).attributes.get("approved_by"))
        state = reviewed(short.state, refused=refused, approved=approved)
        pipeline = pull.attributes.get("head_pipeline") or {}
        return PullRequest(
            number, short.url, state, short.commit, verdict([pipeline.get("status", "")], _CHECKS),
            bool(pull.attributes.get("has_conflicts")),
        )  # fmt: skip

    def _turn(self, path: str, number: int, *, open_: bool) -> None:
        self._edit(path, number, {"state_event": "reopen" if open_ else "close"})

    def comment(self, path: str, number: int, text: str) -> None:
        self._at(path).mergerequests.get(number, lazy=True).notes.create({"body": text}, **self._off)


def _repository(found: Any) -> Repository:
    values = found.attributes
    roles = values.get("permissions") or {}
    level = max((role["access_level"] for role in roles.values() if role), default=0)
    return Repository(
        values["path_with_namespace"],
        values["http_url_to_repo"],
        values["ssh_url_to_repo"],
        values.get("default_branch") or "",
        "",
        tuple(values.get("topics") or ()),
        bool(values.get("archived")),
        (values.get("last_activity_at") or "")[:10],
        (values.get("statistics") or {}).get("repository_size", 0),
        level >= _DEVELOPER,
    )


def _short(pull: Any) -> PullRequest:
    closed = pull.state == "closed"
    state = standing(merged=pull.state == "merged", closed=closed, draft=pull.draft)
    return PullRequest(pull.iid, pull.web_url, state, pull.sha or "")
