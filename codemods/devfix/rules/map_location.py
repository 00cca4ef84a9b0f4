"""`map-location`: a checkpoint is loaded onto a device that exists, not the one that it was saved from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from devfix.checkers import load_doubts as doubts
from devfix.checkers.loads import (
    Use,
    Uses,
    default_is_none,
    fixed,
    is_checkpoint,
    is_fetched,
    place_for,
)
from devfix.codemod import Codemod, Example
from devfix.engine.evidence_of_loads import says
from devfix.engine.facts import Load
from devfix.engine.transfer.loading import ARGUMENT
from devfix.findings import Edit, EnsureImport, Finding, Safety, SetArgument
from devfix.flow import Flow
from devfix.repair.in_scope import device_for
from devfix.text.source import Source

_NEAR = 2  # what a function uses, and what that names
_STATE = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save({{"epoch": 3, "model": nn.Linear(4, 2).state_dict()}}, path)


def resume(model, path):
    checkpoint = torch.load(path{0})
    model.load_state_dict(checkpoint["model"])
    return checkpoint["epoch"]


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "checkpoint.pt"
write(path)
model = nn.Linear(4, 2).to(device)
print(resume(model, path), round(model(torch.ones(1, 4, device=device)).sum().item(), 4))
"""
_ITSELF = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save(nn.Linear(4, 2).weight.detach(), path)


def run(path, x, device):
    weight = torch.load(path{0})
    return x.to(device) @ weight.t()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "weight.pt"
write(path)
print(round(run(path, torch.ones(1, 4), device).sum().item(), 4))
"""
_WRAPPER = """\
import pathlib
import tempfile

import torch
from torch import nn


def load_file(path, map_location=None):
    with open(path, "rb") as file:
        return torch.load(file{0})


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
path = pathlib.Path(tempfile.mkdtemp()) / "model.pt"
model = nn.Linear(4, 2)
torch.save(model.state_dict(), path)
state = load_file(path, map_location=device)
print(round(torch.nn.functional.linear(torch.ones(1, 4).to(device), state["weight"]).sum().item(), 4))
"""
_GUARDED = """\
import pathlib
import tempfile

import torch
from torch import nn


def write(path):
    torch.manual_seed(0)
    torch.save(nn.Linear(4, 2).state_dict(), path)


def restore(model, path):
    if torch.cuda.is_available():
        state = torch.load(path)
    else:
        state = torch.load(path, map_location="cpu")
    model.load_state_dict(state)


path = pathlib.Path(tempfile.mkdtemp()) / "model.pt"
write(path)
model = nn.Linear(4, 2)
restore(model, path)
print(round(model(torch.ones(1, 4)).sum().item(), 4))
"""


@dataclass(frozen=True)
class MapLocation(Codemod):
    """Load checkpoints onto a device that exists.

    ## What it does
    Adds the missing `map_location` to `torch.load`, `torch.jit.load`,
    `torch.hub.load_state_dict_from_url` and loaders that pass the argument on (among them functions and
    methods of the file that get one in another call). The value is

    - `"cpu"` where the loaded data only goes into `load_state_dict`, a converter or a file;
    - the device in scope (`device`, `self.device`, `args.device`) where the loaded model or tensors are
      used themselves;
    - without such a device, in a program that moves to CUDA: the CPU, but only where there is no CUDA.

    A function that takes a `map_location` and forgets to pass it on passes it on, also where one of its
    several calls names a device of its own. A device that is None unless a caller names one counts as none
    where a model's state is loaded.

    It leaves alone datasets, caches, vocabularies and the like, schedulers, tests, a file that the same
    function has just written, and loads under a condition that there is a GPU. Unless the option `all` is
    set, it also leaves alone loads where the function, or the program, uses CUDA in any case, loads in a file
    or project that saves from the CPU, of what the same run has trained, and by an address.

    ## Why is this bad?
    `torch.load` puts every tensor back on the device it was saved from. Without that device it raises
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"
    (https://pytorch.org/docs/stable/generated/torch.load.html). With it, the checkpoint takes up
    memory there in addition to the model, and with one process per GPU all of them load to the first one.

    ## Fix safety
    Safe where everything loaded goes into `load_state_dict`, which copies it to the model's device, in a
    program that has a choice of devices; and where a wrapper passes on the argument that it was given.

    Unsafe where the fix may make no difference: the same run has written the file, it was downloaded or
    saved from the CPU, the program runs only on the CPU, nobody calls the function, or another load next
    to it still fails. Also unsafe where the loaded data is used in other ways: it now arrives on the named
    device, and code that relied on the old one may need a move. The same holds for optimizers and other
    objects of classes out of sight, which can keep what they are given, and for what one of many processes
    has saved for itself.

    ## Options
    - `all` (default false): also report loads in programs that use CUDA in any case, of what the same
      run has trained, and by an address: what is published mostly loads anywhere. There the fix makes no
      difference until that changes.
    """

    all: bool = False

    id = "map-location"
    words = (
        (
            "torch.load",
            "th.load(",
            "pt.load(",
            "jit.load(",
            "import load",
            "load_url(",
            "_from_url",
            "load_checkpoint(",
            "load_fsspec(",
            "map_location=",
        ),
        ("torch",),
    )
    examples = (
        Example(
            "A checkpoint that feeds a model: it is copied to where the model is",
            _STATE.format(""),
            _STATE.format(', map_location="cpu"'),
        ),
        Example(
            "A loaded tensor that is combined with data on the device in scope",
            _ITSELF.format(""),
            _ITSELF.format(", map_location=device"),
            raises="same device|Expected all tensors",
            safety=Safety.UNSAFE,
        ),
        Example(
            "A wrapper that does not pass on its map_location",
            _WRAPPER.format(""),
            _WRAPPER.format(", map_location=map_location"),
            raises="same device|Expected all tensors",
        ),
        Example("Trap: the machine without a GPU is taken care of", _GUARDED),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        source, analysis = flow.source, flow.facts()
        yield from self._named(flow)
        found: list[_Found] = []
        for load in sorted(
            analysis.loaded.loads.values(), key=lambda one: (one.node.lineno, one.node.col_offset)
        ):
            if load.is_unasked or (not load.is_wrapped and doubts.is_excused(load, analysis)):
                continue
            uses, device = (
                Uses(load, analysis),
                device_for(analysis, load.node, load.function, load.scopes),
            )
            if is_checkpoint(load, uses, device, source):
                value, sure = place_for(load, uses, device, source)
                fails = doubts.matters(load, source) and not doubts.of_replicas(load, uses.receivers, source)
                fails = fails or load.is_wrapped
                # what is a part of one process may be bound to its device
                copied = sure and load.is_known and not doubts.of_one_process(load, source)
                found.append(_Found(load, uses, value, copied and fails, fails, copied))
        stay = [one.load for one in found if not one.sure and one.fails and not one.load.is_wrapped]
        for one in found:
            if one.sure and not doubts.cures(flow, one.load, stay):
                one = replace(one, sure=False)
            if self.all or one.load.is_wrapped or not _is_without_choice(flow, one):
                yield self._report(source, one)

    def _named(self, flow: Flow) -> Iterator[Finding]:
        """Those that name a place: another one than the function is asked for, or none by default."""
        source = flow.source
        for call, keyword in fixed(source):
            code = source.code(keyword.value)
            yield self.finding(
                source.span(keyword.value),
                f"the function passes its `{ARGUMENT}` to other loads, but this one always gets {code}",
                assumes="this one should follow it, too",
                title=f"pass `{ARGUMENT}={ARGUMENT}`",
                edits=(SetArgument(source.span(call), ARGUMENT, ARGUMENT),),
                safety=Safety.UNSAFE,
            )
        for call, keyword in default_is_none(flow.facts()):
            code, quote = source.code(keyword.value), _quote(source, call)
            yield self.finding(
                source.span(call),
                f"`{code}` is None unless a caller sets it, which loads tensors onto the device they were saved from",
                assumes="callers move what they get",
                title="load to the CPU by default",
                edits=(SetArgument(source.span(call), ARGUMENT, f"{code} or {quote}cpu{quote}"),),
                safety=Safety.UNSAFE,
            )

    def _report(self, source: Source, found: _Found) -> Finding:
        load, span = found.load, source.span(found.load.node)
        value = found.value.replace('"', _quote(source, load.node))
        edits: tuple[Edit, ...] = (SetArgument(span, ARGUMENT, value),)
        if "torch.cuda" in value and "torch" not in source.imports.values():
            edits = (*edits, EnsureImport("torch"))
        if load.is_wrapped:
            message = f"`{load.name}` is called without the `{ARGUMENT}` that the function around it takes"
            assumes = "it applies to this load, too"
        else:
            why = "and raises if there is no such device"
            if found.uses.has(Use.MODULE | Use.TENSOR):
                why = "which may be missing here, or not be the device of the data"
            message = f"`{load.name}` without `{ARGUMENT}` loads tensors onto the device they were saved from, {why}"
            assumes = "the program also runs where that device is missing"
            if not found.copied:
                assumes = "the program moves them to where it needs them"
        return self.finding(
            span,
            message,
            title=f"load with `{ARGUMENT}={value}`",
            edits=edits,
            safety=Safety.SAFE if found.sure else Safety.UNSAFE,
            assumes=assumes,
        )


@dataclass(frozen=True)
class _Found:
    """A load that wants a place; `sure`: it is that one; `fails`: it may fail without, as far as its file shows;
    `copied`: what is loaded is only copied to where it belongs."""

    load: Load
    uses: Uses
    value: str
    sure: bool
    fails: bool
    copied: bool


def _is_without_choice(flow: Flow, found: _Found) -> bool:
    """Is the device that it was saved from mostly there in the program as it is run, so that nobody needs the fix?"""
    settled = not found.fails and (doubts.is_settled(found.load, flow.source) or is_fetched(found.load))
    chosen = doubts.has_choice(flow.source)  # what is far away may be one of several that are chosen
    project = flow.project
    if not found.sure and project.is_in_view():
        if project.moves() is False or (project.chooses() is False and not flow.source.has("device")):
            return True  # all of the project is on the CPU, or on CUDA, with what it saves
    return (
        settled
        or doubts.is_of_host(flow.source)
        or (_is_of_module(found.uses, project.writes_optimizers()) and project.writes_from_cpu())
        or doubts.needs_cuda(flow, found.load, *([_NEAR] if chosen else []))
    )


def _is_of_module(uses: Uses, with_optimizers: bool) -> bool:
    """Does all that is loaded go into modules? Optimizers, and what is saved with them, mostly are not copied."""
    return (
        bool(uses.receivers)
        and not (uses.has_states and with_optimizers)
        and not any(says("optimizer", one) for one in uses.receivers)
    )


def _quote(source: Source, call: ast.Call) -> str:
    """The quotes that the call itself uses."""
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return "'" if source.code(node).startswith("'") else '"'
    return '"'
