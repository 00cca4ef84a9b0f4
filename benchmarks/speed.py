"""How much CPU devfix needs, beside its peers on the same files, in one run.

    python benchmarks/speed.py FOLDER --torchfix 'PATH/torchfix' [--libcst-python PATH/python]

Timed are processes as a user starts them, interpreter start included: user + system CPU time of
the process and of all its children, as the kernel counts it. The rounds are interleaved, so that
a slow spell of the machine hits everybody. What is compared:

- `devfix check` with the codemods that are on by default, or those of `--codemod`, in one process and
  in one per core;
- TorchFix, a linter of PyTorch code on LibCST, with its default rules (other bugs than devfix's);
- `libcst.tool codemod` with a command that does nothing: what parsing with LibCST costs at least;
- `ast.parse` of all files, and of those only that pass devfix's pre-filter (what devfix parses);
- `python -c pass` and `devfix --help`: the start.

With `--sample N`, TorchFix and LibCST, and devfix beside them, see N files of the folder, drawn by
`--seed`; `ast.parse` and devfix are compared on all of it as well.

Only files named .py are measured, by everybody: devfix reads notebooks, too, but `ast.parse` and the
others do not.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from devfix.codemod import Codemod, registry, wanting
from devfix.discover import discover
from devfix.documents import Document, DocumentError

TORCHFIX_AIM = 50.0  # times less CPU than TorchFix
PROJECT_AIM = 2.0  # times devfix without facts across files
PARSE_AIM = 3.0  # times ast.parse of the files that pass the pre-filter
HELP_AIM = 0.15  # seconds from the start to the end of `devfix --help`

_PARSE = """\
import ast, gc, sys, warnings
if sys.argv[2] == "nogc":
    gc.disable()
warnings.simplefilter("ignore")
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    try:
        ast.parse(open(path, "rb").read())
    except (SyntaxError, ValueError):
        pass
"""
_NOTHING = """\
from libcst.codemod import CodemodCommand

class Nothing(CodemodCommand):
    DESCRIPTION = "Does nothing."

    def transform_module_impl(self, tree):
        return tree
"""
# Byte code is kept, as it is for a user: it may be new in the first round, but not in the minimum.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Contender:
    """One command line, and what its runs took.

    A run has worked if it ends with one of `codes` and says what `says` (a regular expression).
    """

    name: str
    command: Sequence[str]
    codes: frozenset[int] = frozenset({0})
    says: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def run(self, cwd: Path) -> None:
        """Run once and note the times; ends the benchmark if the command fails."""
        with tempfile.TemporaryFile() as output:
            start = time.perf_counter()
            process = subprocess.Popen(
                self.command,
                cwd=cwd,
                env={**_ENVIRONMENT, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            self.wall.append(time.perf_counter() - start)
            code = process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu.append(used.ru_utime + used.ru_stime)
            output.seek(0)
            said = output.read().decode(errors="replace")
            if code not in self.codes or not re.search(self.says, said):
                sys.exit(f"{self.name}: exit code {code}\n{shlex.join(self.command)}\n{said[-2000:]}")


@dataclass(frozen=True)
class Files:
    """A set of Python files, with how many of them and of their bytes pass devfix's pre-filter."""

    paths: tuple[str, ...]
    wanted: tuple[str, ...]
    size: int
    wanted_size: int

    @classmethod
    def of(cls, paths: Sequence[str], codemods: Sequence[Codemod]) -> Files:
        wanted = []
        for path in paths:
            try:
                text = Document.read(path).text
            except DocumentError:
                continue
            if wanting(codemods, text):
                wanted.append(path)
        return cls(tuple(paths), tuple(wanted), _size(paths), _size(wanted))

    def __str__(self) -> str:
        return (
            f"{len(self.paths)} .py files, {self.size / 1e6:.2f} MB; "
            f"{len(self.wanted)} of them, {self.wanted_size / 1e6:.2f} MB, pass the pre-filter"
        )


def _size(paths: Sequence[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)


class Bench:
    """The contenders on the whole folder and on the sample, and the scratch folder of the run."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self.scratch = scratch
        self.python = sys.executable
        self.torchfix: list[str] = shlex.split(arguments.torchfix or shutil.which("torchfix") or "")
        self.libcst: str = arguments.libcst_python if _has_libcst(arguments.libcst_python) else ""
        (scratch / "parse.py").write_text(_PARSE, encoding="utf-8")
        (scratch / "nothing.py").write_text(_NOTHING, encoding="utf-8")
        self.codemods = _codemods(arguments.codemod)
        self.named = bool(arguments.codemod)
        found = discover([os.path.abspath(arguments.folder)]).files
        python = [os.path.abspath(path) for path in found if path.endswith(".py")]
        self.left_out = len(found) - len(python)
        self.all = Files.of(python, self.codemods)
        self.sample = self.all
        if 0 < arguments.sample < len(python):
            chosen = random.Random(arguments.seed).sample(self.all.paths, arguments.sample)
            self.sample = Files.of(sorted(chosen), self.codemods)

    @property
    def sampled(self) -> bool:
        return self.sample is not self.all

    def copy(self, name: str, files: Files) -> Path:
        """The files alone in a folder, so that every contender walks over the same ones."""
        root = self.scratch / name
        common = os.path.commonpath([os.path.dirname(path) for path in files.paths])
        for path in files.paths:
            target = root / os.path.relpath(path, common)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return root

    def start(self) -> list[Contender]:
        return [
            Contender("python -c pass", [self.python, "-c", "pass"]),
            Contender("devfix --help", [self.python, "-m", "devfix", "--help"]),
        ]

    def own(self, name: str, files: Files) -> list[Contender]:
        """devfix and `ast.parse`."""
        folder = str(self.copy(name, files))
        chosen = [f"--codemod={codemod.id}" for codemod in self.codemods] if self.named else []
        check = [self.python, "-m", "devfix", "check", *chosen, folder]
        codes = frozenset({0, 1, 2})  # 2: a file with a syntax error, which is fine here
        says = rf"findings? in .*\b{len(files.paths)} files?"
        return [
            Contender(
                "devfix check --jobs 1 --no-project", [*check, "--jobs", "1", "--no-project"], codes, says
            ),
            Contender("devfix check --jobs 1", [*check, "--jobs", "1"], codes, says),
            Contender("devfix check", check, codes, says),
            self.parse(f"{name}-all", "ast.parse, all files", files.paths, "gc"),
            self.parse(f"{name}-wanted", "ast.parse, pre-filtered", files.wanted, "gc"),
            self.parse(f"{name}-wanted", "ast.parse, pre-filtered, no gc", files.wanted, "nogc"),
        ]

    def parse(self, name: str, title: str, paths: Sequence[str], gc: str) -> Contender:
        listed = self.scratch / f"{name}.txt"
        listed.write_text("\n".join(paths), encoding="utf-8")
        return Contender(title, [self.python, str(self.scratch / "parse.py"), str(listed), gc])

    def peers(self, name: str) -> list[Contender]:
        """TorchFix and LibCST, as far as they are installed."""
        folder = str(self.scratch / name)
        found = []
        if self.torchfix:
            found.append(
                Contender(
                    "TorchFix",
                    [*self.torchfix, folder],
                    frozenset({0, 1}),
                    r"Finished checking [1-9]\d* files",
                )
            )
        if self.libcst:
            command = [self.libcst, "-m", "libcst.tool", "codemod", "--no-format", "--hide-progress"]
            found.append(
                Contender(
                    "libcst.tool codemod, does nothing",
                    [*command, "-x", "nothing.Nothing", folder],
                    frozenset({0, 1}),  # 1: a file with a syntax error
                    r"Transformed [1-9]\d* files successfully",
                    {"PYTHONPATH": str(self.scratch)},
                )
            )
        return found


def _codemods(ids: Sequence[str]) -> list[Codemod]:
    """The codemods of those ids; without any, those that are on by default."""
    known = registry()
    for id in ids:
        if id not in known:
            sys.exit(f"unknown codemod {id}; known are {', '.join(known)}")
    return [kind() for id, kind in known.items() if (id in ids if ids else kind.default)]


def _has_libcst(python: str) -> bool:
    return subprocess.run([python, "-c", "import libcst"], capture_output=True, check=False).returncode == 0


def _measure(contenders: Sequence[Contender], rounds: int, cwd: Path) -> None:
    """Run everything `rounds` times, each round beginning with another contender."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{rounds} {contender.name:40}\r", end="", file=sys.stderr, flush=True)
            contender.run(cwd)


def _table(title: str, contenders: Sequence[Contender], base: Contender, missing: Sequence[str]) -> None:
    print(f"\n{title}")
    print(f"  {'':36} {'CPU min':>9} {'median':>9} {'wall min':>9}   CPU / {base.name}")
    for contender in contenders:
        ratio = min(contender.cpu) / min(base.cpu)
        print(
            f"  {contender.name:36} {min(contender.cpu):8.3f}s {median(contender.cpu):8.3f}s "
            f"{min(contender.wall):8.3f}s {ratio:9.2f}"
        )
    for name in missing:
        print(f"  {name:36} not installed")


def _aim(what: str, value: float, bound: float, *, at_least: bool, unit: str = "x") -> None:
    met = value >= bound if at_least else value <= bound
    word = "at least" if at_least else "at most"
    print(f"  {what}: {value:.2f}{unit} (aim: {word} {bound:g}{unit}) {'met' if met else 'MISSED'}")


def _named(contenders: Sequence[Contender], name: str) -> Contender | None:
    return next((contender for contender in contenders if contender.name == name), None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time devfix against its peers on one folder.")
    parser.add_argument("folder")
    parser.add_argument("--torchfix", default="", help="command line; default: torchfix on PATH")
    parser.add_argument("--libcst-python", default=sys.executable, help="a Python that has LibCST")
    parser.add_argument(
        "--codemod", action="append", default=[], metavar="ID", help="only these; default: those that are on"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sample", type=int, default=0, help="files for TorchFix and LibCST; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="devfix-speed-") as scratch:
        bench = Bench(arguments, Path(scratch))
        if not bench.all.paths:
            sys.exit(f"{arguments.folder}: no Python files")
        start = bench.start()
        own = bench.own("all", bench.all)
        beside = bench.own("sample", bench.sample) if bench.sampled else own
        peers = bench.peers("sample" if bench.sampled else "all")
        everything = [*start, *own, *(beside if bench.sampled else ()), *peers]
        _measure(everything, arguments.rounds, Path(scratch))

    tools = {"TorchFix": bench.torchfix, "libcst.tool codemod": bench.libcst}
    missing = [name for name, command in tools.items() if not command]
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"{arguments.folder}; {arguments.rounds} rounds")
    chosen = "" if bench.named else " (those that are on by default)"
    print(f"devfix with {', '.join(codemod.id for codemod in bench.codemods)}{chosen}")
    if bench.left_out:
        print(f"{bench.left_out} files that are not named .py (notebooks, stubs) are left out")
    _table("Start", start, start[0], [])
    if bench.sampled:
        _table(f"All: {bench.all}", own, own[0], [])
        _table(f"Sample: {bench.sample}", [*beside, *peers], beside[0], missing)
    else:
        _table(f"All: {bench.all}", [*own, *peers], own[0], missing)

    print("\nAims (minima; one devfix process, --no-project: what one file costs)")
    torchfix = _named(peers, "TorchFix")
    if torchfix is None:
        print("  TorchFix / devfix: not measured")
    else:
        ratio = min(torchfix.cpu) / min(beside[0].cpu)
        _aim("TorchFix / devfix, CPU", ratio, TORCHFIX_AIM, at_least=True)
    if bench.all.wanted:
        base = min(start[0].cpu)
        parse = _named(own, "ast.parse, pre-filtered")
        assert parse is not None
        net = (min(own[0].cpu) - base) / max(min(parse.cpu) - base, 1e-3)
        _aim("devfix / ast.parse of what passes, CPU, start included",
             min(own[0].cpu) / min(parse.cpu), PARSE_AIM, at_least=False)  # fmt: skip
        print(f"    less the start of Python: {net:.2f}x")
        _aim("with facts across files / without, CPU",
             min(own[1].cpu) / min(own[0].cpu), PROJECT_AIM, at_least=False)  # fmt: skip
    _aim("devfix --help", min(start[1].wall), HELP_AIM, at_least=False, unit="s")


if __name__ == "__main__":
    main()
