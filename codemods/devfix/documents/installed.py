"""A quick look at what is installed beside devfix, and at the data that devfix brings."""

from __future__ import annotations

import os
from collections.abc import Sequence

from devfix.documents.python import DocumentError, read_bytes


def has_group(folders: Sequence[str], group: str) -> bool:
    """Has any distribution in these folders entry points of that group?

    `importlib.metadata` would say so, too, but takes longer to import than most runs take.
    """
    wanted = group.encode()
    for folder in folders:
        try:
            names = os.listdir(folder)
        except OSError:  # not there, or a zip file, which is not looked into
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    if wanted in read_bytes(os.path.join(folder, name, "entry_points.txt")):
                        return True
                except DocumentError:  # most have none
                    continue
    return False


def data(name: str) -> str:
    """The text of a file of devfix's own, by its path in the package. Raises DocumentError."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return read_bytes(os.path.join(folder, *name.split("/"))).decode()
