"""Random PyTorch programs that are right, with the sites at which one device fault can be planted.

`make(seed)` gives a program; its `text` is right, or has the fault of one site.
"""

from __future__ import annotations

import random

from proof.features import module
from proof.ways import through_site
from proof.writing import Made, Maker


def make(seed: int) -> Made:
    """The program of a seed."""
    m = Maker(random.Random(seed))
    device = m.one("device", "dev", m.name())
    chosen = m.one(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        '"cuda" if torch.cuda.is_available() else "cpu"',
        'torch.device("cuda")',
        '"cuda:0"',
    )
    net = module(m)
    trained = m.pick.random() < 0.6
    body = _training(m, net, device) if trained else _plain_use(m, net, device)
    head = ["import functools", "import math", "from dataclasses import dataclass", "from typing import NamedTuple", "",
            "import torch", "import torch.nn.functional as F", "from torch import nn",
            "from torch.utils.data import DataLoader, TensorDataset", ""]  # fmt: skip
    setting = f"{device} = {chosen}"
    lines = [*head]
    for block in m.top:
        lines += [*block.split("\n"), "", ""]
    how = m.pick.randrange(3)
    if how == 0:
        lines += [setting, *body]
    elif how == 1:
        lines += ["def main():", f"    {setting}", *(f"    {one}" for one in body), "", "", "main()"]
    else:
        lines += [f"def main({device}):", *(f"    {one}" for one in body), "", "", f"main({chosen})"]
    return Made(seed, "\n".join(lines) + "\n", tuple(m.sites))


def _model(m: Maker, net: str, device: str, name: str, kind: str = "module never moved") -> list[str]:
    form = m.pick.randrange(4)
    if form == 0:
        return [f"{name} = {net}()" + m.site(kind, f".to({device})", "", "chained")]
    if form == 1:
        moved = m.site(kind, f"{name}.to({device})", "pass", "statement")
        return [f"{name} = {net}(){m.also()}", moved]
    if form == 2:
        f, n = m.name(), m.name()
        moved = m.site(kind, f"{n}.to(where)", n, "helper")
        m.define(f"def {f}({n}, where):\n    return {moved}")
        return [f"{name} = {f}({net}(), {device}){m.also()}"]
    f, n = m.name(), m.name()
    moved = m.site(kind, f"{n}.to({n}_to)", "pass", "builder")
    m.define(f"def {f}({n}_to):\n    {n} = {net}(){m.also()}\n    {moved}\n    return {n}")
    return [f"{name} = {f}({device})"]


def _plain_use(m: Maker, net: str, device: str) -> list[str]:
    model, x, y = m.name(), m.name(), m.name()
    body = _model(m, net, device, model)
    right = f"torch.randn(3, 4, device={device})"
    before, value = through_site(m, "input made without a device", right, "torch.randn(3, 4)")
    body += [*before, f"{x} = {value}"]
    body += m.pick.choice([[f"{model}.eval()"], [], [f"{model}.train()"]])
    body += _surgery(m, model, device) if m.pick.random() < 0.2 else []
    body += [f"{y} = {model}({x})", f"print({y}.sum().item())"]
    if m.pick.random() < 0.4:
        k = m.name()
        made = m.site("numpy of a device", f"{y}.detach().cpu()", f"{y}.detach()")
        body += [f"{k} = {made}.numpy()", f"print({k}.shape)"]
    if m.pick.random() < 0.4:
        k = m.name()
        made = m.site("made beside the model", f"torch.ones_like({y})", "torch.ones(3, 4)")
        body += [f"{k} = {made}", f"print(F.mse_loss({y}, {k}).item())"]
    return body


def _surgery(m: Maker, model: str, device: str) -> list[str]:
    n = m.name()
    made = m.site("part added after the move", f"nn.Linear(4, 4).to({device})", "nn.Linear(4, 4)")
    return [f"{model}.{n} = {made}", f"print({model}.{n}(torch.ones(2, 4, device={device})).sum().item())"]


def _training(m: Maker, net: str, device: str) -> list[str]:
    model, loader, loss, x, y, o, optimizer = (m.name() for _ in range(7))
    mapped = m.pick.random() < 0.3
    labels = m.pick.random() < 0.5
    target = "torch.randint(0, 4, (6,))" if labels else "torch.randn(6, 4)"
    body = [f"{loader} = DataLoader(TensorDataset(torch.randn(6, 4), {target}), batch_size=3"]
    if mapped:
        f, k = m.name(), m.name()
        m.define(
            f"def {f}({k}):\n    return {{'one': torch.stack([v[0] for v in {k}]), "
            f"'two': torch.stack([v[1] for v in {k}])}}"
        )
        body[0] += f", collate_fn={f}"
    body[0] += ")"
    body += _model(m, net, device, model)
    if labels:
        given = ""
        if m.pick.random() < 0.5:
            given = "weight=" + m.site("weight of a loss", f"torch.ones(4).to({device})", "torch.ones(4)")
        body += [f"{loss} = nn.CrossEntropyLoss({given})"]
    else:
        body += [f"{loss} = nn.MSELoss()"]
    if m.pick.random() < 0.7:
        body += [f"{optimizer} = torch.optim.SGD({model}.parameters(), lr=0.1)"]
    else:
        optimizer = ""
    step, setting = _step(m, model, loss, x, y, o, device, optimizer, mapped)
    body += setting
    rounds = m.pick.random() < 0.5
    how = m.pick.randrange(3)
    loop = [
        f"for {step[0]} in {m.one(loader, loader) if how else loader}:",
        *(f"    {one}" for one in step[1:]),
    ]
    if rounds:
        loop = ["for _ in range(2):", *(f"    {one}" for one in loop)]
    if how == 1:
        f = m.name()
        needs = [
            model,
            loader,
            loss,
            *([optimizer] if optimizer else []),
            *(n.split(" = ")[0] for n in setting),
        ]
        m.define(f"def {f}({', '.join([*needs, device])}):\n" + "\n".join(f"    {one}" for one in loop))
        return [*body, f"{f}({', '.join([*needs, device])})"]
    if how == 2:
        c, run = "C" + m.name(), m.name()
        needs = [
            model,
            loader,
            loss,
            *([optimizer] if optimizer else []),
            *(n.split(" = ")[0] for n in setting),
        ]
        needs.append(device)
        text = "\n".join(f"        {one}" for one in loop)
        for one in needs:
            text = m.renamed(text, one, f"self.{one}")
        init = "\n".join(f"        self.{one} = {one}" for one in needs)
        m.define(
            f"class {c}:\n    def __init__(self, {', '.join(needs)}):\n{init}\n\n    def {run}(self):\n{text}"
        )
        return [*body, f"{c}({', '.join(needs)}).{run}()"]
    return [*body, *loop]


def _step(
    m: Maker, model: str, loss: str, x: str, y: str, o: str, device: str, optimizer: str, mapped: bool
) -> tuple[list[str], list[str]]:
    """The target of a loop over batches with its body, and what has to be set before it."""
    setting: list[str] = []
    batch = m.name()
    kind = "batch not moved"
    form = m.pick.randrange(4)
    if mapped:
        if form == 0:
            k = m.name()
            moved = m.site(
                kind, f"{{k: {k}.to({device}) for k, {k} in {batch}.items()}}", batch, "dict comprehension"
            )
            lines = [batch, f"{batch} = {moved}", f"{x}, {y} = {batch}['one'], {batch}['two']"]
        else:
            lines = [batch, f"{x} = {batch}['one']" + m.site(kind, f".to({device})", "", "dict item")]
            lines += [f"{y} = {batch}['two']" + m.site("target not moved", f".to({device})", "", "dict item")]
    elif form == 0:
        lines = [f"{x}, {y}", f"{x} = {x}" + m.site(kind, f".to({device})", "", "unpacked")]
        lines += [
            f"{y} = {y}" + m.site("target not moved", f".to({device}, non_blocking=True)", "", "unpacked")
        ]
    elif form == 1:
        lines = [batch, f"{x} = {batch}[0]" + m.site(kind, f".to({device})", "", "item")]
        lines += [f"{y} = {batch}[1]" + m.site("target not moved", f".to({device})", "", "item")]
    elif form == 2:
        k = m.name()
        moved = m.site(kind, f"[{k}.to({device}) for {k} in {batch}]", batch, "list comprehension")
        lines = [batch, f"{x}, {y} = {moved}"]
    else:
        f, k = m.name(), m.name()
        moved = m.site(kind, f"{k}.to(where)", k, "helper")
        m.define(f"def {f}({k}, where):\n    return {moved}")
        lines = [f"{x}, {y}", f"{x} = {f}({x}, {device})", f"{y} = {f}({y}, {device})"]
    if m.pick.random() < 0.3:
        before, value = through_site(
            m, "made in a loop", f"torch.randn(4, device={device})", "torch.randn(4)"
        )
        lines += [*before, f"{x} = {x} + {value}"]
    lines.append(f"{o} = {model}({x})")
    lines.append(f"{loss}_v = {loss}({o}, {y})")
    if optimizer:
        lines += [f"{optimizer}.zero_grad()", f"{loss}_v.backward()", f"{optimizer}.step()"]
    if m.pick.random() < 0.4:
        total = m.name()
        setting.append(f"{total} = []")
        value = m.site("numpy of a device", f"{o}.detach().cpu()", f"{o}.detach()")
        lines += [f"{total}.append({value}.numpy().sum())"]
    else:
        lines += [f"print({loss}_v.item())"]
    return lines, setting


__all__ = ["Made", "make"]
