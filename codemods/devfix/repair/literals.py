"""CUDA by name, written as another device: at one place, under its condition, as a buffer, or declared once."""

from __future__ import annotations

import ast
import os
from pathlib import PurePosixPath

from devfix.documents import DocumentError, document_of, read_bytes
from devfix.engine.analysis import Analysis
from devfix.engine.files import File
from devfix.engine.named import Named, is_choice, names_cuda
from devfix.engine.places import OF_MACHINE
from devfix.findings import DeleteStatement, Edit, Elsewhere, EnsureImport, InsertStatement, ReplaceExpression
from devfix.repair.legacy import DTYPES, is_data, is_size
from devfix.text.bindings import function_around
from devfix.text.names import path_of
from devfix.text.source import Source

# Made alike wherever they are made; random numbers and spaced ones differ between CPU and GPU.
_PLACEABLE = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "empty", "full", "eye", "tensor", "arange")
)
_ROOTS = ("src", "lib")  # folders that a path begins with and an import does not
DECLARED = {
    "cuda": 'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "accelerator": "torch.accelerator.current_accelerator() if torch.accelerator.is_available() "
    'else torch.device("cpu")',
}


# --- at one place ------------------------------------------------------------------------------


def at_its_place(source: Source, one: Named, device: str) -> tuple[tuple[Edit, ...], bool]:
    """The edits that give a value another device, and whether they surely make the same value.

    No edits where it cannot be told what is made.
    """
    if one.form == "legacy":
        text, sure = _legacy(source, one.node, device)
    elif one.form == "cuda" and one.receiver is not None:
        text, sure = moved(source, one, device), True
    else:
        return (ReplaceExpression(source.span(one.literal), device),), True
    if not text or not _reads(text):
        return (), False
    return (ReplaceExpression(source.span(one.node), text),), sure


def moved(source: Source, one: Named, device: str) -> str:
    """The text of `x.cuda()` with another device: `x.to(device)`, or `device=` of what makes it."""
    call, receiver = one.node, one.receiver
    assert isinstance(call, ast.Call) and receiver is not None
    start, end = source.span(call).start, source.span(call).end
    if one.form != "cuda":
        literal = source.span(one.literal)
        return source.text[start : literal.start] + device + source.text[literal.end : end]
    extra = "".join(f", {source.code(k)}" for k in call.keywords if k.arg == "non_blocking")
    text = source.code(receiver)
    if not extra and isinstance(receiver, ast.Call) and source.qualified(receiver.func) in _PLACEABLE:
        told = {keyword.arg for keyword in receiver.keywords}
        if "\n" not in text and not told & {"device", "requires_grad", "out", "pin_memory", None}:
            joint = "" if not receiver.args and not receiver.keywords else ", "
            return f"{text[:-1].rstrip().rstrip(',')}{joint}device={device})"
    # Parentheses around a receiver belong to the call's text, not to the receiver's.
    behind = source.span(receiver).end
    return f"{source.text[start : source.text.find('.', behind, end)].rstrip()}.to({device}{extra})"


def _legacy(source: Source, node: ast.expr, device: str) -> tuple[str, bool]:
    """`torch.cuda.LongTensor(..)` as `torch.tensor(data, ..)` or `torch.empty(sizes, ..)`."""
    assert isinstance(node, ast.Call)
    name, joint, last = source.code(node.func).rpartition(".cuda.")
    if not joint or last not in DTYPES or node.keywords:
        return "", False
    dtype = {"long": "int64"}.get(DTYPES[last], DTYPES[last])
    rest = f"dtype={name}.{dtype}, device={device})"
    args = ", ".join(source.code(argument) for argument in node.args)
    if not node.args:
        return f"{name}.empty(0, {rest}", True
    if is_data(node):
        return f"{name}.tensor({args}, {rest}", False
    # Of two numbers or more, all are sizes.
    if len(node.args) > 1 or is_size(node.args[0]):
        return f"{name}.empty({args}, {rest}", not any(isinstance(one, ast.Name) for one in node.args)
    return "", False


def _reads(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


# --- a buffer ----------------------------------------------------------------------------------


def as_buffer(one: Named, analysis: Analysis) -> tuple[str, tuple[Edit, ...]]:
    """What makes a buffer of `self.table = make().cuda()` in the `__init__` of a module, and its name.

    What the move makes of a parameter is a plain tensor, which nobody trains or saves: there the move is dropped,
    and the name is empty.
    """
    source, receiver, statement = analysis.file.source, one.receiver, analysis.file.source.parents[one.node]
    assert receiver is not None and isinstance(statement, ast.Assign)
    text, span = source.code(receiver), source.span(statement)
    is_first = source.code(one.node).startswith(text)
    if is_parameter(source, receiver):
        return "", (ReplaceExpression(source.span(one.node), text),) if is_first else ()
    name = path_of(statement.targets[0])[5:]
    trained = any(keyword.arg == "requires_grad" for keyword in source.of_kind(ast.keyword, receiver))
    if "\n" in text or not is_first or trained:
        return name, ()
    made = f'self.register_buffer("{name}", {text}, persistent=False)'
    return name, (InsertStatement(span, made, before=True), DeleteStatement(span))


def is_parameter(source: Source, node: ast.expr) -> bool:
    """`nn.Parameter(..)`, also behind further calls: `nn.Parameter(..).float()`"""
    while isinstance(node, ast.Call):
        if source.qualified(node.func) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return True
        if not isinstance(node.func, ast.Attribute):
            return False
        node = node.func.value
    return False


# --- declared once -----------------------------------------------------------------------------


def named_constants(file: File) -> list[ast.expr]:
    """The values of `device = "cuda"`, `self._device = torch.device("cuda")` and the like, in any scope."""
    return [
        node.value
        for node in file.source.of_kind(ast.Assign)
        if len(node.targets) == 1
        and path_of(node.targets[0]).lower().endswith("device")
        and isinstance(node.value, (ast.Constant, ast.Call))
        and names_cuda(file, node.value, text=True)
    ]


def declared(
    file: File, left: list[Named], how: str
) -> tuple[list[ast.expr], str, tuple[Edit, ...], tuple[Elsewhere, ...]]:
    """One device declared once, in place of every name of a file: the places, its name, and the edits.

    Without edits where no name is free, or `torch` is not imported on top.
    """
    source, constants, text = file.source, named_constants(file), DECLARED[how]
    edits: list[Edit] = [ReplaceExpression(source.span(value), text) for value in constants]
    name, anchor = _free_name(source), _last_import(source)
    written, whole = _written(source, left, name)
    if left and anchor is not None:
        edits.insert(0, InsertStatement(source.span(anchor), f"{name} = {text}"))
    usable = whole and (not left or (name and anchor is not None)) and source.imports.get("torch") == "torch"
    return [*(one.node for one in left), *constants], name, (*edits, *written) if usable else (), ()


def module_name(path: str) -> str:
    """How `pkg/device.py` is imported: `pkg.device`; empty where it cannot be."""
    pure = PurePosixPath(path.replace("\\", "/"))
    parts = [*pure.parts[:-1], pure.stem]
    if pure.suffix != ".py" or pure.is_absolute():
        return ""
    if parts[0] in _ROOTS and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) if parts and all(part.isidentifier() for part in parts) else ""


def imported(
    file: File, left: list[Named], path: str, how: str
) -> tuple[list[ast.expr], str, tuple[Edit, ...], tuple[Elsewhere, ...]]:
    """The names of a file and its own devices give way to the `device` of the module at `path`.

    No places if the file has neither, or is that module. Without edits where the module is there and has no
    `device`, no name is free, or a place cannot be written otherwise.
    """
    source, there = file.source, _text(path)
    constants = [one for one in source.tree.body if isinstance(one, ast.Assign) and _is_device(file, one)]
    if there == source.text or not (left or constants):
        return [], "", (), ()
    names = [one.targets[0].id for one in constants if isinstance(one.targets[0], ast.Name)]
    name, module, anchor = names[0] if names else _free_name(source), module_name(path), _last_import(source)
    edits: list[Edit] = []
    if name == "device":
        edits.append(EnsureImport(module, "device"))
    elif anchor is not None:
        edits.append(InsertStatement(source.span(anchor), f"from {module} import device as {name}"))
    edits += [DeleteStatement(source.span(one)) for one in constants]
    written, whole = _written(source, left, name)
    whole = (
        whole
        and len(names) < 2
        and bool(name)
        and anchor is not None
        and (there is None or _has_device(there))
    )
    new = () if there is not None else (Elsewhere(path, new=_NEW.format(DECLARED[how])),)
    nodes = [*(one.node for one in left), *(one.value for one in constants)]
    return nodes, name, (*edits, *written) if whole else (), new


_NEW = '''\
"""The device that this program runs on."""

import torch

device = {}
'''


def _written(source: Source, left: list[Named], name: str) -> tuple[list[Edit], bool]:
    """The edits for all places, and whether each has some."""
    every = [at_its_place(source, one, name)[0] for one in left]
    return [edit for edits in every for edit in edits], all(every)


def _free_name(source: Source) -> str:
    """A name for the device that the file does not use yet."""
    used = {node.id for node in source.of_kind(ast.Name)} | {node.arg for node in source.of_kind(ast.arg)}
    return next((name for name in ("device", "DEVICE") if name not in used), "")


def _last_import(source: Source) -> ast.stmt | None:
    """The last of the imports that a file begins with; None if `torch` is not among them."""
    found: ast.stmt | None = None
    torch = False
    for statement in source.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found = statement
            torch = torch or any(alias.name == "torch" and not alias.asname for alias in statement.names)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    return found if torch else None


def _is_device(file: File, statement: ast.Assign) -> bool:
    """`device = "cuda"`, or the usual choice between CUDA and the CPU, made once in the body of the module."""
    source, target, value = file.source, statement.targets[0], statement.value
    if (
        len(statement.targets) != 1
        or not isinstance(target, ast.Name)
        or target.id not in ("device", "DEVICE")
    ):
        return False
    if (
        isinstance(value, ast.Call)
        and source.qualified(value.func) == "torch.device"
        and len(value.args) == 1
    ):
        value = value.args[0]
    if isinstance(value, ast.IfExp):
        test = value.test
        asked = isinstance(test, ast.Call) and f"{source.qualified(test.func)}()" in OF_MACHINE
        otherwise = ast.unparse(value.orelse) in ("'cpu'", "torch.device('cpu')")
        if not asked or not otherwise or not is_choice(file, value):
            return False
    elif not isinstance(value, ast.Constant) or not names_cuda(file, value, text=True):
        return False
    return not any(
        node.id == target.id
        and not isinstance(node.ctx, ast.Load)
        and node is not target
        and (function_around(source, node) is None or f"global {target.id}" in source.text)
        for node in source.of_kind(ast.Name)
    )


def _text(path: str) -> str | None:
    """What is in the module, None where it is not there yet."""
    try:
        return document_of(path, read_bytes(path)).text
    except DocumentError:
        return "" if os.path.lexists(path) else None


def _has_device(text: str) -> bool:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    bound = [target for one in body if isinstance(one, ast.Assign) for target in one.targets]
    bound += [one.target for one in body if isinstance(one, ast.AnnAssign)]
    return any(isinstance(target, ast.Name) and target.id == "device" for target in bound)
