"""A campaign over its whole life, undisturbed and killed at random: the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from campaigning import Told, whole
from standin import TOKEN


@pytest.mark.parametrize(
    "kind", ["gitlab", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("github", "gitea"))]
)
def test_killed_and_resumed(tmp_path: Path, kind: str) -> None:
    quiet, killed = both(tmp_path, kind, 6, 6)
    assert killed.kills.total() >= 3 and killed.created == 4
    assert Counter(one["request"] for one in quiet.rows)["closed"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_two_hundred_repositories_and_sixty_kills(tmp_path: Path, kind: str) -> None:
    _, killed = both(tmp_path, kind, 200, 60)
    assert killed.kills.total() >= 30 and len(killed.kills) >= 3 and killed.created == 150


def both(tmp_path: Path, kind: str, count: int, kills: int) -> tuple[Told, Told]:
    quiet = whole(tmp_path / "quiet", kind, count, seed=1)
    killed = whole(tmp_path / "killed", kind, count, seed=2, kills=kills, quiet=quiet)
    assert killed.requests == quiet.requests and killed.rows == quiet.rows and killed.files == quiet.files
    assert killed.created == quiet.created == len(quiet.requests)
    assert not [path for path, many in Counter(one["path"] for one in killed.requests).items() if many > 1]
    assert {"merged", "closed", "open"} <= {one["request"] for one in quiet.rows}
    assert {"accepted", "rejected"} <= {one["decision"] for one in quiet.rows}
    assert TOKEN not in quiet.said + killed.said
    return quiet, killed
