"""What passes between the parts of a migration: plain data that crosses processes and machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

State = Literal[
    "pending",
    "cloning",
    "analysing",
    "nothing-to-do",
    "changed",
    "verified",
    "failed",
    "skipped",
    "pushed",
    "merged",
    "superseded",
]
STATES: tuple[State, ...] = get_args(State)
UNFINISHED: tuple[State, ...] = ("pending", "cloning", "analysing", "superseded")
CHANGED: tuple[State, ...] = ("changed", "verified")  # has a commit that is not pushed
StepName = Literal["clone", "analyse", "push"]
DURING: Mapping[str, State] = {"clone": "cloning", "analyse": "analysing"}  # the state while a step runs


class MigrateError(Exception):
    """Something that a person has to know; the message is one line for them."""


@dataclass(frozen=True)
class Limits:
    """For one repository."""

    seconds: float = 900.0  # for a step
    size: int = 2 << 30  # bytes that its clone, and its files, may take
    files: int = 200_000
    file_size: int = 16 << 20  # bytes; a larger file is not analysed
    memory: int = 4 << 30  # bytes for a process that works on it


@dataclass(frozen=True)
class Settings:
    """Of a campaign; they do not change after `init`."""

    campaign: str
    branch: str
    uid: str = ""  # of the campaign, on this machine; no result depends on it
    codemods: tuple[str, ...] = ()
    exclude_codemods: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # ID.NAME=VALUE
    recipe: str = ""  # of codemods, instead of `codemods`: a name, or an absolute path
    unsafe: bool = False
    exclude: tuple[str, ...] = ()
    author: str = "devfix <devfix@localhost>"
    verify_cmd: str = ""
    verify_kinds: tuple[str, ...] = ()  # GLOB=COMMAND: instead, where a repository has such a file
    smoke: bool = False
    smoke_cmd: str = ""
    page: bool = False  # make a review page for each repository that changes
    forges: tuple[str, ...] = ()  # KIND=URL
    shard_by: str = ""  # folder or codeowners, where monorepos were split
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        data = json.loads(text)
        limits = Limits(**_known(Limits, data.pop("limits", {})))
        return cls(limits=limits, **_known(cls, data))


def _known(kind: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The values of a dataclass, lists as tuples; what a later version has added is left out."""
    names = {one.name for one in fields(kind)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in data.items()
        if name in names
    }


@dataclass(frozen=True)
class Source:
    """A repository, or a part of one, as it was named for `init`.

    `url` is a git URL or an absolute path. `files` are the paths of a shard; they count from the top of
    the repository, with bytes that are not UTF-8 as surrogates. `store` is a folder with the shards'
    repository (`repo.git`) and its files (`tree`), made by `init`.
    """

    url: str
    ref: str = ""
    subfolder: str = ""
    smoke_cmd: str = ""
    verify_cmd: str = ""
    exclude: tuple[str, ...] = ()
    skip: str = ""  # why it is left out
    shard: str = ""
    files: tuple[str, ...] = ()
    store: str = ""
    base: str = ""  # the commit that a shard's files are of
    forge: str = ""  # the kind of its server; empty: by its host name


@dataclass(frozen=True)
class Job:
    """One repository of a campaign: `id` is a name for folders, `name` one for people."""

    id: str
    name: str
    source: Source
    settings: Settings
    attempt: int = 0  # workers that were lost with it
    before: str = ""  # the commit of an earlier result

    @property
    def branch(self) -> str:
        if not self.source.shard:
            return self.settings.branch
        return f"{self.settings.branch}-{self.id}"

    @property
    def smoke_cmd(self) -> str:
        return self.source.smoke_cmd or self.settings.smoke_cmd

    @property
    def runs_code(self) -> bool:
        """Did the user ask for code of the repository to be run?"""
        settings = self.settings
        verify = self.source.verify_cmd or settings.verify_kinds or settings.verify_cmd
        return bool(settings.smoke or self.smoke_cmd or verify)

    def verify_cmd(self, files: Iterable[str]) -> str:
        """The repository's own command, else that of the first kind that it is of by its files, else everybody's."""
        kinds = [kind_of(one) for one in self.settings.verify_kinds]
        paths = list(files) if kinds and not self.source.verify_cmd else []
        fitting = (command for glob, command in kinds if any(fnmatchcase(path, glob) for path in paths))
        return self.source.verify_cmd or next(fitting, self.settings.verify_cmd)


def kind_of(text: str) -> tuple[str, str]:
    """The two parts of GLOB=COMMAND; raises MigrateError."""
    glob, _, command = text.partition("=")
    if not glob.strip() or not command.strip():
        raise MigrateError(
            f"--verify-kind is GLOB=CMD, such as 'pytest.ini=python -m pytest -q', not {text!r}"
        )
    return glob.strip(), command.strip()


@dataclass(frozen=True)
class Head:
    """The commit that a repository is analysed at."""

    commit: str
    date: int = 0  # of its committer, in seconds
    branch: str = ""  # the branch of the source that it is the head of; empty where HEAD is detached
    files: int = 0  # in the repository
    size: int = 0  # of all its files, in bytes
    notes: tuple[str, ...] = ()  # what was left out, and why


@dataclass(frozen=True)
class Count:
    """Findings of one codemod: at the head, repaired by the commit, and left after it."""

    codemod: str
    found: int
    fixed: int
    left: int


@dataclass(frozen=True)
class Artefact:
    """A file of the result: `changes.patch`, `commit.txt`, `body.md`, `commit.pack`, `findings.json`, ..."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Outcome:
    """What a step says of a repository.

    `state` is "analysing" after `clone` if there is something to go on with. For "failed" and "skipped",
    `reason` is a line for people, and `log` what else is known.
    """

    step: StepName
    state: State
    reason: str = ""
    log: str = ""
    head: Head | None = None
    counts: tuple[Count, ...] = ()
    commit: str = ""
    patch: str = ""  # a digest: the same for the same change, wherever in its files that is
    subject: str = ""
    verified: str = ""  # how the change was verified, for people
    notes: tuple[str, ...] = ()
    files: int = 0  # that were analysed
    changed: int = 0  # files
    artefacts: tuple[Artefact, ...] = ()
    seconds: float = 0.0

    @property
    def final(self) -> bool:
        return self.state != "analysing"
