"""`devfix stats`: where devices come from, counted in small programs, in a repository, and shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.stats import file_stats
from devfix.stats.kinds import MEANING, How, Origin, share_of

HEAD = "import os\nimport argparse\nimport torch\nfrom torch import nn\n"
CLASS = "class A:\n    def __init__(self, d):\n        self.d = d\n"
ARGS = "args = argparse.ArgumentParser().parse_args()\n"

# The last line of each program has one placement.
PROGRAMS = {
    "x.to('cuda')": (How.TO, Origin.NAMED),
    "x.cuda()": (How.CUDA, Origin.NAMED),
    "x.cuda(1)": (How.CUDA, Origin.NAMED),
    "torch.cuda.FloatTensor(3)": (How.CUDA, Origin.NAMED),
    "x.to(torch.device('cuda:0'), torch.float16)": (How.TO, Origin.NAMED),
    "x.to(dtype=torch.float16, device='mps')": (How.TO, Origin.NAMED),
    "i = 1\nx.to(f'cuda:{i}')": (How.TO, Origin.NAMED),
    "D = 'cuda'\ntorch.zeros(2, device=D)": (How.FACTORY, Origin.NAMED),
    "torch.zeros(2, device=0)": (How.FACTORY, Origin.NAMED),
    "torch.cuda.set_device(0)": (How.PROCESS, Origin.NAMED),
    "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'": (How.PROCESS, Origin.NAMED),
    "torch.autocast('cuda')": (How.AUTOCAST, Origin.NAMED),
    "torch.cuda.amp.GradScaler()": (How.AUTOCAST, Origin.NAMED),
    "x.cpu()": (How.CPU, Origin.CPU),
    "x.to('cpu')": (How.TO, Origin.CPU),
    "torch.load('w.pt', map_location=lambda s, l: s)": (How.LOAD, Origin.CPU),
    "torch.load('w.pt')": (How.LOAD, Origin.DEFAULT),
    "torch.zeros(2)": (How.BARE, Origin.DEFAULT),
    "torch.zeros(2, device=None)": (How.FACTORY, Origin.DEFAULT),
    "torch.zeros_like(x)": (How.LIKE, Origin.VALUE),
    "x.new_zeros(2)": (How.LIKE, Origin.VALUE),
    "torch.zeros(2, device=x.device)": (How.FACTORY, Origin.VALUE),
    "x.to(next(model.parameters()).device)": (How.TO, Origin.VALUE),
    "if x.is_cuda:\n    y.cuda()": (How.CUDA, Origin.VALUE),
    "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nx.to(d)": (How.TO, Origin.AVAILABLE),
    "if torch.cuda.is_available():\n    model.cuda()": (How.CUDA, Origin.AVAILABLE),
    "if torch.cuda.is_available():\n    d = 'cuda'\nelse:\n    d = 'cpu'\nx.to(d)": (How.TO, Origin.AVAILABLE),
    "x.to(torch.accelerator.current_accelerator())": (How.TO, Origin.AVAILABLE),
    "from tools import get_device\nx.to(get_device())": (How.TO, Origin.AVAILABLE),
    "def pick():\n    return 'cuda'\nx.to(pick())": (How.TO, Origin.NAMED),
    "def f(x, device):\n    return x.to(device)": (How.TO, Origin.ARGUMENT),
    CLASS + "    def f(self, x):\n        x.to(self.d)": (How.TO, Origin.ARGUMENT),
    ARGS + "x.to(args.device)": (How.TO, Origin.ARGUMENT),
    ARGS + "if args.gpu:\n    model.cuda()": (How.CUDA, Origin.ARGUMENT),
    ARGS + "d = 'cuda' if args.gpu else 'cpu'\nx.to(d)": (How.TO, Origin.ARGUMENT),
    "x.to(cfg.train.device)": (How.TO, Origin.CONFIG),
    "x.to(config['device'])": (How.TO, Origin.CONFIG),
    "x.to(os.environ['DEVICE'])": (How.TO, Origin.CONFIG),
    "torch.autocast(x.device.type)": (How.AUTOCAST, Origin.VALUE),
    "import dist\nx.to(dist.init_distributed_device(3))": (How.TO, Origin.AVAILABLE),
    "x.to(accelerator.device)": (How.TO, Origin.FRAMEWORK),
    "from settings import DEVICE\nx.to(DEVICE)": (How.TO, Origin.IMPORTED),
    "for d in all_devices():\n    x.to(device=d)": (How.TO, Origin.UNKNOWN),
    "load_model('w', device='cuda')": (How.PASSED, Origin.NAMED),
}  # fmt: skip

SILENT = (
    "x.to(torch.float16)",
    "x.to(x.dtype)",
    "x.to(self.weight_dtype)",
    "path.to(**options)",
    "d = torch.device('cuda')",
    "print('cuda')",
    "load_model('w', device=None)",
    "unit.to(other_unit)",
)


def stats_of(tmp_path: Path, program: str) -> list[tuple[How, Origin]]:
    file = tmp_path / "program.py"
    file.write_text(HEAD + program + "\n")
    found = file_stats(str(file))
    assert not found.error
    return [(site.how, site.origin) for site in found.sites]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_origin(program: str, tmp_path: Path) -> None:
    assert stats_of(tmp_path, program) == [PROGRAMS[program]]


@pytest.mark.parametrize("program", SILENT)
def test_what_places_nothing(program: str, tmp_path: Path) -> None:
    assert stats_of(tmp_path, program) == []


def test_every_origin_has_a_program_and_a_meaning() -> None:
    assert {origin for _, origin in PROGRAMS.values()} == set(Origin) == set(MEANING)
    assert {how for how, _ in PROGRAMS.values()} == set(How)


def test_shares() -> None:
    assert share_of([Origin.CPU, Origin.DEFAULT]).text == "-"
    assert share_of([Origin.NAMED]).text == "0 %"
    assert share_of([Origin.VALUE, Origin.CPU]).text == "100 %"
    assert share_of([Origin.VALUE] * 3 + [Origin.NAMED]).text == "75 %"
    assert share_of([Origin.VALUE] * 5000 + [Origin.NAMED]).text == "99.9 %"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "src/model/net.py": "import torch\nx = torch.zeros(2, device=y.device)\n",
        "src/train.py": "import torch\nx = torch.zeros(2)\nx.cuda()\nx.cuda()\n",
        "plain.py": "print('no tensors')\n",
        "broken.py": "import torch\nx = (\n",
        "src/<b>.py": "import torch\nx.to('cuda')\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "a",
        "metadata": {},
        "outputs": [],
    }
    cells = [
        {**cell, "source": "%pip install torch\nimport torch"},
        {**cell, "source": "x = torch.ones(1)\nx.to('cuda')"},
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "note.ipynb").write_text(json.dumps(notebook))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_repository(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", ".", "--jobs", "1"]) == 2  # broken.py
    told = capsys.readouterr()
    assert "7 placements in 4 files; 6 files looked at" in told.out
    assert "device-agnostic: 20 % (1 use a device that can change, 4 name an accelerator)" in told.out
    assert "2  src/train.py, the first at line 3: x.cuda()" in told.out
    assert "1  note.ipynb, the first at cell 2, line 2: x.to('cuda')" in told.out
    assert "broken.py" in told.err and "line 2" in told.err


def test_for_machines(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "src", "--format", "json", "--depth", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["share"] == {"open": 1, "named": 3, "percent": 25.0}
    assert told["origins"] == {"value": 1, "named": 3, "default": 1}
    assert [(row["folder"], row["placements"]) for row in told["folders"]] == [(".", 4), ("model", 1)]
    assert [(one["path"], one["line"]) for one in told["named"]] == [
        ("src/<b>.py", 2), ("src/train.py", 3), ("src/train.py", 4),
    ]  # fmt: skip


def test_the_page(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", ".", "--html", "stats.html", "--exclude", "broken.py"]) == 0
    page = (repository / "stats.html").read_text()
    assert "20 %" in page and "an accelerator by name" in page
    assert "&lt;b&gt;.py" in page and "<b>.py" not in page
    assert "default-src 'none'" in page
    for outside in ("http:", "https:", "<script", "@import", "url("):
        assert outside not in page
    assert main(["stats", "plain.py", "--html", "stats.html"]) == 0
    assert "no placements" in (repository / "stats.html").read_text()


def test_the_same_in_several_processes(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (repository / f"more{number}.py").write_text("import torch\nx.to('cuda')\n")
    outputs = []
    run: Callable[[str], int] = lambda jobs: main(["stats", ".", "--format", "json", "--jobs", jobs])  # noqa: E731
    for jobs in ("1", "2"):
        run(jobs)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
