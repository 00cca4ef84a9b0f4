"""What an analysis knows of parameters and of the names of files, before and beside any call."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, cast

from devfix.engine import evidence
from devfix.engine.annotations import of_library, parameters
from devfix.engine.classes import Classes
from devfix.engine.files import Class, File, Function
from devfix.engine.forms import EITHER, NO_FORMS, OPEN, Forms, arms, of_elements, of_parameters
from devfix.engine.frame import Frame
from devfix.engine.joins import alike, join
from devfix.engine.places import (
    AT,
    AT_DEFAULT,
    NOWHERE,
    OF,
    ON_CPU,
    VAR,
    Place,
    is_called,
    is_parameter,
    whole,
)
from devfix.engine.relevance import Relevance
from devfix.engine.state import Names, State
from devfix.engine.transfer.statements import Run
from devfix.engine.uses import Evidence, Uses
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANYTHING,
    ARRAY,
    BATCH,
    CALLER,
    CLASS,
    DEVICE,
    LOADER,
    LOCAL,
    MODULE,
    NAME,
    NONE,
    NUMBER,
    PASS,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Assumptions,
    Link,
    Value,
)
from devfix.models import frameworks, torch_api
from devfix.models.loader import tensor_attributes

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis

_LISTS = frozenset({"list", "sequence", "iterable", "collection"})
_INPUTS = frozenset({"x", "input", "inputs", "features", "hidden_states"})


Bound = dict[str, Value]

_EXPRESSIONS = (ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.IfExp)


class Context:
    """Evidence for parameters, and the values of names that files define; each is found out once."""

    runs: type[Run] = Run  # what interprets functions

    def __init__(self, file: File) -> None:
        # The state of what defines a function, where that calls it first, or hands it on.
        self.first: dict[Function, State] = {}
        self.file = file
        self.classes: Classes
        self.calls: dict[tuple[object, str], list[Place]] = {}  # where what calls pass for a parameter is
        # The parameters for which calls pass loaders: whose collate function is in view, and over data that was moved.
        self.collated: dict[tuple[object, str], list[Value]] = {}
        self.over_moved: set[tuple[object, str]] = set()
        # Do modules that calls pass move their inputs? Of the caller's own parameters, their keys.
        self.scattering: dict[tuple[object, str], set[object]] = {}
        # Is what modules of classes in view give on the CPU, which calls pass for a parameter?
        self.gives_to_host: dict[tuple[object, str], set[bool]] = {}
        # What the loaders are called that calls pass for a parameter, where only names tell that they are loaders.
        self.named_loaders: dict[tuple[object, str], set[str]] = {}
        self.defined: dict[ast.expr, Value] = {}  # names as defaults: what they were then
        self._bodies: dict[str, Run] = {}
        self.relevance = Relevance()

    def class_kind(self, owner: Class) -> str:
        return self.classes.kind(owner)

    def uses(self, function: Function) -> Uses:
        found: Uses | None = function.remembered.get(Uses)
        if found is None:
            found = function.remembered[Uses] = Uses(function)
        return found

    def known(self, function: Function) -> dict[str, Evidence]:
        found: dict[str, Evidence] | None = function.remembered.get(parameters)
        if found is None:
            found = function.remembered[parameters] = parameters(function, self.uses(function))
        return found

    def forms(self, function: Function) -> dict[str, Forms]:
        """The forms of the parameters of a function that may be devices, by what is written about them."""
        key = of_parameters, self._moves(function)
        found: dict[str, Forms] | None = function.remembered.get(key)
        if found is None:
            found = function.remembered[key] = of_parameters(function, moves=key[1])
        return found

    def _moves(self, function: Function) -> bool:
        """Is this the `to` of a module, which is given devices in either form?"""
        owner = function.owner
        return function.name == "to" and owner is not None and self.class_kind(owner) == "module"

    def _declared_class(self, function: Function, name: str) -> Value | None:
        """The class that a parameter is annotated with: one in view, or the name of a library's module."""
        annotation = next((one.annotation for one in function.parameters if one.arg == name), None)
        if annotation is None:
            return None
        found = function.file.definition(annotation)
        if isinstance(found, Class):
            return Value(CLASS, ref=found)
        dotted = of_library(function.file, annotation)
        return Value(CLASS, ref=dotted) if dotted else None

    def _elements(self, function: Function, name: str) -> Forms:
        """The forms of the elements of a parameter that is a container of devices."""
        annotation = next((one.annotation for one in function.parameters if one.arg == name), None)
        return of_elements(function.file, annotation)

    def holds_modules(self, function: Function, name: str, *, others: bool = False) -> bool:
        """Is a parameter annotated as a list of modules; with `others`, also of something besides?"""
        annotation = next((one.annotation for one in function.parameters if one.arg == name), None)
        if not isinstance(annotation, ast.Subscript):
            return False
        if function.file.dotted(annotation.value).rpartition(".")[2].lower() not in _LISTS:
            return False
        each = [self._is_module_class(function, one) for one in arms(function.file, annotation.slice)]
        return any(each) if others else bool(each) and all(each)

    def _is_module_class(self, function: Function, node: ast.expr) -> bool:
        """Does a name stand for a class of modules: of torch, in view, or the base of the module around it?"""
        made, dotted, owner = function.file.definition(node), function.file.dotted(node), function.owner
        if isinstance(made, Class):
            return self.class_kind(made) == "module"
        of_owner = owner is not None and dotted in owner.outside and self.class_kind(owner) == "module"
        return of_owner or dotted in torch_api.MODULE_BASES

    def parameters(self, function: Function, me: Value | None) -> Bound:
        """The parameters before any caller is known: each is where it is."""
        found: Bound = {}
        owner = function.owner
        forward = (
            owner is not None
            and (
                evidence.is_forward_name(function.name)
                or function.name == "__call__"
                or function.name in frameworks.STEPS
            )
            and self.class_kind(owner) in ("module", "owned")
        )
        home = self.classes.place(owner) if forward and owner is not None else None
        names = function.positional[1:] if me is not None else function.positional
        if self.is_autograd(function):
            forward, names = True, function.positional[1:]
        if "collate" in function.name:
            home = AT_DEFAULT  # in data loading, as the name says
        for name, (kind, assumed) in self.known(function).items():
            first = bool(names) and name == names[0] and name not in function.defaults
            uses = self.uses(function)
            taken = first or name in _INPUTS or name in uses.sliced
            if forward and kind == UNKNOWN and taken and name not in uses.tokenized:
                used = {one.removesuffix("()") for one in uses.attributes.get(name, ())}
                kind = TENSOR if used <= tensor_attributes() else BATCH
                assumed = frozenset({Assumption(CALLER, name)})
            passed = (
                self._written(function, name) if kind == UNKNOWN and function.name == "__init__" else None
            )
            found[name] = passed or self.parameter(function, name, kind, assumed, home)
        arguments = function.node.args
        if arguments.vararg is not None:
            place = Place(OF, ("element", ("parameter", id(function.node), arguments.vararg.arg)))
            given = Value(UNKNOWN, place, forms=EITHER | {OPEN} if self._moves(function) else NO_FORMS)
            found[arguments.vararg.arg] = Value(SEQUENCE, rest=given)
        if arguments.kwarg is not None:
            place = Place(OF, ("parameter", id(function.node), arguments.kwarg.arg))
            found[arguments.kwarg.arg] = Value(UNKNOWN, place)
        return found

    def _written(self, function: Function, name: str) -> Value | None:
        """What every call in the file writes out for a parameter of a constructor: a tensor, or a list of numbers."""
        owner, found = function.owner, list[Value]()
        if owner is None or function.file is not self.file or name not in function.positional:
            return None
        body, index = self._body(self.file), function.positional.index(name) - 1
        for call in self.file.source.calls_by_name.get(owner.name, ()):
            at = next((one.value for one in call.keywords if one.arg == name), None)
            at = at or (call.args[index] if len(call.args) > index >= 0 else None)
            if at is None or any(isinstance(one, ast.Starred) for one in call.args):
                return None
            names = {one.id for one in ast.walk(at) if isinstance(one, ast.Name)}
            if not names <= self.file.source.imports.keys():
                return None
            body.quiet += 1
            try:
                found.append(body.eval(at))
            finally:
                body.quiet -= 1
            if found[-1].kind not in (TENSOR, SEQUENCE) or found[-1].kind != found[0].kind:
                return None
            found[-1] = body.passed(found[-1], at, name)
        made = found[0] if found else None
        for one in found[1:]:
            made = join(made, one) if made is not None else None
        return made

    def is_autograd(self, function: Function) -> bool:
        """Is this the forward or backward of a `torch.autograd.Function`? Results are wanted where its tensors are."""
        owner = function.owner
        return (
            owner is not None
            and function.name in ("forward", "backward")
            and function.static
            and any(base.rpartition(".")[2] == "Function" for base in owner.outside)
        )

    def parameter(
        self, function: Function, name: str, kind: str, assumed: Assumptions, home: Place | None
    ) -> Value:
        key = ("parameter", id(function.node), name)
        # What pytest gives to a test comes from fixtures, which make it on the CPU mostly.
        place = home or Place(AT if evidence.is_test(function.file.path, function.name) else OF, key)
        forms = self.forms(function).get(name, NO_FORMS)
        if kind == DEVICE and not forms and (inner := self._elements(function, name)):
            return Value(SEQUENCE, rest=Value(DEVICE, Place(VAR, ("element", key)), forms=inner))
        if kind == DEVICE:
            return Value(DEVICE, Place(VAR, key), assumed=assumed, forms=forms)
        if self.holds_modules(function, name):
            return Value(SEQUENCE, rest=Value(MODULE, Place(OF, key), ref=("elements", key)))
        if kind in (TENSOR, BATCH):
            return Value(kind, place, assumed=assumed)
        if kind == MODULE:
            return Value(MODULE, Place(OF, key), assumed=assumed, bound=self._declared_class(function, name))
        if kind == LOADER:
            role = "owned" if self.owns_loaders else ""
            known = self.collated.get((id(function.node), name), [])
            return Value(LOADER, assumed=assumed, role=role, like=alike(known))
        if kind == SEQUENCE:
            return Value(SEQUENCE, rest=A_NUMBER, assumed=assumed)
        if kind in (NUMBER, TEXT, ARRAY):
            made = Value(kind, Place(OF, key) if kind == NUMBER else NOWHERE, assumed=assumed, forms=forms)
            if kind == NUMBER and evidence.is_local_rank(name):
                return made.but(role=LOCAL, assumed=assumed | {Assumption(NAME, name)})
            return made
        if evidence.is_local_rank(name):
            return Value(UNKNOWN, place, role=LOCAL, forms=forms, assumed=frozenset({Assumption(NAME, name)}))
        if evidence.are_named_parameters(name):
            held = Value(TENSOR, place, role="parameter", assumed=frozenset({Assumption(USES, name)}))
            return Value(SEQUENCE, rest=Value(SEQUENCE, items=(A_TEXT, held)))
        return Value(UNKNOWN, place, forms=forms, bound=self._declared_class(function, name))

    def may_call(self, frame: Frame, function: Function) -> None:
        """What defines a function calls it, or hands it on: as everything is now, unless it has done so above."""
        if frame.function is function.outer and frame.file is self.file and function not in self.first:
            self.first[function] = frame.state.copy()

    def note_call(self, frame: Frame, node: ast.Call, function: Function, bound: Bound) -> None:
        """Remember where the arguments of a call are."""
        if frame.quiet or frame.function is function:
            return
        for name, value in bound.items():
            if value.kind in (MODULE, UNKNOWN):
                where = frame.where(value)
                what = where.key if is_parameter(where) else value.role == "scatters"
                self.scattering.setdefault((id(function.node), name), set()).add(what)
            if function.file is not self.file:
                continue
            if value.kind == LOADER and value.like is not None:
                self.collated.setdefault((id(function.node), name), []).append(value.like)
            if value.kind == LOADER and value.rest is not None and value.rest.is_moved:
                self.over_moved.add((id(function.node), name))
            if value.kind == LOADER and value.assumed:
                known = self.named_loaders.setdefault((id(function.node), name), set())
                known.update(one.subject for one in value.assumed)
            if is_called(value.place):
                continue  # that is as good as what the caller itself is given
            places = {frame.where(one) for one, _ in frame.tensors(value, function.node)}
            place = places.pop() if len(places) == 1 else NOWHERE
            place = value.place if value.kind == UNKNOWN and value.place.on_host else place
            self.calls.setdefault((id(function.node), name), []).append(place)

    def passed(self, place: Place) -> list[Place]:
        """Where the calls in the file have put what they pass for the parameter that a place is of."""
        key = whole(place)  # a part is passed with it
        if place.kind != OF or not isinstance(key, tuple) or key[0] != "parameter":
            return []
        return self.calls.get((key[1], key[2]), [])

    def _body(self, file: File) -> Run:
        found = self._bodies.get(file.path)
        if found is None:
            found = self._bodies[file.path] = self.runs(cast("Analysis", self), file, None, State())
            found.quiet = int(file is not self.file)
        return found

    def global_value(self, file: File, name: str) -> Value | None:
        """What the body of a file binds a name to."""
        body = self._body(file)
        found = body.state.names.get(name)
        if found is None and file is not self.file and name in file.globals:
            body.state.names[name] = ANYTHING
            found = body.state.names[name] = body.eval(file.globals[name])
        if found is not None and found.kind == NONE:
            return ANYTHING  # until somebody gives it a value
        return found

    def global_place(self, file: File, value: Value) -> Place:
        """Where the body of a file has put a value."""
        return self._body(file).state.where(value)

    def global_names(self, file: File) -> Names:
        return self._body(file).state.names

    def global_state(self, file: File) -> State:
        return self._body(file).state

    def constant(self, file: File, node: ast.expr) -> Value:
        """The value of a default, or of a name in the body of a class."""
        if isinstance(node, ast.Constant):
            return self._body(file)._constant(node)
        made = isinstance(node, ast.Call) and file.dotted(node.func).startswith("torch.")
        if made or isinstance(node, _EXPRESSIONS):
            body = self._body(file)
            body.quiet += 1
            try:
                return body.eval(node)
            finally:
                body.quiet -= 1
        return ANYTHING

    def default(self, file: File, node: ast.expr, name: str) -> Value:
        """The default of a parameter. Of the CPU, a caller that leaves it out need not know."""
        value = self.defined.get(node) or self.constant(file, node)
        if value.const == "cpu" or (value.kind == DEVICE and value.place == ON_CPU):
            return value.but(role="followed", links=(Link(PASS, file, node, name),))
        return value

    def is_device_name(self, name: str) -> bool:
        return evidence.is_device_name(name)

    def named_device(self, place: Place, name: str) -> Value:
        """A device, as its name says."""
        return Value(DEVICE, place, assumed=frozenset({Assumption(NAME, name)}))

    @cached_property
    def is_about_networks(self) -> bool:
        """Does the file use layers, or define modules? Its functions are then called with what is on devices."""
        imported = self.file.source.imports.values()
        return any(one == "torch.nn" or one.startswith("torch.nn.") for one in imported) or any(
            self.class_kind(one) in ("module", "owned") for one in self.file.all_classes
        )

    @cached_property
    def owns_loaders(self) -> bool:
        """Does the file use an object of a framework that places batches, and not only to derive from its class?

        Or do the collate functions of all loaders that it makes move what they give?
        """
        loaders = [
            one
            for name in self.file.source.calls_by_name
            if name.endswith("DataLoader")
            for one in self.file.source.calls_by_name[name]
        ]
        given = [word.value for one in loaders for word in one.keywords if word.arg == "collate_fn"]
        if given and len(given) == len(loaders) and all(map(self._moves_batches, given)):
            return True
        bases = {base for one in self.file.all_classes for base in one.outside}
        imported = [*self.file.source.imports.values()]
        names = {one.rpartition(".")[2] for one in frameworks.OWNERS}
        read = (one for one in self.file.source.of_kind(ast.Attribute) if one.attr in names)
        imported += map(self.file.dotted, read)  # `fabric: L.Fabric`
        return any(one in frameworks.OWNERS and one not in bases for one in imported)

    def _moves_batches(self, node: ast.expr) -> bool:
        """Is it a function of the file that moves something to a device?"""
        function = self.file.definition(node)
        code = function.file.source.code(function.node) if isinstance(function, Function) else ""
        return evidence.about_devices(code) and (".to(" in code or ".cuda(" in code)
