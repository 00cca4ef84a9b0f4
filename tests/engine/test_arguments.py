"""What a module is given is where its caller has it: edits follow that argument, and move nothing but values."""

from __future__ import annotations

import devfix
import pytest
from snippets import HEAD, alone, codemods  # noqa: F401

DECODER = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, encoded, lengths):
        size, longest, _ = encoded.shape
        device = encoded.device
        state = torch.zeros((size, 8)).to(device)
        mask = MASK
        return self.key(encoded), state, mask
"""
MASK = "torch.arange(longest).view(1, longest) >= lengths.view(size, 1)"
CALLER = """
def main(loader, device):
    decoder = Decoder().to(device)
    for x, lengths in loader:
        decoder(x.to(device), LENGTHS)
"""


def repaired(code: str) -> str:
    """The code after all fixes."""
    made = devfix.fix(source=HEAD + code, unsafe=True, settings=False)
    assert not made.problems
    return made.text.removeprefix(HEAD)


@pytest.mark.parametrize("operand", ["lengths.view(size, 1)", "lengths[:, None]", "lengths.unsqueeze(-1)"])
def test_a_tensor_beside_an_argument_goes_where_that_is(operand: str) -> None:
    code = DECODER.replace("MASK", f"torch.arange(longest) >= {operand}")
    text = repaired(code)
    assert "torch.arange(longest, device=lengths.device)" in text
    assert "torch = " not in text


def test_a_list_of_tensors_has_no_device() -> None:
    code = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)
    def forward(self, rows):
        first = self.key(rows[0])
        return first, rows[0] * torch.ones(8)
"""
    text = repaired(code)
    assert "torch.ones(8, device=" in text
    assert "rows.device" not in text


def test_a_device_that_is_taken_of_the_argument_keeps_its_name() -> None:
    code = DECODER.replace("encoded.device", "lengths.device").replace("MASK", MASK)
    assert "torch.arange(longest, device=device)" in repaired(code)


def test_an_argument_that_no_call_moves_beside_others_was_on_the_cpu() -> None:
    code = DECODER.replace("MASK", MASK) + CALLER
    assert not codemods(code.replace("LENGTHS", "lengths"))
    assert codemods(code.replace("LENGTHS", "lengths.to(device)")) == ["place-factory"]


def test_an_import_is_no_value_to_move() -> None:
    """Beside what is moved, `torch = torch.to(device)` made `torch` a name of the method, unbound above."""
    other = CALLER.replace("main", "other").replace("LENGTHS", "lengths.to(device)")
    code = DECODER.replace("MASK", MASK) + CALLER.replace("LENGTHS", "lengths") + other
    assert "place-factory" in codemods(code)
    text = repaired(code)
    assert "torch = " not in text
    assert "torch.arange(longest).view(1, longest).to(lengths.device) >= lengths" in text
