"""What pytest passes to tests: the results of fixtures."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from devfix.engine.files import Function
from devfix.engine.state import State
from devfix.engine.transfer.protocols import Implied
from devfix.engine.values import ANYTHING, UNKNOWN, Value

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis


def fixtures(analysis: Analysis, function: Function, state: State) -> dict[str, Value]:
    """Parameter -> the result of the fixture of the file that has its name, where this is not unknown.

    `state` gets what the fixtures leave in the heap.
    """
    frame, found = analysis.runs(analysis, function.file, None, state), dict[str, Value]()
    for one in function.parameters:
        fixture = function.file.functions.get(one.arg)
        if fixture is None or fixture is function or "fixture" not in fixture.decorators:
            continue
        call = ast.copy_location(Implied(ast.Name(one.arg, ast.Load()), [], []), one)
        value = frame.call_function(call, fixture, None, ([], {}))
        if any(isinstance(node, ast.Yield) for node in fixture.nodes):
            value = value.rest or ANYTHING  # what follows takes down what is passed
        if value.kind != UNKNOWN:
            found[one.arg] = value
    return found
