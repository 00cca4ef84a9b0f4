"""GPUs by number: where values on two of them come together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.certainty import why_silent
from devfix.engine.analysis import Analysis
from devfix.engine.facts import Mismatch
from devfix.engine.places import APART
from devfix.engine.values import MODULE, MOVE
from devfix.findings import AppendCall, Edit, Finding, Related, ReplaceExpression, told
from devfix.text.source import Source

# Says which GPU is meant by "cuda" without a number.
_CURRENT = ("set_device(", "cuda.device(", "CUDA_VISIBLE_DEVICES", "device_of(")


def meetings(analysis: Analysis) -> Iterator[Finding]:
    """Modules and tensors on different GPUs that come together: one finding for each value that should be elsewhere."""
    source = analysis.file.source
    current = any(sign in source.text for sign in _CURRENT)
    seen = set[ast.AST]()
    for one in analysis.mismatches:
        node, (gpu, own) = one.stray_node, (str(one.stray_place.key), str(one.anchor_place.key))
        if one.relation != APART or one.guarded or one.file is not analysis.file or node in seen:
            continue
        if not isinstance(node, ast.expr) or why_silent(one, analysis):
            continue
        if current and not (":" in gpu and ":" in own):
            continue
        seen.add(node)
        yield told(
            "one-device",
            source.span(node),
            f"`{source.code(node)}` is on `{gpu}`, but {_other(one, source, own)}: this raises",
            f"move it to `{own}`",
            (_moved(source, node, own),),
            related=tuple(_moved_at(one, source)),
            assumes=f"both belong on `{own}`",
        )


def _other(mismatch: Mismatch, source: Source, own: str) -> str:
    """What it meets, and where that is."""
    if mismatch.anchor.kind == MODULE:
        return f"`{mismatch.operation}` is on `{own}`"
    if isinstance(mismatch.anchor_node, ast.expr):
        return f"is combined with `{source.code(mismatch.anchor_node)}` on `{own}`"
    return f"`{mismatch.operation}` combines it with a value on `{own}`"


def _moved(source: Source, node: ast.expr, gpu: str) -> Edit:
    """A value on another GPU: where it is moved right there, by the other number."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        told = node.args[0]
        if node.func.attr in ("to", "cuda") and isinstance(told, ast.Constant):
            number = gpu.partition(":")[2] if isinstance(told.value, int) else ""
            return ReplaceExpression(source.span(told), number or f'"{gpu}"')
    return AppendCall(source.span(node), f'.to("{gpu}")')


def _moved_at(mismatch: Mismatch, source: Source) -> Iterator[Related]:
    """The move of a module to its GPU."""
    for link in mismatch.anchor.links if mismatch.anchor.kind == MODULE else ():
        if link.kind == MOVE and link.file is mismatch.file:
            yield Related(source.span(link.node), f"`{mismatch.operation}` gets its device here")
