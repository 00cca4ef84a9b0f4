"""What goes wrong in a file only as programs use it, which pass what nobody sees there."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from devfix.findings import Safety
from repositories import report, write

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def start(self, n, device):
        return torch.zeros(n, 4, device=device)

    def forward(self, x, before):
        return self.layer(x + before)
"""
TRAINER = """
import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, optimizer, data, device):
        self.model = model
        self.optimizer = optimizer
        self.data = data
        self.device = device

    def step(self):
        for x, y in self.data:
            x, y = x.to(self.device), y.to(self.device)
            loss = F.cross_entropy(self.model(x, self.model.start(len(x), self.device)), y)
            loss.backward()
            self.optimizer.step()

    def check(self):
        self.model.eval()
        for x, y in self.data:
            out = self.model(x.to(self.device), self.model.start(len(x), self.device))
            print(out.argmax(1).cpu().numpy())
"""
MAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from net import Net
from trainer import Trainer


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    data = DataLoader(TensorDataset(torch.rand(8, 4), torch.zeros(8).long()), batch_size=4)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1), data, device)
    trainer.step()
    trainer.check()


if __name__ == "__main__":
    main()
"""
MOVED = "            x, y = x.to(self.device), y.to(self.device)\n"
PLANTS = {
    "a batch": ("trainer.py", MOVED, "", "trainer.py:14 move-inputs"),
    "a batch in an expression": (
        "trainer.py",
        "x.to(self.device), self",
        "x, self",
        "trainer.py:22 move-inputs",
    ),
    "a factory of a module": ("net.py", ", device=device", "", "net.py:12 place-factory"),
    "a read": ("trainer.py", ".cpu().numpy()", ".numpy()", "trainer.py:24 numpy-of-device"),
}


def found(folder: Path) -> list[str]:
    """What devfix says of a repository, each as `file:line codemod`."""
    return [f"{Path(one.path).name}:{one.line} {one.codemod}" for one in devfix.check(folder).findings]


def repository(folder: Path, file: str = "", old: str = "", new: str = "") -> None:
    files = {"net.py": NET, "trainer.py": TRAINER, "main.py": MAIN}
    if file:
        assert old in files[file]
        files[file] = files[file].replace(old, new)
    write(folder, files)


def test_a_repository_in_which_all_is_right(tmp_path: Path) -> None:
    repository(tmp_path)
    assert found(tmp_path) == []


@pytest.mark.parametrize(("file", "old", "new", "expected"), PLANTS.values(), ids=PLANTS)
def test_what_only_the_program_shows(tmp_path: Path, file: str, old: str, new: str, expected: str) -> None:
    repository(tmp_path, file, old, new)
    assert found(tmp_path) == [expected]


def test_the_file_alone_shows_nothing(tmp_path: Path) -> None:
    repository(tmp_path, "trainer.py", MOVED, "")
    (tmp_path / "main.py").unlink()
    assert found(tmp_path) == []


def test_a_fix_tells_of_the_program_and_leaves_nothing_to_find(tmp_path: Path) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    made = report(tmp_path, codemods=["place-factory"])
    (finding,) = (one for result in made.results for one in result.findings)
    assert [Path(one.path).name for one in finding.related if "program" in one.message] == ["main.py"]
    assert finding.fix is not None and finding.fix.safety is Safety.SAFE
    devfix.fix(tmp_path, write=True)
    assert "torch.zeros(n, 4, device=" in (tmp_path / "net.py").read_text()
    assert found(tmp_path) == []


def test_a_fix_is_safe_only_if_all_programs_ask_for_it(tmp_path: Path) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    other = MAIN.replace("model = Net().to(device)", "model = Net()").replace("data, device)", "data, 'cpu')")
    (tmp_path / "other.py").write_text(other)
    (finding,) = devfix.check(tmp_path).findings
    assert finding.safety is Safety.UNSAFE
    assert finding.message.endswith("The fix assumes that all programs use it so")


def test_what_programs_pass_from_the_cpu_is_told_there(tmp_path: Path) -> None:
    repository(tmp_path, "main.py", "Net().to(device)", "Net()")
    assert found(tmp_path) == ["main.py:10 module-never-moved"]


def test_tests_are_no_programs(tmp_path: Path) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    (tmp_path / "main.py").rename(tmp_path / "test_main.py")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    "imported",
    ["from net import (  # the model\n    Net,\n)", "from net import nn, \\\n    Net", "import net"],
)
def test_programs_are_found_however_they_import(tmp_path: Path, imported: str) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    made = MAIN.replace("from net import Net", imported)
    (tmp_path / "main.py").write_text(
        made.replace("Net().", "net.Net().") if imported == "import net" else made
    )
    assert found(tmp_path) == ["net.py:12 place-factory"]


@pytest.mark.parametrize(
    "passed_on", ["from .net import Net\n", "from .net import *\n", "from . import net\n"]
)
def test_programs_are_found_that_import_from_a_package(tmp_path: Path, passed_on: str) -> None:
    broken = NET.replace(", device=device", "")
    main = MAIN.replace(
        "from net import Net", "from nets import Net" if "Net" in passed_on else "from nets import *"
    )
    if "import net" in passed_on:
        main = MAIN.replace("from net import Net", "from nets import net").replace("Net().to", "net.Net().to")
    files = {"nets/__init__.py": passed_on, "nets/net.py": broken, "trainer.py": TRAINER, "main.py": main}
    write(tmp_path, files)
    assert found(tmp_path) == ["net.py:12 place-factory"]


def test_what_goes_to_a_module_and_a_tensor_is_told_once_and_put_on_the_device_of_the_object(
    tmp_path: Path,
) -> None:
    agent = """
import torch
from net import Net


class Agent:
    def __init__(self, device):
        self.device = device
        self.net = Net().to(device)
        self.mean = torch.zeros(4, device=device)

    def see(self, seen):
        return torch.as_tensor(seen, dtype=torch.float32)

    def act(self, seen):
        seen = self.see(seen)
        return self.net(seen, self.mean) + self.mean
"""
    play = """
import numpy as np
import torch
from agent import Agent


def choose(name="auto"):
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


agent = Agent(choose())
agent.act(np.random.randn(2, 4))
"""
    write(tmp_path, {"net.py": NET, "agent.py": agent, "play.py": play})
    assert found(tmp_path) == ["agent.py:13 move-inputs"]
    devfix.fix(tmp_path, unsafe=True, write=True)
    assert "dtype=torch.float32, device=self.device)" in (tmp_path / "agent.py").read_text()


def test_what_came_by_the_program_is_told_there_alone(tmp_path: Path) -> None:
    shift = "def shift(n):\n    import torch\n    return torch.ones(n, 4)\n"
    repository(
        tmp_path,
        "main.py",
        "    trainer = Trainer",
        "    print(model(torch.ones(2, 4).to(device), shift(2)))\n    trainer = Trainer",
    )
    (tmp_path / "shifts.py").write_text(shift)
    main = tmp_path / "main.py"
    main.write_text(main.read_text().replace("from net", "from shifts import shift\nfrom net"))
    assert [one.partition(":")[0] for one in found(tmp_path)] == ["main.py"]


def test_a_library_that_many_programs_load_is_not_followed(tmp_path: Path) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    for number in range(6):
        (tmp_path / f"more_{number}.py").write_text(MAIN)
    assert found(tmp_path) == []


def test_tests_do_not_make_a_library_of_a_file(tmp_path: Path) -> None:
    repository(tmp_path, *PLANTS["a factory of a module"][:3])
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text(MAIN)
    assert found(tmp_path) == ["net.py:12 place-factory"]


def test_kept_results_depend_on_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repository(repo, *PLANTS["a batch"][:3])

    def lines() -> list[str]:
        return [Path(one.path).name for one in devfix.check(repo, cache=True).findings]

    assert lines() == lines() == ["trainer.py"]
    main = repo / "main.py"
    moved = main.read_text().replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"')
    main.write_text(moved)
    assert lines() == []
    main.unlink()
    assert lines() == []


def test_a_fix_stands_below_what_makes_the_value(tmp_path: Path) -> None:
    steps = """
import torch
from torch.utils.data import Dataset


class Steps(Dataset):
    def __init__(self, path):
        self.data = torch.load(path, map_location="cpu")
        self.mean = self.data.mean()

    def __getitem__(self, i):
        return self.data[i]

    def __len__(self):
        return len(self.data)

    def draw(self, n):
        return torch.randn(n, 1) + self.mean
"""
    main = """
import torch
from steps import Steps
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
steps = Steps("steps.pt")
loss = nn.MSELoss().to(device)
fixed = torch.randn(4, 5, 2, device=device)
extra = steps.draw(4).unsqueeze(2).repeat(1, 5, 1)
fixed = torch.cat((fixed, extra), dim=2)
"""
    write(tmp_path, {"steps.py": steps, "main.py": main})
    devfix.fix(tmp_path, unsafe=True, write=True)
    assert "torch.cat((fixed, extra.to(device)), dim=2)" in (tmp_path / "main.py").read_text()


def test_a_folder_that_is_asked_for_is_the_project_where_nothing_marks_one(tmp_path: Path) -> None:
    main = MAIN.replace(
        "import torch\n", "import os\nimport sys\nimport torch\nsys.path.insert(0, os.pardir)\n", 1
    )
    files = {"lib/net.py": NET.replace(", device=device", ""), "lib/trainer.py": TRAINER}
    main = main.replace("from net", "from lib.net").replace("from trainer", "from lib.trainer")
    write(tmp_path, {**files, "tools/main.py": main})
    assert found(tmp_path / "lib") == found(tmp_path / "tools") == []
    assert found(tmp_path) == ["net.py:12 place-factory"]
    (tmp_path / "lib" / "README.md").write_text("A project of its own.\n")
    assert found(tmp_path) == []


HELPERS = """
import torch


def load(n):
    return torch.rand(n, 4), torch.arange(n) % 3


def weigh(labels):
    counts = torch.bincount(labels, minlength=3).float()
    return counts.sum() / (3 * counts.clamp(min=1))


def mask(x=None, n=4):
    return torch.ones(n, device="cpu" if x is None else x.device)
"""
SCRIPT = """
import argparse
import torch
import torch.nn.functional as F
from helpers import load, mask, weigh
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()
x, labels = load(9)
weights = weigh(labels)
net = nn.Linear(4, 3)
if args.cuda:
    net.cuda()
    x, labels = x.cuda(), labels.cuda()
    weights = weights.cuda()


def step():
    return F.cross_entropy(net(x * mask(x)), labels, weight=weights)


print(step())
"""


def test_what_another_file_makes_stays_behind_where_a_flag_moves_the_others(tmp_path: Path) -> None:
    write(tmp_path, {"helpers.py": HELPERS, "main.py": SCRIPT})
    assert found(tmp_path) == []
    write(tmp_path, {"main.py": SCRIPT.replace("    weights = weights.cuda()\n", "")})
    (one,) = found(tmp_path)
    assert one == "main.py:21 place-factory"


def test_a_batch_with_a_star_is_all_that_is_taken(tmp_path: Path) -> None:
    trainer = TRAINER.replace(
        "for x, y in self.data:\n            x, y", "for batch in self.data:\n            x, y", 1
    )
    trainer = trainer.replace("x.to(self.device), y.to(self.device)\n", "self.moved(*batch)\n")
    trainer += "\n    def moved(self, x, y):\n        return x.to(self.device), y.to(self.device)\n"
    write(tmp_path, {"net.py": NET, "trainer.py": trainer, "main.py": MAIN})
    assert found(tmp_path) == []
    write(
        tmp_path,
        {
            "trainer.py": trainer.replace(
                "return x.to(self.device), y.to(self.device)", "return x.to(self.device), y"
            )
        },
    )
    assert found(tmp_path) == ["trainer.py:14 move-inputs"]


def test_objects_of_several_classes_are_each_followed(tmp_path: Path) -> None:
    attacks = """
import torch


class Attack:
    def __init__(self, model):
        self.model = model


class Near(Attack):
    def __call__(self, x):
        return x + torch.sign(self.model(x))


class Far(Attack):
    def __call__(self, x):
        best = torch.full((x.shape[0], 1), 9.0)
        return torch.minimum(self.model(x), best)

    def run(self, x):
        return self.model(x) * torch.rand(1, 3)


ATTACKS = {"near": Near, "far": Far}
"""
    main = """
import torch
from attacks import ATTACKS, Far, Near
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 3).to(device)
x = torch.rand(2, 4, device=device)
for name in ATTACKS:
    print(ATTACKS[name](model)(x))
"""
    write(tmp_path, {"attacks.py": attacks, "main.py": main})
    assert found(tmp_path) == ["attacks.py:17 place-factory"]
    chosen = (
        "if x.sum() > 4:\n    attack = Near(model)\nelse:\n    attack = Far(model)\nprint(attack.run(x))\n"
    )
    write(tmp_path, {"main.py": main[: main.index("for name")] + chosen})
    assert found(tmp_path) == ["attacks.py:21 place-factory"]
