"""Where a device expression comes from: its names are followed to what binds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from devfix.engine.files import Class, Function
from devfix.flow import Flow
from devfix.flow.values import Kind, Where
from devfix.stats.kinds import Origin
from devfix.text.bindings import bound
from devfix.text.names import of_self, path_of
from devfix.text.source import FUNCTIONS, Source

_DEPTH = 6
_AVAILABLE = re.compile(r"is_available|device_count|torch\.accelerator|current_accelerator|is_built")
_ARGUMENTS = re.compile(r"(?:^|[._])(?:args?|argv|opts?|options|flags|parsed|cli)(?:$|[.\[])", re.IGNORECASE)
_CONFIGS = re.compile(
    r"(?:^|[._])(?:cfg|conf|config|configs|configuration|settings|hparams?|hps?|hyps?|params|env|environ|run_opts|yaml)(?:$|[.\[])",
    re.IGNORECASE,
)
_CHOOSERS = re.compile(
    r"(?:get|init|setup|resolve|current|select|infer|choose|pick|find|default|best|auto|detect|try)\w{0,99}device",
    re.IGNORECASE,
)
_TYPES = re.compile(r"(?:^|[._])(?:dtype|float\d*|half|bfloat16|double|long|u?int\d*|bool)$")
_FRAMEWORK = re.compile(
    r"(?:^|[._])(?:accelerator|fabric|trainer|brain|strategy|dist_manager|engine)(?:$|[.\[])", re.IGNORECASE
)
_FRAMEWORK_BASES = re.compile(
    r"(?:LightningModule|LightningDataModule|Brain|Trainer|DiffusionPipeline|PreTrainedModel)$"
)
# Of several bindings the one that says most; a choice between CUDA and the CPU is one by what there is.
_FIRST = (
    Origin.CONFIG,
    Origin.ARGUMENT,
    Origin.FRAMEWORK,
    Origin.AVAILABLE,
    Origin.VALUE,
    Origin.NAMED,
    Origin.CPU,
    Origin.DEFAULT,
    Origin.IMPORTED,
)
_KNOWN_PLACES = {
    Where.ACCELERATOR: Origin.NAMED,
    Where.CPU: Origin.CPU,
    Where.OF: Origin.VALUE,
    Where.OWNED: Origin.FRAMEWORK,
}


class Origins:
    """The origins of the device expressions of one file."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source

    def of(self, node: ast.expr, *, index: bool = False, depth: int = 0) -> Origin:
        """Where the device of an expression comes from; with `index`, a number is one of a GPU."""
        if depth > _DEPTH:
            return Origin.UNKNOWN
        if isinstance(node, ast.Constant):
            return _constant(node.value, index)
        text = _leading_text(node)
        if text:
            return _constant(text, index)
        if isinstance(node, ast.JoinedStr):
            inner = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return self.of(inner[0], depth=depth + 1) if inner else Origin.UNKNOWN
        if isinstance(node, ast.IfExp):
            return self._chosen(node, depth)
        if isinstance(node, ast.BoolOp):
            return _joined(self.of(value, index=index, depth=depth + 1) for value in node.values)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value, index=index, depth=depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Lambda):  # map_location=lambda storage, loc: storage
            return Origin.CPU
        if isinstance(node, ast.Dict):
            return _joined(self.of(value, index=True, depth=depth + 1) for value in node.values)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._named(node, depth)
        return Origin.UNKNOWN

    def _chosen(self, node: ast.IfExp, depth: int) -> Origin:
        arms = [self.of(arm, index=True, depth=depth + 1) for arm in (node.body, node.orelse)]
        if Origin.NAMED not in arms:
            return _joined(arms)
        # The device type is written here; what decides over it is the condition.
        if _AVAILABLE.search(ast.unparse(node.test)):
            return Origin.AVAILABLE
        asked = _joined(
            self._path(path_of(part), part, depth + 1)
            for part in ast.walk(node.test)
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) and path_of(part)
        )
        return asked if asked in (Origin.CONFIG, Origin.ARGUMENT) else _joined(arms)

    def _call(self, node: ast.Call, depth: int) -> Origin:
        name = self.source.qualified(node.func)
        if name in ("torch.device", "str", "int") and node.args:
            return self.of(node.args[0], index=True, depth=depth + 1)
        if _AVAILABLE.search(name):
            return Origin.AVAILABLE
        if name in ("os.getenv", "os.environ.get"):
            return Origin.CONFIG
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("lower", "strip", "split", "replace", "format"):
                return self.of(node.func.value, depth=depth + 1)
            if node.func.attr == "get":
                return self._path(path_of(node.func.value), node.func.value, depth)
            if node.func.attr == "get_device":
                return Origin.VALUE
        if name.startswith(("torch.distributed.", "torch.cuda.current_device")):
            return Origin.AVAILABLE
        function = self._function(node)
        if function is not None:
            returned = [
                one.value
                for one in self.source.of_kind(ast.Return, function)
                if one.value is not None and self.source.enclosing(one, *FUNCTIONS) is function
            ]
            found = _joined(self.of(value, depth=depth + 1) for value in returned)
            if found is not Origin.UNKNOWN:
                return found
        callee = name or path_of(node.func)
        return Origin.AVAILABLE if _CHOOSERS.search(callee) else self._flowing(node)

    def _function(self, call: ast.Call) -> ast.AST | None:
        """The function or method of this file that a call runs; `__init__` where it makes an object."""
        file, name = self.flow.facts().file, of_self(call.func)
        found: Function | Class | None = file.definition(call.func)
        if name:
            owner = file.of_node.get(self.source.enclosing(call, ast.ClassDef) or call)
            found = owner.method(name) if isinstance(owner, Class) else None
        found = found.method("__init__") if isinstance(found, Class) else found
        return found.node if found is not None and found.file is file else None

    def _named(self, node: ast.expr, depth: int) -> Origin:
        if isinstance(node, ast.Attribute) and node.attr in ("type", "index"):
            return self.of(node.value, depth=depth + 1)  # of a device
        path = path_of(node)
        if isinstance(node, ast.Subscript) and not path:
            base = path_of(node.value)
            if self.source.qualified(node.value) == "os.environ":
                return Origin.CONFIG
            return self._path(base, node.value, depth + 1) if base else self._flowing(node)
        if not path:
            device = isinstance(node, ast.Attribute) and node.attr == "device"
            return Origin.VALUE if device else self._flowing(node)
        return self._path(path, node, depth)

    def _path(self, path: str, node: ast.expr, depth: int) -> Origin:
        """A name, an attribute or an item: by what binds it, then by what holds it."""
        if depth > _DEPTH or not path:
            return Origin.UNKNOWN
        found = self._bound(path, node, depth)
        if found is not Origin.UNKNOWN:
            return found
        root = path.partition(".")[0].partition("[")[0]
        if root in self.source.imports and not self.source.imports[root].startswith("os"):
            known = self._flowing(node)
            return Origin.IMPORTED if known is Origin.UNKNOWN else known
        holder, attribute = _split(path)
        if holder:
            if self.source.qualified(node) == "os.environ" or path.startswith("os.environ"):
                return Origin.CONFIG
            for pattern, origin in (
                (_CONFIGS, Origin.CONFIG),
                (_ARGUMENTS, Origin.ARGUMENT),
                (_FRAMEWORK, Origin.FRAMEWORK),
            ):
                if pattern.search(holder):
                    return origin
            if self._parsed(holder, node):
                return Origin.ARGUMENT
            if "device" in attribute:  # `pipe._execution_device`
                return self._own(node) if holder == "self" else Origin.VALUE
        return self._flowing(node)

    def _bound(self, path: str, node: ast.expr, depth: int) -> Origin:
        origins = []
        for binding in bound(self.source, path, node):
            if binding.parameter:
                origins.append(Origin.ARGUMENT)
            elif binding.value is not None and binding.value not in (node, *self.source.ancestors(node)):
                origins.append(self.of(binding.value, index=True, depth=depth + 1))
            elif isinstance(binding.node, FUNCTIONS):  # a property
                origins.append(Origin.VALUE)
        return _joined(origins)

    def _parsed(self, holder: str, node: ast.expr) -> bool:
        """`parsed.device`, where `parsed = parser.parse_args()`."""
        return any(
            binding.value is not None and "parse_" in ast.unparse(binding.value)
            for binding in bound(self.source, holder, node)
        )

    def _own(self, node: ast.expr) -> Origin:
        """`self.device` that the class does not assign: a framework's, or that of the module's tensors."""
        owner = self.source.enclosing(node, ast.ClassDef)
        if isinstance(owner, ast.ClassDef):
            for item in owner.body:
                if isinstance(item, FUNCTIONS) and item.name == "device":
                    return Origin.VALUE
            if any(_FRAMEWORK_BASES.search(path_of(base)) for base in owner.bases):
                return Origin.FRAMEWORK
        return Origin.VALUE

    def _flowing(self, node: ast.expr) -> Origin:
        """What device flow knows, where names tell nothing."""
        value = self.flow.value(node)
        if value.kind is Kind.TENSOR:
            return Origin.VALUE
        if value.kind is Kind.DEVICE:
            return _KNOWN_PLACES.get(value.place.where, Origin.UNKNOWN)
        return Origin.UNKNOWN


def is_data_type(source: Source, node: ast.expr) -> bool:
    """`torch.float16`, `x.dtype`, `self.weight_dtype`."""
    name = source.qualified(node) or path_of(node)
    return bool(_TYPES.search(name)) or name.endswith("dtype")


def _constant(value: object, index: bool) -> Origin:
    if value is None:
        return Origin.DEFAULT
    if isinstance(value, bool):
        return Origin.UNKNOWN
    if isinstance(value, int):
        return Origin.NAMED if index else Origin.UNKNOWN
    if not isinstance(value, str):
        return Origin.UNKNOWN
    kind = value.partition(":")[0].strip().lower()
    if kind in ("cpu", "meta"):
        return Origin.CPU
    if kind == "auto":
        return Origin.AVAILABLE
    if kind in ("cuda", "mps", "xpu", "hpu", "npu", "xla", "hip", "vulkan", "mlu", "musa"):
        return Origin.NAMED
    return Origin.NAMED if index and value.replace(",", "").replace(" ", "").isdigit() else Origin.UNKNOWN


def _joined(origins: Iterable[Origin]) -> Origin:
    found = set(origins)
    for origin in _FIRST:
        if origin is Origin.VALUE and {Origin.NAMED, Origin.CPU} <= found:
            return Origin.AVAILABLE
        if origin in found:
            return origin
    return Origin.UNKNOWN


def _split(path: str) -> tuple[str, str]:
    """`a.b` and `a["b"]` as `a`, `b`."""
    if path.endswith("]"):
        holder, _, key = path.rpartition("[")
        return holder, key.rstrip("]").strip("'\"")
    holder, _, attribute = path.rpartition(".")
    return holder, attribute


def _leading_text(node: ast.expr) -> str:
    """What a string certainly begins with: "cuda:" of `f"cuda:{i}"`, `"cuda:%d" % i`, `"cuda:" + str(i)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        node = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        node = node.func.value
    elif isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
