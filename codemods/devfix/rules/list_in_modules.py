"""`list-in-modules`: a module that the Brain of a recipe runs is listed under `modules:`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.codemod import Example, RecipeCodemod
from devfix.findings import Finding, Related, Safety, Span
from devfix.recipes.recipe import WORDS, Recipe

if TYPE_CHECKING:
    from devfix.engine.files import File
    from devfix.recipes.judge import Case


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

_EXAMPLES = (
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


@dataclass(frozen=True)
class ListInModules(RecipeCodemod):
    """Add modules that the Brain runs to the `modules:` of a HyperPyYAML recipe.

    ## What it does
    Finds modules that a HyperPyYAML recipe defines (`!new:`) and the Brain of its script runs, but that
    neither `modules:` nor anything listed there contains, and that the script does not move. The fix lists
    the module, and replaces `self.hparams.x` by `self.modules.x` in the script where all of the script's
    recipes list it. A network that is only run is moved in the script instead:
    `hparams["x"].to(brain.device)`. Where `modules:` lists a `ModuleList` and none of its elements, the entry
    is added to that list.

    Which classes have parameters or buffers is read from the source of speechbrain, in the project or
    installed next to it, and from Python files next to the recipe; without them there are fewer findings.
    The script is the one that the project's table of recipes names, or a neighbour that fits. Findings
    belong to the YAML file: checking the script alone reports nothing about its recipes.

    ## Why is this bad?
    `Brain` moves only what is listed. The rest stays on the CPU, and the first batch raises *Expected all
    tensors to be on the same device*, or an AttributeError where the script looks it up in `self.modules`.

    ## Fix safety
    Safe where the script needs the entry under `modules:`, where the module has only buffers, or where the
    optimizer already has it and it behaves the same in training and evaluation. Otherwise unsafe: a listed
    module is trained, and switched to evaluation, together with the others; the message states what is
    assumed. A list that becomes longer does not fit its old checkpoints.
    """

    id = "list-in-modules"
    words = WORDS
    examples = _EXAMPLES

    def check_recipe(self, recipe: Recipe) -> Iterator[Finding]:
        from devfix.recipes.fixing import plan
        from devfix.recipes.judge import Judge

        judge = Judge(recipe, recipe.files)
        block = recipe.modules
        for case in judge.cases():
            assert block is not None
            planned = plan(case, judge)
            message = _message(case, planned.unless if planned is not None else "")
            span = Span(recipe.keys["modules"].start, max(block.end, recipe.keys["modules"].end))
            if block.kind == "mapping" and block is not recipe.entries["modules"] and recipe.is_own(block):
                span = Span(block.start, block.end)
            yield Finding(
                self.id,
                Span(span.start, span.start + len(recipe.text[span.start : span.end].rstrip())),
                message,
                planned.fix if planned is not None else None,
                _related(case, recipe),
            )


def _message(case: Case, unless: str) -> str:
    where = case.use.where if case.use is not None else ""
    unmoved = f"`{case.entry}` is not under `modules:`, so it stays on the CPU;"
    if case.unlisted:
        text = f"{where} takes `{case.name}` from `modules:`, which does not list it"
    elif case.move is not None:
        text = (
            f"`{case.entry}` is moved only to the device of the command line, which is None unless one is given: then "
            f"it stays on the CPU, but {where} runs it on inputs on the Brain's device"
        )
    elif case.use is None:
        text = f"{unmoved} `{case.holder}`, a part of a listed module, runs it and does not move it"
    elif case.holder:
        text = f"{unmoved} `{case.holder}`, which {where} runs, does not move it"
    else:
        text = f"{unmoved} {where} runs it on inputs on the Brain's device"
    if case.like:
        text += f"; `{case.like}` of the same class is listed"
    return f"{text}. The fix assumes that {unless}" if unless else text


def _related(case: Case, recipe: Recipe) -> tuple[Related, ...]:
    key = recipe.key(case.entry)
    related = [Related(Span(key.start, key.end), f"`{case.entry}` is defined here")]
    file: File | None = None
    node: ast.expr | None = None
    word = "used"
    if case.move is not None and case.usage is not None:
        file, node, word = case.usage.script.file, case.move, "moved"
    elif case.use is not None:
        file, node = case.use.method.file, case.use.node
    if file is not None and node is not None:
        span = file.source.span(node)
        line, column = file.source.position(span.start)
        related.append(Related(span, f"{word} here", file.path, line, column))
    return tuple(related)
