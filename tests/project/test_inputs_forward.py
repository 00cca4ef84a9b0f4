"""move-inputs reads the `forward` of a module that another file of the project defines."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.move_inputs import MoveInputs
from repositories import write


@pytest.mark.parametrize(("flag", "number"), [("test=True", 0), ("test=False", 1), ("", 1)])
def test_the_forward_of_another_file_is_read(flag: str, number: int, tmp_path: Path) -> None:
    files = {
        "pyproject.toml": "",
        "kit/__init__.py": "",
        "kit/part.py": """\
import torch
from torch import nn


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 4)
        self.out = nn.Linear(4, 4)

    def forward(self, feats, length, text, test=False):
        count = length.sum()
        if not test:
            feats = feats + self.emb(text)
        out = torch.zeros(count, 4).type_as(feats)
        for n in length:
            out[:n] = feats[0, :n]
        return self.out(out)
""",
        "kit/whole.py": """\
from torch import nn
from kit.part import Part


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Linear(4, 4)
        self.part = Part()

    def forward(self, x, length, text, test=False):
        return self.part(self.cnn(x), length, text, test)
""",
        "demo.py": f"""\
import torch
from kit.whole import Whole

model = Whole()
if torch.cuda.is_available():
    model = model.cuda()
x = torch.ones(1, 5, 4).cuda()
text = torch.LongTensor([1, 2, 3, 4, 5])
length = torch.IntTensor([5])
print(model(x, length, text, {flag}))
print(length, text)
""",
    }
    write(tmp_path, files)
    report = run(discover([str(tmp_path / "demo.py")]), [MoveInputs()], jobs=1, around=Around(str(tmp_path)))
    assert not report.errors
    found = [one.message for result in report.results for one in result.findings]
    assert len(found) == number
    assert all("`text`" in message and "`length`" not in message for message in found)
    assert all("`self.emb` in part.py:14, which is on " in message for message in found)
