"""The message of a mismatch: what strays, which operation needs it elsewhere, and what the fix assumes."""

from __future__ import annotations

import ast

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.places import FIXED, IN, LITERAL, OF, OWNED, VAR, Place
from devfix.engine.values import (
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

_ASSUMED = {
    NAME: "`{}` is what its name suggests",
    LIKE: "`{}` is where other calls of it move what they give it",
    LABELS: "`{}` is a tensor, as its name suggests",
    LOSS: "`{}` compares tensors, as its name suggests",
    USES: "`{}` is what its uses suggest",
    LIBRARY_CALL: "{} takes and returns tensors",
    PATH_TAKEN: "one run takes both paths",
    RANK: "it has at least one dimension",
    RESULT: "the caller expects both on one device",
    GIVEN: "`{}` is on the CPU when the module is made",
    DATA: "`{}` is not a tensor on an accelerator",
    SIBLINGS: "`{}` comes from the CPU, as what is moved beside it",
    CALLER: "`{}` is on the module's device",
}
# How an operation without a name of its own uses the value that strays, and the other one.
_USES = {
    "the container": "it is stored{} beside {}",
    "the index": "it is indexed{} by {}",
    "the assignment": "an assignment{} combines it with {}",
    "the comparison": "a comparison{} combines it with {}",
    "the forward pass": "the forward pass{} runs it on {}",
}
_LONGEST = 40  # characters of code that a sentence takes in its stride


def message_of(codemod: str, at: ast.AST, stored: str, mismatch: Mismatch, analysis: Analysis) -> str:
    """What is wrong: the value at `at`, or what a module has `stored`, and the operation that needs it elsewhere."""
    told = quoted(analysis.file.source, at)
    is_module = codemod == "module-never-moved"
    if codemod == "hard-coded-cuda":
        what = f"the device of {told} is hard-coded"
    elif stored:
        what = f"`{stored}` stays on the CPU when the module is moved"
    elif is_module:
        what = f"{'this module' if told.startswith('this') else f'the module {told}'} is on the CPU"
    else:
        what = f"{told} is on the CPU"
    return f"{what}; {_used(mismatch, analysis, told, is_module=is_module)}"


def _used(mismatch: Mismatch, analysis: Analysis, told: str, *, is_module: bool) -> str:
    here = mismatch.file is analysis.file
    source = mismatch.file.source
    line = source.position(source.span(mismatch.node).start)[0]
    at = f" on line {line}" if here else f" in {mismatch.file.path.rpartition('/')[2]}"
    if mismatch.anchor.kind == MODULE and not is_module and not mismatch.operation.startswith("the "):
        return f"it is given to `{mismatch.operation}`{at}, which is {where(mismatch.anchor_place)}"
    name = _other(mismatch, told if here else "")
    place = where(mismatch.anchor_place, name)
    if mismatch.operation == "the result" and mismatch.anchor.kind == DEVICE:
        device = name or "another device"
        return f"it gets weights that were loaded for {device}, which are copied to where it is"
    if mismatch.operation == "the result":
        other = "the input" if mismatch.anchor.role == "taken" else "another result"
        return f"it is returned{at}, while {name or other} is {place}"
    if mismatch.anchor.kind == DEVICE:
        return f"`{mismatch.operation}`{at} is given it together with {name or 'another device'}"
    value = "a module" if mismatch.anchor.kind == MODULE else "a tensor"
    other = f"{name}, which is {place}" if name else f"{value} {place}"
    if mismatch.operation == "the index" and mismatch.relation == FIXED:
        return f"it indexes{at} {other}"
    if mismatch.operation in _USES:
        return _USES[mismatch.operation].format(at, other)
    return f"`{mismatch.operation}`{at} {'runs it on' if is_module else 'combines it with'} {other}"


def _other(mismatch: Mismatch, told: str) -> str:
    """The other operand by its code, where that is short and says something; else an empty string."""
    node = mismatch.anchor_node
    if isinstance(node, ast.Attribute) and node.attr == mismatch.operation:
        node = node.value  # the method that is called
    if not isinstance(node, ast.expr) or node is mismatch.node:
        return ""
    code = quoted(mismatch.file.source, node, _LONGEST)
    return code if code != told and code.startswith("`") else ""


def where(place: Place, told: str = "") -> str:
    """A place in words, such as "on the device of `x`"; `told` is the code of what is there."""
    if place.kind == LITERAL:
        return f"on `{place.key}`"
    if place.kind in (OF, IN, OWNED):
        key = place.key if isinstance(place.key, tuple) else ()
        if key[:1] == ("self",):
            return "on the module's device"
        if key[:1] == ("parameter",) and told not in ("", f"`{key[2]}`"):
            return f"on the device of `{key[2]}`"
        return "on the device that the caller chooses"
    return "on a device that is chosen at run time" if place.kind == VAR else "on another device"


def assumptions(mismatch: Mismatch) -> str:
    """What a fix of a mismatch assumes, as a sentence to be added to the message."""
    words = sorted(
        _ASSUMED[one.kind].format(_subject(one)) for one in mismatch.assumed if one.kind in _ASSUMED
    )
    if not words and mismatch.relation != FIXED and mismatch.stray_place.kind != LITERAL:
        return ". On the CPU nothing fails, and the fix changes no result"
    words = words or ["both values belong on the same device"]
    return f". The fix assumes that {', and '.join(words)}"


def _subject(one: Assumption) -> str:
    if one.kind == LIBRARY_CALL:
        return f"`{one.subject}`" if one.subject else "a module that is not in view"
    return one.subject
