# each of: cache gqa mla moe swa
# from rasbt/LLMs-from-scratch: ch04/*EACH/gpt_with_kv_EACH.py
# devfix repair -- python main.py
import glob
import sys

import torch
import torch.nn.functional as F

sys.path[:0] = glob.glob("ch04/*EACH")
from gpt_with_kv_EACH import GPTModel, generate_text_simple_cached


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
        kv_window_size=24,  # cache
        n_kv_groups=2,  # gqa
        latent_dim=8,  # mla
        hidden_dim=24,  # moe, like the next two
        num_experts=4,
        num_experts_per_tok=2,
        sliding_window_size=8,  # swa
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
