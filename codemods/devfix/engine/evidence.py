"""What a value is where its making is out of sight: annotations, docstrings, uses, and at last names.

The only place that looks at what something is called. Evidence proposes a kind; it never takes a fact away.
"""

from __future__ import annotations

import ast

from devfix.engine.files import Function
from devfix.engine.values import (
    ARRAY,
    BATCH,
    DEVICE,
    LOADER,
    MODULE,
    NAME,
    NUMBER,
    PROVEN,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Assumptions,
)
from devfix.models.loader import models

Evidence = tuple[str, Assumptions]
NO_EVIDENCE: Evidence = (UNKNOWN, PROVEN)

# Methods and attributes that, of all that programs pass around, only tensors have.
_CALLED_USES = frozenset({"size()", "dim()"})  # of arrays these are no methods
TENSOR_USES = _CALLED_USES | frozenset(
    [
        "unsqueeze",
        "unsqueeze_",
        "permute",
        "contiguous",
        "detach",
        "log_softmax",
        "expand",
        "expand_as",
        "view_as",
        "masked_fill",
        "masked_fill_",
        "scatter_",
        "scatter_add_",
        "index_select",
        "matmul",
        "bmm",
        "type_as",
        "new_zeros",
        "new_ones",
        "new_tensor",
        "new_full",
        "new_empty",
        "unbind",
        "narrow",
        "normal_",
        "zero_",
        "clamp",
        "clamp_",
        "topk",
        "requires_grad_",
        "repeat_interleave",
        "masked_select",
        "triu",
        "tril",
        "logsumexp",
        "index_fill_",
        "index_add_",
        "reshape_as",
        "bernoulli",
        "uniform_",
        "is_contiguous",
        "softmax",
        "sigmoid",
        "log1p",
        "numel",
        "squeeze",
        "flatten",
    ]
)
# What arrays have as well: two of them, or one and what arrays lack.
_SHARED_USES = frozenset(
    [
        "shape",
        "dtype",
        "ndim",
        "reshape",
        "transpose",
        "sum",
        "mean",
        "max",
        "min",
        "T",
        "astype",
        "argmax",
        "clip",
        "size",
    ]
)
_TORCH_USES = frozenset(
    ["device", "cuda", "cpu", "requires_grad", "is_cuda", "float", "half", "long", "dim", "view", "grad"]
)
MODULE_USES = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "named_children",
        "buffers",
        "named_buffers",
        "add_module",
        "register_buffer",
        "register_parameter",
        "register_forward_hook",
        "get_submodule",
        "zero_grad",
    ]
)
_OTHER_USES = frozenset(
    [
        "items",
        "keys",
        "values",
        "append",
        "split",
        "strip",
        "join",
        "format",
        "get",
        "update",
        "read",
        "write",
        "lower",
        "upper",
    ]
)
_DEVICE_NAMES = frozenset({"device", "dev", "torch_device", "map_location"})
_MODULE_NAMES = frozenset(
    {"model", "net", "network", "module", "encoder", "decoder", "generator", "discriminator", "backbone"}
)
_DEVICE_WORDS = ("cuda", "gpu", "device", "cpu", "mps", "xpu", "accelerat")
_NUMBERS = frozenset(["int", "float", "bool", "complex"])
_PLAIN = frozenset(
    [
        "none",
        "optional",
        "union",
        "any",
        "list",
        "tuple",
        "dict",
        "sequence",
        "literal",
        "path",
        "dtype",
        "set",
        "iterable",
        "mapping",
        "type",
    ]
)


def is_device_name(name: str) -> bool:
    """Is a name, or an attribute, one that people give devices?"""
    return name in _DEVICE_NAMES or name.endswith("_device")


def is_module_name(name: str) -> bool:
    return name in _MODULE_NAMES or name.endswith(("_model", "_net"))


def is_loader_name(name: str) -> bool:
    return name.endswith(("loader", "dataloader", "loaders"))


def about_devices(condition: object) -> bool:
    """Does a condition ask for a device or an accelerator, by the words of its text?"""
    if isinstance(condition, tuple):
        return any(about_devices(one) for one in condition)
    text = condition.lower() if isinstance(condition, str) else ""
    return any(word in text for word in _DEVICE_WORDS)


def compares_devices(condition: object) -> bool:
    """Does a condition ask whether two values are in one place?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else condition
    return isinstance(text, str) and ".device" in text and "==" in text


def annotated(node: ast.expr | None) -> str:
    """The kind that an annotation or the type in a docstring says; an empty string if none."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return annotated_text(node.value)
    return annotated_text(ast.unparse(node))


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
        inside = ("list", "dict", "tuple", "sequence", "iterable", "mapping")
        return BATCH if any(one in inside for one in lower) else TENSOR
    if arrays:
        return ARRAY
    if "dataloader" in lower:
        return LOADER
    if "module" in lower and "list" not in lower:
        return MODULE
    if "device" in lower or "device_like_type" in lower:
        return DEVICE
    if (
        lower
        and all(one in _NUMBERS or one in _PLAIN for one in lower)
        and any(one in _NUMBERS for one in lower)
    ):
        return NUMBER
    if (
        lower
        and "str" in lower
        and all(one == "str" or one in ("none", "optional", "union") for one in lower)
    ):
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
        name = ""
        for one in head:
            if not (one.isalnum() or one == "_"):
                break
            name += one
        if name not in names:
            continue
        rest = head[len(name) :].split(". ")[0][:60].lower()
        if "tensor" in rest:
            inside = any(one in rest for one in ("list", "dict", "tuple"))
            found.setdefault(name, BATCH if inside else TENSOR)
        elif "ndarray" in rest or "numpy" in rest:
            found.setdefault(name, ARRAY)
        elif rest.lstrip(" :(`").startswith(("int", "float", "bool")):
            found.setdefault(name, NUMBER)
        elif rest.lstrip(" :(`").startswith("str"):
            found.setdefault(name, TEXT)
    return found


class Uses:
    """What a function does with its names."""

    def __init__(self, function: Function) -> None:
        self.attributes: dict[str, set[str]] = {}
        self.called: set[str] = set()
        self.sliced: set[str] = set()  # x[:, 0], x[..., None]
        self.devices: set[str] = set()  # device=x, .to(x) among names that are called so
        self.targets: set[str] = set()  # .to(x)
        self.looped: set[str] = set()  # for x in
        self.numbers: set[str] = set()
        self.asks_for_devices = False  # x.device, .cuda(), device=
        self.operands: set[str] = set()  # given to a function that takes tensors only
        dotted = function.file.dotted
        find = models().function
        for node in function.nodes:
            kind = node.__class__
            if kind is ast.Attribute:
                if node.attr in ("device", "cuda", "is_cuda"):  # type: ignore[attr-defined]
                    self.asks_for_devices = True
                if node.value.__class__ is ast.Name:  # type: ignore[attr-defined]
                    self.attributes.setdefault(node.value.id, set()).add(node.attr)  # type: ignore[attr-defined]
            elif isinstance(node, ast.Call):
                func = node.func
                if (
                    isinstance(func, ast.Attribute)
                    and isinstance(func.value, ast.Name)
                    and func.attr in ("size", "dim")
                ):
                    self.attributes.setdefault(func.value.id, set()).add(f"{func.attr}()")
                for keyword in node.keywords:
                    self.asks_for_devices = self.asks_for_devices or keyword.arg == "device"
                    if keyword.arg == "device" and isinstance(keyword.value, ast.Name):
                        self.devices.add(keyword.value.id)
                if isinstance(node.func, ast.Name):
                    self.called.add(node.func.id)
                    if node.func.id in ("range", "int", "float", "bool", "open"):
                        self.numbers.update(one.id for one in node.args if isinstance(one, ast.Name))
                if not node.args or not isinstance(node.args[0], ast.Name):
                    continue
                if isinstance(func, ast.Attribute) and func.attr == "to":
                    self.targets.add(node.args[0].id)
                name = dotted(node.func)
                if name == "torch.device":
                    self.devices.add(node.args[0].id)
                elif name.startswith("torch."):
                    row = find(name)
                    if row is not None and row.form in ("same", "follow", "like") and name != "torch.where":
                        self.operands.add(node.args[0].id)
            elif kind is ast.For or kind is ast.comprehension:
                self.looped.update(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))  # type: ignore[attr-defined]
            elif isinstance(node, ast.Subscript):
                if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Tuple):
                    if any(isinstance(one, ast.Slice) or _new_axis(one) for one in node.slice.elts):
                        self.sliced.add(node.value.id)

    def kind(self, name: str) -> Evidence:
        """What the uses of a name say; UNKNOWN if nothing."""
        used = self.attributes.get(name, set())
        if used & MODULE_USES:
            return MODULE, frozenset({Assumption(USES, name)})
        if used & TENSOR_USES or (name in self.operands and not used & _OTHER_USES):
            return TENSOR, PROVEN
        if name in self.sliced and used & _TORCH_USES:
            return TENSOR, PROVEN
        if used & _TORCH_USES and len(used & _SHARED_USES) >= 1 and not used & _OTHER_USES:
            return TENSOR, frozenset({Assumption(USES, name)})
        if name in self.devices and name not in self.called:
            return DEVICE, frozenset({Assumption(USES, name)})
        return NO_EVIDENCE


def _new_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ...)


def parameters(function: Function, uses: Uses) -> dict[str, Evidence]:
    """What each parameter of a function is, as far as the function itself tells."""
    documented = _documented(function)
    found: dict[str, Evidence] = {}
    for one in function.parameters:
        name = one.arg
        kind = annotated(one.annotation) or documented.get(name, "")
        if kind == TEXT and is_device_name(name):
            kind = DEVICE
        if kind:
            found[name] = (UNKNOWN if kind == "other" else kind, PROVEN)
            continue
        default = function.defaults.get(name)
        constant = default.value if isinstance(default, ast.Constant) else ...
        if isinstance(constant, (int, float)):
            found[name] = NUMBER, PROVEN
            continue
        evidence = uses.kind(name)
        if evidence[0] == UNKNOWN:
            if is_device_name(name):
                evidence = DEVICE, frozenset({Assumption(NAME, name)})
            elif constant is not ... and constant is not None:
                evidence = (NUMBER if not isinstance(constant, str) else TEXT), PROVEN
            elif name in uses.numbers:
                evidence = NUMBER, frozenset({Assumption(USES, name)})
            elif is_module_name(name) and (name in uses.called or uses.attributes.get(name)):
                evidence = MODULE, frozenset({Assumption(NAME, name)})
            elif is_loader_name(name):
                evidence = LOADER, frozenset({Assumption(NAME, name)})
        found[name] = evidence
    return found
