"""How the score asks a tool: what it finds in files, and what it makes of them.

An adapter is a class with two methods. Add one here, name it in TOOLS, and `score.py --tool NAME` uses it:

- `findings(folder, case)` gives what the tool reports about the files below a folder. Raises Broken where the
  tool gives no answer.
- `repair(folder, case)` lets the tool change the files of the folder, which is a copy. A tool that repairs
  nothing returns.

`case` is the id of the case ("A003"), or empty for files that are right.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

SECONDS = 3600.0


class Broken(Exception):
    """The tool gave no answer; the message is the end of what it said instead."""


@dataclass(frozen=True)
class Finding:
    """Lines count from 1; `path` is relative to the folder. `rule` is whatever the tool calls it."""

    path: str
    line: int
    end: int
    rule: str


class Adapter(Protocol):
    def findings(self, folder: Path, case: str) -> list[Finding]: ...

    def repair(self, folder: Path, case: str) -> None: ...


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Broken(str(error)) from error


@dataclass(frozen=True)
class Devfix:
    """`devfix check` with the codemods that are on by default, and `devfix apply --unsafe`."""

    command: str = "devfix"

    def findings(self, folder: Path, case: str) -> list[Finding]:
        done = run([*shlex.split(self.command), "check", "--format", "json", "."], folder)
        try:
            found = json.loads(done.stdout)["findings"]
        except (ValueError, KeyError) as error:
            raise Broken((done.stderr or done.stdout)[-300:]) from error
        return [
            Finding(one["path"], one["line"], one.get("end_line") or one["line"], one["codemod"])
            for one in found
        ]

    def repair(self, folder: Path, case: str) -> None:
        run([*shlex.split(self.command), "apply", "--unsafe", "--no-smoke", "--quiet", "."], folder)


@dataclass(frozen=True)
class TorchFix:
    """All rules of TorchFix. They are about other bugs; this is the floor that a linter of torch code reaches."""

    command: str = "torchfix"
    _LINE = re.compile(r"^(.*?):(\d+):\d+: (TOR\d+)")

    def findings(self, folder: Path, case: str) -> list[Finding]:
        done = run([*shlex.split(self.command), "--select", "ALL", "."], folder)
        if done.returncode not in (0, 1):
            raise Broken(done.stderr[-300:])
        found = [self._LINE.match(line) for line in done.stdout.splitlines()]
        return [
            Finding(match[1].removeprefix("./"), int(match[2]), int(match[2]), match[3])
            for match in found
            if match
        ]

    def repair(self, folder: Path, case: str) -> None:
        run([*shlex.split(self.command), "--select", "ALL", "--fix", "."], folder)


@dataclass(frozen=True)
class Sarif:
    """Any command that writes SARIF for the folder `.` to its output; it repairs nothing."""

    command: str

    def findings(self, folder: Path, case: str) -> list[Finding]:
        done = run(shlex.split(self.command), folder)
        try:
            runs = json.loads(done.stdout)["runs"]
        except (ValueError, KeyError) as error:
            raise Broken((done.stderr or done.stdout)[-300:]) from error
        return [finding for one in runs for finding in self._results(one, folder)]

    def _results(self, one: dict, folder: Path) -> Iterator[Finding]:  # type: ignore[type-arg]
        for result in one.get("results", ()):
            for location in result.get("locations", ())[:1]:
                place = location.get("physicalLocation", {})
                path = unquote(place.get("artifactLocation", {}).get("uri", ""))
                path = path.removeprefix("file://").removeprefix(str(folder) + "/").removeprefix("./")
                region = place.get("region", {})
                line = region.get("startLine", 0)
                yield Finding(path, line, region.get("endLine", line), result.get("ruleId", ""))

    def repair(self, folder: Path, case: str) -> None:
        return


@dataclass(frozen=True)
class Patches:
    """Patches in a folder, `A003.patch` for the case A003, made by a person, a language model or anything.

    What a patch changes in the file before is what it "finds"; `git apply` makes the repair. Files that are
    right have patches, too, if the model was shown them: `N001.patch`. No patch, no findings. A patch that
    does not apply is no answer.
    """

    folder: Path
    _HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")

    def findings(self, folder: Path, case: str) -> list[Finding]:
        patch = self._patch(case)
        if patch is None:
            return []
        done = run(["git", "apply", "--check", str(patch)], folder)
        if done.returncode:
            raise Broken(f"{patch.name} does not apply: {done.stderr[-200:]}")
        return list(self._changed(patch.read_text(encoding="utf-8", errors="replace")))

    def _changed(self, text: str) -> Iterator[Finding]:
        """Every run of removed lines, and the line before every insertion."""
        path, line = "", 0
        for row in text.splitlines():
            hunk = self._HUNK.match(row)
            if hunk:
                line = int(hunk[1])
            elif row.startswith("--- "):
                path = row[4:].partition("\t")[0].removeprefix("a/")
            elif row.startswith("+++ "):
                continue
            elif row.startswith("-"):
                yield Finding(path, line, line, "patch")
                line += 1
            elif row.startswith("+"):
                yield Finding(path, max(line - 1, 1), max(line - 1, 1), "patch")
            elif row.startswith(" "):
                line += 1

    def repair(self, folder: Path, case: str) -> None:
        patch = self._patch(case)
        if patch is not None:
            run(["git", "apply", str(patch)], folder)

    def _patch(self, case: str) -> Path | None:
        for suffix in (".patch", ".diff"):
            path = (self.folder / f"{case}{suffix}").resolve()
            if case and path.is_file() and path.read_bytes().strip():
                return path
        return None


class AtOnce:
    """A tool that is slow to start, asked once for all files that are laid out; repairs are still made one by one.

    Only for tools that look at each file alone.
    """

    def __init__(self, tool: Adapter, files: Path) -> None:
        self.tool = tool
        self.files = files
        self.found: dict[Path, list[Finding]] = {}
        for one in tool.findings(files, ""):
            parts = Path(one.path).parts
            folder, path = files.joinpath(*parts[:2]), "/".join(parts[2:])
            self.found.setdefault(folder, []).append(Finding(path, one.line, one.end, one.rule))

    def findings(self, folder: Path, case: str) -> list[Finding]:
        return self.found.get(folder, [])

    def repair(self, folder: Path, case: str) -> None:
        self.tool.repair(folder, case)


def adapter(tool: str, command: str, patches: Path | None) -> Adapter:
    """The adapter of that name; raises ValueError for what it lacks."""
    if tool == "devfix":
        return Devfix(command or "devfix")
    if tool == "torchfix":
        return TorchFix(command or "torchfix")
    if tool == "sarif":
        if not command:
            raise ValueError("--tool sarif needs --command")
        return Sarif(command)
    if patches is None:
        raise ValueError("--tool patches needs --patches FOLDER")
    return Patches(patches)


TOOLS = ("devfix", "torchfix", "sarif", "patches")
