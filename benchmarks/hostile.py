"""Hostile repositories: `python benchmarks/hostile.py [KIND ...]` runs devfix on each kind, and prints a table.

Each has a program that a canary names: if anything of the repository is run, the canary has sung. Each also has a
bug that `apply` repairs and `undo` takes back, so that what is lost can be seen; and no command may take for ever.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import devfix

BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.add_module("head", nn.Linear(4, 2))
print(model(torch.zeros(1, 4, device=device)))
"""
SECONDS = 600.0  # for one command; more is a hang
COMMANDS = (
    ["check", "."], ["check", "--jobs", "2", "."], ["diff", "--format", "mbox", "."], ["stats", "."],
    ["check", "--diff-only", "HEAD", "."], ["doctor", "--no-torch", "."], ["apply", "."], ["undo"],
)  # fmt: skip
CALL = "__import__('os').system('{run}')"  # {run} is the canary
SING = f"{CALL}\n"


@dataclass(frozen=True)
class Kind:
    """Files by name ({run} in them is the canary), what is to be added to `.git/config`, and what else there is."""

    files: dict[str, str] = field(default_factory=dict)
    config: str = ""
    more: Callable[[Path, str], object] = lambda folder, run: None


def _executable(*names: str) -> Callable[[Path, str], object]:
    def make(folder: Path, run: str) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"#!/bin/sh\n{run}\n")
            (folder / name).chmod(0o755)

    return make


def _pickled(name: str, before: bytes = b"") -> Callable[[Path, str], object]:
    def make(folder: Path, run: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(before + b"cposix\nsystem\n(V" + run.encode() + b"\ntR.")

    return make


def _linked(name: str, target: str) -> Callable[[Path, str], object]:
    return lambda folder, run: os.symlink(target, folder / name)


def _deep(folder: Path, run: str) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def _module(name: str) -> Kind:
    return Kind({f"{name}.py": SING, "user.py": f"import {name}\nfrom {name} import x\n{BUG}"})


def _notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


JOURNAL = ".local/state/devfix/trees/x/journals/000001-20300101-000000"
PACKAGES = ".venv/lib/python3.11/site-packages"
KINDS: dict[str, Kind] = {
    **{
        f"a module {name}.py": _module(name)
        for name in (
            "click",
            "libcst",
            "yaml",
            "torch",
            "tomllib",
            "json",
            "ast",
            "sitecustomize",
            "usercustomize",
            "pebble",
            "conftest",
            "setup",
            "numpy",
            "readline",
            "encodings_evil",
        )
    },
    "a package with __main__": Kind(
        {"p/__init__.py": SING, "p/__main__.py": SING, "user.py": f"import p\n{BUG}"}
    ),
    "an encoding of its own": Kind({"evil_codec.py": SING, "coded.py": f"# coding: evil_codec\n{BUG}"}),
    "a .pth file": Kind(
        {
            "x.pth": "import os; os.system('{run}')\n",
            f"{PACKAGES}/x.pth": "import os; os.system('{run}')\n",
            ".venv/pyvenv.cfg": "home = .\n",
        }
    ),
    "a virtual environment": Kind(
        more=_executable(".venv/bin/python", ".venv/bin/git", "git", "python", "devfix")
    ),
    "build backends": Kind(
        {
            "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n',
            "evil.py": SING,
            "setup.cfg": "[metadata]\nversion = attr: evil.x\n",
        }
    ),
    "settings that name code": Kind(
        {"pyproject.toml": '[tool.devfix]\nown-codemods = ["evil.py"]\n', "evil.py": SING}
    ),
    "codemods of its own": Kind(
        {
            ".devfix/codemods/evil.py": SING,
            "devfix.toml": 'own-codemods = ["evil.py"]\n',
            ".libcst.codemod.yaml": "modules: ['evil']\n",
            "evil.py": SING,
        }
    ),
    "test settings": Kind(
        {
            "pytest.ini": "[pytest]\naddopts = -p evil\n",
            "evil.py": SING,
            "tox.ini": "[testenv]\ncommands = {run}\n",
            "noxfile.py": SING,
        }
    ),
    "files of shells and editors": Kind(
        {
            ".envrc": "{run}\n",
            "Makefile": "all:\n\t{run}\n",
            ".pdbrc": "!{run}\n",
            ".vscode/settings.json": "{}",
            ".python-version": "$({run})\n",
            ".pre-commit-config.yaml": "repos: [{repo: local, hooks: [{id: x, entry: run}]}]\n",
        }
    ),
    "code at import": Kind(
        {
            "user.py": f"{SING}@{CALL}\ndef f(a={CALL}, b: {CALL} = 1): pass\n"
            f"class C(metaclass={CALL}): x = {CALL}\n{BUG}"
        }
    ),
    "a pickle": Kind({"user.py": f"model = torch.load('model.pt')\n{BUG}"}, more=_pickled("model.pt")),
    "a pickle as an array": Kind(
        more=_pickled(
            "x.npy",
            b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"
            + b" " * 60
            + b"\n",
        )
    ),
    "a poisoned old cache": Kind(more=_pickled(".devfix_cache/results/00/data")),
    "caches of other tools": Kind(
        more=lambda folder, run: [
            _pickled(name)(folder, run)
            for name in (".mypy_cache/x.data", ".pytest_cache/v/x", "__pycache__/main.cpython-311.pyc")
        ]
    ),
    "tags of YAML": Kind(
        {
            "train.yaml": "a: !!python/object/apply:os.system ['{run}']\nb: !!python/name:os.system\n"
            "modules: !new:os.system ['{run}']\n"
        }
    ),
    "tags of recipes": Kind(
        {
            "train.yaml": "a: !apply:os.system ['{run}']\nb: !name:os.system\nc: !include:../home/secret.py\n"
            "modules:\n  x: !ref <a>\n",
            "train.py": "import speechbrain as sb\nclass B(sb.Brain):\n  pass\n",
        }
    ),
    "bombs of YAML": Kind(
        {
            "a.yaml": "modules: !new:x\n"
            + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" if n else "a0: &a0 [x]\n" for n in range(60))
        }
    ),
    "deep YAML": Kind({"a.yaml": "modules: !new:x\nb: " + "[" * 50_000}),
    "a notebook with commands": Kind(
        {"a.ipynb": _notebook("!{run}\n%system {run}\n", "%run evil.py\n", BUG), "evil.py": SING}
    ),
    "a notebook of a kernel of its own": Kind(
        {
            "a.ipynb": _notebook(BUG).replace(
                '"metadata": {}, "cells"',
                '"metadata": {"kernelspec": {"name": "evil", "argv": ["{run}"]}}, "cells"',
            )
        }
    ),
    "git: fsmonitor": Kind(config="[core]\n\tfsmonitor = {run}\n"),
    "git: filters": Kind(
        {".gitattributes": "* filter=x diff=x\n"},
        '[filter "x"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n',
    ),
    "git: diffs": Kind(
        {".gitattributes": "* diff=x\n"},
        '[diff]\n\texternal = {run}\n[diff "x"]\n\ttextconv = {run}\n\tcommand = {run}\n',
    ),
    "git: pagers and editors": Kind(
        config="[core]\n\tpager = {run}\n\teditor = {run}\n\tsshCommand = {run}\n\taskPass = {run}\n"
        "[pager]\n\tdiff = {run}\n[alias]\n\tdiff = !{run}\n"
    ),
    "git: hooks": Kind(
        config="[core]\n\thooksPath = hooked\n",
        more=_executable("hooked/post-index-change", ".git/hooks/pre-commit", ".git/hooks/post-index-change"),
    ),
    "git: includes": Kind({".git/more": "[core]\n\tfsmonitor = {run}\n"}, "[include]\n\tpath = more\n"),
    "git: credentials": Kind(
        config='[credential]\n\thelper = !{run}\n[remote "origin"]\n\turl = ext::{run}\n\tuploadpack = {run}\n'
    ),
    "git: a bare repository inside": Kind(
        {
            "in/HEAD": "ref: refs/heads/x\n",
            "in/config": "[core]\n\tbare = true\n\tfsmonitor = {run}\n",
            "in/objects/x": "",
            "in/refs/x": "",
            "in/x.py": BUG,
        }
    ),
    "links outside": Kind(more=_linked("out", "../home")),
    "a link to a file outside": Kind(more=_linked("out.py", "../home/secret.py")),
    "links in circles": Kind(
        more=lambda folder, run: [
            os.symlink(".", folder / "round"),
            os.symlink("b.py", folder / "a.py"),
            os.symlink("a.py", folder / "b.py"),
        ]
    ),
    "a link to a device": Kind(more=_linked("zero.py", "/dev/zero")),
    "FIFOs": Kind(
        more=lambda folder, run: [
            os.mkfifo(folder / name) for name in ("f.py", "f.ipynb", "f.yaml", ".gitignore")
        ]
    ),
    "a FIFO of settings": Kind(more=lambda folder, run: os.mkfifo(folder / "pyproject.toml")),
    "endless settings": Kind(
        {"pyproject.toml": "[tool.devfix]\n"},
        more=lambda folder, run: os.truncate(folder / "pyproject.toml", 1 << 40),
    ),
    "an endless file": Kind(
        {"big.py": BUG}, more=lambda folder, run: os.truncate(folder / "big.py", 1 << 40)
    ),
    "a deep tree": Kind(more=_deep),
    "many files": Kind(
        more=lambda folder, run: [(folder / f"f{n}.py").write_text("x = 1\n") for n in range(3000)]
    ),
    "names that steer": Kind(
        {
            "a\nb.py": BUG,
            "\x1b[31m.py": BUG,
            "::error::x.py": BUG,
            "$({run}).py".replace("{run}", "x"): BUG,
            "-rf.py": BUG,
        }
    ),
    "patterns for ever": Kind({".gitignore": "*a" * 12 + "*b\n" + "**/" * 12 + "x\n", "a" * 60 + ".py": BUG}),
    "lines for ever": Kind(
        {"x.py": f"{BUG}# {'a.' * 20_000}\n# {'(' * 20_000}\n# {' ' * 20_000}x\ns = '{'_' * 20_000}'\n"}
    ),
    "numbers for ever": Kind(
        {"x.py": f"{BUG}x = 9 ** 9 ** 9 ** 9\ny = 'a' * 10 ** 12\nz = 1 << 10 ** 10\nn = {'9' * 5000}\n"}
    ),
    "imports in circles": Kind(
        {"a.py": f"from b import *\n{BUG}", "b.py": f"from a import *\nfrom b import *\n{BUG}"}
    ),
    "classes in circles": Kind({"x.py": f"class A(B): pass\nclass B(A): pass\nA = B = A\n{BUG}"}),
    "nesting": Kind({"x.py": f"{BUG}x = {'(' * 3000}\n", "y.py": f"{BUG}y = {'-' * 50_000}1\n"}),
    "a journal in the tree": Kind(
        {
            f"{JOURNAL}/manifest.json": '{"version": 3, "tree": "/", "files": []}',
            f"{JOURNAL}/running": "",
        }
    ),
    "baselines and decisions": Kind(
        {
            "devfix-baseline.json": '{"devfix-baseline": 1, "findings": [{"fingerprint": "../../x"}]}',
            "decisions.json": '{"devfix-decisions": 1, "accepted": ["x"], "files": {"../home/secret.py": "x"}}',
        }
    ),
}


def attacked(kind: Kind, folder: Path) -> list[str]:
    """What went wrong with one kind of repository: nothing, as it should be."""
    tree, home = folder / "tree", folder / "home"
    for one in (tree, home):
        one.mkdir(parents=True)
    (home / "secret.py").write_text(BUG)
    sung = folder / "sung"
    run = f"touch {sung}"
    (tree / "main.py").write_text(BUG)
    subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True)
    _git(tree, "add", "main.py")
    _git(tree, "commit", "-qm", "one")
    for name, text in kind.files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{run}", run))
    kind.more(tree, run)
    with open(tree / ".git" / "config", "a") as file:
        file.write(kind.config.replace("{run}", run))
    before, outside = _files(tree), _files(home)
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYTHONPATH": str(Path(devfix.__file__).parents[1]),
    }
    wrong = []
    for arguments in COMMANDS:
        command = [sys.executable, "-m", "devfix", *arguments]
        try:
            done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return [*wrong, f"{arguments}: hung"]
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode not in (0, 1, 2) or "Traceback" in said or "own bug" in said:
            wrong.append(f"{arguments}: {done.returncode}: {said[-300:]}")
        if arguments == ["apply", "."] and done.returncode == 0 and _files(tree) == before:
            wrong.append("apply wrote nothing")
    if sung.exists():
        wrong.append("something was run")
    if _files(home) != outside:
        wrong.append("something outside was written")
    if _files(tree) != before:
        wrong.append("something was lost")
    return wrong


def _git(tree: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", *who, *arguments], cwd=tree, check=True, capture_output=True)


def _files(folder: Path) -> dict[str, object]:
    """Every file of a tree with its bytes, or its size where it is endless; links by what they lead to."""
    found: dict[str, object] = {}
    for above, folders, names in os.walk(folder):
        for name in [*names, *folders]:
            path = Path(above, name)
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            elif path.is_file():
                size = path.stat().st_size
                found[str(path)] = path.read_bytes() if size < 1 << 24 else size
    return found


def main(names: list[str]) -> int:
    chosen = {name: kind for name, kind in KINDS.items() if not names or name in names}
    bad = 0
    start = time.perf_counter()
    for name, kind in chosen.items():
        with tempfile.TemporaryDirectory(prefix="devfix-hostile-") as folder:
            wrong = attacked(kind, Path(folder))
        bad += bool(wrong)
        print(f"{'bad ' if wrong else 'ok  '} {name}", *wrong, sep="\n     ", flush=True)
    runs = len(chosen) * len(COMMANDS)
    print(f"{len(chosen)} repositories, {runs} runs, {bad} bad, {time.perf_counter() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
