"""What `devfix.check` and `devfix.fix` return: frozen dataclasses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from devfix.findings import Safety


class DevfixError(ValueError):
    """The arguments or settings make no sense: an unknown codemod, option or recipe, or bad settings."""


@dataclass(frozen=True)
class Finding:
    """One device bug. `str(finding)` is a readable line."""

    codemod: str
    """The id of the codemod that found it."""
    path: str
    """The file, as it was named or discovered."""
    line: int
    """Its first line, from 1; in a notebook, of the JSON text."""
    column: int
    """Its first character in that line, from 1."""
    end_line: int
    """Its last line."""
    end_column: int
    """The character after its last one, in the last line."""
    message: str
    """What is wrong, on one line."""
    code: str = ""
    """Its first line of code, without the newline."""
    scope: str = ""
    """The function or class around it, such as `Net.forward`; empty at the top of a file."""
    fix: str = ""
    """What its fix does, such as "move `x` to `device`"; empty if there is none."""
    safety: Safety | None = None
    """How far the fix can be trusted; None if there is no fix."""
    cell: int = 0
    """In a notebook, the number of the cell, from 1."""
    cell_line: int = 0
    """In a notebook, the line in the cell, from 1."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.codemod} {self.message}"


@dataclass(frozen=True)
class Problem:
    """Something that failed for one file or one codemod; everything else was done."""

    path: str
    """The file."""
    message: str
    """What failed, and why."""


@dataclass(frozen=True, repr=False)
class Checked:
    """The result of `check`. A notebook shows it as cards.

    >>> import devfix
    >>> found = devfix.check(source="import torch\\n")
    >>> found
    <Checked: 0 findings in 1 file>
    >>> found.clean
    True
    """

    findings: tuple[Finding, ...]
    """The findings, by path and position."""
    problems: tuple[Problem, ...] = ()
    """What failed. A file that cannot be read raises nothing: the others are still analysed."""
    files: int = 0
    """The number of files."""

    @property
    def clean(self) -> bool:
        """Whether there are no findings, and nothing failed."""
        return not self.findings and not self.problems

    def __repr__(self) -> str:
        from devfix.review.text import plural

        count = Counter(finding.codemod for finding in self.findings)
        each = ", ".join(f"{number} {id}" for id, number in count.most_common())
        found = f"{plural(len(self.findings), 'finding')} in {plural(self.files, 'file')}"
        return f"<Checked: {found}{f' ({each})' if each else ''}{_and(self.problems)}>"

    def _repr_html_(self) -> str:
        from devfix.review.cards import checked

        return checked(self)


@dataclass(frozen=True)
class FixedFile:
    """A file that changes."""

    path: str
    """The file."""
    before: bytes = field(repr=False)
    """Its bytes before the fixes."""
    after: bytes = field(repr=False)
    """Its bytes after the fixes."""
    codemods: tuple[str, ...]
    """The ids of the codemods that change it."""


@dataclass(frozen=True, repr=False)
class Fixed:
    """The result of `fix`. A notebook shows it as cards.

    >>> import devfix
    >>> program = "import torch\\ndevice = torch.device('cuda')\\nmodel = torch.nn.Linear(4, 2).to(device)\\n"
    >>> fixed = devfix.fix(source=program + "print(model(torch.ones(3, 4)))\\n")
    >>> fixed
    <Fixed: 1 file changes (move-inputs), 0 findings left>
    >>> fixed.text.splitlines()[-1]
    'print(model(torch.ones(3, 4).to(device)))'
    """

    files: tuple[FixedFile, ...]
    """The files that change."""
    remaining: tuple[Finding, ...] = ()
    """The findings that are left."""
    problems: tuple[Problem, ...] = ()
    """What failed."""
    written: tuple[str, ...] = ()
    """The paths that were written."""
    text: str = ""
    """With `source`, the text after the fixes."""
    patch: bytes = b""
    """All changes, for `git apply`."""

    @property
    def changed(self) -> bool:
        """Whether any file changes."""
        return bool(self.files)

    def __repr__(self) -> str:
        from devfix.review.text import plural

        files = plural(len(self.files), "file")
        ids = ", ".join(sorted({id for file in self.files for id in file.codemods}))
        what = f"{files} change{'s' * (len(self.files) == 1)}{f' ({ids})' if ids else ''}"
        return f"<Fixed: {what}, {plural(len(self.remaining), 'finding')} left{_and(self.problems)}>"

    def _repr_html_(self) -> str:
        from devfix.review.cards import fixed

        return fixed(self)


def _and(problems: tuple[Problem, ...]) -> str:
    return ", and problems" if problems else ""
