"""`devfix explain FILE:LINE`: what devfix thinks of the values on a line, and why it does or does not speak."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

    from devfix.engine.facts import Mismatch
    from devfix.engine.files import File
    from devfix.engine.places import Place
    from devfix.engine.trace import Watched
    from devfix.engine.values import Assumptions, History

_PLACES = {
    "default": "on the CPU, torch's default",
    "cpu": "on the CPU, on purpose",
    "var": "on a device that is chosen at run time",
    "of": "on the device that the caller chooses",
    "owned": "on the device that a framework chooses",
    "choice": "on one device or another, depending on a condition",
}
_LONGEST = 60  # characters of code
_PLAIN = frozenset({"library", "text", "number", "unknown"})
_ARTICLES = {"array": "an", "object": "an", "optimizer": "an"}
_KINDS = {"owner": "framework's object"}
_OTHERWISE = "no program in view gets there with anything on an accelerator, or a comment silences it"
_LINKS = {
    "make": "made",
    "join": "or made",
    "load": "loaded",
    "move": "moved",
    "store": "stored as an attribute",
    "element": "put into or taken out of a container",
    "pass": "passed as an argument",
    "return": "returned",
    "drop": "copied to a device, and the copy is dropped",
}


def traced(path: str, at: int, cell: int = 0) -> Iterator[str]:
    """What there is to say of a line, for people. Raises DocumentError, and what `ast.parse` raises.

    The line is one of the file, or of a notebook's `cell`. ValueError says that there is no such line of code.
    """
    from devfix.documents import document_of, read_bytes
    from devfix.documents.notebook import Notebook
    from devfix.engine.trace import watch
    from devfix.flow.outside import Outside
    from devfix.library import check
    from devfix.pipeline.around import Around
    from devfix.project import outside
    from devfix.reports.place import message_in_notebook
    from devfix.text.source import Source

    document = document_of(path, read_bytes(path))
    notebook = document if isinstance(document, Notebook) else None
    source = Source(document.text)
    places = [notebook.where(n) if notebook else (n, 0, n) for n in range(1, len(source.line_starts) + 1)]
    line = next(
        (n for n, (file, *inside) in enumerate(places, 1) if (inside == [cell, at] if cell else file == at)),
        0,
    )
    if not line:
        raise ValueError(f"there is no code on line {at}{f' of cell {cell}' if cell else ''}")

    def shown(text: str) -> str:
        return message_in_notebook(text, notebook) if notebook else text

    others = outside(Around(), os.path.abspath(path), source) or Outside(None, path, source)
    known = not others.default_is_other()
    facts = watch(os.path.realpath(path), source, line, others.resolver(), known, others.calls)
    facts.is_run = others.is_run
    head = "cell {1}:{2}".format(*places[line - 1]) if notebook else f"{line}"
    told: dict[tuple[str, ...], None] = {}
    for (_, column, _, _), values in sorted(facts.seen.items(), key=lambda one: (one[0][1], -one[0][3])):
        for node, value, place in values:
            if value.kind in _PLAIN:
                continue
            code = " ".join(source.code(node).split())
            code = code if len(code) <= _LONGEST else f"{code[: _LONGEST - 3]}..."
            kind = f"{_ARTICLES.get(value.kind, 'a')} {_KINDS.get(value.kind, value.kind)}"
            first = f"{head}:{column + 1} `{code}` is {kind}{_place(value.kind, place)}"
            lines = (first, *dict.fromkeys(_history(value.links, facts)), *_assumed(value.assumed))
            told[lines] = None
    if not told:
        yield shown(
            f"no value on line {line} is known to be a tensor, a module, a device or a container of them"
        )
    concerned = [one for one in facts.mismatches if line in _lines(one, facts)]
    about = {line}.union(*(_lines(one, facts) for one in concerned))
    in_file = {places[number - 1][0] for number in about}
    found = [one for one in check(path).findings if not in_file.isdisjoint(range(one.line, one.end_line + 1))]
    told |= dict.fromkeys(tuple(_verdict(one, facts, reported=bool(found))) for one in concerned)
    for lines in told:
        yield from map(shown, lines)
    for finding in found:
        where = f"cell {finding.cell}, line {finding.cell_line}" if finding.cell else f"line {finding.line}"
        yield f"{where}, {finding.codemod}: {finding.message}"
    if not concerned and not found and told:
        yield "as far as devfix knows, no operation on this line combines values on different devices"


def _place(kind: str, place: Place) -> str:
    known = place.kind in _PLACES or place.kind == "literal"
    if known and kind == "device":
        return f", {_where(place).removeprefix('on a device that is ').removeprefix('on ')}"
    return f", {_where(place)}" if known or kind in ("tensor", "module", "batch") else ""


def _where(place: Place) -> str:
    if place.kind == "literal":
        return f"on {place.key}"
    return _PLACES.get(place.kind, "on an unknown device")


def _history(links: History, facts: Watched) -> Iterator[str]:
    for link in links:
        at = _line(link.node, link.file, facts)
        name = link.name.rpartition(".")[2]
        yield f"    {_LINKS.get(link.kind, link.kind)}{f' ({name})' if name else ''}: {at}"


def _assumed(assumed: Assumptions) -> Iterator[str]:
    from devfix.checkers.wording import assumption

    for words in filter(None, map(assumption, sorted(assumed))):
        yield f"    assumed: {words}"


def _line(node: ast.AST, file: File, facts: Watched) -> str:
    """The line of a node, after the name of its file where that is another one."""
    line = f"line {getattr(node, 'lineno', 0)}"
    return line if file is facts.file else f"{os.path.relpath(file.path)}, {line}"


def _lines(mismatch: Mismatch, facts: Watched) -> set[int]:
    """The lines of a mismatch in the file, and of where the value on the wrong device comes from."""
    steps = [(mismatch.node, mismatch.file), *((link.node, link.file) for link in mismatch.stray.links)]
    nodes = [node for node, file in steps if file is facts.file]
    first = ((getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0) for node in nodes)
    return {line for start, end in first for line in range(start, end + 1)}


def _verdict(mismatch: Mismatch, facts: Watched, *, reported: bool) -> Iterator[str]:
    from devfix.checkers.certainty import why_silent

    named = mismatch.operation.startswith("the ")  # "the comparison"
    first = mismatch.stray.links[0]
    made, at = _line(first.node, first.file, facts), _line(mismatch.node, mismatch.file, facts)
    where = "on" if mismatch.file is facts.file else "in"
    yield (
        f"{mismatch.operation if named else f'`{mismatch.operation}`'} {where} {at} combines a value from {made} "
        f"({_where(mismatch.stray_place)}) with another one ({_where(mismatch.anchor_place)})"
    )
    why = why_silent(mismatch, facts)
    if not reported:
        yield f"    no finding: {why or _OTHERWISE}"
    yield from _assumed(mismatch.assumed)
