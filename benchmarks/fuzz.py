"""Random device programs, odd layouts and mutated real files: does everything hold that must hold?

    python benchmarks/fuzz.py --count 100000 --jobs 4
    python benchmarks/fuzz.py --only 4711          # one input again, printed

Every input has a number and can be made again from it. The properties are those of `tests/fuzzing.py`: the
result parses, a second run changes nothing, comments survive, lines and code outside of the edits are the
same, and nothing ends in an error of devfix's own. `--corpus` names folders of real Python files to mutate
(default: Python's own library).
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import signal
import sys
import sysconfig
import time
import traceback
import types
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

SECONDS = 60  # for one input
FILES = 400
BLOCK = 50
_files: list[str] = []


def corpus(folders: list[str]) -> list[str]:
    """Texts of real files, the same ones every time."""
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    paths.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if 200 < len(text) < 200_000:
            found.append(text)
        if len(found) == FILES:
            break
    return found


def prepare(folders: list[str]) -> None:
    _files.extend(corpus(folders))
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _late)


def _late(number: int, frame: types.FrameType | None) -> None:
    raise TimeoutError(f"takes longer than {SECONDS} s")


def tried(number: int) -> tuple[str, str]:
    """What came of one input, and what is wrong if something is."""
    from fuzzing import holds, one

    path, data = one(random.Random(number), _files)
    if hasattr(signal, "SIGALRM"):
        signal.alarm(SECONDS)
    try:
        return holds(path, data), ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "wrong", f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno})"
    finally:
        if hasattr(signal, "SIGALRM"):
            signal.alarm(0)


def block(first: int, last: int) -> list[tuple[int, str, str]]:
    return [(number, *tried(number)) for number in range(first, last)]


def results(first: int, count: int, jobs: int, folders: list[str]) -> Iterator[tuple[int, str, str]]:
    numbers = range(first, first + count, BLOCK)
    with ProcessPoolExecutor(jobs, initializer=prepare, initargs=(folders,)) as pool:
        for found in pool.map(block, numbers, (min(n + BLOCK, first + count) for n in numbers)):
            yield from found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--corpus", action="append", default=[])
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    folders = given.corpus or [sysconfig.get_path("stdlib")]
    if given.only is not None:
        from fuzzing import one

        prepare(folders)
        path, data = one(random.Random(given.only), _files)
        sys.stdout.buffer.write(data)
        print(f"\n--- {path}: {': '.join(tried(given.only))}")
        return 0
    start = time.perf_counter()
    counts: collections.Counter[str] = collections.Counter()
    try:
        for number, what, why in results(given.first, given.count, given.jobs, folders):
            counts[what] += 1
            if why:
                print(f"{number}: {why}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; this far:")
    seconds = time.perf_counter() - start
    parts = ", ".join(f"{counts[what]} {what}" for what in ("changed", "found", "silent", "refused", "wrong"))
    print(f"{sum(counts.values())} inputs in {seconds:.0f} s: {parts}")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
