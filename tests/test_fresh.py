"""The judged findings of fresh repositories: what is asked, drawn and counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import fresh  # noqa: E402

PROGRAM = (
    "import torch\nfrom torch import nn\n\nmodel = nn.Linear(4, 4).cuda()\nprint(model(torch.zeros(1, 4)))\n"
)


def found(repo: str, line: int, codemod: str = "place-factory", safety: str = "unsafe") -> fresh.Row:
    return {"repo": repo, "commit": "c", "path": "a.py", "line": line, "codemod": codemod, "safety": safety}


def test_from_checkouts_to_a_table(tmp_path: Path, typed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some+project").mkdir()
    (tmp_path / "some+project" / "train.py").write_text(PROGRAM)
    (tmp_path / "repositories.txt").write_text("some/project 0a\nnot/there 1b\n")
    at = tmp_path / "found.jsonl"
    command = str(typed / "devfix")
    fresh.main(["ask", "--checkouts", str(tmp_path), "--found", str(at), "--command", command], tmp_path)
    assert "not/there" in capsys.readouterr().err
    fresh.main(["sheet", "--found", str(at), "--out", str(tmp_path / "sheet.jsonl")], tmp_path)
    (row,) = fresh.rows(tmp_path / "sheet.jsonl")
    assert (row["repo"], row["commit"], row["path"], row["line"]) == ("some/project", "0a", "train.py", 5)
    kept = {name: row[name] for name in ("repo", "commit", "path", "line", "codemod", "safety")}
    judged = [
        {**kept, "verdict": "true", "reason": ""},
        {**kept, "line": 1, "verdict": "wrong", "reason": "", "draw": 7},
    ]
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in judged))
    fresh.main(["table", "--found", str(at)], tmp_path)
    told = capsys.readouterr().out
    assert f"| {row['codemod']} | {row['safety']} | 2 | 1 | 0 | 1 | 0 | 9% to 91% |" in told
    assert told.endswith(f"not reported any more (wrong): some/project: train.py:1: {row['codemod']}\n")
    left = told.partition("still reported:")[2]
    assert f"| {row['codemod']} | {row['safety']} | 1 | 1 | 0 | 0 | 0 |" in left
    fresh.main(["table", "--draw", "7"], tmp_path)
    assert f"| {row['codemod']} | {row['safety']} | 1 | 0 | 0 | 1 | 0 |" in capsys.readouterr().out


def test_what_is_drawn_is_few_of_a_codemod_and_does_not_depend_on_other_repositories() -> None:
    some = [found("a/a", line) for line in range(9)]
    few = fresh.drawn(some, 0, 9, 9)
    assert len(few) == fresh.AT_MOST
    more = fresh.drawn([*some, *(found("b/b", line, safety="safe") for line in range(9))], 0, 2, 9)
    assert more[:3] == few and len(more) == 5
    assert any(fresh.drawn(some, seed, 9, 9) != few for seed in range(1, 5))


def test_a_verdict_that_is_none() -> None:
    with pytest.raises(ValueError, match="a verdict is one of"):
        list(fresh.table([fresh.Verdict("a/a", "c", "a.py", 1, "x", "safe", "right", "")]))


def test_the_kept_verdicts() -> None:
    names = {line.split()[0] for line in (fresh.FRESH / "repositories.txt").read_text().splitlines()}
    kept = [fresh.Verdict(**row) for row in fresh.rows(fresh.FRESH / "verdicts.jsonl")]
    assert len(list(fresh.table(kept))) > 2 and all(one.repo in names and one.reason for one in kept)
