"""The report of a campaign: numbers, what is hostile in it, and the page in a real browser."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.migrate import folders, state
from devfix.migrate.exports import FIELDS, as_csv
from devfix.migrate.model import STATES, Artefact, Count, Head, Job, Outcome, Settings, Source
from devfix.migrate.summary import alike, points, summary

EVIL = "</style><script>window.evil=1</script><img src=x onerror=window.evil=1>\u202e\x1b[31m@all | [x](javascript:1) `"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROBES = (Path(__file__).parent.parent / "review" / "page_probes.js").read_text(encoding="utf-8")


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve repositories in every state but those of a moment."""
    monkeypatch.chdir(tmp_path)
    campaign = tmp_path / "camp <b>"
    folders.make_campaign(str(campaign))
    clock = [1_700_000_000.0]

    def tick() -> float:
        clock[0] += 3600
        return clock[0]

    monkeypatch.setattr(state.time, "time", tick)
    names = ["a/plain", f"a/{EVIL}", *(f"a/r{n}" for n in range(10))]
    found = [(f"r-{n}", name, Source(f"https://example.org/{n}")) for n, name in enumerate(names)]
    found.append(("skipped", "a/skipped", Source("https://example.org/s", skip="is nobody's")))
    with state.Store(str(campaign / folders.DATABASE), make=True) as store:
        store.start(Settings("camp <b>", "devfix/camp"), found)

        def end(n: int, outcome: Outcome) -> None:
            job: Job = store.job(f"r-{n}")
            store.begin(job.id, "clone", "cloning")
            head = Head("c" * 40, branch="main")
            store.end(job, Outcome("clone", "analysing", head=head))
            store.begin(job.id, "analyse", "analysing")
            if outcome.log:
                outcome = replace(
                    outcome, artefacts=(*outcome.artefacts, Artefact("log.txt", outcome.log.encode()))
                )
            folders.keep(str(campaign), job.id, outcome.artefacts)
            store.end(job, replace(outcome, head=head))

        made = Outcome("analyse", "changed", counts=(Count("reorder-to", 3, 2, 1),), commit="d" * 40,
                       subject="Fix device placement", files=4, changed=2,
                       artefacts=(Artefact("review.html", b"<p>page"), Artefact("changes.patch", b"p")))  # fmt: skip
        end(0, made)
        end(1, replace(made, subject=EVIL, notes=(EVIL,)))
        end(2, replace(made, state="verified", verified="`make test` passes before and after the change"))
        end(3, made)
        store.change(
            "r-3", "push", state="pushed", pushed="d" * 40, pull_request="https://example.org/pull/3"
        )
        end(4, made)
        store.change("r-4", "push", state="pushed", pushed="d" * 40, pull_request="javascript:window.evil=1")
        for n in (5, 6, 7):
            failed = f"git fetch: fatal: '/srv/{n}.git' is {n} MiB"
            end(n, Outcome("analyse", "failed", failed, log=f"line\n{EVIL}\n" * n))
        end(8, replace(made, state="failed", commit="", reason="`make test` fails after it", log=EVIL))
        end(9, Outcome("analyse", "nothing-to-do", "=HYPERLINK(1)"))
        store.change("r-9", "merged", state="merged")
        end(10, Outcome("analyse", "nothing-to-do", "no findings", files=7))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    return campaign


def report(campaign: Path, *options: str) -> None:
    assert main(["migrate", "report", str(campaign), *options]) == 2  # some failed


def test_numbers(campaign: Path) -> None:
    with state.Store(str(campaign / folders.DATABASE)) as store:
        found = summary(store)
        over_time = list(points(store))
    assert dict(found.counts) == {
        "pending": 1, "nothing-to-do": 1, "changed": 2, "verified": 1, "failed": 4, "skipped": 1, "pushed": 2,
        "merged": 1,
    }  # fmt: skip
    assert (found.total, found.done, found.waiting, found.files, found.changed) == (13, 2, 1, 31, 10)
    assert found.findings == (Count("reorder-to", 18, 12, 6),)
    assert (found.verified.run, found.verified.analysed, found.verified.harm) == (1, 4, 1)
    assert [(one.count, one.reason) for one in found.failures] == [
        (3, "git fetch: fatal: '…' is N MiB"),
        (1, "`make test` fails after it"),
    ]
    assert all(sum(point.counts) == 13 for point in over_time[13:])
    assert [point.at for point in over_time] == sorted(point.at for point in over_time)
    last = {state: count for state, count in zip(STATES, over_time[-1].counts, strict=True) if count}
    assert last == dict(found.counts)


def test_reasons_that_are_alike() -> None:
    assert alike("a 12 b") == alike("a 7.5 b") != alike("a x b")
    assert alike("fatal: /srv/a.git: no") == alike("fatal: https://h/b/c: no")
    assert alike(f"object {'0a' * 20} is gone") == alike(f"object {'1b' * 20} is gone")


def test_history_of_many_events_has_few_points(campaign: Path) -> None:
    with state.Store(str(campaign / folders.DATABASE)) as store:
        with store._changing() as db:
            for at in range(3000):
                state._event(db, "r-11", "", "retry", "pending")
                db.execute("UPDATE event SET at = ? WHERE number = last_insert_rowid()", (2e9 + at * 60,))
        assert len(list(points(store))) < 300


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "|calc",
        "%x",
        "\uff1d1",
        "  =1",
        'a";=1',
        "a;=1,=2",
    ],
)
def test_no_cell_is_a_formula(text: str, tmp_path: Path) -> None:
    """As OWASP says: a cell that begins like one has a `'` in front, and quotes let none begin within another."""
    with state.Store(str(tmp_path / "c.db"), make=True) as store:
        store.start(Settings("c", "b"), [("r-1", text, Source(f"https://example.org/{text}"))])
        data = as_csv(store).decode()
    (line,) = csv.DictReader(io.StringIO(data, newline=""))
    assert line["name"][0] == "'" or text[0] == "a"
    assert data.count("\r\n") == 2 and all(
        part[:1] in ('"', "0") for part in data.split("\r\n")[1].split(",")[:1]
    )


def test_an_id_leads_nowhere_else(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a campaign may be somebody else's; what it names is not read, and not removed."""
    secret = campaign.parent / "secret"
    secret.mkdir()
    (secret / "log.txt").write_text("mine\n")
    with state.Store(str(campaign / folders.DATABASE)) as store, store._changing() as db:
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute("UPDATE repository SET id = '../../secret' WHERE id = 'r-11'")
        db.execute("UPDATE event SET repository = '../../secret' WHERE repository = 'r-11'")
    assert main(["migrate", "run", str(campaign)]) == 2
    assert "is no id of a repository" in capsys.readouterr().err
    assert (secret / "log.txt").read_text() == "mine\n"


def test_tables(campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(campaign, "--csv", "r.csv", "--json", "r.json", "--markdown", "r.md")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text("utf-8"), newline="")))
    assert tuple(lines[0]) == FIELDS and len(lines) == 13
    first = lines[0]
    assert (first["name"], first["state"], first["found"], first["fixed"], first["left"]) == (
        "a/plain", "changed", "3", "2", "1",
    )  # fmt: skip
    assert lines[9]["reason"] == "'=HYPERLINK(1)" and "\x1b" not in (tmp_path / "r.csv").read_text("utf-8")
    found = json.loads((tmp_path / "r.json").read_bytes())
    assert found["devfix-campaign"] == 1 and found["states"].keys() == set(STATES)
    assert sum(found["states"].values()) == found["total"] == len(found["repositories"]) == 13
    assert found["repositories"][1]["name"] == f"a/{EVIL}" and found["repositories"][0]["left"] == 1
    assert set(found["repositories"][0]) == {*FIELDS, "notes"}
    report(campaign)
    text = capsys.readouterr().out
    boxes = [line for line in (tmp_path / "r.md").read_text("utf-8").splitlines() if line.startswith("- [")]
    assert len(boxes) == 10 and [line for line in boxes if line.startswith("- [x]")] == [boxes[-1]]
    assert "- [ ] a/r1 (pushed): Fix device placement https://example.org/pull/3" in boxes
    assert "**2 of 13** (15 %)" in text
    for bad in ("<script>", "<img", "@all", "x](", "\x1b", "\u202e"):
        assert bad not in text.replace("\\<", ""), bad


def test_markdown_of_many_is_bounded(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with state.Store(str(campaign / folders.DATABASE)) as store, store._changing() as db:
        db.executemany(
            "INSERT INTO repository (id, name, source, state, subject, changed_at)"
            " VALUES (?, ?, '{}', 'changed', 's', 0)",
            [(f"m-{n}", "b/" + "x" * 60 + str(n)) for n in range(2000)],
        )
    report(campaign, "--markdown", "-")
    text = capsys.readouterr().out
    assert len(text) < 65_000 and "more, which are in the CSV file" in text


def test_without_the_extra(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["migrate", "report", str(campaign), "--html", "r.html"]) == 2
    assert (
        "--html needs jinja2, which is not installed: pip install 'devfix[html]'" in capsys.readouterr().err
    )


def test_report_of_nothing(tmp_path: Path) -> None:
    assert main(["migrate", "report", str(tmp_path)]) == 2


def test_each_state_has_a_colour_of_its_own() -> None:
    from devfix.review.html import campaign

    css = Path(campaign.__file__).with_suffix(".css").read_text("utf-8")
    used = dict(re.findall(r"\.state-([\w-]+) \{ fill: var\((--st-\w+)\)", css))
    assert set(used) == set(STATES)
    for theme in re.split(r"\}", css):
        colours = dict(re.findall(r"(--st-\w+): (#\w+)", theme))
        assert not colours or len({colours[name] for name in used.values()}) == len(STATES)


# --- the page ----------------------------------------------------------------------------------------


Open = Callable[..., Any]


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Open]:
    """Open a file; whatever it says in the console or asks of the network fails the test."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    trouble: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

        def show(file: Path, width: int = 1200, theme: str = "light") -> Any:
            page = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme
            ).new_page()
            page.set_default_timeout(20_000)
            page.on("console", lambda message: trouble.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
            page.on(
                "request",
                lambda asked: (
                    None if asked.url.startswith(("file:", "data:,")) else trouble.append(asked.url)
                ),
            )
            page.goto(file.as_uri())
            return page

        yield show
        browser.close()
    assert trouble == []


def probe(page: Any, name: str) -> Any:
    return page.evaluate(f"() => {PROBES.strip()}.{name}()")


@pytest.mark.browser
def test_the_page(campaign: Path, tmp_path: Path, open_page: Open) -> None:
    (tmp_path / "out").mkdir()
    report(campaign, "--html", "out/r.html")
    page = open_page(tmp_path / "out" / "r.html")
    assert page.inner_text("h1") == "2 of 13 repositories have nothing left to fix"
    assert page.evaluate("() => [window.evil, document.images.length, document.scripts.length]") == [
        None,
        0,
        0,
    ]
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    text = page.inner_text("main")
    assert "<script>window.evil=1</script>" in text and "3 × analyse: git fetch: fatal: '…' is N MiB" in text
    assert "\u202e" not in text and "\x1b" not in text
    assert page.locator("a", has_text="pull request").count() == 1
    cells = page.locator("#findings tbody tr").first.locator("td.count").all_inner_texts()
    assert cells == ["18", "12", "6"]
    assert page.locator(".time path").count() >= 7
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.time path')].map((one) => one.getBBox())"
        ".map((box) => [box.x, box.y, box.x + box.width, box.y + box.height])"
    )
    assert all(box[0] >= 0 and box[1] >= 0 and box[2] <= 1000.1 and box[3] <= 240.1 for box in boxes)
    assert max(box[3] for box in boxes) == 240 and min(box[1] for box in boxes) == 0
    assert probe(page, "problems") == []
    page.locator("a", has_text="review page").first.click()  # also with an odd name of the campaign
    page.wait_for_url("**/results/*/review.html")
    assert page.inner_text("body") == "page"


@pytest.mark.browser
def test_readable_in_both_themes_at_any_width(campaign: Path, tmp_path: Path, open_page: Open) -> None:
    report(campaign, "--html", "r.html")
    for width, theme in ((400, "dark"), (2000, "light")):
        page = open_page(tmp_path / "r.html", width, theme)
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        count, bad = probe(page, "contrast")
        assert count > 100 and bad == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert probe(page, "outside") == []
    for _ in range(30):
        page.keyboard.press("Tab")
        at, seen = probe(page, "focus")
        assert seen, f"focus on {at!r} cannot be seen"
