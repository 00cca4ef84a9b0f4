"""Autocast: what is given for the type of a device, and where the data is that a context is for."""

from __future__ import annotations

import ast

from devfix.engine import evidence, form_evidence
from devfix.engine.facts import Autocast, DeviceUse
from devfix.engine.files import Function
from devfix.engine.frame import Arguments, Frame, Partial
from devfix.engine.places import (
    ACCELERATOR_ASKED,
    BY_LOADER,
    CUDA_THERE,
    LITERAL,
    OF,
    OWNED,
    VAR,
    Place,
    alternatives,
)
from devfix.engine.transfer.conditions import Conditions
from devfix.engine.values import ANYTHING, BATCH, MODULE, MOVE, TENSOR, UNKNOWN, Value
from devfix.models.loader import Row


class Autocasts(Conditions):
    # --- what wants the type of a device -------------------------------------------------

    def wants_type(self, node: ast.Call, dotted: str, row: Row, arguments: Arguments) -> None:
        """A call of what takes the type of a device as one of its arguments."""
        assert row.type is not None
        (position, name), (values, keywords) = row.type, arguments
        self._spread(node, position, name, dotted)
        given = keywords.get(name) or (values[position] if 0 <= position < len(values) else None)
        if given is not None:
            self.expressed(given[1], "type")
            self.given_type(*given, dotted)

    def _spread(self, node: ast.Call, position: int, name: str, dotted: str) -> None:
        """`torch.autocast(*args, **kwargs)`: callers give the type."""
        function = self.function
        if function is None:
            return
        typed, given = self.analysis.typed.setdefault(function, {}), function.node.args
        for index, one in enumerate(node.args[: position + 1]):
            if isinstance(one, ast.Starred) and isinstance(one.value, ast.Name) and given.vararg is not None:
                if one.value.id == given.vararg.arg:
                    typed[position - index] = dotted
        for keyword in node.keywords:
            if (
                name
                and keyword.arg is None
                and isinstance(keyword.value, ast.Name)
                and given.kwarg is not None
            ):
                if keyword.value.id == given.kwarg.arg:
                    typed[name] = dotted

    def given_type(self, value: Value, at: ast.expr, dotted: str) -> None:
        """Note what is given for the type of a device; of a parameter that is one by its name its callers tell."""
        function, source = self.function, self.file.source
        if isinstance(at, ast.Name) and function is not None and evidence.is_type_name(at.id):
            stored = (one.ctx for one in source.names(function.node).get(at.id, ()))
            given = any(one.arg == at.id for one in function.parameters)
            if given and not any(isinstance(one, ast.Store) for one in stored):
                self.analysis.typed.setdefault(function, {})[at.id] = dotted
                return
        up = source.parents.get(at)
        if self.quiet or self.file is not self.analysis.file or isinstance(up, (ast.Starred, type(None))):
            return
        if (isinstance(up, ast.keyword) and up.arg is None) or source.enclosing(at, ast.JoinedStr):
            return
        around = source.enclosing(at, ast.FunctionDef, ast.AsyncFunctionDef)
        self.quiet += 1
        try:
            parts = [(at, at, value)]
            if around is (function.node if function is not None else None):
                parts = self._parts(at, value)
        finally:
            self.quiet -= 1
        for part, device, of in parts:
            self.analysis.device_uses.append(
                DeviceUse("type", part, function, of, device, of.forms, name=dotted)
            )

    def _parts(self, at: ast.expr, value: Value) -> list[tuple[ast.expr, ast.expr, Value]]:
        """The arms of an expression, each with the device that it is cut from, and the value of that."""
        if not isinstance(at, ast.IfExp):
            device = form_evidence.cut_from(at)
            return [(at, device, value if device is at else self.eval(device))]
        before, found = self.state.copy(), []
        test = self.test(at.test)
        arms = ((test.if_true, test.true_names, at.body), (test.if_false, test.false_names, at.orelse))
        for conditions, told, part in arms:
            if test.decided is None or test.decided is (part is at.body):
                self.state.take(before.copy())
                self.assume(conditions, told)
                found += self._parts(part, self.eval(part))
        self.state.take(before)
        return found

    def of_lambda(self, node: ast.Lambda) -> None:
        """What a lambda gives for the type of a device is looked at where it is written."""
        for one in ast.walk(node.body):
            row = self.models.rows.get(self.file.dotted(one.func)) if isinstance(one, ast.Call) else None
            if row is not None and row.type is not None and isinstance(one, ast.expr):
                kept = self.state.names
                self.state.names = kept.and_also({given.arg: ANYTHING for given in node.args.args})
                self.eval(one)
                self.state.names = kept

    def handed_type(self, node: ast.Call, function: Function, me: Value | None, arguments: Arguments) -> None:
        """Note what a call gives for the parameters that its function hands on as the type of a device."""
        if function not in self.analysis.typed:
            return
        values, keywords = arguments
        names = function.positional[1 if me is not None and not function.static else 0 :]
        for slot in [*self.analysis.typed[function]]:
            index = len(names) + slot if isinstance(slot, int) else names.index(slot) if slot in names else -1
            given = values[index] if 0 <= index < len(values) else None
            if isinstance(slot, str):
                given = keywords.get(slot, given)
            owner = function.owner if function.name == "__init__" else None
            called = owner.name if owner is not None else function.name
            self._spread(node, index, slot if isinstance(slot, str) else "", called)
            if given is not None:
                self.given_type(*given, called)

    # --- contexts ------------------------------------------------------------------------

    def autocast(self, node: ast.Call, dotted: str, row: Row, arguments: Arguments) -> Value:
        """`torch.autocast(type)`, `torch.cuda.amp.autocast()`: a context."""
        values, keywords = arguments
        given = None
        if row.type is not None:
            given = keywords.get(row.type[1]) or (values[0] if values else None)
            self.wants_type(node, dotted, row, arguments)
        position = 0 if row.type is None else 2
        enabled = keywords.get("enabled") or (values[position] if len(values) > position else None)
        made = self.analysis.autocasts.get(node)
        if made is None:
            made = self.analysis.autocasts[node] = Autocast(node, self.file, self.function, row.type is None)
        if self.depth <= 1 or not made.scopes:
            made.function, made.me, made.path = self.function, self.me, self.state.path
            made.scopes = self.scopes()
        made.device_type = given[0] if given is not None else None
        made.enabled = enabled[1] if enabled is not None else None
        made.asks_machine = made.device_type is not None and made.device_type.place.key in self.analysis.asked
        if made.enabled is not None and self.key_of(made.enabled, Value(UNKNOWN)) == CUDA_THERE:
            made.is_for_machine = isinstance(made.enabled, ast.Call)
        return Value(UNKNOWN, ref=made, role="autocast")

    def made_by_partial(self, value: Value, partial: Partial) -> Value:
        """A context that a `functools.partial` makes: what says where it is for is written there."""
        if isinstance(value.ref, Autocast):
            value.ref.partial, value.ref.scopes = partial.node, partial.scopes
        return value

    def entered(self, value: Value, node: ast.expr) -> list[Autocast]:
        """The autocast contexts that a `with` enters."""
        if isinstance(value.ref, Autocast):
            return [value.ref]
        if self.analysis.autocasts and not isinstance(node, ast.Name):
            inside = (self.analysis.autocasts.get(one) for one in ast.walk(node) if isinstance(one, ast.Call))
            return [one for one in inside if one is not None]
        return []

    def decorated(self, frame: Frame) -> list[Autocast]:
        """The autocast contexts that the decorators of a function enter; this is the run of its file's body."""
        found = []
        assert frame.function is not None
        for one in frame.function.node.decorator_list:
            row = self.models.rows.get(self.file.dotted(one.func)) if isinstance(one, ast.Call) else None
            if row is not None and row.form == "context":
                made = self.eval(one).ref
                if isinstance(made, Autocast):
                    made.decorated, made.me, made.scopes = frame.function, frame.me, frame.scopes()
                    found.append(made)
        return found

    def in_autocast(self, value: Value, place: Place, *, moved: bool = False, name: str = "") -> None:
        """Data is used in an autocast, or moved there; `name`: what it is read by."""
        if (
            value.kind not in (TENSOR, BATCH, MODULE)
            and value.role not in ("moved", "instance")
            and not moved
        ):
            return
        told = name and self.depth <= 1 and (value.kind == TENSOR or self.has_device(value, place))
        for one in self.analysis.entered:
            arms = alternatives(place)
            asked = any(
                evidence.about_devices(condition) and condition != ACCELERATOR_ASKED  # for any of them
                for _, path in arms
                for condition, _ in path
            )
            if asked or any(arm.kind == LITERAL for arm, _ in arms):
                one.is_fixed = True
            elif place.kind == VAR or (place.kind == OF and (moved or _is_with_self(value, place))):
                one.followed.append(place)
            elif told and self.function is (one.decorated or one.function):
                one.read.setdefault(name, value)
            elif place.kind == OWNED:
                one.is_owned = True

    def has_device(self, value: Value, place: Place) -> bool:
        """Is it a model that its library has loaded to where it chose, and that says where that is?"""
        return place == BY_LOADER and value.kind == MODULE

    def targeted(self, value: Value, at: ast.expr) -> None:
        """Note by which expression something is moved to a place, for whoever wants to name that place."""
        place = self.state.resolve(value.place)
        if place.kind in (VAR, OF):
            me = self.me.ref if self.me is not None else None
            self.analysis.targets.setdefault(place, []).append((at, self.function, me, value.forms))


def _is_with_self(value: Value, place: Place) -> bool:
    """A tensor that was moved to where `self` is."""
    own = isinstance(place.key, tuple) and place.key[0] == "self" and value.kind == TENSOR
    return own and any(link.kind == MOVE for link in value.links)
