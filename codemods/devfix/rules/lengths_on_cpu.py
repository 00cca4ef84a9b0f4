"""`lengths-on-cpu`: packed sequences get their lengths on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from devfix.checkers.host_reads import found
from devfix.codemod import Codemod, Example
from devfix.findings import Finding
from devfix.flow import Flow


@dataclass(frozen=True)
class LengthsOnCpu(Codemod):
    """Copy the lengths of packed sequences to the CPU.

    ## What it does
    Inserts `.cpu()` in `pack_padded_sequence(x, lengths)` where `lengths` is a tensor that was moved to a
    device, was made on that of `x`, or was computed by tensor operations from the arguments of `forward`
    (`(tokens != 0).sum(1)`, `lengths.sort(descending=True)`). A parameter that is passed through unchanged
    is reported only if another call in the file copies an argument of the same name to the CPU. A helper
    outside of a module is reported only if each call in the file passes it a result such as `mask.sum(1)`.

    ## Why is this bad?
    The lengths must be on the CPU, whichever device the sequences are on: "'lengths' argument should be
    a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
    (https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html).
    Before torch 1.7 they were copied silently.

    ## Fix safety
    Safe where the lengths are certainly on a device: on the CPU, `.cpu()` returns the tensor itself.
    Unsafe where they are computed from a parameter, since a caller may keep that on the CPU on purpose.
    There is no finding where the function mentions the CPU, or where a call in the file copies what it passes.
    """

    id = "lengths-on-cpu"
    words = (("pack_padded_sequence",), ("torch",))
    examples = (
        Example.changed(
            "Lengths counted in the tokens",
            """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.rnn = nn.GRU(4, 3, batch_first=True)

    def forward(self, tokens):
        lengths = (tokens != 0).sum(dim=1)
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True)
        return self.rnn(packed)[1]


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = Encoder().to(device)
print(encoder(torch.tensor([[3, 4, 5], [6, 7, 0]]).to(device)).shape)
""",
            ("embedding(tokens), lengths, batch_first=", "embedding(tokens), lengths.cpu(), batch_first="),
            raises="should be a 1D CPU int64 tensor",
        ),
        Example.changed(
            "Lengths that were moved like the sequences",
            """\
import torch
from torch.nn.utils.rnn import pack_padded_sequence

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(2, 3, 1).to(device)
lengths = torch.tensor([2, 3]).to(device)
lengths, order = lengths.sort(descending=True)
print(pack_padded_sequence(x[order], lengths, batch_first=True).batch_sizes)
""",
            ("pack_padded_sequence(x[order], lengths, ", "pack_padded_sequence(x[order], lengths.cpu(), "),
            raises="should be a 1D CPU int64 tensor",
        ),
        Example(
            "Trap: lengths that stay on the CPU on purpose",
            """\
import torch
from torch.nn.utils.rnn import pack_padded_sequence

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(2, 3, 1).to(device)
lengths = torch.tensor([3, 2])
print(pack_padded_sequence(x, lengths, batch_first=True).batch_sizes)
print(pack_padded_sequence(x, (x != 0).sum(dim=(1, 2)).tolist(), batch_first=True).batch_sizes)
""",
        ),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        for finding, _ in found(flow.facts(), {self.id}):
            yield finding
