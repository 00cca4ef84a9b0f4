"""The recipe of `examples/ctc_recipe`, read by the real HyperPyYAML and run by the real Brain, before and after."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.smoke import Run, Runner, same_numbers

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "ctc_recipe"
SCRIPT = """\
import sys

import speechbrain as sb
import torch
from hyperpyyaml import load_hyperpyyaml


class ASR(sb.Brain):
    def init_optimizers(self):
        self.optimizer = self.opt_class(self.hparams.asr_model.parameters())
        self.optimizers_dict = {"opt": self.optimizer}

    def compute_forward(self, batch, stage):
        feats, _ = batch
        x = self.modules.enc(feats.to(self.device))
        logits = self.hparams.ctc_lin(x)
        return self.hparams.log_softmax(logits)

    def compute_objectives(self, predictions, batch, stage):
        feats, tokens = batch
        frames = torch.full((feats.shape[0],), feats.shape[1], dtype=torch.long)
        lengths = torch.full((tokens.shape[0],), tokens.shape[1], dtype=torch.long)
        return self.hparams.ctc_cost(predictions.transpose(0, 1), tokens.to(self.device), frames, lengths)

    def on_stage_end(self, stage, stage_loss, epoch=None):
        print(f"{stage.name} {epoch}: {float(stage_loss):.4f}")


def batches(number, hparams):
    for _ in range(number):
        tokens = torch.randint(1, hparams["output_neurons"], (4, 3))
        yield torch.randn(4, 12, hparams["n_mels"]), tokens


if __name__ == "__main__":
    hparams_file, run_opts, overrides = sb.parse_arguments(sys.argv[1:])
    with open(hparams_file) as fin:
        hparams = load_hyperpyyaml(fin, overrides)
    torch.manual_seed(hparams["seed"])
    data = torch.utils.data.DataLoader(list(batches(4, hparams)), batch_size=None)
    brain = ASR(hparams["modules"], hparams["opt_class"], hparams, run_opts=run_opts)
    print("device:", torch.device(brain.device).type == "cuda")
    brain.fit(range(1, 3), data, data)
"""


def project(folder: Path) -> Path:
    """The recipe with the toolkit's own layer, and a script that the toolkit runs."""
    pytest.importorskip("speechbrain", reason="speechbrain is not installed")
    pytest.importorskip("hyperpyyaml", reason="hyperpyyaml is not installed")
    shutil.copy(EXAMPLE / "layers.py", folder)
    recipe = (EXAMPLE / "hyperparams.yaml").read_text(encoding="utf-8")
    assert "ctc_lin: !new:layers.Linear" in recipe
    recipe = recipe.replace("!new:layers.Linear", "!new:speechbrain.nnet.linear.Linear")
    (folder / "hyperparams.yaml").write_text(recipe, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return folder


def run(runner: Runner, folder: Path, device: str) -> Run:
    script, recipe = str(folder / "train.py"), str(folder / "hyperparams.yaml")
    options = ["--noprogressbar", "--device", "cuda:0" if device == "cuda" else "cpu"]
    launch = (
        "import runpy, sys\n"
        "sys.dont_write_bytecode = True\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        f"sys.argv = {[script, recipe, *options]!r}\n"
        f"runpy.run_path({script!r}, run_name='__main__')\n"
    )
    done = runner.run(launch, "cuda" if device == "cuda" else "cpu")
    if done.status == "unsupported":
        pytest.skip(f"not checked: {done.error}")
    return done


def test_run_by_the_real_toolkit(runner: Runner, tmp_path: Path) -> None:
    folder = project(tmp_path)
    on_cpu = run(runner, folder, "cpu")
    assert (on_cpu.status, on_cpu.output.splitlines()[0]) == ("ok", "device: False"), on_cpu.error
    before = run(runner, folder, "cuda")
    assert before.status == "raised" and "Expected all tensors to be on the same device" in before.error
    command = [sys.executable, "-m", "devfix", "apply", "--unsafe", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "1 fix in 2 of 3 files written" in done.stderr, done.stdout + done.stderr
    assert "    ctc_lin: !ref <ctc_lin>\n" in (folder / "hyperparams.yaml").read_text(encoding="utf-8")
    assert "self.modules.ctc_lin(x)" in (folder / "train.py").read_text(encoding="utf-8")
    again = run(runner, folder, "cpu")
    assert again.output == on_cpu.output, again.error
    after = run(runner, folder, "cuda")
    assert (after.status, after.output.splitlines()[:1]) == ("ok", ["device: True"]), after.error
    assert same_numbers(after.output.partition("\n")[2], on_cpu.output.partition("\n")[2])


def test_the_list_form_run_by_the_real_toolkit(runner: Runner, tmp_path: Path) -> None:
    """The recipe lists its `ModuleList` and nothing else: what is missing in the list is added there."""
    folder = project(tmp_path)
    recipe = (folder / "hyperparams.yaml").read_text(encoding="utf-8")
    recipe = recipe.replace("    enc: !ref <enc>\n", "    asr_model: !ref <asr_model>\n")
    recipe = recipe.replace(", !ref <ctc_lin>]", "]")
    (folder / "hyperparams.yaml").write_text(recipe, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT.replace("modules.enc", "hparams.enc"), encoding="utf-8")
    before = run(runner, folder, "cuda")
    assert before.status == "raised" and "Expected all tensors to be on the same device" in before.error
    command = [sys.executable, "-m", "devfix", "apply", "--unsafe", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert "1 fix in 1 of 3 files written" in done.stderr, done.stdout + done.stderr
    fixed = (folder / "hyperparams.yaml").read_text(encoding="utf-8")
    assert fixed == recipe.replace("[!ref <enc>]", "[!ref <enc>, !ref <ctc_lin>]")
    on_cpu, after = run(runner, folder, "cpu"), run(runner, folder, "cuda")
    assert (on_cpu.status, after.status) == ("ok", "ok"), on_cpu.error + after.error
    assert after.output.startswith("device: True\n")
    assert same_numbers(after.output.partition("\n")[2], on_cpu.output.partition("\n")[2])
