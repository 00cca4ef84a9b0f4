"""Places that name CUDA, of which no device is known: where a program may do without CUDA, they are told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from devfix.checkers.literal_guards import Told, guard_of, is_for_cuda
from devfix.checkers.literal_programs import Program, Verdict, is_script
from devfix.engine.files import File
from devfix.engine.named import Named
from devfix.engine.transfer.elements import ANYWHERE
from devfix.engine.values import PLACED
from devfix.findings import ReplaceExpression, Safety
from devfix.repair.without_cuda import at_name
from devfix.text.names import path_of
from devfix.text.source import FUNCTIONS, Source

_ACCELERATOR = re.compile(r"cuda(?::(?P<number>\d+))?$|(?P<mps>mps)(?::0)?$")
_CURRENT = "torch.cuda.current_device"
_MANY = 5  # places that name CUDA: the file is written for it; one more, if it tells devices apart somewhere
_ALONE = "goes to the current GPU, wherever the caller's tensors are, and raises without CUDA; no other device is known"


def are_many(program: Program, left: list[Named]) -> bool:
    """Are these places so many that the file is written for CUDA, and nothing is said of them?"""
    return len(left) >= (_MANY + 1 if program.is_agnostic else _MANY)


def unplaced(program: Program, left: list[Named]) -> Iterator[Verdict]:
    """Places that no device is known for (`left`, and the current GPU's number), where there may be no CUDA."""
    source = program.source
    yield from _only_choice(program, left)
    if are_many(program, left):
        return
    asked = [node for node in source.of_kind(ast.Call) if source.qualified(node.func) == _CURRENT]
    places: list[tuple[ast.expr, ast.expr]] = [
        *((one.node, one.literal) for one in left if one.value.role not in ANYWHERE),
        *((node, node) for node in asked if not _is_chosen(source, node)),
    ]
    moved = {one.node: one.value.kind in PLACED for one in left if one.form in ("cuda", "legacy")}
    for place, literal in places:
        if _is_parallel(source, place):
            continue
        if program.may_lack_cuda(place) and not (program.needs_cuda(place) or program.is_sent(place)):
            edits = at_name(source, place, literal) if moved.get(place, True) else ()
            safety = Safety.UNSAFE if edits else Safety.MANUAL
            title = "use CUDA only if it is available" if edits else ""
            yield Verdict(source.span(place), source.code(place), "", _ALONE, edits, safety, title=title)


def _is_parallel(source: Source, node: ast.expr) -> bool:
    """`if parallel: net = DataParallel(net).cuda()`: who asks for several GPUs has one."""
    inner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
    made = isinstance(inner, ast.Call) and path_of(inner.func).endswith("DataParallel")
    return made and source.enclosing(node, ast.If) is not None


def _is_chosen(source: Source, node: ast.Call) -> bool:
    """Is it asked for on some ways through its function only, such as where there is CUDA; or for CUDA alone?"""
    for up in source.ancestors(node):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, (ast.If, ast.IfExp, ast.BoolOp, ast.Try)):
            return True
    return is_for_cuda(source, node) or guard_of(source, node).told is not Told.NOTHING


def _only_choice(program: Program, left: list[Named]) -> Iterator[Verdict]:
    """`device = "cuda"` in a script that asks for no accelerator elsewhere: one word keeps it from running without."""
    source, file = program.source, program.analysis.file
    if left or not is_script(source.text) or program.flow.project.needs_cuda() is True:
        return
    places = [one for one in _devices_given(file) if one not in program.analysis.named.calls]
    if len(places) != 1 or guard_of(source, places[0]).told is not Told.NOTHING:
        return
    (node,) = places
    if _is_asked_below(source, node) or any(
        _ACCELERATOR.match(_device_text(file, one.body)) for one in source.of_kind(ast.IfExp)
    ):
        return  # `"cuda" if torch.cuda.is_available() else "cpu"`, and the device of that key in a table
    if program.needs_cuda(node, in_view=True) or program.flow.project.uses_cuda():
        return
    if any(program.raises(one) and one is not node for one in source.of_kind(ast.Call)):
        return
    lists = [one for one in source.of_kind(ast.List) if isinstance(source.parents[one], ast.Assign)]
    if any(_ACCELERATOR.match(_device_text(file, one)) for each in lists for one in each.elts):
        return  # `DEVICES = ["cuda:0"]`
    inner = node.args[0] if isinstance(node, ast.Call) and node.args else node
    asked = _ACCELERATOR.match(_device_text(file, node))
    name, test = ("MPS", "backends.mps.is_available()") if asked and asked["mps"] else ("CUDA", "")
    number = int(asked["number"] or 0) if asked else 0
    test = test or (f"cuda.device_count() > {number}" if number else "cuda.is_available()")
    torch = source.local_name("torch")
    there = f"{number + 1} GPUs" if number else name
    edits = (ReplaceExpression(source.span(inner), f'{source.code(inner)} if {torch}.{test} else "cpu"'),)
    why = f"is the only place of this script that asks for {name}, and raises without {there if number else 'it'}"
    title = f"use {name} only if it is available"
    yield Verdict(
        source.span(node),
        source.code(node),
        "",
        why,
        edits if torch else (),
        Safety.UNSAFE,
        title=title,
        assumes=f"the program should run without {there}, too",
    )


def _is_asked_below(source: Source, node: ast.expr) -> bool:
    """`device = torch.device("cuda")`, where each `.to(device)` is under a condition that there is CUDA?

    Who makes a device puts nothing there; and what functions get it asks as well, as it is handed the answer, too.
    """
    up = source.parents[node]
    target = up.targets[0] if isinstance(up, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return False
    read = [one for one in source.names().get(target.id, ()) if isinstance(one.ctx, ast.Load)]
    moved = [one for one in read if _is_of_move(source, one)]
    return bool(moved) and all(guard_of(source, one).told in (Told.AVAILABLE, Told.CHOSEN) for one in moved)


def _is_of_move(source: Source, node: ast.Name) -> bool:
    """Is a name all that `x.to(..)` is given?"""
    call = source.parents[node]
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "to"


def _devices_given(file: File) -> Iterator[ast.expr]:
    """`device = "cuda"`, `load(path, device="cuda")`, and the number of the current GPU under a name.

    No default of a command line.
    """
    for node in file.source.of_kind(ast.Assign):
        if len(node.targets) == 1 and path_of(node.targets[0]).lower().endswith("device"):
            if _ACCELERATOR.match(_device_text(file, node.value)) and _is_read(file, node.targets[0]):
                yield node.value
    for call in file.source.of_kind(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "set_defaults"):
            continue
        for one in call.keywords:
            if one.arg == "device" and _ACCELERATOR.match(_device_text(file, one.value)):
                yield one.value
        if file.source.qualified(call.func) == _CURRENT and isinstance(file.source.parents[call], ast.Assign):
            yield call


def _is_read(file: File, target: ast.expr) -> bool:
    """Is what is bound ever read? To name a device puts nothing there."""
    loads = file.source.names().get(target.id, ()) if isinstance(target, ast.Name) else ()
    return not isinstance(target, ast.Name) or any(isinstance(one.ctx, ast.Load) for one in loads)


def _device_text(file: File, node: ast.expr) -> str:
    """The text of a device that is written as one, or as the number of a GPU in `torch.device(0)`."""
    if (
        isinstance(node, ast.Call)
        and file.source.qualified(node.func) == "torch.device"
        and len(node.args) == 1
    ):
        inner = node.args[0]
        if isinstance(inner, ast.Constant) and type(inner.value) is int and not node.keywords:
            return f"cuda:{inner.value}"
        return "" if node.keywords else _device_text(file, inner)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
