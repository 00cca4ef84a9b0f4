"""Real git repositories of every kind, made fast; and what is around them, to compare before and after."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devfix.migrate.model import Job, Outcome
from devfix.migrate.steps import NEXT, STEPS, clone

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
FIXABLE = b"""\
import torch
from torch import nn


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2)
    model.to(device)
    model.head = nn.Linear(2, %d)
    x = torch.zeros(1, 4, device=device)
    print(model.head(model(x)))


main()
"""
CLEAN = b"""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, %d).to(device)
print(model(torch.zeros(1, 4, device=device)))
"""
MUCH = b"#" * 99 + b"\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


@dataclass(frozen=True)
class Made:
    """A repository, and the state that it must end in."""

    path: Path
    state: str


Content = bytes | tuple[str, bytes]  # or a mode with it


def repository(path: Path, files: Mapping[str | bytes, Content], *, work_tree: bool = False) -> Path:
    """A bare repository with one commit on `main`, or a work tree with nothing checked out."""
    return Path(shutil.copytree(_once(tuple(files.items()), work_tree), path))


@cache
def _once(files: tuple[tuple[str | bytes, Content], ...], work_tree: bool) -> Path:
    """Made by git when it is first asked for: the same files make the same commit, which takes git some processes."""
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    git(path, "init", "-q", "-b", "main", "--template=", *([] if work_tree else ["--bare"]), ".")
    commit(path, dict(files))
    return path


def commit(
    path: Path, files: Mapping[str | bytes, Content], message: str = "first", *, on: str = "main"
) -> str:
    """One more commit, that changes or adds these files."""
    there = subprocess.run(
        ["git", "rev-parse", "-q", "--verify", f"refs/heads/{on}"],
        cwd=path,
        env=ENVIRONMENT,
        capture_output=True,
    )
    stream = [
        b"commit refs/heads/%s\n" % on.encode(),
        b"committer A <a@example.org> 1700000000 +0100\n",
        b"data %d\n%s\n" % (len(message), message.encode()),
    ]
    if there.returncode == 0:
        stream.append(b"from %s\n" % there.stdout.strip())
    for name, content in files.items():
        mode, data = content if isinstance(content, tuple) else ("100644", content)
        raw = os.fsencode(name)
        quoted = b'"%s"' % raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        if mode == "160000":
            stream.append(b"M 160000 %s %s\n" % (data, quoted))
        else:
            stream.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(data), data))
    git(path, "fast-import", "--quiet", "--force", stdin=b"".join(stream) + b"\n")
    return git(path, "rev-parse", f"refs/heads/{on}").decode().strip()


def folder_of(path: Path) -> Path:
    """Git's own folder of a repository."""
    return path / ".git" if (path / ".git").is_dir() else path


def trapped(path: Path, canary: Path) -> None:
    """Hooks and settings of the repository that would leave files in `canary`, if anything ran them."""
    own = folder_of(path)
    (own / "hooks").mkdir(exist_ok=True)
    for name in (
        "post-checkout", "pre-receive", "update", "post-receive", "post-update", "reference-transaction",
        "pre-push", "post-merge", "pre-commit", "commit-msg", "post-commit", "fsmonitor-watchman", "post-index-change",
        "push-to-checkout", "proc-receive", "pre-auto-gc", "post-rewrite",
    ):  # fmt: skip
        hook = own / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{canary}/hook-{name}'\n")
        hook.chmod(0o755)
    program = canary.parent / "trap.sh"
    if not program.exists():
        program.write_text(f"#!/bin/sh\ntouch '{canary}/setting'\ncat\n")
        program.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy",
        "core.alternateRefsCommand", "uploadpack.packObjectsHook", "diff.external", "credential.helper",
        "filter.trap.smudge", "filter.trap.clean", "filter.trap.process", "diff.trap.textconv",
        "merge.trap.driver", "gpg.program", "sequence.editor", "receive.procReceiveRefs", "gc.recentObjectsHook",
    ):  # fmt: skip
        git(path, "config", key, str(program))
    git(path, "config", "filter.trap.required", "true")
    git(path, "config", "core.hooksPath", str(own / "hooks"))
    git(path, "config", "commit.gpgSign", "true")
    (own / "info").mkdir(exist_ok=True)
    (own / "info" / "attributes").write_text("* filter=trap diff=trap merge=trap\n")


# --- kinds -----------------------------------------------------------------------------------------

Kind = Callable[[Path, int], str]  # makes a repository there, and says the state that it must end in


def nothing(path: Path, n: int) -> str:
    repository(path, {"train.py": CLEAN % n, "README.md": b"# hello\n"})
    return "nothing-to-do"


def fixable(path: Path, n: int) -> str:
    repository(path, {"train.py": FIXABLE % n, "pkg/__init__.py": b"", "pkg/other.py": CLEAN % n})
    return "changed"


def several(path: Path, n: int) -> str:
    """A work tree, with what is not committed yet."""
    files: dict[str | bytes, Content] = {
        f"part{at}/run.py": ("100755", FIXABLE % (n + at)) for at in range(4)
    }
    repository(path, files, work_tree=True)
    (path / "notes.txt").write_text("mine\n")
    (path / "train.py").write_bytes(b"import torch\n")
    return "changed"


def windows(path: Path, n: int) -> str:
    repository(
        path, {"train.py": (FIXABLE % n).replace(b"\n", b"\r\n"), ".gitattributes": b"* text=auto eol=lf\n"}
    )
    return "changed"


def unparsable(path: Path, n: int) -> str:
    repository(path, {"bad.py": b"import torch\nmodel.cuda(\n", "old.py": b"print 'torch', %d\n" % n})
    return "nothing-to-do"


def unparsable_too(path: Path, n: int) -> str:
    repository(path, {"bad.py": b"import torch\nmodel.cuda(\n", "train.py": FIXABLE % n})
    return "changed"


def empty(path: Path, n: int) -> str:
    repository(path, {})
    return "nothing-to-do"


def no_commits(path: Path, n: int) -> str:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main", "--template=", "--bare", ".")
    return "skipped"


def gone(path: Path, n: int) -> str:
    """It looks like a repository, and is none."""
    for name in ("objects", "refs"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("nonsense\n")
    return "failed"


def detached(path: Path, n: int) -> str:
    repository(path, {"train.py": FIXABLE % n}, work_tree=True)
    first = git(path, "rev-parse", "main").decode().strip()
    commit(path, {"train.py": CLEAN % n}, "second")
    (path / ".git" / "HEAD").write_text(first + "\n")
    return "changed"


def huge(path: Path, n: int) -> str:
    big = (FIXABLE % n) + MUCH * 15_000
    repository(path, {"big.py": big, "train.py": FIXABLE % n})
    return "changed"


def links(path: Path, n: int) -> str:
    traps: dict[str | bytes, Content] = {
        "passwd.py": ("120000", b"/etc/passwd"),
        "out.py": ("120000", b"../../../outside.py"),
        "folder": ("120000", b"/tmp"),
        "loop.py": ("120000", b"loop.py"),
        "pyproject.toml": ("120000", b"../pyproject.toml"),
        ".gitattributes": ("120000", b"/etc/passwd"),
        "inside.py": ("120000", b"train.py"),
        "train.py": FIXABLE % n,
    }
    repository(path, traps)
    return "changed"


def hooks(path: Path, n: int) -> str:
    repository(
        path,
        {"train.py": FIXABLE % n, ".gitattributes": b"* filter=trap diff=trap merge=trap\n"},
        work_tree=n % 2 == 0,
    )
    canary = path.parent.parent / "canary"
    canary.mkdir(exist_ok=True)
    trapped(path, canary)
    return "changed"


def names(path: Path, n: int) -> str:
    odd: dict[str | bytes, Content] = {
        b"caf\xe9.py": FIXABLE % n,
        b"new\nline.py": FIXABLE % n,
        b'quo"te \\ \x1b[31m.py': FIXABLE % n,
        "-rf.py": FIXABLE % n,
        "blank name.py ": CLEAN % n,
        ":(glob)*.py": FIXABLE % n,
    }
    repository(path, odd)
    return "changed"


def submodule(path: Path, n: int) -> str:
    modules = b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch %s/canary/submodule"\n'
    files: dict[str | bytes, Content] = {
        ".gitmodules": modules % os.fsencode(path.parent.parent),
        "x": ("160000", b"1" * 40),
        "train.py": FIXABLE % n,
    }
    repository(path, files)
    return "changed"


def pointers(path: Path, n: int) -> str:
    repository(
        path, {"model.py": POINTER, "weights.bin": POINTER, ".gitattributes": b"* filter=lfs diff=lfs\n"}
    )
    return "nothing-to-do"


def settings(path: Path, n: int) -> str:
    """Settings that would read elsewhere, or do more than the campaign wants."""
    own = b'[tool.devfix]\nunsafe = true\nproject-root = "."\nexclude = ["old/"]\njobs = 64\n'
    repository(path, {"pyproject.toml": own, "train.py": FIXABLE % n, "old/train.py": FIXABLE % n})
    return "changed"


def shadows(path: Path, n: int) -> str:
    """Modules with the names of others, for whoever imports from the working directory."""
    canary = path.parent.parent / "canary"
    canary.mkdir(exist_ok=True)
    trap = f"open({str(canary / 'imported')!r}, 'a').write(__name__)\n".encode()
    names = (
        "textwrap",
        "json",
        "email/__init__",
        "devfix/__init__",
        "libcst/__init__",
        "sitecustomize",
        "yaml",
        "conftest",
    )
    repository(path, {"train.py": FIXABLE % n} | {f"{name}.py": trap for name in names})
    return "changed"


def bad_settings(path: Path, n: int) -> str:
    repository(path, {"pyproject.toml": b"[tool.devfix]\nunknown = 1\n", "train.py": FIXABLE % n})
    return "failed"


def leaving(path: Path, n: int) -> str:
    """Names in a tree that git itself would never write."""
    repository(path, {"train.py": FIXABLE % n})
    blob = git(path, "hash-object", "-w", "--stdin", stdin=FIXABLE % n).decode().strip()
    kept = git(path, "rev-parse", "main:train.py").decode().strip()

    def tree(*lines: str) -> str:
        return git(path, "mktree", "-z", stdin="\0".join([*lines, ""]).encode()).decode().strip()

    inner = tree(f"100644 blob {blob}\tevil.py")
    top = tree(f"040000 tree {inner}\t..", f"040000 tree {inner}\t.git", f"040000 tree {inner}\t.GIT",
               f"100644 blob {kept}\ttrain.py")  # fmt: skip
    made = subprocess.run(
        ["git", "commit-tree", top, "-m", "odd"], cwd=path, capture_output=True, check=True,
        env={**ENVIRONMENT, "GIT_AUTHOR_DATE": "1700000001 +0000", "GIT_COMMITTER_DATE": "1700000001 +0000",
             "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"},
    )  # fmt: skip
    git(path, "update-ref", "refs/heads/main", made.stdout.decode().strip())
    return "changed"


KINDS: Sequence[Kind] = (
    nothing, fixable, several, windows, unparsable, unparsable_too, empty, no_commits, gone, detached, huge,
    links, hooks, names, submodule, pointers, settings, bad_settings, leaving, shadows,
)  # fmt: skip


def many(top: Path, count: int) -> list[Made]:
    """Repositories of all kinds in turn, in `top/repos`."""
    made = []
    for n in range(count):
        kind = KINDS[n % len(KINDS)]
        path = top / "repos" / f"{n:03}-{kind.__name__}"
        made.append(Made(path, kind(path, n + 2)))
    return made


# --- what is around --------------------------------------------------------------------------------


def manifest(top: Path, but: Sequence[Path] = ()) -> dict[str, str]:
    """What every file and folder below `top` is, links not followed; without what is below `but`."""
    return dict(_lines(top, but))


def _lines(top: Path, but: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for folder, folders, files in os.walk(top):
        here = Path(folder)
        folders[:] = [name for name in folders if here / name not in but]
        for name in folders + files:
            path = here / name
            status = path.lstat()
            if path.is_symlink():
                what = f"link {os.readlink(path)}"
            elif path.is_file():
                what = f"{hashlib.sha256(path.read_bytes()).hexdigest()} {status.st_mtime_ns}"
            else:
                what = "folder"
            yield str(path.relative_to(top)), f"{status.st_mode:o} {what}"


def whole(job: Job, folder: str) -> tuple[Outcome, ...]:
    """All steps, one after the other, as far as they go."""
    outcomes = [clone(job, folder)]
    while not outcomes[-1].final:
        name = NEXT[outcomes[-1].step]
        outcomes.append(STEPS[name](job, folder, outcomes[-1].head))
    return tuple(outcomes)
