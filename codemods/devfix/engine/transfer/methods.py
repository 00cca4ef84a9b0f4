"""Methods of tensors, modules, devices and the rest, by the kind of what they are called on."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devfix.engine.evidence import is_module_name, runs_module
from devfix.engine.files import Class
from devfix.engine.frame import Arguments
from devfix.engine.joins import element
from devfix.engine.places import AT, BY_OWNER, CHOICE, LITERAL, NOWHERE, OF, OWNED, VAR, Place
from devfix.engine.transfer.functions import without
from devfix.engine.transfer.moves import Moves
from devfix.engine.transfer.requirements import Operand
from devfix.engine.uses import TENSOR_USES
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANYTHING,
    ARRAY,
    BATCH,
    DEVICE,
    DISTRIBUTION,
    INDEX,
    LIBRARY_CALL,
    LOAD,
    LOADER,
    MAPPING,
    MODULE,
    NAME,
    NONE,
    NUMBER,
    OBJECT,
    OPTIMIZER,
    OWNER,
    SEQUENCE,
    STORE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Assumption,
    Value,
)
from devfix.models import frameworks
from devfix.models.loader import module_attributes, tensor_attributes

_MOVES = frozenset({"to", "cuda", "cpu", "type_as", "to_empty"})
_ITSELF = frozenset(
    {
        "eval", "train", "requires_grad_", "half", "float", "bfloat16", "double", "type", "apply", "share_memory",
        "compile", "zero_grad",
    }
)  # fmt: skip
_KEEPS = ("set_", "add_", "register_", "load_", "update", "append", "insert", "extend", "remove")
_LIST_METHODS = frozenset({"append", "extend", "insert", "clear", "remove"})
_PARTS = frozenset(["modules", "children"])
_TENSORS = frozenset(["parameters", "buffers"])
_NAMED = frozenset(["named_parameters", "named_buffers", "named_modules", "named_children"])
# Of a tensor, here.
_SPEAKING = TENSOR_USES | {"float", "half", "long", "bfloat16", "view", "reshape", "transpose"}
# These give the module back, or what is like the tensor.
_KEEPING = frozenset({"eval", "train", "requires_grad_", "half", "float"})
_CASTS = frozenset({"float", "double", "half", "bfloat16"})
# Of what was moved, containers and graphs have these as well as tensors.
_OF_OTHERS = frozenset([*dir(dict), *dir(list), *dir(str), "size", "clone", "coalesce"])
_BATCH_METHODS = frozenset(["items", "values", "keys", "get", "pop", "update", "copy"])


class Methods(Moves):
    def method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        """`base.name(...)`."""
        kind = base.kind
        if kind == MODULE or (kind == UNKNOWN and base.links):
            self.element_used(base, name, node)
        self.analysis.named.made(node, base)
        if name in frameworks.HOOKING_METHODS:
            return self.given_away(base)
        if name == "__class__" and isinstance(base.bound, Value):
            return self.call_value(node, base.bound, arguments)
        if base.forms and name not in _MOVES:
            return self.device_method(node, base, name)
        placed = kind in (TENSOR, BATCH, MODULE, UNKNOWN) or (kind == SEQUENCE and base.rest is not None)
        if (placed and name in _MOVES) or (kind == MODULE and name == "type" and arguments[0]):
            return self.move(node, base, name, arguments)
        of_dict = name in _BATCH_METHODS and name not in tensor_attributes()
        if (kind == BATCH and name in _LIST_METHODS) or (kind == TENSOR and of_dict):
            return ANYTHING  # a list, or a dict
        if kind == TENSOR or (kind == BATCH and name in tensor_attributes()):
            return self.tensor_method(node, base, name, arguments)
        if kind == UNKNOWN and base.like is not None and base.like.kind == MODULE and name in _NAMED | _PARTS:
            return self.module_method(node, base.like.but(role="part"), name, arguments)
        if kind == MODULE:
            return self.module_method(node, base, name, arguments)
        if kind == OBJECT:
            return self.own_method(node, base, name, arguments)
        if kind in (SEQUENCE, MAPPING):
            return self.in_container(node, base, name, arguments)
        if kind == BATCH and name in _BATCH_METHODS:
            return self._of_batch(node, base, name, arguments)
        if kind == OWNER:
            return self._of_owner(base, name, arguments)
        if kind == LOADER:
            return self.unknown(node)
        if kind == OPTIMIZER:
            if name == "load_state_dict" and isinstance(node.func, ast.Attribute):
                self.holds(node, "restored", base, self.file.source.code(node.func.value))
            return ANYTHING
        if kind in (NUMBER, TEXT, DEVICE):
            return A_NUMBER if kind == NUMBER else self.text_method(node, base, name)
        if kind == ARRAY:
            return self.array_method(node, base, name, arguments)
        return self._of_unknown(node, base, name, arguments)

    # --- tensors -------------------------------------------------------------------------

    def tensor_method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        assert isinstance(node.func, ast.Attribute)
        at = node.func.value
        if name in ("numpy", "__array__", "tolist"):
            if name == "numpy" and not arguments[1]:  # force=True copies
                self.on_host(node, base, at, name)
            if base.place.on_host and base.bound is not None and base.bound.place.kind == OF:
                self.taken = self.taken or base.bound
            return Value(ARRAY) if name != "tolist" else Value(SEQUENCE, rest=A_NUMBER)
        if name == "detach":  # nothing else has it: what a module out of sight gave is a tensor
            base = base.but(assumed=base.assumed - {Assumption(LIBRARY_CALL)})
        row = self.models.method(name)
        self.drawn_by(node, name, base, arguments)
        values, keywords = without(row, arguments)
        if base.role == DISTRIBUTION and name in ("sample", "rsample"):
            return self.drawn(node, base, name, many=bool(values or keywords))
        if name == "type":
            return self.of_type(node, base, values[0][0]) if values else A_TEXT
        if row.form == "same" and "device" in keywords:
            return Value(TENSOR)  # there is no such keyword: it raises anywhere
        if row.form == "number":
            size = Value(NUMBER, like=base) if name in ("size", "numel") else A_NUMBER
            size = Value(NUMBER, base.place, role=INDEX) if name == "get_device" else size
            return Value(SEQUENCE, rest=size) if name == "size" and not values else size
        if row.form == "like":
            place = self.target(keywords["device"][0], node) if "device" in keywords else None
            links = (self.link("move", node),) if place is not None and place.kind == LITERAL else base.links
            rank = self._rank_of_data(values[0][0]) if name == "new_tensor" and values else 1
            return Value(TENSOR, place or base.place, rank=rank, links=links, assumed=base.assumed)
        if row.form == "follow":
            same = name.endswith("_") or base.role == "item"  # a parameter stays one
            made = base.but(kind=TENSOR, role=base.role if same else "")
        else:
            operands: list[Operand] = [(base, at)]
            for value, argument in (*values, *keywords.values()):
                held = self.tensors(self.as_tensor(value), argument)
                operands += [one for one in held if one[0].kind != MODULE]
            inplace = name.endswith("_") and not name.endswith("__")
            made = (
                self.together(node, operands, name, strict=self.is_strict(row, arguments))
                if len(operands) > 1
                else base.but(kind=TENSOR, role="")
            )
            made = base if inplace else made
            open_ = made.rank != 1 and any(value.kind == UNKNOWN for value, _ in values)
            if open_ and made.place.on_host and not inplace:
                made = Value(TENSOR)  # of what is elsewhere, if it has no dimensions itself
        made = A_NUMBER if row.answer else made
        if row.reduce:
            return self.reduced(made, row, values[0] if values else None, keywords)
        if (
            name in ("unsqueeze", "repeat", "unsqueeze_")
            or (name in ("reshape", "view", "expand") and _sizes(values))
            or (name == "flatten" and not values)
        ):
            flat = name == "flatten" or [value.const for value, _ in values] == [-1]
            made = made.but(rank=1, role="flat" if flat else made.role)
        elif name == "squeeze":
            made = made.but(rank=None)
        elif name in ("reshape", "view") and [value.items for value, _ in values] == [()]:
            made = made.but(rank=0)
        return Value(SEQUENCE, rest=made) if row.many else made

    # --- modules -------------------------------------------------------------------------

    def module_method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        values, keywords = arguments
        if (
            name in ("register_buffer", "register_parameter", "add_module", "register_module")
            and len(values) > 1
        ):
            return self._register(node, base, name, values[0][0].const, values[1][0])
        if name in ("__call__", "forward") and not self._is_me(base):
            return self.call_value(node, base, arguments)
        held = self.state.attribute(base.ref, name) if base.ref is not None else None
        if held is not None:
            if held.kind == UNKNOWN and not held.role and held.place.kind == AT:
                open_ = frozenset({Assumption(LIBRARY_CALL)})
                held = Value(
                    MODULE, Place("in", base.ref), assumed=open_
                )  # made out of sight, and registered
            return self.call_value(node, held, arguments)
        if isinstance(base.bound, Value) and isinstance(base.bound.ref, Class):
            found = base.bound.ref.method(name)
            if found is not None:
                return self.call_function(node, found, base, arguments)
        if name in _ITSELF:
            return base
        place = self.where(base)
        row = self.models.function(f"{self.class_of(base)}.{name}")
        if row is not None:
            return self.by_row(node, row, name, arguments)
        inside = base.place if base.ref is None else Place("in", base.ref)
        parameter = Value(TENSOR, inside, rank=1, role="parameter")
        if name in _TENSORS:
            return Value(SEQUENCE, rest=parameter)
        if name == "state_dict":
            return Value(MAPPING, rest=parameter)
        if name in _PARTS or name == "values":
            return Value(SEQUENCE, rest=self.plain_part(self.iterate(base, node), name))
        if name == "items":
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, self.iterate(base, node))))
        if name in _NAMED:
            parts = name.endswith(("modules", "children"))
            inner = Value(MODULE, place, role="part") if parts else parameter
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, inner)))
        if name in ("append", "insert", "extend") and values:
            self.extended(node, base, values[-1][0])
            return ANYTHING
        if name == "load_state_dict":
            self._get_weights(base, arguments)
        keeps = name == "update" and base.role == "bare"  # wherever that is
        if keeps or name in ("load_state_dict", "save_pretrained", "register_forward_hook"):
            return ANYTHING
        if name == "update":
            values, keywords = self.inputs(arguments)
            operands = [one for value, at in (*values, *keywords.values()) for one in self.tensors(value, at)]
            made = self.together(node, [(base, node.func), *operands], name, strict=True)
            return made.but(place=place) if made.kind == TENSOR else self.unknown(node)
        runs = name in ("encode", "decode", "predict") if place.on_host else runs_module(name, is_method=True)
        if name == "generate" or (runs and (place.on_host or place.kind in (VAR, LITERAL))):
            seen = name == "generate" and (base.bound is not None or self.is_seen(base))
            runs_it = base if seen or place.on_host else base.doubted(Assumption(LIBRARY_CALL, name))
            assert isinstance(node.func, ast.Attribute)
            made = self.run_on(node, runs_it, node.func.value, self.inputs(arguments))
            if not self.models.tokens & keywords.keys():  # it may give text, or arrays
                made = made.doubted(Assumption(LIBRARY_CALL, "generate()"))
            if name == "generate":
                return made.but(place=place) if made.kind == TENSOR else self.unknown(node)
        assert isinstance(node.func, ast.Attribute)
        module, at = base, node.func.value
        if self._is_me(base) and is_module_name(name):  # an attribute that nothing in view assigns
            module, at = Value(MODULE, assumed=frozenset({Assumption(NAME, name)})), node.func
        if not name.startswith(_KEEPS) and (at is node.func or not self._is_me(base)):
            self.analysis.named.ran(self, node, (module, at), [*values, *keywords.values()], runs=True)
        if name in ("encode", "decode", "predict"):
            return self.unknown(node)
        self.method_called(node, base, name, arguments)
        self.escape(arguments, name)
        return self.like_given(node, name, arguments)

    def _register(self, node: ast.Call, base: Value, how: str, name: object, value: Value) -> Value:
        self.arrives(node, base, node, value)
        if base.ref is None:
            return ANYTHING
        if not isinstance(name, str):
            name = f"#{id(node)}"
        if how == "register_parameter" and value.role == "parameter" and value.links:  # it moves in place
            self.analysis.parts.registered.add(value.links[0].node)
        value = self.as_part(value, node)
        if value.kind == MODULE:
            self.attach(node, base, name, value)
        elif value.kind == UNKNOWN and (value.links or value.place.key is not None):
            self.analysis.parts.registered.add(value.links[0].node if value.links else value.place.key)
            self.state.set_attribute(base.ref, name, value)  # it may be None
        else:
            # What the constructor puts on a device is there until the module is moved.
            place = self.where(value)
            kept = place.on_device and (place.kind != OF or base.ref in self.analysis.made)
            if value.kind != TENSOR or not kept:
                open_ = value.kind in (NONE, UNKNOWN) or place.kind == CHOICE
                place = NOWHERE if open_ else Place("in", base.ref)
            made = Value(TENSOR, place, rank=value.rank, links=value.links, role="parameter")
            if how == "register_buffer" and base.bound is not None:
                self.analysis.parts.buffers.add((base.bound.ref, name))
            self.state.set_attribute(base.ref, name, made)
        return ANYTHING

    def attach(self, node: ast.AST, base: Value, name: str, part: Value) -> None:
        """A module, or a parameter, becomes a part of a module."""
        self.arrives(node, base, node, part)
        if base.ref is None:
            return
        self.register(part, base)
        self.analysis.parts.attached.setdefault(base.ref, set()).update(one for _, one in self.running())
        self.state.set_attribute(base.ref, name, part.linked(self.link(STORE, node, name)))

    # --- everything else -----------------------------------------------------------------

    def own_method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        """A method of an instance of a class in view."""
        held = self.state.attribute(base.ref, name) if base.ref is not None else None
        if held is not None:
            if held.kind == UNKNOWN:
                self.note_use(node, base.ref, name, arguments)
            return self.call_value(node, held, arguments)
        if isinstance(base.bound, Value) and isinstance(base.bound.ref, Class):
            found = base.bound.ref.method(name)
            if found is not None:
                made = self.call_function(node, found, base, arguments)
                for one in self.analysis.inside.get(base.ref, ()) if name in _MOVES else ():
                    self.escape(([(one, node)], {}), name)  # if it was not seen to move them
                return made
        if isinstance(base.bound, Value) and isinstance(base.bound.ref, Class) and not base.bound.ref.outside:
            self.note_use(node, base.ref, name, arguments)  # no method of a base
        self.escape(arguments, name)
        return self.like_given(node, name, arguments)

    def _of_owner(self, base: Value, name: str, arguments: Arguments) -> Value:
        """What a framework's object does to what it is given."""
        owner = frameworks.OWNERS.get(str(base.ref))
        places = owner is None or name in owner.places or name in owner.gives or name in owner.takes
        chosen = owner is not None and name in owner.places and base.role != "off"
        there = Place(VAR, ("owner", base.ref)) if chosen else BY_OWNER
        there = NOWHERE if owner is not None and name in owner.takes else there  # it may be brought back
        made = []
        for value, _ in arguments[0]:
            if value.kind == MODULE and value.ref is not None and places:
                self.owned(value)
                self.move_module(value.ref, there)
            if value.kind == LOADER:
                made.append(Value(LOADER, role="owned"))
            elif value.kind in (TENSOR, BATCH, MODULE) and places:
                placed = value.place if value.ref is not None else there
                made.append(
                    value.but(place=placed, role=value.role or (OWNED if value.kind == MODULE else ""))
                )
            else:
                made.append(value)
        if not places or not made:
            return ANYTHING
        return made[0] if len(made) == 1 else Value(SEQUENCE, items=tuple(made))

    def _get_weights(self, module: Value, arguments: Arguments) -> None:
        """`module.load_state_dict(weights)`: note where the weights are."""
        if arguments[0] and module.ref is not None:
            given = arguments[0][0][0]
            weights = element(given) if given.kind == MAPPING else given
            self.loaded[module.ref] = weights.place if weights is not None else given.place

    def _of_unknown(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        if base.role == "generator" or (base.kind == BATCH and self.moved_itself(node, base, arguments)):
            return base
        if _is_of_tensor(base.role, name):
            return self.tensor_method(node, base.but(kind=TENSOR, role=""), name, arguments)
        if base.role == "part" and name in _PARTS:
            return Value(SEQUENCE, rest=base)
        if base.place.is_named and name in _TENSORS:
            return Value(SEQUENCE, rest=Value(TENSOR, base.place, role="parameter"))
        if base.place.is_named and name in _CASTS and not base.role:
            return base.but(role="cast")  # a tensor, or a module
        if base.links and base.links[0].kind == LOAD and name in _BATCH_METHODS:  # of a checkpoint
            item = Value(SEQUENCE, items=(A_TEXT, base)) if name == "items" else base
            return Value(SEQUENCE, rest=item) if name in ("items", "values") else base
        if base.role == "instance":
            if name == "load_state_dict":
                self._get_weights(base, arguments)
                return ANYTHING
            row = self.models.of_instance(f"{self.class_of(base).removesuffix('.from_pretrained')}.{name}")
            if row is not None:
                return self.by_row(node, row, name, arguments)
        if base.role == "host" and name in _SPEAKING:
            made = self.tensor_method(node, base.but(kind=TENSOR, role="host"), name, arguments)
            return made.but(role="host")
        has_place = base.place.is_named or base.place.kind == CHOICE
        if has_place and (name in TENSOR_USES or f"{name}()" in TENSOR_USES):
            at = node.func.value if isinstance(node.func, ast.Attribute) else node
            kept = self.kept_by_module(base, at) or base.but(kind=TENSOR)
            return self.tensor_method(node, kept, name, arguments)
        if base.role in ("instance", "moved") and name in _KEEPING:
            return base
        self.method_called(node, base, name, arguments)
        made = self.unknown_call(node, name, arguments)
        if made.role == "host" and base.role != "instance":
            made = self.unknown(node)  # what somebody hands over may put what it makes on a device
        shaped = name == "flatten" or (name in ("view", "reshape") and _sizes(arguments[0]))
        return made.but(rank=1) if shaped else made  # a tensor, or an array


def _is_of_tensor(role: str, name: str) -> bool:
    """Does a method tell that what was moved, cast or given back is a tensor, and no module or container?"""
    if role not in ("given", "cast", "moved") or name not in tensor_attributes():
        return False
    if role == "moved" and name in _OF_OTHERS:
        return False
    return role == "given" or name not in module_attributes()


def _sizes(values: Sequence[tuple[Value, ast.expr]]) -> bool:
    """Is a shape given that has at least one dimension: `view(1, n)`, `reshape(-1)`, `expand((2, 3))`?"""
    if len(values) == 1 and values[0][0].kind == SEQUENCE:
        return bool(values[0][0].items)
    return len(values) > 1 or any(isinstance(value.const, int) for value, _ in values)
