"""Recipes that include files: what stands in those belongs to the entry that names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.recipes.files import Files
from devfix.recipes.recipe import Recipe
from toolkit import LIN, checked, recipe, script

MODELS = """\
size: 4
enc2: !new:speechbrain.nnet.linear.Linear
    n_neurons: !ref <size>
    input_size: 4
head: !new:speechbrain.nnet.linear.Linear
    n_neurons: !PLACEHOLDER
    input_size: !ref <size>
search: !new:speechbrain.decoders.Searcher
    linear: !ref <head>
"""
INCLUDING = "models: !include:parts/models.yaml\n    size: !ref <size>"
WHERE = "recipes/hparams/parts/models.yaml"
TAKES = "x = self.modules.head(self.modules.enc2(x))"
LISTED = "    enc2: !ref <models[enc2]>\n    head: !ref <models[head]>\n"


def test_names_and_references_are_those_of_the_including_file(tmp_path: Path) -> None:
    checked(tmp_path, recipe(INCLUDING), **{WHERE: MODELS})
    path = str(tmp_path / "recipes" / "hparams" / "train.yaml")
    read = Recipe(path, recipe(INCLUDING, LISTED), Files(path))
    assert read.made("models[head]") == "speechbrain.nnet.linear.Linear"
    assert read.target("models[size]") == "size", "what is below the tag takes the place of its entries"
    assert read.constant("models[size]") == 4
    assert {held.entry for held in read.holders["models[head]"]} == {"models", "models[search]"}
    assert set(read.references(read.nodes["models[search]"])) == {"models[head]"}
    key = read.key("models[head]")
    assert read.text[key.start : key.end] == "models"


def test_what_the_script_takes_and_nobody_lists(tmp_path: Path) -> None:
    half = LISTED.splitlines(keepends=True)[0]
    done = checked(tmp_path, recipe(INCLUDING, half), script(TAKES), **{WHERE: MODELS})
    (message,) = done.messages
    assert message.startswith("train.py, line 10, takes `head` from `modules:`, which does not list it")
    assert done.after("train.yaml") == recipe(INCLUDING, LISTED)
    assert [Path(result.path).name for result in done.report.changed] == ["train.yaml"]


@pytest.mark.parametrize("more", [LISTED, LISTED.replace("head:", "top:").replace("enc2:", "Enc2:")])
def test_everything_is_listed(more: str, tmp_path: Path) -> None:
    use = TAKES if more is LISTED else "x = self.modules.top(self.modules.Enc2(x))"
    assert checked(tmp_path, recipe(INCLUDING, more), script(use), **{WHERE: MODELS}).messages == []


def test_under_another_name_of_the_same_recipe(tmp_path: Path) -> None:
    """`head: !ref <models[head]>` at the top, which the script takes from `self.modules`."""
    yaml = recipe(INCLUDING + "\n\nhead: !ref <models[head]>")
    done = checked(tmp_path, yaml, script("x = self.modules.head(x)"), **{WHERE: MODELS})
    assert done.after("train.yaml") == yaml + "    head: !ref <head>\n"


def test_a_searcher_of_the_file_runs_it(tmp_path: Path) -> None:
    """A plain object moves nothing; what it runs stands in the included file."""
    yaml = recipe(INCLUDING + "\n\nouter: !new:torch.nn.Sequential\n    search: !ref <models[search]>")
    done = checked(tmp_path, yaml + "    outer: !ref <outer>\n", script("pass"), **{WHERE: MODELS})
    (message,) = done.messages
    assert message.startswith("`models[head]` is not under `modules:`, so it stays on the CPU")
    assert done.after("train.yaml") == yaml + "    outer: !ref <outer>\n    head: !ref <models[head]>\n"


def test_what_the_recipe_as_it_stands_does_not_need(tmp_path: Path) -> None:
    """A file that several recipes include has more than each of them uses."""
    use = "x = self.modules.head(x) if self.hparams.kind == 'big' else x"
    for value, count in (("small", 0), ("big", 1)):
        yaml = recipe(f"kind: {value}\n\n{INCLUDING}")
        assert len(checked(tmp_path / value, yaml, script(use), **{WHERE: MODELS}).messages) == count


@pytest.mark.parametrize("other", ["", "- 1\n", "a: [\n", "models: !include:models.yaml\n"])
def test_a_file_that_is_not_there_or_is_none(other: str, tmp_path: Path) -> None:
    """It can list nothing, so the recipe's own entries are judged all the same."""
    yaml = recipe(f"{LIN}\n\nmodels: !include:parts/models.yaml")
    done = checked(tmp_path, yaml, **({WHERE: other} if other else {}))
    assert done.after("train.yaml") == yaml + "    lin: !ref <lin>\n"


def test_a_file_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(MODELS)
    yaml = recipe("models: !include:../../../models.yaml")
    assert checked(tmp_path / "project", yaml, script("x = self.modules.head(x)")).messages == []


def test_the_list_itself_is_included(tmp_path: Path) -> None:
    """What is missing there is said; the file that has the list is changed by hand."""
    yaml = recipe(LIN).partition("modules:")[0] + "modules: !include:parts/listed.yaml\n    enc: !ref <enc>\n"
    done = checked(tmp_path, yaml, **{"recipes/hparams/parts/listed.yaml": "enc: !PLACEHOLDER\n"})
    (finding,) = done.findings
    assert "`lin` is not under `modules:`" in finding.message and finding.fix is None
    assert not done.report.changed


def test_files_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    """HyperPyYAML would not; here it must not take long either."""
    again = "".join(f"m{n}: !include:models.yaml\n" for n in range(20))
    yaml = recipe(f"{LIN}\n\nmodels: !include:parts/models.yaml")
    done = checked(tmp_path, yaml, **{WHERE: MODELS + again})
    assert done.after("train.yaml") == yaml + "    lin: !ref <lin>\n"


def test_a_file_in_a_file(tmp_path: Path) -> None:
    """Its place is looked for from the file that names it."""
    outer = "inner: !include:deeper/models.yaml\n    size: !ref <width>\nwidth: 4\n"
    files = {WHERE: outer, "recipes/hparams/parts/deeper/models.yaml": MODELS}
    checked(tmp_path, recipe("models: !include:parts/models.yaml"), **files)
    path = str(tmp_path / "recipes" / "hparams" / "train.yaml")
    read = Recipe(path, recipe("models: !include:parts/models.yaml"), Files(path))
    assert read.made("models[inner][head]") == "speechbrain.nnet.linear.Linear"
    assert read.target("models[inner][size]") == "models[width]" and read.constant("models[inner][size]") == 4
    assert set(read.references(read.nodes["models[inner][search]"])) == {"models[inner][head]"}
