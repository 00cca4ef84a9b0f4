"""`hand-on-device`: a function that takes a device, never reads it, and gives what it makes on torch's default."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.left_out import reads
from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices, is_for_host, is_for_tests, is_handed_name
from devfix.engine.files import Function
from devfix.findings import Finding, Fix, Related, Safety, SetArgument
from devfix.models.loader import models
from devfix.text.source import Source

_CODEMOD = "hand-on-device"


def findings(analysis: Analysis) -> Iterator[Finding]:
    """One finding for each factory whose tensor such a function gives."""
    source = analysis.file.source
    if is_for_tests(source):
        return
    for function in analysis.file.all_functions:
        unread = [
            one
            for one in function.parameters
            if is_handed_name(one.arg) and not reads(source, function.node, one.arg)
        ]
        if len(unread) != 1 or is_for_host(function.name) or _speaks_of_devices(function, source):
            continue
        name = unread[0].arg
        for call in _given(function):
            span = source.span(call)
            yield Finding(
                _CODEMOD,
                span,
                f"`{function.name}` never reads its `{name}`: {quoted(source, call)} is on the CPU, torch's default. "
                f"The fix assumes that its result belongs on `{name}`",
                Fix(f"pass `{name}={name}`", (SetArgument(span, "device", name),), Safety.UNSAFE),
                (Related(source.span(unread[0]), "the device that it takes"),),
            )


def _speaks_of_devices(function: Function, source: Source) -> bool:
    """Does its body, or its text, say anything of devices, as what was made may be moved, or be for the CPU?"""
    return any(about_devices(source.code(one)) for one in function.node.body)


def _given(function: Function) -> Iterator[ast.Call]:
    """The factories without a device whose tensor a function gives, alone or in an object that is made of it."""
    returned = [one.value for one in function.nodes if isinstance(one, ast.Return) and one.value is not None]
    made = [one for one in function.nodes if isinstance(one, ast.Call) and _is_factory(one, function)]
    if len(returned) != 1 or len(made) != 1:
        return  # what one makes may be for another
    kept = {
        one.targets[0].id: one.value
        for one in function.nodes
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    whole = returned[0]
    if isinstance(whole, ast.Call) and whole not in made and len(whole.args) == 1:
        whole = whole.args[0]  # the object that holds it
    given = kept.get(whole.id, whole) if isinstance(whole, ast.Name) else whole
    yield from (one for one in made if one is given)


def _is_factory(call: ast.Call, function: Function) -> bool:
    row = models().function(function.file.dotted(call.func))
    words = {one.arg for one in call.keywords}
    return row is not None and row.form == "make" and not words & {"device", "out", None}
