"""place-factory: what is indexed, sent, rebuilt, refused, made up for a model, kept by a class, or moved late."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
HEAD = (
    "import torch\nimport torch.distributed as dist\nfrom copy import deepcopy\n"
    "from thop import profile\nfrom torch import nn\n\n\n"
)

KEEPER = (
    "class Window{}:\n    def __init__(self, n{}):\n{}        w = torch.linspace(0, 1, n{})\n"
    "        self.w = w / w.sum()\n\n    def run(self, x: torch.Tensor):\n        w = {}\n        return x * w\n"
)
BOUND = "        self.device = device\n"

# name: (before, after)
CHANGED = {
    "drawn from a generator of the CPU": (
        "def f(n, device):\n    gen = torch.Generator().manual_seed(0)\n"
        "    return torch.randn(n, 3, device=device, generator=gen)\n",
        "def f(n, device):\n    gen = torch.Generator().manual_seed(0)\n"
        "    return torch.randn(n, 3, generator=gen).to(device)\n",
    ),
    "drawn from a generator of the device": (
        "def f(n, device):\n    gen = torch.Generator(device=device)\n    return torch.randn(n, 3, generator=gen)\n",
        "def f(n, device):\n    gen = torch.Generator(device=device)\n"
        "    return torch.randn(n, 3, generator=gen, device=gen.device)\n",
    ),
    "asked of a distribution, which has no device": (
        "class P(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.mu = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        d = torch.distributions.Normal(self.mu(x), 1.0)\n"
        "        return d.log_prob(torch.zeros(3))\n",
        "class P(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.mu = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        d = torch.distributions.Normal(self.mu(x), 1.0)\n"
        "        return d.log_prob(torch.zeros(3, device=x.device))\n",
    ),
    "beside a packed sequence, which has no device": (
        "class R(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.r = nn.GRU(4, 4)\n"
        "    def forward(self, x, lengths):\n"
        "        p = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu())\n"
        "        return self.r(p, torch.zeros(1, 2, 4))\n",
        "class R(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.r = nn.GRU(4, 4)\n"
        "    def forward(self, x, lengths):\n"
        "        p = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu())\n"
        "        return self.r(p, torch.zeros(1, 2, 4, device=x.device))\n",
    ),
    "values and indices, which have no device together": (
        "def f(rows: torch.Tensor):\n    m = rows.max(1)\n    return m[0] + torch.ones(4)\n",
        "def f(rows: torch.Tensor):\n    m = rows.max(1)\n    return m[0] + torch.ones(4, device=m[0].device)\n",
    ),
    "drawn from the generator that was seeded": (
        "def f(x: torch.Tensor):\n"
        "    return x + torch.rand(3, generator=torch.manual_seed(1), dtype=x.dtype, device=x.device)\n",
        "def f(x: torch.Tensor):\n"
        "    return x + torch.rand(3, generator=torch.manual_seed(1), dtype=x.dtype).to(x.device)\n",
    ),
    "new elements written to a list of places": (
        "def f(x: torch.Tensor):\n    x[[0, 1]] = torch.ones(2)\n    return x\n",
        "def f(x: torch.Tensor):\n    x[[0, 1]] = torch.ones(2, device=x.device)\n    return x\n",
    ),
    "sent where one way it is of the device": (
        "def f(x: torch.Tensor, mask: torch.Tensor = None):\n    if mask is not None:\n        n = mask.sum()\n"
        "    else:\n        n = torch.tensor(x.numel())\n    dist.all_reduce(n)\n    return n\n",
        "def f(x: torch.Tensor, mask: torch.Tensor = None):\n    if mask is not None:\n        n = mask.sum()\n"
        "    else:\n        n = torch.tensor(x.numel(), device=x.device)\n    dist.all_reduce(n)\n    return n\n",
    ),
    "gathered by accelerate": (
        "def f(accelerator, n):\n    return accelerator.gather(torch.tensor(n)).sum()\n",
        "def f(accelerator, n):\n    return accelerator.gather(torch.tensor(n, device=accelerator.device)).sum()\n",
    ),
    "gathered by the accelerator of an object": (
        "class T:\n    def f(self, n):\n        return self.accelerator.gather_for_metrics(torch.tensor([n]))\n",
        "class T:\n    def f(self, n):\n"
        "        return self.accelerator.gather_for_metrics(torch.tensor([n], device=self.accelerator.device))\n",
    ),
    "an old constructor that is told a device": (
        "def f(xs, device):\n    return torch.LongTensor([1, 2], device=device)\n",
        "def f(xs, device):\n    return torch.tensor([1, 2], dtype=torch.long, device=device)\n",
    ),
    "an old constructor of a name that is told a device": (
        "def f(xs, y):\n    return torch.FloatTensor(xs, device=y.device)\n",
        "def f(xs, y):\n    return torch.FloatTensor(xs).to(y.device)\n",
    ),
    "an old constructor of a comparison": (
        "def f(x: torch.Tensor, seqs):\n    return x * ~torch.BoolTensor(seqs == 0).unsqueeze(-1)\n",
        "def f(x: torch.Tensor, seqs):\n"
        "    return x * ~torch.BoolTensor(seqs == 0).to(x.device).unsqueeze(-1)\n",
    ),
    "pinned where there may be no CUDA": (
        "def f(xs, device):\n    x = torch.tensor(xs, pin_memory=True)\n    return x.to(device, non_blocking=True)\n",
        "def f(xs, device):\n    x = torch.tensor(xs, pin_memory=torch.cuda.is_available())\n"
        "    return x.to(device, non_blocking=True)\n",
    ),
    "rebuilt where the device is another": (
        "class M:\n    def mask(self, t):\n        if self.m is None or self.m.device != t.device:\n"
        "            self.m = fill(torch.zeros(t.size(0), 3))\n        return self.m\n",
        "class M:\n    def mask(self, t):\n        if self.m is None or self.m.device != t.device:\n"
        "            self.m = fill(torch.zeros(t.size(0), 3)).to(t.device)\n        return self.m\n",
    ),
    "made before what it meets, beside others that are moved": (
        "def f(model, batch, data, mask):\n    w = torch.Tensor(data)\n    m = torch.Tensor(mask)\n    preds = model(batch.graph())\n"
        "    m = m.to(preds.device)\n    return (preds * m * w.unsqueeze(1)).sum()\n",
        "def f(model, batch, data, mask):\n    w = torch.Tensor(data)\n    m = torch.Tensor(mask)\n    preds = model(batch.graph())\n"
        "    m = m.to(preds.device)\n    return (preds * m * w.unsqueeze(1)).sum()\n",
    ),
    "an input made up to count what a model does": (
        "def info(model):\n    n = sum(p.numel() for p in model.parameters())\n"
        "    return n, profile(deepcopy(model), inputs=(torch.zeros(1, 3, n, n),))\n",
        "def info(model):\n    n = sum(p.numel() for p in model.parameters())\n"
        "    return n, profile(deepcopy(model), inputs=(torch.zeros(1, 3, n, n,"
        " device=next(model.parameters()).device),))\n",
    ),
    "an input made up to see how far a model looks": (
        "def reach(model, n):\n    model.eval()\n    return model(torch.randn(1, 1, n))\n",
        "def reach(model, n):\n    model.eval()\n"
        "    return model(torch.randn(1, 1, n, device=next(model.parameters()).device))\n",
    ),
    "an input made up to trace a method": (
        "class Impl:\n    def use(self, x):\n        return self.net(x.to(self.device))\n\n    def save(self, path):\n"
        "        x = torch.rand(1, *self.shape)\n\n        def run(x):\n            return self.net(x)\n\n"
        "        torch.jit.trace(run, x).save(path)\n",
        "class Impl:\n    def use(self, x):\n        return self.net(x.to(self.device))\n\n    def save(self, path):\n"
        "        x = torch.rand(1, *self.shape, device=self.device)\n\n        def run(x):\n            return self.net(x)\n\n"
        "        torch.jit.trace(run, x).save(path)\n",
    ),
    "an input made up while a module is built around a model": (
        "class Around(nn.Module):\n    def __init__(self, net, size):\n        super().__init__()\n        self.net = Wrap(net)\n"
        "        self.forward(torch.randn(2, 3, size))\n",
        "class Around(nn.Module):\n    def __init__(self, net, size):\n        super().__init__()\n        self.net = Wrap(net)\n"
        "        self.to(next(net.parameters()).device)\n"
        "        self.forward(torch.randn(2, 3, size, device=next(net.parameters()).device))\n",
    ),
    "kept by a class without a device": (
        KEEPER.format("", "", "", "", "self.w"),
        KEEPER.format("", "", "", "", "self.w.to(x.device)"),
    ),
    "kept by a class that has a device": (
        KEEPER.format("", ", device", BOUND, "", "self.w").replace(
            "return x * w", "y = torch.ones(3, device=self.device)\n        return y * w"
        ),
        KEEPER.format("", ", device", BOUND, ", device=self.device", "self.w").replace(
            "return x * w", "y = torch.ones(3, device=self.device)\n        return y * w"
        ),
    ),
}
late_before, late_after = CHANGED["made before what it meets, beside others that are moved"]
CHANGED["made before what it meets, beside others that are moved"] = (
    late_before,
    late_after.replace("    return", "    w = w.to(preds.device)\n    return"),
)

SILENT = {
    "drawn from a generator that is told the device": (
        "def f(n, device, other=None):\n    gen = torch.Generator(device)\n    gen.manual_seed(0)\n"
        "    return torch.randn(n, generator=gen, device=device), torch.randn(n, generator=other, device=device)\n"
    ),
    "drawn around a mean of the device, which says where": (
        "def f(mean, std, device):\n    gen = torch.Generator(device=device)\n"
        "    return torch.normal(mean.to(device), std.to(device), generator=gen)\n"
    ),
    "drawn from a generator of the device, which is the default here": (
        "def f(n, device):\n    gen = torch.Generator(device)\n    with torch.device(device):\n"
        "        return torch.randn(n, generator=gen)\n"
    ),
    "drawn on the CPU, where that is asked": (
        "def f(n, device):\n    gen = torch.Generator().manual_seed(0)\n    if device.type == 'cpu':\n"
        "        return torch.randn(n, generator=gen, device=device)\n"
        "    return torch.randn(n, generator=gen).to(device)\n"
    ),
    # index_put_ brings the indices to where the tensor is.
    "a number written where a tensor of the device says": (
        "def f(t: torch.Tensor):\n    m = torch.zeros(3, 4)\n    m[torch.arange(3), t.long()] = 1\n    return m\n"
    ),
    "a method of a model, whose device is out of sight": (
        "def reach(model, n):\n    model.eval()\n    return model.reach(torch.randn(1, 1, n))\n"
    ),
    "what is on the CPU is written to what is there": (
        "def f(t: torch.Tensor, c):\n    m = torch.zeros(3)\n    m[t.long()] = c.cpu()\n    return m + 1\n"
    ),
    "an old constructor that is told the CPU": (
        "def f():\n    return torch.Tensor([1.0], device='cpu'), torch.Tensor([1.0], device=torch.device('cpu'))\n"
    ),
    "an old constructor where there is no device": (
        "def f(device):\n    if device == 'cpu':\n        return torch.Tensor([1.0], device=device)\n    return None\n"
    ),
    "a program for the CPU": "device = 'cpu'\nx = torch.LongTensor([1], device=device)\n",
    "pinned under a condition": (
        "def f(xs, device):\n    if device.type == 'cuda':\n        xs = torch.tensor(xs, pin_memory=True)\n"
        "    return xs.to(device)\n"
    ),
    "rebuilt and moved": (
        "class M:\n    def mask(self, t):\n        if self.m.device != t.device:\n"
        "            self.m = fill(torch.zeros(3))\n            self.m = self.m.to(t.device)\n        return self.m\n"
    ),
    "rebuilt, and moved below, where it need not have been rebuilt": (
        "class M:\n    def mask(self, t):\n        if self.m.device != t.device:\n"
        "            self.m = fill(torch.zeros(3))\n        self.m = self.m.to(t)\n        return self.m\n"
    ),
    "rebuilt where the device is the same": (
        "class M:\n    def mask(self, t):\n        if self.m.device == t.device:\n"
        "            self.m = fill(torch.zeros(3))\n        return self.m\n"
    ),
    "made from what it meets": (
        "def f(model, data):\n    w = torch.Tensor(data)\n    preds = model(w)\n    return preds.unsqueeze(0) * w\n"
    ),
    "the device of something made from it": (
        "def f(model, batch, data, mask):\n    w = torch.Tensor(data)\n    preds = model(batch.graph(w))\n"
        "    m = torch.Tensor(mask).to(preds.device)\n    return (m * w.unsqueeze(1)).sum()\n"
    ),
    "a name of what holds tensors": "def f(xs_list):\n    return torch.ones(3) * xs_list[:, 0]\n",
    "an input for a model that is on the CPU": (
        "def info(model):\n    model = model.cpu()\n    return profile(model, inputs=(torch.zeros(1, 3, 9, 9),))\n"
    ),
    "an input for a model that is made here": (
        "def info():\n    model = build()\n    return profile(model, inputs=(torch.zeros(1, 3, 9, 9),))\n"
    ),
    "kept by a class that moves it": (
        KEEPER.format("", "", "", "", "self.w.to(x.device)") + "\n    def other(self, x: torch.Tensor):\n"
        "        return x * self.w.to(x.device)\n"
    ),
    "kept by a class that prepares data": KEEPER.format("Normalizer", "", "", "", "self.w"),
    "kept by a class and bound again": KEEPER.format("", "", "", "", "self.w")
    + "\n    def other(self, x):\n        self.w = x\n",
    "a start that each way replaces": (
        "def f(x: torch.Tensor, mode):\n    a = torch.tensor([0])\n    if mode == 'a':\n        a = x + 1\n"
        "    elif mode == 'b':\n        if x is None:\n            a = x\n        else:\n            a = x * 2\n    return x * a\n"
    ),
    "a start that is moved, and returned": (
        "class C(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n\n"
        "    @staticmethod\n    def count(loader):\n        h = torch.zeros(1)\n        for x in loader:\n"
        "            c = torch.bincount(x.long())\n            h = h.to(c.device)\n            h = h + c\n        return h\n"
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_changed(before: str, after: str) -> None:
    assert fixed(RULE, HEAD + before) == HEAD + after
    assert fixed(RULE, HEAD + after) == HEAD + after


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert findings(RULE, HEAD + text) == []


def test_all_of_these_are_unsafe_but_what_always_raises_on_an_accelerator() -> None:
    safe = {
        name
        for name, (before, _) in CHANGED.items()
        if any(one.fix is not None and one.fix.safety is Safety.SAFE for one in findings(RULE, HEAD + before))
    }
    assert safe <= {
        "an old constructor of a name that is told a device",
        "drawn from a generator of the CPU",
        "asked of a distribution, which has no device",
        "beside a packed sequence, which has no device",
        "drawn from a generator of the device",
        "drawn from the generator that was seeded",
        "new elements written to a list of places",
    }


def test_a_static_method_has_no_self() -> None:
    text = (
        "class C(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n\n"
        "    @staticmethod\n    def f(n, xs):\n        h = torch.zeros(1)\n        for x in xs:\n"
        "            h = h + x.long().cuda()\n        return h\n"
    )
    assert "self.parameters()" not in fixed(RULE, HEAD + text)


def test_a_tuple_of_tensors_has_no_device() -> None:
    text = (
        "def f(run, inputs):\n    inputs_tuple, other = form(inputs)\n    first = run(inputs_tuple[0].device)\n"
        "    for one in parts(inputs_tuple, other):\n        first = torch.cat((torch.zeros(1, 3), one.unsqueeze(0)))\n"
        "    return first\n"
    )
    assert "inputs_tuple.device" not in fixed(RULE, HEAD + text)


def test_a_move_beside_others_is_told_there() -> None:
    text = HEAD + late_before
    [finding] = findings(RULE, text)
    assert text[finding.span.start : finding.span.end] == "m = m.to(preds.device)"
