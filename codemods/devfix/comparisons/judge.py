"""Comparisons that can never hold, or that raise, and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.bindings import function_around
from devfix.comparisons.candidates import EQUAL, IN, IS
from devfix.comparisons.kinds import INDEXED, TYPES, Kinds, Sure
from devfix.engine.forms import WRONG_TYPES
from devfix.flow.frame import path_of

_COMMON = ("cuda", "mps", "xpu")


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a comparison, and its replacement; `raises` if it raises as it is."""

    node: ast.expr
    why: str
    text: str = ""
    raises: bool = False


class Judge:
    """Looks at the comparisons of one file."""

    def __init__(self, kinds: Kinds, torch: str) -> None:
        self.kinds = kinds
        self.source = kinds.source
        self.torch = torch

    def judge(self, nodes: tuple[ast.expr, ...]) -> Iterator[Verdict]:
        """What is wrong with these comparisons, and with calls of `startswith`."""
        for node in nodes:
            found = None
            if isinstance(node, ast.Compare):
                found = self._compare(node, node.left, node.ops[0], node.comparators[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found = self._startswith(node, node.func.value, node.args[0])
            if found is not None:
                yield found

    def _compare(self, node: ast.Compare, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Verdict | None:
        if isinstance(op, (*EQUAL, *IS)):
            for one, other, swapped in ((left, right, False), (right, left, True)):
                found = self._equal(node, one, op, other, swapped)
                if found is not None:
                    return found
        elif isinstance(op, IN):
            return self._among(node, left, op, right) or self._inside(node, left, op, right)
        return None

    # --- equality --------------------------------------------------------------------------

    def _equal(
        self, node: ast.Compare, one: ast.expr, op: ast.cmpop, other: ast.expr, swapped: bool
    ) -> Verdict | None:
        """`one` is taken for the device, `other` for what it is compared with."""
        if isinstance(other, ast.Constant) and isinstance(other.value, str):
            return self._with_text(node, one, op, other.value)
        if isinstance(other, ast.UnaryOp):
            return self._with_minus_one(node, one, op, other)
        if isinstance(other, ast.Name) and other.id in TYPES and self._unbound(other.id):
            if self.kinds.device(one) is not Sure.NO:
                text = f'{self._type(one)} {_sign(op)} "{other.id}"'
                return Verdict(node, f"`{other.id}` is a name that nothing binds", text, raises=True)
            return None
        if isinstance(op, IS):
            return self._identity(node, one, op, other)
        return self._with_device(node, one, op, other)

    def _with_text(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, text: str) -> Verdict | None:
        kind, _, index = text.partition(":")
        kind = WRONG_TYPES.get(kind, kind)
        if kind not in TYPES or (index and not index.isdigit()):
            return None
        if isinstance(one, ast.Attribute) and one.attr == "type":
            return self._type_with_text(node, one, op, text)
        inner = self._str_of(one)
        if inner is not None:
            return self._printed(node, inner, op, text)
        sure = self.kinds.device(one)
        path = path_of(one)
        if sure is Sure.NO:
            return self._no_such_type(node, one, op, text)
        if path and self.kinds.proof.told_apart(node, path):
            return None
        shown = self.source.code(one)
        why = f'`{shown}` {_is(sure)} a torch.device, which never equals the string "{text}"'
        if index and kind != "cpu":
            device = f'{self.torch}.device("{kind}:{index}")'
            target = shown if sure is Sure.YES else f"{self.torch}.device({shown})"
            return Verdict(node, why, f"{target} {_sign(op)} {device}")
        return Verdict(node, why, f'{self._type(one)} {_sign(op)} "{kind}"')

    def _type_with_text(
        self, node: ast.Compare, one: ast.Attribute, op: ast.cmpop, text: str
    ) -> Verdict | None:
        """`device.type == "cuda:0"`, `device.type == "gpu"`."""
        kind, _, index = text.partition(":")
        device = one.value
        if not index and kind not in WRONG_TYPES:
            return None
        if self.kinds.device(device) is Sure.NO and not path_of(device).endswith("device"):
            return None
        kind = WRONG_TYPES.get(kind, kind)
        why = f'`{self.source.code(one)}` is never "{text}": a type is "{kind}", without an index'
        if index not in ("", "0") and kind in INDEXED:
            return Verdict(node, why, f'{self.source.code(device)} {_sign(op)} {self.torch}.device("{text}")')
        return Verdict(node, why, f'{self.source.code(one)} {_sign(op)} "{kind}"')

    def _printed(self, node: ast.Compare, inner: ast.expr, op: ast.cmpop, text: str) -> Verdict | None:
        """`str(x.device) == "cuda"`: of a tensor it is "cuda:0"."""
        if text not in INDEXED or not self._may_have_index(inner, text):
            return None
        if self.kinds.proof.told_apart(inner, path_of(inner)):
            return None
        why = f'`str({self.source.code(inner)})` may have an index: "{text}:0" is not "{text}"'
        return Verdict(node, why, f'{self._type(inner)} {_sign(op)} "{text}"')

    def _may_have_index(self, device: ast.expr, text: str) -> bool:
        """Is it a tensor's device, or one from elsewhere of which `str()` says that it is no string?"""
        spelled = self.kinds.spellings(device)
        if spelled is None:
            return (
                text in _COMMON
                and isinstance(device, (ast.Name, ast.Attribute))
                and "device" in path_of(device)
            )
        return "*" in spelled and not spelled & INDEXED

    def _no_such_type(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, text: str) -> Verdict | None:
        """`device == "gpu"`, where the same device is given to torch, which knows no such type."""
        path = path_of(one)
        if text not in WRONG_TYPES or not path or not self._given_to_torch(path, node):
            return None
        kind = WRONG_TYPES[text]
        why = f'`{path}` is given to torch, which has no device "{text}"'
        return Verdict(node, why, f'{self.torch}.device({path}).type {_sign(op)} "{kind}"')

    def _given_to_torch(self, path: str, at: ast.AST) -> bool:
        """Is it the target of a `.to(...)`, and bound but once: not "gpu" here and "cuda" there?"""
        if len(self.kinds.bindings.of(path, at)) > 1 or self.kinds.proof.told_apart(at, path):
            return False
        bound = [binding.value for binding in self.kinds.bindings.of(path, at) if binding.value is not None]
        if any(path in ast.unparse(value) for value in bound):
            return False
        for call in self.kinds.forms.calls.get("to", ()):
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
            if any(path_of(argument) == path for argument in given):
                return True
        return False

    def _with_minus_one(
        self, node: ast.Compare, one: ast.expr, op: ast.cmpop, other: ast.UnaryOp
    ) -> Verdict | None:
        """`device != -1`, as torchtext once wrote the CPU, where the device is a string or torch.device."""
        if ast.unparse(other) != "-1" or not isinstance(op, EQUAL):
            return None
        path = path_of(one)
        if self.kinds.device(one) is Sure.YES:
            why = f"`{path or self.source.code(one)}` is a torch.device, which never equals -1"
            return Verdict(node, why, f'{self._type(one)} {_sign(op)} "cpu"')
        if not path.rpartition(".")[2].endswith("device") or self.kinds.proof.told_apart(node, path):
            return None
        function = function_around(self.source, node)
        if function is None or not self._compared_with_text(function, path, node):
            return None
        why = f"`{path}` is a string elsewhere in this function, and never equals -1"
        return Verdict(node, why, f'{self.source.code(one)} {_sign(op)} "cpu"')

    def _compared_with_text(self, function: ast.AST, path: str, node: ast.AST) -> bool:
        """Is the path compared with a device's name in the function, and never with another number?"""
        text = False
        for other in self.source.walk(function):
            if not isinstance(other, ast.Compare) or other is node or path_of(other.left) != path:
                continue
            against = other.comparators[0]
            if isinstance(against, ast.Constant):
                if not isinstance(against.value, str):
                    return against.value is None and text
                text = text or against.value.partition(":")[0] in TYPES
            if self.source.parents.get(other) is self.source.parents.get(node):
                return False  # both are asked for in one condition
        return text

    def _identity(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, other: ast.expr) -> Verdict | None:
        """`x.device is device`: every read of a tensor's device makes a new object."""
        if isinstance(other, ast.Constant) or self.kinds.device(one) is not Sure.YES:
            return None
        if self.kinds.spellings(one) != frozenset({"*"}) and self.kinds.device(other) is not Sure.YES:
            return None
        sign = "==" if isinstance(op, ast.Is) else "!="
        shown = self.source.code(one)
        why = f"`{shown}` is a new object at every read: devices are compared by value"
        return Verdict(
            node, why, f"{self.source.code(node.left)} {sign} {self.source.code(node.comparators[0])}"
        )

    def _with_device(
        self, node: ast.Compare, one: ast.expr, op: ast.cmpop, other: ast.expr
    ) -> Verdict | None:
        """`x.device == torch.device("cuda")`: a tensor's device has an index."""
        if isinstance(one, ast.Attribute) and one.attr == "type":
            return self._type_with_device(node, one, op, other)
        if self.kinds.spellings(one) != frozenset({"*"}) or self.kinds.device(other) is not Sure.YES:
            return None
        spelled = self.kinds.spellings(other)
        if not spelled or not spelled & INDEXED or any(":" in text or text == "*" for text in spelled):
            return None
        shown = self.source.code(one)
        kind = next(iter(sorted(spelled & INDEXED)))
        why = f'`{shown}` has an index, as in "{kind}:0", and `{self.source.code(other)}` has none'
        if len(spelled) == 1 and isinstance(other, ast.Call):
            return Verdict(node, why, f'{shown}.type {_sign(op)} "{kind}"')
        return Verdict(node, why, f"{shown}.type {_sign(op)} {self.source.code(other)}.type")

    def _type_with_device(
        self, node: ast.Compare, one: ast.Attribute, op: ast.cmpop, other: ast.expr
    ) -> Verdict | None:
        """`x.device.type == torch.device("cuda")`, `x.device.type == device`."""
        if self.kinds.device(one.value) is Sure.NO or self.kinds.device(other) is not Sure.YES:
            return None
        why = f"`{self.source.code(one)}` is a string, which never equals a torch.device"
        return Verdict(node, why, f"{self.source.code(one)} {_sign(op)} {self.source.code(other)}.type")

    # --- membership ------------------------------------------------------------------------

    def _among(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, many: ast.expr) -> Verdict | None:
        """`device in ("cuda", "mps")` for a torch.device."""
        items = self._elements(many)
        if items is None:
            return None
        constants = [item.value for item in items if isinstance(item, ast.Constant)]
        texts = [value for value in constants if isinstance(value, str)]
        if len(texts) != len(items) or not any(text.partition(":")[0] in TYPES for text in texts):
            return None
        sign = "in" if isinstance(op, ast.In) else "not in"
        inner = self._str_of(one)
        shown, listed = self.source.code(one), self.source.code(many)
        if inner is not None:
            bare = [text for text in texts if text in INDEXED]
            if not bare or any(":" in text for text in texts):
                return None
            if self.kinds.spellings(inner) is None or not self._may_have_index(inner, bare[0]):
                return None
            why = f'`{shown}` has an index, as in "{bare[0]}:0"'
            return Verdict(node, why, f"{self._type(inner)} {sign} {listed}")
        sure = self.kinds.device(one)
        path = path_of(one)
        if sure is Sure.NO or (path and self.kinds.proof.told_apart(node, path)):
            return None
        why = f"`{shown}` {_is(sure)} a torch.device, which never equals a string"
        if any(":" in text for text in texts):
            return Verdict(node, why, f"str({shown}) {sign} {listed}")
        if any(text not in TYPES for text in texts):
            return Verdict(node, why) if sure is Sure.YES else None
        return Verdict(node, why, f"{self._type(one)} {sign} {listed}")

    def _elements(self, many: ast.expr) -> list[ast.expr] | None:
        if isinstance(many, ast.Name):
            bindings = self.kinds.bindings.of(many.id, many)
            if len(bindings) != 1 or bindings[0].value is None or bindings[0].parameter:
                return None
            many = bindings[0].value
        return many.elts if isinstance(many, (ast.Tuple, ast.List, ast.Set)) else None

    def _inside(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, device: ast.expr) -> Verdict | None:
        """`"cuda" in device` for a torch.device: a TypeError."""
        if not isinstance(one, ast.Constant) or not isinstance(one.value, str):
            return None
        kind, _, index = one.value.partition(":")
        if self.kinds.device(device) is not Sure.YES or self.kinds.proof.told_apart(node, path_of(device)):
            return None
        shown = self.source.code(device)
        why = f"`{shown}` is a torch.device, for which `in` raises TypeError"
        if one.value == ":":
            sign = "is not" if isinstance(op, ast.In) else "is"
            return Verdict(node, why, f"{shown}.index {sign} None", raises=True)
        if WRONG_TYPES.get(kind, kind) not in TYPES:
            return None
        sign = "==" if isinstance(op, ast.In) else "!="
        if index.isdigit():
            return Verdict(node, why, f'{shown} {sign} {self.torch}.device("{one.value}")', raises=True)
        return Verdict(node, why, f'{shown}.type {sign} "{WRONG_TYPES.get(kind, kind)}"', raises=True)

    def _startswith(self, node: ast.Call, device: ast.expr, text: ast.expr) -> Verdict | None:
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            return None
        kind = text.value.rstrip(":")
        if kind not in TYPES or self.kinds.device(device) is not Sure.YES:
            return None
        if self.kinds.proof.told_apart(node, path_of(device)):
            return None
        shown = self.source.code(device)
        new = f'{shown}.type == "{kind}"'
        if isinstance(self.source.parents[node], (ast.Compare, ast.BinOp, ast.Attribute, ast.Await)):
            new = f"({new})"
        return Verdict(node, f"`{shown}` is a torch.device and has no `startswith`", new, raises=True)

    # --- small things ----------------------------------------------------------------------

    def _type(self, device: ast.expr) -> str:
        """How to write the type of a device: right for a string as well where it may be one."""
        shown = self.source.code(device)
        return (
            f"{shown}.type" if self.kinds.device(device) is Sure.YES else f"{self.torch}.device({shown}).type"
        )

    def _str_of(self, node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.Call) and path_of(node.func) == "str" and len(node.args) == 1:
            return node.args[0]
        if isinstance(node, ast.JoinedStr) and len(node.values) == 1:
            part = node.values[0]
            return part.value if isinstance(part, ast.FormattedValue) else None
        return None

    def _unbound(self, name: str) -> bool:
        """Does nothing in the file bind a name?"""
        if name in self.source.imports or "*" in {
            key.rpartition(".")[2] for key in self.source.imports.values()
        }:
            return False
        for node in self.source.walk():
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                return False
            if isinstance(node, ast.arg) and node.arg == name:
                return False
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
                return False
        return True


def _sign(op: ast.cmpop) -> str:
    return "==" if isinstance(op, (ast.Eq, ast.Is)) else "!="


def _is(sure: Sure) -> str:
    return "is" if sure is Sure.YES else "seems to be"
