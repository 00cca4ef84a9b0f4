"""`place-factory`: tensors are made on the device of the tensors they are combined with."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from devfix.checkers.inputs import inputs_of
from devfix.codemod import Codemod, Example
from devfix.engine.evidence import is_cpu_program
from devfix.factories.edits import device_for, edit_for
from devfix.factories.files import of_file
from devfix.factories.follow import Follow
from devfix.factories.keepers import Kept
from devfix.factories.late import moved_at, moved_there
from devfix.factories.meetings import Meeting
from devfix.factories.moved import moved_later, of_host
from devfix.factories.operations import LASTS
from devfix.factories.probes import probes
from devfix.factories.proof import Proof, apart, exported, one_number, reached
from devfix.factories.rebuilt import rebuilt
from devfix.factories.refused import refused
from devfix.factories.scopes import Scopes
from devfix.factories.switches import switched_off
from devfix.factories.values import Origin, leaves_of
from devfix.findings import Edit, Finding, Related, Safety, Span
from devfix.flow import Flow, torch_api
from devfix.source import Source, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class PlaceFactory(Codemod):
    """Make tensors on the device of the tensors they are combined with.

    ## What it does
    Finds `torch.zeros`, `ones`, `arange`, `linspace`, `eye`, `tensor`, ... and `torch.LongTensor` and the like
    without a device, whose result is combined with a tensor on another device: a parameter of the function
    or what was computed from it, a parameter of the module, or what was moved to a device. devfix follows the
    new tensor through assignments, views, lists, loops, branches and the functions of the file to the
    operation that fails. It also finds tensors that take their type from another one (`dtype=x.dtype`) but
    stay on the CPU; state that a module keeps in the size of its input; state that a class other than a module
    keeps for its methods; what is sent to other processes; what is made again under a check of devices; and
    inputs made up to trace a model or count its operations. Two calls raise by themselves: an old constructor
    that is given an accelerator as its device, and `pin_memory=True` where there is no CUDA.

    The device is that of the other tensor (`x.device`), written with the name that the function already has
    for it (`device`); where it is combined with a layer only, that of the module's parameters. Calls that take
    no `device=` get `.to(...)`, and so do calls of functions of the file that make the tensor but get no
    argument that has a device. Old constructors become `torch.tensor(..., dtype=..., device=...)`. A tensor made
    before the one it is combined with is moved next to the others that are, or where they are combined.

    ## Why is this bad?
    Factories make CPU tensors, so the function works until its input is on an accelerator, and then raises
    "Expected all tensors to be on the same device"
    (https://pytorch.org/docs/stable/tensor_attributes.html#torch.device).

    ## Fix safety
    Safe where the device is that of the very tensor it is combined with, and the file shows that this tensor
    may be on an accelerator: the `forward` of a module gets it, the function moves it or asks for its device, or
    a call in the file passes a tensor on one. On the CPU nothing changes then. Unsafe where the only evidence is a
    tensor parameter, since all callers may be on the CPU; where nobody names the function, or nothing in the
    project is moved; behind an option that no call in the file sets; where only its use says that a value is a
    tensor, or it may be None; where a program next to it sets the default device; where nothing fails but the
    result would stay on the CPU; and where the tensor is sent, rebuilt, kept by a class, made up for a model, or
    made before the one it is combined with.
    There is no finding for tensors without dimensions in arithmetic, a CPU index into a tensor, code that
    prepares data or builds modules, and programs, notebooks and test files that name no device.
    """

    id: ClassVar[str] = "place-factory"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("torch",), tuple(sorted(f"{last}(" for last in LASTS)))
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "A mask from positions, in a function that is given a tensor",
            """\
import torch


def length_mask(lengths, size):
    return torch.arange(size).unsqueeze(0) < lengths.unsqueeze(1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(length_mask(torch.tensor([1, 3], device=device), 4).sum().item())
""",
            """\
import torch


def length_mask(lengths, size):
    return torch.arange(size, device=lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(length_mask(torch.tensor([1, 3], device=device), 4).sum().item())
""",
            raises="same device",
        ),
        Example(
            "Positions for an embedding, in a module",
            """\
import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(10, 4)
        self.positions = nn.Embedding(8, 4)

    def forward(self, ids):
        count = ids.shape[1]
        return self.tokens(ids) + self.positions(torch.arange(count))


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Embedder().to(device)
print(round(model(torch.ones(2, 3, dtype=torch.long, device=device)).sum().item(), 3))
""",
            """\
import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(10, 4)
        self.positions = nn.Embedding(8, 4)

    def forward(self, ids):
        count = ids.shape[1]
        return self.tokens(ids) + self.positions(torch.arange(count, device=ids.device))


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Embedder().to(device)
print(round(model(torch.ones(2, 3, dtype=torch.long, device=device)).sum().item(), 3))
""",
            raises="same device|Expected all tensors",
        ),
        Example(
            "An accumulator, and an old constructor; the function has a name for the device",
            """\
import torch


def total(x):
    device = x.device
    result = torch.zeros(1)
    for row in x.unbind():
        result += (row * torch.FloatTensor([2.0, 3.0])).sum()
    return result + torch.ones(1, device=device)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(total(torch.ones(3, 2, device=device)).item())
""",
            """\
import torch


def total(x):
    device = x.device
    result = torch.zeros(1, device=device)
    for row in x.unbind():
        result += (row * torch.tensor([2.0, 3.0], dtype=torch.float32, device=device)).sum()
    return result + torch.ones(1, device=device)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(total(torch.ones(3, 2, device=device)).item())
""",
            raises="same device",
        ),
        Example(
            "A default for an argument",
            """\
import torch


def weighted_mean(values: torch.Tensor, mask=None):
    if mask is None:
        mask = torch.ones(values.shape[0], 1)
    return (values * mask).sum() / mask.sum()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(weighted_mean(torch.ones(2, 3, device=device)).item())
""",
            """\
import torch


def weighted_mean(values: torch.Tensor, mask=None):
    if mask is None:
        mask = torch.ones(values.shape[0], 1, device=values.device)
    return (values * mask).sum() / mask.sum()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(weighted_mean(torch.ones(2, 3, device=device)).item())
""",
            raises="same device",
        ),
        Example(
            "Trap: a tensor without dimensions in arithmetic, and a CPU index into a tensor",
            """\
import torch


def scaled(x):
    first = x.detach()[torch.tensor([0, 1])]
    return first * torch.sqrt(torch.tensor(4.0))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(scaled(torch.ones(3, device=device)).sum().item())
""",
        ),
        Example(
            "Trap: a tensor that is moved later",
            """\
import torch


def shifted(x):
    positions = torch.arange(x.size(0)).unsqueeze(1)
    return x + positions.to(x.device) + torch.ones(x.size(0), 1).type_as(x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(shifted(torch.ones(3, 2, device=device)).sum().item())
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        source = flow.source
        if any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
            return
        scopes = Scopes(source)
        known: list[Span] = []
        try:
            for finding in self._check(flow, scopes):
                known.append(finding.span)
                yield finding
            plain = [*refused(source), *rebuilt(source), *probes(source, scopes)]
        finally:
            scopes.release()
        starts = sorted(other.start for other in known)
        for one in plain:
            span = source.span(one.within or one.node)
            if bisect_left(starts, span.start) == bisect_left(starts, span.end):
                yield self.finding(
                    source.span(one.node), one.message, title=one.title, edits=one.edits, safety=one.safety
                )

    def _check(self, flow: Flow, scopes: Scopes) -> Iterator[Finding]:
        if flow.default_is_other() or is_cpu_program(flow.source, flow.path):
            return
        follows, others, kept = of_file(scopes)
        host = of_host([*follows, *others])
        proof = Proof([*follows, *others])
        taken = inputs_of(flow.facts())
        known: set[Span] = set()
        for follow in follows:
            if scopes.hosted(follow.scope):
                continue
            for finding in self._report(follow, taken, host, proof, kept):
                if finding.span not in known:  # a helper may be found from several callers
                    known.add(finding.span)
                    if (
                        finding.fix is not None
                        and finding.fix.safety is Safety.SAFE
                        and (flow.default_is_set() or not reached(flow, follow.scope))
                    ):
                        finding = replace(finding, fix=replace(finding.fix, safety=Safety.UNSAFE))
                    yield finding

    def _report(
        self, follow: Follow, taken: set[ast.AST], host: set[tuple[ast.AST, str]], proof: Proof, kept: Kept
    ) -> Iterator[Finding]:
        source = follow.source
        seen: dict[Origin, Meeting] = {}
        met: dict[Origin, list[Meeting]] = {}
        for meeting in follow.meetings:
            for origin in meeting.origins:
                if meeting.anchor.text in follow.cpu or moved_later(follow, meeting):
                    continue
                if meeting.anchor.weak and not _sized(origin, meeting):
                    continue
                if apart(source, origin.call, meeting.node, meeting.anchor):
                    continue
                if origin.call in taken or (follow.scope, meeting.anchor.text) in host:
                    continue
                met.setdefault(origin, []).append(meeting)
                known = seen.get(origin)
                if known is None or (meeting.certain and not known.certain):
                    seen[origin] = meeting
        for origin, meeting in sorted(seen.items(), key=lambda item: source.span(item[0].call)):
            leaves = [(leaf, device_for(source, leaf, meeting)[0]) for leaf in leaves_of(origin)]
            if leaves and all(device for _, device in leaves):
                for leaf, device in leaves:
                    yield self._found(source, leaf, meeting, device, (edit_for(source, leaf, device),), False)
                continue
            device, sure = device_for(source, origin, meeting)
            if origin in kept.origins:
                at_use = moved_at(source, origin, met[origin])
                if origin not in kept.early and meeting.anchor.text.startswith("self."):
                    edit = edit_for(source, origin, "self.device")
                    yield self._found(source, origin, meeting, "self.device", (edit,), False)
                elif at_use is not None:
                    yield self._found(source, origin, meeting, at_use.device, at_use.edits, False, at_use.at)
                continue
            if leaves and not origin.name and meeting.certain and meeting.anchor.sure:
                for leaf, _ in leaves:
                    yield self._found(source, leaf, meeting, "", (), False)
            if origin.name and not sure and device != meeting.anchor.text:  # it is a guess, or none
                move = moved_there(source, origin, met[origin])
                if move is not None and (not device or isinstance(move.at, ast.stmt)):
                    if origin not in follow.hosted:
                        yield self._found(source, origin, meeting, move.device, move.edits, False, move.at)
                    continue
            if not device or not origin.name:
                continue  # where no device can be named, the other tensor is mostly made from this one
            edits: tuple[Edit, ...] = (edit_for(source, origin, device),)
            joined = {origin}
            for link in follow.links:
                if origin in link:
                    joined |= link
                    edits += tuple(
                        edit_for(source, other, device)
                        for other in link
                        if other is not origin and other not in seen and other.call not in taken
                    )
            clear = sure and meeting.certain and not joined & follow.doubted
            safe = clear and proof.holds(follow, meeting.anchor) and not exported(source, meeting.node)
            safe = safe and not switched_off(source, origin.call) and not switched_off(source, meeting.node)
            safe = safe and not one_number(source, follow.scope, origin.call, meeting.node)
            if origin in follow.hosted:
                if not clear:
                    continue
                edits = ()  # the host needs it as well, where it is
            yield self._found(source, origin, meeting, device, edits, safe)

    def _found(
        self,
        source: Source,
        origin: Origin,
        meeting: Meeting,
        device: str,
        edits: tuple[Edit, ...],
        safe: bool,
        at: ast.AST | None = None,
    ) -> Finding:
        where = f", which is on `{meeting.anchor.text}`" if meeting.anchor.text else ""
        if meeting.how.startswith("is filled"):
            where = ""
        if meeting.anchor.text == f"{meeting.other}.device":
            where = ", which may be on another device"
        return self.finding(
            source.span(at or origin.call),
            f"`{origin.name}` makes a tensor on the CPU; it {meeting.how} `{_short(meeting.other)}`{where}",
            title=f"{'move' if at else 'make'} it {'to' if at else 'on'} `{device}`" if device else "",
            edits=edits,
            safety=Safety.SAFE if safe else Safety.UNSAFE,
            related=(
                Related(source.span(origin.call), "it is made here")
                if at
                else Related(source.span(meeting.node), "they come together here"),
            ),
        )


def _sized(origin: Origin, meeting: Meeting) -> bool:
    """Is the size of a new tensor read from what is where the meeting is?"""
    for node in walk(origin.call):
        if isinstance(node, ast.Name) and (fact := origin.names.get(node.id)) is not None:
            if fact.anchor is not None and fact.anchor.text == meeting.anchor.text:
                return True
    return False


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "..."
