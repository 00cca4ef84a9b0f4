"""register-buffer: where nothing that gets to a class moves anything, a buffer is right and cures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.checkers.besides import besides
from devfix.findings import Safety
from devfix.flow import analyse
from devfix.project.project import Projects
from devfix.text.source import Source

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = torch.ones(4)

    def forward(self, x):
        return self.layer(x) * self.scale
"""
MAIN = "import torch\nfrom net import Net\n\nmodel = Net()\nprint(model(torch.ones(2, 4)))\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"main.py": MAIN.replace("Net()", "Net().cuda()")}, [Safety.SAFE]),
        ({"main.py": MAIN}, []),
        ({}, [Safety.UNSAFE]),
        ({"other.py": "def f(x):\n    return x.cuda()\n"}, [Safety.UNSAFE]),
        ({"__init__.py": "", "pyproject.toml": "[project]\nname = 'net'\n"}, [Safety.UNSAFE]),
    ],
)
def test_somebody_moves_it(tmp_path: Path, files: dict[str, str], found: list[Safety]) -> None:
    for name, text in ({"pyproject.toml": "", "net.py": NET} | files).items():
        (tmp_path / name).write_text(text)
    path, source = tmp_path / "net.py", Source(NET)
    flow = analyse(source, Projects(str(tmp_path)).outside(str(path), source))
    told = besides(flow, {"register-buffer"}, ())
    assert [one.fix.safety for one in told if one.fix is not None] == found
