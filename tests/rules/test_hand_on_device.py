"""hand-on-device: who leaves a device out, what is handed on, and where another one is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.hand_on_device import HandOnDevice

RULE = HandOnDevice()
HEAD = "import torch\nfrom nets import Block, helper\n\n\n"
_ONES = "def ones(n, device='cpu'):\n    return torch.ones(n, device=device)\n\n\n"
_CUDA = _ONES.replace("cpu", "cuda")
_NONE = _ONES.replace("'cpu'", "None")

# name: (before, what the call becomes)
CHANGED = {
    "a parameter": (
        _ONES + "def f(n, x, device):\n    return x.to(device) * ones(n)\n",
        "ones(n, device=device)",
    ),
    "a variable": (
        _CUDA + "def f(n, x):\n    device = x.device\n    return ones(n)\n",
        "ones(n, device=device)",
    ),
    "an attribute": (
        _ONES + "class A:\n    def __init__(self, device):\n        self.device = device\n"
        "    def f(self, x):\n        return ones(3) - x.to(self.device)\n",
        "ones(3, device=self.device)",
    ),
    "a device by its class": (
        "class Net(torch.nn.Module):\n    def __init__(self, n, *, device=torch.device('cuda')):\n"
        "        self.n = torch.zeros(n, device=device)\n\n\ndef f(device):\n    return Net(3)\n",
        "Net(3, device=device)",
    ),
    "a method": (
        "class A:\n    def ones(self, n, device='cuda'):\n        return torch.ones(n, device=device)\n"
        "    def f(self, device):\n        return self.ones(2)\n",
        "self.ones(2, device=device)",
    ),
    "a method of an object": (
        "class Net:\n    def __init__(self):\n        self.n = 2\n    def draw(self, n, device='cuda'):\n"
        "        return torch.ones(n, device=device)\n\n\ndef f(device):\n    net = Net()\n    return net.draw(2)\n",
        "net.draw(2, device=device)",
    ),
    "None is torch's CPU": (
        _NONE + "def f(n, device):\n    made = ones(n)\n    return torch.ones(n, device=device) @ made\n",
        "ones(n, device=device)",
    ),
    "the CPU by a torch.device": (
        _ONES.replace("'cpu'", "torch.device('cpu')")
        + "def f(n, x, device):\n    return x.to(device) * ones(n)\n",
        "ones(n, device=device)",
    ),
    "on the way through another one": (
        _ONES + "def two(n):\n    return ones(n) * 2\n\n\n"
        "def f(n, x, device):\n    x = x.to(device)\n    made = ones(n)\n    return x + made.unsqueeze(0)\n",
        "ones(n, device=device)",
    ),
    "calls itself": (
        "def move(x, device='cpu'):\n    if isinstance(x, list):\n        return [move(y) for y in x]\n"
        "    return x.to(device)\n",
        "move(y, device=device)",
    ),
    "calls itself, with a device that may be None": (
        "def move(x, device=None):\n    if isinstance(x, torch.Tensor):\n        return x.to(device)\n"
        "    parts = tuple(move(y) for y in x)\n    return parts\n",
        "move(y, device=device)",
    ),
    "calls itself for the values of a dict": (
        "def put(d, *, device=None):\n    if torch.is_tensor(d):\n        return d.to(device=device)\n"
        "    if isinstance(d, dict):\n        return {k: put(v) for k, v in d.items()}\n    return d\n",
        "put(v, device=device)",
    ),
    "calls itself in a loop": (
        "def put(d, dev=None):\n    if hasattr(d, 'to'):\n        return d.to(dev)\n    done = []\n"
        "    for one in d:\n        done.append(put(one))\n    return done\n",
        "put(one, dev=dev)",
    ),
    "calls itself by map": (
        "def put(d, device=None):\n    if isinstance(d, list):\n        return list(map(lambda v: put(v, device), d))\n"
        "    elif isinstance(d, tuple):\n        return tuple([put(v) for v in d])\n    return d.to(device)\n",
        "put(v, device=device)",
    ),
    "a method calls itself": (
        "class Mover:\n    def put(self, x, device=None):\n        if torch.is_tensor(x):\n            return x.to(device)\n"
        "        return [self.put(y) for y in x]\n",
        "self.put(y, device=device)",
    ),
    "a device that nobody reads": (
        _NONE + "def mask(n, device=None):\n    return ones(n).cumsum(0)\n",
        "ones(n, device=device)",
    ),
    "a device that nobody reads, though it has to be given": (
        _ONES + "def mask(n, device):\n    steps = ones(n)\n    return steps - 1\n",
        "ones(n, device=device)",
    ),
    "a part, of a device that nobody reads": (
        "class Design:\n    def __init__(self, n, device=None):\n        self.device = device\n"
        "        self.n = torch.zeros(n, device=device)\n\n\nclass Filter(torch.nn.Module):\n"
        "    def __init__(self, n, device=None):\n        super().__init__()\n        self.design = Design(n)\n",
        "Design(n, device=device)",
    ),
    "a base, of a device that nobody reads": (
        "class A:\n    def __init__(self, n, device='cpu'):\n        self.x = torch.ones(n).to(device)\n\n\n"
        "class B(A):\n    def __init__(self, n, device='cpu'):\n        super().__init__(n)\n        self.k = 3\n",
        "super().__init__(n, device=device)",
    ),
    "a method, of a device that nobody reads": (
        "class A:\n    def ones(self, n, *, device=None):\n        return torch.ones(n, device=device)\n"
        "    def steps(self, n, device=None):\n        return {'steps': self.ones(n)}\n",
        "self.ones(n, device=device)",
    ),
    "a method of the same name": (
        "class Batch:\n    def to_torch(self, dtype=None, device='cpu'):\n        for v in vars(self).values():\n"
        "            if isinstance(v, Batch):\n                v.to_torch()\n            else:\n"
        "                v.to(device)\n",
        "v.to_torch(device=device)",
    ),
    "a method of another's, as a branch beside it": (
        "def to_torch(x, device='cpu'):\n    if isinstance(x, dict):\n        return [to_torch(v, device) for v in x]\n"
        "    return x.to_torch()\n",
        "x.to_torch(device=device)",
    ),
    "made anew": (
        "class Lazy:\n    def __init__(self, *parts, dim=0, output_device=None):\n"
        "        self.output_device = output_device\n    def f(self):\n        return type(self)(*self.parts, dim=1)\n",
        "type(self)(*self.parts, dim=1, output_device=self.output_device)",
    ),
}

# Another device is meant, or it does not matter.
SILENT = {
    "it is combined with nothing of another device": _ONES
    + "def f(n, device):\n    return ones(n), torch.zeros(n, device=device)\n",
    "it is combined with what is on the CPU": _NONE
    + "def f(n, device):\n    x = torch.zeros(n)\n    x += ones(n)\n    return x.to(device)\n",
    "it is copied": _ONES + "def f(n, x, device):\n    return x.to(device) * ones(n).to(x.device)\n",
    "it is an index": _ONES + "def f(n, device):\n    return torch.rand(3, device=device)[ones(n).long()]\n",
    "it is a number": _ONES + "def f(n, x, device):\n    return x.to(device) * ones(n).sum()\n",
    "it is handed on": _ONES + "def f(n, device):\n    return ones(n, device)\n",
    "other attributes": "class Net(torch.nn.Module):\n    def cache(self, device=None):\n        return helper(device=device)\n"
    "    def grow(self):\n        self.cos, self.sin = self.cache(device=self.cos.device)\n"
    "    def reset(self):\n        self.low, self.high = self.cache()\n",
    "the same attributes, before there are any": "class Net(torch.nn.Module):\n    def cache(self, device=None):\n        return helper(device=device)\n"
    "    def grow(self):\n        self.cos, self.sin = self.cache(device=self.cos.device)\n"
    "    def __init__(self):\n        self.cos, self.sin = self.cache()\n",
    "who knows": _ONES + "def f(n, device, **more):\n    return ones(n, **more)\n",
    "no device in scope": _ONES + "def f(n):\n    return ones(n)\n",
    "moved at once": _ONES + "def f(n, device):\n    return ones(n).to(device)\n",
    "moved later": _ONES + "def f(n, device):\n    x = ones(n)\n    return x.to(device)\n",
    "of its input": "def ones(x, device=None):\n    if device is None:\n        device = x.device\n"
    "    return torch.ones(3, device=device)\n\n\ndef f(x, device):\n    return ones(x)\n",
    "of its input, whatever it is told": "def ones(x, device='cpu'):\n    if x is not None:\n        device = x.device\n"
    "    return torch.ones(3, device=device)\n\n\ndef f(x, device):\n    return ones(x)\n",
    "it does not read it": "def ones(n, device='cpu'):\n    return n\n\n\ndef f(n, device):\n    return ones(n)\n",
    "the same device": _CUDA + "def f(n):\n    device = 'cuda'\n    return ones(n)\n",
    "the CPU by name": _ONES.replace("ones(n, ", "load_ones(n, ") + "def f(n, device):\n    return load_ones(n), device\n",
    "where there is no GPU": _CUDA + "def f(n, device):\n    if device == 'cuda':\n        return ones(n)\n",
    "after an error": _ONES + "def f(n, device):\n    try:\n        return ones(n, device)\n"
    "    except RuntimeError:\n        return ones(n)\n",
    "a test": _ONES + "def test_ones(device):\n    assert ones(2).sum() == 2\n",
    "its own CPU": "class A:\n    def __init__(self, device):\n        self.device = device\n"
    "    def rows(self, device='cpu'):\n        return torch.ones(3).to(device)\n"
    "    def f(self):\n        return self.rows()\n",
    "it asks elsewhere": "def ones(x, device=None):\n    return torch.ones(3).to(x.device)\n",
    "parameters of a module": "class Net(torch.nn.Module):\n    def __init__(self, n, device):\n"
    "        self.w = torch.nn.Parameter(torch.zeros(n))\n",
    "what it makes goes elsewhere": "def fill(x, device):\n    idx = torch.randperm(3)\n    return x[idx]\n",
    "more than one": "def rows(n, device):\n    x = torch.zeros(n)\n    x[torch.randperm(n)[:2]] = 1\n    return x\n",
    "a base": "class A:\n    def __init__(self, n, device='cpu'):\n        self.x = torch.ones(n, device=device)\n\n\n"
    "class B(A):\n    def __init__(self, n, device):\n        super().__init__(n)\n        self.device = device\n",
    "a number": "def seed(n, device):\n    return torch.randint(0, n, (1,)).item()\n",
    "no object to take it from": "class A:\n    def __init__(self, n, device='cuda'):\n        self.device = device\n"
    "    @staticmethod\n    def make(n):\n        return A(n)\n",
    "calls itself for what is on the device of its input": "def put(d, device=None):\n    device = d[0].device\n"
    "    return [put(v) for v in d] if len(d) else torch.ones(3, device=device)\n",
    "calls itself, and moves the result": "def make(n, device=None):\n    if n > 3:\n        x = make(n - 1)\n"
    "        return x.to(device)\n    return torch.ones(n, device=device)\n",
    "nobody reads the device, and another one is the default": _ONES
    + "def mask(n, device='cuda'):\n    return ones(n).cumsum(0)\n",
    "nobody reads the device, as it says": _NONE + "def mask(n, device=None):\n    del device\n    return ones(n)\n",
    "nobody reads the device of either": "def ones(n, device=None):\n    return n * 2\n\n\n"
    "def mask(n, device=None):\n    return ones(n)\n",
    "nobody reads the device, and the result is moved": _NONE
    + "class A:\n    def mask(self, n, device=None):\n        x = ones(n)\n        return x.to(self.device)\n",
    "nobody reads the device, which several calls take": _NONE
    + "def mask(n, device=None):\n    return ones(n), ones(2 * n)\n",
    "data for workers": _ONES + "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i, device=0):\n"
    "        return ones(i)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_hands_it_on(name: str) -> None:
    before, call = CHANGED[name]
    [found] = findings(RULE, HEAD + before)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    after = fixed(RULE, HEAD + before)
    assert after.count(call) == before.count(call) + 1
    assert not findings(RULE, after)


@pytest.mark.parametrize("name", SILENT)
def test_leaves_alone(name: str) -> None:
    assert not findings(RULE, HEAD + SILENT[name])


def test_says_where_the_other_device_comes_from() -> None:
    [found] = findings(RULE, HEAD + CHANGED["a parameter"][0])
    assert "uses the CPU" in found.message
    assert [one.message for one in found.related] == ["the device that it takes"]


@pytest.mark.parametrize("held", ["self.index['a']", "self.table", "TABLES[k]"])
def test_what_an_object_holds_may_take_no_device_where_its_own_method_does(held: str) -> None:
    text = (
        "class Searcher:\n    def search(self, x, device='cpu', k=2):\n        if isinstance(x, list):\n"
        "            return [self.search(one, device, k) for one in x]\n"
        f"        y = torch.ones(3, device=device) * x\n        return {held}.search(y, k)\n"
    )
    assert findings(RULE, HEAD + text) == []


def test_a_function_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tools.py").write_text("import torch\n\n\n" + _ONES)
    text = "import torch\nfrom tools import ones\n\n\ndef f(x, device):\n    return ones(3) * x.to(device)\n"
    (tmp_path / "main.py").write_text(text)
    around = Around(str(tmp_path))
    report = run(discover([str(tmp_path)]), [RULE], Safety.UNSAFE, jobs=1, around=around)
    (changed,) = report.changed
    assert "ones(3, device=device)" in changed.after.decode()
