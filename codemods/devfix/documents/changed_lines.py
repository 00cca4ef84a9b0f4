"""The lines that changed since a revision, as git knows them."""

from __future__ import annotations

import os
import re
import subprocess

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
_WORD = re.compile(r"[\w./@^~:{}+-]+")


class GitError(Exception):
    """Git could not say what changed; the message is for the user."""


def changed_lines(revision: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """By path relative to the working directory, the line ranges that differ from `revision`.

    Untracked files that are not ignored are new as a whole. Raises GitError.
    """
    if not _WORD.fullmatch(revision) or revision.startswith("-"):
        raise GitError(f"{revision!r} is no revision")
    patch = _git("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "-U0",
                 "--relative", "--no-prefix", revision, "--")  # fmt: skip
    found = _ranges(patch)
    for name in _git("ls-files", "--others", "--exclude-standard", "-z").split(b"\0"):
        if name:
            found[os.fsdecode(name)] = ((1, 1 << 30),)
    return found


def _ranges(patch: bytes) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    path, inside = "", 0
    for line in patch.split(b"\n"):
        if inside and line[:1] in (b"+", b"-"):  # a line of a file, which may look like anything
            inside -= 1
        elif match := _HUNK.match(line):
            first, count = int(match[2]), int(match[3] or 1)
            # Where lines were only removed, the ones around the place have changed their meaning.
            lines = (first, first + count - 1) if count else (first, first + 1)
            found[path] = (*found.get(path, ()), lines)
            inside = int(match[1] or 1) + count
        elif line.startswith(b"+++ "):
            path = _unquoted(line[4:].rstrip(b"\t"))
    return found


def _unquoted(name: bytes) -> str:
    """A name as git writes it: one with odd characters stands in quotes, with C escapes."""
    if name.startswith(b'"') and name.endswith(b'"'):
        name = name[1:-1].decode("unicode_escape").encode("latin-1")
    return os.fsdecode(name)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *_SAFE, *arguments], capture_output=True, timeout=120, check=False)
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise GitError("git took longer than two minutes") from error
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(why[0] if why else f"git ended with {done.returncode}")
    return done.stdout
