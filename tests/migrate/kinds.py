"""Repositories of each kind that a campaign words differently: where the bug is, and where its repair."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from making import CLEAN, FIXABLE, Content, repository
from toolkit import LIN, TOOLKIT, recipe, script

Files = Mapping[str | bytes, Content]
# To the device of the command line, which may be None.
_MOVED = script(after='hparams["lin"].to(run_opts["device"])')
_FEATURES = recipe("lin: !new:speechbrain.nnet.linear.Features")
_NAMED = recipe("device: cuda\n" + LIN, "    lin: !ref <lin>\n")
UNSAFE = b"import torch\n\nstate = torch.load('model.pt')\nprint(state['weight'].sum())\n"
WITH_UNSAFE = frozenset({"recipe_and_script"})  # kinds whose campaign makes unsafe repairs, too


def project(**files: str) -> Files:
    """A small speechbrain with these files."""
    return {name: text.encode() for name, text in {**TOOLKIT, **files}.items()}


def notebook(*cells: str) -> bytes:
    made = [
        {
            "cell_type": "code",
            "metadata": {},
            "source": text.splitlines(True),
            "outputs": [],
            "execution_count": None,
        }
        for text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


KINDS: Mapping[str, Files] = {
    "python": {"pkg/train.py": FIXABLE % 2, "pkg/again.py": FIXABLE % 3, "other.py": CLEAN % 2},
    "recipe": project(
        **{"recipes/train.py": script("x = self.modules.lin(x)"), "recipes/hparams/train.yaml": recipe()}
    ),
    "shared_script": project(
        **{"recipes/train.py": _MOVED},
        **{f"recipes/hparams/{name}.yaml": recipe() for name in ("large", "medium", "small")},
    ),
    "two_recipes": project(
        **{"recipes/train.py": script()},
        **{f"recipes/hparams/{name}.yaml": _FEATURES for name in ("large", "small")},
    ),
    "recipe_and_script": project(**{"recipes/train.py": script(), "recipes/hparams/train.yaml": recipe()}),
    "notebook": {"train.ipynb": notebook("import torch\n", (FIXABLE % 2).decode())},
    "nothing": {"train.py": CLEAN % 2, "README.md": b"# hello\n"},
    "unsafe_left": {"train.py": FIXABLE % 2, "serve.py": UNSAFE},
    "only_unsafe": {"serve.py": UNSAFE},
    "failure": {"train.py": FIXABLE % 2, "pyproject.toml": b"[tool.devfix]\nunknown = 1\n"},
    "linked_script": {
        **project(**{"templates/train.py": script(), "recipes/hparams/train.yaml": _NAMED}),
        "recipes/train.py": ("120000", b"../templates/train.py"),
    },
    "linked_text": {
        "train.py": ("120000", b"text/train"),
        "text/train": FIXABLE % 2,
        "lib": ("120000", b"packages/lib"),
        "packages/lib/__init__.py": CLEAN % 2,
    },
    "environment": {
        "venv/pyvenv.cfg": b"home = /usr/bin\n",
        "venv/x.py": FIXABLE % 2,
        "train.py": FIXABLE % 3,
    },
}


def made(top: Path, kind: str) -> Path:
    """A bare repository of a kind, in `top`."""
    return repository(top / "repos" / f"{kind}.git", KINDS[kind])
