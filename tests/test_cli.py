"""The command line, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from devfix.cli import group
from devfix.commands.helping import Command
from ran import TESTS, Ran

Devfix = Callable[..., Ran]
PYTHON = sys.executable


def lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text else []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = alpha\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    return tmp_path


# --- exit codes and errors -----------------------------------------------------------------


def test_exit_codes(devfix: Devfix, project: Path) -> None:
    for command in (["check"], ["diff"], ["apply", "--exit-code"]):
        assert devfix(*command, "b.py").code == 0
        (project / "a.py").write_text("x = alpha\n")
        assert devfix(*command, ".").code == 1
        assert devfix(*command, ".", "none").code == 2
    (project / "a.py").write_text("x = alpha\n")
    manual = ("--option", "rename-alpha.safety=manual")
    assert devfix("check", *manual, ".").code == 1
    assert devfix("diff", *manual, ".").code == 0
    assert devfix("apply", *manual, ".").code == 0
    assert devfix("apply", ".", "none").code == 2
    assert (project / "a.py").read_text() == "x = beta\n"
    assert devfix("apply", ".").code == devfix("apply", "--exit-code", ".").code == 0
    (project / "a.py").write_text("x = alpha\n")
    assert devfix("apply", ".").code == 0 and (project / "a.py").read_text() == "x = beta\n"


def test_bad_input_is_a_line_each_and_the_rest_is_done(devfix: Devfix, project: Path) -> None:
    (project / "python2.py").write_text("alpha = 1\nprint 'x'\n")
    (project / "broken.py").write_text("alpha = (\n")
    (project / "latin.py").write_bytes(b"alpha = '\xe4'\n")
    (project / "utf16.py").write_bytes("alpha\n".encode("utf-16"))
    (project / "nul.py").write_bytes(b"alpha\0\n")
    os.mkfifo(project / "fifo.py")
    done = devfix("apply", "--quiet", ".", "none.py", "fifo.py")
    assert done.code == 2
    errors = lines(done.err)
    assert [error.split(": ")[1] for error in errors] == [
        "broken.py",
        "fifo.py",
        "latin.py",
        "none.py",
        "nul.py",
        "python2.py",
        "utf16.py",
    ]
    assert all(error.startswith("devfix: ") for error in errors)
    assert "line 1: '(' was never closed" in errors[0]
    assert "Python 2?" in errors[5]
    assert "Traceback" not in done.err
    assert (project / "a.py").read_text() == "x = beta\n"
    assert (project / "latin.py").read_bytes() == b"alpha = '\xe4'\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek", "."], "unknown command 'chek'; did you mean 'check'?"),
        (["explain"], "Missing argument 'CODEMOD|FILE:LINE'"),
        (["check", "--codemd", "x", "."], "No such option"),
        (
            ["check", "--codemod", "rename-alfa", "."],
            "unknown codemod 'rename-alfa'; did you mean 'rename-alpha'?",
        ),
        (["check", "--exclude-codemod", "x", "."], "unknown codemod 'x'; known are flip, grow"),
        (["check", "--option", "rename-alpha.lou=1", "."], "has no option 'lou'; did you mean 'loud'?"),
        (["check", "--option", "rename-alpha.loud=9", "."], "must be true or false, not '9'"),
        (["check", "--option", "loud=1", "."], "must be ID.NAME=VALUE"),
        (["check", "--jobs", "-1", "."], "--jobs"),
        (["check", "--format", "xml", "."], "'xml' is not one of"),
        (["check", "-", "."], "- (stdin) must be the only PATH"),
        (["explain", "rename"], "unknown codemod 'rename'; did you mean 'rename-alpha'?"),
        (["diff", "--smoke", "."], "No such option"),
        (["apply", "--format", "json", "-"], "--format json is about files"),
        (["apply", "--format", "json", "-i", "."], "--format json is about files"),
        (["check", "--diff-only", "HEAD", "-"], "the program cannot come from stdin"),
        (
            ["check", "--codemod", "flip", "--exclude-codemod", "flip", "."],
            "are all excluded, so nothing would run",
        ),
        (["smoke", "--all", "."], "leave out --codemod and PATH"),
        (["explain-error", "--project", "nope", "-"], "'nope' does not exist"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str, devfix: Devfix) -> None:
    done = devfix(*arguments)
    assert done.code == 2
    assert done.out == b""
    (line,) = lines(done.err)
    assert line.startswith("devfix: ")
    assert message in line


def test_control_characters_do_not_reach_the_terminal(devfix: Devfix, project: Path) -> None:
    (project / "evil\x1b[31m\n.py").write_text("alpha\n")
    (project / "bad\x07.py").write_text("alpha(\n")
    done = devfix("check", ".", "no\rpe")
    assert not set("\x1b\x07\r") & set(done.text + done.err)
    assert r"evil\x1b[31m\n.py:1:1:" in done.text
    assert r"devfix: bad\x07.py:" in done.err
    assert r"devfix: no\rpe:" in done.err


def test_pipe_that_closes(project: Path, devfix: Devfix) -> None:
    (project / "long.py").write_text("alpha\n" * 1_000)
    command = f"'{PYTHON}' '{TESTS / 'stubs.py'}' check . | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=project)
    assert len(lines(done.stdout)) == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def wait_until_asleep(project: Path) -> None:
    end = time.monotonic() + 30
    while not (project / "asleep").exists() and time.monotonic() < end:
        time.sleep(0.05)


def test_interrupt_writes_nothing(project: Path, devfix: Devfix) -> None:
    (project / "z.py").write_text("sleep_here\n")
    arguments = ["apply", "--codemod", "rename-alpha", "--codemod", "trouble", "."]
    process = subprocess.Popen(
        [PYTHON, str(TESTS / "stubs.py"), *arguments], cwd=project, stderr=subprocess.PIPE, text=True
    )
    wait_until_asleep(project)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    said = "devfix: interrupted; 2 of 3 files were analysed, and nothing was written\n"
    assert err.lstrip("\n") == said
    assert (project / "a.py").read_text() == "x = alpha\n"


def test_interrupt_of_a_pool(project: Path, devfix: Devfix) -> None:
    for n in range(60):
        (project / f"z{n}.py").write_text("sleep_here\n")
    process = subprocess.Popen(
        [PYTHON, str(TESTS / "stubs.py"), "check", "--codemod", "trouble", "--jobs", "2", "."],
        cwd=project,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_asleep(project)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert re.fullmatch(
        r"devfix: interrupted; \d+ of 6\d files were analysed, and nothing was written\n", err.lstrip("\n")
    )


# --- output --------------------------------------------------------------------------------


def test_check_text(devfix: Devfix, project: Path) -> None:
    done = devfix("check", ".")
    assert done.text == (
        "a.py:1:5: rename-alpha `alpha` is old\n"
        "    1 | x = alpha\n"
        "      |     ^^^^^\n"
        "    a.py:1:5: right here\n"
        "    fix (safe): replace it by `beta`\n"
    )
    assert done.err == (
        "1 finding in 1 of 2 files: 1 safe fix; `devfix diff` shows and `devfix apply` makes 1\n"
    )
    assert devfix("check", "--quiet", ".").err == ""
    assert devfix("check").text == done.text
    concise = devfix("check", "--format", "concise")
    assert concise.text == "a.py:1:5: rename-alpha `alpha` is old [safe fix]\n"
    unsafe = devfix("check", "--option", "rename-alpha.safety=unsafe", ".")
    assert "    fix (unsafe): replace it by `beta` [needs --unsafe]\n" in unsafe.text
    assert unsafe.err.endswith("1 unsafe fix; `devfix apply --unsafe` makes 1\n")


def test_the_summary_says_what_apply_makes(devfix: Devfix, project: Path) -> None:
    (project / "b.py").write_text("alpha\nanchor()\nanchor()\n")
    chosen = ("--codemod=rename-alpha", "--codemod=insert-call", "--option=rename-alpha.safety=unsafe")
    said = devfix("check", *chosen).err
    assert said.endswith("`devfix diff` shows and `devfix apply` makes 2, with `--unsafe` 2 more\n")
    assert (
        devfix("diff", *chosen).err
        == "2 fixes in 1 of 2 files to apply, 2 findings left; `--unsafe` makes 2 more\n"
    )
    assert devfix("apply", *chosen).err.startswith("2 fixes in 1 of 2 files written")
    assert devfix("apply", "--unsafe", *chosen).err == "2 fixes in 2 of 2 files written\n"


def test_lines_wrap_at_a_terminal(devfix: Devfix, project: Path) -> None:
    (project / "a.py").write_text(f"{'x = 1; ' * 20}alpha{' ' * 200}\n")
    code = (
        f"import os, pty, sys; os.environ['COLUMNS'] = '50'; "
        f"sys.exit(pty.spawn(['{PYTHON}', '{TESTS / 'stubs.py'}', 'check', '-q', '--color', 'never']) and 0)"
    )
    shown = subprocess.run([PYTHON, "-c", code], capture_output=True, cwd=project, text=True).stdout
    assert max(map(len, lines(shown))) <= 50
    assert "alpha" in shown and "^^^^^" in shown and devfix("check", "-q").text.count("\n") == 5


def test_verbose_says_what_was_skipped(devfix: Devfix, project: Path) -> None:
    (project / "c.py").write_text("# devfix: skip-file\nalpha\n")
    (project / "node_modules").mkdir()
    err = devfix("check", "--verbose", ".").err
    assert "skipped c.py: devfix: skip-file\n" in err
    assert "skipped node_modules: " in err
    assert "3 of 3 files read in " in err


def test_color(devfix: Devfix, project: Path) -> None:
    assert b"\x1b[" not in devfix("check", ".").out
    assert b"\x1b[" in devfix("check", "--color", "always", ".").out
    assert b"\x1b[" in devfix("check", "--color=always", ".", NO_COLOR="1").out
    for forced, coloured in (("1", True), ("0", False), ("", False)):
        assert (b"\x1b[" in devfix("check", ".", FORCE_COLOR=forced).out) is coloured
    assert b"\x1b[" in devfix("diff", ".", CLICOLOR_FORCE="1").out
    assert b"\x1b[" not in devfix("diff", ".", CLICOLOR_FORCE="1", NO_COLOR="1").out
    pty = f"import pty, sys; sys.exit(pty.spawn(['{PYTHON}', '{TESTS / 'stubs.py'}', 'check', '.']) and 0)"
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"CLICOLOR": "0"}, False)):
        shown = subprocess.run(
            [PYTHON, "-c", pty], capture_output=True, cwd=project, env={**os.environ, **environment}
        )
        assert b"a.py" in shown.stdout
        assert (b"\x1b[" in shown.stdout) is coloured


def test_json(devfix: Devfix, project: Path) -> None:
    (project / "é.py").write_text("# é\ns = 'é'; alpha\n")
    (project / "broken.py").write_text("alpha(\n")
    done = devfix("check", "--format", "json", ".")
    assert done.code == 2
    report = json.loads(done.out)
    from devfix import __version__

    assert report["schema"] == 1
    assert report["version"] == __version__
    place = {"line": 2, "column": 10, "end_line": 2, "end_column": 15}
    assert report["findings"][1] == {
        "path": "é.py",
        **place,
        "codemod": "rename-alpha",
        "message": "`alpha` is old",
        "related": [{"path": "é.py", "line": 2, "message": "right here"}],
        "fix": {"title": "replace it by `beta`", "safety": "safe", "edits": [{**place, "text": "beta"}]},
    }
    (error,) = report["errors"]
    assert (error["path"], error["stage"]) == ("broken.py", "parse")
    assert report["summary"] == {"files": 4, "files_read": 4, "findings": 2, "fixable": 2, "applied": 0}
    manual = devfix("check", "--format=json", "--option", "rename-alpha.safety=manual", "a.py")
    assert json.loads(manual.out)["summary"]["fixable"] == 0
    applied = devfix("apply", "--format=json", "a.py")
    assert json.loads(applied.out)["summary"]["applied"] == 1


def test_apply_shows_what_is_left(devfix: Devfix, project: Path) -> None:
    (project / "a.py").write_text("alpha\nalpha  # devfix: ignore\nanchor()\nold(1)\n")
    unsafe = "--option=rename-alpha.safety=unsafe"
    done = devfix("apply", "--codemod=rename-alpha", "--codemod=insert-call", unsafe, ".")
    assert done.text == (
        "a.py: 1 fix written (insert-call)\n"
        "a.py:1:1: rename-alpha `alpha` is old\n"
        "    1 | alpha\n"
        "      | ^^^^^\n"
        "    a.py:1:1: right here\n"
        "    fix (unsafe): replace it by `beta` [needs --unsafe]\n"
    )
    assert done.err == "1 fix in 1 of 2 files written, 1 finding left; `--unsafe` makes 1 more\n"
    assert (project / "a.py").read_text() == "alpha\nalpha  # devfix: ignore\nanchor()\nplaced()\nold(1)\n"
    devfix("apply", "--unsafe", "--option=rename-alpha.safety=unsafe", ".")
    assert (project / "a.py").read_text().startswith("beta\nalpha")


def test_what_is_not_written_is_left(devfix: Devfix, tmp_path: Path) -> None:
    (tmp_path / "tree/.git").mkdir(parents=True)
    (tmp_path / "out.py").write_text("x = alpha\n")
    (tmp_path / "tree/a.py").symlink_to("../out.py")
    (tmp_path / "tree/b.py").write_text("x = alpha\n")
    done = devfix("apply", "a.py", cwd=tmp_path / "tree")
    assert done.code == 2
    assert lines(done.err)[-1] == "0 fixes in 0 of 1 file written, 1 finding left, 1 error"
    done = devfix("apply", "a.py", "b.py", cwd=tmp_path / "tree")
    assert lines(done.err)[-1] == "1 fix in 1 of 2 files written, 1 finding left, 1 error"


# --- stdin ---------------------------------------------------------------------------------


def test_stdin(devfix: Devfix, tmp_path: Path) -> None:
    text = b"\xef\xbb\xbfx = 1\r\nalpha\r\n"
    check = devfix("check", "-", "--stdin-filename", "sub/in.py", stdin=text)
    assert check.code == 1
    assert check.text.startswith("sub/in.py:2:1: ")
    diff = devfix("diff", "-", "--stdin-filename", "sub/in.py", stdin=text)
    assert diff.code == 1
    assert b"--- a/sub/in.py\n+++ b/sub/in.py\n" in diff.out
    assert diff.out.endswith(b"-alpha\r\n+beta\r\n")
    apply = devfix("apply", "-", stdin=text)
    assert (apply.code, apply.out) == (0, b"\xef\xbb\xbfx = 1\r\nbeta\r\n")
    assert devfix("apply", "--exit-code", "-", stdin=text).code == 1


@pytest.mark.parametrize(("text", "code"), [(b"x = 1\n", 0), (b"", 0), (b"alpha(\n", 2), (b"alpha\xff", 2)])
def test_stdin_is_never_lost(text: bytes, code: int, devfix: Devfix) -> None:
    done = devfix("apply", "-", stdin=text)
    assert (done.code, done.out) == (code, text)
    assert ("devfix: stdin.py: " in done.err) is (code == 2)


def test_stdin_is_not_lost_where_the_program_fails(devfix: Devfix) -> None:
    done = devfix("apply", "--smoke-cmd", "false", "-", stdin=b"alpha\n")
    assert (done.code, done.out) == (2, b"alpha\n") and "nothing was written" in done.err


# --- settings ------------------------------------------------------------------------------


def test_settings_of_the_file_and_of_the_command_line(devfix: Devfix, project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[tool.devfix]\nexclude = ['third/']\n"
        "[tool.devfix.options.rename-alpha]\nsafety = 'unsafe'\nto = 'gamma'\n"
    )
    (project / "third").mkdir()
    (project / "third" / "c.py").write_text("alpha\n")
    assert devfix("diff", ".").code == 0
    assert "+x = gamma\n" in devfix("diff", "--unsafe", ".").text
    assert "third" not in devfix("diff", "--unsafe", ".").text
    assert "third" in devfix("diff", "--unsafe", "--exclude", "a.py", ".").text
    assert "+x = delta\n" in devfix("diff", "--unsafe", "--option", "rename-alpha.to=delta", ".").text
    (project / "pyproject.toml").write_text("[tool.devfix]\nunsave = true\n")
    done = devfix("check", ".")
    assert done.code == 2
    assert done.err == (
        "devfix: pyproject.toml: tool.devfix.unsave: unknown setting; did you mean 'unsafe'?\n"
    )


def test_include_and_exclude_count_from_the_working_directory(devfix: Devfix, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "a.py").write_text("alpha\n")
    assert [
        line for line in lines(devfix("check", "-q", "--include", "/a.py", ".").text) if "is old" in line
    ] == ["a.py:1:5: rename-alpha `alpha` is old"]
    assert devfix("check", "--exclude", "a.py", ".").code == 0


def test_codemods_are_chosen(devfix: Devfix, project: Path) -> None:
    (project / "b.py").write_text("anchor()\n")
    assert "insert-call" not in devfix("check", ".").text
    assert "insert-call" in devfix("check", "--codemod", "insert-call", ".").text
    assert "rename-alpha" not in devfix("check", "--codemod", "insert-call", ".").text
    assert devfix("check", "--exclude-codemod", "rename-alpha", ".").code == 0


# --- safety of the tool itself -------------------------------------------------------------


def test_code_of_the_working_directory_is_never_imported(project: Path) -> None:
    for name in ("click", "libcst", "tomllib", "tokenize", "ast", "pebble", "devfix_plugin", "sitecustomize"):
        (project / f"{name}.py").write_text("open('imported', 'w')\n")
    (project / "codemods").mkdir()
    (project / "codemods" / "__init__.py").write_text("open('imported', 'w')\n")
    for arguments in (["check", "."], ["list"], ["--version"]):
        subprocess.run([PYTHON, "-m", "devfix", *arguments], cwd=project, capture_output=True, check=True)
    assert not (project / "imported").exists()


def test_own_bug_does_not_look_like_findings(project: Path) -> None:
    code = "import stubs, sys\nfrom devfix.pipeline import runner\ndel runner.run\nsys.exit(stubs.stub_cli())"
    done = subprocess.run(
        [PYTHON, "-c", code, "check", "."],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert done.returncode == 2
    assert done.stderr.endswith("devfix: this is devfix's own bug, please report it with the lines above\n")


def every_command() -> list[tuple[list[str], click.Command]]:
    found: list[tuple[list[str], click.Command]] = [([], group)]
    for words, command in found:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                found.append(([*words, name], inner))
    return found


@pytest.mark.parametrize(
    ("words", "command"), every_command(), ids=lambda one: " ".join(one) if isinstance(one, list) else ""
)
def test_help_has_examples_that_parse_and_exit_codes(words: list[str], command: click.Command) -> None:
    assert isinstance(command, Command) and command.examples and 0 in command.codes
    text = CliRunner().invoke(group, [*words, "--help"]).output
    assert text.index("Examples:") < text.index("Options:") < text.index("Exit codes:")
    for example in command.examples:
        given = next(part for part in example.split(" | ") if part.startswith("devfix")).split(" >")[0]
        context = click.Context(group, info_name="devfix")
        inner: click.Command = group
        rest = shlex.split(given)[1:]
        while isinstance(inner, click.Group):
            _, found, rest = inner.resolve_command(context, rest)
            assert found is not None
            inner = found
        if "--help" not in rest:
            inner.make_context(inner.name, rest)  # raises where it is wrong


def test_help_imports_little() -> None:
    code = (
        "import sys; sys.argv = ['devfix', '--help']\n"
        "from devfix.cli import main\n"
        "main()\n"
        "print(sorted({'libcst', 'torch', 'rich', 'pebble', 'devfix.pipeline.runner'} & set(sys.modules)))\n"
    )
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


# --- list, explain, smoke ------------------------------------------------------------------


def test_list_and_explain(devfix: Devfix) -> None:
    listed = lines(devfix("list").text)
    assert "rename-alpha  on   safe             Replace alpha by beta." in listed
    assert "grow          off                   Never content: `grow` is always one short." in listed
    explained = devfix("explain", "rename-alpha").text
    assert explained == (
        "rename-alpha (on by default)\n"
        "\n"
        "Replace alpha by beta.\n"
        "\n"
        "What it does: for tests.\n"
        "\n"
        "Settings (--option, or [tool.devfix.options] in pyproject.toml):\n"
        "  rename-alpha.safety=safe  (safe | unsafe | manual)\n"
        "  rename-alpha.loud=false  (bool)\n"
        "  rename-alpha.to=beta  (str)\n"
        "  rename-alpha.times=1  (int)\n"
        "\n"
        "Example: a name (safe)\n"
        "\n"
        "    @@ -1 +1 @@\n"
        "    -alpha = 1\n"
        "    +beta = 1\n"
        "\n"
        "Example: none (devfix says nothing)\n"
        "\n"
        "    gamma = 1\n"
    )


SMOKE = """
from dataclasses import dataclass
@dataclass(frozen=True)
class SmokeResult:
    codemod: str
    ok: bool
    checked_on: str
    detail: str
    torch: str
def smoke_codemods(ids):
    return tuple(SmokeResult(id, {ok}, "cpu", "numbers differ", "9") for id in ids)
"""
WITH_SMOKE = """
import sys
import devfix.smoke
exec({source!r}, devfix.smoke.__dict__)
import stubs
sys.exit(stubs.stub_cli())
"""


@pytest.mark.parametrize(
    ("ok", "code", "text", "said"),
    [
        (True, 0, "x = beta\n", "passed on cpu; torch 9\n"),
        (False, 2, "x = alpha\n", "failed: numbers differ; nothing was written\n"),
        (None, 2, "x = alpha\n", "could not be checked: numbers differ; nothing was written\n"),
    ],
)
def test_smoke_comes_before_writing(ok: bool | None, code: int, text: str, said: str, project: Path) -> None:
    source = WITH_SMOKE.format(source=SMOKE.format(ok=ok))
    done = subprocess.run(
        [PYTHON, "-c", source, "apply", "--smoke", "."],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert done.returncode == code, done.stderr
    assert (project / "a.py").read_text() == text
    assert done.stderr.startswith(f"devfix: smoke test of rename-alpha {said}")


def test_smoke_without_torch(project: Path) -> None:
    code = (
        "import importlib.util, sys\nreal = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else real(name, *more)\n"
        "import stubs\nsys.exit(stubs.stub_cli())\n"
    )
    done = subprocess.run(
        [PYTHON, "-c", code, "apply", "--smoke", "."],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert done.returncode == 2
    assert done.stderr == "devfix: --smoke runs torch, which is missing; pip install 'devfix[smoke]'\n"
    assert (project / "a.py").read_text() == "x = alpha\n"
