"""What callers in other files pass to the functions of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from callers import ENGINE, MAIN
from repositories import found, report, write

ON_CPU = MAIN.replace(".to(device)", "").replace("device = ", "device = 'cpu'  # ")
CALLERS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one": ({"main.py": MAIN}, ["engine.py:6 move-inputs"]),
    "none": ({}, []),
    "by the module": (
        {"main.py": MAIN.replace("from engine import train, evaluate", "import engine")
         .replace("train(m", "engine.train(m").replace("evaluate(m", "engine.evaluate(m")},
        ["engine.py:6 move-inputs"]),
    "through a package": (
        {"main.py": MAIN.replace("engine import train", "pkg import train"),
         "pkg/__init__.py": "from engine import train, evaluate"}, ["engine.py:6 move-inputs"]),
    "under another name": (
        {"main.py": MAIN.replace("import train", "import train as fit").replace("train(m", "fit(m")},
        ["engine.py:6 move-inputs"]),
    "with a star": ({"main.py": MAIN.replace("import train, evaluate", "import *")}, ["engine.py:6 move-inputs"]),
    "in a method": (
        {"main.py": MAIN.replace("def main():", "class Main:\n  def run(self):")}, ["engine.py:6 move-inputs"]),
    "in a circle": (
        {"main.py": MAIN + "\n\ndef other(model):\n    return model\n",
         "helper.py": "from main import other\nfrom engine import evaluate\n"}, ["engine.py:6 move-inputs"]),
    "two that agree": ({"main.py": MAIN, "again.py": MAIN}, ["engine.py:6 move-inputs"]),
    "one of two on the CPU": (
        {"main.py": MAIN, "cpu.py": ON_CPU}, ["engine.py:6 move-inputs"]),
    "one that says nothing": (
        {"main.py": MAIN, "more.py": "from engine import train\n\n\ndef f(a, b):\n    train(a, b)\n"}, []),
    "one that hands it on": ({"main.py": MAIN, "more.py": "from engine import train\n\nHOOKS = [train]\n"}, []),
    "one in an inner function": (
        {"main.py": MAIN,
         "more.py": "from engine import train\n\n\ndef f(a):\n    def g():\n        train(a, a)\n"}, []),
    "another function of that name": (
        {"main.py": MAIN, "more.py": "from other import train\n\nHOOKS = [train]\n",
         "other.py": "def train(a):\n    pass\n"}, ["engine.py:6 move-inputs"]),
    "one that does not parse": ({"main.py": MAIN, "more.py": "from engine import train\nprint 'x'\n"},
                                ["engine.py:6 move-inputs"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLERS)
def test_what_callers_in_other_files_pass(name: str, tmp_path: Path) -> None:
    files, wrong = CALLERS[name]
    write(tmp_path, {"setup.py": "", "engine.py": ENGINE, **files})
    assert found(tmp_path, "engine.py") == wrong
    assert [line for line in found(tmp_path) if line.startswith("engine.py")] == wrong


def test_a_fix_for_what_callers_pass_uses_the_parameter(tmp_path: Path) -> None:
    engine = ENGINE.replace("loader)", "loader, device)")
    write(
        tmp_path, {"setup.py": "", "engine.py": engine, "main.py": MAIN.replace("loader)", "loader, device)")}
    )
    (result,) = report(tmp_path, ["engine.py"]).results
    (finding,) = result.findings
    assert finding.fix is not None and finding.fix.title == "move `x` to `device`"
    assert [Path(related.path).name for related in finding.related] == ["", "main.py", ""]
