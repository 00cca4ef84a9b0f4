"""Functions of tensors, by the rows of their model, and the devices that they are given."""

from __future__ import annotations

import ast

from devfix.engine import forms
from devfix.engine.annotations import is_list
from devfix.engine.evidence import predates_scalars
from devfix.engine.frame import Arguments
from devfix.engine.joins import element
from devfix.engine.places import (
    AT_DEFAULT,
    DEFAULT,
    LITERAL,
    NOWHERE,
    ON_CPU,
    OWNED,
    VAR,
    Place,
    alternatives,
    is_parameter,
    literal,
)
from devfix.engine.transfer.containers import Containers
from devfix.engine.values import (
    A_NUMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    DATA,
    DEVICE,
    DISTRIBUTION,
    DTYPE,
    ELEMENT,
    INDEX,
    LIBRARY_CALL,
    LOAD,
    MAKE,
    MODULE,
    NONE,
    NUMBER,
    PACKED,
    PAIR,
    PART,
    PASS,
    PLACED,
    SEQUENCE,
    STORE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Assumption,
    History,
    Value,
)
from devfix.models.loader import Row

_NUMBERED = frozenset({forms.Form(forms.NUMBER)})
_FLAT = frozenset({"arange", "linspace", "logspace", "randperm", "range"})


class Functions(Containers):
    def device(self, value: Value, node: ast.AST) -> Value:
        """`torch.device(value)`."""
        made = forms.as_object(value.forms or (_NUMBERED if value.kind == NUMBER else forms.NO_FORMS))
        if isinstance(node, ast.Call):
            for one in (*node.args, *(keyword.value for keyword in node.keywords)):
                self.expressed(one, "move")
            if len(node.args) + len(node.keywords) > 1:
                made = forms.with_index(made)
        if value.kind == DEVICE:
            return value.but(forms=made)
        if isinstance(value.const, str):
            place = literal(value.const)
            return Value(DEVICE, place or NOWHERE, forms=made, links=(self.link(MAKE, node),))
        if value.role == INDEX:
            return Value(DEVICE, value.place, forms=made)
        key = value.place.key if value.place.is_named else (id(node), "device")
        return Value(DEVICE, Place(VAR, key), forms=made)

    def target(self, value: Value | None, node: ast.AST, at: ast.expr | None = None) -> Place | None:
        """The place that a `device=` argument names; None where it names none. `at`: how it is written."""
        if value is None or value.kind in (NONE, DTYPE):
            return None
        if at is not None:
            self.targeted(value, at)
        if value.kind == DEVICE:
            return self.state.resolve(value.place)
        if isinstance(value.const, str):
            return literal(value.const) or NOWHERE
        if value.role == INDEX:
            return self.state.resolve(value.place)
        if value.const.__class__ is int:
            return Place(LITERAL, f"cuda:{value.const}")
        if value.kind in (TENSOR, MODULE):
            return NOWHERE
        if value.place.is_named:
            return Place(VAR, value.place.key)
        return NOWHERE

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
                self.on_host(node, at[0], at[1], last, (TENSOR, BATCH, UNKNOWN))
        self.drawn_by(node, last, first, arguments)
        values, keywords = without(row, (values, keywords))
        form = row.form
        if (
            dotted == "torch.tensor"
            and len(values) > 1
            and not any(isinstance(one, ast.Starred) for one in node.args)
        ):
            self.state.dead = True  # it takes its data alone
        if "device" in keywords:
            if self.models.refuses_device(dotted):
                self.no_keyword(node, last)
            self.expressed(keywords["device"][1], "make")
        if form == "number":
            return A_NUMBER
        if form == "load":
            where = keywords.get("map_location") or (values[1] if len(values) > 1 else None)
            place = self.target(where[0], node) if where is not None else None
            return Value(UNKNOWN, place or NOWHERE, rank=1, links=(self.link(LOAD, node, last),), role="host")
        if form in ("make", "data", "like", "legacy", "array", "cuda"):
            return self._made(node, row, dotted, first, arguments)
        if form == "elems":
            return self._elements(node, row, last, first, values)
        operands = [
            operand
            for i, (value, at) in enumerate((*values, *keywords.values()))
            for operand in self.tensors(
                self.as_tensor(value, surely=i == 0 and self._has_to_be(value, at, row)), at
            )
        ]
        operands = [one for one in operands if one[0].kind != MODULE]
        if row.likely and len(operands) > 1:  # it may convert them, or not need all
            operands = [(one.doubted(Assumption(LIBRARY_CALL, last)), at) for one, at in operands]
        if form == "follow":
            made = first if first.kind in PLACED else ANYTHING
            made = made.but(kind=TENSOR) if made.kind == BATCH and not row.many else made
            if first.kind == UNKNOWN:
                made = Value(TENSOR, first.place if first.place.is_named else NOWHERE)
            made = made.but(role="") if made.role == PACKED else made
        else:
            known = len(operands)
            self.left_behind(node, [*values, *keywords.values()], last)
            given = [*values, *(keywords.values() if form == "samples" else ())]
            open_ = any(value.kind == UNKNOWN for value, _ in given)
            made = self.together(node, operands, last, strict=self.is_strict(row, arguments))
            if open_ and made.place.on_host:
                made = Value(TENSOR)
            if not known:
                made = Value(TENSOR)
                if form == "samples" and not open_ and self.analysis.default_is_known:
                    made = Value(TENSOR, self.default, rank=0)
            if form == "samples":
                made = made.but(role=DISTRIBUTION, ref=dotted)
        if row.host_result is not None:
            items = [made, made]
            history = self.link(LOAD, node, last), self.link(ELEMENT, node, PART)
            items[row.host_result] = Value(TENSOR, ON_CPU, rank=1, links=history)
            return Value(SEQUENCE, items=tuple(items))
        if last == "nonzero" or (last == "where" and len(values) == 1):
            made = made.but(rank=1)
            return Value(SEQUENCE, rest=made) if last == "where" else made
        if row.answer:
            return A_NUMBER
        if row.reduce:
            made = self.reduced(made, row, values[1] if len(values) > 1 else None, keywords)
        elif row.rank is not None:
            made = made.but(rank=row.rank if is_reduced(keywords) else None)
        elif last in ("unsqueeze", "repeat_interleave"):
            made = made.but(rank=1)
        unseen = Assumption(LIBRARY_CALL)
        if unseen in made.assumed and operands:  # it takes nothing but tensors, wherever these come from
            made = made.but(assumed=made.assumed - {unseen} | {Assumption(LIBRARY_CALL, last)})
        return Value(SEQUENCE, rest=made) if row.many else made

    def _has_to_be(self, value: Value, at: ast.expr, row: Row) -> bool:
        """Is a first argument a tensor, wherever it is? What a dict of a caller has is on the CPU as often as not."""
        key, uses = value.place.key, self.uses()
        if row.form != "same" or (isinstance(key, tuple) and key[0] == "item"):
            return False
        if uses is None or not uses.keyed:
            return True
        return uses.keyed.isdisjoint(one.id for one in ast.walk(at) if isinstance(one, ast.Name))

    def _made(self, node: ast.Call, row: Row, dotted: str, first: Value, arguments: Arguments) -> Value:
        values, keywords = arguments
        form, rank, last = row.form, row.rank, dotted.rpartition(".")[2]
        if "device" in keywords:
            place = self.target(keywords["device"][0], node)
            if place is not None and place.kind != DEFAULT:
                if "generator" in keywords:
                    self.other_generator(node, last, keywords["generator"][0], place)
                links = (self.link("move", node),) if place.kind == LITERAL else self.followed(arguments)
                made = Value(TENSOR, place, rank=rank, links=links, like=_told_size(arguments))
                return self.analysis.named.made(node, made)
        if "out" in keywords:
            return keywords["out"][0]
        if form == "cuda":
            links, size = (self.link("move", node),), _told_size(arguments)
            made = Value(TENSOR, Place(LITERAL, "cuda"), rank=rank, links=links, like=size)
            return self.analysis.named.made(node, made)
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
        told = keywords["generator"][0] if "generator" in keywords else None
        is_sized = "size" in keywords or len(values) > 2
        if told is not None and told.kind != NONE and not (told.role == "generator" and told.place.on_host):
            if last != "normal" or is_sized:  # else it is where its mean is
                self.other_generator(node, last, told, self.default)
            return Value(TENSOR, rank=rank)  # it is on the device of the generator, or it raises
        if last == "normal":
            if first.kind in (TENSOR, BATCH):
                return first
            rank = 1 if is_sized else None
        if form == "data":
            rank = self._rank_of_data(first)
            home = self.where(first)
            if (first.kind == BATCH or home.kind == OWNED) and not home.on_host:
                return Value(TENSOR)  # what of a batch is made a tensor was a list, which nobody moves
            if first.kind in (TENSOR, BATCH):
                return Value(TENSOR, first.place, rank=first.rank, links=first.links, assumed=first.assumed)
            listed = first.kind == UNKNOWN and is_parameter(first.place) and self._is_list(values[0][1])
            rank = 1 if listed else rank
            if first.kind == UNKNOWN and last != "tensor" and not listed:  # where that is, if it is a tensor
                doubt = frozenset({Assumption(DATA, last)})
                return Value(TENSOR, first.place if is_parameter(first.place) else NOWHERE, assumed=doubt)
            inner = [value for value, _ in self.tensors(first, node)]
            if inner and any(not self.where(one).on_host for one in inner):
                rank = 1
        if form == "legacy" and last == "Tensor" and first.kind in (TENSOR, BATCH) and len(values) == 1:
            return first if first.kind == TENSOR else Value(TENSOR)
        if form == "legacy" and first.kind in (TENSOR, BATCH):
            if values:
                self.read_as_array(node, first, values[0][1], dotted)  # what is on a device raises
            return Value(TENSOR)
        place = self.default if self.analysis.default_is_known else NOWHERE
        if form in ("legacy", "array"):
            place = AT_DEFAULT if last != "Tensor" or self.analysis.type_is_known else NOWHERE
        role = "flat" if last in _FLAT else "host" if form == "array" else ""
        told = keywords["dtype"][0] if "dtype" in keywords else ANYTHING
        like = told.like if told.kind == DTYPE else None
        like = like or (_told_size(arguments) if form in ("make", "data") else None)
        made = Value(TENSOR, place, rank=rank, links=(self.link(MAKE, node, dotted),), role=role, like=like)
        if form == "legacy" and last == "Tensor" and first.kind == UNKNOWN and len(values) == 1:
            made = made.but(assumed=frozenset({Assumption(DATA, self.file.source.code(values[0][1])[:40])}))
        return Value(SEQUENCE, items=(made, A_NUMBER)) if row.many else made

    def _is_list(self, node: ast.AST | None) -> bool:
        """Is a parameter annotated as a list? What a tensor is made of its numbers is on the CPU."""
        parameters = (
            self.function.parameters if self.function is not None and isinstance(node, ast.Name) else ()
        )
        return isinstance(node, ast.Name) and any(
            one.arg == node.id and is_list(self.file, one.annotation) for one in parameters
        )

    def drawn(self, node: ast.Call, base: Value, name: str, *, many: bool) -> Value:
        """What a distribution draws: it cannot be moved itself, so that a kept one's draw is where the draw begins."""
        links = base.links
        if not links or any(one.kind in (PASS, STORE) for one in links):
            links = (self.link(MAKE, node, f"{base.ref}.{name}"),)
        return base.but(rank=1 if many else base.rank, role="", ref=None, links=links)

    def followed(self, arguments: Arguments) -> History:
        """The history of what the arguments say to follow: `x.device`, or `x` itself, that may be on the CPU."""
        for value, _ in (*arguments[0], *arguments[1].values()):
            places = alternatives(self.where(value)) if value.kind in (TENSOR, BATCH) else ()
            if value.role == "followed" or any(one.on_host for one, _ in places):
                return value.links
        return ()

    def _rank_of_data(self, first: Value) -> int | None:
        if first.kind in (NUMBER, TEXT):
            return 0
        if first.kind == SEQUENCE:
            return 1
        return first.rank if first.kind in (TENSOR, ARRAY) else None

    def _elements(
        self, node: ast.Call, row: Row, last: str, first: Value, values: list[tuple[Value, ast.expr]]
    ) -> Value:
        spread = values if row.many or last in ("block_diag", "cartesian_prod") else values[:1]
        if not row.many and first.items is not None and spread:
            items = tuple([self.as_tensor(one, surely=True) for one in first.items])
            first = first.but(items=items)
            spread = [(first, spread[0][1]), *spread[1:]]
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
        unseen = Assumption(LIBRARY_CALL)
        if unseen in made.assumed and operands:  # it takes nothing but tensors, wherever these come from
            made = made.but(assumed=made.assumed - {unseen} | {Assumption(LIBRARY_CALL, last)})
        return Value(SEQUENCE, rest=made) if row.many else made

    def reduced(
        self,
        made: Value,
        row: Row,
        dim: tuple[Value, ast.expr] | None,
        keywords: dict[str, tuple[Value, ast.expr]],
    ) -> Value:
        """What a reduction leaves: over all, or over `dim`; who names the second dimension has at least two."""
        dim = keywords.get("dim") or keywords.get("axis") or dim
        if dim is None:
            return ANYTHING if predates_scalars(self.file.source) else made.but(rank=0)
        at = dim[0].const
        second = type(at) is int and (at > 0 or at < -1)
        kept = "keepdim" in keywords and keywords["keepdim"][0].const is True
        role = PAIR if type(at) is int and row.pairs else made.role
        return made.but(rank=1 if second or kept else None, role=role)


def is_reduced(keywords: dict[str, tuple[Value, ast.expr]]) -> bool:
    """Does a loss give one number, as it does unless it is told `reduction="none"`?"""
    told = [keywords[one][0].const for one in ("reduction", "reduce") if one in keywords]
    return all(one in ("mean", "sum", "batchmean", True, None) for one in told)


def _told_size(arguments: Arguments) -> Value | None:
    """The number among the arguments of what makes a tensor that was read from another one: `x.size(0)`."""
    sizes = [one for value, _ in arguments[0] for one in (value.items or (value,))]
    return next((one for one in sizes if one.kind == NUMBER and one.like is not None), None)


def without(row: Row, arguments: Arguments) -> Arguments:
    """The arguments but the one that may be anywhere."""
    if row.free is None:
        return arguments
    position, name = row.free
    values = [one for i, one in enumerate(arguments[0]) if i != position]
    return values, {key: one for key, one in arguments[1].items() if key != name}
