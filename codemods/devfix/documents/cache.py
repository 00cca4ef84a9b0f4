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
