"""The forms that a device has at run time: a string, a torch.device or a number; with an index, or without.

`torch.device("cuda")` never equals `torch.device("cuda:0")`, and a torch.device never equals a string
(https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device); a tensor's device has an index wherever
there can be several. A value has the set of the forms that it may have; the empty set says that nothing is known.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from devfix.engine.files import File, Function
from devfix.engine.places import ACCELERATORS
from devfix.text.source import Source, remembered

TEXT, OBJECT, NUMBER, ANY = "text", "object", "number", "any"


class Form(NamedTuple):
    """`kind`: text, object, number or any; `type`: "cuda", "" where not known.

    `numbered`: has it an index? None where that is not known. `claimed`: only an annotation or a docstring says so.
    """

    kind: str
    type: str = ""
    numbered: bool | None = None
    claimed: bool = False


Forms = frozenset[Form]
NO_FORMS: Forms = frozenset()
OPEN = Form(ANY)
A_TEXT: Forms = frozenset({Form(TEXT)})
AN_OBJECT: Forms = frozenset({Form(OBJECT, claimed=True)})  # by what is written about it
A_DEVICE: Forms = frozenset({Form(OBJECT)})
OF_TENSOR: Forms = frozenset({Form(OBJECT, "", True)})
EITHER: Forms = A_TEXT | AN_OBJECT
MAX_FORMS = 8
# What people write for a type that torch knows by another name.
WRONG_TYPES = {"gpu": "cuda", "GPU": "cuda", "CPU": "cpu", "CUDA": "cuda", "Cuda": "cuda", "MPS": "mps"}
# Types that torch knows; those without an index of their own are never given one by a tensor.
TYPES = ACCELERATORS | {"cpu", "meta", "mlu", "musa", "hip", "ipu", "vulkan"}
INDEXED = TYPES - {"cpu", "meta", "vulkan"}
_ARMS = frozenset({"Union", "Optional", "Literal"})


def of_text(text: str) -> Form | None:
    """The form of a string that names a device; None of any other."""
    kind, colon, number = text.partition(":")
    if kind not in TYPES or (colon and not number.isdigit()):
        return None
    return Form(TEXT, kind, bool(colon))


def mistaken(value: object) -> Forms:
    """The form of what people write for a device that torch does not know: "gpu", and -1 for the CPU."""
    if isinstance(value, str) and value in WRONG_TYPES:
        return frozenset({Form(TEXT, value, False)})
    return frozenset({Form(NUMBER)}) if value.__class__ is int and value == -1 else NO_FORMS


def joined(one: Forms, other: Forms) -> Forms:
    """The forms after two paths: an arm of which nothing is known stays one."""
    if one is other:
        return one
    if not one or not other:
        return one | other | {OPEN}
    return one | other if len(one | other) <= MAX_FORMS else NO_FORMS


def as_object(forms: Forms) -> Forms:
    """The forms of `torch.device(x)`: it keeps the index of a string, and a number is one."""
    return frozenset(
        Form(OBJECT, "cuda", True) if one.kind == NUMBER else one._replace(kind=OBJECT, claimed=False)
        for one in forms or {OPEN}
    )


def as_text(forms: Forms) -> Forms:
    """The forms of `str(x)`."""
    return frozenset(one._replace(kind=TEXT, claimed=False) for one in forms)


def as_type(forms: Forms) -> Forms:
    """The forms of `x.type`, which has no index."""
    return frozenset(Form(TEXT, one.type, False) for one in forms or {OPEN})


def is_object(forms: Forms) -> bool:
    """Is it a torch.device and nothing else, as it was made?"""
    return bool(forms) and all(one.kind == OBJECT and not one.claimed for one in forms)


def with_index(forms: Forms) -> Forms:
    return frozenset(one._replace(numbered=True) for one in forms)


def begun(text: object) -> Forms:
    """The forms of a string that begins so: "cuda:", "cuda:%d", "cuda:{}"."""
    kind, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    if colon and kind in INDEXED and (not rest or rest[0] in "%{"):
        return frozenset({Form(TEXT, kind, True)})
    return NO_FORMS


@remembered
def options(source: Source) -> dict[str, Forms]:
    """The options of the program that are devices or types of devices, by the attribute that holds them."""
    found: dict[str, Forms] = {}
    for call in source.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
            continue
        given = {one.arg: one.value for one in call.keywords}
        choices = getattr(given.get("choices"), "elts", None) or ()
        chosen = [of_text(str(one.value)) if isinstance(one, ast.Constant) else None for one in choices]
        told = frozenset(one for one in chosen if one is not None) if None not in chosen else NO_FORMS
        if "type" in given and source.qualified(given["type"]) == "torch.device":
            told = A_DEVICE
        if not told:
            continue
        flags = [one.value for one in call.args if isinstance(one, ast.Constant)]
        long = [one for one in flags if isinstance(one, str) and (one.startswith("--") or one[:1] != "-")]
        name = given.get("dest")
        if isinstance(name, ast.Constant):
            long = [str(name.value)]
        if long:
            found[long[0].lstrip("-").replace("-", "_")] = told
    return found


# --- what is written about a parameter, an attribute or a result -------------------------------


def annotated(file: File, node: ast.expr | None) -> Forms:
    """The forms that an annotation allows, one for each arm of a union; None is left out."""
    found: set[Form] = set()
    for arm in arms(file, node) if node is not None else ():
        if isinstance(arm, ast.Constant):
            form = of_text(arm.value) if isinstance(arm.value, str) else None
        else:
            form = _named(file.dotted(arm))
        found.add(form or OPEN)
    return frozenset() if found == {OPEN} else frozenset(found)


def of_elements(file: File, node: ast.expr | None) -> Forms:
    """The forms of the elements that the annotation of a container allows: `list[torch.device]`."""
    found: set[Form] = set()
    for arm in arms(file, node) if node is not None else ():
        if isinstance(arm, ast.Subscript):
            inner = arm.slice.elts if isinstance(arm.slice, ast.Tuple) else [arm.slice]
            if inner:
                found |= annotated(file, inner[-1] if not _is_rest(inner[-1]) else inner[0])
    return frozenset(found)


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _named(dotted: str) -> Form | None:
    if dotted in ("str", "typing.Text"):
        return Form(TEXT)
    if dotted in ("torch.device", "torch.types.Device", "device") or dotted.endswith(".torch.device"):
        return Form(OBJECT, claimed=True)
    return Form(NUMBER) if dotted == "int" else None


def arms(file: File, node: ast.expr, literal: bool = False) -> list[ast.expr]:
    """The parts of a union, without None: `Optional[Union[A, B]]`, "A | B", an alias of the file."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return []
        if isinstance(node.value, str) and not literal:
            try:
                return arms(file, ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                return [node]
        return [node]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return arms(file, node.left) + arms(file, node.right)
    if isinstance(node, ast.Name) and node.id in file.globals and node.id not in file.source.imports:
        alias = file.globals[node.id]  # Device = Union[str, torch.device]
        return [node] if isinstance(alias, ast.Name) else arms(file, alias)
    if isinstance(node, ast.Subscript):
        name = file.dotted(node.value).rpartition(".")[2]
        if name in _ARMS:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return [arm for part in parts for arm in arms(file, part, name == "Literal")]
        if name == "Annotated":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return arms(file, parts[0])
    return [node]


_DOCUMENTED = re.compile(r"^[\s*:-]*(?:param |type )?`{0,2}(\w+)`{0,2}\s*[:(\s](.{0,80})")


def documented(function: Function) -> dict[str, Forms]:
    """Parameter -> the forms that the type in the docstring allows, where it names a torch.device."""
    return {
        name: forms
        for name, forms in _spoken_of(function).items()
        if any(one.kind == OBJECT for one in forms)
    }


def _spoken_of(function: Function) -> dict[str, Forms]:
    """Parameter -> the forms that the type in the docstring allows."""
    text = ast.get_docstring(function.node, clean=False)
    found: dict[str, Forms] = {}
    names = {one.arg for one in function.parameters}
    for line in text.splitlines() if text and "device" in text else ():
        match = _DOCUMENTED.match(line)
        if match is None or match[1] not in names or found.get(match[1]):
            continue
        said = match[2].partition("defaults to")[0].partition(". ")[0]
        forms = set[Form]()
        if re.search(r"\btorch\.device\b", said):
            forms.add(Form(OBJECT, claimed=True))
        if re.search(r"\bstr(?:ing)?\b", said):
            forms.add(Form(TEXT))
        found[match[1]] = frozenset(forms)
    return found


def may_be_text(function: Function, name: str) -> bool:
    """May a parameter be a string, by its annotation, docstring or default, or by several comparisons with one?

    Whatever a call in view passes for it.
    """
    said = next(
        (annotated(function.file, one.annotation) for one in function.parameters if one.arg == name), NO_FORMS
    )
    default = function.defaults.get(name)
    given = default.value if isinstance(default, ast.Constant) else None
    spoken = said | _spoken_of(function).get(name, NO_FORMS)
    if isinstance(given, str) or any(one.kind == TEXT for one in spoken):
        return True
    compared = 0
    for node in function.nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (node.left, node.comparators[0])
            named = any(isinstance(one, ast.Name) and one.id == name for one in sides)
            compared += named and any(
                isinstance(one, ast.Constant) and isinstance(one.value, str) for one in sides
            )
    return compared > 1


def cut_at_colon(function: Function) -> frozenset[str]:
    """The names that the function takes for a string that may have an index: `":" in d`, `d.split(":")`."""
    found: set[str] = set()
    for node in function.nodes:
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and node.left.value == ":":
            other = node.comparators[0]
            if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(other, ast.Name):
                found.add(other.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            first = node.args[0]
            if (
                node.func.attr in ("split", "partition", "rpartition", "rsplit")
                and isinstance(first, ast.Constant)
                and first.value == ":"
                and isinstance(node.func.value, ast.Name)
            ):
                found.add(node.func.value.id)
    return frozenset(found)


def of_parameters(function: Function, *, moves: bool) -> dict[str, Forms]:
    """Parameter -> its forms by annotation, docstring and use; `moves`: the function is a module's `to`."""
    found = documented(function) if any("device" in one.arg for one in function.parameters) else {}
    for one in function.parameters:
        said = annotated(function.file, one.annotation)
        if one.annotation is not None:
            found.pop(one.arg, None)
        default = function.defaults.get(one.arg)
        text = isinstance(default, ast.Constant) and isinstance(default.value, str)
        if said and (said != AN_OBJECT or not text):  # a default of "cpu" belies `d: torch.device`
            found[one.arg] = said
    if moves and len(function.positional) > 1:
        # torch.nn.Module.to takes a device in either form.
        name = function.positional[1]
        found[name] = found.get(name) or EITHER
    cut = cut_at_colon(function) if found else frozenset()
    for name in cut & found.keys():
        found[name] = found[name] | {Form(TEXT, "", True)}
    return found
