"""README.md says what is true: its tables, the diff, the commands and numbers; and docs/settings.md the settings.

After a change of the codemods or commands, `python tests/test_readme.py` brings the README and the manual page
up to date.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix import commands, config
from devfix.codemod import registry
from devfix.documents import Document
from devfix.explain import safeties, title
from devfix.findings import Safety
from devfix.pipeline.runner import process

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
REAL_BUGS = ROOT / "benchmarks" / "real_bugs"
DIFFED = "examples/gpt_classifier"


def codemods() -> str:
    """The table of codemods."""
    lines = ["| codemod | what it does | fixes | by default |", "|---|---|---|---|"]
    for id, kind in registry().items():
        default = "on" if kind.default else "off"
        lines.append(f"| `{id}` | {title(kind)} | {', '.join(safeties(kind))} | {default} |")
    return "\n".join(lines)


def diff() -> str:
    """What `devfix diff` prints of one example, as `tests/test_examples.py` has it."""
    printed = (ROOT / "snapshots" / f"{DIFFED}.diff").read_text(encoding="utf-8")
    return f"```diff\n{printed.rstrip()}\n```"


def summary() -> str:
    """What `devfix check` says of the examples as a whole."""
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "check", "examples"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    return f"In short: {done.stderr.strip().partition(';')[0]}."


def accuracy() -> str:
    """What the benchmark has measured: its results, and the last sums of the mined set that nobody looked at."""
    results = json.loads((REAL_BUGS / "results" / "devfix.json").read_text(encoding="utf-8"))
    cases, clean = results["cases"], results["clean"]
    known = [sum(case[what] for case in cases) for what in ("found", "fixed", "noise")]
    _, said = (REAL_BUGS / "README.md").read_text(encoding="utf-8").split("\n`blind`, with ", 1)
    row = re.search(r"^ +all +(\d+) +(\d+) +(\d+) \|.*\| +(\d+) +\d+$", said, re.MULTILINE)
    silent = re.search(r"no bug: (\d+) of (\d+) have a finding", said)
    assert row and silent
    lines = ["| measured on | found | fixed | false alarms | other findings |", "|---|---:|---:|---|---:|"]
    for what, total, (found, fixed, other), alarms in (
        ("bugs that people fixed by hand", len(cases), known, f"in {clean['loud']} of {clean['files']} clean files"),
        ("mined bugs of other repositories", int(row[1]), [int(row[at]) for at in (2, 3, 4)],
         f"at {silent[1]} of {silent[2]} changes that fix no bug"),
    ):  # fmt: skip
        shares = " | ".join(f"{count} ({100 * count / total:.0f} %)" for count in (found, fixed))
        lines.append(f"| {total} {what} | {shares} | {alarms} | {other} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "codemods": codemods,
    f"diff of {DIFFED}": diff,
    "summary of examples": summary,
    "accuracy": accuracy,
}


def part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {re.escape(name)} -->\n)(.*?)\n?(?=<!-- end -->)", re.DOTALL)


@pytest.fixture(scope="module")
def text() -> str:
    return README.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PARTS)
def test_generated_part_is_up_to_date(name: str, text: str) -> None:
    found = part(name).search(text)
    assert found and found[1] == PARTS[name](), "run `python tests/test_readme.py`"


def shell(text: str) -> str:
    """What stands in blocks without a language and in backquotes."""
    prose, *blocks = re.split(r"(?m)^```", text)  # and then a block and prose by turns
    plain = [block for block in blocks[::2] if block.startswith("\n")]
    return "\n".join([*plain, *re.findall(r"`([^`\n]+)`", "".join([prose, *blocks[1::2]]))])


def test_commands_exist(text: str) -> None:
    used = set(re.findall(r"(?m)(?:^|bin/)devfix ([a-z]+(?:-[a-z]+)*)\b", shell(text)))
    assert len(used) >= 5 and used <= set(commands.NAMES)


def test_the_number_of_examples_is_right(text: str) -> None:
    count = sum(path.is_dir() for path in (ROOT / "examples").iterdir())
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert f"{words[count]} small programs" in text
    assert f"{words[count].capitalize()} small programs" in (ROOT / "examples" / "README.md").read_text(
        "utf-8"
    )


def test_options_exist(text: str) -> None:
    known = {option for command in map(commands.load, commands.NAMES) if command for parameter in command.params
             for option in parameter.opts + parameter.secondary_opts}  # fmt: skip
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shell(text)))
    assert used and used <= known | {"--help"}


def test_settings_are_read() -> None:
    """The block of settings in docs/settings.md names all of them, and devfix takes it as it stands."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    table = toml.loads(blocks[0])["tool"]["devfix"]
    parsed = config.parse(table, str(ROOT / "pyproject.toml"))
    names = {field.name.replace("_", "-") for field in dataclasses.fields(config.Config)}
    assert set(table) == names - {"base", "file", "own-codemods"}
    assert parsed.options[0].codemod in registry()


def test_links_lead_somewhere(text: str) -> None:
    for target in re.findall(r"\]\((?!https://)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_the_picture_of_a_terminal_is_up_to_date() -> None:
    """`docs/images/make.py` makes it; spaces, and where lines are wrapped, do not count."""
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "check", "gpt_classifier"],
        cwd=ROOT / "examples",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    picture = (ROOT / "docs" / "images" / "terminal.svg").read_text(encoding="utf-8")
    shown = html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)", picture)))
    assert "".join(done.stdout.split()) in "".join(shown.split())


def test_ci_runs_the_same_tests(text: str) -> None:
    """The command that tests, and what it installs, are those of `.ci/run`."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for piece in ("-r .ci/requirements.txt", "-m pytest -q"):
        assert piece in script
        assert re.search(rf"(?m)^python3 -m venv .*{re.escape(piece)}", text)


def test_contributing_shows_a_codemod_that_works() -> None:
    """The codemod of CONTRIBUTING.md does to its examples what they say, and what it shows is so."""
    shown = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", shown, re.DOTALL)
    assert block
    module = types.ModuleType("compare_device")
    sys.modules[module.__name__] = module  # where dataclasses looks for it
    exec(block[1], module.__dict__)
    codemod = module.CompareDevice()
    for example in codemod.examples:
        document = Document.of("example.py", example.before.encode())
        result = process(document, (codemod,), Safety.UNSAFE)
        assert result.error is None and not result.remaining
        assert (result.after or result.before).decode() == (example.after or "")
    import torch

    assert torch.device("cpu") != "cpu"


def update() -> None:
    text = README.read_text(encoding="utf-8")
    for name, make in PARTS.items():
        made = make() + "\n"
        text = part(name).sub(lambda _, made=made: made, text)
    README.write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, str(ROOT / "docs" / "site" / "man.py")], check=True)


if __name__ == "__main__":
    update()
