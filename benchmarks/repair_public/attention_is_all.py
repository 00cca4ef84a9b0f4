# from jadore801120/attention-is-all-you-need-pytorch: transformer
# devfix repair -- python main.py
import torch
import torch.nn.functional as F
from transformer.Models import Transformer
from transformer.Optim import ScheduledOptim

PAD = 0


def sentences(count):
    rng = torch.Generator().manual_seed(0)
    for _ in range(count):
        source = torch.randint(1, 20, (4, 8), generator=rng)
        source[0, 5:] = PAD
        yield source, torch.cat([torch.full((4, 1), 1), source.flip(1)], 1)


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Transformer(
    20,
    20,
    PAD,
    PAD,
    d_word_vec=16,
    d_model=16,
    d_inner=32,
    n_layers=2,
    n_head=2,
    d_k=8,
    d_v=8,
    dropout=0.0,
    n_position=20,
).to(device)
model.eval()
optimizer = ScheduledOptim(torch.optim.Adam(model.parameters(), betas=(0.9, 0.98)), 0.5, 16, 10)
right = torch.zeros(1, device=device)
for source, target in sentences(3):
    source = source.to(device)
    target = target.to(device)
    optimizer.zero_grad()
    pred = model(source, target[:, :-1])
    gold = target[:, 1:].reshape(-1)
    loss = F.cross_entropy(pred, gold, ignore_index=PAD)
    loss.backward()
    optimizer.step_and_update_lr()
    right += (pred.argmax(1) == gold).sum()
    print(f"{loss.item():.4f}")
print(right.item())
