"""Recurrent layers give the CPU's results and gradients. What cuDNN does not do is in `facts/recurrent.txt`."""

from __future__ import annotations

from devfix.smoke import run_program

PROGRAM = """
import torch
from torch import nn

KINDS = (
    (nn.LSTM, {}), (nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}), (nn.LSTM, {"proj_size": 3}),
    (nn.GRU, {"bidirectional": True, "bias": False}), (nn.LSTM, {"batch_first": True}),
)

def outcome(kind, named, device):
    torch.manual_seed(0)
    module, x = kind(4, 5, 2, **named).to(device), torch.randn(6, 6, 4).to(device).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(x, [6, 5, 4, 3, 2, 1], named.get("batch_first", False))
    (y, state), (z, _) = module(x), module(packed)
    assert y.device == z.data.device == x.device
    state = state[0] if isinstance(state, tuple) else state
    (y.square().sum() + state.sum() + z.data.square().sum()).backward()
    return [one.detach().cpu() for one in (y, state, z.data, x.grad, *(p.grad for p in module.parameters()))]

for kind, named in KINDS:
    for one, other in zip(outcome(kind, named, "cpu"), outcome(kind, named, "cuda:1"), strict=True):
        torch.testing.assert_close(one, other)

module, x = nn.LSTM(4, 5).cuda(), torch.randn(6, 2, 4, device="cuda")
before = torch.cuda.memory_allocated()
y = module(x)[0]
assert torch.cuda.memory_allocated() > before
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    replayed = module(x)[0]
x.mul_(2)
graph.replay()
torch.testing.assert_close(replayed, module(x)[0])
with torch.autocast("cuda"):
    assert module(x)[0].dtype == torch.float16
"""


def test_recurrent_layers() -> None:
    done = run_program(PROGRAM, "cuda", devices=2)
    assert done.status == "ok", done
