"""`numpy-of-device`: numpy, matplotlib and their like get a copy on the CPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.findings import AppendCall, Edit, Finding, Related, Safety, WrapExpression
from devfix.flow import Flow
from devfix.flow.events import Scope, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import UNKNOWN, Kind, Value, Where
from devfix.names import Names
from devfix.placing import about_devices
from devfix.source import Source
from devfix.spotting import lines_with, on_lines

# Libraries whose functions read their arguments as numpy arrays.
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_READERS = ("numpy.", "sklearn.metrics.", "scipy.", "seaborn.", "cv2.", "skimage.")
# Functions of numpy that ask a tensor itself, or take sizes.
_ASKS = re.compile(
    r"numpy\.(?:random\..*|shape|ndim|size|isscalar|iterable|real|imag|squeeze|array_equal|array_equiv|info|"
    r"empty|zeros|ones|full|arange|linspace|eye|identity|\w+_like|set_printoptions|dtype|result_type)$"
)
_DRAW_NAMES = (
    r"(?:plot|scatter|imshow|imsave|matshow|hist|hist2d|barh?|errorbar|fill_between|stem|step|pcolormesh|contourf?|"
    r"semilog[xy]|loglog|boxplot|violinplot|quiver)"
)
_DRAWS = re.compile(f"{_DRAW_NAMES}$")
_AXES = re.compile(r"(?:^|\.)(?:axs?|axes|axis|ax\d+)$")
# Methods of a model that may well bring their result to the CPU themselves.
_RETURNS_ANYTHING = re.compile(
    r"(?:^|[._])(?:predict|infer|inference|sample|transcribe|translate|get|to|evaluate|score|process|"
    r"extract|detect|postprocess|post_process|step|act|select_action)(?:_\w+)?$"
)


# How a variable is called that says where the program computes.
_CHOSEN = re.compile(
    r"(?:^|[.\"'])_?(?:torch_|target_|compute_|cuda_|gpu_|model_)?(?:device|dev|gpu)s?(?:_\d|\d)?(?:\(\))?"
    r"(?:$|[\"'\])])|cuda|gpu|accelerator|fabric",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"the output of `(.*)`")
# Methods that numpy arrays and images do not have.
_TORCH_ONLY = frozenset(
    {"detach", "unsqueeze", "contiguous", "permute", "softmax", "sigmoid", "cuda", "clone"}
)


@dataclass(frozen=True)
class _Read:
    """An argument that a call reads as an array. `method`: it is the `x` of `x.numpy()`."""

    argument: ast.expr
    reader: str
    method: bool = False


@dataclass(frozen=True)
class NumpyOfDevice(Codemod):
    """A tensor on a device is copied to the CPU before numpy reads it.

    ## What it does
    Finds `x.numpy()`, `np.f(x)`, `plt.plot(x)`, `sklearn.metrics.f(x)` and their like, where `x`
    was moved to a device or comes out of a module that was, and inserts `.cpu()`. A list of such
    tensors, filled by `append` or written in place, is copied element by element.

    ## Why is this bad?
    numpy reads the memory of the CPU only: "can't convert cuda:0 device type tensor to numpy. Use
    Tensor.cpu() to copy the tensor to host memory first"
    (https://pytorch.org/docs/stable/generated/torch.Tensor.numpy.html).

    ## Fix safety
    Safe: on the CPU `.cpu()` returns the tensor itself, so that the array still shares its memory.
    Unsafe where another function has moved it to a device that it was given, which may be the CPU.
    Nothing is said of a tensor that is moved on some paths only, such as `if args.cuda:`, and for
    functions other than `x.numpy()`, of what a model out of sight returns, which may be an array
    or a list of images. A tensor that requires grad needs `.detach()` as well, on the CPU too:
    that is not added.
    """

    id: ClassVar[str] = "numpy-of-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("numpy", "matplotlib", "sklearn", "scipy"),
        ("torch",),
        (".to(", ".cuda(", "device"),
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
        known = _Known(flow)
        lines = lines_with(flow.source, *_patterns(flow.source))
        for scope in flow.scopes:
            reads = [read for call in _calls(scope.node, lines) for read in _reads(flow, call)]
            if not reads:
                continue
            every = range(scope.node.body[0].lineno, (scope.node.body[-1].end_lineno or 0) + 1)
            lists = _lists(known, scope, list(_calls(scope.node, every)))
            for read in reads:
                finding = self._judge(known, read, lists)
                if finding is not None:
                    yield finding

    def _judge(self, known: _Known, read: _Read, lists: dict[str, Value]) -> Finding | None:
        node, flow = read.argument, known.flow
        if isinstance(node, ast.Starred) or _chosen(flow.source, node):
            return None
        span = flow.source.span(node)
        value = flow.value(node)
        if known.on_device(value) if read.method else known.tensor_on_device(node):
            return self._report(flow, read, value, (AppendCall(span, ".cpu()"),))
        if isinstance(node, ast.Name) and node.id in lists:
            value = lists[node.id]
            edit = WrapExpression(span, "[t.cpu() for t in ", "]")
            return self._report(flow, read, value, (edit,), "holds tensors that are")
        if isinstance(node, (ast.List, ast.Tuple)):
            placed = [item for item in node.elts if known.tensor_on_device(item)]
        elif isinstance(node, ast.ListComp):
            placed = [node.elt] if known.tensor_on_device(node.elt) else []
        else:
            placed = []
        if not placed:
            return None
        edits = tuple(AppendCall(flow.source.span(item), ".cpu()") for item in placed)
        return self._report(flow, read, flow.value(placed[0]), edits, "holds tensors that are")

    def _report(
        self, flow: Flow, read: _Read, value: Value, edits: tuple[Edit, ...], verb: str = "is"
    ) -> Finding:
        source, place = flow.source, value.place
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
            f"`{text}` {verb} {at}{since}, and `{read.reader}` reads the CPU only",
            title=f"copy `{text}` to the CPU for `{read.reader}`",
            edits=edits,
            safety=Safety.UNSAFE if _handed(source, value) else Safety.SAFE,
            related=related,
        )


def _handed(source: Source, value: Value) -> bool:
    """Was it moved in another function, to a device that its caller hands over? That may be the CPU."""
    moved = value.place.node
    there = source.enclosing(moved, *_FUNCTIONS) if isinstance(moved, ast.expr) else None
    if not isinstance(there, _FUNCTIONS) or value.node is None:
        return False
    names = {one.arg for one in (*there.args.posonlyargs, *there.args.args, *there.args.kwonlyargs)}
    return value.place.text in names and source.enclosing(value.node, *_FUNCTIONS) is not there


def _chosen(source: Source, node: ast.AST) -> bool:
    """Does a condition about devices decide whether it is read: `x.cpu().numpy() if use_gpu else x.numpy()`?"""
    child, up = node, source.parents.get(node)
    while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test and about_devices(up.test):
            return True
        child, up = up, source.parents.get(up)
    return False


def _patterns(source: Source) -> Iterator[re.Pattern[str]]:
    """What stands in the text of every call that `_reads` looks for."""
    yield re.compile(r"\.numpy\(")
    for local, what in source.imports.items():
        if f"{what}.".startswith((*_READERS, "matplotlib.")):
            yield re.compile(rf"{re.escape(local)}\s*[.(]")
    if "matplotlib" in source.text:
        yield re.compile(rf"\.{_DRAW_NAMES}\s*\(")


def _calls(scope: ast.AST, lines: Sequence[int]) -> Iterator[ast.Call]:
    """The calls of a scope on some of its lines, those of nested functions left out."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
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
    draws = False
    if isinstance(func, ast.Attribute) and _DRAWS.match(func.attr):
        axes = path_of(func.value.value if isinstance(func.value, ast.Subscript) else func.value)
        draws = name.startswith("matplotlib.") or bool(_AXES.search(axes))
    if not draws and (not name.startswith(_READERS) or _ASKS.match(name)):
        return
    reader = flow.source.code(func)
    for argument in call.args:
        yield _Read(argument, reader)
    for keyword in call.keywords:
        if (draws and keyword.arg in ("x", "y", "c", "s")) or keyword.arg in ("y_true", "y_pred", "y_score"):
            yield _Read(keyword.value, reader)


class _Known:
    """What is beyond doubt about the values of one file."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._callees = {event.node: event.value for event in flow.events(What.USE)}

    def on_device(self, value: Value) -> bool:
        """Certainly on a device, whichever path is taken."""
        place = value.place
        if value.kind not in (Kind.TENSOR, Kind.ANY) or not place.on_device or place.guarded:
            return False
        if place.where is Where.SYMBOL and self._of_another(value):
            return False  # a parameter of the function that made it, which may have been left to its default
        if place.where is Where.SYMBOL and place.text and not _CHOSEN.search(place.text):
            return False  # `self.cpu_device`, `input_device`: may well be the CPU
        output = _OUTPUT.match(value.source)
        if output is None:
            return True
        if _RETURNS_ANYTHING.search(output[1]):
            return False
        name = self._callee(value).name
        return not any(
            isinstance(node, ast.ClassDef) and node.name == name and ".cpu()" in self.flow.source.code(node)
            for node in self.flow.source.tree.body
        )

    def _of_another(self, value: Value) -> bool:
        """Is the device of a value a parameter, with a default, of a function that has returned it?"""
        source, moved = self.flow.source, value.place.node
        there = source.enclosing(moved, *_FUNCTIONS) if isinstance(moved, ast.expr) else None
        if not isinstance(there, _FUNCTIONS) or value.node is None:
            return False
        here = source.enclosing(value.node, *_FUNCTIONS)
        arguments = there.args
        plain = [*arguments.posonlyargs, *arguments.args]
        optional = {one.arg for one in plain[len(plain) - len(arguments.defaults) :]}
        optional |= {a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d}
        return here is not there and value.place.text in optional

    def tensor_on_device(self, node: ast.expr) -> bool:
        """Certainly a tensor as well: a model out of sight may return arrays, images or lists of them."""
        if isinstance(node, ast.BinOp):
            return self.tensor_on_device(node.left) or self.tensor_on_device(node.right)
        value = self.flow.value(node)
        if value.kind is not Kind.TENSOR or not self.on_device(value):
            return False
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _TORCH_ONLY
        ):
            return True
        # What a module gives may be several things, numbers among them.
        run = isinstance(value.node, ast.Call) and value.node in self._callees
        if value.sure and not run and not _OUTPUT.match(value.source):
            return True
        made = value.node
        if isinstance(made, ast.Call) and (self.flow.source.qualified(made.func) or "").startswith("torch."):
            return True
        if self._callee(value).name.startswith("torch.nn."):
            return True
        path = re.escape(path_of(node))
        return (
            bool(path)
            and re.search(rf"(?<![\w.]){path}\.(?:backward|detach)\(", self.flow.source.text) is not None
        )

    def _callee(self, value: Value) -> Value:
        """The module whose output a value is, if it is one."""
        return self._callees.get(value.node, UNKNOWN) if isinstance(value.node, ast.Call) else UNKNOWN


def _lists(known: _Known, scope: Scope, calls: list[ast.Call]) -> dict[str, Value]:
    """Names of lists that are filled with tensors on a device and nothing else; one of the tensors."""
    appended: dict[str, list[Value]] = {}
    for call in calls:
        func = call.func
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and len(call.args) == 1:
            if func.attr in ("append", "extend", "insert"):
                placed = func.attr == "append" and known.tensor_on_device(call.args[0])
                found_one = known.flow.value(call.args[0]) if placed else UNKNOWN
                appended.setdefault(func.value.id, []).append(found_one)
    found = {name: values[0] for name, values in appended.items() if UNKNOWN not in values}
    if not found:
        return {}
    bindings = Names(known.flow.source, scope.node).bindings
    return {
        name: value
        for name, value in found.items()
        if (made := bindings.get(name))
        and all(isinstance(b.value, ast.List) and not b.value.elts and b.form == "single" for b in made)
    }
