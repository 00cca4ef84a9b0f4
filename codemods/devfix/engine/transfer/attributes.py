"""Attributes, by the kind of what they are read from."""

from __future__ import annotations

import ast
from functools import partial

from devfix.engine.files import Class
from devfix.engine.forms import AN_OBJECT, NO_FORMS, options
from devfix.engine.places import AT, OF, ON_CPU, VAR, Place, on_cuda
from devfix.engine.transfer.calls import Calls
from devfix.engine.transfer.protocols import Implied
from devfix.engine.uses import stored_names
from devfix.engine.values import (
    A_NUMBER,
    ANYTHING,
    ARRAY,
    BATCH,
    CLASS,
    DEVICE,
    DTYPE,
    FUNCTION,
    LIBRARY,
    LOADER,
    MAPPING,
    MODULE,
    NAME,
    NONE,
    NUMBER,
    OBJECT,
    OPTIMIZER,
    SEQUENCE,
    SEVERAL,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.engine.visible import is_gpu_list

_ASKED = frozenset({"is_cuda", "device"})
_SAME = frozenset({"data", "grad", "T", "mT", "H", "mH", "real", "imag", "values", "indices"})
_RESULTS = frozenset({"values", "indices"})  # of `x.topk(2)`
_NUMBERS = frozenset(
    {
        "ndim",
        "requires_grad",
        "is_cuda",
        "layout",
        "is_leaf",
        "itemsize",
        "nbytes",
        "grad_fn",
        "is_sparse",
        "is_mps",
        "names",
    }
)
_DTYPES = frozenset(
    [
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "half",
        "float",
        "double",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "short",
        "int",
        "long",
        "bool",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
        "cfloat",
        "cdouble",
    ]
)


_CONSTANTS = frozenset(
    f"{module}.{name}" for module in ("math", "numpy", "torch") for name in ("pi", "e", "inf", "nan")
)


class Attributes(Calls):
    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(node, self.eval(node.value))

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        name, kind = node.attr, base.kind
        if base.role == SEVERAL:
            return self.one_of([partial(self.attribute, node, one) for one in base.items or ()])
        if kind == OPTIMIZER and name == "state":
            self.analysis.parts.states = True
        if name in _ASKED:
            self.analysis.named.ask(self, node, base)
        if kind == LIBRARY:
            return self._of_library(node, base)
        if name == "batch_sizes" and kind in (TENSOR, BATCH, UNKNOWN):
            return Value(UNKNOWN, ON_CPU, rank=1)  # of a packed sequence, if it is of tensors
        if kind in (TENSOR, BATCH):
            return self._of_tensor(node, base)
        whole = base if kind == MODULE else base.like if kind == UNKNOWN else None
        if name == "_modules" and whole is not None and whole.kind == MODULE:
            return Value(MAPPING, rest=Value(MODULE, self.where(whole), role="part"))
        if kind in (MODULE, OBJECT):
            return self._of_object(node, base)
        if kind == SEQUENCE and base.rest is not None and base.rest.kind == TENSOR and name in _RESULTS:
            return base.rest
        if kind == CLASS and isinstance(base.ref, Class):
            known, held = self.state.attribute((CLASS, base.ref), name), base.ref.constant(name)
            mine = self.own_cell(base.ref)  # a method of the class that is called on `self` stores there
            known = self.state.attribute(mine, name) if known is None and mine is not None else known
            if known is not None:
                return known
            return self.analysis.constant(*held) if held is not None else ANYTHING
        if base.forms:
            return self.device_attribute(node, base)
        forms = NO_FORMS
        if kind in (UNKNOWN, ARRAY):
            forms = self.declared(base.bound, name) or options(self.file.source).get(name, NO_FORMS)
        if forms:
            return Value(DEVICE, Place(VAR, ("attribute", base.place.key, name)), forms=forms)
        if name == "device":
            if kind == DEVICE:
                return base
            if kind == UNKNOWN and base.role != "instance" and self.is_run_as_module(node.value):
                base = base.but(kind=MODULE)
            return self.device_of(base, None, self.file.source.code(node.value))
        if kind == DEVICE:
            return Value(TEXT, base.place, role="type") if name == "type" else A_NUMBER
        if name == "dtype":  # of `options.dtype`, it may be a type of tensors
            plain = isinstance(node.value, ast.Name)
            return Value(DTYPE, assumed=frozenset() if plain else frozenset({Assumption(NAME, name)}))
        if name == "shape" and kind == UNKNOWN and base.place.kind == OF:
            return Value(SEQUENCE, rest=Value(NUMBER, like=base))
        if base.role == "given":
            return A_NUMBER if name in _NUMBERS else base
        if whole is not None and whole.kind == MODULE and name in ("weight", "bias"):
            used = (
                {Assumption(USES, self.file.source.code(node.value)[:40])} if whole.ref is not None else set()
            )
            return Value(TENSOR, self.where(whole), rank=1, role="parameter", assumed=whole.assumed | used)
        if name == "data" and (kept := self.kept_by_module(base, node.value)) is not None:
            return kept
        if name == "saved_tensors" and self.function is not None and self.analysis.is_autograd(self.function):
            gradient = self.state.names.get(next(iter(self.function.positional[1:]), ""), ANYTHING)
            return Value(SEQUENCE, rest=gradient) if gradient.kind == TENSOR else ANYTHING
        if kind == UNKNOWN and base.place.is_named:
            made = self._of_unknown_object(node, base)
            return made.but(like=whole) if whole is not None and made.kind == UNKNOWN else made
        if kind == SEQUENCE and base.fields is not None:
            return base.fields.get(name, ANYTHING)
        if kind == LOADER:
            return ANYTHING
        return Value(UNKNOWN, base.place, role=base.role) if base.role == "moved" else ANYTHING

    def _of_library(self, node: ast.Attribute, base: Value) -> Value:
        dotted = f"{base.ref}.{node.attr}"
        if dotted in _CONSTANTS:
            return A_NUMBER
        if dotted.startswith("torch.") and node.attr in _DTYPES and dotted.count(".") == 1:
            return Value(DTYPE)
        return self.library(dotted)

    def _of_tensor(self, node: ast.Attribute, base: Value) -> Value:
        name = node.attr
        if name == "device":
            return self.device_of(base, None, self.file.source.code(node.value))
        if name == "data" and base.role == "parameter":
            return base.but(role="")  # no part of a graph, and no part of a module
        if name in _SAME:
            return base
        if name == "dtype":
            return Value(DTYPE, like=base)
        if name == "shape":
            return Value(SEQUENCE, rest=Value(NUMBER, like=base))
        if name == "is_cuda":
            asked = on_cuda(self.where(base))
            if asked.__class__ is tuple:
                return Value(NUMBER, Place(AT, asked))
            return A_NUMBER if asked is None else Value(NUMBER, const=asked)
        if name == "is_cpu":
            on_host = self.where(base).on_host
            known = on_host or on_cuda(self.where(base)) is True
            return Value(NUMBER, const=on_host) if known else A_NUMBER
        if name in _NUMBERS:
            return A_NUMBER
        if base.kind == BATCH:
            if base.fields is not None and name in base.fields:
                return base.fields[name]
            return base
        return ANYTHING

    def _of_object(self, node: ast.Attribute, base: Value) -> Value:
        name = node.attr
        held = self.state.attribute(base.ref, name) if base.ref is not None else None
        owner = (
            base.bound.ref if isinstance(base.bound, Value) and isinstance(base.bound.ref, Class) else None
        )
        if held is None and base.kind == OBJECT and owner is not None and name in owner.fields:
            held = self._left_by_file(base, name)
        if owner is not None and (held is None or held.kind == NONE):
            held = self.declared_module(owner, name) or held
        if held is not None:
            return held
        if owner is not None:
            method = owner.method(name)
            if method is not None:
                if method.is_property:
                    call = ast.copy_location(Implied(node, [], []), node)
                    return self.call_function(call, method, base, ([], {}))
                return Value(FUNCTION, ref=method, bound=None if method.static else base)
            constant = owner.constant(name)
            if constant is not None and name not in owner.stores and name not in owner.fields:
                return self.analysis.constant(*constant)
        if name == "device" and base.kind == MODULE:
            self.no_device(node, base)
            return self.device_of(base, ("device", base.ref), "")
        bare = owner is not None and any(map(self.analysis.classes.is_bare, owner.outside))
        if base.kind == MODULE and name.startswith(("weight", "bias")) and not bare:
            return Value(
                TENSOR,
                Place("in", base.ref) if base.ref is not None else base.place,
                rank=1,
                role="parameter",
            )
        parts = self.analysis.parts
        if name == "module" and (base.role == "scatters" or base.ref in parts.wrapped | parts.scattering):
            return base.but(role="")  # what is wrapped
        declared = self.declared(base.bound, name)
        if self._may_be_device(node) or declared == AN_OBJECT:
            place = Place(VAR, ("attribute", base.ref, name))
            return self.analysis.named_device(place, name).but(forms=declared)
        if base.ref is None:
            part = self._of_unknown_object(node, base) if base.place.is_named else ANYTHING
            return part.but(like=base) if base.kind == MODULE and part.kind == UNKNOWN else part
        # Of an object that the program makes, callers have put nothing anywhere.
        made = base.ref in self.analysis.made
        role = "part" if made and base.ref is not None and base.kind == MODULE and owner is None else ""
        place = Place(AT if made else OF, ("attribute", base.ref, name))
        return Value(UNKNOWN, place, role=role, ref=base.ref if role else None, like=base)

    def _left_by_file(self, base: Value, name: str) -> Value | None:
        """A field of an object that the body of a file has made, unless something in that file may change it."""
        if not base.links or name in stored_names(base.links[0].file.source):
            return None
        return self.analysis.global_state(base.links[0].file).attribute(base.ref, name)

    def _of_unknown_object(self, node: ast.Attribute, base: Value) -> Value:
        key = ("attribute", base.place.key, node.attr)
        if self._may_be_device(node):
            return self.analysis.named_device(Place(VAR, key), node.attr)
        return Value(UNKNOWN, Place(base.place.kind, key))

    def _may_be_device(self, node: ast.Attribute) -> bool:
        return self.analysis.is_device_name(node.attr) and not is_gpu_list(self.file.source, node)
