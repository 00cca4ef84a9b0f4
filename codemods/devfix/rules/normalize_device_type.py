"""Autocast wants the type of a device: "cuda", never "cuda:0" and never a torch.device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.autocast import Api, AutocastCall, AutocastCalls, keyword_arguments, names_a_type
from devfix.autocast_device import Nearby, NearbyDevices
from devfix.codemod import Codemod, Example
from devfix.device_forms import STRINGS, DeviceForms, Form, Forms
from devfix.findings import (
    AppendCall,
    Edit,
    EnsureImport,
    Finding,
    Related,
    ReplaceExpression,
    Safety,
    SetArgument,
    WrapExpression,
)
from devfix.flow import Flow
from devfix.flow.calls import path_of
from devfix.flow.evidence import looks_like_device
from devfix.flow.torch_api import ACCELERATORS, device_literal
from devfix.placing import around
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_AVAILABLE = ("torch.cuda.is_available", "torch.accelerator.is_available")


@dataclass(frozen=True)
class NormalizeDeviceType(Codemod):
    """autocast and GradScaler get a device type, not a device.

    What it does:
        Looks at the device type of every `torch.autocast`, `torch.amp.autocast`, `torch.cuda.amp.autocast`
        and `GradScaler` call, in any spelling: aliases, decorators, `partial(...)`, functions and
        classes of the file that forward to them, and wrappers such as `TorchAutocast(device_type=...)`.
        A device that may be "cuda:0" or a torch.device becomes `torch.device(d).type`, which is right
        for strings, torch.device objects and ranks alike, or `d.type` where `d` is certainly a
        torch.device. Slices, `str(d)` and `.replace(":0", "")` are replaced by the same.
        A type that is written down ("cuda", `torch.cuda.amp.autocast()`) becomes that of the data
        where a device is at hand and the code is otherwise open to any device.

    Why is this bad?
        `torch.autocast(torch.device("cuda"))` raises: ValueError ("Expected `device_type` of type
        `str`") in torch 2.6 and later, TypeError before. `torch.autocast("cuda:0")` raises "User
        specified an unsupported autocast device_type 'cuda:0'" in torch 2.3 and before; later ones
        accept it, but compare `.device` with "cuda" and skip their checks. `device[-1]`, another way to
        cut the index off, gives "0". A hard-coded "cuda" runs in full precision, with a warning,
        wherever the data is not on a CUDA device: on the CPU, on mps, on xpu.

    Fix safety:
        Safe where only the form of the argument changes. Unsafe where a hard-coded "cuda" starts to
        follow the data: on the CPU autocast was off and will be on, in bfloat16, so results differ
        in the last digits. Without a fix where autocast is a decorator, since a decorator runs before
        there is any data. `from torch.cuda.amp import autocast` stays, even where nothing uses it
        any more: other files may import it from there.
    """

    id: ClassVar[str] = "normalize-device-type"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("autocast", "Autocast", "GradScaler"),)
    examples: ClassVar[tuple[Example, ...]] = ()

    def check(self, flow: Flow) -> Iterator[Finding]:
        judge = _Judge(self, flow)
        for call in judge.calls:
            yield from judge.call(call)
        yield from judge.membership()


class _Judge:
    """The check of one file."""

    def __init__(self, codemod: NormalizeDeviceType, flow: Flow) -> None:
        self.codemod = codemod
        self.flow = flow
        self.source: Source = flow.source
        self.forms = DeviceForms(flow)
        self.nearby = NearbyDevices(self.forms)
        self.calls: list[AutocastCall] = AutocastCalls(self.forms).find()
        names = [local for local, what in self.source.imports.items() if what == "torch"]
        self.torch = "torch" if "torch" in names or not names else names[0]
        self.imports: tuple[Edit, ...] = () if names else (EnsureImport("torch"),)

    def call(self, call: AutocastCall) -> Iterator[Finding]:
        argument = call.argument
        if argument is None:
            if call.api is Api.CUDA_AUTOCAST:
                yield from self._hard_coded(call)
            return
        found = list(self._argument(call, argument))
        yield from found
        if not found and call.api is Api.AUTOCAST:
            if isinstance(argument, ast.Constant) and argument.value == "cuda":
                yield from self._hard_coded(call)
            elif self._by_availability(self._value(argument)):
                yield from self._availability(call, argument)

    # --- the form of the argument --------------------------------------------------------

    def _argument(self, call: AutocastCall, node: ast.expr) -> Iterator[Finding]:
        """What is wrong with a device type expression, or with one arm of it."""
        if isinstance(node, ast.IfExp):
            for arm in (node.body, node.orelse):
                yield from self._argument(call, arm)
        elif path_of(node) and self._tested(node, path_of(node)):
            return  # told apart by isinstance
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            yield from self._literal(call, node)
        elif isinstance(node, ast.Attribute) and node.attr == "type":
            yield from self._type_of(call, node)
        else:
            device = self._cut_down(node) or node
            forms = self.forms.of(device)
            if device is node and not self._may_be_wrong(node, forms, call):
                return
            if device is not node and not self._cut_wrongly(node, device, forms):
                return
            yield self._normalized(call, node, device, forms)

    def _may_be_wrong(self, node: ast.expr, forms: Forms, call: AutocastCall) -> bool:
        if call.api is Api.SCALER:  # takes anything, and keeps it: only what is certainly no type counts
            return forms <= {Form.OBJECT, Form.INDEXED} and bool(forms)
        if not forms or forms == {Form.TYPE}:
            return False
        if call.api is Api.ASKING:  # reads "cuda:0" as "cuda", and rejects a torch.device
            return forms == {Form.OBJECT}
        path = path_of(node)
        if Form.OBJECT in forms or Form.INDEXED in forms:
            return True
        if isinstance(node, ast.Call) or names_a_type(path):
            return False
        parts = node.values if isinstance(node, ast.BoolOp) else [node]
        return any(looks_like_device(_plain(path_of(part))) for part in parts)

    def _cut_down(self, node: ast.expr) -> ast.expr | None:
        """The device that is cut down to a type by hand: `str(d)`, `d[-1]`, `d.split(":")[0]`."""
        if isinstance(node, ast.Call):
            if path_of(node.func) == "str" and len(node.args) == 1:
                return self._cut_down(node.args[0]) or node.args[0]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
                return self._inner(node.func.value)
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                if node.value.func.attr in ("split", "partition", "rsplit"):
                    return node.value.func.value
            index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
            number = isinstance(index, ast.Constant) and isinstance(index.value, int)
            if isinstance(node.slice, ast.Slice) or number:
                inner = self._inner(node.value)
                return inner if looks_like_device(_plain(path_of(inner))) else None
        return None

    def _inner(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Call) and path_of(node.func) == "str" and len(node.args) == 1:
            return node.args[0]
        return node

    def _cut_wrongly(self, node: ast.expr, device: ast.expr, forms: Forms) -> bool:
        if forms == {Form.TYPE} or (isinstance(device, ast.Attribute) and device.attr == "type"):
            return False
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            return forms == {Form.OBJECT}  # right for strings, and only for them
        known = bool(forms & {Form.OBJECT, Form.INDEXED})
        return known or looks_like_device(_plain(path_of(device)))

    def _normalized(self, call: AutocastCall, node: ast.expr, device: ast.expr, forms: Forms) -> Finding:
        exact = forms == {Form.OBJECT}
        span = self.source.span(node)
        edit: Edit
        if device is not node:
            code = self.source.code(device)
            text = f"{code}.type" if exact and _is_primary(device) else f"{self.torch}.device({code}).type"
            edit = ReplaceExpression(span, text)
        elif exact:
            edit = AppendCall(span, ".type")
        else:
            edit = WrapExpression(span, f"{self.torch}.device(", ").type")
        code = self.source.code(device)
        shown = code if len(code) <= 40 else "the device"
        title = f"use the type of `{shown}`"
        edits = (edit,) if exact else (edit, *self.imports)
        related = self._origin(device)
        return self.codemod.finding(span, self._message(call, node, device, forms, related), title=title,
                                    edits=edits, related=related)  # fmt: skip

    def _message(
        self, call: AutocastCall, node: ast.expr, device: ast.expr, forms: Forms, related: tuple[Related, ...]
    ) -> str:
        wants = f'`{call.name.rpartition(".")[2]}` wants a device type such as "cuda"'
        code = self.source.code(device)
        shown = f"`{code}`" if len(code) <= 60 else "this device"
        where = f" (set on line {self.source.position(related[0].span.start)[0]})" if related else ""
        if device is not node and isinstance(node, ast.Subscript):
            if Form.OBJECT in forms:
                return f"{wants}; {shown}{where} is a torch.device, which cannot be cut like a string"
            return f"{wants}; a part of {shown}{where} is not one for every device"
        if device is not node and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return f'{wants}; this is right for "cuda:0" only, and {shown}{where} can be "cuda:1"'
        if device is not node:
            return f'{wants}; the string of {shown}{where} can be "cuda:0"'
        if forms == {Form.OBJECT}:
            return f"{wants}; {shown}{where} is a torch.device"
        if forms & STRINGS and not forms & {Form.OPEN, Form.OBJECT}:
            return f'{wants}; {shown}{where} can be "cuda:0"'
        return f'{wants}; {shown}{where} can be "cuda:0" or a torch.device'

    def _origin(self, device: ast.expr) -> tuple[Related, ...]:
        """Where the device gets the value that is wrong here, else where it gets any."""
        path = path_of(device)
        if isinstance(device, ast.Attribute) and not path.startswith("self.") and path:
            bindings = self.forms.bindings.of(path, device)
        else:
            bindings = self.forms.bindings.of(path, device) if path else []
        best = sorted(
            bindings,
            key=lambda b: b.value is None or self.forms.of(b.value) <= {Form.TYPE} or bool(b.parameter),
        )
        if not best:
            return ()
        node = best[0].node
        if isinstance(node, ast.withitem):
            return ()
        what = "comes in" if best[0].parameter else "is set"
        return (Related(self.source.span(node), f"`{path}` {what} here"),)

    def _literal(self, call: AutocastCall, node: ast.Constant | ast.JoinedStr) -> Iterator[Finding]:
        """ "cuda:0" and f"cuda:{rank}" -> "cuda"."""
        code = self.source.code(node)
        if isinstance(node, ast.JoinedStr):
            head = node.values[0] if node.values else None
            if len(node.values) == 1 and isinstance(head, ast.FormattedValue):
                text = ""
            elif isinstance(head, ast.Constant):
                text = str(head.value)
            else:
                return
            if not text:
                assert isinstance(head, ast.FormattedValue)
                forms = self.forms.of(head.value)
                if forms != {Form.TYPE} and self._may_be_wrong(head.value, forms, call):
                    yield self._normalized(call, node, head.value, forms)
                return
        elif isinstance(node.value, str):
            text = node.value
        else:
            return
        kind, colon, _ = text.partition(":")
        if not colon or not device_literal(kind):
            return
        quote = code[-1]
        yield self.codemod.finding(
            self.source.span(node),
            f'`{call.name.rpartition(".")[2]}` wants a device type such as "{kind}", without an index',
            title=f'say "{kind}"',
            edits=(ReplaceExpression(self.source.span(node), f"{quote}{kind}{quote}"),),
        )

    # --- `.type` of the wrong thing --------------------------------------------------------

    def _type_of(self, call: AutocastCall, node: ast.Attribute) -> Iterator[Finding]:
        device = node.value
        if path_of(device) == "self.device" and self.nearby.lacks_device(device):
            near = self.nearby.tensor(call)
            message = (
                "`self` is an nn.Module without an attribute `device`: `self.device` raises AttributeError"
            )
            if near is None:
                yield self.codemod.finding(self.source.span(device), message)
            else:
                yield self.codemod.finding(
                    self.source.span(device), f"{message}; `{near.text}` is where the data is",
                    title=f"use the device of `{near.text.rpartition('.')[0]}`",
                    edits=(ReplaceExpression(self.source.span(device), near.text),),
                )  # fmt: skip
            return
        forms = self.forms.of(device)
        if forms and forms <= {Form.TYPE, Form.INDEXED} and isinstance(device, (ast.Name, ast.Attribute)):
            if isinstance(device, ast.Attribute) and device.attr == "type":
                return
            yield self.codemod.finding(
                self.source.span(node),
                f"`{self.source.code(device)}` is a string, and has no `type`",
                title=f"use `torch.device({self.source.code(device)}).type`",
                edits=(WrapExpression(self.source.span(device), f"{self.torch}.device(", ")"), *self.imports),
                related=self._origin(device),
            )

    # --- hard-coded types --------------------------------------------------------------------

    def _hard_coded(self, call: AutocastCall) -> Iterator[Finding]:
        if call.enabled is not None and self._is_available(call.enabled):
            yield from self._enabled(call, call.enabled)
            return
        near = self.nearby.at(call)
        if near is None or (self._guarded(call) and self._chosen_by_availability(near, call.node)):
            return
        span = self.source.span(call.node)
        where = f"`{near.text}`"
        off = isinstance(call.enabled, ast.Constant) and call.enabled.value is False
        effect = "is not switched off" if off else "does nothing"
        if call.decorated is not None:
            yield self.codemod.finding(
                span,
                f"this autocast is for CUDA only, but the data is on {where}: elsewhere it {effect}; "
                "a `with` statement in the function can follow the data, a decorator cannot",
            )
            return
        edits = self._follow(call, near)
        if not edits:
            return
        change = (
            "is switched off there" if off else "is switched on there, in bfloat16 unless a dtype is given"
        )
        yield self.codemod.finding(
            span,
            f"this autocast is for CUDA only, but the data is on {where}: on any other device it {effect}; "
            f"with the fix autocast on the CPU {change}",
            title=f"follow {where}",
            edits=edits,
            safety=Safety.UNSAFE,
            related=self._place(near),
        )

    def _follow(self, call: AutocastCall, near: Nearby) -> tuple[Edit, ...]:
        """Edits that make a call take the type of a device."""
        kind = near.type.replace("torch.", f"{self.torch}.", 1) if near.form is not Form.OBJECT else near.type
        imports = () if near.form is Form.OBJECT else self.imports
        if call.argument is not None:
            return (ReplaceExpression(self.source.span(call.argument), kind), *imports)
        if call.partial:
            return ()
        arguments = keyword_arguments(call.node, Api.CUDA_AUTOCAST)
        if arguments is None:
            return ()
        if "\n" in self.source.code(call.node):
            if call.node.args:
                return ()
            name = ReplaceExpression(self.source.span(call.node.func), f"{self.torch}.autocast")
            return (name, SetArgument(self.source.span(call.node), "device_type", kind), *self.imports)
        given = "".join(f", {name}={self.source.code(value)}" for name, value in arguments)
        text = f"{self.torch}.autocast({kind}{given})"
        return (ReplaceExpression(self.source.span(call.node), text), *self.imports)

    def _place(self, near: Nearby) -> tuple[Related, ...]:
        if near.origin is None or not hasattr(near.origin, "lineno"):
            return ()
        return (Related(self.source.span(near.origin), f"`{near.text}` is the device of the data"),)

    # --- availability --------------------------------------------------------------------------

    def _is_available(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.source.qualified(node.func) in _AVAILABLE

    def _value(self, node: ast.expr) -> ast.expr:
        """The one value of a variable, else the expression itself."""
        bindings = self.forms.bindings.of(path_of(node), node) if isinstance(node, ast.Name) else []
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].parameter else None
        return node if value is None else value

    def _by_availability(self, node: ast.expr) -> bool:
        """`"cuda" if torch.cuda.is_available() else "cpu"`."""
        if not isinstance(node, ast.IfExp) or not self._is_available(node.test):
            return False
        arms = [arm.value for arm in (node.body, node.orelse) if isinstance(arm, ast.Constant)]
        return len(arms) == 2 and arms[1] == "cpu" and arms[0] in ACCELERATORS

    def _chosen_by_availability(self, near: Nearby, at: ast.AST) -> bool:
        """Was the device itself chosen by the same test? Then both agree."""
        values = [binding.value for binding in self.forms.bindings.of(near.text, at)]
        return any(value is not None and "is_available" in ast.unparse(value) for value in values)

    def _guarded(self, call: AutocastCall) -> bool:
        """Does it run only where there is a CUDA device?"""
        chain = (one for one in around(self.source, call.node) if isinstance(one, ast.If))
        return any("is_available" in ast.unparse(one.test) for one in chain)

    def _availability(self, call: AutocastCall, argument: ast.expr) -> Iterator[Finding]:
        near = self.nearby.at(AutocastCall(call.node, call.api, call.name, argument, call.enabled))
        if near is None or self._chosen_by_availability(near, call.node):
            return
        edits = self._follow(call, near)
        if edits:
            yield self.codemod.finding(
                self.source.span(argument),
                f"this asks whether there is a GPU, not where the data is: `{near.text}` may be the CPU; "
                "with the fix autocast is switched on for data on the CPU of a machine with a GPU",
                title=f"follow `{near.text}`",
                edits=edits,
                safety=Safety.UNSAFE,
                related=self._place(near),
            )

    def _enabled(self, call: AutocastCall, enabled: ast.expr) -> Iterator[Finding]:
        near = self.nearby.at(call)
        if near is None or self._chosen_by_availability(near, call.node):
            return
        message = (
            f"autocast is switched on by `{self.source.code(enabled)}`, wherever the data is: "
            f"`{near.text}` may be the CPU"
        )
        if call.decorated is not None:
            yield self.codemod.finding(self.source.span(enabled), message, related=self._place(near))
            return
        kind = near.type if near.form is Form.OBJECT else f"{self.torch}.device({near.text}).type"
        yield self.codemod.finding(
            self.source.span(enabled), message, title=f"ask `{near.text}`",
            edits=(ReplaceExpression(self.source.span(enabled), f'{kind} == "cuda"'), *self.imports),
            related=self._place(near),
        )  # fmt: skip

    # --- "cuda" in device ------------------------------------------------------------------------

    def membership(self) -> Iterator[Finding]:
        """`"cuda" in self.device` where that decides on the device type and may be a torch.device."""
        wanted = {path_of(call.argument) for call in self.calls if call.argument is not None} - {""}
        if not wanted:
            return
        for node in self.source.walk():
            if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In):
                continue
            device, text = node.comparators[0], node.left
            if not isinstance(text, ast.Constant) or text.value not in ACCELERATORS:
                continue
            path = path_of(device)
            if not looks_like_device(_plain(path)) or not self._decides(node, wanted):
                continue
            forms = self.forms.of(device)
            if (
                (forms and forms <= STRINGS - {Form.DECLARED})
                or self._used_as_string(path)
                or self._tested(node, path)
            ):
                continue
            exact = forms == {Form.OBJECT}
            code = self.source.code(device)
            kind = f"{code}.type" if exact else f"{self.torch}.device({code}).type"
            quoted = self.source.code(text)
            yield self.codemod.finding(
                self.source.span(node),
                f"`{code}` {'is' if exact else 'can be'} a torch.device, and `in` raises TypeError for one; "
                "the device type of autocast is decided here",
                title=f"ask for the type of `{code}`",
                edits=(ReplaceExpression(self.source.span(node), f"{kind} == {quoted}"),
                       *(() if exact else self.imports)),
                related=self._origin(device),
            )  # fmt: skip

    def _decides(self, node: ast.Compare, wanted: set[str]) -> bool:
        """Does the answer choose between types that reach an autocast?"""
        parent = self.source.parents[node]
        if isinstance(parent, ast.IfExp) and parent.test is node:
            target = self.source.statement(parent)
            targets = target.targets if isinstance(target, ast.Assign) else []
            return parent in {c.argument for c in self.calls} or any(path_of(t) in wanted for t in targets)
        if isinstance(parent, ast.If) and parent.test is node:
            return any(
                isinstance(inner, ast.Assign) and any(path_of(target) in wanted for target in inner.targets)
                for inner in parent.body
            )
        return False

    def _used_as_string(self, path: str) -> bool:
        """Is the same name cut or asked like a string somewhere in the file?"""
        text = self.source.text
        return any(f"{path}{use}" in text for use in ("[", ".split(", ".startswith(", ".replace(", ".lower("))

    def _tested(self, node: ast.AST, path: str) -> bool:
        """Is it in an `if isinstance(device, ...)`, or on the other side of one?"""
        up: ast.AST | None = node
        while up is not None:
            if isinstance(up, (ast.If, ast.IfExp)) and f"isinstance({path}" in self.source.code(up.test):
                return True
            up = self.source.parents.get(up)
        return False


def _plain(path: str) -> str:
    """`config['device']` as `config.device`, to be judged by its name."""
    return path.replace("['", ".").replace("']", "")


def _is_primary(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
