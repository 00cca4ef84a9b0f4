"""Mutants whose bug is in one call: factories, buffers, containers, autocast, loads, comparisons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.engine.evidence import is_handed_name
from devfix.engine.files import Class, File
from devfix.models.torch_api import FACTORIES
from devfix.text.placing import dotted
from devfix.text.source import Source

from mutations.edits import Mutant, mutant, own_calls, without_keyword

_CONTAINERS = {"torch.nn.ModuleList": "ModuleList -> list", "torch.nn.ModuleDict": "ModuleDict -> dict"}


def deviceless_factories(program: str, source: Source) -> Iterator[Mutant | None]:
    for call in own_calls(source, source.tree):
        if source.qualified(call.func) not in FACTORIES:
            continue
        device = next((item.value for item in call.keywords if item.arg == "device"), None)
        if device is None or "cpu" in ast.unparse(device) or isinstance(device, ast.Constant):
            continue
        if _goes_along(source, call):
            continue
        yield mutant(
            "drop device= from a factory", program, source, call, without_keyword(source, call, "device")
        )


def _goes_along(source: Source, call: ast.Call) -> bool:
    """Is it a bug nowhere to miss `device=` here: what a module's `to` takes along, and plain numbers?"""
    function = source.enclosing(call, ast.FunctionDef, ast.AsyncFunctionDef)
    if getattr(function, "name", "") in ("__init__", "reset_parameters", "init_weights"):
        return True
    around = source.parents[call]
    if isinstance(around, ast.Call) and dotted(around.func).endswith("Parameter"):
        return True
    first = call.args[0] if call.args else None
    name = source.qualified(call.func)
    return name in ("torch.tensor", "torch.as_tensor") and isinstance(first, (ast.Constant, ast.UnaryOp))


def unregistered_buffers(program: str, source: Source) -> Iterator[Mutant | None]:
    for call in own_calls(source, source.tree):
        name = call.args[0] if call.args else None
        if dotted(call.func) != "self.register_buffer" or not isinstance(name, ast.Constant):
            continue
        attribute = name.value
        if not isinstance(attribute, str) or not attribute.isidentifier():
            continue
        values = call.args[1:2] or [item.value for item in call.keywords if item.arg == "tensor"]
        if not values or isinstance(values[0], ast.Constant):
            continue
        function = source.enclosing(call, ast.FunctionDef)
        given = function.args.args if isinstance(function, ast.FunctionDef) else []
        if isinstance(values[0], ast.Name) and values[0].id in {argument.arg for argument in given}:
            continue  # anything, and often None
        if _made_elsewhere(source, values[0], given) or not _plainly_read(source, call, attribute):
            continue
        edit = (source.span(call), f"self.{attribute} = {source.code(values[0])}")
        yield mutant("un-register a buffer", program, source, call, [edit])


def _made_elsewhere(source: Source, value: ast.expr, given: list[ast.arg]) -> bool:
    """Is a buffer's value told a device, or made of an argument that may be on any?"""
    if "device" in source.code(value):
        return True
    root = value
    while isinstance(root, (ast.Call, ast.Attribute, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    return isinstance(root, ast.Name) and root.id in {argument.arg for argument in given}


def _plainly_read(source: Source, node: ast.AST, attribute: str) -> bool:
    """Is an attribute read in other functions, nowhere moved or asked for its device, and registered once?"""
    text = source.text
    if text.count(f'"{attribute}"') + text.count(f"'{attribute}'") > 1:
        return False
    if re.search(rf"\.{attribute}\b[^\n=]*\.(?:to|type_as|device|cuda)\b", text):
        return False
    return _read_outside(source, node, attribute)


def _is_module(source: Source, attribute: str) -> bool:
    """Is an attribute used as no list or dict could be: `self.layers.parameters()`?"""
    words = "|".join(sorted({*dir(list), *dir(dict)} - set(dir(object))))
    return re.search(rf"\.{attribute}\.(?!(?:{words})\b)", source.text) is not None


def _read_outside(source: Source, node: ast.AST, attribute: str) -> bool:
    """Is an attribute read in other functions than the one that sets it? Else nobody can see the bug."""
    home = source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
    return any(
        source.enclosing(read, ast.FunctionDef, ast.AsyncFunctionDef) is not home
        for read in source.walk()
        if isinstance(read, ast.Attribute) and read.attr == attribute and isinstance(read.ctx, ast.Load)
    )


def plain_containers(program: str, source: Source) -> Iterator[Mutant | None]:
    for call in own_calls(source, source.tree):
        kind = _CONTAINERS.get(source.qualified(call.func))
        # A list in a ModuleList is refused on the CPU already.
        if kind is None or call.keywords or len(call.args) > 1:
            continue
        if not isinstance(source.parents[call], (ast.Assign, ast.AnnAssign)):
            continue
        statement = source.parents[call]
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement
        if isinstance(target, ast.Attribute):
            name = target.attr
            if not _read_outside(source, call, name) or _is_module(source, name):
                continue
        is_list = kind == "ModuleList -> list"
        empty, plain = ("[]", "list") if is_list else ("{}", "dict")
        text = source.code(call.args[0]) if call.args else empty
        argument = call.args[0] if call.args else None
        if isinstance(argument, ast.GeneratorExp):
            text = f"[{text.removeprefix('(').removesuffix(')')}]"
        elif argument is not None and not isinstance(
            argument, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)
        ):
            text = f"{plain}({text})"
        yield mutant(kind, program, source, call, [(source.span(call), text)])


def autocast_on_objects(program: str, source: Source) -> Iterator[Mutant | None]:
    for call in own_calls(source, source.tree):
        if "autocast" not in dotted(call.func).rpartition(".")[2]:
            continue
        arguments = [*call.args[:1], *(item.value for item in call.keywords if item.arg == "device_type")]
        for value in arguments:
            if isinstance(value, ast.Attribute) and value.attr == "type":
                edit = (source.span(value), source.code(value.value))
                yield mutant("pass a device object to autocast", program, source, call, [edit])


def unmapped_loads(program: str, source: Source) -> Iterator[Mutant | None]:
    for call in own_calls(source, source.tree):
        if source.qualified(call.func) == "torch.load":
            edits = without_keyword(source, call, "map_location")
            if edits:
                yield mutant("drop map_location", program, source, call, edits)


def untold_functions(program: str, source: Source) -> Iterator[Mutant | None]:
    file = File(program, source)
    for call in own_calls(source, source.tree):
        called = file.definition(call.func)
        function = called.method("__init__") if isinstance(called, Class) else called
        for name, default in function.defaults.items() if function is not None else ():
            if not is_handed_name(name) or (isinstance(default, ast.Constant) and default.value is None):
                continue  # None may well be settled by what else it is given
            edits = without_keyword(source, call, name)
            if edits:
                yield mutant("drop device= from a call", program, source, call, edits)


def compared_with_strings(program: str, source: Source) -> Iterator[Mutant | None]:
    for node in source.walk():
        if not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute)):
            continue
        left, right = node.left, node.comparators[0]
        if left.attr != "type" or not dotted(left.value).endswith("device"):
            continue
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant):
            edit = (source.span(left), source.code(left.value))
            yield mutant("compare a device with a string", program, source, node, [edit])
