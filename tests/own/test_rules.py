"""`--codemod FILE.py[:NAME]`, the user's own settings, installed packages: loaded, run, sent to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from authors import CRASHES, RULE, WHOLE, Ran
from devfix import config
from devfix.config import ConfigError, make
from devfix.own import known

Run = Callable[..., Ran]
Write = Callable[..., Path]


def test_a_file_is_a_codemod(run: Run, write: Write) -> None:
    write("../rules/mine.py", RULE)
    write("a.py", "alpha = 1\n")
    done = run("diff", "--codemod", "../rules/mine.py", ".")
    assert done.code == 1 and "-alpha = 1\n+beta = 1\n" in done.out
    for name in ("NoAlpha", "no-alpha"):
        done = run("diff", "--codemod", f"../rules/mine.py:{name}", "--option", "no-alpha.to=gamma", ".")
        assert "+gamma = 1\n" in done.out
    done = run("diff", "--codemod", "../rules/mine.py", "--codemod-arg", "to=delta", ".")
    assert "+delta = 1\n" in done.out


def test_a_rule_that_rewrites_a_whole_text(run: Run, write: Write) -> None:
    write("../rules/shout.py", WHOLE)
    program = write("a.py", "alpha = 1\ny = 2\nx = alpha\n")
    write("b.py", "y = 1\n")
    shout = ("--codemod", "../rules/shout.py")
    done = run("check", *shout, ".")
    assert done.out.count("shout It is said in capitals\n") == 2
    assert "b.py:1:1: shout nothing to shout" in done.out
    assert run("apply", *shout, ".").code == 0
    done = run("apply", *shout, "--option", "shout.safety=sure", ".")
    assert done.code == 2 and "must be one of manual, unsafe, safe" in done.err
    assert "shout.safety=unsafe  (manual | unsafe | safe)" in run("explain", "../rules/shout.py").out
    assert run("apply", *shout, "--option", "shout.safety=safe", ".").code == 0
    assert program.read_text() == "ALPHA = 1\ny = 2\nx = ALPHA\n"


def test_it_is_applied_reviewed_ignored_and_undone(run: Run, write: Write) -> None:
    rule = str(write("../rules/mine.py", RULE))
    program = write("a.py", "alpha = 1\nalpha = 2  # devfix: ignore[no-alpha]\n")
    assert run("apply", "--codemod", rule, "a.py").code == 0
    assert program.read_text() == "beta = 1\nalpha = 2  # devfix: ignore[no-alpha]\n"
    assert run("apply", "--codemod", rule, "a.py").code == 0
    assert run("undo").code == 0
    assert program.read_text().startswith("alpha = 1\n")
    for form in ("json", "sarif", "junit"):
        assert "no-alpha" in run("check", "--format", form, "--codemod", rule, "a.py").out
    assert "A name is not alpha." in run("explain", rule).out


def test_what_stands_beside_a_file_can_be_imported(run: Run, write: Write) -> None:
    write("../rules/words_of_mine.py", "OLD = 'alpha'\n")
    text = RULE.replace("import ast\n", "import ast\nimport words_of_mine\n").replace(
        '"alpha"\n', "words_of_mine.OLD\n"
    )
    write("../rules/mine.py", text.replace('== "alpha"', "== words_of_mine.OLD"))
    write("a.py", "alpha = 1\n")
    assert run("check", "--codemod", "../rules/mine.py", "a.py").code == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_load_it_as_well(write: Write, method: str) -> None:
    """The file is changed as soon as it has been loaded: the workers run what was read."""
    write("../rules/mine.py", RULE + CRASHES)
    for number in range(60):
        write(f"src/f{number}.py", f"alpha = {number}\n")
    start = write(
        "../start.py",
        "import multiprocessing, sys\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method({method!r})\n"
        "    from devfix.own import known\n"
        "    known.load('../rules/mine.py')\n"
        "    open('../rules/mine.py', 'w').write('syntax error')\n"
        "    from devfix.cli import main\n"
        "    sys.exit(main(['check', '--jobs', '2', '--format', 'concise', '--codemod', 'no-alpha',\n"
        "                   '--codemod', 'crash', '--option', 'no-alpha.to=zeta', 'src']))\n",
    )
    done = subprocess.run([sys.executable, start], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout.count("no-alpha `alpha` is no name") == 60
    assert done.stderr.count("NameError: name 'undefined_name' is not defined (../rules/mine.py:") == 0
    assert done.stderr.count("NameError: name 'undefined_name' is not defined") == 60


def test_it_is_the_same_after_it_was_sent(write: Write) -> None:
    known.load(str(write("../rules/mine.py", RULE)))
    made = make(known.Known()["no-alpha"], {"to": "x"})
    assert pickle.loads(pickle.dumps(made)) == made


# --- crashes ---------------------------------------------------------------------------------------


def test_a_crash_is_named_and_stops_nobody(run: Run, write: Write) -> None:
    write("rules/mine.py", RULE + CRASHES)
    line = (RULE + CRASHES).splitlines().index("        return undefined_name") + 1
    write("src/a.py", "alpha = 1\nodd = 2\nloop = 3\n")
    write("src/b.py", "alpha = 1\n")
    done = run("diff", "--codemod", "rules/mine.py", "src")
    assert done.code == 2
    assert done.out.count("-alpha = 1\n+beta = 1\n") == 2  # and nothing of `broken` and `endless`
    assert done.out.count("\n+") == 2 + 2
    for name in ("a", "b"):
        assert (
            f"src/{name}.py: codemod crash: NameError: name 'undefined_name' is not defined "
            f"(rules/mine.py:{line})\n" in done.err
        )
        assert f"src/{name}.py: codemod outside: check() yielded Span(start=0, end=1000000)" in done.err
    assert "src/a.py: the fixes of broken, endless, no-alpha were not applied" in done.err
    assert "nothing else of broken was done" in done.err
    assert "nothing else of endless was done" in done.err
    assert "own bug" not in done.err


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        ("import devfix, nope\n", "mine.py", "ModuleNotFoundError: No module named 'nope' (mine.py:1)"),
        ("import devfix\nclass (:\n", "mine.py", "SyntaxError: invalid syntax (mine.py:2)"),
        ("import devfix, sys\nsys.exit('no')\n", "mine.py", "it ended with sys.exit('no') (mine.py:2)"),
        ("import devfix\n", "mine.py", "there is no class in it that derives from devfix.api.Codemod"),
        (RULE, "mine.py:NoAlfa", "there is no 'NoAlfa' in it; did you mean 'NoAlpha'?"),
        (RULE, "mine.py:ast", "ast does not derive from devfix.api.Codemod"),
        (RULE, "absent.py", "no such file"),
        (RULE, "./mine", "must be an id, path/to/file.py or path/to/file.py:CLASS"),
        (RULE.replace('"no-alpha"', '"reorder-to"'), "mine.py", "is that of a codemod of devfix"),
        (RULE.replace('"no-alpha"', '"No Alpha"'), "mine.py", "`id` must be a text such as 'my-rule'"),
        (RULE.replace('(("alpha",),)', '("alpha",)'), "mine.py", "`words` must be a tuple of tuples"),
        (RULE.replace("(frozen=True)", ""), "mine.py", "cannot inherit non-frozen dataclass from a frozen"),
        (RULE.replace("def check(", "def look("), "mine.py:NoAlpha", "must define check"),
    ],
)
def test_what_cannot_be_loaded(run: Run, write: Write, text: str, spec: str, said: str) -> None:
    write("mine.py", text)
    write("a.py", "alpha = 1\n")
    done = run("check", "--codemod", spec, "a.py")
    assert done.code == 2 and said in done.err and "own bug" not in done.err
    assert done.out == ""


# --- whose code is run -------------------------------------------------------------------------------

_EVIL = "open('executed', 'w').close()\n"


@pytest.mark.parametrize("words", [("explain", "train.py"), ("check", "--codemod", "train.py", ".")])
def test_a_program_is_no_codemod_and_is_not_run(run: Run, write: Write, words: tuple[str, ...]) -> None:
    program = write("train.py", f"x = 1  # devfix: ignore\n{_EVIL}")
    done = run(*words)
    assert done.code == 2 and "so it was not run; a line of a program is FILE:LINE" in done.err
    assert not (program.parent / "executed").exists()


@pytest.mark.parametrize(
    "settings",
    [
        'own-codemods = ["evil.py"]',
        'own-codemods = ["evil"]',
        'codemods = ["./evil.py"]',
        'codemods = ["reorder-to", "evil.py:Name"]',
        'exclude-codemods = ["evil.py"]',
        'codemods = ["libcst:evil.Name"]',
        'codemods = ["libcst:evil.py:Name"]',
        'codemods = ["bowler:evil.py"]',
    ],
)
def test_settings_of_a_repository_run_nothing(
    run: Run, write: Write, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("evil.py", _EVIL)
    write("pyproject.toml", f"[tool.devfix]\n{settings}\n")
    write("a.py", "import torch\n")
    monkeypatch.syspath_prepend(".")
    for command in ("check", "diff", "apply"):
        done = run(command, ".")
        assert done.code == 2
        assert "would run code, and the settings of a repository may not do that" in done.err
        assert "mine/devfix/config.toml" in done.err
    assert not Path("executed").exists()


def test_an_unknown_setting_or_option_runs_nothing_either(run: Run, write: Write) -> None:
    write("evil.py", _EVIL)
    write("a.py", "import torch\n")
    for settings in ('recipe = "evil.toml"', '[tool.devfix.options."evil.py"]\nx = 1', 'codemods = ["evil"]'):
        write("pyproject.toml", f"[tool.devfix]\n{settings}\n")
        assert run("check", "a.py").code == 2
    assert not Path("executed").exists()


def test_what_lies_in_the_working_directory_is_not_installed(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("evil.py", _EVIL)
    write("evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    write("evil-1.0.dist-info/entry_points.txt", "[devfix.codemods]\nevil = evil:Evil\n")
    write("a.py", "import torch\n")
    for path in ("", ".", str(Path.cwd())):
        monkeypatch.setattr(sys, "path", [path, *sys.path])
        known.installed.cache_clear()
        assert run("check", "a.py").code == 0
        assert "unknown codemod 'evil'" in run("check", "--codemod", "evil", "a.py").err
    assert not Path("executed").exists()


def test_own_settings_may_name_code(run: Run, write: Write) -> None:
    write("../rules/mine.py", RULE)
    write(
        "../mine/devfix/config.toml",
        'own-codemods = ["../../rules/mine.py:NoAlpha"]\nunsafe = true\n[options.no-alpha]\nto = "omega"\n',
    )
    write("a.py", "alpha = 1\n")
    assert "+omega = 1\n" in run("diff", "a.py").out  # it is on by default
    assert "no-alpha" in run("list").out
    write("pyproject.toml", '[tool.devfix]\ncodemods = ["reorder-to"]\n')  # a repository says more
    assert run("check", "a.py").code == 0
    assert run("check", "--codemod", "no-alpha", "a.py").code == 1
    write("pyproject.toml", '[tool.devfix.options.no-alpha]\nto = "theirs"\n')
    assert "+theirs = 1\n" in run("diff", "a.py").out
    assert config.load("a.py").unsafe and not config.load("a.py", str(write("x.toml", ""))).unsafe


def test_a_file_of_settings_may_be_named(run: Run, write: Write) -> None:
    write("../rules/mine.py", RULE)
    write("pyproject.toml", "[tool.devfix]\nnonsense = 1\n")
    write("a.py", "alpha = 1\n")
    write("../team.toml", 'own-codemods = ["rules/mine.py"]\ncodemods = ["no-alpha"]\n')
    assert run("check", "--config", "../team.toml", "a.py").code == 1
    assert "absent.toml: no such file" in run("check", "--config", "absent.toml", "a.py").err
    write("../team.toml", 'own-codemods = ["rules/nope.py"]\n')
    done = run("check", "--config", "../team.toml", "a.py")
    assert done.code == 2 and "own-codemods: codemod rules/nope.py" in done.err


# --- packages --------------------------------------------------------------------------------------


def install(write: Write, module: str, text: str, points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip would leave in a folder of site-packages."""
    write(f"../site/{module}.py", text)
    write(
        f"../site/{module}-1.2.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n"
    )
    write(f"../site/{module}-1.2.dist-info/entry_points.txt", f"[devfix.codemods]\n{points}\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path("../site").resolve())])
    known.installed.cache_clear()
    monkeypatch.delitem(sys.modules, module, raising=False)


def test_codemods_of_installed_packages(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    install(write, "acme_rules", RULE, "no-alpha = acme_rules:NoAlpha", monkeypatch)
    write("a.py", "alpha = 1\n")
    assert "no-alpha" in run("list").out
    assert run("check", "a.py").code == 1  # on by default, as the class says
    assert run("check", "--codemod", "no-alpha", "a.py").code == 1
    write("pyproject.toml", '[tool.devfix]\nexclude-codemods = ["no-alpha"]\n')
    assert run("check", "a.py").code == 0
    write("pyproject.toml", '[tool.devfix]\ncodemods = ["no-alpha"]\n')  # it is there anyway
    assert run("check", "a.py").code == 1
    kind = known.Known()["no-alpha"]
    assert "of the package acme_rules 1.2" in kind.origin.spec
    made = make(kind, {"to": "x"})
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_broken_package_does_not_stop_the_others(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(write, "broken_rules", "import nope\n", "broken-one = broken_rules:X", monkeypatch)
    install(write, "good_rules", RULE, "no-alpha = good_rules:NoAlpha", monkeypatch)
    write("a.py", "alpha = 1\n")
    done = run("check", "a.py")
    assert done.code == 2 and "no-alpha `alpha` is no name" in done.out
    assert "codemod broken-one" in done.err and "No module named 'nope' (" in done.err
    assert "broken_rules.py:1)" in done.err
    assert run("check", "--exclude-codemod", "broken-one", "a.py").code == 1
    assert run("check", "--codemod", "no-alpha", "a.py").code == 1
    assert run("list").code == 2
    with pytest.raises(ConfigError, match="No module named 'nope'"):
        known.Known()["broken-one"]


def test_nothing_is_imported_before_it_is_needed(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(write, "lazy_rules", RULE, "no-alpha = lazy_rules:NoAlpha", monkeypatch)
    write("a.py", "alpha = 1\n")
    assert run("check", "--codemod", "reorder-to", "a.py").code == 0
    assert "lazy_rules" not in sys.modules


ASKS = """\
from dataclasses import dataclass
from typing import ClassVar

from devfix.api import Codemod, facts, mismatches


@dataclass(frozen=True)
class Asks(Codemod):
    id: ClassVar[str] = "asks"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("torch",),)
    examples: ClassVar = ()

    def check(self, flow):
        for call in flow.source.calls:
            if flow.source.code(call.func) == "show":
                for one in facts(flow, call.args[0]):
                    made = flow.source.code(one.made) if one.made else ""
                    said = f"{one.kind} {one.where.name} {one.device} {made} {one.assumed}"
                    yield self.finding(flow.source.span(call), said)
        for one in mismatches(flow):
            text = flow.source.code(one.stray_node)
            said = f"{one.operation}: {text} {one.stray.where.name} {one.anchor.where.name} [{one.why_silent}]"
            yield self.finding(flow.source.span(one.node), said)
"""
ASKED = """\
import torch
from torch import nn

from parts import make


def show(value):
    print(value)


model = nn.Linear(4, 2).to("cuda:1")
x = torch.ones(3, 4)
show(model)
show(x)
show(make())
show(3)
show(torch.ones)
model(x)


def add(number):
    return torch.ones(3, device="cuda:0") + torch.tensor(number)
"""


def test_rules_ask_the_engine(run: Run, write: Write) -> None:
    write("asks.py", ASKS)
    write("parts.py", "import torch\n\n\ndef make():\n    return torch.zeros(3, 4).cpu()\n")
    write("pyproject.toml", "")
    write("a.py", ASKED)
    found = [
        line.split(" ", 2)[2]
        for line in run("check", "--format", "concise", "--codemod", "asks.py", "a.py").out.splitlines()
    ]
    assert found == [
        'module ACCELERATOR cuda:1 nn.Linear(4, 2).to("cuda:1") ()',
        "tensor DEFAULT  torch.ones(3, 4) ()",
        "tensor CPU  make() ()",
        "model: x DEFAULT ACCELERATOR []",
        "+: torch.tensor(number) DEFAULT ACCELERATOR "
        "[it may be a tensor without dimensions, which mixes with any device]",
    ]
