"""Calls that leave out the device which their caller has, so that the callee works where its default says."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.checkers.signs import quoted
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices, is_for_tests, is_handed_name
from devfix.engine.facts import LeftOut, Term
from devfix.engine.files import Class, Function, FunctionNode
from devfix.engine.places import DEFAULT, LITERAL, NO_PATH, Place, literal
from devfix.findings import Finding, Related, SetArgument, told
from devfix.repair.expressible import devices_at
from devfix.text.source import FUNCTIONS, Source

_CODEMOD = "hand-on-device"
_UNLIKE = "unlike the call around it"
_PLAIN = frozenset({"device", "dev", "torch_device"})


def findings(analysis: Analysis) -> Iterator[Finding]:
    """One finding for each call that is known to want another device than its default."""
    source = analysis.file.source
    if is_for_tests(source):
        return
    every = [*analysis.left_out.values(), *_of_the_same_name(analysis)]
    for one in sorted(every, key=lambda one: source.span(one.node)):
        alike = one.node not in analysis.left_out
        device, why = (one.parameter, _UNLIKE) if alike else _wanted(one, analysis)
        if not device:
            continue
        span, name = source.span(one.node), one.parameter
        message = f"{quoted(source, one.node.func)} is called without `{name}={device}`, {why}"
        related: tuple[Related, ...] = ()
        if one.callee.file is analysis.file:
            at = next(argument for argument in one.callee.parameters if argument.arg == name)
            related = (Related(source.span(at), "the device that it takes"),)
        title, edit = f"pass `{name}={device}`", SetArgument(span, name, device)
        yield told(_CODEMOD, span, message, title, (edit,), related, f"its result belongs on `{device}`")


def _of_the_same_name(analysis: Analysis) -> Iterator[LeftOut]:
    """`x.to_torch()` in `to_torch(x, device)`, which hands its device to itself, or another `to_torch`, elsewhere."""
    for function in analysis.file.all_functions:
        names = [name for name in function.defaults if is_handed_name(name)]
        calls = [node for node in function.nodes if isinstance(node, ast.Call)] if len(names) == 1 else []
        calls = [
            one for one in calls if analysis.file.source.code(one.func).rpartition(".")[2] == function.name
        ]
        given = [one for one in calls if names[0] in _words(one)]
        for call in calls if given else ():
            root = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (
                isinstance(root, ast.Name)
                and root.id in function.positional
                and root.id not in ("self", "cls")
            ):
                if not any(about_devices(word) for word in _words(call)):
                    yield LeftOut(call, function, function, names[0], (), NO_PATH)


def _words(call: ast.Call) -> set[str]:
    """The names and keywords in the arguments of a call; what is spread out may be a device."""
    given = [*call.args, *(one.value for one in call.keywords)]
    words = {one.id for part in given for one in ast.walk(part) if isinstance(one, ast.Name)}
    return words | {one.arg or "**device" for one in call.keywords}


def _wanted(one: LeftOut, analysis: Analysis) -> tuple[str, str]:
    """The device to hand on, and how it is known to be wanted; an empty text where it is not."""
    source, function = analysis.file.source, one.callee
    if _is_excused(one, analysis):
        return "", ""
    if one.caller is not None and _is_unread(one, analysis):
        return one.parameter, f"and `{one.caller.name}` never reads its `{one.parameter}`"
    if _belongs_elsewhere(one, analysis):
        return "", ""
    if function.name == "__init__" and function.owner is not None and function.owner is _owner(one):
        kept = _kept(function, one.parameter)
        inside = one.caller is not None and not one.caller.static and not one.caller.of_class
        anew = (
            kept
            and inside
            and one.caller is not function
            and not settles_none(function.file.source, function.node, one.parameter)
        )
        return (kept, "unlike the object that it is made from") if anew else ("", "")
    if "super()" in source.code(one.node.func):
        return "", ""  # the class may well keep a device of its own
    if one.caller is function and _is_handed_as_it_is(one):
        return one.parameter, _UNLIKE
    default = _chosen(one)
    terms = (term for term in devices_at(source, one.scopes, one.node) if _is_alike(term.text, one.parameter))
    term = next(terms, None)
    if term is None:
        return "", ""
    if one.caller is function:
        return term.text, _UNLIKE
    if default == "None":
        if (
            term.text.startswith("self.")
            or function.name == "__init__"
            or not _hands_on(function, one.parameter)
        ):
            return "", ""
    elif literal(default) is None or _is_the_same(term, default, one):
        return "", ""
    if default not in ("cpu", "None"):
        return term.text, f'so it uses "{default}"'
    return (term.text, "so it uses the CPU") if _strays(one, analysis) else ("", "")


def _is_handed_as_it_is(one: LeftOut) -> bool:
    """Has the caller a parameter of that name which it never binds, and whose default is that of the callee?

    Then to hand it on changes nothing for those who leave it out.
    """
    caller, name = one.caller, one.parameter
    if caller is None or name not in {argument.arg for argument in caller.parameters}:
        return False
    if any(not isinstance(at.ctx, ast.Load) for at in caller.file.source.names(caller.node).get(name, ())):
        return False
    mine, theirs = caller.defaults.get(name), one.callee.defaults[name]
    return mine is None or ast.dump(mine) == ast.dump(theirs)


def _is_unread(one: LeftOut, analysis: Analysis) -> bool:
    """Does the caller take a device and do nothing with it, where this is its only call that takes one?"""
    caller = one.caller
    if (
        caller is None
        or not _is_handed_as_it_is(one)
        or reads(caller.file.source, caller.node, one.parameter)
    ):
        return False
    beside = (each for each in analysis.left_out.values() if each.caller is caller)
    return all(each is one for each in beside)


def _strays(one: LeftOut, analysis: Analysis) -> bool:
    """Is what the call gives, or its callee makes, on another device than what it is combined with?"""
    made = {one.node, *one.callee.nodes}
    return any(not made.isdisjoint(link.node for link in each.stray.links) for each in analysis.mismatches)


def _is_the_same(term: Term, default: str, one: LeftOut) -> bool:
    """Is the caller's device the default as well, or the CPU?"""
    if term.place in (literal(default), literal("cpu"), Place(DEFAULT)):
        return True
    if term.place.kind == LITERAL and term.place.key == default:
        return True
    # the class has a device, and its method says "cpu" all the same
    own = isinstance(one.node.func, ast.Attribute) and ast.unparse(one.node.func.value) == "self"
    return default == "cpu" and own and term.text == "self.device"


def _is_alike(text: str, parameter: str) -> bool:
    """May a device that is called so be meant by a parameter that is called so?"""
    last = text.rpartition(".")[2].strip("_")
    return last == parameter.strip("_") or {last, parameter.strip("_")} <= _PLAIN


def _chosen(one: LeftOut) -> str:
    """Where the default puts things: "cuda", "cpu", "cuda:1"; "None"; empty where the text does not say."""
    default = one.callee.defaults[one.parameter]
    if (
        isinstance(default, ast.Call)
        and one.callee.file.dotted(default.func) == "torch.device"
        and default.args
    ):
        default = default.args[0]
    if isinstance(default, ast.Constant) and (default.value is None or isinstance(default.value, str)):
        return str(default.value)
    return ""


# --- what speaks against it --------------------------------------------------------------------


def _is_excused(one: LeftOut, analysis: Analysis) -> bool:
    """Is the other device meant, or put right, or does it not matter?"""
    source, function, name = analysis.file.source, one.callee, one.parameter
    if any(about_devices(condition) or "export" in str(condition) for condition, _ in one.path):
        return True
    if not reads(function.file.source, function.node, name) or _falls_back(source, one.node):
        return True
    if any(_is_bound_to_another(node, name, function.file.source) for node in function.nodes):
        return True
    return not _chosen(one).startswith("cuda") and _is_moved(source, one)


def _belongs_elsewhere(one: LeftOut, analysis: Analysis) -> bool:
    """Is it an object that moves what it is given, as it keeps its device, or a module, which moves with the whole?"""
    function = one.callee
    if (
        _chosen(one).startswith("cuda")
        or function.name != "__init__"
        or function.owner in (None, _owner(one))
    ):
        return False
    return bool(_kept(function, one.parameter)) or analysis.class_kind(function.owner) == "module"


def reads(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function do anything with a parameter? `del device` says that it does without."""
    return any(not isinstance(read.ctx, ast.Store) for read in source.names(function).get(name, ()))


def _is_bound_to_another(node: ast.AST, name: str, source: Source) -> bool:
    """`device = x.device`"""
    if not isinstance(node, ast.Assign) or source.code(node.targets[0]) != name:
        return False
    text = source.code(node.value)
    return ".device" in text and ".device(" not in text


def _falls_back(source: Source, node: ast.AST) -> bool:
    """Is a call what is tried after another one has failed, or a part of a test?"""
    up: ast.AST | None = node
    while up is not None:
        if isinstance(up, ast.ExceptHandler):
            return True
        if isinstance(up, FUNCTIONS) and up.name.strip("_").startswith("test"):
            return True
        up = source.parents.get(up)
    return False


def _is_moved(source: Source, one: LeftOut) -> bool:
    """Is the result moved: at once, or by its name or attribute further down?"""
    child: ast.AST = one.node
    up: ast.AST = one.node
    while not isinstance(up, ast.stmt):
        child, up = up, source.parents[up]
        if isinstance(up, ast.Attribute) and up.attr in ("to", "cuda", "cpu"):
            return True
        if isinstance(up, ast.BinOp) or (isinstance(up, ast.Call) and child is not up.func):
            break
    statement = source.statement(one.node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {source.code(item) for target in targets for item in getattr(target, "elts", [target])}
    home: ast.AST = one.caller.node if one.caller is not None else source.tree
    owner = _owner(one)
    if owner is not None and any(name.startswith("self.") for name in names):
        home = owner.node
    indexed = (at for at in source.of_kind(ast.Subscript, home) if source.code(at.slice) in names)
    names |= {source.code(at.value) for at in indexed}  # with which it has to be together
    for call in source.of_kind(ast.Call, home):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda", "load_state_dict"):
            moved = [call.func.value] if call.func.attr != "load_state_dict" else call.args
            every = (part for whole in moved for part in ast.walk(whole) if isinstance(part, ast.expr))
            if any(source.code(part) in names for part in every):
                return True
    return False


def _owner(one: LeftOut) -> Class | None:
    return one.caller.owner if one.caller is not None else None


def _kept(function: Function, name: str) -> str:
    """The attribute in which a constructor keeps a parameter: "self.device"."""
    source = function.file.source
    for node in function.nodes:
        if isinstance(node, ast.Assign) and source.code(node.value) == name:
            kept = [source.code(target) for target in node.targets]
            return next((text for text in kept if text.startswith("self.")), "")
    return ""


def settles_none(source: Source, function: FunctionNode, name: str) -> bool:
    """Does a function ask whether its parameter is None, or bind it anew?"""
    asking = (ast.BoolOp, ast.If, ast.IfExp, ast.Compare, ast.UnaryOp)
    every = source.names(function).get(name, ())
    return any(isinstance(one.ctx, ast.Store) or isinstance(source.parents[one], asking) for one in every)


def _hands_on(function: Function, name: str) -> bool:
    """Does None mean the CPU to a function: is it handed on as it is, to whoever takes a `device=`?"""
    if settles_none(function.file.source, function.node, name):
        return False
    for node in function.nodes:
        if isinstance(node, ast.keyword) and node.arg == "device":
            if isinstance(node.value, ast.Name) and node.value.id == name:
                return True
    return False
