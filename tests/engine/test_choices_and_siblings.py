"""Devices that are chosen and lost, names that torch does not know, and what is left out of one of several likes.

As in `test_found_and_silent.py`, `<` marks the lines that findings have to be on.
"""

from __future__ import annotations

import pytest
from applying import fixed
from devfix.checkers.besides import CODEMODS, besides
from devfix.codemod import Codemod
from devfix.flow import analyse
from devfix.rules.hand_on_device import HandOnDevice
from devfix.rules.hard_coded_cuda import HardCodedCuda
from devfix.rules.move_inputs import MoveInputs
from devfix.rules.normalize_device_type import NormalizeDeviceType
from devfix.rules.numpy_of_device import NumpyOfDevice
from devfix.text.source import Source
from programs import marked

HEAD = """\
import numpy as np
import torch
from torch import nn
"""
CHOICES = {
    "a parameter is overwritten": """
        def score(texts, model, device=None):
            device = "cuda" if torch.cuda.is_available() else "cpu"  # <
            model.to(device)
    """,
    "a parameter is overwritten by an object": """
        def prepare(net, where):
            where = torch.device("cuda:0")  # <
            return net.to(where)
    """,
    "a choice is overwritten": """
        def main(args):
            target = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")

            target = "cpu"  # <
            return target
    """,
    "only where it is None": """
        def score(texts, model, device=None):
            if device is None:
                device = "cuda" if torch.cuda.is_available() else "cpu"
            model.to(device)
    """,
    "what was asked for is kept": """
        def score(model, device="cuda"):
            device = torch.device(device)
            model.to(device)
    """,
    "asked before": """
        def score(model, device=None):
            log(device)
            device = torch.device("cpu")
            model.to(device)
    """,
    "read in between": """
        def main(args, a, b):
            target = torch.device(args.device)
            a.to(target)
            target = "cpu"
            b.to(target)
    """,
    "two that name their device": """
        device = torch.device("cuda")
        device = torch.device("cpu")
    """,
    "a number in a name that torch does not know": """
        def place(net, gpu):
            net.device = torch.device("gpu:%d" % gpu)  # <
    """,
    "one arm is no device": """
        device = torch.device("GPU" if torch.cuda.is_available() else "cpu")  # <
    """,
    "made on no device": """
        x = torch.zeros(3, device="gpu")  # <
    """,
    "another package's devices": """
        import other
        x = other.zeros(3, device="gpu")
    """,
    "tensors of another package": """
        import paddle
        x = paddle.ones([3]).to("gpu")
    """,
    "it is never that": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if fast and device == "gpu":  # <
            device = "cpu"
    """,
    "a word of the program's own": """
        def main(device):
            if device == "gpu":
                device = "cuda"
            return torch.device(device)
    """,
    "a keyword that `cuda` does not have": """
        def prepare(net, gpu):
            return net.cuda(cuda_device=gpu)  # <
    """,
    "a `cuda` of the program's own": """
        class Net(nn.Module):
            def cuda(self, cuda_device):
                return super().cuda(cuda_device)
        net = Net().cuda(cuda_device=0)
    """,
    "the second GPU alone": """
        device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")  # <
    """,
    "the second GPU beside the first": """
        a, b = torch.device("cuda:0"), torch.device("cuda:1")
    """,
    "the second GPU where there are two": """
        assert torch.cuda.device_count() > 1
        b = torch.device("cuda:1")
    """,
}
SIBLINGS = {
    "one loop moves less": """
        def fit(model, train, test, device):
            for g, x in train:
                x = x.to(device)
                g = [one.to(device) for one in g]
                model(g, x)
            for g, x in test:
                x = x.to(device)
                model(g, x)  # <
    """,
    "another call": """
        def fit(model, train, test, device):
            for g, x in train:
                x = x.to(device)
                g = g.to(device)
                model(g, x)
            for g, x in test:
                x = x.to(device)
                draw(g, x)
    """,
    "one method does not move the model": """
        class Runner:
            def __init__(self, model, device):
                self.model, self.device = model, device
            def train(self, rows):
                self.model.to(self.device)
                for row in rows:
                    self.model(row.to(self.device))
            def predict(self, rows):
                model = self.model  # <
                return [model(row.to(self.device)) for row in rows]
    """,
    "the constructor moves what it takes": """
        class Runner:
            def __init__(self, model, device):
                self.model, self.device = model, device
                self.model = model.to(self.device)
            def save(self, path):
                torch.save(self.model.cpu(), path)
                self.model.to(self.device)
            def predict(self, rows):
                return [self.model(row.to(self.device)) for row in rows]
    """,
    "the methods choose different devices": """
        class Runner:
            def __init__(self, model, device, other):
                self.model, self.device, self.other = model, device, other
            def train(self, rows):
                self.model.to(self.device)
            def tune(self, rows):
                self.model.to(self.other)
            def predict(self, rows):
                return [self.model(row.to(self.device)) for row in rows]
    """,
    "a method makes the model": """
        class Runner:
            def __init__(self, device):
                self.device = device
            def build(self):
                self.model = make()
                self.model.to(self.device)
            def predict(self, rows):
                return [self.model(row.to(self.device)) for row in rows]
    """,
    "the others call it": """
        class Runner:
            def __init__(self, model, device):
                self.model, self.device = model, device
            def train(self, rows):
                self.model.to(self.device)
                self.step(rows)
            def step(self, rows):
                return [self.model(row.to(self.device)) for row in rows]
    """,
    "the next round": """
        def play(policy, env, device):
            masks = torch.zeros(4, 1, device=device)
            while True:
                action = policy.act(env.state, masks)
                done = env.step(action)
                masks = torch.FloatTensor([[float(one)] for one in done])  # <
    """,
    "no round uses it": """
        def play(policy, env, device):
            masks = torch.zeros(4, 1, device=device)
            policy.act(env.state, masks)
            while True:
                masks = torch.FloatTensor(env.step())
                env.log(masks)
    """,
    "a name of another function": """
        def first(n, device):
            masks = torch.zeros(n, device=device)
            return masks
        def second(n, env):
            masks = None
            while env.step(masks):
                masks = torch.zeros(n)
    """,
    "it is moved where it is used": """
        def play(policy, env, device):
            masks = torch.zeros(4, 1, device=device)
            while True:
                done = policy.act(env.state, masks.to(device))
                masks = torch.FloatTensor(done)
    """,
}
PLACES = {
    "a class out of sight that registers": """
        from flows import Transform
        class Scale(Transform):
            def __init__(self, start, learn):
                super().__init__()
                if learn:
                    self.start = nn.Parameter(torch.tensor([start]))
                else:
                    self.start = torch.tensor([start])  # <
            def apply(self, x: torch.Tensor):
                return x * self.start
            def forward(self, x: torch.Tensor):
                return self.start * x
    """,
    "a transform of data": """
        from data import Transform
        class Scale(Transform):
            def __init__(self, start):
                self.start = torch.tensor([start])
            def forward(self, x: torch.Tensor):
                return self.start * x
    """,
    "a model that was given, and inputs that are moved if": """
        def detect(model, image, gpu=True):
            image = torch.from_numpy(np.array(image))
            if gpu:
                image = image.cuda()
            found = []
            for one in model(image):
                found.append(one.data.numpy())  # <
            return found
    """,
    "read after a slice": """
        def detect(model, image, device):
            boxes = model(image.to(device)).data[:, :, 1:5]
            return np.tile(boxes, (1, 2))  # <
    """,
    "a function of numpy that asks the tensor": """
        def detect(model, image, device):
            boxes = model(image.to(device)).data[:, :, 1:5]
            return np.shape(boxes)
    """,
    "back on the CPU where there is a GPU": """
        def detect(image, device):
            image = image.to(device)
            if torch.cuda.is_available():
                image = image.cpu()
            return image.numpy()
    """,
    "a class in view brings it back": """
        class Net(nn.Module):
            def forward(self, x):
                return self.body(x).cpu()
        def detect(net: Net, image, device):
            return net(image.to(device)).numpy()
    """,
    "a base class may register it": """
        from models import Base
        class Points(Base, nn.Module):
            def __init__(self, points: torch.Tensor):
                super().__init__(points)
                self.points = points
            def forward(self, x: torch.Tensor):
                return torch.cat([x, self.points[None]])
    """,
    "autocast and a function that is told the device": """
        class Painter:
            def paint(self, steps):
                with torch.autocast("cuda"):  # <
                    return self.batch(steps, device=self.model.device)
    """,
}


@pytest.mark.parametrize("code", [*CHOICES.values(), *SIBLINGS.values(), *PLACES.values()])
def test_marked_lines_are_found_and_others_silent(code: str) -> None:
    text, wanted = marked(code)
    source = Source(HEAD + text)
    start = HEAD.count("\n")
    flow = analyse(source)
    own = (NumpyOfDevice(), NormalizeDeviceType(all=True))
    found = [*besides(flow, CODEMODS, ()), *(finding for one in own for finding in one.check(flow))]
    assert {source.position(one.span.start)[0] - start for one in found} == wanted


FIXED: dict[str, tuple[Codemod, str]] = {
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'": (
        HandOnDevice(),
        "device = ('cuda' if torch.cuda.is_available() else 'cpu') if device is None else device",
    ),
    "where = torch.device('gpu:%d' % 1)": (NormalizeDeviceType(), "where = torch.device('cuda:%d' % 1)"),
    "net = net.cuda(gpu_id=3)": (MoveInputs(), "net = net.cuda(device=3)"),
    "where = torch.device('cuda:1')": (HardCodedCuda(), "where = torch.device('cuda')"),
}


@pytest.mark.parametrize("line", FIXED)
def test_fixes(line: str) -> None:
    codemod, after = FIXED[line]
    text = f"import torch\n\n\ndef run(net, device=None):\n    {line}\n    net.to(device)\n"
    assert fixed(codemod, text) == text.replace(line, after)
