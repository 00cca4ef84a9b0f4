"""What operations require of places: together in one, or on the CPU."""

from __future__ import annotations

import ast

from devfix.engine.evidence import about_devices, asks_how_many, compares_devices, without_accelerator
from devfix.engine.facts import HostRead, Mismatch
from devfix.engine.frame import Arguments, Frame
from devfix.engine.joins import element
from devfix.engine.places import (
    APART,
    CPU,
    DEFAULT,
    DIFFERENT,
    FIXED,
    IN,
    LITERAL,
    OF,
    OWNED,
    VAR,
    Path,
    Place,
    alternatives,
    relate,
)
from devfix.engine.values import (
    ARRAY,
    BATCH,
    BESIDE,
    EACH,
    ELEMENT,
    LIBRARY_CALL,
    LOAD,
    MAPPING,
    MODULE,
    NONE,
    OPTIMIZER,
    OR_NUMBER,
    PART,
    PASS,
    PATH_TAKEN,
    RANK,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Assumptions,
    Value,
    elements,
    weak,
)
from devfix.models.loader import Row

_OF_COLUMNS = ("pandas.", "scipy.io.savemat")  # they read each value of a dict
_OUT_OF_SIGHT = frozenset({Assumption(LIBRARY_CALL)})  # what a module out of sight gives need not be a tensor
Operand = tuple[Value, ast.AST]


def _excused(a: Place, b: Place, chosen: Path, whole: Path) -> bool:
    """Do the conditions on the way compare devices, or are they the ones without an accelerator?"""
    if any(without_accelerator(condition, holds) for condition, holds in whole):
        return True
    if sum(asks_how_many(condition) for condition, _ in chosen) > 1:
        return True  # numbers that exclude each other
    if any(compares_devices(condition) for condition, _ in chosen):
        return True
    if any(_names(place, condition) for condition, holds in whole if holds for place in (a, b)):
        return True  # no device is given: what is moved to it stays where it was
    return OF in (a.kind, b.kind) and any(about_devices(condition) for condition, _ in chosen)


def _names(place: Place, condition: object) -> bool:
    """Is it the device that a parameter names, and the condition that this is None?"""
    asked = condition[1] if isinstance(condition, tuple) and condition[:1] == ("none",) else ()
    named = place.key if place.kind == VAR and isinstance(place.key, tuple) else ()
    return named[:1] == ("parameter",) and isinstance(asked, tuple) and asked[-1:] == named[-1:]


def _moved_on_demand(place: Place, on_host: Place, path: Path) -> bool:
    """Is a module left on the CPU only where a condition says that there is no device for it?"""
    chosen = [conditions - path for one, conditions in alternatives(place, path) if one == on_host]
    return bool(chosen) and all(any(about_devices(one) for one, _ in conditions) for conditions in chosen)


class Requirements(Frame):
    def is_strict(self, row: Row, arguments: Arguments) -> bool:
        """Does a call refuse tensors without dimensions that are elsewhere?"""
        values, keywords = arguments
        given = [value.kind for value, _ in (*values, *keywords.values())]
        if not row.strict or (row.numbers and any(one not in (TENSOR, BATCH, NONE) for one in given)):
            return False
        return not any(
            keywords[one][0].kind == TENSOR for one in self.analysis.models.scalars & keywords.keys()
        )

    def together(
        self, node: ast.AST, operands: list[Operand], operation: str, *, strict: bool = False
    ) -> Value:
        """Operands that must be in one place: reports those that are not, and gives the result, a tensor."""
        placed = [
            (value, at, self.where(value)) for value, at in operands if value.kind in (TENSOR, BATCH, MODULE)
        ]
        if len(placed) > 1:
            first = placed[0][2]
            if first.kind in (DEFAULT, LITERAL) or any(place != first for _, _, place in placed):
                pairs = [(one, other) for i, one in enumerate(placed) for other in placed[i + 1 :]]
                # Of several that speak for one place, the first is told: one that is proven.
                for one, other in sorted(
                    pairs, key=lambda pair: bool(pair[0][0].assumed | pair[1][0].assumed)
                ):
                    self._relate(node, one, other, operation, strict)
        return self._result(placed, len(operands))

    def _result(self, placed: list[tuple[Value, ast.AST, Place]], count: int) -> Value:
        """Where what comes of operands is: with those on a device; on the CPU only if all are."""
        best: tuple[Value, Place] | None = None
        ranks = [value.rank for value, _, _ in placed]
        rank = 1 if 1 in ranks else None
        if ranks and len(placed) == count and set(ranks) == {0}:
            rank = 0
        for value, _, place in placed:
            if place.on_device:
                links = value.links if place.kind == LITERAL else ()
                beside = {
                    Assumption(BESIDE, " ".join(self.file.source.code(at).split())[:40])
                    for other, at, where in placed
                    if other.kind == TENSOR and where.kind == "unknown"
                }
                return Value(TENSOR, place, rank=rank, links=links, assumed=value.assumed | beside)
            if best is None or (best[1].on_host and (place.on_host or best[0].rank != 1)):
                if best is None or not place.on_host or value.rank != 0:
                    best = value, place
        if best is None:
            return Value(TENSOR, rank=rank)
        value, place = best
        if place.on_host and len(placed) < count and value.rank != 1:
            return Value(TENSOR, rank=rank)  # beside something that may be a tensor elsewhere
        return Value(TENSOR, place, rank=rank, links=value.links, assumed=value.assumed)

    def _relate(
        self,
        node: ast.AST,
        one: tuple[Value, ast.AST, Place],
        other: tuple[Value, ast.AST, Place],
        operation: str,
        strict: bool,
    ) -> None:
        if (self.analysis.named.calls or self.analysis.named.places) and not self.quiet:
            self.analysis.named.met(self, node, one, other, operation, strict)
        path = self.state.path
        pairs = 0
        found: tuple[str, Place, Place, Path] | None = None
        for a, first in alternatives(one[2], path):
            for b, both in alternatives(other[2], first):
                pairs += 1
                relation = relate(a, b)
                if relation in (DIFFERENT, FIXED, APART) and not _excused(a, b, both - path, both):
                    if found is None or (relation == found[0] and len(both) < len(found[3])):
                        found = relation, a, b, both
        if found is None:
            self._agree(one, other)
            return
        if found[0] == FIXED and pairs > 1:
            return  # moved under a condition, which mostly asks where the other one is
        relation, a, b, both = found
        swap = b.on_host if relation == DIFFERENT else b.kind == LITERAL
        if a.kind == LITERAL and b.kind == LITERAL:
            swap = True
        (anchor, anchor_node, _), (stray, stray_node, _) = (one, other) if swap else (other, one)
        anchor_place, stray_place = (a, b) if swap else (b, a)
        if stray.kind == MODULE and _moved_on_demand((other if swap else one)[2], stray_place, path):
            return
        assumed = (stray.assumed | anchor.assumed) - {OR_NUMBER}  # which mixes with any device
        asked = [condition for condition, _ in both - path if not about_devices(condition)]
        if pairs > 1 and len(asked) > 1:  # one condition alone is met by somebody, or it would not be asked
            assumed |= {Assumption(PATH_TAKEN)}
        if not strict and stray.kind != MODULE and stray.rank != 1 and stray_place.on_host:
            if stray.rank == 0:
                return  # a tensor without dimensions mixes with any device
            assumed |= {Assumption(RANK)}
        self.report(
            node,
            operation,
            relation,
            (stray, stray_node, stray_place),
            (anchor, anchor_node, anchor_place),
            assumed,
            guarded=pairs > 1,
            chosen=len(alternatives((one if swap else other)[2], path)) > 1,
        )

    def _agree(self, one: tuple[Value, ast.AST, Place], other: tuple[Value, ast.AST, Place]) -> None:
        """Two that are together where they are: whoever moves one has to move the other."""
        for (value, _, place), (_, _, beside) in ((one, other), (other, one)):
            if value.links and place.kind == DEFAULT and beside.kind == CPU:
                self.analysis.read_on_host.update(value.moved_at())  # it meets what was copied there
        if one[0].links and other[0].links and one[2] == other[2] and one[2].kind in (DEFAULT, LITERAL):
            a, b = one[0].links[0].node, other[0].links[0].node
            if (
                a is not b
                and (one[0].rank != 0 or one[2].kind == LITERAL)
                and (other[0].rank != 0 or other[2].kind == LITERAL)
            ):
                for made, other_made in ((one[0], b), (other[0], a)):
                    whole = self._whole(made)  # which is moved instead
                    for node in {*made.moved_at(), *(whole.moved_at() if whole.links else ())}:
                        self.analysis.company.setdefault(node, set()).add(other_made)

    def report(
        self,
        node: ast.AST,
        operation: str,
        relation: str,
        stray: tuple[Value, ast.AST | None, Place],
        anchor: tuple[Value, ast.AST | None, Place],
        assumed: Assumptions,
        *,
        guarded: bool = False,
        chosen: bool = False,
    ) -> None:
        """Note a mismatch, unless names are all that speaks for both sides."""
        stray = self._whole(stray[0]), stray[1], stray[2]
        if self.quiet or (weak(stray[0]) and weak(anchor[0])) or not stray[0].links:
            return
        made = stray[0].links[0]
        handed = [one.node for one in stray[0].links if one.kind == PASS]
        key = (made.node, node, relation, anchor[2], *handed)
        if not self.analysis.is_new(key, assumed):
            return
        self.analysis.mismatches.append(
            Mismatch(
                operation=operation, node=node, file=self.file, function=self.function, relation=relation,
                stray=stray[0], stray_place=stray[2], stray_node=stray[1],
                anchor=anchor[0], anchor_place=anchor[2], anchor_node=anchor[1],
                assumed=assumed, scopes=self.scopes(), path=self.state.path, running=self.running(),
                guarded=guarded, chosen=chosen,
            )
        )  # fmt: skip

    def _whole(self, value: Value) -> Value:
        """What has to be moved so that a value is: the outermost module around it that is on the CPU, too."""
        cell = value.ref if value.kind == MODULE else value.place.key if value.place.kind == IN else None
        found, own = value, self.state.resolve(self.state.place_of(cell))
        for _ in range(8):
            made, place = self.analysis.made.get(cell), self.state.resolve(self.state.place_of(cell))
            if made is None or not (place.on_host or place == own):
                break
            if cell != value.ref:
                found = self.running_module(cell, made).but(assumed=value.assumed | made.assumed)
            cell = self.analysis.part_of.get(cell)
        return found

    def read_as_array(self, node: ast.AST, value: Value, at: ast.AST, operation: str) -> None:
        """A function makes an array of a tensor, or of a list of tensors."""
        value = self._no_container(value, at)
        if value.kind == MAPPING and isinstance(at, ast.Dict) and operation.startswith(_OF_COLUMNS):
            for key, column in zip(at.keys, at.values, strict=True):
                known = (value.fields or {}).get(key.value) if isinstance(key, ast.Constant) else None
                if known is not None:
                    self.read_as_array(node, known, column, operation)
        elif value.kind != SEQUENCE:
            if value.kind in (TENSOR, ARRAY):
                self.on_host(node, value, at, operation)
        elif isinstance(at, (ast.List, ast.Tuple)) and value.items and len(value.items) == len(at.elts):
            for one, element_node in zip(value.items, at.elts, strict=True):
                self.read_as_array(node, one, element_node, operation)
        elif (inside := element(value)) and (inside := self._no_container(inside, at)).kind in (
            TENSOR,
            ARRAY,
        ):
            each = at.elt if isinstance(at, ast.ListComp) else at
            self.on_host(node, inside, each, operation, many=each is at)

    def _no_container(self, value: Value, at: ast.AST) -> Value:
        """What was moved and is read as an array is a tensor, as this use says."""
        if value.kind != BATCH or not value.is_moved:
            return value
        return value.but(kind=TENSOR, assumed=value.assumed | {Assumption(USES, self.file.source.code(at))})

    def on_host(
        self,
        node: ast.AST,
        value: Value,
        at: ast.AST,
        operation: str,
        kinds: tuple[str, ...] = (TENSOR, BATCH),
        *,
        many: bool = False,
    ) -> None:
        """Something reads the memory of a value, or of `many` like it, as the CPU's."""
        if value.kind == ARRAY:
            self.analysis.arrays_read.add(at)
        proven = operation == "numpy"  # of all that a function out of sight may give, only tensors have it
        if self.quiet or value.kind not in kinds or (value.assumed & _OUT_OF_SIGHT and not proven):
            return
        if self.where(value).on_host:
            self.analysis.read_on_host.update([at, *(value.moved_at() if value.links else ())])
        path, every = self.state.path, alternatives(self.where(value), self.state.path)
        called = any(one.kind == LIBRARY_CALL and one.subject.endswith("()") for one in value.assumed)
        if called and any(place.on_host for place, _ in every):
            return  # on some paths, and only perhaps
        places = [place for place, way in every if not any(without_accelerator(*one) for one in way)]
        moved = [place for place in places if place.kind in (LITERAL, VAR, OWNED)]  # on some paths, perhaps
        if not moved and not (places and all(place.on_device for place in places)):
            return
        if not any(about_devices(condition) for condition, _ in path) and self.analysis.is_new(
            (node, at, "host", bool(moved)), value.assumed
        ):
            self.analysis.host_reads.append(
                HostRead(
                    operation,
                    node,
                    self.file,
                    self.function,
                    value,
                    at,
                    [*moved, *places][0],
                    value.assumed,
                    many,
                )
            )

    def as_tensor(self, value: Value, *, surely: bool = False) -> Value:
        """A value where tensors stand: what was moved is one; if `surely`, so is whatever has a place."""
        if value.kind == UNKNOWN and value.role == "host" and value.place.on_host and surely:
            return value.but(kind=TENSOR)
        if value.kind != UNKNOWN or not (value.place.on_device or value.role == "given"):
            return value
        moved = value.role in ("moved", "given", "cast")
        return value.but(kind=TENSOR, role="") if moved or surely else value

    def as_loaded(self, value: Value, at: ast.AST, other: Value) -> Value:
        """What was loaded to the CPU is a tensor where it is combined with one of a device."""
        if not is_loaded(value) or other.kind not in (TENSOR, BATCH) or not self.where(other).on_device:
            return value
        used = Assumption(USES, self.file.source.code(at)[:40])
        return value.but(kind=TENSOR, role="", assumed=value.assumed | {used})

    def tensors(self, value: Value, node: ast.AST, depth: int = 0) -> list[Operand]:
        """The tensors in a value, each with the node to blame."""
        if value.kind in (TENSOR, MODULE) or (value.kind == BATCH and not value.fields):
            return [(value, node)]  # of a batch whose elements were replaced, those
        if depth > 2 or value.kind == OPTIMIZER:  # which only knows the modules
            return []
        found: list[Operand] = []
        nodes, inside = getattr(node, "elts", None), elements(value)
        if nodes is not None and len(nodes) == len(value.items or ()):
            for one, at in zip(value.items or (), nodes, strict=True):
                found += self.tensors(one, at, depth + 1)
            inside = inside[len(nodes) :]
        only = value.kind == SEQUENCE and nodes is None and all(one.kind == TENSOR for one in inside)
        for one in inside:
            found += self._inside(one, node, depth, EACH if only else PART)
        return found

    def _inside(self, value: Value, node: ast.AST, depth: int, name: str) -> list[Operand]:
        """The tensors in an element of what stands at a node, of which their histories tell."""
        link, found = self.link(ELEMENT, node, name), self.tensors(value, node, depth + 1)
        return [(one.linked(link) if one.links[-1:] not in ((), (link,)) else one, at) for one, at in found]

    def moved(self, value: Value, place: Place, node: ast.AST, depth: int = 0) -> Value:
        """A value, and what it holds, in another place."""
        if depth > 3:
            return value
        items = value.items and tuple(self.moved(one, place, node, depth + 1) for one in value.items)
        rest = value.rest and self.moved(value.rest, place, node, depth + 1)
        fields = value.fields and {k: self.moved(v, place, node, depth + 1) for k, v in value.fields.items()}
        # A value that was moved has one link that matters: where it was moved.
        links = (self.link("move", node),)
        bound = value.bound
        if value.kind == TENSOR:
            bound = (
                value if place.on_host and value.place.kind == OF else bound if value.place.on_host else None
            )
        # What is moved has a place of its own, whatever it was taken for.
        assumed = (
            frozenset() if place.kind in (VAR, LITERAL) and value.kind in (TENSOR, BATCH) else value.assumed
        )
        return value.but(
            place=place,
            items=items or None,
            rest=rest,
            fields=fields or None,
            links=links,
            bound=bound,
            assumed=assumed,
        )


def is_loaded(value: Value) -> bool:
    """Was it loaded from a file that is told the CPU, so that nothing else is known of it?"""
    links = value.links
    return (
        value.kind == UNKNOWN and value.role == "host" and value.place.kind == CPU and links[0].kind == LOAD
    )
