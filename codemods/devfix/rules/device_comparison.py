"""`device-comparison`: comparisons of devices that are never true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers import tensor_types
from devfix.checkers.comparisons import found
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow

_BRANCH = """\
import torch
from torch import nn


def decode(vae: nn.Module, latents: torch.Tensor):
    if {0}:
        vae.to(latents.device)
    return vae(latents)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(round(decode(nn.Linear(4, 2), torch.ones(1, 4).to(device)).sum().item(), 4))
"""
_PRECISION = """\
import torch
from torch import nn


def run(model: nn.Module, x: torch.Tensor):
    if x.device{0}:
        torch.cuda.synchronize()
    return model(x)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(round(run(nn.Linear(4, 2).to(device), torch.ones(1, 4).to(device)).sum().item(), 4))
"""
_ASSERT = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.ones(1, 4).to(device)
assert {0}
print(round(model(x).sum().item(), 4))
"""
_ELSEWHERE = """\
import torch


class Worker:
    def __init__(self, device="cpu"):
        self.device = device

    def describe(self):
        return 1 if self.device == "cpu" else 2


x = torch.ones(2)
y = torch.ones(2).to(x.device)
same = (x.device == y.device, x.device.type == "cpu", str(x.device) == "cpu", x.device.type in ("cpu", "mps"))
print(Worker().describe(), sum(same))
"""


@dataclass(frozen=True)
class DeviceComparison(Codemod):
    """Compare devices in a way that can be true.

    ## What it does
    Finds comparisons that give the same result whatever the device is, or that raise:

    - a torch.device with a string (`x.device == "cpu"`, `device in ("cuda", "mps")`);
    - a tensor's device with one that has no index (`x.device == torch.device("cuda")`,
      `str(x.device) == "cuda"`);
    - a device type with an index (`device.type == "cuda:0"`);
    - `"cuda" in device` and `device.startswith("cuda")` on a torch.device, and `is` between devices;
    - names that torch does not know (`"gpu"`, -1);
    - `isinstance(x, torch.LongTensor)` and `x.type() == "torch.LongTensor"`, which hold only on the CPU.

    They become comparisons of types, `x.device.type == "cpu"`, of devices where an index is named, or of dtypes.

    devfix follows the forms that a device may have through annotations (each arm of a union),
    docstrings, helpers, attributes, elements and calls. One form that fails is enough for a finding: a
    string method on what may be a torch.device, `.type` of what may be a string,
    `torch.device(name) == torch.device("cuda")`, a device looked up in a dict of device types,
    `int(device)`, a name that nothing binds.

    It leaves alone comparisons of strings with strings and types with types, `x.device == y.device`,
    devices that may be strings, and code that checks which of the two it has.

    ## Why is this bad?
    A torch.device never equals a string, and `torch.device("cuda")` does not equal the `cuda:0` that
    every tensor has (https://pytorch.org/docs/stable/tensor_attributes.html#torch.device). No error is
    raised: the branch is never taken, its move never happens, and the failure comes later.

    ## Fix safety
    Usually unsafe, since code that never ran starts to run: read the branch. Safe where the comparison
    raised, where it is an assertion that could only fail, and where the branch only moves tensors to a
    device, which changes nothing on the CPU (but not if it is the branch that moved them to the CPU all along).
    Where an annotation or a use suggests a torch.device but a string is possible, the fix writes
    `torch.device(d).type`, which accepts both.
    """

    id = "device-comparison"
    words = (
        ("device", '"cpu', "'cpu", '"cuda', "'cuda", "Tensor)", 'Tensor"', "Tensor'"),
        ("torch",),
        ("isinstance(", "==", "!=", " in ", " is ", "startswith", "[", ".get(", "match "),
    )
    examples = (
        Example(
            "A move that was never made: a torch.device never equals a string",
            _BRANCH.format('vae.weight.device == "cpu"'),
            _BRANCH.format('vae.weight.device.type == "cpu"'),
            raises="same device|Expected all tensors",
        ),
        Example(
            "A tensor's device has an index",
            _ASSERT.format("x.device == device"),
            _ASSERT.format("x.device.type == device.type"),
            raises="AssertionError",
        ),
        Example(
            "A branch that begins to run",
            _PRECISION.format(' == torch.device("cuda")'),
            _PRECISION.format('.type == "cuda"'),
            safety=Safety.UNSAFE,
        ),
        Example("Trap: strings with strings, devices with devices, types with types", _ELSEWHERE),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        for finding, _ in found(flow.facts(), {self.id}):
            yield finding
        yield from tensor_types.findings(flow.facts())
