"""The examples of the codemods in other words: what is found before must be found after.

    python benchmarks/metamorphic.py [--ways engine,both] [--codemods ID,ID] [--misses N]

Each example that is repaired and that raises on simulated CUDA is transformed in each way of `proof/transforming.py`.
A transformed program counts if it still raises there. Printed per transformation and per codemod: found after, of
those found before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devfix.codemod import registry
from devfix.smoke import Runner
from proof.asked import WAYS, by
from proof.simulated import Program, run
from proof.transforming import NAMES, variants

CODEMODS = (
    "place-factory", "register-buffer", "register-modules", "move-inputs", "module-never-moved", "numpy-of-device",
    "lengths-on-cpu", "reorder-to", "restore-after-move", "one-device",
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A transformed example, and in which ways it was found before and after."""

    codemod: str
    title: str
    name: str
    program: Program
    before: frozenset[str]
    after: frozenset[str]


def tried(runner: Runner, codemods: Sequence[str], ways: Sequence[str]) -> Iterator[Variant]:
    """All variants that raise, of the examples that raise."""
    examples = [(id, one) for id in codemods for one in registry()[id].examples if one.after is not None]
    examples = [(id, one) for id, one in examples if not one.recipe]
    ran = list(run(runner, [Program(one.before) for _, one in examples]))
    for (id, example), ended in zip(examples, ran, strict=True):
        if not ended.raises:
            continue
        before = _found(Program(example.before), ways)
        made = list({program.text: (name, program) for name, program in variants(example.before)}.values())
        for (name, program), after in zip(made, run(runner, [program for _, program in made]), strict=True):
            if after.raises:
                yield Variant(id, example.title, name, program, before, _found(program, ways))


def _found(program: Program, ways: Sequence[str]) -> frozenset[str]:
    return frozenset(way for way in ways if by(way, program))


def table(found: Sequence[Variant], ways: Sequence[str]) -> Iterator[str]:
    """Per transformation and per codemod: found after of found before, and variants in which nothing was found."""
    for title, of, names in (("transformation", "name", NAMES), ("codemod", "codemod", CODEMODS)):
        yield f"{title:26}{'raise':>7}" + "".join(f"{way:>28}" for way in ways)
        for name in (*names, "all"):
            some = [one for one in found if name in ("all", getattr(one, of))]
            cells = []
            for way in ways:
                before = [one for one in some if way in one.before]
                after = sum(way in one.after for one in before)
                share = f"{100 * after / len(before):5.1f} %" if before else "      -"
                cells.append(f"{after:5} of {len(before):5}  {share}")
            if some:
                yield f"{name:26}{len(some):7}" + "".join(f"{cell:>28}" for cell in cells)
        yield ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ways", default="engine", help=f"of {', '.join(WAYS)}; with commas between")
    parser.add_argument("--codemods", default=",".join(CODEMODS))
    parser.add_argument("--misses", type=int, default=20, help="variants to print that are found no more")
    options = parser.parse_args()
    ways = options.ways.split(",")
    with Runner() as runner:
        found = list(tried(runner, options.codemods.split(","), ways))
    print("\n".join(table(found, ways)))
    lost = [(way, one) for one in found for way in ways if way in one.before - one.after]
    for way, one in lost[: options.misses]:
        print(f"--- {way}: {one.codemod}: {one.title}: {one.name}\n{one.program.text}")
        for name, text in one.program.modules.items():
            print(f"# {name}.py\n{text}")


if __name__ == "__main__":
    main()
