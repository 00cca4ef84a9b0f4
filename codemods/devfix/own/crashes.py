"""What somebody's codemod raises is said with its file and line, and stops nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from devfix.config import ConfigError, shown
from devfix.findings import Finding, Fix, TextEdit
from devfix.reports.report import FileError

if TYPE_CHECKING:
    from devfix.codemod import Codemod
    from devfix.flow import Flow
    from devfix.own.loading import Origin
    from devfix.rewrite.combine import Fixing
    from devfix.text.source import Source

Made = TypeVar("Made")
_HERE = re.escape(os.path.dirname(os.path.abspath(__file__)))
# Frames of imports and of devfix itself say nothing about a codemod.
_IS_MACHINERY = re.compile(rf"^<|^{_HERE}[\\/]|[\\/]importlib[\\/]")


class Trouble(Exception):
    """Something that a codemod could not do, in words for the user."""


def said(origin: Origin, do: Callable[[], Made]) -> tuple[Made | None, str]:
    """What `do` returns, or what is to be said of what it raised."""
    try:
        return do(), ""
    except (Trouble, ConfigError) as trouble:
        return None, str(trouble)
    except SystemExit as error:
        return None, f"it ended with sys.exit({error.code!r}){_place(error, origin)}"
    except Exception as error:
        what = error.msg if isinstance(error, SyntaxError) else error
        return None, f"{type(error).__name__}: {what}{_place(error, origin)}"


def asked(codemod: Codemod, flow: Flow, troubles: dict[str, FileError]) -> list[Finding]:
    """What somebody's codemod finds; if it crashes, nothing, and `troubles` has what to say of it."""
    found, trouble = said(codemod.origin, lambda: _checked(codemod, flow))
    if trouble:
        troubles[codemod.id] = FileError(flow.path, "check", f"codemod {codemod.id}: {trouble}")
    return found or []


def edits_of(source: Source, fix: Fix) -> tuple[TextEdit, ...] | str:
    """The text edits of a fix, or why there are none: its edits may make no sense."""
    from devfix.rewrite import CannotRewrite, text_edits

    try:
        return text_edits(source, fix)
    except CannotRewrite:
        raise
    except Exception as error:
        return f"its edits cannot be made ({type(error).__name__}: {error})"


def guilty(source: Source, chosen: Sequence[Fixing], verify: Callable[..., None]) -> frozenset[str]:
    """The codemods whose fixes alone make something that cannot be; all of them, if it is none alone."""
    from devfix.rewrite import CannotRewrite, apply, merge

    by_codemod: dict[str, list[tuple[TextEdit, ...]]] = {}
    for finding, edits in chosen:
        by_codemod.setdefault(finding.codemod, []).append(edits)
    found = set()
    for id, fixes in by_codemod.items():
        try:
            merged = merge(fixes)
            verify(source.text, merged, apply(source.text, merged))
        except CannotRewrite:
            found.add(id)
    return frozenset(found or by_codemod)


def _checked(codemod: Codemod, flow: Flow) -> list[Finding]:
    found = []
    length = len(flow.source.text)
    for finding in codemod.check(flow):
        if not isinstance(finding, Finding):
            raise Trouble(f"check() yielded {finding!r}, which is no Finding")
        if finding.codemod != codemod.id:
            raise Trouble(f"check() yielded a finding of {finding.codemod!r}; `self.finding(...)` makes them")
        for span in (finding.span, *(other.span for other in finding.related if not other.path)):
            if not 0 <= span.start <= span.end <= length:
                raise Trouble(f"check() yielded {span}, which is not in the text of {length} characters")
        found.append(finding)
    return found


def _place(error: BaseException, origin: Origin) -> str:
    """` (file:line)` of the innermost code of the codemod's author, or of whatever raised."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({shown(error.filename)}:{error.lineno})"
    import traceback  # not for every run

    frames = traceback.extract_tb(error.__traceback__)
    inside = origin.folder + os.sep
    mine = [frame for frame in frames if origin.folder and frame.filename.startswith(inside)]
    other = [frame for frame in frames if not _IS_MACHINERY.search(frame.filename)]
    best = (mine or other)[-1:]
    return f" ({shown(best[0].filename)}:{best[0].lineno})" if best else ""
