"""Whole campaigns over repositories of every kind: what comes of each, killed or not, and what is touched."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from killing import devfix, ends, final, leftovers, run_and_kill
from making import KINDS, manifest, many

SHORT, LONG = len(KINDS), 200
VERIFY = 'sleep 86399 & echo "seen $(ls | wc -l)" >&2'


def _init(top: Path, parent: str, *arguments: str) -> Path:
    campaign = top / parent / "camp"
    campaign.parent.mkdir()
    said = devfix(
        "migrate", "init", str(campaign), "--repos", str(top / "repos"), "--max-file-size", "1",
        "--author", "A B <a@example.org>", "--seconds", "120", *arguments, cwd=top,
    )  # fmt: skip
    assert said.code == 0, said.err
    return campaign


@pytest.mark.parametrize(
    ("count", "kills"), [(SHORT, 3), pytest.param(LONG, 50, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_a_killed_campaign_ends_as_an_undisturbed_one(tmp_path: Path, count: int, kills: int) -> None:
    made = many(tmp_path, count)
    (tmp_path / "canary").mkdir(exist_ok=True)
    (tmp_path / "pyproject.toml").write_text("[tool.devfix]\nnonsense = true\n")  # above the work folder
    (tmp_path / "outside.py").write_bytes(b"import torch\n")
    campaigns = [_init(tmp_path, name, "--verify-cmd", VERIFY) for name in ("quiet", "loud")]
    around = [tmp_path / "quiet", tmp_path / "loud"]
    before = manifest(tmp_path, around)

    start = time.monotonic()
    said = devfix("migrate", "run", str(campaigns[0]), "--jobs", "2", cwd=tmp_path)
    quiet = time.monotonic() - start
    assert said.code == 2, said.err  # some fail, as they must
    expected = final(campaigns[0])
    states = {Path(name).name: row["state"] for name, row in expected.items()}
    wanted = {one.path.name: {"changed": "verified"}.get(one.state, one.state) for one in made}
    assert states == wanted

    start = time.monotonic()
    killed = run_and_kill(campaigns[1], kills, count, "--jobs", "2", quiet=quiet)
    loud = time.monotonic() - start
    # Where the machine has become faster meanwhile, it is done before all of them.
    assert kills // 3 <= killed.drivers + killed.workers <= kills, killed
    print(f"\n{count} repositories: {quiet:.1f} s; with {killed}: {loud:.1f} s; {Counter(states.values())}")
    assert final(campaigns[1]) == expected
    assert set(ends(campaigns[0]).values()) == set(ends(campaigns[1]).values()) == {1}

    assert manifest(tmp_path, around) == before
    assert not list((tmp_path / "canary").iterdir())
    assert not leftovers(["sleep 86399"])
    for campaign in campaigns:
        assert not list((campaign / "work").iterdir())
    assert devfix("migrate", "run", str(campaigns[1]), cwd=tmp_path).code == 2
    assert final(campaigns[1]) == expected
    assert set(ends(campaigns[1]).values()) == {1}, "a second run does nothing again"
    with sqlite3.connect(campaigns[1] / "campaign.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
