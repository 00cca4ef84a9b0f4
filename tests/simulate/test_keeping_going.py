"""`devfix run --keep-going`: every device error of a run, the past of its strays, and what is done about them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from ran import Ran as AnyRan

SEVEN = Path(__file__).with_name("seven_strays.py").read_text()


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    errors: list[dict[str, Any]]
    folder: Path

    @property
    def operations(self) -> list[tuple[str, int]]:
        """Operation and line of the program, as they came."""
        return [(one["operation"], one["passed"][0]["at"]["line"]) for one in self.errors]

    def of(self, name: str) -> Ran:
        """What is told of one file."""
        errors = [one for one in self.errors if os.path.basename(one["passed"][0]["at"]["path"]) == name]
        return replace(self, errors=errors)

    def strays(self, number: int) -> list[tuple[str, int]]:
        """Name and line of making of the strays of an error."""
        operands = self.errors[number]["operands"]
        return [(one["name"], one["made"]["line"]) for one in operands if one["stray"]]

    @property
    def remedies(self) -> list[str]:
        """The codemods and the fixes from the run that are told, error by error."""
        return [
            *(finding["codemod"] for one in self.errors for finding in one["findings"]),
            *(fix["title"] for one in self.errors for fix in one["fixes"]),
        ]


def told(code: int, output: str, err: str, folder: Path) -> Ran:
    """What a run has told as JSON behind the program's own output."""
    out, brace, report = output.partition('{\n  "exit_code"')
    assert brace, output + err
    return Ran(code, out, err, json.loads(brace + report)["errors"], folder)


@pytest.fixture
def keep_going(programs: Path, simulated: Callable[..., AnyRan]) -> Callable[..., Ran]:
    def run(program: str, *options: str) -> Ran:
        done = simulated(program, options=["--keep-going", "--format", "json", *options])
        return told(done.code, done.text, done.err, programs)

    return run


HEAD = """import torch
from torch import nn
import numpy as np
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
"""

# Title: the program below HEAD (its first line is 5); then operation and line of each planted error, and what is
# told about them, where anything is.
PROGRAMS: dict[str, tuple[str, list[tuple[str, int]], list[str]]] = {
    "a mask, and a number for numpy": (
        "x = torch.ones(3, device=device)\n"
        "mask = torch.tensor([True, False, True])\n"
        "y = torch.where(mask, x, x * 2)\n"
        "print(y.numpy().sum())\n",
        [("where", 7), ("numpy", 8)],
        ["place-factory", "numpy-of-device"],
    ),
    "nested tensors, and an operator of the program's own": (
        "parts = [torch.ones(2, 3), torch.ones(1, 3)]\n"
        "nested = torch.nested.nested_tensor(parts, device=device)\n"
        "assert (nested * torch.nested.nested_tensor(parts)).is_cuda\n"
        "jagged = torch.nested.nested_tensor(parts, device=device, layout=torch.jagged)\n"
        "hidden = nn.Linear(3, 2)(nested), nn.Linear(3, 2)(jagged)\n"
        "@torch.library.custom_op('planted::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * torch.full((3,), 2.0)\n"
        "print(twice(nested.values().view(3, 3)).sum().item())\n",
        [("mul", 7), ("linear", 9), ("mul", 12)],
        [],
    ),
    "a constant in a module of another function": (
        "class Scale(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.build()\n"
        "    def build(self):\n"
        "        self.factor = torch.full((2,), 3.0)\n"
        "    def forward(self, x):\n"
        "        return x * self.factor\n"
        "net = Scale().to(device)\n"
        "print(net(torch.ones(2, device=device)).sum().item())\n",
        [("mul", 12)],
        [],
    ),
    "in place: what is written to stays where it is": (
        "total = torch.zeros(2)\n"
        "for _ in range(3):\n"
        "    total += torch.ones(2, device=device)\n"
        "assert total.device.type == 'cpu' and total.tolist() == [3, 3], total\n",
        [("add_", 7)],
        [],
    ),
    "a hidden state and the lengths of a packed sequence": (
        "from torch.nn.utils.rnn import pack_padded_sequence\n"
        "rnn = nn.LSTM(2, 3, batch_first=True).to(device)\n"
        "lengths = torch.tensor([3, 2], device=device)\n"
        "packed = pack_padded_sequence(torch.ones(2, 3, 2, device=device), lengths, batch_first=True)\n"
        "out, _ = rnn(packed, (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)))\n"
        "print(out.data.shape)\n",
        [("_pack_padded_sequence", 8), ("lstm", 9)],
        ["lengths-on-cpu"],
    ),
    "autocast and generators": (
        "with torch.autocast(device_type=torch.device('cuda', 0)):\n"
        "    pass\n"
        "cpu = torch.Generator().manual_seed(0)\n"
        "a = torch.randn(2, generator=cpu, device=device)\n"
        "b = torch.randperm(4, generator=torch.Generator(device))\n"
        "assert a.is_cuda and b.is_cpu\n",
        [("autocast", 5), ("randn", 8), ("randperm", 9)],
        [],
    ),
    "the state of an optimizer": (
        "net = nn.Linear(2, 2)\n"
        "opt = torch.optim.AdamW(net.parameters(), foreach=True)\n"
        "net(torch.ones(1, 2)).sum().backward()\n"
        "opt.step()\n"
        "state = opt.state_dict()\n"
        "for one in opt.state.values():\n"
        "    one['exp_avg'] = one['exp_avg'].cpu()\n"
        "net.to(device)\n"
        "opt.zero_grad()\n"
        "net(torch.ones(1, 2, device=device)).sum().backward()\n"
        "before = opt.state[net.weight]['exp_avg'].clone()\n"
        "opt.step()\n"
        "assert not torch.equal(before.cpu(), opt.state[net.weight]['exp_avg'].cpu())\n",
        [("_foreach_lerp_", 16), ("_foreach_addcmul_", 16), ("_foreach_addcdiv_", 16)],
        [],
    ),
    "a backward of the program's own": (
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return g * torch.full(g.shape, 2.0)\n"
        "x = torch.ones(2, device=device, requires_grad=True)\n"
        "Twice.apply(x).sum().backward()\n"
        "assert x.grad.tolist() == [2, 2] and x.grad.is_cuda\n",
        [("mul", 11)],
        [],
    ),
    "gradients flow back to a stray": (
        "w = torch.ones(2, requires_grad=True)\n"
        "loss = (w * torch.ones(2, device=device)).sum()\n"
        "loss.backward()\n"
        "w.grad = torch.full((2,), 5.0, device=device)\n"
        "assert w.grad.tolist() == [5, 5] and w.grad.is_cpu\n",
        [("mul", 6), ("grad", 8)],
        [],
    ),
    "workers of a DataLoader": (
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Rows(Dataset):\n"
        "    def __init__(self):\n"
        "        self.mean = torch.ones(2, device=device)\n"
        "    def __len__(self):\n"
        "        return 2\n"
        "    def __getitem__(self, index):\n"
        "        row = torch.ones(2).to(device)\n"
        "        return row - self.mean\n"
        "for batch in DataLoader(Rows(), num_workers=1):\n"
        "    assert batch.tolist() == [[0, 0]] and batch.is_cpu\n",
        [("to", 12), ("sub", 13)],
        [],
    ),
    "collectives of NCCL": (
        "import os\n"
        "import torch.distributed as dist\n"
        "os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1')\n"
        "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\n"
        "loss, there = torch.ones(2), torch.ones(2, device=device)\n"
        "dist.all_reduce(there)\n"
        "work = dist.all_reduce(loss, async_op=True)\n"
        "work.wait()\n"
        "parts = [torch.zeros(2)]\n"
        "dist.all_gather(parts, loss * 3)\n"
        "assert parts[0].is_cpu and parts[0].tolist() == [3, 3] and loss.tolist() == [1, 1]\n"
        "dist.destroy_process_group()\n",
        [("all_reduce", 11), ("all_gather", 14)],
        [],
    ),
    "threads": (
        "import threading\n"
        "def work():\n"
        "    print((torch.ones(2) @ torch.ones(2, device=device)).item())\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n",
        [("matmul", 7)],
        [],
    ),
    "two devices of a program for one, attention, and a list of layers": (
        "layers = [nn.Linear(2, 2), nn.Linear(2, 2).to(device)]\n"
        "x = torch.ones(1, 2, device=device)\n"
        "for layer in layers:\n"
        "    x = layer(x)\n"
        "attention = nn.MultiheadAttention(2, 1).to(device)\n"
        "y = torch.ones(3, 1, 2)\n"
        "attention(y, y, y)\n"
        "torch.zeros(1, device='cuda:1')\n",
        [("linear", 8), ("multi_head_attention_forward", 11), ("zeros", 12)],
        [],
    ),
    "through a generator of torch": (
        "@torch.no_grad()\n"
        "def rows():\n"
        "    yield torch.ones(2)\n"
        "for row in rows():\n"
        "    row * torch.ones(2, device=device)\n",
        [("mul", 9)],
        [],
    ),
    "what is caught by the program is no error of devices": (
        "try:\n"
        "    torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device)\n"
        "except RuntimeError as error:\n"
        "    assert 'shapes cannot be multiplied' in str(error)\n"
        "print(torch.ones(2, device=device) * torch.tensor(2.0))\n",
        [],
        [],
    ),
}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All programs as modules of one, for torch takes seconds to be imported."""
    folder = tmp_path_factory.mktemp("programs")
    for number, (text, _, _) in enumerate(PROGRAMS.values()):
        (folder / f"part{number}.py").write_text(HEAD + text)
    program = HEAD + (
        "import importlib, traceback\n"
        "torch.save({'w': torch.ones(2, device=device)}, 'w.pt')\n"
        f"for number in range({len(PROGRAMS)}):\n"
        "    try:\n"
        "        importlib.import_module(f'part{number}')\n"
        "    except Exception:\n"
        "        traceback.print_exc()\n"
    )
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "devfix", "run", "--keep-going", "--format", "json", "program.py"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, timeout=300)
    if "build for GPUs" in done.stderr or "nothing was simulated" in done.stderr:
        pytest.skip(done.stderr)
    return told(done.returncode, done.stdout, done.stderr, folder)


@pytest.mark.parametrize("title", PROGRAMS)
def test_planted_errors_are_all_seen(together: Ran, title: str) -> None:
    _, expected, told = PROGRAMS[title]
    file = f"part{list(PROGRAMS).index(title)}.py"
    assert file not in together.err.partition("devfix:")[0], together.err  # it has no traceback
    own = together.of(file)
    assert own.operations == expected
    for remedy in told:
        assert remedy in own.remedies


def test_the_user_s_own_line_is_told_through_a_generator_of_torch(together: Ran) -> None:
    own = together.of(f"part{list(PROGRAMS).index('through a generator of torch')}.py")
    assert own.strays(0) == [("", 7)]


def line(program: str, text: str) -> int:
    return next(number for number, one in enumerate(program.splitlines(), 1) if text in one)


def test_the_strays_of_a_program_and_where_they_come_from(keep_going: Callable[..., Ran]) -> None:
    ran = keep_going(SEVEN)
    at = {
        text: line(SEVEN, text)
        for text in ("self.emb(ids)", "self.heads[which]", "self.crit(self", "np.mean")
    }
    assert ran.operations == [
        ("embedding", at["self.emb(ids)"]),
        ("mul", at["self.emb(ids)"]),
        ("add", at["self.emb(ids)"]),
        ("linear", at["self.heads[which]"]),
        ("cross_entropy", at["self.crit(self"]),
        ("numpy", at["np.mean"]),
    ]
    assert [one["count"] for one in ran.errors] == [3] * 6
    batch = [line(SEVEN, '"ids": torch.randint'), line(SEVEN, '"y": torch.randint')]
    heads = line(SEVEN, "self.heads = ")
    assert [ran.strays(0), ran.strays(4)[:1]] == [[("", one)] for one in batch]
    assert ran.strays(1) == [("scale", line(SEVEN, "self.scale ="))]
    assert ran.strays(2) == [("pos", line(SEVEN, "return p / t"))]  # a view of what a method has made
    assert ran.errors[2]["operands"][0]["stored"]["line"] == line(SEVEN, "self.pos =")
    assert ran.strays(3) == [("heads['a'].weight", heads), ("heads['a'].bias", heads)]
    assert ("self.crit.weight", line(SEVEN, "self.crit = ")) in ran.strays(4)
    parameter = ran.errors[0]["operands"][1]
    assert (parameter["name"], parameter["moved"]["line"]) == ("self.net.emb.weight", line(SEVEN, "Net().to"))
    assert ran.remedies == [
        "move-inputs",
        "register-buffer",
        "register-buffer",
        "register-modules",
        "module-never-moved",
        "numpy-of-device",
        'move `b["y"]` to `self.dev`',
    ]
    assert float(ran.out) > 0 and ran.code == 1


def test_the_report_in_words(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    program = (
        "import sys\nx = torch.ones(2, device=device)\nprint((x + torch.ones(2)).tolist())\nsys.exit(3)\n"
    )
    (tmp_path / "package" / "__main__.py").write_text(HEAD + program)
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "run", "--keep-going", "-m", "package"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "build for GPUs" in done.stderr or "nothing was simulated" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout) == (1, "[2.0, 2.0]\n")
    first, error, stray, beside, *rest = done.stderr.splitlines()
    assert first == (
        "devfix: 1 distinct device error (1 in all), of 1 stray; the program went on and ended with exit code 3"
    )
    assert error.startswith(
        "  package/__main__.py:7: add: RuntimeError: Expected all tensors to be on the same"
    )
    assert stray == "    stray: a tensor of shape [2] on cpu, made at package/__main__.py:7"
    assert beside == "    with: a tensor of shape [2] on cuda:0, made at package/__main__.py:6"
    assert rest[0].startswith("    place-factory: package/__main__.py:7: ") and rest[1].startswith(
        "    fix ("
    )


def test_a_machine_without_cuda(together: Ran, keep_going: Callable[..., Ran], programs: Path) -> None:
    shutil.copy(together.folder / "w.pt", programs)
    program = (
        "weights = torch.load('w.pt')\n"
        "net = nn.Linear(2, 1).cuda()\n"
        "x = torch.ones(1, 2, device='cuda').to('cuda:0')\n"
        "print(net(x).shape, weights['w'].device, torch.cuda.is_available())\n"
    )
    ran = keep_going(HEAD + program, "--devices", "0")
    assert ran.operations == [("load", 5), ("cuda", 6), ("ones", 7), ("to", 7)]
    assert ran.out == "torch.Size([1, 1]) cpu False\n" and ran.remedies[0] == "map-location"
    assert (ran.code, [one["count"] for one in ran.errors]) == (1, [1, 2, 1, 1])


NOTES = """import torch
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
x = torch.ones(3, device=device)
for _ in range(3):
    if x.device != device:
        x = x.to(device)
    if x.device == device or 'cuda' == x.device:
        print('never')
same = [x.device == x[0].device, x.device.type == 'cuda', x.device != torch.device('cpu')]
assert all(same) and x.device not in [device]
net = torch.nn.Linear(2, 1).to(device)
table = torch.ones(3, 2)
once = table.to(device)
for step in range(12):
    loss = net(table.to(device) + torch.rand(3, 2).to(device)).mean()
    total = loss.item()
    if step == 0:
        loss.detach().cpu().numpy()
raise SystemExit(5)
"""


def test_copies_that_repeat_and_comparisons_that_never_hold(simulated: Callable[..., AnyRan]) -> None:
    """A tensor that is moved each time, and reads that wait for the device; what is moved once, or new, is no note.

    Comparisons with a text, and with a device without an index; not what is right, nor what only moves a value again.
    A program without errors has its own exit code.
    """
    options = ["--keep-going", "--copies"]
    done = simulated(NOTES, options=options)
    unequal = "one has an index, so they never are equal"
    assert (done.code, done.text) == (5, "") and done.err.splitlines() == [
        "devfix: note: program.py:15: `to` moves the same tensor of shape [3, 2] to cuda:0, 12 times; once would do",
        "devfix: note: program.py:16: `item` copies a number from cuda:0 and waits for it, 12 times",
        f"devfix: note: program.py:7: cuda:0 is compared with cuda, 3 times: {unequal}",
        "devfix: note: program.py:7: cuda:0 is compared with 'cuda', 3 times: a device never equals a text",
        f"devfix: note: program.py:10: cuda is compared with cuda:0: {unequal}",
        "devfix: no device errors",
    ]
    found = json.loads(simulated(NOTES, options=[*options, "--format", "json"]).out)
    assert [(one["operation"], one["at"]["line"], one["count"]) for one in found["copies"]] == [
        ("to", 15, 12),
        ("item", 16, 12),
    ]
    assert [(one["at"]["line"], one["other"], one["count"]) for one in found["comparisons"]] == [
        (7, "cuda", 3),
        (7, "'cuda'", 3),
        (10, "cuda:0", 1),
    ]


def test_two_devices(keep_going: Callable[..., Ran]) -> None:
    program = (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first, self.second = nn.Linear(2, 2).to('cuda:0'), nn.Linear(2, 2).to('cuda:1')\n"
        "    def forward(self, x):\n"
        "        return self.second(self.first(x))\n"
        "print(Net()(torch.ones(1, 2, device='cuda:0')).device)\n"
    )
    ran = keep_going(HEAD + program, "--devices", "2")
    assert ran.operations == [("linear", 10)] and ran.out == "cuda:1\n"
    assert ran.errors[0]["operands"][0]["device"] == "cuda:0"  # the parameters are at home


def test_nothing_is_kept_alive_and_histories_are_bounded(keep_going: Callable[..., Ran]) -> None:
    """A history has one link of each kind, however long a tensor has been passed around."""
    program = (
        "import gc, weakref\n"
        "from devfix.simulate.keeping_going import histories\n"
        "x = torch.ones(2, device=device)\n"
        "stray = torch.ones(2)\n"
        "for _ in range(200):\n"
        "    stray = stray.view(2).to(torch.float64).to(torch.float32)\n"
        "    x + stray\n"
        "alive = [weakref.ref(x), weakref.ref(stray)]\n"
        "before = len(histories._known)\n"
        "del x, stray\n"
        "gc.collect()\n"
        "print(before < 20, [one() for one in alive], len(histories._known) <= before - 2)\n"
    )
    ran = keep_going(HEAD + program)
    assert ran.out == "True [None, None] True\n"
    assert len(ran.errors) == 1 and ran.errors[0]["count"] == 200
    stray = ran.errors[0]["operands"][0]
    assert (stray["made"]["line"], stray["moved"]["line"]) == (8, 10)


def test_options_that_need_keep_going(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--devices", "0"), ("--format", "json"), ("--html", "errors.html"), ("--copies",)):
        assert main(["run", *option, "none.py"]) == 2
        said = "devfix: --copies, --format, --html and --devices 0 are for --keep-going\n"
        assert capsys.readouterr() == ("", said)
