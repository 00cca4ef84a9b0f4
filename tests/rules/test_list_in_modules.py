"""`list-in-modules`: what is found in a recipe and its script, what is not, and what is made of both."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.codemod import Example
from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.list_in_modules import ListInModules
from toolkit import LIN, USE, checked, recipe, script

LISTED = "    lin: !ref <lin>\n"
FEATURES = "lin: !new:speechbrain.nnet.linear.Features"


def test_a_layer_that_is_used_and_not_listed(tmp_path: Path) -> None:
    done = checked(tmp_path, recipe())
    (finding,) = done.findings
    assert finding.message == (
        "`lin` is not under `modules:`, so it stays on the CPU; train.py, line 10, runs it on inputs on the Brain's device. "
        "The fix assumes that `lin` is to be trained with the rest"
    )
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE
    assert (finding.place.line, finding.place.end_line) == (12, 13)
    assert [(Path(other.path).name, other.line) for other in finding.related] == [("", 8), ("train.py", 10)]
    assert done.after("train.yaml") == recipe(more=LISTED)
    assert done.after("train.py") == script("x = self.modules.lin(x)")
    assert not [finding for result in done.report.results for finding in result.remaining]


FOUND = {
    "a method of it": (recipe(), script("x = self.hparams.lin.forward(x)")),
    "under another name": (recipe(), script("lin = self.hparams.lin; x = lin(x)")),
    "in a list that a loop goes over": (
        recipe(),
        script("for lin in [self.hparams.lin, self.modules.enc]:\n            x = lin(x)"),
    ),
    "in a method that is called": (
        recipe(),
        script("x = self.deeper(x)\n\n    def deeper(self, x):\n        " + USE),
    ),
    "made in a loop, of a class that is handed over": (
        recipe("lin: !new:speechbrain.nnet.linear.Deep\n    size: 3"),
        script(),
    ),
    "a flag that makes parameters": (
        recipe("lin: !new:speechbrain.nnet.linear.Filters\n    freeze: False"),
        script(),
    ),
    "a buffer that is read as it is": (recipe(FEATURES), script()),
    "a buffer, if the command line wants it": (
        recipe("deltas: False\n" + FEATURES + "\n    deltas: !ref <deltas>"),
        script(),
    ),
    "made either way": (recipe("lin: !new:speechbrain.nnet.linear.Choice\n    path: a"), script()),
    "a class of torch": (recipe("lin: !new:torch.nn.Conv1d [1, 2, 3]"), script()),
    "run by a searcher": (
        recipe(LIN + "\nsearch: !new:speechbrain.decoders.Searcher\n    linear: !ref <lin>"),
        script("x = self.hparams.search(x)"),
    ),
    "run by a searcher that a mapping holds": (
        recipe(LIN + "\nall:\n    one: !new:speechbrain.decoders.Searcher\n        linear: !ref <lin>"),
        script("x = self.hparams.all['one'](x)"),
    ),
    "a list that is not listed": (
        recipe(LIN + "\nmodel: !new:torch.nn.ModuleList\n    - [!ref <enc>, !ref <lin>]"),
        script(),
    ),
    "saved and restored": (
        recipe(
            LIN + "\nkeeper: !new:speechbrain.decoders.Keeper\n    recoverables:\n        lin: !ref <lin>"
        ),
        script(),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    done = checked(tmp_path, *FOUND[name])
    assert len(done.findings) == 1, done.messages
    assert done.after("train.yaml") == FOUND[name][0] + LISTED
    assert "hparams.lin" not in done.after("train.py")


SILENT = {
    "it is listed": (recipe(more=LISTED), script()),
    "listed under another name": (recipe(more="    head: !ref <lin>\n"), script()),
    "held by a module that is listed": (
        recipe(
            LIN + "\nboth: !new:speechbrain.nnet.linear.Wrapper\n    inner: !ref <lin>",
            more="    both: !ref <both>\n",
        ),
        script(),
    ),
    "held by something unknown that is listed": (
        recipe(LIN + "\nboth: !new:elsewhere.Both\n    inner: !ref <lin>", more="    both: !ref <both>\n"),
        script(),
    ),
    "nothing in it": (recipe("lin: !new:speechbrain.nnet.linear.Filters"), script()),
    "a buffer that follows its input": (
        recipe("lin: !new:speechbrain.nnet.linear.Careful\n    size: 3"),
        script(),
    ),
    "a buffer that it moves for good": (
        recipe("lin: !new:speechbrain.nnet.linear.Keeping\n    size: 3"),
        script(),
    ),
    "made one way only": (
        recipe("lin: !new:speechbrain.nnet.linear.Choice\n    path: a\n    both: False"),
        script(),
    ),
    "a buffer that is not used": (recipe(FEATURES + "\n    deltas: False"), script()),
    "an unknown class": (recipe("lin: !new:elsewhere.Linear"), script()),
    "no module": (recipe("lin: !new:speechbrain.decoders.Keeper"), script()),
    "not used": (recipe(), script("pass")),
    "used on the host only": (recipe(), script("x = self.hparams.lin(x.cpu())")),
    "only looked at": (recipe(), script("print(list(self.hparams.lin.parameters()))")),
    "run by what moves it": (
        recipe(LIN + "\nsearch: !new:speechbrain.decoders.LMSearcher\n    model: !ref <lin>"),
        script("x = self.hparams.search(x)"),
    ),
    "kept by what does not run it": (
        recipe(
            LIN + "\nkeeper: !new:speechbrain.decoders.Keeper\n    recoverables:\n        lin: !ref <lin>"
        ),
        script("self.hparams.keeper.save()"),
    ),
    "moved": (recipe(), script(after='hparams["lin"].to(brain.device)')),
    "moved and kept": (recipe(), script(before='hparams["lin"] = hparams["lin"].cuda()')),
    "moved in a loop": (recipe(), script(after='for m in (hparams["lin"],): m.to(brain.device)')),
    "moved with all the rest": (recipe(), script(after="for m in hparams.values(): m.to(brain.device)")),
    "moved by the Brain": (recipe(), script("self.hparams.lin.to(self.device); " + USE)),
    "moved under another name": (recipe(), script(before='net = hparams["lin"]; net.to("cuda")')),
    "handed to something": (recipe(), script(before='place(hparams["lin"])')),
    "listed by the script": (recipe(), script(before='hparams["modules"]["lin"] = hparams["lin"]')),
    "the script lists by itself": (
        recipe(),
        script().replace('ASR(hparams["modules"]', 'ASR({"lin": hparams["lin"]}'),
    ),
    "asked for first": (recipe(), script('x = self.modules.lin(x) if hasattr(self.modules, "lin") else x')),
    "asked for in a statement": (
        recipe(),
        script('if "lin" in self.modules.keys():\n            x = self.modules.lin(x)'),
    ),
    "another script's recipe": (recipe(), script(before='hparams["something"], hparams["else"]')),
    "no script": (recipe(), "import torch\n"),
    "merged entries": ("<<: {a: 1}\n" + recipe(), script()),
    "two documents": (recipe() + "---\na: 1\n", script()),
    "no mapping": ("- !new:a.B\n- modules\n", script()),
    "no YAML": (recipe() + "{{ jinja }}: [\n", script()),
    "a comment that says so": (
        recipe().replace("modules:", "modules: # devfix: ignore[list-in-modules]"),
        script(),
    ),
    "a comment where it is defined": (recipe(LIN.replace("Linear", "Linear # devfix: ignore", 1)), script()),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str, tmp_path: Path) -> None:
    done = checked(tmp_path, *SILENT[name])
    assert done.messages == []
    assert not done.report.changed


# --- self.modules.x that is not there --------------------------------------------------------------


def test_taken_from_where_it_is_not(tmp_path: Path) -> None:
    """Nothing that worked can change: the script stops there on every device."""
    text = script("x = self.modules.lin(x)")
    done = checked(tmp_path, recipe(), text, Safety.SAFE)
    assert done.messages == ["train.py, line 10, takes `lin` from `modules:`, which does not list it"]
    assert (done.after("train.yaml"), done.after("train.py")) == (recipe(more=LISTED), text)


def test_taken_under_a_name_that_only_resembles_it(tmp_path: Path) -> None:
    done = checked(tmp_path, recipe(LIN.replace("lin:", "Lin_:")), script("x = self.modules.lin(x)"))
    assert done.after("train.yaml").endswith("    lin: !ref <Lin_>\n")


# --- held by what is listed --------------------------------------------------------------------------

SEARCHER = "class Search(torch.nn.Module):\n    def __init__(self, scorer):\n        super().__init__()\n"
SEARCHER += "        self.scorer = scorer\n\n    def forward(self, x):\n        return self.scorer(x)\n"
INTERFACE = (
    LIN
    + """
scorer: !new:speechbrain.decoders.{kind}
    {argument}: !ref <lin>
search: !new:speechbrain.search.Search
    scorer: !ref <scorer>
"""
)


@pytest.mark.parametrize(
    ("kind", "argument", "found"), [("Searcher", "linear", 1), ("LMSearcher", "model", 0)]
)
def test_a_listed_module_runs_it_through_an_object(
    kind: str, argument: str, found: int, tmp_path: Path
) -> None:
    """No script is needed to see that, as in the recipes of an inference interface."""
    yaml = recipe(INTERFACE.format(kind=kind, argument=argument), "    search: !ref <search>\n")
    done = checked(
        tmp_path, yaml, "import torch\n", **{"speechbrain/search.py": "import torch\n\n\n" + SEARCHER}
    )
    assert len(done.findings) == found, done.messages
    assert done.after("train.yaml") == yaml + LISTED * found


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ("self.parts = dict(zip(['a'], [part]))", 1),
        ("part = print if part is None else part; self.parts = {'a': part}", 1),
        ("self.parts = {}; self.keep(part)", 1),
        ("self.parts = {'a': part}; self.place(part)", 0),
    ],
)
def test_run_by_an_object_that_keeps_it_somehow(kept: str, found: int, tmp_path: Path) -> None:
    own = f"class Search:\n    def __init__(self, part=None):\n        {kept}\n\n"
    own += "    def keep(self, one):\n        self.parts['a'] = one\n\n"
    own += "    def place(self, one):\n        one.to('cuda')\n\n"
    own += "    def __call__(self, x):\n        for one in self.parts.values():\n            x = one(x)\n"
    own += "        return x\n"
    yaml = recipe(LIN + "\nsearch: !new:speechbrain.search.Search\n    part: !ref <lin>")
    done = checked(tmp_path, yaml, script("x = self.hparams.search(x)"), **{"speechbrain/search.py": own})
    assert len(done.findings) == found, done.messages


def test_a_part_comes_with_what_it_is_a_part_of(tmp_path: Path) -> None:
    """`outer` has a layer of its own and runs `lin`, which it registers: to list `outer` is enough."""
    own = "import torch\n\n\nclass Outer(torch.nn.Module):\n    def __init__(self, inner):\n"
    own += (
        "        super().__init__()\n        self.inner = inner\n        self.w = torch.nn.Linear(2, 2)\n\n"
    )
    own += "    def forward(self, x):\n        return self.w(self.inner(x))\n"
    yaml = recipe(LIN + "\nouter: !new:speechbrain.own.Outer\n    inner: !ref <lin>")
    done = checked(tmp_path, yaml, script("x = self.hparams.outer(x)"), **{"speechbrain/own.py": own})
    assert [message.partition(" is not")[0] for message in done.messages] == ["`outer`"]
    assert done.after("train.yaml") == yaml + "    outer: !ref <outer>\n"


# --- the script's part ---------------------------------------------------------------------------


def test_the_script_stays_if_another_of_its_recipes_does_not_list_it(tmp_path: Path) -> None:
    other = recipe(more=LISTED).replace("    lin: !ref <lin>\n", "") + "x: 1\n"
    done = checked(tmp_path, recipe(), **{"recipes/hparams/other.yaml": other})
    assert [Path(result.path).name for result in done.report.changed] == ["other.yaml", "train.yaml"]


def test_a_network_that_is_only_run_is_moved_in_the_script(tmp_path: Path) -> None:
    more = "\npretrainer: !new:speechbrain.decoders.Keeper\n    loadables:\n        lin: !ref <lin>"
    done = checked(tmp_path, recipe(LIN + more))
    assert done.after("train.yaml") == recipe(LIN + more)
    assert 'run_opts=run_opts)\n    hparams["lin"].to(brain.device)\n' in done.after("train.py")


def test_a_device_that_may_be_none(tmp_path: Path) -> None:
    text = script(after='hparams["lin"].to(run_opts["device"])')
    done = checked(tmp_path, recipe(), text, Safety.SAFE)
    assert "None unless one is given" in done.messages[0]
    assert done.after("train.py") == script(after='hparams["lin"].to(brain.device)')
    assert [result.applied for result in done.report.changed] == [1], "the fix counts where it is made"
    assert done.after("train.yaml") == recipe()


def test_a_device_that_may_be_none_where_the_brain_comes_later(tmp_path: Path) -> None:
    done = checked(tmp_path, recipe(), script(before='hparams["lin"].to(run_opts["device"])'))
    assert len(done.findings) == 1 and done.findings[0].fix is None


# --- how safe ------------------------------------------------------------------------------------

OWN_OPTIMIZER = "\n\n    def init_optimizers(self):\n        self.optimizer = self.opt_class(self.hparams.model.parameters())"
LIST = "\nmodel: !new:torch.nn.ModuleList\n    - [!ref <enc>, !ref <lin>]"


@pytest.mark.parametrize(
    ("entry", "safety"),
    [
        (FEATURES, Safety.SAFE),  # buffers only
        (LIN, Safety.UNSAFE),  # trained from now on
        (LIN + LIST, Safety.SAFE),  # trained already
        ("lin: !new:speechbrain.nnet.linear.Deep\n    size: 3" + LIST, Safety.UNSAFE),  # has dropout
    ],
)
def test_safety(entry: str, safety: Safety, tmp_path: Path) -> None:
    own = OWN_OPTIMIZER if LIST in entry else ""
    text = script().replace("        return x\n", f"        return x{own}\n")
    (finding,) = checked(tmp_path, recipe(entry), text).findings
    assert finding.fix is not None and finding.fix.safety is safety
    assert ("assumes" in finding.message) is (safety is Safety.UNSAFE)


# --- where the toolkit is ----------------------------------------------------------------------------


def test_without_the_toolkit_only_what_needs_no_class(tmp_path: Path) -> None:
    away = {"speechbrain/nnet/linear.py": "", "speechbrain/core.py": "", "speechbrain/__init__.py": ""}
    other = recipe(LIN.replace("linear.Linear", "embedding.Embedding"))
    assert checked(tmp_path / "a", other, **away).messages == []
    (message,) = checked(tmp_path / "c", recipe(), **away).messages
    assert "`enc` of the same class is listed" in message
    assert len(checked(tmp_path / "b", recipe(), script("x = self.modules.lin(x)"), **away).messages) == 1


def test_classes_beside_the_recipe(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\nclass Own(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    )
    weighted = text + "        self.w = torch.nn.Parameter(torch.ones(3))\n"
    entry = recipe("lin: !new:layers.Own")
    assert (
        checked(tmp_path / "a", entry, **{"recipes/layers.py": text + "        self.w = 1\n"}).messages == []
    )
    assert len(checked(tmp_path / "b", entry, **{"recipes/layers.py": weighted}).messages) == 1


def test_an_installed_toolkit_is_read(tmp_path: Path) -> None:
    from toolkit import TOOLKIT

    site = ".venv/lib/python3.11/site-packages/"
    away = {name: "" for name in TOOLKIT if name.startswith("speechbrain")}
    there = {site + name: text for name, text in TOOLKIT.items() if name.startswith("speechbrain")}
    checked(tmp_path, recipe(), **away, **there)
    for name in away:
        (tmp_path / name).unlink()
    report = run(discover([str(tmp_path / "recipes")]), [ListInModules()], jobs=1, repair=False)
    assert report.findings == 1


def test_the_projects_table_says_which_script(tmp_path: Path) -> None:
    """Two scripts fit; the one of the table is not the one that runs `lin`."""
    table = "Task,Script_file,Hparam_file\nASR,recipes/other.py,recipes/hparams/train.yaml\n"
    files = {"recipes/other.py": script("pass"), "tests/recipes/ASR.csv": table}
    assert checked(tmp_path, recipe(), **files).messages == []


def test_of_two_that_fit_the_one_that_uses_more_of_what_is_listed(tmp_path: Path) -> None:
    more = recipe(LIN + "\nhead: !new:torch.nn.Conv1d [1, 2, 3]", "    head: !ref <head>\n")
    other = {"recipes/other.py": script("x = self.modules.head(x)")}
    assert checked(tmp_path, more, **other).messages == []


# --- its examples --------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ListInModules.examples, ids=lambda example: example.title)
def test_examples(example: Example, tmp_path: Path) -> None:
    files = {"train.py": example.before, "hyperparams.yaml": example.recipe}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    report = run(discover([str(tmp_path)]), [ListInModules()], example.safety, jobs=1)
    changed = {Path(result.path).name: result.after.decode() for result in report.changed}
    if example.after is None:
        assert (report.findings, changed) == (0, {})
    else:
        assert changed == {"train.py": example.after, "hyperparams.yaml": example.recipe_after}
