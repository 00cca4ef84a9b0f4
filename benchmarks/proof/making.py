"""Random PyTorch programs that are right, with the places at which one device fault can be planted.

A program is written piece by piece. Each piece that has to do with devices is a site: a right and a wrong text.
`make(seed)` gives the program with its sites, `Made.text` the text, right or with the fault of one site.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_MARK = re.compile("\x02(\\d+)\x03")
_NAMES = [
    "a", "b", "c", "d", "e", "g", "h", "k", "m", "p", "q", "s", "t", "u", "v", "w", "xs", "ys", "feats",
    "inp", "hid", "data", "vals", "out", "res", "cur", "state", "rep", "emb", "z", "item", "part",
    "chunk", "block", "left", "right", "first", "second", "extra", "base", "other", "bias_term",
    "scale", "shift", "table", "grid", "anchor", "kernel", "window", "offsets", "weights",
]  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A place for a fault: its kind, the construct that the value goes through, and both texts."""

    kind: str
    construct: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Made:
    """A program with the marks of its sites."""

    seed: int
    source: str
    sites: tuple[Site, ...]

    def text(self, fault: int | None = None) -> str:
        """The program, right or with the fault of one site."""
        return _MARK.sub(lambda found: self._site(int(found[1]), fault), self.source)

    def lines(self, fault: int) -> set[int]:
        """The lines on which the fault is planted."""
        found: set[int] = set()
        for number, line in enumerate(self.source.split("\n"), 1):
            if f"\x02{fault}\x03" in line:
                found.add(number)
                if (
                    self.sites[fault].wrong == "pass"
                ):  # `x.to(device)` is no more: what made x, in the line above
                    found.add(number - 1)
        return found

    def _site(self, number: int, fault: int | None) -> str:
        return self.sites[number].wrong if number == fault else self.sites[number].right


@dataclass
class _Maker:
    pick: random.Random
    top: list[str] = field(default_factory=list)  # definitions, by blocks
    sites: list[Site] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    size: int = 4

    # --- small parts ---------------------------------------------------------------------

    def name(self) -> str:
        free = [one for one in _NAMES if one not in self.used]
        made = self.pick.choice(free) if free else f"n{len(self.used)}"
        self.used.add(made)
        return made

    def site(self, kind: str, right: str, wrong: str, construct: str = "plain") -> str:
        self.sites.append(Site(kind, construct, right, wrong))
        return f"\x02{len(self.sites) - 1}\x03"

    def through_site(self, kind: str, right: str, wrong: str) -> tuple[list[str], str]:
        """Statements and an expression: the value of a new site, after a random construct."""
        mark = self.site(kind, right, wrong)
        number = len(self.sites) - 1
        before, value, way = self.through(mark)
        self.sites[number] = Site(kind, way, right, wrong)
        return before, value

    def one(self, *texts: str) -> str:
        return self.pick.choice(texts)

    def define(self, text: str) -> None:
        self.top.append(text)

    def renamed(self, text: str, old: str, new: str) -> str:
        """A text with another name for a variable, in its sites as well."""
        pattern = re.compile(rf"(?<![\w.']){old}\b(?!=\w|=\")")
        for number, site in enumerate(self.sites):
            if f"\x02{number}\x03" in text:
                right, wrong = pattern.sub(new, site.right), pattern.sub(new, site.wrong)
                self.sites[number] = Site(site.kind, site.construct, right, wrong)
        return pattern.sub(new, text)

    # --- the ways of a value ---------------------------------------------------------------

    def through(self, value: str) -> tuple[list[str], str, str]:
        """Statements, an expression with the same value, and the name of the construct."""
        construct = self.pick.choice([*_WAYS, "plain", "plain"])
        if construct == "plain":
            return [], value, construct
        before, made = _WAYS[construct](self, value)
        return before, made, construct


def _local(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return [f"{n} = {value}"], n


def _helper(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}({n}):\n    return {m.one(n, f'{n} * 1', f'{n}.contiguous()', f'({n} + 0)')}")
    return [], f"{f}({value})"


def _chain(m: _Maker, value: str) -> tuple[list[str], str]:
    f, g, n, k = m.name(), m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, flag=False):\n    if flag:\n        return -{n}\n    return {n}")
    m.define(f"def {g}({k}):\n    {n} = {f}({k})\n    return {n}")
    return [], f"{g}({value})"


def _tuple(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = ({value}, 1)", f"{k}, _ = {n}"], k


def _list(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return (
        [f"{n} = [{value}]"] if m.pick.random() < 0.5 else [f"{n} = []", f"{n}.append({value})"]
    ), f"{n}[0]"


def _dict(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    if m.pick.random() < 0.5:
        return [f"{n} = {{'k': {value}}}"], f"{n}['k']"
    return [f"{n} = {{}}", f"{n}['k'] = {value}"], f"{n}['k']"


def _dataclass(m: _Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(f"@dataclass\nclass {c}:\n    {k}: torch.Tensor\n    count: int = 0")
    return [f"{n} = {c}({m.one('', k + '=')}{value})"], f"{n}.{k}"


def _named_tuple(m: _Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(f"class {c}(NamedTuple):\n    {k}: torch.Tensor\n    count: int = 0")
    return [f"{n} = {c}({value})"], m.one(f"{n}.{k}", f"{n}[0]")


def _closure(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    return [f"{n} = {value}", f"def {f}():", f"    return {n}"], f"{f}()"


def _lambda(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    return [f"{n} = {value}", f"{f} = lambda: {n}"], f"{f}()"


def _partial(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n, p = m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, other=None):\n    return {n}")
    return [f"{p} = functools.partial({f}, other=2)"], f"{p}({value})"


def _try(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return ["try:", f"    {n} = {value}", "except KeyError:", "    raise"], n


def _with(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return ["with torch.enable_grad():", f"    {n} = {value}"], n


def _flag(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{k} = True", f"{n} = 0", f"if {k}:", f"    {n} = {value}"], n


def _second_round(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = {k} = None", "for _ in range(2):", f"    {k} = {n}", f"    {n} = {value}"], k


def _choice(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{k} = None", f"{n} = {value} if {k} is None else {k}"], n


def _comprehension(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = [{k} for {k} in ({value},)]"], f"{n}[0]"


def _keywords(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}(**kwargs):\n    return kwargs['{n}']")
    return [], f"{f}({n}={value})"


def _stars(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}(*args):\n    return args[0]")
    return [f"{n} = ({value}, 3)"], f"{f}(*{n})"


def _generator(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}({n}):\n    yield {n}")
    return [], f"next(iter({f}({value})))"


def _walrus(m: _Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return [f"if ({n} := {value}) is None:", "    raise ValueError"], n


def _holder(m: _Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(
        f"class {c}:\n    def __init__(self, {n}):\n        self._{n} = {n}\n\n    @property\n"
        f"    def {k}(self):\n        return self._{n}"
    )
    return [], f"{c}({value}).{k}"


def _early(m: _Maker, value: str) -> tuple[list[str], str]:
    f, n, k = m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, {k}=None):\n    if {k} is not None:\n        return {k}\n    return {n}")
    return [], f"{f}({value})"


def _static(m: _Maker, value: str) -> tuple[list[str], str]:
    c, f, n = "C" + m.name(), m.name(), m.name()
    how = m.one("staticmethod", "classmethod")
    first = "cls, " if how == "classmethod" else ""
    m.define(f"class {c}:\n    @{how}\n    def {f}({first}{n}):\n        return {n}")
    return [], f"{c}.{f}({value})"


def _zipped(m: _Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    head = m.one(f"for {k}, _ in zip([{value}], range(1)):", f"for _, {k} in enumerate([{value}]):")
    return [f"{n} = None", head, f"    {n} = {k}"], n


_WAYS: dict[str, Callable[[_Maker, str], tuple[list[str], str]]] = {
    "local": _local, "helper": _helper, "two helpers": _chain, "tuple": _tuple, "list": _list, "dict": _dict,
    "dataclass": _dataclass, "NamedTuple": _named_tuple, "closure": _closure, "lambda": _lambda,
    "partial": _partial, "try": _try, "with": _with, "constant flag": _flag, "second round": _second_round,
    "conditional": _choice, "comprehension": _comprehension, "**kwargs": _keywords, "*args": _stars,
    "generator": _generator, "walrus": _walrus, "property": _holder, "early return": _early,
    "static method": _static, "zip": _zipped,
}  # fmt: skip


# --- modules ---------------------------------------------------------------------------------

Feature = tuple[list[str], list[str]]  # statements of the constructor, and of forward on `x`


def _tensor(m: _Maker, size: str = "4") -> str:
    return m.one(f"torch.ones({size})", f"torch.randn({size})", f"torch.zeros({size})", f"torch.full(({size},), 0.5)",
                 f"torch.linspace(0, 1, {size})", f"torch.rand({size})", f"torch.arange({size}).float()")  # fmt: skip


def _meet(m: _Maker, value: str) -> str:
    return m.one(f"x + {value}", f"x * {value}", f"{value} - x", f"torch.where(x > 0, x, {value})",
                 f"torch.maximum(x, {value})", f"x.add({value})", f"torch.stack([x, {value}.expand_as(x)]).sum(0)",
                 f"(x @ torch.outer({value}, {value}))", f"F.layer_norm(x, (4,), {value})")  # fmt: skip


def _linear(m: _Maker) -> Feature:
    n = m.name()
    return [f"self.{n} = nn.Linear(4, 4)"], [f"x = {m.one('', 'torch.relu', 'F.gelu')}(self.{n}(x))"]


def _buffer(m: _Maker) -> Feature:
    n = m.name()
    before, value, way = m.through(_tensor(m))
    extra = m.one("", ", persistent=False")
    made = m.site(
        "plain attribute for a buffer",
        f'self.register_buffer("{n}", {value}{extra})',
        f"self.{n} = {value}",
        way,
    )
    meet, there, _ = m.through(f"self.{n}")
    return [*before, made], [*meet, f"x = {_meet(m, there)}"]


def _made_in_forward(m: _Maker) -> Feature:
    form = m.pick.randrange(4)
    base = _tensor(m)
    if form == 0:
        where = m.one("x.device", "self.weight_.device", "next(self.parameters()).device")
        right, wrong = f"torch.ones(4, device={where})", "torch.ones(4)"
    elif form == 1:
        right, wrong = f"{base}.to(x.device)", base
    elif form == 2:
        right, wrong = "torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x)", "torch.tensor([1.0, 2.0, 3.0, 4.0])"
    else:
        right, wrong = "x.new_zeros(4)", "torch.zeros(4)"
    before, value = m.through_site("made without a device", right, wrong)
    if m.pick.random() < 0.3:
        k = m.name()
        m_before = [f"def {k}(self, x):", *(f"    {one}" for one in before), f"    return {value}"]
        return [], ["#method", *m_before, "#end", f"x = {_meet(m, f'self.{k}(x)')}"]
    return [], [*before, f"x = {_meet(m, value)}"]


def _modules(m: _Maker) -> Feature:
    n, k = m.name(), m.name()
    if m.pick.random() < 0.6:
        inside = m.one("[nn.Linear(4, 4), nn.Linear(4, 4)]", "[nn.Linear(4, 4) for _ in range(2)]")
        made = m.site("plain list of modules", f"nn.ModuleList({inside})", inside)
        use = m.one(
            f"for {k} in self.{n}:", f"for _, {k} in enumerate(self.{n}):", f"for {k} in self.{n}[:1]:"
        )
        return [f"self.{n} = {made}"], [use, f"    x = {k}(x)"]
    inside = "{'up': nn.Linear(4, 4), 'down': nn.Linear(4, 4)}"
    made = m.site("plain dict of modules", f"nn.ModuleDict({inside})", inside)
    use = m.one(f"self.{n}['up'](x)", f"list(self.{n}.values())[0](x)")
    return [f"self.{n} = {made}"], [f"x = {use}"]


def _parameter(m: _Maker) -> Feature:
    n = m.name()
    value = _tensor(m)
    made = m.site("plain tensor for a parameter", f"nn.Parameter({value})", f"{value}.requires_grad_()")
    return [f"self.{n} = {made}"], [f"x = {_meet(m, f'self.{n}')}"]


def _embedding(m: _Maker) -> Feature:
    n, k = m.name(), m.name()
    before, value = m.through_site(
        "index without a device", "torch.arange(4, device=x.device)", "torch.arange(4)"
    )
    return [f"self.{n} = nn.Embedding(4, 4)"], [*before, f"{k} = self.{n}({value})", f"x = x @ {k}"]


def _recurrent(m: _Maker) -> Feature:
    n, k, s = m.name(), m.name(), m.name()
    made = m.site(
        "state without a device", f"torch.zeros(x.shape[0], 4{m.one(', device=x.device', ').to(x.device')})",
        "torch.zeros(x.shape[0], 4)",
    )  # fmt: skip
    return [f"self.{n} = nn.GRUCell(4, 4)"], [f"{k} = {made}", f"for {s} in range(2):", f"    {k} = self.{n}(x, {k})",
                                              f"x = {k}"]  # fmt: skip


def _cached(m: _Maker) -> Feature:
    n = m.name()
    made = m.site("cache without a device", "torch.ones(4, device=x.device)", "torch.ones(4)")
    return [f"self.{n} = None"], [f"if self.{n} is None:", f"    self.{n} = {made}", f"x = x + self.{n}"]


def _harmless(m: _Maker) -> Feature:
    """What looks like a fault and is none: a number, an index of the CPU, a tensor without dimensions."""
    n = m.name()
    value = m.one(
        "torch.tensor(2.0)", "math.sqrt(4)", "float(torch.ones(3).sum())", "torch.ones(3).mean().item()"
    )
    if m.pick.random() < 0.3:
        return [], [f"{n} = torch.arange(x.shape[1])", f"x = x[:, {n}]"]
    if m.pick.random() < 0.3:
        return [f"self.{n} = torch.ones(4)"], [f"x = x + self.{n}.to(x.device)"]
    return [], [f"{n} = {value}", f"x = x * {n}"]


def _moved_at_use(m: _Maker) -> Feature:
    n = m.name()
    right = f"self.{n}{m.one('.to(x.device)', '.to(x)', '.type_as(x)')}"
    before, value = m.through_site("attribute not moved at its use", right, f"self.{n}")
    return [f"self.{n} = {_tensor(m)}"], [*before, f"x = {_meet(m, value)}"]


def _numpy(m: _Maker) -> Feature:
    n, k = m.name(), m.name()
    before, value = m.through_site("numpy of a device", "x.detach().cpu()", "x.detach()")
    return [], [*before, f"{n} = {value}.numpy()", f"{k} = float({n}.sum())", f"x = x * (1 + 0 * {k})"]


def _nested(m: _Maker) -> Feature:
    n = m.name()
    return [f"self.{n} = {_module(m, small=True)}()"], [f"x = self.{n}(x)"]


_FEATURES = (_linear, _buffer, _buffer, _made_in_forward, _made_in_forward, _modules, _parameter, _embedding,
             _recurrent, _cached, _harmless, _moved_at_use, _numpy)  # fmt: skip


def _module(m: _Maker, *, small: bool = False) -> str:
    """Define a module of random features; its name."""
    name = "N" + m.name()
    features = [m.pick.choice(_FEATURES)(m) for _ in range(m.pick.randint(1, 2 if small else 3))]
    if not small and m.pick.random() < 0.4:
        features.append(_nested(m))
    inherits = m.pick.random() < 0.3 and len(features) > 1
    init = ["self.weight_ = nn.Parameter(torch.ones(4))"]
    forward: list[str] = []
    methods: list[str] = []
    base = "nn.Module"
    if inherits:
        base = "B" + name
        made, body = features.pop(0)
        body, more = _split(body)
        step = m.name()
        m.define(_class(m, base, "nn.Module", made, more, step, body))
        forward.append(f"x = self.{step}(x)")
    for made, body in features:
        init += made
        body, more = _split(body)
        methods += more
        forward += body
    m.define(_class(m, name, base, init, methods, "forward", forward))
    return name


def _split(body: list[str]) -> tuple[list[str], list[str]]:
    """The statements of forward, and the methods that it needs."""
    if "#method" not in body:
        return body, []
    start, end = body.index("#method"), body.index("#end")
    return body[:start] + body[end + 1 :], body[start + 1 : end]


def _class(
    m: _Maker, name: str, base: str, init: list[str], methods: list[str], step: str, body: list[str]
) -> str:
    lines = [f"class {name}({base}):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {one}" for one in init]
    lines += ["", *(f"    {one}" for one in methods), ""]
    last = "x * self.weight_" if step == "forward" else "x"
    lines += [f"    def {step}(self, x):", *(f"        {one}" for one in body), f"        return {last}"]
    return m.renamed("\n".join(lines), "x", m.one("x", m.name(), m.name()))


# --- the program -----------------------------------------------------------------------------


def make(seed: int) -> Made:
    """The program of a seed."""
    m = _Maker(random.Random(seed))
    device = m.one("device", "dev", m.name())
    chosen = m.one(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
        '"cuda" if torch.cuda.is_available() else "cpu"',
        'torch.device("cuda")',
        '"cuda:0"',
    )
    net = _module(m)
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


def _model(m: _Maker, net: str, device: str, name: str, kind: str = "module never moved") -> list[str]:
    form = m.pick.randrange(4)
    if form == 0:
        return [f"{name} = {net}()" + m.site(kind, f".to({device})", "", "chained")]
    if form == 1:
        return [f"{name} = {net}()", m.site(kind, f"{name}.to({device})", "pass", "statement")]
    if form == 2:
        f, n = m.name(), m.name()
        moved = m.site(kind, f"{n}.to(where)", n, "helper")
        m.define(f"def {f}({n}, where):\n    return {moved}")
        return [f"{name} = {f}({net}(), {device})"]
    f, n = m.name(), m.name()
    moved = m.site(kind, f"{n}.to({n}_to)", "pass", "builder")
    m.define(f"def {f}({n}_to):\n    {n} = {net}()\n    {moved}\n    return {n}")
    return [f"{name} = {f}({device})"]


def _plain_use(m: _Maker, net: str, device: str) -> list[str]:
    model, x, y = m.name(), m.name(), m.name()
    body = _model(m, net, device, model)
    right = f"torch.randn(3, 4, device={device})"
    before, value = m.through_site("input made without a device", right, "torch.randn(3, 4)")
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


def _surgery(m: _Maker, model: str, device: str) -> list[str]:
    n = m.name()
    made = m.site("part added after the move", f"nn.Linear(4, 4).to({device})", "nn.Linear(4, 4)")
    return [f"{model}.{n} = {made}", f"print({model}.{n}(torch.ones(2, 4, device={device})).sum().item())"]


def _training(m: _Maker, net: str, device: str) -> list[str]:
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
    m: _Maker, model: str, loss: str, x: str, y: str, o: str, device: str, optimizer: str, mapped: bool
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
        before, value = m.through_site("made in a loop", f"torch.randn(4, device={device})", "torch.randn(4)")
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


__all__ = ["Made", "Site", "make"]
