"""GitLab's code quality report: https://docs.gitlab.com/ci/testing/code_quality/."""

from __future__ import annotations

import json

from devfix.pipeline.selection import fingerprints, in_tree
from devfix.reports.report import Report


def render(report: Report) -> str:
    """A JSON list with one object for each finding."""
    return json.dumps(
        [
            {
                "description": finding.message,
                "check_name": finding.codemod,
                "fingerprint": print_,
                "severity": "major",
                "location": {
                    "path": in_tree(path),
                    "lines": {"begin": finding.place.line, "end": finding.place.end_line},
                },
            }
            for path, finding, print_ in fingerprints(report)
        ],
        indent=2,
    )
