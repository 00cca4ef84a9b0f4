"""`numpy-of-device`: numpy, matplotlib and the like get a copy on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.host_reads import found
from devfix.codemod import Codemod, Example
from devfix.findings import Finding
from devfix.flow import Flow


@dataclass(frozen=True)
class NumpyOfDevice(Codemod):
    """Copy a tensor to the CPU before numpy reads it.

    ## What it does
    Inserts `.cpu()` where a tensor that was moved to a device, or is the output of a module that was, is
    used in `x.numpy()`, `np.f(x)` for functions that certainly convert it to an array, `plt.plot(x)`,
    `sklearn.metrics.f(x)`, `TSNE().fit_transform(x)`, `torchaudio.save(path, x, rate)` and the like, and in
    `torch.BoolTensor(x)` and the other old constructors, which take tensors on the CPU only. A list of such
    tensors, filled by `append` or written in place, is copied element by element.

    ## Why is this bad?
    numpy accepts only tensors on the CPU: "can't convert cuda:0 device type tensor to numpy. Use
    Tensor.cpu() to copy the tensor to host memory first"
    (https://pytorch.org/docs/stable/generated/torch.Tensor.numpy.html).

    ## Fix safety
    Safe where the tensor is certainly on the device: on the CPU `.cpu()` returns the tensor itself, so
    the array still shares its memory. Unsafe in old constructors, whose result stays on the CPU; where
    another function moved it to a device that it was given, which may be the CPU; where a method of a
    model, or a function out of sight, computed it from tensors on a device (told whatever its name is where
    `.detach()` takes the result out of its graph, as only a network's needs to be); for what a layer computes or
    is given in `forward`, and what the module itself makes there; and for what a module, or a function
    that names devices, computes from a parameter.

    It leaves alone functions of numpy that pass the work on to the tensor or only index it
    (`take_along_axis`): they return a tensor, or fail on the CPU too. It also leaves alone a tensor that is
    moved on some paths only (`if args.cuda:`) and, for functions other than `x.numpy()`, the output of a
    model out of sight, which may be an array or a list of images. A tensor that requires grad also needs
    `.detach()`, on the CPU too; the fix does not add that.
    """

    id = "numpy-of-device"
    words = (
        (
            "numpy",
            "matplotlib",
            "sklearn",
            "scipy",
            "torchaudio.save",
            "soundfile",
            "pandas",
            "imageio",
            "write_",
            "Tensor(",
        ),
        ("torch",),
        (".to(", ".cuda(", "device", ".cpu()", "def forward("),
    )
    examples = (
        Example.changed(
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
            ("scores.argmax(dim=1).numpy().tolist())", "scores.argmax(dim=1).cpu().numpy().tolist())"),
            raises="to numpy",
        ),
        Example.changed(
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
            ("print(round(float(np.mean(losses))", "print(round(float(np.mean([t.cpu() for t in losses]))"),
            raises="to numpy",
        ),
        Example(
            "Trap: a tensor that is already on the CPU, and a call that makes no array",
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
        for finding, _ in found(flow.facts(), {self.id}):
            yield finding
