"""What was judged wrong or harmful on the public repositories of draw 57, as made-up programs."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from snippets import CHOSEN, HEAD, alone, codemods  # noqa: F401

LOSSES = """
def start(kind):
    if kind == "a":
        return nn.CrossEntropyLoss()
    if kind == "b":
        return nn.CTCLoss()
    return nn.NLLLoss()
def step(x, y, kind):
    net, loss = nn.Linear(4, 5).to(device), start(kind)
    out = net(x.to(device)).log_softmax(-1)
    if kind == "b":
        return loss(out, y.to(device), torch.tensor([3, 2]), torch.tensor([1, 2]))
    return loss(out, y.to(device))
step(torch.ones(3, 2, 4), torch.ones(2, 2), input())
"""


def test_one_of_several_losses_takes_lengths_on_the_cpu() -> None:
    assert not codemods(CHOSEN + LOSSES)
    assert codemods(CHOSEN + LOSSES.replace("nn.CTCLoss()", "nn.MSELoss()"))


ADAPTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x)
def adapt(net, x, steps):
    made = Net()MOVE
    made.load_state_dict(net.state_dict())
    for _ in range(steps):
        made(x.to(device)).sum().backward()
    return made
def train(net, data, steps):
    CALLS
    for epoch in range(steps):
        made = adapt(net, data[epoch], steps)
        made.eval()
        made(data[0].to(device)).sum().backward()
"""


@pytest.mark.parametrize("many", [False, True])
def test_what_is_not_run_once_more_is_not_taken_for_a_network_on_the_cpu(many: bool) -> None:
    """As many calls with other arguments as this are not followed."""
    calls = "\n    ".join(f"adapt(net, data[{i}], {i}).eval()" for i in range(20 if many else 1))
    code = CHOSEN + ADAPTED.replace("CALLS", calls)
    assert not codemods(code.replace("MOVE", ".to(device)"))
    assert many or codemods(code.replace("MOVE", ""))


BUFFERS = """
class Queue(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("rows", START)
        self.rows = ROWS
    @property
    def device(self):
        return next(self.parameters()).device
    def step(self, x):
        t = torch.randint(0, 9, (3,), device=self.device)
        return x + self.rows[t].view(-1, 1).to(self.device)
    def forward(self, labels):
        return torch.eq(labels, self.rows.T).float()
def rows(size):
    return torch.randint(-1, 0, (size, 1))
"""


@pytest.mark.parametrize("start", ["None", "torch.randint(-1, 0, (size, 1))"])
def test_what_is_assigned_to_a_buffer_stays_one(start: str) -> None:
    code = BUFFERS.replace("START", start)
    assert not codemods(code.replace("ROWS", "rows(size)"))
    assert codemods(
        code.replace(f'        self.register_buffer("rows", {start})\n', "").replace("ROWS", "rows(size)")
    )
    moved = devfix.fix(
        source=HEAD + code.replace("ROWS", "self.rows.cuda()"), unsafe=True, settings=False
    ).text
    assert moved.count("register_buffer") == 1


LAYERS = """
def activation(model, layer, image):
    model.to(device)
    x, kept = image.to(device), []
    for name, module in PARTS:
        x = module(x)
        if name == layer:
            kept.append(x)
    for one in kept:
        return one.data.READ
"""


@pytest.mark.parametrize("parts", ["model.features._modules.items()", "model.body.features.named_children()"])
def test_the_layers_of_a_part_of_a_module_are_where_it_is(parts: str) -> None:
    code = CHOSEN + LAYERS.replace("PARTS", parts)
    assert codemods(code.replace("READ", "numpy()")) == ["numpy-of-device"]
    assert not codemods(code.replace("READ", "cpu().numpy()"))


STEP = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
    def step(self, state, reward, done):
        reward = torch.tensor(reward, dtype=torch.float)
        done = torch.tensor(done, dtype=torch.bool, device=state.device)
        if len(state.shape) == 1:
            reward, done = reward.unsqueeze(0), done.unsqueeze(0)
        return reward + (~done).float()
"""


def test_a_name_is_no_tensor_above_the_line_that_makes_one_of_it() -> None:
    text = devfix.fix(source=HEAD + STEP, unsafe=True, settings=False).text
    assert text.count("device=state.device") == 2
    assert "done.device" not in text


ARRAYS = """
import numpy as np
def scale(n):
    x, w = torch.ones(3, device=device), ARRAY
    return EXPRESSION
"""


@pytest.mark.parametrize("expression", ["x / w", "w * x", "x @ w", "x - 2 * w"])
def test_an_array_meets_a_tensor_on_a_device(expression: str) -> None:
    """NumPy asks the tensor for its memory; a number of NumPy's is like any other."""
    code = CHOSEN + ARRAYS.replace("EXPRESSION", expression)
    assert codemods(code.replace("ARRAY", "np.linspace(0, 1, 3)")) == ["numpy-of-device"]
    assert not codemods(code.replace("ARRAY", "np.sqrt(n)"))
    assert not codemods(code.replace("ARRAY", "np.ones(3)").replace(", device=device", ""))


def test_a_long_chain_of_elif_is_no_reason_to_give_up() -> None:
    arms = "".join(f"    elif key == {i}:\n        found = {i}\n" for i in range(1, 900))
    code = f"def look(key):\n    if key == 0:\n        found = 0\n{arms}    return found\n"
    assert codemods(CHOSEN + code + "net = nn.Linear(2, 2).to(device)\nlook(3)\nnet(torch.zeros(2))\n")


TYPES = """
def run(values, given):
    net, made = nn.Linear(2, 2), CUDA if given else HOST
    if given:
        net.cuda()
    net(made(values))
"""


def test_a_type_that_a_condition_chooses_makes_tensors_where_it_says() -> None:
    cuda, host = "torch.cuda.FloatTensor", "torch.FloatTensor"
    assert "move-inputs" not in codemods(TYPES.replace("CUDA", cuda).replace("HOST", host))
    assert "move-inputs" in codemods(TYPES.replace("CUDA", host).replace("HOST", cuda))


FED = {
    "data.py": """
def loader(x, y):
    made = TYPE
    rows = torch.utils.data.TensorDataset(made(x), made(y))
    return torch.utils.data.DataLoader(rows, batch_size=2)
""",
    "trainer.py": """
class Trainer:
    def __init__(self, net, loss, train_loader, val_loader):
        self.net, self.loss = net, loss
        self.train_loader, self.val_loader = train_loader, val_loader
    def validate(self, val_dataloader):
        for x, y in val_dataloader:
            self.loss(self.net(x).cuda(), y)
    def run(self):
        for x, y in self.train_loader:
            self.loss(self.net(x).cuda(), y).backward()
        self.validate(self.val_loader)
""",
    "run.py": """
from data import loader
from trainer import Trainer
rows = loader([[1.0]], [[2.0]])
Trainer(nn.Linear(1, 1).cuda(), nn.L1Loss(), rows, rows).run()
""",
}


def in_files(folder: Path, files: dict[str, str], changes: dict[str, str]) -> list[str]:
    """The files and codemods of the findings in a project of several files."""
    for name, code in files.items():
        for old, new in changes.items():
            code = code.replace(old, new)
        (folder / name).write_text(HEAD + code)
    found = devfix.check(folder, cache=False, settings=False).findings
    return [f"{Path(one.path).name} {one.codemod}" for one in found]


@pytest.mark.parametrize("moved", [True, False])
def test_a_constructor_gets_a_loader_over_data_that_are_on_the_device(moved: bool, tmp_path: Path) -> None:
    kind = "torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor"
    found = in_files(tmp_path, FED, {"TYPE": kind if moved else "torch.FloatTensor"})
    assert found.count("trainer.py move-inputs") == (0 if moved else 2)


RESTORED = """
def main(path):
    if torch.cuda.is_available():
        device = torch.device("cuda")
        DEFAULT
    else:
        device = torch.device("cpu")
    net = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.parameters())
    optimizer.load_state_dict(torch.load(path, map_location="cpu"))
    net.to(device)
    net(torch.ones(2, device=device)).sum().backward()
    optimizer.step()
"""


def test_a_module_is_made_where_the_program_has_said_that_things_are_made() -> None:
    told = 'torch.set_default_tensor_type("torch.cuda.FloatTensor")'
    assert "restore-after-move" not in codemods(RESTORED.replace("DEFAULT", told))
    assert "restore-after-move" in codemods(RESTORED.replace("DEFAULT", "print(path)"))


SAMPLED = {
    "steps.py": """
device = "cuda" if torch.cuda.is_available() else "cpu"
def step(model, x, n):
    rows = {"x": x.to(device)}
    return model(rows, mask=torch.tensor([True] * n)).detach().cpu()
def denoise(model, x, n):
    return step(model, x, n)
def sample(model, x, n):
    return denoise(model, x, n)
""",
    "run.py": """
from steps import sample
from nets import Net
model = WRAPPED
model.to("cuda" if torch.cuda.is_available() else "cpu")
sample(model, torch.ones(2, 2), 2)
""",
}


@pytest.mark.parametrize("wrapped", ["nn.DataParallel(Net())", "Net()"])
def test_a_module_that_is_wrapped_in_another_file_spreads_its_inputs(wrapped: str, tmp_path: Path) -> None:
    found = in_files(tmp_path, SAMPLED, {"WRAPPED": wrapped})
    assert ("steps.py place-factory" in found) is (wrapped == "Net()")


KEPT = """
class Trainer:
    images = torch.tensor([])
    def __init__(self, device):
        self.device, self.net = device, nn.Linear(2, 2)
        self.net.to(device)
    def show(self):
        Trainer.images = Trainer.imagesMOVE
        print(Trainer.images.shape)
    @classmethod
    def prepare(cls, loader):
        for one, _ in loader:
            cls.images = one
            break
    def train(self, train_loader):
        self.prepare(train_loader)
        self.show()
        for x, y in train_loader:
            self.net(x.to(self.device)).sum().backward()
            self.net(self.images)
    def predict(self, x):
        return self.net(x.to(self.device)) + self.net(self.images)
"""


def test_what_the_class_has_is_what_its_objects_have() -> None:
    assert not codemods(KEPT.replace("MOVE", ".to(self.device)"))
    assert codemods(KEPT.replace("MOVE", "")).count("move-inputs") == 1


ACCELERATED = """
class Trainer:
    def validate(self, loader: torch.utils.data.DataLoader, model: nn.Module, args):
        use = not args.slow and ASKED
        device = torch.device("cuda") if use else torch.device("cpu")
        for images, y in loader:
            if use:
                if args.gpu is not None and device.type == "cuda":
                    images = images.cuda(args.gpu)
                else:
                    images = images.to(device)
            model(images).sum()
    def train(self, train_loader, model: nn.Module):
        for images, y in train_loader:
            model(images.to(self.device)).sum().backward()
"""


LOWERED = """
def train(args, loader, net, device):
    for x, y in loader:
        x = x.to(device)
        if args.half:
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                net(x)
def main(args, loader, net):
    use = not args.slow and torch.accelerator.is_available()
    if use:
        device = torch.accelerator.current_accelerator()
    else:
        device = torch.device("cpu")
    train(args, loader, net.to(device), device)
"""


def test_a_name_for_whether_the_machine_has_an_accelerator() -> None:
    there = "torch.accelerator.is_available()"
    assert not codemods(ACCELERATED.replace("ASKED", there))
    assert codemods(ACCELERATED.replace("ASKED", "args.fast")) == ["move-inputs"]
    assert codemods(LOWERED) == ["normalize-device-type"]


MEASURED = """
from piq import psnr, NAME
def score(net, x, y):
    net.to(device)
    return NAME()(net(x.to(device)), y.to(device)).item()
"""


@pytest.mark.parametrize("name", ["LPIPS", "PieAPP"])
def test_metrics_that_move_their_network_to_their_input(name: str) -> None:
    code = CHOSEN + MEASURED.replace("NAME", name)
    assert not codemods(code)
    assert codemods(code.replace(", y.to(device)", ", y * 0 + torch.ones(3)"))
    assert "module-never-moved" in codemods(code.replace("piq", "lpips").replace(name, "LPIPS"))


OBJECTS = """
class Base:
    def __init__(self, n):
        self.net = nn.Linear(n, n)
    def to(self, device):
        self.net.to(device)
    def load_state_dict(self, state):
        self.net.load_state_dict(state)
    def predict(self, x):
        return self.net(x)
CLASSES
def build(name):
    CHOICES
    raise ValueError(name)
def load(name, path, device):
    model = build(name)
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model.to(device)
    return model
class Runner:
    def __init__(self, name, path, device):
        self.model = load(name, path, device)
    def run(self, x):
        return self.model.predict(x.float().cuda()).argmax(0).cpu()
"""


@pytest.mark.parametrize("seen", [True, False])
def test_objects_of_many_classes_have_no_parameters_if_none_is_a_module(seen: bool) -> None:
    names = [f"Net{i}" for i in range(9)]
    classes = "\n".join(f"class {one}(Base):\n    pass" for one in names)
    choices = "\n    ".join(f"if name == '{one}':\n        return {one}(2)" for one in names)
    code = HEAD + OBJECTS.replace("CLASSES", classes).replace("CHOICES", choices)
    code = code if seen else code.replace("def build(", "from nets import build\ndef other(")
    text = devfix.fix(source=code, unsafe=True, settings=False).text
    assert ("next(self.model.parameters()).device" in text) is not seen


COLLATED = """
def collate(rows):
    return torch.tensor([one[0] for one in rows])MOVE
def train(model, parts):
    batches_loader = parts["train"]
    codes = torch.ones(3, 4).cuda()
    for x in batches_loader:
        model.forward(codes, x).backward()
def main(rows, net):
    train(net, {"train": torch.utils.data.DataLoader(rows, batch_size=3, collate_fn=collate)})
"""


def test_a_loader_of_unknown_origin_has_a_collate_function_of_the_file() -> None:
    assert "move-inputs" not in codemods(CHOSEN + COLLATED.replace("MOVE", ".to(device)"))
    assert "move-inputs" in codemods(CHOSEN + COLLATED.replace("MOVE", ""))


EXPORTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return self.fc(x) + y
def export():
    image = torch.ones(2, device="cuda")
    net = Net()
    exported = torch.export.export(net, args=(), kwargs={"x": image, "y": torch.zeros(2, device=image.device)})
    assert exported.module()(x=image, y=image).shape
"""


def test_a_module_is_exported_with_inputs_by_name() -> None:
    code = EXPORTED.replace(', device="cuda"', "")
    assert not codemods(code)
    found = devfix.check(source=HEAD + EXPORTED, settings=False).findings
    assert [(one.codemod, one.fix is not None) for one in found if one.codemod.startswith("module")] == [
        ("module-never-moved", True)
    ]


COLUMNS = """
import numpy as np
def statistics(net, batches):
    net, rows = net.to(device), []
    for x in batches:
        scores = net(x.to(device))
        rows.append([FIRST, scores.detach().softmax(-1)])
    return [np.concatenate(one, 0) for one in zip(*rows)]
"""


def test_no_copies_of_what_are_arrays_in_one_of_the_columns() -> None:
    def text(first: str) -> str:
        code = HEAD + CHOSEN + COLUMNS.replace("FIRST", first)
        return devfix.fix(source=code, unsafe=True, settings=False).text

    assert ".cpu() for" in text("scores.detach()")
    assert ".cpu() for" not in text("np.zeros(3)")


CACHED = """
kept = {"n": FIRST, "x": torch.tensor([0]), "made": None}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, n: int, x: torch.Tensor):
        if kept["n"] == n and kept["x"].equal(x):
            made = kept["made"]
        else:
            made = x.cumsum(0)
            kept["n"] = n; STORE; kept["made"] = made
        return self.fc(made)
"""


def test_what_is_kept_with_a_key_is_asked_only_where_the_key_fits() -> None:
    def found(first: str, store: str) -> list[str]:
        return codemods(CACHED.replace("FIRST", first).replace("STORE", store))

    assert not found("0", 'kept["x"] = x')
    assert found("0", 'kept["y"] = x') == found("8", 'kept["x"] = x') == ["place-factory"]


GIVING = {
    "nets.py": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x):
        return self.fc(x)READ
""",
    "score.py": """
from nets import Net
kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
def evaluate(model, val_loader):
    model.eval()
    for x, y in val_loader:
        print(torch.max(model(x.type(kind)), y).item())
if __name__ == "__main__":
    model = Net().to("cuda" if torch.cuda.is_available() else "cpu")
    evaluate(model, input())
""",
    "run.py": """
from nets import Net
from score import evaluate
def run(model, val_loader, device):
    model.to(device)
    evaluate(model, val_loader)
if __name__ == "__main__":
    run(Net(), input(), "cuda" if torch.cuda.is_available() else "cpu")
""",
}


@pytest.mark.parametrize("read", [".cpu()", ""])
def test_the_network_that_calls_of_the_file_pass_tells_where_its_results_are(
    read: str, tmp_path: Path
) -> None:
    found = in_files(tmp_path, GIVING, {"READ": read})
    assert ("score.py move-inputs" in found) is (read == "")


@pytest.mark.parametrize("last", ["net.to(device)", "net = net.to(device)"])
def test_what_the_rest_of_a_long_chain_moves_is_not_known(last: str) -> None:
    arms = "".join(f"    elif key == {i}:\n        found = {i}\n" for i in range(1, 150))
    head = CHOSEN + "def run(key, x):\n    net = nn.Linear(2, 2)\n    if key == 0:\n        found = 0\n"
    code = f"{head}{arms}    else:\n        {last}\n    return net(x.to(device))\nrun(int(input()), torch.zeros(2))\n"
    assert not codemods(code)
    assert codemods(code.replace(last, "pass"))
