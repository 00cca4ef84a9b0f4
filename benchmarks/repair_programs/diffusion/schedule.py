import torch


class Schedule:
    def __init__(self, steps=50):
        self.steps = steps
        self.betas = torch.linspace(1e-4, 0.02, steps)
        self.alphas = 1.0 - self.betas
        self.alpha_bars = torch.cumprod(self.alphas, 0)  # planted: attribute of a plain class

    def add_noise(self, x, noise, t):
        bar = self.alpha_bars[t].view(-1, 1)
        return bar.sqrt() * x + (1 - bar).sqrt() * noise

    def step(self, model, x, t):
        times = torch.full((len(x),), t)  # planted: factory
        eps = model(x, times)
        mean = (x - self.betas[t] / (1 - self.alpha_bars[t]).sqrt() * eps) / self.alphas[t].sqrt()
        return mean
