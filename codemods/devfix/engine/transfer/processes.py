"""The processes of a distributed program: where their numbers come from, and what they do with devices."""

from __future__ import annotations

import ast

from devfix.engine import evidence
from devfix.engine.facts import Step
from devfix.engine.files import Function
from devfix.engine.forms import OF_TENSOR, begun
from devfix.engine.frame import Arguments, Frame
from devfix.engine.places import LITERAL, Place, literal, of_process
from devfix.engine.transfer.bindings import Bindings
from devfix.engine.values import (
    DEVICE,
    DEVICES,
    GLOBAL,
    LIBRARY,
    LOCAL,
    MAKE,
    NAME,
    NONE,
    NUMBER,
    RANKS,
    SEQUENCE,
    TENSOR,
    TEXT,
    UNKNOWN,
    Assumption,
    Value,
    texts,
)
from devfix.text.source import Source, remembered

_ENVIRONMENT = "os.environ"
_READS = frozenset({"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault"})
_NUMBERED = ("device_ids", "device_id", "output_device")  # arguments that name devices by their numbers
_NO_GROUPS = frozenset({NONE, LIBRARY, NUMBER, TENSOR, SEQUENCE})
_ALIAS = "torch.distributed.distributed_c10d."
# Position of an argument of `init_process_group`.
_BACKEND, _RANK = 0, 4
NOT_KNOWN = "?"


class Processes(Bindings):
    """Transfer functions of what concerns processes; they note what a process does as steps."""

    # --- calls ---------------------------------------------------------------------------

    def library_call(self, node: ast.Call, dotted: str, arguments: Arguments) -> Value:
        values, keywords = arguments
        if dotted.startswith(_ALIAS):
            dotted = "torch.distributed." + dotted.removeprefix(_ALIAS)
        if dotted in _READS and values and isinstance(values[0][0].const, str):
            role = self.models.process(f"{_ENVIRONMENT}.{values[0][0].const}")
            return self._text_of(role, node) if role else super().library_call(node, dotted, arguments)
        if dotted == "torch.device":
            number = values[1] if len(values) > 1 else keywords.get("index")
            if number is not None and literal(str(values[0][0].const if values else "cuda")) is not None:
                place = self.numbered(node, *number)
                if place is not None:
                    return Value(DEVICE, place, forms=OF_TENSOR)
        form = self.models.process(dotted)
        self._named(node, arguments)
        if form in ("local", "global", "devices"):
            if form == LOCAL:
                self.step(form, node)
            if form == GLOBAL and (values or keywords):
                return super().library_call(node, dotted, arguments)  # of a group of its own
            return Value(NUMBER, role=form, links=(self.link(MAKE, node),))
        if form == "spawn" or form == "starts":
            self.step(form, node)
            self._started(node, form, arguments)
        elif form == "joins":
            self._joins(node, arguments)
        elif form == "sets":
            self.step(form, node, *(values[0] if values else ()))
        elif form == "current":
            self.step(form, node, texts=frozenset(keywords))
        elif form == "collective":
            self._collective(node, dotted, arguments)
        elif self.models.layer(dotted) == "wrapper" and dotted.endswith("DistributedDataParallel") and values:
            self._wraps(node, arguments)
        return super().library_call(node, dotted, arguments)

    def unknown_call(self, node: ast.Call, name: str, arguments: Arguments) -> Value:
        starts = evidence.may_set_device(name.rpartition(".")[2]) or self._is_told_backend(arguments)
        if starts and not name.startswith("torch."):
            self.step("sets", node)
        return super().unknown_call(node, name, arguments)

    def _is_told_backend(self, arguments: Arguments) -> bool:
        """Is a function out of sight told the backend? Then it joins the group, and may set the device."""
        return "backend" in arguments[1] or any(
            isinstance(value.const, str) and self.models.process(f"backend.{value.const}")
            for value, _ in (*arguments[0], *arguments[1].values())
        )

    def _wraps(self, node: ast.Call, arguments: Arguments) -> None:
        values, keywords = arguments
        given = keywords.get("device_ids") or (values[1] if len(values) > 1 else None)
        at = given[1] if given is not None else None
        one = at.elts[0] if isinstance(at, (ast.List, ast.Tuple)) and len(at.elts) == 1 else None
        self.step("wraps", node, values[0][0], one)

    def _joins(self, node: ast.Call, arguments: Arguments) -> None:
        values, keywords = arguments
        given = keywords.get("backend") or (values[_BACKEND] if len(values) > _BACKEND else None)
        number = keywords.get("rank") or (values[_RANK] if len(values) > _RANK else None)
        if "device_id" in keywords and keywords["device_id"][0].kind != NONE:
            self.step("sets", node, *keywords["device_id"])
        backends = frozenset({""}) if given is None else self._backends(*given)
        self.step("joins", node, number[0] if number is not None else None, texts=backends)

    def _backends(self, value: Value, at: ast.expr) -> frozenset[str]:
        """What the backend may be; an empty text for torch's own choice, NOT_KNOWN where it is not known."""
        if value.kind == NONE:
            return frozenset({""})
        if value.kind == LIBRARY:  # torch.distributed.Backend.NCCL
            return frozenset({str(value.ref).rpartition(".")[2].lower()})
        if value.kind == TEXT and (value.texts or isinstance(value.const, str)):
            return frozenset(one.lower() for one in texts(value))
        if isinstance(at, ast.Attribute):
            default = _defaults(self.file.source).get(at.attr)
        elif isinstance(at, ast.Name) and self.function is not None:
            default = self.function.defaults.get(at.id)
        else:
            default = None
        if isinstance(default, ast.Constant) and isinstance(default.value, str):
            return frozenset({default.value.lower()})
        return frozenset({NOT_KNOWN})

    def _collective(self, node: ast.Call, dotted: str, arguments: Arguments) -> None:
        values, keywords = arguments
        groups = [*values[2:], *([keywords["group"]] if "group" in keywords else [])]
        if any(value.kind not in _NO_GROUPS for value, _ in groups):
            return  # it may have a backend of its own
        for value, at in (*values, *keywords.values()):
            for one, where in self.tensors(value, at):
                place = self.where(one)
                self.sent(node, one, where, dotted.rpartition(".")[2])
                if place.on_host or place.kind == LITERAL:
                    expression = where if isinstance(where, ast.expr) else at
                    self.step("collective", node, one, expression, place=place, texts=frozenset({dotted}))

    def _started(self, node: ast.Call, form: str, arguments: Arguments) -> None:
        """Run what is run in processes: `spawn(f, args)` calls `f(number, *args)`."""
        values, keywords = arguments
        name, position = ("fn", 0) if form == "spawn" else ("target", 1)
        called = keywords.get(name) or (values[position] if len(values) > position else None)
        given = keywords.get("args") or (values[1] if form == "spawn" and len(values) > 1 else None)
        if called is None:
            return
        items = list(given[0].items or ()) if given is not None and given[0].kind == SEQUENCE else []
        number = Value(NUMBER, role=LOCAL, links=(self.link(MAKE, node),))
        if form == "spawn":
            items.insert(0, number)
        elif items and items[0].kind == NUMBER and not items[0].role and items[0].const is ...:
            items[0] = number
        kept = self.state.copy()
        self.call_value(node, called[0], ([(one, called[1]) for one in items], {}))
        self.state.take(kept)  # another process

    # --- numbers -------------------------------------------------------------------------

    def _text_of(self, role: str, node: ast.AST) -> Value:
        if role == LOCAL:
            self.step("local", node)
        return Value(TEXT, role=role, links=(self.link(MAKE, node),))

    def builtin(self, node: ast.Call, name: str, callee: Value, arguments: Arguments) -> Value:
        if name in ("int", "str") and arguments[0] and arguments[0][0][0].role in RANKS | {DEVICES}:
            return arguments[0][0][0].but(kind=NUMBER if name == "int" else TEXT, const=...)
        return super().builtin(node, name, callee, arguments)

    def item(self, node: ast.Subscript, base: Value, index: Value) -> Value:
        if base.kind == LIBRARY and base.ref == _ENVIRONMENT and isinstance(index.const, str):
            role = self.models.process(f"{_ENVIRONMENT}.{index.const}")
            if role:
                return self._text_of(role, node)
        return super().item(node, base, index)

    def store_item(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        if isinstance(target.slice, ast.Constant) and self.file.dotted(target.value) == _ENVIRONMENT:
            self.step("environ", target, value, texts=frozenset({str(target.slice.value)}))
        super().store_item(target, value, node)

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        if base.kind == UNKNOWN and base.place.is_named:
            held = self.state.attribute(_cell(base), node.attr)
            if held is not None:
                return held
        made = super().attribute(node, base)
        if made.kind == UNKNOWN and not made.role and evidence.is_local_rank(node.attr):
            self.step("local", node)
            return made.but(role=LOCAL, assumed=made.assumed | {Assumption(NAME, node.attr)})
        return made

    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            value = self._called(target.id, value)
        super().bind(target, value, node)

    def _called(self, name: str, value: Value) -> Value:
        """A number of unknown origin, by the name that it gets."""
        if (
            not value.role
            and value.const is ...
            and value.kind in (UNKNOWN, NUMBER)
            and evidence.is_local_rank(name)
        ):
            return value.but(role=LOCAL, assumed=value.assumed | {Assumption(NAME, name)})
        return value

    def _store(self, target: ast.Attribute, value: Value) -> None:
        value = self._called(target.attr, value)
        if value.role in RANKS:  # `args.rank = ...` of an object of which nothing is known
            base = self.eval(target.value)
            if base.kind == UNKNOWN and base.place.is_named:
                self.state.set_attribute(_cell(base), target.attr, value)
                return
        super()._store(target, value)

    def operate(
        self, node: ast.AST, left: Value, right: Value, at: ast.AST, other: ast.AST, op: ast.operator
    ) -> Value:
        if left.role in RANKS or right.role in RANKS:
            made = self._number(node, left, right, at, other, op)
            if made is not None:
                return made
        return super().operate(node, left, right, at, other, op)

    def _number(
        self, node: ast.AST, left: Value, right: Value, at: ast.AST, other: ast.AST, op: ast.operator
    ) -> Value | None:
        """A number that is made of the number of a process, or the text `"cuda:" + str(number)`."""
        if isinstance(left.const, str):
            head = left.const.partition("%")[0] if isinstance(op, ast.Mod) else left.const
            return self._device_text(node, head, right, other) if isinstance(op, (ast.Add, ast.Mod)) else None
        number, rest, side = (left, right, other) if left.role in RANKS else (right, left, at)
        plain = Value(NUMBER, links=(self.link(MAKE, node),))
        if isinstance(op, ast.Mod) and number is left:
            return plain.but(role=LOCAL) if rest.const is ... else plain
        if isinstance(op, ast.Add):
            several = isinstance(side, ast.BinOp) and isinstance(
                side.op, ast.Mult
            )  # machine * devices + number
            return number.but(role=GLOBAL if several else number.role, links=plain.links, const=...)
        return plain

    def method(self, node: ast.Call, base: Value, name: str, arguments: Arguments) -> Value:
        if name == "format" and base.kind == TEXT and isinstance(base.const, str) and arguments[0]:
            made = self._device_text(node, base.const.partition("{")[0], *arguments[0][0])
            if made is not None:
                return made
        return super().method(node, base, name, arguments)

    def _device_text(self, node: ast.AST, head: str, value: Value, at: ast.AST) -> Value | None:
        if head.endswith(":") and literal(head[:-1]) is not None and isinstance(at, ast.expr):
            place = self.numbered(node, value, at)
            if place is not None:
                return Value(DEVICE, place, forms=begun(head))
        return None

    # --- numbers of devices --------------------------------------------------------------

    def numbered(self, node: ast.AST, value: Value, at: ast.expr) -> Place | None:
        """The device that a number names; None if it is not the number of a process."""
        if value.role not in RANKS:
            return None
        self.step("index", node, value, at)
        return of_process(value.role)

    def target(self, value: Value | None, node: ast.AST, at: ast.expr | None = None) -> Place | None:
        if value is not None and value.role in RANKS and isinstance(node, ast.Call):
            given = next((one.value for one in node.keywords if one.arg in ("device", "map_location")), None)
            given = given or (node.args[0] if node.args else None)
            if given is not None:
                return self.numbered(node, value, given)
        return super().target(value, node, at)

    def device(self, value: Value, node: ast.AST) -> Value:
        place = self.target(value, node) if value.role in RANKS else None
        return Value(DEVICE, place, forms=OF_TENSOR) if place is not None else super().device(value, node)

    def _named(self, node: ast.Call, arguments: Arguments) -> None:
        """Arguments that name devices by their numbers."""
        for name in _NUMBERED:
            if name in arguments[1]:
                value, at = arguments[1][name]
                for one in value.items if value.kind == SEQUENCE and value.items else (value,):
                    inner = at.elts[0] if isinstance(at, (ast.List, ast.Tuple)) and len(at.elts) == 1 else at
                    self.numbered(node, one, inner)
        if arguments[0] and self.models.process(self.file.dotted(node.func)) == "sets":
            self.numbered(node, *arguments[0][0])

    def _destination(self, node: ast.Call, name: str, arguments: Arguments) -> Place | None:
        place = super()._destination(node, name, arguments)
        if place is not None and place.kind == LITERAL and place.key == "cuda":
            self.step("bare", node)
        return place

    # --- steps ---------------------------------------------------------------------------

    def step(
        self,
        kind: str,
        node: ast.AST,
        value: Value | None = None,
        at: ast.expr | None = None,
        *,
        place: Place | None = None,
        texts: frozenset[str] = frozenset(),
    ) -> None:
        """Note what a process does; once for each way on which it does it."""
        if not _has_processes(self.analysis.file.source):
            return
        value = value or Value(NONE)
        running: list[Function | None] = []
        frame: Frame | None = self
        while frame is not None:
            running.append(frame.function)
            frame = frame.caller
        key = (node, kind, value.role, at, place, texts, self.state.path, running[-1])
        if not self.analysis.is_new_step(key):
            return
        self.analysis.steps.append(
            Step(
                kind=kind, node=node, file=self.file, function=self.function, path=self.state.path,
                running=tuple(running), value=value, at=at, place=place or self.where(value), texts=texts,
                local=self._local_numbers(), scopes=self.scopes() if kind == "collective" else (),
            )
        )  # fmt: skip

    def _local_numbers(self) -> tuple[str, ...]:
        """The expressions that hold the number of the process on its machine."""
        found = []
        for name, value in self.state.names.items():
            if value.role == LOCAL:
                found.append(name)
            elif value.kind == UNKNOWN and value.place.is_named:
                found += [
                    f"{name}.{one}" for one, held in self.state.attributes(_cell(value)) if held.role == LOCAL
                ]
            elif self.me is not None and value is self.me and value.ref is not None:
                found += [
                    f"{name}.{one}" for one, held in self.state.attributes(value.ref) if held.role == LOCAL
                ]
        return tuple(found)


def _cell(value: Value) -> object:
    """The cell of an object of which nothing but its identity is known."""
    return "named", value.place.key


@remembered
def _defaults(source: Source) -> dict[str, ast.expr]:
    """The options of the command line that a file adds to a parser -> their defaults, by attribute."""
    found: dict[str, ast.expr] = {}
    for call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            default = next((one.value for one in call.keywords if one.arg == "default"), None)
            for one in call.args:
                if isinstance(one, ast.Constant) and str(one.value).startswith("--") and default is not None:
                    found[str(one.value)[2:].replace("-", "_")] = default
    return found


@remembered
def _has_processes(source: Source) -> bool:
    """May a file be of a distributed program? What is noted for those is not noted for the others."""
    text = source.text.lower()
    return "distributed" in text or "local_rank" in text or "set_device" in text
