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
from devfix.registration.buffers import Candidate
from devfix.registration.calling import Calling
from devfix.registration.classes import ModuleClass
from devfix.registration.made import Kind
from devfix.registration.making import Maker
from devfix.registration.signatures import default_of, parameters
from devfix.registration.stores import Method, self_name
from devfix.registration.values import (
    DEVICE,
    LAYER,
    NUMBER,
    UNKNOWN,
    Attribute,
    Env,
    Is,
    Meet,
    Val,
    join,
    join_all,
    used_as_tensor,
)
from devfix.source import Source

# What modules without a `forward` are called by.
_TRANSFORMS = frozenset(
    {
        "transform",
        "untransform",
        "evaluate",
        "encode",
        "decode",
        "quantize",
        "apply_noise",
        "log_prob",
        "sample",
    }
)


class Meetings(Calling):
    """Finds the meetings of one file's candidates; `found` has the first of each.

    `moved` has the attributes that are moved where they are used.
    """

    def __init__(
        self,
        source: Source,
        classes: tuple[ModuleClass, ...],
        maker: Maker,
        candidates: dict[Attribute, Candidate],
    ) -> None:
        super().__init__()
        self.source = source
        self.maker = maker
        self.classes = {info.node.name: info for info in classes}
        self.candidates = candidates
        self.found: dict[Attribute, Meet] = {}
        self.moved: dict[Attribute, Meet] = {}
        self._noted: dict[Attribute, Meet] = {}  # of the method that is run now
        self._kept: dict[Attribute, list[Val]] = {}
        self._needed: set[str] = set()  # parameters that must be on the device
        self._modules: dict[tuple[str, str], Val] = {}
        self._fresh = {key: _plain(key, candidate) for key, candidate in candidates.items()}
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
        self._needed = set()
        self._run_through(owner, method, dict(env))
        if self._needed:
            self._run_through(owner, method, {**env, **dict.fromkeys(self._needed, DEVICE)})
        for key, meet in self._noted.items():
            if self._first_sight(key):
                self.found.setdefault(key, meet)

    def _run_through(self, owner: ModuleClass, method: Method, env: Env) -> None:
        self._held, self._noted, self._kept = dict(self._fresh), {}, {}
        self._visited.clear()
        self._execute(owner, method, env)

    def _first_sight(self, key: Attribute) -> bool:
        """Is it what the constructor left that a method met, and are only tensors stored there later?

        What a method outside of the run may have stored before is not known.
        """
        later = self.candidates[key].later
        if any(store.method not in self._visited for store in later):
            return False
        return all(value.kind in (Is.DEVICE, Is.PLAIN) for value in self._kept.get(key, ()))

    def _symbolic(self, owner: ModuleClass, method: Method, argument: ast.arg, index: int) -> Val:
        given = Val(Is.GIVEN, given=frozenset({argument.arg}))
        if method.name != "forward":
            # It may prepare data on the CPU; but of a class without `forward` such methods are its work.
            transform = method.name in _TRANSFORMS and owner.method("forward") is None
            told = transform and annotated_kind(argument.annotation) == "tensor"
            return DEVICE if told else given
        if argument.annotation is not None:
            return DEVICE if annotated_kind(argument.annotation) == "tensor" else UNKNOWN
        optional = False
        default = default_of(method, argument.arg)
        if default is not None:
            optional = True
            if not (isinstance(default, ast.Constant) and default.value is None):
                return UNKNOWN
        for node in self.source.walk(method):
            if isinstance(node, ast.Name) and node.id == argument.arg and isinstance(node.ctx, ast.Load):
                if used_as_tensor(self.source, node, number=index > 0 or optional):
                    return DEVICE
                parent = self.source.parents[node]
                if isinstance(parent, ast.Call) and node in parent.args:
                    if isinstance(parent.func, ast.Attribute) and (
                        self.source.code(parent.func.value) == self_name(method)
                    ):
                        module = self._own(owner, parent.func.attr)
                        if module.kind is Is.MODULE and (index == 0 or self._strict(module)):
                            return DEVICE
        return given

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
            given = [value for value in flat if value.kind is Is.GIVEN]
            if given:
                return Val(Is.GIVEN, given=frozenset[str]().union(*(value.given for value in given)))
            return Val(Is.PLAIN, frozenset[Attribute]().union(*(value.of for value in plain)), dim)
        if flat and all(value.kind is Is.NUMBER for value in flat):
            return NUMBER
        if flat and all(value.kind in (Is.NUMBER, Is.GIVEN) for value in flat):
            return Val(Is.GIVEN, given=frozenset[str]().union(*(value.given for value in flat)))
        return UNKNOWN

    def _note(self, value: Val, node: ast.expr) -> None:
        for attribute in value.of:
            self._noted.setdefault(attribute, Meet(node, self._run.function))

    def _keep(self, target: ast.Attribute, value: Val) -> None:
        owner = self._run.owner
        if owner is None or not isinstance(target.value, ast.Name):
            return
        if target.value.id == self_name(self._run.function):
            for each in owner.lineage:
                key = (each.node.name, target.attr)
                if key in self._held:
                    self._held[key] = value
                    self._kept.setdefault(key, []).append(value)

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
        if base.kind in (Is.DEVICE, Is.PLAIN, Is.GIVEN):
            if node.attr in torch_api.NOT_TENSOR or node.attr == "device":
                return Val(Is.NUMBER, node=node) if base.kind is Is.DEVICE else NUMBER
            return base
        return UNKNOWN

    def _own(self, owner: ModuleClass, name: str) -> Val:
        for each in owner.lineage:
            if (each.node.name, name) in self._held:
                return self._held[(each.node.name, name)]
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
            strict = [p for p, v in zip(parts, values, strict=True) if v.kind is Is.DEVICE]
            if strict:
                if any(not _perhaps_number(part) for part in strict):
                    self._note(base, node)  # a CUDA index into a CPU tensor
                    return DEVICE
                return UNKNOWN
            if any(value.kind is Is.GIVEN for value in values):
                return UNKNOWN
            whole = [
                p for p, v in zip(parts, values, strict=True) if v.kind is Is.PLAIN and dims.solid(v.dim)
            ]
            return replace(base, dim=dims.after_index(node.slice, base.dim, whole))
        if base.kind is Is.MODULE:
            return self._element(base)
        return base  # a CPU index into a CUDA tensor is legal


def _plain(key: Attribute, candidate: Candidate) -> Val:
    """What the constructor leaves in an attribute."""
    of, made = frozenset({key}), candidate.made
    if candidate.parts:
        return Val(Is.UNKNOWN, items=tuple(Val(Is.PLAIN, of, item.dim) for item in made.items))
    return Val(Is.PLAIN, of, made.dim)


def _perhaps_number(index: ast.expr) -> bool:
    """`table[x[0][i]]`: an index without dimensions is a number, wherever it is."""
    if not isinstance(index, ast.Subscript):
        return False
    parts = index.slice.elts if isinstance(index.slice, ast.Tuple) else [index.slice]
    return not any(isinstance(part, (ast.Slice, ast.List)) for part in parts)
