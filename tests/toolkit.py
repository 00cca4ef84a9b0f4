"""A small project as speechbrain's users have them: a toolkit, a recipe and its script, written into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.reports.report import PlacedFinding, Report
from devfix.rules.list_in_modules import ListInModules

TOOLKIT = {
    "pyproject.toml": "",
    "speechbrain/__init__.py": "from speechbrain.core import Brain\n",
    "speechbrain/core.py": """\
import torch


class Brain:
    def __init__(self, modules=None, opt_class=None, hparams=None, run_opts=None, checkpointer=None):
        self.device = (run_opts or {}).get("device") or "cpu"
        self.modules = torch.nn.ModuleDict(modules).to(self.device)
        self.hparams = hparams

    def init_optimizers(self):
        self.optimizer = self.opt_class(self.modules.parameters())


def parse_arguments(arguments):
    return arguments[0], {"device": None}, {}
""",
    "speechbrain/utils/run_opts.py": "class RunOptions:\n    device: str = None\n",
    "speechbrain/nnet/__init__.py": "",
    "speechbrain/nnet/linear.py": '''\
import torch
import torch.nn as nn


class Linear(torch.nn.Module):
    def __init__(self, n_neurons, input_size=None, bias=True):
        super().__init__()
        self.w = nn.Linear(input_size, n_neurons, bias=bias)

    def forward(self, x):
        return self.w(x)


class Deep(torch.nn.Module):
    """Dropout, and layers made in a loop by a class that it is given."""

    def __init__(self, size, layer=Linear):
        super().__init__()
        self.blocks = torch.nn.ModuleList([layer(size, size) for _ in range(3)])
        self.dropout = nn.Dropout()


class Filters(torch.nn.Module):
    def __init__(self, n=3, freeze=True):
        super().__init__()
        bank = torch.ones(n)
        if not freeze:
            self.bank = nn.Parameter(bank)

    def forward(self, x):
        return x


class Deltas(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("kernel", torch.ones(size))

    def forward(self, x):
        return x * self.kernel


class Careful(Deltas):
    def forward(self, x):
        return x * self.kernel.to(x.device)


class Keeping(Deltas):
    def forward(self, x):
        self.kernel = self.kernel.to(x.device)
        return x * self.kernel


class Choice(torch.nn.Module):
    """One way or the other, as a file says that nobody reads here."""

    def __init__(self, path, both=True):
        super().__init__()
        if open(path).read():
            self.w = nn.Linear(2, 2)
        elif both:
            self.w = nn.Conv1d(2, 2, 1)

    def forward(self, x):
        return self.w(x)


class Features(torch.nn.Module):
    def __init__(self, deltas=True, size=3):
        super().__init__()
        self.deltas = deltas
        self.compute_deltas = Deltas(size)

    def forward(self, x):
        return self.compute_deltas(x) if self.deltas else x


class Wrapper(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
''',
    "speechbrain/decoders.py": '''\
class Searcher:
    def __init__(self, linear, **kwargs):
        self.fc = linear

    def __call__(self, x):
        return self.fc(x)


class LMSearcher(Searcher):
    """Moves its model itself."""

    def __init__(self, model):
        self.lm = model

    def __call__(self, x):
        self.lm.to(x.device)
        return self.lm(x)


class Keeper:
    def __init__(self, recoverables=None, loadables=None):
        self.recoverables = recoverables

    def save(self):
        return [item.state_dict() for item in self.recoverables.values()]
''',
}
SCRIPT = """\
import sys

import speechbrain as sb
from hyperpyyaml import load_hyperpyyaml


class ASR(sb.Brain):
    def compute_forward(self, batch, stage):
        x = self.modules.enc(batch)
        {use}
        return x


if __name__ == "__main__":
    hparams_file, run_opts, overrides = sb.parse_arguments(sys.argv[1:])
    with open(hparams_file) as fin:
        hparams = load_hyperpyyaml(fin, overrides)
    {before}
    brain = ASR(hparams["modules"], hparams["opt_class"], hparams, run_opts=run_opts)
    {after}
    brain.fit()
"""
RECIPE = """\
opt_class: !name:torch.optim.Adam
size: 4

enc: !new:speechbrain.nnet.linear.Linear
    n_neurons: !ref <size>
    input_size: 3

{entry}

modules:
    enc: !ref <enc>
"""
LIN = "lin: !new:speechbrain.nnet.linear.Linear\n    n_neurons: 2\n    input_size: !ref <size>"
USE = "x = self.hparams.lin(x)"


def script(use: str = USE, before: str = "pass", after: str = "pass") -> str:
    return SCRIPT.replace("{use}", use).replace("{before}", before).replace("{after}", after)


def recipe(entry: str = LIN, more: str = "") -> str:
    return RECIPE.replace("{entry}", entry) + more


@dataclass(frozen=True)
class Checked:
    folder: Path
    report: Report

    @property
    def findings(self) -> list[PlacedFinding]:
        return [finding for result in self.report.results for finding in result.findings]

    @property
    def messages(self) -> list[str]:
        return [finding.message for finding in self.findings]

    def after(self, name: str) -> str:
        """A file with the fixes, as text with its newlines; the file itself where nothing changes."""
        for result in self.report.changed:
            if Path(result.path).name == name:
                return result.after.decode()
        return next(self.folder.rglob(name)).read_bytes().decode()


def checked(
    folder: Path, yaml: str, python: str = "", level: Safety = Safety.UNSAFE, **others: str
) -> Checked:
    """What is found of a recipe and its script in a project of their own, and made of them."""
    files = {**TOOLKIT, "recipes/train.py": python or script(), **others}
    files["recipes/hparams/train.yaml"] = yaml
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    report = run(discover([str(folder)]), [ListInModules()], level, jobs=1)
    assert not report.errors, report.errors
    return Checked(folder, report)
