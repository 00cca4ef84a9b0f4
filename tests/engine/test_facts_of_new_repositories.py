"""Facts that were missing in repositories nobody had looked at: programs that are told, and others that are right."""

from __future__ import annotations

import devfix
import pytest
from snippets import CHOSEN, HEAD, alone, codemods  # noqa: F401


def told(code: str) -> str:
    return " ".join(one.message for one in devfix.check(source=HEAD + code, settings=False).findings)


# --- a module that an object keeps, and its class has a base in view --------------------------

KEEPER = """
from transformers import AutoModel
class Base(META):
    def encode(self, text):
        raise NotImplementedError
class Encoder(Base):
    def __init__(self, path):
        super().__init__()
        self.where = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.NAME = AutoModel.from_pretrained(path)
    def encode(self, ids):
        ids = torch.tensor(ids).to(self.where)
        with torch.no_grad():
            return self.NAME(ids)[0]
"""
USERS = """
def main(ids):
    encoder = Encoder("a")
    encoder.NAME.CALL
    return encoder.encode(ids)
"""


@pytest.mark.parametrize("name", ["model", "_bert"])
@pytest.mark.parametrize("base", ["object", "abc.ABC", "metaclass=abc.ABCMeta"])
def test_a_base_in_view_moves_nothing(base: str, name: str) -> None:
    code = ("import abc\n" + KEEPER).replace("META", base).replace("NAME", name)
    assert codemods(code) == ["module-never-moved"]


@pytest.mark.parametrize(
    ("call", "told"),
    [("to(encoder.where)", []), ("cuda()", []), ("eval()", ["module-never-moved"])],
)
@pytest.mark.parametrize("base", ["Base", "object"])
def test_whoever_uses_an_object_may_move_what_it_keeps(call: str, told: list[str], base: str) -> None:
    code = (KEEPER + USERS.replace("CALL", call)).replace("META", "object").replace("NAME", "net")
    found = codemods(code.replace("Encoder(Base)", f"Encoder({base})"))
    assert [one for one in found if one == "module-never-moved"] == told


def test_a_base_out_of_sight_may_move_it() -> None:
    code = (
        KEEPER.replace("META", "object").replace("NAME", "model").replace("Encoder(Base)", "Encoder(Agent)")
    )
    assert codemods("from agents import Agent\n" + code) == []


# --- what is made where nothing is given is there --------------------------------------------

DECODER = """
class Decoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, n)
    def forward(self, x, start=None, mask=None):
        if start is None:
            start = torch.ones((x.size(0), 1), dtype=torch.longPLACE)
        if mask is None:
            ASKED
            mask = start.eq(1)
        return self.embed(start) * mask
"""


@pytest.mark.parametrize(
    "asked",
    [
        "assert start is not None and start.dim() == 2",
        "print(start is None)",
        "if start is None:\n                start = x.long()",
    ],
)
@pytest.mark.parametrize(("place", "told"), [("", ["place-factory"]), (", device=x.device", [])])
def test_what_is_made_for_none_is_not_none(asked: str, place: str, told: list[str]) -> None:
    assert codemods(DECODER.replace("ASKED", asked).replace("PLACE", place)) == told


# --- forward by another name -----------------------------------------------------------------

NOISE = """
from tools import repeated
class Noise(nn.Module):
    def NAME(self, x):
        out = repeated(x, times=3)
        return torch.rand(size=out.shapePLACE) * 0.1 + out
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("forward_features", True),
        ("_forward_in", True),
        ("forward", True),
        ("_forward_hook", False),
        ("forward_cpu", False),
        ("straightforward", False),
        ("plot", False),
    ],
)
def test_what_is_called_like_forward_gets_its_inputs(name: str, told: bool) -> None:
    code = NOISE.replace("NAME", name)
    assert codemods(code.replace("PLACE", "")) == (["place-factory"] if told else [])
    assert codemods(code.replace("PLACE", ", device=x.device")) == []


# --- operations ------------------------------------------------------------------------------

OPERATION = """
class Attack:
    def __init__(self, model):
        self.model = model.to(device)
    def run(self, x):
        out = self.model(torch.from_numpy(x).to(device))
        return CALL
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("max(torch.ones(1), out)", ["place-factory"]),
        ("min(out, max(torch.zeros(1), out))", ["place-factory"]),
        ("max(torch.ones(1, device=device), out)", []),
        ("max(torch.tensor(0.0), out)", []),
        ("max(out.sum(), 0.0)", []),
        ("torch.autograd.backward(out[:, 0], torch.Tensor([1.0] * len(out)))", ["place-factory"]),
        ("torch.autograd.backward([out], [torch.ones(3)], retain_graph=True)", ["place-factory"]),
        ("torch.autograd.backward(out, torch.ones_like(out))", []),
        ("torch.autograd.backward(out)", []),
    ],
)
def test_operations_that_want_tensors_together(call: str, told: list[str]) -> None:
    assert codemods(CHOSEN + OPERATION.replace("CALL", call)) == told


# --- sizes of layers are numbers -------------------------------------------------------------

POLICY = """
class Policy(nn.Module):
    def __init__(self, hidden, n):
        super().__init__()
        self.mean = LAYER
        self.noise = torch.Tensor(n)
    def forward(self, x):
        return self.mean(x) + self.noise.normal_(0.0, std=0.1)
"""


@pytest.mark.parametrize(
    ("layer", "told"),
    [("nn.Linear(hidden, n)", ["register-buffer"]), ("nn.Linear(hidden, hidden)", [])],
)
def test_a_constructor_of_the_size_of_a_layer_makes_a_tensor_on_the_cpu(layer: str, told: list[str]) -> None:
    assert codemods(POLICY.replace("LAYER", layer)) == told


# --- moves whose result is dropped -----------------------------------------------------------

DROPPED = """
class Trainer:
    def __init__(self, net, use_cuda=True):
        self.use_cuda = use_cuda and torch.cuda.is_available()
        self.net = net.cuda() if self.use_cuda else net
    def run(self, arrays):
        for array in arrays:
            NAME = torch.from_numpy(array)
            if self.use_cuda:
                MOVED
            print(self.net(NAME).sum().item())
"""


@pytest.mark.parametrize("name", ["data", "grad", "batch", "weight"])
def test_a_dropped_move_by_any_name(name: str) -> None:
    code = DROPPED.replace("NAME", name)
    assert "is dropped" in told(code.replace("MOVED", f"{name}.cuda()"))
    assert codemods(code.replace("MOVED", f"{name} = {name}.cuda()")) == []


# --- what moves itself is no data set --------------------------------------------------------

BATCH = """
class Features(dict):
    def __len__(self):
        return 3
    def __getitem__(self, key):
        return super().__getitem__(key)
    def MOVE(self, device="cuda:0"):
        for key, value in self.items():
            self[key] = value.to(device)
        return self
    def cuda(self, device="cuda:0"):
        return self.MOVE(GIVEN)
"""


@pytest.mark.parametrize(("given", "found"), [("", True), ("device", False)])
def test_a_container_that_moves_itself_is_no_data_set(given: str, found: bool) -> None:
    code = BATCH.replace("MOVE", "to").replace("GIVEN", given)
    assert ("hand-on-device" in codemods(code)) is found


# --- old constructors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("def grid(n, device='cpu'):\n    return ", True),
        ("def grid(\n    n,\n    device='cpu',\n):\n    return ", True),
        ("n, device = 3, None\ndevice = 'cpu'\nx = ", False),
        ("n = 3\ndevice = torch.device('cpu')  # for now\nx = ", False),
    ],
)
@pytest.mark.parametrize("name", ["Tensor", "LongTensor"])
def test_an_old_constructor_refuses_a_device_that_is_the_cpu_by_default(
    name: str, head: str, found: bool
) -> None:
    assert codemods(f"{head}torch.{name}([n], device=device)\n") == (["place-factory"] if found else [])
