"""Autocast wants the type of a device: "cuda", never "cuda:0" and never a torch.device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.autocast import found
from devfix.codemod import Codemod, Example
from devfix.engine.forms import WRONG_TYPES
from devfix.findings import Finding, Safety
from devfix.flow import Flow

_OBJECT = """\
import torch

device = "cpu"
if torch.cuda.is_available():
    device = torch.device("cuda", 0)
model = torch.nn.Linear(4, 2).to(device)
torch.nn.init.ones_(model.weight)
torch.nn.init.zeros_(model.bias)
with torch.autocast(device_type={}, dtype=torch.bfloat16):
    output = model(torch.ones(3, 4, device=device))
print(output.float().sum().item())
"""

_WRAPPER = """\
import torch


class TorchAutocast:
    def __init__(self, *args, **kwargs):
        self.context = torch.autocast(*args, **kwargs)
        self.kind = self.context.device

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, *args):
        return self.context.__exit__(*args)


class Brain:
    def __init__(self, run_opts):
        self.device = run_opts["device"]
        self.model = torch.nn.Linear(4, 2).to(self.device)
        torch.nn.init.ones_(self.model.weight)
        torch.nn.init.zeros_(self.model.bias)
        self.context = TorchAutocast(device_type={}, dtype=torch.bfloat16)
        assert self.context.kind in ("cpu", "cuda"), f"autocast was given {{self.context.kind!r}}"

    def compute_forward(self, batch):
        with self.context:
            return self.model(batch.to(self.device))


brain = Brain({{"device": "cuda:0" if torch.cuda.is_available() else "cpu"}})
print(brain.compute_forward(torch.ones(3, 4)).float().sum().item())
"""

_MEMBERSHIP = """\
import torch


class Trainer:
    def __init__(self, model, device: str = "cpu"):
        self.device = device
        self.model = model.to(device)
        if {}:
            self.autocast_type = "cuda"
        else:
            self.autocast_type = "cpu"

    def evaluate(self, batch):
        with torch.autocast(device_type=self.autocast_type, dtype=torch.bfloat16):
            return self.model(batch.to(self.device))


model = torch.nn.Linear(4, 2)
torch.nn.init.ones_(model.weight)
torch.nn.init.zeros_(model.bias)
trainer = Trainer(model, torch.device("cuda") if torch.cuda.is_available() else "cpu")
print(trainer.evaluate(torch.ones(3, 4)).float().sum().item())
"""

_HARD = """\
import torch


class Doubler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4, 4), 2.0))

    def forward(self, x):
        with {}:
            return x @ self.weight


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(Doubler().to(device)(torch.ones(3, 4, device=device)).float().sum().item())
"""

_RIGHT = """\
import torch

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
scaler = torch.amp.GradScaler(device.type, enabled=False)
with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
    output = torch.ones(3, 4, device=device) @ torch.ones(4, 2, device=device)
print(output.float().sum().item())
"""

_CUDA_ONLY = """\
import torch


def run(model, x: torch.Tensor):
    if x.device.type == "cuda":
        with torch.autocast("cuda", dtype=torch.float16):
            return model(x)
    return model(x)


device = "cuda" if torch.cuda.is_available() else "cpu"
print(run(torch.nn.Identity(), torch.ones(3, 4, device=device)).sum().item())
"""

_EXPECTED = r"Expected `device_type` of type `str`|must be str|unsupported autocast device_type"

_EXAMPLES = (
    Example(
        "a device that is a string or a torch.device",
        _OBJECT.format("device"),
        _OBJECT.format("torch.device(device).type"),
        raises=_EXPECTED,
    ),
    Example(
        'a wrapper is given "cuda:0"',
        _WRAPPER.format("self.device"),
        _WRAPPER.format("torch.device(self.device).type"),
        raises=r"autocast was given 'cuda:0'|unsupported autocast device_type",
    ),
    Example(
        "a torch.device is searched like a string",
        _MEMBERSHIP.format('"cuda" in self.device'),
        _MEMBERSHIP.format('torch.device(self.device).type == "cuda"'),
        raises=r"argument of type 'torch\.device' is not",
    ),
    Example(
        "autocast for CUDA only in a module for any device",
        _HARD.format('torch.autocast("cuda")'),
        _HARD.format("torch.autocast(x.device.type)"),
        safety=Safety.UNSAFE,
        options=(("all", "true"),),
    ),
    Example(
        "torch.cuda.amp.autocast in a module for any device",
        _HARD.format("torch.cuda.amp.autocast(True, torch.bfloat16)"),
        _HARD.format("torch.autocast(x.device.type, enabled=True, dtype=torch.bfloat16)"),
        safety=Safety.UNSAFE,
    ),
    Example("a type is a type", _RIGHT),
    Example("CUDA only on purpose", _CUDA_ONLY),
    Example("half precision on CUDA alone", _HARD.format('torch.autocast("cuda")')),
)


@dataclass(frozen=True)
class NormalizeDeviceType(Codemod):
    """Give autocast a device type, not a device.

    ## What it does

    Checks the device type of every `torch.autocast`, `torch.amp.autocast` and `torch.cuda.amp.autocast`
    call, in any spelling: aliases, decorators, `partial(...)`, functions and classes
    of the file that pass it on, and wrappers such as `TorchAutocast(device_type=...)`. A device that may
    be "cuda:0" or a torch.device becomes `torch.device(d).type`, which works for strings, torch.device
    objects and ranks alike, or `d.type` where `d` is certainly a torch.device. So do `str(d)`, slices
    and `.replace(":0", "")`. `"cuda" in d`, where it selects the type, becomes
    `torch.device(d).type == "cuda"`.

    In a class with a `self.device`, a type that depends on whether there is a GPU
    (`"cuda" if torch.cuda.is_available() else "cpu"`) becomes that of the data, where the data's device
    is available and the code otherwise runs on any device. devfix also looks for the data in the methods
    and functions that are called under autocast, which may be bound to a name or made by
    `functools.partial`. So does `enabled=False` for CUDA only, where another context of the file switches
    autocast on for other devices.

    A literal type ("cuda", `torch.cuda.amp.autocast()`) is mostly meant: the half precision of CUDA, and full
    precision on the CPU. It is made to follow the data, too, if it is told a dtype, other than by `enabled=` of a
    comparison; if `enabled=` asks for CUDA; if the file names other accelerators; or by the option `all`. Even then,
    a device that is chosen by whether there is a GPU is no reason, nor is `torch.cuda.amp.autocast` by a flag in a
    file that scales gradients.

    A device name that torch does not know (`torch.device("gpu:0")`, `.to("CUDA")`) becomes the right one.

    ## Why is this bad?

    `torch.autocast(torch.device("cuda"))` raises a TypeError or, in recent versions, a ValueError
    ("Expected `device_type` of type `str`"). `torch.autocast("cuda:0")` raises "User specified an
    unsupported autocast device_type 'cuda:0'" in torch 2.3 and before. Torch 2.6 and later accept it but
    skip what they do for "cuda": checking for bfloat16, and switching off where there is no GPU.
    `device[-1]`, another way to get rid of the index, gives "0".

    A literal "cuda" does nothing where the data is not on a CUDA device, with or without a warning: on the CPU, on
    mps or on xpu the code runs in full precision, and `enabled=False` switches nothing off.

    ## Fix safety

    Safe where only the form of the argument changes. Unsafe where an option of the program (`args.device`)
    is searched for "cuda", which is mostly a string; and where a literal type is replaced by that of
    the data: on the CPU autocast was off and will be on, in bfloat16 if no dtype is given, so results
    differ in the last digits. There is no fix where autocast is a decorator, since a decorator runs
    before there is any data. An import such as `from torch.cuda.amp import autocast` stays even if it is
    no longer used: other files may import the name from there.

    ## Options
    - `all` (default false): also report any other autocast for CUDA by name, where the data can be elsewhere.
    """

    all: bool = False

    id = "normalize-device-type"
    words = (("autocast", "Autocast", *(f"{mark}{name}" for name in WRONG_TYPES for mark in "'\"")),)
    examples = _EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        analysis = flow.facts()
        yield from found(analysis, bool(analysis.autocasts) and flow.project.needs_cuda() is True, self.all)
