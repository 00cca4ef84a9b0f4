"""A move that is put elsewhere still runs wherever the old one ran: all shapes, on CUDA (simulated).

What comes too late or too early stands in every kind of statement, and so does the move. Each program
is run with its conditions true and false, as it was and as it was repaired: what ran must still run,
and parameters that ended on the device must end there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from textwrap import indent

import pytest
from applying import fixed
from devfix.codemod import Codemod
from devfix.findings import Safety
from devfix.rules.reorder_to import ReorderTo
from devfix.rules.restore_after_move import RestoreAfterMove
from devfix.smoke import run_program

# Where a statement may stand: `S` is the statement, `c` and `d` are conditions.
AROUND = {
    "plain": "S",
    "if": "if c:\n    S",
    "else": "if c:\n    pass\nelse:\n    S",
    "elif": "if c:\n    pass\nelif d:\n    S",
    "for": "for _ in range(c):\n    S",
    "for with a way out": "for i in range(2):\n    if c:\n        break\n    S",
    "for with a way around": "for i in range(2):\n    if i == c:\n        continue\n    S",
    "while": "while c:\n    S\n    c = False",
    "try": "try:\n    fail(c)\n    S\nexcept ValueError:\n    pass",
    "except": "try:\n    fail(c)\nexcept ValueError:\n    S",
    "with": "with torch.no_grad():\n    S",
    "with that hides errors": "with contextlib.suppress(ValueError):\n    fail(c)\n    S",
    "match": "match c:\n    case True:\n        S",
    "a function": "def inner():\n    S\nif c:\n    inner()",
    "after a return": "if c:\n    return model\nS",
}
# Both in one statement; `T` is what needs the move.
TOGETHER = {
    "either": "if c:\n    A\nelse:\n    B",
    "one in the other's arm": "if c:\n    A\n    if d:\n        B",
    "and again": "if c:\n    A\n    B\nelse:\n    A",
    "both ways": "if c:\n    A\nelse:\n    A\nB",
    "body and else of a loop": "for _ in range(c):\n    A\nelse:\n    B",
    "try and finally": "try:\n    fail(c)\n    A\nfinally:\n    B",
    "try and except": "try:\n    A\n    fail(c)\nexcept ValueError:\n    B",
    "an error between": "try:\n    A\n    fail(c)\n    B\nexcept ValueError:\n    pass",
    "a return between": "A\nif c:\n    return model\nB",
    "a way out between": "for _ in range(2):\n    A\n    if c:\n        break\n    B",
    "another module between": "A\nif c:\n    model = nn.Sequential(nn.Linear(2, 2))\nB",
    "another device between": "A\nif c:\n    device = torch.device('cpu')\nB",
    "on the CPU between": "A\nif c:\n    model[0].weight.detach().numpy()\n    return model\nB",
    "run on the CPU between": "A\nif c:\n    model(torch.ones(1, 2))\n    return model\nB",
    "kept between": "A\nkept = model\nif c:\n    kept(torch.ones(1, 2))\n    return model\nB",
    "kept on the device between": "A\nkept = [model]\nif c:\n    kept[0](x)\n    return model\nB",
    "parameters read between": "A\nfor p in model.parameters():\n    p + x[0]\nB",
    "parameters read on the CPU between": "A\nfor p in model.parameters():\n    p.detach().numpy()\nB",
    "layers run on the CPU between": "A\nfor m in model.children():\n    m(torch.ones(1, 2))\nB",
    "read by an optimizer between": (
        "A\nother = torch.optim.SGD(model.parameters())\n"
        "if c:\n    other.param_groups[0]['params'][0].detach().numpy()\n    return model\nB"
    ),
    "state beside it between": (
        "A\nother = torch.optim.Adagrad(model.parameters())\n"
        "if c:\n    model(x).sum().backward()\n    other.step()\n    return model\nB"
    ),
    "run by a function between": "def run():\n    model(torch.ones(1, 2))\nA\nif c:\n    run()\n    return model\nB",
    "an imported name between": "A\nif c:\n    import math as device\nB",
}
# What needs the move first, and what the function ends with.
TROUBLES = {
    "wrap": ("model = DistributedDataParallel(model)", "model(x)"),
    "wrap under a new name": ("net = DistributedDataParallel(model)", "model(x)"),
    "use": ("model(x)", "pass"),
    "restore": ("optimizer.load_state_dict(state)", "pass"),
    "made and restored": (
        "optimizer = torch.optim.Adam(model.parameters()); optimizer.load_state_dict(state)",
        "model(x).sum().backward(); optimizer.step()",
    ),
    "an average": ("average = copy.deepcopy(model)", "follow(average, model)"),
    "change": ("model[0] = nn.Linear(2, 2)", "model(x)"),
    "change at the end": ("model.add_module('head', nn.Linear(2, 2))", "pass"),
}
MOVES = ("model.to(device)", "model.cuda()", "if d:\n    model.cuda()", "model = model.to(device)")
HEAD = """\
import contextlib, copy
import torch
from torch import nn
from parallel import DistributedDataParallel


def follow(average, model):
    for a, m in zip(average.parameters(), model.parameters()):
        a.data.mul_(0.9).add_(m.data, alpha=0.1)


def program(c, d, state):
    device = torch.device("cuda")
    x = torch.ones(1, 2, device=device)
    model = nn.Sequential(nn.Linear(2, 2))
"""
OPTIMIZER = "    optimizer = torch.optim.Adam(model.parameters())\n"
# Runs in a process with CUDA; `CASES` are triples of name, before, after.
RUN = """\
import contextlib, copy, json, sys, types
import torch
from torch import nn


class DistributedDataParallel(nn.Module):
    def __init__(self, module):
        super().__init__()
        if any(not p.is_cuda for p in module.parameters()):
            raise RuntimeError("not on its device")
        self.module = module

    def forward(self, x):
        return self.module(x)

    def __getitem__(self, key):
        return self.module[key]


def fail(really):
    if really:
        raise ValueError


sys.modules["parallel"] = types.ModuleType("parallel")
sys.modules["parallel"].DistributedDataParallel = DistributedDataParallel


def ended(text, c, d):
    names = {"fail": fail}
    exec(text, names)
    start = nn.Linear(2, 2)
    state = torch.optim.Adam(start.parameters()).state_dict()
    zeros = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2, 2), "exp_avg_sq": torch.zeros(2, 2)}
    bias = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(2), "exp_avg_sq": torch.zeros(2)}
    state["state"] = {0: zeros, 1: bias}
    try:
        model = names["program"](c, d, state)
    except Exception as error:
        return f"{type(error).__name__}: {error}", False
    return "", all(p.is_cuda for p in model.parameters())


harm = []
mended = set()
for name, before, after in json.loads(CASES):
    for c in (False, True):
        for d in (False, True):
            was, now = ended(before, c, d), ended(after, c, d)
            if was[0] and not now[0]:
                mended.add(name)
            if (now[0] and not was[0]) or (was[1] and not now[1]):
                harm.append([name, c, d, was, now])
print(json.dumps([harm, len(mended)]))
"""


@dataclass(frozen=True)
class Shape:
    name: str
    text: str


def put(frame: str, **parts: str) -> str:
    """A frame with statements for its letters, which may have several lines."""
    lines = []
    for line in frame.splitlines():
        found = parts.get(line.strip())
        lines.append(line if found is None else indent(found, line[: len(line) - len(line.lstrip())]))
    return "\n".join(lines)


def shapes(trouble: str, move: str, every: bool) -> Iterator[Shape]:
    for (outer, first), (inner, second) in product(AROUND.items(), AROUND.items()):
        if not every and "plain" not in (outer, inner) and outer != inner:
            continue
        for a, b, order in ((trouble, move, "late"), (move, trouble, "early")):
            yield Shape(f"{order}: {outer}, then {inner}", f"{put(first, S=a)}\n{put(second, S=b)}")
    for name, frame in TOGETHER.items():
        for a, b, order in ((trouble, move, "late"), (move, trouble, "early")):
            yield Shape(f"{order}: {name}", put(frame, A=a, B=b))
            for outer in ("if", "for", "try", "with") if every else ():
                yield Shape(f"{order}: {name}, in {outer}", put(AROUND[outer], S=put(frame, A=a, B=b)))


def repaired(rule: Codemod, every: bool) -> Iterator[tuple[str, str, str]]:
    for (trouble, (statement, end)), move in product(TROUBLES.items(), MOVES):
        head = HEAD + (OPTIMIZER if trouble == "restore" else "")
        end = "model(x).sum().backward()\noptimizer.step()" if trouble == "restore" else end
        some = list(shapes(statement.replace("; ", "\n"), move, every))
        for shape in some if every else some[::5]:  # "late" and "early" take turns
            body = f"{shape.text}\n{end}\nreturn model".replace("; ", "\n")
            text = head + indent(body, "    ") + "\n"
            after = fixed(rule, text, Safety.SAFE)
            if after != text:
                yield f"{trouble}: `{move}` {shape.name}", text, after


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("rule", [ReorderTo(), RestoreAfterMove()], ids=lambda rule: rule.id)
def test_what_ran_still_runs(rule: Codemod, every: bool) -> None:
    cases = list(repaired(rule, every))
    ran = run_program(RUN.replace("CASES", repr(json.dumps(cases))), "cuda", timeout=100)
    if ran.status == "unsupported":
        pytest.skip(ran.error)
    assert ran.status == "ok", ran.error
    harm, mended = json.loads(ran.output)
    by_name = {name: f"{before}\n--- after\n{after}" for name, before, after in cases}
    assert not harm, f"{len(harm)}: {harm[0]}\n{by_name[harm[0][0]]}"
    assert mended > len(cases) / 3
