"""`pytest --simulate-cuda[=N]` and `--simulate-device KIND`: a test suite on simulated devices.

Without an option nothing of devfix is loaded but this module, and torch never is. With it, `import
torch` ends with simulated devices in this process and in all that it starts, the workers of
pytest-xdist among them. A test that needs what the simulator cannot do is skipped: it says nothing.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Generator
from typing import Any, NoReturn

import pytest  # which has loaded this module

OPTION = "simulate_cuda"
DEVICE = "simulate_device"
KEEP_GOING = "devfix_keep_going"
PLACE = "devfix_place"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("devfix")
    group.addoption(
        "--keep-going",
        dest=KEEP_GOING,
        action="store_true",
        help="with simulated devices: note every device error, carry it out, and report all of them at the end",
    )
    group.addoption(
        "--place",
        dest=PLACE,
        choices=["all"],
        help="with --keep-going: put the tensors and modules that tests make on the first device",
    )
    group.addoption(
        "--simulate-cuda",
        dest=OPTION,
        nargs="?",
        const=1,
        default=None,
        type=_devices,
        metavar="N",
        help="run on N (default: 1) CUDA devices that devfix simulates on the CPU; write --simulate-cuda=N",
    )
    group.addoption(
        "--simulate-device",
        dest=DEVICE,
        choices=["mps", "xpu", "privateuseone"],
        help="run on a device that is not CUDA, and that devfix simulates on the CPU",
    )
    group.addoption(
        "--simulate-mps",
        dest=DEVICE,
        action="store_const",
        const="mps",
        help="the same as --simulate-device mps: a Mac's GPU",
    )


def _devices(text: str) -> int:
    if text.isdigit() and 1 <= int(text) <= 64:
        return int(text)
    raise ArgumentTypeError(
        f"{text!r} is not a number of devices (1 to 64); the option stands after the paths, or as --simulate-cuda=N"
    )


def pytest_load_initial_conftests(early_config: Any) -> None:
    """The first of all hooks: before a conftest.py can import torch."""
    # pytest would rewrite the asserts of every package that has a plugin: all modules of devfix, which takes a second.
    getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", set()).discard("devfix")
    devices = getattr(early_config.known_args_namespace, OPTION, None)
    kind = getattr(early_config.known_args_namespace, DEVICE, None) or "cuda"
    keep_going = getattr(early_config.known_args_namespace, KEEP_GOING, False)
    place = getattr(early_config.known_args_namespace, PLACE, None)
    if kind != "cuda":
        if devices is not None:
            raise pytest.UsageError(f"--simulate-device {kind} and --simulate-cuda exclude each other")
        devices = 1
    if devices is None and keep_going:
        raise pytest.UsageError("--keep-going is for --simulate-cuda and --simulate-device")
    if place and not keep_going:
        raise pytest.UsageError("--place is for --keep-going")
    if devices is None:
        return
    import os

    from devfix.simulate import processes

    def fail(error: Exception) -> NoReturn:
        pytest.exit(f"devfix cannot simulate devices: {error}", returncode=4)

    reports = os.environ.get(processes.REPORTS, "")
    tests = (*early_config.getini("python_files"), "conftest.py") if place else ()
    os.environ.update(
        processes.environment(devices, reports, device=kind, keep_going=keep_going, place=tests)
    )
    processes.arm(fail)
    early_config.pluginmanager.register(_Simulation(devices, kind), "devfix-simulation")
    if keep_going:
        from devfix.simulate.keeping_going.suite import Suite

        early_config.pluginmanager.register(Suite(), "devfix-keep-going")


class _Simulation:
    """What is done in a session with simulated devices."""

    def __init__(self, devices: int, kind: str) -> None:
        self.devices, self.kind = devices, kind
        self.before = self.refusals = 0  # when the test began, and after its last part

    def pytest_report_header(self) -> str:
        if self.kind != "cuda":
            return f"devfix: a device of type {self.kind}, simulated"
        return (
            f"devfix: {self.devices} CUDA device{'s' * (self.devices > 1)}, simulated where there is no GPU"
        )

    @pytest.hookimpl(specname="pytest_runtest_makereport")
    def pytest_without_own_frames(self, call: Any) -> None:
        """Comes after the part of unittest's plugin that sets `call.excinfo`, and before the report is made."""
        if call.excinfo is None:
            return
        from devfix.simulate import ending

        error = call.excinfo.value
        if ending.hide(error) and error.__traceback__ is not None:
            call.excinfo = type(call.excinfo).from_exception(error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self.before = self.refusals = _refusals()[0]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, None]:
        outcome = yield
        report: pytest.TestReport = outcome.get_result()
        before = self.refusals if call.when == "teardown" else self.before  # a subtest's are the test's, too
        self.refusals, last = _refusals()
        if report.skipped:
            return
        refusals = [last] if self.refusals > before else []  # the test, or what it tests, may have caught it
        if call.excinfo is not None:
            from devfix.simulate import ending
            from devfix.simulate.errors import is_refusal

            refusals += [text for text in map(str, ending.chain(call.excinfo.value)) if is_refusal(text)]
        if refusals:
            path, line, _ = item.reportinfo()
            report.outcome = "skipped"
            report.longrepr = (str(path), (line or 0) + 1, f"not checked: {refusals[-1]}")


def _refusals() -> tuple[int, str]:
    """How many there were in this process, and what the last one says."""
    import sys

    module = sys.modules.get("devfix.simulate.machine")  # once torch is there
    return (module.stats.refusals, module.stats.last_refusal) if module else (0, "")
