"""Two networks and a loss between them; labels and noise made on the device."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Generator(nn.Module):
    def __init__(self, noise, width):
        super().__init__()
        self.blocks = nn.ModuleList()
        for _ in range(2):
            self.blocks.append(nn.Sequential(nn.Linear(noise, noise), nn.ReLU()))
        self.out = nn.Linear(noise, width)

    def forward(self, z):
        for block in self.blocks:
            z = z + block(z)
        return torch.tanh(self.out(z))


def main(args):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
    generator = Generator(4, 6).to(device)
    critic = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    critic = critic.to(device)
    criterion = nn.BCEWithLogitsLoss()
    first = torch.optim.SGD(generator.parameters(), lr=0.1)
    second = torch.optim.SGD(critic.parameters(), lr=0.1)
    fixed = torch.ones(2, 4, device=device)
    loader = DataLoader(TensorDataset(torch.linspace(-1, 1, 48).reshape(8, 6)), batch_size=4)
    for _ in range(2):
        for (real,) in loader:
            real = real.to(device)
            size = real.size(0)
            z = torch.full((size, 4), 0.5, device=device)
            fake = generator(z)
            ones, zeros = torch.ones(size, 1, device=device), torch.zeros(size, 1, device=device)
            loss = criterion(critic(real), ones) + criterion(critic(fake.detach()), zeros)
            second.zero_grad()
            loss.backward()
            second.step()
            gain = criterion(critic(fake), ones)
            first.zero_grad()
            gain.backward()
            first.step()
    with torch.no_grad():
        print(round(loss.item(), 3), round(generator(fixed).sum().item(), 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    main(parser.parse_args([]))
