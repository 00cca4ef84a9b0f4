"""Faults, tried on real files and real processes: what is lost, what is wrong, what hangs?

Each function of `FAULTS` makes a small tree in an empty folder, lets something go wrong while devfix works on
it, and raises Lost (bytes that were there are nowhere), Wrong (something else than what must be) or Hung. It
returns how many times the fault was tried. `tests/faults` runs each a few times, `benchmarks/faults.py` often.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from devfix.codemod import Codemod, Example
from devfix.documents import journal, state
from devfix.findings import Elsewhere, Finding, ReplaceExpression, Safety
from devfix.flow import Flow
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.writing import write
from devfix.reports.report import Report
from devfix.text.source import Source

SECONDS = 600.0  # for one process; more is a hang, however slow the machine is
HERE = Path(__file__)


class Fault(AssertionError):
    """Something that must not happen."""


class Lost(Fault):
    pass


class Wrong(Fault):
    pass


class Hung(Fault):
    pass


# --- a tree, and a codemod whose fixes reach over two files ------------------------------------------


@dataclass(frozen=True)
class Pairs(Codemod):
    """`here = old` in `NAME_a.py` becomes `here = new`, together with `there = old` in `NAME_b.py`.

    `alone = old` becomes `alone = new` by itself.
    """

    id: ClassVar[str] = "pairs"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("here", "alone"),)
    examples: ClassVar[tuple[Example, ...]] = ()
    folder: str = "."

    def check(self, flow: Flow) -> Iterator[Finding]:
        text = flow.source.text
        for value in _old(flow.source, "alone"):
            span = flow.source.span(value)
            yield self.finding(
                span, "old", title="make it new", edits=(ReplaceExpression(span, "new"),), safety=Safety.SAFE
            )
        for value in _old(flow.source, "here"):
            span = flow.source.span(value)
            other = Path(self.folder, text.partition("# with ")[2].split("\n")[0])
            data = other.read_bytes()
            source = Source(data.decode())
            edits = tuple(ReplaceExpression(source.span(one), "new") for one in _old(source, "there"))
            made = self.finding(
                span,
                "old",
                title="make both new",
                edits=(ReplaceExpression(span, "new"),),
                safety=Safety.SAFE,
            )
            assert made.fix is not None
            part = Elsewhere(str(other), edits, hashlib.sha256(data).hexdigest())
            yield replace(made, fix=replace(made.fix, elsewhere=(part,)))


def _old(source: Source, name: str) -> Iterator[ast.expr]:
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == name and isinstance(node.value, ast.Name) and node.value.id == "old":
                yield node.value


BEFORE, AFTER = b"= old\r\n", b"= new\r\n"


def tree(folder: Path, pairs: int = 2, alone: int = 2, filler: int = 0) -> dict[Path, bytes]:
    """Files to be changed in pairs and alone, in a repository; their bytes."""
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    more = b"# filler\n" * filler
    files = {}
    for n in range(pairs):
        files[folder / f"p{n}_a.py"] = b"here = old\r\n# with p%d_b.py\n" % n + more
        files[folder / f"p{n}_b.py"] = b"there = old\r\n# kept" + more
    for n in range(alone):
        files[folder / f"x{n}.py"] = b"alone = old\r\n" + more
    for path, data in files.items():
        path.write_bytes(data)
    return files


def new(data: bytes) -> bytes:
    return data.replace(BEFORE, AFTER)


def look(files: dict[Path, bytes], *, together: bool = True) -> int:
    """How many files are new. Every one is old or new, and with `together` the two of a pair are the same."""
    state = {}
    for path, before in files.items():
        if not path.is_file():
            raise Lost(f"{path.name} is gone")
        now = path.read_bytes()
        if now not in (before, new(before)):
            raise Lost(f"{path.name} is neither what it was nor what it is to be: {now[:60]!r}")
        state[path.name] = now != before
    for name in state if together else ():
        other = name.replace("_a.py", "_b.py")
        if state[name] != state[other]:
            raise Wrong(f"of {name} and {other} only one is changed")
    return sum(state.values())


def tree_of(folder: Path) -> str:
    return os.path.realpath(folder)


def left_over(folder: Path) -> None:
    found = [path.name for path in folder.rglob("*.devfix")]
    if found:
        raise Wrong(f"left behind: {found}")
    if list(Path(state.existing(tree_of(folder)), "journals").glob("*/running")):
        raise Wrong("a journal still counts as running")


def analysed(folder: Path) -> Report:
    return run(discover([str(folder)]), [Pairs(str(folder))], jobs=1)


def recovered(folder: Path) -> None:
    journal.recover(tree_of(folder))


def again(folder: Path, files: dict[Path, bytes]) -> None:
    """The next run: it puts right what is half done, and then does all of it."""
    recovered(folder)
    look(files)
    report = write(analysed(folder), str(folder))
    if report.errors:
        raise Wrong(f"the next run fails: {report.errors[0].message}")
    if look(files) != len(files):
        raise Wrong("the next run does not do everything")
    left_over(folder)


# --- the nth operation of the file system ----------------------------------------------------------

_OPERATIONS = ("open", "replace", "rename", "link", "unlink", "fsync", "mkdir", "chmod", "close", "rmdir")


def at_step(step: int, what: Callable[[], None], do: Callable[[], object], but: Sequence[str] = ()) -> bool:
    """Run `do` with `what` happening before its nth operation on the file system; False if it has fewer."""
    count = 0
    real = {name: getattr(os, name) for name in _OPERATIONS}

    def counting(name: str) -> Callable[..., object]:
        def operation(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == step and name not in but:
                what()
            return real[name](*arguments, **named)

        return operation

    def opened(*arguments: Any, **named: Any) -> object:
        """Counts behind the operation: a file that is opened to be written is empty then."""
        nonlocal count
        file = real_open(*arguments, **named)
        if isinstance(arguments[0], str):
            count += 1
            if count == step and "open" not in but:
                what()
        return file

    real_open = builtins.open
    builtins.open = opened  # type: ignore[assignment]
    for name in _OPERATIONS:
        setattr(os, name, counting(name))
    try:
        do()
    finally:
        builtins.open = real_open
        for name in _OPERATIONS:
            setattr(os, name, real[name])
    return count >= step


def in_child(do: Callable[[], bool]) -> int:
    """Run it in a forked process: 0 if it gave False, 1 if True; a negative number: the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = int(do())
        finally:
            os._exit(code)
    end = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Hung("a process does not end")
        time.sleep(0.001)


_TIDYING = ("unlink", "close", "rmdir")  # where these fail nobody can tidy up


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _every_step(
    folder: Path, seed: int, do: Callable[[Path], object], before: Callable[[Path], object] = lambda _: None
) -> int:
    """Kill `do` before each of its steps, in a fresh tree each time; afterwards everything must come right."""
    tree(folder / "warm", 1, 1)
    analysed(folder / "warm")  # what is imported now is not imported in every process
    step = 0
    while True:
        step += 1
        at = folder / f"s{step}"
        files = tree(at, 1, 1)
        before(at)
        code = in_child(lambda at=at, step=step: at_step(step, _die, lambda: do(at)))  # type: ignore[misc]
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise Wrong(f"step {step} ended with {code}")
        look(files, together=False)
        if (step + seed) % 2:
            again(at, files)
        else:  # or the user takes it back
            recovered(at)
            last = journal.last(tree_of(at))
            undone = journal.undo(last) if last is not None else None
            if undone is not None and undone.refused:
                raise Wrong(f"undo refuses: {undone.refused}")
            if look(files):
                raise Wrong("undo leaves something changed")
            left_over(at)
        shutil.rmtree(at)
    return step - 1


def killed_while_writing(folder: Path, seed: int) -> int:
    return _every_step(folder, seed, lambda at: write(analysed(at), str(at)))


def _half_done(at: Path) -> None:
    """A pair of which one file is new, as a killed process leaves it."""
    report = analysed(at)
    step = 1

    def until_half(step: int) -> bool:
        return at_step(step, _die, lambda: write(report, str(at)))

    files = {path: path.read_bytes() for path in at.glob("*.py")}
    while in_child(lambda: until_half(step)):  # noqa: B023
        try:
            look(files)
        except Wrong:
            return
        for path, data in files.items():
            path.write_bytes(data)
        shutil.rmtree(state.place(tree_of(at)), ignore_errors=True)
        for path in at.glob(".*.devfix"):
            path.unlink()
        step += 1
    raise Wrong("no step leaves a pair half done, so this test tests nothing")


def killed_while_recovering(folder: Path, seed: int) -> int:
    source = folder / "source"
    tree(source, 1, 1)
    _half_done(source)
    step = 0
    while True:
        step += 1
        at = folder / f"s{step}"
        files = tree(at, 0, 0)
        shutil.copytree(source, at, dirs_exist_ok=True)
        # The journal names absolute paths, so that of a copy is told where it is.
        kept = shutil.copytree(state.place(tree_of(source)), state.place(tree_of(at)))
        for manifest in Path(kept).glob("journals/*/manifest.json"):
            manifest.write_text(manifest.read_text().replace(tree_of(source), tree_of(at)))
        files = {path: path.read_bytes().replace(AFTER, BEFORE) for path in at.glob("*.py")}
        code = in_child(lambda at=at, step=step: at_step(step, _die, lambda: recovered(at)))  # type: ignore[misc]
        if code == 0:
            break
        look(files, together=False)
        again(at, files)
        shutil.rmtree(at)
    look(files)
    return step - 1


def killed_while_undoing(folder: Path, seed: int) -> int:
    def undo(at: Path) -> None:
        last = journal.last(tree_of(at))
        assert last is not None
        journal.undo(last)

    return _every_step(folder, seed, undo, lambda at: write(analysed(at), str(at)))


def error_while_writing(folder: Path, seed: int) -> int:
    """No space left, or an error of the disk, at each step: what is not written is said, and is as it was."""
    number = (28, 5, 122)[seed % 3]  # ENOSPC, EIO, EDQUOT

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    step = 0
    while True:
        step += 1
        at = folder / f"s{step}"
        files = tree(at, 1, 1)
        report = analysed(at)
        done: list[Report] = []
        if not at_step(step, fail, lambda: done.append(write(report, str(at))), _TIDYING):  # noqa: B023
            return step - 1
        changed = look(files)
        if not done or changed != len(done[0].written):
            raise Wrong("files are reported as written that are not, or the other way round")
        if changed < len(files) and not done[0].errors:
            raise Wrong("something was not done, and nothing is said")
        again(at, files)
        shutil.rmtree(at)


# --- real processes -------------------------------------------------------------------------------


def cli() -> int:
    """`devfix` with `Pairs` as its only codemod; with `--storm`, signals interrupt its calls and change nothing."""
    import devfix.codemod
    import faulty  # by its name, so that worker processes find the class

    devfix.codemod.registry = lambda: {"pairs": faulty.Pairs}  # type: ignore[assignment]
    from devfix.cli import main

    received: list[int] = []
    if "--storm" in sys.argv:
        sys.argv.remove("--storm")
        for number in _STORM:
            signal.signal(number, lambda number, frame: received.append(number))
    if "FAULTY_READY" in os.environ:
        # A signal from now on is devfix's affair, and not that of Python's start.
        Path(os.environ["FAULTY_READY"]).touch()
    try:
        return main()
    finally:
        if received:
            for number in _STORM:
                signal.signal(number, signal.SIG_IGN)  # Python's end takes handlers away
            print(f"received {len(received)} signals", file=sys.stderr)


def started(folder: Path, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, str(HERE), *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,  # type: ignore[call-overload]
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Hung("a process does not end") from None
    text = (out + err).decode("utf-8", "replace")
    if "Traceback" in text:
        raise Wrong(text)
    return process.returncode, text


def started_and_ready(folder: Path, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    ready = folder.with_name(f"{folder.name}.ready")
    ready.unlink(missing_ok=True)
    os.environ["FAULTY_READY"] = str(ready)
    try:
        process = started(folder, *arguments, **more)
    finally:
        del os.environ["FAULTY_READY"]
    end = time.monotonic() + SECONDS
    while process.poll() is None and not ready.exists():
        if time.monotonic() > end:
            raise Hung("a process does not start")
        time.sleep(0.005)
    return process


def _wait_for_writing(folder: Path, process: subprocess.Popen[bytes]) -> None:
    top = Path(state.place(tree_of(folder)), "journals")
    while process.poll() is None and not list(top.glob("*/running")):
        time.sleep(0.001)


def killed_at_random(folder: Path, seed: int) -> int:
    rng = random.Random(seed)
    files = tree(folder, 15, 20, 2000)
    process = started(folder, "apply", ".", *(("--jobs", "2") if rng.random() < 0.3 else ()))
    if rng.random() < 0.8:
        _wait_for_writing(folder, process)
        time.sleep(rng.random() * 0.25)
    else:
        time.sleep(rng.random() * 0.5)
    process.kill()
    process.communicate(timeout=SECONDS)
    look(files, together=False)
    code, text = ended(started(folder, "apply", "."))
    if code:
        raise Wrong(f"the next run ends with {code}: {text}")
    if look(files) != len(files):
        raise Wrong("the next run does not do everything")
    left_over(folder)
    return 1


def killed_while_undoing_at_random(folder: Path, seed: int) -> int:
    """No file is half restored, and the next `undo` restores what is left."""
    rng = random.Random(seed)
    files = tree(folder, 15, 20, 2000)
    if ended(started(folder, "apply", "."))[0]:
        raise Wrong("apply fails")
    process = started_and_ready(folder, "undo")
    _wait_for_writing(folder, process)
    time.sleep(rng.random() * 0.25)
    process.kill()
    process.communicate(timeout=SECONDS)
    look(files, together=False)
    code, text = ended(started(folder, "undo"))
    if code or look(files):
        raise Wrong(f"the next undo ends with {code}: {text}")
    left_over(folder)
    return 1


def interrupted_at_random(folder: Path, seed: int) -> int:
    """SIGINT or SIGTERM: no file is half done, what is said to be written is, and the exit code says why."""
    rng = random.Random(seed)
    number = rng.choice((signal.SIGINT, signal.SIGTERM))
    files = tree(folder, 15, 20, 2000)
    process = started_and_ready(folder, "apply", ".")
    if rng.random() < 0.8:
        _wait_for_writing(folder, process)
        time.sleep(rng.random() * 0.2)
    else:
        time.sleep(0.01 + rng.random() * 0.5)
    process.send_signal(number)
    code, text = ended(process)
    changed = look(files)
    left_over(folder)
    if code == 128 + number:
        if "interrupted" not in text:
            raise Wrong(f"no word about the interruption: {text}")
        said = next((line for line in text.splitlines() if "files were written" in line), "")
        if said and f"{changed} of {len(files)} files were written" not in said:
            raise Wrong(f"{changed} files are written, and it says {said}")
    elif code not in (0, -number):  # it was ready, or Python had not even started
        raise Wrong(f"it ends with {code}: {text}")
    elif code == 0 and changed != len(files):
        raise Wrong("it ends as if all were done")
    return 1


_STORM = (signal.SIGCHLD, signal.SIGWINCH, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)


def _storm(process: subprocess.Popen[bytes]) -> int:
    """Signals until a process ends, as fast as they are delivered; how many."""
    sent = 0
    end = time.monotonic() + SECONDS
    while process.poll() is None:
        process.send_signal(_STORM[sent % len(_STORM)])
        sent += 1
        time.sleep(0.0005)
        if time.monotonic() > end:
            process.kill()
            raise Hung("a process does not end under signals")
    return sent


def storm_of_signals(folder: Path, seed: int) -> int:
    """Handled signals interrupt every call of the system: all is written, then all is restored."""
    files = tree(folder, 4, 4, 8000)
    for arguments, changed in ((("apply", ".", "--jobs", str(1 + seed % 2)), len(files)), (("undo",), 0)):
        process = started_and_ready(folder, *arguments, "--storm")
        sent = _storm(process)
        code, text = ended(process)
        if code or "received" not in text:
            raise Wrong(f"{arguments[0]} ends with {code} after {sent} signals: {text}")
        if look(files) != changed:
            raise Wrong(f"{arguments[0]} does not do everything")
        left_over(folder)
    return 1


def two_at_once(folder: Path, seed: int) -> int:
    """Together they do everything, once; the one that comes second says so, and breaks nothing."""
    files = tree(folder, 10, 10, 200)
    processes = [started(folder, "apply", ".") for _ in range(2)]
    codes = [ended(process)[0] for process in processes]
    if look(files) != len(files):
        raise Wrong("not everything is done")
    if not set(codes) <= {0, 2}:
        raise Wrong(f"exit codes {codes}")
    left_over(folder)
    code, text = ended(started(folder, "check", "."))
    if code:
        raise Wrong(text)
    return 1


_CHANGES = ("edited", "gone", "link", "folder", "fifo", "empty", "truncated")


def changed_meanwhile(folder: Path, seed: int) -> int:
    """A file is something else by the time it is to be written: it stays that, and its pair stays old."""
    for number, how in enumerate(_CHANGES):
        at = folder / f"c{number}"
        files = tree(at, 1, 2)
        victim = at / ("x0.py", "p0_a.py", "p0_b.py")[(seed + number) % 3]
        before = files.pop(victim)
        report = analysed(at)
        mine = _changed(victim, before, how)
        done = write(report, str(at))
        if victim.name not in {os.path.basename(error.path) for error in done.errors}:
            raise Wrong(f"{victim.name} ({how}) is not named")
        if how in ("edited", "empty", "truncated") and victim.read_bytes() != mine:
            raise Lost(f"{victim.name} was overwritten")
        if how == "link" and (not victim.is_symlink() or victim.read_bytes() != mine):
            raise Lost("what a link leads to was overwritten")
        for path, data in files.items():
            partner = victim.name[:2] == path.name[:2] == "p0"
            if path.read_bytes() != (data if partner else new(data)):
                raise Wrong(f"{path.name} with {victim.name} ({how})")
        left_over(at)
    return len(_CHANGES)


def _changed(victim: Path, before: bytes, how: str) -> bytes:
    mine = b"mine = 1\n" if how in ("edited", "link") else b"" if how == "empty" else before[:9]
    if how in ("edited", "empty", "truncated"):
        victim.write_bytes(mine)
        return mine
    victim.unlink()
    if how == "link":
        other = victim.with_name("other.txt")
        other.write_bytes(mine)
        victim.symlink_to(other)
    elif how == "folder":
        victim.mkdir()
    elif how == "fifo":
        os.mkfifo(victim)
    return mine


def full_disk(folder: Path, seed: int) -> int:
    """A real file system that runs full at another place each time, with the tree, the journal or both on it.

    What `undo` then says it has restored is what had been written.
    """
    room = 40 + 6 * (seed % 40)  # KiB
    (folder / "disk").mkdir(parents=True)
    script = (
        f"mount -t tmpfs -o size={room}k tmpfs disk && cp -r source/. $TREE && cd $TREE && "
        f"{sys.executable} {HERE} apply . ; code=$?; mkdir $OLDPWD/result; cp *.py $OLDPWD/result; "
        f"{sys.executable} {HERE} undo 2>&1; echo undo: $?; cp -r . $OLDPWD/undone; exit $code"
    )
    files = tree(folder / "source", 3, 3, 300)
    on, state_on = (("disk/tree", "disk/state"), ("disk/tree", "state"), ("tree", "disk/state"))[seed % 3]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path]),
        "XDG_STATE_HOME": str(folder / state_on),
        "TREE": on,
    }
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    if "cp:" in done.stderr:
        return 0  # not even the files fit
    moved = {folder / "result" / path.name: data for path, data in files.items()}
    changed = look(moved)
    if "Traceback" in done.stderr:
        raise Wrong(done.stderr)
    if changed < len(files) and done.returncode != 2:
        raise Wrong(f"exit code {done.returncode} with {changed} of {len(files)} files written")
    undone = {folder / "undone" / path.name: data for path, data in files.items()}
    restored = changed - look(undone)
    if ("restored" in done.stdout or restored) and f"{restored} file" not in done.stdout:
        raise Wrong(f"{restored} files are restored, and it says {done.stdout}")
    if "undo: 2" not in done.stdout and "cannot be undone" not in done.stderr and look(undone):
        raise Wrong("undo leaves something changed, and does not say so")
    for at in ("result", "undone"):
        left_over(folder / at)
    return 1


def can_mount() -> bool:
    """Whether this user may mount a file system in a name space of its own."""
    with suppress(OSError):
        return not subprocess.run(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True
        ).returncode
    return False


@dataclass(frozen=True)
class Case:
    name: str
    fault: Callable[[Path, int], int]
    few: int
    many: int
    possible: Callable[[], bool] = lambda: True


FAULTS: Sequence[Case] = (
    Case("SIGKILL before each step of writing", killed_while_writing, 1, 10),
    Case("SIGKILL before each step of recovering from a crash", killed_while_recovering, 1, 10),
    Case("SIGKILL before each step of undoing", killed_while_undoing, 1, 10),
    Case("an error of the disk at each step of writing", error_while_writing, 1, 9),
    Case("SIGKILL of an apply at a random moment", killed_at_random, 2, 300),
    Case("SIGKILL of an undo at a random moment", killed_while_undoing_at_random, 1, 250),
    Case("SIGINT or SIGTERM at a random moment", interrupted_at_random, 2, 200),
    Case("SIGCHLD, SIGWINCH, SIGALRM and SIGUSR without end", storm_of_signals, 2, 50),
    Case("two devfix at once on one tree", two_at_once, 1, 100),
    Case("a file changed, gone or replaced before it is written", changed_meanwhile, 2, 30),
    Case("a file system that runs full", full_disk, 2, 40, can_mount),
)

if __name__ == "__main__":
    sys.exit(cli())
