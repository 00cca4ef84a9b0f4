"""Codemod `list-in-modules`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from devfix.codemod import Example, RecipeCodemod
from devfix.findings import Finding, Related, Span
from devfix.recipes.examples import EXAMPLES
from devfix.recipes.recipe import WORDS, Recipe

if TYPE_CHECKING:
    from devfix.recipes.judge import Case
    from devfix.recipes.library import Module


@dataclass(frozen=True)
class ListInModules(RecipeCodemod):
    """A recipe's module is used by the Brain but is not listed under `modules:`.

    ## What it does
    Finds what a HyperPyYAML recipe defines (`!new:`) and the Brain of its script runs, although it is not under
    `modules:`, nothing that is listed holds it, and the script does not move it. It is listed, and
    `self.hparams.x` becomes `self.modules.x` in the script where all of the script's recipes list it. A network that
    is only run is moved in the script instead, as `hparams["x"].to(brain.device)`; and where `modules:` lists a
    `ModuleList` and nothing of what it holds, the entry is added to that list.
    Which classes have parameters or buffers is read from the source of the speechbrain that the project contains or
    that is installed beside it, and from Python files beside the recipe; without it devfix says less. The script is
    the one that the project's table of recipes names, or a neighbour that fits. What is found belongs to the YAML
    file: if the script alone is checked, nothing is said of its recipes.

    ## Why is this bad?
    `Brain` moves what is listed and nothing else. The rest stays on the CPU, and the first batch stops with
    *Expected all tensors to be on the same device*; or, where the script asks `self.modules` for it, with an
    AttributeError.

    ## Fix safety
    Safe where the script cannot do without the entry under `modules:`, where it has buffers only, or where the
    optimizer has it already and it behaves the same in training and evaluation. Else unsafe: what is listed is
    trained, and switched to evaluation, with the rest, and the message says what is assumed. A list that becomes
    longer does not fit its old checkpoints.
    """

    id: ClassVar[str] = "list-in-modules"
    words: ClassVar[tuple[tuple[str, ...], ...]] = WORDS
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

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
            f"`{case.entry}` is moved to the device of the command line only, which is None where none is given: then "
            f"it stays on the CPU, where {where} runs it"
        )
    elif case.use is None:
        text = f"{unmoved} `{case.holder}`, a part of a listed module, runs it and does not move it"
    elif case.holder:
        text = f"{unmoved} `{case.holder}`, which {where} runs, does not move it"
    else:
        text = f"{unmoved} {where} runs it there"
    if case.like:
        text += f"; `{case.like}` of the same class is listed"
    return f"{text}. The fix assumes that {unless}" if unless else text


def _related(case: Case, recipe: Recipe) -> tuple[Related, ...]:
    key = recipe.key(case.entry)
    related = [Related(Span(key.start, key.end), f"`{case.entry}` is defined here")]
    module: Module | None = None
    node: ast.expr | None = None
    word = "used"
    if case.move is not None and case.usage is not None:
        module, node, word = case.usage.script.module, case.move, "moved"
    elif case.use is not None:
        module, node = case.use.method.owner.module, case.use.node
    if module is not None and node is not None:
        span = module.source.span(node)
        line, column = module.source.position(span.start)
        related.append(Related(span, f"{word} here", module.path, line, column))
    return tuple(related)
