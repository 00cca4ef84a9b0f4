"""devfix for programs: `devfix.check` and `devfix.fix`, and what they return.

Nothing is printed, and nothing is written but by `fix(..., write=True)`. Results are frozen dataclasses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Union

from devfix.findings import Safety

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.config import Config
    from devfix.report import Report

__all__ = ["Checked", "DevfixError", "Finding", "Fixed", "FixedFile", "Problem", "Safety", "check", "fix"]

Path = Union[str, "os.PathLike[str]"]
CodemodLike = Union[str, "Codemod", "type[Codemod]"]


class DevfixError(ValueError):
    """What was asked for makes no sense: an unknown codemod, option or recipe, or bad settings."""


@dataclass(frozen=True)
class Finding:
    """One device bug.

    Lines and columns count from 1; in a notebook, `cell` is the number of the cell, and `cell_line` the line in
    it. `safety` and `fix` are those of the repair; None and empty where there is none.
    """

    codemod: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    code: str = ""
    scope: str = ""
    fix: str = ""
    safety: Safety | None = None
    cell: int = 0
    cell_line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.codemod} {self.message}"


@dataclass(frozen=True)
class Problem:
    """Something that could not be done with one file, or by one codemod; everything else was."""

    path: str
    message: str


@dataclass(frozen=True)
class Checked:
    """What `check` found: findings in the order of their paths and places."""

    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...] = ()
    files: int = 0

    @property
    def clean(self) -> bool:
        """Nothing was found, and everything was looked at."""
        return not self.findings and not self.problems


@dataclass(frozen=True)
class FixedFile:
    """A file that changes: its bytes before and after, and which codemods had a part in it."""

    path: str
    before: bytes
    after: bytes
    codemods: tuple[str, ...]


@dataclass(frozen=True)
class Fixed:
    """What `fix` made.

    `remaining` are the findings that are left. `written` are the paths that were written. With `source`, `text`
    is its new text, and the old one if nothing changes.
    """

    files: tuple[FixedFile, ...]
    remaining: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    written: tuple[str, ...] = ()
    text: str = ""
    patch: bytes = b""

    @property
    def changed(self) -> bool:
        return bool(self.files)


def check(
    *paths: Path,
    source: str | bytes | None = None,
    filename: str = "source.py",
    codemods: Sequence[CodemodLike] = (),
    options: Mapping[str, Mapping[str, object]] | None = None,
    recipe: str | None = None,
    settings: bool = True,
    jobs: int = 1,
) -> Checked:
    """Find device bugs in files and folders, or in `source`, the text of a program that need not be a file.

    - `codemods`: only these: ids, `Codemod` classes or objects, and whatever `--codemod` takes.
    - `options`: by the id of a codemod, then by the name of the option. `recipe`: as `--recipe`.
    - `settings`: whether the nearest `[tool.devfix]` above the first path, and the user's own, count.
    - `filename`: what `source` is called; beside it are the files that it can import.

    Raises DevfixError.
    """
    report = _run(paths, source, filename, codemods, options, recipe, settings, jobs, None, repair=False)
    found = tuple(_findings(report, remaining=False))
    return Checked(found, _problems(report), report.files)


def fix(
    *paths: Path,
    source: str | bytes | None = None,
    filename: str = "source.py",
    unsafe: bool | None = None,
    write: bool = False,
    codemods: Sequence[CodemodLike] = (),
    options: Mapping[str, Mapping[str, object]] | None = None,
    recipe: str | None = None,
    settings: bool = True,
    jobs: int = 1,
) -> Fixed:
    """Repair what `check` finds, as far as the fixes are safe, or `unsafe` allows more.

    Without `write` no file is touched: the result says what would change. With it, files are written as
    `devfix apply` writes them, whole or not at all, and `devfix undo` takes it back. The other arguments
    are those of `check`. Raises DevfixError.
    """
    if write and source is not None:
        raise DevfixError("what is given as source has no file to write")
    report = _run(paths, source, filename, codemods, options, recipe, settings, jobs, unsafe, repair=True)
    if write:
        from devfix.writing import write as write_out

        report = write_out(report, os.getcwd())
    from devfix.review.patch import patch

    files = tuple(
        FixedFile(
            result.path,
            result.before,
            result.after,
            tuple(sorted({change.codemod for change in result.changes})),
        )
        for result in report.changed
    )
    text = ""
    if source is not None:
        text = _text(filename, files[0].after if files else _bytes(source))
    remaining = tuple(_findings(report, remaining=True))
    return Fixed(files, remaining, _problems(report), report.written, text, patch(report))


# --- a run -----------------------------------------------------------------------------------------


def _run(
    paths: Sequence[Path],
    source: str | bytes | None,
    filename: str,
    codemods: Sequence[CodemodLike],
    options: Mapping[str, Mapping[str, object]] | None,
    recipe: str | None,
    settings: bool,
    jobs: int,
    unsafe: bool | None,
    *,
    repair: bool,
) -> Report:
    from devfix import config, runner
    from devfix.around import Around
    from devfix.discover import discover
    from devfix.globs import Globs
    from devfix.own.command_line import with_broken

    if bool(paths) == (source is not None):
        raise DevfixError("give paths, or source=..., and not both")
    if isinstance(codemods, str):
        raise DevfixError(f"codemods is a list, such as [{codemods!r}]")
    try:
        base = (
            config.load(filename if source is not None else os.fspath(paths[0]))
            if settings
            else config.Config()
        )
        if unsafe is not None:
            base = replace(base, unsafe=unsafe)
        base, chosen, broken = _chosen(base, codemods, options or {}, recipe, unsafe is None)
    except config.ConfigError as error:
        raise DevfixError(str(error)) from error
    level = Safety.UNSAFE if base.unsafe else Safety.SAFE
    around = Around(base.project_root) if base.project else None
    if source is not None:
        report = runner.run_bytes(filename, _bytes(source), chosen, level, repair=repair, around=around)
    else:
        exclude = Globs(base.base, base.exclude)
        found = discover([os.fspath(path) for path in paths], Globs(base.base, base.include), exclude)
        report = runner.run(
            found,
            chosen,
            level,
            repair=repair,
            jobs=jobs,
            may_change=lambda path: not exclude.below(os.path.realpath(path)),
            around=around,
        )
    return with_broken(report, broken)


def _bytes(source: str | bytes) -> bytes:
    """A text as its file would be: in the encoding that it declares."""
    if isinstance(source, bytes):
        return source
    from devfix.documents import Document, DocumentError

    data = source.encode("utf-8", "surrogatepass")
    try:
        document = Document.of("", data)
        return data if document.text == source else source.encode(document.encoding)
    except (DocumentError, UnicodeError):
        return data


def _text(filename: str, data: bytes) -> str:
    from devfix.documents import Document, DocumentError

    try:
        return data.decode("utf-8") if filename.endswith(".ipynb") else Document.of(filename, data).text
    except (DocumentError, UnicodeError):
        return data.decode("utf-8", "replace")


def _chosen(
    base: Config,
    codemods: Sequence[CodemodLike],
    options: Mapping[str, Mapping[str, object]],
    recipe: str | None,
    levels: bool,
) -> tuple[Config, tuple[Codemod, ...], dict[str, str]]:
    """The settings, codemods and what could not be loaded; raises ConfigError."""
    from devfix.config import Option, choose, make
    from devfix.own.command_line import recipe_over
    from devfix.own.known import Known, named

    names = [item for item in codemods if isinstance(item, str)]
    given = [item for item in codemods if not isinstance(item, str)]
    found, base = recipe_over(base, recipe, names)
    more = [Option(id, name, value) for id, values in options.items() for name, value in values.items()]
    known = Known()
    made: list[Codemod] = []
    mine = {item.id for item in given if isinstance(item, type)}
    for item in given:
        made.append(make(item, options.get(item.id, {})) if isinstance(item, type) else item)
    rest = tuple(option for option in (*base.options, *more) if option.codemod not in mine)
    if given and not names and recipe is None:
        return base, tuple(made), {}
    base = replace(base, options=rest, codemods=named(names) or base.codemods)
    chosen = choose(base, known)
    if found is not None and levels:
        chosen = found.levelled(chosen)
    return base, (*chosen, *made), known.broken


# --- results -----------------------------------------------------------------------------------


def _findings(report: Report, remaining: bool) -> Iterable[Finding]:
    for result in report.results:
        for found in result.remaining if remaining else result.findings:
            place = found.place
            yield Finding(
                found.codemod,
                result.path,
                place.line,
                place.column,
                place.end_line,
                place.end_column,
                found.message,
                found.code,
                found.scope,
                found.fix.title if found.fix is not None else "",
                found.fix.safety if found.fix is not None else None,
                place.cell,
                place.cell_line,
            )


def _problems(report: Report) -> tuple[Problem, ...]:
    return tuple(Problem(error.path, error.message) for error in report.errors)
