"""What all calls in view keep on the CPU needs no move, whatever a parameter is called."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from devfix.findings import Safety

SKELETON = """
import torch

class Skeleton:
    def __init__(self, offsets, device):
        self.device = device
        self.offsets = offsets.clone().to(device)
    def scaled(self, joints):
        joints = torch.from_numpy(joints)
        return joints[:, 0].norm(dim=1) * self.offsets
"""
MOTION = """
import torch
from skeleton import Skeleton

def process(path):
    def lengths(joints):
        return Skeleton(torch.ones(3), {}).scaled(joints)
    return lengths(read(path))
"""
PLOT = """
import torch

def plot(field, device{}):
    mesh = torch.ones(4, 2)
    if device is not None:
        mesh = mesh.to(device)
    return mesh.numpy(), field

def main(args):
    plot(3{})
"""
ANGLES = """
import torch

def angles(positions: torch.Tensor):
    steps = torch.arange(3.0)
    return positions * steps
"""
TRAIN = """
import torch
from angles import angles

def train(net, device):
    print(angles(torch.ones(3){}))
"""


def told(folder: Path, codemod: str, **files: str) -> bool:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    found = devfix.check(folder, cache=False, settings=False).findings
    return any(one.codemod == codemod for one in found)


@pytest.mark.parametrize(("device", "tells"), [("'cpu'", False), ("'cuda'", True), ("choose()", True)])
def test_a_device_that_all_objects_are_made_with(device: str, tells: bool, tmp_path: Path) -> None:
    files = {"skeleton": SKELETON, "motion": MOTION.format(device)}
    assert told(tmp_path, "move-inputs", **files) is tells


@pytest.mark.parametrize(
    ("default", "given", "tells"),
    [("=None", "", False), ("=None", ", args.device", True), ("='cuda'", "", True)],
)
def test_a_device_that_calls_leave_out(default: str, given: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "numpy-of-device", plots=PLOT.format(default, given)) is tells


@pytest.mark.parametrize(("move", "tells"), [(".to(device)", True), ("", False)])
def test_a_tensor_that_other_files_have_on_the_cpu(move: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "place-factory", angles=ANGLES, train=TRAIN.format(move)) is tells


PASSED_ON = """
import torch

def curve(points: torch.Tensor):
    return line(points).sin()

def line(points: torch.Tensor):
    return points * torch.arange(3.0)

def table(net, device):
    return net(curve(torch.ones(3){})), line(torch.ones(3))
"""


@pytest.mark.parametrize(("move", "tells"), [(".to(device)", True), ("", False)])
def test_what_calls_pass_on_is_where_their_callers_have_it(move: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "place-factory", table=PASSED_ON.format(move)) is tells


READ = """
from PIL import Image
from torchvision import transforms
from angles import angles

def steps(crop):
    made = [transforms.CenterCrop(4)] if crop else []
    return transforms.Compose([*made, transforms.ToTensor()])

def run(args, device):
    print(angles(steps(args.crop)(Image.open(args.image)){}))
"""


@pytest.mark.parametrize(("move", "tells"), [(".to(device)", True), ("", False)])
def test_what_is_only_likely_to_be_on_the_cpu(move: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "place-factory", angles=ANGLES, read=READ.format(move)) is tells


def test_the_tests_of_a_function_are_not_its_users(tmp_path: Path) -> None:
    """They pass what is on the CPU; those who use the function for their work need not."""
    ops = "import torch\n\n\ndef mask(x: torch.Tensor):\n    return x * torch.arange(len(x))\n"
    used = "import torch\nfrom ops import mask\n\n\ndef test_mask():\n    assert mask(torch.ones(3)).sum() == 3\n"
    assert told(tmp_path, "place-factory", ops=ops, test_ops=used)
    assert not told(tmp_path, "place-factory", ops=ops, program=used)


SHOWN = """
import torch
import torch.nn as nn

def show(images, maps):
    size = images.size(2)
    images = nn.Upsample(size=size)(images)
    images = images.data.numpy()
    return images, maps.cpu()
"""
SHOWING = """
from shown import show

def run(net, noise, batches, device):
    for images in batches:
        show(images[-1]{}, net)
    made, _ = net(noise)
    show(made[0].detach().cpu(), net)
"""


@pytest.mark.parametrize(
    ("move", "tells"), [(".cpu()", False), (".to('cpu')", False), (".to(device)", True), ("", True)]
)
def test_copies_on_the_cpu_of_what_is_not_known(move: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "numpy-of-device", shown=SHOWN, showing=SHOWING.format(move)) is tells


FLIP = """
import torch
from torchvision import transforms

class Mirror:
    def {method}(self, tensors):
        order = torch.arange(tensors[0].size(-1) - 1, -1, -1)
        return [one.index_select(-1, order) for one in tensors]

def collate(batch, mirrored):
    steps = [transforms.ToTensor()]
    if mirrored:
        {steps}
    return list(map(transforms.Compose(steps), batch))
"""


@pytest.mark.parametrize(
    ("method", "steps", "tells"),
    [
        ("__call__", "steps.append(Mirror())", False),
        ("__call__", "steps += [Mirror()]", False),
        ("__call__", "print(Mirror())", True),
        ("mirrored", "steps.append(Mirror())", True),
    ],
)
def test_a_step_of_several_that_prepare_data(method: str, steps: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "place-factory", flip=FLIP.format(method=method, steps=steps)) is tells


ONE_HOT = """
import torch
from torch import nn

class Smooth(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
    def forward(self, ids):
        return torch.zeros(len(ids), 3, device=self.device).scatter_(1, ids, 0.9)

class OneHot(nn.Module):
    def forward(self, ids: torch.Tensor):
        return torch.zeros(len(ids), 3).scatter_(1, ids, 1.0)
"""
PLAYS = """
import argparse
import torch
from hot import OneHot{more}

args = argparse.ArgumentParser().parse_args()
print(OneHot()({ids}))
"""


@pytest.mark.parametrize(
    ("ids", "more", "safe"),
    [
        ("torch.tensor([[1]])", "", False),
        ("torch.tensor([[1]]).to(args.device)", "", True),
        ("read(args)", "", False),
        ("read(args)", "\nfrom hot import Smooth\n\nSmooth(0).to(read())", True),
    ],
)
def test_what_no_program_gets_to_with_anything_that_is_moved(
    ids: str, more: str, safe: bool, tmp_path: Path
) -> None:
    (tmp_path / "hot.py").write_text(ONE_HOT)
    (tmp_path / "plays.py").write_text(PLAYS.format(ids=ids, more=more))
    every = devfix.check(tmp_path, cache=False, settings=False).findings
    levels = [one.safety for one in every if one.codemod == "place-factory"]
    assert levels == [Safety.SAFE] * safe


MASKS = """
import torch

def masks(ids, targets, args):
    inputs = (ids != 0).to(args.device)
    if targets is not None:
        outputs = (targets != 0).to(args.device)
        outputs = outputs & torch.from_numpy(read(targets) == 0).to(args.device)
    else:
        outputs = None
    return inputs, outputs
"""
DROPS = """
import torch
from masks import masks

def train(net, args, device):
    for batch in args.train:
        ids = batch.ids.transpose(0, 1).to(args.device)
        targets = batch.targets.transpose(0, 1).to(args.device)
        inputs, outputs = masks(ids, targets[:, :-1], args)
        outputs.to({})
        print(net(ids, inputs, outputs))
"""


@pytest.mark.parametrize(("device", "tells"), [("args.device", False), ("device", True)])
def test_a_dropped_move_of_what_is_there_where_it_is_anything(
    device: str, tells: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, "move-inputs", masks=MASKS, drops=DROPS.format(device)) is tells


LOADERS = """
import torch
from torch import nn
from data import Batches

def loaders(device, size):
    train_loader, test_loader = Batches.splits(size=size{told})
    return train_loader, test_loader

def check(device):
    net = nn.Linear(2, 2).to(device)
    train_loader, test_loader = {made}
    for x in test_loader:
        print(net(x))
"""


@pytest.mark.parametrize(
    ("given", "made", "tells"),
    [
        (", device=device", "loaders(device, 3)", False),
        ("", "Batches.splits(device, 3)", False),
        ("", "Batches.splits(size=3)", True),
    ],
)
def test_what_makes_a_loader_is_told_a_device(given: str, made: str, tells: bool, tmp_path: Path) -> None:
    assert told(tmp_path, "move-inputs", program=LOADERS.format(told=given, made=made)) is tells


SHAPED = """
import torch
from torch import nn

class Weights(nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.full((len(x), 3), 0.5)
"""
TRAINS = """
import argparse
import torch
from shaped import Weights

args = argparse.ArgumentParser().parse_args()
x = torch.ones(4, 3).to(args.device)
weights = Weights()(x)
{}
"""


@pytest.mark.parametrize(
    ("use", "tells"), [(None, True), ("", False), ("print(weights.tolist())", False), ("x * weights", True)]
)
def test_what_programs_do_with_a_result_tells_where_they_expect_it(
    use: str | None, tells: bool, tmp_path: Path
) -> None:
    (tmp_path / "shaped.py").write_text(SHAPED)
    if use is not None:
        (tmp_path / "train.py").write_text(TRAINS.format(use))
    every = devfix.check(tmp_path, cache=False, settings=False).findings
    assert [one.codemod for one in every] == ["place-factory"] * tells


MATRIX = """
import torch

def matrix(edges, sparse=False):
    if sparse:
        made = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1], device=edges.device), size=(3, 3))
    else:
        first, second = edges
        made = torch.zeros((3, 3), device=edges.device)
        made[first, second] = 1
    return made
"""
CLUB = """
import torch
from torch_geometric.datasets import KarateClub as Club
from made import matrix

club = Club()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(matrix({})[0].to_dense().numpy())
print(torch.nn.Linear(3, 3).to(device)(torch.ones(3, 3, device=device)))
"""


@pytest.mark.parametrize(("edges", "tells"), [("club.edges", False), ("club.edges.to(device)", True)])
def test_where_something_unknown_is_need_not_be_an_accelerator(
    edges: str, tells: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, "numpy-of-device", made=MATRIX, club=CLUB.format(edges)) is tells


BASE = """
import torch

class Trainer:
    def __init__(self, model, options):
        self.device = torch.device(options["device"])
        self.model = model.to(self.device)
    def fit(self, loader):
        for x, y in loader:
            self.step(x.to(self.device), y.to(self.device))
"""
TASK = """
import torch
import torch.nn.functional as F
from base import Trainer

class Task(Trainer):
    def __init__(self, model, options):
        super().__init__(model, options)
        self.weight = torch.ones(options["classes"])
    def step(self, x, y):
        return F.cross_entropy(self.model(x), y, weight=self.weight)
"""
RUN = """
import torch
from data import loader
from task import Task

if __name__ == "__main__":
    options = {"classes": 2, "device": "cuda" if torch.cuda.is_available() else "cpu"}
    Task(torch.nn.Linear(3, 2), options).fit(loader())
"""


def test_what_a_base_in_another_file_moves_is_moved(tmp_path: Path) -> None:
    assert told(tmp_path, "place-factory", base=BASE, task=TASK, run=RUN)


def test_a_device_that_is_refused_is_told_where_nothing_is_moved(tmp_path: Path) -> None:
    measure = (
        "import torch\n\n\ndef ratio(x, device):\n    return x / torch.Tensor([1.0, 2.0], device=device)\n"
    )
    main = "import argparse\nfrom measure import ratio\n\nargs = argparse.ArgumentParser().parse_args()\n"
    assert told(tmp_path, "place-factory", measure=measure, run=f"{main}print(ratio(args.x, args.device))\n")
