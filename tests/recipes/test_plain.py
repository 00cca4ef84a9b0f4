"""Dicts that a listed module gets: what it only keeps is not moved with it, what it might register is."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolkit import LIN, checked, recipe, script

ENTRIES = f"""\
{LIN}
parts:
    first:
        net: !ref <lin>
        size: !ref <size>
net: !new:speechbrain.keeping.Net
    parts: !ref <parts>
"""
USE = "for name in ('first',):\n            net = self.hparams.parts[name]['net']\n            x = net(x)"
HEAD = """\
import torch


def sizes(parts):
    found = {}
    for name, part in parts.items():
        if "size" in part:
            found[name] = torch.nn.Linear(part["size"], 2)
    return torch.nn.ModuleDict(found)


def nets(parts):
    return torch.nn.ModuleList([part["net"] for part in parts.values()])


"""
CLASS = """\
class Net(torch.nn.Module):
    def __init__(self, parts):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}
        return x
"""


def found(folder: Path, init: str, forward: str = "pass", head: str = HEAD, use: str = USE) -> list[str]:
    text = head + CLASS.replace("{init}", init).replace("{forward}", forward)
    more = "    net: !ref <net>\n"
    return checked(folder, recipe(ENTRIES, more), script(use), **{"speechbrain/keeping.py": text}).messages


KEEPS = {
    "as it is": ("self.parts = parts", "pass"),
    "under another name": ("kept = parts\n        self.parts = kept", "pass"),
    "reads settings": ("self.parts, self.n = 1, len(parts)\n        self.proj = sizes(parts)", "pass"),
    "reads settings by name": ("self.proj = sizes(parts=parts)", "pass"),
    "asks": ("self.parts = parts\n        assert parts is not None", "x = x if self.parts else 1"),
    "its keys": ("self.names = sorted([name for name in parts.keys()])", "pass"),
}


@pytest.mark.parametrize("name", KEEPS)
def test_what_is_only_kept_is_not_moved(name: str, tmp_path: Path) -> None:
    (message,) = found(tmp_path, *KEEPS[name])
    assert message.startswith(
        "`lin` is not under `modules:`, so it stays on the CPU; `parts`, which train.py"
    )


REGISTERS = {
    "a list of its own": ("self.nets = nets(parts)", "pass"),
    "in a loop": ("for part in parts.values():\n            self.net = part['net']", "pass"),
    "by its key": ("self.net = parts['first']['net']", "pass"),
    "a dict of modules": ("self.nets = torch.nn.ModuleDict(parts)", "pass"),
    "handed on, out of sight": ("self.nets = other(parts)", "pass"),
    "all attributes": ("self.parts = parts", "self.parts['first']['net'].to(x.device)"),
    "later": ("self.parts = parts", "self.nets = nets(self.parts)"),
    "items out of sight": ("self.nets = [part for part in parts.values()]", "pass"),
    "returned": ("self.parts = (lambda: parts)()", "pass"),
    "a pair": ("self.parts, self.n = parts, 1", "pass"),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_what_may_be_registered_counts_as_moved(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, *REGISTERS[name]) == []


def test_of_a_base_that_is_not_in_view_nothing_is_sure(tmp_path: Path) -> None:
    head = HEAD.replace("import torch\n", "import torch\nfrom other import Base\n")
    text = head + CLASS.replace("torch.nn.Module", "Base").replace("{init}", "self.parts = parts")
    done = checked(
        tmp_path,
        recipe(ENTRIES, "    net: !ref <net>\n"),
        script(USE),
        **{"speechbrain/keeping.py": text.replace("{forward}", "pass")},
    )
    assert done.messages == []


@pytest.mark.parametrize(
    ("after", "count"),
    [
        ("for part in self.hparams.parts.values():\n            move(part['net'])", 0),
        ("for name, part in self.hparams.parts.items():\n            move(part)", 0),
        ("for name, part in self.hparams.parts.items():\n            move(part['size'], name)", 1),
        ("n = self.hparams.parts['first']['size']\n        print(n)\n        move(n)", 1),
    ],
    ids=["a module", "an item", "a setting", "a setting under a name"],
)
def test_what_the_script_hands_on(after: str, count: int, tmp_path: Path) -> None:
    """A setting of the dict that goes elsewhere moves no module."""
    use = USE + "\n        return x\n\n    def on_fit_start(self):\n        " + after
    use = use.replace("        return x\n\n    def on_fit", "        return x\n\n    def on_fit", 1)
    text = script(use).replace("        return x\n\n\nif __name__", "\n\nif __name__")
    plain = HEAD + CLASS.replace("{init}", "self.parts = parts").replace("{forward}", "pass")
    done = checked(
        tmp_path, recipe(ENTRIES, "    net: !ref <net>\n"), text, **{"speechbrain/keeping.py": plain}
    )
    assert len(done.messages) == count
