"""An image toolkit: trains a small classifier that knows the original sizes, then captions images."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = ["horizontal stripes", "vertical stripes", "a bright spot"]
SIDE = 16


def load_image(index):
    """Stands in for decoding a file: a float32 array (height, width, 3) and the file's original size."""
    rng = np.random.default_rng(index)
    label = index % len(CLASSES)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    if label == 0:
        plane = np.sin(rows + rng.uniform(0, 6))
    elif label == 1:
        plane = np.sin(columns + rng.uniform(0, 6))
    else:
        row, column = rng.uniform(4, 12, size=2)
        plane = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 8)
    image = np.repeat(plane[:, :, None], 3, axis=2) + rng.normal(0, 1.5, (SIDE, SIDE, 3))
    size = (int(rng.integers(200, 2000)), int(rng.integers(200, 2000)))
    return image.astype(np.float32), size, label


class ImageFolder(Dataset):
    def __init__(self, start, count):
        self.indices = range(start, start + count)

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, item):
        image, size, label = load_image(self.indices[item])
        pixels = torch.from_numpy(image).permute(2, 0, 1)
        return pixels, torch.tensor(size, dtype=torch.float32) / 1024, label


class SizeAwareNet(nn.Module):
    """A convolutional net that is told the original size, as SDXL's UNet is."""

    def __init__(self, width=12):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.size_embedding = nn.Linear(2, width)
        self.head = nn.Linear(5 * width, len(CLASSES))

    def forward(self, images, sizes):
        features = torch.cat([self.backbone(images), self.size_embedding(sizes)], dim=-1)
        return self.head(features)


def train(model, loader, optimizer, device, epochs):
    model.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for images, sizes, labels in loader:
            images = images.to(device)
            labels = labels.to(device)
            loss = F.cross_entropy(model(images, sizes), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.5f}")


class Captioner:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device).eval()

    @torch.no_grad()
    def caption(self, image, size):
        """A caption for one image, with how sure the model is of it."""
        pixels = torch.from_numpy(image).permute(2, 0, 1).unsqueeze(0)
        pixels.to(self.device)
        sizes = torch.tensor([size], dtype=torch.float32, device=self.device) / 1024
        probabilities = self.model(pixels, sizes).softmax(dim=-1)[0]
        best = probabilities.argmax().item()
        return f"an image of {CLASSES[best]}", probabilities[best].item()

    @torch.no_grad()
    def accuracy(self, indices):
        """How many of the images are recognised, all in one batch."""
        images, sizes, labels = zip(*[load_image(index) for index in indices])
        batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        sizes = torch.tensor(sizes, dtype=torch.float32, device=self.device) / 1024
        predicted = self.model(batch, sizes).argmax(dim=-1).cpu().numpy()
        return np.mean(predicted == np.array(labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model = SizeAwareNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(ImageFolder(0, 240), batch_size=args.batch_size, shuffle=True)
    train(model, loader, optimizer, device, args.epochs)

    captioner = Captioner(model, device)
    for index in range(1000, 1003):
        image, size, _ = load_image(index)
        text, confidence = captioner.caption(image, size)
        print(f"image {index}: {text} ({confidence:.4f})")
    print(f"accuracy {captioner.accuracy(range(1003, 1063)):.4f}")


if __name__ == "__main__":
    main()
