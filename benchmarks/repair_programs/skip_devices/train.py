# devfix repair --devices 2 -- python train.py
import torch
from torch import nn

PAIR = ["cuda:0", "cuda:1"] if torch.cuda.device_count() >= 2 else ["cpu", "cpu"]


class UNet(nn.Module):
    """Goes down on one device and up on the other, with skip connections."""

    def __init__(self, widths=(8, 12, 16)):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:])).to(PAIR[0])
        self.up = nn.ModuleList(nn.Linear(2 * b, a) for a, b in reversed(list(zip(widths, widths[1:])))).to(
            PAIR[1]
        )
        self.gates = [torch.full((1,), 0.5 + i) for i in range(len(self.up))]  # planted: list of tensors

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = torch.relu(layer(x))
            skips.append(x)
        x = x.to(PAIR[1])
        for layer, gate in zip(self.up, self.gates):
            skip = skips.pop()
            x = layer(torch.cat([x, gate * skip], dim=-1))  # planted: skip connection
        return x


def main():
    torch.manual_seed(1)
    net = UNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    clean = torch.randn(20, 8)
    noisy = clean + 0.1 * torch.randn(20, 8)
    for step in range(4):
        loss = ((net(noisy.to(PAIR[0])) - clean.to(PAIR[0])) ** 2).mean()  # planted: targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
