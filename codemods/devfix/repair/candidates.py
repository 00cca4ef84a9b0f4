"""The edits that bring a stray value to where the others are, by the link of its history that is changed."""

from __future__ import annotations

import ast
import re

from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch, Term
from devfix.engine.files import Function
from devfix.engine.places import CHOICE, LITERAL, OF, VAR, alternatives
from devfix.engine.uses import NO_EVIDENCE
from devfix.engine.values import (
    BATCH,
    CALLER,
    DISTRIBUTION,
    EACH,
    ELEMENT,
    LOAD,
    MODULE,
    MOVE,
    NO_DEVICE,
    PART,
    PASS,
    TENSOR,
    WHOLE,
    Assumption,
    Link,
)
from devfix.findings import AppendCall, Edit, ReplaceExpression, SetArgument, WrapExpression
from devfix.models.loader import models
from devfix.repair import legacy
from devfix.repair.arguments import argument_of, device_of_argument, method_of, same_device
from devfix.repair.expressible import expressible
from devfix.repair.rebinding import is_read_twice, rebound
from devfix.repair.written import is_written
from devfix.text.names import stores
from devfix.text.placing import bound_before, dotted
from devfix.text.source import FUNCTIONS, Source

_MOST_TOGETHER = 6  # tensors that one fix makes elsewhere
# Layers whose weight tells where they are.
_WITH_WEIGHT = frozenset(
    f"torch.nn.{name}" for name in ("Linear", "Embedding", "Conv1d", "Conv2d", "LayerNorm")
)


def at_its_making(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """`device=` where a tensor is made, or `.to(...)` behind a call that takes none: the device, and the edits.

    Tensors that it is combined with on the CPU are made there as well.
    """
    link, source = made_at(mismatch), analysis.file.source
    made = link.node
    if link.file is not analysis.file or (link.kind == LOAD and link.name == "loader"):
        return "", ()
    if link.kind == MOVE:  # a copy that is wanted on the CPU, for others perhaps
        return "", ()
    if isinstance(made, ast.Subscript):
        device = written(mismatch, analysis, made)
        if not device or stays_on_host(made, analysis):
            return "", ()
        return device, (AppendCall(source.span(made), f".to({device})"),)
    if not isinstance(made, ast.Call):
        return "", ()
    together = _together(made, analysis)
    devices = [wanted_at(mismatch, analysis, one) for one in together]
    devices = [
        written(mismatch, analysis, at) or device if not device or device.startswith("next(") else device
        for at, device in zip(together, devices, strict=True)
    ]
    devices = [device or _of_taken(mismatch) for device in devices]
    if not together or not all(devices) or any(_gives_several(analysis, one) for one in together):
        return "", ()
    names = [link.name] + [""] * (len(together) - 1)
    edits = [
        make_on(analysis, one, name, device)
        for one, name, device in zip(together, names, devices, strict=True)
    ]
    return devices[0], tuple(edits)


def _gives_several(analysis: Analysis, made: ast.Call) -> bool:
    """Does a function give more than a tensor, as `torchaudio.load` does?"""
    row = models().function(analysis.file.dotted(made.func))
    return row is not None and row.many


def wanted_at(mismatch: Mismatch, analysis: Analysis, at: ast.AST) -> str:
    """The device of the other value as it can be written at a node; else that of what told the size of a new one."""
    device, size = exact_at(mismatch, analysis, at), mismatch.stray.like
    if not device and size is not None and size.like is not None:
        device = expressible(analysis.file.source, size.like.place, mismatch.scopes, at)
    return device


def exact_at(mismatch: Mismatch, analysis: Analysis, at: ast.AST) -> str:
    """The device of the other value as it can be written at a node; an empty string if it cannot."""
    source, place = analysis.file.source, mismatch.anchor_place
    scopes = mismatch.scopes
    if (device := device_of_argument(mismatch, source, at)) is not None:
        return device
    whole = mismatch.anchor.place if mismatch.anchor.place.kind == CHOICE else place
    if whole.kind == CHOICE:  # only where it is itself is right on every path
        scopes = tuple((one, tuple(term for term in terms if term.place == whole)) for one, terms in scopes)
    device = expressible(source, whole, scopes, at, anchor_text(mismatch, analysis))
    if _is_elsewhere(mismatch):
        return device
    around = source.enclosing(at, *FUNCTIONS)
    function = analysis.file.of_node.get(around) if around is not None else None
    if device or not isinstance(function, Function):
        return device
    terms = [
        Term(source.code(target), "device", place, mismatch.assumed)
        for target, other, _, _ in analysis.targets_here(place)
        if other is not None and other.owner is function.owner and source.code(target).startswith("self.")
    ]
    key = place.key if isinstance(place.key, tuple) else ()
    if key[:1] == ("attribute",) and function.owner is not None and place.kind == VAR:
        if key[1] == analysis.classes.cell(function.owner):
            terms.append(Term(f"self.{key[2]}", "device", place, mismatch.assumed))
    for other, visible in mismatch.scopes:
        if other is not None and other.owner is function.owner:
            # What a constructor makes is moved later, and so are its parameters.
            told = [term for term in visible if term.form == "device" or function.name != "__init__"]
            terms += [term for term in told if term.text.startswith("self.")]
    device = expressible(source, place, ((function, tuple(terms)),), at) if function.owner is not None else ""
    for one in function.parameters if not device else ():
        # What it is itself, or what the function was called with.
        places = analysis.calls.get((id(function.node), one.arg), [])
        own = place.key == ("parameter", id(function.node), one.arg)
        kind = analysis.known(function).get(one.arg, NO_EVIDENCE)[0]
        if own and kind == BATCH:
            continue  # it may be a list
        if own or (place in places and all(other.on_device for other in places)):
            module = kind == MODULE or (own and mismatch.anchor.kind == MODULE)
            form = "device" if own and place.kind == VAR else "module" if module else "tensor"
            assumed = mismatch.assumed if own else mismatch.assumed | {Assumption(CALLER, one.arg)}
            term = Term(one.arg, form, place, assumed)
            device = device or expressible(source, place, ((function, (term,)),), at)
    return device


def _is_elsewhere(mismatch: Mismatch) -> bool:
    """May the other value be on another device on another path? Then only its own device is right on both."""
    if mismatch.anchor.place.kind != CHOICE:
        return False
    places = [place for place, _ in alternatives(mismatch.anchor.place)]
    return any(not place.on_host and place != mismatch.anchor_place for place in places)


def anchor_text(mismatch: Mismatch, analysis: Analysis) -> str:
    """How the device of the other value is written where the two meet, where that is an expression of its own."""
    node, source = mismatch.anchor_node, analysis.file.source
    if mismatch.file is not analysis.file or mismatch.anchor_place.kind not in (OF, VAR, LITERAL):
        return ""
    if mismatch.anchor.role in NO_DEVICE or node is mismatch.stray_node:
        return ""  # or it is the same expression, on another path
    while (base := same_device(node)) is not None:
        node = base
    if node is None or not _is_path(node):
        return ""
    known = {
        term.text for _, terms in mismatch.scopes[:1] for term in terms if term.place == mismatch.anchor_place
    }
    while isinstance(node, ast.Subscript) and source.code(node.value) in known:
        node = node.value
    if mismatch.anchor.kind == MODULE:
        layer = mismatch.anchor.links[0].name if mismatch.anchor.links else ""
        uses = analysis.uses(mismatch.function).attributes if mismatch.function is not None else {}
        if (known - {"self"}) & uses.keys():
            return ""  # a tensor of the function is there, too
        return f"{source.code(node)}.weight.device" if layer in _WITH_WEIGHT else ""
    return f"{source.code(node)}.device"


def _is_path(node: ast.AST) -> bool:
    """Is it a name, or an attribute or an element of one?"""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Name)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def make_on(analysis: Analysis, made: ast.Call, name: str, device: str) -> Edit:
    """A tensor, made by a function of torch of that name, on a device."""
    source = analysis.file.source
    span, name = source.span(made), name or analysis.file.dotted(made.func)
    row = models().function(name)
    if row is not None and row.form in ("make", "data", "like") and not row.nodevice:
        return SetArgument(span, "device", device)
    modern = None
    if row is not None and row.form == "legacy" and not made.keywords:
        modern = legacy.on_device(source, made, name, device)
    return ReplaceExpression(span, modern) if modern is not None else AppendCall(span, f".to({device})")


def _together(made: ast.Call, analysis: Analysis) -> list[ast.Call]:
    """A tensor, and those that it meets on the CPU, and these in turn; empty if one of them is needed there.

    Modules are left where they are: the tensor gets the device of what it is combined with.
    """
    found: list[ast.Call] = []
    todo: list[ast.AST] = [made]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        if not isinstance(one, ast.Call) or one in analysis.read_on_host or len(found) > _MOST_TOGETHER:
            return []
        if one is not made and models().function(analysis.file.dotted(one.func)) is None:
            return []  # a batch of a loader, or what somebody gives: it is nothing that is made there
        found.append(one)
        todo += sorted(
            analysis.company.get(one, set()) - analysis.strays - modules_met(one, analysis),
            key=lambda node: getattr(node, "lineno", 0),
            reverse=True,
        )
    return found


def modules_met(made: ast.AST, analysis: Analysis) -> set[ast.AST]:
    """Where the modules are made that a tensor meets on the CPU, in a run that moves none of them."""
    company = analysis.company.get(made, set())
    return {one.links[0].node for one in analysis.made.values() if one.links and one.links[0].node in company}


def made_at(mismatch: Mismatch) -> Link:
    """The link by which a stray comes into being: of an item of a batch, where it is taken out."""
    links = mismatch.stray.links
    taken = [
        one
        for one in links
        if one.kind == ELEMENT and isinstance(one.node, ast.Subscript) and one.name not in (PART, EACH)
    ]
    taken = [one for one in taken if not _is_store(one.node)]
    return taken[-1] if taken and links[0].kind == LOAD and links[0].name == "loader" else links[0]


def written(mismatch: Mismatch, analysis: Analysis, node: ast.AST) -> str:
    """The device of the others as it can be written at a node: as something visible, or as the function names it."""
    if _is_elsewhere(mismatch):
        return ""
    source = analysis.file.source
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
    if device and not device.startswith("next("):
        return device
    function = source.enclosing(node, *FUNCTIONS)
    for at, _, _, _ in analysis.targets_here(mismatch.anchor_place):
        if dotted(at) and source.enclosing(at, *FUNCTIONS) is function:
            if bound_before(source, at, source.statement(node)):
                return source.code(at)
    return device


def _of_taken(mismatch: Mismatch) -> str:
    """The device of a parameter that the function copies to the CPU under another name."""
    key, function = mismatch.anchor_place.key, mismatch.function
    if mismatch.anchor.role != "taken" or function is None or not isinstance(key, tuple):
        return ""
    item = f"[{key[2]!r}]" if key[0] == "item" else ""
    key = key[1] if item else key
    if not isinstance(key, tuple) or key[0] != "parameter":
        return ""
    stored = any(isinstance(one, ast.Name) and one.id == key[2] for one in function.nodes if _is_store(one))
    return "" if stored else f"{key[2]}{item}.device"


def _is_store(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def at_the_meeting(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """`.to(...)` where a stray is handed on, in the function that has it, or where it meets the others."""
    source, stray = analysis.file.source, mismatch.stray
    for node in (
        *[link.node for link in stray.links if link.kind == PASS and link.file is analysis.file],
        _taken(source, mismatch.stray_node),
        mismatch.stray_node,
    ):
        if not isinstance(node, ast.expr) or not _is_one_tensor(mismatch) or isinstance(node, ast.Starred):
            continue
        if is_written(source, node):
            continue  # into a copy, it would be lost
        if mismatch.file is not analysis.file and node is mismatch.stray_node:
            continue
        device = wanted_at(mismatch, analysis, node)
        inside = {one.name for one in mismatch.stray.links if one.kind == ELEMENT and one.node is node}
        if not device or PART in inside:
            continue
        if EACH in inside:
            name = "tensor" if re.search(r"\bone\b", device) else "one"
            each = f"tuple({name}.to({device}) for {name} in "
            return device, (WrapExpression(source.span(node), each, ")"),)
        if isinstance(node, ast.Name) and is_read_twice(source, node):
            edits = rebound(source, node, device, source.statement(node), before=True)
            if edits:
                return device, edits
        return device, (AppendCall(source.span(node), f".to({device})"),)
    return "", ()


def beside_others(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...], ast.stmt | None]:
    """A move of the stray below the last of those that are moved to the same device, above where they meet."""
    source, node = analysis.file.source, mismatch.stray_node
    while (base := same_device(node) or method_of(node)) is not None:
        node = base
    if not isinstance(node, ast.Name) or mismatch.file is not analysis.file or not _is_one_tensor(mismatch):
        return "", (), None
    devices = [exact_at(mismatch, analysis, node)]
    if not argument_of(mismatch):  # that is where its caller has it
        devices += [source.code(one) for one, _, _, _ in analysis.targets_here(mismatch.anchor_place)]
    one: ast.AST = source.statement(node)
    made = source.statement(made_at(mismatch).node) if made_at(mismatch).file is analysis.file else None
    while isinstance(one, ast.stmt):
        block = source.block(one)
        for above in reversed(block[: block.index(one)]):
            if above is made or stores(source, above, node.id):
                return "", (), None  # the others were moved before it was made
            text = source.code(above.value) if isinstance(above, ast.Assign) else ""
            device = next((one for one in devices if one and text.endswith(f".to({one})")), "")
            if device:
                edits = rebound(source, node, device, above)
                return (device, edits, above) if edits else ("", (), None)
        one = source.parents[one]
        if isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.For, ast.While)):
            break
    return "", (), None


def _taken(source: Source, node: ast.AST | None) -> ast.expr | None:
    """`self.window` of `window = self.window`, where that is the only thing that a name is bound to."""
    scope = source.enclosing(node, *FUNCTIONS) if isinstance(node, ast.Name) else None
    if scope is None or not isinstance(node, ast.Name):
        return None
    bound = stores(source, scope, node.id)
    first = source.statement(bound[0]) if len(bound) == 1 else None
    value = first.value if isinstance(first, ast.Assign) else None
    return value if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) else None


def has_to(link: Link) -> bool:
    """Is it the output of a tokenizer or a processor, which has a `.to` of its own?"""
    keywords = link.node.keywords if isinstance(link.node, ast.Call) else []
    given = [one.value for one in keywords if one.arg == "return_tensors"]
    return link.kind == LOAD and any(isinstance(one, ast.Constant) and one.value == "pt" for one in given)


def of_a_literal(mismatch: Mismatch, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """The device of the others in the place of an accelerator by name."""
    source, link = analysis.file.source, mismatch.stray.links[0]
    node = link.node
    if link.file is not analysis.file or not isinstance(node, ast.Call) or _meets_others(node, analysis):
        return "", ()
    device = expressible(source, mismatch.anchor_place, mismatch.scopes, node)
    if not device or device.startswith('"'):
        return "", ()
    for keyword in node.keywords:
        if keyword.arg == "device":
            return device, (ReplaceExpression(source.span(keyword.value), device),)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        if len(node.args) > 1 or node.keywords:
            return "", ()
        return device, (ReplaceExpression(source.span(node), f"{source.code(node.func.value)}.to({device})"),)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.args:
        return device, (ReplaceExpression(source.span(node.args[0]), device),)
    return "", ()


def _is_one_tensor(mismatch: Mismatch) -> bool:
    """A tensor, or what a loader gives after it was taken apart: not a batch of unknown form, nor a distribution."""
    if mismatch.stray.kind == TENSOR:
        return mismatch.stray.role != DISTRIBUTION
    links = mismatch.stray.links
    taken = any(one.kind == ELEMENT and one.name != WHOLE for one in links)
    return mismatch.stray.kind == BATCH and links[0].kind == LOAD and taken


def stays_on_host(node: ast.AST, analysis: Analysis) -> bool:
    """Is what is made, or stored, here needed on the CPU as well?"""
    return node in analysis.read_on_host or _meets_others(node, analysis)


def _meets_others(node: ast.AST, analysis: Analysis) -> bool:
    """Does what is made here meet something that stays where it is?"""
    return any(other not in analysis.strays for other in analysis.company.get(node, ()))
