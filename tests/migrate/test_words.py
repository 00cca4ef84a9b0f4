"""What a campaign says and counts of each kind of repository, and that it is what `check` finds in a clone."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import making
import pytest
from devfix import __version__
from devfix.cli import main
from devfix.migrate.state import Row, Store
from kinds import KINDS, WITH_UNSAFE, made
from making import Kind, git, repository

SNAPSHOTS = Path(__file__).parents[2] / "snapshots" / "migrate"
Migrate = Callable[..., int]
AUTHOR = ("--author", "A B <a@example.org>")


def the_row() -> Row:
    with Store("camp/campaign.db") as store:
        (row,) = store.rows()
    return row


def artefact(name: str) -> Path:
    return Path("camp", "results", the_row().id, name)


def _level(kind: str) -> list[str]:
    return ["--unsafe"] if kind in WITH_UNSAFE else []


def scrubbed(text: str) -> str:
    """Without what differs from one run or release to the next."""
    text = re.sub(r"\b[0-9a-f]{12,40}\b", "COMMIT", text.replace(f"devfix {__version__}", "devfix VERSION"))
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "NOW", text)


@pytest.mark.parametrize("kind", KINDS)
def test_words(
    tmp_path: Path, migrate: Migrate, kind: str, capsys: pytest.CaptureFixture[str], snapshot: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The status, the commit message, the body of the pull request, and the report; of what `check` finds, too."""
    snapshot.snapshot_dir = SNAPSHOTS
    repo = made(tmp_path, kind)
    assert migrate("init", "--repos", "repos", *AUTHOR, *_level(kind)) == 0
    assert migrate("run", "--jobs", "1") == (2 if kind == "failure" else 0)
    capsys.readouterr()
    seen = []
    for command in (["status"], ["report", "--markdown", "-"]):
        migrate(*command)
        seen.append(f"$ devfix migrate {' '.join(command)}\n{capsys.readouterr().out}")
    for name in ("commit.txt", "body.md"):
        path = artefact(name)
        seen.append(f"--- {name}\n{path.read_text('utf-8') if path.exists() else '(none)'}")
    snapshot.assert_match(scrubbed("\n".join(seen).replace(str(tmp_path), "TOP")), f"{kind}.txt")
    _compared(repo, capsys, monkeypatch)


def found(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        capsys.readouterr()
        main(["check", "--no-cache", "--quiet", "--format", "json", "."])
        return json.loads(capsys.readouterr().out)["findings"]


def _compared(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings are those of `check` in a clone, and so are those that are left with the commit in it."""
    clone = path.parent / "clone"
    git(path.parent, "clone", "-q", str(path), str(clone))
    row = the_row()
    if row.state == "failed":
        with monkeypatch.context() as patch:
            patch.chdir(clone)
            assert main(["check", "--no-cache", "."]) == 2, "nor does check like it"
        return
    before = found(clone, capsys, monkeypatch)
    kept = artefact("findings.json")
    assert (json.loads(kept.read_bytes())["findings"] if kept.exists() else []) == before
    if row.commit:
        git(clone, "unpack-objects", "-q", stdin=artefact("commit.pack").read_bytes())
        git(clone, "checkout", "-q", "--force", row.commit)
    after = found(clone, capsys, monkeypatch)
    was, is_ = (Counter(one["codemod"] for one in some) for some in (before, after))
    with Store("camp/campaign.db") as store:
        counts = {one.codemod: (one.found, one.fixed, one.left) for one in store.findings()}
    assert counts == {id: (was[id], was[id] - is_[id], is_[id]) for id in was | is_}


_NOT_CLONED = ("no_commits", "gone", "leaving")  # git itself makes no work tree of these


@pytest.mark.parametrize("kind", [one for one in making.KINDS if one.__name__ not in _NOT_CLONED])
def test_and_in_odd_repositories(
    kind: Kind,
    tmp_path: Path,
    migrate: Migrate,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "repos" / "r"
    kind(path, 2)
    assert migrate("init", "--repos", str(path), *AUTHOR) == 0
    migrate("run", "--jobs", "1")
    _compared(path, capsys, monkeypatch)


def test_one_edit_for_several_recipes_is_one_repair(tmp_path: Path, migrate: Migrate) -> None:
    path = made(tmp_path, "shared_script")
    migrate("init", "--repos", str(path), *AUTHOR)
    migrate("run", "--jobs", "1")
    with Store("camp/campaign.db") as store:
        assert [(one.found, one.fixed, one.left) for one in store.findings()] == [(3, 3, 0)]
    body = artefact("body.md").read_text("utf-8")
    assert body.startswith("This fixes 1 device bug in 1 file,") and body.count("- `recipes/train.py:") == 1
    assert "large.yaml`, `recipes/hparams/medium.yaml` and `recipes/hparams/small.yaml`" in body
    assert "left to you" not in body


def test_a_link_and_a_folder_of_one_name_lead_nowhere(tmp_path: Path, migrate: Migrate) -> None:
    """A tree that git itself would never write: what is below the folder would be written through the link."""
    path = repository(
        tmp_path / "r.git", {"train.py": making.FIXABLE % 2, "a/b/c/keep.py": b"import torch\n"}
    )

    def blob(data: bytes) -> str:
        return git(path, "hash-object", "-w", "--stdin", stdin=data).decode().strip()

    def tree(*lines: str) -> str:
        return git(path, "mktree", "-z", stdin="\0".join([*lines, ""]).encode()).decode().strip()

    kept = git(path, "rev-parse", "main:a/b/c/keep.py").decode().strip()
    train = git(path, "rev-parse", "main:train.py").decode().strip()
    c = tree(f"100644 blob {kept}\tkeep.py", f"120000 blob {blob(b'../..')}\tone")
    b = tree(f"040000 tree {c}\tc")
    a = tree(f"040000 tree {b}\tb")
    below = tree(f"120000 blob {blob(b'../train.py')}\tevil.py")
    out = blob(b"a/b/c/one/../../..")  # by its words it is `a`
    top = tree(
        f"040000 tree {a}\ta",
        f"120000 blob {out}\tesc",
        f"040000 tree {below}\tesc",
        f"100644 blob {train}\ttrain.py",
    )
    text = f"tree {top}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nodd\n"
    commit = git(path, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()
    git(path, "update-ref", "refs/heads/main", commit)
    migrate("init", "--repos", "r.git", *AUTHOR)
    migrate("run", "--jobs", "1")
    assert the_row().state == "changed", the_row().reason
    assert not list(tmp_path.rglob("evil.py"))
    assert [note for note in the_row().notes if "esc" in note] == [
        "esc/evil.py: is behind a link; left out",
        "esc: is a link out of the repository; left out",
    ]
