"""Odd files: each is repaired as it should be, or named with the reason and left byte for byte as it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest
from devfix.documents import document_of
from devfix.findings import Safety
from devfix.pipeline.discover import Discovered
from devfix.pipeline.parallel import TookTooLong, limited, spread
from devfix.pipeline.runner import process, run
from devfix.pipeline.writing import write
from devfix.reports.report import FileResult
from devfix.rules.reorder_to import ReorderTo

BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4))
model.to(device)
model.add_module("head", nn.Linear(4, 2))
print(model(torch.zeros(1, 4, device=device)))
"""
MOVED = BUG.replace("model.to(device)\n", "").replace("4, 2))\n", "4, 2))\nmodel.to(device)\n")


def repaired(data: bytes, path: str = "x.py") -> FileResult:
    return process(document_of(path, data), [ReorderTo()])


# --- layout: the repair is the same, in the file's own way ---------------------------------------------

SAME: dict[str, Callable[[str], bytes]] = {
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CRLF and no last newline": lambda text: text.replace("\n", "\r\n").encode().rstrip(b"\r\n"),
    "a cookie in the second line": lambda text: f"#!python\n# vim: fileencoding=cp1252\n# €\n{text}".encode("cp1252"),
    "shift_jis": lambda text: f"# coding: shift_jis\nname = '表示'\n{text}".encode("shift_jis"),
    "utf-8 with a cookie and a BOM": lambda text: b"\xef\xbb\xbf# coding: utf-8\n" + text.encode(),
    "form feeds": lambda text: f"\f\n{text}\f\nx = 1\n".encode(),
    "U+2028, U+0085 and a vertical tab in strings": lambda text: f"s = 'a\u2028b\u0085c\vd'  # \u2029\n{text}".encode(),
    "tabs": lambda text: f"if s:\n\tx = 1\n{text}".encode(),
    "one-line suites and semicolons": lambda text: f"if 1: a = 1; b = 2\nclass C: pass;\n{text}".encode(),
    "backslashes": lambda text: f"a = \\\n  1 + \\\n  2\n{text}".encode(),
    "decorators": lambda text: f"@a.b(\n  1)\n# why\n@c\ndef f(): pass\n{text}".encode(),
    "a million blank lines": lambda text: b"\n" * 1_000_000 + text.encode(),
    "a line of 5 MB": lambda text: f"{text}s = '{'x' * 5_000_000}'\n".encode(),
    "180 parentheses": lambda text: f"{text}x = {'(' * 180}1{')' * 180}\n".encode(),
    "a sum of 500 terms": lambda text: f"{text}x = {' + '.join(['a'] * 500)}\n".encode(),
    "90 blocks": lambda text: (text + "".join(" " * n + "if a:\n" for n in range(90)) + " " * 90 + "pass\n").encode(),
    "trailing blanks": lambda text: f"x = 1   \n\t\n{text}   ".encode(),
    "NFKC names": lambda text: f"ﬁ = 1\nprint(fi)\n{text}".encode(),
}  # fmt: skip


@pytest.mark.parametrize("layout", SAME)
def test_the_repair_is_the_same_in_every_layout(layout: str) -> None:
    result = repaired(SAME[layout](BUG))
    assert result.error is None
    assert result.after == SAME[layout](MOVED)


# --- refused: named with the reason, and not changed ---------------------------------------------------

REFUSED: dict[str, tuple[bytes, str]] = {
    "NUL": (BUG.encode() + b"\0", "NUL bytes"),
    "UTF-16": (b"\xff\xfe" + BUG.encode("utf-16-le"), "UTF-16"),
    "UTF-16 without a mark": (BUG.encode("utf-16-le"), "NUL bytes"),
    "UTF-32": (BUG.encode("utf-32"), "UTF-16"),
    "invalid UTF-8": (BUG.encode() + b"# \xff\n", "line 9 is not valid utf-8 (byte 0xff)"),
    "an encoding that nobody knows": (b"# coding: klingon\n" + BUG.encode(), "unknown encoding"),
    "an encoding that is no text": (b"# coding: rot13\n" + BUG.encode(), "rot13"),
    "2,000 parentheses": (f"{BUG}x = {'(' * 2000}1{')' * 2000}\n".encode(), "too many nested parentheses"),
    "10,000 brackets": (f"{BUG}x = {'[' * 10000}{']' * 10000}\n".encode(), "too many nested parentheses"),
    "50,000 signs": (f"{BUG}x = {'-' * 50_000}1\n".encode(), "too deeply nested"),
    "200 blocks": ((BUG + "".join(" " * n + "if a:\n" for n in range(200))).encode(), "too many levels"),
    "an unfinished string": (f"{BUG}x = '''\n".encode(), "unterminated"),
    "mixed tabs and blanks": (f"{BUG}if a:\n\tx\n        y\n".encode(), "inconsistent use of tabs"),
    "Python 2": (f"{BUG}print 'x'\n".encode(), "is it Python 2?"),
    "Python 2's except": (f"{BUG}try: x\nexcept A, e: y\n".encode(), "multiple exception types"),
    "Python 2's octal": (f"{BUG}x = 0777\n".encode(), "is it Python 2?"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_named_and_left_alone(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    path = tmp_path / "x.py"
    path.write_bytes(data)
    report = write(run(Discovered((str(path),)), [ReorderTo()], jobs=1))
    (error,) = report.errors
    assert message in error.message and "own bug" not in error.message
    assert report.written == () and path.read_bytes() == data


@pytest.mark.parametrize("terms", [20_000, 400_000])
@pytest.mark.parametrize("chain", ["a + ", "a.", "f()"])
def test_very_long_chains(terms: int, chain: str, tmp_path: Path) -> None:
    """Python refuses them, or (3.10) reads them or crashes, in a process of its own: always named or repaired."""
    rest = f"x = {'f' + '()' * terms if chain == 'f()' else chain * terms + 'a'}\n"
    path = tmp_path / "x.py"
    path.write_text(BUG + rest)
    report = write(run(Discovered((str(path),)), [ReorderTo()], jobs=1))
    if report.errors:
        assert re.search("too deeply nested|died|longer than", report.errors[0].message)
        assert path.read_text() == BUG + rest
    else:
        assert path.read_text() == MOVED + rest


_SYNTAX = {
    (3, 8): "if (n := 1): pass\ndef f(a, /, b): pass\nprint(f'{n=}')\n",
    (3, 9): "@a[0].b\ndef f(): pass\n",
    (3, 10): "match x:\n    case {'a': 1, **rest}: pass\nwith (a as b, c as d): pass\n",
    (3, 11): "try: pass\nexcept* ValueError: pass\nx[*a]\n",
    (3, 12): "type X[T] = list[T]\ndef f[T: int](x: T): pass\nprint(f'{'a'}{'''b''' + \"c\"}')\n",
    (3, 13): "class A[T = int]: pass\n",
    (3, 14): "x = t'{y}'\ntry: pass\nexcept A, B: pass\n",
}


@pytest.mark.parametrize("version", _SYNTAX, ids=lambda version: f"{version[0]}.{version[1]}")
def test_syntax_of_every_version(version: tuple[int, int]) -> None:
    """What this Python cannot read is reported as that, with its version; anything else is repaired around."""
    data = (BUG + _SYNTAX[version]).encode()
    result = repaired(data)
    if sys.version_info >= version:
        assert result.error is None and result.after == (MOVED + _SYNTAX[version]).encode()
    else:
        assert result.error is not None and result.after == b""
        assert f"(read as Python {sys.version_info.major}.{sys.version_info.minor}." in result.error.message
        if version >= (3, 12):
            assert f"if it is written for Python {version[0]}.{version[1]}, run" in result.error.message


def test_a_very_long_call_is_not_given_to_libcst() -> None:
    """It takes minutes for 20,000 terms, and nesting that Python still reads ends its process."""
    from devfix.config import make
    from devfix.rules.place_factory import PlaceFactory

    for argument in (" + ".join(["1"] * 900), "-" * 80 + "1", f"[{'1, ' * 30_000}]"):
        text = (
            f"import torch\n\ndef f(x, model):\n    x = x.cuda()\n    return x + torch.tensor({argument})\n"
        )
        result = process(document_of("x.py", text.encode()), [make(PlaceFactory, {})], Safety.UNSAFE)
        assert result.error is None or "nested" in result.error.message


# --- limits ----------------------------------------------------------------------------------------


def test_a_file_that_hangs_is_named_in_this_process_too(tmp_path: Path) -> None:
    def task(paths: tuple[str, ...]) -> str:
        while paths == ("hangs",):
            pass
        return paths[0]

    found = list(
        spread(task, ["one", "hangs", "two"], lambda path, why: f"{path}: {why}", jobs=1, seconds=0.2)
    )
    assert found == ["one", "hangs: took longer than 0.2 s", "two"]


def test_the_alarm_is_off_afterwards() -> None:
    with limited(0.01):
        pass
    import time

    time.sleep(0.03)
    with pytest.raises(TookTooLong), limited(0.01):
        while True:
            pass


def _eats_memory(paths: tuple[str, ...]) -> str:
    if os.path.basename(paths[0]) == "big.py":
        held = []
        while True:
            held.append(bytearray(64 << 20))
    return paths[0]


def test_a_file_that_takes_all_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A big file gets a process of its own, and that has a limit."""
    pytest.importorskip("resource")
    from devfix.pipeline import parallel

    monkeypatch.setattr(parallel, "MEMORY", 500 << 20)
    monkeypatch.setattr(parallel, "BIG", 10)
    big, small = tmp_path / "big.py", tmp_path / "small.py"
    big.write_text("x = 1\n" * 10)
    small.write_text("x = 1\n")

    found = list(spread(_guarded, [str(big), str(small)], lambda path, why: why, jobs=1))
    assert found == ["no memory", str(small)]


def _guarded(paths: tuple[str, ...]) -> str:
    try:
        return _eats_memory(paths)
    except MemoryError:
        return "no memory"


def test_no_number_of_processes_is_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that came with a repository may name any."""
    from devfix.pipeline import parallel

    monkeypatch.setattr(parallel, "cores", lambda: 1)
    names = [str(number) for number in range(60)]
    counts = []
    for _ in spread(_named, names, lambda path, why: why, jobs=12):
        counts.append(len(multiprocessing.active_children()))
    assert max(counts) == 4


def _named(paths: tuple[str, ...]) -> str:
    return paths[0]


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["x = 1\n", "    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],\n", "# comment\n"])
def test_files_of_50_megabytes(rest: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    text = rest * (50_000_000 // len(rest))
    path.write_text(BUG + (f"x = [\n{text}]\n" if rest.startswith(" ") else text))
    before = path.read_bytes()
    report = write(run(Discovered((str(path),)), [ReorderTo()], jobs=1))
    assert bool(report.errors) == (path.read_bytes() == before) == (not report.written)


# --- notebooks ---------------------------------------------------------------------------------------


def notebook(*cells: dict[str, object], **more: object) -> bytes:
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells, **more}, indent=1).encode()


def cell(source: object, **more: object) -> dict[str, object]:
    return {"cell_type": "code", "metadata": {}, **more, "source": source}


def test_an_output_that_looks_like_the_cell() -> None:
    """It has a key `source` with the same text, in front of the cell's own; only the cell's is changed."""
    lines = BUG.splitlines(keepends=True)
    data = notebook(cell(lines, outputs=[{"source": lines, "data": {"source": lines}}]), source=lines)
    after = json.loads(repaired(data, "x.ipynb").after)
    assert "".join(after["cells"][0]["source"]) == MOVED
    assert after["cells"][0]["outputs"][0] == {"source": lines, "data": {"source": lines}}
    assert after["source"] == lines


def test_a_gigantic_output() -> None:
    image = "iVBOR" * 4_000_000
    data = notebook(cell(BUG, outputs=[{"data": {"image/png": image}}]))
    after = repaired(data, "x.ipynb").after
    assert len(after) == len(data) and json.loads(after)["cells"][0]["source"] == MOVED


@pytest.mark.parametrize(
    "text",
    [
        "[]", "null", "3", "{}", '{"cells": {}}', '{"cells": [1, null, "a", []]}', "[" * 100_000,
        '{"cells": [{"cell_type": "code", "source": [1]}]}', '{"cells": ' + "[" * 5_000 + "]" * 5_000 + "}",
        '{"cells": [{"cell_type": [], "source": "model.to(device)"}]}', '{"cells": [], "metadata": []}',
        '{"cells": [], "metadata": {"kernelspec": [1]}}', '{"cells": [{"cell_type": "code", "source": "\\ud800"}]}',
        '{"cells": [{"cell_type": "code", "source": {"a": "model.to(device)"}}]}', '{"cells": [NaN]}',
    ],
)  # fmt: skip
def test_what_only_looks_like_a_notebook(text: str) -> None:
    result = process_or_error(text)
    assert "own bug" not in result


def process_or_error(text: str) -> str:
    from devfix.pipeline.work import Task

    found = Task((ReorderTo(),)).data("x.ipynb", text.encode())
    assert not found.changed
    return found.error.message if found.error is not None else ""


def test_yaml_bombs_and_tags() -> None:
    """Aliases that grow to gigabytes, deep nesting, tags that would run something: nothing is built of them."""
    from devfix.documents.yaml import YamlError, compose

    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert sum(1 for _ in compose(laughs).walk()) < 1000
    run_me = 'x: !!python/object/apply:os.system ["touch ran"]\nmodules: !new:os.system ["touch ran"]\n'
    assert compose(run_me).get("x") is not None and not Path("ran").exists()
    for text in ("[" * 100_000, "- " * 5_000 + "x", "a: &a [*a]", "x: 1\n" * 300_000, "a: *b\n", "\x00"):
        with pytest.raises(YamlError):
            compose(text)


def test_tokenizers_agree_that_nothing_is_lost() -> None:
    """Every layout above is a file that Python itself reads, so that these tests test something."""
    import io

    for layout, made in SAME.items():
        if layout not in ("CR", "a million blank lines"):
            list(tokenize.tokenize(io.BytesIO(made(BUG)).readline))
