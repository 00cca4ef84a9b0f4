"""Device expressions that raise wherever they are run, or lose an index, and their correct look-alikes.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

import pytest
from devfix.checkers import expressions
from programs import analysed, lines_of, marked


def spoken(code: str, others: dict[str, str] | None = None) -> set[int]:
    """The lines of a program, counted from its first, that the checker has findings for."""
    analysis = analysed(code, others)
    return lines_of(analysis, [one for one, _ in expressions.found(analysis, expressions.CODEMODS)])


FOUND = {
    # --- a keyword that the function does not have
    "stack": """
        def join(xs, device):
            return torch.stack(list(xs), dim=1, device=device)  # <
    """,
    "cat": """
        from torch import cat
        def join(a: torch.Tensor, b: torch.Tensor):
            return cat((a, b), device=a.device)  # <
    """,
    "from_numpy": """
        def load(rows, place):
            return torch.from_numpy(rows, device=place)  # <
    """,
    "a function of torch.nn.functional": """
        import torch.nn.functional as fn
        def hot(labels, where):
            return fn.one_hot(labels, num_classes=4, device=where)  # <
    """,
    "a function that follows its argument": """
        class Net(nn.Module):
            def forward(self, x):
                return torch.where(x > 0, x, x * 2, device=x.device)  # <
    """,
    # --- an attribute that nothing assigns
    "attribute": """
        import os
        class Job:
            def __init__(self, model):
                self.local = int(os.environ["LOCAL_RANK"])
                self.model = model.to(self.local)
            def run(self, x):
                return self.model(x.to(torch.device("cuda", self.slot)))  # <
    """,
    "attribute with a slip": """
        class Trainer:
            def __init__(self, model, device):
                self.model = model
                self.device = device
            def step(self, x: torch.Tensor):
                return self.model(x.to(self.devcie))  # <
    """,
    "attribute in device=": """
        class Noise:
            def __init__(self, size):
                self.size = size
            def draw(self):
                return torch.randn(self.size, device=self.place)  # <
    """,
    "attribute of a module": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x.to(self.where))  # <
    """,
    "attribute of a class with a base in view": """
        class Base:
            def __init__(self, gpu):
                self.gpu = gpu
        class Job(Base):
            def run(self, me, x: torch.Tensor):
                return x.to(device=self.gpus)  # <
    """,
    "attribute in a comparison": """
        class Job:
            def __init__(self, gpu):
                self.gpu = gpu
            def run(self, x: torch.Tensor):
                return x.device == self.home  # <
    """,
    "self by another name": """
        class Job:
            def __init__(this, gpu):
                this.gpu = gpu
            def run(this, x: torch.Tensor):
                return x.to(f"cuda:{this.index}")  # <
    """,
    # --- a name that nothing binds
    "name": """
        def settle(model, target: torch.device):
            if target.type == cuda:  # <
                model.half()
            return model.to(target)
    """,
    "name of a device": """
        def settle(x: torch.Tensor):
            return x.to(device)  # <
    """,
    "name of another function": """
        def main():
            device = torch.device("cuda")
            return step(torch.ones(1))
        def step(x: torch.Tensor):
            return x.to(device)  # <
    """,
    "name in device=": """
        def make(n):
            return torch.zeros(n, device=gpu)  # <
    """,
    "name in torch.device": """
        class Job:
            def start(self):
                self.device = torch.device("cuda", local_rank)  # <
    """,
    "name in an f-string": """
        def start(x: torch.Tensor):
            return x.to(f"cuda:{rank}")  # <
    """,
    "name with an attribute": """
        def start(x: torch.Tensor):
            return x.to(args.device)  # <
    """,
    "name of a class body": """
        class Job:
            place = torch.device("cpu")
            def start(self, x: torch.Tensor):
                return x.to(place)  # <
    """,
    # --- a module without a device
    "device of a child module": """
        def shift(net: nn.Module, delta: torch.Tensor):
            for child in net.children():
                child.register_buffer("delta", delta.to(child.device.type))  # <
    """,
    "device of a named module": """
        def shift(net: nn.Module, delta: torch.Tensor):
            for name, part in net.named_modules():
                part.delta = delta.to(part.device)  # <
    """,
    "device of a layer": """
        def run(x: torch.Tensor):
            layer = nn.Linear(2, 2)
            return layer(x.to(layer.device))  # <
    """,
    "device of a sequence of layers": """
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        def run(x: torch.Tensor):
            return net(x.to(net.device))  # <
    """,
    "device of a class in view": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x)
        def main(rows):
            net = Net().cuda()
            return net(torch.from_numpy(rows).to(net.device))  # <
    """,
    "device of itself": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def predict(self, rows):
                return self.fc(torch.from_numpy(rows).to(self.device))  # <
    """,
    "device of a child that is a layer": """
        def shift(net: nn.Module):
            for part in net.modules():
                if isinstance(part, nn.Linear):
                    part.weight.data = part.weight.data.to(part.device)  # <
    """,
    "device of a member": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x.to(self.fc.device))  # <
    """,
    # --- the index is lost
    "to the type of a device": """
        def like(x: torch.Tensor, y: torch.Tensor):
            return x.to(y.device.type)  # <
    """,
    "to the type of an argument": """
        def build(device: torch.device):
            net = nn.Linear(1, 1)
            return net.to(device.type)  # <
    """,
    "to the type of an attribute": """
        class Job:
            def __init__(self, gpu):
                self.place = torch.device("cuda", gpu)
            def step(self, batch):
                return batch.to(self.place.type)  # <
    """,
}
SILENT = {
    "torch takes it": """
        def make(x: torch.Tensor, d):
            a = torch.zeros(1, device=d), torch.as_tensor([1], device=d), torch.eye(2, device=d)
            b = torch.zeros_like(x, device=d), x.new_zeros(1, device=d), torch.normal(0.0, 1.0, (1,), device=d)
            return a, b, torch.Generator(device=d), torch.empty_like(x, device=d), x.to(device=d)
    """,
    "a layer takes it": """
        def make(d):
            return nn.Linear(1, 1, device=d), nn.LayerNorm(1, device=d)
    """,
    "a function of one's own takes it": """
        def stack(xs, device):
            return torch.stack(xs).to(device)
        def join(xs, device):
            return stack(xs, device=device)
    """,
    "torch that no model describes": """
        def make(d):
            more = torch.nested.nested_tensor([], device=d)
            return torch.fft.fftfreq(3, device=d), torch.hann_window(3, device=d), more
    """,
    "assigned in another method": """
        class Job:
            def __init__(self, model):
                self.model = model
            def setup(self, rank):
                self.slot = rank
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "assigned from outside": """
        class Job:
            def __init__(self, model):
                self.model = model
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
        job = Job(None)
        job.slot = 1
    """,
    "a base out of sight": """
        from parts_of_mine import Base
        class Job(Base):
            def __init__(self):
                super().__init__()
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "a subclass assigns it": """
        class Base:
            def __init__(self):
                self.size = 1
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
        class Job(Base):
            slot = 1
    """,
    "a class to be mixed in": """
        class Moves:
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "attributes made up": """
        class Job:
            def __init__(self, **options):
                self.options = options
            def __getattr__(self, name):
                return self.options[name]
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "attributes set by name": """
        class Job:
            def __init__(self, **options):
                for name, value in options.items():
                    setattr(self, name, value)
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "attributes set at once": """
        class Job:
            def __init__(self, **options):
                self.__dict__.update(options)
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "a dataclass": """
        from dataclasses import dataclass
        @dataclass
        class Job:
            slot: int
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "declared": """
        class Job:
            slot: int
            def __init__(self):
                self.size = 1
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "a buffer": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.ones(1))
            def forward(self, x):
                return x.to(self.table.device)
    """,
    "a property": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(1, 1)
            @property
            def place(self):
                return self.fc.weight.device
            def forward(self, x):
                return self.fc(x.to(self.place))
    """,
    "what every module has": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(1, 1)
            def forward(self, x):
                return self.fc(x.to(next(self.parameters()).device))
    """,
    "unpacked": """
        class Job:
            def __init__(self, pair):
                self.size, self.slot = pair
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
    """,
    "a static method": """
        class Job:
            def __init__(self):
                self.size = 1
            @staticmethod
            def run(x, y):
                return y.to(x.device)
    """,
    "bound in the body": """
        if torch.cuda.is_available():
            device = torch.device("cuda")
        else:
            device = torch.device("cpu")
        def run(x: torch.Tensor):
            return x.to(device)
    """,
    "bound below": """
        def run(x: torch.Tensor):
            return x.to(device)
        device = torch.device("cuda")
    """,
    "bound by global": """
        def start():
            global device
            device = torch.device("cuda")
        def run(x: torch.Tensor):
            return x.to(device)
    """,
    "bound by a star": """
        from settings_of_mine import *
        def run(x: torch.Tensor):
            return x.to(device)
    """,
    "bound by a loop": """
        for device in ("cpu", "cuda"):
            torch.zeros(1, device=device)
        rows = [torch.zeros(1, device=d) for d in ("cpu", "cuda")]
    """,
    "bound around": """
        def outer(device):
            def inner(x: torch.Tensor):
                return x.to(device)
            return inner
    """,
    "bound around a class": """
        def outer(device):
            class Job:
                def run(self, x: torch.Tensor):
                    return x.to(device)
            return Job
    """,
    "bound by with, import and except": """
        import contextlib
        from settings_of_mine import device as spot
        with contextlib.suppress() as place:
            pass
        def run(x: torch.Tensor):
            return x.to(spot), x.to(place)
    """,
    "a name that is tried": """
        def run(x: torch.Tensor):
            try:
                return x.to(device)
            except NameError:
                return x
    """,
    "other names that nothing binds": """
        def run(x: torch.Tensor):
            return __name__, x.to(torch.device("cuda", int(True)))
    """,
    "a partial that is called elsewhere": """
        from functools import partial
        class Draw:
            def make(self, device):
                self.order = partial(torch.randperm, device=device)
            def forward(self, n):
                return self.order(n)
    """,
    "a module with a device": """
        class Net(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.device = device
        def main(x: torch.Tensor, d):
            net = Net(d)
            return net(x.to(net.device))
    """,
    "a module of another package": """
        from zoo_of_mine import Coder
        def main(x: torch.Tensor):
            net = Coder.from_pretrained("a")
            return net(x.to(net.device))
    """,
    "a module as an argument": """
        def main(net: nn.Module, x: torch.Tensor):
            return net(x.to(net.device))
    """,
    "a child that is asked": """
        def main(net: nn.Module, x: torch.Tensor):
            for child in net.children():
                if hasattr(child, "device"):
                    x = x.to(child.device)
            return x
    """,
    "an attribute that is found by its name": """
        class Metric(nn.Module):
            def __init__(self, defaults: dict[str, torch.Tensor]):
                super().__init__()
                self.total = nn.Linear(1, 1)
                self.defaults = defaults
            def reset(self):
                for name, default in self.defaults.items():
                    now = getattr(self, name)
                    setattr(self, name, default.clone().to(now.device))
    """,
    "a parameter": """
        def main(net: nn.Module, x: torch.Tensor):
            for one in net.parameters():
                x = x.to(one.device)
            return x.to(nn.Linear(1, 1).weight.device)
    """,
    "the type where it is wanted": """
        def main(x: torch.Tensor):
            with torch.autocast(x.device.type):
                return x.to(x.device), x.type(torch.float16)
    """,
    "the type of a string": """
        def main(x: torch.Tensor, kind):
            return x.to(kind.type)
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


def test_a_base_in_another_file_assigns_it() -> None:
    base = """
        class Base:
            def __init__(self, rank):
                self.slot = rank
    """
    code = """
        from bases import Base
        class Job(Base):
            def run(self, x: torch.Tensor):
                return x.to(self.slot)
            def walk(self, x: torch.Tensor):
                return x.to(self.slots)  # <
    """
    text, wanted = marked(code)
    assert spoken(text, {"bases": base}) == wanted
