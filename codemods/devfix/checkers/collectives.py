"""Tensors on the CPU that are given to a collective of a backend that works on accelerators only.

https://pytorch.org/docs/stable/distributed.html#backends: which backend takes tensors of which device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices
from devfix.engine.facts import Step
from devfix.engine.places import of_process
from devfix.engine.steps import Steps, exclude, for_accelerators, joins_accelerators
from devfix.engine.values import LOCAL, MAKE, TENSOR
from devfix.findings import AppendCall, Edit, Finding, Related, SetArgument, told
from devfix.models.loader import models
from devfix.repair.expressible import expressible

CODEMOD = "place-factory"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def findings(analysis: Analysis) -> Iterator[tuple[Finding, list[ast.AST]]]:
    """One finding for each tensor, with the nodes that it is about."""
    yield from _gathered(analysis)
    steps, source = Steps(analysis), analysis.file.source
    if not steps.joins and not steps.is_owned:
        yield from _of_an_unknown_backend(analysis, steps)
    known = [one for one in steps.joins if "?" not in one.texts]
    if not known or steps.is_owned or not all(joins_accelerators(one) for one in known):
        return
    seen: set[ast.AST] = set()
    for step in steps.every("collective"):
        if step.file is not analysis.file or step.at is None or not _is_proven(step, known):
            continue
        link = step.value.links[0]
        made = link.node if link.kind == MAKE and link.file is analysis.file else None
        at = made if made is not None else step.at
        if at in seen:
            continue
        seen.add(at)
        device, edits = _on_device(analysis, step, made)
        if not edits and isinstance(made, ast.Call) and steps.is_set(step) and _always(known, "nccl"):
            device, edits = _edit(analysis, made, '"cuda"')
        (operation,) = step.texts
        backend = next(one for join in known for one in sorted(join.texts) if for_accelerators(one))
        message = (
            f"{quoted(source, at)} is on the CPU, but is given to `{operation.rpartition('.')[2]}`, and the backend "
            f"`{backend}` takes only tensors on accelerators"
        )
        shown = () if at is step.at else (Related(source.span(step.at), "it is sent here"),)
        title, assumes = f"make it on `{device}`", "this backend is used"
        yield told(CODEMOD, source.span(at), message, title, edits, shown, assumes), [at, step.at]


def _of_an_unknown_backend(analysis: Analysis, steps: Steps) -> Iterator[tuple[Finding, list[ast.AST]]]:
    """`all_reduce(torch.tensor(n))` where the group is joined elsewhere, in a class that moves to its device."""
    source, seen = analysis.file.source, set[ast.AST]()
    for step in steps.every("collective"):
        if step.file is not analysis.file or step.at is None or not _is_proven(step, []):
            continue
        made = step.value.links[0].node
        if made in seen or step.value.links[0].kind != MAKE or not isinstance(made, ast.Call):
            continue
        device, edits = _on_device(analysis, step, made)
        if not edits and _own_device(analysis, step):
            device, edits = _edit(analysis, made, _own_device(analysis, step))
        if not edits or source.enclosing(made, *_FUNCTIONS) is not source.enclosing(step.node, *_FUNCTIONS):
            continue
        seen.add(made)
        (operation,) = step.texts
        message = (
            f"{quoted(source, made)} is on the CPU, but is given to `{operation.rpartition('.')[2]}`, for which "
            "backends such as NCCL take only tensors on accelerators"
        )
        title, assumes = f"make it on `{device}`", "the backend is one of these"
        yield told(CODEMOD, source.span(made), message, title, edits, assumes=assumes), [made, step.at]


def _own_device(analysis: Analysis, step: Step) -> str:
    """The attribute by which methods of the same class move things: "self.device"."""
    owner = step.function.owner if step.function is not None else None
    every = (one for place in analysis.targets for one in analysis.targets_here(place))
    texts = (
        analysis.file.source.code(at)
        for at, function, _, _ in every
        if owner is not None and function is not None and function.owner is owner
    )
    return next((text for text in texts if text.startswith("self.")), "")


def _gathered(analysis: Analysis) -> Iterator[tuple[Finding, list[ast.AST]]]:
    """`accelerator.gather(torch.tensor(n))`: accelerate gathers over the backend of its device."""
    source = analysis.file.source
    for call in source.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in models().gathers or not call.args:
            continue
        made, owner = call.args[0], source.code(func.value)
        if owner.rpartition(".")[2] != "accelerator" or not isinstance(made, ast.Call):
            continue
        row = models().function(analysis.file.dotted(made.func))
        if (
            row is None
            or row.form not in ("make", "data")
            or any(one.arg in ("device", None) for one in made.keywords)
        ):
            continue
        device, edits = _edit(analysis, made, f"{owner}.device")
        message = (
            f"{quoted(source, made)} is on the CPU, but `{func.attr}` sends it from the device of `{owner}`, "
            "and raises on an accelerator"
        )
        title, assumes = f"make it on `{device}`", "it can be one"
        yield told(CODEMOD, source.span(made), message, title, edits, assumes=assumes), [made]


def _is_proven(step: Step, joins: list[Step]) -> bool:
    """Is it a tensor of known making that is on the CPU, whatever the conditions on the way ask?"""
    if step.value.kind != TENSOR or not step.place.on_host or not step.value.links or step.value.assumed:
        return False
    if any(about_devices(one) or _about_backends(one) for one, _ in step.path):
        return False
    return not any(exclude(step, one) for one in joins)


def _about_backends(condition: object) -> bool:
    if isinstance(condition, tuple):
        return any(_about_backends(one) for one in condition)
    words = ("backend", "gloo", "nccl")
    return isinstance(condition, str) and any(word in condition for word in words)


def _always(joins: list[Step], backend: str) -> bool:
    return all(one.texts == {backend} for one in joins)


def _on_device(analysis: Analysis, step: Step, made: ast.AST | None) -> tuple[str, tuple[Edit, ...]]:
    """The tensor made on the device of the process, or on another one that has a name there."""
    if not isinstance(made, ast.Call):
        return "", ()
    terms = [
        term for _, some in step.scopes for term in some if term.form == "device" and term.place.on_device
    ]
    for place in (of_process(LOCAL), *(term.place for term in terms)):
        device = expressible(analysis.file.source, place, step.scopes, made)
        if device:
            return _edit(analysis, made, device)
    return "", ()


def _edit(analysis: Analysis, made: ast.Call, device: str) -> tuple[str, tuple[Edit, ...]]:
    span = analysis.file.source.span(made)
    row = models().function(analysis.file.dotted(made.func))
    if row is not None and row.form in ("make", "data", "like"):
        return device, (SetArgument(span, "device", device),)
    return device, (AppendCall(span, f".to({device})"),)
