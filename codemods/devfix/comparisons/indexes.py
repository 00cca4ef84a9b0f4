"""Device indexes that get lost: 0 is the first device, and false."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.comparisons.judge import Verdict
from devfix.comparisons.kinds import Kinds, Sure
from devfix.flow.frame import path_of
from devfix.source import Source
from devfix.spotting import lines_with, on_lines

_SPELLED = (re.compile(r"\.index\s+(?:or|if)\b"), re.compile(r"\b0 if .*cpu|\b0 if .*cuda"))
_DEVICE = re.compile(r"(?:^|[._])dev(?:ice)?$")


def lost_indexes(source: Source, kinds: Kinds, torch: str) -> Iterator[Verdict]:
    """`device.index or -1` and `0 if device.type != "cpu" else -1`, which forget which device it is."""
    lines = lines_with(source, *_SPELLED)
    for node in on_lines(source.tree, lines) if lines else ():
        if isinstance(node, ast.BoolOp):
            yield from _falsy(source, kinds, node)
        elif isinstance(node, ast.IfExp):
            yield from _always_first(source, kinds, torch, node)


def _falsy(source: Source, kinds: Kinds, node: ast.BoolOp) -> Iterator[Verdict]:
    """`device.index or -1`: `cuda:0` has the index 0, and so becomes what stands for the CPU."""
    first, last = node.values[0], node.values[-1]
    if not isinstance(node.op, ast.Or) or len(node.values) != 2 or _number(last) in (0, None):
        return
    if isinstance(first, ast.Attribute) and first.attr == "index" and _named_device(kinds, first.value):
        shown = source.code(first)
        why = f"`{shown}` is 0 for the first device, and 0 is false: it becomes {source.code(last)}"
        yield Verdict(node, why, f"{source.code(last)} if {shown} is None else {shown}")


def _always_first(source: Source, kinds: Kinds, torch: str, node: ast.IfExp) -> Iterator[Verdict]:
    """`0 if str(device) != "cpu" else -1`: the first device, whichever it is."""
    test = node.test
    if _number(node.body) != 0 or _number(node.orelse) != -1:
        return
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return
    against = test.comparators[0]
    wanted = {ast.NotEq: "cpu", ast.Eq: "cuda"}.get(type(test.ops[0]))
    if not isinstance(against, ast.Constant) or against.value != wanted:
        return
    device = test.left
    if isinstance(device, ast.Call) and path_of(device.func) == "str" and len(device.args) == 1:
        device = device.args[0]
    elif isinstance(device, ast.Attribute) and device.attr == "type":
        device = device.value
    else:
        return
    if not _named_device(kinds, device):
        return
    shown = source.code(device)
    spelled = kinds.spellings(device)
    if spelled and not any(":" in text or text == "*" for text in spelled):
        return  # it never has an index
    why = f"the index of `{shown}` is lost: 0 is the first device, whichever `{shown}` is"
    # It may be a string, which `torch.device` takes as well.
    known = shown if kinds.device(device) is Sure.YES else f"{torch}.device({shown})"
    yield Verdict(node, why, f"({known}.index or 0) if {source.code(test)} else -1")


def _named_device(kinds: Kinds, node: ast.expr) -> bool:
    return kinds.device(node) is Sure.YES or bool(_DEVICE.search(path_of(node)))


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
