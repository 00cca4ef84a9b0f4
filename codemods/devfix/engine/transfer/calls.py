"""Calls of the program's own functions and classes."""

from __future__ import annotations

import ast
from functools import partial

from devfix.engine.collections import Record
from devfix.engine.events import USED, moved_by
from devfix.engine.evidence import is_handed_name, is_module_name
from devfix.engine.evidence_of_modules import class_of, is_average, is_network_name
from devfix.engine.facts import LeftOut
from devfix.engine.files import Class, Function
from devfix.engine.frame import Arguments, Frame, Lambda, Partial
from devfix.engine.places import (
    AT,
    BY_OWNER,
    CALLED,
    IN,
    LITERAL,
    NOWHERE,
    OF,
    VAR,
    Place,
    is_parameter,
)
from devfix.engine.relevance import is_plain, is_stub
from devfix.engine.transfer.lambdas import Lambdas
from devfix.engine.transfer.requirements import is_loaded
from devfix.engine.uses import speaks_of
from devfix.engine.values import (
    ANYTHING,
    BATCH,
    CLASS,
    DEVICE,
    FUNCTION,
    LIBRARY,
    LIBRARY_CALL,
    MAKE,
    MAPPING,
    MODULE,
    NAME,
    NONE,
    NOTHING,
    OBJECT,
    RECURSIVE,
    SEQUENCE,
    SEVERAL,
    TENSOR,
    UNKNOWN,
    USES,
    Assumption,
    Value,
)
from devfix.models.loader import public

MAX_DEPTH = 6
_WRAPPERS = frozenset({"wrapper", "scatters"})


class Calls(Lambdas):
    def arguments(self, node: ast.Call) -> Arguments:
        values = []
        self.analysis.named.note(self, node)
        for one in node.args:
            if isinstance(one, ast.Starred):
                inner = self.eval(one.value)
                if inner.items is not None and inner.rest is None:
                    values += [(item, one.value) for item in inner.items]
                else:
                    values.append((self.iterate(inner, one), one.value))
            else:
                values.append((self.eval(one), one))
        keywords: dict[str, tuple[Value, ast.expr]] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value, keyword.value
            elif value.fields:
                self.left_behind(
                    node, [(one, keyword.value) for one in value.fields.values()], "the container"
                )
                for key, held in value.fields.items():
                    if isinstance(key, str):
                        keywords.setdefault(key, (held, keyword.value))
            elif value.kind == BATCH:
                keywords["**"] = value, keyword.value
            elif value.kind == MAPPING and value.rest is not None:
                keywords["**"] = value.rest, keyword.value
        return values, keywords

    def call(self, node: ast.Call) -> Value:
        func = node.func
        if isinstance(func, ast.Attribute):
            inner = func.value
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "super":
                return self._super(node, func.attr, self.arguments(node))
            base = self.eval(inner)
            if base.kind == LIBRARY:
                return self.call_value(node, self.library(f"{base.ref}.{func.attr}"), self.arguments(node))
            if base.kind == CLASS and isinstance(base.ref, Class):
                return self._of_class(node, base.ref, func.attr, self.arguments(node))
            if base.role == SEVERAL:
                given = self.arguments(node)
                return self.one_of(
                    [partial(self.method, node, one, func.attr, given) for one in base.items or ()]
                )
            return self.method(node, base, func.attr, self.arguments(node))
        if isinstance(func, ast.Name):
            found = self.lookup(func.id)
            if found is None:
                found = self.named(func.id, func)
                if found.kind == UNKNOWN:
                    return self.builtin(node, func.id, found, self.arguments(node))
            return self.call_value(node, found, self.arguments(node))
        if isinstance(func, ast.Subscript) and self._is_kernel(func.value):
            return self._launch(node, self.arguments(node))
        return self.call_value(node, self.eval(func), self.arguments(node))

    def _is_kernel(self, node: ast.expr) -> bool:
        """Is it a function in view that Triton compiles?"""
        found = self.file.definition(node)
        if not isinstance(found, Function):
            return False
        return any(
            found.file.dotted(getattr(one, "func", one)) == "triton.jit" for one in found.node.decorator_list
        )

    def _launch(self, node: ast.Call, arguments: Arguments) -> Value:
        """A Triton kernel, `kernel[grid](x, out, n)`, takes pointers of tensors: all of one device."""
        given = [*arguments[0], *arguments[1].values()]
        operands: list[tuple[Value, ast.AST]] = [one for one in given if one[0].kind == TENSOR]
        self.together(node, operands, "the kernel", strict=True)
        return NOTHING

    def call_value(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        kind, ref = callee.kind, callee.ref
        if callee.role == SEVERAL:
            several = callee.items or ()
            fit = [one for one in several if not self._is_refused(node, one, arguments)] or several
            calls = [partial(self.call_value, node, one, arguments) for one in fit]
            decided = callee.ref is not None and len(fit) == len(several)
            return self.one_of(calls, callee.ref[1] if decided else None)
        if kind == MODULE or (kind == UNKNOWN and (callee.links or callee.place.is_named)):
            self.element_used(callee, "__call__", node)
        declared = callee.bound.ref if kind == UNKNOWN and isinstance(callee.bound, Value) else None
        if isinstance(declared, Class) and self.analysis.class_kind(declared) == "module":
            return self.call_module(node, callee.but(kind=MODULE), arguments)
        if kind == FUNCTION:
            if isinstance(ref, Function):
                return self.call_function(
                    node, ref, callee.bound, arguments, self.analysis.closures.get(id(callee))
                )
            if isinstance(ref, Partial):
                made = self.call_value(
                    node, ref.callee, ([*ref.values, *arguments[0]], {**ref.keywords, **arguments[1]})
                )
                return self.made_by_partial(made, ref)
            if isinstance(ref, Record):
                return ref.made(arguments)
            if isinstance(ref, Lambda):
                return self.call_lambda(ref.node, self.analysis.frames[ref.run], arguments)
        if kind == CLASS and isinstance(ref, Class):
            return self.instantiate(node, ref, arguments)
        if kind == LIBRARY:
            return self.library_call(node, str(ref), arguments)
        if kind == MODULE or (callee.role == "instance" and self.where(callee).on_device):
            if self.where(callee).kind in (VAR, LITERAL):  # moved and called: a module, whatever its name
                used = {Assumption(USES, one.subject) if one.kind == NAME else one for one in callee.assumed}
                callee = callee.but(assumed=frozenset(used))
            return self.call_module(node, callee, arguments)
        self.note(USED, node, callee, node.func, name="called")
        self.given_run(node, callee, callee.place, arguments)
        if callee.role == "part" and callee.ref is not None:
            return self.call_module(node, self.part_of(callee, node), arguments)
        if callee.role == "instance" and is_network_name(class_of(callee.links[0].name)):
            assumed = callee.assumed | {Assumption(NAME, callee.links[0].name)}
            made = callee.but(kind=MODULE, role="", place=Place(IN, callee.ref), assumed=assumed)
            return self.call_module(node, made, arguments)
        if kind == UNKNOWN and callee.role == "scatters":
            return self.unknown(node)
        if is_loaded(callee) and isinstance(node.func, (ast.Name, ast.Attribute)):
            if self.unmoved(node.func):
                loaded = callee.but(kind=MODULE).doubted(Assumption(USES, self.file.source.code(node.func)))
                return self.call_module(node, loaded, arguments)
        if kind == UNKNOWN and callee.role == "moved" and callee.place.on_device:
            return self.call_module(node, callee.but(kind=MODULE), arguments)
        if kind == OBJECT:
            return self.own_method(node, callee, "__call__", arguments)
        if kind == DEVICE and callee.forms:
            return callee  # a function that gives a device
        name = self.file.source.code(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
        if kind in (UNKNOWN, NONE) and is_module_name(name.rpartition(".")[2]):
            module = Value(MODULE, callee.place, assumed=frozenset({Assumption(NAME, name)}))
            given = [*arguments[0], *arguments[1].values()]
            self.analysis.named.ran(self, node, (module, node.func), given, runs=True)
        made = self.unknown_call(node, name, arguments)
        if made.kind == UNKNOWN and made.place.kind == AT and callee.place.kind == OF and self.is_forward():
            if self.me is not None and name.startswith("self."):  # a part that the module was given
                assumed = frozenset({Assumption(LIBRARY_CALL, f"{name}()"), Assumption(USES, f"{name}()")})
                return Value(UNKNOWN, self.where(self.me), role="given", assumed=assumed)
        if made.place.kind == AT and is_parameter(callee.place):
            return made.but(place=Place(AT, (CALLED, id(node), self.depth)))
        return made

    def _is_refused(self, node: ast.Call, callee: Value, arguments: Arguments) -> bool:
        """Does the constructor of a class in view not take these arguments? Then no object of it is ever made."""
        init = callee.ref.method("__init__") if isinstance(callee.ref, Class) else None
        return init is not None and _lacks(node, init, callee, self._bound(node, init, callee, arguments))

    def unmoved(self, at: ast.Name | ast.Attribute) -> bool:
        """Does nothing in the file move what is called so?"""
        path = ast.unparse(at)
        moves = map(moved_by, self.file.source.calls)
        return all(moved is None or ast.unparse(moved) != path for moved in moves)

    # --- modules -------------------------------------------------------------------------

    def _super(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        owner = self.function.owner if self.function is not None else None
        if owner is None or self.me is None:
            return ANYTHING
        found = next((one.methods[name] for one in owner.lineage[1:] if name in one.methods), None)
        if found is not None:
            return self.call_function(node, found, self.me, arguments)
        if name in ("to", "cuda", "cpu"):
            return self.me
        if name in ("register_buffer", "register_parameter", "add_module"):
            return self.module_method(node, self.me, name, arguments)
        self.handed_to_base(owner, arguments)
        self.based(node, self.me, name, arguments)
        return self.like_given(node, f"super().{name}", arguments)

    def _of_class(self, node: ast.Call, owner: Class, name: str, arguments: Arguments) -> Value:
        """`Class.method(...)`."""
        found = owner.method(name)
        if found is None:
            if name in ("from_pretrained", "from_config", "load_from_checkpoint"):
                return self.instantiate(node, owner, ([], {}), open_=True)
            return self.unknown_call(node, f"{owner.name}.{name}", arguments)
        if found.of_class:
            return self.call_function(node, found, Value(CLASS, ref=owner), arguments)
        if found.static or not arguments[0]:
            return self.call_function(node, found, None, arguments)
        return self.call_function(node, found, arguments[0][0][0], (arguments[0][1:], arguments[1]))

    def instantiate(
        self, node: ast.Call, owner: Class, arguments: Arguments, *, open_: bool = False
    ) -> Value:
        """An object of a class in view: its constructor is run."""
        what = self.analysis.class_kind(owner)
        cell = (id(node), self.site, owner.name)
        if any(base.startswith("torch.optim.") and base.endswith("Optimizer") for base in owner.outside):
            return self.optimizer(node, owner.name, arguments)
        if what == "other":
            return self.unknown_object(node, owner.name, arguments)
        wrapper = next((one for one in owner.outside if self.models.layer(public(one)) in _WRAPPERS), "")
        if wrapper and owner.method("__init__") is None and owner.method("forward") is None:
            return self.library_call(node, wrapper, arguments)  # it adds ways to reach what it wraps
        if not owner.methods and any(base.endswith("NamedTuple") for base in owner.outside):
            return Record(owner.fields).made(arguments)
        made = Value(
            MODULE if what == "module" else OBJECT,
            Place("in", cell),
            ref=cell,
            bound=Value(CLASS, ref=owner),
            links=(self.link(MAKE, node, owner.name),),
        )
        if what == "host":
            self.keeps_on_host(arguments)
        if what == "module":
            self.state.bear(cell, self.default if self.analysis.default_is_known else NOWHERE)
        if what == "owned":
            self.state.bear(cell, BY_OWNER)
            made = made.but(kind=MODULE)
        if made.kind == MODULE:
            self.analysis.made[cell] = made
        else:
            several = [
                one for one in (*arguments[0], *arguments[1].values()) if one[0].kind in (SEQUENCE, MAPPING)
            ]
            self.analysis.inside[cell] = [part for one in several for part, _ in self.tensors(*one)]
        init = owner.method("__init__")
        if init is not None:
            self.call_function(node, init, made, arguments)
        else:
            self.handed_to_base(owner, arguments)
        if init is None and what == "object":
            self.fields(node, cell, owner, arguments)
            after = owner.method("__post_init__")
            if after is not None:
                self.call_function(node, after, made, ([], {}))
        if is_average(owner.name) and not speaks_of(owner, "to", "cuda", "device"):
            self.copied_beside(node, arguments)
        if any(self.models.layer(public(base)) == "scatters" for base in owner.outside):
            made = made.but(role="scatters")
        elif what == "module" and not self.analysis.classes.has_state(self.state, cell, owner):
            made = made.but(role="stateless")
        return made

    # --- functions -----------------------------------------------------------------------

    def call_function(
        self,
        node: ast.Call,
        function: Function,
        me: Value | None,
        arguments: Arguments,
        outer: Frame | None = None,
    ) -> Value:
        """Run a function with these arguments, or take what an equal run came to."""
        if is_stub(function):  # what it does is out of sight
            self.escape(arguments, function.name)
            return self.like_given(node, function.name, arguments)
        bound = self._bound(node, function, me, arguments)
        self._left_out(node, function, bound)
        self.analysis.note_call(self, node, function, bound)
        if me is None and function.file is not self.analysis.file and self._is_irrelevant(function, bound):
            return self.unknown(node)
        if (
            self.depth >= MAX_DEPTH
            or not self.analysis.may_run(self, function)
            or _lacks(node, function, me, bound)
        ):
            return self.not_followed(node, function, me, arguments)
        given = [*arguments[0], *arguments[1].values()]
        if me is not None:
            given.append((me, node.func.value if isinstance(node.func, ast.Attribute) else node.func))
        made = self.analysis.run_call(self, node, function, me, bound, outer, given)
        self.handed_type(node, function, me, arguments)
        return made.but(role="") if made.role == RECURSIVE else made

    def _is_irrelevant(self, function: Function, bound: dict[str, Value]) -> bool:
        """Is a function given, and does it make, nothing that may have a device?"""
        return all(map(is_plain, bound.values())) and not self.analysis.relevance.of(function)

    def _left_out(self, node: ast.Call, function: Function, bound: dict[str, Value]) -> None:
        """Note that a call says nothing of the one device that a function takes."""
        if self.quiet or self.file is not self.analysis.file or node in self.analysis.left_out:
            return
        names = [name for name in function.defaults if is_handed_name(name)]
        if len(names) != 1 or names[0] in bound or node not in self.file.source.parents:
            return
        spread = names[0] in function.positional and any(isinstance(one, ast.Starred) for one in node.args)
        if not spread and all(one.arg for one in node.keywords):
            self.analysis.left_out[node] = LeftOut(
                node, self.function, function, names[0], self.scopes(), self.state.path
            )

    def _bound(
        self, node: ast.Call, function: Function, me: Value | None, arguments: Arguments
    ) -> dict[str, Value]:
        values, keywords = arguments
        names = function.positional
        if me is not None and not function.static and names:
            names = names[1:]
        bound: dict[str, Value] = {}
        for name, (value, at) in zip(names, values, strict=False):
            bound[name] = self.passed(value, at, name)
        if values and len(values) == len(node.args) and isinstance(node.args[-1], ast.Starred):
            value, at = values[-1]
            left = [
                one for one in names[len(values) :] if value.kind == BATCH and one not in function.defaults
            ]
            bound.update((one, self.passed(value, at, one)) for one in left)
        for name, (value, at) in keywords.items():
            bound[name] = self.passed(value, at, name)
        rest = values[len(names) :]
        if function.node.args.vararg is not None:
            items = tuple(value for value, _ in rest[:8])
            bound[function.node.args.vararg.arg] = Value(SEQUENCE, items=items)
        if function.node.args.kwarg is not None:
            known = {one.arg for one in function.parameters}
            extra = {name: bound.pop(name) for name in list(bound) if name not in known and name in keywords}
            bound[function.node.args.kwarg.arg] = Value(MAPPING, fields=extra)
        return bound


def _lacks(node: ast.Call, function: Function, me: Value | None, bound: dict[str, Value]) -> bool:
    """Does a call leave out what a function has no default for? Then another one is meant: this one would raise."""
    if function.decorators or (me is None) != (function.owner is None):
        return False
    names = function.positional[me is not None and not function.static :]
    if all(name in bound or name in function.defaults for name in names):
        return False
    if any(isinstance(one, ast.Starred) for one in node.args) or not all(one.arg for one in node.keywords):
        return False
    return len(bound) >= len(node.args) + len(node.keywords)
