# from karpathy/nanoGPT: model.py
# devfix repair -- python main.py
import torch
import torch.nn.functional as F
from model import GPT, GPTConfig


def batches(count, vocabulary=40, length=12):
    rng = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(0, vocabulary, (4, length + 1), generator=rng)
        yield ids[:, :-1], ids[:, 1:]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = GPT(GPTConfig(block_size=16, vocab_size=40, n_layer=2, n_head=2, n_embd=16, dropout=0.0))
model.to(device)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
frequency = torch.linspace(0.5, 1.5, 40, device=device)
for x, y in batches(3):
    x, y = x.to(device), y.to(device)
    logits = model(x, y.contiguous())[0]
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=frequency)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")

model.eval()
start = torch.tensor([[1, 2, 3]], dtype=torch.long, device=device)
print(model.generate(start, 5, top_k=1)[0].tolist())
