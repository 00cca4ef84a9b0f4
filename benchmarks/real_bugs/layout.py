"""The cases and clean files, and where they are laid out from local clones.

    python benchmarks/real_bugs/layout.py --clones CLONES --to FOLDER [--only A,B]
    python benchmarks/real_bugs/layout.py --repositories

The second form prints the repositories that have to be cloned, with how many files each one gives. A clone,
bare or not, with all its history, is looked for as CLONES/OWNER+NAME/repo, CLONES/OWNER+NAME,
CLONES/OWNER/NAME and CLONES/OWNER/NAME.git. Nothing is fetched.

What is laid out is other people's code under their own licences: do not commit it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """One bug, as `cases.jsonl` has it; hunks are pairs of first line and number of lines."""

    id: str
    cls: str
    variant: str
    repo: str
    parent_commit: str
    fix_commit: str
    path: str
    parent_path_if_different: str | None
    buggy_line_in_parent: int
    fixed_line_in_fix: int
    hunks_before: tuple[tuple[int, int], ...]
    hunks_after: tuple[tuple[int, int], ...]
    what: str
    locality: str
    single_file_fixable: bool
    notebook: bool
    after_expected_silent: bool
    confidence: str


@dataclass(frozen=True)
class Clean:
    """One file that is right, as `clean.jsonl` has it."""

    id: str
    repo: str
    commit: str
    path: str
    why_clean: str


def cases(path: Path = HERE / "cases.jsonl") -> list[Case]:
    found = []
    for row in _rows(path):
        for name in ("hunks_before", "hunks_after"):
            row[name] = tuple(tuple(hunk) for hunk in row[name])  # type: ignore[union-attr]
        found.append(Case(**row))  # type: ignore[arg-type]
    return found


def clean(path: Path = HERE / "clean.jsonl") -> list[Clean]:
    names = {field.name for field in fields(Clean)}
    return [Clean(**{name: row[name] for name in names}) for row in _rows(path)]  # type: ignore[arg-type]


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


class Layout:
    """Lays files out below `to`, and counts what no clone has."""

    def __init__(self, clones: Path | None, to: Path) -> None:
        self.clones = clones
        self.to = to
        self.absent: Counter[str] = Counter()

    def case(self, case: Case) -> None:
        sides = (("before", case.parent_commit, case.parent_path_if_different or case.path),
                 ("after", case.fix_commit, case.path))  # fmt: skip
        for side, commit, path in sides:
            root = self.to / case.id / side
            if case.cls == "F":  # a recipe's bug shows in the scripts around it
                for beside in self._beside(case.repo, commit, case.path):
                    self._put(case.repo, commit, beside, root / beside)
            self._put(case.repo, commit, path, root / case.path)

    def clean(self, file: Clean) -> None:
        self._put(file.repo, file.commit, file.path, self.to / "clean" / file.id / file.path)

    def _clone(self, repo: str) -> Path | None:
        if self.clones is None:
            return None
        joined = repo.replace("/", "+")
        for form in (f"{joined}/repo", joined, repo, f"{repo}.git"):
            if (self.clones / form).is_dir():
                return self.clones / form
        return None

    def _git(self, repo: str, *arguments: str) -> bytes | None:
        clone = self._clone(repo)
        if clone is None:
            return None
        done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True)
        return None if done.returncode else done.stdout

    def _put(self, repo: str, commit: str, path: str, to: Path) -> None:
        if to.exists():
            return
        data = self._git(repo, "show", f"{commit}:{path}")
        if data is None:
            self.absent[repo] += 1
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)

    def _beside(self, repo: str, commit: str, path: str) -> list[str]:
        """The Python files beside a recipe and one folder up."""
        folder = PurePosixPath(path).parent
        found = []
        for one in sorted({folder, folder.parent}):
            where = "." if str(one) == "." else f"{one}/"
            listed = self._git(repo, "ls-tree", "--name-only", commit, where) or b""
            found += [name for name in listed.decode("utf-8", "replace").splitlines() if name.endswith(".py")]
        return found


def lay_out(clones: Path | None, to: Path, only: set[str]) -> Counter[str]:
    """Lay everything out; gives how many files of which repository are missing."""
    layout = Layout(clones, to)
    for case in cases():
        if not only or case.cls in only:
            layout.case(case)
    if not only:
        for file in clean():
            layout.clean(file)
    return layout.absent


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clones", type=Path, help="folder with the clones")
    parser.add_argument("--to", type=Path, help="folder to lay the files out in")
    parser.add_argument("--only", default="", help="classes, such as A,B")
    parser.add_argument("--repositories", action="store_true", help="print what has to be cloned")
    options = parser.parse_args()
    if options.repositories:
        wanted = Counter(one.repo for one in [*cases(), *clean()])
        for repo, number in sorted(wanted.items()):
            print(f"{number:4}  https://github.com/{repo}")
        return 0
    if options.clones is None or options.to is None:
        parser.error("--clones and --to are needed")
    absent = lay_out(options.clones, options.to, set(filter(None, options.only.split(","))))
    for repo, number in sorted(absent.items()):
        print(f"not in the clones: {number} files of {repo}", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
