"""move-inputs: an argument is moved surely only where the module's own code shows that it meets the module."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from applying import findings, fixed
from devfix import check
from devfix.findings import Safety
from devfix.rules.move_inputs import MoveInputs

RULE = MoveInputs()
NET = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from helpers import build

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.cell = nn.GRUCell(4, 4)
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.layers = nn.ModuleList([nn.Linear(4, 4)])
        self.l0 = nn.Linear(4, 4)
        self.net = build()
        self.blocks = nn.Sequential(Block(), Block())
        self.block = Block()
        self.relu = nn.ReLU()

    def forward(self, x, y=None, flag=False):
{body}

    def _inner(self, x, *, on=True):
        if on:
            return self.fc(x)
        return x

    def _rest(self, x, y, **more):
        return self.fc(x)


"""
CALL = """\
model = Net().to(device)
x = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
y = torch.from_numpy(np.ones((2, 4), dtype=np.float32))
print(model(x.to(device), {arguments}))
"""

# name: (what `forward` does, what the call hands over beside x)
MEETS = {
    "mask": (
        "scores = self.fc(x)\nif y is not None:\n    scores = scores.masked_fill(y == 0, -1e9)\nreturn scores",
        "y",
    ),
    "cell": ("return self.cell(x, y)", "y"),
    "alias": ("layer = self.fc\nreturn layer(y) + layer(x)", "y"),
    "loop": ("for layer in self.layers:\n    y = layer(y)\nreturn y", "y"),
    "f": ("return F.linear(y, self.weight)", "y"),
    "mm": ("return y @ self.weight", "y"),
    "nograd": ("with torch.no_grad():\n    h = self.block(y)\nreturn h", "y"),
    "seq": ("return self.blocks(y)", "y"),
    "x": ("return x * y", "y"),
    "inner": ("return self._inner(y)", "y"),
    "kw": ("return self._inner(x=y, on=not flag)", "y"),
    "cond": ("if self.training:\n    return self.fc(y)\nreturn x", "y"),
    "default": ("if not flag:\n    return self.fc(y)\nreturn x", "y"),
    "tuple": ("a, b = self.fc(x), y\nreturn torch.cat([a, b])", "y"),
    "unsq": ("h = y.unsqueeze(0).float() / 255\nreturn self.fc(h.view(-1, 4))", "y"),
    "aug": ("out = self.fc(x)\nout += y\nreturn out", "y"),
    "loss": ("out = self.fc(x)\nreturn nn.MSELoss()(out, y)", "y"),
    "try": ("try:\n    return self.fc(y)\nfinally:\n    pass", "y"),
    "lam": ("f = lambda t: self.fc(t)\nreturn f(y)", "y"),
}
# In this call it is counted, copied, moved by the module, given back, a number, or not read.
NEVER = {
    "default": ("if flag:\n    return self.fc(y)\nreturn self.fc(x)", "y"),
    "kw": ("return self._inner(y, on=flag) * 1 if False else x", "y"),
    "given": ("if flag is False:\n    return self.fc(x)\nreturn self.fc(y)", "y, flag=False"),
    "index": ("return self.weight[y.long()]", "y"),
    "count": ("n = int(y.sum())\nreturn self.fc(x)[:n, : y.size(1)]", "y"),
    "shape": ("return self.fc(x).view(y.shape)", "y"),
    "cuda": ("y = y.cuda() if self.use_cuda else y\nreturn self.fc(y)", "y"),
    "typeas": ("y = y.type_as(self.weight)\nreturn self.fc(y)", "y"),
    "like": ("return self.fc(torch.zeros_like(y, device=x.device))", "y"),
    "numpy": ("return self.fc(torch.from_numpy(y.numpy()).to(x.device))", "y"),
    "pack": ("return nn.utils.rnn.pack_padded_sequence(self.fc(x), y)", "y"),
    "store": ("out = x.clone()\nout[:, :2] = y[:, :2]\nreturn self.fc(out)", "y"),
    "positions": ("return self.fc(torch.stack([x[slice(a, a + 2)] for a in y]))", "y"),
    "rest": ("return self._rest(x, y, scale=x, again=x)", "y"),
    "return": ("return self.fc(x), y", "y"),
    "relu": ("return self.fc(x), self.relu(y)", "y"),
    "number": ("return self.fc(x) * y.max()", "y"),
    "copy": ("out = x.clone()\nout.copy_(y)\nreturn self.fc(out)", "y"),
}
# It is read on the CPU as well, or what uses it is not known.
DOUBTED = {
    "packed as well": ("h = self.fc(x) * y\nreturn nn.utils.rnn.pack_padded_sequence(h, y)", "y"),
    "getattr": ("return getattr(self, f'l{0}')(y)", "y"),
    "built": ("return self.net(y)", "y"),
}


def safeties(body: str, arguments: str) -> list[Safety | None]:
    text = NET.format(body=textwrap.indent(body, " " * 8)) + CALL.format(arguments=arguments)
    return [found.fix.safety if found.fix is not None else None for found in findings(RULE, text)]


@pytest.mark.parametrize("name", MEETS)
def test_what_meets_the_module_is_moved(name: str) -> None:
    assert safeties(*MEETS[name]) == [Safety.SAFE]


@pytest.mark.parametrize("name", NEVER)
def test_what_the_module_does_not_use_on_its_device_stays(name: str) -> None:
    assert safeties(*NEVER[name]) == []


@pytest.mark.parametrize("name", DOUBTED)
def test_what_is_not_shown_to_meet_is_unsafe(name: str) -> None:
    assert safeties(*DOUBTED[name]) == [Safety.UNSAFE]


@pytest.mark.parametrize(("forward", "found"), [("self.fc(x)", 0), ("self.fc(x) * y", 1)])
def test_a_module_that_a_method_of_its_base_makes(forward: str, found: int, tmp_path: Path) -> None:
    text = NET.format(body=f"        return {forward}") + CALL.format(arguments="y")
    classes, _, program = text.partition("model = ")
    (tmp_path / "nets.py").write_text(
        classes.replace("class Net(nn.Module)", "class Net(nn.Module, HubMixin)")
    )
    (tmp_path / "pyproject.toml").touch()
    program = "import torch\nimport numpy as np\nfrom nets import Net, device\n\nmodel = " + program
    (tmp_path / "main.py").write_text(program.replace("Net()", "Net.from_pretrained('a')"))
    assert len(check(str(tmp_path / "main.py")).findings) == found


def test_lengths_for_a_module_out_of_sight_are_unsafe() -> None:
    text = (
        "import torch\nfrom library import Net\ndevice = torch.device('cuda')\nmodel = Net().to(device)\n"
        "lengths = torch.IntTensor([3])\nprint(model(torch.ones(3).to(device), lengths), lengths)\n"
    )
    assert all(found.fix is None or found.fix.safety is Safety.UNSAFE for found in findings(RULE, text))


@pytest.mark.parametrize(
    ("made", "safety"), [("nn.Linear(3, 3)", Safety.SAFE), ("nn.Sequential(Length())", Safety.UNSAFE)]
)
def test_a_layer_meets_whatever_the_argument_is_called(made: str, safety: Safety) -> None:
    text = (
        "import torch\nfrom library import Length\nfrom torch import nn\nclass Net(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.fc = {made}\n"
        "    def forward(self, sizes):\n        return self.fc(sizes)\n"
        "device = torch.device('cuda')\nmodel = Net().to(device)\nsizes = torch.ones(3)\nmodel(sizes)\n"
    )
    assert [found.fix and found.fix.safety for found in findings(RULE, text)] == [safety]


LOADER = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.arange(8) % 3), batch_size=4)
"""
KEPT = {
    "read as an array": (
        "for x, y in loader:\n    loss = nn.functional.cross_entropy(model(x), y)\n    print(y.numpy())\n",
        "for x, y in loader:\n    x = x.to(device)\n    loss = nn.functional.cross_entropy(model(x), y.to(device))\n    print(y.numpy())\n",
    ),
    "an index of a tensor of the CPU": (
        "table = torch.randn(3, 4)\nfor x, y in loader:\n    loss = nn.functional.cross_entropy(model(x), y)\n    print(table[y])\n",
        "table = torch.randn(3, 4)\nfor x, y in loader:\n    x = x.to(device)\n    loss = nn.functional.cross_entropy(model(x), y.to(device))\n    print(table[y])\n",
    ),
    "read as an array by a function inside": (
        "for x, y in loader:\n    loss = nn.functional.cross_entropy(model(x), y)\n    def show():\n        return y.numpy()\n\n    print(show())\n",
        "for x, y in loader:\n    x = x.to(device)\n    loss = nn.functional.cross_entropy(model(x), y.to(device))\n    def show():\n        return y.numpy()\n\n    print(show())\n",
    ),
    "compared on the CPU": (
        "for x, y in loader:\n    out = model(x)\n    right = (out.argmax(1).cpu() == y).sum()\n"
        "    loss = nn.functional.cross_entropy(out, y)\n",
        "for x, y in loader:\n    x = x.to(device)\n    out = model(x)\n    right = (out.argmax(1).cpu() == y).sum()\n"
        "    loss = nn.functional.cross_entropy(out, y.to(device))\n",
    ),
    "kept beside what was copied to the CPU": (
        "seen, outs = [], []\nfor x, y in loader:\n    outs.append(model(x).cpu())\n    seen.append(x)\n",
        "seen, outs = [], []\nfor x, y in loader:\n    outs.append(model(x.to(device)).cpu())\n    seen.append(x)\n",
    ),
    "what it shares its memory with is written to": (
        "buffer = np.zeros((1, 4), dtype=np.float32)\nx = torch.from_numpy(buffer)\nfor i in range(3):\n"
        "    buffer[:] = i\n    print(model(x), x.shape)\n",
        "buffer = np.zeros((1, 4), dtype=np.float32)\nx = torch.from_numpy(buffer)\nfor i in range(3):\n"
        "    buffer[:] = i\n    print(model(x.to(device)), x.shape)\n",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_needed_on_the_cpu_is_moved_where_it_is_used(name: str) -> None:
    before, after = KEPT[name]
    assert fixed(RULE, LOADER + before) == LOADER + after
