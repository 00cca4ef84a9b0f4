"""Calls into torch and its companions: factories, layers, loaders, wraps, tokenizers."""

from __future__ import annotations

import ast

from devfix.flow import torch_api
from devfix.flow.events import What
from devfix.flow.evidence import (
    looks_like_pipeline,
)
from devfix.flow.frame import Arguments, path_of
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
    replace,
)
from devfix.flow.meetings import Meetings

_WEIGHTED = {"weight", "pos_weight"}
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"})
_PLACED_DATASET = "a dataset that was moved"
_NO_MODEL = ("Tokenizer", "Processor", "Config", "Extractor", "Scheduler", "Dataset", "Feature", "Cache")


class TorchCalls(Meetings):
    """What torch's own functions make, and where."""

    def _call_torch(self, node: ast.Call, name: str, last: str, arguments: Arguments) -> Value | None:
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
            return Value(
                Kind.TENSOR,
                place or default(node),
                node=node,
                name=name,
                source=source,
                form="scalar" if scalar else "",
            )
        if name in torch_api.LEGACY:
            return Value(Kind.TENSOR, default(node), node=node, name=name, source=f"`{last}`")
        if name in torch_api.LEGACY_CUDA:
            return Value(Kind.TENSOR, Place(Where.ACCELERATOR, '"cuda"', 0, node), node=node, name=name)
        if name in torch_api.FROM_HOST and last[:1].isupper():  # `ToTensor()`: called on an image later
            return Value(Kind.FUNCTION, name="transform", source=torch_api.FROM_HOST[name])
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
        if name == "torch.utils.data.TensorDataset":
            return self._dataset(node, arguments)
        if name in torch_api.NOT_TENSOR_CALLS or name.startswith(
            ("torch.cuda.", "torch.backends.", "torch.utils.")
        ):
            return UNKNOWN
        if name.startswith("torch.distributed."):
            return UNKNOWN
        if last.endswith("_like") and arguments:
            place = self._device_keyword(node, arguments)
            return (
                replace(arguments[0][1], node=node) if place is None else Value(Kind.TENSOR, place, node=node)
            )
        if name.count(".") == 1 or name.startswith(
            ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.")
        ):
            joined = node.args[0] if node.args and last in _JOINS else None
            if isinstance(joined, (ast.Tuple, ast.List)):
                parts = [(part, self.values.get(part, UNKNOWN), "") for part in joined.elts]
                # Where none of them is on a device, what comes out may be an index, or go anywhere.
                arguments = parts if any(v.place.on_device for _, v, _ in parts) else arguments
            return self.combine(node, arguments, last)
        return None

    def _device_object(self, node: ast.Call, arguments: Arguments) -> Value:
        if arguments:
            device = self.as_device(arguments[0][1])
            if device is not None:
                place = replace(device.place, text=self.source.code(node), node=node)
                return Value(Kind.DEVICE, place, node=node, form="object", text=device.text)
        place = Place(Where.SYMBOL, self.source.code(node), fresh_identity(), node)
        return Value(Kind.DEVICE, place, node=node, form="object")

    def _parameter(self, node: ast.Call, arguments: Arguments) -> Value:
        place = arguments[0][1].place if arguments and arguments[0][1].kind is Kind.TENSOR else UNPLACED
        return Value(Kind.TENSOR, place, node=node, name="torch.nn.Parameter", source="an nn.Parameter")

    def _layer(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        place = self._device_keyword(node, arguments)
        if name in torch_api.WEIGHTED_LOSSES and place is None:
            weights = [v for _, v, keyword in arguments if keyword in _WEIGHTED or not keyword]
            place = weights[0].place if weights else None  # a loss is where its weights are
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
        return Value(
            Kind.MODULE,
            place or self.program.default_place(node),
            fresh_identity(),
            node,
            name,
            bare=bare,
            items=None if items is None else (),
        )

    def _wrap(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        if not arguments:
            return UNKNOWN
        _, value, _ = arguments[0]
        last = name.rpartition(".")[2]
        parallel = "arallel" in last or last in torch_api.WRAP_NAMES
        if value.kind not in (Kind.MODULE, Kind.PART):
            # Whatever it wraps scatters its inputs.
            return (
                Value(Kind.MODULE, UNPLACED, fresh_identity(), node, name, form="parallel")
                if parallel
                else UNKNOWN
            )
        place = self.state.place(value)
        if parallel:
            held = value if value.kind is Kind.MODULE else None
            return Value(
                Kind.MODULE, place, fresh_identity(), node, name, form="parallel", sure=value.sure, held=held
            )
        return replace(value, place=place, identity=value.identity)

    def _loader(self, node: ast.Call) -> Value:
        if not self._on_host(node) or any(k.arg == "device" for k in node.keywords):
            return Value(Kind.LOADER, UNPLACED, node=node, source="a DataLoader", name="collate")
        if any(k.arg == "collate_fn" and self._moves_batches(k.value) for k in node.keywords):
            return Value(Kind.LOADER, UNPLACED, node=node, source="a DataLoader", name="collate")
        owned = any(k.arg == "collate_fn" for k in node.keywords)
        return Value(
            Kind.LOADER,
            Place(Where.DEFAULT, node=node),
            node=node,
            source="a DataLoader",
            name="collate" if owned else "",
        )

    def _on_host(self, node: ast.Call) -> bool:
        """Is a loader's dataset on the CPU, as far as can be seen? A small one may be moved as a whole."""
        dataset = (
            node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "dataset"), None)
        )
        value = self.values.get(dataset, UNKNOWN) if dataset is not None else UNKNOWN
        if value.kind is Kind.INSTANCE and isinstance(value.node, ast.ClassDef):
            code = self.source.code(value.node)
            return ".to(" not in code and ".cuda(" not in code and "device" not in code
        return value.name != _PLACED_DATASET

    def _dataset(self, node: ast.Call, arguments: Arguments) -> Value:
        """`TensorDataset(x, y)`: where its tensors are."""
        moved = any(
            v.kind is not Kind.UNKNOWN and v.place.where is not Where.DEFAULT for _, v, _ in arguments
        )
        return Value(Kind.ARRAY, node=node, name=_PLACED_DATASET) if moved else UNKNOWN

    def _moves_batches(self, collate: ast.expr) -> bool:
        """Does a collate function put the batch on a device itself?"""
        value = self.values.get(collate, UNKNOWN)
        if value.kind is Kind.FUNCTION and value.node is not None:
            code = self.source.code(value.node)
            return ".to(" in code or ".cuda(" in code
        code = self.source.code(collate)
        if isinstance(collate, ast.Name):  # `partial(collate, device=device)`, mostly
            at = self.source.text.find(f"{collate.id} = ")
            code = self.source.text[at : at + 200] if at >= 0 else ""
        return "device" in code

    def _iterate(self, last: str, arguments: Arguments) -> Value:
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
                    return Value(
                        Kind.BATCH,
                        self.program.default_place(node),
                        node=node,
                        name="BatchEncoding",
                        source="tokenizer output",
                    )
        return Value(Kind.ARRAY, node=node, source="token ids")

    def _pretrained(self, node: ast.Call, owner: str, arguments: Arguments) -> Value:
        name = owner.rpartition(".")[2]
        if "Tokenizer" in name or "Processor" in name or "Extractor" in name:
            return Value(Kind.TOKENIZER, node=node, name=name)
        if any(word in name for word in _NO_MODEL) or looks_like_pipeline(name) or not name[:1].isupper():
            return UNKNOWN
        place = self.device_argument(node)
        if place is None and any(
            k == "**" or (v.kind is not Kind.STRING and v.kind is not Kind.UNKNOWN) for _, v, k in arguments
        ):
            place = UNPLACED  # made around another model, or told where by a way of its own
        return Value(Kind.MODULE, place or self.program.default_place(node), fresh_identity(), node, name)


def _is_scalar(node: ast.Call) -> bool:
    if not node.args:
        return False
    value = node.args[0]
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float, bool))
    if isinstance(value, ast.BinOp) and any(isinstance(s, ast.List) for s in (value.left, value.right)):
        return False  # `[token] * length`
    return not isinstance(
        value, (ast.List, ast.Tuple, ast.ListComp, ast.Name, ast.Subscript, ast.Attribute, ast.Call)
    )
