"""`move-inputs`: batches and loaded data go to the device of the model they meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.findings import AppendCall, AssignResult, Edit, EnsureImport, Finding, InsertStatement, Related, Safety
from devfix.flow import Flow
from devfix.flow.calls import path_of
from devfix.flow.events import Event, Meeting, Scope, What
from devfix.flow.lattice import CARRIERS, Kind, Where
from devfix.names import Binding, Names

# Uses of a name that need it on the host: then it is moved where it meets the model, not before.
_HOST_ROOTS = ("numpy", "matplotlib", "sklearn", "PIL", "cv2", "torchvision.utils", "torchvision.transforms")
_HOST_METHODS = frozenset({"numpy", "tolist", "__array__", "to", "cuda", "cpu"})
# Methods that run a module on their arguments; others may take tensors of the host.
_RUNS = re.compile(
    r"(?:forward|encode|decode|generate|predict|infer|embed|reconstruct|classify|translate|denoise|extract|"
    r"compute|loss|__call__)(?:_\w+)?$|inference|get_\w*(?:features?|embeddings?|logits|latents?|indices|codes)$"
)
_DICT_METHODS = frozenset({"items", "keys", "values", "get", "pop", "update"})


@dataclass(eq=False)
class _Stray:
    """An input that is on the CPU where it meets something that is not."""

    event: Event
    meeting: Meeting
    device: str
    safe: bool


@dataclass(eq=False)
class _Group:
    """Inputs of one scope that one fix moves."""

    strays: list[_Stray] = field(default_factory=list)
    binding: Binding | None = None


@dataclass(frozen=True)
class MoveInputs(Codemod):
    """Inputs are moved to the device of the model they reach.

    ## What it does
    Finds data that is made or loaded on the CPU and reaches a module that was moved to a device:
    batches of loader loops (tuples, nested tuples, dicts, one forgotten element of several),
    `next(iter(loader))`, loaded arrays, images and audio, tokenizer output. It moves a batch in one
    statement at the top of the loop, and a value that is used once right where it is used. It also
    finds `x.to(device)` whose result is dropped.

    The device is the one that the module was moved to, where that name can be used; else
    `next(model.parameters()).device`, or the `.device` of the tensor that the input meets.

    ## Why is this bad?
    `Tensor.to` returns a copy, and a DataLoader yields CPU tensors, so a model on an accelerator
    raises "Expected all tensors to be on the same device" at its first layer
    (https://pytorch.org/docs/stable/generated/torch.Tensor.to.html).

    ## Fix safety
    Safe where the module's place and the input's are both in view: on the CPU the move does
    nothing. Unsafe where only a name says that something is a loader or a model, where a batch
    may hold other things than tensors, or where the model is run out of sight. Nothing is said
    in datasets, collate functions and workers, where a framework places batches (accelerate,
    Lightning, Trainer, DataParallel), or of a model that is never moved.

    ## Options
    - `non_blocking` (default false): write `.to(device, non_blocking=True)`, which overlaps the copy
      with computation when the loader has `pin_memory=True`.
    """

    non_blocking: bool = False

    id: ClassVar[str] = "move-inputs"
    words: ClassVar[tuple[tuple[str, ...], ...]] = ((".to(", ".cuda(", "device"), ("torch",))
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "The batches of a loader, one statement at the top of the loop",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.arange(8) % 3), batch_size=4)
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
for inputs, labels in loader:
    loss = criterion(model(inputs), labels)
    loss.backward()
    print(round(loss.item(), 4))
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.arange(8) % 3), batch_size=4)
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
for inputs, labels in loader:
    inputs, labels = inputs.to(device), labels.to(device)
    loss = criterion(model(inputs), labels)
    loss.backward()
    print(round(loss.item(), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "One forgotten element of several",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, device):
    total = 0.0
    for inputs, targets in loader:
        inputs = inputs.to(device)
        total += nn.functional.mse_loss(model(inputs), targets).item()
    return total


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = DataLoader(TensorDataset(torch.randn(6, 4), torch.randn(6, 2)), batch_size=3)
print(round(evaluate(nn.Linear(4, 2).to(device), data, device), 4))
""",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, device):
    total = 0.0
    for inputs, targets in loader:
        inputs = inputs.to(device)
        targets = targets.to(device)
        total += nn.functional.mse_loss(model(inputs), targets).item()
    return total


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = DataLoader(TensorDataset(torch.randn(6, 4), torch.randn(6, 2)), batch_size=3)
print(round(evaluate(nn.Linear(4, 2).to(device), data, device), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "A loaded array, moved where it is used; no device name is in scope",
            """\
import numpy as np
import torch
from torch import nn


class Classifier:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        if torch.cuda.is_available():
            self.model.cuda()

    def predict(self, image):
        pixels = torch.from_numpy(image)
        return self.model(pixels).argmax(dim=-1).tolist()


torch.manual_seed(0)
print(Classifier().predict(np.ones((3, 4), dtype=np.float32)))
""",
            """\
import numpy as np
import torch
from torch import nn


class Classifier:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        if torch.cuda.is_available():
            self.model.cuda()

    def predict(self, image):
        pixels = torch.from_numpy(image)
        return self.model(pixels.to(next(self.model.parameters()).device)).argmax(dim=-1).tolist()


torch.manual_seed(0)
print(Classifier().predict(np.ones((3, 4), dtype=np.float32)))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "A move whose result is dropped",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.ones(3, 4)
x.to(device)
print(round(model(x).sum().item(), 4))
""",
            """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.ones(3, 4)
x = x.to(device)
print(round(model(x).sum().item(), 4))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "Trap: data that stays on the CPU because its model does",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2)
teacher = nn.Linear(4, 2)
student = nn.Linear(4, 2).to(device)
for (x,) in loader:
    print(round((student(x.to(device)).cpu() - teacher(x)).sum().item(), 4))
""",
        ),
        Example(
            "Trap: a batch that a function of the file has moved already",
            """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def to_device(batch, device):
    return [t.to(device) for t in batch]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
for batch in DataLoader(TensorDataset(torch.randn(4, 4), torch.ones(4, 2)), batch_size=2):
    x, y = to_device(batch, device)
    print(round((model(x) - y).sum().item(), 4))
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        for scope in flow.scopes:
            if scope.host or scope.owned:
                continue
            meetings = [event for event in scope.events if event.what is What.MEET and event.strays]
            dropped = [e for e in scope.events if e.what is What.MOVE and e.detail == "dropped"]
            if not meetings and not dropped:
                continue
            names = Names(flow.source, scope.node)
            handled: set[str] = set()
            for event in dropped:
                finding = self._dropped(flow, names, event, meetings)
                if finding is not None:
                    handled.add(event.path)
                    yield finding
            moved = {e.path for e in scope.events if e.what is What.MOVE and e.value.kind in CARRIERS}
            for group in self._groups(flow, names, meetings, handled, moved):
                yield self._report(flow, names, group)

    # --- dropped results -------------------------------------------------------------------

    def _dropped(self, flow: Flow, names: Names, event: Event, meetings: list[Event]) -> Finding | None:
        path, value = event.path, event.value
        if path.rpartition(".")[2] in ("weight", "bias", "data", "grad"):
            return None  # parameters of quantized layers do move in place
        if value.kind is not Kind.TENSOR or not path or event.place is None or not event.place.on_device:
            return None
        if not value.sure and not flow.evidence.used_as_tensor(path):
            return None
        met = any(path_of(meeting.node) == path for e in meetings for meeting in e.strays)
        # Assigning to a name of another scope would make it local, and unbound here.
        local = not path.isidentifier() or path in names.bindings
        span = flow.source.span(event.node)
        return self.finding(
            span,
            f"the moved tensor is dropped: `{path}` stays on the CPU, since `Tensor.to` returns a copy",
            title=f"assign the moved tensor to `{path}`",
            edits=(AssignResult(span, path),) if local else (),
            safety=Safety.SAFE if met and value.sure else Safety.UNSAFE,
        )

    # --- inputs ----------------------------------------------------------------------------

    def _groups(
        self, flow: Flow, names: Names, meetings: list[Event], handled: set[str], moved: set[str]
    ) -> Iterator[_Group]:
        """Strays that one statement can move together; each value once."""
        groups: dict[object, _Group] = {}
        seen: set[object] = set()
        for event in meetings:
            for meeting in event.strays:
                base = _base(meeting.node)
                if not _is_input(event, meeting) or base is not None and base.id in handled:
                    continue
                binding = names.binding(base) if base is not None else None
                whole = isinstance(meeting.node, ast.Name)
                key = (binding.target if binding else base and base.id, ast.unparse(meeting.node) if not whole else "")
                if base is not None and key in seen:
                    continue
                seen.add(key)
                device, safe = self._device(flow, event, meeting)
                stray = _Stray(event, meeting, device, safe)
                run = event.value.kind in (Kind.MODULE, Kind.PART)
                if not device or run and not self._certain(flow, stray) and _left_on_purpose(binding, moved):
                    continue
                held = isinstance(meeting.node, ast.Attribute) and isinstance(meeting.node.value, ast.Name)
                one_loop = binding is not None and binding.form in ("loop", "unpack") and (whole or held)
                group_key = (binding.statement, device) if one_loop and binding else stray
                group = groups.setdefault(group_key, _Group())
                group.strays.append(stray)
                group.binding = binding
        yield from groups.values()

    def _device(self, flow: Flow, event: Event, meeting: Meeting) -> tuple[str, bool]:
        """The device expression for an input, and whether it is sure to be the right one."""
        place = event.place
        if place is None:
            return "", False
        if place.key:
            matching = [
                named.text
                for named in event.devices
                if named.value.kind is Kind.DEVICE and named.value.place.key == place.key
            ]
            if matching:
                return min(matching, key=lambda text: (len(text), text)), place.on_device
        if not place.on_device and _given_device(event):
            return _given_device(event), False
        if event.value.kind in (Kind.MODULE, Kind.PART):
            owner = _module_path(flow, event)
            if owner:
                return f"next({owner}.parameters()).device", place.on_device
            return (place.text, False) if place.text.startswith('"') else ("", False)
        if event.path:
            return f"{event.path}.device", True
        return "", False

    def _report(self, flow: Flow, names: Names, group: _Group) -> Finding:
        first = group.strays[0]
        binding, node = group.binding, first.meeting.node
        source = flow.source
        safe = all(s.safe and self._certain(flow, s) for s in group.strays)
        texts = list(dict.fromkeys(source.code(s.meeting.node) for s in group.strays))
        edits: tuple[Edit, ...] = ()
        span = source.span(node)
        if binding is not None and binding.statement is not None and not isinstance(node, ast.Subscript):
            inline = len(group.strays) == 1 and (
                _single_use(names, binding) or binding.form == "other" or _host_use(names, binding)
            )
            if binding.form == "loop" and not inline or binding.form == "unpack" and not inline:
                edits, sure = self._statement(flow, names, group, binding)
                safe = safe and sure
                span = source.span(binding.target)
            elif binding.form == "single" and not inline and binding.value is not None:
                if self._bound_before(names, first.device, source.span(binding.statement).start):
                    edits = (AppendCall(source.span(binding.value), self._to(first.device)),)
                    span = source.span(binding.value)
        if not edits:
            edits = tuple(
                AppendCall(source.span(s.meeting.node), self._to(s.device)) for s in group.strays if not _unpacked(s)
            )
            if any(_unpacked(s) for s in group.strays):
                edits = ()
        place = first.event.place
        moved = place.node if place is not None else None
        where = f"`{_subject(first.event)}`"
        related: tuple[Related, ...] = ()
        if moved is not None and hasattr(moved, "lineno"):
            where += f", which is on `{place.text}` since line {moved.lineno}" if place and place.text else ""
            related = (Related(source.span(moved), f"`{_subject(first.event)}` gets its device here"),)
        related += (Related(source.span(node), "the input arrives here"),)
        subject = " and ".join(f"`{text}`" for text in texts[:3])
        verb = "are" if len(texts) > 1 else "is"
        origin = first.meeting.value.source
        origin = f" ({origin})" if origin and origin.strip("`") not in texts else ""
        via = f" through `{first.event.via}`" if first.event.via else ""
        return self.finding(
            span,
            f"{subject}{origin} {verb} on the CPU and meet{'' if len(texts) > 1 else 's'} {where}{via}",
            title=f"move {subject} to `{first.device}`",
            edits=edits,
            safety=Safety.SAFE if safe else Safety.UNSAFE,
            related=related,
        )

    def _to(self, device: str) -> str:
        return f".to({device}, non_blocking=True)" if self.non_blocking else f".to({device})"

    def _certain(self, flow: Flow, stray: _Stray) -> bool:
        """Is it a tensor, and the module's place known, beyond doubt?"""
        event, value = stray.event, stray.meeting.value
        if event.detail.startswith("passed to") or not event.value.sure and event.value.kind is Kind.MODULE:
            return False
        if value.sure and value.kind is Kind.TENSOR or value.name == "BatchEncoding":
            return True
        path = path_of(stray.meeting.node)
        if path and flow.evidence.used_as_tensor(path):
            return True
        loader = value.node
        if isinstance(loader, ast.Call) and value.kind is Kind.TENSOR:
            return value.source.endswith("DataLoader") and all(k.arg != "collate_fn" for k in loader.keywords)
        return False

    def _bound_before(self, names: Names, device: str, offset: int) -> bool:
        """Can the device expression be written at an offset?"""
        expression = ast.parse(device, mode="eval").body
        for node in ast.walk(expression):
            if isinstance(node, ast.Name):
                bound = names.first_binding(node.id)
                if bound is not None and bound > offset:
                    return False
        return True

    def _statement(
        self, flow: Flow, names: Names, group: _Group, binding: Binding
    ) -> tuple[tuple[Edit, ...], bool]:
        """One statement after the binding that moves every stray of the group, and if it is sure."""
        source, device = flow.source, group.strays[0].device
        assert binding.statement is not None
        moved = list(dict.fromkeys(_base_id(s.meeting.node) for s in group.strays))
        offset = source.span(binding.statement).start
        if not self._bound_before(names, device, offset):
            return (), False
        values: list[str] = []
        sure = True
        imports: tuple[Edit, ...] = ()
        for name, stray in zip(moved, group.strays, strict=False):
            text, certain = self._moved(flow, names, name, stray)
            sure = sure and certain
            values.append(text)
            if "torch." in text and source.imports.get("torch") != "torch":
                imports = (EnsureImport("torch"),)
        statement = f"{', '.join(moved)} = {', '.join(values)}"
        if isinstance(binding.statement, (ast.For, ast.AsyncFor)):
            anchor, before = _loop_anchor(binding.statement, set(_targets(binding.statement)))
        else:
            anchor, before = binding.statement, False
        return (InsertStatement(source.span(anchor), statement, before), *imports), sure

    def _moved(self, flow: Flow, names: Names, name: str, stray: _Stray) -> tuple[str, bool]:
        """`x.to(device)`, or its like for a batch that is a dict or a sequence."""
        value = stray.meeting.value
        to = self._to(stray.device)
        if value.kind is not Kind.BATCH or value.name == "BatchEncoding":
            return f"{name}{to}", True
        attributes, keys = _uses(flow, names, name)
        if isinstance(flow.source.parents.get(stray.meeting.node), ast.keyword) and stray.meeting.name == "**" or (
            "str" in keys or attributes & _DICT_METHODS
        ):
            if attributes - _DICT_METHODS:
                return f"{name}{to}", False
            return f"{{k: v{to} if torch.is_tensor(v) else v for k, v in {name}.items()}}", True
        if "int" in keys:
            return f"[t{to} if torch.is_tensor(t) else t for t in {name}]", False
        return f"{name}{to}", False


def _base(node: ast.expr) -> ast.Name | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _base_id(node: ast.expr) -> str:
    base = _base(node)
    return base.id if base is not None else ""


def _is_input(event: Event, meeting: Meeting) -> bool:
    """Is this an input, and not a tensor made next to the computation (`place-factory`'s business)?"""
    value = meeting.value
    if meeting.place.where is not Where.DEFAULT or event.place is None or isinstance(meeting.node, ast.Starred):
        return False
    made = value.name in ("torch.from_numpy", "torchaudio.load") or value.name == "" and value.source and "`" not in value.source
    loaded = made or value.name == "BatchEncoding" or value.kind is Kind.BATCH or "batch of" in value.source
    if event.value.kind in (Kind.MODULE, Kind.PART):
        method = event.detail if event.value.kind is Kind.MODULE else event.path.rpartition(".")[2]
        if event.value.kind is Kind.MODULE and method not in ("module", "called") and "passed to" not in method:
            if not _RUNS.match(method):
                return False
        if event.place.on_device:
            return True
        if "batch of" in value.source and _given_device(event):
            return True
        return event.place.where in (Where.UNKNOWN, Where.OF) and "output" in value.source and "_processor" in value.source
    if event.place.where is Where.OF:
        return value.name == "torch.from_numpy" and event.value.kind is Kind.TENSOR
    return loaded


def _given_device(event: Event) -> str:
    """The device parameter of the function, where it has one: it says where the model is meant to be."""
    return next((n.text for n in event.devices if n.value.kind is Kind.DEVICE and n.value.parameter >= 0), "")


def _module_path(flow: Flow, event: Event) -> str:
    """How to write the module of a meeting: `model` of `model(x)`, `model.decode(z)`, `generate(model, x)`."""
    if event.value.kind is Kind.MODULE and not isinstance(event.node, ast.Call):
        return event.path
    node: ast.expr | None = event.node.func if isinstance(event.node, ast.Call) else None
    while node is not None:
        value = flow.value(node)
        path = path_of(node)
        if value.kind is Kind.MODULE and value.identity == event.value.identity and path:
            return path if not value.bare else ""
        node = node.value if isinstance(node, ast.Attribute) else None
    if event.value.kind is Kind.MODULE and event.path and "(" not in event.path:
        return event.path
    return ""


def _subject(event: Event) -> str:
    return event.path or event.detail


def _unpacked(stray: _Stray) -> bool:
    """`model(**batch)`: nothing can be appended to the argument."""
    return stray.meeting.name == "**" and stray.meeting.value.name != "BatchEncoding"


def _single_use(names: Names, binding: Binding) -> bool:
    return binding.form != "loop" and len(names.reads.get(binding.name, ())) == 1


def _host_use(names: Names, binding: Binding) -> bool:
    """Is the name read somewhere that needs it on the host?"""
    parents = names.source.parents
    for read in names.reads.get(binding.name, ()):
        parent = parents.get(read)
        if isinstance(parent, ast.Attribute) and parent.attr in _HOST_METHODS:
            return True
        if isinstance(parent, ast.Call) and parent.func is not read:
            if names.source.qualified(parent.func).startswith(_HOST_ROOTS):
                return True
    return False


def _left_on_purpose(binding: Binding | None, moved: set[str]) -> bool:
    """Other elements of the same batch are moved, and this one may be a list of strings, say."""
    if binding is None or not isinstance(binding.statement, (ast.For, ast.AsyncFor)):
        return False
    return any(name in moved for name in _targets(binding.statement))


def _targets(loop: ast.For | ast.AsyncFor) -> Iterator[str]:
    for node in ast.walk(loop.target):
        if isinstance(node, ast.Name):
            yield node.id


def _loop_anchor(loop: ast.For | ast.AsyncFor, targets: set[str]) -> tuple[ast.stmt, bool]:
    """The top of a loop's body, below statements that move its other elements."""
    anchor, before = loop.body[0], True
    for statement in loop.body:
        if not (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, (ast.Call, ast.Tuple))
            and {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)} <= targets
        ):
            break
        calls = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        if not all(
            isinstance(c, ast.Call) and isinstance(c.func, ast.Attribute) and c.func.attr in ("to", "cuda") for c in calls
        ):
            break
        anchor, before = statement, False
    return anchor, before


def _uses(flow: Flow, names: Names, name: str) -> tuple[set[str], set[str]]:
    """Attributes used on a name, and the types of the constant keys that index it."""
    attributes: set[str] = set()
    keys: set[str] = set()
    for read in names.reads.get(name, ()):
        parent = flow.source.parents.get(read)
        if isinstance(parent, ast.Attribute):
            attributes.add(parent.attr)
        elif isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            keys.add(type(parent.slice.value).__name__)
    return attributes, keys
