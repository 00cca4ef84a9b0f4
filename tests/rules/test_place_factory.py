"""place-factory: which tensors it puts on a device, how, and what it leaves alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
HEAD = "import math\nimport torch\nimport numpy as np\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"

_STATES = """\
class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("waves", torch.ones(1, 9, 4))

    def forward(self, x):
        return x + self.waves


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.waves = Waves()
        self.layers = nn.LSTM(4, 4)
{property}
    def start(self, n):
        return torch.zeros(1, n, 4{device})

    def forward(self, x):
        first = self.start(x.size(1))
        return self.layers(self.waves(x), (first, first.clone()))[0]
"""
_PROPERTY = "\n    @property\n    def device(self):\n        return next(self.parameters()).device\n"

_TWO_WAYS = _PROPERTY.replace(
    "        return", "        if self.host:\n            return 'cpu'\n        return"
)

# name: (before, after)
CHANGED = {
    "what NumPy reads first, and a statement twice": (
        "def f(x: torch.Tensor):\n    keep = torch.rand(3)\n    show(keep.numpy())\n"
        "    return (x * keep).sum() + (1 - keep) * x\n",
        "def f(x: torch.Tensor):\n    keep = torch.rand(3)\n    show(keep.numpy())\n"
        "    keep = keep.to(x.device)\n    return (x * keep).sum() + (1 - keep) * x\n",
    ),
    "a state, beside a part that has only buffers": (
        _STATES.format(property="", device=""),
        _STATES.format(property="", device=", device=next(self.layers.parameters()).device"),
    ),
    "a state in a network that tells its device on one of two ways": (
        _STATES.format(property=_TWO_WAYS, device=""),
        _STATES.format(property=_TWO_WAYS, device=", device=next(self.layers.parameters()).device"),
    ),
    "a state in a network that tells its device": (
        _STATES.format(property=_PROPERTY, device=""),
        _STATES.format(property=_PROPERTY, device=", device=self.device"),
    ),
    "an array of a number of numbers": (
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.randn(3))\n",
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.randn(3), device=x.device)\n",
    ),
    "an array with sizes": (
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.uniform(0, 1, size=(3, 4)))\n",
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.uniform(0, 1, size=(3, 4)), device=x.device)\n",
    ),
    "an array of a generator": (
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.default_rng(0).normal(size=3))\n",
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.random.default_rng(0).normal(size=3), device=x.device)\n",
    ),
    "an array of another type": (
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.zeros(3).astype(np.float32))\n",
        "def f(x: torch.Tensor):\n    return x * torch.as_tensor(np.zeros(3).astype(np.float32), device=x.device)\n",
    ),
    "the gradient of a function of its own": (
        "class Clip(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n        return x.clamp(0)\n\n    @staticmethod\n"
        "    def backward(ctx, grad):\n        (x,) = ctx.saved_tensors\n        mask = torch.zeros(x.shape)\n"
        "        mask[x > 0] = 1\n        return grad * mask\n",
        "class Clip(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n        return x.clamp(0)\n\n    @staticmethod\n"
        "    def backward(ctx, grad):\n        (x,) = ctx.saved_tensors\n"
        "        mask = torch.zeros(x.shape, device=grad.device)\n"
        "        mask[x > 0] = 1\n        return grad * mask\n",
    ),
    "a list and another": (
        "def f(x: torch.Tensor, rows):\n    return x + torch.tensor(rows + [[1, 2]])\n",
        "def f(x: torch.Tensor, rows):\n    return x + torch.tensor(rows + [[1, 2]], device=x.device)\n",
    ),
    "a class that is given tensors": (
        "class Matrix:\n    def __init__(self, row: torch.Tensor, n: int):\n"
        "        self.row = row * torch.ones(n)\n",
        "class Matrix:\n    def __init__(self, row: torch.Tensor, n: int):\n"
        "        self.row = row * torch.ones(n, device=row.device)\n",
    ),
    "a metric of torchmetrics": (
        "import torchmetrics.functional as M\n\n\ndef f(x: torch.Tensor, n):\n    return M.accuracy(x, torch.zeros(n))\n",
        "import torchmetrics.functional as M\n\n\ndef f(x: torch.Tensor, n):\n"
        "    return M.accuracy(x, torch.zeros(n, device=x.device))\n",
    ),
    "a list of numbers is no sign of the CPU": (
        "def f(x: torch.Tensor):\n    kept = torch.arange(len(x))[x > 0]\n    return x[kept], kept.tolist(), x.tolist()\n",
        "def f(x: torch.Tensor):\n    kept = torch.arange(len(x), device=x.device)[x > 0]\n"
        "    return x[kept], kept.tolist(), x.tolist()\n",
    ),
    "a tensor, or the first of several": (
        "def f(n, *params):\n    t = params[0] if torch.is_tensor(params[0]) else params[0][0]\n    t = t.long()\n"
        "    return torch.eq(torch.arange(n), t)\n",
        "def f(n, *params):\n    t = params[0] if torch.is_tensor(params[0]) else params[0][0]\n    t = t.long()\n"
        "    return torch.eq(torch.arange(n, device=t.device), t)\n",
    ),
    "what a class was given, and moved": (
        "class Steps:\n    def __init__(self, betas, device):\n        self.betas = betas.to(device)\n\n"
        "    def at(self, n):\n        return self.betas + torch.linspace(0, 1, n)\n",
        "class Steps:\n    def __init__(self, betas, device):\n        self.betas = betas.to(device)\n\n"
        "    def at(self, n):\n        return self.betas + torch.linspace(0, 1, n, device=self.betas.device)\n",
    ),
    "arithmetic": (
        "def f(x: torch.Tensor):\n    return x * torch.rand(3)\n",
        "def f(x: torch.Tensor):\n    return x * torch.rand(3, device=x.device)\n",
    ),
    "a type and no more": (
        "def f(x: torch.Tensor):\n    kind = x.dtype\n"
        "    return x * torch.arange(3).type(kind) + torch.eye(3).type(torch.half)\n",
        "def f(x: torch.Tensor):\n    kind = x.dtype\n    return x * torch.arange(3, device=x.device).type(kind)"
        " + torch.eye(3, device=x.device).type(torch.half)\n",
    ),
    "a target of a loss": (
        "def f(criterion, x, n):\n    x = x.cuda()\n    return criterion(x, torch.ones(2))\n",
        "def f(criterion, x, n):\n    x = x.cuda()\n    return criterion(x, torch.ones(2, device=x.device))\n",
    ),
    "chained": (
        "def f(x):\n    k = torch.arange(3).float().view(-1, 1)\n    return k * x.unsqueeze(0)\n",
        "def f(x):\n    k = torch.arange(3, device=x.device).float().view(-1, 1)\n    return k * x.unsqueeze(0)\n",
    ),
    "comparison": (
        "def f(lengths):\n    return torch.arange(5) < lengths.unsqueeze(1)\n",
        "def f(lengths):\n    return torch.arange(5, device=lengths.device) < lengths.unsqueeze(1)\n",
    ),
    "device=None": (
        "def f(x: torch.Tensor):\n    return x + torch.ones(3, device=None)\n",
        "def f(x: torch.Tensor):\n    return x + torch.ones(3, device=x.device)\n",
    ),
    "the name of the device": (
        "def f(x: torch.Tensor):\n    dev = x.device\n    return x + torch.ones(3)\n",
        "def f(x: torch.Tensor):\n    dev = x.device\n    return x + torch.ones(3, device=dev)\n",
    ),
    "a device parameter": (
        "def f(n: int, dv: torch.device):\n"
        "    return torch.cat([torch.arange(n, device=dv), torch.tensor([n])])\n",
        "def f(n: int, dv: torch.device):\n"
        "    return torch.cat([torch.arange(n, device=dv), torch.tensor([n], device=dv)])\n",
    ),
    "the device it was moved to": (
        "def f(x, device):\n    x = x.to(device)\n    return torch.cat((x, torch.zeros(1, 3)))\n",
        "def f(x, device):\n    x = x.to(device)\n    return torch.cat((x, torch.zeros(1, 3, device=device)))\n",
    ),
    "where": (
        "def f(x: torch.Tensor):\n    return torch.where(x > 0, x, torch.zeros(3))\n",
        "def f(x: torch.Tensor):\n    return torch.where(x > 0, x, torch.zeros(3, device=x.device))\n",
    ),
    "index_select": (
        "def f(x: torch.Tensor):\n    return torch.index_select(x, 0, torch.arange(2))\n",
        "def f(x: torch.Tensor):\n    return torch.index_select(x, 0, torch.arange(2, device=x.device))\n",
    ),
    "masked_fill": (
        "def f(x: torch.Tensor):\n    mask = torch.triu(torch.ones(3, 3), diagonal=1).bool()\n"
        "    return x.masked_fill(mask, 0.0)\n",
        "def f(x: torch.Tensor):\n"
        "    mask = torch.triu(torch.ones(3, 3, device=x.device), diagonal=1).bool()\n"
        "    return x.masked_fill(mask, 0.0)\n",
    ),
    "two in a meshgrid": (
        "def f(x: torch.Tensor):\n    a, b = torch.meshgrid(torch.arange(2), torch.arange(3))\n"
        "    return x * (a + b)\n",
        "def f(x: torch.Tensor):\n"
        "    a, b = torch.meshgrid(torch.arange(2, device=x.device), torch.arange(3, device=x.device))\n"
        "    return x * (a + b)\n",
    ),
    "indexed by a tensor of the device": (
        "def f(index: torch.Tensor):\n    table = torch.zeros(9)\n    return table[index]\n",
        "def f(index: torch.Tensor):\n    table = torch.zeros(9, device=index.device)\n    return table[index]\n",
    ),
    "written by a mask": (
        "def f(x: torch.Tensor):\n    out = torch.empty(3)\n    out[x > 0] = x[x > 0]\n    return out\n",
        "def f(x: torch.Tensor):\n    out = torch.empty(3, device=x.device)\n    out[x > 0] = x[x > 0]\n"
        "    return out\n",
    ),
    "an accumulator": (
        "def f(xs: torch.Tensor):\n    total = torch.tensor(0.0)\n    for x in xs:\n        total += x.sum()\n"
        "    return total\n",
        "def f(xs: torch.Tensor):\n    total = torch.tensor(0.0, device=xs.device)\n    for x in xs:\n"
        "        total += x.sum()\n    return total\n",
    ),
    "filled slice by slice and returned": (
        "def f(x: torch.Tensor):\n    out = torch.zeros(4, 3)\n    out[:2] = x\n    return out\n",
        "def f(x: torch.Tensor):\n    out = torch.zeros(4, 3, device=x.device)\n    out[:2] = x\n    return out\n",
    ),
    "a list": (
        "def f(x: torch.Tensor):\n    parts = [torch.zeros(1, 3)]\n    parts.append(x)\n"
        "    return torch.cat(parts)\n",
        "def f(x: torch.Tensor):\n    parts = [torch.zeros(1, 3, device=x.device)]\n    parts.append(x)\n"
        "    return torch.cat(parts)\n",
    ),
    "a default for an argument": (
        "def f(x: torch.Tensor, mask=None):\n    if mask is None:\n        mask = torch.ones(3)\n"
        "    return x * mask\n",
        "def f(x: torch.Tensor, mask=None):\n    if mask is None:\n        mask = torch.ones(3, device=x.device)\n"
        "    return x * mask\n",
    ),
    "through a function of the file": (
        "def g(a, b):\n    return a * b\n\n\ndef f(x: torch.Tensor):\n    return g(x, torch.ones(3))\n",
        "def g(a, b):\n    return a * b\n\n\n"
        "def f(x: torch.Tensor):\n    return g(x, torch.ones(3, device=x.device))\n",
    ),
    "a nested function": (
        "def f(x: torch.Tensor):\n    def g():\n        return x + torch.ones(3)\n\n    return g()\n",
        "def f(x: torch.Tensor):\n    def g():\n        return x + torch.ones(3, device=x.device)\n\n    return g()\n",
    ),
    "a comprehension": (
        "def f(x: torch.Tensor):\n    return [row + torch.ones(3) for row in x]\n",
        "def f(x: torch.Tensor):\n    return [row + torch.ones(3, device=x.device) for row in x]\n",
    ),
    "a loss": (
        "def f(self, out: torch.Tensor):\n    return self.criterion(out, torch.zeros(3))\n",
        "def f(self, out: torch.Tensor):\n    return self.criterion(out, torch.zeros(3, device=out.device))\n",
    ),
    "a parameter of the module": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(3))\n\n"
        "    def table(self):\n        return self.scale * torch.arange(3)\n",
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = nn.Parameter(torch.ones(3))\n\n"
        "    def table(self):\n        return self.scale * torch.arange(3, device=self.scale.device)\n",
    ),
    "a layer of the module": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.emb = nn.Embedding(3, 3)\n\n"
        "    def table(self):\n        return self.emb(torch.arange(3))\n",
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.emb = nn.Embedding(3, 3)\n\n"
        "    def table(self):\n        return self.emb(torch.arange(3, device=self.emb.weight.device))\n",
    ),
    "autograd": (
        "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, shape):\n"
        "        return torch.empty(shape)\n",
        "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, shape):\n"
        "        return torch.empty(shape, device=x.device)\n",
    ),
    "a fallback": (
        "def f(x: torch.Tensor):\n    if len(x) == 0:\n        return torch.zeros(0, 4)\n    return x * 2\n",
        "def f(x: torch.Tensor):\n    if len(x) == 0:\n        return torch.zeros(0, 4, device=x.device)\n"
        "    return x * 2\n",
    ),
    "legacy with data": (
        "def f(x: torch.Tensor):\n    return x * torch.Tensor([1.0, 2.0])\n",
        "def f(x: torch.Tensor):\n"
        "    return x * torch.tensor([1.0, 2.0], dtype=torch.float32, device=x.device)\n",
    ),
    "legacy integers": (
        "def f(x: torch.Tensor):\n    return x.gather(0, torch.LongTensor([0]))\n",
        "def f(x: torch.Tensor):\n"
        "    return x.gather(0, torch.tensor([0], dtype=torch.long, device=x.device))\n",
    ),
    "legacy with sizes": (
        "def f(x: torch.Tensor):\n    return x + torch.Tensor(2, x.size(1)).zero_()\n",
        "def f(x: torch.Tensor):\n"
        "    return x + torch.empty(2, x.size(1), dtype=torch.float32, device=x.device).zero_()\n",
    ),
    "legacy with what may be either": (
        "def f(x: torch.Tensor, n):\n    return x + torch.FloatTensor(n)\n",
        "def f(x: torch.Tensor, n):\n    return x + torch.FloatTensor(n).to(x.device)\n",
    ),
    "from_numpy": (
        "def f(x: torch.Tensor, a: np.ndarray):\n    return torch.from_numpy(a)[x]\n",
        "def f(x: torch.Tensor, a: np.ndarray):\n    return torch.from_numpy(a).to(x.device)[x]\n",
    ),
    "the gradient of backward": (
        "def f(x: torch.Tensor):\n    y = x * 2\n    y.backward(torch.ones(3))\n",
        "def f(x: torch.Tensor):\n    y = x * 2\n    y.backward(torch.ones(3, device=x.device))\n",
    ),
    "a documented parameter": (
        'def f(x):\n    """Add.\n\n    Args:\n        x (torch.Tensor): what to add to\n    """\n'
        "    return x + torch.ones(3)\n",
        'def f(x):\n    """Add.\n\n    Args:\n        x (torch.Tensor): what to add to\n    """\n'
        "    return x + torch.ones(3, device=x.device)\n",
    ),
    "a size is evidence": (
        "def f(x, p):\n    mask = p + torch.rand((x.shape[0], 1))\n    return x * mask\n",
        "def f(x, p):\n    mask = p + torch.rand((x.shape[0], 1), device=x.device)\n    return x * mask\n",
    ),
    "a dictionary of tensors": (
        "def f(batch: dict[str, torch.Tensor]):\n    return batch['x'] * torch.ones(3)\n",
        "def f(batch: dict[str, torch.Tensor]):\n    return batch['x'] * torch.ones(3, device=batch['x'].device)\n",
    ),
    "an element of a list": (
        "def f(xs: list[torch.Tensor]):\n    return [torch.cat([x, torch.zeros(3)]) for x in xs]\n",
        "def f(xs: list[torch.Tensor]):\n"
        "    return [torch.cat([x, torch.zeros(3, device=x.device)]) for x in xs]\n",
    ),
    "from a helper without tensors": (
        "def table(n):\n    return torch.triu(torch.ones(n, n))\n\n\n"
        "def f(x: torch.Tensor):\n    return x + table(3)\n",
        "def table(n):\n    return torch.triu(torch.ones(n, n))\n\n\n"
        "def f(x: torch.Tensor):\n    return x + table(3).to(x.device)\n",
    ),
    "from a helper that is given a tensor": (
        "def table(like):\n    return torch.ones(like.size(0), 3)\n\n\n"
        "def f(x: torch.Tensor):\n    return x + table(x)\n",
        "def table(like):\n    return torch.ones(like.size(0), 3, device=like.device)\n\n\n"
        "def f(x: torch.Tensor):\n    return x + table(x)\n",
    ),
    "hidden states of a method, in a tuple": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rnn = nn.LSTM(3, 4)\n\n"
        "    def forward(self, x):\n        h = torch.zeros(1, 2, 4)\n"
        "        return self.rnn(x, (h, h))\n",
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rnn = nn.LSTM(3, 4)\n\n"
        "    def forward(self, x):\n        h = torch.zeros(1, 2, 4, device=x.device)\n"
        "        return self.rnn(x, (h, h))\n",
    ),
    "only its own parameters tell": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Sequential(nn.Linear(3, 4))\n\n"
        "    def sample(self, n):\n        return self.net(torch.randn(n, 3))\n",
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Sequential(nn.Linear(3, 4))\n\n"
        "    def sample(self, n):\n"
        "        return self.net(torch.randn(n, 3, device=next(self.parameters()).device))\n",
    ),
    "the output of a submodule": (
        "class M(nn.Module):\n    def __init__(self, body):\n        super().__init__()\n"
        "        self.body = body\n\n"
        "    def forward(self, **given):\n        h = self.body(**given)\n        n = h.size(0)\n"
        "        return h + torch.ones(n, 1)\n",
        "class M(nn.Module):\n    def __init__(self, body):\n        super().__init__()\n"
        "        self.body = body\n\n"
        "    def forward(self, **given):\n        h = self.body(**given)\n        n = h.size(0)\n"
        "        return h + torch.ones(n, 1, device=h.device)\n",
    ),
    "the type of a tensor without its device": (
        "def f(x: torch.Tensor):\n    return torch.tensor([1.0, 2.0], dtype=x.dtype)\n",
        "def f(x: torch.Tensor):\n    return torch.tensor([1.0, 2.0], dtype=x.dtype, device=x.device)\n",
    ),
    "state with the size of an input": (
        "class M(nn.Module):\n    def start(self, x: torch.Tensor):\n"
        "        n = x.size(0)\n        self.state = torch.zeros(n, 3)\n",
        "class M(nn.Module):\n    def start(self, x: torch.Tensor):\n"
        "        n = x.size(0)\n        self.state = torch.zeros(n, 3, device=x.device)\n",
    ),
    "lists have been seen to": (
        "def f(x: torch.Tensor):\n    if isinstance(x, (list, tuple)):\n        return [f(one) for one in x]\n"
        "    return x * torch.rand(3)\n",
        "def f(x: torch.Tensor):\n    if isinstance(x, (list, tuple)):\n        return [f(one) for one in x]\n"
        "    return x * torch.rand(3, device=x.device)\n",
    ),
    "written at many places": (
        "def f(x: torch.Tensor, at: torch.Tensor):\n    x[at] = torch.rand(3)\n",
        "def f(x: torch.Tensor, at: torch.Tensor):\n    x[at] = torch.rand(3, device=x.device)\n",
    ),
    "a loss made on the spot": (
        "def f(out: torch.Tensor):\n    return nn.BCELoss()(out, torch.ones(3))\n",
        "def f(out: torch.Tensor):\n    return nn.BCELoss()(out, torch.ones(3, device=out.device))\n",
    ),
    "rows by labels": (
        "def f(labels, n: int):\n    return torch.eye(n)[labels]\n",
        "def f(labels, n: int):\n    return torch.eye(n, device=labels.device)[labels]\n",
    ),
    "what a method makes where None is given": (
        "class M(nn.Module):\n    def start(self, x, h):\n        if h is None:\n            h = torch.zeros(x.shape[0], 4)\n"
        "        return h\n\n    def forward(self, x: torch.Tensor, h: torch.Tensor = None):\n"
        "        h = self.start(x, h)\n        return x * h\n",
        "class M(nn.Module):\n    def start(self, x, h):\n        if h is None:\n"
        "            h = torch.zeros(x.shape[0], 4, device=x.device)\n"
        "        return h\n\n    def forward(self, x: torch.Tensor, h: torch.Tensor = None):\n"
        "        h = self.start(x, h)\n        return x * h\n",
    ),
    "what is cast and then computed with": (
        "def f(x, n):\n    return torch.arange(n) * x.float().abs()\n",
        "def f(x, n):\n    return torch.arange(n, device=x.device) * x.float().abs()\n",
    ),
    "what is built on the device that is told": (
        "def build_cache(n: int, device: torch.device):\n    a = torch.arange(n, device=device)\n"
        "    return torch.outer(a, torch.arange(n))\n",
        "def build_cache(n: int, device: torch.device):\n    a = torch.arange(n, device=device)\n"
        "    return torch.outer(a, torch.arange(n, device=device))\n",
    ),
    "together with the one it meets before": (
        "def f(x: torch.Tensor):\n    a = torch.ones(3)\n    b = torch.rand(3)\n    c = a + b\n    return x + b, c\n",
        "def f(x: torch.Tensor):\n    a = torch.ones(3, device=x.device)\n"
        "    b = torch.rand(3, device=x.device)\n    c = a + b\n    return x + b, c\n",
    ),
}

SILENT = {
    "an array that a generator draws without sizes": "def f(x: torch.Tensor):\n"
    "    return x * torch.as_tensor(np.random.default_rng(0).normal(size=()))\n",
    "an array without dimensions": "def f(x: torch.Tensor, n):\n    return x * torch.as_tensor(np.random.uniform(0, 1))\n",
    "an array of no sizes": "def f(x: torch.Tensor, n):\n    return x * torch.as_tensor(np.zeros(()))\n",
    "an array of who knows how many": "def f(x: torch.Tensor, n):\n    return x * torch.as_tensor(np.random.choice(n))\n",
    "a result that is moved to the device that the caller names": "def f(x: torch.Tensor, device='cpu'):\n"
    "    y = x * torch.rand(3)\n    return y.to(device)\n",
    "a module that is built from tensors": "class Matrix(nn.Module):\n    def __init__(self, row: torch.Tensor, n: int):\n"
    "        super().__init__()\n        self.row = nn.Parameter(row * torch.ones(n))\n",
    "every caller gives what is on the CPU": "def f(x: torch.Tensor):\n    return x * torch.rand(3)\n\n\n"
    "def g(x: torch.Tensor):\n    return f(x.cpu()[:2])\n",
    "a tensor, or something that names it": "def f(n, x):\n    t = x if torch.is_tensor(x) else x['t']\n"
    "    return torch.eq(torch.arange(n), t)\n",
    "what a class was given, moved and may call": "class Steps:\n    def __init__(self, net, device):\n"
    "        self.net = net.to(device)\n\n    def at(self, n):\n        self.net.eval()\n"
    "        return self.net + torch.linspace(0, 1, n)\n",
    "a fallback that the same condition keeps from its meeting": "class M(nn.Module):\n"
    "    def forward(self, x: torch.Tensor):\n        loss = x.mean()\n"
    "        stop = self.stop(x) if self.c.stopnet else torch.zeros(1)\n"
    "        if not self.c.apart and self.c.stopnet:\n            loss += stop\n        return loss, stop\n",
    "the CPU arm of a question about a tensor": "def f(x: torch.Tensor, n):\n    parts = [x]\n    if x.is_cuda:\n"
    "        parts.append(torch.zeros(1, n).cuda())\n    else:\n        parts.append(torch.zeros(1, n))\n"
    "    return torch.cat(parts, 0)\n",
    "the CPU arm of a choice": "def f(x: torch.Tensor, use_gpu=True):\n    if use_gpu:\n"
    "        mask = torch.arange(3).cuda() <= x.cuda().unsqueeze(-1)\n    else:\n"
    "        mask = torch.arange(3) <= x.unsqueeze(-1)\n    return mask\n",
    "moved later in the chain": "def f(x: torch.Tensor):\n    return x + torch.ones(3).to(x.device)\n",
    "moved on the next line": "def f(x: torch.Tensor):\n    t = torch.ones(3)\n    t = t.to(x)\n    return x + t\n",
    "moved under a condition about devices": (
        "def f(x: torch.Tensor):\n    t = torch.ones(3)\n    if x.is_cuda:\n        t = t.cuda()\n    return x + t\n"
    ),
    "type_as": "def f(x: torch.Tensor):\n    return x + torch.ones(3).type_as(x)\n",
    "like and new": "def f(x: torch.Tensor):\n    return x + torch.zeros_like(x) + x.new_ones(3)\n",
    "a scalar in arithmetic": "def f(x: torch.Tensor):\n    return x * torch.sqrt(torch.tensor(2.0))\n",
    "a scalar in where": "def f(x: torch.Tensor):\n    return torch.where(x > 0, x, torch.tensor(0.0))\n",
    "what may be a scalar": "def f(x: torch.Tensor, a):\n    return x * torch.tensor(a)\n",
    "a CPU index": "def f(x: torch.Tensor):\n    return x[torch.randperm(3)]\n",
    "an index of a loop": (
        "def f(xs: torch.Tensor):\n    table = torch.arange(3)\n    return [table[i] for i in xs]\n"
    ),
    "a number": "def f(x: torch.Tensor):\n    return x * torch.rand(1).item()\n",
    "a copy": "def f(x: torch.Tensor):\n    x[0] = torch.zeros(3)\n    x.copy_(torch.ones(3))\n    return x\n",
    "filled and not returned": (
        "def f(x: torch.Tensor):\n    out = torch.zeros(4, 3)\n    out[:2] = x\n    print(out)\n"
    ),
    "taken back": "def f(x: torch.Tensor):\n    return x.cpu() + torch.ones(3)\n",
    "on the CPU, since numpy takes it": (
        "def f(x: torch.Tensor):\n    y = x + torch.ones(3)\n    return y.numpy()\n"
    ),
    "moved together afterwards": (
        "def f(x: torch.Tensor, device):\n    return torch.cat((x, torch.ones(3))).to(device)\n"
    ),
    "its operand is moved below": (
        "def f(x: torch.Tensor, device):\n    y = x + torch.ones(3)\n    x = x.to(device)\n    return x, y\n"
    ),
    "a context": "def f(x: torch.Tensor):\n    with torch.device('cuda'):\n        return x + torch.ones(3)\n",
    "a default device": (
        "torch.set_default_device('cuda')\ndef f(x: torch.Tensor):\n    return x + torch.ones(3)\n"
    ),
    "keywords out of sight": "def f(x: torch.Tensor, **kw):\n    return x + torch.ones(3, **kw)\n",
    "a generator": ("def f(x: torch.Tensor, g):\n    return x + torch.rand(3, generator=g)\n"),
    "a device": "def f(x: torch.Tensor, device):\n    return x + torch.ones(3, device=device)\n",
    "the device of what is on the CPU": (
        "def f(x: torch.Tensor):\n    a = torch.arange(3)\n    b = torch.ones(3, device=a.device)\n    return a + b\n"
    ),
    "__init__": (
        "class M(nn.Module):\n    def __init__(self, mean: torch.Tensor):\n        super().__init__()\n"
        "        self.register_buffer('a', torch.zeros(3) + mean)\n"
    ),
    "a dataset": (
        "class D(torch.utils.data.Dataset):\n    def make(self, x: torch.Tensor):\n"
        "        return x + torch.ones(3)\n"
    ),
    "collate": "def collate_fn(x: torch.Tensor):\n    return torch.cat((x, torch.ones(3)))\n",
    "a converted argument": (
        "def f(x):\n    x = torch.tensor(x)\n    y = torch.arange(3)\n    return x.unsqueeze(0) == y\n"
    ),
    "given the default device by its caller": (
        "def g(w: torch.Tensor):\n    return w * torch.arange(3)\n\n\ndef f():\n    return g(torch.rand(3))\n"
    ),
    "lengths of a packed sequence": (
        "def f(x: torch.Tensor):\n    return nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))\n"
    ),
    "the first round of a loop": (
        "def f(xs: torch.Tensor):\n    out, first = torch.zeros(1), True\n    while True:\n        x = xs * 2\n"
        "        if first:\n            out = x\n        else:\n            out = torch.cat((out, x))\n"
        "        first = False\n        if len(out) > 3:\n            break\n    return out\n"
    ),
    "sparse, where its data is": (
        "def f(i: torch.Tensor, v: torch.Tensor):\n    return torch.sparse_coo_tensor(i, v) @ v\n"
    ),
    "not a list, so anything": (
        "def f(x):\n    if isinstance(x, list):\n        return None\n    else:\n        return x + torch.ones(3)\n"
    ),
    "a helper whose result is moved": (
        "def table(n):\n    return torch.ones(n)\n\n\n"
        "def f(x: torch.Tensor):\n    return x + table(3).to(x.device)\n"
    ),
    "its own device": "a = torch.rand(3)\ndevice = a.device\nb = a * torch.ones(3, device=device)\n",
    "a probe when the module is built": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Linear(3, 4)\n        self.size = self._probe()\n\n"
        "    def _probe(self):\n        return self.net(torch.zeros(1, 3)).shape[1]\n"
    ),
    "a parameter that only the constructor gives": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table = self.rope(torch.arange(9))\n\n"
        "    def rope(self, index: torch.Tensor):\n        return torch.outer(index, torch.arange(3))\n"
    ),
    "a float that becomes a tensor": (
        "class M(nn.Module):\n    @staticmethod\n    def table(n: int, d: int):\n"
        "        emb = math.log(10000) / d\n        emb = torch.exp(torch.arange(d) * -emb)\n"
        "        return emb.unsqueeze(0)\n"
    ),
    "a plain attribute of the host": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.pe = torch.zeros(3)\n\n"
        "    def table(self):\n        return self.pe.unsqueeze(0) + torch.ones(1, 3)\n"
    ),
    "from a tokenizer": (
        "def f(tokenizer, prompt, n: int):\n    ids = tokenizer(prompt).input_ids\n"
        "    return torch.cat([ids, torch.zeros(ids.size(0), n)])\n"
    ),
    "a callee that is told the device": (
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.lin = nn.Linear(3, 3)\n        self.rope = Rope()\n\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        return self.rope(torch.arange(3), device=x.device) + self.lin(x)\n"
    ),
    "a list that becomes a tensor for the workers": (
        "class M(nn.Module):\n    def sample(self, batch: list[int] | torch.Tensor):\n"
        "        if not isinstance(batch, torch.Tensor):\n            batch = torch.tensor(batch)\n"
        "        return self.negative(batch)\n\n"
        "    def negative(self, batch: torch.Tensor):\n"
        "        rest = torch.randint(3, (batch.size(0), 1), device=batch.device)\n"
        "        return torch.cat([batch.view(-1, 1), rest], dim=-1)\n"
    ),
    "private functions, which may want the host": (
        "def f(x: torch.Tensor):\n    sizes = torch.tensor([[1, 2]])\n"
        "    return torch._nested_view_from_buffer(x, sizes)\n"
    ),
    "the type of a model": ("def f(model, n: int):\n    return torch.zeros(n, 3, dtype=model.dtype)\n"),
    "a slice at numbers is copied to, from anywhere": (
        "def f(image: torch.Tensor, boxes: torch.Tensor, n: int):\n    color = torch.tensor([0.5] * n)\n"
        "    for b in range(len(boxes)):\n        image[b, :, 3:5, boxes[b, 1]] = color[:, None]\n    return image\n"
    ),
    "a list at times, whatever is declared": (
        "def f(out: torch.Tensor, n: int):\n    a = torch.ones(n)\n    if len(out) > 1:\n"
        "        return [w * o for w, o in zip(a, out)]\n    return a * out\n"
    ),
    "a list beside one that is a list at times": (
        "def f(out: torch.Tensor, x: torch.Tensor, n: int):\n    a = torch.ones(n)\n    if len(out) > 1:\n"
        "        return [w * o + y for w, o, y in zip(a, out, x)]\n    return a * x\n"
    ),
    "a list at times, by its type": (
        "def f(out: torch.Tensor, n: int):\n    a = torch.ones(n)\n    if isinstance(out, (list, tuple)):\n"
        "        r = sum(w * o for w, o in zip(a, out))\n    else:\n        r = a * out\n    return r\n"
    ),
    "an old type of the CPU": (
        "def f(x: torch.Tensor):\n    i = x.type(torch.LongTensor).view(-1, 1)\n"
        "    return torch.zeros(x.size(0), 3).scatter_(1, i, 1)\n"
    ),
    "an old type of the CPU, in a string": (
        "def f(x: torch.Tensor):\n    return torch.zeros(x.size(0), 3) + x.type('torch.FloatTensor')\n"
    ),
    "an old type of the CPU, of what is told to be a tensor by its uses only": (
        "def f(x, n):\n    out = torch.zeros(x.size(0), n)\n    return out + x.type(torch.FloatTensor)\n"
    ),
    "an old type by a name": (
        "kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n"
        "def f(x: torch.Tensor):\n    return torch.zeros(x.size(0), 3) + x.type(kind)\n"
    ),
    "made by an old type of the GPU": (
        "def f(x: torch.Tensor):\n    return torch.ones(3).type(torch.cuda.FloatTensor) + x.cuda()\n"
    ),
    "its container is moved below": (
        "def f(data, device):\n    t = data.x.unsqueeze(0) + torch.eye(3)\n    data.to(device)\n"
        "    return t, data.x.unsqueeze(0)\n"
    ),
    "its container is bound to the moved one below": (
        "def f(batch, device):\n    x = batch.x\n    t = x.unsqueeze(0) + torch.eye(3)\n"
        "    batch = batch.to(device)\n    return t, batch\n"
    ),
    "what is put into a container that is moved as a whole": (
        "def f(x: torch.Tensor, data, device):\n    data.t = torch.eye(3)\n    data.to(device)\n"
        "    return x * data.t\n"
    ),
    "what is put into a container that is moved by what it applies": (
        "def f(data, device):\n    data.t = torch.eye(3)\n    data.apply(lambda x: x.to(device))\n"
        "    return data.x.to(device) * data.t\n"
    ),
    "parts of a container are moved below": (
        "def f(batch, device):\n    t = batch.x.unsqueeze(0) + torch.eye(3)\n"
        "    batch = {k: v.to(device) for k, v in batch.items()}\n    return t, batch\n"
    ),
    "it is handed to what moves it below": (
        "def f(x: torch.Tensor, device):\n    t = x + torch.eye(3)\n"
        "    x = send_to(x, device)\n    return t, x\n"
    ),
    "sparse values whose indices are somewhere": (
        "def f(data, n):\n    e = data.edges\n    s = torch.sparse_coo_tensor(e, torch.ones(n), (n, n))\n"
        "    return s, e.unsqueeze(0)\n"
    ),
    "an old constructor of what only a tensor can be": (
        "def f(x: torch.Tensor, y):\n    m = torch.BoolTensor(y.unsqueeze(0) == 0)\n    i = torch.LongTensor(x)\n"
        "    return x * ~m.unsqueeze(-1) + i\n"
    ),
    "dimensions from tensors": (
        "def f(grad: torch.Tensor, shape):\n"
        "    i = torch.nonzero(torch.tensor([2, 3]) - torch.tensor(list(shape)))\n    i += 1\n"
        "    a = grad.sum(dim=tuple(i), keepdim=True) + grad.sum(tuple(i)) + torch.sum(grad, dim=tuple(i))\n"
        "    return a + torch.mean(grad, tuple(i))\n"
    ),
    "sizes from tensors": (
        "def f(x: torch.Tensor):\n    s = torch.tensor([2, 3])\n"
        "    return x.view(*s), x.reshape(tuple(s)), x.expand(*s), x.repeat(*s), x.permute(*s), x.size(s[0])\n"
    ),
    "a helper that is told the device": (
        "def ramp(n, device: int):\n    if device > -1:\n"
        "        return torch.cuda.LongTensor(n, device=device).fill_(1).cumsum(0) - 1\n    else:\n"
        "        return torch.arange(n)\n\n\n"
        "def f(x: torch.Tensor):\n    return x + ramp(x.size(0), x.get_device())\n"
    ),
    "a metric that was moved": (
        "def f(make, batch, device):\n    metric = make().to(device)\n    sizes = torch.tensor([len(b) for b in batch])\n"
        "    metric.update(batch, sizes)\n"
    ),
    "an index without dimensions": (
        "def f(top: torch.Tensor, n, k):\n    flags = torch.zeros(n, k)\n    for i in range(n):\n"
        "        for j in range(k):\n            at = top[i][j] // k\n            flags[i][j] = flags[i][at]\n"
    ),
    "a number under the name of a tensor": (
        "def f(n, dim):\n    half = dim // 2\n    emb = math.log(10000) / (half - 1)\n"
        "    emb = torch.exp(torch.arange(half, dtype=torch.float) * -emb)\n"
        "    emb = torch.arange(n, dtype=torch.float).unsqueeze(1) * emb.unsqueeze(0)\n"
        "    return torch.cat([torch.sin(emb), torch.cos(emb)], dim=1).view(n, -1)\n"
    ),
    "a type that a name stands for": (
        "def f(x: torch.Tensor, dtype):\n    return x * torch.arange(3).type(dtype)\n"
    ),
    "lengths of a loss by its name": (
        "def f(x, y, n):\n    x, y = x.cuda(), y.cuda()\n    return F.ctc_loss(x, y, n, torch.tensor([2, 2]))\n"
    ),
    "lengths of a loss that a name stands for": (
        "criterion = nn.CTCLoss(blank=3)\n\n\ndef f(x, y):\n    x, y = x.cuda(), y.cuda()\n"
        "    sizes, wanted = torch.tensor([5, 5]), torch.tensor([2, 2])\n"
        "    return criterion(x, y[:, 1:], sizes, wanted)\n"
    ),
    "lengths of any loss": (
        "def f(criterion, x, y):\n    x, y = x.cuda(), y.cuda()\n    lengths = torch.tensor([2, 2])\n"
        "    return criterion(x, y, lengths), criterion(x, y, target_lens=lengths)\n"
    ),
    "numbers": "def f(x: int):\n    return x * torch.ones(3)\n",
    "what may be a module, cast": "def f(x, n):\n    x = x.float().eval()\n    return torch.arange(n) * x\n",
    "a method that gives back what it is given": (
        "class M(nn.Module):\n    def start(self, x, h):\n        if h is None:\n            h = torch.zeros_like(x)\n"
        "        return h\n\n    def forward(self, x: torch.Tensor, h: torch.Tensor = None):\n"
        "        h = self.start(x, h)\n        return x * h\n"
    ),
}

UNSET = (
    "def f(x: torch.Tensor, more=False):\n    print(x.device)\n"
    "    if more:\n        x = x * torch.rand(3)\n    return x\n\n\nprint(f(1))\n"
)
WIDEN = "def widen(x: torch.Tensor):\n    return x * torch.rand(3)\n\n\n"
# One finding each, of `x * torch.rand(3)`: what shows that x may be on an accelerator.
PROVEN = {
    "a module runs it": "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    "        return x * torch.rand(3)\n",
    "forward calls it": "class M(nn.Module):\n    def forward(self, x):\n        return self.other(x)\n\n"
    "    def other(self, x: torch.Tensor):\n        return x * torch.rand(3)\n",
    "the function asks for a device": "def f(x: torch.Tensor):\n    print(x.device)\n    return x * torch.rand(3)\n",
    "a call gives it what is on a device": WIDEN + "print(widen(torch.ones(3, device='cuda')))\n",
    "a module calls it": WIDEN + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    "        return widen(x)\n",
}
PROVEN["an option that somebody sets"] = UNSET.replace("f(1)", "f(1, True)")
PROVEN["an option that somebody names"] = UNSET.replace("f(1)", "f(1, more=True)")
PROVEN["an option that is left out"] = UNSET.replace("more=False", "more=True")
# ... and what does not.
UNPROVEN = {
    "an option that nobody sets": UNSET,
    "an option of a static method": "class M(nn.Module):\n    @staticmethod\n"
    "    def f(x: torch.Tensor, more=False):\n        print(x.device)\n"
    "        return x * torch.rand(3) if more else x\n\n"
    "    def forward(self, x):\n        return self.f(x)\n",
    "an option that nobody leaves out": "def f(x: torch.Tensor, more=None):\n    print(x.device)\n"
    "    return x if more is None else x * torch.rand(3)\n",
    "the function asks where another one is": "def f(x: torch.Tensor, y: torch.Tensor):\n"
    "    print(y.device)\n    return x * torch.rand(3)\n",
    "a method that forward does not call": "class M(nn.Module):\n    def forward(self, x):\n        return x\n\n"
    "    def mask_loss(self, x: torch.Tensor):\n        return x * torch.rand(3)\n",
    "a parameter": WIDEN,
    "a caller that knows as little": WIDEN + "def g(x: torch.Tensor):\n    return widen(x)\n",
    "lengths": "class M(nn.Module):\n    def forward(self, x_lens: torch.Tensor):\n"
    "        return x_lens * torch.rand(3)\n",
    "sizes": "class M(nn.Module):\n    def forward(self, sz: torch.Tensor):\n        return sz * torch.rand(3)\n",
    "a tensor that may be a promise": "class C:\n    def f(self, x: torch.Tensor):\n        print(x.device)\n"
    "        y = x * torch.rand(3)\n        return LazyTensor(y) if self.lazy else y\n",
    "a function that reads arrays": "def f(x: torch.Tensor, y):\n    print(x.device, y.detach().numpy())\n"
    "    return x * torch.rand(3)\n",
    "a constructor that refuses tensors with dimensions": "class M(nn.Module):\n"
    "    def forward(self, x: torch.Tensor):\n        rows = [one * 2 for one in x]\n"
    "        return x * torch.Tensor(rows)\n",
    "a module of a test": PROVEN["a module runs it"]
    + "\n\ndef test_it():\n    assert M()(torch.ones(3)) is not None\n",
    "what runs while a model is exported": "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    "        if is_jit_tracing():\n            x = x * torch.rand(3)\n        return x\n",
    "a file that exports": PROVEN["a module runs it"]
    + "\n\ndef save(x, device):\n    torch.onnx.export(M(), x, 'm.onnx')\n",
    "a program for the CPU, with other moves": PROVEN["a module runs it"]
    + "\n\nM()(torch.ones(3).to(torch.float64)).sum().backward()\n",
    "a program for the CPU": PROVEN["a module runs it"] + "\n\nM()(torch.ones(3)).sum().backward()\n",
    "a method of a module that is none of its work": "class M(nn.Module):\n    def describe(self, x: torch.Tensor):\n"
    "        return x * torch.rand(3)\n",
}


@pytest.mark.parametrize("text", PROVEN.values(), ids=PROVEN)
def test_safe_where_the_other_tensor_may_be_on_an_accelerator(text: str) -> None:
    [finding] = findings(RULE, HEAD + text)
    assert finding.fix is not None and finding.fix.safety is Safety.SAFE


@pytest.mark.parametrize("text", UNPROVEN.values(), ids=UNPROVEN)
def test_unsafe_where_nothing_shows_that(text: str) -> None:
    [finding] = findings(RULE, HEAD + text)
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


def test_what_is_written_is_no_copy() -> None:
    text = (
        "class Bank:\n    def __init__(self, device):\n        self.rows = torch.rand(9, 3, device=device)\n"
        "        self.ids = torch.full((9,), -1)\n\n    def put(self, rows, ids):\n"
        "        at = torch.arange(len(ids), device=ids.device)\n        self.rows[at] = rows\n"
        "        self.ids[at] = ids\n\n\nbank = Bank('cuda')\nbank.put(torch.rand(2, 3).cuda(), torch.arange(2).cuda())\n"
    )
    [finding] = [one for one in findings(RULE, HEAD + text) if one.codemod == "place-factory"]
    assert "self.ids.to(" not in fixed(RULE, HEAD + text) and "torch.full" in finding.message


def test_a_helper_makes_it_where_the_rest_that_it_is_given_is() -> None:
    text = (
        "class M(nn.Module):\n    def start(self, x, h):\n        if h is None:\n            h = torch.zeros(x.shape[0], 4)\n"
        "        return h\n\n    def forward(self, x: torch.Tensor, y: torch.Tensor, h: torch.Tensor = None):\n"
        "        h = self.start(x, h)\n        return y * h\n"
    )
    assert fixed(RULE, HEAD + text) == HEAD + text.replace("0], 4)", "0], 4, device=x.device)")


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_changed(before: str, after: str) -> None:
    assert fixed(RULE, HEAD + before) == HEAD + after


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert findings(RULE, HEAD + text) == []


def test_safe_only_where_the_device_is_that_of_the_tensor_met() -> None:
    [met] = findings(RULE, HEAD + PROVEN["the function asks for a device"])
    [filled] = findings(RULE, HEAD + CHANGED["filled slice by slice and returned"][0])
    [optional] = findings(RULE, HEAD + "def f(x: torch.Tensor = None):\n    return x * torch.rand(3)\n")
    assert [f.fix and f.fix.safety for f in (met, filled, optional)] == [
        Safety.SAFE,
        Safety.UNSAFE,
        Safety.UNSAFE,
    ]


def test_an_old_constructor_of_what_may_be_a_tensor_is_not_safe() -> None:
    [doubted] = findings(RULE, HEAD + CHANGED["legacy with what may be either"][0])
    text = "def f(x: torch.Tensor):\n    print(x.device)\n    return x + torch.FloatTensor([1.0])\n"
    [listed] = findings(RULE, HEAD + text)
    assert doubted.fix is not None and doubted.fix.safety is Safety.UNSAFE
    assert listed.fix is not None and listed.fix.safety is Safety.SAFE


def test_no_device_that_is_bound_later() -> None:
    text = "def f(x: torch.Tensor):\n    t = torch.ones(3)\n    d = x * 2\n    return d + t\n"
    assert "torch.ones(3, device=x.device)" in fixed(RULE, HEAD + text)


def test_no_tensor_that_the_loop_over_a_generator_binds() -> None:
    """The generator begins before `x` is bound, though `x` stands before the call."""
    program = HEAD + (
        "def batches(n):\n    for _ in range(n):\n        yield torch.rand(4), torch.arange(4)\n\n\n"
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "for x, y in batches(3):\n    x = x.to(device)\n    print(x * y)\n"
    )
    made = fixed(RULE, program)
    assert "x.device" not in made.partition("for x, y")[0] and made != program


WEIGHTING = """class Weighting:
    def __init__(self):
        self.weights = torch.ones(3)
        self.last = None

    def __call__(self, losses):
        losses = torch.stack(losses)
        if self.last is not None:
            self.weights = torch.softmax(losses.detach() / self.last, 0)
        self.last = losses.detach()
        return (self.weights * losses).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        return {name: head(x) for name, head in (("a", self.one), ("b", self.two))}


def losses_of(scores, batch):
    return [F.mse_loss(scores["a"].squeeze(1), batch["a"])]


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Net().to(device)
    weighting = Weighting()
    batch = {"a": torch.rand(3)}
    scores = net(torch.ones(3, 2, device=device))
    print(weighting(losses_of(scores, batch) * 3))


main()
"""


def test_no_attribute_that_is_stored_below_and_no_dict_for_a_tensor() -> None:
    """`self.last` is not there in the line above it, though `self` is; a dict has no device."""
    made = fixed(RULE, HEAD + WEIGHTING)
    assert "self.last.device" not in made.partition("def __call__")[0]
    assert "scores.device" not in made and made != HEAD + WEIGHTING


def test_a_device_that_the_module_binds_below() -> None:
    text = "a = torch.rand(3)\nDEVICE = pick()\nb = torch.ones(3, device=DEVICE)\nc = b + a\n"
    after = fixed(RULE, "import torch\nfrom mine import pick\n\n\n" + text)
    assert "a = torch.rand(3)\n" in after and "c = b + a.to(b.device)\n" in after


def test_what_the_host_needs_as_well_is_moved_where_it_meets_the_other() -> None:
    text = "def f(x: torch.Tensor):\n    t = torch.ones(3)\n    print(t.numpy())\n    return x + t\n"
    [finding] = findings(RULE, HEAD + text)
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE
    assert fixed(RULE, HEAD + text) == HEAD + text.replace("x + t", "x + t.to(x.device)")


def test_inputs_of_a_placed_model_are_left_to_move_inputs() -> None:
    text = "model = nn.Linear(3, 3).to('cuda')\nx = torch.from_numpy(np.ones(3))\nprint(model(x))\n"
    assert findings(RULE, HEAD + text) == []


def test_the_module_body() -> None:
    text = "device = torch.device('cuda')\nx = torch.ones(3, device=device)\nprint(x + torch.arange(3))\n"
    assert "torch.arange(3, device=device)" in fixed(RULE, HEAD + text)


OTHER_CLASS = "import torch\n\n\ndef f(x: {}):\n    print(x.device)\n    return x * torch.ones(3)\n"
SQUEEZED = (
    "import torch\n\n\ndef f(x: torch.Tensor):\n    print(x.device)\n    one = torch.rand({})\n"
    "    print(one.squeeze())\n    return x * one\n"
)


@pytest.mark.parametrize(
    ("text", "safety"),
    [
        (OTHER_CLASS.format("torch.Tensor"), Safety.SAFE),
        (OTHER_CLASS.format("torch.LongTensor"), Safety.SAFE),
        (OTHER_CLASS.format("SparseConvTensor"), Safety.UNSAFE),
        (SQUEEZED.format("3"), Safety.SAFE),
        (SQUEEZED.format("1"), Safety.UNSAFE),
    ],
)
def test_what_need_not_have_a_device_or_dimensions(text: str, safety: Safety) -> None:
    assert [one.fix and one.fix.safety for one in findings(RULE, text)] == [safety]


LAYER = """\
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, given: SparseTensor):
        x = self.fc(given.features)
        return x * torch.ones(3)
"""


def test_what_is_no_tensor_is_not_asked_for_its_device() -> None:
    assert "given.device" not in fixed(RULE, LAYER)
    assert "device=given.device" in fixed(RULE, LAYER.replace("SparseTensor", "torch.Tensor"))


ARMS = """\
import torch


def gather(x: torch.Tensor, w: torch.Tensor):
    print(w.device)
    if {}:
{}        return torch.ones(3) * w
    return x
"""


@pytest.mark.parametrize(
    ("test", "above", "count"),
    [
        ("not w.is_cuda", "", 0),
        ("w.device.type == 'cpu'", "", 0),
        ("not x.is_sparse", "        assert not w.is_cuda\n", 0),
        ("w.is_cuda", "", 1),
        ("not x.is_sparse", "        assert w.is_cuda\n", 1),
    ],
)
def test_silent_where_a_condition_keeps_the_other_on_the_cpu(test: str, above: str, count: int) -> None:
    assert len(findings(RULE, ARMS.format(test, above))) == count


KEPT = """\
import torch


def norm(x: torch.Tensor, w: torch.Tensor, flag):
    print(x.device)
    out = torch.zeros(3)
    if {}:
        out = x + 1
    if flag:
        x = x * out
    return x
"""


def test_silent_where_what_was_made_is_never_read() -> None:
    assert findings(RULE, KEPT.format("flag")) == []
    assert len(findings(RULE, KEPT.format("not flag"))) == 1
    read_below = KEPT.replace("    return x", "    return x * out").format("flag")
    assert len(findings(RULE, read_below)) == 1


SUM = """\
import torch


def f(x: torch.Tensor, flag):
    print(x.device)
    loss = x.sum() * 2
    stop = x.mean() if flag else torch.zeros({})
    loss {} stop
    return loss
"""


@pytest.mark.parametrize(
    ("size", "operator", "safety"),
    [("1", "+=", Safety.UNSAFE), ("3", "+=", Safety.SAFE), ("1", "= loss +", Safety.SAFE)],
)
def test_one_element_is_not_added_in_place_to_a_number(size: str, operator: str, safety: Safety) -> None:
    found = findings(RULE, SUM.format(size, operator))
    assert [one.fix and one.fix.safety for one in found] == [safety]


def test_no_device_of_what_may_be_none() -> None:
    """The function asks for the mask only below: its device would fail where there is none."""
    text = (
        "def f(q: torch.Tensor, mask: torch.Tensor = None):\n    bias = torch.zeros(3, 3)\n"
        "    if mask is not None:\n        bias = bias + mask\n    return q @ bias\n"
    )
    assert "torch.zeros(3, 3, device=q.device)" in fixed(RULE, HEAD + text, Safety.UNSAFE)


def test_the_device_of_an_argument_that_may_be_left_out() -> None:
    text = (
        "import torch\n\n\ndef inflate(x, times):\n    return x.repeat(*[times] * x.dim())\n\n\n"
        "class Decoder(torch.nn.Module):\n    def forward(self, inputs=None, outputs=None):\n"
        "        inputs, size = self.rnn.validate(inputs, outputs)\n"
        "        self.index = torch.zeros(size, 3) * self.k\n"
        "        if self.rnn.attends:\n            outputs = inflate(outputs, self.k)\n"
    )
    assert "outputs.device" not in fixed(RULE, text)
    used = text.replace("inputs, size = self.rnn.validate(inputs, outputs)", "size = outputs.size(0)")
    assert "outputs.device" in fixed(RULE, used.replace(" * self.k\n", "\n", 1))


@pytest.mark.parametrize("moved", ["type_as(logits)", "to(logits.device)", "to(logits)"])
@pytest.mark.parametrize("name", ["loss", "criterion", "cross_entropy_loss", "offset"])
def test_a_function_of_the_file_is_followed_whatever_it_is_called(name: str, moved: str) -> None:
    text = f"""
import torch
from torch import nn


def {name}(labels, logits, counts):
    counts = counts.{moved}
    return nn.functional.cross_entropy(logits + counts, labels)


class Client:
    def __init__(self, device):
        self.device = device
        self.model = nn.Linear(2, 2).to(device)
        self.counts = torch.zeros(2)

    def train(self, loader):
        for x, y in loader:
            {name}(y.to(self.device), self.model(x.to(self.device)), self.counts).backward()
"""
    assert not findings(RULE, text)
    assert findings(RULE, text.replace(f"    counts = counts.{moved}\n", ""))
