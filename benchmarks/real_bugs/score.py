"""Scores a tool on real device bugs.

    python benchmarks/real_bugs/score.py --files FOLDER [--tool devfix|torchfix|sarif|patches] [--command CMD]
        [--patches FOLDER] [--only A,B] [--at-once] [--json FILE] [-v]

FOLDER is what `layout.py` has laid out. The README beside this file says what is measured, and how to add a tool.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from adapters import TOOLS, Adapter, AtOnce, Broken, Finding, adapter
from layout import Case, Clean, cases, clean

NEAR = 3  # lines between a finding, or a change, and the human's
AFTER = 1  # the same in the file that the human left


@dataclass(frozen=True)
class Result:
    """What a tool made of one case; `silent` is None where the fixed file is not expected to be."""

    id: str
    cls: str
    single_file: bool
    found: bool = False
    fixed: bool = False
    silent: bool | None = None
    by: tuple[str, ...] = ()
    noise: int = 0
    broken: str = ""


def near(first: int, last: int, spans: Iterable[tuple[int, int]], slack: int) -> bool:
    return any(first <= start + max(count, 1) - 1 + slack and last >= start - slack for start, count in spans)


def changed(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """The changed lines of `before` as pairs of first and last, from 1."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        (start + 1, max(end, start + 1)) for tag, start, end, _, _ in matcher.get_opcodes() if tag != "equal"
    ]


def score(case: Case, files: Path, tool: Adapter) -> Result | None:
    """None where the case is not laid out."""
    before, after = files / case.id / "before", files / case.id / "after"
    if not (before / case.path).exists():
        return None
    spans = [*case.hunks_before, (case.buggy_line_in_parent, 1)]
    blank = Result(case.id, case.cls, case.single_file_fixable)
    try:
        found = tool.findings(before, case.id)
        hits = [one for one in found if _same(one, case) and near(one.line, one.end, spans, NEAR)]
        fixed = bool(hits) and _repaired(case, before, spans, tool)
        silent = None
        if case.after_expected_silent and (after / case.path).exists():
            again = tool.findings(after, "")
            silent = not any(
                _same(one, case) and near(one.line, one.end, case.hunks_after, AFTER) for one in again
            )
    except Broken as error:
        return Result(case.id, case.cls, case.single_file_fixable, broken=str(error) or "no answer")
    return Result(
        blank.id, blank.cls, blank.single_file, bool(hits), fixed, silent,
        tuple(sorted({one.rule for one in hits})), len(found) - len(hits),
    )  # fmt: skip


def _same(finding: Finding, case: Case) -> bool:
    """Is it in the case's own file? For a recipe, its scripts count as well."""
    return case.cls == "F" or finding.path == case.path


def _repaired(case: Case, before: Path, spans: Iterable[tuple[int, int]], tool: Adapter) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(before, copy)
        tool.repair(copy, case.id)
        old, new = (_lines(root / case.path) for root in (before, copy))
    return any(near(first, last, spans, NEAR) for first, last in changed(old, new))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def loud(file: Clean, files: Path, tool: Adapter) -> list[Finding] | None:
    """The findings in a file that is right; None where it is not laid out, or the tool has no answer."""
    folder = files / "clean" / file.id
    if not folder.exists():
        return None
    try:
        return tool.findings(folder, file.id)
    except Broken:
        return None


def in_words(one: Result) -> str:
    """One case in a line, as `-v` prints it."""
    end = "" if one.silent in (True, None) else "  LOUD AFTER"
    word = f"BROKEN {one.broken}" if one.broken else "found" if one.found else "MISSED"
    return f"{one.id}  {word}{', fixed' if one.fixed else ''}  {' '.join(one.by)}{end}"


def table(results: Sequence[Result]) -> list[str]:
    """The results by class, as README.md explains the columns."""
    head = (
        f"{'':4}{'all n':>6}{'found':>6}{'fixed':>6} | {'1-file n':>8}{'found':>6}{'fixed':>6} | "
        f"{'after n':>7}{'silent':>7} | {'noise':>5}{'broken':>7}"
    )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        for key in (one.cls, "all"):
            counts[key].update(_counted(one))
    rows = []
    for key in [*sorted(set(counts) - {"all"}), "all"]:
        c = counts[key]
        rows.append(
            f"{key:4}{c['n']:6}{c['found']:6}{c['fixed']:6} | {c['n1']:8}{c['found1']:6}{c['fixed1']:6} | "
            f"{c['after']:7}{c['silent']:7} | {c['noise']:5}{c['broken']:7}"
        )
    return [head, *rows]


def _counted(one: Result) -> Counter[str]:
    counts = Counter(n=1, found=one.found, fixed=one.fixed, noise=one.noise, broken=bool(one.broken))
    if one.single_file:
        counts.update(n1=1, found1=one.found, fixed1=one.fixed)
    if one.silent is not None:
        counts.update(after=1, silent=one.silent)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--tool", choices=TOOLS, default="devfix")
    parser.add_argument("--command", default="", help="how the tool is called")
    parser.add_argument("--patches", type=Path)
    parser.add_argument("--only", default="", help="classes, such as A,B")
    parser.add_argument("--name", default="", help="of the tool, in the JSON; with its version and settings")
    parser.add_argument("--json", type=Path, help="write every result, too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--at-once", action="store_true", help="call the tool once, for all files together")
    parser.add_argument("-v", action="store_true", help="a line for each case")
    options = parser.parse_args()
    try:
        tool = adapter(options.tool, options.command, options.patches)
    except ValueError as error:
        parser.error(str(error))
    if options.at_once:
        tool = AtOnce(tool, options.files)
    only = set(filter(None, options.only.split(",")))
    wanted = [case for case in cases() if not only or case.cls in only]
    with ThreadPoolExecutor(options.jobs) as pool:
        scored = list(pool.map(lambda case: score(case, options.files, tool), wanted))
        right = [] if only else clean()
        noisy = list(pool.map(lambda file: loud(file, options.files, tool), right))
    results = [one for one in scored if one is not None]
    if len(results) < len(wanted):
        print(f"not laid out: {len(wanted) - len(results)} cases", file=sys.stderr)
    if options.v:
        for one in results:
            print(in_words(one))
    for line in table(results):
        print(line)
    answered = [found for found in noisy if found is not None]
    if not only:
        rules = Counter(one.rule for found in answered for one in found)
        told = ", ".join(f"{number} {rule}" for rule, number in rules.most_common())
        print(f"clean: {sum(map(bool, answered))} of {len(answered)} files have findings: {told or 'none'}")
    if options.json:
        rows = [asdict(one) for one in results]
        data = {
            "tool": options.name or options.tool,
            "cases": rows,
            "clean": {"files": len(answered), "loud": sum(map(bool, answered))},
        }
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        head = json.dumps({**data, "cases": "@"}, indent=1)
        options.json.write_text(head.replace('"@"', f"[\n{lines}\n ]") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
