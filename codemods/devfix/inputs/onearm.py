"""A tensor that one arm of an `if` moves, and the other arm takes from where it is kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.findings import InsertStatement
from devfix.flow import Flow
from devfix.inputs.hints import Hint, device_text, moved_to
from devfix.placing import dotted
from devfix.source import Source


def one_armed(flow: Flow) -> Iterator[Hint]:
    """Every `if` that leaves a name on a device in one arm, `s = s.to(device)`, and wherever it was in the other."""
    source = flow.source
    for call in source.calls if ".to(" in source.text else ():
        statement = source.parents.get(call)
        if not isinstance(statement, ast.Assign) or not isinstance(call.func, ast.Attribute):
            continue
        name = dotted(statement.targets[0])
        if not name.isidentifier() or call.func.attr != "to" or dotted(call.func.value) != name:
            continue
        choice = source.parents[statement]
        device = device_text(moved_to(call))
        if not isinstance(choice, ast.If) or not device or device.strip('"') == "cpu":
            continue
        arm, other = choice.body, choice.orelse
        if statement not in arm:
            arm, other = other, arm
        kept = _kept(other, name)
        if statement is not arm[-1] or kept is None or not _used(source, choice, name):
            continue
        if flow.value(kept.value).place.on_device or "cpu" in ast.unparse(choice.test):
            continue
        yield Hint(
            kept,
            f"`{name}` is moved to `{device}` in the other arm of the `if` only; in this one it stays where it was",
            f"move `{name}` to `{device}` after both arms",
            (InsertStatement(source.span(choice), source.code(statement)),),
            statement,
            "the other arm moves it here",
        )


def _kept(arm: list[ast.stmt], name: str) -> ast.Assign | None:
    """The only binding of a name in an arm, if that is what an object holds: `s = self.scheduler.sigmas`."""
    found = [
        one
        for one in arm
        if isinstance(one, ast.Assign) and any(dotted(target) == name for target in one.targets)
    ]
    if len(arm) != 1 or len(found) != 1 or dotted(found[0].value).count(".") < 2:
        return None
    return found[0]


def _used(source: Source, choice: ast.If, name: str) -> bool:
    """Is the next thing done to it one that leaves it where it is?"""
    block = source.block(choice)
    for later in block[block.index(choice) + 1 :]:
        reads = [
            node
            for node in ast.walk(later)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]
        if reads:
            up = source.parents.get(reads[0])
            call = source.parents.get(up) if up is not None else None
            if isinstance(up, ast.Attribute) and up.attr in ("to", "cuda", "device", "cpu"):
                return isinstance(call, ast.Call) and not device_text(moved_to(call)).endswith("device")
            return True
    return False
