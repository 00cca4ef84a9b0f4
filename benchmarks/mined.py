"""Device fixes mined from the histories of public repositories, and how devfix does on them.

    python benchmarks/mined.py mine --mirrors DIR --out FILE [--skip OWNER/NAME ...]
    python benchmarks/mined.py split --judged FILE
    python benchmarks/mined.py score --mirrors DIR --scratch DIR --set build|blind [--command CMD] [-v]

DIR holds clones as `real_bugs/layout.py` looks for them. `mine` walks their histories and writes a row for each
file that a commit may have mended: facts only, no code. Repositories of `real_bugs/cases.jsonl` and
`real_bugs/clean.jsonl` are left out. Nothing of a repository is executed; git reads objects and nothing else.

A person judges the rows, by the rules of `real_bugs/README.md`, before anybody looks at what devfix says of them.
A judged row is a case as `real_bugs/cases.jsonl` has it, with `bug` (was the file wrong before the fix?) and, where it
is false, the `reason`. `split` deals the repositories out by a hash of the name, half to
`real_bugs/mined-build.jsonl` and half to `real_bugs/mined-blind.jsonl`. Whoever works on devfix looks at `build`
only; of `blind` the score prints sums alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "real_bugs"
sys.path.insert(0, str(HERE))

import adapters  # noqa: E402
import layout  # noqa: E402
import score  # noqa: E402
from devfix.documents.git import GitError, git  # noqa: E402

SETS = ("build", "blind")
FILES = 8  # Python files that a commit may touch, for what it mends to be plain
LINES = 12  # changed lines of a file
AT_ONCE = 100  # commits asked of git together
PER_REPOSITORY = 400
JOBS = 2  # cases that are scored together
_WORDS = re.compile(
    r"\b(?:devices?|device_type|cuda|gpus?|cpu|mps|map_location|register_buffer|ModuleList|all tensors)\b",
    re.I,
)
_ADDS = re.compile(
    r"\.to\(|\.cuda\(|\bdevice\s*=|register_buffer|nn\.ModuleList|map_location|\.cpu\(\)|torch\.device\(|device_type"
)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Candidate:
    """A file that a commit may have mended; hunks are pairs of first line and number of lines."""

    repo: str
    parent_commit: str
    fix_commit: str
    path: str
    hunks_before: list[tuple[int, int]]
    hunks_after: list[tuple[int, int]]
    words: list[str]
    in_message: bool


def repositories(mirrors: Path) -> Iterator[tuple[str, Path]]:
    """OWNER/NAME and the git directory of each clone `OWNER+NAME`, `OWNER+NAME/repo` below a folder."""
    for folder in sorted(mirrors.glob("*+*")):
        for form in (folder / "repo" / ".git", folder / "repo", folder / ".git", folder):
            if (form / "HEAD").is_file():
                yield folder.name.replace("+", "/", 1), form.resolve()
                break


def commits(clone: Path) -> list[str]:
    """Commits with one parent, newest first."""
    listed = git(f"--git-dir={clone}", "rev-list", "--min-parents=1", "--max-parents=1", "HEAD", folder="/")
    return listed.decode().split()


def patches(clone: Path, wanted: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Commit, parent, message and diff (of Python files, no context) of each commit."""
    asked = [
        f"--git-dir={clone}", "log", "--no-walk=unsorted", "--stdin", "--format=%x00%H %P%n%B%x01", "--no-renames",
        "--no-ext-diff", "--no-textconv", "--no-color", "--unified=0", "--patch",
    ]  # fmt: skip
    for start in range(0, len(wanted), AT_ONCE):
        # no mailmap, notes or decorations: only objects are read
        names = "\n".join([*wanted[start : start + AT_ONCE], "--", "*.py", ""])
        text = git(*asked, stdin=names.encode(), folder="/").decode("utf-8", "replace")
        for part in text.split("\0")[1:]:
            message, _, diff = part.partition("\1")
            head, _, message = message.partition("\n")
            fix, _, parent = head.partition(" ")
            yield fix, parent, message, diff


def changed_files(diff: str) -> Iterator[tuple[str, str]]:
    """Path and diff of each file that is there both before and after."""
    for part in re.split(r"^diff --git ", diff, flags=re.M)[1:]:
        path = re.search(r"^\+\+\+ b/(.*?)\t?$", part, re.M)
        if path and re.search(r"^--- a/", part, re.M) and "@@" in part:
            yield path[1], part[part.index("@@") :]


def candidates(repo: str, clone: Path) -> Iterator[Candidate]:
    """The rows of one repository; those whose commit message has a word about devices come first."""
    found = []
    for fix, parent, message, diff in patches(clone, commits(clone)):
        if diff.count("\n+++ ") > FILES:
            continue
        said = {word.lower() for word in _WORDS.findall(message)}
        for path, hunks in changed_files(diff):
            lines = [line for line in hunks.splitlines() if line[:1] in "+-"]
            words = said | {word.lower() for line in lines for word in _WORDS.findall(line)}
            if not words or len(lines) > LINES:
                continue
            if not any(line[0] == "+" and _ADDS.search(line) for line in lines):
                continue
            spans = [[int(n or 1) for n in one.groups("1")] for one in _HUNK.finditer(hunks)]
            before, after = [(a, b) for a, b, _, _ in spans], [(c, d) for _, _, c, d in spans]
            found.append(Candidate(repo, parent, fix, path, before, after, sorted(words), bool(said)))
    return iter(sorted(found, key=lambda one: not one.in_message)[:PER_REPOSITORY])


def mine(mirrors: Path, out: Path, skip: Iterable[str]) -> None:
    known = {one.repo for one in [*layout.cases(), *layout.clean()]} | set(skip)
    with out.open("w", encoding="utf-8") as file:
        for repo, clone in repositories(mirrors):
            if repo in known:
                continue
            try:
                rows = list(candidates(repo, clone))
            except GitError as error:
                print(f"{repo}: {error}", file=sys.stderr)
                continue
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
            print(f"{len(rows):5}  {repo}")


def which(repo: str) -> str:
    """The set of a repository, by its name alone."""
    return SETS[hashlib.sha256(repo.lower().encode()).digest()[0] % 2]


def split(judged: Path) -> None:
    rows = sorted(_rows(judged), key=lambda row: (row["repo"], row["path"], row["fix_commit"]))
    for name in SETS:
        mine = [row for row in rows if which(row["repo"]) == name]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in mine)
        (HERE / f"mined-{name}.jsonl").write_text(text, encoding="utf-8")
        bugs = sum(row["bug"] for row in mine)
        print(
            f"{name}: {bugs} bugs, {len(mine) - bugs} that are none, {len({r['repo'] for r in mine})} repositories"
        )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read(name: str) -> tuple[list[layout.Case], list[layout.Case]]:
    """The bugs of a set, and the rows that are none."""
    found: tuple[list[layout.Case], list[layout.Case]] = [], []
    names = {field.name for field in fields(layout.Case)}
    for row in _rows(HERE / f"mined-{name}.jsonl"):
        for key in ("hunks_before", "hunks_after"):
            row[key] = tuple(tuple(hunk) for hunk in row[key])
        found[not row["bug"]].append(layout.Case(**{key: row[key] for key in names}))
    return found


def run(name: str, mirrors: Path, files: Path, command: str, verbose: bool) -> None:
    """Lays a set out and prints how devfix does on it; of `blind` the sums only.

    The last line counts the rows that are no bug where devfix says something all the same.
    """
    if shutil.which(shlex.split(command)[0]) is None:
        raise SystemExit(f"{command} is not on PATH: name it with --command")
    bugs, others = read(name)
    placed = layout.Layout(mirrors, files)
    for case in [*bugs, *others]:
        placed.case(case)
    if placed.absent:
        print(f"not in the clones: {sum(placed.absent.values())} files", file=sys.stderr)
    tool = adapters.Devfix(command)
    with ThreadPoolExecutor(JOBS) as pool:
        results, none = (
            [one for one in pool.map(lambda case: score.score(case, files, tool), part) if one is not None]
            for part in (bugs, others)
        )
    loud = [one for one in none if one.found]
    table = score.table(results)
    if name == "blind":
        table = [table[0], table[-1]]
    elif verbose:
        print(*map(score.in_words, [*results, *loud]), sep="\n")
    print(*table, sep="\n")
    print(f"no bug: {len(loud)} of {len(none)} have a finding where the commit changed the file")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("mine", help="write candidates from clones")
    one.add_argument("--mirrors", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--skip", nargs="*", default=[], metavar="OWNER/NAME")
    one = verbs.add_parser("split", help="deal judged rows out by repository")
    one.add_argument("--judged", type=Path, required=True)
    one = verbs.add_parser("score", help="lay a set out and ask devfix")
    one.add_argument("--mirrors", type=Path, required=True)
    one.add_argument("--scratch", type=Path, required=True, help="never to be committed")
    one.add_argument("--set", choices=SETS, required=True)
    one.add_argument("--command", default="devfix")
    one.add_argument("-v", action="store_true", help="a line for each case of `build`")
    options = parser.parse_args()
    if options.verb == "mine":
        mine(options.mirrors, options.out, options.skip)
    elif options.verb == "split":
        split(options.judged)
    else:
        run(options.set, options.mirrors, options.scratch, options.command, options.v)
    return 0


if __name__ == "__main__":
    sys.exit(main())
