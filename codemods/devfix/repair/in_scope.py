"""The device that has a name where something is to be placed: of the function, its object, the options, the file."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_handed_name, is_local_rank
from devfix.engine.facts import Scope, Term
from devfix.engine.files import Function
from devfix.engine.places import VAR, of_process
from devfix.engine.values import LOCAL
from devfix.repair.expressible import devices_at, of_function
from devfix.text.names import is_local, stores
from devfix.text.placing import bound_before, guards_of
from devfix.text.source import Source


def device_for(analysis: Analysis, at: ast.AST, function: Function | None, scopes: tuple[Scope, ...]) -> str:
    """The device that has a name at a node: of the function, of its object, of the options, of the file."""
    source = analysis.file.source
    node = function.node if function is not None else None
    given = {one.arg for one in function.parameters} if function is not None else set()
    terms = [one for one in of_function(scopes, node) if one.form == "device" and one.text in given]
    terms += devices_at(source, scopes, at)  # of a parameter, None is no worse than nothing
    terms = [
        one for one in terms if is_handed_name(one.text.rpartition(".")[2].lower()) and not _is_number(one)
    ]
    here = next((one.text for one in terms if node is not None and is_local(source, node, one.text)), "")
    if here or function is None:
        return here or next((one.text for one in terms), "") or _imported(analysis)
    owner = function.owner
    if owner is not None and function.name != "__init__" and not function.static:
        made = owner.method("device")
        if (made is not None and made.is_property) or any(
            one.startswith(analysis.models.owners_of_device) for one in owner.outside
        ):
            return "self.device"
    told = [one.text for one in terms if "." in one.text]
    for place in analysis.targets:
        for device, of, _, _ in analysis.targets_here(place):
            if of is function and isinstance(device, ast.Attribute) and is_handed_name(device.attr):
                told += [source.code(device)] if bound_before(source, device, source.statement(at)) else []
    everywhere = [one.text for one in terms if not _is_of_program(source, one.text)]
    return next(iter([*told, *everywhere]), "") or _imported(analysis)


def _imported(analysis: Analysis) -> str:
    """A device of another file that something is moved to in this one: `net.DEVICE`, or a name that comes with `*`."""
    source = analysis.file.source
    for place in analysis.targets:
        for device, _, _, _ in analysis.targets_here(place):
            root, _, last = source.code(device).partition(".")
            scope = source.scope(device)
            bound = is_local(source, scope, root) or stores(source, source.tree, root)
            known = root in source.imports or (not last and bool(analysis.file.stars))
            if place.kind == VAR and known and not bound and is_handed_name((last or root).lower()):
                return source.code(device)
    return ""


def _is_number(term: Term) -> bool:
    """Is it the number of a process, which is no place?"""
    key = term.place.key
    return term.place == of_process(LOCAL) or (isinstance(key, tuple) and is_local_rank(str(key[-1])))


def _is_of_program(source: Source, name: str) -> bool:
    """Is a name of the file bound only where that is run as a program?"""
    guards = (one for store in stores(source, source.tree, name) for one in guards_of(source, store))
    return any("__name__" in source.code(one.test) for one in guards)
