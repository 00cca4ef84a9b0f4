"""The distinct device errors of this process, written down as they come: a forked worker has no end of its own."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from devfix.reports.observed import Operand, Seen, as_json
from devfix.simulate.keeping_going import histories, placing
from devfix.simulate.keeping_going.expressions import attribute_path, passed
from devfix.simulate.keeping_going.lines import at, frames, mark

SUFFIX = ".seen"
_MOST = 500  # distinct errors
_FRAMES = 8
_OPERANDS = 12
_TEXT = 600


@dataclass
class _State:
    folder: str = ""
    pid: int = 0


_state = _State()
_seen: dict[tuple[object, ...], Seen] = {}
_lock = threading.RLock()


def install(folder: str) -> None:
    _state.folder, _state.pid = folder, os.getpid()
    atexit.register(_write)
    os.register_at_fork(after_in_child=_begin_anew)


def _begin_anew() -> None:
    _seen.clear()
    _state.pid = os.getpid()


def note(
    operation: str,
    error: BaseException,
    operands: Sequence[Any],
    device: Any,
    given: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
) -> None:
    """An operation has raised, and is carried out on `device`; `given` and `named` are its arguments."""
    with _lock, torch._C.DisableTorchFunction():
        operands = list({id(one): one for one in operands}.values())
        stack = [frame for frame, _ in zip(frames(), range(_FRAMES), strict=False)]
        known = [(one, histories.of(one)) for one in operands]
        line = mark(stack[0]) if stack else None
        key = (
            operation,
            line,
            *((str(one.device), past.made) for one, past in known if one.device != device),
        )
        before = _seen.get(key)
        if before is not None:
            _seen[key] = replace(before, count=before.count + 1)
            if (before.count + 1) & before.count == 0:
                _write()
        elif len(_seen) < _MOST:
            # The strays first: an operation may have hundreds of operands.
            known.sort(key=lambda item: item[0].device == device)
            known = known[:_OPERANDS]
            strays = {number: one for number, (one, _) in enumerate(known) if one.device != device}
            made = {number: past.made[0] for number, (_, past) in enumerate(known) if past.made is not None}
            codes = [frame.f_code for frame in stack]
            sources = {number: [ref() for ref in known[number][1].sources] for number in strays}
            _seen[key] = Seen(
                operation,
                f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:_TEXT],
                str(device),
                tuple(_operand(one, past, device, stack) for one, past in known),
                tuple(
                    passed(
                        frame,
                        strays,
                        device,
                        (operation, given, named or {}) if not inner else (operation, (), {}),
                        [number for number, code in made.items() if code in codes[:inner]],
                        sources,
                    )
                    for inner, frame in enumerate(stack)
                ),
            )
            _write()


def _operand(tensor: Any, past: histories.History, device: Any, stack: Sequence[Any]) -> Operand:
    name = attribute_path(tensor, stack)
    if past.made is None and tensor.is_cpu and placing.wanted:  # what TorchScript makes has no history
        past = replace(past, given=any(one.is_cpu for one in histories.tensors(placing.handed_in())))
    kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer" if name else "tensor"
    return Operand(
        str(tensor.device),
        histories.shape_of(tensor),
        kind,
        tensor.device != device,
        name or past.name,
        at(past.made),
        at(past.moved),
        at(past.stored),
        past.owner,
        past.view,
        past.computed,
        past.given,
    )


def taken() -> list[dict[str, Any]]:
    """What has been seen since the last time that it was taken, for a test's own report."""
    with _lock:
        found = [as_json(seen) for seen in _seen.values()]
        _seen.clear()
    return found


def _write() -> None:
    if not _state.folder or _state.pid != os.getpid():
        return
    path = os.path.join(_state.folder, f"{os.getpid()}{SUFFIX}")
    try:  # the folder goes with the run, and what is left running may outlive it
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump([as_json(seen) for seen in _seen.values()], file)
        os.replace(f"{path}.new", path)
    except OSError:
        pass
