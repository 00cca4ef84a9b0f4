"""register-buffer: which attributes become buffers, in which form, and which are left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.register_buffer import RegisterBuffer

RULE = RegisterBuffer()
HEAD = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
TOP = "class Net(nn.Module):\n    def __init__(self, n, device=None, w=None):\n        super().__init__()\n"
FORWARD = "\n    def forward(self, x: torch.Tensor, t=None):\n        return x + self.pe\n"


def program(init: str, forward: str = "", top: str = TOP, before: str = "", after: str = "") -> str:
    """A class whose constructor and `forward` have these lines."""
    body = "".join(f"        {line}\n" for line in init.splitlines())
    use = FORWARD
    if forward:
        lines = "".join(f"        {line}\n" for line in forward.splitlines())
        use = f"\n    def forward(self, x: torch.Tensor, t=None):\n{lines}"
    return HEAD + before + top + body + use + after


BUFFER = 'self.register_buffer("pe", {}, persistent=False)'
# name: (constructor, constructor afterwards, forward)
CHANGED = {
    "one line": ("self.pe = torch.arange(n)", BUFFER.format("torch.arange(n)"), ""),
    "a comment behind stays": (
        "self.pe = torch.arange(n)  # positions",
        "# positions\n" + BUFFER.format("torch.arange(n)"),
        "",
    ),
    "slices are filled later": (
        "self.pe = torch.zeros(n, 4)\nself.pe[:, 0::2] = 1.0\nself.pe.requires_grad = False",
        BUFFER.format("torch.zeros(n, 4)") + "\nself.pe[:, 0::2] = 1.0\nself.pe.requires_grad = False",
        "",
    ),
    "several lines keep their layout": (
        "self.pe = torch.tensor(\n    [1.0, 2.0],  # two\n)",
        "pe = torch.tensor(\n    [1.0, 2.0],  # two\n)\n" + BUFFER.format("pe"),
        "",
    ),
    "several lines, and the name is taken": (
        "pe = 3\nself.pe = torch.tensor(\n    [1.0, pe],\n)",
        "pe = 3\npe_ = torch.tensor(\n    [1.0, pe],\n)\n" + BUFFER.format("pe_"),
        "",
    ),
    "a local of the same name": (
        "pe = torch.zeros(n, 4)\npe = pe.unsqueeze(0)\nself.pe = pe",
        "pe = torch.zeros(n, 4)\npe = pe.unsqueeze(0)\n" + BUFFER.format("pe"),
        "",
    ),
    "annotated": (
        "self.pe: torch.Tensor = torch.arange(n)",
        "self.pe: torch.Tensor\n" + BUFFER.format("torch.arange(n)"),
        "",
    ),
    "both branches": (
        "if n:\n    self.pe = torch.ones(n)\nelse:\n    self.pe = torch.zeros(4)",
        f"if n:\n    {BUFFER.format('torch.ones(n)')}\nelse:\n    {BUFFER.format('torch.zeros(4)')}",
        "",
    ),
    "None in one branch": (
        "if n:\n    self.pe = torch.ones(n)\nelse:\n    self.pe = None",
        f"if n:\n    {BUFFER.format('torch.ones(n)')}\nelse:\n    {BUFFER.format('None')}",
        "",
    ),
    "None first": (
        "self.pe = None\nif n:\n    self.pe = torch.ones(n)",
        BUFFER.format("None") + "\nif n:\n    self.pe = torch.ones(n)",
        "",
    ),
    "changed again in the constructor": (
        "self.pe = torch.ones(n, 4)\nself.pe = self.pe / 2\nself.pe *= 2",
        BUFFER.format("torch.ones(n, 4)") + "\nself.pe = self.pe / 2\nself.pe *= 2",
        "",
    ),
    "a parameter in the other branch": (
        "if n:\n    self.pe = nn.Parameter(torch.ones(n))\nelse:\n    self.pe = torch.ones(n)",
        f"if n:\n    self.pe = nn.Parameter(torch.ones(n))\nelse:\n    {BUFFER.format('torch.ones(n)')}",
        "",
    ),
    "tuple targets": (
        "self.pe, self.qe = torch.ones(n), torch.zeros(n)",
        "pe, qe = torch.ones(n), torch.zeros(n)\n"
        + BUFFER.format("pe")
        + '\nself.register_buffer("qe", qe, persistent=False)',
        "return x + self.pe * self.qe",
    ),
    "numpy data": (
        "self.pe = torch.from_numpy(np.ones(3))",
        BUFFER.format("torch.from_numpy(np.ones(3))"),
        "",
    ),
    "a mask": (
        "self.pe = torch.triu(torch.ones(n, n), diagonal=1).bool()",
        BUFFER.format("torch.triu(torch.ones(n, n), diagonal=1).bool()"),
        "return x.masked_fill(self.pe[:2, :2], 0.0)",
    ),
    "a kernel": (
        "self.pe = torch.tensor([[1.0, 2.0]])[None, None]",
        BUFFER.format("torch.tensor([[1.0, 2.0]])[None, None]"),
        "return F.conv2d(x, self.pe.repeat(3, 1, 1, 1))",
    ),
    "class weights": (
        "self.pe = torch.FloatTensor([1.0, 2.0])",
        BUFFER.format("torch.FloatTensor([1.0, 2.0])"),
        "return F.cross_entropy(x, x.argmax(1), weight=self.pe)",
    ),
    "a table indexed by a tensor on the device": (
        "self.pe = torch.linspace(0, 1, n)",
        BUFFER.format("torch.linspace(0, 1, n)"),
        "return self.pe[x.long()]",
    ),
    "meets the output of a layer of unknown input": (
        "self.lin = nn.Linear(4, 4)\nself.pe = torch.ones(4)",
        "self.lin = nn.Linear(4, 4)\n" + BUFFER.format("torch.ones(4)"),
        "y = self.lin(t)\nreturn y * self.pe",
    ),
    "goes into a layer": (
        "self.emb = nn.Embedding(4, 4)\nself.pe = torch.arange(4)",
        "self.emb = nn.Embedding(4, 4)\n" + BUFFER.format("torch.arange(4)"),
        "return self.emb(self.pe)",
    ),
    "in a list that is stacked": (
        "masks = []\nfor i in range(n):\n    masks.append(torch.ones(3))\nself.pe = torch.stack(masks)",
        "masks = []\nfor i in range(n):\n    masks.append(torch.ones(3))\n"
        + BUFFER.format("torch.stack(masks)"),
        "",
    ),
    "the device of a layer made here": (
        "self.lin = nn.Linear(4, 4)\nself.pe = torch.ones(4, device=self.lin.weight.device)",
        "self.lin = nn.Linear(4, 4)\n" + BUFFER.format("torch.ones(4, device=self.lin.weight.device)"),
        "",
    ),
    "a device that is None": (
        "self.pe = torch.ones(4, device=None)",
        BUFFER.format("torch.ones(4, device=None)"),
        "",
    ),
    "moved at one use of two": (
        "self.pe = torch.ones(4)",
        BUFFER.format("torch.ones(4)"),
        "x = x + self.pe.to(x.device)\nreturn x * self.pe",
    ),
}

FORMS = {
    "assigned again in forward": (
        "self.pe = torch.zeros(4)",
        BUFFER.format("torch.zeros(4)"),
        "self.pe = 0.9 * self.pe + x.mean(0)\nreturn x - self.pe",
    ),
    "added to in forward": (
        "self.pe = torch.zeros(4)",
        BUFFER.format("torch.zeros(4)"),
        "self.pe += x.mean(0)\nreturn x - self.pe",
    ),
    "told the device of a plain tensor": (
        "t = torch.arange(4)\nself.pe = torch.ones(4, device=t.device).type_as(t)",
        "t = torch.arange(4)\n" + BUFFER.format("torch.ones(4, device=t.device).type_as(t)"),
        "",
    ),
    "an argument under its own name": (
        "n = torch.ones(n)\nself.pe = n",
        "n = torch.ones(n)\n" + BUFFER.format("n"),
        "",
    ),
    "two names at once": (
        "self.pe = self.qe = torch.ones(4)",
        "pe = self.qe = torch.ones(4)\n" + BUFFER.format("pe"),
        "return x + self.pe",
    ),
    "a stack of a comprehension": (
        "self.pe = torch.stack([torch.ones(4) * i for i in range(n)])",
        BUFFER.format("torch.stack([torch.ones(4) * i for i in range(n)])"),
        "",
    ),
    "an argument that is indexed as tensors are": (
        "self.pe = torch.ones(4)",
        BUFFER.format("torch.ones(4)"),
        "return t[..., None] * self.pe",
    ),
    "an argument of a function of torch": (
        "self.pe = torch.ones(4)",
        BUFFER.format("torch.ones(4)"),
        "return torch.min(t, self.pe)",
    ),
}

# name: (constructor, forward)
SILENT = {
    "moved where it has to be": (
        "self.pe = torch.ones(4)",
        "if self.pe.device != x.device:\n    self.pe = self.pe.to(x.device)\nreturn x + self.pe",
    ),
    "something unknown is stored later": (
        "self.pe = torch.ones(4)",
        "y = x + self.pe\nself.pe = make(x)\nreturn y",
    ),
    "tensors in a list that is changed": (
        "self.pe = [torch.ones(4)]",
        "self.pe[0] = self.pe[0].to(x.device)\nreturn x + self.pe[0]",
    ),
    "modules in a list": ("self.pe = [nn.Linear(4, 4)]", "return self.pe[0](x)"),
    "made where an object says": ("self.pe = torch.ones(4, device=w.device)", ""),
    "an index without dimensions": ("self.pe = torch.arange(4)", "return self.pe[x[0][1]]"),
    "a parameter": ("self.pe = nn.Parameter(torch.ones(4))", ""),
    "a buffer already": ("self.register_buffer('pe', torch.ones(4))\nself.pe = self.pe * 2", ""),
    "a buffer of torch": ("self.pe = nn.Buffer(torch.ones(4))", ""),
    "moved at the use": ("self.pe = torch.ones(4)", "return x + self.pe.to(x.device)"),
    "moved to a name first": ("self.pe = torch.ones(4)", "pe = self.pe.to(x)\nreturn x + pe"),
    "type_as": ("self.pe = torch.ones(4)", "return x + self.pe.type_as(x)"),
    "moved and kept": ("self.pe = torch.ones(4)", "self.pe = self.pe.to(x.device)\nreturn x + self.pe"),
    "made anew in forward": ("self.pe = torch.ones(4)", "self.pe = torch.ones_like(x)\nreturn x + self.pe"),
    "no dimension": ("self.pe = torch.tensor(2.0)", "return x * self.pe"),
    "no dimension after a sum": ("self.pe = torch.ones(4).sum()", "return x * self.pe"),
    "one element of it": ("self.pe = torch.ones(4)", "return x * self.pe[2]"),
    "data of unknown shape": ("self.pe = torch.tensor(n)", "return x * self.pe"),
    "an index": ("self.pe = torch.arange(4)", "return x[:, self.pe]"),
    "python numbers": ("self.pe = torch.arange(4)", "return x * self.pe.sum().item() + int(self.pe[0])"),
    "its shape": ("self.pe = torch.ones(4)", "return x.view(self.pe.shape) * len(self.pe)"),
    "another tensor of the host": ("self.pe = torch.ones(4)", "return (self.pe + torch.ones(4)).tolist()"),
    "told the device": ("self.pe = torch.ones(4, device=device)", ""),
    "moved when made": ("self.pe = torch.ones(4).to(device)", ""),
    "made of something moved": ("a = torch.ones(4).cuda()\nself.pe = torch.stack([a, a])", ""),
    "a copy of something moved": ("a = torch.ones(4).to(device)\nself.pe = torch.tensor(a).view(-1, 1)", ""),
    "trained": ("self.pe = torch.ones(4, requires_grad=True)", ""),
    "unknown value": ("self.pe = w", ""),
    "a list": ("self.pe = [1, 2]", ""),
    "an array": ("self.pe = np.ones(4)", ""),
    "deleted": ("self.pe = torch.ones(4)\ndel self.pe\nself.pe = torch.ones(3)", ""),
    "in the module's dict": ("self.pe = torch.ones(4)\nself.__dict__['qe'] = self.pe", ""),
    "a name of nn.Module": ("self.half = torch.ones(4)", "return x + self.half"),
    "not used with anything": ("self.pe = torch.ones(4)", "return x"),
    "on the CPU on purpose": ("self.pe = torch.ones(4)", "return x.cpu() + self.pe"),
    "keyword arguments may have the device": ("kw = {'device': device}\nself.pe = torch.ones(4, **kw)", ""),
    "what it meets goes to its place": (
        "self.pe = torch.arange(4)",
        "y = self.pe[x.type_as(self.pe)]\nreturn x + (x.to(self.pe.device) * self.pe + y).type_as(x)",
    ),
    "moved by one arm": (
        "self.pe = torch.ones(4)",
        "pe = self.pe\nif pe.device != x.device:\n    pe = pe.to(x.device)\nreturn x + pe",
    ),
}


@pytest.mark.parametrize("name", [*CHANGED, *FORMS])
def test_what_changes(name: str) -> None:
    init, after, forward = {**CHANGED, **FORMS}[name]
    assert fixed(RULE, program(init, forward)) == program(after, forward)


@pytest.mark.parametrize("name", SILENT)
def test_what_is_left_alone(name: str) -> None:
    init, forward = SILENT[name]
    assert findings(RULE, program(init, forward)) == []


def test_every_silent_program_is_one_change_from_a_finding() -> None:
    assert len(findings(RULE, program("self.pe = torch.ones(4)"))) == 1


OTHER = {
    "moves by itself": "\n    def _apply(self, fn):\n        self.pe = fn(self.pe)\n        return super()._apply(fn)\n",
    "overrides to": "\n    def to(self, device):\n        self.pe.data = self.pe.to(device)\n        return super().to(device)\n",
    "moves all it has": "\n    def to(self, device):\n        for k, v in vars(self).items():\n            move(v)\n"
    "        return super().to(device)\n",
    "moves in a way of its own": "\n    def to(self, device):\n        return moved(self, device)\n",
    "of a base, by the old super": "\n    def to(self, device):\n        self.pe = self.pe.to(device)\n"
    "        return super(Net, self).to(device)\n",
    "registers all tensors": "\n    def __setattr__(self, name, value):\n        if torch.is_tensor(value):\n"
    "            self.register_buffer(name, value)\n        else:\n            super().__setattr__(name, value)\n",
    "registers all tensors, by the old super": "\n    def __setattr__(self, name, value):\n"
    "        if torch.is_tensor(value):\n            self._buffers[name] = value\n        else:\n"
    "            super(Net, self).__setattr__(name, value)\n",
    "moves all it has, by the old super": "\n    def _apply(self, fn):\n        for k in dir(self):\n"
    "            move(k, fn)\n        return super(Net, self)._apply(fn)\n",
    "a property": "\n    @property\n    def pe(self):\n        return 1\n",
    "moved from outside": "\n\ndef prepare(net):\n    net.pe = net.pe.cuda()\n",
    "default device": "\n\ntorch.set_default_device('cuda')\n",
    "an heir has it": "\n\nclass Heir(Net):\n    def __init__(self):\n        self.pe = 3\n",
}


@pytest.mark.parametrize("name", OTHER)
def test_other_ways_to_move_it(name: str) -> None:
    assert findings(RULE, program("self.pe = torch.ones(4)", after=OTHER[name])) == []


@pytest.mark.parametrize("base", ["super()", "super(Net, self)"])
@pytest.mark.parametrize("name", ["to", "cuda", "_apply"])
def test_a_move_of_its_own_that_leaves_it_to_the_base(name: str, base: str) -> None:
    after = (
        f"\n    def {name}(self, given):\n        self.told = given\n        return {base}.{name}(given)\n"
    )
    assert fixed(RULE, program("self.pe = torch.ones(4)", after=after)) == program(
        BUFFER.format("torch.ones(4)"), after=after
    )


@pytest.mark.parametrize("base", ["object", "torch.utils.data.Dataset", "torch.autograd.Function", "Base"])
def test_classes_that_are_no_modules(base: str) -> None:
    before = "class Base:\n    pass\n\n\n"
    top = f"class Net({base}):\n    def __init__(self, n):\n"
    assert findings(RULE, program("self.pe = torch.ones(4)", top=top, before=before)) == []


def test_a_helper_method_of_the_constructor() -> None:
    after = "\n    def build(self):\n        self.pe = torch.ones(4)\n"
    changed = after.replace("self.pe = torch.ones(4)", BUFFER.format("torch.ones(4)"))
    assert fixed(RULE, program("self.build()", after=after)) == program("self.build()", after=changed)


def test_an_argument_of_every_construction_in_sight() -> None:
    init, tail = "self.pe = n", "\n\nnet = Net(torch.ones(4))\n"
    before, after = program(init, after=tail), program(BUFFER.format("n"), after=tail)
    assert fixed(RULE, before) == after
    assert fixed(RULE, before, Safety.SAFE) == before
    unknown = program(init, after=tail + "other = Net(make())\n")
    assert findings(RULE, unknown) == []


def test_a_function_that_is_called_with_it() -> None:
    helper = "def shift(a, b):\n    return a + b\n\n\n"
    safe = "def shift(a, b):\n    return a + b.to(a.device)\n\n\n"
    init, forward = "self.pe = torch.ones(4)", "return shift(x, self.pe)"
    assert len(findings(RULE, program(init, forward, before=helper))) == 1
    assert findings(RULE, program(init, forward, before=safe)) == []


def test_a_distribution_is_no_tensor() -> None:
    init = "self.pe = torch.distributions.Normal(torch.zeros(4), torch.ones(4))"
    for forward in ("return self.pe.log_prob(x)", "return x + self.pe.sample((3,))"):
        assert fixed(RULE, program(init, forward)) == program(init, forward)


def test_a_submodule_that_is_called_with_it() -> None:
    block = "class Block(nn.Module):\n    def forward(self, x, m):\n        return x.masked_fill(m, 0)\n\n\n"
    init = "self.blocks = nn.ModuleList([Block() for _ in range(n)])\nself.pe = torch.ones(4).bool()"
    forward = "for block in self.blocks:\n    x = block(x, self.pe)\nreturn x"
    assert len(findings(RULE, program(init, forward, before=block))) == 1


def test_several_tensors_in_a_list_are_moved_at_their_use() -> None:
    for value, use in (
        ("[torch.ones(4), torch.zeros(4)]", "for pe in self.pe:\n    x = x + pe\nreturn x"),
        ("[torch.ones(4) * i for i in range(n)]", "return x + self.pe[0]"),
        ("{'a': torch.ones(4)}", "return x + self.pe['a']"),
    ):
        (found,) = findings(RULE, program(f"self.pe = {value}", use))
        assert found.fix is not None and found.fix.safety is Safety.UNSAFE
        assert "register" not in fixed(RULE, program(f"self.pe = {value}", use))


def test_a_method_that_runs_a_layer_on_its_argument() -> None:
    encode = "\n    def encode(self, y):\n        z = (y - self.pe) / 2\n        return {}\n"
    init = "self.net = nn.Linear(4, 4)\nself.pe = torch.ones(4)"
    assert len(findings(RULE, program(init, "return x", after=encode.format("self.net(z)")))) == 1
    assert findings(RULE, program(init, "return x", after=encode.format("z"))) == []
    assert findings(RULE, program(init, "return x", after=encode.format("self.net(z.to(self.place))"))) == []


def test_an_attribute_that_another_method_may_have_stored() -> None:
    update = "\n    def update(self, y):\n        self.pe = torch.ones(4, device=y.device)\n"
    assert findings(RULE, program("self.pe = torch.ones(4)", "return x + self.pe", after=update)) == []
    assert (
        findings(RULE, program("self.pe = torch.ones(4)", "self.update(x)\nreturn x + self.pe", after=update))
        == []
    )


def test_data_of_every_construction_in_sight() -> None:
    for call, number in (("Net([1.0, 2.0])", 1), ("Net(2.0)", 0), ("Net(2.0), Net([1.0])", 0)):
        assert (
            len(findings(RULE, program("self.pe = torch.tensor(n)", after=f"\n\nnets = {call}\n"))) == number
        )


def test_an_heir_uses_it() -> None:
    heir = "\n\nclass Heir(Net):\n    def forward(self, x: torch.Tensor):\n        return x + self.pe\n"
    (found,) = findings(RULE, program("self.pe = torch.ones(4)", "return x", after=heir))
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize("head", ["import pyro", "from pyro.nn import PyroModule"])
def test_libraries_that_work_on_the_default_device(head: str) -> None:
    assert findings(RULE, f"{head}\n" + program("self.pe = torch.ones(4)")) == []


def test_layers_of_other_libraries() -> None:
    text = program("self.pe = torch.ones(4)").replace("from torch import nn", "from paddle import nn")
    assert findings(RULE, text) == []


def test_before_the_base_is_initialised_there_is_no_fix() -> None:
    top = "class Net(nn.Module):\n    def __init__(self, n):\n        self.pe = torch.ones(n)\n"
    (finding,) = findings(RULE, program("super().__init__()", top=top))
    assert finding.fix is None


def test_an_empty_placeholder_is_not_safe() -> None:
    (finding,) = findings(RULE, program("self.pe = torch.tensor([])"))
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


def test_what_the_cpu_needs_as_well_is_unsafe() -> None:
    rows = "\n    def rows(self):\n        return (self.pe + torch.arange(4)).tolist()\n"
    for after, safety in ((rows, Safety.UNSAFE), ("", Safety.SAFE)):
        (found,) = findings(RULE, program("self.pe = torch.ones(4)", after=after))
        assert found.fix is not None and found.fix.safety is safety


def test_casts_make_it_unsafe() -> None:
    text = program("self.pe = torch.ones(4)")
    assert findings(RULE, text)[0].fix.safety is Safety.SAFE
    assert findings(RULE, text + "\n\nnet = Net(3).half()\n")[0].fix.safety is Safety.UNSAFE
    whole = program("self.pe = torch.arange(4, dtype=torch.long)")
    assert findings(RULE, whole + "\n\nnet = Net(3).half()\n")[0].fix.safety is Safety.SAFE


def test_a_program_that_names_no_device_makes_it_unsafe() -> None:
    text = program("self.pe = torch.ones(4)").replace(", device=None", "")
    training = "\n\nNet(3)(torch.ones(3, 4)).sum().backward()\n"
    assert findings(RULE, text + training)[0].fix.safety is Safety.UNSAFE
    assert findings(RULE, text + "\n\ntorch.cuda.empty_cache()\n")[0].fix.safety is Safety.SAFE


def test_the_option_takes_those_that_are_moved_at_their_use() -> None:
    rule = RegisterBuffer(moved_at_use=True)
    forward = "return x + self.pe.to(x.device)"
    assert fixed(rule, program("self.pe = torch.ones(4)", forward)) == program(
        BUFFER.format("torch.ones(4)"), forward
    )
    kept = "self.pe = self.pe.to(x.device)\nreturn x + self.pe"
    assert len(findings(rule, program("self.pe = torch.ones(4)", kept))) == 1


@pytest.mark.parametrize(("made", "safety"), [("t", Safety.SAFE), ("torch.tensor(t)", Safety.UNSAFE)])
def test_a_method_that_makes_tensors_on_the_cpu_may_meet_it_there(made: str, safety: Safety) -> None:
    text = program("self.pe = torch.arange(n)", f"print({made})\nreturn x + self.pe")
    assert [one.fix and one.fix.safety for one in findings(RULE, text)] == [safety]


def test_a_parameter_that_is_told_to_want_no_gradient_is_one() -> None:
    """`requires_grad_` gives the parameter back; as a buffer it would not be trained."""
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Flow(nn.Module):\n    def __init__(self, learn):\n"
        "        super().__init__()\n        self.mu = nn.Parameter(torch.zeros(2)).requires_grad_(learn)\n\n"
        "    def forward(self, x):\n        return x + self.mu\n"
    )
    assert findings(RULE, text) == []


def test_what_may_be_a_number_is_not_registered() -> None:
    """`register_buffer` takes tensors only."""
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Loss(nn.Module):\n    def __init__(self, alpha=None):\n"
        "        super().__init__()\n        self.alpha = alpha\n        if isinstance(alpha, (float, int)):\n"
        "            self.alpha = torch.Tensor([alpha, 1 - alpha])\n\n    def forward(self, x, y):\n"
        "        return (torch.log_softmax(x, 1) * self.alpha.gather(0, y.view(-1))).mean()\n"
    )
    [finding] = findings(RULE, text)
    assert finding.fix is None


@pytest.mark.parametrize(
    ("moved", "safety"),
    [
        ("self.net.cuda()", Safety.UNSAFE),
        ("self.net.to('cuda')", Safety.UNSAFE),
        ("self.net.eval()", Safety.SAFE),
    ],
)
def test_a_class_that_moves_its_parts_one_by_one_may_never_be_moved(moved: str, safety: Safety) -> None:
    text = program("self.pe = torch.ones(4)").replace(
        "self.pe =", f"self.net = nn.Linear(3, 3)\n        {moved}\n        self.pe ="
    )
    assert [one.fix and one.fix.safety for one in findings(RULE, text)] == [safety]
