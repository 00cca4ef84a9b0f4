"""CUDA by name in a recipe: shown where it is used, and never changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.hard_coded_cuda import HardCodedCuda
from toolkit import Checked, checked, recipe, script

LISTED = "    lin: !ref <lin>\n"
PRETRAINED = "asr: !apply:speechbrain.inference.ASR.from_hparams\n    source: here\n    {line}\n"


def said(folder: Path, yaml: str, python: str = "") -> list[str]:
    done: Checked = checked(folder, yaml, python)
    done = replace(
        done, report=run(discover([str(folder / "recipes")]), [HardCodedCuda()], Safety.UNSAFE, jobs=1)
    )
    assert not done.report.changed and not done.report.errors
    assert all(finding.fix is None for finding in done.findings)
    lines = yaml.splitlines()
    return [f"{lines[one.place.line - 1].strip()} | {one.message}" for one in done.findings]


def with_entry(entry: str) -> str:
    """A right recipe that mentions torch, with one entry more in front."""
    return entry + "\n" + recipe(more=LISTED)


@pytest.mark.parametrize("value", ["cuda", "cuda:0", "'cuda:1'", '"cuda:0" # for the resampler'])
def test_what_the_brain_runs_on(value: str, tmp_path: Path) -> None:
    (message,) = said(tmp_path, with_entry(f"device: {value}"))
    assert message.startswith(f"device: {value}")
    assert "is what the Brain runs on unless `--device` is given" in message


@pytest.mark.parametrize("line", ['run_opts: {"device":"cuda:0"}', "device: cuda", "device_map: cuda"])
def test_what_a_constructor_is_told(line: str, tmp_path: Path) -> None:
    (message,) = said(tmp_path, with_entry(PRETRAINED.replace("{line}", line)))
    assert message.startswith(line) and "even if `--device` names another device" in message


def test_an_entry_that_a_constructor_or_the_script_takes(tmp_path: Path) -> None:
    held = with_entry("ssl_device: cuda\n" + PRETRAINED.replace("{line}", "device: !ref <ssl_device>"))
    (message,) = said(tmp_path / "a", held)
    assert message.startswith("ssl_device: cuda |")
    read = script("x = self.hparams.lin(x.to(self.hparams.ssl_device))")
    (message,) = said(tmp_path / "b", with_entry("ssl_device: cuda"), read)
    assert message.startswith("ssl_device: cuda |")


@pytest.mark.parametrize(
    "entry",
    [
        "device: cpu",
        "device: !PLACEHOLDER",
        "# device: cuda:0",
        "device: cudagraph",
        "name: cuda:0",
        "other_device: cuda:0",  # nobody reads it
        "device: cuda:0 # devfix: ignore",
        "settings:\n    device: cuda:0",  # plain data, for whoever reads it
        PRETRAINED.replace("{line}", "run_opts: {device: !ref <size>}"),
    ],
)
def test_what_is_right_is_silent(entry: str, tmp_path: Path) -> None:
    assert said(tmp_path, with_entry(entry)) == []


def test_a_brain_that_is_not_told_the_recipe_takes_no_device_from_it(tmp_path: Path) -> None:
    alone = script().replace('hparams["opt_class"], hparams, run_opts', 'hparams["opt_class"], run_opts')
    assert said(tmp_path, with_entry("device: cuda"), alone) == []


def test_a_file_without_a_script_is_silent(tmp_path: Path) -> None:
    assert said(tmp_path, with_entry("device: cuda"), "print('cuda of torch')\n") == []
