"""Every example of every codemod: what the codemod makes of it, and what torch says to both."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from devfix.codemod import Codemod, Example, registry
from devfix.config import make
from devfix.documents import Document
from devfix.findings import Safety
from devfix.pipeline.runner import process
from devfix.reports.report import FileResult
from devfix.smoke import check_example, numbers, run_program


@dataclass(frozen=True)
class Case:
    codemod: type[Codemod]
    example: Example

    def process(self, text: str, level: Safety) -> FileResult:
        codemod = make(self.codemod, dict(self.example.options))
        result = process(Document.of("example.py", text.encode()), [codemod], level)
        assert result.error is None
        return result


CASES = [Case(codemod, example) for codemod in registry().values() for example in codemod.examples]

each_case = pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.codemod.id}: {case.example.title}" for case in CASES]
)
# Those with a recipe are files in a folder: see tests/rules/test_list_in_modules.py.
TEXTS = [case for case in CASES if not case.example.recipe]
each_text = pytest.mark.parametrize(
    "case", TEXTS, ids=[f"{case.codemod.id}: {case.example.title}" for case in TEXTS]
)
each_codemod = pytest.mark.parametrize("codemod", registry().values(), ids=registry())


@each_codemod
def test_has_examples(codemod: type[Codemod]) -> None:
    titles = [example.title for example in codemod.examples]
    assert len(titles) == len(set(titles))
    assert any(example.after is not None for example in codemod.examples), "none that is repaired"
    assert any(example.after is None for example in codemod.examples), "none that is left alone"


@each_text
def test_gives_what_the_example_says(case: Case) -> None:
    before, after = case.example.before, case.example.after
    result = case.process(before, case.example.safety)
    if after is None:
        assert result.findings == ()
        assert result.after == b""
        return
    assert {finding.codemod for finding in result.findings} == {case.codemod.id}
    assert result.after.decode() == after
    if case.example.safety < Safety.SAFE:  # it takes a lower level to get all of it
        assert case.process(before, Safety(case.example.safety + 1)).after.decode() != after


@each_text
def test_a_second_run_changes_nothing(case: Case) -> None:
    result = case.process(case.example.after or case.example.before, case.example.safety)
    assert result.after == b""
    assert not [f for f in result.findings if f.fix is not None and f.fix.safety >= case.example.safety]


def check_with_torch(case: Case) -> None:
    verdicts = list(check_example(case.example))
    assert [verdict.detail for verdict in verdicts if verdict.ok is False] == []
    unchecked = [verdict.detail for verdict in verdicts if verdict.ok is None]
    if unchecked:
        pytest.skip("; ".join(unchecked))
    ran = verdicts[1 if case.example.raises_on_cpu else 0].run
    assert numbers(ran.output), "an example prints numbers, or there is nothing to compare"


@pytest.fixture(scope="module")
def place() -> str:
    return run_program("", "cuda").device


@each_case
def test_runs_with_torch(case: Case, place: str) -> None:
    """On the CPU and on simulated CUDA."""
    if place != "cuda (simulated)":
        pytest.skip(f"there is a real GPU: {place}")
    check_with_torch(case)


@pytest.mark.cuda
@each_case
def test_runs_on_a_real_gpu(case: Case) -> None:
    check_with_torch(case)
