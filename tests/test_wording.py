"""Words that readers stumble over do not come back: in the documentation, in `--help` and in what devfix says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from doc_blocks import ROOT, pages

PACKAGE = ROOT / "codemods" / "devfix"
LINES = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").splitlines()
BANNED = [tuple(line.split("\t")) for line in LINES if line and not line.startswith("#")]


def said(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that people may read: its strings, and docstrings of commands and codemods."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = path.parent.name in ("commands", "rules")
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and body:
            shown = inside and not isinstance(node, ast.Module) and not node.name.startswith("_")
            first = body[0].value if isinstance(body[0], ast.Expr) else None
            if isinstance(first, ast.Constant) and not shown:
                first.value = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@cache
def texts() -> list[tuple[str, str]]:
    return list(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for page in pages():
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{page.relative_to(ROOT)}:{number}", line
    for path in sorted(PACKAGE.rglob("*.py")):
        for number, text in said(path):
            yield f"{path.relative_to(ROOT)}:{number}", text
    for path in sorted(PACKAGE.rglob("*.html")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


@pytest.mark.parametrize(("phrase", "better"), BANNED, ids=[phrase for phrase, _ in BANNED])
def test_nothing_says(phrase: str, better: str) -> None:
    pattern = re.compile(phrase.replace(" ", r"\s+"), re.IGNORECASE)
    found = [f"{where}: {pattern.search(text)[0]!r}" for where, text in texts() if pattern.search(text)]  # type: ignore[index]
    assert not found, f"write {better!r}:\n" + "\n".join(found)


def test_what_is_looked_at() -> None:
    """Pages, strings of f-strings, help and the descriptions of codemods; none of it is empty."""
    everything = "\n".join(text for _, text in texts())
    for known in ("# Python API", "is called without `", "List device bugs", "## Why is this bad?"):
        assert known in everything
