"""Repositories made to do harm: nothing is run, nothing outside is read or written, no name steers anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
import xml.dom.minidom
from pathlib import Path

import pytest
from devfix import config
from devfix.cli import main
from devfix.documents import journal, state
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.reorder_to import ReorderTo
from devfix.text.globs import Globs
from ran import Ran
from test_odd_inputs import BUG, MOVED


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's own, with a file that must not be read or written."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret.py").write_text(BUG)
    return folder


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hostile"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def all_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- links and what is no file -----------------------------------------------------------------------


def test_links_that_leave_the_tree(hostile: Path, outside: Path) -> None:
    (hostile / "file.py").symlink_to(outside / "secret.py")
    (hostile / "folder").symlink_to(outside, target_is_directory=True)
    (hostile / "up.py").symlink_to("../home/secret.py")
    (hostile / "round").symlink_to(".")
    (hostile / "itself.py").symlink_to("itself.py")
    (hostile / "gone.py").symlink_to("nothing")
    before = all_of(outside)
    assert discover(["."]).files == ()
    assert main(["apply", "."]) == 0
    assert all_of(outside) == before


def test_an_import_over_a_link_reads_nothing_outside(hostile: Path, outside: Path) -> None:
    """A file sees what it imports; a link in its project does not lead it out of that."""
    (outside / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    secret = 1\n")
    (hostile / "net.py").symlink_to(outside / "net.py")
    (hostile / "package").symlink_to(outside, target_is_directory=True)
    opened = _opened_by(hostile, "import net\nfrom package.net import Net\n" + BUG)
    assert not any(str(outside) in path for path in opened)


def _opened_by(hostile: Path, text: str) -> set[str]:
    """Every path that a check opens, by real path."""
    (hostile / "main.py").write_text(text)
    opened: set[str] = set()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if active and event == "open" and isinstance(arguments[0], str):
            opened.add(os.path.realpath(arguments[0]))

    active = True
    sys.addaudithook(hook)
    try:
        main(["check", "-q", "main.py"])
    finally:
        active = False
    assert str(hostile / "main.py") in opened
    return opened


@pytest.mark.parametrize(
    "arguments",
    [["check", "--write-baseline", "{}"], ["diff", "-o", "{}"], ["diff", "--format", "html", "-o", "{}"]],
)
def test_results_are_not_written_over_links(hostile: Path, outside: Path, arguments: list[str]) -> None:
    """The usual names of reports may be taken by links that came with the repository."""
    (hostile / "main.py").write_text(BUG)
    (hostile / "link").symlink_to(outside / "secret.py")
    (hostile / "folder").symlink_to(outside)
    (hostile / "inside").symlink_to("report")
    for name in ("link", "folder/new"):
        assert main([*(one.format(name) for one in arguments), "."]) == 2
    assert [path.name for path in outside.iterdir()] == ["secret.py"]
    assert (outside / "secret.py").read_text() == BUG
    for target in ("inside", str(outside / "report")):
        assert main([*(one.format(target) for one in arguments), "."]) in (0, 1)
    assert (hostile / "report").exists() and (outside / "report").exists()


def test_fifos_sockets_and_devices_do_not_hang(hostile: Path) -> None:
    names = ["fifo.py", "fifo.ipynb", "fifo.yaml", ".gitignore", "pyproject.toml"]
    for name in names:
        os.mkfifo(hostile / name)
    os.mkfifo(hostile / "module.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        (hostile / "zero.py").symlink_to("/dev/zero")
        if os.geteuid() == 0:
            os.mknod(hostile / "device.py", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        (hostile / "main.py").write_text("from module import x\n" + BUG)
        start = time.monotonic()
        assert main(["check", "-q", "."]) == 1
        for name in ("fifo.py", "socket.py", "zero.py"):
            assert main(["check", "-q", name]) == 2
        assert main(["apply", "-q", "."]) == 0
        assert time.monotonic() - start < 60
    assert discover(["."]).files == ("main.py",)


# --- settings ----------------------------------------------------------------------------------------


def test_settings_name_no_folder_outside(hostile: Path, outside: Path) -> None:
    (hostile / "main.py").write_text("from secret import x\n" + BUG)
    (hostile / "link").symlink_to(outside, target_is_directory=True)
    for root in ("/", "..", str(outside), "link", "sub/../.."):
        (hostile / "pyproject.toml").write_text(f'[tool.devfix]\nproject-root = "{root}"\n')
        with pytest.raises(config.ConfigError, match="leads out of the repository"):
            config.load(str(hostile))
    (hostile / "pyproject.toml").write_text('[tool.devfix]\nproject-root = "."\n')
    assert config.load(str(hostile)).project_root


@pytest.mark.parametrize(
    "text",
    [
        "plugins = ['evil']", "own-codemods = ['evil.py']", "codemods = ['evil.py']", "codemods = ['../evil']",
        "options.reorder-to.__class__ = 1", "jobs = -1",
        "options.assert-device.check = [[[]]]", "base = '/'", "file = '/etc/passwd'", "jobs = 1e400",
        "a." * 2000 + "b = 1", "x = " + "[" * 5000, "include = ['[z-a]', '***/', '!', '[[:x:]']",
    ],
)  # fmt: skip
def test_settings_cannot_name_code_or_crash(
    text: str, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hostile / "evil.py").write_text("open('ran', 'w')\n")
    (hostile / "pyproject.toml").write_text(f"[tool.devfix]\n{text}\n")
    assert main(["check", "-q", "."]) in (0, 2)
    assert "own bug" not in capsys.readouterr().err
    assert not (hostile / "ran").exists()


@pytest.mark.parametrize("name", ["pyproject.toml", ".gitignore"])
def test_files_of_settings_that_are_too_large(
    name: str, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not read: 24 MB of TOML took 20 seconds. Patterns that are not read leave nothing out."""
    (hostile / "main.py").write_text(BUG)
    (hostile / name).write_text("[tool.devfix]\njobs = 1\n*.py\n")
    os.truncate(hostile / name, 1 << 40)
    assert main(["check", "-q", "."]) == (2 if name == "pyproject.toml" else 1)
    assert name != "pyproject.toml" or "more than 2,000,000 bytes" in capsys.readouterr().err
    assert main(["doctor", "--no-torch", "."]) == (2 if name == "pyproject.toml" else 0)


def test_patterns_that_take_for_ever(hostile: Path) -> None:
    (hostile / ".gitignore").write_text("*a" * 12 + "*b\n" + "**/" * 12 + "x\n" + "**/a/" * 12 + "b\n")
    (hostile / ("a" * 60 + ".py")).write_text("x = 1\n")
    deep = hostile / "/".join("a" * 40)
    deep.mkdir(parents=True)
    (deep / "c.py").write_text("x = 1\n")
    start = time.monotonic()
    assert len(discover(["."]).files) == 2
    assert time.monotonic() - start < 60


def test_very_many_patterns() -> None:
    """Twice as many take twice as long (as one expression they took four times as long); counted in CPU time."""

    def seconds(number: int) -> float:
        globs = Globs("/", tuple(f"*{n}*a*b*c*" for n in range(number)))
        globs.decide("/x.py", False)  # made, once
        start = time.process_time()
        for n in range(40):
            globs.decide(f"/aaa_{n}.py", False)
        return time.process_time() - start

    assert seconds(4000) < 20 * seconds(500)  # 8 times as many


def test_lines_that_look_like_tables(hostile: Path) -> None:
    """How long patterns take is looked at in `tests/test_patterns.py`."""
    from devfix.doctor import settings

    (hostile / "pyproject.toml").write_text(f'[tool.devfix]\njobs = 1\n[x]\ny = """\n[{" " * 9999}\n"""\n')
    assert list(settings._places("pyproject.toml", whole=False)) == ["jobs"]
    (hostile / "pyproject.toml").write_text('[[ "tool" . devfix\t ]]\njobs = 1\n')
    assert list(settings._places("pyproject.toml", whole=False)) == ["jobs"]


# --- nothing is run ----------------------------------------------------------------------------------


COMMANDS = (
    ["check", "."], ["check", "--jobs", "2", "."], ["diff", "--format", "mbox", "."], ["apply", "."],
    ["check", "--diff-only", "HEAD", "."], ["undo"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "commands"),
    [
        ([sys.executable, "-m", "devfix"], COMMANDS),
        ([str(Path(sys.executable).with_name("devfix"))], COMMANDS[1:2]),  # only the start is another one
    ],
    ids=["module", "script"],
)
def test_nothing_of_the_repository_is_run(
    command: list[str], commands: list[list[str]], hostile: Path
) -> None:
    """Neither modules with the names of devfix's own ones, nor hooks of Python, git or the encodings.

    (With `python -m devfix` Python itself looks for a `devfix.py` in the working directory first, and for the few
    modules that it needs for `-m`, such as `contextlib.py`.)
    """
    trap = "import os\nopen(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'ran'), 'w').close()\n"
    for name in (
        "click", "libcst", "yaml", "torch", "tomllib", "ast", "json", "sitecustomize", "usercustomize", "pebble",
        "conftest", "setup", "encodings_evil", "readline", "fcntl", "resource", "tempfile", "typing", "enum", "re",
        "__future__", "dataclasses", "random", "numbers", "copy",
    ):  # fmt: skip
        (hostile / f"{name}.py").write_text(trap)
    (hostile / "main.py").write_text("import click, yaml, torch\n" + BUG)
    (hostile / "coded.py").write_text("# coding: encodings_evil\n" + BUG)
    (hostile / "train.yaml").write_text(
        "a: !!python/object/apply:os.system ['touch ran']\nmodules: !new:os.system ['touch ran']\n"
    )
    subprocess.run(["git", "init", "-q", "."], check=True)
    hook = hostile / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    with open(hostile / ".git" / "config", "a") as file:
        file.write(
            '[core]\n\tfsmonitor = "touch ran"\n\tpager = touch ran\n[diff]\n\texternal = "touch ran"\n'
        )
    environment = {**os.environ, "PYTHONPATH": "", "GIT_CONFIG_NOSYSTEM": "1"}
    for arguments in commands:
        subprocess.run([*command, *arguments], env=environment, capture_output=True, timeout=120)
    assert not (hostile / "ran").exists()
    assert not list(hostile.glob("__pycache__"))


# --- names -------------------------------------------------------------------------------------------

NAMES = (
    "\x1b[31m.py", "\x1b]0;owned\x07.py", "\x9b2J.py", "a\nb.py", "a\r\n::error::x.py",
    "::set-output name=a::b.py", " ::error::b.py",
    "tab\tb.py", "%0A.py", '"quoted".py',
    "<script>alert(1)</script>.py", "&amp;.py", "]]>.py", "-o.py", "--help.py", "a:1:2.py", "é大\u202e.py", "\u2028.py",
    "'; touch ran; '.py", "$(touch ran).py", "a b.py", "\\.py", "{}.py", "%s%n.py", "#.py", "diff --git a b.py",
    "From x@y Mon Sep 17 00:00:00 2001/b.py", "Index: b.py", "---b.py",
)  # fmt: skip


@pytest.fixture
def named(hostile: Path) -> Path:
    for name in NAMES:
        for path, text in ((hostile / name, BUG), (hostile / f"bad {name}", f"{BUG}(")):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    (hostile / os.fsdecode(b"\xff.py")).write_text(BUG)
    subprocess.run(["git", "init", "-q", "."], check=True)
    return hostile


FORMATS = (
    ["check"], ["check", "--format", "concise"], ["check", "--format", "json"], ["check", "--format", "sarif"],
    ["check", "--format", "github"], ["check", "--format", "gitlab"], ["check", "--format", "junit"],
    ["check", "--statistics"], ["diff"], ["diff", "--explain"], ["diff", "--format", "mbox"],
    ["diff", "--format", "mbox", "--by", "file"], ["diff", "--format", "html"], ["check", "-v"],
    ["apply"], ["undo"],
)  # fmt: skip


def test_names_are_neutralised_in_every_output(
    named: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """No output has a raw control character, or a line, a command, an element or a header that a name made."""
    count = len(list(named.rglob("*.py")))
    for arguments in FORMATS:
        paths = [] if arguments == ["undo"] else ["."]
        code = main([*arguments, *paths])
        out, err = capfdbinary.readouterr()
        done = Ran(code, out, err.decode("utf-8", "surrogateescape"))
        assert done.code in ((0, 2) if arguments[0] in ("apply", "undo") else (1, 2)), (arguments, done.err)
        assert not set(map(ord, "\x1b\r\x07\x00")) & set(done.out), arguments
        assert not set("\x1b\r\x07\u2028\u202e") & set(done.err), arguments
        text = done.out.decode("utf-8", "surrogateescape")
        if "github" not in arguments:
            assert not any(line.lstrip().startswith("::") for line in text.split("\n")), arguments
        if "json" in arguments:
            found = json.loads(text)
            assert len({finding["path"] for finding in found["findings"]}) == len(NAMES) + 1
        elif "sarif" in arguments or "gitlab" in arguments:
            json.loads(text)
        elif "junit" in arguments:
            xml.dom.minidom.parseString(text)
        elif "github" in arguments:
            lines = text.rstrip("\n").split("\n")
            assert len(lines) == count
            assert all(line.startswith(("::warning file=", "::error file=")) for line in lines)
        elif "html" in arguments:
            assert "<script>alert(1)" not in text and "</script>.py" not in text
        elif arguments == ["diff"]:
            _applies(named, done.out)
        elif "mbox" in arguments:
            heads = [line for line in text.splitlines() if line.startswith(("From ", "Subject: "))]
            assert all("touch ran" not in line or line.startswith("Subject:") for line in heads)
            assert not any(line.startswith(("b.py", "Index: ", "---b")) for line in text.split("\n"))
            assert text.count("\nFrom x@y") == 0 and text.count("\ndiff --git a b.py:") == 0
    assert not (named / "ran").exists()


def test_no_source_steers_a_terminal(hostile: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A patch has the bytes of its files, unless it is coloured, which is for people to read."""
    (hostile / "main.py").write_text(
        BUG.replace("\n", "  # \x1b]0;x\x07 \x1b[2J \u202e \x9b1m\n").replace("\n", "\r\n")
    )
    assert main(["diff", "--color", "always", "."]) == 1
    said = re.sub(rb"\x1b\[\d*m", b"", capfdbinary.readouterr().out).decode()
    assert not set("\x1b\x07\r\u202e\x9b") & set(said) and r"\x1b]0;x\x07" in said
    assert main(["diff", "."]) == 1
    assert b"\x1b]0;x\x07" in capfdbinary.readouterr().out


def test_a_line_that_python_cannot_parse_is_not_explained(
    hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hostile / "deep.py").write_text(f"x = {'-' * 100_000}1\n")
    assert main(["explain", "deep.py:1"]) == 2
    assert capsys.readouterr().err.startswith("devfix: deep.py:")


LONG = "a" * 100_000
LONG_TEXTS = {
    "cookie.py": f"# -*- coding: {LONG} -*-\n{BUG}",
    "name.py": BUG.replace("model", LONG),
    "attribute.py": BUG.replace('"head"', f'"{LONG}"'),
    "words.py": BUG.replace("device", "b" * 500 + "_" + LONG),
    "syntax.py": f"import torch\nmodel.to(device)\ndef f({LONG}, {LONG}): pass\n",
    "character.py": f"import torch\nmodel.to(device)\n{LONG}\u20ac = 1\n",
    "silenced.py": f"{BUG}x = 1  # devfix: ignore[{LONG}]\n",
    "book.ipynb": f'{{"cells": [], "nbformat": "{LONG}", "{LONG}": 1}}',
    "recipe.yaml": f"modules: !new:{LONG}\n{LONG}: [\n",
}


def test_what_is_said_is_no_longer_for_long_names(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in LONG_TEXTS.items():
        (hostile / name).write_text(text)
    for form in ("text", "concise", "github", "gitlab", "junit"):
        assert main(["check", "--unsafe", "--format", form, "."]) == 2
        said = capsys.readouterr()
        assert len(said.out) + len(said.err) < 20_000, form
        assert "unknown encoding: aaa" in said.out + said.err
    for settings in (f"{LONG} = 1", f"codemods = ['{LONG}']", f"jobs = '{LONG}'", f"{LONG} {LONG}"):
        (hostile / "pyproject.toml").write_text(f"[tool.devfix]\n{settings}\n")
        assert main(["check", "."]) == 2
        assert len(capsys.readouterr().err) < 5_000


def _applies(folder: Path, patch: bytes) -> None:
    done = subprocess.run(
        ["git", "apply", "--numstat", "-z", "-"], input=patch, capture_output=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\0") == len(NAMES) + 1


# --- caches ------------------------------------------------------------------------------------------


def planted(top: Path, tree: Path, home: str) -> None:
    """Journals as a repository may bring them, of a run that was killed: `.git/config` and `main.py` were evil."""
    evil = b"[core]\n\tfsmonitor = touch ran\n"
    for number, path in enumerate((tree / ".git" / "config", tree / "main.py")):
        folder = top / f"29991231-235959-99{number}"
        folder.mkdir(parents=True)
        other = tree / f"other{number}.py"  # so that the unit is half done
        other.write_text("other\n")
        (folder / journal.digest_of(evil)).write_bytes(evil)
        half = {"path": str(other), "before": journal.digest_of(b"other\n"), "after": "", "unit": 0}
        entry = {
            "path": str(path),
            "before": journal.digest_of(evil),
            "after": journal.digest_of(path.read_bytes()),
            "unit": 0,
        }
        manifest = {"version": 2, "home": home, "tree": str(tree), "files": [entry, half]}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "running").touch()


def test_a_journal_that_came_with_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it lies, and if it names everything as a journal of this place would: nothing of it is read."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True)
    (tmp_path / "main.py").write_text(BUG)
    config = (tmp_path / ".git" / "config").read_bytes()
    old = tmp_path / ".devfix_cache"
    old.mkdir()
    planted(old / "journal", tmp_path, str(old.lstat().st_ino))
    for name in (".local/state", "state", ".devfix_cache"):  # as if it had guessed the name right
        planted(
            Path(name, "devfix", "trees", Path(state.place(str(tmp_path))).name, "journals"), tmp_path, ""
        )
    before = all_of(tmp_path)
    assert main(["undo"]) == 0
    assert main(["check", "-q", "."]) == 1
    assert "was killed" not in capsys.readouterr().err
    assert all_of(tmp_path) == before
    assert main(["apply", "-q", "."]) == 0
    assert (tmp_path / "main.py").read_text() == MOVED
    assert (tmp_path / ".git" / "config").read_bytes() == config
    assert main(["undo"]) == 0  # one's own is read
    assert all_of(tmp_path) == before
    subprocess.run(["git", "status"], check=True, capture_output=True)
    assert not (tmp_path / "ran").exists()


def test_decisions_that_came_with_the_repository(hostile: Path) -> None:
    """An interactive review does not take somebody else's word that its fixes were accepted."""
    from devfix.commands.review import Review
    from devfix.pipeline.selection import fingerprints
    from devfix.pipeline.work import Task

    (hostile / "main.py").write_text(BUG)
    report = run(discover(["."]), [ReorderTo()], jobs=1)
    yes = dict.fromkeys((name for _, _, name in fingerprints(report)), "y")
    review = Review(report, Task((ReorderTo(),)), str(hostile), False, lambda path: True)
    cache = hostile / ".devfix_cache"
    cache.mkdir()
    for found in (yes, {"home": str(cache.lstat().st_ino), "decided": yes}):
        (cache / "interactive.json").write_text(json.dumps(found))
        assert review._remembered(set(yes)) == {}
    review._save(yes)
    assert review._remembered(set(yes)) == yes
    for text in ("[]", "3", "{", '{"decided": 1}'):
        Path(review._memory()).write_text(text)
        assert review._remembered(set(yes)) == {}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{", "3", '{"devfix-baseline": 1, "findings": 3}', "\0", "nan"]
)
def test_baselines_and_decisions_that_are_none(
    text: str, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hostile / "main.py").write_text(BUG)
    (hostile / "given.json").write_text(text)
    assert main(["check", "--baseline", "given.json", "."]) == 2
    assert main(["apply", "--decisions", "given.json", "."]) == 2
    err = capsys.readouterr().err
    assert "own bug" not in err and len(err.splitlines()) == 2
    assert (hostile / "main.py").read_text() == BUG


def test_a_baseline_only_leaves_out(hostile: Path) -> None:
    """At worst a hostile baseline hides findings, which the summary counts; it changes nothing."""
    (hostile / "main.py").write_text(BUG)
    assert main(["check", "-q", "--write-baseline", "base.json", "."]) == 0
    before = all_of(hostile)
    assert main(["check", "--baseline", "base.json", "."]) == 0
    assert all_of(hostile) == before


def test_a_library_behind_a_link_is_not_read(hostile: Path, outside: Path) -> None:
    from devfix.recipes.files import _installed, installed

    (outside / "speechbrain").mkdir()
    (outside / "speechbrain" / "core.py").write_text("secret = 1\n")
    packages = hostile / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "speechbrain").symlink_to(outside / "speechbrain")
    assert not installed(str(hostile)).startswith(str(hostile))
    (packages / "speechbrain").unlink()
    shutil.copytree(outside / "speechbrain", packages / "speechbrain")
    _installed.cache_clear()
    assert installed(str(hostile))  # here, or where devfix runs


def test_poisoned_results(
    hostile: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kept results that are damaged, forged or no files: what is said is the same as without them."""
    import hashlib

    monkeypatch.setenv("XDG_CACHE_HOME", str(outside / "cache"))
    (hostile / "main.py").write_text(BUG)
    (hostile / "other.py").write_text("x = 1\n")
    assert main(["check", "."]) == 1
    said = capsys.readouterr()
    entries = [path for path in (outside / "cache").rglob("*") if path.is_file() and len(path.name) > 20]
    assert entries, "nothing is kept, so this tests nothing"
    bodies = [b"[" * 100_000, b"null", b"[[], {}]", b'[[["=/etc/passwd", "x"]], {"main.py": [[0], null]}]', b"\xff",
              b'[[], {"main.py": [[], null]}]', b'[[], {"main.py": [[99], [[["x"]], "", []]]}]']  # fmt: skip
    poisons = [hashlib.sha256(body).hexdigest().encode() + b"\n" + body for body in bodies]
    for poison in (*poisons, b"", b"\0" * 200, "fifo", "link", "folder"):
        for path in entries:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.unlink(missing_ok=True)
            if isinstance(poison, bytes):
                path.write_bytes(poison)
            elif poison == "fifo":
                os.mkfifo(path)
            elif poison == "link":
                path.symlink_to(outside / "secret.py")
            else:
                path.mkdir()
        assert main(["check", "."]) == 1
        assert capsys.readouterr() == said, poison
    assert (outside / "secret.py").read_text() == BUG


def test_results_are_not_kept_in_the_repository(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that is the user's home, or that an environment file points to, is nobody's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(hostile / "cache"))
    (hostile / "main.py").write_text(BUG)
    assert main(["check", "-q", "."]) == 1
    assert not (hostile / "cache").exists()
