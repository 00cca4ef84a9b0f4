"""What results, containers, collectives and parts out of sight want: that their tensors are in one place."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from devfix.engine.evidence import (
    about_devices,
    asks_for_tensor,
    is_count,
    is_factor,
    is_module_name,
    prepares_data,
)
from devfix.engine.frame import Arguments
from devfix.engine.places import (
    AT_DEFAULT,
    DEFAULT,
    DIFFERENT,
    FIXED,
    LITERAL,
    OF_MACHINE,
    VAR,
    Path,
    Place,
    alternatives,
)
from devfix.engine.transfer.requirements import Operand, Requirements
from devfix.engine.values import (
    BATCH,
    DEVICE,
    EACH,
    ELEMENT,
    LIKE,
    LOAD,
    MAKE,
    MODULE,
    NAME,
    PART,
    PASS,
    RESULT,
    RETURN,
    SEQUENCE,
    SIBLINGS,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.text.source import Source, remembered

ALONE = -1  # the position of a result that is given alone


def _is_none(condition: object, place: Place) -> bool:
    """Does a condition say that the argument that a place is of is None?"""
    if not isinstance(condition, tuple) or condition[0] != "none" or not isinstance(place.key, tuple):
        return False
    asked = condition[1]
    return asked == place.key or (isinstance(asked, tuple) and asked[-1:] == place.key[-1:])


class Results(Requirements):
    def kept_by_module(self, value: Value, at: ast.expr) -> Value | None:
        """A tensor, as its use says, that a module out of sight keeps: it is where the module is."""
        if value.kind != UNKNOWN or value.like is None or value.like.kind != MODULE:
            return None
        place, used = self.where(value.like), Assumption(USES, self.file.source.code(at)[:40])
        return Value(TENSOR, place, assumed=value.like.assumed | {used}) if place.on_device else None

    def left_behind(self, node: ast.AST, given: Sequence[Operand], operation: str) -> None:
        """Of the items of something out of sight, some are moved here, and meet one that is not."""
        if not self.moved_items or self.quiet:
            return
        there = [
            (value.but(kind=TENSOR, role=""), at, self.where(value))
            for value, at in given
            if value.kind in (TENSOR, BATCH) or (value.kind == UNKNOWN and value.role in ("given", "moved"))
        ]
        for value, at in given:
            key = value.place.key
            if (
                value.kind != UNKNOWN
                or value.role
                or not isinstance(key, tuple)
                or key[0] != "item"
                or is_count(at)
                or is_factor(at)
            ):
                continue
            read = self.analysis.item_nodes.get(value.place, at)
            moved = self.moved_items.get(self.container(key[1], read), {})
            anchor = next((one for one in there if one[2] in moved.values()), None)
            if anchor is not None and key[2] not in moved:
                assumed = frozenset({Assumption(SIBLINGS, self.file.source.code(read)[:40])})
                links = (self.link(LOAD, read, "item"),)
                stray = Value(TENSOR, AT_DEFAULT, rank=1, links=links, assumed=assumed)
                self.report(node, operation, DIFFERENT, (stray, at, AT_DEFAULT), anchor, assumed)

    def container(self, root: object, item: ast.AST) -> object:
        """What an item is taken of; all that `forward` is given is where the module is, so there its name counts."""
        if isinstance(root, tuple) and root[0] == "self" and isinstance(item, ast.Subscript):
            return root, self.file.source.code(item.value)
        return root

    def taken_apart(self, value: Value) -> None:
        """Whoever gets a batch takes an element of it: it may be a list."""
        if value.kind == BATCH and any(one.kind == PASS for one in value.links):
            self.analysis.taken_apart.add(value.links[0].node)

    def agree(self, node: ast.Return, value: Value) -> None:
        """Results of one function are wanted in one place: a tensor made here, and what another return gives.

        Of several that are given together each is another thing: what is for a plot, or a log, may be on the CPU.
        """
        if self.quiet or self.function is None or self.depth > 1:
            return
        at = node.value or node
        parts = list(value.items) if value.items is not None and value.kind == SEQUENCE else [value]
        nodes = getattr(at, "elts", ())
        if len(nodes) != len(parts):
            nodes, link = [at] * len(parts), self.link(ELEMENT, at, PART)
            parts = [one.linked(link) if one.links and one is not value else one for one in parts]
        path, several = self.state.path, isinstance(at, ast.Tuple)
        self.results += [
            (one, where, node, path, i if several else ALONE)
            for i, (one, where) in enumerate(zip(parts, nodes, strict=True))
            if one.kind in (TENSOR, BATCH)
        ]

    def results_agree(self) -> None:
        """Compare all results of a run."""
        anchors: dict[int, tuple[Value, ast.AST, Place]] = {}
        strays: list[tuple[Value, ast.AST, Place, ast.Return, Path, int]] = []
        for value, at, returned, conditions, i in self.results:
            home = value.bound
            for place, path in alternatives(self.where(value), conditions):
                if place.kind == LITERAL and home is not None and value.kind == TENSOR:
                    self.report(
                        returned,
                        "the result",
                        FIXED,
                        (value, at, place),
                        (home, at, home.place),
                        value.assumed,
                    )
                like, chosen = value.like, path - self.met  # here, and not by whoever made the object
                asked = any(about_devices(one) or asks_for_tensor(one) for one, _ in chosen)
                if (
                    like is not None
                    and like.kind == TENSOR
                    and place.kind == DEFAULT
                    and value.rank == 1
                    and not asked
                ):
                    self._like_its_source(returned, value, at, like)
                    if self.where(like).on_device and self.where(like).kind != LITERAL:
                        anchors.setdefault(i, (like, at, self.where(like)))
                if place.on_device and place.kind != LITERAL and i not in anchors:
                    anchors[i] = value, at, place
                elif (self._of_array(value) and self.taken is None) or asked:
                    continue  # of an array, as transforms take and make it; or somebody has asked
                elif (
                    place.kind == DEFAULT
                    and value.rank == 1
                    and not is_count(at)
                    and {MAKE} == {one.kind for one in value.links if one.name not in (PART, EACH)} - {RETURN}
                ):
                    strays.append((value, at, place, returned, path, i))
        given, own = (self._input(), self._own_device()) if strays else (None, None)
        for value, at, place, returned, path, i in strays:
            anchor = anchors.get(i) or (given if i == ALONE else None) or own
            if anchor is None or any(holds and _is_none(condition, anchor[2]) for condition, holds in path):
                continue  # where it is returned, there is no other one
            assumed = value.assumed | anchor[0].assumed | {Assumption(RESULT)}
            self.report(returned, "the result", DIFFERENT, (value, at, place), anchor, assumed)

    def _like_its_source(self, node: ast.AST, value: Value, at: ast.AST, like: Value) -> None:
        """What takes its type from a tensor, or is filled from one, is wanted where that is."""
        place, home = self.where(value), self.where(like)
        if home.on_device and home.kind != LITERAL and len(value.links) == 1:
            assumed = value.assumed | like.assumed | {Assumption(RESULT)}
            self.report(node, "the result", DIFFERENT, (value, at, place), (like, None, home), assumed)

    def _of_array(self, value: Value) -> bool:
        """Is a tensor made of what is no tensor, such as an image: `from_numpy(x)`, `to_tensor(x)`?"""
        link = value.links[0] if value.links else None
        if link is None or not isinstance(link.node, ast.Call):
            return False
        row = self.models.function(link.file.dotted(link.node.func))
        return row is not None and row.form == "array"

    def is_forward(self) -> bool:
        """Is this what a module, or a function with its own gradient, makes of its inputs?"""
        function = self.function
        if function is None or function.name != "forward" or function.owner is None or self.depth > 1:
            return False
        return self.analysis.is_autograd(function) or self.analysis.classes.is_module(function.owner)

    def _input(self) -> tuple[Value, ast.AST, Place] | None:
        """The first tensor that `forward` is given, by whom is not known: its results are wanted there."""
        function = self.function
        if function is None or self.caller is not None:
            return None
        if self.taken is not None and function.owner is not None and function.name in ("forward", "__call__"):
            return self.taken.but(kind=TENSOR, role="taken"), function.node, self.taken.place
        if not self.is_forward():
            return None
        for value in self.analysis.parameters(function, self.me).values():
            if value.kind in (TENSOR, BATCH) and self.where(value).on_device:
                return value, function.node, self.where(value)
        return None

    def _own_device(self) -> tuple[Value, ast.AST, Place] | None:
        """The device of the object, on which its other methods make what they give."""
        function, me = self.function, self.me
        if function is None or me is None or self.caller is not None or function.name.startswith("__"):
            return None
        if function.owner is None or self.analysis.class_kind(function.owner) not in ("object", "module"):
            return None
        if prepares_data(function.owner.name, *function.owner.bases):
            return None
        if self.analysis.uses(function).asks_for_devices or about_devices(
            self.file.source.code(function.node)
        ):
            return None
        for name in ("device", "_device"):
            held = self.state.attribute(me.ref, name) if me.ref is not None else None
            place = held.place if held is not None else Place(VAR, ("attribute", me.ref, name))
            told = _told(self.file.source, function.owner.node, f"self.{name}") - set(function.nodes)
            if place.kind == VAR and told:
                return (
                    Value(TENSOR, place, assumed=frozenset({Assumption(LIKE, "self")})),
                    function.node,
                    place,
                )
        return None

    def sent(self, node: ast.AST, value: Value, at: ast.AST, operation: str) -> None:
        """A collective is given a tensor that is on a device on one path, and on the CPU on another."""
        found = alternatives(self.where(value), self.state.path)
        # Who has no accelerator has no backend that works on accelerators only.
        places = [place for place, path in found if not any((one, False) in path for one in OF_MACHINE)]
        stray = next((place for place in places if place.kind == DEFAULT), None)
        anchor = next((place for place in places if place.on_device and place.kind != LITERAL), None)
        size = value.like.like if value.like is not None else None
        if anchor is None and size is not None and self.where(size).on_device:
            anchor = self.where(size)  # it counts what is there
        if stray is not None and anchor is not None and value.kind == TENSOR and value.links:
            home = value.but(place=anchor, links=())
            self.report(node, operation, DIFFERENT, (value, at, stray), (home, None, anchor), value.assumed)

    def mixed(self, node: ast.AST, known: Value | None, value: Value, at: ast.AST | None) -> None:
        """The elements of a container are wanted in one place: one made here beside one from elsewhere."""
        if known is None or known.kind not in (TENSOR, BATCH) or value.kind not in (TENSOR, BATCH):
            return
        for (one, its), (other, there) in (((known, None), (value, at)), ((value, at), (known, None))):
            a, b = self.where(one), self.where(other)
            if a.kind == DEFAULT and b.on_device and b.kind != LITERAL and one.rank == 1 and one.links:
                assumed = one.assumed | other.assumed | {Assumption(RESULT)}
                self.report(node, "the container", DIFFERENT, (one, its, a), (other, there, b), assumed)

    def note_use(self, node: ast.Call, cell: object, name: str, arguments: Arguments) -> None:
        """What an object's part out of sight is called with: where other calls move that, it is wanted there.

        A part that is called like a module is on the device that the object has.
        """
        if self.quiet or cell is None:
            return
        known = self.analysis.handed.setdefault((cell, name), [])
        wanted = [(place, LIKE) for value, place in known if place.kind == VAR]
        if is_module_name(name):
            for attribute, value in self.state.attributes(cell):
                if self.analysis.is_device_name(attribute):
                    named = Place(VAR, ("attribute", cell, attribute))
                    told = value.kind == DEVICE and value.place.kind == VAR
                    wanted.append((value.place if told else named, NAME))
        every = (*arguments[0], *arguments[1].values())
        others = [one for value, at in every if (one := self._moved_on_cuda(value, at))]
        beside = others[0] if others and is_module_name(name) else None
        for value, at in every:
            given, place = self.as_tensor(value), self.where(value)
            made = place.kind == DEFAULT and bool(given.links) and given.links[0].kind == MAKE
            if given.kind != TENSOR or not (made or place.kind == VAR):
                continue
            for there, why in wanted[:1] if made else ():
                assumed = frozenset({Assumption(why, f"self.{name}")}) | given.assumed
                self.report(
                    node, name, DIFFERENT, (given, at, place), (Value(TENSOR, there), None, there), assumed
                )
            if made and not wanted and beside is not None and given.rank == 1 and not is_count(at):
                assumed = frozenset({Assumption(SIBLINGS, self.file.source.code(at)[:40])}) | given.assumed
                self.report(node, name, DIFFERENT, (given, at, place), beside, assumed)
            known.append((given, place))

    def _moved_on_cuda(self, value: Value, at: ast.AST) -> tuple[Value, ast.AST, Place] | None:
        """What is moved where there is CUDA: `if torch.cuda.is_available(): x = x.cuda()`."""
        places = [place for place, _ in alternatives(self.where(value), self.state.path)]
        there = next((one for one in places if one.kind == LITERAL), None)
        is_moved = value.kind == TENSOR and there is not None and any(one.on_host for one in places)
        return (value, at, there) if is_moved and there is not None else None


@remembered
def _told(source: Source, owner: ast.ClassDef, device: str) -> set[ast.AST]:
    """The calls in a class that are told to make something on a device, by how that is written."""
    return {
        call
        for call in source.of_kind(ast.Call, owner)
        if any(one.arg == "device" and source.code(one.value) == device for one in call.keywords)
    }
