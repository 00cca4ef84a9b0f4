"""What is too large is left out, and the report says so."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.pipeline import budget
from devfix.pipeline.budget import TooLarge, check

HEAD = "import torch\nfrom torch import nn\ndevice = torch.device('cuda')\nm = nn.Linear(3, 3).to(device)\n"
STRAY = "m(torch.zeros(3))\n"


@dataclass
class Ran:
    """What one run of the program said."""

    exit_code: int
    found: dict[str, Any]


@pytest.fixture
def ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Ran]:
    """Runs the program in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(path: str) -> Ran:
        code = main(["check", "--format", "json", "--no-cache", "--jobs", "1", path])
        return Ran(code, json.loads(capsys.readouterr().out))

    return run


def refused(text: str) -> str:
    """Why a text is left out; empty where it is not."""
    try:
        check(text, ast.parse(text))
    except TooLarge as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in {"STATEMENTS": 20, "FUNCTIONS": 10, "DEPTH": 5}.items():
        monkeypatch.setattr(budget, name, limit)


def test_statements_of_a_function() -> None:
    text = "def f(a):\n" + "    a += 1\n" * 20
    assert refused(text) == ""
    said = "the function `f` has 21 statements, of at most 20 that devfix analyses; the file is left out"
    assert refused(text + "    return a\n") == said
    nested = "class C:\n    async def f(a):\n        if a:\n" + "            a += 1\n" * 20
    assert refused(nested).startswith("the function `f` has 21 statements")
    assert refused("def f(a):\n    try: a()\n    except E:\n" + "        a; a\n" * 10).startswith(
        "the function `f`"
    )


def test_statements_outside_of_functions() -> None:
    assert refused("a = 1\n" * 20) == ""
    assert refused("a = 1\n" * 21).startswith(
        "the file has 21 statements outside of functions, of at most 20"
    )
    assert refused("a = 1; b = 2; " * 11 + "c = 3").startswith("the file has 23 statements")
    functions = "".join(f"def f{i}():\n" + "    a = 1\n" * 9 for i in range(9))
    assert refused(functions) == ""  # 81 of them, in nine functions
    assert refused("x = [\n" + "    1,\n" * 100 + "]\n") == ""


def test_functions() -> None:
    assert refused("def f(): pass\n" * 10) == ""
    assert refused("class C:\n" + "    def f(self): pass\n" * 11).startswith(
        "the file has 11 functions, of at most 10"
    )


def test_classes_in_depth() -> None:
    def chain(n: int) -> str:
        return "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(n))

    assert refused(chain(5)) == ""
    assert refused(chain(6)).startswith("the file has 6 classes that derive from each other, of at most 5")
    assert refused("".join(f"class C{i}(Base): pass\n" for i in range(10))) == ""
    refused("".join(f"class C{i}(C{(i + 1) % 7}): pass\n" for i in range(7)))  # a circle comes to an end


@pytest.mark.parametrize("text", ["def f():\n" + "    m(torch.zeros(3))\n" * 30, "m(torch.zeros(3))\n" * 30])
def test_the_report_says_so(ran: Callable[[str], Ran], text: str) -> None:
    Path("large.py").write_text(HEAD + text)
    Path("small.py").write_text(HEAD + STRAY)
    result = ran(".")
    assert result.exit_code == 2
    found = result.found
    assert {one["path"] for one in found["findings"]} == {"small.py"}
    assert [one["path"] for one in found["errors"]] == ["large.py"]
    assert "of at most 20 that devfix analyses; the file is left out" in found["errors"][0]["message"]


def test_a_large_file_that_others_import(ran: Callable[[str], Ran]) -> None:
    """It is as good as not there for them, and they are analysed."""
    Path("pyproject.toml").write_text("")
    Path("large.py").write_text("def f(x):\n    return x\n" + "a = 1\n" * 30)
    Path("small.py").write_text("from large import f\n" + HEAD + STRAY)
    result = ran("small.py")
    assert result.exit_code == 1 and result.found["errors"] == []


@pytest.mark.parametrize("limit", ["ENTRIES", "LONGEST", "MOST"])
def test_recipes(ran: Callable[[str], Ran], monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    home = "devfix.recipes.recipe" if limit == "ENTRIES" else "devfix.documents.yaml"
    monkeypatch.setattr(f"{home}.{limit}", 10)
    lines = "".join(f"v{i}: {i}\n" for i in range(10))
    Path("train.yaml").write_text(f"{lines}net: !new:torch.nn.Linear\nmodules:\n    net: !ref <net>\n")
    result = ran("train.yaml")
    found = result.found
    assert result.exit_code == 2
    assert "of at most 10 that devfix analyses; the file is left out" in found["errors"][0]["message"]


def test_findings_that_are_left_out(ran: Callable[[str], Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devfix.engine.analysis.MISMATCHES", 3)
    path = Path("x.py")
    line = "m.to(device)\nm(torch.zeros({i}))\n"
    for count, code in ((3, 1), (5, 2)):
        path.write_text(HEAD + "".join(line.format(i=i) for i in range(count)))
        result = ran("x.py")
        found = result.found
        assert (result.exit_code, bool(found["errors"])) == (code, code == 2)
        assert len(found["findings"]) >= 3
