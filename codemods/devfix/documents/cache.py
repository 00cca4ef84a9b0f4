"""The folder that devfix keeps what is its own in: `.devfix_cache`, ignored by git through a file inside it."""

from __future__ import annotations

import os
from contextlib import suppress

NAME = ".devfix_cache"


def cache_folder(below: str) -> str:
    """The cache folder for work done in the folder `below`: at the top of its repository, or in it."""
    here = folder = os.path.realpath(below)
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.join(here, NAME)
        folder = parent
    return os.path.join(folder, NAME)


def cache_of(path: str, here: str) -> str:
    """The cache folder for a file: that of the folder `here` if the file is below it, else of its own."""
    cache = cache_folder(here)
    inside = os.path.dirname(cache).rstrip(os.sep) + os.sep
    real = os.path.realpath(path)
    return cache if real.startswith(inside) else cache_folder(os.path.dirname(real))


def make(folder: str) -> None:
    """Make the cache folder, unless it is there. Raises OSError, also if a link is in its place."""
    if os.path.islink(folder):
        raise OSError(f"{folder} is a link")
    os.makedirs(folder, exist_ok=True)
    with suppress(FileExistsError), open(os.path.join(folder, ".gitignore"), "x") as file:
        file.write("*\n")


def identity(folder: str) -> str:
    """What tells a cache folder that was made here from one that came with somebody's repository.

    Whoever made that could not know which number the file system would give the folder. What is kept in the
    cache names it, and what names another is not read. Raises OSError.
    """
    return str(os.lstat(folder).st_ino)


def write_own(folder: str, name: str, data: bytes) -> None:
    """Write a file of the cache folder, whole or not at all; a link in its place is replaced. Raises OSError."""
    from devfix.documents.beside import remove, write_beside
    from devfix.documents.python import DocumentError

    make(folder)
    target = os.path.join(folder, name)
    try:
        temporary = write_beside(target, data, plain=True)
    except DocumentError as error:
        raise OSError(str(error)) from error
    try:
        os.replace(temporary, target)
    except OSError:
        remove(temporary)
        raise
