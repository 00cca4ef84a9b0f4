"""module-never-moved: what the text around a module tells where flow sees no run, or no maker."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.module_never_moved import ModuleNeverMoved

RULE = ModuleNeverMoved()
HEAD = """\
import flair
import torch
import torchaudio
from torch import nn
from nets import Loss, MelLoss, StftLoss, WaveKernel, MaternKernel, build_model, vgg16_bn, resnet18
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


"""
BUILDER = """\
def build(path, device="cpu"):
    net = Net()
    net.load_state_dict(torch.load(path, map_location=device))
    net.eval()
    return net
"""

# name: (text, what is replaced in it, by what)
CHANGED = {
    "an alias that is only saved": (
        "def run(x):\n    net = Net()\n    net(x.to(device))\n"
        '    save = net.module if hasattr(net, "module") else net\n    torch.save(save.state_dict(), "x")\n',
        "net = Net()",
        "net = Net().to(device)",
    ),
    "a function that makes networks, in another function": (
        "def train(x):\n    net.train()\n    return net(x.cuda())\n\n\n"
        "net = vgg16_bn()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
        "net = vgg16_bn()",
        "net = vgg16_bn().cuda()",
    ),
    "made in two arms": (
        "def run(x, deep):\n    if deep:\n        net = resnet18()\n    else:\n        net = vgg16_bn()\n"
        "    net.eval()\n    return net(x.cuda())\n",
        "resnet18()\n    else:\n        net = vgg16_bn()",
        "resnet18().cuda()\n    else:\n        net = vgg16_bn().cuda()",
    ),
    "built out of sight, but told no device": (
        "def run(x):\n    net = build_model(3)\n    net.eval()\n    return net(x.to(device))\n",
        "build_model(3)",
        "build_model(3).to(device)",
    ),
    "kept by an object": (
        "class Run:\n    def __init__(self):\n        self.net = build_model(3)\n        self.net.eval()\n\n"
        "    def step(self, x):\n        return self.net(x.to(device))\n",
        "build_model(3)",
        "build_model(3).to(device)",
    ),
    "wrapped, which moves nothing": (
        "def run(x):\n    net = nn.DataParallel(Net())\n    net.eval()\n    return net(x.cuda())\n",
        "DataParallel(Net())",
        "DataParallel(Net().cuda())",
    ),
    "handed to a function of the file": (
        "def step(net, x, dev):\n    return net(x.to(dev))\n\n\ndef run(x):\n    net = build_model(3)\n"
        "    net.eval()\n    return step(net, x, device)\n",
        "build_model(3)",
        "build_model(3).to(device)",
    ),
    "made for each call": (
        "def stoi_loss(a: torch.Tensor):\n    change = torchaudio.transforms.Resample(16000, 8000)\n"
        "    part = a[0]\n    return change(part)\n",
        "Resample(16000, 8000)",
        "Resample(16000, 8000).to(a.device)",
    ),
    "a network for each call": (
        "def distance(a: torch.Tensor, b: torch.Tensor):\n    net = Net()\n    return net(a) - net(b)\n",
        "net = Net()",
        "net = Net().to(a.device)",
    ),
    "one entry of a dict": (
        'losses = {"a": Loss().to(device), "b": StftLoss().to(device)}\nif device:\n'
        '    losses["mel"] = MelLoss(3)\n',
        "MelLoss(3)",
        "MelLoss(3).to(device)",
    ),
    "one of two kernels": (
        "def run(**kw):\n    a = MaternKernel(2).to(**kw)\n    b = WaveKernel(3)\n    return a, b\n",
        "WaveKernel(3)",
        "WaveKernel(3).to(**kw)",
    ),
    "a builder that is told the device": (BUILDER, "return net", "return net.to(device)"),
    "a builder that wraps": (
        BUILDER.replace("    net.eval()", "    net = nn.DataParallel(net)\n    net.eval()"),
        "DataParallel(net)",
        "DataParallel(net).to(device)",
    ),
}

SILENT = {
    "an alias that is moved": (
        'def run(x):\n    net = Net()\n    save = net.module if hasattr(net, "module") else net\n'
        "    save.to(device)\n    return net(x.to(device))\n"
    ),
    "built by what may go to CUDA itself": (
        "def run(x):\n    net = build_model(3)\n    net.eval()\n    return net(x.cuda())\n"
    ),
    "built with options that hold a device": (
        "def run(x, args):\n    net = build_model(args)\n    net.eval()\n    return net(x.to(args.device))\n"
    ),
    "built where it is told": (
        "def run(x):\n    net = build_model(3, device)\n    net.eval()\n    return net(x.to(device))\n"
    ),
    "moved in another function": (
        "def place():\n    net.cuda()\n\n\n"
        + CHANGED["a function that makes networks, in another function"][0]
    ),
    "moved by the function that it is handed to": CHANGED["handed to a function of the file"][0].replace(
        "    return net(x", "    net.to(dev)\n    return net(x"
    ),
    "made and run at once on what is not a parameter": (
        "def stoi_loss(a: torch.Tensor):\n    part, _ = cut(a)\n"
        "    return torchaudio.transforms.Resample(16000, 8000)(part)\n"
    ),
    "where data is prepared": CHANGED["made for each call"][0].replace("stoi_loss", "load_audio"),
    "entries that are moved later": (
        CHANGED["one entry of a dict"][0] + "for one in losses.values():\n    one.to(device)\n"
    ),
    "most entries are not moved": ('parts = {"a": Loss().to(device), "b": StftLoss(), "c": MelLoss()}\n'),
    "a builder whose caller moves": BUILDER + "\n\nnet = build(1, device)\nnet.to(device)\n",
    "a builder of an optimizer": (
        "def build(path, net, device):\n    opt = torch.optim.Adam(net.parameters())\n"
        "    opt.load_state_dict(torch.load(path, map_location=device))\n    return opt\n"
    ),
    "a builder that moves": BUILDER.replace("    net.eval()", "    net.to(device)\n    net.eval()"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    text, old, new = CHANGED[name]
    assert old in text
    after = HEAD + text.replace(old, new)
    assert fixed(RULE, HEAD + text) == after
    assert findings(RULE, after) == []


@pytest.mark.parametrize("name", CHANGED)
def test_only_the_reader_can_tell(name: str) -> None:
    text = HEAD + CHANGED[name][0]
    found = {one.fix.safety for one in findings(RULE, text) if one.fix is not None}
    assert found == ({Safety.SAFE} if name == "an alias that is only saved" else {Safety.UNSAFE})


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []
