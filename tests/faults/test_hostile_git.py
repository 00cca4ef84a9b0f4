"""A repository whose `.git` came with it: no program that its configuration names is run by `--diff-only`.

Each case first has git itself, asked in the ordinary way, run the planted program: so the plant is a good one.
"""

from __future__ import annotations

import http.server
import os
import pty
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.documents import git as asking
from devfix.documents.changed_lines import changed_lines
from devfix.documents.git import GitError, setting
from test_odd_inputs import BUG

DIFF = ("git", "diff", "HEAD")
STATUS = ("git", "status")
MISSING = ("git", "cat-file", "-p", "HEAD:main.py")


@dataclass(frozen=True)
class Plant:
    """What a case has in `.git/config` ({run} is the program), in other files, and what git command runs it."""

    config: str
    runs: tuple[str, ...] = DIFF
    attributes: str = ""
    missing: bool = False  # the old `main.py` is not there: a partial clone
    terminal: bool = False
    hook: str = ""


PROMISOR = '[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n\turl = '

PLANTS = {
    "filter.clean": Plant('[filter "x"]\n\tclean = {run}\n', attributes="* filter=x"),
    "filter.process": Plant('[filter "x"]\n\tprocess = {run}\n\trequired = true\n', attributes="* filter=x"),
    "filter.odd-name": Plant('[filter "a=b.c"]\n\tclean = {run}\n', attributes="* filter=a=b.c"),
    "diff.command": Plant('[diff "x"]\n\tcommand = {run}\n', attributes="* diff=x"),
    "diff.textconv": Plant('[diff "x"]\n\ttextconv = {run}\n', attributes="* diff=x"),
    "diff.external": Plant("[diff]\n\texternal = {run}\n"),
    "core.fsmonitor": Plant("[core]\n\tfsmonitor = {run}\n", STATUS),
    "include.path": Plant("[include]\n\tpath = more\n", STATUS),
    "includeIf": Plant('[includeIf "gitdir:**"]\n\tpath = more\n', STATUS),
    "core.hooksPath": Plant("[core]\n\thooksPath = hooked\n", STATUS, hook="hooked/post-index-change"),
    "hooks": Plant("", STATUS, hook=".git/hooks/post-index-change"),
    "core.pager": Plant("[core]\n\tpager = {run}\n", terminal=True),
    "pager.diff": Plant("[pager]\n\tdiff = {run}\n", terminal=True),
    "core.sshCommand": Plant(
        f"{PROMISOR}ssh://nowhere.invalid/x\n[core]\n\tsshCommand = {{run}}\n", MISSING, missing=True
    ),
    "remote.url with ext::": Plant(
        f'{PROMISOR}"ext::{{run}}"\n[protocol "ext"]\n\tallow = always\n', MISSING, missing=True
    ),
    "remote.uploadpack": Plant(f"{PROMISOR}{{tree}}\n\tuploadpack = {{run}}\n", MISSING, missing=True),
    "core.gitProxy": Plant(
        f"{PROMISOR}git://nowhere.invalid/x\n[core]\n\tgitProxy = {{run}}\n", MISSING, missing=True
    ),
    "credential.helper": Plant(
        f"{PROMISOR}{{server}}\n[credential]\n\thelper = !{{run}}\n", MISSING, missing=True
    ),
    "core.askPass": Plant(f"{PROMISOR}{{server}}\n[core]\n\taskPass = {{run}}\n", MISSING, missing=True),
}


class _Asks(http.server.BaseHTTPRequestHandler):
    """Wants a password."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Asks)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/x"
    made.shutdown()
    made.server_close()


def at_a_terminal(command: tuple[str, ...], cwd: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        while os.read(ours, 1000):
            pass
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=60)
    os.close(ours)


@pytest.mark.parametrize("key", PLANTS)
def test_no_program_of_the_configuration_is_run(
    key: str, tmp_path: Path, git: Callable[..., str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = PLANTS[key]
    for name in ("GIT_ASKPASS", "SSH_ASKPASS", "GIT_PAGER", "GIT_SSH_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    ran, program = tmp_path.with_name("ran"), tmp_path.with_name("program")
    ran.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "main.py").write_text("one = 1\n")
    (tmp_path / "other.py").write_text("x = 1\n")
    (tmp_path / ".gitattributes").write_text(plant.attributes + "\n")
    git("add", ".")
    git("commit", "-qm", "one")
    if plant.missing:
        blob = git("rev-parse", "HEAD:main.py").strip()
        (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (tmp_path / "main.py").write_text(BUG)
    os.utime(tmp_path / "other.py", (1, 1))
    if plant.hook:
        hook = tmp_path / plant.hook
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(program.read_text())
        hook.chmod(0o755)
    with open(tmp_path / ".git" / "config", "a") as file:
        file.write(plant.config.format(run=program, server=server, tree=tmp_path))
    (tmp_path / ".git" / "more").write_text(f"[core]\n\tfsmonitor = {program}\n")
    monkeypatch.chdir(tmp_path)

    assert main(["check", "-q", "--diff-only", "HEAD", "."]) == (2 if plant.missing else 1)
    assert main(["diff", "-q", "--format", "mbox", "."]) == 1
    assert not ran.exists(), ran.read_text()

    os.utime(tmp_path / "other.py", (2, 2))
    if plant.terminal:
        at_a_terminal(plant.runs, tmp_path)
    else:
        subprocess.run(plant.runs, capture_output=True, cwd=tmp_path, timeout=60)
    assert ran.exists(), "git itself does not run it, so this tests nothing"


def test_a_folder_that_looks_like_a_repository(
    tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare repository may lie in a tree as ordinary files; its configuration is nobody's."""
    inner = tmp_path / "inner"
    git("init", "-q", "--bare", "inner")
    git("config", "user.name", "somebody else", cwd=inner)
    (inner / "main.py").write_text(BUG)
    monkeypatch.chdir(inner)
    assert git("config", "user.name", cwd=inner) == "somebody else\n"  # so says git itself
    with pytest.raises(GitError, match=r"safe\.bareRepository"):
        changed_lines("HEAD")
    assert setting("user.name") != "somebody else"


def test_git_that_is_kept_waiting(
    tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO in the place of a file of git's: the name of an author is not worth the wait."""
    os.mkfifo(tmp_path / ".git" / "waits")
    git("config", "include.path", "waits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asking, "PATIENCE", 0.5)
    assert setting("user.name") == ""


def test_names_that_lead_out(
    tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index names what it likes; only files of the folder are opened."""
    outside = tmp_path.with_name("outside")
    outside.mkdir(exist_ok=True)
    (outside / "x.py").write_text("secret = 1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "one")
    (tmp_path / "in" / "x.py").unlink()
    (tmp_path / "in").rmdir()
    (tmp_path / "in").symlink_to(outside)
    (tmp_path / "l.py").symlink_to(outside / "x.py")
    monkeypatch.chdir(tmp_path)
    assert changed_lines("HEAD") == {}


def test_contents_that_are_not_here(
    tmp_path: Path,
    git: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.py").write_text(BUG)
    (tmp_path / "same.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "one")
    for name in ("a.py", "same.py"):
        blob = git("rev-parse", f"HEAD:{name}").strip()
        (tmp_path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    monkeypatch.chdir(tmp_path)
    assert changed_lines("HEAD") == {}  # they need not be
    (tmp_path / "a.py").write_text(BUG + BUG)
    assert main(["check", "--diff-only", "HEAD", "."]) == 2
    assert "a partial clone?" in capsys.readouterr().err
