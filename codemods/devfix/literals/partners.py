"""What a hard-coded value comes together with, and so the device that it ought to be on.

Operands of one operation must be on one device. So a value that is put on CUDA by name, and then
meets a tensor that came from outside, belongs on that tensor's device: anywhere else it raises.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from devfix.bindings import function_around
from devfix.flow import Flow, torch_api
from devfix.flow.frame import path_of
from devfix.flow.lattice import CARRIERS, UNKNOWN, Kind, Place, Where
from devfix.literals.chains import annotated, is_local, optional, parameters, parsed, resolves, root_of, typed
from devfix.literals.meets import Meet, Meetings
from devfix.literals.modules import has_layers
from devfix.literals.sites import Site
from devfix.names import Names
from devfix.placing import around, bound_before, rebound
from devfix.source import walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_WITNESSES = torch_api.TENSOR_ONLY | {
    "device",
    "is_cuda",
    "shape",
    "dtype",
    "ndim",
    "view",
    "reshape",
    "to",
    "mean",
}
_SHAPED = frozenset(
    {"shape", "size", "view", "reshape", "dim", "ndim", "numel", "unsqueeze", "transpose", "permute"}
)


@dataclass(frozen=True, eq=False)
class Partner:
    """The device that a site belongs on, why, and whether that is beyond doubt."""

    device: str
    node: ast.AST
    sure: bool
    what: str


class Partners:
    """The meetings of one function."""

    def __init__(self, flow: Flow, function: FunctionNode | ast.Module, sites: set[ast.expr]) -> None:
        self.flow = flow
        self.source = flow.source
        self.function = function
        self.sites = sites
        self.names = Names(flow.source, function)
        meetings = Meetings(flow, function, sites)
        self.meets = list(meetings)
        self.run = meetings.run
        self.parameters = parameters(function)
        self.typed = typed(function)
        self.absent = optional(function)
        self.annotated = annotated(function)
        # What goes to CUDA here as well is no better source of a device.
        self.placed = {
            path_of(site.func.value)
            for site in sites
            if isinstance(site, ast.Call) and isinstance(site.func, ast.Attribute)
        } - {""}
        # What a site makes, by the call that makes it; what runs on a name; and what calls make of names.
        self._meeting: dict[ast.AST, dict[Meet, None]] = {}
        self._running: dict[str, dict[Meet, int]] = {}
        for number, meet in enumerate(self.meets):
            for operand in meet.operands:
                for node in (operand, flow.value(operand).place.node):
                    if node is not None:
                        self._meeting.setdefault(node, {})[meet] = None
                if meet.runs is not None and isinstance(operand, ast.Name):
                    self._running.setdefault(operand.id, {})[meet] = number
        self._uses: dict[str, set[str]] = {}
        for node in flow.source.walk(function):
            if isinstance(node, ast.Attribute):
                path = path_of(node.value)
                if path:
                    self._uses.setdefault(path, set()).add(node.attr)

    def of(self, site: Site) -> Partner | None:
        """Where the value of a site belongs by what it meets; None where nothing tells."""
        best: Partner | None = None
        for meet in self._meeting.get(site.node, ()):
            mine = [node for node in meet.operands if self._is_of(node, site)]
            if not mine:
                continue
            if meet.runs is not None:
                found = self._module(site, meet)
                if found is not None and best is None:
                    best = found
                continue
            for operand in meet.operands:
                if operand in mine:
                    continue
                found = self._tensor(site, meet, operand)
                if found is not None and (
                    best is None or (found.sure and not best.sure) or best.device.startswith("next(")
                ):
                    best = found
            if best is not None and best.sure:
                break
        return best or self._run_later(site)

    def _run_later(self, site: Site) -> Partner | None:
        """The module that is run on what comes of a site: `x = x.cuda(); y = pad(x); net(y)`."""
        at = self.source.statement(site.node)
        if not isinstance(at, ast.Assign):
            return None
        end = self.source.span(at).end
        names = _given(site.node, at.targets, at.value)
        later = [
            (number, statement)
            for name in names
            for number, statement in self._made_of.get(name, ())
            if self.source.span(statement).start > end
        ]
        if later:  # one step further: what a call makes of it
            _, statement = min(later, key=lambda pair: pair[0])
            names |= {n.id for t in statement.targets for n in walk(t) if isinstance(n, ast.Name)}
        running = {meet: number for name in names for meet, number in self._running.get(name, {}).items()}
        runs = [one for one in running if self.source.span(one.node).start > end]
        return self._module(site, min(runs, key=running.__getitem__)) if runs else None

    @cached_property
    def _made_of(self) -> dict[str, list[tuple[int, ast.Assign]]]:
        """The assignments of what a call makes of a name, numbered."""
        found: dict[str, list[tuple[int, ast.Assign]]] = {}
        for number, statement in enumerate(self.source.of_kind(ast.Assign, self.function)):
            if isinstance(statement.value, ast.Call):
                for one in statement.value.args:
                    if isinstance(one, ast.Name):
                        found.setdefault(one.id, []).append((number, statement))
        return found

    def _is_of(self, node: ast.expr, site: Site) -> bool:
        if node is site.node:
            return True
        place = self.flow.value(node).place
        return place.node is site.node and (place.where is Where.ACCELERATOR or site.form == "default")

    def is_tensor(self, path: str) -> bool:
        """Does this very function use a path as only a tensor can be used?"""
        return not _WITNESSES.isdisjoint(self._uses.get(path, ()))

    def given_tensor(self, name: str, at: ast.stmt) -> bool:
        """Is a parameter a tensor, as its annotation or its uses say, and still that at a statement?"""
        if name not in self.parameters - self.absent - self.typed or self.changed(name, at):
            return False
        return self.is_tensor(name) or name in self.annotated

    def shaped(self, path: str) -> bool:
        """Does this very function use a path as something with a size?"""
        return not _SHAPED.isdisjoint(self._uses.get(path, ()))

    def _tensor(self, site: Site, meet: Meet, operand: ast.expr) -> Partner | None:
        value = self.flow.value(operand)
        place = value.place
        if place.node in self.sites or place.where is Where.DEFAULT or place.where is Where.CPU:
            return None
        indexed = isinstance(meet.node, ast.Subscript)
        if value.kind not in CARRIERS and value.kind is not Kind.ANY and not indexed:
            return None
        if place.where is Where.ACCELERATOR and not place.guarded:
            return None
        at = self.source.statement(site.node)
        device = self._device(place, at)
        if device:
            sure = value.sure and meet.strict and self._follows(at, meet.node)
            return Partner(device, operand, sure, self.source.code(operand))
        root = root_of(self.flow, operand)
        path = path_of(root) if root is not None else ""
        if not path or path == "self" or "[" in path:
            path = ""
        rebinds = False
        if path and root is not None:
            name = path.partition(".")[0]
            other = _binds(at, name) and self.source.statement(meet.node) is not at
            if not self._writable(root, at) or self._born_later(name, at) or other:
                path = ""
            else:
                rebinds = rebound(self.source, [root], at, meet.node)
        if rebinds or not path:
            # What came of a parameter: the parameter itself, if it still is what it was.
            name = place.text.removesuffix(".device") if place.where is Where.OF else ""
            if name not in self.parameters or self.changed(name, at):
                return None
            path, rebinds = name, True
        if path in self.absent:
            return None
        if path.partition(".")[0] in self.typed:
            return None  # declared to be something else: a `Booster` is no tensor, whatever it can do
        declared = value.sure and value.kind is Kind.TENSOR
        if not declared and not self.is_tensor(path):
            return None
        shaped = self.shaped(path)
        sure = (
            not rebinds
            and (declared or ((value.kind is Kind.TENSOR or indexed) and self.is_tensor(path)))
            and (meet.strict or shaped)
            and not isinstance(meet.node, ast.Assign)
            and self._follows(at, meet.node)
        )
        return Partner(f"{path}.device", operand, sure, path)

    def _module(self, site: Site, meet: Meet) -> Partner | None:
        assert meet.runs is not None
        path = path_of(meet.runs)
        value = self.run[meet.node][1] if isinstance(meet.node, ast.Call) else UNKNOWN
        at = self.source.statement(site.node)
        place = value.place
        if value.kind is not Kind.MODULE or not path or value.bare:
            return None
        device = self._device(place, at)
        if device:
            return Partner(device, meet.runs, value.sure and self._follows(at, meet.node), path)
        # What a module has made in its `__init__` is wherever the module is put.
        own = path.startswith("self.") and place.where is Where.DEFAULT and self._of_module
        if not (own or place.where in (Where.OF, Where.UNKNOWN)) or not self._writable(meet.runs, at):
            return None
        if (path == "self" and not self._has_layers) or path in self.placed:
            return None
        if self._born_later(path.partition(".")[0], at):
            return None
        return Partner(f"next({path}.parameters()).device", meet.runs, False, path)

    @cached_property
    def _of_module(self) -> bool:
        """Is the function a method of a torch module, other than the one that makes it?"""
        owner = self.source.parents.get(self.function)
        return (
            isinstance(owner, ast.ClassDef)
            and getattr(self.function, "name", "") != "__init__"
            and any(path_of(base).endswith("Module") for base in owner.bases)
        )

    @property
    def _has_layers(self) -> bool:
        owner = self.source.parents.get(self.function)
        return self._of_module and isinstance(owner, ast.ClassDef) and has_layers(self.flow, owner)

    def sized_by(self, site: Site) -> Partner | None:
        """A tensor parameter that the value takes its size from: `torch.zeros(x.size(0)).cuda()`."""
        made = site.receiver if site.receiver is not None else site.node
        at = self.source.statement(site.node)
        for node in walk(made):
            if isinstance(node, ast.Attribute) and node.attr in ("size", "shape"):
                path = path_of(node.value)
                if path in self.parameters - self.absent and not self.changed(path, at):
                    value = self.flow.value(node.value)
                    if value.kind is Kind.TENSOR or self.is_tensor(path):
                        if value.place.where in (Where.OF, Where.UNKNOWN, Where.SYMBOL):
                            return Partner(f"{path}.device", node.value, False, path)
        return None

    # --- the text --------------------------------------------------------------------------

    def _writable(self, expression: ast.AST, at: ast.stmt) -> bool:
        return resolves(self.source, self.function, expression) and bound_before(self.source, expression, at)

    def _device(self, place: Place, at: ast.stmt) -> str:
        """The device that a value was moved to, where it can be written here; else an empty string."""
        if place.where is not Where.SYMBOL or not place.text or place.guarded:
            return ""
        expression = parsed(place.text)
        if expression is None or not self._writable(expression, at):
            return ""
        moved = place.node if isinstance(place.node, ast.expr) else None
        there = function_around(self.source, moved) if moved is not None else None
        if there is not None and there is not self.function:
            # Another function's own name: the same word may stand for something else here.
            names = {part.id for part in walk(expression) if isinstance(part, ast.Name)} - {"self"}
            if any(is_local(self.source, there, name) for name in names):
                return ""
        return place.text

    def _born_later(self, name: str, at: ast.stmt) -> bool:
        """Is a name bound here, but not before a statement?"""
        first = self.names.first_binding(name)
        return first is not None and first > self.source.span(at).start

    def changed(self, name: str, at: ast.stmt) -> bool:
        """Is a parameter bound to something that may be elsewhere before a statement?"""
        start = self.source.span(at).start
        for binding in self.names.bindings.get(name, ()):
            if binding.statement is None or self.source.span(binding.target).start >= start:
                continue
            value = self.flow.value(binding.value) if binding.value is not None else None
            if value is None or value.place.where is not Where.OF:
                return True
        return False

    def _follows(self, at: ast.stmt, node: ast.AST) -> bool:
        """Is the meeting reached whenever the site is? Then the two raise on different devices."""
        meeting = self.source.statement(node)
        if meeting is at:
            return not isinstance(at, (ast.If, ast.While, ast.For)) and not self._conditional(node)
        chain = [meeting]
        for one in around(self.source, meeting)[1:]:
            if not isinstance(one, (ast.With, ast.AsyncWith)):
                break
            chain.append(one)
        block = self.source.block(at)
        return any(one in block for one in chain) and not self._conditional(node)

    def _conditional(self, node: ast.AST) -> bool:
        up = self.source.parents.get(node)
        while up is not None and not isinstance(up, ast.stmt):
            if isinstance(up, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.ListComp)):
                return True
            up = self.source.parents.get(up)
        return False


def _given(site: ast.expr, targets: list[ast.expr], value: ast.expr) -> set[str]:
    """The names that an assignment gives what a site makes; of a pair of pairs, those of its place."""
    if isinstance(value, ast.Tuple):
        for target in targets:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(value.elts):
                own = [t for t, v in zip(target.elts, value.elts, strict=True) if site in walk(v)]
                return {node.id for one in own for node in walk(one) if isinstance(node, ast.Name)}
    return {node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)}


def _binds(statement: ast.stmt, name: str) -> bool:
    """Does a statement itself bind a name, so that it still stands for something else in there?"""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(node, ast.Name) and node.id == name for t in targets for node in walk(t))
