"""Is what the engine takes for granted true? Its claims, against what was there on a run.

    python benchmarks/soundness.py [--seeds N] [--wrong N]

Programs are run on simulated CUDA with a tracer. For each name that a line binds to a tensor or module, the engine's
claims (in each context in which it ran the line) are compared with what the name held:

- *true*: it claims the kind, and a place that it knows by itself (the CPU, or an accelerator by name), as it was;
- *relative*: it claims the kind, and the place of something else (`x.device`, a device that is chosen at run time);
- *contradicted*: a claim is about another kind, or about a place where nothing was;
- *no claim*: nothing definite.

The programs: those of `examples/` that run by themselves, the examples of all codemods, and generated ones, right and
with one fault.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from devfix.codemod import registry
from devfix.engine import File
from devfix.engine.analysis import Analysis
from devfix.engine.places import LITERAL, Place
from devfix.smoke import Runner
from devfix.text.source import Source
from generated import cases
from proof.simulated import MAIN, Program, Seen, run

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
VERDICTS = ("true", "relative", "contradicted", "no claim")
_KNOWN = frozenset(
    {"tensor", "module", "number", "text", "none", "device", "dtype", "array", "sequence", "mapping"}
)


def claims(text: str) -> dict[tuple[int, str], list[tuple[str, Place]]]:
    """What the engine claims of each name at each line that binds it."""
    made = Analysis(File(MAIN, Source(text)))
    made.claims = {}
    made.run()
    return made.claims


def verdicts(text: str, seen: Sequence[Seen]) -> Iterator[tuple[str, str]]:
    """A verdict for each binding that was executed, and what to say about it."""
    claimed = claims(text)
    binds = {
        (one.lineno, one.id)
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    held: dict[tuple[int, str], set[tuple[str, str]]] = defaultdict(set)
    for one in seen:
        if (one.line, one.name) in binds:
            held[one.line, one.name].add((one.kind, one.device))
    for key, found in sorted(held.items()):
        said = [compare(kind, place, found) for kind, place in claimed.get(key, [])]
        if set(said) == {"another kind"}:
            said = ["contradicted"]
        verdict = next((one for one in ("contradicted", "true", "relative") if one in said), "no claim")
        places = [(kind, place.kind, place.key) for kind, place in claimed.get(key, [])]
        yield verdict, f"line {key[0]}: {key[1]}: claimed {places}, was {sorted(found)}"


def compare(kind: str, place: Place, found: set[tuple[str, str]]) -> str:
    """One claim against what a name held, of which the tracer noted tensors and modules only."""
    if kind not in _KNOWN:
        return "no claim"
    devices = {device for what, device in found if what == kind}
    if not devices:
        return "another kind"  # of another round of a loop, unless all claims are
    if place.on_host:
        return "true" if "cpu" in devices else "contradicted"
    if place.kind == LITERAL:
        wanted = str(place.key)
        exact = wanted in devices or any(one.partition(":")[0] == wanted for one in devices)
        return "true" if exact else "contradicted"
    return "relative" if place.on_device or place.is_named else "no claim"


def programs(seeds: int) -> Iterator[tuple[str, str]]:
    """Name and text of every program; each statement is on a line of its own."""
    for path in sorted(EXAMPLES.rglob("*.py")):
        yield "examples/", path.read_text(encoding="utf-8")
    for id, kind in registry().items():
        for example in kind.examples:
            for text in (example.before, example.after):
                if text is not None and not example.recipe:
                    yield f"examples of {id}", text
    for case in cases(range(20_000, 20_000 + seeds)):
        yield "generated", case.program.text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=300, help="generated programs: two for each seed")
    parser.add_argument("--wrong", type=int, default=20, help="contradicted claims to print")
    options = parser.parse_args()
    some = [(name, ast.unparse(ast.parse(text))) for name, text in programs(options.seeds)]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    with Runner() as runner:
        for (name, text), ended in zip(
            some, run(runner, [Program(text) for _, text in some], trace=True), strict=True
        ):
            for verdict, what in verdicts(text, ended.seen):
                counts[name][verdict] += 1
                counts["all"][verdict] += 1
                if verdict == "contradicted":
                    wrong.append(
                        f"--- {name}: {what}\n{text.splitlines()[int(what.split()[1][:-1]) - 1].strip()}"
                    )
    print(f"{'':34}" + "".join(f"{one:>20}" for one in VERDICTS))
    for name, found in counts.items():
        cells = [f"{found[one]:6} {100 * found[one] / found.total():6.2f} %" for one in VERDICTS]
        print(f"{name:34}" + "".join(f"{cell:>20}" for cell in cells))
    print("\n".join(wrong[: options.wrong]))


if __name__ == "__main__":
    main()
