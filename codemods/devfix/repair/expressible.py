"""How a place can be written down at some node of a file."""

from __future__ import annotations

import ast

from devfix.engine.annotations import is_taken_apart
from devfix.engine.events import moved_by
from devfix.engine.facts import Scope, Term
from devfix.engine.files import Function
from devfix.engine.places import CHOICE, Place, alternatives
from devfix.models.loader import models, tensor_attributes
from devfix.repair.written import bound_around, is_unfilled
from devfix.text.bindings import set_to_none
from devfix.text.names import is_local, parameter, stores
from devfix.text.placing import around, bound_before, guards_of
from devfix.text.source import FUNCTIONS, Source, remembered, walk

_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_FORMS = ("device", "known", "attribute", "tensor", "name", "global", "layer", "guess", "own", "module")


def expressible(source: Source, place: Place, scopes: tuple[Scope, ...], at: ast.AST, known: str = "") -> str:
    """The text of a device expression for `place` that can stand at `at`; an empty string if there is none.

    Names must be bound on every way to `at`. Devices that have a name of their own come first, then the expression
    that is `known` to be of that place, other devices, tensors, and the parameters of modules.
    """
    function = source.enclosing(at, *FUNCTIONS)
    terms = of_function(scopes, function) or _shared(source, scopes, function)
    met = _node(scopes[0][0]) if scopes else None
    if met is not function and getattr(function, "name", "") == "__init__":  # what it makes is moved later
        terms = tuple(term for term in terms if term.form == "device" or not term.text.startswith("self."))
    there = [term for term in terms if term.place == place]
    if not there:  # what was chosen under a condition is followed
        followed = [term for term in terms if term.form in ("module", "device") and term.place.kind == CHOICE]
        there = [term for term in followed if any(one == place for one, _ in alternatives(term.place))]
    of_class = known.startswith("self.") and _of_one_class(source, met, function)
    if known and scopes and (met is function or of_class):
        base = known.removesuffix(".device")
        form = "layer" if base.endswith(".weight") else "name" if base.isidentifier() else "known"
        there.append(Term(base, form, place, frozenset()))
    there.sort(key=lambda term: _order(source, term, function))
    best = next((term for term in there if _writable(source, term, at, function)), None)
    if best is not None:
        return _device(best)
    return ""


def devices_at(source: Source, scopes: tuple[Scope, ...], at: ast.AST) -> list[Term]:
    """The devices that have a name and can be written at a node, the nearest first."""
    function = source.enclosing(at, *FUNCTIONS)
    every = [term for term in of_function(scopes, function) if term.form == "device"]
    return [term for term in every if _writable(source, term, at, function)]


def _of_one_class(source: Source, one: ast.AST | None, other: ast.AST | None) -> bool:
    owners = {source.parents.get(node) if node is not None else None for node in (one, other)}
    return len(owners) == 1 and isinstance(owners.pop(), ast.ClassDef)


def _order(source: Source, term: Term, function: ast.AST | None) -> tuple[int, int, int]:
    form = "attribute" if term.form == "device" and "." in term.text else term.form
    if form == "device" and function is not None and not is_local(source, function, term.text):
        form = "global"
    known = form == "name" and isinstance(function, FUNCTIONS) and _is_global(source, term.text, function)
    form = "guess" if known or (form == "tensor" and term.assumed) else form
    return _FORMS.index(form), term.text.count("."), len(term.text)


def of_function(scopes: tuple[Scope, ...], function: ast.AST | None) -> tuple[Term, ...]:
    """What is visible in a function, or in the body of the file."""
    for one, terms in scopes:
        if _node(one) is function:
            return terms
    return ()


def _shared(source: Source, scopes: tuple[Scope, ...], function: ast.AST | None) -> tuple[Term, ...]:
    """What a function that has returned can name, too: attributes of `self` that its constructor sets, and globals.

    Not global modules: what makes data for them is called with any.
    """
    owner = source.parents.get(function) if function is not None else None
    found: list[Term] = []
    for one, terms in scopes:
        same = one is not None and isinstance(owner, ast.ClassDef) and source.parents.get(one.node) is owner
        local = set(one.positional) if one is not None else set[str]()
        for term in terms:
            root, _, attribute = term.text.partition(".")
            if same and root == "self" and attribute:
                found += [term] if _is_set(source, term.text, function) else []
            elif term.form == "module" or function is None or root in local:
                continue
            elif stores(source, source.tree, root):
                inner = [
                    node for node in (one.node if one is not None else None, function) if node is not None
                ]
                found += [term] if not any(stores(source, node, root) for node in inner) else []
    return tuple(found)


def _is_set(source: Source, text: str, function: ast.AST | None) -> bool:
    """Is an attribute set by a constructor, if the function is one?"""
    named = function.name if isinstance(function, FUNCTIONS) else ""
    return named != "__init__" or (function is not None and text in _first_attributes(source, function))


def _node(function: Function | None) -> ast.AST | None:
    return function.node if function is not None else None


def _device(term: Term) -> str:
    if term.form in ("device", "own"):
        return term.text
    if term.form == "module":
        return f"next({term.text}.parameters()).device"
    return f"{term.text}.device"


def _writable(source: Source, term: Term, at: ast.AST, function: ast.AST | None) -> bool:
    """Is a term bound where it is to be written, and is it none of what stands there itself?"""
    expression = ast.parse(term.text, mode="eval").body
    statement = source.statement(at)
    if term.text in _mappings(source, function or source.tree) or term.text.partition(".")[0] == "_":
        return False  # a name for what nobody wants
    if term.form != "device" and _is_handed_back(source, term.text, function or source.tree):
        return False
    supposed = term.form == "name" or (term.form == "tensor" and term.assumed)
    if supposed and _is_no_tensor(source, term.text, function or source.tree):
        return False
    if term.form != "device" and _is_moved_only_below(source, term.text, at, function):
        return False
    if term.form in ("name", "tensor") and _is_made_below(source, term.text, statement):
        return False
    if isinstance(expression, ast.Subscript) and is_unfilled(source, expression.value, at, function):
        return False
    if bound_around(source, at, expression):
        return True
    if term.form == "tensor" and isinstance(function, FUNCTIONS) and _is_global(source, term.text, function):
        return False  # data of the program, which is there before some calls only
    if may_be_none(source, term.text.partition(".")[0], at, function):
        return False
    if not bound_before(source, expression, statement):
        return False
    root, scope = term.text.partition(".")[0], source.scope(statement)
    stored = stores(source, scope, root)
    if isinstance(statement, _ASSIGNS) and any(source.statement(one) is statement for one in stored):
        # `x = f(x, zeros(3))`: before it, x is what it was.
        return parameter(source, scope, root) is not None or stored[0].lineno < statement.lineno
    if "." not in term.text or not isinstance(function, FUNCTIONS):
        return True
    return _attribute_stored(source, term.text, statement, function)


def _is_global(source: Source, text: str, function: ast.AST) -> bool:
    root = text.partition(".")[0]
    return not is_local(source, function, root) and bool(stores(source, source.tree, root))


@remembered
def _mappings(source: Source, function: ast.AST) -> frozenset[str]:
    """What a function takes items of by text, as no tensor allows: a batch whose items may be anywhere."""
    return frozenset(
        source.code(one.value)
        for one in source.of_kind(ast.Subscript, function)
        if isinstance(one.slice, ast.Constant) and isinstance(one.slice.value, str)
    )


@remembered
def _is_no_tensor(source: Source, name: str, function: ast.AST) -> bool:
    """Is something used as no tensor can be, or only taken apart, as a list is?"""
    nodes = source.names(function).get(name, ())
    used = {up.attr for up in map(source.parents.__getitem__, nodes) if isinstance(up, ast.Attribute)}
    return not used <= tensor_attributes() or is_taken_apart(source, function, name)


@remembered
def _is_handed_back(source: Source, name: str, function: ast.AST) -> bool:
    """Is a name for what a call gives besides, and the next one gets: the state of a network, which may be a tuple?"""
    makers, readers = set[str](), set[str]()
    for one in source.of_kind(ast.Name, function):
        up = source.parents[one] if one.id == name else None
        if isinstance(up, ast.Tuple) and isinstance(one.ctx, ast.Store) and up.elts.index(one):
            bound = source.parents[up]
            called = bound.value if isinstance(bound, ast.Assign) else None
            makers.add(source.code(called.func) if isinstance(called, ast.Call) else "")
        elif isinstance(up, ast.Call):
            readers.add(source.code(up.func))
        elif up is not None and (
            isinstance(one.ctx, ast.Store) or not isinstance(up, (ast.Return, ast.Tuple))
        ):
            return False
    return len(makers) == 1 and makers == readers and "" not in makers


def _attribute_stored(source: Source, text: str, statement: ast.stmt, function: ast.AST) -> bool:
    """An attribute that the function itself stores has to be stored above the statement, and not as None."""
    line = _first_attributes(source, function).get(text)
    if line is None and getattr(function, "name", "") == "__init__" and _is_given_later(source, text):
        return False
    name = text.split(".")[1]
    if line is None and name in set_to_none(source) and text not in source.code(statement):
        return False  # a buffer that another method fills on its first call, for instance
    above = [one for one in _as_none(source, function).get(text, ()) if one < statement.lineno]
    return line is None or (line < statement.lineno and not above)


@remembered
def _is_given_later(source: Source, text: str) -> bool:
    """Is `self.x` an attribute that something in the file sets, but no constructor?"""
    name = text.split(".")[1]
    every = [
        one for one in source.of_kind(ast.Attribute) if one.attr == name and isinstance(one.ctx, ast.Store)
    ]
    homes = (source.enclosing(one, *FUNCTIONS) for one in every)
    return bool(every) and all(getattr(home, "name", "") != "__init__" for home in homes)


@remembered
def _as_none(source: Source, function: ast.AST) -> dict[str, list[int]]:
    """Attributes that a function stores as None -> the lines."""
    found: dict[str, list[int]] = {}
    for one in source.of_kind(ast.Assign, function):
        if isinstance(one.value, ast.Constant) and one.value.value is None:
            for target in one.targets:
                found.setdefault(source.code(target), []).append(one.lineno)
    return found


@remembered
def _first_attributes(source: Source, function: ast.AST) -> dict[str, int]:
    """The first line on which each attribute is stored, or registered, in a function, by its text."""
    found: dict[str, int] = {}
    for one in source.of_kind(ast.Attribute, function):
        text = source.code(one) if isinstance(one.ctx, ast.Store) else ""
        call = source.parents[one]
        if one.attr in ("register_buffer", "register_parameter") and isinstance(call, ast.Call) and call.args:
            text = f"{source.code(one.value)}.{getattr(call.args[0], 'value', '')}"
        if text:
            found[text] = min(one.lineno, found.get(text, one.lineno))
    return found


def may_be_none(source: Source, name: str, at: ast.AST, function: ast.AST | None) -> bool:
    """Is a name a parameter with the default None, which the function asks for only below `at`, or only hands on?"""
    if not isinstance(function, FUNCTIONS):
        return False
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip(reversed([one.arg for one in positional]), reversed(arguments.defaults), strict=False)
    )
    defaults |= {one.arg: v for one, v in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if v}
    default = defaults.get(name)
    if not (isinstance(default, ast.Constant) and default.value is None):
        return False
    if _is_none_there(source, name, at):
        return True
    line, asked = source.statement(at).lineno, False
    for node in source.walk(function):
        if isinstance(node, (ast.If, ast.IfExp, ast.Assert, ast.While)):
            if any(isinstance(part, ast.Name) and part.id == name for part in walk(node.test)):
                if node.lineno <= line:
                    return False
                asked = True
    return asked or not any(_is_used(source, read) for read in source.names(function).get(name, ()))


def _is_none_there(source: Source, name: str, at: ast.AST) -> bool:
    """Does a node stand in the arm of `if name is None:` where it is?"""
    for one in guards_of(source, at):
        test = one.test
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            if ast.unparse(test.left) == name and ast.unparse(test.comparators[0]) == "None":
                arm = one.body if isinstance(test.ops[0], ast.Is) else one.orelse
                return any(statement in arm for statement in around(source, at))
    return False


def _is_used(source: Source, node: ast.Name) -> bool:
    """Is something done with a value that None does not allow: `x.size(0)`, `x + 1`, `torch.relu(x)`?"""
    up = source.parents.get(node)
    call = source.parents.get(up) if isinstance(up, ast.keyword) else up
    if isinstance(call, ast.Call):
        return source.qualified(call.func).startswith("torch.")
    return isinstance(up, (ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp))


def _is_moved_only_below(source: Source, path: str, at: ast.AST, function: ast.AST | None) -> bool:
    """Is something moved in this scope, but not before a node? There it is still where it was made."""
    start = source.span(at).start
    moves = [
        source.span(call).start
        for call in source.of_kind(ast.Call, function or source.tree)
        if (moved := moved_by(call)) is not None
        and source.code(moved) == path
        and source.enclosing(call, *FUNCTIONS) is function
    ]
    return bool(moves) and min(moves) > start


def _is_made_below(source: Source, name: str, statement: ast.stmt) -> bool:
    """Is a tensor made of what has a name, below a statement? `x = torch.tensor(x)`: above, it need not be one."""
    return any(
        isinstance(one.value, ast.Call)
        and models().makes(source.qualified(one.value.func))
        and any(isinstance(part, ast.Name) and part.id == name for part in walk(one.value))
        for one in source.of_kind(ast.Assign, source.scope(statement))
        if one.lineno > statement.lineno and source.code(one.targets[0]) == name
    )
