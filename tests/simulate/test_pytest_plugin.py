"""`pytest --simulate-cuda`: other people's tests on simulated devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.simulate import pytest_plugin
from ran import Ran

CONFTEST = """
import torch
SEEN = torch.cuda.is_available()
"""
TESTS = """
import subprocess, sys, unittest, pytest, torch, conftest

def test_devices():
    assert conftest.SEEN and torch.cuda.device_count() == 2

def test_mixed():
    torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2))

@pytest.mark.xfail(strict=True, raises=RuntimeError)
def test_expected():
    torch.ones(2, device="cuda") + torch.ones(2)

def test_limit():
    torch.cuda.CUDAGraph().debug_dump("")

@pytest.fixture
def limited():
    return torch.cuda.CUDAGraph().debug_dump("")

def test_limit_of_a_fixture(limited):
    pass

def test_caught_limit():
    with pytest.raises(RuntimeError):
        torch.cuda.CUDAGraph().debug_dump("")

def test_way_round_a_limit():
    try:
        torch.cuda.CUDAGraph().debug_dump("")
    except NotImplementedError:
        assert False, "a GPU would not come here"

class TestLimits(unittest.TestCase):
    def test_subtests(self):
        with self.subTest("one"):
            torch.cuda.CUDAGraph().debug_dump("")

    def test_after_it(self):
        pass

def test_child():
    code = "import torch; print(torch.cuda.device_count())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2\\n"
"""


def run(folder: Path, *arguments: str) -> str:
    """What pytest says in a process of its own; the other tests fork their suites."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    if "cannot simulate devices" in done.stdout + done.stderr:
        pytest.skip(done.stdout + done.stderr)
    return done.stdout + done.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)], ids=["one process", "xdist"]
)
def test_a_suite_on_simulated_devices(suite: Path, workers: tuple[str, ...]) -> None:
    said = run(suite, "--simulate-cuda=2", "-rs", *workers)
    assert re.search(
        "1 failed, 3 passed, [56] skipped, 1 xfailed", said
    )  # pytest 9 counts the subtest as well
    assert "devfix: 2 CUDA devices, simulated where there is no GPU" in said
    assert "not checked: " in said and "limit of the simulator" in said
    failure = said.partition("test_mixed ___")[2].partition("short test summary")[0]
    assert "E       RuntimeError: Expected all tensors to be on the same device" in failure
    assert "simulate" not in failure and "_ops.py" not in failure


def test_without_the_option_nothing_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "def test_plain():\n"
        "    loaded = {name for name in sys.modules if name.startswith('devfix')}\n"
        "    assert 'torch' not in sys.modules and 'ctypes' not in loaded\n"
        "    assert 'devfix.simulate.pytest_plugin' in loaded\n"
        "    assert not loaded & {'devfix.simulate.processes', 'devfix.simulate.ending', 'devfix.pipeline.runner'}\n"
        "    import devfix.findings\n"
        "    assert 'Rewriting' not in type(devfix.findings.__loader__).__name__\n"
    )
    assert "1 passed" in run(tmp_path)


def test_torch_is_not_imported_for_tests_without_it(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\ndef test_plain():\n    assert 'torch' not in sys.modules\n"
    )
    assert "1 passed" in run(tmp_path, "--simulate-cuda=1")


def test_a_wrong_number(tmp_path: Path) -> None:
    assert "'0' is not a number of devices (1 to 64)" in run(tmp_path, "--simulate-cuda=0")
    for text in ("none", "65", "-1"):
        with pytest.raises(ArgumentTypeError):
            pytest_plugin._devices(text)


# Every way to end that pytest has besides functions: none of these needs a device.
CLASSES = '''
import asyncio, unittest, pytest

class Failing(unittest.TestCase):
    def test_assertion(self):
        self.assertEqual(1, 2)
    def test_error(self):
        {}["key"]
    def test_passing(self):
        pass
    def test_subtests(self):
        for number in range(4):
            with self.subTest(number=number):
                self.assertNotIn(number, (1, 3))
    def test_skipped_subtest(self):
        with self.subTest("one"):
            self.skipTest("not now")
        self.fail("after it")
    @unittest.expectedFailure
    def test_expected(self):
        self.fail("expected")
    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass
    @unittest.skip("never")
    def test_skipped(self):
        pass
    def test_raises_skip(self):
        raise unittest.SkipTest("raised")
    def test_chained(self):
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("chained") from error

class SkipInSetUp(unittest.TestCase):
    def setUp(self):
        self.skipTest("in setUp")
    def test_it(self):
        pass

class ErrorInSetUp(unittest.TestCase):
    def setUp(self):
        raise RuntimeError("in setUp")
    def test_it(self):
        pass

class ErrorInSetUpClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("in setUpClass")
    def test_one(self):
        pass
    def test_two(self):
        pass

class ErrorInTearDown(unittest.TestCase):
    def tearDown(self):
        raise RuntimeError("in tearDown")
    def test_passing(self):
        pass
    def test_failing(self):
        self.fail("and then")

class ErrorInTearDownClass(unittest.TestCase):
    @classmethod
    def tearDownClass(cls):
        raise RuntimeError("in tearDownClass")
    def test_it(self):
        pass

class CleanUps(unittest.TestCase):
    def test_it(self):
        self.addCleanup({}.pop, "key")

class Async(unittest.IsolatedAsyncioTestCase):
    async def test_passing(self):
        await asyncio.sleep(0)
    async def test_failing(self):
        await asyncio.sleep(0)
        self.fail("async")

@pytest.mark.asyncio
async def test_async():
    await asyncio.sleep(0)
    assert False, "async"

@pytest.fixture
def bad_end():
    yield
    raise RuntimeError("teardown of a fixture")

@pytest.fixture
def another_bad_end():
    yield
    raise ValueError("teardown of another")

def test_teardown(bad_end, another_bad_end):
    assert False

@pytest.mark.xfail(raises=KeyError)
def test_other_error_than_expected():
    raise ValueError

def test_skip():
    pytest.skip("here")

def test_exit_code():
    raise SystemExit(3)

def test_pytest_subtests(subtests):
    for number in range(3):
        with subtests.test(number=number):
            assert number != 1

def documented():
    """
    >>> 1 + 1
    3
    >>> {}["key"]
    1
    """
'''
RECORDER = """
import json

LINES = []

def pytest_runtest_logreport(report):
    LINES.append([report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail"), str(report.longrepr)])

def pytest_sessionfinish(session, exitstatus):
    with open("reports.json", "w") as file:
        json.dump([int(exitstatus), LINES], file)
"""


def test_every_kind_of_failure_is_reported_as_without_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RECORDER)
    (tmp_path / "test_classes.py").write_text(CLASSES)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers = asyncio\nasyncio_default_fixture_loop_scope = function\n"
    )
    reports = []
    for option in ((), ("--simulate-cuda=1",)):
        said = run(tmp_path, "--doctest-modules", *option)
        assert "INTERNALERROR" not in said, said
        text = (tmp_path / "reports.json").read_text()
        reports.append(json.loads(re.sub(r"0x[0-9a-f]+", "0x", text)))
    assert reports[1] == reports[0]
    assert reports[0][0] == 1 and len(reports[0][1]) > 60


REFUSED = '''
import unittest, torch

class Refused(unittest.TestCase):
    def test_plain(self):
        torch.cuda.CUDAGraph().debug_dump("")
    def test_subtests(self):
        for number in range(2):
            with self.subTest(number=number):
                if number:
                    torch.cuda.CUDAGraph().debug_dump("")
    def test_device_bug(self):
        torch.ones(2, device="cuda") + torch.ones(2)

def documented():
    """
    >>> graph = torch.cuda.CUDAGraph().debug_dump("")
    """

def documented_bug():
    """
    >>> torch.ones(2, device="cuda") + torch.ones(2)
    """
'''


def test_refusals_in_classes_and_doctests(tmp_path: Path, suites: Callable[..., Ran]) -> None:
    (tmp_path / "test_classes.py").write_text(REFUSED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    said = suites(
        tmp_path, "--simulate-cuda=1", "--doctest-modules", "-rs", "-o", "verbosity_subtests=1"
    ).text
    assert re.search(r"2 failed, [34] skipped", said), said
    assert said.count("RuntimeError: Expected all tensors to be on the same device") >= 2
    assert "/simulate/" not in said.partition("FAILURES ===")[2].partition("short test summary")[0], said


STRAYS = """
import pytest, torch

@pytest.fixture
def ready():
    torch.ones(2, device="cuda") - torch.ones(2)

def shifted(x):
    return x + torch.ones(2)

@pytest.mark.parametrize("value", [0, 1])
def test_shifted(value):
    assert shifted(torch.full((2,), value, device="cuda")).tolist() == [value + 1.0] * 2

def test_ready(ready):
    pass

def test_good():
    torch.ones(2, device="cuda") * 2
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_suite_that_goes_on(tmp_path: Path, workers: tuple[str, ...], suites: Callable[..., Ran]) -> None:
    (tmp_path / "test_strays.py").write_text(STRAYS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = suites(tmp_path, "--simulate-cuda=1", "--keep-going", "--junitxml=junit.xml", *workers)
    said = done.text + done.err
    assert "4 passed" in said and done.code == 1
    report = said.partition(" device errors ")[2]
    add, sub = report.index("test_strays.py:9: add: RuntimeError: "), report.index("test_strays.py:6: sub: ")
    assert "  stray: a tensor of shape [2] on cpu, made at test_strays.py:9\n" in report[add:sub]
    assert "  in test_strays.py::test_shifted[0], test_strays.py::test_shifted[1]\n" in report[add:sub]
    assert "  in test_strays.py::test_ready\n" in report[sub:]
    assert "2 distinct device errors, 3 in all, were carried out" in report
    junit = (tmp_path / "junit.xml").read_text()
    cases = dict(
        re.findall(r'<testcase [^>]*name="([^"]+)"(.*?)(?=<testcase|</testsuite>)', junit, re.DOTALL)
    )
    told = {name: rest.count('name="device_error"') for name, rest in cases.items()}
    assert told == {"test_shifted[0]": 1, "test_shifted[1]": 1, "test_ready": 1, "test_good": 0}


def test_a_suite_that_goes_on_without_errors_has_passed(tmp_path: Path, suites: Callable[..., Ran]) -> None:
    (tmp_path / "test_strays.py").write_text(STRAYS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert suites(tmp_path, "--keep-going").code == 4  # of wrong use
    assert suites(tmp_path, "--keep-going", "--simulate-cuda=1", "-k", "good").code == 0
