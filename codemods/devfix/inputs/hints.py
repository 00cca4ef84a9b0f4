"""What a function says of its tensors by itself: see `told`, and the modules that yield hints."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from devfix.findings import Edit
from devfix.text.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Hint:
    """A tensor that the text around it says to be in the wrong place; its fix is unsafe."""

    node: ast.AST  # where the finding stands
    message: str
    title: str
    edits: tuple[Edit, ...]
    related: ast.AST | None = None
    said: str = ""


def moved_to(node: ast.expr) -> ast.expr | str | None:
    """The device that a value is put on where it is made: `x.to(D).view(-1)`, `randperm(n, device=D)[:k]`.

    A text for `x.cuda()`; None where no device is named.
    """
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        if not isinstance(node, ast.Call):
            return None
        for keyword in node.keywords:
            if keyword.arg == "device":
                return keyword.value
        if not isinstance(node.func, ast.Attribute):
            return None
        if node.func.attr in ("cuda", "cpu") and not node.args:
            return f'"{node.func.attr}"'
        if node.func.attr == "to" and node.args:
            return node.args[0]
        node = node.func.value


def device_text(device: ast.expr | str | None) -> str:
    """How a device is written, whatever the quotes; empty for what is none."""
    if device is None:
        return ""
    text = device if isinstance(device, str) else ast.unparse(device).replace("'", '"')
    return "" if "dtype" in text or text.startswith(("torch.float", "torch.long", "torch.int")) else text


def function_of(source: Source, node: ast.AST) -> ast.Module | Function:
    """The function, or else the module, that a node stands in."""
    found = source.enclosing(node, *FUNCTIONS)
    return found if isinstance(found, FUNCTIONS) else source.tree
