"""Submodules that are run: their inputs must be where their parameters are."""

from __future__ import annotations

import ast
import re

from devfix.factories.making import Making
from devfix.factories.meetings import Facts, Meeting
from devfix.factories.operations import WEIGHTED, WITH_WEIGHT
from devfix.factories.values import UNKNOWN, Anchor, Fact, Form
from devfix.flow import torch_api
from devfix.flow.frame import path_of

LENGTHS = re.compile(r"(?:^|[._])\w{0,80}len(?:s|gths?)?$")
# What gives the same modules one by one, and what gives each with something before it.
_ONE_BY_ONE = frozenset({"reversed", "list", "tuple", "iter", "tqdm", "values", "children", "modules"})
_IN_PAIRS = frozenset({"enumerate", "items", "named_children", "named_modules"})


class Layers(Making):
    """Which submodule of the class is run, and what that says of its inputs."""

    held: dict[str, str]  # names that stand for submodules, in `for layer in self.layers`

    def layer_of(self, node: ast.expr) -> str:
        """The path of the submodule, or of the container of submodules, that an expression stands for."""
        if isinstance(node, ast.Name):
            return self.held.get(node.id, "")
        if self.owner is None or not self.owner.module:
            return ""
        if isinstance(node, ast.Subscript):
            path = path_of(node.value)
            return path if path in self.owner.containers else ""
        path = path_of(node)
        return path if path in self.owner.layers and path not in self.owner.containers else ""

    def hold(self, target: ast.expr, value: ast.expr | None, iterated: bool = False) -> None:
        """Note which names stand for submodules: `layer = self.layers[0]`, `for i, layer in enumerate(..)`."""
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = _parts(value) if iterated else list(getattr(value, "elts", []))
            for index, one in enumerate(target.elts):
                self.hold(one, parts[index] if index < len(parts) else None, iterated)
        elif isinstance(target, ast.Name):
            self.held.pop(target.id, None)
            if value is None or self.owner is None or not self.owner.module:
                return
            whole = path_of(_whole(value)) if iterated else ""
            path = whole if whole in self.owner.containers else "" if iterated else self.layer_of(value)
            if path:
                self.held[target.id] = path

    def layer(self, node: ast.Call, path: str, name: str, facts: Facts) -> Fact:
        """A submodule is run: its inputs must be where its parameters are."""
        placed = next((f for _, f, _ in facts if f.placed), None)
        anchor = placed.anchor if placed is not None else None
        if anchor is None and self.owner is not None:
            if getattr(self.scope, "name", "") in self.owner.started:
                return UNKNOWN  # when the module is built, it is where it is made
        weighted = name in WEIGHTED
        if anchor is None and name in WITH_WEIGHT:
            anchor = Anchor(f"{path}.weight.device")
        spread = [(a, item, k) for a, fact, k in facts for item in (fact.items or (fact,))]
        for argument, fact, keyword in spread:
            # Lengths are wanted on the CPU by packed sequences, and a number is a number to most.
            if (
                not fact.stray
                or not (weighted or fact.flat is False)
                or (LENGTHS.search(keyword or path_of(argument)) and not _table(fact))
            ):
                continue
            if anchor is None and not weighted and not self._runs(node, path, name):
                continue
            at = anchor or Anchor("", False)
            how = "is an input of"
            self.meetings.append(Meeting(fact.origins, node, at, path, how, weighted and at is anchor))
        return Fact(Form.TENSOR, anchor=anchor) if anchor is not None else UNKNOWN

    def _runs(self, node: ast.Call, path: str, name: str) -> bool:
        """Is what is called a part of the class that is on a device that the class tells?"""
        owner = self.owner
        if owner is None or not path.startswith("self.") or (self.module and not owner.weights):
            return False
        if any(keyword.arg == "device" for keyword in node.keywords):
            return False  # it takes care of devices itself
        if self.module:
            return name not in torch_api.BARE_MODULES
        return not name and owner.device


def _table(fact: Fact) -> bool:
    """Has it two dimensions? A packed sequence takes its lengths in one."""
    return all(
        origin.call.args
        and isinstance(first := origin.call.args[0], (ast.Tuple, ast.List))
        and len(first.elts) > 1
        and origin.name in ("torch.zeros", "torch.ones", "torch.full")
        for origin in fact.origins
    )


def _last(node: ast.Call) -> str:
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _whole(node: ast.expr) -> ast.expr:
    """The container that is gone through: `self.layers` of `reversed(self.layers[1:])`."""
    while True:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            node = node.value
        elif isinstance(node, ast.Call) and _last(node) in _ONE_BY_ONE:
            if not isinstance(node.func, ast.Attribute) and not node.args:
                return node
            node = node.args[0] if node.args else getattr(node.func, "value", node)
        else:
            return node


def _parts(node: ast.expr | None) -> list[ast.expr | None]:
    """What the parts of each element come from: `zip(a, b)`, `enumerate(a)`."""
    if not isinstance(node, ast.Call):
        return []
    if _last(node) == "zip":
        return list(node.args)
    if _last(node) in _IN_PAIRS:
        return [None, node.args[0] if node.args else getattr(node.func, "value", None)]
    return _parts(node.args[0]) if _last(node) in _ONE_BY_ONE and node.args else []
