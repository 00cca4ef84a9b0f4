"""What files hold: where a program loads it, and every expression that has something of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from devfix.engine.evidence_of_loads import holds_numbers, says
from devfix.engine.facts import Load, Scope
from devfix.engine.files import File, Function
from devfix.engine.frame import Arguments, Frame
from devfix.engine.transfer.expressions import HANDLERS
from devfix.engine.transfer.statements import Run
from devfix.engine.values import A_TEXT, ANYTHING, MAPPING, NONE, SEQUENCE, TENSOR, UNKNOWN, Value, elements
from devfix.models.loader import Row
from devfix.text.source import Source, remembered

ARGUMENT = "map_location"
# Functions and methods that give what they are given, or a part of it.
_SAME = frozenset(
    {"dict", "list", "tuple", "OrderedDict", "deepcopy", "copy", "getattr", "EasyDict", "reversed",
     "enumerate", "zip", "next", "sorted", "filter", "map", "get", "pop", "setdefault", "values", "items",
     "state_dict", "popitem", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_",
     "type", "eval", "train", "fuse"}
)  # fmt: skip
_ADDS = frozenset({"update", "append", "extend", "insert"})
_READS = frozenset({"shape", "dtype", "ndim", "device", "keys"})
_CONTAINERS = frozenset({SEQUENCE, MAPPING})
_DEEP = 3  # of containers in containers


@dataclass(eq=False)
class Loaded:
    """What the program loads, and where it goes.

    `placed`: calls that load, and say where to. `reached`: each expression that has something that was loaded by
    these calls. Of the calls that get something of it, `receivers` are the objects whose methods are called, `followed`
    run a function in view; `computing` are methods of what was loaded that get tensors. `hands_on`: functions that load
    to their `map_location`, which is None by default. `takers`: calls of libraries that take a device.
    """

    loads: dict[ast.Call, Load] = field(default_factory=dict)
    placed: set[ast.Call] = field(default_factory=set)
    reached: dict[ast.expr, tuple[File, set[ast.Call]]] = field(default_factory=dict)
    receivers: dict[ast.Call, Value] = field(default_factory=dict)
    followed: set[ast.Call] = field(default_factory=set)
    computing: set[ast.Call] = field(default_factory=set)
    hands_on: set[Function] = field(default_factory=set)
    takers: dict[ast.Call, tuple[Function | None, tuple[Scope, ...]]] = field(default_factory=dict)
    has_begun: bool = False  # has any value origins? Else none is looked for


def origins(value: Value, depth: int = _DEEP) -> frozenset[ast.Call]:
    """The calls that loaded something in a value, or in its elements."""
    found = value.origins
    if depth and value.kind in _CONTAINERS:
        for one in elements(value):
            if one.origins or one.kind in _CONTAINERS:
                found |= origins(one, depth - 1)
    return found


def may_load(source: Source) -> bool:
    """Are there words in a file that those which load something have?"""
    return "load" in source.text or ARGUMENT in source.text


class Loading(Run):
    """A run that knows of what is loaded where it goes."""

    def eval(self, node: ast.expr) -> Value:
        handler = HANDLERS.get(node.__class__)
        value = handler(self, node) if handler is not None else ANYTHING
        if self.analysis.loaded.has_begun and (value.origins or value.kind in _CONTAINERS):
            self._reach(node, origins(value))
        return value

    def _reach(self, node: ast.expr, found: frozenset[ast.Call]) -> None:
        if found:
            self.analysis.loaded.reached.setdefault(node, (self.file, set()))[1].update(found)

    def call_value(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        self._reach(node.func, callee.origins)
        return super().call_value(node, callee, arguments)

    def skipped(self, body: list[ast.stmt]) -> None:
        """A switch that is written down, as `RESUME = False`, may be set another time."""
        if self.caller is None and body:
            state, loops, returns, yields = self.state, self.loops, self.returns[:], self.yields[:]
            self.state, self.loops = state.copy(), []
            self.state.dead, self.quiet = False, self.quiet + 1
            self.block(body)
            self.state, self.loops, self.returns, self.yields = state, loops, returns, yields
            self.quiet -= 1

    # --- what loads --------------------------------------------------------------------------

    def by_row(self, node: ast.Call, row: Row, dotted: str, arguments: Arguments) -> Value:
        made = super().by_row(node, row, dotted, arguments)
        if row.place is None:
            return made
        position, keyword = row.place
        where = arguments[1].get(keyword) or (arguments[0] + [None] * 3)[position]
        if where is None:
            return self._loaded(node, made, dotted, row)
        self.analysis.loaded.placed.add(node)
        function = self.function
        default = function.defaults.get(ARGUMENT) if function is not None else None
        if function is not None and isinstance(default, ast.Constant) and default.value is None:
            names = [one for one in function.nodes if isinstance(one, ast.Name) and one.id == ARGUMENT]
            if where[1] in names and not any(isinstance(one.ctx, ast.Store) for one in names):
                self.analysis.loaded.hands_on.add(function)
        return made

    def _loaded(self, node: ast.Call, made: Value, name: str, row: Row | None = None) -> Value:
        """Note that a call loads something, and says nothing of its place; what it gives."""
        spread = any(isinstance(one, ast.Starred) for one in node.args)
        if spread or any(one.arg is None for one in node.keywords) or not (node.args or node.keywords):
            return made
        found, function = self.analysis.loaded.loads, self.function
        if self.file is self.analysis.file and (node not in found or self.caller is None):
            wrapped = function is not None and any(one.arg == ARGUMENT for one in function.parameters)
            unasked = False
            if wrapped and self.caller is None:
                keys = ("parameter", id(function and function.node), ARGUMENT), (id(function), ARGUMENT)
                unasked = any((key, False) in self.state.path for key in keys)
                unasked = unasked or self.state.names[ARGUMENT].kind == NONE
            into, known = row is not None and row.into, row is not None
            found[node] = Load(node, name, function, self.scopes(), into, known, unasked, wrapped)
        self.analysis.loaded.has_begun = True
        return made.but(origins=frozenset({node}))

    def call_function(
        self,
        node: ast.Call,
        function: Function,
        me: Value | None,
        arguments: Arguments,
        outer: Frame | None = None,
    ) -> Value:
        if self._of_loads(arguments):
            self.analysis.loaded.followed.add(node)
        made = super().call_function(node, function, me, arguments, outer)
        if function not in self.analysis.loaded.hands_on or function.name == "__init__":
            return made
        names = function.positional[me is not None and not function.static :]
        if ARGUMENT in arguments[1] or ARGUMENT in names[: len(arguments[0])]:
            self.analysis.loaded.placed.add(node)
            return made
        return self._loaded(node, made, function.name, Row("load"))

    def unknown_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        path = self.file.source.code(node.func) if isinstance(node.func, ast.Attribute) else ""
        row = self.models.rows.get(path) if path.startswith("torch.") else None
        if row is not None and row.place is not None:  # torch came with a star
            return self.by_row(node, row, path, arguments)
        made = super().unknown_call(node, name, arguments)
        last = name.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute) and last in _told(self.file.source):
            if ARGUMENT not in arguments[1]:
                return self._loaded(node, made, last)
            self.analysis.loaded.placed.add(node)
        return self._made_of(node, made, last, arguments) if says("adapts", last) else made

    # --- where it goes -----------------------------------------------------------------------

    def method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        held = self._of_loads(arguments)
        made = super().method(node, base, name, arguments)
        if held:
            self.analysis.loaded.receivers[node] = base
            if name in _ADDS and isinstance(node.func, ast.Attribute):
                self._add(node.func.value, held)
        if not base.origins:
            return made
        given = (*arguments[0], *arguments[1].values())
        if any(value.kind == TENSOR and not value.assumed for value, _ in given):
            self.analysis.loaded.computing.add(node)
        if given and self._is_number(node, given[0][0].const):
            return made.but(origins=frozenset())
        if name not in _SAME:
            return made
        if name == "items" and base.kind == UNKNOWN:
            part = Value(UNKNOWN, origins=base.origins)
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, part)))
        return made.but(origins=made.origins | base.origins)

    def _add(self, target: ast.expr, held: frozenset[ast.Call]) -> None:
        base = self.eval(target)
        if not held <= origins(base):
            self.rebind(target, base.but(origins=base.origins | held))

    def store_item(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        super().store_item(target, value, node)
        if held := origins(value):
            self._add(target.value, held)

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        made = super().attribute(node, base)
        if base.origins <= made.origins or node.attr in _READS:
            return made
        return made.but(origins=made.origins | base.origins)

    def item(self, node: ast.Subscript, base: Value, index: Value) -> Value:
        made = super().item(node, base, index)
        held = made.origins | base.origins
        if held and self._is_number(node, index.const):
            held = frozenset()
        return made if held == made.origins else made.but(origins=held)

    def _is_number(self, entry: ast.expr, key: object) -> bool:
        """Is an entry of what was loaded no tensor, as it is called, and is what it is bound to not moved?"""
        bound, uses = self.file.source.parents.get(entry), self.uses()
        if not holds_numbers(key) or not isinstance(bound, ast.Assign) or uses is None:
            return holds_numbers(key)
        names = [one.id for one in bound.targets if isinstance(one, ast.Name)]
        return not any(uses.attributes.get(name, set()) & {"to", "cuda"} for name in names)

    def iterate(self, value: Value, node: ast.AST) -> Value:
        made = super().iterate(value, node)
        return made.but(origins=made.origins | value.origins) if value.origins else made

    def unpack(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        made = super().unpack(value, count, node)
        return [one.but(origins=one.origins | value.origins) for one in made] if value.origins else made

    def _evident(self, name: str, value: Value) -> Value:
        made = super()._evident(name, value)
        return made.but(origins=value.origins) if value.origins else made

    def builtin(self, node: ast.Call, name: str, callee: Value, arguments: Arguments) -> Value:
        return self._made_of(node, super().builtin(node, name, callee, arguments), name, arguments)

    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        made = super().library_call(node, dotted, arguments)
        return self._made_of(node, made, dotted.rpartition(".")[2], arguments)

    def _made_of(self, node: ast.Call, made: Value, name: str, arguments: Arguments) -> Value:
        """What a function gives that gives its arguments, or a part of them."""
        if (name not in _SAME and not says("adapts", name)) or origins(made):
            return made
        held = self._of_loads(arguments)
        return made.but(origins=held) if held else made

    def _of_loads(self, arguments: Arguments) -> frozenset[ast.Call]:
        """The calls that loaded something in the arguments of a call."""
        found = frozenset[ast.Call]()
        for value, _ in (*arguments[0], *arguments[1].values()) if self.analysis.loaded.has_begun else ():
            if value.origins or value.kind in _CONTAINERS:
                found |= origins(value)
        return found


@remembered
def _told(source: Source) -> frozenset[str]:
    """The methods out of sight that get a `map_location` in the file: `Net.load_from_file`."""
    if ARGUMENT not in source.text:
        return frozenset()
    told = [one for one in source.calls if any(word.arg == ARGUMENT for word in one.keywords)]
    names = {one.func.attr for one in told if isinstance(one.func, ast.Attribute)}
    return frozenset(name for name in names if says("loads", name))
