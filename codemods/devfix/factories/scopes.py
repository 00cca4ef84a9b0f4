"""The functions of a file that make tensors, and what their surroundings tell of their parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property

from devfix.factories.operations import ALIASES, LASTS, MADE, names_device, torch_name
from devfix.factories.owners import FUNCTIONS, Function, Owner, Owners
from devfix.factories.uses import CONTAINERS, TENSOR_TYPE, Uses
from devfix.factories.values import MAPPING, Anchor, Fact, Form
from devfix.flow.evidence import annotation_text
from devfix.source import Source, remembered

_SEQUENCES = re.compile(r"^(?:typing\.)?(?:List|list|Sequence|Tuple|tuple|Iterable)\[(?:torch\.)?Tensor\b")
_MAPPINGS = re.compile(r"^(?:typing\.)?(?:Dict|dict|Mapping)\[str, ?(?:torch\.)?Tensor\]")
_NUMBERS = re.compile(r"^(?:typing\.)?(?:List|list|Sequence|Tuple|tuple)\[(?:float|int|bool)\b")
# Of torchtyping and jaxtyping.
_TYPED = re.compile(
    r"^(?:\w+\.)?(?:TensorType\b|(?:Float|Int|Bool|Shaped|Num|Real|Inexact|UInt|Integer|Complex)\d*"
    r"\[\s*(?:torch\.)?Tensor\b)"
)
_PLAIN = re.compile(r"\bTensor\b")
# What follows a factory that is moved at once.
_MOVED = re.compile(
    r"(?:\.\w+\((?:[^()]|\([^()]*\))*\))*"
    r"\.(?:to\((?:device=)?(?:[\w.]+\.)?device\b(?!\.type)|cuda\(|type_as\(|item\()"
)
_CRITERIA = re.compile(r"\b(\w+)[ \t]*=[ \t]*(?:\w+\.)*\w+Loss\(")
_BRACKETS = re.compile(r"[()]")
_TOLD = re.compile(r"\b(?:device\s*=\s*(?!None\b)|out\s*=|generator\s*=|pin_memory\s*=)|[(,]\s*\*\*(?=[\w{])")
_ROOTS = ALIASES | {"torch"}


class Scopes(Owners):
    """Which functions are worth following, and the facts that they start with."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.functions: dict[str, Function] = {
            node.name: node for node in source.tree.body if isinstance(node, FUNCTIONS)
        }
        self._uses: dict[ast.AST, Uses] = {}
        self._given: dict[ast.AST, tuple[tuple[str, Fact], ...]] = {}

    def release(self) -> None:
        """Break the circle with what was found of the functions; only a garbage collection would free it."""
        self._uses.clear()

    def uses(self, scope: ast.AST, depth: int = 0) -> Uses:
        found = self._uses.get(scope)
        if found is None:
            found = self._uses[scope] = Uses(self, scope, depth)
        return found

    def callee(self, path: str, owner: Owner | None) -> Function | None:
        """The function of this file that a call names: `f`, `self.method`."""
        if path.startswith("self.") and owner is not None:
            name = path[5:]
            for item in owner.node.body:
                if isinstance(item, FUNCTIONS) and item.name == name:
                    return item
            return None
        return self.functions.get(path)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Other names that the module body gives to factories, once: `zeros = torch.zeros`."""
        found: dict[str, str] = {}
        bound: set[str] = set()
        for statement in self.source.tree.body:
            if not isinstance(statement, ast.Assign):
                continue
            for target in statement.targets:
                name = getattr(target, "id", "")
                what = torch_name(self.source.qualified(statement.value))
                if name not in bound and isinstance(statement.value, ast.Attribute) and what in MADE:
                    found[name] = what
                else:
                    found.pop(name, None)
                bound.add(name)
        return found

    @cached_property
    def criteria(self) -> frozenset[str]:
        """What the file binds to a loss, as `crit = nn.MSELoss()` does."""
        return frozenset(_CRITERIA.findall(self.source.text))

    # --- which functions -----------------------------------------------------------------

    @cached_property
    def makers(self) -> frozenset[ast.AST]:
        """Functions (and the module) in which something is made on the default device.

        Found in the text: most files have none, and comments that look like one only cost time.
        """
        text, found = self.source.text, set[ast.AST]()
        for pattern in self._spellings:
            for match in pattern.finditer(text):
                if match.group(1) not in self._lasts or not self._bare(match.end()):
                    continue
                line = self.line(match.start())
                around = self.around(line)
                scope = around[-1] if around else self.source.tree
                # The body of a class makes what all share, before there are devices.
                if isinstance(scope, ast.ClassDef) or _documents(scope, line):
                    continue
                found.add(scope)
        return frozenset(found)

    @cached_property
    def _spellings(self) -> tuple[re.Pattern[str], ...]:
        """How calls of torch look in this file, and of its factories that have names of their own."""
        imports = self.source.imports.items()
        found = [_of_root(name) for name, what in imports if what in _ROOTS]
        self._lasts = LASTS
        if own := sorted({name for name, what in imports if torch_name(what) in MADE} | set(self.aliases)):
            self._lasts = LASTS | set(own)
            found.append(re.compile(rf"(?<![\w.])({'|'.join(own)})[ \t]*\("))
        return tuple(found)

    def _bare(self, start: int) -> bool:
        """Is a factory, whose arguments start there, told no device, and not moved at once?"""
        text, depth, end = self.source.text, 1, start
        for bracket in _BRACKETS.finditer(text, start):
            depth += 1 if bracket.group() == "(" else -1
            if not depth:
                end = bracket.end()
                break
        told = _TOLD.search(text, start - 1, end)
        return told is None and not _MOVED.match(text, end)

    def roots(self) -> list[ast.AST]:
        """The outermost functions to follow, in the order of the file: what makes tensors at work."""
        return self._outermost(node for node in self.makers if not self.hosted(node))

    def callers(self, names: Iterable[str], host: bool = False) -> list[ast.AST]:
        """The outermost functions that call functions or methods of these names; also those of the host?"""
        found, called = set[ast.AST](), _called(self.source)
        for name in names:
            for at in called.get(name, ()):
                functions = self.functions_at(at)
                found.add(functions[-1] if functions else self.source.tree)
        return self._outermost(node for node in found if host or not self.hosted(node))

    def _outermost(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        outer = {next(iter(self.functions_around(node)), node) for node in nodes}
        return sorted(outer, key=lambda node: getattr(node, "lineno", 0))

    def globals(self) -> dict[str, Fact]:
        """The devices that the module body names."""
        found: dict[str, Fact] = {}
        for statement in self.source.tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name) and names_device(target.id):
                    if not isinstance(statement.value, ast.Constant) or isinstance(
                        statement.value.value, str
                    ):
                        found[target.id] = Fact(Form.DEVICE, anchor=Anchor(target.id))
        return found

    # --- parameters ----------------------------------------------------------------------

    def parameters(self, function: Function) -> tuple[tuple[str, Fact], ...]:
        """The parameters of a function with what annotations and uses say of them."""
        found = self._given.get(function)
        if found is None:
            found = self._given[function] = tuple(self._parameters_of(function))
        return found

    def _parameters_of(self, function: Function) -> Iterator[tuple[str, Fact]]:
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
        pairs = [*zip(plain, defaults + list(arguments.defaults), strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        uses = self.uses(function)
        for index, (argument, default) in enumerate(pairs):
            name = argument.arg
            if index == 0 and name in ("self", "cls", "ctx"):
                continue
            yield name, self._parameter(argument, default, uses)

    def _parameter(self, argument: ast.arg, default: ast.expr | None, uses: Uses) -> Fact:
        name, annotation = argument.arg, argument.annotation
        optional = default is not None
        if uses.several(name):
            return Fact(Form.UNKNOWN)
        if annotation is not None:
            text = annotation_text(annotation)
            code = self.source.code(annotation)
            if TENSOR_TYPE.search(text):
                sure = not optional and "Optional" not in code and "None" not in code and "Union" not in code
                return Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", sure))
            if _TYPED.match(code):
                return Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", not optional))
            if _MAPPINGS.match(code):
                return MAPPING
            if _SEQUENCES.match(code):
                return Fact(Form.LIST, items=(Fact(Form.TENSOR, anchor=Anchor(f"{name}[0].device", False)),))
            if text in ("torch.device", "device"):
                return Fact(Form.DEVICE, anchor=Anchor(name))
            if text in ("int", "float", "bool", "str", "np.ndarray", "numpy.ndarray", "ndarray"):
                return Fact(Form.DEVICE, anchor=Anchor(name)) if name == "device" else Fact(Form.OTHER)
        if name in ("device", "dev"):
            return Fact(Form.DEVICE, anchor=Anchor(name))
        if isinstance(default, ast.Constant) and default.value is not None:
            return Fact(Form.OTHER)
        if isinstance(default, (ast.List, ast.Tuple)) or _NUMBERS.match(
            self.source.code(annotation) if annotation is not None else ""
        ):
            return Fact(Form.OTHER, flat=False)
        code = self.source.code(annotation) if annotation is not None else ""
        other = annotation is not None and (not _PLAIN.search(code) or CONTAINERS.search(code))
        if uses.tensor(name) and not other:
            return Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", not optional and uses.surely(name)))
        return Fact(Form.MAYBE)


@cache
def _of_root(name: str) -> re.Pattern[str]:
    return re.compile(rf"{name}\.(\w+)[ \t]*\(")


@remembered
def _called(source: Source) -> dict[str, list[int]]:
    """Where functions, and methods of `self`, are called, by their names."""
    found: dict[str, list[int]] = {}
    text = source.text
    end = text.find("(")
    while end >= 0:  # a regular expression takes several times as long
        start = end
        while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        if start < end and not text.endswith("def ", 0, start):
            if not text.endswith(".", 0, start) or text.endswith("self.", 0, start):
                found.setdefault(text[start:end], []).append(start)
        end = text.find("(", end + 1)
    return found


def _documents(scope: ast.AST, line: int) -> bool:
    """Is a line in the docstring of a function or of the module?"""
    body: list[ast.stmt] = getattr(scope, "body", [])
    first = body[0] if body else None
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return False
    return first.lineno <= line <= (first.end_lineno or first.lineno)
