"""Git, asked about a tree that may be anybody's: its `.git` may have come with it, configuration, hooks and all.

What cannot be switched off by a fixed name is not used: filters, text conversions and programs for diffs have names
that the tree chooses, so no command that looks at the contents of its working files is ever given to git. What
remains is switched off here. (`devfix migrate` has repositories of its own and is stricter still.)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

SECONDS = 120.0
PATIENCE = 5.0  # for a setting, which can be done without
_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.askPass": "true",
    "core.alternateRefsCommand": "true",
    "credential.helper": "",  # forgets those that were named before
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",  # a folder of the tree that looks like a repository is none
    "submodule.recurse": "false",
}
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # nothing is fetched, also where `protocol.NAME.allow` says so
    "GIT_ASKPASS": "true",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS": "true",
}


class GitError(Exception):
    """Git could not say what it was asked; the message is for the user."""


def git(
    *arguments: str,
    stdin: bytes = b"",
    folder: str | None = None,
    variables: Mapping[str, str] | None = None,
    okay: tuple[int, ...] = (0,),
    seconds: float = SECONDS,
) -> bytes:
    """What a git command prints, in the working directory or a folder. It must not look into working files.

    Exit codes other than those that are `okay` raise GitError, as does what takes longer than `seconds`.
    """
    options = [part for key, value in _OFF.items() for part in ("-c", f"{key}={value}")]
    try:
        done = subprocess.run(
            ["git", "--no-pager", *options, *arguments],
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
            cwd=folder,
            env={**os.environ, **_ENVIRONMENT, **(variables or {})},
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git took longer than {seconds:g} seconds") from error
    if done.returncode not in okay:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(why[0][:500] if why else f"git ended with {done.returncode}")
    return done.stdout


def setting(key: str, *where: str) -> str:
    """A setting of git's as one line, or nothing, also where git is kept waiting; `where` may be `--global`."""
    try:
        return " ".join(
            git("config", *where, "--get", key, seconds=PATIENCE).decode("utf-8", "replace").split()
        )
    except GitError:
        return ""
