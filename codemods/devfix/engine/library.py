"""Calls of torch and of other packages, by what their models say."""

from __future__ import annotations

import ast

from devfix.engine.containers import Containers
from devfix.engine.files import Class, Function
from devfix.engine.frame import Arguments, Partial
from devfix.engine.places import (
    AT,
    AT_DEFAULT,
    BY_OWNER,
    LITERAL,
    NOWHERE,
    ON_CPU,
    VAR,
    Place,
    literal,
)
from devfix.engine.places import (
    UNKNOWN as UNKNOWN_PLACE,
)
from devfix.engine.state import MAX_NESTING, Held
from devfix.engine.values import (
    A_NUMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    CLASS,
    DEVICE,
    DTYPE,
    FUNCTION,
    LIBRARY,
    LIBRARY_CALL,
    LOAD,
    LOADER,
    MAKE,
    MODULE,
    NONE,
    NUMBER,
    OPTIMIZER,
    OWNER,
    PLACED,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Assumption,
    History,
    Value,
    element,
)
from devfix.flow import frameworks
from devfix.models.loader import Row

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_FLAT = frozenset({"arange", "linspace", "logspace", "randperm", "range"})
_MOVES_DATA = (".to(", ".cuda(", "device", "to_device")
_PASS_THROUGH = frozenset({"tqdm", "trange", "track", "prange", "deepcopy", "copy"})
_COLLATES = frozenset({"DataLoader", "StatefulDataLoader"})


class Library(Containers):
    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """A call of what `dotted` names."""
        values, keywords = arguments
        last = dotted.rpartition(".")[2]
        if dotted.startswith("torch.") or dotted.startswith("torch_"):
            made = self._torch(node, dotted, last, arguments)
            if made is not None:
                return made
        row = self.models.function(dotted)
        if row is not None:
            return self.by_row(node, row, dotted, arguments)
        if dotted.startswith(self.models.array_spaces):
            if last in ("deepcopy", "copy") and values:
                return self.copied(values[0][0], node)
            if dotted == "functools.partial":
                return self.partial(node, arguments)
            if dotted.startswith(("random.", "math.", "time.", "os.", "json.", "logging.", "itertools.")):
                return self._plain_library(node, dotted, arguments)
            if dotted.startswith("numpy."):
                for value, at in values[:2]:
                    self.on_host(node, value, at, dotted)
            return Value(ARRAY)
        if last in _PASS_THROUGH and values:
            return values[0][0]
        if dotted.startswith("torchaudio.transforms.") and last[:1].isupper():
            return self.new_module(node, dotted, arguments)
        if last in _COLLATES:
            return self.loader(node, arguments)
        owner = frameworks.OWNERS.get(dotted)
        if owner is not None:
            self.escape(arguments)
            return Value(OWNER, ref=dotted)
        if self.models.layer(dotted) == "wrapper" and values:
            return values[0][0]
        return self.unknown_call(node, dotted, arguments)

    def _plain_library(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        values = arguments[0]
        if dotted == "itertools.chain":
            return Value(SEQUENCE, rest=self.iterate(values[0][0], node)) if values else ANYTHING
        if dotted in ("random.choice", "random.sample") and values:
            return self.iterate(values[0][0], node)
        return ANYTHING if dotted.startswith(("os.", "itertools.", "json.")) else A_NUMBER

    def _torch(self, node: ast.Call, dotted: str, last: str, arguments: Arguments) -> Value | None:
        values, keywords = arguments
        if dotted == "torch.device":
            return self.device(values[0][0] if values else ANYTHING, node)
        if dotted in _PARAMETERS or dotted in ("torch.autograd.Variable", "torch.autograd.variable.Variable"):
            first = values[0][0] if values else keywords["data"][0] if "data" in keywords else ANYTHING
            made = (
                first
                if first.kind == TENSOR
                else Value(TENSOR, first.place if first.kind == BATCH else NOWHERE)
            )
            return made.but(role="parameter") if dotted in _PARAMETERS else made
        layer = self.models.layer(dotted)
        if layer == "wrapper":
            return values[0][0] if values else ANYTHING
        if layer == "container":
            return self.module_container(node, dotted, arguments)
        if dotted.startswith("torch.nn.") and last[:1].isupper() and ".utils." not in dotted:
            weights = [keywords[name][0] for name in ("weight", "pos_weight") if name in keywords]
            weights += [value for value, _ in values[:1] if layer == "loss"]
            placed = [one for one in weights if one.kind == TENSOR]
            return self.new_module(
                node, dotted, arguments, role="weighted" if placed else layer or "", given=placed
            )
        if last in _COLLATES:
            return self.loader(node, arguments)
        if dotted.startswith("torch.optim.") and last[:1].isupper():
            return Value(OPTIMIZER)
        if dotted in ("torch.set_default_device", "torch.set_default_tensor_type"):
            self.analysis.default_is_known = False
            return ANYTHING
        if dotted.startswith("torch.cuda."):
            row = self.models.function(dotted)
            return self.by_row(node, row, dotted, arguments) if row is not None else ANYTHING
        if dotted == "torch.utils.checkpoint.checkpoint" and values:
            return self.call_value(
                node, values[0][0], (values[1:], {k: v for k, v in keywords.items() if k != "use_reentrant"})
            )
        return None

    def device(self, value: Value, node: ast.AST) -> Value:
        """`torch.device(value)`."""
        if value.kind == DEVICE:
            return value.but(forms=frozenset({"object"}))
        if isinstance(value.const, str):
            place = literal(value.const)
            return Value(
                DEVICE, place or NOWHERE, forms=frozenset({"object"}), links=(self.link(MAKE, node),)
            )
        key = value.place.key if value.place.is_named else (id(node), "device")
        return Value(DEVICE, Place(VAR, key), forms=frozenset({"object"}))

    def target(self, value: Value | None, node: ast.AST) -> Place | None:
        """The place that a `device=` argument names; None where it names none."""
        if value is None or value.kind in (NONE, DTYPE):
            return None
        if value.kind == DEVICE:
            return self.state.resolve(value.place)
        if isinstance(value.const, str):
            return literal(value.const) or NOWHERE
        if value.const.__class__ is int:
            return Place(LITERAL, f"cuda:{value.const}")
        if value.kind in (TENSOR, MODULE):
            return NOWHERE
        if value.place.is_named:
            return Place(VAR, value.place.key)
        return NOWHERE

    # --- functions of tensors ------------------------------------------------------------

    def by_row(self, node: ast.Call, row: Row, dotted: str, arguments: Arguments) -> Value:
        values, keywords = arguments
        last = dotted.rpartition(".")[2]
        first = (
            values[0][0]
            if values
            else next((keywords[k][0] for k in ("data", "input", "tensors") if k in keywords), ANYTHING)
        )
        if row.host is not None:
            position, name = row.host
            at = keywords.get(name) or (values[position] if len(values) > position else None)
            if at is not None:
                self.on_host(node, at[0], at[1], last)
        form = row.form
        if form == "number":
            return A_NUMBER
        if form == "load":
            where = keywords.get("map_location") or (values[1] if len(values) > 1 else None)
            place = self.target(where[0], node) if where is not None else None
            return Value(UNKNOWN, place or NOWHERE)
        if form in ("make", "data", "like", "legacy", "array", "cuda"):
            return self._made(node, row, last, first, arguments)
        if form == "elems":
            return self._elements(node, row, last, first, values)
        operands = [
            operand for value, at in (*values, *keywords.values()) for operand in self.tensors(value, at)
        ]
        operands = [one for one in operands if one[0].kind != MODULE]
        if form == "follow":
            made = first if first.kind in PLACED else ANYTHING
            made = made.but(kind=TENSOR) if made.kind == BATCH and not row.many else made
            if first.kind == UNKNOWN:
                made = Value(TENSOR, first.place if first.place.is_named else NOWHERE)
        else:
            known = len(operands)
            open_ = sum(1 for value, _ in values if value.kind in (UNKNOWN,))
            made = self.together(node, operands, last, strict=row.strict)
            if open_ and made.place.on_host:
                made = Value(TENSOR)
            if not known:
                made = Value(TENSOR)
        if last == "nonzero" or (last == "where" and len(values) == 1):
            made = made.but(rank=1)
            return Value(SEQUENCE, rest=made) if last == "where" else made
        if row.reduce:
            whole = len(values) == 1 and not {"dim", "axis"} & set(keywords)
            made = made.but(rank=0 if whole else None)
        elif row.rank is not None:
            made = made.but(rank=row.rank)
        elif last in ("unsqueeze", "repeat_interleave"):
            made = made.but(rank=1)
        return Value(SEQUENCE, rest=made) if row.many else made

    def _made(self, node: ast.Call, row: Row, last: str, first: Value, arguments: Arguments) -> Value:
        values, keywords = arguments
        form, rank = row.form, row.rank
        if "device" in keywords:
            place = self.target(keywords["device"][0], node)
            if place is not None:
                links = (self.link("move", node),) if place.kind == LITERAL else self.followed(arguments)
                return Value(TENSOR, place, rank=rank, links=links)
        if "out" in keywords:
            return keywords["out"][0]
        if form == "cuda":
            return Value(TENSOR, Place(LITERAL, "cuda"), rank=rank, links=(self.link("move", node),))
        if form == "like":
            if first.kind == UNKNOWN and first.place.is_named:
                return Value(TENSOR, first.place)
            return (
                first.but(kind=TENSOR, rank=first.rank, role="")
                if first.kind in (TENSOR, BATCH)
                else Value(TENSOR)
            )
        if any(one.arg is None for one in node.keywords):
            return Value(TENSOR)  # **kwargs may have a device
        if last == "normal" and first.kind in (TENSOR, BATCH):
            return first
        if form == "data":
            rank = self._rank_of_data(first)
            if first.kind in (TENSOR, BATCH):
                return Value(TENSOR, first.place, rank=first.rank, links=first.links, assumed=first.assumed)
            if first.kind == UNKNOWN and last != "tensor":
                return Value(TENSOR)
            inner = [value for value, _ in self.tensors(first, node)]
            if inner and any(not self.where(one).on_host for one in inner):
                rank = 1
        if (
            form == "legacy"
            and last == "Tensor"
            and first.kind in (TENSOR, BATCH, UNKNOWN)
            and len(values) == 1
        ):
            return first if first.kind == TENSOR else Value(TENSOR)
        place = self.default if self.analysis.default_is_known else NOWHERE
        if form in ("legacy", "array"):
            place = AT_DEFAULT
        role = "flat" if last in _FLAT else "host" if form == "array" else ""
        made = Value(TENSOR, place, rank=rank, links=(self.link(MAKE, node, last),), role=role)
        return Value(SEQUENCE, items=(made, A_NUMBER)) if row.many else made

    def followed(self, arguments: Arguments) -> History:
        """The history of what the arguments say to follow: `x.device`, or `x` itself, that is on the CPU."""
        for value, _ in (*arguments[0], *arguments[1].values()):
            if value.role == "followed" or (value.kind in (TENSOR, BATCH) and self.where(value).on_host):
                return value.links
        return ()

    def _rank_of_data(self, first: Value) -> int | None:
        if first.kind in (NUMBER, TEXT):
            return 0
        if first.kind == SEQUENCE:
            return 1
        return first.rank if first.kind == TENSOR else None

    def _elements(
        self, node: ast.Call, row: Row, last: str, first: Value, values: list[tuple[Value, ast.expr]]
    ) -> Value:
        spread = values if row.many or last in ("block_diag", "cartesian_prod") else values[:1]
        operands = [
            operand
            for value, at in spread
            for operand in self.tensors(value, at)
            if operand[0].kind != MODULE
        ]
        if first.kind in (TENSOR, BATCH) and not row.many:
            made = first.but(kind=TENSOR)
        else:
            made = self.together(node, operands, last, strict=row.strict)
            inside = element(first) if first.kind == SEQUENCE else None
            if (
                first.kind not in (TENSOR, BATCH)
                and made.place.on_host
                and (inside is None or inside.kind not in (TENSOR, BATCH))
            ):
                made = Value(TENSOR)
        made = made.but(rank=1)
        return Value(SEQUENCE, rest=made) if row.many else made

    # --- modules -------------------------------------------------------------------------

    def new_module(
        self,
        node: ast.Call,
        name: str,
        arguments: Arguments,
        *,
        role: str = "",
        given: list[Value] | None = None,
    ) -> Value:
        """A module that a library's class makes."""
        cell = (id(node), self.depth, "module")
        keywords = arguments[1]
        place = self.default if self.analysis.default_is_known else NOWHERE
        if "device" in keywords:
            place = self.target(keywords["device"][0], node) or place
        elif any(one.arg is None for one in node.keywords):
            place = NOWHERE
        if given:
            place = self.where(given[0])
        elif role in ("bare", "loss"):
            place = NOWHERE
        self.state.set_place(cell, place)
        links = given[0].links if given else (self.link(MAKE, node, name),)
        made = Value(MODULE, Place("in", cell), ref=cell, links=links, role=role)
        self.analysis.made[cell] = made
        return made

    def module_container(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """ModuleList, Sequential and their like: a module with parts."""
        made = self.new_module(node, dotted, ([], {}))
        parts: list[Value] = []
        for value, _ in arguments[0]:
            parts += [*(value.items or ()), *(value.fields or {}).values()] + (
                [value.rest] if value.rest is not None else []
            )
            if value.kind == MODULE:
                parts.append(value)
        places = set()
        for i, part in enumerate(parts):
            if part.kind == MODULE:
                self.state.set_attribute(made.ref, f"#{i}", part)
                self.analysis.part_of[part.ref] = made.ref
                places.add(self.where(part))
        if any(isinstance(one, ast.Starred) for one in node.args) and not places:
            self.state.set_place(made.ref, NOWHERE)
        elif len(places) == 1:
            self.state.set_place(made.ref, places.pop())
        elif places or parts or (not arguments[0] and dotted.endswith("Sequential")):
            self.state.set_place(made.ref, NOWHERE)
        return made

    def move_module(self, cell: object, place: Place) -> None:
        """`module.to(device)`: all that is registered goes along."""
        self._move(cell, place, self.state.by_owner(), 0)

    def _move(self, cell: object, place: Place, held: Held, depth: int) -> None:
        self.state.set_place(cell, place)
        if depth > MAX_NESTING:
            return
        for name, value in held.get(cell, ()):
            if value.kind == TENSOR and value.role == "parameter" and value.place.kind != "in":
                self.state.set_attribute(cell, name, value.but(place=Place("in", cell)))
            if (
                value.kind == MODULE
                and value.ref is not None
                and value.ref != cell
                and value.role != "hidden"
            ):
                if self.state.place_of(value.ref) != place:
                    self._move(value.ref, place, held, depth + 1)

    def loader(self, node: ast.Call, arguments: Arguments) -> Value:
        """A data loader: batches are on the CPU, unless data set or collate function move them."""
        values, keywords = arguments
        given = [*values[:1], *(keywords[name] for name in ("dataset", "collate_fn") if name in keywords)]
        for value, at in given:
            code = ""
            if value.kind == FUNCTION and isinstance(value.ref, Function):
                code = value.ref.file.source.code(value.ref.node)
            elif (
                value.kind in ("object", CLASS)
                and isinstance(value.bound, Value)
                and isinstance(value.bound.ref, Class)
            ):
                code = value.bound.ref.file.source.code(value.bound.ref.node)
            elif isinstance(at, ast.Lambda) or "dataset" not in keywords:
                code = self.file.source.code(at)
            if any(word in code for word in _MOVES_DATA):
                return Value(LOADER, role="owned")
            for one, _ in self.tensors(value, at):
                if not self.where(one).on_host:
                    return Value(LOADER, role="owned")
        if "generator" in keywords or any(one.arg is None for one in node.keywords):
            return Value(LOADER, AT_DEFAULT, assumed=frozenset({Assumption(LIBRARY_CALL, "DataLoader")}))
        return Value(LOADER, AT_DEFAULT)

    # --- what no model describes ---------------------------------------------------------

    def unknown_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """A function out of sight: its result is not known, and modules that it gets may have been moved."""
        values, keywords = arguments
        last = name.rpartition(".")[2]
        if (
            "return_tensors" in keywords
            and keywords["return_tensors"][0].const == "pt"
            and "device" not in keywords
        ):
            return Value(
                BATCH,
                AT_DEFAULT,
                rank=1,
                links=(self.link(LOAD, node, last),),
                assumed=frozenset({Assumption(LIBRARY_CALL, last)}),
            )
        told = any(
            one.kind == DEVICE or self.where(one).on_device for one, _ in (*arguments[0], *keywords.values())
        )
        if any(one.kind == ARRAY for one, _ in arguments[0]) and not told and not last[:1].isupper():
            # What is made of arrays is on the host; a tensor, if it is used as one.
            return Value(
                UNKNOWN,
                AT_DEFAULT,
                rank=1,
                links=(self.link(LOAD, node, last),),
                role="host",
                assumed=frozenset({Assumption(LIBRARY_CALL, last)}),
            )
        self.escape(arguments)
        if last in frameworks.PLACING_METHODS:
            return Value(UNKNOWN, BY_OWNER)
        if last[:1].isupper() or last in ("from_pretrained", "from_config"):
            return self.unknown_object(node, name, arguments)
        return self.unknown(node)

    def unknown_object(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """An instance of a class out of sight: a module, as far as it is used as one."""
        keywords = arguments[1]
        cell = (id(node), self.depth, "object")
        given = next((keywords[key][0] for key in ("device", "map_location") if key in keywords), None)
        place = self.target(given, node) if given is not None else None
        if place is not None and place.kind in (VAR, LITERAL):
            self.state.set_place(cell, place)
            return Value(
                UNKNOWN,
                Place("in", cell),
                ref=cell,
                links=(self.link(MAKE, node, name),),
                role="instance",
                assumed=frozenset({Assumption(LIBRARY_CALL, name)}),
            )
        told = any(one.kind in (DEVICE, MODULE) for one, _ in (*arguments[0], *keywords.values()))
        told = told or any(key.arg is None or "device" in key.arg for key in node.keywords)
        self.state.set_place(cell, NOWHERE if told or not self.analysis.default_is_known else AT_DEFAULT)
        owned = name in frameworks.OWNING_CALLS or frameworks.owns_models(name)
        if owned or (
            name.partition(".")[0] in frameworks.OWNING_PACKAGES
            and name.rpartition(".")[2].endswith(("Trainer", "Pipeline"))
        ):
            return Value(OWNER, ref=name)
        return Value(
            UNKNOWN, Place(AT, cell), ref=cell, links=(self.link(MAKE, node, name),), role="instance"
        )

    def escape(self, arguments: Arguments) -> None:
        """Whoever is handed a module that was not moved yet may move it."""
        values, keywords = arguments
        for value, at in (*values, *keywords.values()):
            for one, _ in self.tensors(value, at):
                if one.kind == MODULE and one.ref is not None and self.where(one).on_host:
                    self.state.set_place(one.ref, NOWHERE)
            if value.role == "instance" and value.ref is not None:
                self.state.set_place(value.ref, NOWHERE)

    def copied(self, value: Value, node: ast.AST) -> Value:
        """`copy.deepcopy(x)`: what is a module gets a cell of its own."""
        if value.kind != MODULE or value.ref is None:
            return value
        cell = (id(node), self.depth, "copy")
        self.state.set_place(cell, self.where(value))
        for name, one in self.state.attributes(value.ref):
            if one.kind != MODULE:
                self.state.set_attribute(cell, name, one)
        return value.but(ref=cell, place=Place("in", cell))

    def partial(self, node: ast.Call, arguments: Arguments) -> Value:
        values, keywords = arguments
        if not values or values[0][0].kind not in (FUNCTION, CLASS, LIBRARY, MODULE):
            return ANYTHING
        held = Value(
            SEQUENCE,
            items=tuple(value for value, _ in values[1:]),
            fields={k: v for k, (v, _) in keywords.items()},
        )
        return Value(FUNCTION, ref=Partial(values[0][0], tuple(values[1:]), dict(keywords)), rest=held)


__all__ = ["ON_CPU", "UNKNOWN_PLACE", "Library"]
