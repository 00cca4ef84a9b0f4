"""Trees, and what devfix keeps about them for its user: journals, and a review that was cut off.

None of that is in the tree: it may be anybody's, and what it brings along must not be taken for what this
user did there. It is in the user's state folder, for nobody else to read or write, under a name that is made of
where the tree is and which one it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from contextlib import suppress

from devfix.pipeline.listing import upward

_PLACES = {"cache": (".cache",), "state": (".local", "state")}
_TREES = "trees"
_WHERE = "tree"  # the file that says which tree it is
_GONE = 30 * 86_400  # seconds that is kept what belongs to a tree that is not there any more


def user_folder(kind: str) -> str:
    """The folder for devfix's `cache` or `state` of this user; empty where there is no such place.

    A relative path in the environment does not count: it would lead into whatever tree devfix runs in.
    """
    base = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if os.name == "nt":
            base = os.environ.get("LOCALAPPDATA", "")
        elif sys.platform == "darwin" and kind == "state":
            base = os.path.join(home, "Library", "Application Support")
        else:
            base = os.path.join(home, *_PLACES[kind])
    return os.path.join(base, "devfix") if os.path.isabs(base) else ""


# --- trees -----------------------------------------------------------------------------------------


def tree_of(below: str) -> str:
    """The tree that a folder belongs to: its repository, or where there is none the folder; a real path."""
    here = os.path.realpath(below)
    return _repository(here) or here


def tree_for(path: str, here: str) -> str:
    """The tree of a file: that of the folder `here` if the file is below it, else its own."""
    tree = tree_of(here)
    real = os.path.realpath(path)
    return tree if is_below(real, tree) else tree_of(os.path.dirname(real))


def leads_out(path: str, here: str) -> str:
    """The tree that a path is in by its name, if links lead out of it from there; else empty."""
    name, tree = os.path.abspath(path), tree_of(here)
    if not is_below(name, tree):
        folder = os.path.dirname(name)
        tree = os.path.realpath(_repository(folder) or folder)
    return "" if is_below(os.path.realpath(path), tree) else tree


def is_below(path: str, folder: str) -> bool:
    """By their names alone."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _repository(folder: str) -> str:
    return next((one for one in upward(folder) if os.path.exists(os.path.join(one, ".git"))), "")


# --- what is kept about a tree ------------------------------------------------------------------------


def place(tree: str) -> str:
    """Where is kept what belongs to a tree, whether it is there or not. Raises OSError if there is no such place.

    Its name is made of the tree's path and of its number in the file system: another tree that takes its
    place does not inherit what is kept. (The number of the file system itself may be another one after each
    start of the machine, and what a power cut left half done is to be found.)
    """
    from hashlib import sha256

    base = user_folder("state")
    if not base:
        raise OSError("this user has no folder for it; name one with XDG_STATE_HOME")
    if is_below(os.path.realpath(base), tree) and _repository(tree):
        raise OSError(f"{base} is in the repository {tree}; name another folder with XDG_STATE_HOME")
    key = sha256(f"{tree}\0{os.stat(tree).st_ino}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(base, _TREES, key)


def existing(tree: str) -> str:
    """The folder with what is kept about a tree; empty if there is none, or if it is not this user's alone."""
    try:
        folder = place(tree)
        for one in _levels(folder):
            check(one)
    except OSError:
        return ""
    return folder


def make(tree: str) -> str:
    """The same folder, made where it is not there yet. Raises OSError."""
    folder = place(tree)
    above, *_ = levels = _levels(folder)
    os.makedirs(os.path.dirname(above), mode=0o700, exist_ok=True)
    for one in levels:
        with suppress(FileExistsError):
            os.mkdir(one, 0o700)
        check(one)
    with suppress(FileExistsError), open(os.path.join(folder, _WHERE), "xb") as file:
        file.write(os.fsencode(tree))
        _tidy(levels[1])
    return folder


def _levels(folder: str) -> list[str]:
    trees = os.path.dirname(folder)
    return [os.path.dirname(trees), trees, folder]


def check(folder: str) -> None:
    """Raises OSError for what is no folder of this user's alone."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(f"{folder} is not a folder")
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise OSError(f"{folder} is not yours alone; name another folder with XDG_STATE_HOME")


def _tidy(trees: str) -> None:
    """Forget trees that are gone for long."""
    for name in os.listdir(trees):
        folder = os.path.join(trees, name)
        with suppress(OSError):
            if os.stat(folder).st_mtime < time.time() - _GONE:
                with open(os.path.join(folder, _WHERE), "rb") as file:
                    tree = os.fsdecode(file.read(10_000))
                if tree and not os.path.isdir(tree):
                    shutil.rmtree(folder, ignore_errors=True)
