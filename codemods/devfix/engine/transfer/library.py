"""Calls of torch and of other packages, by what their models say."""

from __future__ import annotations

import ast

from devfix.engine import forms
from devfix.engine.collections import collection
from devfix.engine.events import WRAPPED
from devfix.engine.evidence import (
    asks_how_many,
)
from devfix.engine.frame import Arguments, Partial
from devfix.engine.places import (
    ACCELERATOR_ASKED,
    ACCELERATOR_THERE,
    AT,
    AT_DEFAULT,
    BY_LOADER,
    BY_OWNER,
    IN,
    NOWHERE,
    VAR,
    Place,
)
from devfix.engine.transfer.out_of_sight import OutOfSight
from devfix.engine.values import (
    A_NUMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    LIBRARY,
    LIBRARY_CALL,
    LOADER,
    MAKE,
    MODULE,
    NUMBER,
    OBJECT,
    OWNER,
    PACKED,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.models import frameworks, torch_api
from devfix.models.loader import public

_AXES = "matplotlib"
_PASS_THROUGH = frameworks.PROGRESS_BARS | {"track", "prange", "deepcopy", "copy"}
# Arguments of `from_pretrained` with which accelerate places the parts, and moves their inputs.
_PLACED_BY = frozenset({"device_map", "quantization_config", "load_in_8bit", "load_in_4bit"})
_INPUTS = ("inputs", "args", "example_inputs")
_COLLATES = frozenset({"DataLoader", "StatefulDataLoader"})
_PARTS_OF_DATA = frozenset({"Subset", "random_split"})  # their items are those of the data


class Library(OutOfSight):
    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """A call of what `dotted` names."""
        values, _keywords = arguments
        dotted = public(dotted)
        last = dotted.rpartition(".")[2]
        if dotted in self.models.takers and self.file is self.analysis.file:
            self.analysis.loaded.takers[node] = self.function, self.scopes()
        if dotted.startswith(("torch.", "torch_")):
            made = self._torch(node, dotted, last, arguments)
            if made is not None:
                return made
        if self.models.layer(dotted) == "runs" and values:
            self._run_once(node, arguments)
            return values[0][0]
        if dotted in frameworks.DEVICE_CALLS:
            return Value(DEVICE, Place(VAR, ("call", dotted)))
        if dotted in frameworks.ENGINES:
            self.escape(arguments, "prepare")  # it moves the model
            return Value(UNKNOWN, Place(VAR, ("owner", dotted)), role="moved")
        if dotted in frameworks.OWNING_LOADERS or last in frameworks.LOADER_MAKERS:
            return Value(LOADER, role="owned")
        if dotted in frameworks.OWNING_CALLS or self.models.layer(dotted) == "owner":
            return self.given_away(values[0][0] if values else ANYTHING)
        self._read_arguments(node, dotted, arguments)
        row = self.models.function(dotted)
        if row is not None:
            made = self.by_row(node, row, dotted, arguments)
            return made.but(role=PACKED) if row.packs and made.kind == TENSOR else made
        if dotted in ("typing.cast", "typing_extensions.cast") and len(values) > 1:
            return values[1][0]
        if dotted == "dataclasses.replace" and values:
            return self.replaced(node, values[0][0], _keywords)
        if self.models.layer(dotted) == "record":
            return self.record(node, last, _keywords)
        if self.models.layer(dotted) in ("bundle", "copied_bundle"):
            return self._bundle(node, last, arguments)
        converter = self.models.converter(dotted)
        if converter == "chains":
            chained = values[0][0].items or () if values else ()
            return next((one for one in chained if one.kind == LIBRARY), self.unknown(node))
        if converter:
            return Value(LIBRARY, ref=converter)
        if dotted.startswith(self.models.array_spaces):
            if last in ("deepcopy", "copy") and values:
                return self.copied(values[0][0], node)
            if dotted == "functools.partial":
                return self.partial(node, arguments)
            if dotted == "functools.reduce" and len(values) > 1:
                one = self.iterate(values[1][0], node), values[1][1]
                return self.call_value(node, values[0][0], ([one, one], {}))
            if dotted.startswith("collections."):
                held = collection(node, last, arguments, lambda one: self.call_value(node, one, ([], {})))
                if held is not None:
                    return held
            if dotted.startswith(("random.", "math.", "time.", "os.", "json.", "logging.", "itertools.")):
                return self._plain_library(node, dotted, arguments)
            return Value(ARRAY, rank=1 if self._has_dimensions(dotted, arguments) else None, ref=dotted)
        if (last in _PASS_THROUGH or dotted.startswith("tqdm.")) and values:
            return values[0][0]
        if last in _COLLATES:  # of another package
            made = self.loader(node, arguments)
            return made.but(assumed=made.assumed | {Assumption(LIBRARY_CALL, last)})
        owner = frameworks.OWNERS.get(dotted)
        if owner is not None:
            self.escape(arguments, last)
            told = {owner.switch, "kwargs_handlers"} & _keywords.keys()  # of what it does not place, or wraps
            return Value(OWNER, ref=dotted, role="off" if told else "")
        if self.models.layer(dotted) == "wrapper" and values:
            return values[0][0]
        layer = self.models.layer(dotted)
        if layer in ("module", "unseen", "loss", "bare"):
            role = layer if layer in ("loss", "bare") else ""
            made = self.new_module(node, dotted, arguments, role=role)
            placed = any(one.arg in _PLACED_BY for one in node.keywords)
            return self.given_away(made, BY_LOADER) if placed else made
        if self.models.layer(dotted) in ("items", "pairs"):
            parts = (*node.args, *node.keywords)
            placed = any("device" in self.file.source.code(one).lower() for one in parts)
            return Value(LOADER, AT_DEFAULT, role="owned" if placed else self.models.layer(dotted))
        if self.models.layer(dotted) == "several":
            return self._with_transforms(node, dotted, arguments)
        return self.unknown_call(node, dotted, arguments)

    def record(self, node: ast.Call, name: str, keywords: dict[str, tuple[Value, ast.expr]]) -> Value:
        """An object that keeps what it is given by name, and nothing else."""
        cell = (id(node), self.site, name)
        for key, (value, _) in keywords.items():
            self.state.set_attribute(cell, key, value)
        return Value(OBJECT, Place(IN, cell), ref=cell, links=(self.link(MAKE, node, name),))

    def _bundle(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """Tensors in an object that has `.to()`: a graph, or named tensors. Empty, it is nowhere."""
        values, keywords = arguments
        fields = (values[0][0].fields or {}) if values else {}
        fields = {**fields, **{key: value for key, (value, _) in keywords.items()}}
        places = [self.where(one) for held in (*values, *keywords.values()) for one, _ in self.tensors(*held)]
        place = AT_DEFAULT if values and not places else NOWHERE
        if len(set(places)) == 1:
            place = places[0]
        made = Value(BATCH, place, fields=fields, links=(self.link(MAKE, node, name),))
        told = self.target(*keywords["device"][:1], node) if "device" in keywords else None
        return self.moved(made, told, node) if told is not None else made

    def _with_transforms(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """A module on the device that is told, or by default, and transforms."""
        values, keywords = arguments
        told = keywords.get("device") or next((one for one in values if one[0].kind == DEVICE), None)
        made = self.new_module(node, dotted, ([], {}))
        place = self.target(told[0], node) if told is not None else None
        if place is None and self.models.takers.get(dotted, ("", "cpu"))[1] != "cpu":
            place = Place(VAR, id(node))  # CUDA, or where CUDA is
        if place is not None:
            self.state.set_place(made.ref, place)
        transform = Value(LIBRARY, ref="torchvision.transforms.functional.to_tensor")
        gives = self.models.rows[dotted].gives
        return Value(SEQUENCE, items=tuple([made if one == "module" else transform for one in gives]))

    def _run_once(self, node: ast.Call, arguments: Arguments) -> None:
        """A module is run on inputs that were made up for it."""
        values, keywords = arguments
        inputs = values[1] if len(values) > 1 else next((keywords[k] for k in _INPUTS if k in keywords), None)
        if inputs is None:
            return
        many = inputs[0].kind == SEQUENCE and inputs[0].items is not None
        nodes = getattr(inputs[1], "elts", None)
        items = inputs[0].items if many and inputs[0].items is not None else (inputs[0],)
        at = nodes if many and nodes is not None and len(nodes) == len(items) else [inputs[1]] * len(items)
        told, told_at = keywords.get("kwargs", (ANYTHING, node))
        named = {str(name): (value, told_at) for name, value in (told.fields or {}).items()}
        if items or named:
            self.call_value(node, values[0][0], (list(zip(items, at, strict=True)), named))

    def _read_arguments(self, node: ast.Call, dotted: str, arguments: Arguments) -> None:
        """What a function reads as arrays."""
        readers = self.models.readers
        numbered: list[tuple[int | str, tuple[Value, ast.expr]]] = [
            *enumerate(arguments[0]),
            *arguments[1].items(),
        ]
        reads, before = [], len(self.analysis.host_reads)
        for at, (value, given) in numbered:
            if readers.argument(dotted, at, many=value.kind == SEQUENCE):
                reads.append((value, given))
                self.read_as_array(node, value, given, dotted)
        copied = any(value.is_moved and value.place.on_host for value, _ in reads)
        if copied or before < len(self.analysis.host_reads) < before + len(reads):
            # One is a tensor, so the others are, too: to copy that alone is not enough.
            for value, given in reads:
                certain = value.but(assumed=value.assumed - {Assumption(LIBRARY_CALL)})
                if certain.assumed != value.assumed:
                    self.read_as_array(node, certain, given, dotted)

    def given_away(self, value: Value, by: Place = BY_OWNER) -> Value:
        """A module that a framework places from now on, with its inputs."""
        if value.ref is not None and (value.kind == MODULE or value.role == "instance"):
            self.owned(value)
            self.move_module(value.ref, by)
        return value.but(place=by) if value.kind == MODULE else Value(UNKNOWN, by)

    def array_method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        """A method of an array, or of another object of a library that has arrays."""
        readers = self.models.readers
        learns = name in readers.learns and str(base.ref).startswith("sklearn.")
        draws = name in readers.draws and str(base.ref or _AXES).startswith(_AXES)
        for value, at in arguments[0] if learns or draws else ():
            self.read_as_array(node, value, at, f"{base.ref if learns else 'axes'}.{name}")
        if name in self.models.keeps_shape:
            return Value(ARRAY, rank=base.rank)
        sized = "size" in arguments[1] and _has_sizes(arguments[1]["size"][0])
        return Value(ARRAY, rank=1 if sized or (learns and name in readers.rows) else None)

    def _has_dimensions(self, dotted: str, arguments: Arguments) -> bool:
        """Has the array that a function makes at least one dimension?"""
        values, keywords = arguments
        sizes = self.models.extents.get(dotted)
        if sizes is not None:
            given = values[sizes][0] if sizes < len(values) else ANYTHING
            return _has_sizes(keywords["size"][0] if "size" in keywords else given)
        listed = dotted in self.models.filled and bool(values) and values[0][0].kind == SEQUENCE
        return listed or dotted in self.models.shaped

    def _plain_library(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        values = arguments[0]
        if dotted == "itertools.chain":
            return Value(SEQUENCE, rest=self.iterate(values[0][0], node)) if values else ANYTHING
        if dotted in ("itertools.cycle", "itertools.islice") and values:
            return values[0][0]  # with the same elements
        if dotted in ("itertools.product", "itertools.zip_longest"):
            return Value(
                SEQUENCE, rest=Value(SEQUENCE, items=tuple(self.iterate(one, node) for one, _ in values))
            )
        if dotted in ("random.choice", "random.choices", "random.sample") and values:
            one = self.iterate(values[0][0], node)
            return one if dotted == "random.choice" else Value(SEQUENCE, rest=one)
        return ANYTHING if dotted.startswith(("os.", "itertools.", "json.")) else A_NUMBER

    def _torch(self, node: ast.Call, dotted: str, last: str, arguments: Arguments) -> Value | None:
        values, keywords = arguments
        if dotted == "torch.device":
            given = values[0][0] if values else keywords["type"][0] if "type" in keywords else ANYTHING
            return self.device(given, node)
        if dotted == torch_api.CURRENT_ACCELERATOR:  # the same wherever it is asked for; None without one
            return Value(DEVICE, Place(VAR, dotted), forms=forms.A_DEVICE)
        if dotted == "torch.Generator":
            told = keywords["device"][0] if "device" in keywords else values[0][0] if values else None
            place = self.target(told, node) or AT_DEFAULT
            return Value(UNKNOWN, place, role="generator", links=(self.link(MAKE, node, dotted),))
        if dotted == "torch.manual_seed":
            return Value(UNKNOWN, AT_DEFAULT, role="generator")
        row = self.models.rows.get(dotted)
        if row is not None and row.form == "context":
            return self.autocast(node, dotted, row, arguments)
        if row is not None and row.type is not None:
            self.wants_type(node, dotted, row, arguments)
        if dotted in torch_api.PARAMETERS or dotted in (
            "torch.autograd.Variable",
            "torch.autograd.variable.Variable",
        ):
            first = values[0][0] if values else keywords["data"][0] if "data" in keywords else ANYTHING
            made = (
                first
                if first.kind == TENSOR
                else Value(TENSOR, first.place if first.kind == BATCH else NOWHERE)
            )
            return made.but(role="parameter") if dotted in torch_api.PARAMETERS else made
        layer = self.models.layer(dotted)
        if layer == "unseen":
            return self.new_module(node, dotted, arguments)
        if layer in ("wrapper", "scatters") and (values or "module" in keywords):
            inner, wrapped = values[0] if values else keywords["module"]
            self.note(WRAPPED, node, inner, wrapped, name=last)
            if inner.kind == UNKNOWN and inner.role == "instance":  # whatever made it, it is a module
                inner = inner.but(kind=MODULE, role="", place=Place(IN, inner.ref))
                inner = inner.but(assumed=inner.assumed | {Assumption(USES, last)})
                self.analysis.made[inner.ref] = inner
            if layer != "scatters" and "device_ids" not in keywords:
                return inner
            alone = any(asks_how_many(one) for one, _ in self.state.path)  # one alone is not wrapped
            if inner.ref is not None and not alone:
                self._wrapped(inner, arguments, moves=layer == "scatters")
            return inner.but(role="scatters")
        if dotted.startswith("torch.utils.data."):
            self.draws_on_host(last, arguments)
            self.keeps_on_host(arguments)
        if dotted == "torch.utils.data.TensorDataset":
            tensors = Value(SEQUENCE, items=tuple(value for value, _ in values))
            return Value(SEQUENCE, rest=tensors, fields={"tensors": tensors})
        if dotted.startswith("torch.utils.data.") and last in _PARTS_OF_DATA and values:
            if (batches := self.data_on_device(*values[0])) is not None:
                items = Value(SEQUENCE, rest=batches)
                return items if last == "Subset" else Value(SEQUENCE, rest=items)
        if layer == "container":
            return self.module_container(node, dotted, arguments)
        if dotted.startswith("torch.nn.") and last[:1].isupper() and ".utils." not in dotted:
            weights = [keywords[name][0] for name in ("weight", "pos_weight") if name in keywords]
            weights += [value for value, _ in values[:1] if layer == "loss"]
            placed = [one for one in weights if one.kind == TENSOR and not self._may_be_number(one, last)]
            return self.new_module(
                node, dotted, arguments, role="weighted" if placed else layer or "", given=placed
            )
        if last in _COLLATES:
            return self.loader(node, arguments)
        if last == "AveragedModel" and values and dotted.startswith("torch.optim."):
            return self._average(node, arguments)
        if dotted.startswith("torch.optim.") and last[:1].isupper():
            return self.optimizer(node, last, arguments)
        if dotted in ("torch.set_default_device", "torch.set_default_tensor_type"):
            self.analysis.default_is_known = False
            self.analysis.type_is_known &= dotted == "torch.set_default_device"
            return ANYTHING
        if dotted == ACCELERATOR_THERE.removesuffix("()"):
            return Value(UNKNOWN, Place(AT, ACCELERATOR_ASKED))
        if dotted.startswith("torch.cuda."):
            row = self.models.function(dotted)
            return self.by_row(node, row, dotted, arguments) if row is not None else ANYTHING
        if last == "functional_call" and len(values) > 2:  # with weights that come from the module
            given, at = values[2]
            inputs = given.items if given.kind == SEQUENCE and given.items is not None else (given,)
            return self.call_value(node, values[0][0], ([(one, at) for one in inputs], {}))
        if dotted == "torch.utils.checkpoint.checkpoint" and values:
            return self.call_value(
                node, values[0][0], (values[1:], {k: v for k, v in keywords.items() if k != "use_reentrant"})
            )
        return None

    def _wrapped(self, inner: Value, arguments: Arguments, *, moves: bool) -> None:
        """A module is wrapped in what moves its inputs, and, if it `moves` that and has a single GPU, the module."""
        parts, (values, keywords) = self.analysis.parts, arguments
        (parts.scattering if inner.role == "part" else parts.wrapped).add(inner.ref)
        above = parts.unwrapped.get(inner.ref, set())
        parts.unwrapped[inner.ref] = {path for path in above if not path >= self.state.path}
        ids, _ = keywords.get("device_ids") or (values[1] if len(values) > 1 else (ANYTHING, None))
        alone = ids.kind == SEQUENCE and ids.items is not None and len(ids.items) == 1
        if moves and alone and self.where(inner).on_host:
            self.move_module(inner.ref, NOWHERE)

    def _may_be_number(self, weight: Value, loss: str) -> bool:
        """Is a weight without dimensions, as only that of a loss of two classes may be, and so meets any device?"""
        made = weight.links[0].name if weight.links else ""
        converted = made in ("torch.tensor", "torch.as_tensor") and loss.startswith("BCE")
        return weight.rank == 0 or (weight.rank is None and converted)

    def _average(self, node: ast.Call, arguments: Arguments) -> Value:
        """`AveragedModel(model, device)`: a copy of a model."""
        values, keywords = arguments
        made = self.copied(values[0][0], node)
        told = keywords["device"] if "device" in keywords else values[1] if len(values) > 1 else None
        if made.kind == MODULE and told is not None and (place := self.target(told[0], node)) is not None:
            self.move_module(made.ref, place)
        return made

    def partial(self, node: ast.Call, arguments: Arguments) -> Value:
        values, keywords = arguments
        if not values or values[0][0].kind not in (FUNCTION, CLASS, LIBRARY, MODULE):
            return ANYTHING
        held = Value(
            SEQUENCE,
            items=tuple(value for value, _ in values[1:]),
            fields={k: v for k, (v, _) in keywords.items()},
        )
        dotted = str(values[0][0].ref)
        row = self.models.rows.get(dotted) if values[0][0].kind == LIBRARY else None
        scopes = self.scopes() if row is not None and row.form == "context" else ()
        if row is not None and row.type is not None:
            self.wants_type(node, dotted, row, (values[1:], keywords))
        made = Partial(values[0][0], tuple(values[1:]), dict(keywords), node, scopes)
        return Value(FUNCTION, ref=made, rest=held)


def _has_sizes(given: Value) -> bool:
    """Is it the number of the elements of an array, or one for each of its dimensions?"""
    return given.kind == NUMBER or (given.kind == SEQUENCE and given.items != ())
