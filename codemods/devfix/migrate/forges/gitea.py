"""Gitea and Forgejo, by their documented HTTP, with the `requests` that the other two bring.

There is py-gitea, but it has no Python 3.10, no forks with an answer for one that is there, and no reviews.
Shapes: https://docs.gitea.com/api/ (the OpenAPI description that each server has at /swagger.v1.json).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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

_PAGE = 50  # what servers allow unless they are told otherwise
_DRAFT = "WIP: "
_CHECKS: dict[str, Checks] = {
    "success": "passed", "warning": "passed", "skipped": "passed", "failure": "failed", "error": "failed",
    "pending": "pending",
}  # fmt: skip


class _Bearer(requests.auth.AuthBase):  # type: ignore[misc]
    """Unlike a header of the session, it keeps a .netrc out, and is not sent to another host."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"token {self._token}"
        return request


class Gitea(Forge):
    errors = (requests.RequestException,)

    def __init__(self, base: str, token: str, pause: float) -> None:
        self._api = f"{base}/api/v1"
        self._session = requests.Session()
        self._session.auth = _Bearer(token)

    def _call(self, verb: str, path: str, json: object = None, **query: object) -> Any:
        answer = self._session.request(verb, f"{self._api}{path}", json=json, params=query, timeout=30)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def _pages(self, path: str, **query: object) -> Iterator[Any]:
        page, more = 1, True
        while more:
            found = self._call("GET", path, page=page, limit=_PAGE, **query)
            yield from found
            page, more = page + 1, bool(found)  # the server may give fewer than it is asked for

    def failure(self, error: Exception) -> ForgeError:
        answer = getattr(error, "response", None)
        if answer is None or answer.ok:
            return ForgeError(f"{self._api}: {type(error).__name__}")
        try:
            data = answer.json()
            said = str(data.get("message") or data)
        except (requests.JSONDecodeError, AttributeError):
            said = answer.reason or ""
        return ForgeError(f"Gitea says: {said}", answer.status_code, answer.headers)

    def repository(self, path: str) -> Repository:
        return _repository(self._call("GET", f"/repos/{path}"))

    def fork(self, path: str) -> Repository:
        me = self._call("GET", "/user")["login"]
        for one in self._pages(f"/repos/{path}/forks"):
            if one["owner"]["login"] == me:
                return _repository(one)
        return _repository(self._call("POST", f"/repos/{path}/forks", {}))

    def _owned(self, owner: str) -> Iterable[Repository]:
        try:
            yield from map(_repository, self._pages(f"/orgs/{owner}/repos"))
        except requests.HTTPError as error:
            if error.response.status_code != 404:
                raise
            yield from map(_repository, self._pages(f"/users/{owner}/repos"))

    def _containing(self, owner: str, text: str) -> Iterable[str]:
        raise ForgeError(f"{self._api}: Gitea has no search in code; leave --containing out")

    def latest(self, path: str, head: str, branch: str) -> PullRequest | None:
        found = [
            one
            for one in self._pages(f"/repos/{path}/pulls", state="all")
            if one["head"]["ref"] == branch
            and ((one["head"].get("repo") or {}).get("full_name", head) == head)
        ]
        return _short(max(found, key=lambda one: int(one["number"]))) if found else None

    def _create(self, path: str, head: str, proposal: Proposal) -> PullRequest:
        owner = head.partition("/")[0]
        made = self._call(
            "POST",
            f"/repos/{path}/pulls",
            {
                "base": proposal.base,
                "head": proposal.branch if head == path else f"{owner}:{proposal.branch}",
                "title": _DRAFT * proposal.draft + proposal.title,
                "body": proposal.body,
            },
        )
        return _short(made)

    def _update(self, path: str, number: int, proposal: Proposal) -> None:
        draft = self._call("GET", f"/repos/{path}/pulls/{number}").get("draft")
        title = (_DRAFT if draft else "") + proposal.title
        self._call("PATCH", f"/repos/{path}/pulls/{number}", {"title": title, "body": proposal.body})

    def _assign(self, path: str, number: int, proposal: Proposal) -> None:
        if proposal.labels:
            ids = {one["name"]: one["id"] for one in self._pages(f"/repos/{path}/labels")}
            for name in proposal.labels:
                if name not in ids:
                    made = self._call("POST", f"/repos/{path}/labels", {"name": name, "color": "#808080"})
                    ids[name] = made["id"]
            chosen = [ids[name] for name in proposal.labels]
            self._call("POST", f"/repos/{path}/issues/{number}/labels", {"labels": chosen})
        if proposal.reviewers:
            names = {"reviewers": list(proposal.reviewers)}
            self._call("POST", f"/repos/{path}/pulls/{number}/requested_reviewers", names)

    def request(self, path: str, number: int) -> PullRequest:
        pull = self._call("GET", f"/repos/{path}/pulls/{number}")
        short = _short(pull)
        if short.state not in ("open", "draft"):
            return short
        last: dict[str, str] = {}
        for one in self._pages(f"/repos/{path}/pulls/{number}/reviews"):
            if one["state"] in ("APPROVED", "REQUEST_CHANGES") and one.get("user"):
                last[one["user"]["login"]] = "" if one.get("dismissed") else one["state"]
        words = last.values()
        state = reviewed(short.state, refused="REQUEST_CHANGES" in words, approved="APPROVED" in words)
        combined = self._call("GET", f"/repos/{path}/commits/{short.commit}/status")
        runs = [one["status"] for one in combined.get("statuses") or ()]
        return PullRequest(
            number, short.url, state, short.commit, verdict(runs, _CHECKS), pull.get("mergeable") is False
        )

    def _turn(self, path: str, number: int, *, open_: bool) -> None:
        self._call("PATCH", f"/repos/{path}/pulls/{number}", {"state": "open" if open_ else "closed"})

    def comment(self, path: str, number: int, text: str) -> None:
        self._call("POST", f"/repos/{path}/issues/{number}/comments", {"body": text})


def _repository(found: Any) -> Repository:
    return Repository(
        found["full_name"],
        found["clone_url"],
        found["ssh_url"],
        found["default_branch"],
        found.get("language") or "",
        tuple(found.get("topics") or ()),
        bool(found.get("archived")),
        (found.get("updated_at") or "")[:10],
        found.get("size", 0) << 10,
        bool((found.get("permissions") or {}).get("push")),
    )


def _short(pull: Any) -> PullRequest:
    closed = pull["state"] == "closed"
    state = standing(merged=pull["merged"], closed=closed, draft=bool(pull.get("draft")))
    return PullRequest(pull["number"], pull["html_url"], state, pull["head"]["sha"])
