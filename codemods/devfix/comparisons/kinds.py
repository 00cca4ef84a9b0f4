"""What the side of a comparison certainly is: a torch.device, and one with an index or without."""

from __future__ import annotations

import ast
import re
from enum import IntEnum
from functools import cached_property

from devfix.bindings import Binding, FunctionNode, function_around
from devfix.comparisons.proof import Proof
from devfix.device_forms import DeviceForms
from devfix.flow import Flow
from devfix.flow.evidence import annotation_text, declared
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Types of device that torch knows, and those that get an index as soon as a tensor is there.
TYPES = frozenset(
    {"cpu", "cuda", "mps", "xpu", "npu", "hpu", "mlu", "musa", "xla", "meta", "hip", "ipu", "vulkan"}
)
INDEXED = TYPES - {"cpu", "meta", "vulkan"}
# Libraries whose models and pipelines have a `device` that is a torch.device.
_LIBRARIES = ("transformers.", "diffusers.", "pytorch_lightning.", "lightning.", "peft.", "timm.")
_BASES = re.compile(
    r"(?:LightningModule|PreTrainedModel|ModelMixin|DiffusionPipeline|ConfigMixin|GenerationMixin)$"
)
_TENSOR_ATTRIBUTES = frozenset(
    {"weight", "bias", "data", "grad", "running_mean", "running_var", "weight_g", "weight_v", "input_ids"}
)
# Calls and attributes that give a torch.device, by how their names end.
_GIVES_DEVICE = re.compile(
    r"(?:^|\.)(?:model_management\.(?:get_torch_device|\w+_(?:offload_)?device)|torch_utils\.select_device|"
    r"get_torch_device)$"
)
_OPTIONS = re.compile(
    r"(?:^|\.)_?(?:args?|opts?|options|cfg|config|conf|hparams|hps|params|flags|kwargs|state)$", re.I
)
_ANNOTATIONS = ("torch.device", "device")
_DEPTH = 6  # of names that stand for names
# Variables of libraries that are a torch.device.
_GLOBALS = frozenset({"flair.device", "modules.devices.device", "modules.shared.device"})
_OWNERS = re.compile(r"(?:^|\.)_?(?:accelerator|fabric)$")


class Sure(IntEnum):
    """How sure it is that an expression is a torch.device."""

    NO = 0
    LIKELY = 1  # a torch.device by annotation or use; a string is not ruled out
    YES = 2


class Kinds:
    """Kinds of the expressions of one file."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.forms = DeviceForms(flow)
        self.bindings = self.forms.bindings
        self.proof = Proof(self.forms)

    # --- torch.device or not ---------------------------------------------------------------

    def device(self, node: ast.expr, depth: int = 0) -> Sure:
        """Is an expression a torch.device?"""
        if depth > _DEPTH:
            return Sure.NO
        if isinstance(node, ast.IfExp):
            return self._least([node.body, node.orelse], depth)
        if isinstance(node, ast.BoolOp):
            return self._least(node.values, depth)
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        path = path_of(node)
        if path and self.proof.has_type(path, node):
            return Sure.YES
        if isinstance(node, ast.Attribute) and node.attr == "device":
            return self._attribute(node, depth)
        if not path:
            return Sure.NO
        if isinstance(node, ast.Name) and self._made_here(node):
            return Sure.YES
        found = self._bound(self.bindings.of(path, node), depth)
        return Sure.LIKELY if found is Sure.NO and self.proof.converted(path, node) else found

    def _least(self, nodes: list[ast.expr], depth: int) -> Sure:
        """The least sure of several, None left out."""
        wanted = [node for node in nodes if not (isinstance(node, ast.Constant) and node.value is None)]
        return min((self.device(node, depth + 1) for node in wanted), default=Sure.NO)

    def _called(self, node: ast.Call, depth: int) -> Sure:
        name = self.source.qualified(node.func) or path_of(node.func)
        if name in ("torch.device", "torch.accelerator.current_accelerator"):
            return Sure.YES
        if _GIVES_DEVICE.search(name):
            return Sure.LIKELY if name.endswith("get_torch_device") else Sure.YES
        function = self.forms.function_of(node)
        return self._returned(function, depth) if function is not None else Sure.NO

    def _returned(self, function: FunctionNode, depth: int) -> Sure:
        values = [
            inner.value
            for inner in self.source.walk(function)
            if isinstance(inner, ast.Return)
            and inner.value is not None
            and self.source.enclosing(inner, *_FUNCTIONS) is function
        ]
        return self._least(values, depth)

    def _made_here(self, node: ast.expr) -> bool:
        """Does flow know that this very read sees the result of `torch.device(...)`?"""
        value = self.flow.value(node)
        return (
            value.kind is Kind.DEVICE
            and value.parameter < 0
            and isinstance(value.node, ast.Call)
            and self.source.qualified(value.node.func) == "torch.device"
            and value.form == "object"
        )

    def _bound(self, bindings: list[Binding], depth: int) -> Sure:
        """What all bindings of a name agree on; an annotation is but a claim."""
        told = [b for b in bindings if b.parameter or not _is_none(b.value)]
        found = Sure.YES if told else Sure.NO
        for binding in told:
            if not binding.parameter:
                sure = self.device(binding.value, depth + 1) if binding.value is not None else Sure.NO
            elif (
                isinstance(binding.node, ast.arg) and annotation_text(binding.node.annotation) in _ANNOTATIONS
            ):
                default = binding.value
                text = isinstance(default, ast.Constant) and isinstance(default.value, str)
                sure = Sure.NO if text else Sure.LIKELY
            else:
                sure = Sure.NO
            found = min(found, sure)
        return found

    def _attribute(self, node: ast.Attribute, depth: int) -> Sure:
        """`x.device`: of a tensor, a model of a library, a parameter; not of any object."""
        base, path = node.value, path_of(node.value)
        if isinstance(base, ast.Call) and path_of(base.func) == "next":
            return Sure.YES
        if path == "self":
            return self._own(node, depth)
        if isinstance(base, ast.Attribute) and base.attr in _TENSOR_ATTRIBUTES:
            return Sure.YES
        full = f"{path}.device"
        options = is_options(path) or any(_is_parsed(b.value) for b in self.bindings.of(path, base))
        bound = self.bindings.of(full, node) if path else []
        if bound:
            # Of anything but a bag of options, a property may make of it what it wants; and the options
            # are those of the command line until something is stored.
            return self._bound(bound, depth) if options and self._is_stored(bound, node) else Sure.NO
        if options:
            return Sure.NO
        value = self.flow.value(base)
        if value.kind is Kind.OWNER or _OWNERS.search(path):
            return Sure.YES
        if value.kind is Kind.TENSOR:
            known = value.sure or (path and self.flow.evidence.used_as_tensor(path))
            return Sure.YES if known else Sure.LIKELY
        if isinstance(base, ast.Name) and base.id in self.source.imports:
            known = self.source.qualified(node) in _GLOBALS or self.proof.has_type_anywhere(full)
            return Sure.YES if known else Sure.NO
        if path and self.proof.is_module(path, node):
            return Sure.LIKELY
        if not path or path in self._owners_of_strings:
            return Sure.NO
        if self._from_library(base, path):
            return Sure.YES
        if self.flow.evidence.used_as_tensor(path) and not path.startswith("self."):
            return Sure.YES
        moves = self._moves.get(path, ())
        if any(reassigned for _, reassigned in moves):
            return Sure.LIKELY
        return Sure.NO

    def _is_stored(self, bindings: list[Binding], node: ast.AST) -> bool:
        """Does one of these stand above a node, or in another function?"""
        around, start = function_around(self.source, node), self.source.span(node).start
        return any(
            function_around(self.source, one.node) is not around or self.source.span(one.node).start < start
            for one in bindings
        )

    def _own(self, node: ast.Attribute, depth: int) -> Sure:
        """`self.device`, by what the class binds it to, or by the library that its base is of."""
        owner = self.source.enclosing(node, ast.ClassDef)
        if not isinstance(owner, ast.ClassDef) or "setattr(self" in self.source.code(owner):
            return Sure.NO
        for item in owner.body:
            if isinstance(item, _FUNCTIONS) and item.name == "device" and item.decorator_list:
                return self._returned(item, depth)
        bindings = self.bindings.of_class(owner, "self.device")
        if bindings:
            found = self._bound(bindings, depth)
            text = any(isinstance(b.value, ast.Constant) and isinstance(b.value.value, str) for b in bindings)
            if found is Sure.NO and not text and self.proof.has_type_anywhere("self.device"):
                return Sure.LIKELY
            return found
        for base in owner.bases:
            name = self.source.qualified(base)
            if _BASES.search(name) and name.startswith(_LIBRARIES):
                return Sure.YES
        return Sure.NO

    def _from_library(self, base: ast.expr, path: str) -> bool:
        if path.startswith("self.") and self._declared_library(base, path):
            return True
        for binding in self.bindings.of(path, base):
            value = binding.value
            if isinstance(binding.node, ast.arg) and binding.node.annotation is not None:
                text = annotation_text(binding.node.annotation)
                root = self.source.imports.get(text.partition(".")[0], "")
                if f"{root}.".startswith(_LIBRARIES):
                    return True
            elif isinstance(value, ast.Call) and not binding.parameter:
                value = _made_by(value)
                if path_of(value.func).endswith(".from_pretrained"):
                    name = self.source.qualified(value.func)
                    if name.startswith(("transformers.", "diffusers.")):
                        return True
        return False

    def _declared_library(self, base: ast.expr, path: str) -> bool:
        """`self.vae: Optional[AutoencoderKL]`, of a library's class and nothing else?"""
        owner = self.source.enclosing(base, ast.ClassDef)
        if not isinstance(owner, ast.ClassDef):
            return False
        source, found = self.source, declared(self.source, owner, path.removeprefix("self."))
        if not found:
            bases = (source.qualified(one) for one in owner.bases)
            inherited = (self.flow.declared(base, path.removeprefix("self.")) for base in bases if base)
            source, found = next((one for one in inherited if one is not None), (source, ()))
        names = [name for annotation in found for name in _declared(annotation)]
        roots = [source.imports.get(name.partition(".")[0], "") for name in names]
        return bool(roots) and all(f"{root}.".startswith(_LIBRARIES) for root in roots)

    @cached_property
    def _moves(self) -> dict[str, list[tuple[ast.Call, bool]]]:
        """Calls of `x.to(...)` by path of x, and whether x takes the result."""
        found: dict[str, list[tuple[ast.Call, bool]]] = {}
        for call in self.forms.calls.get("to", ()):
            path = path_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            parent = self.source.parents[call]
            taken = isinstance(parent, ast.Assign) and path_of(parent.targets[0]) == path
            if path:
                found.setdefault(path, []).append((call, taken))
        return found

    @cached_property
    def _owners_of_strings(self) -> frozenset[str]:
        """Names of objects made by classes of this file that set a `device` themselves."""
        classes: set[str] = set()
        for node in self.source.walk():
            if isinstance(node, ast.Attribute) and node.attr == "device" and isinstance(node.ctx, ast.Store):
                owner = self.source.enclosing(node, ast.ClassDef)
                if isinstance(owner, ast.ClassDef):
                    classes.add(owner.name)
        found: set[str] = set()
        for node in self.source.walk():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                if path_of(node.value.func) in classes:
                    found.update(path_of(target) for target in node.targets)
        return frozenset(found)

    # --- spelling --------------------------------------------------------------------------

    def spellings(self, node: ast.expr, depth: int = 0) -> frozenset[str] | None:
        """Every text that a device or string may be, as `str(...)` gives it; None if it is not known.

        "*" stands for a device with an index on any accelerator, and for the plain "cpu".
        """
        if depth > 5:
            return None
        if isinstance(node, ast.Constant):
            return frozenset({node.value}) if isinstance(node.value, str) else None
        if isinstance(node, ast.IfExp):
            return _union([self.spellings(node.body, depth + 1), self.spellings(node.orelse, depth + 1)])
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, str) and text[-1:] == ":" and text[:-1] in TYPES:
                return frozenset({f"{text}?"})
            return None
        if isinstance(node, ast.Call):
            name = self.source.qualified(node.func)
            if name == "torch.device" and len(node.args) == 1 and not node.keywords:
                return self.spellings(node.args[0], depth + 1)
            if name == "torch.device" and len(node.args) == 2:
                kind = self.spellings(node.args[0], depth + 1)
                return None if kind is None else frozenset(f"{one}:?" for one in kind)
            return None
        if isinstance(node, ast.Attribute) and node.attr == "device":
            if self._on_tensor(node):
                return frozenset({"*"})
        path = path_of(node)
        if not path or "[" in path:
            return None
        bindings = self.bindings.of(path, node)
        if not bindings or any(not _plain(binding) for binding in bindings) or self._global(path):
            return None
        return _union([self.spellings(b.value, depth + 1) for b in bindings if b.value is not None])

    def _on_tensor(self, node: ast.Attribute) -> bool:
        """Is it the device of a tensor or of a module's parameters, which always has its index?"""
        base = node.value
        if path_of(base) == "self" or is_options(path_of(base)):
            return False  # by what is bound to it
        if self.flow.value(base).kind is Kind.OWNER or _OWNERS.search(path_of(base)):
            return False
        return self.device(node) is not Sure.NO

    def _global(self, path: str) -> bool:
        return f"global {path}" in self.source.text or f"nonlocal {path}" in self.source.text


def _declared(annotation: ast.expr) -> list[str]:
    """The classes of an annotation, without None, `Optional[...]`, `Union[...]` and quotes."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return _declared(ast.parse(annotation.value, mode="eval").body)
        except SyntaxError:
            return [annotation.value]
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return []
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _declared(annotation.left) + _declared(annotation.right)
    if isinstance(annotation, ast.Subscript) and path_of(annotation.value).endswith(("Optional", "Union")):
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return [name for part in parts for name in _declared(part)]
    return [path_of(annotation)]


def _made_by(value: ast.Call) -> ast.Call:
    """`Model.from_pretrained(..)` of `Model.from_pretrained(..).to(device).eval()`."""
    func = value.func
    while (
        isinstance(func, ast.Attribute)
        and func.attr in ("to", "cuda", "eval", "half", "float", "train", "cpu")
        and isinstance(func.value, ast.Call)
    ):
        value = func.value
        func = value.func
    return value


def is_options(path: str) -> bool:
    """Is it a bag of options, such as `args` or `self.config`?"""
    return bool(_OPTIONS.search(path))


def _is_parsed(value: ast.expr | None) -> bool:
    """The options of a program: `parser.parse_args()`, `OmegaConf.load(...)`."""
    return isinstance(value, ast.Call) and "parse" in path_of(value.func)


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _plain(binding: Binding) -> bool:
    return not binding.parameter and binding.value is not None


def _union(parts: list[frozenset[str] | None]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for part in parts:
        if part is None:
            return None
        found |= part
    return found or None
