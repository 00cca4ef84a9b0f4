"""Autocast for CUDA only, in code that runs on any device: let it follow its data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.autocast.calls import Api, AutocastCall, keyword_arguments
from devfix.autocast.file import File
from devfix.autocast.nearby import Nearby
from devfix.device_forms import Form
from devfix.findings import Edit, Finding, Related, ReplaceExpression, Safety, SetArgument
from devfix.flow.frame import path_of
from devfix.flow.torch_api import ACCELERATORS
from devfix.placing import around

_AVAILABLE = ("torch.cuda.is_available", "torch.accelerator.is_available")


class Following:
    """Judges calls whose device type is written down or asked of the machine."""

    def __init__(self, file: File) -> None:
        self.file = file

    def check(self, call: AutocastCall) -> Iterator[Finding]:
        """A call whose argument has the right form: is it the right type?"""
        argument = call.argument
        if argument is None:
            if call.api is Api.CUDA_AUTOCAST:
                yield from self._hard_coded(call)
        elif call.api is Api.AUTOCAST:
            if isinstance(argument, ast.Constant) and argument.value == "cuda":
                yield from self._hard_coded(call)
            elif self._by_availability(self._value(argument)):
                yield from self._availability(call, argument)

    # --- hard-coded types --------------------------------------------------------------------

    def _hard_coded(self, call: AutocastCall) -> Iterator[Finding]:
        if call.enabled is not None and self._is_available(call.enabled):
            yield from self._enabled(call, call.enabled)
            return
        near = self.file.nearby.at(call)
        if near is None:
            return
        off = isinstance(call.enabled, ast.Constant) and call.enabled.value is False
        if self._guarded(call) and (off or self._chosen_by_availability(near, call.node)):
            return
        span = self.file.source.span(call.node)
        where = f"`{near.text}`"
        effect = "is not switched off" if off else "does nothing"
        if call.decorated is not None:
            yield self.file.finding(
                span,
                f"this autocast is for CUDA only, but the data is on {where}: elsewhere it {effect}; "
                "a `with` statement in the function can follow the data, a decorator cannot",
            )
            return
        edits = self._follow(call, near)
        if not edits:
            return
        change = "off for the CPU, too" if off else "on for the CPU, too, in bfloat16 unless a dtype is given"
        yield self.file.finding(
            span,
            f"this autocast is for CUDA only, but the data is on {where}: on any other device it {effect}. "
            f"The fix switches it {change}",
            title=f"follow {where}",
            edits=edits,
            safety=Safety.UNSAFE,
            related=self._place(near),
        )

    def _follow(self, call: AutocastCall, near: Nearby) -> tuple[Edit, ...]:
        """Edits that make a call take the type of a device."""
        kind, imports = self._type(near)
        if call.argument is not None:
            return (ReplaceExpression(self.file.source.span(call.argument), kind), *imports)
        if call.partial:
            return ()
        arguments = keyword_arguments(call.node, Api.CUDA_AUTOCAST)
        if arguments is None:
            return ()
        span = self.file.source.span(call.node)
        if "\n" in self.file.source.code(call.node):
            name = ReplaceExpression(self.file.source.span(call.node.func), f"{self.file.torch}.autocast")
            more = SetArgument(span, "device_type", kind)
            return () if call.node.args else (name, more, *self.file.imports)
        given = "".join(f", {name}={self.file.source.code(value)}" for name, value in arguments)
        return (ReplaceExpression(span, f"{self.file.torch}.autocast({kind}{given})"), *self.file.imports)

    def _type(self, near: Nearby) -> tuple[str, tuple[Edit, ...]]:
        """The expression for the type of a device, and the import that it needs."""
        if near.form is Form.OBJECT:
            return f"{near.text}.type", ()
        return f"{self.file.torch}.device({near.text}).type", self.file.imports

    def _place(self, near: Nearby) -> tuple[Related, ...]:
        if near.origin is None or not hasattr(near.origin, "lineno"):
            return ()
        return (Related(self.file.source.span(near.origin), f"`{near.text}` is the device of the data"),)

    # --- availability --------------------------------------------------------------------------

    def _is_available(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.file.source.qualified(node.func) in _AVAILABLE

    def _value(self, node: ast.expr) -> ast.expr:
        """The one value of a variable, else the expression itself."""
        bindings = self.file.forms.bindings.of(path_of(node), node) if isinstance(node, ast.Name) else []
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].parameter else None
        return node if value is None else value

    def _by_availability(self, node: ast.expr) -> bool:
        """`"cuda" if torch.cuda.is_available() else "cpu"`."""
        if not isinstance(node, ast.IfExp):
            return False
        test, arms = node.test, [node.body, node.orelse]
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, arms = test.operand, [node.orelse, node.body]
        if not self._is_available(test):
            return False
        names = [arm.value for arm in arms if isinstance(arm, ast.Constant)]
        return len(names) == 2 and names[1] == "cpu" and names[0] in ACCELERATORS

    def _chosen_by_availability(self, near: Nearby, at: ast.AST) -> bool:
        """Was the device itself chosen by the same test? Then both agree."""
        values = [binding.value for binding in self.file.forms.bindings.of(near.text, at)]
        return any(value is not None and "is_available" in ast.unparse(value) for value in values)

    def _guarded(self, call: AutocastCall) -> bool:
        """Does it run only where there is a CUDA device?"""
        chain = (one for one in around(self.file.source, call.node) if isinstance(one, ast.If))
        return any("is_available" in ast.unparse(one.test) for one in chain)

    def _availability(self, call: AutocastCall, argument: ast.expr) -> Iterator[Finding]:
        near = self.file.nearby.at(call)
        if near is None or call.decorated is not None or self._chosen_by_availability(near, call.node):
            return
        edits = self._follow(call, near)
        if edits:
            yield self.file.finding(
                self.file.source.span(argument),
                f"this asks whether there is a GPU, not where the data is: `{near.text}` may be the CPU. "
                "The fix switches autocast on for data on the CPU of a machine with a GPU",
                title=f"follow `{near.text}`",
                edits=edits,
                safety=Safety.UNSAFE,
                related=self._place(near),
            )

    def _enabled(self, call: AutocastCall, enabled: ast.expr) -> Iterator[Finding]:
        near = self.file.nearby.at(call)
        if near is None or self._chosen_by_availability(near, call.node):
            return
        message = (
            f"autocast is enabled by `{self.file.source.code(enabled)}`, even if the data is elsewhere: "
            f"`{near.text}` may be the CPU"
        )
        if call.decorated is not None:
            yield self.file.finding(self.file.source.span(enabled), message, related=self._place(near))
            return
        kind, imports = self._type(near)
        span = self.file.source.span(enabled)
        edits = (ReplaceExpression(span, f'{kind} == "cuda"'), *imports)
        yield self.file.finding(span, message, f"ask `{near.text}`", edits, related=self._place(near))
