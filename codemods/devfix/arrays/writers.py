"""Functions of libraries beside numpy that need what they are given on the CPU: they write it, or compute with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.source import Source

# Function -> which argument it reads, its keyword, and whether that can be nothing but a tensor.
WRITERS = {
    "torchaudio.save": (1, "src", True),
    "torchvision.io.write_png": (0, "input", True),
    "torchvision.io.write_jpeg": (0, "input", True),
    "soundfile.write": (1, "data", False),
    "imageio.imwrite": (1, "im", False),
    "imageio.v2.imwrite": (1, "im", False),
    "pandas.DataFrame": (0, "data", False),
    "pandas.Series": (0, "data", False),
}
LIBRARIES = tuple({name.partition(".")[0] for name in WRITERS})
_LEARN = frozenset({"fit", "fit_transform", "fit_predict", "transform", "predict", "predict_proba", "score"})
LEARNS = re.compile(r"\.(?:fit|fit_transform|fit_predict|transform|predict|predict_proba|score)\(")


def written(source: Source, call: ast.Call, name: str) -> Iterator[tuple[ast.expr, bool]]:
    """What a call reads on the CPU, and whether it can be nothing but a tensor; `name` is what is called."""
    if name in WRITERS:
        at, keyword, tensor = WRITERS[name]
        if at < len(call.args):
            yield call.args[at], tensor
        else:
            yield from ((one.value, tensor) for one in call.keywords if one.arg == keyword)
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _LEARN:
        if _estimator(source, call.func.value):
            yield from ((one, False) for one in call.args[:2])


def _estimator(source: Source, node: ast.expr) -> bool:
    """Is it one of scikit-learn: `TSNE(2)`, or a name that the file gives to such things only?"""
    if isinstance(node, ast.Call):
        return source.qualified(node.func).startswith("sklearn.")
    if not isinstance(node, ast.Name):
        return False
    made = re.findall(rf"(?<![\w.]){re.escape(node.id)}\s*=\s*([\w.]+)\s*\(", source.text)
    return bool(made) and all(
        f"{source.imports.get(one.partition('.')[0], '')}.".startswith("sklearn.") for one in made
    )
