"""What was judged wrong or harmful on the public repositories of draw 58, as made-up programs."""

from __future__ import annotations

import devfix
import pytest
from devfix import Finding
from devfix.findings import Safety
from snippets import CHOSEN, HEAD, alone, codemods  # noqa: F401


def only(code: str) -> Finding:
    """The one finding of a program."""
    (one,) = devfix.check(source=HEAD + code, settings=False).findings
    return one


WARPED = """
import kornia
x = torch.zeros(1, 3, 8, 8).to(device)
kornia.geometry.transform.warp_affine(x, torch.ones(1, 2, 3).to(device), (8, 8), fill_value=torch.zeros(3))
"""


def test_what_fills_a_warped_image_may_be_anywhere() -> None:
    assert not codemods(CHOSEN + WARPED)
    assert codemods(CHOSEN + WARPED.replace(".to(device), (8", ", (8")) == ["place-factory"]


def test_functions_that_may_convert_their_arguments_prove_nothing() -> None:
    code = CHOSEN + "import kornia\nx = torch.zeros(1, 3, 8, 8).to(device)\nNAME(x, torch.ones(1, 3, 3))\n"
    doubted = only(code.replace("NAME", "kornia.filters.filter2d"))
    sure = only(code.replace("NAME", "torch.bmm"))
    assert doubted.fix and doubted.safety is Safety.UNSAFE
    assert sure.fix and sure.safety is Safety.SAFE


KEPT = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x)
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.parts = []
        for _ in range(n):
            part = Layer()
            self.parts.append(part)
        self.register_all()
    def register_all(self):
        print(len(self.parts))
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "print(len(self.parts))",
            "for i, one in enumerate(self.parts):\n            exec(f'self.a{i} = one')",
        ),
        ("self.parts.append(part)", "part.eval()\n            self.parts.append(part)"),
        (
            "self.parts.append(part)",
            "for p in part.parameters():\n                p.requires_grad = False\n            self.parts.append(part)",
        ),
        (
            "self.parts = []",
            "self.all = nn.ModuleList([Layer() for _ in range(n)])\n        self.parts = list(self.all.children())",
        ),
    ],
)
def test_modules_that_are_registered_otherwise_or_frozen(old: str, new: str) -> None:
    assert codemods(KEPT) == ["register-modules"]
    assert not codemods(KEPT.replace(old, new))


PART_OUT_OF_SIGHT = """
from somewhere import QRNN
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = QRNN(64, 4)
    def forward(self, x):
        return self.rnn(x)
net = Net()
net = net.cuda()
net(torch.zeros(4, 64).cuda())
"""


def test_parts_out_of_sight_go_along() -> None:
    assert not codemods(PART_OUT_OF_SIGHT)
    assert "module-never-moved" in codemods(PART_OUT_OF_SIGHT.replace("net = net.cuda()\n", ""))


DROPPED = """
data = torch.load("a.pt", map_location="cpu")
if torch.cuda.is_available():
    data.to("cuda")
order = torch.randperm(data.shape[0])
if torch.cuda.is_available():
    order.cuda()
data = data[order]
"""


def test_moves_that_are_dropped_together() -> None:
    one = only(DROPPED)
    assert not one.fix
    one = only(DROPPED.replace('data.to("cuda")', 'data = data.to("cuda")'))
    assert one.fix


SCRIPT = """
PLACES
DEVICE = "cuda:1"
if __name__ == "__main__":
    net = nn.Linear(2, 2).to(DEVICE)
    print(net(torch.ones(2).to(DEVICE)))
"""


def test_devices_in_a_list_ask_for_cuda_as_well() -> None:
    assert codemods(SCRIPT.replace("PLACES", "")) == ["hard-coded-cuda"]
    assert not codemods(SCRIPT.replace("PLACES", 'PLACES = ["cuda:1"]\nprint(PLACES)'))


def test_a_network_that_others_run_stays_where_it_was_saved_if_there_is_cuda() -> None:
    one = only("def load(path):\n    return torch.load(path).eval()\n")
    assert "None if torch.cuda.is_available()" in one.fix
