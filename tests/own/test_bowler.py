"""Bowler scripts: captured, never writing or asking by themselves; what Bowler cannot parse is an error."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from authors import BOWLER, Ran

Run = Callable[..., Ran]
Write = Callable[..., Path]

pytest.importorskip("bowler")
SCRIPT = "bowler:../rules/rename_old.py"


@pytest.fixture(autouse=True)
def script(write: Write) -> None:
    write("../rules/rename_old.py", BOWLER)


def test_findings_diff_apply_undo(run: Run, write: Write) -> None:
    program = write("a.py", "x = old(1)\ny = 2  # two\nz = old(3)\n")
    done = run("check", "--codemod", SCRIPT, "a.py")
    assert (
        done.code == 1
        and done.out.count("bowler-rename-old The Bowler script rename_old.py rewrites this\n") == 2
    )
    assert "something for a terminal" not in done.out + done.err
    assert program.read_text().count("old") == 2  # .write() has not written
    done = run("diff", "--unsafe", "--codemod", SCRIPT, ".")
    assert "-x = old(1)\n+x = newer(1)\n" in done.out  # one query after the other
    assert run("apply", "--codemod", SCRIPT, ".").code == 0  # unsafe
    assert run("apply", "--unsafe", "--codemod", SCRIPT, ".").code == 0
    assert program.read_text() == "x = newer(1)\ny = 2  # two\nz = newer(3)\n"
    assert run("undo").code == 0
    assert program.read_text().count("old(") == 2


def test_what_its_grammar_cannot_parse_is_an_error(run: Run, write: Write) -> None:
    write("a.py", "x = old(1)\n")
    write("m.py", "old(1)\nmatch x:\n    case [1, *rest]:\n        old(2)\n")
    write("e.py", "try:\n    old(1)\nexcept* ValueError:\n    pass\n")
    write("w.py", "with (open('a') as a, open('b') as b):\n    old(1)\n")
    done = run("diff", "--unsafe", "--codemod", SCRIPT, ".")
    assert done.code == 2 and "a/a.py" in done.out and done.out.count("+++") == 1
    new = [("m", 2), ("w", 1), *([("e", 3)] if sys.version_info >= (3, 11) else [])]
    for name, line in new:
        said = f"{name}.py: codemod bowler-rename-old: Bowler's grammar cannot parse line {line}"
        assert said in done.err
    assert "own bug" not in done.err
    # Codemods that can read them still do.
    write("../rules/commands.py", "import libcst as cst\nfrom libcst.codemod import CodemodCommand\n\n\n"
          "class MoreCommand(CodemodCommand):\n    def transform_module_impl(self, tree):\n"
          "        return tree.with_changes(body=[*tree.body, cst.parse_statement('more()')])\n")  # fmt: skip
    more = "libcst:../rules/commands.py:MoreCommand"
    done = run("diff", "--unsafe", "--codemod", SCRIPT, "--codemod", more, "m.py")
    assert done.code == 2 and "+more()" in done.out


@pytest.mark.parametrize(
    "how", ["execute", "write", "diff", "idiff", "silent", "execute(interactive=True, write=True)"]
)
def test_every_way_to_execute_is_captured(
    run: Run, write: Write, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(builtins, "input", asked)
    call = how if "(" in how else f"{how}()"
    write("../rules/s.py", f"from bowler import Query\nQuery('.').select_var('a').rename('b').{call}\n")
    program = write("p.py", "a = 1\n")
    argv = list(sys.argv)
    done = run("diff", "--unsafe", "--codemod", "bowler:../rules/s.py", "p.py")
    assert done.code == 1 and "+b = 1\n" in done.out and program.read_text() == "a = 1\n"
    assert sys.argv == argv


def test_the_script_has_its_command_line(run: Run, write: Write) -> None:
    write(
        "../rules/s.py",
        "import argparse\nfrom bowler import Query\n"
        "if __name__ == '__main__':\n"
        "    p = argparse.ArgumentParser()\n    p.add_argument('path')\n    p.add_argument('--to', default='b')\n"
        "    a = p.parse_args()\n    Query(a.path).select_var('a').rename(a.to).idiff()\n    raise SystemExit(3)\n",
    )
    write("p.py", "a = 1\n")
    script = ("--unsafe", "--codemod", "bowler:../rules/s.py")
    assert "+b = 1\n" in run("diff", *script, "p.py").out
    assert "+cc = 1\n" in run("diff", *script, "--codemod-arg", "args=src --to cc", "p.py").out
    done = run("diff", *script, "--codemod-arg", "args=--tu cc", "p.py")
    assert (
        done.code == 2 and "ended before any query: s.py: error: " in done.err and done.err.count("\n") == 1
    )
    done = run("diff", *script, "--codemod-arg", "to=cc", "p.py")
    assert done.code == 2 and "has no argument 'to'" in done.err and "args='...'" in done.err


def test_filename_matchers_and_processors_count(run: Run, write: Write) -> None:
    write(
        "../rules/s.py",
        '"""Only mine.\\n\\nAnd more."""\n'
        "from bowler import Query\n"
        "def mine(filename, hunk):\n"
        "    assert hunk[0].startswith('--- ') and hunk[2].startswith('@@ ')\n"
        "    return not any('keep' in line for line in hunk)\n"
        "Query(filename_matcher=lambda name: name.endswith('_mine.py')).select_var('a').rename('b')"
        ".process(mine).write()\n",
    )
    far = "\n" * 20
    program = write("x_mine.py", f"a = 1\n{far}a = 2  # keep\n{far}a = 3\n")
    write("other.py", "a = 1\n")
    assert "bowler-s Only mine\n" in run("check", "--codemod", "bowler:../rules/s.py", ".").out
    done = run("apply", "--unsafe", "--codemod", "bowler:../rules/s.py", ".")
    assert done.code == 0
    assert program.read_text() == f"b = 1\n{far}a = 2  # keep\n{far}b = 3\n"
    assert Path("other.py").read_text() == "a = 1\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("x = 1\n", "the script executed no query"),
        ("import nope\n", "ModuleNotFoundError: No module named 'nope' (../rules/s.py:1)"),
        ("input('sure? ')\n", "the script asks a question; answer it with --codemod-arg args='...'"),
        ("from bowler.tool import BowlerTool\nBowlerTool.run(None, ['.'])\n", "runs BowlerTool itself"),
        ("def main():\n    1 / 0\n", "ZeroDivisionError: division by zero (../rules/s.py:2)"),
    ],
)
def test_scripts_that_cannot_be_run(run: Run, write: Write, script: str, said: str) -> None:
    path = write("../rules/s.py", script)
    write("p.py", "a = 1\n")
    done = run("check", "--codemod", "bowler:../rules/s.py", "p.py")
    assert done.code == 2 and said.replace("../rules/s.py", str(path.resolve())) in done.err
    assert "own bug" not in done.err and done.out == ""


def test_a_callback_that_crashes_is_named(run: Run, write: Write) -> None:
    path = write(
        "../rules/s.py",
        "from bowler import Query\n\n\ndef change(node, capture, filename):\n    raise KeyError(filename)\n\n\n"
        "Query().select_var('a').modify(change).write()\n",
    )
    write("p.py", "a = 1\n")
    write("q.py", "b = 1\n")
    done = run("check", "--codemod", "bowler:../rules/s.py", ".")
    assert done.code == 2
    assert f"p.py: codemod bowler-s: KeyError: 'p.py' ({path.resolve()}:5)" in done.err
    assert "q.py" not in done.err


def test_without_bowler(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bowler", None)
    write("p.py", "a = 1\n")
    done = run("check", "--codemod", SCRIPT, "p.py")
    assert done.code == 2 and "pip install 'devfix[bowler]'" in done.err


@pytest.mark.parametrize(
    "text",
    [
        b"x = old(1)\r\ny = 2\r\nz = old(3)\r\n",
        b"\xef\xbb\xbfx = old(1)\n",
        "# -*- coding: latin-1 -*-\nx = old('ä')\n".encode("latin-1"),
        b"y = 2\nx = old(1)",
        b"\fx = old(1)\n\f\ny = '\x1c'\nz = old(3)\n",
        b"if x:\n\told(1)\n",
        b"x = old(1) # \xe2\x80\xa8 a line for str.splitlines\n",
        b"print(old(1), end='')\nexec(old)\n",
    ],
    ids=["CRLF", "BOM", "latin-1", "no newline", "form feed", "tabs", "U+2028", "print"],
)
def test_every_layout(run: Run, write: Write, text: bytes) -> None:
    program = write("p.py", text)
    assert run("apply", "--unsafe", "--codemod", SCRIPT, "p.py").code == 0
    assert program.read_bytes() == text.replace(b"old(", b"newer(")
