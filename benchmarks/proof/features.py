"""Random modules: classes whose features are right, with sites for faults."""

from __future__ import annotations

from proof.ways import through, through_site
from proof.writing import Maker

Feature = tuple[list[str], list[str]]  # statements of the constructor, and of forward on `x`


def _tensor(m: Maker, size: str = "4") -> str:
    return m.one(f"torch.ones({size})", f"torch.randn({size})", f"torch.zeros({size})", f"torch.full(({size},), 0.5)",
                 f"torch.linspace(0, 1, {size})", f"torch.rand({size})", f"torch.arange({size}).float()")  # fmt: skip


def _meet(m: Maker, value: str) -> str:
    return m.one(f"x + {value}", f"x * {value}", f"{value} - x", f"torch.where(x > 0, x, {value})",
                 f"torch.maximum(x, {value})", f"x.add({value})", f"torch.stack([x, {value}.expand_as(x)]).sum(0)",
                 f"(x @ torch.outer({value}, {value}))", f"F.layer_norm(x, (4,), {value})")  # fmt: skip


def _linear(m: Maker) -> Feature:
    n = m.name()
    return [f"self.{n} = nn.Linear(4, 4)"], [f"x = {m.one('', 'torch.relu', 'F.gelu')}(self.{n}(x))"]


def _buffer(m: Maker) -> Feature:
    n = m.name()
    before, value, way = through(m, _tensor(m))
    extra = m.one("", ", persistent=False")
    made = m.site(
        "plain attribute for a buffer",
        f'self.register_buffer("{n}", {value}{extra})',
        f"self.{n} = {value}",
        way,
    )
    meet, there, _ = through(m, f"self.{n}")
    return [*before, made], [*meet, f"x = {_meet(m, there)}"]


def _made_in_forward(m: Maker) -> Feature:
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
    before, value = through_site(m, "made without a device", right, wrong)
    if m.pick.random() < 0.3:
        k = m.name()
        m_before = [f"def {k}(self, x):", *(f"    {one}" for one in before), f"    return {value}"]
        return [], ["#method", *m_before, "#end", f"x = {_meet(m, f'self.{k}(x)')}"]
    return [], [*before, f"x = {_meet(m, value)}"]


def _modules(m: Maker) -> Feature:
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


def _parameter(m: Maker) -> Feature:
    n = m.name()
    value = _tensor(m)
    made = m.site("plain tensor for a parameter", f"nn.Parameter({value})", f"{value}.requires_grad_()")
    return [f"self.{n} = {made}"], [f"x = {_meet(m, f'self.{n}')}"]


def _embedding(m: Maker) -> Feature:
    n, k = m.name(), m.name()
    before, value = through_site(
        m, "index without a device", "torch.arange(4, device=x.device)", "torch.arange(4)"
    )
    return [f"self.{n} = nn.Embedding(4, 4)"], [*before, f"{k} = self.{n}({value})", f"x = x @ {k}"]


def _recurrent(m: Maker) -> Feature:
    n, k, s = m.name(), m.name(), m.name()
    made = m.site(
        "state without a device", f"torch.zeros(x.shape[0], 4{m.one(', device=x.device', ').to(x.device')})",
        "torch.zeros(x.shape[0], 4)",
    )  # fmt: skip
    return [f"self.{n} = nn.GRUCell(4, 4)"], [f"{k} = {made}", f"for {s} in range(2):", f"    {k} = self.{n}(x, {k})",
                                              f"x = {k}"]  # fmt: skip


def _cached(m: Maker) -> Feature:
    n = m.name()
    made = m.site("cache without a device", "torch.ones(4, device=x.device)", "torch.ones(4)")
    return [f"self.{n} = None"], [f"if self.{n} is None:", f"    self.{n} = {made}", f"x = x + self.{n}"]


def _harmless(m: Maker) -> Feature:
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


def _moved_at_use(m: Maker) -> Feature:
    n = m.name()
    right = f"self.{n}{m.one('.to(x.device)', '.to(x)', '.type_as(x)')}"
    before, value = through_site(m, "attribute not moved at its use", right, f"self.{n}")
    return [f"self.{n} = {_tensor(m)}"], [*before, f"x = {_meet(m, value)}"]


def _asked(m: Maker) -> Feature:
    """A tensor goes to CUDA where another one is asked whether it is there."""
    n = m.name()
    test = m.one("x.is_cuda", "x.device.type == 'cuda'", "x.device.type != 'cpu'", "not x.is_cpu")
    moved = m.site("asked and not moved", f"{n}.cuda()", n)
    way = m.one(
        [f"if {test}:", f"    {n} = {moved}"],
        [f"if not ({test}):", "    pass", "else:", f"    {n} = {moved}"],
        [f"{n} = {moved} if {test} else {n}"],
        [f"{n} = {n} if not ({test}) else {moved}"],
    )
    return [], [f"{n} = {_tensor(m)}", *way, f"x = {_meet(m, n)}"]


def _flagged(m: Maker) -> Feature:
    """A flag decides twice: whether a tensor is moved, and whether it is used."""
    n, flag = m.name(), f"self.{m.name()}"
    moved = m.site("flag without a move", f"{n}.to(x.device)", n)
    way = m.one(
        [f"if {flag}:", f"    {n} = {moved}"],
        [f"if not {flag}:", f"    {n} = {n} * 2", "else:", f"    {n} = {moved}"],
        [f"{n} = {moved} if {flag} else {n}"],
        [f"{n} = {n} if not {flag} else {moved}"],
    )
    use = m.one(
        [f"if {flag}:", f"    x = {_meet(m, n)}"],
        [f"if not {flag}:", "    x = x * 2", "else:", f"    x = {_meet(m, n)}"],
    )
    held = m.one("True", "len(str(self.weight_.shape)) > 2")
    return [f"{flag} = {held}"], [f"{n} = {_tensor(m)}", *way, *use]


def _kept_together(m: Maker) -> Feature:
    """Tensors in a plain container, which no `.to` of the module moves: each is moved where it is used."""
    n, k = m.name(), m.name()
    a, b = _tensor(m), _tensor(m)
    named = m.pick.random() < 0.4
    made = (
        f"{{'a': {a}, 'b': {b}}}"
        if named
        else m.one(f"[{a}, {b}]", f"({a}, {b})", f"[{a} for _ in range(2)]")
    )
    if m.pick.random() < 0.5:
        before, value = through_site(m, "kept in a container", f"{k}.to(x.device)", k)
        items = f"self.{n}.values()" if named else f"self.{n}"
        body = [*before, f"x = {_meet(m, value)}"]
        return [f"self.{n} = {made}"], [f"for {k} in {items}:", *(f"    {one}" for one in body)]
    item = f"self.{n}['a']" if named else f"self.{n}[0]"
    before, value = through_site(m, "kept in a container", f"{item}.to(x.device)", item)
    return [f"self.{n} = {made}"], [*before, f"x = {_meet(m, value)}"]


def _numpy(m: Maker) -> Feature:
    n, k = m.name(), m.name()
    before, value = through_site(m, "numpy of a device", "x.detach().cpu()", "x.detach()")
    return [], [*before, f"{n} = {value}.numpy()", f"{k} = float({n}.sum())", f"x = x * (1 + 0 * {k})"]


def _nested(m: Maker) -> Feature:
    n = m.name()
    return [f"self.{n} = {module(m, small=True)}()"], [f"x = self.{n}(x)"]


_FEATURES = (_linear, _buffer, _buffer, _made_in_forward, _made_in_forward, _modules, _parameter, _embedding,
             _recurrent, _cached, _harmless, _moved_at_use, _asked, _flagged, _kept_together, _numpy)  # fmt: skip


def module(m: Maker, *, small: bool = False) -> str:
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
    m: Maker, name: str, base: str, init: list[str], methods: list[str], step: str, body: list[str]
) -> str:
    lines = [f"class {name}({base}):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {one}" for one in init]
    lines += ["", *(f"    {one}" for one in methods), ""]
    last = "x * self.weight_" if step == "forward" else "x"
    lines += [f"    def {step}(self, x):", *(f"        {one}" for one in body), f"        return {last}"]
    return m.renamed("\n".join(lines), "x", m.one("x", m.name(), m.name()))
