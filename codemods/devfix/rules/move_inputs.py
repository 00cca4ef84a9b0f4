"""`move-inputs`: batches and loaded data are moved to the device of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers import dropped, inputs
from devfix.codemod import Codemod, Example
from devfix.findings import Finding
from devfix.flow import Flow


@dataclass(frozen=True)
class MoveInputs(Codemod):
    """Move inputs to the device of the model they reach.

    ## What it does
    Finds data that is made or loaded on the CPU and reaches a module that was moved to a device: batches
    of loader loops (tuples, nested tuples, dicts, one forgotten element of several),
    `next(iter(loader))`, loaded arrays, images and audio, tokenizer output. A batch is moved in one
    statement at the top of the loop, a value that is used once where it is used. It also finds

    - `x.to(device)` whose result is dropped;
    - a method that runs its batch unmoved, where the method next to it moves its own;
    - what a `forward` brings back from numpy, and inputs of a copy of a model on another device;
    - what is left behind where its like is moved (one of a batch, one entry of a dict, one of two loops);
    - an index that was moved where only the elements it selects should be;
    - moves that cannot work: a name that nothing binds, an attribute that no class in view assigns,
      `.device` of a plain `torch.nn.Module`, `device=` for a function without such a keyword,
      `.cuda(gpu_id=0)`; and `.to(x.device.type)`, which loses the index.

    The device is the one that the module was moved to, where that name can be used; otherwise
    `next(model.parameters()).device`, or the `.device` of the tensor that the input is combined with.

    ## Why is this bad?
    `Tensor.to` returns a copy, and a DataLoader yields CPU tensors, so a model on an accelerator raises
    "Expected all tensors to be on the same device" at its first layer
    (https://pytorch.org/docs/stable/generated/torch.Tensor.to.html).

    ## Fix safety
    Safe where devfix sees the devices of both the module and the input: on the CPU the move does nothing.
    Where it also sees the module's code, that code has to combine the input with the module's tensors; an
    input that is only counted, or not used in this call, is left alone. Unsafe where only a name says that
    something is a loader or a model, where a batch may hold other things than tensors, or where the model
    is run out of sight. There is no finding in datasets, collate functions and workers, where a framework
    places batches (accelerate, Lightning, Trainer, DataParallel), or for a model that is never moved.

    ## Options
    - `non_blocking` (default false): write `.to(device, non_blocking=True)`, which overlaps the copy
      with computation when the loader has `pin_memory=True`.
    """

    non_blocking: bool = False

    id = "move-inputs"
    words = (
        (".to(", ".cuda(", "device", "_processor(", "return_tensors", "LightningModule", "Accelerator"),
        ("torch",),
    )
    examples = (
        Example.changed(
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
            ("in loader:\n", "in loader:\n    inputs, labels = inputs.to(device), labels.to(device)\n"),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
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
            ("inputs.to(device)\n", "inputs.to(device)\n        targets = targets.to(device)\n"),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
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
            ("pixels).argmax(dim=-1).", "pixels.to(next(self.model.parameters()).device)).argmax(dim=-1)."),
            raises="same device|Expected all tensors",
        ),
        Example.changed(
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
            ("x.to(device)", "x = x.to(device)"),
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
        yield from inputs.findings(flow.facts(), non_blocking=self.non_blocking)
        yield from dropped.findings(flow.facts())
