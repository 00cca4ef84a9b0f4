"""One pass over a scope, statement by statement, with branches joined.

A loop body is run once, from the state before it: what goes wrong there goes wrong in the first
round. Names bound in a comprehension or a branch that ends (return, raise) do not leak.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devfix.flow import frameworks, torch_api
from devfix.flow.events import Scope, What
from devfix.flow.evidence import (
    looks_like_device,
    looks_like_loader,
    looks_like_module,
    looks_like_network,
    looks_like_pipeline,
    makes_device_batches,
)
from devfix.flow.expressions import Expressions
from devfix.flow.frame import path_of
from devfix.flow.lattice import (
    CARRIERS,
    UNKNOWN,
    UNPLACED,
    Kind,
    Place,
    State,
    Value,
    Where,
    fresh_identity,
    join,
    replace,
)

if TYPE_CHECKING:
    from devfix.flow.program import Program

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_EXITS = frozenset({"exit", "sys.exit", "quit", "os._exit"})


class Interpreter(Expressions):
    """Interprets one scope; the events go to `scope.events`, the values of expressions to the program."""

    def __init__(self, program: Program, scope: Scope, state: State) -> None:
        self.program = program
        self.source = program.source
        self.scope = scope
        program.made.append(scope)
        self.state = state
        self.values = program.values
        self.statement: ast.stmt = ast.Pass()
        self.returns: list[Value] = []
        self.yields = []
        self.nested: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.state.dead:
                return
            handler = _STATEMENTS.get(statement.__class__)
            if handler is not None:
                self.statement = statement
                handler(self, statement)

    def returned(self) -> Value | None:
        """What the scope returns; of a generator, something that gives what it yields."""
        found = None
        for value in self.yields or self.returns:
            found = value if found is None else join(found, value)
        return Value(Kind.ARRAY, element=found) if self.yields else found

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
            moved = replace(
                batch, place=UNPLACED, element=self.element(batch), items=None, fields=batch.fields
            )
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
            return Value(Kind.DEVICE, place, node=value.node, form="string", text=value.text, name=value.name)
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
            used = evidence.used_as_module(path)
            if (used or looks_like_network(last)) and not looks_like_loader(path):
                place = self.device_argument(call)
                if place is None:
                    made = last[:1].isupper() and not self.program.mentions_device(last)
                    place = Place(Where.DEFAULT, node=call) if made else UNPLACED
                sure = used and last[:1].isupper()
                return Value(Kind.MODULE, place, fresh_identity(), call, name, sure=sure)
            place = self.device_argument(call)
            on_cpu = place is not None and place.where is Where.CPU
            if name == "torch.load" and on_cpu and evidence.used_as_tensor(path):
                default = self.program.default_place(call)
                return Value(Kind.TENSOR, default, node=call, source="a loaded tensor", sure=False)
            if place is not None and place.on_device and looks_like_module(path):
                return Value(Kind.MODULE, place, fresh_identity(), call, name, sure=False)
            if looks_like_device(path):
                place = Place(Where.SYMBOL, path, fresh_identity(), call)
                return Value(Kind.DEVICE, place, node=call, sure=False)
            prepared = any(
                self.values.get(k.value, UNKNOWN).kind is Kind.OWNER for k in call.keywords
            ) or any(self.values.get(argument, UNKNOWN).kind is Kind.OWNER for argument in call.args)
            prepared = prepared or self.program.prepared or last in frameworks.PLACING_METHODS
            prepared = prepared or last in frameworks.LOADER_MAKERS
            if looks_like_loader(path) and place is None and not prepared and not makes_device_batches(last):
                default = self.program.default_place(call)
                return Value(Kind.LOADER, default, node=call, source=f"`{path}`", sure=False)
        elif looks_like_device(path):
            return Value(
                Kind.DEVICE, Place(Where.SYMBOL, path, fresh_identity(), node), node=node, sure=False
            )
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
        elsewhere = False
        for item in node.items:
            value = self.ev(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, item.context_expr)
            # `with torch.device("cuda"):` changes where things are made.
            elsewhere = elsewhere or value.kind is Kind.DEVICE
        known = self.program.default_known
        self.program.default_known = known and not elsewhere
        self.block(node.body)
        self.program.default_known = known

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
