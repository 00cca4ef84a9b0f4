"""Calls of methods, layers and functions: what moves tensors, or brings them together."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from devfix.factories.layers import LENGTHS, Layers
from devfix.factories.meetings import Facts
from devfix.factories.operations import (
    ACCELERATED,
    FOREIGN,
    JOINING,
    KNOWN,
    REARRANGING,
    REDUCTIONS,
    SHAPING,
    STRICT,
    TENSOR_METHODS,
    WEAK_METHODS,
    integers,
    names_device,
    torch_name,
)
from devfix.factories.values import HERE, OTHER, UNKNOWN, Anchor, Fact, Form, element, listed
from devfix.flow import torch_api
from devfix.flow.evidence import looks_like_loss, looks_like_module
from devfix.flow.frame import path_of

_MOVES = frozenset({"to", "cuda", "cpu", "xpu", "npu", "type", "pin_memory"})
_TELLING = TENSOR_METHODS - WEAK_METHODS - {"size", "dim", "numel"}
# What comes from these is on the host.
_HOSTLY = re.compile(
    r"(?i)tokeni[sz]|(?:^|[._])(?:load|read|open|imread)(?:_|$)|(?:^|\.)processor$|dataset|numpy|collat|\bcpu\b|"
    r"(?:image|feature|video|text|audio)_?(?:processor|extractor)"
)
_MOVING = re.compile(r"\.(?:to|cuda)\(")
# The old types of tensors say where they are: `x.type(torch.LongTensor)` is on the CPU.
_TYPES = re.compile(r"^torch\.(cuda\.)?\w*Tensor$")
_WALKED = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "sorted", "tqdm", "iter"})


_CTC = re.compile("ctc", re.IGNORECASE)


class Calls(Layers):
    """Finds out what is called, and follows it."""

    def call(self, node: ast.Call) -> Fact:
        result = self._call(node)
        if result.form in (Form.UNKNOWN, Form.MAYBE) and _HOSTLY.search(path_of(node.func)):
            if not any(self.ev(argument).placed for argument in node.args):
                return HERE
        return result

    def _call(self, node: ast.Call) -> Fact:
        func = node.func
        arguments = [(a.value if isinstance(a, ast.Starred) else a, "") for a in node.args]
        arguments += [(k.value, k.arg or "**") for k in node.keywords]
        facts = [(a, self.ev(a), k) for a, k in arguments]
        root: ast.expr = func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.source.imports and root.id not in self.names:
            name = torch_name(self.source.qualified(func))
            if name.startswith("torch."):
                return self._torch(node, name, facts)
            return self._outside(node, name, facts)
        if isinstance(func, ast.Attribute):
            return self._method(node, func, self.ev(func.value), facts)
        if isinstance(func, ast.Name) and func.id in self.scopes.aliases and func.id not in self.names:
            return self._torch(node, self.scopes.aliases[func.id], facts)
        held = self.layer_of(func) if isinstance(func, (ast.Name, ast.Subscript)) else ""
        if held:
            given = self.layer(node, held, "", facts)
            return replace(given, anchor=replace(given.anchor, sure=False)) if given.anchor else given
        if isinstance(func, ast.Name):
            if func.id == "self" and self.module:
                return self._own(node, "self.forward", facts)
            return self._outside(node, func.id, facts)
        if isinstance(func, ast.Call) and self.source.qualified(func.func).endswith("Loss"):
            return self._loss(node, facts)
        self.ev(func)
        return self._result(facts)

    def _loss(self, node: ast.Call, facts: Facts) -> Fact:
        """What is compared must be in one place; what counts it may be anywhere."""
        several = sum(keyword == "" for _, _, keyword in facts) > 3
        compared = [
            (argument, self.tensor(argument, fact) if keyword == "" else fact)
            for at, (argument, fact, keyword) in enumerate(facts)
            if not (several or self._aligns(node)) or (at < 2 and keyword == "")
            if not LENGTHS.search(keyword or _named(argument))
        ]
        return self.combine(node, compared)

    def _criterion(self, path: str) -> bool:
        """Is it a loss, by its name or by what the file binds it to? What the file defines is followed instead."""
        if self.scopes.callee(path, self.owner) is not None:
            return False
        return looks_like_loss(path) or path.rpartition(".")[2] in self.scopes.criteria

    def _aligns(self, node: ast.Call) -> bool:
        """Is it a CTC loss, which takes the lengths to the CPU: by its name, or by what its name is bound to?"""
        last = path_of(node.func).rpartition(".")[2]
        if "ctc" in self.source.code(node.func).lower():
            return True
        bound = rf"\b{re.escape(last)}\b[ \t]*(?::[^=\n]{{1,300}})?=(?!=)[^\n]{{0,300}}ctc"
        return (
            bool(last)
            and self.source.matches(_CTC)
            and re.search(bound, self.source.text, re.IGNORECASE) is not None
        )

    def _method(self, node: ast.Call, func: ast.Attribute, base: Fact, facts: Facts) -> Fact:
        method = func.attr
        path = path_of(func)
        if path in self.names and self.names[path].form is not Form.UNKNOWN and base.form is not Form.TENSOR:
            return self._result(facts)
        if method == "forward" and path.startswith("self.") and path.count(".") == 2:
            path = path.removesuffix(".forward")
        if path.startswith("self.") and path.count(".") == 1 and self.owner is not None:
            return self._own(node, path, facts)
        if base.form is Form.LIST:
            return self._list_method(func, method, base, facts)
        if base.form is not Form.TENSOR:
            if method in ("to", "cuda") or (method == "apply" and _MOVING.search(self.source.code(node))):
                self._whole(path_of(func.value))
            if method in _MOVES and (method != "type" or self._typed(facts) is not None):
                moved = self._move(node, Fact(Form.TENSOR), method, facts)
                known = moved.anchor is not None or method in ("cpu", "pin_memory", "type")
                return moved if known else base
            if base.form is Form.MAYBE and method in _TELLING:
                return self.tensor(func.value, base)
            if looks_like_loss(method) and self.scopes.callee(path, self.owner) is None:
                return self._loss(node, facts)
            if base.form is Form.MAYBE and base.anchor is not None and method in REDUCTIONS:
                if isinstance(func.value, ast.Call) and looks_like_module(path_of(func.value.func)):
                    return replace(self.tensor(func.value, base), flat=None)
            owner = path.rpartition(".")[0]
            if method in ACCELERATED and owner.endswith("accelerator"):
                self._collective(node, method, facts[:1], f"{owner}.device")
                return UNKNOWN
            if base.form is Form.MAYBE and method in ("get", "pop"):
                return base
            return self._result([*facts, (func.value, base, "")])
        if method in _MOVES:
            return self._move(node, base, method, facts)
        if method in torch_api.TO_HOST:
            if method == "numpy":  # the others read what is on an accelerator as well
                self.hosted |= base.origins
                self.on_host(base)
            return OTHER
        if method in torch_api.NOT_TENSOR and method != "backward":
            return Fact(Form.OTHER, anchor=base.anchor)
        if method.startswith("new_"):
            for _, fact, _ in facts:
                self.settled |= fact.origins
            told = next((a for a, _, k in facts if k == "device"), None)
            return replace(base, filled=None, flat=None) if told is None else self._at(told)
        if method == "type_as" and facts:
            other = facts[0][1]
            return other if other.form is Form.TENSOR else Fact(Form.TENSOR)
        if method in FOREIGN:
            first = facts[0][1] if facts else UNKNOWN
            if method == "copy_":
                self.settled |= first.origins
            if method in ("copy_", "fill_") and first.placed and base.stray:
                self._fill(func.value, base, first)
            return base
        strict = method in STRICT or (method.endswith("_") and base.stray)
        others: list[tuple[ast.expr, Fact]] = []
        for at, (argument, fact, keyword) in enumerate(facts):
            if keyword != "generator" and not integers(method, at, keyword):
                others += (
                    [(argument, item) for item in fact.items]
                    if fact.form is Form.LIST
                    else [(argument, fact)]
                )
        if any(fact.form is Form.TENSOR for _, fact in others):
            if method in ("index_put_", "index_put"):
                return base
            if method.rstrip("_") not in JOINING or any(k == "device" for _, _, k in facts):  # none takes one
                return self._result(facts)
            return self.combine(node, [(func.value, base), *others], strict)
        if method in REDUCTIONS:
            return replace(base, flat=True if not facts else None, filled=base.filled)
        if method in SHAPING and (facts or method == "flatten"):
            return replace(base, flat=False)
        return base

    def _move(self, node: ast.Call, base: Fact, method: str, facts: Facts) -> Fact:
        """`x.to(device)`: where it is now."""
        moved = self._moved(node, base, method, facts)
        if moved is not base:
            self.settled |= base.origins
        return moved

    def _moved(self, node: ast.Call, base: Fact, method: str, facts: Facts) -> Fact:
        free = Fact(Form.TENSOR, flat=base.flat)
        if method in ("cpu", "pin_memory"):
            return free
        if method in ("cuda", "xpu", "npu"):
            text = self.source.code(node.args[0]) if node.args else f'"{method}"'
            return replace(free, anchor=Anchor(text, bool(node.args) and path_of(node.args[0]) != ""))
        told = next((a for a, _, k in facts if k == "device"), None)
        first = facts[0] if facts else None
        if told is None and first is not None and first[2] == "":
            argument, fact, _ = first
            code = self.source.code(argument)
            if method == "type" and (typed := self._typed(facts)) is not None:
                return replace(free, anchor=typed.anchor)
            if fact.form is Form.TENSOR:
                return replace(free, origins=fact.origins, anchor=fact.anchor)
            if method == "type":  # anything else may be a text such as "torch.cuda.FloatTensor"
                return base if self._is_dtype(argument) else free
            if "dtype" in code or (
                code.startswith(("torch.", "th.")) and not code.startswith("torch.device")
            ):
                return base if "cuda" not in code else free
            if fact.form is Form.DEVICE or names_device(code) or isinstance(argument, ast.Constant):
                told = argument
            else:
                return free if base.stray else base
        if told is None:
            return base if all(k != "**" for _, _, k in facts) else free
        at = self._at(told)
        return replace(at, flat=base.flat)

    def _is_dtype(self, node: ast.expr) -> bool:
        """Is it surely a type alone: `torch.float`, `x.dtype`, or a name that this scope binds to one?"""
        if isinstance(node, ast.Attribute):
            last = node.attr
            return last == "dtype" or (
                (self.source.qualified(node) or "").startswith("torch.") and last.islower()
            )
        if not isinstance(node, ast.Name):
            return False
        values = [
            one.value
            for one in self.source.walk(self.scope)
            if isinstance(one, ast.Assign) and any(path_of(target) == node.id for target in one.targets)
        ]
        return bool(values) and all(isinstance(one, ast.Attribute) and self._is_dtype(one) for one in values)

    def _whole(self, path: str) -> None:
        """A container is moved, and what was put into it."""
        if path and path != "self":
            for key in self.names.below(path):
                self.settled |= self.names.pop(key).origins

    def _typed(self, facts: Facts) -> Fact | None:
        """`x.type(torch.LongTensor)`, or a name for such a type: where the result is."""
        if not facts:
            return None
        argument = facts[0][0]
        known = argument.value if isinstance(argument, ast.Constant) else self.source.qualified(argument)
        text = known or path_of(argument)
        if not isinstance(text, str) or not text:
            return None
        found = _TYPES.match(text)
        if found is not None:
            return Fact(Form.TENSOR, anchor=Anchor('"cuda"', False) if found.group(1) else None)
        last = re.escape(text.rpartition(".")[2])
        named = re.search(rf"\b{last}\s*=[^=\n]*\.(?:cuda\.)?\w*Tensor\b(?!\()", self.source.text)
        return Fact(Form.TENSOR) if named is not None else None

    def _list_method(self, func: ast.Attribute, method: str, base: Fact, facts: Facts) -> Fact:
        path = path_of(func.value)
        if method in ("append", "insert", "extend") and facts:
            added = facts[-1][1]
            items = added.items if method == "extend" and added.form is Form.LIST else (added,)
            fresh = tuple(item for item in items if item not in base.items)
            if path and fresh:
                self.names[path] = listed((*base.items, *fresh))
            return OTHER
        return element(base) if method == "pop" else base if method == "copy" else UNKNOWN

    def _fill(self, target: ast.expr, base: Fact, value: Fact) -> None:
        """Device data is copied into a tensor of the default device: legal, but it stays there."""
        path = path_of(target)
        if path and base.filled is None:
            self.names[path] = replace(base, filled=value.anchor)

    def _own(self, node: ast.Call, path: str, facts: Facts) -> Fact:
        """`self.layer(x)`, `self.method(x)`."""
        assert self.owner is not None
        name = self.owner.layers.get(path, "")
        if "ctc" in path.lower():
            return UNKNOWN
        if self._criterion(path) and _compared(facts):
            return self._loss(node, facts)
        if name in torch_api.BARE_MODULES:
            return self.combine(node, [(a, f) for a, f, _ in facts])
        if name:
            return self.layer(node, path, name, facts)
        followed = self.inside(node, path, facts)
        if followed is not None:
            return followed
        if looks_like_module(path):
            return self.layer(node, path, "", facts)
        return self._result(facts)

    def _outside(self, node: ast.Call, name: str, facts: Facts) -> Fact:
        """A function out of sight."""
        last = name.rpartition(".")[2]
        if last in _WALKED and facts:
            if last == "enumerate":
                return listed((listed((OTHER, element(facts[0][1]))),))
            if last == "zip":
                return listed((listed(tuple(element(f) for _, f, _ in facts)),))
            return facts[0][1]
        if last in ("len", "int", "float", "bool", "str", "range", "isinstance", "hasattr", "round", "print"):
            return OTHER
        if name.startswith("math."):
            return OTHER
        if name in REARRANGING and facts:
            argument, fact, _ = facts[0]
            base = element(fact) if fact.form is Form.LIST else self.tensor(argument, fact)
            return (
                replace(base, flat=None if last == "reduce" else False) if base.form is Form.TENSOR else base
            )
        if name == "pyro.sample" and len(facts) > 1:
            return facts[1][1]
        if name == "einops.einsum":
            return self.combine(node, [(a, self.tensor(a, f)) for a, f, _ in facts], strict=True)
        if last in ("max", "min", "sum") and "." not in name:
            return UNKNOWN
        if name.startswith("numpy."):
            for _, fact, _ in facts:
                self.hosted |= fact.origins
                self.on_host(fact)
            return OTHER
        if self._criterion(last) and "ctc" not in last.lower() and _compared(facts):
            return self._loss(node, facts)
        if "distributed" in name or name in ("all_reduce", "reduce_tensor"):
            self._collective(node, last, facts)
        if last in KNOWN and not ("distributed" in name or "parallel" in name):
            known = [(a, item) for a, fact, _ in facts for item in (fact.items or (fact,))]
            if any(fact.placed for _, fact in known):
                return self.combine(node, known)
        if name.startswith("torchmetrics.functional."):
            return self.combine(node, [(a, self.tensor(a, f)) for a, f, _ in facts], certain=False)
        if "." not in name:
            followed = self.inside(node, name, facts)
            if followed is not None:
                return followed
        if name in ("copy.copy", "copy.deepcopy") and facts:
            return facts[0][1]
        return self._result(facts)


def _named(node: ast.expr) -> str:
    """`lengths` of `lengths[0].view(-1)`."""
    while isinstance(node, (ast.Subscript, ast.Call)) or (
        isinstance(node, ast.Attribute) and not path_of(node)
    ):
        node = node.func if isinstance(node, ast.Call) else node.value
    return path_of(node)


def _compared(facts: Facts) -> bool:
    return sum(fact.form in (Form.TENSOR, Form.MAYBE) for _, fact, _ in facts) > 1
