"""device-comparison: what can never hold, what it becomes, and what is left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.device_comparison import DeviceComparison

RULE = DeviceComparison()
SAFE, UNSAFE = Safety.SAFE, Safety.UNSAFE
TENSOR = "import torch\ndef f(x: torch.Tensor, y: torch.Tensor):\n    {}\n"
VARIABLE = (
    "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "def f(x: torch.Tensor):\n    {}\n"
)

# (name, program, before, after, safety)
FIXED = [
    ("equal", TENSOR, 'return x.device == "cuda"', 'return x.device.type == "cuda"', UNSAFE),
    ("not equal", TENSOR, 'return x.device != "cpu"', 'return x.device.type != "cpu"', UNSAFE),
    ("the other way round", TENSOR, 'return "mps" == x.device', 'return x.device.type == "mps"', UNSAFE),
    ("is", TENSOR, 'return x.device is "cpu"', 'return x.device.type == "cpu"', UNSAFE),
    ("with an index", TENSOR, 'return x.device == "cuda:1"', 'return x.device == torch.device("cuda:1")',
     UNSAFE),
    ("no such name", TENSOR, 'return x.device == "gpu"', 'return x.device.type == "cuda"', UNSAFE),
    ("minus one", TENSOR, "return x.device != -1", 'return x.device.type != "cpu"', UNSAFE),
    ("unquoted", TENSOR, "return x.device == cpu", 'return x.device.type == "cpu"', SAFE),
    ("in a tuple", TENSOR, 'return x.device in ("cuda", "mps")', 'return x.device.type in ("cuda", "mps")',
     UNSAFE),
    ("not in a list", TENSOR, 'return x.device not in ["cpu"]', 'return x.device.type not in ["cpu"]',
     UNSAFE),
    ("in a list with indexes", TENSOR, 'return x.device in ["cpu", "cuda:0"]',
     'return str(x.device) in ["cpu", "cuda:0"]', UNSAFE),
    ("text in it", TENSOR, 'return "cuda" in x.device', 'return x.device.type == "cuda"', SAFE),
    ("text not in it", TENSOR, 'return "cuda" not in x.device', 'return x.device.type != "cuda"', SAFE),
    ("colon in it", TENSOR, 'return ":" in x.device', "return x.device.index is not None", SAFE),
    ("startswith", TENSOR, 'return x.device.startswith("cuda")', 'return x.device.type == "cuda"', SAFE),
    ("printed", TENSOR, 'return str(x.device) == "cuda"', 'return x.device.type == "cuda"', UNSAFE),
    ("printed, f-string", TENSOR, 'return f"{x.device}" != "mps"', 'return x.device.type != "mps"', UNSAFE),
    ("printed, among others", TENSOR, 'return str(x.device) in ("cuda", "xpu")',
     'return x.device.type in ("cuda", "xpu")', UNSAFE),
    ("an index-less device", TENSOR, 'return x.device == torch.device("cuda")',
     'return x.device.type == "cuda"', UNSAFE),
    ("of an attribute", "import torch\ndef f(x: torch.nn.Module):\n    {}\n", 'return x.fc.weight.device != torch.device("cuda")',
     'return x.fc.weight.device.type != "cuda"', UNSAFE),
    ("of a module", TENSOR, 'return next(x.parameters()).device == "cpu"',
     'return next(x.parameters()).device.type == "cpu"', UNSAFE),
    ("identity", TENSOR, "return x.device is y.device", "return x.device == y.device", UNSAFE),
    ("identity, negated", TENSOR, "return x.device is not y.device", "return x.device != y.device", UNSAFE),
    ("a type with an index", TENSOR, 'return x.device.type == "cuda:0"', 'return x.device.type == "cuda"',
     UNSAFE),
    ("a type with another index", TENSOR, 'return x.device.type == "cuda:1"',
     'return x.device == torch.device("cuda:1")', UNSAFE),
    ("no such type", TENSOR, 'return x.device.type == "gpu"', 'return x.device.type == "cuda"', UNSAFE),
    ("a type with a device", TENSOR, "return x.device.type == y.device",
     "return x.device.type == y.device.type", UNSAFE),
    ("a name with text", VARIABLE, 'return device == "cuda"', 'return device.type == "cuda"', UNSAFE),
    ("a tensor's with a name", VARIABLE, "return x.device == device",
     "return x.device.type == device.type", UNSAFE),
    ("assertion", VARIABLE, "assert x.device == device", "assert x.device.type == device.type", SAFE),
    ("assertion with text", TENSOR, 'assert x.device == "cuda"', 'assert x.device.type == "cuda"', SAFE),
    ("a move that was never made", TENSOR, 'if x.device == "cpu": x = x.to(y.device)',
     'if x.device.type == "cpu": x = x.to(y.device)', SAFE),
    ("a move that was always made", TENSOR, 'if x.device != "cpu": x = x.cpu()',
     'if x.device.type != "cpu": x = x.cpu()', UNSAFE),
    ("a move that needs a GPU", TENSOR, 'if x.device == "cpu": x = x.cuda()',
     'if x.device.type == "cpu": x = x.cuda()', UNSAFE),
    ("a move and more", TENSOR, 'if x.device == "cpu": x = x.to(y.device) + 1',
     'if x.device.type == "cpu": x = x.to(y.device) + 1', UNSAFE),
    ("annotated", "import torch\ndef f(d: torch.device):\n    {}\n", 'return d == "cpu"',
     'return torch.device(d).type == "cpu"', UNSAFE),
    ("strings with an index",
     "import torch\ndevice = 'cuda:0' if torch.cuda.is_available() else 'cpu'\ndef f():\n    {}\n",
     'return device == "cuda"', 'return torch.device(device).type == "cuda"', UNSAFE),
    ("its type is read elsewhere", "import torch\nclass A:\n    def __init__(self, device):\n"
     "        self.device = device\n    def t(self):\n        return self.device.type\n    def f(self):\n        {}\n",
     'return self.device == "cpu"', 'return torch.device(self.device).type == "cpu"', UNSAFE),
    ("converted above",
     "import torch\ndef f(device):\n    if isinstance(device, str):\n"
     "        device = torch.device(device)\n    {}\n",
     'return device == "cpu"', 'return str(device).partition(":")[0] == "cpu"', UNSAFE),
    ("a model of a library", "import torch\nfrom diffusers import AutoencoderTiny\n"
     "def f(vae: 'AutoencoderTiny', z):\n    {}\n",
     'if vae.device == "cpu": vae.to(z.device)', 'if vae.device.type == "cpu": vae.to(z.device)', SAFE),
    ("an attribute of a library's class", "import torch\nfrom typing import Union\n"
     "from diffusers import AutoencoderKL\nclass T:\n    def __init__(self):\n"
     "        self.vae: Union[None, 'AutoencoderKL'] = None\n    def f(self, device):\n        {}\n",
     'if self.vae.device == "cpu": self.vae.to(device)',
     'if self.vae.device.type == "cpu": self.vae.to(device)', SAFE),
    ("a property", "import torch\nclass M(torch.nn.Module):\n    @property\n    def device(self):\n"
     "        return next(self.parameters()).device\n    def f(self):\n        {}\n",
     'return self.device == "cuda"', 'return self.device.type == "cuda"', UNSAFE),
    ("Lightning", "import torch\nimport pytorch_lightning as pl\nclass M(pl.LightningModule):\n"
     "    def f(self):\n        {}\n",
     'return self.device == "cuda"', 'return self.device.type == "cuda"', UNSAFE),
    ("an attribute", "import torch\nclass T:\n    def __init__(self):\n"
     "        self.device = torch.device('cuda')\n    def f(self):\n        {}\n",
     'return "cuda" in self.device', 'return self.device.type == "cuda"', SAFE),
    ("torch by another name", "import torch as th\ndef f(d: th.Tensor):\n    {}\n",
     'return d.device == "cuda:1"', 'return d.device == th.device("cuda:1")', UNSAFE),
    ("given by a function that says so", "import torch\nfrom lib import get_torch_device\n"
     "torch_device = get_torch_device()\n{}\n",
     "half = torch_device != 'cpu'", "half = torch.device(torch_device).type != 'cpu'", UNSAFE),
    ("looked at as a module", "import torch\ndef f(pipe):\n    {}\n",
     "return [v.device == 'cpu' for v in pipe if isinstance(v, torch.nn.Module)]",
     "return [torch.device(v.device).type == 'cpu' for v in pipe if isinstance(v, torch.nn.Module)]", UNSAFE),
    ("an index that the choice has", "import torch\n"
     "d = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')\nprint({})\n",
     "d == torch.device('cuda')", "d.type == 'cuda'", UNSAFE),
    ("a model of a library, moved at once", "import torch\nfrom transformers import AutoModel\n"
     "def f(device):\n    m = AutoModel.from_pretrained('x').to(device).eval()\n    {}\n",
     "return m.device == 'cuda'", "return m.device.type == 'cuda'", UNSAFE),
    ("printed, from elsewhere", "import torch\ndef f(device):\n    {}\n", "return str(device) == 'cuda'",
     "return torch.device(device).type == 'cuda'", UNSAFE),
    ("printed, of either", "import torch\ndef f(x: torch.Tensor):\n"
     "    d = x.device if torch.is_tensor(x) else 'cpu'\n    {}\n", "return str(d) == 'mps'",
     "return torch.device(d).type == 'mps'", UNSAFE),
    ("a library's variable", "import torch\nimport flair\ndef f():\n    {}\n", "return flair.device != 'cpu'",
     "return flair.device.type != 'cpu'", UNSAFE),
    ("-1 among strings", "import torch\ndef f(x, device):\n    if device != 'cpu': x = x.cuda()\n    {}\n",
     "if device != -1: x = x.cuda()", 'if torch.device(device).type != "cpu": x = x.cuda()', UNSAFE),
    ("a name that torch does not take", "import torch\nimport lib\ndef f(x):\n    x.to(lib.device)\n    {}\n",
     "return lib.device == 'gpu'", "return torch.device(lib.device).type == 'cuda'", UNSAFE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "before", "after", "safety"), [case[1:] for case in FIXED], ids=[case[0] for case in FIXED]
)
def test_fixed(program: str, before: str, after: str, safety: Safety) -> None:
    text = program.format(before)
    (finding,) = findings(RULE, text)
    assert finding.fix is not None and finding.fix.safety is safety
    assert fixed(RULE, text) == program.format(after)


SILENT = {
    "nothing but None": "t = torch.ones(1, device='cuda')\nx = None\nassert x == 'cuda'\n",
    "a choice without an index": "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
    "print(d == torch.device('cuda'))\n",
    "an attribute that may be of a class of one's own": "from diffusers import AutoencoderKL\n"
    "class T:\n    vae: 'AutoencoderKL | Mine'\n    def f(self):\n        return self.vae.device == 'cpu'\n",
    "an attribute of a class of one's own": "class T:\n    def __init__(self):\n        self.vae: Mine = Mine()\n"
    "    def f(self):\n        return self.vae.device == 'cpu'\n",
    "a result that has its index": "def named(d):\n    d = torch.device(d)\n    if d.index is None:\n"
    "        return f'cuda:{torch.cuda.current_device()}'\n    return str(d)\nassert named('cuda') == 'cuda:3'\n",
    "one of several GPUs is asked for": "def named(d):\n    if d is None:\n"
    "        return f'cuda:{torch.cuda.current_device()}'\n    return 'cuda'\nassert named(d) == 'cuda:3'\n",
    "strings": "def f(device='cuda'):\n    return device == 'cpu'\n",
    "unknown": "def f(device):\n    return device == 'cpu' or 'cuda' in device\n",
    "types": "def f(x: torch.Tensor):\n    return x.device.type == 'cuda'\n",
    "devices": "def f(x: torch.Tensor, y: torch.Tensor):\n    return x.device == y.device\n",
    "the CPU has no index": "def f(x: torch.Tensor):\n    return x.device == torch.device('cpu')\n",
    "meta has none either": "def f(x: torch.Tensor):\n    return x.device == torch.device('meta')\n",
    "an index": "def f(x: torch.Tensor):\n    return x.device == torch.device('cuda:0')\n",
    "an unknown index": "def f(x: torch.Tensor, i):\n    return x.device == torch.device('cuda', i)\n",
    "an unknown device": "def f(x: torch.Tensor, d):\n    return x.device == torch.device(d)\n",
    "printed cpu": "def f(x: torch.Tensor):\n    return str(x.device) == 'cpu'\n",
    "printed with an index": "def f(x: torch.Tensor):\n    return str(x.device) == 'cuda:0'\n",
    "looked for in its text": "def f(x: torch.Tensor):\n    return 'cuda' in str(x.device)\n",
    "printed, without an index": "d = torch.device('cuda')\ndef f():\n    return str(d) == 'cuda'\n",
    "none": "def f(x: torch.Tensor, d: torch.device = None):\n    return d is None or x.device == d\n",
    "a string attribute": "class B:\n    def __init__(self):\n        self.device = 'cuda'\n"
    "    def f(self):\n        return self.device == 'cuda' or 'cuda' in self.device\n",
    "given an attribute": "class B:\n    def __init__(self, device):\n        self.device = device\n"
    "    def f(self):\n        return self.device == 'cuda'\n",
    "set by name": "class B:\n    def __init__(self, **kw):\n        for k in kw:\n"
    "            setattr(self, k, kw[k])\n"
    "        self.device = torch.device('cpu')\n    def f(self):\n        return self.device == 'cpu'\n",
    "an object of this file": "class B:\n    def __init__(self):\n        self.device = 'cuda'\n"
    "b = B()\nb.to('cuda')\nprint(b.device == 'cuda')\n",
    "a property with a setter": "def f(m):\n    m.device = torch.device('cpu')\n"
    "    return m.device == 'cpu'\n",
    "options": "def f(args):\n    loss = args.backward\n    return args.device == 'cpu'\n",
    "argparse": "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
    "if args.backward: print(args.device == 'cpu')\n",
    "argparse, before a device is stored": "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
    "if 'cuda' in args.device:\n    args.device = torch.device(args.device, 0)\n",
    "options with a dtype": "def f(args):\n    kind = KINDS[args.dtype]\n    torch.manual_seed(args.seed)\n"
    "    return 'cuda' in args.device\n",
    "both kinds at once": "def f(d: torch.device):\n"
    "    return d == 'cpu' or d == torch.device('cpu') or d.type == 'x'\n",
    "told apart": "def f(d: torch.device):\n    if isinstance(d, str):\n        return d == 'cpu'\n"
    "    return d.type\n",
    "told apart by hasattr": "def f(x: torch.Tensor):\n    d = x.device\n"
    "    return hasattr(d, 'type') and d.type == 'cpu' or d == 'cpu'\n",
    "default is a string": "def f(d: torch.device = 'cpu'):\n    return d == 'cpu'\n",
    "bound to both": "def f(x: torch.Tensor, s):\n    d = x.device\n    if s:\n        d = 'cpu'\n"
    "    return d == 'cpu'\n",
    "type read elsewhere": "def f(d):\n    return d.type\ndef g(d):\n    return d == 'cpu'\n",
    "type read of another binding": "def f(d):\n    t = d.type\n    d = g()\n    return d == 'cpu'\n",
    "a move to the other's device": "device = torch.device('cuda')\ndef f(x: torch.Tensor):\n"
    "    if x.device != device:\n        x = x.to(device)\n    return x\n",
    "no device at all": "def f(x: torch.Tensor):\n    return x.device == 'disk'\n",
    "gpu as a word of one's own": "def f(device):\n    return device == 'gpu' or device == 'cpu'\n",
    "a word that is replaced by a device": "import torch\ndef f(args, model):\n"
    "    args.device = torch.device('cuda' if args.device == 'gpu' else 'cpu')\n    model.to(args.device)\n",
    "-1 as an index": "def f(device):\n    return device == -1\n",
    "-1 or a string": "def f(device):\n    return device == -1 or device == 'cpu'\n",
    "cpu is a name here": "cpu = torch.device('cpu')\ndef f(x: torch.Tensor):\n    return x.device == cpu\n",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert not findings(RULE, "import torch\n" + text)


def test_torch_is_imported_where_the_fix_needs_it() -> None:
    text = "from torch import Tensor\ndef f(x: Tensor):\n    return x.device == 'cuda:1'  # torch\n"
    assert "import torch\n" in fixed(RULE, text)


def test_a_comparison_inside_a_larger_one_stays_whole() -> None:
    text = TENSOR.format("return x.device.startswith('cuda') == True")
    assert "return (x.device.type == 'cuda') == True" in fixed(RULE, text)


def test_a_move_in_place_is_no_proof_of_a_device() -> None:
    """A prior of a library may keep its device as a string, as `BoxUniform` of sbi does."""
    text = """\
from torch import zeros
from sbi.utils import BoxUniform


def test_prior(device):
    prior = BoxUniform(zeros(1), zeros(1))
    assert prior.device == "cpu", "not on the CPU"
    prior.to(device)
"""
    assert findings(DeviceComparison(), text) == []


TYPES = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, y):
        if CHECK:
            x = x + y
        return x
"""


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("isinstance(x, torch.LongTensor)", "(isinstance(x, torch.Tensor) and x.dtype == torch.int64)"),
        (
            "not isinstance(x, (torch.FloatTensor, torch.HalfTensor))",
            "not (isinstance(x, torch.Tensor) and x.dtype in (torch.float32, torch.float16))",
        ),
        ("x.type() == 'torch.FloatTensor'", "x.dtype == torch.float32"),
        ("x.type() != 'torch.LongTensor'", "x.dtype != torch.int64"),
        ("isinstance(x, torch.Tensor)", ""),
        ("isinstance(x, (torch.FloatTensor, list))", ""),
        ("isinstance(x, ())", ""),
        ("isinstance(x, torch.FloatTensor) or isinstance(x, torch.cuda.FloatTensor)", ""),
        ("x.type() == 'torch.cuda.FloatTensor'", ""),
        ("x.type() == y.type()", ""),
    ],
)
def test_types_that_only_tensors_on_the_cpu_have(check: str, expected: str) -> None:
    text = TYPES.replace("CHECK", check)
    got = findings(RULE, text)
    assert len(got) == bool(expected)
    assert fixed(RULE, text) == TYPES.replace("CHECK", expected or check)
    assert fixed(RULE, text, Safety.SAFE) == text


@pytest.mark.parametrize(
    "code",
    [
        "class Data(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
        "        assert isinstance(self.rows[i], torch.LongTensor)\n    def __len__(self):\n        return 3\n",
        "def read(rows):\n    assert isinstance(rows, torch.LongTensor)\n",
        TYPES.replace(
            "if CHECK:\n            x = x + y",
            "if isinstance(x, torch.LongTensor):\n            x = x.numpy()",
        ),
    ],
)
def test_data_of_the_cpu_may_be_asked_for_its_type(code: str) -> None:
    assert findings(RULE, f"import torch\n{code}") == []
