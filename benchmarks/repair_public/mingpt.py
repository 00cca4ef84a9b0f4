# from karpathy/minGPT: mingpt
# devfix repair -- python main.py
import torch
import torch.nn.functional as F
from mingpt.model import GPT


def batches(count, vocabulary=30, length=12):
    rng = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(0, vocabulary, (4, length + 1), generator=rng)
        yield ids[:, :-1], ids[:, 1:]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
config = GPT.get_default_config()
config.model_type = "gpt-nano"
config.vocab_size, config.block_size = 30, 16
config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = 0.0
model = GPT(config)
model.to(device)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
frequency = torch.linspace(0.5, 1.5, 30, device=device)
for x, y in batches(3):
    x, y = x.to(device), y.to(device)
    logits = model(x)[0]
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=frequency)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")

model.eval()
start = torch.tensor([[1, 2, 3]], dtype=torch.long, device=device)
print(model.generate(start, 5)[0].tolist())
