"""`map-location`: a checkpoint is loaded onto a device that exists, not the one that it was saved from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from devfix.callees import Callees
from devfix.checkers.left_out import reads
from devfix.codemod import Codemod, Example
from devfix.findings import Edit, EnsureImport, Finding, Safety, SetArgument
from devfix.flow import Flow
from devfix.loading.calls import ARGUMENT, Load, Loads, is_none_at
from devfix.loading.cure import cures, needs_cuda
from devfix.loading.devices import DevicesInScope
from devfix.loading.examples import EXAMPLES
from devfix.loading.handed import fixed, open_ended
from devfix.loading.standing import has_choice, is_settled, matters, of_replicas
from devfix.loading.uses import Follower, Use, Uses
from devfix.source import Source, walk

_CHECKPOINT = re.compile(
    r"ckpt|checkpoint|check_point|weight|state|snapshot|pre_?train|resume|restore|model|netg\b|netd\b|network|"
    r"generator|discriminator|encoder|decoder|adapter|lora|optim|unet|vae\b|backbone|\.pth|\.ckpt|params",
    re.IGNORECASE,
)
# Beyond doubt even where the other words occur: `data_dir + "/checkpoint.pt"`.
_SURELY = re.compile(
    r"ckpt|checkpoint|weights|state_?dict|pre_?train|(?<![a-z])model(?!s?/)|snapshot", re.IGNORECASE
)
_DATA = re.compile(
    r"vocab|data|token|lexicon|fields|transforms|meta|triples|graph|sample|feature|feat\b|index|label|stats|"
    r"statistic|cache|corpus|split|shard|record|history|loss|metric|config|speaker|prompt|image|video|audio|"
    r"indices|centroid|assign|mask",
    re.IGNORECASE,
)
_ENTRY = r"(?:\w*state_?dict|model|optimizer|params_ema|module|generator|weights)"
_QUOTED = re.compile(rf"[\"']{_ENTRY}[\"']")
_STATE_NAME = re.compile(r"state_?dict|(?:^|_)sd$")
# Numbers and texts about a checkpoint, not its tensors.
_NO_TENSORS = re.compile(r"metadata|manifest|kwargs|^args|config", re.IGNORECASE)
_GPU = re.compile(r"\.cuda\(|[\"']cuda")
# What has no tensors in its state.
_NUMBERS = re.compile(r"sched|(?:^|[._])(?:grad_?|amp_?|loss_?)?scaler$", re.IGNORECASE)
# Objects that keep what they are given, on the device that it is on.
_KEEPERS = re.compile(r"ema|shadow|average|obj\b|self$", re.IGNORECASE)


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
    set, it also leaves alone loads where the function, or a program that has no choice of device, uses CUDA in any
    case, and loads of what the same run has trained.

    ## Why is this bad?
    `torch.load` puts every tensor back on the device it was saved from. Without that device it raises
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"
    (https://pytorch.org/docs/stable/generated/torch.load.html). With it, the checkpoint takes up
    memory there in addition to the model, and with one process per GPU all of them load to the first one.

    ## Fix safety
    Safe where everything loaded goes into `load_state_dict`, which copies it to the model's device, in a
    program that has a choice of devices; and where a wrapper passes on the argument that it was given.

    Unsafe where the fix may make no difference: the same run has written the file, it was downloaded or
    saved from the CPU, the program (or what it imports) runs only on CUDA or only on the CPU, nobody calls
    the function, or another load next to it still fails. Also unsafe where the loaded data is used in other ways:
    it now arrives on the named device, and code that relied on the old one may need a move. The same
    holds for optimizers and other objects of classes out of sight, which can keep what they are given, and
    for what one of many processes has saved for itself.

    ## Options
    - `all` (default false): also report loads in programs that use CUDA in any case, and of what the same
      run has trained. There the fix makes no difference until that changes.
    """

    all: bool = False

    id: ClassVar[str] = "map-location"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
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
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        yield from self._named(flow)
        loads = list(Loads(flow.source).find())
        if not loads:
            return
        callees = Callees(flow)
        devices, follower = DevicesInScope(callees), Follower(callees)
        hosts = {scope.node for scope in flow.scopes if scope.host}
        found: list[_Found] = []
        for load in loads:
            uses = follower.uses(load.call)
            device = devices.at(load.call)
            if device and is_none_at(flow.source, load.call, device):
                device = ""
            if _is_checkpoint(flow, load, uses, device, load.function in hosts):
                value, safety = _choice(flow, load, uses, device)
                here = load.wrapper or (
                    matters(flow.source, load) and not of_replicas(flow.source, load, tuple(uses.receivers))
                )
                if not here or load.supposed or follower.of_one_rank(load.call):
                    safety = Safety.UNSAFE  # what is a part of one process may be bound to its device
                found.append(_Found(load, uses, value, safety, here))
        stay = [
            one.load for one in found if one.safety is Safety.UNSAFE and one.here and not one.load.wrapper
        ]
        for one in found:
            if one.safety is Safety.SAFE and not cures(flow, one.load, stay):
                one = replace(one, safety=Safety.UNSAFE)
            if self.all or not _is_without_choice(flow, one):
                yield self._report(flow, one)

    def _named(self, flow: Flow) -> Iterator[Finding]:
        """Those that name a place: another one than the function is asked for, or none by default."""
        source = flow.source
        if ARGUMENT not in source.text:
            return
        for call, keyword in fixed(source):
            span, code = source.span(call), source.code(keyword.value)
            yield self.finding(
                source.span(keyword.value),
                f"the function passes its `{ARGUMENT}` to other loads, but this one always gets {code}",
                title=f"hand on `{ARGUMENT}={ARGUMENT}`",
                edits=(SetArgument(span, ARGUMENT, ARGUMENT),),
                safety=Safety.UNSAFE,
            )
        for call, keyword in open_ended(source):
            span, code = source.span(call), source.code(keyword.value)
            yield self.finding(
                span,
                f"`{code}` is None unless a caller sets it, and None loads tensors to the device they were saved from",
                title="load to the CPU by default",
                edits=(
                    SetArgument(span, ARGUMENT, f"{code} or {_quote(source, call)}cpu{_quote(source, call)}"),
                ),
                safety=Safety.UNSAFE,
            )

    def _report(self, flow: Flow, found: _Found) -> Finding:
        source, load, uses = flow.source, found.load, found.uses
        span = source.span(load.call)
        value = found.value.replace('"', _quote(source, load.call))
        edits: tuple[Edit, ...] = (SetArgument(span, ARGUMENT, value),)
        if "torch.cuda" in value and "torch" not in source.imports.values():
            edits = (*edits, EnsureImport("torch"))
        if load.wrapper:
            message = f"`{load.name}` is called without the `{ARGUMENT}` that the function around it takes"
        else:
            message = (
                f"`{load.name}` without `{ARGUMENT}` loads tensors to the device they were saved from, "
                f"{_why(uses)}"
            )
        return self.finding(
            span,
            message,
            title=f"load with `{ARGUMENT}={value}`",
            edits=edits,
            safety=found.safety,
        )


@dataclass(frozen=True)
class _Found:
    """A load that wants a place; `here`: may it fail without one, as far as its own file shows?"""

    load: Load
    uses: Uses
    value: str
    safety: Safety
    here: bool


def _is_without_choice(flow: Flow, found: _Found) -> bool:
    """Is the device that it was saved from there in the program as it is run, so that nobody needs the fix?"""
    load, source = found.load, flow.source
    if found.here or load.wrapper:
        return False
    return is_settled(source, load) or (not has_choice(source) and needs_cuda(flow, load))


def _is_checkpoint(flow: Flow, load: Load, uses: Uses, device: str, host: bool) -> bool:
    """Is it certain enough that there are tensors in it which may have been on a GPU?"""
    call = load.call
    argument = flow.source.code(call.args[0]) if call.args else ""
    names = " ".join(uses.names)
    around = load.function.name if load.function is not None else ""
    plain = any(_NO_TENSORS.search(name) for name in uses.names[:1])
    if plain and not uses.kinds & ~(Use.OUT | Use.STORED):
        return False
    if uses.kinds is Use.STATE and uses.receivers and all(map(_NUMBERS.search, uses.receivers)):
        return False
    if load.wrapper or load.restores or load.name == "torch.jit.load" or uses.has(Use.STATE):
        return True
    if host:
        return False
    if _is_told(flow, load):
        return True
    if _has_entries(flow, load, uses):
        return True
    if uses.has(Use.MODULE) or uses.has(Use.PARAMETER):
        return True
    if _DATA.search(names) and not _SURELY.search(names):
        return False
    words = f"{argument} {names}"
    if load.name.endswith(("_from_url", "load_url")):
        return True
    if _CHECKPOINT.search(words):
        return bool(_SURELY.search(words)) or not _DATA.search(words)
    if _CHECKPOINT.search(around) and not _DATA.search(f"{words} {around}"):
        return True
    return uses.has(Use.TENSOR) and bool(device) and not _DATA.search(words)


def _is_told(flow: Flow, load: Load) -> bool:
    """Does the function around a load take a device, and nothing ever reads it?"""
    function = load.function
    if function is None:
        return False
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(one.arg == "device" and not reads(flow.source, function, one.arg) for one in arguments)


def _has_entries(flow: Flow, load: Load, uses: Uses) -> bool:
    """Is it asked for what only a checkpoint has: `loaded["state_dict"]`, `"model" in loaded`?"""
    text = flow.source.text if load.function is None else flow.source.code(load.function)
    if not _QUOTED.search(text):  # most of the time; the patterns below are compiled for each name
        return False
    for name in {name for name in uses.names[:3] if name.isidentifier()}:
        if re.search(rf"(?<![\w.]){name}\s*(?:\[|\.(?:get|pop)\()\s*[\"']{_ENTRY}[\"']", text):
            return True
        if re.search(rf"[\"']{_ENTRY}[\"'] (?:not )?in {name}\b", text):
            return True
    return False


def _choice(flow: Flow, load: Load, uses: Uses, device: str) -> tuple[str, Safety]:
    """What to pass, and how sure that is to be right."""
    if load.wrapper:
        return ARGUMENT, Safety.SAFE if load.asked else Safety.UNSAFE
    if load.restores:
        return '"cpu"', Safety.SAFE
    itself = uses.has(Use.MODULE) or uses.has(Use.TENSOR)
    if uses.kinds is Use.NONE and any(_STATE_NAME.search(name) for name in uses.names):
        return '"cpu"', Safety.UNSAFE
    if uses.has(Use.STATE) and not itself:
        kept = any(_KEEPERS.search(receiver) for receiver in uses.receivers)
        kept = kept or uses.has(Use.OUT) or uses.has(Use.PARAMETER)
        if uses.has(Use.STORED) and device:
            return (
                device,
                Safety.UNSAFE,
            )  # what is kept as it is may be a tensor, too: `self.alpha = state["alpha"]`
        return '"cpu"', Safety.UNSAFE if kept else Safety.SAFE
    if uses.has(Use.HOST) and not itself and not uses.has(Use.OUT):
        return '"cpu"', Safety.UNSAFE
    if device:
        return device, Safety.UNSAFE
    if uses.kinds and not uses.moved and _GPU.search(flow.source.text):
        # where it is wanted is out of sight, but what works with CUDA goes on as it does
        torch = next((local for local, what in flow.source.imports.items() if what == "torch"), "torch")
        return f'None if {torch}.cuda.is_available() else "cpu"', Safety.UNSAFE
    return '"cpu"', Safety.UNSAFE


def _quote(source: Source, call: ast.Call) -> str:
    """The quotes that the call itself uses."""
    for node in walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return "'" if source.code(node).startswith("'") else '"'
    return '"'


def _why(uses: Uses) -> str:
    if uses.has(Use.MODULE) or uses.has(Use.TENSOR):
        return "which may be missing here, or not be the device of the data"
    return "and raises where there is no such device"
