# devfix repair -- python train.py
import torch
from model import Detector


def samples(count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        corner = torch.randint(0, 8, (2, 2), generator=generator).float()
        boxes = torch.cat([corner, corner + 4], 1)
        labels = torch.randint(0, 3, (2,), generator=generator)
        yield torch.rand(1, 12, 12, generator=generator), {"boxes": boxes, "labels": labels}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = list(samples(4))
    for step in range(3):
        images = torch.stack([image for image, _ in batch]).to(device)
        targets = [target for _, target in batch]  # planted: list of dicts
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, " ".join(f"{name} {value.item():.3f}" for name, value in losses.items()))


if __name__ == "__main__":
    main()
