"""Where each tensor was made, moved and stored: the last link of each kind, kept while the tensor lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from devfix.simulate.keeping_going import placing
from devfix.simulate.keeping_going.lines import Mark, here

Tensor = torch.Tensor
_MOVES = frozenset({"to", "cuda", "cpu", "type", "pin_memory"})
_ITEMS = 50  # of a list or dict that are looked at
_SOURCES = 12  # that are kept of a tensor


@dataclass(frozen=True)
class History:
    """`name` and `owner`: the attribute that a module stores it in, and the module's class.

    Those of a tensor that is `computed` are of what it was computed from, as is `stored`. `sources` are the tensors
    on the same device that it was computed from, directly or not, as long as they live. `given`: the tests of a suite
    have handed it in, or what it was computed from (see `placing`).
    """

    made: Mark | None = None
    moved: Mark | None = None
    stored: Mark | None = None
    name: str = ""
    owner: str = ""
    view: bool = False
    computed: bool = False
    given: bool = False
    sources: tuple[weakref.ref[Any], ...] = ()


# By the tensors themselves, weakly: an `id` is used again, and nothing is to live longer for it.
_known = WeakTensorKeyDictionary()


def of(tensor: Any) -> History:
    """What is known of a tensor; of a view, what is known of its base where that is more."""
    own: History = _known.get(tensor) or History()
    base = tensor._base
    if base is None or own.name:
        return own
    under: History = _known.get(base) or History()
    made, moved = under.made or own.made, own.moved or under.moved
    return replace(under, made=made, moved=moved, view=True, sources=own.sources or under.sources)


def note(tensor: Any, **changes: Any) -> None:
    _known[tensor] = replace(_known.get(tensor) or History(), **changes)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The lengths of a tensor; -1 where a nested one has several."""
    if not tensor.is_nested:
        return tuple(tensor.shape)
    if tensor.layout is torch.jagged:
        return tuple(length if isinstance(length, int) else -1 for length in tensor.shape)
    lengths = map(set, tensor._nested_tensor_size().t().tolist())
    return tensor.size(0), *(found.pop() if len(found) == 1 else -1 for found in lengths)


def tensors(value: Any) -> Iterator[Any]:
    """A tensor, or those in (nested) lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def note_result(name: str, arguments: Any, result: Any, named: Mapping[str, Any]) -> None:
    """A function of torch has given a result: what is new in it was made on the line that runs."""
    line: Mark | None = None
    if placing.wanted:
        _note_given(arguments)
    for tensor in tensors(result):
        if tensor in _known:
            continue
        line = line or here()
        source = arguments[0] if arguments and isinstance(arguments[0], Tensor) else None
        if source is not None and name in _MOVES:
            _known[tensor] = replace(of(source), moved=line, sources=_sources(tensor, (source,)))
        elif source is not None and (tensor._is_view() or name == "data"):
            before = of(source)
            sources = _sources(tensor, (source,))
            _known[tensor] = replace(before, made=before.made or line, view=True, sources=sources)
        else:
            found = _computed(tensor, arguments, line)
            _known[tensor] = replace(found, given=True) if _is_given(tensor, arguments, named) else found


def _note_given(arguments: Any) -> None:
    """What no function of torch has made (`torch.LongTensor([1])`) is a test's own where the test hands it in."""
    for one in tensors(arguments):
        if (
            one.is_cpu
            and one not in _known
            and any(one is other for other in tensors(placing.handed_in(made=True)))
        ):
            _known[one] = History(given=True)


def _is_given(tensor: Any, arguments: Any, named: Mapping[str, Any]) -> bool:
    if not placing.wanted or not tensor.is_cpu:
        return False
    if any(of(one).given for one in tensors(arguments)) or placing.asked_for():
        return True
    told = named.get("device")
    if isinstance(told, torch.device) and any(one.is_cpu for one in tensors(placing.handed_in())):
        return True  # `device=x.device`
    return "device" in named and placing.may_tell(told)


def _computed(tensor: Any, arguments: Any, line: Mark | None) -> History:
    """The history of a result: that of an argument which a module stores, and which was not moved, goes on in it."""
    sources = _sources(tensor, arguments)
    for one in arguments or ():
        if isinstance(one, Tensor) and one.device == tensor.device:
            before = of(one)
            if before.owner and before.moved is None:
                return replace(before, made=line, view=False, computed=True, sources=sources)
    return History(made=line, sources=sources)


def _sources(tensor: Any, arguments: Any) -> tuple[weakref.ref[Any], ...]:
    """What a tensor of the CPU is computed from, and what that was: intermediate results die, and inputs stay."""
    if not tensor.is_cpu:
        return ()
    found: dict[int, weakref.ref[Any]] = {}
    for one in tensors(arguments):
        if one.is_cpu and one is not tensor and not isinstance(one, torch.nn.Parameter):
            for ref in (*of(one).sources, weakref.ref(one)):
                if (source := ref()) is not None:
                    found[id(source)] = ref
    return tuple(found.values())[:_SOURCES]


def install() -> None:
    """Hear of what modules store and where they are moved."""
    module = torch.nn.Module
    _after(module, "__setattr__", _stored)
    _after(module, "register_buffer", lambda self, name, tensor=None, *rest, **named: _buffer(tensor))
    _after(module, "register_parameter", lambda self, name, param=None: _parameter(param))
    original = module._apply

    @wraps(original)
    def apply(self: Any, fn: Any, *arguments: Any, **named: Any) -> Any:
        before = [(one, one.device) for one in self._parameters.values() if one is not None]
        result = original(self, fn, *arguments, **named)
        for parameter, device in before:
            if parameter.device != device:
                note(parameter, moved=here())
        return result

    module._apply = apply


def _after(owner: Any, name: str, then: Callable[..., None]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        then(*arguments, **named)
        return result

    setattr(owner, name, wrapper)


def _stored(module: Any, name: str, value: Any) -> None:
    """Only plain attributes: parameters, buffers and submodules go with their module."""
    if not isinstance(value, (Tensor, list, tuple, dict)) or name not in module.__dict__:
        return
    items = list(value.items()) if isinstance(value, dict) else []
    items = items or (list(enumerate(value)) if isinstance(value, (list, tuple)) else [])
    found = [("", value), *((f"[{key!r}]", item) for key, item in items[:_ITEMS])]
    line, owner = here(), type(module).__name__
    for part, item in found:
        if isinstance(item, Tensor) and not isinstance(item, torch.nn.Parameter):
            note(item, stored=line, name=f"{name}{part}", owner=owner, computed=False)
        elif isinstance(item, torch.nn.Module):
            for inner, tensor in (*item.named_parameters(), *item.named_buffers()):
                note(tensor, stored=line, name=f"{name}{part}.{inner}", owner=owner, computed=False)


def _buffer(tensor: Any) -> None:
    if isinstance(tensor, Tensor):
        note(tensor, stored=here(), computed=False)


def _parameter(parameter: Any) -> None:
    if isinstance(parameter, Tensor) and not of(parameter).made:
        note(parameter, made=here())
