"""JUnit XML, for everything that can show test results: a file is a test suite, a finding a failure."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from devfix.pipeline.selection import in_tree
from devfix.reports.report import FileError, FileResult, PlacedFinding, Report
from devfix.review.text import plain, printable

# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INSTEAD = "\ufffd"


def render(report: Report) -> str:
    """One suite for each file with findings or an error, and one that passes if there is none."""
    suites = [_suite(result) for result in report.results if result.findings]
    suites += [_error(error) for error in report.errors]
    if not suites:
        suites = [
            '  <testsuite name="devfix" tests="1" failures="0" errors="0">\n'
            '    <testcase classname="devfix" name="no findings"/>\n  </testsuite>'
        ]
    counts = f'tests="{report.findings + len(report.errors) or 1}" failures="{report.findings}"'
    head = f'<testsuites name="devfix" {counts} errors="{len(report.errors)}" time="{report.seconds:.3f}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"])


def _suite(result: FileResult) -> str:
    name = _attribute(in_tree(result.path))
    count = len(result.findings)
    cases = "\n".join(_case(result.path, finding) for finding in result.findings)
    head = f'  <testsuite name={name} tests="{count}" failures="{count}" errors="0">'
    return f"{head}\n{cases}\n  </testsuite>"


def _case(path: str, finding: PlacedFinding) -> str:
    place = finding.place
    where = f"{printable(in_tree(path))}:{place.line}:{place.column}"
    text = f"{where}: {printable(finding.message)}{plain(path, finding)}"
    name = _attribute(f"{finding.codemod} line {place.line} column {place.column}")
    return (
        f"    <testcase classname={_attribute(in_tree(path))} name={name} file={_attribute(in_tree(path))}"
        f' line="{place.line}">\n      <failure type={_attribute(finding.codemod)}'
        f" message={_attribute(finding.message)}>{escape(_FORBIDDEN.sub(_INSTEAD, text))}</failure>\n    </testcase>"
    )


def _error(error: FileError) -> str:
    name = _attribute(in_tree(error.path))
    return (
        f'  <testsuite name={name} tests="1" failures="0" errors="1">\n'
        f"    <testcase classname={name} name={_attribute(error.stage)}>\n"
        f"      <error type={_attribute(error.stage)} message={_attribute(error.message)}/>\n"
        "    </testcase>\n  </testsuite>"
    )


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub(_INSTEAD, printable(text)))
