"""What holds for every codemod on every input, whatever the layout of the file."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from devfix.codemod import Codemod, Example, registry
from devfix.config import make
from devfix.documents import Document
from devfix.findings import Safety
from devfix.pipeline.runner import process
from devfix.reports.report import FileResult
from devfix.smoke import Runner, same_numbers
from devfix.testing import LAYOUTS
from planting import Planted, plant

REPAIRED = [
    pytest.param(codemod, example, id=f"{codemod.id}: {example.title}")
    for codemod in registry().values()
    for example in codemod.examples
    if example.after is not None and not example.recipe
]
DEFAULTS = [codemod() for codemod in registry().values() if codemod.default]
SEEDS = 25
LONG_SEEDS = 1500


def run(codemods: list[Codemod], data: bytes, level: Safety = Safety.SAFE) -> FileResult:
    result = process(Document.of("program.py", data), codemods, level)
    assert result.error is None, result.error
    return result


def comments(data: bytes) -> list[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("codemod", "example"), REPAIRED)
def test_the_layout_of_a_file_survives(codemod: type[Codemod], example: Example, layout: str) -> None:
    assert example.after is not None
    rule = make(codemod, dict(example.options))
    written = LAYOUTS[layout]
    after = run([rule], written(example.before), example.safety).after
    if layout == "tabs":  # what is inserted may be wrapped with spaces of its own
        assert after.replace(b"\t", b"    ") == example.after.encode()
    else:
        assert after == written(example.after)
    assert run([rule], after, example.safety).after == b"", "a second run changes something"


def repaired(program: Planted) -> bytes:
    """The program after `apply --unsafe`; unchanged where nothing is planted."""
    before = program.text.encode()
    result = run(DEFAULTS, before, Safety.UNSAFE)
    if not program.bug:
        assert result.findings == (), program.text
        return before
    after = result.after
    assert result.findings and after, f"{program.bug} not found in\n{program.text}"
    ast.parse(after)
    assert set(comments(before)) == set(comments(after))
    assert run(DEFAULTS, after, Safety.UNSAFE).after == b"", "a second run changes something"
    return after


def holds(seed: int, runner: Runner) -> None:
    program = plant(seed)
    after = repaired(program).decode()
    plain = runner.run(program.text, "cpu")
    assert plain.status == "ok", plain.error
    assert runner.run(after, "cpu").output == plain.output
    if program.bug:
        broken = runner.run(program.text, "cuda")
        assert broken.status == "raised", (program.bug, broken, program.text)
        assert "same device" in broken.error or "Expected all tensors" in broken.error
    moved = runner.run(after, "cuda")
    assert moved.status == "ok", (program.bug, moved.error, after)
    assert same_numbers(moved.output, plain.output)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_planted_raises_and_is_repaired(seed: int, runner: Runner) -> None:
    holds(seed, runner)


@pytest.mark.slow
def test_what_is_planted_raises_and_is_repaired_at_length(runner: Runner) -> None:
    for seed in range(SEEDS, LONG_SEEDS):
        holds(seed, runner)
