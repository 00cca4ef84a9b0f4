"""What was judged wrong or harmful on public repositories, as made-up programs: each beside one that stays reported."""

from __future__ import annotations

import json
from pathlib import Path

import devfix
import pytest
from devfix.findings import Safety
from snippets import AUTOCASTS, CHOSEN, HEAD, alone, codemods  # noqa: F401

REPLACED = """
class Range(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("top", torch.zeros(4))
    def fit(self, x):
        self.top = FITTED
    def scale(self, x):
        return x / self.top
for layer in nn.ModuleList([nn.Linear(4, 4)]):
    weight = layer.to(device).weight.data
    found = Range()
    found.fit(weight)
    layer.weight.data = found.scale(weight)
"""


@pytest.mark.parametrize("fitted", ["self.top.to(x.device)", "x.max(0)[0] - x.min(0)[0]"])
def test_a_buffer_is_where_the_tensor_is_that_replaces_it(fitted: str) -> None:
    assert not codemods(CHOSEN + REPLACED.replace("FITTED", fitted))


@pytest.mark.parametrize("fitted", ["torch.ones(4)", "self.top + 1", "self.top.clone()"])
def test_a_buffer_that_is_replaced_on_the_cpu_stays_there(fitted: str) -> None:
    assert codemods(CHOSEN + REPLACED.replace("FITTED", fitted))


def test_no_fix_moves_what_a_call_of_append_returns() -> None:
    """`kept.append(score).to(device)` raised AttributeError on every machine, and was made again and again."""
    code = """
def chain(load, n):
    kept = []
    score = torch.eye(3)
    kept.append(score)
    device = load().device
    for _ in range(n):
        score = score.to(device) * 2
        kept.append(score)
    return kept
"""
    made = devfix.fix(source=HEAD + code, unsafe=True, settings=False)
    assert codemods(code) == ["place-factory"]
    assert not made.problems
    assert made.text == HEAD + code


READ = """
import numpy as np
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, given):
        BODY
"""
DEGREE = "return self.fc(given) / torch.tensor(np.sqrt(given.ASKED() + 1))"
ORDER = """x, length = given
        order = np.argsort(-length)
        length = length.ASKED()
        return self.fc(x)[torch.from_numpy(order)], length"""


@pytest.mark.parametrize(
    ("body", "asked", "told"),
    [
        (DEGREE, "number_of_nodes", False),
        (DEGREE, "sum", True),
        (ORDER, "copy", False),
        (ORDER, "clone", True),
    ],
)
def test_what_no_tensor_has_tells_that_it_is_none(body: str, asked: str, told: bool) -> None:
    """A fix called `cpu()` of the number of nodes of a graph, and of an array of lengths."""
    found = codemods(READ.replace("BODY", body.replace("ASKED", asked)))
    assert found == ["numpy-of-device"] * told


STEP = """
import gymnasium
import matplotlib.pyplot as plt
net = nn.Linear(4, 2).cuda()
with torch.no_grad():
    action = net(torch.zeros(1, 4).cuda()).max(1)[1][0]
drawn = MADE
drawn.step(action, action)
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [('gymnasium.make("CartPole-v1")', 0), ("plt.figure().gca()", 2), ("plt.subplots(2)[1][0]", 2)],
)
def test_only_axes_draw(made: str, told: int) -> None:
    """A safe fix took the step of an environment for that of axes: no tensor is one of its actions."""
    found = [one for one in codemods(STEP.replace("MADE", made)) if one == "numpy-of-device"]
    assert len(found) == told


ROUNDS = """
class Trainer:
    def __init__(self, model, args):
        self.device = torch.device(args.device)
        self.model = model.to(self.device)
    def train(self, loader):
        for x, mark in loader:
            x = x.to(self.device)
            ABOVE
            self.model(x, mark).sum().backward()
    def test(self, loader):
        for x, mark in loader:
            x = x.to(self.device)
            mark = mark.to(self.device)
            print(self.model(x, mark).sum())
"""
OR_NONE = """if loader.bare:
                mark = None
            else:
                mark = mark.float().to(self.device)"""


@pytest.mark.parametrize(("above", "told"), [(OR_NONE, False), ("pass", True)])
def test_what_a_loop_moves_on_one_path_is_not_left_out(above: str, told: bool) -> None:
    """The move that was copied from another loop raised AttributeError: there was None."""
    assert codemods(ROUNDS.replace("ABOVE", above)) == ["move-inputs"] * told


FITTED = """
class Range(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("top", torch.zeros(4))
    def fit(self, x):
        self.top = self.top.to(x.device) + x.max(0)[0]
"""
ONE = """
found_N, net_N = Range(), nn.Linear(4, 4).to(device)
found_N.fit(net_N.weight)
found_N.fit(net_N.weight * 2)
print(net_N.weight / found_N.top)
"""


@pytest.mark.parametrize("runs", [2, 9])
def test_what_a_method_stores_is_unknown_where_it_is_not_followed(runs: int) -> None:
    """A safe fix moved what the method had moved: it is followed a limited number of times only."""
    code = CHOSEN + FITTED + "".join(ONE.replace("N", str(i)) for i in range(runs))
    assert not codemods(code)
    assert "module-never-moved" in codemods(code.replace(f"found_{runs - 1}.fit", "print"))


PARTS = """
from zoo import Zoo
def add(module):
    for name in dir(module):
        module.other = nn.Linear(4, 4)
    return module
def evaluate(model):
    MOVE
model = Zoo.from_pretrained("a")
evaluate(model)
add(model)
torch.save(model.state_dict(), "a.pt")
"""


@pytest.mark.parametrize(
    ("move", "told"),
    [("model.lm_head = model.lm_head.to(device)", False), ("model.to(device)", True)],
)
def test_who_moves_a_part_moves_no_whole(move: str, told: bool) -> None:
    """A safe fix moved a whole model, of which a part had been."""
    assert codemods(CHOSEN + PARTS.replace("MOVE", move)) == ["reorder-to"] * told


ENTRY = """
def evaluate(rows, model):
    model.cuda().eval()
    for i in range(len(rows)):
        row = rows[i]
        NAME = row["NAME"]
        boxes = model(row["image"].cuda()[None])
        boxes /= NAME
        print(boxes.sum())
"""


@pytest.mark.parametrize(("name", "told"), [("scale", False), ("anchors", True)])
def test_a_factor_beside_what_is_moved_may_be_a_number(name: str, told: bool) -> None:
    assert ("move-inputs" in codemods(ENTRY.replace("NAME", name))) is told


MEMORY = """
def memory():
    device = torch.cuda.current_device()
    stats = torch.cuda.memory_stats(device=device)
    print(stats["allocated_bytes.all.current"])
    return AFTER
"""


@pytest.mark.parametrize(("after", "told"), [("None", False), ("torch.zeros(2, device=device)", True)])
def test_who_asks_about_memory_places_nothing(after: str, told: bool) -> None:
    assert ("hard-coded-cuda" in codemods(MEMORY.replace("AFTER", after))) is told


TWO = """
import argparse
import numpy as np
args = argparse.ArgumentParser().parse_args()
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x, n):
        out = self.fc(x.cuda())
        return (out.sum(), out.mean().detach() if n else 1)
class Other(Plain):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(4, 4)
if args.other:
    model = Other().cuda()
else:
    model = Plain().cuda()
for i in range(3):
    loss, score = model(torch.ones(4), i)
    print(np.array([i, score * 100]))
"""


def test_what_one_of_two_classes_gives_is_no_proven_tensor() -> None:
    """A safe fix called cpu() of the number that both give at times."""
    for code, fixed in ((TWO, False), (TWO.replace(" if n else 1", ""), True)):
        found = devfix.check(source=HEAD + code, settings=False).findings
        assert [bool(one.fix) for one in found if one.codemod == "numpy-of-device"] == [fixed]


GRID = """
import torchvision
class Writer:
    def write(self, images, device):
        for name in images:
            grid = torchvision.utils.make_grid(images[name]) + 1
            print(name, grid.numpy(), device)
    def log(self, model, batch):
        images = model.draw(batch)
        for name in images:
            images[name] = images[name].detach()COPY
        self.write(images, model.device)
"""


@pytest.mark.parametrize(("copy", "told"), [(".cpu()", False), ("", True)])
def test_a_caller_copies_to_the_cpu_what_it_passes(copy: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(GRID.replace("COPY", copy))) is told


PAIR = """
import argparse
args = argparse.ArgumentParser().parse_args()
teacher = nn.Linear(4, 4)
teacher.load_state_dict(torch.load("a.pt", map_location="cpu"))
model = nn.Linear(4, 4)
if args.cuda:
    model.cuda()
for x in load():
    if args.cuda:
        x = x.cuda()
    print(model(x), teacher(x))
"""


def test_a_module_is_moved_below_the_move_of_the_one_that_it_follows() -> None:
    """It asked above the move for the device of the other one, again and again."""
    made = devfix.fix(source=HEAD + PAIR, unsafe=True, settings=False)
    below = "    model.cuda()\nteacher.to(next(model.parameters()).device)\n"
    assert not made.problems
    assert below in made.text


PARTED = """
from torch.utils.data import DataLoader
from zoo import Net, collate
class Trainer:
    def __init__(self, rows):
        self.loader = DataLoader(rows, collate_fn=collate)
        self.model = Net().cuda()
        self.loss = nn.MSELoss()
    def run(self):
        self.model.train()
        for i, (given, truth) in enumerate(self.loader):
            given = given.cuda()
            self.loss(self.model(given), truth).backward()
    def show(self):
        for i, (given, truth) in enumerate(self.loader):
            SHOWN
            print(self.loss(self.model(given.cuda()), truth))
"""


@pytest.mark.parametrize(("shown", "told"), [('print(truth["rgb"])', False), ("print(i)", True)])
def test_a_part_of_a_batch_that_is_used_as_a_dict_is_no_tensor(shown: str, told: bool) -> None:
    found = devfix.check(source=HEAD + PARTED.replace("SHOWN", shown), settings=False).findings
    assert any("`truth`" in one.message and one.line > 15 for one in found) is told


ITEMS = """
from torch.utils.data import DataLoader
from zoo import Items, Net
model = Net().cuda()
model.eval()
for batch in DataLoader(Items(), collate_fn=COLLATE):
    print(model(batch[1]))
"""


@pytest.mark.parametrize(
    ("collate", "told"), [("lambda x: x[0]", False), ("lambda x: x", False), ("None", True)]
)
def test_a_collate_function_that_hands_on_makes_no_tensors(collate: str, told: bool) -> None:
    assert ("move-inputs" in codemods(ITEMS.replace("COLLATE", collate))) is told


FILLED = """
import argparse
args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 4)
given = torch.rand(1, 4)
if args.cuda:
    model.cuda()
    given.data = given.dataMOVED
print(model(given))
"""


@pytest.mark.parametrize(("moved", "told"), [(".cuda()", False), (" * 2", True)])
def test_a_tensor_is_where_the_data_is_that_it_gets(moved: str, told: bool) -> None:
    assert ("move-inputs" in codemods(FILLED.replace("MOVED", moved))) is told


START = """
def step(layer, n, start=None, device=device):
    start = torch.zeros(n).to(device) if start is None else start
    return start - layer(n)
def noise(n):
    return torch.rand(n)
def test_step():
    print(step(noise, 3, start=GIVEN))
"""


@pytest.mark.parametrize(("given", "told"), [("noise(3) * 2", False), ("None", True)])
def test_a_product_that_is_passed_is_not_none(given: str, told: bool) -> None:
    assert ("place-factory" in codemods(CHOSEN + START.replace("GIVEN", given))) is told


RECORD = """
from pydantic import BaseModel
class Settings(BaseModel):
    size: int = 4
    device: str = "cuda:0"
class Loss(nn.Module):
    def __init__(self, counts, settings: Settings | None = None):
        super().__init__()
        if settings is None:
            settings = Settings()
        self.counts = counts.pow(0.5).to(settings.device)
        self.weight = nn.Parameter(torch.rand(4, 8))
    def forward(self, x):
        return self.weight[self.counts.multinomial(2)] * x
SETTINGS = Settings(GIVEN)
def test_loss():
    loss = Loss(torch.rand(4), SETTINGS)
    print(loss(torch.rand(2, 8)))
"""


@pytest.mark.parametrize(
    ("given", "told"), [('device="cpu"', False), ("**options", False), ("", True), ('4, "cuda"', True)]
)
def test_a_record_holds_what_it_is_made_with(given: str, told: bool) -> None:
    assert bool(codemods(RECORD.replace("GIVEN", given))) is told
    made = RECORD.replace("from pydantic import BaseModel", "from dataclasses import dataclass")
    made = made.replace("class Settings(BaseModel)", "@dataclass\nclass Settings")
    assert bool(codemods(made.replace("GIVEN", given))) is told


LIKE_GIVEN = """
def one_hot(index: torch.Tensor):
    return nn.functional.one_hot(index.long(), 3).to(index.device)
def test_one_hot(values):
    wanted = torch.zeros(4, 3)
    print(one_hot(GIVEN) == wanted)
"""


@pytest.mark.parametrize(("given", "told"), [("values", False), ("values.cuda()", True)])
def test_the_device_of_a_tensor_of_unknown_origin_is_none_that_anybody_has_chosen(
    given: str, told: bool
) -> None:
    found = devfix.check(
        source=HEAD + LIKE_GIVEN.replace("GIVEN", given), filename="test_it.py", settings=False
    )
    assert bool(found.findings) is told


RETRIED = """
def restore(net, path):
    try:
        state = torch.load(path, map_location="cpu"TOLD)
    except Exception:
        state = torch.load(path)
    net.load_state_dict(state["model"])
"""


@pytest.mark.parametrize(("told", "found"), [("", False), (", weights_only=True", True)])
def test_a_load_that_is_tried_after_the_same_one_onto_the_cpu_is_meant(told: str, found: bool) -> None:
    assert ("map-location" in codemods(RETRIED.replace("TOLD", told))) is found


STEPS = """
options.device = device
def write(model, words, start):
    words = iter(words)
    output, state = model(next(words).to(options.device))
    for word in words:
        given = torch.tensor([[word]])
        output, state = model(given, state)USED
    return output, state
"""


@pytest.mark.parametrize(
    ("used", "written"), [("", "options.device"), ("\n        print(state + 1)", "state.device")]
)
def test_what_is_only_handed_back_to_a_network_may_be_a_tuple(used: str, written: str) -> None:
    code = HEAD + "from settings import options\n" + CHOSEN + STEPS.replace("USED", used)
    assert f"device={written})" in devfix.fix(source=code, unsafe=True, settings=False).text


RETURNED = """
class Halve(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor, self.layer = factor, nn.Linear(4, 4)
    def forward(self, x, NAME: torch.Tensor):
        if self.factor == 1:
            return x, NAME
        NAME = [one.item() // self.factor for one in NAME]
        NAME = torch.IntTensor(NAME)
        return self.layer(x[:, :: self.factor]), NAME
"""


@pytest.mark.parametrize(("name", "told"), [("x_lens", False), ("steps", True)])
def test_lengths_that_are_returned_may_be_wanted_on_the_cpu(name: str, told: bool) -> None:
    assert ("place-factory" in codemods(RETURNED.replace("NAME", name))) is told


REGISTERED = """
class Grid:
    def __init__(self, cell):
        self.cell = cell
    def at(self, x):
        return self.cell @ x
class Basis(nn.Module):
    def __init__(self, n):
        super().__init__()
        FIRST
        self.grid = Grid(torch.eye(3))
        SECOND
    def forward(self, x: torch.Tensor):
        return self.grid.at(self.basis * x)
"""


@pytest.mark.parametrize("registered", ["FIRST", "SECOND"])
def test_what_a_constructor_makes_is_not_on_the_device_of_a_buffer_that_is_moved_later(
    registered: str,
) -> None:
    """`self.grid = Grid(torch.eye(3, device=self.basis.device))` moved nothing, or raised AttributeError."""
    text = REGISTERED.replace(registered, 'self.register_buffer("basis", torch.rand(3, n))')
    text = text.replace("FIRST", "pass").replace("SECOND", "pass")
    assert "self.basis.device" not in devfix.fix(source=HEAD + text, unsafe=True, settings=False).text


HOLDER = """
from collections.abc import MutableMapping
class Models(MutableMapping):
    def __init__(self, store):
        self.store = store if isinstance(store, dict) else {}
    def __getitem__(self, key):
        return self.store[key]
    def __setitem__(self, key, value):
        self.store[key] = value
    def __delitem__(self, key):
        del self.store[key]
    def __iter__(self):
        return iter(self.store)
    def __len__(self):
        return len(self.store)
    def to(self, device):
        for one in self.values():
            one.to(device)
device = torch.device("cuda")
first, last = nn.Linear(4, 4), nn.Linear(4, 4)
models = Models({"first": first, "last": last})
models.CALLED
print(last(first(torch.randn(3, 4, device=device))))
"""


@pytest.mark.parametrize(("called", "told"), [("to(device)", False), ("clear()", True)])
def test_an_object_may_move_what_it_was_made_with(called: str, told: bool) -> None:
    assert ("module-never-moved" in codemods(HOLDER.replace("CALLED", called))) is told


FLAGGED = """
def show(x, given):
    if given is None:
        x = torch.zeros(3)
        mine = True
    else:
        x = x.to(device)
        mine = False
    if ASKED:
        print(x.numpy())
"""


@pytest.mark.parametrize(("asked", "told"), [("mine", False), ("not mine", True)])
def test_a_flag_says_which_way_was_taken(asked: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(CHOSEN + FLAGGED.replace("ASKED", asked))) is told


RENEWED = """
def weigh(x):
    masks, others = MADE, {}
    for name, mask in masks.items():
        TARGET[name] = mask.to(device)
    return x.to(device) * masks["first"]
"""


@pytest.mark.parametrize(
    "made", ['{"first": torch.ones(3), "last": torch.ones(3)}', 'torch.load("masks", map_location="cpu")']
)
@pytest.mark.parametrize(("target", "told"), [("masks", False), ("others", True)])
def test_a_loop_over_a_dict_may_replace_all_that_is_in_it(made: str, target: str, told: bool) -> None:
    code = RENEWED.replace("MADE", made).replace("TARGET", target)
    assert bool(codemods(CHOSEN + code)) is told


PAIRS = """
from lib import Skip
class Encoder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.pairs = []
        for _ in range(n):
            self.pairs.append((Skip(nn.Linear(3, 3)), Skip(nn.Linear(3, 3))))
        self.parts = LISTED
    def forward(self, x):
        for first, last in self.pairs:
            x = last(first(x))
        return x
"""


@pytest.mark.parametrize("made", ["nn.ModuleList({})", "nn.Sequential(*{})", "list({})"])
def test_what_is_in_a_list_of_pairs_may_be_registered_besides(made: str) -> None:
    parts = made.format("[part for pair in self.pairs for part in pair]")
    assert ("register-modules" in codemods(PAIRS.replace("LISTED", parts))) is made.startswith("list")


STARTED = """
class Decoder(nn.Module):
    def __init__(self, size, other=None):
        super().__init__()
        self.embed = nn.Embedding(size, 4)
        self.last = [nn.Linear(4, size)]
        if other is not None:
            self.start(other)
    def start(self, other):
        self.embed.weight.data = other.embed.weight.data
    def forward(self, y: torch.Tensor):
        return RESULT
"""


@pytest.mark.parametrize(
    ("result", "told"), [("self.embed(y)", False), ("self.last[0](self.embed(y))", True)]
)
def test_a_layer_that_gets_the_weights_of_another_one_moves_with_the_module(result: str, told: bool) -> None:
    assert bool(codemods(STARTED.replace("RESULT", result))) is told


PLACED = """
def pick(scores: torch.Tensor, many, device):
    CHOSEN
    scores = scores.to(place)
    if ASKED:
        return torch.ones(3) * scores
    return None
"""


@pytest.mark.parametrize("asked", ["many", "not many"])
@pytest.mark.parametrize(
    "chosen",
    ['place = "cpu" if many else device', 'place = device\n    if many:\n        place = "cpu"'],
)
def test_the_cpu_is_chosen_where_a_condition_says_so(chosen: str, asked: str) -> None:
    code = PLACED.replace("CHOSEN", chosen).replace("ASKED", asked)
    assert ("place-factory" in codemods(code)) is (asked == "not many")


def test_a_device_that_is_the_cpu_unless_a_caller_names_one_is_one_that_a_caller_names() -> None:
    chosen = 'place = device if device is not None else "cpu"'
    assert "place-factory" in codemods(PLACED.replace("CHOSEN", chosen).replace("ASKED", "many"))


NUMBERED = """
from options import parsed
def test(net, data, args):
    for x, y in torch.utils.data.DataLoader(data):
        if ASKED:
            x, y = x.cuda(), y.cuda()
        print(nn.functional.cross_entropy(net(x), y))
def main(data):
    args = parsed()
    args.device = torch.device("cuda" if torch.cuda.is_available() and args.gpu != -1 else "cpu")
    test(nn.Linear(3, 3).to(args.device), data, args)
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("args.gpu != -1", False),
        ("not args.gpu < 0", False),
        ("args.gpu > -1", False),
        ("args.fast != -1", True),
    ],
)
def test_a_number_below_zero_names_no_gpu(asked: str, told: bool) -> None:
    assert ("move-inputs" in codemods(NUMBERED.replace("ASKED", asked))) is told


GRAPH = """
from torch_geometric.datasets import Planetoid
dataset = Planetoid("cora", "Cora")
data = dataset[0]
MOVED
net = nn.Linear(3, 3).cuda()
print(nn.functional.cross_entropy(net(data.x.cuda()), data.y))
"""


@pytest.mark.parametrize(
    ("moved", "told"),
    [("there = data.cuda()", False), ("fit(data.cuda())", False), ("there = data.x.cuda()", True)],
)
def test_a_graph_moves_itself_and_is_given_back(moved: str, told: bool) -> None:
    assert ("move-inputs" in codemods(GRAPH.replace("MOVED", moved))) is told


MIXED = """
def train(args, net):
    for x, y in torch.utils.data.DataLoader(data):
        if args.mix:
            order = torch.randperm(x.size(0)).cuda()
            x[:, :2] = x[order, :2]
            out = RUN
        else:
            out = net(x.cuda())
        print(out)
"""


@pytest.mark.parametrize(("run", "safe"), [("net(x)", False), ("net(x.cuda())", True)])
def test_half_of_what_a_batch_needs_is_not_safe(run: str, safe: bool) -> None:
    found = devfix.check(source=HEAD + MIXED.replace("RUN", run), settings=False).findings
    assert next(one.safety is Safety.SAFE for one in found if one.codemod == "move-inputs") is safe


TYPED = """
def run(net, x, device: str):
    with torch.autocast(device):
        return net(x.to(device))
device = "cuda" if torch.cuda.is_available() else "cpu"
CALLED
"""


@pytest.mark.parametrize(("called", "told"), [("run(nn.ReLU(), torch.ones(3), device)", False), ("", True)])
def test_nobody_else_calls_the_functions_of_a_notebook(called: str, told: bool, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": HEAD + TYPED.replace("CALLED", called), "metadata": {}}
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 2}))
    found = devfix.check(book, cache=False, settings=False).findings
    assert bool([one for one in found if one.codemod == "normalize-device-type"]) is told


LENGTHS = """
import lightning
class Parser(lightning.LightningModule):
    def training_step(self, batch):
        words, counts = batch["words"], batch["counts"]
        return torch.arange(words.shape[1]).unsqueeze(0) < COUNTS.unsqueeze(1)
"""


@pytest.mark.parametrize(("counts", "told"), [("torch.tensor(counts)", False), ("counts", True)])
def test_what_is_made_a_tensor_of_a_batch_is_a_list(counts: str, told: bool) -> None:
    assert ("place-factory" in codemods(LENGTHS.replace("COUNTS", counts))) is told


LOSSES = """
import numpy as np
net, losses = nn.Linear(3, 1).cuda(), []
for x, y in torch.utils.data.DataLoader(data):
    loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
    loss.backward()
    losses.append(KEPT)
print(np.array(losses[1:]))
"""


@pytest.mark.parametrize(("kept", "told"), [("loss", False), ("loss.detach()", True)])
def test_a_list_of_losses_is_read_nowhere(kept: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(LOSSES.replace("KEPT", kept))) is told


ADDED_UP = """
import numpy as np
net, criterion = nn.Linear(3, 1).cuda(), nn.L1Loss()
for x in torch.utils.data.DataLoader(data):
    x = x.cuda()
    out = net(x)
    each = np.sum([criterion(out[i], x) for i in range(len(out))])
    loss = 0.5 * each
    USE
"""


@pytest.mark.parametrize(("use", "told"), [("loss.backward()", False), ("print(loss)", True)])
def test_what_numpy_sums_has_no_gradient(use: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(ADDED_UP.replace("USE", use))) is told


TABLED = """
def table(layout: torch.Tensor, GIVEN):
    empty = torch.zeros(2, device=layout.device)
    order = torch.arange(layout.shape[0])
    found = torch.stack([order * layout.sum(1), layout.sum(0)])
    return torch.cat([found, empty[None]]).to(MOVED)
"""


@pytest.mark.parametrize(("given", "moved", "safe"), [("device", "device", False), ("kind", "kind", True)])
def test_what_also_gets_a_device_may_compute_on_the_cpu(given: str, moved: str, safe: bool) -> None:
    code = TABLED.replace("GIVEN", given).replace("MOVED", moved)
    found = devfix.check(source=HEAD + CHOSEN + code, settings=False).findings
    assert next(one.safety is Safety.SAFE for one in found if one.codemod == "place-factory") is safe


def fixes(code: str) -> list[str]:
    return [one.fix for one in devfix.check(source=HEAD + code, settings=False).findings]


GRAPHS = """
class Nodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.special = nn.Embedding(2, 3)
    def forward(self, graphs, masked):
        found = torch.zeros(len(graphs), 3)
        for i, graph in enumerate(graphs):
            found[i] = len(graph.USED)
            self.special(torch.LongTensor([0]))
        return found
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes, self.out = Nodes(), nn.Linear(3, 1)
    def forward(self, graphs):
        return self.out(self.nodes(graphs, []))
"""


@pytest.mark.parametrize(("used", "asked"), [("nodes()", False), ("nonzero()", True)])
def test_what_is_used_as_no_tensor_is_not_asked_for_its_device(used: str, asked: bool) -> None:
    """A list of graphs has neither parameters nor a device, and a graph is where it was made."""
    titles = fixes(GRAPHS.replace("USED", used))
    assert titles and not [one for one in titles if "graphs" in one]
    assert any("graph.device" in one for one in titles) is asked


TYPES = """
class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(3, 3)
    def forward(self, x):
        return self.affine(x)
class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(n, 3) for n in sizes])
        self.meta = Meta()
    def forward(self, feats, kinds):
        hidden = torch.zeros(len(kinds), 3)
        for i in range(len(feats)):
            hidden[kinds == i] = self.parts[i](feats[i])
        return self.meta(hidden)
"""


def test_what_is_only_taken_apart_may_be_a_list() -> None:
    titles = fixes(TYPES)
    assert titles and not [one for one in titles if "feats" in one]


NUMPY_INPUT = """
class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(layers[i], layers[i + 1]) for i in range(len(layers) - 1)])
    def forward(self, x):
        if torch.is_tensor(x) != True:
            x = torch.from_numpy(x)
        a = x.float()
        for i in range(2):
            a = self.layers[i](a)
        return a
points = torch.ones(4, 3).to(device)
net = Net([3, 3, 3])
net.to(device)
print(net(points))
"""


def test_no_method_asks_data_of_the_program_for_its_device() -> None:
    titles = fixes(CHOSEN + NUMPY_INPUT)
    assert titles and not [one for one in titles if "points" in one]


RIGHT = """
net = nn.Linear(3, 3).to(device)
for x, y in torch.utils.data.DataLoader(data):
    _, found = torch.max(net(x.to(device)), 1)
    print(COMPARED)
"""


@pytest.mark.parametrize(
    ("compared", "told"),
    [("[found[j] == y[j] for j in range(len(y))]", False), ("found[0] == y[0]", False), ("found == y", True)],
)
def test_an_element_of_the_labels_may_be_a_number(compared: str, told: bool) -> None:
    assert ("move-inputs" in codemods(CHOSEN + RIGHT.replace("COMPARED", compared))) is told


BASE = """
import torch
from functools import partial
class Trainer:
    def __init__(self, net, loader, device):
        self.net, self.loader, self.device = net, loader, torch.device(device)
    def train(self):
        return self.steps(partial(torch.autocast, device_type="cpu"))
"""
DERIVED = """
from base import Trainer
class Autocast(Trainer):
    def steps(self, context):
        for x in self.loader:
            x = x.to(self.device)
            with context():
                print(self.net(x))
    def run(self):
        return self.train()
"""
LIBRARY = """
import torch
from torch import nn
# What makes a file long:
#
#
#
def load(device="cuda" if torch.cuda.is_available() else "cpu"):
    return Net().to(device)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
    def encode(self, words):
        return self.table(words)
"""
USE = """
import torch, library
net = library.load()
def weights(tokens):
    return net.encode(torch.tensor(tokens).cuda())
"""


def test_what_another_file_does_is_not_read_in_this_one(tmp_path: Path) -> None:
    """Both raised inside devfix."""
    for name, code in (("base", BASE), ("derived", DERIVED), ("library", LIBRARY), ("use", USE)):
        (tmp_path / f"{name}.py").write_text(code)
    assert not devfix.check(tmp_path, cache=False, settings=False).problems


NO_ROUND = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 3)
    def forward(self, parts):
        ABOVE
        for part in parts:
            print(part.unsqueeze(0))
AFTER
"""


@pytest.mark.parametrize("above", ["pass", "print([part.shape for part in parts])"])
@pytest.mark.parametrize(("indent", "told"), [(8, False), (12, True)])
def test_a_loop_may_have_no_round(indent: int, told: bool, above: str) -> None:
    after = " " * indent + "print(self.out(torch.ones(3)))"
    code = NO_ROUND.replace("AFTER", after).replace("ABOVE", above)
    assert any("part.device" in one for one in fixes(code)) is told


BOXES = """
def boxes(masks):
    if masks.numel() == 0:
        return torch.zeros((0, 4), device=masks.device)
    top = torch.arange(0, masks.shape[-1], dtype=torch.float)
    return (masks * top.unsqueeze(1)).flatten(1).max(-1)[0]
"""
PANOPTIC = """
import numpy as np
from boxes import boxes
class Panoptic:
    def __getitem__(self, index):
        masks = torch.as_tensor(np.zeros((2, 3, 3)))MOVED
        return boxes(masks)
"""


@pytest.mark.parametrize(("moved", "safe"), [("", False), (".cuda()", True)])
def test_what_all_callers_have_on_the_cpu_needs_no_other_device(
    moved: str, safe: bool, tmp_path: Path
) -> None:
    (tmp_path / "boxes.py").write_text(HEAD + BOXES)
    (tmp_path / "panoptic.py").write_text(HEAD + PANOPTIC.replace("MOVED", moved))
    found = devfix.check(tmp_path, cache=False, settings=False).findings
    assert next(one.safety is Safety.SAFE for one in found if one.codemod == "place-factory") is safe


LACKING = """
class Perturbation:
    def __init__(self, deviceDEFAULT):
        self.device = torch.device(device)
        self.low = torch.zeros(3).to(self.device)
    def moved(self, x):
        return x + self.low
def check():
    made = Perturbation()
    future = torch.zeros(2, 3)
    print(made.low - future)
"""


@pytest.mark.parametrize(("default", "told"), [("", False), ('="cuda"', True)])
def test_a_call_without_what_is_needed_raises_anyway(default: str, told: bool) -> None:
    assert bool(codemods(LACKING.replace("DEFAULT", default))) is told


INDEXING = """
def order(n, device="cpu"):
    return torch.arange(n, device=device).flip(0)
def resample(n, device="cuda"):
    points = torch.ones(n, 3)
    places = order(n)
    points[places] = points.clone()
    return points, torch.ones(n, device=device)
"""


def test_what_is_on_the_cpu_is_indexed_there() -> None:
    assert "hand-on-device" not in codemods(INDEXING)


PLOTTED = """
import matplotlib.pyplot as plt
from features import encode
first = torch.cat([encode(i) for i in range(3)])
second = torch.cat([encode(i) for i in range(3)])OTHER
first = first.to(device)
plt.pcolormesh((first - second).mean(-1))
"""


@pytest.mark.parametrize(("other", "safe"), [("", False), (".to(device)", True)])
def test_what_is_combined_with_something_unknown_may_raise_before(other: str, safe: bool) -> None:
    found = devfix.check(source=HEAD + CHOSEN + PLOTTED.replace("OTHER", other), settings=False).findings
    assert next(one.safety is Safety.SAFE for one in found if one.codemod == "numpy-of-device") is safe


PREPARED = """
from copy import deepcopy
class Base:
    def __init__(self, net, device):
        self.net, self.device = net, torch.device(device)
    def fit(self):
        CALLED
        self.train()
    def train(self):
        pass
class Trainer(Base):
    def __init__(self, net, loader, device):
        super().__init__(net, device)
        self.loader, self.other = loader, deepcopy(net)
    def prepare(self):
        self.other.to(self.device)
    def train(self):
        for x in self.loader:
            x = x.to(self.device)
            print(self.other(x))
"""


@pytest.mark.parametrize(("called", "told"), [("self.prepare()", False), ("pass", True)])
def test_what_a_base_calls_has_run(called: str, told: bool) -> None:
    assert ("module-never-moved" in codemods(PREPARED.replace("CALLED", called))) is told


FED = """
from torch.utils.data import DataLoader, Dataset
class Signals(Dataset):
    def __init__(self, dev):
        self.dev = dev
    def __getitem__(self, i):
        return torch.ones(3)MOVED
    def __len__(self):
        return 4
class Pairs(Signals):
    def __getitem__(self, i):
        return super().__getitem__(i), super().__getitem__(0)
net = nn.Linear(3, 1).to(device)
for one, other in DataLoader(Pairs(device), batch_size=2):
    print(net(one) + net(other))
"""


@pytest.mark.parametrize(("moved", "told"), [(".to(self.dev)", False), ("", True)])
def test_the_base_of_a_data_set_may_move_what_it_gives(moved: str, told: bool) -> None:
    assert ("move-inputs" in codemods(HEAD + CHOSEN + FED.replace("MOVED", moved))) is told


@pytest.mark.parametrize(
    ("made", "given", "safe"),
    [
        ("build(2).to(device)", "torch.linspace(0, 1, 9)", True),
        ("build(2).to(device)", "z, torch.linspace(0, 1, 9)", False),
        ("build(2).to(device)", "z, t=torch.ones(9)", False),
        ("nn.ModuleList(build(2)).to(device)[0]", "z, t=torch.ones(9)", False),
        ("nn.LSTM(2, 3).to(device)", "z, (torch.zeros(1, 3), z)", True),
    ],
)
def test_a_module_out_of_sight_may_move_what_else_it_is_given(made: str, given: str, safe: bool) -> None:
    text = f"from flows import build\nz = torch.randn(4, 2).to(device)\nnet = {made}\nprint(net({given}))\n"
    found = devfix.check(source=HEAD + CHOSEN + text, settings=False).findings
    assert [one.safety is Safety.SAFE for one in found] == [safe]


SCORED = """
import numpy as np
from sklearn.metrics import confusion_matrix
model = nn.Linear(3, 2).to(device)
def score(loader):
    wanted, said = [], []
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            _, one = model(x).max(1)
            wanted.append(OTHER)
            said.append(one)
    return confusion_matrix(np.concatenate(wanted), np.concatenate(said))
"""


@pytest.mark.parametrize(
    ("other", "told"), [("y", [False, False]), ("one", [True, True]), ("y.cpu()", [True])]
)
def test_a_copy_of_one_of_two_lists_is_half_a_cure(other: str, told: list[bool]) -> None:
    found = devfix.check(source=HEAD + CHOSEN + SCORED.replace("OTHER", other), settings=False).findings
    assert [one.safety is Safety.SAFE for one in found if one.codemod == "numpy-of-device"] == told


QUANTISED = """
class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.randn(3, 5)
    def forward(self, x):
        return x @ self.table
"""
KEEPER = """
from quantiser import Quantiser
class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = {}
        for key in range(3):
            KEPT
if __name__ == "__main__":
    Keeper().to("cuda" if torch.cuda.is_available() else "cpu")
"""


@pytest.mark.parametrize(
    ("kept", "safe"), [("self.parts[key] = Quantiser()", False), ("self.part = Quantiser()", True)]
)
def test_no_move_reaches_what_only_plain_dicts_have(kept: str, safe: bool, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "keeper.py").write_text(HEAD + KEEPER.replace("KEPT", kept))
    (tmp_path / "quantiser.py").write_text(HEAD + QUANTISED)
    found = devfix.check(tmp_path / "quantiser.py", settings=False, cache=False).findings
    assert [(one.codemod, one.safety is Safety.SAFE) for one in found] == [("register-buffer", safe)]


PACKED = """
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, packed, state):
        return self.steps(packed.data, packed.SIZES, state)
    def steps(self, x, sizes, state):
        y = self.layer(x) * state
        return torch.cat([sizes[1:].flip(0), torch.tensor([0])]).to(y.device)
"""


@pytest.mark.parametrize(("sizes", "told"), [("batch_sizes", []), ("masks", ["place-factory"])])
def test_the_batch_sizes_of_a_packed_sequence_are_on_the_cpu(sizes: str, told: list[str]) -> None:
    assert codemods(PACKED.replace("SIZES", sizes)) == told


BEAM = """
class Search(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        kept = []
        for t in range(5):
            if t == 0:
                best, at = torch.topk(self.layer(x)[0], 3)
                for i in range(3):
                    kept.append(ADDED)
            if t > 0:
                rows = []
                for i in range(3):
                    rows.append(torch.stack(kept[i]))
        return rows
"""


@pytest.mark.parametrize("added", ["[torch.tensor(1), at[i]]", "(torch.tensor(1), at[i])"])
def test_the_device_of_a_list_is_not_asked(added: str) -> None:
    """`torch.tensor(1, device=kept[i].device)`: the list is empty then, and holds lists."""
    made = devfix.fix(source=HEAD + BEAM.replace("ADDED", added), unsafe=True, settings=False).text
    assert "torch.tensor(1, device=at.device)" in made


LAYER = """
class Layer(nn.Conv1d):
    def __init__(self, size, device=None):
        super().__init__(size, size, 3, DEVICE)
    def forward(self, x):
        return nn.functional.conv1d(x, self.weight, self.bias)
x = torch.randn(2, 3, 9).to(device)
print(Layer(3, device=device)(x))
"""


@pytest.mark.parametrize(("given", "told"), [("device=device", []), ("", ["module-never-moved"])])
def test_a_layer_is_where_it_tells_its_base_to_be(given: str, told: list[str]) -> None:
    assert codemods(CHOSEN + LAYER.replace("DEVICE", given)) == told


WEIGHED = """
from checks import checked
class Loss(nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.register_buffer("weight", KEPT)
    def forward(self, x, y):
        return nn.functional.cross_entropy(x, y, weight=self.weight)
def run(n):
    x, y = torch.randn(2, 3).to(device), torch.randint(3, (2,)).to(device)
    weight = torch.rand(3).to(device)
    loss = Loss(GIVEN)
    return loss(x, y)
"""


@pytest.mark.parametrize(
    ("kept", "given", "told"),
    [
        ("weight", "", []),
        ("weight", "weight if n else None", []),
        ("checked(weight)", "", []),
        ("torch.ones(3)", "", ["module-never-moved"]),
    ],
)
def test_a_buffer_may_be_none(kept: str, given: str, told: list[str]) -> None:
    assert codemods(CHOSEN + WEIGHED.replace("KEPT", kept).replace("GIVEN", given)) == told


SCATTERED = """
import matplotlib.pyplot as plt
from geometry import volume
x = torch.randn(5, 3).to(device)
area = x[:, 0].sqrt()
plt.scatter(OTHER.numpy(), area.numpy())
"""


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("volume()", [False]),
        ("volume().detach()", [False]),
        ("volume().cpu()", [True]),
        ("torch.linspace(0, 1, 5)", [True]),
        ("x[:, 1]", [True, True]),
    ],
)
def test_a_copy_of_one_of_two_that_a_plot_gets_is_half_a_cure(other: str, told: list[bool]) -> None:
    found = devfix.check(source=HEAD + CHOSEN + SCATTERED.replace("OTHER", other), settings=False).findings
    assert [one.safety is Safety.SAFE for one in found] == told


POSES = """
def turned(axis, angle):
    return axis * torch.cos(angle)[:, None]
def pose(theta: torch.Tensor, phi: torch.Tensor) -> torch.Tensor:
    made = torch.eye(4, device=theta.device)
    BEFORE
    return made @ torch.tensor([[1.0, 0.0, 0, 0], [0.0, -1.0, 0.0, 0]]).T
"""


@pytest.mark.parametrize(
    ("before", "safe"),
    [
        ("made[:, :3] = turned(torch.tensor([1.0, 0.0, 0.0]), phi)", False),
        ("made[:, :3] = turned(torch.tensor([1.0, 0.0, 0.0]).to(phi), phi)", True),
        ("made = made @ torch.ones(4, 4)", True),
    ],
)
def test_what_fails_before_has_to_be_mended_as_safely(before: str, safe: bool) -> None:
    """The error of the last line is not the first: there is no safe fix for what `turned` multiplies."""
    found = devfix.check(source=HEAD + POSES.replace("BEFORE", before), settings=False).findings
    assert (found[-1].codemod, found[-1].safety is Safety.SAFE) == ("place-factory", safe)


TRAINED = """
import matplotlib.pyplot as plt
import pytorch_lightning as pl
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        return self.layer(x)
x = torch.linspace(0, 1, 3)
def plot(loader):
    net = Net()
    pl.Trainer(max_epochs=3).fit(net, loader)
    plt.plot(x.numpy(), net(x).detach().numpy())
"""


def test_a_trainer_may_bring_a_module_back() -> None:
    assert not codemods(TRAINED)


@pytest.mark.parametrize(("block", "safe"), [("torch.cuda.device(0)", False), ("torch.no_grad()", True)])
def test_a_block_that_needs_cuda_stays_one(block: str, safe: bool, tmp_path: Path) -> None:
    text = f"net = nn.Linear(3, 3)\nwith {block}:\n    net.cuda()\nx = torch.randn(2, 3).to(device)\nprint(net(x))\n"
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "program.py").write_text(HEAD + CHOSEN + text)
    found = devfix.check(tmp_path / "program.py", settings=False, cache=False).findings
    assert [(one.codemod, one.safety is Safety.SAFE) for one in found] == [("hard-coded-cuda", safe)]


DRIVEN = """
from engines import Runner
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        return self.layer(x)
class Mine(BASE):
    BODY
net = Net()
runner = Mine(net)
print(net(torch.randn(2, 3, device=device)))
"""
HANDS_ON = "def __init__(self, net):\n        super().__init__(net)"
STORES_IT = "def __init__(self, net):\n        self.net = net"


@pytest.mark.parametrize(
    ("base", "body", "told"),
    [
        ("Runner", "pass", []),
        ("Runner", HANDS_ON, []),
        ("Runner", STORES_IT, ["module-never-moved"]),
        ("object", STORES_IT, ["module-never-moved"]),
    ],
)
def test_a_base_out_of_sight_may_move_what_it_is_given(base: str, body: str, told: list[str]) -> None:
    assert codemods(CHOSEN + DRIVEN.replace("BASE", base).replace("BODY", body)) == told


SUMMED = """
import numpy as np
from torch.autograd import Variable
net = nn.Linear(3, 3).to(device)
def criterion(x, y):
    return torch.sum(x[:, 1] * y, 0)
def validate(loader):
    total = 0
    for x, y in loader:
        x, y = Variable(x.to(device)OPTION), y.to(device)
        found = net(x)
        loss = criterion(found, y)
        total += ADDED
    return np.array([total, 1.0]) / 3
"""


@pytest.mark.parametrize(
    ("option", "added", "told"),
    [
        ("", "torch.sum(found * y)", ["numpy-of-device"]),
        (", volatile=True", "torch.sum(found * y)", []),
        ("", "found.data[0]", ["numpy-of-device"]),
        ("", "loss.data[0]", []),
    ],
)
def test_before_torch_0_4_sums_are_numbers(option: str, added: str, told: list[str]) -> None:
    assert codemods(CHOSEN + SUMMED.replace("OPTION", option).replace("ADDED", added)) == told


SPOKEN = """
class Speaker(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.embedding = nn.Embedding(9, 4)
        self.rnn = nn.GRU(4, 4)
    def forward(self, x):
        return self.rnn(self.embedding(x).to(self.device))
speaker = Speaker(device)
speaker(GIVEN)
"""


@pytest.mark.parametrize(("given", "safe"), [("torch.ones(2, 3).long()", False), ("batch", True)])
def test_a_module_that_also_runs_on_what_stays_has_no_safe_move(given: str, safe: bool) -> None:
    found = devfix.check(source=HEAD + CHOSEN + SPOKEN.replace("GIVEN", given), settings=False).findings
    assert [(one.codemod, one.safety is Safety.SAFE) for one in found] == [("module-never-moved", safe)]


PAINTED = """
from rendering import render
import numpy as np
def painted(x):
    device = x.device
    return torch.from_numpy(np.clip(x.cpu().numpy(), 0, 1)).to(device)
def inverted(rays):
    depth = render(nn.Linear(3, 3).to(device), rays)
    return painted(1.0 / COPY).numpy()
"""


@pytest.mark.parametrize(
    ("copy", "told"), [("depth.cpu()", []), ("depth.to(device).detach()", ["numpy-of-device"])]
)
def test_a_number_by_what_was_copied_stays_there(copy: str, told: list[str]) -> None:
    assert codemods(CHOSEN + PAINTED.replace("COPY", copy)) == told


ENUMERATED = """
import kinds
def train(name, dataset):
    loader = torch.utils.data.DataLoader(dataset, batch_size=4)
    head = getattr(kinds, name)().to(device)
    for LOOP:
        head(batch).backward()
"""


@pytest.mark.parametrize(
    ("loop", "safe"),
    [
        ("batch in loader", False),
        ("i, batch in enumerate(loader)", False),
        ("batch, labels in loader", True),
        ("i, (batch, labels) in enumerate(loader)", True),
    ],
)
def test_a_batch_that_is_numbered_may_be_a_list(loop: str, safe: bool) -> None:
    found = devfix.check(source=HEAD + CHOSEN + ENUMERATED.replace("LOOP", loop), settings=False).findings
    assert [(one.codemod, one.safety is Safety.SAFE) for one in found] == [("move-inputs", safe)]


SCALED = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.parts = PARTS
    def scale(self, i, given):
        return torch.as_tensor(given, device=self.parts[i].device)
"""


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ("nn.ParameterList([nn.Parameter(torch.ones(())) for _ in range(n)])", []),
        ("nn.ModuleList([nn.Linear(3, 3) for _ in range(n)])", ["move-inputs"]),
    ],
)
def test_an_element_of_a_parameter_list_is_a_tensor(parts: str, told: list[str]) -> None:
    assert codemods(SCALED.replace("PARTS", parts)) == told


WATCHED = """
import numpy as np
class Observer:
    def __init__(self):
        self.device = None
    def start(self, particles):
        self.device = particles.device
    def gradient(self):
        return torch.from_numpy(np.zeros(3)).to(self.device)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.speed = nn.Parameter(torch.zeros(3))
        self.observer = Observer()
    def forward(self):
        return self.speed * self.observer.gradient()
"""


@pytest.mark.parametrize(("device", "told"), [("None", []), ('"cpu"', ["place-factory"])])
def test_what_an_object_leaves_none_another_method_may_store(device: str, told: list[str]) -> None:
    assert codemods(WATCHED.replace("None", device)) == told


MACHINE = """
class Machine(nn.Module):
    def __init__(self, device=None):
        super().__init__()
        if device is None:
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        else:
            self.device = device
        self.bias = nn.Parameter(torch.zeros(2, device=self.device))
    def infer(self):
        return torch.ones(2, 2, device=self.device) @ self.bias
machine = Machine(GIVEN)
machine.bias.data = torch.tensor([1.0, -1.0])
machine.infer()
"""


@pytest.mark.parametrize(("given", "told"), [("", ["move-inputs"]), ('device=torch.device("cpu")', [])])
def test_a_device_that_a_call_makes_is_not_none(given: str, told: list[str]) -> None:
    assert codemods(MACHINE.replace("GIVEN", given)) == told


WRITTEN = '''
def validate(x, logger=None):
    """
    logger: TOLD
    """
    x = x.to(device)
    logger.log_images(x, torch.ones(3))
'''


@pytest.mark.parametrize(
    ("told", "found"), [("a TensorBoard logger", []), ("a float tensor", ["place-factory"])]
)
def test_tensorboard_is_no_tensor(told: str, found: list[str]) -> None:
    assert codemods(CHOSEN + WRITTEN.replace("TOLD", told)) == found


LABELLED = """
class Net(nn.Module):
    def __init__(self, labelled):
        super().__init__()
        self.labelled = labelled
        if labelled:
            self.embeddings = [nn.Embedding(9, 3)]
        if labelled:
            self.embeddings = STORED
    def forward(self, x, labels):
        if self.labelled:
            x = x + self.embeddings[0](labels)
        return x
"""


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("nn.ModuleList(self.embeddings)", []),
        ("self.embeddings + [nn.Embedding(9, 3)]", ["register-modules"]),
    ],
)
def test_a_list_that_becomes_a_module_list_on_one_path_is_registered(stored: str, told: list[str]) -> None:
    assert codemods(LABELLED.replace("STORED", stored)) == told


PREPROCESSED = """
from tools import preprocess
net = nn.Linear(3, 3).to(device)
def run(image):
    return net(preprocess(GIVEN))
"""


@pytest.mark.parametrize(("given", "told"), [("torch.ones(3).to(device)", []), ("image", ["move-inputs"])])
def test_what_is_prepared_of_what_was_moved_is_there(given: str, told: list[str]) -> None:
    assert codemods(CHOSEN + PREPROCESSED.replace("GIVEN", given)) == told


LATE_LIST = """
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.to(device)
        self.fill(device)
    def fill(self, device):
        self.parts = nn.LIST
        ADD
    def forward(self, x):
        return self.first(x)
"""


@pytest.mark.parametrize(
    ("made", "added", "told"),
    [
        ("ParameterList()", "pass", False),
        ("ModuleList()", "pass", False),
        ("ModuleDict()", "self.parts['a'] = nn.Linear(3, 3, device=device)", False),
        ("ParameterList()", "self.parts.append(nn.Parameter(torch.rand(3, device=device)))", False),
        ("ParameterList()", "self.parts.append(nn.Parameter(torch.rand(3)))", True),
        ("ParameterList()", "self.parts.extend([nn.Parameter(torch.rand(3)) for _ in range(2)])", True),
        ("ModuleList()", "self.parts.append(nn.Linear(3, 3))", True),
    ],
)
def test_an_empty_list_of_parts_is_nowhere(made: str, added: str, told: bool) -> None:
    assert ("reorder-to" in codemods(LATE_LIST.replace("LIST", made).replace("ADD", added))) is told


CHECKED = """
from checks import closure
class Kernel(nn.Module):
    def __init__(self, n, start=None):
        super().__init__()
        self.register_parameter(name="raw", parameter=nn.Parameter(torch.zeros(n)))
        self.constrain(start)
    def register_parameter(self, name, parameter):
        super().register_parameter(name, parameter)
    def constrain(self, start):
        if start.value is not None:
            self.check()
    def check(self, **values):
        for name in values:
            if name in self.priors:
                try:
                    prior.validate(closure(self))
                except ValueError:
                    pass
    def scaled(self, x: torch.Tensor):
        return torch.randn_like(self.raw).mul_(x.max(-1)[0])
"""


def test_a_module_that_may_be_moved_on_one_path_is_where_its_user_puts_it_on_the_others() -> None:
    assert "place-factory" not in codemods(CHECKED)


TOGETHER = """
from likelihoods import GaussianLikelihood, Marginal
def fit(x, device, dtype):
    likelihood = GaussianLikelihood(0.1).to(device=device, dtype=dtype)
    net = build(x).to(device)
    LOSS
    return loss(net(x))
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("loss = MarginalLikelihood(kind=2)", True),
        ("loss = MarginalLikelihood(likelihood=likelihood, model=net)", False),
        ("loss = MarginalLikelihood(model=net)", False),
        ("loss = MarginalLikelihood(kind=2)\n    loss = loss.to(device)", False),
    ],
)
def test_what_is_made_of_modules_that_are_moved_has_nothing_of_its_own_to_move(made: str, told: bool) -> None:
    assert ("module-never-moved" in codemods(TOGETHER.replace("LOSS", made))) is told


KEPT = """
class Layer(nn.Module):
    def __init__(self, n, device="cpu"):
        super().__init__()
        self.grid = nn.Parameter(torch.ones(n, device=device))
        self.n = n
        self.device = device
    def forward(self, x):
        x = torch.einsum("ij,k->ikj", x, torch.ones(self.n, device=self.device))
        return x * self.grid
class Net(nn.Module):
    def __init__(self, n, device="cpu"):
        super().__init__()
        self.layer = Layer(n)
        self.to(device)
    def forward(self, x):
        return self.layer(x)
net = Net(3, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
"""


def test_a_device_that_a_module_keeps_is_no_tensor() -> None:
    assert "register-buffer" not in codemods(KEPT)


WITH_FABRIC = """
from torch.utils.data import DataLoader
IMPORT
def validate(fabric: FABRIC, model: nn.Module, loader: DataLoader):
    for batch in loader:
        model(batch)
"""


@pytest.mark.parametrize(
    ("imported", "fabric", "told"),
    [
        ("import lightning as L", "L.Fabric", False),
        ("from lightning import Fabric", "Fabric", False),
        ("import accelerate", "accelerate.Accelerator", False),
        ("import lightning as L", "L.LightningModule", True),
    ],
)
def test_loaders_beside_what_places_them_are_placed(imported: str, fabric: str, told: bool) -> None:
    text = WITH_FABRIC.replace("IMPORT", imported).replace("FABRIC", fabric)
    assert ("move-inputs" in codemods(text)) is told


IN_ANY_CASE = """
def masked(s, n):
    if not torch.is_tensor(s):
        s = torch.tensor(s)
    return s.unsqueeze(0) * n
def discounted(reward: torch.Tensor, n: torch.Tensor):
    made = masked(reward.expand(4, 4), n)
    if KNOWN:
        made = torch.tensor([0.5, 0.25])
    return made
"""


@pytest.mark.parametrize(
    ("known", "told"),
    [("not torch.is_tensor(made)", False), ("not isinstance(n, torch.Tensor)", False), ("n is None", True)],
)
def test_what_is_no_tensor_has_no_device_yet(known: str, told: bool) -> None:
    assert ("place-factory" in codemods(IN_ANY_CASE.replace("KNOWN", known))) is told


ON_ANOTHER_PATH = """
def discounted(reward: torch.Tensor, known: bool):
    made = torch.ones(4, 4)
    if known:
        made = reward.expand(4, 4)
    return made
"""


def test_a_value_is_not_moved_to_its_own_device() -> None:
    found = devfix.fix(source=HEAD + ON_ANOTHER_PATH, settings=False, unsafe=True).files[0]
    assert "made.device" not in found.after.decode()


HELD = """
from torch import nn
class Interpolator(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell
    def forward(self, x):
        return x @ self.cell
"""
HOLDING = """
import torch
from torch import nn
from held import Interpolator
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.inner = Interpolator(torch.eye(3))
    def forward(self, x):
        return self.inner(x) * self.scale
net = Net().to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
"""


def test_a_constructor_does_not_place_by_its_own_parameters_which_are_moved_later(tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(HELD)
    (tmp_path / "net.py").write_text(HOLDING)
    fixed = devfix.fix(tmp_path / "net.py", settings=False, unsafe=True, cache=False)
    assert not fixed.files and [one.codemod for one in fixed.remaining] == ["place-factory"]


WEIGHTLESS = """
def compare(x, y):
    LAYER.cuda()(x, y)
"""


@pytest.mark.parametrize(
    ("layer", "told"), [("nn.CrossEntropyLoss()", False), ("nn.Bilinear(3, 3, 1)", True)]
)
def test_to_move_a_layer_without_tensors_needs_no_gpu(layer: str, told: bool) -> None:
    assert ("hard-coded-cuda" in codemods(WEIGHTLESS.replace("LAYER", layer))) is told


ANSWERED = """
import numpy as np
def same(x, y):
    x, y = x.cuda(), y.cuda()
    return np.all([ASKED])
"""


@pytest.mark.parametrize(
    ("asked", "told"),
    [("torch.allclose(x, y)", False), ("x.equal(y)", False), ("torch.isclose(x, y)", True)],
)
def test_what_is_answered_with_a_bool_is_nowhere(asked: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(ANSWERED.replace("ASKED", asked))) is told


PENALTY = """
class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.0]).requires_grad_()
    def forward(self, y):
        return torch.autograd.grad(y.sum(), [self.scale]GRADIENTS)
Penalty().to(device)(torch.ones(3, device=device))
"""


@pytest.mark.parametrize(("gradients", "told"), [("", False), (", [self.scale]", True)])
def test_gradients_are_asked_for_wherever_the_inputs_are(gradients: str, told: bool) -> None:
    assert ("register-buffer" in codemods(CHOSEN + PENALTY.replace("GRADIENTS", gradients))) is told


SHAPES = """
class Net(nn.Module):
    def encode(self, view):
        image = view["image"]
        return view.ASKED(torch.arange(image.shape[0]).flip(0))
    def forward(self, view):
        return self.encode(view)
"""


@pytest.mark.parametrize(("asked", "told"), [('get("shape", ', False), ("mul(", True)])
def test_what_is_asked_like_a_dict_is_no_tensor(asked: str, told: bool) -> None:
    assert bool(codemods(SHAPES.replace("ASKED(", asked))) is told


PLACED_STEP = """
import pytorch_lightning as pl
class Net(pl.LightningModule):
    def training_step(self, batch, index):
        images, names = batch
        with torch.cuda.amp.autocast():
            return self.net(GIVEN)
    def forward(self, images):
        with torch.cuda.amp.autocast():
            return self.net(images)
"""


@pytest.mark.parametrize("given", ["images", "names"])
def test_no_autocast_follows_a_part_of_a_batch_which_may_be_no_tensor(given: str) -> None:
    code = HEAD + PLACED_STEP.replace("GIVEN", given)
    fixed = devfix.fix(source=code, settings=False, unsafe=True, options=AUTOCASTS).files[0]
    assert fixed.after.count(b"device.type") == 1 and b"names.device" not in fixed.after


BY_INDEX = """
def scale(norms, n):
    mask = torch.ones(n).cuda()
    BEFORE
    return [torch.max(norms[i], mask) for i in range(n)]
"""


@pytest.mark.parametrize(
    ("before", "fixed"), [("pass", False), ("i = 0", False), ("torch.max(norms[n], mask)", True)]
)
def test_what_a_comprehension_binds_is_bound_there_only(before: str, fixed: bool) -> None:
    code = BY_INDEX.replace("BEFORE", before)
    text = devfix.fix(source=HEAD + code, settings=False, unsafe=True).text
    assert ("norms[" in text.partition("mask")[2].partition("\n")[0]) is fixed


OF_TYPE = """
class Agent:
    def __init__(self, options):
        self.options = options
        self.pi = torch.Tensor([3.14]).type(KIND)
    def scale(self, x):
        return x.cuda() * self.pi
"""


@pytest.mark.parametrize(("kind", "told"), [("self.options.dtype", False), ("torch.float64", True)])
def test_what_options_call_a_dtype_may_be_a_type_of_tensors(kind: str, told: bool) -> None:
    assert ("place-factory" in codemods(OF_TYPE.replace("KIND", kind))) is told


BY_DEFAULT = """
import matplotlib.pyplot as plt
data = torch.arange(10.0)
def plot(values=DEFAULT):
    plt.plot(values)
data = data.to(device)
plot()
"""


@pytest.mark.parametrize(("default", "told"), [("data", False), ("torch.ones(3, device=device)", True)])
def test_a_default_is_what_it_was_when_the_function_was_defined(default: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(CHOSEN + BY_DEFAULT.replace("DEFAULT", default))) is told


CODED = """
class Coder(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(3, 3), nn.Linear(3, 3)
        self.device = device
    def forward(self, x):
        return self.decode(PASSED)
    def decode(self, code):
        return self.decoder(code)
    def sample(self, code):
        code = code.to(self.device)
        return self.decoder(code)
"""


@pytest.mark.parametrize(("passed", "told"), [("self.encoder(x)", False), ("load(x)", True)])
def test_what_the_own_methods_pass_is_where_they_are(passed: str, told: bool) -> None:
    assert ("move-inputs" in codemods(CODED.replace("PASSED", passed))) is told


KEPT_ONCE = """
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.ones(3)
        self.first, self.tables = True, [torch.zeros(1)] * 2
    def forward(self, x):
        STEPS
        return x * KEPT
"""


@pytest.mark.parametrize(
    ("steps", "kept", "told"),
    [
        ("if self.first:\n            self.factor, self.first = self.factor.to(x.device), False", "self.factor", False),
        ("if len(x) > 1:\n            self.factor = self.factor.to(x.device)", "self.factor", True),
        ("if self.first:\n            self.factor, self.first = torch.zeros(3), False", "self.factor", True),
        ("t = self.tables[0]\n        if t.shape != x.shape:\n            t = self.tables[0] = x.detach()", "t", False),
        ("t = self.tables[0]\n        if x.shape[0] > 1:\n            t = self.tables[0] = x.detach()", "t", True),
    ],
)  # fmt: skip
def test_what_is_replaced_until_it_fits_is_never_met_before(steps: str, kept: str, told: bool) -> None:
    assert ("register-buffer" in codemods(KEPT_ONCE.replace("STEPS", steps).replace("KEPT", kept))) is told


BY_RANK = """
class Trainer:
    def __init__(self, net, rank):
        self.device = DEVICE
        self.net = net.to(self.device)
    def step(self, x):
        x = x.to(self.device)
        with torch.cuda.amp.autocast():
            return self.net(x)
"""


@pytest.mark.parametrize(
    ("device", "told"), [('f"cuda:{rank}"', False), ('"cuda:{}".format(rank)', False), ("rank", True)]
)
def test_an_autocast_for_cuda_follows_a_gpu_by_its_number(device: str, told: bool) -> None:
    assert ("normalize-device-type" in codemods(BY_RANK.replace("DEVICE", device), AUTOCASTS)) is told


ENTERED = """
def run(net, x, device):
    x = x.to(device)
    with CONTEXTS:
        return net(x)
"""


@pytest.mark.parametrize(
    ("contexts", "told"),
    [
        ("torch.cuda.amp.autocast() and torch.no_grad()", False),
        ("torch.no_grad() and torch.cuda.amp.autocast()", True),
        ("torch.cuda.amp.autocast(), torch.no_grad()", True),
    ],
)
def test_of_two_contexts_joined_by_and_the_last_one_is_entered(contexts: str, told: bool) -> None:
    code = ENTERED.replace("CONTEXTS", contexts)
    assert ("normalize-device-type" in codemods(code, AUTOCASTS)) is told


BUILDING = """
def width_of(body: nn.Module):
    return body(torch.zeros(1, 3, 8, 8)).shape[1]
def mask_of(degrees: torch.Tensor):
    return torch.arange(3) >= degrees
class Net(nn.Module):
    def __init__(self, kind, degrees):
        super().__init__()
        self.body = load(kind)
        self.head = nn.Linear(width_of(self.body), 3)
        self.register_buffer("mask", mask_of(degrees))
    def forward(self, x):
        return self.head(self.body(x)) * self.mask
net = Net("small", load("degrees"))
net.to(device)
"""


@pytest.mark.parametrize(
    ("call", "told"), [("", False), ("width_of(net)\n", True), ("mask_of(net.mask)\n", True)]
)
def test_what_constructors_alone_call_runs_before_anything_is_moved(call: str, told: bool) -> None:
    assert bool(codemods(CHOSEN + BUILDING + call)) is told


PLACED_ENTRIES = """
def test(loader: torch.utils.data.DataLoader, net, options):
    net = net.cuda()
    for images, meta in loader:
        if options.gpus:
            images = images.cuda()
            for key, value in meta.items():
                STEP
        net(images, meta["boxes"])
"""


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("meta[key] = meta[key] if isinstance(value, str) else value.cuda()", False),
        ("if not isinstance(value, str):\n                    meta[key] = value.cuda()", False),
        ("print(value)", True),
    ],
)
def test_a_loop_that_moves_some_entries_leaves_it_open_which(step: str, told: bool) -> None:
    assert ("move-inputs" in codemods(PLACED_ENTRIES.replace("STEP", step))) is told


FOR_CUDA = """import torch
CHECK
def run(net, x, device):
    x = x.to(device)
    with torch.cuda.amp.autocast():
        return net(x)
"""


@pytest.mark.parametrize(("check", "told"), [("assert torch.cuda.is_available()", False), ("", True)])
def test_no_autocast_follows_data_where_the_program_needs_cuda(
    check: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "run.py").write_text(FOR_CUDA.replace("CHECK", check))
    found = devfix.check(tmp_path, settings=False, cache=False, options=AUTOCASTS).findings
    assert ("normalize-device-type" in {one.codemod for one in found}) is told


SAMPLED = """
import types
state = types.SimpleNamespace()
state.rows = read()

class Sampler(nn.Module):
    def forward(self, out: torch.Tensor):
        return sample(SOURCE)

@torch.no_grad()
def sample(out):
    return torch.softmax(out, dim=-1).numpy()

sampler = Sampler().to(device)
"""


@pytest.mark.parametrize(("source", "told"), [("out[0]", True), ("state.rows.kept[0]", False)])
def test_a_part_of_something_unknown_is_not_said_to_be_on_a_device(source: str, told: bool) -> None:
    assert ("numpy-of-device" in codemods(CHOSEN + SAMPLED.replace("SOURCE", source))) is told


DATA_SET = """
from torch.utils.data import DataLoader, Dataset, TensorDataset
class Pairs(Dataset):
    def __init__(self, x):
        self.x = x
    def __getitem__(self, i):
        return self.x[i]
    def __len__(self):
        return len(self.x)
given = torch.ones(4, 4)
loader = DataLoader(SET, num_workers=2)
net = nn.Linear(4, 4).to(device)
for x in loader:
    net(x.to(device))
net(given)
"""


@pytest.mark.parametrize("made", ["Pairs(given)", "TensorDataset(given)", "given", "Pairs(x=given)"])
def test_what_a_data_set_is_made_of_is_moved_where_it_is_used(made: str) -> None:
    """Workers of a loader cannot use CUDA."""
    source = HEAD + CHOSEN + DATA_SET.replace("SET", made)
    fixed = devfix.fix(source=source, unsafe=True).text
    assert "given = torch.ones(4, 4)\n" in fixed and "net(given.to(device))" in fixed


TWO_CLASSES = """
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
    def forward(self, x):
        return self.body(x)
class Judge(Maker):
    pass
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)
    def forward(self, x):
        return self.head(x)
a, b, c = Maker(), Judge(), Other()
for model in MOVED:
    model.to(device)
x = torch.ones(4, 4, device=device)
print(c(b(a(x))))
"""


@pytest.mark.parametrize(
    ("moved", "told"),
    [("[a, b, c]", 0), ("(c, b, a)", 0), ('{"a": a, "b": b, "c": c}.values()', 0), ("[a, b]", 1)],
)
def test_a_loop_moves_modules_of_several_classes(moved: str, told: int) -> None:
    assert len(codemods(CHOSEN + TWO_CLASSES.replace("MOVED", moved))) == told


OWN_TO = """
class Process(nn.Module):
    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule
        self.last = schedule[-1]
        self.register_buffer("eye", torch.eye(4))
    def to(self, SIGNATURE):
        MOVES
        return super().to(GIVEN)
    def sample(self):
        return (torch.randn(2, 4, device=self.schedule.device) * self.last) @ self.eye
print(Process(torch.ones(4)).to(device).sample())
"""


@pytest.mark.parametrize(
    ("signature", "given"), [("*args, **kwargs", "*args, **kwargs"), ("device", "device")]
)
@pytest.mark.parametrize(("moves", "told"), [("self.schedule = self.schedule.to(GIVEN)", 0), ("print()", 1)])
def test_a_module_may_move_more_than_what_is_registered(
    signature: str, given: str, moves: str, told: int
) -> None:
    source = OWN_TO.replace("MOVES", moves).replace("SIGNATURE", signature).replace("GIVEN", given)
    assert len(codemods(CHOSEN + source)) >= told
    assert told or not codemods(CHOSEN + source)


IN_PLACE = """
class Stack(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleList()
        self.layers += [nn.Linear(4, 4)]
        for _ in range(n):
            self.layers += [nn.Linear(4, 4), nn.ReLU()]
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
net = Stack(2).to(device)
print(net(torch.ones(2, 4).to(device)))
"""


def test_a_module_list_that_is_added_to_stays_one() -> None:
    assert not codemods(CHOSEN + IN_PLACE)
    assert codemods(CHOSEN + IN_PLACE.replace("nn.ModuleList()", "[]"))


def test_a_cuda_that_is_bound_again_is_that_of_a_tensor() -> None:
    source = "class A:\n    def f(self, x):\n        self.ids = self.ids.cuda(cuda_device=0)\n"
    assert "has no parameter" in devfix.check(source=HEAD + source).findings[0].message


@pytest.mark.parametrize(
    ("receiver", "told"),
    [("net", 1), ("nn.Linear(2, 2)", 1), ('Trainer(net).build("Adam").set(2)', 0), ("Trainer(net)", 0)],
)
def test_a_cuda_of_something_out_of_sight_may_take_anything(receiver: str, told: int) -> None:
    source = f"from zoo import Trainer\ndef f(net):\n    return {receiver}.cuda(devices=[0, 1])\n"
    assert (
        sum("has no parameter" in one.message for one in devfix.check(source=HEAD + source).findings) == told
    )


@pytest.mark.parametrize("wrapper", ["DataParallel", "parallel.DistributedDataParallel"])
@pytest.mark.parametrize("given", ["net", "module=net", "module=net, device_ids=[0]"])
def test_what_is_wrapped_is_where_it_was(wrapper: str, given: str) -> None:
    source = f"""
net = nn.Linear(4, 4).to(device)
net = nn.{wrapper}({given})
print(net(torch.ones(2, 4).to(device)))
"""
    assert not codemods(CHOSEN + source)


LISTS = """
class Neck(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
    def forward(self, data):
        found = [torch.zeros(4).put_(READ, torch.ones(2)) for label in data["labels"]]
        return self.body(data["x"]), found
"""


@pytest.mark.parametrize(
    ("read", "told"), [('torch.LongTensor(label["at"])', 0), ('torch.from_numpy(data["x"].numpy())', 1)]
)
def test_what_makes_a_tensor_mostly_gets_lists(read: str, told: int) -> None:
    found = codemods(CHOSEN + LISTS.replace("READ", read))
    assert ("numpy-of-device" in found) == bool(told)


def test_settings_have_parts_that_are_called_like_methods_of_modules() -> None:
    source = """
def check(args):
    assert args.eval.steps % args.train.steps == 0
    if args.device == "gpu":
        print(torch.cuda.is_available())
"""
    assert not codemods(HEAD + source)


def test_an_attribute_by_name_is_no_new_module() -> None:
    source = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x)
    def fill(self, other):
        copy(self, other)
def copy(mine, other):
    for name, part in mine.named_children():
        source = getattr(other, name)
        for a, b in zip(part.named_parameters(), source.named_parameters()):
            if not torch.equal(a[1].data, b[1].data):
                a[1].data.copy_(b[1].data)
"""
    assert not codemods(HEAD + source)


FIXTURES = """
import pytest
@pytest.fixture(scope="module")
def model():
    GIVES nn.Linear(4, 4)MOVED
def test_shape(model):
    x = torch.zeros(2, 4)
    assert model(x).shape == (2, 4)
"""


@pytest.mark.parametrize("gives", ["return", "yield"])
@pytest.mark.parametrize(("moved", "told"), [("", 0), (".to(device)", 1), (".cuda()", 1)])
def test_a_test_gets_the_results_of_fixtures(gives: str, moved: str, told: int) -> None:
    source = FIXTURES.replace("MOVED", moved).replace("GIVES", gives)
    assert codemods(CHOSEN + source).count("move-inputs") == told


def test_the_local_name_of_another_function_is_no_device_here() -> None:
    source = """
def encode(text):
    config = {"device": "cpu"}
    return torch.ones(4).to(config["device"])
def run(net):
    return net(encode("a").to(device))
net = nn.Linear(4, 4)
print(net(encode("a").to("cuda")))
"""
    fixed = devfix.fix(source=HEAD + source, unsafe=True).text
    assert fixed.count("config") == source.count("config")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("np.histogram(x[:, 0], 5, weights=x[:, 1])", 2),
        ("np.average(y, weights=x[:, 1])", 1),
        ("train_test_split(x, y)", 0),
        ("sklearn.metrics.accuracy_score(y, x[:, 0])", 1),
    ],
)
def test_what_functions_read_as_arrays(line: str, told: int) -> None:
    source = f"""
import numpy as np
import sklearn.metrics
from sklearn.model_selection import train_test_split
x, y = torch.rand(8, 2).to(device), np.ones(8)
print({line})
"""
    assert codemods(CHOSEN + source).count("numpy-of-device") == told


@pytest.mark.parametrize(("asked", "told"), [("x.is_cuda", 0), ("x.dim() > 2", 1)])
def test_a_type_of_the_cpu_below_the_question_for_cuda(asked: str, told: int) -> None:
    source = f"""
def backward(x, y):
    net = nn.Linear(4, 4).to(x.device)
    if {asked}:
        return net(x)
    elif x.type() == "torch.DoubleTensor":
        return x + y
"""
    assert codemods(HEAD + source).count("device-comparison") == told


def test_what_follows_the_device_of_something_unknown_is_not_known_to_be_on_one() -> None:
    source = """
from shapes import load
def adjacency(edges):
    a = torch.zeros((4, 4), device=edges.device)
    a[edges[0], edges[1]] = 1
    return a
graph = load("club")
print(adjacency(graph.edges).view(1, 4, 4)[0].numpy())
"""
    assert not codemods(HEAD + source)


@pytest.mark.parametrize(("key", "told"), [("0", 0), ('"a"', 1)])
def test_modules_that_are_placed_one_by_one_in_a_dict_by_numbers(key: str, told: int) -> None:
    source = f"""
class Loss(nn.Module):
    def __init__(self, n, device):
        super().__init__()
        self.parts = {{}}
        self.parts[{key}] = nn.Linear(4, 4).to(device)
    def forward(self, x, n):
        return self.parts[{key}](x)
"""
    assert codemods(HEAD + source).count("register-modules") == told


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        ("x, y = x.to(device), y.to(device)", 0),
        ("x = torch.stack(x).to(device)", 0),  # they are lists
        ("x = x.to(device)", 1),
    ],
)
def test_who_moves_two_parts_of_a_batch_leaves_the_others_on_purpose(moved: str, told: int) -> None:
    source = f"""
from torch.utils.data import DataLoader
from data import Images, collate
def fit(net):
    net.to(device)
    for x, y, ids in DataLoader(Images(), batch_size=4, collate_fn=collate):
        {moved}
        net.train()
        print(net(x, y, ids))
"""
    assert bool(codemods(CHOSEN + source)) == bool(told)


@pytest.mark.parametrize(
    ("logits", "told"), [("logits=net(x) / 2", 0), ("net(x)", 0), ("logits=torch.ones(2, 3)", 1)]
)
def test_a_distribution_samples_where_what_it_is_given_is(logits: str, told: int) -> None:
    source = f"""
from zoo import net
x = torch.ones(2, 3, device="cuda")
mask = torch.rand(2, device="cuda") < 1
new = torch.distributions.Categorical({logits}).sample()
print(x[mask] + new[mask])
"""
    assert codemods(HEAD + source).count("place-factory") == told


def test_what_a_public_method_makes_anew_is_not_what_the_constructor_made() -> None:
    source = """
class Scheduler:
    def __init__(self, n):
        self.set_timesteps(n)
    def set_timesteps(self, n, device=None):
        self.timesteps = torch.arange(n).to(device=device)
        self.sigmas = torch.from_numpy(np.linspace(0, 1, n)).to(device=device)
    def index(self, timestep: torch.Tensor):
        return (self.timesteps == timestep).nonzero()
    def step(self, out: torch.Tensor, timestep: torch.Tensor, sample: torch.Tensor):
        return sample + out * self.sigmas[self.index(timestep)]
"""
    assert not codemods(HEAD + "import numpy as np\n" + source)


@pytest.mark.parametrize(("coder", "told"), [("coder", 0), ("zoo.Coder()", 1), ("zoo", 1)])
def test_what_somebody_hands_over_may_put_what_it_makes_of_an_array_on_a_device(
    coder: str, told: int
) -> None:
    source = f"""
import numpy as np
import zoo
class Policy:
    def __init__(self, net, coder, device):
        self.net, self.device, self.coder = net.to(device), device, {coder}
    def score(self, path, states):
        actions = self.coder.encode(np.load(path)).unsqueeze(-1)
        return torch.gather(self.net(states.to(self.device)), 1, actions)
"""
    assert codemods(HEAD + source).count("move-inputs") == told


@pytest.mark.parametrize(("lengths", "told"), [("lengths", 0), ("(y != 0).sum(1)", 1)])
def test_what_a_module_gives_as_lengths_may_be_a_list(lengths: str, told: int) -> None:
    source = f"""
from torch.nn.utils.rnn import pack_padded_sequence
class Trainer:
    def __init__(self, decoder: nn.Module):
        self.decoder = decoder.to(device)
    def step(self, x):
        y, lengths = self.decoder(x.to(device))
        return pack_padded_sequence(y, {lengths}, batch_first=True)
"""
    assert codemods(HEAD + CHOSEN + source).count("lengths-on-cpu") == told


@pytest.mark.parametrize(
    ("use", "told"), [("net(kept.to(device))", 0), ("net(kept).to(device)", 1), ("kept.to(rows)", 1)]
)
def test_a_result_that_goes_to_a_device_where_it_is_used_was_on_the_cpu(use: str, told: int) -> None:
    source = f"""
def features(net: nn.Module, rows: torch.Tensor, device):
    net = net.to(device)
    kept = torch.empty(0, 3)
    for one in range(3):
        chosen = rows.nonzero()[one]
        kept = torch.cat([kept, rows[one:]])
        print({use})
"""
    assert codemods(HEAD + source).count("place-factory") == told


def test_a_batch_is_nothing_that_is_made_where_its_loader_is_asked() -> None:
    """A safe fix wrote `next(iter(loader).to(device))`, so that a table and the batch that it meets are together."""
    source = """
from torch.utils.data import DataLoader
TABLE = torch.linspace(0, 1, 300)
def first(data):
    loader = DataLoader(data, batch_size=8)
    pictures, labels = next(iter(loader))
    return pictures, labels
def scaled(x, t, table, device):
    noise = torch.randn(size=x.shape)
    return (table[t].reshape(-1, 1) * x + noise).to(device)
pictures, labels = first(torch.load("data.pt"))
print(scaled(torch.stack([pictures[0]] * 8), torch.randint(0, 300, (8,)), TABLE, device))
def train(one, table, device):
    return scaled(one.to(device), torch.randint(0, 300, (8,)).to(device), table, device)
train(pictures[0], TABLE, device)
"""
    assert (
        "iter(loader).to" not in devfix.fix(source=HEAD + CHOSEN + source, unsafe=True, settings=False).text
    )


@pytest.mark.parametrize(("x", "told"), [("x.to(device)", 0), ("x.clone()", 1)])
def test_a_data_set_may_hold_what_was_moved(x: str, told: int) -> None:
    source = f"""
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y.long()
    def __getitem__(self, i):
        return {{"x": self.x[i, :], "y": self.y[i]}}
class Classifier:
    def __init__(self, x: torch.Tensor):
        self.x = {x}
        self.model = nn.Linear(8, 3).to(device)
    def fit(self):
        for batch in DataLoader(Rows(self.x, self.x), batch_size=4):
            print(self.model(batch["x"]))
"""
    assert codemods(HEAD + CHOSEN + source).count("move-inputs") == told


@pytest.mark.parametrize(("base", "told"), [("pl.LightningModule", 0), ("nn.Module", 0), ("object", 2)])
def test_what_a_framework_places_may_be_a_part_of_what_it_places(base: str, told: int) -> None:
    """A safe fix moved a layer of the inner module in its constructor."""
    source = f"""
import pytorch_lightning as pl
class Inner({base}):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10)
class Whole(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def test_step(self, batch, i):
        words = torch.LongTensor([[0]] * 3).to(device)
        return self.inner.head(self.inner.embed(words).squeeze(1))
"""
    assert codemods(HEAD + CHOSEN + source).count("module-never-moved") == told


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("torch.FloatTensor", 1),
        ('"torch.FloatTensor"', 1),
        ("torch.float32", 0),
        ("torch.cuda.FloatTensor", 0),
        ("x.type()", 0),
    ],
)
def test_an_old_type_of_tensors_brings_a_value_to_its_own_place(kind: str, told: int) -> None:
    source = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x, goal):
        goal = goal.repeat(x.shape[0], 1).type({kind})
        return self.fc(goal) + x
net = Net().to(device)
print(net(torch.zeros(3, 2, device=device), torch.zeros(4, device=device)))
"""
    found = devfix.fix(source=HEAD + CHOSEN + source, unsafe=True, settings=False)
    assert ("self.fc(goal.to(x.device))" in found.text) is bool(told)
    assert codemods(HEAD + CHOSEN + source).count("place-factory") == told


@pytest.mark.parametrize(("given", "told"), [("3, device", 0), ("3, DEVICE", 0), ("3", 1)])
def test_a_data_set_out_of_sight_that_is_told_a_device_may_place_its_items(given: str, told: int) -> None:
    source = f"""
from torch.utils.data import DataLoader
from zoo import Rows
DEVICE = device
model = nn.Linear(8, 3).to(device)
rows = Rows({given})
for x, y in DataLoader(rows, batch_size=4):
    print(model(x))
"""
    assert codemods(HEAD + CHOSEN + source).count("move-inputs") == told


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ('device = "cuda" if torch.cuda.is_available else "cpu"\nnet.to(device)', Safety.SAFE),
        ('d = torch.device("cuda:0" if torch.cuda.is_available else "cpu")\nnet = net.to(d)', Safety.SAFE),
        ('device = "cuda" if torch.cuda.is_available else "cpu"\ndef f(x):\n    x.to(device)', Safety.UNSAFE),
        ('device = "cuda" if torch.cuda.is_available else "cpu"\nprint(device)', Safety.UNSAFE),
        (
            'device = torch.device(wanted if torch.cuda.is_available else "cpu")\nnet.to(device)',
            Safety.UNSAFE,
        ),
        ("if torch.cuda.is_available:\n    print(1)", Safety.UNSAFE),
        ("while wanted and not torch.cuda.is_available:\n    wait()", Safety.UNSAFE),
        ("use_cuda = wanted and torch.cuda.is_available", Safety.UNSAFE),
        ("use_cuda = torch.cuda.is_available and wanted", Safety.UNSAFE),
        ("asked = wanted and torch.cuda.is_available\nasked()", None),
        ("asked = wanted or torch.cuda.is_available", None),
        ("ask(torch.cuda.is_available)", None),
        ("if torch.distributed.is_available:\n    print(1)", None),
        ("if torch.cuda.is_available():\n    print(1)", None),
    ],
)
def test_a_question_that_is_not_asked_is_always_true(line: str, fix: Safety | None) -> None:
    code = f"{HEAD}from here import wanted, wait, ask\nnet = nn.Linear(2, 2)\n{line}\n"
    found = [one for one in devfix.check(source=code, settings=False).findings if "not called" in one.message]
    assert [one.safety for one in found] == ([] if fix is None else [fix])
    fixed = devfix.fix(source=code, settings=False, unsafe=True)
    assert fixed.text.replace("is_available()", "is_available") == code.replace(
        "is_available()", "is_available"
    )
    assert fixed.text.count("is_available()") == code.count("is_available()") + (fix is not None)


RUNNER = """
from BASE
class Run(Runner):
    def predict_batch(self, batch):
        batch = {k: v.to(self.engine.device) for k, v in batch.items()}
        return self.model(batch)
    def handle_batch(self, batch):
        self.loss = self.criterion(self.model(batch), batch)
"""


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ("catalyst.dl import Runner", False),
        ("catalyst.dl import SupervisedRunner as Runner", False),
        ("here import Runner", True),
    ],
)
def test_a_runner_that_moves_its_batches_gives_them_where_they_belong(base: str, told: bool) -> None:
    assert ("move-inputs" in codemods(RUNNER.replace("BASE", base))) is told


MINED = """
from pytorch_metric_learning import losses, miners
class Angular(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = MAKER
    def forward(self, rows: torch.Tensor, others: torch.Tensor, labels, pairs):
        mine = torch.tensor([labels[i] for i in pairs[0]])
        theirs = torch.tensor([labels[i] for i in pairs[1]])
        return self.loss(rows[pairs[0]], mine, ref_emb=others[pairs[1]], ref_labels=theirs)
"""


@pytest.mark.parametrize(
    ("maker", "told"),
    [
        ("losses.AngularLoss()", False),
        ("losses.NTXentLoss(temperature=0.1)", False),
        ("miners.MultiSimilarityMiner()", False),
        ("nn.CrossEntropyLoss()", True),
    ],
)
def test_a_loss_that_moves_its_labels_takes_them_from_anywhere(maker: str, told: bool) -> None:
    code = MINED.replace("MAKER", maker)
    if told:
        code = code.replace(", ref_emb=others[pairs[1]], ref_labels=theirs", "")
    assert bool(codemods(code)) is told


FOLLOWED = """
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)
        self.running, self.other = {}, {}
        self.start()
    def start(self):
        for name, p in self.net.named_parameters():
            zero = torch.zeros_like(p)
            device = p.device
            self.running[name] = zero.clone().to(device)
            self.other[name] = zero.clone().to(device)
    def update(self):
        for name, p in self.net.named_parameters():
            CALL
            self.running[name] = 0.9 * p.grad.detach().pow(2) + self.running[name]
    def follow(self, name, p):
        device = p.device
        def there(t):
            return t.to(device) if t.device != device else t
        STEPS
learner = Learner().cuda()
learner.net(torch.ones(3, 4).cuda()).sum().backward()
learner.update()
"""
IF_THERE = """if name in self.KEPT:
            self.KEPT[name] = there(self.KEPT[name])"""


@pytest.mark.parametrize(
    ("call", "steps", "told"),
    [
        ("self.follow(name, p)", IF_THERE.replace("KEPT", "running"), False),
        ("self.follow(name, p)", IF_THERE.replace("KEPT", "other"), True),
        ("self.follow(name, p)", "if self.net:\n            pass", True),
        ("pass", IF_THERE.replace("KEPT", "running"), True),
    ],
)
def test_a_method_that_moves_an_entry_if_there_is_one_has_moved_it(call: str, steps: str, told: bool) -> None:
    code = FOLLOWED.replace("CALL", call).replace("STEPS", steps)
    assert ("register-buffer" in codemods(code)) is told


def test_a_method_that_is_called_too_often_to_be_followed_may_have_moved_an_entry() -> None:
    often = "    def warm(self):\n        for name, p in self.net.named_parameters():\n"
    often += "            self.follow(name, p)\n" * 14
    code = FOLLOWED.replace("CALL", "self.follow(name, p)").replace(
        "STEPS", IF_THERE.replace("KEPT", "running")
    )
    assert codemods(code.replace("    def update", f"{often}    def update")) == []


SAMPLES = """
from torch.utils.data import DataLoader
from here import put, Sample
def padded(x):
    return torch.cat([x, torch.ones(1, 4, device="cuda")])
def train(rows):
    device = torch.cuda.current_device()
    net = nn.Linear(4, 2).to(device)
    for sample in DataLoader(rows, collate_fn=Sample.of):
        MOVE
        net(padded(sample.x))
"""


@pytest.mark.parametrize(
    ("move", "told"),
    [
        ("sample.to_device(device)", False),
        ("sample.send(torch.device('cuda'))", False),
        ("sample.place(where=device)", False),
        ("sample.to_device('cpu')", True),
        ("sample.shuffle(3)", True),
        ("moved = sample.to_device(device)", True),
        ("put(3)", True),
    ],
)
def test_an_object_of_a_loader_moves_what_it_holds_by_a_method_of_its_own(move: str, told: bool) -> None:
    assert ("move-inputs" in codemods(SAMPLES.replace("MOVE", move))) is told


@pytest.mark.parametrize(
    ("size", "told"), [("batch_size=None", False), ("None", False), ("batch_size=4", True), ("4", True)]
)
def test_without_a_batch_size_items_are_as_the_data_set_has_them(size: str, told: bool) -> None:
    code = ITEMS.replace("collate_fn=COLLATE", size)
    assert ("move-inputs" in codemods(code)) is told


CAST = """
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
net.double()
TYPE
print(net(torch.ones(1, 4).GIVEN))
"""


@pytest.mark.parametrize(
    ("typed", "given", "told"),
    [
        ("net.type(torch.cuda.FloatTensor)", "cuda()", False),
        ("net = net.type(torch.cuda.FloatTensor)", "type(torch.cuda.FloatTensor)", False),
        ("net.type('torch.cuda.FloatTensor')", "cuda()", False),
        ("dtype = torch.cuda.FloatTensor\nnet.type(dtype)", "type(dtype)", False),
        ("net.type(torch.cuda.FloatTensor if wide else torch.FloatTensor)", "cuda()", False),
        ("net.type(torch.FloatTensor)", "cuda()", True),
        ("net.cuda().type(torch.FloatTensor)", "cuda()", True),
        ("net.type(torch.float32)", "cuda()", True),
        ("net.cuda().type(torch.float32)", "float()", True),
    ],
)
def test_an_old_type_moves_a_module(typed: str, given: str, told: bool) -> None:
    found = codemods(CAST.replace("TYPE", typed).replace("GIVEN", given))
    assert bool({"move-inputs", "module-never-moved"} & set(found)) is told


ONE_GPU = """
def run(loader, rank: int):
    model = nn.Linear(4, 2).to(rank)
    model = WRAPPED
    for x, y in loader:
        print(nn.functional.cross_entropy(model(x.to(rank)), y))
run(torch.utils.data.DataLoader([(torch.ones(4), 1)] * 4), torch.cuda.current_device())
"""


@pytest.mark.parametrize(
    "wrapped",
    [
        "nn.parallel.DistributedDataParallel(model, device_ids=[rank])",
        "nn.DataParallel(model, device_ids=[rank])",
        "nn.DataParallel(model, [rank])",
        "nn.DataParallel(model)",
    ],
)
def test_what_a_wrapped_model_gives_is_where_the_model_was_moved(wrapped: str) -> None:
    assert "move-inputs" in codemods(ONE_GPU.replace("WRAPPED", wrapped))


WRAPPED = """
def wrapped(model, flag, device):
    WRAP
    return model
def run(loader, device, flag):
    model = wrapped(nn.Linear(4, 2), flag, device)
    for x, y in loader:
        print(nn.functional.cross_entropy(model(x), y.to(device)))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
run(torch.utils.data.DataLoader([(torch.ones(4), 1)] * 4), device, flag=input())
"""


@pytest.mark.parametrize(
    ("wrap", "told"),
    [
        ("if device.type == 'cuda':\n        model = nn.DataParallel(model).cuda()", False),
        ("if flag:\n        model = nn.DataParallel(model)\n        model.to(device)", False),
        ("if flag:\n        model.to(device)\n        model = nn.DataParallel(model)", False),
        ("model = nn.DataParallel(model, [0])", False),
        ("model = nn.DataParallel(model, device_ids=[0])", False),
        ("model.to(device)\n    if flag:\n        model = nn.DataParallel(model)", True),
        ("if flag:\n        model = nn.DataParallel(model)\n    model.to(device)", True),
        (
            "if flag:\n        model = nn.DataParallel(model).to(device)\n    else:\n        model.to(device)",
            True,
        ),
    ],
)
def test_wrappers_move_inputs_on_each_path_on_which_the_model_is_moved(wrap: str, told: bool) -> None:
    assert ("move-inputs" in codemods(WRAPPED.replace("WRAP", wrap))) is told


METRIC = """
from torchmetrics.detection import NAME
def evaluate(model, loader, device):
    model.to(device)
    metric = NAME()
    for x, y in loader:
        y = [{k: v.to(device) for k, v in one.items()} for one in y]
        found = [{k: v.to("cpu") for k, v in one.items()} for one in model(x.to(device))]
        metric.update(found, y)
        metric.cpu()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
evaluate(nn.Linear(2, 2), input(), device)
"""


@pytest.mark.parametrize(("name", "told"), [("MeanAveragePrecision", False), ("IntersectionOverUnion", True)])
def test_a_metric_that_only_keeps_what_it_gets(name: str, told: bool) -> None:
    assert bool({"module-never-moved", "place-factory"} & set(codemods(METRIC.replace("NAME", name)))) is told
