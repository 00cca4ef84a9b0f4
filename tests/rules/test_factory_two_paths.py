"""place-factory: what is made on the CPU meets a value that only one of two paths puts on a device."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.engine.joins import join
from devfix.engine.places import AT_DEFAULT, CHOICE, OF, VAR, Place
from devfix.engine.values import BATCH, TENSOR, UNKNOWN, Value
from devfix.findings import Safety
from devfix.rules.place_factory import PlaceFactory

RULE = PlaceFactory()
HEAD = "import torch\nfrom torch import nn\n\n\n"

# (the body of a method of a network, what the fix writes)
FOUND = {
    "a function out of sight on one path": (
        "if self.fancy:\n    made = merge(self.cut)\nelse:\n    made = self.embed(x)\n"
        "return made + torch.zeros(5, 5)",
        "torch.zeros(5, 5, device=made.device)",
    ),
    "it comes later, in one arm": (
        "wave = self.embed(x)\nif self.fancy:\n    wave = self.cut.last()\nreturn torch.cat([torch.ones(2, 5), wave])",
        "torch.ones(2, 5, device=wave.device)",
    ),
    "a conditional expression": (
        "rows = self.embed(x) if self.training else self.cut(3)\nreturn rows * torch.arange(5)",
        "torch.arange(5, device=rows.device)",
    ),
    "indices of the best": (
        "h = self.embed(x)\nif self.fancy:\n    h = merge(self.cut)\n"
        "best, at = h.topk(3)\nreturn torch.index_select(at, 1, torch.arange(1))",
        "torch.arange(1, device=h.device)",
    ),
    "what a helper moves, as a mask": (
        "ids = self.ids(x) if isinstance(x, str) else x\nreturn torch.arange(len(ids))[ids == 3]",
        "torch.arange(len(ids), device=ids.device)",
    ),
    "derived twice": (
        "state = merge(self.cut)\nif len(x) > 3:\n    state = self.embed(x)\nstate = state.float().tanh()\n"
        "noise = torch.randn(5)\nreturn state - noise",
        "torch.randn(5, device=state.device)",
    ),
}
SILENT = {
    "neither path has it on a device": (
        "made = self.cut(1) if self.training else merge(self.cut)\nreturn (made + torch.zeros(5, 5)).sum().item()"
    ),
    "one path is the CPU's": (
        "made = self.embed(x).cpu() if self.training else merge(self.cut)\n"
        "return (made + torch.zeros(5, 5)).sum().item()"
    ),
    "the result is copied to the CPU": (
        "made = self.embed(x) if self.training else merge(self.cut)\n"
        "return (made.cpu() + torch.zeros(5, 5)).sum().item()"
    ),
    "it follows": (
        "made = self.embed(x) if self.training else merge(self.cut)\n"
        "return made + torch.zeros(5, 5, device=made.device)"
    ),
    "a number on one path": "made = self.embed(x) if self.training else 3\nreturn torch.tensor(2.0) * made",
    "an index of the CPU": (
        "made = self.embed(x) if self.training else merge(self.cut)\nreturn made[torch.arange(3)]"
    ),
    "only where it is on the CPU": (
        "made = self.embed(x) if not self.fancy else merge(self.cut)\n"
        "if self.fancy:\n    made = (made + torch.zeros(5, 5)).sum().item()\nreturn made"
    ),
}


def network(body: str) -> str:
    indented = "".join(f"        {line}\n" for line in body.split("\n"))
    return (
        f"{HEAD}class Net(nn.Module):\n"
        "    def __init__(self, cut, device, fancy):\n        super().__init__()\n"
        "        self.embed = nn.Linear(5, 5)\n        self.cut = cut\n        self.device = device\n"
        "        self.fancy = fancy\n\n"
        "    def ids(self, text):\n"
        '        return self.cut(text, return_tensors="pt")["input_ids"].to(self.device)\n\n'
        f"    def forward(self, x, hint=None):\n{indented}"
    )


@pytest.mark.parametrize(("body", "after"), FOUND.values(), ids=FOUND)
def test_found_and_made_where_the_other_is_on_either_path(body: str, after: str) -> None:
    (one,) = findings(RULE, network(body))
    assert one.fix is not None
    assert one.fix.safety is Safety.UNSAFE
    assert after in fixed(RULE, network(body))


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_silent(body: str) -> None:
    assert findings(RULE, network(body)) == []


def test_the_device_of_one_path_is_not_written_for_both() -> None:
    """`self.device` is wrong where the caller's own tensor is on another one."""
    body = "y = self.embed(x).to(self.device) if hint is None else hint\nreturn (y + 1).exp() + torch.zeros(5, 5)"
    assert "device=self.device" not in fixed(RULE, network(body))


@pytest.mark.parametrize(
    ("kind", "place", "is_kept"),
    [
        (
            BATCH,
            AT_DEFAULT,
            False,
        ),  # `other = batch if other is None else other`: whoever passes one has moved it
        (BATCH, Place(VAR, "device"), True),
        (TENSOR, AT_DEFAULT, True),
        (TENSOR, Place(VAR, "device"), True),
    ],
)
def test_of_which_data_both_places_are_kept(kind: str, place: Place, is_kept: bool) -> None:
    given = Value(UNKNOWN, Place(OF, ("parameter", 0, "other")))
    assert (join(given, Value(kind, place), "asked").place.kind == CHOICE) is is_kept
