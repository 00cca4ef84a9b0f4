"""What the programs that run a file show of CUDA by name in it: is it right as it is, and does a fix cure anything?"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property

from devfix.checkers.literal_guards import Told, guard_of, is_for_cuda
from devfix.engine.analysis import Analysis
from devfix.engine.files import Class, File, Function
from devfix.engine.named import Named
from devfix.engine.values import MODULE
from devfix.findings import Edit, Elsewhere, ReplaceExpression, Safety, Span
from devfix.flow import Flow
from devfix.models.frameworks import HOST_BASES
from devfix.project.marks import CHOOSES, OTHER, marks_in
from devfix.text.bindings import FunctionNode, function_around
from devfix.text.names import path_of
from devfix.text.placing import around
from devfix.text.source import Source

Scope = FunctionNode | ast.Module
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FORKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
# Code that tells devices apart somewhere: then a name next to it is an oversight.
_AGNOSTIC = re.compile(
    r"\.device\b(?!\()|\bis_available\(|\.is_cuda\b|\.type_as\("
    r"|\[[\"']device[\"']\]|\bdevice\s*=\s*(?!=|[\"'\s]|f[\"']cuda:|torch\.device\(\s*f?[\"']cuda[^\"']*[\"']\s*[,)])"
)
# A program rather than a library.
SCRIPT = re.compile(r"__main__|\bargparse\b|\bimport (?:fire|click)\b|\b(?:hydra|gradio|streamlit)\b")
# GPUs by number, and processes with one each: the program has decided where things are.
_NUMBERED = re.compile(
    r"""torch\.device\(\s*f?["']cuda(?!["'][^)\n]{0,300}\bif\b)|\.cuda\(\s*(?!non_blocking)[\w.]|f["']cuda:|\bdeepspeed\b"""
)
# What goes, or may go, to another GPU than the current one; and what puts its parts on GPUs by number.
_OTHER_GPU = re.compile(
    r"[\"']cuda:(?!0)|\.cuda\([^)]|--device\b|\b(?:args|opts?)\.device\b|local_rank|set_device|device_ids|gpu_id"
)
_SECOND = re.compile(r"""\.cuda\(\s*(?:device\s*=\s*)?[1-9]\d*\s*\)|["']cuda:[1-9]""")
# Tests and kernels; and `from . import nms_cuda`, a compiled extension.
_ONE_WORLD = re.compile(
    r"^(?:pytest|unittest|absl\.testing|hypothesis|parameterized|triton|numba|cupy|pycuda|tensorrt|"
    r"torch\.utils\.cpp_extension)(?:\.|$)|test(?:ing)?_utils"
)
_EXTENSION = re.compile(r"\w_cuda$|(?:^|\.)cuda_\w+$|_cuda_ext$", re.IGNORECASE)
_OWN_WORD = re.compile(r"cuda|gpu|triton|kernel|bench|profile|^test", re.IGNORECASE)
# Used in code that runs on CUDA only, and what of it raises without.
_CUDA_ONLY = re.compile(
    r"\bcuda\.(?:synchronize|Event|Stream|CUDAGraph|graph|current_stream|stream|max_memory\w*|memory_\w+|"
    r"reset_\w+|nvtx|set_device|current_device|Generator|device)\b"
)
_RAISING = frozenset(
    f"torch.cuda.{name}"
    for name in (
        "current_device",
        "get_device_name",
        "get_device_properties",
        "set_device",
        "synchronize",
        "Stream",
    )
)
# A compiled extension as PyTorch had them before 1.0, when tensors had no `device`.
_OLD = re.compile(r"\btorch\.utils\.ffi\b|^[^\S\n]*(?:from|import)\s+[\w.]*\b_ext\b", re.MULTILINE)
_ACCELERATOR = re.compile(r"cuda(?::(?P<number>\d+))?$|(?P<mps>mps)(?::0)?$")
_CURRENT = "torch.cuda.current_device"
_MANY = 5  # places that name CUDA, in a file that asks for no device anywhere
_ALONE = "goes to the current GPU, wherever the caller's tensors are, and raises without CUDA; no other device is known"


class Cure(Flag):
    """Which runs a fix is for: those without CUDA, and those of values on another GPU than the current one."""

    ABSENT = auto()
    OTHER = auto()


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is said of a place that names CUDA, and the edits that mend it, if any.

    - `code` is the place as it stands, `why` goes on from it: "`code` goes to CUDA, but ...".
    - `device` is the expression that belongs there, empty where the fix has another form.
    - `elsewhere` is what the fix does in other files.
    - `told`: a condition, or a move that follows at once, says where it goes.
    - `cure` counts for what is safe: a safe fix has to cure something.
    - `sites` are the places without a condition that it mends, or under that of there being CUDA.
    - `node` is the other side: what the value meets, or where the device comes from.
    - `assumes` is what the fix assumes if it is unsafe, unless that follows from the device.
    """

    span: Span
    code: str
    device: str
    why: str
    edits: tuple[Edit, ...]
    safety: Safety
    node: ast.AST | None = None
    title: str = ""
    elsewhere: tuple[Elsewhere, ...] = ()
    told: bool = False
    cure: Cure = Cure.ABSENT
    assumes: str = ""
    sites: tuple[ast.expr, ...] = ()


# --- which places count ------------------------------------------------------------------------


def grouped(analysis: Analysis) -> dict[Scope, list[Named]] | None:
    """The places by function, but those of benchmarks and data loading; None for tests and kernels."""
    source = analysis.file.source
    modules = list(source.imports.values())
    if any(
        _ONE_WORLD.search(one) or (_EXTENSION.search(one) and not one.startswith("torch.")) for one in modules
    ):
        return None
    found: dict[Scope, list[Named]] = {}
    for one in analysis.named.calls.values():
        if one.is_run or one.form == "options" or _is_batched(analysis, one):
            found.setdefault(function_around(source, one.node) or source.tree, []).append(one)
    for function in [one for one in found if _is_for_cuda(source, one)]:
        del found[function]
    return {function: sorted(every, key=position) for function, every in found.items()}


def _is_batched(analysis: Analysis, one: Named) -> bool:
    """Does what has a length and items, but is no data set of a loader, put something on CUDA itself?"""
    owner = analysis.file.of_node.get(analysis.file.source.enclosing(one.node, ast.ClassDef) or one.node)
    if not isinstance(owner, Class) or analysis.class_kind(owner) != "host":
        return False
    return not any(base.rpartition(".")[2].endswith(HOST_BASES) for base in owner.outside)


def position(one: Named) -> tuple[int, int]:
    return one.node.lineno, one.node.col_offset


def _is_for_cuda(source: Source, function: Scope) -> bool:
    """Does a function exist for CUDA alone, by its name, by what it calls, or by its use of several GPUs?"""
    if isinstance(function, ast.Module):
        return False
    owner = source.enclosing(function, ast.ClassDef)
    names = [function.name, owner.name if isinstance(owner, ast.ClassDef) else ""]
    code = source.code(function)
    whole = source.code(owner) if owner is not None else code
    return any(map(_OWN_WORD.search, names)) or bool(_SECOND.search(whole) or _CUDA_ONLY.search(code))


def top_of(source: Source, node: ast.AST) -> str:
    """The name of the function or class at the top of the file that a node is a part of; empty for none."""
    every = [one for one in (node, *source.ancestors(node)) if isinstance(one, (*_FUNCTIONS, ast.ClassDef))]
    return every[-1].name if every else ""


class Program:
    """One file, and what its project shows of it; `mended` are the places that safe fixes mend."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.analysis = flow.facts()
        self.mended: Collection[ast.expr] = ()
        self.is_agnostic = bool(_AGNOSTIC.search(flow.source.text))

    @cached_property
    def is_open(self) -> bool:
        """Does nothing in the file say that modules are on CUDA, or does it leave it to others where they are?"""
        text = self.source.text
        placed = any(map(self._moves_module, self.analysis.named.calls.values()))
        return not placed and not (_NUMBERED.search(text) and SCRIPT.search(text))

    @cached_property
    def is_given(self) -> bool:
        """Has nothing in the file decided where anything is?"""
        placed = any(map(self._moves_module, self.analysis.named.calls.values()))
        return not placed and not _NUMBERED.search(self.source.text)

    def _moves_module(self, one: Named) -> bool:
        if one.receiver is None:
            return False
        return (
            isinstance(self.source.parents[one.node], ast.Expr)
            or one.value.kind == MODULE
            or one.value.role == "instance"
        )

    def is_run(self, function: Scope) -> bool:
        """Is a function a method of a class that is run, on what its user has put anywhere?"""
        made = self.analysis.file.of_node.get(function)
        owner = made.owner if isinstance(made, Function) else None
        return isinstance(owner, Class) and (
            "forward" in owner.methods or self.analysis.classes.is_module(owner)
        )

    def is_current_only(self, function: Scope) -> bool:
        """Is it a helper of a script that goes to the current GPU throughout? What it is given is there, too."""
        if isinstance(self.source.enclosing(function, ast.ClassDef), ast.ClassDef):
            return False
        return "__main__" in self.source.text and not _OTHER_GPU.search(self.source.text)

    def may_lack_cuda(self, node: ast.AST) -> bool:
        """May a function be called where there is no CUDA, by a program that chooses, or by one out of view?

        A file of which no program in view is known is taken for a library, unless it reads a command line itself.
        """
        top = top_of(self.source, node)
        if not top or self.flow.project.needs_cuda() is True:
            return False
        known = self.flow.project.runs_chosen(top)
        return not SCRIPT.search(self.source.text) if known is None else known

    def is_on_cuda(self, function: Scope) -> bool:
        """Do all programs that get to a function go to CUDA in any case, themselves or in another place?

        What they do in another place says nothing of a file that tells devices apart, or calls the function itself.
        """
        project, top = self.flow.project, top_of(self.source, function)
        if project.needs_cuda() is True or project.runs_on_cuda(top) is True:
            return True
        if self.is_agnostic or self.source.calls_by_name.get(top) or project.other_gpu():
            return False
        return project.runs_chosen(top) is False and project.runs_without_cuda(top, itself=True) is False

    # --- is a fix worth anything -----------------------------------------------------------

    def is_worth(self, verdict: Verdict, function: Scope) -> bool:
        """Is there a run that fails as the code stands and goes with the fix, as far as the project shows?"""
        if _OLD.search(self.source.text):
            return False
        # What asks for the other files of the project comes last.
        return (
            (Cure.OTHER in verdict.cure and self._runs_elsewhere(function))
            or (Cure.ABSENT in verdict.cure and self._runs_without(verdict, function))
        ) and not self._is_unused(function)

    def _is_unused(self, function: Scope) -> bool:
        """Is a function named nowhere but where it is defined, or one around it, or its class?"""
        every = (function, *self.source.ancestors(function))
        return any(
            isinstance(one, (*_FUNCTIONS, ast.ClassDef)) and self.flow.project.used(one.name) is False
            for one in every
        )

    @cached_property
    def _marks(self) -> set[str]:
        """What the file shows by itself."""
        return marks_in(self.source.text.encode("utf-8", "replace"), ())

    def _runs_elsewhere(self, function: Scope) -> bool:
        """May values be on another GPU than the current one? Not if other tensors of the file go to the current one."""
        for one in self.analysis.named.calls.values():
            if one.node not in self.mended and guard_of(self.source, one.node).told is not Told.SAME:
                return False
        made = self.analysis.file.of_node.get(function)
        if isinstance(made, Function) and made.owner is not None and made.name in ("backward", "vjp"):
            if any(base.endswith("autograd.Function") for base in made.owner.outside):
                return False  # autograd makes the gradient's GPU the current one for it
        known = self.flow.project.runs_elsewhere(top_of(self.source, function))
        return OTHER in self._marks if known is None else known

    def _runs_without(self, verdict: Verdict, function: Scope) -> bool:
        """Does the project run without CUDA, and this function with it?"""
        if self._needs_it(verdict, function):
            return False
        # A program that goes to CUDA in another place needs it all the same.
        known = self.flow.project.runs_without_cuda(top_of(self.source, function), itself=not self._bound)
        shown = CHOOSES in self._marks if known is None else known
        return shown and self.flow.project.needs_cuda() is not True

    def _needs_it(self, verdict: Verdict, function: Scope) -> bool:
        """Do all functions of the file that call a function go to CUDA whatever happens, or itself does?"""
        if isinstance(function, ast.Module):
            return False
        owner = self.source.enclosing(function, ast.ClassDef)
        inside = list(self.source.walk(owner)) if owner is not None else [function]
        if any(one is not function and one in self._bound for one in inside):
            return True
        here = {one for site in verdict.sites for one in around(self.source, site)}
        for site in self._bound.get(
            function, ()
        ):  # another place that it gets to whenever it gets to this one
            if all(one in here or not isinstance(one, _FORKS) for one in around(self.source, site)[1:]):
                return True
        calls = self.source.calls_by_name.get(function.name, ())
        callers = {function_around(self.source, node) for node in calls}
        return bool(callers) and all(caller in self._bound for caller in callers)

    @cached_property
    def _bound(self) -> dict[ast.AST | None, list[ast.expr]]:
        """The functions that go to CUDA under no condition of theirs, and where; None is the module."""
        found: dict[ast.AST | None, list[ast.expr]] = {}
        for node in (*self.analysis.named.calls, *filter(self.raises, self.source.of_kind(ast.Call))):
            assert isinstance(node, ast.expr)
            if node not in self.mended and guard_of(self.source, node).told is Told.NOTHING:
                found.setdefault(function_around(self.source, node), []).append(node)
        return found

    def raises(self, node: ast.Call) -> bool:
        """`x.cuda(gpu)`, and calls that raise where there is no CUDA."""
        name = self.source.qualified(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and not name:
            return bool(node.args or node.keywords)
        return name in _RAISING


def unplaced(program: Program, left: list[Named]) -> Iterator[Verdict]:
    """Places that no device is known for (`left`, and the current GPU's number), where there may be no CUDA."""
    source = program.source
    yield from _only_choice(program, left)
    if len(left) >= _MANY and not program.is_agnostic:
        return  # the file is written for CUDA
    asked = [node for node in source.of_kind(ast.Call) if source.qualified(node.func) == _CURRENT]
    for place in (*(one.node for one in left), *(node for node in asked if not _is_chosen(source, node))):
        if program.may_lack_cuda(place):
            yield Verdict(source.span(place), source.code(place), "", _ALONE, (), Safety.MANUAL)


def _is_chosen(source: Source, node: ast.Call) -> bool:
    """Is it asked for on some ways through its function only, such as where there is CUDA; or for CUDA alone?"""
    for up in source.ancestors(node):
        if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
        if isinstance(up, (ast.If, ast.IfExp, ast.BoolOp, ast.Try)):
            return True
    return is_for_cuda(source, node) or guard_of(source, node).told is not Told.NOTHING


def _only_choice(program: Program, left: list[Named]) -> Iterator[Verdict]:
    """`device = "cuda"` in a script that asks for no accelerator elsewhere: one word keeps it from running without."""
    source, file = program.source, program.analysis.file
    if left or not SCRIPT.search(source.text) or program.flow.project.needs_cuda() is True:
        return
    places = [one for one in _devices_given(file) if one not in program.analysis.named.calls]
    if len(places) != 1 or guard_of(source, places[0]).told is not Told.NOTHING:
        return
    (node,) = places
    if any(program.raises(one) and one is not node for one in source.of_kind(ast.Call)):
        return
    inner = node.args[0] if isinstance(node, ast.Call) and node.args else node
    asked = _ACCELERATOR.match(_device_text(file, node))
    name, test = ("MPS", "torch.backends.mps.is_available()") if asked and asked["mps"] else ("CUDA", "")
    number = int(asked["number"] or 0) if asked else 0
    test = test or (f"torch.cuda.device_count() > {number}" if number else "torch.cuda.is_available()")
    there = f"{number + 1} GPUs" if number else name
    edits = (ReplaceExpression(source.span(inner), f'{source.code(inner)} if {test} else "cpu"'),)
    why = f"is the only place of this script that asks for {name}, and raises without {there if number else 'it'}"
    title = f"use {name} only if it is available"
    yield Verdict(
        source.span(node),
        source.code(node),
        "",
        why,
        edits if source.imports.get("torch") == "torch" else (),
        Safety.UNSAFE,
        title=title,
        assumes=f"the program should run without {there}, too",
    )


def _devices_given(file: File) -> Iterator[ast.expr]:
    """`device = "cuda"`, `load(path, device="cuda")`, and the number of the current GPU under a name.

    No default of a command line.
    """
    for node in file.source.of_kind(ast.Assign):
        if len(node.targets) == 1 and path_of(node.targets[0]).lower().endswith("device"):
            if _ACCELERATOR.match(_device_text(file, node.value)):
                yield node.value
    for call in file.source.of_kind(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "set_defaults"):
            continue
        for one in call.keywords:
            if one.arg == "device" and _ACCELERATOR.match(_device_text(file, one.value)):
                yield one.value
        if file.source.qualified(call.func) == _CURRENT and isinstance(file.source.parents[call], ast.Assign):
            yield call


def _device_text(file: File, node: ast.expr) -> str:
    """The text of a device that is written as one, or as the number of a GPU in `torch.device(0)`."""
    if (
        isinstance(node, ast.Call)
        and file.source.qualified(node.func) == "torch.device"
        and len(node.args) == 1
    ):
        inner = node.args[0]
        if isinstance(inner, ast.Constant) and type(inner.value) is int and not node.keywords:
            return f"cuda:{inner.value}"
        return "" if node.keywords else _device_text(file, inner)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
