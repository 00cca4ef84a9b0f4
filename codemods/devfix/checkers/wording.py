"""The message of a mismatch: what strays, which operation needs it elsewhere, and what the fix assumes."""

from __future__ import annotations

import ast

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.places import CPU, FIXED, IN, LITERAL, OF, OWNED, VAR, Place
from devfix.engine.values import (
    BESIDE,
    CALLER,
    DATA,
    DEVICE,
    GIVEN,
    LABELS,
    LIBRARY_CALL,
    LIKE,
    LOSS,
    MODULE,
    NAME,
    PATH_TAKEN,
    RANK,
    RESULT,
    SIBLINGS,
    USES,
    Assumption,
)
from devfix.text.source import FUNCTIONS, Source

_ASSUMED = {
    NAME: "`{}` is what its name suggests",
    LIKE: "`{}` is on the device to which its other calls move their arguments",
    LABELS: "`{}` is a tensor, as its name suggests",
    LOSS: "`{}` compares tensors, as its name suggests",
    USES: "`{}` is what its uses suggest",
    LIBRARY_CALL: "{} takes and returns tensors",
    PATH_TAKEN: "one run reaches both lines",
    RANK: "it has at least one dimension",
    RESULT: "the caller expects both on one device",
    GIVEN: "`{}` is on the CPU when the module is made",
    DATA: "`{}` is not a tensor on an accelerator",
    SIBLINGS: "`{}` arrives on the CPU, like the value that is moved next to it",
    CALLER: "`{}` is on the module's device",
    BESIDE: "`{}` is on the same device",
}
# How an operation without a name of its own uses the value that strays, and the other one.
_USES = {
    "the container": "{it} is stored{at} together with {other}",
    "the index": "{it} is indexed{at} by {other}",
    "the assignment": "an assignment{at} combines {it} with {other}",
    "the comparison": "a comparison{at} combines {it} with {other}",
    "the forward pass": "the forward pass{at} runs {it} on {other}",
}
_BESIDE = dict.fromkeys(("forward", "__call__"), "the input")
_CHOSEN_OUTSIDE = (OF, IN, OWNED)
_SILENT = ("the container", "the assignment")  # nothing fails there yet
_LONGEST = 40  # characters of code that a sentence takes in its stride


def message_of(
    codemod: str, at: ast.AST, stored: str, mismatch: Mismatch, analysis: Analysis, *, is_elsewhere: bool
) -> str:
    """What is wrong: the value at `at`, or what a module has `stored`, and the operation that needs it elsewhere.

    The line of `at` is told if the finding `is_elsewhere`.
    """
    source = analysis.file.source
    code = shown(source, at)
    told = f"{code} (line {source.position(source.span(at).start)[0]})" if is_elsewhere else code
    is_module = codemod == "module-never-moved"
    if codemod == "hard-coded-cuda":
        what = f"the device of {told} is hard-coded"
    elif stored:
        what = f"`{stored}` stays on the CPU when the module is moved"
    elif is_module and mismatch.stray_place.kind == CPU and at is not mismatch.stray.links[0].node:
        what = f"{told} leaves the module on the CPU"
    elif is_module:
        what = f"the module {told} is on the CPU"
    else:
        what = f"{told} is on the CPU"
    return f"{what}; {use_of(mismatch, analysis, code, is_module=is_module)}"


def shown(source: Source, node: ast.AST) -> str:
    """The code of a node, or its beginning."""
    told, code = quoted(source, node), " ".join(source.code(node).split())
    return told if "`" in told + code else f"`{code[:57]}...`"


def use_of(
    mismatch: Mismatch, analysis: Analysis, told: str, *, is_module: bool = False, it: str = "it"
) -> str:
    """The operation that needs the value `told` elsewhere, which is called `it`, and whether that fails."""
    here = mismatch.file is analysis.file
    source = mismatch.file.source
    line = source.position(source.span(mismatch.node).start)[0]
    at = f" on line {line}" if here else f" in {mismatch.file.path.rpartition('/')[2]}:{line}"
    if mismatch.anchor.kind == MODULE and not is_module and not mismatch.operation.startswith("the "):
        module = f"`{mismatch.operation}`{at}, which is {_placed(mismatch, analysis)}"
        return f"{module}, takes {it} and raises on an accelerator"
    name = _other(mismatch, told if here else "")
    place = _placed(mismatch, analysis, name)
    if mismatch.operation == "the result" and mismatch.anchor.kind == DEVICE:
        device = name or "another device"
        return f"its weights are loaded onto {device}, but copied to the CPU"
    if mismatch.operation == "the result":
        like, returned = mismatch.stray.like, f"{it} is returned{at}"
        if not name and like is not None and like.place == mismatch.anchor.place:
            return f"{returned}, and takes its shape from a tensor {place}"
        if not name and isinstance(mismatch.anchor_node, FUNCTIONS):
            return f"{returned}, while {_BESIDE.get(mismatch.anchor_node.name, 'what other methods give')} is {place}"
        return f"{returned} together with {name or 'another result'}, which is {place}"
    if mismatch.anchor.kind == DEVICE:
        return f"`{mismatch.operation}`{at} gets {it} together with {name or 'another device'}, so it belongs there"
    value = "a module" if mismatch.anchor.kind == MODULE else "a tensor"
    other = f"{name}, which is {place}" if name else f"{value} {place}"
    raises = (
        ""
        if mismatch.relation == FIXED or mismatch.operation in _SILENT
        else ", and raises on an accelerator"
    )
    if mismatch.operation == "the index" and mismatch.relation == FIXED:
        return f"{it} indexes{at} {other}"
    if mismatch.operation in _USES:
        return _USES[mismatch.operation].format(it=it, at=at, other=other) + raises
    does = f"runs {it} on" if is_module else f"combines {it} with"
    return f"`{mismatch.operation}`{at} {does} {other}{raises}"


def _other(mismatch: Mismatch, told: str) -> str:
    """The other operand by its code, where that is short and says something; else an empty string."""
    node = mismatch.anchor_node
    if isinstance(node, ast.Attribute) and node.attr == mismatch.operation:
        node = node.value  # the method that is called
    if not isinstance(node, ast.expr) or node is mismatch.node:
        return ""
    code = quoted(mismatch.file.source, node, _LONGEST)
    return code if code != told and code.startswith("`") else ""


def _placed(mismatch: Mismatch, analysis: Analysis, told: str = "") -> str:
    """Where the other value is, with the line of this file that says so, if there is one: "on `device` (line 9)"."""
    at, source = target_of(mismatch, analysis), analysis.file.source
    if at is None or mismatch.anchor_place.kind in _CHOSEN_OUTSIDE:
        return where(mismatch.anchor_place, told)
    return f"on {quoted(source, at)} (line {source.position(source.span(at).start)[0]})"


def target_of(mismatch: Mismatch, analysis: Analysis) -> ast.expr | None:
    """The device expression by which the other value was moved, if it was in this file."""
    return next((at for at, _, _, _ in analysis.targets_here(mismatch.anchor_place)), None)


def where(place: Place, told: str = "") -> str:
    """A place in words, such as "on the device of `x`"; `told` is the code of what is there."""
    if place.kind == LITERAL:
        return f"on `{place.key}`"
    if place.kind in _CHOSEN_OUTSIDE:
        key = place.key if isinstance(place.key, tuple) else ()
        if key[:1] == ("self",):
            return "on the module's device"
        if key[:1] == ("parameter",) and told not in ("", f"`{key[2]}`"):
            return f"on the device of `{key[2]}`"
        return "on the device that the caller chooses"
    return "on a device that is chosen at run time" if place.kind == VAR else "on another device"


def assumptions(mismatch: Mismatch, otherwise: str = "") -> str:
    """What an unsafe fix of a mismatch assumes, as it follows on "assumes that".

    `otherwise` is what it assumes if the engine has assumed nothing.
    """
    words = sorted(filter(None, map(assumption, mismatch.assumed)))
    words = words or [otherwise or _unproven(mismatch)]
    return ", and that ".join(words)


def _unproven(mismatch: Mismatch) -> str:
    """What is not shown where nothing had to be assumed."""
    if mismatch.relation == FIXED or mismatch.stray_place.kind == LITERAL:
        return "both values belong on the same device"
    if mismatch.anchor_place.kind in _CHOSEN_OUTSIDE:
        return f"{_other(mismatch, '') or 'the other value'} can be on an accelerator"
    return "it is not needed on the CPU"


def assumption(one: Assumption) -> str:
    """An assumption as it follows on "assumes that"; empty if there are no words for it."""
    subject = one.subject
    if one.kind == LIBRARY_CALL:
        subject = f"`{one.subject}`" if one.subject else "a module whose code devfix cannot see"
    return _ASSUMED.get(one.kind, "").format(subject)
