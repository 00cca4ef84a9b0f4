"""Snippets below the usual imports, and the codemods that find something in them."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest

HEAD = "import torch\nfrom torch import nn\n"
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
AUTOCASTS: dict[str, dict[str, object]] = {"normalize-device-type": {"all": True}}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs belong to no project: not to devfix's own, of which every file would be looked at."""
    monkeypatch.chdir(tmp_path)


def codemods(code: str, options: dict[str, dict[str, object]] | None = None) -> list[str]:
    found = devfix.check(source=HEAD + code, settings=False, options=options).findings
    return [one.codemod for one in found]
