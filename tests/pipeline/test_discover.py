from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.pipeline.discover import discover
from devfix.text.globs import Globs

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def reasons(found_in: str = ".") -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in discover([found_in]).skipped}


def test_sorted_and_once_each(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/z.py", "a/b/c.py", "a/note.txt", "script")
    everything = ("a/b/c.py", "a/z.py", "b.py")
    assert discover(["."]).files == everything
    assert discover(["b.py", "a", ".", "a/../b.py", str(tmp_path / "a"), "a/z.py"]).files == everything
    assert discover(["a", "script"]).files == ("a/b/c.py", "a/z.py", "script")
    assert discover(["../" + tmp_path.name + "/b.py"]).files == ("b.py",)


def test_outside_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "x.py", "sub/y.py")
    monkeypatch.chdir(tmp_path / "sub")
    assert discover([".."]).files == ("../x.py", "y.py")


def test_folders_that_are_not_the_projects_own(tmp_path: Path) -> None:
    make(
        tmp_path,
        ".hidden/x.py",
        ".git/x.py",
        "node_modules/x.py",
        "a/__pycache__/x.py",
        "venv/lib/x.py",
        "venv/pyvenv.cfg",
        "build/lib/x.py",
        "x.egg-info/x.py",
        "tools/build/__init__.py",
        "lib/site-packages/x.py",
        ".hidden.py",
    )
    assert discover(["."]).files == (".hidden.py", "tools/build/__init__.py")
    assert reasons()["venv"] == "virtual environment"
    assert reasons()["build"] == "build folder"
    assert reasons()[".hidden"] == "hidden folder"
    assert discover(["venv", "build/lib/x.py"]).files == ("build/lib/x.py", "venv/lib/x.py")


def test_links(tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    make(outside, "o.py")
    make(tmp_path, "p/real.py", "p/q/other.py")
    (tmp_path / "p" / "a_link.py").symlink_to("real.py")
    (tmp_path / "p" / "out.py").symlink_to(outside / "o.py")
    (tmp_path / "p" / "broken.py").symlink_to("nothing.py")
    (tmp_path / "p" / "q" / "loop").symlink_to("..")
    (tmp_path / "p" / "self.py").symlink_to("self.py")
    (tmp_path / "p" / "text.py").symlink_to("../notes")
    found = discover(["p"])
    assert found.files == ("p/q/other.py", "p/real.py")
    assert not found.errors
    assert reasons("p")["p/out.py"] == "links out of the folder"
    assert reasons("p")["p/broken.py"] == "broken link"
    assert discover(["p/out.py"]).files == ("p/out.py",)


def test_not_regular(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "folder.py").mkdir()
    make(tmp_path, "folder.py/x.py")
    assert discover(["."]).files == ("folder.py/x.py",)
    assert reasons()["fifo.py"] == "not a regular file"
    (error,) = discover(["fifo.py"]).errors
    assert "neither a file nor a folder" in error.message


def test_missing(tmp_path: Path) -> None:
    make(tmp_path, "x.py")
    found = discover(["none", "x.py", "", "a\0b"])
    assert found.files == ("x.py",)
    assert [error.stage for error in found.errors] == ["discover"] * 3
    assert "no such file or folder" in found.errors[-1].message


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a/x.py", "a/test_x.py", "b/x.py", "third/deep/x.py", "x.py", "a/data.txt")

    def with_globs(include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> tuple[str, ...]:
        return discover(["."], Globs(".", include), Globs(".", exclude)).files

    assert with_globs(("a/**",)) == ("a/test_x.py", "a/x.py")
    assert with_globs(("*.txt",)) == ()
    assert with_globs((), ("third/", "test_*.py")) == ("a/x.py", "b/x.py", "x.py")
    assert with_globs(("a", "/x.py"), ("test_*",)) == ("a/x.py", "x.py")
    assert with_globs((), ("*.py", "!x.py")) == ("a/x.py", "b/x.py", "third/deep/x.py", "x.py")
    assert discover(["x.py"], None, Globs(".", ("x.py",))).files == ("x.py",)
    relative = Globs(str(tmp_path / "a"), ("/x.py",))
    assert discover(["."], None, relative).files == ("a/test_x.py", "b/x.py", "third/deep/x.py", "x.py")


def test_what_is_below_a_match() -> None:
    for base in ("/", "/repo"):
        globs = Globs(base, ("old*", "!older.py"))
        assert globs.below("/repo/old/a.py")
        assert not globs.below("/repo/older.py")
        assert not globs.below("/repo/new/a.py")
        assert not globs.below(base)


def test_gitignore(tmp_path: Path, git: Git) -> None:
    make(
        tmp_path, "a/keep.py", "a/drop.py", "a/gen/x.py", "gen/x.py", "a/sub/drop.py", "b/drop.py", "info.py"
    )
    make(tmp_path, ".gitignore", text="# comment\n/gen/\ndrop.py\n\\#odd.py\n")
    make(tmp_path, "b/.gitignore", text="!drop.py\n")
    make(tmp_path, "a/.gitignore", text="gen/\n!sub/drop.py\n")
    make(tmp_path, ".git/info/exclude", text="info.py\n")
    assert discover(["."]).files == ("a/keep.py", "a/sub/drop.py", "b/drop.py")
    assert discover(["a/sub", "b"]).files == ("a/sub/drop.py", "b/drop.py")
    assert discover(["a/drop.py"]).files == ("a/drop.py",), "a file that is named is wanted"
    assert discover(["gen"]).files == ("gen/x.py",), "so is a folder"
    assert reasons()["gen"] == "ignored by .gitignore"


def test_gitignore_star_is_not_nothing(tmp_path: Path, git: Git) -> None:
    make(tmp_path, "a/b/x.py", "a/c/x.py", "a/.gitignore")
    make(tmp_path, ".gitignore", text="a/*\n!b\n")
    assert discover(["."]).files == ("a/b/x.py",)


_PIECES = (
    "a b c d * ** ? ?? [ab] [!a] [^b] [a-c] [z-a] [z-ab] []a] [a] [a [ [] [^] a* *a* **a a** A a-b \\* \\a \\ \\[a] "
    "[[] [+--] [a-] [a\\-c] [!-~] #a \\!x x[/]b [a/b] [[:alpha:]] [[:digit:]a] [[:punct:]] [[:space:]] [[:foo:]] "
    "[[:alpha:] [:alpha:] é [é] [!é] [à-ü] é* é? *é* [\\é] \\é 日本 [日]* *本* e\u0301 \u0301*"
)
_NAMES = "a b ab A é e\u0301 日本 * [a] a-b #a !x x - ] \\ 1 + : 😀"
PIECES = [*_PIECES.split(), "a b", "ab ", "ab\\ ", "b\t", " "]
NAMES = [*_NAMES.split(), "ä ö", "ab ", "b\t"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems forbid or change some of these names")
@pytest.mark.parametrize("rounds", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_gitignore_as_git_has_it(tmp_path: Path, git: Git, rounds: int) -> None:
    """Random patterns and trees: what git ignores, devfix leaves out, and nothing else."""
    chance = random.Random(5)

    def some(of: list[str], most: int, glue: str) -> str:
        return glue.join(chance.choice(of) for _ in range(chance.randint(1, most)))

    for _ in range(rounds):
        root = tmp_path / "tree"
        shutil.rmtree(root, ignore_errors=True)
        make(root, *(some(NAMES, 4, "/") + ".py" for _ in range(12)))
        folders = sorted(str(path.relative_to(root)) for path in [root, *root.rglob("*/")])
        for folder in chance.sample(folders, min(2, len(folders))):
            lines = [
                ("!" if chance.random() < 0.3 else "")
                + ("/" if chance.random() < 0.3 else "")
                + "/".join(some(PIECES, 2, "") for _ in range(chance.randint(1, 2)))
                + (".py" if chance.random() < 0.3 else "")
                + ("/" if chance.random() < 0.3 else "")
                for _ in range(chance.randint(1, 4))
            ]
            make(root / folder, ".gitignore", text="\n".join(lines) + "\n")
        listed = git("ls-files", "-z", "--others", "--exclude-standard", "--", "tree")
        expected = sorted(name for name in listed.split("\0") if name.endswith(".py"))
        rules = {str(p.relative_to(root)): p.read_text() for p in root.rglob(".gitignore")}
        assert list(discover(["."]).files) == expected, rules


def test_closed_folder(tmp_path: Path) -> None:
    make(tmp_path, "open/x.py", "open/closed/y.py")
    closed = tmp_path / "open" / "closed"
    closed.chmod(0)
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    down = "os.setgid(65534); os.setuid(65534)\n" if os.geteuid() == 0 else ""
    code = (
        "import os\nfrom devfix.pipeline.discover import discover\n"
        f"{down}found = discover(['open', 'open/closed/y.py'])\n"
        "print(found.files, [(e.path, e.message[:17]) for e in found.errors])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    closed.chmod(0o755)
    assert done.stdout == (
        "('open/x.py',) [('open/closed', 'permission denied'), ('open/closed/y.py', 'permission denied')]\n"
    ), done.stderr
