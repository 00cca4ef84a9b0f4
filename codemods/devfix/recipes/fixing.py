"""What is done about a case: listed in the recipe and taken from there, or moved where the Brain is made."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass

from devfix.engine.files import Class
from devfix.findings import Edit, Elsewhere, Fix, InsertStatement, ReplaceExpression, Safety
from devfix.models.torch_api import PLAIN_BASES
from devfix.recipes.inserting import listing
from devfix.recipes.judge import Case, Judge
from devfix.recipes.lists import addition
from devfix.recipes.making import Made, make
from devfix.recipes.pairing import siblings
from devfix.recipes.recipe import Recipe
from devfix.recipes.script import Script
from devfix.recipes.usage import Usage
from devfix.text.callees import argument_of

_MODES = ("Dropout", "dropout", "BatchNorm", "training")
# Classes of torch that are the same in training and evaluation; of others there is no source to look at.
_MODELESS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)),
        *("Linear", "Bilinear", "Embedding", "EmbeddingBag", "LayerNorm", "GroupNorm", "RMSNorm", "PReLU"),
    )
)


@dataclass(frozen=True)
class Plan:
    """A fix, and the assumption that it makes (empty: none)."""

    fix: Fix
    unless: str = ""


def plan(case: Case, judge: Judge) -> Plan | None:
    """The fix of a case, or None where there is none that is surely right."""
    usage = case.usage
    if usage is not None and case.move is not None:
        return _to_the_brains(case.move, case, usage.script, judge)
    if usage is not None and is_frozen(case, usage, judge.recipe):
        return _moved(case, usage.script, judge)
    if usage is not None and not case.unlisted and case.entry in judge.recipe.entries:
        added = _added(case, usage.script, judge)
        if added is not None:
            return added
    edit = listing(judge.recipe, case.name, case.entry)
    if edit is None:
        return None
    title = f"list `{case.name}` under `modules:`"
    unless = _assumption(case, judge)
    safety = Safety.UNSAFE if unless else Safety.SAFE
    elsewhere: tuple[Elsewhere, ...] = ()
    if usage is not None and not case.unlisted and not case.holder and _may_change(case, usage, judge):
        elsewhere = _taken_from_there(case, usage, judge)
        if elsewhere:
            title += f" and call it as `self.modules.{case.name}`"
    return Plan(Fix(title, (edit,), safety, elsewhere), unless)


def _added(case: Case, script: Script, judge: Judge) -> Plan | None:
    """Into the list that all the rest is in; the script finds it where it always did."""
    reached = judge.list_for(case.entry, script)
    edit = addition(judge.recipe, reached, case.entry) if reached is not None else None
    if reached is None or edit is None:
        return None
    fix = Fix(f"add `{case.entry}` to `{reached.name}`, which is listed", (edit,), Safety.UNSAFE)
    old = f"no checkpoint of `{reached.name}` without it is to be loaded"
    return Plan(fix, f"`{case.entry}` is to be trained with the rest, and {old}")


# --- self.hparams.x -> self.modules.x ------------------------------------------------------------


def _may_change(case: Case, usage: Usage, judge: Judge) -> bool:
    """Has every other recipe that the script may run the entry under `modules:`?"""
    others = siblings(usage.script, judge.recipe, judge.files)
    return all(case.name in other.listed for other in others)


def _taken_from_there(case: Case, usage: Usage, judge: Judge) -> tuple[Elsewhere, ...]:
    """Every call of it in the Brain, by file."""
    by_file: dict[str, list[ReplaceExpression]] = {}
    for use in usage.of_name.get(case.name, ()):
        node = use.node
        if not isinstance(node, ast.Attribute):
            continue
        if not (isinstance(node.value, ast.Attribute) and isinstance(node.value.value, ast.Name)):
            return ()
        file = use.method.file
        target = f"{node.value.value.id}.modules.{case.name}"
        by_file.setdefault(file.path, [])
        edit = ReplaceExpression(file.source.span(node), target)
        if edit not in by_file[file.path]:
            by_file[file.path].append(edit)
    found = []
    for path, edits in sorted(by_file.items()):
        document = judge.files.document(path)
        if document is None:
            return ()
        found.append(Elsewhere(_shown(path, judge.recipe), tuple(edits), document.digest))
    return tuple(found)


def _shown(path: str, recipe: Recipe) -> str:
    """A path as the recipe's is given: relative to the working directory, or absolute."""
    return path if os.path.isabs(recipe.path) else os.path.relpath(path)


# --- frozen networks -------------------------------------------------------------------------------


def is_frozen(case: Case, usage: Usage, recipe: Recipe) -> bool:
    """Is it a network that is only run? Training, DDP and the optimizer go over all that is listed."""
    name = case.entry
    if case.unlisted or not case.weighted:
        return False
    if name in recipe.below("recoverables") or name in recipe.in_lists:
        return False
    node = recipe.nodes[name]
    freeze = any(
        key.value in ("freeze", "frozen") and recipe.value(value) is True for key, value in node.pairs
    )
    uses = usage.of_entry.get(name, [])
    by_script = name in usage.frozen or (bool(uses) and all(use.no_grad for use in uses))
    return freeze or by_script or name in recipe.below("loadables")


def _moved(case: Case, script: Script, judge: Judge) -> Plan | None:
    """`hparams["x"].to(brain.device)` behind the making of the Brain."""
    made = _made_as(script)
    if made is None:
        return None
    statement, target = made
    hparams = argument_of(script.constructions[0], "hparams", 2)
    document = judge.files.document(script.path)
    if not isinstance(hparams, ast.Name) or document is None:
        return None
    keys = case.entry.replace("]", "").split("[")
    line = hparams.id + "".join(f'["{key}"]' for key in keys) + f".to({target}.device)"
    edits: tuple[Edit, ...] = (InsertStatement(script.file.source.span(statement), line),)
    other = Elsewhere(_shown(script.path, judge.recipe), edits, document.digest)
    fix = Fix(f"move `{case.entry}` where the Brain is made", (), Safety.UNSAFE, (other,))
    return Plan(fix, f"`{case.entry}` is only run and not trained")


def _to_the_brains(move: ast.Call, case: Case, script: Script, judge: Judge) -> Plan | None:
    """`run_opts["device"]` -> `brain.device`, where the Brain is made before, in the same block."""
    made = _made_as(script)
    document = judge.files.document(script.path)
    source = script.file.source
    if made is None or document is None or move not in source.parents:
        return None
    statement, target = made
    block = source.block(statement)
    later = source.statement(move)
    if source.block(later) is not block or source.index(later) < source.index(statement):
        return None
    argument = [*move.args, *(keyword.value for keyword in move.keywords)][0]
    edit = ReplaceExpression(source.span(argument), f"{target}.device")
    other = Elsewhere(_shown(script.path, judge.recipe), (edit,), document.digest)
    return Plan(Fix(f"move `{case.entry}` to the Brain's device", (), Safety.SAFE, (other,)))


def _made_as(script: Script) -> tuple[ast.stmt, str] | None:
    """The statement that makes the only Brain, and the name that it gives it."""
    if len(script.constructions) != 1:
        return None
    statement = script.file.source.parents.get(script.constructions[0])
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return (statement, target.id) if isinstance(target, ast.Name) else None


# --- how safe it is ----------------------------------------------------------------------------------


def _assumption(case: Case, judge: Judge) -> str:
    """What must hold for the CPU's results to stay as they are; empty where it does."""
    if case.unlisted:
        where = "" if case.use is None or case.use.sure else case.use.where
        return f"it is to be trained with the rest wherever {where} runs" if where else ""
    made = _made(case, judge)
    modeless = judge.recipe.made(case.entry) in _MODELESS
    if not modeless and (made is None or _has_modes(made)):
        return f"`{case.entry}` is to be switched between training and evaluation with the rest"
    if case.weighted and not _trained_already(case, judge):
        return f"`{case.entry}` is to be trained with the rest"
    return ""


def _made(case: Case, judge: Judge) -> Made | None:
    node = judge.recipe.nodes[case.entry]
    cls = judge.library.find(judge.recipe.made(case.entry))
    return make(judge.library, cls, judge.recipe.arguments(node)) if cls is not None else None


def _has_modes(made: Made) -> bool:
    """Does it behave otherwise in training? True where that cannot be told."""
    names = (name for cls in made.classes for name in cls.outside)
    texts = (cls.file.source.code(cls.node) for one in made.classes for cls in one.lineage)
    return any(mode in text for text in (*names, *texts) for mode in _MODES)


def _trained_already(case: Case, judge: Judge) -> bool:
    """Does the optimizer get it from a list, and does nothing else go over all that is listed?"""
    if case.usage is None:
        return False
    lists = judge.recipe.in_lists.get(case.entry, set())
    script = case.usage.script
    return (
        bool(lists)
        and bool(script.brains)
        and all(_optimizes(script, brain, lists) for brain in script.brains)
    )


def _optimizes(script: Script, brain: Class, lists: set[str]) -> bool:
    if not PLAIN_BASES.issuperset(brain.outside):
        return False
    methods = {name: method for cls in reversed(brain.lineage) for name, method in cls.methods.items()}
    gets_list = False
    for method in methods.values():
        for node in method.nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in ("parameters", "named_parameters"):
                continue
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "modules":
                return False
            gets_list |= script.key_of(owner) in lists
    return gets_list
