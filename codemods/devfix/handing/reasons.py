"""What speaks for and against a device that a call leaves out, as the text around it shows."""

from __future__ import annotations

import ast
import re

from devfix.bindings import Bindings, FunctionNode, function_around
from devfix.flow.frame import path_of
from devfix.handing.takers import Taker
from devfix.placing import about_devices
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN = frozenset({"device", "dev", "torch_device"})
_TESTING = frozenset({"pytest", "unittest", "parameterized", "absl"})
_TEST = re.compile(r"^_?test|_test$")
# Functions whose CPU is meant: what they give is copied, saved, converted or handed to workers.
_HOST = re.compile(
    r"load|read|save|cpu|offload|numpy|dataset|data_?loader|collate|parse|convert|export|dump|"
    r"plot|draw|visuali[sz]e|tokeni[sz]|checkpoint|state_dict|^get_data|benchmark",
    re.IGNORECASE,
)


def chosen(default: ast.expr, source: Source) -> str:
    """Where a default puts things: "cuda", "cpu", "cuda:1"; "None"; empty where the text does not say."""
    if isinstance(default, ast.Call) and source.qualified(default.func) == "torch.device" and default.args:
        default = default.args[0]
    if isinstance(default, ast.Constant):
        if default.value is None or isinstance(default.value, str):
            return str(default.value)
    return ""


def same_kind(parameter: str, device: str) -> bool:
    """May a device that is called so be meant by a parameter that is called so?"""
    last = device.rpartition(".")[2].strip("_")
    return last == parameter.strip("_") or {last, parameter.strip("_")} <= _PLAIN


def is_literal(source: Source, bindings: Bindings, device: str, at: ast.AST, values: frozenset[str]) -> bool:
    """Is a device never anything but one of these, written down?"""
    found = bindings.of(device, at)
    return bool(found) and all(
        not binding.parameter and binding.value is not None and chosen(binding.value, source) in values
        for binding in found
    )


def excused(source: Source, call: ast.Call, taker: Taker, default: str) -> bool:
    """Is the other device meant, or put right, or does it not matter?"""
    function = function_around(source, call)
    if not reads(source, taker.function, taker.parameter) or _asked(source, call):
        return True
    if taken_from_another(source, taker.function, taker.parameter):
        return True
    if default.startswith("cuda"):
        return False
    names = {taker.name, function.name if function is not None else ""}
    return any(_HOST.search(name) for name in names) or moved_after(source, call)


def reads(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function do anything with a parameter? `del device` says that it does without."""
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)
        for statement in function.body
        for node in source.walk(statement)
    )


def taken_from_another(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function take the device of what else it is given: `device = x.device`?"""
    return any(
        isinstance(node, ast.Assign)
        and path_of(node.targets[0]) == name
        and ".device" in ast.unparse(node.value)
        and ".device(" not in ast.unparse(node.value)
        for node in source.walk(function)
    )


def falls_back(source: Source, call: ast.AST) -> bool:
    """Is a call what is tried after another one has failed, or a part of a test?"""
    node: ast.AST | None = call
    while node is not None:
        if isinstance(node, ast.ExceptHandler):
            return True
        if isinstance(node, _FUNCTIONS) and _TEST.search(node.name):
            return True
        node = source.parents.get(node)
    return not _TESTING.isdisjoint(name.partition(".")[0] for name in source.imports.values())


def settles_none(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function ask whether its parameter is None, and choose a device then?"""
    for node in source.walk(function):
        if isinstance(node, ast.BoolOp):
            tests: list[ast.expr] = node.values
        elif isinstance(node, (ast.If, ast.IfExp)):
            tests = [node.test]
        elif isinstance(node, ast.Compare):
            tests = [node.left]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        else:
            continue
        if any(path_of(test.operand if isinstance(test, ast.UnaryOp) else test) == name for test in tests):
            return True
    return False


def needs(source: Source, function: FunctionNode, name: str) -> bool:
    """Does None for a parameter mean the CPU, or whatever others choose: is it handed on as it is?"""
    for node in source.walk(function):
        if isinstance(node, ast.keyword) and node.arg == "device" and path_of(node.value) == name:
            return True
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if path_of(value) == name and isinstance(key, ast.Constant) and key.value == "device":
                    return True
    return False


def moved_after(source: Source, call: ast.Call) -> bool:
    """Is the result moved: in the same expression, or by its name further down?"""
    statement = source.statement(call)
    node: ast.AST = call
    while not isinstance(node, ast.stmt):
        child, node = node, source.parents[node]
        if isinstance(node, ast.Attribute) and node.attr in ("to", "cuda", "cpu"):
            return True
        if isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and child is not node.func):
            break
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [path_of(item) for target in targets for item in getattr(target, "elts", [target])]
    function = function_around(source, call)
    scope = source.enclosing(function, ast.ClassDef) if function is not None else None
    around = scope if any(name.startswith("self.") for name in names) and scope is not None else function
    text = source.code(around) if around is not None else source.text
    return any(
        re.search(
            rf"(?<![\w.]){re.escape(name)}\b[\w.\[\]]*\.(?:to|cuda)\(|load_state_dict\({re.escape(name)}\b",
            text,
        )
        for name in names
        if name and name != "_"
    )


def _asked(source: Source, call: ast.Call) -> bool:
    """Does a condition around a call ask for devices, or for an export, which is traced on the CPU?"""
    node: ast.AST = call
    while node in source.parents and not isinstance(node, _FUNCTIONS):
        child, node = node, source.parents[node]
        if isinstance(node, (ast.If, ast.IfExp)) and child is not node.test:
            if about_devices(node.test) or re.search("onnx|export", ast.unparse(node.test), re.IGNORECASE):
                return True
    return False
