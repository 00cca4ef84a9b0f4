# devfix repair -- python train.py
import os
import tempfile

import numpy as np
import torch
from model import Speech
from torch import nn


def batches(count=3):
    generator = torch.Generator().manual_seed(5)
    for _ in range(count):
        yield {
            "waves": torch.randn(4, 64, generator=generator),
            "lengths": torch.tensor([9, 7, 8, 5]),
            "speaker": torch.randint(0, 3, (4,), generator=generator),
            "age": torch.rand(4, generator=generator),
        }


def fit(model, device, path):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    weights = torch.load(path, map_location="cpu")  # planted: checkpoint
    for batch in batches():
        batch = {key: value.to(device) for key, value in batch.items()}
        found = model(batch["waves"], batch["lengths"])
        speaker = nn.functional.cross_entropy(found["speaker"], batch["speaker"], weight=weights)
        loss = speaker + nn.functional.mse_loss(found["age"].squeeze(1), batch["age"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    path = os.path.join(tempfile.mkdtemp(), "weights.pt")
    torch.save(torch.tensor([0.5, 0.3, 0.2]), path)
    losses = list(fit(Speech().to(device), device, path))
    print(" ".join(f"{loss.item():.3f}" for loss in losses))
    print(f"{np.mean([loss.numpy() for loss in losses]):.4f}")  # planted: numpy over a list


if __name__ == "__main__":
    main()
