"""SAFE fixes of random programs, run before and after; `python benchmarks/fixes.py` runs thousands."""

from __future__ import annotations

import sys
from itertools import count, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from devfix.smoke import Runner
from fixes import Fixed, fixed, judged

_HEAD = (
    "import torch\nx = torch.ones(3)\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
)


_WRONG = (
    ("print(x.sum().item())", "print(x.mean().item())", "CPU: it printed '3.0\\n', now '1.0\\n'"),
    ("y = x + 1", "y = x + 2", "CPU: other values: y"),
    ("y = x", "y = x.missing()", "CPU: it ran, and raises now"),
    ("y = x.missing()", "y = x.other()", "CPU: AttributeError"),
    ("y = x + x", "y = x + x.to(device)", "CUDA: it ran, and raises now"),
)


def test_no_fix_changes_a_result_or_breaks_a_run(runner: Runner) -> None:
    found = list(judged(runner, list(islice(fixed(count(50_000)), 8))))
    assert [(one.name, why, one.after) for one, why, *_ in found if why] == []
    assert sum(ran for _, _, ran, *_ in found) > 4
    assert any(before.raises and not after.error for *_, before, after in found)


def test_what_a_wrong_fix_would_do_is_seen(runner: Runner) -> None:
    some = [Fixed("", _HEAD + before, _HEAD + after, (), False) for before, after, _ in _WRONG]
    for (_, said, *_), (_, _, why) in zip(judged(runner, some), _WRONG, strict=True):
        assert said.startswith(why)
