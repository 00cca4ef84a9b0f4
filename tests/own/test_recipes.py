"""Recipes: what is in one runs with its options and levels, and what is wrong is said with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from authors import BOWLER, LIBCST, RULE, Ran
from devfix import config
from devfix.codemod import registry
from devfix.config import Config
from devfix.findings import Safety
from devfix.own import recipes
from devfix.own.tree import of_toml, of_yaml

Run = Callable[..., Ran]
Write = Callable[..., Path]
PROGRAM = """\
import torch

model = torch.nn.Linear(4, 2).to("cuda")
x = torch.ones(3, 4).to("cuda")
print(model(x).shape)
"""
OURS = ["ci", "default", "multi-gpu", "portable"]


def test_those_with_names(run: Run) -> None:
    assert [recipe.name for recipe in recipes.every()] == OURS
    done = run("recipes")
    assert [line.split()[0] for line in done.out.splitlines()] == OURS
    for name in OURS:
        recipe = recipes.recipe_of(name)
        assert recipe.name == name and recipe.title
        chosen = recipe.levelled(config.choose(recipe.over(Config())))
        assert {codemod.id for codemod in chosen} == {entry.codemod for entry in recipe.entries}
        assert run("recipes", name).out.startswith(f"{name}: {recipe.title}\n")


def test_the_default_is_what_runs_by_default() -> None:
    ids = {entry.codemod for entry in recipes.recipe_of("default").entries}
    assert ids == {id for id, kind in registry().items() if kind.default}
    assert config.choose(recipes.recipe_of("default").over(Config())) == config.choose(Config())


def test_ci_is_what_can_be_safe() -> None:
    def safe(id: str) -> bool:
        return any(e.safety is Safety.SAFE and e.after is not None for e in registry()[id].examples)

    ids = {entry.codemod for entry in recipes.recipe_of("ci").entries}
    assert ids == {id for id, kind in registry().items() if kind.default and safe(id)}


def test_portable(run: Run, write: Write) -> None:
    write("a.py", PROGRAM)
    assert run("diff", "a.py").code == 0
    done = run("diff", "--recipe", "portable", "a.py")
    assert done.code == 1 and "torch.accelerator.current_accelerator()" in done.out
    assert '.to("cuda")' not in [line for line in done.out.splitlines() if line.startswith("+")]
    assert "needs --unsafe" not in run("check", "--recipe", "portable", "a.py").out
    assert run("diff", "--recipe", "portable", "--safe", "a.py").code == 0  # the command line decides
    assert "needs --unsafe" in run("check", "--recipe", "portable", "--safe", "a.py").out
    option = ("--option", "hard-coded-cuda.declare=cuda")
    assert "torch.accelerator" not in run("diff", "--recipe", "portable", *option, "a.py").out
    assert run("diff", "--recipe", "portable", "--exclude-codemod", "hard-coded-cuda", "a.py").code == 0


def test_multi_gpu(run: Run, write: Write) -> None:
    write(
        "a.py",
        'import torch\nfrom torch import nn\n\nhead = nn.Linear(4, 2).to("cuda:1")\n'
        'x = torch.ones(3, 4).to("cuda:0")\nprint(head(x))\n',
    )
    assert run("diff", "a.py").code == 0
    assert '+print(head(x.to("cuda:1")))\n' in run("diff", "--recipe", "multi-gpu", "a.py").out


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_ones_own(run: Run, write: Write, form: str) -> None:
    write("../rules/mine.py", RULE)
    write("../rules/commands.py", LIBCST)
    write("../rules/old.py", BOWLER)
    if form == "toml":
        text = (
            'name = "ours"\ntitle = "Ours"\n\n[[codemods]]\nrecipe = "ci"\n\n[[codemods]]\nid = "mine.py:NoAlpha"\n'
            '[codemods.options]\nto = "omega"\n\n[[codemods]]\nid = "libcst:commands.py:RenameCommand"\n'
            'level = "unsafe"\noptions = { old = "old", also = ["older"], import = true }\n\n'
            '[[codemods]]\nid = "bowler:old.py"\n'
        )
    else:
        text = (
            "name: ours\ntitle: Ours\ncodemods:\n  - recipe: ci\n  - id: mine.py:NoAlpha\n    options: {to: omega}\n"
            "  - id: libcst:commands.py:RenameCommand\n    level: unsafe\n    options:\n      old: old\n"
            "      also: [older]\n      import: true\n  - bowler:old.py\n"
        )
    write(f"../rules/ours.{form}", text)
    program = write("a.py", "alpha = old(1)\n\n\nx = older(2)\n")
    done = run("apply", "--recipe", f"../rules/ours.{form}", "a.py")
    assert done.code == 0
    written = program.read_text()
    assert written == "from elsewhere import fresh\n\nomega = fresh(1)\n\n\nx = fresh(2)\n"
    described = run("recipes", f"../rules/ours.{form}").out
    assert "libcst-rename  old=old" in described and "[unsafe and safer]" in described
    assert "bowler-old" in described


def test_a_level_is_that_of_one_codemod(run: Run, write: Write) -> None:
    write("../rules/mine.py", RULE.replace("(ReplaceExpression(span, self.to),)",
                                           "(ReplaceExpression(span, self.to),), safety=Safety.UNSAFE"))  # fmt: skip
    write("a.py", "alpha = 1\n")
    for whole, one, code in (
        ("safe", "unsafe", 1),
        ("unsafe", "safe", 0),
        ("unsafe", "", 1),
        ("safe", "", 0),
    ):
        level = f'level = "{one}"\n' if one else ""
        write("r.toml", f'level = "{whole}"\n[[codemods]]\nid = "../rules/mine.py"\n{level}')
        assert run("diff", "--recipe", "r.toml", "a.py").code == code, (whole, one)
        assert run("diff", "--recipe", "r.toml", "--unsafe", "a.py").code == 1
        assert run("diff", "--recipe", "r.toml", "--safe", "a.py").code == 0


def test_ones_own_have_names(run: Run, write: Write) -> None:
    write("../mine/devfix/recipes/house.yaml", "title: Of the house\ncodemods: [reorder-to]\n")
    write("a.py", "import torch\n")
    assert "house" in run("recipes").out
    assert run("check", "--recipe", "house", "a.py").code == 0


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('codemods = ["reorder-to"]\nnam = "x"\n', 2, "unknown key 'nam'; did you mean 'name'?"),
        ('codemods = [\n  "reorder-to",\n  "reorder-too",\n]\n', 3, "unknown codemod 'reorder-too'; did you mean"),
        ('[[codemods]]\nid = "reorder-to"\n\n[[codemods]]\nod = "x"\n', 5, "unknown key 'od'"),
        ('[[codemods]]\nid = "reorder-to"\n# level = "x"\nlevel = "sure"\n', 4, "`level` must be safe or unsafe"),
        ('codemods = ["one-device"]\nlevel = 3\n', 2, "`level` must be safe or unsafe, not 3"),
        ('[[codemods]]\nid = "assert-device"\n[codemods.options]\n# x\nchek = "all"\n', 5, "no option 'chek'"),
        ('[[codemods]]\nid = "assert-device"\n[codemods.options]\ncheck = "al"\n', 4, "must be one of first, all"),
        ('[[codemods]]\nid = "one-device"\n\n[[codemods]]\nid = "one-device"\n', 4, "is listed twice"),
        ('name = "x"\n[[codemods]]\nlevel = "safe"\n', 2, "an entry has an `id` or a `recipe`"),
        ('[[codemods]]\nrecipe = "cj"\n', 2, "unknown recipe 'cj'; did you mean 'ci'?"),
        ('[[codemods]]\nrecipe = "ci"\nlevel = "safe"\n', 3, "`level` cannot stand beside `recipe`"),
        ('name = "x"\n', 1, "a recipe lists its `codemods`"),
        ('name = "x"\ncodemods = "ci"\n', 2, "`codemods` must be a list"),
        ('name = 3\ncodemods = ["one-device"]\n', 1, "`name` must be a text"),
        ('codemods = ["one-device"]\nx = = 3\n', 2, "is not valid TOML"),
        ('codemods = [\n  "one-device",\n  { id = "assert-device", options = { chek = 1 } },\n]\n', 3, "'chek'"),
        ('[[codemods]]\nid = "nope.py"\n', 2, "no such file"),
        ('[[codemods]]\nid = "libcst:c.py:RenameCommand"\noptions = { old = "a",\n new-nam = "b" }\n', 4, "'new-nam'"),
        ('codemods = ["libcst:c.py:RenameCommand"]\n', 1, "required: --old"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(run: Run, write: Write, text: str, line: int, said: str) -> None:
    write("c.py", LIBCST)
    write("a.py", "import torch\n")
    write("r.toml", text.replace("\n new-nam", "new-nam") if "new-nam" in text else text)
    line = 3 if "new-nam" in text else line
    done = run("check", "--recipe", "r.toml", "a.py")
    assert done.code == 2 and said in done.err and not done.out
    assert f"recipe r.toml:{line}: " in done.err, done.err


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("codemods:\n  - one-device\n  - one-devise\n", 3, "unknown codemod 'one-devise'; did you mean"),
        ("codemods:\n  - id: assert-device\n    options:\n      check: all\n      chek: all\n", 5, "'chek'"),
        (
            "codemods:\n  - id: assert-device\n    optoins: {}\n",
            3,
            "unknown key 'optoins'; did you mean 'options'",
        ),
        ("codemods: [one-device]\ncodemods: []\n", 2, "'codemods' is there twice"),
        ("codemods: !new:x [one-device]\n", 1, "tags such as !new:x"),
        ("codemods: [\n", 2, "is not valid YAML"),
        ("- one-device\n", 1, "a recipe must be a table"),
        ("", 0, "is not valid YAML"),
    ],
)
def test_in_yaml_as_well(run: Run, write: Write, text: str, line: int, said: str) -> None:
    write("a.py", "import torch\n")
    write("r.yaml", text)
    done = run("check", "--recipe", "r.yaml", "a.py")
    assert done.code == 2 and said in done.err and not done.out
    assert (f"recipe r.yaml:{line}: " if line else "recipe r.yaml: ") in done.err, done.err


def test_recipes_in_each_other_end(run: Run, write: Write) -> None:
    write("a.py", "import torch\n")
    write("one.yaml", "codemods: [{recipe: two.yaml}]\n")
    write("two.yaml", "codemods: [{recipe: one.yaml}]\n")
    done = run("check", "--recipe", "one.yaml", "a.py")
    assert done.code == 2 and "stand in each other without end" in done.err


def test_names_and_choices(run: Run, write: Write) -> None:
    write("a.py", "import torch\n")
    assert "did you mean 'portable'?" in run("check", "--recipe", "portabel", "a.py").err
    assert "give one of them" in run("check", "--recipe", "ci", "--codemod", "reorder-to", "a.py").err
    assert "absent.toml: no such file" in run("check", "--recipe", "absent.toml", "a.py").err


def test_both_forms_say_the_same() -> None:
    toml = of_toml('name = "x"\n[[codemods]]\nid = "a"\noptions = { n = 3, l = ["p", "q"], b = true }\n')
    yaml = of_yaml("name: x\ncodemods:\n  - id: a\n    options: {n: 3, l: [p, q], b: true}\n")
    assert toml.plain() == yaml.plain()
