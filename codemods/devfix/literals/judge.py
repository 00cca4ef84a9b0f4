"""Each hard-coded accelerator of a file with the device that belongs there, and how sure that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from devfix.findings import DeleteStatement, Edit, InsertStatement, ReplaceExpression, Safety, Span
from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.callers import of_callers
from devfix.literals.chosen import chosen
from devfix.literals.extras import buffer, declared, defaults, named_constants
from devfix.literals.gates import Gate
from devfix.literals.groups import grouped, place
from devfix.literals.guards import Guard, Told, guard_of, kept, moves_alone
from devfix.literals.owner import owned
from devfix.literals.partners import FunctionNode, Partner, Partners
from devfix.literals.scope import Devices
from devfix.literals.shown import current_only, moved_above, of_a_value, runs
from devfix.literals.sites import Site, edits_for, moved
from devfix.literals.verdict import Cure, Verdict
from devfix.literals.worth import Worth, top_of

# Without one of these there is nothing to find.
_SOMETHING = re.compile(r"\.cuda\(|cuda\.current_device\(|cuda\.\w*Tensor\b|[\"']cuda(?::0)?[\"'](?!\s+if\b)")
_DEFAULT = re.compile(r"=\s*(?:torch\.device\()?[\"']cuda(?::0)?[\"']\)?\s*[,)]")
# A constructor of CUDA tensors, under another name.
_LEGACY = re.compile(r"\btorch\.cuda\.\w*Tensor\b(?!\s+if\b)")
# Refuses what is not on CUDA.
_INSISTS = re.compile(r"isinstance\([^)\n]{0,300}\bcuda\.\w{0,99}Tensor\)")


def verdicts(flow: Flow, rest: bool = False, declare: str = "no", module: str = "") -> Iterator[Verdict]:
    """What can be said of the hard-coded accelerators of a file.

    `rest` adds those for which no device is known; `declare` ("cuda", "accelerator") the fix that
    declares one for all of them, and `module` the one that imports it from the file of that path.
    """
    text = flow.source.text
    if "cuda.is_available()" in text and "class " in text:
        yield from chosen(flow)
    if not module and ("cuda" not in text or not _SOMETHING.search(text)):
        return
    groups = grouped(flow)
    if groups is None:
        return
    devices, gate = Devices(flow), Gate(flow)
    if _DEFAULT.search(text):
        yield from defaults(flow)
    left: list[Site] = []
    judged: list[tuple[FunctionNode | ast.Module, list[Verdict]]] = []
    bound: set[ast.AST] = set()  # functions and classes that go on needing CUDA
    for function, sites in groups.items():
        judge = _Judge(flow, function, sites, devices, gate)
        judged.append((function, list(judge.verdicts())))
        left.extend(judge.left)
        if judge.left or (_around(flow, function) and _LEGACY.search(flow.source.code(function))):
            bound.update(_around(flow, function) or (function,))
    everywhere = any(call in text for call in torch_api.DEFAULT_DEVICE_CALLS) or (
        any(verdict.safety is Safety.SAFE for _, found in judged for verdict in found)
        and flow.default_is_set()
    )
    # Where other functions need CUDA, and no device is known at all, what they give each other is on CUDA.
    cuda = bool(left) and not gate.agnostic
    everywhere = everywhere or _INSISTS.search(text) is not None
    settled: list[tuple[FunctionNode | ast.Module, Verdict]] = []
    for function, found in judged:
        stuck = (
            everywhere
            or (cuda and not runs(flow, function))
            or not bound.isdisjoint(_around(flow, function) or (function,))
        )
        for verdict in found:
            if stuck and not verdict.told:
                verdict = replace(verdict, safety=min(verdict.safety, Safety.UNSAFE))
            settled.append((function, verdict))
    safe = [verdict for _, verdict in settled if verdict.safety is Safety.SAFE]
    worth = Worth(flow, {site for verdict in safe for site in verdict.sites})
    for function, verdict in settled:
        if verdict.safety is Safety.SAFE and not worth.of(verdict, function):
            verdict = replace(verdict, safety=Safety.UNSAFE)
        if rest or verdict.safety is Safety.SAFE or flow.needs_cuda() is not True:
            yield verdict
    if module:
        one = owned(flow, sorted(left, key=place), module, "cuda" if declare == "no" else declare)
        if one is not None:
            yield one
    elif declare != "no":
        one = declared(flow, sorted(left, key=place), declare)
        if one is not None:
            yield one
    elif rest:
        for node in (*(site.node for site in left), *named_constants(flow.source)):
            span, code = flow.source.span(node), flow.source.code(node)
            yield Verdict(span, code, "", "is hard-coded, and no device is in scope", (), Safety.MANUAL)
    else:
        yield from of_callers(flow, left)


def _around(flow: Flow, function: FunctionNode | ast.Module) -> tuple[ast.AST, ...]:
    """A function and its class; nothing for a script."""
    if isinstance(function, ast.Module):
        return ()
    owner = flow.source.enclosing(function, ast.ClassDef)
    return (function,) if owner is None else (function, owner)


class _Judge:
    """The sites of one function."""

    def __init__(
        self, flow: Flow, function: FunctionNode | ast.Module, sites: list[Site], devices: Devices, gate: Gate
    ) -> None:
        self.flow = flow
        self.source = flow.source
        self.function = function
        self.sites = sites
        self.devices = devices
        self.gate = gate
        self.nodes: set[ast.expr] = {site.node for site in sites}
        self.partners = Partners(flow, function, self.nodes)
        self.left: list[Site] = []  # of which nothing is known
        self.agnostic = gate.agnostic

    def verdicts(self) -> Iterator[Verdict]:
        done: set[ast.AST] = set()
        for site in self.sites:
            guard = guard_of(self.source, site)
            if guard.told is Told.SAME and guard.node is not None:
                if guard.node not in done:
                    done.add(guard.node)
                    yield from self._same(guard)
                continue
            if guard.told is Told.CHOSEN:
                found = self._flagged(site) if guard.node is not None else None
                if found is not None:
                    yield found
                continue
            found = self._again(site)
            if found is None and guard.told is Told.AVAILABLE:
                if guard.node is not None and guard.node not in done:
                    done.add(guard.node)
                    found = self._available(guard)
            elif found is None:
                found = self._plain(site) or buffer(self.flow, self.devices.bindings, self.function, site)
                if found is None:
                    self.left.append(site)
            if found is not None:
                under = self._under(guard) if guard.told is Told.AVAILABLE else [site]
                found = replace(found, sites=tuple(one.node for one in under))
                yield found

    # --- conditions ------------------------------------------------------------------------

    def _under(self, guard: Guard) -> list[Site]:
        assert guard.node is not None
        inside = self.source.span(guard.node)
        return [s for s in self.sites if inside.start <= self.source.span(s.node).start < inside.end]

    def _same(self, guard: Guard) -> Iterator[Verdict]:
        """`if x.is_cuda: y = y.cuda()`: the GPU of x is meant, whichever that is."""
        sites = [s for s in self._under(guard) if guard_of(self.source, s).node is guard.node]
        sites = [s for s in sites if kept(self.source, guard, s) and self._receiver(s) != guard.path]
        if not sites:
            return
        other = guard.path if guard.path == "self.device" else guard.path.removesuffix(".device")
        why = f"goes to the current GPU, but it is used with `{other}`, which may be on another one"
        known = self.devices.at(sites[0])
        if known is not None and known.sure and known.text == guard.device:
            return  # `device = "cuda" if is_available() else "cpu"`: that is the current GPU
        above = moved_above(self.flow, self.function, guard)
        if above:
            return
        sure = of_a_value(self.flow, self.partners, guard) and not current_only(self.source, self.function)
        sure = sure and above is not None
        top = top_of(self.source, self.function)
        in_view = self.flow.runs_chosen(top) is not None and self.flow.runs_moved(top) is not None
        if in_view and self.flow.other_gpu() is False and not self.flow.runs_elsewhere(top):
            return  # the programs of the project use no GPU but the current one
        whole = self._whole(guard, sites, guard.device)
        if whole is not None:
            span, edits = whole
            code = self.source.code(sites[0].node)
            safety = Safety.SAFE if sure and all(self._has_to(site) for site in sites) else Safety.UNSAFE
            yield Verdict(span, code, guard.device, why, edits, safety, told=True, cure=Cure.OTHER)
            return
        for site in sites:
            safety = Safety.SAFE if sure else Safety.UNSAFE
            yield replace(self._verdict(site, guard.device, why, safety), told=True, cure=Cure.OTHER)

    def _has_to(self, site: Site) -> bool:
        """Is what is moved a tensor or module beyond doubt? Other things may have `cuda()` and no `to()`."""
        if site.form != "cuda" or site.receiver is None:
            return True
        value = self.flow.value(site.receiver)
        return value.kind in (Kind.TENSOR, Kind.MODULE, Kind.PART) or self.partners.is_tensor(
            self._receiver(site)
        )

    def _receiver(self, site: Site) -> str:
        return path_of(site.receiver) if site.receiver is not None else ""

    def _whole(self, guard: Guard, sites: list[Site], device: str) -> tuple[Span, tuple[Edit, ...]] | None:
        """The condition and its moves as plain moves, where they are moves of tensors and nothing else."""
        node = guard.node
        assert node is not None
        if any(
            site.receiver is None or self.flow.value(site.receiver).kind in (Kind.MODULE, Kind.PART)
            for site in sites
        ):
            return None
        span = self.source.span(node)
        if isinstance(node, ast.IfExp):
            site = sites[0]
            plain = guard.alone and len(sites) == 1 and site.node is node.body and site.receiver is not None
            if plain and site.receiver is not None and ast.dump(node.orelse) == ast.dump(site.receiver):
                text = f"{self.source.code(site.receiver)}.to({device})"
                return (span, (ReplaceExpression(span, text),)) if path_of(site.receiver) else None
            return None
        pairs = moves_alone(self.source, guard, sites)
        if pairs is None or not isinstance(node, ast.If):
            return None
        text = "\n".join(f"{path} = {moved(self.source, site, device)}" for path, site in pairs)
        return span, (InsertStatement(span, text, before=True), DeleteStatement(span))

    def _available(self, guard: Guard) -> Verdict | None:
        """`if torch.cuda.is_available(): y = y.cuda()` of a value that belongs somewhere known."""
        sites = self._under(guard)
        found: list[tuple[str, str, bool]] = []
        for site in sites:
            partner = self.partners.of(site)
            if partner is not None and not partner.device.startswith("next("):
                found.append((partner.device, self._meets(partner), partner.sure))
                continue
            device = self.devices.at(site)
            if device is None or device.sure:
                return None
            found.append((device.text, f"goes to CUDA even if {device.what} is another device", False))
        if not found or len({device for device, _, _ in found}) != 1:
            return None
        device_text, why, _ = found[0]
        whole = self._whole(guard, sites, device_text)
        if whole is None:
            return None
        return Verdict(whole[0], self.source.code(sites[0].node), device_text, why, whole[1], Safety.UNSAFE)

    def _flagged(self, site: Site) -> Verdict | None:
        """`if use_cuda: y = y.cuda()` of what meets a tensor of the caller: on its GPU, not on the current one."""
        partner = self.partners.of(site)
        root = partner.device.partition(".")[0] if partner is not None else ""
        if partner is None or root not in self.partners.parameters or root in self.partners.placed:
            return None
        return self._verdict(site, partner.device, self._meets(partner), Safety.UNSAFE, partner.node)

    # --- without a condition ---------------------------------------------------------------

    def _again(self, site: Site) -> Verdict | None:
        """`x.cuda().type_as(y)`: moved on at once."""
        parent = self.source.parents.get(site.node)
        if site.form != "cuda" or not isinstance(parent, ast.Attribute) or site.receiver is None:
            return None
        call = self.source.parents.get(parent)
        if not isinstance(call, ast.Call) or call.func is not parent or len(call.args) != 1 or call.keywords:
            return None
        target = call.args[0]
        if parent.attr != "type_as" and not (
            parent.attr == "to" and isinstance(target, ast.Attribute) and target.attr == "device"
        ):
            return None
        span = self.source.span(site.node)
        whole = self.source.code(site.node)
        text = whole[: whole.rindex(".cuda")].rstrip()
        why = f"is redundant, and raises without CUDA: `.{parent.attr}({self.source.code(target)})` follows"
        return Verdict(span, whole, "", why, (ReplaceExpression(span, text),), Safety.SAFE)

    def _plain(self, site: Site) -> Verdict | None:
        if isinstance(self.function, ast.Module) or not (
            self.agnostic or self.gate.open or self.gate.library
        ):
            return self._script(site)
        partner = self.partners.of(site)
        if partner is None or not partner.sure:
            device = self.devices.at(site)
            if device is not None and (device.sure or partner is None or partner.device.startswith("next(")):
                why = f"goes to CUDA even if {device.what} is another device"
                return self._verdict(
                    site, device.text, why, Safety.SAFE if device.sure else Safety.UNSAFE, device.node
                )
            partner = partner or self.partners.sized_by(site)
        if partner is None or not (
            partner.sure or self.agnostic or (self.gate.open and self._given(partner))
        ):
            return None
        safety = Safety.SAFE if partner.sure else Safety.UNSAFE
        found = self._verdict(site, partner.device, self._meets(partner), safety, partner.node)
        return replace(found, cure=Cure.ABSENT | Cure.OTHER)

    def _given(self, partner: Partner) -> bool:
        """Is it a caller that says where the other side is?"""
        root = partner.device.removeprefix("next(").partition(".")[0]
        return root in self.partners.parameters or root == "self"

    def _script(self, site: Site) -> Verdict | None:
        """In a script only the variable that it declares for the purpose counts."""
        device = self.devices.at(site) if self.agnostic else None
        if device is None:
            return None
        why = f"goes to CUDA even if {device.what} is another device"
        return self._verdict(
            site, device.text, why, Safety.SAFE if device.sure else Safety.UNSAFE, device.node
        )

    def _meets(self, partner: Partner) -> str:
        return f"goes to CUDA, but is combined with `{partner.what}`, which may be on another device"

    def _verdict(
        self, site: Site, device: str, why: str, safety: Safety, node: ast.AST | None = None
    ) -> Verdict:
        edits, sure = edits_for(self.source, site, device)
        sure = sure and self._has_to(site)
        return Verdict(
            self.source.span(site.node),
            self.source.code(site.node),
            device,
            why,
            edits,
            safety if sure else min(safety, Safety.UNSAFE),
            node,
        )
