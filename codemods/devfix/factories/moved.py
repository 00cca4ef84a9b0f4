"""What is moved below the place where it is met: up to there it is on the CPU."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left

from devfix.factories.follow import Follow
from devfix.factories.meetings import Meeting
from devfix.factories.values import Fact, Form
from devfix.source import Source, remembered

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_TO = r"(?:to\((?:device=)?(?:(?:self\.)?(?:\w+\.)?device\w*\b(?!\.type)|\w+\.get_device\(|f?[\"'](?!cpu))|cuda\()"
# What moves a thing, after its name: `.to(device)`, `["x"].to(device)`, `.apply(lambda x: x.to(device))`,
# and before it: `move_to_device(`, `v.to(device) for k, v in`.
_MOVED = re.compile(
    rf"(?<![\w.])([A-Za-z_]\w{{0,99}}(?:\.\w{{1,99}}){{0,20}}?)(?=(?:\[[^\]\n]{{0,200}}\])?\.(?:{_TO}|apply\([^\n]{{0,300}}\.{_TO}))"
)
_HANDED = re.compile(r"(?:to_device|to_cuda|to_gpu|move_to|send_to)\w{0,80}\(\s*([\w.]+)(?=\s*,)")
_PARTS = re.compile(rf"\.{_TO}")
_IN = re.compile(r"\bin\s+([\w.]+)\.")


def moved_later(follow: Follow, meeting: Meeting) -> bool:
    """`x = x.to(device)` below the meeting, or what x is part of: up to there x is on the CPU."""
    return moved_after(follow, meeting.node, meeting.anchor.text.removesuffix(".device"))


def moved_after(follow: Follow, node: ast.AST, path: str) -> bool:
    """Is what a path names moved below a node?"""
    source = follow.source
    moves = _moves(source)
    if not moves:
        return False
    end = len(source.text) if isinstance(follow.scope, ast.Module) else source.span(follow.scope).end
    start = source.span(node).end
    for whole in _wholes(follow, path):
        found = moves.get(whole, ())
        at = bisect_left(found, start)
        if at < len(found) and found[at] < end:
            return True
    return False


@remembered
def _moves(source: Source) -> dict[str, list[int]]:
    """Path -> the offsets at which it is moved, as the text shows, in order."""
    found: dict[str, list[int]] = {}
    text = source.text
    for pattern in (_MOVED, _HANDED):
        for match in pattern.finditer(text):
            found.setdefault(match.group(1), []).append(match.start())
    last = 0
    for match in _PARTS.finditer(text):
        if match.start() < last:
            continue
        last = text.find("\n", match.end())
        last = last if last >= 0 else len(text)
        begins = [one.start() for one in _PARTS.finditer(text, match.start(), last)]
        for other in _IN.finditer(text, match.end(), last):
            parts = other.group(1).split(".")
            for size in range(1, len(parts) + 1):
                nearest = begins[bisect_left(begins, other.start()) - 1]
                found.setdefault(".".join(parts[:size]), []).append(nearest)
    for offsets in found.values():
        offsets.sort()
    return found


def _wholes(follow: Follow, text: str) -> set[str]:
    """What is met, and what it is part of: `data.x` and `data`, also under another name."""
    found: set[str] = set()
    todo = [text]
    while todo:
        path = _PATH.match(todo.pop())
        parts = path.group(0).split(".") if path is not None else []
        for size in range(1 + (parts[:1] == ["self"]), len(parts) + 1):
            whole = ".".join(parts[:size])
            if whole in found:
                continue
            found.add(whole)
            if size == 1:
                todo += _other_names(follow.source, follow.scope).get(whole, ())
    return found


@remembered
def _other_names(source: Source, scope: ast.AST) -> dict[str, list[str]]:
    """Name -> the parts of other things that it is given in a function."""
    found: dict[str, list[str]] = {}
    for node in source.of_kind(ast.Assign, scope):
        if isinstance(node.value, (ast.Attribute, ast.Subscript)):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(source.code(node.value))
    return found


def of_host(follows: list[Follow]) -> set[tuple[ast.AST, str]]:
    """Parameters that are given tensors of the default device wherever they are given something."""
    host: set[tuple[ast.AST, str]] = set()
    others: set[tuple[ast.AST, str]] = set()
    for follow in follows:
        for one in follow.passed:
            for name, fact in one.given.items():
                path = one.written[name]
                told = fact.placed and fact.anchor is not None and fact.anchor.text != f"{path}.device"
                moved = follow.moved_then(one.node, named=True) or moved_after(follow, one.node, path)
                here = fact.stray or _on_cpu(fact) or (not told and moved)
                (host if here else others).add((one.callee, f"{name}.device"))
    return host - others


def _on_cpu(fact: Fact) -> bool:
    """Is it what `.cpu()` gave, or made from that?"""
    return fact.form is Form.TENSOR and fact.anchor is None and not fact.origins
