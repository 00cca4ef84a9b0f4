"""What was judged wrong or harmful on public repositories, as made-up programs: each beside one that stays reported."""

from __future__ import annotations

import pytest

import devfix

HEAD = "import torch\nfrom torch import nn\n"
CHOSEN = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


def codemods(code: str) -> list[str]:
    return [one.codemod for one in devfix.check(source=HEAD + code, settings=False).findings]


REPLACED = """
class Range(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("top", torch.zeros(4))
    def fit(self, x):
        self.top = FITTED
    def scale(self, x):
        return x / self.top
for layer in nn.ModuleList([nn.Linear(4, 4)]):
    weight = layer.to(device).weight.data
    found = Range()
    found.fit(weight)
    layer.weight.data = found.scale(weight)
"""


@pytest.mark.parametrize("fitted", ["self.top.to(x.device)", "x.max(0)[0] - x.min(0)[0]"])
def test_a_buffer_is_where_the_tensor_is_that_replaces_it(fitted: str) -> None:
    assert not codemods(CHOSEN + REPLACED.replace("FITTED", fitted))


@pytest.mark.parametrize("fitted", ["torch.ones(4)", "self.top + 1", "self.top.clone()"])
def test_a_buffer_that_is_replaced_on_the_cpu_stays_there(fitted: str) -> None:
    assert codemods(CHOSEN + REPLACED.replace("FITTED", fitted))


def test_no_fix_moves_what_a_call_of_append_returns() -> None:
    """`kept.append(score).to(device)` raised AttributeError on every machine, and was made again and again."""
    code = """
def chain(load, n):
    kept = []
    score = torch.eye(3)
    kept.append(score)
    device = load().device
    for _ in range(n):
        score = score.to(device) * 2
        kept.append(score)
    return kept
"""
    made = devfix.fix(source=HEAD + code, unsafe=True, settings=False)
    assert codemods(code) == ["place-factory"]
    assert not made.problems
    assert made.text == HEAD + code
