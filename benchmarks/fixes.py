"""SAFE fixes of random programs are made and run: is the result the same, and is nothing broken?

    python benchmarks/fixes.py [--first SEED] [--fixes N] [--show N] [--one-gpu] [--unsafe]

The programs are those of `proof/making.py` with some or all of their faults, and those of `tests/fuzzing.py`. Each
that gets SAFE fixes is run before and after: on the CPU, where both must end alike, print the same and leave the same
tensors, unless the first one failed for want of CUDA; and on CUDA, simulated where there is no GPU, where what ran must
run and give the same. A fix counts if the program ran to its end on the CPU; in the programs of `proof/making.py` their
devices by name are replaced by "cpu" for that.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from devfix.findings import Safety
from devfix.smoke import Runner, devices_named
from proof.making import make
from proof.simulated import Ended, Program, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

BLOCK = 40
_CUDA = re.compile(r"([\"'])cuda(?::\d)?\1")
_ABSENT = re.compile(r"No CUDA GPUs are available|not compiled with CUDA")
_LINE = re.compile(r"line \d+")
_MOVED = re.compile(r"\.cuda\([^()]*\)")


@dataclass(frozen=True)
class Fixed:
    """A program before and after its SAFE fixes; `on_cpu` says that its devices by name can be replaced."""

    name: str
    before: str
    after: str
    codemods: tuple[str, ...]
    on_cpu: bool


def programs(seed: int) -> Iterator[tuple[str, str, bool]]:
    """Name, text, and whether the devices that it names can be replaced."""
    from fuzzing import program

    made, pick = make(seed), random.Random(seed)
    sites = range(len(made.sites))
    yield f"making {seed}, all", made.text(*sites), True
    yield f"making {seed}, some", made.text(*(one for one in sites if pick.random() < 0.5)), True
    yield f"fuzzing {seed}", program(pick), False


def fixed(seeds: Iterator[int], level: Safety = Safety.SAFE) -> Iterator[Fixed]:
    """The programs that get fixes of a level."""
    from fuzzing import treated

    for seed in seeds:
        for name, text, on_cpu in programs(seed):
            made = treated("main.py", text.encode(), level)
            if made.after:
                fixes = [one.fix and one.fix.safety for one in made.findings]
                ids = [
                    one.codemod
                    for one, safety in zip(made.findings, fixes, strict=True)
                    if safety is not None and safety >= level
                ]
                yield Fixed(name, text, made.after.decode(), tuple(ids), on_cpu)


def _for_the_cpu(one: Fixed, text: str) -> Program:
    return Program(_MOVED.sub(".cpu()", _CUDA.sub('"cpu"', text)) if one.on_cpu else text)


def wrong(before: Ended, after: Ended, *, same_error: bool) -> str:
    """What a fix has broken; empty if nothing."""
    if before.error:
        if (
            not same_error
            or _LINE.sub("", after.error) == _LINE.sub("", before.error)
            or (_ABSENT.search(before.error) and not after.error)
        ):
            return ""
        return f"{before.error} became {after.error}"
    if after.error:
        return f"it ran, and raises now: {after.error}"
    if before.printed != after.printed:
        return f"it printed {before.printed!r}, now {after.printed!r}"
    differ = [name for name, value in before.values.items() if after.values.get(name, value) != value]
    return f"other values: {', '.join(differ)}" if differ else ""


def judged(runner: Runner, some: list[Fixed]) -> Iterator[tuple[Fixed, str, bool, Ended, Ended]]:
    """What is wrong with each, whether it ran on the CPU, and how it ended on CUDA before and after."""
    pairs = [text for one in some for text in (_for_the_cpu(one, one.before), _for_the_cpu(one, one.after))]
    on_cpu = list(run(runner, pairs, "cpu"))
    on_cuda = list(run(runner, [Program(text) for one in some for text in (one.before, one.after)]))
    for number, one in enumerate(some):
        cpu, cuda = on_cpu[2 * number : 2 * number + 2], on_cuda[2 * number : 2 * number + 2]
        why = wrong(*cpu, same_error=True)
        why = f"CPU: {why}" if why else ""
        broken = wrong(*cuda, same_error=False)
        yield one, why or (broken and f"CUDA: {broken}"), not cpu[0].error, *cuda


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fixes", type=int, default=5000, help="SAFE fixes to run")
    parser.add_argument("--show", type=int, default=5, help="programs to print of which something is wrong")
    parser.add_argument("--one-gpu", action="store_true", help="no programs that name a second device")
    parser.add_argument(
        "--unsafe", action="store_true", help="all fixes, of which some may change what a program does"
    )
    options = parser.parse_args()
    kinds, shown = Counter[str](), 0
    level = Safety.UNSAFE if options.unsafe else Safety.SAFE
    most = 1 if options.one_gpu else sys.maxsize
    found = (one for one in fixed(count(options.first), level) if devices_named(one.before) <= most)
    with Runner() as runner:
        while kinds["fixes that ran"] < options.fixes and (some := list(islice(found, BLOCK))):
            for one, why, ran, before, after in judged(runner, some):
                kinds["programs"] += 1
                kinds["fixes"] += len(one.codemods)
                kinds["fixes that ran"] += len(one.codemods) if ran else 0
                kinds["raised for devices on CUDA before"] += before.raises
                kinds["and runs now"] += before.raises and not after.error
                kinds["wrong"] += bool(why)
                if why:
                    print(f"{one.name} ({', '.join(one.codemods)}): {why}", flush=True)
                    shown += 1
                    if shown <= options.show:
                        print(f"{one.before}\n--- after\n{one.after}", flush=True)
            print(
                ", ".join(f"{number} {what}" for what, number in kinds.items()), file=sys.stderr, flush=True
            )
    print(", ".join(f"{number} {what}" for what, number in kinds.items()))
    return 1 if kinds["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
