# devfix repair -- python train.py
import torch
from metrics import Confusion, mean_ap
from torch import nn

CLASSES = 4


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, CLASSES)).to(device)
    features, classes = torch.randn(60, 6), torch.randint(0, CLASSES, (60,))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(features.to(device)), classes.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    confusion = Confusion(CLASSES)
    model.eval()
    with torch.no_grad():
        everything = []
        for x, wanted in zip(features.split(20), classes.split(20)):
            scores = model(x.to(device))
            confusion.update(scores.argmax(1), wanted)  # planted: targets
            everything.append(scores)
    print(f"loss {loss.item():.4f}")
    print("iou " + " ".join(f"{value:.3f}" for value in confusion.iou().tolist()))
    print(f"ap {mean_ap(torch.cat(everything), classes).item():.4f}")  # planted: targets


if __name__ == "__main__":
    main()
