"""Recipes inside notebooks: found, placed in their cells, and repaired where they are files or plain strings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.findings import Safety
from ran import Ran
from toolkit import LIN, checked, recipe, script

MORE = "\nscorer: !new:speechbrain.decoders.Searcher\n    linear: !ref <lin>\n"
HELD = recipe(LIN + MORE, "    search: !ref <search>\n").replace(
    "modules:", "search: !new:speechbrain.search.Search\n    scorer: !ref <scorer>\n\nmodules:"
)
SEARCH = """\
import torch


class Search(torch.nn.Module):
    def __init__(self, scorer):
        self.scorer = scorer
"""


def notebook(*cells: tuple[str, str]) -> str:
    made = [
        {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for kind, text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


LISTED = "    lin: !ref <lin>\n"
SHOWN = "the recipe is shown in a cell of text"
STRING = f'text = """{recipe()}"""\n'
OWN = script("x = self.modules.lin(x)")


def sources(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


@pytest.mark.parametrize(
    ("cells", "cell", "why"),
    [
        ([("code", "import torch\n"), ("markdown", f"As in\n\n```yaml\n{HELD}```\nit is.")], 2, SHOWN),
        ([("code", f"%%file -a train.yaml\n{HELD}")], 1, "the cell appends to a file"),
    ],
    ids=["shown", "added to a file"],
)
def test_found_and_left_alone(cells: list[tuple[str, str]], cell: int, why: str, tmp_path: Path) -> None:
    text = notebook(*cells)
    done = checked(tmp_path, "", "", **{"a.ipynb": text, "speechbrain/search.py": SEARCH})
    (finding,) = done.findings
    assert "`lin` is not under `modules:`" in finding.message
    assert finding.message.endswith(f"(change it by hand: {why})")
    assert (finding.fix, finding.place.cell) == (None, cell)
    assert "modules:" in text.splitlines()[finding.place.line - 1]
    assert "modules:" in cells[cell - 1][1].splitlines()[finding.place.cell_line - 1]
    assert [text.splitlines()[other.line - 1].strip()[:5] for other in finding.related] == ['"lin:']
    assert not done.report.changed


Cells = list[tuple[str, str]]


def listed(source: str) -> str:
    """A recipe's cell with `lin` behind the last entry of `modules:`."""
    at = source.rindex("<enc>\n") if "search: !ref <search>\n" not in source else source.rindex("<search>\n")
    at = source.index("\n", at) + 1
    return source[:at] + LISTED + source[at:]


FIXED: dict[str, tuple[Cells, tuple[int, ...]]] = {
    "written": ([("code", f"%%file train.yaml\n{HELD}")], (1,)),
    "with its script in another file": (
        [("code", f"%%writefile train.yaml\n{recipe()}"), ("code", f"%%file run.py\n{script()}")],
        (1,),
    ),
    "with the notebook's code": (
        [("code", "x = 1"), ("code", f"%%file train.yaml\n{recipe()}"), ("code", script())],
        (2, 3),
    ),
    "a string": ([("code", STRING), ("code", script())], (1, 2)),
    "a raw string, handed over": (
        [("code", f'%time x = 1\nmake(r"""\\\n{recipe()}""")'.replace("\\\n", "\n")), ("code", script())],
        (1, 2),
    ),
    "in the cell of the code": ([("code", STRING + script())], (1,)),
    "no newline at its end": ([("code", f"%%file train.yaml\n{recipe()}x: 1"), ("code", OWN)], (1,)),
}


@pytest.mark.parametrize("name", FIXED)
def test_repaired_in_its_cell(name: str, tmp_path: Path) -> None:
    """The recipe, and the notebook's own code with it; nothing else changes, and a second run says nothing."""
    cells, changed = FIXED[name]
    text = notebook(*cells)
    done = checked(tmp_path, "", "", **{"a.ipynb": text, "speechbrain/search.py": SEARCH})
    (finding,) = done.findings
    assert finding.fix is not None and finding.place.cell == changed[0]
    assert "modules:" in text.splitlines()[finding.place.line - 1]
    assert ("call it as" in finding.fix.title) is (len(changed) > 1)
    after = done.after("a.ipynb")
    expected = sources(text)
    expected[changed[0] - 1] = listed(expected[changed[0] - 1])
    for number in changed[1:]:
        expected[number - 1] = expected[number - 1].replace("self.hparams.lin", "self.modules.lin")
    assert sources(after) == expected
    before, now = text.splitlines(), after.splitlines()
    assert len(now) - len(before) == 1 and sum(line not in before for line in now) <= 1 + len(changed)
    again = checked(tmp_path / "again", "", "", **{"a.ipynb": after, "speechbrain/search.py": SEARCH})
    assert again.messages == []


def test_a_frozen_network_is_moved_in_the_notebooks_code(tmp_path: Path) -> None:
    more = "\npretrainer: !new:speechbrain.decoders.Keeper\n    loadables:\n        lin: !ref <lin>"
    text = notebook(("code", f"%%file train.yaml\n{recipe(LIN + more)}"), ("code", script()))
    after = sources(checked(tmp_path, "", "", **{"a.ipynb": text}).after("a.ipynb"))
    assert after[0] == sources(text)[0]
    assert 'run_opts=run_opts)\n    hparams["lin"].to(brain.device)\n' in after[1]


def test_several_and_the_code_of_the_same_notebook(tmp_path: Path) -> None:
    """Each fix is made in the notebook that the last one left, those of Python first."""
    entry = "{}: !new:speechbrain.nnet.linear.Linear\n    n_neurons: 2\n    input_size: 4\n"
    yaml = recipe("\n".join(entry.format(name) for name in ("one", "two")))
    use = "x = self.hparams.one(self.hparams.two(x))"
    text = notebook(("code", f"%%file train.yaml\n{yaml}"), ("code", script(use)))
    done = checked(tmp_path, "", "", **{"a.ipynb": text})
    (result,) = done.report.changed
    assert (len(done.findings), result.applied) == (2, 2) and not result.remaining
    after = sources(done.after("a.ipynb"))
    assert after[0].endswith("    enc: !ref <enc>\n    one: !ref <one>\n    two: !ref <two>\n")
    assert "x = self.modules.one(self.modules.two(x))" in after[1]


def test_a_source_in_one_string_stays_one(tmp_path: Path) -> None:
    made = json.loads(notebook(("code", f"%%file train.yaml\n{recipe()}"), ("code", OWN)))
    made["cells"][0]["source"] = "".join(made["cells"][0]["source"]).removesuffix("\n")
    text = json.dumps(made, indent=2)
    after = checked(tmp_path, "", "", **{"a.ipynb": text}).after("a.ipynb")
    assert after == text.replace('    enc: !ref <enc>"', '    enc: !ref <enc>\\n    lin: !ref <lin>"')


def test_the_patch_is_what_apply_does(tmp_path: Path, called: Callable[..., Ran]) -> None:
    """And `undo` brings every byte back."""
    text = notebook(*FIXED["with the notebook's code"][0])
    checked(tmp_path, "", "", **{"a.ipynb": text})
    (tmp_path / "recipes").rename(tmp_path / "away")

    patch = called("diff", "--unsafe", "a.ipynb", cwd=tmp_path).out
    called("apply", "--unsafe", "a.ipynb", cwd=tmp_path)
    applied = (tmp_path / "a.ipynb").read_text()
    assert applied != text
    called("undo", cwd=tmp_path)
    assert (tmp_path / "a.ipynb").read_text() == text
    git = subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, capture_output=True, timeout=60)
    assert git.returncode == 0, git.stderr
    assert (tmp_path / "a.ipynb").read_text() == applied


def test_only_what_the_level_allows(tmp_path: Path) -> None:
    text = notebook(("code", f"%%file train.yaml\n{recipe()}"), ("code", script()))
    done = checked(tmp_path, "", "", Safety.SAFE, **{"a.ipynb": text})
    assert len(done.findings) == 1 and not done.report.changed
    text = notebook(("code", f"%%file train.yaml\n{recipe()}"), ("code", OWN))
    done = checked(tmp_path / "b", "", "", Safety.SAFE, **{"a.ipynb": text})
    assert sources(done.after("a.ipynb"))[0].endswith(LISTED)


@pytest.mark.parametrize(
    "cell",
    [
        "text = f" + STRING.partition(" = ")[2],
        STRING.replace("size: 4", "size: {}").rstrip() + ".format(4)",
        STRING.replace("modules:", "modules:\\n"),
    ],
    ids=["filled in", "formatted", "with an escape"],
)
def test_a_string_that_is_not_the_text_is_not_read(cell: str, tmp_path: Path) -> None:
    text = notebook(("code", cell), ("code", script()))
    assert checked(tmp_path, "", "", **{"a.ipynb": text}).messages == []


def test_one_may_be_chosen(tmp_path: Path) -> None:
    from devfix.pipeline.runner import run_bytes
    from devfix.pipeline.selection import Selection, fingerprints
    from devfix.rules.list_in_modules import ListInModules

    cells = [(kind, text) for kind, text in FIXED["with the notebook's code"][0]]
    text = notebook(*cells, ("code", f"%%file other.yaml\n{recipe()}"))
    done = checked(tmp_path, "", "", **{"a.ipynb": text})
    path, codemods = done.report.changed[0].path, [ListInModules()]
    first, second = (print_ for _, _, print_ in fingerprints(done.report))
    for chosen, number in ((first, 1), (second, 3)):
        only = Selection(only=frozenset([chosen]))
        report = run_bytes(path, text.encode(), codemods, Safety.UNSAFE, selection=only)
        after = sources(report.changed[0].after.decode())
        assert [index for index in (1, 3) if LISTED in after[index]] == [number]


def test_what_is_right_is_silent(tmp_path: Path) -> None:
    right = recipe(more="    lin: !ref <lin>\n")
    cells = [
        ("code", f"%%file train.yaml\n{right}"),
        ("code", script()),
        ("markdown", f"```yaml\n{right}```"),
    ]
    assert checked(tmp_path, "", "", **{"a.ipynb": notebook(*cells)}).messages == []
