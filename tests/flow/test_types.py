"""`x.type(torch.LongTensor)`: the old types of tensors say where a tensor is."""

from __future__ import annotations

import ast

import pytest
from devfix.flow import analyse
from devfix.flow.lattice import Where
from devfix.source import Source

HEAD = "import torch\n\ndevice = torch.device('cuda')\n"
PLACES = {
    "torch.ones(3, device=device).type(torch.LongTensor)": Where.CPU,
    "torch.ones(3, device=device).type('torch.LongTensor')": Where.CPU,
    "torch.ones(3, device=device).type(torch.long)": Where.ACCELERATOR,
    "torch.ones(3).type(torch.cuda.LongTensor)": Where.ACCELERATOR,
    # Of a type that a variable says: where one of CUDA is about, it may be that.
    "torch.ones(3).type(kind)": Where.DEFAULT,
    "torch.ones(3).type(kind); legacy = torch.cuda.FloatTensor": Where.UNKNOWN,
    # Still a tensor that nobody has put anywhere.
    "torch.ones(3).type(torch.LongTensor)": Where.DEFAULT,
}


@pytest.mark.parametrize("code", PLACES)
def test_place_by_type(code: str) -> None:
    source = Source(f"{HEAD}x = {code}\n")
    flow = analyse(source)
    made = source.tree.body[2]
    assert isinstance(made, ast.Assign)
    assert flow.value(made.value).place.where is PLACES[code]
