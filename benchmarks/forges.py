"""A campaign over its whole life, undisturbed and killed at random: is the end the same?

    python benchmarks/forges.py [--repositories 200] [--kills 60] [--kind github|gitlab|gitea|all] [--seed N]

The repositories are real ones, on a stand-in for a server (`tests/migrate/standin.py`) that limits and fails now and
then. They are discovered, analysed, reviewed, and pushed in waves; some requests are merged and some closed, and for a
quarter of the repositories the base moves. Each of these commands is killed. It needs what the tests need.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "migrate"))

from campaigning import PHASES, Told, whole
from standin import TOKEN

KINDS = ("github", "gitlab", "gitea")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repositories", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    kinds = KINDS if given.kind == "all" else (given.kind,)
    return max([_both(kind, given.repositories, given.kills, given.seed) for kind in kinds])


def _both(kind: str, repositories: int, kills: int, seed: int) -> int:
    """Print what came of a campaign on one kind of server; 1 if killing made a difference."""
    with tempfile.TemporaryDirectory() as folder:
        quiet = whole(Path(folder, "quiet"), kind, repositories, seed)
        killed = whole(Path(folder, "killed"), kind, repositories, seed, kills, quiet)
    twice = sum(many - 1 for many in Counter(one["path"] for one in killed.requests).values())
    same = killed.end == quiet.end
    print(f"| {kind}, {repositories} repositories | undisturbed | killed |\n|---|---:|---:|")
    for name, of in (
        ("runs of `push`", lambda told: told.pushes),
        *((f"SIGKILLs in {phase}", lambda told, phase=phase: told.kills[phase]) for phase in PHASES),
        ("calls of the API", lambda told: told.calls),
        ("requests made", lambda told: told.created),
        *((f"requests {state}", _count(state)) for state in ("open", "merged", "closed")),
        ("seconds", lambda told: round(told.seconds)),
        ("tokens in what was said", lambda told: told.said.count(TOKEN)),
    ):
        print(f"| {name} | {of(quiet)} | {of(killed)} |")
    print(f"\nThe same state in the end: {'yes' if same else 'NO'}. Made twice: {twice}.\n", flush=True)
    return 0 if same and not twice and killed.kills.total() == kills else 1


def _count(state: str):
    def count(told: Told) -> int:
        return sum(1 for one in told.rows if one["request"] == state)

    return count


if __name__ == "__main__":
    sys.exit(main())
