"""Does a module want an argument where it is itself? Its `forward`, where that is in sight, tells."""

from __future__ import annotations

import ast
from enum import Enum, auto

from devfix.flow import Flow
from devfix.flow.events import Event, Meeting
from devfix.flow.lattice import Kind
from devfix.inputs.classes import Method, Written, find, named
from devfix.inputs.kinds import COUNTS, Marks
from devfix.inputs.traced import Seen, Trace, bind, defaults
from devfix.placing import dotted

_FORWARD = frozenset({"module", "called", "run", "forward", "__call__"})


class Wanted(Enum):
    OUT_OF_SIGHT = auto()  # nothing is known of it
    MEETS = auto()  # it meets a parameter, a submodule or what these give
    DOUBTED = auto()  # nothing in sight shows that it does
    NEVER = auto()  # in this call it is counted, iterated over, read on the CPU, or not used at all


def wanted(flow: Flow, event: Event, meeting: Meeting) -> Wanted:
    """What a module does with one argument of the call that an event stands for."""
    if event.value.kind not in (Kind.MODULE, Kind.PART):
        return Wanted.OUT_OF_SIGHT
    call, argument = event.node, meeting.node
    counts = COUNTS.search(meeting.name if meeting.name.isidentifier() else dotted(argument))
    unknown = Wanted.DOUBTED if counts else Wanted.OUT_OF_SIGHT
    if event.via or not isinstance(call, ast.Call):
        return unknown
    method = "forward" if event.detail in _FORWARD else event.detail
    if event.value.kind is Kind.MODULE:
        owner = _made_by(flow, event.value.name) if event.value.name else None
    else:
        owner, method = _wrapped(flow, call.func)
    if owner is None:
        return unknown
    found = owner.method(method)
    if found is None:
        return unknown
    given = bind(found[1], call, True)
    name = next((name for name, one in (given or {}).items() if one is argument), "")
    if given is None or not name:
        return unknown
    # What else is moved, or will be as it meets the module by itself, is on the device.
    beside = {
        parameter
        for parameter, one in given.items()
        if one is not argument
        and (
            flow.value(one).place.on_device
            or (
                any(s.node is one for s in event.strays)
                and _seen(owner, found, given, parameter, set())[0].met
            )
        )
    }
    seen, left = _seen(owner, found, given, name, beside)
    if seen.host:
        return Wanted.DOUBTED if seen.met else Wanted.NEVER
    if seen.met:
        return Wanted.MEETS
    if seen.unseen:
        return unknown
    return Wanted.DOUBTED if seen.kept or left & {"T", "F"} else Wanted.NEVER


def _made_by(flow: Flow, name: str) -> Written | None:
    """The class of what a call gives: `Net(..)`, or `Net.from_pretrained(..)` of a base out of sight."""
    made, _, method = name.rpartition(".")
    owner = named(flow, name)
    if owner is None and made and method.startswith(("from_", "load_from_")):
        owner = named(flow, made)
        if owner is not None and owner.method(method) is not None:
            return None
    return owner


def _wrapped(flow: Flow, func: ast.expr) -> tuple[Written | None, str]:
    """The class of `model.module` and the method, of `model.module.decode` where `DataParallel(Net())` made it."""
    module, method = func, "forward"
    if isinstance(func, ast.Attribute) and func.attr != "module":
        module, method = func.value, func.attr
    if not isinstance(module, ast.Attribute) or module.attr != "module":
        return None, ""
    wrap = flow.value(module.value)
    made = wrap.node
    if wrap.form != "parallel" or not isinstance(made, ast.Call) or not made.args:
        return None, ""
    inner = made.args[0]
    return (find(flow, "", flow.source, inner.func) if isinstance(inner, ast.Call) else None), method


def _seen(
    owner: Written, found: Method, given: dict[str, ast.expr], name: str, beside: set[str]
) -> tuple[Seen, Marks]:
    """Follow one parameter of a method, and what of it comes out; those in `beside` are on the device."""
    constants = defaults(found[1])
    names: dict[str, Marks] = {}
    for parameter, argument in given.items():
        constants.pop(parameter, None)
        if isinstance(argument, ast.Constant):
            constants[parameter] = argument.value
        else:
            names[parameter] = frozenset({"D"} if parameter in beside else ())
    names[name] = frozenset({"T"})
    seen = Seen()
    return seen, Trace(owner, found, names, constants, seen).run()
