"""reorder-to: where the move goes, which ones stay, and what is left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rewrite import apply, merge, select, text_edits
from devfix.rules.reorder_to import ReorderTo
from devfix.text.source import Source

RULE = ReorderTo()
HEAD = """\
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
x = torch.ones(1, 4, device=device)
"""
GROWN = """\
class Grown(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.setup()

    def resize(self, n):
        new = nn.Linear(4, n)
        kept = self.head.weight.data[:n]
        new.weight.data[:2] = kept
        self.head = new

    def setup(self):
        pass
"""
ADAPTED = """\
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.low = nn.Linear(base.in_features, 4)
def adapt(model):
    for name, child in model.named_children():
        setattr(model, name, Adapted(child))
"""

# name: (before, after)
CHANGED = {
    "attribute": (
        "model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "nested attribute": (
        "model.cuda()\nmodel.body.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.body.head = nn.Linear(4, 2)\nmodel.cuda()\nmodel(x)\n",
    ),
    "subscript": (
        "model.to(device=device)\nmodel.layer[0] = nn.Linear(4, 2)\nmodel(x)\n",
        "model.layer[0] = nn.Linear(4, 2)\nmodel.to(device=device)\nmodel(x)\n",
    ),
    "setattr": (
        "model.to(device)\nsetattr(model, 'head', nn.Linear(4, 2))\nmodel(x)\n",
        "setattr(model, 'head', nn.Linear(4, 2))\nmodel.to(device)\nmodel(x)\n",
    ),
    "add_module and register_module": (
        "model.to(device)\nmodel.add_module('a', nn.Linear(4, 2))\n"
        "model.register_module('b', nn.Linear(4, 2))\nmodel(x)\n",
        "model.add_module('a', nn.Linear(4, 2))\n"
        "model.register_module('b', nn.Linear(4, 2))\nmodel.to(device)\nmodel(x)\n",
    ),
    "append, extend and insert": (
        "model.to(device)\nmodel.append(nn.Linear(4, 4))\nmodel.insert(0, nn.Linear(4, 4))\n"
        "model.layers.extend([nn.Linear(4, 4)])\nmodel(x)\n",
        "model.append(nn.Linear(4, 4))\nmodel.insert(0, nn.Linear(4, 4))\n"
        "model.layers.extend([nn.Linear(4, 4)])\nmodel.to(device)\nmodel(x)\n",
    ),
    "a parameter": (
        "model.to(device)\nmodel.scale = nn.Parameter(torch.ones(4))\nmodel(x)\n",
        "model.scale = nn.Parameter(torch.ones(4))\nmodel.to(device)\nmodel(x)\n",
    ),
    "a container of an old and a new layer": (
        "model.to(device)\nmodel.fc = nn.Sequential(model.fc, nn.Linear(4, 4))\nmodel(x)\n",
        "model.fc = nn.Sequential(model.fc, nn.Linear(4, 4))\nmodel.to(device)\nmodel(x)\n",
    ),
    "rebinding": (
        "model = model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.head = nn.Linear(4, 2)\nmodel = model.to(device)\nmodel(x)\n",
    ),
    "in one expression": (
        "net = nn.Sequential(nn.Linear(4, 4)).to(device)\nnet.head = nn.Linear(4, 2)\nnet(x)\n",
        "net = nn.Sequential(nn.Linear(4, 4))\nnet.head = nn.Linear(4, 2)\nnet.to(device)\nnet(x)\n",
    ),
    "in one expression, of a class out of sight": (
        "net = Net().to(device)\nnet.eval()\nnet.head = nn.Linear(4, 2)\nnet(x)\n",
        "net = Net()\nnet.eval()\nnet.head = nn.Linear(4, 2)\nnet.to(device)\nnet(x)\n",
    ),
    "both arms of an if": (
        "if small:\n    model = nn.Sequential(nn.Linear(4, 4))\n    model.to(device)\n"
        "else:\n    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\n    model.to(device)\n"
        "model.head = nn.Linear(4, 2)\nmodel(x)\n",
        "if small:\n    model = nn.Sequential(nn.Linear(4, 4))\n"
        "else:\n    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\n"
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "both arms, one of them on the CPU": (
        "if test:\n    model = nn.Sequential(nn.Linear(4, 4))\n    device = 'cpu'\n    model.to(device)\n"
        "else:\n    model = nn.Sequential(nn.Linear(4, 4))\n"
        "    device = torch.device('cuda')\n    model.to(device)\n"
        "model.head = nn.Linear(4, 2)\nmodel(x.to(device))\n",
        "if test:\n    model = nn.Sequential(nn.Linear(4, 4))\n    device = 'cpu'\n"
        "else:\n    model = nn.Sequential(nn.Linear(4, 4))\n    device = torch.device('cuda')\n"
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x.to(device))\n",
    ),
    "the move has a condition of its own": (
        "if use_cuda:\n    model.cuda()\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.head = nn.Linear(4, 2)\nif use_cuda:\n    model.cuda()\nmodel(x)\n",
    ),
    "the move shares its condition": (
        "if use_cuda:\n    print('GPU')\n    model.cuda()\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "if use_cuda:\n    print('GPU')\nmodel.head = nn.Linear(4, 2)\n"
        "if use_cuda:\n    model.cuda()\nmodel(x)\n",
    ),
    "changes in a loop": (
        "model.to(device)\nfor i in range(2):\n    model.append(nn.Linear(4, 4))\nmodel(x)\n",
        "for i in range(2):\n    model.append(nn.Linear(4, 4))\nmodel.to(device)\nmodel(x)\n",
    ),
    "changes in arms of an if": (
        "model.to(device)\nif big:\n    model.head = nn.Linear(4, 9)\n"
        "else:\n    model.head = nn.Linear(4, 2)\nmodel(x)\n",
        "if big:\n    model.head = nn.Linear(4, 9)\nelse:\n"
        "    model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "used in between": (
        "model.to(device)\nmodel(x)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\nmodel(x)\nmodel.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "handed to code out of sight in between": (
        "model.to(device)\nwarm_up(model)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\nwarm_up(model)\nmodel.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "run by a function of the file in between": (
        "def run(m, x):\n    return m(x)\nmodel.to(device)\n"
        "run(model, x)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "def run(m, x):\n    return m(x)\nmodel.to(device)\nrun(model, x)\nmodel.head = nn.Linear(4, 2)\n"
        "model.to(device)\nmodel(x)\n",
    ),
    "handed on by a function of the file in between": (
        "def run(m):\n    return other(m)\nmodel.to(device)\n"
        "run(model)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "def run(m):\n    return other(m)\nmodel.to(device)\nrun(model)\nmodel.head = nn.Linear(4, 2)\n"
        "model.to(device)\nmodel(x)\n",
    ),
    "part of another module that is run in between": (
        "model.to(device)\nboth = nn.Sequential(model, nn.ReLU())\nboth(x)\nmodel.head = nn.Linear(4, 2)\n"
        "model(x)\n",
        "model.to(device)\nboth = nn.Sequential(model, nn.ReLU())\nboth(x)\nmodel.head = nn.Linear(4, 2)\n"
        "model.to(device)\nmodel(x)\n",
    ),
    "its tensors are looked at in between": (
        "model.to(device)\nmean = model[0].weight.mean() + x.mean()\n"
        "model.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\nmean = model[0].weight.mean() + x.mean()\nmodel.head = nn.Linear(4, 2)\n"
        "model.to(device)\nmodel(x)\n",
    ),
    "the optimizer's state is loaded in between": (
        "model.to(device)\nopt = torch.optim.Adam(model.parameters())\nopt.load_state_dict(state)\n"
        "model.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\nopt = torch.optim.Adam(model.parameters())\nopt.load_state_dict(state)\n"
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "some other state is loaded in between": (
        "opt = torch.optim.Adam(model.parameters())\nmodel.to(device)\nopt.load_state_dict(state)\n"
        "model.head = nn.Linear(4, 2)\nmodel(x)\n",
        "opt = torch.optim.Adam(model.parameters())\nmodel.to(device)\nopt.load_state_dict(state)\n"
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "before DistributedDataParallel": (
        "model.to(device)\nmodel.head = nn.Linear(4, 2)\n"
        "model = nn.parallel.DistributedDataParallel(model)\nmodel(x)\n",
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\n"
        "model = nn.parallel.DistributedDataParallel(model)\nmodel(x)\n",
    ),
    "a function of the file attaches": (
        ADAPTED + "model.to(device)\nadapt(model)\nmodel(x)\n",
        ADAPTED + "adapt(model)\nmodel.to(device)\nmodel(x)\n",
    ),
    "moved again on one way only": (
        ADAPTED + "model.to(device)\nadapt(model)\nif ddp:\n    model.to(device)\nmodel(x)\n",
        ADAPTED + "adapt(model)\nmodel.to(device)\nif ddp:\n    model.to(device)\nmodel(x)\n",
    ),
    "self in __init__": (
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        "        self.a = nn.Linear(4, 4)\n        self.to(device)\n        self.b = nn.Linear(4, 2)\n",
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        "        self.a = nn.Linear(4, 4)\n        self.b = nn.Linear(4, 2)\n        self.to(device)\n",
    ),
    "the device is bound anew": (
        "model.to(device)\ndevice = other()\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\ndevice = other()\nmodel.head = nn.Linear(4, 2)\n"
        "model.to(next(model.parameters()).device)\nmodel(x)\n",
    ),
    "the move is in a function": (
        "def put(m, device):\n    m.to(device)\nput(model, device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "def put(m, device):\n    m.to(device)\nput(model, device)\n"
        "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "comments and trailing comments": (
        "\n# to the GPU\nmodel.to(device)  # now\n\nmodel.head = nn.Linear(4, 2)  # two classes\nmodel(x)\n",
        "\nmodel.head = nn.Linear(4, 2)  # two classes\n# to the GPU\nmodel.to(device)  # now\nmodel(x)\n",
    ),
    # --- moved too late
    "run on the device before the move": (
        "y = model(x)\nmodel.to(device)\nmodel(y)\n",
        "model.to(device)\ny = model(x)\nmodel(y)\n",
    ),
    "wrapped before the move": (
        "wrapped = nn.parallel.DistributedDataParallel(model)\nmodel.to(device)\nwrapped(x)\n",
        "model.to(device)\nwrapped = nn.parallel.DistributedDataParallel(model)\nwrapped(x)\n",
    ),
    "wrapped in an arm, moved behind it": (
        "if many:\n    model = nn.parallel.DistributedDataParallel(model)\nmodel.to(device)\nmodel(x)\n",
        "model.to(device)\nif many:\n    model = nn.parallel.DistributedDataParallel(model)\nmodel(x)\n",
    ),
    "wrapped in one arm or the other": (
        "if many:\n    model = nn.parallel.DistributedDataParallel(model)\nelif some:\n"
        "    model = nn.DataParallel(model)\nmodel.cuda()\nmodel(x)\n",
        "model.cuda()\nif many:\n    model = nn.parallel.DistributedDataParallel(model)\nelif some:\n"
        "    model = nn.DataParallel(model)\nmodel(x)\n",
    ),
    "wrapped in an arm, moved under a condition": (
        "if many:\n    wrapped = nn.parallel.DistributedDataParallel(model)\nif gpu:\n    model.cuda()\nmodel(x)\n",
        "if gpu:\n    model.cuda()\nif many:\n    wrapped = nn.parallel.DistributedDataParallel(model)\nmodel(x)\n",
    ),
    "wrapped in an arm that chooses the GPU": (
        "if many:\n    torch.cuda.set_device(1)\n"
        "    model = nn.parallel.DistributedDataParallel(model)\nmodel.cuda()\nmodel(x)\n",
        "if many:\n    torch.cuda.set_device(1)\n    model.cuda()\n"
        "    model = nn.parallel.DistributedDataParallel(model)\nmodel.cuda()\nmodel(x)\n",
    ),
    "another module in the other arm": (
        "if many:\n    net = nn.parallel.DistributedDataParallel(model, device_ids=[0])\nelse:\n"
        "    net = nn.Linear(4, 4)\nnet.cuda()\nnet(x)\n",
        "if many:\n    model.cuda()\n    net = nn.parallel.DistributedDataParallel(model, device_ids=[0])\nelse:\n"
        "    net = nn.Linear(4, 4)\nnet.cuda()\nnet(x)\n",
    ),
    "run in an arm before the move": (
        "if probe:\n    print(model(x))\nmodel.to(device)\nmodel(x)\n",
        "model.to(device)\nif probe:\n    print(model(x))\nmodel(x)\n",
    ),
    "changed and run in an arm": (
        "model.to(device)\nif tune:\n    model.head = nn.Linear(4, 2)\n    model(x)\nelse:\n    model(x)\n",
        "model.to(device)\nif tune:\n    model.head = nn.Linear(4, 2)\n    model.to(device)\n    model(x)\nelse:\n"
        "    model(x)\n",
    ),
    "left before it is changed": (
        "for i in steps:\n    model.to(device)\n    if i > 1:\n        break\n    model.head = nn.Linear(4, 2)\n"
        "    model(x)\n",
        "for i in steps:\n    model.to(device)\n    if i > 1:\n        break\n    model.head = nn.Linear(4, 2)\n"
        "    model.to(device)\n    model(x)\n",
    ),
    "a probe in __init__, with layers to come": (
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(1, 4, 3)\n"
        "        n = self.conv(torch.zeros(1, 1, 8, 8, device=device)).numel()\n"
        "        self.fc = nn.Linear(n, 2)\n        self.to(device)\n",
        "class Net(nn.Module):\n    def __init__(self, device):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(1, 4, 3)\n        self.to(device)\n"
        "        n = self.conv(torch.zeros(1, 1, 8, 8, device=device)).numel()\n"
        "        self.fc = nn.Linear(n, 2)\n        self.to(device)\n",
    ),
}

UNSAFE = {
    "what DataParallel holds": (
        "model.to(device)\nmodel = nn.DataParallel(model)\nmodel.module.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.to(device)\nmodel = nn.DataParallel(model)\nmodel.module.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "a layer by the name of its class": (
        "from heads import ArcFaceHead\nmodel.to(device)\nmodel.head = ArcFaceHead(4, 2)\nmodel(x)\n",
        "from heads import ArcFaceHead\nmodel.head = ArcFaceHead(4, 2)\nmodel.to(device)\nmodel(x)\n",
    ),
    "the move casts, too": (
        "model.to(device, torch.float64)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
        "model.head = nn.Linear(4, 2)\nmodel.to(device, torch.float64)\nmodel(x)\n",
    ),
    "moved in one branch": (
        "if vectors:\n    model[0].weight.data.copy_(vectors)\n    model.to(device)\nmodel(x)\n",
        "if vectors:\n    model[0].weight.data.copy_(vectors)\nmodel.to(device)\nmodel(x)\n",
    ),
    "a swapped layer": (
        "def swap(parent, name, old):\n    new = Quantized(old.in_features, old.out_features)\n"
        "    setattr(parent, name, new)\n",
        "def swap(parent, name, old):\n    new = Quantized(old.in_features, old.out_features)\n"
        "    new.to(old.weight.device)\n    setattr(parent, name, new)\n",
    ),
    "a swapped layer without a name": (
        "def swap(parent, name, old):\n"
        "    parent._modules[name] = Quantized(old.in_features, old.out_features)\n",
        "def swap(parent, name, old):\n"
        "    parent._modules[name] = Quantized(old.in_features, old.out_features).to(old.weight.device)\n",
    ),
    "a swapped layer that shares its weight": (
        "def swap(parent, name, new, old):\n    setattr(parent, name, new)\n    new.weight = old.weight\n"
        "    if old.bias is not None:\n        new.bias = old.bias\n",
        "def swap(parent, name, new, old):\n    setattr(parent, name, new)\n    new.weight = old.weight\n"
        "    if old.bias is not None:\n        new.bias = old.bias\n    new.to(old.weight.device)\n",
    ),
    "a wrapper's parameters": (
        "class Scaled(nn.Module):\n    def __init__(self, base, r):\n        super().__init__()\n"
        "        self.base = base\n        self.a = nn.Parameter(torch.randn(r, base.in_features))\n"
        "def wrap(models, name):\n    for m in models:\n"
        "        setattr(m, name, Scaled(getattr(m, name), 4))\n",
        "class Scaled(nn.Module):\n    def __init__(self, base, r):\n        super().__init__()\n"
        "        self.base = base\n"
        "        self.a = nn.Parameter(torch.randn(r, base.in_features, device=base.weight.device))\n"
        "def wrap(models, name):\n    for m in models:\n"
        "        setattr(m, name, Scaled(getattr(m, name), 4))\n",
    ),
    "an average that takes what is loaded": (
        "from diffusers.training_utils import EMAModel\ndef main(accelerator):\n    ema = EMAModel(model)\n"
        "    def hook(path):\n        ema.load_state_dict(EMAModel.from_pretrained(path).state_dict())\n"
        "    accelerator.register(hook)\n    ema.to(accelerator.device)\n",
        "from diffusers.training_utils import EMAModel\ndef main(accelerator):\n    ema = EMAModel(model)\n"
        "    def hook(path):\n        ema.load_state_dict(EMAModel.from_pretrained(path).state_dict())\n"
        "        ema.to(accelerator.device)\n"
        "    accelerator.register(hook)\n    ema.to(accelerator.device)\n",
    ),
}

SILENT = {
    "what DataParallel holds, moved by itself": "model.to(device)\nmodel = nn.DataParallel(model)\n"
    "model.module.head = nn.Linear(4, 2)\nmodel.module.head = model.module.head.to(device)\nmodel(x)\n",
    "what DataParallel holds, moved with it": "model = nn.DataParallel(model.to(device))\n"
    "model.module.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    "a method that makes a layer anew as the object is made": GROWN.replace("self.setup()", "self.resize(3)"),
    "a method that makes a layer with weights of its own": GROWN.replace(
        "kept = self.head.weight.data[:n]", "kept = 1"
    ),
    "a method that moves the layer that it makes": GROWN.replace(
        "self.head = new", "self.head = new.to(device)"
    ),
    "made of the weights that it takes over": (
        "class Low(nn.Linear):\n    def __init__(self, size, weight):\n        super().__init__(size, size)\n"
        "        self.weight = weight\n\n\nmodel.to(device)\n"
        "model.head = Low(size=4, weight=model.head.weight)\nmodel(x)\n"
    ),
    "moved after": "model.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    "made here and never run": (
        "def f():\n    net = nn.Sequential(nn.Linear(4, 4))\n    if torch.cuda.is_available():\n        net.to('cuda')\n"
        "    net.register_parameter('scale', nn.Parameter(torch.zeros(1)))\n    print(net.dtype)\n"
    ),
    "moved again": "model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel.to(device)\nmodel(x)\n",
    "moved again after a function attached": ADAPTED
    + "model.to(device)\nadapt(model)\nmodel.to(device)\nmodel(x)\n",
    "moved again on every way": (
        "model.to(device)\nmodel.head = nn.Linear(4, 2)\nif ddp:\n"
        "    model.to(device)\nelse:\n    model.to(device)\nmodel(x)\n"
    ),
    "moved again where there is a GPU": (
        "if use_cuda:\n    model.cuda()\nmodel.head = nn.Linear(4, 2)\n"
        "if use_cuda:\n    model.cuda()\nmodel(x)\n"
    ),
    "on the device already": "model.to(device)\nmodel.head = nn.Linear(4, 2).to(device)\nmodel(x)\n",
    "made on the device": "model.to(device)\nmodel.head = nn.Linear(4, 2, device=device)\nmodel(x)\n",
    "moved by itself": "model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel.head.to(device)\nmodel(x)\n",
    "its parent is moved": "model.to(device)\nmodel.a.head = nn.Linear(4, 2)\nmodel.a.to(device)\nmodel(x)\n",
    "nothing to move": (
        "model.to(device)\nmodel.act = nn.GELU()\n"
        "model.drop = nn.Dropout(0.1)\nmodel.head = nn.Identity()\nmodel(x)\n"
    ),
    "on the CPU": "device = torch.device('cpu')\nmodel.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
    "never moved": "model.head = nn.Linear(4, 2)\nmodel(x)\n",
    "only a dtype": "model.to(torch.float64)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n",
    "other arm": (
        "if a:\n    model.to(device)\n    model(x)\nelse:\n    model.head = nn.Linear(4, 2)\n    model(x)\n"
    ),
    "left before": (
        "def f(a):\n    if a:\n        model.to(device)\n"
        "        return model(x)\n    model.head = nn.Linear(4, 2)\n"
    ),
    "accelerate": (
        "from accelerate import Accelerator\naccelerator = Accelerator()\nmodel.to(accelerator.device)\n"
        "model.head = nn.Linear(4, 2)\nmodel = accelerator.prepare(model)\nmodel(x)\n"
    ),
    "Trainer": (
        "from transformers import Trainer\nmodel.to(device)\nmodel.head = nn.Linear(4, 2)\n"
        "trainer = Trainer(model=model)\ntrainer.train()\n"
    ),
    "another model": "model.to(device)\nother = nn.Sequential()\nother.head = nn.Linear(4, 2)\nmodel(x)\n",
    "the caller moves what is returned": (
        "def make(d):\n    m = nn.Sequential(nn.Linear(4, 4))\n"
        "    m.to(d)\n    m.head = nn.Linear(4, 2)\n    return m\n"
        "net = make(device)\nnet.to(device)\nnet(x)\n"
    ),
    "a default device": (
        "torch.set_default_device('cuda')\nmodel.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel(x)\n"
    ),
    "a helper that is called before the move": (
        "def swap(model):\n    for name, old in model.named_children():\n"
        "        setattr(model, name, nn.Linear(old.in_features, old.out_features))\n"
        "swap(model)\nmodel.to(device)\nmodel(x)\n"
    ),
    "a helper that minds the device": (
        "def swap(parent, name, old):\n"
        "    new = Quantized(old.in_features, old.out_features, device=old.weight.device)\n"
        "    setattr(parent, name, new)\n"
    ),
    "a torch layer whose weights are all shared": (
        "def swap(parent, name, old):\n    new = nn.Linear(old.in_features, old.out_features)\n"
        "    new.weight = old.weight\n    new.bias = old.bias\n    setattr(parent, name, new)\n"
    ),
    "a model around a backbone": (
        "class Classifier(nn.Module):\n    def __init__(self, backbone):\n        super().__init__()\n"
        "        self.backbone = backbone\n"
        "        self.token = nn.Parameter(torch.zeros(1, backbone.embed_dim))\n"
        "model.to(device)\nnet = Classifier(model)\n"
    ),
    "a branch about devices": "if torch.cuda.is_available():\n    model.to(device)\nmodel(x)\n",
    "a branch about something that is not there": "if model is not None:\n    model.to(device)\nmodel(x)\n",
    "DataParallel before the move": "model = nn.DataParallel(model)\nmodel.to(device)\nmodel(x)\n",
    "moved in one go with its making, then wrapped in an arm": (
        "net = nn.Linear(4, 4).to(device)\nif many:\n    net = nn.parallel.DistributedDataParallel(net)\n"
        "net.to(device)\nnet(x)\n"
    ),
    "of a class out of sight, moved in one go with its making": (
        "net = make(4).to(device)\nif many:\n    net = nn.parallel.DistributedDataParallel(net)\n"
        "net.to(device)\nnet(x)\n"
    ),
    "moved in one go with its making, then its optimizer restored": (
        "net = nn.Linear(4, 4).to(device)\nopt = torch.optim.Adam(net.parameters())\n"
        "opt.load_state_dict(state)\nnet.to(device)\nnet(x)\n"
    ),
    "an optimizer without state, before the move": (
        "opt = torch.optim.Adam(model.parameters())\n"
        "model.load_state_dict(state)\nmodel.to(device)\nmodel(x)\n"
    ),
}


def level(text: str) -> list[Safety]:
    return [f.fix.safety for f in findings(RULE, text) if f.fix is not None]


@pytest.mark.parametrize("name", CHANGED)
def test_safe_fix(name: str) -> None:
    before, after = CHANGED[name]
    lowest = Safety.UNSAFE if name == "the device is bound anew" else Safety.SAFE
    assert fixed(RULE, HEAD + before, lowest) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_fix(name: str) -> None:
    before, after = UNSAFE[name]
    assert level(HEAD + before) == [Safety.UNSAFE]
    assert fixed(RULE, HEAD + before, Safety.UNSAFE) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


@pytest.mark.parametrize(
    "last", ["holder.net = net", "run(net)", "net(x)", "return net", "return lambda: net(x)"]
)
def test_not_silent_where_others_may_run_it(last: str) -> None:
    text = "def f(holder):\n    net = nn.Sequential(nn.Linear(4, 4))\n    net.to(device)\n"
    text += f"    net.register_parameter('scale', nn.Parameter(torch.zeros(1)))\n    {last}\n"
    assert len(findings(RULE, HEAD + text)) == 1


def test_message_names_both_places() -> None:
    text = HEAD + "model.to(device)\nmodel.head = nn.Linear(4, 2)\nmodel.tail = nn.Linear(2, 2)\nmodel(x)\n"
    (finding,) = findings(RULE, text)
    assert finding.message == (
        "`model` was moved to `device` on line 6; `model.head`, attached on line 7 and `model.tail`, "
        "attached on line 8, stay on the CPU, so running `model` on line 9 raises on an accelerator"
    )
    (related,) = finding.related
    assert text[related.span.start : related.span.end] == "model.to(device)"


def test_a_finding_without_a_place_for_a_fix() -> None:
    run = "def run(m, x):\n    return m(x)\nmodel.to(device)\n"
    (finding,) = findings(RULE, HEAD + run + "run(model, setattr(model, 'h', nn.Linear(2, 2)))\n")
    assert finding.fix is None


@pytest.mark.parametrize(
    "text",
    [
        "for m in data:\n    model(x)\n    with torch.cuda.device(m):\n        model.to(device)\n",
        "try:\n    y = nn.parallel.DistributedDataParallel(model)\nfinally:\n    model.to(device)\n",
        "if many:\n    model(x)\nfor i in many:\n    model.to(device)\n",
        "if vectors:\n    model.to(device)\n    check(model)\nmodel(x)\n",
        "def f():\n    model = nn.Linear(4, 4)\n    if vectors:\n        model.to(device)\n        return model\n"
        "    return model(x)\n",
    ],
    ids=["another context", "the last part of a try", "a loop", "needed in the branch", "left in the branch"],
)
def test_a_move_that_cannot_go_elsewhere(text: str) -> None:
    assert [f.fix for f in findings(RULE, HEAD + text) if f.fix is not None] == []


def test_fixes_of_two_models_go_together() -> None:
    text = HEAD + "".join(f"{m} = nn.Sequential()\n{m}.to(device)\n{m}.h = nn.Linear(2, 2)\n" for m in "ab")
    after = HEAD + "".join(f"{m} = nn.Sequential()\n{m}.h = nn.Linear(2, 2)\n{m}.to(device)\n" for m in "ab")
    source = Source(text)
    edits = [text_edits(source, f.fix) for f in findings(RULE, text) if f.fix is not None]
    assert len(edits) == 2
    assert select(edits) == (0, 1)
    assert apply(text, merge(edits)) == after


@pytest.mark.parametrize(
    ("made", "safety"), [("nn.Linear(2, 2)", Safety.SAFE), ("deepcopy(old)", Safety.UNSAFE)]
)
def test_a_copy_does_not_follow_the_original(made: str, safety: Safety) -> None:
    text = (
        "from copy import deepcopy\n\nimport torch\nfrom torch import nn\n\nold = nn.Linear(2, 2)\n"
        'model = nn.Sequential()\nmodel.to("cuda")\n'
        f'model.head = {made}\nmodel(torch.ones(2, device="cuda"))\n'
    )
    found = [one.fix.safety for one in findings(RULE, text) if one.fix is not None]
    assert found == [safety]


def test_one_of_two_modules_of_a_class_in_view() -> None:
    """The state after an `if` has one module for both: the moves of both come too early."""
    head = HEAD + "class Net(nn.Sequential):\n    pass\n\n\n"
    one, other = "    model = Net(nn.Linear(4, 4))\n", "    model = Net(nn.Linear(4, 4), nn.ReLU())\n"
    move, late = "    model.to(device)\n", "model.head = nn.Linear(4, 2)\n"
    before = f"{head}if x.requires_grad:\n{one}{move}else:\n{other}{move}{late}model(x)\n"
    after = f"{head}if x.requires_grad:\n{one}else:\n{other}{late}model.to(device)\nmodel(x)\n"
    assert fixed(RULE, before, Safety.SAFE) == after


def test_elements_of_a_parameter_are_no_surgery() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Codes(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.centers = nn.Parameter(torch.zeros(3, 4))\n\n"
        "    def other(self):\n        new = Codes().to(self.centers.device)\n"
        "        new.centers{at} = self.centers\n        return new\n"
    )
    assert not findings(RULE, text.format(at="[0, :]"))


def test_a_class_that_moves_its_parts_itself() -> None:
    """On several GPUs it scatters its tables when it is run: nobody knows that it fails."""
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Linear(4, 4)])
    def scatter(self):
        for i, table in enumerate(self.tables):
            self.tables[i] = table.to(f"cuda:{i}")
    def forward(self, x):
        self.scatter()
        return self.tables[0](x)
net = Net()
net = net.to(device)
net.tables = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
net(x)
"""
    assert fixed(RULE, HEAD + net, Safety.SAFE) == HEAD + net
    still = net.replace("        self.scatter()\n", "").replace('.to(f"cuda:{i}")', ".float()")
    assert fixed(RULE, HEAD + still, Safety.SAFE) != HEAD + still


def test_what_a_loop_makes_again_is_new() -> None:
    made = """\
class Waves(nn.Module):
    pass
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
class Block(nn.Module):
    def __init__(self, device, waves):
        super().__init__()
        self.device = device
        self.waves = waves
        self.add_module("part", Part())
        self.to(self.device)
class Net(nn.Module):
    def __init__(self, n, device="cpu", waves=False):
        super().__init__()
        self.waves = Waves() if waves else None
        if waves:
            self.waves = Waves()
        for i in range(n):
            self.add_module("block_%d" % i, Block(device=device, waves=self.waves))
"""
    assert findings(RULE, HEAD + made) == []


@pytest.mark.parametrize("stored", ["weight = old.weight", "weight.data = old.weight.data"])
def test_a_new_layer_that_gets_its_parameters_from_the_old_one(stored: str) -> None:
    fused = f"""\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
    def fuse(self):
        old = self.first
        self.first = nn.Linear(4, 4, bias=False)
        self.first.{stored}
    def forward(self, x):
        return self.first(x)
block = Block().to(device)
block(x)
block.fuse()
block(x)
"""
    assert findings(RULE, HEAD + fused) == []
    assert findings(RULE, HEAD + fused.replace(f"        self.first.{stored}\n", "")) != []


REPEATED = """\
import pytorch_lightning as pl
from torch import nn


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(3):
            self.layers.append(nn.Linear(2, 2))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Part()


def load(names):
    nets = {}
    for name in names:
        nets[name] = Net.load_from_checkpoint(name).cuda()
    return nets
"""


def test_what_one_expression_makes_and_moves_in_each_round_of_a_loop_is_not_made_again() -> None:
    assert findings(RULE, REPEATED) == []
