"""What check, diff and apply share: the analysis, and where the output goes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from devfix.commands.helping import color_of, read_in, write_into, write_out

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.config import Config
    from devfix.findings import Safety
    from devfix.keeping import Results
    from devfix.own.recipes import CodemodRecipe
    from devfix.pipeline.around import Around
    from devfix.pipeline.selection import Selection
    from devfix.pipeline.series import By, Step
    from devfix.pipeline.work import Task
    from devfix.reports.report import FileResult, Report

STDIN = "-"
_MANY = 100  # files; fewer are done before one looks


class Run:
    """The options of one run, and where its output goes."""

    def __init__(self, paths: tuple[str, ...], **options: Any) -> None:
        self.paths = paths
        self.options = options
        self.quiet: bool = options["quiet"]
        self.verbose: bool = options["verbose"]
        self.color = color_of(options["color"])
        self.width = get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 0
        self.bar = False  # is progress shown?
        self.stdin: bytes | None = None
        self.begun: Callable[[], Task] | None = None
        self.level_of: Callable[[str], Safety]  # from which safety the fixes of a codemod would be applied
        self.recipe: CodemodRecipe | None = None
        self.broken: dict[str, str] = {}  # codemods of installed packages that cannot be loaded, and why
        self.may_change: Callable[[str], bool] = lambda path: True  # what is not excluded
        if STDIN in paths and len(paths) > 1:
            raise click.UsageError("- (stdin) must be the only PATH")

    @classmethod
    def plain(cls, paths: tuple[str, ...], **given: Any) -> Run:
        """A run with the defaults of `options.arguments`, but for what is given."""
        none = ("observed", "jobs", "project_root", "project", "cache", "safe", "recipe", "config")
        empty = ("codemods", "exclude_codemods", "include", "exclude", "options", "arguments")
        options = {"stdin_filename": "stdin.py", "quiet": False, "verbose": False, "color": "auto"}
        return cls(paths, **{**options, **dict.fromkeys(none), **dict.fromkeys(empty, ()), **given})

    @property
    def from_stdin(self) -> bool:
        return self.paths == (STDIN,)

    @functools.cached_property
    def task(self) -> Task | None:
        """That of the last analysis. One that finds all results kept needs none, and imports no codemod for it."""
        return self.begun() if self.begun is not None else None

    def selection(self, baseline: str | None, diff_only: str | None) -> Selection | None:
        """The findings that a baseline and the changed lines leave over; None: all."""
        if baseline is None and diff_only is None:
            return None
        from devfix.documents import DocumentError, read_bytes
        from devfix.documents.changed_lines import changed_lines
        from devfix.documents.git import GitError
        from devfix.pipeline.baseline import BaselineError, read
        from devfix.pipeline.selection import Selection

        try:
            known = read(read_bytes(baseline).decode("utf-8", "replace")) if baseline else frozenset()
            lines = changed_lines(diff_only, self.paths) if diff_only is not None else None
        except (BaselineError, DocumentError) as error:
            raise click.ClickException(f"{baseline}: {error}") from error
        except GitError as error:
            raise click.ClickException(f"--diff-only {diff_only}: {error}") from error
        return Selection(but=known, lines=lines)

    # --- analysis --------------------------------------------------------------------------

    def steps(self, report: Report, by: By) -> list[Step]:
        """The repairs of a report of this run as steps; see `devfix.pipeline.series`."""
        from devfix.pipeline import series

        if self.task is None or self.stdin is not None:
            raise click.UsageError("several patches need files, so the program cannot come from stdin")
        return list(series.steps(report, self.task, by, self.may_change))

    def analyse(
        self,
        *,
        repair: bool,
        selection: Selection | None = None,
        each: Callable[[FileResult], None] | None = None,
    ) -> Report:
        """Read the settings and process every file; raises click.UsageError for bad settings.

        `each` is as in `runner.run`: it may never be called.
        """
        from devfix.own.command_line import with_broken

        if self.options["observed"] is not None and selection is None:
            from devfix.commands.observing import observed

            return with_broken(observed(self, self.options["observed"], repair), self.broken)
        return with_broken(self.analysed(repair, selection, each), self.broken)

    def analysed(
        self, repair: bool, selection: Selection | None, each: Callable[[FileResult], None] | None
    ) -> Report:
        from devfix import config
        from devfix.pipeline.around import asked_for
        from devfix.pipeline.discover import discover
        from devfix.text.globs import Globs

        name = self.options["stdin_filename"]
        try:
            here = os.getcwd()
        except OSError as error:
            raise click.UsageError("the working directory is gone") from error
        try:
            start = name if self.from_stdin else self.paths[0]
            settings = self._settings(config.load(start, self.options["config"] or ""))
            level, around = settings.level, asked_for(settings.around, self.paths)
            chosen = functools.cache(lambda: self._codemods(settings))  # imports all of them
            kept = None if self.from_stdin else self._kept(settings, chosen, around, repair)
            if kept is None:
                chosen()  # a mistake in the settings comes before anything else
        except config.ConfigError as error:
            raise click.UsageError(str(error)) from error

        def task() -> Task:
            from devfix.pipeline.work import Task

            return Task(tuple(chosen()), level, repair, around, selection)

        self.begun = task
        levels = (
            {} if self.recipe is None else {one.id: one.level for one in chosen() if one.level is not None}
        )
        self.level_of = lambda codemod: levels.get(codemod, level)
        if self.from_stdin:
            self.stdin = read_in()
            from devfix.pipeline import runner

            return runner.run_bytes(
                name, self.stdin, chosen(), level, repair=repair, around=around, selection=selection
            )
        include = Globs(here if self.options["include"] else settings.base, settings.include)
        exclude = Globs(here if self.options["exclude"] else settings.base, settings.exclude)
        found = discover(self.paths, include, exclude)
        self.may_change = lambda path: not exclude.below(os.path.realpath(path))
        from devfix.pipeline import runner

        with self._counted(len(found.files)) as progress:
            return runner.run(
                found,
                chosen if self.recipe is None else chosen(),
                level,
                repair=repair,
                jobs=settings.jobs,
                may_change=self.may_change,
                around=around,
                selection=selection,
                progress=progress,
                kept=kept,
                each=each,
            )

    def _kept(
        self,
        settings: Config,
        chosen: Callable[[], Sequence[Codemod]],
        around: Around | None,
        repair: bool,
    ) -> Results | None:
        if not settings.cache:
            return None
        from devfix.keeping import asked_before, kept_results
        from devfix.own.known import Known

        asked = ""
        if self.recipe is None and Known().only_own:
            asked = repr((settings.codemods, settings.exclude_codemods, settings.options))
            if kept := asked_before(self.paths, around, repair=repair, asked=asked):
                return kept
        return kept_results(self.paths, chosen(), around, repair=repair, asked=asked)

    @contextmanager
    def _counted(self, files: int) -> Iterator[Callable[[int], None]]:
        """Progress; an interruption says how far it came."""
        done = 0

        def progress(more: int) -> None:
            nonlocal done
            done += more
            show(more)

        try:
            with self._progress(files) as show:
                yield progress
        except KeyboardInterrupt as error:
            said = f"{done} of {files} files were analysed, and nothing was written"
            raise KeyboardInterrupt(said) from error

    @contextmanager
    def _progress(self, files: int) -> Iterator[Callable[[int], None]]:
        """A bar on stderr for a long run at a terminal, and nothing in pipes."""
        if self.quiet or files < _MANY or sys.stderr is None or not sys.stderr.isatty():
            yield lambda done: None
            return
        with click.progressbar(length=files, label="devfix", file=sys.stderr, show_pos=True) as bar:
            self.bar = True
            yield bar.update
            self.bar = False

    def _codemods(self, settings: Config) -> tuple[Codemod, ...]:
        from devfix import config
        from devfix.own.known import Known

        known = Known()
        codemods = config.choose(settings, known)
        self.broken = known.broken
        if self.recipe is not None and self.options["safe"] is None:
            return self.recipe.levelled(codemods)
        return codemods

    def _settings(self, base: Config) -> Config:
        """The settings of the file, overridden by those of the command line."""
        from dataclasses import replace

        from devfix.config import parse_option
        from devfix.own.command_line import argument_options, recipe_over

        self.recipe, base = recipe_over(base, self.options["recipe"], self.options["codemods"])
        ids, extra = argument_options(self.options["codemods"], self.options["arguments"])

        given = {
            name: self.options[name]
            for name in ("exclude_codemods", "include", "exclude")
            if self.options[name]
        }
        for name in ("jobs", "project_root", "project", "cache"):
            if self.options[name] is not None:
                given[name] = self.options[name]
        if self.options["safe"] is not None:
            given["unsafe"] = not self.options["safe"]
        if ids:
            given["codemods"] = ids
        options = (*base.options, *(parse_option(text) for text in self.options["options"]), *extra)
        return replace(base, **given, options=options)

    # --- output ----------------------------------------------------------------------------

    def lines(self, lines: Iterable[str]) -> None:
        if self.bar:  # out of the way; it is drawn again when there is progress
            click.echo("\r\x1b[K", nl=False, err=True)
        for line in lines:
            click.echo(line, color=self.color)

    def note(self, line: str) -> None:
        click.echo(line, err=True, color=self.color)

    def errors(self, report: Report) -> None:
        """What could not be done, and which cells of notebooks were left out; on stderr."""
        from devfix.review.text import error_line, unread

        for note in () if self.quiet or self.verbose else unread(report):
            self.note(note)
        for error in report.errors:
            self.note(error_line(error))

    def summary(self, report: Report, line: str) -> None:
        """On stderr: stdout holds findings or a patch, and nothing else."""
        if self.verbose:
            from devfix.review.text import details

            for detail in details(report):
                self.note(detail)
        if not self.quiet:
            self.note(line)

    def patch(self, data: bytes, path: str | None = None) -> None:
        """A patch on stdout, in colour for a terminal, or as it is into a file."""
        if path is not None:
            write_into(path, data)
            return
        if self.color or (self.color is None and sys.stdout is not None and sys.stdout.isatty()):
            from devfix.review.text import coloured_patch

            data = coloured_patch(data)
        write_out(data)


def code(report: Report, what: int) -> int:
    """The exit code of a run that found or changed so many."""
    return 2 if report.errors else 1 if what else 0


def tell(line: str, *, err: bool = False) -> None:
    """A line of text that may hold anything of a repository."""
    from devfix.review.text import printable

    click.echo(printable(line), err=err)


def complain(message: str) -> None:
    """One line on stderr, in devfix's name."""
    from devfix.findings import brief
    from devfix.review.text import printable

    with suppress(OSError):  # stderr may be a full disk, too
        click.echo(f"devfix: {printable(brief(message))}", err=True)
