"""Where the lengths of a packed sequence come from: from the host, or from tensors that may be on a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from devfix.arrays.bound import bound
from devfix.arrays.reading import Known
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.names import Binding, Names
from devfix.source import Source

_PACK = "torch.nn.utils.rnn.pack_padded_sequence"
_LOCAL = re.compile(r"\bpack_padded_sequence\b")
# Methods that give a tensor where the tensor is, and functions of torch that do.
_METHODS = """
add all any bool clamp clamp_max clamp_min clone contiguous detach div eq expand flatten float floor floor_divide
gather ge gt ceil index_select int le logical_not long lt masked_fill masked_select mul ne permute repeat
repeat_interleave reshape round sort squeeze sub sum t transpose type unsqueeze view where
"""
_OF_TORCH = """
add all any ceil clamp count_nonzero div eq flatten floor floor_divide full_like gather ge gt index_select le
logical_not lt masked_select mul ne ones_like round sort sub sum true_divide where zeros_like
"""
_KEEP, _TORCH_KEEPS = frozenset(_METHODS.split()), frozenset(_OF_TORCH.split())
# Arrays of numpy have them, too.
_NUMPY_HAS = frozenset(
    {"sum", "any", "all", "round", "repeat", "squeeze", "reshape", "flatten", "transpose", "view"}
)
_COMPARES = frozenset({"ne", "eq", "gt", "ge", "lt", "le"})
_NEW = frozenset({"new_tensor", "new_full", "new_zeros", "new_ones", "new"})
_HOSTS = frozenset({"cpu", "tolist", "numpy", "item", "size", "astype"})
_MAKE = "arange as_tensor empty from_numpy full IntTensor LongTensor ones randint tensor Tensor zeros"
_FACTORIES = frozenset(_MAKE.split())
_DEPTH = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Origin(IntEnum):
    """Ordered: what is mixed of two is as good as the lesser, but for numbers."""

    HOST = 0  # a list, an array, or a copy on the CPU
    UNKNOWN = 1
    PLAIN = 2  # a parameter as it came: may be a list, or on the CPU on purpose
    DERIVED = 3  # made of a parameter by operations of tensors
    DATA = 4  # made of the very parameter that is packed
    PLACED = 5  # put where another tensor is, or on a device
    NUMBER = 6  # neutral


@dataclass(frozen=True)
class Lengths:
    """The lengths that a call packs by."""

    node: ast.expr
    origin: Origin
    parameter: str = ""


def packed(known: Known, calls: Iterable[ast.Call]) -> Iterator[Lengths]:
    """The lengths of each `pack_padded_sequence` among `calls` that surely or likely are on a device."""
    source = known.flow.source
    hosts = {scope.node for scope in known.flow.scopes if scope.host}
    for call in calls:
        arguments = _arguments(source, call)
        scope = source.enclosing(call, *_FUNCTIONS)
        if arguments is None or scope in hosts:
            continue
        data, lengths = arguments
        value = known.flow.value(lengths)
        place = value.place
        # What a module gives may be a list of numbers.
        tensor = value.kind is Kind.TENSOR and not value.source.startswith("the output of")
        if known.on_device(value) if tensor else known.tensor_on_device(lengths):
            yield Lengths(lengths, Origin.PLACED)
        elif isinstance(scope, _FUNCTIONS) and not place.on_host and not place.on_device:
            # Neither on the CPU, nor on a device on some paths only, nor what a module has given.
            found = _Trace(source, scope).judge(data, lengths)
            if found is not None:
                yield found


def _arguments(source: Source, call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """What is packed, and its lengths."""
    if source.qualified(call.func) != _PACK:
        return None
    given: dict[str | int | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    given |= dict(enumerate(call.args))
    data, lengths = given.get(0, given.get("input")), given.get(1, given.get("lengths"))
    return (data, lengths) if data is not None and lengths is not None else None


class _Trace:
    """One function: what its names stand for."""

    def __init__(self, source: Source, scope: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._source, self._scope = source, scope
        self._bindings = Names(source, scope).bindings
        self._roots: set[str] = set()  # the parameters that what is packed is made of
        self._root = ""  # the parameter that the lengths are made of
        self._compared = False  # by comparing something with a number: `(x != 0).sum(1)`
        self._beside: set[str] = set()  # names bound together with lengths: the order of a sort

    def judge(self, data: ast.expr, lengths: ast.expr) -> Lengths | None:
        """Lengths that may be on a device, if nothing speaks for the CPU."""
        self._root, self._compared, self._beside, self._roots = "", False, set(), set()
        self._collect(data, 0)
        origin = self._origin(lengths, 0)
        if origin is Origin.DERIVED and self._compared and self._root in self._roots:
            origin = Origin.DATA
        if origin is Origin.PLAIN and self._copied_elsewhere(lengths) and self._in_module():
            return Lengths(lengths, origin, self._root)
        if origin not in (Origin.DERIVED, Origin.DATA, Origin.PLACED):
            return None
        if origin is not Origin.PLACED and not self._in_module() and not self._handed_counts():
            return None
        if origin is Origin.DERIVED and self._on_purpose():
            return None
        return Lengths(lengths, origin, self._root)

    def _copied_elsewhere(self, lengths: ast.expr) -> bool:
        """Does another call of the file pack by a copy of what has this name, and do only such calls copy it?"""
        if not isinstance(lengths, ast.Name) or lengths.id != self._root:
            return False
        text, copy = self._source.text, rf"(?<![\w.]){re.escape(self._root)}(?:\.long\(\))?\.cpu\("
        packed = re.findall(rf"\bpack\w*\([^()]{{0,80}}(?:\([^()]*\)[^()]{{0,80}})*?{copy}", text)
        return bool(packed) and len(packed) == len(re.findall(copy, text))

    def _in_module(self) -> bool:
        """Is it a method of a module? Elsewhere, in what prepares batches, the CPU is right."""
        owner = self._source.parents.get(self._scope)
        return isinstance(owner, ast.ClassDef) and any(
            isinstance(item, ast.FunctionDef) and item.name == "forward" for item in owner.body
        )

    def _handed_counts(self) -> bool:
        """A helper of the file: is each call of it handed lengths that are counted in a mask, `mask.sum(1)`?"""
        scope, source = self._scope, self._source
        names = [one.arg for one in (*scope.args.posonlyargs, *scope.args.args)]
        if source.parents.get(scope) is not source.tree or self._root not in names:
            return False
        at, handed = names.index(self._root), []
        for call in source.walk(source.tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == scope.name:
                named = (keyword.value for keyword in call.keywords if keyword.arg == self._root)
                handed.append(next(named, call.args[at] if at < len(call.args) else None))
        return bool(handed) and all(one is not None and self._counts(one) for one in handed)

    def _counts(self, node: ast.expr) -> bool:
        """`mask.long().sum(1)` of what has been named a mask, and of nothing that is copied on the way."""
        func = node.func if isinstance(node, ast.Call) else None
        found = isinstance(func, ast.Attribute) and func.attr == "sum"
        while isinstance(node, (ast.Call, ast.Attribute)):
            if isinstance(node, ast.Attribute) and node.attr not in _KEEP | {"data"}:
                return False
            node = node.func if isinstance(node, ast.Call) else node.value
        return found and isinstance(node, ast.Name) and "mask" in node.id.lower()

    def _on_purpose(self) -> bool:
        """Do other words of the file say that the lengths are kept on the CPU, or are a list?"""
        node, text = self._scope, self._source.text
        code, root = self._source.code(node), re.escape(self._root)
        if re.search(r"\bcpu\b", code, re.IGNORECASE):
            return True
        if any(re.search(rf"\b{re.escape(name)}\s*\.\s*(?:to|cuda)\(", code) for name in self._beside):
            return True
        noted = self._noted()
        if noted and "Tensor" not in noted:
            return True
        if re.search(rf"\b(?:len|list|sorted|np\.\w+|numpy\.\w+|\w*[tT]ensor)\(\s*{root}\b", code):
            return True
        lines = re.findall(rf".*\b{root}\b.*\.(?:cpu|tolist|numpy)\(.*", text)
        return any(not _LOCAL.search(line) for line in lines)

    def _noted(self) -> str:
        """The annotation of the parameter that the lengths are made of."""
        arguments = self._scope.args
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        noted = next((one.annotation for one in every if one.arg == self._root), None)
        return self._source.code(noted) if noted is not None else ""

    def _is_tensor(self) -> bool:
        return re.search(r"\bTensor\b", self._noted()) is not None

    def _binding(self, use: ast.Name) -> Binding | None:
        return bound(self._source, self._bindings, use)

    def _collect(self, node: ast.expr, depth: int) -> None:
        """The parameters of which an expression is made."""
        while depth < _DEPTH:
            depth += 1
            if isinstance(node, ast.Call):
                own = isinstance(node.func, ast.Attribute) and path_of(node.func).startswith("self.")
                if node.args and (
                    own or not isinstance(node.func, ast.Attribute) or self._source.qualified(node.func)
                ):
                    node = node.args[0]
                elif isinstance(node.func, ast.Attribute):
                    node = node.func.value
                else:
                    return
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            elif isinstance(node, ast.BinOp):
                self._collect(node.right, depth)
                node = node.left
            elif isinstance(node, ast.Name):
                binding = self._binding(node)
                if binding is not None and binding.statement is None:
                    self._roots.add(node.id)
                if binding is None or binding.value is None:
                    return
                node = binding.value
            else:
                return

    def _origin(self, node: ast.expr, depth: int) -> Origin:
        if depth > _DEPTH:
            return Origin.UNKNOWN
        depth += 1
        if isinstance(node, ast.Constant):
            return Origin.NUMBER
        if isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)):
            return Origin.HOST
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Attribute):
            return self._origin(node.value, depth) if node.attr in ("data", "values") else Origin.UNKNOWN
        if isinstance(node, ast.Subscript):
            found = self._origin(node.value, depth)
            if found is Origin.PLAIN and self._by_order(node.slice, depth):
                return Origin.DERIVED
            return found
        if isinstance(node, ast.UnaryOp):
            return _made(self._origin(node.operand, depth))
        if isinstance(node, ast.BinOp):
            return _made(min(self._origin(node.left, depth), self._origin(node.right, depth)))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            self._compared = True
            left, right = self._origin(node.left, depth), self._beyond(node.comparators[0], depth)
            return _made(min(left, right))
        if isinstance(node, ast.IfExp):
            return min(self._origin(node.body, depth), self._origin(node.orelse, depth))
        return Origin.UNKNOWN

    def _by_order(self, node: ast.expr, depth: int) -> bool:
        """`lengths[order]`, where the order is made by operations of tensors of the same parameter."""
        root = self._root
        made = isinstance(node, ast.Name) and self._origin(node, depth) is Origin.DERIVED
        return made and self._root == root

    def _beyond(self, node: ast.expr, depth: int) -> Origin:
        """The other side of a comparison: `self.pad_index`, `PAD` are numbers."""
        if isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id.isupper()):
            return Origin.NUMBER
        return self._origin(node, depth)

    def _name(self, node: ast.Name, depth: int) -> Origin:
        binding = self._binding(node)
        if binding is None:
            return Origin.UNKNOWN
        if binding.statement is None:
            if node.id in ("self", "cls"):
                return Origin.UNKNOWN
            self._root = self._root or node.id
            return Origin.PLAIN
        if binding.value is None:
            return Origin.UNKNOWN
        if binding.form == "unpack" and not self._sorted(binding):
            return Origin.UNKNOWN
        return self._origin(binding.value, depth)

    def _sorted(self, binding: Binding) -> bool:
        """`lengths, order = lengths.sort(...)`; the order is remembered."""
        value, statement = binding.value, binding.statement
        func = value.func if isinstance(value, ast.Call) else None
        if (
            not isinstance(func, ast.Attribute)
            or func.attr != "sort"
            or not isinstance(statement, ast.Assign)
        ):
            return False
        target = statement.targets[0]
        if not isinstance(target, ast.Tuple) or target.elts[0] is not binding.target:
            return False
        self._beside |= {item.id for item in target.elts[1:] if isinstance(item, ast.Name)}
        return True

    def _call(self, node: ast.Call, depth: int) -> Origin:
        func, name = node.func, self._source.qualified(node.func)
        if name:
            return self._torch(node, name, depth)
        if not isinstance(func, ast.Attribute):
            return Origin.HOST if isinstance(func, ast.Name) else Origin.UNKNOWN
        if func.attr in _HOSTS:
            return Origin.HOST
        if func.attr in ("to", "cuda"):
            return self._moved(node, func.value, depth)
        if func.attr in _NEW:
            return self._fresh(node, Origin.PLACED if self._is_packed(func.value) else Origin.UNKNOWN)
        if func.attr not in _KEEP:
            return Origin.UNKNOWN
        compares = func.attr in _COMPARES
        self._compared |= compares
        found = self._origin(func.value, depth)
        if compares and found is Origin.UNKNOWN:
            found = self._given_back(func.value)
        return found if func.attr in _NUMPY_HAS and not self._is_tensor() else _made(found)

    def _given_back(self, node: ast.expr) -> Origin:
        """`x = self.dropout(x)`, compared by a method: a tensor, made of the very parameter that is packed."""
        binding = self._binding(node) if isinstance(node, ast.Name) else None
        value = binding.value if binding is not None and binding.form == "single" else None
        if not isinstance(value, ast.Call) or not path_of(value.func).startswith("self."):
            return Origin.UNKNOWN
        roots, self._roots = self._roots, set()
        self._collect(value, 0)
        made, self._roots = self._roots, roots
        self._root = next(iter(made & roots), self._root)
        return Origin.DERIVED if made & roots else Origin.UNKNOWN

    def _torch(self, node: ast.Call, name: str, depth: int) -> Origin:
        base, _, last = name.rpartition(".")
        if not base.startswith("torch"):
            return Origin.HOST
        if last in _FACTORIES:
            return self._fresh(node, Origin.HOST)
        if base != "torch" or last not in _TORCH_KEEPS or not node.args:
            return Origin.HOST if last == "pad_packed_sequence" else Origin.UNKNOWN
        given = [self._origin(one, depth) for one in (node.args[:1] if last != "where" else node.args)]
        return _made(min(given))

    def _fresh(self, node: ast.Call, otherwise: Origin) -> Origin:
        device = next((keyword.value for keyword in node.keywords if keyword.arg == "device"), None)
        if device is None:
            return otherwise
        return Origin.PLACED if self._is_device_of_packed(device) else Origin.UNKNOWN

    def _moved(self, node: ast.Call, value: ast.expr, depth: int) -> Origin:
        given = [
            *node.args,
            *(keyword.value for keyword in node.keywords if keyword.arg in ("device", "other")),
        ]
        if not given and node.keywords:
            return self._origin(value, depth)
        if given and (self._is_device_of_packed(given[0]) or self._is_packed(given[0])):
            return Origin.PLACED
        if given and re.match(r"(?:torch\.)?(?:u?int\d*|long|short)$", self._source.code(given[0])):
            return _made(self._origin(value, depth))
        return Origin.UNKNOWN

    def _is_device_of_packed(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "device" and self._is_packed(node.value)

    def _is_packed(self, node: ast.expr) -> bool:
        """Is it, or does it come of, what is packed?"""
        if not isinstance(node, ast.Name):
            return False
        binding = self._binding(node)
        return node.id in self._roots if binding is None or binding.statement is None else True


def _made(origin: Origin) -> Origin:
    """What an operation of tensors makes of it."""
    return Origin.DERIVED if origin is Origin.PLAIN else origin
