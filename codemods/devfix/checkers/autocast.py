"""Findings from autocast: a device where it wants a type, and a type that does not follow its data."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from devfix.checkers.comparison_edits import cut
from devfix.checkers.comparisons import arguments, judged, why
from devfix.checkers.writing import Writing
from devfix.engine import Analysis
from devfix.engine.evidence import about_devices
from devfix.engine.facts import Autocast
from devfix.engine.forms import OBJECT
from devfix.engine.places import Place
from devfix.findings import Edit, Finding, Fix, ReplaceExpression, Safety
from devfix.flow import frameworks
from devfix.repair.expressible import expressible

CODEMOD = "normalize-device-type"
# A file that goes to CUDA by name at least as often as it asks for a device is for CUDA, and means it.
_FIXED = re.compile(
    r"\.cuda\(|cuda\.set_device\(|[\"']nccl[\"']|(?:\.to\(|device\s*=|torch\.device\()\s*[\"']cuda[:\d]*[\"'](?!\s+if\b)"
)
_FOLLOWING = re.compile(r"\.device\b|\bdevice\s*=(?!\s*[\"']cuda)|\.to\((?:self\.)?\w*device")


def found(analysis: Analysis, wanted: Collection[str]) -> Iterator[tuple[Finding, set[int]]]:
    """Findings, each with the lines of the file that it is about."""
    if CODEMOD not in wanted:
        return
    yield from _types(analysis)
    source = analysis.file.source
    seen: set[ast.AST] = set()
    for one in analysis.autocasts.values():
        node = one.partial or one.node
        if node in seen or one.file is not analysis.file or not _is_for_cuda(one):
            continue
        place = _followed(one, analysis)
        if place is not None:
            seen.add(node)
            yield _following(one, node, place, analysis), {source.position(source.span(node).start)[0]}


def _types(analysis: Analysis) -> Iterator[tuple[Finding, set[int]]]:
    """What is given to autocast, or cut into a type for it, in a form that fails."""
    source, write = analysis.file.source, Writing(analysis)
    inside = arguments(analysis)
    for one in judged(analysis):
        use = one.use
        if use.node not in inside and use.sink != "type":
            continue
        edits: tuple[Edit, ...] = ()
        if use.sink == "method":
            text, at = cut(use, analysis)
        elif use.sink == "attribute":
            text, at = write.device_of(use, use.value_node), use.value_node
        else:
            text, at = write.type_of(use, use.value_node) if use.sink == "type" else "", use.value_node
        if text:
            edits = (ReplaceExpression(source.span(at), text), *write.imports(text))
        span = source.span(use.node if use.sink != "type" else use.value_node)
        message = why(one, analysis)
        if edits:
            message += ". The fix assumes that any string here names a device"
        fix = Fix(f"write `{text}`", edits, Safety.UNSAFE) if edits else None
        yield Finding(CODEMOD, span, message, fix), {source.position(span.start)[0]}


# --- what follows its data ---------------------------------------------------------------------


def _is_for_cuda(one: Autocast) -> bool:
    return one.dotted.startswith("torch.cuda.") or (
        one.device_type is not None and one.device_type.const == "cuda"
    )


def _followed(one: Autocast, analysis: Analysis) -> Place | None:
    """The place of the data, if it is one that is chosen at run time, and autocast ought to follow it."""
    source = analysis.file.source
    if one.is_fixed or one.is_owned or not one.followed:
        return None
    if one.enabled is not None:
        text = source.code(one.enabled)
        if text == "False" or about_devices(text):
            return None
    asked = [condition for condition, _ in one.path]
    if one.function is not None:  # @pytest.mark.skipif(not torch.cuda.is_available()), @with_gpu
        asked += [source.code(decorator) for decorator in one.function.node.decorator_list]
    if any(about_devices(condition) for condition in asked):
        return None
    if any(what.startswith(frameworks.CUDA_LIBRARIES) for what in source.imports.values()):
        return None
    if _mostly_fixed(source.text):
        return None
    counts = {place: one.followed.count(place) for place in one.followed}
    return max(counts, key=lambda place: counts[place])


@lru_cache(maxsize=4)
def _mostly_fixed(text: str) -> bool:
    """Does a file name CUDA in as many places as it follows a device?"""
    fixed = len(_FIXED.findall(text))
    return bool(fixed) and fixed >= len(_FOLLOWING.findall(text))


def _following(one: Autocast, node: ast.Call, place: Place, analysis: Analysis) -> Finding:
    source, write = analysis.file.source, Writing(analysis)
    device, exact = _written(one, node, place, analysis)
    edits: tuple[Edit, ...] = ()
    if device:
        kind = f"{device}.type" if exact else f"{write.torch}.device({device}).type"
        edits = _edits(one, node, kind, write)
    where = f"`{device}`" if device else "a device that is chosen at run time"
    message = f"this autocast is for CUDA only, but its data is moved to {where}: on any other device it does nothing"
    if edits:
        message += ". The fix switches it on for the CPU, too, in bfloat16 unless a dtype is given"
    fix = Fix(f"follow `{device}`", edits, Safety.UNSAFE) if edits else None
    return Finding(CODEMOD, source.span(node), message, fix)


def _written(one: Autocast, node: ast.Call, place: Place, analysis: Analysis) -> tuple[str, bool]:
    """A device expression for a place that can stand at a node, and whether it is a torch.device."""
    source = analysis.file.source
    text, exact = _of_the_object(one, place, analysis) if one.partial is None else ("", False)
    if text:
        return text, exact
    text = expressible(source, place, one.scopes, node)
    return text, text.endswith(".device") and not text.startswith(("self.", "cls."))


def _of_the_object(one: Autocast, place: Place, analysis: Analysis) -> tuple[str, bool]:
    """`self.device`, by which a method of the same object moves the data."""
    source = analysis.file.source
    me = one.me.ref if one.me is not None else None
    for at, function, theirs, forms in analysis.targets.get(place, ()):
        chain = isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name)
        if not chain or me is None or theirs != me or function is None or one.function is None:
            continue
        name = function.positional[0] if function.positional else ""
        assert isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name)
        if at.value.id == name and one.function.positional[:1] == [name]:
            return source.code(at), bool(forms) and {form.kind for form in forms} == {OBJECT}
    return "", False


def _edits(one: Autocast, node: ast.Call, kind: str, write: Writing) -> tuple[Edit, ...]:
    source = write.source
    text = source.code(node)
    if any(isinstance(given, ast.Starred) for given in node.args) or "\n" in text or "#" in text:
        return ()
    if any(keyword.arg is None for keyword in node.keywords):
        return ()
    if one.device_type is not None:
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(given, ast.Constant) and given.value == "cuda":
                return (ReplaceExpression(source.span(given), kind), *write.imports(kind))
        return ()
    names = ("enabled", "dtype", "cache_enabled")
    positional = node.args[1:] if one.partial is not None else node.args
    more = [f"{name}={source.code(value)}" for name, value in zip(names, positional, strict=False)]
    more += [f"{keyword.arg}={source.code(keyword.value)}" for keyword in node.keywords]
    made = ", ".join([kind, *more])
    called = f"{write.torch}.autocast"
    made = f"{source.code(node.func)}({called}, {made})" if one.partial is not None else f"{called}({made})"
    return (ReplaceExpression(source.span(node), made), *write.imports(made))
