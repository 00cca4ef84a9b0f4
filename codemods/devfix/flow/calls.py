"""What a call does to devices: moves, factories, modules that are run, functions of the file."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.flow import frameworks, torch_api
from devfix.flow.evidence import looks_like_device, looks_like_layer, looks_like_loss, looks_like_pipeline, looks_like_processor, makes_token_ids
from devfix.flow.events import Event, Meeting, Named, Scope, What
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    OWNED,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    State,
    Value,
    Where,
    fresh_identity,
)
from devfix.source import Source

if TYPE_CHECKING:
    from devfix.flow.program import Program

MOVES = frozenset({"to", "cuda", "cpu", "xpu", "npu", "hpu", "ipu"})
# Calls that look at a module without running it.
_READERS = frozenset(
    "print len isinstance id type sum list tuple str repr getattr hasattr setattr delattr iter next vars dir "
    "enumerate zip sorted map filter callable summary count_parameters info debug warning append".split()
)
_READING_METHODS = (torch_api.MODULE_ONLY | torch_api.STATEFUL) - {"forward", "apply"} | frozenset(
    "requires_grad_ half float double bfloat16 type named_parameters add_module gradient_checkpointing_enable "
    "share_memory extra_repr set_extra_state get_input_embeddings keys values items append insert extend "
    "register_full_backward_hook gradient_checkpointing_disable get_parameter_dtype enable_input_require_grads "
    "print_trainable_parameters".split()
)
_ATTACHING_METHODS = {"add_module": 1, "register_module": 1, "register_parameter": 1, "append": 0, "insert": 1,
                      "extend": 0, "update": 0, "__setattr__": 1}  # fmt: skip
_NO_MODEL = ("Tokenizer", "Processor", "Config", "Extractor", "Scheduler", "Dataset", "Feature", "Cache")
# Functions out of sight that run a model on what else they are given.
_RUNNERS = frozenset({"generate", "generate_text_simple", "predict", "infer", "inference", "sample", "translate"})
# Tensor methods that copy from any device, or only ask for a shape.
_FOREIGN_ARGUMENTS = frozenset({"copy_", "set_", "expand_as", "view_as", "reshape_as", "resize_as_", "share_memory_",
                                "split", "append", "extend", "update", "setdefault"})  # fmt: skip
_PICTURES = frozenset({"an image", "loaded audio"})
_WEIGHTED = {"weight", "pos_weight"}
_ITERATION = frozenset({"enumerate", "zip", "iter", "next", "reversed", "list", "tuple", "sorted", "islice", "cycle"})
_PROGRESS = frozenset({"tqdm", "trange", "track", "progress_bar", "tqdm_notebook", "log_every", "prange"})


def path_of(node: ast.AST) -> str:
    """`model`, `self.model.head`, `batch["x"]`, `layers[0]`; empty for anything else."""
    if node.__class__ is ast.Name:
        return node.id  # type: ignore[attr-defined, no-any-return]
    tail: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            tail.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            index = node.slice
            if not isinstance(index, ast.Constant) or not isinstance(index.value, (str, int)):
                return ""
            tail.append(f"[{index.value!r}]")
            node = node.value
        elif isinstance(node, ast.Name):
            tail.append(node.id)
            return "".join(reversed(tail))
        else:
            return ""


class Calls:
    """The part of the interpreter that knows calls; see `interpret.Interpreter`."""

    program: Program
    source: Source
    scope: Scope
    state: State
    statement: ast.stmt
    values: dict[ast.expr, Value]

    def ev(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def element(self, value: Value) -> Value:
        raise NotImplementedError

    # --- events --------------------------------------------------------------------------

    def emit(self, what: What, node: ast.expr, value: Value, path: str = "", **more: object) -> Event:
        event = Event(what, node, self.statement, self.scope, value, path, **more)  # type: ignore[arg-type]
        event.order = len(self.scope.events)
        self.scope.events.append(event)
        return event

    def devices(self) -> tuple[Named, ...]:
        """The device expressions that may be written here."""
        return tuple(
            Named(path, value)
            for path, value in self.state.names.items()
            if value.kind is Kind.DEVICE or value.kind is Kind.OWNER
        )

    # --- devices -------------------------------------------------------------------------

    def as_device(self, value: Value) -> Value | None:
        """A value read as a device: strings that name one included; None if it is none."""
        if value.kind is Kind.DEVICE:
            return value
        if value.kind is Kind.STRING and value.text:
            literal = torch_api.device_literal(value.text)
            if literal:
                where = Where.CPU if literal == "cpu" else Where.ACCELERATOR
                place = Place(where, f'"{value.text}"', 0, value.node)
                return Value(Kind.DEVICE, place, node=value.node, form="string", text=value.text)
        return None

    def device_of(self, node: ast.expr, base: Value) -> Value:
        """`x.device`: a torch.device, wherever x is."""
        place = self.state.place(base)
        text = self.source.code(node)
        if place.on_device:
            found = replace(place, text=text)
        else:
            where = place.where if place.where is Where.CPU else Where.OF
            found = Place(where, text, base.identity or id(base), node)
        form = "object" if base.sure or base.kind is Kind.TENSOR else ""
        return Value(Kind.DEVICE, found, node=node, form=form)

    def device_argument(self, call: ast.Call) -> Place | None:
        """Where a constructor is told to put what it makes: `device=` or an argument that is a device."""
        for keyword in call.keywords:
            if keyword.arg in ("device", "device_id", "rank", "map_location"):
                value = self.values.get(keyword.value) or self.ev(keyword.value)
                device = self.as_device(value)
                if device is not None:
                    return self._target(device, keyword.value, call)
                if isinstance(keyword.value, ast.Constant) and keyword.value.value is None:
                    return None
                return UNPLACED
            if keyword.arg in frameworks.OWNING_ARGUMENTS:
                return OWNED
        for argument in call.args:
            known = self.values.get(argument)
            if known is not None and known.kind is Kind.DEVICE:
                return self._target(known, argument, call)
        return None

    def _target(self, device: Value, node: ast.expr, call: ast.Call) -> Place:
        """The place that a move to `device`, written as `node`, ends in."""
        place = device.place
        if place.where is Where.UNKNOWN:
            return Place(Where.SYMBOL, self.source.code(node), 0, call)
        if place.where is Where.OF:
            return replace(place, text=self.source.code(node), node=call)
        return Place(place.where, self.source.code(node), place.key, call)

    # --- calls ---------------------------------------------------------------------------

    def callee_name(self, func: ast.expr) -> str:
        """Qualified name of what is called, where imports tell; else the name as written."""
        path = path_of(func)
        root = path.partition(".")[0].partition("[")[0]
        if root and root in self.source.imports and root not in self.state.names:
            return self.source.qualified(func) or path
        return path

    def call(self, node: ast.Call) -> Value:
        func = node.func
        name = self.callee_name(func) if isinstance(func, (ast.Name, ast.Attribute)) else ""
        imported = bool(name) and name.partition(".")[0] != "" and self._imported(func)
        if isinstance(func, ast.Attribute) and not imported:
            return self._method(node, func, self.ev(func.value))
        arguments = self._arguments(node)
        if looks_like_processor(name) and not imported and name not in self.state.names:
            return self._tokenize(node, UNKNOWN)
        if name and (imported or isinstance(func, ast.Name)):
            known = self.state.names.get(func.id) if isinstance(func, ast.Name) else None
            if known is not None:
                return self._call_value(node, known, arguments, name)
            return self._call_named(node, name, arguments)
        return self._call_value(node, self.ev(func), arguments, "")

    def _imported(self, func: ast.expr) -> bool:
        node = func
        while isinstance(node, ast.Attribute):
            node = node.value
        return (
            isinstance(node, ast.Name) and node.id in self.source.imports and node.id not in self.state.names
        )

    def _arguments(self, node: ast.Call) -> list[tuple[ast.expr, Value, str]]:
        found = [(argument, self.ev(argument), "") for argument in node.args]
        found += [(k.value, self.ev(k.value), k.arg or "**") for k in node.keywords]
        return found

    def _call_value(
        self, node: ast.Call, callee: Value, arguments: list[tuple[ast.expr, Value, str]], name: str
    ) -> Value:
        """Call something that is known: a module, a function or class of the file, a tokenizer."""
        kind = callee.kind
        if kind in (Kind.ANY, Kind.UNKNOWN) and looks_like_loss(name or path_of(node.func)):
            return self.combine(node, arguments, name or "the loss")
        if kind is Kind.MODULE or kind is Kind.PART or kind is Kind.ANY:
            return self.run_module(node, callee, arguments, path_of(node.func) or self.source.code(node.func))
        if kind is Kind.FUNCTION:
            return self._call_function(node, callee, arguments)
        if kind is Kind.CLASS:
            return self._construct(node, callee, arguments)
        if kind is Kind.TOKENIZER:
            return self._tokenize(node, callee)
        return self._call_unknown(node, arguments, name)

    def _call_named(self, node: ast.Call, name: str, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        """Call something imported or built in, by its qualified name."""
        last = name.rpartition(".")[2]
        if name.startswith("torch.") or name.startswith("torchvision.") or name.startswith("torchaudio."):
            found = self._call_torch(node, name, last, arguments)
            if found is not None:
                return found
        if name in torch_api.AUTOCAST or "autocast" in last.lower():
            self.emit(What.AUTOCAST, node, UNKNOWN, name, devices=self.devices(), detail=name)
            return UNKNOWN
        if last in _ITERATION or last in _PROGRESS or name.startswith(("tqdm.", "rich.progress.")):
            return self._iterate(last, arguments)
        if name in torch_api.WRAPS or last in torch_api.WRAP_NAMES:
            return self._wrap(node, name, arguments)
        if name in torch_api.ARRAY_CALLS or name.startswith(torch_api.ARRAY_ROOTS):
            for argument, value, _ in arguments:
                if value.kind in CARRIERS and name.startswith("numpy."):
                    self.emit(What.MEET, argument, value, path_of(argument), place=value.place, detail="numpy")
            array = Value(Kind.ARRAY, node=node, source=torch_api.ARRAY_CALLS.get(name, "a numpy array"))
            if name in ("librosa.load", "soundfile.read"):
                return Value(Kind.ARRAY, node=node, items=(array, NUMBER))
            return array
        if name in torch_api.LOADERS:
            return self._loader(node)
        if name in frameworks.OWNERS:
            return Value(Kind.OWNER, node=node, name=name)
        if last in ("from_pretrained", "from_config"):
            return self._pretrained(node, name.rpartition(".")[0], arguments)
        if last == "setattr" and len(arguments) == 3:
            self.attach(node, arguments[0][1], arguments[2][1], arguments[2][0], "setattr")
            return UNKNOWN
        if last == "getattr" and arguments and arguments[0][1].kind in (Kind.MODULE, Kind.PART):
            base = arguments[0][1]
            return Value(Kind.PART, base.place, base.identity, node, sure=base.sure)
        if last in ("super", "len", "int", "float", "bool", "range", "isinstance", "print", "max", "min"):
            return UNKNOWN
        if last == "str" and arguments and arguments[0][1].kind is Kind.DEVICE:
            device = arguments[0][1]
            return replace(device, form="string", node=node)
        return self._call_unknown(node, arguments, name)

    def _loader(self, node: ast.Call) -> Value:
        owned = any(k.arg == "collate_fn" for k in node.keywords)
        return Value(Kind.LOADER, Place(Where.DEFAULT, node=node), node=node, source="a DataLoader",
                     name="collate" if owned else "")  # fmt: skip

    def _call_torch(
        self, node: ast.Call, name: str, last: str, arguments: list[tuple[ast.expr, Value, str]]
    ) -> Value | None:
        """Calls into torch itself; None where something more general applies."""
        default = self.program.default_place
        if name in torch_api.FACTORIES:
            place = self._device_keyword(node, arguments)
            if place is None and name in torch_api.KEEP_DATA and arguments:
                data = arguments[0][1]
                if data.kind in CARRIERS:
                    return replace(data, node=node)
            scalar = name in ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor") and _is_scalar(node)
            source = "a scalar tensor" if scalar else f"`{last}`"
            if name in ("torch.tensor", "torch.as_tensor") and arguments and not scalar:
                source = arguments[0][1].source or source
            return Value(Kind.TENSOR, place or default(node), node=node, name=name, source=source,
                         form="scalar" if scalar else "")  # fmt: skip
        if name in torch_api.LEGACY:
            return Value(Kind.TENSOR, default(node), node=node, name=name, source=f"`{last}`")
        if name in torch_api.LEGACY_CUDA:
            return Value(Kind.TENSOR, Place(Where.ACCELERATOR, '"cuda"', 0, node), node=node, name=name)
        if name in torch_api.FROM_HOST:
            made = Value(Kind.TENSOR, default(node), node=node, name=name, source=torch_api.FROM_HOST[name])
            if name == "torchaudio.load":
                return Value(Kind.BATCH, made.place, node=node, items=(made, NUMBER), source=made.source)
            return made
        if name == "torch.device":
            return self._device_object(node, arguments)
        if name in torch_api.PARAMETERS:
            return self._parameter(node, arguments)
        if name in torch_api.WRAPS or name in torch_api.AUTOCAST or name in torch_api.LOADERS:
            return None
        if name.startswith("torch.nn.") and last[:1].isupper() and ".utils." not in name:
            return self._layer(node, name, arguments)
        if name.startswith("torch.optim."):
            for argument, value, _ in arguments:
                if value.kind in (Kind.MODULE, Kind.PART):
                    self.emit(What.READ, argument, value, path_of(argument), detail="optimizer")
            return Value(Kind.OPTIMIZER, node=node, name=name)
        if name.startswith(("torchvision.models.", "torch.hub.load")) and last not in ("list_models",):
            return Value(Kind.MODULE, default(node), fresh_identity(), node, name)
        if name.startswith("torchvision.transforms.") and last[:1].isupper():
            return Value(Kind.FUNCTION, node=None, name="transform")
        if name in torch_api.NOT_TENSOR_CALLS or name.startswith(("torch.cuda.", "torch.backends.", "torch.utils.")):
            return UNKNOWN
        if name.startswith("torch.distributed."):
            return UNKNOWN
        if last.endswith("_like") and arguments:
            place = self._device_keyword(node, arguments)
            return replace(arguments[0][1], node=node) if place is None else Value(Kind.TENSOR, place, node=node)
        if name.count(".") == 1 or name.startswith(("torch.nn.functional.", "torch.linalg.", "torch.fft.",
                                                    "torch.special.")):  # fmt: skip
            return self.combine(node, arguments, last)
        return None

    def _device_object(self, node: ast.Call, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        if arguments:
            device = self.as_device(arguments[0][1])
            if device is not None:
                place = replace(device.place, text=self.source.code(node), node=node)
                return Value(Kind.DEVICE, place, node=node, form="object", text=device.text)
        place = Place(Where.SYMBOL, self.source.code(node), fresh_identity(), node)
        return Value(Kind.DEVICE, place, node=node, form="object")

    def _device_keyword(self, node: ast.Call, arguments: list[tuple[ast.expr, Value, str]]) -> Place | None:
        for argument, value, keyword in arguments:
            if keyword == "device":
                if isinstance(argument, ast.Constant) and argument.value is None:
                    return None
                device = self.as_device(value)
                return UNPLACED if device is None else self._target(device, argument, node)
            if keyword == "**":
                return UNPLACED
        return None

    def _parameter(self, node: ast.Call, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        place = arguments[0][1].place if arguments and arguments[0][1].kind is Kind.TENSOR else UNPLACED
        return Value(Kind.TENSOR, place, node=node, name="torch.nn.Parameter", source="an nn.Parameter")

    def _layer(self, node: ast.Call, name: str, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        place = self._device_keyword(node, arguments)
        bare = name in torch_api.BARE_MODULES or (
            name in torch_api.WEIGHTED_LOSSES
            and not (_WEIGHTED & {keyword for _, _, keyword in arguments})
            and not node.args
        )
        items: tuple[Value, ...] | None = None
        if name in torch_api.CONTAINERS:
            children = [value for _, value, _ in arguments]
            if len(children) == 1 and children[0].items is not None:
                children = list(children[0].items)
            if len(children) == 1 and children[0].element is not None:
                children = [children[0].element]
            children = [child for child in children if child.kind in (Kind.MODULE, Kind.PART, Kind.TENSOR)]
            bare = all(child.bare for child in children) if children else not arguments
            places = [self.state.place(child) for child in children if not child.bare]
            if places and place is None:
                place = places[0] if all(p.same(places[0]) for p in places) else UNPLACED
            elif arguments and not children:
                place = UNPLACED
            items = tuple(children) or None
        return Value(Kind.MODULE, place or self.program.default_place(node), fresh_identity(), node, name,
                     bare=bare, items=None if items is None else ())  # fmt: skip

    def _wrap(self, node: ast.Call, name: str, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        if not arguments:
            return UNKNOWN
        argument, value, _ = arguments[0]
        if value.kind not in (Kind.MODULE, Kind.PART):
            return UNKNOWN
        self.emit(What.WRAP, node, value, path_of(argument), detail=name)
        last = name.rpartition(".")[2]
        place = self.state.place(value)
        if "arallel" in last or last in torch_api.WRAP_NAMES:
            return Value(Kind.MODULE, place, fresh_identity(), node, name, form="parallel", sure=value.sure)
        return replace(value, place=place, identity=value.identity)

    def _iterate(self, last: str, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        if not arguments:
            return UNKNOWN
        first = arguments[0][1]
        if last == "enumerate":
            element = self.element(first)
            return Value(Kind.ARRAY, items=None, element=Value(Kind.ARRAY, items=(NUMBER, element)))
        if last == "zip":
            parts = tuple(self.element(value) for _, value, keyword in arguments if not keyword)
            return Value(Kind.ARRAY, element=Value(Kind.ARRAY, items=parts))
        if last == "next":
            return self.element(first)
        return first

    def _tokenize(self, node: ast.Call, tokenizer: Value) -> Value:
        for keyword in node.keywords:
            if keyword.arg == "return_tensors" and isinstance(keyword.value, ast.Constant):
                if keyword.value.value == "pt":
                    return Value(Kind.BATCH, self.program.default_place(node), node=node, name="BatchEncoding",
                                 source="tokenizer output")  # fmt: skip
        return Value(Kind.ARRAY, node=node, source="token ids")

    def _call_unknown(self, node: ast.Call, arguments: list[tuple[ast.expr, Value, str]], name: str) -> Value:
        """Something out of sight: modules handed to it may be run."""
        last = name.rpartition(".")[2]
        for argument, value, _ in arguments:
            if last not in _READERS and (value.kind in (Kind.MODULE, Kind.PART) or _may_be_module(value)):
                self.emit(What.USE, argument, value, path_of(argument), detail=f"passed to `{last or 'a call'}`")
        if looks_like_loss(last) and any(value.kind in CARRIERS for _, value, _ in arguments):
            return self.combine(node, arguments, last)
        if last == "Variable" and arguments:
            return arguments[0][1]
        if makes_token_ids(last):
            return Value(Kind.TENSOR, self.program.default_place(node), node=node, source=f"`{last}`", sure=False)
        if last in _RUNNERS:
            self._passed_together(node, arguments, last)
        array = next((v for _, v, _ in arguments if v.kind is Kind.ARRAY and v.source in _PICTURES), None)
        if array is not None:
            return replace(array, node=node)
        if last in ("deepcopy", "copy") and arguments:
            copied = arguments[0][1]
            if copied.kind is Kind.MODULE:
                return replace(copied, place=self.state.place(copied), identity=fresh_identity())
            return copied
        return UNKNOWN

    def _passed_together(self, node: ast.Call, arguments: list[tuple[ast.expr, Value, str]], name: str) -> None:
        """`generate(model, ids)`: a function out of sight that runs the model on its other arguments."""
        for argument, value, _ in arguments:
            if value.kind is Kind.MODULE:
                place = self.state.place(value)
                strays = tuple(
                    Meeting(a, v, v.place, k) for a, v, k in arguments if v.kind in CARRIERS and self._stray(place, v)
                )
                if strays:
                    self.emit(What.MEET, node, value, path_of(argument), place=place, strays=strays,
                              devices=self.devices(), detail=f"passed to {name}")  # fmt: skip
                return

    # --- methods -------------------------------------------------------------------------

    def _method(self, node: ast.Call, func: ast.Attribute, base: Value) -> Value:
        method, kind = func.attr, base.kind
        if method in MOVES and (kind is not Kind.OWNER):
            moved = self._move(node, func, base)
            if moved is not None:
                return moved
        arguments = self._arguments(node)
        known = self.state.names.get(path_of(func))
        if known is not None and known.kind in (Kind.MODULE, Kind.FUNCTION, Kind.CLASS, Kind.TOKENIZER):
            return self._call_value(node, known, arguments, method)
        if kind in (Kind.PART, Kind.MODULE, Kind.INSTANCE) and looks_like_processor(path_of(func)):
            return Value(Kind.BATCH, self.program.default_place(node), node=node, sure=False,
                         source=f"the output of `{path_of(func)}`")  # fmt: skip
        if kind is Kind.TENSOR or kind is Kind.BATCH:
            return self._tensor_method(node, method, base, arguments)
        if kind is Kind.MODULE or kind is Kind.PART:
            return self._module_method(node, func, base, arguments)
        if kind is Kind.OWNER:
            return self._owner_method(method, base, arguments)
        if kind is Kind.CLASS and method.startswith("from_"):
            return self._construct(node, base, arguments)
        if kind is Kind.INSTANCE:
            function = self.program.method(base, method)
            if function is not None:
                return self._call_function(node, function, arguments, base)
        if kind is Kind.TOKENIZER:
            return self._tokenize(node, base)
        if kind is Kind.ANY and method in torch_api.TENSOR_ONLY:
            return replace(base, identity=0)
        if kind is Kind.DEVICE or kind is Kind.STRING:
            # `.split(":")[0]`, `.replace(":0", "")`: strings made of a device
            return Value(Kind.STRING, node=node, name="device.text") if kind is Kind.DEVICE else UNKNOWN
        if method == "from_pretrained":
            return self._pretrained(node, path_of(func.value), arguments)
        if "autocast" in method.lower():
            self.emit(What.AUTOCAST, node, UNKNOWN, path_of(func), devices=self.devices(), detail=method)
            return UNKNOWN
        if kind is Kind.ARRAY:
            if method in ("items", "values", "keys"):
                return UNKNOWN
            if method in ("unsqueeze", "permute", "contiguous", "float", "half", "unsqueeze_") and base.source:
                # Only a tensor has these: the image went through a transform.
                return Value(Kind.TENSOR, self.program.default_place(node), node=node, source=base.source,
                             sure=False)  # fmt: skip
            return base if method not in ("pop", "index", "count") else UNKNOWN
        if kind is Kind.LOADER:
            return base
        if method in _PROGRESS and arguments:
            return arguments[0][1]
        if _may_be_module(base):
            self.emit(What.USE, node, base, path_of(func.value), detail=method)
        return self._call_unknown(node, arguments, method)

    def _pretrained(
        self, node: ast.Call, owner: str, arguments: list[tuple[ast.expr, Value, str]]
    ) -> Value:
        name = owner.rpartition(".")[2]
        if "Tokenizer" in name or "Processor" in name or "Extractor" in name:
            return Value(Kind.TOKENIZER, node=node, name=name)
        if any(word in name for word in _NO_MODEL) or looks_like_pipeline(name) or not name[:1].isupper():
            return UNKNOWN
        place = self.device_argument(node)
        if place is None and any(v.kind is not Kind.STRING and v.kind is not Kind.UNKNOWN for _, v, _ in arguments):
            place = UNPLACED  # made around another model, or told where by a way of its own
        return Value(Kind.MODULE, place or self.program.default_place(node), fresh_identity(), node, name)

    def _move(self, node: ast.Call, func: ast.Attribute, base: Value) -> Value | None:
        """`x.to(device)`, `x.cuda()`, `x.cpu()`; None where `.to` changes no device."""
        arguments = self._arguments(node)
        method = func.attr
        if method == "to":
            place: Place | None = None
            candidates = [(a, v) for a, v, k in arguments if k in ("", "device")][:1]
            candidates += [(a, v) for a, v, k in arguments if k == "device"]
            if any(k == "**" for _, _, k in arguments) or any(isinstance(a, ast.Starred) for a in node.args):
                place = UNPLACED
            for argument, value in candidates:
                device = self.as_device(value)
                path = path_of(argument)
                if device is not None:
                    place = self._target(device, argument, node)
                elif value.kind in CARRIERS:
                    place = replace(value.place, node=node)
                elif looks_like_device(path) or path.endswith("rank") or _is_index(argument):
                    place = Place(Where.SYMBOL, self.source.code(argument), 0, node)
                elif self._is_dtype(argument):
                    continue
                else:
                    place = UNPLACED
            if place is None:  # only a dtype or memory format
                return base if base.kind is not Kind.UNKNOWN else None
        elif method == "cpu":
            place = Place(Where.CPU, '"cpu"', 0, node)
        else:
            index = node.args[0] if node.args else None
            text = f'"{method}"' if index is None else self.source.code(index)
            place = Place(Where.ACCELERATOR, text, 0, node)
            if index is not None and self.values.get(index, UNKNOWN).kind is Kind.DEVICE:
                place = Place(Where.SYMBOL, text, self.values[index].place.key, node)
        return self._moved(node, func, base, place)

    def _moved(self, node: ast.Call, func: ast.Attribute, base: Value, place: Place) -> Value:
        path = path_of(func.value)
        dropped = isinstance(self.statement, ast.Expr) and self.statement.value is node
        if base.kind in (Kind.UNKNOWN, Kind.ANY):
            evidence = self.program.evidence
            if looks_like_pipeline(path):
                return base
            if base.kind is Kind.UNKNOWN and dropped and path and not evidence.used_as_tensor(path):
                # A statement that drops the result only makes sense for a module.
                base = Value(Kind.MODULE, UNPLACED, fresh_identity(), func.value, sure=evidence.used_as_module(path))
                self.state.bind(path, base)
            elif base.kind is Kind.ANY and base.parameter >= 0 and (dropped or evidence.used_as_module(path)):
                base = replace(base, kind=Kind.MODULE, sure=False)
                self.state.bind(path, base)
            else:
                return Value(Kind.ANY, place, 0, node, sure=False)
        if base.kind is Kind.MODULE:
            before = self.state.place(base)
            if before.where is not Where.OWNED:
                self.state.places[base.identity] = place
            self.emit(What.MOVE, node, base, path, place=place, detail="module")
            return base
        if base.kind is Kind.PART:
            self.emit(What.READ, node, base, path, place=place, detail="part moved")
            return replace(base, place=place)
        if base.kind in CARRIERS:
            if base.place.where is Where.OWNED:
                return base
            self.emit(What.MOVE, node, base, path, place=place, detail="dropped" if dropped else "tensor")
            return replace(base.at(place), node=base.node)
        return Value(Kind.ANY, place, 0, node, sure=False)

    def _is_dtype(self, node: ast.expr) -> bool:
        path = path_of(node)
        last = path.rpartition(".")[2]
        return "dtype" in last or (path.startswith("torch.") and last not in ("device",)) or "format" in last

    def _tensor_method(
        self, node: ast.Call, method: str, base: Value, arguments: list[tuple[ast.expr, Value, str]]
    ) -> Value:
        if method in torch_api.TO_HOST:
            if method == "numpy":
                return Value(Kind.ARRAY, node=node, source="a numpy array")
            return NUMBER
        if base.kind is Kind.BATCH and method in ("items", "values", "keys", "pop", "get"):
            element = self.element(base)
            if method == "items":
                return Value(Kind.ARRAY, element=Value(Kind.ARRAY, items=(UNKNOWN, element)))
            if method == "values":
                return Value(Kind.ARRAY, element=element)
            return element if method in ("pop", "get") else UNKNOWN
        if method in torch_api.NOT_TENSOR:
            return NUMBER
        if method.startswith("new_"):
            place = self._device_keyword(node, arguments)
            return Value(Kind.TENSOR, place or base.place, node=node, sure=base.sure)
        if method == "type_as" and arguments:
            return replace(base, place=arguments[0][1].place, node=node)
        if any(value.kind in CARRIERS for _, value, _ in arguments):
            if method in _FOREIGN_ARGUMENTS:
                return base
            owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            return self.combine(node, [(owner, base, ""), *arguments], method)
        if base.kind is Kind.BATCH:
            return base
        return Value(Kind.TENSOR, base.place, node=base.node, name=base.name, source=base.source,
                     sure=base.sure or method in torch_api.TENSOR_ONLY, form=base.form)  # fmt: skip

    def _module_method(
        self, node: ast.Call, func: ast.Attribute, base: Value, arguments: list[tuple[ast.expr, Value, str]]
    ) -> Value:
        method = func.attr
        index = _ATTACHING_METHODS.get(method)
        if index is not None and len(arguments) > index:
            self.attach(node, base, arguments[index][1], arguments[index][0], method)
            return base
        if method == "load_state_dict":
            self.emit(What.RESTORE, node, base, path_of(func.value))
            return UNKNOWN
        if method == "register_buffer":
            self.emit(What.READ, node, base, path_of(func.value), detail=method)
            return UNKNOWN
        if method in ("parameters", "buffers"):
            parameter = Value(Kind.TENSOR, self.state.place(base), node=node)
            return Value(Kind.ARRAY, node=node, element=parameter)
        if method in ("named_parameters", "named_buffers"):
            parameter = Value(Kind.TENSOR, self.state.place(base), node=node)
            return Value(Kind.ARRAY, node=node, element=Value(Kind.ARRAY, items=(UNKNOWN, parameter)))
        if method in ("children", "modules", "values"):
            return Value(Kind.ARRAY, node=node, element=self.element(base))
        if method in ("named_children", "named_modules", "items"):
            return Value(Kind.ARRAY, node=node, element=Value(Kind.ARRAY, items=(UNKNOWN, self.element(base))))
        if method in _READING_METHODS:
            self.emit(What.READ, node, base, path_of(func.value), detail=method)
            return base if method not in ("state_dict", "keys", "register_forward_hook") else UNKNOWN
        fresh = [(a, v) for a, v, _ in arguments if v.kind is Kind.MODULE and v.node is not None]
        fresh += [(a, layer) for a, v, _ in arguments if (layer := self._layer_of(a, v)) is not None]
        if fresh and (base.kind is Kind.PART or method.startswith(("set_", "add_", "attach", "register"))):
            self.attach(node, base, fresh[0][1], fresh[0][0], method)
            return UNKNOWN
        own = self.program.method_of_self(self.scope, base, method)
        if own is not None:
            return self._call_function(node, own, arguments, base)
        return self.run_module(node, base, arguments, self.source.code(func), method)

    def _owner_method(self, method: str, base: Value, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        if method in frameworks.OWNERS.get(base.name, ()):
            for argument, value, _ in arguments:
                if value.kind in (Kind.MODULE, Kind.PART):
                    self.emit(What.READ, argument, value, path_of(argument), detail="owned")
            owned = tuple(
                replace(value, place=OWNED, identity=fresh_identity()) if value.kind is not Kind.UNKNOWN else UNKNOWN
                for _, value, _ in arguments
            )
            return owned[0] if len(owned) == 1 else Value(Kind.ARRAY, items=owned)
        return UNKNOWN

    # --- modules -------------------------------------------------------------------------

    def run_module(
        self,
        node: ast.Call,
        callee: Value,
        arguments: list[tuple[ast.expr, Value, str]],
        path: str,
        method: str = "",
    ) -> Value:
        """A module is called, or one of its methods: its inputs must be where it is."""
        place = self.state.place(callee)
        if callee.kind is not Kind.ANY or callee.parameter >= 0:
            self.emit(What.USE, node, callee, path, place=place, detail=method or "called")
        if callee.bare and not method:
            return self.combine(node, arguments, path)
        if place.where is Where.OWNED:
            return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)
        if callee.form == "parallel":  # scatters its inputs by itself
            place = replace(place, where=Where.UNKNOWN) if not place.on_device else place
            return Value(Kind.TENSOR, place, node=node, source=f"the output of `{path}`", sure=False)
        carriers = [(a, v, k) for a, v, k in arguments if v.kind in CARRIERS or v.kind is Kind.ANY]
        unknown = place.where in (Where.UNKNOWN, Where.OF)
        # With a module at an unknown place, and parameters as inputs, callers decide.
        strays = tuple(
            Meeting(a, v, v.place, k)
            for a, v, k in carriers
            if self._stray(place, v) or unknown and v.place.where in (Where.OF, Where.DEFAULT)
        )
        if strays:
            self.emit(What.MEET, node, callee, path, place=place, strays=strays, devices=self.devices(),
                      detail=method or "module")  # fmt: skip
        if place.on_device:
            return Value(Kind.TENSOR, place, node=node, source=f"the output of `{path}`", sure=False)
        known = [v.place for _, v, _ in carriers]
        for result in known:
            if result.on_device:
                return Value(Kind.TENSOR, result, node=node, source=f"the output of `{path}`", sure=False)
        if known and (place.where is Where.DEFAULT or known[0].where is Where.OF):
            return Value(Kind.TENSOR, known[0], node=node, sure=False)
        return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)

    def _stray(self, place: Place, value: Value) -> bool:
        return place.on_device and value.place.where is Where.DEFAULT

    def combine(self, node: ast.expr, arguments: list[tuple[ast.expr, Value, str]], name: str) -> Value:
        """An operation over tensors: they must be in one place, and so is the result."""
        carriers = [(a, v, k) for a, v, k in arguments if v.kind in CARRIERS]
        if not carriers:
            return Value(Kind.TENSOR, UNPLACED, node=node, sure=False) if name not in ("operator", "comparison") else UNKNOWN
        first = carriers[0][1]
        found = next(((a, v) for a, v, _ in carriers if v.place.on_device), None)
        if found is not None:
            placed = found[1]
            scalars = name in ("operator", "comparison")
            strays = tuple(
                Meeting(a, v, v.place, k)
                for a, v, k in carriers
                if (v.place.where is Where.DEFAULT and not (v.form == "scalar" and scalars))
                or (v.place.where is Where.OF and v.name == "parameter")
            )
            if strays:
                self.emit(What.MEET, node, placed, path_of(found[0]), place=placed.place, strays=strays,
                          devices=self.devices(), detail=name)  # fmt: skip
            return Value(Kind.TENSOR, placed.place, node=node, source=placed.source, sure=placed.sure)
        anchored = next(((a, v) for a, v, _ in carriers if v.place.where is Where.OF), None)
        if anchored is not None:
            scalars = name in ("operator", "comparison")
            strays = tuple(
                Meeting(a, v, v.place, k)
                for a, v, k in carriers
                if v.place.where is Where.DEFAULT and not (v.form == "scalar" and scalars)
            )
            if strays:
                self.emit(What.MEET, node, anchored[1], path_of(anchored[0]), place=anchored[1].place, strays=strays,
                          devices=self.devices(), detail=name)  # fmt: skip
            return Value(Kind.TENSOR, anchored[1].place, node=node, sure=anchored[1].sure)
        if all(v.place.where is Where.DEFAULT for _, v, _ in carriers):
            big = next((v for _, v, _ in carriers if v.form != "scalar"), first)
            return Value(Kind.TENSOR, big.place, node=big.node, source=big.source, sure=big.sure, name=big.name,
                         form=big.form)  # fmt: skip
        return Value(Kind.TENSOR, UNPLACED, node=node, sure=False)

    def attach(
        self, target: ast.expr, root: Value, child: Value, node: ast.expr | None, how: str = "="
    ) -> None:
        """A module or parameter arrives in a module: surgery."""
        if root.kind not in (Kind.MODULE, Kind.PART) or not root.identity:
            return
        path = path_of(target) or self.source.code(target)
        children = [child]
        if how in ("extend", "update") and child.items:
            children = list(child.items)
        layer = self._layer_of(node, child)
        children = [layer] if layer is not None else children
        for one in children:
            is_parameter = one.name == "torch.nn.Parameter"
            if one.kind is Kind.MODULE or is_parameter:
                if one.identity == root.identity:
                    continue
                self.emit(What.ATTACH, target, root, path, place=self.state.place(one), child=one,
                          devices=self.devices(), detail=how)  # fmt: skip
                return
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            self.emit(What.READ, target, root, path, detail="set")

    def _layer_of(self, node: ast.expr | None, value: Value) -> Value | None:
        """A layer of a class out of sight, by its name."""
        if value.kind is not Kind.UNKNOWN or not isinstance(node, ast.Call):
            return None
        name = self.callee_name(node.func)
        if not looks_like_layer(name.rpartition(".")[2]):
            return None
        told = any(keyword.arg == "device" for keyword in node.keywords)
        place = UNPLACED if told else self.program.default_place(node)
        return Value(Kind.MODULE, place, fresh_identity(), node, name, sure=False)

    # --- functions and classes of this file ------------------------------------------------

    def _call_function(
        self,
        node: ast.Call,
        callee: Value,
        arguments: list[tuple[ast.expr, Value, str]],
        receiver: Value | None = None,
    ) -> Value:
        if not isinstance(callee.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            array = next((value for _, value, _ in arguments if value.kind is Kind.ARRAY), None)
            if callee.name == "transform" and array is not None:
                return Value(Kind.TENSOR, self.program.default_place(node), node=node, source=array.source, sure=False)
            return UNKNOWN
        return self.program.call_function(self, node, callee.node, arguments, receiver)

    def _construct(self, node: ast.Call, callee: Value, arguments: list[tuple[ast.expr, Value, str]]) -> Value:
        return self.program.construct(self, node, callee, arguments)


def _may_be_module(value: Value) -> bool:
    """A parameter of which nothing is known: what is done to it matters where a module is passed."""
    return value.kind is Kind.ANY and value.parameter >= 0 and value.identity > 0


def _is_scalar(node: ast.Call) -> bool:
    if not node.args:
        return False
    value = node.args[0]
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float, bool))
    return not isinstance(value, (ast.List, ast.Tuple, ast.ListComp, ast.Name, ast.Subscript, ast.Attribute, ast.Call))


def _is_index(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
