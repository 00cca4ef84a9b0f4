"""Do all calls in view keep on the CPU what a function is given, or tell it to use the CPU?"""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices
from devfix.engine.facts import Mismatch
from devfix.engine.files import Function
from devfix.engine.places import NOWHERE, OF, VAR, Place, whole
from devfix.engine.stores import only_building
from devfix.engine.values import LOAD, LOADER, MODULE, NAME, RESULT, Assumption, Link
from devfix.models.loader import models
from devfix.repair.arguments import argument_of
from devfix.text.bindings import bound, function_around
from devfix.text.source import FUNCTIONS, Source

_HOST = (None, "cpu")


def is_refuted(place: Place, analysis: Analysis, asked: tuple[object, ...] = ()) -> bool:
    """Do all calls, in this file and others, pass what is on the CPU for the parameter that a place is of, or named by?

    Calls of tests say nothing. A device that calls leave out is the default of the parameter. What asks for devices
    itself is for others, too. What calls pass on is where their own callers have it; `asked` are those on the way.
    """
    key = whole(place)
    if place.kind not in (OF, VAR) or not isinstance(key, tuple) or key[0] != "parameter" or key in asked:
        return False
    here = analysis.calls.get((key[1], key[2]), [])
    function = next((one for node, one in analysis.file.of_node.items() if id(node) == key[1]), None)
    if not isinstance(function, Function):
        return bool(here) and all(one.on_host for one in here)
    open_ = place.kind == OF and analysis.uses(function).asks_for_devices
    elsewhere = analysis.callers(function, tests=False) if analysis.callers is not None and not open_ else []
    given = [call[key[2]] for call in elsewhere if key[2] in call]
    on_host = (one.on_host or is_refuted(one, analysis, (*asked, key)) for one in here)
    if not all(on_host) or not all(one.place.on_host for one in given):
        return False
    if place.kind == OF:
        return bool(here or given)
    if not all(one.is_proven for one in given):
        return False
    return _keep_default(function, str(key[2]), analysis.file.source, bool(here or elsewhere))


def is_guess(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is it only a guess of what callers expect of a tensor, of a function that programs in view get to?

    What they do with it is followed. Of what is returned elsewhere in the function it is more than a guess.
    """
    function, like = mismatch.function, mismatch.stray.like
    if function is None or mismatch.stray.kind == MODULE or Assumption(RESULT) not in mismatch.assumed:
        return False
    shaped = like is not None and like.place == mismatch.anchor.place
    if not shaped and not isinstance(mismatch.anchor_node, FUNCTIONS):
        return False
    outermost = function
    while outermost.outer is not None:
        outermost = outermost.outer
    owner = outermost.owner
    return analysis.is_run(outermost.name if owner is None else owner.name)


def is_kept_on_host(mismatch: Mismatch) -> bool:
    """Is the other value an attribute, for which its class makes a tensor on the CPU, and which it never moves?"""
    key, function = mismatch.anchor_place.key, mismatch.function
    if not isinstance(key, tuple) or key[0] != "attribute" or function is None or function.owner is None:
        return False
    source, path = function.file.source, f"self.{key[2]}"
    given = [one.value for one in bound(source, path, mismatch.node) if isinstance(one.value, ast.Call)]
    made = any(models().makes(function.file.dotted(one.func)) for one in given)
    return made and not any(about_devices(source.code(one)) for one in given)


def is_left_on_host(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is the other value an argument that calls in view leave on the CPU, beside others that they move, and none moves?

    Calls of tests say nothing.
    """
    name, function = argument_of(mismatch), mismatch.function
    if not name or function is None:
        return False
    others = [one.arg for one in function.parameters if one.arg != name]
    here = analysis.calls.get((id(function.node), name), [])
    elsewhere = analysis.callers(function, tests=False) if analysis.callers is not None else []
    places = [*here, *(call[name].place for call in elsewhere if name in call)]
    beside = [one for other in others for one in analysis.calls.get((id(function.node), other), ())]
    beside += [call[other].place for call in elsewhere for other in others if other in call]
    left = any(one.on_host for one in places) and all(one.on_host or one == NOWHERE for one in places)
    return left and any(one.on_device for one in beside)


def is_scattered(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is it given to a parameter that is called, for which all calls in view pass a module that moves its inputs?"""
    func = mismatch.node.func if isinstance(mismatch.node, ast.Call) else None
    if not isinstance(func, ast.Name) or mismatch.function is None:
        return False
    return _scatter((id(mismatch.function.node), func.id), analysis, ())


def _scatter(key: tuple[object, str], analysis: Analysis, asked: tuple[tuple[object, str], ...]) -> bool:
    """Do all calls pass such a module for a parameter? `asked` are those on the way that are passed on to it."""
    function = next((one for node, one in analysis.file.of_node.items() if id(node) == key[0]), None)
    found = set(analysis.scattering.get(key, ())) - {("parameter", name, of) for name, of in (*asked, key)}
    if isinstance(function, Function) and analysis.callers is not None:
        elsewhere = analysis.callers(function, tests=False, of_objects=True)
        found |= {call[key[1]].role == "scatters" for call in elsewhere if key[1] in call}
    return bool(found) and all(
        _scatter((one[1], one[2]), analysis, (*asked, key)) if isinstance(one, tuple) else one is True
        for one in found
    )


def is_given_on_host(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is the other value what a parameter gives, for which calls pass networks that copy to the CPU what they give?"""
    home = mismatch.function.node if mismatch.function is not None else None
    guessed = [one.subject for one in mismatch.anchor.assumed if one.kind == NAME]
    if any(analysis.gives_to_host.get((id(home), name)) == {True} for name in guessed):
        return True  # a name alone says that it gives what is where the network is
    key = whole(mismatch.anchor_place)
    outside = isinstance(key, tuple) and key[:1] == ("outside",)
    if mismatch.anchor.kind == MODULE or not isinstance(key, tuple) or not (outside or key[0] == "parameter"):
        return False
    return analysis.gives_to_host.get(key[1] if outside else (key[1], key[2])) == {True}


def is_of_moved_data(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is it a batch, and do calls pass the function a loader over data that were moved?

    Or calls in other files the constructor, which keeps it.
    """
    if not analysis.over_moved.isdisjoint(loaders_given(mismatch.stray.links[0])):
        return True
    owner = mismatch.function.owner if mismatch.function is not None else None
    constructor = owner.method("__init__") if owner is not None else None
    if constructor is None or mismatch.stray.links[0].kind != LOAD or analysis.callers is None:
        return False
    assert mismatch.function is not None
    names = {one.subject for one in mismatch.assumed if one.kind == NAME}
    for one in tuple(names):
        names |= analysis.named_loaders.get((id(mismatch.function.node), one), set())
    given = names & {one.arg for one in constructor.parameters}
    elsewhere = analysis.callers(constructor, tests=False) if given else []
    passed = [call[name] for call in elsewhere for name in given if name in call]
    return any(one.kind == LOADER and one.role == "owned" for one in passed)


def loaders_given(made: Link) -> set[tuple[object, str]]:
    """The parameters, each with its function, that may be the loader that a batch is of."""
    loop, source = made.node, made.file.source
    home = source.enclosing(loop, ast.FunctionDef, ast.AsyncFunctionDef)
    function = made.file.of_node.get(home) if home is not None else None
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or not isinstance(function, Function):
        return set()
    names = {one.id for one in ast.walk(loop.iter) if isinstance(one, ast.Name)}
    return {(id(function.node), one.arg) for one in function.parameters if one.arg in names}


def is_copied_by_a_caller(place: Place, function: Function, analysis: Analysis) -> bool:
    """Does a function of the file write copies on the CPU into a container of this name, and pass that on?"""
    key, source = place.key, analysis.file.source
    container = key[1] if isinstance(key, tuple) and key[0] == "element" else ()
    name = container[2] if isinstance(container, tuple) and container[:1] == ("parameter",) else ""
    callers = [function_around(source, call) for call in source.calls_by_name.get(function.name, ())]
    return any(
        isinstance(target, ast.Subscript)
        and isinstance(target.value, ast.Name)
        and target.value.id == name
        and "cpu()" in source.code(one.value)
        for around in callers
        if around is not None
        for one in source.of_kind(ast.Assign, around)
        for target in one.targets
    )


def is_building(function: Function, analysis: Analysis) -> bool:
    """Do constructors of modules alone call a function? They run before anything is moved."""
    owner, source = function.owner, analysis.file.source
    calls = source.calls_by_name.get(function.name, ())
    if analysis.uses(function).asks_for_devices or (
        analysis.callers is not None and analysis.callers(function)
    ):
        return False
    if owner is not None:
        return function.name in only_building(owner) and analysis.classes.is_module(owner)
    around = [analysis.file.of_node.get(source.enclosing(one, ast.FunctionDef) or one) for one in calls]
    return bool(calls) and all(
        isinstance(one, Function) and one.name == "__init__" and is_building(one, analysis) for one in around
    )


def _keep_default(function: Function, name: str, source: Source, called: bool) -> bool:
    """Is there a call, and does none of the file tell a device, so that the default counts, if there is one?"""
    default = function.defaults.get(name)
    if default is None:
        return called
    if not isinstance(default, ast.Constant) or default.value not in _HOST:
        return False
    made = function.owner if function.name == "__init__" and function.owner is not None else function
    calls = source.calls_by_name.get(made.name, ())
    index = function.positional.index(name) if name in function.positional else len(function.positional)
    return (called or bool(calls)) and not any(_may_tell(one, name, index) for one in calls)


def _may_tell(call: ast.Call, name: str, index: int) -> bool:
    """May a call pass a parameter with this name and place? `self` counts as one that it passes."""
    words = [one.arg for one in call.keywords]
    return (
        name in words
        or None in words
        or any(isinstance(one, ast.Starred) for one in call.args)
        or len(call.args) > index
    )
