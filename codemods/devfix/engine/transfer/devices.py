"""Where devices are used: what is asked of them as strings or objects, and what they are given to."""

from __future__ import annotations

import ast

from devfix.engine import form_evidence, forms, missing
from devfix.engine.annotations import annotated, of_library
from devfix.engine.evidence import about_devices, is_module_name
from devfix.engine.facts import DeviceUse, Missing
from devfix.engine.files import Class
from devfix.engine.forms import NO_FORMS, Forms
from devfix.engine.frame import Arguments
from devfix.engine.places import LITERAL, OF, VAR, Place
from devfix.engine.transfer.results import Results
from devfix.engine.uses import MODULE_USES
from devfix.engine.values import (
    A_NUMBER,
    A_TEXT,
    ANYTHING,
    CLASS,
    DEVICE,
    MODULE,
    OBJECT,
    OWNER,
    TENSOR,
    TEXT,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.text.names import path_of
from devfix.text.source import Source, remembered

TEXT_METHODS = frozenset(name for name in dir(str) if name[0] != "_") - {"index"}
_OF_CUDA = ("device", "non_blocking", "memory_format", "async")  # the last one until torch 0.4
_SAME_TEXT = frozenset({"lower", "strip", "rstrip", "lstrip", "casefold"})
_OF_MODULES = MODULE_USES | {"cuda", "half", "state_dict", "load_state_dict"}


class Devices(Results):
    def device_use(
        self,
        sink: str,
        node: ast.AST,
        value: Value,
        at: ast.expr,
        against: Forms = NO_FORMS,
        name: str = "",
    ) -> None:
        """Note that a value of which forms are known is used as a device."""
        if self.quiet or self.file is not self.analysis.file:
            return
        parents = self.file.source.parents
        up = parents.get(at)
        if isinstance(up, ast.Starred) or (isinstance(up, ast.keyword) and up.arg is None):
            return  # it is one of several that are handed on: there is no expression of its own
        if node in parents:  # not what stands for a part of a chain, or for a getattr
            self.analysis.device_uses.append(
                DeviceUse(sink, node, self.function, value, at, value.forms, against, name)
            )

    # --- as a string or an object --------------------------------------------------------

    def device_method(self, node: ast.Call, base: Value, name: str) -> Value:
        """`d.split(":")`, `d.startswith("cuda")`: a method of what may be a device."""
        assert isinstance(node.func, ast.Attribute)
        if name in TEXT_METHODS:
            self.device_use("method", node, base, node.func.value, name=name)
        if name in _SAME_TEXT:
            return Value(TEXT, base.place, forms=forms.as_text(base.forms))
        return A_TEXT

    def text_method(self, node: ast.Call, base: Value, name: str) -> Value:
        """`"cuda:{}".format(i)` is a device; any other method of a string gives a string."""
        numbered = forms.begun(base.const) if name == "format" else NO_FORMS
        return Value(DEVICE, Place(VAR, id(node)), forms=numbered) if numbered else A_TEXT

    def device_attribute(self, node: ast.Attribute, base: Value) -> Value:
        """`d.type`, `d.index`."""
        if node.attr in form_evidence.OF_DEVICES:
            self.device_use("attribute", node, base, node.value, name=node.attr)
        if node.attr == "type":
            return Value(TEXT, base.place, role="type", forms=forms.as_type(base.forms))
        is_number = node.attr == "index" and base.forms and all(form.numbered for form in base.forms)
        return A_NUMBER if is_number else ANYTHING  # the index may be None

    def device_compared(self, node: ast.Compare, left: Value, right: Value) -> None:
        """`d == "cuda"`, `d is e`, `d in ("cuda", "cpu")`, `"cuda" in d`."""
        other = node.comparators[0]
        op = node.ops[0]
        self.expressed(node.left, "compare", right)
        self.expressed(other, "compare", left)
        left = self._by_uses(node, left, right)
        if isinstance(op, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            sink = "equal" if isinstance(op, (ast.Eq, ast.NotEq)) else "same"
            for one, at, beside in ((left, node.left, right), (right, other, left)):
                against = beside.forms or forms.mistaken(beside.const)
                if one.forms and against:
                    self.device_use(sink, node, one, at, against)
                    return
        elif isinstance(op, (ast.In, ast.NotIn)):
            if (right.forms or right.kind == DEVICE) and isinstance(left.const, str):
                self.device_use("inside", node, right, other, left.forms, left.const)
            elif left.forms and right.items and right.rest is None:
                texts = [one.const for one in right.items]
                found = [forms.of_text(one) for one in texts if isinstance(one, str)]
                if len(found) == len(texts) and any(found):
                    against = frozenset(one or forms.OPEN for one in found)
                    self.device_use("among", node, left, node.left, against)

    def _by_uses(self, node: ast.Compare, value: Value, other: Value) -> Value:
        """What is compared with a device, with the forms that its other uses tell where nothing else does."""
        uses = self.uses()
        if value.forms or uses is None or self.function is None:
            return value
        found = form_evidence.compared(node, other, self.function, uses.targets & uses.looped)
        if not found:
            return value
        name = self.file.source.code(node.left)
        return value.but(forms=found, assumed=value.assumed | {Assumption(USES, name)})

    def device_lookup(self, node: ast.expr, base: Value, index: Value, at: ast.expr) -> None:
        """`{"cuda": ..., "cpu": ...}[d]`."""
        found = set[forms.Form]()
        for key in base.fields or () if index.forms else ():
            form = forms.of_text(key) if isinstance(key, str) else None
            if form is None:
                return
            found.add(form)
        if found:
            self.device_use("lookup", node, index, at, frozenset(found))

    def device_matched(self, node: ast.Match, value: Value) -> None:
        """`match d: case "cuda": ...`."""
        parts = (one for case in node.cases for one in ast.walk(case.pattern))
        written = [one.value for one in parts if isinstance(one, ast.MatchValue)]
        texts = [one.value for one in written if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        found = [form for form in map(forms.of_text, texts) if form is not None]
        if value.forms and found and len(found) == len(written):
            self.device_use("lookup", node.subject, value, node.subject, frozenset(found))

    def declared(self, owner: Value | None, name: str) -> Forms:
        """The forms of an attribute that the body of a class annotates."""
        made = owner.ref if isinstance(owner, Value) else None
        for one in made.lineage if isinstance(made, Class) else ():
            if name in one.annotations:
                found = forms.annotated(one.file, one.annotations[name])
                # A field that is a plain string or number is mostly no device.
                return found if any(form.kind == forms.OBJECT for form in found) else NO_FORMS
        return NO_FORMS

    def declared_module(self, owner: Class, name: str) -> Value | None:
        """An attribute that a class, or the nearest base that says something, annotates with a library's module."""
        for one in owner.lineage:
            if name in one.declared:
                dotted = of_library(one.file, one.declared[name])
                place = Place(OF, ("declared", id(one.declared[name])))
                return Value(MODULE, place, bound=Value(CLASS, ref=dotted)) if dotted else None
        return None

    def told(self, node: ast.expr) -> tuple[str, Value, Value] | None:
        """What a test says of the forms of a name: the name, and its value where the test holds and where not."""
        name, holds = form_evidence.asked(self.file, node)
        value = self.lookup(name) if name else None
        if value is None or not value.forms:
            return None
        if holds is None:
            nothing = value.but(forms=NO_FORMS)
            return name, nothing, nothing
        yes: set[forms.Form] = set()
        no: set[forms.Form] = set()
        for one in value.forms:
            answer = holds(one)
            if answer is not False:
                yes.add(one._replace(claimed=one.claimed and answer is None))
            if answer is not True:
                no.add(one)
        return name, value.but(forms=frozenset(yes)), value.but(forms=frozenset(no))

    def annotated(self, value: Value, annotation: ast.expr) -> Value:
        """`d: torch.device = ...`: what the annotation says, where nothing else does."""
        if value.kind == UNKNOWN and value.place.is_named and annotated(annotation) == TENSOR:
            return value.but(kind=TENSOR, role="")
        if value.forms or value.kind not in (UNKNOWN, DEVICE):
            return value
        return value.but(forms=forms.annotated(self.file, annotation))

    # --- what cannot be evaluated --------------------------------------------------------

    def expressed(self, node: ast.expr, user: str, beside: Value | None = None) -> None:
        """Look at a device expression; of a comparison only where the other side is a device, or its type."""
        if self.quiet or self.file is not self.analysis.file:
            return
        if beside is not None and beside.kind != DEVICE and beside.role != "type":
            return
        if (node, user) in self.analysis.expressed:
            return
        self.analysis.expressed.add((node, user))
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                if self.lookup(part.id) is None and missing.is_unbound(self.file, self.function, part):
                    self._missing("name", part, part.id, user)
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                if self._is_me_by_name(part.value.id) and self.function is not None:
                    # A tensor says as well where an autocast is for, whatever the module is mixed into.
                    alone = user == "type"
                    if missing.is_unassigned(self.analysis, self.function, part.attr, alone=alone):
                        self._missing("attribute", part, part.attr, user)

    def _is_me_by_name(self, name: str) -> bool:
        """Is a name the first parameter of the method that runs, so that it is the object?"""
        function = self.function
        if function is None or self.me is None or function.static or function.of_class:
            return False
        return function.positional[:1] == [name]

    def _missing(self, kind: str, node: ast.AST, name: str, user: str, value: Value = ANYTHING) -> None:
        around = self.file.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        if around is not (self.function.node if self.function is not None else None):
            return  # an argument of a functools.partial that was made elsewhere
        self.analysis.missing.append(Missing(kind, node, name, user))

    def device_of(self, value: Value, fallback: object, text: str) -> Value:
        """`value.device`; of a module out of sight it is a torch.device, like that of a tensor."""
        made = super().device_of(value, fallback, text)
        if not made.forms and text.endswith((".weight", ".bias")):
            return made.but(kind=DEVICE, forms=forms.OF_TENSOR)  # of a layer out of sight
        if made.forms or value.kind not in (MODULE, OBJECT, OWNER):
            return made
        if any(one.startswith(self.analysis.models.owners_of_device) for one in self._library_classes(value)):
            return made.but(kind=DEVICE, forms=forms.OF_TENSOR)
        if value.kind != MODULE or isinstance(value.bound, Value):
            return made
        plain = value.links and value.links[0].name.startswith("torch.nn.")
        if plain or missing.may_be_named(self.file.source, "device"):
            return made
        return made.but(forms=forms.OF_TENSOR | {forms.OPEN})  # its own class may keep a string

    def _library_classes(self, value: Value) -> list[str]:
        """The classes of libraries that a module is of: by what made it, its annotation, or the bases of its class."""
        owner = (
            value.bound.ref if isinstance(value.bound, Value) else value.ref if value.kind == OWNER else None
        )
        if isinstance(owner, Class):
            return list(owner.outside)
        name = owner if isinstance(owner, str) else value.links[0].name if value.links else ""
        return [name] if self.analysis.models.layer(name) == "module" else []

    def is_run_as_module(self, node: ast.expr) -> bool:
        """Does the class use an attribute of `self` as a module, or a tensor?"""
        owner = self.function.owner if self.function is not None else None
        if owner is None or not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        if not self._is_me_by_name(node.value.id):
            return False
        return bool(_called(owner.file.source, owner.node).get(node.attr, set()) & _OF_MODULES)

    def plain_part(self, part: Value, name: str) -> Value:
        """An element of `module.children()` or `module.modules()`: of its class nothing is known."""
        return part if part.ref is not None or name == "values" else part.but(role="part")

    def no_device(self, node: ast.Attribute, base: Value) -> None:
        """`module.device` of what is nothing but a torch.nn.Module."""
        if not self.quiet and self.file is self.analysis.file and missing.is_plain(self.analysis, base):
            self._missing("module", node, self.file.source.code(node.value), "move", base)

    def no_keyword(self, node: ast.Call, name: str) -> None:
        """`device=` of a function that has no such keyword."""
        for keyword in node.keywords:
            if keyword.arg == "device" and not self.quiet and self.file is self.analysis.file:
                self._missing("keyword", node, name, "move")

    def no_keyword_of_cuda(self, node: ast.Call, base: Value) -> None:
        """`model.cuda(cuda_device=0)`: a module's and a tensor's `cuda` have no such parameter."""
        wrong = [one.arg for one in node.keywords if one.arg not in (None, *_OF_CUDA)]
        if not wrong or self.quiet or self.file is not self.analysis.file:
            return
        owner = base.bound.ref if base.bound is not None else None
        path = path_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        up = self.file.source.parents.get(node)
        rebound = isinstance(up, ast.Assign) and path_of(up.targets[0]) == path != ""  # as a tensor has to be
        if base.kind in (MODULE, TENSOR) or rebound or is_module_name(path.rpartition(".")[2]):
            if not (isinstance(owner, Class) and owner.method("cuda")):
                self._missing("cuda", node, wrong[0] or "", "move")

    def other_generator(self, node: ast.Call, name: str, generator: Value, place: Place) -> None:
        """`torch.randn(n, generator=of_the_cpu, device=device)`, or one of a device for a tensor of the CPU."""
        asked = any(about_devices(condition) for condition, _ in self.state.path)
        if generator.role != "generator" or asked or self.quiet or self.file is not self.analysis.file:
            return
        if generator.place.on_host and place.on_device:
            self._missing("generator", node, name, "make")
        elif generator.place.kind in (VAR, LITERAL) and place.on_host and self.analysis.default_is_known:
            self._missing("elsewhere", node, name, "make")

    def drawn_by(self, node: ast.Call, name: str, value: Value, arguments: Arguments) -> None:
        """`x.normal_(generator=g)`, `torch.multinomial(x, 2, generator=g)`: the generator has to be where `x` is."""
        given = arguments[1].get("generator")
        if given is not None and given[0].place.on_host:
            place = self.where(value)
            if place.kind in (VAR, LITERAL):
                self.other_generator(node, name, given[0], place)

    def draws_on_host(self, name: str, arguments: Arguments) -> None:
        """A loader, a sampler or a split is given a generator: it draws numbers on the CPU, wherever the data are."""
        if self.quiet or self.file is not self.analysis.file or not self.analysis.default_is_known:
            return
        for value, _ in (*arguments[0], *arguments[1].values()):
            made = value.links[0] if value.role == "generator" and value.links else None
            if made is None or made.file is not self.file or self.where(value).kind not in (VAR, LITERAL):
                continue
            if self.analysis.is_new((made.node, "draws"), value.assumed):
                self.analysis.missing.append(Missing("host", made.node, name, "make"))

    def index_lost(self, node: ast.expr, value: Value) -> None:
        """`.to(x.device.type)`."""
        if value.role == "type" and isinstance(node, ast.Attribute) and not self.quiet:
            if self.file is self.analysis.file:
                self._missing("index", node, self.file.source.code(node.value), "move", value)


@remembered
def _called(source: Source, owner: ast.ClassDef) -> dict[str, set[str]]:
    """Attribute of the objects of a class -> the methods that are called on it."""
    found: dict[str, set[str]] = {}
    for node in source.of_kind(ast.Call, owner):
        func = node.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Attribute):
            if isinstance(func.value.value, ast.Name):
                found.setdefault(func.value.attr, set()).add(func.attr)
    return found
