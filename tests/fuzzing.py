"""Device programs in odd layouts, mutated real files, and what must hold of devfix on every one of them.

All that is random comes from one `random.Random`: hypothesis gives one that it can shrink
(`strategies.randoms()`), `benchmarks/fuzz.py` one for each number, so that every input can be made again.
"""

from __future__ import annotations

import ast
import io
import json
import random
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from devfix.codemod import registry
from devfix.documents import document_of
from devfix.findings import Safety
from devfix.pipeline.trouble import BUG
from devfix.reports.report import FileResult
from planting import plant

DEFAULTS = tuple(codemod() for codemod in registry().values() if codemod.default)
EXAMPLES = tuple(
    text
    for codemod in registry().values()
    for example in codemod.examples
    if not example.recipe
    for text in (example.before, example.after)
    if text is not None
)
_NEWLINES = re.compile(r"\r\n|\r|\n")
_ENDS = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Wrong(AssertionError):
    """A property that does not hold."""


# --- programs ------------------------------------------------------------------------------------


def program(rng: random.Random) -> str:
    """One or two device programs in one text, with LF."""
    parts = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        parts.append(plant(rng.randrange(100_000)).text if rng.random() < 0.4 else rng.choice(EXAMPLES))
    text = "\n".join(part if part.endswith("\n") else part + "\n" for part in parts)
    for _ in range(rng.randrange(5)):
        text = rng.choice(LAYOUTS)(rng, text)
    return text


def encoded(rng: random.Random, text: str) -> bytes:
    """A text as the bytes of a file, perhaps with other line ends, a byte order mark, or an encoding."""
    kind = rng.randrange(8)
    if kind == 1:
        text = text.replace("\n", "\r\n")
    elif kind == 2:
        text = text.replace("\n", "\r")
    elif kind == 3:
        text = re.sub("\n", lambda _: rng.choice(("\n", "\r\n", "\r")), text)
    if rng.random() < 0.15:
        text = text.rstrip("\r\n")
    way = rng.randrange(8)
    if way == 1:
        return b"\xef\xbb\xbf" + text.encode()
    if way in (2, 3) and "coding" not in text:
        name = rng.choice(("latin-1", "cp1252", "utf-8", "koi8-r", "shift_jis", "gb18030", "utf-7", "cp037"))
        try:
            return (f"# -*- coding: {name} -*-\n" + text).encode(name if name != "cp037" else "ascii")
        except UnicodeEncodeError:
            pass
    return text.encode("utf-8", "surrogatepass")


def as_notebook(rng: random.Random, text: str) -> bytes:
    """A text as a notebook: its statements over several cells, with outputs and text between."""
    cells = []
    for part in _cut(rng, text):
        source: object = part.splitlines(keepends=True) if rng.random() < 0.7 else part
        if rng.random() < 0.3:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": ["# head\n", '"source": []']})
        outputs = [{"output_type": "stream", "name": "stdout", "text": part[:40], "source": source}]
        cells.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": outputs,
                "source": source,
            }
        )
        if rng.random() < 0.2:
            cells.append(
                {"cell_type": "code", "metadata": {}, "source": ["%matplotlib inline\n", "!ls *.py"]}
            )
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"a": "é"}, "cells": cells}
    indent = rng.choice((None, 1, 2))
    return json.dumps(notebook, indent=indent, ensure_ascii=rng.random() < 0.5).encode()


def _cut(rng: random.Random, text: str) -> list[str]:
    try:
        starts = [node.lineno - 1 for node in ast.parse(text).body if not getattr(node, "decorator_list", 0)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [text]
    lines = text.splitlines(keepends=True)
    at = sorted({0, *(start for start in starts if rng.random() < 0.3), len(lines)})
    return ["".join(lines[first:last]) for first, last in pairwise(at)] or [text]


# --- layouts -------------------------------------------------------------------------------------
# Each takes a text and gives one that means about the same. What no longer parses is a test as well.


def _logical(text: str) -> list[tuple[int, int]]:
    """First and last line (from 0) of every logical line; empty where the text has no tokens."""
    found, first = [], None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                continue
            first = token.start[0] - 1 if first is None else first
            if token.type == tokenize.NEWLINE:
                found.append((first, token.end[0] - 1))
                first = None
    except (tokenize.TokenError, SyntaxError, ValueError):
        return []
    return found


def _around(rng: random.Random, text: str) -> str:
    head, tail = rng.choice(
        (
            ("def main():", ""),
            ("if True:", ""),
            ("class Holder:", ""),
            ("async def main():", ""),
            ("with open(__file__) as file, file:", ""),
            ("for epoch in range(2):", "else:\n    pass\n"),
            ("while True:", "    break\n"),
            ("try:", "finally:\n    pass\n"),
            ("try:", "except (ValueError, TypeError) as error:\n    raise\n"),
            ("match device:\n  case 'cuda':", ""),
        )
    )
    return f"{head}\n" + "".join(f"    {line}" if line.strip() else line for line in _lines(text)) + tail


def _lines(text: str) -> list[str]:
    return [line + "\n" for line in text.removesuffix("\n").split("\n")]


def _indents(rng: random.Random, text: str) -> str:
    unit = rng.choice(("\t", "  ", " ", "        ", "\t"))
    out = []
    for line in _lines(text):
        depth, rest = divmod(len(line) - len(line.lstrip(" ")), 4)
        out.append(unit * depth + " " * rest + line.lstrip(" "))
    return "".join(out)


_ODD = (
    "# a comment", "# π — 大きさ", "# one\u2028two", "# \x0b \x1c \x85", "#!shebang", "# type: ignore", "# noqa",
    "# fmt: off", "# x = model.to(device)", "# devfix: ignore", "#", "# \N{RIGHT-TO-LEFT OVERRIDE}",
)  # fmt: skip


def _comments(rng: random.Random, text: str) -> str:
    lines = _lines(text)
    for _, last in _logical(text):
        if rng.random() < 0.3 and last < len(lines):
            lines[last] = lines[last].rstrip("\n") + rng.choice(("  ", " ", "\t")) + rng.choice(_ODD) + "\n"
    return "".join(lines)


def _between(rng: random.Random, text: str) -> str:
    """Comments, blank lines and form feeds between logical lines."""
    lines = _lines(text)
    for first, _ in reversed(_logical(text)):
        if rng.random() < 0.25:
            indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
            what = rng.choice(
                ("\n", "\f\n", "   \n", indent + rng.choice(_ODD) + "\n", rng.choice(_ODD) + "\n")
            )
            lines.insert(first, what)
    return "".join(lines)


def _semicolons(rng: random.Random, text: str) -> str:
    lines, gone = _lines(text), set()
    logical = [(first, last) for first, last in _logical(text)]
    for (first, last), (next_first, next_last) in reversed(list(pairwise(logical))):
        one, two = lines[last].rstrip("\n"), lines[next_first]
        if (
            rng.random() < 0.3
            and first == last
            and next_first == next_last == last + 1
            and _depth(one) == _depth(two)
            and "#" not in one
            and not _HEADER.match(one)
            and not _HEADER.match(two)
        ):
            lines[last] = one + rng.choice(("; ", ";", " ;  ")) + two.lstrip()
            gone.add(next_first)
    return "".join(line for at, line in enumerate(lines) if at not in gone)


_HEADER = re.compile(
    r"\s*(?:@|(?:async|def|class|if|elif|else|for|while|with|try|except|finally|match|case)\b)"
)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _one_line(rng: random.Random, text: str) -> str:
    """`if x:` and its only statement on one line."""
    lines, gone = _lines(text), set()
    logical = _logical(text)
    for at, ((first, last), (body, end)) in enumerate(pairwise(logical)):
        head = lines[last].rstrip("\n")
        after = logical[at + 2] if at + 2 < len(logical) else None
        if (
            rng.random() < 0.5
            and first == last
            and body == end == last + 1
            and head.endswith(":")
            and _depth(lines[body]) > _depth(head)
            and (after is None or _depth(lines[after[0]]) <= _depth(head))
            and not _HEADER.match(lines[body])
        ):
            lines[last] = f"{head} {lines[body].strip()}\n"
            gone.add(body)
    return "".join(line for at, line in enumerate(lines) if at not in gone)


def _continued(rng: random.Random, text: str) -> str:
    def broken(match: re.Match[str]) -> str:
        return match[0] + "\\\n" + rng.choice(("    ", "", "\t")) if rng.random() < 0.3 else match[0]

    return re.sub(r"(?<=\w) = (?=\w)", broken, text)


def _in_brackets(rng: random.Random, text: str) -> str:
    def broken(match: re.Match[str]) -> str:
        if rng.random() > 0.3:
            return match[0]
        return match[0].rstrip() + rng.choice(("\n", "\n        ", f"  {rng.choice(_ODD)}\n    "))

    return re.sub(r"(?<=\w)\((?=\w)|(?<=\w), (?=\w+\))", broken, text)


def _decorated(rng: random.Random, text: str) -> str:
    decorator = rng.choice(
        ("@staticmethod", "@torch.no_grad()", "@a.b(  # why\n{0}    1)", "@x\n{0}# c\n{0}@y")
    )

    def added(match: re.Match[str]) -> str:
        return f"{match[1]}{decorator.format(match[1])}\n{match[0]}" if rng.random() < 0.4 else match[0]

    return re.sub(r"^([ \t]*)(?:async )?(?:def|class) ", added, text, flags=re.MULTILINE)


def _shuffled(rng: random.Random, text: str) -> str:
    lines = _lines(text)
    at = rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        lines.insert(at, lines[at])
    elif what == 1:
        del lines[at]
    elif what == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, " " * _depth(lines[at]) + rng.choice(_STATEMENTS) + "\n")
    return "".join(lines)


_STATEMENTS = (
    "model.to(device)", "x = x.to(device)", "model.head = nn.Linear(4, 2)", "mask = torch.zeros(4)",
    "state = torch.load('a.pt')", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "x.cuda()",
    "torch.set_default_tensor_type('torch.cuda.FloatTensor')", "loss = criterion(model(x), y).item()",
    "text = '''\n  # no comment\n'''", "s = 'π'; t = 1", "pass", "return model", "yield x", "await x",
    "if x.device == 'cuda': pass", "self.layers = [nn.Linear(1, 1)]", "x.detach().numpy()",
    'print(f"{model(x)!r:>{width}}")', "lambda x: (yield)", "global model", "del model", "x: int",
)  # fmt: skip

LAYOUTS: tuple[Callable[[random.Random, str], str], ...] = (
    _around, _indents, _comments, _between, _semicolons, _one_line, _continued, _in_brackets, _decorated, _shuffled,
)  # fmt: skip


# --- mutations of real files -----------------------------------------------------------------------


def mutated(rng: random.Random, text: str) -> str:
    """A piece of a real file with some lines or characters changed, and perhaps device code in it."""
    lines = text.split("\n")
    start = rng.randrange(max(1, len(lines) - 150))
    while start and lines[start][:1] in (" ", "\t", "", "#", ")", "]", "}"):
        start -= 1
    text = (
        "\n".join(["import torch", "from torch import nn", *lines[start : start + rng.randrange(20, 300)]])
        + "\n"
    )
    for _ in range(rng.randrange(4)):
        what = rng.randrange(6)
        at = rng.randrange(len(text))
        if what == 0:
            text = text[:at] + text[at + rng.randrange(1, 4) :]
        elif what == 1:
            text = (
                text[:at]
                + rng.choice(
                    ("(", ")", "\\\n", "\n", "#", "'", '"""', ":", ";", "\t", "\f", "\u2028", "é", "\0")
                )
                + text[at:]
            )
        elif what == 2:
            other = rng.randrange(len(text))
            text = text[:at] + text[other : other + rng.randrange(40)] + text[at:]
        else:
            text = rng.choice(LAYOUTS)(rng, text) if text.strip() else text
    return text


# --- properties ------------------------------------------------------------------------------------


def holds(path: str, data: bytes, level: Safety = Safety.UNSAFE) -> str:
    """Check everything that must hold; "refused", "silent", "found" or "changed". Raises Wrong."""
    result = treated(path, data, level)
    if result.error is not None:
        if BUG in result.error.message:
            raise Wrong(f"{result.error.stage}: {result.error.message}")
        return "refused"
    if not result.changed:
        return "found" if result.findings else "silent"
    after = result.after
    again = treated(path, after, level)
    if again.error is not None:
        raise Wrong(f"the result is refused: {again.error.message}")
    if again.changed:
        raise Wrong("a second run changes something")
    if path.endswith(".ipynb"):
        _only_sources(data, after)
        return "changed"
    before_text, after_text = document_of(path, data).text, document_of(path, after).text
    ast.parse(after_text)
    if _bom(data) != _bom(after):
        raise Wrong("the byte order mark changed")
    lost = comments(before_text) - comments(after_text)
    if lost:
        raise Wrong(f"comments are lost: {sorted(lost)}")
    touched = {
        line for change in result.changes for first, last in change.lines for line in range(first, last + 1)
    }
    _untouched_lines(data, after, touched)
    _untouched_code(before_text, after_text, touched)
    return "changed"


def treated(path: str, data: bytes, level: Safety) -> FileResult:
    from devfix.pipeline.work import Task

    return Task(DEFAULTS, level).data(path, data)


def _bom(data: bytes) -> bool:
    return data.startswith(b"\xef\xbb\xbf")


def comments(text: str) -> set[str]:
    """The comments of a text that has tokens."""
    lines = io.StringIO(_NEWLINES.sub("\n", text))
    found = set()
    try:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                found.add(token.string.rstrip())
    except (tokenize.TokenError, SyntaxError):
        return set()
    return found


def _untouched_lines(before: bytes, after: bytes, touched: set[int]) -> None:
    """The lines that no fix names are all there, byte for byte and in order.

    Lines are Python's; fixes name those of git, which end with LF only.
    """
    rest = _ENDS.findall(after)
    at = feeds = 0
    for line in _ENDS.findall(before):
        number, feeds = feeds, feeds + line.endswith(b"\n")
        if number in touched:
            continue
        try:
            at = rest.index(line, at) + 1
        except ValueError:
            raise Wrong(f"line {number + 1} changed, which no fix names: {line[:80]!r}") from None


def _untouched_code(before: str, after: str, touched: set[int]) -> None:
    """Statements outside of the edits mean the same, in the same order: `ast.dump` of each."""
    feeds = [0, *(match.end() for match in re.finditer("\n", before))]
    starts = [0, *(match.end() for match in _NEWLINES.finditer(before))]

    def line(number: int) -> int:  # of the parser, from 1 -> of git, from 0
        from bisect import bisect_right

        return bisect_right(feeds, starts[number - 1]) - 1

    rest = iter([dump for dump, _, _ in _statements(ast.parse(after))])
    for dump, first, last in _statements(ast.parse(before)):
        if touched.isdisjoint(range(line(first), line(last) + 1)):
            if not any(other == dump for other in rest):
                raise Wrong(f"line {first} means something else, which no fix names: {dump[:200]}")


def _statements(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Every statement in order, of one with a body its header: dump, first and last line."""
    todo: list[ast.AST] = list(reversed(tree.body))
    while todo:
        node = todo.pop()
        blocks = [
            getattr(node, name)
            for name in ("body", "handlers", "orelse", "finalbody", "cases")
            if getattr(node, name, None)
        ]
        blocks = [block for block in blocks if isinstance(block, list)]
        if not blocks:
            yield ast.dump(node), node.lineno, node.end_lineno  # type: ignore[attr-defined,misc]
            continue
        parts = []
        last = getattr(node, "lineno", 0)
        for name, value in ast.iter_fields(node):
            if name in ("body", "handlers", "orelse", "finalbody", "cases"):
                continue
            for item in value if isinstance(value, list) else [value]:
                parts.append(ast.dump(item) if isinstance(item, ast.AST) else repr(item))
                last = max(
                    [
                        last,
                        *(
                            getattr(one, "end_lineno", 0) or 0
                            for one in (ast.walk(item) if isinstance(item, ast.AST) else ())
                        ),
                    ]
                )
        if hasattr(node, "lineno"):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            yield f"{type(node).__name__}({', '.join(parts)})", first, last
        for block in reversed(blocks):
            todo.extend(reversed(block))


def _only_sources(before: bytes, after: bytes) -> None:
    """A notebook in which nothing but the code of code cells is other."""
    old, new = json.loads(before), json.loads(after)
    for notebook in (old, new):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                del cell["source"]
    if old != new:
        raise Wrong("something else than the code of a cell changed")


# --- one input -------------------------------------------------------------------------------------


def one(rng: random.Random, files: Sequence[str] = ()) -> tuple[str, bytes]:
    """An input of any kind: the name of a file and its bytes; `files` are texts of real ones."""
    kind = rng.random()
    if files and kind < 0.3:
        return "mutated.py", encoded(rng, mutated(rng, rng.choice(files)))
    if kind < 0.4:
        return "program.ipynb", as_notebook(rng, program(rng))
    return "program.py", encoded(rng, program(rng))
