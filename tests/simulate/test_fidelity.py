"""The simulator says what CUDA says, and allows what CUDA allows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from devfix.smoke import Run, run_program
from fidelity import ALLOWED, RAISED, Mix
from record_cuda import FOLDER, outcome

RECORDS = {path.stem: json.loads(path.read_text()) for path in sorted(Path(FOLDER).glob("*.json"))}


def named(mix: Mix) -> str:
    return mix.name


def run(mix: Mix) -> Run:
    done = run_program(mix.program, "cuda", devices=mix.devices)
    if "cannot be simulated" in done.error or "needs 2 CUDA devices" in done.error:
        pytest.skip(done.error)
    return done


@pytest.mark.parametrize("mix", RAISED, ids=named)
def test_what_cuda_refuses(mix: Mix) -> None:
    done = run(mix)
    assert outcome(done.status, done.output, done.error) in {f"{mix.error}: {text}" for text in mix.texts}


@pytest.mark.parametrize("mix", ALLOWED, ids=named)
def test_what_cuda_allows(mix: Mix) -> None:
    done = run(mix)
    assert outcome(done.status, done.output, done.error) == mix.result


def test_the_table_is_one() -> None:
    names = [mix.name for mix in (*RAISED, *ALLOWED)]
    assert len(names) == len(set(names))
    assert all(mix.texts and not mix.result for mix in RAISED)
    assert all(mix.result and not mix.texts for mix in ALLOWED)


@pytest.mark.skipif(not RECORDS, reason="nothing has been recorded on a real GPU yet; see record_cuda.py")
@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_as_recorded_on_a_real_gpu(record: dict[str, dict[str, str]]) -> None:
    differ = {}
    for mix in (*RAISED, *ALLOWED):
        expected = record["outcomes"].get(mix.name)
        allowed = {mix.result} if mix.result else {f"{mix.error}: {text}" for text in mix.texts}
        if expected is not None and expected not in allowed:
            differ[mix.name] = (expected, allowed)
    assert not differ
