"""A campaign of twelve repositories over its whole life, undisturbed and killed while it pushes: the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from campaigning import whole
from standin import TOKEN


@pytest.mark.parametrize(
    "kind", ["gitlab", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("github", "gitea"))]
)
def test_killed_and_resumed(tmp_path: Path, kind: str) -> None:
    quiet = whole(tmp_path / "quiet", kind, 12, kills=0, seed=1)
    killed = whole(tmp_path / "killed", kind, 12, kills=6, seed=2)
    assert killed.kills >= 3 and killed.pushes > quiet.pushes
    assert killed.rows == quiet.rows and killed.requests == quiet.requests
    assert killed.created == quiet.created == len(quiet.requests) == 10
    assert not [path for path, many in Counter(one["path"] for one in killed.requests).items() if many > 1]
    assert Counter(one["request"] for one in quiet.rows)["closed"] == 2
    assert {"merged", "closed", "open"} <= {one["request"] for one in quiet.rows}
    assert TOKEN not in quiet.said + killed.said
