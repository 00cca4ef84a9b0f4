"""Autocast wants the type of a device: "cuda", never "cuda:0" and never a torch.device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.autocast.arguments import Arguments
from devfix.autocast.examples import EXAMPLES
from devfix.autocast.file import File
from devfix.autocast.follow import Following
from devfix.codemod import Codemod, Example
from devfix.engine.forms import WRONG_TYPES
from devfix.findings import Finding
from devfix.flow import Flow


@dataclass(frozen=True)
class NormalizeDeviceType(Codemod):
    """Give autocast and GradScaler a device type, not a device.

    ## What it does

    Checks the device type of every `torch.autocast`, `torch.amp.autocast`, `torch.cuda.amp.autocast`
    and `GradScaler` call, in any spelling: aliases, decorators, `partial(...)`, functions and classes
    of the file that pass it on, and wrappers such as `TorchAutocast(device_type=...)`. A device that may
    be "cuda:0" or a torch.device becomes `torch.device(d).type`, which works for strings, torch.device
    objects and ranks alike, or `d.type` where `d` is certainly a torch.device. So do `str(d)`, slices
    and `.replace(":0", "")`. `"cuda" in d`, where it selects the type, becomes
    `torch.device(d).type == "cuda"`.

    A literal type ("cuda", `torch.cuda.amp.autocast()`) becomes that of the data, where the data's device
    is available and the code otherwise runs on any device. devfix also looks for the data in the methods
    and functions that are called under autocast, which may be bound to a name or made by
    `functools.partial`. In a class with a `self.device`, a type that depends on whether there is a GPU
    (`"cuda" if torch.cuda.is_available() else "cpu"`) counts as literal too.

    A device name that torch does not know (`torch.device("gpu:0")`, `.to("CUDA")`) becomes the right one.

    ## Why is this bad?

    `torch.autocast(torch.device("cuda"))` raises a TypeError or, in recent versions, a ValueError
    ("Expected `device_type` of type `str`"). `torch.autocast("cuda:0")` raises "User specified an
    unsupported autocast device_type 'cuda:0'" in torch 2.3 and before. Torch 2.6 and later accept it but
    skip what they do for "cuda": checking for bfloat16, and switching off where there is no GPU.
    `device[-1]`, another way to get rid of the index, gives "0".

    A literal "cuda" does nothing where the data is not on a CUDA device: on the CPU, on mps or on xpu the
    code runs in full precision, with or without a warning.

    ## Fix safety

    Safe where only the form of the argument changes. Unsafe where a literal type is replaced by that of
    the data: on the CPU autocast was off and will be on, in bfloat16 if no dtype is given, so results
    differ in the last digits. There is no fix where autocast is a decorator, since a decorator runs
    before there is any data. An import such as `from torch.cuda.amp import autocast` stays even if it is
    no longer used: other files may import the name from there.
    """

    id: ClassVar[str] = "normalize-device-type"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("autocast", "Autocast", "GradScaler", *(f"{mark}{name}" for name in WRONG_TYPES for mark in "'\"")),
    )
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        file = File(self.id, flow)
        arguments, following = Arguments(file), Following(file)
        for call in file.calls:
            found = list(arguments.check(call, call.argument)) if call.argument is not None else []
            yield from found or following.check(call)
        yield from arguments.membership()
