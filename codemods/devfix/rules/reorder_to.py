"""`reorder-to`: a module is moved after its last change, not before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.checkers.late_moves import late_moves
from devfix.checkers.late_parts import Late, late_parts
from devfix.checkers.swaps import swapped_layers
from devfix.codemod import Codemod, Example
from devfix.engine.analysis import Analysis
from devfix.findings import Finding, Related, Safety, Span
from devfix.flow import Flow
from devfix.repair.reorder import Plan
from devfix.source import Source

_HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
_RAISES = "Expected all tensors to be on the same device"


@dataclass(frozen=True)
class ReorderTo(Codemod):
    """Move a module to its device after its last change, not before.

    ## What it does
    Finds submodules and parameters that are attached to a module after `module.to(device)` or
    `module.cuda()`: `model.head = nn.Linear(...)`, `model.layers[0] = ...`, `setattr`, `add_module`,
    `append`, an `nn.Parameter`, or a function of the file that attaches layers to its argument.
    The fix moves the module once, after the last change and before the first use, and deletes the earlier
    moves. If the model was used in between (run, passed to code that may run it, wrapped, the optimizer's
    state loaded), the earlier moves stay, and a second one follows.

    It also finds moves that come too late: after the module was run on a tensor that is on the device, after
    DistributedDataParallel, or only in one branch of an `if` that has nothing to do with devices
    (`restore-after-move` finds what was made beside the module before). And it finds layers that replace
    old ones, or parameters that a wrapper adds, without regard to the device of the old layer.

    ## Why is this bad?
    `Module.to` moves the parameters that are there when it is called
    (https://pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to). A layer
    that is attached later stays on the CPU, and the first forward pass on an accelerator raises
    "Expected all tensors to be on the same device".

    ## Fix safety
    Safe where devfix sees attachment, move and use: on the CPU nothing changes. A move is deleted only if
    the new one runs on every path on which it ran, and nothing in between can tell the difference;
    otherwise it stays and a second one is added, or the fix is unsafe. Also unsafe where only its name
    says that a class is a layer, where a move also casts (`.to(device, dtype)`), where the device must
    be taken from the model's first parameter, and for layers that are replaced by a function whose
    callers are out of sight. There is no finding where a framework places the model (accelerate's `prepare`,
    Trainer, Lightning), for layers without parameters, and where the module, or what is attached, is moved
    afterwards.
    """

    id: ClassVar[str] = "reorder-to"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        (".to(", ".cuda(", "setattr(", "_modules[", ".weight.data["),
        ("torch", "nn."),
    )
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "The head is replaced after the move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
model.to(device)
for parameter in model.parameters():
    parameter.requires_grad = False
model[2] = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
for parameter in model.parameters():
    parameter.requires_grad = False
model[2] = nn.Linear(8, 2)
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _RAISES,
        ),
        Example(
            "Used in between: a second move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)).to(device)
x = torch.ones(1, 4, device=device)
print(model(x).sum().item())
model.add_module("head", nn.Linear(8, 2))
print(model(x).sum().item())
""",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)).to(device)
x = torch.ones(1, 4, device=device)
print(model(x).sum().item())
model.add_module("head", nn.Linear(8, 2))
model.to(device)
print(model(x).sum().item())
""",
            _RAISES,
        ),
        Example(
            "A function of the file attaches layers",
            _HEAD
            + """

class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.low = nn.Linear(base.in_features, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.low(x)


def adapt(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Adapted(child))


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model = model.to(device)
adapt(model)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _HEAD
            + """

class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.low = nn.Linear(base.in_features, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.low(x)


def adapt(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, Adapted(child))


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
adapt(model)
model = model.to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _RAISES,
        ),
        Example(
            "A method of an object adds a wrapper",
            _HEAD
            + """

class Scaled(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = nn.Parameter(torch.ones(base.out_features))

    def forward(self, x):
        return self.base(x) * self.scale


class Scaler:
    def __init__(self, **models):
        self.models = models

    def scale(self, name):
        for model in self.models.values():
            setattr(model, name, Scaled(getattr(model, name)))


model = nn.Sequential(nn.Linear(4, 2)).to(device)
Scaler(model=model).scale("0")
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _HEAD
            + """

class Scaled(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = nn.Parameter(torch.ones(base.out_features))

    def forward(self, x):
        return self.base(x) * self.scale


class Scaler:
    def __init__(self, **models):
        self.models = models

    def scale(self, name):
        for model in self.models.values():
            setattr(model, name, Scaled(getattr(model, name)))


model = nn.Sequential(nn.Linear(4, 2))
Scaler(model=model).scale("0")
model.to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
            _RAISES,
        ),
        Example(
            "Trap: moved again, moved by itself, or nothing to move",
            _HEAD
            + """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)).to(device)
model[0] = nn.Linear(4, 8)
model.to(device)
model[1] = nn.GELU()
model[2] = nn.Linear(8, 2).to(device)
print(model(torch.ones(1, 4, device=device)).sum().item())
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        analysis = flow.facts()
        yield from self.of_parts(analysis)
        for one in (*late_moves(analysis), *swapped_layers(flow)):
            yield self.finding(
                one.span,
                one.message,
                title=one.title,
                edits=one.edits,
                safety=one.safety,
                related=one.related,
            )

    def of_parts(self, analysis: Analysis) -> Iterator[Finding]:
        """The findings for parts that come when their module was moved."""
        for late in late_parts(analysis):
            yield self._report(analysis.file.source, late, analysis)

    def _report(self, source: Source, late: Late, analysis: Analysis) -> Finding:
        plan = Plan(source, late)
        edits, title, safety = plan.fix()
        if "deepcopy(" in source.text:
            safety = min(safety, Safety.UNSAFE)  # a copy does not follow the original
        moved = f"`{plan.path or 'the module'}` is moved here"
        return self.finding(
            plan.span(),
            _message(source, late, plan),
            title=title,
            edits=edits,
            safety=safety,
            related=(
                *(Related(source.span(move.node), moved) for move in plan.early),
                *_made_elsewhere(late, analysis),
            ),
        )


def _made_elsewhere(late: Late, analysis: Analysis) -> Iterator[Related]:
    """Where in other files the parts are made."""
    for part, surgery in zip(late.parts, late.surgeries, strict=False):
        made = surgery.part.links[0]
        if made.file is not analysis.file:
            line, column = getattr(made.node, "lineno", 0), getattr(made.node, "col_offset", 0) + 1
            yield Related(
                Span(0, 0), f"what `{part.via}` attaches is made here", made.file.path, line, column
            )


def _line(source: Source, node: ast.AST) -> int:
    return source.position(source.span(node).start)[0]


def _message(source: Source, late: Late, plan: Plan) -> str:
    move = plan.early[-1]
    to = f" to `{plan.device}`" if plan.device else ""
    head = f"`{plan.path or 'the module'}` was moved{to} on line {_line(source, move.node)}; "
    parts = []
    for part in late.parts:
        line = _line(source, part.node)
        what = (
            f"what `{part.via}` attaches to it on line {line}"
            if part.via
            else f"`{part.path}`, attached on line {line},"
        )
        parts.append(what)
    if len(parts) == 1:
        return f"{head}{parts[0]} stays on the CPU"
    joined = ", ".join(part.rstrip(",") for part in parts[:-1])
    return f"{head}{joined} and {parts[-1]} stay on the CPU"
