"""The programs of `list-in-modules`: scripts with a recipe, and as much of the toolkit as they need."""

from __future__ import annotations

from devfix.codemod import Example
from devfix.findings import Safety

_HEAD = '''\
import re
from types import SimpleNamespace

import torch


def load_hyperpyyaml(file):
    """Reads the recipe below: references, and classes of torch with a list of numbers."""
    known, below = {}, None
    for line in file:
        key, _, value = line.strip().partition(":")
        new = re.match(r" *!new:torch.nn.(\\w+) *(.*)", value)
        if value.strip().startswith("!ref"):
            below[key] = known[value.strip()[6:-1]]
        elif new:
            arguments = [int(number) for number in re.findall(r"\\d+", new[2])]
            known[key] = getattr(torch.nn, new[1])(*arguments)
        else:
            known[key] = below = {}
    return known


class Brain:
    def __init__(self, modules, hparams, device):
        self.hparams = SimpleNamespace(**hparams)
        self.device = device
        self.modules = torch.nn.ModuleDict(modules).to(self.device)

    def fit_batch(self, batch):
        return self.compute_forward(batch.to(self.device)).sum().item()


torch.manual_seed(0)
with open("hyperparams.yaml") as file:
    hparams = load_hyperpyyaml(file)


'''
_SCRIPT = (
    _HEAD
    + """\
class Recognizer(Brain):
    def compute_forward(self, batch):
        return self.{where}.ctc_lin(self.modules.enc(batch))


device = "cuda" if torch.cuda.is_available() else "cpu"
brain = Recognizer(hparams["modules"], hparams, device)
print(round(brain.fit_batch(torch.ones(2, 3)), 4))
"""
)
_RECIPE = """\
enc: !new:torch.nn.Linear [3, 4]
ctc_lin: !new:torch.nn.Linear [4, 2]
modules:
    enc: !ref <enc>
"""
_LISTED = _RECIPE + "    ctc_lin: !ref <ctc_lin>\n"
_HARMLESS = """\
enc: !new:torch.nn.Linear [3, 4]
ctc_lin: !new:torch.nn.Tanh
modules:
    enc: !ref <enc>
"""

EXAMPLES = (
    Example(
        "a layer that is defined and used, and not listed",
        before=_SCRIPT.replace("{where}", "hparams"),
        after=_SCRIPT.replace("{where}", "modules"),
        raises="Expected all tensors to be on the same device",
        safety=Safety.UNSAFE,
        recipe=_RECIPE,
        recipe_after=_LISTED,
    ),
    Example(
        "everything with parameters is listed",
        before=_SCRIPT.replace("{where}", "hparams"),
        recipe=_HARMLESS,
    ),
)
