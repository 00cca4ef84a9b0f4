"""What a killed `devfix apply` left half done."""

from __future__ import annotations

import os
from collections.abc import Iterable

from devfix.commands.running import complain


def recovered(paths: Iterable[str], *, writes: bool) -> None:
    """Put right what a killed apply left half done around these paths; without `writes` only say so."""
    from devfix.documents.state import existing, tree_for, tree_of

    here = os.getcwd()
    for tree in dict.fromkeys([tree_of(here), *(tree_for(path, here) for path in paths)]):
        if not existing(tree):
            continue
        from devfix.documents.journal import abandoned, recover

        if not abandoned(tree):
            continue
        if not writes:
            complain("an earlier run was killed while it wrote; `devfix apply` or `devfix undo` cleans up")
            continue
        found = recover(tree)
        for path in found.restored:
            complain(
                f"{os.path.relpath(path)}: restored, since an earlier run was killed while it wrote the file"
            )
        for path, why in found.refused:
            complain(f"{os.path.relpath(path)}: an earlier run was killed while it wrote the file; {why}")
