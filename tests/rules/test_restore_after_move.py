"""restore-after-move: state and copies that are made too early, where the move goes, and what is right."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.restore_after_move import RestoreAfterMove

RULE = RestoreAfterMove()
HEAD = "import copy\nimport torch\nfrom torch import nn\nfrom torch.optim import Adam, SGD\n\n\n"
_ADAM = "    opt = Adam(net.parameters())\n"
_STEP = "    opt.step()\n"  # what is not used any more needs no cure
_STATE = "    opt.load_state_dict(state)\n"

# name: (before, after, safety)
CHANGED = {
    "at once": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    net.to(device)\n",
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    net.to(device)\n{_STATE}",
        Safety.SAFE,
    ),
    "cuda, and the result is kept": (
        f"def f(state):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    net = net.cuda()\n",
        f"def f(state):\n    net = nn.Linear(2, 2)\n{_ADAM}    net = net.cuda()\n{_STATE}",
        Safety.SAFE,
    ),
    "resumed under a condition": (
        f"def f(args, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    if args.resume:\n"
        "        state = torch.load(args.resume)\n        opt.load_state_dict(state['opt'])\n"
        "        start = state['epoch']\n    net.to(device)\n",
        f"def f(args, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    net.to(device)\n    if args.resume:\n"
        "        state = torch.load(args.resume)\n        opt.load_state_dict(state['opt'])\n"
        "        start = state['epoch']\n",
        Safety.SAFE,
    ),
    "moved under a condition": (
        f"def f(args, state):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    if args.cuda:\n        net.cuda()\n",
        f"def f(args, state):\n    net = nn.Linear(2, 2)\n{_ADAM}    if args.cuda:\n        net.cuda()\n{_STATE}",
        Safety.SAFE,
    ),
    "resumed under a condition, and moved under another": (
        f"def f(resume, state, use_cuda):\n    net = nn.Linear(2, 2)\n{_ADAM}    if resume:\n        opt.load_state_dict(state)\n"
        f"    if use_cuda:\n        net = net.cuda()\n    net(x)\n{_STEP}",
        f"def f(resume, state, use_cuda):\n    net = nn.Linear(2, 2)\n{_ADAM}    if use_cuda:\n        net = net.cuda()\n"
        f"    if resume:\n        opt.load_state_dict(state)\n    net(x)\n{_STEP}",
        Safety.SAFE,
    ),
    "what is run on the CPU between needs it there": (
        f"def f(state, x, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    net(torch.ones(1, 2))\n"
        f"    net.to(device)\n    net(x)\n{_STEP}",
        f"def f(state, x, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    net.to(device)\n{_STATE}"
        f"    net(torch.ones(1, 2))\n    net(x)\n{_STEP}",
        Safety.UNSAFE,
    ),
    "groups of parameters, by a name": (
        "def f(state, device):\n    net = nn.Linear(2, 2)\n"
        "    groups = [{'params': [p for n, p in net.named_parameters() if n]}]\n"
        f"    opt = Adam(groups)\n{_STATE}    net.to(device)\n",
        "def f(state, device):\n    net = nn.Linear(2, 2)\n"
        "    groups = [{'params': [p for n, p in net.named_parameters() if n]}]\n"
        f"    opt = Adam(groups)\n    net.to(device)\n{_STATE}",
        Safety.SAFE,
    ),
    "attributes of an object": (
        "class T:\n    def __init__(self, state, device):\n        self.net = nn.Linear(2, 2)\n"
        "        self.optimizer = SGD(self.net.parameters(), lr=1, momentum=0.9)\n"
        "        self.optimizer.load_state_dict(state)\n        self.net.to(device)\n",
        "class T:\n    def __init__(self, state, device):\n        self.net = nn.Linear(2, 2)\n"
        "        self.optimizer = SGD(self.net.parameters(), lr=1, momentum=0.9)\n"
        "        self.net.to(device)\n        self.optimizer.load_state_dict(state)\n",
        Safety.SAFE,
    ),
    "a model that a function makes": (
        f"def f(state, device):\n    net = build('x')\n{_ADAM}{_STATE}    net.to(device)\n    net.eval()\n",
        f"def f(state, device):\n    net = build('x')\n{_ADAM}    net.to(device)\n{_STATE}    net.eval()\n",
        Safety.UNSAFE,
    ),
    "a choice of optimizers": (
        "def f(args, state, device):\n    net = nn.Linear(2, 2)\n    opt = None\n    if args.sgd:\n"
        "        opt = SGD(net.parameters(), lr=1)\n    else:\n        opt = Adam(net.parameters())\n"
        f"{_STATE}    net.to(device)\n",
        "def f(args, state, device):\n    net = nn.Linear(2, 2)\n    opt = None\n    if args.sgd:\n"
        "        opt = SGD(net.parameters(), lr=1)\n    else:\n        opt = Adam(net.parameters())\n"
        f"    net.to(device)\n{_STATE}",
        Safety.SAFE,
    ),
    "an average of a library": (
        "from timm.utils import ModelEmaV2\ndef f(device):\n    net = nn.Linear(2, 2)\n"
        "    ema = ModelEmaV2(net, decay=0.9)\n    net.to(device)\n    return ema\n",
        "from timm.utils import ModelEmaV2\ndef f(device):\n    net = nn.Linear(2, 2)\n    net.to(device)\n"
        "    ema = ModelEmaV2(net, decay=0.9)\n    return ema\n",
        Safety.SAFE,
    ),
    "an average of parameters": (
        "from torch_ema import ExponentialMovingAverage\ndef f(device):\n    net = nn.Linear(2, 2)\n"
        "    ema = ExponentialMovingAverage(net.parameters(), decay=0.9)\n    net.to(device)\n    return ema\n",
        "from torch_ema import ExponentialMovingAverage\ndef f(device):\n    net = nn.Linear(2, 2)\n"
        "    net.to(device)\n    ema = ExponentialMovingAverage(net.parameters(), decay=0.9)\n    return ema\n",
        Safety.SAFE,
    ),
    "an average of this file, by a copy": (
        "class EMA:\n    def __init__(self, net):\n        self.net = copy.deepcopy(net)\n\n\n"
        "def f(device):\n    net = nn.Linear(2, 2)\n    ema = EMA(net)\n    net.to(device)\n    return ema\n",
        "class EMA:\n    def __init__(self, net):\n        self.net = copy.deepcopy(net)\n\n\n"
        "def f(device):\n    net = nn.Linear(2, 2)\n    net.to(device)\n    ema = EMA(net)\n    return ema\n",
        Safety.UNSAFE,
    ),
    "an average of this file": (
        "class EMA:\n    def __init__(self, net):\n"
        "        self.shadow = {n: p.data.clone() for n, p in net.named_parameters()}\n\n\n"
        "def f(device):\n    net = nn.Linear(2, 2)\n    ema = EMA(net)\n    net.to(device)\n    return ema\n",
        "class EMA:\n    def __init__(self, net):\n"
        "        self.shadow = {n: p.data.clone() for n, p in net.named_parameters()}\n\n\n"
        "def f(device):\n    net = nn.Linear(2, 2)\n    net.to(device)\n    ema = EMA(net)\n    return ema\n",
        Safety.UNSAFE,
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    before, after, safety = CHANGED[name]
    if "return" not in before and "class" not in before:
        before, after = before + _STEP, after + _STEP
    (finding,) = findings(RULE, HEAD + before)
    assert finding.fix is not None and finding.fix.safety is safety
    assert fixed(RULE, HEAD + before) == HEAD + after
    assert findings(RULE, HEAD + after) == []


# Found, and not mended: the move cannot stand above.
FOUND = {
    "the device is bound below": (
        f"def f(state, x):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    device = x.device\n    net.to(device)\n"
    ),
    "layers come between": (
        f"def f(state, device):\n    net = nn.Sequential()\n{_ADAM}{_STATE}"
        "    net.head = nn.Linear(2, 2)\n    net.to(device)\n"
    ),
    "the model is bound anew": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}"
        "    net = nn.Sequential(net)\n    net = net.to(device)\n"
    ),
    "moved where it is wrapped": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    return nn.Sequential(net.to(device))\n"
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_no_fix(name: str) -> None:
    found = findings(RULE, HEAD + FOUND[name])
    assert [finding.fix for finding in found] in ([None], [])
    assert fixed(RULE, HEAD + FOUND[name]) == HEAD + FOUND[name]


SILENT = {
    "moved first": f"def f(state, device):\n    net = nn.Linear(2, 2)\n    net.to(device)\n{_ADAM}{_STATE}",
    "made before the move, restored after it": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    net.to(device)\n{_STATE}"
    ),
    "moved once more": (
        f"def f(state, device):\n    net = nn.Linear(2, 2).to(device)\n{_ADAM}{_STATE}    net.to(device)\n"
    ),
    "moved before and once more": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n    net.to(device)\n{_ADAM}{_STATE}    net.to(device)\n"
    ),
    "the state is moved as well": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    net.to(device)\n"
        "    for entry in opt.state.values():\n        entry['exp_avg'] = entry['exp_avg'].to(device)\n"
    ),
    "an optimizer without state": (
        "def f(state, device):\n    net = nn.Linear(2, 2)\n    opt = SGD(net.parameters(), lr=1)\n"
        f"{_STATE}    net.to(device)\n"
    ),
    "an optimizer that may come from elsewhere": (
        f"def f(state, device, make):\n    net = nn.Linear(2, 2)\n{_ADAM}    if make:\n        opt = make(net)\n"
        f"{_STATE}    net.to(device)\n"
    ),
    "a model from elsewhere": f"def f(net, state, device):\n{_ADAM}{_STATE}    net.to(device)\n",
    "an optimizer from elsewhere": (
        f"def f(opt, state, device):\n    net = nn.Linear(2, 2)\n{_STATE}    net.to(device)\n"
    ),
    "another model is moved": (
        f"def f(state, device):\n    net, other = nn.Linear(2, 2), nn.Linear(2, 2)\n    net = nn.Linear(2, 2)\n"
        f"{_ADAM}{_STATE}    other.to(device)\n"
    ),
    "moved to the CPU": (f"def f(state):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}    net.to('cpu')\n"),
    "in the other arm": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    if state:\n"
        "        opt.load_state_dict(state)\n    else:\n        net.to(device)\n"
    ),
    "made on a device": (
        f"def f(state, device):\n    net = nn.Linear(2, 2, device=device)\n{_ADAM}{_STATE}    net.to(device)\n"
    ),
    "the weights alone are restored": (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}    net.load_state_dict(state)\n"
        "    net.to(device)\n"
    ),
    "an average that is moved": (
        "from timm.utils import ModelEmaV2\ndef f(device):\n    net = nn.Linear(2, 2)\n"
        "    ema = ModelEmaV2(net)\n    net.to(device)\n    ema.to(device)\n"
    ),
    "an average that is told a device": (
        "from timm.utils import ModelEmaV2\ndef f(device):\n    net = nn.Linear(2, 2)\n"
        "    ema = ModelEmaV2(net, device='cpu')\n    net.to(device)\n"
    ),
    "an average of this file that sees to it": (
        "class EMA:\n    def __init__(self, net):\n        self.net = copy.deepcopy(net)\n"
        "    def update(self, net):\n        self.net.to(next(net.parameters()).device)\n\n\n"
        "def f(device):\n    net = nn.Linear(2, 2)\n    ema = EMA(net)\n    net.to(device)\n    return ema\n"
    ),
    "a copy for later": (
        "def f(device):\n    net = nn.Linear(2, 2)\n    before = copy.deepcopy(net)\n    net.to(device)\n"
        "    return before\n"
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


UNUSED = {
    "never stepped": f"{_ADAM}{_STATE}    net.to(device)\n    return net\n",
    "wrapped under its own name": f"{_ADAM}    opt = Average(opt)\n{_STATE}    net.to(device)\n",
    "asked before the move": f"{_ADAM}{_STATE}    opt.zero_grad()\n    net.to(device)\n",
}
USED = {
    "stepped": f"{_ADAM}{_STATE}    net.to(device)\n    opt.step()\n",
    "returned": f"{_ADAM}{_STATE}    net.to(device)\n    return opt\n",
    "handed on before": f"{_ADAM}{_STATE}    trainer = Trainer(opt)\n    net.to(device)\n    trainer.run()\n",
    "used by a function in it": (
        f"{_ADAM}{_STATE}    def step():\n        opt.step()\n    net.to(device)\n    step()\n"
    ),
}


@pytest.mark.parametrize("name", [*UNUSED, *USED])
def test_what_is_not_used_after_the_move_needs_no_fix(name: str) -> None:
    body = UNUSED.get(name) or USED[name]
    found = findings(RULE, f"{HEAD}def f(state, device):\n    net = nn.Linear(2, 2)\n{body}")
    assert len(found) == (name in USED)


@pytest.mark.parametrize(("run", "safety"), [("    net(torch.ones(1, 2))\n", "unsafe"), ("", "safe")])
def test_what_needs_it_where_it_was_makes_it_unsafe(run: str, safety: str) -> None:
    text = (
        f"def f(state, device):\n    net = nn.Linear(2, 2)\n{_ADAM}{_STATE}{run}    net.to(device)\n{_STEP}"
    )
    (found,) = findings(RULE, HEAD + text)
    assert found.fix is not None and found.fix.safety is Safety[safety.upper()]


@pytest.mark.parametrize(
    ("name", "told"), [("restore_checkpoint", True), ("load_all", True), ("log_state", False)]
)
def test_a_function_out_of_sight_that_restores_by_its_name(name: str, told: bool) -> None:
    text = (
        "from utils import helper\n\n\n"
        "def f(path, device):\n    net = nn.Linear(2, 2)\n    opt = Adam(net.parameters())\n"
        "    helper(model=net, optim=opt, path=path)\n    net = net.to(device)\n    opt.step()\n"
    )
    text = HEAD + text.replace("helper", name)
    found = findings(RULE, text)
    assert [one.fix and one.fix.safety for one in found] == ([Safety.UNSAFE] if told else [])
    assert all(f"`{name}()` restores that state" in one.message for one in found)
    lines = fixed(RULE, text).splitlines()
    assert (
        lines.index("    net = net.to(device)") < lines.index(f"    {name}(model=net, optim=opt, path=path)")
    ) is told
