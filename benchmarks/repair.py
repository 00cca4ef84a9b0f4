"""Programs with device errors, repaired by `devfix repair` as a user would: how many run afterwards?

    python benchmarks/repair.py [NAME...] [--public CLONES] [--seed N] [--jobs N] [--keep DIR] [--json FILE]

The programs are the folders in `repair_programs/`, where a comment `# planted: KIND` marks each line that is wrong.
With `--public`, they are those in `repair_public/` instead: each drives a module of a public repository, which is
copied from a checkout in CLONES/OWNER/NAME, and three bugs of `mutation.py` are planted in it, drawn by the seed among
those with each of which the program raises on CUDA; where it does not with all three, they are drawn again. The first
lines of a program say how it is run.

- *errors*: what a run with `--keep-going` tells of the broken program;
- *named*: the planted lines that it names, as where an error was or where a stray was made, moved or stored;
- *rounds*: those in which fixes were made;
- *repaired*: `devfix repair` says so, and a strict run of the result on simulated CUDA prints the numbers that the
  broken program printed on the CPU;
- *unneeded*: edits of the patch without which that strict run is as good. They are tried one by one, as the least
  pieces of the difference of the two texts that leave a program.

With `--keep`, each program is left in DIR/NAME as it was (`before`) and as it is (`after`).
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import itertools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from devfix.repair.comparing import Reference
from devfix.reports.observed import At, Seen
from devfix.simulate.supervise import Ended
from devfix.simulate.trial import Copies, command
from devfix.text.source import Source
from mutation import MAKERS, RAISES_ANYWHERE
from mutations.edits import Mutant

HERE = Path(__file__).resolve().parent
SECONDS = 120.0
PUBLIC = 3  # bugs planted in a public program
DRAWS = 5
_RUN = re.compile(r"# devfix repair (?:--devices (\d+) )?-- (.+)")
_FROM = re.compile(r"# from (\S+): (.+)")
_EACH = re.compile(r"# each of: (.+)")
_PLANTED = re.compile(r"#\s*planted: (.+)")
Files = dict[str, str]  # the texts of a program, by their paths in its folder


@dataclass(frozen=True)
class Row:
    """What came of one program. `why` is what devfix said where it was not repaired."""

    name: str
    planted: int
    named: int
    errors: int
    rounds: int
    repaired: bool
    edits: int
    unneeded: tuple[str, ...]
    why: str


class Program:
    """A program in a folder of its own, and the ways it is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = _RUN.search(
            (folder / ("main.py" if (folder / "main.py").exists() else "train.py")).read_text()
        )
        assert found is not None, f"{folder.name}: its first line does not say how it is run"
        self.devices, self.words = int(found[1] or 1), found[2]

    def texts(self) -> Files:
        paths = sorted(self.folder.rglob("*.py"))
        return {path.relative_to(self.folder).as_posix(): path.read_text() for path in paths}

    def run(self, changed: Mapping[str, str], *, cpu: bool = False, keep_going: bool = False) -> Ended:
        """Run it with these texts changed, in a copy; for no devices, CUDA and the CPU change places."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as runs:
            copies = Copies(os.path.realpath(self.folder), ".", os.path.realpath(runs), SECONDS, seed="0")
            data = {os.path.join(copies.root, path): text.encode() for path, text in changed.items()}
            words = command(shlex.split(self.words))
            cpu = cpu if self.devices else not cpu
            return copies.run(words, data, max(self.devices, 1), cpu=cpu, keep_going=keep_going)

    def reference(self) -> Reference:
        """What it prints on the CPU, as it is now."""
        texts = self.texts()
        return Reference(self.run(texts, cpu=True).output, lambda: self.run(texts, cpu=True).output)

    def runs_as(self, wanted: Reference, changed: Mapping[str, str]) -> bool:
        """Does it run strictly and print the numbers of the reference?"""
        ended = self.run(changed)
        return not ended.code and not ended.unchecked and wanted.agrees(ended.output)

    def repair(self) -> subprocess.CompletedProcess[str]:
        devices = () if self.devices == 1 else ("--devices", str(self.devices))
        words = [sys.executable, "-m", "devfix", "repair", "--write", "--seconds", str(SECONDS), *devices]
        with tempfile.TemporaryDirectory() as state:
            env = {**os.environ, "XDG_STATE_HOME": state}
            return subprocess.run(
                [*words, "--", *shlex.split(self.words)],
                cwd=self.folder,
                env=env,
                capture_output=True,
                text=True,
            )


def judge(
    program: Program, wanted: Reference, planted: Sequence[tuple[str, int, int]], keep: Path | None
) -> Row:
    """Repair a broken program, and see what has come of it. `planted` are lines of files, from and to."""
    before = program.texts()
    if keep is not None:
        shutil.copytree(program.folder, keep / program.folder.name / "before", dirs_exist_ok=True)
    seen = program.run({}, keep_going=True).seen
    lines = {(os.path.basename(at.path), at.line) for one in seen for at in _places(one)}
    named = sum(
        any((os.path.basename(path), line) in lines for line in range(first, last + 1))
        for path, first, last in planted
    )
    done = program.repair()
    after = program.texts()
    if keep is not None:
        shutil.copytree(program.folder, keep / program.folder.name / "after", dirs_exist_ok=True)
    repaired = done.returncode == 0 and program.runs_as(wanted, {})
    pieces = list(edits(before, after)) if repaired else []
    unneeded = [told for told, without in pieces if program.runs_as(wanted, without)]
    said = done.stderr.strip().splitlines()
    why = "" if repaired else said[-1].removeprefix("devfix: ") if said else f"exit code {done.returncode}"
    rounds = sum("made" in line for line in said if re.match(r"devfix: round \d+:", line))
    return Row(
        program.folder.name,
        len(planted),
        named,
        len(seen),
        rounds,
        repaired,
        len(pieces),
        tuple(unneeded),
        why,
    )


def _places(seen: Seen) -> Iterator[At]:
    yield from (passed.at for passed in seen.passed)
    for one in seen.operands:
        yield from (at for at in (one.made, one.moved, one.stored) if at is not None)


# --- the edits of a patch --------------------------------------------------------------------


def edits(before: Files, after: Files) -> Iterator[tuple[str, Files]]:
    """Each piece of a patch that can be left out for itself: what it is, and the text without it."""
    for path, text in after.items():
        old, new = _tokens(before[path]), _tokens(text)
        changes = _changes(old, new)
        start = 0
        for end in range(1, len(changes) + 1):
            without = list(new)
            for _, i1, i2, j1, j2 in reversed(changes[start:end]):
                without[j1:j2] = old[i1:i2]
            left = "".join(without)
            if _code(left):
                pieces = ("".join(new[j1:j2]).strip() for *_, j1, j2 in changes[start:end])
                if _code(left) != _code(text):  # a comment that has been moved is no edit
                    yield f"{path}: {' ... '.join(pieces)}", {path: left}
                start = end


def _changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [one for one in found if one[0] != "equal"]


def _tokens(text: str) -> list[str]:
    """The text in pieces: tokens, each with the white space before it."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    ends = [starts[one.end[0] - 1] + one.end[1] for one in tokenize.generate_tokens(io.StringIO(text).readline)
            if one.end[0] <= len(lines)]  # fmt: skip
    cuts = sorted({0, *ends, len(text)})
    return [text[first:last] for first, last in itertools.pairwise(cuts)]


def _code(text: str) -> str:
    """The code of a text without its comments; empty if it is none."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return ""


# --- programs --------------------------------------------------------------------------------


def marked(files: Files) -> list[tuple[str, int, int]]:
    """The statements with a comment `# planted`."""
    found = []
    for path, text in files.items():
        statements = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.stmt)]
        for number, line in enumerate(text.splitlines(), 1):
            if _PLANTED.search(line):
                around = [one for one in statements if one.lineno <= number <= (one.end_lineno or 0)]
                least = min(around, key=lambda one: (one.end_lineno or 0) - one.lineno)
                found.append((path, least.lineno, least.end_lineno or 0))
    return found


def own(folder: Path, keep: Path | None) -> Row:
    program = Program(folder)
    return judge(program, program.reference(), marked(program.texts()), keep)


def drivers(path: Path) -> Iterator[tuple[str, str]]:
    """The programs of a driver, by name: one, or one for each word that stands for EACH in it."""
    text = path.read_text()
    words = _EACH.match(text)
    for word in words[1].split() if words else [""]:
        yield f"{path.stem}_{word.lower()}" if word else path.stem, text.replace("EACH", word)


def fetched(text: str, clones: Path, folder: Path) -> None:
    """Put together a driver, as `main.py`, and the files of the public repository that it names."""
    (folder / "main.py").write_text(text)
    for repository, paths in _FROM.findall(text):
        base = clones / repository
        for source in (found for pattern in paths.split() for found in sorted(base.glob(pattern))):
            target = folder / source.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, ignore=lambda _, names: [n for n in names if n.startswith(".")]
                )
            else:
                shutil.copy(source, target)


def public(folder: Path, seed: int, keep: Path | None) -> Row | None:
    """Break a right program in three places and repair it; None where it is not right, or has no three."""
    program = Program(folder)
    reference = program.run({}, cpu=True)
    if reference.code or not program.runs_as(program.reference(), {}):
        print(f"{folder.name}: does not run alike on the CPU and on simulated CUDA", file=sys.stderr)
        print(reference.output[-600:], file=sys.stderr)
        return None
    right = program.texts()
    for drawn in range(seed, seed + DRAWS):
        chosen = harmful(program, drawn)
        if len(chosen) < PUBLIC:
            break
        for path, text in broken(right, chosen).items():
            (folder / path).write_text(text)
        before = program.run({}, cpu=True)
        if not before.code and program.run({}).code:
            return judge(program, program.reference(), [planted[:3] for planted in chosen], keep)
        for path, text in right.items():
            (folder / path).write_text(text)
    print(f"{folder.name}: no {PUBLIC} bugs can be planted", file=sys.stderr)
    return None


Planted = tuple[str, int, int, str]  # file, first and last line of what is replaced, and by what


def harmful(program: Program, seed: int) -> list[Planted]:
    """Bugs in different lines, with each of which the program runs on the CPU and raises on CUDA."""
    texts = program.texts()
    loaded = {os.path.basename(path) for told in program.run({}).told for path in told.files}
    mutants: list[tuple[str, Mutant]] = []
    for path, text in texts.items():
        if os.path.basename(path) in loaded or path == "main.py":
            source = Source(text)
            found = (
                one for make in MAKERS for one in make(path, source) if one is not None and one.text != text
            )
            mutants += [(path, one) for one in found if one.kind != RAISES_ANYWHERE]
    random.Random(seed).shuffle(mutants)
    chosen: list[Planted] = []
    for path, one in mutants:
        made = _lines(path, texts[path], one.text)
        if made is None or any(
            path == other[0] and made[1] <= other[2] and other[1] <= made[2] for other in chosen
        ):
            continue
        if program.run({path: one.text}).code and not program.run({path: one.text}, cpu=True).code:
            chosen.append(made)
            print(f"{program.folder.name}: {path}:{made[1]}: {one.kind}", file=sys.stderr)
            if len(chosen) == PUBLIC:
                break
    return chosen


def _lines(path: str, right: str, wrong: str) -> Planted | None:
    """A change as one replacement of lines."""
    old, new = right.splitlines(keepends=True), wrong.splitlines(keepends=True)
    changes = _changes(old, new)
    (_, i1, _, j1, _), (_, _, i2, _, j2) = changes[0], changes[-1]
    return path, i1 + 1, max(i2, i1 + 1), "".join(new[j1:j2])


def broken(texts: Files, chosen: Sequence[Planted]) -> Files:
    made = dict(texts)
    for path, first, last, text in sorted(chosen, reverse=True):
        lines = made[path].splitlines(keepends=True)
        made[path] = "".join([*lines[: first - 1], text, *lines[last:]])
    return made


# --- the table -------------------------------------------------------------------------------


def shown(rows: Sequence[Row]) -> Iterator[str]:
    yield "| program | planted | named | errors | rounds | repaired | edits | unneeded |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in rows:
        repaired = "yes" if one.repaired else f"no: {one.why}"
        unneeded = "; ".join(f"`{told}`" for told in one.unneeded)
        yield (
            f"| {one.name} | {one.planted} | {one.named} | {one.errors} | {one.rounds} | {repaired} | {one.edits} "
            f"| {unneeded} |"
        )
    good = [one for one in rows if one.repaired]
    yield (
        f"\n{len(good)} of {len(rows)} programs repaired; planted {sum(one.planted for one in rows)}, "
        f"of which {sum(one.named for one in rows)} are named in the first run; "
        f"{sum(bool(one.unneeded) for one in good)} of {len(good)} patches with an unneeded edit "
        f"({sum(len(one.unneeded) for one in good)} of {sum(one.edits for one in good)} edits)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs")
    parser.add_argument(
        "--public", type=Path, metavar="CLONES", help="the programs in repair_public/ instead"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.public:
        found = [one for path in sorted((HERE / "repair_public").glob("*.py")) for one in drivers(path)]
    else:
        found = [(path.name, "") for path in sorted((HERE / "repair_programs").iterdir()) if path.is_dir()]
    chosen = [(name, text) for name, text in found if not options.names or name in options.names]

    def one(program: tuple[str, str]) -> Row | None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            name, text = program
            folder = Path(temporary) / name
            if not options.public:
                shutil.copytree(HERE / "repair_programs" / name, folder)
                row = own(folder, options.keep)
            else:
                folder.mkdir()
                fetched(text, options.public, folder)
                row = public(folder, options.seed, options.keep)
            if row is not None:
                print(list(shown([row]))[2], flush=True)
            return row

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [made for made in pool.map(one, chosen) if made is not None]
    print("\n".join(["", *shown(rows)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
