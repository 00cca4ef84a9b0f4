"""What the contracts of torch tell: of forward, autograd functions, wrappers, loaders, packed sequences, numpy.

As in `test_found_and_silent.py`, `<` marks the lines that findings have to be on.
"""

from __future__ import annotations

import pytest
from programs import marked, spoken

HEAD = """\
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


FOUND = {
    "it comes back from the CPU to an accelerator by name": """
        def argsorted(rows: torch.Tensor):
            host = rows.cpu()
            order = torch.from_numpy(host.numpy().argsort())
            return host[order].cuda()  # <
    """,
    "a placeholder that a round leaves in the list": """
        def kept(scores: torch.Tensor, limit: float):
            rows = [torch.zeros(0, 6)] * scores.shape[0]  # <
            for i, row in enumerate(scores):
                row = row[row[:, 4] > limit]
                if not row.shape[0]:
                    continue
                rows[i] = row
            return rows
    """,
    "a placeholder that is replaced under a condition": """
        def kept(scores: torch.Tensor, limit: float):
            rows = [torch.zeros(0, 6) for _ in scores]  # <
            for i in range(len(rows)):
                found = scores[i][scores[i][:, 4] > limit]
                if len(found):
                    rows[i] = found
            return rows
    """,
    "an index for what a function that is passed gives": """
        def pick(out: torch.Tensor, target):
            return torch.gather(out, 1, torch.tensor(target).reshape(len(out), 1))  # <
        def run(function, inputs, target):
            out = function(*inputs)
            return pick(out, target)
    """,
    "a buffer beside what a base class out of sight gives": """
        from made import Made
        class Masked(Made):
            def __init__(self, n):
                super().__init__(n)
                self.mask = torch.zeros(n, 3)  # <
            def forward(self, x: torch.Tensor):
                out = super().forward(x)
                return out.masked_fill(self.mask.bool(), 0.0)
    """,
    "what a model keeps is read by numpy": """
        class Explainer:
            def heads(self):
                return self.model._weights.detach().numpy()  # <
    """,
    "a part of a batch is plotted, another is copied": """
        import matplotlib.pyplot as plt
        def validate(batch: dict[str, torch.Tensor]):
            X, y = batch["X"], batch["y"]
            fig, ax = plt.subplots()
            y = y.detach().cpu().numpy()
            row = torch.mean(X[0], dim=0)
            ax.plot(row)  # <
    """,
    "a part is moved in forward": """
        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.last = nn.Linear(4, 4)
            def forward(self, z):
                self.last.to("cuda")  # <
                return self.last(z)
    """,
    "a placeholder of a function with its own gradient": """
        class Round(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, shape):
                return torch.empty(shape)  # <
    """,
    "a result that is replaced": """
        class Bounded(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, a, b):
                loss = self.inner(a, b)
                if loss.item() > 1.0:
                    loss = torch.tensor([1.0])  # <
                return loss
    """,
    "a mask that a caller may leave out": """
        class Masked(nn.Module):
            def forward(self, x: torch.Tensor, mask=None):
                if mask is None:
                    mask = torch.ones(x.size(0), 1)  # <
                return self.weigh(x, mask)
            def weigh(self, x, mask):
                return x * mask
    """,
    "what a function out of sight makes of tensors": """
        from elsewhere import blend
        class Blend(nn.Module):
            def forward(self, a: torch.Tensor):
                mixed = blend(a)
                return mixed.unsqueeze(0) + torch.ones(3)  # <
    """,
    "a state that forward replaces": """
        class Cell(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.lin = nn.Linear(n, n)
                self.held = torch.zeros(1, n)  # <
            def forward(self, x):
                self.held = torch.tanh(self.lin(x) + self.held)
                return self.held
    """,
    "layers that are moved by name where they are made": """
        class Block(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.norm = nn.LayerNorm(n).half().to("cuda:0")  # <
            def forward(self, h):
                return self.norm(h)
    """,
    "numpy of what is computed": """
        class Counter(nn.Module):
            def forward(self, mask: torch.Tensor):
                return mask.sum(dim=1).numpy()  # <
    """,
    "lengths out of a batch": """
        class Packed(nn.Module):
            def forward(self, batch: dict[str, torch.Tensor]):
                return pack_padded_sequence(batch["x"], batch["n"])  # <
    """,
    "plotted": """
        import matplotlib.pyplot as plt
        def draw(net):
            fig, ax = plt.subplots()
            line = torch.arange(3, device=device)
            ax.plot(line)  # <
    """,
    "a size is a number": """
        class Base(nn.Module):
            def setup(self, n):
                self.freqs = torch.exp(torch.arange(n) / n)  # <
        class Times(Base):
            def __init__(self, n):
                super().__init__()
                self.setup(n)
            def forward(self, t: torch.Tensor):
                return torch.outer(t, self.freqs)
    """,
    "a table that goes through the constructors of parts": """
        class Attention(nn.Module):
            def __init__(self, table):
                super().__init__()
                self.proj = nn.Linear(4, 4)
                self.table = table  # <
            def forward(self, x):
                return self.proj(x) + self.table
        class Model(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.head = nn.Linear(4, 4)
                table = torch.ones(n, 4, device=self.head.weight.device)
                self.parts = nn.ModuleDict(dict(body=nn.ModuleList([Attention(table) for _ in range(n)])))
            def forward(self, x):
                for part in self.parts.body:
                    x = part(x)
                return self.head(x)
    """,
    "a loop in a loop, in the second round": """
        from config import device
        def act(state, net):
            return net(state).argmax()
        def main(env):
            net = nn.Linear(4, 2)
            net.to(device)
            for _ in range(9):
                state, done = torch.Tensor(env.reset()).to(device), False
                state = state.unsqueeze(0)
                while not done:
                    following, done = env.step(act(state, net))
                    following = torch.Tensor(following)  # <
                    following = following.unsqueeze(0)
                    state = following
    """,
    "an argument that is a list at times": """
        class Focal(nn.Module):
            def __init__(self, alpha):
                super().__init__()
                if isinstance(alpha, (list, tuple)):
                    alpha = torch.Tensor(alpha)
                self.alpha = alpha  # <
            def forward(self, x, y):
                return x * self.alpha.gather(0, y)
    """,
}

SILENT = {
    "there and back": """
        def argsorted(rows: torch.Tensor):
            host = rows.cpu()
            return host.sort()[0].to(rows.device)
    """,
    "a helper that moves what it is given": """
        def on_gpu(x: torch.Tensor):
            return x.cuda()
    """,
    "a conversion in place": """
        def loaded(path):
            batch = torch.load(path)
            for key in batch:
                if torch.is_tensor(batch[key]):
                    batch[key] = batch[key].to(device)
            return batch
    """,
    "a wrapper scatters": """
        def run(data):
            net = nn.DataParallel(nn.Linear(2, 2).to(device))
            for x, _ in DataLoader(data):
                print(net(x))
    """,
    "a data set of tensors that were moved": """
        def run(x):
            net = nn.Linear(2, 2).to(device)
            for (row,) in DataLoader(TensorDataset(x.to(device))):
                print(net(row))
    """,
    "the arm without an accelerator": """
        def weigh(x: torch.Tensor, w: torch.Tensor):
            if w.device.type == "cpu":
                return torch.ones(3) * w
            return x
    """,
    "moved below, so it was on the CPU": """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor, device):
                y = x + torch.ones(3)
                x = x.to(device)
                return x, y
    """,
    "an old type is on the CPU": """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.zeros(3) + x.type(torch.FloatTensor)
    """,
    "an index without dimensions": """
        class Net(nn.Module):
            def forward(self, top: torch.Tensor):
                table = torch.arange(4)
                return [table[i] for i in top]
    """,
    "the lengths of what was packed are on the CPU": """
        class Net(nn.Module):
            def forward(self, x):
                x, n = pad_packed_sequence(x)
                return pack_padded_sequence(x, n)
    """,
    "numpy copies by force": """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                return (x + 1).numpy(force=True)
    """,
    "placeholders of a list": """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                rows = [torch.zeros(4) for _ in range(3)]
                for t in range(3):
                    rows[t] = x[t]
                return rows
    """,
    "placeholders of a loop around another that goes on": """
        class Net(nn.Module):
            def forward(self, x: torch.Tensor):
                rows = [torch.zeros(4) for _ in range(3)]
                for t in range(3):
                    for one in range(2):
                        if one:
                            continue
                    rows[t] = x[t]
                return rows
    """,
    "moved by the module itself": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe = torch.ones(4)
            def forward(self, x: torch.Tensor):
                return x + self.pe
            def _apply(self, fn):
                self.pe = fn(self.pe)
                return super()._apply(fn)
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(FOUND[name])
    assert spoken(HEAD, code) == wanted


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    code, _ = marked(SILENT[name])
    assert spoken(HEAD, code) == set()
