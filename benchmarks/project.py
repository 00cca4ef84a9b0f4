"""What facts across files cost and bring: `python benchmarks/project.py FOLDER...`.

Analyses the Python files below each folder with all codemods: alone, and with the files that they import. Both
in one process and file by file, so that both see the same load of the machine. Prints the findings that
differ, CPU seconds and their ratio; with `--single N`, also whether N files spread over the folder get the
same findings when each is the only one (a fresh project for each).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from devfix.codemod import Codemod, registry
from devfix.documents import Document, DocumentError
from devfix.flow import analyse
from devfix.flow.outside import Outside
from devfix.project import Projects
from devfix.text.source import Source

ROUND = 256  # files between two collections of garbage


def findings(source: Source, codemods: Sequence[Codemod], outside: Outside | None) -> set[str]:
    """Line, codemod and message of each finding, with the safety of its fix."""
    flow = analyse(source, outside)
    found = set()
    for codemod in codemods:
        for finding in codemod.check(flow):
            fix = f"{finding.fix.safety.label}: {finding.fix.title}" if finding.fix else "no fix"
            line = source.position(finding.span.start)[0]
            found.add(f"{line}: {finding.codemod}: {finding.message} ({fix})")
    flow.release()
    return found


def texts(folder: Path, codemods: Sequence[Codemod]) -> Iterator[tuple[Path, str, list[Codemod]]]:
    """The files that at least one codemod wants to see."""
    for path in sorted(folder.rglob("*.py")):
        try:
            text = Document.read(str(path)).text
            Source(text)
        except (DocumentError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        wanted = [codemod for codemod in codemods if codemod.wants(text)]
        if wanted:
            yield path, text, wanted


def measure(folder: Path, codemods: Sequence[Codemod], root: str, single: int) -> None:
    projects = Projects(root)
    seconds = [0.0, 0.0]
    together: dict[Path, set[str]] = {}
    files = list(texts(folder, codemods))
    for number, (path, text, wanted) in enumerate(files):
        made: list[set[str]] = []
        for seeing in (False, True):
            start = time.process_time()
            source = Source(text)
            made.append(findings(source, wanted, projects.outside(str(path), source) if seeing else None))
            seconds[seeing] += time.process_time() - start
        together[path] = made[1]
        for sign, lines in (("-", made[0] - made[1]), ("+", made[1] - made[0])):
            for line in sorted(lines):
                print(f"{sign} {path}:{line}", flush=True)
        if number % ROUND == 0:
            gc.collect()
    if not files:
        print(f"{folder}: no file that a codemod wants to see")
        return
    print(
        f"{folder}: {len(files)} files, {seconds[0]:.1f} s alone, {seconds[1]:.1f} s with what they import: "
        f"{seconds[1] / seconds[0]:.2f} times",
        flush=True,
    )
    if single:
        other = 0
        chosen = files[:: max(1, len(files) // single)][:single]
        for path, text, wanted in chosen:
            source = Source(text)
            alone = findings(source, wanted, Projects(root).outside(str(path), source))
            other += alone != together[path]
            for line in sorted(alone ^ together[path]):
                print(f"! {path}:{line}")
        print(f"{folder}: {other} of {len(chosen)} files with other findings when each is the only one")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--codemods", default="", help="ids, with commas; default: all")
    parser.add_argument("--project-root", default="")
    parser.add_argument("--single", type=int, default=0, metavar="N")
    given = parser.parse_args()
    known = registry()
    codemods = [known[id]() for id in (given.codemods.split(",") if given.codemods else known)]
    warnings.simplefilter("ignore")
    gc.disable()
    gc.freeze()
    for folder in given.folders:
        measure(folder, codemods, given.project_root, given.single)
    return 0


if __name__ == "__main__":
    sys.exit(main())
