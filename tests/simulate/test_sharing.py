"""CUDA tensors in queues, arguments and results of other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.simulate import supervise

# Of two devices. Each process that is spawned takes seconds to import torch.
PROGRAM = """
import torch
import torch.multiprocessing as mp
from multiprocessing.reduction import ForkingPickler
from torch import nn

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3, device="cuda")).sum().backward()
        optimizer.step()

def refuse(x):
    try:
        ForkingPickler.dumps(x)
    except RuntimeError as error:
        assert "Attempted to send CUDA tensor received from another process" in str(error), error
    else:
        raise SystemExit("it was sent")
    ForkingPickler.dumps(x.clone())

def work(model, queue, back, done):
    train(model)
    x = queue.get()
    x.add_(1)
    back.put(x * 2)
    refuse(queue.get())
    done.wait()

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.full((2,), float(index), device="cuda")

def main():
    mp.set_start_method("spawn")
    model = nn.Linear(3, 2).cuda()
    model.share_memory()
    before = model.weight.detach().clone()
    queue, back, done = mp.Queue(), mp.Queue(), mp.Event()
    process = mp.Process(target=work, args=(model, queue, back, done))
    process.start()
    x, sent = torch.zeros(2, 3, device="cuda:1").t(), torch.ones(3, device="cuda")
    queue.put(x)
    queue.put(sent)
    y = back.get().clone()
    done.set()
    process.join()
    assert x.device == y.device == torch.device("cuda", 1) and process.exitcode == 0
    assert x.tolist() == [[1.0] * 2] * 3, "both processes see one memory"
    assert y.tolist() == [[2.0] * 2] * 3
    assert torch.allclose(before - model.weight, torch.full_like(before, 1.2)), before - model.weight

    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)
    found = [batch.clone() for batch in loader]
    assert [batch.device.type for batch in found] == ["cuda", "cuda"]
    assert torch.cat(found).tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]

    w = nn.Parameter(sent) * 2
    try:
        ForkingPickler.dumps(w)
    except RuntimeError as error:
        assert "Cowardly refusing to serialize non-leaf tensor" in str(error)
    else:
        raise SystemExit("it was sent")

if __name__ == "__main__":
    main()
"""


def test_tensors_of_other_processes(programs: Path) -> None:
    (programs / "program.py").write_text(PROGRAM)
    command = supervise.python(["program.py"])
    ended = supervise.run(command, 2, cwd=str(programs), capture=True, seconds=300)
    if any(told.cannot for told in ended.told):
        pytest.skip(ended.unchecked)
    assert ended.code == 0 and not ended.unchecked, ended.output
