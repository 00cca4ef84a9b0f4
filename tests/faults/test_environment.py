"""Odd surroundings: no space, no rights, no terminal, no home, no reader, and other devfix processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.documents import DocumentError, beside, digest_of, journal, replace_files, state
from faulty import Pairs, analysed, ended, left_over, look, started_and_ready, tree
from ran import TESTS
from test_documents import as_nobody, open_to_all
from test_odd_inputs import BUG, MOVED

C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").write_text(BUG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str, **environment: str | None) -> tuple[int, str, str]:
    """A shell command in which `devfix` is this one: its exit code, stdout and stderr."""
    variables = {**os.environ, **environment}
    done = subprocess.run(
        ["bash", "-c", f"devfix() {{ '{sys.executable}' -m devfix \"$@\"; }}\n{command}"],
        capture_output=True,
        env={key: value for key, value in variables.items() if value is not None},
        timeout=120,
    )
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    assert "Traceback" not in err and "Exception ignored" not in err, err
    return done.returncode, out, err


# --- output ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("command", ["check --format json .", "diff --format html .", "--help"])
def test_a_full_disk_behind_stdout(command: str, folder: Path) -> None:
    code, _, err = shell(f"devfix {command} >/dev/full")
    assert code == 2 and "devfix: the output could not be written: No space left on device" in err


def test_streams_that_are_closed_or_full(folder: Path) -> None:
    assert shell("devfix check . >&-")[0] == 1
    assert shell("devfix check . 2>&-")[0] == 1
    assert shell("devfix check . 2>/dev/full")[0] == 2
    for command in ("check -", "explain-error -"):
        code, _, err = shell(f"devfix {command} <&-")
        assert code == 2 and "stdin is closed" in err
    assert shell("devfix apply -i . <&-")[0] == 0
    code, _, err = shell("devfix diff . >&-")
    assert code == 2 and "stdout is closed" in err
    assert (folder / "a.py").read_text() == BUG


def test_the_code_where_the_reader_has_left() -> None:
    for command in ("list", "--help"):
        assert shell(f"(sleep 0.5; devfix {command}) | true; exit ${{PIPESTATUS[0]}}")[0] == 141


@pytest.mark.parametrize("command", ["check . 2>&1", "diff ."])
def test_a_reader_that_leaves(command: str, folder: Path) -> None:
    for n in range(9):
        (folder / f"b{n}.py").write_text(BUG * 9)
    code, out, _ = shell(f"devfix {command} | head -1; exit ${{PIPESTATUS[0]}}")
    assert code in (1, 141) and len(out.splitlines()) <= 1


def test_an_apply_whose_reader_leaves_has_written_everything(folder: Path) -> None:
    for n in range(9):
        (folder / f"b{n}.py").write_text(BUG)
    code, _, _ = shell("devfix apply . | head -0; exit ${PIPESTATUS[0]}")
    assert code in (0, 141)
    assert {path.read_text() for path in folder.glob("*.py")} == {MOVED}


# --- surroundings ------------------------------------------------------------------------------------


def test_no_home_and_a_c_locale(folder: Path) -> None:
    (folder / "é大.py").write_text(f"s = '大'\n{BUG}")
    (folder / os.fsdecode(b"\xff.py")).write_text(BUG)
    environment = {**C, "HOME": None, "USER": None, "TERM": None, "XDG_CACHE_HOME": None}
    for arguments in ("check .", "check --format json .", "diff --format html .", "diff --format mbox ."):
        code, _, err = shell(f"devfix {arguments}", **environment)
        assert code == 1 and "own bug" not in err
    assert shell("devfix diff . >p; git init -q . && git apply --check p", **environment)[0] == 0
    assert shell("devfix apply .", **environment)[0] == 0
    assert (folder / "é大.py").read_text() == f"s = '大'\n{MOVED}"
    assert shell("devfix undo", **environment)[0] == 0


@pytest.mark.parametrize("columns", ["20", "1", "0", "-1", "x"])
def test_a_narrow_terminal(columns: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for arguments in (
        ["check", "."],
        ["check", "--statistics", "."],
        ["check", "--help"],
        ["list"],
        ["explain", "reorder-to"],
    ):
        assert main(arguments) in (0, 1)


def test_a_working_directory_that_is_gone(folder: Path) -> None:
    for command in ("check ../a.py", "apply .", "undo"):
        code, _, err = shell(f"mkdir gone && cd gone && rmdir ../gone; devfix {command}")
        assert code == 2 and "working directory is gone" in err


def test_what_may_not_be_written_or_read(tmp_path: Path) -> None:
    """As a user without rights (root steps down for this): named, and left as it is."""
    path = tmp_path / "closed" / "x.py"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    open_to_all(path.parent)
    path.chmod(0o666)
    path.parent.chmod(0o555)
    assert "cannot create a file beside it (Permission denied)" in as_nobody(path)
    path.chmod(0o444)
    assert "read-only" in as_nobody(path)
    path.chmod(0)
    assert "permission denied" in as_nobody(path)
    path.parent.chmod(0o755)
    path.chmod(0o644)
    assert path.read_text() == "a = 1\n" and os.listdir(path.parent) == ["x.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
def test_a_read_only_file_system(tmp_path: Path) -> None:
    """Even root cannot write there; everything else is done."""
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(BUG)
    (tmp_path / ".git").mkdir()
    script = f"mount --bind -o ro ro ro && mount -o remount,ro,bind ro && {sys.executable} -m devfix apply ."
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("cannot mount here")
    assert done.returncode == 2 and "ro/a.py: is read-only" in done.stderr
    assert (tmp_path / "ro" / "a.py").read_text() == BUG
    assert (tmp_path / "rw" / "a.py").read_text() == MOVED


def test_what_a_program_is_given() -> None:
    """`devfix run` and all that runs a program adds what names the devices, and a folder to PYTHONPATH."""
    from devfix.simulate.processes import CHILD, environment

    base = {"PYTHONPATH": "/mine", "PYTHONHASHSEED": "5", "TOKEN": "x", "LD_PRELOAD": ""}
    made = environment(2, "/reports", base=base)
    assert {name: made[name] for name in base} == {**base, "PYTHONPATH": f"{CHILD}{os.pathsep}/mine"}
    assert all(name.startswith("DEVFIX_SIMULATE") for name in made.keys() - base.keys())
    assert (
        environment(2, base={})["PYTHONPATH"] == CHILD
    )  # nothing empty, which would be the working directory


# --- durability ----------------------------------------------------------------------------------------


def test_what_a_power_cut_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is on disk before the first file is replaced, each new file before it takes its name."""
    from devfix.pipeline.writing import write

    tree(tmp_path, 1, 1)
    report = analysed(tmp_path)
    events: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        events.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replaced(source: str, target: str) -> None:
        events.append(("replace", source))
        events.append(("into", os.path.dirname(target)))
        replace(source, target)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write(report, str(tmp_path))
    first = next(at for at, (what, path) in enumerate(events) if what == "replace" and "manifest" not in path)
    assert any(what == "sync" and "manifest.json" in path for what, path in events[:first])
    assert any(what == "sync" and path.endswith("journals") for what, path in events[:first])
    for at, (what, path) in enumerate(events):
        if what == "replace":
            assert ("sync", path) in events[:at], "replaced by what is not on disk yet"
        if what == "into":
            assert ("sync", path) in events[at:], "the new name may be lost"


def test_owner_mode_and_attributes_without_the_right_to_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ran with its owner's rights must not run with ours."""
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 65534, 65534)
    path.chmod(0o6755)

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    replace_files([(str(path), digest_of(b"a = 1\n"), b"a = 2\n")])
    assert path.stat().st_mode & 0o7777 == 0o755


def test_hard_links_part_and_come_together_again(tmp_path: Path) -> None:
    """A replaced file is a new one; if the files beside it cannot be replaced, it is the very old one."""
    one, two, other = tmp_path / "one.py", tmp_path / "two.py", tmp_path / "other.py"
    one.write_text("a = 1\n")
    os.link(one, two)
    with pytest.raises(DocumentError):
        replace_files([(str(one), digest_of(b"a = 1\n"), b"a = 2\n"), (str(other), digest_of(b"x"), b"y")])
    assert one.samefile(two) and sorted(os.listdir(tmp_path)) == ["one.py", "two.py"]
    replace_files([(str(one), digest_of(b"a = 1\n"), b"a = 2\n")])
    assert (one.read_text(), two.read_text()) == ("a = 2\n", "a = 1\n")


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_changes_between_two_steps_of_writing(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look at a file is right before it is renamed; the files before it are put back."""
    from devfix.documents import replace

    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    for path in paths:
        path.write_text("a = 1\n")
    real = os.replace

    def late(*arguments: object) -> None:
        paths[which].write_text("mine = 1\n")
        monkeypatch.undo()
        real(*arguments)

    if which == 0:
        monkeypatch.setattr(replace, "write_beside", _then(replace.write_beside, paths[0]))
    else:
        monkeypatch.setattr(os, "replace", late)
    old = digest_of(b"a = 1\n")
    with pytest.raises(DocumentError, match="changed since it was read") as error:
        replace_files([(str(path), old, b"a = 2\n") for path in paths])
    assert error.value.path == str(paths[which])
    assert [path.read_text() for path in paths] == ["mine = 1\n" if n == which else "a = 1\n" for n in (0, 1)]
    assert len(os.listdir(tmp_path)) == 2


def _then(write_beside: Callable[..., str], victim: Path) -> Callable[..., str]:
    def written(*arguments: object, **named: object) -> str:
        found = write_beside(*arguments, **named)
        victim.write_text("mine = 1\n")
        return found

    return written


def test_without_a_journal_no_fix_over_several_files(tmp_path: Path) -> None:
    from devfix.pipeline.writing import write

    files = tree(tmp_path, 1, 1)
    home = Path(state.place(str(tmp_path)))
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_text("in the way")
    done = write(analysed(tmp_path), str(tmp_path))
    assert [os.path.basename(path) for path in done.written] == ["x0.py"]
    assert {os.path.basename(error.path) for error in done.errors} == {tmp_path.name, "p0_a.py", "p0_b.py"}
    assert look(files) == 1


# --- other processes -----------------------------------------------------------------------------------


def test_a_folder_that_another_program_keeps_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(beside, "PATIENCE", 0.1)
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(DocumentError, match="keeps its folder locked"):
        replace_files([(str(path), digest_of(b"a = 1\n"), b"a = 2\n")])
    os.close(descriptor)
    replace_files([(str(path), digest_of(b"a = 1\n"), b"a = 2\n")])
    assert path.read_text() == "a = 2\n"


def test_a_live_run_is_not_mistaken_for_a_crash(tmp_path: Path) -> None:
    tree(tmp_path, 1, 0)
    home = str(tmp_path)
    made = journal.record(home, [[(str(tmp_path / "p0_a.py"), b"x", b"y")]])
    with journal.running([made]):
        assert journal.abandoned(home) == []
        (Path(made) / "running").touch()
    (Path(made) / "running").touch()
    assert journal.abandoned(home) == [made]


def test_check_says_that_a_run_was_killed_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "a.py").read_bytes()
    made = journal.record(str(folder), [[(str(folder / "a.py"), before, b"y")]])
    (Path(made) / "running").touch()
    assert main(["check", "-q", "."]) == 1
    assert "an earlier run was killed while it wrote" in capsys.readouterr().err
    assert (Path(made) / "running").exists() and (folder / "a.py").read_bytes() == before
    assert main(["undo"]) == 0  # that run had written nothing
    assert not (Path(made) / "running").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_the_whole_group_of_a_pool(number: signal.Signals, tmp_path: Path) -> None:
    """As Ctrl-C at a terminal: one line, the right exit code, and no process stays."""
    files = tree(tmp_path, 20, 60, 3000)
    process = started_and_ready(tmp_path, "check", "--jobs", "2", ".", start_new_session=True)
    time.sleep(0.5)
    os.killpg(process.pid, number)
    code, text = ended(process)
    assert code in (128 + number, -number, 1), text
    if code == 128 + number:
        assert "files were analysed, and nothing was written" in text
    assert look(files) == 0
    _gone(process.pid)


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """Also one that is at work, and would be for a minute."""
    for n in range(60):
        (tmp_path / f"f{n}.py").write_text("sleep_here\n")
    command = [sys.executable, str(TESTS / "stubs.py"), "check", "--codemod", "trouble", "--jobs", "2", "."]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    end = time.monotonic() + 60
    while not (tmp_path / "asleep").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.wait(timeout=60)
    _gone(process.pid)


def _gone(group: int) -> None:
    """No process of a group is left."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("processes are left")


def test_a_signal_that_python_swallows_counts_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """What is raised in a callback of Python's own ends there; so it is raised once more."""
    from devfix.pipeline.signals import handled, held

    class Callback:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with handled():
        callback = Callback()
        del callback
        with pytest.raises(KeyboardInterrupt), held():
            pass
        with held():  # once
            pass
    assert capsys.readouterr().err == ""


def test_ignored_signals_stay_ignored(folder: Path) -> None:
    """nohup and a shell's background jobs have asked for that."""
    from devfix.pipeline.signals import handled

    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with handled():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_codemod_of_these_tests_does_something(tmp_path: Path) -> None:
    files = tree(tmp_path, 1, 1)
    assert [change.codemod for result in analysed(tmp_path).results for change in result.changes] == [
        Pairs.id
    ] * 3
    assert look(files) == 0
    left_over(tmp_path)
