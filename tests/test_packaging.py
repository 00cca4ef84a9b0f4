"""The wheel and the sdist: built, installed into an environment of its own, and tried there, without a network.

The oldest and newest versions of the dependencies, on every Python, are the matter of
`.github/workflows/tests.yml`; here they are those of the environment that the tests run in.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from devfix import commands
from devfix.codemod import registry

if sys.version_info >= (3, 11):
    import tomllib as toml
else:
    import tomli as toml

ROOT = Path(__file__).parent.parent
PROJECT = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAN = ROOT / "docs" / "man" / "devfix.1"


def man_page() -> str:
    """What `docs/site/man.py` makes of the command line."""
    spec = importlib.util.spec_from_file_location("man", ROOT / "docs" / "site" / "man.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: str = module.page()
    return made


def run(
    *command: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In an environment that knows nothing of this one's Python path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**clean, **environment},
    )


@dataclass(frozen=True)
class Installed:
    wheel: Path
    sdist: Path
    root: Path
    bin: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, built from the sdist as indexes want it, in a new virtual environment.

    What devfix needs is lent by the environment of the tests; devfix itself is the wheel's.
    """
    scratch = tmp_path_factory.mktemp("packaging")
    tree = scratch / "tree"
    ignored = shutil.ignore_patterns(
        ".git",
        ".venv",
        "venv",
        "__pycache__",
        ".*_cache",
        ".hypothesis",
        "site-packages",
        "node_modules",
        "dist",
    )
    shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", scratch / "dist", tree)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,), (sdist,) = (scratch / "dist").glob("*.whl"), (scratch / "dist").glob("*.tar.gz")
    root = scratch / "env"
    venv.create(root, with_pip=False, symlinks=True)
    python = root / "bin" / "python"
    done = run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        wheel,
    )
    assert done.returncode == 0, done.stderr
    (own,) = root.glob("lib/python*/site-packages")
    (own / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return Installed(wheel, sdist, root, root / "bin")


def test_it_runs(installed: Installed, tmp_path: Path) -> None:
    version = run(installed.bin / "devfix", "--version", cwd=tmp_path)
    assert version.stdout.startswith("devfix ") and version.returncode == 0
    helped = run(installed.bin / "devfix", "--help", cwd=tmp_path)
    for name in commands.NAMES:
        assert re.search(rf"^  {name}\s", helped.stdout, re.MULTILINE)
    where = run(installed.bin / "python", "-c", "import devfix; print(devfix.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(installed.root))


def test_it_finds_and_repairs_the_examples(installed: Installed, tmp_path: Path) -> None:
    """Everything that is loaded late is there: codemods, libcst's part, the review page, the recipes."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in (["devfix"], ["python", "-m", "devfix"]):
        found = run(installed.bin / command[0], *command[1:], "check", "examples", cwd=tmp_path)
        assert found.returncode == 1 and "reorder-to" in found.stdout, found.stderr
    page = run(installed.bin / "devfix", "diff", "--format", "html", "-o", "r.html", "examples", cwd=tmp_path)
    assert page.returncode == 1 and (tmp_path / "r.html").stat().st_size > 10_000, page.stderr
    stats = run(installed.bin / "devfix", "stats", "examples", "--html", "s.html", cwd=tmp_path)
    assert stats.returncode == 0 and (tmp_path / "s.html").exists(), stats.stderr
    done = run(installed.bin / "devfix", "apply", "--quiet", "examples", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        run(installed.bin / "devfix", "check", "--codemod", "reorder-to", "examples", cwd=tmp_path).returncode
        == 0
    )


def test_doctor_has_nothing_to_say_against_it(installed: Installed, tmp_path: Path) -> None:
    done = run(installed.bin / "devfix", "doctor", "--no-torch", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_repository_at_hand_is_not_imported(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('imported from the working directory')\n")
    for command in (["devfix"], ["python", "-m", "devfix"]):
        done = run(installed.bin / command[0], *command[1:], "list", cwd=tmp_path)
        assert done.returncode == 0 and "reorder-to" in done.stdout, done.stderr


def test_what_is_in_the_wheel(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    for wanted in ("devfix/py.typed", "devfix/cli.py", "devfix/review/html/page.html", "devfix/review/html/devices.css",
                   "devfix/review/schema-1.json", "devfix/simulate/child/sitecustomize.py"):  # fmt: skip
        assert wanted in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("devfix-")} == {"devfix"}
    assert any(name.endswith("share/man/man1/devfix.1") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    source = ROOT / "codemods" / "devfix"
    files = (path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    package = {f"devfix/{name}" for name in files if not re.search(r"(?:^|/)(?:\.|__pycache__/)", name)}
    assert package <= names


def test_what_is_in_the_sdist(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        *(
            ".ci/oldest.txt",
            "mkdocs.yml",
            "codemods/devfix/cli.py",
            "tests/test_packaging.py",
            "docs/tutorial.md",
        ),
        *("docs/site/hooks.py", "examples/gpt_classifier/train.py", "benchmarks/real_bugs/cases.jsonl"),
    ):
        assert wanted in names
    assert not [name for name in names if "__pycache__" in name]


def test_extras() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {"smoke", "cluster", "forges", "bowler", "lsp", "html", "docs", "dev"} <= set(extras)
    for name, requirements in extras.items():
        for requirement in requirements:  # what an extra needs, the tests have
            package = re.match(r"[\w-]+", requirement)
            assert package and (name == "dev" or package[0] in " ".join(extras["dev"])), requirement


def test_oldest_versions_are_those_of_the_project() -> None:
    """`.ci/oldest.txt` has the least version of every requirement that has one, and nothing else by hand."""
    pinned = dict(
        line.split("==") for line in (ROOT / ".ci" / "oldest.txt").read_text().splitlines() if "==" in line
    )
    for requirement in PROJECT["dependencies"]:
        match = re.match(r"([\w-]+)>=([\d.]+)", requirement)
        assert match, requirement
        least = pinned[match[1]].partition(";")[0].strip()
        assert least == match[2] or least.startswith(match[2] + "."), requirement


# --- manual, completion, templates -----------------------------------------------------------------


def test_the_manual_page_is_up_to_date() -> None:
    review = importlib.import_module("devfix.commands.campaign").review
    alone = CliRunner().invoke(review, ["--help"])  # click keeps the help option of a command that has run
    assert "-h, --help" in alone.output
    assert MAN.read_text(encoding="utf-8") == man_page(), "run `python docs/site/man.py`"


def test_the_manual_page_is_one(tmp_path: Path) -> None:
    text = MAN.read_text(encoding="utf-8")
    for name in commands.NAMES:
        assert f".SS devfix {name}" in text
    if shutil.which("groff"):
        done = run("groff", "-man", "-Tutf8", "-ww", "-z", MAN)
        assert done.returncode == 0 and not done.stderr, done.stderr


def complete(words: str, number: int) -> list[str]:
    done = run(
        sys.executable,
        "-m",
        "devfix",
        _DEVFIX_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(number),
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_completion() -> None:
    assert complete("devfix ch", 1) == ["check"]
    assert "--unsafe" in complete("devfix apply --uns", 2)
    assert complete("devfix explain reorder", 2) == ["reorder-to"]
    assert complete("devfix check --codemod one-", 3) == ["one-device"]
    assert complete("devfix diff --format ht", 3) == ["html"]


def test_completion_in_bash(installed: Installed, tmp_path: Path) -> None:
    """Bash takes the script, and its function completes."""
    script = (
        'eval "$(_DEVFIX_COMPLETE=bash_source devfix)"\n'
        "complete -p devfix\n"
        "COMP_WORDS=(devfix expl) COMP_CWORD=1\n"
        "$(complete -p devfix | sed 's/.*-F \\([^ ]*\\) .*/\\1/') devfix\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = run(
        "bash", "--norc", "-c", script, cwd=tmp_path, PATH=f"{installed.bin}{os.pathsep}{os.environ['PATH']}"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1:3] == ["explain", "explain-error"]


def test_issue_forms() -> None:
    """As the schema says where the tools bring one along; and each asks for `devfix doctor`."""
    forms = sorted(
        path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
    )
    assert len(forms) == 3
    schema = "vendor.github-issue-forms"
    if schema in run(sys.executable, "-m", "check_jsonschema", "--help").stdout:
        done = run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *forms)
        assert done.returncode == 0, done.stdout
    for form in forms:
        data: dict[str, Any] = yaml.safe_load(form.read_text(encoding="utf-8"))
        (doctor,) = [one for one in data["body"] if one["id"] == "doctor"]
        assert "devfix doctor" in doctor["attributes"]["description"] and doctor["validations"]["required"]


def test_workflows() -> None:
    workflow, weekly = (ROOT / ".github" / "workflows" / name for name in ("tests.yml", "torch.yml"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = run(*command, workflow, weekly)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = yaml.safe_load(weekly.read_text())["jobs"]["versions"]["strategy"]["matrix"]["include"]
    (least,) = (
        one.removeprefix("torch>=") for one in PROJECT["optional-dependencies"]["smoke"] if "torch" in one
    )
    assert "nightly" in tried[0]["torch"] and f"torch=={least}." in tried[1]["torch"]
    pythons = yaml.safe_load(workflow.read_text())["jobs"]["newest"]["strategy"]["matrix"]["python"]
    assert pythons[0] == PROJECT["requires-python"].removeprefix(">=") and "3.14" in pythons
    assert registry()
