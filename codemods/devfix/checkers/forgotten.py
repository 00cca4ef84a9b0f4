"""Inputs that one method of a class moves to its device, and another one forgets; and those of a copy of a model.

The class itself tells where its model is, even if its making is out of sight: a training step that moves its batch,
next to an evaluation step that does not; a method that overrides one which moves its own parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from devfix.checkers.signs import is_other_framework, root_name
from devfix.engine.analysis import Analysis
from devfix.engine.files import Class, Function
from devfix.findings import AppendCall, Edit, Finding, InsertStatement, Related, told
from devfix.models import frameworks
from devfix.text.names import stores
from devfix.text.placing import around, dotted, guards_of
from devfix.text.source import Source, walk

CODEMOD = "move-inputs"
_SIGNS = (".to(self.", "device=self.")
# Called by others with inputs in place, or before there is a device.
_NOT_MEANT = frozenset({"__init__", "__call__", "__getitem__", "forward", "to", "loss", "training_step"})
# What an object holds besides networks.
_NO_NETWORK = re.compile(
    r"tokenizer|hparams|log|process|transform|metric|collate|writer|augment|fn|device|config|args|prepar",
    re.IGNORECASE,
)
_TOUCHES = frozenset({"to", "cuda", "device", "cpu", "numpy"})
# In-place operations that want their arguments where the tensor is; `copy_` does not.
_WRITES = frozenset({"lerp_", "add_", "mul_", "sub_", "addcmul_", "div_"})
_TENSORS = r"\.(?:state_dict|parameters|buffers|named_parameters|named_buffers)\("


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    source = analysis.file.source
    if CODEMOD not in wanted or is_other_framework(source):
        return
    told = list[Finding]()
    if source.has(_SIGNS[0]) or source.has(_SIGNS[1]):
        for owner in analysis.file.all_classes:
            if analysis.class_kind(owner) not in ("owned", "host"):
                told += _beside(analysis, owner)
            told += _overriding(source, owner)
    if source.has("deepcopy(") and source.has("zip("):
        for owner in analysis.file.all_classes:
            told += _into_copies(source, owner)
    for finding in told:
        yield finding, {source.position(finding.span.start)[0]}


def _moves(source: Source, method: Function) -> dict[str, tuple[ast.Assign, ast.expr, str]]:
    """`x = x.to(self.device)` and its like for a dict, of parameters: the statement, the value and the device."""
    found: dict[str, tuple[ast.Assign, ast.expr, str]] = {}
    for one in source.of_kind(ast.Assign, method.node):
        target, value = one.targets[0], one.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = [*zip(target.elts, value.elts, strict=False)]
        for name, given in pairs:
            if isinstance(name, ast.Name) and any(name.id == each.arg for each in method.parameters):
                device = _device(source, given, name.id)
                if device.startswith("self."):
                    found.setdefault(name.id, (one, given, device))
    return found


def _device(source: Source, value: ast.expr, name: str) -> str:
    """The device that an expression moves `name`, or what is in it, to."""
    names = {name}
    for part in getattr(value, "generators", ()):
        if name in source.names(part.iter):
            names |= source.names(part.target).keys()
    for call in source.of_kind(ast.Call, value):
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "to"
            and root_name(call.func.value) in names
        ):
            given = [*(one.value for one in call.keywords if one.arg == "device"), *call.args]
            if given and "dtype" not in dotted(given[0]):
                return dotted(given[0])
    return ""


def _is_touched(source: Source, method: Function, name: str) -> bool:
    """Is the parameter moved, or asked where it is, in any way? What is in it may be moved one by one."""
    for node in method.nodes:
        about: ast.AST | None = None
        if isinstance(node, ast.Attribute) and node.attr in _TOUCHES:
            about = node.value
        elif isinstance(node, ast.Call) and "device" in source.code(node.func).rpartition(".")[2]:
            about = node
        elif isinstance(node, (ast.For, ast.comprehension)):
            about = node.iter
        if about is not None and name in source.names(about):
            return True
    return False


def _beside(analysis: Analysis, owner: Class) -> Iterator[Finding]:
    """A method that runs its parameter unmoved, where another one moves its own of that name."""
    source = analysis.file.source
    moves = [
        (mover, name, move)
        for mover in owner.methods.values()
        for name, move in _moves(source, mover).items()
    ]
    for method in owner.methods.values() if moves else ():
        if method.name in _NOT_MEANT or any(word in method.name for word in frameworks.HOST_FUNCTIONS):
            continue
        for mover, name, move in moves:
            known = any(one.arg == name for one in method.parameters)
            if not known or _is_touched(source, method, name) or not _is_left(source, owner, method):
                continue
            passed = analysis.calls.get((id(method.node), name), [])
            if passed and all(place.on_device for place in passed):
                continue  # its own methods pass what is there
            run = _run(source, owner, method, name, source.code(mover.node))
            if run is not None:
                guards = {ast.unparse(one.test) for one in guards_of(source, move[0])}
                first = next(
                    one for one in method.node.body if _reads(source, one, name, guards) or run in walk(one)
                )
                node = run if run in walk(first) else source.names(first)[name][0]
                yield _finding(source, node, first, name, move, mover.name)
                break


def _reads(source: Source, statement: ast.stmt, name: str, guards: Collection[str]) -> bool:
    """Does a statement read the parameter, but for one that asks what the mover asks?"""
    asks = isinstance(statement, ast.If) and ast.unparse(statement.test) in guards
    return name in source.names(statement) and not asks


def _is_left(source: Source, owner: Class, method: Function) -> bool:
    """Do the other methods of the class, where they call this one, pass something that they have not moved?"""
    callers = [source.code(one.node) for one in owner.methods.values() if method.name in one.called]
    if any(word in code for code in callers for word in (".to(", ".cuda(", "device", "prepare")):
        return False
    return bool(callers) or not method.name.startswith("_")


def _run(source: Source, owner: Class, method: Function, name: str, mover: str) -> ast.Call | None:
    """The first call of a network of the object on the parameter, that the other method calls as well."""
    for call in sorted(source.of_kind(ast.Call, method.node), key=lambda one: source.span(one).start):
        path = dotted(call.func)
        held = path.split(".")[1] if path.startswith("self.") else ""
        given = [*call.args, *(one.value for one in call.keywords)]
        if not any(isinstance(one, ast.Name) and one.id == name for one in given) or not held:
            continue
        if held in owner.methods or f"self.{held}" not in mover or _NO_NETWORK.search(path):
            continue
        # The name must not have been given something else before.
        bound = [source.statement(one) for one in stores(source, method.node, name)]
        before = [one for one in bound if source.span(one).start < source.span(call).start]
        if all(isinstance(one, ast.Assign) and name in source.names(one.value) for one in before):
            return call
    return None


def _overriding(source: Source, owner: Class) -> Iterator[Finding]:
    """A method that calls the one it overrides, which moves its parameter: its own name is not moved by that."""
    for base in owner.lineage[1:] if len(owner.node.bases) == 1 else ():
        for method in owner.methods.values() if base.file is owner.file else ():
            mover = base.methods.get(method.name)
            if mover is None or method.name == "__init__" or "super(" not in source.code(method.node):
                continue
            for name, move in _moves(source, mover).items():
                run = next(
                    (one for one in source.of_kind(ast.Call, method.node) if _takes(one, name, method.name)),
                    None,
                )
                if run is not None and not _is_touched(source, method, name):
                    at = around(source, run)[-1]
                    yield _finding(source, run, at, name, move, f"{base.name}.{mover.name}")
                    break


def _takes(call: ast.Call, name: str, method: str) -> bool:
    """Is it a call of something of the object, but not of the method itself, on a name?"""
    func = call.func
    own = isinstance(func, ast.Attribute) and func.attr != method and root_name(func) == "self"
    return own and any(isinstance(one, ast.Name) and one.id == name for one in call.args)


def _finding(
    source: Source,
    node: ast.expr,
    at: ast.stmt,
    name: str,
    move: tuple[ast.Assign, ast.expr, str],
    mover: str,
) -> Finding:
    statement, value, device = move
    text, guards = f"{name} = {ast.unparse(value)}", guards_of(source, statement)
    if guards:
        text = f"if {condition_of(guards[0], statement)}:\n    {text}"
    parts = [value, *(one.test for one in guards)]
    read = {one.id for part in parts for one in walk(part) if isinstance(one, ast.Name)}
    bound = {
        one.id
        for part in parts
        for one in walk(part)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    plain = len(guards) <= 1 and read <= {"self", "torch", name, *bound}
    edit = InsertStatement(source.span(at), text, before=True)
    message = (
        f"`{name}` is not moved before it is used, while `{mover}` moves its `{name}` to `{device}` first"
    )
    title, edits = f"move `{name}` to `{device}`", (edit,) if plain else ()
    related = (Related(source.span(statement), f"`{mover}` moves it here"),)
    return told(CODEMOD, source.span(node), message, title, edits, related, "both get it from the CPU")


def condition_of(guard: ast.If, statement: ast.stmt) -> str:
    """The test of an `if`, or its opposite for what stands in the `else`."""
    test, text = guard.test, ast.unparse(guard.test)
    if any(statement in walk(one) for one in guard.body):
        return text
    turned = (
        {ast.Is: ast.IsNot(), ast.IsNot: ast.Is()}.get(type(test.ops[0]))
        if isinstance(test, ast.Compare)
        else None
    )
    if isinstance(test, ast.Compare) and turned is not None and len(test.ops) == 1:
        return ast.unparse(ast.Compare(test.left, [turned], test.comparators))
    return f"not ({text})"


def _into_copies(source: Source, owner: Class) -> Iterator[Finding]:
    """`mine.lerp_(theirs)` over the tensors of a deep copy that has a device of its own, and of another model."""
    code = source.code(owner.node)
    for loop in source.of_kind(ast.For, owner.node):
        over, target = loop.iter, loop.target
        if not isinstance(over, ast.Call) or dotted(over.func) != "zip" or len(over.args) != 2:
            continue
        if not isinstance(target, ast.Tuple) or not all(isinstance(one, ast.Name) for one in target.elts):
            continue
        names, texts = (
            [source.code(one) for one in target.elts],
            [_made(source, loop, one) for one in over.args],
        )
        kept = [_device_of_copy(code, one) for one in texts]
        if (
            len(names) != 2
            or bool(kept[0]) is bool(kept[1])
            or not all(re.search(_TENSORS, one) for one in texts)
        ):
            continue
        mine, theirs = names if kept[0] else reversed(names)
        for call in source.of_kind(ast.Call, loop) if f"{theirs} = " not in source.code(loop) else ():
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr in _WRITES and root_name(func.value) == mine:
                if call.args and source.code(call.args[0]) == theirs:
                    yield _into_copy(source, call.args[0], func.attr, theirs, kept[0] or kept[1])


def _made(source: Source, loop: ast.For, node: ast.expr) -> str:
    """The code of what a loop goes over, through a name that is bound once if need be."""
    method = source.enclosing(loop, ast.FunctionDef)
    bound = stores(source, method, node.id) if isinstance(node, ast.Name) and method is not None else []
    return source.code(getattr(source.statement(bound[0]), "value", node) if len(bound) == 1 else node)


def _device_of_copy(code: str, tensors: str) -> str:
    """`self.device`, to which the deep copy was moved whose tensors these are; empty for those of others."""
    path = re.match(rf"(?:(?:tuple|list)\()?(self\.\w+){_TENSORS}", tensors)
    if path is None or not re.search(rf"{path[1]} = (?:copy\.)?deepcopy\(", code):
        return ""
    moved = re.search(rf"{path[1]}\.to\((?:device=)?(?:self\.)?(\w+)\)", code)
    return f"self.{moved[1]}" if moved is not None and f"self.{moved[1]} = {moved[1]}" in code else ""


def _into_copy(source: Source, node: ast.expr, method: str, name: str, device: str) -> Finding:
    edits: tuple[Edit, ...] = (AppendCall(source.span(node), f".to(device={device})"),)
    message = f"`{method}` mixes `{name}` with a copy that may be on another device, and then raises"
    return told(CODEMOD, source.span(node), message, f"move `{name}` to `{device}`", edits)
