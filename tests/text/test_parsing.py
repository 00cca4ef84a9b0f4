"""Programs for Python 3.6, in which `async` was no keyword yet."""

from __future__ import annotations

import ast

import pytest
from applying import findings, fixed
from devfix.rules.move_inputs import MoveInputs
from devfix.text.parsing import parse
from devfix.text.source import Source

OLD = """
import torch

def train(model, loader):
    model = model.cuda()
    for x, y in loader:
        x = x.cuda(async=True)
        print(model(x) - y)
"""


def test_positions_are_those_of_the_file() -> None:
    source = Source(OLD)
    (move,) = (one for one in source.calls if "x.cuda" in source.code(one))
    assert source.code(move) == "x.cuda(async=True)" and move.keywords[0].arg == "non_blocking"
    assert source.code(move.keywords[0]) == "async=True"


def test_an_argument_of_any_other_function_keeps_out_of_the_way() -> None:
    (call,) = (one for one in ast.walk(parse("load(path, async = True)\n")) if isinstance(one, ast.Call))
    assert [one.arg for one in call.keywords] == ["Async"]


@pytest.mark.parametrize(
    "text", ["f(async=True", "x = 1\nprint x\nf(async=1)\n", "async == 1\n", "x.async = 1\n"]
)
def test_what_is_no_python_raises_as_before(text: str) -> None:
    with pytest.raises(SyntaxError) as told:
        parse(text)
    with pytest.raises(SyntaxError) as plain:
        ast.parse(text)
    assert str(told.value) == str(plain.value)


def test_such_a_program_is_analysed_and_fixed() -> None:
    after = fixed(MoveInputs(), OLD)
    assert "x = x.cuda(async=True)\n" in after and "y = y.to(" in after
    assert not findings(MoveInputs(), after)
