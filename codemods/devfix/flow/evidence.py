"""What names, annotations and uses say about a value whose making is out of sight.

Names alone are weak evidence: a value known only by its name is never `sure`.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property

from devfix.flow import torch_api
from devfix.source import Source

_DEVICE_NAME = re.compile(r"(?:^|[_.])(?:device|dev|gpu|device_id|local_rank)s?\d*$", re.IGNORECASE)
_LOADER_NAME = re.compile(r"(?:data_?)?loader\w*$", re.IGNORECASE)
_MODULE_NAME = re.compile(
    r"(?:^|[_.])(?:model|net|network|encoder|decoder|generator|discriminator|classifier|backbone|unet|vae|"
    r"module|critic|actor|policy|net[dg])\d*$",
    re.IGNORECASE,
)
_MODULE_ANNOTATION = re.compile(r"(?:^|\.)(?:Module|PreTrainedModel|\w+Model|\w+Net)$")
_TENSOR_ANNOTATION = re.compile(r"(?:^|\.)(?:Tensor|\w*Tensor)$")
_USE = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*?)\.(\w+)\b")


def looks_like_device(path: str) -> bool:
    return bool(_DEVICE_NAME.search(path))


def looks_like_loader(path: str) -> bool:
    return bool(_LOADER_NAME.search(path))


def looks_like_module(path: str) -> bool:
    return bool(_MODULE_NAME.search(path))


def annotation_text(node: ast.expr | None) -> str:
    """The name an annotation comes down to: `Optional[torch.Tensor]`, `"nn.Module" | None` included."""
    while node is not None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.partition("|")[0].strip()
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Subscript):
            head = annotation_text(node.value)
            if head.rpartition(".")[2] != "Optional":
                return head
            node = node.slice
        elif isinstance(node, ast.Attribute):
            return f"{annotation_text(node.value)}.{node.attr}"
        elif isinstance(node, ast.Name):
            return node.id
        else:
            return ""
    return ""


def annotated_kind(node: ast.expr | None) -> str:
    """'module', 'tensor', 'loader', 'device', 'string' or ''."""
    text = annotation_text(node)
    if not text:
        return ""
    if _MODULE_ANNOTATION.search(text):
        return "module"
    if _TENSOR_ANNOTATION.search(text):
        return "tensor"
    last = text.rpartition(".")[2]
    if last == "DataLoader":
        return "loader"
    if text in ("torch.device", "device"):
        return "device"
    return {"str": "string"}.get(text, "")


class Evidence:
    """Dotted names of one file by the attributes that are used on them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def _uses(self) -> dict[str, set[str]]:
        uses: dict[str, set[str]] = {}
        for match in _USE.finditer(self._source.text):
            uses.setdefault(match[1], set()).add(match[2])
        return uses

    def used_as_module(self, path: str) -> bool:
        return not torch_api.MODULE_ONLY.isdisjoint(self._uses.get(path, ()))

    def used_as_tensor(self, path: str) -> bool:
        uses = self._uses.get(path, ())
        return not torch_api.TENSOR_ONLY.isdisjoint(uses) and torch_api.MODULE_ONLY.isdisjoint(uses)
