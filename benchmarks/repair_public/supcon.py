# from HobbitLong/SupContrast: losses.py
# devfix repair -- python main.py
import torch
import torch.nn.functional as F
from losses import SupConLoss
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(10, width), nn.Linear(width, 8)])
        self.register_buffer("mean", torch.full((10,), 0.1))

    def forward(self, x):
        x = x - self.mean
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return F.normalize(x, dim=1)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Encoder().to(device)
criterion = SupConLoss(temperature=0.1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = [(torch.randn(2, 8, 10), torch.randint(0, 3, (8,))) for _ in range(3)]
for images, labels in batches:
    images = images.to(device)
    labels = labels.to(device)
    f1, f2 = model(images.flatten(0, 1)).chunk(2)
    features = torch.cat([f1.unsqueeze(1), f2.unsqueeze(1)], dim=1)
    loss = criterion(features, labels) + criterion(features)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
