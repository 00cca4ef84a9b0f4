"""What one file sees of the others: the answers to what its flow asks."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from devfix.engine.files import File, Resolver
from devfix.flow import torch_api
from devfix.flow.events import What
from devfix.flow.evidence import annotated_kind, looks_like_module
from devfix.flow.frame import Arguments, Frame, path_of
from devfix.flow.lattice import (
    UNKNOWN,
    Kind,
    Place,
    Value,
    Where,
    fresh_identity,
)
from devfix.flow.outside import OUTSIDE, Bases, Elsewhere, Outside
from devfix.project.border import Border
from devfix.project.foreign import ForeignProgram, OutsideCall
from devfix.project.names import PREFIX, Definition, NameOf
from devfix.project.outline import Outline, may_be_rebound, rebound
from devfix.project.project import DEPTH, Project
from devfix.source import Source

# What a name of another file can stand for.
_TOLD = frozenset({Kind.DEVICE, Kind.MODULE, Kind.TENSOR, Kind.LOADER, Kind.TOKENIZER, Kind.INSTANCE})


class View(Outside):
    """See `Outside`. Whatever raises RecursionError on the way is not known."""

    def __init__(self, project: Project, path: str, source: Source, depth: int) -> None:
        self.project = project
        self.path = path
        self.source = source
        self.depth = depth
        self.recorded: list[OutsideCall] | None = None  # while somebody asks for calls
        self._default_known = not any(call in source.text for call in torch_api.DEFAULT_DEVICE_CALLS)
        self._named: dict[str, Value | None] = {}
        self._seen: Outline | None = None
        self._rebound: frozenset[str] | None = None

    @property
    def _outline(self) -> Outline:
        if self._seen is None:
            self._seen = self.project.outline_of(self.path, self.source)
        return self._seen

    # --- names ---------------------------------------------------------------------------

    def named(self, path: str) -> Value | None:
        if path not in self._named:
            definition = self._definition(path) if self.depth else None
            self._named[path] = None if definition is None else self._value(definition, path)
        return self._named[path]

    def _definition(self, path: str) -> Definition | None:
        root, _, rest = path.partition(".")
        imported = self.source.imports.get(root)
        if "[" in path:
            return None
        if imported is None:
            stars = "*" in self.source.imports and not rest
            found = self.project.starred(self.path, self._outline.stars, root) if stars else None
        elif not self.project.files.has(self.path, imported):
            return None
        else:
            found = self.project.lookup(self.path, f"{imported}.{rest}" if rest else imported)
        if found is None or self._outline.names.get(root) == "?":
            return None
        if may_be_rebound(self.source.text, root):
            if self._rebound is None:
                self._rebound = rebound(self.source.tree)
            if root in self._rebound:
                return None
        return found

    def _value(self, definition: Definition, text: str) -> Value | None:
        """What a definition of another file is here, written as `text`."""
        if definition.what == "def":
            return Value(Kind.FUNCTION, name=self.project.name(definition), form=OUTSIDE)
        if definition.what == "class":
            if self.project.bases(definition) is None:
                return None
            return Value(Kind.CLASS, name=self.project.name(definition), form=OUTSIDE)
        program = self._program(definition)
        value = program.state.names.get(definition.name) if program is not None else None
        if program is None or value is None or value.kind not in _TOLD:
            return None
        border = self._border(program, _at(self.source), self._default_known)
        made, place = border.value(value), border.place(program.state.place(value))
        if made.kind is Kind.DEVICE:
            key = program.keys.get(value.place.key, value.place.key) or self.project.key(definition)
            made.place = Place(place.where, text, key, place.node, place.guarded)
        elif made.kind is Kind.MODULE:
            made.place, made.identity = place, fresh_identity()
        return made if made.kind is not Kind.UNKNOWN else None

    def _program(self, definition: Definition) -> ForeignProgram | None:
        """The file of a definition, if there is anything about devices in it or in what it sees."""
        if not self.depth:
            return None
        if self.depth == 1:
            outline = self.project.outline(definition.path)
            if outline is None or not outline.concerned:
                return None
        return self.project.program(definition.path, self.depth - 1)

    def _border(self, program: ForeignProgram, node: ast.expr, default_known: bool) -> Border:
        return Border(
            program.path, program.source, node, default_known, NameOf(self.project, program), program.keys
        )

    def written(self, name: str, path: str = "") -> tuple[str, Source, ast.ClassDef] | None:
        return self.project.written(path or self.path, name)

    def resolver(self) -> Resolver:
        def resolve(path: str, dotted: str) -> tuple[File, str] | None:
            return self.project.resolve(path if self.project.is_file(path) else self.path, dotted)

        return resolve

    def sets_default(self) -> bool:
        return self.project.callers.sets_default(self.path)

    def default_is_other(self) -> bool:
        return self.project.callers.default_is_other(self.path)

    def saves_from_cpu(self) -> bool:
        return self.project.callers.saves_from_cpu()

    def chooses(self) -> bool | None:
        return self.project.facts.chooses()

    def needs_cuda(self) -> bool | None:
        return self.project.facts.needs_cuda(self.path)

    def other_gpu(self) -> bool | None:
        return self.project.facts.other_gpu()

    def goes_to_cuda(self, names: Sequence[str]) -> bool | None:
        return self.project.facts.goes_to_cuda(self.path, self.source, names)

    def called_after(self, name: str, before: str) -> bool:
        return self.project.facts.called_after(self.path, self.source, name, before)

    def called_after_download(self, name: str) -> bool:
        return self.project.facts.called_after_download(self.path, self.source, name)

    def saved_without_cuda(self, name: str) -> bool:
        return self.project.facts.saved_without_cuda(name)

    def writes(self) -> bool | None:
        return self.project.facts.writes()

    def runs_without_cuda(self, name: str, itself: bool) -> bool | None:
        return self.project.runs.without_cuda(self.path, self.source.text, name, itself)

    def runs_chosen(self, name: str) -> bool | None:
        return self.project.runs.chosen(self.path, self.source.text, name)

    def runs_elsewhere(self, name: str) -> bool | None:
        return self.project.runs.elsewhere(self.path, self.source.text, name)

    def runs_moved(self, name: str) -> bool | None:
        return self.project.runs.moved(self.path, self.source.text, name)

    def used(self, name: str) -> bool | None:
        return self.project.facts.used(self.path, self.source, name)

    # --- calls ---------------------------------------------------------------------------

    def call(
        self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None
    ) -> Value | None:
        definition = self.project.known.get(callee.name)
        if definition is None:
            return None
        try:
            program = self._program(definition)
            info = program.function(definition.name) if program is not None else None
            scope = program.answer(info) if program is not None and info is not None else None
        except RecursionError:
            return None
        if program is None or info is None or scope is None:
            return None
        own = caller.program
        bound = own.bind(info, arguments, 1 if receiver is not None and info.owner is not None else 0)
        given = {
            value.identity
            for value, pair in zip(scope.parameters, bound, strict=True)
            if pair is not None and value.identity
        }
        written = ""
        if receiver is not None and info.owner is not None:
            if info.owner.module:
                given.add(info.owner.identity)
            if isinstance(node.func, ast.Attribute):
                written = path_of(node.func.value)
        border = self._border(program, node, own.default_known)
        if self.recorded is not None:
            values = [pair[1] if pair is not None else UNKNOWN for pair in bound]
            given_here = tuple(
                replace(value, place=caller.state.place(value)) if value.kind is Kind.MODULE else value
                for value in values
            )
            self.recorded.append(OutsideCall(node, definition, given_here))
        summary = border.summary(scope, caller, frozenset(given), written)
        return own.replay(caller, node, info, summary, bound, receiver)

    def construct(self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments) -> Value | None:
        definition = self.project.known.get(callee.name)
        bases = self.project.bases(definition) if definition is not None else None
        if definition is None or bases is None:
            return None
        line = self.project.line(definition)
        if bases.module:
            # What is made of its arguments only is where they are.
            moving = any(one.moving for _, one in line) or not any(one.making for _, one in line)
            place = caller.program.place_of_made(caller, node, arguments, moving)
            bare = not any(one.holding for _, one in line)
            return Value(Kind.MODULE, place, fresh_identity(), node, callee.name, bare=bare)
        made = Value(Kind.INSTANCE, name=callee.name, form=OUTSIDE)
        init = next((one for one, made_of in line if "__init__" in made_of.methods), None)
        if init is not None:
            method = Definition(init.path, f"{init.name}.__init__", "def")
            called = Value(Kind.FUNCTION, name=self.project.name(method), form=OUTSIDE)
            if self.call(caller, node, called, arguments, made) is None:
                caller._call_unknown(node, arguments, callee.name)
        if any(base.rpartition(".")[2].endswith("DataLoader") for _, one in line for base in one.bases):
            place = caller.program.default_place(node)
            return Value(Kind.LOADER, place, node=node, source=f"a {definition.name}")
        return made

    # --- objects -------------------------------------------------------------------------

    def _method(self, name: str, method: str) -> Definition | None:
        definition = self.project.known.get(name)
        if definition is None or definition.what != "class":
            return None
        for owner, one in self.project.line(definition):
            found = one.methods.get(method)
            if found is not None:
                return Definition(owner.path, f"{owner.name}.{method}", "def") if found.plain else None
        return None

    def method(self, base: Value, name: str) -> Value | None:
        found = self._method(base.name, name)
        return None if found is None else Value(Kind.FUNCTION, name=self.project.name(found), form=OUTSIDE)

    def surgery(self, base: Value, name: str) -> Value | None:
        found = self._method(base.name, name)
        if found is None:
            return None
        owner, _, method = found.name.rpartition(".")
        holder = self.project.class_outline(Definition(found.path, owner, "class"))
        if holder is None or not holder.methods[method].changes:
            return None
        try:
            program = self._program(found)
            info = program.function(found.name) if program is not None else None
            scope = program.answer(info) if program is not None and info is not None else None
        except RecursionError:
            return None
        if info is None or info.owner is None or scope is None:
            return None
        for event in scope.events:
            if event.what is What.MOVE and event.value.identity == info.owner.identity:
                return Value(Kind.FUNCTION, name=self.project.name(found), form=OUTSIDE)
        return None

    def settles(self, base: Value, name: str) -> bool:
        found = self._method(base.name, name) if base.name.startswith(PREFIX) else None
        if found is None:
            return False
        owner, _, method = found.name.rpartition(".")
        holder = self.project.class_outline(Definition(found.path, owner, "class"))
        return holder is not None and holder.methods[method].moves

    def attribute(self, base: Value, name: str, node: ast.expr) -> Value | None:
        definition = self.project.known.get(base.name)
        if definition is None:
            return None
        try:
            program = self._program(definition)
            info = program.top_classes.get(definition.name) if program is not None else None
            facts = program.facts(info) if program is not None and info is not None else {}
        except RecursionError:
            return None
        value = facts.get(f"self.{name}")
        if program is None or value is None or value.kind is Kind.ANY:
            return None
        made = self._border(program, node, self._default_known).value(value)
        if made.kind is Kind.DEVICE and made.place.where in (Where.SYMBOL, Where.ACCELERATOR, Where.CPU):
            made.place.text = path_of(node)
        return made if made.kind is not Kind.UNKNOWN else UNKNOWN

    def calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[Value, ...]]:
        if self.depth < DEPTH or self._outline.names.get(function.name) != "def":
            return []
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        # Where a model is is what callers know.
        if not any(annotated_kind(p.annotation) == "module" or looks_like_module(p.arg) for p in parameters):
            return []
        try:
            return self.project.callers.given(Definition(self.path, function.name, "def"), parameters)
        except RecursionError:
            return []

    def bases(self, dotted: str) -> Bases | None:
        if "." in dotted:
            found = self.project.lookup(self.path, dotted)
        else:
            found = self.project.starred(self.path, self._outline.stars, dotted)
        return self.project.bases(found) if found is not None and found.what == "class" else None


def _at(source: Source) -> ast.expr:
    """The position of values that come with an import: the beginning of the file."""
    node = Elsewhere()
    node.lineno = node.end_lineno = 1
    node.col_offset = node.end_col_offset = 0
    return node
