"""What register-buffer and register-modules make of modules in well-known styles, run on CUDA (simulated)."""

from __future__ import annotations

import pytest
from applying import fixed
from devfix.rules.register_buffer import RegisterBuffer
from devfix.rules.register_modules import RegisterModules
from devfix.smoke import Runner, same_numbers

HEAD = "import copy\nimport math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
MAIN = """

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
x = torch.ones(2, 4, 8, device=device)
with torch.no_grad():
    print(round(model(x).sum().item(), 3), round(copy.deepcopy(model)(x).sum().item(), 3))
model.load_state_dict(Net().state_dict())
"""
NET = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"

# name: (constructor, forward)
BUFFERS = {
    "rotary tables": (
        "f = 1.0 / (10 ** (torch.arange(0, 8, 2).float() / 8))\n"
        "e = torch.cat([torch.outer(torch.arange(16).type_as(f), f)] * 2, dim=-1)\n"
        "self.cos = e.cos()[None]\nself.sin = e.sin()[None]",
        "return x * self.cos[:, :4] + x.roll(1, -1) * self.sin[:, :4]",
    ),
    "a diffusion schedule": (
        "self.betas = torch.linspace(1e-4, 0.02, 10)\nself.kept = torch.cumprod(1.0 - self.betas, 0)",
        "t = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)\n"
        "return self.kept.gather(-1, t).view(-1, 1, 1) * x + self.betas[t].view(-1, 1, 1)",
    ),
    "running statistics": (
        "self.mean, self.var = torch.zeros(8), torch.ones(8)",
        "self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1))\nself.var += x.var((0, 1))\n"
        "return (x - self.mean) / self.var.sqrt()",
    ),
    "a causal mask in a helper method": (
        "self.layer = nn.Linear(8, 8)\nself.build(16)",
        "s = self.layer(x) @ x.transpose(1, 2) + self.mask[: x.size(1), : x.size(1)]\nreturn s.softmax(-1)",
    ),
    "a parameter or a table": (
        "if len(self.__class__.__name__) > 5:\n    self.pe = nn.Parameter(torch.zeros(8))\n"
        "else:\n    self.pe = torch.arange(8).float()",
        "return x + self.pe",
    ),
    "an index of a relative position": (
        "self.table = nn.Parameter(torch.ones(7, 1))\nr = torch.arange(4)\n"
        "rel = (r[:, None] - r[None, :]) + 3\nself.index = rel.reshape(-1)",
        "return x @ x.transpose(1, 2) + torch.index_select(self.table, 0, self.index).view(4, 4)",
    ),
    "the states of an LSTM": (
        "self.lstm = nn.LSTM(8, 8)\nself.states = (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))",
        "out, self.states = self.lstm(x, self.states)\nreturn out",
    ),
    "one value under two names": ("self.low = self.high = torch.ones(8)", "return x * self.low + self.high"),
}
MODULES = {
    "pairs in a list": (
        "self.layers = []\nfor _ in range(2):\n    self.layers.append([nn.LayerNorm(8), nn.Linear(8, 8)])",
        "for norm, layer in self.layers:\n    x = layer(norm(x)) + x\nreturn x",
    ),
    "heads by name": (
        "self.heads = {name: nn.Linear(8, 2) for name in ('a', 'b')}",
        "return sum(head(x) for head in self.heads.values())",
    ),
    "down and up": (
        "self.downs, self.ups = [], []\nfor _ in range(2):\n    self.downs.append(nn.Linear(8, 8))\n"
        "    self.ups.append(nn.Linear(8, 8))",
        "kept = []\nfor d in self.downs:\n    x = d(x)\n    kept.append(x)\n"
        "for u, y in zip(self.ups, reversed(kept)):\n    x = u(x + y)\nreturn x",
    ),
    "a sum of lists": (
        "self.layers = [nn.Linear(8, 8)] + [nn.Linear(8, 8) for _ in range(2)]\nself.layers += [nn.Linear(8, 8)]",
        "for layer in self.layers[:-1]:\n    x = layer(x)\nreturn self.layers[-1](x)",
    ),
    "copies of one": (
        "self.layers = [copy.deepcopy(nn.Linear(8, 8)) for _ in range(2)]",
        "for layer in self.layers:\n    x = layer(x)\nreturn x",
    ),
}
BUILD = "\n    def build(self, n):\n        self.mask = torch.full((n, n), float('-inf')).triu(1)\n"


@pytest.mark.parametrize("name", [*BUFFERS, *MODULES])
def test_it_runs_where_it_did_not(name: str, runner: Runner) -> None:
    init, forward = {**BUFFERS, **MODULES}[name]
    lines = "".join(f"        {line}\n" for line in init.splitlines())
    uses = "".join(f"        {line}\n" for line in forward.splitlines())
    text = f"{HEAD}{NET}{lines}{BUILD}\n    def forward(self, x):\n{uses}{MAIN}"
    after = fixed(RegisterModules() if name in MODULES else RegisterBuffer(), text)
    on_cpu, broken = runner.run(text, "cpu"), runner.run(text, "cuda")
    assert on_cpu.status == "ok", on_cpu.error
    assert broken.status == "raised"
    again, mended = runner.run(after, "cpu"), runner.run(after, "cuda")
    assert again.output == on_cpu.output
    assert mended.status == "ok", mended.error
    assert same_numbers(mended.output, on_cpu.output)
