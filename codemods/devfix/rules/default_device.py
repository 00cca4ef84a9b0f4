"""`default-device`: code that relies on a default device uses the program's device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers import default_devices, default_random
from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Safety
from devfix.flow import Flow
from devfix.models import torch_api
from devfix.models.loader import models

_LIBRARIES = tuple(sorted({name.partition(".")[0] for name in models().takers}))


_GENERATOR = """\
import torch

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
generator = torch.Generator({0})
generator.manual_seed(0)
noise = torch.randn(3, 4, generator=generator)
print(noise.shape[0])
"""
_LOADER = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
rows = TensorDataset(torch.arange(6.0))
total = 0.0
for (x,) in DataLoader(rows, batch_size=2, shuffle=True{0}):
    total += x.sum().item()
print(total)
"""

_EXAMPLES = (
    Example(
        "A generator goes with the default device",
        _GENERATOR.format(""),
        _GENERATOR.format("device=torch.get_default_device()"),
        raises="device type for generator",
    ),
    Example(
        "Shuffling on the default device",
        _LOADER.format(""),
        _LOADER.format(", generator=torch.Generator(device=torch.get_default_device())"),
        raises="device type for generator",
        safety=Safety.UNSAFE,
    ),
    Example(
        "Trap: the CPU is the default, and a generator that is told",
        """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cpu")
generator = torch.Generator().manual_seed(0)
rows = TensorDataset(torch.arange(6.0))
print(sum(x.sum().item() for (x,) in DataLoader(rows, shuffle=True, generator=generator)))
""",
    ),
)


@dataclass(frozen=True)
class DefaultDevice(Codemod):
    """Make code that relies on a default device use the program's device.

    ## What it does
    Where `torch.set_default_device` or `torch.set_default_tensor_type` makes an accelerator the default,
    it finds code that still assumes the CPU: a `torch.Generator()` whose numbers are drawn on the default
    device; `DataLoader(.., shuffle=True)`, `RandomSampler` and `random_split` without a generator; and
    `.numpy()` on a tensor that a factory has just made.

    Where the program names its device, it finds constructors of other libraries that are called without
    `device=` and default to another device: the CPU (`open_clip.create_model_and_transforms`), CUDA
    whether or not there is any (`sam2.build_sam.build_sam2`), or a device that the library chooses
    (`SentenceTransformer`) where the program chooses its own by number or option.
    `models/libraries.model` has them (`takes`). Code that moves the result itself is left alone.

    ## Why is this bad?
    A generator does not follow the default device, so shuffling raises "Expected a 'cuda' device type
    for generator but found 'cpu'"
    (https://pytorch.org/docs/stable/generated/torch.set_default_device.html). A constructor that is not
    given a device picks its own, and the first operation with the program's tensors raises.

    ## Fix safety
    Safe for `torch.Generator()` and `.numpy()`: where the default is the CPU, they do what they did.
    Unsafe for a generator where there was none, since the order of the data changes, and for devices
    that are passed to other libraries.
    """

    id = "default-device"
    words = (
        (*torch_api.DEFAULT_DEVICE_CALLS, *_LIBRARIES),
        ("torch", "llama_index", "sentence_transformers", "InstructorEmbedding"),
    )
    examples = _EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        if any(call in flow.source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
            yield from default_random.findings(flow)
        if any(what.partition(".")[0] in _LIBRARIES for what in flow.source.imports.values()):
            yield from default_devices.left_out(flow)
