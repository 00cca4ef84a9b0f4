"""What the programs that run a file show of CUDA by name in it: is it right as it is, and does a fix cure anything?"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property

from devfix.checkers.literal_guards import Told, guard_of
from devfix.engine.analysis import Analysis
from devfix.engine.files import Class, Function
from devfix.engine.named import Named
from devfix.engine.steps import Steps
from devfix.engine.values import MODULE
from devfix.findings import Edit, Elsewhere, Safety, Span
from devfix.flow import Flow
from devfix.models.frameworks import HOST_BASES
from devfix.project.marks import CHOOSES, OTHER, marks_in
from devfix.text.bindings import function_around
from devfix.text.placing import around
from devfix.text.source import FUNCTIONS, FunctionNode, Source

Scope = FunctionNode | ast.Module
_FORKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
# Code that tells devices apart somewhere: then a name next to it is an oversight.
_AGNOSTIC = re.compile(
    r"\.device\b(?!\()|\bis_available\(|\.is_cuda\b|\.type_as\("
    r"|\[[\"']device[\"']\]|\bdevice\s*=\s*(?!=|[\"'\s]|f[\"']cuda:|torch\.device\(\s*f?[\"']cuda[^\"']*[\"']\s*[,)])"
)
_OF_SCRIPTS = ("__main__", "argparse", "import fire", "import click", "hydra", "gradio", "streamlit")
_SCRIPT = re.compile(rf"\b(?:{'|'.join(_OF_SCRIPTS)})\b")
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
    - `scoped`: the function itself knows a device that is chosen.
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
    scoped: bool = False
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


def is_script(text: str) -> bool:
    """Is a file a program rather than a library, by its words? To look for them alone is much faster."""
    return any(word in text for word in _OF_SCRIPTS) and _SCRIPT.search(text) is not None


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
    every = [one for one in (node, *source.ancestors(node)) if isinstance(one, (*FUNCTIONS, ast.ClassDef))]
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
        return not placed and not (_NUMBERED.search(text) and is_script(text))

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
        project = self.flow.project
        known = project.runs_chosen(top, itself=self._chooses_place)
        if known is None:
            return not (is_script(self.source.text) or project.all_on_cuda() or project.is_unreached(top))
        return known

    @cached_property
    def _chooses_place(self) -> bool:
        """Does the file put anything on CUDA under a condition, tell devices apart, or leave modules where they are?

        To say only where checkpoints are loaded to leaves no way around CUDA.
        """
        every = self.analysis.named.calls.values()
        asked = any(guard_of(self.source, one.node).told is not Told.NOTHING for one in every)
        return asked or self.is_agnostic or not any(map(self._moves_module, every))

    def is_on_cuda(self, function: Scope) -> bool:
        """Do all programs that get to a function go to CUDA in any case, here or elsewhere, or do none get to it?

        What they do in another place says nothing of a file that tells devices apart, or calls the function itself.
        """
        project, top = self.flow.project, top_of(self.source, function)
        if project.needs_cuda() is True or project.runs_on_cuda(top) is True:
            return True
        if project.runs_elsewhere(top):
            return False
        chosen = project.runs_chosen(top)
        if chosen is None:
            return project.all_on_cuda() is True or project.is_unreached(top)
        if self.is_agnostic or (self.source.calls_by_name.get(top) and not self._goes_itself(function)):
            return False
        return chosen is False and project.runs_without_cuda(top, itself=True) is False

    def needs_cuda(self, node: ast.AST, *, in_view: bool = False) -> bool:
        """Do the programs that get to a function need CUDA all the same, so that no fix there helps any?

        So it is in view; or, unless that has to be, several files use torch, and none of them shows a choice.
        """
        project, top = self.flow.project, top_of(self.source, node)
        settled = not in_view and bool(top) and project.chooses() is False and project.is_one_of_several()
        if not (settled or project.is_in_view()) or (
            project.runs_chosen(top) is None and project.loads_by_name()
        ):
            return False
        return project.runs_without_cuda(top, itself=True) is False

    def _goes_itself(self, function: Scope) -> bool:
        """Does a file without any choice go to CUDA in another function, too?"""
        return self._marks.isdisjoint((CHOOSES, OTHER)) and any(one is not function for one in self._bound)

    @cached_property
    def _sending(self) -> set[ast.AST | None]:
        """The functions that give something to the other processes, whose usual backend works on CUDA only."""
        steps = [one for one in Steps(self.analysis).every("collective") if one.file is self.analysis.file]
        return {function_around(self.source, one.at) for one in steps if one.at is not None}

    def is_sent(self, node: ast.AST) -> bool:
        """Is a place in a function that gives something to the other processes?"""
        function = function_around(self.source, node)
        return function is not None and function in self._sending

    def has_one_gpu(self, function: Scope) -> bool:
        """Do the programs that get to a function use no GPU but the current one?"""
        project, top = self.flow.project, top_of(self.source, function)
        in_view = project.runs_moved(top) is not None and project.is_in_view()
        return in_view and project.other_gpu() is False and not project.runs_elsewhere(top)

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
            isinstance(one, (*FUNCTIONS, ast.ClassDef)) and self.flow.project.used(one.name) is False
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
        if any(self._comes_with(site, verdict) for site in self._bound.get(function, ())):
            return True
        calls = self.source.calls_by_name.get(function.name, ())
        callers = {function_around(self.source, node) for node in calls}
        return bool(callers) and all(caller in self._bound for caller in callers)

    def _comes_with(self, site: ast.expr, verdict: Verdict) -> bool:
        """Does a function get to a place whenever it gets to those of a verdict?"""
        here = {one for known in verdict.sites for one in around(self.source, known)}
        return all(one in here or not isinstance(one, _FORKS) for one in around(self.source, site)[1:])

    def is_behind(self, verdict: Verdict, function: Scope, unsaid: Iterable[ast.expr]) -> bool:
        """Has the function gone to CUDA above, in a place of which nothing is said? Without CUDA it ends there."""
        start = verdict.span.start
        above = [one for one in unsaid if self.source.span(one).start < start]
        return not self.flow.project.runs_elsewhere(top_of(self.source, function)) and any(
            function_around(self.source, one) is function and self._comes_with(one, verdict) for one in above
        )

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


def is_right(flow: Flow, span: Span, function: Scope) -> bool:
    """Is what is on CUDA by name right as it is, since every run of the function is on the current GPU?"""
    program = Program(flow)
    if program.is_on_cuda(function) or program.needs_cuda(function):
        return True
    sites = [one.node for one in program.analysis.named.calls.values() if flow.source.span(one.node) == span]
    told = any(guard_of(flow.source, one).told in (Told.CHOSEN, Told.SAME) for one in sites)
    return told and program.has_one_gpu(function)
