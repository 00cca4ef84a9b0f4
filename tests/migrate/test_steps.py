"""The work on one repository: limits, the commit, what is run, and what hostile ones get out of it."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.migrate import children, trees
from devfix.migrate.git import Git
from devfix.migrate.model import Artefact, Job, Limits, Outcome, Settings, Source
from devfix.migrate.state import Store
from later import needs_torch
from making import CLEAN, FIXABLE, commit, git, repository, whole

COMPARED = b"import torch\n\n\ndef f(x: torch.Tensor):\n    return x.device == 'cuda'\n"
SETTINGS = Settings("camp", "devfix/camp", author="A B <a@example.org>", limits=Limits(seconds=60))


def job_of(path: Path, settings: Settings = SETTINGS, **source: object) -> Job:
    return Job("x", "x/x", Source(str(path), **source), settings)  # type: ignore[arg-type]


def done(tmp_path: Path, job: Job) -> Outcome:
    outcomes = whole(job, str(tmp_path / "work"))
    assert not (tmp_path / "work").exists()
    assert pickle.loads(pickle.dumps((job, outcomes))) == (job, outcomes)
    return outcomes[-1]


def artefact(outcome: Outcome, name: str) -> bytes:
    return next(one.data for one in outcome.artefacts if one.name == name)


def test_the_commit(tmp_path: Path) -> None:
    """On top of the head, with its date; only what was repaired; the same from every run."""
    files = {"a/train.py": ("100755", FIXABLE % 2), "b.py": CLEAN % 2, "data.bin": bytes(range(256))}
    path = repository(tmp_path / "r", files)
    outcome = done(tmp_path, job_of(path))
    assert outcome.state == "changed" and outcome.head is not None and outcome.head.branch == "main"
    again = done(tmp_path / "elsewhere", job_of(path))
    assert again.commit == outcome.commit and again.artefacts == outcome.artefacts

    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(path), str(clone))
    git(clone, "unpack-objects", "-q", stdin=artefact(outcome, "commit.pack"))
    shown = git(clone, "show", "-s", "--format=%P|%an|%ae|%at|%ct|%B", outcome.commit).decode()
    assert shown.startswith(
        f"{outcome.head.commit}|A B|a@example.org|1700000000|1700000000|Fix device placement"
    )
    assert "\nVerified: by analysis" in shown and "No program was run." in " ".join(shown.split())
    assert git(clone, "diff-tree", "-r", "HEAD", outcome.commit).split()[:2] == [b":100755", b"100755"]
    assert git(clone, "diff-tree", "-r", "--name-only", "HEAD", outcome.commit) == b"a/train.py\n"
    git(clone, "apply", "--index", stdin=artefact(outcome, "changes.patch"))
    assert git(clone, "write-tree").strip() == git(clone, "rev-parse", f"{outcome.commit}^{{tree}}").strip()


def test_no_second_change(tmp_path: Path) -> None:
    """The commit, as the new head, leaves nothing to do."""
    path = repository(tmp_path / "r", {"train.py": FIXABLE % 2})
    outcome = done(tmp_path, job_of(path))
    git(path, "unpack-objects", "-q", stdin=artefact(outcome, "commit.pack"))
    git(path, "update-ref", "refs/heads/main", outcome.commit)
    after = done(tmp_path, job_of(path))
    assert (after.state, after.reason, after.commit) == ("nothing-to-do", "no findings", "")


def test_a_sha256_repository(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.mkdir()
    git(path, "init", "-q", "-b", "main", "--bare", "--object-format=sha256", ".")
    commit(path, {"train.py": FIXABLE % 2})
    assert len(done(tmp_path, job_of(path)).commit) == 64


def test_a_ref_and_a_subfolder(tmp_path: Path) -> None:
    path = repository(tmp_path / "r", {"a/train.py": CLEAN % 2, "b/train.py": FIXABLE % 2})
    commit(path, {"a/train.py": FIXABLE % 2}, on="dev")
    git(path, "tag", "light", "dev")
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    git(path, *person, "tag", "-m", "annotated", "v1", "dev")
    assert done(tmp_path, job_of(path, subfolder="a")).state == "nothing-to-do"
    for ref in ("dev", "light", "v1", git(path, "rev-parse", "dev").decode().strip()):
        outcome = done(tmp_path, job_of(path, ref=ref, subfolder="a"))
        assert outcome.state == "changed" and artefact(outcome, "changes.patch").count(b"diff --git") == 1, (
            ref
        )
    assert done(tmp_path, job_of(path, ref="none")).reason == "it has no branch or tag none"
    assert done(tmp_path, job_of(path, subfolder="c")).reason == "has no folder 'c'"


def test_exclude(tmp_path: Path) -> None:
    path = repository(tmp_path / "r", {"old/train.py": FIXABLE % 2, "train.py": FIXABLE % 2})
    patch = artefact(done(tmp_path, job_of(path, exclude=("old/",))), "changes.patch")
    assert patch.startswith(b"diff --git a/train.py") and patch.count(b"diff --git") == 1


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(files=3), "has 5 files, more than 3; --max-files sets the limit"),
        (Limits(size=1 << 20), "is larger than 1 MiB; --max-size sets the limit"),
    ],
)
def test_limits(tmp_path: Path, limits: Limits, said: str) -> None:
    files = {f"{n}.bin": os.urandom(400_000) for n in range(4)} | {"train.py": FIXABLE % 2}
    path = repository(tmp_path / "r", files)
    settings = Settings("camp", "devfix/camp", limits=limits)
    outcome = done(tmp_path, job_of(path, settings))
    assert (outcome.step, outcome.state, outcome.reason) == ("clone", "failed", said)


@pytest.mark.parametrize("look", [0.0, 60.0])
def test_the_same_words_whenever_the_size_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: float
) -> None:
    """While the fetch runs, or after it: which of them it is depends on the machine's load."""
    monkeypatch.setattr(children, "_LOOK", look)
    path = repository(tmp_path / "r", {f"{n}.bin": os.urandom(1_000_000) for n in range(2)})
    outcome = done(tmp_path, job_of(path, Settings("camp", "devfix/camp", limits=Limits(size=1 << 20))))
    assert outcome.reason == "is larger than 1 MiB; --max-size sets the limit"


def test_what_unpacks_to_much_is_not_unpacked(tmp_path: Path) -> None:
    """A small pack can hold large files, and one folder very often."""
    path = repository(tmp_path / "r", {f"{n}.py": b"#" * (3 << 20) for n in range(3)})
    settings = Settings("camp", "devfix/camp", limits=Limits(size=8 << 20))
    assert done(tmp_path, job_of(path, settings)).reason.startswith("its files have 9 MiB, more than 8")
    tree = git(path, "rev-parse", "main^{tree}").decode().strip()
    for _ in range(7):
        lines = "".join(f"040000 tree {tree}\t{n}\0" for n in range(10))
        tree = git(path, "mktree", "-z", stdin=lines.encode()).decode().strip()
    parent = git(path, "rev-parse", "main").decode().strip()
    text = f"tree {tree}\nparent {parent}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nbomb\n"
    bomb = git(path, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()
    git(path, "update-ref", "refs/heads/main", bomb)
    settings = Settings("camp", "devfix/camp", limits=Limits(files=1000))
    outcome = done(tmp_path, job_of(path, settings))
    assert outcome.state == "failed" and "more than 1000" in outcome.reason


@pytest.mark.parametrize(
    "path",
    [
        b"../x",
        b"a/../../x",
        b"/x",
        b".git/config",
        b"a/.GIT/hooks/x",
        b"a//b",
        b".",
        b"git~1/x",
        b".git /x",
        b"x" * 300,
    ],
)
def test_paths_that_are_refused(path: bytes) -> None:
    assert trees.refusal(path)


def test_links_in_full_copies(tmp_path: Path) -> None:
    """Only for programs that the user wants to run; and then only links that stay inside."""
    files = {
        "in.py": ("120000", b"train.py"), "d/up.py": ("120000", b"../train.py"), "abs": ("120000", b"/etc/passwd"),
        "up": ("120000", b"../x"), "d/e/far": ("120000", b"../../../x"), "one": ("120000", b"d"),
        "two": ("120000", b"one/../../x"), "three": ("120000", b"one/../train.py"), "loop": ("120000", b"loop"),
        "train.py": CLEAN % 2,
    }  # fmt: skip
    path = repository(tmp_path / "r", files)
    (tmp_path / "w").mkdir()
    made = Git(str(tmp_path / "w"), Limits(), "m")
    remote = made.remote(str(path))
    assert remote is not None
    made.make(remote.commit)
    made.fetch(str(path), remote.name)
    entries = trees.listed(made, remote.commit, Limits()).entries
    top = tmp_path / "out"
    top.mkdir()
    export = trees.export(made, entries, str(top), Limits(), whole=True)
    links = sorted(p.relative_to(top).as_posix() for p in top.rglob("*") if p.is_symlink())
    assert links == ["d/up.py", "in.py", "loop", "one", "three"]
    assert [note.partition(":")[0] for note in sorted(export.notes)] == ["abs", "d/e/far", "two", "up"]
    assert all(p.resolve().is_relative_to(top) for p in top.rglob("*") if p.name != "loop")


# --- programs that the user wants to be run ---------------------------------------------------------


def verified(tmp_path: Path, command: str, seconds: float = 60) -> Outcome:
    path = repository(tmp_path / "r", {"train.py": FIXABLE % 2, "data/x.txt": b"data\n"})
    settings = Settings("camp", "devfix/camp", verify_cmd=command, limits=Limits(seconds=seconds))
    return done(tmp_path, job_of(path, settings))


@pytest.mark.parametrize("examples", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_smoke(tmp_path: Path, examples: bool) -> None:
    """The program, and the examples of what has changed something, on CUDA or simulated CUDA."""
    needs_torch()
    path = repository(tmp_path / "r", {"train.py": FIXABLE % 2})
    limits = Limits(seconds=600)
    settings = Settings("camp", "devfix/camp", smoke=examples, smoke_cmd="python train.py", limits=limits)
    outcome = done(tmp_path, job_of(path, settings))
    assert outcome.state == "verified", outcome
    assert outcome.verified.startswith("`python train.py`: verified: cuda")
    body = artefact(outcome, "body.md").decode()
    assert ("The examples of reorder-to pass on cpu, cuda" in body) == examples
    assert "Verified: cuda" in body


def test_a_command_that_passes(tmp_path: Path) -> None:
    outcome = verified(tmp_path, "cat data/x.txt")
    assert (outcome.state, outcome.verified) == (
        "verified",
        "`cat data/x.txt` passes before and after the change",
    )
    assert b"Verified: `cat data/x.txt` passes" in artefact(outcome, "commit.txt")
    assert "No program was run" not in artefact(outcome, "body.md").decode()


def test_a_command_that_the_change_repairs(tmp_path: Path) -> None:
    outcome = verified(tmp_path, "grep -n 'model.to' train.py | grep -vq '^8:'")
    assert outcome.state == "verified" and "fails (exit code 1) before the change" in outcome.verified


def test_the_program_on_simulated_cuda_as_the_command(tmp_path: Path) -> None:
    """`devfix run` fails where the device error is raised, and passes where it is not."""
    needs_torch()
    outcome = verified(tmp_path, f"'{sys.executable}' -m devfix run train.py", seconds=600)
    assert outcome.state == "verified" and "fails (exit code 1) before the change" in outcome.verified


@pytest.mark.parametrize(
    ("kinds", "own", "command"),
    [
        (("tox.ini=tox", "data/*.txt=cat data/x.txt", "*=false"), "", "cat data/x.txt"),
        (("tox.ini=tox",), "", "true"),
        (("*=false",), "test -f train.py", "test -f train.py"),
    ],
)
def test_a_command_for_each_kind_of_repository(
    tmp_path: Path, kinds: tuple[str, ...], own: str, command: str
) -> None:
    """By its files: the first kind that fits, before what is for all; what a list says of one is before both."""
    path = repository(tmp_path / "r", {"train.py": FIXABLE % 2, "data/x.txt": b"data\n"})
    job = job_of(path, Settings("camp", "devfix/camp", verify_cmd="true", verify_kinds=kinds), verify_cmd=own)
    assert done(tmp_path, job).verified == f"`{command}` passes before and after the change"


@pytest.mark.parametrize(("level", "state"), [("safe", "nothing-to-do"), ("unsafe", "changed")])
def test_the_codemods_of_a_recipe(
    tmp_path: Path, migrate: Callable[..., int], capsys: pytest.CaptureFixture[str], level: str, state: str
) -> None:
    """And its levels; the file is found again wherever the work is done."""
    (tmp_path / "one.toml").write_text(
        f'name = "one"\ncodemods = [{{ id = "device-comparison", level = "{level}" }}]\n'
    )
    repository(tmp_path / "r", {"train.py": FIXABLE % 2, "other.py": COMPARED})
    assert migrate("init", "--repos", "r", "--recipe", "one.toml", "--codemod", "reorder-to") == 2
    assert migrate("init", "--repos", "r", "--recipe", "one.toml") == 0
    assert migrate("plan") == 0 and f"codemods: the recipe {tmp_path}/one.toml" in capsys.readouterr().out
    assert migrate("run") == 0
    with Store("camp/campaign.db") as store:
        (row,) = store.rows()
        assert row.state == state
        assert [one.codemod for one in store.findings()] == ["device-comparison"]


def test_a_command_that_the_change_breaks(tmp_path: Path) -> None:
    """No commit; the patch is kept to be looked at."""
    outcome = verified(tmp_path, "echo looking; grep -n 'model.to' train.py | grep -q '^8:'")
    assert outcome.state == "failed" and "passes before the change and fails" in outcome.reason
    assert not outcome.commit and artefact(outcome, "changes.patch")
    assert "commit.pack" not in [one.name for one in outcome.artefacts]


def test_a_command_that_says_nothing(tmp_path: Path) -> None:
    outcome = verified(tmp_path, "echo no; exit 1")
    assert (outcome.state, outcome.verified) == ("changed", "")
    assert b"does not pass before the change either" in artefact(outcome, "body.md")
    assert "exit code 1\nno" in outcome.log


def test_a_command_that_hangs_takes_nothing_with_it(tmp_path: Path) -> None:
    outcome = verified(tmp_path, "sleep 86398 & sleep 86398", seconds=6)
    assert outcome.state == "changed" and "did not end in time" in outcome.log
    time.sleep(0.1)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                assert b"86398" not in Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue


def test_a_command_writes_in_its_copy_only(tmp_path: Path) -> None:
    from devfix.simulate import landlock

    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    outcome = verified(tmp_path, f"echo x > mine && echo written; echo x > {tmp_path}/outside")
    assert outcome.log.count("\nwritten") == 2 and not (tmp_path / "outside").exists()


# --- children ----------------------------------------------------------------------------------------


def test_output_is_bounded() -> None:
    with pytest.raises(children.TooMuch):
        children.run(["yes"], deadline=time.monotonic() + 60, env=dict(os.environ), most=1 << 20)
    end = children.run(
        ["sh", "-c", "yes | head -n 1000000; echo end"], deadline=time.monotonic() + 60, env=dict(os.environ),
        most=1 << 16, tail=True,
    )  # fmt: skip
    assert end.out.endswith(b"y\nend\n") and len(end.out) <= 1 << 17


def test_input_that_nobody_reads() -> None:
    ended = children.run(
        ["true"], deadline=time.monotonic() + 60, env=dict(os.environ), stdin=b"x" * (1 << 20)
    )
    assert ended.code == 0


def test_artefacts_are_replaced(tmp_path: Path) -> None:
    from devfix.migrate import folders

    folders.keep(str(tmp_path), "x", [Artefact("a", b"1"), Artefact("b", b"2")])
    folders.keep(str(tmp_path), "x", [Artefact("a", b"3")])
    assert {path.name: path.read_bytes() for path in (tmp_path / "results" / "x").iterdir()} == {"a": b"3"}
