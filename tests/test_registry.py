"""The registry imports a codemod when it is asked for, and words are looked for once."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.codemod import Example, registry, wanting
from devfix.text.source import Source, children

CODEMODS = tuple(kind() for kind in registry().values())
HERE = Path(__file__).parent


def test_ids_are_the_names_of_modules() -> None:
    assert list(registry()) == sorted(registry())
    for id, kind in registry().items():
        assert kind.id == id
        assert kind.__module__ == f"devfix.rules.{id.replace('-', '_')}"


def test_only_what_is_asked_for_is_imported() -> None:
    program = (
        "import sys\n"
        "from devfix.config import Config, choose\n"
        "chosen = choose(Config(codemods=('reorder-to',)))\n"
        "print([codemod.id for codemod in chosen])\n"
        "print(sorted(name for name in sys.modules if name.startswith('devfix.rules.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['reorder-to']\n['devfix.rules.reorder_to']\n"


def test_wanting_is_what_each_codemod_wants() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(HERE.rglob("*.py"))]
    texts += ["", "import torch\n", 'import torch\nmodel.to("cuda")\n']
    for text in texts:
        assert wanting(CODEMODS, text) == tuple(codemod for codemod in CODEMODS if codemod.wants(text))


def test_no_node_is_lost() -> None:
    shared = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    for path in [*HERE.rglob("*.py"), Path(ast.__file__), Path(subprocess.__file__)]:
        source = Source(path.read_text(encoding="utf-8"))
        wanted = {node for node in ast.walk(source.tree) if not isinstance(node, shared)}
        assert set(source.walk()) == wanted
        assert set(source.walk(source.tree.body[-1])) <= wanted
        for node in wanted:
            assert children(node) == [
                child for child in ast.iter_child_nodes(node) if not isinstance(child, shared)
            ]


def test_an_example_that_says_what_changes() -> None:
    made = Example.changed("one", "a = 1\nb = 1\n", ("a = 1", "a = 2"), raises="error")
    assert made == Example("one", "a = 1\nb = 1\n", "a = 2\nb = 1\n", "error")
    for text in ("1", "c"):
        with pytest.raises(ValueError, match=f"'{text}' stands there [02] times"):
            Example.changed("one", "a = 1\nb = 1\n", (text, "2"))
