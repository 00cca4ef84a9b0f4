"""`devfix repair`: programs run, are repaired by what was seen, and run strictly afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from devfix.commands.repair import outcome_of
from devfix.documents import Document
from devfix.findings import Safety
from devfix.repair import comparing, outputs, rounds
from devfix.reports.report import Place, PlacedEdit, PlacedFinding, PlacedFix
from devfix.review.device_errors import findings_in
from devfix.simulate.forks import Forks
from devfix.simulate.trial import Copies
from devfix.smoke import same_numbers
from ran import Ran

SEVEN = Path(__file__).with_name("seven_strays.py").read_text()
HEAD = """import torch
from torch import nn
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
"""


Repair = Callable[..., Ran]
Runs = Callable[..., Callable[..., rounds.Outcome]]


@pytest.fixture
def devfix(called: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `devfix` in the folder."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*arguments: str) -> Ran:
        done = called(*arguments, cwd=folder)
        if "build for GPUs" in done.err:
            pytest.skip(done.err)
        return done

    return run


@pytest.fixture
def repair(devfix: Callable[..., Ran], folder: Path, lent: object) -> Repair:
    """Run `devfix repair` with a program."""

    def run(program: str, *options: str) -> Ran:
        (folder / "train.py").write_text(program)
        return devfix("repair", *options, "--", "python", "train.py")

    return run


@pytest.fixture
def runs(folder: Path, lent: Callable[[], Forks]) -> Iterator[Runs]:
    """What runs train.py of the folder with changed files, without the command `repair` around it."""
    root = os.path.realpath(folder)
    with lent() as forks:
        copies = Copies(root, ".", "", 300.0, seed="0", forks=forks)

        def on(devices: int = 1) -> Callable[..., rounds.Outcome]:
            def run(
                changed: Mapping[str, bytes], keep_going: bool, cpu: bool = not devices
            ) -> rounds.Outcome:
                words = [sys.executable, "train.py"]
                ended = copies.run(words, changed, max(devices, 1), cpu=cpu, keep_going=keep_going)
                outcome = outcome_of(ended, copies.at, root)
                if "build for GPUs" in outcome.unchecked:
                    pytest.skip(outcome.unchecked)
                return outcome

            return run

        yield on


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    return made


def test_seven_strays(folder: Path, devfix: Callable[..., Ran]) -> None:
    """In forks as devfix itself makes them; the other tests share a process to fork from."""
    (folder / "train.py").write_text(SEVEN)
    done = devfix("repair", "--write", "--", "python", "train.py")
    assert done.code == 0, done.err
    said = done.err.splitlines()
    assert said[:3] == [
        "devfix: on the CPU: it runs and prints 1 number",
        "devfix: round 1: 6 device errors of 7 strays; 7 fixes made",
        "devfix: round 2: no device errors left",
    ]
    assert len(said) == 10 and not any("left out" in one for one in said)
    text = (folder / "train.py").read_text()
    for fixed in (
        'self.heads = nn.ModuleDict({"a"',
        'self.register_buffer("scale", torch.ones(n), persistent=False)',
        'self.register_buffer("pos", self._positions(8, n), persistent=False)',
        "weight=torch.tensor([1.0, 2.0, 1.0, 1.0])).to(self.dev)",
        'self.net(b["ids"].to(self.dev), "a"), b["y"].to(self.dev))',
        "[h.cpu().numpy() for h in self.history]",
    ):
        assert fixed in text
    strict = devfix("run", "train.py")
    assert (strict.code, strict.err) == (0, "")


def test_a_fix_from_the_run_alone_as_a_patch(folder: Path, repair: Repair) -> None:
    """The static analysis does not know which attribute it is: the run knows where `factor` meets what it misses."""
    program = HEAD + (
        "class Scale(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table = [torch.full((2,), 3.0)]\n"
        "    def forward(self, x):\n"
        "        factor = getattr(self, 'table'.lower())[0]\n"
        "        return x * factor\n"
        "net = Scale().to(device)\n"
        "print(net(torch.ones(2, device=device)).sum().item())\n"
    )
    done = repair(program, "--patch", "fix.patch")
    assert done.code == 0, done.err
    assert (folder / "train.py").read_text() == program and done.text == ""
    patch = (folder / "fix.patch").read_text()
    changed = [one for one in patch.splitlines() if one[:1] in "+-" and not one.startswith(("+++", "---"))]
    assert changed == ["-        return x * factor", "+        return x * factor.to(x.device)"]
    assert "(from this run)" in done.err


# Title: programs below HEAD, and what stands in them when they are repaired. All run as modules of one, since
# torch takes seconds to be imported, with two devices.
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    # Generators, and a loss that autocast refuses; it cannot run on the CPU as it is.
    "kinds": (
        "with torch.autocast(torch.device('cuda', 0)):\n"
        "    pass\n"
        "cpu = torch.Generator().manual_seed(0)\n"
        "torch.randn(2, generator=cpu, device=device).tolist()\n"
        "there = torch.Generator().manual_seed(0)\n"
        "noise = torch.zeros(2, device=device)\n"
        "noise.uniform_(generator=there)\n"
        "torch.randperm(4, generator=torch.Generator(device)).tolist()\n"
        "with torch.autocast('cuda'):\n"
        "    rate = nn.Linear(2, 1).to(device)(noise).sigmoid()\n"
        "    loss = nn.BCELoss()(rate, torch.ones(1, device=device))\n"
        # What is on a device is not pinned, and there are two devices.
        "Loader = torch.utils.data.DataLoader\n"
        "sum(Loader(torch.ones(2, 1, device=device), pin_memory=True)).tolist()\n"
        "third = 'cuda:2' if torch.cuda.is_available() else 'cpu'\n"
        "torch.ones(2).to(third).tolist()\n"
        "torch.ones(2).cuda(3).tolist()\n",
        (
            "pin_memory=False",
            'third = "cuda:0" if',
            "torch.ones(2).cuda(0)",
            "torch.randn(2, generator=cpu).to(device)",
            "there = torch.Generator(device=device).manual_seed(0)",
            '    with torch.autocast("cuda", enabled=False):\n        loss = nn.BCELoss()(rate.float(), ',
            'generator=torch.Generator("cpu"))',
        ),
    ),
    # Workers are forked, and have no CUDA there.
    "workers": (
        "class Data:\n"
        "    def __len__(self):\n"
        "        return 2\n"
        "    def __getitem__(self, number):\n"
        "        return torch.tensor(float(number)).to(device), torch.zeros(1, device=device)\n"
        "def main():\n"
        "    total = torch.zeros(1, device=device)\n"
        "    for one, other in torch.utils.data.DataLoader(Data(), num_workers=1):\n"
        "        total += one + other.mean(1)\n"
        "    print(total.item())\n",
        ('return torch.tensor(float(number)), torch.zeros(1, device="cpu")',),
    ),
    # A mask without a name, of a shape alone, and a device that the module of the program knows.
    "masks": (
        "def mask(rows):\n"
        "    made = getattr(torch, 'full')((rows, 2), 0.5)\n"
        "    return made * 2 if rows else made\n"
        "PLACE = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "def masked(x, cosines=nn.CosineSimilarity(0)):\n"
        "    return cosines(x, x2=mask(x.shape[0])).sum() + cosines(x, x).sum()\n"
        "print(masked(torch.ones(3, 2, device=PLACE)).item())\n",
        ("x2=mask(x.shape[0]).to(x.device)",),
    ),
    # What meets the weights was computed from the input; a slice of it is known, too.
    "inputs": (
        "import numpy as np\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 2)\n"
        "    def forward(self, x):\n"
        "        low = (x.view(-1, 3).t() * 2).t().contiguous()\n"
        "        return self.two(low - low.mean(1, keepdim=True)) * self.one(x * 2)[:, :2]\n"
        "torch.manual_seed(0)\n"
        "net, loss = Net().to(device), nn.MSELoss()\n"
        "for rows in np.sin(np.arange(24, dtype='float32')).reshape(2, 4, 3):\n"
        "    batch = getattr(torch, 'from_numpy')(rows)\n"
        "    out = net(batch)\n"
        "    print(loss(out, batch[:, :2]).item())\n",
        ("out = net(batch.to(device))\n    print(loss(out, batch[:, :2].to(device)).item())",),
    ),
    # A module that nobody moves is moved where it is made, not each time that it is called.
    "whole": (
        "torch.manual_seed(0)\n"
        "class Plain(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = nn.Linear(2, 1)\n"
        "    def forward(self, x):\n"
        "        return self.body(x)\n"
        "net = eval('Plain')()\n"
        "step = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(2):\n"
        "    loss = net(torch.ones(3, 2, device=device)).mean()\n"
        "    loss.backward()\n"
        "    step.step()\n"
        "    print(loss.item())\n",
        ("net = eval('Plain')().to(device)\n", "loss = net(torch.ones("),
    ),
    # What the module makes is not its input, and the device of its output is known as an item of a list.
    "lists": (
        "PAIR = ['cuda:0', 'cuda:1'] if torch.cuda.is_available() else ['cpu', 'cpu']\n"
        "class Halves(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.down, self.up = nn.Linear(2, 2).to(PAIR[0]), nn.Linear(2, 2).to(PAIR[1])\n"
        "    def forward(self, x):\n"
        "        low = self.down(x)\n"
        "        return self.up(low.to(PAIR[1])) + low * 2\n"
        "torch.manual_seed(0)\n"
        "x, net = torch.ones(3, 2), Halves()\n"
        "print((net(x.to(PAIR[0])) - x.to(PAIR[0])).sum().item())\n",
        ("+ (low * 2).to(PAIR[1])", "(net(x.to(PAIR[0])) - x.to(PAIR[1])).sum()"),
    ),
    # Strays without a name, in lists and dicts, in f-strings, and what is written in place.
    "expressions": (
        "import numpy as np\n"
        "class Mean(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.ones(2))\n"
        "    def start(self):\n"
        "        return torch.full((2,), 3.0)\n"
        "    def forward(self, x, more):\n"
        "        return torch.cat([self.weight * x + self.start(), more['a'] * x])\n"
        "def halve(total, value):\n"
        "    total.mul_(0.5).add_(value)\n"
        "net, total, kept = Mean().to(device), {'sum': torch.ones(4)}, []\n"
        "more = {'a': torch.ones(2)}\n"
        "for _ in range(2):\n"
        "    out = net(torch.ones(2, device=device), more).detach()\n"
        "    halve(total['sum'], out)\n"
        "    kept.append(out.sum())\n"
        "print(total['sum'].tolist(), float(np.mean(kept)))\n"
        'print(f"{kept[0].numpy():.2f}")\n',
        (
            "total.mul_(0.5).add_(",
            "[t.cpu() for t in kept]",
            'print(f"{kept[0].cpu().numpy():.2f}")',
            "torch.full((2,), 3.0, device=self.weight.device)",
        ),
    ),
}
MAIN = """import workers, expressions, inputs, lists, masks, torch, whole
if torch.cuda.is_available():
    import kinds
workers.main()
"""


def test_what_only_the_run_repairs(folder: Path, runs: Runs) -> None:
    for name, (text, _) in PARTS.items():
        (folder / f"{name}.py").write_text(HEAD + text)
    (folder / "train.py").write_text(MAIN)
    run = runs(2)
    reference = run({}, False, cpu=True)
    assert (reference.code, reference.error) == (0, "")
    texts = rounds.Texts()
    done = rounds.fixed(run, findings_in, lambda ran: "" if same_numbers(reference.output, ran.output) else ran.output,
                        lambda line: None, texts)  # fmt: skip
    assert not done.why_not
    made = {Path(path).stem: data.decode() for path, data in texts.changed(done.fixes).items()}
    for name, (_, expected) in PARTS.items():
        for one in expected:
            assert one in made[name], made[name]


WITHOUT_CUDA = """import argparse
import torch
from settings import SETTINGS
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
args = parser.parse_args()
class Net(torch.nn.Module):
    def __init__(self, place="cuda"):
        super().__init__()
        self.place = place
        self.scale = torch.full((2,), 2.0, device=self.place)
        self.body = torch.nn.Linear(2, 1).to(SETTINGS["where"])
    def forward(self, x):
        return self.body(x * self.scale + torch.ones(2, device="cuda"))
torch.manual_seed(0)
net = Net()
x = torch.ones(3, 2)
print(net(x.cuda(non_blocking=True)).sum().item() + torch.ones(2).to(args.device).sum().item())
print(f"{x.cuda(0).sum().item()}")
torch.cuda.set_device(0)
torch.cuda.synchronize()
"""


def test_a_machine_without_cuda(folder: Path, runs: Runs) -> None:
    """Where CUDA is named, it is taken only if it is there: in calls, defaults, options, and in other files."""
    (folder / "settings.py").write_text('SETTINGS = {"where": "cuda"}\n')
    (folder / "train.py").write_text(WITHOUT_CUDA)
    run, texts = runs(0), rounds.Texts()
    reference = run({}, False, cpu=False)

    def same(ran: rounds.Outcome) -> str:
        return "" if same_numbers(reference.output, ran.output) else ran.output

    done = rounds.fixed(run, lambda files: [], same, lambda line: None, texts)
    made = {Path(path).stem: data.decode() for path, data in texts.changed(done.fixes).items()}
    assert (reference.code, done.why_not) == (0, ""), made["train"]
    made = {Path(path).stem: data.decode() for path, data in texts.changed(done.fixes).items()}
    there = "torch.cuda.is_available()"
    assert made["settings"] == f'import torch\n\nSETTINGS = {{"where": "cuda" if {there} else "cpu"}}\n'
    for one in (
        f'default="cuda:0" if {there} else "cpu")',
        f'place=("cuda" if {there} else "cpu")):',
        f'device="cuda" if {there} else "cpu"))',
        f'x.to("cuda" if {there} else "cpu", non_blocking=True)',
        f"{{x.to('cuda:0' if {there} else 'cpu').sum().item()}}",
        f"if {there}:\n    torch.cuda.set_device(0)\n",
        f"if {there}:\n    torch.cuda.synchronize()\n",
    ):
        assert one in made["train"], made["train"]


def test_without_cuda_the_numbers_are_those_of_cuda(folder: Path, repair: Repair) -> None:
    """What runs on both, and prints something else on one of them, is not written."""
    program = "import torch\nx = torch.ones(2).cuda()\nprint(x.sum().item())\n"
    done = repair(program, "--write", "--devices", "0")
    assert done.code == 0, done.err
    text = (folder / "train.py").read_text()
    assert text == program.replace(".cuda()", '.to("cuda" if torch.cuda.is_available() else "cpu")')
    assert done.err.startswith("devfix: on CUDA: it runs and prints 1 number\n")
    other = program + "print(1 if x.is_cuda else 0)\n"
    done = repair(other, "--write", "--devices", "0")
    assert done.code == 1 and (folder / "train.py").read_text() == other
    assert done.err.endswith("nothing is written: it prints other numbers than on CUDA\n")


def test_numbers_that_say_nothing_are_not_compared() -> None:
    """Warnings of the CPU alone, progress, clocks, and what two runs of the reference do not share."""
    warned = "/lib/loader.py:759: UserWarning: no accelerator is found\n  super().__init__(1)\nloss 0.5\n"
    assert comparing.printed(f"{warned}1/9\r9/9\n2026-11-26 12:30:01,5 done in 0:02\n") == ["0.5", "9", "9"]
    assert comparing.printed("2 epochs in 0.131 s, 12.5ms each, 80.1it/s, 3 steps") == ["2", "3"]
    runs = comparing.Reference("loss 0.5 took 0.00131", lambda: "loss 0.5 took 0.00118")
    assert runs.agrees("loss 0.5 took 0.00131") and not runs.left_out
    assert runs.agrees("loss 0.5 took 0.7") and runs.left_out == 1
    assert not runs.agrees("loss 0.6 took 0.00131") and not runs.agrees("loss 0.5")
    assert not comparing.Reference("0.131", lambda: "0.118").agrees("0.7")  # nothing would be left


def test_what_is_not_repaired_is_not_written(folder: Path, repair: Repair) -> None:
    program = HEAD + (
        "assert device.type == 'cuda'\n"
        "exec('print((torch.ones(2, device=device) + torch.ones(2)).sum().item())')\n"
    )
    done = repair(program, "--write")
    assert done.code == 1 and (folder / "train.py").read_text() == program
    assert "devfix: not fixed, and nothing is written: no fix is known for `add` at train.py:5" in done.err
    assert "there are no numbers to compare with" in done.err


def test_files_that_the_program_writes_are_compared(folder: Path, repair: Repair) -> None:
    """The fix is not written since a file has other numbers; a file that is not written is an error."""
    program = HEAD + (
        "x = torch.ones(2, device=device) + torch.ones(2)\n"
        "torch.save({'x': x, 'step': 3}, 'out.pt')\n"
        "with open('sum.txt', 'w') as one, open('out.txt', 'w') as other:\n"
        "    print(x.sum().item(), file=one)\n"
        "    print(1 if x.is_cuda else 0, file=other)\n"
    )
    done = repair(program, "--compare", "out.pt", "--compare", "sum.txt", "--patch", "fix.patch")
    assert done.code == 0, done.err
    assert "on the CPU: it runs and prints and writes 5 numbers" in done.err
    done = repair(program, "--compare", "out.txt", "--write")
    assert done.code == 1 and (folder / "train.py").read_text() == program
    assert done.err.endswith("nothing is written: it prints or writes other numbers than on the CPU\n")
    done = repair("print(1)\n", "--compare", "none.txt")
    said = "devfix: none.txt: the program does not write this file"
    assert (done.code, done.err.splitlines()[-1]) == (2, said)
    assert repair(program, "--compare", "../out.pt").code == 2


def test_what_numpy_writes_is_compared(tmp_path: Path) -> None:
    """By what the file holds now, not by its name; as torch tells tensors."""
    path = str(tmp_path / "out.npz")
    for factor in (1.0, 2.0):
        np.savez(path, x=np.array([[1.0, -3.0]]) * factor, none=np.zeros((0, 2)), z=np.array(3 + 4j))
        assert outputs.told(path, "out.npz") == f"1 2 {2 * factor} {3 * factor}\n0 2\n5.0 5.0\n"
    assert outputs.told(str(tmp_path / "none.npz"), "none.npz") == ""


NUMBERED = """import argparse
import torch
from torch import nn

GPU = 1
parser = argparse.ArgumentParser()
parser.add_argument("--second", type=int, default=2)
args = parser.parse_args()


class Trainer:
    def __init__(self, width, rank):
        self.device = torch.device("cuda", rank)
        self.net = nn.DataParallel(nn.Linear(width, 2).cuda(rank), device_ids=[0, 1])


def setup(gpu):
    torch.cuda.set_device(gpu)
    print(torch.cuda.get_device_name(1)[:0], end="")


if torch.cuda.is_available():
    setup(GPU)
    torch.set_default_device("cuda:1")
    trainer = Trainer(4, 3)
    where = f"cuda:{args.second}"
    with torch.cuda.device(args.second):
        x = torch.ones(3, 4, device=where)
    print(trainer.net(x.to(trainer.device)).shape[0], torch.ones(2).sum().item())
else:
    print(3, 2.0)
"""


def test_devices_that_are_not_there(folder: Path, runs: Runs) -> None:
    """The number of the device is changed where it is written, and no other number."""
    (folder / "train.py").write_text(NUMBERED)
    run, texts = runs(), rounds.Texts()
    reference = run({}, False, cpu=True)

    def same(ran: rounds.Outcome) -> str:
        return "" if same_numbers(reference.output, ran.output) else ran.output

    done = rounds.fixed(run, lambda files: [], same, lambda line: None, texts)
    (made,) = (data.decode() for data in texts.changed(done.fixes).values())
    assert (reference.code, done.why_not) == (0, ""), made
    changed = {line for line in made.splitlines() if line not in NUMBERED.splitlines()}
    assert changed == {
        "GPU = 0",
        'parser.add_argument("--second", type=int, default=0)',
        "        self.net = nn.DataParallel(nn.Linear(width, 2).cuda(rank), device_ids=[0])",
        '    print(torch.cuda.get_device_name(0)[:0], end="")',
        '    torch.set_default_device("cuda:0")',
        "    trainer = Trainer(4, 0)",
    }


RECIPE = Path(__file__).parents[2] / "examples" / "ctc_recipe"


def test_a_recipe(folder: Path, devfix: Callable[..., Ran], lent: object) -> None:
    """What the analysis proves is fixed in the YAML file; else the script is, and the YAML file is named."""
    shutil.copytree(RECIPE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    script, recipe = folder / "train.py", folder / "hyperparams.yaml"
    listed = recipe.read_text().replace("number_of_epochs: 6", "number_of_epochs: 1")
    recipe.write_text(listed)
    command = ["--", "python", "train.py", "hyperparams.yaml", "--device=cuda:0"]
    done = devfix("repair", *command)
    assert done.code == 0, done.err
    assert "devfix: on the CPU, with cpu instead of --device=cuda:0: it runs and prints 4 numbers" in done.err
    assert "+    ctc_lin: !ref <ctc_lin>\n" in done.text
    assert "+        logits = self.modules.ctc_lin(x)\n" in done.text
    script.write_text(
        script.read_text().replace("self.hparams.asr_model.parameters()", "self.modules.parameters()")
    )
    done = devfix("repair", "--write", *command)
    assert done.code == 0, done.err
    assert "self.hparams.ctc_lin.to(self.device)(x)" in script.read_text() and recipe.read_text() == listed
    told = "devfix: hyperparams.yaml:27: not made, since it is not certain: list `ctc_lin` under `modules:`"
    assert told in done.err


def test_workers_below_a_long_path(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devfix: Callable[..., Ran]
) -> None:
    """The sockets of workers want a short path: the folder for temporary files of the copy has one."""
    long = tmp_path / ("n" * 90)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    program = HEAD + (
        "from torch.utils.data import DataLoader\n"
        "import tempfile\n"
        "if __name__ == '__main__':\n"
        "    with tempfile.TemporaryFile() as file:\n"
        "        file.write(b'1')\n"
        "    for x in DataLoader(torch.ones(4, 2), batch_size=2, num_workers=1):\n"
        "        print((x + torch.ones(2, device=device)).sum().item())\n"
    )
    (folder / "train.py").write_text(program)
    done = devfix("repair", "--write", "--seconds", "60", "--", "python", "train.py")
    assert done.code == 0, done.err
    assert "x = x.to(device)" in (folder / "train.py").read_text() and not os.listdir(long)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_optimizer", "ema_checkpoint", "weight_averaging"])
def test_programs_of_the_table(name: str, folder: Path, devfix: Callable[..., Ran]) -> None:
    """A part of what `benchmarks/repair.py` measures."""
    where = Path(__file__).parents[2] / "benchmarks" / "repair_programs" / name
    shutil.copytree(where, folder, dirs_exist_ok=True)
    main = folder / ("main.py" if (folder / "main.py").exists() else "train.py")
    words = ["--", "python", main.name]
    done = devfix("repair", "--write", *words)
    assert done.code == 0, done.err
    plain = subprocess.run(
        [sys.executable, str(where / main.name)], capture_output=True, text=True, timeout=300
    )
    strict = devfix("run", main.name)
    assert (strict.code, strict.err) == (0, "")
    assert same_numbers(plain.stdout, strict.text) and plain.stdout


def test_a_notebook(folder: Path, devfix: Callable[..., Ran], lent: object) -> None:
    """Its cells run as one script; the patch changes lines of them and nothing else."""
    lines = HEAD.splitlines(keepends=True)
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in (["%matplotlib inline\n", *lines], ["x = torch.ones(2)\n", "y = torch.ones(2, device=device)\n"],
                       ["print((x + y).sum().item())"])
    ]  # fmt: skip
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (folder / "train.ipynb").write_text(notebook)
    outside = folder.parent / "outside.txt"
    outside.write_text("of somebody else")
    (folder / "train.ipynb.py").symlink_to(outside)
    done = devfix("repair", "--write", "--", "python", "train.ipynb")
    assert done.code == 0, done.err
    assert outside.read_text() == "of somebody else"
    (folder / "train.ipynb.py").unlink()
    fixed = notebook.replace("torch.ones(2)\\n", "torch.ones(2, device=device)\\n")
    assert (folder / "train.ipynb").read_text() == fixed != notebook
    assert sorted(os.listdir(folder)) == ["train.ipynb"]


def test_nothing_to_do_and_nothing_to_run(folder: Path, repair: Repair, devfix: Callable[..., Ran]) -> None:
    done = repair("import torch\nprint(torch.ones(2).sum().item())\n")
    assert (done.code, done.text) == (0, "")
    assert done.err.endswith("devfix: round 1: no device errors left\ndevfix: there is nothing to fix\n")
    done = devfix("repair", "--", "no-such-command")
    assert (done.code, done.err) == (2, "devfix: there is no command 'no-such-command'\n")


def test_a_fix_without_which_no_error_comes_back_is_left_out(folder: Path, runs: Runs) -> None:
    """A finding whose fix does not help: the next round takes the fix from the run, which alone is kept."""
    program = folder / "train.py"
    text = HEAD + "stray = torch.ones(2)\nx = torch.ones(2, device=device) + stray\nprint(x.sum().item())\n"
    program.write_text(text)
    at = Place(4, 9, 4, 22)
    useless = PlacedFinding(
        "place-factory",
        "a finding that is wrong",
        at,
        fix=PlacedFix("write it otherwise", Safety.UNSAFE, (PlacedEdit(at, "(torch.ones(2))"),)),
    )
    run, going = runs(), []

    def noted(changed: Mapping[str, bytes], keep_going: bool) -> rounds.Outcome:
        going.append(keep_going)
        return run(changed, keep_going)

    told: list[str] = []
    path = os.path.realpath(program)
    done = rounds.repair(noted, lambda files: [(path, useless)], lambda outcome: "", told.append)
    assert [(one.title, one.codemod) for one in done.fixes] == [("move `stray` to `device`", "")]
    assert "left out, since no error comes back: write it otherwise" in told
    assert going == [True, False, True, False, False, False]
    texts = rounds.Texts({path: Document.read(path)})
    (made,) = texts.changed(done.fixes).values()
    assert b"(torch.ones(2))" not in made and b"+ stray.to(device)" in made


def test_a_fix_of_two_files(folder: Path, runs: Runs) -> None:
    """Of a finding that changes a function and its caller: made and left out as one."""
    (folder / "made.py").write_text("import torch\ndef table():\n    return torch.ones(2)\n")
    text = (
        HEAD + "from made import table\nx = torch.ones(2, device=device) + table()\nprint(x.sum().item())\n"
    )
    (folder / "train.py").write_text(text)
    caller, made = os.path.realpath(folder / "train.py"), os.path.realpath(folder / "made.py")
    edits = (
        PlacedEdit(Place(5, 42, 5, 42), "device"),
        PlacedEdit(Place(2, 11, 2, 11), "device", made),
        PlacedEdit(Place(3, 24, 3, 24), ", device=device", made),
    )
    fix = PlacedFix("give `table` the device", Safety.UNSAFE, edits)
    finding = PlacedFinding("place-factory", "a finding of two files", Place(5, 36, 5, 43), fix=fix)
    done = rounds.repair(runs(), lambda files: [(caller, finding)], lambda outcome: "", lambda line: None)
    assert (done.why_not, [one.title for one in done.fixes]) == ("", ["give `table` the device"])
    texts = rounds.Texts({path: Document.read(path) for path in (caller, made)})
    changed = texts.changed(done.fixes)
    assert b"+ table(device)" in changed[caller] and b"ones(2, device=device)" in changed[made]


def test_a_fix_that_makes_it_worse_is_taken_back(folder: Path, runs: Runs) -> None:
    """The first fix of the round changes what is printed, though no device error is left: the next one is taken."""
    text = HEAD + "stray = torch.ones(2)\nx = torch.ones(2, device=device) + stray\nprint(x.sum().item())\n"
    (folder / "train.py").write_text(text)
    at = Place(4, 9, 4, 22)
    edit = PlacedEdit(at, "torch.zeros(2, device=device)")
    fix = PlacedFix("make it another number", Safety.UNSAFE, (edit,))
    wrong = PlacedFinding("place-factory", "a finding that is wrong", at, fix=fix)

    def same(outcome: rounds.Outcome) -> str:
        return "" if same_numbers("4.0", outcome.output) else "other numbers"

    told: list[str] = []
    path = os.path.realpath(folder / "train.py")
    done = rounds.repair(runs(), lambda files: [(path, wrong)], same, told.append)
    assert (done.why_not, [one.title for one in done.fixes]) == (
        "",
        ["make the result of `torch.ones` on `device`"],
    )
    assert told[1] == "the fixes of round 1 are not all right: other numbers"
