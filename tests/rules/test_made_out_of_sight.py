"""What is told of modules that are made out of sight, or reach their use by way of others: each with its line."""

from __future__ import annotations

import pytest
from applying import findings
from devfix.checkers.besides import besides
from devfix.codemod import Codemod
from devfix.flow import analyse
from devfix.rules.map_location import MapLocation
from devfix.rules.module_never_moved import ModuleNeverMoved
from devfix.rules.move_inputs import MoveInputs
from devfix.rules.register_modules import RegisterModules
from devfix.rules.restore_after_move import RestoreAfterMove
from devfix.text.source import Source

HEAD = """\
import copy
import torch
from torch import nn
from timm.utils import ModelEma
from torchvision.models import vgg16
from mods import A, B, Net, evaluate, predict_batch, resolve, train
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
_USE = "    net.eval()\n    return net(x.to(device))\n"

# name: (codemod, text, the lines below the head that are told)
TOLD: dict[str, tuple[Codemod, str, list[int]]] = {
    "one of two, in one expression": (
        ModuleNeverMoved(),
        f"def run(x, big):\n    net = A(2) if big else B(3)\n{_USE}",
        [2],
    ),
    "options that hold no device": (
        ModuleNeverMoved(),
        f"sizes = {{'n': 2}}\ndef run(x):\n    net = Net(**sizes)\n{_USE}",
        [3],
    ),
    "from torch.hub": (
        ModuleNeverMoved(),
        f"def run(x):\n    net = torch.hub.load('a/b', 'c')\n{_USE}",
        [2],
    ),
    "a part of a network": (
        ModuleNeverMoved(),
        f"def run(x):\n    net = vgg16(pretrained=True).features[:16]\n{_USE}",
        [2],
    ),
    "a copy of a module of the file": (
        ModuleNeverMoved(),
        f"base = nn.Linear(2, 2)\ndef run(x):\n    net = copy.deepcopy(base)\n{_USE}",
        [3],
    ),
    "a module of the file, in a method": (
        ModuleNeverMoved(),
        "base = nn.Linear(2, 2)\nclass Runner:\n    def run(self, x):\n        return base(x.to(device))\n",
        [1],
    ),
    "run by a function out of sight": (
        ModuleNeverMoved(),
        "def run(x):\n    net = nn.Linear(2, 2)\n    x = x.to(device)\n    return predict_batch(net, x)\n",
        [2],
    ),
    "fed by a module that is not in view": (
        ModuleNeverMoved(),
        "def run(x):\n    body = A(2).to(device)\n    head = nn.Linear(2, 2)\n    return head(body(x.to(device)))\n",
        [3],
    ),
    "made in each call, and run on a number of some type": (
        ModuleNeverMoved(),
        "def quantize(w):\n    observe = torch.quantization.observer.HistogramObserver()\n    observe(w.float())\n"
        "    return observe.scale.cuda()\n",
        [2],
    ),
    "two makings, which one move in the function that runs them repairs": (
        ModuleNeverMoved(),
        "def train(net, x):\n    where = torch.device('cuda:0')\n    return net(x.to(where))\n\n\n"
        "one = nn.Linear(2, 2)\ntrain(one, x)\ntwo = nn.Linear(3, 3)\ntrain(two, x)\n",
        [2],
    ),
    "lists of layers in a list": (
        RegisterModules(),
        "class Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.stages = []\n"
        "        for _ in range(2):\n            stage = []\n            for _ in range(3):\n"
        "                stage.append(nn.Linear(2, 2))\n            self.stages.append(stage)\n\n"
        "    def forward(self, x):\n        for i in range(2):\n            for j in range(3):\n"
        "                x = self.stages[i][j](x)\n        return x\n",
        [4],
    ),
    "an average of a network that only moves": (
        RestoreAfterMove(),
        "def run(x):\n    net = A(2)\n    average = ModelEma(net)\n    net.to(device)\n    return net, average\n",
        [3],
    ),
    "an optimizer whose class has a name": (
        RestoreAfterMove(),
        "def run(state):\n    net = A(2)\n    kind = torch.optim.Adam\n    optimizer = kind(net.parameters())\n"
        "    optimizer.load_state_dict(state)\n    net.to(device)\n    optimizer.step()\n",
        [5],
    ),
    "wrapped and moved in one step": (
        RestoreAfterMove(),
        "def run(state):\n    net = A(2)\n    optimizer = torch.optim.Adam(net.parameters())\n"
        "    optimizer.load_state_dict(state)\n    net = nn.DataParallel(net).cuda()\n    optimizer.step()\n",
        [4],
    ),
    "two optimizers beside one network, of its parts": (
        RestoreAfterMove(),
        "def run(states):\n    net = A(2)\n    first = torch.optim.Adam(net.head.parameters())\n"
        "    second = torch.optim.Adam(net.body.parameters())\n    first.load_state_dict(states[0])\n"
        "    second.load_state_dict(states[1])\n    net.to(device)\n    first.step()\n    second.step()\n",
        [5, 6],
    ),
    "fed with a list of what was moved": (
        ModuleNeverMoved(),
        "def run(images):\n    net = A(2)\n    net.eval()\n    images = [one.to(device) for one in images]\n"
        "    return net(images)\n",
        [2],
    ),
    "fed with a dict of what was moved": (
        ModuleNeverMoved(),
        "def run(batch):\n    net = A(2)\n    net.eval()\n    batch = {k: v.to(device) for k, v in batch.items()}\n"
        "    return net(**batch)\n",
        [2],
    ),
    "fed with what is moved under a condition": (
        ModuleNeverMoved(),
        "def run(x):\n    net = nn.Linear(2, 2)\n    if torch.cuda.is_available():\n        x = x.cuda()\n    return net(x)\n",
        [2],
    ),
    "handed over with its optimizer": (
        ModuleNeverMoved(),
        "net = nn.Linear(2, 2)\noptimizer = torch.optim.Adam(net.parameters())\nevaluate(data, net, optimizer, device)\n",
        [1],
    ),
    "trained beside its like, which is moved": (
        ModuleNeverMoved(),
        "one = nn.Linear(2, 2).to(device)\ntrain(one, data, device)\ntwo = nn.Linear(2, 2)\ntrain(two, data, device)\n",
        [3],
    ),
    "handed over with a device of the options": (
        ModuleNeverMoved(),
        "def run(args, data):\n    device = args.device\n    net = nn.Linear(2, 2)\n    evaluate(net, data, device)\n",
        [3],
    ),
    "made by a function that is called twice": (
        ModuleNeverMoved(),
        "def make():\n    return nn.Sequential(nn.Linear(2, 2))\n\n\n"
        "one, two = make(), make()\none.to(device)\ntwo(x.to(device))\n",
        [5],
    ),
    "wrapped only where there are several": (
        MoveInputs(),
        "def run(data):\n    net = A(2)\n    if torch.cuda.device_count() > 1:\n"
        "        net.encoder = nn.DataParallel(net.encoder)\n    net = net.cuda()\n    net.train()\n"
        "    for x in torch.utils.data.DataLoader(data):\n        net(x)\n",
        [7],
    ),
    "Adagrad, of a network out of sight": (
        RestoreAfterMove(),
        "def run(x):\n    net = A(2)\n    optimizer = torch.optim.Adagrad(net.parameters())\n    net.to(device)\n"
        "    optimizer.step()\n",
        [3],
    ),
}

SILENT: dict[str, tuple[Codemod, str]] = {
    "options that may hold a device": (
        ModuleNeverMoved(),
        f"def run(x, **options):\n    net = Net(**options)\n{_USE}",
    ),
    "options of which one is the device": (
        ModuleNeverMoved(),
        f"sizes = {{'n': 2}}\nsizes['device'] = device\ndef run(x):\n    net = Net(**sizes)\n{_USE}",
    ),
    "a module of the file that a function hands on": (
        ModuleNeverMoved(),
        "from mods import start\nbase = nn.Linear(2, 2)\nclass Runner:\n    def set_up(self):\n        start(base)\n\n"
        "    def run(self, x):\n        return base(x.to(device))\n",
    ),
    "handed over with the CPU": (
        ModuleNeverMoved(),
        "net = nn.Linear(2, 2)\nevaluate(net, data, torch.device('cpu'))\n",
    ),
    "trained by who may move it": (
        ModuleNeverMoved(),
        "net = nn.Linear(2, 2)\ntrain(net, data, device)\n",
    ),
    "another one of its class stays on the CPU": (
        ModuleNeverMoved(),
        "class Own(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = nn.Sequential(nn.Linear(2, 2))\n\n    def forward(self, x):\n        return self.layers(x)\n\n\n"
        "one = Own().cuda()\ntwo = Own()\ntwo.load_state_dict(one.state_dict())\none(x.cuda())\n",
    ),
    "another one of the same function stays on the CPU": (
        ModuleNeverMoved(),
        "def make():\n    return nn.Sequential(nn.Linear(2, 2))\n\n\n"
        "one = make().to(device)\ntwo = make()\none(x.to(device))\n",
    ),
    "a part moves the inputs": (
        MoveInputs(),
        "def run(data):\n    net = vgg16()\n    net.features = nn.DataParallel(net.features)\n    net.cuda()\n"
        "    for x in torch.utils.data.DataLoader(data):\n        net(x)\n",
    ),
    "moved where the wrap does not do it": (
        MoveInputs(),
        "def run(args, data):\n    net = A(2)\n    if args.gpu is not None:\n        net = net.cuda(args.gpu)\n"
        "    else:\n        net = nn.DataParallel(net).cuda()\n    net.train()\n"
        "    for x in torch.utils.data.DataLoader(data):\n        if args.gpu is not None:\n"
        "            x = x.cuda(args.gpu)\n        net(x)\n",
    ),
    "a list of what may be no modules": (
        RegisterModules(),
        "class Deep(nn.Module):\n    def __init__(self, names):\n        super().__init__()\n"
        "        self.functions = [get_function(name) for name in names]\n\n"
        "    def forward(self, x):\n        for one in self.functions:\n            x = one(x)\n        return x\n",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_told(name: str) -> None:
    codemod, text, lines = TOLD[name]
    source = Source(HEAD + text)
    above = HEAD.count("\n")
    assert [source.position(one.span.start)[0] - above for one in findings(codemod, source.text)] == lines


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    codemod, text = SILENT[name]
    assert findings(codemod, HEAD + text) == []


def test_how_a_file_is_loaded_does_not_hide_what_is_left_behind() -> None:
    text = (
        "def run(path):\n    net = A(2)\n    groups = list(net.parameters())\n    optimizer = torch.optim.Adam(groups)\n"
        "    optimizer.load_state_dict(torch.load(path))\n    net.to(device)\n    optimizer.step()\n"
    )
    flow = analyse(Source(HEAD + text))
    known = list(MapLocation().check(flow))
    more = besides(flow, {MapLocation.id, RestoreAfterMove.id}, known)
    assert [one.codemod for one in (*known, *more)] == [MapLocation.id, RestoreAfterMove.id]
