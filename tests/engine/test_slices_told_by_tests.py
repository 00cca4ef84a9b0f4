"""An index that `isinstance` tells to be a slice gives a list of modules, and no module."""

from __future__ import annotations

import devfix
import pytest
from snippets import HEAD, alone  # noqa: F401

PROGRAM = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.scale


class Chain(nn.Module):
    def __init__(self, parts: list[Part], mode="sum"):
        super().__init__()
        self.parts = parts
        self.mode = mode

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def __getitem__(self, {index}):
{body}
"""
SLICES = {
    "the other branch": (
        "item: int | slice",
        "if isinstance(item, int):\n    return self.parts[item]\nelse:\n    return Chain(self.parts[item], self.mode)",
    ),
    "after a return": ("i", "if isinstance(i, int):\n    return self.parts[i]\nreturn Chain(self.parts[i])"),
    "the other way round": (
        "key",
        "if not isinstance(key, int):\n    return Chain(parts=self.parts[key])\nreturn self.parts[key]",
    ),
    "a slice by its class": (
        "where",
        "if isinstance(where, slice):\n    return Chain(self.parts[where])\nreturn self.parts[where]",
    ),
    "named first": (
        "at",
        "if isinstance(at, slice):\n    some = self.parts[at]\n    return Chain(some)\nreturn self.parts[at]",
    ),
    "a slice as it is written": ("n", "return Chain(self.parts[:n])"),
}
SILENT = {
    "nobody asks": ("item", "return Chain(self.parts[item])"),
    "one by its number": (
        "item",
        "if isinstance(item, int):\n    return Chain(self.parts[item])\nreturn self.parts",
    ),
    "another class": ("item", "if isinstance(item, str):\n    return None\nreturn Chain(self.parts[item])"),
    "bound again": (
        "item",
        "if not isinstance(item, int):\n    item = self.find(item)\n    return Chain(self.parts[item])\nreturn None",
    ),
    "the start of a slice": (
        "item",
        "if isinstance(item, slice):\n    item = item.start\n    return Chain(self.parts[item])\nreturn None",
    ),
    "another index": (
        "item, other=0",
        "if isinstance(item, int):\n    return self.parts[item]\nreturn Chain(self.parts[other])",
    ),
}


def told(index: str, body: str) -> list[str]:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    found = devfix.check(source=HEAD + PROGRAM.format(index=index, body=lines), settings=False).findings
    return [one.codemod for one in found]


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_a_list_of_modules(name: str) -> None:
    assert told(*SLICES[name]) == ["register-modules"]


@pytest.mark.parametrize("name", SILENT)
def test_one_that_may_be_a_module(name: str) -> None:
    """The constructor may be given a module, of which nn.ModuleList cannot be made."""
    assert told(*SILENT[name]) == []
