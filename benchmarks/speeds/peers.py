"""The other tools, as far as they are installed: each with one rule, or with as little as it can do."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path

from speeds.measuring import Contender

_NOTHING = """\
from libcst.codemod import CodemodCommand

class Nothing(CodemodCommand):
    DESCRIPTION = "Does nothing."

    def transform_module_impl(self, tree):
        return tree
"""
_RULE = """\
rules:
  - id: moved
    languages: [python]
    severity: INFO
    message: moved
    pattern: $X.to(...)
"""
_ANY = frozenset({0, 1})
NAMES = ("torchfix", "fixit", "semgrep", "ast-grep", "ruff")


def add_options(parser: argparse.ArgumentParser) -> None:
    for name in NAMES:
        parser.add_argument(f"--{name}", default="", metavar="COMMAND", help=f"default: {name} on PATH")
    parser.add_argument("--libcst-python", default="", metavar="PYTHON", help="a Python that has LibCST")


class Peers:
    """Command lines of those that are there; `missing` names the others."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path, python: str) -> None:
        self.commands = {
            name: shlex.split(getattr(arguments, name.replace("-", "_")) or shutil.which(name) or "")
            for name in NAMES
        }
        libcst = arguments.libcst_python or python
        tried = subprocess.run([libcst, "-c", "import libcst"], capture_output=True, check=False)
        self.commands["libcst.tool"] = [libcst, "-m", "libcst.tool"] if tried.returncode == 0 else []
        self.missing = [name for name, command in self.commands.items() if not command]
        self.scratch = scratch
        (scratch / "nothing.py").write_text(_NOTHING, encoding="utf-8")
        (scratch / "rule.yaml").write_text(_RULE, encoding="utf-8")

    def versions(self) -> list[str]:
        found = []
        for name, command in self.commands.items():
            if command and name != "libcst.tool":
                done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
                said = (done.stdout or done.stderr).strip().splitlines()
                found.append(
                    said[-1] if name in (said[-1] if said else "") else f"{name} {said[-1] if said else '?'}"
                )
        if self.commands["libcst.tool"]:
            code = "import libcst; print('libcst', libcst.LIBCST_VERSION)"
            python = self.commands["libcst.tool"][0]
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            found.append(done.stdout.strip() or "libcst")
        return found

    def fast(self, folder: str) -> list[Contender]:
        """Those that see all files in seconds."""
        found = []
        if command := self.commands["ruff"]:
            cache = str(self.scratch / "ruff")
            check = [*command, "check", "--isolated", "--select", "F401", "-q", folder]
            found.append(Contender("Ruff, one rule, no cache", [*check, "--no-cache"], _ANY))
            found.append(Contender("Ruff, one rule, warm cache", [*check, "--cache-dir", cache], _ANY))
        if command := self.commands["ast-grep"]:
            pattern = ["run", "--lang", "python", "--pattern", "$X.to($$$)"]
            found.append(Contender("ast-grep, one pattern", [*command, *pattern, folder], _ANY))
        return found

    def slow(self, folder: str) -> list[Contender]:
        """Those that see a sample."""
        found = []
        if command := self.commands["torchfix"]:
            says = r"Finished checking [1-9]\d* files"
            found.append(Contender("TorchFix, default rules", [*command, folder], _ANY, says))
        if command := self.commands["libcst.tool"]:
            codemod = [*command, "codemod", "--no-format", "--hide-progress", "-x", "nothing.Nothing", folder]
            says = r"Transformed [1-9]\d* files successfully"
            environment = {"PYTHONPATH": str(self.scratch)}
            found.append(Contender("libcst.tool codemod, does nothing", codemod, _ANY, says, environment))
        if command := self.commands["fixit"]:
            rule = ["--rules", "fixit.rules.no_static_if_condition:NoStaticIfCondition", "lint", folder]
            found.append(Contender("Fixit, one rule", [*command, *rule], _ANY, "files"))
        if command := self.commands["semgrep"]:
            scan = ["scan", "--config", str(self.scratch / "rule.yaml"), "--metrics=off"]
            scan += ["--disable-version-check", "--no-git-ignore", "-q", folder]
            found.append(Contender("Semgrep, one pattern", [*command, *scan], _ANY))
        return found
