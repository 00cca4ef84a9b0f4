"""A repository's own program, before and after a repair: does the device error go away?

It runs in copies of the repository, with limits of time, memory and where it may write. Nothing
here imports torch.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from devfix.documents import read_document
from devfix.simulate import landlock
from devfix.simulate.copies import TooLarge, copy, top
from devfix.simulate.forks import Forks, StaleFork
from devfix.simulate.limits import Limits
from devfix.simulate.processes import MOVED, SEED
from devfix.simulate.supervise import Ended, Raised, run

SECONDS = 300.0
MEMORY = 8 << 30
_SHORT = 60  # bytes of a path: multiprocessing appends up to 40
_SHORT_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
NOTEBOOK, _SCRIPT = ".ipynb", ".py"
_PYTHONS = frozenset({"python", "python3", *(f"python3.{minor}" for minor in range(8, 20))})


@dataclass(frozen=True)
class Trial:
    """`word` is the verdict, `ok` whether the repair can be made: None where nothing was learned.

    `loaded` are the files of the repository that the program has imported after the fix.
    """

    word: str
    ok: bool | None
    loaded: frozenset[str] = frozenset()

    def of(self, path: str) -> str:
        """The verdict for the changes of one file."""
        if self.ok is not True or os.path.realpath(path) in self.loaded:
            return self.word
        return "not run: because the program does not import this file"


@dataclass(frozen=True)
class Attempt:
    """What is to be tried: a command, and the new bytes of files by their real paths."""

    command: str
    changed: Mapping[str, bytes]
    devices: int = 1
    seconds: float = SECONDS
    memory: int = MEMORY


def try_out(attempt: Attempt, device_error: Callable[[Sequence[Raised]], Raised | None]) -> Trial:
    """Run the command before and after, in copies of the repository that the working directory is in.

    Raises nothing. `device_error` picks the exception that is one, if there is.
    """
    here = os.path.realpath(os.curdir)
    root = top(here)
    outside = [path for path in attempt.changed if not path.startswith(root + os.sep)]
    if outside:
        return _not_run(f"{outside[0]} lies outside of {root}")
    try:
        words = command(shlex.split(attempt.command))
        inside = os.path.relpath(here, root)
        with (
            tempfile.TemporaryDirectory(prefix="devfix-trial-", ignore_cleanup_errors=True) as folder,
            Forks() as forks,
        ):
            copies = Copies(root, inside, folder, attempt.seconds, attempt.memory, forks=forks)
            return _Trying(attempt, words, copies, device_error).judge()
    except (OSError, TooLarge, ValueError) as error:
        return _not_run(str(error))


def _not_run(why: str) -> Trial:
    return Trial(f"not run: because {why}", None)


def command(words: Sequence[str]) -> list[str]:
    """A command that runs with the Python that runs devfix; raises ValueError if there is none of that name."""
    if not words:
        raise ValueError("the command is empty")
    if words[0] in _PYTHONS:
        return [sys.executable, *words[1:]]
    beside = os.path.join(os.path.dirname(sys.executable), words[0])  # torchrun, pytest, ...
    if os.sep not in words[0] and os.path.isfile(beside):
        with open(beside, "rb") as file:
            script = file.readline().rstrip() == f"#!{sys.executable}".encode()
        return [*([sys.executable] if script else []), beside, *words[1:]]
    if os.sep not in words[0] and shutil.which(words[0]) is None:
        raise ValueError(f"there is no command {words[0]!r}")
    return list(words)


@dataclass(frozen=True)
class Copies:
    """Runs a command in a fresh copy of a repository below `folder`; it can write there only."""

    root: str
    inside: str  # the working directory, from the root
    folder: str
    seconds: float = SECONDS
    memory: int = MEMORY
    seed: str = ""  # of random numbers; empty: the program's own affair
    forks: Forks | None = None

    @property
    def base(self) -> str:
        return os.path.join(self.folder, "copy")

    @property
    def at(self) -> str:
        """Where the copy has its root, in each run."""
        return os.path.join(self.base, os.path.basename(self.root) or "root")

    def run(
        self,
        words: Sequence[str],
        changed: Mapping[str, bytes],
        devices: int,
        *,
        cpu: bool = False,
        keep_going: bool = False,
    ) -> Ended:
        """How the command ends with these files changed; raises TooLarge, OSError and DocumentError."""
        try:
            return self._run(words, changed, devices, cpu, keep_going)
        except StaleFork:
            return self._run(words, changed, devices, cpu, keep_going)

    def _run(
        self, words: Sequence[str], changed: Mapping[str, bytes], devices: int, cpu: bool, keep_going: bool
    ) -> Ended:
        base, target = self.base, self.at
        shutil.rmtree(base, ignore_errors=True)
        scratch = os.path.join(base, "tmp")
        copy(self.root, target)
        os.makedirs(scratch)
        for path, data in changed.items():
            _put(target, os.path.relpath(path, self.root), data)
        words = [_as_script(word, target, self.inside) for word in words]
        cwd = os.path.join(target, self.inside)
        env = {**os.environ, MOVED: os.pathsep.join((self.root, target)), SEED: self.seed}
        if env.get("PYTHONPATH"):
            env["PYTHONPATH"] = env["PYTHONPATH"].replace(self.root, target)
        bounded = landlock.version() > 0
        if not bounded:  # at least it finds nothing to write on
            env["HOME"] = scratch
        with _short_name(scratch) as env["TMPDIR"]:
            return run(
                words,
                devices,
                device="cpu" if cpu else "cuda",
                cwd=cwd,
                env=env,
                seconds=self.seconds,
                capture=True,
                limits=Limits(self.memory, (base,) if bounded else ()),
                keep_going=keep_going,
                forks=self.forks,
            )


@contextlib.contextmanager
def _short_name(folder: str) -> Iterator[str]:
    """A name of a folder that is short enough for the sockets of worker processes, whose paths have 107 bytes.

    A longer one makes the workers of a DataLoader wait for ever. Raises OSError if there is none.
    """
    if len(os.fsencode(folder)) <= _SHORT:
        yield folder
        return
    for place in _SHORT_PLACES:
        with contextlib.suppress(OSError):
            made = tempfile.mkdtemp(prefix="devfix-", dir=place)
            break
    else:
        raise OSError(
            f"the path {folder} is too long for the sockets of worker processes: set TMPDIR to a shorter one"
        )
    link = os.path.join(made, "tmp")
    try:
        os.symlink(folder, link)
        yield link
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _put(copied: str, path: str, data: bytes) -> None:
    """Write a file of a copy: where a link stands, it is replaced. Raises OSError if folders lead out of the copy."""
    to = os.path.join(copied, path)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    root = os.path.realpath(copied)
    if os.path.commonpath([root, os.path.realpath(os.path.dirname(to))]) != root:
        raise OSError(f"{path}: its folder is a link that leads out of the repository")
    if os.path.islink(to):
        os.unlink(to)
    with open(to, "wb") as file:
        file.write(data)


def _as_script(word: str, copied: str, inside: str) -> str:
    """The name of a notebook of a copy as that of a script beside it, which is written: its cells of code."""
    path = os.path.join(inside, word)
    if not word.endswith(NOTEBOOK) or os.path.isabs(word) or not os.path.isfile(os.path.join(copied, path)):
        return word
    _put(copied, f"{path}{_SCRIPT}", read_document(os.path.join(copied, path)).text.encode())
    return f"{word}{_SCRIPT}"


def of_notebook(path: str) -> str:
    """The notebook that a file is the script of; any other file is itself."""
    return path.removesuffix(_SCRIPT) if path.endswith(f"{NOTEBOOK}{_SCRIPT}") else path


@dataclass(frozen=True)
class _Trying:
    attempt: Attempt
    words: list[str]
    copies: Copies
    device_error: Callable[[Sequence[Raised]], Raised | None]

    def judge(self) -> Trial:
        before = self.ended({})
        if any(told.cannot for told in before.told):
            return self.on_the_cpu(before.unchecked)
        if before.unchecked:
            return _not_run(f"before the fix, {before.unchecked}")
        if not any(told.place for told in before.told):
            return _not_run(f"the program has not imported torch{_last(before)}")
        raised = self.device_error(tuple(before.errors())) if before.code else None
        if before.code and raised is None:
            return _not_run(f"before the fix, the program ends with no device error{_last(before)}")
        after = self.ended(self.attempt.changed)
        if after.unchecked:
            return _not_run(f"after the fix, {after.unchecked}")
        if after.code:
            left = self.left() if self.device_error(tuple(after.errors())) is not None else ""
            return Trial(f"failed: after the fix, the program still fails{_last(after)}{left}", False)
        loaded = self.loaded(after)
        strangers = [path for path in self.attempt.changed if path in _files(after)]
        if strangers:
            return _not_run(f"the program does not import {strangers[0]} from the copy that it runs in")
        place = after.main.place
        if raised is None:
            return Trial(f"did not reproduce: on {place}, the program runs before and after", True, loaded)
        return Trial(f"verified: {place}", True, loaded)

    def on_the_cpu(self, why: str) -> Trial:
        before, after = (
            self.ended({}, cpu=True),
            self.ended(self.attempt.changed, cpu=True),
        )
        if before.code or after.code != before.code:
            return _not_run(why)
        return Trial("verified: cpu only", True, self.loaded(after))

    def left(self) -> str:
        """All device errors that the fixed program still has, as a run tells that goes on after each."""
        seen = self.ended(self.attempt.changed, keep_going=True).seen
        lines = list(
            dict.fromkeys(f"{os.path.basename(one.at.path)}:{one.at.line}" for one in seen if one.at)
        )
        if not seen:
            return ""
        told = f", at {', '.join(lines[:5])}{' ...' * (len(lines) > 5)}" if lines else ""
        return f"; with --keep-going, it has {len(seen)} device error{'s' * (len(seen) > 1)}{told}"

    def ended(self, changed: Mapping[str, bytes], *, cpu: bool = False, keep_going: bool = False) -> Ended:
        return self.copies.run(self.words, changed, self.attempt.devices, cpu=cpu, keep_going=keep_going)

    def loaded(self, ended: Ended) -> frozenset[str]:
        """The files of the copy that were imported, by their paths in the repository."""
        copied = os.path.realpath(self.copies.at)
        return frozenset(
            os.path.join(self.copies.root, os.path.relpath(path, copied))
            for path in _files(ended)
            if path.startswith(copied + os.sep)
        )


def _files(ended: Ended) -> set[str]:
    return {path for told in ended.told for path in told.files}


def _last(ended: Ended) -> str:
    """What is known of a failure, in brackets."""
    for raised in ended.errors():
        at = f"{os.path.basename(raised.frames[-1].path)}:{raised.frames[-1].line}: " if raised.frames else ""
        return f" ({at}{raised.error})"
    lines = ended.output.strip().splitlines()
    return f" (exit code {ended.code}{': ' + lines[-1] if lines else ''})"
