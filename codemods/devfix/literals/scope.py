"""The device that a function already has: a variable, a parameter, or a framework's own."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property

from devfix.bindings import Binding, Bindings, function_around
from devfix.flow import Flow, frameworks
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.sites import Site, names_cuda
from devfix.loaded import called_before
from devfix.placing import bound_before, dotted, settled_binding, stores
from devfix.source import Source, remembered

_NAME = re.compile(r"^(?:torch_|compute_|target_)?(?:device|dev)$", re.IGNORECASE)
_OPTIONS = re.compile(
    r"^(?:self\.)?(?:args|opts?|cfg|config|params|hparams|options|training_args|flags)\.device$", re.I
)
_ACCELERATOR = re.compile(r"^accelerator$|^fabric$")
# Bases whose objects say by `self.device` where they are.
OWN_DEVICE = ("Brain", "LightningModule", "PreTrainedModel", "ModelMixin", "Pretrained")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Device:
    """A device expression that can be written at a site.

    `sure`: it is CUDA where there is CUDA, so that the site's value stays what it was.
    """

    text: str
    what: str
    sure: bool = False
    node: ast.AST | None = None


class Devices:
    """The devices in scope of one file."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source

    @cached_property
    def bindings(self) -> Bindings:
        return self.flow.once(Bindings)

    def at(self, site: Site) -> Device | None:
        """The device that is in scope where a site stands: the nearest one, or None."""
        source = self.source
        function = function_around(source, site.node)
        while function is not None:
            found = self._in_function(site, function)
            if found is not None:
                return found
            found = self._of_self(site, function)
            if found is not None:
                return found
            function = function_around(source, function)
        return self._of_module(site)

    def _in_function(self, site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Device | None:
        at = self.source.statement(site.node)
        inner = function_around(self.source, site.node) is function
        for name in _telling(self.source, function):
            found = self.bindings.within(function, name)
            if not found:
                continue
            given = any(binding.parameter for binding in found)
            if _ACCELERATOR.match(name):
                if given or any(self._makes_owner(binding) for binding in found):
                    if (
                        given
                        or not inner
                        or settled_binding(self.source, stores(self.source, function, name), at)
                    ):
                        return Device(f"{name}.device", f"`{name}`")
                continue
            if (
                not given
                and inner
                and not settled_binding(self.source, stores(self.source, function, name), at)
            ):
                continue
            if given and self._other_sense(function, name):
                continue
            if all(binding.value is not None and names_cuda(self.source, binding.value) for binding in found):
                if not given:
                    continue
            return Device(name, f"`{name}`", self._declared(found), found[0].node)
        options = self._options(function, at) or self._entry(function, at)
        if options:
            return Device(options, f"`{options}`")
        run_opts = self._run_options(function, at)
        return Device(run_opts, "`run_opts`") if run_opts else None

    def _options(self, scope: ast.AST, at: ast.stmt) -> str:
        """`args.device`, where the same function uses it already."""
        for path, node in _options(self.source, scope):
            if bound_before(self.source, node, at):
                return path
        return ""

    def _entry(self, scope: ast.AST, at: ast.stmt) -> str:
        """`config["device"]`, where the same function uses it as a device already."""
        for node in self.source.of_kind(ast.Subscript, scope):
            if not isinstance(node.ctx, ast.Load):
                continue
            key = node.slice
            named = isinstance(key, ast.Constant) and key.value == "device" and path_of(node.value)
            if named and self._taken(node) and bound_before(self.source, node, at):
                return self.source.code(node)
        return ""

    def _taken(self, node: ast.expr) -> bool:
        """Is an expression used as a device: `x.to(it)`, `f(device=it)`, `it == "cpu"`?"""
        up = self.source.parents[node]
        if isinstance(up, ast.keyword):
            return up.arg == "device"
        if isinstance(up, ast.Compare):
            return any(isinstance(one, ast.Constant) and one.value == "cpu" for one in up.comparators)
        if not isinstance(up, ast.Call) or node not in up.args:
            return False
        if isinstance(up.func, ast.Attribute) and up.func.attr == "to":
            return True
        return self.source.qualified(up.func) == "torch.device"

    def _makes_owner(self, binding: Binding) -> bool:
        value = binding.value
        return isinstance(value, ast.Call) and (
            self.source.qualified(value.func) in frameworks.OWNERS
            or self.flow.value(value).kind is Kind.OWNER
        )

    def _other_sense(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
        """Is a device parameter only where the result goes, or a place to offload to?"""
        names = self.source.of_kind(ast.Name, function)
        uses = [node for node in names if node.id == name and isinstance(node.ctx, ast.Load)]
        return bool(uses) and all(
            isinstance(self.source.enclosing(use, ast.stmt), ast.Return) for use in uses
        )

    def _of_self(self, site: Site, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Device | None:
        owner = self.source.parents.get(function)
        arguments = _arguments(function)
        if not isinstance(owner, ast.ClassDef) or not arguments or arguments[0].arg != "self":
            return None
        if function.name in ("__init__", "__new__"):
            return None
        bases = [(dotted(base).rpartition(".")[2]) for base in owner.bases]
        if any(base.endswith("DiffusionPipeline") for base in bases):
            # Offloaded pipelines are on the CPU, and run elsewhere.
            return Device("self._execution_device", "the pipeline")
        if any(base.endswith(OWN_DEVICE) for base in bases):
            return Device("self.device", "`self.device`")
        for name in ("self.device", "self._device", "self.accelerator"):
            found = self.bindings.of_class(owner, name)
            if name == "self.accelerator":
                if any(self._makes_owner(binding) for binding in found):
                    return Device("self.accelerator.device", "`self.accelerator`")
                continue
            properties = [
                item
                for item in owner.body
                if isinstance(item, _FUNCTIONS) and item.name == name[5:] and item.decorator_list
            ]
            if properties:
                return Device(name, f"`{name}`") if properties[0] is not function else None
            if found and not all(
                binding.value is None or names_cuda(self.source, binding.value) or _none(binding.value)
                for binding in found
            ):
                return Device(name, f"`{name}`", self._declared(found), found[0].node)
        return None

    def _of_module(self, site: Site) -> Device | None:
        tree = self.source.tree
        inside = function_around(self.source, site.node) is not None
        at = self.source.statement(site.node)
        for name in ("device", "DEVICE", "torch_device", "dev", "accelerator"):
            found = self.bindings.within(tree, name)
            if not found or any(binding.value is None for binding in found):
                continue
            if not inside and not settled_binding(self.source, stores(self.source, tree, name), at):
                continue
            if inside and called_before(self.source, name, at):
                continue
            # A script's own variable is no variable of the functions above `if __name__ ...`.
            if inside and any(self.source.enclosing(binding.node, ast.If) for binding in found):
                if not all(self._device_branch(binding) for binding in found):
                    continue
            if name == "accelerator":
                if any(self._makes_owner(binding) for binding in found):
                    return Device("accelerator.device", "`accelerator`")
                continue
            if all(binding.value is not None and names_cuda(self.source, binding.value) for binding in found):
                continue
            return Device(name, f"`{name}`", self._declared(found), found[0].node)
        if not inside and (options := self._options(tree, at) or self._entry(tree, at)):
            return Device(options, f"`{options}`")
        run_opts = self._run_options(tree, at)
        return Device(run_opts, "`run_opts`") if run_opts else None

    def _device_branch(self, binding: Binding) -> bool:
        """`if torch.cuda.is_available(): device = ..`: bound in every run."""
        outer = self.source.enclosing(binding.node, ast.If)
        return isinstance(outer, ast.If) and "available" in ast.unparse(outer.test)

    def _declared(self, found: list[Binding]) -> bool:
        """`torch.device("cuda" if torch.cuda.is_available() else "cpu")`, and nothing else."""
        if len(found) != 1 or found[0].value is None or found[0].parameter:
            return False
        value = found[0].value
        if isinstance(value, ast.Call) and self.source.qualified(value.func) == "torch.device":
            value = value.args[0] if len(value.args) == 1 else value
        if not isinstance(value, ast.IfExp):
            return False
        test = value.test
        known = isinstance(test, ast.Call) and self.source.qualified(test.func) == "torch.cuda.is_available"
        return known and names_cuda(self.source, value.body)

    def _run_options(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module, at: ast.stmt
    ) -> str:
        """SpeechBrain: `hparams_file, run_opts, overrides = sb.parse_arguments(..)`."""
        for name, node in _parsed_arguments(self.source, function):
            if self.source.span(node).end <= self.source.span(at).start:
                return f'{name}["device"]'
        return ""


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


@remembered
def _telling(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function that sound like a device or what has one, in order."""
    names = {node.id for node in source.of_kind(ast.Name, function)}
    names |= {argument.arg for argument in _arguments(function)}
    return sorted(name for name in names if _NAME.match(name) or _ACCELERATOR.match(name))


@remembered
def _options(source: Source, scope: ast.AST) -> list[tuple[str, ast.expr]]:
    """`args.device`, wherever it is read, with its path."""
    loads = (node for node in source.of_kind(ast.Attribute, scope) if isinstance(node.ctx, ast.Load))
    found = ((path_of(node), node) for node in loads if node.attr == "device")
    return [(path, node) for path, node in found if _OPTIONS.match(path)]


@remembered
def _parsed_arguments(source: Source, scope: ast.AST) -> list[tuple[str, ast.Assign]]:
    """`_, name, _ = sb.parse_arguments(..)`: the names and the statements."""
    found: list[tuple[str, ast.Assign]] = []
    for node in source.of_kind(ast.Assign, scope):
        target, value = node.targets[0], node.value
        if not isinstance(value, ast.Call) or not isinstance(target, ast.Tuple) or len(target.elts) != 3:
            continue
        name = target.elts[1]
        if isinstance(name, ast.Name) and path_of(value.func).rpartition(".")[2] == "parse_arguments":
            found.append((name.id, node))
    return found


def _none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
