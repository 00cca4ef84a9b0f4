"""`assert-device`: assert that a moved model is on its device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from devfix.checkers.surgeries import surgeries
from devfix.codemod import Codemod, Example
from devfix.engine.events import ATTACHED, MOVED, MOVES, USED, Event
from devfix.engine.evidence_of_modules import is_set_up
from devfix.engine.files import Function
from devfix.engine.places import CHOICE
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.values import MODULE
from devfix.findings import Edit, EnsureImport, Finding, InsertStatement, Safety
from devfix.flow import Flow
from devfix.flow.values import Kind
from devfix.text.comparing import device_after, has_parameters
from devfix.text.names import path_of
from devfix.text.placing import dotted, follows, siblings
from devfix.text.source import COMPREHENSIONS, Source, walk

_HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
"""
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


@dataclass(frozen=True)
class AssertDevice(Codemod):
    """Assert that a model and its inputs are on the device chosen for them.

    Off by default: turn it on with `--codemod assert-device`.

    ## What it does
    Inserts `assert next(model.parameters()).device == device` after a module's last move and last
    change and before its first use, at most once for each module in a function.

    For most device variables a plain comparison would be wrong: on a GPU a parameter's device is
    `cuda:0`, which equals neither `torch.device("cuda")` nor any string. So the plain form is written
    only where the variable is certainly the CPU, a `torch.device` with an index, or the device of a
    tensor. Elsewhere the assertion compares with `torch.empty(0, device=device).device`, which is what
    `device` resolves to at run time.

    ## Why is this bad?
    A model on the wrong device fails late, inside some layer and far from the cause. If everything
    stayed on the CPU, the only symptom is slowness. An assertion points at the cause at once.

    ## Fix safety
    Safe where devfix sees the move and the module certainly has parameters: the assertion then holds, on
    the CPU too. Unsafe where the module's class is out of sight, since `next` raises StopIteration for a
    module without parameters, and where something that stays on the CPU was attached to the module.
    Modules that a framework places are left alone.

    ## Options
    - `check` (`first` or `all`, default `first`): `first` checks only the first parameter, and so misses
      a head that was attached after the move. `all` checks every parameter and buffer.
    - `inputs` (default false): also assert, before a call of the model, that its inputs are on the
      model's device.
    """

    check_: Literal["first", "all"] = "first"  # the option `check`; the plain name is the method's
    inputs: bool = False

    id = "assert-device"
    words = ((".to(", ".cuda("), ("torch",))
    default = False
    examples = (
        Example.changed(
            "A device variable without an index",
            _HEAD
            + """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8))
model[1] = nn.Linear(8, 2)
model.to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            (
                "model.to(device)\n",
                "model.to(device)\nassert next(model.parameters()).device == torch.empty(0, device=device).device\n",
            ),
        ),
        Example.changed(
            "A device with an index can be compared as it is",
            _HEAD
            + """
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            ("4, 2).to(device)\n", "4, 2).to(device)\nassert next(model.parameters()).device == device\n"),
        ),
        Example.changed(
            "Every parameter and buffer",
            _HEAD
            + """
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).eval()
model.to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            ("from torch import nn\n", "from torch import nn\nimport itertools\n"),
            (
                "model.to(device)\n",
                "model.to(device)\n"
                "assert {t.device for t in itertools.chain(model.parameters(), model.buffers())} == {\n"
                "    torch.empty(0, device=device).device\n}\n",
            ),
            options=(("check", "all"),),
        ),
        Example.changed(
            "Inputs, too",
            _HEAD
            + """
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
for step in range(2):
    x = torch.full((1, 4), float(step)).to(device)
    print(model(x).sum().item())
""",
            ("4, 2).to(device)\n", "4, 2).to(device)\nassert next(model.parameters()).device == device\n"),
            (
                "    print(model(x)",
                "    assert x.device == next(model.parameters()).device\n    print(model(x)",
            ),
            options=(("inputs", "true"),),
        ),
        Example(
            "Trap: asserted already, or nothing to look at",
            _HEAD
            + """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
assert next(model.parameters()).device.type == device.type
loss = nn.MSELoss().to(device)
x = torch.ones(1, 4, device=device)
print(loss(model(x), torch.zeros(1, 2, device=device)).item())
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        source, analysis = flow.source, flow.watched()
        strays = {move.node for surgery in surgeries(analysis) for move in surgery.moves}
        for function, log in analysis.histories.items():
            owner, events = (function.owner if function is not None else None), list(log.values())
            if owner is not None and analysis.class_kind(owner) == "owned":
                continue
            moves = list(_last_moves(source, events))
            if not moves and not self.inputs:
                continue
            asserted = _asserted(source, function)
            anchors: set[tuple[str, ast.stmt]] = set()
            for move in moves:
                path, anchor = _path(move), _anchor(source, events, move)
                if not path or path in asserted or (path, anchor) in anchors:
                    continue
                anchors.add((path, anchor))
                finding = self._model(flow, move, path, anchor, stray=move.node in strays)
                if finding is not None:
                    yield finding
            if self.inputs:
                yield from self._inputs(flow, events, asserted)

    def _model(self, flow: Flow, move: Event, path: str, anchor: ast.stmt, *, stray: bool) -> Finding | None:
        source = flow.source
        device, known = device_after(flow, move, anchor), has_parameters(flow.watched(), move.module)
        if not device or (move.module.bound is not None and not known):
            return None  # a class in view need not have any: `next` would raise
        imports: tuple[Edit, ...] = (EnsureImport("torch"),) if "torch." in device else ()
        if self.check_ == "all":
            tensors = f"itertools.chain({path}.parameters(), {path}.buffers())"
            text = f"assert {{t.device for t in {tensors}}} == {{{device}}}"
            if len(text) > _WIDTH:
                text = f"assert {{t.device for t in {tensors}}} == {{\n    {device}\n}}"
            imports += (EnsureImport("itertools"),)
        else:
            text = f"assert next({path}.parameters()).device == {device}"
        sure = (
            has_parameters(flow.watched(), move.module) and not stray and not _is_given(move.function, path)
        )
        return self.finding(
            source.span(move.node),
            f"`{path}` is moved here, but nothing checks afterwards that it is on that device",
            title=f"assert where `{path}` is",
            edits=(InsertStatement(source.span(anchor), text), *imports),
            safety=Safety.SAFE if sure else Safety.UNSAFE,
            assumes=f"`{path}` has parameters, and all of them are there",
        )

    def _inputs(self, flow: Flow, events: list[Event], asserted: set[str]) -> Iterator[Finding]:
        """Tensors that reach a module which was moved, known to be on the device."""
        source = flow.source
        done: set[tuple[str, ast.AST]] = set()
        for event in events:
            if (
                event.what != USED
                or event.via
                or event.name != "called"
                or not isinstance(event.node, ast.Call)
            ):
                continue
            module, path = event.module, event.path
            if module.kind != MODULE or module.role in ANYWHERE or not event.place.on_device:
                continue
            if not path or not isinstance(event.statement, _SIMPLE):
                continue
            for argument in event.node.args:
                given = flow.value(argument)
                name = dotted(argument)
                key = (name, source.parents[event.statement])
                if given.kind is not Kind.TENSOR or not given.place.on_device or not name or name in asserted:
                    continue
                if key in done or _within(argument, event.statement, source):
                    continue
                done.add(key)
                text = f"assert {name}.device == next({path}.parameters()).device"
                yield self.finding(
                    source.span(argument),
                    f"nothing checks that `{name}` is on the device of `{path}`",
                    title=f"assert where `{name}` is",
                    edits=(InsertStatement(source.span(event.statement), text, before=True),),
                    safety=Safety.SAFE if has_parameters(flow.watched(), module) else Safety.UNSAFE,
                    assumes=f"`{path}` has parameters",
                )


_WIDTH = 96


def _asserted(source: Source, function: Function | None) -> set[str]:
    """Dotted names whose device a function asserts already, or raises about."""
    found: set[str] = set()
    for node in source.walk(function.node if function is not None else None):
        if isinstance(node, (ast.Assert, ast.If)):
            if isinstance(node, ast.If) and not any(isinstance(one, ast.Raise) for one in node.body):
                continue
            for part in walk(node.test):
                if isinstance(part, ast.Attribute) and part.attr in ("device", "is_cuda"):
                    found |= {path_of(one) for one in walk(part.value)}
                elif isinstance(part, ast.Attribute) and part.attr in ("parameters", "buffers"):
                    if ".device" in ast.unparse(node.test):
                        found.add(path_of(part.value))
    return found


def _last_moves(source: Source, events: list[Event]) -> Iterator[Event]:
    """Moves of modules to a device after which no other move of the same module comes."""
    moves = [one for one in events if one.what == MOVED and _is_module(source, one)]
    parts = {one.child_cells[0] for one in events if one.what == ATTACHED and one.child_cells}
    for move in moves:
        later = any(
            other.order > move.order
            and other.cells[0] == move.cells[0]
            and follows(source, move.node, other.node)
            for other in moves
        )
        if later or move.via or move.cells[0] in parts:
            continue
        if isinstance(move.node, ast.Call) and isinstance(move.node.func, ast.Attribute):
            if move.place.on_device or move.place.kind == CHOICE:
                yield move


def _is_module(source: Source, move: Event) -> bool:
    """Is what is moved a module with parameters, as far as is known? Of a tensor, a copy would be lost."""
    if move.module.kind == MODULE:
        return move.module.role not in ANYWHERE
    return isinstance(move.statement, ast.Expr) or is_set_up(_path(move), source)


def _is_given(function: Function | None, path: str) -> bool:
    """Is it a parameter of the function, which other callers may give something else for?"""
    root = path.partition(".")[0]
    return function is not None and any(one.arg == root != "self" for one in function.parameters)


def _path(move: Event) -> str:
    """How the module is written after its move."""
    statement = move.statement
    if isinstance(statement, ast.Assign):
        return path_of(statement.targets[0]) if len(statement.targets) == 1 and _is_result(move) else ""
    base = move.node.func if isinstance(move.node, ast.Call) else None
    return path_of(base.value) if isinstance(base, ast.Attribute) and isinstance(statement, ast.Expr) else ""


def _is_result(move: Event) -> bool:
    """Is the module itself assigned, as in `model = Model().to(device).eval()`?"""
    statement = move.statement
    node = statement.value if isinstance(statement, ast.Assign) else None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node is move.node:
            return True
        if node.func.attr not in (
            *MOVES,
            "eval",
            "train",
            "float",
            "half",
            "double",
            "bfloat16",
            "requires_grad_",
        ):
            return False
        node = node.func.value
    return False


def _anchor(source: Source, events: list[Event], move: Event) -> ast.stmt:
    """The statement after which the assertion goes: the move, or the last change before the first use."""
    anchor = move.statement
    for event in events[move.order + 1 :]:
        if move.cells[0] not in event.cells or not follows(source, move.node, event.node):
            continue
        if event.what != ATTACHED:
            break
        pair = siblings(source, move.statement, event.node)
        if pair is None or pair[0] is pair[1] or pair[0] is not move.statement:
            break
        anchor = pair[1]
    return anchor


def _within(argument: ast.expr, statement: ast.stmt, source: Source) -> bool:
    """Is the name bound in the statement itself, by a comprehension, a lambda or a walrus?"""
    name = dotted(argument).partition(".")[0]
    up: ast.AST = source.parents[argument]
    while up is not statement:
        if isinstance(up, (ast.Lambda, *COMPREHENSIONS, ast.IfExp)):
            return True
        up = source.parents[up]
    return any(isinstance(node, ast.NamedExpr) and dotted(node.target) == name for node in walk(statement))
