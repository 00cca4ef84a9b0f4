"""What `benchmarks/speed.py` generates, and how it counts."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from devfix.codemod import registry
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def generate(folder: Path, files: int) -> dict[str, str]:
    command = [sys.executable, str(BENCHMARKS / "speeds" / "monorepo.py"), str(folder), "--files", str(files)]
    subprocess.run(command, check=True, timeout=60)
    found = sorted(folder.rglob("*.py"))
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def test_the_monorepo_is_always_the_same_and_has_bugs(tmp_path: Path) -> None:
    files = generate(tmp_path / "a", 230)
    assert len(files) == 230
    assert files == generate(tmp_path / "b", 230)
    for text in files.values():
        ast.parse(text)
    (tmp_path / "a" / "pyproject.toml").touch()
    codemods = [kind() for kind in registry().values() if kind.default]
    report = run(discover([str(tmp_path / "a")]), codemods, repair=False, jobs=1, around=Around())
    found = {
        (Path(result.path).parent.name, one.codemod) for result in report.results for one in result.findings
    }
    assert found == {("package_00000", "reorder-to"), ("package_00010", "reorder-to")}


def test_a_failing_peer_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from speeds.measuring import Contender, measure, table\n"
        "good = Contender('good', [sys.executable, '-c', 'pass'])\n"
        "bad = Contender('bad', [sys.executable, '-c', 'raise SystemExit(3)'])\n"
        "measure([good, bad], 2, Path('.'))\n"
        "table('Both', [good, bad], [good])\n"
        "assert len(good.cpu) == len(good.wall) == len(good.memory) == 2 and not bad.cpu\n"
    )
    command = [sys.executable, "-c", code, str(BENCHMARKS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "exit code 3" in done.stdout and "1.00" in done.stdout
