"""What the engine says of small programs: each shows one thing that random programs have shown to be wrong."""

from __future__ import annotations

import pytest
from devfix.checkers import inputs
from devfix.engine import File, analyse
from devfix.rewrite import apply, text_edits
from devfix.text.source import Source
from programs import strays

HEAD = """\
import torch
from typing import NamedTuple
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda")
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.many = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.named = nn.ModuleDict({"one": nn.Linear(4, 4), "two": nn.Linear(4, 4)})
    def forward(self, x):
        %s
"""
FOUND = {
    "a parameter of a module that was never moved": (
        NET % "return x * self.scale",
        "net = Net()  # here\nnet(torch.ones(3, 4, device=device))",
    ),
    "a part of a module that was never moved": (
        NET % "return self.many[0](x)",
        "net = Net()  # here\nnet(torch.ones(3, 4, device=device))",
    ),
    "parts of a list in a loop": (
        NET % "for _, one in enumerate(self.many):\n            x = one(x)\n        return x",
        "net = Net()  # here\nnet(torch.ones(3, 4, device=device))",
    ),
    "a slice of a list of modules": (
        NET % "for one in self.many[:1]:\n            x = one(x)\n        return x",
        "net = Net()  # here\nnet(torch.ones(3, 4, device=device))",
    ),
    "parts of a dict": (
        NET % "return list(self.named.values())[0](x)",
        "net = Net()  # here\nnet(torch.ones(3, 4, device=device))",
    ),
    "two modules in a plain list": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.many = [nn.Linear(4, 4), nn.Linear(4, 4)]  # here\n"
        "    def forward(self, x):\n"
        "        for one in self.many:\n"
        "            x = one(x)\n"
        "        return x\n",
        "net = Net().to(device)\nnet(torch.ones(3, 4, device=device))",
    ),
    "a loss with weights": (
        "",
        "loss = nn.CrossEntropyLoss(weight=torch.ones(4))  # here\n"
        "loss(torch.ones(3, 4, device=device), torch.zeros(3, 4, device=device))",
    ),
    "a field of a NamedTuple, by its number": (
        "class Pair(NamedTuple):\n    one: torch.Tensor\n    two: int = 0\n",
        "pair = Pair(torch.ones(4))  # here\nprint(pair[0] + torch.ones(4, device=device))",
    ),
    "a field of a NamedTuple, unpacked": (
        "class Pair(NamedTuple):\n    one: torch.Tensor\n    two: int\n",
        "one, two = Pair(torch.ones(4), 1)  # here\nprint(one + torch.ones(4, device=device))",
    ),
    "an index that keeps dimensions": (
        "",
        "x = torch.ones(3, 4)  # here\nprint(x[:, torch.arange(4)] + torch.ones(4, device=device))",
    ),
    "what is put on the device of a stray": (
        "",
        "x = torch.ones(3, 4)  # here\ny = torch.ones(4, device=x.device)\nprint(y + torch.ones(4, device=device))",
    ),
    "what is moved to a stray": (
        "",
        "x = torch.ones(3, 4)  # here\n"
        "y = torch.ones(4, device=device).to(x)\n"
        "print(y + torch.ones(4, device=device))",
    ),
    "a factory of a star import": (
        "from torch import *\n",
        "x = zeros(4)  # here\nprint(x + torch.ones(4, device=device))",
    ),
}
SILENT = {
    "a list that was moved with its module": (
        NET % "for one in self.many:\n            x = one(x)\n        return x",
        "net = Net().to(device)\nnet(torch.ones(3, 4, device=device))",
    ),
    "a buffer that the constructor puts on a device": (
        "class Table(nn.Module):\n"
        "    def __init__(self, where):\n"
        "        super().__init__()\n"
        "        self.register_buffer('rows', torch.ones(4, device=where))\n"
        "def shifted(x):\n"
        "    return x + Table(x.device).rows\n",
        "print(shifted(torch.ones(3, 4, device=device)))",
    ),
    "a module of ten modules in each other, moved": (
        "class Deep(nn.Module):\n"
        "    def __init__(self, inside):\n"
        "        super().__init__()\n"
        "        self.inside = inside\n"
        "    def forward(self, x):\n"
        "        return self.inside(x)\n"
        "class Top(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.net = Deep(Deep(Deep(Deep(Deep(Deep(Deep(Deep(nn.Linear(4, 4)))))))))\n"
        "    def forward(self, x):\n"
        "        return self.net.inside.inside.inside.inside.inside.inside.inside.inside(x)\n",
        "print(Top().to(device)(torch.ones(3, 4, device=device)))",
    ),
    "a tensor without dimensions of a NamedTuple": (
        "class Pair(NamedTuple):\n    one: torch.Tensor\n    two: int = 0\n",
        "pair = Pair(torch.tensor(2.0))\nprint(pair[0] * torch.ones(4, device=device))",
    ),
    "a program that never leaves the CPU": (
        NET % "return self.many[0](x) + torch.ones(4, device=x.device)",
        "if __name__ == '__main__':\n    Net()(torch.ones(3, 4))",
    ),
}


def lines(text: str) -> set[int]:
    """The lines of all findings."""
    analysis = analyse("program.py", Source(text))
    source = analysis.file.source
    found = [*strays(analysis), *inputs.findings(analysis)]
    return {source.position(one.span.start)[0] for one in found}


@pytest.mark.parametrize(("define", "use"), FOUND.values(), ids=FOUND)
def test_found(define: str, use: str) -> None:
    text = HEAD + define + use
    wanted = {number for number, line in enumerate(text.split("\n"), 1) if "# here" in line}
    assert wanted and lines(text) == wanted


@pytest.mark.parametrize(("define", "use"), SILENT.values(), ids=SILENT)
def test_silent(define: str, use: str) -> None:
    head = HEAD if "__main__" not in use else HEAD.replace('device = torch.device("cuda")\n', "")
    assert not lines(head + define + use)


def test_made_in_another_file() -> None:
    """What strays comes from a base class in another file: it is shown where it is used, and not repaired here."""
    base = "import torch\nfrom torch import nn\nclass Base(nn.Module):\n    def __init__(self):\n"
    base += "        super().__init__()\n        self.table = torch.ones(4)\n"
    text = "from base import Base\nclass Net(Base):\n    def forward(self, x):\n        return self.table + x.relu()\n"
    other = File("base.py", Source(base))
    analysis = analyse(
        "net.py", Source(text), lambda path, name: (other, "Base") if name == "base.Base" else None
    )
    (found,) = [*strays(analysis), *inputs.findings(analysis)]
    assert analysis.file.source.position(found.span.start)[0] == 4
    assert found.fix is None


def test_a_weighted_loss_has_no_parameters_to_ask_for_a_device() -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\ndef run(model, loss, x, device):\n    x = x.to(device)\n"
        "    x = x + torch.randn(4)\n    return loss(model(x), x)\n\n\nmodel = nn.Linear(4, 4)\n"
        "loss = nn.CrossEntropyLoss(weight=torch.ones(4))\nrun(model, loss, torch.ones(3, 4), 'cuda:0')\n"
    )
    found = analyse("program.py", Source(text)).mismatches
    told = {term.text for one in found for _, terms in one.scopes for term in terms if term.form == "module"}
    assert told == {"model"}


def test_tokens_are_moved_where_they_are_made() -> None:
    """What a tokenizer gives has a `.to`; what it is given is text, and has no device."""
    text = (
        "from torch import nn\nfrom transformers import AutoModel, AutoTokenizer\nclass Net(nn.Module):\n"
        "    def __init__(self, name):\n        super().__init__()\n"
        "        self.cut = AutoTokenizer.from_pretrained(name)\n"
        "        self.body = AutoModel.from_pretrained(name)\n"
        "    def forward(self, texts):\n"
        "        return self.body(**self.cut(texts, return_tensors='pt'))\n"
    )
    (found,) = inputs.findings(analyse("net.py", Source(text)))
    assert found.codemod == "move-inputs" and found.fix is not None
    fixed = apply(text, text_edits(Source(text), found.fix))
    assert "self.cut(texts, return_tensors='pt').to(next(self.parameters()).device))" in fixed


@pytest.mark.parametrize(
    "made", ["[torch.ones(4), torch.zeros(4)]", "[torch.full((4,), 1.0 + n) for n in range(2)]"]
)
def test_a_list_of_tensors_is_not_registered_as_a_buffer(made: str) -> None:
    """It would raise TypeError: each tensor is moved where it is used, if at all."""
    text = (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.scales = {made}\n"
        "    def forward(self, x, y):\n        y = y.to(x.device)\n"
        "        for scale in self.scales:\n            y = x + scale * y\n        return y\n"
        "net = Net()\nnet(torch.ones(3, 4, device='cuda:0'), torch.ones(3, 4))\n"
    )
    source = Source(text)
    found = strays(analyse("net.py", source))
    texts = [apply(text, text_edits(source, one.fix)) for one in found if one.fix is not None]
    assert texts and not any("register_buffer" in one for one in texts)


LACKING = """
class Conditional(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, 4)

    def forward(self, x, y):
        return x + self.embed(y)

class Block(nn.Module):
    def __init__(self, n=0):
        super().__init__()
        self.norm = Conditional(n) if n else nn.BatchNorm2d(4)

    def plain(self, x):
        return self.norm({})

    def forward(self, x, y=None):
        return self.plain(x) if y is None else self.norm(x, y)

net = Block(3)
net(torch.ones(2, 4), None)
net(torch.ones(2, 4))
"""


@pytest.mark.parametrize(
    ("given", "met"), [("x", 0), ("x, x.to(device)", 1), ("x, y=x.to(device)", 1), ("*x", 1)]
)
def test_a_call_that_leaves_out_an_argument_is_of_another_function(given: str, met: int) -> None:
    analysis = analyse("net.py", Source(HEAD + LACKING.format(given)))
    assert bool([one for one in analysis.mismatches if one.operation == "self.embed"]) == bool(met)


@pytest.mark.parametrize(
    ("default", "found"),
    [
        ("set_default_tensor_type('torch.cuda.FloatTensor')", False),
        ("set_default_device('cuda')", True),
        ("manual_seed(0)", True),
    ],
)
def test_the_default_type_is_that_of_legacy_tensors(default: str, found: bool) -> None:
    text = f"{HEAD}if flag:\n    torch.{default}\n"
    text += "def scale(x: torch.Tensor):\n    return x.cuda() * torch.Tensor([1, 2])\n"
    assert bool(analyse("net.py", Source(text)).mismatches) == found
