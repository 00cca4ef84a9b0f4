"""What is left behind where its like is moved: of one batch, of two things made alike, of one dict.

`images = images.to(device)` says where the function works. What came out of the same batch, or was made
in the same way beside it, and meets what comes of `images` below, has to be there as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.findings import AppendCall, InsertStatement
from devfix.flow import Flow
from devfix.flow.events import Scope, What
from devfix.flow.evidence import looks_like_loss
from devfix.flow.lattice import Kind, Where
from devfix.inputs.hints import Hint, device_text, moved_to
from devfix.inputs.kinds import COUNTS
from devfix.placing import dotted
from devfix.source import Source, remembered, walk

_LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "kl_div",
     "binary_cross_entropy_with_logits", "huber_loss", "cosine_embedding_loss", "margin_ranking_loss"}
)  # fmt: skip
HOSTED = frozenset(
    {"to", "cuda", "cpu", "device", "numpy", "tolist", "item", "is_cuda", "type_as", "get_device"}
)
_MAKERS = ("torch.from_numpy", "torch.as_tensor", "torch.load", "torch.FloatTensor", "torch.LongTensor")


@dataclass(frozen=True)
class _Move:
    statement: ast.Assign
    value: ast.expr
    device: str


def leftovers(flow: Flow) -> Iterator[Hint]:
    """Everything that is left behind so."""
    source = flow.source
    if ".to(" not in source.text and ".cuda(" not in source.text and "device=" not in source.text:
        return
    for scope in flow.scopes:
        if scope.host or scope.owned:
            continue
        code = source.text if isinstance(scope.node, ast.Module) else source.code(scope.node)
        nodes = own(source, scope) if ".to(" in code or ".cuda(" in code or "**" in code else []
        if ".to(" in code or ".cuda(" in code:
            yield from _twins(flow, nodes)
        if "**" in code:
            yield from _entries(flow, scope, nodes)


# --- of one batch, or made alike ---------------------------------------------------------------


def _twins(flow: Flow, nodes: list[ast.AST]) -> Iterator[Hint]:
    source = flow.source
    moves = dict(_moves(nodes))
    if not moves:
        return
    reads = _reads(nodes)
    for names, alike in _groups(source, nodes):
        moved = [name for name in names if name in moves]
        for name in names:
            if not moved or name in moves or COUNTS.search(name) or _touched(source, name, nodes):
                continue
            first = moves[moved[0]]
            met = _met(flow, name, moved, reads.get(name, []), alike)
            if met is None or not _before(nodes, name, first.statement, met):
                continue
            text = ast.unparse(_renamed(first.value, moved[0], name))
            yield Hint(
                first.statement,
                f"`{moved[0]}` is moved to `{first.device}`, and `{name}`, which "
                f"{'is made like it' if alike else 'comes with it'}, is not",
                f"move `{name}` as well",
                (InsertStatement(source.span(first.statement), f"{name} = {text}"),),
                met,
                f"`{name}` is combined with it here",
            )
            break


def _before(nodes: list[ast.AST], name: str, statement: ast.stmt, met: ast.expr) -> bool:
    """Is a name bound in front of a statement, and not again before it meets the device below that?"""
    at, end = (statement.lineno, statement.col_offset), (met.lineno, met.col_offset)
    stores = [
        (node.lineno, node.col_offset)
        for node in nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return at < end and any(one < at for one in stores) and not any(at < one < end for one in stores)


def own(source: Source, scope: Scope) -> list[ast.AST]:
    """The nodes of a scope, without those of the functions in it; nobody may change the list."""
    return _own(source, scope.node)


@remembered
def _own(source: Source, scope: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def _moves(nodes: list[ast.AST]) -> Iterator[tuple[str, _Move]]:
    """`x = x.to(device)`, alone or in a tuple."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for one, given in pairs:
            if (
                isinstance(one, ast.Name)
                and isinstance(given, ast.Call)
                and isinstance(given.func, ast.Attribute)
                and given.func.attr in ("to", "cuda")
                and dotted(given.func.value) == one.id
            ):
                device = device_text(moved_to(given))
                if device and device.strip('"') != "cpu":
                    yield one.id, _Move(node, given, device)


def _reads(nodes: list[ast.AST]) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _groups(source: Source, nodes: list[ast.AST]) -> Iterator[tuple[list[str], bool]]:
    """The names of one unpacked batch, or of what is made by the same calls in one block."""
    makers: dict[tuple[object, str], list[str]] = {}
    for node in nodes:
        target: ast.expr | None = None
        if isinstance(node, (ast.For, ast.AsyncFor)):
            target = node.target
            if isinstance(node.iter, ast.Call) and dotted(node.iter.func) == "enumerate":
                target = target.elts[-1] if isinstance(target, ast.Tuple) else None
            elif isinstance(node.iter, ast.Call) and dotted(node.iter.func) != "tqdm":
                target = None  # `zip`, `d.items()`: not of one batch
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
                made = _maker(source, node.value)
                if made:
                    makers.setdefault((source.parents[node], made), []).append(target.id)
            if not isinstance(node.value, ast.Name):
                target = None
        if isinstance(target, (ast.Tuple, ast.List)):
            names = [one.id for one in target.elts if isinstance(one, ast.Name)]
            if len(names) == len(target.elts) > 1:
                yield names, False
    for names in makers.values():
        if len(set(names)) > 1:
            yield list(dict.fromkeys(names)), True


def _maker(source: Source, call: ast.Call) -> str:
    """`Variable(from_numpy(_).long())`: the calls that make something of an array."""
    calls = [source.qualified(part.func) for part in walk(call) if isinstance(part, ast.Call)]
    if not any(name in _MAKERS for name in calls) or moved_to(call) is not None:
        return ""
    shape: list[str] = []
    node: ast.expr = call
    while isinstance(node, ast.Call):
        name = source.qualified(node.func)
        shape.append(name or getattr(node.func, "attr", ""))
        if name in _MAKERS:
            return ".".join(shape)
        if isinstance(node.func, ast.Attribute) and not name:
            node = node.func.value
        elif node.args:
            node = node.args[0]
        else:
            break
    return ""


def _touched(source: Source, name: str, nodes: list[ast.AST]) -> bool:
    """Is it moved, read on the host or asked where it is, in any way, or bound to something else?"""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in HOSTED and _root(node.value) == name:
            return True
        if isinstance(node, ast.Call):
            last = dotted(node.func).rpartition(".")[2].lower()
            words = (
                "device",
                "cuda",
                "numpy",
                "collate",
                "_to",
                "to_",
                "tensor",
                "prepare",
                "move",
                "variable",
            )
            if last in ("list", "len", "zip", "to") or any(word in last for word in words):
                if any(isinstance(one, ast.Name) and one.id == name for one in node.args):
                    return True
        if isinstance(node, (ast.For, ast.comprehension)) and _root(node.iter) == name:
            return True
        if isinstance(node, ast.Assign):
            mine = any(dotted(target) == name for target in node.targets)
            if mine and not any(isinstance(p, ast.Name) and p.id == name for p in walk(node.value)):
                if not (isinstance(node.value, ast.Call) and _maker(source, node.value)):
                    return True
            if mine and any(
                isinstance(p, ast.Attribute) and p.attr in ("to", "cuda", "new") for p in walk(node.value)
            ):
                return True
    return False


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _met(flow: Flow, name: str, moved: list[str], reads: list[ast.Name], alike: bool) -> ast.expr | None:
    """Where it meets what is on the device: in a loss, an operation, or, made alike, as arguments of one call."""
    source = flow.source
    for read in sorted(reads, key=lambda one: (one.lineno, one.col_offset)):
        if flow.value(read).place.where not in (Where.UNKNOWN, Where.OF) and not alike:
            return None  # flow knows better
        up = source.parents.get(read)
        if isinstance(up, (ast.BinOp, ast.Compare)):
            sides = [up.left, up.right] if isinstance(up, ast.BinOp) else [up.left, *up.comparators]
            if any(one is not read and there(flow, one) for one in sides):
                return read
        if not isinstance(up, ast.Call) or read not in up.args:
            continue
        path = dotted(up.func)
        beside = [one for one in up.args if one is not read]
        if compares(path):
            if any(there(flow, one) for one in beside[:1]):
                return read
        elif alike and (
            path == "self" or path.startswith("self.") or flow.value(up.func).kind is Kind.MODULE
        ):
            if any(isinstance(one, ast.Name) and one.id in moved for one in beside):
                return read
    return None


def compares(path: str) -> bool:
    """Is it the name of a loss, whose first two arguments must be in one place?"""
    last = path.rpartition(".")[2]
    return last in _LOSSES or looks_like_loss(path) or last in ("crit", "criteria", "ce", "mse", "bce")


def there(flow: Flow, node: ast.expr) -> bool:
    """Is it a tensor on a device, as far as flow knows?"""
    value = flow.value(node)
    return value.kind is Kind.TENSOR and value.place.on_device and value.form != "scalar"


def _renamed(value: ast.expr, old: str, new: str) -> ast.expr:
    """The move of one name, for another."""
    copy = ast.parse(ast.unparse(value), mode="eval").body
    for node in ast.walk(copy):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    return copy


# --- of one dict -------------------------------------------------------------------------------


def _entries(flow: Flow, scope: Scope, nodes: list[ast.AST]) -> Iterator[Hint]:
    """`model(**inputs)`: entries on the CPU beside entries on a device, or of a module that is there."""
    source = flow.source
    runs = {
        event.node: event.place
        for event in scope.events
        if event.what is What.USE and event.place is not None
    }
    done: set[str] = set()
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        for word in call.keywords:
            if word.arg is not None or not isinstance(word.value, ast.Name) or word.value.id in done:
                continue
            name = word.value.id
            made = _made(source, nodes, name)
            if not made:
                continue
            done.add(name)
            values = [(one, flow.value(one)) for one in made]
            place = runs.get(call)
            at = (
                place
                if place is not None and place.on_device
                else next((value.place for _, value in values if value.place.on_device), None)
            )
            device = at.text if at is not None else ""
            if not device or not _names_only(device):
                continue
            for one, value in values:
                if value.kind is Kind.TENSOR and value.sure and value.place.where is Where.DEFAULT:
                    if value.form == "scalar":
                        continue
                    yield Hint(
                        one,
                        f"this entry of `{name}` is on the CPU, while `{dotted(call.func) or 'what is called'}` "
                        f"gets the others on `{device}`",
                        f"move it to `{device}`",
                        (AppendCall(source.span(one), f".to({device})"),),
                        call,
                        "the entries arrive here",
                    )


def _names_only(device: str) -> bool:
    return all(part.isidentifier() for part in device.split(".")) or device.startswith('"')


def _made(source: Source, nodes: list[ast.AST], name: str) -> list[ast.expr]:
    """The entries of a dict of the function; none where it comes from somewhere else, or is moved as a whole."""
    found: list[ast.expr] = []
    for node in nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and dotted(target.value) == name:
            found.append(node.value)
        elif dotted(target) == name:
            if isinstance(node.value, ast.Dict):
                found += list(node.value.values)
            elif (
                isinstance(node.value, ast.Call) and dotted(node.value.func) == "dict" and not node.value.args
            ):
                found += [word.value for word in node.value.keywords]
            else:
                return []
    return found
