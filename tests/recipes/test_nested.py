"""Modules that stand below a mapping at the top: run as `self.hparams.nets["lin"](x)`."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolkit import LIN, checked, recipe, script

NETS = (
    "nets:\n    "
    + LIN.replace("\n", "\n    ")
    + "\n    act: !new:torch.nn.ReLU\n    conv: !new:torch.nn.Conv1d [1, 2, 3]"
)
USE = 'x = self.hparams.nets["lin"](x)'
LISTED = "    lin: !ref <nets[lin]>\n"
FOUND = {
    "by its key": script(USE),
    "a method": script('x = self.hparams.nets["lin"].forward(x)'),
    "under a name": script('net = self.hparams.nets["lin"]\n        x = net(x)'),
    "another one is moved": script(USE, after='hparams["nets"]["conv"].to(brain.device)'),
    "a setting is handed on": script(USE, before='make(hparams["nets"]["act"])'),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, tmp_path: Path) -> None:
    done = checked(tmp_path, recipe(NETS), FOUND[name])
    (message,) = done.messages
    assert message.startswith("`nets[lin]` is not under `modules:`, so it stays on the CPU")
    assert done.after("train.yaml") == recipe(NETS, LISTED)
    assert done.after("train.py") == FOUND[name]
    assert checked(tmp_path / "again", recipe(NETS, LISTED), FOUND[name]).messages == []


SILENT = {
    "not run": script("pass"),
    "another one is run": script('x = self.hparams.nets["act"](x)'),
    "moved": script(USE, after='hparams["nets"]["lin"].to(brain.device)'),
    "moved in a loop": script(USE, after='[net.to(brain.device) for net in hparams["nets"].values()]'),
    "moved by a key that is not in view": script(USE, after='hparams["nets"][which()].to(brain.device)'),
    "handed on with the rest": script(USE, before='prepare(hparams["nets"])'),
    "handed on": script(USE, before='prepare(hparams["nets"]["lin"])'),
    "the script makes it": script(USE, before='hparams["nets"] = make()'),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str, tmp_path: Path) -> None:
    assert checked(tmp_path, recipe(NETS), SILENT[name]).messages == []


def test_any_of_them(tmp_path: Path) -> None:
    """Which one is run is not in view: each may be."""
    done = checked(tmp_path, recipe(NETS), script("x = self.hparams.nets[self.which](x)"))
    assert sorted(message.partition(" is")[0] for message in done.messages) == ["`nets[conv]`", "`nets[lin]`"]
    assert done.after("train.yaml") == recipe(NETS, "    conv: !ref <nets[conv]>\n" + LISTED)


def test_a_name_that_means_something_else(tmp_path: Path) -> None:
    yaml = recipe(NETS + "\nlin: 3")
    done = checked(tmp_path, yaml, script(USE))
    assert len(done.messages) == 1 and not done.report.changed, "it is for a person to find a name"


def test_moved_in_the_script_where_it_is_only_run(tmp_path: Path) -> None:
    more = "\npretrainer: !new:speechbrain.decoders.Keeper\n    loadables:\n        lin: !ref <nets[lin]>"
    done = checked(tmp_path, recipe(NETS + more), script(USE))
    assert 'run_opts=run_opts)\n    hparams["nets"]["lin"].to(brain.device)\n' in done.after("train.py")


def test_moved_if_a_device_is_given(tmp_path: Path) -> None:
    done = checked(tmp_path, recipe(NETS), script(USE, after='hparams["nets"]["lin"].to(run_opts["device"])'))
    assert "None unless one is given" in done.messages[0]
    assert 'hparams["nets"]["lin"].to(brain.device)' in done.after("train.py")
