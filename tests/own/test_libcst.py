"""LibCST commands: run by LibCST, shown, decided and written as any codemod."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from authors import LIBCST, Ran
from devfix.own.text_codemod import hunks

Run = Callable[..., Ran]
Write = Callable[..., Path]
RENAME = "libcst:../rules/commands.py:RenameCommand"


@pytest.fixture(autouse=True)
def commands(write: Write) -> None:
    write("../rules/commands.py", LIBCST)


def command(name: str) -> str:
    return f"libcst:../rules/commands.py:{name}"


def test_findings_diff_apply_undo(run: Run, write: Write) -> None:
    program = write("a.py", "x = old(1)\n\n\ndef f():\n    return old(2)  # why\n")
    arguments = ("--codemod", RENAME, "--codemod-arg", "old=old", "a.py")
    done = run("check", *arguments)
    assert done.code == 1
    assert "a.py:1:1: libcst-rename Rename a function\n" in done.out
    assert "a.py:5:5: libcst-rename Rename a function\n" in done.out
    assert "needs --unsafe" in done.out
    assert run("apply", *arguments).code == 0 and "old(1)" in program.read_text()
    assert "-x = old(1)\n+x = fresh(1)\n" in run("diff", "--unsafe", *arguments).out
    assert run("apply", "--unsafe", *arguments).code == 0
    assert program.read_text() == "x = fresh(1)\n\n\ndef f():\n    return fresh(2)  # why\n"
    run("undo")
    assert run("apply", *arguments, "--codemod-arg", "safety=safe").code == 0
    assert "fresh" in program.read_text()


def test_one_hunk_of_several_is_taken(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of a command that would do more on its own result."""
    program = write("a.py", "x = old(1)\ny = 2\nz = old(3)\n")
    answers = tmp_path / "answers"
    answers.write_text("n\ny\n")
    with answers.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        arguments = ("--codemod-arg", "new-name=old_old", "--codemod-arg", "old=old", "a.py")
        assert run("apply", "-i", "--unsafe", "--codemod", RENAME, *arguments).code == 0
    assert program.read_text() == "x = old(1)\ny = 2\nz = old_old(3)\n"


def test_a_line_is_ignored(run: Run, write: Write) -> None:
    program = write("a.py", "x = old(1)  # devfix: ignore[libcst-rename]\ny = 2\nz = old(3)\n")
    run("apply", "--unsafe", "--codemod", RENAME, "--codemod-arg", "old=old", "a.py")
    assert program.read_text() == "x = old(1)  # devfix: ignore[libcst-rename]\ny = 2\nz = fresh(3)\n"


def test_arguments_are_read_by_the_command(run: Run, write: Write) -> None:
    write("a.py", "x = old(1)\ny = 2\nz = older(3)\n")

    def diff(*arguments: str) -> Ran:
        return run("diff", "--unsafe", "--codemod", RENAME, *arguments, "a.py")

    given = [f"--option=libcst-rename.{a}" for a in ("old=old", "new=n", "also=older,oldest", "times=3")]
    done = diff(*given, "--codemod-arg", "import")
    assert "+from elsewhere import n\n+\n+x = nnn(1)\n" in done.out and "+z = nnn(3)\n" in done.out
    for arguments, said in (
        ((), "the following arguments are required: --old; give it as --codemod-arg NAME=VALUE"),
        (("--codemod-arg", "odl=x"), "codemod libcst-rename has no argument 'odl'; did you mean 'old'?"),
        (("--codemod-arg", "=x"), "must be NAME=VALUE"),
        (("--codemod-arg", "old=x", "--codemod-arg", "times=y"), "argument --times: invalid int value: 'y'"),
        (("--codemod-arg", "old=x", "--codemod-arg", "import=maybe"), "must be true or false, not 'maybe'"),
        (("--codemod-arg", "old=x", "--codemod-arg", "safety=sure"), "must be one of safe, unsafe, manual"),
    ):
        done = diff(*arguments)
        assert done.code == 2 and said in done.err, done.err
    assert "`old` (required): the name that goes" in run("explain", RENAME).out


def test_arguments_that_only_the_constructor_knows(run: Run, write: Write) -> None:
    write("a.py", "x = 1\n")
    naked = ("--unsafe", "--codemod", command("NakedCommand"))
    done = run("diff", *naked, "--codemod-arg", "text=2", "--codemod-arg", "twice=true", "a.py")
    assert "+x = 22\n" in done.out
    done = run("diff", *naked, *(f"--codemod-arg={a}" for a in ("text=2", "twice=no", "often=3")), "a.py")
    assert "+x = 222\n" in done.out
    for arguments, said in (
        (("text=2",), "missing 1 required positional argument: 'twice'; give arguments as --codemod-arg"),
        (("txt=2",), "has no argument 'txt'; did you mean 'text'?"),
        (("twice=maybe",), "must be true or false"),
        (("often=x",), "must be a whole number"),
    ):
        done = run("diff", *naked, *(f"--codemod-arg={argument}" for argument in arguments), "a.py")
        assert done.code == 2 and said in done.err
    assert "What its constructor takes" in run("explain", command("NakedCommand")).out


def test_an_argument_needs_one_codemod_that_it_is_for(run: Run, write: Write) -> None:
    write("a.py", "x = old(1)\n")
    done = run("check", "--codemod-arg", "old=old", "a.py")
    assert done.code == 2 and "--option ID.NAME=VALUE says which one is meant" in done.err
    two = ("--codemod", RENAME, "--codemod", command("AppendCommand"))
    assert run("check", *two, "--codemod-arg", "old=old", "a.py").code == 2
    done = run("diff", "--unsafe", *two, "--option", "libcst-rename.old=old", "a.py")
    assert "+x = fresh(1)\n" in done.out and done.out.count("+more()\n") == 1


def test_a_command_that_is_not_idempotent_comes_to_an_end(run: Run, write: Write) -> None:
    """Beside codemods whose fixes take more than one pass."""
    program = write("a.py", "import torch\n\nx = torch.ones(3)\n")
    done = run("apply", "--unsafe", "--codemod", command("AppendCommand"), "a.py")
    assert done.code == 0 and program.read_text().count("more()") == 1


def test_comments_may_go(run: Run, write: Write) -> None:
    program = write("a.py", "x = 1  # one\n# two\n")
    assert run("apply", "--unsafe", "--codemod", command("Uncommented"), "a.py").code == 0
    assert program.read_text() == "x = 1  # gone\n# gone\n"


def test_the_context_is_that_of_libcst(run: Run, write: Write) -> None:
    write("pyproject.toml", "")
    write("pkg/__init__.py", "")
    path = write("pkg/sub.py", "x = 'here'\n")
    done = run("diff", "--unsafe", "--codemod", command("WhereCommand"), "pkg")
    assert f"pkg.sub pkg {path.resolve()}" in done.out


def test_metadata_of_the_repository(run: Run, write: Write) -> None:
    write("pyproject.toml", "")
    write("pkg/__init__.py", "")
    write("pkg/sub.py", "def f():\n    pass\n")
    done = run("diff", "--unsafe", "--codemod", command("QualifiedCommand"), ".")
    assert "+def pkg_sub_f():\n" in done.out and not done.err.count("error")
    done = run("check", "--codemod", command("TypedCommand"), ".")
    assert done.code == 2 and "needs a running Pyre server" in done.err and not done.out


def test_a_crash_is_named(run: Run, write: Write) -> None:
    write("a.py", "pass\n")
    write("b.py", "x = 1\n")
    line = LIBCST.splitlines().index('        raise KeyError("oh")') + 1
    done = run("check", "--codemod", command("CrashCommand"), "--codemod", command("AppendCommand"), ".")
    assert done.code == 2 and done.out.count("libcst-append") == 2
    where = f"../rules/commands.py:{line}"
    assert f"a.py: codemod libcst-crash: KeyError: 'oh' ({Path(where).resolve()})" in done.err
    assert "b.py" not in done.err


def test_remarks_and_skips_are_shown(run: Run, write: Write) -> None:
    write("a.py", "pass\n")
    done = run("check", "--codemod", command("SkippingCommand"), "a.py")
    assert done.code == 1 and "libcst-skipping look at this file yourself" in done.out


def test_files_that_do_not_parse_are_errors(run: Run, write: Write) -> None:
    write("a.py", "print 'two'\n")
    done = run("check", "--codemod", command("AppendCommand"), "a.py")
    assert done.code == 2 and "a.py: line 1: Missing parentheses" in done.err


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("libcst:commands.py", "must name the class, too"),
        ("libcst:../rules/commands.py:Nope", "Nope is not there; known are AppendCommand"),
        ("libcst:../rules/commands.py:Plain", "Plain does not derive from libcst.codemod.Codemod"),
        ("libcst:no_such_module.Name", "install it, or name a file: libcst:path/to/file.py:Name"),
        ("libcst:", "must be libcst:MODULE.CLASS"),
    ],
)
def test_what_cannot_be_loaded(run: Run, write: Write, spec: str, said: str) -> None:
    write("a.py", "pass\n")
    done = run("check", "--codemod", spec, "a.py")
    assert done.code == 2 and said in done.err and "own bug" not in done.err


def test_commands_of_libcst_itself(run: Run, write: Write) -> None:
    write("a.py", 'a = 1\nx = "%s" % (a,)\n')
    module = "libcst.codemod.commands.convert_percent_format_to_fstring"
    done = run("diff", "--unsafe", "--codemod", f"libcst:{module}.ConvertPercentFormatStringCommand", "a.py")
    assert '+x = f"{a}"\n' in done.out
    done = run("diff", "--unsafe", "--codemod", f"libcst:{module}:ConvertPercentFormatStringCommand", "a.py")
    assert '+x = f"{a}"\n' in done.out


def test_notebooks(run: Run, write: Write) -> None:
    cells = [
        {"cell_type": "code", "source": ["%time\n", "x = old(1)\n"], "outputs": [], "metadata": {}},
        {"cell_type": "code", "source": ["y = old(2)"], "outputs": [], "metadata": {}},
    ]
    write(
        "n.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    )
    arguments = ("--unsafe", "--codemod", RENAME, "--codemod-arg", "old=old", "n.ipynb")
    assert "n.ipynb:cell 2:1:1: libcst-rename" in run("check", *arguments).out
    assert run("apply", *arguments).code == 0
    sources = [cell["source"] for cell in json.loads(Path("n.ipynb").read_text())["cells"]]
    assert sources == [["%time\n", "x = fresh(1)\n"], ["y = fresh(2)"]]


LAYOUTS = {
    "CRLF": b"x = old(1)\r\ny = 2\r\nz = old(3)\r\n",
    "CR": b"x = old(1)\ry = 2\rz = old(3)\r",
    "BOM": b"\xef\xbb\xbfx = old(1)\ny = 2\nz = old(3)\n",
    "latin-1": "# -*- coding: latin-1 -*-\nx = old('ä')\ny = 2\nz = old(3)\n".encode("latin-1"),
    "no newline": b"x = old(1)\ny = 2\nz = old(3)",
    "form feed": b"\fx = old(1)\n\f\ny = '\x1c'\nz = old(3)\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(run: Run, write: Write, layout: str) -> None:
    program = write("a.py", LAYOUTS[layout])
    assert run("apply", "--unsafe", "--codemod", RENAME, "--codemod-arg", "old=old", "a.py").code == 0
    assert program.read_bytes() == LAYOUTS[layout].replace(b"old(", b"fresh(")


def test_hunks_that_need_each_other_are_one_finding(run: Run, write: Write) -> None:
    program = write("a.py", "try:\n    a()\n    b()\nexcept E:\n    pass\n")
    done = run("check", "--codemod", command("TryCommand"), "a.py")
    assert done.out.count("libcst-try") == 1 and "make its 2 changes, which need each other" in done.out
    assert run("apply", "--unsafe", "--codemod", command("TryCommand"), "a.py").code == 0
    assert program.read_text() == "if 1:\n    a()\n    b()\nelse:\n    pass\n"


def test_of_two_that_are_in_each_others_way_one_goes_first(run: Run, write: Write) -> None:
    """On line 1 the one would win, on line 4 the other; neither is made in part."""
    program = write("a.py", "b = old(1)\nx = 2\nb = 3\nb = old(4)\n")
    both = ("--codemod", RENAME, "--codemod", command("RenameTooCommand"))
    options = ("libcst-rename.old=old", "libcst-rename-too.old=b", "libcst-rename-too.new=c")
    done = run("apply", "--unsafe", *both, *(f"--option={option}" for option in options), "a.py")
    assert done.code == 0 and not done.err.count("devfix:")
    assert program.read_text() == "c = fresh(1)\nx = 2\nc = 3\nc = fresh(4)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "x\n"),
        ("x\n", ""),
        ("a\nb\nc\n", "a\nc\n"),
        ("a\n", "a"),
        ("a\rb\r", "a\rc\r"),
        ("a\n\n\nb\n", "c\n\n\nd\n"),
    ],
)
def test_hunks_make_the_text(before: str, after: str) -> None:
    made, shift = before, 0
    for (edit,) in hunks(before, after):
        made = made[: edit.span.start + shift] + edit.text + made[edit.span.end + shift :]
        shift += len(edit.text) - (edit.span.end - edit.span.start)
    assert made == after
