"""What a list, tuple, dict or comprehension in a constructor holds, as far as it is modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from devfix.flow import torch_api
from devfix.names import Names
from devfix.registration.classes import RESERVED, ModuleClass
from devfix.registration.signatures import returns_of
from devfix.registration.stores import Method, self_name
from devfix.source import Source, walk

# Classes from elsewhere whose names say that they are layers.
_LAYER = re.compile(
    r"^[A-Z]\w*(?:Layer|Linear|Head|Conv(?:\dd)?|Conv\w*|Embedding|Adapter|Classifier|Projection|Projector|MLP|Block|"
    r"Encoder|Decoder|Attention|Norm|BatchNorm\dd?|LSTM|GRU|Net|Unit|Stage|Bottleneck|FeedForward)$"
)
_NO_MAKERS = ("torch.", "numpy.", "math.", "functools.")
_NO_MODULE = re.compile(
    r"^(?:int|float|str|bool|len|list|dict|tuple|set|range|zip|copy|partial|compose|open|type|getattr)$|act|func|fn|"
    r"transform|augment|token|metric|accuracy|measure|score|sampl|loss|optim|sched|param|path|config|size|dim|shape|format|split|hook|"
    r"Path|tensor|array|join|dropout|drop_?path|relu|pool|identity|upsampl|interpol|pad",
    re.IGNORECASE,
)
_NORMS = frozenset({"weight_norm", "spectral_norm", "zero_module", "checkpoint_wrapper"})
_STATE = re.compile(
    r"\bnn\.(?!Module\b)[A-Z]|Parameter\(|register_buffer\(|self\.\w+ *= *(?:\w+\.)*[A-Z][A-Za-z]*[a-z]\w*\(|"
    r"self\.\w+ *= *\w*(?:block|layer|class|module|cls)\w*\("
)
_SEQUENCE = re.compile(r"(?:typing\.|t\.|T\.)?(?:[Ll]ist|[Tt]uple|Sequence|Iterable|Collection)\[")
_DEPTH = 3


@dataclass(frozen=True)
class Held:
    """How sure it is that something is a module, or modules.

    `bare`: of modules without parameters only. `guess`: that they are run like modules must speak
    for it. `mapping`: in a dict. `wraps`: lists of modules within, which have to be registered, too.
    `odd_keys`: of a dict, keys that a ModuleDict may refuse.
    """

    module: bool
    sure: bool = True
    empty: bool = False
    mapping: bool = False
    guess: bool = False
    bare: bool = False
    wraps: tuple[ast.expr, ...] = ()
    odd_keys: bool = False


NOTHING = Held(False, False)
_EMPTY = Held(False, empty=True)


def together(held: Iterable[Held]) -> Held:
    """Elements of one container: all must be modules, and are as sure as the least sure."""
    parts = tuple(held)
    if not parts or any(not part.module for part in parts):
        return NOTHING
    return Held(
        True,
        all(part.sure for part in parts),
        guess=any(part.guess for part in parts),
        bare=all(part.bare for part in parts),
        wraps=tuple(node for part in parts for node in part.wraps),
        odd_keys=any(part.odd_keys for part in parts),
    )


class Holding:
    """Answers for the constructors of one file."""

    def __init__(self, source: Source, classes: tuple[ModuleClass, ...]) -> None:
        self.source = source
        self.classes = {info.node.name: info for info in classes}
        self.functions = {item.name: item for item in source.tree.body if isinstance(item, ast.FunctionDef)}
        self._known: dict[Method, Names] = {}
        self._followed: list[Method] = []

    def container(self, owner: ModuleClass, node: ast.expr, depth: int = 0) -> Held:
        """What is in a list, tuple, dict or comprehension; NOTHING where that is not known."""
        if depth > _DEPTH:
            return NOTHING
        if isinstance(node, (ast.List, ast.Tuple)):
            if not node.elts:
                return _EMPTY if isinstance(node, ast.List) else NOTHING
            return together([self.element(owner, item) for item in node.elts])
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            bound = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
            made = self.element(owner, node.elt, frozenset(bound))
            if made.guess or isinstance(node.elt, ast.Name):
                if any(self._annotated(owner, generator.iter) for generator in node.generators):
                    return Held(True, False)
            return made
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("list", "tuple")
        ):
            if not node.args:
                return _EMPTY if node.func.id == "list" else NOTHING
            if isinstance(node.args[0], (ast.ListComp, ast.GeneratorExp, ast.List, ast.Name)):
                return self.container(owner, node.args[0], depth + 1)
        if isinstance(node, ast.Call):
            return self._returned(owner, node, depth, whole=True)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            return self.container(owner, node.left, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            held = [self.container(owner, part, depth + 1) for part in (node.left, node.right)]
            if any(part.mapping or not (part.module or part.empty) for part in held):
                return NOTHING
            return together([part for part in held if part.module])
        if isinstance(node, ast.Dict):
            return self._dict(owner, node)
        if isinstance(node, ast.DictComp):
            bound = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
            inner = self.element(owner, node.value, frozenset(bound))
            odd = not text_key(node.key, node.generators)
            return replace(inner, mapping=True, odd_keys=odd) if inner.module else NOTHING
        if isinstance(node, ast.Name):
            if self._annotated(owner, node):
                return Held(True)
            return self._local(owner, node, depth)
        return NOTHING

    def _annotated(self, owner: ModuleClass, node: ast.expr) -> bool:
        """Is it a parameter annotated as a sequence of modules, such as `Sequence[nn.Module]`?"""
        method = self._method(owner, node)
        if method is None or not isinstance(node, ast.Name):
            return False
        if any(b.statement is not None for b in self._names(method).bindings.get(node.id, ())):
            return False
        bases = {self.source.code(base).rpartition(".")[2] for base in owner.node.bases}
        for argument in [*method.args.args, *method.args.kwonlyargs]:
            if argument.arg == node.id and argument.annotation is not None:
                text = self.source.code(argument.annotation)
                words = set(re.findall(r"\w+", text))
                return bool(words & {*bases, "Module"}) and bool(_SEQUENCE.match(text))
        return False

    def _dict(self, owner: ModuleClass, node: ast.Dict) -> Held:
        if not node.keys:
            return replace(_EMPTY, mapping=True)
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        odd = len(keys) < len(node.keys) or any(not good_key(key) for key in keys)
        inner = together([self.element(owner, value) for value in node.values])
        return replace(inner, mapping=True, odd_keys=odd) if inner.module else NOTHING

    def _local(self, owner: ModuleClass, node: ast.Name, depth: int) -> Held:
        """A list that `__init__` builds under a local name before it stores it."""
        method = self._method(owner, node)
        if method is None:
            return NOTHING
        names = self._names(method)
        bindings = names.bindings.get(node.id, [])
        if len(bindings) != 1 or bindings[0].form != "single" or bindings[0].value is None:
            return NOTHING
        held = [self.container(owner, bindings[0].value, depth + 1)]
        for read in names.reads.get(node.id, []):
            if read is node:
                continue
            parent = self.source.parents[read]
            if isinstance(parent, ast.Attribute) and parent.attr == "append" and read.lineno < node.lineno:
                call = self.source.parents[parent]
                if isinstance(call, ast.Call) and len(call.args) == 1:
                    held.append(self.element(owner, call.args[0]))
                    continue
            if isinstance(parent, ast.Call) and self.source.code(parent.func) == "len":
                continue
            return NOTHING
        if any(part is NOTHING for part in held):
            return NOTHING
        modules = [part for part in held if part.module]
        return together(modules) if modules else held[0]

    def element(
        self, owner: ModuleClass, node: ast.expr, bound: frozenset[str] = frozenset(), depth: int = 0
    ) -> Held:
        """One element: a layer made here; `ph.to(device)` of something that iterates may be one, too."""
        if depth > _DEPTH:
            return NOTHING
        if isinstance(node, ast.Name):
            return self._local_element(owner, node, depth)
        if isinstance(node, (ast.List, ast.Tuple, ast.ListComp)):
            inner = self.container(owner, node, depth + 1)
            return replace(inner, wraps=(*inner.wraps, node)) if inner.module else NOTHING
        if isinstance(node, ast.IfExp):
            return together(
                [self.element(owner, part, bound, depth + 1) for part in (node.body, node.orelse)]
            )
        if not isinstance(node, ast.Call):
            return NOTHING
        name = self.source.qualified(node.func)
        last = name.rpartition(".")[2]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda") and not name:
            base = node.func.value
            if isinstance(base, ast.Name) and base.id in bound:
                return Held(True, False)
            return self.element(owner, base, bound, depth + 1)
        made = last or self.source.code(node.func).rpartition(".")[2]
        if made == "deepcopy" and len(node.args) == 1:
            copied = node.args[0]
            known = (
                self.element(owner, copied, bound, depth + 1) if not isinstance(copied, ast.Name) else NOTHING
            )
            return known if known.module else Held(True, False)  # what is run later and copied is a module
        if made in _NORMS and node.args:
            return self.element(owner, node.args[0], bound, depth + 1)
        if name.startswith("torch.nn.") and last[:1].isupper() and ".functional" not in name:
            if last.endswith("Loss") or last in ("Parameter", "Buffer"):
                return NOTHING
            return Held(True, bare=name in torch_api.BARE_MODULES)
        if isinstance(node.func, ast.Name):
            info = self.classes.get(node.func.id)
            if info is not None and info.certain:
                return Held(True, bare=not self._has_state(info))
            if name and _LAYER.match(last):
                return Held(True, False)
        made_here = self._returned(owner, node, depth, whole=False)
        if made_here.module:
            return made_here
        if (bound or made[:1].isupper()) and not name.startswith(_NO_MAKERS) and not _NO_MODULE.search(made):
            return Held(True, False, guess=True)
        return NOTHING

    def _returned(self, owner: ModuleClass, node: ast.Call, depth: int, *, whole: bool) -> Held:
        """What a function of the file or a method of the class returns: a list of modules, or one."""
        function: Method | None = None
        if isinstance(node.func, ast.Name):
            function = self.functions.get(node.func.id)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            around = self.source.enclosing(node, ast.FunctionDef)
            if isinstance(around, ast.FunctionDef) and node.func.value.id in (
                self_name(around),
                owner.node.name,
            ):
                found = owner.method(node.func.attr)
                function = found[1] if found is not None else None
        if function is None or function in self._followed or len(self._followed) > _DEPTH:
            return NOTHING
        self._followed.append(function)
        try:
            answer = self.container if whole else self.element
            held = [answer(owner, value) for value in returns_of(self.source, function)]
        finally:
            self._followed.pop()
        if any(part.wraps or part.guess for part in held):
            return NOTHING
        return together(held)

    def _local_element(self, owner: ModuleClass, node: ast.Name, depth: int) -> Held:
        """`layer = nn.Linear(...)` and then `self.layers.append(layer)`."""
        method = self._method(owner, node)
        if method is None:
            return NOTHING
        bindings = self._names(method).bindings.get(node.id, [])
        calls = [b.value for b in bindings if b.form == "single" and isinstance(b.value, ast.Call)]
        if not calls or len(calls) < len(bindings):
            return NOTHING
        return together([self.element(owner, call, depth=depth + 1) for call in calls])

    def _names(self, method: Method) -> Names:
        if method not in self._known:
            self._known[method] = Names(self.source, method)
        return self._known[method]

    def _method(self, owner: ModuleClass, node: ast.AST) -> Method | None:
        """The method of the class around a node, if it is one that builds the object."""
        around = self.source.enclosing(node, ast.FunctionDef)
        if around in self._followed:
            return around
        if isinstance(around, ast.FunctionDef) and owner.methods.get(around.name) is around:
            return around if owner.builds(around) else None
        return None

    def _has_state(self, info: ModuleClass) -> bool:
        """Does a module class of this file have parameters, buffers or submodules?"""
        return any(_STATE.search(each.text) for each in info.lineage)


def good_key(key: object) -> bool:
    """May a ModuleDict have it?"""
    return isinstance(key, str) and bool(key) and "." not in key and key not in RESERVED | set(dir(dict))


def string_key(node: ast.expr) -> bool:
    """A key that is a string without dots, as far as can be seen; an index of a list otherwise."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) or good_key(node.value)
    return isinstance(node, (ast.Name, ast.JoinedStr)) and not (
        isinstance(node, ast.JoinedStr)
        and any(isinstance(v, ast.Constant) and "." in str(v.value) for v in node.values)
    )


def odd_key(source: Source, node: ast.expr) -> bool:
    """May a ModuleDict refuse what something is stored under?"""
    if isinstance(node, ast.Constant):
        return not good_key(node.value)
    loops, up = list[ast.For](), source.enclosing(node, ast.For)
    while isinstance(up, ast.For):
        loops.append(up)
        up = source.enclosing(up, ast.For)
    return not text_key(node, loops)


def text_key(node: ast.expr, generators: Sequence[ast.comprehension | ast.For]) -> bool:
    """May the key of a comprehension or a loop be a string without dots, as far as can be seen?"""
    if isinstance(node, ast.JoinedStr):
        return not any(isinstance(v, ast.Constant) and "." in str(v.value) for v in node.values)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "str"
    if not isinstance(node, ast.Name):
        return False
    for generator in generators:
        over = generator.iter
        if any(isinstance(n, ast.Name) and n.id == node.id for n in walk(generator.target)):
            if isinstance(over, ast.Call):
                items = isinstance(over.func, ast.Attribute) and over.func.attr in ("items", "keys")
                first = isinstance(generator.target, ast.Tuple) and generator.target.elts[0]
                return items and not (isinstance(first, ast.Name) and first.id != node.id)
            if isinstance(over, (ast.List, ast.Tuple)):
                return all(isinstance(e, ast.Constant) and good_key(e.value) for e in over.elts)
            return isinstance(over, (ast.Name, ast.Attribute)) and isinstance(generator.target, ast.Name)
    return False
