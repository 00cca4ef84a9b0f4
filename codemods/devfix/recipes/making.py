"""What a recipe's `!new:` makes: the engine runs the constructor with its arguments, and then `forward`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from devfix.engine.analysis import Analysis
from devfix.engine.events import moved_by
from devfix.engine.facts import Mismatch
from devfix.engine.files import Class
from devfix.engine.frame import Arguments
from devfix.engine.places import AT, VAR, Place
from devfix.engine.state import State
from devfix.engine.transfer.protocols import Implied
from devfix.engine.transfer.statements import Run
from devfix.engine.values import CLASS, LIBRARY, MODULE, STORE, TENSOR, UNKNOWN, Value, constant
from devfix.models import torch_api
from devfix.models.loader import public
from devfix.recipes.constants import OBJECT, Some
from devfix.recipes.library import Library
from devfix.text.names import of_self

# Modules of torch.nn that make parameters, or buffers that their forward reads, whatever they are given.
_WEIGHTED = frozenset(
    {
        "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "Embedding",
        "EmbeddingBag", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "PReLU",
        "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder",
        "TransformerEncoderLayer", "TransformerDecoderLayer", "AdaptiveLogSoftmaxWithLoss",
    }
)  # fmt: skip
# These do unless a flag says no.
_AFFINE = {"LayerNorm": "elementwise_affine", "GroupNorm": "affine", "RMSNorm": "elementwise_affine"}
_PARAMETER = (*torch_api.PARAMETERS, "torch.nn.parameter.UninitializedParameter")
_APPENDS = ("append", "add_module", "register_module", "insert")
_MADE = "parameters are made"  # a cell of the state
Constants = Mapping[str, Any]


def torch_weighted(dotted: str, constants: Constants) -> bool:
    """Does a class of torch.nn make parameters when it is given these keyword arguments?"""
    name = dotted.rpartition(".")[2]
    if not dotted.startswith("torch.nn."):
        return False
    if name in _AFFINE:
        return constants.get(_AFFINE[name], True) is True
    return name.removeprefix("Lazy") in _WEIGHTED


def is_module(cls: Class) -> bool | None:
    """Is a class a torch.nn.Module? None where bases are out of view."""
    if any(name in torch_api.MODULE_BASES or name.startswith("torch.nn.") for name in cls.outside):
        return True
    return False if torch_api.PLAIN_BASES.issuperset(cls.outside) else None


def make(library: Library, cls: Class, arguments: Constants) -> Made:
    """What `cls(**arguments)` makes; the names of what stands in a list are numbers."""
    known, key = library.known(cls), ("made", repr(sorted(arguments.items(), key=lambda item: item[0])))
    if key not in known:
        known[key] = Made(cls, arguments)
    return cast(Made, known[key])


def weighted(library: Library, dotted: str, arguments: Constants) -> bool:
    """Does the class of a dotted name surely make a parameter?"""
    if dotted.startswith("torch."):
        return torch_weighted(dotted, arguments)
    cls = library.find(dotted)
    return cls is not None and is_module(cls) is True and make(library, cls, arguments).parameter


class Made:
    """An instance, as its constructor leaves it."""

    def __init__(self, cls: Class, arguments: Constants) -> None:
        self.cls = cls
        self._analysis = _Construction(cls.file)
        call = ast.copy_location(Implied(ast.Name(cls.name, ast.Load()), [], []), cls.node)
        frame = self._analysis.runs(self._analysis, cls.file, None, State())
        self._state = frame.state
        self._state.set_attribute(_MADE, "", constant(False))
        values = {name: (self._given(name, value), call.func) for name, value in arguments.items()}
        listed = [values.pop(name) for name in arguments if name.isdigit()]
        self._value = frame.instantiate(call, cls, (listed, values))

    def _given(self, name: str, value: Any) -> Value:
        if not isinstance(value, Some):
            return constant(value)
        place = Place(AT, ("argument", name))
        if value is OBJECT:  # it is not None
            self._state.path |= {(("none", place.key), False)}
        return Value(UNKNOWN, place)

    @property
    def parameter(self) -> bool:
        """Does the constructor make a parameter on all paths?"""
        made = self._state.attribute(_MADE, "")
        return made is not None and made.const is True

    @property
    def classes(self) -> set[Class]:
        """Its own class, and those of the modules that its constructor makes."""
        made = (one.bound.ref for one in self._analysis.made.values() if one.bound is not None)
        return {self.cls, *(one for one in made if isinstance(one, Class))}

    @cached_property
    def reads_raw(self) -> bool:
        """Does running it read one of its buffers as it is, without moving it to its input?

        What its own `to` moves counts as a buffer.
        """
        forward = self.cls.method("forward")
        if forward is None:
            return False
        inputs = [name for name in forward.positional[1:] if name not in forward.defaults]
        given = {name: Value(TENSOR, Place(VAR, "device"), rank=1) for name in inputs}
        self._analysis.mismatches.clear()
        self._analysis.run_method(forward, self._value, self._state.copy(), given=given)
        moved = _moved_by_hand(self.cls)
        return any(_is_of_buffer(one, moved) for one in self._analysis.mismatches)


class _Making(Run):
    """Notes in the state that parameters are made: where paths meet again, that stays if all of them make some."""

    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        dotted = public(dotted)
        if dotted in _PARAMETER or torch_weighted(dotted, _constants(arguments)):
            self.state.set_attribute(_MADE, "", constant(True))
        return super().library_call(node, dotted, arguments)

    def instantiate(
        self, node: ast.Call, owner: Class, arguments: Arguments, *, open_: bool = False
    ) -> Value:
        if any(torch_weighted(base, _constants(arguments)) for base in owner.outside):
            self.state.set_attribute(_MADE, "", constant(True))
        return super().instantiate(node, owner, arguments, open_=open_)

    def method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        # A container that is given classes makes its parts; speechbrain's also finds out what shape they get.
        for value, at in arguments[0] if name in _APPENDS else ():
            if value.kind in (CLASS, LIBRARY):
                self.call_value(node, value, ([], {"input_shape": (self.unknown(at), at), **arguments[1]}))
        return super().method(node, base, name, arguments)


class _Construction(Analysis):
    runs = _Making


def _constants(arguments: Arguments) -> Constants:
    return {name: value.const for name, (value, _) in arguments[1].items()}


def _is_of_buffer(mismatch: Mismatch, moved: set[str]) -> bool:
    """Is it a buffer, or one of these attributes, that strays on every path? A layer that is run is none."""
    stray, at = mismatch.stray, mismatch.stray_node
    if mismatch.guarded or (isinstance(mismatch.node, ast.Call) and mismatch.node.func is at):
        return False
    return stray.kind == MODULE or any(link.kind == STORE and link.name in moved for link in stray.links)


def _moved_by_hand(cls: Class) -> set[str]:
    """The attributes that a `to` of its own moves along with the parameters and buffers."""
    method = cls.method("to")
    assigns = [node for node in method.nodes if isinstance(node, ast.Assign)] if method is not None else []
    return {
        of_self(target)
        for node in assigns
        if (moved := moved_by(node.value)) is not None and of_self(moved)
        for target in node.targets
    } - {""}
