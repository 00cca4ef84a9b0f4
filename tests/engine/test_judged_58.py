"""What was judged wrong or harmful on the public repositories of draw 58, as made-up programs."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from devfix import Finding
from devfix.findings import Safety
from snippets import CHOSEN, HEAD, alone, codemods  # noqa: F401

ALTERNATIVES = """
class Base(nn.Module):
    def __init__(self, device, n):
        super().__init__()
        self.place, self.fc = lambda x: PLACED, nn.Linear(n, n)
    def forward(self, x):
        return self.fc(self.place(x))
class One(Base):
    pass
class Two(Base):
    def __init__(self, device, width):
        super().__init__(device, width)
def main(kind, rows):
    made = One if kind == "one" else Two
    net = made(device=device, n=3).to(device)
    for x, y in torch.utils.data.DataLoader(rows, batch_size=2):
        net(x).sum().backward()
"""


def test_an_alternative_that_cannot_be_made_is_none() -> None:
    assert not codemods(CHOSEN + ALTERNATIVES.replace("PLACED", "x.to(device)"))
    assert codemods(CHOSEN + ALTERNATIVES.replace("PLACED", "x * 2")) == ["move-inputs"]


PARTS = """
class Gen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x):
        return self.fc(x), x
class Trainer:
    def __init__(self, training=True, device="cpu"):
        self.gen = Gen()
        self.training = training
        if self.training:
            self.part = nn.Linear(2, 2)
        self.setup(device)
    def setup(self, device):
        self.gen.to(device)
        if TEST:
            self.part.to(device)
    def train(self, x):
        a, b = self.gen(x)
        return self.part(a)
"""


@pytest.mark.parametrize("test", ["self.training", "not self.training", "self.eager"])
def test_a_part_that_is_made_on_one_path_is_moved_on_that_path(test: str) -> None:
    found = codemods(PARTS.replace("TEST", test))
    assert ("module-never-moved" in found) is (test != "self.training")


BY_NAME = """
class Base:
    def spread(self):
        for name in self.names:
            part = getattr(self, name)
            setattr(self, name, MOVED)
class Trainer(Base):
    def __init__(self, device):
        self.device, self.names = device, ["part"]
        self.part = nn.Linear(2, 2)
    def feed(self, x):
        self.x = x.to(self.device)
    def run(self):
        return self.part(self.x)
    def learn(self, x):
        return self.part(x.to(self.device))
"""


def test_a_method_moves_the_attributes_that_it_is_told_by_name() -> None:
    assert not codemods(BY_NAME.replace("MOVED", "part.to(self.device)"))
    assert codemods(BY_NAME.replace("MOVED", "part.eval()")) == ["module-never-moved"]
    other = BY_NAME.replace("MOVED", "part.to(self.device)").replace('["part"]', '["other"]')
    assert codemods(other) == ["module-never-moved"]


BUILT = """
class Detect:
    def __call__(self, x):
        found = torch.zeros(x.size(0), 5)
        found[:, :2] = x[:, :2]
        return FOUND
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.detect = nn.Linear(2, 2), Detect()
    def forward(self, x):
        return self.detect(self.fc(x))
def build():
    return Net()
def test(net, rows):
    for row in rows:
        x = torch.from_numpy(row).unsqueeze(0)
        y = net(x.cuda())
        scale = torch.tensor([2.0] * 5)
        print(y[0, :5] * scale)
if __name__ == "__main__":
    test(build().cuda(), input())
"""


def test_what_a_network_gives_is_told_by_its_code_not_by_its_name() -> None:
    assert not codemods(BUILT.replace("FOUND", "found"))
    assert codemods(BUILT.replace("FOUND", "found.to(x.device)")) == ["place-factory"]


VERIFIED = {
    "score.py": """
def score(rows, net):
    out: torch.Tensor = net(rows / 255)
    return out.detach().cpu().numpy()
""",
    "callback.py": """
import score
class Verification:
    def __init__(self, names):
        self.rows = [torch.zeros(4, 3) for name in names]
    def verify(self, net: nn.Module):
        for i in range(len(self.rows)):
            print(score.score(self.rows[i], net))
    def __call__(self, step, net: nn.Module):
        self.verify(net)
""",
    "train.py": """
from callback import Verification
def main(rank, names):
    net = nn.Linear(3, 2).to(rank)
    net = WRAPPED
    check = Verification(names)
    for step in range(9):
        check(step, net)
""",
}


@pytest.mark.parametrize("wrapped", ["nn.parallel.DistributedDataParallel(net, device_ids=[rank])", "net"])
def test_an_object_is_called_with_a_module_that_moves_its_inputs(wrapped: str, tmp_path: Path) -> None:
    for name, code in VERIFIED.items():
        (tmp_path / name).write_text(HEAD + code.replace("WRAPPED", wrapped))
    found = devfix.check(tmp_path, cache=False, settings=False).findings
    assert [one.codemod for one in found] == (["place-factory"] if wrapped == "net" else [])


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
