"""Random PyTorch programs, right and with one planted device fault: what is found, what is missed, what is made up?

    python benchmarks/generated.py [--first SEED] [--count N] [--ways engine,both] [--shrink N]

Every program of `proof/making.py` is run on simulated CUDA, right and with one fault that its seed picks; the run is
the judge. A program that raises is *found* if something is said on a line where the fault is planted or that the
error goes through, *beside* if something is said elsewhere only; one that does not raise, of which something is said,
is a *false alarm*. Misses and false alarms are made small and printed, `--shrink` of each.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from devfix.smoke import Runner
from proof.asked import WAYS, Spoken, by
from proof.making import make
from proof.shrinking import shrunk
from proof.simulated import Ended, Program, run
from proof.writing import Made

# Codemods for what never raises on CUDA; their findings judge nothing here.
OTHERS = frozenset(
    {"hard-coded-cuda", "default-device", "normalize-device-type", "map-location", "device-comparison"}
)


@dataclass(frozen=True)
class Case:
    """One program: `fault` is the number of the site with the fault, None in a program that is right."""

    made: Made
    fault: int | None

    @property
    def program(self) -> Program:
        return Program(self.made.text(self.fault))

    @property
    def kind(self) -> str:
        return "" if self.fault is None else self.made.sites[self.fault].kind

    @property
    def construct(self) -> str:
        return "" if self.fault is None else self.made.sites[self.fault].construct


@dataclass(frozen=True)
class Judged:
    """What one way of asking says of a case: found, beside, missed, false alarm or silent."""

    case: Case
    way: str
    verdict: str
    spoken: tuple[Spoken, ...]


def cases(seeds: Iterable[int]) -> Iterator[Case]:
    """Two programs for each seed: right, and with one fault."""
    for seed in seeds:
        made = make(seed)
        yield Case(made, None)
        if made.sites:
            yield Case(made, random.Random(~seed).randrange(len(made.sites)))


def said(way: str, program: Program) -> list[Spoken]:
    """What one way of asking says of what raises on CUDA."""
    return [one for one in by(way, program) if one.codemod not in OTHERS]


def judge(case: Case, ended: Ended, way: str) -> Judged:
    """Compare what is said with what happened. Raises whatever the analysis raises."""
    spoken = tuple(said(way, case.program))
    if not ended.raises:
        return Judged(case, way, "false alarm" if spoken else "silent", spoken)
    lines = set(ended.lines) | (case.made.lines(case.fault) if case.fault is not None else set())
    hit = any(one.lines & lines for one in spoken)
    return Judged(case, way, "found" if hit else "beside" if spoken else "missed", spoken)


def judged(runner: Runner, some: Sequence[Case], ways: Sequence[str]) -> Iterator[Judged]:
    """Run all cases and ask in each way; cases that end in another error are left out."""
    for case, ended in zip(some, run(runner, [one.program for one in some]), strict=True):
        if ended.judges:
            for way in ways:
                yield judge(case, ended, way)


def smaller(runner: Runner, one: Judged) -> str:
    """The case with as few statements as still show the miss or the false alarm."""

    def shows(texts: Sequence[str]) -> list[bool]:
        found = []
        for text, ended in zip(texts, run(runner, [Program(text) for text in texts]), strict=True):
            right = ended.raises if one.verdict != "false alarm" else not ended.error
            found.append(right and bool(said(one.way, Program(text))) is (one.verdict == "false alarm"))
        return found

    return shrunk(one.case.program.text, shows)


def table(found: Sequence[Judged], ways: Sequence[str]) -> Iterator[str]:
    """Found of all that raise, per kind of fault and per construct, and false alarms."""
    for title, of in (("kind of fault", "kind"), ("construct", "construct")):
        counts = {way: Counter[tuple[str, str]]() for way in ways}
        for one in found:
            counts[one.way][getattr(one.case, of), one.verdict] += 1
        names = sorted({name for way in ways for name, _ in counts[way] if name})
        yield f"{title:32}" + "".join(f"{way:>26}" for way in ways)
        for name in [*names, "all"]:
            cells = []
            for way in ways:
                some = Counter[str]()
                for (owner, verdict), number in counts[way].items():
                    if owner and name in ("all", owner):
                        some[verdict] += number
                raised = some["found"] + some["beside"] + some["missed"]
                share = f"{100 * some['found'] / raised:5.1f} %" if raised else "      -"
                cells.append(f"{some['found']:5} of {raised:5}  {share}  +{some['beside']:3}")
            yield f"{name:32}" + "".join(f"{cell:>26}" for cell in cells)
        yield ""
    for way in ways:
        quiet = [one for one in found if one.way == way and one.verdict in ("silent", "false alarm")]
        alarms = [one for one in quiet if one.verdict == "false alarm"]
        yield f"{way}: {len(alarms)} false alarms in {len(quiet)} programs that do not raise"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=500, help="number of seeds; each gives two programs")
    parser.add_argument("--ways", default="engine", help=f"of {', '.join(WAYS)}; with commas between")
    parser.add_argument(
        "--shrink", type=int, default=3, help="misses and false alarms of each way to make small"
    )
    options = parser.parse_args()
    ways = options.ways.split(",")
    if not set(ways) <= set(WAYS):
        parser.error(f"--ways: choose from {', '.join(WAYS)}")
    with Runner() as runner:
        some = list(cases(range(options.first, options.first + options.count)))
        found = list(judged(runner, some, ways))
        print("\n".join(table(found, ways)))
        for way in ways:
            for verdict in ("missed", "beside", "false alarm"):
                bad = [one for one in found if one.way == way and one.verdict == verdict]
                if bad:
                    print(f"\n{way}: {verdict}: " + ", ".join(
                        f"{one.case.made.seed} ({one.case.kind or 'right'}/{one.case.construct})" for one in bad[:80]
                    ))  # fmt: skip
                kinds: set[tuple[str, str]] = set()
                for one in bad:
                    key = one.case.kind, one.case.construct
                    if verdict != "beside" and key not in kinds and len(kinds) < options.shrink:
                        kinds.add(key)
                        print(f"\n--- {way}: {verdict}, seed {one.case.made.seed}, {'; '.join(key)}")
                        print(smaller(runner, one))
    sys.exit(1 if any(one.verdict == "false alarm" for one in found) else 0)


if __name__ == "__main__":
    main()
