"""A device that another file names is the one in scope of what is loaded."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest

NET = 'import torch\n\nDEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
TEST = """
import torch
IMPORT


def score(batch, model):
    return model(batch.to(NAME))


if __name__ == "__main__":
    model = torch.load("model.pt")
    model.gru.flatten_parameters()
    print(score(torch.ones(2, 3), model))
"""


@pytest.mark.parametrize(
    ("imported", "name"),
    [
        ("from net import DEVICE", "DEVICE"),
        ("from net import DEVICE as dev", "dev"),
        ("from net import *", "DEVICE"),
        ("import net", "net.DEVICE"),
    ],
)
def test_a_whole_model_is_loaded_to_the_imported_device_of_its_inputs(
    imported: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("test.py").write_text(TEST.replace("IMPORT", imported).replace("NAME", name))
    devfix.fix(tmp_path, unsafe=True, settings=False, write=True, cache=False)
    assert f'torch.load("model.pt", map_location={name})' in Path("test.py").read_text()
