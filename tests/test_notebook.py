"""Notebooks: one text out of the cells, and every byte outside the changed lines stays."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devfix.documents import DocumentError, document_of
from devfix.documents.notebook import Notebook
from devfix.findings import Safety
from devfix.pipeline.runner import process
from devfix.reports.report import FileResult
from devfix.rules.move_inputs import MoveInputs
from devfix.rules.reorder_to import ReorderTo
from ran import Ran

SETUP = """\
%matplotlib inline
!pip install torch \\
    numpy
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)"""
MOVE = "model.to(device)\nprint('größe')"
HEAD = "files = !ls\nmodel.head = nn.Linear(2, 3)"
LAST = "model(torch.ones(1, 4).to(device))"


def code(source: str, as_list: bool = True) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "outputs": [{"data": {"text/plain": ["import torch"]}, "output_type": "display_data"}],
        "source": source.splitlines(keepends=True) if as_list else source,
    }


def notebook(*cells: dict[str, Any], **layout: Any) -> bytes:
    body = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    end = layout.pop("end", "\n")
    return (json.dumps(body, **{"indent": 1, "ensure_ascii": False, **layout}) + end).encode()


STORY = (
    {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]},
    code(SETUP),
    code("%%bash\nmodel.to(device)"),
    code(MOVE),
    code(HEAD),
    code(LAST),
)


def run(data: bytes) -> FileResult:
    result = process(document_of("a.ipynb", data), [ReorderTo(), MoveInputs()], Safety.UNSAFE)
    assert result.error is None, result.error
    return result


@pytest.mark.parametrize(
    "layout",
    [{}, {"indent": 4}, {"indent": None}, {"end": ""}, {"ensure_ascii": True}, {"separators": (",", ":")}],
    ids=str,
)
def test_only_the_sources_that_change_do(layout: dict[str, Any]) -> None:
    before = notebook(*STORY, **layout)
    after = run(before).after
    cells = list(STORY)
    cells[3] = code("print('größe')")
    cells[4] = code(HEAD + "\nmodel.to(device)")
    assert after == notebook(*cells, **layout)
    assert run(after).after == b"", "a second run changes something"


def test_a_source_that_is_one_string() -> None:
    before = notebook(code(SETUP, False), code(MOVE, False), code(HEAD, False))
    after = json.loads(run(before).after)
    assert after["cells"][1]["source"] == "print('größe')"
    assert after["cells"][2]["source"] == HEAD + "\nmodel.to(device)"


def test_odd_escapes_in_untouched_lines_stay() -> None:
    before = notebook(*STORY).replace("größe".encode(), rb"gr\u00F6\u00dfe")
    assert rb"gr\u00F6\u00dfe" in run(before).after


@pytest.mark.parametrize(
    "parts", [["# a\x0c", "b\u2028", "c\n"], ["# a\x0cb\u2028c\n"]], ids=["Jupyter", "others"]
)
def test_form_feeds_end_a_line_where_they_did(parts: list[str]) -> None:
    head = {**code(HEAD), "source": [*parts, *code(HEAD)["source"]]}
    after = run(notebook(code(SETUP), code(MOVE), head)).after
    assert json.loads(after)["cells"][2]["source"] == [*parts, *code(HEAD + "\nmodel.to(device)")["source"]]


def test_nothing_to_do_changes_no_byte() -> None:
    document = document_of("a.ipynb", notebook(*STORY))
    assert document.encode(document.text) == document.data


def test_says_cell_and_line() -> None:
    (finding,) = run(notebook(*STORY)).findings
    assert (finding.place.cell, finding.place.cell_line, finding.place.column) == (5, 2, 1)
    lines = notebook(*STORY).decode().split("\n")
    assert "model.head" in lines[finding.place.line - 1]
    assert "cell 4, line 1" in finding.message


def test_a_cell_that_does_not_parse_is_skipped_alone() -> None:
    result = run(notebook(code("print 'Python 2'"), *STORY))
    assert result.after and "cell 1: line 1" in result.skipped


def test_magics_that_are_code_and_magics_that_are_not() -> None:
    document = document_of(
        "a.ipynb", notebook(code("%%time\nx = 1"), code("%%html\n<b>"), code("%%capture out\ny = 1"))
    )
    assert isinstance(document, Notebook)
    assert [cell.number for cell in document.cells] == [1, 3]
    assert "#%time\nx = 1" in document.text


@pytest.mark.parametrize(
    "line",
    [
        *(
            "    !ls",
            "    %x",
            "    !w",
            "    !lsx",
            "    %cd x",
            "?int",
            "torch.*Tensor?",
            "torch.nn.Module??",
        ),
        *("pip install torch", "conda install -y pytorch", "files = !ls", "!a \\\n  b \\\n  c"),
    ],
)
def test_what_only_ipython_takes(line: str) -> None:
    """Masked at equal length, as a statement where the block has no other, and back again."""
    source = ("if a:\n" if line.startswith(" ") else "") + line + "\nx = 1\n"
    document = document_of("a.ipynb", notebook(code(source)))
    assert isinstance(document, Notebook)
    assert document.problems == () and len(document.cells) == 1
    body = document.text.partition("\n")[2]
    assert [len(part) for part in body.splitlines()] == [len(part) for part in source.splitlines()]
    changed = document.encode(document.text.replace("x = 1", "x = 2"))
    assert changed == notebook(code(source.replace("x = 1", "x = 2")))


@pytest.mark.parametrize(
    "source",
    [
        "print('%d, %d' \\\n      % (1, 2))",
        "x = (7\n  % 2)",
        'text = """\n%matplotlib\n!ls\nwhat?\npip install x\n"""',
        "text = '''a\\'\n%b'''",
        "pip = 1\nx = pip\n# what?",
    ],
)
def test_what_python_takes_is_not_masked(source: str) -> None:
    document = document_of("a.ipynb", notebook(code(source)))
    assert isinstance(document, Notebook)
    assert document.text.partition("\n")[2] == source + "\n"


def test_a_value_that_the_notebook_displays_is_not_dropped() -> None:
    first = SETUP.replace("model = nn.Linear(4, 2)", "x = torch.ones(2)")
    for last, number in [("x.to(device)", 0), ("x.to(device)  # shown", 0), ("x.to(device);", 1)]:
        for cells in [(code(first), code(last)), (code(first), code(last), code("y = 1"))]:
            assert len(run(notebook(*cells)).findings) == number, last
    used = (code(first), code("x.to(device)"), code("y = x + torch.ones(2).to(device)"))
    assert len(run(notebook(*used)).findings) == 1
    assert len(run(notebook(code(first), code("x.to(device)\nprint(x)"))).findings) == 1


def test_cells_that_do_not_parse_are_said(tmp_path: Path, called: Callable[..., Ran]) -> None:
    (tmp_path / "story.ipynb").write_bytes(notebook(code("print 'Python 2'"), *STORY))
    for command in ("check", "diff", "apply"):
        done = called(command, ".", cwd=tmp_path)
        assert "story.ipynb: left out cells that do not parse: cell 1: line 1" in done.err
        assert "left out" not in done.text


def test_masking_keeps_lengths() -> None:
    source = "if a:\n    %cd x\n    !ls\nfiles = !ls *.py\nfor f in files:\n    !rm x\n"
    document = document_of("a.ipynb", notebook(code(source)))
    body = document.text.partition("\n")[2]
    assert [len(line) for line in body.splitlines()] == [len(line) for line in source.splitlines()]


def test_an_edit_across_cells_is_refused() -> None:
    document = document_of("a.ipynb", notebook(*STORY))
    with pytest.raises(DocumentError, match="border of cell"):
        document.encode(document.text.replace("# %% [cell 4]", ""))
    with pytest.raises(DocumentError, match="magic or shell line"):
        document.encode(document.text.replace("#matplotlib", "#pylab"))


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"nbformat": 3, "worksheets": []}', b"\xff\xfe"])
def test_what_is_no_notebook_is_an_error(data: bytes) -> None:
    with pytest.raises(DocumentError):
        document_of("a.ipynb", data)


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "R"}},
        {"kernelspec": {"name": "ir"}, "language_info": {"name": "R"}},
        {"language_info": {"name": "julia"}},
    ],
    ids=str,
)
def test_other_languages_are_left_alone(metadata: dict[str, Any]) -> None:
    data = json.dumps({**json.loads(notebook(*STORY)), "metadata": metadata}).encode()
    assert document_of("a.ipynb", data).text == ""


def test_git_applies_the_patch(tmp_path: Path, called: Callable[..., Ran]) -> None:
    path = tmp_path / "story.ipynb"
    path.write_bytes(notebook(*STORY))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    checked = called("check", "--format", "json", ".", cwd=tmp_path).out
    (finding,) = json.loads(checked)["findings"]
    assert (finding["cell"], finding["cell_line"]) == (5, 2)
    patch = called("diff", "--explain", ".", cwd=tmp_path).out
    subprocess.run(["git", "apply"], input=patch, cwd=tmp_path, check=True)
    assert path.read_bytes() == run(notebook(*STORY)).after
