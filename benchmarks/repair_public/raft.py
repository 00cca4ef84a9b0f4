# from princeton-vl/RAFT: core
# devfix repair -- python main.py
import argparse
import sys

sys.path.append("core")
import torch
from raft import RAFT

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = RAFT(argparse.Namespace(small=True, mixed_precision=False, dropout=0.0, alternate_corr=False))
model.to(device)
model.eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
weights = torch.tensor([0.5, 1.0], device=device)
rng = torch.Generator().manual_seed(0)
pairs = [
    (torch.rand(1, 3, 128, 128, generator=rng) * 255, torch.randn(1, 2, 128, 128, generator=rng))
    for _ in range(2)
]
for image, flow in pairs:
    image, flow = image.to(device), flow.to(device)
    predicted = model(image, image.roll(2, 3), iters=2)
    loss = sum(w * (p - flow).abs().mean() for w, p in zip(weights, predicted))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")
