"""hard-coded-cuda.module: one file of the program owns the device, and the others import it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from applying import findings
from devfix.config import ConfigError
from devfix.repair.literals import module_name
from devfix.rules.hard_coded_cuda import HardCodedCuda
from ran import Ran

TRAIN = """\
import torch
from pkg.net import Net


def main():
    net = Net().cuda()
    x = torch.ones(2, 4).cuda()
    print(tuple(net(x).shape))


main()
"""
NET = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)

    def forward(self, x):
        return self.lin(x)


def make():
    return Net().to(device)
"""
CONSTANT = 'import torch\n\nDEVICE = "cuda"\n\n\ndef f(rows):\n    return torch.tensor(rows).to(DEVICE)\n'


Devfix = Callable[..., str]


@pytest.fixture
def devfix(called: Callable[..., Ran]) -> Devfix:
    def run(folder: Path, command: str, *options: str) -> str:
        chosen = ("--codemod", "hard-coded-cuda", "--option", "hard-coded-cuda.module=pkg/device.py")
        ran = called(command, *chosen, *options, ".", cwd=folder)
        return ran.text + ran.err

    return run


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "pkg" / "net.py").write_text(NET)
    (tmp_path / "pkg" / "constant.py").write_text(CONSTANT)
    return tmp_path


def test_one_module_is_written_and_imported(program: Path, devfix: Devfix) -> None:
    devfix(program, "apply", "--unsafe")
    owner = (program / "pkg" / "device.py").read_text()
    assert 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")' in owner
    train = (program / "train.py").read_text()
    assert "from pkg.device import device\n" in train
    assert "Net().to(device)" in train and "torch.ones(2, 4, device=device)" in train
    net = (program / "pkg" / "net.py").read_text()
    assert "from pkg.device import device\n" in net and "is_available" not in net
    constant = (program / "pkg" / "constant.py").read_text()
    assert "from pkg.device import device as DEVICE\n" in constant and '"cuda"' not in constant


def test_the_program_runs_afterwards(program: Path, devfix: Devfix) -> None:
    devfix(program, "apply", "--unsafe")
    run = subprocess.run(
        [sys.executable, "train.py"], cwd=program, capture_output=True, text=True, check=False
    )
    assert run.stdout == "(2, 2)\n", run.stderr


def test_nothing_is_left_and_a_new_file_joins(program: Path, devfix: Devfix) -> None:
    devfix(program, "apply", "--unsafe")
    before = {path: path.read_bytes() for path in program.rglob("*.py")}
    devfix(program, "apply", "--unsafe")
    assert {path: path.read_bytes() for path in program.rglob("*.py")} == before
    late = program / "late.py"
    late.write_text("import torch\n\n\ndef f(x):\n    return x.cuda()\n")
    devfix(program, "apply", "--unsafe")
    assert late.read_text() == (
        "import torch\nfrom pkg.device import device\n\n\ndef f(x):\n    return x.to(device)\n"
    )
    assert (program / "pkg" / "device.py").read_bytes() == before[program / "pkg" / "device.py"]


def test_any_accelerator(program: Path, devfix: Devfix) -> None:
    devfix(program, "apply", "--unsafe", "--option", "hard-coded-cuda.declare=accelerator")
    assert "torch.accelerator.current_accelerator()" in (program / "pkg" / "device.py").read_text()


def test_a_module_without_a_device_is_left_alone(program: Path, devfix: Devfix) -> None:
    (program / "pkg" / "device.py").write_text("import torch\n\ngpu = 'cuda'\n")
    before = (program / "train.py").read_bytes()
    devfix(program, "apply", "--unsafe")
    assert (program / "train.py").read_bytes() == before
    assert (program / "pkg" / "device.py").read_text() == "import torch\n\ngpu = 'cuda'\n"


@pytest.mark.parametrize(
    ("asked", "is_written"),
    [
        ("torch<2.6", False),
        ("torch>=1.8,<2", False),
        ("torch~=2.1.0", False),
        ("torch==2.1.2+cu118", False),
        ("torch==2.5.*", False),
        ("torch==2.*", True),
        ("torch>=1.8", True),
        ("torch>=1.8,<3", True),
        ("torch~=2.1", True),
        ("torch==2.6.0", True),
        ("torch==2.2.2; sys_platform == 'darwin'\ntorch>=2.6", True),
        ("torchvision<0.2\npytorch-lightning<2", True),
        ("# nothing", True),
    ],
)
def test_the_accelerator_only_where_torch_may_have_it(
    program: Path, devfix: Devfix, asked: str, is_written: bool
) -> None:
    (program / "pyproject.toml").touch()
    (program / "requirements.txt").write_text(f"numpy\n{asked}\n")
    option = ("--option", "hard-coded-cuda.declare=accelerator")
    told = devfix(program, "check", *option)
    devfix(program, "apply", "--unsafe", *option)
    assert ("needs torch 2.6, and the project asks for `torch" in told) is not is_written
    assert (program / "pkg" / "device.py").exists() is is_written


def test_a_device_that_is_the_accelerator_is_the_files_own(program: Path, devfix: Devfix) -> None:
    chosen = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    accelerator = (
        "torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')"
    )
    (program / "pkg" / "net.py").write_text(
        NET.replace(chosen, accelerator) + "\n\ndef f(x):\n    return x.cuda()\n\n\nf(torch.ones(2))\n"
    )
    devfix(program, "apply", "--unsafe")
    net = (program / "pkg" / "net.py").read_text()
    assert "from pkg.device import device" in net and "accelerator" not in net and "x.to(device)" in net


def test_nothing_is_written_without_leave(program: Path, devfix: Devfix) -> None:
    devfix(program, "apply")
    assert not (program / "pkg" / "device.py").exists()
    assert (program / "train.py").read_text() == TRAIN


def test_a_file_without_a_device_is_silent() -> None:
    assert findings(HardCodedCuda(module="pkg/device.py"), "import torch\n# cuda\nx = torch.ones(2)\n") == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("pkg/device.py", "pkg.device"),
        ("device.py", "device"),
        ("src/pkg/device.py", "pkg.device"),
        ("pkg/__init__.py", "pkg"),
        ("pkg/my-device.py", ""),
        ("/pkg/device.py", ""),
        ("pkg/device", ""),
    ],
)
def test_how_a_path_is_imported(path: str, name: str) -> None:
    assert module_name(path) == name


def test_a_path_that_cannot_be_imported_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"pkg/device\.py"):
        HardCodedCuda(module="../device")
