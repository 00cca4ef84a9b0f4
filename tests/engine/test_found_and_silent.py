"""Small programs, and where the engine sees values that are in two places.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

import pytest
from devfix.checkers import inputs, surgeries
from programs import analysed, lines_of, marked, strays


def spoken(code: str, others: dict[str, str] | None = None) -> set[int]:
    """The lines of a program, counted from its first, that the engine has findings for."""
    analysis = analysed(code, others)
    found = [*strays(analysis), *inputs.findings(analysis), *surgeries.findings(analysis)]
    return lines_of(analysis, found)


FOUND = {
    "a sample of what is kept on the CPU": """
        import random
        class Memory:
            def __init__(self, n):
                self.gains = torch.zeros(n)
            def sample(self):
                return self.gains[random.choices(range(9), k=3)]
        class Agent:
            def __init__(self, device):
                self.device = device
                self.net = nn.Linear(4, 2).to(device)
                self.memory = Memory(9)
            def learn(self, x):
                values = self.net(x.to(self.device))
                return self.memory.sample() - values.max(dim=1).values  # <
    """,
    "a factory in a forward": """
        class Shift(nn.Module):
            def forward(self, x):
                return x + torch.arange(3)  # <
    """,
    "derived before it meets": """
        class Shift(nn.Module):
            def forward(self, x):
                steps = torch.arange(3).unsqueeze(0).repeat(2, 1)  # <
                return x.hypot(steps.float())
    """,
    "the name of the method does not matter": """
        class Shift(nn.Module):
            def plot_mask(self, x):
                return x * torch.ones(3)  # <
            def forward(self, x):
                return self.plot_mask(x)
    """,
    "a helper makes it": """
        def steps(n):
            return torch.arange(n)
        class Shift(nn.Module):
            def forward(self, x):
                return x + steps(3)  # <
    """,
    "through a dict": """
        class Shift(nn.Module):
            def forward(self, x):
                parts = {"a": torch.ones(3), "b": x}  # <
                return parts["a"] * parts["b"]
    """,
    "through a tuple and back": """
        class Shift(nn.Module):
            def pair(self, x):
                return x, torch.ones(3)  # <
            def forward(self, x):
                a, b = self.pair(x)
                return a * b
    """,
    "a constructor is given it, and an index says that it has dimensions": """
        class Shift(nn.Module):
            def __init__(self, table: torch.Tensor):
                super().__init__()
                self.table = table  # <
                self.width = table.shape[-1]
            def forward(self, x: torch.Tensor):
                return x * self.table
    """,
    "a constructor is given it, and its shape is given where it is used": """
        from typing import Optional
        class Shift(nn.Module):
            def __init__(self, table: Optional[torch.Tensor] = None):
                super().__init__()
                self.table = table  # <
            def forward(self, x: torch.Tensor):
                return x if self.table is None else x * self.table.view(1, -1)
    """,
    "through a dataclass": """
        from dataclasses import dataclass
        @dataclass
        class Pair:
            left: object
            right: object
        class Shift(nn.Module):
            def forward(self, x):
                pair = Pair(x, torch.ones(3))  # <
                return pair.left * pair.right
    """,
    "through functools.partial": """
        from functools import partial
        def scaled(x, by):
            return x * by
        class Shift(nn.Module):
            def forward(self, x):
                double = partial(scaled, by=torch.ones(3))  # <
                return double(x)
    """,
    "in a closure": """
        class Shift(nn.Module):
            def forward(self, x):
                base = torch.ones(3)  # <
                def scaled(y):
                    return y * base
                return scaled(x)
    """,
    "in the second round of a loop": """
        class Shift(nn.Module):
            def forward(self, x):
                total = x
                for _ in range(3):
                    x = x * total
                    total = torch.ones(3)  # <
                return x
    """,
    "a plain attribute of a module": """
        class Table(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.ones(3)  # <
            def forward(self, x):
                return x.copysign(self.table)
    """,
    "wrapped into a Variable": """
        class Table(nn.Module):
            def __init__(self, n=50):
                super().__init__()
                self.t = torch.autograd.Variable(torch.arange(0, n).float())  # <
            def forward(self, e):
                return e + self.t
    """,
    "set by a base class": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.ones(3)  # <
        class Table(Base):
            def forward(self, x):
                return x * self.table
    """,
    "modules in a list, called by a helper": """
        class Bridge(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.maps = [nn.Linear(d, d) for _ in range(2)]  # <
            def forward(self, h):
                return [self.one(m, h) for m in self.maps]
            def one(self, layer, s):
                return torch.relu(layer(s))
    """,
    "one module in a list, or None": """
        class Stage(nn.Module):
            def __init__(self, c, shrink=True):
                super().__init__()
                if shrink:
                    self.after = [nn.Conv2d(c, c, 3, stride=2)]  # <
                else:
                    self.after = None
            def forward(self, x):
                if self.after is not None:
                    for layer in self.after:
                        x = layer(x)
                return x
    """,
    "a dict that a helper fills": """
        class Show:
            def __init__(self, device):
                self.table = nn.Embedding(3, 3).to(device)
            def ids(self):
                out = {}
                for k in ("a", "b"):
                    out[k] = torch.arange(3)  # <
                return out
            def draw(self):
                return self.table(self.ids()["a"])
    """,
    "a batch of a loader": """
        from torch.utils.data import DataLoader
        def train(data, device):
            model = nn.Linear(2, 2).to(device)
            for x, y in DataLoader(data):  # <
                model(x)
    """,
    "a flag that is handed on": """
        def render(net, rows):
            return net(torch.from_numpy(rows)[None])  # <
        def main(args, net: nn.Module, rows):
            if args.gpu:
                net.cuda()
            return render(net, rows)
    """,
    "a layer that is made for each call": """
        class Feat(nn.Module):
            def __init__(self):
                super().__init__()
                self.c = nn.Conv2d(3, 3, 1)
            def forward(self, a):
                return self.c(a)
        def distance(a: torch.Tensor, device):
            net = Feat()  # <
            return net(a.to(device)).mean()
    """,
    "run before it is moved": """
        import settings_of_mine as cfg
        class Emb(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(1, 1)  # <
                self.n = len(self.net(torch.ones(1, device=cfg.device)))
                self.to(cfg.device)
    """,
    "a head that comes after the move": """
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8))
        model.to(device)
        model[1] = nn.Linear(8, 2)  # <
        print(model(torch.ones(1, 4, device=device)))
    """,
    "CUDA by name beside a parameter": """
        class Pairs(nn.Module):
            def forward(self, emb: torch.Tensor):
                sim = torch.mm(emb, emb.t())
                off = torch.ones(8, 8).cuda()  # <
                return sim * off
    """,
    "a label on CUDA by name": """
        def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor):
            out = model(x)
            return F.cross_entropy(out, y.cuda())  # <
    """,
    "results that disagree": """
        class Top(nn.Module):
            def forward(self, m):
                if m.numel() == 0:
                    return torch.zeros(1)  # <
                return m.amax(0)
    """,
    "a star import brings torch": """
        from helpers_of_mine import *
        class Shift(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.zeros(3) + x  # <
    """,
}

SILENT = {
    "a list is moved once it is complete": """
        class Net(nn.Module):
            def forward(self, x: list[torch.Tensor]):
                x[0] = torch.cat([x[0], torch.ones(1)])
                rows = [one[1:] for one in x]
                if self.device == "cuda":
                    rows = [one.cuda() for one in rows]
                return rows
    """,
    "the batches are asserted to be on CUDA": """
        from torch.utils.data import DataLoader
        from data import rows
        def fit():
            net = nn.Linear(2, 2).to("cuda")
            for x in DataLoader(rows()):
                assert x.is_cuda
                net(x)
    """,
    "a list of parameters that are registered one by one": """
        class Net(nn.Module):
            def __init__(self, n, size):
                super().__init__()
                means = [nn.Parameter(torch.zeros(size, size)) for _ in range(n)]
                self.means = (means, [])
                for i in range(n):
                    self.register_parameter("mean_" + str(i), means[i])
            def forward(self, x):
                for mean in self.means[0]:
                    x = x @ (mean * 2)
                return x
    """,
    "a log that begins on the CPU": """
        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.log = torch.Tensor()
            def start(self):
                self.log = torch.cat((self.log, torch.zeros(1, 3)))
            def load(self, path):
                self.log = torch.load(path)
    """,
    "no device is given": """
        class Net(nn.Module):
            def __init__(self, size, device=None):
                super().__init__()
                self.device = "cpu" if device is None else device
                self.layer = nn.Linear(size, size).to(device)
            def forward(self, x):
                return torch.randn(x.size()).to(self.device) * self.layer(x)
    """,
    "a number of samples": """
        class Mix(nn.Module):
            def forward(self, x):
                count = (x > 0).sum()
                order = torch.ones(len(x)).multinomial(num_samples=count)
                return x[order], x[torch.multinomial(torch.ones(len(x)), count)]
    """,
    "a transform of images and arrays": """
        import torchvision.transforms.functional as T
        class Half(nn.Module):
            def forward(self, image):
                return T.to_tensor(image).half()
        class ToTensor(nn.Module):
            def forward(self, x):
                if not isinstance(x, torch.Tensor):
                    return torch.from_numpy(x).float()
                return x.float()
    """,
    "a constructor is given what may be a number": """
        class Shift(nn.Module):
            def __init__(self, table: torch.Tensor, rows: dict):
                super().__init__()
                self.table = table
                self.first = rows[0]
            def forward(self, x: torch.Tensor):
                return x * self.table.reshape(()) + self.table[None].sum()
    """,
    "a tensor without dimensions": """
        class Scale(nn.Module):
            def forward(self, x):
                return x * torch.tensor(0.5) + torch.sqrt(torch.tensor(2.0))
    """,
    "a CPU index into a tensor": """
        class Pick(nn.Module):
            def forward(self, x):
                return x[torch.arange(3)]
    """,
    "moved at its use": """
        class Table(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.ones(3)
            def forward(self, x):
                return x * self.table.to(x.device) + torch.ones(3).type_as(x)
    """,
    "a buffer": """
        class Table(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.ones(3))
                self.weight = nn.Parameter(torch.ones(3))
            def forward(self, x):
                return x * self.table + self.weight
    """,
    "one of two modules": """
        class Tied(nn.Module):
            def __init__(self, tied):
                super().__init__()
                self.a = nn.Linear(2, 2)
                if tied:
                    self.b = self.a
                else:
                    self.b = nn.Linear(2, 2)
            def forward(self, x):
                return self.b(self.a(x))
    """,
    "layers or nothing": """
        class Maybe(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.proj = nn.Linear(n, n) if n else nn.Identity()
            def forward(self, x):
                return self.proj(x)
    """,
    "the same flag guards both": """
        def run(net: nn.Module, data, use_cuda):
            x = torch.ones(2)
            if use_cuda:
                net.cuda()
                x = x.cuda()
            return net(x)
    """,
    "a default that is replaced": """
        class Stack(nn.Module):
            def forward(self, rows):
                out = None
                for row in rows:
                    out = row if out is None else torch.cat((out, row))
                return out
    """,
    "a data set stays on the CPU": """
        from torch.utils.data import Dataset
        class Rows(Dataset):
            def __getitem__(self, i):
                return self.rows[i] + torch.ones(3)
            def __len__(self):
                return 3
    """,
    "batches that the data set has moved": """
        from torch.utils.data import DataLoader, Dataset
        class Rows(Dataset):
            def __getitem__(self, i):
                return self.rows[i].to(self.dev)
            def __len__(self):
                return 3
        def train(device):
            model = nn.Linear(2, 2).to(device)
            for x in DataLoader(Rows()):
                model(x)
    """,
    "a framework places it": """
        from accelerate import Accelerator
        from torch.utils.data import DataLoader
        def train(data):
            accelerator = Accelerator()
            model, loader = accelerator.prepare(nn.Linear(2, 2), DataLoader(data))
            for x in loader:
                model(x)
    """,
    "weights that are replaced": """
        def cell(gru):
            made = nn.GRUCell(2, 2)
            made.weight_hh.data = gru.weight_hh_l0.data
            made.weight_ih.data = gru.weight_ih_l0.data
            return made
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gru = nn.GRU(2, 2)
            def forward(self, x):
                return cell(self.gru)(x)
    """,
    "a program that never speaks of an accelerator": """
        class Net(nn.Module):
            def forward(self, x):
                return x + torch.ones(3)
        if __name__ == "__main__":
            print(Net()(torch.ones(3)))
    """,
    "lengths of ctc_loss": """
        class Loss(nn.Module):
            def forward(self, x, y):
                lengths = torch.full((2,), 3)
                return F.ctc_loss(x, y, lengths, lengths)
    """,
    "a flag of the caller that an object keeps": """
        import argparse
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)
            def forward(self, x):
                return self.layer(x)
        class Front:
            def __init__(self, path, cuda=False):
                self.cuda = cuda
                self.net = Net()
                if cuda:
                    self.net = self.net.cuda()
            def run(self, image):
                x = torch.from_numpy(image.copy())
                if self.cuda:
                    x = x.cuda()
                return self.net.forward(x).data.cpu().numpy()
        if __name__ == "__main__":
            options = argparse.ArgumentParser().parse_args()
            front = Front(path=options.path, cuda=options.cuda)
            out = front.run(np.ones((2, 3), dtype=np.float32))
    """,
    "a literal in a branch that asks for CUDA": """
        def moved(x: torch.Tensor, y: torch.Tensor):
            if x.is_cuda:
                y = y.cuda()
            return x + y
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(FOUND[name])
    assert wanted and spoken(code) >= wanted


@pytest.mark.parametrize("name", [*SILENT])
def test_silent(name: str) -> None:
    code, wanted = marked(SILENT[name])
    assert not wanted
    assert spoken(code) == set()


@pytest.mark.parametrize("name", FOUND)
def test_names_do_not_decide(name: str) -> None:
    """The same with the program's own names replaced by others that mean nothing."""
    code, wanted = marked(FOUND[name])
    own = {
        "steps": "qa", "plot_mask": "qb", "parts": "qc", "pair": "qd", "scaled": "qe", "double": "qf", "total": "qg",
        "table": "qh", "maps": "qi", "layer": "qj", "after": "qk", "ids": "ql", "render": "qm", "net": "qn",
        "sim": "qo", "off": "qp", "score": "qr", "base": "qs", "draw": "qt", "Shift": "Qu", "Table": "Qv",
        "Base": "Qw", "Bridge": "Qx",
    }  # fmt: skip
    import re

    renamed = re.sub(r"\w+", lambda word: own.get(word[0], word[0]), code)
    assert spoken(renamed) >= wanted


def test_a_helper_in_another_file() -> None:
    code, wanted = marked("""
        from helpers import steps
        class Shift(nn.Module):
            def forward(self, x):
                return x + steps(3)  # <
    """)
    assert spoken(code, {"helpers": "def steps(n):\n    return torch.arange(n)\n"}) == wanted
    assert spoken(code, {"helpers": "def steps(n):\n    return torch.tensor(1.0)\n"}) == set()


def test_a_base_class_in_another_file() -> None:
    code, wanted = marked("""
        from bases import Base
        class Table(Base):
            def __init__(self):
                super().__init__()
                self.table = torch.ones(3)  # <
            def forward(self, x):
                return x * self.table
    """)
    base = "class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    assert spoken(code, {"bases": base}) == wanted
    assert (
        spoken(code, {"bases": base.replace("(nn.Module)", "").replace("super().__init__()", "pass")})
        == set()
    )


def test_what_fftfreq_is_given_is_a_number() -> None:
    code, _ = marked("""
        class Ticks(nn.Module):
            def grow(self, config):
                for width in config.widths:
                    self.register_buffer(f"ticks_{width}", self.ticks(width))
                    self.register_buffer(f"freq_{width}", torch.fft.fftfreq(width, d=1 / width))
            def ticks(self, width: int) -> torch.Tensor:
                return torch.arange(width) / width
    """)
    assert spoken(code) == set()
    assert spoken(code.replace("fft.fftfreq(width, d=1 / width)", "fft.fft(width)")) != set()


@pytest.mark.parametrize(("table", "found"), [("max(charges)", False), ("charges.float()", True)])
def test_the_greatest_of_a_tensor_has_a_dimension_less(table: str, found: bool) -> None:
    code, _ = marked(f"""
        class Data:
            def __init__(self, charges):
                self.scale = {table}
        def scaled(charges, scale):
            return charges.unsqueeze(-1) / scale
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        print(scaled(torch.ones(2).to(device), Data(torch.tensor([1, 6, 8])).scale))
    """)
    assert bool(spoken(code)) is found


ON_CUDA = {
    "is_cuda": "if x.is_cuda:\n            eye = eye.cuda()",
    "not is_cuda": "if not x.is_cuda:\n            pass\n        else:\n            eye = eye.cuda()",
    "type of its device": 'if x.device.type == "cuda":\n            eye = eye.to("cuda")',
    "not of that type": 'if x.device.type != "cpu":\n            eye = eye.cuda()',
    "another device": 'if x.device != torch.device("cpu"):\n            eye = eye.cuda()',
    "text on the left": 'if "cuda" == x.device.type:\n            eye = eye.cuda()',
    "an expression": "eye = eye.cuda() if x.is_cuda else eye",
    "a helper": "eye = beside(x, eye)",
}


@pytest.mark.parametrize("asked", ON_CUDA.values(), ids=ON_CUDA)
@pytest.mark.parametrize("made", ["torch.rand(3, 3)", "torch.rand(3, 3, device=device)"])
def test_what_follows_a_tensor_to_cuda_is_beside_it(asked: str, made: str) -> None:
    program = f"""
def beside(x, other):
    if x.is_cuda:
        return other.cuda()
    return other


class Net(nn.Module):
    def forward(self, x):
        eye = torch.eye(3)
        {asked}
        return x + eye


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = {made}
print(torch.mm(x, Net()(x)))
"""
    assert spoken(program) == set()
    assert spoken(program.replace("        " + asked, "        pass")) == {10 if "device" in made else 12}


def test_only_what_is_asked_about_is_beside_it() -> None:
    code, wanted = marked("""
        def shifted(x, y):
            eye = torch.eye(3)  # <
            if y.is_cuda:
                eye = eye.cuda()
            return x + eye
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        net = nn.Linear(3, 3).to(device)
        print(shifted(net(torch.rand(3, 3, device=device)), torch.rand(3)))
    """)
    assert spoken(code) == wanted


FLAGS = {
    "not, with an else": "if not flag:\n        pass\n    else:\n        model = model.cuda()",
    "not, with an early end": "if not flag:\n        return None\n    model = model.cuda()",
    "an expression": "model = model.cuda() if flag else model",
    "an expression with not": "model = model if not flag else model.cuda()",
    "an expression that moves in place": "moved = model if not flag else model.cuda()",
    "is False": "if flag is False:\n        pass\n    else:\n        model.cuda()",
    "!=": "if flag != 1:\n        pass\n    else:\n        model.cuda()",
}


@pytest.mark.parametrize("moved", FLAGS.values(), ids=FLAGS)
def test_a_flag_that_is_asked_the_other_way_round(moved: str) -> None:
    asked = "flag == 1" if "!=" in moved else "flag is not False" if "is False" in moved else "flag"
    program = f"""
def main(flag):
    model = nn.Linear(2, 2)
    {moved}
    x = torch.ones(2, 2)
    if {asked}:
        x = x.cuda()
    return model(x)
"""
    assert spoken(program) == set()
    if "return" not in moved:
        assert spoken(program.replace(f"if {asked}:\n        x", f"if not ({asked}):\n        x")) != set()


@pytest.mark.parametrize(
    "asked", ['mode in ["a", "b"]', 'mode not in ("b", "c")', '"a" in mode', "size > 1", "size <= 2"]
)
def test_a_comparison_of_constants_is_decided(asked: str) -> None:
    program = f"""
mode, size = "a", 2
model = nn.Linear(2, 2).cuda()
x = torch.ones(2, 2)
if {asked}:
    x = x.cuda()
model(x)
"""
    assert spoken(program) == set()
    assert spoken(program.replace(f"if {asked}", f"if not ({asked})")) != set()


BATCHES = {
    "by its keys": "for key in batch.keys():\n            batch[key] = batch[key].to(device)",
    "by its items": "for key, part in batch.items():\n            batch[key] = part.to(device)",
    "what can be moved": "for key in batch:\n            batch[key] = {k: v.to(device) if hasattr(v, 'to') else v"
    " for k, v in batch[key].items()}",
    "what is a tensor": "for key in batch:\n            if torch.is_tensor(batch[key]):\n"
    "                batch[key] = batch[key].to(device)",
    "one of its elements": "if isinstance(batch, list):\n            batch[0] = batch[0].to(device)\n"
    "        else:\n            batch = batch.to(device)",
    "one of its elements, by type": "if type(batch) == type([]):\n            batch[0] = batch[0].to(device)\n"
    "        else:\n            batch = batch.to(device)",
}


@pytest.mark.parametrize("moved", BATCHES.values(), ids=BATCHES)
def test_a_batch_that_is_moved_by_its_parts(moved: str) -> None:
    program = f"""
from torch.utils.data import DataLoader


def train(loader: DataLoader, device):
    model = nn.Linear(2, 2).to(device)
    for batch in loader:
        {moved}
        model(batch)
"""
    assert spoken(program) == set()
    assert spoken(program.replace(f"        {moved}\n", "")) == {7}


@pytest.mark.parametrize("test", ["torch.is_tensor(v)", "hasattr(v, 'to')", "isinstance(v, torch.Tensor)"])
def test_a_module_has_a_move(test: str) -> None:
    code, _ = marked(f"""
        def put(v, device):
            return v.to(device) if {test} else v
        def main(device):
            model = put(nn.Linear(2, 2), device)
            return model(torch.ones(2, 2, device=device))
    """)
    assert bool(spoken(code)) is ("hasattr" not in test)


def test_a_parameter_is_where_its_data_was_put() -> None:
    code, _ = marked("""
        class Scores(nn.Module):
            def __init__(self, gpu):
                super().__init__()
                start = torch.zeros(3, 3)
                if gpu:
                    start = start.cuda()
                self.moves = nn.Parameter(start)
            def forward(self, x):
                return x + self.moves
        def main(gpu):
            model = Scores(gpu)
            x = torch.ones(3, 3)
            if gpu:
                x = x.cuda()
            return model(x)
    """)
    assert spoken(code) == set()
    assert spoken(code.replace("if gpu:\n            start", "if not gpu:\n            start")) != set()


def test_a_meeting_in_a_longer_file() -> None:
    code, lines = marked("""
        from layers import Decoder
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = Decoder()
            def forward(self, x):
                start = torch.full([1, 1], 2, device="cuda")  # <
                return self.decoder(start, x)
    """)
    layers = """\
{}
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(3, 4)

    def forward(self, start, x):
        return self.table(start) + x
""".format("# a line\n" * 40)
    assert spoken(code, {"layers": layers}) == lines
