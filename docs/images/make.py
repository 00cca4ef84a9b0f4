# /// script
# requires-python = ">=3.10"
# dependencies = ["pillow", "playwright", "rich"]
# ///
"""Make the pictures of the documentation from `examples/`: the terminal (rich) and the review page (Chromium).

    python docs/images/make.py [CHROMIUM]

It needs devfix with the extra `html`, and the three libraries above. The picture of VS Code is made by
`editors/vscode/test/editor.mjs --screenshot`; the drawings of values on their way are made by hand.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
SESSION = (
    "check gpt_classifier",
    "apply gpt_classifier",
    "check gpt_classifier",
    "undo",
)
_PAUSE = 0.3  # seconds from one line of the session to the next


def devfix(arguments: str, cwd: Path, *, color: bool = True) -> str:
    """What a command prints, on both streams."""
    command = [sys.executable, "-m", "devfix", *arguments.split()]
    if color and arguments.startswith("check"):
        command += ["--color", "always"]
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def terminal(folder: Path) -> None:
    console = Console(
        record=True, width=104, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for arguments in SESSION:
        console.print(Text.assemble(("$ ", "green"), (f"devfix {arguments}", "bold")))
        console.print(Text.from_ansi(devfix(arguments, folder)))
    picture = console.export_svg(title="examples/", theme=MONOKAI, unique_id="devfix")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # they are loaded from elsewhere
    lines = sorted(set(map(int, re.findall(r"url\(#devfix-line-(\d+)\)", picture))))
    rules = "".join(
        f'[clip-path="url(#devfix-line-{line})"] {{ animation: appear 0.2s {line * _PAUSE:.1f}s backwards }}'
        for line in lines
    )
    moving = "@keyframes appear { from { opacity: 0 } } @media (prefers-reduced-motion: no-preference) "
    picture = picture.replace("</style>", f"{moving}{{ {rules} }}</style>", 1)
    picture = "\n".join(line.rstrip() for line in picture.splitlines() if line.strip()) + "\n"
    (HERE / "terminal.svg").write_text(picture, encoding="utf-8")


def page(folder: Path, chromium: str) -> None:
    devfix("diff --format html -o review.html examples", folder, color=False)
    views = (
        ("review-light", 1280, 640, "light", "#fix-3"),
        ("review-narrow-dark", 400, 720, "dark", "#fix-6"),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, width, height, theme, hash in views:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            shown = context.new_page()
            shown.goto((folder / "review.html").as_uri() + hash)
            shown.wait_for_function("() => document.documentElement.dataset.ready === ''")
            shown.wait_for_timeout(500)  # it scrolls
            picture = Image.open(io.BytesIO(shown.screenshot()))
            picture.quantize(128).save(HERE / f"{name}.png", optimize=True)
        browser.close()


def main() -> None:
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium on the PATH: name one")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = scratch
        folder = Path(scratch) / "devfix"
        shutil.copytree(EXAMPLES, folder / "examples")
        page(folder, chromium)
        terminal(folder / "examples")


if __name__ == "__main__":
    main()
