"""Looks at the text that stand in for slower ones: each says what the plain way says."""

from __future__ import annotations

import ast

import pytest
from devfix.project.importing import _IMPORT, statements_in
from devfix.text import parsed as kept
from devfix.text.source import children, walk


@pytest.mark.parametrize(
    "text",
    [
        "import a, b\nfrom c.d import (e,\n    import_f as g)\n# import h\nx = 1; import i\n",
        "if x:\n    from . import y\n\tfrom ..import_x import *\nfrom a import b, \\\n    c\nimport\n",
    ],
)
def test_import_statements(text: str) -> None:
    data = text.encode()
    assert [one[:3] for one in statements_in(data)] == _IMPORT.findall(data)
    assert _IMPORT.findall(data)


def test_walk_is_that_of_ast() -> None:
    with open(ast.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    shared = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
    assert walk(tree) == [node for node in ast.walk(tree) if not isinstance(node, shared)]
    for node in ast.walk(tree):
        assert children(node) == [c for c in ast.iter_child_nodes(node) if not isinstance(c, shared)]


def test_trees_are_shared_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept.parsed("x = 1  # shared\n")
    assert kept.parsed("x = 1  # shared\n") is first
    monkeypatch.setattr(kept, "CHARACTERS", 40)
    for number in range(9):
        kept.parsed(f"y = {number}  # fills up\n")
    assert 0 < sum(map(len, kept._kept)) <= 40
    again = kept.parsed("x = 1  # shared\n")
    assert again is not first and again.text == first.text
    nodes = again.parents
    again.forget()
    assert again.parents == nodes and again.parents is not nodes
