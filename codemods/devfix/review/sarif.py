"""SARIF 2.1.0: findings with their fixes, and the way from the other device as a code flow.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/. Columns count code points, from 1.
"""

from __future__ import annotations

import inspect
import json
import os
from typing import Any
from urllib.parse import quote

from devfix import __version__
from devfix.codemod import Codemod
from devfix.explain import REPOSITORY, page
from devfix.findings import Safety
from devfix.pipeline.selection import fingerprints, in_tree
from devfix.reports.report import FileError, Place, PlacedEdit, PlacedFinding, PlacedRelated, Report

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DRIVER = {"name": "devfix", "semanticVersion": __version__, "informationUri": REPOSITORY}


def render(report: Report) -> str:
    return json.dumps(document(report), indent=2)


def document(report: Report) -> dict[str, Any]:
    """The report as a SARIF log of one run."""
    from devfix.own.known import Known

    known = Known()
    ids = sorted({finding.codemod for result in report.results for finding in result.findings})
    rules = [_rule(known[id]) if id in known else {"id": id} for id in ids]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _DRIVER | {"rules": rules}},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    "SRCROOT": {"description": {"text": "The repository, or else the folder devfix ran in."}},
                },
                "invocations": [
                    {
                        "executionSuccessful": not report.errors,
                        "toolExecutionNotifications": [_notification(error) for error in report.errors],
                    }
                ],
                "results": [
                    _result(path, finding, print_, ids.index(finding.codemod))
                    for path, finding, print_ in fingerprints(report)
                ],
            }
        ],
    }


def _rule(kind: type[Codemod]) -> dict[str, Any]:
    text = inspect.getdoc(kind) or kind.id
    title, _, rest = text.partition("\n")
    address = page(kind)
    return {
        "id": kind.id,
        **({"helpUri": address} if address else {}),
        "shortDescription": {"text": title.strip()},
        "fullDescription": {"text": _paragraph(rest) or title.strip()},
        "help": {"text": text, "markdown": f"# {text}"},
        "defaultConfiguration": {"level": "warning", "enabled": kind.default},
        "properties": {"tags": ["pytorch", "device"], "precision": "high"},
    }


def _paragraph(text: str) -> str:
    """The first paragraph below the first heading, on one line."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#"):
            if lines:
                break
        elif line.strip():
            lines.append(line.strip())
        elif lines:
            break
    return " ".join(lines)


def _result(path: str, finding: PlacedFinding, print_: str, index: int) -> dict[str, Any]:
    here = _location(path, finding.place)
    if finding.scope:
        here["logicalLocations"] = [{"fullyQualifiedName": finding.scope}]
    found: dict[str, Any] = {
        "ruleId": finding.codemod,
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": finding.message},
        "locations": [here],
        "partialFingerprints": {"devfix/v1": print_},
    }
    related = [other for other in finding.related if other.line]
    if related:
        found["relatedLocations"] = [
            {"id": number, **_related(path, other)} for number, other in enumerate(related, 1)
        ]
        steps = [{"location": _related(path, other)} for other in related]
        last = {"location": {**_location(path, finding.place), "message": {"text": finding.message}}}
        found["codeFlows"] = [{"threadFlows": [{"locations": [*steps, last]}]}]
    fix = finding.fix
    if fix is not None and fix.safety > Safety.MANUAL and not finding.place.cell:
        found["fixes"] = [
            {
                "description": {"text": f"{fix.title} ({fix.safety.label})"},
                "artifactChanges": _changes(path, fix.edits),
            }
        ]
    if fix is not None:
        found["properties"] = {"safety": fix.safety.label}
    return found


def _changes(path: str, edits: tuple[PlacedEdit, ...]) -> list[dict[str, Any]]:
    by_path: dict[str, list[dict[str, Any]]] = {}
    for edit in edits:
        by_path.setdefault(edit.path or path, []).append(
            {"deletedRegion": _region(edit.place), "insertedContent": {"text": edit.text}}
        )
    return [
        {"artifactLocation": _artifact(name), "replacements": replacements}
        for name, replacements in by_path.items()
    ]


def _location(path: str, place: Place) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(path), "region": _region(place)}}


def _related(path: str, other: PlacedRelated) -> dict[str, Any]:
    region = {"startLine": other.line, "startColumn": max(other.column, 1)}
    return {
        "physicalLocation": {"artifactLocation": _artifact(other.path or path), "region": region},
        "message": {"text": other.message},
    }


def _region(place: Place) -> dict[str, int]:
    if place.cell:  # columns are those of the cell's own text
        return {"startLine": place.line, "endLine": max(place.line, place.end_line)}
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _artifact(path: str) -> dict[str, str]:
    name = in_tree(path)
    uri = quote(os.fsencode(name))  # bytes that are no UTF-8 are percent-encoded as they are
    return {"uri": f"file://{uri}"} if os.path.isabs(name) else {"uri": uri, "uriBaseId": "SRCROOT"}


def _notification(error: FileError) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": f"{error.stage}: {error.message}"},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(error.path)}}],
    }
