"""The function or module around a change, called with made-up inputs before and after it.

For repairs that no command of the repository tries. `targets.py` picks what can be called,
`calling.py` calls it in a process of its own, in a copy of the repository; here the outcomes of four
such calls (before and after, on CUDA and on the CPU) become a verdict. The processes are forks of one that has
imported torch (`smoke.py`); nothing here imports it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from devfix.reports.report import Change, FileResult
from devfix.simulate import landlock
from devfix.simulate.copies import TooLarge, copy, top
from devfix.simulate.processes import MOVED
from devfix.simulate.supervise import Raised
from devfix.simulate.targets import Target, Untouchable, edited, target_of
from devfix.smoke import SECONDS, Run, run_program

_MAIN = "import json\nfrom devfix.simulate.calling import main\nmain(json.loads({!r}))\n"
# A GPU need not add in the CPU's order, but before and after run on one CPU.
_CLOSE = 1e-6
AS_MADE = "as made"  # a module that is called as its constructor leaves it


@dataclass(frozen=True)
class Word:
    """The verdict on one change; `ok` is False where the change did harm, None where nothing was learned."""

    word: str
    ok: bool | None


def not_run(why: str) -> Word:
    return Word(f"not run: because {why}", None)


def try_calls(
    results: Sequence[FileResult],
    device_error: Callable[[Sequence[Raised]], Raised | None],
    *,
    seconds: float,
    each: float = SECONDS,
) -> dict[tuple[str, Change], Word]:
    """Call what is around each change of the results; raises nothing.

    Gives a verdict for every path and change. `seconds` is for all calls together, `each` for one.
    """
    root = top(os.path.realpath(os.curdir))
    found: dict[tuple[str, Change], Word] = {}
    known: dict[Target, _Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="devfix-calls-", ignore_cleanup_errors=True) as folder:
        calls = _Calls(root, folder, tuple(results), time.monotonic() + seconds, each)
        for result in results:
            for change in result.changes:
                try:
                    target = target_of(root, result, change)
                    if target not in known:
                        known[target] = _judge(calls, target, device_error)
                    word = _of_change(known[target], result, change)
                except Untouchable as why:
                    word = not_run(str(why))
                found[result.path, change] = word
    return found


# --- one target --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Outcome:
    """What is known of a target; `lines` are those of the repaired file that ran on CUDA."""

    word: Word
    lines: frozenset[int] = frozenset()


def _of_change(outcome: _Outcome, result: FileResult, change: Change) -> Word:
    """A call says something of a change only if it comes to the changed line."""
    if outcome.word.ok:
        places = list(edited(result, change))
        if not places or not all(outcome.lines & set(lines) for lines in places):
            return not_run("the call with synthetic inputs does not come to this line")
    return outcome.word


def _judge(
    calls: _Calls, target: Target, device_error: Callable[[Sequence[Raised]], Raised | None]
) -> _Outcome:
    try:
        return _judged(calls, target, device_error)
    except (Untouchable, OSError, ValueError) as why:
        return _Outcome(not_run(str(why)))


def _judged(
    calls: _Calls, target: Target, device_error: Callable[[Sequence[Raised]], Raised | None]
) -> _Outcome:
    """The CPU says which inputs fit. With these, CUDA must refuse what was there and run the repair."""

    def about_devices(one: dict[str, Any]) -> bool:
        return device_error([Raised(error) for error in one["errors"]]) is not None

    after_cpu, _ = calls.call("after", target, cpu=True, plan=None)
    plan = after_cpu["plan"]
    before_cpu, _ = calls.call("before", target, cpu=True, plan=plan)
    for name, one in after_cpu["calls"].items():
        harm = _harm(before_cpu["calls"][name], one, target)
        if harm is None:
            continue
        if harm.ok is False:  # unless it is chance: what differs from process to process
            again, _ = calls.call("before", target, cpu=True, plan=plan)
            if not _alike(before_cpu["calls"][name], again["calls"][name]):
                harm = not_run(f"the results of {target.name} differ from call to call")
        return _Outcome(harm)
    before, place = calls.call("before", target, cpu=False, plan=plan)
    chosen = [name for name, one in before["calls"].items() if one["errors"] and about_devices(one)]
    if not chosen:
        for one in before["calls"].values():
            if one["errors"]:
                why = f"before the fix, a call with synthetic inputs ends otherwise ({_last(one)})"
                return _Outcome(not_run(why))
    after, place = calls.call("after", target, cpu=False, plan=plan)
    lines: set[int] = set()
    for name, one in after["calls"].items():
        if not one["errors"]:
            lines.update(one["lines"] if name in chosen else ())
        elif not before["calls"][name]["errors"] and name == AS_MADE:
            why = f"as made, without a move, {target.name} ran before the fix and fails after it"
            return _Outcome(Word(f"not verified: {why} ({_last(one)})", None))
        elif not before["calls"][name]["errors"]:
            return _Outcome(Word(f"failed: on {place}, the fixed {target.name} fails ({_last(one)})", False))
        elif name in chosen and name != AS_MADE:  # what nobody moves need not run
            kind = "still ends in a device error" if about_devices(one) else "fails"
            return _Outcome(Word(f"not verified: after the fix, {target.name} {kind} ({_last(one)})", None))
    if not lines:
        return _Outcome(not_run(f"a call with synthetic inputs runs on {place} without the fix as well"))
    return _Outcome(Word(f"verified: {place}", True), frozenset(lines))


def _harm(before: dict[str, Any], after: dict[str, Any], target: Target) -> Word | None:
    """What one call on the CPU says against the change, if anything."""
    if before["errors"]:
        return None
    if after["errors"]:
        return Word(f"failed: on the CPU, the fixed {target.name} fails ({_last(after)})", False)
    if not (before["steady"] and after["steady"]):
        return not_run(f"the results of {target.name} differ from call to call")
    if not same(before["result"], after["result"]):
        return Word(f"failed: on the CPU, {target.name} gives other results after the fix", False)
    return None


def _alike(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return bool(left["errors"]) == bool(right["errors"]) and same(left["result"], right["result"])


def _last(one: dict[str, Any]) -> str:
    line: str = one["errors"][0].splitlines()[0]
    return line if len(line) <= 200 else f"{line[:197]}..."


def same(left: Any, right: Any) -> bool:
    """Are two results, as `calling.py` describes them, equal?"""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right) or abs(left - right) <= _CLOSE * abs(left)
    return type(left) is type(right) and bool(left == right)


# --- the processes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Calls:
    """Two copies of the repository, which the calls cannot write to where the kernel has Landlock."""

    root: str
    folder: str
    results: tuple[FileResult, ...]
    deadline: float
    seconds: float
    problems: list[str] = field(default_factory=list)  # why there are no copies

    def copied(self, name: str) -> str:
        target = os.path.join(self.folder, name, os.path.basename(self.root) or "root")
        if self.problems:
            raise Untouchable(self.problems[0])
        if not os.path.isdir(target):
            try:
                copy(self.root, target)
            except (OSError, TooLarge) as error:
                self.problems.append(str(error))
                raise Untouchable(str(error)) from error
            for result in self.results if name == "after" else ():
                real = os.path.realpath(result.path)
                if not real.startswith(self.root + os.sep):
                    continue
                path = os.path.join(target, os.path.relpath(real, self.root))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(result.after)
        return target

    def call(self, name: str, target: Target, *, cpu: bool, plan: Any) -> tuple[dict[str, Any], str]:
        """What one process has told, and where it ran; raises Untouchable where it told nothing of use."""
        when = f"{name} the fix, on the CPU," if cpu else f"{name} the fix,"
        left = min(self.seconds, self.deadline - time.monotonic())
        if left < 1:
            raise Untouchable("the time for calls with synthetic inputs is up")
        copied = self.copied(name)
        scratch = tempfile.mkdtemp(prefix="tmp-", dir=self.folder)
        answer = os.path.join(scratch, "answer.json")
        env = {
            "TMPDIR": scratch,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.environ.get("PYTHONPATH", "").replace(self.root, copied),
            MOVED: os.pathsep.join((self.root, copied)),
        }
        if not landlock.version():
            env["HOME"] = scratch
        request = {
            "root": copied,
            "path": target.path,
            "name": target.name,
            "cpu": cpu,
            "plan": plan,
            "cwd": os.path.join(copied, os.path.relpath(os.path.realpath(os.curdir), self.root)),
            "env": env,
            "scratch": scratch,
            "answer": answer,
        }
        run = run_program(_MAIN.format(json.dumps(request)), "cpu" if cpu else "cuda", left, devices=1)
        told = _told(run, answer, when, target)
        strangers = {os.path.realpath(result.path) for result in self.results}
        for path in told["files"]:
            if path in strangers:
                raise Untouchable(f"{path} is imported from where it is, not from the copy")
        return told, run.device


def _told(run: Run, answer: str, when: str, target: Target) -> dict[str, Any]:
    if run.status == "timeout":
        raise Untouchable(f"{when} importing {target.path} or calling {target.name} took too long")
    if run.status == "unsupported":
        raise Untouchable(f"{when} {run.error}")
    try:
        with open(answer, encoding="utf-8") as file:
            told: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        raise Untouchable(f"{when} the process of {target.path} died: {run.error}") from None
    if told["why"]:
        raise Untouchable(f"{when} {told['why']}" if told.get("dated") else told["why"])
    return told
