"""What is moved below the place where it is met: up to there it is on the CPU."""

from __future__ import annotations

import ast
import re

from devfix.factories.follow import Follow
from devfix.factories.meetings import Meeting
from devfix.factories.values import Fact, Form
from devfix.source import walk

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_TO = r"(?:to\((?:device=)?(?:(?:self\.)?(?:\w+\.)?device\w*\b(?!\.type)|\w+\.get_device\(|f?[\"'](?!cpu))|cuda\()"
# What moves a thing, after its name: `.to(device)`, `["x"].to(device)`, `.apply(lambda x: x.to(device))`,
# and before it: `move_to_device(`, `v.to(device) for k, v in`.
_MOVED = rf"(?:\[[^\]\n]*\])?\.(?:{_TO}|apply\([^\n]*\.{_TO})"
_HANDED = r"\w*(?:to_device|to_cuda|to_gpu|move_to|send_to)\w*\(\s*"
_PARTS = rf"\.{_TO}[^\n]*\bin\s+"
_MOVING = re.compile(r"\.(?:to|cuda)\(|_device\(|to_cuda|to_gpu|move_to|send_to")


def moved_later(follow: Follow, meeting: Meeting) -> bool:
    """`x = x.to(device)` below the meeting, or what x is part of: up to there x is on the CPU."""
    return moved_after(follow, meeting.node, meeting.anchor.text.removesuffix(".device"))


def moved_after(follow: Follow, node: ast.AST, path: str) -> bool:
    """Is what a path names moved below a node?"""
    source = follow.source
    end = len(source.text) if isinstance(follow.scope, ast.Module) else source.span(follow.scope).end
    after = source.text[source.span(node).end : end]
    return bool(_MOVING.search(after)) and any(
        re.search(
            rf"(?<![\w.]){re.escape(whole)}{_MOVED}|{_HANDED}{re.escape(whole)}\s*,|{_PARTS}{re.escape(whole)}\.",
            after,
        )
        for whole in _wholes(follow, path)
    )


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
            for node in walk(follow.scope) if size == 1 else ():
                if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Subscript)):
                    if any(isinstance(target, ast.Name) and target.id == whole for target in node.targets):
                        todo.append(follow.source.code(node.value))
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
