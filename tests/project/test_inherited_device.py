"""autocast of `self.device`, which a base class of another file makes a type, or a torch.device."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.normalize_device_type import NormalizeDeviceType
from repositories import write

BASE = """\
import torch


class Base:
    @property
    def device(self):
        return "cuda" if torch.cuda.is_available() else "cpu"
"""
TRAINER = """\
import torch

from kit.base import Base


class Trainer(Base):
    def step(self, x):
        with torch.autocast(self.device, enabled=self.amp):
            return self.net(x)
"""
FILES = {"pyproject.toml": "", "kit/__init__.py": "", "kit/base.py": BASE, "kit/trainer.py": TRAINER}
MIDDLE = "from kit.base import Base\n\n\nclass Middle(Base):\n    pass\n"
CHOICE = '"cuda" if torch.cuda.is_available() else "cpu"'


def fixed(folder: Path, changed: dict[str, str]) -> str:
    write(folder, {**FILES, **{f"kit/{name}.py": text for name, text in changed.items()}})
    report = run(discover([str(folder)]), [NormalizeDeviceType()], jobs=1, around=Around(str(folder)))
    assert not report.errors
    return {Path(result.path).stem: result.after.decode() for result in report.changed}.get("trainer", "")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"middle": MIDDLE, "trainer": TRAINER.replace("base import Base", "middle import Middle as Base")},
        {"trainer": TRAINER.replace("from kit.base import Base", "import kit.base as b").replace("(Base)", "(b.Base)")},
        {"base": f"import torch\n\n\nclass Base:\n    def __init__(self):\n        self.device = {CHOICE}\n"},
        {"base": f"import torch\n\n\nclass Base:\n    device = {CHOICE}\n"},
    ],
    ids=["a property", "of a base of the base", "by its module", "set in __init__", "set in the body"],
)  # fmt: skip
def test_a_type_is_left_alone(changed: dict[str, str], tmp_path: Path) -> None:
    assert fixed(tmp_path, changed) == ""


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        ({"base": BASE.replace(CHOICE, "torch.device('cuda')")}, "autocast(self.device.type,"),
        ({"base": BASE.replace('"cuda" if', '"cuda:0" if')}, "autocast(torch.device(self.device).type,"),
        ({"base": BASE.replace("def device", "def where")}, "autocast(torch.device(self.device).type,"),
        ({"base": BASE.replace(CHOICE, "self.chosen")}, "autocast(torch.device(self.device).type,"),
        ({"trainer": TRAINER.replace("    def step", "    def __init__(self, device):\n"
          "        self.device = device\n\n    def step")}, "autocast(torch.device(self.device).type,"),
    ],
    ids=["a torch.device", "with an index", "another attribute", "not in view", "set anew"],
)  # fmt: skip
def test_anything_else_is_made_one(changed: dict[str, str], after: str, tmp_path: Path) -> None:
    assert after in fixed(tmp_path, changed)
