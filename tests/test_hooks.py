"""The hooks for pre-commit, run by pre-commit, and the action for GitHub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from devfix import __version__

ROOT = Path(__file__).parents[1]
BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.head = nn.Linear(4, 2)
print(model(torch.zeros(1, 4, device=device)))
"""


def hooks() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return found


@pytest.fixture
def repository(tmp_path: Path, typed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the hooks, run by the devfix of this environment, since tests have no network."""
    if shutil.which("pre-commit") is None and not (Path(sys.executable).parent / "pre-commit").exists():
        pytest.fail("pre-commit is missing; it is one of the requirements of the tests")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "home"))
    local = [{**hook, "language": "system", "entry": f"{typed}/{hook['entry']}"} for hook in hooks()]
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = {"repos": [{"repo": "local", "hooks": local}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(["git", "init", "-q"], check=True)
    return folder


def run(hook: str) -> tuple[int, str]:
    subprocess.run(["git", "add", "."], check=True)
    command = [sys.executable, "-m", "pre_commit", "run", hook, "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_check(repository: Path) -> None:
    (repository / "a b.py").write_text(BUG)
    (repository / "other.txt").write_text("x = alpha")
    code, said = run("devfix-check")
    assert code == 1
    assert "a b.py:7:1: reorder-to" in said
    (repository / "a b.py").write_text("x = 1\n")
    code, said = run("devfix-check")
    assert (code, "Passed" in said) == (0, True)


def test_apply(repository: Path) -> None:
    (repository / "a.py").write_text(BUG)
    code, said = run("devfix-apply")
    assert code == 1 and "files were modified by this hook" in said and "exit code: 1" in said
    assert (repository / "a.py").read_text().index("model.head") < (repository / "a.py").read_text().index(
        "model.to("
    )
    assert run("devfix-apply")[0] == 0


def test_the_steps_of_the_action(tmp_path: Path) -> None:
    """They install the checkout that the action comes from, and check with it."""
    steps = {
        one.get("name"): one for one in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    }
    install, check = steps["Install devfix"], steps["Check"]
    assert install["env"] == {"HERE": "${{ github.action_path }}"}
    repository, here = tmp_path / "repository", tmp_path / "installed"
    repository.mkdir()
    (repository / "a.py").write_text(BUG)
    (repository / "pip.py").write_text("raise SystemExit('the repository that is checked was run')")
    (repository / "other").write_text("mine")
    (repository / "devfix.sarif").symlink_to("other")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(here / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(here), *sys.path]),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        **{
            f"PIP_{name}": value
            for name, value in (("TARGET", str(here)), ("NO_DEPS", "1"), ("NO_INDEX", "1"))
        },
        "PIP_NO_BUILD_ISOLATION": "0",  # which is what pip calls none
        "HERE": str(ROOT),
        "PATHS": ".",
        "ARGUMENTS": "--codemod reorder-to",
        "SARIF": "devfix.sarif",
    }
    for step in (install, check):
        command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=repository, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (here / "devfix" / "cli.py").read_bytes() == (ROOT / "codemods" / "devfix" / "cli.py").read_bytes()
    assert (tmp_path / "output").read_text() == "findings=true\n"
    assert (repository / "other").read_text() == "mine"
    (result,) = json.loads((repository / "devfix.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "reorder-to"


def test_gitlab_component(tmp_path: Path) -> None:
    """As its schema says when the inputs are filled in; no input gets into a shell script."""
    text = (ROOT / "templates" / "devfix.yml").read_text()
    head, body = text.split("\n---\n")
    inputs = yaml.safe_load(head)["spec"]["inputs"]
    assert inputs["ref"]["default"] == f"v{__version__}"
    for line in body.partition("script:")[2].splitlines():
        assert "$[[" not in line
    for name, input in inputs.items():
        assert f"$[[ inputs.{name} ]]" in body
        body = body.replace(f"$[[ inputs.{name} ]]", input["default"])
    (tmp_path / "ci.yml").write_text(body)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", "ci.yml"]
    command += ["--data-transform", "gitlab-ci"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "$[[" not in body, done.stdout


def test_action() -> None:
    """As the schema that GitHub's own tools use says; and no input gets into a shell script."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
