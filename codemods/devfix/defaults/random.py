"""Random numbers of the CPU in a program whose default device is an accelerator."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import AppendCall, Edit, Safety, SetArgument
from devfix.flow import Flow
from devfix.models import torch_api
from devfix.text.bindings import Bindings, function_around
from devfix.text.remarks import Remark
from devfix.text.source import Source

_SETTERS = ("torch.set_default_device", "torch.set_default_tensor_type")
_RANDOM = frozenset(
    f"torch.{name}"
    for name in (
        "rand",
        "randn",
        "randint",
        "randperm",
        "normal",
        "bernoulli",
        "multinomial",
        "rand_like",
        "randn_like",
    )
)
# Calls that shuffle on the default device: the position and name of what says that they do.
_LOADER = "torch.utils.data.DataLoader"
_SPLIT = "torch.utils.data.random_split"
_SAMPLER = "torch.utils.data.RandomSampler"
_HOST = ("cpu", "cpu()", "numpy", "to", "cuda", "tolist", "item")


@dataclass(frozen=True)
class Default:
    """The call that makes an accelerator the default; `device` is how to write it, `always` if on every run."""

    call: ast.Call
    device: str
    always: bool


def default_of(flow: Flow) -> Default | None:
    """What the file makes the default device, where that is an accelerator and stays the default."""
    source = flow.source
    found: list[tuple[ast.Call, str]] = []
    for call in source.calls:
        name = source.qualified(call.func)
        if name not in _SETTERS or not call.args:
            continue
        text = _device(source, name, call.args[0])
        if text == "cpu":
            if not _other_arm(source, call):
                return None
            continue
        if text:
            found.append((call, text))
    if len(found) != 1:
        return None
    call, text = found[0]
    always = _always(source, call)
    typed = source.qualified(call.func) == _SETTERS[1]
    torch = next((local for local, what in source.imports.items() if what == "torch"), "torch")
    if not always or text == "?":
        text = f"{torch}.empty(0).device" if typed else f"{torch}.get_default_device()"
    return Default(call, text, always)


def _device(source: Source, setter: str, node: ast.expr) -> str:
    """The device as it may be written anywhere in the module, "cpu" for the CPU, "?" for any other."""
    code = source.code(node)
    if setter == _SETTERS[1]:
        text = node.value if isinstance(node, ast.Constant) else source.qualified(node)
        return '"cuda"' if ".cuda." in str(text) else "cpu"
    if isinstance(node, ast.Call) and source.qualified(node.func) == "torch.device" and len(node.args) == 1:
        node = node.args[0]
        code = source.code(node)
    if isinstance(node, ast.Constant):
        return code if isinstance(node.value, str) and node.value != "cpu" else "cpu"
    if isinstance(node, ast.Name):
        values = [binding.value for binding in Bindings(source).within(source.tree, node.id)]
        if values and all(isinstance(value, ast.Constant) and value.value == "cpu" for value in values):
            return "cpu"
        return code if len(values) == 1 else "?"
    return "?"


def _other_arm(source: Source, call: ast.Call) -> bool:
    """Is it in an `else`, so that the default is the CPU where there is nothing else?"""
    outer = source.enclosing(call, ast.If)
    return isinstance(outer, ast.If) and source.statement(call) in outer.orelse


def _always(source: Source, call: ast.Call) -> bool:
    return source.enclosing(call, ast.If, ast.FunctionDef, ast.IfExp, ast.Try) is None


def remarks(flow: Flow) -> Iterator[Remark]:
    """Generators and shuffles of the CPU, and arrays taken of what is made on the default device."""
    default = default_of(flow)
    if default is None:
        return
    source = flow.source
    bindings: Bindings | None = None
    for call in sorted(source.calls, key=lambda node: (node.lineno, node.col_offset)):
        if call is default.call or _before(source, call, default):
            continue
        name = source.qualified(call.func)
        if name in (_LOADER, _SPLIT, _SAMPLER):
            given = next((k.value for k in call.keywords if k.arg == "generator"), None)
            if given is None:
                yield from _shuffle(source, call, name, default)
        elif name == "torch.Generator" and not call.args and not call.keywords:
            bindings = bindings or Bindings(source)
            if _is_used(source, bindings, call):
                yield Remark(
                    source.span(call),
                    f"`{source.code(call)}` is a CPU generator, and raises when it draws on the default device",
                    "make it on the default device",
                    (SetArgument(source.span(call), "device", default.device),),
                    Safety.SAFE,
                )
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
            made = _made(source, call.func.value)
            if made is not None:
                edits: tuple[Edit, ...] = (AppendCall(source.span(call.func.value), ".cpu()"),)
                yield Remark(
                    source.span(call.func.value),
                    f"`{source.code(made.func)}` uses the default device, and `.numpy()` raises unless that is the CPU",
                    "copy it to the CPU",
                    edits,
                    Safety.SAFE,
                )


def _before(source: Source, call: ast.Call, default: Default) -> bool:
    """Does a call stand above the setting of the default, in the same function or module?"""
    if function_around(source, call) is not function_around(source, default.call):
        return False
    return source.span(call).start < source.span(default.call).start


def _shuffle(source: Source, call: ast.Call, name: str, default: Default) -> Iterator[Remark]:
    """`DataLoader(.., shuffle=True)` shuffles by a generator of the CPU."""
    if any(keyword.arg is None for keyword in call.keywords):
        return
    if name == _LOADER:
        told = {keyword.arg: keyword.value for keyword in call.keywords}
        shuffle = told.get("shuffle") or (call.args[2] if len(call.args) > 2 else None)
        if shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value):
            return
        if not {"sampler", "batch_sampler"}.isdisjoint(told):
            return
    elif len(call.args) > 2:
        return
    torch = source.code(default.call.func).rpartition(".")[0] or "torch"
    what = "shuffles" if name != _SPLIT else "draws"
    yield Remark(
        source.span(call),
        f"`{source.code(call.func)}` {what} with a CPU generator, and raises, since the default device is another one",
        "pass a generator on the default device",
        (SetArgument(source.span(call), "generator", f"{torch}.Generator(device={default.device})"),),
        assumes="the order need not depend on `torch.manual_seed`",
    )


def _is_used(source: Source, bindings: Bindings, call: ast.Call) -> bool:
    """Is a generator given to something that draws on the default device?"""
    node: ast.AST = call
    parent = source.parents[node]
    while isinstance(parent, ast.Attribute) and parent.attr == "manual_seed":
        node = source.parents[parent]  # `.manual_seed(0)` returns it
        parent = source.parents[node]
    if isinstance(parent, ast.keyword):
        return parent.arg == "generator" and _draws(source, source.parents[parent])
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target = parent.targets[0]
    if not isinstance(target, ast.Name):
        return False
    scope = function_around(source, call) or source.tree
    if len(bindings.within(scope, target.id)) != 1:
        return False
    uses = [
        source.parents[one]
        for one in source.walk(scope)
        if isinstance(one, ast.Name) and one.id == target.id and isinstance(one.ctx, ast.Load)
    ]
    told = [one for one in uses if isinstance(one, ast.keyword) and one.arg == "generator"]
    return bool(told) and all(_draws(source, source.parents[one]) for one in told)


def _draws(source: Source, call: ast.AST) -> bool:
    if not isinstance(call, ast.Call):
        return False
    name = source.qualified(call.func)
    if name in (_LOADER, _SPLIT, _SAMPLER):
        return True
    return name in _RANDOM and all(keyword.arg not in ("device", "out", None) for keyword in call.keywords)


def _made(source: Source, node: ast.expr) -> ast.Call | None:
    """The factory at the bottom of a chain of methods that stays where it is."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call):
            name = source.qualified(node.func)
            if name:
                plain = name in torch_api.FACTORIES and all(
                    keyword.arg not in ("device", None) for keyword in node.keywords
                )
                return node if plain and name != "torch.as_tensor" else None
            if not isinstance(node.func, ast.Attribute) or node.func.attr in _HOST:
                return None
            node = node.func.value
        else:
            node = node.value
    return None
