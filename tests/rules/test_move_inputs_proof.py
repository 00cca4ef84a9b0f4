"""move-inputs: what keeps a move from being SAFE, and what shows that the program runs without it."""

from __future__ import annotations

import pytest
from applying import findings
from devfix.findings import Finding, Safety
from devfix.rules.module_never_moved import ModuleNeverMoved
from devfix.rules.move_inputs import MoveInputs

RULE = MoveInputs()
HEAD = """\
import numpy as np
import torch
from proj import Net, score
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
COUNTED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x, lengths):
        return self.decode(x, lengths)

    def decode(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu())
        return self.rnn(packed)[0]


"""
PLAYER = """\
class Player:
    def __init__(self, config):
        self.device = torch.device(config.get("where", "cuda"))
        self.net = nn.Linear(2, 2).to(self.device)

    def act(self, x):
        return self.net(x.to(self.device))


"""

# The program runs as it is.
SILENT = {
    "what is left where it is beside what is moved": "def run(net, data):\n    net = net.to(device)\n"
    "    for x, ids in DataLoader(data):\n        x, ids = x.to(device), ids\n        print(net(x, ids))\n",
    "DataParallel of anything scatters": "def run(image, data):\n    net = nn.DataParallel(image).to(device)\n"
    "    for x, y in DataLoader(data):\n        print(net(x))\n",
    "DataParallel scatters in a function as well": "def step(net, x):\n    return net(x)\n\n\ndef run(image, data):\n"
    "    net = nn.DataParallel(image).cuda()\n    for x, y in DataLoader(data):\n        print(step(net, x))\n",
    "the element of a list of one number": "def norm(t):\n    return torch.from_numpy(np.sqrt(t.numpy())).float()\n\n\n"
    "def run(t):\n    x = torch.rand(3).cuda()\n    x *= norm(torch.tensor([t]))[0]\n    return x\n",
    "an object that was told the CPU": PLAYER + "def test(low):\n    player = Player({'where': 'cpu'})\n"
    "    got = player.act(torch.zeros(1, 2))\n    assert torch.all(got >= torch.from_numpy(low))\n",
    "a configuration that was told the CPU": PLAYER
    + "def test(low, params):\n    config = params['config']\n"
    "    config.update({'where': 'cpu'})\n    player = Player(params)\n    got = player.act(torch.zeros(1, 2))\n"
    "    assert torch.all(got >= torch.from_numpy(low))\n",
    "the lengths of a CTC loss": "net = nn.Linear(4, 3).to(device)\nloss = nn.CTCLoss()\n"
    "for x, y, x_n, y_n in DataLoader(data):\n    x, y = x.to(device), y.to(device)\n    print(loss(net(x), y, x_n, y_n))\n",
    "a method of what DataParallel wraps counts": COUNTED + "net = nn.DataParallel(Net()).to(device)\n"
    "x = torch.rand(3, 2, 4).to(device)\nlengths = torch.tensor([3, 2])\nprint(net.module.decode(x, lengths))\n",
    "an element and a tensor that was made on the device": "from lib import load\nnet = nn.Linear(4, 2).to(device)\n"
    "x = load('x', device=device)\nsigmas = torch.from_numpy(np.ones(9))\n"
    "noisy = x + torch.randn_like(x) * sigmas[3]\nprint(net(noisy))\n",
    "a loader over what was moved and given to a method of its own": "class Reward(Base):\n    def __init__(self):\n"
    "        self.net = nn.Linear(4, 2).to(self.device)\n\n    def update(self, rows):\n"
    "        seen = rows.get('x').to(self.device).view(-1, 4)\n        seen = self.normalize(seen)\n"
    "        from torch.utils.data import TensorDataset\n        data = TensorDataset(seen)\n"
    "        for batch in DataLoader(dataset=data):\n            x = batch[0]\n            print(self.net(x))\n",
    "sizes meet nothing": "def grid(rows: torch.Tensor):\n    for t, h in rows:\n"
    "        base = torch.from_numpy(np.ones(int(h)))\n"
    "        print(rows.device, base.repeat(t, 1), base.expand(t, -1), base.view(h))\n",
    "a count out of a loader": "net = Net().to(device)\nfor x, lengths in DataLoader(data):\n"
    "    x = x.to(device)\n    print(net(x, lengths))\n",
}

# Nothing in view shows that it fails.
OPEN = {
    "a count that a module out of sight gets": "net = torch.hub.load('a', 'b').to(device)\nx = torch.rand(3, 20, 4).to(device)\n"
    "lengths = torch.tensor([20., 20.])\nprint(net(x, lengths), lengths.shape)\n",
    "an element that may be a number": "def run(rows):\n    x = torch.rand(3).cuda()\n"
    "    one = torch.from_numpy(rows)[0]\n    return x * one, x + torch.from_numpy(rows)[1]\n",
    "a loader over tensors of somebody": "from torch.utils.data import TensorDataset\nfrom lib import load\n\n\ndef run():\n"
    "    net = nn.Linear(4, 2).to(device)\n    seen = load('x')\n    for (x,) in DataLoader(TensorDataset(seen)):\n        print(net(x))\n",
    "below a call that always raises": "net = nn.Linear(4, 2).to(device)\nx = torch.tensor(3, 4)\nprint(net(x))\n",
}

UNSAFE = {
    "a module out of sight, with token ids": "def run(ids):\n    net = torch.hub.load('a', 'b').to(device)\n"
    "    return net(torch.tensor([ids]))\n",
    "a method of a module out of sight": "def run():\n    net = torch.hub.load('a', 'b').to(device)\n"
    "    return net.generate(torch.rand(2, 4))\n",
    "what a method of a module out of sight gives": "def run(rows):\n    net = torch.hub.load('a', 'b').to(device)\n"
    "    got = net.generate(torch.rand(2, 4).to(device))\n    return got + torch.from_numpy(rows)\n",
    "layers out of sight in a container": "def run(ids):\n    net = nn.Sequential(Net()).to(device)\n"
    "    return net(torch.tensor([ids]))\n",
    "another function moves what is out of sight": "def train(net, loader):\n    for x, y in loader:\n        print(net(x))\n\n\n"
    "def start(data):\n    net = nn.Sequential(Net()).to(device)\n    train(net, DataLoader(data))\n",
    "an object that was loaded to the CPU and moved": PLAYER + "def test(low):\n"
    "    state = torch.load('x.pt', map_location='cpu')\n    player = Player({})\n"
    "    player.net.load_state_dict(state)\n    got = player.act(torch.zeros(1, 2))\n"
    "    assert torch.all(got >= torch.from_numpy(low))\n",
}

SAFE = {
    "an operand that nothing is known of": "from lib import load\n\n\ndef run(rows):\n    net = nn.Linear(4, 2).to(device)\n"
    "    x = load('x') + torch.from_numpy(rows)\n    return net(x)\n",
    "a batch for a module out of sight that is moved here": "def run(data):\n    net = torch.hub.load('a', 'b').to(device)\n"
    "    for x, y in DataLoader(data):\n        print(net(x))\n",
    "data made here for a module out of sight that is moved here": "def run(rows):\n    net = torch.hub.load('a', 'b').to(device)\n"
    "    x = torch.from_numpy(rows).float()\n    return net(x), net(torch.rand(2, 4))\n",
    "an operand that is a number": "def run(rows):\n    net = nn.Linear(4, 2).to(device)\n    scale = 2.0\n"
    "    x = torch.from_numpy(rows) / 255.0 * scale\n    return net(x)\n",
    "a loader over tensors of the CPU": "from torch.utils.data import TensorDataset\n\n\ndef run(rows):\n"
    "    net = nn.Linear(4, 2).to(device)\n    data = TensorDataset(torch.from_numpy(rows))\n"
    "    for (x,) in DataLoader(data):\n        print(net(x))\n",
    "token ids for a layer of torch": "def run(ids):\n    net = nn.Sequential(nn.Embedding(4, 2), nn.ReLU()).to(device)\n"
    "    return net(torch.tensor([ids]))\n",
}


def safeties(found: list[Finding]) -> set[Safety | None]:
    return {one.fix.safety if one.fix is not None else None for one in found}


@pytest.mark.parametrize("name", SILENT)
def test_silent_where_the_program_runs(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


@pytest.mark.parametrize("name", OPEN)
def test_silent_where_nothing_shows_that_it_fails(name: str) -> None:
    assert findings(RULE, HEAD + OPEN[name]) == []


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_where_the_evidence_is_out_of_view(name: str) -> None:
    assert safeties(findings(RULE, HEAD + UNSAFE[name])) == {Safety.UNSAFE}


@pytest.mark.parametrize("name", SAFE)
def test_safe_where_all_is_in_view(name: str) -> None:
    assert safeties(findings(RULE, HEAD + SAFE[name])) == {Safety.SAFE}


def test_the_file_that_moves_it_may_be_another_function_if_the_forward_is_in_sight() -> None:
    text = HEAD + (
        "class Own(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 2)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n\n\n"
        "def train(net, loader):\n    for x, y in loader:\n        print(net(x))\n\n\n"
        "def start(data):\n    train(Own().to(device), DataLoader(data))\n"
    )
    assert safeties(findings(RULE, text)) == {Safety.SAFE}


def test_a_module_below_a_call_that_always_raises() -> None:
    text = "import torch\nfrom torch import nn\ndevice = torch.device('cuda')\nnet = nn.Linear(4, 2)\n{}\nnet(x.to(device))\n"
    rule = ModuleNeverMoved()
    assert findings(rule, text.format("x = torch.tensor(3, 4)")) == []
    assert safeties(findings(rule, text.format("x = torch.randn(3, 4)"))) == {Safety.SAFE}


VALIDATE = """\
class Runner(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.net = nn.Linear(4, 2)
        self.criterion = nn.CrossEntropyLoss()
        self.to(device)

    def forward(self, x):
        return self.net(x.to(self.device))

    def fit(self, data):
        loader = DataLoader(data)
        self.validate(loader)

    def validate(self, loader):
        for inputs, targets in loader:
            outputs = self.forward(inputs)
            outputs = outputs.squeeze(-1)
            targets = targets.long()
            print(self.criterion(outputs, targets))
"""
TENSORS = "\n\ndef load(x, y):\n    from torch.utils.data import TensorDataset\n\n    return DataLoader(TensorDataset(x, y))\n"


@pytest.mark.parametrize(("after", "safety"), [("", Safety.SAFE), (TENSORS, Safety.UNSAFE)])
def test_a_loader_over_tensors_may_give_what_is_on_a_device(after: str, safety: Safety) -> None:
    found = [f for f in findings(RULE, HEAD + VALIDATE + after) if f.fix]
    assert [f.fix.safety for f in found if f.fix] == [safety]


KEPT = """import copy
import torch
from torch import nn


class Average:
    def __init__(self, model, device=None, there=False):
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)


def main(there):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 4)
    model.to(device)
    average = Average(model, device="cpu")
    return average.module(torch.randn(2, 4))
"""


def test_what_a_call_passes_is_not_none() -> None:
    assert findings(RULE, KEPT) == []


def test_what_is_on_the_device_on_some_paths_only_is_never_safe() -> None:
    text = KEPT.replace("if device is not None", "if there").replace(
        '"cpu")\n    return', '"cpu", there=there)\n    return'
    )
    (found,) = findings(RULE, text)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE


GUARDED = (
    "def run(data, gpus):\n    for x, y in DataLoader(data):\n        if gpus is not None:\n            y = y.cuda()\n"
    "        hot = {}\n        print(hot.scatter_(1, y, 1))\n"
)


@pytest.mark.parametrize(
    ("hot", "safety"),
    [("torch.cuda.FloatTensor(4, 3)", Safety.UNSAFE), ("torch.zeros(4, 3).to(device)", Safety.SAFE)],
)
def test_what_is_moved_on_some_ways_meets_what_names_cuda(hot: str, safety: Safety) -> None:
    found = findings(RULE, HEAD + GUARDED.format(hot))
    assert [one.fix.safety for one in found if one.fix is not None] == [safety]
