"""Every code block of the documentation is run, or parsed, or says why not; and the site is built from it."""

from __future__ import annotations

import ast
import html.parser
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from devfix import commands
from devfix.codemod import registry
from devfix.errors.messages import kind_of
from doc_blocks import ROOT, Block, blocks, pages

if sys.version_info >= (3, 11):
    import tomllib as toml
else:
    import tomli as toml

BIN = Path(sys.executable).parent
PAGES = {path.relative_to(ROOT).as_posix(): blocks(path) for path in pages()}
BLOCKS = [block for found in PAGES.values() for block in found]
HANDLED = {"sh", "python", "toml", "yaml", "json", "diff", "text", ""}
# Installing is what tests/test_packaging.py tries, without a network.
_INSTALLS = re.compile(r"^(?:pip|uv|pipx) install |^python3? -m pip install ")


def named(block: Block) -> str:
    return block.where


def test_every_block_is_run_or_says_why_not() -> None:
    for block in BLOCKS:
        if block.language not in HANDLED:
            assert block.mark("not run"), (
                f"{block.where}: {block.language} is not run, and no reason is given"
            )
        for name, _ in block.marks:
            assert name in ("not run", "exit", "setup"), block.where


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages and not block.mark("not run")]


@pytest.mark.parametrize("block", of("python"), ids=named)
def test_python(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles; what imports devfix is run, in an empty folder with what the page has set up."""
    compile(block.text, block.where, "exec")
    if block.title or not re.search(r"^(?:from|import) devfix\b", block.text, re.MULTILINE):
        return
    if any(isinstance(node, ast.ClassDef) for node in ast.parse(block.text).body):
        return  # a codemod, which has tests of its own
    folder(block, tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, block.where, "exec"), {"__name__": "__docs__"})


@pytest.mark.parametrize("block", of("toml", "yaml", "json"), ids=named)
def test_data(block: Block) -> None:
    if block.language == "toml":
        table = toml.loads(block.text)
        if "devfix" in table.get("tool", {}):
            from devfix import config

            config.parse(table["tool"]["devfix"], str(ROOT / "pyproject.toml"))
    elif block.language == "yaml":
        assert isinstance(yaml.compose(block.text), yaml.CollectionNode)  # of a recipe, with tags of its own
    else:
        json.loads(block.text)


@pytest.mark.parametrize("block", of("diff"), ids=named)
def test_patches(block: Block) -> None:
    """git reads it; that it is what devfix prints is for the shell blocks, and the README's own tests."""
    done = subprocess.run(
        ["git", "apply", "--numstat", "-"], input=block.text + "\n", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", of(""), ids=named)
def test_usage(block: Block) -> None:
    """A list of commands: each is there, and some command has each option that is spoken of."""
    known = set()
    for command in map(commands.load, commands.NAMES):
        assert isinstance(command, click.Command)
        known |= {option for one in command.params for option in one.opts + one.secondary_opts}
    for line in filter(str.strip, block.text.split("\n")):
        assert line.startswith("devfix ") and line.split()[1] in commands.NAMES, f"{block.where}: {line}"
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)) <= known, f"{block.where}: {line}"


# --- shell ----------------------------------------------------------------------------------------


def folder(block: Block, to: Path) -> None:
    """What the page has set up before the block, and its programs."""
    for one in PAGES[block.page]:
        if one.mark("setup") == "notebook":
            write_notebook(to / "note.ipynb")
        elif one.mark("setup"):
            shutil.copytree(ROOT / one.mark("setup"), to, dirs_exist_ok=True)
        if one.title and "/" not in one.title:
            (to / one.title).write_text(one.text + "\n")


def write_notebook(path: Path) -> None:
    sources = (
        "%pip install torch\nimport torch\nfrom torch import nn",
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "model = nn.Sequential(nn.Linear(4, 4))\nmodel.add_module('extra', nn.Linear(4, 4))\n\nmodel.to(device)",
        "model.head = nn.Linear(4, 2)\nmodel(torch.zeros(1, 4, device=device))",
    )
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**empty, "id": str(number), "source": text} for number, text in enumerate(sources)]
    path.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    )


SHELL = [
    name for name, found in PAGES.items() if any(b.language == "sh" and not b.mark("not run") for b in found)
]


@pytest.mark.parametrize("page", SHELL)
def test_shell(page: str, tmp_path: Path, typed: Path) -> None:
    """The blocks of a page run one after the other in one folder; the text after them is what they print."""
    work = tmp_path / "work"
    work.mkdir()
    folder(PAGES[page][0], work)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path), "NO_COLOR": "1"}
    environment["PATH"] = f"{typed}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    environment["PYTHONPATH"] = str(ROOT / "codemods")  # of this checkout, wherever devfix is installed from
    printed = ""
    for block in PAGES[page]:
        if block.mark("not run"):
            continue
        if block.language == "sh":
            lines = [line for line in block.text.split("\n") if not installs(block, line)]
            done = subprocess.run(
                ["bash", "-c", "\n".join(lines)], cwd=work, env=environment, text=True, timeout=240,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            expected = {int(code) for code in (block.mark("exit") or "0").split(",")}
            assert done.returncode in expected, f"{block.where}: exit code {done.returncode}\n{done.stdout}"
            printed = "\n".join(line.rstrip() for line in done.stdout.split("\n"))
        elif block.language in ("text", "diff"):
            shown = "\n".join(line.rstrip() for line in block.text.split("\n"))
            assert shown in printed, f"{block.where} is not what was printed:\n{printed}"


def installs(block: Block, line: str) -> bool:
    """Is it a line that installs, from an index? The extras that it names must be there."""
    if not _INSTALLS.match(line):
        return False
    extras = set(toml.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for word in shlex.split(line):
        for wanted in re.findall(r"^devfix\[([\w,-]+)\]", word):
            assert set(wanted.split(",")) <= extras, f"{block.where}: {line}"
    return True


# --- the FAQ, and the record of what torch says -------------------------------------------------------


@pytest.mark.parametrize("block", [b for b in PAGES["docs/faq.md"] if b.language == "text"], ids=named)
def test_messages_of_the_faq_are_known(block: Block) -> None:
    """Each is a device error for `explain-error`, and the codemods that the answer names repair that kind."""
    kind = kind_of(block.text)
    assert kind is not None
    text = (ROOT / block.page).read_text(encoding="utf-8").split("\n")
    answer = "\n".join(text[block.line :]).split("\n## ")[0]
    linked = re.findall(r"\(codemods/([\w-]+)\.md\)", answer)
    assert linked and set(linked) <= {*kind.codemods}, (
        f"{sorted(set(linked) - {*kind.codemods})} of {kind.id}"
    )


def test_what_torch_says_is_what_the_examples_wait_for() -> None:
    record = json.loads((ROOT / "docs" / "site" / "torch_says.json").read_text())
    said = record["codemods"]
    assert list(said) == list(registry()), "run `python docs/site/record_torch.py`"
    for id, kind in registry().items():
        patterns = [example.raises for example in kind.examples if example.raises]
        for message in said[id]:
            assert any(re.search(pattern, message) for pattern in patterns), f"{id}: {message}"


# --- the site ---------------------------------------------------------------------------------------


class _Loads(html.parser.HTMLParser):
    """What a page loads by itself, links aside."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "link" and given.get("rel") in ("canonical", "prev", "next", "edit"):
            return
        for name in ("src", "href") if tag != "a" else ():
            if given.get(name):
                self.found.append(str(given[name]))


def test_the_site_is_built_and_loads_nothing(tmp_path: Path) -> None:
    """Strictly: a link to a page, or to a heading of one, that leads nowhere is an error."""
    if importlib.util.find_spec("material") is None:
        pytest.fail("mkdocs-material is missing; it is one of the requirements of the tests")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    # Not `--quiet`: it also silences the warnings that `--strict` counts.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    for id in registry():
        page = (site / "codemods" / id / "index.html").read_text(encoding="utf-8")
        for heading in ("What it does", "Fix safety", "In the wild", "What torch says", "Before and after"):
            assert heading in page, f"{id}: {heading}"
    built = list(site.rglob("*.html"))
    assert len(built) > 30
    for path in built:
        loads = _Loads()
        loads.feed(path.read_text(encoding="utf-8"))
        outside = [target for target in loads.found if re.match(r"(?:https?:)?//", target)]
        assert not outside, f"{path.relative_to(site)} loads {outside}"
        # The theme's script asks GitHub for stars where there is such an element, and loads Mermaid from afar.
        text = path.read_text(encoding="utf-8")
        assert 'data-md-component="source"' not in text and 'class="mermaid"' not in text
