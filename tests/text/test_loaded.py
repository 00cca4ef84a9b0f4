"""What is called before a name is bound: the call stands behind the name in `x = f()` and `for x in f():`."""

from __future__ import annotations

import ast

import pytest
from devfix.text.loaded import called_before
from devfix.text.source import Source

HEAD = "def f():\n    return here\n\n\n"
BEFORE = (
    "x = f()\n",
    "x, y = f(), 1\n",
    "for x, y in f():\n    print(x)\n",
    "for x in f():\n    pass\nx = 1\n",
    "with f() as x:\n    pass\n",
    "print((x := f()))\n",
    "x: int = f()\n",
    "f()\nx = 1\n",
)
AFTER = (
    "x = 1\nf()\n",
    "for x in range(3):\n    f()\n",
    "x = 1\nfor y in f():\n    pass\n",
    "x = f\n",
)


@pytest.mark.parametrize(
    ("program", "expected"), [*((one, True) for one in BEFORE), *((one, False) for one in AFTER)]
)
def test_called_before_a_name_is_bound(program: str, expected: bool) -> None:
    source = Source(HEAD + program)
    (at,) = (node for node in source.walk() if isinstance(node, ast.Name) and node.id == "here")
    assert called_before(source, "x", at) is expected
