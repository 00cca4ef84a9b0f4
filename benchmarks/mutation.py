"""How many planted device bugs devfix finds and repairs.

    python benchmarks/mutation.py [FOLDER...] [--planted N] [--seed N] [--programs N] [--limit N] [--run] [--all] [-v]

Takes programs that are right, plants one device bug at a time (`mutations/`), and asks devfix about
each mutant. Without a folder, the programs are those in `mutations/programs/`, the repaired `examples/`
and the `after` of every example of a codemod. Nothing is written into a folder.

- *found*: a finding that the right program has not, whose place or edits lie within the function
  that was changed (for `__init__` and buffers the class, for code of a module the file);
- *fix*: one of them has a fix;
- *equal*: `apply --unsafe` gives back what it makes of the right program, white space and comments aside;
- *repaired*: of programs that run by themselves, with `--run`: the mutant raises on CUDA (real or
  simulated), and the repaired one runs there and prints the numbers that the right program prints on
  the CPU. Of the others: the repair is the right program in other words (`mutations/alike.py`).

With `--run`, mutants of programs that run by themselves are in a table of their own, whose
percentages are of those that raise; the others are harmless (or only slow), and counted apart.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devfix.codemod import Codemod, registry
from devfix.documents import Document, DocumentError
from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import process
from devfix.reports.report import FileResult, Place, PlacedFinding
from devfix.smoke import Runner, same_numbers
from devfix.text.source import Source
from mutations import moves, others
from mutations.alike import alike
from mutations.edits import Mutant

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = Path(__file__).resolve().parent / "mutations" / "programs"
# One codemod only checks: what it adds to a program is not a repair.
CHECKS_ONLY = "assert-device"
MAKERS = (
    moves.moved_before_surgery,
    moves.dropped_in_loops,
    moves.dropped_results,
    moves.unmoved_modules,
    others.deviceless_factories,
    others.unregistered_buffers,
    others.plain_containers,
    others.autocast_on_objects,
    others.unmapped_loads,
    others.untold_functions,
    others.compared_with_strings,
)
RAISES_ANYWHERE = "pass a device object to autocast"  # torch refuses a torch.device, even that of the CPU
# In the order of the table.
KINDS = (
    "move .to before the surgery",
    "drop a loop's moves",
    "drop one of several moves",
    "drop the result of a tensor's .to",
    "drop a module's .to",
    "drop device= from a factory",
    "un-register a buffer",
    "ModuleList -> list",
    "ModuleDict -> dict",
    "pass a device object to autocast",
    "drop map_location",
    "drop device= from a call",
    "compare a device with a string",
)


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant. `raised` is None where it was not run."""

    mutant: Mutant
    found: bool
    fix: bool
    equal: bool
    repaired: bool
    raised: bool | None
    error: str = ""


@dataclass(frozen=True)
class Script:
    """How a program is run that is part of a folder: by its script, with the modules beside that."""

    main: str
    modules: tuple[tuple[str, str], ...]
    part: str  # what the program is: the name of a module, or "" for the script

    def source(self, text: str) -> str:
        """One text to run, with `text` in the place of the program."""
        modules = {name: text if name == self.part else other for name, other in self.modules}
        return _BUNDLE.format(modules=modules, main=self.main if self.part else text)


_BUNDLE = """\
import importlib.abc, importlib.util, sys
modules = {modules!r}
class Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name in modules else None
    def get_source(self, name):
        return modules[name]
sys.meta_path.insert(0, Finder())
exec(compile({main!r}, "main.py", "exec"), globals())
"""


@dataclass
class Programs:
    """Right programs by name, with what devfix says of each and makes of it."""

    codemods: tuple[Codemod, ...]
    texts: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    results: dict[str, FileResult] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)  # on the CPU, of those that run by themselves

    def add(self, name: str, text: str) -> None:
        if text not in self._seen:
            self._seen.add(text)
            self.texts[name] = text

    def source(self, name: str, text: str) -> str:
        """What to run for a text in the place of a program."""
        return self.scripts[name].source(text) if name in self.scripts else text

    def result(self, name: str) -> FileResult:
        if name not in self.results:
            self.results[name] = examine(name, self.texts[name], self.codemods)
        return self.results[name]


def examine(name: str, text: str, codemods: Sequence[Codemod]) -> FileResult:
    """What devfix says of a text, and makes of it with all fixes that it would apply."""
    return process(Document.of(name, text.encode("utf-8", "surrogatepass")), codemods, Safety.UNSAFE)


def repaired_text(result: FileResult, text: str) -> str:
    return result.after.decode("utf-8", "surrogatepass") if result.after else text


# --- programs ------------------------------------------------------------------------------


def own_programs(programs: Programs) -> None:
    """The repaired `examples/`, and what the codemods make of their own examples."""
    default = tuple(kind() for kind in registry().values() if kind.default)
    for folder in sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
        texts: dict[str, str] = {}
        for path in sorted(folder.glob("*.py")):
            text = Document.read(str(path)).text
            name = path.relative_to(EXAMPLES.parent).as_posix()
            texts[path.stem] = repaired_text(examine(name, text, default), text)
            programs.add(name, texts[path.stem])
        mains = [stem for stem, text in texts.items() if "__main__" in text]
        if len(mains) == 1 and len(texts) > 1:
            modules = tuple((stem, text) for stem, text in texts.items() if stem not in mains)
            for stem in texts:
                name = f"{EXAMPLES.name}/{folder.name}/{stem}.py"
                part = "" if stem in mains else stem
                programs.scripts[name] = Script(texts[mains[0]], modules, part)
    for kind in registry().values():
        if kind.id == CHECKS_ONLY:
            continue
        for example in kind.examples:
            if example.after is not None:
                programs.add(f"{kind.id}: {example.title}", example.after)


def right_programs(programs: Programs) -> None:
    """The programs that are kept for this benchmark: right, in various styles, and run by themselves."""
    for path in sorted(PROGRAMS.glob("*.py")):
        programs.add(path.relative_to(EXAMPLES.parent).as_posix(), Document.read(str(path)).text)


def planted_programs(number: int, programs: Programs) -> None:
    """The right ones among the programs that the tests make at random, seed by seed."""
    sys.path.append(str(EXAMPLES.parent / "tests"))
    from planting import plant

    seeds = (seed for seed in itertools.count() if not plant(seed).bug)
    for seed in itertools.islice(seeds, number):
        programs.add(f"planted program {seed}", plant(seed).text)


def read_programs(paths: Iterable[str], programs: Programs) -> None:
    """The files that could be broken: those that mention torch."""
    for path in paths:
        try:
            text = Document.read(path).text
        except DocumentError as error:
            print(f"{path}: {error.message}", file=sys.stderr)
        else:
            if "torch" in text:
                programs.add(path, text)


def run_right_ones(programs: Programs, runner: Runner) -> None:
    """Note the output of every program that runs alike, by itself, on the CPU and on CUDA."""
    for name, text in programs.texts.items():
        text = programs.source(name, text)
        cpu = runner.run(text, "cpu")
        if cpu.status == "ok" and cpu.output:
            cuda = runner.run(text, "cuda")
            if cuda.status == "ok" and same_numbers(cpu.output, cuda.output):
                programs.outputs[name] = cpu.output


# --- mutants -------------------------------------------------------------------------------


def mutants(programs: Programs, seed: int, limit: int) -> list[Mutant]:
    """All mutants or, with `limit`, so many of each kind, drawn by `seed`; each text once."""
    kinds: dict[str, dict[str, Mutant]] = defaultdict(dict)
    for name, text in programs.texts.items():
        try:
            source = Source(text)
            found = [one for make in MAKERS for one in make(name, source) if one is not None]
        except (SyntaxError, ValueError, RecursionError):
            continue
        for one in found:
            if one.text != text:
                kinds[one.kind].setdefault(one.text, one)
    rng = random.Random(seed)
    chosen: list[Mutant] = []
    for kind in KINDS:
        those = list(kinds[kind].values())
        if limit and len(those) > limit:
            those = [those[index] for index in sorted(rng.sample(range(len(those)), limit))]
        chosen += those
    return chosen


def judge(programs: Programs, runner: Runner | None, mutant: Mutant) -> Outcome | None:
    """Ask devfix about one mutant, and run it where it can be run.

    None for what is no device bug, since it breaks on the CPU already.
    """
    right = programs.result(mutant.program)
    result = examine(mutant.program, mutant.text, programs.codemods)
    known = {_told(finding) for finding in right.findings}
    lines = Source(mutant.text)
    first, _ = lines.position(mutant.region.start)
    last, _ = lines.position(max(mutant.region.start, mutant.region.end - 1))
    hits = [
        finding
        for finding in result.findings
        if _told(finding) not in known
        and any(place.line <= last and place.end_line >= first for place in _places(finding))
    ]
    after = repaired_text(result, mutant.text)
    wanted = (programs.texts[mutant.program], repaired_text(right, programs.texts[mutant.program]))
    equal = any(same_code(after, text) for text in wanted)
    like = equal or (bool(hits) and any(alike(mutant.kind, after, text) for text in wanted))
    output = programs.outputs.get(mutant.program)
    raised: bool | None = None
    repaired = like
    error = result.error.message if result.error else ""
    if runner is not None and output is not None:
        text = programs.source(mutant.program, mutant.text)
        if mutant.kind != RAISES_ANYWHERE and runner.run(text, "cpu").status != "ok":
            return None
        before = runner.run(text, "cuda")
        raised = before.status == "raised" if before.checked else None
        error = error or before.error
        if not equal:
            repaired = False
        if not equal and after != mutant.text:
            run = runner.run(programs.source(mutant.program, after), "cuda")
            repaired = run.status == "ok" and same_numbers(run.output, output)
            error = run.error or error
    return Outcome(mutant, bool(hits), any(hit.fix for hit in hits), equal, repaired, raised, error)


def _told(finding: PlacedFinding) -> tuple[str, str]:
    """A finding without its place, which the planted bug may have shifted."""
    return finding.codemod, "".join(sign for sign in finding.message if not sign.isdigit())


def _places(finding: PlacedFinding) -> Iterator[Place]:
    yield finding.place
    if finding.fix is not None:
        for edit in finding.fix.edits:
            yield edit.place


def same_code(left: str, right: str) -> bool:
    """The same text, white space aside, or the same code, comments aside."""
    if "".join(left.split()) == "".join(right.split()):
        return True
    return ast.dump(ast.parse(left)) == ast.dump(ast.parse(right))


# --- the table -----------------------------------------------------------------------------


def table(outcomes: Iterable[Outcome], *, run: bool) -> list[str]:
    """Counts per kind; the percentages are of the mutants that raise, or of all where none was run."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.mutant.kind].append(outcome)
        by_kind["all"].append(outcome)
    head = f"{'kind':36}{'mutants':>8}" + (f"{'raise':>7}{'harmless':>9}" if run else "")
    lines = [head + "".join(f"{name:>13}" for name in ("found", "fix", "repaired", "equal"))]
    for kind in (*KINDS, "all"):
        those = by_kind.get(kind)
        if not those:
            continue
        counted = [one for one in those if one.raised] if run else those
        line = f"{kind:36}{len(those):8}"
        if run:
            harmless = sum(1 for one in those if one.raised is False)
            line += f"{len(counted):7}{harmless:9}"
        for name in ("found", "fix", "repaired", "equal"):
            number = sum(getattr(one, name) for one in counted)
            line += f"{number:6} {_percent(number, len(counted)):>6}"
        lines.append(line)
    return lines


def _percent(part: int, whole: int) -> str:
    return f"({100 * part / whole:.0f}%)" if whole else "-"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant device bugs in right programs; are they found?")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="default: the examples of devfix")
    parser.add_argument("--own", action="store_true", help="the examples of devfix besides the folders")
    parser.add_argument("--only", default="", help="of the examples, those whose name starts like this")
    parser.add_argument("--planted", type=int, default=0, help="random programs of the tests besides")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=0, help="so many files, drawn by the seed; 0: all")
    parser.add_argument("--limit", type=int, default=0, help="mutants of each kind; 0: all")
    parser.add_argument("--run", action="store_true", help="run what runs by itself, on the CPU and on CUDA")
    parser.add_argument("--all", action="store_true", help="every codemod, not only those on by default")
    parser.add_argument("-v", action="store_true", help="print the mutants that are missed or not repaired")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Outcome]:
    """Print the tables; the outcomes behind them are returned."""
    arguments = _arguments(argv)
    kinds = [kind for kind in registry().values() if kind.id != CHECKS_ONLY]
    programs = Programs(tuple(kind() for kind in kinds if kind.default or arguments.all))
    if arguments.own or not arguments.folders:
        own_programs(programs)
        right_programs(programs)
    programs.texts = {name: text for name, text in programs.texts.items() if name.startswith(arguments.only)}
    planted_programs(arguments.planted, programs)
    paths = [
        path for folder in arguments.folders for path in discover([folder]).files if path.endswith(".py")
    ]
    if 0 < arguments.programs < len(paths):
        paths = sorted(random.Random(arguments.seed).sample(paths, arguments.programs))
    read_programs(paths, programs)
    with Runner() as runner:
        if arguments.run:
            run_right_ones(programs, runner)
        chosen = mutants(programs, arguments.seed, arguments.limit)
        judged = (judge(programs, runner if arguments.run else None, one) for one in chosen)
        outcomes = [one for one in judged if one is not None]
    print(f"{len(programs.texts)} programs, {len(outcomes)} mutants; seed {arguments.seed}; codemods: "
          + ", ".join(codemod.id for codemod in programs.codemods))  # fmt: skip
    ran = [outcome for outcome in outcomes if outcome.raised is not None]
    if arguments.run:
        print(f"\nRun: {len(programs.outputs)} programs that run by themselves")
        print("\n".join(table(ran, run=True)))
        print("\nNot run: the others, repaired where alike")
    print("\n".join(table((one for one in outcomes if one.raised is None), run=False)))
    if arguments.v:
        for one in outcomes:
            if one.raised is not False and not (one.found and one.repaired):
                what = "not repaired" if one.found else "missed"
                print(f"{what}: {one.mutant.kind}: {one.mutant.program}:{one.mutant.line} {one.error}")
        for one in outcomes:
            if one.raised is False and one.found:
                print(f"harmless but found: {one.mutant.kind}: {one.mutant.program}:{one.mutant.line}")
    return outcomes


if __name__ == "__main__":
    main()
