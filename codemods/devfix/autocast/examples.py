"""The examples of normalize-device-type: programs that run as they stand, before and after."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

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

EXAMPLES = (
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
    ),
    Example(
        "torch.cuda.amp.autocast in a module for any device",
        _HARD.format("torch.cuda.amp.autocast(True, torch.bfloat16)"),
        _HARD.format("torch.autocast(x.device.type, enabled=True, dtype=torch.bfloat16)"),
        safety=Safety.UNSAFE,
    ),
    Example("a type is a type", _RIGHT),
    Example("CUDA only on purpose", _CUDA_ONLY),
)
