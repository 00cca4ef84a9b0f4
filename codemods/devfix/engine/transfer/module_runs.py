"""Runs of modules: what their forward does where it is in view, and where all must be that they get."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from devfix.engine.events import USED
from devfix.engine.evidence import is_count
from devfix.engine.facts import GivenRun
from devfix.engine.files import Class
from devfix.engine.frame import Arguments
from devfix.engine.places import (
    CHOICE,
    CPU,
    DEFAULT,
    LITERAL,
    OF,
    OWNED,
    VAR,
    Place,
    alternatives,
    is_parameter,
)
from devfix.engine.state import MAX_NESTING, either, merge
from devfix.engine.transfer.attributions import Attributions
from devfix.engine.transfer.requirements import Operand
from devfix.engine.values import (
    ANYTHING,
    BATCH,
    JOIN,
    LIBRARY_CALL,
    MAKE,
    MAPPING,
    MODULE,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Value,
    weak,
)
from devfix.models.loader import public


class ModuleRuns(Attributions):
    def one_of(self, calls: Sequence[Callable[[], Value]], condition: object = None) -> Value:
        """What one of these calls gives, and does to the heap: the first where the condition holds."""
        before, found = self.state.copy(), None
        for call in calls:
            left = self.state.aside()
            self.state.take(before.copy())
            if condition is not None:
                self.assume([(condition, found is None)], {})
            value = call()
            if found is not None:
                self.state.take(merge(left, self.state.aside(), condition))
                value = either(self.state, found, value, condition)
            found = value
        return ANYTHING if found is None else found

    def call_module(self, node: ast.Call, module: Value, arguments: Arguments) -> Value:
        """`module(...)`; where it may be of several classes, what goes wrong in the first is told."""
        made = partial(self._run_module, node, module, arguments)
        others = [partial(self._run_quietly, node, one, module, arguments) for one in self._others(module)]
        return self.one_of([made, *others]) if others else made()

    def _others(self, module: Value) -> list[Value]:
        """The modules of other classes for which one stands."""
        owners = {module.bound.ref} if module.bound is not None else set()
        found = []
        for one in module.items or () if owners else ():
            if one.bound is not None and one.bound.ref not in owners:
                owners.add(one.bound.ref)
                found.append(one.but(assumed=one.assumed | module.assumed))
        return found

    def _run_quietly(self, node: ast.Call, module: Value, stood_for: Value, arguments: Arguments) -> Value:
        """A run of a module of another class than the one that stands for it, of which nothing is told."""
        if any(one.kind == JOIN for one in stood_for.links):
            self.move_module(
                module.ref, self.where(stood_for)
            )  # made on another path, it was moved like the first
        self.quiet += 1
        try:
            return self._run_module(node, module, arguments)
        finally:
            self.quiet -= 1

    def _run_module(self, node: ast.Call, module: Value, arguments: Arguments) -> Value:
        """Its forward where that is in view, else all that it gets must be where it is."""
        values, keywords = arguments = self.inputs(arguments)
        self.note(USED, node, module, node.func, name="called")
        place = self.where(module)
        self.given_run(node, module, place, arguments)
        parts = self.analysis.parts
        scatters = module.role == "scatters" or module.ref in parts.scattering
        scatters = scatters and not place.on_host  # it moves its inputs
        if scatters and not any(one.on_host for one, _ in alternatives(place, self.state.path)):
            if module.bound is None:
                return Value(BATCH, place, assumed=module.assumed)
            values = [(_scattered(value, place), at) for value, at in values]
            keywords = {name: (_scattered(value, place), at) for name, (value, at) in keywords.items()}
            arguments, scatters = (values, keywords), False
        held = None if scatters else module.bound
        if isinstance(held, Value) and isinstance(held.ref, Class) and module.role != "hidden":
            forward = held.ref.method("forward") or held.ref.method("__call__")
            if forward is not None:
                given = self.call_function(node, forward, module, arguments)
                if self.function is not None and isinstance(node.func, ast.Name):
                    known = self.analysis.gives_to_host.setdefault(
                        (id(self.function.node), node.func.id), set()
                    )
                    known.add(given.kind in (TENSOR, BATCH) and self.where(given).on_host)
                return given
            if not self.analysis.classes.has_state(self.state, module.ref, held.ref):
                # The heirs of the class of `self` may have parameters.
                itself = module.ref == self.analysis.classes.cell(held.ref)
                return Value(BATCH, place) if itself else self.unknown(node)
        chained = self.chained(module) if len(values) == 1 and not keywords else ()
        if chained:
            value, at = values[0]
            for part in chained:
                value = self.call_value(node, part, ([(value, at)], {}))
            return value
        every = [*values, *keywords.values()]
        if module.role in ("loss", "weighted"):  # a loss of torch takes nothing but tensors
            every = [(self.as_tensor(value), at) for value, at in every]
        operands = [one for value, at in every for one in self.tensors(value, at)]
        operands = [one for one in operands if one[0].kind != MODULE]
        if module.ref in parts.set_up and not place.on_host:
            # What else it is given need be no tensor.
            operands = [one for value, at in values[:1] for one in self.tensors(value, at)]
        if scatters:
            operands = [one for one in operands if self.where(one[0]).on_device]
        elif module.ref in parts.wrapped:  # where its inputs are not moved, it may do that
            kinds = (CHOICE,) if parts.unwrapped.get(module.ref) else (CHOICE, DEFAULT, CPU)
            operands = [one for one in operands if one[0].place.kind not in kinds]
        name = self.file.source.code(node.func)[:40]
        if self.analysis.entered:
            self.in_autocast(module, place, name=node.func.id if isinstance(node.func, ast.Name) else "")
        for value, at in (*values, *keywords.values()):
            if value.kind == UNKNOWN and value.role == "host":  # what a module gets is a tensor
                used = Assumption(USES, self.file.source.code(at)[:40])
                operands.append((value.but(kind=TENSOR, assumed=value.assumed | {used}), at))
        if module.role in ("loss", "weighted"):
            self.left_behind(node, [*values, *keywords.values()], name)
        if len(operands) > 1 or not self._is_layer(module):  # modules may want lengths on the CPU
            operands = [one for one in operands if not is_count(one[1]) or _is_made_of_rows(one[0])]
        self.analysis.named.ran(self, node, (module, node.func), [*values, *keywords.values()])
        if module.role == "bare":
            first = operands[0][0] if operands else Value(TENSOR)
            return first.but(kind=TENSOR, role="") if len(operands) < 2 else Value(TENSOR, self.where(first))
        if module.role == "loss":
            row = self.analysis.models.rows.get(public(self.class_of(module)))
            strict = row is not None and row.strict
            made = self.together(node, operands, name, strict=strict) if operands else Value(TENSOR)
            return made.but(rank=0 if module.rank == 0 else made.rank, role="")
        if place.kind == "unknown" and not operands:
            return Value(BATCH)
        if module.assumed or not self.is_seen(module):
            module = module.but(assumed=module.assumed | {Assumption(LIBRARY_CALL)})
            operands = [(one.doubted(Assumption(LIBRARY_CALL)), at) for one, at in operands]
        if place.on_host and not self.is_weighted(module):
            return self.unknown(node)
        self.together(node, [(module, node.func), *operands], name, strict=True)
        for value, at in values if place.on_host else ():  # what callers give it is tensors
            if value.kind == UNKNOWN and value.place.kind in (OF, CHOICE) and value.role in ("", "cast"):
                assumed = value.assumed | {Assumption(USES, self.file.source.code(at))}
                given = value.but(kind=BATCH, assumed=assumed)
                self.together(node, [(module, node.func), (given, at)], name, strict=True)
        place = self._decided(place, operands)
        if place.on_device or place.on_host or place.kind == CHOICE:
            return Value(BATCH, place, assumed=module.assumed)
        return Value(BATCH, place)

    def given_run(self, node: ast.Call, module: Value, place: Place, arguments: Arguments) -> None:
        """Note that what a caller has passed is run on what is on a device."""
        if self.quiet or self.function is None or self.file is not self.analysis.file:
            return
        if not is_parameter(place) or weak(module):
            return
        for value, _ in (*arguments[0], *arguments[1].values()):
            given = self.where(value)
            if value.kind in (TENSOR, BATCH) and given.kind == VAR:
                self.analysis.given_runs.append(GivenRun(node, self.function, module, place, given))
                return

    def _is_layer(self, module: Value) -> bool:
        """Is it a layer of torch itself?"""
        return self.class_of(module).startswith("torch.nn.")

    def _decided(self, place: Place, operands: list[Operand]) -> Place:
        """Where a module is that somebody else has placed or left behind: with its inputs, if these are moved."""
        if place.kind in (VAR, LITERAL, CHOICE, OWNED):
            return place
        for value, _ in operands:
            given = self.where(value)
            if any(one.kind in (VAR, LITERAL) for one, _ in alternatives(given, self.state.path)):
                return given
        return place


def _scattered(value: Value, place: Place, depth: int = 0) -> Value:
    """What a module gets of a value that is spread over its devices: tensors, also in lists and dicts, are there."""
    if value.kind in (TENSOR, BATCH):
        return value.but(place=place, links=())
    if value.kind not in (SEQUENCE, MAPPING) or depth > MAX_NESTING:
        return value
    return value.but(
        items=value.items and tuple([_scattered(one, place, depth + 1) for one in value.items]),
        fields=value.fields and {key: _scattered(one, place, depth + 1) for key, one in value.fields.items()},
        rest=value.rest and _scattered(value.rest, place, depth + 1),
    )


def _is_made_of_rows(value: Value) -> bool:
    """Is a tensor made with at least two dimensions, as `torch.ones(3, 1)` and `torch.ones((3, 1))` are?"""
    made = value.links[0].node if value.links else None
    if not isinstance(made, ast.Call) or value.links[0].kind != MAKE:
        return False
    sizes = made.args[0].elts if made.args and isinstance(made.args[0], ast.Tuple) else made.args
    return len(sizes) > 1 and not value.links[0].name.endswith(("arange", "linspace", "tensor"))
