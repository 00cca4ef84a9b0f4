"""`devfix new`, and `devfix.testing`: it passes what is right, and names what is not."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import devfix.testing
import pytest
from authors import RULE, Ran
from devfix import api
from devfix.codemod import registry
from devfix.own import known
from later import needs_torch

Run = Callable[..., Ran]
Write = Callable[..., Path]


def loaded(write: Write, text: str = RULE) -> Any:
    known.load(str(write("../rules/mine.py", text)))
    return known.Known()["no-alpha"]


def test_new_writes_a_rule_whose_tests_pass(run: Run) -> None:
    done = run("new", "no-device-in-device", "--folder", "mine", "--package")
    assert done.code == 0
    files = ["mine/no_device_in_device.py", "mine/test_no_device_in_device.py", "mine/pyproject.toml"]
    assert done.out.splitlines() == files
    passed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "mine"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert passed.returncode == 0, passed.stdout + passed.stderr
    count = len(devfix.testing.properties(_kind_of(files[0])))
    assert f"{count} passed" in passed.stdout and count > 10


def _kind_of(path: str) -> Any:
    (id,) = known.load(path)
    return known.Known()[id]


def test_new_overwrites_nothing_and_knows_ids(run: Run, write: Write) -> None:
    write("no_x.py", "mine = 1\n")
    done = run("new", "no-x")
    assert done.code == 2 and "already exists" in done.err and Path("no_x.py").read_text() == "mine = 1\n"
    assert not Path("test_no_x.py").exists()
    assert "has a codemod 'reorder-to' already" in run("new", "reorder-to").err
    for id in ("No-X", "no_x", "../x", "x-", ""):
        assert run("new", id).code == 2


def test_what_new_writes_is_typed_and_tidy(run: Run) -> None:
    run("new", "my-rule")
    for path in ("my_rule.py", "test_my_rule.py"):
        tree = ast.parse(Path(path).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("devfix"):
                assert node.module in ("devfix.api", "devfix.testing")  # nothing private
        for tool in (
            ["ruff", "check", "--isolated"],
            ["ruff", "format", "--check", "--isolated", "--line-length=110"],
        ):
            done = subprocess.run([sys.executable, "-m", *tool, path], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout


def test_the_api_is_what_it_says() -> None:
    assert sorted(api.__all__) == sorted(set(api.__all__))
    for name in api.__all__:
        assert hasattr(api, name)
        assert not getattr(getattr(api, name), "__name__", name).startswith("_")


def test_devfixs_own_codemods_have_these_properties() -> None:
    """Of two, since tests/test_properties.py has all."""
    for id in ("reorder-to", "numpy-of-device"):
        devfix.testing.check(registry()[id])


def test_a_good_one_passes(write: Write) -> None:
    devfix.testing.check(loaded(write), cuda=False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    ## Fix safety\n    Safe.\n", "", "is documented: the docstring has the headings"),
        ("A name is not alpha.", "A name", "begins with a sentence that ends in a full stop"),
        ('    to: str = "beta"\n', "    to: str\n", "give each field a default"),
        ('        Example("None", "print(2)\\n"),\n', "", "no example shows what is left alone"),
        ('Example("None"', 'Example("One"', "two examples have the same title"),
        (
            '"None", "print(2)',
            '"None", "print(alpha)',
            "should be left alone, but: line 1: `alpha` is no name",
        ),
        ('print(beta)\\n"', 'print(alpha)\\n"', "the text is another one"),
        ("(ReplaceExpression(span, self.to),)", "()", "the text is another one"),
        ("if isinstance(node, ast.Name) and", "if False and", "nothing is found in it"),
        ("self.to),)", 'self.to + "_" + "alpha"),)', "the text is another one"),
        ('words = (("alpha",),)', "words = ()", "`words` are texts in groups"),
        ("title=f", "safety=Safety.UNSAFE, title=f", "the text is another one"),
        ("span = flow.source.span(node)", "raise KeyError(1)", "KeyError: 1"),
        ("(ReplaceExpression(span, self.to),)", '(ReplaceText(span, ")"),)', "were not applied"),
    ],
)
def test_what_is_wrong_is_named(write: Write, old: str, new: str, said: str) -> None:
    assert RULE.count(old) == 1
    with pytest.raises(AssertionError) as caught:
        devfix.testing.check(loaded(write, RULE.replace(old, new)))
    assert said in str(caught.value) and str(caught.value).startswith("NoAlpha: ")


def test_a_difference_that_is_not_to_be_seen_is_shown() -> None:
    shown = devfix.testing._difference("a\nb\n", "a\r\nb\n", [])
    assert "-a\\n" in shown and "+a\\r\\n" in shown
    assert "-a" in devfix.testing._difference("a\n", "b\n", []).split("\n")


def test_its_own_result_is_left_alone(write: Write) -> None:
    text = RULE.replace('node.id == "alpha":', 'node.id in ("alpha", "beta"):').replace(
        '("alpha",)', '("print",)'
    )
    with pytest.raises(AssertionError, match="never come to an end"):
        devfix.testing.check(loaded(write, text))


def test_lines_that_have_nothing_to_do_with_it_must_stay(write: Write) -> None:
    """A rule that tidies up the whole file with its fix."""
    text = RULE.replace(
        "edits=(ReplaceExpression(span, self.to),)",
        "edits=(ReplaceText(api.Span(0, len(flow.source.text)), flow.source.text.rstrip(' ').replace('   \\n', '\\n')"
        ".replace('alpha', 'beta')),)",
    ).replace("import ast\n", "import ast\nfrom devfix import api\n")
    with pytest.raises(AssertionError, match="other lines stay"):
        devfix.testing.check(loaded(write, text))


def test_examples_are_run_with_torch(write: Write) -> None:
    needs_torch()
    text = RULE.replace("alpha = 1  # one\\nprint(alpha)", "alpha = 1  # one\\nprint(alpha + 1)")
    kind = loaded(write, text.replace("print(beta)", "print(beta + 1)"))
    runs = {
        name: holds for name, holds in devfix.testing.properties(kind, cuda=True).items() if "torch" in name
    }
    assert len(runs) == 2
    for holds in runs.values():
        holds()
    bad = replace(kind.examples[0], after="beta = 1\nprint(beta + 2)\n")
    kind.examples = (bad,)
    (holds,) = (
        holds for name, holds in devfix.testing.properties(kind, cuda=True).items() if "torch" in name
    )
    with pytest.raises(AssertionError):
        holds()


def test_a_bug_that_raises_on_the_cpu_as_well(write: Write) -> None:
    needs_torch()
    kind = loaded(write)
    example = api.Example("A typo", "beta = 1\nprint(alpha)\n", "beta = 1\nprint(beta)\n")

    def run(**raises: str) -> None:
        kind.examples = (replace(example, **raises),)  # type: ignore[arg-type]
        for name, holds in devfix.testing.properties(kind, cuda=True).items():
            if "torch" in name:
                holds()

    run(raises="NameError", raises_on_cpu="NameError")
    for wrong in ({"raises": "NameError"}, {"raises": "NameError", "raises_on_cpu": "TypeError"}):
        with pytest.raises(AssertionError, match="before, on the CPU"):
            run(**wrong)
