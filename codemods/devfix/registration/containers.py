"""Submodules in plain lists, tuples and dicts, and if a ModuleList or ModuleDict could stand there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devfix.findings import Edit, EnsureImport, ReplaceExpression, WrapExpression
from devfix.registration.classes import RESERVED, ModuleClass
from devfix.registration.holding import NOTHING, Held, Holding, odd_key, string_key
from devfix.registration.quick import may_hold_modules
from devfix.registration.stores import Method, Store, self_name
from devfix.source import Source, walk

# The author registers, hides or gathers them in a way of their own.
_OWN_WAYS = re.compile(r"add_module\(|register_module\(|setattr\(|__dict__|vars\(self|\._modules\b|__slots__")
_HIDDEN = re.compile(
    r"teacher|frozen|freeze|pretrain|\bema\b|_ema\b|ema_|momentum|"
    r"(?i:not? (?:be )?regist|avoid regist|without regist|unregist|hide|hidden from)"
)
_STILL = re.compile(r"requires_grad|no_grad|\.eval\(\)|teacher|frozen|freeze|pretrained")
# Attributes that are called like this hold modules.
_NAME = re.compile(
    r"(?:^|_)(?:heads?|layers?|blocks?|models?|nets?|networks?|encoders?|decoders?|modules?|experts?|branch(?:es)?|"
    r"convs?|linears?|mlps?|fcs?|norms?|embeddings?|adapters?|classifiers?|stages?|cells?|experts?)$"
)
# Uses that a ModuleList or ModuleDict allows as a list or dict does.
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"items", "keys", "values", "pop", "update", "clear"})
_READERS = frozenset(
    {
        "len", "enumerate", "zip", "reversed", "iter", "range", "print", "str", "repr", "bool",
        "list", "tuple", "sorted", "any", "all", "sum", "max", "min", "map", "next",
    }
)  # fmt: skip
# Done to each element by somebody who knows that the module does not do it.
_HANDLING = frozenset(
    {
        "to", "cuda", "cpu", "half", "float", "train", "eval", "parameters", "named_parameters",
        "state_dict", "load_state_dict", "zero_grad", "requires_grad_", "step",
    }
)  # fmt: skip
_REGISTERING = frozenset({"Sequential", "ModuleList", "ModuleDict", "ParameterList"})


@dataclass(frozen=True)
class Container:
    """A plain attribute that holds submodules. `sure`: each surely is an `nn.Module` with parameters."""

    owner: ModuleClass
    name: str
    stores: tuple[Store, ...]
    mapping: bool
    sure: bool
    edits: tuple[Edit, ...]
    use: ast.expr
    method: Method


class Containers:
    """Finds the containers of submodules of one file."""

    def __init__(self, source: Source, classes: tuple[ModuleClass, ...]) -> None:
        self.source = source
        self.classes = {info.node.name: info for info in classes}
        self.holding = Holding(source, classes)

    def find(self) -> Iterator[Container]:
        for owner in self.classes.values():
            if owner.is_container or owner.init is None or owner.super_call is None:
                continue
            names = [name for name, stores in owner.stores.items() if may_hold_modules(owner, stores)]
            if not names or _OWN_WAYS.search(owner.text):
                continue
            for name in names:
                stores = owner.stores[name]
                found = self._attribute(owner, name, stores)
                if found is not None:
                    yield found

    # --- one attribute -------------------------------------------------------------------------

    def _attribute(self, owner: ModuleClass, name: str, stores: tuple[Store, ...]) -> Container | None:
        if name in RESERVED or owner.handles(name) or owner.class_level(name) or _HIDDEN.search(name):
            return None
        added_later = tuple(s for s in stores if s.form == "augmented")
        stores = tuple(s for s in stores if s.form != "augmented")
        if not stores or any(
            not owner.builds(s.method) or s.form not in ("single", "typed", "unpack") for s in stores
        ):
            return None
        relatives = [*owner.lineage[1:], *owner.descendants]
        if any(name in other.stores for other in relatives):
            return None
        values = [s.part for s in stores if s.part is not None]
        if (
            len(values) < len(stores)
            or any(isinstance(v, ast.Constant) and v.value is None for v in values)
            or not owner.super_call
        ):
            return None
        registered = [v for v in values if self._registered(v)]
        values = [v for v in values if v not in registered]
        if not values or any(
            s.method is owner.init and s.statement.lineno < owner.super_call.lineno for s in stores
        ):
            return None
        held = [self.holding.container(owner, value) for value in values]
        if registered and not all(h.module and h.sure for h in held):
            return None  # who registers in one branch means what the other one says
        added = self._added(owner, name, added_later)
        if added is None or any(h is NOTHING for h in held) or not any(h.module for h in [*held, *added]):
            return None
        if any(not h.module and not h.empty for h in [*held, *added]):
            return None
        mapping = any(h.mapping for h in held)
        if any(h.mapping != mapping for h in held):
            return None
        if self._hidden(owner, name, stores, bool(added)):
            return None
        use = self._used(owner, name, mapping)
        if use is None:
            return None
        node, method, allowed, called = use
        modules = [h for h in [*held, *added] if h.module]
        sure = all(h.sure for h in modules)
        if not called or all(h.bare for h in modules):
            return None
        if any(h.guess for h in modules):
            allowed = False
            if method.name != "forward" or called != "directly":
                return None
        elif not sure and not _NAME.search(name) and called != "directly":
            return None
        wraps = tuple(node for h in modules for node in h.wraps)
        if (mapping and any(h.odd_keys for h in modules)) or (
            wraps and (mapping or "isinstance(" in owner.text)
        ):
            allowed = False
        edits = self._edits(values, wraps, mapping) if allowed else ()
        return Container(owner, name, stores, mapping, sure, edits, node, method)

    def _registered(self, value: ast.expr) -> bool:
        """Is it a ModuleList or ModuleDict already, as in the other branch?"""
        return isinstance(value, ast.Call) and self.source.qualified(value.func) in (
            "torch.nn.ModuleList",
            "torch.nn.ModuleDict",
        )

    def _added(self, owner: ModuleClass, name: str, augmented: tuple[Store, ...]) -> list[Held] | None:
        """What is appended to the attribute or stored under its keys later; None where that is not known."""
        found: list[Held] = []
        for store in augmented:
            held = self.holding.container(owner, store.value) if store.value is not None else NOTHING
            if held is NOTHING or not owner.builds(store.method):
                return None
            found.append(held)
        for load in owner.loads.get(name, ()):
            parent = self.source.parents[load]
            around = self.source.parents.get(parent)
            if isinstance(parent, ast.Attribute) and parent.attr in ("append", "insert"):
                if not isinstance(around, ast.Call) or not around.args:
                    return None
                held = self.holding.element(owner, around.args[-1])
                if held is NOTHING:
                    return None
                found.append(held)
            elif isinstance(parent, ast.Attribute) and parent.attr in ("extend", "update"):
                if not isinstance(around, ast.Call) or not around.args:
                    return None
                held = self.holding.container(owner, around.args[0])
                if held is NOTHING:
                    return None
                found.append(held)
            elif isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
                statement = self.source.statement(parent)
                if not isinstance(statement, ast.Assign) or not string_key(parent.slice):
                    return None
                held = self.holding.element(owner, statement.value)
                if held is NOTHING:
                    return None
                found.append(replace(held, odd_keys=odd_key(self.source, parent.slice)))
        return found

    # --- uses ----------------------------------------------------------------------------------

    def _hidden(self, owner: ModuleClass, name: str, stores: tuple[Store, ...], added: bool) -> bool:
        """Signs that somebody keeps these modules out of `parameters()` on purpose."""
        text = self.source.text
        for store in stores:
            span = self.source.span(store.statement)
            above = text.rfind("\n\n", 0, span.start)
            end = text.find("\n", span.end)
            near = text[max(above, span.start - 300) : end if end >= 0 else len(text)]
            if any(_HIDDEN.search(line) for line in near.splitlines() if "#" in line):
                return True
            if any(_STILL.search(line) for line in near.splitlines() if name in line):
                return True
            value = store.part
            alone = isinstance(value, (ast.List, ast.Tuple)) and len(value.elts) == 1 and len(stores) == 1
            if alone and not added:
                if not any(
                    isinstance(self.source.parents[n], ast.Attribute) for n in owner.loads.get(name, ())
                ):
                    return True
        return False

    def _used(
        self, owner: ModuleClass, name: str, mapping: bool
    ) -> tuple[ast.expr, Method, bool, str] | None:
        """A use outside the constructor, whether every use suits the new container, and how elements are run.

        None where the modules are registered, moved or gathered in another way.
        """
        allowed, called = True, ""
        first: tuple[ast.expr, Method] | None = None
        for node in self.source.walk():
            if not isinstance(node, ast.Attribute) or node.attr != name or not isinstance(node.ctx, ast.Load):
                continue
            around = self.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
            method = next((one for one in owner.methods.values() if one is around), None)
            if method is None or not isinstance(node.value, ast.Name) or node.value.id != self_name(method):
                if self.source.enclosing(node, ast.ClassDef) in {o.node for o in self.classes.values()}:
                    continue  # of another class, by the same name
                parent = self.source.parents[node]
                methods = _DICT_METHODS if mapping else _LIST_METHODS
                if isinstance(parent, ast.Attribute) and parent.attr not in methods:
                    continue  # no list has that: it is something else by the same name
                if self._use(node, mapping) != "fine":
                    return None
                continue
            use = self._use(node, mapping)
            if use == "registers":
                return None
            allowed = allowed and use != "other"
            if not owner.builds(method):
                run = self._calls(node, method)
                if run == "handled":
                    return None
                if run and called != "directly":
                    called, first = run, (node, method)
                first = first or (node, method)
        return (*first, allowed, called) if first is not None else None

    def _use(self, node: ast.Attribute, mapping: bool) -> str:
        """'fine', 'registers' or 'other'."""
        parent = self.source.parents[node]
        if isinstance(parent, ast.Starred) or self._registers(node):
            return "registers"
        if isinstance(parent, ast.Attribute):
            return "fine" if parent.attr in (_DICT_METHODS if mapping else _LIST_METHODS) else "other"
        if isinstance(parent, ast.Subscript) and parent.value is node:
            if isinstance(parent.ctx, ast.Del):
                return "other"
            if isinstance(parent.slice, ast.Slice):
                return "fine" if self._iterated(parent) else "other"
            return "fine"
        if isinstance(parent, ast.Call):
            last = self.source.code(parent.func).rpartition(".")[2]
            return "fine" if last in _READERS else "other"
        if self._iterated(node):
            return "fine"
        if isinstance(parent, ast.Compare) and isinstance(
            parent.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        ):
            return "fine"
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assert)):
            return "fine"
        return "other"

    def _registers(self, node: ast.AST) -> bool:
        """`nn.ModuleList(list(self.convs.values()))`"""
        while isinstance(node, (ast.expr, ast.comprehension)):
            child, node = node, self.source.parents[node]
            if isinstance(node, ast.Call) and child is not node.func:
                last = self.source.code(node.func).rpartition(".")[2]
                if last not in ("list", "tuple", "reversed", "sorted"):
                    return last in _REGISTERING
            elif isinstance(node, ast.Subscript) and child is not node.value:
                return False
        return False

    def _iterated(self, node: ast.expr) -> bool:
        parent = self.source.parents[node]
        if isinstance(parent, ast.Call):
            return self.source.code(parent.func) in ("enumerate", "zip", "reversed", "len")
        return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node

    def _calls(self, node: ast.Attribute, method: Method) -> str:
        """How elements are run there: "directly" (`layer(x)`), "" not at all, "by a method" of theirs.

        "handled" where each is moved, trained or saved by itself, or is given moved inputs.
        """
        parent = self.source.parents[node]
        if isinstance(parent, ast.Subscript) and not isinstance(parent.slice, ast.Slice):
            function: ast.AST = parent
            around = up = self.source.parents[parent]
            while isinstance(up, ast.Attribute) or (isinstance(up, ast.Subscript) and up.value is function):
                function, up = up, self.source.parents[up]
            if isinstance(up, ast.Call) and up.func is not function:
                return "directly" if _checkpoints(up) and up.args[0] is function else ""
            calls = [up] if isinstance(up, ast.Call) else []
            if calls and isinstance(function, ast.Subscript) and function is not parent:
                return "directly"  # `self.levels[i].blocks[j](x)`
            if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name):
                calls = _calls_of(method, {around.targets[0].id})
        else:
            loop: ast.AST = node
            while loop in self.source.parents and not isinstance(
                loop, (ast.For, ast.comprehension, ast.stmt)
            ):
                loop = self.source.parents[loop]
            if not isinstance(loop, (ast.For, ast.comprehension)):
                return ""
            targets = {n.id for n in walk(loop.target) if isinstance(n, ast.Name)}
            scope = loop if isinstance(loop, ast.For) else self.source.parents[loop]
            calls = _calls_of(scope, targets)
        run = ""
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in _HANDLING:
                return "handled"
            for argument in call.args:
                if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
                    if argument.func.attr in ("to", "cpu", "cuda"):
                        return "handled"
            run = run or ("by a method" if isinstance(call.func, ast.Attribute) else "directly")
            if not isinstance(call.func, ast.Attribute):
                run = "directly"
        return run

    # --- edits ---------------------------------------------------------------------------------

    def _edits(self, values: list[ast.expr], wraps: tuple[ast.expr, ...], mapping: bool) -> tuple[Edit, ...]:
        kind = "ModuleDict" if mapping else "ModuleList"
        written, imports = self._container(kind)
        edits: list[Edit] = [WrapExpression(self.source.span(node), f"{written}(", ")") for node in wraps]
        for value in values:
            span = self.source.span(value)
            empty = (isinstance(value, (ast.List, ast.Tuple)) and not value.elts) or (
                isinstance(value, ast.Dict) and not value.keys
            )
            if empty or (isinstance(value, ast.Call) and not value.args and not value.keywords):
                edits.append(ReplaceExpression(span, f"{written}()"))
            else:
                edits.append(WrapExpression(span, f"{written}(", ")"))
        return (*edits, *imports)

    def _container(self, kind: str) -> tuple[str, tuple[Edit, ...]]:
        """How the container class is written in this file, and the import it needs."""
        imports = self.source.imports
        for local, meaning in imports.items():
            if meaning == f"torch.nn.{kind}":
                return local, ()
        for local, meaning in imports.items():
            if meaning == "torch.nn":
                return f"{local}.{kind}", ()
        if imports.get("torch") == "torch":
            return f"torch.nn.{kind}", ()
        return f"nn.{kind}", (EnsureImport("torch", "nn"),)


def _calls_of(scope: ast.AST, names: set[str]) -> list[ast.Call]:
    """Calls of objects by their names, or of methods of theirs; `checkpoint(layer, x)` runs it, too."""
    found: list[ast.Call] = []
    names = {*names, *_inner_names(scope, names)}
    for node in walk(scope):
        if isinstance(node, ast.Call):
            base = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if _checkpoints(node) and isinstance(node.args[0], ast.Name):
                base = node.args[0]
            if isinstance(base, ast.Name) and base.id in names:
                found.append(node)
    return found


def _checkpoints(call: ast.Call) -> bool:
    """`checkpoint(layer, x)` runs the layer."""
    last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return "checkpoint" in last and bool(call.args)


def _inner_names(scope: ast.AST, names: set[str]) -> set[str]:
    """What loops over the named things bind: `for layer in block`."""
    return {
        name.id
        for node in walk(scope)
        if isinstance(node, (ast.For, ast.comprehension))
        and isinstance(node.iter, ast.Name)
        and node.iter.id in names
        for name in walk(node.target)
        if isinstance(name, ast.Name)
    }
