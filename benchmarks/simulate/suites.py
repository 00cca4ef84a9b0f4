"""Test suites of public packages on the CPU and on simulated CUDA: what passes on one and not on the other.

    python benchmarks/simulate/suites.py FOLDER [NAME]... [--python PYTHON] [--tests N] [--seed N] [--seconds S]
        [--keep-going] [-o FILE]

FOLDER holds a clone of each package, under the name it has below; PYTHON is one that has their dependencies, a
CPU build of torch, and pytest with pytest-timeout. Of the tests that pytest finds with two simulated devices, N are
drawn at random; those that the CPU has, too, run there as well. Printed and written to FILE: how many passed, were
refused (skipped as "not checked") and failed, and every test that fails on simulated CUDA only.

With `--keep-going`, they run on one device only, with `--keep-going --place all`. Printed are the device errors that
pytest lists at the end: each is an error of the package, or one that should not be listed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 100
EACH = 30  # for one test
COMPARED = ("--simulate-cuda=2",)
KEEP_GOING = ("--simulate-cuda=1", "--keep-going", "--place", "all")


@dataclass(frozen=True)
class Suite:
    """Where the tests are, what stands before them in sys.path, and what they are told."""

    tests: tuple[str, ...] = ("tests",)
    path: str = "."
    arguments: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()  # arguments with simulated devices only
    environment: dict[str, str] = field(default_factory=dict)


SUITES = {
    "accelerate": Suite(
        tuple(
            f"tests/test_{name}.py"
            for name in (
                "utils",
                "accelerator",
                "modeling_utils",
                "optimizer",
                "scheduler",
                "data_loader",
                "hooks",
            )
        )
    ),
    "backpack": Suite(("test",)),
    "botorch": Suite(("test",)),
    "captum": Suite(),
    "e3nn": Suite(  # not those whose parameters are drawn at random
        (
            "tests/math",
            *(f"tests/o3/{name}_test.py" for name in ("irreps", "reduce_tensor", "rotation", "s2", "wigner")),
        )
    ),
    "einops": Suite(("einops/tests",), environment={"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    "entmax": Suite(("entmax",)),
    "geoopt": Suite(),
    "gpytorch": Suite(("test",)),
    "ignite": Suite(("tests/ignite/metrics", "tests/ignite/engine", "tests/ignite/handlers")),
    "kornia": Suite(cuda=("--device=cuda",)),
    "learn2learn": Suite(("tests/unit",)),
    "lightly": Suite(("tests/loss", "tests/models")),
    "linear_operator": Suite(("test",)),
    "nequip": Suite(("tests/unit",)),
    "neuraloperator": Suite(("neuralop",)),
    "nflows": Suite(),
    "MONAI": Suite(
        ("tests/losses", "tests/metrics", "tests/inferers", "tests/transforms", "tests/networks/layers")
    ),
    "normalizing-flows": Suite(("normflows",)),
    "opacus": Suite(("opacus/tests",)),
    "peft": Suite(("tests/test_initialization.py", "tests/test_other.py"), path="src"),
    "pfrl": Suite(("tests/nn_tests", "tests/q_functions_tests", "tests/utils_tests")),
    "piq": Suite(),
    "pypose": Suite(),
    "pyro": Suite(("tests/distributions", "tests/ops", "tests/nn")),
    # With two devices, Fabric starts pytest again as rank 1.
    "pytorch-lightning": Suite(("tests/tests_fabric",), path="src", cuda=("--simulate-cuda=1",)),
    "pytorch-metric-learning": Suite(path="src", environment={"TEST_DEVICE": "cuda"}),
    "pytorch-optimizer": Suite(),
    "pytorch_geometric": Suite(("test/nn", "test/utils", "test/transforms")),
    "pytorch_optimizer": Suite(),
    "sbi": Suite(),
    "schnetpack": Suite(path="src"),
    "segmentation_models.pytorch": Suite(("tests/test_losses.py", "tests/test_base.py")),
    "skorch": Suite(("skorch/tests",)),
    "skrl": Suite(("tests/memories/torch", "tests/agents/torch", "tests/trainers/torch", "tests/utils")),
    "stable-baselines3": Suite(),
    "tensordict": Suite(("test/test_tensordict.py", "test/test_nn.py")),
    "tensorly": Suite(("tensorly",)),
    "theseus": Suite(("tests/theseus_tests",)),
    "tianshou": Suite(("test/base",)),
    "timm": Suite(
        ("tests/test_layers.py", "tests/test_optim.py", "tests/test_utils.py", "tests/test_models.py")
    ),
    "torch-audiomentations": Suite(),
    "torch-cam": Suite(),
    "torchcde": Suite(("test",), arguments=("--rootdir=.",)),
    "torchdiffeq": Suite(
        tuple(f"tests/{name}_tests.py" for name in ("odeint", "gradient", "event", "norm", "api"))
    ),
    "torchmetrics": Suite(("tests/unittests/classification", "tests/unittests/regression"), path="src"),
    "torchopt": Suite(  # not those with addresses in their ids
        tuple(
            f"tests/test_{name}.py"
            for name in ("accelerated_op", "clip", "implicit", "meta_optim", "nn", "pytree")
        )
    ),
    "torchsde": Suite(),
    "vector-quantize-pytorch": Suite(),
    "x-transformers": Suite(),
}


class Runner:
    def __init__(self, folder: Path, python: str, options: tuple[str, ...], seconds: int) -> None:
        self.folder, self.python, self.options, self.seconds = folder, python, options, seconds
        asked = [python, "-c", "import importlib.metadata as found; found.version('devfix')"]
        installed = not subprocess.run(asked, capture_output=True).returncode  # with its plugin
        self.plugin = () if installed else ("-p", "devfix.simulate.pytest_plugin")

    def pytest(
        self, name: str, arguments: list[str], *, simulated: bool
    ) -> subprocess.CompletedProcess[str] | None:
        suite = SUITES[name]
        here = self.folder / name
        path = [str(ROOT / "codemods"), str(here / suite.path), str(here)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
        environment.update(suite.environment)
        special = [*self.options, *suite.cuda] if simulated else []
        command = [
            self.python,
            *("-m", "pytest", "-p", "no:cacheprovider", *self.plugin, "-o", "addopts="),
            *("-W", "ignore", "--timeout", str(EACH), "--session-timeout", str(self.seconds)),
            *special,
            *suite.arguments,
            *arguments,
        ]
        try:
            return subprocess.run(
                command,
                cwd=here,
                env=environment,
                capture_output=True,
                text=True,
                timeout=self.seconds + 3 * EACH,
            )
        except subprocess.TimeoutExpired:
            return None

    def ids(self, name: str, *, simulated: bool) -> list[str]:
        done = self.pytest(
            name,
            ["--collect-only", "-q", "--continue-on-collection-errors", *SUITES[name].tests],
            simulated=simulated,
        )
        text = done.stdout if done is not None else ""
        lines = text.partition(" warnings summary ")[0].splitlines()  # which names tests without parameters
        return [line.strip() for line in lines if "::" in line and not line.startswith(("ERROR", " ", "<"))]

    def outcomes(
        self, name: str, ids: list[str], *, simulated: bool
    ) -> tuple[dict[str, tuple[str, str]], str, str]:
        """What became of every test, why the session ended early, if it did, and what pytest printed."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            done = self.pytest(name, ["-q", f"--junitxml={report}", *ids], simulated=simulated)
            if not report.exists():
                return (
                    {},
                    "too slow" if done is None else f"exit code {done.returncode}: {done.stdout[-300:]}",
                    "",
                )
            early = (
                ""
                if done is not None and done.returncode in (0, 1)
                else f"exit code {done and done.returncode}"
            )
            found = {}
            for case in ElementTree.parse(report).iter("testcase"):
                key = f"{case.get('classname')}::{case.get('name')}"
                found[key] = _outcome(case)
            return found, early, done.stdout if done is not None else ""


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    for kind in ("failure", "error", "skipped"):
        told = case.find(kind)
        if told is not None:
            text = " ".join((told.get("message") or told.text or "").split())
            if "not checked: " in text:
                return "refused", text
            if "from pytest-timeout" in text:
                return "slow", text
            return ("skipped" if kind == "skipped" else "failed"), text
    return "passed", ""


def judge(runner: Runner, name: str, count: int, seed: int) -> list[str]:
    """The row of a suite, and a line for each test that is to be looked at."""
    ids = runner.ids(name, simulated=True)
    drawn = sorted(random.Random(seed).sample(ids, min(count, len(ids))))
    if not drawn:
        return [f"| {name} | 0 | | | | | no tests could be collected |"]
    there = set(runner.ids(name, simulated=False))
    simulated, early, said = runner.outcomes(name, drawn, simulated=True)
    if runner.options is KEEP_GOING:
        return _errors(name, f"{len(simulated)} of {len(ids)}", simulated, early, said)
    plain, late, _ = runner.outcomes(name, [one for one in drawn if one in there], simulated=False)
    cuda, cpu = (Counter(kind for kind, _ in found.values()) for found in (simulated, plain))
    differ = [
        (key, text)
        for key, (kind, text) in simulated.items()
        if kind == "failed" and plain.get(key, ("passed", ""))[0] == "passed"
    ]
    row = (
        f"| {name} | {len(drawn)} of {len(ids)} | {cpu['passed']} | {cuda['passed']} | {cuda['refused']} | "
        f"{len(differ)} | {early or (late and 'CPU: ' + late)} |"
    )
    refused = [(key, text) for key, (kind, text) in simulated.items() if kind == "refused"]
    return [
        row,
        *(f"- fails: {name}: {key}: {text[:300]}" for key, text in differ),
        *(f"- refused: {name}: {key}: {text[:200]}" for key, text in refused),
    ]


def _errors(name: str, tests: str, found: dict[str, tuple[str, str]], early: str, said: str) -> list[str]:
    """The row of a suite that went on after its device errors, and these, as pytest lists them."""
    kinds = Counter(kind for kind, _ in found.values())
    listed = re.split(r"^=+ device errors =+$", said, maxsplit=1, flags=re.MULTILINE)[1:]
    total = re.search(r"^(\d+) distinct device errors", listed[0], re.MULTILINE) if listed else None
    row = (
        f"| {name} | {tests} | {kinds['passed']} | {kinds['failed']} | {kinds['refused'] + kinds['skipped']} "
        f"| {total[1] if total else 0} | {early} |"
    )
    failed = [
        f"- fails: {name}: {key}: {text[:200]}" for key, (kind, text) in found.items() if kind == "failed"
    ]
    return [row, *failed, *(["```", listed[0][: total.end()].strip(), "```"] if total else [])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="for one run of a suite: no test begins later"
    )
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    way = KEEP_GOING if options.keep_going else COMPARED
    runner = Runner(options.folder.resolve(), options.python, way, options.seconds)
    rows, notes = [], []
    for name in options.names or SUITES:
        row, *more = judge(runner, name, options.tests, options.seed)
        print("\n".join([row, *more]), flush=True)
        rows.append(row)
        notes += more
    columns = (
        "| package | tests | pass | fail | skipped or refused | device errors | ended early |"
        if options.keep_going
        else "| package | tests | pass on the CPU | pass simulated | refused | fail simulated only | ended early |"
    )
    title = (
        "Test suites with --keep-going --place all"
        if options.keep_going
        else "Test suites on the CPU and on simulated CUDA"
    )
    limit = f"At most {options.tests} tests of each, seed {options.seed}; in {options.seconds} seconds."
    head = [f"# {title}", "", limit, "", columns, "|---|---|---|---|---|---|---|"]
    if options.output:
        options.output.write_text("\n".join([*head, *rows, "", *notes]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
