"""`restore-after-move`: optimizer state and averaged weights are made on the model's final device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.bindings import Bindings
from devfix.codemod import Codemod, Example
from devfix.findings import Edit, Finding, MoveStatement, Related, Safety
from devfix.flow import Flow
from devfix.flow.events import Event, Scope, What
from devfix.flow.lattice import Kind
from devfix.placing import bound_before, follows, only, siblings
from devfix.restoring.examples import EXAMPLES
from devfix.restoring.holders import Holder, bound_in, candidates, holders
from devfix.surgery.needed import used_after
from devfix.surgery.ways import changed, looked_at

_CHANGES = (What.ATTACH, What.WRAP)


@dataclass(frozen=True)
class RestoreAfterMove(Codemod):
    """Move a model before restoring its optimizer's state or copying its weights.

    ## What it does
    Finds `optimizer.load_state_dict(..)`, `Adagrad(model.parameters())` and copies of the weights for
    averaging (`ModelEma(model)` of timm, `ExponentialMovingAverage` of torch_ema, `EMAModel` of
    diffusers, classes of the file that clone in `__init__`, and `copy.deepcopy(model)` that a loop over
    `zip(ema.parameters(), model.parameters())` keeps up to date) before the `model.to(device)` of the same
    function, and puts the move first.

    Making an optimizer before the move is fine: the parameters stay the same objects. There is no finding for
    optimizers without state, code that moves the state itself, copies that are moved or given a device,
    and models that come from elsewhere and may be on a device already.

    ## Why is this bad?
    `load_state_dict` copies the state to the device that the parameters are on *at that time*
    (https://pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html). A later
    `model.to(device)` moves the parameters but not the state, so the first step raises
    "Expected all tensors to be on the same device". A copy of the weights is left behind in the same way.

    ## Fix safety
    Safe where the model is made in sight and nothing in between rebinds it or changes its layers: on the
    CPU the order makes no difference. Unsafe where a function out of sight made the model, where
    something in between reads or runs it, and for classes that are known only by their name. There is no fix
    where the move cannot be put first.
    """

    id: ClassVar[str] = "restore-after-move"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("torch",),
        ("load_state_dict(", "Adagrad(", "EMA", "Ema", "ExponentialMovingAverage(", "deepcopy("),
        (".to(", ".cuda("),
    )
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        lines = candidates(flow.source)
        scopes = [
            scope
            for scope in flow.scopes
            if lines and not scope.host and not scope.owned and any(e.what is What.MOVE for e in scope.events)
        ]
        bindings = flow.once(Bindings) if scopes else None
        for scope in scopes:
            assert bindings is not None
            for holder in holders(flow, scope, lines, bindings):
                found = self._judge(flow, scope, holder, bindings)
                if found is not None:
                    yield found

    def _judge(self, flow: Flow, scope: Scope, holder: Holder, bindings: Bindings) -> Finding | None:
        source = flow.source
        at = source.span(holder.node)
        for module in holder.modules:
            moves = [e for e in scope.events if e.what is What.MOVE and _is_of(e, module)]
            if any(source.span(move.node).start < at.start for move in moves):
                continue
            move = next((one for one in moves if _after(flow, holder, one)), None)
            if move is None or not used_after(source, scope, holder.path, holder.node, move.node):
                continue
            made = _made_here(flow, scope, module, bindings, at.start)
            if made is None:
                continue
            edits, unnoticed = _first(flow, scope, holder, move)
            safety = Safety.SAFE if made and holder.sure and unnoticed else Safety.UNSAFE
            return self.finding(
                at,
                f"{holder.what} before `{source.code(move.node)}`, so it stays on the CPU",
                title=f"move `{move.path}` first" if edits else "",
                edits=edits,
                safety=safety,
                related=(Related(source.span(move.node), f"`{move.path}` is moved here"),),
            )
        return None


def _is_of(event: Event, module: str) -> bool:
    """Does a move take a module along: is it that of the module, or of the one around it?"""
    return bool(event.path) and (module == event.path or module.startswith(f"{event.path}."))


def _after(flow: Flow, holder: Holder, move: Event) -> bool:
    """Does a move to a device surely come later?"""
    place = move.place
    if place is None or not place.on_device or move.via or move.value.kind not in (Kind.MODULE, Kind.PART):
        return False
    start = flow.source.span(holder.node).end
    return flow.source.span(move.node).start > start and follows(flow.source, holder.node, move.node)


def _made_here(flow: Flow, scope: Scope, module: str, bindings: Bindings, before: int) -> bool | None:
    """Is a module made in this scope above, on the CPU for sure? None where it comes from elsewhere."""
    source, root = flow.source, module
    found = bound_in(source, scope, root, bindings)
    while not found and "." in root:
        root = root.rpartition(".")[0]
        found = bound_in(source, scope, root, bindings)
    found = [binding for binding in found if source.span(binding.node).start < before]
    if not found or root == "self":
        return None
    sure = True
    for binding in found:
        value = binding.value
        if binding.parameter or not isinstance(value, ast.Call):
            return None
        text = flow.source.code(value)
        if any(word in text for word in (".to(", ".cuda(", "device", "prepare(", "DataParallel", "DDP(")):
            return None
        known = flow.value(value)
        if known.place.on_device or known.kind is Kind.OWNER:
            return None
        sure = sure and known.kind is Kind.MODULE and known.place.on_host
    return sure


def _first(flow: Flow, scope: Scope, holder: Holder, move: Event) -> tuple[tuple[Edit, ...], bool]:
    """The move put above what it comes too late for, where it can stand there; and whether nobody notices."""
    source = flow.source
    pair = siblings(source, holder.node, move.node)
    if pair is None or pair[0] is pair[1]:
        return (), False
    early, late = pair
    statement = source.statement(move.node)
    if late is not statement and not (isinstance(late, ast.If) and only(late, {statement})):
        return (), False
    if not _is_plain(statement, move) or not bound_before(source, late, early):
        return (), False
    start, end = source.span(early).start, source.span(late).start
    if changed(source, [late], start, end, ()):
        return (), False
    for event in scope.events:
        if event.what in _CHANGES and event.value.identity == move.value.identity:
            if start <= source.span(event.node).start < end:
                return (), False
    block = source.block(early)
    index = block.index(early)
    if index == 0:
        return (), False
    edit = MoveStatement(source.span(late), source.span(block[index - 1]))
    return (edit,), not looked_at(source, move.path, start, end, (source.statement(holder.node),))


def _is_plain(statement: ast.stmt, move: Event) -> bool:
    """`model.to(device)` or `model = model.to(device)`, and nothing else."""
    if isinstance(statement, ast.Expr):
        return statement.value is move.node
    return (
        isinstance(statement, ast.Assign)
        and statement.value is move.node
        and [ast.unparse(target) for target in statement.targets] == [move.path]
    )
