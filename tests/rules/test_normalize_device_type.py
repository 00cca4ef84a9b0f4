"""normalize-device-type: what it changes, to exactly what, and what it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import devfix
import pytest
from devfix.findings import Finding, Safety
from devfix.flow import analyse
from devfix.rewrite import apply, text_edits
from devfix.rules.normalize_device_type import NormalizeDeviceType
from devfix.text.source import Source

RULE = NormalizeDeviceType(all=True)


def findings(text: str, rule: NormalizeDeviceType = RULE) -> list[Finding]:
    return list(rule.check(analyse(Source(text)))) if rule.wants(text) else []


def fixed(text: str, level: Safety = Safety.UNSAFE) -> str:
    """The text after every fix of that safety, one after the other."""
    for _ in range(20):
        fixes = [f.fix for f in findings(text) if f.fix is not None and f.fix.safety >= level]
        if not fixes:
            return text
        text = apply(text, text_edits(Source(text), fixes[0]))
    raise AssertionError("the fixes come to no end")


@dataclass(frozen=True)
class Case:
    name: str
    before: str
    after: str | None  # None: silent
    safety: Safety = Safety.SAFE

    def program(self, body: str) -> str:
        text = dedent(body)
        return text if "import" in text else "import torch\n" + text


def silent(name: str, text: str) -> Case:
    return Case(name, text, None)


FORM = [
    Case("a test, which is mostly given a type", "def test_f(device):\n    return torch.autocast(device)\n",
         "def test_f(device):\n    return torch.autocast(torch.device(device).type)\n", Safety.UNSAFE),
    Case("unknown device", "def f(device):\n    return torch.autocast(device)\n",
         "def f(device):\n    return torch.autocast(torch.device(device).type)\n"),
    Case("keyword", "def f(self, x):\n    return torch.amp.autocast(device_type=self.device, dtype=x)\n",
         "def f(self, x):\n"
         "    return torch.amp.autocast(device_type=torch.device(self.device).type, dtype=x)\n"),
    Case("torch.device for certain", "device = torch.device('cuda:1')\nc = torch.autocast(device)\n",
         "device = torch.device('cuda:1')\nc = torch.autocast(device.type)\n"),
    Case("constructed in place", "c = torch.autocast(torch.device('cuda:1'))\n",
         "c = torch.autocast(torch.device('cuda:1').type)\n"),
    Case("annotated parameter", "def f(where: torch.device):\n    return torch.autocast(where)\n",
         "def f(where: torch.device):\n    return torch.autocast(where.type)\n"),
    Case("of a tensor", "def f(x: torch.Tensor):\n    return torch.autocast(x.device)\n",
         "def f(x: torch.Tensor):\n    return torch.autocast(x.device.type)\n"),
    Case("of a model", "def f(model):\n    return torch.autocast(next(model.parameters()).device)\n",
         "def f(model):\n    return torch.autocast(next(model.parameters()).device.type)\n"),
    Case("index", "c = torch.autocast('cuda:0', dtype=torch.float16)\n",
         "c = torch.autocast('cuda', dtype=torch.float16)\n"),
    Case("index of a rank", 'def f(rank):\n    return torch.autocast(f"cuda:{rank}")\n',
         'def f(rank):\n    return torch.autocast("cuda")\n'),
    Case("f-string of a device", 'device = torch.device("cuda", 1)\nc = torch.autocast(f"{device}")\n',
         'device = torch.device("cuda", 1)\nc = torch.autocast(device.type)\n'),
    Case("index put together", 'def f(i):\n'
         '    return torch.autocast("cuda:" + str(i)), torch.autocast("cuda:%d" % i)\n',
         'def f(i):\n    return torch.autocast("cuda"), torch.autocast("cuda")\n'),
    Case("part of a string", "def f(device):\n    return torch.autocast(str(device)[:4])\n",
         "def f(device):\n    return torch.autocast(torch.device(device).type)\n"),
    Case("str()", "def f(device):\n    return torch.autocast(str(device))\n",
         "def f(device):\n    return torch.autocast(torch.device(device).type)\n"),
    Case("str() of torch.device", "device = torch.device('cuda:0')\nc = torch.autocast(str(device))\n",
         "device = torch.device('cuda:0')\nc = torch.autocast(device.type)\n"),
    Case("replace", "def f(device):\n    return torch.autocast(str(device).replace(':0', ''))\n",
         "def f(device):\n    return torch.autocast(torch.device(device).type)\n"),
    Case("slice", "def f(self):\n    return torch.autocast(self.device[:4])\n",
         "def f(self):\n    return torch.autocast(torch.device(self.device).type)\n"),
    Case("last character", "def f(self):\n    return torch.autocast(self.device[-1])\n",
         "def f(self):\n    return torch.autocast(torch.device(self.device).type)\n"),
    Case("split of torch.device",
         "device = torch.device('cuda:0')\nc = torch.autocast(device.split(':')[0])\n",
         "device = torch.device('cuda:0')\nc = torch.autocast(device.type)\n"),
    Case("joined strings", """\
        def f(rank, ddp):
            if ddp:
                device = f"cuda:{rank}"
            else:
                device = "cuda" if torch.cuda.is_available() else "cpu"
            with torch.autocast(device_type=device, dtype=torch.bfloat16):
                pass
        """, """\
        def f(rank, ddp):
            if ddp:
                device = f"cuda:{rank}"
            else:
                device = "cuda" if torch.cuda.is_available() else "cpu"
            with torch.autocast(device_type=torch.device(device).type, dtype=torch.bfloat16):
                pass
        """),
    Case("an arm", "def f(device, on):\n    return torch.autocast(device if on else 'cpu')\n",
         "def f(device, on):\n    return torch.autocast(torch.device(device).type if on else 'cpu')\n"),
    Case("either", "def f(device):\n    return torch.autocast(device or 'cuda')\n",
         "def f(device):\n    return torch.autocast(torch.device(device or 'cuda').type)\n"),
    Case("type of a string", "device = 'cuda:0'\nc = torch.autocast(device.type)\n",
         "device = 'cuda:0'\nc = torch.autocast(torch.device(device).type)\n"),
    Case("called a type, but a device", "def f(x: torch.Tensor):\n    device_type = x.device\n"
         "    return torch.autocast(device_type)\n",
         "def f(x: torch.Tensor):\n    device_type = x.device\n    return torch.autocast(device_type.type)\n"
         ""),
    Case("several lines", """\
        def f(device, dtype):
            with torch.autocast(
                device_type=device,  # where we are
                dtype=dtype,
            ):
                pass
        """, """\
        def f(device, dtype):
            with torch.autocast(
                device_type=torch.device(device).type,  # where we are
                dtype=dtype,
            ):
                pass
        """),
    Case("option with a free choice", """\
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        args = parser.parse_args()
        c = torch.autocast(args.device)
        """, """\
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", default="cuda")
        args = parser.parse_args()
        c = torch.autocast(torch.device(args.device).type)
        """),
]  # fmt: skip

SPELLING = [
    Case("from-import", "from torch import autocast\n\ndef f(device):\n    return autocast(device)\n",
         "from torch import autocast\nimport torch\n\ndef f(device):\n"
         "    return autocast(torch.device(device).type)\n"),
    Case("alias of torch", "import torch as th\nc = th.autocast(th.device('cuda'))\nd = lambda device: "
         "th.autocast(device)\n",
         "import torch as th\nc = th.autocast(th.device('cuda').type)\nd = lambda device: "
         "th.autocast(th.device(device).type)\n"),
    Case("autocast_mode", "import torch\nfrom torch.amp import autocast_mode as m\n"
         "def f(device):\n    return m.autocast(device)\n",
         "import torch\nfrom torch.amp import autocast_mode as m\n"
         "def f(device):\n    return m.autocast(torch.device(device).type)\n"),
    Case("local alias", "ac = torch.autocast\ndef f(device):\n    return ac(device)\n",
         "ac = torch.autocast\ndef f(device):\n    return ac(torch.device(device).type)\n"),
    Case("partial", "import torch\nfrom functools import partial\n"
         "def f(device):\n    return partial(torch.autocast, device_type=device, dtype=torch.float16)\n",
         "import torch\nfrom functools import partial\n"
         "def f(device):\n    return partial(torch.autocast, device_type=torch.device(device).type, "
         "dtype=torch.float16)\n"),
    Case("decorator", "device = torch.device('cuda:0')\n@torch.autocast(device_type=device)\ndef f(device):\n"
         "    return 1\n",
         "device = torch.device('cuda:0')\n@torch.autocast(device_type=device.type)\ndef f(device):\n"
         "    return 1\n"),
    Case("dtype of a device", "def f(x: torch.Tensor):\n    return torch.get_autocast_dtype(x.device)\n",
         "def f(x: torch.Tensor):\n    return torch.get_autocast_dtype(x.device.type)\n"),
    Case("wrapper from elsewhere", "import torch\nfrom lib import TorchAutocast\n"
         "class A:\n    def f(self, dtype):\n"
         "        return TorchAutocast(device_type=self.device, dtype=dtype)\n",
         "import torch\nfrom lib import TorchAutocast\n"
         "class A:\n    def f(self, dtype):\n"
         "        return TorchAutocast(device_type=torch.device(self.device).type, dtype=dtype)\n"),
    Case("wrapping class", """\
        class Amp:
            def __init__(self, *args, **kwargs):
                self.context = torch.autocast(*args, **kwargs)

        def f(device):
            return Amp(device), Amp(device_type="cuda:0")
        """, """\
        class Amp:
            def __init__(self, *args, **kwargs):
                self.context = torch.autocast(*args, **kwargs)

        def f(device):
            return Amp(torch.device(device).type), Amp(device_type="cuda")
        """),
    Case("wrapper of a wrapper", """\
        def amp(dtype, device_type):
            return torch.autocast(device_type, dtype)

        def half(device_type):
            return amp(torch.float16, device_type)

        def f(x: torch.Tensor):
            return half(x.device)
        """, """\
        def amp(dtype, device_type):
            return torch.autocast(device_type, dtype)

        def half(device_type):
            return amp(torch.float16, device_type)

        def f(x: torch.Tensor):
            return half(x.device.type)
        """),
    Case("method", """\
        class A:
            def amp(self, device_type):
                return torch.autocast(device_type)

            def f(self):
                return self.amp(self.device)
        """, """\
        class A:
            def amp(self, device_type):
                return torch.autocast(device_type)

            def f(self):
                return self.amp(torch.device(self.device).type)
        """),
    Case("put right in the wrapper", """\
        def amp(device):
            return torch.autocast(device)

        def f(x: torch.Tensor):
            return amp(x.device)
        """, """\
        def amp(device):
            return torch.autocast(torch.device(device).type)

        def f(x: torch.Tensor):
            return amp(x.device)
        """),
]  # fmt: skip

MODULE = [
    Case("no device in a plain module", """\
        class Rope(torch.nn.Module):
            def forward(self, freqs: torch.Tensor):
                with torch.autocast(self.device.type, torch.float32):
                    return freqs * 2
        """, """\
        class Rope(torch.nn.Module):
            def forward(self, freqs: torch.Tensor):
                with torch.autocast(freqs.device.type, torch.float32):
                    return freqs * 2
        """),
    silent("device as a property", """\
        class Rope(torch.nn.Module):
            @property
            def device(self):
                return self.weight.device

            def forward(self, freqs: torch.Tensor):
                with torch.autocast(self.device.type, torch.float32):
                    return freqs * 2
        """),
    silent("device of a base", """\
        class Rope(Base):
            def forward(self, freqs: torch.Tensor):
                with torch.autocast(self.device.type, torch.float32):
                    return freqs * 2
        """),
    Case("membership", """\
        class Trainer:
            def __init__(self, device: str = "cpu"):
                self.device = device
                if "cuda" in self.device:
                    self.kind = "cuda"
                else:
                    self.kind = "cpu"

            def train(self):
                with torch.autocast(device_type=self.kind):
                    pass
        """, """\
        class Trainer:
            def __init__(self, device: str = "cpu"):
                self.device = device
                if torch.device(self.device).type == "cuda":
                    self.kind = "cuda"
                else:
                    self.kind = "cpu"

            def train(self):
                with torch.autocast(device_type=self.kind):
                    pass
        """),
    Case("membership in place",
         "def f(device):\n    return torch.autocast('cuda' if 'cuda' in device else 'cpu')\n",
         "def f(device):\n"
         "    return torch.autocast('cuda' if torch.device(device).type == 'cuda' else 'cpu')\n"),
    Case("membership of an option",
         "def f(args):\n    return torch.autocast('cuda' if 'cuda' in args.device else 'cpu')\n",
         "def f(args):\n"
         "    return torch.autocast('cuda' if torch.device(args.device).type == 'cuda' else 'cpu')\n",
         Safety.UNSAFE),
    silent("membership of a string", "device = 'cuda:0'\nt = 'cuda' if 'cuda' in device else 'cpu'\n"
           "c = torch.autocast(t)\n"),
    silent("membership behind isinstance", """\
        def f(device):
            if isinstance(device, torch.device):
                kind = device.type
            else:
                kind = "cuda" if "cuda" in device else "cpu"
            return torch.autocast(kind)
        """),
]  # fmt: skip

U = Safety.UNSAFE
FOLLOW = [
    Case("input of forward", """\
        class Net(torch.nn.Module):
            def forward(self, x):
                with torch.autocast("cuda", enabled=self.amp):
                    return self.layer(x)
        """, """\
        class Net(torch.nn.Module):
            def forward(self, x):
                with torch.autocast(x.device.type, enabled=self.amp):
                    return self.layer(x)
        """, U),
    Case("device in a script", """\
        import os, torch
        device = torch.device(os.environ.get("DEVICE", "cpu"))
        model = torch.nn.Linear(2, 2).to(device)
        with torch.cuda.amp.autocast():
            model(torch.ones(1, 2, device=device))
        """, """\
        import os, torch
        device = torch.device(os.environ.get("DEVICE", "cpu"))
        model = torch.nn.Linear(2, 2).to(device)
        with torch.autocast(device.type):
            model(torch.ones(1, 2, device=device))
        """, U),
    Case("positional arguments become keywords", """\
        def f(model, x, device, amp, half):
            with torch.cuda.amp.autocast(amp, half, cache_enabled=False):
                return model(x.to(device))
        """, """\
        def f(model, x, device, amp, half):
            with torch.autocast(torch.device(device).type, enabled=amp, dtype=half, cache_enabled=False):
                return model(x.to(device))
        """, U),
    Case("import added", """\
        from torch.cuda.amp import autocast

        def f(model, x, device, amp):
            with autocast(enabled=amp):
                return model(x.to(device))
        """, """\
        from torch.cuda.amp import autocast
        import torch

        def f(model, x, device, amp):
            with torch.autocast(torch.device(device).type, enabled=amp):
                return model(x.to(device))
        """, U),
    Case("several lines", """\
        def f(model, x, device, amp):
            with torch.cuda.amp.autocast(
                enabled=amp,  # by option
            ):
                return model(x.to(device))
        """, """\
        def f(model, x, device, amp):
            with torch.autocast(
                enabled=amp,  # by option
                device_type=torch.device(device).type,
            ):
                return model(x.to(device))
        """, U),
    Case("accelerate", """\
        import torch
        from accelerate import Accelerator

        def f(pipe):
            accelerator = Accelerator()
            with torch.autocast("cuda"):
                return pipe().to(accelerator.device)
        """, """\
        import torch
        from accelerate import Accelerator

        def f(pipe):
            accelerator = Accelerator()
            with torch.autocast(accelerator.device.type):
                return pipe().to(accelerator.device)
        """, U),
    Case("switched off", """\
        def loss(pred: torch.Tensor, target: torch.Tensor):
            with torch.cuda.amp.autocast(enabled=False):
                return (pred.float() - target).abs().mean()
        def step(net, x: torch.Tensor, y):
            with torch.autocast(x.device.type):
                return loss(net(x), y)
        """, """\
        def loss(pred: torch.Tensor, target: torch.Tensor):
            with torch.autocast(pred.device.type, enabled=False):
                return (pred.float() - target).abs().mean()
        def step(net, x: torch.Tensor, y):
            with torch.autocast(x.device.type):
                return loss(net(x), y)
        """, U),
    Case("asks the machine", """\
        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
                    return self.layer(x)
        """, """\
        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                with torch.autocast(x.device.type):
                    return self.layer(x)
        """, U),
    Case("asks the machine, in a class that knows its device", """\
        class Runner:
            def __init__(self, device):
                self.device = device
            def context(self):
                kind = "cpu" if not torch.cuda.is_available() else "cuda"
                return torch.autocast(device_type=kind)
        """, """\
        class Runner:
            def __init__(self, device):
                self.device = device
            def context(self):
                kind = "cpu" if not torch.cuda.is_available() else "cuda"
                return torch.autocast(device_type=torch.device(self.device).type)
        """, U),
    Case("enabled by the machine", """\
        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                with torch.cuda.amp.autocast(torch.cuda.is_available()):
                    return self.layer(x)
        """, """\
        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                with torch.cuda.amp.autocast(x.device.type == "cuda"):
                    return self.layer(x)
        """),
]  # fmt: skip

SILENT = [
    silent("type", "def f(device):\n    return torch.autocast(device.type)\n"),
    silent("type of torch.device", "def f(device):\n    return torch.autocast(torch.device(device).type)\n"),
    silent("compared just above", "def f(device: torch.device):\n    if str(device) == 'cpu':\n"
           "        return torch.autocast(str(device))\n"),
    silent("named a type", "def f(device_type):\n    return torch.autocast(device_type=device_type)\n"),
    silent("attribute named a type", "def f(self):\n    return torch.amp.autocast(self.device_type)\n"),
    silent("switched off, and nothing switches it on", """\
        def loss(pred: torch.Tensor, target: torch.Tensor):
            with torch.cuda.amp.autocast(enabled=False):
                return (pred.float() - target).abs().mean()
        def step(net, x: torch.Tensor, y):
            with torch.cuda.amp.autocast():
                return loss(net(x.cuda()), y.cuda())
        """),
    silent("a variable that only holds types",
           "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nc = torch.autocast(device)\n"),
    silent("callers that only pass types",
           "def amp(device):\n    return torch.autocast(device)\n\ndef f(x):\n"
         "    return amp(x.device.type)\n"),
    silent("choices", """\
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=["cpu", "cuda"])
        args = parser.parse_args()
        c = torch.autocast(args.device)
        """),
    silent("literal annotation", "import torch\nfrom typing import Literal\n"
           "def f(device: Literal['cpu', 'cuda']):\n    return torch.autocast(device)\n"),
    silent("split of a string", "def f(device):\n    return torch.autocast(device.split(':')[0])\n"),
    silent("split of str()", "def f(device):\n    return torch.autocast(str(device).split(':')[0])\n"),
    silent("isinstance",
           "def f(device):\n"
         "    return torch.autocast(device.type if isinstance(device, torch.device) else device)\n"),
    silent("looks for the colon",
           "def f(device):\n    return torch.autocast(device.split(':')[0] if ':' in device else device)\n"),
    silent("a helper that tells", "def f(device):\n    return torch.autocast(get_autocast_device(device))\n"),
    silent("mps is mapped",
         "def f(device):\n    return torch.autocast(device.type if device.type != 'mps' else 'cpu')\n"),
    silent("a scaler runs with any device", """\
        def f(model: torch.nn.Module, x: torch.Tensor):
            torch.GradScaler(device="cuda:0")
            return torch.amp.GradScaler(x.device)
        """),
    silent("only a string gets further", """\
        def fwd(x, device: torch.device = None):
            device = device if isinstance(device, str) and device != "mps" else "cpu"
            with torch.autocast(device_type=device, enabled=False):
                return x.cos()
        """),
    silent("CUDA only", """\
        model = torch.nn.Linear(2, 2).cuda()
        with torch.cuda.amp.autocast():
            model(torch.ones(1, 2).cuda())
        """),
    silent("CUDA only by its device", """\
        device = torch.device("cuda")
        model = torch.nn.Linear(2, 2).to(device)
        with torch.cuda.amp.autocast():
            model(torch.ones(1, 2, device=device))
        """),
    silent("no device at hand",
         "def f(model, batch):\n    with torch.cuda.amp.autocast():\n        return model(**batch)\n"),
    silent("guarded by the type", """\
        def f(model, x: torch.Tensor):
            if x.device.type == "cuda":
                with torch.autocast("cuda"):
                    return model(x)
        """),
    silent("enabled by the type", """\
        def f(model, x: torch.Tensor):
            with torch.cuda.amp.autocast(enabled=x.is_cuda):
                return model(x)
        """),
    silent("enabled by a variable", """\
        def f(model, x, device):
            amp = device.type != "cpu"
            with torch.cuda.amp.autocast(enabled=amp):
                return model(x.to(device))
        """),
    silent("left before", """\
        def f(model, x: torch.Tensor):
            if not x.is_cuda:
                return model(x)
            with torch.autocast("cuda"):
                return model(x)
        """),
    silent("device and type by the same test", """\
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        with torch.autocast("cuda" if torch.cuda.is_available() else "cpu"):
            torch.ones(2, device=device)
        """),
    silent("a class whose device is by the same test", """\
        class Runner:
            def __init__(self):
                self.device = "cuda" if torch.cuda.is_available() else "cpu"
            def context(self):
                return torch.autocast("cuda" if torch.cuda.is_available() else "cpu")
        """),
    silent("cpu on purpose", "def f(device):\n    return torch.autocast('cpu', dtype=torch.bfloat16)\n"),
    silent("NVIDIA's library", """\
        import tensorrt, torch
        def f(self, device):
            with torch.autocast("cuda"):
                return self.engine.run(device)
        """),
    silent("a loss has no parameters to ask", """\
        def step(self, criterion: torch.nn.Module, batch):
            with torch.cuda.amp.autocast(enabled=False):
                return criterion(**batch)
        """),
    silent("where a model is made is not where its data is", """\
        def test(model, batch, init_device):
            with torch.cuda.amp.autocast(enabled=True):
                return model(**batch)
        """),
    silent("only run with CUDA", """\
        import pytest, torch
        @pytest.mark.gpu
        def test(model, x: torch.Tensor, device):
            with torch.autocast("cuda"):
                return model(x.to(device))
        """),
    silent("a device of a file that is not in view",
           "from settings import device\nc = torch.autocast(device)\n"),
    silent("a function of a file that is not in view", """\
        from tools import pick_device
        class A:
            device = pick_device()
            def f(self):
                return torch.autocast(self.device)
        """),
    silent("one type or another, from functions", """\
        import torch
        def pick():
            if torch.cuda.is_available():
                return "cuda", 1
            return "cpu", 0
        device, count = pick()
        c = torch.autocast(device)
        """),
    silent("a property of a base class that gives a type", """\
        class Base:
            @property
            def device(self):
                return "cuda" if torch.cuda.is_available() else "cpu"
        class Middle(Base):
            pass
        class Trainer(Middle):
            def step(self, x):
                with torch.autocast(self.device, enabled=self.amp):
                    return self.net(x)
            def test(self, x):
                device = self.device
                with torch.autocast(f"{self.device}"), torch.autocast(device):
                    return self.net(x)
        """),
    silent("an attribute that a base class sets to a type", """\
        class Base:
            def __init__(self, gpu):
                self.device = "cuda" if gpu else "cpu"
        class Trainer(Base):
            def step(self, x):
                with torch.autocast(self.device):
                    return self.net(x)
        """),
    silent("only types go on", """\
        def f(device, x):
            if device not in ("cuda", "cpu"):
                raise ValueError(device)
            with torch.autocast(device):
                return x @ x
        """),
    silent("made a type where it is no text", """\
        class Trainer:
            def __init__(self, device):
                if isinstance(device, torch.device):
                    device = device.type
                self.device = device
            def step(self, x):
                with torch.autocast(self.device):
                    return self.net(x)
        """),
    silent("a text that is no device", """\
        def f(x, device="auto"):
            kind = "cuda" if "cuda" in device else "cpu"
            with torch.autocast(kind):
                return x @ x
        """),
    silent("where there is no CUDA, half precision is off", """\
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = torch.nn.Linear(2, 2).to(device)
        with torch.cuda.amp.autocast():
            model(torch.ones(1, 2, device=device))
        """),
    silent("a device that is bound later", """\
        def f(model, batch):
            with torch.autocast("cuda"):
                y = model(batch)
            device = y.where
            return device
        """),
]  # fmt: skip

ALL = [*FORM, *SPELLING, *MODULE, *FOLLOW, *SILENT]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    before = case.program(case.before)
    found = findings(before)
    if case.after is None:
        assert [finding.message for finding in found] == []
        return
    after = case.program(case.after)
    assert fixed(before) == after
    assert {finding.fix.safety for finding in found if finding.fix} == {case.safety}
    assert findings(after) == []  # a second run has nothing to say
    if case.safety is Safety.UNSAFE:
        assert fixed(before, Safety.SAFE) == before


def test_examples() -> None:
    for example in RULE.examples:
        if not example.options and example.after is None:
            assert findings(example.before, NormalizeDeviceType()) == [], example.title
            continue
        found = findings(example.before)
        if example.after is None:
            assert found == [], example.title
        else:
            assert fixed(example.before) == example.after, example.title
            assert [finding.fix.safety for finding in found if finding.fix] == [example.safety]
            assert findings(example.after) == [], example.title


def test_decorator_with_hard_coded_type_has_no_fix() -> None:
    text = dedent("""\
        import torch
        class Loss(torch.nn.Module):
            @torch.cuda.amp.autocast()
            def forward(self, x: torch.Tensor):
                return self.f(x)
        """)
    [finding] = findings(text)
    assert finding.fix is None
    assert "`x.device`" in finding.message and "decorator" in finding.message


def test_message_names_both_places() -> None:
    text = "import torch\ndef f(rank):\n    device = f'cuda:{rank}'\n    return torch.autocast(device)\n"
    [finding] = findings(text)
    assert "`device` (set on line 3)" in finding.message
    [related] = finding.related
    assert text[related.span.start : related.span.end] == "device = f'cuda:{rank}'"


def test_one_finding_for_a_device_that_is_searched_like_a_string(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = [one for one in RULE.examples if "like a string" in one.title]
    found = devfix.check(source=example.before, settings=False).findings
    assert [one.codemod for one in found] == [RULE.id]


def test_documentation_has_its_headings() -> None:
    doc = NormalizeDeviceType.__doc__ or ""
    assert all(heading in doc for heading in ("## What it does", "## Why is this bad?", "## Fix safety"))


def test_what_is_handed_on_with_stars_has_no_expression_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = dedent(
        """\
        import torch


        class Context:
            def __init__(self, *args, **kwargs):
                self.context = torch.autocast(*args, **kwargs)


        class Brain:
            def __init__(self, run_opts):
                self.device = run_opts["device"]
                self.context = Context(device_type=self.device, dtype=torch.bfloat16)


        brain = Brain({"device": "cuda:0" if torch.cuda.is_available() else "cpu"})
        """
    )
    found = devfix.check(source=text, settings=False).findings
    assert [(one.line, one.codemod) for one in found] == [(12, RULE.id)]


HALF = """
import torch


def train(model, loader, device, args):
    model.to(device)
    {scaler}
    for x in loader:
        x = x.to(device)
        {opens}
            with torch.cuda.amp.autocast({enabled}):
                model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("scaler", "opens", "enabled", "told"),
    [
        ("scaler = torch.cuda.amp.GradScaler()", "if args.use_amp:", "", 0),
        ("scaler = torch.cuda.amp.GradScaler()", "for _ in range(2):", "enabled=args.use_amp", 0),
        ("scaler = torch.cuda.amp.GradScaler()", "for _ in range(2):", "", 1),
        ("scaler = None", "if args.use_amp:", "enabled=args.use_amp", 1),
    ],
)
def test_half_precision_that_is_an_option_is_for_cuda(
    scaler: str, opens: str, enabled: str, told: int
) -> None:
    assert len(findings(HALF.format(scaler=scaler, opens=opens, enabled=enabled))) == told


NAMED = """
import torch


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        with CONTEXT:
            return self.layer(x)


def other(layer, x: torch.Tensor):
    with torch.autocast(x.device.type):
        return layer(x)
"""


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ('torch.autocast("cuda")', 0),
        ('torch.autocast(device_type="cuda", enabled=x.dtype != torch.float32)', 0),
        ("torch.cuda.amp.autocast(enabled=self.amp)", 0),
        ('torch.autocast("cuda", dtype=x.dtype, enabled=x.dtype != torch.float32)', 0),
        ('torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.amp)', 1),
        ("torch.cuda.amp.autocast(self.amp, torch.float16)", 1),
        ("torch.cuda.amp.autocast(self.amp)", 0),
        ("torch.cuda.amp.autocast(torch.cuda.is_available())", 1),
        ("torch.cuda.amp.autocast(enabled=False)", 1),
        ('torch.autocast("cuda" if torch.cuda.is_available() else "cpu")', 1),
        ('torch.autocast("cuda:1")', 1),
        ("torch.autocast(x.device)", 1),
    ],
)
def test_an_autocast_for_cuda_by_name_is_meant_unless_all_are_asked_for(context: str, told: int) -> None:
    code = NAMED.replace("CONTEXT", context)
    assert len(findings(code, NormalizeDeviceType())) == told
    assert len(findings(code)) == 1
    assert len(findings(f"{code}\nOTHERS = ['mps', 'xpu']\n", NormalizeDeviceType())) == 1
