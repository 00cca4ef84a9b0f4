"""`module-never-moved`: a module is run on tensors on a device, and nothing moves it there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.bindings import Bindings
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Related, Safety
from devfix.flow import Flow
from devfix.flow.events import Event, Meeting, What
from devfix.flow.lattice import Kind, Where
from devfix.placing import expects_error
from devfix.unmoved.behind import left_behind
from devfix.unmoved.entries import Entry, entries
from devfix.unmoved.plan import Made, Move, given_device, inherits, made_at, move_for, received
from devfix.unmoved.uses import unmet
from devfix.unmoved.weights import filled, in_view, shared, weighted

# Ways to run a module; other methods may take tensors for other ends.
_RUNS = re.compile(
    r"run$|forward|generate|encode|decode|predict|infer|update$|__call__$|get_\w{1,80}_features$|loss"
)
_RUN = (Kind.MODULE, Kind.PART)


@dataclass(frozen=True)
class ModuleNeverMoved(Codemod):
    """Move a module to the device of the tensors it is run on.

    ## What it does
    Finds a module with weights or buffers that is made on the CPU, run on tensors that were moved to a
    device, and never moved itself: a second network, a loss with class weights, a metric or resampler, a
    copy of a model. The fix moves it to the device of those tensors where it is made or, if layers are
    attached or state is loaded later, after that. It also finds a module that is passed together with a
    device to a function that computes with it (`calc_loss(model, batch, device)`), the arm of an `if`
    that forgets the move, and the entry of a dict of networks that is set to `eval()` and run, but not
    moved as the others are.

    Where neither the class nor a run is in sight, the surrounding code may show it: a network from a
    function out of sight that is given no device (`net = resnet18()`, `net.parameters()`, `net(x.cuda())`);
    one that a loss makes for each call; an entry or submodule without the `.to(device)` that all others
    next to it have; a function that maps weights to its `device` but returns the model on the CPU; a method
    that moves its inputs to `self.device` and runs `self.model`, which only other methods move.

    ## Why is this bad?
    A module stays where it was made until something moves it. If its weights and inputs are on different
    devices, its first layer raises "Expected all tensors to be on the same device"
    (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to).

    ## Fix safety
    Safe where devfix sees what the module is made of and the move of a tensor that it is run on: on the
    CPU the move does nothing. Unsafe where the class of the module is out of sight, or where the module is
    made in one function and run in another: code out of sight might move it. For a class out of sight, only
    its name and its uses (`parameters()`, `eval()`) suggest that it has weights at all. There is no finding
    for modules that another module moves, that are passed to code out of sight before they are run, or that
    a framework places.
    """

    id: ClassVar[str] = "module-never-moved"
    words: ClassVar[tuple[tuple[str, ...], ...]] = ((".to(", ".cuda(", "device", "Module"), ("torch",))
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "A second network and a loss with class weights",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = nn.Linear(4, 3).to(device)
head = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
inputs, labels = torch.randn(5, 4), torch.arange(5) % 3
inputs, labels = inputs.to(device), labels.to(device)
loss = criterion(head(encoder(inputs)), labels)
loss.backward()
print(round(loss.item(), 4))
""",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = nn.Linear(4, 3).to(device)
head = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).to(device)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])).to(device)
inputs, labels = torch.randn(5, 4), torch.arange(5) % 3
inputs, labels = inputs.to(device), labels.to(device)
loss = criterion(head(encoder(inputs)), labels)
loss.backward()
print(round(loss.item(), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "A teacher that an object keeps next to its model",
            """\
import torch
from torch import nn


class Trainer:
    def __init__(self, device):
        self.device = device
        self.student = nn.Linear(4, 2).to(device)
        self.teacher = nn.Linear(4, 2)

    def step(self, x):
        x = x.to(self.device)
        return nn.functional.mse_loss(self.student(x), self.teacher(x)).item()


torch.manual_seed(0)
trainer = Trainer("cuda" if torch.cuda.is_available() else "cpu")
print(round(trainer.step(torch.ones(3, 4)), 4))
""",
            """\
import torch
from torch import nn


class Trainer:
    def __init__(self, device):
        self.device = device
        self.student = nn.Linear(4, 2).to(device)
        self.teacher = nn.Linear(4, 2).to(self.device)

    def step(self, x):
        x = x.to(self.device)
        return nn.functional.mse_loss(self.student(x), self.teacher(x)).item()


torch.manual_seed(0)
trainer = Trainer("cuda" if torch.cuda.is_available() else "cpu")
print(round(trainer.step(torch.ones(3, 4)), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "A function that moves its data, and not the model that it is given",
            """\
import torch
from torch import nn


def evaluate(model, x, y):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = x.to(device), y.to(device)
    return nn.functional.mse_loss(model(x), y).item()


torch.manual_seed(0)
net = nn.Linear(4, 2)
print(round(evaluate(net, torch.ones(3, 4), torch.ones(3, 2)), 4))
""",
            """\
import torch
from torch import nn


def evaluate(model, x, y):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    x, y = x.to(device), y.to(device)
    return nn.functional.mse_loss(model(x), y).item()


torch.manual_seed(0)
net = nn.Linear(4, 2)
print(round(evaluate(net, torch.ones(3, 4), torch.ones(3, 2)), 4))
""",
            safety=Safety.UNSAFE,
            raises="same device|Expected all tensors",
        ),
        Example(
            "One branch moves the model, the other does not",
            """\
import torch
from torch import nn


class Net(nn.Linear):
    pass


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
state = nn.Linear(4, 2).state_dict()
if state:
    model = Net(4, 2)
    model.load_state_dict(state)
else:
    model = Net(4, 2).to(device)
print(round(model(torch.ones(3, 4).to(device)).sum().item(), 4))
""",
            """\
import torch
from torch import nn


class Net(nn.Linear):
    pass


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
state = nn.Linear(4, 2).state_dict()
if state:
    model = Net(4, 2).to(device)
    model.load_state_dict(state)
else:
    model = Net(4, 2).to(device)
print(round(model(torch.ones(3, 4).to(device)).sum().item(), 4))
""",
            safety=Safety.UNSAFE,
            raises="same device|Expected all tensors",
        ),
        Example(
            "Trap: a teacher that stays on the CPU on purpose, and a loss without weights",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
student = nn.Linear(4, 2).to(device)
teacher = nn.Linear(4, 2)
criterion = nn.MSELoss()
x = torch.ones(3, 4).to(device)
print(round(criterion(student(x), teacher(x.cpu()).to(device)).item(), 4))
""",
        ),
        Example(
            "Trap: a layer that its parent module moves",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layer = nn.Linear(4, 2)
model = nn.Sequential(layer, nn.ReLU()).to(device)
x = torch.ones(3, 4).to(device)
print(round((model(x) + layer(x)).sum().item(), 4))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        found: list[Bindings] = []  # made on need: it takes a walk over the file

        def bindings() -> Bindings:
            if not found:
                found.append(flow.once(Bindings))
            return found[0]

        seen: set[object] = set()
        waiting: list[tuple[Event, Meeting, Made]] = []  # no place for a move, as far as this event goes
        for scope in flow.scopes:
            if scope.host or scope.owned:
                continue
            for event in scope.events:
                if event.what is not What.LEFT or event.value.bare or event.value.kind not in _RUN:
                    continue
                if event.place is None or event.place.where is not Where.DEFAULT:
                    continue
                if event.path.startswith("self.") and inherits(scope.owner):
                    continue
                if expects_error(flow.source, event.node):
                    continue
                stray = met(flow, event)
                if stray is None:
                    continue
                made = made_at(flow, bindings(), event)
                if made is None:
                    yield from self._received(flow, bindings(), event, stray, seen)
                elif seen.isdisjoint(made.values) and all(
                    weighted(flow, value, made.path) for value in made.values
                ):
                    move = move_for(flow, event, stray, made)
                    if move is None:
                        waiting.append((event, stray, made))
                        continue
                    seen.update(made.values)
                    yield self._made(flow, event, stray, made, move)
        for event, stray, made in waiting:
            told = event.via in seen or event.value.node in seen  # where the device is made
            if not told and seen.isdisjoint(made.values):
                seen.update(made.values)
                yield self._made(flow, event, stray, made, None)

        for left in left_behind(flow, bindings):
            if left.made not in seen:
                seen.add(left.made)
                yield self.finding(
                    flow.source.span(left.made),
                    left.why,
                    title=f"append `{left.device}`" if left.edits else "",
                    edits=left.edits,
                    safety=left.safety,
                    related=(Related(flow.source.span(left.other), "compare this"),),
                )
        for entry in entries(flow):
            yield self._entry(flow, entry)

    def _entry(self, flow: Flow, left: Entry) -> Finding:
        source = flow.source
        return self.finding(
            source.span(left.move),
            f"`{left.other}` is moved here, but `{left.path}`, which is run as well, is not moved in this file",
            title=f"move `{left.path}` to `{left.device}`",
            edits=left.edits,
            safety=Safety.UNSAFE,
            related=(Related(source.span(left.run), "it is run here"),),
        )

    def _made(self, flow: Flow, event: Event, stray: Meeting, made: Made, move: Move | None) -> Finding:
        source = flow.source
        name = made.path or source.code(made.values[0])
        held = name.startswith("self.") and move is not None and move.device.startswith("self.")
        certain = (
            (made.scope is event.scope.node or held)
            and not event.via
            and not stray.place.guarded
            and all(in_view(flow, value) for value in made.values)
            and not shared(source, made.scope, name)
            and not any(filled(source, value) for value in made.values)
            and not unmet(flow.source, event.node)
        )
        device = move.device if move else stray.place.text
        where = f"`{device}`" if device else "a device"
        met = f"what `{event.via}` gives it" if event.via else f"`{source.code(stray.node)}`"
        return self.finding(
            source.span(made.values[-1]),
            f"`{name}` is made on the CPU and nothing moves it, but it is run on {met}, which is on {where}",
            title=f"move `{name}` to `{move.device}`" if move else "",
            edits=move.edits if move else (),
            safety=Safety.SAFE if certain else Safety.UNSAFE,
            related=(Related(source.span(event.node), "it is run here"),),
        )

    def _received(
        self, flow: Flow, bindings: Bindings, event: Event, stray: Meeting, seen: set[object]
    ) -> Iterator[Finding]:
        """The module comes from a caller that did not move it, and the device is made here."""
        move = received(flow, bindings, event, stray)
        made = event.value.node
        if move is None or (event.scope.node, event.path) in seen or not isinstance(made, ast.expr):
            return
        if not weighted(flow, made, event.path):
            return
        source = flow.source
        if made not in source.parents:
            return  # of another file
        seen.update({(event.scope.node, event.path), event.scope.name, made})
        yield self.finding(
            source.span(event.node),
            f"`{event.path}` was made on the CPU and nothing moves it, but it is run on `{source.code(stray.node)}`, "
            f"which is on `{move.device}`",
            title=f"move `{event.path}` to `{move.device}`",
            edits=move.edits,
            safety=Safety.UNSAFE,
            related=(Related(source.span(made), "it is made here"),),
        )


def met(flow: Flow, event: Event) -> Meeting | None:
    """The argument whose place says most: one that was certainly moved.

    A parameter, of which only callers know where it is, counts in `forward` and next to `.cuda()`.
    """
    if not _RUNS.match(event.detail):
        return None
    placed = [m for m in event.strays if m.place.on_device or given_device(m.place)]
    placed.sort(key=lambda m: (m.place.guarded, not m.place.key, not m.value.sure))
    if placed:
        return placed[0]
    scope = event.scope
    if event.via or isinstance(scope.node, ast.Module) or scope.name == "__init__":
        return None
    if scope.name != "forward" and ".cuda()" not in flow.source.code(scope.node):
        return None
    return event.strays[0]
