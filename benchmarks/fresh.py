"""How right devfix is on public repositories that nobody tuned it on.

    python benchmarks/fresh.py ask --checkouts DIR --found FILE [--command CMD]
    python benchmarks/fresh.py sheet --found FILE --out FILE [--seed N] [--safe N] [--others N]
    python benchmarks/fresh.py table [--draw N] [--found FILE]

`fresh/repositories.txt` names the repositories, OWNER/NAME and commit; DIR has a checkout of each, OWNER+NAME, such as
`git --git-dir=CLONE archive COMMIT | tar -x -C DIR/OWNER+NAME` makes. `ask` runs `devfix check` with its default
settings over each and writes a row for each finding. `sheet` draws some by seed, at most three of a codemod in one
repository; what a repository gives does not depend on the others.

A person judges the rows of the sheet by reading whatever of the repository decides them, and adds the verdicts to
`fresh/verdicts.jsonl` (the fields of Verdict; no code of the repositories):

- true: on an accelerator, or without one, the program as it is meant to be used raises, or does not do what it should,
  and the fix is right
- harmless: no bug in practice, but the fix changes nothing for the worse
- wrong: the claim is false
- harmful: the fix would break or change a working program

`table` counts them, or those of one draw, with the 95 % Wilson interval of `true`, as devfix reported them then; with
--found it also counts those that it still reports, and names the others. Nothing of a repository is run.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "real_bugs"))

import adapters  # noqa: E402

FRESH = HERE / "fresh"
KINDS = ("true", "harmless", "wrong", "harmful")
AT_MOST = 3  # findings of a codemod in one repository

Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What a person says of a finding; `line` counts from 1, `safety` is that of the fix or "no fix".

    `draw` is the seed of the sheet that the finding was on.
    """

    repo: str
    commit: str
    path: str
    line: int
    codemod: str
    safety: str
    verdict: str
    reason: str
    draw: int = 0


def key(row: Row) -> tuple[str, str, str, int, str]:
    return row["repo"], row["commit"], row["path"], row["line"], row["codemod"]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, some: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", buffering=1) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in some)


def ask(folder: Path, checkouts: Path, command: str) -> Iterator[Row]:
    """A row for each finding; repositories that are absent, or of which devfix could not read all, are named."""
    for line in (folder / "repositories.txt").read_text(encoding="utf-8").splitlines():
        repo, commit = line.split()
        asked = [*command.split(), "check", "--no-cache", "--format", "json", "--project-root", ".", "."]
        try:
            done = adapters.run(asked, checkouts / repo.replace("/", "+", 1))
            found = json.loads(done.stdout)
        except (adapters.Broken, ValueError) as error:
            print(f"{repo}: {error}", file=sys.stderr)
            continue
        if found["errors"]:
            print(f"{repo}: {len(found['errors'])} files could not be analysed", file=sys.stderr)
        for one in found["findings"]:
            fix = one["fix"] or {"safety": "no fix", "title": ""}
            said = {name: one[name] for name in ("path", "line", "codemod", "message")}
            yield {"repo": repo, "commit": commit, **said, "safety": fix["safety"], "title": fix["title"]}


def drawn(found: list[Row], seed: int, safe: int, others: int) -> list[Row]:
    """Findings to judge, in the order of the repositories."""
    left = {"safe": safe, "others": others}
    chosen, seen = [], Counter[tuple[str, str]]()
    for row in sorted(found, key=lambda row: random.Random(f"{seed} {key(row)}").random()):
        part, where = "safe" if row["safety"] == "safe" else "others", (row["repo"], row["codemod"])
        if left[part] and seen[where] < AT_MOST:
            left[part] -= 1
            seen[where] += 1
            chosen.append(row)
    return sorted(chosen, key=key)


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The interval that has the true share with 95 %."""
    z, share = 1.96, part / whole
    middle = share + z * z / (2 * whole)
    half = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    return max(0.0, (middle - half) / (1 + z * z / whole)), min(1.0, (middle + half) / (1 + z * z / whole))


def table(kept: list[Verdict]) -> Iterator[str]:
    """By codemod and safety, by safety, and of all. Raises ValueError for a verdict that is none."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in kept:
        if one.verdict not in KINDS:
            raise ValueError(f"{one.repo}: {one.path}:{one.line}: a verdict is one of {', '.join(KINDS)}")
        for group in ((one.codemod, one.safety), ("all", one.safety), ("all", "all")):
            groups.setdefault(group, []).append(one.verdict)
    yield "| codemod | fix | n | " + " | ".join(KINDS) + " | true, 95 % interval |"
    yield "|---|---|---:|" + "---:|" * len(KINDS) + "---|"
    for (codemod, safety), part in sorted(groups.items(), key=lambda item: (item[0][0] == "all", item[0])):
        low, high = wilson(part.count("true"), len(part))
        counts = " | ".join(str(part.count(kind)) for kind in KINDS)
        yield f"| {codemod} | {safety} | {len(part)} | {counts} | {low:.0%} to {high:.0%} |"


def main(arguments: list[str] | None = None, folder: Path = FRESH) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("ask", "sheet", "table"))
    parser.add_argument("--checkouts", type=Path, default=Path())
    parser.add_argument("--found", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--command", default="devfix")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--safe", type=int, default=150)
    parser.add_argument("--others", type=int, default=150)
    parser.add_argument("--draw", type=int)
    options = parser.parse_args(arguments)
    if options.verb != "table" and (options.found is None or (options.verb == "sheet" and not options.out)):
        parser.error("`ask` needs --found, and `sheet` --found and --out")
    if options.verb == "ask":
        write(options.found, ask(folder, options.checkouts, options.command))
    elif options.verb == "sheet":
        write(options.out, drawn(rows(options.found), options.seed, options.safe, options.others))
    else:
        kept = rows(folder / "verdicts.jsonl")
        if options.draw is not None:
            kept = [row for row in kept if row.get("draw", 0) == options.draw]
        print(*table([Verdict(**row) for row in kept]), sep="\n")
        if options.found:
            present = {key(row) for row in rows(options.found)}
            print(
                "\nstill reported:", *table([Verdict(**row) for row in kept if key(row) in present]), sep="\n"
            )
            for row in kept:
                if key(row) not in present:
                    where = f"{row['repo']}: {row['path']}:{row['line']}: {row['codemod']}"
                    print(f"not reported any more ({row['verdict']}): {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
