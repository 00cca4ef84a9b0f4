"""YAML files on their way through the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from devfix.findings import Safety
from devfix.pipeline.work import Task
from devfix.rules.list_in_modules import ListInModules
from toolkit import checked, recipe, script

LISTED = "    lin: !ref <lin>\n"


def test_files_that_are_no_recipes_cost_nothing(tmp_path: Path) -> None:
    """Not even the import of PyYAML."""
    (tmp_path / "a.yaml").write_text("modules:\n  - a\n")
    (tmp_path / "b.yml").write_text("a: !new:b.C\n")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe{{ not: [yaml")
    code = f"from devfix.cli import main\nassert main(['check', {str(tmp_path)!r}]) == 0\n"
    code += "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not {"yaml", "devfix.recipes.work"} & set(done.stdout.split())


def test_windows_newlines_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    text = "\ufeff" + recipe().replace("\n", "\r\n")
    done = checked(tmp_path, text)
    assert done.after("train.yaml") == text + LISTED.replace("\n", "\r\n")


def test_a_second_run_finds_nothing(tmp_path: Path) -> None:
    done = checked(tmp_path / "a", recipe())
    again = checked(tmp_path / "b", done.after("train.yaml"), done.after("train.py"))
    assert again.messages == []


def test_several_at_once(tmp_path: Path) -> None:
    entry = "{}: !new:speechbrain.nnet.linear.Linear\n    n_neurons: 2\n    input_size: 4\n"
    yaml = recipe("\n".join(entry.format(name) for name in ("one", "two", "three")))
    done = checked(
        tmp_path, yaml, script("x = self.hparams.one(self.hparams.two(x)) + self.modules.three(x)")
    )
    assert len(done.findings) == 3
    assert done.after("train.yaml") == yaml + "".join(
        f"    {n}: !ref <{n}>\n" for n in ("one", "two", "three")
    )
    assert "self.modules.one(self.modules.two(x)) + self.modules.three(x)" in done.after("train.py")


def test_a_file_may_be_skipped(tmp_path: Path) -> None:
    checked(tmp_path, "# devfix: skip-file\n" + recipe())
    path = str(tmp_path / "recipes" / "hparams" / "train.yaml")
    assert Task((ListInModules(),)).file(path).skipped == "devfix: skip-file"


@pytest.mark.parametrize("level", [Safety.SAFE, Safety.UNSAFE])
def test_nothing_of_a_fix_is_made_where_a_part_of_it_is_not_allowed(level: Safety, tmp_path: Path) -> None:
    from devfix.pipeline.discover import discover
    from devfix.pipeline.runner import run

    checked(tmp_path, recipe())
    found = discover([str(tmp_path)])
    report = run(found, [ListInModules()], level, jobs=1, may_change=lambda path: not path.endswith(".py"))
    assert report.findings == 1 and not report.changed
