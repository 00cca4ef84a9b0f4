"""The functions and classes of one file, and what calls between them carry.

A function is first interpreted with nothing known of its parameters: its *summary*, what it does
to them and returns. Where call sites tell more, it is interpreted again with what they pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from devfix.flow import frameworks, torch_api
from devfix.flow.bases import Bases, judged
from devfix.flow.events import Scope, What
from devfix.flow.evidence import (
    Evidence,
    annotated_kind,
    looks_like_device,
    looks_like_loader,
    looks_like_module,
    tells_loaders,
)
from devfix.flow.given import joined_arguments, tells
from devfix.flow.interpret import Interpreter
from devfix.flow.lattice import (
    CARRIERS,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    State,
    Value,
    Where,
    fresh_identity,
    replace,
)
from devfix.flow.order import Order
from devfix.flow.passing import ClassInfo, Function, FunctionInfo, Passing
from devfix.source import Source

_MOVE_WORDS = (".to(", ".cuda(", "device")
_DEVICE_WORDS = (
    *_MOVE_WORDS,
    ".cuda.",
    "autocast",
    "GradScaler",
    "oader",
    "from_numpy",
    "setattr(",
    "_module(",
    "_processor(",
)
MAX_DEPTH = 8  # of summaries that ask for summaries
_SELF_ATTRIBUTE = re.compile(r"self\.(\w+)(?:\s*,\s*self\.(\w+))?\s*(?::[^=\n]{1,300})?=(?!=)")


class Program(Passing):
    """One file under analysis."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.evidence = Evidence(source)
        self.values: dict[ast.expr, Value] = {}
        self.plain: set[str] = set()  # names that, where nothing is bound to them, are nothing known
        self._assigned: dict[ClassInfo, frozenset[str]] = {}
        self.functions: dict[Function, FunctionInfo] = {}
        self.called = set()
        self.classes: dict[ast.ClassDef, ClassInfo] = {}
        self.class_names: dict[str, ClassInfo] = {}
        self._module: Interpreter | None = None
        self.scopes: list[Scope] = []
        self.made: list[Scope] = []  # those, and what else was interpreted on the way
        self.default_known = not any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS)
        self.prepared = tells_loaders(source) or any(map(frameworks.places_loaders, source.imports.values()))
        self._placed: tuple[str, ...] = ()  # module-level names of modules that are on a device
        self._depth = 0

    def release(self) -> None:
        """Break the circles between a file's functions, scopes and the interpreter."""
        for scope in self.made:
            scope.events.clear()
        self.functions.clear()
        self.classes.clear()
        self._module = None

    def default_place(self, node: ast.AST) -> Place:
        """Where torch makes things that are told nothing."""
        return Place(Where.DEFAULT, node=node) if self.default_known else UNPLACED

    # --- running -------------------------------------------------------------------------

    def run(self) -> None:
        """Interpret the module body, then every function, callers before callees where possible."""
        interpreter = self.run_module()
        self._placed = _placed_names(interpreter.state.names, interpreter.state)
        self.scopes.append(interpreter.scope)
        order = Order()
        while batch := order.following(self.functions, self.called):
            for node in batch:
                self._finish(self.functions[node])

    def run_module(self) -> Interpreter:
        """Interpret the module body only; its functions and classes are known then."""
        tree = self.source.tree
        interpreter = self._module = Interpreter(self, Scope(tree, "<module>"), State())
        interpreter.block(tree.body)
        if " global " in self.source.text:
            for name in re.findall(r"(?m)^[ \t]+global[ \t]+(\w+)", self.source.text):
                interpreter.state.forget(name)
        for function in interpreter.nested:
            self._info(function, None)
        return interpreter

    def _globals(self) -> State:
        """The module body's names, as far as it has been interpreted."""
        return self._module.state if self._module is not None else State()

    def _info(self, node: Function, owner: ClassInfo | None) -> FunctionInfo:
        info = self.functions.get(node)
        if info is None:
            info = self.functions[node] = FunctionInfo(node, owner)
        return info

    def add_class(self, node: ast.ClassDef) -> None:
        """Register a class and its methods."""
        if node in self.classes:
            return
        bases = tuple(self.source.qualified(base) or ast.unparse(base) for base in node.bases)
        known: dict[str, Bases] = {}
        for base in bases:
            info = self.class_names.get(base.rpartition(".")[2])
            if info is not None:
                known[base] = Bases(info.module, info.host, info.owned)
        made = judged(bases, known)
        methods = {
            item.name: item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        info = ClassInfo(node, bases, methods, fresh_identity(), made.module, made.host, made.owned)
        self.classes[node] = info
        self.class_names[node.name] = info
        order = sorted(methods.values(), key=lambda method: method.name != "__init__")
        for method in order:
            self._info(method, info)

    def _parameters(self, info: FunctionInfo) -> list[ast.arg]:
        arguments = info.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    def _symbolic(self, info: FunctionInfo, argument: ast.arg, index: int) -> Value:
        """A parameter by its annotation, uses and name."""
        name = argument.arg
        identity = fresh_identity()
        place = Place(Where.OF, name, identity, argument)
        kind = annotated_kind(argument.annotation)
        text = self.evidence
        if kind == "device" or (kind in ("", "string") and looks_like_device(name)):
            symbol = Place(Where.SYMBOL, name, identity, argument)
            form = {"device": "object", "string": "string"}.get(kind, "")
            return Value(Kind.DEVICE, symbol, identity, argument, form=form, sure=bool(kind), parameter=index)
        if kind == "module" or (not kind and text.used_as_module(name)):
            return Value(Kind.MODULE, place, identity, argument, sure=True, parameter=index)
        if kind == "loader" or (argument.annotation is None and looks_like_loader(name)):
            known = self.default_known and not self.prepared
            where = Place(Where.DEFAULT, node=argument) if known else UNPLACED
            source = f"`{name}`"
            return Value(
                Kind.LOADER, where, identity, argument, source=source, sure=kind == "loader", parameter=index
            )
        if kind == "tensor" or (not kind and text.used_as_tensor(name)):
            return Value(
                Kind.TENSOR,
                place,
                identity,
                argument,
                name="parameter",
                source=f"`{name}`",
                sure=kind == "tensor",
                parameter=index,
            )
        if not kind and looks_like_module(name):
            return Value(Kind.MODULE, place, identity, argument, sure=False, parameter=index)
        if kind == "string":
            return UNKNOWN
        return Value(Kind.ANY, place, identity, argument, source=f"`{name}`", sure=False, parameter=index)

    def _execute(
        self, info: FunctionInfo, passed: tuple[Value, ...] | None
    ) -> tuple[Scope, dict[ast.expr, Value]]:
        node, owner = info.node, info.owner
        scope = Scope(node, node.name, owner.node if owner else None)
        scope.host = bool(owner and owner.host) or any(
            word in node.name for word in frameworks.HOST_FUNCTIONS
        )
        scope.owned = bool(owner and owner.owned)
        state = (info.outer if info.outer is not None else self._globals()).begun()
        parameters: list[Value] = []
        for index, argument in enumerate(self._parameters(info)):
            value = self._symbolic(info, argument, index)
            if index == 0 and owner is not None and argument.arg in ("self", "cls"):
                kind = Kind.MODULE if owner.module else Kind.INSTANCE
                value = Value(
                    kind, UNPLACED, owner.identity if owner.module else 0, owner.node, owner.node.name
                )
            elif passed is not None and index < len(passed) and passed[index].kind is not Kind.UNKNOWN:
                value = self._given(passed[index], value, argument)
            parameters.append(value)
            state.bind(argument.arg, value)
        if owner is not None and node.name != "__init__":
            init = owner.methods.get("__init__")
            if init is not None:
                state.know(self._facts(owner, self.functions[init]))
        for extra in (node.args.vararg, node.args.kwarg):
            if extra is not None:
                state.forget(extra.arg)
        scope.parameters = tuple(parameters)
        interpreter = Interpreter(self, scope, state)
        interpreter.values = {}
        interpreter.block(node.body)
        scope.returned = interpreter.returned()
        info.end = interpreter.state
        for nested in interpreter.nested:
            self._info(nested, None).outer = interpreter.state
        return scope, interpreter.values

    def _given(self, passed: Value, symbolic: Value, argument: ast.arg) -> Value:
        """A parameter with what its call sites pass; tensors keep the caller's responsibility."""
        if passed.kind is Kind.DEVICE:
            place = passed.place
            if place.where in (Where.SYMBOL, Where.ACCELERATOR, Where.CPU):
                place = replace(place, text=argument.arg, key=place.key or symbolic.identity)
            return replace(passed, place=place, parameter=symbolic.parameter, identity=symbolic.identity)
        if passed.kind in (Kind.MODULE, Kind.LOADER, Kind.FUNCTION, Kind.CLASS, Kind.TOKENIZER, Kind.OWNER):
            return replace(passed, parameter=-1)
        if passed.kind in CARRIERS:
            return replace(
                passed,
                place=symbolic.place,
                identity=symbolic.identity,
                parameter=symbolic.parameter,
                items=None,
                fields=None,
                element=None,
                name="parameter",
                source=symbolic.source,
            )
        return symbolic

    def _facts(self, owner: ClassInfo, init: FunctionInfo) -> dict[str, Value]:
        """What `__init__` leaves in `self`, less what other methods assign as well."""
        if init.final is None and not init.running:
            self._finish(init, needed=True)
        if owner.facts is not None:
            return owner.facts
        facts = {
            name: replace(value, place=init.end.place(value)) if value.kind is Kind.MODULE else value
            for name, value in init.end.names.items()
            if name.startswith("self.")
        }
        for name in self._assigned_elsewhere(owner, init):
            facts.pop(name, None)
        if init.final is not None:
            owner.facts = facts
        return facts

    def _assigned_elsewhere(self, owner: ClassInfo, init: FunctionInfo) -> frozenset[str]:
        """What a class assigns of `self` outside of `__init__`."""
        found = self._assigned.get(owner)
        if found is None:
            whole, own = self.source.span(owner.node), self.source.span(init.node)
            found = self._assigned[owner] = frozenset(
                f"self.{name}"
                for match in _SELF_ATTRIBUTE.finditer(self.source.text, whole.start, whole.end)
                if not own.start <= match.start() < own.end
                for name in match.groups()
            )
        return found

    def summary(self, info: FunctionInfo) -> Scope | None:
        """What a function does to its parameters; None while it is being found out."""
        if info.summary is None:
            if info.running or self._depth >= MAX_DEPTH:
                return None
            info.running = True
            self._depth += 1
            try:
                info.summary, info.summary_values = self._execute(info, None)
            finally:
                info.running = False
                self._depth -= 1
        return info.summary

    def _worthwhile(self, info: FunctionInfo) -> bool:
        """Can anything in a function be about devices? Most functions of most files are not."""
        code = self.source.code(info.node)
        for word in _DEVICE_WORDS:
            if word in code:
                return True
        placed = self._placed if info.outer is None else _placed_names(info.outer.names, info.outer)
        if any(name in code for name in placed):
            return True
        owner = info.owner
        if owner is None or "self." not in code:
            return False
        if owner.placed is None:
            owner.placed = ()
            init = owner.methods.get("__init__")
            if init is not None and any(word in self.source.code(init) for word in _MOVE_WORDS):
                owner.placed = _placed_names(self._facts(owner, self.functions[init]), State())
        return any(name in code for name in owner.placed)

    def _finish(self, info: FunctionInfo, needed: bool = False) -> None:
        """Interpret a function for its findings."""
        if info.final is not None or info.running:
            return
        if not info.calls and not needed and not self._worthwhile(info):
            return
        passed = joined_arguments(list(info.calls.values()))
        if passed is None or not any(tells(value) for value in passed):
            scope = self.summary(info)
            values = info.summary_values
            if scope is None:
                return
        else:
            info.running = True
            try:
                scope, values = self._execute(info, passed)
            finally:
                info.running = False
        info.final = scope
        self.values.update(values)
        self.scopes.append(scope)

    # --- calls ---------------------------------------------------------------------------

    def mentions_device(self, name: str) -> bool:
        """Does a class of this file do something about devices when it is made?"""
        info = self.class_names.get(name)
        return info is not None and self._places_itself(info)

    def _places_itself(self, info: ClassInfo) -> bool:
        init = info.methods.get("__init__")
        if init is None:
            return False
        text = self.source.code(init)
        return "device" in text or ".to(" in text or ".cuda(" in text

    def method(self, base: Value, name: str) -> Value | None:
        info = self.classes.get(base.node) if isinstance(base.node, ast.ClassDef) else None
        if info is None or name not in info.methods:
            return None
        return Value(Kind.FUNCTION, node=info.methods[name], name=name)

    def method_of_self(self, scope: Scope, base: Value, name: str) -> Value | None:
        """A method of a module class of this file, if it is worth following into."""
        info = self.classes.get(scope.owner) if scope.owner is not None else None
        if info is not None and base.identity == info.identity and name in info.methods:
            return Value(Kind.FUNCTION, node=info.methods[name], name=name)
        other = self.class_names.get(base.name)
        if other is None or name not in other.methods or base.kind is not Kind.MODULE:
            return None
        summary = self.summary(self._info(other.methods[name], other))
        if summary is None:
            return None
        for event in summary.events:
            if event.what in (What.ATTACH, What.MOVE) and event.value.identity == other.identity:
                return Value(Kind.FUNCTION, node=other.methods[name], name=name)
        return None

    def attribute(self, base: Value, name: str, node: ast.expr) -> Value:
        """An attribute of an instance of a class, as `__init__` leaves it; `node` is where it is read."""
        info = self.classes.get(base.node) if isinstance(base.node, ast.ClassDef) else None
        init = info.methods.get("__init__") if info is not None else None
        if info is None or init is None:
            return UNKNOWN
        made = self._info(init, info)
        if made.final is None:
            return UNKNOWN
        return self._facts(info, made).get(f"self.{name}", UNKNOWN)


def _placed_names(names: Mapping[str, Value], state: State) -> tuple[str, ...]:
    return tuple(
        n for n, value in names.items() if value.kind is Kind.MODULE and state.place(value).on_device
    )
