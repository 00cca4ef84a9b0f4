# devfix repair -- python train.py
import numpy as np
import torch
from data import VOCABULARY, loaders
from model import Classifier
from torch import nn


def train_epoch(model, loader, criterion, optimizer, device):
    total = 0.0
    for ids, labels in loader:
        ids = ids.to(device)
        loss = criterion(model(ids), labels)  # planted: batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader, device):
    predicted, wanted = [], []
    for ids, labels in loader:
        scores = model(ids.to(device))
        predicted.append(scores.argmax(1).numpy())  # planted: numpy
        wanted.append(labels.numpy())
    return np.mean(np.concatenate(predicted) == np.concatenate(wanted))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = loaders()
    model = Classifier(VOCABULARY).to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.5]))  # planted: loss weights
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        print(f"epoch {epoch}: loss {train_epoch(model, train, criterion, optimizer, device):.4f}")
    print(f"accuracy {evaluate(model, test, device):.2f}")


if __name__ == "__main__":
    main()
