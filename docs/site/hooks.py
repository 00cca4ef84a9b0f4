"""What MkDocs asks while it builds the site: generated pages, a navigation of what is there, links that leave docs/."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import pages  # noqa: E402

# `](../benchmarks/x.md)`: not a page, but a file of the repository.
_OUTSIDE = re.compile(r"(?<=\]\()((?:\.\./)+)([\w./-]+)(#[\w-]+)?(?=\))")
_PART = re.compile(r"<!-- ([\w-]+) -->")
_COMMENTS = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_config(config: Any) -> Any:
    """Leave out of the navigation what is not there; put the codemods in, and what is not named."""
    there = {path.relative_to(HERE.parent).as_posix() for path in HERE.parent.rglob("*.md")} | set(pages.ALL)
    config.nav = list(_existing(config.nav, there))
    more = sorted(there - set(_named(config.nav)))
    if more:
        config.nav.append({"More": more})
    return config


def _named(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, dict):
            for inside in entry.values():
                yield from _named(inside)
        else:
            yield entry


def _existing(nav: list[Any], there: set[str]) -> list[Any]:
    kept: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            if inside := _existing(inside, there):
                kept.append({title: inside})
        elif entry == "codemods/index.md":
            kept += [entry, *(name for name in pages.ALL if name.startswith("codemods/") and name != entry)]
        elif entry in there:
            kept.append(entry)
    return kept


def on_files(files: Files, config: Any) -> Files:
    for name, make in pages.ALL.items():
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Comments are for the tests, or name generated parts; links to files outside of docs/ lead to the repository."""

    def target(found: re.Match[str]) -> str:
        depth = page.file.src_uri.count("/")
        above, path, anchor = found[1].count(".."), found[2], found[3] or ""
        if above <= depth:
            return found[0]
        name = _PAGES.get(path)
        if name is not None:
            return "../" * depth + name + anchor
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        if not (ROOT / path).exists():
            return found[0]  # MkDocs will say that it leads nowhere
        return f"{config.extra['repository']}/{kind}/main/{path.rstrip('/')}{anchor}"

    filled = _PART.sub(
        lambda found: pages.PARTS[found[1]]() if found[1] in pages.PARTS else found[0], markdown
    )
    return _OUTSIDE.sub(target, _COMMENTS.sub("", filled))
