"""What the programs share: a device, seeds, and the line that says what came out."""

from __future__ import annotations

import os
import resource
import traceback
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.simplefilter("ignore")

import torch  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def seconds():
    """CPU time of this process, and of those that it has waited for."""
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def report(name, program):
    """Run a program; print `= NAME VALUE SECONDS` with the number that it gives, or `! NAME ERROR`."""
    torch.manual_seed(0)
    start = seconds()
    try:
        print(f"= {name} {float(program()):.9g} {seconds() - start:.3f}", flush=True)
    except Exception as error:
        traceback.print_exc()
        print(f"! {name} {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)


def train(model, step, steps=2, lr=1e-3):
    """Train a model on DEVICE with AdamW; `step(model)` gives the loss. The last loss."""
    model.to(DEVICE)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(steps):
        loss = step(model)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert next(model.parameters()).device.type == DEVICE.type
    return step(model).item()


def randn(*shape):
    return torch.randn(*shape).to(DEVICE)


def randint(high, *shape):
    return torch.randint(0, high, shape).to(DEVICE)
