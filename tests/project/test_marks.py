"""What the text of a file tells about devices: marks, what it saves, and what goes to CUDA without asking."""

from __future__ import annotations

from textwrap import dedent

import pytest
from devfix.project.cuda import blocks_of, goes_to_cuda
from devfix.project.importing import names_in, tried_anyway
from devfix.project.marks import CHOOSES, INSISTS, ONLY, OTHER, WRITES, headers
from devfix.project.saving import saves_from_cpu


def marks(text: str) -> set[str]:
    return {name for name in names_in(dedent(text).encode()) if name.startswith("!")}


CHOICES = [
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'\n",
    "parser.add_argument('--no-cuda', action='store_true')\n",
    "if args.cuda:\n    model.cuda()\n",
    "if use_gpu and torch.cuda.device_count() > 1:\n    model.cuda()\n",
    "def f(model, device: str):\n    model.to(device)\n",
    "def f(model, x):\n    return model(x, device=device)\n",
    "model.load_state_dict(torch.load(p, map_location='cpu'))\nmodel.cuda()\n",
    "if not torch.cuda.is_available():\n    if args.strict:\n        sys.exit(1)\n",
    "if not torch.cuda.is_available():\n    print('slow')\nsys.exit(main())\n",
]
NO_CHOICES = [
    "model.cuda()\n",
    "assert torch.cuda.is_available()\nmodel.cuda()\n",
    "if not torch.cuda.is_available():\n    raise RuntimeError('no GPU')\nmodel.cuda()\n",
    "if not torch.cuda.is_available():\n    logging.info('no GPU')\n    print('Bye')\n    sys.exit(1)\nmodel.cuda()\n",
    "if torch.cuda.is_available():\n    torch.cuda.manual_seed_all(3)\nmodel.cuda()\n",
    "model.cuda()  # if torch.cuda.is_available() else cpu\n",
    "device = x.device\n",
    "device = torch.device('cuda')\n",
    "device = 'cuda'\nmodel = build(args, device=device)\n",
    "if args.gpus > 1:\n    model = DataParallel(model.cuda())\n",
]


@pytest.mark.parametrize("text", CHOICES)
def test_a_choice(text: str) -> None:
    assert CHOOSES in marks(text)


@pytest.mark.parametrize("text", NO_CHOICES)
def test_no_choice(text: str) -> None:
    assert CHOOSES not in marks(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("x = x.to('cuda:1')\n", True),
        ("x = x.to(f'cuda:{rank}')\n", True),
        ("x = x.cuda(args.gpu)\n", True),
        ("x = torch.device('cuda', k)\n", True),
        ("model.cuda()\nmodel = DataParallel(model, device_ids=[1, 2])\n", True),
        ("parser.add_argument('--gpu_id', type=int)\nx.cuda()\n", True),
        ("x = x.to('cuda:0')\n", False),
        ("x = x.cuda(0)\n", False),
        ("x = x.cuda(device=0)\n", False),
        ("x = x.cuda(device=gpu)\n", True),
        ("x = x.cuda(non_blocking=True)\n", False),
        ("torch.cuda.set_device(k)\nx = x.cuda()\n", False),
        ("model = DataParallel(model.cuda(), device_ids=[0])\n", False),
        ("model = DataParallel(model.cuda(), device_ids=list(range(2)))\n", False),
    ],
)
def test_another_gpu(text: str, other: bool) -> None:
    assert (OTHER in marks(text)) is other


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("import cupy\n", {ONLY}),
        ("from apex import amp\n", {ONLY}),
        ("try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n", set()),
        ("from ._ext import roi_pooling\n", {ONLY}),
        ("from . import nms_cuda\nx.cuda()\n", {ONLY}),
        ("import faiss\ndef f():\n    return faiss.StandardGpuResources()\n", {ONLY}),
        ("import faiss\ndef f(gpu):\n    if gpu:\n        return faiss.StandardGpuResources()\n", set()),
        ("from torch.utils.cpp_extension import load\nop = load('op', sources=['a.cpp', 'b.cu'])\n", {ONLY}),
        (
            "from torch.utils.cpp_extension import load\nop = load(\n    'op',\n"
            "    sources=[join(here, 'a.cpp'), join(here, 'b.cu')],\n)\n",
            {ONLY},
        ),
        ("assert torch.cuda.is_available()\n", {ONLY, INSISTS}),
        ("if args.cuda:\n    assert torch.cuda.is_available()\n", set()),
        ("def main():\n    assert torch.cuda.is_available()\n", {INSISTS}),
        ("def memory():\n    assert torch.cuda.is_available(), 'no'\n", set()),
        ("if __name__ == '__main__':\n    if not torch.cuda.is_available():\n        exit()\n", {INSISTS}),
        ("x.cuda()\ndef main():\n    dist.init_process_group(\n        'nccl')\n", {INSISTS}),
        ("x.cuda()\ndef main():\n    if args.distributed:\n        dist.init_process_group('nccl')\n", set()),
    ],
)
def test_cuda_only(text: str, only: set[str]) -> None:
    assert marks(text) & {ONLY, INSISTS} == only


def test_who_writes_checkpoints() -> None:
    assert WRITES in marks("torch.save(model.state_dict(), p)\n")
    assert WRITES not in marks("state = load_url(URL)\ntorch.save(state, 'vgg.pth')\n")
    assert WRITES not in marks("torch.load(p)\n")


def test_the_headers_above_a_place() -> None:
    text = b"def f(x):\n    if a:\n        b\n    elif c:\n\n        d\n    else:\n        here\n"
    above = [line.strip() for line in headers(text, text.index(b"here"))]
    assert above == [b"else:", b"elif c:", b"if a:", b"def f(x):"]
    assert headers(text, 2) == []


@pytest.mark.parametrize(
    ("saving", "cpu"),
    [
        ("torch.save(model.cpu().state_dict(), p)", True),
        ("torch.save(model.to('cpu').state_dict(), p)", True),
        ("for k in state_dict:\n    state_dict[k] = state_dict[k].cpu()\ntorch.save(state_dict, p)", True),
        ("w = OrderedDict([[k,\n    v.cpu()] for k, v in state_dict.items()])\ntorch.save(w, p)", True),
        (
            "def f():\n    model.cpu()\n" + "    print()\n" * 30 + "    torch.save(model.state_dict(), p)",
            True,
        ),
        ("def f():\n    model = model.cpu()\n    torch.save({'net': model.state_dict()}, p)", True),
        ("def f():\n    model.cpu()\n    model.to(device)\n    torch.save(model.state_dict(), p)", False),
        ("def f():\n    model.cpu()\ndef g():\n    torch.save(model.state_dict(), p)", False),
        ("def f():\n    other.cpu()\n    torch.save(model.state_dict(), p)", False),
        ("losses[k] = loss.item()\ntorch.save(model.state_dict(), p)  # on the cpu", False),
    ],
)
def test_saved_from_the_cpu(saving: str, cpu: bool) -> None:
    assert saves_from_cpu(saving.encode()) is cpu


BARE = {
    "in the function": ("def f(x):\n    return x.cuda()\n", True),
    "in what it calls": ("def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x.cuda()\n", True),
    "in another function": ("def f(x):\n    return x\n\n\ndef g(x):\n    return x.cuda()\n", False),
    "a condition": ("def f(x):\n    if use_cuda:\n        x = x.cuda()\n    return x\n", False),
    "the other arm": ("def f(x):\n    if not cuda:\n        y = 1\n    else:\n        x = x.cuda()\n", False),
    "another condition": ("def f(x):\n    if x.dim():\n        x = x.cuda()\n", True),
    "an expression": ("def f(x):\n    x = x.cuda() if gpu else x\n", False),
    "an early return": ("def f(x):\n    if not use_gpu:\n        return x\n    return x.cuda()\n", False),
    "what is asked to": ("def f(x):\n    return to_gpu(x)\n\n\ndef to_gpu(x):\n    return x.cuda()\n", False),
    "a comment": ("def f(x):\n    # x.cuda()\n    return x\n", False),
    "a docstring": ('def f(x):\n    """\n    >>> y = x.cuda()\n    """\n', False),
    "a default": ("def f(x, device='cuda'):\n    return x.to(device)\n", False),
    "a default on a line of its own": (
        "def f(\n    x,\n    size=(3, 4),\n    device=torch.device('cuda'),\n):\n    return x.to(device)\n", False,
    ),
    "a module's forward": (
        "def f(x):\n    return Net()(x)\n\n\nclass Net:\n    def forward(self, x):\n        return x.cuda()\n", True,
    ),
    "a method that nobody calls": (
        "def f(x):\n    return Net()(x)\n\n\nclass Net:\n    def old(self, x):\n        return x.cuda()\n", False,
    ),
    "a method by whose name something else is meant": (
        "def f(x):\n    return Net('test')\n\n\nclass Net:\n    def test(self, x):\n        return x.cuda()\n", False,
    ),
    "the program": ("def f(x):\n    return x\n\n\nf(torch.ones(3).cuda())\n", True),
    "a GPU by its number": ("def f(x):\n    return x.cuda(device=0)\n", True),
    "a GPU that is written down": (
        "def f(x):\n    where = torch.device('cuda:{}'.format(1))\n    return x.to(where)\n", True,
    ),
    "a device that is written down": ("device = 'cuda'\nf(net.to(device))\n", True),
    "a device that is written down, or chosen": (
        "device = 'cuda'\nif args.slow:\n    device = 'cpu'\nf(net.to(device))\n", False,
    ),
    "a device that is written down, for nothing": ("device = 'cuda'\nf(net)\n", False),
    "a device that is written down, and handed on": ("device = 'cuda'\nf(net.to(device),\n  device=device)\n", True),
    "a GPU of an option": ("def f(x):\n    return x.to(torch.device('cuda:{}'.format(args.gpu)))\n", False),
    "where a tensor is": (
        "def f(x):\n    if x.device != torch.device('cuda'):\n        x = x.to(torch.device('cuda'))\n", True,
    ),
    "where a tensor is, the other arm": (
        "def f(x):\n    if not x.is_cuda:\n        y = 1\n    else:\n        y = x.cuda()\n", False,
    ),
    "a call that raises": ("def f(x):\n    if x > 3:\n        torch.cuda.synchronize()\n", True),
    "a call that raises, for a profile": ("def f(x):\n    if profile:\n        torch.cuda.synchronize()\n", False),
    "a call that raises for any GPU": ("def f(x):\n    torch.cuda.set_device(args.gpu)\n", True),
    "a call that does not raise": ("def f(x):\n    torch.cuda.empty_cache()\n", False),
    "a method of an object that is given": (
        "def f(net):\n    net.infer(3)\n\n\nclass Net:\n    def infer(self, x):\n        return x.cuda()\n", True,
    ),
    "a method of one of two classes": (
        "def f(net):\n    net.infer(3)\n\n\nclass Net:\n    def infer(self, x):\n        return x.cuda()\n"
        "class Other:\n    def infer(self, x):\n        return x\n", False,
    ),
    "a command that is named by the command line": (
        "import fire\n\n\ndef train(x):\n    return x.cuda()\n\n\nif __name__:\n    fire.Fire()\n", True,
    ),
    "a class without methods": ("class Error(Exception):\n    pass\n\n\ndef f(x):\n    return x.cuda()\n", True),
}  # fmt: skip


@pytest.mark.parametrize("case", BARE)
def test_what_goes_to_cuda_without_asking(case: str) -> None:
    text, bare = BARE[case]
    assert goes_to_cuda(blocks_of(text.encode()), [], ["f"]) is bare


BOTH = "try:\n    from {} import {}\nexcept ImportError:\n    {}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (BOTH.format("a.ops", "f", "from .ops import f"), {b"a.ops", b".ops"}),
        (BOTH.format("a.ops", "f", "f = None"), set()),
        (BOTH.format("a.ops", "f", "raise ImportError('no ops')"), {b"a.ops"}),
        (BOTH.format("a.ops", "f", "from .others import f"), set()),
        (BOTH.format(".", "nms_cuda", "import nms_cuda"), {b".nms_cuda", b"nms_cuda"}),
        ("try:\n    import a\nfinally:\n    import a\n", set()),
        ("try:\n    import a\nexcept ImportError:\n    x = 1\nimport a\n", set()),
    ],
)
def test_what_is_imported_one_way_or_the_other(text: str, found: set[bytes]) -> None:
    assert tried_anyway(text.encode()) == found


def test_an_extension_that_is_imported_one_way_or_the_other() -> None:
    text = BOTH.format(".", "nms_cuda", "import nms_cuda") + "x.cuda()\n"
    assert ONLY in marks(text)
    assert ONLY not in marks(text.replace("    import nms_cuda", "    nms_cuda = None"))
    assert ONLY in marks("try:\n    import ops._ext as ops\nexcept ImportError:\n    raise\n")
