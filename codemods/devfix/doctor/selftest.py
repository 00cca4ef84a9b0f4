"""A known bug goes all the way: found, repaired, silent afterwards, and proven by running torch."""

from __future__ import annotations

from collections.abc import Iterator

from devfix.codemod import Example
from devfix.doctor.health import Line, Status
from devfix.findings import Safety

_BEFORE = """\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.body(x))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = Classifier()
model.to(device)
model.head = nn.Linear(4, 2)
print(f"{model(torch.ones(3, 4, device=device)).sum().item():.3f}")
"""
_AFTER = _BEFORE.replace(
    "model.to(device)\nmodel.head = nn.Linear(4, 2)\n", "model.head = nn.Linear(4, 2)\nmodel.to(device)\n"
)
_CODEMOD = "reorder-to"
EXAMPLE = Example("a head that is replaced after the move", _BEFORE, _AFTER, raises="same device")
_BUG = "please report this with the output of devfix doctor"


def lines(*, run: bool) -> Iterator[Line]:
    """The stages, up to the first one that fails; with `run` the programs run."""
    from devfix.codemod import registry
    from devfix.documents import Document
    from devfix.pipeline.runner import process

    result = process(Document.of("selftest.py", _BEFORE.encode()), (registry()[_CODEMOD](),), Safety.SAFE)
    if result.error is not None:
        yield Line("analysis", result.error.message, Status.FAILURE, _BUG)
        return
    found = [finding.place.line for finding in result.findings]
    where = _BEFORE.splitlines().index("model.head = nn.Linear(4, 2)") + 1
    if found != [where]:
        yield Line("found", f"findings at lines {found}, not at {where}", Status.FAILURE, _BUG)
        return
    yield Line("found", f"the bug, by {_CODEMOD}, at line {where}")
    if result.after.decode() != _AFTER or result.remaining:
        yield Line("fixed", "otherwise than it should be", Status.FAILURE, _BUG)
        return
    yield Line("fixed", "as it should be, and silent afterwards")
    if not run:
        yield Line("proven", "not run: there is no torch, or nobody asked", Status.NOTE)
        return
    yield _proof()


def _proof() -> Line:
    from devfix.smoke import smoke_examples

    proof = smoke_examples(_CODEMOD, (EXAMPLE,))
    if proof.ok:
        return Line("proven", f"fails before, runs after, on {proof.checked_on}; torch {proof.torch}")
    if proof.ok is None:
        where = f" (checked on {proof.checked_on})" if proof.checked_on else ""
        return Line("proven", f"not checked: {_first(proof.detail)}{where}", Status.NOTE)
    return Line("proven", _first(proof.detail), Status.FAILURE, _BUG)


def _first(text: str) -> str:
    return text.partition("\n")[0]
