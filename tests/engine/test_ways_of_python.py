"""What Python does with a value on its way does not hide where it is: a bug is told, and what is right is silent."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from programs import spoken

HEAD = """\
import copy, functools, random
from functools import cached_property, lru_cache, partial, reduce
from itertools import chain, cycle, islice, product
from dataclasses import dataclass
from typing import NamedTuple
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(4, 2).to(device)
"""
# What makes tensors in the programs below: with a device, they are right.
MADE = re.compile(r"(torch\.(?:randn|ones|zeros)[(,][^()]*)\)")

WAYS = {
    "a name of the function around": """
        def main():
            z = None
            def make():
                nonlocal z
                z = torch.zeros(3, 4)
            make()
            net(z)
        main()
    """,
    "the first of a star": """
        z, *others = [torch.zeros(3, 4), 1]
        net(z)
    """,
    "the last after a star": """
        *others, z = [1, 2, torch.zeros(3, 4)]
        net(z)
    """,
    "an item of a star": """
        first, *others = [1, torch.zeros(3, 4)]
        net(others[0])
    """,
    "a slice that is written down": """
        held = [0, 1, torch.zeros(3, 4)][-1:]
        net(held[0])
    """,
    "a reversed list": """
        held = list(reversed([torch.zeros(3, 4), 1]))
        net(held[1])
    """,
    "what a flag lets through": """
        def run(flag: bool):
            z = flag and torch.zeros(3, 4)
            if z is not False:
                net(z)
    """,
    "a default of a lambda": """
        give = lambda z=torch.zeros(3, 4): z
        net(give())
    """,
    "an argument of a lambda by its name": """
        give = lambda n, z: z
        net(give(1, z=torch.zeros(3, 4)))
    """,
    "a cast of types": """
        from typing import cast
        net(cast(torch.Tensor, torch.zeros(3, 4)))
    """,
    "a recursive function": """
        def deep(n, z):
            return z if n == 0 else deep(n - 1, z)
        def run(n):
            net(deep(n, torch.zeros(3, 4)))
    """,
    "one of several functions": """
        def thin():
            return torch.zeros(3, 4)
        def thick():
            return torch.ones(3, 4)
        KINDS = {"thin": thin, "thick": thick}
        def run(kind):
            net(KINDS[kind]())
    """,
    "an attribute of a class that is set from outside": """
        class Settings:
            z = None
        Settings.z = torch.zeros(3, 4)
        net(Settings.z)
    """,
    "an object that a with statement enters": """
        class Giving:
            def __enter__(self):
                return torch.zeros(3, 4)
            def __exit__(self, *error):
                return None
        with Giving() as z:
            net(z)
    """,
    "a global that a function makes": """
        z = None
        def make():
            global z
            z = torch.zeros(3, 4)
        make()
        net(z)
    """,
    "a global that is made in main": """
        def run():
            return net(z)
        def main():
            global z
            z = torch.zeros(3, 4)
            run()
        if __name__ == "__main__":
            main()
    """,
    "a global that functions hand on": """
        def make():
            global z
            z = torch.zeros(3, 4)
        def prepare():
            make()
        def main():
            prepare()
            net(z)
    """,
    "a context manager": """
        from contextlib import contextmanager
        @contextmanager
        def noise(n):
            yield torch.randn(n, 4)
        with noise(3) as z:
            net(z)
    """,
    "dataclasses.replace": """
        import dataclasses
        @dataclass
        class State:
            pos: torch.Tensor
            size: int
        s = dataclasses.replace(State(torch.ones(3, 4, device=device), 3), pos=torch.zeros(3, 4))
        net(s.pos)
    """,
    "the tensors of a data set": """
        from torch.utils.data import TensorDataset
        data = TensorDataset(torch.randn(10, 4), torch.zeros(10))
        net(data.tensors[0])
    """,
    "an average of a model": """
        from torch.optim.swa_utils import AveragedModel
        ema = AveragedModel(net)
        ema(torch.randn(3, 4))
    """,
    "functional_call": """
        from torch.func import functional_call
        functional_call(net, dict(net.named_parameters()), (torch.randn(3, 4),))
    """,
    "kl_divergence": """
        from torch.distributions import Normal, kl_divergence
        q = Normal(net(torch.randn(3, 4, device=device)), 1.0)
        kl_divergence(q, Normal(torch.zeros(2), 1.0))
    """,
    "*args": """
        def f(*a):
            return net(*a)
        f(torch.randn(3, 4))
    """,
    "a coroutine": """
        import asyncio
        async def make():
            return torch.randn(3, 4)
        async def main():
            x = await make()
            return net(x)
        asyncio.run(main())
    """,
    "+= of a list": """
        xs = []
        xs += [torch.randn(3, 4)]
        net(xs[0])
    """,
    "a bound method": """
        class T:
            def __init__(self):
                self.net = nn.Linear(4, 2).to(device)
            def b(self, x):
                return self.net(x)
        f = T().b
        f(torch.randn(3, 4))
    """,
    "__call__": """
        class A:
            def __call__(self):
                return torch.randn(3, 4)
        net(A()())
    """,
    "a callback": """
        def apply(f, x):
            return f(x)
        apply(net, torch.randn(3, 4))
    """,
    "a list of functions": """
        fs = [net, nn.ReLU()]
        x = torch.randn(3, 4)
        for f in fs:
            x = f(x)
    """,
    "a chain of methods": """
        net(torch.randn(3, 4).float().view(3, 4).contiguous().clone())
    """,
    "chain": """
        for x in chain([torch.randn(3, 4)], [torch.ones(3, 4)]):
            net(x)
    """,
    "an attribute of a class": """
        class A:
            x = torch.randn(3, 4)
        net(A.x)
    """,
    "an attribute of a class, by self": """
        class A:
            x = torch.randn(3, 4)
            def run(self):
                return net(self.x)
        A().run()
    """,
    "a class method": """
        class A:
            @classmethod
            def make(cls):
                return cls(torch.randn(3, 4))
            def __init__(self, x):
                self.x = x
        net(A.make().x)
    """,
    "a cached property": """
        class A:
            @cached_property
            def x(self):
                return torch.randn(3, 4)
        net(A().x)
    """,
    "a copy": """
        x = copy.copy(torch.randn(3, 4))
        net(x)
    """,
    "cycle": """
        it = cycle([torch.randn(3, 4)])
        net(next(it))
    """,
    "a deep copy": """
        x = copy.deepcopy({"x": torch.randn(3, 4)})
        net(x["x"])
    """,
    "a decorator": """
        def log(f):
            @functools.wraps(f)
            def inner(*a, **k):
                return f(*a, **k)
            return inner
        @log
        def run(x):
            return net(x)
        run(torch.randn(3, 4))
    """,
    "a decorator with arguments": """
        def log(name):
            def outer(f):
                def inner(*a, **k):
                    print(name)
                    return f(*a, **k)
                return inner
            return outer
        @log("x")
        def make(n):
            return torch.randn(n, 4)
        net(make(3))
    """,
    "a default": """
        def f(x=torch.randn(3, 4)):
            return net(x)
        f()
    """,
    "a dict comprehension": """
        d = {k: torch.randn(3, 4) for k in "ab"}
        for k in d:
            net(d[k])
    """,
    "a dict of methods": """
        class T:
            def __init__(self):
                self.net = nn.Linear(4, 2).to(device)
                self.ops = {"run": self.run}
            def run(self, x):
                return self.net(x)
            def go(self, name, x):
                return self.ops[name](x)
        T().go("run", torch.randn(3, 4))
    """,
    "pop of a dict": """
        d = {"x": torch.randn(3, 4)}
        net(d.pop("x"))
    """,
    "__enter__": """
        class A:
            def __enter__(self):
                return torch.randn(3, 4)
            def __exit__(self, *a):
                pass
        with A() as x:
            net(x)
    """,
    "enumerate": """
        for i, x in enumerate([torch.randn(3, 4)]):
            net(x)
    """,
    "try and except": """
        try:
            x = torch.randn(3, 4)
        except ValueError:
            x = torch.ones(3, 4)
        net(x)
    """,
    "extend": """
        xs = []
        xs.extend([torch.randn(3, 4)])
        net(xs.pop())
    """,
    "finally": """
        try:
            x = torch.randn(3, 4)
        finally:
            pass
        net(x)
    """,
    "the rows of a tensor": """
        for row in torch.randn(6, 4):
            net(row)
    """,
    "a frozen dataclass": """
        @dataclass(frozen=True)
        class T:
            x: torch.Tensor
        t = T(x=torch.randn(3, 4))
        net(t.x)
    """,
    "a generator": """
        def g():
            for _ in range(3):
                yield torch.randn(3, 4)
        for x in g():
            net(x)
    """,
    "a generator of pairs": """
        def g():
            yield torch.randn(3, 4), 1
        for x, y in g():
            net(x)
    """,
    "a generator expression": """
        xs = (torch.randn(3, 4) for _ in range(2))
        for x in xs:
            net(x)
    """,
    "setattr and getattr": """
        class A:
            pass
        a = A()
        setattr(a, "x", torch.randn(3, 4))
        net(getattr(a, "x"))
    """,
    "getattr with a default": """
        class A:
            pass
        a = A()
        a.x = torch.randn(3, 4)
        net(getattr(a, "x", None))
    """,
    "__getitem__": """
        class A:
            def __getitem__(self, i):
                return torch.randn(3, 4)
        net(A()[0])
    """,
    "insert": """
        xs = []
        xs.insert(0, torch.randn(3, 4))
        net(xs[0])
    """,
    "islice": """
        for x in islice([torch.randn(3, 4)], 1):
            net(x)
    """,
    "__iter__": """
        class A:
            def __iter__(self):
                for _ in range(2):
                    yield torch.randn(3, 4)
        for x in A():
            net(x)
    """,
    "items()": """
        d = {"x": torch.randn(3, 4)}
        for k, v in d.items():
            net(v)
    """,
    "__next__ in a loop": """
        class A:
            def __iter__(self):
                return self
            def __next__(self):
                return torch.randn(3, 4)
        for x in A():
            net(x)
    """,
    "__next__": """
        class A:
            def __next__(self):
                return torch.randn(3, 4)
        net(next(A()))
    """,
    "**kwargs": """
        def f(**k):
            return net(**k)
        f(input=torch.randn(3, 4))
    """,
    "**kwargs that are handed on": """
        def g(x, y=None):
            return net(x)
        def f(**k):
            return g(**k)
        f(x=torch.randn(3, 4))
    """,
    "a keyword": """
        def f(*, x):
            return net(x)
        f(x=torch.randn(3, 4))
    """,
    "a loop over __getitem__": """
        class A:
            def __len__(self):
                return 3
            def __getitem__(self, i):
                return torch.randn(3, 4)
        for x in A():
            net(x)
    """,
    "a list comprehension": """
        xs = [torch.randn(3, 4) for _ in range(3)]
        ys = [net(x) for x in xs if x is not None]
    """,
    "lru_cache": """
        @lru_cache
        def make(n):
            return torch.randn(n, 4)
        net(make(3))
    """,
    "max with a key": """
        x = max([torch.randn(3, 4)], key=lambda t: t.mean().item())
        net(x)
    """,
    "a method": """
        class T:
            def __init__(self):
                self.net = nn.Linear(4, 2).to(device)
            def a(self, x):
                return self.b(x)
            def b(self, x):
                return self.net(x)
        T().a(torch.randn(3, 4))
    """,
    "map": """
        ys = list(map(net, [torch.randn(3, 4)]))
    """,
    "map with a lambda": """
        ys = list(map(lambda t: net(t), [torch.randn(3, 4)]))
    """,
    "| of dicts": """
        d = {"x": torch.randn(3, 4)} | {"y": 1}
        net(d["x"])
    """,
    "a dict in a dict display": """
        d = {**{"x": torch.randn(3, 4)}, "y": 1}
        net(d["x"])
    """,
    "match": """
        mode = "a"
        match mode:
            case "a":
                x = torch.randn(3, 4)
            case _:
                x = torch.ones(3, 4)
        net(x)
    """,
    "a list times a number": """
        xs = [torch.randn(3, 4)] * 3
        net(xs[1])
    """,
    "nested containers": """
        d = {"a": {"b": [torch.randn(3, 4)]}}
        net(d["a"]["b"][0])
    """,
    "_replace": """
        class R(NamedTuple):
            x: torch.Tensor
            y: int
        r = R(torch.randn(3, 4), 1)._replace(y=2)
        net(r.x)
    """,
    "partial": """
        make = partial(torch.randn, 3, 4)
        net(make())
    """,
    "__post_init__": """
        @dataclass
        class T:
            n: int
            def __post_init__(self):
                self.x = torch.randn(self.n, 4)
        net(T(3).x)
    """,
    "product": """
        for a, b in product([torch.randn(3, 4)], [1, 2]):
            net(a)
    """,
    "a property": """
        class A:
            @property
            def x(self):
                return torch.randn(3, 4)
        net(A().x)
    """,
    "random.choice": """
        x = random.choice([torch.randn(3, 4), torch.ones(3, 4)])
        net(x)
    """,
    "reduce": """
        y = reduce(lambda a, b: a + b, [torch.randn(3, 4), torch.randn(3, 4)])
        net(y)
    """,
    "reversed": """
        for x in reversed([torch.randn(3, 4)]):
            net(x)
    """,
    "setdefault": """
        d = {}
        d.setdefault("x", []).append(torch.randn(3, 4))
        net(d["x"][0])
    """,
    "a slice of a list": """
        xs = [torch.randn(3, 4) for _ in range(4)]
        net(xs[1:][0])
    """,
    "__slots__": """
        class T:
            __slots__ = ("x",)
            def __init__(self):
                self.x = torch.randn(3, 4)
        net(T().x)
    """,
    "sorted": """
        xs = sorted([torch.randn(3, 4), torch.randn(3, 4)], key=lambda t: t.sum().item())
        net(xs[0])
    """,
    "stack of a comprehension": """
        net(torch.stack([torch.randn(4) for _ in range(3)]))
    """,
    "a starred target": """
        a, *b = [torch.randn(3, 4), torch.ones(3, 4), torch.zeros(3, 4)]
        net(b[0])
    """,
    "a static method": """
        class A:
            @staticmethod
            def x():
                return torch.randn(3, 4)
        net(A.x())
    """,
    "keys that are made": """
        for name in ("x", "y"):
            d = {}
            d[f"{name}_in"] = torch.randn(3, 4)
            net(d[f"{name}_in"])
    """,
    "sum": """
        x = sum([torch.randn(3, 4), torch.ones(3, 4)])
        net(x)
    """,
    "split": """
        for c in torch.randn(6, 4).split(3):
            net(c)
    """,
    "a tuple that is returned": """
        def make():
            return torch.randn(3, 4), torch.ones(3)
        x, y = make()
        net(x)
    """,
    "an item of what is returned": """
        def make():
            return torch.randn(3, 4), torch.ones(3)
        net(make()[0])
    """,
    "a tensor that is unpacked": """
        x, y = torch.randn(2, 3, 4)
        net(x)
    """,
    "nested targets": """
        (x, y), z = (torch.randn(3, 4), 1), 2
        net(x)
    """,
    "update": """
        d = {}
        d.update({"x": torch.randn(3, 4)})
        net(d["x"])
    """,
    "update with a keyword": """
        d = {}
        d.update(x=torch.randn(3, 4))
        net(d.get("x"))
    """,
    "values()": """
        d = {"x": torch.randn(3, 4)}
        net(next(iter(d.values())))
    """,
    "a walrus": """
        if (x := torch.randn(3, 4)) is not None:
            net(x)
    """,
    "while": """
        i = 0
        while i < 3:
            x = torch.randn(3, 4)
            net(x)
            i += 1
    """,
    "yield from": """
        def h():
            yield torch.randn(3, 4)
        def g():
            yield from h()
        for x in g():
            net(x)
    """,
    "zip": """
        for x, y in zip([torch.randn(3, 4)], [1]):
            net(x)
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_stays_on_the_cpu_is_told(way: str) -> None:
    assert spoken(HEAD, dedent(WAYS[way]))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_on_the_device_is_silent(way: str) -> None:
    code, made = MADE.subn(r"\1, device=device)", dedent(WAYS[way]))
    assert made and spoken(HEAD, code) == set()


SILENT = {
    "a global of two functions": """
        x = None
        def on_cpu():
            global x
            x = torch.randn(3, 4)
        def on_device():
            global x
            x = torch.randn(3, 4, device=device)
        def run():
            return net(x)
    """,
    "a global number that changes": """
        count, x = 0, torch.randn(3, 4)
        def step():
            global count, x
            if count == 0:
                x = x.to(device)
            count += 1
            return net(x)
        step()
    """,
    "a global that is moved before": """
        x = torch.randn(3, 4)
        def prepare():
            global x
            x = x.to(device)
        def main():
            prepare()
            net(x)
        main()
    """,
    "kl_divergence of numbers": """
        from torch.distributions import Normal, kl_divergence
        q = Normal(net(torch.randn(3, 4, device=device)), 1.0)
        kl_divergence(q, Normal(0.0, 1.0))
    """,
}


@pytest.mark.parametrize("way", SILENT)
def test_what_is_right_is_silent(way: str) -> None:
    assert spoken(HEAD, dedent(SILENT[way])) == set()
