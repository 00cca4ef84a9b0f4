"""What is known of the functions, classes and constants of other files, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from repositories import HEADS, NET, found, report, training, write

DEVICE = """
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
MAKE = """
from net import Net
from config import DEVICE


def on_device():
    return Net().to(DEVICE)
"""
DATA = """
from torch.utils.data import DataLoader


def batches(data):
    return DataLoader(data)
"""
RUNNER = """
class Runner:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.device = device

    def step(self, x):
        return self.model(x.to(self.device))
"""
GROW = "\n    def grow(self):\n        self.more = nn.Linear(2, 2)\n"


def scripts(body: str, *imports: str) -> str:
    """A script; `body` begins on line 10."""
    head = ["import torch", "from torch import nn", "from torch.utils.data import DataLoader", *imports]
    return "\n".join([*head, *[""] * (9 - len(head)), body.strip("\n"), ""])


# Name: files beside the script, its imports, its body, and the lines that are wrong, with the codemod.
CASES: dict[str, tuple[dict[str, str], list[str], str, list[str]]] = {
    "a head that is ready": (
        {"heads.py": HEADS},
        ["from heads import ready_head"],
        """
model = nn.Linear(2, 2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
ready_head(model, device)
print(model(torch.ones(1, 2, device=device)))
""",
        [],
    ),
    "a function that moves what it is given": (
        {"moves.py": "def place(model, device):\n    model.to(device)\n", "heads.py": HEADS},
        ["from moves import place", "from heads import attach_head"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2)
place(model, device)
attach_head(model)
place(model, device)
print(model(torch.ones(1, 2, device=device)))
""",
        [],
    ),
    "a model that its maker moves": (
        {"config.py": DEVICE, "net.py": NET,
         "make.py": MAKE},
        ["from make import on_device"],
        """
model = on_device()
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        ["11 move-inputs"],
    ),
    "a model that its maker leaves": (
        {"net.py": NET, "make.py": "from net import Net\n\n\ndef make():\n    return Net()\n"},
        ["from make import make"],
        """
model = make()
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        [],
    ),
    "a loader of another file": (
        {"data.py": DATA},
        ["from data import batches"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
for x in batches([torch.ones(2)]):
    model(x)
""",
        ["12 move-inputs"],
    ),
    "a loader whose batches are moved": (
        {"data.py": "from torch.utils.data import DataLoader\n\n\ndef batches(data, device):\n"
                    "    for x in DataLoader(data):\n        yield x.to(device)\n"},
        ["from data import batches"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2).to(device)
for x in batches([torch.ones(2)], device):
    model(x)
""",
        [],
    ),
    "a class of modules": (
        {"net.py": NET, "heads.py": HEADS, "config.py": DEVICE},
        ["from net import Net", "from heads import attach_head", "from config import DEVICE"],
        """
model = Net()
model.to(DEVICE)
attach_head(model)
print(model(torch.ones(1, 4, device=DEVICE)))
""",
        ["12 reorder-to"],
    ),
    "a method that attaches": (
        {"net.py": NET + GROW, "config.py": DEVICE},
        ["from net import Net", "from config import DEVICE"],
        """
model = Net()
model.to(DEVICE)
model.grow()
print(model(torch.ones(1, 4, device=DEVICE)))
""",
        ["12 reorder-to"],
    ),
    "a method of a parent in a third file": (
        {"base.py": NET.replace("Net", "Base") + GROW,
         "net.py": "from base import Base\n\n\nclass Net(Base):\n    pass\n", "config.py": DEVICE},
        ["from net import Net", "from config import DEVICE"],
        """
model = Net()
model.to(DEVICE)
model.grow()
print(model(torch.ones(1, 4, device=DEVICE)))
""",
        ["12 reorder-to"],
    ),
    "a parent in another file": (
        {"base.py": NET.replace("Net", "Base"), "heads.py": HEADS},
        ["from base import Base", "from heads import attach_head"],
        """
class Net(Base):
    pass


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net()
model.to(device)
attach_head(model)
print(model(torch.ones(1, 4, device=device)))
""",
        ["17 reorder-to"],
    ),
    "a buffer that is copied into": (
        {"net.py": NET.replace("nn.Linear(4, 2)", "nn.Linear(4, 2)\n        self.register_buffer('mean', None)")},
        ["from net import Net"],
        """
model = Net().to("cuda")
model.mean.copy_(torch.ones(4))
""",
        [],
    ),
    "a class that places itself": (
        {"net.py": NET.replace("nn.Linear(4, 2)", "nn.Linear(4, 2).to('cuda')")},
        ["from net import Net"],
        """
model = Net()
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        [],
    ),
    "a device of another module, by its path": (
        {"config.py": DEVICE},
        ["import config"],
        """
model = nn.Linear(2, 2).to(config.DEVICE)
for x in DataLoader([torch.ones(2)]):
    model(x)
""",
        ["11 move-inputs"],
    ),
    "a device that is the CPU": (
        {"config.py": "import torch\n\nDEVICE = torch.device('cpu')\n"},
        ["from config import DEVICE"],
        """
model = nn.Linear(2, 2).to(DEVICE)
for x in DataLoader([torch.ones(2)]):
    model(x)
""",
        [],
    ),
    "a function that gives a device": (
        {"config.py": "import torch\n\n\ndef pick():\n    return torch.device('cuda')\n"},
        ["from config import pick"],
        """
where = pick()
model = nn.Linear(2, 2).to(where)
for x in DataLoader([torch.ones(2)]):
    model(x)
""",
        ["12 move-inputs"],
    ),
    "a device-less world elsewhere": (
        {"net.py": "import torch\n\ntorch.set_default_device('cuda')\n" + NET, "heads.py": HEADS},
        ["from net import Net", "from heads import attach_head"],
        """
torch.set_default_device("cuda")
model = Net()
model.to("cuda")
attach_head(model)
print(model(torch.ones(1, 4)))
""",
        [],
    ),
    "a forward that moves its inputs": (
        {"net.py": NET.replace("return self.fc(x)", "x = x.to(self.fc.weight.device)\n        return self.fc(x)")},
        ["from net import Net"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        [],
    ),
    "a forward of this file that moves its inputs": (
        {},
        [],
        """
class Net(nn.Module):
    def forward(self, batch):
        batch = {key: value.to("cuda") for key, value in batch.items()}
        return batch["x"]


model = Net().to("cuda")
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        [],
    ),
    "a forward that moves a mask to its input": (
        {"net.py": NET.replace("return self.fc(x)", "return self.fc(x) * self.mask.to(x.device)")},
        ["from net import Net"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
for x in DataLoader([torch.ones(4)]):
    model(x)
""",
        ["12 move-inputs"],
    ),
    "a model of another file's body": (
        {"models.py": "from torch import nn\n\nnet = nn.Linear(2, 2).to('cuda')\nleft = nn.Linear(2, 2)\n"},
        ["from models import net, left"],
        """
for x in DataLoader([torch.ones(2)]):  # device
    left(x)
    net(x)
""",
        ["12 move-inputs"],
    ),
    "an object that runs a model": (
        {"runner.py": RUNNER},
        ["from runner import Runner"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2)
runner = Runner(model, device)
for x in DataLoader([torch.ones(2)]):
    runner.step(x)
""",
        [],
    ),
    "an object that moves a model which is run afterwards": (
        {"runner.py": "class Runner:\n    def __init__(self, model, device):\n        model.to(device)\n"},
        ["from runner import Runner"],
        """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(2, 2)
runner = Runner(model, device)
for x in DataLoader([torch.ones(2)]):
    model(x)
""",
        ["13 move-inputs"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_facts(name: str, tmp_path: Path) -> None:
    files, imports, body, wrong = CASES[name]
    write(tmp_path, {"setup.py": "", **files, "train.py": scripts(body, *imports)})
    assert found(tmp_path, "train.py") == [f"train.py:{line}" for line in wrong]


def test_what_happens_at_two_removes_is_known_and_at_three(tmp_path: Path) -> None:
    passing = "from {0} import attach_head as inner\n\n\ndef attach_head(model):\n    inner(model)\n"
    write(
        tmp_path,
        {
            "setup.py": "",
            "heads.py": HEADS,
            "second.py": passing.format("heads"),
            "third.py": passing.format("second"),
            "train.py": training("from second import attach_head"),
            "train3.py": training("from third import attach_head"),
        },
    )
    assert found(tmp_path, "train.py", "train3.py") == ["train.py:9 reorder-to", "train3.py:9 reorder-to"]


def test_findings_name_the_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        {"setup.py": "", "pkg/heads.py": HEADS, "train.py": training("from pkg.heads import attach_head")},
    )
    monkeypatch.chdir(tmp_path)
    (result,) = report(tmp_path, ["train.py"]).results
    (finding,) = result.findings
    places = [(related.path, related.line, related.column) for related in finding.related]
    assert places == [("", 8, 1), ("pkg/heads.py", 6, 18)]

    from devfix.findings import Safety
    from devfix.review import text

    lines = list(text.findings("train.py", result.findings, level=Safety.SAFE))
    assert any("pkg/heads.py:6:18: what `attach_head` attaches is made here" in line for line in lines)


def test_fixes_name_the_device_as_it_is_imported(tmp_path: Path) -> None:
    body = "model = on_device()\nfor x in DataLoader([torch.ones(4)]):\n    model(x)\n"
    imports = ["from make import on_device", "from config import DEVICE as device"]
    write(tmp_path, {"setup.py": "", "config.py": DEVICE, "net.py": NET, "make.py": MAKE})
    write(tmp_path, {"train.py": scripts(body, *imports)})
    (result,) = report(tmp_path, ["train.py"]).results
    (finding,) = result.findings
    assert finding.fix is not None and finding.fix.title == "move `x` to `device`"


PICKED = """
import torch


def pick():
    if torch.cuda.is_available():
        return {}, 1
    return "cpu", 0


device, count = pick()
"""


@pytest.mark.parametrize(
    ("text", "known"),
    [("'cuda'", []), ("torch.device('cuda')", ["main.py:4 normalize-device-type"])],
)
def test_device_types_of_other_files(text: str, known: list[str], tmp_path: Path) -> None:
    main = "import torch\nfrom tools import device\n\nwith torch.autocast(device):\n    pass\n"
    whole = PICKED.format(text).replace('return "cpu"', f"return {text.replace('cuda', 'cpu')}")
    root = write(tmp_path, {"main.py": main, "tools.py": whole})
    assert found(root, codemods=("normalize-device-type",)) == known


ADDS = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + torch.ones(3)


def placed(device):
    return Net().to(device)
"""


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({"train.py": "from parts.net import placed\n"}, "safe"),
        ({"train.py": "import torch\ntorch.set_default_device('cuda')\n"}, "unsafe"),
        ({"other/train.py": "import torch\ntorch.set_default_device('cuda')\n"}, "safe"),
    ],
)
def test_a_program_that_sets_the_default_device(tmp_path: Path, files: dict[str, str], level: str) -> None:
    write(tmp_path, {"parts/net.py": ADDS, **files})
    made = report(tmp_path, project=".", codemods=["place-factory"])
    found = [finding.fix for result in made.results for finding in result.findings]
    assert [one.safety.label for one in found if one is not None] == ([] if level == "silent" else [level])


@pytest.mark.parametrize(
    ("saving", "level"),
    [
        ("torch.save(model.state_dict(), path)", "safe"),
        ("torch.save(model.cpu().state_dict(), path)", "silent"),
        ("state = model.state_dict()\n    for k, v in state.items():\n        state[k] = v.cpu()\n"
         "    torch.save(state, path)", "silent"),
        ("torch.save({k: v.cpu() for k, v in model.state_dict().items()}, path)", "silent"),
        ("model.cpu()\n    print(path)\n    torch.save(model.state_dict(), path)", "silent"),
        ("other.cpu()\n    torch.save(model.state_dict(), path)", "safe"),
        ("state = model.state_dict()\n    for k in state:\n        state[k] = state[k].to(torch.device('cpu'))\n"
         "    torch.save(state, path)", "silent"),
    ],
)  # fmt: skip
def test_a_project_that_saves_from_the_cpu(tmp_path: Path, saving: str, level: str) -> None:
    loading = (
        "import torch\n\n\ndef load(model, path, device):\n    model.load_state_dict(torch.load(path))\n"
    )
    saved = f"import torch\n\n\ndef save(model, path):\n    {saving}\n"
    calling = "from load import load\n\nload(1, 2, 3)\n"
    write(tmp_path, {"use/load.py": loading, "use/main.py": calling, "train/save.py": saved})
    assert levels(tmp_path) == ([] if level == "silent" else [level])


NO_PROGRAM = {
    "save.py": "import torch\n\n\ndef save(model, path):\n    torch.save(model.state_dict(), path)\n"
}
TRAINS = "import torch\nfrom parts import make\nfrom save import save\n\nnet = make()\nsave(net, 'a.pt')\n"
LOADS = "import torch\nfrom parts import make\n\n\ndef load(path, device):\n    net = make()\n    {}\n    return net\n"
INTO = "net.load_state_dict(torch.load(path))"


@pytest.mark.parametrize(
    ("parts", "into", "level"),
    [
        ("def make():\n    return torch.nn.Linear(2, 2)\n", INTO, "silent"),
        ("def make(gpu=0):\n    net = torch.nn.Linear(2, 2)\n    return net.cuda() if gpu else net\n", INTO, "safe"),
        ("def make():\n    return torch.nn.Linear(2, 2)\n", INTO.replace("net.load", "optimizer.load"), "silent"),
        ("def make():\n    return torch.nn.Linear(2, 2).to(args.device)\n", INTO, "safe"),
    ],
)  # fmt: skip
def test_a_project_whose_programs_move_nothing(tmp_path: Path, parts: str, into: str, level: str) -> None:
    files = {**NO_PROGRAM, "parts.py": f"import torch\n\n\n{parts}", "load.py": LOADS.format(into)}
    write(tmp_path, {**files, "main.py": "from load import load\n\nload('a.pt', 'cpu')\n"})
    assert bool(levels(tmp_path)) is (into == INTO)  # nobody is known to call what saves
    write(tmp_path, {"train.py": TRAINS})
    assert levels(tmp_path) == ([] if level == "silent" else [level])


def levels(folder: Path) -> list[str]:
    """How safe the fixes of map-location are."""
    made = report(folder, project=".", codemods=["map-location"])
    return [one.fix.safety.label for result in made.results for one in result.findings if one.fix is not None]


@pytest.mark.parametrize(
    ("calling", "level"),
    [
        ("path = download_model(URL)\n    return Restorer(path, 'cpu')", "unsafe"),
        ("return Restorer(sys.argv[1], 'cpu')", "safe"),
        ("return [Restorer(download_model(URL), 'cpu'), Restorer]", "safe"),  # it may be called anywhere
    ],
)
def test_what_all_callers_download(tmp_path: Path, calling: str, level: str) -> None:
    loading = (
        "import torch\n\n\nclass Restorer:\n    def __init__(self, path, device):\n        self.net = make()\n"
        "        self.net.load_state_dict(torch.load(path))\n        self.net.to(device)\n"
    )
    plugin = f"import sys\n\n\ndef start():\n    from restorer import Restorer\n\n    {calling}\n"
    saving = "import torch\n\n\ndef save(net, path):\n    torch.save(net.state_dict(), path)\n"
    write(tmp_path, {"restorer.py": loading, "plugin.py": plugin, "save.py": saving})
    made = report(tmp_path, project=".", codemods=["map-location"])
    found = [finding.fix for result in made.results for finding in result.findings]
    assert [one.safety.label for one in found if one is not None] == ([] if level == "silent" else [level])


WIDENS = """
import torch


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x * torch.ones(3)
"""


@pytest.mark.parametrize(
    ("program", "level"),
    [
        ("from net import Net\n\nNet()(1)\n", "unsafe"),
        ("from net import Net\n\nif __name__ == '__main__':\n    Net()(1)\n", "silent"),
        ("from net import Net\n\nNet().cuda()(1)\n", "safe"),
        ("print(1)\n", "unsafe"),
    ],
)
def test_a_factory_is_safe_only_where_something_is_moved(tmp_path: Path, program: str, level: str) -> None:
    write(tmp_path, {"net.py": WIDENS, "main.py": program})
    made = report(tmp_path, project=".", codemods=["place-factory"])
    found = [finding.fix for result in made.results for finding in result.findings]
    assert [one.safety.label for one in found if one is not None] == ([] if level == "silent" else [level])
