"""The functions of a file that make tensors, and what their surroundings tell of their parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from devfix.factories.operations import (
    CALLED_ONLY,
    LASTS,
    MADE,
    TENSOR_METHODS,
    WEAK_METHODS,
    WEIGHTED,
    names_device,
    takes_tensor,
    torch_name,
)
from devfix.factories.values import Anchor, Fact, Form
from devfix.flow import frameworks, torch_api
from devfix.flow.evidence import annotation_text
from devfix.flow.frame import path_of
from devfix.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TENSOR = re.compile(r"(?:^|\.)\w*Tensor$")
_SEQUENCES = re.compile(r"^(?:typing\.)?(?:List|list|Sequence|Tuple|tuple|Iterable)\[(?:torch\.)?Tensor\b")
# `x: torch.Tensor`, `x (LongTensor)`, `x (B, T): Tensor of ...` in a docstring.
_DOCUMENTED = re.compile(
    r"(?m)^\s*(?::param )?`*(\w+)`*\s*"
    r"(?:\([^)\n]{0,40}?[Tt]ensor\b[^)\n]*|(?:\([^)\n]*\)\s*)?:\s*`*(?:[\w.]*\.)?\w*[Tt]ensor\b)"
)
_PLAIN = re.compile(r"\bTensor\b")
_CONTAINERS = re.compile(r"(?i)tuple|list|sequence|dict|iterable")
# Code that prepares data, before anything is on a device, and code that makes what will be moved later.
_HOST_NAMES = re.compile(
    r"collate|worker|_transform|transform_|^transform|preprocess|pre_process|prepare_data|augment|^__getitem__|"
    r"^__iter__|^load_|^read_|^_?init_|^__init__|reset_parameters|init_weights|^_init|build_|^test_|^setup|"
    r"get_dummy|_pipeline$|^write_|state_dict|from_\w*pretrained|convert_|(?:format|make|get|create|pad|build|next)_batch|dummy_|^example_|_example|sample_inputs|export|^make_dataset|^plot|visuali[sz]e|^save_"
)
_HOST_CLASSES = re.compile(
    r"(?:Dataset\w*|Sampler|Preprocess\w*|Augment\w*|Transform|Collat\w*|DataModule|Tokenizer|TestCase|Loader|Reader|Processor)s?$|^Test"
)


@dataclass
class Owner:
    """What a class leaves in `self`."""

    node: ast.ClassDef
    module: bool = False
    device: bool = False  # it reads `self.device`
    tensors: set[str] = field(default_factory=set)  # parameters and buffers
    layers: dict[str, str] = field(default_factory=dict)  # submodules, by qualified class name


class Scopes:
    """Which functions are worth following, and the facts that they start with."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._owners: dict[ast.ClassDef, Owner] = {}
        self._classes: dict[str, ast.ClassDef] = {
            node.name: node for node in source.walk() if isinstance(node, ast.ClassDef)
        }

        self.functions: dict[str, Function] = {
            node.name: node for node in source.tree.body if isinstance(node, _FUNCTIONS)
        }
        self._uses: dict[ast.AST, Uses] = {}

    def uses(self, scope: ast.AST, depth: int = 0) -> Uses:
        found = self._uses.get(scope)
        if found is None:
            found = self._uses[scope] = Uses(self, scope, depth)
        return found

    def callee(self, path: str, owner: Owner | None) -> Function | None:
        """The function of this file that a call names: `f`, `self.method`."""
        if path.startswith("self.") and owner is not None:
            name = path[5:]
            for item in owner.node.body:
                if isinstance(item, _FUNCTIONS) and item.name == name:
                    return item
            return None
        return self.functions.get(path)

    def makers(self) -> set[ast.AST]:
        """Functions (or the module) in which something is made on the default device."""
        found: set[ast.AST] = set()
        for node in self.source.walk():
            if isinstance(node, ast.Call):
                func = node.func
                last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                if last in LASTS and torch_name(self.source.qualified(func)) in MADE:
                    up = self.source.enclosing(node, *_FUNCTIONS)
                    while up is not None and self.source.enclosing(up, *_FUNCTIONS) is not None:
                        up = self.source.enclosing(up, *_FUNCTIONS)
                    found.add(up if up is not None else self.source.tree)
        return found

    def host(self, node: ast.AST) -> bool:
        """Does a function prepare data or build modules, so that the CPU is right there?"""
        if {"pytest", "unittest"} & set(self.source.imports):
            return True
        if not isinstance(node, _FUNCTIONS):
            return False
        if _HOST_NAMES.search(node.name) or any(word in node.name for word in frameworks.HOST_FUNCTIONS):
            return True
        code = self.source.code(node)
        if "to_device(" in code or ".pin_memory(" in code:
            return True
        if self._data_file and "device" not in code and ".cuda(" not in code:
            return True
        if any("pipeline" in ast.unparse(decorator) for decorator in node.decorator_list):
            return True
        owner = self.source.enclosing(node, ast.ClassDef)
        if isinstance(owner, ast.ClassDef):
            bases = [path_of(base).rpartition(".")[2] for base in owner.bases]
            if _HOST_CLASSES.search(owner.name) or any(
                base.endswith(frameworks.HOST_BASES) or _HOST_CLASSES.search(base) for base in bases
            ):
                return True
        return False

    @cached_property
    def _data_file(self) -> bool:
        """A file about data: datasets and no modules."""
        classes = self._classes.values()
        datasets = any(
            path_of(base).endswith(frameworks.HOST_BASES) for node in classes for base in node.bases
        )
        return datasets and not any(self._is_module(node) for node in classes)

    def owner(self, node: ast.AST) -> Owner | None:
        owner = self.source.enclosing(node, ast.ClassDef)
        if not isinstance(owner, ast.ClassDef):
            return None
        if owner not in self._owners:
            self._owners[owner] = self._survey(owner)
        return self._owners[owner]

    def _is_module(self, node: ast.ClassDef, depth: int = 0) -> bool:
        for base in node.bases:
            name = self.source.qualified(base) or path_of(base)
            last = name.rpartition(".")[2]
            if (
                name in torch_api.MODULE_BASES
                or name.startswith("torch.nn.")
                or last.endswith(("Module", "PreTrainedModel", "ModelMixin"))
            ):
                return True
            if last in self._classes and depth < 5 and self._is_module(self._classes[last], depth + 1):
                return True
        return False

    def _survey(self, node: ast.ClassDef) -> Owner:
        owner = Owner(node, self._is_module(node), "self.device" in self.source.code(node))
        for part in self.source.walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
                name = self.source.qualified(part.value.func) or path_of(part.value.func)
                for target in part.targets:
                    path = path_of(target)
                    if path.startswith("self.") and path.count(".") == 1:
                        if name in torch_api.PARAMETERS:
                            owner.tensors.add(path)
                        elif name.rpartition(".")[2][:1].isupper():
                            owner.layers[path] = name
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                if part.func.attr in ("register_buffer", "register_parameter") and part.args:
                    first = part.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        if len(part.args) < 2 or not (
                            isinstance(part.args[1], ast.Constant) and part.args[1].value is None
                        ):
                            owner.tensors.add(f"self.{first.value}")
        return owner

    def globals(self) -> dict[str, Fact]:
        """The devices that the module body names."""
        found: dict[str, Fact] = {}
        for statement in self.source.tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name) and names_device(target.id):
                    if not isinstance(statement.value, ast.Constant) or isinstance(
                        statement.value.value, str
                    ):
                        found[target.id] = Fact(Form.DEVICE, anchor=Anchor(target.id))
        return found

    # --- parameters ----------------------------------------------------------------------

    def parameters(self, function: Function) -> Iterator[tuple[str, Fact]]:
        """The parameters of a function with what annotations and uses say of them."""
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
        pairs = [*zip(plain, defaults + list(arguments.defaults), strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        uses = self.uses(function)
        for index, (argument, default) in enumerate(pairs):
            name = argument.arg
            if index == 0 and name in ("self", "cls", "ctx"):
                continue
            yield name, self._parameter(argument, default, uses)

    def _parameter(self, argument: ast.arg, default: ast.expr | None, uses: Uses) -> Fact:
        name, annotation = argument.arg, argument.annotation
        optional = default is not None
        if annotation is not None:
            text = annotation_text(annotation)
            code = self.source.code(annotation)
            if _TENSOR.search(text):
                sure = not optional and "Optional" not in code and "None" not in code and "Union" not in code
                return Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", sure))
            if _SEQUENCES.match(code):
                return Fact(Form.LIST, items=(Fact(Form.TENSOR, anchor=Anchor(f"{name}[0].device", False)),))
            if text in ("torch.device", "device"):
                return Fact(Form.DEVICE, anchor=Anchor(name))
            if text in ("int", "float", "bool", "str", "np.ndarray", "numpy.ndarray", "ndarray"):
                return Fact(Form.DEVICE, anchor=Anchor(name)) if name == "device" else Fact(Form.OTHER)
        if name in ("device", "dev"):
            return Fact(Form.DEVICE, anchor=Anchor(name))
        if isinstance(default, ast.Constant) and default.value is not None:
            return Fact(Form.OTHER)
        code = self.source.code(annotation) if annotation is not None else ""
        other = annotation is not None and (not _PLAIN.search(code) or _CONTAINERS.search(code))
        if uses.tensor(name) and not other:
            return Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", not optional and uses.surely(name)))
        return Fact(Form.MAYBE)


class Uses:
    """What a function does with its names that only a tensor can do."""

    def __init__(self, scopes: Scopes, scope: ast.AST, depth: int = 0) -> None:
        self._scopes = scopes
        self._scope = scope
        self._depth = depth

    @cached_property
    def _found(self) -> tuple[dict[str, set[str]], set[str], set[str]]:
        """Attributes by name; names that are tensors; names that are not, or not always."""
        found: dict[str, set[str]] = {}
        sure: set[str] = set()
        doubted: set[str] = set()
        source, numpy = self._scopes.source, False
        for node in source.walk(self._scope):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name, attribute = node.value.id, node.attr
                if attribute == "shape" or (attribute in TENSOR_METHODS and attribute not in CALLED_ONLY):
                    found.setdefault(name, set()).add(attribute)
                numpy = numpy or name in ("np", "numpy")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Subscript):
                inner = node.value
                if isinstance(inner.value, ast.Name) and _many(inner.slice):
                    if node.attr in TENSOR_METHODS - {"view", "device"}:
                        sure.add(inner.value.id)
            elif isinstance(node, ast.Call):
                func = node.func
                if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
                    if func.attr in TENSOR_METHODS and func.attr in CALLED_ONLY:
                        found.setdefault(func.value.id, set()).add(func.attr)
                name = torch_name(source.qualified(func))
                if name in MADE and node.args and isinstance(node.args[0], ast.Name):
                    parent = source.parents.get(node)
                    targets = parent.targets if isinstance(parent, ast.Assign) else []
                    if any(isinstance(t, ast.Name) and t.id == node.args[0].id for t in targets):
                        doubted.add(node.args[0].id)
                elif path_of(func) in ("isinstance", "torch.is_tensor") and node.args:
                    if isinstance(node.args[0], ast.Name):
                        doubted.add(node.args[0].id)
                self._call(node, name, sure)
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and _many(node.slice):
                found.setdefault(node.value.id, set()).add("[]")
        if numpy:
            for uses in found.values():
                uses.difference_update(("shape", "[]"))
        if isinstance(self._scope, _FUNCTIONS):
            for match in _DOCUMENTED.finditer(ast.get_docstring(self._scope) or ""):
                if not _CONTAINERS.search(match.group(0)):
                    sure.add(match.group(1))
        return found, sure, doubted

    def _call(self, node: ast.Call, name: str, sure: set[str]) -> None:
        if name.startswith("torch."):
            if node.args and isinstance(node.args[0], ast.Name) and takes_tensor(name):
                sure.add(node.args[0].id)
            elif name in ("torch.cat", "torch.stack") and node.args:
                if isinstance(node.args[0], (ast.List, ast.Tuple)):
                    sure.update(item.id for item in node.args[0].elts if isinstance(item, ast.Name))
        elif isinstance(node.func, ast.Attribute):
            owner = self._scopes.owner(self._scope)
            if owner is not None and path_of(node.func) in owner.layers:
                if WEIGHTED & {owner.layers[path_of(node.func)]}:
                    sure.update(a.id for a in node.args[:1] if isinstance(a, ast.Name))
        elif isinstance(node.func, ast.Name) and self._depth < 2:
            function = self._scopes.functions.get(node.func.id)
            if function is None or function is self._scope:
                return
            parameters = [*function.args.posonlyargs, *function.args.args]
            for argument, parameter in zip(node.args, parameters, strict=False):
                if isinstance(argument, ast.Name) and argument.id not in sure:
                    text = annotation_text(parameter.annotation)
                    if _TENSOR.search(text) or (
                        not text and self._scopes.uses(function, self._depth + 1).tensor(parameter.arg)
                    ):
                        sure.add(argument.id)

    def tensor(self, name: str) -> bool:
        """Do its uses tell that a name is a tensor?"""
        found, sure, doubted = self._found
        uses = found.get(name, set())
        if name in doubted:
            return False
        return name in sure or bool(uses - WEAK_METHODS) or "[]" in uses or len(uses) > 2

    def surely(self, name: str) -> bool:
        """Can it be nothing else?"""
        return name in self._found[1] or bool(self._found[0].get(name, set()) - WEAK_METHODS)


def _many(index: ast.expr) -> bool:
    """An index that only tensors and arrays take: `[..., 0]`, `[:, 1]`, `[None]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    axes = sum(isinstance(p, ast.Constant) and (p.value is None or p.value is ...) for p in parts)
    return bool(axes) or (len(parts) > 1 and any(isinstance(p, ast.Slice) for p in parts))
