"""No regular expression of the package takes much longer than its text grows: each is tried on hostile texts.

The patterns are those that the modules have, and those that are written in calls of `re`; each is tried with the
methods that it is used with: what `match` tries at one place, `search` tries at each.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import devfix
import pytest

parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

SMALL, LARGE = 100, 800  # times that a unit is repeated
LIMIT = 24  # a linear pattern takes 8 times as long for the larger text, a quadratic one 64 times
_SHORT = 0.0003  # seconds; what takes less for the larger text is not quadratic on any machine
_METHODS = {"match": "match", "fullmatch": "fullmatch"}  # all others look everywhere


def patterns() -> dict[re.Pattern[Any], set[tuple[str, str]]]:
    """Every pattern, with where it is and how it is used."""
    found: dict[re.Pattern[Any], set[tuple[str, str]]] = {}
    folder = Path(devfix.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    uses: dict[tuple[str, str], set[str]] = {}
    for path, tree in trees.items():
        for name, method, elsewhere in _uses(tree):
            uses.setdefault(("" if elsewhere else str(path), name), set()).add(method)
        for pattern, method in _written(tree) if "re." in texts[path] else ():
            found.setdefault(pattern, set()).add((path.name, method))
    for path in sorted(path for path, text in texts.items() if "re.compile(" in text):
        names = path.relative_to(folder.parent).with_suffix("").parts
        try:
            module = importlib.import_module(".".join(names[:-1] if names[-1] == "__init__" else names))
        except ImportError:  # an extra that is not installed
            continue
        for name, value in vars(module).items():
            for pattern in _patterns_in(value):
                here = uses.get((str(module.__file__), name), set()) | uses.get(("", name), set())
                methods = here if isinstance(value, re.Pattern) and here else {"search"}
                found.setdefault(pattern, set()).update((f"{module.__name__}.{name}", one) for one in methods)
    return found


def _uses(tree: ast.AST) -> Iterator[tuple[str, str, bool]]:
    """Names, the methods of theirs that are called, and if they are of other modules.

    What else is done with one may be a search.
    """
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Name, ast.Attribute))]
    methods = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        method = _METHODS.get(methods.get(id(node), ""), "search")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, method, False
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id != "self":
            yield node.attr, method, True


def _written(tree: ast.AST) -> Iterator[tuple[re.Pattern[Any], str]]:
    """The patterns in calls within functions; what is put into one is a word there."""
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, inside = todo.pop()
        if inside and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            func = node.func
            text = _text(node.args[0]) if isinstance(func.value, ast.Name) and func.value.id == "re" else None
            if text is not None:
                yield re.compile(text), _METHODS.get(func.attr, "search")
        inside = inside or isinstance(node, (ast.FunctionDef, ast.Lambda))
        todo += [(one, inside) for one in ast.iter_child_nodes(node)]


def _text(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "name" for part in node.values)
    return None


def _patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)):
        for one in value:
            yield from _patterns_in(one)
    elif isinstance(value, dict):
        yield from _patterns_in((*value, *value.values()))


# --- hostile texts ---------------------------------------------------------------------------------------


def _example(tree: Any, least: int = 1) -> str:
    """A text that a parsed pattern matches, roughly: repeats are made as often as they must, at least once."""
    return "".join(_one(op, value, least) for op, value in tree)


def _one(op: Any, value: Any, least: int) -> str:
    name = str(op)
    if name == "LITERAL":
        return chr(value)
    if name == "NOT_LITERAL":
        return "a" if value != ord("a") else "b"
    if name == "ANY":
        return "a"
    if name == "IN":
        return _member(value)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _example(value[2], least) * max(value[0], min(least, value[1]))
    if name == "SUBPATTERN":
        return _example(value[3], least)
    if name == "ATOMIC_GROUP":
        return _example(value, least)
    if name == "BRANCH":
        return _example(value[1][0], least)
    return ""


def _member(value: Any) -> str:
    """A character of a class: `a` if it is one."""
    for character in "a1 \n.-_\"'(=:/":
        if re.fullmatch(_class(value), character):
            return character
    return next((chr(one) for op, one in value if str(op) == "LITERAL"), "a")


def _class(value: Any) -> str:
    parts = []
    for op, one in value:
        name = str(op)
        if name == "NEGATE":
            parts.append("^")
        elif name == "LITERAL":
            parts.append(re.escape(chr(one)))
        elif name == "RANGE":
            parts.append(f"{re.escape(chr(one[0]))}-{re.escape(chr(one[1]))}")
        elif name == "CATEGORY":
            what = str(one).removeprefix("CATEGORY_")
            letter = what.removeprefix("NOT_")[0].lower()
            parts.append("\\" + (letter.upper() if what.startswith("NOT_") else letter))
    return f"[{''.join(parts)}]"


def _repeats(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Of each repeat without a bound: what comes before it, and what it repeats."""
    for op, value in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            if value[1] > 1000:
                yield before, _example(value[2])
                yield before, _example(value[2], 0)
            yield from _repeats(value[2], before)
        elif name == "SUBPATTERN":
            yield from _repeats(value[3], before)
        elif name == "ATOMIC_GROUP":
            yield from _repeats(value, before)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _repeats(branch, before)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeats(value[1], before)
        before += _one(op, value, 1)


def hostile(pattern: re.Pattern[Any]) -> set[tuple[str, str, str]]:
    """(before, unit, after): texts in which a unit that the pattern repeats comes very often."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(
        text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    )
    repeats = [(before[:60], unit) for before, unit in _repeats(tree) if unit]
    if not repeats:
        return set()
    own = {unit for _, unit in repeats} | {before + unit for before, unit in repeats} | {_example(tree)[:60]}
    others = {" ", "\n", "a", "(", "a.", "a ", "\t\n", "a(", "[", '"', "a\n", "\\", "#", ",", "1"}
    texts = {("", unit) for unit in own | others} | {
        (before, unit) for before, _ in repeats for unit in {one for _, one in repeats} | {" "}
    }
    return {(before, unit, after) for before, unit in texts if unit for after in ("", "\0")}


def _seconds(use: Any, text: Any) -> float:
    start = time.process_time()
    use(text)
    return time.process_time() - start


def _ratio(pattern: re.Pattern[Any], method: str, parts: tuple[str, str, str]) -> float:
    """How much longer the larger text takes; the least of a few times."""
    use = getattr(pattern, method) if method != "search" else lambda text: list(pattern.finditer(text))
    before, unit, after = parts
    texts: list[Any] = [before + unit * times + after for times in (SMALL, LARGE)]
    if isinstance(pattern.pattern, bytes):
        texts = [text.encode("utf-8", "replace") for text in texts]
    large = _seconds(use, texts[1])
    if large < _SHORT:
        return 0.0
    best = large / max(_seconds(use, texts[0]), 1e-9)
    for _ in range(4):
        if best < LIMIT:
            break
        small = min(_seconds(use, texts[0]) for _ in range(5))
        best = min(best, _seconds(use, texts[1]) / max(small, 1e-9))
    return best


def too_long(pattern: re.Pattern[Any], methods: set[str]) -> list[tuple[str, str, float]]:
    """The texts that a pattern takes too long for: what is repeated, the method, and how it grows."""
    found = []
    for parts in sorted(hostile(pattern)):
        for method in sorted(methods):
            ratio = _ratio(pattern, method, parts)
            if ratio >= LIMIT:
                return [(repr(parts), method, ratio)]
    return found


# It reads the headers of the torch that is installed, which is run as well.
_TRUSTED = ("vtable.py", "devfix.simulate.vtable.")


def test_no_pattern_takes_for_ever() -> None:
    found = patterns()
    assert len(found) > 300
    slow = []
    for pattern, places in found.items():
        if not any(place.startswith(_TRUSTED) for place, _ in places):
            slow += [(sorted(places)[0][0], *one) for one in too_long(pattern, {how for _, how in places})]
    assert not slow


@pytest.mark.parametrize(
    ("pattern", "methods"),
    [
        (r"\w+\(", {"search"}),
        (r"\s*x?\s*y", {"match"}),
        (rb"x[^)]*\)", {"search"}),
        (r"(a|b)*?c$", {"search"}),
    ],
)
def test_such_a_pattern_is_found(pattern: str | bytes, methods: set[str]) -> None:
    assert too_long(re.compile(pattern), methods)
