"""module-never-moved: which modules are left behind, where they are moved, and what is left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.module_never_moved import ModuleNeverMoved

RULE = ModuleNeverMoved()
HEAD = """\
import copy
import torch
import torchaudio
import torchmetrics
from torch import nn
from transformers import AutoModel, AutoTokenizer
from nets import Discriminator, prepare_model
from losses import calc_loss
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


"""

# name: (before, after)
CHANGED = {
    "a network of the file": (
        "def run(loader):\n    net = Net()\n    for x in loader:\n        net(x.to(device))\n",
        "def run(loader):\n    net = Net().to(device)\n    for x in loader:\n        net(x.to(device))\n",
    ),
    "a network of another file": (
        "def run(x):\n    net = Discriminator()\n    net.train()\n    return net(x.cuda())\n",
        "def run(x):\n    net = Discriminator().cuda()\n    net.train()\n    return net(x.cuda())\n",
    ),
    "saved from the CPU every ten rounds, which a flag put on CUDA": (
        "has_cuda = torch.cuda.is_available()\nnet = Net()\nif has_cuda:\n    net = net.cuda()\n\n\n"
        "def step(x):\n    if has_cuda:\n        x = x.cuda()\n    return net(x)\n\n\n"
        "def train():\n    for i in range(100):\n        step(torch.ones(2, 4))\n        if i % 10 == 0:\n"
        "            torch.save(net.cpu().state_dict(), 'net.pt')\n\n\ntrain()\n",
        "has_cuda = torch.cuda.is_available()\nnet = Net()\nif has_cuda:\n    net = net.cuda()\n\n\n"
        "def step(x):\n    if has_cuda:\n        x = x.cuda()\n    return net(x)\n\n\n"
        "def train():\n    for i in range(100):\n        step(torch.ones(2, 4))\n        if i % 10 == 0:\n"
        "            torch.save(net.cpu().state_dict(), 'net.pt')\n"
        '            if has_cuda:\n                net.to("cuda")\n\n\ntrain()\n',
    ),
    "from a function of the file": (
        "def build():\n    return Net()\n\n\ndef run(x):\n    net = build()\n    return net(x.to(device))\n",
        "def build():\n    return Net()\n\n\ndef run(x):\n    net = build().to(device)\n"
        "    return net(x.to(device))\n",
    ),
    "class weights": (
        "def run(x, y):\n    ce = nn.CrossEntropyLoss(weight=torch.ones(2))\n"
        "    return ce(x.to(device), y.to(device))\n",
        "def run(x, y):\n    ce = nn.CrossEntropyLoss(weight=torch.ones(2)).to(device)\n"
        "    return ce(x.to(device), y.to(device))\n",
    ),
    "a loss around a pretrained network": (
        "from torchvision import models\n\n\nclass P(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.v = models.vgg16().features\n\n    def forward(self, x):\n"
        "        return self.v(x)\n\n\ndef run(x):\n    p = P()\n    return p(x.to(device))\n",
        "from torchvision import models\n\n\nclass P(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.v = models.vgg16().features\n\n    def forward(self, x):\n"
        "        return self.v(x)\n\n\ndef run(x):\n    p = P().to(device)\n    return p(x.to(device))\n",
    ),
    "a metric": (
        "def run(x, y):\n    acc = torchmetrics.Accuracy()\n    acc.update(x.to(device), y.to(device))\n",
        "def run(x, y):\n    acc = torchmetrics.Accuracy().to(device)\n"
        "    acc.update(x.to(device), y.to(device))\n",
    ),
    "a resampler": (
        "def run(path, gpu):\n    down = torchaudio.transforms.Resample(48000, 16000)\n"
        "    wave, rate = torchaudio.load(path)\n    return down(wave.to(gpu)).cpu()\n",
        "def run(path, gpu):\n    down = torchaudio.transforms.Resample(48000, 16000).to(gpu)\n"
        "    wave, rate = torchaudio.load(path)\n    return down(wave.to(gpu)).cpu()\n",
    ),
    "an EMA copy": (
        "def run(x):\n    net = Net()\n    ema = copy.deepcopy(net)\n    net.to(device)\n    x = x.to(device)\n"
        "    return net(x) - ema(x)\n",
        "def run(x):\n    net = Net()\n    ema = copy.deepcopy(net).to(device)\n    net.to(device)\n"
        "    x = x.to(device)\n    return net(x) - ema(x)\n",
    ),
    "pretrained, and tokenizer output": (
        "def run(text):\n    tok = AutoTokenizer.from_pretrained('m')\n    m = AutoModel.from_pretrained('m')\n"
        "    batch = tok(text, return_tensors='pt').to(device)\n    return m(**batch)\n",
        "def run(text):\n    tok = AutoTokenizer.from_pretrained('m')\n"
        "    m = AutoModel.from_pretrained('m').to(device)\n"
        "    batch = tok(text, return_tensors='pt').to(device)\n    return m(**batch)\n",
    ),
    "run by a function of the file": (
        "def step(net, x, dev):\n    return net(x.to(dev))\n\n\ndef run(x):\n    net = Net()\n"
        "    return step(net, x, device)\n",
        "def step(net, x, dev):\n    return net(x.to(dev))\n\n\ndef run(x):\n    net = Net().to(device)\n"
        "    return step(net, x, device)\n",
    ),
    "the device comes later": (
        "def run(x):\n    net = Net()\n    dev = torch.device('cuda:1')\n    return net(x.to(dev))\n",
        "def run(x):\n    net = Net()\n    dev = torch.device('cuda:1')\n    net.to(dev)\n"
        "    return net(x.to(dev))\n",
    ),
    "an object that is no module": (
        "class T:\n    def __init__(self, args):\n        self.device = args.device\n        self.net = Net()\n"
        "\n    def run(self, x):\n        return self.net(x.to(self.device))\n",
        "class T:\n    def __init__(self, args):\n        self.device = args.device\n"
        "        self.net = Net().to(self.device)\n"
        "\n    def run(self, x):\n        return self.net(x.to(self.device))\n",
    ),
    "made in forward": (
        "class A(nn.Module):\n    def forward(self, x):\n        fc = nn.Linear(4, 2)\n        return fc(x)\n",
        "class A(nn.Module):\n    def forward(self, x):\n        fc = nn.Linear(4, 2).to(x.device)\n"
        "        return fc(x)\n",
    ),
    "made next to a .cuda()": (
        "def scale(w):\n    obs = torch.quantization.observer.MinMaxObserver()\n    obs(w)\n"
        "    s, z = obs.calculate_qparams()\n    return s.cuda(), z.cuda()\n",
        "def scale(w):\n    obs = torch.quantization.observer.MinMaxObserver().to(w.device)\n    obs(w)\n"
        "    s, z = obs.calculate_qparams()\n    return s.cuda(), z.cuda()\n",
    ),
    "handed over with the device, as another one is that was moved": (
        "a = Discriminator()\na.to(device)\na.train()\nb = Discriminator()\nb.train()\n"
        "loss = calc_loss(b, device)\n",
        "a = Discriminator()\na.to(device)\na.train()\nb = Discriminator().to(device)\nb.train()\n"
        "loss = calc_loss(b, device)\n",
    ),
    "a head is attached after it is made": (
        "def run(x):\n    net = Net()\n    setattr(net, 'fc', nn.Linear(4, 2))\n    net.fc = nn.Linear(4, 3)\n"
        "    print(net)\n    return net(x.to(device))\n",
        "def run(x):\n    net = Net()\n    setattr(net, 'fc', nn.Linear(4, 2))\n    net.fc = nn.Linear(4, 3)\n"
        "    net.to(device)\n    print(net)\n    return net(x.to(device))\n",
    ),
    "a function of the file attaches a head": (
        "def swap(net):\n    net.fc = nn.Linear(4, 3)\n\n\ndef run(x):\n    net = Net()\n    swap(net)\n"
        "    return net(x.to(device))\n",
        "def swap(net):\n    net.fc = nn.Linear(4, 3)\n\n\ndef run(x):\n    net = Net()\n    swap(net)\n"
        "    net.to(device)\n    return net(x.to(device))\n",
    ),
    "made in either arm, the device below": (
        "def run(x, big):\n    if big:\n        net = Net()\n    else:\n        net = Net()\n    net.eval()\n"
        "    dev = torch.device('cuda:1')\n    return net(x.to(dev))\n",
        "def run(x, big):\n    if big:\n        net = Net()\n    else:\n        net = Net()\n    net.eval()\n"
        "    dev = torch.device('cuda:1')\n    net.to(dev)\n    return net(x.to(dev))\n",
    ),
    "run by a function of the file on what it is given": (
        "def generate(net, ids):\n    for _ in range(3):\n        ids = net(ids[:, -8:])\n    return ids\n\n\n"
        "def run(text):\n    net = Net()\n    ids = torch.tensor([text], device=device)\n"
        "    return generate(net, ids)\n",
        "def generate(net, ids):\n    for _ in range(3):\n        ids = net(ids[:, -8:])\n    return ids\n\n\n"
        "def run(text):\n    net = Net().to(device)\n    ids = torch.tensor([text], device=device)\n"
        "    return generate(net, ids)\n",
    ),
    "run by a function out of sight": (
        "from helpers import generate\n\n\ndef run(ids):\n    net = Net()\n    net.eval()\n"
        "    return generate(net, ids.to(device))\n",
        "from helpers import generate\n\n\ndef run(ids):\n    net = Net().to(device)\n    net.eval()\n"
        "    return generate(net, ids.to(device))\n",
    ),
    "handed over with the device to what only computes": (
        "def run(batch):\n    net = Net()\n    net.eval()\n    return calc_loss(batch, net, device)\n",
        "def run(batch):\n    net = Net().to(device)\n    net.eval()\n    return calc_loss(batch, net, device)\n",
    ),
    "a network of another file, known by its name only": (
        "from vgg import Vgg16\n\n\ndef run(x):\n    vgg = Vgg16()\n    return vgg(x.to(device))\n",
        "from vgg import Vgg16\n\n\ndef run(x):\n    vgg = Vgg16().to(device)\n    return vgg(x.to(device))\n",
    ),
    "one entry of several": (
        'def main(parts):\n    parts["head"].eval()\n    parts["body"].to(device)\n    parts["nmf"].to(device)\n\n\n'
        "class Run:\n    def forward(self, x):\n        return self.parts.head(x)\n",
        'def main(parts):\n    parts["head"].eval()\n    parts["body"].to(device)\n    parts["nmf"].to(device)\n'
        '    parts["head"].to(device)\n\n\n'
        "class Run:\n    def forward(self, x):\n        return self.parts.head(x)\n",
    ),
    "one of two names that are bound again": (
        "m = Net()\nm(torch.ones(1, 4).to(device))\nm = Net()\nm.to(device)\nm(torch.ones(1, 4).to(device))\n",
        "m = Net().to(device)\nm(torch.ones(1, 4).to(device))\nm = Net()\nm.to(device)\n"
        "m(torch.ones(1, 4).to(device))\n",
    ),
}

SILENT = {
    "a layer without weights": "def run(x):\n    x = x.to(device)\n    pad = nn.ReplicationPad1d((1, 1))\n    return pad(x)\n",
    "a transform that is a function": "def run(x):\n    x = x.to(device)\n    return torchaudio.transforms.AmplitudeToDB()(x)\n",
    "a class of such layers": (
        "class Patches(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
        "        self.unfold = nn.Unfold(size)\n        self.bce = nn.BCEWithLogitsLoss(reduction='mean')\n"
        "    def forward(self, a, b):\n        return self.bce(self.unfold(a), self.unfold(b))\n"
        "def run(a, b):\n    patches = Patches(3)\n    return patches(a.to(device), b.to(device))\n"
    ),
    "a function of the file moves its parameters": (
        "def place(net):\n    for p in net.parameters():\n        p.data = p.data.to(device)\n\n\n"
        "def run(x):\n    net = Net()\n    place(net)\n    return net(x.to(device))\n"
    ),
    "a class of another file that may have no weights": (
        "from ops import Align\n\n\ndef run(x):\n    op = Align(4)\n    return op.forward(x.to(device))\n"
    ),
    "an encoder of labels": (
        "from codes import LabelEncoder\n\n\ndef run(x):\n    encoder = LabelEncoder()\n"
        "    return encoder.decode(x.to(device))\n"
    ),
    "fails on purpose": (
        "import pytest\n\n\ndef test(x):\n    net = Net()\n    with pytest.raises(RuntimeError):\n"
        "        net(x.to(device))\n"
    ),
    "handed over with the CPU": (
        "def run(batch):\n    net = Net()\n    net.eval()\n    where = 'cpu'\n"
        "    return calc_loss(batch, net, where)\n"
    ),
    "handed over to what trains it, and may move it": (
        "from helpers import train\n\n\ndef run(batch):\n    net = Net()\n    net.eval()\n"
        "    train(net, batch, device)\n"
    ),
    "loaded with arguments out of sight": (
        "def get(**more):\n    return AutoModel.from_pretrained('m', **more)\n\n\ndef run(x):\n"
        "    net = get(device_map=device)\n    return net(x.to(device))\n"
    ),
    "entries that something else looks after": (
        'def main(parts):\n    parts["body"].to(device)\n    parts["nmf"].to(device)\n\n\n'
        "class Run:\n    def forward(self, x):\n        return self.parts.head(x)\n"
    ),
    "moved further down": "def run(x):\n    m = Net()\n    m.to(device)\n    return m(x.to(device))\n",
    "on the CPU on purpose": "def run(x):\n    m = Net()\n    x = x.to(device)\n    return m(x.cpu())\n",
    "no weights": (
        "def run(x):\n    m = nn.Sequential(nn.ReLU(), nn.Dropout())\n    return m(x.to(device))\n"
    ),
    "a loss without weights": (
        "def run(x, y):\n    ce = nn.CrossEntropyLoss()\n    return ce(x.to(device), y.to(device))\n"
    ),
    "class weights that are on the device": (
        "def run(x, y):\n    w = torch.ones(2).to(device)\n    ce = nn.CrossEntropyLoss(weight=w)\n"
        "    return ce(x.to(device), y.to(device))\n"
    ),
    "a scalar weight": (
        "def run(x, y):\n    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))\n"
        "    return bce(x.to(device), y.to(device))\n"
    ),
    "a weight that may be a scalar": (
        "def run(x, y, bags):\n    w = torch.tensor(weigh(bags))\n    bce = nn.BCEWithLogitsLoss(w)\n"
        "    return bce(x.to(device), y.to(device))\n"
    ),
    "moved, and then wrapped by a class that adds a way to reach it": (
        "class Parallel(nn.DataParallel):\n    def __getattr__(self, name):\n        try:\n"
        "            return super().__getattr__(name)\n        except AttributeError:\n"
        "            return getattr(self.module, name)\n\n\n"
        "def run(x):\n    m = Net().to(device)\n    m = Parallel(m)\n    return m(x.to(device))\n"
    ),
    "moved in a loop over several": (
        "def run(x):\n    a, b = Net(), Net()\n    for m in (a, b):\n        m.to(device)\n"
        "    return a(x.to(device)) + b(x.to(device))\n"
    ),
    "handed to something out of sight": (
        "def run(x):\n    m = Net()\n    prepare_model(m)\n    return m(x.to(device))\n"
    ),
    "moved by its parent": (
        "def run(x):\n    m = nn.Linear(4, 2)\n    p = nn.Sequential(m).to(device)\n    return m(x.to(device))\n"
    ),
    "registered in a module": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.n = Net()\n\n"
        "    def forward(self, x):\n        return self.n(x.to(device))\n"
    ),
    "an object that can be moved": (
        "class T:\n    def __init__(self):\n        self.device = device\n        self.net = Net()\n\n"
        "    def to(self, d):\n        self.net.to(d)\n\n"
        "    def run(self, x):\n        return self.net(x.to(self.device))\n"
    ),
    "its parameters are moved": (
        "def run(x):\n    m = Net()\n    for p in m.parameters():\n        p.data = p.data.to(device)\n"
        "    return m(x.to(device))\n"
    ),
    "a global that another function moves": (
        "net = Net()\n\n\ndef start():\n    net.to(device)\n\n\ndef run(x):\n    return net(x.to(device))\n"
    ),
    "made there": "def run(x):\n    m = nn.Linear(4, 2, device=device)\n    return m(x.to(device))\n",
    "made under a device": (
        "def run(x):\n    with torch.device(device):\n        m = Net()\n    return m(x.to(device))\n"
    ),
    "accelerate": (
        "from accelerate import Accelerator\n\n\ndef run(x):\n    acc = Accelerator()\n    m = acc.prepare(Net())\n"
        "    return m(x.to(acc.device))\n"
    ),
    "offload hooks": (
        "def run(x):\n    m = Discriminator()\n    m.eval()\n    m.enable_group_offload(device)\n"
        "    return m(x.to(device))\n"
    ),
    "branches about devices": (
        "if torch.cuda.is_available():\n    m = Net().cuda()\nelse:\n    m = Net()\nm(torch.ones(1, 4))\n"
    ),
    "both branches moved further down": (
        "def run(a, x):\n    if a:\n        m = Net()\n    else:\n        m = Net().to(device)\n    m.to(device)\n"
        "    return m(x)\n"
    ),
    "moved by the helper that runs it": (
        "def step(net, x, dev):\n    net.to(dev)\n    return net(x.to(dev))\n\n\ndef run(x):\n    net = Net()\n"
        "    return step(net, x, device)\n"
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    before, after = CHANGED[name]
    assert fixed(RULE, HEAD + before) == HEAD + after
    assert findings(RULE, HEAD + after) == []


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


def test_safe_only_where_the_class_is_in_view() -> None:
    known, unknown = CHANGED["a network of the file"][0], CHANGED["a network of another file"][0]
    assert [f.fix and f.fix.safety for f in findings(RULE, HEAD + known)] == [Safety.SAFE]
    assert [f.fix and f.fix.safety for f in findings(RULE, HEAD + unknown)] == [Safety.UNSAFE]
    shared = known.replace("    for x in", "    loss.weight = net.weight\n    for x in")
    assert shared != known
    assert [f.fix and f.fix.safety for f in findings(RULE, HEAD + shared)] == [Safety.UNSAFE]
    filled = known.replace("Net()", "cell(gru)")
    head = (
        HEAD
        + "def cell(gru):\n    made = Net()\n    made.fc.weight.data = gru.weight_hh_l0.data\n    return made\n\n\n"
    )
    assert [f.fix and f.fix.safety for f in findings(RULE, head + filled)] in ([], [Safety.UNSAFE])
    plain = head.replace("    made.fc.weight.data = gru.weight_hh_l0.data\n", "")
    assert [f.fix and f.fix.safety for f in findings(RULE, plain + filled)] == [Safety.SAFE]
    derived = HEAD.replace("class Net(nn.Module)", "class Net(Discriminator, nn.Module)")
    assert derived != HEAD
    assert [f.fix and f.fix.safety for f in findings(RULE, derived + known)] == [Safety.UNSAFE]


def test_a_buffer_that_is_given_is_where_the_giver_has_it() -> None:
    text = """\
import torch
from torch import nn


class Root(nn.Module):
    def __init__(self, root):
        super().__init__()
        self.register_buffer("root", root)

    def forward(self, x):
        return x - self.root


def run(device):
    root = torch.zeros(3, device=device)
    model = Root(root)
    print(model(torch.ones(3, device=device)))
"""
    assert findings(ModuleNeverMoved(), text) == []


def test_a_literal_device_that_only_some_runs_have_is_not_written() -> None:
    text = HEAD + (
        "loader = torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2)\n"
        "teacher, model = Net(), Net()\nif args.cuda:\n    model.cuda()\n\n\n"
        "def train(model):\n    for data in loader:\n        if args.cuda:\n            data = data.cuda()\n"
        "        print((model(data) + teacher(data)).sum())\n\n\ntrain(model)\n"
    )
    assert '.to("cuda")' not in fixed(RULE, text)


UNPACKED = """
import torch
from parts import Encoder, Head
from settings import read
from torch.utils.data import DataLoader


def build(config, mode):
    if mode == 1:
        encoder = Encoder(config["width"])
        encoder.load_state_dict(torch.load(config["path"], map_location=config["device"]))
        head = Head(3)
        return encoder, head
    elif mode == 2:
        encoder = Encoder(config["width"])
        head = Head(3)
        return encoder, head
    raise ValueError(mode)


def main(data):
    config = read()
    device = config["device"]
    encoder, head = build(config, config["mode"]){0}
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()])
    for x in DataLoader(data):
        loss = head(encoder(x.to(device))).sum()
        loss.backward()
        optimizer.step()
"""


def test_modules_that_a_function_gives_in_a_tuple_are_moved_where_they_are_unpacked() -> None:
    """On each of its paths it makes others; the findings are shown where the moves are written."""
    before, after = UNPACKED.format(""), UNPACKED.format("\n    encoder.to(device)\n    head.to(device)")
    assert sorted(fixed(RULE, before).splitlines()) == sorted(after.splitlines())
    assert findings(RULE, after) == []
    lines = [before.count("\n", 0, one.span.start) + 1 for one in findings(RULE, before)]
    assert lines == [before.count("\n", 0, before.index("encoder, head = build")) + 1] * 2


PARTS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.body = nn.LSTM(4, 4)
        self.dense = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.drop = nn.Dropout()
        if config.gpu:
            self.body = self.body.cuda()
{0}            self.head = self.head.cuda()
            self.drop = self.drop.cuda()

    def forward(self, x):
        return self.head(self.drop(self.dense(self.body(x)[0])))
"""


def test_a_layer_that_is_left_out_where_a_constructor_moves_the_others() -> None:
    before, after = PARTS.format(""), PARTS.format("            self.dense = self.dense.cuda()\n")
    assert fixed(RULE, before) == after
    assert findings(RULE, after) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        if config", "        self.to(config.device)\n        if config"),
        ("nn.Linear(4, 4)", "nn.Linear(4, 4, device=config.device)"),
        ("self.dense(self.body(x)[0])", "self.body(x)[0]"),
        ("            self.drop = self.drop.cuda()\n", ""),
        ("self.dense = nn.Linear(4, 4)", "self.dense = nn.ReLU()"),
    ],
)
def test_a_layer_that_the_others_do_not_speak_of(old: str, new: str) -> None:
    assert old in PARTS
    assert findings(RULE, PARTS.format("").replace(old, new)) == []


HANDED = """\
import torch
from parts import Encoder, Head
from settings import read


def evaluate(encoder, head, data, device):
    encoder.eval()
    head.eval()
    for x in data:
        print(head(encoder(x.to(device))))


def main(data):
    device = read()["device"]
    encoder = Encoder(3){0}
    state = torch.load("x", map_location=device)
    encoder.load_state_dict(state["encoder"])
    last = Head(3){0}
    last.load_state_dict(state["head"])
    evaluate(encoder, last, data, device)
"""


def test_what_gets_its_state_and_is_passed_on_as_a_network_is_one() -> None:
    before, after = HANDED.format(""), HANDED.format(".to(device)")
    assert fixed(RULE, before).count("last = Head(3).to(device)") == 1
    assert findings(RULE, after) == []
