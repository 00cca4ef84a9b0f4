"""Servers with pull requests: GitHub, GitLab, and Gitea (which Forgejo speaks, too), behind one interface.

`Forge` is the interface: what a subclass does in one or a few HTTP requests (`_latest`, `_create`, ...), and from it
what others call (`latest`, `ensure`, ...). Those repeat themselves where the server says to wait or has a bad moment
(`patience.py`), so each of them gives the same result when it is done twice: a request is looked for before it is
made. `places.py` knows which server a URL is on and where its token is from; a repository on none of them has plain
git, and gets a branch only. GitLab's merge requests are called pull requests here, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from devfix.migrate.forges.patience import ForgeError, patient

__all__ = ["Checks", "Forge", "ForgeError", "Proposal", "PullRequest", "Repository", "RequestState"]

RequestState = Literal["open", "draft", "approved", "changes requested", "merged", "closed"]
Checks = Literal["", "pending", "passed", "failed"]  # of the head of the request; empty: it has none
OPEN: tuple[RequestState, ...] = ("open", "draft", "approved", "changes requested")


@dataclass(frozen=True)
class Repository:
    """`path` is OWNER/NAME, with groups for GitLab; `https` and `ssh` are what to clone."""

    path: str
    https: str
    ssh: str
    branch: str  # the default one
    language: str = ""  # the main one; empty where lists do not say it
    topics: tuple[str, ...] = ()
    archived: bool = False
    pushed: str = ""  # YYYY-MM-DD of the last activity
    size: int = 0  # bytes; 0 where it is not known
    writable: bool = False  # by the token's owner


@dataclass(frozen=True)
class PullRequest:
    number: int
    url: str
    state: RequestState
    commit: str  # the head
    checks: Checks = ""
    conflicts: bool = False


@dataclass(frozen=True)
class Proposal:
    """What a pull request is to be. Labels and reviewers are added, and never taken away."""

    branch: str
    base: str
    title: str
    body: str
    commit: str
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    draft: bool = False


class Forge(ABC):
    """One server, as the owner of one token. All public methods raise ForgeError."""

    errors: ClassVar[tuple[type[Exception], ...]]  # of the library

    def __init_subclass__(cls) -> None:
        for name in ("repository", "fork", "language", "latest", "request", "comment"):
            if name in vars(cls):
                setattr(cls, name, patient(getattr(cls, name)))

    @abstractmethod
    def failure(self, error: Exception) -> ForgeError:
        """One of `errors` in our own terms."""

    @abstractmethod
    def repository(self, path: str) -> Repository: ...

    @abstractmethod
    def fork(self, path: str) -> Repository:
        """The fork of the token's owner, which is made if there is none."""

    @abstractmethod
    def _owned(self, owner: str) -> Iterable[Repository]:
        """What an organisation, a group or a person has."""

    def language(self, path: str) -> str:
        """The main language of a repository, where lists do not say it."""
        return ""

    @abstractmethod
    def _containing(self, owner: str, text: str) -> Iterable[str]:
        """The paths of repositories that have this text in their code."""

    @abstractmethod
    def latest(self, path: str, head: str, branch: str) -> PullRequest | None:
        """The newest request from a branch of `head`, whatever its state, without checks and reviews."""

    @abstractmethod
    def _create(self, path: str, head: str, proposal: Proposal) -> PullRequest: ...

    @abstractmethod
    def _update(self, path: str, number: int, proposal: Proposal) -> None:
        """Title and body."""

    @abstractmethod
    def _assign(self, path: str, number: int, proposal: Proposal) -> None:
        """Labels and reviewers."""

    @abstractmethod
    def request(self, path: str, number: int) -> PullRequest:
        """With the verdicts of checks and reviews."""

    @abstractmethod
    def _turn(self, path: str, number: int, *, open_: bool) -> None: ...

    @abstractmethod
    def comment(self, path: str, number: int, text: str) -> None: ...

    @patient
    def owned(self, owner: str) -> tuple[Repository, ...]:
        return tuple(self._owned(owner))

    @patient
    def containing(self, owner: str, text: str) -> frozenset[str]:
        return frozenset(self._containing(owner, text))

    @patient
    def ensure(self, path: str, head: str, proposal: Proposal) -> PullRequest:
        """The open request of a branch, made if there is none, with this title and body."""
        found = self.latest(path, head, proposal.branch)
        if found is not None and found.state == "merged" and found.commit == proposal.commit:
            return found
        if found is not None and found.state in OPEN:
            self._update(path, found.number, proposal)
        else:
            try:
                found = self._create(path, head, proposal)
            except self.errors:  # somebody, or our own request whose answer was lost, may have been faster
                found = self.latest(path, head, proposal.branch)
                if found is None or found.state not in OPEN:
                    raise
        if proposal.labels or proposal.reviewers:
            self._assign(path, found.number, proposal)
        return found

    @patient
    def close(self, path: str, number: int) -> None:
        self._turn(path, number, open_=False)

    @patient
    def reopen(self, path: str, number: int) -> None:
        self._turn(path, number, open_=True)


def standing(*, merged: bool, closed: bool, draft: bool) -> RequestState:
    return "merged" if merged else "closed" if closed else "draft" if draft else "open"


def reviewed(state: RequestState, *, refused: bool, approved: bool) -> RequestState:
    """The state of an open request, once somebody has reviewed it."""
    return "changes requested" if refused else "approved" if approved else state


def verdict(states: Iterable[str], known: Mapping[str, Checks]) -> Checks:
    """One word for many checks: the worst. What is not known is neither good nor bad."""
    found = {known.get(state, "") for state in states}
    order: tuple[Checks, ...] = ("failed", "pending", "passed")
    return next((word for word in order if word in found), "")
