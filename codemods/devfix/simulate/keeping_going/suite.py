"""`pytest --simulate-cuda --keep-going`: the device errors of each test, and one report at the end of the session."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

from devfix.reports.observed import At, Operand, Seen, as_json, of_json, together
from devfix.simulate.processes import PLACE

PROPERTY = "device_error"
_HIDDEN = "devfix_device_errors"  # what workers of pytest-xdist send to the session


class Suite:
    """The plugin of a session, or of a worker of pytest-xdist."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.tests: dict[tuple[object, ...], list[str]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, None]:
        """What was seen in the phase of a test that has ended goes with its report."""
        outcome = yield
        found = _taken()
        if found:
            report = outcome.get_result()
            setattr(report, _HIDDEN, [as_json(seen) for seen in found])
            told = [(PROPERTY, _line(seen)) for seen in found]
            item.user_properties += told  # of the phases to come
            report.user_properties = [*report.user_properties, *told]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """In the session itself, also for tests that a worker has run."""
        for item in getattr(report, _HIDDEN, ()):
            seen = of_json(item)
            self.seen.append(seen)
            tests = self.tests.setdefault(seen.key, [])
            if report.nodeid not in tests:
                tests.append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        found = together([*self.seen, *_taken()])  # what is left was seen while tests were collected
        if not found:
            return
        from devfix.review import device_errors

        terminalreporter.section("device errors")
        report = device_errors.analysed(device_errors.files_of(found, ()))
        for seen, row in zip(found, device_errors.rows(found, report), strict=True):
            for line in device_errors.text([seen], [row]):
                terminalreporter.write_line(line)
            tests = self.tests.get(seen.key, ())
            if tests:
                more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
                terminalreporter.write_line(f"  in {', '.join(tests[:3])}{more}")
        total = sum(seen.count for seen in found)
        terminalreporter.write_line(f"{len(found)} distinct device errors, {total} in all, were carried out")

    def pytest_sessionfinish(self, session: Any) -> None:
        """Tests that have gone on after a device error have passed, and the suite has not."""
        if self.seen and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _of_test(seen: Seen) -> bool:
    """With --place all: is an error the test's own, since it has made the stray, or reads a result as an array?

    Or is it that of a module that was never placed, or does the test itself read what a module keeps for itself? None
    of these says anything about the package.
    """
    from devfix.simulate.keeping_going.placing import of_tests

    def in_tests(at: At | None) -> bool:
        return at is not None and of_tests(at.path)

    if "to numpy" in seen.error and in_tests(seen.at):
        return True

    handed_in = {one.operand for frame in seen.passed if in_tests(frame.at) for one in frame.found}

    def is_own(number: int, stray: Operand) -> bool:
        if stray.made is None:  # by TorchScript, or in C++
            return in_tests(seen.at) or stray.given or number in handed_in
        if in_tests(seen.at) and stray.owner and not stray.computed:
            return True
        never_placed = stray.kind == "parameter" and stray.moved is None and not stray.owner
        return stray.device == "cpu" and (in_tests(stray.made) or stray.given or never_placed)

    strays = [(number, one) for number, one in enumerate(seen.operands) if one.stray]
    return bool(strays) and all(is_own(*one) for one in strays)


def _taken() -> tuple[Seen, ...]:
    if "torch" not in sys.modules:
        return ()
    from devfix.simulate.keeping_going import recording

    found = together([of_json(item) for item in recording.taken()])
    return tuple(one for one in found if not (os.environ.get(PLACE) and _of_test(one)))


def _line(seen: Seen) -> str:
    at = f"{seen.at.path}:{seen.at.line}: " if seen.at is not None else ""
    return f"{at}{seen.operation}: {seen.error} ({seen.count} times)"
