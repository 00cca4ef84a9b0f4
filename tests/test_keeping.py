"""Results that are kept: the same as found out anew, whatever changed, was damaged or was planted."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from callers import ENGINE, MAIN
from devfix.cli import main
from devfix.codemod import registry
from devfix.commands.running import Run
from devfix.documents import kept as kept_module
from devfix.documents.kept import Kept
from devfix.findings import Safety
from devfix.keeping import kept_results, results
from devfix.keeping.data import keepable, plain, result_of
from devfix.keeping.results import Installed, Results
from devfix.pipeline import depends
from devfix.pipeline.around import Around
from devfix.pipeline.work import Task
from devfix.reports.plain import Damaged
from devfix.reports.report import FileResult, Place, PlacedEdit, PlacedFinding, PlacedFix, PlacedRelated
from devfix.text import parsed

SETTINGS = (
    'import torch\n\nDEVICE = torch.device("cuda")\n',
    'import torch\n\nDEVICE = torch.device("cpu")\n',
    "DEVICE = 3\n",
    "def DEVICE(:\n",
)
MODELS = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = nn.Linear(2, 2)\n\n    def widen(self):\n        self.fc = nn.Linear(2, 4)\n",
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = nn.Linear(2, 2)\n\n    def widen(self):\n        pass\n",
    "from torch import nn\n\n\ndef Net():\n    return nn.Linear(2, 2)\n",
    "from .other import Net\n",
)
PROGRAMS = (
    "import torch\nfrom pkg.model import Net\nfrom pkg.settings import DEVICE\n\nmodel = Net()\n"
    "model.to(DEVICE)\nmodel.widen()\nx = torch.ones(1, 2)\nprint(model(x))\n",
    "import torch\nfrom pkg import Net, DEVICE\nfrom pkg.steps import train\n\nmodel = Net().to(DEVICE)\n"
    "train(model, torch.ones(1, 2))\nprint(model(torch.ones(1, 2)))\n",
    "import torch\nfrom pkg.settings import DEVICE\n\nx = torch.ones(2).to(DEVICE)\nx = x + torch.ones(2)\n",
    "# devfix: skip-file\nimport torch\n",
    "print('nothing')  # devfix: ignore\n",
)
STEPS = (
    "import torch\n\n\ndef train(model, x):\n    x.cuda()\n    return model(x)\n",
    "from torch import nn\n\n\ndef train(model, x):\n    model.fc = nn.Linear(2, 3)\n    return model(x)\n",
    "import torch\n\n\ndef train(net, x):\n    return net(x)\n",
)
RECIPES = (
    "device: cuda\nmodel: !new:torch.nn.Linear\n    in_features: 2\n    out_features: 2\nmodules:\n    a: 1\n",
    "modules:\n    model: !new:torch.nn.Linear\n        in_features: 2\n        out_features: 2\n",
)
VARIANTS = {
    "pkg/__init__.py": ("", "from .model import Net\nfrom .settings import DEVICE\n"),
    "pkg/settings.py": SETTINGS,
    "pkg/model.py": MODELS,
    "pkg/other.py": MODELS[:3],
    "pkg/steps.py": STEPS,
    "train.py": PROGRAMS,
    "again.py": PROGRAMS,
    "recipe.yaml": RECIPES,
    "pyproject.toml": ("",),
    "pkg/pyproject.toml": ("",),
}
Check = Callable[..., str]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home / "devfix" / "results"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    root = tmp_path / "repo"
    (root / "pkg").mkdir(parents=True)
    (root / ".git").mkdir()
    for name, texts in VARIANTS.items():
        if not name.endswith("toml"):
            (root / name).write_text(texts[0])
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    def run(*arguments: str) -> str:
        main(["check", "--format", "json", *arguments, "."])
        return capsys.readouterr().out

    return run


def shards(cache: Path) -> list[Path]:
    """The files with results; beside them are those that say which settings were asked for (`requests`)."""
    return [path for path in files(cache) if b"\n[" in path.read_bytes()]


def requests(cache: Path) -> list[Path]:
    return [path for path in files(cache) if path not in shards(cache)]


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file() and path.name != "pruned"]


def change(repo: Path, chance: random.Random) -> None:
    name = chance.choice(list(VARIANTS))
    path = repo / name
    what = chance.random()
    if what < 0.15 and path.exists():
        path.unlink()
    elif what < 0.2 and not path.exists():
        path.mkdir()
        path.rmdir()
    elif what < 0.25:  # its place is taken by a folder
        shutil.rmtree(repo / "pkg" / "steps", ignore_errors=True)
        (repo / "pkg" / "steps").mkdir()
        (repo / "pkg" / "steps" / "__init__.py").write_text(chance.choice(STEPS))
    elif what < 0.3:
        shutil.rmtree(repo / "pkg" / "steps", ignore_errors=True)
    else:
        path.write_text(chance.choice(VARIANTS[name]))


SEEDS = (0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40)))


@pytest.mark.parametrize("seed", SEEDS)
def test_kept_or_found_out_anew_is_the_same(
    repo: Path, check: Check, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    known = Results.known

    def counted(self: Results, paths: list[str]) -> dict[str, FileResult]:
        found = known(self, paths)
        used.append(len(found))
        return found

    monkeypatch.setattr(Results, "known", counted)
    chance = random.Random(seed)
    seen = set()
    for _ in range(15):
        for _ in range(chance.randint(1, 2)):
            change(repo, chance)
        anew = check("--no-cache")
        assert check() == anew
        assert check() == anew
        seen.add(anew)
    assert len(seen) > 2
    assert 0 < sum(used[::2]) < sum(used[1::2])  # after a change, and without one


HEADS = "from torch import nn\n\n\ndef attach(model):\n    model.head = nn.Linear(2, 2)\n"
WRAP = "from heads import attach\n\n\ndef finish(model):\n    attach(model)\n"
USER = (
    "import torch\nfrom torch import nn\nfrom {} import {}\n\n"
    'model = nn.Linear(2, 2)\nmodel.to("cuda")\n{}(model)\nmodel(torch.ones(2, device="cuda"))\n'
)
CHANGES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "what a function does": (
        {"heads.py": HEADS, "a.py": USER.format("heads", "attach", "attach")},
        {"heads.py": HEADS.replace("model.head = ", "return ")},
    ),
    "what a function calls in a third file, for two that call it": (
        {
            "heads.py": HEADS,
            "wrap.py": WRAP,
            "a.py": USER.format("wrap", "finish", "finish"),
            "b.py": USER.format("wrap", "finish", "finish"),
        },
        {"heads.py": HEADS.replace("model.head = ", "return ")},
    ),
    "a module that comes before": (
        {"app/a.py": USER.format("heads", "attach", "attach"), "heads.py": HEADS},
        {"app/heads.py": "def attach(model):\n    pass\n"},
    ),
    "a package in a module's place": (
        {"pkg/__init__.py": "", "pkg/heads.py": HEADS, "a.py": USER.format("pkg.heads", "attach", "attach")},
        {"pkg/heads/__init__.py": "def attach(model):\n    pass\n"},
    ),
    "where the project begins": (
        {"app/a.py": USER.format("heads", "attach", "attach"), "heads.py": HEADS},
        {"app/setup.py": ""},
    ),
    "what a caller passes": (
        {"engine.py": ENGINE, "main.py": MAIN},
        {"main.py": MAIN.replace(".to(device)", "")},
    ),
    "one caller more": (
        {"engine.py": ENGINE, "main.py": MAIN},
        {"more.py": "from engine import train\n\nHOOKS = [train]\n"},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_files_alone_change_what_is_found(repo: Path, check: Check, cache: Path, name: str) -> None:
    shutil.rmtree(repo / "pkg")
    for path in repo.glob("*.*"):
        path.unlink() if path.is_file() else None

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (repo / name).parent.mkdir(exist_ok=True, parents=True)
            (repo / name).write_text(text)

    before, after = CHANGES[name]
    write(before)
    first = check()
    assert check() == first == check("--no-cache") and shards(cache)
    write(after)
    second = check()
    assert second == check("--no-cache")
    assert json.loads(second)["findings"] != json.loads(first)["findings"]
    for path in after.keys() - before.keys():
        (repo / path).unlink()
    write(before)
    assert check() == first


def test_a_file_that_nobody_asks_about_changes_no_other_result(
    repo: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who calls a function depends on those who import it, not on every file of the project."""
    shutil.rmtree(repo / "pkg")
    for path in (repo / "recipe.yaml", repo / "again.py", repo / "train.py"):
        path.unlink()
    (repo / "engine.py").write_text(ENGINE)
    (repo / "main.py").write_text(MAIN)
    other = repo / "other.py"
    analysed: list[str] = []
    before = Task.file

    def counted(self: Task, path: str) -> FileResult:
        analysed.append(path)
        return before(self, path)

    monkeypatch.setattr(Task, "file", counted)
    for number in range(3):
        other.write_text(f"import torch\n\nx = torch.ones({number})\n")
        analysed.clear()
        anew = check("--no-cache")
        assert "engine.py" in analysed
        analysed.clear()
        assert check() == anew
        assert not number or analysed == ["other.py"]
    other.write_text("from engine import train\n")
    analysed.clear()
    check()
    assert sorted(analysed) == ["engine.py", "other.py"]


def test_what_a_recipe_is_made_of(repo: Path) -> None:
    """The names beside it are part of that: another script may fit it better."""
    task = Task((registry()["list-in-modules"](), registry()["hard-coded-cuda"]()), repair=False)
    (repo / "recipe.yaml").write_text(
        "model: !new:torch.nn.Linear\n    in_features: 2\n    out_features: 2\nmodules:\n    a: [!ref <model>]\n"
    )
    with depends.recording() as needs:
        task.file("recipe.yaml")
    assert f"={repo / 'recipe.yaml'}" in needs.states
    assert f"%{repo}" in needs.states and f"?{repo / '.git'}" in needs.states
    assert depends.CHANGED not in needs.states.values()


def test_settings_are_kept_apart(repo: Path, check: Check) -> None:
    check()
    only = ("--codemod", "reorder-to")
    assert check(*only) == check("--no-cache", *only)
    assert check("--no-project") == check("--no-cache", "--no-project")


def test_no_codemod_is_imported_where_all_results_are_kept(
    repo: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("codemods were asked for")

    monkeypatch.setattr(Installed, "now", lambda: Installed((), "one", True))
    first = check()
    with monkeypatch.context() as patched:
        patched.setattr(Run, "_codemods", never)
        assert check() == first
        with pytest.raises(AssertionError):
            Run.plain((".",), exclude_codemods=("reorder-to",)).analyse(repair=False)  # was not asked for
        (repo / "train.py").write_text(PROGRAMS[1])
        with pytest.raises(AssertionError):
            Run.plain((".",)).analyse(repair=False)
        patched.setattr(Installed, "now", lambda: Installed((), "another", True))
        (repo / "train.py").write_text(PROGRAMS[0])
        with pytest.raises(AssertionError):
            Run.plain((".",)).analyse(repair=False)
    assert check() == first


@pytest.mark.parametrize("gone", ["again.py", "train.py"])
def test_findings_are_listed_in_order_whether_kept_or_not(
    repo: Path, check: Check, capsys: pytest.CaptureFixture[str], gone: str
) -> None:
    def listed(*more: str) -> str:
        main(["check", *more, "."])
        return capsys.readouterr().out

    anew = listed("--no-cache")
    assert "train.py" in anew and "again.py" in anew
    assert listed() == anew == listed()
    (repo / gone).write_text((repo / gone).read_text() + "# changed\n")
    assert listed() == anew == listed("--no-cache")


def test_another_devfix_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    file = tmp_path / "rules" / "a.py"
    for path in (file, tmp_path / "__init__.py"):
        path.write_text("a = 1\n")
    monkeypatch.setattr("devfix.__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(results, "_SETTLED", 10**12)
    known = [Installed.now()]
    assert known[0] == Installed.now()
    assert not known[0].settled
    before = file.stat()
    for change in (
        lambda: file.write_text("a = 2\n"),
        lambda: os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns)),  # as old as it was
        lambda: shutil.copy2(file, tmp_path / "rules" / "b.py"),
        lambda: (tmp_path / "rules" / "b.py").replace(file),
        file.unlink,
    ):
        time.sleep(0.02)  # more than a tick of the clock of files
        change()
        known.append(Installed.now())
    assert len({one.state for one in known}) == len(known)


def test_a_damaged_request_is_not_there(
    repo: Path, check: Check, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Installed, "now", lambda: Installed((), "one", True))
    anew = check()
    (request,) = requests(cache)
    good = request.read_bytes()
    for body in (b"", b"0" * 40, b"\xff\n"):
        request.write_bytes(kept_module._checksum(body) + b"\n" + body)
        assert check() == anew
    request.write_bytes(good[:-1])
    assert check() == anew
    assert request.read_bytes() == good


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text", "types", "numbers", "deep"])
def test_what_is_damaged_is_not_there(repo: Path, check: Check, cache: Path, damage: str) -> None:
    anew = check()
    for path in shards(cache):
        data = path.read_bytes()
        if damage == "flip":
            path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
        elif damage == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "empty":
            path.write_bytes(b"")
        else:
            body = {
                "text": b"hello",
                "types": data[65:].replace(b'"skipped"', b"1").replace(b"null", b'[[7],"",[]]'),
                "numbers": data[65:].replace(b"[[0", b"[[999999"),
                "deep": b"[" * 100_000,
            }[damage]
            path.write_bytes(kept_module._checksum(body) + b"\n" + body)
    assert check() == anew


def test_a_planted_edit_is_never_made(repo: Path, check: Check, cache: Path) -> None:
    for path in repo.rglob("*.py"):
        path.unlink()
    (repo / "recipe.yaml").unlink()
    program = repo / "clean.py"
    program.write_text("import torch\n\nprint(torch.ones(2).device)\n")
    assert json.loads(check())["findings"] == []
    place = Place(3, 1, 3, 6)
    fix = PlacedFix("plant", Safety.SAFE, (PlacedEdit(place, "evil"),))
    planted = plain(FileResult("clean.py", (PlacedFinding("reorder-to", "planted", place, (), fix),)))
    (shard,) = shards(cache)
    body = shard.read_bytes()[65:].replace(b",null]", b"," + json.dumps(planted).encode() + b"]")
    shard.write_bytes(kept_module._checksum(body) + b"\n" + body)
    assert "planted" in check()  # who can write there could change devfix itself
    before = program.read_bytes()
    assert main(["apply", "-q", "."]) == 0
    assert main(["diff", "-q", "."]) == 0
    assert program.read_bytes() == before


@pytest.mark.parametrize("where", ["inside", "writable", "relative", "file", "nowhere"])
def test_a_folder_that_may_be_somebody_elses_is_not_used(
    repo: Path, check: Check, cache: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    home = {"inside": repo / ".cache", "relative": Path("cache"), "nowhere": Path()}.get(
        where, cache.parent.parent
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(home) if where != "nowhere" else "")
    if where == "writable":
        cache.mkdir(parents=True)
        cache.chmod(0o777)
    if where == "file":
        cache.parent.mkdir(parents=True)
        cache.write_text("")
    if where in ("nowhere", "relative"):
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert check() == check("--no-cache")
    assert not shards(cache) or where == "file"
    assert not list(repo.rglob("*cache*"))


def test_it_can_be_switched_off(repo: Path, check: Check, cache: Path) -> None:
    check("--no-cache")
    (repo / "pyproject.toml").write_text("[tool.devfix]\ncache = false\n")
    check()
    assert not cache.exists()
    check("--cache")
    assert shards(cache)


def test_codemods_of_others_are_not_kept(repo: Path) -> None:
    own = [kind() for kind in registry().values()]
    assert kept_results(["."], own, Around(), repair=False) is not None
    sys.path.insert(0, str(Path(__file__).parent))
    from stubs import Rename  # type: ignore[import-not-found]

    assert kept_results(["."], [*own, Rename()], Around(), repair=False) is None


def test_results_as_plain_data() -> None:
    place = Place(1, 2, 3, 4, 5, 6)
    fix = PlacedFix("do it", Safety.UNSAFE, (PlacedEdit(place, "\udc80x", "other.py"),))
    related = (PlacedRelated("a.py", 1, 2, "there", 3, 4),)
    finding = PlacedFinding("reorder-to", "wrong", place, related, fix, "because", "code", "Net.forward")
    result = FileResult("x.py", (finding,), (finding,), skipped="why", unused=((1, "reorder-to"), (2, "")))
    data = json.loads(json.dumps(plain(result)))
    assert result_of("x.py", data) == result and keepable(result)
    assert not keepable(FileResult("x.py", changes=result.changes, before=b"1", after=b"2"))
    for wrong in (1, [], [1, "", []], [[], 1, []], [[], "", [[1]]], [[[]], "", []]):
        with pytest.raises(Damaged):
            result_of("x.py", wrong)


def test_old_files_go_and_so_does_what_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(str(tmp_path / "results"))
    assert kept.usable([])
    for number in range(10):
        kept.write(f"{number:02}", b"x" * 1000)
        path = tmp_path / "results" / f"{number:02}" / f"{number:02}"
        age = 40 * 86_400 if number == 9 else 1000 - number
        os.utime(path, (time.time() - age, time.time() - age))
    monkeypatch.setattr(kept_module, "BYTES", 6 * 1066)
    kept.prune()
    left = [number for number in range(10) if kept.read(f"{number:02}")]
    assert left == [6, 7, 8] or left == [5, 6, 7, 8][-3:]
    kept.write("09", b"again")
    monkeypatch.setattr(kept_module, "BYTES", 0)
    kept.prune()  # once a day is enough
    assert kept.read("09") == b"again"


_WRITER = """\
import sys
from devfix.documents.kept import Kept
kept, body = Kept(sys.argv[1]), sys.argv[2].encode() * 50_000
for _ in range(150):
    kept.write("name", body)
    assert kept.read("name")[:1] in (b"a", b"b")
"""


def test_two_at_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "results")
    Kept(folder).write("name", b"a" * 50_000)
    both = [subprocess.Popen([sys.executable, "-c", _WRITER, folder, letter]) for letter in "ab"]
    while any(one.poll() is None for one in both):
        assert Kept(folder).read("name") in (b"a" * 50_000, b"b" * 50_000)
    assert [one.returncode for one in both] == [0, 0]
    assert len(files(tmp_path / "results")) == 1


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def test_nothing_of_a_file_waits_for_a_garbage_collection(repo: Path, no_collection: None) -> None:
    """Trees that are held in circles once took a tenth of the time, and half of the memory."""
    task = Task(tuple(kind() for kind in registry().values()), repair=False)
    for kind in registry().values():
        for example in kind.examples:
            task.data("example.py", example.before.encode())
    parsed._kept.clear()  # what is there is held on purpose
    gc.collect()
    found = [one for one in gc.garbage if type(one).__module__.startswith(("ast", "devfix"))]
    assert not found, found[:20]
