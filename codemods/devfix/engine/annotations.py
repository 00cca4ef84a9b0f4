"""What a parameter is, as annotations, docstrings, defaults, its uses, and at last its name say."""

from __future__ import annotations

import ast
import re

from devfix.engine.evidence import is_device_name, is_loader_name, is_module_name
from devfix.engine.files import File, Function
from devfix.engine.forms import arms
from devfix.engine.uses import Evidence, Uses
from devfix.engine.values import (
    ARRAY,
    BATCH,
    DEVICE,
    LOADER,
    MODULE,
    NAME,
    NUMBER,
    PROVEN,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
)
from devfix.engine.visible import gpu_lists
from devfix.models.loader import models
from devfix.text.source import Source

_NUMBERS = frozenset(["int", "float", "bool", "complex"])
_SEQUENCES = frozenset(["list", "tuple", "sequence"])
_TENSOR = re.compile(r"tensors?\b")  # and not TensorBoard
_OF_TENSOR = re.compile(r"\bof (?:the|an?|our|this|that|each|its)\b[^,;:(]*tensor")  # "shape of the tensor"
_NO_NAME = re.compile(r"\W")
_LISTED = re.compile(r"(?:\w+\.)?(?:optional\[)?(?:\w+\.)?(?:list|tuple|sequence)\[[^|]*(?:\| *none)?$")
_PLAIN = frozenset(
    {
        "none", "optional", "union", "any", "list", "tuple", "dict", "sequence", "literal", "path", "dtype", "set",
        "iterable", "mapping", "type",
    }
)  # fmt: skip


def annotated(node: ast.expr | None) -> str:
    """The kind that an annotation or the type in a docstring says; an empty string if none."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return annotated_text(node.value)
    return annotated_text(ast.unparse(node))


def of_library(file: File, annotation: ast.expr | None) -> str:
    """The dotted name of the library's module class that an annotation allows, beside None, and no other."""
    named = [file.dotted(one) for one in arms(file, annotation)] if annotation is not None else []
    return named[0] if len(named) == 1 and models().layer(named[0]) == "module" else ""


def is_list(file: File, annotation: ast.expr | None) -> bool:
    """Does an annotation allow lists and tuples only, beside None?"""
    named = [file.dotted(one).lower() for one in arms(file, annotation)] if annotation is not None else []
    return bool(named) and all(one.rpartition(".")[2] in _SEQUENCES for one in named)


def annotated_text(text: str) -> str:
    low = text.lower()
    words = "".join(one if one.isalnum() or one == "_" else " " for one in text).split()
    lower = [one.lower() for one in words]
    if "callable" in low:
        return "other"
    tensors = any(one in ("tensor", "longtensor", "floattensor", "booltensor") for one in lower)
    arrays = "ndarray" in lower or "image" in lower or ("array" in lower and "np" in lower)
    if (tensors and arrays) or (tensors and any(one in _NUMBERS for one in lower)):
        return ""
    if tensors:
        inside = _SEQUENCES | {"dict", "iterable", "mapping"}
        return BATCH if any(one in inside for one in lower) else TENSOR
    if arrays:
        return ARRAY
    if "dataloader" in lower:
        return LOADER
    if "module" in lower and "list" not in lower:
        return MODULE
    if "device" in lower or "device_like_type" in lower:
        return DEVICE
    if not _NUMBERS.isdisjoint(lower) and all(one in _NUMBERS or one in _PLAIN for one in lower):
        return SEQUENCE if _LISTED.match(low) else NUMBER
    if "str" in lower and all(one in ("str", "none", "optional", "union") for one in lower):
        return TEXT
    if words and words[0][:1].isupper() and lower[0] not in _PLAIN:
        return "other"
    return ""


def _documented(function: Function) -> dict[str, str]:
    """Parameter -> the kind that the docstring says."""
    text = ast.get_docstring(function.node, clean=False)
    if not text:
        return {}
    found: dict[str, str] = {}
    names = {one.arg for one in function.parameters}
    for line in text.splitlines():
        head = line.strip().lstrip("-*:` ")
        head = head.removeprefix("param ").removeprefix("type ")
        name = _NO_NAME.split(head, maxsplit=1)[0]
        if name not in names:
            continue
        rest = head[len(name) :].split(". ")[0][:60].lower()
        if _TENSOR.search(_OF_TENSOR.sub("", rest)):
            inside = any(one in rest for one in ("list", "dict", "tuple"))
            found.setdefault(name, BATCH if inside else TENSOR)
        elif "ndarray" in rest or "numpy" in rest:
            found.setdefault(name, ARRAY)
        elif rest.lstrip(" :(`").startswith(("int", "float", "bool")):
            found.setdefault(name, NUMBER)
        elif rest.lstrip(" :(`").startswith("str"):
            found.setdefault(name, TEXT)
    return found


def is_taken_apart(source: Source, function: ast.AST, name: str) -> bool:
    """Does a function only take elements of what has a name, one by one, as it would of a list?"""
    found = False
    for node in source.names(function).get(name, ()):
        up = source.parents[node]
        found = True
        if isinstance(up, ast.Subscript):
            if up.value is not node or isinstance(up.slice, (ast.Tuple, ast.Slice)):
                return False
        elif isinstance(up, ast.Call):
            if not isinstance(up.func, ast.Name) or up.func.id not in ("len", "zip", "enumerate"):
                return False
        elif not isinstance(up, (ast.For, ast.comprehension)) or up.iter is not node:
            return False
    return found


def parameters(function: Function, uses: Uses) -> dict[str, Evidence]:
    """What each parameter of a function is, as far as the function itself tells."""
    told = _documented(function)
    found: dict[str, Evidence] = {}
    for one in function.parameters:
        name = one.arg
        kind = annotated(one.annotation) or told.get(name, "")
        if (
            kind == TENSOR
            and one.annotation is None
            and is_taken_apart(function.file.source, function.node, name)
        ):
            kind = BATCH  # "tensor" may mean a list of them
        may_be_device = is_device_name(name) and (function.node, name) not in gpu_lists(function.file.source)
        if kind == TEXT and may_be_device:
            kind = DEVICE
        elif kind == "other" and of_library(function.file, one.annotation):
            kind = MODULE
        doubted = name in uses.listed
        if kind == "other" and one.annotation is not None and ast.unparse(one.annotation).endswith("Tensor"):
            kind, doubted = TENSOR, True  # of a class of tensors out of sight
        if kind:
            assumed = frozenset({Assumption(USES, name)}) if doubted else PROVEN
            found[name] = (UNKNOWN if kind == "other" else kind, assumed)
            continue
        default = function.defaults.get(name)
        constant = default.value if isinstance(default, ast.Constant) else ...
        if isinstance(constant, (int, float)):
            found[name] = NUMBER, PROVEN
            continue
        evidence = uses.kind(name)
        if evidence[0] == UNKNOWN:
            if may_be_device and uses.attributes.get(name, set()) <= {"type", "index"}:
                evidence = DEVICE, frozenset({Assumption(NAME, name)})
            elif constant is not ... and constant is not None:
                evidence = (NUMBER if not isinstance(constant, str) else TEXT), PROVEN
            elif name in uses.numbers:
                evidence = NUMBER, frozenset({Assumption(USES, name)})
            elif is_module_name(name) and (name in uses.called or uses.attributes.get(name)):
                is_moved = name in uses.moved  # of what else there is, moving changes nothing
                evidence = MODULE, frozenset({Assumption(USES if is_moved else NAME, name)})
            elif is_loader_name(name):
                evidence = LOADER, frozenset({Assumption(NAME, name)})
        found[name] = evidence
    return found
