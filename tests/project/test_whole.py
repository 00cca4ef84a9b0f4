"""What a file can know of its project as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.flow.outside import Outside
from devfix.project.project import Projects
from devfix.text.parsed import parsed
from repositories import report, write


def outside(root: Path, path: str) -> Outside:
    found = Projects(str(root)).outside(str(root / path), parsed((root / path).read_text()))
    assert found is not None
    return found


NET = "def make(x):\n    return x\n"
CUDA_ONLY = [
    ({"net.py": "import cupy\n" + NET}, True),
    ({"net.py": "import ops\n" + NET, "ops.py": "import torch\nfrom ._ext import roi\n"}, True),
    ({"net.py": NET + "def late():\n    import ops\n", "ops.py": "import cupy\n"}, False),
    ({"net.py": NET, "train.py": "from net import make\nassert torch.cuda.is_available()\n"}, True),
    ({"net.py": NET, "train.py": "from net import make\nassert torch.cuda.is_available()\n",
      "test.py": "from net import make\n"}, False),
    ({"net.py": NET, "train.py": "from net import make\nassert torch.cuda.is_available()\n",
      "tests/test_net.py": "from net import make\n"}, True),
    ({"net.py": NET, "other/train.py": "assert torch.cuda.is_available()\n"}, False),
    # a part of what a program uses, and it insists further down
    ({"net.py": NET, "parts.py": "from net import make\n", "train.py": "from net import make\nimport parts\n\n\n"
      "def main():\n    if not torch.cuda.is_available():\n        print('no GPU')\n        sys.exit(1)\n"}, True),
    ({"net.py": NET, "parts.py": "from net import make\n", "train.py": "from net import make\nimport parts\n\n\n"
      "def main():\n    if not torch.cuda.is_available():\n        if args.strict:\n            sys.exit(1)\n"}, False),
    ({"net.py": NET, "parts.py": "from net import make\n", "demo.py": "import parts\n",
      "train.py": "from net import make\nassert torch.cuda.is_available()\n"}, False),
    ({"net.py": "import nms_ops\n" + NET, "lib/setup.py": "from torch.utils.cpp_extension import CUDAExtension\n"
      "setup(ext_modules=[CUDAExtension('nms_ops', ['a.cu'])])\n"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("files", "only"), CUDA_ONLY)
def test_a_file_that_needs_cuda(tmp_path: Path, files: dict[str, str], only: bool) -> None:
    write(tmp_path, files)
    assert outside(tmp_path, "net.py").needs_cuda() is only


def test_choices_and_gpus_anywhere(tmp_path: Path) -> None:
    write(tmp_path, {"net.py": "x.cuda()\n"})
    here = outside(tmp_path, "net.py")
    assert (here.chooses(), here.other_gpu(), here.writes()) == (False, False, False)
    write(tmp_path, {"a/main.py": "x.cuda(args.gpu if args.cuda else None)\ntorch.save(x, p)\n"})
    here = outside(tmp_path, "net.py")
    assert (here.chooses(), here.other_gpu(), here.writes()) == (True, True, True)


USED = [
    ({}, False),
    ({"main.py": "from net import make\nmake(1)\n"}, True),
    ({"main.py": "import net\nnet.make(1)\n"}, True),
    ({"main.py": "from net import *\nmake(1)\n"}, True),
    ({"main.py": "def make(x):\n    return x\nmake(1)\n"}, False),
    ({"net.py": NET + "make(1)\n"}, True),
    ({"net.py": NET + "# make(1)\n"}, False),
    ({"net.py": NET + "run = getattr(mod, 'ma' + 'ke')\n"}, None),
    ({"net.py": "@register\n" + NET}, None),
    ({"look.ipynb": "{}"}, None),
    ({"__init__.py": "", "setup.py": "setup(packages=['a'])\n"}, None),
    ({"setup.py": "setup(packages=['a'])\n"}, False),
]


@pytest.mark.parametrize(("files", "used"), USED)
def test_a_function_that_is_used(tmp_path: Path, files: dict[str, str], used: bool | None) -> None:
    write(tmp_path, {"net.py": NET, **files})
    assert outside(tmp_path, "net.py").used("make") is used


METHOD = "class Net:\n    def old(self, x):\n        return x\n"


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"net.py": METHOD}, False),
        ({"net.py": METHOD.replace("Net", "Net(Base)")}, None),
        ({"net.py": METHOD, "make.py": "from net import Net\ndef make():\n    return Net()\n",
          "main.py": "from make import make\nmake().old(3)\n"}, True),
        ({"net.py": METHOD.replace("old", "forward")}, None),
    ],
)  # fmt: skip
def test_a_method_that_is_used(tmp_path: Path, files: dict[str, str], used: bool | None) -> None:
    write(tmp_path, files)
    name = "forward" if "forward" in files["net.py"] else "old"
    assert outside(tmp_path, "net.py").used(name) is used


USERS = "class Net:\n    def old(self, x):\n        return x\n\n    def older(self):\n        self.old(3)\n"


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({}, False),
        ({"main.py": "from net import Net\nNet().older()\n"}, True),
        (
            {"main.py": "import other\nfrom net import Net\nprint('the old one')\nother.old(Net())\n"},
            False,
        ),
        ({"net.py": USERS + "\n    def oldest(self):\n        self.older()\n"}, False),
        ({"net.py": USERS.replace("self.old(3)", "self.old(3)\n\n\nNet().old(3)")}, True),
    ],
)
def test_a_method_that_is_used_by_what_nobody_uses(tmp_path: Path, files: dict[str, str], used: bool) -> None:
    write(tmp_path, {"net.py": USERS, **files})
    assert outside(tmp_path, "net.py").used("old") is used


LOAD = (
    "import torch\nfrom net import Net\n\n\ndef load(path, device):\n"
    "    net = Net()\n    {}\n    return net.to(device)\n"
)
STATE = "net.load_state_dict(torch.load(path))"
PLAIN = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x{}\n"
MAIN = "import torch\nfrom load import load\nload('a.pt', 'cpu')\ntorch.save(model.state_dict(), 'a.pt')\n"
MAKE = "import torch\nnet = convert(vgg)\n{}torch.save(net.state_dict(), 'b.pth')\n"
FIRST = "import torch\n\n\ndef first(path):\n    ckpt = torch.load(path)\n    net.head = ckpt\n\n\n"
LOADED = {
    "right": ({}, "safe"),
    "the network goes to CUDA": ({"net.py": PLAIN.format(".cuda()")}, "silent"),
    "a part of it that nobody uses does": (
        {"net.py": PLAIN.format("") + PLAIN.format(".cuda()").replace("Net", "Other")},
        "safe",
    ),
    "nobody calls it": ({"main.py": "model.to(args.device)\ntorch.save(model.state_dict(), 'a.pt')\n"}, "unsafe"),
    "nobody calls it, and what is saved is not moved": (
        {"main.py": "torch.save(model.state_dict(), 'a.pt')\n"}, "silent",
    ),
    "nobody writes one": ({"main.py": "from load import load\nload('a.pt', 'cpu')\n"}, "unsafe"),
    "compiled": ({"net.py": "import cupy\n" + PLAIN.format("")}, "silent"),
    "another load stays": (
        {"load.py": LOAD.format("ckpt = torch.load(path)\n    net.head = ckpt\n    " + STATE)},
        "unsafe",
    ),
    "another load, elsewhere": (
        {"load.py": LOAD.format("if path:\n        net.head = torch.load(path)['state_dict']\n    " + STATE)},
        "safe",
    ),
    "a whole module": ({"load.py": LOAD.format(STATE + "\n    net.eval()\n    torch.save(net, path)")}, "unsafe"),
    "a file that a script has made": (
        {"load.py": LOAD.format(STATE.replace("path", "'./m/b.pth'")), "make.py": MAKE.format("")}, "unsafe",
    ),
    "a file that a script has made on a device": (
        {"load.py": LOAD.format(STATE.replace("path", "'./m/b.pth'")), "make.py": MAKE.format("net.cuda()\n")}, "safe",
    ),
    "all who call it go to CUDA": ({"main.py": MAIN.replace("'cpu')", "'cpu').cuda()")}, "silent"),
    "all who call it go to CUDA, or where they are told": (
        {"main.py": "import torch\nfrom load import load\n\n\ndef main(args):\n    net = load('a.pt', 'cpu')\n"
                    "    if args:\n        net.to(args.device)\n    else:\n        net.cuda()\n"
                    "    torch.save(net.state_dict(), 'a.pt')\n"}, "safe",
    ),
    "one who calls it goes to CUDA": (
        {"more.py": "from load import load\n\n\ndef more():\n    return load('a.pt', 'cuda').cuda()\n"}, "safe",
    ),
    "another load is always before it": (
        {"load.py": FIRST + LOAD.format(STATE),
         "main.py": MAIN.replace("import load\n", "import first, load\nfirst('b.pt')\n")}, "unsafe",
    ),
    "another load is behind it": (
        {"load.py": FIRST + LOAD.format(STATE),
         "main.py": MAIN.replace("import load\n", "import first, load\n") + "first('b.pt')\n"}, "safe",
    ),
    "an extension either way": (
        {"net.py": "try:\n    from ops.roi import f\nexcept ImportError:\n    from .ops.roi import f\n"
         + PLAIN.format(""), "ops/roi.py": "import roi_cuda\nx.cuda()\n"}, "silent",
    ),
    "a program that measures its time": (
        {"load.py": LOAD.format(STATE + "\n    torch.cuda.synchronize()")}, "silent",
    ),
    "a program that sets its GPU": (
        {"main.py": MAIN.replace("load(", "torch.cuda.set_device(cfg.gpu)\nload(")}, "silent",
    ),
    "a program that is called a test": (
        {"load.py": LOAD.format("net.cuda()\n    " + STATE).replace("def load", "def test_it") + "\ntest_it('a', 0)\n"},
        "silent",
    ),
    "one of several, far away, goes to CUDA": (
        {"net.py": PLAIN.format("") + "    def act(self, x):\n        return KINDS['b'](x)\n\n\n"
         "def a(x):\n    return x\n\n\ndef b(x):\n    return c(x)\n\n\ndef c(x):\n    return x.cuda()\n\n\n"
         "KINDS = {'a': a, 'b': b}\n",
         "load.py": LOAD.format(STATE + "\n    net.act(3)")}, "unsafe",
    ),
    "weights to begin with": (
        {"load.py": LOAD.format("net.load_state_dict(torch.load(CONFIG.INIT_MODEL))")}, "unsafe",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOADED)
def test_what_a_map_location_cures(tmp_path: Path, case: str) -> None:
    files, level = LOADED[case]
    write(tmp_path, {"net.py": PLAIN.format(""), "load.py": LOAD.format(STATE), "main.py": MAIN, **files})
    made = report(tmp_path, project=".", codemods=["map-location"])
    found = [
        finding.fix.safety.label
        for result in made.results
        for finding in result.findings
        if finding.fix is not None and "head" not in finding.message
    ]
    assert (found[-1] if found else "silent") == level


HELPERS = "import torch\n\n\ndef rows(x):\n    return x\n\n\ndef main(args):\n    return rows(torch.ones(2).cuda())\n"
OTHERS = (
    "from helpers import {}\n\nargs = parse_args()\n\n\ndef main():\n"
    "    {}(x.to('cuda' if args.gpu else 'cpu'))\n\n\nmain()\n"
)


@pytest.mark.parametrize(
    ("names", "call", "chosen"),
    [("rows", "rows", None), ("rows, main as run", "run", True), ("*", "rows", True)],
)
def test_who_imports_other_names_does_not_run_a_function_of_that_name(
    tmp_path: Path, names: str, call: str, chosen: bool | None
) -> None:
    write(tmp_path, {"helpers.py": HELPERS, "train.py": OTHERS.format(names, call)})
    assert outside(tmp_path, "helpers.py").runs_chosen("main") is chosen


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("x = x.to(device)\n", True),
        ("x = torch.ones(2, device=args.device)\n", True),
        ("trainer = Trainer(model)\n", True),
        ("def make(n, device='cpu'):\n    return torch.ones(n, device=device)\n", False),
        ("x = torch.ones(2, device=torch.device('cpu'))\n", False),
    ],
)
def test_a_project_that_moves_something(tmp_path: Path, text: str, moves: bool) -> None:
    write(tmp_path, {"net.py": NET, "main.py": text})
    assert outside(tmp_path, "net.py").moves() is moves


def test_torch_under_another_name(tmp_path: Path) -> None:
    script = "import torch as th\nimport net\n\ndevice = th.device('cuda')\nnet.make(th.ones(1)).to(device=device)\n"
    write(tmp_path, {"net.py": NET, "train.py": script})
    here = outside(tmp_path, "train.py")
    assert here.goes_to_cuda(()) is True
    write(
        tmp_path,
        {"train.py": script.replace("th.device('cuda')", "th.device('cuda' if args.gpu else 'cpu')")},
    )
    assert outside(tmp_path, "train.py").goes_to_cuda(()) is False


@pytest.mark.parametrize(
    ("main", "run"),
    [("print(1)", False), ("Net()", True), ("print(make())", True), ("print(__file__)  # Net()", False)],
)
def test_a_program_that_only_defines_a_class_does_not_run_it(tmp_path: Path, main: str, run: bool) -> None:
    net = "class Net(nn.Module):\n    def __init__(self):\n        super(Net, self).__init__()\n\n\n"
    net += "def make():\n    return {}\n"
    main = f"\n\nif __name__ == '__main__':\n    {main}\n"
    text = '"""What there is.\n\nUsed like Net()\n"""\n' + net.format("Net()" if "make" in main else 1) + main
    write(tmp_path, {"net.py": text})
    assert outside(tmp_path, "net.py").is_run("Net") is run


@pytest.mark.parametrize(
    ("more", "unused"),
    [
        ({"main.py": "from net import make\nmake(1)\n"}, True),
        ({"main.py": "from net import make, Net\nNet(make(1))\n"}, False),
        ({"main.py": "import net\nnet.Net(net.make(1))\n"}, False),
        ({"main.py": "from net import make\nmake(1)\n", "more.py": "from net import *\nNet()\n"}, False),
        ({"main.py": "import importlib\nfrom net import make\nmake(importlib.import_module(name))\n"}, False),
        ({}, False),  # nobody uses the file
    ],
)
def test_a_class_that_nothing_uses(tmp_path: Path, more: dict[str, str], unused: bool) -> None:
    net = "class Net(nn.Module):\n    def __init__(self):\n        super(Net, self).__init__()\n\n\n"
    write(tmp_path, {"net.py": net + NET, **more})
    assert outside(tmp_path, "net.py").is_unused("Net") is unused
