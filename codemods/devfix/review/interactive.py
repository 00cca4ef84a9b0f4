"""Deciding fix by fix at a terminal, with the keys of `git add -p`.

A `Session` knows the fixes, what was decided, and where it stands; it asks and shows through two functions,
so that it runs in a terminal and in a test alike. It decides and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

HELP = """\
y - make this fix
n - leave this fix out
a - make this fix and all later ones in the file
d - leave out this fix and all later ones in the file
q - stop here; what was accepted is made, the rest is left as it is
s - show this fix with all its code around it
e - edit this fix in your editor, and make it as edited
j - the next fix that is undecided, J the next one
k - the previous fix that is undecided, K the previous one
g - go to a fix by its number
/ - search for a regular expression in the fixes and findings
u - undo the last decision
p - print this fix again
? - print this help"""
KEYS = "y,n,a,d,q,s,e,j,J,k,K,g,/,u,p,?"


@dataclass(frozen=True)
class Unit:
    """One fix. `name` is its fingerprint; `lines` tell what it is, `diff` (made when asked for) what it does."""

    name: str
    path: str
    lines: tuple[str, ...]
    diff: Callable[[int], tuple[str, ...]]  # by lines of context
    edit: Callable[[], str] | None = None  # lets the user edit it; what it says, and "" if it was done


@dataclass
class Session:
    """The state of a review. `decided` maps names of units to "y", "n" or "e" (as edited)."""

    units: tuple[Unit, ...]
    show: Callable[[str], None]
    ask: Callable[[str], str]
    save: Callable[[Mapping[str, str]], None] = lambda decided: None
    decided: dict[str, str] = field(default_factory=dict)
    _past: list[dict[str, str]] = field(default_factory=list)
    _searched: str = ""

    def run(self) -> bool:
        """Ask until everything is decided, or the user stops; True if everything is decided."""
        at = self._next(-1)
        if at is None and self.units:
            at = 0
        while at is not None:
            self._print(at)
            at = self._prompt(at)
        return all(unit.name in self.decided for unit in self.units)

    def accepted(self) -> frozenset[str]:
        """The names of the fixes to be made as they are."""
        return frozenset(name for name, what in self.decided.items() if what == "y")

    # --- asking ----------------------------------------------------------------------------

    def _prompt(self, at: int) -> int | None:
        """Do what one answer says, or ask again; the unit to go on with, None to stop."""
        while True:
            given = self.ask(f"({at + 1}/{len(self.units)}) Make this fix [{KEYS}]? ").strip()
            key, rest = given[:1], given[1:].strip()
            if key in ("y", "n"):
                self._decide([at], key)
                return self._after(at)
            if key in ("a", "d"):
                path = self.units[at].path
                same = [i for i in range(at, len(self.units)) if self.units[i].path == path]
                open_ = [i for i in same if i == at or self.units[i].name not in self.decided]
                self._decide(open_, "y" if key == "a" else "n")
                return self._after(same[-1])
            if key == "q":
                return None
            if key == "u":
                if not self._past:
                    self.show("nothing to undo")
                    continue
                return self._undo()
            if key in ("j", "J", "k", "K", "g", "/"):
                to = self._go(key, rest, at)
                if to is None:
                    continue
                return to
            if key == "e":
                if self._edited(at):
                    return self._after(at)
            elif key == "s":
                self._lines(self.units[at].diff(12))
            elif key == "p":
                self._print(at)
            else:
                self.show(HELP)

    def _go(self, key: str, rest: str, at: int) -> int | None:
        """The unit that a movement leads to; None, and a word why, if there is none."""
        moves = {
            "j": (self._next(at), "no undecided fix after this one"),
            "k": (
                next((i for i in range(at - 1, -1, -1) if self._open(i)), None),
                "no undecided fix before this one",
            ),
            "J": (at + 1 if at + 1 < len(self.units) else None, "this is the last fix"),
            "K": (at - 1 if at else None, "this is the first fix"),
        }
        if key in moves:
            return self._or_say(*moves[key])
        if key == "g":
            number = rest or self.ask(f"go to which fix (1 to {len(self.units)})? ").strip()
            valid = number.isdecimal() and 1 <= int(number) <= len(self.units)
            return self._or_say(int(number) - 1 if valid else None, f"there is no fix {number!r}")
        return self._search(rest, at)

    def _search(self, text: str, at: int) -> int | None:
        text = text or self.ask("search for: ").strip() or self._searched
        try:
            pattern = re.compile(text)
        except re.error as error:
            self.show(f"{text!r} is no regular expression: {error}")
            return None
        self._searched = text
        order = [*range(at + 1, len(self.units)), *range(at + 1)]
        found = next((i for i in order if any(map(pattern.search, self._text(i)))), None)
        return self._or_say(found, f"no fix has {text!r}")

    def _text(self, at: int) -> Iterator[str]:
        unit = self.units[at]
        yield unit.path
        yield from unit.lines
        yield from unit.diff(3)

    def _or_say(self, to: int | None, why: str) -> int | None:
        if to is None:
            self.show(why)
        return to

    # --- deciding --------------------------------------------------------------------------

    def _decide(self, places: list[int], what: str) -> None:
        self._past.append(dict(self.decided))
        for at in places:
            self.decided[self.units[at].name] = what
        self.save(self.decided)

    def _undo(self) -> int:
        was = self._past.pop()
        changed = [
            i for i, unit in enumerate(self.units) if self.decided.get(unit.name) != was.get(unit.name)
        ]
        self.decided.clear()
        self.decided.update(was)
        self.save(self.decided)
        return changed[0] if changed else 0

    def _edited(self, at: int) -> bool:
        edit = self.units[at].edit
        if edit is None:
            self.show("this fix cannot be edited: it spans several files, or is in a notebook")
            return False
        why = edit()
        if why:
            self.show(why)
            return False
        self._decide([at], "e")
        return True

    def _open(self, at: int) -> bool:
        return self.units[at].name not in self.decided

    def _next(self, at: int) -> int | None:
        return next((i for i in range(at + 1, len(self.units)) if self._open(i)), None)

    def _after(self, at: int) -> int | None:
        """The next undecided unit; after the last one, the first that is open."""
        to = self._next(at)
        return to if to is not None else self._next(-1)

    # --- showing ---------------------------------------------------------------------------

    def _print(self, at: int) -> None:
        unit = self.units[at]
        self._lines(unit.lines)
        self._lines(unit.diff(3))
        said = {"y": "accepted", "n": "left out", "e": "accepted as edited"}.get(
            self.decided.get(unit.name, "")
        )
        if said:
            self.show(f"(so far: {said})")

    def _lines(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self.show(line)
