# devfix repair -- python train.py
"""Style transfer in small: features are taken by hooks, an image is optimized."""

import torch
import torch.nn.functional as F
from torch import nn


class Features:
    def __init__(self, network, layers):
        self.kept = {}
        for index in layers:
            network[index].register_forward_hook(self._keep(index))

    def _keep(self, index):
        def hook(module, inputs, output):
            self.kept[index] = output.cpu()  # planted: copy on the CPU

        return hook


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)  # planted: buffer
        self.std = torch.tensor(std).view(-1, 1, 1)  # planted: buffer

    def forward(self, image):
        return (image - self.mean) / self.std


def gram(x):
    b, c, h, w = x.shape
    flat = x.reshape(b * c, h * w)
    return flat @ flat.T / x.numel()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = nn.Sequential(
        Normalization([0.5, 0.4, 0.3], [0.2, 0.2, 0.2]),
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1),
    ).to(device)
    features = Features(network, [1, 3])
    content, style = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
    with torch.no_grad():
        network(content.to(device))
        wanted = features.kept[3].to(device)
        network(style)  # planted: inputs
        grams = {index: gram(value).to(device) for index, value in features.kept.items()}
    image = content.clone().to(device).requires_grad_()
    optimizer = torch.optim.Adam([image], lr=0.02)
    for step in range(4):
        network(image)
        loss = F.mse_loss(features.kept[3], wanted)
        for index, value in features.kept.items():
            loss = loss + 10 * F.mse_loss(gram(value), grams[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step} {loss.item():.4f}")
    print(f"{image.detach().mean().numpy():.4f}")  # planted: numpy


if __name__ == "__main__":
    main()
