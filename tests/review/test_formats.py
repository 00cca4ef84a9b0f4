"""What machines read, read by their own readers."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from jsonschema import Draft202012Validator
from junitparser import JUnitXml
from sarif_pydantic import Sarif

ODD = "na me, %3A 'x' <ö>.py"
BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model.to(device)
    model.head = nn.Linear(4, 2)
    loader = torch.utils.data.DataLoader(torch.zeros(8, 4))
    for batch in loader:
        print(model(batch))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / ODD).write_text(BUG)
    (tmp_path / "twice.py").write_text(BUG + BUG.split("\n", 5)[5])
    (tmp_path / "broken.py").write_text("import torch\nx.to(device\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output(form: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["check", "--format", form, *more, "."]) == 2  # one file does not parse
    return capsys.readouterr().out


def findings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output("json", capsys))["findings"]
    assert len(found) >= 4
    return found


def test_json_is_as_its_schema_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads((files("devfix.review") / "schema-1.json").read_text())
    Draft202012Validator.check_schema(schema)
    document = json.loads(output("json", capsys))
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    document["findings"][0]["line"] = 0
    assert list(Draft202012Validator(schema).iter_errors(document))


def test_sarif(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    text = output("sarif", capsys)
    log = Sarif.model_validate_json(text)
    (run,) = log.runs
    assert run.results is not None and len(run.results) == len(found)
    rules = [rule.id for rule in run.tool.driver.rules or []]
    for result, finding in zip(run.results, found, strict=True):
        assert result.rule_id == finding["codemod"] == rules[result.rule_index or 0]
    (document,) = json.loads(text)["runs"]
    prints = [result["partialFingerprints"]["devfix/v1"] for result in document["results"]]
    assert len(set(prints)) == len(prints)
    assert any("codeFlows" in result and "fixes" in result for result in document["results"])
    (error,) = document["invocations"][0]["toolExecutionNotifications"]
    assert error["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in document["results"]}
    assert uris == {"pkg/na%20me%2C%20%253A%20%27x%27%20%3C%C3%B6%3E.py", "twice.py"}


def test_the_fixes_of_sarif_give_what_apply_gives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--format", "sarif", "--codemod", "reorder-to", "pkg"]) == 1
    document = json.loads(capsys.readouterr().out)
    (result,) = document["runs"][0]["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    lines = BUG.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + column - 1

    text = BUG
    for one in reversed(change["replacements"]):
        region = one["deletedRegion"]
        start = offset(region["startLine"], region["startColumn"])
        end = offset(region["endLine"], region["endColumn"])
        text = text[:start] + one["insertedContent"]["text"] + text[end:]
    main(["apply", "--codemod", "reorder-to", "pkg"])
    assert text == (folder / "pkg" / ODD).read_text() != BUG


def test_fingerprints_survive_moved_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def prints() -> list[tuple[str, str]]:
        return [(one["fingerprint"], one["check_name"]) for one in json.loads(output("gitlab", capsys))]

    before = prints()
    for name in (f"pkg/{ODD}", "twice.py"):
        path = folder / name
        path.write_text("# a line\n\n" + path.read_text())
    assert prints() == before


def test_gitlab(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    report = json.loads(output("gitlab", capsys))
    assert [(one["location"]["path"], one["location"]["lines"]["begin"]) for one in report] == [
        (finding["path"], finding["line"]) for finding in found
    ]
    assert len({one["fingerprint"] for one in report}) == len(report)


def test_junit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    xml = JUnitXml.fromstring(output("junit", capsys).encode())
    assert xml.failures == len(found)
    assert xml.errors == 1
    cases = [case for suite in xml for case in suite]
    assert len(cases) == len(found) + 1
    assert cases[0].result[0].message == found[0]["message"]
    (folder / "broken.py").unlink()
    for path in folder.rglob("*.py"):
        path.write_text("x = 1\n")
    assert main(["check", "--format", "junit", "."]) == 0
    xml = JUnitXml.fromstring(capsys.readouterr().out.encode())
    assert (xml.tests, xml.failures) == (1, 0)


def test_github(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    lines = output("github", capsys).splitlines()
    assert len(lines) == len(found) + 1
    first = lines[0]
    assert first.startswith("::warning file=pkg/na me%2C %253A 'x' <ö>.py,line=")
    assert "\n" not in first and "%0Afix (safe): " in "".join(lines)
    assert lines[-1].startswith("::error file=broken.py,title=devfix%3A parse::")


def test_statistics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys)
    main(["check", "--statistics", "."])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["codemod", "safe", "unsafe", "manual", "no", "fix", "all"]
    table = {row.split()[0]: row.split()[-1] for row in rows[: rows.index("")]}
    assert table == {
        id: str(sum(1 for finding in found if finding["codemod"] == id))
        for id in {finding["codemod"] for finding in found}
    }
