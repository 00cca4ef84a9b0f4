"""lengths-on-cpu: which lengths of packed sequences get a copy on the CPU, and which are left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.lengths_on_cpu import LengthsOnCpu

RULE = LengthsOnCpu()
HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


"""


def module(parameters: str, *lines: str) -> str:
    """A module whose `forward` has these lines."""
    body = "".join(f"        {line}\n" for line in lines)
    return (
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.emb = nn.Embedding(9, 4)\n        self.rnn = nn.GRU(4, 3)\n\n"
        f"    def forward(self, {parameters}):\n{body}"
    )


# name: (parameters, lines, what is copied)
FOUND = {
    "counted": ("x", ["n = (x != 0).sum(1)", "p = pack_padded_sequence(self.emb(x), n)"], "n"),
    "counted in place": ("x", ["p = pack_padded_sequence(self.emb(x), x.ne(0).sum(1))"], "x.ne(0).sum(1)"),
    "counted without gradients": (
        "x",
        ["with torch.no_grad():", "    n = (x != 0).sum(1)", "pack_padded_sequence(self.emb(x), n)"],
        "n",
    ),
    "sorted": ("x, n", ["s, i = n.sort(0, descending=True)", "pack_padded_sequence(x[i], s)"], "s"),
    "by an order": (
        "x, n",
        ["i = torch.sort(-n)[1].long()", "n = n[i]", "pack_padded_sequence(x[i], n, batch_first=True)"],
        "n",
    ),
    "at least one": (
        "x, n",
        ["n = n.where(n > 0, torch.ones_like(n))", "pack_padded_sequence(x, lengths=n)"],
        "n",
    ),
    "of a dict": (
        "x",
        ['n = x["lengths"] - 1', 'pack_padded_sequence(x["values"], n, batch_first=True)'],
        "n",
    ),
    "of a mask": (
        "x, mask: torch.Tensor",
        ["n = mask.sum(dim=1)", "pack_padded_sequence(self.emb(x), n)"],
        "n",
    ),
    "made where the input is": (
        "x",
        ["n = torch.full((2,), 3, device=x.device)", "pack_padded_sequence(x, n)"],
        "n",
    ),
    "new where the input is": ("x", ["n = x.new_tensor([3, 2])", "pack_padded_sequence(x, n)"], "n"),
    "of what a layer gives back": (
        "x",
        ["x = self.drop(x)", "n = torch.sum(x.ne(0).int(), dim=1)", "pack_padded_sequence(self.emb(x), n)"],
        "n",
    ),
    "an operation": ("x, n", ["pack_padded_sequence(x, n.long() // 2)"], "(n.long() // 2)"),
}


@pytest.mark.parametrize("name", FOUND)
def test_lengths_that_are_tensors_of_what_forward_gets(name: str) -> None:
    parameters, lines, copied = FOUND[name]
    text = module(parameters, *lines)
    (found,) = findings(RULE, text)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    after = fixed(RULE, text, Safety.UNSAFE)
    assert f"{copied}.cpu()" in after and after.count(".cpu()") == 1
    assert not findings(RULE, after)


def test_moved_for_sure() -> None:
    """A loop that moves its lengths: nothing of it can work on an accelerator."""
    text = (
        f"{HEAD}def train(rnn, loader):\n    for x, n in loader:\n        x, n = x.to(device), n.to(device)\n"
        "        s, i = n.sort(descending=True)\n        rnn(pack_padded_sequence(x[i], s))\n"
    )
    assert "pack_padded_sequence(x[i], s.cpu())" in fixed(RULE, text, Safety.SAFE)


def test_handed_to_a_module() -> None:
    """The class alone does not say where its lengths are, but a caller does."""
    text = module("x, n", "return self.rnn(pack_padded_sequence(self.emb(x), n))")
    caller = (
        "\n\ndef train(loader):\n    net = Net().to(device)\n    for x, n in loader:\n"
        "        x, n = x.to(device), n.to(device)\n        net(x, n)\n"
    )
    assert not findings(RULE, text)
    (found,) = findings(RULE, text + caller)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    assert "pack_padded_sequence(self.emb(x), n.cpu())" in fixed(RULE, text + caller)


SILENT = {
    "of what a layer gives back of something else": (
        "x, y",
        ["y = self.count(y)", "pack_padded_sequence(self.emb(x), y.ne(0).sum(1))"],
    ),
    "as it comes": ("x, n", ["pack_padded_sequence(x, n)"]),
    "as it comes, a tensor": ("x, n: torch.Tensor", ["pack_padded_sequence(x, n)"]),
    "copied": ("x, n", ["s, i = n.cpu().sort(0)", "pack_padded_sequence(x[i], s)"]),
    "a list": ("x", ["n = (x != 0).sum(1).tolist()", "pack_padded_sequence(self.emb(x), n)"]),
    "made a list": ("x", ["n = list((x != 0).sum(1))", "pack_padded_sequence(self.emb(x), n)"]),
    "counted by Python": ("x", ["n = [len(one) for one in x]", "pack_padded_sequence(self.emb(x), n)"]),
    "made on the CPU": ("x", ["n = torch.full((2,), x.size(1))", "pack_padded_sequence(x, n)"]),
    "an array": ("x, n", ["n = np.sort(n)[::-1]", "pack_padded_sequence(x, n.copy())"]),
    "of numpy or torch": ("x, n", ["n = n.sum(1)", "pack_padded_sequence(x, n)"]),
    "packed before": ("x", ["x, n = pad_packed_sequence(x)", "pack_padded_sequence(x, n)"]),
    "on purpose": (
        "x, n",
        ["# lengths stay on the CPU", "s, i = n.sort(0)", "pack_padded_sequence(x[i], s)"],
    ),
    "order moved": ("x, n", ["s, i = n.sort(0)", "i = i.to(x.device)", "pack_padded_sequence(x[i], s)"]),
    "measured as a list": ("x, n", ["b = len(n)", "n = n // 2", "pack_padded_sequence(x, n)"]),
    "noted as a list": ("x, n: list[int]", ["n = n // 2", "pack_padded_sequence(x, n)"]),
    "chosen": (
        "x, n",
        ["if self.training:", "    n = n.cpu()", "else:", "    n = n.long()", "pack_padded_sequence(x, n)"],
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_lengths_that_may_be_on_the_cpu(name: str) -> None:
    parameters, lines = SILENT[name]
    assert not findings(RULE, module(parameters, *lines))


def test_what_a_caller_keeps_on_the_cpu() -> None:
    text = module("x, n", "s, i = n.sort(0)", "pack_padded_sequence(x[i], s)")
    assert findings(RULE, text)
    assert not findings(RULE, f"{text}\n\ndef run(net, x, n):\n    return net(x.to(device), n.cpu())\n")


def test_what_prepares_batches_is_left_alone() -> None:
    text = f"{HEAD}def collate(x):\n    n = (x != 0).sum(1)\n    return pack_padded_sequence(x, n)\n"
    assert not findings(RULE, text)


def test_the_output_of_a_model_may_be_a_list() -> None:
    text = (
        f"{HEAD}def train(decoder, x):\n    decoder = decoder.to(device)\n    x = x.to(device)\n"
        "    scores, n = decoder(x)\n    return pack_padded_sequence(scores, n)\n"
    )
    assert not findings(RULE, text)


def test_copied_by_another_call() -> None:
    """The encoder copies its lengths, the decoder forgets to."""
    decoder = module("x, n", "return pack_padded_sequence(self.emb(x), n)")
    encoder = (
        "\n\nclass Other(nn.Module):\n    def forward(self, x, n):\n"
        "        return pack_padded_sequence(self.emb(x), n.cpu(), batch_first=True)\n"
    )
    assert not findings(RULE, decoder)
    (found,) = findings(RULE, decoder + encoder)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    assert "pack_padded_sequence(self.emb(x), n.cpu())" in fixed(RULE, decoder + encoder)
    caller = "\n\ndef run(net, x, n):\n    return net(x, n.cpu())\n"
    assert not findings(RULE, decoder + encoder + caller)


@pytest.mark.parametrize(
    ("handed", "found"),
    [("mask.data.long().sum(1)", 1), ("mask.sum(1).cpu()", 0), ("n", 0), ("mask.cpu().sum(1)", 0)],
)
def test_a_helper_that_is_handed_counts(handed: str, found: int) -> None:
    text = (
        f"{HEAD}def pack(x, n):\n    s, i = torch.sort(n, descending=True)\n"
        "    return pack_padded_sequence(x[i], s, batch_first=True)\n\n\n"
        f"def wrap(net, x, mask, n):\n    return net(pack(x, {handed}))\n"
    )
    assert len(findings(RULE, text)) == found
