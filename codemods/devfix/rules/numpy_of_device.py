"""`numpy-of-device`: numpy, matplotlib and their like get a copy on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from devfix.arrays.carried import Carried
from devfix.arrays.converting import converts
from devfix.arrays.forwarded import forwarded
from devfix.arrays.reading import Known, lists_of
from devfix.arrays.writers import LEARNS, LIBRARIES, written
from devfix.codemod import Codemod, Example
from devfix.findings import AppendCall, Edit, Finding, Related, Safety, WrapExpression
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Value
from devfix.placing import about_devices
from devfix.source import Source
from devfix.spotting import lines_with, on_lines

# Methods that numpy arrays do not have.
_TENSOR_ONLY = frozenset({"detach", "unsqueeze", "cuda", "cpu", "backward", "numpy"})
# Libraries whose functions read their arguments as numpy arrays.
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_READERS = ("numpy.", "sklearn.metrics.", "scipy.", "seaborn.", "skimage.")
_DRAW_NAMES = (
    r"(?:plot|scatter|imshow|imsave|matshow|hist|hist2d|barh?|errorbar|fill_between|stem|step|pcolormesh|contourf?|"
    r"semilog[xy]|loglog|boxplot|violinplot|quiver)"
)
_DRAWS = re.compile(f"{_DRAW_NAMES}$")
_NUMPY = re.compile(r"\.numpy\(")
_AXES = re.compile(r"(?:^|\.)(?:axs?|axes|axis|ax\d+)$")


@dataclass(frozen=True)
class _Read:
    """An argument that a call reads as an array. `method`: it must be a tensor, as the `x` of `x.numpy()`."""

    argument: ast.expr
    reader: str
    method: bool = False
    call: ast.Call | None = None
    name: str = ""  # of what reads it, as it is imported
    at: int = 0  # among the arguments
    written: bool = False  # by a function of `writers.py`, which takes one tensor


@dataclass(frozen=True)
class NumpyOfDevice(Codemod):
    """A tensor on a device is copied to the CPU before numpy reads it.

    ## What it does
    Finds `x.numpy()`, `np.f(x)` of functions that surely make an array of it, `plt.plot(x)`,
    `sklearn.metrics.f(x)`, `TSNE().fit_transform(x)`, `torchaudio.save(path, x, rate)` and their like,
    where `x` was moved to a device or comes out of a module that was, and inserts `.cpu()`. A list of such
    tensors, filled by `append` or written in place, is copied element by element.

    ## Why is this bad?
    numpy takes tensors of the CPU only: "can't convert cuda:0 device type tensor to numpy. Use
    Tensor.cpu() to copy the tensor to host memory first"
    (https://pytorch.org/docs/stable/generated/torch.Tensor.numpy.html).

    ## Fix safety
    Safe: on the CPU `.cpu()` returns the tensor itself, so that the array still shares its memory.
    Unsafe where another function has moved it to a device that it was given, which may be the CPU, and
    where a method of a model or a function out of view has made it of tensors on a device. Unsafe as well:
    what a layer makes or is given in `forward`, what the module itself makes beside it, and what a module,
    or a function that names devices, computes of a parameter. Functions of numpy that hand the work over
    to the tensor, or only index it (`take_along_axis`), give a tensor back or fail on the CPU as well.
    Nothing is said of a tensor that is moved on some paths only, such as `if args.cuda:`, and for
    functions other than `x.numpy()`, of what a model out of sight returns, which may be an array
    or a list of images. A tensor that requires grad needs `.detach()` as well, on the CPU too:
    that is not added.
    """

    id: ClassVar[str] = "numpy-of-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "numpy",
            "matplotlib",
            "sklearn",
            "scipy",
            "torchaudio.save",
            "soundfile",
            "pandas",
            "imageio",
            "write_",
        ),
        ("torch",),
        (".to(", ".cuda(", "device", ".cpu()", "def forward("),
    )
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "The output of a model on a device",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
with torch.no_grad():
    scores = model(torch.ones(3, 4).to(device))
print(scores.argmax(dim=1).numpy().tolist())
""",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
with torch.no_grad():
    scores = model(torch.ones(3, 4).to(device))
print(scores.argmax(dim=1).cpu().numpy().tolist())
""",
            raises="to numpy",
        ),
        Example(
            "A list of losses, averaged by numpy",
            """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
losses = []
for _ in range(3):
    x, y = torch.ones(3, 4).to(device), torch.ones(3, 2).to(device)
    loss = nn.functional.mse_loss(model(x), y)
    losses.append(loss.detach())
print(round(float(np.mean(losses)), 4))
""",
            """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
losses = []
for _ in range(3):
    x, y = torch.ones(3, 4).to(device), torch.ones(3, 2).to(device)
    loss = nn.functional.mse_loss(model(x), y)
    losses.append(loss.detach())
print(round(float(np.mean([t.cpu() for t in losses])), 4))
""",
            raises="to numpy",
        ),
        Example(
            "Trap: what is on the CPU already, and what needs no array",
            """\
import numpy as np
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.arange(4).to(device)
host = x.cpu()
print(host.numpy(), x.to("cpu").numpy(), np.mean(x.tolist()), np.sqrt(x[1].item()), np.shape(x))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        if "paddle" in flow.source.imports or "tensorflow" in flow.source.imports:
            return  # their tensors copy themselves
        known = Known(flow)
        lines = lines_with(flow.source, *_patterns(flow.source))
        said: set[ast.expr] = set()
        for scope in flow.scopes:
            reads = [read for call in _calls(scope.node, lines) for read in _reads(flow, call)]
            if not reads:
                continue
            every = range(scope.node.body[0].lineno, (scope.node.body[-1].end_lineno or 0) + 1)
            lists = lists_of(known, scope, list(_calls(scope.node, every)))
            carried = Carried(known, scope.node, lists)
            for read in reads:
                finding = self._judge(known, read, lists) or self._carried(carried, read)
                if finding is not None:
                    said.add(read.argument)
                    yield finding
        yield from self._forwarded(flow, said)

    def _forwarded(self, flow: Flow, said: set[ast.expr]) -> Iterator[Finding]:
        """What `forward` makes or is given is where the module runs; what a converter is given, anywhere."""
        source = flow.source
        for found in forwarded(source, _calls(source.tree, lines_with(source, _NUMPY), every=True)):
            place = flow.value(found.node).place
            if found.node in said or place.on_host or place.on_device or _chosen(source, found.node):
                continue
            said.add(found.node)
            span, text = source.span(found.node), source.code(found.node)
            yield self.finding(
                span,
                f"`{text}` {found.why}, and `.numpy()` raises unless it is on the CPU",
                title=f"copy `{text}` to the CPU for `.numpy()`",
                edits=(AppendCall(span, ".cpu()"),),
                safety=Safety.UNSAFE,
            )

    def _judge(self, known: Known, read: _Read, lists: dict[str, Value]) -> Finding | None:
        node, flow = read.argument, known.flow
        if isinstance(node, ast.Starred) or _chosen(flow.source, node):
            return None
        if _stays_tensor(flow, read):
            return None
        span = flow.source.span(node)
        value = flow.value(node)
        if known.on_device(value) if read.method else known.tensor_on_device(node):
            edits: tuple[Edit, ...] = (AppendCall(span, ".cpu()"),)
            return self._report(known, read, value, edits) if _converts(read) else None
        if not _converts(read, many=True):
            return None
        if isinstance(node, ast.Name) and node.id in lists:
            value = lists[node.id]
            edits = (WrapExpression(span, "[t.cpu() for t in ", "]"),)
            return self._report(known, read, value, edits, "holds tensors that are")
        if isinstance(node, (ast.List, ast.Tuple)):
            placed = [item for item in node.elts if known.tensor_on_device(item)]
        elif isinstance(node, ast.ListComp):
            placed = [node.elt] if known.tensor_on_device(node.elt) else []
        else:
            placed = []
        if not placed:
            return None
        edits = tuple(AppendCall(flow.source.span(item), ".cpu()") for item in placed)
        return self._report(known, read, flow.value(placed[0]), edits, "holds tensors that are")

    def _carried(self, carried: Carried, read: _Read) -> Finding | None:
        """`x.numpy()` of what a function out of sight has made of a tensor on a device: likely on it as well."""
        source = carried.known.flow.source
        value = carried.value(read.argument) if read.method and not _chosen(source, read.argument) else None
        if value is None:
            return None
        edits = (AppendCall(source.span(read.argument), ".cpu()"),)
        return self._report(carried.known, read, value, edits, "is made of what is", sure=False)

    def _report(
        self,
        known: Known,
        read: _Read,
        value: Value,
        edits: tuple[Edit, ...],
        verb: str = "is",
        sure: bool = True,
    ) -> Finding:
        source, place = known.flow.source, value.place
        text = source.code(read.argument)
        text = text if len(text) < 60 and "\n" not in text else f"{text[:40].splitlines()[0]} ..."
        moved = place.node
        line = getattr(moved, "lineno", 0)
        at = f"on `{place.text}`" if place.text else "on a device"
        since = f" since line {line}" if line else ""
        related: tuple[Related, ...] = ()
        if moved is not None and line:
            related = (Related(source.span(moved), f"it gets to {at[3:]} here"),)
        return self.finding(
            source.span(read.argument),
            f"`{text}` {verb} {at}{since}, and `{read.reader}` raises unless it is on the CPU",
            title=f"copy `{text}` to the CPU for `{read.reader}`",
            edits=edits,
            safety=Safety.SAFE if sure and _read_for_sure(read) and known.certain(value) else Safety.UNSAFE,
            related=related,
        )


def _converts(read: _Read, many: bool = False) -> bool:
    """Is what reads it, or a list of such tensors, known to need the CPU? numpy has functions that do not."""
    if read.written:
        return not many
    return not read.name.startswith("numpy.") or converts(read.name, read.at, many)


def _read_for_sure(read: _Read) -> bool:
    """Does it fail at once? Other libraries may hand on what they are given, or refuse it on the CPU as well."""
    return not read.written and not read.name.startswith(("scipy.", "seaborn.", "skimage."))


def _stays_tensor(flow: Flow, read: _Read) -> bool:
    """Does the program use what a function gives as a tensor, on the device? Then nothing was converted."""
    source, call = flow.source, read.call
    statement = source.parents.get(call) if call is not None else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    name, end = path_of(statement.targets[0]), source.span(statement).end
    scope = source.enclosing(statement, *_FUNCTIONS) or source.tree
    for node in source.walk(scope) if name else ():
        if isinstance(node, ast.Attribute) and node.attr in _TENSOR_ONLY and path_of(node.value) == name:
            if source.span(node).start > end:
                return True
        if isinstance(node, ast.BinOp) and source.span(node).start > end:
            for one, other in ((node.left, node.right), (node.right, node.left)):
                value = flow.value(other)
                if path_of(one) == name and value.kind is Kind.TENSOR and value.place.on_device:
                    return True
    return False


def _chosen(source: Source, node: ast.AST) -> bool:
    """Does a condition about devices decide whether it is read: `x.cpu().numpy() if use_gpu else x.numpy()`?

    So does an attempt whose handler copies it: the error of `.numpy()` is caught.
    """
    child, up = node, source.parents.get(node)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test and about_devices(up.test):
            return True
        if isinstance(up, ast.IfExp) and child is not up.test:
            other = up.orelse if child is up.body else up.body
            if re.search(r"\.(?:cpu|cuda)\(", source.code(other)):
                return True
        if isinstance(up, ast.Try) and child in up.body:
            if any(".cpu()" in source.code(handler) for handler in up.handlers):
                return True
        child, up = up, source.parents.get(up)
    return False


def _patterns(source: Source) -> Iterator[re.Pattern[str]]:
    """What stands in the text of every call that `_reads` looks for."""
    yield _NUMPY
    for local, what in source.imports.items():
        if f"{what}.".startswith((*_READERS, "matplotlib.")) or what.partition(".")[0] in LIBRARIES:
            yield re.compile(rf"{re.escape(local)}\s*[.(]")
    if "sklearn" in source.text:
        yield LEARNS
    if "matplotlib" in source.text:
        yield re.compile(rf"\.{_DRAW_NAMES}\s*\(")


def _calls(scope: ast.AST, lines: Sequence[int], every: bool = False) -> Iterator[ast.Call]:
    """The calls of a scope on some of its lines, those of nested functions left out unless `every`."""
    inner = () if every else (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    return (node for node in on_lines(scope, lines, inner) if isinstance(node, ast.Call))


def _reads(flow: Flow, call: ast.Call) -> Iterator[_Read]:
    """The arguments of a call that are read as arrays."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        name = flow.source.qualified(func) if isinstance(func, ast.Name) else None
    elif func.attr == "numpy" and not call.args and not call.keywords:
        yield _Read(func.value, ".numpy()", True)
        return
    else:
        name = flow.source.qualified(func)
    name = name or ""
    for argument, tensor in written(flow.source, call, name):
        yield _Read(argument, flow.source.code(func), tensor, call=call, name=name, written=True)
    draws = False
    if isinstance(func, ast.Attribute) and _DRAWS.match(func.attr):
        axes = path_of(func.value.value if isinstance(func.value, ast.Subscript) else func.value)
        draws = name.startswith("matplotlib.") or bool(_AXES.search(axes))
    if not draws and not name.startswith(_READERS):
        return
    reader = flow.source.code(func)
    for at, argument in enumerate(call.args):
        yield _Read(argument, reader, call=call, name=name, at=at)
    for keyword in call.keywords:
        if (draws and keyword.arg in ("x", "y", "c", "s")) or keyword.arg in ("y_true", "y_pred", "y_score"):
            yield _Read(keyword.value, reader, call=call, name=name, at=-1)
