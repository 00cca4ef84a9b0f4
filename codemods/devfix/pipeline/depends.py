r"""What a result depends on besides its settings: the files that were read for it, and the places looked at.

Whoever keeps a result notes meanwhile what it was made of (`recording`). What is remembered within a run
and used for several results brings what it was made of along (`remembered`, `add`). Nobody recording,
nothing of this costs anything.

A *need* is a key and the state that was found there:

- `=PATH`: the SHA-256 of a file's bytes, or `LARGE` (too large to be of interest), or `UNREAD`, or `GONE`;
- `?PATH`: "file", "folder" or "" for neither;
- `^FOLDER`: the root of the project that its files belong to;
- `%FOLDER`: the names in a folder, and which of them are folders;
- `+ROOT`: where the library is installed that recipes are made for;
- `@ROOT\0NAME`: which files of a project import a name: the state of all its Python files, and, after a space,
  of the list of those that do. All files as they were, it is the same list; else it may still be.

Too many needs cost a second analysis at worst, a missing one a wrong result: in doubt, note it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

LARGE, UNREAD, GONE = "large", "unread", "gone"
CHANGED = "changed"  # no state that anything is ever in again
_HEX = 40  # digits of a SHA-256 that are kept

Key = TypeVar("Key")
Made = TypeVar("Made")
Owner = TypeVar("Owner")
Given = ParamSpec("Given")


class Needs:
    """What one result was made of."""

    __slots__ = ("_taken", "states")

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self._taken: dict[Needs, int] = {}  # others that were added: how many needs they had

    def note(self, key: str, state: str) -> None:
        if self.states.setdefault(key, state) != state:
            self.states[key] = CHANGED  # while it was looked at: such a result is for once only

    def add(self, other: Needs) -> None:
        """Take over the needs of something that was made before; they may have grown since the last time."""
        if other is not self and self._taken.get(other) != len(other.states):
            self._taken[other] = len(other.states)
            for key, state in other.states.items():
                self.note(key, state)


_open: list[Needs] = []
UNKNOWN = Needs()  # of what was made while nobody recorded
UNKNOWN.note("", CHANGED)


def active() -> bool:
    return bool(_open)


def recorder() -> Needs | None:
    """What notes what is needed now; None if nobody does."""
    return _open[-1] if _open else None


@contextmanager
def recording() -> Iterator[Needs]:
    """Note what is needed while it lasts, for this one only: `add` it to the one around it."""
    needs = Needs()
    with into(needs):
        yield needs


@contextmanager
def aside() -> Iterator[Needs]:
    """As `recording`, if anybody records at all; for what is kept."""
    if not _open:
        yield UNKNOWN
        return
    with recording() as needs:
        yield needs


@contextmanager
def into(needs: Needs) -> Iterator[None]:
    """Note what is needed in there."""
    _open.append(needs)
    try:
        yield
    finally:
        _open.pop()


def note(key: str, state: str) -> None:
    if _open:
        _open[-1].note(key, state)


def add(needs: Needs) -> None:
    if _open:
        _open[-1].add(needs)


def note_read(path: str, data: bytes | None) -> None:
    """A file was read, or (None) could not be."""
    if _open:
        path = os.path.abspath(path)
        _open[-1].note(f"={path}", unreadable(path) if data is None else digest(data))


def note_listing(folder: str) -> None:
    if _open:
        _open[-1].note(f"%{folder}", listing(folder))


def listing(folder: str) -> str:
    """The state of the names in a folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name for one in entries
            )
    except (OSError, ValueError):
        return UNREAD
    return digest("\0".join(names).encode("utf-8", "surrogateescape"))


def unreadable(path: str) -> str:
    return UNREAD if os.path.lexists(path) else GONE


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()[:_HEX]


def remembered(memo: dict[Key, tuple[Made, Needs]], key: Key, make: Callable[[], Made]) -> Made:
    """What is in the memo, made if it is not; with what it needs."""
    known = memo.get(key)
    if known is None:
        with aside() as needs:
            made = make()
        known = memo[key] = made, needs
    if _open:
        _open[-1].add(known[1])
    return known[0]


def kept(method: Callable[Concatenate[Owner, Given], Made]) -> Callable[Concatenate[Owner, Given], Made]:
    """A method whose results are remembered, by its arguments, with what they need."""

    name = f"kept {method.__name__}"

    def remembering(owner: Owner, /, *given: Given.args, **named: Given.kwargs) -> Made:
        memo: dict[object, tuple[Made, Needs]] = vars(owner).setdefault(name, {})
        return remembered(memo, given, lambda: method(owner, *given, **named))

    return remembering
