"""Small repositories on disk, and what devfix finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent

from devfix.codemod import registry
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.reports.report import Report

CODEMODS = ("reorder-to", "move-inputs")

NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""
# `attach_head` attaches a layer that is on the CPU, `ready_head` one that is where the model is.
HEADS = """
from torch import nn


def attach_head(model):
    model.head = nn.Linear(2, 2)


def ready_head(model, device):
    model.head = nn.Linear(2, 2).to(device)
"""


def training(imported: str, call: str = "attach_head(model)") -> str:
    """A script that moves a model and then calls something: wrong on line 9 if that attaches a layer."""
    return f"""\
import torch
from torch import nn

{imported}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 2))
model.to(device)
{call}
print(model(torch.ones(1, 4, device=device)))
"""


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root


def report(
    root: Path,
    paths: Sequence[str] = (),
    *,
    project: str | None = "",
    jobs: int = 1,
    codemods: Sequence[str] = CODEMODS,
) -> Report:
    """The report of a check of these paths below `root`; `project=None`: each file alone."""
    around = None if project is None else Around(project and str(root / project))
    found = discover([str(root / path) for path in paths] or [str(root)])
    known = registry()
    return run(found, [known[id]() for id in codemods], repair=False, jobs=jobs, around=around)


def found(root: Path, *paths: str, **options: object) -> list[str]:
    """`file:line codemod` of every finding; errors raise."""
    made = report(root, paths, **options)  # type: ignore[arg-type]
    assert not made.errors, made.errors
    top = root.resolve()
    return [
        f"{Path(result.path).resolve().relative_to(top).as_posix()}:{finding.place.line} {finding.codemod}"
        for result in made.results
        for finding in result.findings
    ]
