"""A constructor of another library that takes the current GPU, in a process where llama.cpp may change which that is.

Seen in private-gpt: embeddings on an index-less "cuda" and a model that llama.cpp spreads over all GPUs. "cuda" is the
*current* GPU each time that it is used, and llama.cpp leaves the one current that it used last, so that the weights
are on one GPU and the inputs go to another. Which GPU is right is for a person to say.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from devfix.defaults.constructors import CONSTRUCTORS
from devfix.findings import Related
from devfix.flow import Flow
from devfix.remarks import Remark
from devfix.source import Source

SPREADS = "n_gpu_layers"


def remarks(flow: Flow) -> Iterator[Remark]:
    source = flow.source
    calls = [call for call in source.calls if _takes_current(source, call)]
    if not calls:
        return
    others: list[tuple[str, Source]] = [("", source)] if SPREADS in source.text else []
    if not others:
        others += flow.beside(SPREADS)
    for path, other in others:
        node = next((node for node in other.walk() if _spreads(node)), None)
        if node is None:
            continue
        span = other.span(node)
        line, column = other.position(span.start)
        where = f"{os.path.basename(path)}, line {line}," if path else f"line {line}"
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            name = source.code(call.func)
            yield Remark(
                source.span(call),
                f"`{name}` without `device` is on whichever GPU is current, when it is made and each time that it is "
                f"called, and llama.cpp (`{SPREADS}`, {where} in the same process) uses every GPU and may leave "
                "another one current; pass one explicit `device`, taken from one place",
                related=(Related(span, "all GPUs are used here", path, line, column),),
            )
        return


def _takes_current(source: Source, call: ast.Call) -> bool:
    parameter, default = CONSTRUCTORS.get(source.qualified(call.func), ("", ""))
    if default != "auto" or any(keyword.arg in (parameter, None) for keyword in call.keywords):
        return False
    plain = [isinstance(argument, ast.Constant) and isinstance(argument.value, str) for argument in call.args]
    return plain in ([], [True])  # a name of a model; anything else may be the device


def _spreads(node: ast.AST) -> bool:
    """`n_gpu_layers=-1` or `{"n_gpu_layers": -1}`, for llama.cpp: not 0, which is the CPU."""
    if isinstance(node, ast.keyword) and node.arg == SPREADS:
        return _some(node.value)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return any(
            isinstance(key, ast.Constant) and key.value == SPREADS and _some(value) for key, value in pairs
        )
    return False


def _some(node: ast.expr) -> bool:
    try:
        return ast.literal_eval(node) not in (0, None)
    except ValueError:
        return False  # a setting: it may be none
