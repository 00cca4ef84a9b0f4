"""What the engine follows into other files, and how far."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from repositories import found, write

MAIN = """
import torch
from torch import nn

{imported}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)


class Shift:
    def __init__(self, by):
        self.by = by

    def of(self, x):
        return x + self.by


def shift(model, given):
    return given.of(model(torch.ones(2, device=device)))


{called}
print(shift(model, Shift(torch.ones(2))))
"""
ADD = """
def add(x, y):
    return x + y
"""


def test_what_another_file_calls_does_not_use_up_what_the_own_calls_need(tmp_path: Path) -> None:
    steps = "".join(f"def step_{number}(x):\n    return x + {number}\n\n\n" for number in range(600))
    run = "import steps\n\n\ndef run(x):\n" + "".join(f"    x = steps.step_{n}(x)\n" for n in range(600))
    main = MAIN.format(imported="from runs import run", called="run(torch.ones(2))")
    write(tmp_path, {"steps.py": steps, "runs.py": run + "    return x\n", "train.py": main})
    assert found(tmp_path, codemods=["place-factory"]) == ["train.py:24 place-factory"]


@pytest.mark.parametrize(
    ("imported", "files"),
    [
        ("from sums import add", {"sums.py": ADD}),
        ("from sums import *", {"sums.py": ADD}),
        ("from torch.nn.functional import *\nfrom sums import *", {"sums.py": ADD}),
        ("from pkg import *", {"pkg/__init__.py": "from .sums import *", "pkg/sums.py": ADD}),
    ],
)
def test_functions_however_they_are_imported(tmp_path: Path, imported: str, files: dict[str, str]) -> None:
    main = f"""
import torch
from torch import nn
{imported}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
print(add(model(torch.ones(2, device=device)), torch.zeros(2)))
"""
    write(tmp_path, {**files, "train.py": main})
    line = 8 + imported.count("\n")
    assert found(tmp_path, codemods=["place-factory"]) == [f"train.py:{line} place-factory"]


@pytest.mark.parametrize("own", ["def add(x, y):\n    return x", "add = print"])
def test_an_own_name_comes_before_that_of_a_star(tmp_path: Path, own: str) -> None:
    main = f"""
import torch
from torch import nn
from sums import *

{own}


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
print(add(model(torch.ones(2, device=device)), torch.zeros(2)))
"""
    write(tmp_path, {"sums.py": ADD, "train.py": main})
    assert found(tmp_path, codemods=["place-factory"]) == []


FOLLOWING = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.mix = torch.zeros(2, 2)

    def forward(self, x):
        return torch.cat((self.mix.to(x), self.layer(x)))
"""
FOLLOWED = """import sys
import torch
from net import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)


def run(flag):
    x = torch.ones(2, 2)
    if flag:
        x = x.to(device)
    return model(x)


run(len(sys.argv) > 1)
"""


def test_what_follows_another_tensor_is_found_where_that_was_left(tmp_path: Path) -> None:
    write(tmp_path, {"net.py": FOLLOWING, "train.py": FOLLOWED})
    assert found(tmp_path, codemods=["place-factory", "move-inputs"]) == ["train.py:10 move-inputs"]


@pytest.mark.parametrize(("own", "count"), [("", 0), ("DEVICE = get()", 1)])
def test_what_a_star_gives_is_known_where_nothing_of_the_file_hides_it(
    tmp_path: Path, own: str, count: int
) -> None:
    files = {
        "pkg/__init__.py": "from .places import *",
        "pkg/places.py": "import torch\nDEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
        "train.py": f"import torch\nfrom pkg import *\n{own}\nwith torch.autocast(DEVICE):\n    print(1)\n",
    }
    write(tmp_path, files)
    assert len(found(tmp_path, codemods=["normalize-device-type"])) == count


ROLLOUT = """import torch
from torch import Tensor, nn


class Rollout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(2, device=x.device)


class Predictor(nn.Module):
    def __init__(self, rollout: Rollout, encoder: nn.Module):
        super().__init__()
        self.rollout, self.encoder = rollout, encoder

    def forward(self, y: Tensor) -> Tensor:
        x = self.encoder(y)
        return self.rollout(x[0] if isinstance(x, tuple) else x)
"""
ROLLED = """import torch
from roll import Predictor, Rollout
from torch import nn


class Encoder(nn.Module):
    def forward(self, y):
        return y.new_ones(2), None


def run():
    model = Predictor(Rollout(), encoder=Encoder())
    out = model(torch.zeros(2))
    print(torch.equal(out, torch.ones(2)))
"""


def test_the_device_of_what_another_file_does_not_know_is_none_to_be_on(tmp_path: Path) -> None:
    write(tmp_path, {"roll.py": ROLLOUT, "train.py": ROLLED})
    assert found(tmp_path, codemods=["place-factory"]) == []


DEFAULTS = {
    "a type of CUDA": ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", False),
    "a device": ("torch.set_default_device(args.device)", False),
    "a type": ("torch.set_default_tensor_type(torch.DoubleTensor)", True),
    "the CPU": ("torch.set_default_device('cpu')", True),
    "a comment": ("pass", True),
}


@pytest.mark.parametrize(("line", "found_"), DEFAULTS.values(), ids=DEFAULTS)
@pytest.mark.parametrize("through", ["net", "parts"])
def test_a_program_that_sets_where_tensors_are_made(
    tmp_path: Path, line: str, found_: bool, through: str
) -> None:
    net = """
import torch
from torch import nn


class Shift(nn.Module):
    def forward(self, x):
        return x + torch.arange(3)
"""
    files = {
        "train.py": f"import torch\nfrom {through} import Shift\n\n{line}\nShift()(torch.ones(3).exp())\n",
        "parts.py": "from net import Shift\n",
        "net.py": net,
        "other.py": "import torch\n\ntorch.set_default_device('cuda')\n",
        "pyproject.toml": "",
    }
    write(tmp_path, files)
    assert found(tmp_path, "net.py", codemods=["place-factory"]) == ["net.py:8 place-factory"] * found_


@pytest.mark.parametrize("others", [1, 0])
def test_a_helper_that_all_programs_import_sets_where_tensors_are_made(tmp_path: Path, others: int) -> None:
    net = "import torch\n\n\ndef shift(x: torch.Tensor):\n    return x + torch.arange(3)\n"
    start = "import torch\n\n\ndef run(go):\n    torch.set_default_tensor_type('torch.cuda.FloatTensor')\n    go()\n"
    program = "from net import shift\nfrom start import run\n\nrun(shift)\n"
    files = {"net.py": net, "start.py": start, "train.py": program, "show.py": program, "pyproject.toml": ""}
    write(tmp_path, {**files, **({"plain.py": "from net import shift\n"} if others else {})})
    assert found(tmp_path, "net.py", codemods=["place-factory"]) == ["net.py:5 place-factory"] * others


SETTING = """
import torch


def prepare(use_cuda):
    if torch.cuda.is_available() and use_cuda:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")


def start(args):
    prepare(args.cuda)


def other(args):
    print(args)
"""
NUMBERED = """
import torch
from setting import NAME


class Solver:
    def convert(self, found: torch.Tensor):
        return torch.cat((found, torch.arange(0, found.shape[0])[:, None]), 1)

    def run(self, net, loader, args):
        for x in loader:
            self.convert(net(x.cuda() if args.cuda else x))


def main(net, loader, args):
    NAME(args)
    Solver().run(net, loader, args)
"""


@pytest.mark.parametrize(("name", "is_told"), [("prepare", False), ("start", False), ("other", True)])
def test_a_function_that_a_program_names_sets_where_tensors_are_made(
    tmp_path: Path, name: str, is_told: bool
) -> None:
    files = {"setting.py": SETTING, "main.py": NUMBERED.replace("NAME", name), "pyproject.toml": ""}
    write(tmp_path, files)
    assert bool(found(tmp_path, "main.py", codemods=["place-factory"])) is is_told


@pytest.mark.parametrize("is_told", [False, True])
def test_what_loads_a_file_late_is_no_program_that_runs_it(tmp_path: Path, is_told: bool) -> None:
    """A check of another file at its end imports something from the same package."""
    net = "import torch\n\n\ndef shift(x: torch.Tensor):\n    return x + torch.arange(3)\n"
    program = "from net import shift\nfrom setting import start\n\nstart(None)\nshift(read())\n"
    late = "if __name__ == '__main__':\n    from net import shift\n"
    other = late if not is_told else "from net import shift\n\nshift(read())\n"
    files = {"setting.py": SETTING, "net.py": net, "main.py": program, "rows.py": other, "pyproject.toml": ""}
    write(tmp_path, files)
    assert bool(found(tmp_path, "net.py", codemods=["place-factory"])) is is_told


@pytest.mark.parametrize(
    ("file", "name", "is_told"),
    [
        ("test_sums.py", "test_sum", False),
        ("sums_test.py", "test_sum", False),
        ("test_sums.py", "sums", False),
        ("train.py", "test", True),
    ],
)
def test_what_a_fixture_gives_a_test_is_made_on_the_cpu(
    tmp_path: Path, file: str, name: str, is_told: bool
) -> None:
    text = f"""
import torch


def {name}(values: torch.Tensor):
    return (values.exp() * torch.ones(3)).sum()
"""
    write(tmp_path, {file: text, "pyproject.toml": ""})
    assert bool(found(tmp_path, file, codemods=["place-factory"])) is is_told


RUNS = "\n\nif __name__ == '__main__':\n    print(Shift()(torch.ones(3)))\n"


@pytest.mark.parametrize(
    ("file", "more", "is_told"),
    [
        ("net.py", "", True),
        ("net.py", RUNS, False),
        ("net.py", "\n\nfor x in torch.ones(2, 3):\n    print(Shift()(x))\n", False),
        ("net.py", RUNS.replace("Shift()", "Shift().to(sys.argv[1])"), True),
        ("net.py", RUNS.replace("Shift()", "Shift().cuda()"), True),
        ("test_net.py", "", False),
        ("test_net.py", "\n\nDEVICE = 'cuda'\n", True),
    ],
)
def test_a_program_that_names_no_device_is_on_the_cpu(
    tmp_path: Path, file: str, more: str, is_told: bool
) -> None:
    text = """
import sys

import torch
from torch import nn


class Shift(nn.Module):
    def forward(self, x):
        return x.exp() + torch.arange(3)
"""
    write(tmp_path, {file: text + more, "pyproject.toml": ""})
    assert bool(found(tmp_path, file, codemods=["place-factory"])) is is_told


def test_the_device_of_what_is_unknown_in_another_file(tmp_path: Path) -> None:
    blocks = """
import torch
from parts import unpacked
from torch import nn


class Blocks(nn.Module):
    def forward(self, parts, mask):
        part = torch.cat(unpacked(parts))
        n = part.shape[1]
        return torch.ones(n, dtype=torch.bool, device=part.device) & mask
"""
    main = """
import torch
from blocks import Blocks

device = torch.device("cpu")


def test_blocks():
    Blocks()([torch.ones(3, 2)], torch.ones(3, dtype=torch.bool))
"""
    write(tmp_path, {"blocks.py": blocks, "main.py": main, "pyproject.toml": ""})
    assert found(tmp_path, "main.py", codemods=["place-factory"]) == []


HELPER = """
import torch


def cut(batch, device):
    mask = batch["mask"].to(device)
    batch.update({"mask": mask})
    return batch


def pad(mask):
    return torch.cat([mask, torch.zeros(4, 4).to(mask.device)], dim=1)


def embed(model, loader, device):
    for batch in loader:
        batch = cut(batch, device)
        mask = pad(batch["mask"])
        print(model(batch["mask"]), batch["weights"] * mask)
"""
EMBEDDING = """
from torch.utils.data import DataLoader
from helper import embed


def score(model, dataset, device):
    model.to(device)
    embed(model, DataLoader(dataset, batch_size=4), device)
"""


def test_what_meets_in_another_file_is_looked_for_in_that_file(tmp_path: Path) -> None:
    """What else follows the device is among the statements of the function's file, not of the caller's."""
    write(tmp_path, {"helper.py": HELPER, "main.py": EMBEDDING})
    assert found(tmp_path, codemods=["move-inputs"]) == ["helper.py:17 move-inputs"]


def test_a_device_that_a_base_in_another_file_leaves_open_is_not_written(tmp_path: Path) -> None:
    base = """
from torch import nn


class Base(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.feature = make()
        self.device = None

    def to(self, device):
        self.device = device
        return super().to(device)

    def parse(self, x):
        return self.feature(x.cuda())
"""
    heir = """
import torch
from base import Base
from torch import nn


class Heir(Base):
    def __init__(self, make):
        super().__init__(make)
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, x):
        y = torch.arange(3)
        y = y.cuda()
        return self.criterion(self.parse(x), y)
"""
    write(tmp_path, {"base.py": base, "heir.py": heir, "pyproject.toml": ""})
    fixes = [one.fix for one in devfix.check(tmp_path, cache=False).findings if one.path.endswith("heir.py")]
    assert not any("self.device" in one for one in fixes)
