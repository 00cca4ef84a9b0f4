"""How random programs are written: names, definitions, and sites, at each of which one fault can be planted."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

_MARK = re.compile("\x02(\\d+)\x03")
_ALSO = re.compile("\x04\\d+\x03")
_NAMES = [
    "a", "b", "c", "d", "e", "g", "h", "k", "m", "p", "q", "s", "t", "u", "v", "w", "xs", "ys", "feats",
    "inp", "hid", "data", "vals", "out", "res", "cur", "state", "rep", "emb", "z", "item", "part",
    "chunk", "block", "left", "right", "first", "second", "extra", "base", "other", "bias_term",
    "scale", "shift", "table", "grid", "anchor", "kernel", "window", "offsets", "weights",
]  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A place for a fault: its kind, the construct that the value goes through, and both texts."""

    kind: str
    construct: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Made:
    """A program with the marks of its sites."""

    seed: int
    source: str
    sites: tuple[Site, ...]

    def text(self, *faults: int | None) -> str:
        """The program, right or with the faults of these sites."""
        return _MARK.sub(lambda found: self._site(int(found[1]), faults), _ALSO.sub("", self.source))

    def lines(self, fault: int) -> set[int]:
        """The lines on which the fault is planted, and those that could cure it as well."""
        found: set[int] = set()
        for number, line in enumerate(self.source.split("\n"), 1):
            if f"\x02{fault}\x03" in line or f"\x04{fault}\x03" in line:
                found.add(number)
        return found

    def _site(self, number: int, faults: tuple[int | None, ...]) -> str:
        return self.sites[number].wrong if number in faults else self.sites[number].right


@dataclass
class Maker:
    pick: random.Random
    top: list[str] = field(default_factory=list)  # definitions, by blocks
    sites: list[Site] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    size: int = 4

    # --- small parts ---------------------------------------------------------------------

    def name(self) -> str:
        free = [one for one in _NAMES if one not in self.used]
        made = self.pick.choice(free) if free else f"n{len(self.used)}"
        self.used.add(made)
        return made

    def site(self, kind: str, right: str, wrong: str, construct: str = "plain") -> str:
        self.sites.append(Site(kind, construct, right, wrong))
        return f"\x02{len(self.sites) - 1}\x03"

    def also(self) -> str:
        """A mark for a line that could cure the fault of the newest site as well."""
        return f"\x04{len(self.sites) - 1}\x03"

    def one(self, *texts: str) -> str:
        return self.pick.choice(texts)

    def define(self, text: str) -> None:
        self.top.append(text)

    def renamed(self, text: str, old: str, new: str) -> str:
        """A text with another name for a variable, in its sites as well."""
        pattern = re.compile(rf"(?<![\w.']){old}\b(?!=\w|=\")")
        for number, site in enumerate(self.sites):
            if f"\x02{number}\x03" in text:
                right, wrong = pattern.sub(new, site.right), pattern.sub(new, site.wrong)
                self.sites[number] = Site(site.kind, site.construct, right, wrong)
        return pattern.sub(new, text)


__all__ = ["Made", "Maker", "Site"]
