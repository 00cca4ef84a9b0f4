"""Programs that grow in one way each: what `benchmarks/growth.py` measures.

Each function makes, for a size, the files of a small project; the file that is analysed is the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from devfix.codemod import registry

Files = dict[str, str]
_HEAD = """\
import os
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


@dataclass(frozen=True)
class Family:
    """`make(n)` is a project of size n; `least` is the smallest of the four sizes of the benchmark.

    `short` is the smaller of the two sizes of the test that counts work.
    """

    name: str
    make: Callable[[int], Files]
    least: int
    short: int = 24


def _main(*parts: str) -> Files:
    return {"main.py": _HEAD + "\n".join(parts)}


def _lines(n: int, line: str, indent: str = "    ") -> str:
    """`n` lines; `{i}` counts from 0, `{j}` is the one before, `{k}` the one behind."""
    return "".join(f"{indent}{line.format(i=i, j=max(i - 1, 0), k=i + 1)}\n" for i in range(n))


def _in_train(body: str) -> Files:
    return _main("def train(loader):", "    m = nn.Linear(3, 3).to(device)", body)


def statements(n: int) -> Files:
    return _in_train(_lines(n, "x{i} = m(torch.zeros(3))"))


def literals(n: int) -> Files:
    return _in_train(_lines(n, "x{i} = m(torch.zeros(3).cuda())"))


def surgery(n: int) -> Files:
    return _in_train(_lines(n, "m.head{i} = nn.Linear(3, 3)"))


def chained(n: int) -> Files:
    return _in_train(
        "    x0 = torch.zeros(3)\n" + _lines(n, "x{k} = x{i} + torch.ones(3)") + f"    m(x{n})\n"
    )


def top_level(n: int) -> Files:
    return _main("m = nn.Linear(3, 3).to(device)", _lines(n, "x{i} = m(torch.zeros(3))", ""))


def functions(n: int) -> Files:
    line = "def f{i}(loader):\n    m = nn.Linear(3, 3).to(device)\n    for x, y in loader:\n        m(x)\n"
    return _main(_lines(n, line, ""))


def plain_functions(n: int) -> Files:
    return _main(_lines(n, "def f{i}(x, device):\n    return x.to(device) + torch.zeros(3)\n", ""))


def branches(n: int) -> Files:
    line = "if loader.a{i}:\n        m.b{i} = nn.Linear(3, 3)\n    else:\n        x{i} = m(torch.zeros(3))"
    return _in_train(_lines(n, line))


def elifs(n: int) -> Files:
    arms = _lines(n, "elif loader == {i}:\n        m(torch.zeros({i}))")
    return _in_train(f"    if not loader:\n        pass\n{arms}")


def loops(n: int) -> Files:
    return _in_train(_lines(n, "for x{i}, y{i} in loader:\n        m(x{i})"))


def nested_loops(n: int) -> Files:
    deep = "".join(f"{'  ' * (i + 2)}for x{i} in loader:\n" for i in range(n))
    return _in_train(f"{deep}{'  ' * (n + 2)}m(torch.zeros(3))\n")


def handlers(n: int) -> Files:
    line = "try:\n        x{i} = m(torch.zeros(3))\n    except ValueError:\n        x{i} = None"
    return _in_train(_lines(n, line))


def call_depth(n: int) -> Files:
    body = "    h{k}(m, x)\n    m(x)\n    return m(torch.zeros(3))\n"
    return _main(_lines(n, "def h{i}(m, x):\n" + body, ""), f"def h{n}(m, x):\n    m.to(device)\n    m(x)\n")


def call_breadth(n: int) -> Files:
    line = "def h{i}(m, x):\n    m.to(device)\n    return m(x)\n"
    return _main(_lines(n, line, ""), "def train(m):", _lines(n, "h{i}(m, torch.zeros(3))"))


def calls_of_one(n: int) -> Files:
    return _main("def h(m, x):\n    return m(x)\n", *_in_train(_lines(n, "h(m, torch.zeros(3))")).values())


def recursion(n: int) -> Files:
    line = "def h{i}(m, x):\n    h{j}(m, x)\n    h{k}(m, x)\n    return m(torch.zeros(3))\n"
    return _main(_lines(n, line, ""), f"def h{n}(m, x):\n    h0(m.to(device), x)\n")


def inheritance(n: int) -> Files:
    line = (
        "class C{k}(C{i}):\n    def __init__(self):\n        super().__init__()\n        self.a{i} = nn.Linear(3, 3)\n"
        "    def forward(self, x):\n        return super().forward(self.a{i}(x)) + torch.zeros(3)\n"
    )
    first = "class C0(nn.Module):\n    def forward(self, x):\n        return x\n"
    return _main(first, _lines(n, line, ""), f"C{n}().to(device)(torch.zeros(3))\n")


def classes(n: int) -> Files:
    line = (
        "class C{i}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Linear(3, 3)\n"
        "        self.mask = torch.ones(3)\n    def forward(self, x):\n        return self.a(x) * self.mask\n"
    )
    return _main(_lines(n, line, ""))


def methods(n: int) -> Files:
    head = "class C(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(3, 3)"
    return _main(head, _lines(n, "def f{i}(self, x):\n        return self.a(x) + torch.zeros(3)"))


def attributes(n: int) -> Files:
    head = "class C(nn.Module):\n    def __init__(self):\n        super().__init__()"
    made = _lines(n, "self.a{i} = nn.Linear(3, 3)\n        self.b{i} = torch.ones(3)", " " * 8)
    used = _lines(n, "x = self.a{i}(x) + self.b{i}", " " * 8)
    return _main(head, f"{made}    def forward(self, x):\n{used}        return x\n", "C().to(device)\n")


def entries(n: int) -> Files:
    made = _lines(n, "'a{i}': torch.zeros(3),", " " * 8)
    return _in_train(f"    d = {{\n{made}    }}\n" + _lines(n, "m(d['a{i}'])"))


def parameters(n: int) -> Files:
    names = ", ".join(f"x{i}" for i in range(n))
    given = ", ".join(f"x{i}=torch.zeros(3)" for i in range(n))
    return _main(f"def h(m, {names}):", _lines(n, "m(x{i})"), *_in_train(f"    h(m, {given})\n").values())


def _project(files: Iterable[tuple[str, str]]) -> Files:
    return {**dict(files), "pyproject.toml": ""}


def circles(n: int) -> Files:
    line = "from m{k} import h{k}\ndef h{i}(m, x):\n    h{k}(m, x)\n    return m(torch.zeros(3))\n"
    files = ((f"m{i}.py", _HEAD + line.format(i=i, k=(i + 1) % n)) for i in range(n))
    return _project(files)


def stars(n: int) -> Files:
    uses = _lines(n, "h{i}(m, torch.zeros(3))")
    main = _lines(n, "from m{i} import *", "") + next(iter(_in_train(uses).values()))
    files = ((f"m{i}.py", f"{_HEAD}def h{i}(m, x):\n    return m(x)\n") for i in range(n))
    return _project([("main.py", main), *files])


def star_chain(n: int) -> Files:
    use = _in_train("    h(m, torch.zeros(3))\n")["main.py"]
    files = (
        (f"m{i}.py", f"from m{i + 1} import *\nimport torch\nN{i} = torch.device('cpu')\n") for i in range(n)
    )
    last = (f"m{n}.py", "def h(m, x):\n    return m(x)\n")
    return _project([("main.py", f"from m0 import *\n{use}"), *files, last])


def cells(n: int) -> Files:
    texts = [_HEAD, "m = nn.Linear(3, 3).to(device)", *(f"x{i} = m(torch.zeros(3))" for i in range(n))]
    head = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    body = {"cells": [{**head, "source": text} for text in texts], "metadata": {}}
    return {"main.ipynb": json.dumps({**body, "nbformat": 4, "nbformat_minor": 5}, indent=1)}


_SCRIPT = """\
import speechbrain as sb
from hyperpyyaml import load_hyperpyyaml


class Net(sb.Brain):
    def compute_forward(self, batch, stage):
        x = batch.x
"""
_START = """\
        return x

    def compute_objectives(self, predictions, batch, stage):
        return predictions.sum()


hparams_file, run_opts, overrides = sb.parse_arguments([])
with open("train.yaml") as file:
    hparams = load_hyperpyyaml(file, overrides)
brain = Net(modules=hparams["modules"], hparams=hparams, run_opts=run_opts)
"""


def recipe_entries(n: int) -> Files:
    """Half of the entries are not listed, and used."""
    made = _lines(n, "lin{i}: !new:torch.nn.Linear\n    in_features: 4\n    out_features: 4", "")
    listed = _lines(n - n // 2, "lin{i}: !ref <lin{i}>")
    used = _lines(n, "x = self.hparams.lin{i}(x)", " " * 8)
    return _project([("train.yaml", f"{made}modules:\n{listed}"), ("train.py", _SCRIPT + used + _START)])


def recipe_values(n: int) -> Files:
    made = _lines(n, "v{i}: {i}\nw{i}: !ref <v{i}> * <v{j}>", "")
    entry = "lin: !new:torch.nn.Linear\n    in_features: 4\n    out_features: 4\nmodules:\n    other: !ref <lin>\n"
    return _project(
        [("train.yaml", made + entry), ("train.py", f"{_SCRIPT}        x = self.hparams.lin(x)\n{_START}")]
    )


def decorators(n: int) -> Files:
    """A function below many decorators, and many below one each."""
    above = _lines(n, "@torch.no_grad()", "")
    line = "@torch.no_grad()\ndef f{i}(m, x):\n    return m.to(device)(torch.zeros(3))\n"
    return _main(f"{above}def f(m):\n    return m.to(device)(torch.zeros(3))\n", _lines(n, line, ""))


def sums(n: int) -> Files:
    """One long expression; in groups, since Python itself reads only so deep a one."""
    groups = " + ".join("(" + " + ".join(["m(torch.zeros(3))"] * 8) + ")" for _ in range(n // 8))
    return _in_train(f"    x = {groups}\n")


def arguments(n: int) -> Files:
    return _in_train(f"    x = torch.cat([{', '.join(['m(torch.zeros(3))'] * n)}])\n    y = m(x)\n")


def conditions(n: int) -> Files:
    tests = " or ".join(f"m(torch.zeros(3)).sum() > {i}" for i in range(n))
    return _in_train(f"    if {tests}:\n        m.head = nn.Linear(3, 3)\n")


def inner_functions(n: int) -> Files:
    return _in_train(_lines(n, "def f{i}(x):\n        return m(torch.zeros(3))\n    f{i}(loader)"))


def comments(n: int) -> Files:
    return _in_train(_lines(n, "x{i} = m(torch.zeros(3))  # devfix: ignore[place-factory]"))


def moves(n: int) -> Files:
    return _in_train(
        _lines(n, "m{i} = nn.Linear(3, 3)\n    m{i}.to(device)\n    m{i}.head = nn.Linear(3, 3)")
    )


def same_name(n: int) -> Files:
    """One name, bound again and again."""
    return _in_train(_lines(n, "x = m(torch.zeros(3))\n    x = x + torch.ones(3)"))


def devices(n: int) -> Files:
    return _in_train(_lines(n, "d{i} = torch.device('cuda', {i})\n    x{i} = m(torch.zeros(3).to(d{i}))"))


def contexts(n: int) -> Files:
    return _in_train(_lines(n, "with torch.cuda.amp.autocast():\n        x{i} = m(torch.zeros(3))"))


def containers(n: int) -> Files:
    line = "rows.append(torch.zeros(3))\n    m(rows[{i}])\n    table['{i}'] = m(torch.cat(rows))"
    return _in_train(f"    rows, table = [], {{}}\n{_lines(n, line)}")


def long_lines(n: int) -> Files:
    """All on one line, with letters that are more than one byte."""
    return _in_train(f"    é = [{', '.join(['m(torch.zeros(3))'] * n)}]\n")


def _examples(id: str) -> Iterable[str]:
    return (one.before for one in registry()[id]().examples if not one.recipe)


def _repeated(id: str) -> Callable[[int], Files]:
    """The examples of a codemod below each other, again and again: every name is bound many times."""
    return lambda n: {"main.py": "\n".join(list(_examples(id)) * n)}


def _in_functions(id: str) -> Callable[[int], Files]:
    """Functions that are the examples of a codemod."""
    body = "\n".join(f"    {line}" for text in _examples(id) for line in text.splitlines())
    return lambda n: {"main.py": "\n".join(f"def f{i}():\n{body}" for i in range(n))}


FAMILIES = (
    Family("statements", statements, 250),
    Family("literals", literals, 250),
    Family("moves", moves, 250),
    Family("surgery", surgery, 250),
    Family("values, chained", chained, 100),
    Family("statements, module", top_level, 250),
    Family("functions", functions, 625),
    Family("functions, plain", plain_functions, 625),
    Family("functions, inner", inner_functions, 125),
    Family("branches", branches, 125),
    Family("branches, elif", elifs, 10, 8),
    Family("loops", loops, 125),
    Family("nested loops", nested_loops, 2, 6),
    Family("handlers", handlers, 125),
    Family("call depth", call_depth, 100),
    Family("call breadth", call_breadth, 125),
    Family("calls of one", calls_of_one, 250),
    Family("recursion", recursion, 100),
    Family("inheritance", inheritance, 63),
    Family("classes", classes, 250),
    Family("methods", methods, 250),
    Family("attributes", attributes, 125),
    Family("dict entries", entries, 125),
    Family("parameters", parameters, 30),
    Family("imports, circle", circles, 50),
    Family("imports, stars", stars, 100),
    Family("imports, star chain", star_chain, 50),
    Family("notebook cells", cells, 125),
    Family("recipe entries", recipe_entries, 250),
    Family("recipe values", recipe_values, 1250),
    Family("decorators", decorators, 250),
    Family("expressions, sum", sums, 64),
    Family("expressions, list", arguments, 125),
    Family("conditions", conditions, 125),
    Family("comments", comments, 250),
    Family("one name", same_name, 125),
    Family("devices", devices, 125),
    Family("contexts", contexts, 125),
    Family("containers", containers, 63),
    Family("long lines", long_lines, 125),
    *(
        Family(f"{id}, {how}", make(id), 6, 4)
        for id, kind in registry().items()
        if kind.default and id != "list-in-modules"
        for how, make in (("repeated", _repeated), ("in functions", _in_functions))
    ),
)
