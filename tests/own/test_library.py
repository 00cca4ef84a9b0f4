"""`devfix.check` and `devfix.fix`: what the commands do, for programs."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import devfix
import devfix.api
import devfix.library
import devfix.results
import pytest
from authors import LIBCST, RULE, Ran
from devfix.codemod import registry
from devfix.own import known

Run = Callable[..., Ran]
Write = Callable[..., Path]
BUG = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(4, 2)
model.to(device)
x = torch.ones(3, 4)
print(model(x))
"""
FIXED = BUG.replace("model(x)", "model(x.to(device))")


def test_check_says_what_the_command_says(run: Run, write: Write) -> None:
    write("src/a.py", BUG)
    write("src/b.py", f"{BUG}print 'two'\n")
    data = json.loads(run("check", "--format", "json", "src").out)
    found = devfix.check("src")
    assert found.files == 2 and not found.clean
    (one,) = found.findings
    (shown,) = data["findings"]
    assert one.message == shown["message"] and one.codemod == shown["codemod"] == "move-inputs"
    assert str(one) == f"src/a.py:8:13: move-inputs {one.message}"
    (problem,) = found.problems
    assert problem.path == "src/b.py" and "Missing parentheses" in problem.message


def test_fix_says_what_the_command_prints(run: Run, write: Write) -> None:
    program = write("src/a.py", BUG)
    fixed = devfix.fix(Path("src"))
    assert fixed.patch.decode() == run("diff", "src").out
    assert [(one.path, one.before, one.after) for one in fixed.files] == [
        ("src/a.py", BUG.encode(), FIXED.encode())
    ]
    assert program.read_text() == BUG and fixed.written == ()
    written = devfix.fix("src", write=True)
    assert program.read_text() == FIXED and written.written == ("src/a.py",)
    assert run("undo").code == 0 and program.read_text() == BUG


def test_source_is_text_or_bytes() -> None:
    for source in (BUG, BUG.encode(), BUG.replace("\n", "\r\n")):
        fixed = devfix.fix(source=source)
        assert fixed.changed and "model(x.to(device))" in fixed.text
    latin = '# -*- coding: latin-1 -*-\n"""ä"""\n' + BUG
    assert devfix.fix(source=latin).text == latin.replace("model(x)", "model(x.to(device))")
    assert devfix.fix(source="x = 1\n").text == "x = 1\n"
    broken = devfix.fix(source=BUG + "x = (\n")
    assert broken.text == BUG + "x = (\n" and broken.problems and not broken.changed


def test_notebooks() -> None:
    cells = [{"cell_type": "code", "source": BUG, "outputs": [], "metadata": {}}]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    (finding,) = devfix.check(source=text, filename="n.ipynb").findings
    assert (finding.cell, finding.cell_line) == (1, 8)
    fixed = devfix.fix(source=text, filename="n.ipynb")
    assert json.loads(fixed.text)["cells"][0]["source"] == FIXED


def test_codemods_options_and_recipes(write: Write) -> None:
    known.load(str(write("../rules/mine.py", RULE)))
    write("../rules/commands.py", LIBCST)
    kind = known.Known()["no-alpha"]
    source = "alpha = 1\n"
    for codemods, options in (
        ([kind], {"no-alpha": {"to": "omega"}}),
        ([kind(to="omega")], None),
        (["no-alpha"], {"no-alpha": {"to": "omega"}}),
        (["../rules/mine.py"], {"no-alpha": {"to": "omega"}}),
        ([kind(to="omega"), "reorder-to"], None),
    ):
        assert devfix.fix(source=source, codemods=codemods, options=options).text == "omega = 1\n"
    libcst = ["libcst:../rules/commands.py:RenameCommand"]
    given = {"libcst-rename": {"old": "alpha"}}
    assert devfix.fix(source=source, codemods=libcst, options=given).text == source
    assert devfix.fix(source=source, codemods=libcst, options=given, unsafe=True).text == "fresh = 1\n"
    (finding,) = devfix.check(source=source, codemods=libcst, options=given).findings
    assert finding.safety is devfix.Safety.UNSAFE
    cuda = 'import torch\n\nx = torch.ones(3).to("cuda")\nprint(x)\n'
    assert "torch.accelerator" in devfix.fix(source=cuda, recipe="portable").text
    assert devfix.fix(source=cuda, recipe="portable", unsafe=False).text == cuda


def test_settings_count_or_not(write: Write) -> None:
    write("pyproject.toml", '[tool.devfix]\ncodemods = ["reorder-to"]\n')
    write("a.py", BUG)
    assert devfix.check("a.py").clean
    assert len(devfix.check("a.py", settings=False).findings) == 1
    assert len(devfix.check("a.py", codemods=["move-inputs"]).findings) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give paths, or source"),
        ({"source": "", "recipe": "portabel"}, "did you mean 'portable'"),
        ({"source": "", "codemods": ["x"]}, "unknown codemod 'x'"),
        ({"source": "", "codemods": "reorder-to"}, "codemods is a list"),
        ({"source": "", "options": {"assert-device": {"chek": "all"}}}, "did you mean 'check'"),
        ({"source": "", "recipe": "ci", "codemods": ["reorder-to"]}, "give one of them"),
    ],
)
def test_what_makes_no_sense(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(devfix.DevfixError, match=said):
        devfix.check(**arguments)  # type: ignore[arg-type]
    with pytest.raises(devfix.DevfixError, match="no file to write"):
        devfix.fix(source="", write=True)


def test_a_missing_file_is_a_problem() -> None:
    (problem,) = devfix.check("absent.py").problems
    assert problem.path == "absent.py"


def test_results_are_frozen() -> None:
    for kind in (devfix.Checked, devfix.Finding, devfix.Fixed, devfix.FixedFile, devfix.Problem):
        assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert set(devfix.__all__) <= set(dir(devfix))
    with pytest.raises(AttributeError):
        devfix.nonsense  # noqa: B018


def test_importing_devfix_imports_nothing_else() -> None:
    program = (
        "import sys\nbefore = set(sys.modules)\nimport devfix\n"
        "new = set(sys.modules) - before\n"
        "assert {n for n in new if n.startswith('devfix')} == {'devfix'}, new\n"
        "assert not {'libcst', 'torch', 'click', 'ast', 'dataclasses'} & new, new\n"
        "from devfix import check\nassert 'libcst' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_codemod_can_be_given_as_a_class() -> None:
    assert devfix.check(source="x = 1\n", codemods=list(registry().values())).clean


def test_what_a_notebook_shows(write: Write) -> None:
    write("src/a.py", BUG.replace("x = torch.ones(3, 4)", "x = torch.ones(3, 4)  # <b>"))
    write("src/b.py", f"{BUG}print 'two'\n")
    found = devfix.check("src")
    assert repr(found) == "<Checked: 1 finding in 2 files (1 move-inputs), and problems>"
    page = found._repr_html_()
    assert "src/a.py:8:13" in page and "fix (safe)" in page and "src/b.py" in page
    assert "<script" not in page
    fixed = devfix.fix("src")
    assert repr(fixed) == "<Fixed: 1 file changes (move-inputs), 0 findings left, and problems>"
    page = fixed._repr_html_()
    assert "+print(model(x.to(device)))" in page and "&lt;b&gt;" in page and "<b>\n" not in page
    assert "\n" not in repr(fixed.files[0]) and "print" not in repr(fixed.files[0])


def test_progress_and_the_cache(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    from devfix.pipeline.work import Task

    write("src/a.py", BUG)
    write("src/b.py", "import torch\n")
    analysed: list[str] = []
    real = Task.file
    monkeypatch.setattr(
        Task, "file", lambda self, path, *more: (analysed.append(path), real(self, path, *more))[1]
    )
    seen: list[tuple[int, int]] = []
    first = devfix.check("src", progress=lambda done, files: seen.append((done, files)))
    assert seen[-1] == (2, 2) and seen == sorted(seen)
    assert len(analysed) == 2
    assert devfix.check("src") == first and len(analysed) == 2
    assert devfix.check("src", cache=False) == first and len(analysed) == 4
    write("src/b.py", BUG)
    assert len(devfix.check("src").findings) == 2 and analysed[4:] == ["src/b.py"]


@pytest.mark.parametrize("module", [devfix.library, devfix.results], ids=lambda module: module.__name__)
def test_the_examples_of_docstrings_run(module: ModuleType) -> None:
    ran = doctest.testmod(module)
    assert ran.attempted and not ran.failed


@pytest.mark.parametrize(
    "name", sorted({*devfix.__all__, *devfix.api.__all__} - {"__version__", "UNKNOWN", "Edit"})
)
def test_everything_public_is_described(name: str) -> None:
    """Classes, their fields and methods; a field in its own docstring, or by its name in that of the class."""
    for module in (devfix, devfix.api):
        kind = getattr(module, name, None)
        if kind is None:
            continue
        text = inspect.getdoc(kind) or ""
        assert text and not text.startswith(f"{name}("), f"{name} has no docstring"
        if not isinstance(kind, type):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        described = {
            ast.unparse(one.target if isinstance(one, ast.AnnAssign) else one.targets[0])
            for one, after in pairwise(tree.body)
            if isinstance(one, (ast.Assign, ast.AnnAssign))
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        }
        fields = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        fields += [one.name for one in kind] if issubclass(kind, Enum) else []
        for field in fields:
            assert field in described or f"`{field}`" in text or field.startswith("_"), f"{name}.{field}"
        for method, value in vars(kind).items():
            if inspect.isfunction(value) or isinstance(value, property):
                assert method.startswith("_") or inspect.getdoc(value), f"{name}.{method}"
