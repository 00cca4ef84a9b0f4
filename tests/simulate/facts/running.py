"""Run facts, many at once, in forks of a process that has loaded torch and not yet used CUDA."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from facts import Fact

SECONDS = 90.0  # for the facts of one process
TOGETHER = 16
_TEXT = 600
_HELP = re.compile(
    r" (?:If you are a Facebook employee|Search for `cuda\w+' in https|CUDA kernel errors might be asynchronously).*"
)
_SET = re.compile(r"\{('\w+'(?:, '\w+')+)\}")  # its order is chance
# What a failed assert on the device leaves behind in all that follows it.
_SPOILED = re.compile(r"CUDA error|CUBLAS_STATUS|cudaError|CRASHED")


def outcomes(facts: Sequence[Fact], workers: int, seconds: float = 1e9) -> dict[str, str]:
    """What every fact comes to, by `Fact.id`; those for which no time is left are missing."""
    until = time.monotonic() + seconds
    found = _run(_groups(facts), workers, until)
    again = [fact for fact in facts if fact.together and _SPOILED.search(found.get(fact.id, "CRASHED"))]
    return {**found, **_run([[fact] for fact in again], workers, until)}


def _groups(facts: Iterable[Fact]) -> Iterator[list[Fact]]:
    group: list[Fact] = []
    for fact in facts:
        if not fact.together:
            yield [fact]
            continue
        if group and (len(group) == TOGETHER or group[0].before != fact.before):
            yield group
            group = []
        group.append(fact)
    if group:
        yield group


def _run(groups: Iterable[list[Fact]], workers: int, until: float) -> dict[str, str]:
    found: dict[str, str] = {}
    running: dict[int, tuple[list[Fact], Path]] = {}
    waiting = iter(groups)
    with tempfile.TemporaryDirectory(prefix="facts-", ignore_cleanup_errors=True) as folder:
        while True:
            while len(running) < workers and time.monotonic() < until:
                group = next(waiting, None)
                if group is None:
                    break
                own = Path(tempfile.mkdtemp(dir=folder))
                child = os.fork()
                if not child:
                    _child(group, own)
                running[child] = group, own
            if not running:
                return found
            child, status = os.wait()
            if child in running:
                group, own = running.pop(child)
                found.update(_outcomes(group, own, status))


def _outcomes(group: list[Fact], folder: Path, status: int) -> Iterator[tuple[str, str]]:
    written = folder / "outcomes"
    lines = written.read_text().splitlines() if written.exists() else []
    yield from (json.loads(line) for line in lines)
    if len(lines) < len(group):
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
        yield group[len(lines)].id, f"CRASHED: {how}"


def _child(group: list[Fact], folder: Path) -> None:
    """The whole life of a process that runs some facts, one after the other."""
    try:
        signal.alarm(int(SECONDS))
        os.chdir(folder)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        simulated = sys.modules.get("devfix.simulate")
        if simulated is not None and simulated.enabled():
            simulated.renew_after_fork()
        with open("outcomes", "w", encoding="utf-8") as file:
            for fact in group:
                file.write(json.dumps([fact.id, outcome(fact.program)]) + "\n")
                file.flush()
    except BaseException:
        Path("trouble").write_text(traceback.format_exc())
    finally:
        os._exit(0)


def outcome(program: str) -> str:
    """One text for what a program comes to in this process."""
    stats = getattr(sys.modules.get("devfix.simulate"), "stats", None)
    if stats is not None:
        stats.refusals = 0
    shown: list[str] = []
    module = types.ModuleType("__main__")
    module.__dict__["show"] = lambda value: shown.append(text_of(value))
    sys.modules["__main__"] = module
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(program, "<fact>", "exec"), module.__dict__)
        text = " ".join(shown) or "nothing"
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    if stats is not None and stats.refusals:
        return f"refused: {stats.last_refusal}"[:_TEXT]
    text = re.sub(r"0x[0-9a-f]{5,}", "0x", " ".join(text.split()))
    text = _SET.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)
    return _HELP.sub("", text)[:_TEXT].strip()


def text_of(value: Any) -> str:
    """A value as text that does not hang on the last digits; of a tensor, its device as well."""
    import torch

    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        plain = value.detach().cpu()
        if plain.is_floating_point() and plain.dtype.itemsize == 1:  # float8
            plain = plain.float()
        return f"{value.device} {_rounded(plain.tolist())}"
    return str(_rounded(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, complex):
        return complex(float(f"{value.real:.4g}"), float(f"{value.imag:.4g}"))
    if type(value) in (list, tuple):
        return type(value)(map(_rounded, value))
    return value
