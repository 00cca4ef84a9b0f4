# from rasbt/LLMs-from-scratch: ch04/06_swa/gpt_with_kv_swa.py
# devfix repair -- python main.py
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, "ch04/06_swa")
from gpt_with_kv_swa import GPTModel, generate_text_simple_cached


def batches(count, vocabulary=50, length=12):
    rng = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(0, vocabulary, (4, length + 1), generator=rng)
        yield ids[:, :-1], ids[:, 1:]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = GPTModel(
    dict(
        vocab_size=50,
        context_length=24,
        emb_dim=16,
        n_heads=4,
        n_layers=2,
        drop_rate=0.0,
        qkv_bias=False,
        sliding_window_size=8,
        sliding_window_stride=2,
    )
)
model.to(device)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
frequency = torch.linspace(0.5, 1.5, 50, device=device)
for x, y in batches(3):
    x, y = x.to(device), y.to(device)
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=frequency)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")

model.eval()
prompt = torch.tensor([[3, 14, 15, 9]], device=device)
print(generate_text_simple_cached(model, prompt, max_new_tokens=6)[0].tolist())
