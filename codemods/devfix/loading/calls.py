"""Calls that read a checkpoint and put it back on the device it was saved from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import function_around
from devfix.flow.frame import path_of
from devfix.placing import about_devices
from devfix.source import Source, remembered
from devfix.spotting import lines_with, on_lines

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ARGUMENT = "map_location"
# Loaders by qualified name, with the position of their `map_location`. Not here: safetensors, whose
# default is the CPU, and Lightning's `load_from_checkpoint`, which falls back to the CPU by itself.
LOADERS = {
    "torch.load": 1,
    "torch.serialization.load": 1,
    "torch.jit.load": 1,
    "torch.hub.load_state_dict_from_url": 2,
    "torch.utils.model_zoo.load_url": 2,
    "torch.hub.load_url": 2,
    "torchvision.models.utils.load_state_dict_from_url": 2,
    "torchvision._internally_replaced_utils.load_state_dict_from_url": 2,
    "mmcv.runner.load_checkpoint": 2,
    "mmengine.runner.load_checkpoint": 2,
    "trainer.io.load_fsspec": 1,
    "TTS.utils.io.load_fsspec": 1,
}
# Loaders that put what they read into a model, and return it for information only.
RESTORING = frozenset({"mmcv.runner.load_checkpoint", "mmengine.runner.load_checkpoint"})
# Weights published there were saved from the CPU.
_PUBLISHED = "download.pytorch.org"
_LOADS = re.compile(r"_?(?:load|restore|resume)_(?!state_dict$|from_checkpoint$)\w")
_TESTING = frozenset({"pytest", "unittest", "parameterized", "absl"})
_TRAINS = re.compile(r"\.(?:fit|backward|train_model)\(")
_TEST_BASES = re.compile(r"TestCase|^Test|Tests?$|Tester")
_HOST_BASES = re.compile(r"(?:Dataset|DataModule|DataPipe|Sampler|Collator|Transform)\w{0,99}$")


@dataclass(frozen=True, eq=False)
class Load:
    """A load without `map_location`. `wrapper`: the function around it has that parameter to offer."""

    call: ast.Call
    name: str
    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    wrapper: bool = False
    supposed: bool = False  # that it reads a checkpoint is known from another call in the file only

    @property
    def asked(self) -> bool:
        """Is what that parameter holds asked for by a caller, or the CPU's, and no default such as "cuda"?"""
        if self.function is None:
            return False
        arguments = self.function.args
        plain = [*arguments.posonlyargs, *arguments.args][::-1]
        pairs = [*zip(plain, arguments.defaults[::-1], strict=False)]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
        default = next((value for argument, value in pairs if argument.arg == ARGUMENT), None)
        return default is None or (isinstance(default, ast.Constant) and default.value in (None, "cpu"))

    @property
    def restores(self) -> bool:
        """Does the loader itself copy what it reads into a model?"""
        return self.name in RESTORING


class Loads:
    """The loads of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._positions = {**LOADERS, **dict(_forwarding(source))}
        self._told = frozenset(_told(source))
        self._calls = [node for node in self._candidates() if isinstance(node, ast.Call)]

    def _candidates(self) -> Iterator[ast.AST]:
        """The nodes of the lines on which a loader is called by any name that it has here."""
        names = {name.rpartition(".")[2] for name in self._positions}
        names |= {local for local, what in self.source.imports.items() if what in self._positions}
        names |= self._told
        # Nearly all of them have one word in common, which one look finds.
        other = sorted(name for name in names if "load" not in name)
        calls = [
            re.compile(r"load\w{0,99}\s{0,99}\("),
            *(re.compile(rf"{re.escape(name)}\s*\(") for name in other),
        ]
        return on_lines(self.source.tree, lines_with(self.source, *calls))

    def loader(self, call: ast.Call) -> str:
        """The name of the loader that a call runs; empty if it runs none."""
        name = self.source.qualified(call.func)
        if not name:
            # A function of this file, or torch that came with `from utils import *`.
            path = path_of(call.func)
            name = path if path.isidentifier() or path.startswith("torch.") else ""
        if name in self._positions:
            return name
        return call.func.attr if isinstance(call.func, ast.Attribute) and call.func.attr in self._told else ""

    def find(self) -> Iterator[Load]:
        """Loads that name no place, where one is missing; in the order of the text."""
        if "torch.load =" in self.source.text:
            return  # somebody gives it other defaults
        for call in sorted(self._calls, key=lambda node: (node.lineno, node.col_offset)):
            name = self.loader(call)
            if not name or self._given(call, name):
                continue
            function = function_around(self.source, call)
            wrapper = function is not None and any(a.arg == ARGUMENT for a in _parameters(function))
            if wrapper and is_none_at(self.source, call, ARGUMENT):
                continue
            if wrapper or not self._excused(call, name, function):
                yield Load(call, name, function, wrapper, name not in self._positions)

    def _given(self, call: ast.Call, name: str) -> bool:
        if any(keyword.arg in (ARGUMENT, None) for keyword in call.keywords):
            return True
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return True
        return (not call.args and not call.keywords) or len(call.args) > self._positions.get(name, 1)

    def _excused(self, call: ast.Call, name: str, function: ast.AST | None) -> bool:
        source = self.source
        if not _TESTING.isdisjoint(name.partition(".")[0] for name in source.imports.values()):
            return True
        if name.endswith(("load_state_dict_from_url", "load_url")) and self._published(call):
            return True
        owner = source.enclosing(call, ast.ClassDef)
        if isinstance(owner, ast.ClassDef):
            bases = [ast.unparse(base) for base in owner.bases]
            if any(_TEST_BASES.search(name) for name in (owner.name, *bases)):
                return True
            if any(_HOST_BASES.search(name) for name in (owner.name, *bases)):
                return True
        around_it = function
        while isinstance(around_it, _FUNCTIONS):
            if _is_test(source, around_it) or _is_fixture(around_it):
                return True
            around_it = function_around(source, around_it)
        return self._guarded(call) or self._just_saved(call, function)

    def _published(self, call: ast.Call) -> bool:
        """Does a load get what torch publishes, as far as the text of its address shows?"""
        source = self.source
        if _PUBLISHED not in source.text:
            return False
        address = (
            call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "url"), None)
        )
        written = ast.unparse(address) if address is not None else ""
        names = {node.id for node in ast.walk(address) if isinstance(node, ast.Name)} if address else set()
        for statement in source.tree.body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                if any(path_of(target) in names for target in targets):
                    written += source.code(statement.value)
        return "://" not in written or _PUBLISHED in written

    def _guarded(self, call: ast.Call) -> bool:
        """Does the code around it see to it that there is a GPU, or that another load takes over?"""
        node: ast.AST = call
        while node in self.source.parents and not isinstance(node, _FUNCTIONS):
            child, node = node, self.source.parents[node]
            if isinstance(node, (ast.If, ast.IfExp)) and child is not node.test and about_devices(node.test):
                inside = child in node.body if isinstance(node, ast.If) else child is node.body
                if inside and asks_for_gpu(node.test):
                    return True
                if self._placed_inside(node):
                    return True
            if isinstance(node, ast.Try) and child in node.body:
                if any(self._placed_inside(handler) for handler in node.handlers):
                    return True
        return False

    def _placed_inside(self, root: ast.AST) -> bool:
        return any(
            isinstance(node, ast.Call) and self.loader(node) and self._given(node, self.loader(node))
            for node in self.source.walk(root)
        )

    def _just_saved(self, call: ast.Call, function: ast.AST | None) -> bool:
        """Has the same function saved the same file above? Then it goes back to where it was.

        Statements of the module itself may be cells of a notebook, run on different days.
        """
        statement = self.source.statement(call)
        if not call.args or (function is None and self.source.parents[statement] is self.source.tree):
            return False
        path = ast.unparse(call.args[0])
        at = self.source.span(call).start
        if function is not None and "best" in path:
            above = self.source.text[self.source.span(function).start : at]
            if _TRAINS.search(above):
                return True  # a callback has written it in this very run
        first = _first_saved(self.source).get((function, path))
        return first is not None and first < at


@remembered
def _first_saved(source: Source) -> dict[tuple[ast.AST | None, str], int]:
    """Function and path -> the offset at which it first saves something there."""
    found: dict[tuple[ast.AST | None, str], int] = {}
    for node in source.calls:
        if len(node.args) > 1 and source.qualified(node.func) in ("torch.save", "torch.jit.save"):
            key, at = (function_around(source, node), ast.unparse(node.args[1])), source.span(node).start
            found[key] = min(found.get(key, at), at)
    return found


def _forwarding(source: Source) -> Iterator[tuple[str, int]]:
    """Functions of the file that hand their own `map_location=None` on to `torch.load`."""
    if ARGUMENT not in source.text:
        return
    for node in source.tree.body:
        if not isinstance(node, _FUNCTIONS):
            continue
        plain = [*node.args.posonlyargs, *node.args.args]
        names = [argument.arg for argument in plain]
        if ARGUMENT not in names:
            continue
        position = names.index(ARGUMENT)
        default = position - (len(plain) - len(node.args.defaults))
        if default < 0 or not _is_none(node.args.defaults[default]):
            continue
        if any(isinstance(n, ast.Name) and n.id == ARGUMENT and not isinstance(n.ctx, ast.Load)
               for n in source.walk(node)):  # fmt: skip
            continue
        for inner in source.walk(node):
            if isinstance(inner, ast.Call) and source.qualified(inner.func) in LOADERS:
                given = [*inner.args[1:2], *(k.value for k in inner.keywords if k.arg == ARGUMENT)]
                if any(isinstance(value, ast.Name) and value.id == ARGUMENT for value in given):
                    yield node.name, position


def _told(source: Source) -> Iterator[str]:
    """Methods of others that take a `map_location`, as another call in the file shows: `Net.load_from_file`.

    Not Lightning's, as above; and many things have a `load`.
    """
    if ARGUMENT not in source.text:
        return
    for call in source.calls:
        if isinstance(call.func, ast.Attribute) and any(keyword.arg == ARGUMENT for keyword in call.keywords):
            name = call.func.attr
            if _LOADS.match(name) and source.qualified(call.func) not in LOADERS:
                yield name


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def is_none_at(source: Source, place: ast.AST, name: str) -> bool:
    """Is a name None at a place: in the arm of `if device is None:`, or behind one that is left where it is not?"""
    node = place
    while node in source.parents and not isinstance(node, _FUNCTIONS):
        child, node = node, source.parents[node]
        if isinstance(node, (ast.If, ast.IfExp)) and child is not node.test:
            inside = child in node.body if isinstance(node, ast.If) else child is node.body
            if _tells_none(node.test, name, inside):
                return True
        for other in source.block(child) if isinstance(child, ast.stmt) else ():
            if other is child:
                break
            if isinstance(other, ast.If) and not other.orelse and _tells_none(other.test, name, False):
                if isinstance(other.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                    return True
    return False


def _tells_none(test: ast.expr, name: str, holds: bool) -> bool:
    """Is a name None where a condition holds, or where it does not?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _tells_none(test.operand, name, not holds)
    if isinstance(test, ast.BoolOp):
        # All parts of `and` hold together; all of `or` fail together.
        together = isinstance(test.op, ast.And) is holds
        return (any if together else all)(_tells_none(value, name, holds) for value in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and path_of(test.left) == name:
        kinds = (ast.Is, ast.Eq) if holds else (ast.IsNot, ast.NotEq)
        return isinstance(test.ops[0], kinds) and _is_none(test.comparators[0])
    return path_of(test) == name and not holds


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_test(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is it run by a test runner? Not a `test(model, loader)` that the program itself calls, with arguments."""
    if not function.name.startswith(("test", "_test")):
        return False
    return not any(
        (call.args or call.keywords) and path_of(call.func) == function.name
        for call in source.calls_by_name.get(function.name, ())
    )


def _is_fixture(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)


def asks_for_gpu(test: ast.expr) -> bool:
    """`if torch.cuda.is_available():`, `if use_cuda:`: the body runs only where there is one."""
    text = ast.unparse(test)
    return not text.startswith("not ") and bool(
        re.search(r"cuda\.is_available\(\)|\b(?:use_|opt\.|args\.)(?:cuda|gpu)\b(?! is)", text)
    )
