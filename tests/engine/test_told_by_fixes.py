"""Bugs of the kinds that people have fixed in public repositories, and programs like them that are right.

The programs are made up. Unlike `test_everyday`, every codemod is asked.
"""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from devfix.checkers.signs import repeats
from devfix.findings import AppendCall
from devfix.text.source import Source
from programs import marked

HEAD = """\
import pickle
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, random_split
from elsewhere import Net, knn
"""
FOUND = {
    "what is computed from parameters without gradients": """
        import numpy as np
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(2, 2).to(device)
        def norms():
            with torch.no_grad():
                total = np.sqrt(sum([torch.norm(p) ** 2 for p in model.parameters()]))  # <
            return total, [p.detach().numpy() for p in model.parameters()]  # <
    """,
    "an old constructor, which takes tensors of the CPU only": """
        def padding(x: torch.Tensor, device: torch.device):
            x = x.to(device)
            mask = torch.BoolTensor(x == 0)  # <
            return torch.Tensor(x)[mask], torch.FloatTensor(data=x)
    """,
    "a limit without dimensions, which clamp refuses": """
        def clip(x: torch.Tensor, device: torch.device):
            limit = torch.rand(1)[0] * 2  # <
            return x.to(device).clamp(-limit, limit)
    """,
    "a target without dimensions, for losses that refuse it": """
        def score(model: nn.Module, x: torch.Tensor, device):
            model = model.to(device)
            out = model(x.to(device)).mean()
            first = F.mse_loss(out, torch.tensor(0.5))  # <
            second = nn.SmoothL1Loss()(out, torch.tensor(0.5))  # <
            return first + second
    """,
    "a module that no program in view runs": """
        class Filter(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.fc = nn.Linear(n, n)
            def forward(self, x):
                return self.fc(x) + torch.zeros(4)  # <
        if __name__ == "__main__":
            print("a library")
    """,
    "a helper's result beside another one": """
        def full(n):
            return torch.arange(n).repeat(2, 1)
        def edges(points: torch.Tensor, kind):
            if kind == "full":
                found = full(points.shape[0])
            else:
                found = torch.cdist(points, points).argsort(1)
            return found  # <
    """,
    "a loss for an empty batch": """
        def loss(x, targets):
            known = targets >= 0
            if not known.any():
                return torch.zeros(size=(1,))  # <
            return F.cross_entropy(x[known], targets[known])
    """,
    "two arms that fill a list": """
        def run(device, many):
            net, outs = nn.Linear(3, 3).to(device), []
            for i in range(many):
                if i % 2:
                    outs.append(torch.zeros(3))  # <
                else:
                    outs.append(net(torch.ones(3, device=device)))
            return torch.cat(outs)
    """,
    "a parameter that is moved": """
        class Scale(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.by = nn.Parameter(torch.rand(2)).to(device)  # <
    """,
    "a leaf that is moved": """
        def fit(device):
            w = torch.randn(3, requires_grad=True).to(device)  # <
            torch.optim.SGD([w], lr=0.1)
    """,
    "a generator for loaders": """
        def load(data, device):
            generator = torch.Generator(device=device)  # <
            first, second = random_split(data, [8, 2], generator=generator)
            return DataLoader(first, shuffle=True, generator=generator), second
    """,
    "what a module out of sight keeps": """
        def show(device):
            model = Net(3).to(device)
            print((model.weights * model.mask).detach().numpy())  # <
            return model.head.weight.data.numpy()  # <
    """,
    "draws of a distribution of numbers": """
        class Posterior:
            def __init__(self, mean: torch.Tensor, scale: torch.Tensor):
                self.mean, self.scale = mean, scale
                self.normal = torch.distributions.Normal(0, 1)
            def sample(self):
                return self.mean + self.scale * self.normal.sample(self.scale.size())  # <
    """,
    "a network that is saved from the CPU": """
        class Trainer:
            def __init__(self, device):
                self.device = device
                self.net = nn.Linear(3, 3).to(device)
            def save(self, path):
                pickle.dump(self.net.cpu(), path)  # <
            def train(self, data):
                for x in data:
                    self.net(x.to(self.device))
                    self.save("x")
    """,
    "the second GPU, in a script that asks for nothing else": """
        import argparse
        device = "cuda:1"  # <
        net = Net().to(device)
    """,
    "a GPU by its number": """
        import argparse
        net = Net(device=torch.device(0))  # <
    """,
    "MPS, in a script that asks for nothing else": """
        import argparse
        net = Net(device=torch.device("mps"))  # <
    """,
    "a result of an object that makes others on its device": """
        class Process:
            def __init__(self, device=None):
                self.device = device or torch.device("cpu")
            def mean(self, n):
                return torch.zeros(n, device=self.device)
            def covariance(self, n):
                out = torch.empty(size=(n, n))  # <
                out[:] = 0.0
                return out
    """,
    "what is given beside what is moved where there is CUDA": """
        class Predictor:
            def __init__(self, model):
                self.model = model
            def predict(self, tokens):
                x = torch.LongTensor([one.id for one in tokens])
                if torch.cuda.is_available():
                    x = x.cuda()
                first = torch.LongTensor([1]).view(1, -1)  # <
                return self.model(x, [len(tokens)], first)
    """,
    "rows of an identity matrix": """
        class Loss(nn.Module):
            def forward(self, x, target):
                wanted = torch.eye(x.size(1))[target.data.cpu().long()]  # <
                return F.binary_cross_entropy_with_logits(x, wanted)
    """,
}
SILENT = {
    "tensors without dimensions that torch reads as numbers": """
        def clip(x: torch.Tensor, y: torch.Tensor, device: torch.device, low):
            x, y = x.to(device), y.to(device)
            top, half = torch.tensor(2 ** 4 - 1), torch.tensor(0.5)
            x = torch.clamp(x, 0, top) + x.clamp(min=low, max=top) + torch.clip(x, 0.0, half)
            return F.huber_loss(x, y, delta=half) + torch.addcdiv(x, y, y, value=half).sum()
    """,
    "what is computed from parameters, which numpy refuses on the CPU, too": """
        import numpy as np
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(2, 2).to(device)
        def norms():
            total = np.sqrt(sum([torch.norm(p) ** 2 for p in model.parameters()]))
            each = [torch.norm(p) for p in model.parameters()]
            return total, np.array(each), model.weight.numpy(), [p.numpy() for p in model.parameters()]
    """,
    "a value without dimensions that may stand in": """
        def floor(x: torch.Tensor, device: torch.device):
            low = torch.rand(1)[0]
            y = torch.maximum(x.to(device), low) * low
            return F.l1_loss(y.mean(), torch.tensor(0.5)) + F.kl_div(y.mean(), torch.tensor(0.5))
    """,
    "a module that the program runs": """
        class Filter(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.fc = nn.Linear(n, n)
            def forward(self, x):
                return self.fc(x) + torch.zeros(4)
        def main():
            print(Filter(4)(torch.ones(4)))
        if __name__ == "__main__":
            main()
    """,
    "a parameter of what is moved, and one that is cast": """
        class Scale(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.by = nn.Parameter(torch.rand(2).to(device))
                self.half = nn.Parameter(torch.rand(2)).to(torch.float16)
    """,
    "a leaf of which a copy is used": """
        def grow(device):
            w = torch.randn(3, requires_grad=True)
            u = torch.randn(3, requires_grad=True).to(device)
            torch.optim.SGD([w], lr=0.1)
            return w.to(device) * u
    """,
    "a generator of the CPU for loaders": """
        def load(data, device):
            generator = torch.Generator()
            noise = torch.randn(3, generator=torch.Generator(device=device), device=device)
            return DataLoader(data, shuffle=True, generator=generator), noise
    """,
    "what a dict of a caller has": """
        def crop(batch):
            order = torch.randperm(batch["x"].shape[0])
            for key in ("x", "y"):
                batch[key] = torch.index_select(batch[key], 0, order)
            return batch
    """,
    "MPS where there is one": """
        import argparse
        device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")
        net = Net().to(device)
    """,
    "lengths beside what is moved where there is CUDA": """
        class Predictor:
            def __init__(self, model):
                self.model = model
            def predict(self, tokens):
                x = torch.LongTensor([one.id for one in tokens])
                if torch.cuda.is_available():
                    x = x.cuda()
                lengths = torch.LongTensor([len(tokens)])
                return self.model(x, lengths)
    """,
    "a result for the host of an object with a device": """
        class Sampler:
            def __init__(self, device):
                self.device = device
            def noise(self, n):
                return torch.randn(n, device=self.device)
            def order(self, n):
                return torch.randperm(n).tolist()
    """,
    "a network that is moved again once it is saved": """
        def train(data, device):
            net = nn.Linear(3, 3).to(device)
            for x in data:
                net(x.to(device))
                torch.save(net.cpu().state_dict(), "x")
                net.to(device)
    """,
}


def _told(code: str, folder: Path) -> set[int]:
    (folder / "main.py").write_text(HEAD + code)
    return {one.line - HEAD.count("\n") for one in devfix.check(folder, cache=False).findings}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    code, wanted = marked(FOUND[name])
    assert _told(code, tmp_path) == wanted


def test_a_parameter_that_goes_to_cuda_by_name_is_told_once(tmp_path: Path) -> None:
    code = """\
class Scale(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.size = torch.ones(2, device=device)
        self.by = nn.Parameter(torch.rand(2)).cuda()
"""
    (tmp_path / "main.py").write_text(HEAD + code)
    found = devfix.check(tmp_path, cache=False).findings
    assert [one.codemod for one in found if one.line == HEAD.count("\n") + 5] == ["hard-coded-cuda"]


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str, tmp_path: Path) -> None:
    code, _ = marked(SILENT[name])
    assert _told(code, tmp_path) == set()


def test_what_is_moved_where_it_is_used_is_shown_there(tmp_path: Path) -> None:
    code = """\
class Shift(nn.Module):
    def forward(self, x):
        return x + steps(3)


def steps(n):
    return torch.arange(n)
"""
    (tmp_path / "main.py").write_text(HEAD + code)
    above = HEAD.count("\n")
    (one,) = devfix.check(tmp_path, cache=False).findings
    assert (one.line - above, one.fix) == (3, "move it to `x.device`")
    assert one.message.startswith(f"`torch.arange(n)` (line {7 + above}) is on the CPU; ")


@pytest.mark.parametrize(
    ("suffix", "is_there"), [(".to(device)", True), (".to(other)", False), (".cpu()", False)]
)
def test_a_move_that_is_there_is_not_written_again(suffix: str, is_there: bool) -> None:
    source = Source("net(x.to(device))\n")
    moved = source.calls[0].args[0]
    assert repeats(AppendCall(source.span(moved), suffix), source) is is_there
