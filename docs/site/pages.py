"""The generated pages of the site: the codemods, each from its own file, the commands, and files of the root.

`ALL` maps the name of a page to the function that makes its Markdown.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
from devfix import commands
from devfix.cli import group
from devfix.codemod import Codemod, Example, registry
from devfix.commands.helping import HELP
from devfix.config import option_types
from devfix.explain import _type, _value, page, safeties, title
from devfix.findings import Safety
from devfix.review.patch import hunk_lines

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "real_bugs" / "results" / "devfix.json"
SAID = Path(__file__).resolve().parent / "torch_says.json"
_SHOWN = 4  # examples of each sort that are open; the others are folded
_LINK = re.compile(r"(?<=\()(https?://[^\s()]+)(?=\))")


# --- codemods -------------------------------------------------------------------------------------


def codemod(id: str) -> str:
    """The page of one codemod."""
    return "\n".join(_codemod(registry()[id]))


def _codemod(kind: type[Codemod]) -> Iterator[str]:
    text = inspect.getdoc(kind) or ""
    first, _, rest = text.partition("\n")
    yield from (f"# {kind.id}", "", first, "")
    default = "on by default" if kind.default else "off by default: `--codemod " + kind.id + "` turns it on"
    yield f"It is {default}. Its fixes are {', '.join(safeties(kind))}. [Source]({page(kind)})"
    yield from ("", _LINK.sub(r"<\1>", rest.strip()), "")
    options = option_types(kind)
    if options:
        yield from ("## Settings", "", "| setting | default | values |", "|---|---|---|")
        for field in dataclasses.fields(kind):
            name = field.name.rstrip("_")
            if name in options:
                values = _type(options[name]).replace("|", "\\|")
                yield f"| `{kind.id}.{name}` | `{_value(field.default)}` | {values} |"
        yield ""
    yield from _real_bugs(kind.id)
    yield from _torch_says(kind.id)
    changed = [example for example in kind.examples if example.after is not None]
    left = [example for example in kind.examples if example.after is None]
    yield from ("## Before and after", "")
    yield "Each of these programs is run by the tests, on the CPU and on CUDA, before and after."
    yield ""
    for number, example in enumerate(changed):
        yield from _folded(example, number < _SHOWN)
    yield from ("## What it leaves alone", "")
    for number, example in enumerate(left):
        yield from _folded(example, number < 1)


def _folded(example: Example, shown: bool) -> Iterator[str]:
    unsafe = f" ({example.safety.label})" if example.safety is not Safety.SAFE else ""
    options = "".join(f", {name}={value}" for name, value in example.options)
    name = f"{example.title}{unsafe}{options}".replace('"', "'")
    yield f'{"???+" if shown else "???"} example "{name}"'
    yield ""
    for line in _program(example):
        yield f"    {line}".rstrip()
    yield ""


def _program(example: Example) -> Iterator[str]:
    for before, after, language in (
        (example.recipe, example.recipe_after, "yaml"),
        (example.before, example.after, "python"),
    ):
        if not before:
            continue
        if example.after is None or before == after:
            yield from (f"```{language}", *before.rstrip("\n").split("\n"), "```", "")
        else:
            yield from ("```diff", *hunk_lines(before, after), "```", "")


@cache
def _results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def _real_bugs(id: str) -> Iterator[str]:
    cases = _results()["cases"]
    found = [case for case in cases if id in case["by"]]
    yield from ("## In the wild", "")
    if not found:
        yield f"It finds none of the {len(cases)} [real bugs](../real-bugs.md) of the benchmark."
    else:
        fixed = sum(case["fixed"] for case in found)
        share = 100 * len(found) / len(cases)
        yield (
            f"It has a finding for {len(found)} ({share:.0f} %) of the {len(cases)} [real bugs](../real-bugs.md) of "
            f"the benchmark, which people fixed by hand; for {fixed} of them devfix changes the code that they changed."
        )
    yield ""


@cache
def _said() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SAID.read_text(encoding="utf-8"))
    return found


def _torch_says(id: str) -> Iterator[str]:
    said = _said()["codemods"].get(id, ())
    yield from ("## What torch says", "")
    if not said:
        yield "Nothing is raised: the program runs, on the wrong device or with wrong results."
        yield ""
        return
    yield f"Before the fix, the examples end in these errors (torch {_said()['torch']}, {_said()['device']}):"
    yield ""
    for message in said:
        yield from ("```text", message, "```", "")


def codemods_index() -> str:
    lines = [
        "# Codemods",
        "",
        "A codemod is one kind of device bug and its fix. Each of these pages is made from the codemod's own file.",
        "",
        "| codemod | what it sees to | fixes | by default | real bugs |",
        "|---|---|---|---|---:|",
    ]
    for id, kind in registry().items():
        number = sum(id in case["by"] for case in _results()["cases"])
        default = "on" if kind.default else "off"
        lines.append(
            f"| [`{id}`]({id}.md) | {title(kind)} | {', '.join(safeties(kind))} | {default} | {number} |"
        )
    total = len(_results()["cases"])
    lines += [
        "",
        f"*Real bugs*: of the {total} of [the benchmark](../real-bugs.md), those where it finds something.",
        "",
    ]
    lines += ["How safe a fix is belongs to the fix, not to the codemod:", ""]
    lines += [
        "- **safe**: the same result on the CPU; on an accelerator it can only turn an error into a run. Applied.",
        "- **unsafe**: right if an assumption holds, and the message says which. Applied with `--unsafe`.",
        "- **manual**: shown, never applied.",
        "",
    ]
    return "\n".join(lines)


# --- measured --------------------------------------------------------------------------------------


def real_bugs_table() -> str:
    """The results of the benchmark that are kept in the repository, tool by tool."""
    lines = [
        "| tool | cases | found | fixed | of one file | found | fixed | elsewhere | loud files |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for path in sorted(RESULTS.parent.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        alone = [case for case in data["cases"] if case["single_file"]]
        numbers = [
            number
            for cases in (data["cases"], alone)
            for number in (
                len(cases),
                sum(case["found"] for case in cases),
                sum(case["fixed"] for case in cases),
            )
        ]
        noise = sum(case["noise"] for case in data["cases"])
        clean = f"{data['clean']['loud']} of {data['clean']['files']}"
        lines.append(f"| {data['tool']} | {' | '.join(map(str, numbers))} | {noise} | {clean} |")
    return "\n".join(lines)


def speed() -> str:
    """Where the measurements of speed are, if they are kept."""
    if (ROOT / "docs" / "performance.md").exists():
        return "What was measured, and how, is in [performance](performance.md)."
    return "No measurement is kept in the repository."


PARTS: dict[str, Callable[[], str]] = {"real-bugs": real_bugs_table, "speed": speed}

# --- commands -------------------------------------------------------------------------------------


def command_reference() -> str:
    lines = ["# Commands", "", "What `devfix COMMAND --help` says, for all of them.", ""]
    for name in commands.NAMES:
        command = commands.load(name)
        assert command is not None
        lines += _command(command, f"devfix {name}", "## ")
    return "\n".join(lines)


def _command(command: click.Command, path: str, level: str) -> list[str]:
    context = click.Context(
        command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=HELP
    )
    lines = [f"{level}{path}", "", "```text", *command.get_help(context).split("\n"), "```", ""]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                lines += _command(inner, f"{path} {name}", f"#{level}")
    return lines


# --- files of the root ---------------------------------------------------------------------------


def included(path: str) -> str:
    """A file of the root; its relative links become those of a page in docs/."""
    text = (ROOT / path).read_text(encoding="utf-8")
    folder = str(Path(path).parent)
    above = "../" if folder == "." else f"../{folder}/"

    def target(found: re.Match[str]) -> str:
        link: str = found[1]
        if re.match(r"\w+:|#", link):
            return link
        if folder == "." and link.startswith("docs/"):
            return link.removeprefix("docs/")
        parts: list[str] = []
        for part in (above + link).split("/"):
            if part == ".." and parts and parts[-1] != "..":
                parts.pop()
            else:
                parts.append(part)
        return "/".join(parts)

    return re.sub(r"(?<=\]\()([^)\s]+)(?=\))", target, text)


ALL: dict[str, Callable[[], str]] = {
    "codemods/index.md": codemods_index,
    **{f"codemods/{id}.md": partial(codemod, id) for id in registry()},
    "commands.md": command_reference,
    "changelog.md": partial(included, "CHANGELOG.md"),
    "contributing.md": partial(included, "CONTRIBUTING.md"),
    "real-bugs.md": partial(included, "benchmarks/real_bugs/README.md"),
}
assert group.name  # the commands are those of the command line
