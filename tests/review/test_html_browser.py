"""The review page in a real browser: decided by keyboard, exported, applied; looked at in both themes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from devfix.cli import main
from devfix.codemod import registry
from devfix.findings import Safety
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.reports.report import (
    FileError,
    FileResult,
    Place,
    PlacedEdit,
    PlacedFinding,
    PlacedFix,
    Report,
    Skipped,
)
from devfix.review.html import render

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser

LOCAL = ("file:", "data:,", "blob:")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HEAD = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))
"""
LOOP = f"""{HEAD}model = nn.Linear(4, 2).to(device)
for (x,) in loader:
    print(model(x))
for (y,) in loader:
    print(model(y))
"""
SURGERY = f'''{HEAD}

class Trainer:
    def __init__(self, names: list[str]) -> None:
        """Docs."""
        self.model = nn.Sequential(nn.Linear(4, 4))  # a comment
        self.model.to(device)
        self.model.head = nn.Linear(4, 2)
        self.rate, self.flag = 0.5e-3, isinstance(names, list)

    @property
    def title(self) -> str:
        return "a title"
'''


@pytest.fixture(scope="module", params=["chromium", "firefox", "webkit"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A browser: the system's Chromium, or those that `playwright install` has fetched."""
    with sync_api.sync_playwright() as playwright:
        kind = getattr(playwright, request.param)
        system = next(filter(None, map(shutil.which, NAMES)), None) if request.param == "chromium" else None
        path = system or kind.executable_path
        if not Path(path).exists():
            more = " or the system's package" if request.param == "chromium" else ""
            pytest.skip(f"no {request.param}: python -m playwright install {request.param}{more}")
        browser = kind.launch(executable_path=path, args=["--no-sandbox"] if system else [])
        yield browser
        browser.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open a page's bytes from disk; whatever it says in the console or asks of the network fails the test."""
    monkeypatch.chdir(tmp_path)
    trouble: list[str] = []
    contexts = []

    def show(data: bytes, width: int = 1600, theme: str = "light", script: str = "", hash: str = "") -> Any:
        (tmp_path / "review.html").write_bytes(data)
        context = engine.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on(
            "request", lambda request: None if request.url.startswith(LOCAL) else trouble.append(request.url)
        )
        page.goto((tmp_path / "review.html").as_uri() + hash)
        ready(page)
        return page

    yield show
    for context in contexts:
        context.close()
    assert trouble == []


def ready(page: Any) -> None:
    page.wait_for_function("() => document.documentElement.dataset.ready === ''")


def analysed(level: Safety = Safety.UNSAFE) -> bytes:
    codemods = [registry()[name]() for name in ("reorder-to", "move-inputs")]
    return render(run(discover(["."]), codemods, level, jobs=1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(LOOP)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "b.py").write_text(LOOP)
    (tmp_path / "pkg" / "c.py").write_text(SURGERY)
    return tmp_path


def press(page: Any, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def counter(page: Any) -> str:
    return str(page.inner_text("#counter"))


def exported(page: Any, folder: Path) -> Any:
    with page.expect_download() as download:
        page.keyboard.press("e")
    download.value.save_as(folder / "decisions.json")
    assert download.value.suggested_filename == "decisions.json"
    return json.loads((folder / "decisions.json").read_text())


PROBES = (Path(__file__).parent / "page_probes.js").read_text(encoding="utf-8")


def probe(page: Any, name: str, argument: Any = None) -> Any:
    return page.evaluate(f"(argument) => {PROBES.strip()}.{name}(argument)", argument)


def unfolded(page: Any, file: int) -> list[str]:
    """The file as the page shows it, with all that can be unfolded."""
    page.evaluate(f"() => document.querySelector('#tree a[href=\"#file-{file}\"]').click()")
    while page.locator(f"#file-{file} button.more").count():
        page.locator(f"#file-{file} button.more").first.click()
    found: list[str] = probe(page, "shown", file)
    return found


# --- deciding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["", "s"])
def test_decided_by_keyboard_exported_and_applied(open_page: Open, folder: Path, view: str) -> None:
    page = open_page(analysed())
    assert counter(page) == "0 of 5 decided: 0 accepted, 0 rejected"
    press(page, f"{view}jarara")  # on to the next one after each
    assert counter(page) == "5 of 5 decided: 3 accepted, 2 rejected"
    shown = [unfolded(page, file) for file in range(3)]
    found = exported(page, folder)
    assert found["devfix-decisions"] == 1 and len(found["accepted"]) == 3 and len(found["rejected"]) == 2
    assert found["files"].keys() == {"a.py", "pkg/b.py", "pkg/c.py"}
    command = page.inner_text("#command")
    assert command == "devfix apply --decisions decisions.json ."
    assert main(command.split()[1:]) == 0
    after = [(folder / name).read_text().splitlines() for name in ("a.py", "pkg/b.py", "pkg/c.py")]
    assert shown == after
    assert "    x = x.to(device)" in after[0] and "    y = y.to(device)" not in after[0]
    assert "    x = x.to(device)" in after[1] and "    y = y.to(device)" not in after[1]
    assert after[2][-7:] != SURGERY.splitlines()[-7:]


def test_decisions_are_kept_undone_and_taken_back(open_page: Open, folder: Path) -> None:
    page = open_page(analysed())
    press(page, "jarr")
    page.reload()
    ready(page)
    assert counter(page) == "3 of 5 decided: 1 accepted, 2 rejected"
    assert page.is_disabled("#undo")
    page.click("#fix-0 button.accepted")  # once more: taken back
    assert counter(page) == "2 of 5 decided: 0 accepted, 2 rejected"
    assert page.get_attribute("#fix-0 button.accepted", "aria-pressed") == "false"
    press(page, "u")
    assert counter(page) == "3 of 5 decided: 1 accepted, 2 rejected"
    assert page.get_attribute("#fix-0 button.accepted", "aria-pressed") == "true"
    page.click("#bulk button >> nth=1")
    assert counter(page) == "5 of 5 decided: 1 accepted, 4 rejected"
    press(page, "u")
    assert counter(page) == "3 of 5 decided: 1 accepted, 2 rejected"
    found = exported(page, folder)
    page.click("#fix-3 .alike button >> nth=0")  # all that say the same, but for what was decided before
    assert counter(page) == "4 of 5 decided: 2 accepted, 2 rejected"
    press(page, "u" * 9)
    page.click("#fix-0 button.accepted")
    assert counter(page) == "2 of 5 decided: 0 accepted, 2 rejected"
    press(page, "kkR")
    assert counter(page) == "3 of 5 decided: 0 accepted, 3 rejected"
    press(page, "u")
    page.set_input_files("#import", folder / "decisions.json")
    page.wait_for_function("() => document.getElementById('counter').textContent.startsWith('3 of 5')")
    assert exported(page, folder) == found


@pytest.mark.parametrize(
    "refuse",
    [
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });",
        "Object.defineProperty(window, 'localStorage', { value: null });",
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };",
    ],
)
def test_a_browser_that_keeps_nothing(open_page: Open, folder: Path, refuse: str) -> None:
    page = open_page(analysed(), script=refuse)
    assert page.is_visible("#unkept")
    press(page, "jart")
    assert len(exported(page, folder)["accepted"]) == 1
    assert not open_page(analysed()).is_visible("#unkept")


def test_keys_filters_and_links(open_page: Open, folder: Path) -> None:
    page = open_page(analysed())
    press(page, "jjj")
    assert page.evaluate("() => document.activeElement.id") == "fix-2"
    press(page, "k")
    assert page.evaluate("() => document.activeElement.id") == "fix-1"
    press(page, "/reorder")
    page.wait_for_function("() => document.getElementById('shown').textContent === '1 of 5 findings shown.'")
    assert [page.is_visible(f"#file-{file}") for file in range(3)] == [False, False, True]
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "fix-4"
    page.click("#clear")
    page.click("#chart-codemod button[data-codemod='move-inputs']")
    assert page.inner_text("#shown") == "4 of 5 findings shown."
    press(page, "?")
    assert page.is_visible("#help")
    press(page, "a")  # nothing is decided behind it
    page.uncheck("#keys-on")  # a screen reader or a voice may need these keys
    page.keyboard.press("Escape")
    press(page, "jajr?")
    assert counter(page).startswith("0 of 5") and not page.is_visible("#help")
    page.click("#help-button")
    page.check("#keys-on")
    page.keyboard.press("Escape")
    assert counter(page).startswith("0 of 5")
    page.click("#clear")
    page.click("#fix-0 .relations a")
    assert page.evaluate("() => document.activeElement.id").startswith("line-0-")
    two = page.locator(".diff.split").count()
    press(page, "s")
    assert bool(page.locator(".diff.split").count()) != bool(two)
    page = open_page(analysed(), hash="#fix-3")
    assert page.evaluate("() => document.activeElement.id") == "fix-3"


def test_what_is_copied_is_code(open_page: Open, folder: Path) -> None:
    page = open_page(analysed())
    page.evaluate(
        """() => {
          const cells = document.querySelectorAll('#file-0 .diff td:last-child');
          getSelection().setBaseAndExtent(cells[0], 0, [...cells].at(-1), 1);
          document.addEventListener('copy', (event) => { window.copied = event.clipboardData.getData('text/plain'); });
        }"""
    )
    page.keyboard.press("Control+c")
    assert "\n    x = x.to(device)\n    print(model(x))\nfor (y,) in loader:\n" in page.evaluate(
        "() => window.copied"
    )


# --- what a report may have -----------------------------------------------------------------------------


def report_of_everything(folder: Path) -> Report:
    """Fixes over several files, of the same code, one that is only proposed, and none."""
    (folder / "a.py").write_text("here = old\nb = c\nlast\n")
    (folder / "there.py").write_text("x = 1\nthere = old\n")

    def finding(
        line: int, *edits: PlacedEdit, safety: Safety = Safety.SAFE, verdict: str = ""
    ) -> PlacedFinding:
        fix = PlacedFix("do it", safety, edits) if edits else None
        return PlacedFinding("reorder-to", f"message {line}", Place(line, 1, line, 2), fix=fix)

    found = (
        finding(1, PlacedEdit(Place(1, 8, 1, 11), "new"), PlacedEdit(Place(2, 9, 2, 12), "new", "there.py")),
        finding(2, PlacedEdit(Place(2, 5, 2, 6), "d")),
        finding(2, PlacedEdit(Place(2, 1, 2, 6), "whole")),
        finding(3, PlacedEdit(Place(3, 1, 3, 5), "by hand"), safety=Safety.MANUAL),
        finding(3),
    )
    return Report(
        (FileResult("a.py", found),),
        (FileError("bad.py", "parse", "does not parse"),),
        (Skipped("s.py", "skip-file"),),
    )


def test_fixes_that_share_lines_or_files(open_page: Open, tmp_path: Path) -> None:
    page = open_page(render(report_of_everything(tmp_path)))
    assert counter(page) == "0 of 3 decided: 0 accepted, 0 rejected"
    assert unfolded(page, 1) == ["x = 1", "there = new"]
    assert unfolded(page, 0) == ["here = new", "b = d", "by hand"]
    assert page.inner_text("#file-0 .elsewhere p") == "#1 changes there.py, lines 1 to 2"
    assert "there = new" in page.inner_text("#file-0 .elsewhere table")
    press(page, "jr")
    assert page.locator("#file-0 .elsewhere").count() == 1  # and what it shows follows the decision
    assert "there = new" not in page.inner_text("#file-0 .elsewhere table")
    assert unfolded(page, 1) == ["x = 1", "there = old"]
    assert unfolded(page, 0)[0] == "here = old"
    press(page, "r")  # the second: now the third is shown
    assert unfolded(page, 0)[1] == "whole"
    press(page, "r")
    assert unfolded(page, 0) == ["here = old", "b = c", "by hand"]
    assert "Only a proposal" in page.inner_text("#fix-3") and "No fix" in page.inner_text("#fix-4")
    assert page.locator("#fix-3 .buttons, #fix-4 .buttons").count() == 0
    assert "does not parse" in page.inner_text(".problems >> nth=0")


def test_a_finding_whose_change_is_in_another_file_has_the_diff_beside_it(
    open_page: Open, tmp_path: Path
) -> None:
    (tmp_path / "recipe.yaml").write_text("enc: 1\n" * 9)
    (tmp_path / "train.py").write_text("x = 1\nold = self.hparams.enc\n")
    fix = PlacedFix("do it", Safety.SAFE, (PlacedEdit(Place(2, 1, 2, 4), "new", "train.py"),))
    found = PlacedFinding("list-in-modules", "message", Place(5, 1, 5, 4), fix=fix)
    page = open_page(render(Report((FileResult("recipe.yaml", (found,)),))))
    beside = page.locator(".hunk", has=page.locator("#fix-0")).locator(".code-side").inner_text()
    assert "enc: 1" in beside and "new = self.hparams.enc" in beside
    page.click(".elsewhere a")
    assert page.evaluate("() => document.activeElement.closest('section.file').id") == "file-1"


def test_an_editor_that_shows_the_page_makes_what_was_accepted(open_page: Open, folder: Path) -> None:
    """The editor is stood in for here; editors/vscode/test/editor.mjs has the real one."""
    editor = "window.acquireVsCodeApi = () => ({ postMessage: (sent) => { window.sent = sent; } });"
    page = open_page(analysed(), script=editor)
    assert page.inner_text("#export") == "Apply" and not page.is_visible("#command")
    press(page, "jae")
    sent = page.evaluate("() => window.sent")
    assert len(json.loads(sent["decisions"])["accepted"]) == 1


def test_a_report_without_findings(open_page: Open, tmp_path: Path) -> None:
    page = open_page(render(Report(())))
    assert page.inner_text("h1") == "Nothing found" and counter(page) == "Nothing to decide"
    press(page, "jarnus")
    assert not page.is_visible(".end")


def test_hostile_names_and_code(open_page: Open, tmp_path: Path) -> None:
    evil = "</script><script>window.evil=1</script><img src=x onerror=window.evil=1>"
    fix = PlacedFix(evil, Safety.SAFE, (PlacedEdit(Place(1, 1, 1, 2), f"'{evil}'\n"),))
    found = PlacedFinding(evil, f"`{evil}` \u202e", Place(1, 1, 1, 2), fix=fix, scope=evil)
    report = Report((FileResult(f"x/{evil}.py", (found,)),), (FileError(evil, evil, evil),))
    page = open_page(render(report, read=lambda path: f"x = '{evil}'\n".encode(), paths=evil))
    press(page, "ja")
    assert page.evaluate("() => [window.evil, document.images.length, document.scripts.length]") == [
        None,
        0,
        3,
    ]
    assert evil in page.inner_text("#list")


# --- how it looks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [400, 2000])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_readable_in_both_themes_at_any_width(open_page: Open, folder: Path, width: int, theme: str) -> None:
    page = open_page(analysed(), width, theme)
    press(page, "jar")
    if width == 400:
        page.click("#open-side")
        assert page.is_visible("#text")
        page.click("#open-side")
    for view in "ss":
        press(page, view)
        for file in range(3):
            unfolded(page, file)
        for button in page.locator("details.about > summary").all():
            button.click()
        count, bad = probe(page, "contrast")
        assert count > 150 and bad == []
        assert page.evaluate("() => [document.documentElement.scrollWidth <= innerWidth, scrollX]") == [
            True,
            0,
        ]
        assert probe(page, "outside") == []
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    press(page, "t")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != background
    assert probe(page, "contrast")[1] == []


def test_usable_without_a_mouse_or_a_screen(open_page: Open, tmp_path: Path) -> None:
    page = open_page(render(report_of_everything(tmp_path)), width=1300)
    unfolded(page, 0)
    assert probe(page, "problems") == []
    assert [page.locator(f"[role=status]#{id}").count() for id in ("counter", "shown", "say")] == [1, 1, 1]
    page = open_page(render(report_of_everything(tmp_path)), width=1300)
    order = []
    for _ in range(60):
        page.keyboard.press("Tab")
        at, seen = probe(page, "focus")
        assert seen, f"focus on {at!r} cannot be seen"
        order.append(at)
    assert order[0] == "skip"
    places = [order.index(name) for name in ("view", "text", "accepted", "export-end", "copy")]
    assert places == sorted(places)
    page.evaluate("() => document.querySelector('#fix-1 button.accepted').focus()")
    page.keyboard.press("Space")
    assert counter(page).startswith("1 of 3")
    assert page.evaluate("() => document.activeElement.matches('#fix-1 button.accepted')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_against_the_page(open_page: Open, tmp_path: Path, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(render(report_of_everything(tmp_path)), theme=theme)
    unfolded(page, 0)
    press(page, "ja")
    for button in page.locator("details > summary").all():
        button.click()
    for view in ("", "s", "?"):
        press(page, view)
        said = axe.Axe().run(page)
        assert said.response["passes"] and said.violations_count == 0, said.generate_report()


def test_many_files_are_made_when_they_are_seen(open_page: Open, folder: Path) -> None:
    report = run(discover(["a.py"]), [registry()["move-inputs"]()], jobs=1)
    (one,) = report.results
    from dataclasses import replace

    results = tuple(replace(one, path=f"p{number % 20}/f{number}.py") for number in range(500))
    page = open_page(render(replace(report, results=results)))
    assert counter(page).startswith("0 of 1000")
    assert page.locator(".file").count() == 500 and 0 < page.locator(".hunk").count() < 40
    page.evaluate("() => { location.hash = '#fix-901'; }")
    page.wait_for_selector("#fix-901:focus")
    box = page.locator("#fix-901").bounding_box()
    assert 0 <= box["y"] < 900 and page.locator(".hunk").count() < 80
    press(page, "ja")
    assert counter(page).startswith("1 of 1000")
