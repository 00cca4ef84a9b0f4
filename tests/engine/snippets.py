"""Snippets below the usual imports, and the codemods that find something in them."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest

HEAD = "import torch\nfrom torch import nn\n"
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs belong to no project: not to devfix's own, of which every file would be looked at."""
    monkeypatch.chdir(tmp_path)


def codemods(code: str) -> list[str]:
    return [one.codemod for one in devfix.check(source=HEAD + code, settings=False).findings]
