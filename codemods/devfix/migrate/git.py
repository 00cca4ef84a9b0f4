"""Git, as a repository that nobody vouches for must meet it.

Nothing is ever checked out. Commits are fetched into a bare repository that devfix has made, files are
read as blobs and written by devfix itself, and commits are made from the objects. So there is no place for
filters, LFS, line endings, submodules, links or file names to do anything, and no configuration of the
repository is read but that of a *local* one, by the `git upload-pack` and `receive-pack` that serve it.

What is left is switched off by name: hooks, fsmonitor, prompts for credentials, transports that run
programs (`ext::`), fetching of missing objects. The user's own configuration counts as far as it says how
to reach a server.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from devfix.migrate import folders
from devfix.migrate.children import MARK, Done, TooLong, TooMuch, TooMuchOutput, run
from devfix.migrate.model import Limits, MigrateError
from devfix.review.text import printable

BASE = "refs/devfix/base"
_PROTOCOLS = "file:git:http:https:ssh"
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_PROXY_COMMAND", "GIT_SSL_", "GIT_HTTP_")
_SERVING = (
    "-c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true"
    " -c receive.autogc=false -c receive.denyCurrentBranch=refuse -c gc.auto=0"
)
_CONFIG = """\
[core]
	hooksPath = /dev/null
	fsmonitor = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	askPass = true
	quotePath = false
[credential]
	interactive = false
[fetch]
	unpackLimit = 1
	recurseSubmodules = false
	writeCommitGraph = false
	fsckObjects = false
[transfer]
	unpackLimit = 1
	bundleURI = false
[submodule]
	recurse = false
[gc]
	auto = 0
[maintenance]
	auto = false
[log]
	showSignature = false
[push]
	gpgSign = false
	followTags = false
	recurseSubmodules = no
[commit]
	gpgSign = false
[fastimport]
	unpackLimit = 100
[safe]
	directory = *
"""
_SCP = re.compile(r"(?:[\w.+~-]+@)?[\w\[][\w.:\]-]*:(?!:)(?!//).+")
_URL = re.compile(r"(file|git|https?|ssh)://([^/]*)(/.*)?", re.IGNORECASE)
_SECRET = re.compile(r"(?<=://)[^/@\s]*@")
# What git prints, the most telling first: the other side knows why it ended the connection.
_TELLING = ("remote: fatal:", "remote: ERROR", "ERROR", "fatal:", "error:")
_ANY_SHA = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class GitFailed(MigrateError):
    """Git said no; `log` is all that it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


def check_url(url: str) -> str:
    """The URL, or a local path made absolute; raises MigrateError for what may not be given to git."""
    if not url or "\0" in url or "\n" in url:
        raise MigrateError("a repository needs a path or a URL of one line")
    if found := _URL.fullmatch(url):
        host = found[2].rpartition("@")[2]
        if host.startswith("-") or found[2].startswith("-") or (found[3] or "").startswith("/-"):
            raise MigrateError(f"{shown(url)}: a host or path that begins with - is refused")
        return url
    if "::" in url or "://" in url:
        raise MigrateError(f"{shown(url)}: only file, git, http, https and ssh URLs are fetched")
    if url.startswith("-"):
        raise MigrateError(f"{shown(url)}: a name that begins with - is refused; write ./{shown(url)}")
    if os.path.exists(url):
        return os.path.realpath(url)
    if _SCP.fullmatch(url) and not url.partition(":")[0].rpartition("@")[2].startswith("-"):
        if url.partition(":")[2].startswith("-"):
            raise MigrateError(f"{shown(url)}: a path that begins with - is refused")
        return url
    raise MigrateError(f"{shown(url)}: is neither a folder nor a URL that git can fetch")


def check_ref(ref: str) -> str:
    """A branch, tag or full commit id; raises MigrateError."""
    odd = ref.startswith("-") or ref.endswith((".lock", "/", ".")) or ".." in ref or "@{" in ref
    if odd or any(c.isspace() or c in "~^:?*[\\\x7f" or ord(c) < 32 for c in ref):
        raise MigrateError(f"{printable(ref)!r} is no name of a branch, a tag or a commit")
    return ref


def shown(url: str) -> str:
    """Without a password or token, on one line."""
    return printable(_SECRET.sub("", url))


def is_local(url: str) -> bool:
    return os.path.isabs(url) or url.lower().startswith("file://")


def host_of(url: str) -> str:
    """The host of a git URL; empty for one of this machine's paths."""
    if is_local(url):
        return ""
    return (urlsplit(url).hostname or "") if "://" in url else url.partition(":")[0].rpartition("@")[2]


@dataclass(frozen=True)
class Remote:
    """What a source has: the commit that HEAD (or a ref) names, and the names to fetch it by."""

    commit: str
    name: str  # what to fetch: "HEAD", a full name of a ref, or a commit id
    branch: str = ""


class Git:
    """Git in one scratch folder: a bare repository `repo.git`, and a configuration of its own.

    Every method raises MigrateError: GitFailed, TooLong or TooMuch.
    """

    def __init__(self, folder: str, limits: Limits, mark: str) -> None:
        self.folder = folder = os.path.realpath(folder)
        self.bare = os.path.join(folder, "repo.git")
        self.limits = limits
        self.url = ""
        self.deadline = time.monotonic() + limits.seconds
        self.env = _environment(os.path.join(folder, "gitconfig"), mark)
        folders.write(os.path.join(folder, "gitconfig"), _user_config() + _CONFIG.encode())

    def __call__(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        most: int = 64 << 20,
        okay: Sequence[int] = (0,),
        watch: Callable[[], None] = lambda: None,
    ) -> bytes:
        """The output of a git command in the bare repository."""
        what = _word(arguments)
        try:
            done = run(
                ["git", *arguments],
                deadline=self.deadline,
                env=self.env,
                cwd=self.folder,
                stdin=stdin,
                most=most,
                watch=watch,
            )
        except FileNotFoundError as error:
            raise GitFailed("git is not installed") from error
        except TooLong as error:
            raise TooLong(
                f"git {what} was not done after {self.limits.seconds:g} s; --seconds sets the limit"
            ) from error
        except TooMuchOutput as error:
            raise TooMuchOutput(f"git {what}: {error}") from error
        if done.code not in okay:
            raise self._failed(arguments, done)
        return done.out

    def _failed(self, arguments: Sequence[str | bytes], done: Done) -> GitFailed:
        said = _SECRET.sub("", done.err.decode("utf-8", "replace")).replace("\0", "").strip()
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        told = [line for start in _TELLING for line in lines if line.startswith(start)] or lines
        why = told[0] if told else f"ended with {done.code}"
        # The same words for the same failure: the log has the rest.
        why = _ANY_SHA.sub("an object", why)
        why = why.replace(f"'{self.url}'", "it") if self.url else why
        return GitFailed(f"git {_word(arguments)}: {printable(why)}", said)

    # --- repositories ------------------------------------------------------------------------

    def make(self, commit: str) -> None:
        """An empty bare repository for objects like this commit."""
        kind = "sha256" if len(commit) == 64 else "sha1"
        self("init", "-q", "--bare", "--template=", f"--object-format={kind}", self.bare)
        self.env["GIT_DIR"] = self.bare

    def borrow(self, store: str, commit: str) -> None:
        """A commit of what shards share, as BASE, in a repository like `make`'s."""
        self.make(commit)
        objects = os.path.join(store, "repo.git", "objects")
        folders.write(os.path.join(self.bare, "objects", "info", "alternates"), os.fsencode(objects) + b"\n")
        self("update-ref", BASE, commit)

    def refs(self, url: str) -> tuple[dict[str, str], str]:
        """The commits that a source names, by full name, and the branch that its HEAD is."""
        self.url = shown(url)
        out = self("ls-remote", "--symref", *_served(url, "upload-pack"), "--", url)
        refs: dict[str, str] = {}
        branch = ""
        for line in out.decode("utf-8", "surrogateescape").splitlines():
            value, _, name = line.partition("\t")
            if value.startswith("ref: ") and name == "HEAD":
                branch = value[5:].removeprefix("refs/heads/")
            elif _SHA.fullmatch(value):
                refs[name] = value
        return refs, branch

    def remote(self, url: str, ref: str = "") -> Remote | None:
        """What to fetch; None if the repository has no commits."""
        refs, branch = self.refs(url)
        return chosen(refs, branch, ref) if refs else None

    def fetch(self, url: str, name: str, *, whole: bool = False) -> None:
        """The commit of that name as BASE; with `whole`, its history, too."""

        def watch() -> None:
            if folders.size(self.bare, self.limits.size) > self.limits.size:
                raise TooMuch(f"is larger than {self.limits.size >> 20} MiB; --max-size sets the limit")

        self(
            "fetch", "-q", *([] if whole else ["--depth=1"]), "--no-tags", "--no-write-fetch-head",
            "--no-recurse-submodules", "--no-auto-maintenance",
            *_served(url, "upload-pack"), "--", url, f"+{name}:{BASE}",
            watch=watch,
        )  # fmt: skip
        watch()

    def push(self, url: str, commit: str, branch: str, expected: str) -> None:
        """Make a branch there that is `expected` (or nothing, if empty) be this commit."""
        lease = f"--force-with-lease=refs/heads/{branch}:{expected}"
        self(
            "push", "-q", "--no-verify", "--no-recurse-submodules", "--no-follow-tags", lease,
            *_served(url, "receive-pack"), "--", url, f"{commit}:refs/heads/{branch}",
        )  # fmt: skip

    def blobs(self, ids: Sequence[str], sizes: Sequence[int]) -> list[bytes]:
        """The contents of blobs."""
        out = self(
            "cat-file",
            "--batch",
            stdin="\n".join(ids).encode() + b"\n",
            most=sum(sizes) + 200 * len(ids) + 1000,
        )
        found, at = [], 0
        for id in ids:
            end = out.index(b"\n", at)
            words = out[at:end].split()
            if len(words) != 3 or words[1] != b"blob":
                raise GitFailed(f"object {id} is missing or no file")
            size = int(words[2])
            found.append(out[end + 1 : end + 1 + size])
            at = end + 2 + size
        return found


def chosen(refs: Mapping[str, str], branch: str, ref: str) -> Remote:
    """Which of the refs of a source is meant; raises GitFailed."""
    if not ref:
        if "HEAD" not in refs:
            raise GitFailed("its HEAD names a branch that does not exist; give a ref")
        return Remote(refs["HEAD"], f"refs/heads/{branch}" if branch else "HEAD", branch)
    for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
        if name in refs:
            found = refs.get(f"{name}^{{}}", refs[name])
            return Remote(found, name, name.partition("refs/heads/")[2])
    if _SHA.fullmatch(ref):
        return Remote(ref, ref, branch if refs.get("HEAD") == ref else "")
    raise GitFailed(f"it has no branch or tag {printable(ref)}")


def _served(url: str, service: str) -> tuple[str, ...]:
    """A local repository is served by a git that runs nothing of it."""
    return (f"--{service}=git {_SERVING} {service}",) if is_local(url) else ()


def _word(arguments: Sequence[str | bytes]) -> str:
    return next((one for one in arguments if isinstance(one, str) and not one.startswith("-")), "")


def _environment(config: str, mark: str) -> dict[str, str]:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    env.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=30")
    env.update(
        {
            "GIT_CONFIG_GLOBAL": config,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "SSH_ASKPASS": "true",
            "SSH_ASKPASS_REQUIRE": "never",
            "GCM_INTERACTIVE": "never",
            "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(config),
            "LC_ALL": "C",
            MARK: mark,
        }
    )
    return env


def _user_config() -> bytes:
    """The user's own settings, such as credential helpers and `insteadOf`, come before ours."""
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    if named is not None:
        paths = [named] if named and named != os.devnull else []
    else:
        home = os.path.expanduser("~")
        xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        paths = [os.path.join(xdg, "git", "config"), os.path.join(home, ".gitconfig")]
    lines = ["[include]\n"] if paths else []
    for path in paths:
        escaped = path.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'\tpath = "{escaped}"\n')
    return "".join(lines).encode("utf-8", "surrogateescape")
