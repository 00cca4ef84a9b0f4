"""What a class is, and what its objects hold when their constructor is done."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from devfix.engine.events import moved_by
from devfix.engine.files import Class, Function
from devfix.engine.places import (
    AT_DEFAULT,
    BY_OWNER,
    CHOICE,
    CPU,
    DEFAULT,
    IN,
    LITERAL,
    NOWHERE,
    OF,
    OWNED,
    VAR,
    Place,
    alternatives,
    choose,
)
from devfix.engine.rebuilding import rebuild
from devfix.engine.state import MAX_NESTING, State
from devfix.engine.uses import NO_EVIDENCE
from devfix.engine.values import (
    ANYTHING,
    CLASS,
    DATA,
    GIVEN,
    MAPPING,
    MODULE,
    NONE,
    OBJECT,
    SEQUENCE,
    STORE,
    TENSOR,
    UNKNOWN,
    Assumption,
    Link,
    Value,
    elements,
)
from devfix.models import frameworks, torch_api
from devfix.models.loader import public
from devfix.text.names import of_self

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

OTHER_FRAMEWORKS = frozenset(
    {"paddle", "jittor", "mindspore", "tensorflow", "keras", "flax", "mxnet", "oneflow", "tinygrad", "mlx"}
)
_MADE = frozenset({DEFAULT, CPU, VAR, LITERAL})  # places of what the constructor itself makes or moves


class Classes:
    """The classes of an analysis, each looked at once."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._kinds: dict[Class, str] = {}
        self._states: dict[Class, State | None] = {}

    def kind(self, owner: Class) -> str:
        """module, owned (a framework places its objects), object, host (runs in data loading) or other."""
        found = self._kinds.get(owner)
        if found is None:
            found = self._kinds[owner] = self._judge(owner)
        return found

    def _judge(self, owner: Class) -> str:
        unknown, registers = False, owner.registers
        for base in owner.outside:
            last = base.rpartition(".")[2]
            if frameworks.owns_subclasses(base):
                return "owned"
            registers = registers or any(
                one.registers for one in owner.file.all_classes if base in one.outside
            )  # of two classes with one base, both are modules, or none is
            if last.endswith(frameworks.HOST_BASES) and not registers:
                return "host"
            if last == "Function" or base.partition(".")[0] in OTHER_FRAMEWORKS:
                return "other"
            if (
                base in torch_api.MODULE_BASES
                or base.startswith("torch.nn.")
                or last in ("Module", "PreTrainedModel", "ModelMixin")
            ):
                return "module"
            unknown = unknown or base not in torch_api.PLAIN_BASES
        if unknown and (registers or owner.method("forward") is not None):
            return "module"
        read = owner.method("__getitem__") is not None and owner.method("__len__") is not None
        if read and owner.method("to") is None:  # what moves itself is a batch
            return "host"
        return "object"

    def itself(self, owner: Class) -> Value:
        """`self` in the methods of a class, where no object of it is known."""
        cell = self.cell(owner)
        kind = MODULE if self.kind(owner) in ("module", "owned") else OBJECT
        return Value(kind, Place(IN, cell), ref=cell, bound=Value(CLASS, ref=owner))

    def cell(self, owner: Class) -> object:
        return ("self", id(owner.node))

    def place(self, owner: Class) -> Place:
        """Where `self` is: wherever whoever uses the module has put it."""
        if self.kind(owner) == "owned":
            return Place(OWNED, self.cell(owner)) if self.is_module(owner) else BY_OWNER
        return Place(OF, self.cell(owner))

    def is_module(self, owner: Class) -> bool:
        kind = self.kind(owner)
        return kind == "module" or (
            kind == "owned"
            and any(base.rpartition(".")[2] in frameworks.OWNED_MODULES for base in owner.outside)
        )

    def tells_device(self, owner: Class) -> bool:
        """Is `device` of an object of the class where the module is, by its library or by a property of its own?"""
        method = owner.method("device")
        if method is None:
            owners = self.analysis.models.owners_of_device
            return any(one.startswith(owners) for one in owner.outside)
        own, source = f"next({next(iter(method.positional), '')}.parameters()).device", method.file.source
        returned = [one.value for one in method.nodes if isinstance(one, ast.Return)]
        return method.is_property and [one and source.code(one) for one in returned] == [own]

    def state(self, owner: Class) -> State:
        """The heap as the constructor leaves it."""
        if owner not in self._states:
            self._states[owner] = None  # a class whose constructor makes objects of the class
            self._states[owner] = self._constructed(owner)
        found = self._states[owner]
        return found.copy() if found is not None else State()

    def _constructed(self, owner: Class) -> State:
        cell, me = self.cell(owner), self.itself(owner)
        state = State()
        if self.kind(owner) in ("module", "owned"):
            state.set_place(cell, self.place(owner))
        init = owner.method("__init__")
        if init is not None:
            if self.kind(owner) == "module":
                state.set_place(cell, Place("default"))
            state = self.analysis.run_method(init, me, state)
        if self.kind(owner) in ("module", "owned"):
            self._settle(state, cell, self.place(owner))
            if init is not None:
                self._left_behind(init, state, cell)
        rebuild(self.analysis, owner, me, state)
        for _, value in state.attributes(cell):
            self._left_open(value, state)
        if self.kind(owner) == "object":
            self._moved_later(owner, state, cell)
        return state

    def _left_open(self, value: Value, state: State) -> None:
        """What an object that is kept leaves None, another method of it may have stored, before it is used."""
        made = value.bound.ref if value.kind == OBJECT and isinstance(value.bound, Value) else None
        for name, methods in made.stores.items() if isinstance(made, Class) else ():
            held = state.attribute(value.ref, name)
            if held is not None and held.kind == NONE and methods - {"__init__"}:
                state.heap.pop((value.ref, name), None)

    def _moved_later(self, owner: Class, state: State, cell: object) -> None:
        """Modules that another method, who uses the objects, or a base out of sight may move before they are run."""
        other = any(base not in torch_api.PLAIN_BASES for base in owner.outside)
        for name, value in state.attributes(cell):
            module = value.kind == MODULE or value.role == "instance"
            movers = _movers(owner, name) - self.builders(owner)
            if module and (
                other or movers or _is_moved_by_users(owner, name) or _is_moved_by_its_name(owner, name)
            ):
                self._lose(state, value.ref, 0)

    def _lose(self, state: State, cell: object, depth: int) -> None:
        """Forget where a module, and its parts, are if nothing has moved them."""
        if state.place_of(cell).on_host and depth <= MAX_NESTING:
            state.set_place(cell, NOWHERE)
            for _, value in state.attributes(cell):
                if value.kind == MODULE and value.ref is not None and value.ref != cell:
                    self._lose(state, value.ref, depth + 1)

    def _left_behind(self, init: Function, state: State, cell: object) -> None:
        """Tensors that the constructor is given and keeps as they are: they do not move with the module."""
        stores = {
            node.attr: node
            for node in init.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        known = self.analysis.known(init)
        used = self._tensors_by_use(init.owner)
        for name, value in state.attributes(cell):
            if value.kind == UNKNOWN and name in used:
                value = value.but(kind=TENSOR, rank=1)
            if value.kind != TENSOR or value.role == "parameter" or name not in stores:
                continue
            places = [place for place, _ in alternatives(value.place)]
            given = {_argument(place, init) for place in places} - {""}
            if not given or any(place.kind in _MADE for place in places):
                continue
            made = frozenset(one for one in value.assumed if one.kind == DATA)
            if (
                not made
                and name not in used
                and any(known.get(one, NO_EVIDENCE)[0] != TENSOR for one in given)
            ):
                continue  # it is made where an object says
            if any(one in init.handed_up or init.may_be_trained(one) for one in given):
                continue
            links = (Link(STORE, init.file, stores[name], name),)
            assumed = (value.assumed - made) | {Assumption(GIVEN, one) for one in given}
            if any(init.has_dimensions(one) for one in given) or self._has_dimensions(
                init.owner, f"self.{name}"
            ):
                value = value.but(rank=1)
            place = _with(value.place, lambda one: _argument(one, init), AT_DEFAULT)
            state.set_attribute(cell, name, value.but(place=place, links=links, assumed=assumed))

    def _tensors_by_use(self, owner: Class | None) -> frozenset[str]:
        """Attributes that methods give to functions where these take a tensor with dimensions, or None."""
        rows = self.analysis.models.tensors
        found: set[str] = set()
        for method in owner.methods.values() if owner is not None else ():
            for node in method.nodes:
                if isinstance(node, ast.Call) and node.keywords:
                    taken = rows.get(method.file.dotted(node.func), frozenset())
                    found.update(of_self(one.value) for one in node.keywords if one.arg in taken)
        return frozenset(found)

    def _has_dimensions(self, owner: Class | None, path: str) -> bool:
        return owner is not None and any(one.has_dimensions(path) for one in owner.methods.values())

    def _settle(self, state: State, cell: object, place: Place, depth: int = 0) -> None:
        """What is registered is with the module from now on; what the constructor moved stays there."""
        known = state.place_of(cell)
        is_moved = not all(one.on_host or one.kind in ("unknown", OWNED) for one, _ in alternatives(known))
        state.set_place(
            cell, place if depth and not is_moved else _with(known, lambda one: one.on_host, place)
        )
        if (depth and is_moved) or depth > MAX_NESTING:
            return
        for _, value in state.attributes(cell):
            may_be_part = value.kind == MODULE or value.role == "instance"
            if may_be_part and value.ref not in (None, cell) and value.role not in ("bare", "loss"):
                self._settle(state, value.ref, place, depth + 1)
            for one in elements(value) if value.kind == SEQUENCE else ():
                if one.kind == MODULE and one.ref in self.analysis.part_of:  # on one path, of a ModuleList
                    self._settle(state, one.ref, place, depth + 1)

    def builders(self, owner: Class) -> frozenset[str]:
        """The methods that the constructor calls: they run before the module is anywhere."""
        init = owner.method("__init__")
        return init.called | {"__init__"} if init is not None else frozenset()

    def is_bare(self, base: str) -> bool:
        """Is a base a class of torch that has no parameters itself, as losses without weights?"""
        last = base.rpartition(".")[2]
        bare = self.analysis.models.layer(public(base)) in ("bare", "loss") or last in (
            "_Loss",
            "_WeightedLoss",
        )
        return base.startswith("torch.nn.") and bare

    def has_state(self, state: State, cell: object, owner: Class) -> bool:
        """Has a module anything that is moved, as far as is known?"""
        if any(base not in torch_api.MODULE_BASES and not self.is_bare(base) for base in owner.outside):
            return True
        for _name, value in state.attributes(cell):
            if value.kind == MODULE and value.role not in ("bare", "loss", "stateless"):
                return True
            if value.role == "parameter" or value.kind in (UNKNOWN, SEQUENCE, MAPPING):
                return True
            if value is ANYTHING:
                return True
        return False


def _movers(owner: Class, name: str) -> set[str]:
    """The methods that move what an attribute holds."""
    return {
        method.name
        for one in owner.lineage
        for method in one.methods.values()
        for node in method.nodes
        if isinstance(node, ast.Attribute) and node.attr in ("to", "cuda")
        if isinstance(node.value, ast.Attribute) and node.value.attr == name
    }


def _is_moved_by_its_name(owner: Class, name: str) -> bool:
    """Does a method move what `getattr(self, key)` gives, and may the key be this one, as a text of the files says?"""
    files = {one.file for one in owner.lineage if "getattr" in one.file.source.calls_by_name}
    asked = [one for one in owner.lineage if one.file in files] if files else ()
    for one in owner.lineage if any(map(_moves_by_key, asked)) else ():
        texts = (node.value for node in one.file.source.of_kind(ast.Constant))
        if any(isinstance(text, str) and text and name.endswith(text) for text in texts):
            return True
    return False


def _moves_by_key(owner: Class) -> bool:
    """Does a method of this class move attributes of the object whose names it computes?"""
    for method in owner.methods.values():
        held = {
            target.id
            for node in method.nodes
            if isinstance(node, ast.Assign) and _reads_by_key(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for moved in filter(None, map(moved_by, method.nodes)):
            if _reads_by_key(moved) or (isinstance(moved, ast.Name) and moved.id in held):
                return True
    return False


def _reads_by_key(node: ast.expr) -> bool:
    """Is it `getattr(self, key)`, with a key that is no constant?"""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "self"
        and not isinstance(node.args[1], ast.Constant)
    )


def _is_moved_by_users(owner: Class, name: str) -> bool:
    """Does the file move what an attribute of this name holds, outside of the class: `agent.model.to(device)`?"""
    source, family = owner.file.source, {one.node for one in owner.lineage}
    return any(
        node.attr in ("to", "cuda")
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == name
        and family.isdisjoint(source.ancestors(node))
        for node in source.of_kind(ast.Attribute)
    )


def _with(place: Place, asked: Callable[[Place], object], other: Place) -> Place:
    """A place, with another one for each of its arms of which that is true."""
    if place.kind == CHOICE and place.then is not None and place.other is not None:
        return choose(place.key, _with(place.then, asked, other), _with(place.other, asked, other))
    return other if asked(place) else place


def _argument(place: Place, init: Function) -> str:
    """The argument of a constructor that is at a place; an empty string if none is."""
    key = place.key
    of_init = place.kind == OF and isinstance(key, tuple) and key[:2] == ("parameter", id(init.node))
    return str(key[2]) if of_init and isinstance(key, tuple) else ""
