"""The list form: where all that is trained is in a `ModuleList` that is listed, what is missing goes there."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.findings import Safety
from devfix.recipes.inserting import doubt
from toolkit import LIN, checked, recipe, script

USE = "x = self.hparams.lin(self.hparams.enc(x))"
OWN = "\n\n    def init_optimizers(self):\n        self.optimizer = self.opt_class(self.hparams.model.parameters())"
FORMS = {
    "brackets": ("model: !new:torch.nn.ModuleList\n    - [!ref <enc>, !ref <dec>{}]", ", !ref <lin>"),
    "brackets over lines": (
        "model: !new:torch.nn.ModuleList\n    - [\n        !ref <enc>,\n        !ref <dec>{},\n    ]",
        ", !ref <lin>",
    ),
    "one line": ("model: !new:torch.nn.ModuleList [[!ref <enc>{}]]", ", !ref <lin>"),
    "dashes": (
        "model: !new:torch.nn.ModuleList\n    - - !ref <enc> # first\n      - !ref <dec> # last{}\n    # end",
        "\n      - !ref <lin>",
    ),
    "one dash": ("model: !new:torch.nn.ModuleList\n    -   - !ref <enc>{}", "\n        - !ref <lin>"),
    "by its name": (
        "model: !new:torch.nn.ModuleList\n    modules:\n        - !ref <enc>{}",
        "\n        - !ref <lin>",
    ),
    "a plain list": (
        "all:\n    - !ref <enc>\n    - !ref <dec>{}\nmodel: !new:torch.nn.ModuleList [!ref <all>]",
        "\n    - !ref <lin>",
    ),
}
DEC = LIN.replace("lin:", "dec:")


def listing_of(model: str) -> str:
    """A recipe whose `modules:` has the list only."""
    return recipe(f"{DEC}\n{LIN}\n{model}").replace("    enc: !ref <enc>\n", "    model: !ref <model>\n")


def with_optimizer(use: str = USE) -> str:
    text = script(use).replace("self.modules.enc(batch)", "batch")
    return text.replace("        return x\n", f"        return x{OWN}\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", FORMS)
def test_added_at_the_end_of_the_list(name: str, newline: str, tmp_path: Path) -> None:
    model, added = FORMS[name]
    before, after = (listing_of(model.format(more)).replace("\n", newline) for more in ("", added))
    done = checked(tmp_path, before, with_optimizer())
    (finding,) = done.findings
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE
    assert finding.fix.title == "add `lin` to `model`, which is listed"
    assert finding.message.endswith(
        "The fix assumes that `lin` is to be trained with the rest, "
        "and no checkpoint of `model` without it is to be loaded"
    )
    assert done.after("train.yaml") == after
    assert done.after("train.py") == with_optimizer(), "the script finds it where it always did"
    assert checked(tmp_path / "again", after, with_optimizer()).messages == []


def test_in_the_block_itself(tmp_path: Path) -> None:
    block = "    model: !new:torch.nn.ModuleList\n        - [!ref <enc>{}]\n"
    before, after = (
        recipe().replace("    enc: !ref <enc>\n", block.format(more)) for more in ("", ", !ref <lin>")
    )
    done = checked(tmp_path, before, script(USE).replace("self.modules.enc(batch)", "batch"))
    assert done.after("train.yaml") == after


MODEL = FORMS["brackets"][0].format("")
IN_MODULES = {
    "what it holds is listed by itself": (listing_of(MODEL) + "    enc: !ref <enc>\n", with_optimizer()),
    "it is not listed": (recipe(f"{LIN}\n{MODEL}\n{DEC}"), with_optimizer()),
    "the script runs it": (
        listing_of(MODEL),
        with_optimizer(USE + "\n        x = self.hparams.model[0](x)"),
    ),
    "a searcher gets it": (
        listing_of(MODEL + "\nsearch: !new:speechbrain.decoders.Searcher\n    linear: !ref <model>"),
        with_optimizer(),
    ),
    "its checkpoint is loaded": (
        listing_of(
            MODEL + "\nkeeper: !new:speechbrain.decoders.Keeper\n    loadables:\n        model: !ref <model>"
        ),
        with_optimizer(),
    ),
    "two lists": (
        listing_of(MODEL + "\nother: !new:torch.nn.ModuleList\n    - [!ref <enc>]")
        + "    other: !ref <other>\n",
        with_optimizer(),
    ),
    "a run of layers": (
        listing_of("model: !new:torch.nn.Sequential [!ref <enc>, !ref <dec>]"),
        with_optimizer(),
    ),
}


@pytest.mark.parametrize("name", IN_MODULES)
def test_listed_by_itself_all_the_same(name: str, tmp_path: Path) -> None:
    yaml, python = IN_MODULES[name]
    done = checked(tmp_path, yaml, python)
    found = [finding for finding in done.findings if "`lin`" in finding.message]
    assert [finding.fix and finding.fix.title for finding in found] == [
        "list `lin` under `modules:` and call it as `self.modules.lin`"
    ]
    assert "    lin: !ref <lin>\n" in done.after("train.yaml")


def test_saving_it_does_no_harm(tmp_path: Path) -> None:
    more = "\nkeeper: !new:speechbrain.decoders.Keeper\n    recoverables:\n        model: !ref <model>"
    done = checked(tmp_path, listing_of(MODEL + more), with_optimizer())
    assert "[!ref <enc>, !ref <dec>, !ref <lin>]" in done.after("train.yaml")


def test_what_a_list_may_not_become() -> None:
    before = listing_of(MODEL)
    assert doubt(before, before.replace("<dec>]", "<dec>, !ref <lin>]")) == ""
    for new in ("<dec>, !ref <nobody>]", "<dec>, 1]", "<lin>]", "<dec>, !new:torch.nn.Tanh ]"):
        assert doubt(before, before.replace("<dec>]", new)) != ""
    assert doubt(before, before.replace("!ref <enc>, ", "")) != ""
    assert doubt(before, before.replace("[!ref <enc>", "[!ref <lin>, !ref <enc>")) != ""
