# devfix repair -- python train.py
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.48, 0.45, 0.40])  # planted: constant of the module
STD = torch.tensor([0.22, 0.22, 0.22])  # planted: constant of the module


class Images(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        size = 6 + index % 3
        return torch.rand(3, size, size, generator=generator), index % 4


def collate(samples):
    """Pads images of several sizes; the mask says where they are."""
    side = max(image.shape[-1] for image, _ in samples)
    images = torch.zeros(len(samples), 3, side, side)
    mask = torch.zeros(len(samples), 1, side, side, dtype=torch.bool)
    for i, (image, _) in enumerate(samples):
        images[i, :, : image.shape[1], : image.shape[2]] = image
        mask[i, :, : image.shape[1], : image.shape[2]] = True
    return images, mask, torch.tensor([label for _, label in samples])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, images, mask):
        x = torch.relu(self.conv(images)) * mask
        return self.fc(x.sum((2, 3)) / mask.sum((2, 3)))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Images(24), batch_size=8, num_workers=2, collate_fn=collate)
    net = Net().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        right = torch.zeros(4)
        for images, mask, labels in loader:
            images, labels = images.to(device), labels.to(device)
            images = (images - MEAN[:, None, None]) / STD[:, None, None]
            scores = net(images, mask)  # planted: one of several
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right.index_add_(0, labels, (scores.argmax(1) == labels).float())  # planted: accumulator
        print(f"epoch {epoch} loss {loss.item():.4f} right {right.sum().item():.0f}")


if __name__ == "__main__":
    main()
