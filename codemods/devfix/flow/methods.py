"""Methods of values that are known: moves, tensor and module methods, frameworks."""

from __future__ import annotations

import ast
import re

from devfix.flow import frameworks, torch_api
from devfix.flow.events import What
from devfix.flow.evidence import (
    looks_like_device,
    looks_like_pipeline,
    looks_like_processor,
)
from devfix.flow.frame import Arguments, path_of
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    OWNED,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
    replace,
)
from devfix.flow.meetings import may_be_module
from devfix.flow.owners import Owners

_CUDA_TYPE = re.compile(r"\bcuda\.\w+Tensor\b")
MOVES = frozenset({"to", "cuda", "cpu", "xpu", "npu", "hpu", "ipu"})
_READING_METHODS = (torch_api.MODULE_ONLY | torch_api.STATEFUL) - {"forward", "apply"} | frozenset(
    [
        "requires_grad_",
        "half",
        "float",
        "double",
        "bfloat16",
        "type",
        "named_parameters",
        "add_module",
        "gradient_checkpointing_enable",
        "share_memory",
        "extra_repr",
        "set_extra_state",
        "get_input_embeddings",
        "keys",
        "values",
        "items",
        "append",
        "insert",
        "extend",
        "register_full_backward_hook",
        "gradient_checkpointing_disable",
        "get_parameter_dtype",
        "enable_input_require_grads",
        "print_trainable_parameters",
    ]
)
_ATTACHING_METHODS = frozenset(
    {
        "add_module",
        "register_module",
        "register_parameter",
        "append",
        "insert",
        "extend",
        "update",
        "__setattr__",
    }
)
# Tensor methods that copy from any device, or only ask for a shape.
_FOREIGN_ARGUMENTS = frozenset(
    {
        "copy_",
        "set_",
        "expand_as",
        "view_as",
        "reshape_as",
        "resize_as_",
        "share_memory_",
        "split",
        "append",
        "extend",
        "update",
        "setdefault",
        # their arguments are sizes and dimensions, which are read as numbers
        "repeat",
        "expand",
        "view",
        "reshape",
        "tile",
        "unflatten",
        "narrow",
    }
)


class Methods(Owners):
    """`x.to(device)`, `model.parameters()`, `accelerator.prepare(...)` and their like."""

    def _method(self, node: ast.Call, func: ast.Attribute, base: Value) -> Value:
        method, kind = func.attr, base.kind
        if method in MOVES and (kind is not Kind.OWNER):
            moved = self._move(node, func, base)
            if moved is not None:
                return moved
        arguments = self._arguments(node)
        entries = node.args[0] if node.args else None
        if method == "update" and isinstance(entries, ast.Dict) and kind in (Kind.BATCH, Kind.ANY):
            # `batch.update({"x": x.to(device)})`: part of it is elsewhere now, as after `batch["x"] = ..`
            path = path_of(func.value)
            if path:
                element = self.element(base) if kind is Kind.BATCH else None
                moved = replace(base, place=UNPLACED, identity=fresh_identity(), items=None, element=element)
                self.state.put(path, moved)
            return UNKNOWN
        known = self.state.names.get(path_of(func))
        if known is not None and known.kind in (Kind.MODULE, Kind.FUNCTION, Kind.CLASS, Kind.TOKENIZER):
            return self._call_value(node, known, arguments, method)
        if kind in (Kind.PART, Kind.MODULE, Kind.INSTANCE) and looks_like_processor(path_of(func)):
            there = any(value.place.on_device for _, value, _ in arguments)
            return Value(
                Kind.BATCH,
                UNPLACED if there else self.program.default_place(node),
                node=node,
                sure=False,
                source=f"the output of `{path_of(func)}`",
            )
        if kind is Kind.TENSOR or kind is Kind.BATCH:
            return self._tensor_method(node, method, base, arguments)
        if kind is Kind.MODULE or kind is Kind.PART:
            return self._module_method(node, func, base, arguments)
        if kind is Kind.OWNER:
            return self._owner_method(node, func, base, arguments)
        if kind is Kind.CLASS and method.startswith("from_"):
            return self._construct(node, base, arguments)
        if kind is Kind.INSTANCE:
            function = self.program.method(base, method)
            if function is not None:
                return self._call_function(node, function, arguments, base)
        if kind is Kind.TOKENIZER or (
            kind is Kind.ANY
            and looks_like_processor(path_of(func.value))
            and any(keyword.arg == "return_tensors" for keyword in node.keywords)
        ):
            return self._tokenize(node, base)
        if kind is Kind.ANY and method in torch_api.TENSOR_ONLY:
            return replace(base, identity=0)
        if kind is Kind.DEVICE or kind is Kind.STRING:
            # `.split(":")[0]`, `.replace(":0", "")`: strings made of a device
            return Value(Kind.STRING, node=node, name="device.text") if kind is Kind.DEVICE else UNKNOWN
        if method == "from_pretrained":
            return self._pretrained(node, path_of(func.value), arguments)
        if "autocast" in method.lower():
            return UNKNOWN
        if kind is Kind.ARRAY:
            if method in ("items", "values", "keys"):
                return UNKNOWN
            if (
                method in ("unsqueeze", "permute", "contiguous", "float", "half", "unsqueeze_")
                and base.source
            ):
                # Only a tensor has these: the image went through a transform.
                return Value(
                    Kind.TENSOR, self.program.default_place(node), node=node, source=base.source, sure=False
                )
            return base if method not in ("pop", "index", "count") else UNKNOWN
        if kind is Kind.LOADER:
            return base if base.sure else UNKNOWN
        if method in torch_api.PROGRESS and arguments:
            return arguments[0][1]
        if may_be_module(base):
            self.emit(What.USE, node, base, path_of(func.value), detail=method)
        return self._call_unknown(node, arguments, method)

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
                elif path.endswith("rank") or self._gives_device(argument) or _is_index(argument):
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
                base = Value(
                    Kind.MODULE, UNPLACED, fresh_identity(), func.value, sure=evidence.used_as_module(path)
                )
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
            if (held := self.held(base)) is not None:
                self.state.places[held.identity] = place
                self.emit(What.MOVE, node, held, path, place=place, detail="module")
            return base
        if base.kind is Kind.PART:
            self.emit(What.READ, node, base, path, place=place, detail="part moved")
            return replace(base, place=place)
        if base.kind in CARRIERS:
            if base.place.where is Where.OWNED:
                return base
            self.emit(What.MOVE, node, base, path, place=place, detail="dropped" if dropped else "tensor")
            moved = replace(base.at(place), node=base.node)
            if base.name == "BatchEncoding" and path:
                self.state.put(path, moved)  # it moves itself, as a module does
            return moved
        return Value(Kind.ANY, place, 0, node, sure=False)

    def _gives_device(self, node: ast.expr) -> bool:
        """A name, or a call without arguments, that is called a device: `idist.device()`."""
        if not isinstance(node, ast.Call):
            return looks_like_device(path_of(node))
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        known = self.values.get(owner, UNKNOWN).kind in CARRIERS  # `x.get_device()` is an index
        return not (node.args or node.keywords or known) and looks_like_device(path_of(node.func))

    def _is_dtype(self, node: ast.expr) -> bool:
        path = path_of(node)
        last = path.rpartition(".")[2]
        return "dtype" in last or (path.startswith("torch.") and last not in ("device",)) or "format" in last

    def _tensor_method(self, node: ast.Call, method: str, base: Value, arguments: Arguments) -> Value:
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
        if method == "type" and node.args:
            place = self._typed(node, node.args[0])
            if place is None or (place.where is Where.CPU and base.place.where is Where.DEFAULT):
                return base
            return replace(base, place=place, node=node)
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
        return Value(
            Kind.TENSOR,
            base.place,
            node=base.node,
            name=base.name,
            source=base.source,
            sure=base.sure or method in torch_api.TENSOR_ONLY,
            form=base.form,
        )

    def _typed(self, node: ast.Call, kind: ast.expr) -> Place | None:
        """`x.type(torch.LongTensor)`: the old types of tensors are places as well."""
        name = kind.value if isinstance(kind, ast.Constant) else self.source.qualified(kind)
        if name in torch_api.LEGACY_CUDA:
            return Place(Where.ACCELERATOR, '"cuda"', 0, node)
        if name in torch_api.LEGACY:
            return Place(Where.CPU, '"cpu"', 0, node)
        # `dtype = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor`
        given = isinstance(kind, (ast.Name, ast.Attribute)) and not str(name).startswith("torch.")
        return UNPLACED if given and _CUDA_TYPE.search(self.source.text) else None

    def _module_method(self, node: ast.Call, func: ast.Attribute, base: Value, arguments: Arguments) -> Value:
        method = func.attr
        if method in _ATTACHING_METHODS and not base.name.startswith("torchmetrics."):
            return base  # `metric.update(outputs, labels)` runs it
        if method == "load_state_dict":
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
            return Value(
                Kind.ARRAY, node=node, element=Value(Kind.ARRAY, items=(UNKNOWN, self.element(base)))
            )
        if method in frameworks.HOOKING_METHODS:
            if base.kind is Kind.MODULE:
                self._take_over(func.value, base, OWNED, always=True)
            return UNKNOWN
        if method in _READING_METHODS:
            self.emit(What.READ, node, base, path_of(func.value), detail=method)
            return base if method not in ("state_dict", "keys", "register_forward_hook") else UNKNOWN
        fresh = any(value.kind is Kind.MODULE and value.node is not None for _, value, _ in arguments)
        if fresh and (base.kind is Kind.PART or method.startswith(("set_", "add_", "attach", "register"))):
            return UNKNOWN
        if base.kind is Kind.PART and method.endswith("_") and method in _FOREIGN_ARGUMENTS:
            return base  # `model.mean.copy_(x)`, from anywhere
        own = self.program.method_of_self(self.scope, base, method)
        if own is not None:
            return self._call_function(node, own, arguments, base)
        return self.run_module(node, base, arguments, self.source.code(func), method)


def _is_index(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
