"""The classes of a file that are `nn.Module`s: what their methods store in `self`, and where it is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import cached_property

from devfix.models import frameworks, torch_api
from devfix.registration.stores import Method, Store, position, self_name, stores_of
from devfix.text.source import Source

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MODULE_ENDS = ("PreTrainedModel", "ModelMixin")
_NOT_MODULES = frozenset({"object", "ABC", "Protocol", "Enum", "NamedTuple", "TypedDict", "Function"})
# Libraries whose layers look like torch's.
_OTHER_LIBRARIES = frozenset(
    {"paddle", "jittor", "mindspore", "tensorflow", "keras", "flax", "mxnet", "oneflow", "tinygrad", "mlx"}
)
# Methods that decide themselves what moves along, or what counts as registered.
_OWN_WAYS = frozenset(
    {
        "_apply", "to", "cuda", "cpu", "__setattr__", "__getattr__", "__getattribute__",
        "parameters", "named_parameters", "named_modules", "children", "named_children",
        "register_buffer",
    }
)  # fmt: skip
# In such a method: it may reach every attribute.
_ANYTHING = re.compile(r"__dict__|vars\(|getattr\(|setattr\(|dir\(")
# Attributes of every nn.Module; nothing can be registered under these names.
RESERVED = frozenset(
    {
        "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init",
        "children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr",
        "float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule",
        "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children",
        "named_modules", "named_parameters", "parameters", "register_backward_hook",
        "register_buffer", "register_forward_hook", "register_forward_pre_hook", "register_module",
        "register_parameter", "requires_grad_", "set_extra_state", "set_submodule", "share_memory",
        "state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad",
    }
)  # fmt: skip


class ModuleClass:
    """One class of a file that is, surely or by strong signs, an `nn.Module`.

    `certain`: torch's own base is in sight; otherwise only the class's shape speaks for it.
    """

    def __init__(self, source: Source, node: ast.ClassDef, bases: tuple[ModuleClass, ...], certain: bool):
        self.source = source
        self.node = node
        self.bases = bases
        self.certain = certain
        self.methods = {item.name: item for item in node.body if isinstance(item, _DEFINITIONS)}
        self.heirs: list[ModuleClass] = []

    def release(self) -> None:
        """Break the circles between classes and their heirs; only a garbage collection would free them."""
        self.heirs.clear()
        for name in ("lineage", "descendants"):
            self.__dict__.pop(name, None)

    @property
    def init(self) -> Method | None:
        return self.methods.get("__init__")

    @cached_property
    def lineage(self) -> tuple[ModuleClass, ...]:
        """The class and its ancestors in this file."""
        return _closure((self,), lambda one: one.bases)

    @cached_property
    def descendants(self) -> tuple[ModuleClass, ...]:
        return _closure(self.heirs, lambda one: one.heirs)

    @cached_property
    def _own_nodes(self) -> dict[Method, list[ast.Attribute]]:
        """Every `self.<name>` of each method."""
        found: dict[Method, list[ast.Attribute]] = {}
        for method in self.methods.values():
            me = self_name(method)
            if me:
                found[method] = [
                    node
                    for node in self.source.walk(method)
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == me
                ]
        return found

    @cached_property
    def stores(self) -> dict[str, tuple[Store, ...]]:
        """Every store to an attribute of `self`, in the order of the text."""
        every: list[Store] = []
        for method in self.methods.values():
            me = self_name(method)
            if me:
                every.extend(stores_of(method, me))
        found: dict[str, list[Store]] = {}
        for store in sorted(every, key=position):
            found.setdefault(store.name, []).append(store)
        return {name: tuple(each) for name, each in found.items()}

    @cached_property
    def loads(self) -> dict[str, tuple[ast.Attribute, ...]]:
        """Every read of an attribute of `self`, in methods of the class."""
        found: dict[str, list[ast.Attribute]] = {}
        for nodes in self._own_nodes.values():
            for node in nodes:
                if isinstance(node.ctx, ast.Load):
                    found.setdefault(node.attr, []).append(node)
        return {name: tuple(each) for name, each in found.items()}

    @cached_property
    def super_call(self) -> ast.stmt | None:
        """The statement of `__init__` that initialises `nn.Module`, if it stands at the top level."""
        if self.init is None:
            return None
        for statement in self.init.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                function = statement.value.func
                if isinstance(function, ast.Attribute) and function.attr == "__init__":
                    return statement
        return None

    @cached_property
    def building(self) -> frozenset[str]:
        """Names of the methods that run while an object is made, and only then."""
        if self.init is None:
            return frozenset()
        called = self._own_calls(self.init)
        for name, method in self.methods.items():
            if name != "__init__" and name not in called:
                called -= self._own_calls(method)
        return frozenset({"__init__", *called})

    def builds(self, method: Method) -> bool:
        """Does a method of the class run while an object is made, and only then?"""
        return method is self.init or method.name in self.building

    def _own_calls(self, method: Method) -> set[str]:
        return {node.attr for node in self._own_nodes.get(method, ()) if node.attr in self.methods}

    @cached_property
    def _ways(self) -> frozenset[str] | None:
        """The words of the methods by which the class, or a base, decides itself what moves; None for all."""
        texts = [
            self.source.code(method)
            for owner in self.lineage
            for name, method in owner.methods.items()
            if name in _OWN_WAYS
        ]
        if any("super()" not in text or _ANYTHING.search(text) for text in texts):
            return None
        return frozenset(word for text in texts for word in re.findall(r"\w+", text))

    def handles(self, name: str) -> bool:
        """May the class move, or count as registered, an attribute by that name in a way of its own?"""
        return self._ways is None or name in self._ways

    @cached_property
    def text(self) -> str:
        return self.source.code(self.node)

    def class_level(self, name: str) -> bool:
        """Is the name bound in the class body, as a property, constant or method?"""
        for owner in self.lineage:
            if name in owner.methods:
                return True
            for item in owner.node.body:
                targets: list[ast.expr] = []
                if isinstance(item, ast.Assign):
                    targets = item.targets
                elif isinstance(item, ast.AnnAssign) and item.value is not None:
                    targets = [item.target]
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    return True
        return False


_last: list[tuple[Source, tuple[ModuleClass, ...]]] = []


def _closure(
    first: Iterable[ModuleClass], next_of: Callable[[ModuleClass], Iterable[ModuleClass]]
) -> tuple[ModuleClass, ...]:
    """Classes, and all that is reached from them, in the order in which they are met."""
    found = dict.fromkeys(first)
    todo = list(found)
    for one in todo:  # grows on the way
        new = [other for other in next_of(one) if other not in found]
        found.update(dict.fromkeys(new))
        todo += new
    return tuple(found)


def module_classes(source: Source) -> tuple[ModuleClass, ...]:
    """The module classes of a file in the order of the text; those of unknown bases by their shape."""
    if _last and _last[0][0] is source:  # both codemods ask for the same file, one after the other
        return _last[0][1]
    while _last:
        for known in _last.pop()[1]:
            known.release()
    _last.append((source, _classes(source)))
    return _last[0][1]


def _classes(source: Source) -> tuple[ModuleClass, ...]:
    found: dict[str, ModuleClass] = {}
    order: list[ModuleClass] = []
    plain: set[str] = set()  # classes of the file that derive from nothing out of sight
    classes = [node for node in source.definitions if isinstance(node, ast.ClassDef)]
    for node in sorted(classes, key=lambda node: node.lineno):
        bases: list[ModuleClass] = []
        certain = unknown = refused = False
        for base in node.bases:
            name = source.qualified(base) or ast.unparse(base)
            last = name.rpartition(".")[2]
            if name.partition(".")[0] in _OTHER_LIBRARIES:
                refused = True
            elif last in found:
                bases.append(found[last])
                certain = certain or found[last].certain
            elif (
                name in torch_api.MODULE_BASES
                or name.startswith("torch.nn.")
                or last in ("LightningModule", "Module")
                or last.endswith(_MODULE_ENDS)
            ):
                certain = True
            elif name in plain:
                pass  # seen whole, and no module: its name says nothing more
            elif last.endswith(frameworks.HOST_BASES) or "autograd" in name or last in _NOT_MODULES:
                refused = refused or last not in ("ABC", "Protocol")
            else:
                unknown = True
        if refused or not (certain or bases or (unknown and _shaped_like_module(source, node))):
            if not (refused or unknown):
                plain.add(node.name)
            continue
        info = ModuleClass(source, node, tuple(bases), certain)
        for parent in bases:
            parent.heirs.append(info)
        found[node.name] = info
        order.append(info)
    return tuple(order)


def _shaped_like_module(source: Source, node: ast.ClassDef) -> bool:
    """A class of unknown base with a `forward` of its own that initialises its base first."""
    methods = {item.name: item for item in node.body if isinstance(item, _DEFINITIONS)}
    forward, init = methods.get("forward"), methods.get("__init__")
    if forward is None or init is None or not self_name(forward) or "__call__" in methods:
        return False
    if forward.decorator_list:
        return False
    text = source.code(init)
    return "super()" in text or f"super({node.name}" in text or ".__init__(self" in text
