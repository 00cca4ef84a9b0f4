"""`devfix apply --interactive`: at a real terminal, and key by key."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from devfix.documents import state
from devfix.review.interactive import Session, Unit
from forked import Server
from ran import Ran

Apply = Callable[..., Ran]

LOOP = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))
model = nn.Linear(4, 2).to(device)


def first() -> None:
    for (x,) in loader:
        print(model(x))


def second() -> None:
    for (x,) in loader:
        print(model(x))


def third() -> None:
    for (x,) in loader:
        print(model(x))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.py").write_text(LOOP)
    (tmp_path / "b.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ("apply", "--exit-code", "-i", "--color", "never")


@pytest.fixture
def apply(folder: Path, prepared: Server) -> Apply:
    """What is said and made with the answers as the input."""

    def run(answers: str, **environment: str) -> Ran:
        return prepared.run([*WORDS, "."], answers.encode(), folder, {**os.environ, **environment})

    return run


def made(folder: Path) -> list[str]:
    """Which of the functions were repaired."""
    found = []
    for name in ("a", "b"):
        for function in (folder / f"{name}.py").read_text().split("def ")[1:]:
            if "device" in function:
                found.append(f"{name}.{function.partition('(')[0]}")
    return found


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ("y\nn\nn\nn\nn\nn\n", ["a.first"]),
        ("n\ny\nq\n", ["a.second"]),
        ("a\nd\n", ["a.first", "a.second", "a.third"]),
        ("d\na\n", ["b.first", "b.second", "b.third"]),
        ("n\na\nn\ny\nn\n", ["a.second", "a.third", "b.second"]),
        ("y\nu\nn\ny\nq\n", ["a.second"]),
        ("j\ny\nq\n", ["a.second"]),
        ("y\ny\nK\nn\nq\n", ["a.first"]),
        ("g 5\ny\nq\n", ["b.second"]),
        ("/third\ny\nq\n", ["a.third"]),
        ("/no such\nq\n", []),
        ("?\np\ns\nx\n\ng 99\ng x\nk\nu\ny\nq\n", ["a.first"]),
        ("y\n", ["a.first"]),  # the end of the input is no consent
        ("", []),
    ],
)
def test_keys(folder: Path, apply: Apply, answers: str, wanted: list[str]) -> None:
    done = apply(answers)
    assert done.code == (1 if wanted else 0), done.err
    assert made(folder) == wanted


def test_what_is_shown(folder: Path, apply: Apply) -> None:
    said = apply("?\nq\n").text
    assert "a.py:10:10: move-inputs `x`" in said
    assert "+        x = x.to(device)" in said
    assert "(1/6) Make this fix [y,n,a,d,q,s,e,j,J,k,K,g,/,u,p,?]? " in said
    assert "y - make this fix" in said


def test_a_notebook_shows_its_code_and_nothing_comes_after_q(folder: Path, apply: Apply) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in ("%matplotlib inline\n" + LOOP.partition("def second")[0], "'é\\n'")
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    for name in ("a.py", "b.py"):
        (folder / name).unlink()
    (folder / "n.ipynb").write_text(json.dumps(notebook))
    said = apply("q\n").text
    assert "@@ cell 1, line 9 @@\n" in said
    assert "\n+        x = x.to(device)\n         print(model(x))\n" in said
    assert said.endswith("]? ") and said.count("move-inputs") == 1


def test_edit(folder: Path, apply: Apply) -> None:
    editor = folder / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/x.to(device)/x.to(device, non_blocking=True)/" "$1"\n')
    editor.chmod(0o755)
    done = apply("n\ne\ny\nq\n", EDITOR=str(editor))
    assert done.code == 1, done.err
    text = (folder / "a.py").read_text()
    assert made(folder) == ["a.second", "a.third"]
    assert text.count("x = x.to(device, non_blocking=True)\n") == 1
    assert text.count("x = x.to(device)\n") == 1
    editor.write_text('#!/bin/sh\necho "if" > "$1"\n')
    said = apply("e\nq\n", EDITOR=str(editor)).text
    assert "does not parse" in said


def test_killed_and_taken_up_again(folder: Path, apply: Apply) -> None:
    child = start()
    child.expect_exact("(1/6)")
    child.sendline("y")
    child.expect_exact("(2/6)")
    child.sendline("n")
    child.expect_exact("(3/6)")
    child.kill(signal.SIGKILL)
    child.wait()
    assert made(folder) == []
    done = apply("q\n")
    assert "2 of 6 decisions are kept" in done.text
    assert "(3/6)" in done.text
    assert made(folder) == ["a.first"]
    assert "are kept" not in apply("q\n").text


def test_ctrl_c(folder: Path) -> None:
    child = start()
    child.expect_exact("(1/6)")
    child.sendline("y")
    child.expect_exact("(2/6)")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert made(folder) == []
    assert json.loads(Path(state.place(str(folder)), "interactive.json").read_text()) != {}


def test_a_terminal(folder: Path, snapshot: Any) -> None:
    """A session as a person sees it, colours left out."""
    child = start("--exclude", "b.py")
    seen = []
    for answer in ("s", "y", "n", "u", "y", "/third", "n"):
        child.expect(r"\(\d/3\) Make this fix \[[^]]*\]\? ")
        seen += [child.before, child.after]
        child.sendline(answer)
    child.expect(pexpect.EOF)
    text = "".join(seen) + child.before
    snapshot.snapshot_dir = Path(__file__).parents[2] / "snapshots" / "review"
    snapshot.assert_match(text.replace("\r\n", "\n"), "interactive.txt")
    assert made(folder) == ["a.first", "a.second"]


def start(*options: str) -> Any:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "devfix", *WORDS, *options, "."],
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 200),
        env={**os.environ, "TERM": "dumb"},
    )
    return child


def test_the_end_of_a_session() -> None:
    """Undecided fixes are asked for again from the start, until none is left."""
    answers = iter(["j", "j", "y", "y", "y"])
    units = tuple(Unit(name, "a.py", (name,), lambda context: ()) for name in "abc")
    session = Session(units, lambda line: None, lambda question: next(answers))
    assert session.run()
    assert session.decided == {"a": "y", "b": "y", "c": "y"}
    assert next(answers, None) is None
