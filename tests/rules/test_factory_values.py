"""place-factory: new tensors are followed through wrappers, layers, loops, functions and what a class keeps."""

from __future__ import annotations

import re

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
HEAD = (
    "import torch\nfrom torch import nn\nfrom torch.autograd import Variable\n"
    "from torch.distributions import Normal\nfrom einops import rearrange, repeat\nfrom base import Base\n\n\n"
)
LAYERS = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.ls = nn.ModuleList([nn.GRU(3, 3) for _ in range(3)])\n        self.sizes = [3, 3, 3]\n\n"
    "    def forward(self, x: torch.Tensor):\n"
)
EMBEDDER = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.emb = nn.Embedding(3, 3)\n\n    def forward(self, ids):\n        return self.emb(ids)\n\n"
)
KEEPER = (
    "class Keeper:\n    def __init__(self, device):\n        self.device = device\n        self.x = {}\n\n"
    "    def step(self):\n        return torch.cat([self.x, torch.zeros(3)@self.x.device@])\n"
)
LOOP = "    out = []\n    for i in range(n):\n        if i == 3:\n"

# name: the text; between @s stands the device that is told in the end.
CHANGED = {
    "in a Variable": "def f(x: torch.Tensor):\n    h = Variable(torch.zeros(3)@x.device@)\n    return torch.cat([x, h])\n",
    "split": "def f(x: torch.Tensor):\n    a, b = torch.split(x, 2)\n    return a + torch.zeros(2, 3)@x.device@\n",
    "a part of what is split": (
        "def f(x: torch.Tensor):\n    m = torch.split(torch.zeros(4, 3)@x.device@, 2)[0]\n    return x[:2] * m\n"
    ),
    "rearranged": (
        "def f(x: torch.Tensor):\n    m = rearrange(torch.eye(3, dtype=torch.bool)@x.device@, 'i j -> () i j')\n"
        "    return x.masked_select(m)\n"
    ),
    "what is rearranged is a tensor": (
        "def f(x):\n    y = rearrange(x, 'b n d -> b d n')\n    return y + repeat(torch.arange(3)@x.device@, 'n -> b n', b=2)\n"
    ),
    "another name": "zeros = torch.zeros\n\n\ndef f(x: torch.Tensor):\n    return x + zeros(3)@x.device@\n",
    "a layer by its index": LAYERS + "        return self.ls[0](x, torch.zeros(1, 3)@x.device@)\n",
    "layers in a loop": (
        LAYERS
        + "        for layer in self.ls:\n            x, _ = layer(x, torch.zeros(1, 3)@x.device@)\n        return x\n"
    ),
    "layers in a zip": (
        LAYERS + "        for i, (n, layer) in enumerate(zip(self.sizes, self.ls)):\n"
        "            x, _ = layer(x, torch.zeros(1, n)@x.device@)\n        return x\n"
    ),
    "a layer with a name of its own": (
        LAYERS + "        first = self.ls[0]\n        return first(x, torch.zeros(1, 3)@x.device@)\n"
    ),
    "lengths in two dimensions": (
        LAYERS + "        x_length = torch.ones((3, 1))@x.device@\n        return self.ls[0](x, x_length)\n"
    ),
    "layers that are registered by name": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.ls = []\n"
        "        for i in range(3):\n            layer = nn.GRU(3, 3)\n            self.add_module('l%d' % i, layer)\n"
        "            self.ls.append(layer)\n\n    def forward(self, x: torch.Tensor):\n"
        "        for layer in self.ls:\n            x, _ = layer(x, torch.zeros(1, 3)@x.device@)\n        return x\n"
    ),
    "forward by name": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = nn.Linear(3, 3)\n\n"
        "    def run(self):\n        return self.net.forward(torch.ones(3)@self.net.weight.device@)\n"
    ),
    "the module itself": EMBEDDER
    + "    def predict(self):\n        return self(torch.tensor([1])@self.emb.weight.device@)\n",
    "through a method": (
        EMBEDDER + "    def scores(self, ids):\n        return self.forward(ids)\n\n"
        "    def predict(self):\n        return self.scores(torch.tensor([1])@self.emb.weight.device@)\n"
    ),
    "a base out of sight": (
        "class M(Base):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(3, 3)\n\n"
        "    def forward(self, x):\n        return self.fc(torch.ones(3)@self.fc.weight.device@) + x\n"
    ),
    "appended before the next round": (
        "def f(x: torch.Tensor, n: int):\n" + LOOP + "            out.append(torch.zeros(1, 3)@x.device@)\n"
        "            continue\n        out.append(x)\n    return torch.cat(out)\n"
    ),
    "appended before the end": (
        "def f(x: torch.Tensor, n: int):\n" + LOOP + "            out.append(torch.zeros(1, 3)@x.device@)\n"
        "            break\n        out.append(x)\n    return torch.cat(out)\n"
    ),
    "given, or made": (
        "def f(p: torch.Tensor = None, n: int = 3):\n    if p is None:\n        p = torch.zeros(n)\n"
        "    return p + torch.arange(n)@p.device@\n"
    ),
    "moved to another place in one arm": (
        "def f(x, device, world):\n    x = x.to(device)\n    if world > 1:\n        x = x.sum().to('cpu')\n"
        "    return x * torch.tensor([1.0, 2.0]@x.device@)\n"
    ).replace("]@x.device@)", "])@x.device@"),
    "moved where there is a GPU": (
        "def f(n):\n    x = torch.zeros(n, n)\n    if torch.cuda.is_available():\n        x = x.cuda()\n"
        "    return x * torch.ones(n)@x.device@\n"
    ),
    "the result of an operation": (
        "def f(p, q, n):\n    a = 0\n    for s in p:\n        a = a + s.value\n    d = a - q.value\n"
        "    rank = torch.argsort(d)\n    return torch.index_select(torch.arange(n)@d.device@, 0, rank)\n"
    ),
    "an attribute in a list": (
        "def f(batch):\n    return torch.cat([batch.x, torch.zeros(1, 3)@batch.x.device@])\n"
    ),
    "a part of an attribute in a list": (
        "def f(batch, n):\n    v = batch.query\n    return torch.cat([v[0][:n], torch.zeros(3)@v[0].device@])\n"
    ),
    "declared a tensor": (
        "def f(batch, i: int):\n    v: torch.Tensor = batch.query\n    return torch.cat([v[i], torch.zeros(3)@v.device@])\n"
    ),
    "a loss under its own name": (
        "def f(net, data, device):\n    crit = nn.MSELoss()\n    total = torch.tensor(0.0)@device@\n    for x, y in data:\n"
        "        total += crit(net(x.to(device)), y.to(device))\n    return total\n"
    ),
    "the mean of what a model gives": (
        "def f(net, data, device):\n    total = torch.zeros(1)@device@\n    for x in data:\n"
        "        total += net(x.to(device)).mean()\n    return total\n"
    ),
    "a loss of a method": (
        "class A:\n    def loss_of(self, x):\n        x = x.to(self.net.device)\n        return self.net(x).pow(2) + x\n\n"
        "    def run(self, data):\n        total = torch.zeros(1)@self.net.device@\n        for x in data:\n"
        "            total += self.loss_of(x)\n        return total\n"
    ),
    "a function inside": (
        "def f(w: torch.Tensor):\n    p = torch.rand(3, 3)@w.device@\n\n    def inner(k):\n        return p @ k.reshape(-1)\n\n"
        "    return inner(w)\n"
    ),
    "a function inside, over a batch": (
        "def f(w: torch.Tensor):\n    p = torch.rand(3, 3)@w.device@\n\n    def inner(k):\n        return p @ k.reshape(-1)\n\n"
        "    many = torch.vmap(torch.vmap(inner), 1)\n    return many(w)\n"
    ),
    "a distribution": (
        "def f(x: torch.Tensor):\n    n = Normal(torch.zeros(3)@x.device@, torch.ones(3)@x.device@)\n    return x + n.sample()\n"
    ),
    "the probability of a tensor": (
        "def f(x: torch.Tensor):\n    return Normal(torch.zeros(3)@x.device@, 1.0).log_prob(x)\n"
    ),
    "a step of a Lightning module": (
        "import lightning as L\n\n\nclass M(L.LightningModule):\n    def training_step(self, batch, index):\n"
        "        x, y = batch\n        return nn.functional.mse_loss(x * torch.ones(3)@x.device@, y)\n"
    ),
    "what a method that is left to subclasses gives": (
        "class M(nn.Module):\n    def loss(self, x):\n        raise NotImplementedError\n\n"
        "    def forward(self, x: torch.Tensor):\n        return self.loss(x).masked_fill(torch.ones(3)@x.device@ > 0, 0.0)\n"
    ),
    "what is given back by the names it had": (
        "def f(x: torch.Tensor, y: torch.Tensor, mix):\n    x, y = mix(x, y)\n    return y.sum() + x * torch.ones(3)@x.device@\n"
    ),
    "a number in the other arm": (
        "def f(x: torch.Tensor, noisy):\n    noise = 0.0\n    if noisy:\n        noise = torch.randn(3)@x.device@\n"
        "    return x + noise\n"
    ),
    "an attribute made on a device": KEEPER.format("torch.ones(3, device=self.device)"),
    "an attribute moved to a device": KEEPER.format("torch.ones(3).to(self.device)"),
}

SILENT = {
    "an index that a write brings along": (
        "def f(x: torch.Tensor, at: torch.Tensor):\n    x.index_put_((torch.arange(3), at), at.float())\n    return x\n"
    ),
    "batches that Lightning may place": (
        "import lightning as L\n\n\nclass M(L.LightningModule):\n    def forward(self, x):\n        return x * 2\n\n"
        "    def on_train_end(self):\n        for x in torch.utils.data.DataLoader(torch.ones(3, 3)):\n"
        "            print(self(x))\n"
    ),
    "an alias that is bound again": (
        "zeros = torch.zeros\nzeros = print\n\n\ndef f(x: torch.Tensor):\n    return x + zeros(3)\n"
    ),
    "a Variable that is moved": (
        "def f(x: torch.Tensor):\n    return torch.cat([x, Variable(torch.zeros(3)).cuda()])\n"
    ),
    "a list that is no list of layers": (
        "class M(nn.Module):\n    def __init__(self, fs):\n        super().__init__()\n        self.fs = fs\n"
        "        self.fc = nn.Linear(3, 3)\n\n    def forward(self, x):\n"
        "        for f in self.fs:\n            x = f(x, torch.zeros(1, 3))\n        return x\n"
    ),
    "lengths in one dimension": LAYERS
    + "        lengths = torch.ones(3)\n        return self.ls[0](x, lengths)\n",
    "a new list in each round": (
        "def f(x: torch.Tensor, n: int):\n    for i in range(n):\n        out = []\n        if i == 3:\n"
        "            out.append(torch.zeros(1, 3))\n            print(torch.cat(out))\n            continue\n"
        "        out = [x]\n        print(torch.cat(out))\n"
    ),
    "both arms on the CPU": (
        "def f(x, n):\n    if n:\n        x = x.cpu()\n    else:\n        x = x.sum().to('cpu')\n"
        "    return x * torch.tensor([1.0, 2.0])\n"
    ),
    "a sum of numbers": (
        "def f(net, data, step, device):\n    net.to(device)\n    total = torch.zeros(1)\n    for x in data:\n"
        "        loss = step(net, x)\n        total += loss\n    return total\n"
    ),
    "a function inside that is given a number": (
        "def f(w: torch.Tensor):\n    p = torch.rand(3, 3)\n\n    def inner(w: int):\n        return p * w\n\n    return inner(2)\n"
    ),
    "a distribution of numbers": (
        "def f(x: torch.Tensor):\n    return x.cpu() + Normal(torch.zeros(3), 1.0).sample()\n"
    ),
    "a static method has no parameters": (
        "class M(Base):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(3, 3)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n\n    @staticmethod\n    def count(loader, degree):\n"
        "        h = torch.zeros(1)\n        for x in loader:\n            deg = degree(x.edges[1], n=x.n)\n"
        "            b = torch.bincount(deg, minlength=h.numel())\n            h = h.to(b.device)\n"
        "            if b.numel() > h.numel():\n                b[: h.size(0)] += h\n                h = b\n"
        "            else:\n                h += b\n        return h\n"
    ),
}


@pytest.mark.parametrize("text", CHANGED.values(), ids=CHANGED)
def test_changed(text: str) -> None:
    before = re.sub(r"@([\w.\[\]]+)@", "", text)
    after = re.sub(r"\)@([\w.\[\]]+)@", r", device=\1)", text)
    assert fixed(RULE, HEAD + before) == HEAD + after


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert findings(RULE, HEAD + text) == []


@pytest.mark.parametrize(
    "name",
    ["the module itself", "through a method", "a function inside", "given, or made", "declared a tensor"],
)
def test_unsafe_where_the_proof_is_elsewhere(name: str) -> None:
    found = findings(RULE, HEAD + re.sub(r"@([\w.\[\]]+)@", "", CHANGED[name]))
    assert found and all(one.fix is not None and one.fix.safety is Safety.UNSAFE for one in found)
