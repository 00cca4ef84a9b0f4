# devfix repair -- python train.py
import torch
from config import Config
from parts import LogitAdjusted, make_model, make_prior


class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = make_model(config).to(config.device)
        self.criterion = LogitAdjusted(make_prior(config.classes))  # planted: device not handed on
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.lost = []

    @property
    def device(self):
        return next(self.model.parameters()).device

    def step(self, x, y):
        scores = self.model(x.to(self.device))
        loss = self.criterion(scores, y)  # planted: targets
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.lost.append(loss.detach())
        return scores

    def predict(self, x):
        self.model.eval()
        with torch.no_grad():
            return self.model(x).argmax(1)  # planted: inputs


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(Config())
    x, y = torch.randn(30, 6), torch.randint(0, 3, (30,))
    for _ in range(4):
        trainer.step(x, y)
    print(*(f"{value:.4f}" for value in torch.stack(trainer.lost).numpy()))  # planted: numpy
    print(trainer.predict(x[:6]).tolist())
