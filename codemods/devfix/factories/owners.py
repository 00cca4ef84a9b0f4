"""What classes leave in `self`, and which code runs before anything is on a device."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from devfix.factories.operations import LASTS, MADE, WEIGHTED
from devfix.flow import frameworks, torch_api
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.source import Definition, Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Code that prepares data, before anything is on a device, and code that makes what will be moved later.
_HOST_NAMES = re.compile(
    r"collate|worker|_transform|transform_|^transform|preprocess|pre_process|prepare_data|augment|"
    r"^__getitem__|^__iter__|^load_|^read_|^_?init_(?!\w*(?:state|hidden|cell|memory|cache|mask))|^__init__|"
    r"reset_parameters|init_weights|^_init|build_|^test_|^setup|get_dummy|_pipeline$|^write_|state_dict|"
    r"from_\w{0,99}pretrained|convert_|(?:format|make|get|create|pad|build|next)_batch|dummy_|^example_|"
    r"_example|sample_inputs|export|^make_dataset|^plot|visuali[sz]e|^save_|"
    r"^(?:append|insert)$"
)
_HOST_CLASSES = re.compile(
    r"(?:Dataset\w{0,99}|Sampler|Preprocess\w{0,99}|Augment\w{0,99}|Transform|Collat\w{0,99}|DataModule|Tokenizer|TestCase|"
    r"Loader|Reader|Parser|Processor)s?$|^Test"
)
_ASSIGNED = re.compile(r"self\.(\w+)[ \t]*(?::[^=\n]{1,300})?=[ \t]*([\w.]+)\(")
_GIVEN = re.compile(r"self\.(\w+)[ \t]*(?::[^=\n]{1,300})?=(?!=)([^\n]*(?:(?<=[(\[\\])\n[^\n]*)?)")
_FACTORIES = "|".join(sorted(LASTS - {"range"}))
_MADE = re.compile(rf"\b(?:{_FACTORIES})\(")
_PLACED = re.compile(
    r"\bdevice=(?:self\.)?[\w.]*device\b|\.to\((?:device=)?(?:self\.)?[\w.]*device\)|\.cuda\(\)"
)
# What is built is built on the device that a function is told, if that is where it makes something.
_TOLD = re.compile(r"^(?:async )?def \w+\([^()]*\bdevice\b[^()]*\)[^\n]*:\n(?:.*\n)*?.*\bdevice=device\b")
# `mean.to(device)`, `mean.to(self.device).unsqueeze(0)`: what was given, moved.
_CARRIED = re.compile(r"[ \t]*\w+\.to\((?:device=)?(?:self\.)?device\)(?:\.\w+\(.*\))?[ \t]*(?:#.*)?$")
_TENSOR = re.compile(r"(?:torch\.)?\w*Tensor")
_OF_MODULES = r"\.(?:\w*parameters|eval|train|modules|children|state_dict|load_state_dict|apply|forward)\b"
_IS_MODULE = re.compile(r"\bself\.(?:register_buffer|add_module)\(")
_FORWARD = re.compile(r"^[ \t]+def forward\(self\b", re.MULTILINE)
_REGISTERED = re.compile(r"""register_(?:buffer|parameter)\(\s*(?:name=)?["'](\w+)["'](\s*,\s*None\b)?""")
_CONTAINERS = frozenset({"ModuleList", "ModuleDict", "Sequential"})
_ADDED = re.compile(r"add_module\([^()]{0,200}(?:\([^()]{0,200}\))?[^()]{0,200},\s{0,99}(\w{1,99})\s{0,99}\)")
_APPENDED = re.compile(r"self\.(\w+)\.append\((\w+)\)")
_CALLED = re.compile(r"self\.(\w+)\(")
_LAYERS = "|".join(sorted(name.rpartition(".")[2] for name in WEIGHTED))
_WEIGHTED = re.compile(rf"\b(?:{_LAYERS}|Parameter)\(")


@dataclass
class Owner:
    """What a class leaves in `self`."""

    node: ast.ClassDef
    module: bool = False
    device: bool = False  # it reads `self.device`
    weights: bool = False  # a module with parameters of its own, or layers that have some
    tensors: set[str] = field(default_factory=set)  # parameters and buffers
    layers: dict[str, str] = field(default_factory=dict)  # submodules, by qualified class name
    started: set[str] = field(default_factory=set)  # methods that `__init__` calls
    code: str = ""

    @cached_property
    def containers(self) -> set[str]:
        """Attributes that hold several submodules; also lists of what `add_module` registers."""
        found = {path for path, name in self.layers.items() if name.rpartition(".")[2] in _CONTAINERS}
        added = set(_ADDED.findall(self.code)) if self.module else set()
        return found | {f"self.{name}" for name, item in _APPENDED.findall(self.code) if item in added}

    @cached_property
    def placed(self) -> set[str]:
        """Attributes that hold new tensors, each made on a device or moved there where it is bound."""
        found: dict[str, bool] = {}
        for name, value in _GIVEN.findall(self.code):
            if value.strip() != "None" and f"self.{name}" not in value:
                there = _MADE.search(value) is not None and _PLACED.search(value) is not None
                there = there or (_CARRIED.match(value) is not None and not self._runs(name))
                found[name] = there and found.get(name, True)
        return {f"self.{name}" for name, there in found.items() if there}

    def _runs(self, name: str) -> bool:
        """Is an attribute called, or asked for what modules have?"""
        return looks_like_module(name) or bool(re.search(rf"self\.{name}(?:\(|{_OF_MODULES})", self.code))

    @cached_property
    def plain(self) -> set[str]:
        """Attributes made on the default device."""
        given = _GIVEN.findall(self.code)
        return {f"self.{name}" for name, value in given if _MADE.search(value)} - self.tensors


class Owners:
    """The definitions of a file, by the lines that they span, and its classes."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._owners: dict[ast.ClassDef, Owner] = {}
        self._hosts: dict[ast.AST, bool] = {}
        self.definitions = sorted(source.definitions, key=lambda node: node.lineno)
        self._around: dict[int, list[Definition]] = {}
        for node in self.definitions:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                self._around.setdefault(line, []).append(node)
        self._classes = {node.name: node for node in self.definitions if isinstance(node, ast.ClassDef)}

    def line(self, offset: int) -> int:
        return bisect_right(self.source.line_starts, offset)

    def around(self, line: int) -> list[Definition]:
        """The functions and classes that a line is in, the outermost first."""
        return self._around.get(line, [])

    def functions_at(self, offset: int) -> list[Function]:
        """The functions that a place is in, the outermost first."""
        return [node for node in self.around(self.line(offset)) if isinstance(node, FUNCTIONS)]

    def hosted(self, node: ast.AST) -> bool:
        """Is a function, or one that it is in, at work on the host?"""
        return any(self.host(one) for one in self.functions_around(node))

    def functions_around(self, node: ast.AST) -> Iterator[Function]:
        """A function and those that it is in."""
        if isinstance(node, FUNCTIONS):
            for one in self.around(node.lineno):
                if isinstance(one, FUNCTIONS):
                    yield one

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        if not isinstance(node, FUNCTIONS):
            return None
        classes = [one for one in self.around(node.lineno) if isinstance(one, ast.ClassDef)]
        return classes[-1] if classes else None

    def owner(self, node: ast.AST) -> Owner | None:
        found = self.class_of(node)
        if found is None:
            return None
        if found not in self._owners:
            self._owners[found] = self._survey(found)
        return self._owners[found]

    def host(self, node: ast.AST) -> bool:
        """Does a function prepare data or build modules, so that the CPU is right there?"""
        if node not in self._hosts:
            self._hosts[node] = self._host(node)
        return self._hosts[node]

    def _host(self, node: ast.AST) -> bool:
        if {"pytest", "unittest"} & set(self.source.imports):
            return True
        if not isinstance(node, FUNCTIONS):
            return False
        code = self.source.code(node)
        named = _HOST_NAMES.search(node.name) and not self._of_tensors(node)
        if named or any(word in node.name for word in frameworks.HOST_FUNCTIONS):
            return not (node.name.startswith("build_") and _TOLD.search(code))
        if "to_device(" in code or ".pin_memory(" in code:
            return True
        if self._data_file and "device" not in code and ".cuda(" not in code:
            return True
        if any("pipeline" in ast.unparse(decorator) for decorator in node.decorator_list):
            return True
        found = self.class_of(node)
        if found is None:
            return False
        bases = [path_of(base).rpartition(".")[2] for base in found.bases]
        if any(base.endswith(frameworks.HOST_BASES) or _HOST_CLASSES.search(base) for base in bases):
            return True
        # A sampler of data is iterated; others sample from models.
        if found.name.endswith("Sampler"):
            return "__iter__" in self.source.code(found)
        if not _HOST_CLASSES.search(found.name):
            return False
        owner = self.owner(node)
        return owner is None or not owner.weights

    def _of_tensors(self, node: Function) -> bool:
        """Is it the `__init__` of a class that is no module, and is declared to be given tensors?"""
        found = self.class_of(node)
        return (
            node.name == "__init__"
            and found is not None
            and not self._is_module(found)
            and any(
                a.annotation is not None and _TENSOR.fullmatch(ast.unparse(a.annotation))
                for a in node.args.args
            )
        )

    @cached_property
    def _data_file(self) -> bool:
        """A file about data: datasets and no modules."""
        classes = self._classes.values()
        datasets = any(
            path_of(base).endswith(frameworks.HOST_BASES) for node in classes for base in node.bases
        )
        return datasets and not any(self._is_module(node) for node in classes)

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
        """By the text: a class is much longer than what is asked of it."""
        code, module = self.source.code(node), self._is_module(node)
        owner = Owner(node, module or _IS_MODULE.search(code) is not None, "self.device" in code)
        owner.weights = module and _WEIGHTED.search(code) is not None
        owner.code = code
        for name, called in _ASSIGNED.findall(code):
            root, dot, rest = called.partition(".")
            called = f"{self.source.imports.get(root, root)}{dot}{rest}"
            if called in torch_api.PARAMETERS:
                owner.tensors.add(f"self.{name}")
            elif called.rpartition(".")[2][:1].isupper() and called not in MADE:
                owner.layers[f"self.{name}"] = called
        if not owner.module and _FORWARD.search(code):
            owner.module = any(called.startswith("torch.nn.") for called in owner.layers.values())
            owner.weights = owner.module and _WEIGHTED.search(code) is not None
        owner.tensors.update(f"self.{name}" for name, empty in _REGISTERED.findall(code) if not empty)
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                owner.started.update(_CALLED.findall(self.source.code(item)))
        return owner
