"""devfix for programs: `devfix.check` and `devfix.fix`.

Nothing is printed, and no file is written but by `fix(..., write=True)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Union

from devfix.findings import Safety
from devfix.results import Checked, DevfixError, Finding, Fixed, FixedFile, Problem

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.config import Config
    from devfix.reports.report import Report

__all__ = ["Checked", "DevfixError", "Finding", "Fixed", "FixedFile", "Problem", "Safety", "check", "fix"]

Path = Union[str, "os.PathLike[str]"]
CodemodLike = Union[str, "Codemod", "type[Codemod]"]
Progress = Callable[[int, int], object]


def check(
    *paths: Path,
    source: str | bytes | None = None,
    filename: str = "source.py",
    codemods: Sequence[CodemodLike] = (),
    options: Mapping[str, Mapping[str, object]] | None = None,
    recipe: str | None = None,
    settings: bool = True,
    jobs: int = 1,
    cache: bool | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Find device bugs in files and folders, or in the program `source`.

    Parameters:
        paths: Files and folders.
        source: The text or bytes of a program, instead of paths.
        filename: The name of `source`. The file need not exist; the program can import files next to it.
        codemods: Run only these: ids, `Codemod` classes or objects, and whatever else `--codemod` takes.
        options: Options by codemod and name: `{"assert-device": {"check": "all"}}`.
        recipe: The name or file of a recipe, as for `--recipe`.
        settings: Whether to use `[tool.devfix]` of the nearest `pyproject.toml`, and the user's own settings.
        jobs: The number of processes; 0 is one per core.
        cache: Whether to reuse and store the results of files that have not changed; by default as the settings
            say, or True. `source`, and codemods of your own, are never cached.
        progress: Called with the number of files done, and the total.

    Raises:
        DevfixError: The arguments or settings make no sense.

    >>> import devfix
    >>> devfix.check(source="import torch\\n", codemods=["move-input"])
    Traceback (most recent call last):
    devfix.results.DevfixError: unknown codemod 'move-input'; did you mean 'move-inputs'?
    """
    asked = _Asked(source, filename, codemods, options or {}, recipe, settings, jobs, None, cache, progress)
    report = _run(paths, asked, repair=False)
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
    cache: bool | None = None,
    progress: Progress | None = None,
) -> Fixed:
    """Fix what `check` finds. The arguments are those of `check`, and two more.

    Parameters:
        unsafe: Whether to make unsafe fixes too; by default as the settings and the recipe say.
        write: Whether to write the files, as `devfix apply` does: completely or not at all; `devfix undo` takes it
            back. Otherwise no file is changed, and the result says what would change.

    Raises:
        DevfixError: The arguments or settings make no sense.
    """
    if write and source is not None:
        raise DevfixError("what is given as source has no file to write")
    asked = _Asked(source, filename, codemods, options or {}, recipe, settings, jobs, unsafe, cache, progress)
    report = _run(paths, asked, repair=True)
    if write:
        from devfix.pipeline.writing import write as write_out

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


@dataclass(frozen=True)
class _Asked:
    """The arguments that `check` and `fix` share."""

    source: str | bytes | None
    filename: str
    codemods: Sequence[CodemodLike]
    options: Mapping[str, Mapping[str, object]]
    recipe: str | None
    settings: bool
    jobs: int
    unsafe: bool | None
    cache: bool | None
    progress: Progress | None


def _run(paths: Sequence[Path], asked: _Asked, *, repair: bool) -> Report:
    from devfix import config
    from devfix.keeping import kept_results
    from devfix.own.command_line import with_broken
    from devfix.pipeline import runner
    from devfix.pipeline.around import asked_for
    from devfix.pipeline.discover import discover
    from devfix.text.globs import Globs

    source, filename, unsafe = asked.source, asked.filename, asked.unsafe
    if bool(paths) == (source is not None):
        raise DevfixError("give paths, or source=..., and not both")
    if isinstance(asked.codemods, str):
        raise DevfixError(f"codemods is a list, such as [{asked.codemods!r}]")
    try:
        base = (
            config.load(filename if source is not None else os.fspath(paths[0]))
            if asked.settings
            else config.Config()
        )
        if unsafe is not None:
            base = replace(base, unsafe=unsafe)
        base, chosen, broken = _chosen(base, asked)
    except config.ConfigError as error:
        raise DevfixError(str(error)) from error
    level, around = base.level, asked_for(base.around, [os.fspath(path) for path in paths])
    if source is not None:
        report = runner.run_bytes(filename, _bytes(source), chosen, level, repair=repair, around=around)
    else:
        exclude = Globs(base.base, base.exclude)
        names = [os.fspath(path) for path in paths]
        found = discover(names, Globs(base.base, base.include), exclude)
        cached = base.cache if asked.cache is None else asked.cache
        report = runner.run(
            found,
            chosen,
            level,
            repair=repair,
            jobs=asked.jobs,
            may_change=lambda path: not exclude.below(os.path.realpath(path)),
            around=around,
            progress=_counted(asked.progress, len(found.files)),
            kept=kept_results(names, chosen, around, repair=repair) if cached else None,
        )
    return with_broken(report, broken)


def _counted(progress: Progress | None, files: int) -> Callable[[int], None]:
    done = 0

    def more(number: int) -> None:
        nonlocal done
        done += number
        if progress is not None:
            progress(done, files)

    return more


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


def _chosen(base: Config, asked: _Asked) -> tuple[Config, tuple[Codemod, ...], dict[str, str]]:
    """The settings, codemods and what could not be loaded; raises ConfigError."""
    from devfix.config import Option, choose, make
    from devfix.own.command_line import recipe_over
    from devfix.own.known import Known, named

    options, recipe = asked.options, asked.recipe
    names = [item for item in asked.codemods if isinstance(item, str)]
    given = [item for item in asked.codemods if not isinstance(item, str)]
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
    if found is not None and asked.unsafe is None:
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
