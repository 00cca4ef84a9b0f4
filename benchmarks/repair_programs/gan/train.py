# devfix repair -- python train.py
import torch
from torch import nn

NOISE = 6


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(NOISE, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.main(x).squeeze(1)


def real_points(n, generator):
    angle = torch.rand(n, generator=generator) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], dim=1)


torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
data_rng = torch.Generator().manual_seed(1)
noise_rng = torch.Generator().manual_seed(2)

netG = Generator().to(device)
netD = Discriminator()  # planted: module never moved
criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(0.9))
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
fixed_noise = torch.randn(10, NOISE, generator=noise_rng)  # planted: factory

for i in range(4):
    real = real_points(16, data_rng).to(device)
    label = torch.full((16,), 1.0)  # planted: factory
    netD.zero_grad()
    errD_real = criterion(netD(real), label)
    errD_real.backward()
    noise = torch.randn(16, NOISE, generator=noise_rng)  # planted: factory
    fake = netG(noise)
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()), label)
    errD_fake.backward()
    optimizerD.step()

    netG.zero_grad()
    label.fill_(1.0)
    errG = criterion(netD(fake), label)
    errG.backward()
    optimizerG.step()
    print(f"[{i}] Loss_D: {(errD_real + errD_fake).item():.4f} Loss_G: {errG.item():.4f}")

with torch.no_grad():
    points = netG(fixed_noise).numpy()  # planted: numpy
print(f"mean radius {(points**2).sum(1).mean():.5f}")
