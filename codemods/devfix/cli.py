"""The command line: arguments -> engine -> renderer -> exit code.

Exit codes: 0 all was done; 1 findings (`check`) or changes (`diff`, `apply --exit-code`); 2 something could
not be done, whatever else was; 130 interrupted, 143 terminated, 141 the output's reader is gone.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from devfix import __version__, commands
from devfix.commands.helping import CANNOT, Group, color_of_environment
from devfix.commands.running import complain
from devfix.pipeline.signals import exit_code, handled


def main(arguments: Sequence[str] | None = None) -> int:
    """Run devfix; returns the exit code. What went wrong is on stderr, a line each."""
    if arguments is None:
        # What is imported stays: to visit it again and again takes a tenth of the time.
        gc.set_threshold(100_000, 20, 20)
        atexit.register(gc.freeze)  # nobody needs a last collection of all that the analysis has left
    out = sys.stdout
    for stream in (out, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    try:
        code = group.main(args=arguments, prog_name="devfix", standalone_mode=False)
        if sys.stdout is not None and not sys.stdout.closed:  # the language server closes it
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            complain(error.format_message())
        return 2
    except click.ClickException as error:
        complain(error.format_message())
        return 2
    except (KeyboardInterrupt, click.Abort) as error:
        complain("; ".join(filter(None, ("interrupted", str(error.__cause__ or error)))))
        return exit_code()
    except BrokenPipeError:  # `devfix check | head`
        _drop_output()
        return 141
    except SystemExit:
        if sys.stdout is out:
            raise
        return 141  # click has replaced a stream without a reader, and exits with the code for findings
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            return _bug()
        _drop_output()
        complain(f"the output could not be written: {error.strerror}")
        return 2
    except Exception:
        return _bug()


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def _bug() -> int:
    """What went wrong outside of any file; Python would exit with 1, which means "findings"."""
    import traceback

    traceback.print_exc()
    complain("this is devfix's own bug, please report it with the lines above")
    return 2


def _drop_output() -> None:
    """What is still to come goes nowhere, also what Python writes at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Group(Group):
    """A group that knows more commands than it has imported, and what was meant by a mistyped one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands.NAMES)

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


@click.group(
    cls=_Group,
    examples={
        "devfix check": "list the device bugs in this folder",
        "devfix diff --unsafe": "show all fixes, unsafe ones too, as a patch",
        "devfix apply": "make the safe fixes",
        "devfix check --help": "describe one command",
    },
    codes={0: "done, or nothing to do", 1: "there are findings or changes", 2: CANNOT, 130: "interrupted"},
    context_settings={"max_content_width": 110},
)
@click.version_option(__version__, message="devfix %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Find and fix device bugs in PyTorch programs.

    Only `apply`, `undo`, `repair --write` and `check --add-ignores` change your files. Only `run`, `repair`, `smoke`,
    and the options --smoke, --smoke-cmd and --verify-cmd, run your code.
    """
    ctx.color = color_of_environment()  # for all that is printed, unless --color says otherwise
    try:
        os.getcwd()
    except OSError as error:
        raise click.ClickException("the working directory is gone; change into another one") from error
    if ctx.invoked_subcommand in ("check", "diff", "apply", "undo"):
        ctx.with_resource(handled())
