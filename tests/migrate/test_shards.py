"""A monorepo in parts: every file in exactly one, none too large, and their results apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.migrate.model import Job, Limits, MigrateError, Settings, Source
from devfix.migrate.shards import Shard, by_folder, by_owner, regrouped, split
from devfix.migrate.sources import named
from devfix.migrate.state import Row, Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import CLEAN, FIXABLE, commit, git, repository, whole

part = st.sampled_from(["a", "b", "c", "train.py", "x.py"])
paths = st.lists(st.lists(part, min_size=1, max_size=4).map("/".join), unique=True, max_size=60)


def consistent(found: list[str]) -> list[str]:
    """Without files that are folders of others."""
    return [path for path in found if not any(other.startswith(f"{path}/") for other in found)]


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(paths.map(consistent), st.integers(1, 7))
def test_every_file_is_in_one_shard(found: list[str], most: int) -> None:
    shards = by_folder(found, most)
    assert sorted(path for shard in shards for path in shard.files) == sorted(found)
    assert all(0 < len(shard.files) <= most for shard in shards)


def test_folders_stay_together() -> None:
    found = (
        [f"a/{n}.py" for n in range(3)]
        + [f"b/{n}.py" for n in range(2)]
        + ["c/x/1.py", "c/x/2.py", "c/y/1.py", "z.py"]
    )
    shards = by_folder(found, 5)
    assert [(shard.name, len(shard.files)) for shard in shards] == [("a/..b/", 5), ("c/..z.py", 4)]
    assert [shard.name for shard in by_folder(found, 2)][:2] == ["a/0.py..1.py", "a/2.py"]


def test_owners_as_github_finds_them() -> None:
    """The last rule that matches counts; `/*` is for files of that very folder."""
    rules = [
        ("*", "@all"),
        ("/lib/", "@lib"),
        ("*.ipynb", "@books"),
        ("/docs/*", "@docs"),
        ("/lib/free/", ""),
    ]
    found = [
        "top.py",
        "lib/a.py",
        "lib/deep/b.py",
        "lib/n.ipynb",
        "docs/a.py",
        "docs/deep/b.py",
        "lib/free/c.py",
    ]
    shards = {shard.name: shard.files for shard in by_owner(found, 10, rules)}
    assert shards == {
        "@all": ("top.py", "docs/deep/b.py"),
        "@lib": ("lib/a.py", "lib/deep/b.py"),
        "@books": ("lib/n.ipynb",),
        "@docs": ("docs/a.py",),
        "nobody": ("lib/free/c.py",),
    }


def test_shards_are_repaired_apart(tmp_path: Path) -> None:
    """Each makes a commit on a branch of its own, of its own files, from what the monorepo has fetched once."""
    files = {f"team{at}/train.py": FIXABLE % at for at in range(3)}
    files |= {"team1/clean.py": CLEAN % 1, "CODEOWNERS": b"/team0/ @zero\n/team1/ @one\n/team2/ @one # why\n"}
    path = repository(tmp_path / "mono", files)
    found = split(Source(str(path)), str(tmp_path / "store"), Limits(), "codeowners", 2, "m")
    assert {source.shard: source.files for source in found} == {
        "@zero": ("team0/train.py",),
        "@one team1/": ("team1/clean.py", "team1/train.py"),
        "@one team2/": ("team2/train.py",),
    }
    chosen = Settings("camp", "devfix/camp")
    patches, branches = [], set()
    for id, name, source in named(found):
        job = Job(id, name, source, chosen)
        outcome = whole(job, str(tmp_path / "work"))[-1]
        assert outcome.state == "changed" and outcome.head is not None and outcome.head.branch == "main"
        patches += [one.data for one in outcome.artefacts if one.name == "changes.patch"]
        branches.add(job.branch)
    assert [patch.count(b"diff --git") for patch in patches] == [1, 1, 1]
    assert len(branches) == 3 and all(branch.startswith("devfix/camp-") for branch in branches)


def test_files_stay_in_their_shards() -> None:
    before = [Shard("a/..b/", ("a/1.py", "b/1.py")), Shard("c/..d/", ("c/1.py", "d/1.py"))]
    now = ("a/0.py", "a/1.py", "b/2.py", "c/1.py", "e/1.py")
    assert regrouped(now, before, []) == [
        Shard("a/..b/", ("a/0.py", "a/1.py", "b/2.py")),
        Shard("c/..d/", ("c/1.py", "e/1.py")),
    ]


def test_files_get_other_owners() -> None:
    before = [Shard("@all", ("top.py",)), Shard("@lib lib/", ("lib/a.py", "lib/b.py"))]
    rules = [("*", "@all"), ("/lib/", "@lib"), ("/lib/b.py", "@all"), ("/new/", "@new")]
    shards = regrouped(("lib/a.py", "lib/b.py", "lib/c.py", "new/a.py", "top.py"), before, rules)
    assert {shard.name: shard.files for shard in shards} == {
        "@lib lib/": ("lib/a.py", "lib/c.py"),
        "@all": ("lib/b.py", "top.py"),
        "@new": ("new/a.py",),
    }


def test_a_monorepo_that_has_moved(tmp_path: Path, migrate: Callable[..., int]) -> None:
    owners = b"/team0/ @zero\n/team1/ @one\n/team2/ @two\n"
    files = {f"team{at}/train.py": FIXABLE % (at + 2) for at in range(3)}
    files |= {"old/train.py": FIXABLE % 6, "CODEOWNERS": owners}
    path = repository(tmp_path / "mono", files)
    assert migrate("init", "--repos", "mono", "--shard-by", "codeowners") == 0 and migrate("run") == 0

    def rows() -> dict[str, Row]:
        with Store("camp/campaign.db") as store:
            return {row.name.split()[-1].removeprefix("@"): row for row in store.rows()}

    first = rows()
    assert migrate("push", "--all") == 0
    assert migrate("run", "--refresh") == 0
    assert {row.state for row in rows().values()} == {"pushed"}
    git(path, "update-ref", "-d", "refs/heads/main")  # what comes is all that there is
    del files["team2/train.py"]
    files |= {"team1/more.py": FIXABLE % 7, "team0/train.py": CLEAN % 2, "team3/x.py": FIXABLE % 8}
    commit(path, {**files, "CODEOWNERS": owners + b"/team3/ @three\n"}, "later")
    assert migrate("run", "--refresh") == 0
    now = rows()
    assert {name: row.state for name, row in now.items()} == {
        "zero": "merged", "one": "changed", "two": "pushed", "three": "changed", "nobody": "changed",
    }  # fmt: skip
    assert now["one"].files_changed == 2 and now["one"].head != first["one"].head
    assert len(list(Path("camp/stores").iterdir())) == 1, "the old store is gone"
    Path("camp/stores/left-by-a-refresh-that-was-killed").mkdir()
    assert migrate("run", "--refresh") == 0
    assert {name: (row.state, row.commit) for name, row in rows().items()} == {
        name: (row.state, row.commit) for name, row in now.items()
    }
    assert len(list(Path("camp/stores").iterdir())) == 1
    assert migrate("push", "--all") == 0
    refs = git(path, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/devfix").decode()
    tips = {line.split()[0] for line in refs.splitlines()}
    assert tips == {now[name].commit for name in ("one", "three", "nobody")} | {
        first[name].commit for name in ("zero", "two")
    }


def test_shards_that_are_left_alone_and_files_that_come_back(
    tmp_path: Path, migrate: Callable[..., int]
) -> None:
    files = {f"team{at}/train.py": FIXABLE % (at + 2) for at in range(3)}
    files["CODEOWNERS"] = b"/team0/ @zero\n/team1/ @one\n/team2/ @two\n"
    path = repository(tmp_path / "mono", files)
    assert migrate("init", "--repos", "mono", "--shard-by", "codeowners") == 0 and migrate("run") == 0

    def rows() -> dict[str, tuple[str, str]]:
        with Store("camp/campaign.db") as store:
            return {row.name.split()[-1].removeprefix("@"): (row.state, row.commit) for row in store.rows()}

    with Store("camp/campaign.db") as store:
        store.change(store.find("@one"), "close", request="closed")
    first = rows()
    gone = {name: data for name, data in files.items() if name != "team2/train.py"}
    for now, two in ((gone, "skipped"), (files, "changed"), (gone, "skipped")):
        git(path, "update-ref", "-d", "refs/heads/main")
        commit(path, now, two)
        for _ in range(2):  # the second finds nothing new
            assert migrate("run", "--refresh") == 0
            assert {name: state for name, (state, _) in rows().items()} == {
                "zero": "changed", "one": "changed", "two": two,
            }  # fmt: skip
        assert rows()["one"] == first["one"] and rows()["zero"] != first["zero"]
    assert len(list(Path("camp/stores").iterdir())) == 2, "one for the shard that is left alone"


def test_without_owners(tmp_path: Path) -> None:
    path = repository(tmp_path / "mono", {"a.py": CLEAN % 1})
    with pytest.raises(MigrateError, match=r"has no \.github/CODEOWNERS"):
        split(Source(str(path)), str(tmp_path / "store"), Limits(), "codeowners", 2, "m")
