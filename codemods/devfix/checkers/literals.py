"""Each place that names CUDA with the device that belongs there, and how sure that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from devfix.checkers.literal_guards import (
    Guard,
    Told,
    guard_of,
    is_kept,
    is_of_tensor,
    moved_above,
    moves_alone,
    needs_cuda,
)
from devfix.checkers.literal_places import Known, chosen, in_scope, met_by, sized_by
from devfix.checkers.literal_programs import (
    Cure,
    Program,
    Scope,
    Verdict,
    grouped,
    position,
)
from devfix.checkers.literal_unplaced import are_many, unplaced
from devfix.engine.files import Function
from devfix.engine.named import Named
from devfix.engine.stores import buffers_of
from devfix.engine.values import MODULE, PLACED, TENSOR
from devfix.findings import DeleteStatement, Edit, Elsewhere, InsertStatement, ReplaceExpression, Safety, Span
from devfix.flow import Flow
from devfix.models.torch_api import ACCELERATOR_SINCE, DEFAULT_DEVICE_CALLS
from devfix.repair.literals import as_buffer, at_its_place, declared, imported, moved, named_constants
from devfix.text.bindings import bound
from devfix.text.names import path_of, stores

# Without one of these there is nothing to find.
_SOMETHING = re.compile(
    r"\.cuda\(|cuda\.current_device\(|cuda\.\w*Tensor\b|[\"'](?:cuda(?::\d+)?|mps)[\"']|torch\.device\(\d"
)
# A constructor of CUDA tensors, under another name; and what refuses what is not on CUDA.
_LEGACY = re.compile(r"\btorch\.cuda\.\w*Tensor\b(?!\s+if\b)")
_INSISTS = re.compile(r"isinstance\([^)\n]{0,300}\bcuda\.\w{0,99}Tensor\)")


def verdicts(flow: Flow, rest: bool = False, declare: str = "no", module: str = "") -> Iterator[Verdict]:
    """What can be said of the places of a file that name CUDA.

    `rest` adds those for which no device is known; `declare` ("cuda", "accelerator") the fix that
    declares one for all of them, and `module` the one that imports it from the file of that path.
    """
    source, text = flow.source, flow.source.text
    if not module and not _SOMETHING.search(text):
        return
    analysis = flow.facts()
    for node, known in chosen(analysis):
        why = f"goes to CUDA wherever there is CUDA, even if {known.what} on another device"
        span = source.span(node)
        edit = ReplaceExpression(span, known.text)
        yield Verdict(span, source.code(node), known.text, why, (edit,), Safety.UNSAFE)
    groups = grouped(analysis)
    if groups is None:
        return
    program = Program(flow)
    yield from _defaults(flow)
    left: list[Named] = []
    judged: list[tuple[Scope, list[Verdict]]] = []
    bound: set[ast.AST] = set()  # functions and classes that go on needing CUDA
    for function, sites in groups.items():
        judge = _Judge(program, function, sites)
        judged.append((function, list(judge.verdicts())))
        left.extend(judge.left)
        if judge.left or (_around(flow, function) and _LEGACY.search(source.code(function))):
            bound.update(_around(flow, function) or (function,))
    left.sort(key=position)
    yield from _weighed(program, judged, left, bound, rest)
    if module or declare != "no":
        how = "cuda" if declare == "no" else declare
        file = analysis.file
        found = imported(file, left, module, how) if module else declared(file, left, how)
        if found[0]:
            old = flow.project.torch_before(ACCELERATOR_SINCE) if how == "accelerator" else ""
            yield _of_all(flow, (found[0], "", (), ()) if old else found, module, old)
    elif rest:
        for place in (*(one.node for one in left), *named_constants(analysis.file)):
            why = "is hard-coded, and no other device is known"
            yield Verdict(source.span(place), source.code(place), "", why, (), Safety.MANUAL)
    else:
        yield from unplaced(program, left)


def _weighed(
    program: Program,
    judged: list[tuple[Scope, list[Verdict]]],
    left: list[Named],
    bound: set[ast.AST],
    rest: bool,
) -> Iterator[Verdict]:
    """With the safety that the file and the project leave."""
    flow, text = program.flow, program.source.text
    every = [(function, verdict) for function, found in judged for verdict in found]
    everywhere = any(call in text for call in DEFAULT_DEVICE_CALLS) or _INSISTS.search(text) is not None
    everywhere |= any(one.safety is Safety.SAFE for _, one in every) and flow.project.sets_default()
    # Where other functions need CUDA, and no device is known at all, what they give each other is on CUDA.
    cuda = bool(left) and not program.is_agnostic
    unsaid = [one.node for one in left] if are_many(program, left) else []
    settled: list[tuple[Scope, Verdict]] = []
    for function, verdict in every:
        own = _around(flow, function) or (function,)
        stuck = everywhere or (cuda and not program.is_run(function)) or not bound.isdisjoint(own)
        if stuck and not verdict.told:
            verdict = replace(verdict, safety=min(verdict.safety, Safety.UNSAFE))
        settled.append((function, verdict))
    program.mended = {site for _, one in settled if one.safety is Safety.SAFE for site in one.sites}
    for function, verdict in settled:
        if verdict.safety is Safety.SAFE and not program.is_worth(verdict, function):
            verdict = replace(verdict, safety=Safety.UNSAFE)
        useless = program.is_on_cuda(function) or program.is_behind(verdict, function, unsaid)
        useless = useless or not (verdict.scoped or verdict.told or not program.needs_cuda(function))
        if rest or verdict.safety is Safety.SAFE or not useless:
            yield verdict


def _of_all(
    flow: Flow,
    found: tuple[list[ast.expr], str, tuple[Edit, ...], tuple[Elsewhere, ...]],
    module: str,
    old: str,
) -> Verdict:
    """One finding for all places of a file; `old`: the requirement that excludes what would be written."""
    nodes, name, edits, elsewhere = found
    first, count = min(nodes, key=lambda node: (node.lineno, node.col_offset)), len(nodes) - 1
    others = {0: "", 1: ", as is one other place"}.get(count, f", as are {count} other places")
    if module:
        others = others.replace(" is ", " does ").replace(" are ", " do ")
    why, title = f"is hard-coded{others}", "declare the device once"
    if module:
        why = (
            f"chooses a device of its own{others}, instead of the one that `{module}` chooses for the program"
        )
        title = f"import the device of `{module}`"
    if old:
        why += f"; `torch.accelerator` needs torch 2.6, and the project asks for `{old}`"
    span, code = flow.source.span(first), flow.source.code(first)
    return Verdict(span, code, name, why, edits, Safety.UNSAFE, None, title, elsewhere)


def _around(flow: Flow, function: Scope) -> tuple[ast.AST, ...]:
    """A function and its class; nothing for a script."""
    if isinstance(function, ast.Module):
        return ()
    owner = flow.source.enclosing(function, ast.ClassDef)
    return (function,) if owner is None else (function, owner)


def _defaults(flow: Flow) -> Iterator[Verdict]:
    """`def f(x, device="cuda")` that makes something with `device` to meet `x`."""
    analysis, source = flow.facts(), flow.source
    for place, one in analysis.named.places.items():
        key = place.key
        if one.form != "default" or not isinstance(key, tuple) or not one.meets:
            continue
        function, name = one.meets[0].function, str(key[2])
        if function is None or id(function.node) != key[1] or stores(source, function.node, name):
            continue
        known = met_by(one, analysis)
        tensor = known.text.partition(".")[0] if known is not None else ""
        if known is None or known.is_module or tensor == name or tensor not in function.positional:
            continue
        first = function.node.body[0]
        if ast.get_docstring(function.node) is not None and len(function.node.body) > 1:
            first = function.node.body[1]
        line = f"{name} = {known.text} if {name} is None else {name}"
        span = source.span(one.node)
        edits = (ReplaceExpression(span, "None"), InsertStatement(source.span(first), line, before=True))
        why = f"is the default of `{name}`; tensors made on it are combined with `{known.what}`, which may be elsewhere"
        yield Verdict(span, source.code(one.node), known.text, why, edits, Safety.MANUAL, one.meets[0].node)


class _Judge:
    """The places of one function."""

    def __init__(self, program: Program, function: Scope, sites: list[Named]) -> None:
        self.program, self.function, self.sites = program, function, sites
        self.source, self.analysis = program.source, program.analysis
        self.left: list[Named] = []  # of which nothing is known

    def verdicts(self) -> Iterator[Verdict]:
        done: set[ast.AST] = set()
        for site in self.sites:
            guard = guard_of(self.source, site.node)
            if guard.told is Told.SAME and guard.node is not None and is_of_tensor(guard, self.analysis):
                if guard.node not in done:
                    done.add(guard.node)
                    yield from self._same(guard)
                continue
            if guard.told in (Told.CHOSEN, Told.SAME):
                flag = isinstance(guard.node, ast.If) and not guard.node.orelse and guard.alone
                found = self._flagged(site) if flag else None
                if found is not None:
                    yield found
                continue
            found = self._again(site)
            if found is None and guard.told is Told.AVAILABLE:
                if guard.node is not None and guard.node not in done:
                    done.add(guard.node)
                    found = self._available(guard)
            elif found is None:
                found = self._plain(site) or self._buffer(site)
                if found is None:
                    self.left.append(site)
            if found is not None:
                under = self._under(guard) if guard.told is Told.AVAILABLE else [site]
                yield replace(found, sites=tuple(one.node for one in under))

    # --- conditions ------------------------------------------------------------------------

    def _under(self, guard: Guard) -> list[Named]:
        assert guard.node is not None
        inside = self.source.span(guard.node)
        return [s for s in self.sites if inside.start <= self.source.span(s.node).start < inside.end]

    def _same(self, guard: Guard) -> Iterator[Verdict]:
        """`if x.is_cuda: y = y.cuda()`: the GPU of x is meant, whichever that is."""
        sites = [s for s in self._under(guard) if guard_of(self.source, s.node).node is guard.node]
        sites = [s for s in sites if is_kept(self.source, guard, s.node) and self._receiver(s) != guard.path]
        if not sites:
            return
        other = guard.path if guard.path == "self.device" else guard.path.removesuffix(".device")
        why = f"goes to the current GPU, but is used with `{other}`, which may be on another GPU"
        known, above = in_scope(sites[0], self.analysis), moved_above(self.analysis, guard)
        if above or (known is not None and known.sure and known.text == guard.device):
            return  # `device = "cuda" if is_available() else "cpu"`: that is the current GPU
        sure = above is not None and self._is_of_value(guard)
        sure = sure and not self.program.is_current_only(self.function)
        if self.program.has_one_gpu(self.function):
            return
        whole = self._whole(guard, sites, guard.device)
        if whole is not None:
            span, edits = whole
            safety = Safety.SAFE if sure and all(self._has_to(site) for site in sites) else Safety.UNSAFE
            code = self.source.code(sites[0].node)
            yield Verdict(span, code, guard.device, why, edits, safety, told=True, cure=Cure.OTHER)
            return
        for site in sites:
            found = self._verdict(site, Known(guard.device, "", sure), why)
            yield replace(found, told=True, cure=Cure.OTHER)

    def _is_of_value(self, guard: Guard) -> bool:
        """Is a condition about where a tensor or module is, and not about a choice made for all of them?"""
        asked = guard.asked
        if not isinstance(asked, ast.Attribute) or asked.attr not in ("is_cuda", "device"):
            return False
        return asked.attr == "is_cuda" or not path_of(asked) or guard.value(self.analysis).kind in PLACED

    def _has_to(self, site: Named) -> bool:
        """Is what is moved a tensor or module beyond doubt? Other things may have `cuda()` and no `to()`."""
        return site.form != "cuda" or site.receiver is None or site.value.kind in (TENSOR, MODULE)

    def _receiver(self, site: Named) -> str:
        return path_of(site.receiver) if site.receiver is not None else ""

    def _whole(self, guard: Guard, sites: list[Named], device: str) -> tuple[Span, tuple[Edit, ...]] | None:
        """The condition and its moves as plain moves, where they are moves of tensors and nothing else."""
        node = guard.node
        assert node is not None
        if any(site.receiver is None or site.value.kind == MODULE for site in sites):
            return None
        span = self.source.span(node)
        if isinstance(node, ast.IfExp):
            site = sites[0]
            plain = guard.alone and len(sites) == 1 and site.node is node.body and path_of(node.orelse)
            if plain and site.receiver is not None and path_of(node.orelse) == path_of(site.receiver):
                return span, (ReplaceExpression(span, f"{self.source.code(site.receiver)}.to({device})"),)
            return None
        pairs = moves_alone(self.source, guard, sites)
        if pairs is None:
            return None
        text = "\n".join(f"{path} = {moved(self.source, site, device)}" for path, site in pairs)
        return span, (InsertStatement(span, text, before=True), DeleteStatement(span))

    def _available(self, guard: Guard) -> Verdict | None:
        """`if torch.cuda.is_available(): y = y.cuda()` of a value that belongs somewhere known."""
        sites = self._under(guard)
        found: list[tuple[str, str]] = []
        for site in sites:
            met = met_by(site, self.analysis)
            if met is not None and not met.is_module:
                found.append((met.text, self._meets(met)))
                continue
            known = in_scope(site, self.analysis)
            if known is None or known.sure:
                return None
            found.append((known.text, f"goes to CUDA even if {known.what} is another device"))
        if len({device for device, _ in found}) != 1:
            return None
        device, why = found[0]
        whole = self._whole(guard, sites, device)
        code = self.source.code(sites[0].node)
        if whole is None:
            return None
        return Verdict(whole[0], code, device, why, whole[1], Safety.UNSAFE, scoped=True)

    def _flagged(self, site: Named) -> Verdict | None:
        """`if use_cuda: y = y.cuda()` of what meets a tensor of the caller: on its GPU, not on the current one."""
        met = met_by(site, self.analysis)
        made = self.analysis.file.of_node.get(self.function)
        root = met.text.partition(".")[0] if met is not None else ""
        if met is None or not isinstance(made, Function) or root not in {one.arg for one in made.parameters}:
            return None
        if self.program.has_one_gpu(self.function):
            return None
        return self._verdict(site, replace(met, sure=False), self._meets(met))

    # --- without a condition ---------------------------------------------------------------

    def _again(self, site: Named) -> Verdict | None:
        """`x.cuda().type_as(y)`: moved on at once."""
        parent = self.source.parents.get(site.node)
        if site.form != "cuda" or not isinstance(parent, ast.Attribute) or site.receiver is None:
            return None
        call = self.source.parents.get(parent)
        if not isinstance(call, ast.Call) or call.func is not parent or len(call.args) != 1 or call.keywords:
            return None
        target = call.args[0]
        is_device = isinstance(target, ast.Attribute) and target.attr == "device"
        if parent.attr != "type_as" and not (parent.attr == "to" and is_device):
            return None
        span, whole = self.source.span(site.node), self.source.code(site.node)
        text = whole[: whole.rindex(".cuda")].rstrip()
        why = f"raises without CUDA, and is redundant: `.{parent.attr}({self.source.code(target)})` moves the result"
        return Verdict(span, whole, "", why, (ReplaceExpression(span, text),), Safety.SAFE)

    def _plain(self, site: Named) -> Verdict | None:
        program = self.program
        is_script = isinstance(self.function, ast.Module) or not (program.is_agnostic or program.is_open)
        met = None if is_script else met_by(site, self.analysis)
        if met is None or not met.sure:
            # In a script only the variable that it declares for the purpose counts.
            known = in_scope(site, self.analysis) if program.is_agnostic or not is_script else None
            if known is not None and (known.sure or met is None or met.is_module):
                why = f"goes to CUDA even if {known.what} is another device"
                return replace(self._verdict(site, known, why), scoped=True)
            met = met or (None if is_script else sized_by(site, self.analysis))
        if met is None or not (met.sure or program.is_agnostic or (program.is_given and met.given)):
            return None
        found = self._verdict(site, met, self._meets(met))
        return replace(found, cure=Cure.ABSENT | Cure.OTHER)

    def _buffer(self, site: Named) -> Verdict | None:
        """`self.table = make().cuda()` in the `__init__` of a module: a buffer moves along with the module."""
        source, analysis, call = self.source, self.analysis, site.node
        statement, made = source.parents[call], analysis.file.of_node.get(self.function)
        owner = made.owner if isinstance(made, Function) and made.name == "__init__" else None
        if owner is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        path = path_of(statement.targets[0])
        if (
            site.form not in ("cuda", "to")
            or not analysis.classes.is_module(owner)
            or site.value.kind != TENSOR
        ):
            return None
        assert isinstance(call, ast.Call)
        if len(call.args) + len(call.keywords) > (site.form == "to"):
            return None  # a dtype goes along
        if not path.startswith("self.") or path.count(".") != 1:
            return None
        if len(bound(source, path, owner.node.body[0])) != 1 or path[5:] in buffers_of(source, owner.node):
            return None
        reads = [one for one in source.of_kind(ast.Attribute, owner.node) if path_of(one) == path]
        reads = [one for one in reads if isinstance(one.ctx, ast.Load)]
        start = source.span(statement).start
        inits = [one for one in source.of_kind(ast.Attribute, self.function) if one.attr == "__init__"]
        if not reads or not any(source.span(one).start < start for one in inits):
            return None
        name, edits = as_buffer(site, analysis)
        why = "stays on CUDA even if the module that it belongs to is moved elsewhere"
        title = f"make `{path}` a buffer of the module"
        if not name:
            why = "is no longer a parameter: its copy on CUDA is a plain tensor, which `.to(device)` leaves there"
            title = "leave the move to the module"
        unless, span, code = "it should move with the module", source.span(statement), source.code(call)
        return Verdict(span, code, "", why, edits, Safety.UNSAFE, reads[0], title, assumes=unless)

    def _meets(self, met: Known) -> str:
        return f"goes to CUDA, but is used with `{met.what}`, which may be on another device"

    def _verdict(self, site: Named, known: Known, why: str) -> Verdict:
        edits, exact = at_its_place(self.source, site, known.text)
        safe = known.sure and exact and self._has_to(site) and not needs_cuda(self.source, site.node)
        safety = Safety.SAFE if safe else Safety.UNSAFE
        span, code = self.source.span(site.node), self.source.code(site.node)
        return Verdict(span, code, known.text, why, edits, safety, known.node)
