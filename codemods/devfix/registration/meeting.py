"""Where the plain tensors of a module meet tensors on the module's device, in what runs under `forward`.

It asks of each value only if it comes from a plain attribute, is certainly where the module is, or
neither. A doubt is UNKNOWN, which meets nothing by itself.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from devfix.flow import torch_api
from devfix.flow.evidence import annotated_kind
from devfix.registration import dims
from devfix.registration.classes import Method, ModuleClass, self_name
from devfix.registration.made import Kind
from devfix.registration.making import Maker
from devfix.registration.running import Running, parameters
from devfix.registration.signatures import only_dtype, torch_name
from devfix.registration.values import (
    DEVICE,
    LAYER,
    LOOSE,
    MAKES,
    NUMBER,
    STRICT_METHODS,
    TENSOR_MEMBERS,
    UNKNOWN,
    Attribute,
    Env,
    Is,
    Meet,
    Val,
    join,
    join_all,
)
from devfix.source import Source


class Meetings(Running):
    """Finds the meetings of one file's candidates; `found` has the first of each.

    `moved` has the attributes that are moved where they are used.
    """

    def __init__(
        self,
        source: Source,
        classes: tuple[ModuleClass, ...],
        maker: Maker,
        candidates: dict[Attribute, int],
    ) -> None:
        super().__init__()
        self.source = source
        self.maker = maker
        self.classes = {info.node.name: info for info in classes}
        self.candidates = candidates
        self.found: dict[Attribute, Meet] = {}
        self.moved: dict[Attribute, Meet] = {}
        self._modules: dict[tuple[str, str], Val] = {}
        with_plain = {name for name, _ in candidates}
        for info in classes:
            if not any(each.node.name in with_plain for each in info.lineage):
                continue
            entries = [
                m for name, m in info.methods.items() if not name.startswith("__") or name == "__call__"
            ]
            for method in sorted(entries, key=lambda m: (m.name != "forward", m.lineno)):
                if self_name(method):
                    self._enter(info, method)

    # --- functions -----------------------------------------------------------------------------

    def _enter(self, owner: ModuleClass, method: Method) -> None:
        """Run a method by itself, with what its own text says of its parameters."""
        env: Env = {}
        for index, argument in enumerate(parameters(method)[1:]):
            env[argument.arg] = self._symbolic(owner, method, argument, index)
        self._execute(owner, method, env)

    def _symbolic(self, owner: ModuleClass, method: Method, argument: ast.arg, index: int) -> Val:
        if method.name != "forward":
            return UNKNOWN  # it may prepare data on the CPU
        if argument.annotation is not None:
            return DEVICE if annotated_kind(argument.annotation) == "tensor" else UNKNOWN
        arguments = method.args
        plain = [*arguments.posonlyargs, *arguments.args]
        optional = len(arguments.defaults) and argument in plain[len(plain) - len(arguments.defaults) :]
        if optional:
            default = arguments.defaults[plain.index(argument) - (len(plain) - len(arguments.defaults))]
            if not (isinstance(default, ast.Constant) and default.value is None):
                return UNKNOWN
        for node in self.source.walk(method):
            if not isinstance(node, ast.Name) or node.id != argument.arg or isinstance(node.ctx, ast.Store):
                continue
            parent = self.source.parents[node]
            if isinstance(parent, ast.Attribute) and parent.attr in TENSOR_MEMBERS:
                return DEVICE
            if index == 0 and isinstance(parent, ast.BinOp) and not optional:
                if not isinstance(parent.op, (ast.Mod, ast.FloorDiv)):
                    return DEVICE
            if isinstance(parent, ast.Call) and node in parent.args:
                name = self.source.qualified(parent.func)
                if name.startswith("torch.nn.functional."):
                    return DEVICE
                if index == 0 and isinstance(parent.func, ast.Attribute):
                    if self.source.code(parent.func.value) == self_name(method):
                        if self._own(owner, parent.func.attr).kind is Is.MODULE:
                            return DEVICE
        return UNKNOWN

    # --- statements ----------------------------------------------------------------------------

    # --- expressions ---------------------------------------------------------------------------

    def _eval(self, node: ast.expr) -> Val:
        if isinstance(node, ast.Name):
            return self._run.env.get(node.id, UNKNOWN)
        if isinstance(node, ast.Constant):
            return NUMBER
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.BinOp):
            values = [self._eval(node.left), self._eval(node.right)]
            made = self._meet(node, values)
            return replace(made, dim=dims.ANY) if isinstance(node.op, ast.MatMult) else made
        if isinstance(node, ast.Compare):
            values = [self._eval(node.left), *map(self._eval, node.comparators)]
            if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
                return NUMBER
            return self._meet(node, values)
        if isinstance(node, ast.UnaryOp):
            value = self._eval(node.operand)
            return NUMBER if isinstance(node.op, ast.Not) else value
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                self._eval(part)
            return UNKNOWN
        if isinstance(node, ast.IfExp):
            self._eval(node.test)
            return join(self._eval(node.body), self._eval(node.orelse))
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            if any(isinstance(item, ast.Starred) for item in node.elts):
                return join_all([self._eval(item) for item in node.elts])
            return Val(Is.UNKNOWN, items=tuple(self._eval(item) for item in node.elts))
        if isinstance(node, ast.Starred):
            return self._element(self._eval(node.value))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            for generator in node.generators:
                self._bind(generator.target, self._element(self._eval(generator.iter)))
            made = self._eval(node.elt)
            return replace(made, dim=dims.SOME) if made.kind is Is.PLAIN else made
        if isinstance(node, ast.NamedExpr):
            value = self._eval(node.value)
            self._bind(node.target, value)
            return value
        return UNKNOWN

    def _meet(self, node: ast.expr, values: list[Val]) -> Val:
        """What comes of values in one operation; notes plain attributes that meet the device there."""
        flat = [item for value in values for item in (value.items or (value,))]
        plain = [value for value in flat if value.kind is Is.PLAIN]
        on_device = any(value.kind is Is.DEVICE for value in flat)
        if on_device:
            for value in plain:
                if dims.solid(value.dim):
                    self._note(value, node)
        if on_device:
            return DEVICE
        if plain:
            dim = dims.broadcast(value.dim for value in plain)
            if not dims.solid(dim) and any(value.kind is Is.UNKNOWN for value in flat):
                return UNKNOWN
            return Val(Is.PLAIN, frozenset[Attribute]().union(*(value.of for value in plain)), dim)
        if flat and all(value.kind is Is.NUMBER for value in flat):
            return NUMBER
        return UNKNOWN

    def _note(self, value: Val, node: ast.expr) -> None:
        for attribute in value.of:
            self.found.setdefault(attribute, Meet(node, self._run.function))

    def _attribute(self, node: ast.Attribute) -> Val:
        owner = self._run.owner
        if (
            owner is not None
            and isinstance(node.value, ast.Name)
            and node.value.id == self_name(self._run.function)
        ):
            return self._own(owner, node.attr)
        base = self._eval(node.value)
        if base.kind is Is.MODULE:
            if node.attr in ("weight", "bias") and self._strict(base):
                return DEVICE
            return UNKNOWN
        if base.kind in (Is.DEVICE, Is.PLAIN):
            if node.attr in torch_api.NOT_TENSOR or node.attr == "device":
                return Val(Is.NUMBER, node=node) if base.kind is Is.DEVICE else NUMBER
            return base
        return UNKNOWN

    def _own(self, owner: ModuleClass, name: str) -> Val:
        for each in owner.lineage:
            if (each.node.name, name) in self.candidates:
                key = (each.node.name, name)
                return Val(Is.PLAIN, frozenset({key}), self.candidates[key])
        key = (owner.node.name, name)
        if key not in self._modules:
            made = self.maker.attribute(owner, name)
            value = UNKNOWN
            if made.kind is Kind.PARAMETER or any(each.registers(name) for each in owner.lineage):
                value = DEVICE
            elif made.kind is Kind.MODULE:
                value = Val(Is.MODULE, node=made.node)
            elif made.kind is Kind.OTHER and not made.items:
                value = NUMBER
            else:
                layer = next((s.value for s in owner.stores.get(name, ()) if s.form == "single"), None)
                if isinstance(layer, ast.Call) and LAYER.search(self.source.code(layer.func)):
                    value = Val(Is.MODULE, node=layer)
            self._modules[key] = value
        return self._modules[key]

    def _subscript(self, node: ast.Subscript) -> Val:
        base = self._eval(node.value)
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        values = [self._eval(part) if not isinstance(part, ast.Slice) else NUMBER for part in parts]
        if base.items:
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                index = node.slice.value
                return base.items[index] if -len(base.items) <= index < len(base.items) else UNKNOWN
            return join_all(list(base.items))
        if base.kind is Is.PLAIN:
            if any(value.kind is Is.DEVICE for value in values):
                self._note(base, node)  # a CUDA index into a CPU tensor
                return DEVICE
            whole = [
                p for p, v in zip(parts, values, strict=True) if v.kind is Is.PLAIN and dims.solid(v.dim)
            ]
            return replace(base, dim=dims.after_index(node.slice, base.dim, whole))
        if base.kind is Is.MODULE:
            return self._element(base)
        return base  # a CPU index into a CUDA tensor is legal

    # --- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Val:
        source, function = self.source, node.func
        name = torch_name(source, function)
        args = [self._eval(argument) for argument in node.args]
        if isinstance(function, ast.Attribute) and not name:
            return self._method_call(node, function, args)
        values = [*args, *(self._eval(k.value) for k in node.keywords)]
        if name.startswith("torch."):
            return self._torch_call(node, name, values)
        if isinstance(function, ast.Name):
            callee = self._run.env.get(function.id)
            if callee is not None:
                if callee.kind is Is.MODULE:
                    return self._module_call(node, callee, args, values)
                return DEVICE if callee.kind is Is.DEVICE else UNKNOWN
            if function.id in self.maker.functions:
                return self._inline(None, self.maker.functions[function.id], node, args, 0)
            if function.id == "enumerate" and args:
                return Val(Is.UNKNOWN, items=(Val(Is.UNKNOWN, items=(NUMBER, self._element(args[0]))),))
            if function.id == "zip" and args:
                return Val(Is.UNKNOWN, items=(Val(Is.UNKNOWN, items=tuple(map(self._element, args))),))
            if function.id in ("len", "int", "float", "bool", "range", "str"):
                return NUMBER
        if isinstance(function, ast.Attribute):
            return UNKNOWN
        if isinstance(function, (ast.Call, ast.Subscript)):
            callee = self._eval(function)
            if callee.kind is Is.MODULE:
                return self._module_call(node, callee, args, values)
        if isinstance(function, ast.Name) and function.id == self_name(self._run.function):
            owner = self._run.owner
            forward = owner.method("forward") if owner is not None else None
            if forward is not None:
                return self._inline(forward[0], forward[1], node, args, 1)
        return UNKNOWN

    def _method_call(self, node: ast.Call, function: ast.Attribute, args: list[Val]) -> Val:
        owner, name = self._run.owner, function.attr
        values = [*args, *(self._eval(k.value) for k in node.keywords)]
        base_node = function.value
        if (
            owner is not None
            and isinstance(base_node, ast.Name)
            and base_node.id == self_name(self._run.function)
        ):
            found = owner.method(name)
            if found is not None:
                return self._inline(found[0], found[1], node, args, 1 if self_name(found[1]) else 0)
            callee = self._own(owner, name)
            if callee.kind is Is.MODULE:
                return self._module_call(node, callee, args, values)
            return UNKNOWN
        base = self._eval(base_node)
        if base.kind is Is.MODULE:
            return UNKNOWN
        if base.kind not in (Is.DEVICE, Is.PLAIN):
            return UNKNOWN
        if name in torch_api.TO_HOST or name in torch_api.NOT_TENSOR:
            if name == "type":
                return base
            return NUMBER
        if name == "cpu":
            return UNKNOWN
        if base.kind is Is.PLAIN:
            if name in ("to", "cuda", "type_as"):
                if name == "to" and only_dtype(self.source, node):
                    return base
                for attribute in base.of:
                    self.moved.setdefault(attribute, Meet(node, self._run.function))
                return DEVICE
            if name in STRICT_METHODS:
                return self._meet(node, [base, *values])
            if name.startswith("new_"):
                return UNKNOWN
            return replace(base, dim=dims.after(name, base.dim, node, method=True))
        if name in STRICT_METHODS:
            return self._meet(node, [base, *values])
        return UNKNOWN if name in ("to", "type_as") and self._to_host(node, values) else DEVICE

    def _to_host(self, node: ast.Call, values: list[Val]) -> bool:
        """Is it moved to the CPU, or to where a plain attribute is?"""
        if any(value.kind is Is.PLAIN for value in values):
            return True
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(argument, ast.Constant) and argument.value == "cpu":
                return True
            if isinstance(argument, ast.Attribute) and argument.attr == "device":
                if self._eval(argument.value).kind is Is.PLAIN:
                    return True
        return False

    def _torch_call(self, node: ast.Call, name: str, values: list[Val]) -> Val:
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.") and last[:1].isupper():
            return Val(Is.MODULE, node=node)
        device = next((k.value for k in node.keywords if k.arg == "device"), None)
        if device is not None:
            given = self._eval(device)
            return (
                DEVICE if isinstance(given.node, ast.Attribute) and given.node.attr == "device" else UNKNOWN
            )
        if last.endswith("_like"):
            return values[0] if values else UNKNOWN
        functional = name.count(".") == 1 or name.startswith(
            ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.")
        )
        if not functional or name in torch_api.NOT_TENSOR_CALLS:
            return UNKNOWN
        if last in LOOSE:
            first = values[0] if values else UNKNOWN
            if last in MAKES:
                return UNKNOWN
            return first if first.kind in (Is.DEVICE, Is.PLAIN) else UNKNOWN
        made = self._meet(node, values)
        if made.kind is Is.PLAIN:
            return replace(made, dim=dims.after(last, made.dim, node, method=False))
        return made

    def _strict(self, module: Val) -> bool:
        """Is it a layer of torch with parameters, so that its inputs must be where they are?"""
        if not isinstance(module.node, ast.Call):
            return False
        name = self.source.qualified(module.node.func)
        return (
            name.startswith("torch.nn.")
            and name not in torch_api.BARE_MODULES
            and name not in torch_api.CONTAINERS
            and name not in torch_api.WEIGHTED_LOSSES
            and not name.endswith("Loss")
        )

    def _module_call(self, node: ast.Call, module: Val, args: list[Val], values: list[Val]) -> Val:
        if self._strict(module):
            self._meet(node, [*values, DEVICE])
            return DEVICE
        made = module.node
        if isinstance(made, ast.Call):
            name = self.source.qualified(made.func)
            if name in torch_api.BARE_MODULES or name in torch_api.WEIGHTED_LOSSES:
                return self._meet(node, values)
            info = self.classes.get(made.func.id) if isinstance(made.func, ast.Name) else None
            if info is not None:
                forward = info.method("forward")
                if forward is not None:
                    return self._inline(forward[0], forward[1], node, args, 1)
        return DEVICE if any(value.kind is Is.DEVICE for value in values) else UNKNOWN
