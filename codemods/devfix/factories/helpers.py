"""Calls of functions of the file: what they are given may meet others there, what they make comes back."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from devfix.factories.meetings import Facts, Passed
from devfix.factories.values import HERE, MAYBE, UNKNOWN, Anchor, Fact, Form, Origin, join, listed
from devfix.flow.frame import path_of
from devfix.placing import about_devices

if TYPE_CHECKING:
    from devfix.factories.follow import Follow

_DEPTH = 2
_TO_OWN = re.compile(r"\.to\((?:device=)?self\.[\w.]*device\b")


def enter(follow: Follow, node: ast.Call, path: str, facts: Facts) -> Fact | None:
    """Follow a call; None where nothing is learnt from it."""
    local = follow.local.get(path)
    callee = local or follow.scopes.callee(path, follow.owner)
    if callee is None or callee is follow.scope:
        return None
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k == "**" for _, _, k in facts):
        return None
    method = path.startswith("self.")
    plain = [a.arg for a in (*callee.args.posonlyargs, *callee.args.args)]
    if method and not any(getattr(d, "id", "") == "staticmethod" for d in callee.decorator_list):
        plain = plain[1:]
    given: dict[str, Fact] = {}
    written: dict[str, str] = {}
    for at, (argument, fact, keyword) in enumerate(facts):
        if local is not None and fact.form is Form.MAYBE:
            fact = _named(fact, path_of(argument))
        if keyword or at < len(plain):
            given[keyword or plain[at]] = fact
            written[keyword or plain[at]] = path_of(argument)
    follow.passed.append(Passed(callee, given, written, node))
    makes = local is not None or callee in follow.scopes.makers or (method and _moves(follow, callee))
    if follow.depth >= _DEPTH or not (makes or any(f.form is Form.TENSOR for f in given.values())):
        return None
    names: dict[str, Fact] = dict(follow.scopes.parameters(callee))
    own = {name: fact.anchor for name, fact in names.items() if fact.anchor is not None}
    texts = {f.anchor.text for f in given.values() if f.anchor is not None}
    # What is written the same here and there need not be the same.
    names.update((name, MAYBE) for name, anchor in own.items() if anchor.text in texts)
    known = (Form.TENSOR,) if local is None else (Form.TENSOR, Form.MAYBE)
    names.update((name, fact) for name, fact in given.items() if fact.form in known)
    if local is not None:
        own_names, names = names, follow.names.copy()  # it sees what is around it
        names.update(own_names)
    elif method:
        names.update((key, fact) for key, fact in follow.names.items() if key.startswith("self."))
    inner = type(follow)(follow.scopes, callee, names, follow.owner if method or local else None)
    inner.depth = follow.depth + 1
    inner.terms = {
        fact.anchor.text: own.get(name) or Anchor(f"{name}.device", False)
        for name, fact in given.items()
        if fact.anchor is not None and fact.form in (Form.TENSOR, Form.DEVICE)
    }
    inner.block(callee.body)
    ours = frozenset(o for f in given.values() for o in f.origins)
    told = frozenset(texts)
    if method or local is not None:
        around = (
            set(follow.names) - set(dict(follow.scopes.parameters(callee))) if local is not None else set()
        )
        texts |= _shared(follow, inner, around)
    if local is not None:
        ours |= {o for f in follow.names.values() for o in f.origins}
    for meeting in inner.meetings:
        if meeting.origins & ours and meeting.anchor.text in texts:
            how = f"is passed to `{path}`, which combines it with"
            sure = meeting.certain and meeting.anchor.text in told
            one = replace(meeting, origins=meeting.origins & ours, node=node, how=how, certain=sure)
            follow.meetings.append(one)
    follow.hosted |= inner.hosted & ours
    if method:
        for key, fact in inner.names.items():
            if key.startswith("self.") and inner.names[key] is not names.get(key):
                follow.names[key] = _outer(follow, node, "", fact, ours, texts)
    result: Fact | None = None
    for _, fact in inner.returns:
        result = fact if result is None else join(result, fact)
    if result is None:
        return None
    if result.origins and any(not fact.origins for _, fact in inner.returns) and _chooses(follow, inner):
        return UNKNOWN  # made where the device that it is told is, the CPU being one of the ways
    return _outer(follow, node, path, result, ours, texts)


def _named(fact: Fact, path: str) -> Fact:
    """What may be a tensor, and where it is then."""
    return replace(fact, anchor=Anchor(f"{path}.device", False)) if path and fact.anchor is None else fact


def _moves(follow: Follow, callee: ast.AST) -> bool:
    """Does a method bring things to a device that the class has?"""
    return _TO_OWN.search(follow.source.code(callee)) is not None


def _shared(follow: Follow, inner: Follow, around: set[str]) -> set[str]:
    """The devices that have the same name in a function and where it is called: those in `self`, or around both."""
    anchors = [meeting.anchor for meeting in inner.meetings]
    anchors += [fact.anchor for _, fact in inner.returns if fact.anchor is not None]
    found = {"", "next(self.parameters()).device"}
    for anchor in anchors:
        root = anchor.root
        if root == "self" or (root in around and inner.names.get(root) == follow.names[root]):
            found.add(anchor.text)
    return found


def _chooses(follow: Follow, inner: Follow) -> bool:
    """Does a function return one thing or another as a condition about devices says?"""
    for node, _ in inner.returns:
        up: ast.AST | None = node
        while up is not None and up is not inner.scope:
            if isinstance(up, ast.If) and about_devices(up.test):
                return True
            up = follow.source.parents.get(up)
    return False


def _outer(
    follow: Follow, node: ast.Call, path: str, value: Fact, ours: frozenset[Origin], texts: set[str]
) -> Fact:
    """What a called function returns, in terms of its caller."""
    if value.form is Form.LIST:
        # What is returned in a list cannot be moved by its caller at once.
        items = (_outer(follow, node, "", item, ours, texts) for item in value.items)
        return listed(tuple(items))
    if value.form is not Form.TENSOR:
        known = value.anchor is not None and value.anchor.text in texts
        return value if value.form is Form.OTHER or value == HERE or known else UNKNOWN
    anchor = value.anchor if value.anchor is not None and value.anchor.text in texts else None
    if value.anchor is not None and anchor is None:
        return UNKNOWN
    made = value.origins - ours
    origins = value.origins & ours
    if made and not origins:
        inner = tuple(sorted(made, key=lambda origin: origin.call.lineno))
        origins = frozenset({follow.origin(node, path, follow.writable(), inner)})
    return replace(value, origins=origins, anchor=anchor, filled=None, basic=False)
