"""Sums of losses: what a program trains on is where it moves its data."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from devfix.factories.operations import names_device
from devfix.factories.values import Anchor, Form
from devfix.source import walk

if TYPE_CHECKING:
    from devfix.factories.follow import Follow

# A device of the class that something is moved to, or made on.
_OWN = re.compile(r"(?:\.to\(|[(,][ \t]*(?:device=)?)(self(?:\.\w+)*\.device)\b(?!\.)")
# A class that moves itself to a device that a package tells.
_ITSELF = re.compile(r"\bself\.to\(((?:\w+\.)+device)\)")


def trained(follow: Follow, node: ast.expr) -> Anchor | None:
    """Where a loss is that the scope takes gradients of, if the text tells where it works."""
    owner = follow.owner
    if owner is not None and owner.module and (itself := _ITSELF.search(owner.code)) is not None:
        # What its parts give is where it moved itself, and them.
        where, losses = itself.group(1), [n.id for n in walk(node) if isinstance(n, ast.Name)]
        if where.partition(".")[0] in follow.source.imports and any(n.endswith("loss") for n in losses):
            return Anchor(where, False)
    if not isinstance(node, ast.Name):
        return None
    code, name = follow.source.code(follow.scope), re.escape(node.id)
    if not re.search(rf"\b{name}\.backward\(|backward\(\s*{name}\b|\(\s*{name},[^()\n]*optim", code):
        return None
    for key, fact in follow.names.items():
        if fact.form is Form.DEVICE and fact.anchor is not None and names_device(key):
            if re.search(rf"\.to\((?:device=)?{re.escape(key)}\b", code):
                return Anchor(fact.anchor.text, False)
    own = set(_OWN.findall(follow.owner.code)) if follow.owner is not None else set()
    if len(own) == 1:
        return Anchor(own.pop(), False)
    return Anchor('"cuda"', False) if ".cuda()" in code and not own else None
