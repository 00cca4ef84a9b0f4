"""All functions of a file that are worth following, followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.factories.follow import Follow
from devfix.factories.keepers import Kept, kept
from devfix.factories.named import Names
from devfix.factories.owners import FUNCTIONS
from devfix.factories.scopes import Scopes
from devfix.factories.values import Fact


def of_file(scopes: Scopes) -> tuple[list[Follow], list[Follow], Kept]:
    """What makes tensors, and what calls it; who gives these their tensors; what classes keep.

    Nothing, where nothing comes together.
    """
    if not scopes.makers:
        return [], [], Kept()
    around = scopes.globals()
    keeping = kept(scopes, around)
    roots = scopes.roots()
    roots += [method for method in keeping.methods if method not in roots]

    def followed(scope: ast.AST) -> list[Follow]:
        owner = scopes.owner(scope)
        return list(
            _followed(scopes, scope, {**around, **(keeping.facts.get(owner.node, {}) if owner else {})})
        )

    follows = [follow for scope in roots for follow in followed(scope)]
    escaping = sorted({follow.gives() for follow in follows} - {""})
    callers = [scope for scope in scopes.callers(escaping) if scope not in roots]
    follows += [follow for scope in callers for follow in followed(scope)]
    if not any(follow.meetings for follow in follows):
        return [], [], keeping
    # Who calls what meets its parameters tells whether those are of the default device, too.
    called = sorted({getattr(f.scope, "name", "") for f in follows if f.meetings} - {"", "forward"})
    seen = {follow.scope for follow in follows}
    callers = [scope for scope in scopes.callers(called, host=True) if scope not in seen]
    return follows, [follow for scope in callers for follow in followed(scope)], keeping


def _followed(scopes: Scopes, scope: ast.AST, names: dict[str, Fact]) -> Iterator[Follow]:
    """A function and those in it."""
    names = Names(names)
    if isinstance(scope, FUNCTIONS):
        names.update(scopes.parameters(scope))
    follow = Follow(scopes, scope, names, scopes.owner(scope))
    follow.run()
    yield follow
    if isinstance(scope, FUNCTIONS):
        for node, around in follow.nested:
            yield from _followed(scopes, node, around)
