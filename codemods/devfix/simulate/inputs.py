"""Made-up arguments for functions, constructors and `forward`, from annotations, defaults and layers.

An argument is plain data, so that several processes can make the same: a device and a tensor are
made where they are needed. A plan is a list of [name, argument].
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
import typing
from collections.abc import Callable, Iterator
from typing import Any

Argument = dict[str, Any]
Plan = list[list[Any]]

# One number for all whole numbers of a constructor, so that sizes agree and heads divide dimensions.
_INTEGERS = (8, 4, 2)
_BATCH, _LENGTH, _SIDE, _DEPTH = 2, 5, 16, 8
_MISSING = inspect.Parameter.empty


class Unguessable(Exception):
    """To stand after "because"."""


def made(argument: Argument, device: str) -> Any:
    """The value that an argument describes, on a device where it has one."""
    import torch

    kind = argument["kind"]
    if kind == "value":
        value = argument["value"]
        return tuple(value) if argument.get("tuple") else value
    if kind == "device":
        return torch.device(device) if argument["object"] else device
    if kind == "dtype":
        return torch.float32
    # Python's numbers: the same everywhere, and whatever torch's generators do.
    chance, shape, below = random.Random(0), argument["shape"], argument["below"]
    numbers = [chance.randrange(below) if below else chance.random() for _ in range(math.prod(shape))]
    return torch.tensor(numbers).reshape(shape).to(device)


def _value(value: Any, **more: Any) -> Argument:
    return {"kind": "value", "value": value, **more}


def _tensor(shape: tuple[int, ...], below: int = 0) -> Argument:
    return {"kind": "tensor", "shape": list(shape), "below": below}


# --- from annotations --------------------------------------------------------------------------


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Name and annotation of what must be given; raises Unguessable where it has no name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise Unguessable(f"the signature is not known ({error})") from error
    kinds = inspect.Parameter
    found = []
    for name, one in signature.parameters.items():
        if one.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            continue
        if one.default is _MISSING:
            if one.kind is kinds.POSITIONAL_ONLY:
                raise Unguessable(f"parameter `{name}` has no name to be given by")
            found.append((name, one.annotation))
    return found


def _hint(annotation: Any) -> str:
    """An annotation as text, less the module that it is from: "Tensor", "int", "list[int]"."""
    if annotation is _MISSING:
        return ""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    text = annotation if isinstance(annotation, str) else str(annotation)
    for prefix in ("torch.types.", "torch.", "typing.", "t.", "T."):
        text = text.replace(prefix, "")
    return text.replace(" ", "").strip("'\"")


def _is_tensor(annotation: Any) -> bool:
    return _hint(annotation) in ("Tensor", "FloatTensor", "LongTensor")


def _guess(annotation: Any, number: int) -> Argument | None:
    """A plain argument; None where the annotation does not say enough."""
    hint = _hint(annotation)
    if hint.startswith("Optional[") or hint.endswith("|None"):
        return _value(None)
    parts = set(hint.removeprefix("Union[").removesuffix("]").replace("|", ",").split(","))
    if "device" in parts or hint in ("Device", "DeviceLikeType"):
        return {"kind": "device", "object": True}
    simple: dict[str, Any] = {"int": number, "float": 0.5, "bool": False}  # a text might mean anything
    if hint in simple:
        return _value(simple[hint])
    if hint == "dtype":
        return {"kind": "dtype"}
    lowered = hint.lower()
    if lowered in ("list[int]", "sequence[int]", "iterable[int]"):
        return _value([number, number])
    if lowered in ("tuple[int,int]", "tuple[int,...]"):
        return _value([number, number], tuple=True)
    return None


def _named(name: str, annotation: Any, number: int) -> Argument | None:
    """As `_guess`; a text that is called `device` is one."""
    if name == "device" and _hint(annotation) in ("str", ""):
        return {"kind": "device", "object": False}
    return _guess(annotation, number)


def plans_to_construct(kind: type[Any]) -> Iterator[Plan]:
    """Arguments for a constructor; raises Unguessable."""
    wanted = _parameters(kind)
    for number in _INTEGERS if wanted else _INTEGERS[:1]:
        plan: Plan = []
        for name, annotation in wanted:
            argument = _named(name, annotation, number)
            if argument is None:
                raise Unguessable(_unknown(f"{kind.__name__}()", name, annotation))
            plan.append([name, argument])
        yield plan


def _unknown(what: str, name: str, annotation: Any) -> str:
    if annotation is _MISSING:
        return f"{what} needs `{name}`, which has no annotation"
    return f"{what} needs `{name}`, and no value can be made up for `{_hint(annotation)}`"


def plans_for_function(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Inputs for a plain function: its required parameters, by their annotations."""
    wanted = _parameters(function)
    shapes = [(4, 8), (2, 4, 8), (8,), (8, 8), (2, 3, 16, 16), ()]
    guesses = [*(_tensor(shape) for shape in shapes), *(_tensor(shape, 4) for shape in shapes[:3])]
    tensors = [name for name, annotation in wanted if _is_tensor(annotation)]
    for name, annotation in wanted:
        if not _is_tensor(annotation) and _named(name, annotation, 4) is None:
            raise Unguessable(_unknown(f"{function.__name__}()", name, annotation))
    alike = [(guess,) * len(tensors) for guess in guesses] if tensors else [()]
    mixed = [pair for pair in itertools.product(guesses, repeat=2) if pair[0] != pair[1]]
    for chosen in [*alike, *(mixed if len(tensors) == 2 else [])]:
        given = dict(zip(tensors, chosen, strict=True))
        inputs = [[name, given.get(name) or _named(name, note, 4)] for name, note in wanted]
        yield {"inputs": inputs}


# --- from layers -------------------------------------------------------------------------------


def plans_for_inputs(module: Any) -> Iterator[Plan]:
    """Inputs for `forward`: tensors as the first layers want them, in the order of registration."""
    wanted = _parameters(module.forward)
    tensors = []
    others: dict[str, Argument] = {}
    for name, annotation in wanted:
        if annotation is _MISSING or _is_tensor(annotation):
            tensors.append(name)
            continue
        argument = _named(name, annotation, 4)
        if argument is None:
            raise Unguessable(_unknown("forward()", name, annotation))
        others[name] = argument
    if len(tensors) > 3:
        raise Unguessable(f"forward() needs {len(tensors)} inputs, whose shapes cannot be made up")
    guesses = _guesses(module)
    alike = [(guess,) * len(tensors) for guess in guesses]
    # The first input has the shape of the first layer; a second one may have another.
    mixed = [pair for pair in itertools.product(guesses, repeat=2) if pair[0] != pair[1]]
    for chosen in [*alike, *(mixed if len(tensors) == 2 else [])] if tensors else [()]:
        given = dict(zip(tensors, chosen, strict=True))
        yield [[name, given.get(name) or others[name]] for name, _ in wanted]


def _guesses(module: Any) -> list[Argument]:
    found: list[Argument] = []
    for layer in module.modules():
        found.extend(one for one in _wanted(layer) if one not in found)
        if len(found) > 8:
            break
    for parameter in module.parameters(recurse=False):  # `x @ self.weight`
        for size in dict.fromkeys(reversed(parameter.shape)):
            found.append(_tensor((_BATCH, size)))
    common = [_tensor(shape) for shape in ((_BATCH, _LENGTH, 8), (_BATCH, 8), (_BATCH, 3, _SIDE, _SIDE))]
    common.append(_tensor((_BATCH, _LENGTH), 8))
    return found + [one for one in common if one not in found]


def _wanted(layer: Any) -> Iterator[Argument]:
    """The inputs that one of torch's layers takes."""
    from torch import nn

    if isinstance(layer, nn.Linear):
        yield _tensor((_BATCH, layer.in_features))
        yield _tensor((_BATCH, _LENGTH, layer.in_features))
    elif isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        dimensions = len(layer.kernel_size)
        side = max(_SIDE if dimensions < 3 else _DEPTH, *layer.kernel_size)
        yield _tensor((_BATCH, layer.in_channels, *[side] * dimensions))
        if dimensions == 2:
            yield _tensor((_BATCH, layer.in_channels, 32, 32))
            yield _tensor((_BATCH, layer.in_channels, 28, 28))
    elif isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        yield _tensor((_BATCH, _LENGTH), layer.num_embeddings)
        yield _tensor((_BATCH,), layer.num_embeddings)
    elif isinstance(layer, nn.RNNBase):
        first = _BATCH if layer.batch_first else _LENGTH
        second = _LENGTH if layer.batch_first else _BATCH
        yield _tensor((first, second, layer.input_size))
    elif isinstance(layer, nn.RNNCellBase):
        yield _tensor((_BATCH, layer.input_size))
    elif isinstance(layer, nn.LayerNorm):
        yield _tensor((_BATCH, _LENGTH, *layer.normalized_shape))
    elif isinstance(layer, nn.MultiheadAttention):
        yield _tensor((_BATCH, _LENGTH, layer.embed_dim))
    elif isinstance(layer, nn.BatchNorm1d):
        yield _tensor((_BATCH, layer.num_features))
    elif isinstance(layer, (nn.BatchNorm2d, nn.InstanceNorm2d)):
        yield _tensor((_BATCH, layer.num_features, _SIDE, _SIDE))
    elif isinstance(layer, nn.BatchNorm3d):
        yield _tensor((_BATCH, layer.num_features, _DEPTH, _DEPTH, _DEPTH))
