"""Tensors on a device where the memory of the CPU is read: by numpy, by plots, as lengths of packed sequences."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers.signs import is_caught, is_other_framework, lives_on_devices
from devfix.engine.analysis import Analysis
from devfix.engine.facts import HostRead
from devfix.engine.places import OF
from devfix.engine.values import LIBRARY_CALL, NAME, PASS, TENSOR, USES
from devfix.findings import AppendCall, Finding, Fix, Safety

_LENGTHS = "lengths-on-cpu"
_NUMPY = "numpy-of-device"
CODEMODS = frozenset({_LENGTHS, _NUMPY})
_DOUBTS = frozenset({LIBRARY_CALL, NAME, USES})


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    for read in analysis.host_reads:
        codemod = _LENGTHS if read.is_lengths else _NUMPY
        if codemod in wanted and read.file is analysis.file and not why_silent(read, analysis):
            lines = {source.position(source.span(node).start)[0] for node in (read.node, read.value_node)}
            yield _finding(codemod, read, analysis), lines


def why_silent(read: HostRead, analysis: Analysis) -> str:
    """The reason for which nothing is said of a read; an empty string if it is told."""
    source = analysis.file.source
    if any(one.kind in _DOUBTS for one in read.assumed) or is_other_framework(source):
        return "it is not known whether this is a tensor of a device"
    if read.operation.startswith("numpy."):
        return "not every function of numpy makes an array of what it is given"
    if read.value.kind != TENSOR and isinstance(read.value_node, ast.Call):
        return "what a layer gives needs its gradient, so that this raises on the CPU as well"
    if is_caught(source, read.node):
        return "the error is expected, or handled"
    if read.is_array_function and any(link.kind == PASS for link in read.value.links):
        return "what a caller passes to functions of numpy is mostly an array"
    if read.place.kind != OF:
        return ""
    function = read.function
    if function is None or analysis.refuted(read.place):
        return "all calls in the file pass what is on the CPU"
    if read.is_array_function:
        return "only a parameter says that it is on a device, and functions of numpy are mostly given arrays"
    if _is_as_passed(read):
        return "what is handed on as it was passed is mostly on the CPU on purpose"
    passed = analysis.passed(read.place)
    if read.is_lengths and function.owner is None and not (passed and all(one.on_device for one in passed)):
        return "lengths that a caller passes are mostly on the CPU"
    if any(one.on_host for one in passed):
        return "some calls in the file pass what is on the CPU"
    if lives_on_devices(function, analysis):
        return ""
    return "nothing but a parameter says that the value may be on an accelerator"


def _is_as_passed(read: HostRead) -> bool:
    """Is it a parameter, as the caller has passed it?"""
    name = read.value_node.id if isinstance(read.value_node, ast.Name) else ""
    if read.function is None or name not in {one.arg for one in read.function.parameters}:
        return False
    return not any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in read.function.nodes
    )


def _finding(codemod: str, read: HostRead, analysis: Analysis) -> Finding:
    source, node = analysis.file.source, read.value_node
    place = "wherever the caller has put it" if read.place.kind == OF else "on a device"
    message = f"this tensor is {place}; `{read.operation}` reads the memory of the CPU"
    sure = read.value.kind == TENSOR or read.operation == "numpy"  # nothing else here has that method
    if not sure or not isinstance(node, ast.expr) or isinstance(node, ast.Starred):
        return Finding(codemod, source.span(node), message, None)
    message += ". The fix assumes that this is run on an accelerator; on the CPU it changes nothing"
    fix = Fix("copy it to the CPU", (AppendCall(source.span(node), ".cpu()"),), Safety.UNSAFE)
    return Finding(codemod, source.span(node), message, fix)
