"""The engine: it computes where the values of a program are, and which operations find them apart.

Checkers ask `analyse` for the facts of a file; nothing here knows a codemod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devfix.engine.files import File, Resolver
from devfix.text.source import Source

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis
    from devfix.engine.callers import Callers

__all__ = ["File", "analyse"]


def analyse(
    path: str,
    source: Source,
    resolve: Resolver | None = None,
    default_is_known: bool = True,
    callers: Callers | None = None,
) -> Analysis:
    """Interpret a file; `resolve` finds the definitions of other files, `callers` what these pass to its functions.

    Without `default_is_known` nothing is said of where torch makes what it is not told a device for.

    Raises RecursionError on nesting that Python itself can hardly run.
    """
    from devfix.engine.analysis import Analysis  # not for those who ask for files and classes alone

    made = Analysis(File(path, source, resolve))
    made.default_is_known, made.callers = default_is_known, callers
    made.run()
    return made
