"""`flow.value`, `flow.events` and `flow.scopes`: what codemods of one's own can ask about a file."""

from __future__ import annotations

import ast

import pytest
from devfix.api import UNKNOWN, Flow, Kind, Source, Value, What, Where
from devfix.flow import analyse

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
# The value of the last statement: kind, where, and how its device is written.
VALUES = {
    "torch.ones(3)": (Kind.TENSOR, Where.DEFAULT, ""),
    "torch.ones(3).cpu()": (Kind.TENSOR, Where.CPU, ""),
    "torch.ones(3).cuda(1)": (Kind.TENSOR, Where.ACCELERATOR, '"cuda:1"'),
    "torch.ones(3, device=device)": (Kind.TENSOR, Where.SYMBOL, "device"),
    "torch.ones(3).to(device)": (Kind.TENSOR, Where.SYMBOL, "device"),
    "device": (Kind.DEVICE, Where.SYMBOL, "device"),
    "nn.Linear(2, 2).to(device)": (Kind.MODULE, Where.SYMBOL, "device"),
    "DataLoader([1])": (Kind.LOADER, Where.DEFAULT, ""),
    "'text'": (Kind.STRING, Where.UNKNOWN, ""),
    "7": (Kind.NUMBER, Where.UNKNOWN, ""),
    "unheard_of": (Kind.UNKNOWN, Where.UNKNOWN, ""),
    # The old types of tensors say where a tensor is.
    "torch.ones(3, device=device).type(torch.LongTensor)": (Kind.TENSOR, Where.CPU, ""),
    "torch.ones(3, device=device).type('torch.LongTensor')": (Kind.TENSOR, Where.CPU, ""),
    "torch.ones(3, device=device).type(torch.long)": (Kind.TENSOR, Where.SYMBOL, "device"),
    "torch.ones(3).type(torch.cuda.LongTensor)": (Kind.TENSOR, Where.ACCELERATOR, '"cuda"'),
    "torch.ones(3).type(unheard_of)": (Kind.TENSOR, Where.UNKNOWN, ""),
}


def flow_of(text: str) -> Flow:
    return analyse(Source(HEAD + text))


def last(flow: Flow) -> Value:
    statement = flow.source.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    return flow.value(statement.value)


@pytest.mark.parametrize("code", VALUES)
def test_what_an_expression_is(code: str) -> None:
    value = last(flow_of(f"{code}\n"))
    assert (value.kind, value.place.where, value.place.text) == VALUES[code]


def test_on_some_paths() -> None:
    flow = flow_of("x = torch.ones(3)\nif unheard_of:\n    x = x.to(device)\nx\n")
    place = last(flow).place
    assert place.guarded and place.where is Where.SYMBOL and place.text == "device"


def test_what_put_it_there() -> None:
    flow = flow_of("net = nn.Linear(2, 2)\nnet.eval()\nnet.to(device)\nnet\n")
    value = last(flow)
    assert flow.source.code(value.node) == "nn.Linear(2, 2)" and value.name == "torch.nn.Linear"
    assert flow.source.code(value.place.node) == "net.to(device)" and value.sure and not value.bare


def test_forms_elements_and_assumptions() -> None:
    assert last(flow_of("device\n")).form == "object"
    assert last(flow_of("'cuda' if torch.cuda.is_available() else 'cpu'\n")).form == "string"
    assert last(flow_of("'cuda'\n")).text == "cuda"
    pair = last(flow_of("(torch.ones(3), {'a': nn.ReLU()})\n"))
    assert pair.items is not None and [one.kind for one in pair.items] == [Kind.TENSOR, Kind.BATCH]
    assert pair.items[1].fields is not None and pair.items[1].fields["a"].bare
    flow = flow_of("def f(model):\n    model.eval()\n    return model\n")
    (returned,) = (one for one in flow.source.walk() if isinstance(one, ast.Return))
    assert returned.value is not None
    value = flow.value(returned.value)
    assert (value.kind, value.sure, value.source) == (Kind.MODULE, False, "`model`")
    assert flow.value(ast.Name("elsewhere", lineno=99, col_offset=0)) is UNKNOWN


def test_what_is_called() -> None:
    flow = flow_of("net = nn.Linear(2, 2).to(device)\nnet(torch.ones(2, 2))\n")
    (call,) = (one for one in flow.source.calls if isinstance(one.func, ast.Name))
    assert flow.value(call.func).kind is Kind.MODULE


EVENTS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)


def run(x, fresh):
    net = Net().to(device)
    net.state_dict()
    y = x.cuda(1)
    net.head = nn.Linear(2, 2)
    z = torch.ones(2, 2)
    return net(z)


def wrap():
    return nn.DataParallel(nn.Linear(2, 2).to("cuda:0"))
"""


def test_what_happens_in_order() -> None:
    flow = flow_of(EVENTS)
    said = [
        (event.scope.name, event.what.name, flow.source.code(event.node), event.path)
        for event in flow.events()
    ]
    assert said == [
        ("__init__", "ATTACH", "self.a", "self.a"),
        ("run", "MOVE", "Net().to(device)", ""),
        ("run", "READ", "net.state_dict()", "net"),
        ("run", "MOVE", "x.cuda(1)", "x"),
        ("run", "ATTACH", "net.head", "net.head"),
        ("run", "USE", "net(z)", "net"),
        ("run", "MEET", "net(z)", "net"),
        ("wrap", "MOVE", 'nn.Linear(2, 2).to("cuda:0")', ""),
        ("wrap", "WRAP", 'nn.DataParallel(nn.Linear(2, 2).to("cuda:0"))', ""),
    ]
    assert [event.order for event in flow.events() if event.scope.name == "run"] == list(range(6))
    init = next(scope for scope in flow.scopes if scope.name == "__init__")
    assert init.owner is not None and init.owner.name == "Net" and not init.owned
    places = [event.place for event in flow.events(What.MOVE)]
    assert [(one.where, one.text) for one in places if one is not None] == [
        (Where.SYMBOL, "device"),
        (Where.ACCELERATOR, "1"),
        (Where.ACCELERATOR, '"cuda:0"'),
    ]
    (meeting,) = flow.events(What.MEET)
    assert [(flow.source.code(one.node), one.place.where) for one in meeting.strays] == [("z", Where.DEFAULT)]
    assert "device" in [one.text for one in meeting.devices]
    (used,) = flow.events(What.USE)
    moved = next(iter(flow.events(What.MOVE)))
    assert used.value.identity == moved.value.identity and used.detail == "called"


def test_who_calls_it() -> None:
    flow = flow_of(
        "import lightning\n\n\nclass M(lightning.LightningModule):\n    def setup(self, stage):\n        pass\n\n\n"
        "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        return torch.ones(i)\n"
    )
    assert [(one.name, one.owned, one.host) for one in flow.scopes] == [
        ("<module>", False, False), ("setup", True, False), ("__getitem__", False, True),
    ]  # fmt: skip


def test_what_goes_in_and_out() -> None:
    flow = flow_of(
        "def f(x: torch.Tensor, n: int):\n    if n:\n        return x.to(device)\n    return x.cpu()\n"
    )
    scope = flow.scopes[1]
    assert [one.kind for one in scope.parameters] == [Kind.TENSOR, Kind.NUMBER]
    assert scope.returned is not None and scope.returned.kind is Kind.TENSOR
    assert scope.returned.place.guarded and scope.returned.place.text == "device"
    assert flow.scopes[0].returned is None
