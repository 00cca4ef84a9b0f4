"""assert-device: which comparison it writes, where, and when it says nothing."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.config import make
from devfix.findings import Safety
from devfix.rules.assert_device import AssertDevice

RULE = AssertDevice()
ALL = AssertDevice(check_="all")
INPUTS = AssertDevice(inputs=True)
HEAD = "import torch\nfrom torch import nn\nmodel = nn.Sequential(nn.Linear(4, 4))\n"
BARE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
EXACT = 'device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")\n'
AT_RUN_TIME = "assert next(model.parameters()).device == torch.empty(0, device=device).device\n"
PLAIN = "assert next(model.parameters()).device == device\n"

# name: (before, after)
CHANGED = {
    "no index": (
        BARE + "model.to(device)\nmodel(x)\n",
        BARE + "model.to(device)\n" + AT_RUN_TIME + "model(x)\n",
    ),
    "an index, or the CPU": (EXACT + "model.to(device)\n", EXACT + "model.to(device)\n" + PLAIN),
    "two arguments": (
        "device = torch.device('cuda', 1)\nmodel.to(device)\n",
        "device = torch.device('cuda', 1)\nmodel.to(device)\n" + PLAIN,
    ),
    "a string with an index": (
        "device = 'cuda:1'\nmodel.to(device)\n",
        "device = 'cuda:1'\nmodel.to(device)\n" + AT_RUN_TIME,
    ),
    "of a tensor": (
        "x = torch.ones(2).cuda()\nmodel.to(x.device)\n",
        "x = torch.ones(2).cuda()\nmodel.to(x.device)\nassert next(model.parameters()).device == x.device\n",
    ),
    "cuda()": (
        "model.cuda()\n",
        'model.cuda()\nassert next(model.parameters()).device == torch.empty(0, device="cuda").device\n',
    ),
    "cuda(1)": (
        "model.cuda(1)\n",
        "model.cuda(1)\nassert next(model.parameters()).device == torch.empty(0, device=1).device\n",
    ),
    "in one expression": (
        EXACT + "net = nn.Linear(4, 2).to(device).eval()\n",
        EXACT + "net = nn.Linear(4, 2).to(device).eval()\nassert next(net.parameters()).device == device\n",
    ),
    "device bound in two arms": (
        "if gpu:\n    device = torch.device('cuda')\nelse:\n"
        "    device = torch.device('cpu')\nmodel.to(device)\n",
        "if gpu:\n    device = torch.device('cuda')\nelse:\n"
        "    device = torch.device('cpu')\nmodel.to(device)\n" + AT_RUN_TIME,
    ),
    "inside a condition": (
        "if torch.cuda.is_available():\n    model.cuda()\nmodel(x)\n",
        "if torch.cuda.is_available():\n    model.cuda()\n"
        '    assert next(model.parameters()).device == torch.empty(0, device="cuda").device\nmodel(x)\n',
    ),
    "after the last move": (
        EXACT + "model.to('cpu')\nmodel.to(device)\nmodel.to(device)\nmodel(x)\n",
        EXACT + "model.to('cpu')\nmodel.to(device)\nmodel.to(device)\n" + PLAIN + "model(x)\n",
    ),
    "after the last change": (
        EXACT + "model.to(device)\nmodel.head = nn.Linear(4, 2).to(device)\nmodel(x)\n",
        EXACT + "model.to(device)\nmodel.head = nn.Linear(4, 2).to(device)\n" + PLAIN + "model(x)\n",
    ),
    "an attribute": (
        EXACT
        + "class Trainer:\n    def f(self):\n        self.net = nn.Linear(2, 2)\n        self.net.to(device)\n",
        EXACT
        + "class Trainer:\n    def f(self):\n        self.net = nn.Linear(2, 2)\n        self.net.to(device)\n"
        "        assert next(self.net.parameters()).device == device\n",
    ),
    "a class of the file": (
        EXACT + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Linear(2, 2)\nnet = Net().to(device)\n",
        EXACT + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Linear(2, 2)\nnet = Net().to(device)\n"
        "assert next(net.parameters()).device == device\n",
    ),
}

UNSAFE = {
    "a parameter, since callers may pass a string": (
        "def f(model: nn.Module, device: torch.device):\n"
        "    model.to(device)\nf(model, torch.device('cuda:0'))\n",
        "def f(model: nn.Module, device: torch.device):\n    model.to(device)\n    "
        + AT_RUN_TIME
        + "f(model, torch.device('cuda:0'))\n",
    ),
    "an element of a list": (
        EXACT + "def f(nets):\n    nets[0].to(device)\n    nets[0].eval()\n",
        EXACT
        + "def f(nets):\n    nets[0].to(device)\n    assert next(nets[0].parameters()).device == device\n"
        "    nets[0].eval()\n",
    ),
    "a class out of sight": (
        EXACT + "net = Net().to(device)\nnet.eval()\nnet(x)\n",
        EXACT
        + "net = Net().to(device)\nassert next(net.parameters()).device == device\nnet.eval()\nnet(x)\n",
    ),
    "something stays behind": (
        EXACT + "model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        EXACT + "model.to(device)\nmodel.head = nn.Linear(4, 2)\n" + PLAIN + "model(x)\n",
    ),
}

SILENT = {
    "asserted": EXACT + "model.to(device)\nassert next(model.parameters()).device.type == 'cuda'\nmodel(x)\n",
    "raised about": EXACT + "model.to(device)\nif model.device != device:\n    raise ValueError\nmodel(x)\n",
    "on the CPU": "model.to('cpu')\nmodel(x)\n",
    "no parameters": EXACT + "loss = nn.MSELoss().to(device)\n",
    "a class without parameters": (
        EXACT + "class Pool(nn.Module):\n    def forward(self, x):\n        return x.mean(1)\n"
        "pool = Pool().to(device)\n"
    ),
    "a class that gets its parameters from callers": (
        EXACT + "class Wrap(nn.Module):\n    def __init__(self, part):\n        super().__init__()\n"
        "        self.part = part\nnet = Wrap(load()).to(device)\n"
    ),
    "the name is bound anew by the move": EXACT + "models = [model.to(device)]\n",
    "a tensor": EXACT + "x = torch.ones(2).to(device)\n",
    "returned": EXACT + "def f():\n    return nn.Linear(4, 2).to(device)\n",
    "Lightning": (
        "import lightning\nclass M(lightning.LightningModule):\n    def setup(self, stage):\n"
        "        self.net = nn.Linear(2, 2)\n        self.net.to(self.device)\n"
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_safe(name: str) -> None:
    before, after = CHANGED[name]
    assert fixed(RULE, HEAD + before, Safety.SAFE) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe(name: str) -> None:
    before, after = UNSAFE[name]
    assert fixed(RULE, HEAD + before, Safety.SAFE) == HEAD + before
    assert fixed(RULE, HEAD + before, Safety.UNSAFE) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


def test_all() -> None:
    after = fixed(ALL, HEAD + EXACT + "model.to(device)\n")
    assert after == HEAD.replace("import nn\n", "import nn\nimport itertools\n") + EXACT + (
        "model.to(device)\n"
        "assert {t.device for t in itertools.chain(model.parameters(), model.buffers())} == {device}\n"
    )
    assert findings(ALL, after) == []


INPUTS_CHANGED = {
    "in a loop": (
        "for x in range(2):\n    y = torch.ones(2).to(device)\n    model(y)\n",
        "for x in range(2):\n    y = torch.ones(2).to(device)\n"
        "    assert y.device == next(model.parameters()).device\n    model(y)\n",
    ),
    "two of them, each once": (
        "a = torch.ones(2).to(device)\nb = torch.ones(2, device=device)\nmodel(a, b)\nmodel(a)\n",
        "a = torch.ones(2).to(device)\nb = torch.ones(2, device=device)\n"
        "assert a.device == next(model.parameters()).device\n"
        "assert b.device == next(model.parameters()).device\nmodel(a, b)\nmodel(a)\n",
    ),
}


@pytest.mark.parametrize("name", INPUTS_CHANGED)
def test_inputs(name: str) -> None:
    before, after = INPUTS_CHANGED[name]
    start = HEAD + EXACT + "model.to(device)\n" + PLAIN
    assert fixed(INPUTS, start + before, Safety.SAFE) == start + after
    assert findings(INPUTS, start + after) == []


@pytest.mark.parametrize(
    "body",
    [
        "model(torch.ones(2))\n",  # move-inputs has something to say here
        "model(torch.ones(2, device=device))\n",  # no name
        "y = [model(x) for x in torch.ones(2, device=device)]\n",  # bound in the expression
        "while model(a).sum() > 0:\n    pass\n",  # asked again and again
        "assert a.device == device\nmodel(a)\n",
    ],
)
def test_inputs_silent(body: str) -> None:
    start = HEAD + EXACT + "model.to(device)\n" + PLAIN + "a = torch.ones(2, device=device)\n"
    assert findings(INPUTS, start + body) == []


def test_options() -> None:
    assert not AssertDevice.default
    assert make(AssertDevice, {"check": "all", "inputs": "true"}) == AssertDevice("all", True)
