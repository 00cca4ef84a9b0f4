"""Bowler's tool without its files, queues and questions."""

from __future__ import annotations

import sys
from typing import Any

from bowler.tool import BowlerTool
from fissix.refactor import RefactoringTool


class _Engine(BowlerTool):  # type: ignore[misc]
    """Refactors texts; `get_fixers` is Bowler's, everything else stays unused."""

    def __init__(self, fixers: Any, options: dict[str, bool]) -> None:
        RefactoringTool.__init__(self, fixers, options=options)

    def log_error(self, msg: str, *args: Any, **kwds: Any) -> None:
        raise sys.exc_info()[1] or RuntimeError(msg % args if args else msg)


def engine(query: Any) -> Any:
    """What refactors texts by a query."""
    options = {"print_function": True} if query.python_version == 3 else {}
    return _Engine(query.compile(), options)
