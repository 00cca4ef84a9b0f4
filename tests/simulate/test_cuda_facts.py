"""Simulated devices do what the facts say, and so does every GPU that has been asked."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from devfix.smoke import run_program
from facts import HEAD, Fact, facts, themes
from facts.__main__ import table
from facts.running import outcome
from packaging.version import Version
from record_cuda import RECORDED

TESTS = Path(__file__).resolve().parent
RECORDS = {path.stem: json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))}
PROGRAM = """
import json, sys, torch._dynamo  # which some facts import, each in a fork
sys.path.insert(0, {tests!r})
from facts import facts
from facts.running import outcomes
wanted = [fact for fact in facts({theme!r}) if fact.devices == {devices} and fact.available({version!r})]
print(json.dumps(outcomes(wanted, 2)))
"""
OLDEST = Version("2.9")  # before it, many texts were others: only those of the first table are known


@cache
def torch_version() -> str:
    done = run_program("import torch\nprint(torch.__version__)", "cuda")
    if done.device != "cuda (simulated)":
        pytest.skip(f"no simulated devices: {done.device} {done.error}")
    return done.output.strip()


def simulated(theme: str, devices: int) -> dict[str, str]:
    source = PROGRAM.format(tests=str(TESTS), theme=theme, devices=devices, version=torch_version())
    done = run_program(source, "cuda", timeout=300, devices=devices)
    assert done.status == "ok", done
    found: dict[str, str] = json.loads(done.output)
    return found


@pytest.mark.parametrize("theme", themes())
def test_simulated_devices(theme: str) -> None:
    if Version(torch_version()) < OLDEST and theme != "first":
        pytest.skip(f"the facts are those of torch {OLDEST} and later")
    known = {fact.id: fact for fact in facts(theme) if fact.available(torch_version())}
    found: dict[str, str] = {}
    for devices in sorted({fact.devices for fact in known.values()}):
        found |= simulated(theme, devices)
    wrong = [
        f"{fact.id}\n  is:        {found[fact.id]}\n  should be: {wanted(fact)}"
        for fact in known.values()
        if not agrees(fact, found[fact.id], torch_version())
    ]
    assert not wrong, "\n".join(wrong)
    assert found.keys() == known.keys()


def wanted(fact: Fact) -> str:
    return fact.simulated or fact.on(torch_version())


def agrees(fact: Fact, found: str, version: str) -> bool:
    """What is known to be otherwise may be told in short."""
    if fact.simulated:
        return found.startswith(fact.simulated) and found != fact.on(version)
    return found == fact.on(version)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_the_record_of_a_gpu(record: dict[str, object]) -> None:
    outcomes, version = record["outcomes"], str(record["torch"])
    assert isinstance(outcomes, dict)
    known = {fact.id: fact for theme in themes() for fact in facts(theme)}
    assert len(outcomes) >= 300
    assert outcomes.keys() <= known.keys(), "facts that are gone or have another name"
    wrong = {name: text for name, text in outcomes.items() if known[name].on(version) != text}
    assert not wrong


def test_the_facts_are_many_and_complete() -> None:
    known = [fact for theme in themes() for fact in facts(theme)]
    assert len(known) >= 300
    assert all("" in dict(fact.says) for fact in known)
    assert all(bool(fact.simulated) == bool(fact.why) for fact in known)
    agreeing = sum(not fact.simulated for fact in known) / len(known)
    assert agreeing >= 0.9, f"{agreeing:.1%} of the facts hold on simulated devices"


def test_the_table_of_the_docs() -> None:
    docs = TESTS.parent.parent / "docs" / "simulate.md"
    assert table() in docs.read_text(encoding="utf-8"), "put in what `python -m facts` prints"


def test_a_wrong_fact_is_seen() -> None:
    fact = Fact("theme", "name", "1 + 1", says=(("", "3"),))
    assert fact.program == f"{HEAD}\n\nshow(\n1 + 1\n)\n"
    assert outcome("show(1 + 1)") == "2" != fact.on("2.11.0")
    assert outcome("1 / 0") == "ZeroDivisionError: division by zero"
