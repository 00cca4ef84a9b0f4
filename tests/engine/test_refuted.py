"""What all calls in view keep on the CPU needs no move, whatever a parameter is called."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest

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


def test_the_tests_of_a_function_are_not_its_users(tmp_path: Path) -> None:
    """They pass what is on the CPU; those who use the function for their work need not."""
    ops = "import torch\n\n\ndef mask(x: torch.Tensor):\n    return x * torch.arange(len(x))\n"
    used = "import torch\nfrom ops import mask\n\n\ndef test_mask():\n    assert mask(torch.ones(3)).sum() == 3\n"
    assert told(tmp_path, "place-factory", ops=ops, test_ops=used)
    assert not told(tmp_path, "place-factory", ops=ops, program=used)
