"""Small programs that use devices in a form that they need not have, and their correct look-alikes.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

import pytest
from devfix.checkers import comparisons
from programs import analysed, lines_of, marked


def spoken(code: str, others: dict[str, str] | None = None) -> set[int]:
    """The lines of a program, counted from its first, that the checker has findings for."""
    analysis = analysed(code, others)
    return lines_of(analysis, [one for one, _ in comparisons.found(analysis, {comparisons.CODEMOD})])


FOUND = {
    # --- a string method of what may be an object
    "a union of both": """
        from typing import Union
        def kind(device: Union[str, torch.device] = "cpu"):
            return device.split(":")[0]  # <
    """,
    "a union by a bar": """
        def kind(where: str | torch.device):
            name, _, number = where.partition(":")  # <
            return name
    """,
    "an annotation in quotes": """
        def kind(target: "torch.device"):
            return target.startswith("cuda")  # <
    """,
    "an annotation with the imported name": """
        from torch import device as Place
        def kind(spot: Place | None = None):
            return spot.lower() if spot else ""  # <
    """,
    "the docstring says so": '''
        def kind(device):
            """Name a device.

            Args:
                device (str or torch.device): where to run.
            """
            return device.replace("cuda", "gpu")  # <
    ''',
    "a numpy docstring": '''
        def kind(device):
            """Name a device.

            Parameters
            ----------
            device : torch.device or str
                Where to run.
            """
            return device.upper()  # <
    ''',
    "the device of a tensor": """
        def label(x: torch.Tensor):
            home = x.device
            return "gpu" if home.startswith("cuda") else "host"  # <
    """,
    "a helper makes it": """
        def pick():
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        def label():
            return pick().split(":")[0]  # <
    """,
    "a helper says what it gives": """
        class Base:
            def spot(self) -> torch.device:
                return self.engine.spot
        class Runner(Base):
            def label(self):
                return self.spot().startswith("mps")  # <
    """,
    "one branch makes it an object": """
        def label(device="cuda", x=None):
            if x is not None:
                device = x.device if torch.is_tensor(x) else torch.device("cpu")
            return device.split(":")  # <
    """,
    "kept in an attribute": """
        class Runner:
            def __init__(self, gpu):
                self.spot = torch.device("cuda", gpu)
            def label(self):
                return self.spot.split(":")[1]  # <
    """,
    "a caller passes an object": """
        def label(where):
            return where.split(":")[0]  # <
        def main(x: torch.Tensor):
            return label(x.device)
    """,
    # --- attributes of what may be a string
    "the type of a union": """
        from typing import Union
        def sync(device: Union[str, torch.device]):
            if device.type == "cuda":  # <
                torch.cuda.synchronize()
    """,
    "the default is a string": """
        def sync(device: torch.device | str = "cuda"):
            return device.index  # <
    """,
    "a string that is made here": """
        import os
        def sync():
            gpu = f"cuda:{os.environ['LOCAL_RANK']}"
            return gpu.type  # <
    """,
    "a choice between strings": """
        class Runner:
            def __init__(self):
                self.place = "cuda" if torch.cuda.is_available() else "cpu"
            def half(self):
                return self.place.type != "cpu"  # <
    """,
    # --- compared
    "made from an argument": """
        def choose(name="auto"):
            dev = torch.device("cuda" if name == "auto" else name)
            if dev == torch.device("cuda") and not torch.cuda.is_available():  # <
                return torch.device("cpu")
            return dev
    """,
    "made from an option": """
        def main(args):
            place = torch.device(args.where)
            if place == torch.device("cuda"):  # <
                torch.backends.cudnn.benchmark = True
            return place
    """,
    "a number is its index": """
        def main(gpu: int):
            place = torch.device("cuda", gpu)
            return torch.device("cuda") != place  # <
    """,
    "an index in one arm": """
        def main(gpu):
            place = torch.device(f"cuda:{gpu}" if gpu >= 0 else "cpu")
            if place == torch.device("cuda"):  # <
                torch.backends.cudnn.benchmark = True
    """,
    "a string with an index": """
        def main(gpu):
            place = "cuda:" + str(gpu)
            if place == "cuda":  # <
                torch.backends.cudnn.benchmark = True
    """,
    "a formatted string": """
        def main(rank):
            place = "cuda:%d" % rank
            return place in ("cuda", "mps")  # <
    """,
    "another way to format": """
        def main(rank):
            place = "cuda:{}".format(rank)
            if "cuda" == place:  # <
                torch.cuda.synchronize()
    """,
    "str() of a device": """
        def main(x: torch.Tensor):
            name = str(x.device)
            return name == "cuda"  # <
    """,
    "an f-string of a device": """
        def main(x: torch.Tensor):
            name = f"{x.device}"
            return name == "cuda"  # <
    """,
    "device of a member used as a module": """
        class Pipe:
            def encode(self, x, device):
                idle = self.coder.device == "cpu"  # <
                if idle:
                    self.coder.cuda()
                return self.coder(x.to(device))
    """,
    "a member that is put into evaluation": """
        class Pipe:
            def __init__(self, body):
                self.body = body
                self.body.eval()
            def busy(self):
                return "cuda" == self.body.device  # <
    """,
    "override of to": """
        class Index(nn.Module):
            def to(self, target=None):
                if target != "cpu":  # <
                    self.build_on(str(target))
                return super().to(target)
    """,
    "override of to, in a subclass": """
        class Base(nn.Module):
            pass
        class Table(Base):
            def to(self, where, *args, **kwargs):
                self.on_host = where == "cpu"  # <
                return super().to(where, *args, **kwargs)
    """,
    "override of to, with an annotation": """
        class Table(nn.Module):
            def to(self, device: torch.device):
                if device in ["cuda", "mps"]:  # <
                    self.rebuild()
                return super().to(device)
    """,
    "element of a list of devices": """
        def place(items, devices):
            for k, device in zip(items, devices):
                if device != "cpu" and not hasattr(items[k], "to"):  # <
                    raise ValueError("no tensor")
                items[k] = items[k].to(device)
    """,
    "element of a list, other names": """
        def spread(parts, spots):
            moved = []
            for part, spot in zip(parts, spots):
                if spot == "cpu":  # <
                    part = part.float()
                moved.append(part.to(spot))
            return moved
    """,
    "both forms meet": """
        class Runner:
            def __init__(self, where: str):
                self.where = where
            def check(self, x: torch.Tensor):
                return x.device == self.where  # <
    """,
    "through a property": """
        class Net(nn.Module):
            @property
            def spot(self) -> torch.device:
                return next(self.parameters()).device
            def fast(self):
                return self.spot == "cuda"  # <
    """,
    "an optional device": """
        from typing import Optional
        def build(device: Optional[torch.device] = None):
            if device == "cpu":  # <
                return nn.Linear(1, 1).float()
    """,
    # --- looked up, looked into, counted
    "table of types": """
        def backend(device: str = "cuda"):
            name = {"cuda": "nccl", "cpu": "gloo"}.get(device, "gloo")  # <
            if ":" in device:
                kind, number = device.split(":")
            return name
    """,
    "table by subscript, with an object": """
        NAMES = {"cuda": "nccl", "cpu": "gloo"}
        def backend(x: torch.Tensor):
            return NAMES[x.device]  # <
    """,
    "table of an attribute": """
        class Plan:
            def __init__(self, rank):
                self.names = {"cpu": 1, "cuda": 8}
                self.place = f"cuda:{rank}"
            def workers(self):
                return self.names.get(self.place, 1)  # <
    """,
    "looked into": """
        def wants(x: torch.Tensor):
            return "cuda" in x.device  # <
    """,
    "looked into, by a union": """
        def wants(d: torch.device | str):
            return "cuda" not in d  # <
    """,
    "a number of it": """
        def number(d: torch.device):
            return int(d)  # <
    """,
    "a case": """
        def wants(x: torch.Tensor):
            match x.device:  # <
                case "cuda" | "xpu":
                    return True
                case "cpu":
                    return False
    """,
    "an option": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--run-on", type=torch.device, default="cuda")
        given = parser.parse_args()
        if given.run_on == "cuda":  # <
            torch.backends.cudnn.benchmark = True
    """,
    "a field of a class": """
        from dataclasses import dataclass
        @dataclass
        class Settings:
            place: torch.device = torch.device("cpu")
        def start(settings: Settings):
            return settings.place == "cuda"  # <
    """,
    "an annotation in the class": """
        class Job:
            device: torch.device
            def __init__(self, options):
                self.options = options
            def fast(self):
                return self.device.startswith("cuda")  # <
    """,
    "an alias of types": """
        from typing import Optional, Union
        Where = Union[str, torch.device]
        def kind(spot: Optional[Where] = None):
            return spot.rpartition(":")[0]  # <
    """,
    "a list of them": """
        def kinds(all_of: list[torch.device]):
            return [one.split(":")[0] for one in all_of]  # <
    """,
    "a dict of them": """
        def kinds(all_of: dict[str, torch.device | str]):
            for name, spot in all_of.items():
                if spot.type == "cuda":  # <
                    return name
    """,
    "the values of a map": """
        def check(parts, where):
            for name, spot in where.items():
                if spot == "cpu":  # <
                    continue
                parts[name].to(spot)
    """,
    "override of to with any arguments": """
        class Table(nn.Module):
            def to(self, *args, **kwargs):
                if args and args[0] == "cpu":  # <
                    self.rows = None
                return super().to(*args, **kwargs)
    """,
    "a device in a key": """
        def count(x: torch.Tensor):
            return {"cpu": 1, "cuda": 2}.get(str(x.device), 0)  # <
    """,
    "in a closure that is handed out": """
        def build(net: nn.Module):
            def run(x: torch.Tensor):
                return net(x) if x.device == "cuda" else None  # <
            return run
    """,
    "one of several": """
        def wants(device: torch.device):
            return device in ("cuda", "xpu")  # <
    """,
}
SILENT = {
    "an object by then": """
        from typing import Union
        def kind(device: Union[str, torch.device] = "cpu"):
            device = torch.device(device)
            return device.type
    """,
    "a string by then": """
        def kind(device: str | torch.device):
            return str(device).split(":")[0]
    """,
    "asked for before": """
        def kind(device: str | torch.device):
            if isinstance(device, str):
                return device.split(":")[0]
            return device.type
    """,
    "asked the other way round": """
        def kind(device: str | torch.device):
            if isinstance(device, torch.device):
                return device.type
            return device.split(":")[0]
    """,
    "asked not": """
        def kind(device: str | torch.device):
            if not isinstance(device, torch.device):
                device = torch.device(device)
            return device.type == "cuda"
    """,
    "in an expression": """
        def kind(device: str | torch.device):
            return device.type if isinstance(device, torch.device) else device.partition(":")[0]
    """,
    "two questions in one": """
        def kind(device: str | torch.device | None = None):
            spot = torch.device(device) if device is not None and not isinstance(device, torch.device) else device
            return spot is not None and spot.type == "mps"
    """,
    "two questions in one, the other way round": """
        def kind(device: str | torch.device | None = None):
            if device is None or isinstance(device, torch.device):
                return device is not None and device.type
            return device.split(":")[0]
    """,
    "by hasattr": """
        def kind(device: str | torch.device):
            return device.type if hasattr(device, "type") else device.partition(":")[0]
    """,
    "by a class out of sight": """
        import six
        def kind(device: str | torch.device):
            if isinstance(device, six.string_types):
                device = torch.device(device)
            return device.type
    """,
    "by getattr": """
        def kind(device: str | torch.device):
            return getattr(device, "type", device)
    """,
    "a chain": """
        def same(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor):
            return a.device == b.device == c.device
    """,
    "a word that is no device": """
        def pick(device: str | torch.device = "auto"):
            if device == "auto" or device in ("auto", "cuda"):
                device = "cuda" if torch.cuda.is_available() else "cpu"
            return torch.device(device)
    """,
    "an index that is filled in": """
        def pick(device):
            device = torch.device(device)
            if device.type == "cuda" and device.index is None:
                device = torch.device("cuda", torch.cuda.current_device())
            return device == torch.device("cuda:0")
    """,
    "a case of a type": """
        def wants(x: torch.Tensor):
            match x.device.type:
                case "cuda":
                    return True
    """,
    "a field that is a string": """
        from dataclasses import dataclass
        @dataclass
        class Settings:
            device: str = "cuda"
        def start(settings: Settings):
            return settings.device == "cuda"
    """,
    "by type()": """
        def kind(device: str | torch.device):
            if type(device) is str:
                device = torch.device(device)
            return device.type
    """,
    "by a tuple of types": """
        def kind(device: str | int | torch.device):
            if isinstance(device, (str, int)):
                device = torch.device(device)
            return device.type
    """,
    "an attribute that is asked": """
        class Runner:
            def __init__(self, device: str | torch.device):
                self.device = device
            def kind(self):
                if isinstance(self.device, str):
                    return self.device.split(":")[0]
                return self.device.type
    """,
    "the error is caught": """
        def kind(device: str | torch.device):
            try:
                return device.type
            except AttributeError:
                return device.split(":")[0]
    """,
    "asserted": """
        def kind(device: str | torch.device):
            assert isinstance(device, str)
            return device.split(":")[0]
    """,
    "a string as it is documented": '''
        def kind(device):
            """Name a device.

            Args:
                device (str): where to run.
            """
            return device.split(":")[0] if device != "cpu" else "host"
    ''',
    "strings throughout": """
        def main(device: str = "cuda"):
            if device == "cuda" and not torch.cuda.is_available():
                device = "cpu"
            return device
    """,
    "strings in a choice": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda":
            torch.cuda.synchronize()
    """,
    "nothing is known": """
        def main(net, device):
            if device == "cpu":
                net.float()
            return net.to(device)
    """,
    "types with types": """
        def main(x: torch.Tensor, device: torch.device):
            return x.device.type == "cuda" or device.type in ("cuda", "mps")
    """,
    "devices with devices": """
        def main(x: torch.Tensor, y: torch.Tensor, device: torch.device):
            return x.device == y.device or x.device != device
    """,
    "no index on either side": """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        def main():
            return device == torch.device("cuda")
    """,
    "the CPU has no index": """
        def main(x: torch.Tensor, args):
            device = torch.device(args.device)
            return x.device == torch.device("cpu") or device == torch.device("cpu")
    """,
    "the same index": """
        def main(gpu):
            place = f"cuda:{gpu}"
            return place == "cuda:0" or torch.device(place) == torch.device("cuda:0")
    """,
    "str() of the CPU": """
        def main(x: torch.Tensor):
            return str(x.device) == "cpu" or str(x.device).startswith("cuda")
    """,
    "a move that does no harm": """
        def main(x: torch.Tensor, device: str | torch.device):
            if x.device != device:
                x = x.to(device)
            return x
    """,
    "override of to that asks for strings": """
        class Index(nn.Module):
            def to(self, target=None):
                if isinstance(target, str) and target != "cpu":
                    self.rebuild()
                return super().to(target)
    """,
    "override of to that makes an object": """
        class Index(nn.Module):
            def to(self, target):
                target = torch.device(target)
                if target.type != "cpu":
                    self.rebuild()
                return super().to(target)
    """,
    "override of to that compares the string": """
        class Index(nn.Module):
            def to(self, target):
                if str(target) != "cpu":
                    self.rebuild()
                return super().to(target)
    """,
    "to of another kind": """
        class Unit:
            def to(self, unit):
                return self.scale if unit == "cpu" else 1
    """,
    "a table of types, by the type": """
        def backend(device: str = "cuda"):
            return {"cuda": "nccl", "cpu": "gloo"}[torch.device(device).type]
    """,
    "a table of types, by a plain string": """
        def backend(device: str = "cuda"):
            return {"cuda": "nccl", "cpu": "gloo"}.get(device, "gloo")
    """,
    "a table of types, without the index": """
        def backend(device: str):
            if ":" in device:
                device = device.split(":")[0]
            return {"cuda": "nccl", "cpu": "gloo"}.get(device, "gloo")
    """,
    "a table of types, behind a test": """
        def backend(device: str):
            if ":" not in device:
                return {"cuda": "nccl", "cpu": "gloo"}[device]
            return "nccl"
    """,
    "a table that has the index": """
        def backend(rank):
            name = f"cuda:{rank}"
            return {"cuda:0": "first", "cuda:1": "second"}.get(name)
    """,
    "a table of something else": """
        def text(device: str | torch.device, words: dict):
            return {"a": 1, "b": 2}.get(device, 3), words[device]
    """,
    "looked into a string": """
        def wants(device: str):
            return "cuda" in device and ":" in device
    """,
    "looked into str()": """
        def wants(x: torch.Tensor):
            return "cuda" in str(x.device)
    """,
    "a number of a string": """
        def number(device: str):
            return int(device.split(":")[-1])
    """,
    "strings in a list": """
        def main(net):
            for device in ["cuda", "cpu"]:
                if device != "cpu":
                    net.half()
                net.to(device)
    """,
    "elements that are no devices": """
        def main(net, modes):
            for mode in modes:
                if mode == "cpu":
                    net.float()
    """,
    "a member with a device of its own": """
        class Engine:
            def __init__(self):
                self.device = "cpu"
            def cuda(self):
                self.device = "cuda"
        class Pipe:
            def __init__(self):
                self.coder = Engine()
            def encode(self):
                if self.coder.device == "cpu":
                    self.coder.cuda()
    """,
    "a class that keeps strings": """
        class Net(nn.Module):
            def __init__(self, device="cuda"):
                super().__init__()
                self.device = device
        def main(net: nn.Module):
            net.eval()
            return net.device == "cpu"
    """,
    "the error is expected": """
        import pytest
        def test_it(x: torch.Tensor):
            with pytest.raises(AttributeError):
                x.device.split(":")
    """,
    "any annotation": """
        from typing import Any
        def main(device: Any = None):
            return device == "cpu" or device.type == "cpu"
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


def test_over_files() -> None:
    """The form of what a helper in another file gives is known."""
    helper = """
        def choose(rank):
            return torch.device("cuda", rank)
        def named(rank):
            return f"cuda:{rank}"
    """
    code = """
        from helpers import choose, named
        def first(rank):
            return choose(rank).split(":")[0]  # <
        def second(rank):
            return named(rank).split(":")[0]
        def third(rank):
            return named(rank) == "cuda"  # <
    """
    text, wanted = marked(code)
    assert spoken(text, {"helpers": helper}) == wanted
