"""Processes of a distributed program: which GPU is whose."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator

from devfix.bindings import Bindings, function_around
from devfix.findings import (
    Edit,
    EnsureImport,
    InsertStatement,
    MoveStatement,
    Related,
    ReplaceExpression,
    Safety,
)
from devfix.flow import Flow
from devfix.flow.events import Event, What
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind, Place
from devfix.placing import bound_before
from devfix.remarks import Remark
from devfix.source import Source

# What sets a process's GPU, or leaves it but one.
_SET = re.compile(r"set_device\(|cuda\.device\(|CUDA_VISIBLE_DEVICES|device_id\s*=")
# A function of another file that may do so.
_SETS = re.compile(
    r"(?:init|setup|set_up|launch|spawn|prepare)\w{0,80}_?(?:dist|ddp|distributed|env|device|process)|"
    r"(?:dist|ddp|distributed)\w{0,80}_?(?:init|setup|env)",
    re.IGNORECASE,
)
_INDEX = re.compile(
    r"\.to\([^)\n]*rank|cuda:\{[^}\n]*rank|[\"']cuda[\"'],\s*\S*rank|\.cuda\([^)\n]*rank|device\s*=[^,\n]*rank"
)
# Something that goes to the current GPU.
_CUDA = re.compile(r"\.cuda\(\)|[\"']cuda[\"']|DistributedDataParallel\(|\bDDP\(|all_reduce\(|barrier\(")
_RANK = re.compile(r"rank|gpu", re.IGNORECASE)
_LOCAL = re.compile(r"local_?rank|(?:^|[._])gpu(?:_?id)?$|device_?(?:id|index)$", re.IGNORECASE)
_GLOBAL_CALLS = ("torch.distributed.get_rank", "torch.distributed.distributed_c10d.get_rank")
_OBJECTS = frozenset(
    f"torch.distributed.{name}"
    for name in ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list")
)


# --- torch.cuda.set_device -------------------------------------------------------------------


def without_set_device(flow: Flow, event: Event, call: ast.Call, place: Place) -> Iterator[Remark]:
    """`model.cuda()` of a DDP process that never says which GPU is its own."""
    source = flow.source
    ids = next((k.value for k in call.keywords if k.arg == "device_ids"), None)
    if not isinstance(ids, (ast.List, ast.Tuple)) or not ids.elts or _is_set(source, call):
        return
    first, path, move = ids.elts[0], path_of(ids.elts[0]), place.node
    if not _RANK.search(path):
        return
    if event.value.kind is Kind.MODULE and place.on_host and event.value.sure and not place.guarded:
        yield from _never_moved(flow, event, first)
        return
    if not isinstance(move, ast.Call) or place.guarded or not _without_index(move):
        return
    if function_around(source, move) is not function_around(source, call):
        return
    statement = source.statement(move)
    edits: tuple[Edit, ...] = ()
    if bound_before(source, first, statement) and "torch" in source.imports:
        edits = (InsertStatement(source.span(statement), f"torch.cuda.set_device({path})", before=True),)
    yield Remark(
        source.span(move),
        f"every process puts `{event.path}` on the first GPU: nothing sets the device of process `{path}`",
        f"call `torch.cuda.set_device({path})` first",
        edits,
        related=(Related(source.span(first), f"`{path}` is the GPU of this process"),),
    )


def _never_moved(flow: Flow, event: Event, first: ast.expr) -> Iterator[Remark]:
    """`DDP(model, device_ids=[rank])` of a model on the CPU, which nothing moves: it raises."""
    source, wrap = flow.source, flow.source.statement(event.node)
    scope = event.scope
    if any(e.what is What.MOVE and e.path == event.path for e in scope.events):
        return  # an affair of the order of statements
    path = path_of(first)
    if not event.path or not bound_before(source, ast.parse(event.path, mode="eval").body, wrap):
        return
    yield Remark(
        source.span(event.node),
        f"`{event.path}` is on the CPU, but DistributedDataParallel with `device_ids` wants it on `{path}`",
        f"move `{event.path}` to `{path}` first",
        (InsertStatement(source.span(wrap), f"{event.path}.to({path})", before=True),),
    )


def _is_set(source: Source, at: ast.AST | None = None) -> bool:
    """Does anything in the file, or a function that it imports, set the device of a process?

    What a class does about it concerns `at` only where that is in the same class or one related to it.
    """
    found = [match.start() for match in _SET.finditer(source.text)]
    if found and at is None:
        return True
    for start in found:
        line = bisect_right(source.line_starts, start)
        owner = next((c for c in _classes(source) if c.lineno <= line <= (c.end_lineno or 0)), None)
        if at is None or owner is None or _related(source, owner, at):
            return True
    return any(
        _SETS.search(local) and not what.startswith("torch.") for local, what in source.imports.items()
    )


def _classes(source: Source) -> list[ast.ClassDef]:
    return [node for node in source.definitions if isinstance(node, ast.ClassDef)]


def _related(source: Source, owner: ast.ClassDef, at: ast.AST) -> bool:
    """Is `at` outside of classes, or may an object of its class be one of `owner`, or the reverse?"""
    mine = source.enclosing(at, ast.ClassDef)
    if not isinstance(mine, ast.ClassDef):
        return True
    by_name = {node.name: node for node in _classes(source)}
    return mine.name in _ancestry(owner, by_name) or owner.name in _ancestry(mine, by_name)


def _ancestry(node: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> list[str]:
    names = [node.name]
    for name in names:
        for base in by_name[name].bases if name in by_name else ():
            last = path_of(base).rpartition(".")[2]
            if last and last not in names:
                names.append(last)
    return names


def _without_index(move: ast.Call) -> bool:
    if not isinstance(move.func, ast.Attribute):
        return False
    if move.func.attr == "cuda":
        return not move.args and not move.keywords
    return move.func.attr == "to" and [ast.unparse(one) for one in move.args] == ["'cuda'"]


def objects(flow: Flow) -> Iterator[Remark]:
    """`all_gather_object` by NCCL, which goes over the current GPU: that of every process is the first."""
    source = flow.source
    if not any(_starts_nccl(call) for call in source.calls):
        return
    for call in source.calls:
        if source.qualified(call.func) in _OBJECTS and all(k.arg != "group" for k in call.keywords):
            if _is_set(source, call):
                continue
            rank = _own_rank(source, call)
            statement = source.statement(call)
            edits: tuple[Edit, ...] = ()
            if rank and "torch" in source.imports:
                edits = (
                    InsertStatement(source.span(statement), f"torch.cuda.set_device({rank})", before=True),
                )
            yield Remark(
                source.span(call),
                f"`{source.code(call.func)}` goes over the current GPU, and nothing sets that of a process: "
                "call `torch.cuda.set_device` first",
                f"call `torch.cuda.set_device({rank})`" if rank else "",
                edits,
            )
            return


def _own_rank(source: Source, at: ast.AST) -> str:
    """`self.local_rank`, where the class of a call, or a base in the file, stores it."""
    mine = source.enclosing(at, ast.ClassDef)
    if not isinstance(mine, ast.ClassDef):
        return ""
    by_name = {node.name: node for node in _classes(source)}
    for name in _ancestry(mine, by_name):
        for node in source.walk(by_name[name]) if name in by_name else ():
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                if re.fullmatch(r"self\._?local_?rank", path_of(node)):
                    return path_of(node)
    return ""


def _starts_nccl(call: ast.Call) -> bool:
    """`init_process_group("nccl")`"""
    if not path_of(call.func).endswith("init_process_group"):
        return False
    return any(ast.unparse(one) == "'nccl'" for one in (*call.args[:1], *(k.value for k in call.keywords)))


def initialised(flow: Flow) -> Iterator[Remark]:
    """A process joins a group of NCCL and knows its `local_rank`, but uses the current GPU: the first."""
    source = flow.source
    if _is_set(source) or "__main__" not in source.text or not _CUDA.search(source.text):
        return  # a helper of a program: the program itself may set it
    for call in source.calls:
        function = function_around(source, call)
        if function is None or not _starts_nccl(call) or _INDEX.search(source.code(function)):
            continue
        statement = source.statement(call)
        ranks = [
            node
            for node in source.walk(function)
            if isinstance(node, (ast.Name, ast.Attribute))
            and re.search(r"(?:^|\.)local_?rank$", path_of(node))
            and isinstance(node.ctx, ast.Load)
        ]
        if not ranks:
            continue
        path = path_of(min(ranks, key=lambda node: (node.lineno, node.col_offset)))
        edits: tuple[Edit, ...] = ()
        known = bound_before(source, ast.parse(path, mode="eval").body, statement)
        if known and isinstance(statement, ast.Expr) and "torch" in source.imports:
            edits = (InsertStatement(source.span(statement), f"torch.cuda.set_device({path})"),)
        yield Remark(
            source.span(call),
            f"NCCL goes over the current GPU, and nothing sets that of process `{path}`: it is the first one",
            f"call `torch.cuda.set_device({path})`",
            edits,
        )
        return


def set_late(flow: Flow) -> Iterator[Remark]:
    """`torch.cuda.set_device(rank)` below `.cuda()`: what came first is on the first GPU."""
    source = flow.source
    for call in source.calls:
        if source.qualified(call.func) != "torch.cuda.set_device" or not call.args:
            continue
        function = function_around(source, call)
        if function is None or isinstance(call.args[0], ast.Constant):
            continue
        for event in flow.events(What.MOVE):
            move = event.node
            if event.scope.node is not function or event.via or not isinstance(move, ast.Call):
                continue
            statement = source.statement(move)
            if not _without_index(move) or statement not in source.block(source.statement(call)):
                continue
            if source.span(move).end <= source.span(call).start:
                yield Remark(
                    source.span(call),
                    f"`{source.code(move)}` stands above `{source.code(call)}`, "
                    "so it is on the first GPU in every process",
                    "set the device first",
                    _first(source, call, statement),
                    related=(Related(source.span(move), "moved here already"),),
                )
                break


def _first(source: Source, call: ast.Call, before: ast.stmt) -> tuple[Edit, ...]:
    """The call put above a statement of its block."""
    statement, block = source.statement(call), source.block(before)
    index = block.index(before)
    if not isinstance(statement, ast.Expr) or index == 0 or not bound_before(source, call, before):
        return ()
    return (MoveStatement(source.span(statement), source.span(block[index - 1])),)


# --- ranks -----------------------------------------------------------------------------------


def global_ranks(flow: Flow) -> Iterator[Remark]:
    """The rank among all processes, taken for the number of a GPU of this machine."""
    source = flow.source
    text = source.text
    if "device_count()" in text or "mp.spawn" in text or "multiprocessing" in text:
        return  # one process per GPU of one machine
    bindings: Bindings | None = None
    local = "LOCAL_RANK" in text or "local_rank" in text
    for node in _indexes(source):
        value: ast.expr | None = node
        named = isinstance(node, ast.Name)
        if isinstance(node, ast.Name):
            bindings = bindings or Bindings(source)
            value = _global_value(source, bindings, node)
            if value is None or not (local or _LOCAL.search(node.id)):
                continue
        if value is None or not _is_global(source, value):
            continue
        if not named and not local:
            continue
        code = source.code(value)
        at = value if isinstance(node, ast.Name) and _LOCAL.search(node.id) else node
        edits: tuple[Edit, ...] = ()
        if "\n" not in code and not isinstance(source.parents[at], ast.FormattedValue):
            new = f'int(os.environ.get("LOCAL_RANK", {source.code(at)}))'
            edits = (ReplaceExpression(source.span(at), new), EnsureImport("os"))
        yield Remark(
            source.span(value if named else node),
            f"`{code}` counts the processes of all machines, and is used as the number of a GPU of this one",
            "use `LOCAL_RANK`",
            edits,
            Safety.UNSAFE,
            (Related(source.span(node), "used as a number here"),) if named else (),
        )
        return


def _indexes(source: Source) -> Iterator[ast.expr]:
    """Expressions that are the number of a GPU, in the order of the text."""
    found: list[ast.expr] = []
    for node in source.walk():
        if isinstance(node, ast.JoinedStr) and len(node.values) == 2:
            head, tail = node.values
            if (
                isinstance(head, ast.Constant)
                and head.value == "cuda:"
                and isinstance(tail, ast.FormattedValue)
            ):
                found.append(tail.value)
        elif isinstance(node, ast.Call):
            name = source.qualified(node.func)
            if name == "torch.cuda.set_device" and node.args:
                found.append(node.args[0])
            elif name == "torch.device" and len(node.args) == 2 and ast.unparse(node.args[0]) == "'cuda'":
                found.append(node.args[1])
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "cuda" and len(node.args) == 1:
                found.append(node.args[0])
            for keyword in node.keywords:
                ids = keyword.value
                if keyword.arg == "device_ids" and isinstance(ids, ast.List) and len(ids.elts) == 1:
                    found.append(ids.elts[0])
    return iter(sorted(found, key=lambda one: (one.lineno, one.col_offset)))


def _global_value(source: Source, bindings: Bindings, name: ast.Name) -> ast.expr | None:
    """The binding of a name that makes it the global rank; another may be `LOCAL_RANK`."""
    scope = function_around(source, name) or source.tree
    found = bindings.within(scope, name.id)
    if any(binding.parameter for binding in found):
        return None
    values = [binding.value for binding in found if binding.value is not None]
    if len(values) > 1 and not _LOCAL.search(name.id):
        return None
    return next((value for value in values if _is_global(source, value)), None)


def _is_global(source: Source, value: ast.expr) -> bool:
    """`dist.get_rank()`, `int(os.environ["RANK"])`"""
    if not isinstance(value, ast.Call):
        return False
    name = source.qualified(value.func)
    if name in _GLOBAL_CALLS:
        return True
    if path_of(value.func) == "int" and len(value.args) == 1:
        text = ast.unparse(value.args[0])
        return text in ("os.environ['RANK']", "os.getenv('RANK')") or text.startswith(
            ("os.environ.get('RANK'", "os.getenv('RANK',")
        )
    return False
