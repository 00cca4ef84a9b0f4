"""Mined device fixes: what is mined from a history, how repositories are dealt out, and what of `blind` is told."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import mined  # noqa: E402  (it finds `layout` and `score`)

BEFORE = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(4, 4)
model.to(device)
print(model(torch.zeros(1, 4)))
"""
AFTER = BEFORE.replace("torch.zeros(1, 4)", "torch.zeros(1, 4, device=device)")
CPU = "import torch\nprint(torch.zeros(1))\n"


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clones; in `some/project` a fix is followed by a long change, a new file and one without a device."""
    root = tmp_path_factory.mktemp("mined")
    for name in ("some+project", "no+fix"):
        work = root / "work" / name
        work.mkdir(parents=True)
        steps = [(BEFORE, "start")]
        if name == "some+project":
            steps += [
                (AFTER, "Fix the device of the input"),
                (AFTER + "x = model.to(device)\n" * 20, "Long"),
                (CPU, "Short"),
                (CPU + "y = 1\n", "Say GPU and change no device"),
            ]
        for number, (text, message) in enumerate(steps):
            (work / "train.py").write_text(text)
            (work / f"new{number}.py").write_text("x = x.to(device)\n")
            git(work, "init", "-q")
            git(work, "add", ".")
            git(work, "commit", "-q", "-m", message)
        clone = root / "mirrors" / name / "repo"
        git(root, "clone", "-q", "--bare", str(work), str(clone))
    return root / "mirrors"


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_what_is_mined(mirrors: Path, tmp_path: Path) -> None:
    mined.mine(mirrors, tmp_path / "rows.jsonl", ())
    (row,) = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert (row["repo"], row["path"]) == ("some/project", "train.py")
    assert row["hunks_before"] == [[7, 1]] and row["hunks_after"] == [[7, 1]]
    assert row["in_message"] and row["words"] == ["device"]
    mined.mine(mirrors, tmp_path / "rows.jsonl", ["some/project"])
    assert not (tmp_path / "rows.jsonl").read_text()


def test_nothing_of_a_clone_is_run(mirrors: Path, tmp_path: Path) -> None:
    """Programs that a clone's configuration and attributes name are not started."""
    clone = tmp_path / "mirrors" / "some+project" / "repo"
    git(tmp_path, "clone", "-q", "--bare", str(mirrors / "some+project" / "repo"), str(clone))
    (clone / "info").mkdir(exist_ok=True)
    (clone / "info" / "attributes").write_text("*.py diff=evil\n")
    for key in ("diff.evil.command", "diff.evil.textconv", "diff.external", "core.pager", "core.fsmonitor"):
        git(clone, "config", key, f"touch {tmp_path}/run; cat")
    mined.mine(tmp_path / "mirrors", tmp_path / "rows.jsonl", ())
    assert (tmp_path / "rows.jsonl").read_text() and not (tmp_path / "run").exists()


def test_the_score(
    mirrors: Path,
    tmp_path: Path,
    typed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mined.mine(mirrors, tmp_path / "rows.jsonl", ())
    facts = json.loads((tmp_path / "rows.jsonl").read_text())
    case = {
        key: facts[key]
        for key in ("repo", "parent_commit", "fix_commit", "path", "hunks_before", "hunks_after")
    }
    case |= {
        "id": "D1", "cls": "D", "variant": "x", "parent_path_if_different": None, "buggy_line_in_parent": 7,
        "fixed_line_in_fix": 7, "what": "x", "locality": "same-function", "single_file_fixable": True,
        "notebook": False, "after_expected_silent": True, "confidence": "strong", "bug": True,
    }  # fmt: skip
    right = {**case, "id": "D2", "parent_commit": case["fix_commit"], "bug": False, "reason": "it is right"}
    rows = "".join(json.dumps(row) + "\n" for row in (case, right))
    monkeypatch.setattr(mined, "HERE", tmp_path)
    told = {}
    capsys.readouterr()
    for name in mined.SETS:
        (tmp_path / f"mined-{name}.jsonl").write_text(rows)
        mined.run(name, mirrors, tmp_path / name, str(typed / "devfix"), True)
        told[name] = capsys.readouterr().out.splitlines()
    assert told["build"][0].startswith("D1  found, fixed") and len(told["build"]) == 5
    assert re.match(r"D +1 +1 +1 +\|", told["build"][2])
    assert told["blind"] == [told["build"][1], *told["build"][3:]]
    assert told["blind"][2] == "no bug: 0 of 1 have a finding where the commit changed the file"


def test_the_sets_are_facts_only_and_split_by_repository() -> None:
    known = {one.repo for one in [*mined.layout.cases(), *mined.layout.clean()]}
    ids: list[str] = []
    for name in mined.SETS:
        rows = mined._rows(mined.HERE / f"mined-{name}.jsonl")
        bugs, others = mined.read(name)
        assert len(bugs) + len(others) == len(rows)
        assert {mined.which(row["repo"]) for row in rows} == {name}
        assert not known & {row["repo"] for row in rows}
        for row in rows:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+", row["repo"]) and row["id"][0] == row["cls"]
            for commit in (row["parent_commit"], row["fix_commit"]):
                assert re.fullmatch(r"[0-9a-f]{40}", commit)
            assert row["hunks_before"] and row["buggy_line_in_parent"] > 0
            said = row["what"] if row["bug"] else row["reason"]
            assert said and "\n" not in said and len(said) < 300
            ids.append(row["id"])
    assert len(set(ids)) == len(ids)
