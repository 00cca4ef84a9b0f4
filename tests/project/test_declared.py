"""An attribute that a base class of another file declares to be a library's model: its `device` is a torch.device."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.device_comparison import DeviceComparison
from repositories import write

BASE = """\
from typing import Optional, Union

from diffusers import AutoencoderKL


class Base:
    def __init__(self):
        self.vae: Union[None, "AutoencoderKL"] = None
"""
MODEL = """\
import torch

from kit.base import Base


class Model(Base):
    def encode(self, images, device):
        if self.vae.device == "cpu":
            self.vae.to(device)
        return self.vae.encode(images.to(device))
"""
FILES = {"pyproject.toml": "", "kit/__init__.py": "", "kit/base.py": BASE, "kit/model.py": MODEL}
MIDDLE = "from kit.base import Base\n\n\nclass Middle(Base):\n    pass\n"


def fixed(folder: Path, **changed: str) -> str:
    write(folder, {**FILES, **{f"kit/{name}.py": text for name, text in changed.items()}})
    report = run(discover([str(folder)]), [DeviceComparison()], jobs=1, around=Around(str(folder)))
    assert not report.errors
    results = {Path(result.path).stem: result.after.decode() for result in report.changed}
    return results.get("model", "")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"base": BASE.replace('self.vae: Union[None, "AutoencoderKL"] = None', "pass")
         .replace("class Base:\n", "class Base:\n    vae: Optional[AutoencoderKL]\n\n")},
        {"middle": MIDDLE, "model": MODEL.replace("base import Base", "middle import Middle as Base")},
        {"model": MODEL.replace("from kit.base import Base", "import kit.base as b").replace("(Base)", "(b.Base)")},
    ],
    ids=["in __init__", "in the body", "a base of the base", "by its module"],
)  # fmt: skip
def test_declared_in_a_base(changed: dict[str, str], tmp_path: Path) -> None:
    assert 'if self.vae.device.type == "cpu":' in fixed(tmp_path, **changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"base": BASE.replace("from diffusers", "from own")},
        {"base": BASE.replace("self.vae:", "self.other:")},
        {"base": BASE.replace("class Base", "class Other") + "\n\nBase = object\n"},
        {"model": MODEL.replace("    def enc", "    vae: 'Own' = None\n\n    def enc")},
        {"model": MODEL.replace("kit.base", "elsewhere.base")},
    ],
    ids=["another library", "another attribute", "another class", "declared anew", "not in view"],
)
def test_nothing_is_said_otherwise(changed: dict[str, str], tmp_path: Path) -> None:
    assert fixed(tmp_path, **changed) == ""
