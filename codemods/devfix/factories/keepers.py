"""Classes that are no modules, and keep tensors of the CPU for their methods: nothing moves those along."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from devfix.factories.follow import Follow
from devfix.factories.owners import FUNCTIONS, Owner
from devfix.factories.scopes import Scopes
from devfix.factories.values import Fact, Origin

# Prepares data, as its name or that of its base says.
_DATA = re.compile(
    r"(?i)transform|data|loader|sampler|collat|augment|preproc|token|normali|crop|test|plot|vis"
)


@dataclass
class Kept:
    """What the methods of such classes find in `self`, and the methods that read it."""

    facts: dict[ast.ClassDef, dict[str, Fact]] = field(default_factory=dict)
    methods: list[ast.AST] = field(default_factory=list)
    early: set[Origin] = field(default_factory=set)  # made where `self.device` is not bound yet
    origins: set[Origin] = field(default_factory=set)


def kept(scopes: Scopes, around: dict[str, Fact]) -> Kept:
    """The tensors that `__init__` of a class makes and keeps, each bound once in the class."""
    found = Kept()
    for scope in sorted(scopes.makers, key=lambda node: getattr(node, "lineno", 0)):
        owner = scopes.owner(scope)
        if not isinstance(scope, FUNCTIONS) or scope.name != "__init__" or owner is None or owner.module:
            continue
        bases = " ".join(ast.unparse(base) for base in owner.node.bases)
        if _DATA.search(f"{owner.node.name} {bases}") or "Module" in bases:
            continue
        follow = Follow(scopes, scope, {**around, **dict(scopes.parameters(scope))}, owner)
        follow.run()
        facts = {
            path: fact
            for path, fact in follow.names.items()
            if path.startswith("self.") and path.count(".") == 1
            if fact.stray and fact.anchor is None and fact.flat is False
            if not fact.origins & (follow.hosted | follow.settled) and _once(owner, path)
        }
        if facts:
            found.facts.setdefault(owner.node, {}).update(facts)
            _note(scopes, scope, owner, facts, found)
    return found


def _note(scopes: Scopes, scope: ast.AST, owner: Owner, facts: dict[str, Fact], found: Kept) -> None:
    origins = {origin for fact in facts.values() for origin in fact.origins}
    found.origins |= origins
    start = scopes.source.span(owner.node).start
    bound = re.search(r"self\.device[ \t]*(?::[^=\n]{1,300})?=(?!=)", owner.code)
    for origin in origins:
        if bound is None or start + bound.start() > scopes.source.span(origin.call).start:
            found.early.add(origin)
    for item in owner.node.body:
        if isinstance(item, FUNCTIONS) and item is not scope and not scopes.hosted(item):
            code = scopes.source.code(item)
            if any(re.search(rf"{re.escape(path)}\b", code) for path in facts) and item not in found.methods:
                found.methods.append(item)


def _once(owner: Owner, path: str) -> bool:
    """Is an attribute bound once in its class, and moved nowhere?"""
    name = re.escape(path)
    bound = len(re.findall(rf"{name}\b[ \t]*(?::[^=\n]{{1,300}})?=(?!=)", owner.code))
    moved = re.search(
        rf"{name}(?:\[[^\]\n]{{0,200}}\])?\.(?:to|cuda|type_as|numpy|cpu|pin_memory)\(", owner.code
    )
    return bound == 1 and moved is None
