"""Fixes of a run's errors that are not of tensors that meet: host reads, generators, checkpoints, autocast."""

from __future__ import annotations

import ast
from collections.abc import Callable

from devfix.errors.messages import kind_of
from devfix.findings import Edit, ReplaceExpression, SetArgument, WrapExpression, WrapStatement
from devfix.models.loader import models
from devfix.repair.numbered import of_one_device
from devfix.repair.reading import FUNCTIONS, Fixes, Reading, Running
from devfix.repair.without_cuda import if_there
from devfix.repair.written import appended, dotted, is_move, put_behind, replaced, short
from devfix.text.source import Source


def by_kind(error: Reading) -> Fixes | None:
    """The fixes for an error by what its message says; None for one of tensors that meet."""
    text = error.seen.error
    if "can be pinned" in text:
        return not_pinned(error)
    kind = kind_of(text)
    named = _NAMED.get(kind.id) if kind is not None else None
    fixes = named or next((of for words, of in _KINDS if any(word in text for word in words)), None)
    if fixes is None:
        return None
    running = error.running()
    return fixes(error, running) if running is not None else iter(())


def on_the_cpu(error: Reading, running: Running) -> Fixes:
    path, source, call = running
    for one in error.seen.passed[0].found:
        if one.within in ("items", "values") and (held := error.node(one.at)) is not None:
            title = f"copy the tensors of `{short(source.code(held))}` to the CPU first"
            yield path, held, title, (put_behind(source, held, one, ".cpu()"),)
            return
    value: ast.expr | None = next((error.node(one.at) for one in error.seen.passed[0].found), None)
    if value is None and isinstance(call.func, ast.Attribute) and call.func.attr in ("numpy", "__array__"):
        value = call.func.value
    if value is None and "'lengths'" in error.seen.error:
        given = [one.value for one in call.keywords if one.arg == "lengths"]
        value = (given or call.args[1:2] or [None])[0]  # type: ignore[list-item]
    elif value is None and call.args:
        value = call.args[0]
    if value is not None:
        title = f"copy `{short(source.code(value))}` to the CPU first"
        yield path, value, title, (appended(source, value, ".cpu()"),)


def device_type(error: Reading, running: Running) -> Fixes:
    path, source, call = running
    given = [
        *call.args[:1],
        *(one.value for one in call.keywords if one.arg in ("device_type", "device")),
    ]
    for value in given[:1]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            kind = value.value.partition(":")[0]
            edit: Edit = ReplaceExpression(source.span(value), f'"{kind}"')
        else:
            torch = source.local_name("torch")
            if not torch:
                return
            edit = WrapExpression(source.span(value), f"{torch}.device(", ").type")
        yield path, value, "give the type of the device", (edit,)


def without_autocast(error: Reading, running: Running) -> Fixes:
    """The statement with autocast off, and what the loss is given first in float32."""
    path, source, call = running
    if not call.args:
        return
    statement = source.statement(call)
    torch = source.local_name("torch")
    if not torch or not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)):
        return
    first = call.args[0]
    edits: tuple[Edit, ...] = (
        WrapStatement(source.span(statement), f'with {torch}.autocast("cuda", enabled=False):'),
        appended(source, first, ".float()"),
    )
    yield path, call, f"compute `{short(source.code(call))}` in float32, with autocast off", edits


def map_location(error: Reading, running: Running) -> Fixes:
    path, source, call = running
    if len(call.args) < 2:
        yield path, call, "load to the CPU", (SetArgument(source.span(call), "map_location", '"cpu"'),)


def generator(error: Reading, running: Running) -> Fixes:
    """Numbers drawn on the CPU and moved; else the device of the generator, where that is made under this name."""
    path, source, call = running
    if error.seen.error.endswith("found 'cpu'"):
        yield from drawn_on_the_cpu(source, path, call)
    given = [one.value for one in call.keywords]
    for one in given:
        if isinstance(one, ast.Call) and dotted(source, one.func) == "torch.Generator":
            yield from _generator_on(error, source, path, one)
    names = {source.code(one) for one in given if isinstance(one, (ast.Name, ast.Attribute))}
    for node in source.walk():
        if not isinstance(node, ast.Assign) or source.code(node.targets[0]) not in names:
            continue
        # A name belongs to its function, `self.name` to its class.
        around = FUNCTIONS if isinstance(node.targets[0], ast.Name) else (ast.ClassDef,)
        if source.enclosing(node, *around) is not source.enclosing(call, *around):
            continue
        for made in ast.walk(node.value):
            if isinstance(made, ast.Call) and dotted(source, made.func) == "torch.Generator":
                yield from _generator_on(error, source, path, made)


def drawn_on_the_cpu(source: Source, path: str, call: ast.Call) -> Fixes:
    """The numbers of the CPU's generator stay the same: `torch.randn(3, generator=g).to(device)`."""
    made: ast.expr = call
    while (
        isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr.endswith("_")
    ):
        made = made.func.value
    if not isinstance(made, ast.Call):
        return
    row = models().function(dotted(source, made.func))
    devices = [one.value for one in made.keywords if one.arg == "device"]
    if row is None or row.form != "make" or len(devices) != 1 or isinstance(source.parents[call], ast.Expr):
        return
    device = source.code(devices[0])
    edits = SetArgument(source.span(made), "device", '"cpu"'), appended(source, call, f".to({device})")
    yield path, call, f"draw on the CPU, as its generator does, and move that to `{device}`", edits


def _generator_on(error: Reading, source: Source, path: str, made: ast.Call) -> Fixes:
    device = next((text for one in error.seen.passed if (text := error.device_at(source, one, made))), "")
    torch = source.local_name("torch")
    if not device and error.seen.device != "cpu" and torch:
        device = f'"{error.seen.device}" if {torch}.cuda.is_available() else "cpu"'
    device = device or f'"{error.seen.device}"'
    title = f"make the generator on `{device}`"
    if made.args:
        yield path, made, title, (ReplaceExpression(source.span(made.args[0]), device),)
    else:
        yield path, made, title, (SetArgument(source.span(made), "device", device),)


def in_workers(error: Reading, running: Running) -> Fixes:
    """In a forked process there is no CUDA: what it moves or makes stays on the CPU, for the process that forked it."""
    path, source, call = running
    row = models().function(dotted(source, call.func))
    if row is not None and row.form in ("make", "data", "like"):
        title = (
            f"make the result of `{short(source.code(call.func))}` on the CPU, since a forked process runs it"
        )
        yield path, call, title, (SetArgument(source.span(call), "device", '"cpu"'),)
    elif is_move(call) and not isinstance(source.parents[call], ast.Expr):
        assert isinstance(call.func, ast.Attribute)
        value = source.code(call.func.value)
        title = f"leave `{short(value)}` where it is, since a forked process runs this"
        yield path, call, title, (replaced(source, call, value),)


def not_pinned(error: Reading) -> Fixes:
    """`pin_memory=False`, for a loader whose tensors are on a device already."""
    for path in dict.fromkeys(frame.at.path for frame in error.seen.passed):
        source = error.source(path)
        for node in source.walk() if source is not None else ():
            if not isinstance(node, ast.Call) or source is None:
                continue
            for one in node.keywords:
                if (
                    one.arg == "pin_memory"
                    and isinstance(one.value, ast.Constant)
                    and one.value.value is True
                ):
                    edit = ReplaceExpression(source.span(one.value), "False")
                    yield path, node, "do not pin what is on a device already", (edit,)


_FixesOf = Callable[[Reading, Running], Fixes]
_NAMED: dict[str, _FixesOf] = {"no-cuda": if_there, "ordinal": of_one_device}
_KINDS: tuple[tuple[tuple[str, ...], _FixesOf], ...] = (
    (("numpy", "'lengths'"), on_the_cpu),
    (("unsafe to autocast",), without_autocast),
    (("autocast", "device_type"), device_type),
    (("deserialize",), map_location),
    (("generator",), generator),
    (("forked subprocess", "CUDA error: initialization error"), in_workers),
)
