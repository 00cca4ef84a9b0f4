"""docs/security.md: every line of its tables names tests, and all of those exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\|(?!-)(.*)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = [row for row in _ROW.findall(TEXT.partition("## The fault table")[0]) if not row.endswith("Test ")]


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[0].strip()[:50] for row in ROWS])
def test_every_line_has_a_test_that_exists(row: str) -> None:
    found = _TEST.findall(row.rpartition("|")[2])
    assert found, "no test is named"
    for path, name in found:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {
            node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }, f"{path}::{name}"


def test_there_are_lines() -> None:
    assert len(ROWS) > 30
