"""The command line: arguments -> engine -> renderer -> exit code.

Exit codes: 0 nothing to do; 1 findings (`check`) or changes (`diff`, `apply`); 2 something could
not be done, whatever else was; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from devfix import __version__, commands

if TYPE_CHECKING:
    from devfix.config import Config
    from devfix.report import Report

STDIN = "-"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run devfix; returns the exit code. What went wrong is on stderr, a line each."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    try:
        code = group.main(args=arguments, prog_name="devfix", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            _complain(error.format_message())
        return 2
    except click.ClickException as error:
        _complain(error.format_message())
        return 2
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted; nothing was written")
        return 130
    except BrokenPipeError:  # `devfix check | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception:  # outside of any file; Python would exit with 1, which means "findings"
        import traceback

        traceback.print_exc()
        _complain("this is devfix's own bug, please report it with the lines above")
        return 2


def _complain(message: str) -> None:
    from devfix.review.text import printable

    click.echo(f"devfix: {printable(message)}", err=True)


class _Group(click.Group):
    """A group that knows more commands than it has imported, and what was meant by a mistyped one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *commands.NAMES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or commands.load(cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            ctx.fail(f"unknown command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="devfix %(version)s")
def group() -> None:
    """Find and repair device bugs in PyTorch programs.

    Nothing is written but by `devfix apply`, and the analysed code is never run.
    """


def _options(command: _Command) -> _Command:
    """The arguments that `check`, `diff` and `apply` share."""
    shared = [
        click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
        click.option("--codemod", "codemods", multiple=True, metavar="ID", help="Only this one; repeatable."),
        click.option(
            "--exclude-codemod", "exclude_codemods", multiple=True, metavar="ID", help="Not this one."
        ),
        click.option(
            "--safe/--unsafe", "safe", default=None, help="Safe fixes (default), or unsafe ones too."
        ),
        click.option("--option", "options", multiple=True, metavar="ID.NAME=VALUE", help="Set up a codemod."),
        click.option("--include", multiple=True, metavar="GLOB", help="In folders, only what matches."),
        click.option("--exclude", multiple=True, metavar="GLOB", help="In folders, nothing that matches."),
        click.option(
            "--jobs", type=click.IntRange(0), metavar="N", help="Processes; 0: one per core (default)."
        ),
        click.option(
            "--project-root",
            type=click.Path(exists=True, file_okay=False),
            metavar="DIR",
            help="The folder whose files see each other; default: the repository.",
        ),
        click.option(
            "--project/--no-project", default=None, help="Look into imported files (default), or not."
        ),
        click.option(
            "--stdin-filename", default="stdin.py", metavar="PATH", help="The name of what - reads."
        ),
        click.option("--quiet", "-q", is_flag=True, help="No summary."),
        click.option("--verbose", "-v", is_flag=True, help="Also what was skipped and why, and the time."),
        click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto"),
    ]
    for decorate in reversed(shared):
        command = decorate(command)
    return command


_FORMAT = click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")


@group.command()
@_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github", "gitlab", "junit"]),
    default="text",
    help="For people, or for machines.",
)
@click.option("--statistics", is_flag=True, help="Count the findings instead of listing them.")
def check(form: str, statistics: bool, **options: Any) -> int:
    """List device bugs. PATH is a file, a folder, or - for stdin."""
    run = _Run(**options)
    report = run.analyse(repair=False)
    run.errors(report)
    if form != "text":
        from importlib import import_module

        click.echo(import_module(f"devfix.review.{form}").render(report))
    else:
        from devfix.review import statistics as counts
        from devfix.review import text

        if statistics:
            run.lines(counts.lines(report))
        else:
            for result in report.results:
                run.lines(text.findings(result.path, result.findings, level=report.level))
        run.summary(report, text.check_summary(report))
    return _code(report, report.findings)


@group.command()
@_options
@click.option("--explain", is_flag=True, help="Say before each hunk which codemod made it, and why.")
def diff(explain: bool, **options: Any) -> int:
    """Print the repairs as a patch for `git apply`; write nothing."""
    run = _Run(**options)
    report = run.analyse(repair=True)
    from devfix.review import patch, text

    run.patch(patch.patch(report, explain=explain))
    run.errors(report)
    for result in report.changed:
        if patch.outside(result.path):
            name = text.printable(result.path)
            run.note(f"devfix: {name}: outside the working directory, where `git apply` writes nothing")
    run.summary(report, text.change_summary(report))
    return _code(report, len(report.changed))


@group.command()
@_options
@_FORMAT
@click.option("--smoke/--no-smoke", default=False, help="First run the smoke tests of the codemods used.")
@click.option("--smoke-cmd", metavar="COMMAND", help="First run this in copies, before and after the repair.")
@click.option("--smoke-seconds", type=click.FloatRange(1), default=300.0, metavar="S", help="Its time limit.")
def apply(form: str, smoke: bool, smoke_cmd: str | None, smoke_seconds: float, **options: Any) -> int:
    """Make the repairs: rewrite the files, or stdin to stdout."""
    run = _Run(**options)
    if smoke or smoke_cmd:
        from devfix.commands.smoke import need_torch, prove

        need_torch("--smoke")
    report = run.analyse(repair=True)
    if (smoke or smoke_cmd) and report.changed:
        proved = prove(report, run_examples=smoke, command=smoke_cmd, seconds=smoke_seconds)
        if proved is None:
            run.errors(report)
            return 2
        report = proved
    if run.stdin is not None:
        # What cannot be repaired comes out as it went in: a pipe must not lose it.
        _write(report.changed[0].after if report.changed else run.stdin)
        run.errors(report)
        return _code(report, len(report.changed))
    from devfix.documents.cache import cache_folder
    from devfix.writing import write

    report = write(report, cache_folder(os.getcwd()))
    run.errors(report)
    if form == "json":
        run.json(report)
    else:
        from devfix.review import text

        written = set(report.written)
        if not run.quiet:
            run.lines(text.repaired(result) for result in report.changed if result.path in written)
        for result in report.results:
            if not result.changed or result.path in written:
                run.lines(text.findings(result.path, result.remaining, level=report.level))
        run.summary(report, text.change_summary(report, "written"))
    if report.interrupted:
        files = ", ".join(report.written) or "nothing"
        _complain(f"interrupted; {len(report.written)} of {len(report.changed)} files were written: {files}")
        return 130
    return _code(report, len(report.written))


@group.command("list")
def list_() -> None:
    """List the codemods: id, on or off by default, safety, title."""
    from devfix.codemod import registry
    from devfix.explain import listing

    for line in listing(registry()):
        click.echo(line)


@group.command()
@click.argument("codemod")
def explain(codemod: str) -> None:
    """Describe a codemod: what, why, how safe, its options and examples."""
    from devfix.codemod import registry
    from devfix.config import ConfigError, find
    from devfix.explain import explanation

    try:
        kind = find(codemod, registry())
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for line in explanation(kind):
        click.echo(line)


class _Run:
    """The options of one run, and where its output goes."""

    def __init__(self, paths: tuple[str, ...], **options: Any) -> None:
        self.paths = paths
        self.options = options
        self.quiet: bool = options["quiet"]
        self.verbose: bool = options["verbose"]
        self.color = {"always": True, "never": False}.get(options["color"])
        if self.color is None and os.environ.get("NO_COLOR"):
            self.color = False
        self.stdin: bytes | None = None
        if STDIN in paths and len(paths) > 1:
            raise click.UsageError("- (stdin) must be the only PATH")

    # --- analysis --------------------------------------------------------------------------

    def analyse(self, *, repair: bool) -> Report:
        """Read the settings and process every file; raises click.UsageError for bad settings."""
        from devfix import config, engine
        from devfix.around import Around
        from devfix.discover import discover
        from devfix.findings import Safety
        from devfix.globs import Globs

        name = self.options["stdin_filename"]
        try:
            settings = self._settings(config.load(name if self.paths == (STDIN,) else self.paths[0]))
            codemods = config.choose(settings)
        except config.ConfigError as error:
            raise click.UsageError(str(error)) from error
        level = Safety.UNSAFE if settings.unsafe else Safety.SAFE
        around = Around(settings.project_root) if settings.project else None
        if self.paths == (STDIN,):
            self.stdin = sys.stdin.buffer.read()
            return engine.run_bytes(name, self.stdin, codemods, level, repair=repair, around=around)
        here = os.getcwd()
        include = Globs(here if self.options["include"] else settings.base, settings.include)
        exclude = Globs(here if self.options["exclude"] else settings.base, settings.exclude)
        found = discover(self.paths, include, exclude)

        def may_change(path: str) -> bool:
            return not exclude.below(os.path.realpath(path))

        return engine.run(
            found,
            codemods,
            level,
            repair=repair,
            jobs=settings.jobs,
            may_change=may_change,
            around=around,
        )

    def _settings(self, base: Config) -> Config:
        """The settings of the file, overridden by those of the command line."""
        from dataclasses import replace

        from devfix.config import parse_option

        given = {
            name: self.options[name]
            for name in ("codemods", "exclude_codemods", "include", "exclude")
            if self.options[name]
        }
        if self.options["jobs"] is not None:
            given["jobs"] = self.options["jobs"]
        if self.options["project_root"] is not None:
            given["project_root"] = self.options["project_root"]
        if self.options["project"] is not None:
            given["project"] = self.options["project"]
        if self.options["safe"] is not None:
            given["unsafe"] = not self.options["safe"]
        options = (*base.options, *(parse_option(text) for text in self.options["options"]))
        return replace(base, **given, options=options)

    # --- output ----------------------------------------------------------------------------

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            click.echo(line, color=self.color)

    def note(self, line: str) -> None:
        click.echo(line, err=True, color=self.color)

    def errors(self, report: Report) -> None:
        from devfix.review.text import error_line

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

    def json(self, report: Report) -> None:
        from devfix.review.json import render

        click.echo(render(report))

    def patch(self, data: bytes) -> None:
        if self.color or (self.color is None and sys.stdout.isatty()):
            from devfix.review.text import coloured_patch

            data = coloured_patch(data)
        _write(data)


def _write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _code(report: Report, what: int) -> int:
    return 2 if report.errors else 1 if what else 0
