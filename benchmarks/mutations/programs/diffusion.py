"""A diffusion model: schedules as buffers, noise made where the images are."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Diffusion(nn.Module):
    def __init__(self, net, steps=20):
        super().__init__()
        self.net = net
        self.steps = steps
        betas = torch.linspace(1e-4, 0.02, steps)
        alphas = 1.0 - betas
        kept = torch.cumprod(alphas, dim=0)
        self.register_buffer("betas", betas)
        self.register_buffer("kept", kept)
        self.register_buffer("sqrt_kept", torch.sqrt(kept))
        self.register_buffer("sqrt_lost", torch.sqrt(1.0 - kept))

    def noisy(self, images, times, noise):
        first = self.sqrt_kept[times].view(-1, 1)
        second = self.sqrt_lost[times].view(-1, 1)
        return first * images + second * noise

    def forward(self, images):
        times = torch.full((images.shape[0],), self.steps // 2, device=images.device)
        noise = torch.ones(images.shape, device=images.device)
        predicted = self.net(self.noisy(images, times, noise))
        return F.mse_loss(predicted, noise)

    @torch.no_grad()
    def sample(self, count, width):
        x = torch.ones(count, width, device=self.betas.device)
        for step in reversed(range(self.steps)):
            x = (x - self.betas[step] * self.net(x)) / torch.sqrt(1.0 - self.betas[step])
        return x


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
model = Diffusion(net).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    images = torch.linspace(-1, 1, 32).reshape(4, 8).to(device)
    loss = model(images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "diffusion.pt")
again = Diffusion(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8)))
again.load_state_dict(torch.load("diffusion.pt", map_location="cpu"))
again.to(device)
print(round(loss.item(), 3), round(again.sample(2, 8).sum().item(), 2))
