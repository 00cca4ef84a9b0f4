"""The benchmark of real bugs: its manifest, its layout from clones, its adapters and its score, on a small project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARK = ROOT / "benchmarks" / "real_bugs"
sys.path.insert(0, str(BENCHMARK))

import adapters  # noqa: E402
import layout  # noqa: E402
import score  # noqa: E402

BEFORE = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.head = nn.Linear(4, 2)
print(model(torch.zeros(1, 4, device=device)))
"""
AFTER = BEFORE.replace(
    "model.to(device)\nmodel.head = nn.Linear(4, 2)\n", "model.head = nn.Linear(4, 2)\nmodel.to(device)\n"
)
PATCH = """\
--- a/pkg/train.py
+++ b/pkg/train.py
@@ -5,4 +5,4 @@
 model = nn.Sequential(nn.Linear(4, 4))
-model.to(device)
 model.head = nn.Linear(4, 2)
+model.to(device)
 print(model(torch.zeros(1, 4, device=device)))
"""


def test_the_manifest_is_facts_only() -> None:
    cases, clean = layout.cases(), layout.clean()
    assert len(cases) == 141 and len({case.id for case in cases}) == 141
    assert len(clean) == 109 and len({file.id for file in clean}) == 109
    for case in cases:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", case.repo) and case.id[0] == case.cls
        for commit in (case.parent_commit, case.fix_commit):
            assert re.fullmatch(r"[0-9a-f]{40}", commit)
        assert case.hunks_before and case.buggy_line_in_parent > 0
        assert case.what and "\n" not in case.what and len(case.what) < 300
    assert not {case.repo for case in cases if not case.path.endswith((".py", ".ipynb", ".yaml", ".yml"))}


def test_the_readme_counts_them() -> None:
    text = (BENCHMARK / "README.md").read_text(encoding="utf-8")
    counts = Counter(case.cls for case in layout.cases())
    for cls, number in counts.items():
        assert re.search(rf"^\| {cls} \|.*\| {number} \|$", text, re.MULTILINE), cls
    assert f"in {len({case.repo for case in layout.cases()})} public repositories" in text
    assert f"of {len({file.repo for file in layout.clean()})} repositories" in text


def test_results_belong_to_the_manifest() -> None:
    ids = [case.id for case in layout.cases()]
    for path in (BENCHMARK / "results").glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        assert [case["id"] for case in data["cases"]] == ids, path.name
        assert data["clean"]["files"] == len(layout.clean()), path.name


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two commits, cloned, and its bug and a clean file laid out from the clone."""
    root = tmp_path_factory.mktemp("real-bugs")
    work = root / "work"
    (work / "pkg").mkdir(parents=True)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    git = lambda *words: subprocess.run(  # noqa: E731
        ["git", "-C", str(work), *identity, *words], check=True, capture_output=True, text=True
    ).stdout.strip()
    git("init", "-q")
    commits = []
    for text in (BEFORE, AFTER):
        (work / "pkg" / "train.py").write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", "x")
        commits.append(git("rev-parse", "HEAD"))
    subprocess.run(
        ["git", "clone", "-q", "--bare", str(work), str(root / "clones" / "some+project")], check=True
    )
    laid = layout.Layout(root / "clones", root / "files")
    laid.case(case(parent_commit=commits[0], fix_commit=commits[1]))
    laid.clean(layout.Clean("N1", "some/project", commits[1], "pkg/train.py", "it is"))
    laid.clean(layout.Clean("N2", "no/clone", commits[1], "pkg/train.py", "it is"))
    assert laid.absent == {"no/clone": 1}
    return root / "files"


def case(**more: Any) -> layout.Case:
    facts: dict[str, Any] = {
        "id": "A001", "cls": "A", "variant": "head", "repo": "some/project", "parent_commit": "", "fix_commit": "",
        "path": "pkg/train.py", "parent_path_if_different": None, "buggy_line_in_parent": 6, "fixed_line_in_fix": 7,
        "hunks_before": ((6, 1), (7, 0)), "hunks_after": ((7, 1),), "what": "x", "locality": "same-function",
        "single_file_fixable": True, "notebook": False, "after_expected_silent": True, "confidence": "strong",
    }  # fmt: skip
    return layout.Case(**{**facts, **more})


def test_files_are_laid_out(laid_out: Path) -> None:
    assert (laid_out / "A001/before/pkg/train.py").read_text() == BEFORE
    assert (laid_out / "A001/after/pkg/train.py").read_text() == AFTER
    assert (laid_out / "clean/N1/pkg/train.py").read_text() == AFTER


def test_devfix(laid_out: Path, typed: Path) -> None:
    tool = adapters.Devfix(str(typed / "devfix"))
    result = score.score(case(), laid_out, tool)
    assert result is not None and (result.found, result.fixed, result.silent) == (True, True, True)
    assert result.by == ("reorder-to",) and result.noise == 0
    assert score.loud(layout.Clean("N1", "", "", "", ""), laid_out, tool) == []
    assert (laid_out / "A001/before/pkg/train.py").read_text() == BEFORE


def test_patches(laid_out: Path, tmp_path: Path) -> None:
    """Answers of anybody: found and fixed where they change the place, broken where they do not apply."""
    none = score.score(case(), laid_out, adapters.Patches(tmp_path))
    assert none is not None and not none.found and none.silent
    (tmp_path / "A001.patch").write_text(PATCH)
    changes = adapters.Patches(tmp_path).findings(laid_out / "A001" / "before", "A001")
    assert [(one.path, one.line) for one in changes] == [("pkg/train.py", 6), ("pkg/train.py", 7)]
    good = score.score(case(), laid_out, adapters.Patches(tmp_path))
    assert good is not None and (good.found, good.fixed) == (True, True)
    far = score.score(
        case(hunks_before=((80, 1),), buggy_line_in_parent=80), laid_out, adapters.Patches(tmp_path)
    )
    assert far is not None and not far.found and far.noise
    (tmp_path / "A001.patch").write_text(PATCH.replace("nn.Linear(4, 4))", "nn.Linear(5, 5))"))
    broken = score.score(case(), laid_out, adapters.Patches(tmp_path))
    assert broken is not None and "does not apply" in broken.broken
    (tmp_path / "N1.patch").write_text(PATCH)
    assert score.loud(layout.Clean("N1", "", "", "", ""), laid_out, adapters.Patches(tmp_path)) is None


def tool(tmp_path: Path, output: str, code: int = 0) -> str:
    """A command that prints something."""
    (tmp_path / "output").write_text(output)
    (tmp_path / "tool.py").write_text(
        f"import sys; print(open({str(tmp_path / 'output')!r}).read()); sys.exit({code})\n"
    )
    return f"{sys.executable} {tmp_path / 'tool.py'}"


def test_torchfix_and_all_at_once(laid_out: Path, tmp_path: Path) -> None:
    """The adapter reads what TorchFix prints; it is not installed here."""
    command = tool(tmp_path, "pkg/train.py:7:1: TOR101 Use of deprecated function\nsome summary", 1)
    result = score.score(case(), laid_out, adapters.TorchFix(command))
    assert result is not None and result.found and result.by == ("TOR101",) and not result.fixed
    command = tool(
        tmp_path, "./A001/before/pkg/train.py:6:1: TOR101 x\n./clean/N1/pkg/train.py:1:1: TOR002 y"
    )
    once = adapters.AtOnce(adapters.TorchFix(command), laid_out)
    result = score.score(case(), laid_out, once)
    assert result is not None and result.found and result.silent
    assert [one.rule for one in score.loud(layout.Clean("N1", "", "", "", ""), laid_out, once) or ()] == [
        "TOR002"
    ]


def test_sarif(laid_out: Path, typed: Path, tmp_path: Path) -> None:
    """Any tool that writes SARIF; devfix does."""
    command = f"{typed}/devfix check --format sarif ."
    result = score.score(case(), laid_out, adapters.Sarif(command))
    assert result is not None and (result.found, result.fixed, result.silent) == (True, False, True)
    broken = score.score(case(), laid_out, adapters.Sarif(tool(tmp_path, "no JSON")))
    assert broken is not None and broken.broken


def test_the_table_adds_up() -> None:
    results = [
        score.Result("A1", "A", True, True, True, True, ("x",), 2),
        score.Result("A2", "A", False, True, False, False, ("x",), 0),
        score.Result("B1", "B", True, broken="it crashed"),
    ]
    rows = [re.findall(r"\w+", row) for row in score.table(results)[1:]]
    assert rows == [
        ["A", "2", "2", "1", "1", "1", "1", "2", "1", "2", "0"],
        ["B", "1", "0", "0", "1", "0", "0", "0", "0", "0", "1"],
        ["all", "3", "2", "1", "2", "1", "1", "2", "1", "2", "1"],
    ]
