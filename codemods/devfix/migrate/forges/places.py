"""Which server a repository is on, and how to talk to it: by its host name, or by what the user has said."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from devfix.migrate import children, folders
from devfix.migrate.forges import Forge
from devfix.migrate.git import is_local
from devfix.migrate.model import MigrateError, Settings, Source

Kind = Literal["github", "gitlab", "gitea"]
_KINDS: tuple[Kind, ...] = get_args(Kind)
_KNOWN: dict[str, Kind] = {
    "github.com": "github", "gitlab.com": "gitlab", "gitea.com": "gitea", "codeberg.org": "gitea",
}  # fmt: skip
_SCP = re.compile(r"(?:[^@/]+@)?([\w.-]+):(?!//)(.+)")
# The token of github.com is not for other hosts, as with `gh`.
_VARIABLES = {
    "github.com": ("GH_TOKEN", "GITHUB_TOKEN"),
    "github": ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
    "gitea": ("GITEA_TOKEN", "FORGEJO_TOKEN"),
}
_COMMANDS = {
    "github": ("gh", "auth", "token", "--hostname"),
    "gitlab": ("glab", "config", "get", "token", "--host"),
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Place:
    """`base` is the address of the server without a `/` at its end, `path` OWNER/NAME or OWNER."""

    kind: Kind
    base: str
    path: str

    @property
    def host(self) -> str:
        return urlsplit(self.base).hostname or ""


def parse_forge(text: str) -> tuple[Kind, str]:
    """`KIND=URL` -> kind and address; raises MigrateError."""
    kind, _, base = text.partition("=")
    parts = urlsplit(base)
    if kind not in _KINDS or parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise MigrateError(f"{text!r} is not of the form KIND=URL with one of {', '.join(_KINDS)}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise MigrateError(f"{base}: a token is sent over https only")
    return kind, base.rstrip("/")


def place_of(url: str, forges: Sequence[str] = (), kind: str = "") -> Place | None:
    """Where a repository or an organisation is; None: on no server that is known to be a forge.

    `forges` are KIND=URL. With `kind`, the host of the URL is a forge of that kind.
    """
    if is_local(url):
        return None
    if "://" in url:
        parts = urlsplit(url)
        host, path = parts.hostname or "", parts.path
        at = f":{parts.port}" if parts.port and parts.scheme in ("http", "https") else ""
        web = parts.scheme in ("http", "https")
    elif found := _SCP.fullmatch(url):
        host, path, at, web = found[1].lower(), found[2], "", False
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    for text in forges:
        of, base = parse_forge(text)
        known = urlsplit(base)
        if known.hostname == host and (not web or f":{known.port}" == (at or ":None")):
            return Place(of, base, path.removeprefix(known.path.strip("/")).strip("/"))
    of_host = kind or _KNOWN.get(host, "")
    if not of_host:
        return None
    of, base = parse_forge(f"{of_host}={parts.scheme if web else 'https'}://{host}{at}")
    return Place(of, base, path)


def token_of(place: Place) -> str:
    """From the environment, else from the server's own command line; raises MigrateError without one."""
    names = _VARIABLES["github.com" if place.host == "github.com" else place.kind]
    for name in names:
        if os.environ.get(name):
            return os.environ[name]
    command = _COMMANDS.get(place.kind)
    program = folders.program(command[0]) if command else None
    if command and program:
        done = children.run(
            [program, *command[1:], place.host], deadline=time.monotonic() + 60, env=os.environ
        )
        token = done.out.decode("utf-8", "replace").strip()
        if not done.code and token and token.isprintable():
            return token
    hint = f", or log in with `{command[0]}`" if command else ""
    raise MigrateError(f"there is no token for {place.host}: set {names[0]}{hint}")


class Forges:
    """The servers of a campaign, connected to when they are first asked for.

    `pause` is the least time between two changes on a server that the library keeps by itself, in seconds.
    """

    def __init__(self, settings: Settings, pause: float = 1.0) -> None:
        self._settings = settings
        self._pause = pause
        self._made: dict[tuple[Kind, str], Forge] = {}

    def place(self, source: Source) -> Place | None:
        place = place_of(source.url, self._settings.forges, source.forge)
        return place if place is not None and "/" in place.path else None

    def at(self, place: Place) -> Forge:
        """Raises MigrateError where there is no library or no token."""
        key = (place.kind, place.base)
        if key not in self._made:
            self._made[key] = _connected(place, self._pause)
        return self._made[key]


def _connected(place: Place, pause: float) -> Forge:
    made: type
    try:
        if place.kind == "github":
            from devfix.migrate.forges.github import GitHub as made
        elif place.kind == "gitlab":
            from devfix.migrate.forges.gitlab import GitLab as made
        else:
            from devfix.migrate.forges.gitea import Gitea as made
    except ImportError as error:
        what = f"pull requests on {place.host} need more libraries: pip install 'devfix[forges]'"
        raise MigrateError(f"{what} ({error.name} is missing); --no-pull-request does without") from error
    return cast(Forge, made(place.base, token_of(place), pause))
