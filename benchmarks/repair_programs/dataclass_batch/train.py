# devfix repair -- python train.py
import torch
import torch.nn.functional as F
from batches import make_batches
from torch import nn


class MeanPool(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embedding = nn.Embedding(25, width)
        self.out = nn.Linear(width, 2)

    def forward(self, batch):
        x = self.embedding(batch.tokens)
        steps = torch.arange(x.shape[1])
        mask = (steps[None, :] < batch.lengths[:, None]).unsqueeze(-1)  # planted: factory
        return self.out((x * mask).sum(1) / batch.lengths[:, None])


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = MeanPool().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in make_batches(4):
        batch = batch.to(device)
        losses = F.cross_entropy(model(batch), batch.labels, reduction="none")
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
