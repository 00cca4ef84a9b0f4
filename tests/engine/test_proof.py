"""The benchmarks that judge the engine by runs, in short: generated programs, other words, claims."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from devfix.smoke import Runner

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
SEEDS = range(30)
CODEMODS = ("register-buffer", "lengths-on-cpu", "one-device")


@pytest.fixture(scope="module")
def proof() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import generated
        import metamorphic
        import soundness
        from proof import shrinking, simulated, transforming

        modules = (generated, metamorphic, soundness, shrinking, simulated, transforming)
        yield {one.__name__.rpartition(".")[2]: one for one in modules}
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def runner(proof: dict[str, ModuleType], runner: Runner) -> Runner:
    try:
        list(proof["simulated"].run(runner, [proof["simulated"].Program("import torch")]))
    except RuntimeError as error:
        pytest.skip(f"not checked: {error}")
    return runner


def test_generated_programs(proof: dict[str, ModuleType], runner: Runner) -> None:
    """Right programs run, those with a fault raise; the engine finds the faults and makes up none."""
    generated, run = proof["generated"], proof["simulated"].run
    some = list(generated.cases(SEEDS))
    ended = list(run(runner, [one.program for one in some]))
    assert [one.fault is None for one in some] == [not one.error for one in ended]
    assert all(one.raises for one in ended if one.error)
    verdicts = Counter(generated.judge(*one, "engine").verdict for one in zip(some, ended, strict=True))
    assert verdicts == {"silent": 30, "found": 30}


def test_each_fault_is_on_its_line(proof: dict[str, ModuleType]) -> None:
    generated = proof["generated"]
    for case in generated.cases(SEEDS):
        if case.fault is not None:
            right, wrong = case.made.text().split("\n"), case.made.text(case.fault).split("\n")
            differ = {i for i, (a, b) in enumerate(zip(right, wrong, strict=True), 1) if a != b}
            assert differ and differ <= case.made.lines(case.fault)


def test_the_judge_tells_misses_from_false_alarms(proof: dict[str, ModuleType]) -> None:
    generated, simulated = proof["generated"], proof["simulated"]
    right, wrong = list(generated.cases([1]))
    fine, raised = (
        simulated.Ended(),
        simulated.Ended("RuntimeError: Expected all tensors to be on the same device"),
    )
    assert generated.judge(right, raised, "engine").verdict == "missed"
    assert generated.judge(wrong, fine, "engine").verdict == "false alarm"


def test_programs_are_made_small(proof: dict[str, ModuleType]) -> None:
    text = "import os\nx = 1\nif x:\n    for i in range(3):\n        y = x\n        print('here')\nz = 2\n"
    small = proof["shrinking"].shrunk(text, lambda texts: ["here" in one for one in texts])
    assert ast.unparse(ast.parse(small)) == "print('here')"


def test_other_words(proof: dict[str, ModuleType], runner: Runner) -> None:
    """What is found in an example is found in each program that does the same."""
    found = list(proof["metamorphic"].tried(runner, CODEMODS, ("engine",)))
    assert {one.name for one in found} > set(proof["transforming"].VALUES)
    lost = [f"{one.codemod}: {one.title}: {one.name}" for one in found if one.before - one.after]
    assert found and not lost


def test_claims(proof: dict[str, ModuleType], runner: Runner) -> None:
    """Of what names are bound to, the engine claims the most, and nothing that is not so."""
    soundness, simulated = proof["soundness"], proof["simulated"]
    texts = [ast.unparse(ast.parse(one.program.text)) for one in proof["generated"].cases(SEEDS)]
    counts: Counter[str] = Counter()
    for text, ended in zip(
        texts, simulated.run(runner, [simulated.Program(one) for one in texts], trace=True), strict=True
    ):
        for verdict, what in soundness.verdicts(text, ended.seen):
            assert verdict != "contradicted", what
            counts[verdict] += 1
    assert counts["true"] + counts["relative"] > 0.65 * counts.total()


def test_a_wrong_claim_is_seen(proof: dict[str, ModuleType]) -> None:
    soundness, Seen = proof["soundness"], proof["simulated"].Seen
    text = "import torch\nx = torch.ones(3)\n"
    assert [one for one, _ in soundness.verdicts(text, [Seen(2, "x", "tensor", "cpu")])] == ["true"]
    assert [one for one, _ in soundness.verdicts(text, [Seen(2, "x", "tensor", "cuda:0")])] == [
        "contradicted"
    ]
    assert [one for one, _ in soundness.verdicts(text, [Seen(2, "x", "module", "cpu")])] == ["contradicted"]
