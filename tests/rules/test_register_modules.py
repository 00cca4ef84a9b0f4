"""register-modules: which containers change, and which are left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.register_modules import RegisterModules

RULE = RegisterModules()
HEAD = "import torch\nfrom torch import nn\n\n\n"
BLOCK = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)


"""
TOP = """\
class Net(nn.Module):
    def __init__(self, n, given=None, device=None):
        super().__init__()
"""
FORWARD = "for layer in self.layers:\n    x = layer(x)\nreturn x"


def program(init: str, forward: str = FORWARD, before: str = "", after: str = "", head: str = HEAD) -> str:
    """A class whose constructor and `forward` have these lines."""
    body = "".join(f"        {line}\n" for line in init.splitlines())
    lines = "".join(f"        {line}\n" for line in forward.splitlines())
    return f"{head}{before}{TOP}{body}\n    def forward(self, x):\n{lines}{after}"


LINEAR = "nn.Linear(4, 4)"
# name: (constructor, constructor afterwards, forward)
CHANGED = {
    "a list": (
        f"self.layers = [{LINEAR}, nn.ReLU()]",
        f"self.layers = nn.ModuleList([{LINEAR}, nn.ReLU()])",
        FORWARD,
    ),
    "a comprehension": (
        f"self.layers = [{LINEAR} for _ in range(n)]",
        f"self.layers = nn.ModuleList([{LINEAR} for _ in range(n)])",
        FORWARD,
    ),
    "a tuple": (
        f"self.layers = ({LINEAR}, {LINEAR})",
        f"self.layers = nn.ModuleList(({LINEAR}, {LINEAR}))",
        "return self.layers[0](x) + self.layers[-1](x)",
    ),
    "a tuple of a generator": (
        f"self.layers = tuple({LINEAR} for _ in range(n))",
        f"self.layers = nn.ModuleList(tuple({LINEAR} for _ in range(n)))",
        "for i, layer in enumerate(self.layers):\n    x = layer(x) * i\nreturn x",
    ),
    "appended": (
        f"self.layers = []\nfor i in range(n):\n    self.layers.append({LINEAR})",
        f"self.layers = nn.ModuleList()\nfor i in range(n):\n    self.layers.append({LINEAR})",
        "for i in range(len(self.layers)):\n    x = self.layers[i](x)\nreturn x",
    ),
    "a local list": (
        f"layers = []\nfor i in range(n):\n    layers.append({LINEAR})\nself.layers = layers",
        f"layers = []\nfor i in range(n):\n    layers.append({LINEAR})\nself.layers = nn.ModuleList(layers)",
        FORWARD,
    ),
    "one element in a branch": (
        f"if n == 1:\n    self.layers = [{LINEAR}]\nelse:\n    self.layers = [{LINEAR}, {LINEAR}]",
        f"if n == 1:\n    self.layers = nn.ModuleList([{LINEAR}])\n"
        f"else:\n    self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])",
        FORWARD,
    ),
    "a dict": (
        f"self.layers = {{'a': {LINEAR}, 'b': {LINEAR}}}",
        f"self.layers = nn.ModuleDict({{'a': {LINEAR}, 'b': {LINEAR}}})",
        "return self.layers['a'](x)",
    ),
    "a dict filled later": (
        f"self.layers = {{}}\nself.layers['a'] = {LINEAR}",
        f"self.layers = nn.ModuleDict()\nself.layers['a'] = {LINEAR}",
        "for name, layer in self.layers.items():\n    x = layer(x)\nreturn x",
    ),
    "classes of the file": (
        "self.layers = [Block() for _ in range(n)]",
        "self.layers = nn.ModuleList([Block() for _ in range(n)])",
        FORWARD,
    ),
    "moved one by one when made": (
        f"self.layers = [{LINEAR}.to(device) for _ in range(n)]",
        f"self.layers = nn.ModuleList([{LINEAR}.to(device) for _ in range(n)])",
        FORWARD,
    ),
    "a slice that is iterated": (
        f"self.layers = [{LINEAR}, {LINEAR}]",
        f"self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])",
        "for layer in self.layers[1:]:\n    x = layer(x)\nreturn x",
    ),
    "zip, and one by a name": (
        f"self.layers = [{LINEAR}, {LINEAR}]",
        f"self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])",
        "for layer, y in zip(self.layers, x):\n    x = layer(y)\nlast = self.layers[-1]\nreturn last(x)",
    ),
}

FORMS = {
    "lists in a list": (
        f"self.layers = [[nn.LayerNorm(4), {LINEAR}] for _ in range(n)]",
        f"self.layers = nn.ModuleList([nn.ModuleList([nn.LayerNorm(4), {LINEAR}]) for _ in range(n)])",
        "for norm, layer in self.layers:\n    x = layer(norm(x))\nreturn x",
    ),
    "lists that are appended": (
        f"self.layers = []\nfor _ in range(n):\n    self.layers.append([{LINEAR}, nn.ReLU()])",
        f"self.layers = nn.ModuleList()\nfor _ in range(n):\n    self.layers.append(nn.ModuleList([{LINEAR}, nn.ReLU()]))",
        "for block in self.layers:\n    for layer in block:\n        x = layer(x)\nreturn x",
    ),
    "a sum of lists": (
        f"self.layers = [{LINEAR}] + [{LINEAR} for _ in range(n)]",
        f"self.layers = nn.ModuleList([{LINEAR}] + [{LINEAR} for _ in range(n)])",
        FORWARD,
    ),
    "added to in place": (
        f"self.layers = [{LINEAR}]\nself.layers += [{LINEAR} for _ in range(n)]",
        f"self.layers = nn.ModuleList([{LINEAR}])\nself.layers += [{LINEAR} for _ in range(n)]",
        FORWARD,
    ),
    "two names in one statement": (
        f"self.layers, self.b = [], []\nself.layers.append({LINEAR})",
        f"self.layers, self.b = nn.ModuleList(), []\nself.layers.append({LINEAR})",
        FORWARD,
    ),
    "copies": (
        "self.layers = [copy.deepcopy(given) for _ in range(n)]",
        "self.layers = nn.ModuleList([copy.deepcopy(given) for _ in range(n)])",
        FORWARD,
    ),
    "keys that are strings": (
        f"self.layers = {{name: {LINEAR} for name in given}}",
        f"self.layers = nn.ModuleDict({{name: {LINEAR} for name in given}})",
        "return self.layers['a'](x)",
    ),
    "levels of modules": (
        f"self.layers = []\nfor _ in range(n):\n    down = nn.Module()\n    down.block = nn.ModuleList([{LINEAR}])\n"
        "    self.layers.append(down)",
        f"self.layers = nn.ModuleList()\nfor _ in range(n):\n    down = nn.Module()\n"
        f"    down.block = nn.ModuleList([{LINEAR}])\n    self.layers.append(down)",
        "for i in range(2):\n    x = self.layers[i].block[0](x)\nreturn x",
    ),
    "run by checkpoint": (
        f"self.layers = [{LINEAR}, {LINEAR}]",
        f"self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])",
        "for layer in self.layers:\n    x = checkpoint(layer, x)\nreturn x",
    ),
    "one branch registers": (
        f"if n:\n    self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])\nelse:\n    self.layers = [{LINEAR}, {LINEAR}]",
        f"if n:\n    self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])\nelse:\n"
        f"    self.layers = nn.ModuleList([{LINEAR}, {LINEAR}])",
        FORWARD,
    ),
}

# name: (constructor, forward)
SILENT = {
    "a ModuleList": (f"self.layers = nn.ModuleList([{LINEAR}])", FORWARD),
    "registered as attributes": (f"self.a = {LINEAR}\nself.layers = [self.a, self.a]", FORWARD),
    "registered in a Sequential": (
        f"self.layers = [{LINEAR}, {LINEAR}]\nself.net = nn.Sequential(*self.layers)",
        FORWARD,
    ),
    "registered in a ModuleList later": (
        f"self.layers = [{LINEAR}, {LINEAR}]\nself.layers = nn.ModuleList(self.layers)",
        FORWARD,
    ),
    "the local list is registered": (
        f"layers = [{LINEAR}, {LINEAR}]\nself.net = nn.Sequential(*layers)\nself.layers = layers",
        FORWARD,
    ),
    "add_module": (
        f"self.layers = []\nfor i in range(n):\n    a = {LINEAR}\n    self.add_module(str(i), a)\n"
        "    self.layers.append(a)",
        FORWARD,
    ),
    "setattr": (
        f"self.layers = []\nfor i in range(n):\n    a = {LINEAR}\n    setattr(self, str(i), a)\n"
        "    self.layers.append(a)",
        FORWARD,
    ),
    "hidden in a list": ("self.layers = [given]", "return self.layers[0](x)"),
    "hidden with a reason": (
        f"# not registered: shared with the decoder\nself.layers = [{LINEAR}, {LINEAR}]",
        FORWARD,
    ),
    "teachers": (f"self.teachers = [{LINEAR}, {LINEAR}]", "return self.teachers[0](x)"),
    "frozen": (f"self.layers = [{LINEAR}.eval(), {LINEAR}.eval()]", FORWARD),
    "without parameters": ("self.layers = [nn.ReLU(), nn.Dropout(0.1)]", FORWARD),
    "functions": ("self.layers = [torch.relu, torch.tanh]", FORWARD),
    "losses": ("self.layers = [nn.MSELoss(), nn.L1Loss()]", "return self.layers[0](x, x)"),
    "moved one by one": (
        f"self.layers = [{LINEAR}, {LINEAR}]",
        "for layer in self.layers:\n    layer.to(x.device)\n    x = layer(x)\nreturn x",
    ),
    "given moved inputs": (f"self.layers = [{LINEAR}, {LINEAR}]", "return self.layers[0](x.cpu())"),
    "trained one by one": (
        f"self.layers = [{LINEAR}, {LINEAR}]",
        "return [p for layer in self.layers for p in layer.parameters()]",
    ),
    "never run": (f"self.layers = [{LINEAR}, {LINEAR}]", "return x"),
    "a name of nn.Module": (f"self.modules = [{LINEAR}, {LINEAR}]", "return self.modules[0](x)"),
    "numbers": ("self.layers = [1, 2]", "return self.layers[0] + x"),
    "unknown things of unknown use": ("self.layers = [make(i) for i in given]", "return self.layers[0].a"),
}


@pytest.mark.parametrize("name", [*CHANGED, *FORMS])
def test_what_changes(name: str) -> None:
    init, after, forward = {**CHANGED, **FORMS}[name]
    assert fixed(RULE, program(init, forward, BLOCK)) == program(after, forward, BLOCK)


@pytest.mark.parametrize("name", SILENT)
def test_what_is_left_alone(name: str) -> None:
    init, forward = SILENT[name]
    assert findings(RULE, program(init, forward)) == []


SHOWN = {
    "concatenated": "return sum(layer(x) for layer in self.layers + [self.a])",
    "passed on": "helper(self.layers)\nreturn self.layers[0](x)",
    "isinstance": "assert isinstance(self.layers, list)\nreturn self.layers[0](x)",
    "a list method": "self.layers.reverse()\nreturn self.layers[0](x)",
    "a slice that is kept": "tail = self.layers[1:]\nreturn self.layers[0](x)",
}


@pytest.mark.parametrize("name", SHOWN)
def test_shown_without_a_fix(name: str) -> None:
    text = program(f"self.a = nn.ReLU()\nself.layers = [{LINEAR}, {LINEAR}]", SHOWN[name] + f"\n{FORWARD}")
    (finding,) = findings(RULE, text)
    assert finding.fix is None


ODD_KEYS = {
    "a key with a dot": (f"self.layers = {{'a.b': {LINEAR}}}", "return self.layers['a.b'](x)"),
    "keys that are no strings": (f"self.layers = {{1: {LINEAR}}}", "return self.layers[1](x)"),
    "numbers as keys": (f"self.layers = {{i: {LINEAR} for i in range(n)}}", "return self.layers[1](x)"),
}


@pytest.mark.parametrize("name", ODD_KEYS)
def test_keys_that_a_module_dict_refuses(name: str) -> None:
    (found,) = findings(RULE, program(*ODD_KEYS[name]))
    assert found.fix is None


def test_a_dict_with_get_is_shown_only() -> None:
    text = program(f"self.layers = {{'a': {LINEAR}}}", "self.layers.get('b')\nreturn self.layers['a'](x)")
    (finding,) = findings(RULE, text)
    assert finding.fix is None


def test_always_unsafe() -> None:
    (finding,) = findings(RULE, program(f"self.layers = [{LINEAR}, {LINEAR}]"))
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("head", "written"),
    [
        ("import torch\nimport torch.nn as nn\n", "nn.ModuleList"),
        ("from torch import nn\nfrom torch.nn import ModuleList\n", "ModuleList"),
    ],
)
def test_the_name_of_the_file(head: str, written: str) -> None:
    init = f"self.layers = [{LINEAR}, {LINEAR}]"
    after = f"self.layers = {written}([{LINEAR}, {LINEAR}])"
    assert fixed(RULE, program(init, head=head)) == program(after, head=head)


def test_torch_alone() -> None:
    text = program("self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]", head="import torch\n\n\n")
    text = text.replace("nn.", "torch.nn.")
    assert "self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4)" in fixed(RULE, text)


def test_another_module_moves_its_own() -> None:
    own = "\n    def _apply(self, fn):\n        for m in self.layers:\n            m._apply(fn)\n        return super()._apply(fn)\n"
    assert findings(RULE, program(f"self.layers = [{LINEAR}, {LINEAR}]", after=own)) == []


def test_annotated_arguments() -> None:
    text = program("self.layers = [m for m in given]").replace("given=None", "given: list[nn.Module]")
    assert fixed(RULE, text) == text.replace("[m for m in given]", "nn.ModuleList([m for m in given])")
    bare = program("self.layers = given").replace("given=None", "given: list[nn.Module]")
    assert fixed(RULE, bare) == bare.replace("self.layers = given", "self.layers = nn.ModuleList(given)")


def test_what_a_function_or_a_method_returns() -> None:
    block = "def block(c):\n    return nn.Sequential(nn.Linear(c, c), nn.ReLU())\n\n\n"
    clones = "def clones(layer, n):\n    return [copy.deepcopy(layer) for _ in range(n)]\n\n\n"
    make = (
        "\n    def make(self):\n        layers = [nn.Linear(4, 4)]\n        return nn.Sequential(*layers)\n"
    )
    for init, before, after in (
        ("[block(4) for _ in range(n)]", block, ""),
        ("clones(nn.Linear(4, 4), n)", clones, ""),
        ("[self.make() for _ in range(n)]", "", make),
    ):
        text = fixed(RULE, program(f"self.layers = {init}", before=before, after=after))
        assert f"self.layers = nn.ModuleList({init})" in text


def test_a_function_that_returns_numbers() -> None:
    before = "def sizes(n):\n    return [i for i in range(n)]\n\n\n"
    assert findings(RULE, program("self.layers = sizes(n)", before=before)) == []


@pytest.mark.parametrize("base", ["nn.Sequential", "nn.ModuleList", "nn.ModuleDict"])
def test_what_is_registered_in_a_container_becomes_an_element(base: str) -> None:
    text = program(f"self.layers = [{LINEAR}, {LINEAR}]")
    assert findings(RULE, text) and findings(RULE, text.replace("nn.Module)", f"{base})")) == []


def test_another_branch_that_holds_something_else() -> None:
    init = f"if n:\n    self.layers = nn.ModuleDict()\n    self.layers['a'] = {LINEAR}\n"
    init += "else:\n    self.layers = {}\n    self.layers['a'] = shards.Embedding(4)"
    assert findings(RULE, program(init, "return self.layers['a'](x)")) == []


def test_the_same_name_in_another_class() -> None:
    after = "\n\ndef load(net, w):\n    net.other.layers.weight = w\n"
    assert len(findings(RULE, program(f"self.layers = [{LINEAR}, {LINEAR}]", after=after))) == 1


@pytest.mark.parametrize(
    "stores",
    [
        f"self.layers[0] = {LINEAR}",
        f"for i in range(n):\n    self.layers[i] = {LINEAR}",
        f"for i in range(n):\n    for name in given:\n        self.layers[i] = {LINEAR}",
    ],
)
def test_numbers_are_no_keys_of_a_module_dict(stores: str) -> None:
    (found,) = findings(RULE, program(f"self.layers = {{}}\n{stores}", "return self.layers[0](x)"))
    assert found.fix is None


def test_strings_that_a_loop_gives_are_keys() -> None:
    stores = f"self.layers = {{}}\nfor name in ('a', 'b'):\n    self.layers[name] = {LINEAR}"
    assert "self.layers = nn.ModuleDict()" in fixed(RULE, program(stores, "return self.layers['a'](x)"))


@pytest.mark.parametrize("values", ["list(self.layers.values())", "[one for one in self.layers.values()]"])
def test_modules_that_are_registered_by_another_name_too(values: str) -> None:
    init = f"self.layers = {{}}\nself.layers['a'] = {LINEAR}\nself.all = nn.ModuleList({values})"
    assert findings(RULE, program(init, "return self.layers['a'](x)")) == []


def test_a_number_of_modules_registers_nothing() -> None:
    init = f"self.layers = [{LINEAR}]\nself.head = nn.Sequential(nn.Linear(4, len(self.layers)))"
    assert len(findings(RULE, program(init))) == 1


def given(keeps: str, callers: str, forward: str = FORWARD) -> str:
    """A class that keeps what it is given, and functions that make objects of it."""
    return program(f"self.layers = {keeps}", forward, after=f"\n\n{callers}")


MADE = "def build(n):\n    return Net(n, [nn.Linear(4, 4) for _ in range(n)])\n"
ADDED = (
    "def build(n, device):\n    parts = []\n    for i in range(n):\n        parts += [nn.Linear(4, 4)]\n"
    "    return Net(n, given=parts).to(device)\n"
)


@pytest.mark.parametrize("callers", [MADE, ADDED])
@pytest.mark.parametrize("keeps", ["given", "given or []"])
def test_a_list_of_modules_that_callers_pass(keeps: str, callers: str) -> None:
    assert fixed(RULE, given(keeps, callers)) == given(f"nn.ModuleList({keeps})", callers)


@pytest.mark.parametrize(
    ("callers", "forward"),
    [
        ("", FORWARD),  # nobody in view passes anything
        (MADE + "\n\ndef other(n):\n    return Net(n, [torch.relu, torch.tanh])\n", FORWARD),
        ("def build(n):\n    return Net(n, [nn.ReLU(), nn.Tanh()])\n", FORWARD),
        (
            "def build(n):\n    parts = [nn.Linear(4, 4) for _ in range(n)]\n    body = nn.Sequential(*parts)\n"
            "    return body, Net(n, parts)\n",
            FORWARD,
        ),
        (MADE, "for layer in self.layers:\n    x = layer.to(x.device)(x)\nreturn x"),
        (MADE, "return x"),
    ],
)
def test_what_callers_pass_and_is_left_alone(callers: str, forward: str) -> None:
    assert findings(RULE, given("given", callers, forward)) == []


OPTIMIZED = """\
import torch
import pytorch_lightning as pl
from torch import nn
from zoo import CoderBlock


class Gan(pl.LightningModule):
    def __init__(self, n, frozen):
        super().__init__()
        self.nets = [CoderBlock(n), CoderBlock(2 * n)]
        if frozen:
            self.nets[0].requires_grad_(False)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.nets[1].parameters())

    def training_step(self, batch, index):
        def run(x, i):
            net = self.nets[i]
            return net(x)

        return run(batch["x"], 1).mean()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nets", "critics"),
        ("[CoderBlock(n), CoderBlock(2 * n)]", "[CoderBlock(i) for i in range(n)]"),
        ("self.nets[0].requires_grad_(False)", "self.nets[0].eval()"),
        ("self.nets[1].parameters()", "[p for net in self.nets for p in net.parameters()]"),
        ("if frozen:\n            self.nets[0].requires_grad_(False)", "self.frozen = frozen"),
        ("pl.LightningModule", "pl.LightningModule, Mixin"),
    ],
)
def test_a_framework_moves_only_what_is_registered(old: str, new: str) -> None:
    """Whoever trains the parts one by one has not moved them: a framework moves the whole, and does not see them."""
    text = OPTIMIZED.replace(old, new)
    made = next(line.split(" = ")[1] for line in text.split("\n") if "[CoderBlock(" in line)
    assert text != OPTIMIZED
    assert fixed(RULE, text) == text.replace(made, f"nn.ModuleList({made})")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pl.LightningModule", "nn.Module"),  # who trains the parts may move them, too
        ("return net(x)", "net.to(x.device)\n            return net(x)"),
        ("net = self.nets[i]", "net = self.nets[i].to(x.device)"),
        ("(self.nets[1].parameters())", "(chain(self.parameters(), self.nets[1].parameters()))"),
        ("[CoderBlock(n), CoderBlock(2 * n)]", "nn.ModuleList([CoderBlock(n), CoderBlock(2 * n)])"),
        ("return net(x)", "return x"),
        ("[CoderBlock(n), CoderBlock(2 * n)]", "[Transform(n), Transform(2 * n)]"),
    ],
)
def test_parts_that_may_be_moved_one_by_one(old: str, new: str) -> None:
    text = OPTIMIZED.replace(old, new)
    assert text != OPTIMIZED
    assert findings(RULE, text) == []
