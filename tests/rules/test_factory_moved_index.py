"""place-factory: what an index that was moved to a device reads is a tensor, and meets what is made on the CPU."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
# (the body of a method, what the fix writes)
FOUND = {
    "a loss": (
        "at = labels.view(-1).nonzero().to(self.device).view(-1)\nbest = scores[at]\n"
        "return self.loss(best, best, torch.ones(best.size()))",
        "torch.ones(best.size(), device=best.device)",
    ),
    "a sum, without a name": (
        "order = torch.randperm(9).to(self.device)\nreturn (scores[order] + torch.zeros(9)).sum()",
        "torch.zeros(9, device=scores[order].device)",
    ),
    "a device that is looked up": (
        "rows = torch.arange(4).to(self.work_device)\nkept = scores[rows].view(-1)\nreturn kept * torch.rand(4)",
        "torch.rand(4, device=kept.device)",
    ),
    "a tensor of numbers": (
        "rows = torch.tensor([1, 2]).to(device=self.device)\nkept = scores[rows]\n"
        "return kept * torch.zeros(4)",
        "torch.zeros(4, device=kept.device)",
    ),
    "made elsewhere, and kept": (
        "pairs = self.pairs.flatten().to(self.device)\nnear = scores[pairs]\nfar = torch.ones(near.shape)\n"
        "return near - far",
        "torch.ones(near.shape, device=near.device)",
    ),
}
SILENT = {
    "an index of the CPU, of an array perhaps": (
        "at = labels.view(-1).nonzero().view(-1)\nreturn self.loss(scores[at], torch.ones(3))"
    ),
    "moved to the CPU": (
        "at = labels.view(-1).nonzero().to('cpu').view(-1)\nreturn self.loss(scores[at], torch.ones(3))"
    ),
    "one number, of a list perhaps": (
        "at = labels.argmax().to(self.device)\nreturn self.loss(scores[at], torch.ones(3))"
    ),
    "a list of layers": "at = labels.argmax().to(self.device)\nreturn scores[at](torch.ones(3))",
    "what is read goes to the CPU": (
        "at = labels.view(-1).nonzero().to(self.device).view(-1)\nreturn scores[at].cpu() + torch.ones(3)"
    ),
    "it follows": (
        "at = labels.view(-1).nonzero().to(self.device).view(-1)\nbest = scores[at]\n"
        "return best + torch.ones(3, device=best.device)"
    ),
}


def program(body: str) -> str:
    indented = "".join(f"        {line}\n" for line in body.split("\n"))
    return (
        "import torch\nfrom torch import nn\n\n\nclass Ranking:\n"
        "    def __init__(self, options, pairs, device):\n        self.work_device = options.get('device')\n"
        "        self.device = device\n        self.pairs = pairs\n"
        f"        self.loss = nn.MarginRankingLoss(0.5)\n\n    def compute(self, scores, labels):\n{indented}"
    )


@pytest.mark.parametrize(("body", "after"), FOUND.values(), ids=FOUND)
def test_found(body: str, after: str) -> None:
    assert len(findings(RULE, program(body))) == 1
    assert after in fixed(RULE, program(body))


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_silent(body: str) -> None:
    assert findings(RULE, program(body)) == []
