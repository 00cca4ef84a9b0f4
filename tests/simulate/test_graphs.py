"""Programs with CUDA graphs do what they do without. What CUDA says to graphs is in `facts/graphs.txt`."""

from __future__ import annotations

from devfix.smoke import run_program

HEAD = """
import copy
import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2)).cuda()
x, y = torch.randn(16, 4, device="cuda"), torch.randint(0, 2, (16,), device="cuda")
"""
CALLABLES = """
def losses(graphed):
    own = copy.deepcopy(model)
    run = own
    if graphed:
        run = torch.cuda.make_graphed_callables(own, (torch.randn_like(x),))
        own.load_state_dict(model.state_dict())
        own.zero_grad()
    optimizer = torch.optim.SGD(own.parameters(), 0.1)
    torch.manual_seed(7)
    for _ in range(4):
        optimizer.zero_grad()
        loss = cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        yield loss.item()

eager, graphed = list(losses(False)), list(losses(True))
assert eager == graphed and len(set(eager)) == 4, (eager, graphed)
"""
WHOLE_STEP = """
def losses(graphed):
    own = copy.deepcopy(model)
    optimizer = torch.optim.Adam(own.parameters(), 0.01, capturable=True)

    def step():
        optimizer.zero_grad()
        loss = cross_entropy(own(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    torch.manual_seed(7)
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    if graphed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
    for _ in range(5):
        if graphed:
            graph.replay()
        else:
            loss = step()
        yield loss.item()

eager, graphed = list(losses(False)), list(losses(True))
assert eager == graphed and len(set(eager)) == 5, (eager, graphed)
"""
CHECKPOINT = """
from torch.utils.checkpoint import checkpoint

weight = torch.ones(64, device="cuda", requires_grad=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = checkpoint(lambda w: nn.functional.dropout(w * 1.0, 0.5), weight, use_reentrant=False)
    out.sum().backward()
for _ in range(3):
    graph.replay()
    assert torch.equal(out, weight.grad), "the recomputation has other random numbers"
"""


def ends_well(source: str) -> None:
    done = run_program(HEAD + source, "cuda")
    assert done.status == "ok", done


def test_graphed_callables_train_as_their_modules() -> None:
    ends_well(CALLABLES)


def test_a_captured_training_step() -> None:
    ends_well(WHOLE_STEP)


def test_a_checkpoint_in_a_graph_draws_its_numbers_again() -> None:
    ends_well(CHECKPOINT)
