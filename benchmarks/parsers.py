"""What reading a folder costs with `ast`, with LibCST and with Bowler's parser: why devfix analyses with `ast`.

python benchmarks/parsers.py FOLDER
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libcst
from fissix import pygram, pytree
from fissix.pgen2.driver import Driver
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

DRIVER = Driver(pygram.python_grammar_no_print_statement, convert=pytree.convert)


def with_metadata(text: str) -> None:
    """As a rule needs it: where each node is, and what is around it."""
    MetadataWrapper(libcst.parse_module(text)).resolve_many([PositionProvider, ParentNodeProvider])


WAYS: dict[str, Callable[[str], object]] = {
    "ast": ast.parse,
    "LibCST": libcst.parse_module,
    "LibCST, positions and parents": with_metadata,
    "fissix (Bowler)": lambda text: DRIVER.parse_string(f"{text}\n"),
}


def main() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path(sys.argv[1]).rglob("*.py"))]
    print(f"{len(texts)} files, {sum(text.count(chr(10)) for text in texts)} lines")
    for name, parse in WAYS.items():
        start, failed = time.perf_counter(), 0
        for text in texts:
            try:
                parse(text)
            except Exception:  # whatever a parser raises
                failed += 1
        print(f"{name:32}{time.perf_counter() - start:8.2f} s{f', {failed} not read' if failed else ''}")


if __name__ == "__main__":
    main()
