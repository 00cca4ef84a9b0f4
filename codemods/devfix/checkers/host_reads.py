"""Tensors on a device where the memory of the CPU is read: by numpy, by plots, as lengths of packed sequences."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from devfix.checkers.earlier import reached
from devfix.checkers.refuted import is_copied_by_a_caller, is_refuted
from devfix.checkers.signs import (
    copied,
    is_as_computed,
    is_caught,
    is_moved_beside,
    is_other_framework,
    is_without_gradients,
    lives_on_devices,
    quoted,
)
from devfix.checkers.wording import where
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import (
    are_named_parameters,
    is_module_name,
    may_bring_to_host,
    names_what_computes,
)
from devfix.engine.evidence_of_modules import is_option
from devfix.engine.facts import HostRead
from devfix.engine.files import Function
from devfix.engine.places import BY_OWNER, OF, OWNED, VAR
from devfix.engine.uses import NO_EVIDENCE
from devfix.engine.values import (
    BATCH,
    BESIDE,
    CALLER,
    DATA,
    LIBRARY_CALL,
    MODULE,
    MOVE,
    NAME,
    OR_NUMBER,
    PASS,
    TENSOR,
    UNKNOWN,
    USES,
)
from devfix.findings import AppendCall, Edit, Finding, Related, WrapExpression, told
from devfix.models.loader import tensor_attributes
from devfix.text.bindings import function_around
from devfix.text.source import COMPREHENSIONS, Source

_LENGTHS = "lengths-on-cpu"
_NUMPY = "numpy-of-device"
CODEMODS = (_NUMPY, _LENGTHS)
# Functions of these that take a tensor fail at once; others may hand it on, or refuse it on the CPU as well.
_CERTAIN = ("numpy.", "sklearn.metrics.", "matplotlib.", "axes.")
_OF_PARAMETERS = re.compile(r"\.(?:named_)?parameters\(")
_DETACHED = re.compile(r"\.(?:detach|data|grad|buffers|state_dict|requires_grad\w*)\b")
_DOUBTS = frozenset({LIBRARY_CALL, NAME, USES})


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source, told = analysis.file.source, set[ast.AST]()
    for read in sorted(analysis.host_reads, key=lambda one: len(one.assumed)):
        codemod = _LENGTHS if read.is_lengths else _NUMPY
        here = read.file is analysis.file and read.value_node not in told
        if codemod in wanted and here and not why_silent(read, analysis):
            told.add(read.value_node)
            lines = {source.position(source.span(node).start)[0] for node in (read.node, read.value_node)}
            yield _finding(codemod, read, analysis), lines


def why_silent(read: HostRead, analysis: Analysis) -> str:
    """The reason for which nothing is said of a read; an empty string if it is told."""
    source = analysis.file.source
    doubts = {one.kind for one in read.assumed} & _DOUBTS
    of_device = read.place.kind != OF or _is_of_module(read, analysis)
    if read.is_lengths:
        if read.value.kind == BATCH and read.place.kind == VAR and not read.value.links:
            return "what a module gives as lengths may be a list"
        doubts -= {LIBRARY_CALL}
    elif of_device and (read.operation == "numpy" or read.value.kind == TENSOR):
        # It is a tensor, with what was moved; a name may say what was called, and nothing else.
        named = {one.subject for one in read.assumed if one.kind == NAME}
        called = (one.subject for one in read.assumed if one.kind == LIBRARY_CALL)
        hidden = any(may_bring_to_host(one[:-2], source) for one in called if one.endswith("()"))
        if hidden and not is_as_computed(read.value_node, _target(read, analysis)):
            return "a function that devfix cannot see may have brought it to the CPU"
        doubts -= {LIBRARY_CALL, USES} | ({NAME} if named <= _called(read) else set())
    elif read.operation == "numpy":
        doubts -= {USES}
    if DATA in {one.kind for one in read.assumed}:
        return "it may be made of what is not a tensor, which is on the CPU"
    if read.operation.startswith("torch.") and any(one.kind == CALLER for one in read.assumed):
        return "callers mostly pass lists to what makes a tensor, not tensors"
    if doubts or is_other_framework(source):
        return "it is not known whether this is a tensor"
    run = read.value.kind != TENSOR and isinstance(read.value_node, ast.Call)
    if run and not is_without_gradients(source, read.value_node):
        return "the result of a layer requires grad, so this raises on the CPU as well"
    if (read.is_array_function or read.operation == "numpy") and _needs_gradients(read, source):
        return "a parameter requires grad, so this raises on the CPU as well"
    if read.is_array_function and _holds_graphs(read, source):
        return "a loss requires grad, so this raises on the CPU as well"
    known = read.place.key if read.place.kind == VAR else ()
    key = known if isinstance(known, tuple) else ()
    name = str(key[2]) if key and key[0] == "attribute" else known
    told = not isinstance(name, str) or analysis.is_device_name(name) or is_option(name)
    if (key and key[0] == TENSOR) or not told:
        return "it is on the device of something about which nothing is known"
    if is_caught(source, read.node):
        return "the error is expected, or handled"
    if read.is_array_function and any(link.kind == PASS for link in read.value.links):
        return "callers mostly pass arrays to numpy functions, not tensors"
    if read.is_array_function and not read.many and _has_more_than_tensors(read, analysis):
        return "what no tensor has is asked of it"
    text = _target(read, analysis)
    if key and text and not names_what_computes(text):
        return "the name of the device does not say that it may be an accelerator"
    if read.operation != "numpy" and (
        read.place == BY_OWNER or (read.place.kind == OWNED and read.is_array_function)
    ):
        return "what a framework gives may not be a tensor"
    function = read.function
    if is_refuted(read.place, analysis) or (function is None and not of_device):
        return "all calls in view pass what is on the CPU"
    if of_device or function is None:
        return ""
    if read.is_array_function and not _is_told_apart(read, function, analysis):
        return "only a parameter suggests that it is on a device, and numpy functions mostly get arrays"
    return _why_kept(read, function, analysis) if read.is_lengths else _why_on_host(read, function, analysis)


def _holds_graphs(read: HostRead, source: Source) -> bool:
    """Does a list get what `backward` is called on, as it is, or is that made of what numpy gives of the list?"""
    node, around = read.value_node, function_around(source, read.value_node)
    while isinstance(node, ast.Subscript):
        node = node.value
    calls = [(one, one.func) for one in source.calls if isinstance(one.func, ast.Attribute)]
    calls = [(one, func) for one, func in calls if function_around(source, one) is around]
    graphs = {source.code(func.value) for _, func in calls if func.attr == "backward"}
    given = {
        one.id for one in getattr(source.statement(read.node), "targets", ()) if isinstance(one, ast.Name)
    }
    assigned = source.of_kind(ast.Assign, around)
    if any(_reads(value, given) for name in graphs for value in _assigned(assigned, name)):
        return True
    kept = {source.code(func.value) for _, func in calls if func.attr in ("detach", "item")}
    return isinstance(node, ast.Name) and any(
        func.attr == "append"
        and getattr(func.value, "id", None) == node.id
        and source.code(one.args[0]) in graphs - kept
        for one, func in calls
        if one.args
    )


def _needs_gradients(read: HostRead, source: Source) -> bool:
    """Is it a parameter of a module, or computed from parameters, and attached to their graph?"""
    node, nodes = read.value_node, read.function.nodes if read.function is not None else ()
    told = [node]
    if isinstance(node, ast.Name):
        loops = [one for one in source.ancestors(node) if isinstance(one, COMPREHENSIONS)]
        told += [one.iter for loop in loops for one in loop.generators if _reads(one.target, {node.id})]
        told += [one.iter for one in nodes if isinstance(one, ast.For) and _reads(one.target, {node.id})]
        told += _assigned(nodes, node.id)
    text = " ".join(map(source.code, told))
    if not (read.value.role == "parameter" or _OF_PARAMETERS.search(text)) or _DETACHED.search(text):
        return False
    return not is_without_gradients(source, node)


def _called(read: HostRead) -> set[str]:
    """The names that the function of a read calls, or of whose objects it calls methods."""
    nodes = read.function.nodes if read.function is not None else ()
    called = (one.func for one in nodes if isinstance(one, ast.Call))
    roots = (one.value if isinstance(one, ast.Attribute) else one for one in called)
    return {one.id for one in roots if isinstance(one, ast.Name)}


def _why_on_host(read: HostRead, function: Function, analysis: Analysis) -> str:
    root = read.place.key
    while isinstance(root, tuple) and root[0] in ("element", "item"):
        root = root[1]
    if isinstance(root, tuple) and root[0] not in ("self", "parameter"):
        return "it is a part of something about which nothing is known"
    if _is_as_passed(read):
        return "what is passed on unchanged is mostly on the CPU on purpose"
    if read.value.is_moved:
        return "it was moved to where another value is, which may be the CPU"
    if any(one.on_host for one in analysis.passed(read.place)):
        return "some calls in the file pass what is on the CPU"
    if is_copied_by_a_caller(read.place, function, analysis):
        return "a caller in the file copies to the CPU what it passes"
    if lives_on_devices(function, analysis) or "torch.nn." in analysis.file.source.text:
        return ""
    return "only a parameter suggests that the value may be on an accelerator"


def _is_of_torch(read: HostRead) -> bool:
    """Is it what a function of torch gives, here or by a name?"""
    nodes, at = read.function.nodes if read.function is not None else (), read.value_node
    made: list[ast.AST] = [at]
    if isinstance(at, ast.Name):
        made = _assigned(nodes, at.id)
    calls = [one for one in made if isinstance(one, ast.Call)]
    return (
        bool(calls)
        and len(calls) == len(made)
        and all(read.file.dotted(one.func).startswith("torch.") for one in calls)
    )


def _has_more_than_tensors(read: HostRead, analysis: Analysis) -> bool:
    """Does the function use an attribute of it, such as `copy()`, that arrays have and tensors do not?"""
    node = read.value_node.operand if isinstance(read.value_node, ast.UnaryOp) else read.value_node
    if read.function is None or not isinstance(node, ast.Name):
        return False
    used = analysis.uses(read.function).attributes.get(node.id, set())
    if not used.isdisjoint(("append", "extend", "insert")):
        return False  # a list, before it is stacked
    return not {one.removesuffix("()") for one in used} <= tensor_attributes()


def _reads(node: ast.AST, names: Collection[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _assigned(nodes: Collection[ast.AST], name: str) -> list[ast.AST]:
    """What the statements of a function bind a name to."""
    return [
        one.value
        for one in nodes
        if isinstance(one, ast.Assign) and any(getattr(target, "id", None) == name for target in one.targets)
    ]


def _is_told_apart(read: HostRead, function: Function, analysis: Analysis) -> bool:
    """Is it certainly a tensor, and may it be on a device, by what the function does with its others?"""
    doubts = {one.kind for one in read.value.assumed} - {CALLER}
    computed = not (doubts or read.many or _is_as_passed(read))
    if computed and function.name == "forward" and function.owner is not None:
        if read.value.kind == TENSOR and analysis.class_kind(function.owner) in ("module", "owned"):
            return True
    if not _is_of_torch(read):
        return False
    names = {one.arg for one in function.parameters}
    for one in function.nodes:  # and what is a part of them
        if isinstance(one, ast.Assign) and _reads(one.value, names):
            names |= {
                target.id for at in one.targets for target in ast.walk(at) if isinstance(target, ast.Name)
            }
    others = (
        one.func.value
        for one in function.nodes
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "cpu"
    )
    if any(_reads(node, names) for node in others):
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
    """Is it a parameter, as the caller has passed it? The result of the read may take its name later."""
    name = read.value_node.id if isinstance(read.value_node, ast.Name) else ""
    if read.function is None or name not in {one.arg for one in read.function.parameters}:
        return False
    source = read.file.source
    statement = source.statement(read.value_node)
    return not any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        and source.statement(node) is not statement
        and source.span(node).start < source.span(statement).start
        for node in read.function.nodes
    )


def _finding(codemod: str, read: HostRead, analysis: Analysis) -> Finding:
    source, node = analysis.file.source, read.value_node
    code = quoted(source, node)
    place, related = _where(read, code, analysis)
    message = f"{code} {'holds tensors that are' if read.many else 'is'} {place}"
    message += f", and `{_reader(read, source)}` raises unless it is on the CPU"
    # Nothing but a tensor has the method `numpy` here, or was moved and serves as lengths.
    named = read.operation == "numpy" or (read.is_lengths and read.value.is_moved)
    sure = (named or read.value.kind in (TENSOR, UNKNOWN)) and OR_NUMBER not in read.assumed
    sure = sure and node not in analysis.arrays_read  # which have no `cpu()`
    if not sure or not isinstance(node, ast.expr) or isinstance(node, ast.Starred):
        return Finding(codemod, source.span(node), message, related=related)
    span = source.span(node)
    unless = _unproven(read, source) or _unproven_beside(read, analysis)
    edit: Edit = WrapExpression(span, "[t.cpu() for t in ", "]") if read.many else AppendCall(span, ".cpu()")
    return told(codemod, span, message, f"copy {code} to the CPU", (edit,), related, unless)


def _unproven(read: HostRead, source: Source) -> str:
    """What a fix assumes; empty for a tensor on a device that is no argument, read by what surely needs the CPU."""
    key = read.place.key
    given = isinstance(key, tuple) and key[:1] == ("parameter",)
    other = given and (read.function is None or (isinstance(key, tuple) and key[1] != id(read.function.node)))
    if other or read.place.kind == OF:
        return "this can be an accelerator"  # another function was told the device, or made the value
    if read.operation.startswith("torch.") or isinstance(read.node, ast.BinOp):
        return "what it makes belongs on the CPU"
    if read.is_array_function and not read.operation.startswith(_CERTAIN):
        return f"`{_reader(read, source)}` does not copy it there itself"
    beside = next((one.subject for one in read.assumed if one.kind == BESIDE), "")
    if beside:
        return f"`{beside}` is there as well"
    return "" if read.value.kind == TENSOR and not read.assumed else "it is a tensor, as its uses suggest"


def _unproven_beside(read: HostRead, analysis: Analysis) -> str:
    """Another value that the same statement reads, or what fails before: if that stays, this still raises."""
    source = analysis.file.source
    statement, known = source.statement(read.value_node), {read.value_node, *analysis.read_on_host}
    for other in analysis.host_reads:
        apart = other.file is read.file and other.value_node is not read.value_node
        if apart and source.statement(other.value_node) is statement and _unproven(other, source):
            return f"{quoted(source, other.value_node)} is copied as well"
        known.add(other.value_node)
    for call in source.of_kind(ast.Call, statement):
        numpy = isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.keywords
        at = call.func.value if isinstance(call.func, ast.Attribute) and numpy else None
        if at is not None and at not in known and source.statement(call) is statement:
            return f"{quoted(source, at)} is on the CPU"
    return reached(read.node, None, read.place, analysis)


def _reader(read: HostRead, source: Source) -> str:
    if isinstance(read.node, ast.BinOp):  # with an array
        return quoted(source, read.node).strip("`")
    if read.operation == "numpy" or not isinstance(read.node, ast.Call):
        return f".{read.operation}()"
    return source.code(read.node.func)


def _where(read: HostRead, told: str, analysis: Analysis) -> tuple[str, tuple[Related, ...]]:
    """Where a value is, as a message says it; and where it got there."""
    source, link = analysis.file.source, read.value.links[-1] if read.value.links else None
    if read.place.kind == OF:
        return where(read.place, told), ()
    text = _target(read, analysis)
    place = f"on `{text}`" if text else "on a device that may be an accelerator"
    if link is None or link.kind != MOVE or link.file is not analysis.file:
        return place, ()
    span = source.span(link.node)
    return f"{place} since line {source.position(span.start)[0]}", (Related(span, "it is moved here"),)


def _target(read: HostRead, analysis: Analysis) -> str:
    """How the device of a value is written in the function that reads it, or in the file; empty if it is not known."""
    here = (at for at, of, _, _ in analysis.targets_here(read.place) if of in (None, read.function))
    return next(map(analysis.file.source.code, here), "")


def _is_of_module(read: HostRead, analysis: Analysis) -> bool:
    """Is it where a module is that the function is given?"""
    key, function = read.place.key, read.function
    while isinstance(key, tuple) and key[0] == "attribute":  # what a model keeps is where it is
        if is_module_name(str(key[2])):
            return read.operation == "numpy"
        key = key[1]
    if function is None or not isinstance(key, tuple) or key[:2] != ("parameter", id(function.node)):
        return False
    if are_named_parameters(str(key[2])):
        return True
    return analysis.known(function).get(key[2], NO_EVIDENCE)[0] == MODULE
