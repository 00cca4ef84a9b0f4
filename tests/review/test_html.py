"""The review page as bytes and data: complete, safe, and true to what `apply` does."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.codemod import registry
from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.pipeline.selection import Selection, prints
from devfix.reports.report import (
    Change,
    FileError,
    FileResult,
    Place,
    PlacedEdit,
    PlacedFinding,
    PlacedFix,
    PlacedRelated,
    Report,
    Skipped,
)
from devfix.review.html import render
from devfix.review.html.colours import Colours

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))
"""
LOOP = (
    HEAD
    + """\
model = nn.Linear(4, 2).to(device)
for (x,) in loader:
    print(model(x))
for (y,) in loader:
    print(model(y))
"""
)
HEADS = (
    HEAD
    + '''\
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.head = nn.Linear(4, 2)
"""A string
with lines."""
for (x,) in loader:
    print(model(x))
'''
)


class Elements(HTMLParser):
    """The elements of a page: tag and attributes, in order, and what stands in scripts and styles."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.texts: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append("")

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style"):
            self.inside[-1] += data
        else:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", {}))

    def script(self, id: str) -> Any:
        scripts = [attributes for tag, attributes in self.found if tag in ("script", "style")]
        return json.loads(self.inside[[one.get("id") for one in scripts].index(id)])


def index(page: bytes) -> Any:
    return Elements(page).script("index")


def body(page: bytes, number: int) -> Any:
    return Elements(page).script(f"body-{number}")


def analysed(level: Safety = Safety.UNSAFE, only: frozenset[str] | None = None) -> Report:
    codemods = [registry()[name]() for name in ("reorder-to", "move-inputs")]
    return run(discover(["."]), codemods, level, jobs=1, selection=Selection(only=only) if only else None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- what is shown is what is made -------------------------------------------------------------------


def lines_with(found: Any, base: list[str], chosen: set[int]) -> list[str]:
    """A file as the page shows it, when these findings are accepted and the others rejected."""
    lines = list(base)
    for hunk in reversed(found["hunks"]):
        for block in reversed(hunk["blocks"]):
            mask = sum(1 << at for at, owners in enumerate(block["owners"]) if chosen & set(owners))
            if not mask:
                continue
            low = hunk["at"]
            made = []
            for row in block["rows"][str(mask)]:
                if isinstance(row, list):
                    made.append(row[0])
                elif row >= 0:
                    made.append(hunk["lines"][row][0])
            start = low + block["at"]
            lines[start : start + block["n"]] = made
    return lines


@pytest.mark.parametrize("text", [LOOP, HEADS, LOOP.replace("\n", "\r\n"), HEADS.removesuffix("\n")])
def test_every_choice_of_fixes_is_shown_as_apply_makes_it(folder: Path, text: str) -> None:
    (folder / "a.py").write_bytes(text.encode())
    (folder / "b.py").write_bytes(text.encode())
    report = analysed()
    page = render(report)
    found = index(page)["findings"]
    assert len(found) == 4
    for count in range(len(found) + 1):
        for chosen in itertools.combinations(range(len(found)), count):
            made = analysed(only=frozenset(found[number]["id"] for number in chosen) or frozenset(["none"]))
            for number, name in enumerate(("a.py", "b.py")):
                result = next((one for one in made.results if one.path == name and one.changed), None)
                after = (result.after if result else text.encode()).decode().splitlines()
                assert lines_with(body(page, number), text.splitlines(), set(chosen)) == after


def test_the_page_knows_what_decisions_need(folder: Path) -> None:
    (folder / "a.py").write_text(LOOP)
    report = analysed()
    data = index(render(report))
    assert [one["id"] for one in data["findings"]] == list(prints("a.py", report.results[0].findings))
    assert data["digests"] == {"a.py": hashlib.sha256(LOOP.encode()).hexdigest()}
    assert {one["safety"] for one in data["findings"]} == {"safe"}
    (folder / "a.py").write_text(LOOP + "# more\n")
    assert index(render(analysed()))["id"] != data["id"]


def test_unsafe_fixes_are_there_at_the_safe_level_too(folder: Path) -> None:
    (folder / "a.py").write_text(HEADS)
    page, wider = render(analysed(Safety.SAFE)), render(analysed(Safety.UNSAFE))
    assert index(page)["findings"] == index(wider)["findings"]
    assert body(page, 0)["hunks"] == body(wider, 0)["hunks"]


def test_colours_cover_each_line() -> None:
    text = 'x = 1\ndef f():\n    """doc\n    more # no\n    """\n'
    text += "    return \"a\" + '''b\nc''' # c\ny = \"\"\"open\nstill"
    lines = text.split("\n")
    runs = Colours("a.py", text).runs(lines)
    assert [sum(map(int, re.findall(r"\d+", run))) for run in runs] == [len(line) for line in lines]
    assert runs[3] == "s13" and runs[5] == "p4k6p1s3p3s4" and runs[6] == "s4p1c3" and runs[8] == "s5"
    begun = Colours("a.py", text).begun(text, text.index("    more"))
    assert Colours("a.py", text).runs(lines[3:5], begun) == ["s13", "s7"]


# --- all that can be in a report -------------------------------------------------------------------


def finding(line: int, message: str = "m", fix: PlacedFix | None = None, **more: Any) -> PlacedFinding:
    code = more.pop("code", "")
    return PlacedFinding("reorder-to", message, Place(line, 1, line, 2), fix=fix, code=code, **more)


def fix(*edits: PlacedEdit, safety: Safety = Safety.SAFE) -> PlacedFix:
    return PlacedFix("do it", safety, edits)


def test_what_cannot_be_decided_is_shown_with_the_reason(folder: Path) -> None:
    (folder / "a.py").write_text("a\nb\nc\nd\n")
    edit = PlacedEdit(Place(2, 1, 2, 2), "B")
    found = (
        finding(1, "without"),
        finding(2, "by hand", fix(edit, safety=Safety.MANUAL)),
        finding(3, "refused", refusal="a semicolon"),
        finding(4, "good", fix(PlacedEdit(Place(4, 1, 4, 2), "D"))),
    )
    broken = FileResult("b.py", (finding(1, "x", fix(edit)),), error=FileError("b.py", "verify", "it broke"))
    (folder / "b.py").write_text("a\nb\n")
    report = Report(
        (FileResult("a.py", found), broken),
        (FileError("c.py", "parse", "line <1>"),),
        (Skipped("d.py", "why"),),
    )
    page = render(report)
    data = index(page)
    why = [one["why"] for one in data["findings"]]
    assert why[0].startswith("No fix") and why[1].startswith("Only a proposal") and why[3] == ""
    assert "a semicolon" in why[2] and "it broke" in why[4]
    assert data["digests"].keys() == {"a.py"}
    (block,) = [
        block for hunk in body(page, 0)["hunks"] for block in hunk["blocks"] if block["owners"] == [[1]]
    ]
    assert [row[0] for row in block["rows"]["1"] if isinstance(row, list)] == ["B"]
    text = "".join(Elements(page).texts)
    assert "line <1>" in text and "d.py" in text and "4 file" not in text


def test_the_verdict_of_the_smoke_test(folder: Path) -> None:
    (folder / "a.py").write_text("a\n")
    change = Change("reorder-to", "m", "do it", Safety.SAFE, ((0, 0),), verdict="verified: cuda (simulated)")
    one = finding(1, fix=fix(PlacedEdit(Place(1, 1, 1, 2), "A")))
    data = index(render(Report((FileResult("a.py", (one,), changes=(change,)),))))
    assert data["findings"][0]["verdict"] == "verified: cuda (simulated)"


def test_a_fix_over_several_files(folder: Path) -> None:
    (folder / "a.py").write_text("here = old\n")
    (folder / "there.py").write_text("x = 1\nthere = old\n")
    edits = (
        PlacedEdit(Place(1, 8, 1, 11), "new"),
        PlacedEdit(Place(2, 9, 2, 12), "new", "there.py"),
        PlacedEdit(Place(1, 1, 1, 1), "new = 1\n", "made.py"),
    )
    page = render(Report((FileResult("a.py", (finding(1, fix=fix(*edits)),)),)))
    data = index(page)
    assert [(file["name"], file["made"], file["findings"], file["parts"]) for file in data["files"]] == [
        ("a.py", False, [0], []),
        ("there.py", False, [], [0]),
        ("made.py", True, [], [0]),
    ]
    assert data["findings"][0]["also"] == [[1, 1], [2, -1]] and data["digests"].keys() == {"a.py", "there.py"}
    after = [
        lines_with(body(page, number), base, {0})
        for number, base in enumerate((["here = old"], ["x = 1", "there = old"], []))
    ]
    assert after == [["here = new"], ["x = 1", "there = new"], ["new = 1"]]


def test_fixes_of_the_same_code_wait_for_each_other(folder: Path) -> None:
    (folder / "a.py").write_text("a = b\n")
    one = finding(1, "one", fix(PlacedEdit(Place(1, 5, 1, 6), "c")))
    two = finding(1, "two", fix(PlacedEdit(Place(1, 1, 1, 6), "d")))
    page = render(Report((FileResult("a.py", (one, two)),)))
    assert [found["after"] for found in index(page)["findings"]] == [[], [0]]
    assert lines_with(body(page, 0), ["a = b"], {0}) == ["a = c"]
    assert lines_with(body(page, 0), ["a = b"], {1}) == ["d"]


def test_an_import_that_two_fixes_want_is_one_edit_with_two_owners(folder: Path) -> None:
    (folder / "a.py").write_text("import os\na\nb\n")
    shared = PlacedEdit(Place(2, 1, 2, 1), "import torch\n")
    found = tuple(finding(line, fix=fix(shared, PlacedEdit(Place(line, 1, line, 2), "X"))) for line in (2, 3))
    page = render(Report((FileResult("a.py", found),)))
    base = ["import os", "a", "b"]
    assert lines_with(body(page, 0), base, {1}) == ["import os", "import torch", "a", "X"]
    assert lines_with(body(page, 0), base, {0, 1}) == ["import os", "import torch", "X", "X"]


def test_a_file_that_changed_meanwhile_is_not_decided_on(folder: Path) -> None:
    (folder / "a.py").write_text("other = 1\n")
    one = finding(1, fix=fix(PlacedEdit(Place(1, 1, 1, 2), "A")), code="x = 1")
    data = index(render(Report((FileResult("a.py", (one,)), FileResult("gone.py", (one,))))))
    assert "not what devfix read" in data["findings"][0]["why"]
    assert data["findings"][1]["why"] and data["digests"] == {}


def test_it_is_said_where_a_repair_leads_to_the_next(folder: Path) -> None:
    (folder / "a.py").write_text("a\nb\n")
    one = finding(1, fix=fix(PlacedEdit(Place(1, 1, 1, 2), "A")))
    for after, noted in ((b"A\nb\n", 0), (b"A\nB\n", 1)):
        result = FileResult("a.py", (one,), before=b"a\nb\n", after=after, digest="x")
        assert len(body(render(Report((result,))), 0)["notes"]) == noted


def test_a_notebook_is_shown_by_cells(folder: Path) -> None:
    sources = ["%matplotlib inline\n" + HEAD, LOOP[len(HEAD) :]]
    cells = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": text.splitlines(True),
        }
        for text in sources
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "n.ipynb").write_text(json.dumps(notebook, indent=1))
    page = render(analysed())
    data = index(page)
    assert [one["where"] for one in data["findings"]] == ["cell 2, line 2", "cell 2, line 4"]
    (hunk,) = [hunk for hunk in body(page, 0)["hunks"] if hunk["blocks"]]
    assert (hunk["cell"], hunk["no"]) == (2, 1)
    lines = LOOP[len(HEAD) :].splitlines()
    assert [line for line, _ in hunk["lines"]] == lines
    assert body(page, 0)["notes"] == []
    hunk["at"] = 0
    assert lines_with({"hunks": [hunk]}, lines, {0, 1})[2] == "    x = x.to(device)"


def test_related_places(folder: Path) -> None:
    (folder / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 60)))
    (folder / "b.py").write_text("elsewhere\n")
    related = (
        PlacedRelated("", 50, 1, "here"),
        PlacedRelated("b.py", 1, 1, "there"),
        PlacedRelated("b.py", 0, 0, "x"),
    )
    page = render(
        Report((FileResult("a.py", (finding(3, related=related),)), FileResult("b.py", (finding(1),))))
    )
    here, there, unknown = index(page)["findings"][0]["related"]
    assert (here["file"], here["line"], here["where"], here["code"]) == (0, 49, "line 50", "line 50")
    assert (there["file"], there["line"], there["where"]) == (1, -1, "b.py, line 1")
    assert (unknown["file"], unknown["where"]) == (1, "b.py")
    assert [hunk["see"][1] - hunk["see"][0] for hunk in body(page, 0)["hunks"]] == [6, 3]


# --- safe ------------------------------------------------------------------------------------------

EVIL = "</script><script>window.evil=1</script><!--<img src=x onerror=window.evil=1>"


def test_nothing_from_a_repository_is_markup(folder: Path) -> None:
    name = os.fsdecode(b"</script><b>\xff\x07.py")
    code = f"x = '{EVIL}'  # \u202e\x1b[31m {{{{ 7*7 }}}}\n"
    text = code.encode()
    one = finding(1, EVIL + "\u202e\x07{{ 7*7 }}", fix(PlacedEdit(Place(1, 1, 1, 2), EVIL)), scope=EVIL)
    report = Report((FileResult(name, (one,)),), (FileError(name, EVIL, EVIL),), (Skipped(name, EVIL),))
    page = render(report, read=lambda path: text, command=EVIL, paths=EVIL, name=name)
    harmless = render(Report((FileResult("a.py", (finding(1),)),)), read=lambda path: b"x\n")
    tags = [tag for tag, _ in Elements(page).found]
    allowed = Counter(tag for tag, _ in Elements(harmless).found)
    assert {"b", "img"}.isdisjoint(tags)
    assert tags.count("script") == tags.count("/script") == allowed["script"]
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", page) and "\u202e" not in page.decode()
    data = index(page)
    assert data["files"][0]["name"] == r"</script><b>\xff\x07.py"
    assert data["findings"][0]["why"] == ""
    ((key, _),) = data["digests"].items()
    assert os.fsencode(key) == b"</script><b>\xff\x07.py"
    assert r"\u202e" in data["findings"][0]["message"] and "{{ 7*7 }}" in data["findings"][0]["message"]
    (line, _) = body(page, 0)["hunks"][0]["lines"][0]
    assert r"\u202e\x1b[31m" in line


def test_the_page_loads_nothing_and_runs_only_its_own_script(folder: Path) -> None:
    (folder / "a.py").write_text(LOOP)
    page = Elements(render(analysed()))
    policy = next(a["content"] for tag, a in page.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "http" not in policy
    kinds = [(tag, a.get("type")) for tag, a in page.found if tag in ("script", "style")]
    for (tag, kind), text in zip(kinds, page.inside, strict=True):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert kind == "application/json" or f"{tag}-src 'sha256-{digest}'" in policy
    for tag, attributes in page.found:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "action")
        ], tag
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    code = page.inside[0] + page.inside[-1]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|@import|url\(|fetch\(|XMLHttp", code
    )


def test_ids_are_unique_and_fields_have_labels(folder: Path) -> None:
    (folder / "a.py").write_text(LOOP)
    found = Elements(render(analysed())).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in found:
        for name in ("for", "aria-labelledby", "aria-controls"):
            assert attributes.get(name, ids[0]) in ids
    assert [tag for tag, _ in found if tag in ("header", "nav", "main", "footer", "h1")] == [
        "header", "nav", "main", "h1", "footer",
    ]  # fmt: skip


# --- the command -------------------------------------------------------------------------------------


def test_diff_writes_the_page(folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    (folder / "a.py").write_text(HEADS)
    assert main(["diff", "--format", "html", "-o", "r.html", "."]) == 1
    page = (folder / "r.html").read_bytes()
    assert b"r.html is ready" in capsysbinary.readouterr().err
    assert main(["diff", "--format", "html", "--project-root", ".", "."]) == 1
    other = capsysbinary.readouterr().out
    assert index(page)["command"] == "devfix apply" and index(page)["paths"] == "."
    assert index(other)["command"] == "devfix apply --project-root ."
    assert index(page)["id"] == index(other)["id"]
    assert (folder / "a.py").read_text() == HEADS
    (folder / "a.py").write_text("x = 1\n")
    assert main(["diff", "--format", "html", "-o", "r.html", "."]) == 0
    assert b"Nothing found" in (folder / "r.html").read_bytes()


def test_the_page_of_a_program_that_was_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text(LOOP)
    (folder / "b.py").write_text(LOOP)
    command = f"{sys.executable} a.py"
    assert main(["diff", "--format", "html", "-o", "r.html", "--smoke-cmd", command, "."]) == 1
    said = [one["verdict"] for one in index((folder / "r.html").read_bytes())["findings"]]
    assert len(said) == 4 and said[0] == said[1] and said[2] == said[3] != said[0]
    assert said[0].startswith(("verified: ", "not run: ")) and said[2].startswith("not run: ")
    assert said[0] in capsys.readouterr().err
    assert main(["diff", "--smoke-cmd", command, "."]) == 2


@pytest.mark.parametrize("more", [["--by", "fix", "."], ["--split", "d", "."], ["--explain", "."], ["-"]])
def test_what_makes_no_page(folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text(LOOP)
    assert main(["diff", "--format", "html", *more]) == 2
    assert "--format html" in capsys.readouterr().err and not (folder / "d").exists()


@pytest.mark.parametrize("library", ["jinja2", "pygments"])
def test_a_library_is_missing(
    folder: Path, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text(LOOP)
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["diff", "--format", "html", "-o", "r.html", "."]) == 2
    message = capsys.readouterr().err
    assert library in message and "pip install 'devfix[html]'" in message and not (folder / "r.html").exists()
