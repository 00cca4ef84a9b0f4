"""Tensors on a device where the memory of the CPU is read: by numpy, by plots, as lengths of packed sequences."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from devfix.checkers.signs import (
    copied,
    is_caught,
    is_moved_beside,
    is_other_framework,
    lives_on_devices,
    quoted,
)
from devfix.checkers.wording import where
from devfix.engine.analysis import Analysis
from devfix.engine.facts import HostRead
from devfix.engine.files import Function
from devfix.engine.places import OF, OWNED
from devfix.engine.values import LIBRARY_CALL, NAME, PASS, TENSOR, UNKNOWN, USES
from devfix.findings import AppendCall, Finding, Fix, Safety
from devfix.models.loader import models
from devfix.source import Source

_LENGTHS = "lengths-on-cpu"
_NUMPY = "numpy-of-device"
CODEMODS = frozenset({_NUMPY})  # of which the old rule does not ask the engine itself
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
    doubts = {one.kind for one in read.assumed} & _DOUBTS
    if read.is_lengths:
        doubts -= {LIBRARY_CALL}
    elif read.place.kind != OF and (read.operation == "numpy" or read.value.kind == TENSOR):
        # It is a tensor, with what was moved; a name may say what was called, and nothing else.
        named = {one.subject for one in read.assumed if one.kind == NAME}
        if any(one.kind == LIBRARY_CALL and one.subject.endswith("()") for one in read.assumed):
            return "a function that is not in view may have brought it to the CPU"
        doubts -= {LIBRARY_CALL, USES} | ({NAME} if named <= _called(read) else set())
    if doubts or is_other_framework(source):
        return "it is not known whether this is a tensor of a device"
    if read.operation.startswith("numpy.") and read.operation not in models().reads:
        return "not every function of numpy makes an array of what it is given"
    if read.value.kind != TENSOR and isinstance(read.value_node, ast.Call):
        return "what a layer gives needs its gradient, so that this raises on the CPU as well"
    if is_caught(source, read.node):
        return "the error is expected, or handled"
    if read.is_array_function and any(link.kind == PASS for link in read.value.links):
        return "callers mostly pass arrays to functions of numpy, not tensors"
    if read.place.kind == OWNED and read.operation != "numpy":
        return "what a framework gives need not be a tensor"
    if read.place.kind != OF:
        return ""
    function = read.function
    if function is None or analysis.refuted(read.place):
        return "all calls in the file pass what is on the CPU"
    if read.is_array_function and not _is_told_apart(read, function, analysis):
        return "only a parameter says that it is on a device, and functions of numpy are mostly given arrays"
    return _why_kept(read, function, analysis) if read.is_lengths else _why_on_host(read, function, analysis)


def _called(read: HostRead) -> set[str]:
    """The names that the function of a read calls."""
    nodes = read.function.nodes if read.function is not None else ()
    return {one.func.id for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}


def _why_on_host(read: HostRead, function: Function, analysis: Analysis) -> str:
    if _is_as_passed(read):
        return "what is passed on unchanged is mostly on the CPU on purpose"
    if any(one.on_host for one in analysis.passed(read.place)):
        return "some calls in the file pass what is on the CPU"
    if lives_on_devices(function, analysis):
        return ""
    return "nothing but a parameter says that the value may be on an accelerator"


def _is_of_torch(read: HostRead) -> bool:
    """Is it what a function of torch gives, here or by a name?"""
    nodes, at = read.function.nodes if read.function is not None else (), read.value_node
    made: list[ast.AST] = [at]
    if isinstance(at, ast.Name):
        assigned = (one for one in nodes if isinstance(one, ast.Assign))
        made = [one.value for one in assigned if any(_is_name(target, at.id) for target in one.targets)]
    calls = [one for one in made if isinstance(one, ast.Call)]
    return (
        bool(calls)
        and len(calls) == len(made)
        and all(read.file.dotted(one.func).startswith("torch.") for one in calls)
    )


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_told_apart(read: HostRead, function: Function, analysis: Analysis) -> bool:
    """Is it certainly a tensor, and may it be on a device, by what the function does with its others?"""
    if not _is_of_torch(read):
        return False
    names = {one.arg for one in function.parameters}
    others = (
        one.func.value
        for one in function.nodes
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "cpu"
    )
    if any(isinstance(one, ast.Name) and one.id in names for node in others for one in ast.walk(node)):
        return True
    return function.owner is not None and analysis.class_kind(function.owner) in ("module", "owned")


def _why_kept(read: HostRead, function: Function, analysis: Analysis) -> str:
    """Why lengths, which programs like to keep on the CPU, may be there."""
    source = analysis.file.source
    passed = analysis.passed(read.place)
    if function.owner is None and not (passed and all(one.on_device for one in passed)):
        return "lengths that a caller passes are mostly on the CPU"
    if "cpu" in source.code(function.node).lower():
        return "the function mentions the CPU"
    copies = copied(source)
    names = {one.arg for one in function.parameters}
    if any(copy.id in names and not _packs(call, read, source) for call, copy in copies):
        return "a caller keeps this value on the CPU"
    beside = isinstance(read.value_node, ast.Name) and any(
        copy.id == read.value_node.id for _, copy in copies
    )
    if not beside and (read.value.kind == UNKNOWN or _is_as_passed(read)):
        return "what is passed on unchanged is mostly on the CPU on purpose"
    if isinstance(read.value_node, ast.Name) and is_moved_beside(source, function.node, read.value_node.id):
        return "what was unpacked with it is moved afterwards: it was on the CPU"
    return ""


def _packs(call: ast.Call, read: HostRead, source: Source) -> bool:
    """Is a call of the same function as the one that reads?"""
    return isinstance(read.node, ast.Call) and source.code(call.func) == source.code(read.node.func)


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
    told = quoted(source, node)
    place = where(read.place, told) if read.place.kind == OF else "on a device that may be an accelerator"
    message = f"{told} is {place}; `{read.operation}` raises unless it is on the CPU"
    # Nothing but a tensor has the method `numpy` here.
    sure = read.value.kind in (TENSOR, UNKNOWN) or read.operation == "numpy"
    if not sure or not isinstance(node, ast.expr) or isinstance(node, ast.Starred):
        return Finding(codemod, source.span(node), message, None)
    proven = read.place.kind != OF and read.value.kind == TENSOR and not read.assumed
    proven = proven and not read.is_array_function  # what a package does with its argument is not in view
    if not proven:
        message += ". On the CPU nothing fails, and the fix changes no result"
    fix = Fix(
        "copy it to the CPU",
        (AppendCall(source.span(node), ".cpu()"),),
        Safety.SAFE if proven else Safety.UNSAFE,
    )
    return Finding(codemod, source.span(node), message, fix)
