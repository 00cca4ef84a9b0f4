"""Scripts written for Bowler, run as they are; what their queries would have done is done by devfix.

A script is run once in each process, with `Query.execute` replaced: `.diff()`, `.idiff()`, `.write()`,
`.silent()` and `.execute()` only hand over the query. Of Bowler itself, what compiles a query and what refactors
a text is used; it reads and writes no file and asks nobody.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, ClassVar

from devfix.codemod import Codemod
from devfix.config import ConfigError, suggest
from devfix.own.crashes import Trouble
from devfix.own.loading import Origin, guarded, run_as
from devfix.own.text_codemod import NewText, TextCodemod, lines_of, split_options

ARGUMENTS = "args"
_CONTEXT = 3  # unchanged lines around a hunk, as Bowler's processors get them


def kinds(origin: Origin) -> Mapping[str, type[Codemod]]:
    """The one codemod that a script is, by its id; raises ConfigError. The script is not run yet."""
    _bowler()
    stem = os.path.splitext(os.path.basename(origin.path))[0]
    id = "bowler-" + "-".join("".join(c if c.isalnum() else " " for c in stem).lower().split())
    content = {
        "id": id,
        "origin": origin,
        "__doc__": _about(origin),
        "__module__": __name__,
    }
    return {id: type("BowlerScript", (BowlerScript,), content)}


def _about(origin: Origin) -> str:
    """What a script says of itself, else that it is one."""
    try:
        said = ast.get_docstring(ast.parse(origin.code)) or ""
    except (SyntaxError, ValueError):  # told when it is run
        said = ""
    return said or f"The Bowler script {os.path.basename(origin.path)} rewrites this."


def _bowler() -> Any:
    try:
        import bowler
    except ImportError as error:
        raise ConfigError(
            f"Bowler scripts need Bowler ({error}); install it by `pip install 'devfix[bowler]'`"
        ) from error
    return bowler


@dataclass(frozen=True)
class BowlerScript(TextCodemod):
    """A Bowler script as a codemod of devfix."""

    origin: ClassVar[Origin]

    arguments: tuple[str, ...] = field(default=(), init=False)

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Codemod:
        safety, given = split_options(options)
        arguments = given.pop(ARGUMENTS, "")
        for name in given:
            raise ConfigError(
                f"codemod {cls.id} has no argument {name!r}{suggest(name, [ARGUMENTS])}"
                f" {ARGUMENTS}='...' is the command line of the script"
            )
        made = cls(safety)
        object.__setattr__(made, "arguments", tuple(shlex.split(arguments)))
        _queries(cls.origin, made.arguments)  # what is wrong with the script is told before any file is read
        return made

    def new_text(self, path: str, text: str) -> NewText:
        made = text
        for query in _queries(self.origin, self.arguments):
            if query.wants(path):
                made = query.refactored(path, made)
        return NewText(made)


# --- a script ----------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _queries(origin: Origin, arguments: tuple[str, ...]) -> tuple[_Query, ...]:
    """The queries that a script would have executed; raises ConfigError."""
    found: list[_Query] = guarded(origin, lambda: _captured(origin, arguments))
    if not found:
        raise ConfigError(
            f"codemod {origin.spec}: the script executed no query; "
            "one ends in .diff(), .idiff(), .write(), .silent() or .execute()"
        )
    return tuple(found)


def _captured(origin: Origin, arguments: Sequence[str]) -> list[_Query]:
    bowler = _bowler()
    from bowler import tool

    seen: list[_Query] = []

    def execute(query: Any, **options: Any) -> Any:
        seen.append(_Query(query, options.get("hunk_processor"), options.get("filename_matcher")))
        query.retcode = 0
        return query

    def refuse(*given: Any, **options: Any) -> Any:
        raise Trouble("the script runs BowlerTool itself; devfix can only run queries")

    def no_question(prompt: object = "") -> str:
        raise Trouble("the script asks a question; answer it with --codemod-arg args='...'")

    with contextlib.ExitStack() as stack:
        stack.enter_context(_instead(bowler.Query, "execute", execute))
        stack.enter_context(_instead(tool.BowlerTool, "run", refuse))
        stack.enter_context(_instead(builtins, "input", no_question))
        stack.enter_context(_instead(sys, "argv", [origin.path, *(arguments or (os.curdir,))]))
        # What a script prints is no part of a patch.
        printed = io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        try:
            main = run_as(origin, "__bowler__").get("main")
            if callable(main):
                main()
            if not seen:  # everything stands under `if __name__ == "__main__":`
                run_as(origin, "__main__")
        except SystemExit as error:
            if not seen:  # argparse, for one, has said why
                last = printed.getvalue().strip().rpartition("\n")[2] or f"sys.exit({error.code!r})"
                raise Trouble(f"the script ended before any query: {last}") from None
    return seen


@contextlib.contextmanager
def _instead(owner: Any, name: str, value: object) -> Iterator[None]:
    real = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, real)


# --- a query -----------------------------------------------------------------------------------


class _Query:
    """One query, ready to refactor texts."""

    def __init__(self, query: Any, processor: Callable[..., Any] | None, matcher: Any) -> None:
        self._query = query
        self._processors = [*query.processors] or [processor] if processor else [*query.processors]
        self._matcher = matcher or query.filename_matcher
        self._tool: Any = None

    def wants(self, path: str) -> bool:
        if self._matcher is not None:
            return bool(self._matcher(path))
        return not path.endswith((".yaml", ".yml"))

    def refactored(self, path: str, text: str) -> str:
        """The text after the query; raises Trouble where the grammar of Bowler has no such thing."""
        from fissix.pgen2.parse import ParseError
        from fissix.pgen2.tokenize import TokenError

        if self._tool is None:
            self._tool = _engine(self._query)
        # Its grammar wants a last newline.
        missing = "" if not text or text.endswith(("\n", "\r")) else "\n"
        logger = logging.getLogger("RefactoringTool")
        was, logger.disabled = logger.disabled, True
        try:
            tree = self._tool.refactor_string(text + missing, path)
        except ParseError as error:
            line = error.context[1][0] if error.context else 0
            token = f" at {error.value!r}" if error.value and error.value.strip() else ""
            raise Trouble(f"Bowler's grammar cannot parse line {line}{token}; {_OLD}") from None
        except (TokenError, SyntaxError) as error:
            self._tool = None
            raise Trouble(f"Bowler's grammar cannot parse the file: {error}; {_OLD}") from None
        except Exception:
            self._tool = None  # its fixers may be anywhere
            raise
        finally:
            logger.disabled = was
        if tree is None:
            raise Trouble(f"Bowler's grammar cannot parse the file; {_OLD}")
        made = str(tree)
        if missing and made.endswith(missing):
            made = made[: -len(missing)]
        return self._accepted(path, text, made) if self._processors else made

    def _accepted(self, path: str, before: str, after: str) -> str:
        """The new text, less the hunks that a processor of the script refuses."""
        old, new = lines_of(before), lines_of(after)
        out: list[str] = []
        at = 0
        groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
        for group in groups:
            first, last = group[0], group[-1]
            hunk = [f"--- {path}", f"+++ {path}"]
            hunk.append(f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@")
            for tag, i1, i2, j1, j2 in group:
                if tag == "equal":
                    hunk += [" " + line.rstrip("\r\n") for line in old[i1:i2]]
                else:
                    hunk += ["-" + line.rstrip("\r\n") for line in old[i1:i2]]
                    hunk += ["+" + line.rstrip("\r\n") for line in new[j1:j2]]
            out += old[at : first[1]]
            at = last[2]
            answers = [processor(path, hunk) for processor in self._processors]
            out += old[first[1] : at] if False in answers else new[first[3] : last[4]]
        return "".join(out + old[at:])


def _engine(query: Any) -> Any:
    """What refactors texts by a query: Bowler's tool without its files, queues and questions."""
    from bowler.tool import BowlerTool
    from fissix.refactor import RefactoringTool

    class Engine(BowlerTool):  # type: ignore[misc]
        def __init__(self, fixers: Any, options: dict[str, bool]) -> None:
            RefactoringTool.__init__(self, fixers, options=options)

        def log_error(self, msg: str, *args: Any, **_: Any) -> None:
            raise sys.exc_info()[1] or RuntimeError(msg % args if args else msg)

    return Engine(query.compile(), {"print_function": True} if query.python_version == 3 else {})


_OLD = "it knows nothing newer than Python 3.8, and not all of that"
