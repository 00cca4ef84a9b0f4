"""hard-coded-cuda: a fix is safe only where the project shows a run that it cures."""

from __future__ import annotations

from pathlib import Path

import pytest
from applying import findings
from devfix import check
from devfix.findings import Finding, Safety
from devfix.flow import analyse
from devfix.project.project import Projects
from devfix.rules.hard_coded_cuda import HardCodedCuda
from devfix.text.source import Source

RULE = HardCodedCuda()
HEAD = "import torch\n\n\n"
# Right where tensors are on another GPU than the current one, and only there.
FOLLOWS = HEAD + (
    "def pad(x: torch.Tensor, n):\n    y = torch.zeros(x.size(0), n)\n    if x.is_cuda:\n        y = y.cuda()\n"
    "    return torch.cat([x, y], 1)\n"
)
# Raises without CUDA as well.
INSISTS = HEAD + (
    "def pad(x: torch.Tensor, n):\n    y = torch.zeros(x.size(0), n).cuda()\n    return torch.cat([x, y], 1)\n"
)
CHOICE = "cuda = not args.no_cuda and torch.cuda.is_available()\nif cuda:\n    x = x.cuda()\n"
OPTION = "parser.add_argument('--device', {})\nx = x.to(args.device)\n"
NUMBERED = 'device = torch.device(f"cuda:{args.gpu}" if args.gpu >= 0 else "cpu")\nx = x.to(device)\n'
ALWAYS = "if args.cuda:\n    seed(args.seed)\nx = x.cuda()\n"
ONE = "    x = x.cuda()\n"
BY_KIND = "args = ArgumentParser().parse_args()\n" + CHOICE + "KINDS[args.kind].pad(2, 3)\n"
STEP = "import pads\n\n\ndef pad(x, n):\n    x = pads.pad(x, n)\n"

PORTABLE = "\n\ndef put(a, b):\n    return a.to(b.device)\n"
MORE = "\n\ndef mean(x):\n    return torch.mean(x)\n"

TWO = "def load(x):\n    return x.cuda()\n\n\ndef keep(x):\n    return x\n"


def program(body: str, name: str = "pads") -> str:
    return (
        f"import argparse\nimport torch\nfrom {name} import pad\n\nargs = argparse.ArgumentParser().parse_args()\n"
        f"x = torch.ones(2, 3)\n{body}pad(x, 2)\n"
    )


MAIN = program(CHOICE).replace("pad\n", "mean\n").replace("pad(x, 2)", "mean(x)")
WHOLE = (
    program(ONE.lstrip(), "kit").replace("from kit import pad", "import kit").replace("pad(x", "kit.pad(x")
)


def checked(folder: Path, files: dict[str, str]) -> list[Finding]:
    """What is found in `pads.py` among these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = folder / "pads.py"
    source = Source(path.read_text())
    flow = analyse(source, Projects(str(folder)).outside(str(path), source))
    return list(RULE.check(flow))


def levels(folder: Path, files: dict[str, str]) -> list[Safety]:
    """How safe the fixes are."""
    return [found.fix.safety for found in checked(folder, files) if found.fix is not None]


@pytest.mark.parametrize(
    ("text", "programs", "safe"),
    [
        (FOLLOWS, {"main.py": program(NUMBERED)}, True),
        (FOLLOWS, {"main.py": program(CHOICE)}, None),  # the current GPU, if any
        (FOLLOWS, {"main.py": program(NUMBERED + ONE.lstrip())}, False),
        (FOLLOWS, {"main.py": program("torch.cuda.set_device(args.gpu)\n" + NUMBERED)}, False),
        # DataParallel sets the current GPU for each of its copies.
        (FOLLOWS, {"main.py": program("net = torch.nn.DataParallel(net, device_ids=[0, 1]).cuda()\n")}, None),
        (FOLLOWS, {"main.py": program(CHOICE), "other.py": program(NUMBERED, "others")}, False),
        # An option may be for the number of a GPU, or for CUDA and the CPU only.
        (FOLLOWS, {"main.py": program(OPTION.format("default='cpu'"))}, None),
        (FOLLOWS, {"main.py": program(OPTION.format("type=int, default=0"))}, True),
        (FOLLOWS, {"main.py": program(OPTION.format("default='cuda:0'"))}, True),
        (INSISTS, {"main.py": program(CHOICE)}, True),
        (INSISTS, {"main.py": program(NUMBERED)}, True),
        (INSISTS, {"main.py": program(ALWAYS)}, None),  # nothing runs it on another device
        (INSISTS, {"main.py": program(ALWAYS), "demo.py": program(CHOICE)}, True),
        (INSISTS, {"main.py": program("assert torch.cuda.is_available()\n" + CHOICE)}, None),  # CUDA in any case
        (INSISTS, {"main.py": program(ALWAYS), "test_pads.py": program(CHOICE)}, None),
        # What the program chooses does not get through a file that goes to CUDA in any case.
        (INSISTS, {"main.py": program(CHOICE, "step"), "step.py": STEP + ONE}, None),
        (INSISTS, {"main.py": program(CHOICE, "step"), "step.py": STEP}, True),
        # What the program calls besides needs CUDA, or something that it does not call.
        (INSISTS, {"main.py": program("from more import load, keep\nload(x)\n" + CHOICE), "more.py": TWO}, None),
        (INSISTS, {"main.py": program("from more import keep\n" + CHOICE), "more.py": TWO}, True),
        # A package that passes on what one of its files has.
        (INSISTS, {"main.py": program(CHOICE, "kit"), "kit/__init__.py": "from pads import pad\n"}, True),
        (INSISTS, {"main.py": WHOLE, "kit/__init__.py": "from pads import *\n"}, None),
        # What is imported of the file has nothing to do with the function, or something.
        (INSISTS + MORE, {"main.py": MAIN, "use.py": "from pads import pad\n"}, None),
        (INSISTS + MORE.replace("mean(x)\n", "mean(pad(x))\n"), {"main.py": MAIN, "use.py": "from pads import pad\n"}, True),
        (INSISTS + MORE, {"main.py": MAIN + "getattr(pads, args.how)(x)\n", "use.py": "from pads import pad\n"}, True),
        (INSISTS, {"main.py": MAIN}, None),  # not used
        (INSISTS + MORE, {"main.py": MAIN}, None),  # programs use the file, and nobody this
        (INSISTS + MORE, {"main.py": MAIN, "tests/use.py": "from pads import pad\n"}, None),
    ],
)  # fmt: skip
def test_the_programs_tell(tmp_path: Path, text: str, programs: dict[str, str], safe: bool | None) -> None:
    found = levels(tmp_path, {"pyproject.toml": "", "pads.py": text, **programs})
    assert found == ([] if safe is None else [Safety.SAFE if safe else Safety.UNSAFE])


@pytest.mark.parametrize(
    ("more", "safe"),
    [
        ("", True),
        ("\n\ndef load(x, use_cuda):\n    if use_cuda:\n        x = x.cuda()\n    return x\n", False),
        ("\n\ndef load(x, gpu):\n    return x.cuda(gpu)\n", True),
    ],
)
def test_other_tensors_of_the_file_are_on_the_current_gpu(tmp_path: Path, more: str, safe: bool) -> None:
    files = {"pyproject.toml": "", "pads.py": FOLLOWS + more, "main.py": program(NUMBERED)}
    assert levels(tmp_path, files) == [Safety.SAFE if safe else Safety.UNSAFE]


@pytest.mark.parametrize("line", ["from ._ext import reorg", "from torch.utils.ffi import create_extension"])
def test_code_for_a_pytorch_before_devices_is_not_mended_by_itself(tmp_path: Path, line: str) -> None:
    files = {"pyproject.toml": "", "pads.py": f"{line}\n{FOLLOWS}", "main.py": program(NUMBERED)}
    assert levels(tmp_path, files) == []  # it needs CUDA in any case


def test_functions_whose_callers_need_cuda(tmp_path: Path) -> None:
    caller = "\n\ndef score(x, n, device):\n    return pad(x.cuda(device), n)\n"
    files = {"pyproject.toml": "", "pads.py": INSISTS, "main.py": program(CHOICE)}
    assert levels(tmp_path, files) == [Safety.SAFE]
    assert levels(tmp_path, files | {"pads.py": INSISTS + caller}) == [Safety.UNSAFE]
    assert levels(tmp_path, files | {"pads.py": INSISTS + caller.replace(".cuda(device)", "")}) == [
        Safety.SAFE
    ]


def test_what_else_of_the_function_or_class_needs_cuda(tmp_path: Path) -> None:
    """A fix that leaves the next line failing is not worth being made by itself."""
    step = (
        HEAD
        + PORTABLE.lstrip()
        + (
            "\n\nclass Step:\n    def __init__(self, net):\n        self.net = net{init}\n\n"
            "    def run(self, x: torch.Tensor, rows):\n        y = torch.zeros(x.size(0), 2).cuda()\n"
            "        z = self.net(torch.tensor(rows){move})\n        return torch.cat([x, y], 1), z\n"
        )
    )
    files = {
        "pyproject.toml": "",
        "main.py": program(CHOICE)
        .replace("import pad\n", "import Step\n")
        .replace("pad(x, 2)", "Step(net).run(x, [])"),
    }
    for init, move, expected in (
        ("", "", [Safety.SAFE]),
        (".cuda()", "", [Safety.UNSAFE]),
        ("\n        self.gpu = torch.cuda.current_device()", "", [Safety.UNSAFE]),
        ("", ".cuda()", [Safety.UNSAFE]),
        ("", " if rows else load().cuda()", [Safety.UNSAFE]),
    ):
        found = levels(tmp_path, files | {"pads.py": step.format(init=init, move=move)})
        assert found[:1] == expected, (init, move)


def test_a_branch_that_needs_cuda_leaves_the_others(tmp_path: Path) -> None:
    branch = INSISTS.replace(
        "    return", "    if n > 9:\n        note(torch.rand(x.size(0)).cuda())\n    return"
    )
    branch += PORTABLE
    files = {"pyproject.toml": "", "pads.py": branch, "main.py": program(CHOICE)}
    assert sorted(levels(tmp_path, files)) == [Safety.UNSAFE, Safety.SAFE]


ABOVE = (
    "def one(x, y, n, flag):\n{above}    z = torch.zeros(x.size(0), n)\n    if x.is_cuda:\n        z = z.cuda()\n"
    "    return z.scatter_(1, x, 1)\n"
)
ANY = 'def place(net, rank):\n    return net.to(f"cuda:{rank}" if rank >= 0 else "cpu")\n\n\n'


@pytest.mark.parametrize(
    ("above", "found"),
    [
        ("", [Safety.SAFE]),
        ("    x = x.cuda()\n", []),
        ("    x = x.cuda()\n    x = x.view(-1, 1)\n", []),
        ("    x, y = x.cuda(), y\n", []),
        ("    if x.is_cuda:\n        x = x.cuda()\n", []),
        ("    if x.is_cuda or y.is_cuda:\n        x = x.cuda()\n        y = y.cuda()\n", []),
        ("    if torch.cuda.is_available():\n        x = x.cuda()\n", []),
        ("    if flag:\n        x = x.cuda()\n", [Safety.UNSAFE]),
        ("    for _ in y:\n        x = x.cuda()\n", [Safety.UNSAFE]),
        ("    y = y.to(f'cuda:{flag}')\n", [Safety.SAFE]),
        ("    if x.is_cuda:\n        x = x.cuda()\n    x = load(y)\n", [Safety.SAFE]),
    ],
)
def test_what_the_function_has_put_on_the_current_gpu(above: str, found: list[Safety]) -> None:
    text = HEAD + ANY + ABOVE.format(above=above)
    fixes = [one.fix for one in findings(RULE, text) if one.fix is not None]
    assert [one.safety for one in fixes if one.title != "use CUDA only if it is available"] == found


FUNCTION = (
    "class Loss(torch.autograd.{base}):\n    @staticmethod\n    def {name}(ctx, x):\n"
    "        z = torch.zeros(x.size(0), 3)\n        if x.is_cuda:\n            z = z.cuda()\n        return z * x\n"
)


@pytest.mark.parametrize(
    ("base", "name", "safety"),
    [
        ("Function", "forward", Safety.SAFE),
        ("Function", "backward", Safety.UNSAFE),
        ("Other", "backward", Safety.SAFE),
    ],
)
def test_autograd_makes_the_gpu_of_a_gradient_the_current_one(base: str, name: str, safety: Safety) -> None:
    text = HEAD + ANY + FUNCTION.format(base=base, name=name)
    assert [one.fix.safety for one in findings(RULE, text) if one.fix is not None] == [safety]


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"train.py": program(CHOICE)}, True),
        ({"train.py": program(ONE.lstrip())}, False),  # a program that is CUDA throughout
        ({}, True),  # nobody in view calls it
        ({"tests/test_pads.py": program(CHOICE)}, True),
        ({"setup.py": "from setuptools import setup\nsetup(name='pads', packages=['.'])\n", "__init__.py": ""}, True),
        # Programs that leave no choice speak for whoever installs it.
        ({"train.py": program(ONE.lstrip()), "setup.py": "from setuptools import setup\nsetup(name='pads', packages=['.'])\n", "__init__.py": ""}, False),
        ({"train.py": program(CHOICE), "setup.py": "from setuptools import setup\nsetup(name='pads', packages=['.'])\n", "__init__.py": ""}, True),
        # Nobody gets it from the package, or somebody.
        ({"kit/__init__.py": "from pads import pad\n", "main.py": CHOICE}, False),
        ({"kit/__init__.py": "from pads import pad\n", "main.py": program(CHOICE, "kit")}, True),
        ({"kit/__init__.py": "from pads import *\n", "main.py": program(CHOICE, "kit")}, True),
        # A module in a table, for others to ask for what it has.
        ({"all.py": "import pads\n\nKINDS = {'pads': pads}\n", "main.py": "from all import KINDS\n" + BY_KIND}, True),
        ({"all.py": "import pads\n\nprint(pads.keep)\n", "main.py": "from all import KINDS\n" + BY_KIND}, False),
    ],
)  # fmt: skip
def test_what_has_no_device_is_shown_for_callers_that_may_lack_cuda(
    tmp_path: Path, files: dict[str, str], shown: bool
) -> None:
    library = HEAD + "def pad(n, m):\n    return torch.zeros(n, m).cuda()\n"
    found = checked(tmp_path, {"pads.py": library, **files})
    assert [one.fix and one.fix.title for one in found] == ["use CUDA only if it is available"] * shown


LOADED = """
from torch import nn


def run(net, batches):
    for x, y in batches:
        net(x.cuda(), y.cuda())


if __name__ == "__main__":
    net = nn.Bilinear(2, 2, 2)
    net.load_state_dict(torch.load("net.pt", map_location="cpu"))
    {}
    run(net, [])
"""


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("net = net.cuda()", 0),
        ("net = net.cuda() if torch.cuda.is_available() else net", 2),
        ("print(net)", 2),
        ("put(net)\n\n\ndef put(net):\n    net.cuda()", 0),
    ],
)
def test_a_program_that_goes_to_cuda_itself_does_not_choose(tmp_path: Path, place: str, found: int) -> None:
    files = {"pyproject.toml": "", "pads.py": f"import torch{LOADED.format(place)}"}
    assert len(checked(tmp_path, files)) == found


def test_silent_where_all_programs_go_to_cuda_in_another_place(tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "pads.py": INSISTS, "step.py": STEP + ONE, "main.py": program("", "step")}
    assert levels(tmp_path, files | {"main.py": program(CHOICE, "step")}) == []
    assert levels(tmp_path, files) == []
    assert levels(tmp_path, files | {"step.py": STEP, "main.py": program(CHOICE, "step")}) == [Safety.SAFE]


BY_NAME = """
import argparse, importlib, torch

args = argparse.ArgumentParser().parse_args()
x = torch.ones(2, 3)
{}
importlib.import_module(args.module).__dict__[args.function](x, 2)
"""


@pytest.mark.parametrize(("moves", "told"), [(ALWAYS, False), (CHOICE, True)])
def test_programs_that_load_it_by_name_may_all_go_to_cuda(tmp_path: Path, moves: str, told: bool) -> None:
    files = {
        "pyproject.toml": "",
        "pads.py": INSISTS + "\n\nPADS = [pad]\n",
        "main.py": BY_NAME.format(moves),
    }
    assert len(checked(tmp_path, files)) == told


FLAGGED = HEAD + (
    "def pad(x: torch.Tensor, n, gpu):\n    y = torch.zeros(x.size(0), n)\n    if gpu:\n        y = y.cuda()\n"
    "    return torch.cat([x, y], 1)\n"
)


@pytest.mark.parametrize(("moves", "told"), [(CHOICE, False), (NUMBERED, True)])
def test_a_flag_is_for_the_current_gpu_where_there_is_no_other(
    tmp_path: Path, moves: str, told: bool
) -> None:
    main = program(moves).replace("pad(x, 2)", "pad(x, 2, args.gpu)")
    files = {"pyproject.toml": "", "pads.py": FLAGGED, "main.py": main}
    assert len(checked(tmp_path, files)) == told


COUNTED = """
import torch
import torch.distributed as dist


def total(count):
    sums = torch.tensor([count]).cuda()
    {}
    return sums
"""


@pytest.mark.parametrize(("line", "told"), [("dist.all_reduce(sums)", False), ("print(sums)", True)])
def test_what_goes_to_other_processes_is_on_cuda(tmp_path: Path, line: str, told: bool) -> None:
    assert len(checked(tmp_path, {"pyproject.toml": "", "pads.py": COUNTED.format(line)})) == told


@pytest.mark.parametrize(("places", "told"), [(5, 5), (6, 0)])
def test_a_file_with_many_places_is_written_for_cuda(tmp_path: Path, places: int, told: int) -> None:
    text = HEAD + "".join(f"def make{n}(n):\n    return torch.zeros(n).cuda()\n\n\n" for n in range(places))
    text += "def like(x):\n    return x.to(x.device)\n"
    assert len(checked(tmp_path, {"pyproject.toml": "", "pads.py": text})) == told


@pytest.mark.parametrize(("moves", "told"), [(ALWAYS, 0), (CHOICE, 1)])
def test_no_other_checker_tells_what_is_right_as_it_is(tmp_path: Path, moves: str, told: int) -> None:
    for name, text in {
        "pyproject.toml": "",
        "pads.py": INSISTS + PORTABLE,
        "main.py": program(moves),
    }.items():
        (tmp_path / name).write_text(text)
    every = check(tmp_path, cache=False).findings
    assert [one.codemod for one in every if one.path.endswith("pads.py")] == ["hard-coded-cuda"] * told


OWN = HEAD + (
    "class Trainer:\n    def __init__(self, net):\n        self.net = net{}\n    def loss(self, x: torch.Tensor, n):\n"
    "        y = torch.zeros(x.size(0), n).cuda()\n        return torch.cat([self.net(x), x, y], 1)\n\n\n"
    "if __name__ == '__main__':\n    print(Trainer(torch.nn.ReLU()).loss(read(), 3))\n"
)


@pytest.mark.parametrize(("moves", "told"), [(".cuda()", 0), ("", 1)])
def test_a_program_that_goes_to_cuda_itself_calls_what_does(tmp_path: Path, moves: str, told: int) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(OWN.format(moves))
    assert len(check(tmp_path, cache=False).findings) == told


HELPER = HEAD + "def make(n):\n    return torch.zeros(n).cuda()\n"


@pytest.mark.parametrize(("path", "told"), [("tests/pads.py", 0), ("kit/pads.py", 1)])
def test_what_only_tests_use_is_no_library(tmp_path: Path, path: str, told: int) -> None:
    files = {
        "pyproject.toml": "",
        path: HELPER,
        "tests/test_all.py": "from pads import make\n",
        "main.py": CHOICE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    every = check(tmp_path, cache=False).findings
    assert [one.codemod for one in every if one.path.endswith("pads.py")] == ["hard-coded-cuda"] * told


LEAVES = """
import sys
import torch


def main(args):
    if not torch.cuda.is_available():
        print("no GPU")
        {}
    net = make(args).cuda()
    print(net)
    if args.slow or not torch.cuda.is_available():
        print("slow")


main(sys.argv)
"""


@pytest.mark.parametrize(
    ("last", "told"), [("sys.exit(1)", 0), ("return", 0), ("print(1)", 1), ("print(exit)", 1)]
)
def test_a_function_that_leaves_without_cuda(tmp_path: Path, last: str, told: int) -> None:
    assert len(checked(tmp_path, {"pyproject.toml": "", "pads.py": LEAVES.format(last)})) == told


PARALLEL = HEAD + (
    "def build(args, parallel):\n    net = make(args)\n    if parallel:\n        net = {}.cuda()\n    return net\n"
)


@pytest.mark.parametrize(("made", "told"), [("torch.nn.DataParallel(net)", 0), ("wrap(net)", 1)])
def test_who_asks_for_several_gpus_has_one(tmp_path: Path, made: str, told: int) -> None:
    assert len(checked(tmp_path, {"pyproject.toml": "", "pads.py": PARALLEL.format(made)})) == told


STEPS = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()


def train(net, x, y, z, u, v, w):
    {first}
    x, y, z, u, v, w = x.cuda(), y.cuda(), z.cuda(), u.cuda(), v.cuda(), w.cuda()
    print(x, y, z, u, v, w)
    {second}


net = nn.Linear(2, 2)
if args.cuda:
    net.cuda()
train(net, *read(6))
"""
RUN = "net(torch.ones(3, 2).cuda())"


@pytest.mark.parametrize(
    ("first", "second", "told"), [("print(1)", RUN, 0), (RUN, "print(1)", 1), ("print(1)", f"if x: {RUN}", 0)]
)
def test_what_is_behind_other_places_that_need_cuda(
    tmp_path: Path, first: str, second: str, told: int
) -> None:
    text = STEPS.format(first=first, second=second)
    assert len(checked(tmp_path, {"pyproject.toml": "", "pads.py": text})) == told


SCRIPT = "import argparse\nimport torch\nfrom net import Net\n\ndevice = 'cuda'\n\nif __name__ == '__main__':\n    Net().to(device)\n"


@pytest.mark.parametrize("move", ["", ".cuda()"])
def test_the_one_choice_of_a_script_whose_network_needs_cuda_anyway(tmp_path: Path, move: str) -> None:
    net = f"import torch\n\n\nclass Net(torch.nn.Module):\n    def start(self):\n        return self(torch.ones(2){move})\n"
    files = {"pyproject.toml": "", "pads.py": SCRIPT, "net.py": net.replace("start", "forward")}
    assert levels(tmp_path, files) == ([] if move else [Safety.UNSAFE])


@pytest.mark.parametrize(("other", "told"), [("x = x.cuda()\n", False), (CHOICE, True)])
def test_several_files_without_a_choice_are_for_cuda(tmp_path: Path, other: str, told: bool) -> None:
    files = {"pyproject.toml": "", "pads.py": INSISTS, "other.py": f"import torch\n{other}"}
    assert bool(levels(tmp_path, files)) is told
    assert levels(tmp_path / "alone", {"pyproject.toml": "", "pads.py": INSISTS})


def test_the_one_choice_of_a_script_beside_others_that_have_none(tmp_path: Path) -> None:
    script = "import argparse\nimport torch\n\n\ndef main(net):\n    device = 'cuda'\n    net.to(device)\n"
    files = {"pyproject.toml": "", "pads.py": script, "other.py": "import torch\nx = x.cuda()\n"}
    assert levels(tmp_path, files) == [Safety.UNSAFE]
