"""CUDA tensors in queues, arguments and results of other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.simulate import supervise

HEAD = """
import torch
import torch.multiprocessing as mp
from multiprocessing.reduction import ForkingPickler
from torch import nn
"""
# Modules of one program, which has two devices.
QUEUES = """
def work(queue, back, done):
    x = queue.get()
    x.add_(1)
    back.put(x * 2)
    done.wait()

def main():
    queue, back, done = mp.Queue(), mp.Queue(), mp.Event()
    process = mp.Process(target=work, args=(queue, back, done))
    process.start()
    x = torch.zeros(2, 3, device="cuda:1").t()
    queue.put(x)
    y = back.get().clone()
    done.set()
    process.join()
    assert x.device == y.device == torch.device("cuda", 1) and process.exitcode == 0
    assert x.tolist() == [[1.0] * 2] * 3, "both processes see one memory"
    assert y.tolist() == [[2.0] * 2] * 3
"""
TRAINING = """
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3, device="cuda")).sum().backward()
        optimizer.step()

def main():
    model = nn.Linear(3, 2).cuda()
    model.share_memory()
    before = model.weight.detach().clone()
    process = mp.Process(target=train, args=(model,))
    process.start()
    process.join()
    assert torch.allclose(before - model.weight, torch.full_like(before, 1.2)), before - model.weight
"""
DATASET = """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.full((2,), float(index), device="cuda")

def main():
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)
    found = [batch.clone() for batch in loader]
    assert [batch.device.type for batch in found] == ["cuda", "cuda"]
    assert torch.cat(found).tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
"""
RECEIVED = """
def work(queue):
    x = queue.get()
    try:
        ForkingPickler.dumps(x)
    except RuntimeError as error:
        assert "Attempted to send CUDA tensor received from another process" in str(error), error
    else:
        raise SystemExit("it was sent")
    ForkingPickler.dumps(x.clone())

def main():
    queue = mp.Queue()
    process = mp.Process(target=work, args=(queue,))
    process.start()
    x = torch.ones(3, device="cuda")
    queue.put(x)
    process.join()
    assert process.exitcode == 0
    w = nn.Parameter(x) * 2
    try:
        ForkingPickler.dumps(w)
    except RuntimeError as error:
        assert "Cowardly refusing to serialize non-leaf tensor" in str(error)
    else:
        raise SystemExit("it was sent")
"""


PROGRAM = """
import dataset, queues, received, training, torch.multiprocessing

if __name__ == "__main__":
    torch.multiprocessing.set_start_method("spawn")
    for module in (queues, training, dataset, received):
        module.main()
"""


def test_tensors_of_other_processes(tmp_path: Path) -> None:
    modules = {"queues": QUEUES, "training": TRAINING, "dataset": DATASET, "received": RECEIVED}
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(HEAD + text)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    ended = supervise.run(supervise.python([str(path)]), 2, capture=True, seconds=300)
    if any(told.cannot for told in ended.told):
        pytest.skip(ended.unchecked)
    assert ended.code == 0 and not ended.unchecked, ended.output
