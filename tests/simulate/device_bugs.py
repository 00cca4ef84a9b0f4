"""Thirty device bugs, each with its repair, and what CUDA says to the bug.

In a program a line `#BUG: ...` belongs to the bug only, a line `#OK: ...` to the repair only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = "import torch, torch.nn as nn, torch.nn.functional as F\ntorch.manual_seed(0)\n"
_TWIN_LINE = re.compile(r"(?m)^([ \t]*)#(BUG|OK): ?(.*)\n")


@dataclass(frozen=True)
class DeviceBug:
    """`messages` are those of the torch versions that this runs on: new wording, old wording."""

    name: str
    code: str
    error: str
    messages: tuple[str, ...]
    devices: int = 1

    @property
    def bug(self) -> str:
        return self._twin("BUG")

    @property
    def repaired(self) -> str:
        return self._twin("OK")

    def _twin(self, kind: str) -> str:
        return HEAD + _TWIN_LINE.sub(lambda m: f"{m[1]}{m[3]}\n" if m[2] == kind else "", self.code)


def wrapper(argument: str, device: str, common: str, method: str) -> tuple[str, ...]:
    """The generated check of RegisterCUDA.cpp (c10, adaption.cpp)."""
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from "
        f"other tensors on {common} (when checking argument in method wrapper_CUDA_{method})",
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{common} and {device}! "
        f"(when checking argument for argument {argument} in method wrapper_CUDA_{method})",
    )


# TensorIterator.cpp, compute_types
ITERATOR = ("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",)

BUGS = (
    DeviceBug(
        "01-surgery-after-to",
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert device.type == "cuda"
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
#OK: model[2] = nn.Linear(8, 2)
model.to(device)
#BUG: model[2] = nn.Linear(8, 2)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(2):
    x, y = torch.randn(5, 8, device=device), torch.randint(0, 2, (5,), device=device)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
print("loss", round(loss.item(), 4))
""",
        "RuntimeError",
        wrapper("mat1", "cuda:0", "cpu", "addmm"),
    ),
    DeviceBug(
        "02-autocast-device-index",
        """
device = torch.device("cuda:0")
model = nn.Linear(8, 4).to(device)
x = torch.randn(5, 8, device=device)
#BUG: with torch.autocast(device_type=str(device), dtype=torch.float16):
#OK: with torch.autocast(device_type=device.type, dtype=torch.float16):
    y = model(x)
assert y.dtype == torch.float16, y.dtype
""",
        "RuntimeError",
        ("User specified an unsupported autocast device_type 'cuda:0'",),
    ),
    DeviceBug(
        "03-inputs-not-moved",
        """
from torch.utils.data import DataLoader, TensorDataset
device = "cuda"
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
dl = DataLoader(TensorDataset(torch.randn(20, 8), torch.randint(0, 3, (20,))), batch_size=5, shuffle=True)
for x, y in dl:
    #BUG: pass
    #OK: x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
        "RuntimeError",
        wrapper("mat1", "cpu", "cuda:0", "addmm"),
    ),
    DeviceBug(
        "04-arange-in-forward",
        """
class Emb(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(11, 8), nn.Embedding(6, 8)
    def forward(self, idx):
        T = idx.shape[1]
        #BUG: return self.tok(idx) + self.pos(torch.arange(T))
        #OK: return self.tok(idx) + self.pos(torch.arange(T, device=idx.device))
m = Emb().cuda()
out = m(torch.randint(0, 11, (2, 6)).cuda())
out.sum().backward()
assert m.pos.weight.grad.device == torch.device("cuda", 0)
""",
        "RuntimeError",
        wrapper("index", "cpu", "cuda:0", "_index_select"),
    ),
    DeviceBug(
        "05-attr-not-buffer",
        """
class Attn(nn.Module):
    def __init__(self, T=4):
        super().__init__()
        m = torch.triu(torch.ones(T, T), diagonal=1).bool()
        #BUG: self.mask = m
        #OK: self.register_buffer("mask", m)
        self.q = nn.Linear(8, 8)
    def forward(self, x):
        q = self.q(x)
        s = q @ q.transpose(1, 2)
        s = s.masked_fill(self.mask, float("-inf"))
        return s.softmax(-1) @ x
m = Attn().to("cuda")
print(m(torch.randn(2, 4, 8, device="cuda")).shape)
""",
        "RuntimeError",
        ("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",),
    ),
    DeviceBug(
        "06-list-not-modulelist",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(8, 8) for _ in range(3)]
        #BUG: self.layers = layers
        #OK: self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        for l in self.layers:
            x = l(x).relu()
        return self.head(x)
net = Net().cuda()
net(torch.randn(3, 8).cuda()).sum().backward()
""",
        "RuntimeError",
        wrapper("mat1", "cuda:0", "cpu", "addmm"),
    ),
    DeviceBug(
        "07-assert-device-eq",
        """
device = torch.device("cuda")
model = nn.Linear(4, 4).to(device)
p = next(model.parameters())
#BUG: assert p.device == device, f"{p.device} != {device}"
#OK: assert p.device.type == device.type
assert str(p.device) == "cuda:0" and p.is_cuda
""",
        "AssertionError",
        ("cuda:0 != cuda",),
    ),
    DeviceBug(
        "08-load-no-map-location",
        """
path = "SAVED_ON_CUDA_1"
#BUG: sd = torch.load(path)
#OK: sd = torch.load(path, map_location="cuda:0")
m = nn.Linear(3, 2).cuda()
m.load_state_dict(sd)
print(m(torch.ones(1, 3, device="cuda")).shape)
""",
        "RuntimeError",
        (
            "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is "
            "1. Please use torch.load with map_location to map your storages to an existing "
            "device.",
        ),
    ),
    DeviceBug(
        "09-two-gpus",
        """
class Pipe(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4).to("cuda:0")
        self.b = nn.Linear(4, 4).to("cuda:1")
    def forward(self, x):
        x = self.a(x.to("cuda:0")).relu()
        #BUG: return self.b(x)
        #OK: return self.b(x.to("cuda:1"))
m = Pipe()
y = m(torch.randn(2, 4))
y.sum().backward()
assert m.a.weight.grad.device.index == 0 and m.b.weight.grad.device.index == 1
""",
        "RuntimeError",
        wrapper("mat1", "cuda:0", "cuda:1", "addmm"),
        devices=2,
    ),
    DeviceBug(
        "10-numpy-of-cuda",
        """
import numpy as np
m = nn.Linear(4, 2).cuda().eval()
with torch.no_grad():
    out = m(torch.randn(3, 4).cuda())
#BUG: pred = out.argmax(-1).numpy()
#OK: pred = out.argmax(-1).cpu().numpy()
assert pred.shape == (3,)
""",
        "TypeError",
        (
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first.",
        ),
    ),
    DeviceBug(
        "11-default-device-shuffle",
        """
from torch.utils.data import DataLoader, TensorDataset
torch.set_default_device("cuda")
ds = TensorDataset(torch.randn(8, 3), torch.arange(8))
#BUG: dl = DataLoader(ds, batch_size=4, shuffle=True)
#OK: dl = DataLoader(ds, batch_size=4, shuffle=True, generator=torch.Generator(device="cuda"))
seen = 0
for x, y in dl:
    assert x.is_cuda
    seen += len(y)
assert seen == 8
""",
        "RuntimeError",
        ("Expected a 'cuda' device type for generator but found 'cpu'",),
    ),
    DeviceBug(
        "12-index-devices",
        """
emb = torch.randn(10, 4, device="cuda")
labels = torch.tensor([1, 2, 3])
assert emb[labels].is_cuda          # CPU index into a cuda tensor is allowed
#BUG: onehot = torch.eye(10)[labels.cuda()]
#OK: onehot = torch.eye(10)[labels.cuda().cpu()]
assert onehot.shape == (3, 10)
""",
        "RuntimeError",
        ("indices should be either on cpu or on the same device as the indexed tensor (cpu)",),
    ),
    DeviceBug(
        "13-zero-dim-cpu-scalar",
        """
x = torch.ones(3, device="cuda")
y = x * torch.tensor(2.0) + torch.tensor(1.0)      # 0-dim CPU scalars mix freely
assert y.tolist() == [3.0, 3.0, 3.0] and y.is_cuda
#BUG: z = x * torch.tensor([2.0])
#OK: z = x * torch.tensor([2.0], device=x.device)
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "14-loss-weights-cpu",
        """
w = torch.tensor([0.2, 0.8])
#BUG: crit = nn.CrossEntropyLoss(weight=w)
#OK: crit = nn.CrossEntropyLoss(weight=w).to("cuda")
logits = torch.randn(4, 2, device="cuda", requires_grad=True)
loss = crit(logits, torch.tensor([0, 1, 1, 0], device="cuda"))
loss.backward()
assert logits.grad.is_cuda
""",
        "RuntimeError",
        wrapper("weight", "cpu", "cuda:0", "nll_loss_forward"),
    ),
    DeviceBug(
        "15-optimizer-state-cpu",
        """
model = nn.Linear(4, 2)
opt = torch.optim.Adam(model.parameters())
model(torch.randn(3, 4)).sum().backward(); opt.step(); opt.zero_grad()
state = opt.state_dict()
#BUG: model.to("cuda")
#OK: model.to("cuda"); opt = torch.optim.Adam(model.parameters()); opt.load_state_dict(state)
model(torch.randn(3, 4, device="cuda")).sum().backward()
opt.step()
print(round(model.weight.sum().item(), 4))
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "16-rnn-hidden-cpu",
        """
class R(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 5, batch_first=True)
    def forward(self, x):
        #BUG: h = torch.zeros(1, x.size(0), 5)
        #OK: h = torch.zeros(1, x.size(0), 5, device=x.device)
        return self.rnn(x, (h, h.clone()))[0]
m = R().cuda()
m(torch.randn(2, 7, 3, device="cuda")).sum().backward()
""",
        "RuntimeError",
        (
            "Input and hidden tensors are not at the same device, found input tensor at cuda:0 "
            "and hidden tensor at cpu",
        ),
    ),
    DeviceBug(
        "17-cat-mixed",
        """
preds = [torch.zeros(0, 2)]
#OK: preds = []
for _ in range(2):
    preds.append(torch.randn(3, 2, device="cuda"))
#BUG: allp = torch.cat([torch.ones(1, 2)] + preds[1:])
#OK: allp = torch.cat(preds)
assert allp.is_cuda
""",
        "RuntimeError",
        wrapper("tensors", "cuda:0", "cpu", "cat"),
    ),
    DeviceBug(
        "18-pin-cuda-dataset",
        """
from torch.utils.data import DataLoader, TensorDataset
#BUG: ds = TensorDataset(torch.randn(8, 3, device="cuda"))
#OK: ds = TensorDataset(torch.randn(8, 3))
for (x,) in DataLoader(ds, batch_size=4, pin_memory=True):
    #OK: assert x.is_pinned()
    x = x.to("cuda", non_blocking=True)
""",
        "RuntimeError",
        ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",),
    ),
    DeviceBug(
        "19-cuda-in-worker",
        """
from torch.utils.data import DataLoader, Dataset
class D(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        #BUG: return torch.full((3,), float(i)).to("cuda")
        #OK: return torch.full((3,), float(i))
torch.zeros(1, device="cuda")
if __name__ == "__main__":
    for x in DataLoader(D(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
        x = x.to("cuda")
""",
        "RuntimeError",
        (
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
            "you must use the 'spawn' start method",
        ),
    ),
    DeviceBug(
        "20-noise-cpu",
        """
x = torch.rand(2, 3, 8, 8, device="cuda")
#BUG: noisy = x + 0.1 * torch.randn(x.shape)
#OK: noisy = x + 0.1 * torch.randn_like(x)
assert noisy.device == x.device
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "21-ema-on-cpu",
        """
import copy
model = nn.Linear(4, 2)
ema = copy.deepcopy(model)
model.cuda()
#OK: ema.cuda()
with torch.no_grad():
    for e, p in zip(ema.parameters(), model.parameters()):
        #BUG: e.mul_(0.9).add_(p, alpha=0.1)
        #OK: e.mul_(0.9).add_(p, alpha=0.1)
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "22-where-mixed",
        """
x = torch.randn(4, 4, device="cuda")
#BUG: y = torch.where(x > 0, x, torch.zeros(4, 4))
#OK: y = torch.where(x > 0, x, torch.zeros(()))
assert (y >= 0).all()
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "23-conv-cpu-input",
        """
layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
m = nn.Sequential(*layers, nn.Linear(8, 2)).cuda()
x = torch.randn(16, 3, 32, 32)
#OK: x = x.cuda()
m(x).sum().backward()
""",
        "RuntimeError",
        (
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be "
            "the same or input should be a MKLDNN tensor and weight is a dense tensor",
        ),
    ),
    DeviceBug(
        "24-conv-cpu-weight",
        """
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = {"a": nn.Conv2d(3, 4, 3)}
        #OK: self.convs = nn.ModuleDict(self.convs)
    def forward(self, x):
        return self.convs["a"](x)
N().to("cuda")(torch.randn(2, 3, 16, 16, device="cuda"))
""",
        "RuntimeError",
        ("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",),
    ),
    DeviceBug(
        "25-dataparallel-cpu-module",
        """
m = nn.Linear(4, 2)
#OK: m = m.cuda()
dp = nn.DataParallel(m, device_ids=[0, 1])
y = dp(torch.randn(6, 4).cuda())
y.sum().backward()
assert m.weight.grad.device.index == 0
""",
        "RuntimeError",
        (
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but "
            "found one of them on device: cpu",
        ),
        devices=2,
    ),
    DeviceBug(
        "26-to-result-dropped",
        """
m = nn.Linear(4, 2).cuda()
x = torch.randn(3, 4)
#BUG: x.to("cuda")
#OK: x = x.to("cuda")
m(x)
""",
        "RuntimeError",
        wrapper("mat1", "cpu", "cuda:0", "addmm"),
    ),
    DeviceBug(
        "27-index-put-value",
        """
buf = torch.zeros(10, 3)
buf[2:4] = torch.ones(2, 3, device="cuda")          # slice assignment copies across devices: allowed
vals = torch.ones(2, 3, device="cuda")
#BUG: buf[torch.tensor([0, 1])] = vals
#OK: buf[torch.tensor([0, 1])] = vals.cpu()
assert buf[3].sum() == 3
""",
        "RuntimeError",
        ITERATOR,
    ),
    DeviceBug(
        "28-np-mean-of-losses",
        """
import numpy as np
losses = []
m = nn.Linear(4, 1).cuda()
for _ in range(3):
    l = m(torch.randn(2, 4, device="cuda")).square().mean()
    #BUG: losses.append(l.detach())
    #OK: losses.append(l.item())
print(np.mean(losses) > 0, bool(l < 100))
if l > 1e9:
    raise SystemExit("diverged")
""",
        "TypeError",
        (
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first.",
        ),
    ),
    DeviceBug(
        "29-generator-cpu-for-cuda",
        """
g = torch.Generator()
#OK: g = torch.Generator(device="cuda")
g.manual_seed(1)
x = torch.randn(3, device="cuda", generator=g)
""",
        "RuntimeError",
        ("Expected a 'cuda' device type for generator but found 'cpu'",),
    ),
    DeviceBug(
        "30-grad-set-cpu",
        """
w = nn.Parameter(torch.ones(3, device="cuda"))
g = torch.ones(3)
#OK: g = g.to(w.device)
w.grad = g
torch.optim.SGD([w], lr=0.1).step()
assert abs(w.sum().item() - 2.7) < 1e-5
""",
        "RuntimeError",
        (
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type "
            "'cuda'. Please ensure that the gradient and the tensor are on the same device",
        ),
    ),
)
