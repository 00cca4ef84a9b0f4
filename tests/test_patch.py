"""Patches, by having git apply them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.reports.report import FileResult, Report
from devfix.review import patch
from ran import Ran

Devfix = Callable[..., Ran]
Git = Callable[..., str]

BODY = """import torch


class Model:
    size = 1

    @property
    def head(self):
        a = 1
        b = 2
        c = 3
        d = 4
        return alpha


def train(model,
          device):
    x = 1
    y = 2
    z = 3
    anchor()


def last():
    x = 1
    y = 2
    z = 3
    old()
    return x
"""

LAYOUTS = {
    "lf": BODY.encode(),
    "crlf": BODY.replace("\n", "\r\n").encode(),
    "mixed": BODY.replace("\n", "\r\n", 9).encode(),
    "lone cr": BODY.replace("a = 1\n", "a = 1\r").replace("x = 1\n", "x = 1\r").encode(),
    "no newline": BODY.encode() + b"alpha",
    "changed last line, no newline": BODY.encode() + b"anchor()",
    "form feed": BODY.replace("\n\n\n", "\n\x0c\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + BODY.replace("alpha", "alpha, '\xe4'").encode("latin-1"),
    "bom": b"\xef\xbb\xbfalpha\n" + BODY.encode(),
    "separators": BODY.replace("alpha", "alpha, '\u2028\x1c\x85'").encode(),
    "bom and nothing else": b"\xef\xbb\xbfalpha",
    "only line": b"old()",
    "trailing blanks": BODY.replace("y = 2\n", "y = 2 \t\n").encode(),
    "diff in text": ("'''\n--- a\n+++ b\n@@ -1 +1 @@\n'''\n" + BODY).encode(),
}
NAMES = [
    "x.py",
    "with blank.py",
    "tab\tin.py",
    "\u00e4\u4e2d.py",
    'quote".py',
    "back\\slash.py",
    "b/x b/x.py",
    "a b/a b.py",
]
ALL = ("--codemod", "rename-alpha", "--codemod", "insert-call")


def commit(git: Git, root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    git("add", "-A")
    git("commit", "-q", "-m", "x")


def test_git_applies_what_apply_writes(devfix: Devfix, git: Git, tmp_path: Path) -> None:
    files = {f"{layout}.py": data for layout, data in LAYOUTS.items()}
    commit(git, tmp_path, files)
    shown = [devfix("diff", *ALL, *explain, ".") for explain in ((), ("--explain",))]
    assert [one.code for one in shown] == [1, 1], shown
    written = devfix("apply", *ALL, ".")
    assert written.code == 0, written.err
    expected = {name: (tmp_path / name).read_bytes() for name in files}
    for name, data in files.items():
        assert expected[name] != data and b"alpha" not in expected[name], name
    for one in shown:
        git("checkout", "-q", ".")
        git("apply", stdin=one.out)
        for name in files:
            assert (tmp_path / name).read_bytes() == expected[name], name
    git("checkout", "-q", ".")
    git("apply", stdin=shown[0].out)
    git("apply", "-R", stdin=shown[0].out)
    for name, data in files.items():
        assert (tmp_path / name).read_bytes() == data, name


def test_names_folders_and_links(devfix: Devfix, git: Git, tmp_path: Path) -> None:
    files = {f"sub/{name}": f"alpha = {n}\n".encode() for n, name in enumerate(NAMES)}
    commit(git, tmp_path, files)
    (tmp_path / "sub" / "z.py").symlink_to("x.py")
    for explain in ((), ("--explain",)):
        shown = devfix("diff", *explain, ".", cwd=tmp_path / "sub")
        assert shown.code == 1, shown.err
        assert rb'"a/sub/\303\244\344\270\255.py"' in shown.out
        git("apply", stdin=shown.out, cwd=tmp_path / "sub")
        for n, name in enumerate(files):
            assert (tmp_path / name).read_bytes() == b"beta = %d\n" % n
        git("checkout", "-q", ".")
    shown = devfix("diff", "z.py", cwd=tmp_path / "sub")
    git("apply", stdin=shown.out, cwd=tmp_path / "sub")
    assert (tmp_path / "sub" / "x.py").read_bytes() == b"beta = 0\n"


def test_name_that_is_no_utf8(devfix: Devfix, git: Git, tmp_path: Path) -> None:
    try:
        commit(git, tmp_path, {"\udce4.py": b"alpha\n"})
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    assert "\\xe4.py:1:1" in devfix("check", ".").text
    shown = devfix("diff", ".")
    assert shown.out.startswith(rb'diff --git "a/\344.py"')
    git("apply", stdin=shown.out)
    assert (tmp_path / "\udce4.py").read_bytes() == b"beta\n"


def test_text(devfix: Devfix, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(BODY)
    assert devfix("diff", *ALL, ".").text == EXPECTED
    assert devfix("diff", *ALL, "--explain", ".").text == EXPLAINED


HEADER = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n"
EXPECTED = (
    HEADER
    + """@@ -10,7 +10,7 @@ def head(self):
         b = 2
         c = 3
         d = 4
-        return alpha
+        return beta
 ~
 ~
 def train(model,
@@ -19,11 +19,11 @@ def train(model,
     y = 2
     z = 3
     anchor()
+    placed()
 ~
 ~
 def last():
     x = 1
     y = 2
     z = 3
-    old()
     return x
""".replace("~\n", "\n")
)
EXPLAINED = (
    """# rename-alpha (safe): `alpha` is old
#   fix: replace it by `beta`
"""
    + EXPECTED[: EXPECTED.index("@@ -19")]
    + """# insert-call (safe): no call
#   fix: add `placed()`
# insert-call (safe): old call
#   fix: remove it
"""
    + HEADER
    + EXPECTED[EXPECTED.index("@@ -19") :]
)


def test_color_only_on_request(devfix: Devfix, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(BODY)
    assert b"\x1b" not in devfix("diff", ".").out
    assert b"\x1b[32m+" in devfix("diff", "--color", "always", ".").out


def test_outside_the_working_directory(devfix: Devfix, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("alpha\n")
    (tmp_path / "sub").mkdir()
    shown = devfix("diff", "../x.py", cwd=tmp_path / "sub")
    assert shown.code == 1
    assert b"--- a/../x.py\n" in shown.out
    assert "outside the working directory" in shown.err


def test_a_repository_in_the_repository(devfix: Devfix, git: Git, tmp_path: Path) -> None:
    """`git am` refuses a commit that changes what is in another one, such as a submodule."""
    for name in ("", "sub/folder"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "x.py").write_text("alpha\n")
    assert "git am" not in devfix("diff", "--format", "mbox", ".").err
    git("init", "-q", "sub")
    shown = devfix("diff", "--format", "mbox", ".")
    assert shown.code == 1
    assert "devfix: sub/folder/x.py: in another repository, so `git am` refuses the commit" in shown.err
    assert "devfix: x.py" not in shown.err
    assert "git am" not in devfix("diff", ".").err


def test_random_changes(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any two texts: git makes the second from the first."""
    monkeypatch.chdir(tmp_path)
    chance = random.Random(7)
    words = [b"a\n", b"b\n", b"\n", b"    \n", b"c\r\n", b"d\r", b"x = 1\n", b"\x0c\n", b"\xff\n"]
    commit(git, tmp_path, {"x.py": b""})
    for _ in range(150):
        before = [chance.choice(words) for _ in range(chance.randrange(1, 60))]
        after = list(before)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(after) + 1)
            after[at : at + chance.randrange(3)] = [chance.choice(words) for _ in range(chance.randrange(3))]
        one, two = b"".join(before), b"".join(after)
        if chance.random() < 0.5:
            one, two = one.rstrip(b"\n"), two.rstrip(b"\n")
        if one == two or not one or not two:
            continue
        report = Report((FileResult("x.py", before=one, after=two),))
        for explain in (False, True):
            (tmp_path / "x.py").write_bytes(one)
            git("apply", "--whitespace=nowarn", stdin=patch.patch(report, explain=explain))
            assert (tmp_path / "x.py").read_bytes() == two


def test_explained_hunks_count_from_what_those_before_have_made() -> None:
    before = [b"same\n"] * 40
    after = [*before[:10], b"new\n", b"new\n", *before[10:30], b"more\n", *before[30:]]
    report = Report((FileResult("x.py", before=b"".join(before), after=b"".join(after)),))

    def headers(explain: bool) -> list[bytes]:
        return [x for x in patch.patch(report, explain=explain).split(b"\n") if x.startswith(b"@@")]

    assert headers(False) == [b"@@ -8,6 +8,8 @@", b"@@ -28,6 +30,7 @@"]
    assert headers(True) == [b"@@ -8,6 +8,8 @@", b"@@ -30,6 +30,7 @@"]


def test_large_file_is_fast() -> None:
    lines = [b"    x = 1\n", b"\n", b"    pass\n"] * 10_000
    changed = [b"import torch\n", *lines[:15_000], b"new\n", *lines[15_000:], b"end\n"]
    found = list(patch.hunks([b"first\n", *lines, b"last\n"], [b"first\n", *changed, b"last\n"]))
    assert len(found) == 3
