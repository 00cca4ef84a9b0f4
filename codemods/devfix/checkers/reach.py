"""Is it shown that a tensor may be on an accelerator at all, or are its callers those of the CPU?

A tensor parameter alone shows nothing: data preparation, plots and tables of lengths take tensors, too. What shows
it: the method is one that a module runs, the function asks for devices itself, or a call passes what is on one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.checkers.literal_programs import is_script
from devfix.checkers.moved_below import is_moved_below
from devfix.checkers.signs import root_name
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_count, is_forward_name, trains_on_cpu
from devfix.engine.facts import Mismatch
from devfix.engine.files import Function
from devfix.engine.places import DIFFERENT, OF, OWNED
from devfix.engine.values import CALLER, MODULE, STORE
from devfix.findings import AppendCall, Edit
from devfix.flow import Flow
from devfix.models.loader import models
from devfix.repair.candidates import exact_at, modules_met
from devfix.text.source import FUNCTIONS, Source, remembered

_ASKS = frozenset({"device", "is_cuda", "get_device", "type_as"})
_GUESSES = frozenset({"the result", "the container"})  # nothing fails there
# What has to do with devices at all.
_SIGN = re.compile(r"\bdevice\b|cuda|\.to\(")
# Tensors that are promises: their device is "meta" until somebody asks for the numbers.
_LAZY = re.compile(r"[Ll]azy(?!_?load)|[\"']meta[\"']|FakeTensor|is_meta\b")
_EXPORTING = re.compile(r"tracing\(|is_in_onnx_export\(|is_exporting\(|onnx_(?:export|trace)|exporting")
_TESTS = re.compile(r"^def test_|onnx\.export\(", re.MULTILINE)


def is_safe(mismatch: Mismatch, edits: tuple[Edit, ...], analysis: Analysis) -> bool:
    """Does an operation surely fail on an accelerator, and does a fix where the tensor is made change nothing else?"""
    if mismatch.operation in _GUESSES or mismatch.relation != DIFFERENT or mismatch.file is not analysis.file:
        return False
    if mismatch.chosen or any(one.kind == STORE for one in mismatch.stray.links):
        return False
    made, function = mismatch.stray.links[0].node, mismatch.function
    if not {one.kind for one in mismatch.assumed} <= {CALLER} or not isinstance(made, ast.Call):
        return False
    source = analysis.file.source
    device = exact_at(mismatch, analysis, made)
    if not device or (modules_met(made, analysis) and not device.startswith("self.")):
        return False  # the device of something else is told, or it meets a module that is somewhere else
    row = models().function(mismatch.stray.links[0].name)
    if row is None or (row.form == "legacy" and isinstance(edits[0], AppendCall)):
        return False  # an old constructor refuses tensors, and may be given one
    if row.form == "array" and mismatch.operation != "the index":
        return False  # an array may have no dimensions, and its tensor mixes with any device
    if _is_exported(source, mismatch.node) or _is_one_number(source, made, mismatch.node):
        return False
    if _is_switched_off(mismatch, analysis) or is_moved_below(
        analysis.file, mismatch.node, mismatch.anchor_node
    ):
        return False
    if function is None or mismatch.anchor_place.kind not in (OF, OWNED):
        return True
    if _is_of_host(source, function):
        return False
    if _is_run(mismatch, function, analysis):
        return True
    # What also gets a device may bring its result there from the CPU.
    told = any(analysis.is_device_name(one.arg) for one in function.parameters)
    return is_asked(mismatch, function) and not told and not _is_passed_on_host(mismatch, function, analysis)


def _is_passed_on_host(mismatch: Mismatch, function: Function, analysis: Analysis) -> bool:
    """Do all calls, which are in other files, pass what is on the CPU?"""
    key = mismatch.anchor_place.key
    if analysis.callers is None or not isinstance(key, tuple) or key[:2] != ("parameter", id(function.node)):
        return False
    given = [call[key[2]] for call in analysis.callers(function) if key[2] in call]
    return bool(given) and all(one.is_proven and one.place.on_host for one in given)


def is_reached(flow: Flow, node: ast.AST | None) -> bool:
    """May a program of the project get to a node with anything that was moved, as far as its files tell?"""
    if flow.project.sets_default():
        return False
    top, text = _top(flow.source, node)
    is_class = any(one.name == top for one in flow.source.of_kind(ast.ClassDef))
    if is_script(flow.source.text) or not flow.project.is_in_view():
        text = flow.source.text  # what it says may be for all of its functions
    if _SIGN.search(text) or (top and not is_class and flow.project.used(top) is False):
        return True  # nobody knows the programs of what nothing here uses
    moved = flow.project.runs_moved(top)
    return (flow.project.chooses() if moved is None else moved) is not False


def is_left_alone(flow: Flow, node: ast.AST | None) -> bool:
    """Do programs in view get to a node, and none with anything on an accelerator?"""
    if flow.project.sets_default() or not flow.project.is_run(_top(flow.source, node)[0]):
        return False
    return flow.project.moves() is False or flow.project.moves_nothing()


def _top(source: Source, node: ast.AST | None) -> tuple[str, str]:
    """The name and the code of the outermost function or class around a node; of the file, which has none."""
    top, text = "", source.text
    while node is not None and not isinstance(node, ast.Module):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            top, text = node.name, source.code(node)
        node = source.parents.get(node)
    return top, text


def _is_run(mismatch: Mismatch, function: Function, analysis: Analysis) -> bool:
    """Is the other value one that a module has, or is given, while it runs?"""
    running = [one for one, _ in mismatch.scopes if one is not None]
    outermost = running[-1] if running else function
    owner = outermost.owner
    if owner is None or (mismatch.anchor_node is not None and is_count(mismatch.anchor_node)):
        return False
    if analysis.is_autograd(outermost):
        return True
    if not analysis.classes.is_module(owner) or outermost.name in analysis.classes.builders(owner):
        return False
    if outermost.name in _run_by_forward(owner.methods):
        return True
    own = mismatch.anchor.kind == MODULE or mismatch.anchor.role == "parameter"
    return own and outermost is function


def _run_by_forward(methods: dict[str, Function]) -> set[str]:
    """`forward` and its like, the methods that they call, and those that these call."""
    found: set[str] = set()
    todo = list(filter(is_forward_name, methods))
    while todo:
        name = todo.pop()
        if name in methods and name not in found:
            found.add(name)
            todo += methods[name].called
    return found


def is_asked(mismatch: Mismatch, function: Function) -> bool:
    """Does the function ask where that very tensor is, or move to where it is?"""
    asked = _asked(function.file.source, function.node)
    key = mismatch.anchor_place.key
    if isinstance(key, tuple) and key[0] == "parameter" and key[2] in asked:
        return True
    terms = next((terms for one, terms in mismatch.scopes if one is function), ())
    return any(term.place == mismatch.anchor_place and term.text in asked for term in terms)


@remembered
def _asked(source: Source, function: ast.AST) -> set[str]:
    return {root_name(node) for one in source.walk(function) for node in _asked_at(one)}


def _asked_at(node: ast.AST) -> Iterator[ast.AST]:
    """What is asked where it is, or moved: `x.device`, `y.type_as(x)`, `x.to(device)`."""
    if isinstance(node, ast.Attribute) and node.attr in _ASKS:
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("type_as", "to"):
            yield from (one for one in node.args if not isinstance(one, ast.Constant))
            if any("device" in ast.unparse(one) for one in (*node.args, *node.keywords)):
                yield node.func.value


def _is_of_host(source: Source, function: Function) -> bool:
    """Does all that a file, or a function, does happen on the CPU: tests, exports, arrays?"""
    if trains_on_cpu(source) or _TESTS.search(source.text) is not None:
        return True
    node = function.owner.node if function.owner is not None else function.node
    return _is_lazy(source, node) or _reads_arrays(source, function.node)


@remembered
def _is_lazy(source: Source, node: ast.AST) -> bool:
    return _LAZY.search(source.code(node)) is not None


@remembered
def _reads_arrays(source: Source, function: ast.AST) -> bool:
    """Does a function read tensors as arrays without copying them from anywhere? Then it works on the CPU only."""
    for node in source.of_kind(ast.Attribute, function):
        if node.attr == "numpy" and isinstance(node.value, ast.Call):
            if not re.search(r"\.(?:cpu|to)\(", source.code(node.value)):
                return True
    return False


def _is_exported(source: Source, node: ast.AST) -> bool:
    """Does a node run only while a model is exported, which is done on the CPU?"""
    return any(
        isinstance(up, (ast.If, ast.IfExp)) and _EXPORTING.search(source.code(up.test))
        for up in source.ancestors(node)
    )


def _is_one_number(source: Source, made: ast.Call, met: ast.AST) -> bool:
    """May what is made be a number at last, which meets anything: of one element, and squeezed or added in place?"""
    if [ast.unparse(one) for one in made.args] not in (["1"], ["(1,)"], ["[1]"]):
        return False
    around = source.enclosing(made, *FUNCTIONS)
    chosen = isinstance(source.parents.get(made), ast.IfExp) and isinstance(
        source.statement(met), ast.AugAssign
    )
    return chosen or (around is not None and ".squeeze(" in source.code(around))


def _is_switched_off(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Does it happen only under an option that is off, and that no call of the file sets?"""
    for condition, holds in mismatch.path:
        key = condition[1] if isinstance(condition, tuple) and condition[0] == "none" else condition
        if not isinstance(key, tuple) or key[0] != "parameter":
            continue
        function = next(
            (one for one, _ in mismatch.scopes if one is not None and id(one.node) == key[1]), None
        )
        if function is None or function.name.startswith(("forward", "__")):
            continue
        default = function.defaults.get(key[2])
        if not isinstance(default, ast.Constant) or analysis.calls.get((key[1], key[2])):
            continue
        chosen = default.value is None if key is not condition else bool(default.value)
        if chosen is not holds:
            return True
    return False
