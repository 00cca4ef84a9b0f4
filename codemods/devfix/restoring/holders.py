"""What holds tensors beside a module's own, and from when on: optimizers with state, averaged weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import Binding, Bindings, function_around
from devfix.flow import Flow
from devfix.flow.events import Scope
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.source import Source, children, remembered
from devfix.spotting import lines_with, on_lines

# Classes that clone the weights of what they are given, and go on from there without a look at devices:
# by the end of the qualified name, and whether a `device=` makes them move the copy.
COPIES = {
    "ModelEma": "timm.utils.ModelEma", "ModelEmaV2": "timm.utils.ModelEmaV2",
    "ModelEmaV3": "timm.utils.ModelEmaV3", "ModelEMA": "", "ExponentialMovingAverage": "torch_ema",
    "EMAModel": "diffusers.training_utils.EMAModel", "EMA": "",
}  # fmt: skip
_OPTIMIZER = re.compile(
    r"^\w{0,99}(?:Adam|SGD|RMSprop|Adagrad|Adadelta|LAMB|Lion|Adafactor|ASGD|Rprop)\w{0,99}$"
)
_OPTIMIZER_NAME = re.compile(r"(?:^|[._])opt(?:im|imizer)?s?(?:_|\d|$)|optimizer", re.IGNORECASE)
_PATTERNS = (
    re.compile(r"\.load_state_dict\("),
    re.compile(r"(?:ModelEma|ModelEMA|ModelEmaV\d|ExponentialMovingAverage|EMAModel|EMA|deepcopy)\("),
)
_AVERAGED = re.compile(r"ema|teacher|momentum|average|averaged|shadow|target|mean_", re.IGNORECASE)
_MOVED = r"(?<![\w.]){}(?:\.\w+)?\s*\.\s*(?:to|cuda)\s*\("
_BROUGHT = re.compile(r"\.state(?:\.(?:values|items)\(|\[)|optimizers?_to\w{0,99}\(|move_optim\w{0,99}\(")
_PASSED = ("parameters", "named_parameters")


@dataclass(frozen=True, eq=False)
class Holder:
    """Tensors that belong with those of `modules` and are made at `node`, on the device of that moment.

    `what` names them, `path` their owner; `sure` says that nothing but the table speaks for it.
    """

    node: ast.Call
    path: str
    what: str
    modules: tuple[str, ...]
    sure: bool


def candidates(source: Source) -> list[int]:
    """The lines that may hold one."""
    return lines_with(source, *_PATTERNS)


def holders(flow: Flow, scope: Scope, lines: list[int], bindings: Bindings) -> Iterator[Holder]:
    """The holders that a scope makes or restores, in the order of the text."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    calls = [node for node in on_lines(scope.node, lines, inner) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "load_state_dict":
            found = _restored(flow, scope, call, path_of(func.value), bindings)
        else:
            found = _averaged(flow, scope, call)
        if found is not None:
            yield found


# --- optimizers ------------------------------------------------------------------------------


def _restored(flow: Flow, scope: Scope, call: ast.Call, path: str, bindings: Bindings) -> Holder | None:
    """`optimizer.load_state_dict(..)` of an optimizer that the scope has made."""
    if not path or not _OPTIMIZER_NAME.search(path):
        return None
    made = _made(flow, bound_in(flow.source, scope, path, bindings))
    if made is None:
        return None
    if flow.source.span(made).start > flow.source.span(call).start or _brought_along(flow.source):
        return None
    modules = tuple(_given(flow.source, scope, made, bindings))
    return Holder(call, path, f"the state of `{path}` is restored", modules, True) if modules else None


def bound_in(source: Source, scope: Scope, path: str, bindings: Bindings) -> list[Binding]:
    """The bindings of a name or `self.x` in a scope, those of other methods left out."""
    owner = scope.owner
    if not path.startswith("self.") or owner is None:
        return bindings.within(scope.node, path)
    found = bindings.of_class(owner, path)
    return [binding for binding in found if function_around(source, binding.node) is scope.node]


def _made(flow: Flow, found: list[Binding]) -> ast.Call | None:
    """The call that makes an optimizer with state; the first, where there is a choice of them."""
    calls = [one.value for one in found if not one.parameter and not _is_none(one.value)]
    made = [one for one in calls if isinstance(one, ast.Call) and _is_optimizer(flow, one)]
    if not made or len(made) < len(calls) or any(one.parameter for one in found):
        return None
    return next((one for one in made if not _stateless(one)), None)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_optimizer(flow: Flow, made: ast.Call) -> bool:
    if flow.value(made).kind is Kind.OPTIMIZER:
        return True
    return bool(_OPTIMIZER.match(path_of(made.func).rpartition(".")[2]))


def _stateless(made: ast.Call) -> bool:
    """SGD without momentum keeps no tensors."""
    if path_of(made.func).rpartition(".")[2] != "SGD":
        return False
    told = [*made.args[2:3], *(k.value for k in made.keywords if k.arg in ("momentum", None))]
    return not told or (isinstance(told[0], ast.Constant) and not told[0].value)


@remembered
def _brought_along(source: Source) -> bool:
    """Does the file move the state itself: `for s in optimizer.state.values(): ...`?"""
    return bool(_BROUGHT.search(source.text))


def _given(source: Source, scope: Scope, made: ast.Call, bindings: Bindings) -> Iterator[str]:
    """The paths of the modules whose parameters a call is given, one name looked through."""
    todo: list[tuple[ast.AST, int]] = [(argument, 0) for argument in made.args[:1]]
    todo += [(k.value, 0) for k in made.keywords if k.arg in ("params", "parameters", "model")]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSED:
            path = path_of(node.func.value)
            if path and path != "self":
                yield path
            continue
        if isinstance(node, ast.Name) and depth < 2:
            for binding in bound_in(source, scope, node.id, bindings):
                if binding.value is not None and not binding.parameter:
                    todo.append((binding.value, depth + 1))
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            todo.extend((child, depth) for child in children(node))


# --- averages --------------------------------------------------------------------------------


def _averaged(flow: Flow, scope: Scope, call: ast.Call) -> Holder | None:
    """`ema = ModelEma(model)`: a copy of the weights, which no later move of the model reaches."""
    source = flow.source
    parent = source.parents.get(call)
    if not isinstance(parent, (ast.Assign, ast.AnnAssign)) or any(
        k.arg in ("device", None) for k in call.keywords
    ):
        return None
    target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
    path, name = path_of(target), path_of(call.func)
    last = name.rpartition(".")[2]
    if not path or not call.args:
        return None
    if last == "deepcopy":
        if not _AVERAGED.search(path) or not _is_updated(source.text, path):
            return None
        sure = True
    elif last in COPIES:
        sure = bool(COPIES[last]) and _by_library(source, call.func, last)
        if not sure and not _copies(source, last):
            return None
    else:
        return None
    if re.search(_MOVED.format(re.escape(path)), source.text):
        return None
    model = path_of(call.args[0])
    inner = call.args[0]
    if (
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "parameters"
    ):
        model = path_of(inner.func.value)
    return Holder(call, path, f"the copy in `{path}` is made", (model,), sure) if model else None


def _by_library(source: Source, func: ast.expr, last: str) -> bool:
    return source.qualified(func).startswith(COPIES[last].partition(".")[0] + ".")


def _is_updated(text: str, path: str) -> bool:
    """Is the copy brought up to date parameter by parameter: `zip(ema.parameters(), model.parameters())`?"""
    return bool(
        re.search(rf"zip\([^\n]{{0,300}}(?<![\w.]){re.escape(path)}\.(?:parameters|state_dict)\(", text)
    )


def _copies(source: Source, name: str) -> bool:
    """Does a class of this file, or one that an import brings, clone the weights when it is made?"""
    for node in source.definitions:
        if isinstance(node, ast.ClassDef) and node.name == name:
            starts = [
                item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"
            ]
            text = source.code(starts[0]) if starts else ""
            moves = re.search(r"\.to\(|\.cuda\(|\bdevice\b", source.code(node))
            return bool(re.search(r"deepcopy\(|\.clone\(", text)) and not moves
    return name == "ModelEMA" and name in source.imports
