"""What `modules:` reaches, and what a constructor does with something that it is handed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from devfix.documents.yaml import Node
from devfix.engine.events import MOVED, USED
from devfix.engine.files import Class
from devfix.engine.places import OF, Place
from devfix.engine.state import State
from devfix.engine.values import UNKNOWN, Value
from devfix.models import torch_api
from devfix.recipes.library import Library
from devfix.recipes.making import is_module
from devfix.recipes.plain import only_kept
from devfix.recipes.recipe import NEW, Recipe, class_of

# Methods that do not run what they are called on.
NEUTRAL = frozenset(
    {
        "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
        "named_children", "state_dict", "load_state_dict", "train", "eval", "requires_grad_", "zero_grad",
        "apply", "register_forward_hook", "register_buffer", "register_parameter", "share_memory", "half",
        "float", "double", "append", "extend", "insert", "add", "update", "items", "keys", "values", "get",
        "pop", "copy", "index", "count", "setdefault", "add_module", "register_module", "to", "cuda", "cpu",
        "load", "save", "split", "join", "format", "lower", "upper", "startswith", "endswith", "strip",
    }
)  # fmt: skip


def registered(recipe: Recipe, library: Library) -> frozenset[str]:
    """The entries that are moved with what is listed: those that modules hold, or may hold."""
    if recipe.modules is None:
        return frozenset()
    nodes = [value for _, value in recipe.modules.pairs]
    found = {name for node in nodes if node.tag != "!ref" for name in recipe.referred(node)}
    return held_by(recipe, library, nodes) | found


def held_by(recipe: Recipe, library: Library, nodes: list[Node]) -> frozenset[str]:
    """The entries that modules hold, or may hold."""
    found: set[str] = set()
    while nodes:
        for name in _handed_on(recipe, library, nodes.pop()):
            if name not in found:
                found.add(name)
                nodes.append(recipe.nodes[name])
    return frozenset(found)


def _handed_on(recipe: Recipe, library: Library, root: Node) -> Iterator[str]:
    """What a node refers to, but not through objects that are no modules."""
    todo, seen = [root], {id(root)}
    while todo:
        node = todo.pop()
        if node is not root or node.tag in ("!ref", "!copy"):
            yield from recipe.referred(node)
        cls = library.find(class_of(node)) if node.tag.startswith(NEW) else None
        if cls is not None and is_module(cls) is False:
            continue
        kept = _kept(recipe, cls, node) if cls is not None else frozenset()
        todo.extend(child for child in node.children if id(child) not in seen | kept)
        seen.update(id(child) for child in node.children)


def _is_setting(recipe: Recipe, name: str, depth: int = 0) -> bool:
    """Is an entry a constant, or computed from such?"""
    node = recipe.nodes[name]
    if node.kind != "scalar" or node.tag not in ("", "!ref") or depth > 5:
        return False
    return not node.tag or all(_is_setting(recipe, other, depth + 1) for other in recipe.referred(node))


def _kept(recipe: Recipe, cls: Class, node: Node) -> frozenset[int]:
    """The arguments of a module that are dicts with modules in them, of which it registers nothing."""
    found: set[int] = set()
    for key, value in node.pairs:
        name = next(recipe.referred(value), "") if value.tag == "!ref" else ""
        held = recipe.nodes[name] if name else value
        if held.kind != "mapping" or held.tag:
            continue
        holding = {
            item.value
            for _, items in held.pairs
            for item, inner in items.pairs
            if not items.tag and any(not _is_setting(recipe, name) for name in recipe.references(inner))
        }
        if all(items.kind == "mapping" for _, items in held.pairs) and holding:
            if only_kept(cls, key.value, frozenset(holding)):
                found.add(id(value))
    return frozenset(found)


def ways(recipe: Recipe, library: Library, name: str, used: Iterable[str]) -> tuple[str, ...]:
    """The used entries that run an entry which they hold, and do not move it themselves."""
    used = frozenset(used)
    found: list[str] = []
    todo, seen = [name], {name}
    while todo:
        for held in recipe.holders.get(todo.pop(), ()):
            if held.entry in seen or not all(_passes(library, node, at) for node, at in held.links):
                continue
            seen.add(held.entry)
            if held.entry in used:
                found.append(held.entry)
            else:
                todo.append(held.entry)
    return tuple(found)


def _passes(library: Library, node: Node, argument: str) -> bool:
    if class_of(node) in torch_api.CONTAINERS:
        return True
    cls = library.find(class_of(node)) if node.tag.startswith(NEW) else None
    if cls is None:
        return False
    known, key = library.known(cls), ("runs", argument)
    if key not in known:
        known[key] = _only_runs(cls, argument)
    return known[key] is True


def _only_runs(cls: Class, argument: str) -> bool:
    """Does a class run an argument of its constructor (by name or position), and not move it?

    As the engine's histories have it: those of each file that has a part of the class.
    """
    from devfix.engine.analysis import Analysis  # not for recipes in which nothing is held

    constructors = [one.methods["__init__"] for one in reversed(cls.lineage) if "__init__" in one.methods]
    if constructors and argument.isdigit():
        argument = dict(enumerate(constructors[-1].positional[1:])).get(int(argument), "")
    # A base gets it by its name, mostly through **kwargs.
    takers = [init for init in constructors if any(one.arg == argument for one in init.parameters)]
    methods = {name: method for one in reversed(cls.lineage) for name, method in one.methods.items()}
    key, runs, moves = ("parameter", id(cls.node), argument), False, False
    for file in dict.fromkeys(one.file for one in cls.lineage) if takers else ():
        analysis, state = Analysis(file), State()
        analysis.has_histories = True
        state.path = frozenset({(("none", key), False)})  # it is given
        me = analysis.classes.itself(cls)
        for init in takers:
            given = {argument: Value(UNKNOWN, Place(OF, key))}
            state = analysis.run_method(init, me, state, given=given)
        for method in methods.values():
            if method.name != "__init__":
                analysis.run_method(method, None if method.static else me, state.copy())
        for event in (one for log in analysis.histories.values() for one in log.values() if key in one.cells):
            moves |= event.what == MOVED
            runs |= event.what == USED and event.name not in NEUTRAL
    return runs and not moves
