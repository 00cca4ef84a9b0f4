"""An autocast belongs to the data that it covers, wherever that is moved; and what it wants is a type.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

import pytest
from devfix.checkers import autocast
from programs import analysed, lines_of, marked


def spoken(code: str, others: dict[str, str] | None = None) -> set[int]:
    """The lines of a program, counted from its first, that the checker has findings for."""
    analysis = analysed(code, others)
    return lines_of(analysis, autocast.found(analysis, by_name=True))


FOUND = {
    "moved in the method below": """
        class Task:
            def step(self, x):
                x = x.to(self.device)
                return self.net(x)
            def fit(self, x):
                with torch.cuda.amp.autocast():  # <
                    return self.step(x)
    """,
    "moved here": """
        class Task:
            def fit(self, x):
                x = x.to(self.device)
                with torch.cuda.amp.autocast():  # <
                    return self.net(x)
    """,
    "kept as a partial": """
        from functools import partial
        class Bench:
            def __init__(self, device, half):
                self.device = device
                self.cast = partial(torch.cuda.amp.autocast, dtype=half)  # <
            def run(self, x):
                x = x.to(self.device)
                with self.cast():
                    return x @ x
    """,
    "imported late; device is a property of the module": """
        class Enc(nn.Sequential):
            @property
            def device(self):
                return next(self.parameters()).device
            def fit(self, loader, amp=False):
                if amp:
                    from torch.cuda.amp import autocast
                for x, y in loader:
                    y = y.to(self.device)
                    if amp:
                        with autocast():  # <
                            loss = self(x.to(self.device)) - y
    """,
    "moved two calls below": """
        class Task:
            def prepare(self, rows):
                return {k: v.to(self.device) for k, v in rows.items()}
            def loss(self, rows):
                rows = self.prepare(rows)
                return self.net(**rows)
            def fit(self, rows):
                with torch.autocast("cuda"):  # <
                    return self.loss(rows)
    """,
    "by a type that is written down": """
        def train(net, loader, dev):
            net.to(dev)
            for x in loader:
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16):  # <
                    net(x.to(dev)).sum().backward()
    """,
    "only the model is moved": """
        def train(net: nn.Module, x, place: torch.device):
            net = net.to(place)
            with torch.cuda.amp.autocast(enabled=True):  # <
                return net(x)
    """,
    "the context has a name": """
        def train(net: nn.Module, x: torch.Tensor, place):
            cast = torch.autocast("cuda", dtype=torch.bfloat16)  # <
            x = x.to(device=place)
            with cast:
                return net(x)
    """,
    "two contexts": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.inference_mode(), torch.cuda.amp.autocast():  # <
                return net(x)
    """,
    "under a choice": """
        import contextlib
        def infer(net, x: torch.Tensor, device, mixed):
            x = x.to(device)
            with torch.cuda.amp.autocast() if mixed else contextlib.nullcontext():  # <
                return net(x)
    """,
    "a function of the file moves it": """
        def ready(batch, spot):
            return [one.to(spot) for one in batch]
        def infer(net, batch, args):
            with torch.cuda.amp.autocast(args.amp):  # <
                return net(*ready(batch, args.device))
    """,
    "imported under another name": """
        from torch.cuda.amp import autocast as half
        class Job:
            def __init__(self, net, device):
                self.net, self.device = net.to(device), device
            def run(self, x):
                with half():  # <
                    return self.net(x.to(self.device))
    """,
    "a closure that is handed out": """
        def build(model, device):
            def step(rows):
                with torch.cuda.amp.autocast():  # <
                    return model(rows.to(device))
            return step
    """,
    "where the module itself is": """
        class Enc(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(1, 1)
            def encode(self, rows):
                x = torch.tensor(rows).to(self.fc.weight.device)
                with torch.autocast("cuda"):  # <
                    return self.fc(x)
    """,
    "a partial of a type": """
        import functools
        class Job:
            def __init__(self, net, device):
                self.net, self.place = net, device
                self.mixed = functools.partial(torch.autocast, "cuda")  # <
            def run(self, x):
                with self.mixed():
                    return self.net(x.to(self.place))
    """,
    "in a closure": """
        def build(net, device):
            net.to(device)
            def run(x):
                with torch.cuda.amp.autocast():  # <
                    return net(x.to(device))
            return run(torch.ones(1))
    """,
    "switched off": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.cuda.amp.autocast(enabled=False):  # <
                return net(x)
        def train(net, x: torch.Tensor):
            with torch.autocast(x.device.type):
                return net(x)
    """,
    # --- what it is given
    "a union": """
        from typing import Union
        def loss(a, b, device: Union[str, torch.device] = "cpu"):
            with torch.autocast(device.split(":")[0]):  # <
                return F.l1_loss(a, b)
    """,
    "an object": """
        def loss(a: torch.Tensor, b):
            with torch.autocast(device_type=a.device):  # <
                return F.l1_loss(a, b)
    """,
    "an object of a helper": """
        def pick() -> torch.device:
            return torch.device("cuda")
        def loss(a, b):
            with torch.amp.autocast(pick()):  # <
                return F.l1_loss(a, b)
    """,
    "a string with an index": """
        def loss(a, b, rank):
            place = f"cuda:{rank}"
            with torch.autocast(place, dtype=torch.float16):  # <
                return F.l1_loss(a, b)
    """,
    "the type of a union": """
        def loss(a, b, where: str | torch.device):
            with torch.autocast(where.type):  # <
                return F.l1_loss(a, b)
    """,
    "handed on by a function": """
        def half(dtype, device_type):
            return torch.autocast(device_type, dtype)
        def loss(a: torch.Tensor, b):
            with half(torch.float16, a.device):  # <
                return F.l1_loss(a, b)
    """,
    "handed on with stars, by a class and a function": """
        class Half:
            def __init__(self, *args, **kwargs):
                self.context = torch.autocast(*args, **kwargs)
        def half(dtype, **more):
            return Half(dtype=dtype, **more)
        def loss(a: torch.Tensor, b, spot: torch.device):
            with half(torch.float16, device_type=spot):  # <
                return F.l1_loss(a, b)
        def other_loss(a, b, spot: torch.device):
            with Half(spot):  # <
                return F.l1_loss(a, b)
    """,
    "in a lambda": """
        def loss(a: torch.Tensor, b):
            half = lambda: torch.autocast(a.device)  # <
            with half():
                return F.l1_loss(a, b)
    """,
    "an arm": """
        def loss(a: torch.Tensor, b, on):
            with torch.autocast(a.device if on else "cpu"):  # <
                return F.l1_loss(a, b)
    """,
    "a list of options that have an index": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--where", choices=["cuda:0", "cuda:1"])
        args = parser.parse_args()
        def loss(a, b):
            with torch.autocast(args.where):  # <
                return F.l1_loss(a, b)
    """,
    "asked of what it decides on": """
        def loss(a: torch.Tensor, b):
            spot = a.device
            kind = "cuda" if "cuda" in spot else "cpu"  # <
            with torch.autocast(kind):
                return F.l1_loss(a, b)
    """,
    "loaded to wherever its library likes": """
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained("x", device_map="auto")
        def run(rows):
            with torch.autocast("cuda"):  # <
                return model(rows)
    """,
    "a method that is decorated": """
        class Net(nn.Module):
            @torch.autocast("cuda")  # <
            def forward(self, x: torch.Tensor):
                return self.net(x)
    """,
    "kept in the object": """
        class Job:
            def __init__(self, gpu):
                self.spot = torch.device("cuda", gpu)
            def run(self, x):
                with torch.autocast(self.spot):  # <
                    return self.net(x)
    """,
}
SILENT = {
    "it follows": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.autocast(x.device.type):
                return net(x)
    """,
    "for CUDA throughout": """
        class Task:
            def fit(self, x):
                x = x.cuda()
                with torch.cuda.amp.autocast():
                    return self.net(x)
    """,
    "to CUDA by a string": """
        def infer(net, x: torch.Tensor):
            x = x.to("cuda:0")
            with torch.cuda.amp.autocast():
                return net(x)
    """,
    "some of it by name": """
        class Task:
            def fit(self, x, y):
                x, y = x.to(self.device), y.cuda()
                with torch.cuda.amp.autocast():
                    return self.net(x) - y
    """,
    "switched by the device": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.cuda.amp.autocast(enabled=device.type == "cuda"):
                return net(x)
    """,
    "behind a question": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            if device.type == "cuda":
                with torch.cuda.amp.autocast():
                    return net(x)
            return net(x)
    """,
    "behind a question for CUDA": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            if x.is_cuda:
                with torch.autocast("cuda"):
                    return net(x)
            return net(x)
    """,
    "nothing is moved": """
        class Task:
            def fit(self, x):
                with torch.cuda.amp.autocast():
                    return self.net(x)
    """,
    "a framework moves it": """
        from accelerate import Accelerator
        accelerator = Accelerator()
        def train(net, loader):
            net, loader = accelerator.prepare(net, loader)
            for x in loader:
                with torch.cuda.amp.autocast():
                    net(x)
    """,
    "moved after it": """
        def infer(net, x, device):
            with torch.cuda.amp.autocast():
                y = net(x)
            return y.to(device)
    """,
    "moved elsewhere": """
        class Task:
            def prepare(self, x):
                return x.to(self.device)
            def fit(self, x):
                with torch.cuda.amp.autocast():
                    return self.net(x)
    """,
    "of another thing": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.no_grad():
                return net(x)
    """,
    "for the CPU": """
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.cpu.amp.autocast():
                return net(x)
    """,
    "moved under a flag": """
        def infer(net, x: torch.Tensor, gpu):
            if gpu:
                x = x.cuda()
            with torch.cuda.amp.autocast():
                return net(x)
    """,
    "a test for those who have one": """
        import pytest
        @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
        def test_it(device):
            with torch.autocast("cuda"):
                nn.Linear(1, 1).to(device)(torch.ones(1).to(device))
    """,
    "beside what is for CUDA alone": """
        import tensorrt as trt
        def infer(net, x: torch.Tensor, device):
            x = x.to(device)
            with torch.autocast("cuda"), trt.Runtime():
                return net(x)
    """,
    "where callers bring it": """
        class Enc(nn.Module):
            def __init__(self, amp):
                super().__init__()
                self.fc, self.amp = nn.Linear(1, 1), amp
            def forward(self, x: torch.Tensor):
                return self.inner(x)
            def inner(self, x):
                with torch.autocast("cuda", enabled=self.amp):
                    return self.fc(x)
    """,
    "a partial that follows": """
        from functools import partial
        class Job:
            def __init__(self, net, device: torch.device):
                self.net, self.place = net, device
                self.mixed = partial(torch.autocast, device.type)
            def run(self, x):
                with self.mixed():
                    return self.net(x.to(self.place))
    """,
    "a type of each form": """
        def loss(a, b, device: str | torch.device):
            with torch.autocast(torch.device(device).type):
                return F.l1_loss(a, b)
    """,
    "asked before": """
        def loss(a, b, device: str | torch.device):
            kind = device.type if isinstance(device, torch.device) else device.split(":")[0]
            with torch.autocast(kind):
                return F.l1_loss(a, b)
    """,
    "a plain string": """
        def loss(a, b, kind: str = "cuda"):
            with torch.autocast(kind):
                return F.l1_loss(a, b)
    """,
    "told apart, as an attribute": """
        class Job:
            def __init__(self, spot: torch.device | str):
                self.spot = spot
            def run(self, x):
                if isinstance(self.spot, torch.device):
                    return torch.autocast(self.spot.type)
                return torch.autocast(self.spot)
    """,
    "a scaler takes anything, and whoever asks reads the index away": """
        def scale(a, spot: torch.device | str, rank):
            torch.is_autocast_enabled(f"cuda:{rank}")
            return torch.amp.GradScaler(spot)
    """,
    "a list of options that are types": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=["cuda", "cpu"])
        args = parser.parse_args()
        def loss(a, b):
            with torch.autocast(args.device):
                return F.l1_loss(a, b)
    """,
    "to CUDA in one of its calls": """
        def train(net, x, device):
            x = x.to(device)
            with torch.cuda.amp.autocast():
                return net(x)
        train(nn.Linear(1, 1).cuda(), torch.ones(1), torch.device("cuda", 1))
    """,
    "what is asked has a name": """
        def infer(net, x: torch.Tensor, device):
            mixed = device.type == "cuda"
            x = x.to(device)
            if mixed:
                with torch.cuda.amp.autocast():
                    return net(x)
    """,
    "cut off": """
        def loss(a, b, rank):
            place = f"cuda:{rank}"
            with torch.autocast(place.split(":")[0]):
                return F.l1_loss(a, b)
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(FOUND[name])
    assert wanted
    assert spoken(code) == wanted


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert spoken(marked(SILENT[name])[0]) == set()


def test_a_base_in_another_file_moves_it() -> None:
    base = """
        class Base:
            def step(self, x):
                return self.net(x.to(self.device))
    """
    code = """
        from bases import Base
        class Task(Base):
            def fit(self, x):
                with torch.cuda.amp.autocast():  # <
                    return self.step(x)
    """
    text, wanted = marked(code)
    assert spoken(text, {"bases": base}) == wanted


def test_a_function_of_another_file_hands_it_on() -> None:
    amp = """
        def half(device_type):
            return torch.autocast(device_type)
    """
    code = """
        from amp import half
        def loss(a: torch.Tensor, b):
            with half(a.device):  # <
                return F.l1_loss(a, b)
    """
    text, wanted = marked(code)
    assert spoken(text, {"amp": amp}) == wanted
