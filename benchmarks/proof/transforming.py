"""Programs that do the same in other words: what is found in one of them must be found in the other."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator

from proof.simulated import Program

STATEMENTS = 4  # of a program in which a value is led another way, one after the other
# Names that torch, Python or data loading give a meaning: renamed, the program is another one.
_KEPT = frozenset(
    [
        "forward", "device", "dtype", "weight", "bias", "shape", "data", "grad", "training", "parameters",
        "buffers", "children", "modules", "to", "cuda", "cpu", "eval", "train", "state_dict",
        "reset_parameters", "self", "cls",
    ]
)  # fmt: skip

_STARRED = frozenset(
    [
        "zeros", "ones", "arange", "randn", "rand", "full", "eye", "empty", "linspace", "cat", "stack",
        "where", "matmul", "randint", "zeros_like", "ones_like",
    ]
)  # fmt: skip


Way = Callable[
    [ast.expr], "tuple[list[ast.stmt], ast.expr, str]"
]  # statements before, the value, definitions


def _expression(text: str) -> ast.expr:
    made = ast.parse(text, mode="eval").body
    return made


def _with(text: str, value: ast.expr, result: str, define: str = "") -> tuple[list[ast.stmt], ast.expr, str]:
    """Statements in which `VALUE` stands for a value, and the expression that has it afterwards."""

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return copy.deepcopy(value) if node.id == "VALUE" else node

    before = [Put().visit(one) for one in ast.parse(text).body]
    return before, Put().visit(_expression(result)), define


VALUES: dict[str, Way] = {
    "tuple": lambda v: _with("held = (VALUE, 0)", v, "held[0]"),
    "list": lambda v: _with("held = [VALUE]", v, "held[0]"),
    "dict": lambda v: _with("held = {'key': VALUE}", v, "held['key']"),
    "dataclass": lambda v: _with(
        "", v, "Held(VALUE).content", "import dataclasses\n@dataclasses.dataclass\nclass Held:\n    content: object\n"
    ),
    "NamedTuple": lambda v: _with(
        "", v, "Held(VALUE).content", "import typing\nclass Held(typing.NamedTuple):\n    content: object\n"
    ),
    "property": lambda v: _with(
        "", v, "Held(VALUE).content",
        "class Held:\n    def __init__(self, given):\n        self._given = given\n"
        "    @property\n    def content(self):\n        return self._given\n",
    ),
    "closure": lambda v: _with("held = VALUE\ndef give():\n    return held", v, "give()"),
    "partial": lambda v: _with(
        "", v, "functools.partial(same, True)(VALUE)", "import functools\ndef same(flag, given):\n    return given\n"
    ),
    "constant flag": lambda v: _with("flag = True\nheld = None\nif flag:\n    held = VALUE", v, "held"),
    "second round": lambda v: _with(
        "held = last = None\nfor turn in range(2):\n    held = last\n    last = VALUE", v, "held"
    ),
    "early return": lambda v: _with(
        "", v, "pick(VALUE)",
        "def pick(given, other=None):\n    if other is not None:\n        return other\n    return given\n",
    ),
    "try": lambda v: _with("try:\n    held = VALUE\nexcept KeyError:\n    raise", v, "held"),
    "with": lambda v: _with(
        "with contextlib.nullcontext():\n    held = VALUE", v, "held", "import contextlib\n"
    ),
    "either arm": lambda v: _with("if str(1) == '1':\n    held = VALUE\nelse:\n    held = VALUE", v, "held"),
    "starred": lambda v: _with("held, *rest = [VALUE, 1]", v, "held"),
    "slice": lambda v: _with("held = [0, VALUE][1:]", v, "held[0]"),
    "nonlocal": lambda v: _with(
        "held = None\ndef fill():\n    nonlocal held\n    held = VALUE\nfill()", v, "held"
    ),
    "default of a lambda": lambda v: _with("give = lambda held=VALUE: held", v, "give()"),
    "and": lambda v: _with("held = True and VALUE", v, "held"),
    "cast": lambda v: _with("", v, "typing.cast(object, VALUE)", "import typing\n"),
    "class attribute": lambda v: _with(
        "Held.content = VALUE", v, "Held.content", "class Held:\n    content = None\n"
    ),
    "dict of functions": lambda v: _with(
        "", v, "{'a': same}[str('a')](VALUE)", "def same(given):\n    return given\n"
    ),
    "entered": lambda v: _with(
        "with Giving(VALUE) as held:\n    pass", v, "held",
        "class Giving:\n    def __init__(self, given):\n        self.given = given\n"
        "    def __enter__(self):\n        return self.given\n"
        "    def __exit__(self, *error):\n        return None\n",
    ),
}  # fmt: skip


def variants(text: str) -> Iterator[tuple[str, Program]]:
    """Every transformation that applies to a program, by name; whether it still runs is for the caller to see."""
    for name, way in VALUES.items():
        for number in range(STATEMENTS):
            made = _led(text, number, way)
            if made is not None:
                yield name, Program(made)
    for number in range(STATEMENTS):
        made = _led(text, number, None)
        if made is not None:
            yield "helper function", Program(made)
    for name, change in _WHOLE.items():
        program = change(text)
        if program is not None and program.text != ast.unparse(ast.parse(text)):
            yield name, program


def _led(text: str, number: int, way: Way | None) -> str | None:
    """The program with the value of one of its assignments led another way; without one: into a function."""
    tree = ast.parse(text)
    outer = _globals(tree)
    places = [
        (body, one)
        for owner in ast.walk(tree)
        for field in ("body", "orelse")
        if isinstance(body := getattr(owner, field, None), list) and not isinstance(owner, ast.ClassDef)
        for one in body
        if isinstance(one, (ast.Assign, ast.Return))
        and one.value is not None
        and any(isinstance(part, (ast.Call, ast.BinOp, ast.Subscript)) for part in ast.walk(one.value))
        and not any(isinstance(part, (ast.Yield, ast.Await, ast.Starred)) for part in ast.walk(one.value))
    ]
    if number >= len(places):
        return None
    body, statement = places[number * len(places) // STATEMENTS if len(places) > STATEMENTS else number]
    assert statement.value is not None
    if way is None:
        before, value, define = _extracted(statement.value, outer)
    else:
        before, value, define = way(statement.value)
    statement.value = value
    at = body.index(statement)
    body[at:at] = before
    return _defined(tree, define)


def _defined(tree: ast.Module, define: str) -> str:
    """The program with more definitions, after its imports."""
    last = max(
        (i + 1 for i, one in enumerate(tree.body) if isinstance(one, (ast.Import, ast.ImportFrom))), default=0
    )
    tree.body[last:last] = ast.parse(define).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _extracted(value: ast.expr, outer: set[str]) -> tuple[list[ast.stmt], ast.expr, str]:
    bound = {one.arg for part in ast.walk(value) if isinstance(part, ast.Lambda) for one in part.args.args}
    bound |= {
        one.id for one in ast.walk(value) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    free = [
        one.id
        for one in ast.walk(value)
        if isinstance(one, ast.Name) and one.id not in outer | bound and not hasattr(builtins, one.id)
    ]
    names = ", ".join(dict.fromkeys(free))
    return (
        [],
        _expression(f"extracted({names})"),
        f"def extracted({names}):\n    return {ast.unparse(value)}\n",
    )


def _globals(tree: ast.Module) -> set[str]:
    """What is imported or defined at the top of a file."""
    found: set[str] = set()
    for one in tree.body:
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in one.names)
        elif isinstance(one, (ast.FunctionDef, ast.ClassDef)):
            found.add(one.name)
    return found


# --- names -----------------------------------------------------------------------------------


def _locals(text: str) -> Program:
    """Variables and parameters with names that say nothing."""
    tree = ast.parse(text)
    outer = _globals(tree)
    keywords = {one.arg for one in ast.walk(tree) if isinstance(one, ast.keyword)}
    stored = {
        one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }
    stored |= {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)} - keywords
    new = {name: f"v{i}" for i, name in enumerate(sorted(stored - outer - {"self", "cls"}))}
    for one in ast.walk(tree):
        if isinstance(one, ast.Name):
            one.id = new.get(one.id, one.id)
        elif isinstance(one, ast.arg):
            one.arg = new.get(one.arg, one.arg)
        elif isinstance(one, (ast.Global, ast.Nonlocal)):
            one.names = [new.get(name, name) for name in one.names]
    return Program(ast.unparse(tree))


def _members(text: str) -> Program:
    """Methods and attributes of the program's own classes with names that say nothing."""
    tree = ast.parse(text)
    own: set[str] = set()
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            own |= {one.name for one in owner.body if isinstance(one, ast.FunctionDef)}
            for one in ast.walk(owner):
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    own.add(one.attr)
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.args:
                    first = one.args[0]
                    if one.func.attr.startswith(("register_b", "register_p", "add_m")) and isinstance(
                        first, ast.Constant
                    ):
                        own.add(str(first.value))
    new = {name: f"m{i}" for i, name in enumerate(sorted(own - _KEPT)) if not name.startswith("__")}
    for one in ast.walk(tree):
        if isinstance(one, ast.Attribute):
            one.attr = new.get(one.attr, one.attr)
        elif isinstance(one, ast.FunctionDef):
            one.name = new.get(one.name, one.name)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            one.value = new.get(one.value, one.value)
    return Program(ast.unparse(tree))


# --- imports ---------------------------------------------------------------------------------


def _alias(text: str) -> Program:
    """`import torch as th`."""
    tree = ast.parse(text)
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            for alias in one.names:
                if alias.name == "torch" and alias.asname is None:
                    alias.asname = "th"
                elif alias.name.startswith("torch.") and alias.asname is None:
                    alias.name, alias.asname = "torch", "th"
        elif isinstance(one, ast.Name) and one.id == "torch":
            one.id = "th"
    return Program(ast.unparse(tree))


class _Functional(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "functional" and ast.unparse(node) in ("torch.nn.functional", "nn.functional"):
            return ast.Name("F", ast.Load())
        return node


def _functional(text: str) -> Program | None:
    """`import torch.nn.functional as F`; of what is F already, another name."""
    tree = _Functional().visit(ast.parse(text))
    made = ast.unparse(tree)
    if made == ast.unparse(ast.parse(text)):
        if not any(isinstance(one, ast.Name) and one.id == "F" for one in ast.walk(tree)):
            return None
        for one in ast.walk(tree):
            if isinstance(one, ast.Name) and one.id == "F":
                one.id = "ops"
            elif isinstance(one, ast.alias) and (one.asname or one.name) == "F":
                one.asname = "ops"
        return Program(ast.unparse(tree))
    return Program(_defined(tree, "import torch.nn.functional as F\n"))


class _Bare(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr in _STARRED:
            return ast.Name(node.attr, ast.Load())
        return node


def _star(text: str) -> Program | None:
    """`from torch import *`."""
    tree = _Bare().visit(ast.parse(text))
    if ast.unparse(tree) == ast.unparse(ast.parse(text)):
        return None
    return Program(_defined(tree, "from torch import *\n"))


# --- files -----------------------------------------------------------------------------------


def _imports(tree: ast.Module) -> list[ast.stmt]:
    return [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]


def _helper_file(text: str) -> Program | None:
    """Functions that need nothing of the file but its imports, in another file."""
    tree = ast.parse(text)
    imported = {a.asname or a.name.partition(".")[0] for one in _imports(tree) for a in one.names}  # type: ignore[attr-defined]
    top = {one.id for part in tree.body for one in ast.walk(part) if isinstance(one, ast.Name)
           and isinstance(one.ctx, ast.Store)} | _globals(tree) - imported  # fmt: skip
    moved = [
        one
        for one in tree.body
        if isinstance(one, ast.FunctionDef)
        and not any(isinstance(part, ast.Name) and part.id in top - _stored(one) for part in ast.walk(one))
    ]
    return _apart(tree, list(moved), [one.name for one in moved]) if moved else None


def _stored(node: ast.AST) -> set[str]:
    found = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    return found | {
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }


def _base_file(text: str) -> Program | None:
    """The constructor of a module in a base class in another file."""
    tree = ast.parse(text)
    for one in tree.body:
        init = next((m for m in getattr(one, "body", ()) if getattr(m, "name", "") == "__init__"), None)
        if isinstance(one, ast.ClassDef) and init is not None and len(one.body) > 1 and one.bases:
            base = ast.ClassDef(f"{one.name}Base", one.bases, [], [init], [])
            one.body.remove(init)
            one.bases = [ast.Name(base.name, ast.Load())]
            return _apart(tree, [base], [base.name])
    return None


def _apart(tree: ast.Module, moved: list[ast.stmt], names: list[str]) -> Program:
    beside = ast.Module([*_imports(tree), *moved], [])
    tree.body = [one for one in tree.body if one not in moved]
    text = _defined(tree, f"from beside import {', '.join(names)}\n")
    return Program(text, {"beside": ast.unparse(ast.fix_missing_locations(beside))})


_WHOLE: dict[str, Callable[[str], Program | None]] = {
    "renamed locals": _locals, "renamed members": _members, "torch as th": _alias, "functional as F": _functional,
    "from torch import *": _star, "helper in another file": _helper_file, "base in another file": _base_file,
}  # fmt: skip
NAMES = (*VALUES, "helper function", *_WHOLE)
