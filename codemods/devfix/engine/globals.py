"""The names that functions declare `global` or `nonlocal`: what they are bound to meanwhile, and afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devfix.engine.state import State
from devfix.engine.values import ANYTHING, DEVICE, MODULE, NONE, TENSOR, UNKNOWN, Value

if TYPE_CHECKING:
    from devfix.engine.files import Function
    from devfix.engine.frame import Frame

_FOLLOWED = frozenset({DEVICE, MODULE, TENSOR})


def declare(frame: Frame, name: str, outer: bool) -> None:
    """`global name`: a call goes on with what it is bound to now, which is not known where no call is.

    `outer`: it is a name of the function around, `nonlocal`.
    """
    value = frame.lookup(name) if frame.caller is not None else None
    (frame.nonlocals if outer else frame.globals).add(name)
    frame.state.names[name] = ANYTHING if value is None else value


def bound_by_callers(frame: Frame, name: str) -> Value | None:
    """What a function that is running has bound a global name to; None if none has."""
    one = frame.caller
    while one is not None:
        if name in one.globals and one.file is frame.file:
            return one.state.names.get(name)
        one = one.caller
    return None


def known_to(caller: Frame, function: Function) -> tuple[object, ...]:
    """How the modules and tensors of the file are that a function names: calls may have changed them."""
    held, running = caller.analysis.global_names(function.file), [caller, *_around(caller)]
    bound = [one for one in running if one.globals and one.file is function.file]
    if not bound and not held.may_tell:
        return ()
    named = function.file.source.names(function.node)
    known = dict(held.telling(named))
    for one in reversed(bound):
        known.update(
            (name, one.state.names.get(name, ANYTHING)) for name in sorted(one.globals) if name in named
        )
    return tuple(
        (name, value.key(), caller.state.stamps.get(value.ref, 0) if value.kind == MODULE else 0)
        for name, value in known.items()
        if value.kind in (MODULE, TENSOR)
    )


def hand_back(frame: Frame, left: State) -> bool:
    """Bind in the caller what a call has bound to global names, and around it what is not its own; are there any?"""
    for name in frame.nonlocals:
        around = frame.outer
        while around is not None and name not in around.state.names:
            around = around.outer
        if around is not None:
            around.state.names[name] = left.names.get(name, ANYTHING)
    if not frame.globals:
        return bool(frame.nonlocals)
    caller = next(_around(frame), None)
    if caller is None:
        return True
    for name in frame.globals:
        if caller.function is None or name in caller.globals or name not in caller.state.names:
            caller.state.names[name] = left.names.get(name, ANYTHING)
            if caller.function is not None:
                caller.globals.add(name)
    return True


def keep(frame: Frame, left: State) -> None:
    """What a function binds that nothing in view calls: the file's value, if no other function binds the name."""
    body = frame.analysis.global_state(frame.file)
    declared = frame.file.source.of_kind(ast.Global)
    for name in sorted(frame.globals):
        known, value = body.names.get(name), left.names.get(name)
        if value is None or value.kind not in _FOLLOWED or sum(name in one.names for one in declared) != 1:
            continue
        if known is None or known.kind in (NONE, UNKNOWN):
            body.names[name] = value
            body.borrow(value, left)


def _around(frame: Frame) -> Iterator[Frame]:
    one = frame.caller
    while one is not None:
        if one.file is frame.file:
            yield one
        one = one.caller
