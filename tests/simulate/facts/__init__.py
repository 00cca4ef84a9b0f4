"""Facts about CUDA: a few lines of program each, and what they print or raise.

Every `*.txt` of this folder is a theme:

    % before import torch.distributed as dist    (of all facts of the theme, at its top)
    ## name of the fact
    % devices 2                                  (needed; one otherwise)
    % torch >=2.6                                (the others do not have it)
    the program; the value of a last expression is shown
    = what it prints, or `Type: message`
    =[<2.9] what it does on these versions of torch
    ~ what simulated devices do instead
    ~~ why, for the table in docs/simulate.md

`% together` at the top of a theme: its facts leave nothing behind that matters to the others, so that many share a
process, but for those with `% alone`. The names that every fact finds are those of `HEAD`. `running.py` runs facts,
`record_cuda.py` asks a real GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

FOLDER = Path(__file__).resolve().parent
HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
h = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
c, hi, hm, h0 = h.cuda(), torch.tensor([0, 1]), torch.tensor([[True, False], [False, True]]), torch.tensor(2.0)
ci, cm, c0 = hi.cuda(), hm.cuda(), h0.cuda()
"""


@dataclass(frozen=True)
class Fact:
    """`says` are pairs of versions of torch ("": all others) and what the program comes to there."""

    theme: str
    name: str
    code: str
    before: str = ""
    says: tuple[tuple[str, str], ...] = ()
    devices: int = 1
    torch: str = ""
    together: bool = False
    simulated: str = ""  # where simulated devices do something else
    why: str = ""

    @property
    def id(self) -> str:
        return f"{self.theme}: {self.name}"

    @property
    def program(self) -> str:
        """The whole program; it gives what it shows to `show`."""
        body = ast.parse(self.code).body
        lines = self.code.splitlines()
        if isinstance(body[-1], ast.Expr):
            start = body[-1].lineno - 1
            lines = [*lines[:start], "show(", *lines[start:], ")"]
        elif lines[-1].startswith("result = "):
            lines.append("show(result)")
        return "\n".join([HEAD, self.before, *lines, ""])

    def available(self, version: str) -> bool:
        """Does a version of torch have what it is about?"""
        return not self.torch or _within(version, self.torch)

    def on(self, version: str) -> str:
        """What it comes to on a version of torch."""
        for versions, text in self.says:
            if versions and _within(version, versions):
                return text
        return dict(self.says)[""]


def _within(version: str, versions: str) -> bool:
    return SpecifierSet(versions).contains(version.partition("+")[0], prereleases=True)


def themes() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def facts(theme: str) -> list[Fact]:
    """The facts of a theme; raises ValueError where two have one name."""
    text = (FOLDER / f"{theme}.txt").read_text(encoding="utf-8")
    top, *parts = ("\n" + text).split("\n## ")
    shared = dict(_marks(top))
    before = "\n".join(value for name, value in _marks(top) if name == "before")
    found = [_fact(theme, part, before, "together" in shared, shared.get("torch", "")) for part in parts]
    names = [fact.name for fact in found]
    if len(set(names)) != len(names):
        raise ValueError(f"{theme}: {sorted(name for name in names if names.count(name) > 1)}")
    return found


def _marks(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("% "):
            name, _, value = line[2:].partition(" ")
            yield name, value


def _fact(theme: str, part: str, before: str, together: bool, torch: str) -> Fact:
    name, *lines = part.splitlines()
    marks = dict(_marks(part))
    together = together and "alone" not in marks
    code = [line for line in lines if not line.startswith(("% ", "= ", "=[", "~ ", "~~ "))]
    says = []
    for line in lines:
        if line.startswith("=["):
            versions, _, value = line[2:].partition("] ")
            says.append((versions, value))
        elif line.startswith("= "):
            says.append(("", line[2:]))
    return Fact(
        theme,
        name,
        "\n".join(code).strip(),
        before,
        tuple(says),
        int(marks.get("devices", 1)),
        marks.get("torch", torch),
        together,
        next((line[2:] for line in lines if line.startswith("~ ")), ""),
        next((line[3:] for line in lines if line.startswith("~~ ")), ""),
    )
