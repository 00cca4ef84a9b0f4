"""How much devfix needs, beside its peers on the same files, in one run.

    python benchmarks/speed.py FOLDER [FOLDER ...] [--monorepo 100000] [--sample 300]
        [--torchfix COMMAND] [--libcst-python PYTHON] [--fixit COMMAND] [--semgrep COMMAND]
        [--ast-grep COMMAND] [--ruff COMMAND]

Timed are processes as a user starts them, interpreter start included: user + system CPU time of the
process and of its children, as the kernel counts it, wall time, and the memory of the largest process.
The rounds are interleaved, so that a slow spell of the machine hits everybody; ratios of minima within
one run hardly depend on the machine, seconds do.

Measured are, on copies of the Python files of each folder:

- the limits: `python -c pass`, reading all files, `ast.parse` of all files;
- `devfix check` with everything that is on by default: one process and one per core without kept results,
  the first run that keeps results, a run that finds all of them, and one after a file has changed;
  without facts across files; with one codemod only;
- Ruff with one rule, ast-grep with one pattern; on a sample of the files (`--sample`), and devfix beside
  them: TorchFix, `libcst.tool codemod` with a command that does nothing, Fixit with one rule, Semgrep
  with one pattern. What is not installed is named as missing. None of them looks for what devfix does.
- with `--monorepo N`: a generated repository of N files (`speeds/monorepo.py`) and one of a tenth of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from devfix.pipeline.discover import discover
from speeds.measuring import Contender, aim, measure, table
from speeds.monorepo import write
from speeds.peers import Peers, add_options

_READ = """\
import os, sys
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    handle = os.open(path, os.O_RDONLY)
    while os.read(handle, 1 << 20):
        pass
    os.close(handle)
"""
_PARSE = """\
import ast, gc, sys, warnings
gc.disable()
warnings.simplefilter("ignore")
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    try:
        ast.parse(open(path, "rb").read())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
"""
_FORGET = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"
_TOUCH = """\
import sys
with open(sys.argv[1], "a") as file:
    file.write("# changed\\n")
"""
_CODES = frozenset({0, 1, 2})  # 2: a file with a syntax error, which is fine here
_ONE = "reorder-to"


class Tree:
    """The Python files of a folder, in a folder of their own, and who runs over them."""

    def __init__(self, name: str, paths: Sequence[str], scratch: Path) -> None:
        self.name = name
        self.folder = scratch / name
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
        self.files = []
        for path in paths:
            target = self.folder / os.path.relpath(path, common)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            self.files.append(str(target))
        self.size = sum(os.path.getsize(path) for path in self.files)
        (self.folder / "pyproject.toml").touch()  # one project, whatever is around
        self.list = scratch / f"{name}.txt"
        self.list.write_text("\n".join(self.files), encoding="utf-8")
        self.kept = scratch / f"{name}-kept"
        self.kept.mkdir(exist_ok=True)

    def __str__(self) -> str:
        return f"{self.name}: {len(self.files)} .py files, {self.size / 1e6:.1f} MB"

    def devfix(self, name: str, *arguments: str, kept: str = "", before: Sequence[str] = ()) -> Contender:
        environment = {"XDG_CACHE_HOME": str(self.kept / kept)} if kept else {}
        check = [sys.executable, "-m", "devfix", "check", "--format", "concise", *arguments, str(self.folder)]
        says = rf"findings? in .*\b{len(self.files)} files?"
        if not kept:
            check.append("--no-cache")
        return Contender(f"devfix, {name}", check, _CODES, says, environment, before)

    def limits(self) -> list[Contender]:
        return [
            Contender("reading alone", [sys.executable, "-c", _READ, str(self.list)]),
            Contender("ast.parse alone", [sys.executable, "-c", _PARSE, str(self.list)]),
        ]

    def own(self) -> list[Contender]:
        forget = [sys.executable, "-c", _FORGET, str(self.kept / "first")]
        return [
            self.devfix("one process", "--jobs", "1"),
            self.devfix("a process per core"),
            self.devfix("first run that keeps results", kept="first", before=forget),
            self.devfix("all results kept", kept="all"),
            self.devfix("no facts across files, one process", "--jobs", "1", "--no-project"),
            self.devfix(f"{_ONE} only, --no-project", "--jobs", "1", "--no-project", "--codemod", _ONE),
        ]

    def changed(self) -> Contender:
        touch = [sys.executable, "-c", _TOUCH, self.files[len(self.files) // 2]]
        return self.devfix("all results kept but of one changed file", kept="changed", before=touch)


def python_files(folder: str) -> list[str]:
    return [os.path.abspath(path) for path in discover([folder]).files if path.endswith(".py")]


def least(one: Contender) -> float:
    return min(one.cpu, default=float("nan"))


def by_name(contenders: Sequence[Contender], start: str) -> Contender | None:
    return next((one for one in contenders if one.name.startswith(start) and one.cpu), None)


def bench_start(folder: Path, rounds: int) -> None:
    program = folder / "one_file.py"
    program.write_text("import torch\n\nmodel = torch.nn.Linear(2, 2)\nmodel.to('cuda')\n", encoding="utf-8")
    own = [sys.executable, "-m", "devfix"]
    contenders = [
        Contender("python -c pass", [sys.executable, "-c", "pass"]),
        Contender("devfix --help", [*own, "--help"]),
        Contender(
            "devfix check one_file.py, nothing kept", [*own, "check", "--no-cache", str(program)], _CODES
        ),
        Contender("devfix check one_file.py, its result kept", [*own, "check", str(program)], _CODES),
    ]
    measure(contenders, rounds * 2, folder)
    table("Start", contenders, contenders[:1])
    aim("devfix --help, CPU", least(contenders[1]), 0.1, at_least=False, unit="s")
    aim("devfix check one_file.py, nothing kept, CPU", least(contenders[2]), 0.25, at_least=False, unit="s")


def bench_tree(tree: Tree, peers: Peers, rounds: int, scratch: Path, only: str) -> None:
    limits, own, fast = tree.limits(), tree.own(), peers.fast(str(tree.folder))
    contenders = [one for one in (*limits, *own, *fast) if re.search(only, one.name)]
    for one in contenders:
        if "kept" in one.name or "warm" in one.name:
            one.run(scratch)  # so that there are results
            one.forget()
    measure(contenders, rounds, scratch)
    changed = tree.changed()
    if re.search(only, changed.name):
        for number in range(rounds + 1):
            changed.run(scratch)
            if not number:
                changed.forget()
        contenders.append(changed)
    parse, ruff = limits[1], by_name(fast, "Ruff, one rule, no cache")
    table(str(tree), contenders, [parse, *([ruff] if ruff else [])])
    single, both, kept = own[0], own[1], own[3]
    if single.cpu and parse.cpu:
        ratio = least(single) / least(parse)
        aim("default run, one process / ast.parse, CPU", ratio, 4, at_least=False)
    if single.cpu and both.cpu:
        aim("one process / one per core, wall", min(single.wall) / min(both.wall), 1.8, at_least=True)
    if ruff is not None and both.cpu:
        aim("default run / Ruff without its cache, wall", min(both.wall) / min(ruff.wall), 3, at_least=False)
    if ruff is not None and kept.cpu:
        ratio = min(kept.wall) / min(ruff.wall)
        aim("all results kept / Ruff without its cache, wall", ratio, 1, at_least=False)
    if re.search(only, "first output"):
        first = tree.devfix("first").first_output(scratch)
        print(f"  first finding printed after {first:.2f}s of a run without kept results (aim: 1 s)")


def bench_sample(tree: Tree, peers: Peers, rounds: int, scratch: Path) -> None:
    contenders = [tree.devfix("one process", "--jobs", "1"), *peers.slow(str(tree.folder))]
    measure(contenders, rounds, scratch)
    table(f"Sample of {tree}", contenders, contenders[:1])


def bench_growth(files: int, rounds: int, scratch: Path, peers: Peers) -> None:
    trees = []
    for count in (files // 10, files):
        write(scratch / f"generated-{count}", count)
        trees.append(Tree(f"monorepo-{count}", python_files(str(scratch / f"generated-{count}")), scratch))
        shutil.rmtree(scratch / f"generated-{count}")
    start = Contender("start", [sys.executable, "-m", "devfix", "check", str(trees[0].files[0])], _CODES)
    found: list[tuple[float, float]] = []
    for tree in trees:
        contenders = [
            *tree.limits(),
            tree.devfix("first run that keeps results", kept="all"),
            tree.devfix("all results kept", kept="all"),
            *peers.fast(str(tree.folder))[:1],
        ]
        for _ in range(rounds):
            shutil.rmtree(tree.kept / "all", ignore_errors=True)
            measure(contenders, 1, scratch)
        table(str(tree), contenders, contenders[1:2])
        start.run(scratch)
        net = [(least(one) - least(start)) / len(tree.files) for one in contenders[2:4]]
        found.append((net[0], net[1]))
    for name, (small, large) in zip(("first run", "all results kept"), zip(*found, strict=True), strict=True):
        print(
            f"  CPU per file less the start, {name}: {small * 1e3:.2f} ms, of ten times as many {large * 1e3:.2f} ms"
        )
        aim("  growth of the cost of a file", large / small, 1.2, at_least=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time devfix against its peers.")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=300, help="files for those that are slow; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--monorepo", type=int, default=0, metavar="N", help="also N generated files")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the contenders that see all files")
    add_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="devfix-speed-") as name:
        scratch = Path(name)
        peers = Peers(arguments, scratch, sys.executable)
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        print(f"Python {platform.python_version()}, {machine}; {arguments.rounds} rounds")
        print("\n".join(peers.versions()))
        for missing in peers.missing:
            print(f"{missing}: not installed, so not measured")
        bench_start(scratch, arguments.rounds)
        for folder in arguments.folders:
            paths = python_files(folder)
            if not paths:
                sys.exit(f"{folder}: no Python files")
            title = os.path.basename(os.path.abspath(folder))
            bench_tree(Tree(title, paths, scratch), peers, arguments.rounds, scratch, arguments.only)
            if arguments.sample:
                chosen = random.Random(arguments.seed).sample(paths, min(arguments.sample, len(paths)))
                sample = Tree(f"{title}-sample", sorted(chosen), scratch)
                bench_sample(sample, peers, max(1, arguments.rounds // 2), scratch)
        if arguments.monorepo:
            bench_growth(arguments.monorepo, max(1, arguments.rounds // 2), scratch, peers)


if __name__ == "__main__":
    main()
