"""`devfix doctor`: what is in order, what is not, and the exit codes that say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from devfix.cli import main
from devfix.doctor import examine, installed, machine, selftest, settings
from devfix.doctor.health import Line, Status
from devfix.documents import state


def named(lines: object, name: str) -> Line:
    (found,) = [line for line in lines if line.name == name]  # type: ignore[attr-defined]
    assert isinstance(found, Line)
    return found


def test_all_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With torch: the simulator is tried and the known bug proven."""
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    lines = {line["name"]: line for section in told["sections"] for line in section["lines"]}
    assert lines["torch"]["value"][0].isdigit()
    assert lines["found"]["status"] == lines["fixed"]["status"] == "ok"
    if lines["simulator"]["status"] == "ok":
        assert lines["proven"]["status"] == "ok" and "cuda (simulated)" in lines["proven"]["value"]
    assert code == {"ok": 0, "note": 0, "problem": 1, "failure": 2}[told["status"]]
    assert not list(tmp_path.iterdir())  # nothing is written


def test_without_torch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "torch  not installed" in out and "pip install 'devfix[smoke]'" in out
    words = " ".join(out.split())
    assert "found the bug, by reorder-to" in words and "proven not run" in words


def test_a_broken_torch_is_told_by_its_last_line() -> None:
    facts = machine.told("", "Traceback\nImportError: libfoo.so.1: cannot open\n", 1)
    line = named(machine.lines(facts), "torch")
    assert line.status is Status.PROBLEM and "libfoo.so.1" in line.value


def test_a_simulator_that_crashes_leaves_what_is_known() -> None:
    output = json.dumps({"torch": "2.9", "build": "the CPU", "gpus": [], "others": [], "landlock": 4})
    lines = list(machine.lines(machine.told(f"a warning\n{output}\n", "", -11)))
    assert named(lines, "torch").value == "2.9, built for the CPU"
    assert named(lines, "simulator").status is Status.PROBLEM
    assert "-11" in named(lines, "simulator").value


def test_with_a_gpu_the_simulator_is_not_needed() -> None:
    facts = machine.Facts(True, "2.9", "CUDA 12.8", gpus=("cuda:0 NVIDIA H100",), simulator="a GPU build")
    assert named(machine.lines(facts), "simulator").status is Status.NOTE
    none = machine.Facts(True, "2.15", "ROCm 6.4", simulator="a GPU build")
    advice = named(machine.lines(none), "simulator").advice
    assert named(machine.lines(none), "simulator").status is Status.PROBLEM and "whl/cpu" in advice
    apple = machine.Facts(True, "2.15", "the CPU", others=("mps",), simulator="on Linux only")
    assert named(machine.lines(apple), "simulator").status is Status.NOTE
    trouble = machine.Facts(True, "2.9", "CUDA 12.8", gpu_trouble="driver too old", simulator="a GPU build")
    assert named(machine.lines(trouble), "GPUs").status is Status.PROBLEM


def test_settings_say_where_they_are_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n\n[tool.devfix]\nunsafe = true\nexclude = ['old/']\n\n"
        '[tool.devfix.options.assert-device]\ncheck = "all"\n'
    )
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    lines = list(settings.in_force("."))
    assert named(lines, "unsafe").value == "true  (pyproject.toml:5)"
    assert named(lines, "exclude").value == "old/  (pyproject.toml:6)"
    assert named(lines, "jobs").value.endswith("(default)")
    assert named(lines, "option assert-device.check").value == "all  (pyproject.toml:9)"
    assert named(lines, "file").value.endswith("pyproject.toml")


def test_your_own_settings_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "devfix").mkdir(parents=True)
    (tmp_path / "home" / "devfix" / "config.toml").write_text("jobs = 3\nunsafe = true\n")
    (tmp_path / "pyproject.toml").write_text("[tool.devfix]\njobs = 2\n")
    monkeypatch.chdir(tmp_path)
    lines = list(settings.in_force("."))
    assert named(lines, "jobs").value == "2  (pyproject.toml:2)"
    assert named(lines, "unsafe").value == "true  (config.toml:2)"


def test_wrong_settings_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.devfix]\nunsave = true\n")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--no-torch"]) == 2
    out = capsys.readouterr().out
    assert "tool.devfix.unsave: unknown setting" in out and "devfix does not work here: settings" in out


def test_the_home_folder_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "recipes").mkdir()
    monkeypatch.chdir(tmp_path / "recipes")
    monkeypatch.delenv("XDG_STATE_HOME")
    line = named(settings.files("."), "state")
    assert line.status is Status.OK and line.value.startswith("~/"), line


def test_a_state_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Path(state.place(str(tmp_path)))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.symlink_to("/tmp")
    assert named(settings.files("."), "state").status is Status.PROBLEM
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    line = named(settings.files("."), "state")
    assert line.status is Status.PROBLEM and "is in the repository" in line.advice


@pytest.mark.parametrize(
    ("version", "requirement", "older"),
    [
        ("8.0.4", "click>=8.1", True),
        ("8.1", "click>=8.1", False),
        ("8.10.0", "click>=8.9", False),
        ("2.4.0+cpu", "torch>=2.4", False),
        ("2.0rc1", "pygls>=2.0", False),
        ("1.4.9", "libcst>=1.5; python_version < '4'", True),
        ("1.0", "numpy", False),
    ],
)
def test_old_versions(version: str, requirement: str, older: bool) -> None:
    assert installed._older(version, requirement) is older


def test_missing_and_old_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"click": "8.0", "libcst": "1.9", "jinja2": "3.1"}
    requirements = ["click>=8.1", "libcst>=1.5", "pebble>=5", 'tomli>=2; python_version < "3.1"',
                    'jinja2>=3.1; extra == "html"', 'pygments>=2; extra == "html"', 'mypy; extra == "dev"']  # fmt: skip
    monkeypatch.setattr(installed.metadata, "requires", lambda name: requirements)
    monkeypatch.setattr(installed, "_version", lambda name: versions.get(name, ""))
    lines = {line.name: line for line in installed.libraries()}
    assert list(lines) == ["click", "libcst", "pebble", "extra html"]
    assert lines["click"].status is Status.FAILURE and "too old" in lines["click"].advice
    assert lines["libcst"].status is Status.OK
    assert lines["pebble"].status is Status.FAILURE and "pip install 'pebble>=5'" in lines["pebble"].advice
    assert lines["extra html"].status is Status.NOTE and "pygments" in lines["extra html"].value


def test_a_self_test_that_fails_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selftest, "_AFTER", selftest._AFTER + "# more\n")
    health = examine(".", torch=False)
    assert health.exit_code == 2 and named(health.lines, "fixed").status is Status.FAILURE
