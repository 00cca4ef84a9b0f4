"""What others of its kind beside it do with a device, and one layer, module or class does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.bindings import function_around
from devfix.findings import AppendCall, Edit, InsertStatement, SetArgument
from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.flow.methods import MOVES
from devfix.placing import bound_before, dotted
from devfix.source import Source, walk
from devfix.unmoved.others import LAYERS, Left, move_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
_INIT_MOVE = re.compile(r"(?m)^([ \t]+)self\.to\((\w+\.device)\)")
_WORD = re.compile(r"[A-Z][a-z0-9]+$|[A-Z]+$")
# Classes in whose dicts of modules only some have weights at all.
_OTHERS = re.compile(r"Loader|Dataset|Sampler|Optim|Scheduler|Writer|Tokenizer|Processor|Config")


def beside(flow: Flow) -> Iterator[Left]:
    """Layers without `device=`, modules without `.to(device)`, classes without `self.to(device)`."""
    text = flow.source.text
    if "device=" in text or "factory_kwargs" in text:
        yield from _layers(flow.source)
    if ").to(" in text or ").cuda(" in text:
        yield from _entries(flow.source)
    if len(_INIT_MOVE.findall(text)) >= 2:
        yield from _classes(flow)


# --- a layer without `device=` ---------------------------------------------------------------


def _layers(source: Source) -> Iterator[Left]:
    """`nn.Linear(4, 2)` in an `__init__` where all other layers of torch get `device=config.init_device`."""
    by_init: dict[ast.AST, list[ast.Call]] = {}
    for call in source.calls:
        func = call.func
        last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if last.startswith(LAYERS) and is_layer(source.qualified(func)):
            function = function_around(source, call)
            if function is not None and function.name == "__init__":
                by_init.setdefault(function, []).append(call)
    for init, calls in by_init.items():
        told = [(call, _told(call)) for call in calls]
        texts = {text for _, text in told if text}
        left = sorted((call for call, text in told if not text), key=lambda one: one.lineno)
        if len(texts) != 1 or len(calls) - len(left) < 2 or not left or len(left) > 2:
            continue
        code = source.code(init)
        if re.search(r"\bself\.(?:to|cuda|to_empty)\(|torch\.device\(", code):
            continue
        text = texts.pop()
        other = next(call for call, said in told if said)
        for call in left:
            if _moved_or_tied(source, call, code) or any(one.arg is None for one in call.keywords):
                continue
            if not bound_before(source, ast.parse(text, mode="eval").body, source.statement(call)):
                continue
            name = path_of(call.func)
            why = f"`{name}` is made without `device=`, unlike the other layers of the class, which get `{text}`"
            edits = (SetArgument(source.span(call), "device", text),)
            yield Left(call, name, why, other, f"device={text}", edits)


def is_layer(name: str) -> bool:
    return name.startswith("torch.nn.") and name.count(".") == 2 and name not in torch_api.BARE_MODULES


def _told(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "device" and not isinstance(keyword.value, ast.Constant):
            return ast.unparse(keyword.value)
    return ""


def _moved_or_tied(source: Source, call: ast.Call, code: str) -> bool:
    """Is a layer moved afterwards, or does it take the weights of another one?"""
    up = source.parents[call]
    if isinstance(up, ast.Attribute):
        return True
    if not isinstance(up, ast.Assign):
        return False
    path = re.escape(path_of(up.targets[0]))
    return re.search(rf"{path}\.(?:to|cuda|weight\s*=|requires_grad)", code) is not None


# --- a module without `.to(device)` ----------------------------------------------------------


def _entries(source: Source) -> Iterator[Left]:
    """`losses["mel"] = MelLoss()` where the other entries end in `.to(device)`; a kernel among kernels."""
    groups: dict[tuple[ast.AST, str], list[tuple[str, ast.expr]]] = {}
    for statement in source.walk():
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        function: ast.AST = function_around(source, statement) or source.tree
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            key = (function, f"{path_of(target.value)}[]")
            groups.setdefault(key, []).append((path_of(target), value))
        elif isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            key = (function, f"{target.id}[]")
            for at, one in zip(value.keys, value.values, strict=True):
                if isinstance(at, ast.Constant):
                    groups.setdefault(key, []).append((f"{target.id}[{at.value!r}]", one))
        elif isinstance(target, ast.Name) and isinstance(value, ast.Call):
            move = move_of(value)
            kind = _kind(_root(value))
            if kind and (move is None or (move.keywords and not move.args)):
                groups.setdefault((function, kind), []).append((target.id, value))
    for (function, group), entries in groups.items():
        yield from _unlike(source, function, group, entries)


def _kind(call: ast.Call | None) -> str:
    """The last word of the name of a class: `Kernel` of `MaternKernel`."""
    found = _WORD.search(path_of(call.func)) if call is not None else None
    return found.group() if found is not None else ""


def _root(value: ast.expr) -> ast.Call | None:
    """The call of the constructor at the root of a chain, where that is a class."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr[:1].isupper():
            break
        value = value.func.value
    if not isinstance(value, ast.Call):
        return None
    last = path_of(value.func).rpartition(".")[2]
    return value if last[:1].isupper() or last.endswith("_class") else None


def _unlike(
    source: Source, function: ast.AST, group: str, entries: list[tuple[str, ast.expr]]
) -> Iterator[Left]:
    moves = [(path, move) for path, value in entries for move in [move_of(value)] if move is not None]
    left = [(path, value) for path, value in entries if move_of(value) is None and _root(value) is value]
    enough = 2 if group.endswith("[]") else 1
    if len(moves) < enough or len(left) != 1 or len(moves) + 1 != len(entries):
        return
    path, value = left[0]
    assert isinstance(value, ast.Call)
    name = path_of(value.func)
    ends = {_suffix(source, move) for _, move in moves}
    if len(ends) != 1 or _OTHERS.search(name) or not (group.endswith("[]") or source.qualified(value.func)):
        return
    code = source.text if isinstance(function, ast.Module) else source.code(function)
    base = re.escape(path_of(value) or path)
    whole = re.escape(group[:-2]) if group.endswith("[]") else base
    if "device" in source.code(value) or re.search(rf"{base}\.(?:to|cuda)\(|\bin {whole}\b", code):
        return
    suffix = ends.pop()
    if not bound_before(source, ast.parse(f"x{suffix}", mode="eval").body, source.statement(value)):
        return
    why = f"`{path}` is made here without `{suffix}`, unlike `{moves[0][0]}` and others around it"
    yield Left(value, path, why, moves[0][1], suffix, (AppendCall(source.span(value), suffix),))


def _suffix(source: Source, move: ast.Call) -> str:
    assert isinstance(move.func, ast.Attribute) and move.func.attr in MOVES
    return source.text[source.span(move.func.value).end : source.span(move).end].strip()


# --- a class without `self.to(device)` -------------------------------------------------------


def _classes(flow: Flow) -> Iterator[Left]:
    """Classes of one family whose `__init__` ends in `self.to(flair.device)`, and one that has layers as well."""
    source = flow.source
    classes = {one.name: one for one in source.definitions if isinstance(one, ast.ClassDef)}
    family: dict[str, list[tuple[ast.ClassDef, ast.FunctionDef, str]]] = {}
    for owner in classes.values():
        init = next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if init is not None and owner.bases:
            found = _INIT_MOVE.search(source.code(init))
            root = _oldest(classes, owner)
            family.setdefault(root, []).append((owner, init, found.group(2) if found is not None else ""))
    for members in family.values():
        devices = {device for _, _, device in members if device}
        moved = [init for _, init, device in members if device]
        if len(devices) != 1 or len(moved) < 2:
            continue
        text = devices.pop()
        for owner, init, device in sorted(members, key=lambda one: one[0].lineno):
            layer = _own_layer(source, init)
            if device or layer is None or not _runs(source, owner, layer):
                continue
            last = init.body[-1]
            why = f"`{owner.name}` never moves its layers, unlike others of the file, which end in `self.to({text})`"
            edits: tuple[Edit, ...] = ()
            if not isinstance(last, ast.Return):
                edits = (InsertStatement(source.span(last), f"self.to({text})"),)
            value = getattr(last, "value", None)
            target = value if isinstance(value, ast.expr) else layer
            yield Left(target, owner.name, why, moved[0], f"self.to({text})", edits)


def _oldest(classes: dict[str, ast.ClassDef], owner: ast.ClassDef) -> str:
    """The oldest base of a class that the file names."""
    name, seen = owner.name, {owner.name}
    while name in classes and classes[name].bases:
        base = dotted(classes[name].bases[0])
        if not base or base in seen or base.rpartition(".")[2] in ("Module", "object", "ABC"):
            break
        seen.add(base)
        name = base
    return name


def _own_layer(source: Source, init: ast.FunctionDef) -> ast.expr | None:
    """A layer of torch with weights that an `__init__` makes for itself and does not move."""
    if "self.to(" in source.code(init) or "self.cuda(" in source.code(init):
        return None
    for statement in walk(init):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        if not path_of(statement.targets[0]).startswith("self.") or move_of(statement.value) is not None:
            continue
        name = source.qualified(statement.value.func)
        name = name.removesuffix(".from_pretrained")
        if is_layer(name) and name.rpartition(".")[2].startswith(LAYERS):
            return statement.targets[0]
    return None


def _runs(source: Source, owner: ast.ClassDef, layer: ast.expr) -> bool:
    """Does the class run the layer, and care where it is?"""
    code, path = source.code(owner), re.escape(path_of(layer))
    return re.search(rf"{path}(?:\.forward)?\(", code) is not None and "device" in code
