"""Output of a tokenizer that a module is run on, where only the module itself can tell its device.

In a method of a module the tokens are made on the CPU whenever the module is elsewhere; and a model that
`device_map` spreads takes its inputs where its first part is, unless it is spread over more than one device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.findings import AppendCall
from devfix.flow import Flow, frameworks, torch_api
from devfix.flow.evidence import looks_like_pipeline, looks_like_processor
from devfix.flow.frame import path_of
from devfix.inputs.classes import Written, find
from devfix.inputs.hints import FUNCTIONS, Function, Hint, function_of
from devfix.placing import dotted
from devfix.source import Source, walk

_MAKES = frozenset({"encode", "encode_plus", "batch_encode_plus", "apply_chat_template", "pad"})
_TOKENIZER = re.compile(
    r"(?:^|[_.])(?:tok|\w{0,80}tokenizer\d?|\w{0,80}processor|feature_extractor)$", re.IGNORECASE
)
_RUNS = re.compile(r"(?:forward|generate|encode|get_\w{0,80}features|encode_\w+|embed\w*)$")
_MOVES = re.compile(r"\.to\(|\.cuda\(|device|\.prepare\(")
_SPREAD = frozenset({"auto", "balanced", "balanced_low_0", "sequential", "cuda", "cuda:0"})


def tokens(flow: Flow) -> Iterator[Hint]:
    """Every tokenizer output that goes into such a module as it is."""
    source = flow.source
    if "return_tensors" not in source.text:
        return
    seen: set[ast.AST] = set()
    for call in source.calls:
        if not _makes(call):
            continue
        scope = function_of(source, call)
        if scope in seen or isinstance(scope, ast.Module):
            seen.add(scope)
            continue
        hint = _followed(flow, call, scope)
        if hint is not None:
            seen.add(scope)
            yield hint


def _makes(call: ast.Call) -> bool:
    """`tokenizer(texts, return_tensors="pt")`"""
    if not any(
        word.arg == "return_tensors" and isinstance(word.value, ast.Constant) and word.value.value == "pt"
        for word in call.keywords
    ):
        return False
    path = dotted(call.func)
    owner, _, last = path.rpartition(".")
    if not path or looks_like_pipeline(owner or path):
        return False
    return bool(_TOKENIZER.search(path) or (last in _MAKES and _TOKENIZER.search(owner))) or (
        looks_like_processor(path)
    )


def _followed(flow: Flow, made: ast.Call, scope: Function) -> Hint | None:
    source = flow.source
    names = _names(source, made, scope)
    if names is None:
        return None
    for call in source.walk(scope):
        if not isinstance(call, ast.Call) or call is made:
            continue
        given = [*call.args, *(word.value for word in call.keywords)]
        argument = next((one for one in given if _is(one, made, names)), None)
        if argument is None or (names and source.span(call).start < source.span(made).start):
            continue
        path = dotted(call.func)
        owner, _, last = path.rpartition(".")
        for receiver in (path, owner if _RUNS.match(last) else ""):
            device = _device(flow, receiver, scope) if receiver else ""
            if device:
                inside = _inside(source, call, scope, made, names)
                moved = inside or [made]
                return Hint(
                    moved[0],
                    f"tokens are made on the CPU and go into `{receiver}`, which may be on another device",
                    f"move them to `{device}`",
                    tuple(AppendCall(source.span(one), f".to({device})") for one in moved),
                    made if inside else argument,
                    "they are made here" if inside else "they arrive here",
                )
    return None


def _inside(
    source: Source, call: ast.Call, scope: Function, made: ast.Call, names: set[str]
) -> list[ast.expr]:
    """The arguments of a call that are moved there, if they are parts of the output, and nobody else reads it."""
    plain = [*call.args, *(word.value for word in call.keywords if word.arg is not None)]
    parts = [one for one in plain if _is(one, made, names)]
    statement = source.statement(made)
    whole = (
        dotted(statement.targets[0]) if isinstance(statement, ast.Assign) and statement.value is made else ""
    )
    if not names or any(isinstance(one, ast.Name) and one.id == whole for one in parts):
        return []
    if len(parts) > 1 and not any(isinstance(one, ast.Name) for one in parts):
        return []  # one move of the whole is shorter
    inside = {node for one in parts for node in walk(one)}
    for node in source.walk(scope):
        if (
            isinstance(node, ast.Name)
            and node.id in names
            and isinstance(node.ctx, ast.Load)
            and node not in inside
        ):
            here = source.statement(node)
            if not isinstance(here, ast.Assign) or dotted(here.targets[0]) not in names:
                return []
    return parts


def _names(source: Source, made: ast.Call, scope: Function) -> set[str] | None:
    """The names that hold the output or a part of it; None where something may move it."""
    names: set[str] = set()
    statement = source.statement(made)
    if isinstance(statement, ast.Assign):
        if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
            return None
        value = statement.value
        while value is not made and isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        if value is made:
            names.add(statement.targets[0].id)
    if not names and _MOVES.search(source.code(statement)):
        return None
    nodes = list(source.walk(scope))
    for node in nodes:
        # `ids = enc["input_ids"]`: one step on is enough
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node is not statement:
            part = node.value
            if isinstance(part, (ast.Attribute, ast.Subscript)) and dotted(part.value) in names:
                names.add(node.targets[0].id)
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id not in names:
            continue
        here = source.statement(node)
        if not isinstance(node.ctx, ast.Load):
            if here is not statement and _MOVES.search(source.code(here)):
                return None
            continue
        if isinstance(here, (ast.For, ast.AsyncFor, ast.With, ast.If, ast.While)):
            if isinstance(here, (ast.For, ast.AsyncFor)):
                return None  # what is in it may be moved one by one
            continue
        up: ast.AST | None = node
        while up is not None and up is not here:
            if isinstance(up, ast.Attribute) and up.attr in ("to", "cuda", "device", "numpy"):
                return None
            if isinstance(up, ast.Call) and _MOVES.search(dotted(up.func)):
                return None
            if isinstance(up, (ast.DictComp, ast.ListComp)) and _MOVES.search(source.code(up)):
                return None
            up = source.parents.get(up)
    return names


def _is(argument: ast.expr, made: ast.Call, names: set[str]) -> bool:
    """`enc`, `enc["input_ids"]`, `enc.input_ids`, or the call itself in their place."""
    if isinstance(argument, (ast.Attribute, ast.Subscript)):
        argument = argument.value
    return argument is made or (isinstance(argument, ast.Name) and argument.id in names)


# --- the module -------------------------------------------------------------------------------


def _device(flow: Flow, receiver: str, scope: Function) -> str:
    """The device of a module, as its own method or the maker of a spread model can write it."""
    source = flow.source
    if looks_like_pipeline(receiver) or looks_like_processor(receiver):
        return ""
    owner = source.enclosing(scope, ast.ClassDef)
    if not receiver.startswith("self.") or receiver.count(".") != 1:
        return f"{receiver}.device" if any(map(_spread, _made(source, scope, receiver))) else ""
    if not isinstance(owner, ast.ClassDef):
        return ""
    made = [node for method in owner.body for node in _made(source, method, receiver)]
    if any(map(_spread, made)):
        return f"{receiver}.device"
    if scope.name == "__init__" or not _is_module(flow, owner) or not made:
        return ""
    if any(word in scope.name for word in frameworks.HOST_FUNCTIONS):
        return ""
    if not all(_weights(flow, one) for one in made):
        return ""
    code = source.code(owner)
    if re.search(rf"{re.escape(receiver)}\.(?:to|cuda|cpu)\(", code):
        return ""  # placed by hand
    own = re.search(r"\bself\.device\b(?!\s*=)", code) is not None
    return "self.device" if own else f"next({receiver}.parameters()).device"


def _made(source: Source, scope: ast.AST, path: str) -> list[ast.expr]:
    return [
        node.value
        for node in (source.walk(scope) if isinstance(scope, FUNCTIONS) else ())
        if isinstance(node, ast.Assign) and any(path_of(target) == path for target in node.targets)
    ]


def _spread(value: ast.expr) -> bool:
    """`Model.from_pretrained(name, device_map="auto")`"""
    return (
        isinstance(value, ast.Call)
        and dotted(value.func).endswith(".from_pretrained")
        and not looks_like_pipeline(dotted(value.func).rpartition(".")[0])
        and any(
            word.arg == "device_map" and isinstance(word.value, ast.Constant) and word.value.value in _SPREAD
            for word in value.keywords
        )
    )


def _weights(flow: Flow, value: ast.expr) -> bool:
    """Is it a module that uses its inputs where they are: of transformers, or a class in sight that moves none?"""
    if not isinstance(value, ast.Call):
        return False
    if any(word.arg == "device" or word.arg in frameworks.OWNING_ARGUMENTS for word in value.keywords):
        return False
    path = dotted(value.func)
    if path.endswith((".from_pretrained", ".from_config")):
        return not _TOKENIZER.search(path.rpartition(".")[0])
    name = flow.source.qualified(value.func)
    if name.startswith(("torch.nn.", "transformers.")):
        return not name.endswith(("Loss", "Dropout")) and "Config" not in name and "Tokenizer" not in name
    written = find(flow, "", flow.source, value.func)
    return written is not None and _is_module(flow, written.node) and not _moves(written)


def _moves(written: Written) -> bool:
    return any(
        _MOVES.search(owner.source.code(method)) is not None
        for owner, method in [written.method("forward") or (written, None)]
        if method is not None
    )


def _is_module(flow: Flow, owner: ast.ClassDef) -> bool:
    """Does a class derive from `nn.Module`, through others of the file if need be?"""
    source, todo, seen = flow.source, [owner], {owner.name}
    classes = {node.name: node for node in source.definitions if isinstance(node, ast.ClassDef)}
    while todo:
        for base in todo.pop().bases:
            name = source.qualified(base) or dotted(base)
            last = name.rpartition(".")[2]
            if name in torch_api.MODULE_BASES or last in ("LightningModule", "PreTrainedModel"):
                return True
            if last in classes and last not in seen:
                seen.add(last)
                todo.append(classes[last])
    return False
