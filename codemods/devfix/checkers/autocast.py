"""Findings from autocast: a device where it wants a type, and a type that does not follow its data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from devfix.checkers import device_types
from devfix.checkers.writing import Writing
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices, asks_for_kind, is_handed_name
from devfix.engine.facts import Autocast, Term
from devfix.engine.forms import OBJECT
from devfix.engine.places import ACCELERATORS, CUDA_THERE, LITERAL, OF, VAR, Place
from devfix.engine.values import CALLER, MODULE, Value
from devfix.findings import Edit, Finding, ReplaceExpression, SetArgument, told
from devfix.models import frameworks
from devfix.repair.expressible import devices_at, expressible
from devfix.text.bindings import bound
from devfix.text.placing import bound_before, dotted
from devfix.text.source import Source, remembered

CODEMOD = device_types.CODEMOD
# A file that goes to CUDA by name at least as often as it asks for a device is for CUDA, and means it.
_FIXED = re.compile(
    r"\.cuda\(|cuda\.set_device\(|[\"']nccl[\"']|(?:\.to\(|device\s*=|torch\.device\()\s*[\"']cuda[:\d]*[\"'](?!\s+if\b)"
)
_FOLLOWING = re.compile(r"\.device\b|\bdevice\s*=(?!\s*[\"']cuda)|\.to\((?:self\.)?\w*device")
# What is for any accelerator, or for another one than CUDA.
_OTHERS = re.compile(rf"[\"'](?:{'|'.join(sorted(ACCELERATORS - {'cuda'}))})\b|torch\.accelerator\b")
_OLD = ("enabled", "dtype", "cache_enabled")  # the parameters of a context that is for CUDA by its name


class Near(NamedTuple):
    """Where the data of a context is: how that is written, if it can be, and whether that is a torch.device."""

    place: Place
    text: str
    exact: bool
    moved: bool = False


def found(analysis: Analysis, needs_cuda: bool = False, by_name: bool = False) -> Iterator[Finding]:
    """All that is wrong with the types that autocast is given; `needs_cuda`: there are no other data than CUDA's.

    A context for CUDA by name is off on the CPU, which is mostly meant: `by_name` asks for all of these, too.
    """
    yield from device_types.found(analysis)
    yield from _without_device(analysis)
    seen: set[ast.AST] = set()
    for one in analysis.autocasts.values() if not needs_cuda else ():
        node = one.partial or one.node
        here = one.file is analysis.file and node in analysis.file.source.parents
        if node in seen or not here or _is_for_cuda(one, analysis):
            continue
        near = _near(one, node, analysis)
        if near is None or _is_of_cuda(near.place, analysis):
            continue
        if not by_name and _is_meant(one, node, analysis.file.source):
            continue
        told = _judged(one, node, near, analysis)
        if told is not None:
            seen.add(node)
            yield told


def _without_device(analysis: Analysis) -> Iterator[Finding]:
    """`self.device.type` in a module that has no `device`, where a tensor says where the data is."""
    source = analysis.file.source
    for one in analysis.missing:
        if one.user != "type" or one.kind != "attribute" or one.name != "device":
            continue
        context = next((c for c in analysis.autocasts.values() if one.node in ast.walk(c.node)), None)
        near = next(_read(context, context.node, analysis), None) if context is not None else None
        if near is not None:
            message = f"`{source.code(one.node)}` raises AttributeError: nothing in its class assigns it"
            message += f"; `{near.text}` is where the data is"
            span = source.span(one.node)
            yield told(CODEMOD, span, message, f"use `{near.text}`", (ReplaceExpression(span, near.text),))


# --- whether it ought to follow ----------------------------------------------------------------


def _is_for_cuda(one: Autocast, analysis: Analysis) -> bool:
    """Is the code around a context for CUDA and nothing else, does it ask where the data is, or not enter it?"""
    source = analysis.file.source
    if one.is_fixed or _is_passed_over(one.node, source):
        return True
    if one.enabled is not None and _asks(one.enabled, source):
        return True
    if any(asks_for_kind(condition) or _asks_by_name(condition, one, source) for condition, _ in one.path):
        return True
    around = one.decorated or one.function
    if around is not None:  # @pytest.mark.skipif(not torch.cuda.is_available()), @with_gpu
        decorators = list(around.node.decorator_list)
        decorators += around.owner.node.decorator_list if around.owner is not None else []
        if any(about_devices(source.code(other)) for other in decorators if other is not one.node):
            return True
    if any(what.startswith(frameworks.CUDA_LIBRARIES) for what in source.imports.values()):
        return True
    return _mostly_fixed(source.text)


def _is_passed_over(node: ast.Call, source: Source) -> bool:
    """`with autocast() and torch.no_grad()` enters the last one alone, as a context is true."""
    up = source.parents[node]
    return isinstance(up, ast.BoolOp) and isinstance(up.op, ast.And) and node is not up.values[-1]


def _is_of_cuda(place: Place, analysis: Analysis) -> bool:
    """Is a place a GPU by its number: `device = f"cuda:{rank}"`?"""
    forms = [form for target in analysis.targets.get(place, ()) for form in target[3] or (None,)]
    return bool(forms) and all(form is not None and form.type == "cuda" for form in forms)


def _asks(node: ast.expr, source: Source) -> bool:
    """Does an expression ask for the type of a device, by itself or by what its names are assigned?"""
    if asks_for_kind(source.code(node)):
        return True
    named = [one for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))]
    for one in named:
        for binding in bound(source, source.code(one), node):
            if (
                binding.value is not None
                and not binding.parameter
                and asks_for_kind(source.code(binding.value))
            ):
                if any(isinstance(part, ast.Compare) for part in ast.walk(binding.value)):
                    return True
    return False


def _asks_by_name(condition: object, one: Autocast, source: Source) -> bool:
    """Is a condition the name of what was asked before?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else condition
    if not isinstance(text, str) or not text.replace(".", "").isidentifier():
        return False
    for binding in bound(source, text, one.node):
        if isinstance(binding.value, ast.Compare) and asks_for_kind(source.code(binding.value)):
            return True
    return False


@lru_cache(maxsize=4)
def _mostly_fixed(text: str) -> bool:
    """Does a file name CUDA in as many places as it follows a device?"""
    fixed = len(_FIXED.findall(text))
    return bool(fixed) and fixed >= len(_FOLLOWING.findall(text))


# --- where the data is -------------------------------------------------------------------------


def _near(one: Autocast, node: ast.Call, analysis: Analysis) -> Near | None:
    """Where the data is moved to, else a tensor that is read there, else the device that the code works with."""
    source, around = analysis.file.source, one.decorated or one.function
    is_fixed = around is not None and _FIXED.search(source.code(around.node)) is not None
    read = next(_read(one, node, analysis), None) if not is_fixed else None
    if read is not None and one.me is not None and one.me.kind == MODULE:
        return read
    if one.followed and not one.is_owned and (one.decorated is None or not _is_off(one, source)):
        counts = {place: one.followed.count(place) for place in one.followed}
        place = max(counts, key=lambda place: counts[place])
        return Near(place, *_written(one, node, place, analysis), moved=True)
    return read or (_known(one, node, analysis) if not one.is_owned and not is_fixed else None)


def _is_off(one: Autocast, source: Source) -> bool:
    return one.enabled is not None and source.code(one.enabled) == "False"


def _read(one: Autocast, node: ast.Call, analysis: Analysis) -> Iterator[Near]:
    source = analysis.file.source
    for name, value in one.read.items():
        if _is_off(one, source) and not _is_told(one, name, value):
            continue
        if any(assumption.kind == CALLER and assumption.subject != name for assumption in value.assumed):
            continue  # a part of what the caller has passed need not be a tensor
        given = one.decorated is not None and any(name == other.arg for other in one.decorated.parameters)
        if given or bound_before(source, ast.Name(name, ast.Load()), source.statement(node)):
            yield Near(value.place, f"{name}.device", exact=True)


def _is_told(one: Autocast, name: str, value: Value) -> bool:
    """Is it a tensor by more than its uses: by the contract of `forward`; of a decorated function by its annotation?"""
    if one.decorated is None:
        return all(assumption.kind == CALLER for assumption in value.assumed)
    return any(other.arg == name and other.annotation for other in one.decorated.parameters)


def _known(one: Autocast, node: ast.Call, analysis: Analysis) -> Near | None:
    """The device of the object, or one that the function has at hand, and uses up to the end of the context."""
    source = analysis.file.source
    terms = [] if one.decorated is not None else devices_at(source, one.scopes, node)
    if any(term.place.kind == LITERAL and term.form == "device" for term in terms):
        return None
    for term in terms:
        if term.place.kind in (VAR, OF) and is_handed_name(term.text.rpartition(".")[2]):
            if "." in term.text or _is_used(term, node, source):
                return Near(term.place, term.text, exact=False)
    return None


def _is_used(term: Term, node: ast.Call, source: Source) -> bool:
    around = source.scope(node)
    end = source.statement(node).end_lineno or 0
    reads = source.names(around).get(term.text, ())
    return any(isinstance(one.ctx, ast.Load) and one.lineno <= end for one in reads)


def _written(one: Autocast, node: ast.Call, place: Place, analysis: Analysis) -> tuple[str, bool]:
    """A device expression for a place that can stand at a node, and whether it is a torch.device."""
    source = analysis.file.source
    text, exact = _of_the_object(one, place, analysis) if one.partial is None else ("", False)
    if text:
        return text, exact
    text = expressible(source, place, one.scopes, node)
    if not text or text.startswith("next("):  # not each module has parameters
        text = _as_moved(one, node, place, analysis) or text
    exact = text.endswith(".device") and not text.startswith(("self.", "cls."))
    forms = {form.kind for target in analysis.targets.get(place, ()) for form in target[3] or (None,) if form}
    return text, exact or forms == {OBJECT}


def _as_moved(one: Autocast, node: ast.Call, place: Place, analysis: Analysis) -> str:
    """The expression by which the same function moves the data."""
    source = analysis.file.source
    for at, function, _, _ in analysis.targets_here(place):
        if function is one.function and isinstance(at, (ast.Name, ast.Attribute)) and dotted(at):
            if bound_before(source, at, source.statement(node)):
                return source.code(at)
    return ""


def _of_the_object(one: Autocast, place: Place, analysis: Analysis) -> tuple[str, bool]:
    """`self.device`, by which a method of the same object moves the data."""
    me = one.me.ref if one.me is not None else None
    for at, function, theirs, forms in analysis.targets.get(place, ()):
        chain = isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name)
        if not chain or me is None or theirs != me or function is None or one.function is None:
            continue
        name = function.positional[0] if function.positional else ""
        assert isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name)
        if at.value.id == name and one.function.positional[:1] == [name]:
            return dotted(at), bool(forms) and {form.kind for form in forms} == {OBJECT}
    return "", False


# --- what to say -------------------------------------------------------------------------------


def _judged(one: Autocast, node: ast.Call, near: Near, analysis: Analysis) -> Finding | None:
    source, write = analysis.file.source, Writing(analysis)
    by_machine = near.place.key in analysis.asked  # the device is chosen by the same test
    kind = f"{near.text}.type" if near.exact else f"{write.torch}.device({near.text}).type"
    where = f"`{near.text}`" if near.text else "a device that is chosen at run time"
    if _is_for_others(one):
        if not one.asks_machine or by_machine or not near.text or one.decorated is not None:
            return None
        message = f"this asks whether there is a GPU, not where the data is: {where} may be the CPU"
        given = _type_argument(one, node)
        edits = (
            (ReplaceExpression(source.span(given), kind), *write.imports(kind)) if given is not None else ()
        )
        more = "a machine with a GPU should use it for data on the CPU, too"
        return told(CODEMOD, source.span(given or node), message, f"follow {where}", edits, assumes=more)
    if one.is_for_machine and one.enabled is not None:
        if by_machine or not near.text:
            return None
        code = source.code(one.enabled)
        message = f"autocast is enabled by `{code}`, even if the data is elsewhere: {where} may be the CPU"
        edits = (ReplaceExpression(source.span(one.enabled), f'{kind} == "cuda"'), *write.imports(kind))
        span = source.span(one.enabled)
        return told(CODEMOD, span, message, f"ask {where}", edits if one.decorated is None else ())
    off = _is_off(one, source)
    if off and not any(_is_for_others(other) for other in analysis.autocasts.values()):
        return None  # nothing in view switches it on there
    if by_machine and not off:
        return None  # where there is no CUDA, half precision is off
    if off and any(condition == CUDA_THERE and holds for condition, holds in one.path):
        return None
    if one.of_cuda and (one.path or one.enabled is not None) and not off and _scales(source):
        return None  # an option of the program, for the half precision that only CUDA has
    effect = "autocast stays on" if off else "it does nothing"
    data = "its data is moved to" if near.moved else "the data is on"
    message = f"this autocast is for CUDA only, but {data} {where}: on any other device, {effect}"
    if one.decorated is not None:
        message += "; a `with` statement in the function can follow the data, a decorator cannot"
        return Finding(CODEMOD, source.span(node), message)
    more = (
        "it should be off on the CPU, too"
        if off
        else "the CPU should use it, too, in bfloat16 unless a dtype is given"
    )
    edits = _edits(one, node, kind, write) if near.text else ()
    return told(CODEMOD, source.span(node), message, f"follow {where}", edits, assumes=more)


@remembered
def _scales(source: Source) -> bool:
    """Does a file scale gradients, as half precision on CUDA needs it, and bfloat16 on the CPU does not?"""
    names = [source.qualified(call.func) for call in source.of_kind(ast.Call)]
    return any(name.rpartition(".")[2] == "GradScaler" for name in names)


def _is_for_others(one: Autocast) -> bool:
    """Is a context for other devices than CUDA, too?"""
    return not one.of_cuda and (one.device_type is None or one.device_type.const != "cuda")


def _is_meant(one: Autocast, node: ast.Call, source: Source) -> bool:
    """Is it for CUDA by name with what each device has as its half precision, or by what the data are like?

    Not so where it asks the machine, is told a dtype, or stands in a file that knows other accelerators.
    """
    if _is_for_others(one) or one.is_for_machine or _is_off(one, source) or _OTHERS.search(source.text):
        return False
    positional = node.args[1:] if one.partial is not None else node.args
    has_dtype = len(positional) > 1 or any(keyword.arg == "dtype" for keyword in node.keywords)
    return not has_dtype or isinstance(one.enabled, ast.Compare)


def _type_argument(one: Autocast, node: ast.Call) -> ast.expr | None:
    """What is written for the type."""
    positional = node.args[1:] if one.partial is not None else node.args
    given = [keyword.value for keyword in node.keywords if keyword.arg == "device_type"] or positional[:1]
    return given[0] if given and not isinstance(given[0], ast.Starred) else None


def _edits(one: Autocast, node: ast.Call, kind: str, write: Writing) -> tuple[Edit, ...]:
    source = write.source
    if any(isinstance(given, ast.Starred) for given in node.args) or any(
        keyword.arg is None for keyword in node.keywords
    ):
        return ()
    if not one.of_cuda:
        written = _type_argument(one, node)
        if not isinstance(written, ast.Constant):
            return ()
        return (ReplaceExpression(source.span(written), kind), *write.imports(kind))
    called, text = f"{write.torch}.autocast", source.code(node)
    if "\n" in text or "#" in text:
        if node.args:
            return ()
        name = ReplaceExpression(source.span(node.func), called)
        return (name, SetArgument(source.span(node), "device_type", kind), *write.imports(called))
    positional = node.args[1:] if one.partial is not None else node.args
    more = [f"{name}={source.code(value)}" for name, value in zip(_OLD, positional, strict=False)]
    more += [f"{keyword.arg}={source.code(keyword.value)}" for keyword in node.keywords]
    made = ", ".join([kind, *more])
    made = f"{source.code(node.func)}({called}, {made})" if one.partial is not None else f"{called}({made})"
    return (ReplaceExpression(source.span(node), made), *write.imports(made))
