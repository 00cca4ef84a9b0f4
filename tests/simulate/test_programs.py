"""Small real programs compute the same on simulated CUDA as on the CPU."""

from __future__ import annotations

import math

import pytest
from devfix.smoke import Run, run_program

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""

PROGRAMS = {
    "amp_and_grad_scaler": """
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device.type)
x, y = torch.randn(64, 16).to(device), torch.randint(0, 4, (64,)).to(device)
for step in range(5):
    with torch.autocast(device.type, dtype=torch.bfloat16):
        logits = model(x)
    assert logits.dtype == torch.bfloat16
    loss = F.cross_entropy(logits.float(), y)  # in autocast the two devices have other lists of operations
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
assert next(model.parameters()).grad.device.type == device.type
print(loss.item())
""",
    "loader_with_workers_and_pinned_memory": """
data = TensorDataset(torch.randn(96, 1, 12, 12), torch.randint(0, 5, (96,)))
loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, pin_memory=device.type == "cuda")
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 5)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
total, pinned = 0.0, set()
for epoch in range(2):
    for x, y in loader:
        pinned.add(x.is_pinned())
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
assert pinned == {device.type == "cuda"}
print(total)
""",
    "data_parallel": """
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
places = set()
model[0].register_forward_hook(lambda module, inputs, output: places.add(str(output.device)))
parallel = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(30, 8), torch.randn(30, 2)
for _ in range(4):
    loss = F.mse_loss(parallel(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert places == ({f"cuda:{i}" for i in range(torch.cuda.device_count())} or {"cpu"}), places
print(loss.item())
""",
    "lstm": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 6)
    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out)
model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tokens, tags = torch.randint(0, 20, (6, 9)).to(device), torch.randint(0, 6, (6, 9)).to(device)
lengths = torch.tensor([9, 4, 7, 2, 5, 9])
for _ in range(3):
    loss = F.cross_entropy(model(tokens, lengths).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
""",
    "save_and_load": """
def build():
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)).to(device)
x, y = torch.randn(32, 6).to(device), torch.randn(32, 1).to(device)
def train(model, optimizer):
    for _ in range(3):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
train(model, optimizer)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
there = torch.load("checkpoint.pt")
assert there["model"]["0.weight"].device.type == device.type
back = torch.load("checkpoint.pt", map_location="cpu")
assert back["model"]["0.weight"].device.type == "cpu"
model = build()
model.load_state_dict(back["model"])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
optimizer.load_state_dict(back["optimizer"])
assert optimizer.state[model[0].weight]["exp_avg"].device.type == device.type
print(train(model, optimizer))
""",
    "transformer_encoder": """
layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
attention = nn.MultiheadAttention(16, 2, batch_first=True).to(device)
x = torch.randn(4, 7, 16).to(device)
padding = torch.zeros(4, 7, dtype=torch.bool, device=device)
padding[1, 5:] = True
causal = nn.Transformer.generate_square_subsequent_mask(7, device=device)
parameters = [*encoder.parameters(), *attention.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=False)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=4)
for _ in range(4):
    hidden = encoder(x, mask=causal, src_key_padding_mask=padding.float().masked_fill(padding, float("-inf")))
    mixed, weights = attention(hidden, hidden, hidden, key_padding_mask=padding)
    loss = (mixed - x).square().mean() + F.scaled_dot_product_attention(x, mixed, hidden).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
print(loss.item(), weights.sum().item())
""",
    # Without gradients, the encoder makes nested tensors of padded sequences.
    "padded_sequences_in_evaluation": """
layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2).to(device).eval()
x, padding = torch.randn(3, 5, 16).to(device), torch.arange(5).to(device) >= torch.tensor([[5], [2], [4]]).to(device)
with torch.no_grad():
    print(encoder(x, src_key_padding_mask=padding).double().square().sum().item())
""",
    "nested_tensors": """
nested = torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(3, 8)], device=device, requires_grad=True)
linear, norm = nn.Linear(8, 8).to(device), nn.LayerNorm(8).to(device)
hidden = norm(F.gelu(linear(nested))) + nested * 2
scores = torch.bmm(hidden, hidden.transpose(1, 2)).softmax(-1)
torch.nested.to_padded_tensor(torch.bmm(scores, hidden), 0.0).square().sum().backward()
assert nested.grad.is_nested and nested.grad.device.type == nested.cpu().to(device).device.type == device.type
print(linear.weight.grad.sum().item(), nested.grad.to_padded_tensor(0.0).square().sum().item())
jagged = torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(3, 8)], layout=torch.jagged, device=device)
query = jagged.unflatten(-1, [2, 4]).transpose(1, 2)
print(F.scaled_dot_product_attention(query, query, query).values().square().sum().item())
""",
    "sparse_gradients": """
indices = torch.tensor([[0, 1, 1], [2, 0, 2]]).to(device)
values = torch.randn(3).to(device).requires_grad_()
dense = torch.randn(3, 4).to(device).requires_grad_()
torch.sparse.mm(torch.sparse_coo_tensor(indices, values, (2, 3)), dense).square().sum().backward()
print(values.grad.sum().item(), dense.grad.sum().item())
""",
}

each_program = pytest.mark.parametrize("name", PROGRAMS)


def devices(name: str) -> int:
    return 2 if name == "data_parallel" else 1


def numbers(run: Run) -> list[float]:
    assert run.status == "ok", run
    return [float(word) for word in run.output.split()]


def close(left: list[float], right: list[float], tolerance: float) -> bool:
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) for a, b in zip(left, right, strict=True)
    )


@each_program
def test_same_loss_as_on_the_cpu(name: str) -> None:
    program = HEAD + PROGRAMS[name]
    on_cuda = run_program(program, "cuda", devices=devices(name))
    if on_cuda.device != "cuda (simulated)":
        pytest.skip(f"there is a real GPU: {on_cuda.device}")
    on_cpu = run_program(program, "cpu")
    assert numbers(on_cpu)
    assert close(numbers(on_cuda), numbers(on_cpu), 1e-5), (on_cuda.output, on_cpu.output)


@pytest.mark.cuda
@each_program
def test_same_loss_on_a_real_gpu(name: str) -> None:
    program = HEAD + PROGRAMS[name]
    on_cuda = run_program(program, "cuda")
    assert close(numbers(on_cuda), numbers(run_program(program, "cpu")), 1e-2)
