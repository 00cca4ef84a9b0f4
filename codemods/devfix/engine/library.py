"""Calls of torch and of other packages, by what their models say."""

from __future__ import annotations

import ast

from devfix.engine.evidence import is_autocast_name, is_count, is_loss_name, prepares_inputs, runs_module
from devfix.engine.frame import Arguments, Partial
from devfix.engine.modules import Modules
from devfix.engine.places import (
    AT,
    AT_DEFAULT,
    BY_LOADER,
    BY_OWNER,
    CPU,
    LITERAL,
    NOWHERE,
    VAR,
    Place,
)
from devfix.engine.requirements import Operand
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
    LOAD,
    LOADER,
    LOSS,
    MAKE,
    MODULE,
    OPTIMIZER,
    OWNER,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.flow import frameworks, torch_api

_PASS_THROUGH = frozenset({"tqdm", "trange", "track", "prange", "deepcopy", "copy"})
# Arguments of `from_pretrained` with which accelerate places the parts, and moves their inputs.
_PLACED_BY = frozenset({"device_map", "quantization_config", "load_in_8bit", "load_in_4bit"})
# Roles of unknown values that are tensors, if they have a place at all.
_LIKELY = frozenset({"given", "moved"})
_INPUTS = ("inputs", "args", "example_inputs")
_COLLATES = frozenset({"DataLoader", "StatefulDataLoader"})


class Library(Modules):
    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        """A call of what `dotted` names."""
        values, _keywords = arguments
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
            return Value(UNKNOWN, Place(VAR, ("owner", dotted)), role="moved")
        if dotted in frameworks.OWNING_LOADERS or last in frameworks.LOADER_MAKERS:
            return Value(LOADER, role="owned")
        if dotted in frameworks.OWNING_CALLS or self.models.layer(dotted) == "owner":
            return self.given_away(values[0][0] if values else ANYTHING)
        self._read_arguments(node, dotted, arguments)
        row = self.models.function(dotted)
        if row is not None:
            return self.by_row(node, row, dotted, arguments)
        converter = self.models.converters.get(dotted, "")
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
            if dotted.startswith(("random.", "math.", "time.", "os.", "json.", "logging.", "itertools.")):
                return self._plain_library(node, dotted, arguments)
            given = values[0][0] if values else ANYTHING
            shaped = dotted in self.models.shaped or (dotted in self.models.filled and given.kind == SEQUENCE)
            return Value(ARRAY, rank=1 if shaped else None, ref=dotted)
        if (last in _PASS_THROUGH or dotted.startswith("tqdm.")) and values:
            return values[0][0]
        if last in _COLLATES:  # of another package
            made = self.loader(node, arguments)
            return made.but(assumed=made.assumed | {Assumption(LIBRARY_CALL, last)})
        owner = frameworks.OWNERS.get(dotted)
        if owner is not None:
            self.escape(arguments)
            told = {owner.switch, "kwargs_handlers"} & _keywords.keys()  # of what it does not place, or wraps
            return Value(OWNER, ref=dotted, role="off" if told else "")
        if self.models.layer(dotted) == "wrapper" and values:
            return values[0][0]
        if self.models.layer(dotted) in ("module", "unseen"):
            made = self.new_module(node, dotted, arguments)
            placed = any(one.arg in _PLACED_BY for one in node.keywords)
            return self.given_away(made, BY_LOADER) if placed else made
        if self.models.layer(dotted) in ("items", "pairs"):
            parts = (*node.args, *node.keywords)
            placed = any("device" in self.file.source.code(one).lower() for one in parts)
            return Value(LOADER, AT_DEFAULT, role="owned" if placed else self.models.layer(dotted))
        if self.models.layer(dotted) == "several":
            return self._with_transforms(node, dotted, arguments)
        return self.unknown_call(node, dotted, arguments)

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
        self.call_value(node, values[0][0], (list(zip(items, at, strict=True)), {}))

    def _read_arguments(self, node: ast.Call, dotted: str, arguments: Arguments) -> None:
        """What a function reads as arrays."""
        readers = self.models.readers
        numbered: list[tuple[int | str, tuple[Value, ast.expr]]] = [
            *enumerate(arguments[0]),
            *arguments[1].items(),
        ]
        for at, (value, given) in numbered:
            if readers.argument(dotted, at, many=value.kind == SEQUENCE):
                self.read_as_array(node, value, given, dotted)

    def given_away(self, value: Value, by: Place = BY_OWNER) -> Value:
        """A module that a framework places from now on, with its inputs."""
        if value.ref is not None and (value.kind == MODULE or value.role == "instance"):
            self.move_module(value.ref, by)
        return value.but(place=by) if value.kind == MODULE else Value(UNKNOWN, by)

    def _plain_library(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        values = arguments[0]
        if dotted == "itertools.chain":
            return Value(SEQUENCE, rest=self.iterate(values[0][0], node)) if values else ANYTHING
        if dotted in ("random.choice", "random.choices", "random.sample") and values:
            one = self.iterate(values[0][0], node)
            return one if dotted == "random.choice" else Value(SEQUENCE, rest=one)
        return ANYTHING if dotted.startswith(("os.", "itertools.", "json.")) else A_NUMBER

    def _torch(self, node: ast.Call, dotted: str, last: str, arguments: Arguments) -> Value | None:
        values, keywords = arguments
        if dotted == "torch.device":
            given = values[0][0] if values else keywords["type"][0] if "type" in keywords else ANYTHING
            return self.device(given, node)
        if dotted == "torch.Generator":
            told = keywords["device"][0] if "device" in keywords else values[0][0] if values else None
            return Value(UNKNOWN, self.target(told, node) or AT_DEFAULT, role="generator")
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
        if layer == "wrapper":
            return values[0][0] if values else ANYTHING
        if layer == "scatters":
            return values[0][0].but(role="scatters") if values else ANYTHING
        if dotted == "torch.utils.data.TensorDataset":
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=tuple(value for value, _ in values)))
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

    # --- what no model describes ---------------------------------------------------------

    def unknown_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """A function out of sight: its result is not known, and modules that it gets may have been moved."""
        _values, keywords = arguments
        last = name.rpartition(".")[2]
        if "device_type" in keywords and is_autocast_name(last):
            self.given_type(*keywords["device_type"], last)
        tensors = "return_tensors" in keywords and keywords["return_tensors"][0].const == "pt"
        if (tensors or prepares_inputs(name)) and "device" not in keywords:
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
        if (
            any(one.kind == ARRAY for one, _ in arguments[0])
            and not told
            and not last.lstrip("_")[:1].isupper()
        ):
            # What is made of arrays is on the host; a tensor, if it is used as one.
            return Value(
                UNKNOWN,
                AT_DEFAULT,
                rank=1,
                links=(self.link(LOAD, node, last),),
                role="host",
                assumed=frozenset({Assumption(LIBRARY_CALL, last)}),
            )
        if is_loss_name(name) and len(arguments[0]) > 1:
            self._loss(node, name, arguments)
        every = (*arguments[0], *keywords.values())
        given = [one for one in every if one[0].kind == MODULE]
        if given and not any(one.kind == DEVICE for one, _ in every) and runs_module(last, is_method=False):
            self.run_on(node, given[0][0].doubted(Assumption(LIBRARY_CALL, last)), given[0][1], arguments)
        self.escape(arguments)
        if last in frameworks.PLACING_METHODS:
            return Value(UNKNOWN, BY_OWNER)
        if last.lstrip("_")[:1].isupper() or last in ("from_pretrained", "from_config"):
            return self.unknown_object(node, name, arguments)
        made = self.like_given(node, last, arguments)
        if made.role != "given" and ("device" in keywords or "map_location" in keywords):
            return self.unknown_object(node, name, arguments)
        return made

    def run_on(self, node: ast.Call, module: Value, at: ast.expr, arguments: Arguments) -> Value:
        """A module is run out of sight on what a call is given: on tensors that are not on the CPU on purpose."""
        given = (*arguments[0], *arguments[1].values())
        self.analysis.named.ran(self, node, (module, at), [one for one in given if one[1] is not at])
        operands = [one for value, where in given for one in self.tensors(value, where)]
        operands = [one for one in operands if one[0].kind != MODULE and self.where(one[0]).kind != CPU]
        operands = [one for one in operands if not is_count(one[1])]
        name = self.file.source.code(node.func if at is getattr(node.func, "value", None) else at)[:40]
        return self.together(node, [(module, at), *operands], name, strict=True)

    def _loss(self, node: ast.Call, name: str, arguments: Arguments) -> None:
        """A loss out of sight compares its first two arguments; the others may be lengths, which stay on the CPU."""
        assumed = frozenset({Assumption(LOSS, name)})
        given = [(self.as_tensor(value), at) for value, at in arguments[0][:2]]
        operands: list[Operand] = [(value.but(assumed=value.assumed | assumed), at) for value, at in given]
        if all(value.kind in (TENSOR, BATCH) for value, _ in operands):
            self.together(node, operands, name)

    def like_given(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        """What a function out of sight makes of tensors that are together: if it is a tensor, it is with them."""
        given = [
            one
            for value, at in (*arguments[0], *arguments[1].values())
            for one, _ in ([(value, at)] if value.role in _LIKELY else self.tensors(value, at))
            if one.kind != MODULE
        ]
        places = list(dict.fromkeys(self.where(one) for one in given)) or self._inputs(arguments)
        together = len(places) == 1 or not any(one.on_host or one.kind == LITERAL for one in places)
        # Of several that callers choose, all are where the first is.
        place = next((one for one in places if one.on_device), NOWHERE) if together else NOWHERE
        if not place.on_device or place.kind == LITERAL:
            return self.analysis.named.derived(self, self.unknown(node), given)
        path = self.file.source.code(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else name
        assumed = frozenset({Assumption(LIBRARY_CALL, f"{path}()")}).union(*[one.assumed for one in given])
        if not given:
            assumed |= {Assumption(USES, f"{path}()")}
        return Value(UNKNOWN, place, role="given", assumed=assumed)

    def _inputs(self, arguments: Arguments) -> list[Place]:
        """In `forward`, where its own inputs are among the arguments, if they are tensors."""
        if not self.is_forward() or self.me is None:
            return []
        home = self.where(self.me)
        unknown = [value for value, _ in (*arguments[0], *arguments[1].values()) if value.kind == UNKNOWN]
        return [home] if any(not value.role and value.place == home for value in unknown) else []

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
        """Whoever is handed a module that was not moved yet may move it; whoever is told a device makes data there."""
        values, keywords = arguments
        if "device" in keywords and self.analysis.entered:
            place = self.target(*keywords["device"])
            if place is not None:
                self.in_autocast(ANYTHING, place, moved=True)
        for value, at in (*values, *keywords.values()):
            for one, _ in self.tensors(value, at):
                if one.kind == MODULE and one.ref is not None and self.where(one).on_host:
                    self.state.set_place(one.ref, NOWHERE)
            if value.role == "instance" and value.ref is not None:
                self.state.set_place(value.ref, NOWHERE)

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
