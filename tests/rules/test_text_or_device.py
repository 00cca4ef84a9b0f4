"""A parameter that is a string for some callers, and a torch.device for others: the edit is right for both."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest

CODE = """
import torch

def run(device, x):
    if device == "cuda":
        x = x.half()
    return x

run(torch.device("cuda" if torch.cuda.is_available() else "cpu"), torch.ones(3))
"""
SURE, BOTH = 'if device.type == "cuda":', 'if torch.device(device).type == "cuda":'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without a file belongs to the folder at hand, and there are no callers of it in an empty one."""
    monkeypatch.chdir(tmp_path)


def repaired(code: str) -> str:
    return devfix.fix(source=code, unsafe=True, settings=False).text


def test_what_all_callers_make_is_a_device() -> None:
    assert SURE in repaired(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(device, x)", "(device: str, x)"),
        ("(device, x)", '(device="cpu", x=None)'),
        ("x):\n", 'x):\n    """device (str): where to run."""\n'),
        ("    return x", '    if device == "cpu":\n        print(x)\n    return x'),
        ("\nrun(", '\nrun("cpu", torch.ones(3))\nrun('),
        ("\nrun(", '\nrun(x=torch.ones(3), device="cpu")\nrun('),
    ],
    ids=["annotation", "default", "docstring", "compared", "passed", "named"],
)
def test_what_may_be_a_string_is_made_a_device_first(old: str, new: str) -> None:
    text = repaired(CODE.replace(old, new, 1))
    assert BOTH in text
    assert "device.type" not in text.replace("torch.device(device).type", "")


def test_a_string_from_another_file_counts(tmp_path: Path) -> None:
    written = []
    for main in (None, 'import torch\nfrom steps import run\nrun("cuda", torch.ones(3))\n'):
        Path("steps.py").write_text(CODE)
        if main is not None:
            Path("main.py").write_text(main)
        devfix.fix(tmp_path, unsafe=True, settings=False, write=True, cache=False)
        written.append(Path("steps.py").read_text())
    assert SURE in written[0]
    assert BOTH in written[1]
