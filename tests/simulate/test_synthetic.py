"""Functions and modules around a change, called with synthetic inputs before and after it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from devfix.commands.advice import device_error
from devfix.findings import Safety
from devfix.reports.report import Change, FileResult
from devfix.simulate import landlock
from devfix.simulate.inputs import Unguessable, made, plans_for_inputs, plans_to_construct
from devfix.simulate.synthetic import same, try_calls
from devfix.simulate.targets import Target, Untouchable, edited, target_of
from ran import Ran

HEAD = "import torch\nfrom torch import nn\n\n\n"
# A mask and a table that are made on the CPU, whatever the input is on.
NET = (
    HEAD
    + """class Net(nn.Module):
    def __init__(self, width: int, layers=2):
        super().__init__()
        self.body = nn.Linear(width, 6)

    def forward(self, x):
        x = self.body(x)
        return x + torch.arange(6)
"""
)
ADD = (
    HEAD
    + """def shifted(x: torch.Tensor, by: int = 1) -> torch.Tensor:
    return x + by * torch.arange(x.shape[-1])
"""
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def verdict(
    before: str, old: str, new: str, file: str = "net.py", seconds: float = 120, each: float = 60
) -> str:
    """Of the change of the one place where `old` stands."""
    assert before.count(old) == 1
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(before)
    at = before[: before.index(old)].count("\n")
    change = Change("some", "message", "title", Safety.SAFE, ((at, at + old.count("\n")),))
    result = FileResult(
        file, before=before.encode(), after=before.replace(old, new).encode(), digest="x", changes=(change,)
    )
    (found,) = try_calls([result], device_error, seconds=seconds, each=each).values()
    if "build for GPUs" in found.word:
        pytest.skip(found.word)
    assert found.ok is (
        True if found.word.startswith("verified") else False if found.word.startswith("failed") else None
    )
    assert path.read_text() == before
    return found.word


VERIFIED = "verified: cuda ("


def test_a_function_of_a_package_is_called(repository: Path) -> None:
    (repository / "package" / "inner").mkdir(parents=True)
    (repository / "package" / "__init__.py").write_text("")
    (repository / "package" / "inner" / "__init__.py").write_text("")
    (repository / "package" / "other.py").write_text("LIMIT = 1\n")
    text = ADD.replace("import torch\n", "import torch\nfrom ..other import LIMIT\n", 1)
    word = verdict(text, "shape[-1])", "shape[-1], device=x.device)", "package/inner/shift.py")
    assert word.startswith(VERIFIED), word


def test_a_list_that_becomes_registered_modules(repository: Path) -> None:
    text = NET.replace("self.body = nn.Linear(width, 6)", "self.parts = [nn.Linear(width, 6)]")
    text = text.replace(
        "self.body(x)\n        return x + torch.arange(6)", "self.parts[0](x)\n        return x"
    )
    word = verdict(text, "[nn.Linear(width, 6)]", "nn.ModuleList([nn.Linear(width, 6)])")
    assert word.startswith(VERIFIED), word


@pytest.mark.parametrize(
    "text, old, new, word",
    [
        (NET, "torch.arange(6)", "torch.arange(6) + 0", "not verified: after the fix, Net still ends in a"),
        (NET, "torch.arange(6)", "torch.arange(1, 7, device=x.device)", "failed: on the CPU, Net gives other"),
        (NET, "torch.arange(6)", "torch.arange(7, device=x.device)", "not run: because no synthetic inputs"),
        (
            NET.replace("arange(6)", "arange(6, device=x.device)"),
            "x = self.body(x)",
            "x = self.body(x) + 0",
            "not run: because a call with synthetic inputs runs on cuda (",
        ),
        (
            NET.replace("width: int", "config"),
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because Net() needs `config`, which has no annotation",
        ),
        (
            NET.replace("layers=2", "name: str"),
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because Net() needs `name`, and no value can be made up for `str`",
        ),
        (
            NET.replace("(nn.Module)", "").replace("super().__init__()", "pass"),
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because Net is neither a function nor an nn.Module",
        ),
        (
            NET + "\nNet(4)\nlast = 1\n",
            "last = 1",
            "last = 2",
            "not run: because the change is in no function or class",
        ),
        (
            "import os\n" + NET.replace("x + torch.arange(6)", "x + torch.rand(6) + os.getpid()"),
            "torch.rand(6)",
            "torch.rand(6, device=x.device)",
            "not run: because the results of Net differ from call to call",
        ),
        (
            # The call ends in a device error, and not any more; but the change is in what is not called.
            NET + "\n    def other(self, x):\n        return x * torch.ones(6)\n",
            "torch.arange(6)\n\n    def other(self, x):\n        return x * torch.ones(6)",
            "torch.arange(6, device=x.device)\n\n    def other(self, x):\n"
            "        return x * torch.ones(6, device=x.device)",
            "not run: because the call with synthetic inputs does not come to this line",
        ),
        (
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\n"
            "parser.parse_args()\n" + NET,
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because after the fix, on the CPU, importing net.py ends the process (exit code 2)",
        ),
        (
            NET + "\n1 / 0\n",
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because after the fix, on the CPU, importing net.py fails (ZeroDivisionError",
        ),
        (
            "import os\n" + NET + "\nos._exit(3)\n",
            "torch.arange(6)",
            "torch.arange(6, device=x.device)",
            "not run: because after the fix, on the CPU, the process of net.py died: ended with exit code 3",
        ),
        pytest.param(
            NET.replace(
                "x + torch.arange(6)",
                "torch.quantize_per_tensor(x + torch.arange(6), 1, 0, torch.qint8).dequantize()",
            ),
            "arange(6)",
            "arange(6, device=x.device)",
            "not run: because after the fix, devfix: ",
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "still", "other numbers", "does not run", "no bug", "no annotation", "text", "plain class", "module level",
        "random", "another line", "argparse", "import fails", "exits", "limit",
    ],
)  # fmt: skip
def test_what_is_not_verified(repository: Path, text: str, old: str, new: str, word: str) -> None:
    found = verdict(text, old, new)
    assert found.startswith(word), found


def test_what_breaks_on_cuda_is_a_failure(repository: Path) -> None:
    text = ADD.replace("shape[-1])", "shape[-1], device=x.device)")
    found = verdict(text, "    return", "    assert not x.is_cuda\n    return")
    assert found.startswith("failed: on cuda ("), found


def test_training_at_import_ends_by_the_limit(repository: Path) -> None:
    text = NET + "\nimport time\ntime.sleep(60)\n"
    found = verdict(text, "torch.arange(6)", "torch.arange(6, device=x.device)", each=1)
    assert found.startswith(
        "not run: because after the fix, on the CPU, importing net.py or calling Net took too long"
    )


@pytest.mark.skipif(not landlock.version(), reason="no Landlock in this kernel")
def test_nothing_is_written_and_nobody_is_called(repository: Path, tmp_path: Path) -> None:
    text = (
        HEAD
        + f"""import os, socket

refused = 0
for act in (lambda: open({str(tmp_path / "outside")!r}, "w"), lambda: open(__file__, "a"),
            lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
            lambda: socket.getaddrinfo("example.org", 80)):
    try:
        act()
    except PermissionError:
        refused += 1
assert refused == 4, refused

"""
        + ADD[len(HEAD) :]
    )
    found = verdict(text, "shape[-1])", "shape[-1], device=x.device)")
    assert found.startswith(VERIFIED), found
    assert not (tmp_path / "outside").exists()


# --- inputs --------------------------------------------------------------------------------------


def first_inputs(module: object) -> list[tuple[str, list[int]]]:
    plan = next(plans_for_inputs(module))
    return [(str(made(one, "cpu").dtype), list(made(one, "cpu").shape)) for _, one in plan]


def test_shapes_come_from_the_layers() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    for layer, expected in (
        (nn.Linear(7, 3), ("torch.float32", [2, 7])),
        (nn.Conv1d(7, 3, 2), ("torch.float32", [2, 7, 16])),
        (nn.Conv2d(7, 3, 20), ("torch.float32", [2, 7, 20, 20])),
        (nn.Conv3d(7, 3, 2), ("torch.float32", [2, 7, 8, 8, 8])),
        (nn.Embedding(9, 3), ("torch.int64", [2, 5])),
        (nn.LSTM(7, 3, batch_first=True), ("torch.float32", [2, 5, 7])),
        (nn.GRU(7, 3), ("torch.float32", [5, 2, 7])),
        (nn.LayerNorm(7), ("torch.float32", [2, 5, 7])),
        (nn.BatchNorm1d(7), ("torch.float32", [2, 7])),
        (nn.BatchNorm2d(7), ("torch.float32", [2, 7, 16, 16])),
    ):
        assert first_inputs(nn.Sequential(layer, nn.Linear(5, 5))) == [expected]
        layer(*(made(one, "cpu") for _, one in next(plans_for_inputs(nn.Sequential(layer)))))


def test_constructors_get_what_their_annotations_say() -> None:
    torch = pytest.importorskip("torch")

    class Net:
        def __init__(self, a, b, c, d, e, f, g=1):  # type: ignore[no-untyped-def]
            pass

    Net.__init__.__annotations__ = {
        "a": int, "b": "float", "c": bool, "d": torch.device, "e": "int | None", "f": "typing.List[int]",
    }  # fmt: skip
    plan: Any = dict(next(plans_to_construct(Net)))
    assert {name: made(one, "cpu") for name, one in plan.items()} == {
        "a": 8, "b": 0.5, "c": False, "d": torch.device("cpu"), "e": None, "f": [8, 8],
    }  # fmt: skip
    with pytest.raises(Unguessable, match=r"Bilinear\(\) needs|Linear\(\) needs `in_features`"):
        next(plans_to_construct(type("Linear", (), {"__init__": lambda self, in_features: None})))


def test_results_are_compared() -> None:
    assert same(["tensor", [2], [1.0, float("nan")]], ["tensor", [2], [1.0 + 1e-9, float("nan")]])
    assert not same([1.0], [1.001])
    assert not same([1.0], [1.0, 1.0])
    assert not same(1, True)


# --- the commands --------------------------------------------------------------------------------


def test_apply_shows_the_verdicts(repository: Path, called: Callable[..., Ran]) -> None:
    (repository / "net.py").write_text(NET)
    (repository / "script.py").write_text(
        "import torch\n\nmodel = torch.nn.Linear(2, 2)\nmodel.to('cuda')\nmodel.head = torch.nn.Linear(2, 2)\n"
        "print(model.head(torch.ones(1, 2, device='cuda')))\n"
    )
    codemods = ("--codemod", "place-factory", "--codemod", "reorder-to")
    done = called("apply", "--smoke", "--unsafe", *codemods, ".", "--format", "json", cwd=repository)
    assert done.code == 0, done.err
    verdicts = {change["path"]: change["verdict"] for change in json.loads(done.out)["changes"]}
    assert verdicts["net.py"].startswith(VERIFIED), verdicts
    assert verdicts["script.py"].startswith("not run: because the change is in no function"), verdicts
    assert "device=x.device" in (repository / "net.py").read_text()


def test_nothing_is_called_without_smoke(repository: Path, called: Callable[..., Ran]) -> None:
    mark = repository / "mark"
    (repository / "net.py").write_text(NET + f"\nopen({os.fspath(mark)!r}, 'w')\n")
    assert called("apply", "--unsafe", "--codemod", "place-factory", ".", cwd=repository).code == 0
    assert not mark.exists()
    assert "device=x.device" in (repository / "net.py").read_text()


# --- targets -------------------------------------------------------------------------------------


def result_of(before: str, after: str, *lines: tuple[int, int]) -> tuple[FileResult, Change]:
    change = Change("some", "message", "title", Safety.SAFE, lines)
    return FileResult("net.py", before=before.encode(), after=after.encode(), changes=(change,)), change


def test_an_import_is_no_place_of_its_own(repository: Path) -> None:
    before = "class A:\n    pass\n\n\ndef f(x):\n    y = x\n    return y\n\n\ndef g():\n    pass\n"
    after = "import torch\n\n\n" + before.replace("y = x", "y = torch.abs(\n        x\n    )")
    (repository / "net.py").write_text(before)
    root = os.getcwd()
    result, change = result_of(before, after, (0, 0), (5, 5))
    assert target_of(root, result, change) == Target("net.py", "f")
    assert list(edited(result, change)) == [range(9, 12)] * 3
    with pytest.raises(Untouchable, match="more than one place: f, g"):
        target_of(root, *result_of(before, after, (5, 5), (10, 10)))
    with pytest.raises(Untouchable, match="defined more than once"):
        target_of(root, *result_of(before.replace("def g", "def f"), after, (5, 5)))
    with pytest.raises(Untouchable, match="cannot be parsed"):
        target_of(root, *result_of("def f(:\n", after, (0, 0)))


def test_lines_that_are_gone_count_as_their_function(repository: Path) -> None:
    before = "def f(x):\n    x.cuda()\n    return x\n"
    result, change = result_of(before, before.replace("    x.cuda()\n", ""), (1, 1))
    assert list(edited(result, change)) == [range(2, 3)]
