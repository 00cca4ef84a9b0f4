"""What an attribute is when the constructor is done: a plain CPU tensor, or something else."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import cached_property

from devfix.flow import torch_api
from devfix.names import Binding
from devfix.registration import dims
from devfix.registration.classes import ModuleClass
from devfix.registration.made import NO_TENSOR, NOT_KNOWN, NOTHING, Frame, Kind, LazyNames, Made, join
from devfix.registration.signatures import (
    arguments_of,
    default_of,
    parameters,
    returns_of,
    tensor_annotation,
    torch_name,
)
from devfix.registration.stores import Method, Store, assigned, self_name
from devfix.registration.torch_making import TorchMaker
from devfix.source import Source, walk

# Imported functions that mostly return a tensor on the CPU.
_HELPER = re.compile(
    r"^(?:get|make|build|create|compute|precompute|generate|gen|init)_\w{0,99}(?:kernel|mask|freqs?|table|grid|anchors?|"
    r"positions?|pos_emb\w{0,99}|pe|rope|filters?|window|indices|index|coords?|cis|sinusoid\w{0,99}|basis|bias)\w{0,99}$"
)
_HELPER_NOT = re.compile(r"device|cuda|np\.|numpy|param", re.IGNORECASE)
_BUILTINS = frozenset({"int", "float", "len", "range", "list", "dict", "str", "bool", "tuple", "set"})
_DISPLAYS = (ast.List, ast.Tuple, ast.ListComp)
_DEPTH = 40
_BINDINGS = 12
_STEPS = 300  # for one question; names that are bound again and again branch without end


class Maker(TorchMaker):
    """Evaluates constructor expressions of one file."""

    def __init__(self, source: Source, classes: tuple[ModuleClass, ...]) -> None:
        self.source = source
        self.classes = {info.node.name: info for info in classes}
        self.functions = {
            item.name: item
            for item in source.tree.body
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self._frames: dict[ast.AST, Frame] = {}
        self._given: dict[Method, set[str]] = {}
        self._returns: dict[Method, tuple[ast.expr, ...]] = {}
        self._active: set[tuple[ast.expr, Frame]] = set()
        self._values: dict[tuple[ast.expr, Frame], Made] = {}
        self._open: set[tuple[str, str]] = set()
        self._steps = 0
        self._cuts = 0  # how often a value was not followed further
        self._attributes: dict[tuple[str, str], Made] = {}
        self._depth = 0

    # --- what codemods ask ---------------------------------------------------------------------

    def store(self, owner: ModuleClass, store: Store) -> Made:
        """What one store leaves in the attribute."""
        if store.value is None or store.form in ("other", "deleted"):
            return NOT_KNOWN
        self.attribute(owner, store.name)  # first, since the value may read what it is assigned to
        made = self.value(store.value, self.frame(owner, store.method))
        if store.form == "unpack":
            return self._item(made, store.index)
        return made

    def attribute(self, owner: ModuleClass, name: str) -> Made:
        """What all stores to `self.<name>` of a class and its ancestors leave there."""
        key = (owner.node.name, name)
        if key in self._open:
            self._cuts += 1
        if key not in self._attributes:
            self._attributes[key] = NOT_KNOWN  # while it is being found out
            self._open.add(key)
            stores = [(c, s) for c in owner.lineage for s in c.stores.get(name, ()) if s.form != "augmented"]
            stores += [(c, c.buffers[name]) for c in owner.lineage if name in c.buffers]
            # Of `self.x = self.x / 2`, what it was before decides.
            first = [(c, s) for c, s in stores if not _of_itself(s)]
            self._attributes[key] = join([self.store(c, s) for c, s in first])
            if len(first) < len(stores):
                self._attributes[key] = join([self.store(c, s) for c, s in stores])
            self._open.discard(key)
        return self._attributes[key]

    def joined(self, owner: ModuleClass, stores: tuple[Store, ...]) -> Made:
        """What some of the stores to one attribute leave there."""
        return join([self.store(owner, s) for s in stores if s.form != "augmented"])

    def frame(self, owner: ModuleClass | None, scope: Method | ast.Module) -> Frame:
        if scope not in self._frames:
            self._frames[scope] = Frame(owner, scope, LazyNames(self.source, scope))
        return self._frames[scope]

    # --- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr, frame: Frame) -> Made:
        key = (node, frame)
        known = self._values.get(key)
        if known is not None:
            return known
        if not self._depth:
            self._steps = 0
        self._steps += 1
        if key in self._active or self._depth > _DEPTH or self._steps > _STEPS:
            self._cuts += 1
            return NOT_KNOWN
        self._active.add(key)
        self._depth += 1
        cuts = self._cuts
        try:
            made = self._value(node, frame)
        finally:
            self._active.discard(key)
            self._depth -= 1
        if cuts == self._cuts:
            self._values[key] = made
        return made

    def _value(self, node: ast.expr, frame: Frame) -> Made:
        if isinstance(node, ast.Constant):
            return NOTHING if node.value is None else NO_TENSOR
        if isinstance(node, ast.Name):
            return self._name(node, frame)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, frame)
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        if isinstance(node, (ast.Tuple, ast.List)):
            return Made(Kind.OTHER, items=tuple(self.value(item, frame) for item in node.elts))
        if isinstance(node, ast.IfExp):
            return join([self.value(node.body, frame), self.value(node.orelse, frame)])
        if isinstance(node, ast.BinOp):
            if isinstance(node.left, _DISPLAYS) or isinstance(node.right, _DISPLAYS):
                sides = [self.value(side, frame) for side in (node.left, node.right)]
                return Made(Kind.OTHER, items=tuple(item for side in sides for item in side.items))
            made = self._combine([self.value(node.left, frame), self.value(node.right, frame)])
            if isinstance(node.op, ast.MatMult):
                return replace(made, dim=dims.ANY)
            return made
        if isinstance(node, ast.UnaryOp):
            return self.value(node.operand, frame)
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            return replace(self._combine([self.value(part, frame) for part in parts]), whole=True)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, frame)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return Made(Kind.OTHER, items=(self.value(node.elt, frame),))
        if isinstance(node, ast.DictComp):
            return Made(Kind.OTHER, items=(self.value(node.value, frame),))
        if isinstance(node, ast.Dict):
            return Made(Kind.OTHER, items=tuple(self.value(item, frame) for item in node.values))
        if isinstance(node, (ast.JoinedStr, ast.Lambda)):
            return NO_TENSOR
        return NOT_KNOWN

    def _combine(self, values: list[Made]) -> Made:
        """What comes of values together: a CPU tensor that has dimensions keeps the others on the CPU."""
        kinds = {value.kind for value in values}
        tensors = [value for value in values if value.kind is Kind.TENSOR]
        if Kind.PLACED in kinds:
            return Made(Kind.PLACED)
        if not tensors:
            return NO_TENSOR if kinds == {Kind.OTHER} else NOT_KNOWN
        dim = dims.broadcast(value.dim for value in tensors)
        if not dims.solid(dim) and kinds - {Kind.TENSOR, Kind.OTHER, Kind.NONE}:
            return NOT_KNOWN  # a tensor without dimensions goes where the others are
        return Made(
            Kind.TENSOR,
            dim,
            all(value.whole for value in tensors) and Kind.UNKNOWN not in kinds and Kind.OTHER not in kinds,
            shared=any(value.shared for value in tensors),
            guess=any(value.guess for value in tensors),
        )

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Made:
        base = self.value(node.value, frame)
        if base.items and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return self._item(base, node.slice.value)
        if base.kind is Kind.TENSOR:
            return replace(base, dim=dims.after_index(node.slice, base.dim), items=())
        return base if base.kind is Kind.PLACED else NOT_KNOWN

    def _item(self, made: Made, index: int) -> Made:
        if made.items:
            return made.items[index] if -len(made.items) <= index < len(made.items) else NOT_KNOWN
        if made.kind is Kind.TENSOR:  # `a, b = tensor`, or the results of `meshgrid`, `max(dim)`, `chunk`
            return replace(made, dim=dims.ANY)
        return made if made.kind is Kind.PLACED else NOT_KNOWN

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Made:
        scope = frame.scope
        if isinstance(node.value, ast.Name) and frame.owner is not None and not isinstance(scope, ast.Module):
            if node.value.id == self_name(scope):
                return self.attribute(frame.owner, node.attr)
        if self.source.qualified(node).startswith(("torch.", "math.", "numpy.")):
            return NO_TENSOR
        base = self.value(node.value, frame)
        if base.kind is Kind.TENSOR:
            if node.attr in torch_api.NOT_TENSOR or node.attr == "device":
                return NO_TENSOR
            return base
        return base if base.kind is Kind.PLACED else NOT_KNOWN

    def _name(self, node: ast.Name, frame: Frame) -> Made:
        if self._only_given(node.id, frame):
            return self._parameter(node.id, frame)
        bindings = frame.names.bindings.get(node.id)
        if bindings and len(bindings) > _BINDINGS:
            return NOT_KNOWN
        if not bindings:
            if isinstance(frame.scope, ast.Module):
                return NOT_KNOWN
            return self.value(node, self.frame(None, self.source.tree))
        values: list[Made] = []
        if len(bindings) > 1:
            seen = frame.names.binding(node)
            single = seen is not None and seen.value is not None and seen.form == "single"
            if seen is not None and single and (seen.value, frame) not in self._active:
                bindings = [seen]  # the others are behind it
        for binding in bindings:
            if isinstance(binding.statement, ast.AugAssign):
                continue
            made = self._binding(binding, frame)
            if made is not None:
                values.append(made)
        return join(values)

    def _binding(self, binding: Binding, frame: Frame) -> Made | None:
        if binding.statement is None:
            return self._parameter(binding.name, frame)
        if binding.value is None:
            return NOT_KNOWN
        if (binding.value, frame) in self._active and _reads(binding):
            self._cuts += 1
            return None  # `x = x.unsqueeze(0)`: what it was before decides
        if isinstance(binding.value, ast.List) and not binding.value.elts:
            return Made(Kind.OTHER, items=self._appended(binding.name, frame))
        made = self.value(binding.value, frame)
        if binding.form == "unpack":
            parent = self.source.parents.get(binding.target)
            if isinstance(parent, (ast.Tuple, ast.List)):
                places = [at for at, one in enumerate(parent.elts) if one is binding.target]
                return self._item(made, places[0])
        return made

    def _appended(self, name: str, frame: Frame) -> tuple[Made, ...]:
        """What is appended to a list that starts empty."""
        found: list[Made] = []
        for read in frame.names.reads.get(name, ()):
            parent = self.source.parents[read]
            call = self.source.parents[parent]
            if isinstance(parent, ast.Attribute) and parent.attr == "append" and isinstance(call, ast.Call):
                found.extend(self.value(argument, frame) for argument in call.args)
        return tuple(found)

    # --- parameters and calls ------------------------------------------------------------------

    def _only_given(self, name: str, frame: Frame) -> bool:
        """Is it a parameter that the function does not assign?"""
        scope = frame.scope
        if isinstance(scope, ast.Module):
            return False
        if scope not in self._given:
            given = {argument.arg for argument in parameters(scope)}
            self._given[scope] = given - (frame.owner.assigned(scope) if frame.owner else assigned(scope))
        return name in self._given[scope]

    def _parameter(self, name: str, frame: Frame) -> Made:
        given = frame.arguments.get(name)
        if given is not None:
            return replace(self.value(*given), shared=True)
        scope = frame.scope
        if isinstance(scope, ast.Module):
            return NOT_KNOWN
        if frame.called:
            default = default_of(scope, name)
            return self.value(default, frame) if default is not None else NOT_KNOWN
        if scope.name == "__init__" and frame.owner is not None and frame.owner.made_here:
            if frame.owner.descendants:
                return NOT_KNOWN
            calls = self._constructions.get(frame.owner.node.name, [])
            found: list[Made] = []
            for call in calls:
                passed = arguments_of(scope, call, skip=1).get(name) or default_of(scope, name)
                if passed is None:
                    return NOT_KNOWN
                found.append(self.value(passed, self._frame_around(call)))
            if found:
                return replace(join(found), shared=True)
        return self._annotated(frame, scope, name)

    def _annotated(self, frame: Frame, scope: Method, name: str) -> Made:
        """An argument that its annotation calls a tensor: nobody has moved it yet where a module is made."""
        argument = next((a for a in parameters(scope) if a.arg == name), None)
        if scope.name != "__init__" or argument is None or not tensor_annotation(argument.annotation):
            return NOT_KNOWN
        text = frame.owner.text if frame.owner else self.source.code(scope)
        return Made(Kind.TENSOR, dims.of_argument(text, name), shared=True)

    def _passed(self, name: str, frame: Frame) -> list[ast.expr]:
        """What the calls in sight pass for a parameter; nothing where some do not say."""
        if name in frame.arguments:
            return [frame.arguments[name][0]]
        scope, owner = frame.scope, frame.owner
        if isinstance(scope, ast.Module) or owner is None or scope is not owner.init or owner.descendants:
            return []
        calls = self._constructions.get(owner.node.name, []) if owner.made_here else []
        passed = [arguments_of(scope, call, skip=1).get(name) for call in calls]
        return [value for value in passed if value is not None] if None not in passed else []

    @cached_property
    def _constructions(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for node in self.source.calls:
            if isinstance(node.func, ast.Name) and node.func.id in self.classes:
                found.setdefault(node.func.id, []).append(node)
        return found

    def _frame_around(self, node: ast.AST) -> Frame:
        function = self.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.frame(None, self.source.tree)
        owner = self.source.parents.get(function)
        info = self.classes.get(owner.name) if isinstance(owner, ast.ClassDef) else None
        return self.frame(info, function)

    def _call(self, node: ast.Call, frame: Frame) -> Made:
        name = torch_name(self.source, node.func)
        if name.startswith("torch."):
            return self._torch_call(node, name, frame)
        if name.startswith(("numpy.", "math.", "random.", "os.", "copy.deepcopy")):
            return NOT_KNOWN if name.startswith("copy.") else NO_TENSOR
        if isinstance(node.func, ast.Name):
            function = self.functions.get(node.func.id)
            if function is not None and node.func.id not in frame.names.bindings:
                return self._returned(None, function, node, frame, skip=0)
            if node.func.id in self.classes:
                return Made(Kind.MODULE, node=node)
            if node.func.id in _BUILTINS:
                return NO_TENSOR
            if name and _HELPER.search(node.func.id) and not _HELPER_NOT.search(self.source.code(node)):
                return Made(Kind.TENSOR, guess=True)
            return NOT_KNOWN
        if not isinstance(node.func, ast.Attribute):
            return NOT_KNOWN
        scope = frame.scope
        if isinstance(node.func.value, ast.Name) and frame.owner is not None:
            me = "" if isinstance(scope, ast.Module) else self_name(scope)
            if node.func.value.id in (me, frame.owner.node.name):
                found = frame.owner.method(node.func.attr)
                if found is not None:
                    return self._returned(
                        found[0], found[1], node, frame, skip=1 if self_name(found[1]) else 0
                    )
                return NOT_KNOWN
        return self._method(node, node.func, frame)

    def _returned(
        self, owner: ModuleClass | None, function: Method, call: ast.Call, frame: Frame, skip: int
    ) -> Made:
        if function not in self._returns:
            made = returns_of(self.source, function)
            self._returns[function] = made
        if not self._returns[function]:
            return NOT_KNOWN
        given = {name: (node, frame) for name, node in arguments_of(function, call, skip).items()}
        inner = Frame(owner, function, self.frame(owner, function).lazy, given, called=True)
        return join([self.value(node, inner) for node in self._returns[function]])


def _of_itself(store: Store) -> bool:
    """Does an assignment read the attribute that it assigns?"""
    return store.value is not None and any(
        isinstance(node, ast.Attribute) and node.attr == store.name for node in walk(store.value)
    )


def _reads(binding: Binding) -> bool:
    """Does what a name is bound to read the name: `x = x.unsqueeze(0)`?"""
    return binding.value is not None and any(
        isinstance(node, ast.Name) and node.id == binding.name for node in walk(binding.value)
    )
