"""The mutation benchmark on the repaired `examples/`: it plants what it says, and devfix finds it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import mutation

        yield mutation
    finally:
        sys.path.remove(str(BENCHMARKS))


RIGHT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x):
        noise = torch.rand(4, device=x.device)
        return self.blocks[0](x) * self.scale + noise


def draw(n, device="cpu"):
    return torch.rand(n).to(device)


def train(loader, path):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net()
    model.blocks[1] = nn.Linear(4, 4)
    model.to(device)
    model.load_state_dict(torch.load(path, map_location=device))
    weight = torch.ones(4)
    weight = weight.to(device)
    if device.type == "cuda":
        print("fast")
    for x, y in loader:
        x = x.to(device)
        with torch.autocast(device.type):
            loss = model(x) * weight - y.to(device)
        (loss * draw(4, device=device)).sum().backward()
"""
# Kind -> what of RIGHT becomes what; "" for a line that goes.
CHANGED = {
    "move .to before the surgery": [
        ("    model.blocks[1] = nn.Linear(4, 4)\n    model.to(device)\n",
         "    model.to(device)\n    model.blocks[1] = nn.Linear(4, 4)\n")
    ],
    "drop a loop's moves": [("        x = x.to(device)\n", ""), ("y.to(device)", "y")],
    "drop the result of a tensor's .to": [("weight = weight.to(device)", "weight.to(device)")],
    "drop a module's .to": [("    model.to(device)\n", "")],
    "drop device= from a factory": [(", device=x.device", "")],
    "un-register a buffer": [
        ('self.register_buffer("scale", torch.ones(4), persistent=False)', "self.scale = torch.ones(4)")
    ],
    "ModuleList -> list": [
        ("nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])", "[nn.Linear(4, 4) for _ in range(2)]")
    ],
    "pass a device object to autocast": [("torch.autocast(device.type)", "torch.autocast(device)")],
    "drop map_location": [(", map_location=device", "")],
    "drop device= from a call": [("draw(4, device=device)", "draw(4)")],
    "compare a device with a string": [("if device.type ==", "if device ==")],
}  # fmt: skip


def planted(benchmark: Any, text: str = RIGHT) -> list[Any]:
    programs = benchmark.Programs(())
    programs.add("right.py", text)
    mutants: list[Any] = benchmark.mutants(programs, seed=0, limit=0)
    return mutants


@pytest.mark.parametrize("kind", CHANGED)
def test_plants_one_bug_of_each_kind(benchmark: Any, kind: str) -> None:
    want = RIGHT
    for old, new in CHANGED[kind]:
        assert want.count(old) == 1
        want = want.replace(old, new)
    assert want in [one.text for one in planted(benchmark) if one.kind == kind]


def test_drops_moves_one_by_one(benchmark: Any) -> None:
    texts = {one.text for one in planted(benchmark) if one.kind == "drop one of several moves"}
    assert texts == {RIGHT.replace("        x = x.to(device)\n", ""), RIGHT.replace("y.to(device)", "y")}


@pytest.mark.parametrize(
    "line",
    [
        "x = x.to(torch.float16)",
        "x = x.to('cpu')",
        "x = x.to(torch.device('cpu'))",
        "x = x.half()",
        "x = torch.zeros(3, device='cpu')",
        "x = torch.load(path)",
        "x = DataLoader(data)",
        "x = accelerator.prepare(x)",
    ],
)
def test_plants_nothing_where_there_is_nothing(benchmark: Any, line: str) -> None:
    assert (
        planted(benchmark, f"import torch\n\n\ndef f(x, data, path):\n    {line}\n    return x + 1\n") == []
    )


def test_every_mutant_parses_and_differs(benchmark: Any) -> None:
    mutants = planted(benchmark)
    assert {one.kind for one in mutants} == {*CHANGED, "drop one of several moves"}
    for one in mutants:
        ast.parse(one.text)
        assert one.text != RIGHT
        assert 0 <= one.region.start < one.region.end <= len(one.text)


def test_same_seed_same_mutants(benchmark: Any) -> None:
    programs = benchmark.Programs(())
    benchmark.own_programs(programs)
    chosen = [benchmark.mutants(programs, seed, 2) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    kinds = [one.kind for one in chosen[0]]
    assert max(map(kinds.count, kinds)) == 2


def test_on_the_examples(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Nearly all that is planted into the repaired examples is found; the folder stays as it is."""
    before = {path: path.read_bytes() for path in benchmark.EXAMPLES.rglob("*.py")}
    outcomes = benchmark.main(["--own", "--only", "examples/", "--all"])
    assert {path: path.read_bytes() for path in benchmark.EXAMPLES.rglob("*.py")} == before
    table = capsys.readouterr().out
    assert "drop a loop's moves" in table
    found = sum(outcome.found for outcome in outcomes)
    assert len(outcomes) >= 25
    assert found / len(outcomes) >= 0.6, table
    for kind in ("move .to before the surgery", "drop a loop's moves", "un-register a buffer"):
        assert all(outcome.found for outcome in outcomes if outcome.mutant.kind == kind), table


def test_a_run(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A mutant raises on simulated CUDA, and its repair runs there with the CPU's numbers."""
    arguments = ["--own", "--only", "reorder-to: The head is replaced", "--run", "--all"]
    outcomes = benchmark.main(arguments)
    surgery = [one for one in outcomes if one.mutant.kind == "move .to before the surgery"]
    assert [(one.raised, one.found, one.repaired, one.equal) for one in surgery] == [(True,) * 4]
    assert "1 programs that run by themselves" in capsys.readouterr().out


def test_a_finding_that_the_right_program_has_too_does_not_count(benchmark: Any) -> None:
    from devfix.codemod import registry

    text = RIGHT.replace("torch.autocast(device.type)", "torch.autocast(device)")
    programs = benchmark.Programs((registry()["normalize-device-type"](),))
    programs.add("right.py", text)
    assert programs.result("right.py").findings  # it is not right, and that is no merit
    mutants = benchmark.mutants(programs, 0, 0)
    assert mutants and not any(benchmark.judge(programs, None, one).found for one in mutants)


def test_same_code(benchmark: Any) -> None:
    assert benchmark.same_code("x = f( 1,\n  2)", "x = f(1, 2)  # so")
    assert not benchmark.same_code("x = f(1)", "x = f(2)")
