# devfix repair -- python train.py
"""One trunk, a head for each task, batches that are dicts."""

import torch
import torch.nn.functional as F
from torch import nn

TASKS = {"age": 1, "mood": 4, "topic": 6}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 24), nn.GELU())
        self.heads = {name: nn.Linear(24, size) for name, size in TASKS.items()}  # planted: dict of modules

    def forward(self, batch):
        hidden = self.trunk(batch["features"])
        return {name: head(hidden) for name, head in self.heads.items()}


class Weighting:
    """Weights of the tasks, by how fast their losses fall."""

    def __init__(self):
        self.weights = torch.ones(len(TASKS))  # planted: attribute of a plain class
        self.last = None

    def __call__(self, losses):
        losses = torch.stack(losses)
        if self.last is not None:
            self.weights = torch.softmax(losses.detach() / self.last, 0) * len(TASKS)
        self.last = losses.detach()
        return (self.weights * losses).sum()


def batches(count):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield {
            "features": torch.randn(8, 10, generator=generator),
            "age": torch.rand(8, generator=generator),
            "mood": torch.randint(0, 4, (8,), generator=generator),
            "topic": torch.randint(0, 6, (8,), generator=generator),
        }


def losses_of(scores, batch):
    return [
        F.mse_loss(scores["age"].squeeze(1), batch["age"]),
        F.cross_entropy(scores["mood"], batch["mood"]),
        F.cross_entropy(scores["topic"], batch["topic"]),
    ]


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = Network().to(device)
    weighting = Weighting()
    parameters = list(network.trunk.parameters())
    for head in network.heads.values():
        parameters += list(head.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for step, batch in enumerate(batches(4)):
        scores = network(batch)  # planted: dict of tensors
        loss = weighting(losses_of(scores, batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
