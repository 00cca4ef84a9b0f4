# devfix repair -- python main.py
"""Written for a machine with two GPUs, and run where there is one."""

import argparse

import torch
from settings import SETTINGS
from torch import nn


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)
        self.temperature = torch.full((1,), 2.0)  # planted: plain attribute

    def forward(self, x):
        return self.head(self.encoder(x)) / self.temperature


class Trainer:
    def __init__(self, model, gpu):
        self.device = torch.device("cuda", gpu) if torch.cuda.is_available() else torch.device("cpu")
        self.model = model.to(self.device)
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        loss = self.loss(self.model(x.to(self.device)), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def prepare(gpu):
    if torch.cuda.is_available():
        torch.cuda.set_device(gpu)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=1)  # planted: a device that is not there
    args = parser.parse_args()
    torch.manual_seed(0)
    prepare(args.gpu)
    trainer = Trainer(Classifier(8, 3), args.gpu)
    for epoch in range(3):
        losses = [trainer.step(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(4)]
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")
    teacher = nn.Linear(8, 3)
    where = SETTINGS["teacher"] if torch.cuda.is_available() else "cpu"
    teacher.to(where)
    x = torch.ones(2, 8, device=where)
    print(f"teacher {teacher(x).sum().item():.4f}")


if __name__ == "__main__":
    main()
