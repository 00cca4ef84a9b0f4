"""Inputs that meet a module, or what it has made, on a device: loaded or made on the CPU, and handed on as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.certainty import is_main_input, is_proven, why_silent
from devfix.checkers.earlier import fails_before
from devfix.checkers.mismatches import codemod_of
from devfix.checkers.signs import quoted, repeats
from devfix.checkers.wording import assumptions, shown, target_of, use_of
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class
from devfix.engine.values import DROP, LOAD, MAKE, MODULE, PASS, TENSOR
from devfix.findings import Edit, Finding, Related, Span, told
from devfix.models import frameworks
from devfix.models.loader import models
from devfix.repair.candidates import at_its_making, made_at, written
from devfix.repair.inputs import Input, Mover, base_of
from devfix.text.names import binding_of, parameter, stores
from devfix.text.placing import dotted
from devfix.text.source import FUNCTIONS, Source

CODEMOD = "move-inputs"


@dataclass(frozen=True)
class Group:
    """Inputs that one fix moves: those that one statement binds."""

    scope: ast.AST
    inputs: list[Input]


def groups(analysis: Analysis) -> list[Group]:
    """All inputs that stray, each value once, in the order of the text."""
    source = analysis.file.source
    groups: dict[object, Group] = {}
    seen: dict[object, Input] = {}
    found: list[tuple[Mismatch, ast.expr, str]] = []
    for mismatch in analysis.mismatches:
        if codemod_of(mismatch, analysis) != CODEMOD or why_silent(mismatch, analysis):
            continue
        at = _handed(mismatch, analysis)
        if mismatch.stray_node is mismatch.anchor_node and not at_its_making(mismatch, analysis)[1]:
            continue  # both are in what stands there, and cannot be told apart
        if (
            at is not None
            and not _is_placed(mismatch, at[0], analysis)
            and not _is_told(mismatch, at[0], analysis)
        ):
            found.append((mismatch, *at))
    found.sort(key=lambda one: (len(one[0].assumed), source.span(one[1]).start))
    for mismatch, node, device in found:
        scope = source.scope(node)
        base = base_of(node)
        binding = binding_of(source, scope, base) if base is not None else None
        whole = isinstance(node, ast.Name)
        of = (binding.target if binding is not None else (scope, base.id)) if base is not None else node
        key = of, "" if whole else ast.unparse(node)
        loaded = mismatch.stray.links[0].kind == LOAD and binding is not None and binding.form == "single"
        if loaded and key not in seen and (of, "") in seen:
            continue  # a part of what is moved as a whole
        if key in seen:
            known = seen[key]
            certain = known.mismatch.assumed or not mismatch.assumed  # as the first use is
            if certain and node not in _uses(known):
                known.also.append(Input(mismatch, node, device, known.binding))
            continue
        if binding is not None and binding.form == "single" and binding.value is not None:
            made, bound = mismatch.stray.links[0], stores(source, scope, binding.name)
            added = (
                not whole and made.kind == MAKE and mismatch.stray.kind == TENSOR
            )  # put into it later, perhaps
            bound_twice = len(bound) > 1 or parameter(source, scope, binding.name) is not None
            if (bound_twice or added) and not any(one is made.node for one in ast.walk(binding.value)):
                binding = None  # or what another round of a loop has left
        one = Input(mismatch, node, device, binding)
        seen[(of, "") if loaded and mismatch.stray.links[0].name == "data set" else key] = one
        together = binding is not None and binding.form in ("loop", "unpack") and device
        held = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        by: object = (binding.statement, device) if together and binding and (whole or held) else one
        groups.setdefault(by, Group(scope, [])).inputs.append(one)
    for group in groups.values():
        group.inputs.sort(key=lambda one: source.span(one.binding.target if one.binding else one.node).start)
    return sorted(groups.values(), key=lambda one: source.span(one.inputs[0].node).start)


def _uses(one: Input) -> list[ast.expr]:
    return [one.node, *(other.node for other in one.also)]


def findings(analysis: Analysis, *, non_blocking: bool = False) -> Iterator[Finding]:
    """One finding for each group; one where several would be mended by one edit."""
    made = set[tuple[Edit, ...]]()
    for group in groups(analysis):
        mover = Mover(analysis, group.scope, ", non_blocking=True" if non_blocking else "")
        finding = _finding(mover, group.inputs, analysis)
        edits = finding.fix.edits if finding.fix is not None else ()
        if any(repeats(edit, analysis.file.source) for edit in edits):
            continue  # two uses of one device are in one place
        if not edits or edits not in made:
            yield finding
        made.add(edits)


def _handed(mismatch: Mismatch, analysis: Analysis) -> tuple[ast.expr, str] | None:
    """The expression in the file that is to be moved, and the device as it is written there, if it can be."""
    nodes = [one.node for one in mismatch.stray.links if one.kind == PASS and one.file is analysis.file]
    if mismatch.file is analysis.file and mismatch.stray_node is not None:
        nodes.append(mismatch.stray_node)
    elif not nodes and mismatch.stray.links[0].file is analysis.file:
        nodes.append(mismatch.stray.links[0].node)  # as part of something that is handed on
    handed = [one for one in nodes if isinstance(one, ast.expr) and hasattr(one, "lineno")]
    for node in handed:
        device = written(mismatch, analysis, node)
        if device and not isinstance(node, ast.Starred):
            return node, device
    return (handed[0], "") if handed else None


def _is_placed(mismatch: Mismatch, node: ast.expr, analysis: Analysis) -> bool:
    """Does a framework place what the function gets, or has a move been lost, of which another finding tells?"""
    source = analysis.file.source
    owner = analysis.file.of_node.get(source.enclosing(node, ast.ClassDef) or node)
    owned = isinstance(owner, Class) and analysis.class_kind(owner) == "owned"
    if owned and isinstance(owner, Class) and analysis.classes.is_module(owner):
        # A module gets its steps' batches from the framework; what it reads or makes itself, nobody places.
        within = source.enclosing(node, *FUNCTIONS)
        owned = within is None or frameworks.runs_before_placement(getattr(within, "name", ""))
    return owned or any(one.kind == DROP for one in mismatch.stray.links)


def _is_told(mismatch: Mismatch, node: ast.expr, analysis: Analysis) -> bool:
    """Does the call that gets it, and in which it meets the others, also get a device, for it to go there?"""
    source, parents = analysis.file.source, analysis.file.source.parents
    passed = [one.node for one in mismatch.stray.links if one.kind == PASS and one.node in parents]
    node = passed[-1] if passed and isinstance(passed[-1], ast.expr) else node
    call = parents.get(node)
    call = parents.get(call) if isinstance(call, ast.keyword) else call
    here = mismatch.function.node if mismatch.function is not None else None
    if mismatch.node is not call and source.enclosing(node, *FUNCTIONS) is here:
        return False  # it came back as it was
    given = [*call.args, *(one.value for one in call.keywords)] if isinstance(call, ast.Call) else []
    return any(analysis.is_device_name(dotted(one).rpartition(".")[2]) for one in given if one is not node)


def _finding(mover: Mover, inputs: list[Input], analysis: Analysis) -> Finding:
    source, first = analysis.file.source, inputs[0]
    edits, span, sure = mover.plan(inputs)
    device = first.device
    far = _is_far(first, source)
    if len(inputs) == 1 and not mover.is_taken_apart(first) and (far or not edits):
        there, instead = at_its_making(first.mismatch, analysis)
        if instead:
            device, edits, span = there, instead, source.span(made_at(first.mismatch).node)
    seen = first.is_passed or first.mismatch.file is analysis.file  # how it gets there
    proven = sure and seen and all(is_proven(one.mismatch, analysis, device) for one in inputs)
    before = fails_before(first.mismatch, analysis) if proven else ""
    made = made_at(first.mismatch)
    here = made.file is analysis.file and span == source.span(made.node) and first.binding is None
    texts = list(dict.fromkeys(quoted(source, made.node if here else one.node) for one in inputs))
    subject = " and ".join(texts[:3])
    named = " and ".join([shown(source, made.node if here else first.node)] if len(texts) == 1 else texts[:3])
    be = "is" if len(texts) == 1 else "are"
    origin = "" if here else _origin(first, analysis)
    use = use_of(first.mismatch, analysis, named, it=texts[0] if len(texts) > 1 else "it")
    message = f"{named}{origin} {be} on the CPU; {use}"
    unless = "" if proven and not before else assumptions(first.mismatch, before or _unproven(first))
    passed = first.is_passed and first.mismatch.file is analysis.file
    related = [Related(source.span(first.node), "it is passed here" if passed else "it is used here")]
    if passed:
        related.append(Related(source.span(first.mismatch.node), "it is used here"))
    if first.made.file is analysis.file and isinstance(first.made.node, ast.Call):
        related.append(Related(source.span(first.made.node), "it is made here"))
    related = [*_placed(first.mismatch, analysis), *related]
    return told(CODEMOD, span, message, f"move {subject} to `{device}`", edits, tuple(related), unless)


def _is_far(one: Input, source: Source) -> bool:
    """Is it made elsewhere, and neither made from that here, nor one of those that were loaded?"""
    made, node = one.made.node, one.node
    if one.binding is not None or (one.is_element and one.made.kind == LOAD):
        return False
    if isinstance(node, ast.Call):
        return source.enclosing(node, *FUNCTIONS) is not source.enclosing(made, *FUNCTIONS)
    return not any(part is made for part in ast.walk(node))


def _origin(one: Input, analysis: Analysis) -> str:
    """Where it comes from, unless that is what the code says."""
    if one.made.kind == LOAD and one.made.name == "loader":
        return " (a batch from a DataLoader)"
    if one.made.file is not analysis.file or not isinstance(one.made.node, ast.Call):
        return ""
    if any(part is one.made.node for part in ast.walk(one.node)):
        return ""
    return f" (made by {quoted(analysis.file.source, one.made.node.func)})"


def _unproven(one: Input) -> str:
    """What an unsafe fix assumes where the engine has assumed nothing; empty if that is the same for all codemods."""
    if one.is_whole:
        return "the batch is a tensor, or tensors in a list or dict, as its uses suggest"
    if one.made.kind == LOAD:
        return "nothing else has moved it"
    if one.mismatch.anchor.kind == MODULE and not is_main_input(one.mismatch):
        return "the module does not move it itself"
    row = models().function(one.made.name) if one.mismatch.anchor.kind != MODULE else None
    return "it has at least one dimension" if row is not None and row.form == "array" else ""


def _placed(mismatch: Mismatch, analysis: Analysis) -> tuple[Related, ...]:
    """Where the other value gets its device: in this file, or in that of a caller."""
    at, span = target_of(mismatch, analysis), analysis.file.source.span
    if at is not None:
        call = analysis.file.source.parents.get(at)
        func = call.func if isinstance(call, ast.Call) else None
        if call is not None and isinstance(func, ast.Attribute):
            up = analysis.file.source.parents.get(call)
            name = up.targets[0] if isinstance(up, ast.Assign) else func.value
            return (Related(span(call), f"{quoted(analysis.file.source, name, 40)} gets its device here"),)
        return (Related(span(at), "the other value gets its device here"),)
    if mismatch.anchor_place not in analysis.origins:
        return ()
    parameter, far = analysis.origins[mismatch.anchor_place]
    here = Related(span(parameter), "a caller passes the other value")
    if far is None:
        return (here,)
    return here, Related(Span(0, 0), "which gets its device here", far.path, far.line, far.column)
