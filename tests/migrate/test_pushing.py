"""From a result to a branch, a pull request, and to what becomes of it; on the command line."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from devfix.migrate.model import Count
from devfix.migrate.state import Row, Store
from making import CLEAN, ENVIRONMENT, FIXABLE, commit, git, repository, trapped

Migrate = Callable[..., int]


def row(name: str = "") -> Row:
    with Store("camp/campaign.db") as store:
        return next(one for one in store.rows() if one.name.endswith(name.removesuffix(".git")))


def branch(path: Path, name: str = "devfix/camp") -> str:
    done = subprocess.run(
        ["git", "rev-parse", "-q", "--verify", f"refs/heads/{name}"],
        cwd=path,
        env=ENVIRONMENT,
        capture_output=True,
    )
    return done.stdout.decode().strip()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """A real `git daemon` on loopback that serves what is in `tmp_path`, for pushes, too; its URL."""
    if not (Path(git(tmp_path, "--exec-path").decode().strip()) / "git-daemon").exists():
        pytest.skip("this git has no daemon")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["git", "daemon", "--listen=127.0.0.1", f"--port={port}", f"--base-path={tmp_path}"]
    command += ["--export-all", "--enable=receive-pack", "--reuseaddr", str(tmp_path)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("scheme", ["git", "file"])
def test_over_a_url(tmp_path: Path, migrate: Migrate, daemon: str, scheme: str) -> None:
    """Fetched from, and pushed to, a server: one of git's own on loopback, and `file://`."""
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    url = f"{daemon}/r.git" if scheme == "git" else f"{path.as_uri()}"
    assert migrate("init", "--repos", url) == 0
    assert migrate("run") == 0 and row().state == "changed"
    assert migrate("push", "--all") == 0 and row().state == "pushed"
    assert branch(path) == row().commit != ""
    assert b"+    model.to(device)" in git(path, "show", "--format=", branch(path))


def test_a_server_that_is_not_there(tmp_path: Path, migrate: Migrate) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        assert migrate("init", "--repos", f"git://127.0.0.1:{taken.getsockname()[1]}/r.git") == 0
        assert migrate("run") == 2
    assert row().state == "failed" and "unable to connect" in row().reason


def test_from_init_to_merged(tmp_path: Path, migrate: Migrate) -> None:
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    assert migrate("init", "--repos", "r.git") == 0
    assert migrate("plan") == 0
    assert migrate("run") == 0 and row().state == "changed"
    assert migrate("push", "--dry-run") == 0 and not branch(path)
    assert migrate("push", "--all") == 0
    assert row().state == "pushed" and branch(path) == row().pushed == row().commit
    assert migrate("push", "--all") == 0, "nothing more to push"
    assert migrate("run", "--refresh") == 0 and row().state == "pushed", "the head is as it was"

    git(path, "update-ref", "refs/heads/main", row().commit)  # a person merges it
    assert migrate("plan", "--refresh") == 0 and row().state == "superseded"
    assert migrate("run") == 0
    assert row().state == "merged" and row().reason.startswith("nothing is left to fix at")
    assert migrate("status") == 0 and migrate("plan") == 0

    for n in (3, 4):  # the fix of a merged repository counts, and counts once
        with Store("camp/campaign.db") as store:
            assert store.findings() == (Count("reorder-to", 1, 1, 0),)
        assert row().subject and row().files_changed == 1
        commit(path, {"other.py": CLEAN % n}, "later")
        assert migrate("run", "--refresh") == 0 and row().state == "merged"


def test_a_rerun_makes_no_second_commit(tmp_path: Path, migrate: Migrate) -> None:
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git")
    migrate("run")
    migrate("push", "--all")
    first = branch(path)
    assert migrate("retry", "r.git") == 0 and row().state == "pending"
    assert migrate("run") == 0 and row().state == "pushed" and row().commit == first
    git(path, "update-ref", "-d", "refs/heads/devfix/camp")
    with Store("camp/campaign.db") as store:
        store.change(row().id, "test", state="changed", pushed="")
    assert migrate("push", "--all") == 0 and branch(path) == first


def test_when_the_head_moves(tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]) -> None:
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git")
    migrate("run")
    commit(path, {"other.py": CLEAN % 2}, "second")
    assert migrate("push", "--all") == 2 and not branch(path)
    assert row().state == "superseded" and "its head has moved from" in capsys.readouterr().err
    assert migrate("run") == 0 and migrate("push", "--all") == 0
    first = branch(path)
    commit(path, {"other.py": CLEAN % 3}, "third")
    assert migrate("run", "--refresh") == 0 and row().state == "changed"
    assert migrate("push", "--all") == 0 and branch(path) not in ("", first), "our own branch follows"


def test_a_branch_that_was_pushed_and_not_recorded(tmp_path: Path, migrate: Migrate) -> None:
    """As if `push` had been killed in between, and the base has moved since: the branch is still our own."""
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git")
    assert migrate("run") == 0 and migrate("push", "--all") == 0
    first = row().commit
    with Store("camp/campaign.db") as store:
        store.change(row().id, "test", state="changed", pushed="")
    commit(path, {"other.py": CLEAN % 3}, "second")
    assert migrate("run", "--refresh") == 0 and row().commit != first
    assert migrate("push", "--all") == 0 and branch(path) == row().commit


def test_a_branch_of_somebody_else_is_left_alone(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    theirs = commit(path, {"x": b"x"}, on="devfix/camp")
    migrate("init", "--repos", "r.git")
    migrate("run")
    assert migrate("push", "--all") == 2 and branch(path) == theirs and row().state == "changed"
    assert "which this campaign has not made" in capsys.readouterr().err


def test_decisions(tmp_path: Path, migrate: Migrate) -> None:
    for name in ("a.git", "b.git", "c.git"):
        repository(tmp_path / "many" / name, {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "many")
    migrate("run")
    assert migrate("review", "--reject", "b.git", "--accept", "a.git") == 2
    assert migrate("show", "a.git", "--patch", "--log") == 2
    assert migrate("review", "a.git", "--accept") == 0 and migrate("review", "b.git", "--reject") == 0
    assert migrate("push", "--accepted") == 0
    assert [row(name).state for name in ("a.git", "b.git", "c.git")] == ["pushed", "changed", "changed"]
    assert (
        migrate("push", "--all") == 0 and row("c.git").state == "pushed" and row("b.git").state == "changed"
    )
    assert migrate("push", "b.git") == 0


def test_hooks_of_a_local_repository_do_not_run(tmp_path: Path, migrate: Migrate) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    path = repository(tmp_path / "r", {"train.py": FIXABLE % 2}, work_tree=True)
    trapped(path, canary)
    migrate("init", "--repos", "r")
    assert migrate("run") == 0 and migrate("push", "--all") == 0 and branch(path) == row().commit
    assert not list(canary.iterdir())
    assert not (path / "train.py").exists(), "the work tree is as it was"


def test_a_shard_is_pushed_though_the_head_moves(tmp_path: Path, migrate: Migrate) -> None:
    path = repository(tmp_path / "r.git", {f"{n}/train.py": FIXABLE % 2 for n in range(3)})
    migrate("init", "--repos", "r.git", "--shard-by", "folder", "--shard-files", "1")
    migrate("run")
    commit(path, {"other.py": CLEAN % 2}, "second")
    assert migrate("push", "--all") == 0
    refs = git(path, "for-each-ref", "--format=%(refname)", "refs/heads/devfix").split()
    assert len(refs) == 3


def test_a_failure_and_its_retry(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository(
        tmp_path / "r.git", {"train.py": FIXABLE % 2, "pyproject.toml": b"[tool.devfix]\nx = 1\n"}
    )
    migrate("init", "--repos", "r.git")
    assert migrate("run") == 2 and row().state == "failed"
    assert migrate("show", "r.git") == 0
    said = capsys.readouterr().out
    assert "tool.devfix.x: unknown setting" in said and "analyse begin -> analysing" in said
    assert migrate("run") == 2, "what failed is not tried again unasked"
    commit(path, {"pyproject.toml": b""}, "second")
    assert migrate("retry", "--failed") == 0 and migrate("run") == 0
    assert migrate("show", "r.git", "--patch") == 0
    assert "diff --git a/train.py b/train.py" in capsys.readouterr().out


def test_what_init_refuses(tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]) -> None:
    repository(tmp_path / "r.git", {})
    for arguments, said in [
        (["--repos", "none"], "is neither a folder nor a URL"),
        (["--repos", "r.git", "--codemod", "nope"], "unknown codemod 'nope'"),
        (["--repos", "r.git", "--author", "me"], "must be of the form"),
        (["--repos", "r.git", "--branch", "-x"], "is no name of a branch"),
    ]:
        assert migrate("init", *arguments) == 2
        assert said in capsys.readouterr().err
    assert migrate("init", "--repos", "r.git") == 0
    assert migrate("init", "--repos", "r.git") == 2 and "is a campaign already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("left", "code"),
    [
        ({".gitignore": "*\n"}, 0),
        ({".gitignore.12.tmp": "*"}, 0),
        (
            {
                ".gitignore": "*\n",
                "lock": "7",
                "work/": "",
                "campaign.db.new": "half",
                "campaign.db.new-wal": "x",
            },
            0,
        ),
        ({".gitignore": "*\n", "stores/a/repo.git/HEAD": "x"}, 0),
        ({".gitignore": "*.pyc\n"}, 2),
        ({"results/mine.txt": "x"}, 2),
        ({".gitignore": "*\n", "notes.md": "x"}, 2),
    ],
)
def test_init_goes_on_where_it_was_killed_and_nowhere_else(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str], left: dict[str, str], code: int
) -> None:
    repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    for name, text in left.items():
        at = tmp_path / "camp" / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.mkdir() if name.endswith("/") else at.write_text(text)
    assert migrate("init", "--repos", "r.git") == code
    if code:
        assert "is there and not empty" in capsys.readouterr().err
        assert {name: (tmp_path / "camp" / name).read_text() for name in left} == left
    else:
        assert migrate("run") == 0 and row().state == "changed"
        assert not list(Path("camp").glob("*.new*")) and not Path("camp/stores").exists()
    assert migrate("status", "extra") == 2


def test_findings_are_kept_for_machines(tmp_path: Path, migrate: Migrate) -> None:
    repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git", "--page")
    migrate("run")
    folder = tmp_path / "camp" / "results" / row().id
    found = json.loads((folder / "findings.json").read_text())
    assert found["findings"][0]["path"] == "train.py"
    assert b"<!doctype html>" in (folder / "review.html").read_bytes()[:200].lower()


# --- what nobody has reviewed --------------------------------------------------------------------


def _three(tmp_path: Path, migrate: Migrate) -> list[Path]:
    found = [repository(tmp_path / "many" / f"{name}.git", {"train.py": FIXABLE % 2}) for name in "abc"]
    assert migrate("init", "--repos", "many") == 0 and migrate("run") == 0
    return found


def states() -> str:
    """The first letter of each state."""
    with Store("camp/campaign.db") as store:
        return "".join(row.state[0] for row in store.rows())


@pytest.mark.parametrize(
    ("typed", "code", "ended", "said"),
    [
        ("", 2, "ccc", "nothing was pushed: nobody has answered"),
        ("y\n", 2, "ccc", "nothing was pushed: that was not 3"),
        ("3\n", 0, "ppp", "2 of 3 to push were not accepted in a review"),
    ],
)
def test_push_asks_for_what_nobody_has_reviewed(
    typed: str,
    code: int,
    ended: str,
    said: str,
    tmp_path: Path,
    migrate: Migrate,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repositories = _three(tmp_path, migrate)
    migrate("review", "a.git", "--accept")
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert migrate("push") == code and states() == ended
    assert said in capsys.readouterr().err
    assert [bool(branch(path)) for path in repositories] == [ended == "ppp"] * 3


def test_what_was_accepted_is_pushed_unasked(tmp_path: Path, migrate: Migrate) -> None:
    _three(tmp_path, migrate)
    migrate("review", "a.git", "b.git", "--accept")
    assert migrate("push", "a.git") == 0 and states() == "pcc"
    assert migrate("push", "--accepted") == 0 and states() == "ppc"
    assert migrate("push", "--accepted", "--all") == 2 and states() == "ppc"


def test_a_limit(tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]) -> None:
    _three(tmp_path, migrate)
    assert migrate("push", "--all", "--limit", "2", "--dry-run") == 0
    assert capsys.readouterr().out.count(" to devfix/camp") == 2
    assert migrate("push", "--all", "--limit", "2") == 0 and states() == "ppc"
    assert "1 more to push" in capsys.readouterr().err
    assert migrate("push", "--all", "--limit", "2") == 0 and states() == "ppp"


def test_a_pause_between_requests_to_servers(
    tmp_path: Path, migrate: Migrate, monkeypatch: pytest.MonkeyPatch, daemon: str
) -> None:
    for name in "abc":
        repository(tmp_path / f"{name}.git", {"train.py": FIXABLE % 2})
    assert migrate("init", *(f"--repos={daemon}/{name}.git" for name in "ab"), "--repos=c.git") == 0
    assert migrate("run") == 0
    slept: list[float] = []
    monkeypatch.setattr("devfix.migrate.pushing.sleep", slept.append)
    assert migrate("push", "--all", "--pause", "7") == 0 and states() == "ppp"
    assert slept == [7.0], "none before the first one, nor for a folder"


def test_push_says_why_there_is_nothing_to_push(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    a, _, _ = _three(tmp_path, migrate)
    assert migrate("push", "--accepted") == 0
    assert "nothing to push: 3 not decided on; `devfix migrate review camp`" in capsys.readouterr().err
    migrate("review", "a.git", "--accept")
    migrate("review", "b.git", "--reject")
    commit(a, {"train.py": FIXABLE % 3}, "second")
    assert migrate("run", "--refresh") == 0
    capsys.readouterr()
    assert migrate("push", "--accepted") == 0 and states() == "ccc"
    assert "1 accepted before, but changed since, 1 not decided on, 1 rejected" in capsys.readouterr().err
    assert migrate("push", "--all", "--verified") == 0
    assert "nothing to push: 2 not verified, 1 rejected" in capsys.readouterr().err
    assert (
        migrate("review", "--reject", "a.git", "b.git", "c.git") == 0 and migrate("push", "--accepted") == 0
    )
    said = capsys.readouterr().err
    assert "nothing to push: 3 rejected" in said and "shows and asks" not in said
    assert migrate("retry", "--failed") == 0 and "nothing has failed" in capsys.readouterr().err
    assert migrate("close", "--all") == 0 and "no pull request is open" in capsys.readouterr().err


def test_a_decision_is_about_a_patch(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds while the head moves elsewhere, and as long as the same lines are changed in the same way."""
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git")
    migrate("run")
    migrate("review", "r.git", "--accept")
    first = row().commit
    commit(path, {"other.py": CLEAN % 2}, "elsewhere")
    assert migrate("run", "--refresh") == 0
    assert row().commit != first and row().decision == "accepted"
    commit(path, {"train.py": b'"""A program."""\n\n' + FIXABLE % 2}, "further up")
    assert migrate("run", "--refresh") == 0 and row().decision == "accepted"
    commit(path, {"train.py": FIXABLE % 3}, "in the lines that are changed")
    assert migrate("run", "--refresh") == 0 and row().decision == ""
    capsys.readouterr()
    assert migrate("status") == 0
    assert (
        "(accepted before, but the change or lines next to it differ now: review it again)"
        in capsys.readouterr().out
    )
    assert migrate("review", "r.git", "--accept") == 0 and (row().decision, row().outdated) == (
        "accepted",
        "",
    )
    assert migrate("push", "--accepted") == 0 and branch(path) == row().commit


def test_a_review_that_nobody_answers(
    tmp_path: Path, migrate: Migrate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _three(tmp_path, migrate)
    monkeypatch.setattr("sys.stdin", io.StringIO("what\na\n"))
    assert migrate("review") == 2
    said = capsys.readouterr().err
    assert (
        "devfix: the input has ended, so nothing more was decided" in said and "2 left to decide on" in said
    )
    assert [row(f"{name}.git").decision for name in "abc"] == ["accepted", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("r\nq\n"))
    assert migrate("review") == 0 and row("b.git").decision == "rejected"


def test_resume_takes_what_run_takes(
    tmp_path: Path, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    from devfix.commands.migrate import resume, run

    assert [one.opts for one in run.params] == [one.opts for one in resume.params]
    path = repository(tmp_path / "r.git", {"train.py": FIXABLE % 2})
    migrate("init", "--repos", "r.git")
    assert "camp: 1 repository;" in capsys.readouterr().err
    assert migrate("resume", "--jobs", "1", "--quiet") == 0 and row().state == "changed"
    assert "[1/1]" not in capsys.readouterr().out
    head = commit(path, {"other.py": CLEAN % 2}, "second")
    assert migrate("resume", "--refresh") == 0 and row().head == head
