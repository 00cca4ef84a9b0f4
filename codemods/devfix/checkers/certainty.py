"""Whether what the engine found is certain enough to be told, and if not, why.

Each reason stands for findings that were looked at on code that nobody had tuned for, and were mistaken or no use.
"""

from __future__ import annotations

import ast

from devfix.checkers.moved_below import is_moved_below, is_moved_later
from devfix.checkers.reach import is_asked
from devfix.checkers.refuted import (
    is_building,
    is_given_on_host,
    is_guess,
    is_kept_on_host,
    is_left_on_host,
    is_of_moved_data,
    is_refuted,
    is_scattered,
    loaders_given,
)
from devfix.checkers.signs import (
    is_buffer,
    is_caught,
    is_composed,
    is_kept_beside,
    is_kept_with_key,
    is_left_of_batch,
    is_of_one_world,
    is_of_some_paths,
    is_renewed,
    lives_on_devices,
    root_name,
    tells_the_cpu,
)
from devfix.engine.analysis import Analysis
from devfix.engine.annotations import annotated
from devfix.engine.evidence import (
    about_devices,
    is_cpu_program,
    is_module_name,
    is_test_on_cpu,
    prepares_data,
    prepares_inputs,
)
from devfix.engine.evidence_of_modules import (
    builds_any,
    is_measure,
    is_option,
    is_told_a_device,
    may_place,
)
from devfix.engine.facts import Mismatch
from devfix.engine.files import Function
from devfix.engine.places import DIFFERENT, FIXED, LITERAL, OF, OWNED, VAR, Place
from devfix.engine.values import (
    DATA,
    GIVEN,
    LABELS,
    LIBRARY_CALL,
    LOAD,
    LOSS,
    MAKE,
    MODULE,
    MOVE,
    NAME,
    PASS,
    PATH_TAKEN,
    RANK,
    RESULT,
    TENSOR,
    USES,
    Assumption,
    Link,
)
from devfix.models.loader import Row, models
from devfix.text.names import stores

# What may be assumed of a tensor that is made on the CPU without need.
_FOR_FACTORIES = frozenset({RESULT, LABELS, LOSS, LIBRARY_CALL})


def why_silent(mismatch: Mismatch, analysis: Analysis) -> str:
    """The reason for which nothing is said of a mismatch; an empty string if it is told."""
    kinds = {one.kind for one in mismatch.assumed}
    of_caller = mismatch.anchor_place.kind in (OF, OWNED)
    source, path = analysis.file.source, analysis.file.path
    moved = mismatch.anchor_place.kind in (VAR, LITERAL)
    # What a test does not move, another file does: not where it is tested.
    if is_test_on_cpu(source, path) if moved else is_cpu_program(source, path, mismatch.node):
        return "the program names no accelerator: all of it is on the CPU"
    if is_of_some_paths(mismatch, analysis):
        return "it is made in another file, and on the CPU on some paths only"
    refuted = is_refuted(mismatch.anchor_place, analysis) or is_left_on_host(mismatch, analysis)
    if refuted or is_kept_on_host(mismatch):
        return "what is in view puts there what is on the CPU"
    if is_guess(mismatch, analysis):
        return "programs in view use what it gives: what they do with it tells"
    if of_caller and _is_built(mismatch, analysis):
        return "arguments of a constructor are mostly moved later"
    if mismatch.stray.links[0].kind == LOAD and _may_place_batches(mismatch.anchor_place):
        return "the framework that places the module may place its batches, too"
    if is_left_of_batch(mismatch, analysis):
        return "whoever wrote the collate function knows what it gives, and moves the others"
    if is_given_on_host(mismatch, analysis):
        return "calls pass networks that copy to the CPU what they give"
    if is_scattered(mismatch, analysis):
        return "calls pass a module that moves its inputs"
    if is_of_moved_data(mismatch, analysis):
        return "calls pass loaders over data that were moved"
    if PATH_TAKEN in kinds:
        return "it is not known whether one run reaches both lines"
    followed = _is_followed(mismatch, analysis) or _is_output(mismatch, analysis)
    if of_caller and DATA in kinds and not followed:
        return "it may be made of a tensor that is where the caller put it"
    if of_caller and NAME in kinds and not followed:
        return "only a name says what the other value is"
    if RANK in kinds and GIVEN not in kinds:
        return "it may be a tensor without dimensions, which mixes with any device"
    moved = mismatch.anchor.place.kind == OF and mismatch.anchor.place != mismatch.anchor_place  # elsewhere
    of_anchor = {one.kind for one in mismatch.anchor.assumed}
    if mismatch.operation == "the result" and mismatch.stray.links[0].node in analysis.parts.moved:
        return "a caller moves what it is given"
    if mismatch.operation == "the result" and is_moved_later(mismatch):
        return "what is stored is moved further down"
    unseen = mismatch.stray.kind == MODULE and Assumption(LIBRARY_CALL) in mismatch.stray.assumed
    if (
        LIBRARY_CALL in kinds
        and not _is_made_up(mismatch)
        and not _is_prepared(mismatch)
        and (
            (unseen and _may_be_moved(mismatch, analysis))
            or (of_caller and mismatch.anchor.kind == MODULE and LIBRARY_CALL in of_anchor and not moved)
        )
    ):
        return "a class that devfix cannot see may move it"
    if mismatch.anchor_place.kind == VAR and _is_of_unknown(mismatch, analysis):
        return "the other value is on the device of something unknown"
    if mismatch.relation == FIXED:
        return _why_not_literal(mismatch, LIBRARY_CALL in kinds, analysis)
    running = [*mismatch.running, (mismatch.file, mismatch.node)]
    if any(is_caught(source, one) for file, one in running if file is analysis.file):
        return "the error is expected, or handled"
    if mismatch.file is analysis.file and is_kept_beside(source, mismatch.stray_node):
        return "it is left where it is beside what is moved"
    if is_renewed(mismatch) or is_kept_with_key(mismatch):
        return "it is replaced before, where it does not fit"
    if mismatch.function is not None and tells_the_cpu(mismatch.function.file.source, mismatch.function.node):
        return "a configuration names the CPU"
    if of_caller and mismatch.anchor.kind != MODULE and mismatch.file is analysis.file:
        asked = mismatch.function is not None and is_asked(mismatch, mismatch.function)
        if is_moved_below(analysis.file, mismatch.node, mismatch.anchor_node, by_name=not asked):
            return "the other value, or the result, is moved or read on the CPU below: it was on the CPU"
    if not _is_made_up(mismatch) and not _on_accelerators(mismatch, analysis):
        return "only a parameter suggests that the other value may be on an accelerator"
    return ""


def _may_place_batches(place: Place) -> bool:
    """Does a framework place a module, which is not `self`? What its methods read from a loader, nobody places."""
    return place.kind == OWNED and not (isinstance(place.key, tuple) and place.key[0] == "self")


def _is_made_up(mismatch: Mismatch) -> bool:
    """Is the stray an input that was made up for a module, by a function that says nothing of devices?"""
    links, function, key = mismatch.stray.links, mismatch.function, mismatch.anchor_place.key
    if not isinstance(key, tuple) or key[0] != "parameter" or mismatch.anchor.kind != MODULE:
        return False
    if mismatch.stray.kind != TENSOR or function is None or len(links) > 2:
        return False
    made = links[0].node
    sized = isinstance(made, ast.Call) and (len(made.args) > 1 or any(map(_is_shape, made.args)))
    if links[0].kind != MAKE or not sized or NAME in {one.kind for one in mismatch.assumed}:
        return False
    return not about_devices(function.file.source.code(function.node))


def _is_prepared(mismatch: Mismatch) -> bool:
    """Does a module get what a function prepares for it, as its name says? Then it does not do so itself."""
    return mismatch.anchor.kind == MODULE and prepares_inputs(mismatch.stray.links[0].name)


def _is_shape(node: ast.expr) -> bool:
    """Is an argument the size of more than one dimension, as far as it is written?"""
    return not isinstance(node, ast.Constant) and (
        not isinstance(node, (ast.Tuple, ast.List)) or len(node.elts) > 1
    )


def _is_output(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is the other value what a module gives, by its name a parameter, in a file that is about networks?"""
    key, function = mismatch.anchor_place.key, mismatch.function
    if (
        mismatch.anchor.kind == MODULE
        or not isinstance(key, tuple)
        or key[0] != "parameter"
        or function is None
    ):
        return False
    if not is_module_name(key[2]) or not analysis.is_about_networks:
        return False
    stray = root_name(mismatch.stray_node)
    calls = [one for one in function.nodes if isinstance(one, ast.Call) and root_name(one.func) == key[2]]
    read = {part.id for one in calls for part in ast.walk(one) if isinstance(part, ast.Name)}
    return bool(calls) and stray not in read  # it is not made of the stray


def _is_followed(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is something else moved to where the other value is, which is not made of the stray itself?"""
    function, stray = mismatch.function, root_name(mismatch.stray_node)
    if function is None or mismatch.anchor_place not in analysis.targets or not stray:
        return False
    source = function.file.source
    for target, _, _, _ in analysis.targets[mismatch.anchor_place]:
        for one in stores(source, function.node, root_name(target)):
            if any(
                isinstance(part, ast.Name) and part.id == stray for part in ast.walk(source.statement(one))
            ):
                return False
    return True


def _is_proven(mismatch: Mismatch, function: Function) -> bool:
    """Is it proven that both are tensors, where nothing says that the function prepares data?"""
    owner = function.owner
    row = models().function(mismatch.stray.links[0].name.removesuffix(".sample").removesuffix(".rsample"))
    if mismatch.assumed or row is None or row.form == "array":
        return False
    return owner is None or not (prepares_data(owner.name, *owner.bases) or is_composed(function))


def _is_declared(function: Function, name: object) -> bool:
    """Is a parameter annotated as a tensor?"""
    return annotated(next((one.annotation for one in function.parameters if one.arg == name), None)) == TENSOR


def _is_built(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is it a constructor that is given the other value: of a module, or what it calls, or one that takes anything?"""
    function = mismatch.function
    if function is None or function.name != "__init__" or function.owner is None:
        return function is not None and is_building(function, analysis)
    key = mismatch.anchor_place.key
    callers = (one for one, _ in mismatch.scopes if one is not None and one.name != "__init__")
    if isinstance(key, tuple) and key[0] == "parameter" and key[1] in {id(one.node) for one in callers}:
        return False  # who calls it in view says where that is
    name = key[2] if isinstance(key, tuple) and len(key) > 2 else ""
    plain = analysis.class_kind(function.owner) == "object" and not mismatch.assumed
    return not plain or not _is_declared(function, name)


def _may_be_moved(mismatch: Mismatch, analysis: Analysis) -> bool:
    """May whoever makes a module out of sight move it, or has it no weights?"""
    made = mismatch.stray.links[0]
    if mismatch.stray.bound is not None or made.kind == LOAD:
        return False  # a part of it is not in view, but that moves with the whole
    last, place = made.name.rpartition(".")[2], mismatch.anchor_place
    targets = [ast.unparse(target[0]) for target in analysis.targets.get(place, ())]
    by_caller = place.kind == OF and not any(is_option(one.removesuffix(".device")) for one in targets)
    if not isinstance(made.node, ast.Call) or is_told_a_device(made.node, made.file.source):
        return True
    if models().layer(made.name) in ("module", "unseen"):
        function = mismatch.function
        home = made.file.source.enclosing(made.node, ast.FunctionDef)
        asks = function is not None and analysis.uses(function).asks_for_devices
        here = function is not None and home is function.node
        return by_caller and not (asks or here or (function is not None and is_measure(function.name)))
    weighted = any(one.kind in (USES, NAME) for one in mismatch.stray.assumed)
    if may_place(last) or by_caller or not weighted:
        return True
    return place.kind == LITERAL and builds_any(last)  # where all goes to CUDA, what builds it may go there


def _is_of_unknown(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Is the other device that of a value of which nothing is known, for a tensor of one that another file names?"""
    key, text = mismatch.anchor_place.key, analysis.file.source.text if mismatch.file is analysis.file else ""
    named = key[-1] if isinstance(key, tuple) and key[0] == TENSOR else None
    if mismatch.stray.kind == MODULE:
        return named is not None or isinstance(key, str)
    return named is not None and f"{named}.device" not in text


def _why_not_literal(mismatch: Mismatch, out_of_sight: bool, analysis: Analysis) -> str:
    if is_of_one_world(mismatch.function, analysis.file.source):
        return "a test, or code that is for CUDA only"
    key, function = mismatch.anchor_place.key, mismatch.function
    if isinstance(key, tuple) and key[0] == "parameter" and function is not None:
        default = function.defaults.get(key[2])
        if isinstance(default, ast.Constant) and default.value is None:
            return "the other value may be None"
    if mismatch.stray.links[0].kind != MOVE:
        return "devfix cannot see the code that put it on the accelerator"
    if out_of_sight:
        return "a class that devfix cannot see may move it"
    if any(map(is_buffer, mismatch.stray.links)):
        return "a buffer moves with its module"
    if any(about_devices(condition) for condition, _ in mismatch.path):
        return "a condition around it asks for the accelerator"
    return ""


def _on_accelerators(mismatch: Mismatch, analysis: Analysis) -> bool:
    """Does anything but a parameter say that the other one may be on an accelerator?"""
    key, function = mismatch.anchor_place.key, mismatch.function
    if mismatch.anchor_place in analysis.targets:
        return True  # others are moved there
    if mismatch.anchor.role == "taken" or _is_prepared(mismatch):
        return True  # it is copied to the CPU before it is read there; or somebody runs it
    if mismatch.stray.bound is not None and mismatch.stray.bound.place == mismatch.anchor_place:
        return True  # the stray is a copy of it, made on the CPU on purpose
    if mismatch.anchor_place.kind not in (OF, OWNED) or not isinstance(key, tuple) or function is None:
        return True
    while key[0] == "element" and isinstance(key[1], tuple):
        key = key[1]
    running = [one for one, _ in mismatch.scopes if one is not None]
    if key[0] == "self":
        return not any(
            one.owner is not None and one.name in analysis.classes.builders(one.owner)
            for one in (function, *running)
        )
    for one in running:  # the parameter may be of a function further out
        if id(one.node) == key[1]:
            function = one
    owner = function.owner
    if owner is not None and (analysis.classes.is_module(owner) or analysis.is_autograd(function)):
        return True
    if owner is not None and any(base.endswith("TestCase") for base in owner.outside):
        return False  # only the tests themselves call it
    if analysis.uses(function).asks_for_devices or (
        mismatch.stray.kind == MODULE and is_measure(function.name)
    ):
        return True
    made = mismatch.stray.kind == TENSOR and mismatch.stray.links[0].kind == MAKE
    if mismatch.operation == "the index" and function.owner is None and not made:
        return False  # an index that a caller passes is often made on the CPU
    passed = analysis.passed(mismatch.anchor_place)
    return (
        {one.kind for one in mismatch.assumed} <= (_FOR_FACTORIES if made else frozenset())
        and (lives_on_devices(function, analysis) or (made and _is_proven(mismatch, function)))
        and (not passed or any(one.on_device for one in passed))
    )


def is_proven(mismatch: Mismatch, analysis: Analysis, device: str = "") -> bool:
    """Does it fail on every accelerator, if a module out of sight that is moved here takes plain data where it is?

    What is on the device on some paths only has to be asked: by `device`, the text that a fix writes.
    """
    if mismatch.relation != DIFFERENT or not mismatch.stray_place.on_host:
        return False
    if mismatch.anchor_place.kind not in (VAR, LITERAL):
        return False
    if mismatch.chosen and not device.endswith(".parameters()).device"):
        return False
    if mismatch.guarded and not mismatch.chosen and mismatch.anchor_place.kind == LITERAL:
        return False  # where it is not moved, what names CUDA is wrong
    made, passed = mismatch.stray.links[0], any(one.kind == PASS for one in mismatch.stray.links)
    row = models().function(made.file.dotted(made.node.func)) if isinstance(made.node, ast.Call) else None
    if mismatch.anchor.kind != MODULE and not passed and row is not None and row.form == "array":
        return False  # an array may have no dimensions, and its tensor mixes with any device
    opened = analysis.has_open_loaders and bool(loaders_given(made))
    if opened or mismatch.assumed - {Assumption(LIBRARY_CALL)}:
        return False
    anchor = mismatch.anchor
    made_by = next((one.name for one in anchor.links[:1] if one.kind == MAKE), "")
    of_class = anchor.bound is not None or (made_by and models().layer(made_by) != "container")
    if anchor.kind == MODULE and not (of_class and not mismatch.assumed) and not is_main_input(mismatch):
        return False
    seen = not mismatch.assumed and (anchor.kind != MODULE or bool(anchor.links or anchor.bound))
    return seen or (anchor.kind == MODULE and _is_fed(mismatch, row, analysis))


def is_main_input(mismatch: Mismatch) -> bool:
    """Is it a batch, or the first argument? What else a module out of sight gets, such as times, it may move itself."""
    call = mismatch.node
    first = isinstance(call, ast.Call) and mismatch.stray_node in call.args[:1]
    return first or mismatch.stray.links[0].kind == LOAD


def _is_fed(mismatch: Mismatch, row: Row | None, analysis: Analysis) -> bool:
    """Is a module that the function itself moves called on floating data, of a loader or made here?"""
    if not any(
        function is mismatch.function for _, function, _, _ in analysis.targets.get(mismatch.anchor_place, ())
    ):
        return False
    made = mismatch.stray.links[0]
    if made.kind == LOAD:
        return made.name == "loader"
    return row is not None and row.form in ("make", "array") and not row.whole and not _is_cast(made)


def _is_cast(made: Link) -> bool:
    """Is what is made cast to integers at once?"""
    parents, up = made.file.source.parents, made.node
    while isinstance(up, (ast.Call, ast.Attribute)):
        if isinstance(up, ast.Attribute) and models().method(up.attr).whole:
            return True
        up = parents[up]
    return False
