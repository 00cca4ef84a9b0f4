"""One pass over a scope, statement by statement, with branches joined.

A loop body is run once, from the state before it: what goes wrong there goes wrong in the first
round. Names bound in a comprehension or a branch that ends (return, raise) do not leak.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from devfix.flow import torch_api
from devfix.flow.calls import Calls, path_of
from devfix.flow.evidence import (
    looks_like_device,
    looks_like_loader,
    looks_like_module,
    looks_like_pipeline,
    makes_device_batches,
)
from devfix.flow.events import Scope, What
from devfix.flow.lattice import (
    CARRIERS,
    NUMBER,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    State,
    Value,
    Where,
    fresh_identity,
    join,
)

if TYPE_CHECKING:
    from devfix.flow.program import Program

_SAME_TENSOR = frozenset({"T", "mT", "H", "data", "grad", "real", "imag", "values", "indices"})
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_EXITS = frozenset({"exit", "sys.exit", "quit", "os._exit"})


class Interpreter(Calls):
    """Interprets one scope; the events go to `scope.events`, the values of expressions to the program."""

    def __init__(self, program: Program, scope: Scope, state: State) -> None:
        self.program = program
        self.source = program.source
        self.scope = scope
        self.state = state
        self.values = program.values
        self.statement: ast.stmt = ast.Pass()
        self.returns: list[Value] = []
        self.nested: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    # --- statements ----------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.state.dead:
                return
            handler = _STATEMENTS.get(statement.__class__)
            if handler is not None:
                self.statement = statement
                handler(self, statement)

    def _branches(self, *blocks: list[ast.stmt]) -> None:
        """Run each block from the present state, and go on with the join of their ends."""
        start = self.state
        ends: list[State] = []
        for block in blocks[:-1]:
            self.state = start.copy()
            self.block(block)
            ends.append(self.state)
        self.state = start
        self.block(blocks[-1])
        for end in ends:
            self.state.merge(end)

    def _expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Call):
            self.ev(value)
            if isinstance(value.func, (ast.Name, ast.Attribute)) and path_of(value.func) in _EXITS:
                self.state.dead = True
        elif not isinstance(value, ast.Constant):
            self.ev(value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.ev(node.value), node.value)

    def _aug_assign(self, node: ast.AugAssign) -> None:
        right = self.ev(node.value)
        left = self.ev(node.target)
        if left.kind is Kind.TENSOR or right.kind is Kind.TENSOR:
            result = self.combine(node.value, [(node.target, left, ""), (node.value, right, "")], "operator")
            path = path_of(node.target)
            if path and left.kind is not Kind.TENSOR:
                self.state.bind(path, result)

    def assign(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        """Bind a target; attributes of modules that receive a module or parameter are surgery."""
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, node)
            return
        if isinstance(target, ast.Starred):
            target = target.value
            value = UNKNOWN
        path = path_of(target)
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            root = self.ev(target.value)
            if isinstance(target, ast.Subscript):
                self.ev(target.slice)
            self.attach(target, root, value, node)
            if (root.kind in CARRIERS or root.kind is Kind.ANY) and isinstance(target, ast.Subscript):
                self._store_item(target, root, value)
        if not path:
            return
        if value.kind is Kind.UNKNOWN and node is not None:
            value = self._guess(path, node)
        elif value.kind is Kind.ANY and value.parameter < 0:
            value = self._settle(path, value)
        if value.kind in (Kind.DEVICE, Kind.STRING):
            value = self._named_device(path, value)
        self.state.bind(path, value)

    def _store_item(self, target: ast.Subscript, batch: Value, value: Value) -> None:
        """`batch[key] = value`: part of the batch is elsewhere now, or all of it in a loop over its keys."""
        path = path_of(target.value)
        if not path:
            return
        if batch.kind is Kind.ANY:
            if value.place.where is not Where.OF or value.place.key != batch.place.key:
                self.state.put(path, replace(batch, place=UNPLACED, identity=fresh_identity()))
            return
        if batch.kind is Kind.TENSOR:
            # An element of a batch may be a dict itself; a tensor that is written to stays where it is.
            if not batch.sure and value.place.on_device:
                self.state.put(path, batch.at(value.place))
            return
        if isinstance(target.slice, ast.Constant):
            moved = replace(batch, place=UNPLACED, element=self.element(batch), items=None, fields=batch.fields)
        else:
            moved = batch.at(value.place)
        self.state.put(path, moved)

    def _unpack(self, targets: list[ast.expr], value: Value, node: ast.expr | None) -> None:
        nodes: list[ast.expr | None] = [node if isinstance(node, ast.Call) else None] * len(targets)
        if isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) == len(targets):
            nodes = list(node.elts)
        items = value.items
        for index, target in enumerate(targets):
            if items is not None and len(items) == len(targets):
                part = items[index]
            elif isinstance(target, ast.Starred):
                part = UNKNOWN
            else:
                part = self.element(value)
            self.assign(target, part, nodes[index])

    def _named_device(self, path: str, value: Value) -> Value:
        """`device = torch.device(...)` names a device; a plain string does where it is one."""
        if value.kind is Kind.STRING:
            literal = torch_api.device_literal(value.text)
            if not literal and not looks_like_device(path):
                return value
            where = {"cpu": Where.CPU, "accelerator": Where.ACCELERATOR}.get(literal, Where.SYMBOL)
            place = Place(where, path, fresh_identity(), value.node)
            return Value(Kind.DEVICE, place, node=value.node, form="string", text=value.text)
        place = value.place
        if place.where is Where.SYMBOL and place.text and place.key:
            return value
        if place.where is Where.UNKNOWN:
            place = Place(Where.SYMBOL, path, fresh_identity(), value.node)
        elif place.where in (Where.ACCELERATOR, Where.CPU) or not place.text:
            place = replace(place, text=path, key=place.key or fresh_identity())
        return replace(value, place=place)

    def _guess(self, path: str, node: ast.expr) -> Value:
        """What an unknown call makes, by how its result is used."""
        if isinstance(node, ast.Constant) and node.value is None:
            return UNKNOWN
        evidence = self.program.evidence
        call = node
        if isinstance(call, ast.Await):
            call = call.value
        if isinstance(call, ast.Call):
            name = self.callee_name(call.func)
            last = name.rpartition(".")[2]
            if looks_like_pipeline(path):
                return UNKNOWN
            if evidence.used_as_module(path) and not looks_like_loader(path):
                place = self.device_argument(call)
                if place is None:
                    made = last[:1].isupper() and not self.program.mentions_device(last)
                    place = Place(Where.DEFAULT, node=call) if made else UNPLACED
                return Value(Kind.MODULE, place, fresh_identity(), call, name, sure=last[:1].isupper())
            place = self.device_argument(call)
            if place is not None and place.on_device and looks_like_module(path):
                return Value(Kind.MODULE, place, fresh_identity(), call, name, sure=False)
            if looks_like_device(path):
                place = Place(Where.SYMBOL, path, fresh_identity(), call)
                return Value(Kind.DEVICE, place, node=call, sure=False)
            if looks_like_loader(path) and place is None and not makes_device_batches(last):
                default = self.program.default_place(call)
                return Value(Kind.LOADER, default, node=call, source=f"`{path}`", sure=False)
        elif looks_like_device(path):
            return Value(Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False)
        return UNKNOWN

    def _settle(self, path: str, value: Value) -> Value:
        """Decide by evidence whether something that was moved is a module or a tensor."""
        if looks_like_pipeline(path):
            return UNKNOWN
        evidence = self.program.evidence
        if evidence.used_as_module(path):
            return replace(value, kind=Kind.MODULE, identity=value.identity or fresh_identity())
        if evidence.used_as_tensor(path):
            return replace(value, kind=Kind.TENSOR)
        if looks_like_module(path):
            identity = value.identity or fresh_identity()
            return replace(value, kind=Kind.MODULE, identity=identity, sure=False)
        return value

    def _if(self, node: ast.If) -> None:
        self.ev(node.test)
        self._branches(node.body, node.orelse)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterated = self.ev(node.iter)
        before = self.state.copy()
        self.assign(node.target, self.element(iterated), None)
        self.block(node.body)
        self.state.dead = False
        self.statement = node
        self.state.merge(before)
        self.block(node.orelse)

    def _while(self, node: ast.While) -> None:
        self.ev(node.test)
        before = self.state.copy()
        self.block(node.body)
        self.state.dead = False
        self.state.merge(before)
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.ev(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, item.context_expr)
        self.block(node.body)

    def _try(self, node: Any) -> None:
        start = self.state.copy()
        self.block(node.body)
        if not self.state.dead:
            self.block(node.orelse)
        for handler in node.handlers:
            end, self.state = self.state, start.copy()
            # Anything in the body may or may not have happened when a handler runs.
            self.state.merge(end.copy() if not end.dead else start)
            if handler.name:
                self.state.bind(handler.name, UNKNOWN)
            self.block(handler.body)
            end.merge(self.state)
            self.state = end
        dead, self.state.dead = self.state.dead, False
        self.block(node.finalbody)
        self.state.dead = self.state.dead or dead

    def _match(self, node: ast.Match) -> None:
        self.ev(node.subject)
        self._branches(*[case.body for case in node.cases], [])

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            value = self.ev(node.value)
            self.returns.append(self._resolved(value))
            if value.kind in (Kind.MODULE, Kind.PART) and not isinstance(node.value, ast.Call):
                self.emit(What.USE, node.value, value, path_of(node.value), detail="returned")
        self.state.dead = True

    def _resolved(self, value: Value) -> Value:
        """A value with the present places of the modules in it."""
        if value.kind is Kind.MODULE:
            return replace(value, place=self.state.place(value))
        if value.items is not None:
            return replace(value, items=tuple(self._resolved(item) for item in value.items))
        return value

    def _ends(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Raise) and node.exc is not None:
            self.ev(node.exc)
        self.state.dead = True

    def _assert(self, node: ast.Assert) -> None:
        self.ev(node.test)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            path = path_of(target)
            if path:
                self.state.bind(path, UNKNOWN)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.ev(decorator)
        self.nested.append(node)
        self.state.bind(node.name, Value(Kind.FUNCTION, node=node, name=node.name))

    def _class(self, node: ast.ClassDef) -> None:
        self.program.add_class(node)
        self.state.bind(node.name, Value(Kind.CLASS, node=node, name=node.name))

    # --- expressions ---------------------------------------------------------------------

    def ev(self, node: ast.expr) -> Value:
        handler = _EXPRESSIONS.get(node.__class__)
        if handler is None:
            return UNKNOWN
        value: Value = handler(self, node)
        if value is not UNKNOWN:
            self.values[node] = value
        return value

    def _name(self, node: ast.Name) -> Value:
        value = self.state.names.get(node.id)
        if value is not None:
            return value
        if looks_like_device(node.id) and node.id not in self.source.imports:
            place = Place(Where.SYMBOL, node.id, fresh_identity(), node)
            value = Value(Kind.DEVICE, place, node=node, sure=False)
            self.state.names[node.id] = value
            return value
        return UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Value:
        names = self.state.names
        path = path_of(node)
        if path:
            value = names.get(path)
            if value is not None:
                return value
        base = self.ev(node.value)
        kind, attribute = base.kind, node.attr
        if kind is Kind.ANY:
            if attribute == "device" and base.place.where is Where.OF:
                return self.device_of(node, base)
            if not path or not looks_like_device(path):
                return NUMBER if attribute in torch_api.NOT_TENSOR else replace(base, identity=0)
        elif kind is Kind.TENSOR or kind is Kind.BATCH:
            if attribute == "device":
                return self.device_of(node, base)
            if attribute in _SAME_TENSOR:
                return base
            if attribute in torch_api.NOT_TENSOR:
                return NUMBER
            if kind is Kind.BATCH and base.fields and attribute in base.fields:
                return base.fields[attribute]
            # What a batch object holds may have been moved beforehand; only a loader in view tells.
            place = base.place if base.sure or kind is Kind.TENSOR else UNPLACED
            return Value(Kind.TENSOR, place, node=node, source=base.source, sure=False)
        elif kind is Kind.MODULE or kind is Kind.PART:
            if attribute == "device":
                return self.device_of(node, base)
            if attribute in ("weight", "bias", "data", "grad"):
                return Value(Kind.TENSOR, self.state.place(base), node=node, sure=base.sure)
            if attribute in ("training", "config", "dtype"):
                return UNKNOWN
            if not looks_like_device(path):
                return Value(Kind.PART, base.place, base.identity, node, attribute, sure=base.sure)
        elif kind is Kind.DEVICE:
            return Value(Kind.STRING, node=node, name="device.type") if attribute == "type" else UNKNOWN
        elif kind is Kind.INSTANCE:
            value = self.program.attribute(base, attribute)
            if value.kind is not Kind.UNKNOWN:
                return value
        if not path or path.partition(".")[0] in self.source.imports:
            return UNKNOWN
        if looks_like_device(path):
            value = Value(Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False)
            if kind is Kind.OWNER:
                value.form = "object"
            self.state.put(path, value)
            return value
        if self.program.evidence.used_as_module(path):
            value = Value(Kind.MODULE, UNPLACED, fresh_identity(), node, sure=False)
            self.state.put(path, value)
            return value
        return UNKNOWN

    def _subscript(self, node: ast.Subscript) -> Value:
        path = path_of(node)
        if path:
            value = self.state.names.get(path)
            if value is not None:
                return value
        base = self.ev(node.value)
        index = node.slice
        if not isinstance(index, ast.Constant):
            self.ev(index)
        kind = base.kind
        if kind is Kind.TENSOR:
            return Value(Kind.TENSOR, base.place, node=node, source=base.source, sure=base.sure, name=base.name)
        if kind is Kind.BATCH or base.items is not None:
            key = index.value if isinstance(index, ast.Constant) else None
            if base.fields is not None and isinstance(key, str):
                return base.fields.get(key, UNKNOWN)
            if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
                return base.items[key]
            if isinstance(index, ast.Slice):
                return base
            return self.element(base)
        if kind is Kind.MODULE or kind is Kind.PART:
            return Value(Kind.PART, base.place, base.identity, node, sure=base.sure)
        if kind is Kind.ANY:
            return replace(base, identity=0)
        if path and looks_like_device(path.replace('["', ".").rstrip('"]')):
            value = Value(Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False)
            self.state.put(path, value)
            return value
        return UNKNOWN

    def _constant(self, node: ast.Constant) -> Value:
        content = node.value
        if content.__class__ is str:
            return Value(Kind.STRING, node=node, text=content) if len(content) < 40 else UNKNOWN
        return UNKNOWN

    def _joined(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.ev(part.value)
        head = node.values[0] if node.values else None
        if isinstance(head, ast.Constant) and torch_api.device_literal(str(head.value)) == "accelerator":
            place = Place(Where.ACCELERATOR, self.source.code(node), fresh_identity(), node)
            return Value(Kind.DEVICE, place, node=node, form="string")
        return UNKNOWN

    def _binary(self, node: ast.BinOp) -> Value:
        # Long sums are deep on the left: unroll them.
        operands: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            operands.append(left.right)
            left = left.left
        result, previous = self.ev(left), left
        for right in reversed(operands):
            value = self.ev(right)
            if result.kind in CARRIERS or value.kind in CARRIERS:
                result = self.combine(right, [(previous, result, ""), (right, value, "")], "operator")
            elif result.kind is not Kind.STRING or value.kind is not Kind.STRING:
                result = UNKNOWN
            previous = right
        return result

    def _bool(self, node: ast.BoolOp) -> Value:
        values = [self.ev(part) for part in node.values]
        result = self.as_device(values[-1]) or values[-1]
        for value in values[:-1]:
            result = join(self.as_device(value) or value, result)
        return result

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.ev(node.operand)
        return value if value.kind is Kind.TENSOR else UNKNOWN

    def _compare(self, node: ast.Compare) -> Value:
        values = [(part, self.ev(part), "") for part in (node.left, *node.comparators)]
        if any(value.kind is Kind.TENSOR for _, value, _ in values):
            return self.combine(node, values, "comparison")
        return UNKNOWN

    def _conditional(self, node: ast.IfExp) -> Value:
        self.ev(node.test)
        body, other = self.ev(node.body), self.ev(node.orelse)
        if body.kind is Kind.STRING and other.kind is Kind.STRING and body.text == other.text:
            return body
        one, two = self.as_device(body), self.as_device(other)
        if one is not None and two is not None:
            return join(one, two)
        return join(body, other)

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items = tuple(self.ev(item) for item in node.elts)
        known = any(item.kind is not Kind.UNKNOWN for item in items)
        if not known:
            return Value(Kind.ARRAY, node=node, source="a list") if isinstance(node, ast.List) else UNKNOWN
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return UNKNOWN
        carries = any(item.kind in CARRIERS for item in items)
        return Value(Kind.BATCH if carries else Kind.ARRAY, node=node, items=items, source="a list")

    def _dict(self, node: ast.Dict) -> Value:
        fields: dict[str, Value] = {}
        carries = False
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.ev(item)
            carries = carries or value.kind in CARRIERS
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                fields[key.value] = value
        return Value(Kind.BATCH, node=node, fields=fields) if carries else UNKNOWN

    def _comprehension(self, node: Any) -> Value:
        saved = dict(self.state.names)
        for part in node.generators:
            self.assign(part.target, self.element(self.ev(part.iter)), None)
            for test in part.ifs:
                self.ev(test)
        element = self.ev(node.value if isinstance(node, ast.DictComp) else node.elt)
        self.state.names = saved
        if element.kind in CARRIERS or element.kind is Kind.ANY and element.place.on_device:
            return Value(Kind.BATCH, element.place, node=node, source=element.source, element=element)
        if element.kind in (Kind.MODULE, Kind.PART):
            return Value(Kind.ARRAY, node=node, element=element)
        return UNKNOWN

    def _starred(self, node: ast.Starred) -> Value:
        return self.ev(node.value)

    def _await(self, node: ast.Await) -> Value:
        return self.ev(node.value)

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.ev(node.value)
        self.assign(node.target, value, node.value)
        return value

    def _yield(self, node: ast.Yield) -> Value:
        if node.value is not None:
            self.ev(node.value)
        return UNKNOWN

    def element(self, value: Value) -> Value:
        """What iterating over a value gives, or unpacking it."""
        kind = value.kind
        if value.element is not None:
            return value.element
        if value.items is not None:
            result = value.items[0] if value.items else UNKNOWN
            for item in value.items[1:]:
                result = join(result, item)
            return result
        if kind is Kind.LOADER:
            return Value(Kind.BATCH, value.place, node=value.node, source=f"a batch of {value.source}", sure=value.sure)
        if kind is Kind.TENSOR:
            return value
        if kind is Kind.ANY:
            return replace(value, identity=0)
        if kind is Kind.BATCH:
            return Value(Kind.TENSOR, value.place, node=value.node, source=value.source, sure=False)
        if kind is Kind.PART or kind is Kind.MODULE:
            return Value(Kind.PART, value.place, value.identity, value.node, sure=value.sure)
        return UNKNOWN


_STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Expr: Interpreter._expr,
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._ann_assign,
    ast.AugAssign: Interpreter._aug_assign,
    ast.If: Interpreter._if,
    ast.For: Interpreter._for,
    ast.AsyncFor: Interpreter._for,
    ast.While: Interpreter._while,
    ast.With: Interpreter._with,
    ast.AsyncWith: Interpreter._with,
    ast.Try: Interpreter._try,
    ast.Match: Interpreter._match,
    ast.Return: Interpreter._return,
    ast.Assert: Interpreter._assert,
    ast.Delete: Interpreter._delete,
    ast.FunctionDef: Interpreter._function,
    ast.AsyncFunctionDef: Interpreter._function,
    ast.ClassDef: Interpreter._class,
    **{kind: Interpreter._ends for kind in _ENDS if kind is not ast.Return},
}
if hasattr(ast, "TryStar"):  # Python 3.11
    _STATEMENTS[ast.TryStar] = Interpreter._try
_EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Name: Interpreter._name,
    ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript,
    ast.Call: Interpreter.call,
    ast.Constant: Interpreter._constant,
    ast.JoinedStr: Interpreter._joined,
    ast.BinOp: Interpreter._binary,
    ast.BoolOp: Interpreter._bool,
    ast.UnaryOp: Interpreter._unary,
    ast.Compare: Interpreter._compare,
    ast.IfExp: Interpreter._conditional,
    ast.Tuple: Interpreter._sequence,
    ast.List: Interpreter._sequence,
    ast.Set: Interpreter._sequence,
    ast.Dict: Interpreter._dict,
    ast.ListComp: Interpreter._comprehension,
    ast.SetComp: Interpreter._comprehension,
    ast.GeneratorExp: Interpreter._comprehension,
    ast.DictComp: Interpreter._comprehension,
    ast.Starred: Interpreter._starred,
    ast.Await: Interpreter._await,
    ast.NamedExpr: Interpreter._walrus,
    ast.Yield: Interpreter._yield,
    ast.YieldFrom: Interpreter._yield,
}
