"""Random numbers of the CPU in a program whose default device is an accelerator."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.findings import AppendCall, Finding, SetArgument, told
from devfix.flow import Flow
from devfix.models import torch_api
from devfix.text.names import stores
from devfix.text.source import Source

_DEVICE, _TYPE = "torch.set_default_device", "torch.set_default_tensor_type"
_RANDOM = re.compile(r"torch\.(?:rand(?:n|int|perm)?(?:_like)?|normal|bernoulli|multinomial)")
_LOADER = "torch.utils.data.DataLoader"
_SHUFFLES = (_LOADER, "torch.utils.data.random_split", "torch.utils.data.RandomSampler")
_HOST = frozenset({"cpu", "numpy", "to", "cuda", "tolist", "item"})
Setter = tuple[ast.Call, str]


def findings(flow: Flow) -> Iterator[Finding]:
    """Generators and shuffles of the CPU, and arrays taken of what is made on the default device."""
    source, default = flow.source, default_of(flow.source)
    if default is None:
        return
    scope, start = source.enclosing(default[0], ast.FunctionDef), source.span(default[0]).start
    for call in sorted(source.calls, key=lambda one: source.span(one).start):
        name, span = source.qualified(call.func), source.span(call)
        if span.start <= start and source.enclosing(call, ast.FunctionDef) is scope:
            continue  # it runs before
        if name in _SHUFFLES and _shuffles(call, name):
            torch = source.code(default[0].func).rpartition(".")[0] or "torch"
            yield told(
                "default-device",
                span,
                f"`{source.code(call.func)}` draws with a CPU generator, and raises, since the default device is "
                "another one",
                "pass a generator on the default device",
                (SetArgument(span, "generator", f"{torch}.Generator(device={default[1]})"),),
                assumes="the order need not depend on `torch.manual_seed`",
            )
        elif name == "torch.Generator" and not call.args and not call.keywords and _is_used(source, call):
            yield told(
                "default-device",
                span,
                f"`{source.code(call)}` is a CPU generator, and raises when it draws on the default device",
                "make it on the default device",
                (SetArgument(span, "device", default[1]),),
            )
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not call.args:
            made, span = _made(source, call.func.value), source.span(call.func.value)
            if made is not None:
                what = f"`{source.code(made.func)}` uses the default device"
                message = f"{what}, and `.numpy()` raises unless that is the CPU"
                yield told(
                    "default-device", span, message, "copy it to the CPU", (AppendCall(span, ".cpu()"),)
                )


def default_of(source: Source) -> Setter | None:
    """The first call that makes an accelerator the default, unless another one undoes it, and the device as written."""
    found: list[Setter] = []
    for call in source.calls:
        name = source.qualified(call.func)
        if name in (_DEVICE, _TYPE) and call.args:
            device = _device(source, name, call.args[0])
            if device != "cpu":
                found.append((call, device))
            elif source.enclosing(call, ast.If) is None:
                return None
    if not found:
        return None
    call, device = min(found, key=lambda one: source.span(one[0]).start)
    sometimes = source.enclosing(call, ast.If, ast.FunctionDef, ast.IfExp, ast.Try) is not None
    if sometimes or len(found) > 1 or device == "?":
        torch = source.local_name("torch") or "torch"
        typed = source.qualified(call.func) == _TYPE
        device = f"{torch}.empty(0).device" if typed else f"{torch}.get_default_device()"
    return call, device


def _device(source: Source, setter: str, node: ast.expr) -> str:
    """The device as it may be written anywhere in the module, "cpu" for the CPU, "?" for any other."""
    if setter == _TYPE:
        return '"cuda"' if ".cuda." in source.code(node) else "cpu"
    if isinstance(node, ast.Call) and source.qualified(node.func) == "torch.device" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Constant):
        return source.code(node) if isinstance(node.value, str) and node.value != "cpu" else "cpu"
    bound = stores(source, source.tree, node.id) if isinstance(node, ast.Name) else []
    values = [getattr(source.statement(one), "value", None) for one in bound]
    if values and all(isinstance(one, ast.Constant) and one.value == "cpu" for one in values):
        return "cpu"
    return source.code(node) if len(values) == 1 else "?"


def _shuffles(call: ast.Call, name: str) -> bool:
    """Does a call shuffle, or draw, and by no generator of its own?"""
    told = {one.arg: one.value for one in call.keywords}
    if not {"generator", None}.isdisjoint(told):
        return False
    if name != _LOADER:
        return len(call.args) <= 2
    shuffle = told.get("shuffle") or (call.args[2] if len(call.args) > 2 else None)
    off = shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value)
    return not off and {"sampler", "batch_sampler"}.isdisjoint(told)


def _is_used(source: Source, call: ast.Call) -> bool:
    """Is a generator given to what draws on the default device, and to nothing else?"""
    node: ast.AST = call
    while isinstance(up := source.parents[node], ast.Attribute) and up.attr == "manual_seed":
        node = source.parents[up]  # it returns the generator
    uses: list[ast.AST] = [node]
    if isinstance(up, ast.Assign) and isinstance(up.targets[0], ast.Name):
        scope, name = source.enclosing(call, ast.FunctionDef) or source.tree, up.targets[0].id
        names = source.names(scope)[name]
        uses = [one for one in names if one is not up.targets[0]]
        if len(stores(source, scope, name)) > 1:
            return False
    told = [
        up for one in uses if isinstance(up := source.parents[one], ast.keyword) and up.arg == "generator"
    ]
    return bool(told) and all(_draws(source, source.parents[one]) for one in told)


def _draws(source: Source, call: ast.AST) -> bool:
    name = source.qualified(call.func) if isinstance(call, ast.Call) else ""
    told = {one.arg for one in call.keywords} if isinstance(call, ast.Call) else set()
    return name in _SHUFFLES or (
        _RANDOM.fullmatch(name) is not None and told.isdisjoint({"device", "out", None})
    )


def _made(source: Source, node: ast.expr) -> ast.Call | None:
    """The factory at the bottom of a chain of methods that stays where it is."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        name = source.qualified(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name:
            told = any(one.arg in ("device", None) for one in node.keywords)
            return node if name in torch_api.FACTORIES and name != "torch.as_tensor" and not told else None
        if isinstance(node, ast.Attribute) and node.attr in _HOST:
            return None
        node = node.func if isinstance(node, ast.Call) else node.value
    return None
