"""What a function says of its own tensors: indices, parts of a batch, entries, dropped moves."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.move_inputs import MoveInputs

RULE = MoveInputs()
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable
from transformers import AutoModel, AutoTokenizer


"""
# Name -> the code, and lines of it with what they become.
WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "index": (
        """\
def batch(labels, nodes, device):
    nodes = nodes["a"].to(device)
    return labels[nodes].to(device)
""",
        {'nodes = nodes["a"].to(device)': 'nodes = nodes["a"].to(labels.device)'},
    ),
    "index, made there": (
        """\
def forward(self, x):
    t = torch.randint(0, 9, (len(x),), device=self.device)
    tc = self.table[t].to(self.device)
    return self.q(x, t, tc)
""",
        {"self.table[t].to(self.device)": "self.table[t.to(self.table.device)].to(self.device)"},
    ),
    "index, in one arm": (
        """\
def pick(rays, n, device, train):
    if train:
        sel = torch.randperm(n, device=device)[:4]
    else:
        sel = torch.arange(n, device=rays.lengths.device)
    return [v.view(n, -1)[sel].to(device) for v in rays]
""",
        {"[sel]": "[sel.to(v.device)]"},
    ),
    "tokens, by parameters": (
        """\
def run(args, model, tokenizer, texts):
    model.to(args.device)
    enc = tokenizer(texts, return_tensors="pt")
    return model(**enc)
""",
        {"model(**enc)": "model(**enc.to(args.device))"},
    ),
    "of one batch": (
        """\
def step(model, batch, device):
    x, y = batch
    x = x.to(device)
    out = model(x)
    return F.cross_entropy(out, y)
""",
        {"(out, y)": "(out, y.to(device))"},
    ),
    "of one batch, where it is read": (
        """\
def step(model, batch, device):
    x, y = batch
    return F.cross_entropy(model(x.to(device)), y)
""",
        {", y)": ", y.to(device))"},
    ),
    "entries of one batch": (
        """\
def step(model, batch, device):
    mask = batch["mask"]
    out = model(batch["ids"].to(device))
    return out * mask
""",
        {'= batch["mask"]': '= batch["mask"].to(device)'},
    ),
    "entries of one batch that become those of one dict": (
        """\
def step(model, batch, args):
    inputs = {"input_ids": batch[0].to(args.device), "labels": batch[2].to(args.device)}
    inputs["token_type_ids"] = batch[1] if args.model == "bert" else None
    return model(**inputs)
""",
        {"= batch[1]": "= batch[1].to(args.device)"},
    ),
    "dropped": (
        """\
from utils import zeros


def solve(b):
    x = zeros(b.size())
    if b.is_cuda:
        x.to(b.get_device())
    for _ in range(3):
        x += b
    return x
""",
        {"        x.to(": "        x = x.to("},
    ),
    "dropped, of a batch that is unpacked": (
        """\
def step(model, batch, device):
    x, y = batch
    x.to(device)
    return model(x, y)
""",
        {"    x.to(": "    x = x.to("},
    ),
    "dropped, of an entry": (
        """\
def move(batch, device):
    for k in batch:
        batch[k].to(device)
    return batch
""",
        {"        batch[k].to(": "        batch[k] = batch[k].to("},
    ),
    "dropped, of the entries of a batch": (
        """\
def move(batch, device):
    for k, v in batch.items():
        v.to(device)
    return batch
""",
        {"        v.to(": "        batch[k] = v.to("},
    ),
    "dropped, where the device was compared": (
        """\
def predict(net, rows, device):
    for key in rows.keys():
        if rows[key].device != device:
            rows[key].to(device)
    return net(rows)
""",
        {"            rows[key].to(": "            rows[key] = rows[key].to("},
    ),
}
RIGHT = {
    "index of what is there": """\
def batch(labels, nodes, device):
    labels = labels.to(device)
    nodes = nodes.to(device)
    return labels[nodes].to(device)
""",
    "index on the CPU": """\
def batch(labels, nodes, device):
    picked = labels[nodes].to(device)
    nodes = nodes.to(device)
    return picked, nodes
""",
    "tokens that are moved": """\
class Embedder(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModel.from_pretrained(name)

    def forward(self, texts):
        enc = self.tokenizer(texts, return_tensors="pt")
        enc = {k: v.to(self.model.device) for k, v in enc.items()}
        return self.model(**enc)

    def other(self, texts):
        enc = self.tokenizer(texts, return_tensors="pt").to(self.model.device)
        return self.model(**enc)

    def third(self, texts):
        enc = self.tokenizer(texts, return_tensors="pt")
        return self.model(enc.input_ids.to(self.model.device))
""",
    "tokens of a plain class": """\
class Embedder:
    def __init__(self, name):
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model = AutoModel.from_pretrained(name)

    def run(self, texts):
        return self.model(**self.tokenizer(texts, return_tensors="pt"))
""",
    "lengths": """\
def step(model, batch, device):
    x, lengths = batch
    x = x.to(device)
    return model(x) / lengths
""",
    "read on the host": """\
def step(model, batch, device):
    x, y = batch
    x = x.to(device)
    out = model(x).cpu()
    return F.cross_entropy(out, y)
""",
    "moved by a helper": """\
def step(model, batch, device):
    x, y = batch
    x = x.to(device)
    y = send_to_device(y, device)
    return F.cross_entropy(model(x), y)
""",
    "a batch that is moved": """\
def step(model, batch, device):
    batch = {k: v.to(device) for k, v in batch.items()}
    out = model(batch["ids"].to(device))
    return out * batch["mask"]
""",
    "an entry of another dict, that is not handed over": """\
def step(model, batch, args):
    inputs, kept = {}, {}
    inputs["input_ids"] = batch[0].to(args.device)
    kept["names"] = batch[1]
    return model(**inputs), kept
""",
    "modules that are unpacked, and those of a dict": """\
def place(models, parts, batch, device):
    a, b = models
    a.to(device)
    for name, part in parts.items():
        part.to(device)
    for name, layer in batch.items():
        layer.to(device)
        layer(3)
    return a(b)
""",
    "a batch that moves itself": """\
def fit(net, loader, device):
    for tokens, y in loader:
        tokens.to(device)
        net(**tokens)
    for graph, y in loader:
        graph.to(device)
        net(graph.x, graph.edge_index)
""",
    "an object that moves in place": """\
def run(items, device):
    data = items[0]
    data.to(device)
    print(data.shape, data.edge_index)
""",
    "a buffer in one arm": """\
def mask(self, n, device):
    if n > 3:
        m = make(n)
        m = m.to(device)
    else:
        m = self.mask
    return m * 2
""",
    "a loader that is told a device": """\
from dgl.dataloading import DataLoader


def evaluate(model, loader):
    for a, b, blocks in loader:
        model(blocks, blocks[0].srcdata["feat"])


def main(graph, device):
    model = nn.Linear(2, 2).to(device)
    evaluate(model, DataLoader(graph, torch.arange(3).to(graph.device), device=device))
""",
    "what a module prepares from what is there": """\
def run(model, x, device):
    model.to(device)
    t = x.to(device)
    return model(model.preprocess(t))
""",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_left_behind_is_moved(name: str) -> None:
    code, changes = WRONG[name]
    text = HEAD + code
    found = findings(RULE, text)
    assert len(found) == 1
    assert found[0].fix is not None and found[0].fix.safety is Safety.UNSAFE
    after = text
    for old, new in changes.items():
        assert old in after
        after = after.replace(old, new)
    assert fixed(RULE, text) == after


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_in_place_is_left_alone(name: str) -> None:
    assert findings(RULE, HEAD + RIGHT[name]) == []


def test_a_list_times_a_number_is_no_scalar() -> None:
    code = "def run(model, device):\n    model.to(device)\n    return model(torch.tensor([3] * 4))\n"
    assert len(findings(RULE, HEAD + code)) == 1


def test_a_join_is_a_meeting() -> None:
    """`cat((a, b))` wants both in one place, as `a + b` does."""
    code = """\
from torch.utils.data import DataLoader


def fixed(device, dataset):
    labels, _ = next(iter(DataLoader(dataset)))
    noise = torch.randn(3, 4).to(device)
    return torch.cat((labels, noise), dim=-1)
"""
    assert len(findings(RULE, HEAD + code)) == 1


@pytest.mark.parametrize(("wrapped", "count"), [("fabric.setup(nn.Linear(2, 2))", 0), ("nn.Linear(2, 2)", 1)])
def test_what_fabric_wraps_a_module_in_has_a_device(wrapped: str, count: int) -> None:
    head = "from lightning import Fabric\nfrom torch import nn\n\nfabric = Fabric()\n"
    assert len(findings(RULE, f"{head}model = {wrapped}\nprint(model.device)\n")) == count


def test_the_device_of_from_numpy_and_its_dtype_are_those_of_a_move() -> None:
    text = (
        "import torch\n\n\ndef f(x, mask, device):\n    return x * torch.from_numpy(mask, {}device=device)\n"
    )
    assert ".from_numpy(mask).to(device)\n" in fixed(RULE, text.format(""))
    assert ".from_numpy(mask).to(device, dtype=torch.long)\n" in fixed(
        RULE, text.format("dtype=torch.long, ")
    )
